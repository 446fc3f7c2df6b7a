/* The safetensors format. */
#ifndef TN_WEIGHTS_H
#define TN_WEIGHTS_H

#include "core/tensor.h"
#include "core/util.h"
#include "load/file.h"
#include <stdio.h>

typedef struct tn_safetensors {
    const char *path;
    tn_file file;
    struct cJSON *header;
    tn_map tensors;        /* names to cJSON items */
    int64_t data_at, size; /* where the tensors' bytes begin, and how many there are */
} tn_safetensors;

/* All zero is a closed one. `path` must live as long. On failure it is closed again.
 * `copy`: as tn_file_map. IO, INVALID_FILE. */
tenon_status tn_safetensors_open(tn_safetensors *file, const char *path, bool copy);
void tn_safetensors_close(tn_safetensors *file);
/* The tensor of that name, mapped where its bytes are aligned. */
tenon_status tn_safetensors_get(const tn_safetensors *file, const char *name, tenon_tensor **out);

typedef struct tn_named_view {
    const char *name;
    const tenon_view *view;
} tn_named_view;

/* Writes tensors, row-major, in an order that keeps each aligned. Sorts `views`. */
tenon_status tn_safetensors_write(FILE *stream, const char *path, tn_named_view *views, int count);

#endif
