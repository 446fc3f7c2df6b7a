/* Sinks: what a job makes of an output. A sink turns rows into bytes; the job appends these to a
 * file, and takes care of syncing, of interruptions and of the final name. */
#ifndef BATCH_SINK_H
#define BATCH_SINK_H

#include "source.h"

/* Growing bytes. All zero is empty. */
typedef struct batch_bytes {
    char *data;
    size_t size, capacity;
} batch_bytes;

/* Makes room for `size` more bytes and returns where they go, counted as there; NULL: out of
 * memory, and tenon_fail was called. */
char *batch_bytes_add(batch_bytes *bytes, size_t size);
tenon_status batch_bytes_put(batch_bytes *bytes, const void *data, size_t size);
tenon_status batch_bytes_print(batch_bytes *bytes, const char *format, ...) TENON_PRINTF(2, 3);
void batch_bytes_free(batch_bytes *bytes);

/* Rows of one output, in order. */
typedef struct batch_rows {
    int64_t first;    /* number of the first one's sample, in the whole job */
    int64_t count;    /* of rows */
    tenon_view view;  /* the output's dtype; shape[0] is `count`; contiguous */
    const bool *bad;  /* by row: a sample that was skipped; what its row holds is arbitrary */
    char *const *why; /* by row: what is bad about it; may hold NULL */
    const batch_source *source; /* for the samples' names */
} batch_rows;

/* Implementations put this first in a structure of their own. Every sample has a row; one that was
 * skipped is told by its row: NaN, or 0 in dtypes that have none. Used by one thread. */
typedef struct batch_sink batch_sink;
struct batch_sink {
    size_t header_size; /* bytes in front of the first row; the same for any number of rows */
    /* Writes that many bytes, for so many rows. It is asked for again at the end, where the number
     * was not known before. */
    tenon_status (*header)(const batch_sink *sink, int64_t rows, char *bytes);
    /* Appends what the rows become. It must depend on these rows alone. */
    tenon_status (*encode)(batch_sink *sink, const batch_rows *rows, batch_bytes *out);
    void (*destroy)(batch_sink *sink);
};

/* `output` is the name, and `row` the dtype and shape of a row, of a model's output. A .npy file
 * has float32 for bfloat16. */
tenon_status batch_sink_npy(const char *output, const tenon_view *row, batch_sink **out);
tenon_status batch_sink_safetensors(const char *output, const tenon_view *row, batch_sink **out);
/* Bad samples, in CSV or as lines of JSON. `view` of its rows is not used. */
tenon_status batch_sink_errors(bool json, batch_sink **out);
void batch_sink_destroy(batch_sink **sink);

/* Appends a field of a CSV file. */
tenon_status batch_csv_quote(batch_bytes *out, const char *text);

/* Fills the contiguous elements of a row with NaN, or 0. */
void batch_row_blank(tenon_dtype dtype, void *data, size_t bytes);

#endif
