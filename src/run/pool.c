/* Pools: the queue of requests, and the threads of the instances that serve it. */
#include "run/pool.h"
#include "core/fail.h"
#include "core/util.h"
#include "run/places.h"
#include "run/threads.h"
#include <stdlib.h>
#include <string.h>

/* In a child of fork: the threads are the parent's, and nobody here will ever let go of the lock if
 * one of them held it. */
static bool is_parents(const tenon_pool *pool) {
    return pool->forks != tn_threads_forks();
}

/* ---- Requests ---- */

static void request_free(tenon_request *request) {
    pthread_cond_destroy(&request->changed);
    free(request->message);
    free(request);
}

/* The request and its views are one block. */
static tenon_status request_create(tenon_pool *pool, const tenon_view *inputs, int input_count,
                                   const tenon_view *outputs, int output_count,
                                   tenon_request **out) {
    if (input_count != pool->input_count)
        return tn_fail(TENON_INPUT_MISMATCH, "%d inputs given, the model takes %d", input_count,
                       pool->input_count);
    if (output_count != pool->output_count)
        return tn_fail(TENON_INVALID_ARGUMENT, "room for %d outputs given, the model has %d",
                       output_count, pool->output_count);
    size_t views = (size_t)input_count + (size_t)output_count;
    tenon_request *request = calloc(1, sizeof *request + views * sizeof(tenon_view));
    if (!request)
        return tn_no_memory();
    request->pool = pool;
    request->inputs = (tenon_view *)(request + 1);
    request->outputs = request->inputs + input_count;
    request->input_count = input_count;
    request->output_count = output_count;
    request->rows = 1;
    if (input_count > 0)
        memcpy(request->inputs, inputs, (size_t)input_count * sizeof *inputs);
    if (output_count > 0)
        memcpy(request->outputs, outputs, (size_t)output_count * sizeof *outputs);
    pthread_cond_init(&request->changed, NULL);
    *out = request;
    return TENON_OK;
}

void tn_request_fail(tenon_request *request, tenon_status status) {
    request->status = status;
    if (status != TENON_OK && !request->message)
        request->message = strdup(tenon_last_error());
}

static tenon_status request_status(const tenon_request *request) {
    return request->status == TENON_OK
               ? TENON_OK
               : tn_fail(request->status, "%s", request->message ? request->message : "");
}

/* Gives the pool's memory back when nobody knows it any more. Ends with the lock released. */
static void share_drop(tenon_pool *pool) {
    int left = --pool->shares;
    pthread_mutex_unlock(&pool->lock);
    if (left > 0)
        return;
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->room);
    pthread_cond_destroy(&pool->idle);
    free(pool);
}

static void count(tenon_pool *pool, const tenon_request *request, int64_t now) {
    tenon_pool_stats *stats = &pool->stats;
    stats->by_status[request->status]++;
    pool->until = now;
    if (!request->started)
        return;
    double queued = (double)(request->started - request->submitted) * 1e-9;
    double ran = (double)(now - request->started) * 1e-9;
    stats->queue_seconds += queued;
    stats->run_seconds += ran;
    if (queued > stats->queue_seconds_max)
        stats->queue_seconds_max = queued;
    if (ran > stats->run_seconds_max)
        stats->run_seconds_max = ran;
    if (request->status == TENON_OK)
        stats->throughput += request->rows;
}

/* The request is no longer in the queue. Called without the lock. */
static void finish(tenon_request *request) {
    tenon_pool *pool = request->pool;
    int64_t now = tn_clock_ns();
    if (request->done) {
        tenon_status status = request_status(request);
        request->done(request->user, status, request->outputs);
    }
    pthread_mutex_lock(&pool->lock);
    count(pool, request, now);
    if (request->started)
        pool->running--;
    if (pool->waiting == 0 && pool->running == 0)
        pthread_cond_broadcast(&pool->idle);
    request->finished = true;
    bool held = request->held;
    if (held)
        pthread_cond_broadcast(&request->changed);
    pthread_mutex_unlock(&pool->lock);
    if (!held)
        request_free(request);
}

/* ---- The queue ---- */

static void queue_put(tenon_pool *pool, tenon_request *request) {
    request->waiting = true;
    *pool->last = request;
    pool->last = &request->next;
    pool->waiting++;
    pool->stats.submitted++;
    request->submitted = tn_clock_ns();
    if (!pool->since)
        pool->since = request->submitted;
    pthread_cond_signal(&pool->work);
}

/* Takes the first `count` requests out. */
static void queue_take(tenon_pool *pool, tenon_request **taken, int count) {
    for (int i = 0; i < count; i++) {
        taken[i] = pool->first;
        pool->first = pool->first->next;
        taken[i]->next = NULL;
        taken[i]->waiting = false;
    }
    if (!pool->first)
        pool->last = &pool->first;
    pool->waiting -= count;
    if (count == 1)
        pthread_cond_signal(&pool->room);
    else
        pthread_cond_broadcast(&pool->room);
}

/* How many requests an instance may take now; 0: it waits until `deadline` (0: for ever). */
static int queue_ready(const tenon_pool *pool, int64_t *deadline) {
    const tn_batching *batching = &pool->batching;
    const tenon_request *request = pool->first;
    int rows = 0, count = 0;
    *deadline = 0;
    if (!request || batching->size == 0)
        return request != NULL;
    for (; request && rows + request->rows <= batching->size; request = request->next) {
        rows += request->rows;
        count++;
    }
    *deadline = pool->first->submitted + batching->wait;
    bool full = request || rows == batching->size;
    return full || pool->flush > 0 || pool->closing || tn_clock_ns() >= *deadline ? count : 0;
}

/* Waits for requests; 0: the pool closes and there are none left. */
static int take(tn_pool_instance *instance) {
    tenon_pool *pool = instance->pool;
    int64_t deadline;
    int count;
    pthread_mutex_lock(&pool->lock);
    while ((count = queue_ready(pool, &deadline)) == 0 && (pool->first || !pool->closing)) {
        if (deadline) {
            struct timespec until = {.tv_sec = deadline / 1000000000,
                                     .tv_nsec = deadline % 1000000000};
            pthread_cond_timedwait(&pool->work, &pool->lock, &until);
        } else {
            pthread_cond_wait(&pool->work, &pool->lock);
        }
    }
    queue_take(pool, instance->taken, count);
    pool->running += count;
    /* One signal may have woken this instance for several requests. */
    if (pool->first)
        pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    return count;
}

static tenon_status submit(tenon_pool *pool, const tenon_view *inputs, int input_count,
                           const tenon_view *outputs, int output_count, tenon_pool_done done,
                           void *user, bool block, tenon_request **out) {
    tenon_request *request = NULL;
    if (is_parents(pool))
        return tn_fail(TENON_RUN_FAILED,
                       "the pool was made before this process was forked: its threads are in the "
                       "parent only");
    TN_TRY(request_create(pool, inputs, input_count, outputs, output_count, &request));
    request->done = done;
    request->user = user;
    request->held = out != NULL;
    if (pool->batching.size > 0)
        tn_batch_check(request);
    pthread_mutex_lock(&pool->lock);
    while (block && pool->waiting >= pool->queue)
        pthread_cond_wait(&pool->room, &pool->lock);
    bool full = pool->waiting >= pool->queue;
    if (full) {
        pool->stats.refused++;
    } else {
        pool->shares += out != NULL;
        queue_put(pool, request);
        if (out)
            *out = request;
    }
    int bound = pool->queue;
    pthread_mutex_unlock(&pool->lock);
    if (!full)
        return TENON_OK;
    request_free(request);
    return tn_fail(TENON_BUSY, "%d requests wait, as many as the pool's queue holds", bound);
}

tenon_status tenon_pool_submit(tenon_pool *pool, const tenon_view *inputs, int input_count,
                               const tenon_view *outputs, int output_count, tenon_pool_done done,
                               void *user, tenon_request **request) {
    return submit(pool, inputs, input_count, outputs, output_count, done, user, true, request);
}

tenon_status tenon_pool_try_submit(tenon_pool *pool, const tenon_view *inputs, int input_count,
                                   const tenon_view *outputs, int output_count,
                                   tenon_pool_done done, void *user, tenon_request **request) {
    return submit(pool, inputs, input_count, outputs, output_count, done, user, false, request);
}

tenon_status tenon_request_wait(tenon_request **pointer) {
    tenon_request *request = *pointer;
    tenon_pool *pool = request->pool;
    *pointer = NULL;
    if (is_parents(pool))
        return request->finished
                   ? request_status(request)
                   : tn_fail(TENON_RUN_FAILED,
                             "the request was made before this process was forked: it "
                             "runs in the parent only");
    pthread_mutex_lock(&pool->lock);
    while (!request->finished)
        pthread_cond_wait(&request->changed, &pool->lock);
    share_drop(pool);
    tenon_status status = request_status(request);
    request_free(request);
    return status;
}

bool tenon_request_is_done(const tenon_request *request) {
    if (is_parents(request->pool))
        return request->finished;
    pthread_mutex_lock(&request->pool->lock);
    bool finished = request->finished;
    pthread_mutex_unlock(&request->pool->lock);
    return finished;
}

static void cancelled(tenon_request *request) {
    tn_request_fail(request, tn_fail(TENON_CANCELLED, "the request was cancelled as it waited"));
    finish(request);
}

bool tenon_request_cancel(tenon_request *request) {
    tenon_pool *pool = request->pool;
    if (is_parents(pool))
        return false;
    pthread_mutex_lock(&pool->lock);
    bool found = request->waiting;
    if (found) {
        tenon_request **link = &pool->first;
        while (*link != request)
            link = &(*link)->next;
        *link = request->next;
        if (pool->last == &request->next)
            pool->last = link;
        request->waiting = false;
        pool->waiting--;
        pthread_cond_signal(&pool->room);
    }
    pthread_mutex_unlock(&pool->lock);
    if (found)
        cancelled(request);
    return found;
}

int tenon_pool_cancel(tenon_pool *pool) {
    if (is_parents(pool))
        return 0;
    pthread_mutex_lock(&pool->lock);
    tenon_request *list = pool->first;
    int count = pool->waiting;
    for (tenon_request *request = list; request; request = request->next)
        request->waiting = false;
    pool->first = NULL;
    pool->last = &pool->first;
    pool->waiting = 0;
    pthread_cond_broadcast(&pool->room);
    pthread_mutex_unlock(&pool->lock);
    while (list) {
        tenon_request *request = list;
        list = list->next;
        cancelled(request);
    }
    return count;
}

void tenon_pool_drain(tenon_pool *pool) {
    if (is_parents(pool))
        return;
    pthread_mutex_lock(&pool->lock);
    pool->flush++;
    pthread_cond_broadcast(&pool->work);
    while (pool->waiting > 0 || pool->running > 0)
        pthread_cond_wait(&pool->idle, &pool->lock);
    pool->flush--;
    pthread_mutex_unlock(&pool->lock);
}

/* ---- Instances ---- */

static tenon_status execute(tn_pool_instance *instance, tenon_request **requests, int count) {
    tenon_pool *pool = instance->pool;
    if (pool->batching.size > 0)
        return tn_batch_run(instance, requests, count);
    tenon_request *request = requests[0];
    return tenon_context_run(instance->context, request->inputs, request->input_count,
                             request->outputs, request->output_count);
}

/* NOLINTNEXTLINE(misc-no-recursion): for one request after several */
static void run(tn_pool_instance *instance, tenon_request **requests, int count) {
    tenon_pool *pool = instance->pool;
    int64_t start = tn_clock_ns();
    int rows = 0;
    for (int i = 0; i < count; i++) {
        requests[i]->started = start;
        rows += requests[i]->rows;
    }
    tenon_status status = execute(instance, requests, count);
    int64_t end = tn_clock_ns();
    pthread_mutex_lock(&pool->lock);
    pool->stats.runs++;
    pool->stats.samples += (uint64_t)rows;
    pool->stats.padding += pool->batching.size > 0 ? (uint64_t)(pool->batching.size - rows) : 0;
    pool->stats.busy_seconds += (double)(end - start) * 1e-9;
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < count; i++) {
        /* One request of a batch that fails is to blame, and the others are not. */
        if (status != TENON_OK && count > 1) {
            run(instance, requests + i, 1);
            continue;
        }
        tn_request_fail(requests[i], status);
        finish(requests[i]);
    }
}

static tenon_status prepare(tn_pool_instance *instance) {
    tenon_pool *pool = instance->pool;
    if (instance->pus && !tn_place_bind(instance->pus, pool->threads, instance->node))
        tn_log(TENON_LOG_WARN, "an instance of a pool cannot be pinned to its cores");
    TN_TRY(tenon_context_create(instance->session, &instance->context));
    return pool->batching.size > 0 ? tn_batch_prepare(instance) : TENON_OK;
}

static void *serve(void *user) {
    tn_pool_instance *instance = user;
    tenon_pool *pool = instance->pool;
    int count;
    instance->status = prepare(instance);
    if (instance->status != TENON_OK)
        instance->message = strdup(tenon_last_error());
    pthread_mutex_lock(&pool->lock);
    pool->ready++;
    pthread_cond_broadcast(&pool->idle);
    pthread_mutex_unlock(&pool->lock);
    while (instance->status == TENON_OK && (count = take(instance)) > 0)
        run(instance, instance->taken, count);
    return NULL;
}

tenon_status tn_pool_start(tenon_pool *pool) {
    int started = 0;
    for (int i = 0; i < pool->instance_count; i++) {
        tn_pool_instance *instance = &pool->instances[i];
        instance->started = pthread_create(&instance->thread, NULL, serve, instance) == 0;
        started += instance->started;
    }
    pthread_mutex_lock(&pool->lock);
    while (pool->ready < started)
        pthread_cond_wait(&pool->idle, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    if (started < pool->instance_count)
        return tn_fail(TENON_OUT_OF_MEMORY, "%d of %d instances: no thread could be started",
                       pool->instance_count - started, pool->instance_count);
    for (int i = 0; i < pool->instance_count; i++) {
        const tn_pool_instance *instance = &pool->instances[i];
        if (instance->status != TENON_OK)
            return tn_fail(instance->status, "instance %d: %s", i,
                           instance->message ? instance->message : "");
    }
    return TENON_OK;
}

void tenon_pool_destroy(tenon_pool **pointer) {
    tenon_pool *pool = *pointer;
    *pointer = NULL;
    if (!pool || is_parents(pool)) /* whose threads may have been in the midst of anything */
        return;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; pool->instances && i < pool->instance_count; i++) {
        tn_pool_instance *instance = &pool->instances[i];
        if (instance->started)
            pthread_join(instance->thread, NULL);
        tenon_context_destroy(&instance->context);
        for (int k = 0; instance->rooms && k < pool->input_count; k++)
            tenon_tensor_destroy(&instance->rooms[k]);
        free(instance->rooms);
        free(instance->inputs);
        free(instance->outputs);
        free(instance->message);
        free(instance->taken);
    }
    for (int i = 0; i < pool->session_count; i++)
        tenon_session_destroy(&pool->sessions[i]);
    free(pool->instances);
    free(pool->sessions);
    free(pool->outputs);
    free(pool->pus);
    tn_batch_free(&pool->batching);
    free(pool->measured);
    pthread_mutex_lock(&pool->lock);
    share_drop(pool);
}

/* ---- What it is, and does ---- */

int tenon_pool_instances(const tenon_pool *pool) {
    return pool->instance_count;
}

int tenon_pool_threads(const tenon_pool *pool) {
    return pool->threads;
}

bool tenon_pool_place(const tenon_pool *pool, int index, tenon_place *place, int *pus) {
    if (index < 0 || index >= pool->instance_count || !pool->instances[index].pus)
        return false;
    *place = pool->instances[index].place;
    if (pus)
        memcpy(pus, pool->instances[index].pus, (size_t)pool->threads * sizeof *pus);
    return true;
}

bool tenon_pool_measured(const tenon_pool *pool, int index, tenon_pool_split *out) {
    if (index < 0 || index >= pool->measured_count)
        return false;
    *out = pool->measured[index];
    return true;
}

const tenon_session *tenon_pool_session(const tenon_pool *pool) {
    return pool->sessions[0];
}

bool tenon_pool_output(const tenon_pool *pool, int index, tenon_view *out) {
    if (index < 0 || index >= pool->output_count)
        return false;
    *out = pool->outputs[index];
    return true;
}

void tenon_pool_get_stats(tenon_pool *pool, tenon_pool_stats *stats) {
    bool shared = !is_parents(pool);
    if (shared)
        pthread_mutex_lock(&pool->lock);
    *stats = pool->stats;
    stats->waiting = pool->waiting;
    stats->running = pool->running;
    double samples = stats->throughput;
    stats->seconds = pool->until > pool->since ? (double)(pool->until - pool->since) * 1e-9 : 0;
    stats->throughput = stats->seconds > 0 ? samples / stats->seconds : 0;
    if (shared)
        pthread_mutex_unlock(&pool->lock);
}

void tenon_pool_reset_stats(tenon_pool *pool) {
    if (is_parents(pool))
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stats = (tenon_pool_stats){0};
    pool->since = pool->until = 0;
    pthread_mutex_unlock(&pool->lock);
}
