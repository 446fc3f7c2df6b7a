/* Files in memory, read from front to back. */
#ifndef BATCH_MAPPED_H
#define BATCH_MAPPED_H

#include <tenon/tenon.h>

typedef struct batch_mapped {
    char *path, *data;
    size_t size;
    size_t released; /* in front of here the pages were given back */
} batch_mapped;

/* All zero is an empty one. */
tenon_status batch_map(const char *path, batch_mapped *out);
void batch_unmap(batch_mapped *mapped);

/* Copies bytes that lie inside. A page that the disk does not give (SIGBUS: it fails, or the file
 * became shorter) is an IO failure. Pages that lie well in front of these are given back, so that
 * the memory in use does not grow with the file. */
tenon_status batch_mapped_read(batch_mapped *mapped, size_t at, size_t size, void *to);

#endif
