/* Files mapped read-only, and files written whole or not at all. */
#ifndef TN_MAP_FILE_H
#define TN_MAP_FILE_H

#include "core/tensor.h"
#include <stdio.h>

/* Maps a file as a storage of its size; an empty or unmappable one is read instead. IO names the
 * path. */
tenon_status tn_map_file(const char *path, tn_storage **out);

/* A file that takes the place of `path` only when tn_replace_commit succeeds. */
typedef struct tn_replace {
    const char *path;
    char *temporary;
    FILE *file;
} tn_replace;

/* All zero is a closed one. */
tenon_status tn_replace_open(tn_replace *replace, const char *path);
/* Writes everything out and gives the file its name. */
tenon_status tn_replace_commit(tn_replace *replace);
/* Removes what was not committed. May be called at any time. */
void tn_replace_close(tn_replace *replace);

#endif
