/* Files mapped read-only. */
#ifndef TN_MAP_FILE_H
#define TN_MAP_FILE_H

#include "core/tensor.h"

/* Maps a file as a storage of its size; an empty or unmappable one is read instead. IO names the
 * path. */
tenon_status tn_map_file(const char *path, tn_storage **out);

#endif
