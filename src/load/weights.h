/* Weights in files: tensors over mapped bytes, and the safetensors format. */
#ifndef TN_WEIGHTS_H
#define TN_WEIGHTS_H

#include "core/tensor.h"
#include "core/util.h"
#include <stdio.h>

/* A tensor over part of a storage, whose bytes came from a file: bools that are not 0 or 1 are
 * copied as true. */
tenon_status tn_weights_tensor(tn_storage *storage, const tenon_view *view, tenon_tensor **out);

typedef struct tn_safetensors {
    const char *path;
    tn_storage *file;
    struct cJSON *header;
    tn_map tensors; /* names to cJSON items */
    char *data;
    int64_t size; /* of data */
} tn_safetensors;

/* All zero is a closed one. `path` must live as long. On failure it is closed again. IO,
 * INVALID_FILE. */
tenon_status tn_safetensors_open(tn_safetensors *file, const char *path);
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
