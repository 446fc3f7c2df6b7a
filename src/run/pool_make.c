/* Making pools: how many instances of how many threads, their sessions, and their places. */
#include "core/fail.h"
#include "run/places.h"
#include "run/pool.h"
#include <stdlib.h>
#include <string.h>

#define MAX_INSTANCES 4096
#define MAX_QUEUE (1 << 20)

static tenon_status check_options(const tenon_pool_options *options) {
    if (options->hint < TENON_POOL_THROUGHPUT || options->hint > TENON_POOL_LATENCY)
        return tn_fail(TENON_INVALID_ARGUMENT, "pool options: there is no hint %d",
                       (int)options->hint);
    if (options->instances < 0 || options->instances > MAX_INSTANCES)
        return tn_fail(TENON_INVALID_ARGUMENT, "pool options: instances is %d, not 0 to %d",
                       options->instances, MAX_INSTANCES);
    if (options->threads < 0 || options->threads > MAX_INSTANCES)
        return tn_fail(TENON_INVALID_ARGUMENT, "pool options: threads is %d, not 0 to %d",
                       options->threads, MAX_INSTANCES);
    if (options->batch != 0)
        return tn_fail(TENON_UNSUPPORTED, "pool options: this version does not gather batches");
    if (options->queue < 0 || options->queue > MAX_QUEUE)
        return tn_fail(TENON_INVALID_ARGUMENT, "pool options: queue is %d, not 0 to %d",
                       options->queue, MAX_QUEUE);
    return TENON_OK;
}

static int at_least_one(int count) {
    return count < 1 ? 1 : count;
}

/* Threads share what they work on, and wait for each other after each step, so that few of them an
 * instance get more done, as long as there is not an instance's memory for each of many cores. */
static void split(const tenon_pool_options *options, int all, int *instances, int *threads) {
    *instances = options->instances;
    *threads = options->threads;
    if (*instances == 0 && *threads == 0)
        *threads = options->hint == TENON_POOL_LATENCY ? all : all <= 8 ? 1 : all <= 32 ? 2 : 4;
    if (*instances == 0)
        *instances = at_least_one(all / *threads);
    if (*threads == 0)
        *threads = at_least_one(all / *instances);
}

static tenon_status no_state(const tenon_session *session) {
    for (int32_t i = 0; i < session->state_count; i++) {
        if (session->written[i])
            return tn_fail(
                TENON_UNSUPPORTED,
                "runs change buffer '%s', so that results would depend on which instance "
                "of a pool served which request before",
                session->states[i]);
    }
    return TENON_OK;
}

/* What outputs are for the sample inputs, which this compiles for. */
static tenon_status compile(tenon_pool *pool, const tenon_view *samples, int sample_count) {
    tn_plan *plan;
    TN_TRY(tn_session_plan(pool->sessions[0], samples, sample_count, &plan));
    for (int i = 0; i < pool->output_count; i++)
        pool->outputs[i] = plan->outputs[i].view;
    tn_plan_drop(&plan);
    return TENON_OK;
}

static tenon_status pool_alloc(int instances, tenon_pool **out) {
    tenon_pool *pool = calloc(1, sizeof *pool);
    pthread_condattr_t clock;
    if (!pool)
        return tn_no_memory();
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, &clock);
    pthread_cond_init(&pool->room, NULL);
    pthread_cond_init(&pool->idle, NULL);
    pthread_condattr_destroy(&clock);
    pool->last = &pool->first;
    pool->shares = 1;
    pool->instance_count = instances;
    *out = pool;
    return TENON_OK;
}

tenon_status tenon_pool_create(const tenon_graph *graph,
                               const tenon_session_options *session_options,
                               const tenon_pool_options *given, const tenon_view *samples,
                               int sample_count, tenon_pool **out) {
    tenon_status status;
    tenon_pool *pool = NULL;
    tenon_session_options session = session_options ? *session_options : (tenon_session_options){0};
    tenon_pool_options options = given ? *given : (tenon_pool_options){0};
    int instances, threads;
    TN_TRY(check_options(&options));
    split(&options, session.threads > 0 ? session.threads : tn_threads_available(), &instances,
          &threads);
    TN_TRY(pool_alloc(instances, &pool));
    session.threads = pool->threads = threads;
    pool->queue = options.queue > 0 ? options.queue : 4 * instances > 16 ? 4 * instances : 16;
    pool->input_count = tenon_graph_input_count(graph);
    pool->output_count = tenon_graph_output_count(graph);
    pool->instances = calloc((size_t)instances, sizeof *pool->instances);
    pool->sessions = calloc(1, sizeof *pool->sessions);
    pool->outputs = calloc((size_t)pool->output_count + 1, sizeof *pool->outputs);
    if (!pool->instances || !pool->sessions || !pool->outputs)
        TN_GOTO(tn_no_memory());
    pool->session_count = 1;
    TN_GOTO(tenon_session_create(graph, &session, &pool->sessions[0]));
    TN_GOTO(no_state(pool->sessions[0]));
    TN_GOTO(compile(pool, samples, sample_count));
    for (int i = 0; i < instances; i++) {
        tn_pool_instance *instance = &pool->instances[i];
        instance->pool = pool;
        instance->index = i;
        instance->session = pool->sessions[0];
        instance->taken = calloc(1, sizeof *instance->taken);
        if (!instance->taken)
            TN_GOTO(tn_no_memory());
    }
    TN_GOTO(tn_pool_start(pool));
    *out = pool;
    return TENON_OK;
error:
    tenon_pool_destroy(&pool);
    return status;
}
