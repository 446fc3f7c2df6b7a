/* Files that grow until they are whole: what is written goes to PATH.partial, which takes the place
 * of PATH at the end. */
#ifndef BATCH_FILE_H
#define BATCH_FILE_H

#include "sink.h"
#include <sys/stat.h>

typedef struct batch_file {
    char *path, *partial;
    int fd;       /* of the partial file, locked; -1: it is closed */
    int64_t size; /* with what is pending */
    batch_bytes pending;
} batch_file;

/* Finds the names: links at `path` are followed. Writes nothing. */
tenon_status batch_file_name(const char *path, batch_file *out);
bool batch_file_exists(const char *path);
/* Whether both tell of one file. */
static inline bool batch_stat_is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}
/* Whether two paths are one file, or would be if it were there: however they are written, and
 * through links of both kinds. */
bool batch_file_is_same(const char *a, const char *b);
/* Whether a file at `path` lies, or would lie, in this folder itself. */
bool batch_file_is_in(const char *path, const char *folder);

/* Opens the partial file and keeps its first `size` bytes, which must be there. */
tenon_status batch_file_open(batch_file *file, int64_t size);
tenon_status batch_file_append(batch_file *file, const void *data, size_t size);
/* Writes the first bytes again. */
tenon_status batch_file_patch(batch_file *file, const void *data, size_t size);
/* Everything that was appended is on disk when it returns. */
tenon_status batch_file_sync(batch_file *file);
/* Gives the file its name; not synced. */
tenon_status batch_file_rename(batch_file *file);
tenon_status batch_file_remove(batch_file *file); /* the partial file */
/* So that names in its folder are on disk. */
tenon_status batch_file_sync_folder(const char *path);
void batch_file_close(batch_file *file);

/* Opens a file and locks it: fails when another job has it. */
tenon_status batch_open_locked(const char *path, int *fd);

#endif
