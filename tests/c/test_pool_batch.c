/* Pools that gather requests into batches. */
#include "pool_cases.h"

static tenon_pool *batch_pool(const char *text, int batch, int64_t wait_us) {
    const tenon_pool_options options = {
        .instances = 1, .threads = 1, .batch = batch, .batch_wait_us = wait_us};
    tenon_view sample = floats(NULL, 1, WIDTH);
    return make_pool(text, &options, &sample, 1);
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

int main(void) {
    Suite *suite = suite_create("pool_batch");
    TCase *tcase = tcase_create("pool_batch");
    tcase_add_test(tcase, requests_share_batches);
    tcase_add_test(tcase, batches_wait_to_be_full);
    tcase_add_test(tcase, rows_do_not_depend_on_each_other);
    tcase_add_test(tcase, batches_take_any_memory);
    tcase_add_test(tcase, bad_requests_stay_out_of_batches);
    tcase_add_test(tcase, batches_find_who_is_to_blame);
    tcase_add_loop_test(tcase, inputs_without_batch_keep_the_samples_value, 0, 2);
    tcase_add_loop_test(tcase, models_that_cannot_be_batched_are_refused, 0, 4);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
