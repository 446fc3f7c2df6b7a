/* Batch jobs, behind `tenon batch`: a model is run on all samples of its inputs, and the outputs go
 * to files, in order. A job may be interrupted at any moment and be resumed. docs/batch.md is for
 * users. It uses Tenon's public API only.
 *
 * Functions that return a status fail through tenon_fail. */
#ifndef BATCH_H
#define BATCH_H

#include "image.h"
#include <cjson/cJSON.h>
#include <tenon/tenon.h>

#define BATCH_TRY(call)                         \
    do {                                        \
        tenon_status batch_try_status = (call); \
        if (batch_try_status != TENON_OK)       \
            return batch_try_status;            \
    } while (0)

tenon_status batch_no_memory(void);
/* What a failed call of the system's means, by its errno: OUT_OF_MEMORY, or IO. */
tenon_status batch_io_status(int error);

#ifdef __clang_analyzer__ /* tools/analyse must know what these return */
#define cJSON_IsString(item) ((item) && cJSON_IsString(item))
#define batch_no_memory() ((void)batch_no_memory(), TENON_OUT_OF_MEMORY)
#define tenon_fail(status, ...) ((void)tenon_fail(status, __VA_ARGS__), (status))
#endif

typedef struct batch_pair {
    const char *name; /* NULL: none was given */
    const char *value;
} batch_pair;

typedef struct batch_pairs {
    const batch_pair *items;
    int count;
} batch_pairs;

/* What a .csv file holds of an output: the best classes of each sample. */
typedef struct batch_topk {
    int64_t count;      /* classes for each sample, or all where there are fewer; 0: 5 */
    const char *labels; /* a file with one in each line, as many as classes; NULL: none */
    bool softmax;       /* scores are probabilities, and not what the model gives */
} batch_topk;

/* What was asked for. Zero in a field is the default. */
typedef struct batch_job {
    const char *model;
    batch_pairs inputs;  /* paths (a name may be missing), "-", or numbers */
    batch_pairs outputs; /* paths; without a name it is a folder, or the file of the only output */
    batch_pairs dims;    /* sizes of symbols, as text */
    tenon_session_options session;
    tenon_load_options load;
    int64_t batch;      /* samples a run; 0: the model's, or a default where that is open */
    int instances;      /* 0: chosen by measurement */
    int64_t checkpoint; /* batches from one checkpoint to the next; 0: about a second of work */
    int shard, shards;  /* the part of the samples to do; 0 of 0: all */
    const struct batch_ranks *ranks; /* processes that share the job, of which this is one (the
                                        shard is its own); NULL: none */
    struct batch_report *report;     /* receives how far this one is; may be NULL without ranks */
    const image_transform *images;   /* NULL: image_standard; else there must be images */
    const batch_topk *topk;          /* NULL: nothing was asked for */
    bool resume, overwrite, skip_bad, check_nan, quiet;
    const char *errors; /* file for bad samples, .csv or .jsonl; NULL: none, or, where these are
                           skipped, beside the output */
    const char *json;   /* file for the summary */
    const cJSON *facts; /* options that change results, as strings by name: a resumed job must have
                           the same */
} batch_job;

typedef enum batch_end {
    BATCH_FINISHED,
    BATCH_INTERRUPTED, /* by batch_stop; can be resumed */
    BATCH_FAILURE,     /* tenon_last_error tells */
    BATCH_USAGE        /* likewise: what was asked for is wrong, by itself or for this model */
} batch_end;

/* Does the job. */
batch_end batch_run(const batch_job *job);

/* Asks the running job to end when what it has begun is done. May be called in a signal's handler,
 * and from any thread. */
void batch_stop(void);
bool batch_stopped(void);

#endif
