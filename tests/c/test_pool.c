/* Pools: results, the queue, cancellation, errors, statistics, cores. */
#include "pool_cases.h"
#include <pthread.h>
#include <sched.h>

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
    tcase_add_loop_test(tcase, eight_threads_share_a_pool, 0, 3);
    tcase_add_loop_test(tcase, auto_keeps_the_best_split, 0, 2);
    tcase_add_loop_test(tcase, instances_are_pinned, 0, 2);
    tcase_add_test(tcase, nodes_have_their_own_weights);
    tcase_add_test(tcase, options_are_checked);
    tcase_add_test(tcase, splits_threads);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
