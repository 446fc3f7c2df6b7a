/* Pools: results, the queue, cancellation, errors, statistics. Instances are held where a test
 * wants them by callbacks that wait, so that nothing here depends on time. */
#include "run/pool.h"
#include "run_graph.h"
#include <pthread.h>
#include <sched.h>
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

/* ---- Batches ---- */

static tenon_pool *batch_pool(const char *text, int batch, int64_t wait_us) {
    const tenon_pool_options options = {
        .instances = 1, .threads = 1, .batch = batch, .batch_wait_us = wait_us};
    tenon_view sample = floats(NULL, 1, WIDTH);
    return make_pool(text, &options, &sample, 1);
}

/* One row of a run's numbers. */
static void take_rows(run *r, int from, int rows) {
    r->in = floats(r->x + from * WIDTH, rows, WIDTH);
    r->out = floats(r->y + from * WIDTH, rows, WIDTH);
}

/* Requests that wait together run together, whole requests in order, and what is left is padded. */
START_TEST(requests_share_batches) {
    static const int rows[] = {1, 2, 3, 2, 3, 1};
    enum { COUNT = 6 };
    tenon_pool *pool = batch_pool(affine, 4, 0);
    run held, runs[COUNT];
    gate g;
    tenon_view output;
    tenon_pool_stats stats;
    ck_assert(tenon_pool_output(pool, 0, &output) && output.shape[0] == 4);
    gate_init(&g);
    run_init(&held, 99);
    run_submit(pool, &held, hold, &g);
    sem_wait(&g.reached);
    tenon_pool_get_stats(pool, &stats);
    ck_assert(stats.runs == 1 && stats.samples == 3 && stats.padding == 1);
    tenon_pool_reset_stats(pool);
    for (int i = 0; i < COUNT; i++) {
        run_init(&runs[i], i);
        take_rows(&runs[i], 0, rows[i]);
        run_submit(pool, &runs[i], NULL, NULL);
    }
    release(&held, &g);
    for (int i = 0; i < COUNT; i++) {
        OK(tenon_request_wait(&runs[i].request));
        ck_assert_msg(right(runs[i].x, runs[i].y, rows[i]), "request %d", i);
    }
    tenon_pool_get_stats(pool, &stats); /* 1+2, 3, 2, 3+1 */
    ck_assert_uint_eq(stats.runs, 4);
    ck_assert_uint_eq(stats.samples, 12);
    ck_assert_uint_eq(stats.padding, 4);
    tenon_pool_destroy(&pool);
}
END_TEST

/* With time to wait, a batch that is not full runs when it gets full, or when the pool is drained.
 */
START_TEST(batches_wait_to_be_full) {
    const int64_t ten_minutes = INT64_C(600000000);
    tenon_pool *pool = batch_pool(affine, 3, ten_minutes);
    run runs[5];
    tenon_pool_stats stats;
    for (int i = 0; i < 5; i++) {
        run_init(&runs[i], i);
        take_rows(&runs[i], 0, 1);
        run_submit(pool, &runs[i], NULL, NULL);
    }
    for (int i = 0; i < 3; i++)
        OK(tenon_request_wait(&runs[i].request));
    ck_assert(!tenon_request_is_done(runs[3].request));
    tenon_pool_get_stats(pool, &stats);
    ck_assert(stats.runs == 1 && stats.padding == 0);
    tenon_pool_drain(pool);
    for (int i = 3; i < 5; i++)
        OK(tenon_request_wait(&runs[i].request));
    tenon_pool_get_stats(pool, &stats);
    ck_assert(stats.runs == 2 && stats.padding == 1);
    for (int i = 0; i < 5; i++)
        ck_assert(right(runs[i].x, runs[i].y, 1));
    tenon_pool_destroy(&pool);
    /* A short time ends by itself. */
    pool = batch_pool(affine, 3, 1000);
    run_submit(pool, &runs[0], NULL, NULL);
    OK(tenon_request_wait(&runs[0].request));
    tenon_pool_destroy(&pool);
}
END_TEST

/* A net whose rows depend on each other in no way, of a fixed batch of 6. */
static const char net[] = "graph g {\n"
                          "  input %x: float32[6, 3, 9, 9]\n"
                          "  const %w: float32[8, 3, 3, 3] = random(1)\n"
                          "  const %v: float32[8, 8, 3, 3] = random(2)\n"
                          "  const %u: float32[10, 72] = random(3)\n"
                          "  %a = aten.conv2d(%x, %w, none, [1, 1], [1, 1])\n"
                          "  %b = aten.relu(%a)\n"
                          "  %c = aten.conv2d(%b, %v, none, [3, 3], [1, 1])\n"
                          "  %d = aten.flatten.using_ints(%c, 1)\n"
                          "  %e = aten.layer_norm(%d, [72])\n"
                          "  %f = aten.linear(%e, %u)\n"
                          "  %y = aten.softmax.int(%f, 1)\n"
                          "  output \"y\" = %y\n"
                          "}\n";

enum { IMAGE = 3 * 9 * 9, CLASSES = 10, BATCH = 6 };

static tenon_pool *net_pool(void) {
    const tenon_pool_options options = {
        .instances = 1, .threads = 1, .batch = BATCH, .queue = BATCH * 4};
    tenon_view sample = view_of(NULL, TENON_FLOAT32, 1, 3, 9, 9);
    return make_pool(net, &options, &sample, 1);
}

/* Bit for bit the same, alone or with others, in whichever row of the batch. */
START_TEST(rows_do_not_depend_on_each_other) {
    static float x[BATCH * 4][IMAGE], alone[BATCH * 4][CLASSES], shared[BATCH * 4][CLASSES];
    enum { COUNT = BATCH * 4 };
    tenon_request *requests[COUNT] = {NULL};
    tenon_pool *pool = net_pool();
    for (int i = 0; i < COUNT; i++) {
        for (int k = 0; k < IMAGE; k++)
            x[i][k] = (float)((i * 31 + k * 17) % 101) / 25 - 2;
        tenon_view in = view_of(x[i], TENON_FLOAT32, 1, 3, 9, 9),
                   out = floats(alone[i], 1, CLASSES);
        OK(tenon_pool_submit(pool, &in, 1, &out, 1, NULL, NULL, &requests[i]));
        OK(tenon_request_wait(&requests[i]));
    }
    run held;
    gate g;
    tenon_pool_stats stats;
    for (int turn = 0; turn < BATCH; turn++) {
        memset(shared, 0, sizeof shared);
        gate_init(&g);
        tenon_view in = view_of(x[0], TENON_FLOAT32, 1, 3, 9, 9);
        tenon_view none = {0};
        OK(tenon_pool_submit(pool, &in, 1, &none, 1, hold, &g, &held.request));
        sem_wait(&g.reached);
        tenon_pool_reset_stats(pool);
        for (int k = 0; k < COUNT; k++) {
            int i = (k + turn) % COUNT;
            in = view_of(x[i], TENON_FLOAT32, 1, 3, 9, 9);
            tenon_view out = floats(shared[i], 1, CLASSES);
            OK(tenon_pool_submit(pool, &in, 1, &out, 1, NULL, NULL, &requests[i]));
        }
        release(&held, &g);
        for (int i = 0; i < COUNT; i++)
            OK(tenon_request_wait(&requests[i]));
        tenon_pool_get_stats(pool, &stats);
        ck_assert_uint_eq(stats.runs, COUNT / BATCH);
        ck_assert_mem_eq(shared, alone, sizeof shared);
    }
    tenon_pool_destroy(&pool);
}
END_TEST

/* Strided memory, several rows, and a whole batch in one request. */
START_TEST(batches_take_any_memory) {
    tenon_pool *pool = batch_pool(affine, 3, 0);
    run r;
    float wide_x[2 * 2 * WIDTH], wide_y[2 * 2 * WIDTH];
    run_init(&r, 3);
    run_submit(pool, &r, NULL, NULL); /* the whole batch */
    OK(tenon_request_wait(&r.request));
    ck_assert(right(r.x, r.y, ROWS));
    for (int i = 0; i < 2 * WIDTH; i++)
        wide_x[i / WIDTH * 2 * WIDTH + i % WIDTH] = r.x[i];
    tenon_view in = floats(wide_x, 2, WIDTH), out = floats(wide_y, 2, WIDTH);
    in.strides[0] = out.strides[0] = 2 * WIDTH;
    OK(tenon_pool_submit(pool, &in, 1, &out, 1, NULL, NULL, &r.request));
    OK(tenon_request_wait(&r.request));
    for (int i = 0; i < 2; i++)
        ck_assert_mem_eq(wide_y + (size_t)i * 2 * WIDTH, r.y + (size_t)i * WIDTH,
                         WIDTH * sizeof(float));
    /* A callback sees its own rows. */
    run_init(&r, 4);
    take_rows(&r, 0, 2);
    memset(r.y, 0, sizeof r.y);
    r.out = (tenon_view){0};
    OK(tenon_pool_submit(pool, &r.in, 1, &r.out, 1, check_outputs, &r, NULL));
    tenon_pool_drain(pool);
    ck_assert(right(r.x, r.y, 2));
    tenon_pool_destroy(&pool);
}
END_TEST

START_TEST(bad_requests_stay_out_of_batches) {
    tenon_pool *pool = batch_pool(affine, 3, 0);
    run r;
    static const int64_t shapes[][2] = {{0, WIDTH}, {4, WIDTH}, {2, WIDTH + 1}};
    for (int i = 0; i < 3; i++) {
        run_init(&r, i);
        r.in = floats(r.x, shapes[i][0], shapes[i][1]);
        run_submit(pool, &r, NULL, NULL);
        FAILS(tenon_request_wait(&r.request), TENON_INPUT_MISMATCH, "'x'");
    }
    run_init(&r, 0);
    take_rows(&r, 0, 2);
    r.out.shape[0] = 3;
    run_submit(pool, &r, NULL, NULL);
    FAILS(tenon_request_wait(&r.request), TENON_INVALID_ARGUMENT, "'y'");
    take_rows(&r, 0, 2);
    r.in.data = NULL;
    run_submit(pool, &r, NULL, NULL);
    FAILS(tenon_request_wait(&r.request), TENON_INPUT_MISMATCH, "without data");
    tenon_pool_destroy(&pool);
}
END_TEST

/* An index that is out of range fails the run of the batch, and then only its own request. */
START_TEST(batches_find_who_is_to_blame) {
    static const char lookup[] = "graph g { symbol s0 in [1, 64]\ninput %i: int64[s0]\n"
                                 "const %t: float32[4, 2] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
                                 "%y = aten.embedding(%t, %i)\noutput \"y\" = %y }";
    const tenon_pool_options options = {.instances = 1, .threads = 1, .batch = 4};
    int64_t index[5] = {0, 3, 9, 1, 2};
    float y[5][2] = {{0}};
    tenon_view in[5], out[5], none = {0}, sample = view_of(NULL, TENON_INT64, 1, -1, -1, -1);
    tenon_request *requests[5] = {NULL};
    gate g;
    tenon_pool *pool = make_pool(lookup, &options, &sample, 1);
    for (int i = 0; i < 5; i++) {
        in[i] = view_of(&index[i], TENON_INT64, 1, -1, -1, -1);
        out[i] = floats(y[i], 1, 2);
    }
    gate_init(&g);
    OK(tenon_pool_submit(pool, &in[0], 1, &none, 1, hold, &g, NULL));
    sem_wait(&g.reached);
    for (int i = 0; i < 5; i++)
        OK(tenon_pool_submit(pool, &in[i], 1, &out[i], 1, NULL, NULL, &requests[i]));
    sem_post(&g.open);
    for (int i = 0; i < 5; i++) {
        if (i == 2) {
            FAILS(tenon_request_wait(&requests[i]), TENON_RUN_FAILED, "9");
            continue;
        }
        OK(tenon_request_wait(&requests[i]));
        ck_assert(y[i][0] == (float)(2 * index[i] + 1) && y[i][1] == (float)(2 * index[i] + 2));
    }
    tenon_pool_destroy(&pool);
}
END_TEST

/* An input that all requests share, by its name or by its shape. */
START_TEST(inputs_without_batch_keep_the_samples_value) {
    static const char *const texts[] = {
        "graph g { symbol s0 in [1, 64]\ninput %x: float32[s0, 5]\ninput %w: float32[5]\n"
        "%y = aten.mul.Tensor(%x, %w)\noutput \"y\" = %y }",
        "graph g { input %x: float32[5, 5]\ninput %w: float32[5]\n"
        "%y = aten.mul.Tensor(%x, %w)\noutput \"y\" = %y }"};
    static const char *const names[] = {"w"};
    float w[WIDTH] = {1, 2, 3, 4, 5};
    tenon_pool_options options = {.instances = 1, .threads = 1, .batch = 5};
    tenon_view samples[2] = {floats(NULL, 1, WIDTH), floats(NULL, WIDTH, -1)};
    tenon_graph *graph = parse_graph(texts[_i]);
    tenon_pool *pool = NULL;
    run r;
    if (_i == 1) {
        options.unbatched = names;
        options.unbatched_count = 1;
    }
    FAILS(tenon_pool_create(graph, NULL, &options, samples, 2, &pool), TENON_INVALID_ARGUMENT,
          "'w'");
    samples[1].data = w;
    OK(tenon_pool_create(graph, NULL, &options, samples, 2, &pool));
    memset(w, 0, sizeof w); /* it is copied */
    run_init(&r, 1);
    tenon_view inputs[2] = {r.in, {0}};
    OK(tenon_pool_submit(pool, inputs, 2, &r.out, 1, NULL, NULL, &r.request));
    OK(tenon_request_wait(&r.request));
    for (int i = 0; i < ROWS * WIDTH; i++)
        ck_assert(r.y[i] == r.x[i] * (float)(i % WIDTH + 1));
    inputs[1] = samples[1];
    OK(tenon_pool_submit(pool, inputs, 2, &r.out, 1, NULL, NULL, &r.request));
    FAILS(tenon_request_wait(&r.request), TENON_INPUT_MISMATCH, "'w'");
    tenon_pool_destroy(&pool);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(models_that_cannot_be_batched_are_refused) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"graph g { symbol s0 in [1, 64]\ninput %x: float32[s0, 5]\n"
         "%y = aten.sum.dim_IntList(%x, [0])\noutput \"total\" = %y }",
         "'total'"}, /* its 5 elements are the batch, but only by chance */
        {"graph g { input %x: float32[5, 5]\n%y = aten.sum(%x)\noutput \"total\" = %y }",
         "'total'"},
        {"graph g { input %x: float32[6, 5]\n%y = aten.relu(%x)\noutput \"y\" = %y }",
         "no input has a batch dimension"},
        {"graph g { symbol s0 in [1, 64]\ninput %x: float32[s0, 5]\n%z = aten.relu_(%x)\n"
         "%y = aten.neg(%z)\noutput \"y\" = %y }",
         "runs change inputs"},
    };
    const tenon_pool_options options = {.instances = 1, .threads = 1, .batch = 5};
    float x[6 * WIDTH] = {0};
    tenon_graph *graph = parse_graph(cases[_i].text);
    tenon_pool *pool = NULL;
    tenon_view sample = floats(x, _i == 2 ? 6 : 1, WIDTH);
    FAILS(tenon_pool_create(graph, NULL, &options, &sample, 1, &pool), TENON_UNSUPPORTED,
          cases[_i].says);
    tenon_graph_destroy(&graph);
}
END_TEST

/* ---- Many threads ---- */

static void *many_requests(void *user) {
    producer *p = user;
    unsigned seed = (unsigned)(p->r->x[0] + 20);
    for (int i = 0; i < 60; i++) {
        int kind = (int)(seed + (unsigned)i) % 5, rows = 1 + i % ROWS;
        run_init(p->r, (int)seed + i);
        take_rows(p->r, 0, rows);
        if (kind == 0 && tenon_pool_try_submit(p->pool, &p->r->in, 1, &p->r->out, 1, NULL, NULL,
                                               &p->r->request) != TENON_OK)
            continue;
        if (kind != 0 && tenon_pool_submit(p->pool, &p->r->in, 1, &p->r->out, 1, NULL, NULL,
                                           &p->r->request) != TENON_OK)
            return NULL;
        bool cancelled = kind == 1 && tenon_request_cancel(p->r->request);
        if (kind == 2)
            tenon_pool_drain(p->pool);
        tenon_status status = tenon_request_wait(&p->r->request);
        if (status != (cancelled ? TENON_CANCELLED : TENON_OK) ||
            (!cancelled && !right(p->r->x, p->r->y, rows)))
            return NULL;
    }
    return user;
}

START_TEST(eight_threads_share_a_pool) {
    enum { THREADS = 8 };
    const tenon_pool_options options = {.instances = 2,
                                        .threads = 1,
                                        .queue = 5,
                                        .batch = _i ? 4 : 0,
                                        .batch_wait_us = _i == 2 ? 500 : 0};
    tenon_view sample = floats(NULL, ROWS, WIDTH);
    tenon_pool *pool = make_pool(affine, &options, &sample, 1);
    pthread_t threads[THREADS];
    producer producers[THREADS];
    run runs[THREADS];
    tenon_pool_stats stats;
    uint64_t finished = 0;
    for (int i = 0; i < THREADS; i++) {
        run_init(&runs[i], i);
        producers[i] = (producer){pool, &runs[i]};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, many_requests, &producers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *good = NULL;
        pthread_join(threads[i], &good);
        ck_assert_msg(good != NULL, "thread %d", i);
    }
    tenon_pool_get_stats(pool, &stats);
    for (int i = 0; i < TENON_POOL_STATUSES; i++)
        finished += stats.by_status[i];
    ck_assert_uint_eq(finished, stats.submitted);
    ck_assert_uint_eq(stats.submitted + stats.refused, THREADS * 60);
    tenon_pool_destroy(&pool);
}
END_TEST

/* ---- Cores ---- */

static int all_threads(void) {
    const char *threads = getenv("TENON_TEST_THREADS");
    return threads ? atoi(threads) : 2;
}

START_TEST(auto_keeps_the_best_split) {
    tenon_session_options session = {.threads = all_threads()};
    tenon_pool_options options = {.hint = TENON_POOL_AUTO, .batch = _i ? 4 : 0};
    tenon_view sample = floats(NULL, ROWS, WIDTH);
    tenon_graph *graph = parse_graph(affine);
    tenon_pool *pool = NULL;
    tenon_pool_split tried, best = {0};
    tenon_pool_stats stats;
    run r;
    OK(tenon_pool_create(graph, &session, &options, &sample, 1, &pool));
    for (int i = 0, n = 1; n <= session.threads; i++, n *= 2) {
        ck_assert(tenon_pool_measured(pool, i, &tried));
        ck_assert_int_eq(tried.instances, n);
        ck_assert_int_eq(tried.threads, session.threads / n);
        ck_assert(tried.runs_per_second > 0);
        if (tried.runs_per_second > best.runs_per_second * 1.02)
            best = tried;
    }
    ck_assert(!tenon_pool_measured(pool, session.threads, &tried));
    ck_assert_int_eq(tenon_pool_instances(pool), best.instances);
    ck_assert_int_eq(tenon_pool_threads(pool), best.threads);
    tenon_pool_get_stats(pool, &stats);
    ck_assert_uint_eq(stats.submitted, 0);
    run_init(&r, 0);
    run_submit(pool, &r, NULL, NULL);
    OK(tenon_request_wait(&r.request));
    ck_assert(right(r.x, r.y, ROWS));
    tenon_pool_destroy(&pool);
    tenon_graph_destroy(&graph);
}
END_TEST

typedef struct seen {
    atomic_int calls;
    cpu_set_t masks[64];
} seen;

static void look(void *user, tenon_status status, const tenon_view *outputs) {
    seen *s = user;
    (void)status, (void)outputs;
    int at = atomic_fetch_add(&s->calls, 1);
    sched_getaffinity(0, sizeof s->masks[at], &s->masks[at]);
}

/* Instances run where their places are; the caller's mask is as it was. */
START_TEST(instances_are_pinned) {
    cpu_set_t before, after;
    tenon_topology_info info;
    tenon_topology *topology = NULL;
    ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
    OK(tenon_topology_create(NULL, &topology));
    tenon_topology_get_info(topology, &info);
    const tenon_pool_options options = {.instances = info.usable_cores < 8 ? info.usable_cores : 8,
                                        .threads = 1,
                                        .topology = topology,
                                        .unpinned = _i == 1};
    tenon_view sample = floats(NULL, ROWS, WIDTH);
    tenon_pool *pool = make_pool(affine, &options, &sample, 1);
    seen s = {0};
    run runs[64];
    tenon_topology_destroy(&topology);
    for (int i = 0; i < 64; i++) {
        run_init(&runs[i], i);
        OK(tenon_pool_submit(pool, &runs[i].in, 1, &runs[i].out, 1, look, &s, NULL));
    }
    tenon_pool_drain(pool);
    for (int i = 0; i < 64; i++) {
        bool found = _i == 1 && CPU_EQUAL(&s.masks[i], &before);
        for (int k = 0; k < options.instances && !found; k++) {
            tenon_place place;
            int pu;
            ck_assert(tenon_pool_place(pool, k, &place, &pu) == (_i == 0));
            found = _i == 0 && CPU_COUNT(&s.masks[i]) == 1 && CPU_ISSET(pu, &s.masks[i]);
        }
        ck_assert_msg(found, "request %d ran elsewhere", i);
    }
    tenon_pool_destroy(&pool);
    ck_assert_int_eq(sched_getaffinity(0, sizeof after, &after), 0);
    ck_assert(CPU_EQUAL(&before, &after));
}
END_TEST

/* On two nodes each has weights of its own, which its instances share. No such machine is needed:
 * all but the binding happens for a synthetic one too. */
START_TEST(nodes_have_their_own_weights) {
    tenon_topology *topology = NULL;
    OK(tenon_topology_create("node:2 l3:1 core:4 pu:2", &topology));
    const tenon_pool_options options = {.instances = 4, .threads = 1, .topology = topology};
    tenon_view sample = floats(NULL, ROWS, WIDTH);
    tenon_pool *pool = make_pool(affine, &options, &sample, 1);
    run runs[32];
    ck_assert_int_eq(pool->session_count, 2);
    const tenon_value *weights[2];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pool->sessions[i]->latest->graph->constant_count, 1);
        weights[i] = pool->sessions[i]->latest->graph->constants[0];
    }
    ck_assert_ptr_ne(weights[0]->tensor->view.data, weights[1]->tensor->view.data);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pool->instances[i].place.node, i % 2);
        ck_assert_ptr_eq(pool->instances[i].session, pool->sessions[i % 2]);
        ck_assert(!tenon_pool_place(pool, i, NULL, NULL)); /* not pinned */
    }
    for (int i = 0; i < 32; i++) {
        run_init(&runs[i], i);
        run_submit(pool, &runs[i], NULL, NULL);
    }
    for (int i = 0; i < 32; i++) {
        OK(tenon_request_wait(&runs[i].request));
        ck_assert(right(runs[i].x, runs[i].y, ROWS));
    }
    tenon_pool_destroy(&pool);
    const tenon_pool_options latency = {.hint = TENON_POOL_LATENCY, .topology = topology};
    const tenon_session_options session = {.threads = 2};
    tenon_graph *graph = parse_graph(affine);
    OK(tenon_pool_create(graph, &session, &latency, &sample, 1, &pool));
    ck_assert(tenon_pool_instances(pool) == 2 && tenon_pool_threads(pool) == 1);
    tenon_pool_destroy(&pool);
    tenon_graph_destroy(&graph);
    tenon_topology_destroy(&topology);
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
               {{.queue = -2}, "queue is -2"},
               {{.batch = -3}, "batch is -3"},
               {{.batch = 2, .batch_wait_us = -1}, "batch_wait_us is -1"}};
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
    tcase_add_test(tcase, requests_share_batches);
    tcase_add_test(tcase, batches_wait_to_be_full);
    tcase_add_test(tcase, rows_do_not_depend_on_each_other);
    tcase_add_test(tcase, batches_take_any_memory);
    tcase_add_test(tcase, bad_requests_stay_out_of_batches);
    tcase_add_test(tcase, batches_find_who_is_to_blame);
    tcase_add_loop_test(tcase, inputs_without_batch_keep_the_samples_value, 0, 2);
    tcase_add_loop_test(tcase, models_that_cannot_be_batched_are_refused, 0, 4);
    tcase_add_loop_test(tcase, eight_threads_share_a_pool, 0, 3);
    tcase_add_loop_test(tcase, auto_keeps_the_best_split, 0, 2);
    tcase_add_loop_test(tcase, instances_are_pinned, 0, 2);
    tcase_add_test(tcase, nodes_have_their_own_weights);
    tcase_add_test(tcase, options_are_checked);
    tcase_add_test(tcase, splits_threads);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
