/* A pool's insides: pool.c has the queue and the instances' threads, pool_make.c makes pools,
 * pool_batch.c gathers requests into batches. */
#ifndef TN_POOL_H
#define TN_POOL_H

#include "run/session.h"
#include <tenon/pool.h>

struct tenon_request {
    struct tenon_request *next; /* in the queue */
    tenon_pool *pool;
    tenon_view *inputs, *outputs;
    int input_count, output_count;
    int rows; /* of its batch dimension; one that cannot run fills a batch */
    tenon_pool_done done;
    void *user;
    int64_t submitted, started; /* nanoseconds of tn_clock_ns */
    tenon_status status;
    char *message; /* of a failure; NULL: memory for it was out */
    bool waiting, finished, held;
    pthread_cond_t changed; /* finished */
};

typedef struct tn_pool_instance {
    tenon_pool *pool;
    const int *pus; /* where it is pinned to; NULL: anywhere */
    tenon_place place;
    int node; /* that its memory is bound to; -1: any */
    pthread_t thread;
    bool started;
    tenon_status status; /* of making it, with its message */
    char *message;
    tenon_session *session; /* of its node; the pool's */
    tenon_context *context;
    /* Requests of the run, its views, and with batching room for a batch of each input. */
    tenon_request **taken;
    tenon_view *inputs, *outputs;
    tenon_tensor **rooms;
} tn_pool_instance;

/* What batches are made of. */
typedef struct tn_batching {
    int size;              /* rows; 0: no batching */
    int64_t wait;          /* nanoseconds */
    tenon_view *inputs;    /* as compiled, `size` rows; data: of those without batch dimension */
    tenon_tensor **values; /* which that data is in */
    bool *batched;         /* by input */
    int input_count;
} tn_batching;

struct tenon_pool {
    tn_pool_instance *instances;
    int instance_count, threads;
    tenon_session **sessions; /* one for each node that instances run on */
    int session_count;
    int input_count, output_count;
    tenon_view *outputs; /* for the sample inputs */
    int *pus;            /* of all instances; NULL: not pinned */
    tn_batching batching;
    tenon_pool_split *measured;
    int measured_count;
    unsigned forks; /* tn_threads_forks where its threads are */

    pthread_mutex_t lock;         /* of what follows, and of requests */
    pthread_cond_t work;          /* something waits, or the pool closes */
    pthread_cond_t room;          /* the queue is not full any more */
    pthread_cond_t idle;          /* nothing waits or runs, or an instance is ready */
    tenon_request *first, **last; /* waiting */
    int waiting, running, queue, ready, flush, shares;
    bool closing;
    tenon_pool_stats stats;
    int64_t since, until; /* nanoseconds: first submission and last end; 0: none */
};

/* Starts the threads, each of which makes a context, and waits for that. */
tenon_status tn_pool_start(tenon_pool *pool);

/* Notes how a request ended, with the thread's message. */
void tn_request_fail(tenon_request *request, tenon_status status);

/* ---- pool_batch.c ---- */

/* Finds out which inputs have rows, and the shapes to compile for. */
tenon_status tn_batch_init(tn_batching *batching, const tenon_graph *graph,
                           const tenon_pool_options *options, const tenon_view *samples,
                           int sample_count);
void tn_batch_free(tn_batching *batching);
/* `outputs` of the compiled batch must have rows. */
tenon_status tn_batch_check_outputs(const tn_batching *batching, const tenon_session *session,
                                    const tenon_view *outputs);
/* Counts the request's rows; what is wrong with it becomes its status. */
void tn_batch_check(tenon_request *request);
/* Makes an instance's room for batches. */
tenon_status tn_batch_prepare(tn_pool_instance *instance);
/* Runs requests as one batch, and gives them their rows of the outputs. */
tenon_status tn_batch_run(tn_pool_instance *instance, tenon_request **requests, int count);

#endif
