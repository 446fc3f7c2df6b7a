/* Pools: instances of one model that serve requests, each with threads, cores and memory of its
 * own. Read status.h and session.h first.
 *
 *     tenon_pool *pool = NULL;
 *     tenon_pool_options options = {.instances = 2};
 *     tenon_pool_create(graph, NULL, &options, samples, input_count, &pool);
 *     tenon_pool_submit(pool, inputs, input_count, outputs, output_count, NULL, NULL, &request);
 *     ...
 *     tenon_request_wait(&request);
 *     tenon_pool_destroy(&pool);
 *
 * All functions are thread-safe, except that nobody may use a pool while it is destroyed, nor a
 * request while tenon_request_wait takes it.
 *
 * A pool's threads are in the process that made it. In a child of fork submitting is RUN_FAILED,
 * and so is waiting for a request that was not done; nothing can be cancelled or waited for.
 * Destroying it there leaves its memory as it is. The child may make pools of its own.
 */
#ifndef TENON_POOL_H
#define TENON_POOL_H

#include <tenon/session.h>
#include <tenon/topology.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How all threads are split into instances, where the options do not say. */
typedef enum tenon_pool_hint {
    TENON_POOL_THROUGHPUT = 0, /* several instances of few threads, by a rule */
    TENON_POOL_LATENCY,        /* one instance with all threads on each NUMA node */
    /* Splits (one instance with all threads, two with half of them, and so on) run the sample
     * inputs for a moment each, and the one with the most runs a second stays. */
    TENON_POOL_AUTO
} tenon_pool_hint;

typedef struct tenon_pool_options {
    tenon_pool_hint hint;
    int instances; /* 0: as many as fit the threads, or as `hint` says */
    int threads;   /* OpenMP threads of each instance; 0: all threads that the process may use (or
                      session_options.threads, where that is not 0), over the instances */
    const tenon_topology *topology; /* NULL: this machine; of a synthetic one only the shape counts,
                                       nothing is pinned. Need not outlive tenon_pool_create */
    bool unpinned;                  /* threads may run on all cores that their maker may use */
    int queue; /* requests that may wait; 0: four for each instance, at least 16, and no less
                  than two full batches */
    /* Samples of a batch that requests are gathered into; 0: each request is a run by itself. */
    int batch;
    int64_t batch_wait_us; /* how long a request waits for others to fill its batch; 0: it does not
                              wait, and shares a batch with those that wait anyway */
    const char *const *unbatched; /* names of inputs without batch dimension, which are the same
                                     for all requests (see tenon_pool_create); may be NULL */
    int unbatched_count;
} tenon_pool_options;

typedef struct tenon_pool tenon_pool;
typedef struct tenon_request tenon_request;

/* Makes a pool, compiled for the shapes of the sample inputs (as tenon_session_compile takes them;
 * with hint AUTO they are run too, and those without data are zeros). `graph` may be destroyed
 * afterwards; `session_options` may be NULL, and its `passes` must live as long as the pool;
 * `options` may be NULL. Weights are shared by all instances, but for one copy for each further
 * NUMA node. A model that changes buffers is UNSUPPORTED, as its results would depend on which
 * instance served which request before.
 *
 * With `batch`, inputs and outputs have a batch dimension, their first: for models with symbolic
 * sizes that of the first input whose first size is a symbol, and inputs with the same symbol there
 * have it too; in others, every input whose first size is `batch` has it. Sample inputs may have
 * any number of rows. Inputs without batch dimension keep the value that the sample has. Each
 * output must have the batch dimension, or the model is refused by name: UNSUPPORTED. That rows of
 * outputs depend on the same rows of inputs only, as in any usual model, is up to the caller. */
TENON_API TENON_MUST_CHECK tenon_status
tenon_pool_create(const tenon_graph *graph, const tenon_session_options *session_options,
                  const tenon_pool_options *options, const tenon_view *samples, int sample_count,
                  tenon_pool **out);

/* Waits until all requests are done (tenon_pool_cancel before makes that quick) and ends the
 * threads. Requests may still be waited for afterwards. */
TENON_API void tenon_pool_destroy(tenon_pool **pool);

/* ---- Requests ---- */

/* Called once when a request is done, on the thread of the instance that ran it, or that cancelled
 * it, before tenon_request_wait returns; tenon_last_error tells of a failure. `outputs` lie in the
 * caller's memory, or where none was given in memory that may be read until the function returns.
 * It may submit with tenon_pool_try_submit, but must not wait for the pool. */
typedef void (*tenon_pool_done)(void *user, tenon_status status, const tenon_view *outputs);

/* Queues a run. The views are copied; their memory must stay until the request is done. inputs[i]
 * is input i of any shape that the model takes (new ones are compiled then), and outputs[i] the
 * caller's memory for output i, or zeroed when only `done` (may be NULL) is to see it.
 *
 * With `batch`, inputs with batch dimension have 1 to `batch` rows, all the same number, and the
 * outputs as many; other sizes are those of the samples. Inputs without batch dimension are zeroed
 * views. What a request gives does not depend on which requests share its batch.
 *
 * While the queue is full it blocks; tenon_pool_try_submit fails with BUSY instead. What is wrong
 * with inputs or outputs is told when the request is done, and touches no other request.
 * `request` (may be NULL) receives a handle, which tenon_request_wait must take. */
TENON_API TENON_MUST_CHECK tenon_status tenon_pool_submit(tenon_pool *pool,
                                                          const tenon_view *inputs, int input_count,
                                                          const tenon_view *outputs,
                                                          int output_count, tenon_pool_done done,
                                                          void *user, tenon_request **request);
TENON_API TENON_MUST_CHECK tenon_status tenon_pool_try_submit(
    tenon_pool *pool, const tenon_view *inputs, int input_count, const tenon_view *outputs,
    int output_count, tenon_pool_done done, void *user, tenon_request **request);

/* Waits until the request is done, frees the handle, sets it to NULL, and returns the request's
 * status with its message. */
TENON_API TENON_MUST_CHECK tenon_status tenon_request_wait(tenon_request **request);
/* Whether it is done. */
TENON_API bool tenon_request_is_done(const tenon_request *request);
/* Takes a request that still waits out of the queue: it is done with status CANCELLED. False when
 * it runs or is done. */
TENON_API bool tenon_request_cancel(tenon_request *request);

/* Cancels all requests that wait, and returns how many they were. */
TENON_API int tenon_pool_cancel(tenon_pool *pool);
/* Waits until no request waits or runs; batches that are not full run at once. */
TENON_API void tenon_pool_drain(tenon_pool *pool);

/* ---- What a pool is, and does ---- */

TENON_API int tenon_pool_instances(const tenon_pool *pool);
TENON_API int tenon_pool_threads(const tenon_pool *pool); /* of each instance */
/* Where instance `index` runs, and the PUs (room for tenon_pool_threads, may be NULL) that it is
 * pinned to. False when there is no such instance, or it is not pinned. */
TENON_API bool tenon_pool_place(const tenon_pool *pool, int index, tenon_place *place, int *pus);
/* For names of inputs and outputs; it lives as long as the pool. */
TENON_API const tenon_session *tenon_pool_session(const tenon_pool *pool);
/* Dtype and shape of output `index` for the sample inputs, with `batch` rows where there is
 * batching; its data is NULL. False when there is no such output. */
TENON_API bool tenon_pool_output(const tenon_pool *pool, int index, tenon_view *out);

/* What hint AUTO measured, in the order in which it did. */
typedef struct tenon_pool_split {
    int instances, threads;
    double runs_per_second;
} tenon_pool_split;
TENON_API bool tenon_pool_measured(const tenon_pool *pool, int index, tenon_pool_split *out);

#define TENON_POOL_STATUSES 32

typedef struct tenon_pool_stats {
    uint64_t submitted;
    uint64_t by_status[TENON_POOL_STATUSES]; /* requests that are done, by tenon_status */
    uint64_t refused;                        /* by tenon_pool_try_submit, as the queue was full */
    int waiting, running;                    /* requests, now */
    uint64_t runs, samples, padding; /* samples: rows of batches, or runs; padding: rows of none */
    /* Seconds of the requests that have run: from submission to the start of the run, and the run.
     */
    double queue_seconds, queue_seconds_max, run_seconds, run_seconds_max;
    double busy_seconds; /* in which instances ran, summed over them */
    double seconds;      /* from the first submission to the last request that was done */
    double throughput;   /* samples of requests that went well, a second of those */
} tenon_pool_stats;

TENON_API void tenon_pool_get_stats(tenon_pool *pool, tenon_pool_stats *stats);
TENON_API void tenon_pool_reset_stats(tenon_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
