/* What threads of one process do at once with what they share: files, the table of ops, the file of
 * measured choices, the log, shapes of a session, batch jobs. ThreadSanitizer runs it, too. */
#include "batch_job.h"
#include "run_graph.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 8 };

static atomic_int wrong;

static void check(bool right) {
    if (!right)
        atomic_fetch_add(&wrong, 1);
}

/* Calls `work` with the number of each thread, at once. */
static void together(void *(*work)(void *number)) {
    static int numbers[THREADS];
    pthread_t threads[THREADS];
    atomic_store(&wrong, 0);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(atomic_load(&wrong), 0);
}

static bool run(tenon_session *session, float *x, int64_t rows, int64_t columns, float *y,
                int64_t out_columns) {
    tenon_context *context = NULL;
    tenon_view in = floats(x, rows, columns), out = floats(y, rows, out_columns);
    bool ok = tenon_context_create(session, &context) == TENON_OK &&
              tenon_context_run(context, &in, 1, &out, 1) == TENON_OK;
    tenon_context_destroy(&context);
    return ok;
}

/* ---- Files ---- */

static const char model[] = "graph g { input %x: float32[s0, 64]\n"
                            "const %w: float32[32, 64] = random(1)\n"
                            "%y = aten.linear(%x, %w)\n"
                            "output \"y\" = %y }";
static const char *text_file, *json_file;

/* Three forms of models are loaded, and files are written, by all threads. */
static void *load(void *user) {
    const int *number = user;
    char name[32];
    snprintf(name, sizeof name, "copy%d.json", *number);
    for (int i = 0; i < 12; i++) {
        const tenon_load_options options = {.copy_weights = i % 2};
        const char *const files[] = {text_file, json_file, TEST_DATA "/pt2-cases/norms.pt2",
                                     TEST_DATA "/pt2-cases/dtype_weights.pt2"};
        tenon_graph *graph = NULL, *copy = NULL;
        check(tenon_load_with(files[(*number + i) % 4], &options, &graph) == TENON_OK);
        if (graph && i % 4 == 0) {
            char *path = NULL;
            check(asprintf(&path, "%s.%s", json_file, name) > 0);
            check(tenon_save_json(graph, path) == TENON_OK);
            check(tenon_load(path, &copy) == TENON_OK &&
                  tenon_graph_node_count(copy) == tenon_graph_node_count(graph));
            free(path);
        }
        tenon_graph_destroy(&copy);
        tenon_graph_destroy(&graph);
    }
    return NULL;
}

START_TEST(files_are_loaded_and_saved) {
    tenon_graph *graph = parse_graph(model);
    text_file = test_path("model.tenon");
    json_file = test_path("model.json");
    test_write(text_file, model, sizeof model - 1);
    OK(tenon_save_json(graph, json_file));
    tenon_graph_destroy(&graph);
    together(load);
}
END_TEST

/* ---- Shapes ---- */

static tenon_session *shared;
static float expected[4 * THREADS][32];

/* Each thread compiles shapes that nobody else asks for. */
static void *compile(void *user) {
    const int *number = user;
    for (int i = 0; i < 4; i++) {
        int rows = 1 + *number * 4 + i;
        float *x = malloc((size_t)rows * 64 * sizeof *x), *y = calloc((size_t)rows, 32 * sizeof *y);
        for (int k = 0; k < rows * 64; k++)
            x[k] = (float)((k % 64) * 7 % 23) / 8 - 1;
        check(run(shared, x, rows, 64, y, 32));
        memcpy(expected[rows - 1], y + (rows - 1) * 32, 32 * sizeof *y);
        free(x);
        free(y);
    }
    return NULL;
}

START_TEST(shapes_are_compiled) {
    const tenon_backend backends[] = {TENON_BACKEND_AUTO, TENON_BACKEND_ONEDNN,
                                      TENON_BACKEND_REFERENCE};
    tenon_graph *graph = parse_graph(model);
    tenon_session_options options = {.threads = 1, .backend = backends[_i], .max_shapes = 5};
    OK(tenon_session_create(graph, &options, &shared));
    tenon_graph_destroy(&graph);
    together(compile);
    for (int i = 1; i < 4 * THREADS; i++) { /* all rows are the same */
        for (int k = 0; k < 32; k++)
            ck_assert_msg(expected[i][k] - expected[0][k] < 1e-4f &&
                              expected[0][k] - expected[i][k] < 1e-4f,
                          "rows %d, element %d", i + 1, k);
    }
    tenon_session_destroy(&shared);
}
END_TEST

static pthread_barrier_t gone;

static void *run_and_end(void *user) {
    float x[64] = {1}, y[32];
    check(run(shared, x, 1, 64, y, 32));
    pthread_barrier_wait(&gone);
    return user;
}

/* What oneDNN keeps of a partition for each thread goes when either does. */
START_TEST(threads_end_as_sessions_go) {
    const tenon_session_options options = {.threads = 1, .backend = TENON_BACKEND_ONEDNN};
    tenon_graph *graph = parse_graph(model);
    atomic_store(&wrong, 0);
    ck_assert_int_eq(pthread_barrier_init(&gone, NULL, THREADS + 1), 0);
    for (int i = 0; i < 200; i++) {
        pthread_t threads[THREADS];
        OK(tenon_session_create(graph, &options, &shared));
        for (int k = 0; k < THREADS; k++)
            ck_assert_int_eq(pthread_create(&threads[k], NULL, run_and_end, NULL), 0);
        pthread_barrier_wait(&gone);
        tenon_session_destroy(&shared);
        for (int k = 0; k < THREADS; k++)
            pthread_join(threads[k], NULL);
    }
    ck_assert_int_eq(atomic_load(&wrong), 0);
    pthread_barrier_destroy(&gone);
    tenon_graph_destroy(&graph);
}
END_TEST

/* ---- The file of measured choices ---- */

static const char *choices;

static void *tune(void *user) {
    static const char *const texts[] = {
        "graph c { input %x: float32[1, 16, 8, 8]\nconst %w: float32[16, 16, 3, 3] = random(1)\n"
        "%y = aten.conv2d(%x, %w, none, [1, 1], [1, 1])\noutput \"y\" = %y }",
        "graph l { input %x: float32[4, 64]\nconst %w: float32[96, 64] = random(1)\n"
        "%y = aten.linear(%x, %w)\noutput \"y\" = %y }"};
    const int *number = user;
    const tenon_session_options options = {.threads = 1, .tune = choices};
    for (int i = 0; i < 2; i++) {
        tenon_graph *graph = NULL;
        tenon_session *session = NULL;
        check(tenon_graph_parse(texts[(*number + i) % 2], "tuned", &graph) == TENON_OK &&
              tenon_session_create(graph, &options, &session) == TENON_OK);
        tenon_session_destroy(&session);
        tenon_graph_destroy(&graph);
    }
    return NULL;
}

START_TEST(choices_are_shared) {
    size_t size = 0;
    choices = test_path("choices.json");
    together(tune);
    char *text = test_read(choices, &size);
    ck_assert_ptr_nonnull(strstr(text, "\"entries\""));
    free(text);
}
END_TEST

/* ---- Ops of the user ---- */

static tenon_status like_first(const tenon_node *node, tenon_view *outputs, int count, void *user) {
    (void)count, (void)user;
    return tenon_value_view(tenon_node_arg_value(node, 0), &outputs[0])
               ? TENON_OK
               : tenon_fail(TENON_INVALID_GRAPH, "needs a shape");
}

static tenon_status twice(tenon_op_call *call, void *user) {
    tenon_view x = tenon_op_call_input(call, 0), y = tenon_op_call_output(call, 0);
    (void)user;
    for (int64_t i = 0; i < x.shape[0]; i++)
        ((float *)y.data)[i * y.strides[0]] = 2 * ((const float *)x.data)[i * x.strides[0]];
    return TENON_OK;
}

/* Each thread registers ops, and runs what it and others have registered, while the table grows. */
static void *use_ops(void *user) {
    const int *number = user;
    char schema[64], name[64], text[256];
    for (int i = 0; i < 20; i++) {
        /* Two threads register each of them: the very same op. */
        snprintf(schema, sizeof schema, "crowd::twice_%d_%d(Tensor self) -> Tensor", *number / 2,
                 i);
        check(tenon_op_register(schema, like_first, twice, NULL) == TENON_OK);
        snprintf(name, sizeof name, "crowd.twice_%d_%d", *number / 2, i);
        snprintf(text, sizeof text,
                 "graph g { input %%x: float32[3]\n%%y = %s(%%x)\n%%z = aten.relu(%%y)\n"
                 "output \"z\" = %%z }",
                 name);
        tenon_op_info info;
        tenon_graph *graph = NULL;
        tenon_session *session = NULL;
        const tenon_session_options options = {.threads = 1};
        float x[3] = {1, -2, 3}, z[3] = {0};
        check(tenon_op_find(name, &info) && info.is_registered);
        check(tenon_op_get(tenon_op_count() - 1, &info));
        check(tenon_graph_parse(text, "crowd", &graph) == TENON_OK &&
              tenon_session_create(graph, &options, &session) == TENON_OK);
        tenon_context *context = NULL;
        tenon_view in = floats(x, 3, -1), out = floats(z, 3, -1);
        check(session && tenon_context_create(session, &context) == TENON_OK &&
              tenon_context_run(context, &in, 1, &out, 1) == TENON_OK);
        check(z[0] == 2 && z[1] == 0 && z[2] == 6);
        tenon_context_destroy(&context);
        tenon_session_destroy(&session);
        tenon_graph_destroy(&graph);
    }
    return NULL;
}

START_TEST(ops_are_registered_and_used) {
    together(use_ops);
}
END_TEST

/* ---- Messages ---- */

/* The last failure is the thread's own. */
static void *fail_often(void *user) {
    const int *number = user;
    char path[64];
    snprintf(path, sizeof path, "/none/of/%d.pt2", *number);
    for (int i = 0; i < 50; i++) {
        tenon_graph *graph = NULL;
        check(tenon_load(path, &graph) == TENON_IO && strstr(tenon_last_error(), path) != NULL);
    }
    return NULL;
}

START_TEST(failures_are_each_threads_own) {
    together(fail_often);
}
END_TEST

static atomic_int heard[2];

static void hear(tenon_log_level level, const char *message, void *user) {
    (void)level;
    check(message[0] != 0);
    atomic_fetch_add((atomic_int *)user, 1);
}

/* The receiver and its pointer change while others log; they are never mixed up. */
static void *log_often(void *user) {
    const int *number = user;
    for (int i = 0; i < 10; i++) {
        if (*number == 0)
            tenon_log_set(i % 3 ? TENON_LOG_DEBUG : TENON_LOG_INFO, hear, &heard[i % 2]);
        check(tenon_log_get_level() >= TENON_LOG_INFO);
        tenon_graph *graph = NULL;
        tenon_session *session = NULL;
        const tenon_session_options options = {.threads = 1};
        check(tenon_graph_parse(model, "logged", &graph) == TENON_OK &&
              tenon_session_create(graph, &options, &session) == TENON_OK);
        tenon_session_destroy(&session);
        tenon_graph_destroy(&graph);
    }
    return NULL;
}

START_TEST(receivers_of_the_log_change) {
    tenon_log_set(TENON_LOG_INFO, hear, &heard[0]);
    together(log_often);
    tenon_log_set(TENON_LOG_WARN, NULL, NULL);
    ck_assert_int_gt(atomic_load(&heard[0]) + atomic_load(&heard[1]), THREADS);
}
END_TEST

/* ---- Batch jobs ---- */

/* Its loaders, instances and writer. */
START_TEST(batch_jobs_have_many_threads) {
    job_case c;
    const char *folder = test_path("model.txt");
    const char *x = test_path("x.npy");
    const char *files[] = {test_path("y.npy"), test_path("k.npy"), test_path("y1.npy"),
                           test_path("k1.npy")};
    job_silence();
    test_write(folder, job_model, sizeof job_model - 1);
    job_samples(x, 50 * JOB_SAMPLES, 13);
    for (int i = 0; i < 2; i++) {
        job_make(&c, folder, x, files[2 * i], files[2 * i + 1]);
        c.job.instances = i ? 4 : 1;
        c.job.quiet = i == 0;
        ck_assert_int_eq(batch_run(&c.job), BATCH_FINISHED);
    }
    job_equal(files[2], files[0]);
    job_equal(files[3], files[1]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("threads");
    TCase *tests = tcase_create("threads");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, files_are_loaded_and_saved);
    tcase_add_loop_test(tests, shapes_are_compiled, 0, 3);
    tcase_add_test(tests, threads_end_as_sessions_go);
    tcase_add_test(tests, choices_are_shared);
    tcase_add_test(tests, ops_are_registered_and_used);
    tcase_add_test(tests, failures_are_each_threads_own);
    tcase_add_test(tests, receivers_of_the_log_change);
    tcase_add_test(tests, batch_jobs_have_many_threads);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
