/* Files that hold arrays: .npy, .npz and safetensors. */
#ifndef BATCH_FORMATS_H
#define BATCH_FORMATS_H

#include <tenon/tenon.h>

/* "f4" of float32; "" of what .npy has not. */
const char *batch_npy_dtype(tenon_dtype dtype);
const char *batch_safetensors_dtype_text(tenon_dtype dtype); /* "F32" */
tenon_dtype batch_safetensors_dtype(const char *text);       /* NONE for others */

/* An open file. Used by one thread at a time. */
typedef struct batch_archive batch_archive;

/* An array in it. `view.data` is NULL. */
typedef struct batch_array {
    int index;        /* for the archive */
    const char *name; /* of the archive; "" in .npy */
    tenon_view view;
} batch_array;

tenon_status batch_archive_open(const char *path, batch_archive **out);
void batch_archive_close(batch_archive **archive);
/* The array of that name, or, with `any`, the only one. NOT_FOUND says what there is. */
tenon_status batch_archive_find(batch_archive *archive, const char *name, bool any,
                                batch_array *out);
/* Copies row `index` of an array, as batch_row_copy does. IO when the machine fails, INVALID_FILE
 * for bytes that cannot be decompressed. */
tenon_status batch_archive_read(batch_archive *archive, const batch_array *array, int64_t index,
                                const tenon_view *row);
/* The file's size and time of change, as text. */
tenon_status batch_file_facts(const char *path, char *text, size_t capacity);

#endif
