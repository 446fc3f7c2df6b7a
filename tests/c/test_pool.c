/* Pools: results, the queue, cancellation, errors, statistics. Instances are held where a test
 * wants them by callbacks that wait, so that nothing here depends on time. */
#include "run_graph.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

enum { ROWS = 3, WIDTH = 5 };

static const char affine[] = "graph g {\n"
                             "  symbol s0 in [1, 64]\n"
                             "  input %x: float32[s0, 5]\n"
                             "  const %w: float32[5] = {1, 2, 3, 4, 5}\n"
                             "  %a = aten.mul.Tensor(%x, %w)\n"
                             "  %y = aten.relu(%a)\n"
                             "  output \"y\" = %y\n"
                             "}\n";

static tenon_pool *make_pool(const char *text, const tenon_pool_options *options,
                             const tenon_view *samples, int count) {
    tenon_graph *graph = parse_graph(text);
    tenon_pool *pool = NULL;
    OK(tenon_pool_create(graph, NULL, options, samples, count, &pool));
    tenon_graph_destroy(&graph);
    return pool;
}

static tenon_pool *affine_pool(int instances, int queue) {
    const tenon_pool_options options = {.instances = instances, .threads = 1, .queue = queue};
    tenon_view sample = floats(NULL, ROWS, WIDTH);
    return make_pool(affine, &options, &sample, 1);
}

/* Numbers that differ from request to request, and what `affine` makes of them. */
static void fill(float *x, int rows, int seed) {
    for (int i = 0; i < rows * WIDTH; i++)
        x[i] = (float)((i * 7 + seed * 13) % 29) - 9;
}

static bool right(const float *x, const float *y, int rows) {
    for (int i = 0; i < rows * WIDTH; i++) {
        float want = x[i] * (float)(i % WIDTH + 1);
        if (y[i] != (want > 0 ? want : 0))
            return false;
    }
    return true;
}

/* ---- An instance that is held ---- */

typedef struct gate {
    sem_t reached, open;
    atomic_int calls;
    tenon_status status;
} gate;

static void gate_init(gate *g) {
    *g = (gate){.status = TENON_INTERNAL};
    sem_init(&g->reached, 0, 0);
    sem_init(&g->open, 0, 0);
}

static void hold(void *user, tenon_status status, const tenon_view *outputs) {
    gate *g = user;
    (void)outputs;
    g->status = status;
    sem_post(&g->reached);
    sem_wait(&g->open);
}

static void note(void *user, tenon_status status, const tenon_view *outputs) {
    gate *g = user;
    (void)outputs;
    g->status = status;
    atomic_fetch_add(&g->calls, 1);
}

typedef struct run {
    float x[ROWS * WIDTH], y[ROWS * WIDTH];
    tenon_view in, out;
    tenon_request *request;
} run;

static void run_init(run *r, int seed) {
    fill(r->x, ROWS, seed);
    r->in = floats(r->x, ROWS, WIDTH);
    r->out = floats(r->y, ROWS, WIDTH);
}

static void run_submit(tenon_pool *pool, run *r, tenon_pool_done done, void *user) {
    OK(tenon_pool_submit(pool, &r->in, 1, &r->out, 1, done, user, &r->request));
}

/* The pool's one instance is in a callback when this returns. */
static void occupy(tenon_pool *pool, run *r, gate *g) {
    gate_init(g);
    run_init(r, 99);
    run_submit(pool, r, hold, g);
    sem_wait(&g->reached);
}

static void release(run *r, gate *g) {
    sem_post(&g->open);
    OK(tenon_request_wait(&r->request));
    ck_assert_int_eq(g->status, TENON_OK);
}

/* ---- Requests ---- */

START_TEST(serves_requests) {
    enum { COUNT = 40 };
    tenon_pool *pool = affine_pool(1 + _i, 0);
    run *runs = calloc(COUNT, sizeof *runs);
    ck_assert_int_eq(tenon_pool_instances(pool), 1 + _i);
    ck_assert_int_eq(tenon_pool_threads(pool), 1);
    ck_assert_str_eq(tenon_session_input_name(tenon_pool_session(pool), 0), "x");
    tenon_view output;
    ck_assert(tenon_pool_output(pool, 0, &output) && !tenon_pool_output(pool, 1, &output));
    ck_assert(output.rank == 2 && output.shape[0] == ROWS && output.shape[1] == WIDTH);
    for (int i = 0; i < COUNT; i++) {
        run_init(&runs[i], i);
        run_submit(pool, &runs[i], NULL, NULL);
    }
    for (int i = 0; i < COUNT; i++) {
        OK(tenon_request_wait(&runs[i].request));
        ck_assert_ptr_null(runs[i].request);
        ck_assert_msg(right(runs[i].x, runs[i].y, ROWS), "request %d", i);
    }
    tenon_pool_stats stats;
    tenon_pool_get_stats(pool, &stats);
    ck_assert_uint_eq(stats.submitted, COUNT);
    ck_assert_uint_eq(stats.by_status[TENON_OK], COUNT);
    ck_assert_uint_eq(stats.runs, COUNT);
    ck_assert(stats.waiting == 0 && stats.running == 0);
    ck_assert(stats.throughput > 0 && stats.run_seconds > 0 && stats.seconds > 0);
    ck_assert(stats.run_seconds_max <= stats.run_seconds);
    tenon_pool_reset_stats(pool);
    tenon_pool_get_stats(pool, &stats);
    ck_assert(stats.submitted == 0 && stats.seconds == 0);
    tenon_pool_destroy(&pool);
    ck_assert_ptr_null(pool);
    tenon_pool_destroy(&pool);
    free(runs);
}
END_TEST

/* Without memory of the caller's, and without a handle. */
static void check_outputs(void *user, tenon_status status, const tenon_view *outputs) {
    run *r = user;
    if (status == TENON_OK && outputs[0].data)
        memcpy(r->y, outputs[0].data, sizeof r->y);
}

START_TEST(callbacks_see_outputs) {
    tenon_pool *pool = affine_pool(2, 0);
    run runs[6];
    for (int i = 0; i < 6; i++) {
        run_init(&runs[i], i);
        runs[i].out = (tenon_view){0};
        OK(tenon_pool_submit(pool, &runs[i].in, 1, &runs[i].out, 1, check_outputs, &runs[i], NULL));
    }
    tenon_pool_drain(pool);
    for (int i = 0; i < 6; i++)
        ck_assert_msg(right(runs[i].x, runs[i].y, ROWS), "request %d", i);
    tenon_pool_destroy(&pool);
}
END_TEST

/* Shapes that were not compiled before. */
START_TEST(takes_other_shapes) {
    tenon_pool *pool = affine_pool(2, 0);
    float x[7 * WIDTH], y[7 * WIDTH];
    fill(x, 7, 1);
    tenon_view in = floats(x, 7, WIDTH), out = floats(y, 7, WIDTH);
    tenon_request *request = NULL;
    OK(tenon_pool_submit(pool, &in, 1, &out, 1, NULL, NULL, &request));
    OK(tenon_request_wait(&request));
    ck_assert(right(x, y, 7));
    tenon_pool_destroy(&pool);
}
END_TEST

START_TEST(failures_stay_with_their_request) {
    tenon_pool *pool = affine_pool(1, 0);
    run good[2], bad;
    gate g;
    gate_init(&g);
    for (int i = 0; i < 2; i++)
        run_init(&good[i], i);
    run_init(&bad, 7);
    bad.in.shape[1] = 4;
    run_submit(pool, &good[0], NULL, NULL);
    run_submit(pool, &bad, note, &g);
    run_submit(pool, &good[1], NULL, NULL);
    OK(tenon_request_wait(&good[0].request));
    FAILS(tenon_request_wait(&bad.request), TENON_INPUT_MISMATCH, "'x'");
    OK(tenon_request_wait(&good[1].request));
    ck_assert_int_eq(g.status, TENON_INPUT_MISMATCH);
    ck_assert(right(good[0].x, good[0].y, ROWS) && right(good[1].x, good[1].y, ROWS));
    tenon_pool_stats stats;
    tenon_pool_get_stats(pool, &stats);
    ck_assert_uint_eq(stats.by_status[TENON_INPUT_MISMATCH], 1);
    ck_assert_uint_eq(stats.by_status[TENON_OK], 2);
    tenon_request *request = NULL;
    FAILS(tenon_pool_submit(pool, &bad.in, 2, &bad.out, 1, NULL, NULL, &request),
          TENON_INPUT_MISMATCH, "2 inputs");
    FAILS(tenon_pool_submit(pool, &bad.in, 1, &bad.out, 0, NULL, NULL, &request),
          TENON_INVALID_ARGUMENT, "0 outputs");
    ck_assert_ptr_null(request);
    tenon_pool_destroy(&pool);
}
END_TEST

/* ---- The queue ---- */

START_TEST(full_queues_refuse) {
    tenon_pool *pool = affine_pool(1, 2);
    run runs[4];
    gate g;
    occupy(pool, &runs[0], &g);
    for (int i = 1; i < 3; i++) {
        run_init(&runs[i], i);
        run_submit(pool, &runs[i], NULL, NULL);
    }
    run_init(&runs[3], 3);
    FAILS(tenon_pool_try_submit(pool, &runs[3].in, 1, &runs[3].out, 1, NULL, NULL, NULL),
          TENON_BUSY, "2 requests wait");
    tenon_pool_stats stats;
    tenon_pool_get_stats(pool, &stats);
    ck_assert(stats.refused == 1 && stats.waiting == 2 && stats.running == 1);
    release(&runs[0], &g);
    for (int i = 1; i < 3; i++)
        OK(tenon_request_wait(&runs[i].request));
    OK(tenon_pool_try_submit(pool, &runs[3].in, 1, &runs[3].out, 1, NULL, NULL, &runs[3].request));
    OK(tenon_request_wait(&runs[3].request));
    ck_assert(right(runs[3].x, runs[3].y, ROWS));
    tenon_pool_destroy(&pool);
}
END_TEST

typedef struct producer {
    tenon_pool *pool;
    run *r;
} producer;

static void *submit_blocking(void *user) {
    producer *p = user;
    return tenon_pool_submit(p->pool, &p->r->in, 1, &p->r->out, 1, NULL, NULL, &p->r->request) ==
                   TENON_OK
               ? user
               : NULL;
}

/* A blocked submission goes on when there is room: after a run, and after a cancellation. */
START_TEST(full_queues_block) {
    tenon_pool *pool = affine_pool(1, 1);
    run runs[3];
    gate g;
    pthread_t thread;
    void *submitted = NULL;
    occupy(pool, &runs[0], &g);
    for (int i = 1; i < 3; i++)
        run_init(&runs[i], i);
    run_submit(pool, &runs[1], NULL, NULL);
    producer p = {pool, &runs[2]};
    ck_assert_int_eq(pthread_create(&thread, NULL, submit_blocking, &p), 0);
    if (_i == 0) {
        release(&runs[0], &g);
        OK(tenon_request_wait(&runs[1].request));
    } else {
        ck_assert(tenon_request_cancel(runs[1].request));
    }
    ck_assert_int_eq(pthread_join(thread, &submitted), 0);
    ck_assert_ptr_nonnull(submitted);
    if (_i == 1) {
        release(&runs[0], &g);
        FAILS(tenon_request_wait(&runs[1].request), TENON_CANCELLED, "cancelled");
    }
    OK(tenon_request_wait(&runs[2].request));
    ck_assert(right(runs[2].x, runs[2].y, ROWS));
    tenon_pool_destroy(&pool);
}
END_TEST

START_TEST(waiting_requests_can_be_cancelled) {
    tenon_pool *pool = affine_pool(1, 0);
    run held, runs[5];
    gate g, done;
    gate_init(&done);
    occupy(pool, &held, &g);
    for (int i = 0; i < 5; i++) {
        run_init(&runs[i], i);
        run_submit(pool, &runs[i], note, &done);
    }
    ck_assert(!tenon_request_cancel(held.request)); /* it runs */
    ck_assert(tenon_request_cancel(runs[4].request));
    ck_assert(tenon_request_cancel(runs[1].request));
    ck_assert(!tenon_request_cancel(runs[1].request));
    ck_assert_int_eq(done.status, TENON_CANCELLED);
    ck_assert_int_eq(atomic_load(&done.calls), 2);
    ck_assert(tenon_request_is_done(runs[1].request));
    ck_assert(!tenon_request_is_done(runs[0].request));
    release(&held, &g);
    for (int i = 0; i < 5; i++) {
        if (i == 1 || i == 4) {
            FAILS(tenon_request_wait(&runs[i].request), TENON_CANCELLED, "cancelled");
        } else {
            OK(tenon_request_wait(&runs[i].request));
            ck_assert(right(runs[i].x, runs[i].y, ROWS));
        }
    }
    ck_assert_int_eq(atomic_load(&done.calls), 5);
    tenon_pool_destroy(&pool);
}
END_TEST

static void *open_gate(void *user) {
    gate *g = user;
    sem_post(&g->open);
    return NULL;
}

/* Shutting down: everything that waits runs, or is cancelled before; handles outlive the pool. */
START_TEST(pools_end_cleanly) {
    tenon_pool *pool = affine_pool(1, 0);
    run held, runs[4];
    gate g;
    pthread_t thread;
    occupy(pool, &held, &g);
    for (int i = 0; i < 4; i++) {
        run_init(&runs[i], i);
        run_submit(pool, &runs[i], NULL, NULL);
    }
    if (_i == 1)
        ck_assert_int_eq(tenon_pool_cancel(pool), 4);
    ck_assert_int_eq(pthread_create(&thread, NULL, open_gate, &g), 0);
    tenon_pool_destroy(&pool);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    OK(tenon_request_wait(&held.request));
    for (int i = 0; i < 4; i++) {
        if (_i == 1) {
            FAILS(tenon_request_wait(&runs[i].request), TENON_CANCELLED, "cancelled");
        } else {
            OK(tenon_request_wait(&runs[i].request));
            ck_assert(right(runs[i].x, runs[i].y, ROWS));
        }
    }
}
END_TEST

/* ---- Making ---- */

START_TEST(options_are_checked) {
    tenon_graph *graph = parse_graph(affine);
    tenon_view sample = floats(NULL, ROWS, WIDTH);
    tenon_pool *pool = NULL;
    static const struct {
        tenon_pool_options options;
        const char *text;
    } bad[] = {{{.hint = (tenon_pool_hint)9}, "hint 9"},
               {{.instances = -1}, "instances is -1"},
               {{.threads = 5000}, "threads is 5000"},
               {{.queue = -2}, "queue is -2"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(tenon_pool_create(graph, NULL, &bad[i].options, &sample, 1, &pool),
              TENON_INVALID_ARGUMENT, bad[i].text);
    sample.shape[1] = 6;
    FAILS(tenon_pool_create(graph, NULL, NULL, &sample, 1, &pool), TENON_INPUT_MISMATCH, "'x'");
    ck_assert_ptr_null(pool);
    tenon_graph_destroy(&graph);
    graph = parse_graph("graph g { input %x: float32[2]\nbuffer %b: float32[2] = {0, 0}\n"
                        "%y = aten.add_.Tensor(%b, %x)\noutput \"y\" = %y }");
    sample = floats(NULL, 2, -1);
    FAILS(tenon_pool_create(graph, NULL, NULL, &sample, 1, &pool), TENON_UNSUPPORTED, "'b'");
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(splits_threads) {
    static const struct {
        int all, instances, threads;
        tenon_pool_hint hint;
        int want_instances, want_threads;
    } cases[] = {{4, 0, 0, TENON_POOL_THROUGHPUT, 4, 1},  {4, 0, 0, TENON_POOL_LATENCY, 1, 4},
                 {4, 2, 0, TENON_POOL_THROUGHPUT, 2, 2},  {4, 0, 2, TENON_POOL_LATENCY, 2, 2},
                 {3, 2, 0, TENON_POOL_THROUGHPUT, 2, 1},  {2, 3, 0, TENON_POOL_THROUGHPUT, 3, 1},
                 {16, 0, 0, TENON_POOL_THROUGHPUT, 8, 2}, {1, 1, 2, TENON_POOL_THROUGHPUT, 1, 2}};
    tenon_graph *graph = parse_graph(affine);
    tenon_view sample = floats(NULL, ROWS, WIDTH);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tenon_session_options session = {.threads = cases[i].all};
        tenon_pool_options options = {
            .hint = cases[i].hint, .instances = cases[i].instances, .threads = cases[i].threads};
        tenon_pool *pool = NULL;
        OK(tenon_pool_create(graph, &session, &options, &sample, 1, &pool));
        ck_assert_int_eq(tenon_pool_instances(pool), cases[i].want_instances);
        ck_assert_int_eq(tenon_pool_threads(pool), cases[i].want_threads);
        tenon_pool_destroy(&pool);
    }
    tenon_graph_destroy(&graph);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pool");
    TCase *tcase = tcase_create("pool");
    tcase_add_loop_test(tcase, serves_requests, 0, 3);
    tcase_add_test(tcase, callbacks_see_outputs);
    tcase_add_test(tcase, takes_other_shapes);
    tcase_add_test(tcase, failures_stay_with_their_request);
    tcase_add_test(tcase, full_queues_refuse);
    tcase_add_loop_test(tcase, full_queues_block, 0, 2);
    tcase_add_test(tcase, waiting_requests_can_be_cancelled);
    tcase_add_loop_test(tcase, pools_end_cleanly, 0, 2);
    tcase_add_test(tcase, options_are_checked);
    tcase_add_test(tcase, splits_threads);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
