/* Processes that fork: what a child may do with Tenon, before its first use and behind it. */
#include "batch_job.h"
#include "run_graph.h"
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 5, WIDTH = 256, PATIENCE = 300 /* seconds, for children that hang */ };

/* Large enough for the plan to use several threads. */
static const char net[] = "graph g {\n"
                          "  input %x: float32[s0, 256]\n"
                          "  const %w: float32[256, 256] = random(1)\n"
                          "  const %b: float32[256] = random(2)\n"
                          "  %m = aten.mm(%x, %w)\n"
                          "  %r = aten.relu(%m)\n"
                          "  %a = aten.add.Tensor(%r, %b)\n"
                          "  %n = aten.mm(%a, %w)\n"
                          "  %s = aten.softmax.int(%n, 1)\n"
                          "  output \"s\" = %s\n"
                          "}\n";

static const tenon_backend backends[] = {TENON_BACKEND_AUTO, TENON_BACKEND_ONEDNN,
                                         TENON_BACKEND_REFERENCE};

/* Nothing of Check's is called in a child: its status tells what failed. */
static bool run(tenon_context *context, float *result) {
    float x[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)(i * 7 % 11) / 4 - 1;
    tenon_view input = floats(x, ROWS, WIDTH), output = floats(result, ROWS, WIDTH);
    return tenon_context_run(context, &input, 1, &output, 1) == TENON_OK;
}

static bool run_new(tenon_backend backend, bool verify, float *result) {
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    tenon_session_options options = {.threads = 2, .backend = backend, .verify = verify};
    bool ok = tenon_graph_parse(net, "net", &graph) == TENON_OK &&
              tenon_session_create(graph, &options, &session) == TENON_OK &&
              tenon_context_create(session, &context) == TENON_OK && run(context, result);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
    return ok;
}

static int start_child(int (*work)(void *user), void *user) {
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE);
        _exit(work(user));
    }
    return child;
}

static int end_of(pid_t child) {
    int state = 0;
    if (child < 0 || waitpid(child, &state, 0) != child)
        return -1;
    return WIFEXITED(state) ? WEXITSTATUS(state) : 256 + WTERMSIG(state);
}

static int in_child(int (*work)(void *user), void *user) {
    return end_of(start_child(work, user));
}

/* ---- Sessions ---- */

typedef struct job {
    tenon_backend backend;
    bool verify;
    tenon_context *context; /* the parent's; may be NULL */
    int generations;        /* children of children */
    float want[ROWS * WIDTH];
    int pipe;
} job;

static int write_result(void *user) {
    job *j = user;
    float result[ROWS * WIDTH] = {0};
    return run_new(j->backend, false, result) &&
                   write(j->pipe, result, sizeof result) == (ssize_t)sizeof result
               ? 0
               : 1;
}

/* A child that is made before Tenon is used, and its parent, have it to themselves. */
START_TEST(forked_before_use) {
    int ends[2];
    job j = {.backend = backends[_i]};
    float result[ROWS * WIDTH];
    ck_assert_int_eq(pipe(ends), 0);
    j.pipe = ends[1];
    pid_t child = start_child(write_result, &j);
    ck_assert_int_gt(child, 0);
    ck_assert(run_new(j.backend, false, j.want));
    size_t got = 0;
    for (ssize_t part; got < sizeof result; got += (size_t)part) {
        part = read(ends[0], (char *)result + got, sizeof result - got);
        ck_assert_int_gt(part, 0);
    }
    ck_assert_mem_eq(result, j.want, sizeof result);
    ck_assert_int_eq(end_of(child), 0);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

static int use_in_child(void *user) {
    job j = *(job *)user;
    float result[ROWS * WIDTH] = {0};
    if (!run(j.context, result) || memcmp(result, j.want, sizeof result) != 0)
        return 1;
    if (!run_new(j.backend, j.verify, result) || memcmp(result, j.want, sizeof result) != 0)
        return 2;
    if (--j.generations > 0 && in_child(use_in_child, &j) != 0)
        return 3;
    if (!run(j.context, result) || memcmp(result, j.want, sizeof result) != 0)
        return 4;
    tenon_context_destroy(&j.context);
    return 0;
}

/* Of a parent whose runs have used two threads, children go on with its session, and make their
 * own. */
START_TEST(forked_after_use) {
    tenon_session *session = make_session(net, backends[_i % 3]);
    job j = {.backend = backends[_i % 3], .verify = _i >= 3, .generations = 2};
    float result[ROWS * WIDTH];
    OK(tenon_context_create(session, &j.context));
    ck_assert(run(j.context, j.want));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(in_child(use_in_child, &j), 0);
        ck_assert(run(j.context, result));
        ck_assert_mem_eq(result, j.want, sizeof result);
    }
    tenon_context_destroy(&j.context);
    tenon_session_destroy(&session);
}
END_TEST

/* ---- Pools ---- */

typedef struct queue {
    tenon_graph *graph;
    tenon_pool *pool;
    tenon_request *done, *running, *waiting;
    tenon_view input, outputs[4];
    float x[ROWS * WIDTH], want[ROWS * WIDTH];
    atomic_bool started, go_on;
} queue;

/* Holds the only instance. */
static void hold(void *user, tenon_status status, const tenon_view *outputs) {
    queue *q = user;
    (void)status, (void)outputs;
    atomic_store(&q->started, true);
    while (!atomic_load(&q->go_on))
        usleep(100);
}

static bool fails(tenon_status status, const char *text) {
    return status == TENON_RUN_FAILED && strstr(tenon_last_error(), text) != NULL;
}

static int use_pool_in_child(void *user) {
    queue *q = user;
    tenon_request *request = NULL;
    tenon_pool_stats stats;
    tenon_view *out = &q->outputs[3];
    if (!fails(tenon_pool_submit(q->pool, &q->input, 1, out, 1, NULL, NULL, &request), "forked") ||
        !fails(tenon_pool_try_submit(q->pool, &q->input, 1, out, 1, NULL, NULL, NULL), "forked") ||
        request)
        return 1;
    if (tenon_request_cancel(q->waiting) || tenon_pool_cancel(q->pool) != 0)
        return 2;
    tenon_pool_drain(q->pool);
    tenon_pool_get_stats(q->pool, &stats);
    tenon_pool_reset_stats(q->pool);
    if (stats.submitted != 3 || !tenon_request_is_done(q->done) ||
        tenon_request_is_done(q->waiting))
        return 3;
    if (tenon_request_wait(&q->done) != TENON_OK ||
        !fails(tenon_request_wait(&q->running), "forked") ||
        !fails(tenon_request_wait(&q->waiting), "forked") || q->waiting)
        return 4;
    tenon_pool_destroy(&q->pool);
    if (q->pool)
        return 5;
    const tenon_session_options session = {.threads = 2};
    const tenon_pool_options options = {.instances = 2, .threads = 2};
    if (tenon_pool_create(q->graph, &session, &options, &q->input, 1, &q->pool) != TENON_OK ||
        tenon_pool_submit(q->pool, &q->input, 1, out, 1, NULL, NULL, &request) != TENON_OK ||
        tenon_request_wait(&request) != TENON_OK)
        return 6;
    tenon_pool_destroy(&q->pool);
    return memcmp(out->data, q->want, sizeof q->want) == 0 ? 0 : 7;
}

/* A pool's threads stay in the parent. In a child nothing waits for them. */
START_TEST(pools_stay_with_the_parent) {
    static queue q;
    static float results[4][ROWS * WIDTH];
    const tenon_session_options session = {.threads = 2};
    const tenon_pool_options options = {.instances = 1, .threads = 2};
    for (int i = 0; i < ROWS * WIDTH; i++)
        q.x[i] = (float)(i * 7 % 11) / 4 - 1;
    q.input = floats(q.x, ROWS, WIDTH);
    for (int i = 0; i < 4; i++)
        q.outputs[i] = floats(results[i], ROWS, WIDTH);
    ck_assert(run_new(TENON_BACKEND_AUTO, false, q.want));
    q.graph = parse_graph(net);
    OK(tenon_pool_create(q.graph, &session, &options, &q.input, 1, &q.pool));
    OK(tenon_pool_submit(q.pool, &q.input, 1, &q.outputs[0], 1, NULL, NULL, &q.done));
    tenon_pool_drain(q.pool);
    OK(tenon_pool_submit(q.pool, &q.input, 1, &q.outputs[1], 1, hold, &q, &q.running));
    OK(tenon_pool_submit(q.pool, &q.input, 1, &q.outputs[2], 1, NULL, NULL, &q.waiting));
    while (!atomic_load(&q.started))
        usleep(100);
    int status = in_child(use_pool_in_child, &q);
    atomic_store(&q.go_on, true);
    ck_assert_int_eq(status, 0);
    OK(tenon_request_wait(&q.done));
    OK(tenon_request_wait(&q.running));
    OK(tenon_request_wait(&q.waiting));
    for (int i = 0; i < 3; i++)
        ck_assert_mem_eq(results[i], q.want, sizeof q.want);
    tenon_pool_destroy(&q.pool);
    tenon_graph_destroy(&q.graph);
}
END_TEST

/* ---- Batch jobs ---- */

static char files[6][512]; /* model, input, and two outputs of each process */

static int run_job(void *user) {
    job_case c;
    const int first = *(int *)user;
    job_make(&c, files[0], files[1], files[first], files[first + 1]);
    c.job.instances = 2;
    c.job.session.threads = 2;
    return batch_run(&c.job) == BATCH_FINISHED ? 0 : 1;
}

START_TEST(jobs_run_in_children) {
    static const char *const names[] = {"model.txt", "x.npy", "y.npy", "k.npy", "y2.npy", "k2.npy"};
    int parents = 2, childs = 4;
    job_silence();
    for (int i = 0; i < 6; i++)
        snprintf(files[i], sizeof files[i], "%s", test_path(names[i]));
    test_write(files[0], job_model, sizeof job_model - 1);
    job_samples(files[1], JOB_SAMPLES, 13);
    ck_assert_int_eq(run_job(&parents), 0);
    ck_assert_int_eq(in_child(run_job, &childs), 0);
    job_equal(files[4], files[2]);
    job_equal(files[5], files[3]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fork");
    TCase *tests = tcase_create("fork");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, forked_before_use, 0, 3);
    tcase_add_loop_test(tests, forked_after_use, 0, 6);
    tcase_add_test(tests, pools_stay_with_the_parent);
    tcase_add_test(tests, jobs_run_in_children);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
