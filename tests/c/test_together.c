/* Many threads, sessions that come and go, signals, the library as a plug-in, and the same bytes
 * each time. */
#include "run_graph.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 8, WIDTH = 96, THREADS = 16 };

/* Products, a convolution, attention, reductions and a softmax, in partitions and in kernels. */
static const char net[] =
    "graph g {\n"
    "  input %x: float32[n, 96]\n"
    "  const %v: float32[96, 96] = random(1)\n"
    "  const %w: float32[16, 6, 3, 3] = random(2)\n"
    "  const %k: float32[96] = random(3)\n"
    "  %a = aten.linear(%x, %v)\n"
    "  %l = aten.layer_norm(%a, [96], %k)\n"
    "  %i = aten.view(%l, [-1, 6, 4, 4])\n"
    "  %c = aten.convolution(%i, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)\n"
    "  %r = aten.relu(%c)\n"
    "  %h = aten.view(%r, [-1, 4, 8, 8])\n"
    "  %t = aten.scaled_dot_product_attention(%h, %h, %h)\n"
    "  %m = aten.mean.dim(%t, [3])\n"
    "  %f = aten.view(%m, [-1, 32])\n"
    "  %s = aten.softmax.int(%f, 1)\n"
    "  %u = aten.cumsum(%s, 1)\n"
    "  output \"u\" = %u\n"
    "}\n";

enum { RESULT = 32 };

static int threads_of_tests(void) {
    const char *threads = getenv("TENON_TEST_THREADS");
    return threads ? atoi(threads) : 2;
}

static tenon_session *make(tenon_session_options options) {
    tenon_graph *graph = parse_graph(net);
    tenon_session *session = NULL;
    options.threads = threads_of_tests();
    OK(tenon_session_create(graph, &options, &session));
    tenon_graph_destroy(&graph);
    return session;
}

/* No assertion of Check's: it may be called by many threads, and often. The input lies at another
 * place within cache lines each time. */
static bool run(tenon_context *context, int rows, float *result) {
    enum { LINE = 16 };
    static atomic_int calls;
    float room[ROWS * WIDTH + LINE], *x = room + atomic_fetch_add(&calls, 1) % LINE;
    for (int i = 0; i < rows * WIDTH; i++)
        x[i] = (float)((i * 7 + rows) % 23) / 8 - 1;
    tenon_view input = floats(x, rows, WIDTH), output = floats(result, rows, RESULT);
    return tenon_context_run(context, &input, 1, &output, 1) == TENON_OK;
}

static bool run_once(tenon_session *session, int rows, float *result) {
    tenon_context *context = NULL;
    bool ok = tenon_context_create(session, &context) == TENON_OK && run(context, rows, result);
    tenon_context_destroy(&context);
    return ok;
}

static float wanted[ROWS + 1][ROWS * RESULT]; /* by number of rows */

static void find_wanted(void) {
    tenon_session *session = make((tenon_session_options){0});
    for (int rows = 1; rows <= ROWS; rows++)
        ck_assert(run_once(session, rows, wanted[rows]));
    tenon_session_destroy(&session);
}

static bool is_wanted(int rows, const float *result) {
    return memcmp(result, wanted[rows], (size_t)rows * RESULT * sizeof *result) == 0;
}

/* ---- Threads ---- */

typedef struct caller {
    tenon_session *session; /* NULL: each round makes one */
    int number, rounds;
    int wrong;
} caller;

static void *call(void *user) {
    caller *c = user;
    tenon_context *context = NULL;
    float result[ROWS * RESULT];
    if (c->session && tenon_context_create(c->session, &context) != TENON_OK)
        c->wrong++;
    for (int i = 0; i < c->rounds; i++) {
        int rows = 1 + (c->number + i) % ROWS;
        tenon_session *own = c->session ? NULL : make((tenon_session_options){0});
        bool ok = own ? run_once(own, rows, result) : context && run(context, rows, result);
        c->wrong += !ok || !is_wanted(rows, result);
        tenon_session_destroy(&own);
    }
    tenon_context_destroy(&context);
    return NULL;
}

static void call_all(caller *callers, int count) {
    pthread_t threads[2 * THREADS];
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_msg(callers[i].wrong == 0, "thread %d: %d of %d runs are wrong", i,
                      callers[i].wrong, callers[i].rounds);
    }
}

/* More shapes than the session keeps, so that some are compiled and dropped all the time. */
START_TEST(one_session_of_many_threads) {
    caller callers[THREADS];
    find_wanted();
    tenon_session *session = make((tenon_session_options){.max_shapes = _i ? 3 : 0});
    for (int i = 0; i < THREADS; i++)
        callers[i] = (caller){.session = session, .number = i, .rounds = _i ? 6 : 50};
    call_all(callers, THREADS);
    tenon_session_destroy(&session);
}
END_TEST

START_TEST(sessions_come_and_go) {
    caller callers[8];
    find_wanted();
    tenon_session *session = make((tenon_session_options){0});
    for (int i = 0; i < 8; i++)
        callers[i] =
            (caller){.session = i % 2 ? session : NULL, .number = i, .rounds = i % 2 ? 100 : 4};
    call_all(callers, 8);
    tenon_session_destroy(&session);
}
END_TEST

/* ---- Signals ---- */

static atomic_int signals;

static void count_signal(int number) {
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static atomic_bool finished;

static void *disturb(void *user) {
    const pthread_t *who = user;
    while (!atomic_load(&finished))
        pthread_kill(*who, SIGUSR1);
    return NULL;
}

/* Calls of the system that a signal interrupts are no failure of a run, a compile or a load. */
START_TEST(signals_are_no_failure) {
    struct sigaction action = {.sa_handler = count_signal}, before; /* without SA_RESTART */
    pthread_t self = pthread_self(), other;
    float result[ROWS * RESULT];
    find_wanted();
    ck_assert_int_eq(sigaction(SIGUSR1, &action, &before), 0);
    ck_assert_int_eq(pthread_create(&other, NULL, disturb, &self), 0);
    for (int i = 0; i < 20 || atomic_load(&signals) < 100; i++) {
        tenon_graph *graph = NULL;
        OK(tenon_load(TEST_DATA "/pt2-cases/dtype_weights.pt2", &graph));
        tenon_graph_destroy(&graph);
        tenon_session *session = make((tenon_session_options){0});
        ck_assert(run_once(session, 1 + i % ROWS, result) && is_wanted(1 + i % ROWS, result));
        tenon_session_destroy(&session);
    }
    atomic_store(&finished, true);
    pthread_join(other, NULL);
    ck_assert_int_eq(sigaction(SIGUSR1, &before, NULL), 0);
}
END_TEST

/* ---- As a plug-in ---- */

#ifndef __SANITIZE_THREAD__ /* whose build has no shared library */

/* dlsym gives an object pointer, which C does not convert to a function's. */
#define FIND(library, name)                           \
    __typeof__(&tenon_##name) name = NULL;            \
    do {                                              \
        void *found = dlsym(library, "tenon_" #name); \
        memcpy(&name, &found, sizeof name);           \
        if (!name)                                    \
            return 2;                                 \
    } while (0)

static int use_library(void) {
    void *library = dlopen(TENON_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return 1;
    FIND(library, graph_parse);
    FIND(library, graph_destroy);
    FIND(library, session_create);
    FIND(library, session_destroy);
    FIND(library, context_create);
    FIND(library, context_run);
    FIND(library, context_destroy);
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    tenon_session_options options = {.threads = threads_of_tests()};
    float x[WIDTH] = {1, 2, 3}, result[RESULT] = {0};
    tenon_view input = floats(x, 1, WIDTH), output = floats(result, 1, RESULT);
    bool ok = graph_parse(net, "net", &graph) == TENON_OK &&
              session_create(graph, &options, &session) == TENON_OK &&
              context_create(session, &context) == TENON_OK &&
              context_run(context, &input, 1, &output, 1) == TENON_OK;
    context_destroy(&context);
    session_destroy(&session);
    graph_destroy(&graph);
    ok = dlclose(library) == 0 && ok;
    return ok && result[RESULT - 1] > 0.99f && result[RESULT - 1] < 1.01f ? 0 : 3;
}

static void *use_in_thread(void *status) {
    *(int *)status = use_library();
    return NULL;
}

/* Loaded, used and closed again and again, also by threads that end, as a host of plug-ins does. In
 * a process of its own, which has no other copy of the library running. */
START_TEST(library_is_closed_and_opened) {
    int status;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        int code = 0;
        for (int i = 0; i < 10 && code == 0; i++) {
            pthread_t thread;
            if (i % 2 == 0)
                code = use_library();
            else if (pthread_create(&thread, NULL, use_in_thread, &code) != 0 ||
                     pthread_join(thread, NULL) != 0)
                code = 4;
        }
        _exit(code);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}
END_TEST

#endif

/* ---- The same bytes ---- */

/* Sessions of the same options give the same bytes, each time. */
START_TEST(runs_give_the_same_bytes) {
    static const tenon_session_options options[] = {
        {0},
        {.backend = TENON_BACKEND_ONEDNN},
        {.backend = TENON_BACKEND_REFERENCE},
        {.precision = TENON_PRECISION_BF16},
    };
    float first[ROWS * RESULT], result[ROWS * RESULT];
    int different = 0;
    for (int s = 0; s < 4; s++) {
        tenon_context *context = NULL;
        tenon_session *session = make(options[_i]);
        OK(tenon_context_create(session, &context));
        for (int i = 0; i < 250; i++) {
            ck_assert(run(context, ROWS, result));
            if (s == 0 && i == 0)
                memcpy(first, result, sizeof first);
            different += memcmp(first, result, sizeof first) != 0;
        }
        tenon_context_destroy(&context);
        tenon_session_destroy(&session);
    }
    ck_assert_int_eq(different, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("together");
    TCase *tests = tcase_create("together");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, one_session_of_many_threads, 0, 2);
    tcase_add_test(tests, sessions_come_and_go);
    tcase_add_test(tests, signals_are_no_failure);
#ifndef __SANITIZE_THREAD__
    tcase_add_test(tests, library_is_closed_and_opened);
#endif
    tcase_add_loop_test(tests, runs_give_the_same_bytes, 0, 4);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
