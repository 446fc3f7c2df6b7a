/* The files of a job: one for each output, then the one for bad samples. */
#ifndef BATCH_OUTPUTS_H
#define BATCH_OUTPUTS_H

#include "file.h"
#include "journal.h"
#include "model.h"
#include <tenon/pool.h>

typedef struct batch_output {
    int index;        /* of the model's output; -1: bad samples */
    batch_sink *sink; /* made by batch_outputs_sinks */
    bool optional;    /* it goes when no sample was bad */
    batch_file file;
} batch_output;

typedef struct batch_outputs {
    batch_output items[BATCH_MOST_FILES];
    int count;
    char *journal;     /* its path */
    char *folder;      /* that must be made for them; NULL: none */
    bool *wanted;      /* by output of the model */
    batch_bytes bytes; /* of one batch */
} batch_outputs;

/* The path of a job's journal, beside this first file, or in the folder (NULL: none). */
tenon_status batch_journal_path(const char *file, const char *folder, int shard, int shards,
                                char **out);
/* Whether a path is that of a file, and not of a folder for files. */
bool batch_is_file_path(const char *path);
/* .npy and .safetensors, and not tables in text. */
bool batch_is_array_path(const char *path);

/* Finds out which outputs go where. Writes nothing. */
tenon_status batch_outputs_plan(const batch_job *job, const batch_model *model, batch_outputs *out);
/* Makes what turns rows into bytes, for the shapes that the pool has. */
tenon_status batch_outputs_sinks(batch_outputs *outputs, const batch_job *job,
                                 const batch_model *model, const tenon_pool *pool);

/* Opens the files: new ones with headers for so many rows (-1: not known) or, with `state`, as it
 * says. */
tenon_status batch_outputs_open(batch_outputs *outputs, const batch_state *state, int64_t rows);
/* Adds a batch: views of all of the model's outputs, `count` rows from sample `first`, counted in
 * the whole job. */
tenon_status batch_outputs_add(batch_outputs *outputs, const batch_model *model,
                               const tenon_view *views, int64_t first, int64_t count,
                               const bool *bad, char *const *why);
/* Everything is on disk when it returns, and its sizes are in `state`. */
tenon_status batch_outputs_sync(batch_outputs *outputs, batch_state *state);
/* Writes the headers for that many rows, and syncs. */
tenon_status batch_outputs_finish(batch_outputs *outputs, int64_t rows, batch_state *state);
/* Gives the files their names; some may have them. */
tenon_status batch_outputs_rename(batch_outputs *outputs, const batch_state *state);
/* Whether any file is there under its name; its path is in `path` (may be NULL). */
bool batch_outputs_exist(const batch_outputs *outputs, const char **path);
/* Whether all files are there, with the sizes of `state`. */
bool batch_outputs_match(const batch_outputs *outputs, const batch_state *state);
void batch_outputs_close(batch_outputs *outputs);

/* "DIR/NAME.I-of-N.npy" of "DIR/NAME.npy"; the caller frees it. */
tenon_status batch_shard_path(const char *path, int shard, int shards, char **out);

#endif
