/* What the threads of a round do. */
#include "soak.h"
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8, SESSIONS = 3, POOLS = 2, STEPS = 20, SHAPES_KEPT = 2 };

typedef struct shared_session {
    const model *m;
    int variant;
    tenon_session *session;
} shared_session;

typedef struct shared_pool {
    const model *m;
    int variant, batch;
    tenon_pool *pool;
    atomic_llong calls;
} shared_pool;

typedef struct round {
    const char *folder;
    shared_session sessions[SESSIONS];
    shared_pool pools[POOLS];
    pthread_mutex_t recording; /* one profiler of a process records at a time */
} round;

typedef struct worker {
    pthread_t thread;
    round *round;
    int number;
    unsigned seed;
} worker;

unsigned next_random(unsigned *state) { /* Marsaglia's xorshift of 32 bits */
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static int below(unsigned *seed, int count) {
    return (int)(next_random(seed) % (unsigned)count);
}

static const model *any_model(unsigned *seed) {
    return &models[below(seed, model_count)];
}

/* ---- Sessions ---- */

/* More sets than the session keeps, from a context that comes and goes. */
static void use_session(worker *w) {
    const shared_session *s = &w->round->sessions[below(&w->seed, SESSIONS)];
    tenon_context *context = NULL;
    CHECK(tenon_context_create(s->session, &context));
    for (int i = 0; i < 2 + below(&w->seed, 6); i++)
        model_run(s->m, below(&w->seed, s->m->sets), s->variant, context);
    tenon_context_destroy(&context);
}

/* A graph from a file, or the one that is there, and a session of its own, which may go before its
 * contexts do. */
static void make_session(worker *w) {
    const model *m = any_model(&w->seed);
    int form = below(&w->seed, FORMS + 1), v = below(&w->seed, variant_count);
    const tenon_load_options options = {.copy_weights = below(&w->seed, 2) == 0};
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    tenon_context *contexts[2] = {NULL, NULL};
    if (form < FORMS) {
        atomic_fetch_add(&figure.loads, 1);
        CHECK(tenon_load_with(m->files[form], &options, &graph));
    }
    atomic_fetch_add(&figure.sessions, 1);
    CHECK(
        model_session(graph ? graph : m->graph, v, SHAPES_KEPT, below(&w->seed, 4) == 0, &session));
    if (below(&w->seed, 2) == 0)
        tenon_graph_destroy(&graph);
    CHECK(tenon_context_create(session, &contexts[0]));
    CHECK(tenon_context_create(session, &contexts[1]));
    if (below(&w->seed, 2) == 0)
        tenon_session_destroy(&session);
    for (int i = 0; i < 4; i++)
        model_run(m, below(&w->seed, m->sets), v, contexts[i % 2]);
    tenon_context_destroy(&contexts[0]);
    tenon_session_destroy(&session);
    model_run(m, below(&w->seed, m->sets), v, contexts[1]);
    tenon_context_destroy(&contexts[1]);
    tenon_graph_destroy(&graph);
}

/* ---- Pools ---- */

typedef struct job {
    shared_pool *shared;
    int set;
    int64_t row, rows; /* rows 0: all */
    tenon_tensor *inputs[MAX_VALUES], *outputs[MAX_VALUES];
    tenon_view in[MAX_VALUES], out[MAX_VALUES];
} job;

static void look(void *user, tenon_status status, const tenon_view *outputs) {
    job *j = user;
    const shared_pool *p = j->shared;
    atomic_fetch_add(&j->shared->calls, 1);
    if (status == TENON_OK && !(j->rows ? model_near(p->m, j->set, p->variant, j->row, outputs)
                                        : model_exact(p->m, j->set, p->variant, outputs)))
        fault("%s, set %d, %s: a request of a pool%s got wrong numbers", p->m->name, j->set,
              variants[p->variant].name, j->rows ? " with batches" : "");
}

static void take_rows(tenon_view *view, int64_t row, int64_t rows) {
    view->data =
        (char *)view->data + (size_t)(row * view->strides[0]) * tenon_dtype_size(view->dtype);
    view->shape[0] = rows;
}

/* `stored`: the outputs lie in memory of the caller. */
static void job_init(job *j, shared_pool *shared, unsigned *seed, bool stored) {
    const model *m = shared->m;
    *j = (job){.shared = shared, .set = below(seed, m->sets)};
    if (shared->batch) {
        j->set = m->sets - 1;
        j->rows = 1 + below(seed, shared->batch);
        j->row = below(seed, 4);
    }
    const sample *s = &m->samples[j->set];
    for (int i = 0; i < m->inputs; i++) {
        tenon_view view = *tenon_tensor_view(s->inputs[i]);
        if (j->rows)
            take_rows(&view, j->row, j->rows);
        CHECK(tenon_tensor_create(view.dtype, view.rank, view.shape, &j->inputs[i]));
        j->in[i] = *tenon_tensor_view(j->inputs[i]);
        CHECK(tenon_view_copy(&j->in[i], &view));
    }
    for (int i = 0; i < m->outputs && stored; i++) {
        if (!s->exact[shared->variant][i])
            continue;
        tenon_view view = *tenon_tensor_view(s->exact[shared->variant][i]);
        if (j->rows)
            view.shape[0] = j->rows;
        CHECK(tenon_tensor_create(view.dtype, view.rank, view.shape, &j->outputs[i]));
        j->out[i] = *tenon_tensor_view(j->outputs[i]);
    }
}

static void job_free(job *j) {
    for (int i = 0; i < MAX_VALUES; i++) {
        tenon_tensor_destroy(&j->inputs[i]);
        tenon_tensor_destroy(&j->outputs[i]);
    }
}

static void request(worker *w) {
    shared_pool *p = &w->round->pools[below(&w->seed, POOLS)];
    int kind = below(&w->seed, 16);
    tenon_request *request = NULL;
    tenon_status status = TENON_OK;
    bool bad = kind == 0 && p->m->inputs > 0;
    job j;
    job_init(&j, p, &w->seed, kind != 1);
    if (bad)
        j.in[0].dtype = j.in[0].dtype == TENON_UINT16 ? TENON_UINT32 : TENON_UINT16;
    if (kind == 2)
        status = tenon_pool_try_submit(p->pool, j.in, p->m->inputs, j.out, p->m->outputs, look, &j,
                                       &request);
    else
        CHECK(tenon_pool_submit(p->pool, j.in, p->m->inputs, j.out, p->m->outputs, look, &j,
                                &request));
    if (!request) {
        atomic_fetch_add(&figure.busy, 1);
        if (status != TENON_BUSY)
            fault("a pool's queue: %s", tenon_last_error());
        job_free(&j);
        return;
    }
    bool cancelled = kind == 3 && tenon_request_cancel(request);
    if (kind == 4)
        tenon_pool_drain(p->pool);
    status = tenon_request_wait(&request);
    tenon_status want = bad ? TENON_INPUT_MISMATCH : cancelled ? TENON_CANCELLED : TENON_OK;
    atomic_fetch_add(bad ? &figure.refused : cancelled ? &figure.cancelled : &figure.requests, 1);
    if (status != want)
        fault("%s: a request's status is %s, not %s: %s", p->m->name, tenon_status_text(status),
              tenon_status_text(want), tenon_last_error());
    job_free(&j);
}

/* ---- Recording, and files ---- */

static void record(worker *w) {
    static const tenon_profiler_options options = {
        .record_shapes = true, .profile_memory = true, .with_flops = true, .with_modules = true};
    char path[512];
    if (pthread_mutex_trylock(&w->round->recording) != 0)
        return;
    tenon_profiler *profiler = NULL;
    tenon_averages *averages = NULL;
    CHECK(tenon_profiler_create(&options, &profiler));
    CHECK(tenon_profiler_start(profiler));
    for (int i = 0; i < 3; i++)
        use_session(w);
    CHECK(tenon_profiler_stop(profiler));
    CHECK(tenon_profiler_key_averages(profiler, NULL, &averages));
    if (tenon_averages_count(averages) == 0)
        fault("the profiler saw nothing");
    snprintf(path, sizeof path, "%s/trace.json.gz", w->round->folder);
    CHECK(tenon_profiler_export_chrome_trace(profiler, path));
    tenon_averages_destroy(&averages);
    tenon_profiler_destroy(&profiler);
    atomic_fetch_add(&figure.recordings, 1);
    pthread_mutex_unlock(&w->round->recording);
}

/* An input goes to a file and comes back. */
static void use_files(worker *w) {
    const model *m = any_model(&w->seed);
    char path[512];
    tenon_tensor *back = NULL;
    if (m->inputs == 0)
        return;
    const tenon_view *view = tenon_tensor_view(m->samples[0].inputs[0]);
    snprintf(path, sizeof path, "%s/array%d.npy", w->round->folder, w->number);
    CHECK(tenon_npy_save(path, view));
    CHECK(tenon_npy_load(path, &back));
    const tenon_view *got = tenon_tensor_view(back);
    if (view->dtype != TENON_BFLOAT16 &&
        (got->dtype != view->dtype || tenon_view_numel(got) != tenon_view_numel(view) ||
         memcmp(got->data, view->data,
                (size_t)tenon_view_numel(view) * tenon_dtype_size(view->dtype)) != 0))
        fault("%s: an array came back from its file as another one", m->name);
    tenon_tensor_destroy(&back);
}

/* ---- Rounds ---- */

static void *work(void *user) {
    worker *w = user;
    for (int i = 0; i < STEPS; i++) {
        int kind = below(&w->seed, 16);
        if (kind < 4)
            use_session(w);
        else if (kind < 7)
            make_session(w);
        else if (kind < 12)
            request(w);
        else if (kind < 14)
            refused_call(next_random(&w->seed), w->round->folder);
        else if (kind < 15)
            record(w);
        else
            use_files(w);
    }
    return NULL;
}

static void make_pool(shared_pool *p, int number, unsigned *seed, bool batch) {
    do
        p->m = any_model(seed);
    while (p->m->stateful || (batch && !p->m->rows));
    p->variant = below(seed, variant_count);
    p->batch = batch ? ROWS : 0;
    const tenon_session_options *session = &variants[p->variant].options;
    const tenon_pool_options options = {.instances = 2,
                                        .threads = session->threads,
                                        .queue = 6,
                                        .batch = p->batch,
                                        .batch_wait_us = number % 3 == 2 ? 200 : 0};
    tenon_view samples[MAX_VALUES];
    for (int i = 0; i < p->m->inputs; i++)
        samples[i] = *tenon_tensor_view(p->m->samples[p->m->sets - 1].inputs[i]);
    CHECK(tenon_pool_create(p->m->graph, session, &options, samples, p->m->inputs, &p->pool));
}

static void end_pool(shared_pool *p) {
    tenon_pool_stats stats;
    uint64_t finished = 0;
    tenon_pool_get_stats(p->pool, &stats);
    for (int i = 0; i < TENON_POOL_STATUSES; i++)
        finished += stats.by_status[i];
    if (finished != stats.submitted || stats.waiting || stats.running)
        fault("requests got lost");
    if (finished != (uint64_t)atomic_load(&p->calls))
        fault("callbacks got lost");
    tenon_pool_destroy(&p->pool);
}

void round_run(int number, const char *folder) {
    static round r; /* its atomics are not copied */
    worker workers[THREADS];
    unsigned seed = (unsigned)(number + 1) * 2654435761u;
    memset(&r, 0, sizeof r);
    r.folder = folder;
    pthread_mutex_init(&r.recording, NULL);
    for (int i = 0; i < SESSIONS; i++) {
        shared_session *s = &r.sessions[i];
        s->m = any_model(&seed);
        s->variant = below(&seed, variant_count);
        CHECK(model_session(s->m->graph, s->variant, SHAPES_KEPT, number % 4 == 1, &s->session));
    }
    for (int i = 0; i < POOLS; i++)
        make_pool(&r.pools[i], number, &seed, i % 2 == 1);
    for (int i = 0; i < THREADS; i++) {
        workers[i].round = &r;
        workers[i].number = i;
        workers[i].seed = next_random(&seed);
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            exit(EXIT_FAILURE);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < POOLS; i++)
        end_pool(&r.pools[i]);
    for (int i = 0; i < SESSIONS; i++)
        tenon_session_destroy(&r.sessions[i].session);
    pthread_mutex_destroy(&r.recording);
}
