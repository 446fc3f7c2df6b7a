/* Filling batches, running them, and giving them back in order. Loader threads fill slots, which
 * take turns, so that a job's memory does not depend on its length. */
#ifndef BATCH_FEED_H
#define BATCH_FEED_H

#include "model.h"
#include <tenon/pool.h>

typedef struct batch_slot {
    int64_t batch; /* which one, from 0 */
    int64_t first; /* its first sample */
    int64_t count; /* samples; the other rows repeat one of these */
    tenon_view *inputs, *outputs;
    tenon_tensor **memory; /* of both */
    bool *bad;             /* by row */
    char **why;            /* by row: what is bad about it; NULL: out of memory, or nothing */
    int64_t bad_count;
    uint64_t digest;     /* the source's, behind the last sample */
    tenon_status status; /* of loading (IO) and running */
    bool loaded;         /* the source gave it, so a failure is the run's */
    char message[1024];
    int state;
    struct batch_feed *feed;
} batch_slot;

typedef struct batch_feed batch_feed;

typedef struct batch_feed_options {
    int64_t first, end; /* samples; end is -1 where the source knows no count */
    int64_t done;       /* of these, leading ones that need not be done; a multiple of the batch, or
                           all */
    uint64_t digest;    /* the source's, behind these */
    const bool *wanted; /* by output of the model */
    bool check_nan;
} batch_feed_options;

/* Starts the threads. Everything given must live as long as the feed. */
tenon_status batch_feed_start(const batch_model *model, tenon_pool *pool,
                              const batch_feed_options *options, batch_feed **out);

/* Waits up to so many milliseconds for the next batch in order. False when there is none yet, and
 * when there will be none any more, which sets `ended`. */
bool batch_feed_next(batch_feed *feed, int milliseconds, batch_slot **out, bool *ended);
/* The caller is done with the batch that the last call gave. */
void batch_feed_release(batch_feed *feed);

/* Runs a batch again whose run failed, to find the samples that are to blame: these become bad. */
tenon_status batch_feed_isolate(batch_feed *feed, batch_slot *slot);

/* Marks a sample as bad. */
tenon_status batch_slot_blame(batch_slot *slot, int64_t row, const char *why);

/* Samples that the source has, once that is known; -1 before. */
int64_t batch_feed_total(batch_feed *feed);

/* Ends the threads: what they have begun is finished first. */
void batch_feed_stop(batch_feed **feed);

/* Whether a contiguous array of floats holds NaN. */
bool batch_has_nan(const tenon_view *view);

#endif
