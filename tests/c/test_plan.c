/* The plan: offsets in the arena, memory in place, views that need copies, and very long graphs. */
#include "run/offsets.h"
#include "run/session.h"
#include "run_graph.h"
#include <pthread.h>

/* ---- Offsets ---- */

static unsigned next_random(unsigned *state) {
    return *state = *state * 1664525u + 1013904223u;
}

static void check_offsets(int count, unsigned seed, int longest, int largest) {
    tn_buffer *buffers = calloc((size_t)count, sizeof *buffers);
    int64_t total = 0;
    for (int i = 0; i < count; i++) {
        buffers[i].first = i;
        buffers[i].last = i + (int)(next_random(&seed) >> 8) % longest;
        buffers[i].size = (int)(next_random(&seed) >> 8) % largest;
    }
    OK(tn_offsets_assign(buffers, count, &total));
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(buffers[i].offset % TN_ALIGN, 0);
        ck_assert(buffers[i].offset >= 0 && buffers[i].offset + buffers[i].size <= total);
        for (int j = i + 1; j < count && buffers[j].first <= buffers[i].last; j++)
            ck_assert_msg(buffers[i].offset + buffers[i].size <= buffers[j].offset ||
                              buffers[j].offset + buffers[j].size <= buffers[i].offset,
                          "buffers %d and %d overlap", i, j);
    }
    int64_t bound = tn_offsets_bound(buffers, count);
    ck_assert(total >= bound);
    ck_assert_msg(total <= bound + bound / 3, "%d buffers take %lld, %lld are in use", count,
                  (long long)total, (long long)bound);
    free(buffers);
}

START_TEST(offsets_do_not_overlap) {
    for (unsigned seed = 0; seed < 40; seed++)
        check_offsets(1 + (int)seed * 7, seed, 1 + (int)seed % 13, 1 << (4 + seed % 14));
}
END_TEST

/* More buffers than are placed by size. */
START_TEST(offsets_of_many_buffers) {
    check_offsets(200000, 7, 12, 10000);
}
END_TEST

START_TEST(offsets_of_nothing) {
    int64_t total = -1;
    tn_buffer huge[2] = {{INT64_MAX - 1, 0, 1, 0}, {INT64_MAX / 2, 0, 1, 0}};
    OK(tn_offsets_assign(NULL, 0, &total));
    ck_assert_int_eq(total, 0);
    FAILS(tn_offsets_assign(huge, 2, &total), TENON_INVALID_ARGUMENT, "larger than memory");
}
END_TEST

/* ---- Memory ---- */

static int64_t arena_of(tenon_session *session) {
    tenon_plan_info plan;
    OK(tenon_session_get_plan(session, &plan));
    return (int64_t)plan.arena_bytes;
}

/* Each step may overwrite its input, and the last one is the output: no activation is needed. */
START_TEST(chain_runs_in_the_output) {
    tenon_session *session = make_session("graph g {\n"
                                          "  input %x: float32[1000]\n"
                                          "  %a = aten.neg(%x)\n"
                                          "  %b = aten.abs(%a)\n"
                                          "  %c = aten.neg(%b)\n"
                                          "  output \"y\" = %c\n"
                                          "}\n",
                                          TENON_BACKEND_REFERENCE);
    ck_assert_int_eq(arena_of(session), 0);
    tenon_session_destroy(&session);
}
END_TEST

/* A residual: the shortcut lives on beside the branch, and the sum takes its memory. Two buffers
 * suffice. */
START_TEST(residual_adds_in_place) {
    tenon_session *session = make_session("graph g {\n"
                                          "  input %x: float32[1024]\n"
                                          "  %a = aten.neg(%x)\n"
                                          "  %b = aten.flip(%a, [0])\n"
                                          "  %c = aten.add.Tensor(%a, %b)\n"
                                          "  %d = aten.flip(%c, [0])\n"
                                          "  %e = aten.add.Tensor(%c, %d)\n"
                                          "  %f = aten.flip(%e, [0])\n"
                                          "  output \"y\" = %f\n"
                                          "}\n",
                                          TENON_BACKEND_REFERENCE);
    ck_assert_int_le(arena_of(session), 2 * 4096);
    tenon_session_destroy(&session);
}
END_TEST

/* Runs a graph with one float32 input x[s0] of `count` elements, with memory shared between values
 * or not; results by output. */
static void run_planned(const char *text, bool reuse, tenon_backend backend, const float *x,
                        int64_t count, float *results) {
    tenon_session *session = make_session(text, backend);
    tenon_context *context = NULL;
    tenon_view inputs[1] = {floats((float *)x, count, -1)}, outputs[8] = {{0}};
    int output_count = tenon_session_output_count(session);
    session->plan_options.reuse = reuse; /* nothing was compiled yet: the size is open */
    OK(tenon_context_create(session, &context));
    OK(tenon_context_run(context, inputs, 1, outputs, output_count));
    for (int i = 0; i < output_count; i++) {
        size_t bytes = (size_t)tenon_view_numel(&outputs[i]) * sizeof(float);
        memcpy(results, outputs[i].data, bytes);
        results += bytes / sizeof(float);
    }
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}

/* Field case 43: a clone that became an alias, with siblings that use the same value. */
START_TEST(clones_and_siblings_keep_their_values) {
    const char *text = "graph g {\n"
                       "  input %x: float32[s0]\n"
                       "  const %b: float32[4] = {1, -2, 3, -4}\n"
                       "  %a = aten.add.Tensor(%x, 1)\n"
                       "  %c = aten.clone(%a)\n"
                       "  %r = aten.relu(%a)\n"
                       "  %s = aten.add.Tensor(%r, %b)\n"
                       "  %d = aten.mul.Tensor(%b, 2)\n"
                       "  output \"clone\" = %c\n"
                       "  output \"sum\" = %s\n"
                       "  output \"double\" = %d\n"
                       "}\n";
    const float x[4] = {-3, -1, 0.5f, 7};
    const float want[12] = {-2, 0, 1.5f, 8, 1, -2, 4.5f, 4, 2, -4, 6, -8};
    for (int reuse = 0; reuse < 2; reuse++) {
        for (int backend = 0; backend < 3; backend++) {
            float got[12];
            run_planned(text, reuse, (tenon_backend)backend, x, 4, got);
            ck_assert_mem_eq(got, want, sizeof want);
        }
    }
}
END_TEST

/* Values of many lifetimes and views, with memory shared and not: the same bits. */
START_TEST(sharing_memory_changes_no_bit) {
    const char *text = "graph g {\n"
                       "  input %x: float32[s0]\n"
                       "  %m = aten.view(%x, [6, 4])\n"
                       "  %e = aten.exp(%m)\n"
                       "  %t = aten.t(%e)\n"
                       "  %f = aten.view(%t, [24])\n"
                       "  %h, %i = aten.split.Tensor(%f, 12)\n"
                       "  %p = aten.mul.Tensor(%h, %i)\n"
                       "  %q = aten.sub.Tensor(%p, %i)\n"
                       "  %n = aten.neg(%h)\n"
                       "  %o = aten.add.Tensor(%n, %q)\n"
                       "  %u = aten.slice.Tensor(%o, 0, 2, 10, 2)\n"
                       "  %v = aten.mul.Tensor(%u, %u)\n"
                       "  %w = aten.cat([%v, %q, %u])\n"
                       "  %z = aten.unsqueeze(%w, 0)\n"
                       "  output \"w\" = %w\n"
                       "  output \"z\" = %z\n"
                       "  output \"t\" = %t\n"
                       "  output \"again\" = %t\n"
                       "}\n";
    float x[24], one[128] = {0}, two[128] = {0};
    for (int i = 0; i < 24; i++)
        x[i] = (float)((i * 37) % 24) / 8 - 1.5f;
    run_planned(text, true, TENON_BACKEND_REFERENCE, x, 24, one);
    run_planned(text, false, TENON_BACKEND_REFERENCE, x, 24, two);
    ck_assert_mem_eq(one, two, sizeof one);
    ck_assert(one[0] != 0);
}
END_TEST

/* A value kept channels-last is seen row-major by views and outputs. */
START_TEST(channels_last_values_convert) {
    tenon_session *session = make_session("graph g {\n"
                                          "  input %x: float32[1, 2, 2, 3]\n"
                                          "  %y: float32[1, 2, 2, 3] channels_last = aten.neg(%x)\n"
                                          "  %z: float32[1, 2, 2, 3] channels_last = aten.abs(%y)\n"
                                          "  %f = aten.view(%z, [12])\n"
                                          "  output \"y\" = %y\n"
                                          "  output \"f\" = %f\n"
                                          "}\n",
                                          TENON_BACKEND_REFERENCE);
    tenon_context *context = NULL;
    float x[12], y[12], z[12];
    for (int i = 0; i < 12; i++) {
        x[i] = (float)(i - 5);
        y[i] = -x[i];
        z[i] = y[i] < 0 ? -y[i] : y[i];
    }
    tenon_view input = view_of(x, TENON_FLOAT32, 1, 2, 2, 3), outputs[2] = {{0}};
    OK(tenon_context_create(session, &context));
    OK(tenon_context_run(context, &input, 1, outputs, 2));
    check_floats(&outputs[0], y, 12);
    check_floats(&outputs[1], z, 12);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

/* ---- Long graphs ---- */

#define CHAIN 200000

typedef struct chain_job {
    tenon_backend backend;
    const char *failure; /* NULL: all went well */
    float result;
} chain_job;

static tenon_status run_chain(chain_job *job) {
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    tenon_session_options options = {.backend = job->backend, .threads = 1};
    const char *dims[] = {"2"};
    float data[2] = {3, -5};
    tenon_view input = floats(data, 2, -1), output = {0};
    tenon_value *value = NULL;
    tenon_status status = tenon_graph_create("chain", &graph);
    if (status == TENON_OK)
        status = tenon_graph_add_input(graph, "x", TENON_FLOAT32, 1, dims, &value);
    /* Each node needs the one before it, so that no pass can drop or merge any. */
    for (int i = 0; i < CHAIN && status == TENON_OK; i++) {
        tenon_node *node;
        tenon_arg args[2] = {tenon_arg_value(value), tenon_arg_float(i % 2 ? -1.0 : 1.0)};
        status = tenon_graph_add_node(graph, "aten.add.Tensor", NULL, args, 2, &node);
        if (status == TENON_OK)
            value = tenon_node_output(node, 0);
    }
    if (status == TENON_OK)
        status = tenon_graph_add_output(graph, "y", tenon_arg_value(value));
    if (status == TENON_OK)
        status = tenon_session_create(graph, &options, &session);
    if (status == TENON_OK)
        status = tenon_context_create(session, &context);
    if (status == TENON_OK)
        status = tenon_context_run(context, &input, 1, &output, 1);
    if (status == TENON_OK)
        job->result = ((float *)output.data)[1];
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
    return status;
}

static void *chain_thread(void *user) {
    chain_job *job = user;
    if (run_chain(job) != TENON_OK)
        job->failure = strdup(tenon_last_error());
    return NULL;
}

START_TEST(long_chain_on_a_small_stack) {
    chain_job job = {_i ? TENON_BACKEND_REFERENCE : TENON_BACKEND_AUTO, NULL, 0};
    pthread_attr_t attributes;
    pthread_t thread;
    ck_assert_int_eq(pthread_attr_init(&attributes), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&attributes, 1 << 20), 0);
    ck_assert_int_eq(pthread_create(&thread, &attributes, chain_thread, &job), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    ck_assert_msg(job.failure == NULL, "%s", job.failure);
    ck_assert(job.result == -5);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("plan");
    TCase *tests = tcase_create("plan");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, offsets_do_not_overlap);
    tcase_add_test(tests, offsets_of_many_buffers);
    tcase_add_test(tests, offsets_of_nothing);
    tcase_add_test(tests, chain_runs_in_the_output);
    tcase_add_test(tests, residual_adds_in_place);
    tcase_add_test(tests, clones_and_siblings_keep_their_values);
    tcase_add_test(tests, sharing_memory_changes_no_bit);
    tcase_add_test(tests, channels_last_values_convert);
    tcase_add_loop_test(tests, long_chain_on_a_small_stack, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
