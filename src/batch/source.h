/* Sources: where a job's samples come from. A sample is what one row of each of the model's inputs
 * takes. */
#ifndef BATCH_SOURCE_H
#define BATCH_SOURCE_H

#include <cjson/cJSON.h>
#include <sys/stat.h>
#include <tenon/tenon.h>

enum { BATCH_TEXT = 512 }; /* bytes of names and reasons, with their end */

/* An input of the model, as one sample fills it. */
typedef struct batch_field {
    const char *name;
    tenon_view row; /* dtype, shape and row-major strides without the first axis; no data */
    size_t bytes;   /* of a row */
} batch_field;

typedef enum batch_got {
    BATCH_GOT,    /* the rows are filled */
    BATCH_BAD,    /* this sample cannot be used, others may be; `why` tells */
    BATCH_FAILED, /* the machine failed, nothing more can be read; `why` tells */
    BATCH_END     /* a source of unknown length has no such sample */
} batch_got;

/* Implementations put this first in a structure of their own. Functions that return a status fail
 * through tenon_fail. */
typedef struct batch_source batch_source;
struct batch_source {
    int64_t count; /* samples; -1: not known before the end */
    int loaders;   /* threads that may fetch at once, 0: any number. With 1, samples are asked for
                      in order, from any on. */
    /* Fills sample `index`: rows[k] is the row of field k (of those that the source was made for),
     * contiguous memory of the dtype and shape that the field tells. Whatever it returns but GOT
     * may leave them half written. `why` has room for BATCH_TEXT bytes. Called from several
     * threads at once, as `loaders` allows. */
    batch_got (*fetch)(batch_source *source, int64_t index, const tenon_view *rows, char *why);
    /* Writes the name of a sample, for people: "images.npy[17]", "cat.jpg". At most BATCH_TEXT
     * bytes. Thread-safe. */
    void (*name)(const batch_source *source, int64_t index, char *text);
    /* Adds what tells this source from another to `facts`, strings and numbers by name: sizes,
     * times of change, options that change what samples hold. A resumed job must find the same. */
    tenon_status (*identify)(const batch_source *source, cJSON *facts);
    /* Whether this is one of the files that it reads. */
    bool (*reads)(const batch_source *source, const struct stat *file);
    /* With one loader only, may be NULL: a hash of everything that was read up to the end of the
     * last sample that was fetched, for sources that cannot be told apart before. */
    uint64_t (*digest)(const batch_source *source);
    void (*destroy)(batch_source *source);
};

/* One .npy, .npz or safetensors file, or a folder of these in the order of their names, for these
 * fields. The fields must live as long as the source. */
tenon_status batch_source_files(const char *path, const batch_field *fields, int count,
                                batch_source **out);
/* Records of raw bytes, all fields one after the other, from a stream. */
tenon_status batch_source_stream(int fd, const batch_field *fields, int count, batch_source **out);
/* Several sources side by side: part k fills `counts[k]` of the fields, whose numbers are
 * `fields[k]`. They must have equally many samples. Takes the parts over when it succeeds. */
tenon_status batch_source_join(batch_source *const *parts, const char *const *names,
                               const int *const *fields, const int *counts, int part_count,
                               batch_source **out);
/* Whether a folder of samples takes a file of this name for an array. */
bool batch_source_is_array(const char *name);
void batch_source_destroy(batch_source **source);

/* The dtype and shape of the array (of that name, where there are several) in a file, or in the
 * first file of a folder; dtype NONE where there is none that can be read. */
void batch_source_peek(const char *path, const char *name, tenon_view *out);

/* Copies one row of dtype `from` at `bytes`, which need no alignment. It has the field's dtype, or
 * one that a run takes in its place: float32 for bfloat16, and bfloat16 and float16 for float32. */
bool batch_row_fits(tenon_dtype from, tenon_dtype to);
tenon_status batch_row_copy(const tenon_view *row, tenon_dtype from, const void *bytes);

#endif
