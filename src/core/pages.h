/* Pages of memory. */
#ifndef TN_PAGES_H
#define TN_PAGES_H

#include <stddef.h>

/* Asks the system for large pages (2 MiB) where they fit into memory that has just been allocated
 * and not yet been written: weights and activations are read in long runs, and with small pages
 * looking up addresses takes a part of that time. A hint: nothing fails, and systems without such
 * pages, or told not to give them, do nothing. */
void tn_pages_large(void *data, size_t size);

#endif
