/* Files in memory, read from front to back. */
#ifndef BATCH_MAPPED_H
#define BATCH_MAPPED_H

#include <stdio.h>
#include <tenon/tenon.h>

typedef struct batch_mapped {
    char *path, *data;
    size_t size;
    size_t released; /* in front of here the pages were given back */
} batch_mapped;

/* Whether an error of opening a file is a fault of that file: others are the machine's. */
bool batch_fault_of_file(int error);

/* Opens a regular file for reading: it neither waits for who writes into a pipe, nor reads what has
 * no end. INVALID_FILE and IO as below. */
tenon_status batch_open_regular(const char *path, int *fd, int64_t *size);
tenon_status batch_open_lines(const char *path, FILE **out);

/* All zero is an empty one. INVALID_FILE for a fault of the file, IO for one of the machine. */
tenon_status batch_map(const char *path, batch_mapped *out);
void batch_unmap(batch_mapped *mapped);

/* Copies bytes that lie inside. A page that the disk does not give (SIGBUS) is INVALID_FILE when
 * the file became shorter, and an IO failure otherwise. Pages that lie well in front of these are
 * given back, so that the memory in use does not grow with the file. */
tenon_status batch_mapped_read(batch_mapped *mapped, size_t at, size_t size, void *to);
/* Likewise the elements of a view of any strides, row by row. `at` is where the first one is; its
 * data is not used. No pages are given back. */
tenon_status batch_mapped_gather(batch_mapped *mapped, size_t at, const tenon_view *view, void *to);

#endif
