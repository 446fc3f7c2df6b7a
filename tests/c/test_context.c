/* Contexts: state, written inputs, concurrency, and what a run leaves as it found it. */
#include "run/places.h"
#include "run/session.h"
#include "run_graph.h"
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- State ---- */

/* Field case 41: a buffer that is changed and returned, an input that is changed and returned, a
 * constant. */
static const char counter[] = "graph g {\n"
                              "  buffer %c: float32[2] = {5, 5}\n"
                              "  const %k: float32[3, 2] = ones\n"
                              "  input %x: float32[2]\n"
                              "  input %y: float32[2]\n"
                              "  %next = aten.add.Tensor(%c, 1)\n"
                              "  %twice = aten.mul.Tensor(%y, 2)\n"
                              "  %z = aten.add.Tensor(%x, %next)\n"
                              "  %kt = aten.t(%k)\n"
                              "  write %c <- %next\n"
                              "  write %y <- %twice\n"
                              "  output \"x\" = %x\n"
                              "  output \"z\" = %z\n"
                              "  output \"z2\" = %z\n"
                              "  output \"c\" = %next\n"
                              "  output \"k\" = %kt\n"
                              "}\n";

START_TEST(state_and_written_inputs) {
    const tenon_backend backends[] = {TENON_BACKEND_AUTO, TENON_BACKEND_ONEDNN,
                                      TENON_BACKEND_REFERENCE};
    tenon_session *session = make_session(counter, backends[_i]);
    tenon_context *context = NULL;
    float x[2] = {1, 1}, y[2] = {1, 1}, ones[6] = {1, 1, 1, 1, 1, 1};
    tenon_view inputs[2] = {floats(x, 2, -1), floats(y, 2, -1)}, outputs[5], state;
    ck_assert_int_eq(tenon_session_output_count(session), 5);
    OK(tenon_context_create(session, &context));
    for (int run = 1; run <= 2; run++) {
        const float z[2] = {6 + (float)run, 6 + (float)run},
                    c[2] = {5 + (float)run, 5 + (float)run};
        memset(outputs, 0, sizeof outputs);
        OK(tenon_context_run(context, inputs, 2, outputs, 5));
        check_floats(&outputs[0], x, 2);
        check_floats(&outputs[1], z, 2);
        check_floats(&outputs[2], z, 2);
        check_floats(&outputs[3], c, 2);
        check_floats(&outputs[4], ones, 6);
        ck_assert(x[0] == 1 && y[0] == (run == 1 ? 2 : 4) && y[1] == y[0]);
        OK(tenon_context_get_state(context, "c", &state));
        check_floats(&state, c, 2);
    }
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

START_TEST(state_is_got_set_and_reset) {
    tenon_session *session = make_session(counter, TENON_BACKEND_REFERENCE);
    tenon_context *a = NULL, *b = NULL;
    float x[2] = {0, 0}, y[4] = {0, -1, 0, -1}, value[4] = {40, -1, 50, -1};
    tenon_view inputs[2] = {floats(x, 2, -1), floats(y, 2, -1)}, outputs[5] = {{0}}, state;
    inputs[1].strides[0] = 2;
    OK(tenon_context_create(session, &a));
    OK(tenon_context_create(session, &b));
    ck_assert_int_eq(tenon_context_state_count(a), 1);
    ck_assert_str_eq(tenon_context_state_name(a, 0), "c");
    ck_assert_ptr_null(tenon_context_state_name(a, 1));
    FAILS(tenon_context_get_state(a, "d", &state), TENON_NOT_FOUND, "no buffer 'd'");
    tenon_view given = floats(value, 2, -1);
    given.strides[0] = 2;
    OK(tenon_context_set_state(a, "c", &given));
    OK(tenon_context_run(a, inputs, 2, outputs, 5));
    check_floats(&outputs[3], (float[2]){41, 51}, 2);
    OK(tenon_context_get_state(b, "c", &state)); /* each has its own */
    check_floats(&state, (float[2]){5, 5}, 2);
    OK(tenon_context_reset_state(a));
    OK(tenon_context_get_state(a, "c", &state));
    check_floats(&state, (float[2]){5, 5}, 2);
    OK(tenon_context_set_state(a, "c", &state)); /* its own memory */
    given.dtype = TENON_INT32;
    FAILS(tenon_context_set_state(a, "c", &given), TENON_INPUT_MISMATCH,
          "buffer 'c': the value is int32[2]");
    inputs[1].strides[0] = 0;
    FAILS(tenon_context_run(a, inputs, 2, outputs, 5), TENON_INPUT_MISMATCH, "'y' is written");
    tenon_context_destroy(&a);
    tenon_context_destroy(&b);
    tenon_session_destroy(&session);
}
END_TEST

/* The last node fails when the index is out of range: nothing was committed. */
START_TEST(failed_runs_change_nothing) {
    tenon_session *session = make_session("graph g {\n"
                                          "  buffer %c: float32[2] = {5, 6}\n"
                                          "  const %t: float32[3] = {1, 2, 3}\n"
                                          "  input %y: float32[2]\n"
                                          "  input %i: int64[2]\n"
                                          "  %next = aten.add.Tensor(%c, 1)\n"
                                          "  %twice = aten.mul.Tensor(%y, 2)\n"
                                          "  %r = aten.index_select(%t, 0, %i)\n"
                                          "  write %c <- %next\n"
                                          "  write %y <- %twice\n"
                                          "  output \"r\" = %r\n"
                                          "}\n",
                                          TENON_BACKEND_REFERENCE);
    tenon_context *context = NULL;
    float y[2] = {3, 4};
    int64_t i[2] = {2, 0};
    tenon_view inputs[2] = {floats(y, 2, -1), view_of(i, TENON_INT64, 2, -1, -1, -1)}, output = {0},
               state;
    OK(tenon_context_create(session, &context));
    for (int run = 0; run < 3; run++) {
        i[0] = 3;
        output = (tenon_view){0};
        FAILS(tenon_context_run(context, inputs, 2, &output, 1), TENON_RUN_FAILED, "index_select");
        OK(tenon_context_get_state(context, "c", &state));
        check_floats(&state, (float[2]){5 + (float)run, 6 + (float)run}, 2);
        check_floats(&inputs[0], (float[2]){3 * (float)(1 << run), 4 * (float)(1 << run)}, 2);
        i[0] = 2;
        OK(tenon_context_run(context, inputs, 2, &output, 1));
        check_floats(&output, (float[2]){3, 1}, 2);
    }
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

/* Two inputs that take each other's values. */
START_TEST(inputs_are_swapped) {
    tenon_session *session = make_session("graph g {\n"
                                          "  input %x: float32[2]\n"
                                          "  input %y: float32[2]\n"
                                          "  write %x <- %y\n"
                                          "  write %y <- %x\n"
                                          "  output \"n\" = none\n"
                                          "}\n",
                                          TENON_BACKEND_AUTO);
    tenon_context *context = NULL;
    float x[2] = {1, 2}, y[2] = {3, 4};
    tenon_view inputs[2] = {floats(x, 2, -1), floats(y, 2, -1)}, output = {0};
    OK(tenon_context_create(session, &context));
    OK(tenon_context_run(context, inputs, 2, &output, 1));
    check_floats(&inputs[0], (float[2]){3, 4}, 2);
    check_floats(&inputs[1], (float[2]){1, 2}, 2);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

/* What one run gave is what the next one is given, as decoders do. */
START_TEST(outputs_become_inputs) {
    tenon_session *session = make_session("graph g {\n"
                                          "  input %x: float32[s0]\n"
                                          "  %y = aten.add.Tensor(%x, 1)\n"
                                          "  %f = aten.flip(%x, [0])\n"
                                          "  %z = aten.cat([%f, %y])\n"
                                          "  output \"y\" = %y\n"
                                          "  output \"z\" = %z\n"
                                          "}\n",
                                          TENON_BACKEND_REFERENCE);
    tenon_context *context = NULL;
    float x[2] = {1, 5};
    tenon_view input = floats(x, 2, -1), outputs[2];
    OK(tenon_context_create(session, &context));
    for (int run = 0; run < 3; run++) {
        memset(outputs, 0, sizeof outputs);
        OK(tenon_context_run(context, &input, 1, outputs, 2));
        input = outputs[0];
    }
    check_floats(&outputs[0], (float[2]){4, 8}, 2);
    check_floats(&outputs[1], (float[4]){7, 3, 4, 8}, 4);
    input = outputs[1]; /* larger ones than the context had room for */
    memset(outputs, 0, sizeof outputs);
    OK(tenon_context_run(context, &input, 1, outputs, 2));
    check_floats(&outputs[1], (float[8]){8, 4, 3, 7, 8, 4, 5, 9}, 8);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

/* A context keeps its session. */
START_TEST(sessions_may_go_first) {
    tenon_session *session = make_session(counter, TENON_BACKEND_AUTO);
    tenon_context *context = NULL;
    float x[2] = {1, 1}, y[2] = {1, 1};
    tenon_view inputs[2] = {floats(x, 2, -1), floats(y, 2, -1)}, outputs[5] = {{0}};
    OK(tenon_context_create(session, &context));
    tenon_session_destroy(&session);
    OK(tenon_context_run(context, inputs, 2, outputs, 5));
    check_floats(&outputs[1], (float[2]){7, 7}, 2);
    tenon_context_destroy(&context);
}
END_TEST

/* ---- Concurrency ---- */

/* Large enough for the plan to use several threads. */
#define WIDTH 256
static const char product[] = "graph g {\n"
                              "  input %x: float32[s0, 256]\n"
                              "  const %w: float32[256, 256] = random(1)\n"
                              "  const %b: float32[256] = random(2)\n"
                              "  %m = aten.mm(%x, %w)\n"
                              "  %r = aten.relu(%m)\n"
                              "  %a = aten.add.Tensor(%r, %b)\n"
                              "  %n = aten.mm(%a, %w)\n"
                              "  output \"n\" = %n\n"
                              "}\n";

typedef struct caller {
    tenon_session *session;
    int rows;
    float want[8 * WIDTH];
    int wrong;
} caller;

static void run_product(tenon_context *context, int rows, float *result) {
    float x[8 * WIDTH];
    for (int i = 0; i < rows * WIDTH; i++)
        x[i] = (float)((i * 7 + rows) % 11) / 4 - 1;
    tenon_view input = floats(x, rows, WIDTH), output = floats(result, rows, WIDTH);
    OK(tenon_context_run(context, &input, 1, &output, 1));
}

static void *call_often(void *user) {
    caller *c = user;
    tenon_context *context = NULL;
    float result[8 * WIDTH];
    if (tenon_context_create(c->session, &context) != TENON_OK)
        c->wrong++;
    for (int i = 0; i < 100 && context; i++) {
        memset(result, 0, sizeof result);
        run_product(context, c->rows, result);
        c->wrong += memcmp(result, c->want, (size_t)c->rows * WIDTH * sizeof *result) != 0;
    }
    tenon_context_destroy(&context);
    return NULL;
}

/* Four threads over one session, of which two share a shape, and other shapes are compiled
 * meanwhile. */
START_TEST(contexts_run_at_the_same_time) {
    const tenon_backend backends[] = {TENON_BACKEND_ONEDNN, TENON_BACKEND_REFERENCE};
    tenon_session *session = make_session(product, backends[_i]);
    pthread_t threads[4];
    caller callers[4];
    for (int t = 0; t < 4; t++) {
        callers[t] = (caller){.session = session, .rows = 2 + t / 2 * 3};
        tenon_session *own = make_session(product, backends[_i]);
        tenon_context *context = NULL;
        OK(tenon_context_create(own, &context));
        run_product(context, callers[t].rows, callers[t].want);
        tenon_context_destroy(&context);
        tenon_session_destroy(&own);
    }
    for (int t = 0; t < 4; t++)
        ck_assert_int_eq(pthread_create(&threads[t], NULL, call_often, &callers[t]), 0);
    for (int t = 0; t < 4; t++) {
        pthread_join(threads[t], NULL);
        ck_assert_int_eq(callers[t].wrong, 0);
    }
    tenon_session_destroy(&session);
}
END_TEST

/* ---- The process around a run ---- */

static void run_some(tenon_backend backend, float *result) {
    tenon_session *session = make_session(product, backend);
    tenon_context *context = NULL;
    OK(tenon_context_create(session, &context));
    run_product(context, 5, result);
    run_product(context, 5, result);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}

/* Field case 51. */
START_TEST(affinity_is_left_alone) {
    cpu_set_t before, after;
    float result[5 * WIDTH];
    ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
    ck_assert_int_ge(tn_threads_available(), 1);
    ck_assert_int_le(tn_threads_available(), CPU_COUNT(&before));
    run_some(TENON_BACKEND_AUTO, result);
    ck_assert_int_eq(sched_getaffinity(0, sizeof after, &after), 0);
    ck_assert(CPU_EQUAL(&before, &after));
    /* A mask of one core leaves one thread. */
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_int_eq(tn_threads_available(), 1);
    run_some(TENON_BACKEND_AUTO, result);
    ck_assert_int_eq(sched_getaffinity(0, sizeof after, &after), 0);
    ck_assert(CPU_EQUAL(&one, &after));
}
END_TEST

static void *run_pinned(void *user) {
    const cpu_set_t *mask = user;
    cpu_set_t after;
    float result[5 * WIDTH];
    if (sched_setaffinity(0, sizeof *mask, mask) != 0)
        return NULL;
    run_some(TENON_BACKEND_REFERENCE, result);
    return sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(mask, &after) ? user : NULL;
}

/* A thread that OpenMP has not seen before. */
START_TEST(affinity_of_new_threads_is_left_alone) {
    cpu_set_t mask, one;
    pthread_t thread;
    void *good = NULL;
    float result[5 * WIDTH];
    ck_assert_int_eq(sched_getaffinity(0, sizeof mask, &mask), 0);
    run_some(TENON_BACKEND_REFERENCE, result);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &mask))
            CPU_SET(cpu, &one);
    ck_assert_int_eq(pthread_create(&thread, NULL, run_pinned, &one), 0);
    pthread_join(thread, &good);
    ck_assert_ptr_nonnull(good);
}
END_TEST

/* Waking a second thread takes longer than all of a small model. */
START_TEST(small_models_run_on_one_thread) {
    static const char *const texts[] = {
        "graph g { input %x: float32[4, 4]\n%a = aten.cumsum(%x, 0)\n%b = aten.sin(%a)\n"
        "%c = aten.mm(%b, %x)\n%y = aten.softmax.int(%c, 0)\noutput \"y\" = %y }",
        "graph g { input %x: float32[1024, 1024]\n%y = aten.sin(%x)\noutput \"y\" = %y }"};
    const tenon_session_options options = {.threads = 2};
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    ck_assert_int_eq(tenon_graph_parse(texts[_i], "test", &graph), TENON_OK);
    ck_assert_int_eq(tenon_session_create(graph, &options, &session), TENON_OK);
    ck_assert_int_eq(session->latest->threads, _i + 1);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(openmp_settings_are_left_alone) {
    float result[5 * WIDTH];
    omp_set_num_threads(3);
    omp_set_dynamic(1);
    run_some(TENON_BACKEND_ONEDNN, result);
    ck_assert_int_eq(omp_get_max_threads(), 3);
    ck_assert_int_eq(omp_get_dynamic(), 1);
}
END_TEST

/* Field case 53: the child has none of the threads that its memory says it has. */
START_TEST(runs_go_on_after_fork) {
    const tenon_backend backends[] = {TENON_BACKEND_ONEDNN, TENON_BACKEND_REFERENCE};
    float want[5 * WIDTH], got[5 * WIDTH];
    tenon_session *session = make_session(product, backends[_i]);
    tenon_context *context = NULL;
    OK(tenon_context_create(session, &context));
    run_product(context, 5, want);
#pragma omp parallel num_threads(2)
    { omp_get_thread_num(); } /* OpenMP has threads now, whatever the run used */
    pid_t child = fork();
    ck_assert_int_ne(child, -1);
    if (child == 0) {
        alarm(60); /* for one that hangs */
        run_product(context, 5, got);
        int same = memcmp(got, want, sizeof want) == 0;
        run_product(context, 5, got);
        _exit(same && memcmp(got, want, sizeof want) == 0 ? 0 : 1);
    }
    int state;
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert_msg(WIFEXITED(state) && WEXITSTATUS(state) == 0, "the child ended with state %d",
                  state);
    run_product(context, 5, got);
    ck_assert_mem_eq(got, want, sizeof want);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

/* A caller inside a parallel region of its own. */
START_TEST(runs_inside_parallel_regions) {
    float want[5 * WIDTH], got[2][5 * WIDTH];
    run_some(TENON_BACKEND_ONEDNN, want);
    tenon_session *session = make_session(product, TENON_BACKEND_ONEDNN);
    tenon_context *contexts[2] = {NULL, NULL};
    int status[2] = {0, 0};
    OK(tenon_context_create(session, &contexts[0]));
    OK(tenon_context_create(session, &contexts[1]));
#pragma omp parallel for num_threads(2)
    for (int t = 0; t < 2; t++) {
        float x[5 * WIDTH];
        for (int i = 0; i < 5 * WIDTH; i++)
            x[i] = (float)((i * 7 + 5) % 11) / 4 - 1;
        tenon_view input = floats(x, 5, WIDTH), output = floats(got[t], 5, WIDTH);
        status[t] = (int)tenon_context_run(contexts[t], &input, 1, &output, 1);
    }
    for (int t = 0; t < 2; t++) {
        ck_assert_int_eq(status[t], TENON_OK);
        ck_assert_mem_eq(got[t], want, sizeof want);
        tenon_context_destroy(&contexts[t]);
    }
    tenon_session_destroy(&session);
}
END_TEST

#if defined(__x86_64__)
/* Field case 55: denormals are flushed during runs, on every thread, and the caller's mode is as it
 * was. */
START_TEST(denormals_are_flushed_and_the_mode_restored) {
    enum { COUNT = 1 << 18 };
    float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    for (int keep = 0; keep < 2; keep++) {
        tenon_graph *graph = parse_graph("graph g {\n"
                                         "  input %x: float32[262144]\n"
                                         "  %y = aten.mul.Tensor(%x, 0.5)\n"
                                         "  output \"y\" = %y\n"
                                         "}\n");
        tenon_session_options options = {
            .backend = TENON_BACKEND_REFERENCE, .threads = 2, .keep_denormals = keep};
        tenon_session *session = NULL;
        tenon_context *context = NULL;
        OK(tenon_session_create(graph, &options, &session));
        OK(tenon_context_create(session, &context));
        for (int i = 0; i < COUNT; i++)
            x[i] = 1e-40f;
        tenon_view input = floats(x, COUNT, -1), output = floats(y, COUNT, -1);
        unsigned modes[2] = {0, 0}, before = _mm_getcsr() & ~0x3fu;
        OK(tenon_context_run(context, &input, 1, &output, 1));
        for (int i = 0; i < COUNT; i++)
            ck_assert_msg((y[i] != 0) == keep, "element %d is %g", i, (double)y[i]);
#pragma omp parallel num_threads(2)
        modes[omp_get_thread_num()] = _mm_getcsr() & ~0x3fu;
        ck_assert_uint_eq(modes[0], before);
        ck_assert_uint_eq(modes[1], before);
        tenon_context_destroy(&context);
        tenon_session_destroy(&session);
        tenon_graph_destroy(&graph);
    }
    free(x);
    free(y);
}
END_TEST
#endif

int main(void) {
    Suite *suite = suite_create("context");
    TCase *tests = tcase_create("context");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, state_and_written_inputs, 0, 3);
    tcase_add_test(tests, state_is_got_set_and_reset);
    tcase_add_test(tests, failed_runs_change_nothing);
    tcase_add_test(tests, inputs_are_swapped);
    tcase_add_test(tests, outputs_become_inputs);
    tcase_add_test(tests, sessions_may_go_first);
    tcase_add_loop_test(tests, contexts_run_at_the_same_time, 0, 2);
    tcase_add_test(tests, affinity_is_left_alone);
    tcase_add_test(tests, affinity_of_new_threads_is_left_alone);
    tcase_add_loop_test(tests, small_models_run_on_one_thread, 0, 2);
    tcase_add_test(tests, openmp_settings_are_left_alone);
    tcase_add_loop_test(tests, runs_go_on_after_fork, 0, 2);
    tcase_add_test(tests, runs_inside_parallel_regions);
#if defined(__x86_64__)
    tcase_add_test(tests, denormals_are_flushed_and_the_mode_restored);
#endif
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
