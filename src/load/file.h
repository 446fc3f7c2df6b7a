/* Files while they are loaded. What loading itself looks at is read, and what becomes weights is
 * mapped: a file that is cut off while it is loaded is an error, and no signal. */
#ifndef TN_LOAD_FILE_H
#define TN_LOAD_FILE_H

#include "core/tensor.h"
#include <sys/stat.h>

typedef struct tn_file {
    const char *path; /* of the caller, as long as it is open */
    int fd;
    struct stat seen; /* as it was opened */
    size_t size;
    tn_storage *bytes; /* all of it, mapped read-only or copied; NULL until tn_file_map */
} tn_file;

/* IO names the path. All zero is a closed one, which may be closed again. */
tenon_status tn_file_open(tn_file *file, const char *path);
/* The bytes stay with those who share the storage. */
void tn_file_close(tn_file *file);

/* Makes `bytes`; `copy`: in memory of its own, so that the file may change afterwards. */
tenon_status tn_file_map(tn_file *file, bool copy);

/* Reads `size` bytes at `offset`; IO when the file has fewer by now. */
tenon_status tn_file_read(const tn_file *file, size_t offset, void *to, size_t size);

/* IO when the file is not what it was when it was opened. */
tenon_status tn_file_check(const tn_file *file);

/* The whole of a regular file, with a NUL behind it, which the caller frees. IO, also when it
 * changed meanwhile. */
tenon_status tn_file_read_all(const char *path, char **out, size_t *size);

#endif
