/* Making pools: how many instances of how many threads, their sessions, and their places. */
#include "core/fail.h"
#include "run/places.h"
#include "run/pool.h"
#include "run/threads.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INSTANCES 4096
#define MAX_QUEUE (1 << 20)
#define MAX_BATCH (1 << 20)
#define MAX_WAIT (INT64_C(1) << 40) /* microseconds */

static tenon_status check_range(const char *name, int64_t value, int64_t most) {
    return value >= 0 && value <= most
               ? TENON_OK
               : tn_fail(TENON_INVALID_ARGUMENT, "pool options: %s is %lld, not 0 to %lld", name,
                         (long long)value, (long long)most);
}

static tenon_status check_options(const tenon_pool_options *options) {
    if (options->hint < TENON_POOL_THROUGHPUT || options->hint > TENON_POOL_AUTO)
        return tn_fail(TENON_INVALID_ARGUMENT, "pool options: there is no hint %d",
                       (int)options->hint);
    TN_TRY(check_range("instances", options->instances, MAX_INSTANCES));
    TN_TRY(check_range("threads", options->threads, MAX_INSTANCES));
    TN_TRY(check_range("queue", options->queue, MAX_QUEUE));
    TN_TRY(check_range("batch", options->batch, MAX_BATCH));
    TN_TRY(check_range("batch_wait_us", options->batch_wait_us, MAX_WAIT));
    return check_range("unbatched_count", options->unbatched_count, MAX_INSTANCES);
}

/* What all pools that are tried are made from. */
typedef struct recipe {
    const tenon_graph *graph;
    tenon_session_options session;
    tenon_pool_options options;
    const tenon_topology *topology;
    tenon_topology_info machine;
    const tenon_view *samples;
    int sample_count, threads; /* threads: of all instances */
} recipe;

static int at_least_one(int count) {
    return count < 1 ? 1 : count;
}

/* Threads of an instance wait for each other after each step, so that few of them get more done, as
 * long as that does not take an instance's memory for each of many cores. */
static void split(const recipe *r, int *instances, int *threads) {
    int all = r->threads, nodes = r->machine.nodes;
    *instances = r->options.instances;
    *threads = r->options.threads;
    if (*instances == 0 && *threads == 0)
        *threads = r->options.hint == TENON_POOL_LATENCY ? at_least_one(all / nodes)
                   : all <= 8                            ? 1
                   : all <= 32                           ? 2
                                                         : 4;
    if (*instances == 0)
        *instances = at_least_one(all / *threads);
    if (*threads == 0)
        *threads = at_least_one(all / *instances);
}

/* ---- Sessions ---- */

/* Weights of the graph's own, in memory that this thread touches first. */
static tenon_status copy_weights(tenon_graph *graph) {
    for (int32_t i = 0; i < graph->constant_count; i++) {
        tenon_value *constant = graph->constants[i];
        const tenon_view *view = &constant->tensor->view;
        tenon_tensor *copy = NULL;
        TN_TRY(tenon_tensor_create(view->dtype, view->rank, view->shape, &copy));
        tenon_status status = tenon_view_copy(tenon_tensor_view(copy), view);
        if (status != TENON_OK) {
            tenon_tensor_destroy(&copy);
            return status;
        }
        tenon_tensor_destroy(&constant->tensor);
        constant->tensor = copy;
    }
    return TENON_OK;
}

/* Makes a session on a node. */
typedef struct settler {
    const recipe *recipe;
    tenon_session **session;
    const int *pus; /* NULL: not bound */
    int count, node;
    bool copy;
    tenon_status status;
    char *message;
} settler;

static tenon_status settle(const settler *s) {
    const recipe *r = s->recipe;
    tenon_graph *copy = NULL;
    if (s->pus)
        (void)tn_place_bind(s->pus, s->count, s->node);
    if (!s->copy)
        return tenon_session_create(r->graph, &r->session, s->session);
    TN_TRY(tenon_graph_clone(r->graph, &copy));
    tenon_status status = copy_weights(copy);
    if (status == TENON_OK)
        status = tenon_session_create(copy, &r->session, s->session);
    tenon_graph_destroy(&copy);
    return status;
}

static void *settle_there(void *user) {
    settler *s = user;
    s->status = settle(s);
    if (s->status != TENON_OK)
        s->message = strdup(tenon_last_error());
    return NULL;
}

/* A thread of its own keeps the binding from this one. */
static tenon_status settle_bound(settler *s) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, settle_there, s) != 0)
        return tn_fail(TENON_OUT_OF_MEMORY, "no thread could be started");
    pthread_join(thread, NULL);
    if (s->status != TENON_OK)
        tn_fail(s->status, "%s", s->message ? s->message : "");
    free(s->message);
    return s->status;
}

/* A session for each node that instances are on; all but the first have weights of their own. */
static tenon_status make_sessions(tenon_pool *pool, const recipe *r) {
    for (int i = 0; i < pool->instance_count; i++) {
        tn_pool_instance *instance = &pool->instances[i];
        for (int k = 0; k < i && !instance->session; k++) {
            if (pool->instances[k].place.node == instance->place.node)
                instance->session = pool->instances[k].session;
        }
        if (instance->session)
            continue;
        tenon_session **session = &pool->sessions[pool->session_count];
        settler s = {.recipe = r,
                     .session = session,
                     .count = pool->threads,
                     .node = instance->node,
                     .copy = pool->session_count > 0};
        if (instance->node >= 0)
            s.pus = instance->pus;
        TN_TRY(s.pus ? settle_bound(&s) : settle(&s));
        pool->session_count++;
        instance->session = *session;
    }
    return TENON_OK;
}

static tenon_status no_state(const tenon_session *session) {
    assert(session);
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

/* Compiles for the sample inputs, or the batch, and notes what outputs are then. */
static tenon_status compile(tenon_pool *pool, const tenon_view *samples, int sample_count) {
    for (int i = 0; i < pool->session_count; i++) {
        tn_plan *plan;
        TN_TRY(tn_session_plan(pool->sessions[i], samples, sample_count, &plan));
        for (int k = 0; k < pool->output_count && i == 0; k++)
            pool->outputs[k] = plan->outputs[k].view;
        bool writes = pool->batching.size > 0 && plan->write_count > 0;
        tn_plan_drop(&plan);
        if (writes)
            return tn_fail(TENON_UNSUPPORTED, "runs change inputs, which requests that share a "
                                              "batch do not get back");
    }
    return TENON_OK;
}

/* ---- Places ---- */

static tenon_status find_places(tenon_pool *pool, const recipe *r) {
    int instances = pool->instance_count, threads = pool->threads;
    tenon_place *places = calloc((size_t)instances, sizeof *places);
    pool->pus = calloc((size_t)instances * (size_t)threads, sizeof *pool->pus);
    tenon_status status = places && pool->pus ? tenon_topology_place(r->topology, instances,
                                                                     threads, places, pool->pus)
                                              : tn_no_memory();
    bool pinned = !r->options.unpinned && !r->machine.synthetic;
    for (int i = 0; i < instances && status == TENON_OK; i++)
        pinned &= !places[i].shared; /* the system shares cores better than a fixed rule */
    for (int i = 0; i < instances && status == TENON_OK; i++) {
        tn_pool_instance *instance = &pool->instances[i];
        instance->place = places[i];
        instance->node = pinned && r->machine.nodes > 1 ? places[i].node : -1;
        instance->pus = pinned ? pool->pus + (size_t)i * (size_t)threads : NULL;
        if (!pinned && !r->machine.synthetic)
            instance->place.node = 0; /* so that all share a session */
    }
    free(places);
    return status;
}

/* ---- Pools ---- */

static tenon_status pool_alloc(int instances, int threads, tenon_pool **out) {
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
    pool->forks = tn_threads_forks();
    pool->instance_count = instances;
    pool->threads = threads;
    *out = pool;
    return TENON_OK;
}

static tenon_status instances_alloc(tenon_pool *pool, int batch) {
    size_t inputs = (size_t)pool->input_count + 1, outputs = (size_t)pool->output_count + 1;
    pool->instances = calloc((size_t)pool->instance_count, sizeof *pool->instances);
    pool->sessions = calloc((size_t)pool->instance_count, sizeof *pool->sessions);
    pool->outputs = calloc(outputs, sizeof *pool->outputs);
    if (!pool->instances || !pool->sessions || !pool->outputs)
        return tn_no_memory();
    for (int i = 0; i < pool->instance_count; i++) {
        tn_pool_instance *instance = &pool->instances[i];
        instance->pool = pool;
        instance->taken = calloc((size_t)at_least_one(batch), sizeof *instance->taken);
        instance->inputs = calloc(inputs, sizeof *instance->inputs);
        instance->outputs = calloc(outputs, sizeof *instance->outputs);
        if (!instance->taken || !instance->inputs || !instance->outputs)
            return tn_no_memory();
    }
    return TENON_OK;
}

static int queue_size(const tenon_pool_options *options, int instances) {
    int size = options->queue;
    if (size == 0) {
        size = 4 * instances > 16 ? 4 * instances : 16;
        size = 2 * options->batch > size ? 2 * options->batch : size;
    }
    return size;
}

static tenon_status make_split(const recipe *r, int instances, int threads, tenon_pool **out) {
    tenon_status status;
    tenon_pool *pool = NULL;
    recipe of = *r;
    of.session.threads = threads;
    TN_TRY(pool_alloc(instances, threads, &pool));
    pool->queue = queue_size(&r->options, instances);
    pool->input_count = r->graph->input_count;
    pool->output_count = r->graph->output_count;
    TN_GOTO(instances_alloc(pool, r->options.batch));
    TN_GOTO(find_places(pool, r));
    if (r->options.batch > 0)
        TN_GOTO(tn_batch_init(&pool->batching, r->graph, &r->options, r->samples, r->sample_count));
    TN_GOTO(make_sessions(pool, &of));
    TN_GOTO(no_state(pool->sessions[0]));
    TN_GOTO(
        compile(pool, r->options.batch > 0 ? pool->batching.inputs : r->samples, r->sample_count));
    if (r->options.batch > 0)
        TN_GOTO(tn_batch_check_outputs(&pool->batching, pool->sessions[0], pool->outputs));
    TN_GOTO(tn_pool_start(pool));
    *out = pool;
    return TENON_OK;
error:
    tenon_pool_destroy(&pool);
    return status;
}

/* ---- Measuring splits ---- */

#define MEASURE_NS 300000000
#define MAX_SPLITS 32
/* A split with more instances, and so more memory, has to be so much better. */
#define BETTER 1.02

/* What is run: the samples, zeros where they have no data, in full batches. */
typedef struct feed {
    tenon_tensor **tensors;
    tenon_view *inputs, *outputs;
    int input_count, output_count;
} feed;

static void feed_free(feed *f) {
    for (int i = 0; f->tensors && i < f->input_count; i++)
        tenon_tensor_destroy(&f->tensors[i]);
    free(f->tensors);
    free(f->inputs);
    free(f->outputs);
}

static tenon_status fill(const tenon_view *sample, const tenon_view *room) {
    if (!sample->data || tenon_view_numel(sample) == 0)
        return TENON_OK;
    if (room->rank == 0 || room->shape[0] == sample->shape[0])
        return tenon_view_copy(room, sample);
    for (int64_t row = 0; row < room->shape[0]; row++) {
        tenon_view to = *room, from = *sample;
        int64_t size = (int64_t)tenon_dtype_size(room->dtype);
        to.shape[0] = from.shape[0] = 1;
        to.data = (char *)to.data + row * to.strides[0] * size;
        from.data = (char *)from.data + row % sample->shape[0] * from.strides[0] * size;
        TN_TRY(tenon_view_copy(&to, &from));
    }
    return TENON_OK;
}

static tenon_status feed_make(const tenon_pool *pool, const recipe *r, feed *f) {
    const tn_batching *b = &pool->batching;
    f->input_count = pool->input_count;
    f->output_count = pool->output_count;
    f->tensors = calloc((size_t)f->input_count + 1, sizeof(tenon_tensor *));
    f->inputs = calloc((size_t)f->input_count + 1, sizeof *f->inputs);
    f->outputs = calloc((size_t)f->output_count + 1, sizeof *f->outputs);
    if (!f->tensors || !f->inputs || !f->outputs)
        return tn_no_memory();
    for (int i = 0; i < f->input_count; i++) {
        if (b->size > 0 && !b->batched[i])
            continue;
        const tenon_view *shape = b->size > 0 ? &b->inputs[i] : &r->samples[i];
        TN_TRY(tenon_tensor_create(shape->dtype, shape->rank, shape->shape, &f->tensors[i]));
        f->inputs[i] = *tenon_tensor_view(f->tensors[i]);
        TN_TRY(fill(&r->samples[i], &f->inputs[i]));
    }
    return TENON_OK;
}

/* Queues so many runs, or as many as fit a moment, and waits for them. */
static tenon_status run_many(tenon_pool *pool, const feed *f, int least, int64_t moment) {
    int64_t start = tn_clock_ns();
    for (int i = 0; i < least || tn_clock_ns() - start < moment; i++)
        TN_TRY(tenon_pool_submit(pool, f->inputs, f->input_count, f->outputs, f->output_count, NULL,
                                 NULL, NULL));
    tenon_pool_drain(pool);
    return TENON_OK;
}

static tenon_status measure(tenon_pool *pool, const feed *f, double *rate) {
    tenon_pool_stats stats;
    tenon_request *request = NULL;
    /* Alone first, which tells what is wrong when it fails. */
    TN_TRY(tenon_pool_submit(pool, f->inputs, f->input_count, f->outputs, f->output_count, NULL,
                             NULL, &request));
    TN_TRY(tenon_request_wait(&request));
    TN_TRY(run_many(pool, f, 2 * pool->instance_count, 0));
    tenon_pool_reset_stats(pool);
    TN_TRY(run_many(pool, f, 4 * pool->instance_count, MEASURE_NS));
    tenon_pool_get_stats(pool, &stats);
    *rate = stats.seconds > 0 ? (double)stats.by_status[TENON_OK] / stats.seconds : 0;
    tenon_pool_reset_stats(pool);
    return TENON_OK;
}

/* Numbers of instances to try: powers of two, one for each node and L3 group, and one for each
 * thread. */
static int list_splits(const recipe *r, int *list) {
    int count = 0;
    for (int n = 1; n <= r->threads && count < MAX_SPLITS; n++) {
        if ((n & (n - 1)) == 0 || n == r->machine.nodes || n == r->machine.l3_groups ||
            n == r->threads)
            list[count++] = n;
    }
    return count;
}

static tenon_status make_best(const recipe *r, tenon_pool **out) {
    tenon_status status = TENON_OK;
    int list[MAX_SPLITS], count = list_splits(r, list), tried = 0;
    tenon_pool *best = NULL, *pool = NULL;
    tenon_pool_split *splits = calloc(MAX_SPLITS, sizeof *splits);
    double best_rate = 0;
    if (!splits)
        return tn_no_memory();
    for (int i = 0; i < count; i++) {
        feed f = {0};
        double rate = 0;
        TN_GOTO(make_split(r, list[i], at_least_one(r->threads / list[i]), &pool));
        status = feed_make(pool, r, &f);
        if (status == TENON_OK)
            status = measure(pool, &f, &rate);
        feed_free(&f);
        if (status != TENON_OK)
            goto error;
        splits[tried++] = (tenon_pool_split){list[i], pool->threads, rate};
        tn_log(TENON_LOG_INFO, "pool: %d instances of %d threads: %.3g runs a second", list[i],
               pool->threads, rate);
        if (!best || rate > best_rate * BETTER) {
            best_rate = rate;
            tenon_pool_destroy(&best);
            best = pool;
            pool = NULL;
        }
        tenon_pool_destroy(&pool);
    }
    assert(best);
    best->measured = splits;
    best->measured_count = tried;
    *out = best;
    return TENON_OK;
error:
    tenon_pool_destroy(&pool);
    tenon_pool_destroy(&best);
    free(splits);
    return status;
}

tenon_status tenon_pool_create(const tenon_graph *graph,
                               const tenon_session_options *session_options,
                               const tenon_pool_options *options, const tenon_view *samples,
                               int sample_count, tenon_pool **out) {
    recipe r = {.graph = graph, .samples = samples, .sample_count = sample_count};
    tenon_topology *own = NULL;
    int instances, threads;
    if (session_options)
        r.session = *session_options;
    if (options)
        r.options = *options;
    TN_TRY(check_options(&r.options));
    if (!r.options.topology)
        TN_TRY(tenon_topology_create(NULL, &own));
    r.topology = own ? own : r.options.topology;
    tenon_topology_get_info(r.topology, &r.machine);
    r.threads = r.session.threads > 0 ? r.session.threads : r.machine.threads;
    bool given = r.options.instances > 0 || r.options.threads > 0;
    tenon_status status;
    if (r.options.hint == TENON_POOL_AUTO && !given) {
        status = make_best(&r, out);
    } else {
        split(&r, &instances, &threads);
        status = make_split(&r, instances, threads, out);
    }
    tenon_topology_destroy(&own);
    return status;
}
