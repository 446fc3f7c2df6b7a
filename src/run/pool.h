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
    int index;
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

/* One set of requests' facts for batching. */
typedef struct tn_batching {
    int size;              /* rows; 0: no batching */
    int64_t wait;          /* nanoseconds */
    tenon_view *inputs;    /* as compiled, `size` rows; data: of those without batch dimension */
    tenon_tensor **values; /* which that data is in */
    bool *batched;         /* by input */
} tn_batching;

struct tenon_pool {
    tn_pool_instance *instances;
    int instance_count, threads;
    tenon_session **sessions; /* one for each node that instances run on */
    int session_count;
    int input_count, output_count;
    tenon_view *outputs; /* for the sample inputs */
    tn_batching batching;
    tenon_pool_split *measured;
    int measured_count;

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

/* Notes how requests ended: what ran, or failed before. Called without the lock. */
void tn_request_fail(tenon_request *request, tenon_status status);

#endif
