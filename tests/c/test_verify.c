/* Verify mode: partitions that a fault was put into are found, told and left out. */
#include "partitions/partitions.h"
#include "run_graph.h"
#include <math.h>
#include <stdio.h>
#include <tenon/explain.h>

static const char two_products[] = "graph net {\n"
                                   "  input %x: float32[64, 96]\n"
                                   "  buffer %seen: float32[64, 96] = random(3)\n"
                                   "  const %v: float32[96, 96] = random(1)\n"
                                   "  const %w: float32[96, 96] = random(2)\n"
                                   "  %a = aten.linear(%x, %v)\n"
                                   "  %r = aten.relu(%a)\n"
                                   "  %s = aten.cumsum(%r, 1)\n"
                                   "  %b = aten.linear(%s, %w)\n"
                                   "  %t = aten.add.Tensor(%b, %seen)\n"
                                   "  write %seen <- %r\n"
                                   "  output \"y\" = %t\n"
                                   "}\n";
static const char open_size[] = "graph net {\n"
                                "  input %x: float32[n, 96]\n"
                                "  const %w: float32[96, 96] = random(2)\n"
                                "  %y = aten.linear(%x, %w)\n"
                                "  output \"y\" = %y\n"
                                "}\n";

/* ---- Faults ---- */

static const char *spoilt; /* partitions that compute a node of this name give a wrong element */
static float error;        /* what is added to it */
static float trigger;      /* only where the first element is this; NAN: always */
static int faults;

static void spoil(const tn_partition *partition, void *const *out) {
    float *first = out[0];
    for (int i = 0; i < partition->node_count; i++) {
        if (strcmp(partition->nodes[i]->name, spoilt) == 0 &&
            (isnan(trigger) || *first == trigger)) {
            *first += error;
            faults++;
        }
    }
}

static char logged[4096];

static void take_log(tenon_log_level level, const char *message, void *user) {
    size_t used = strlen(logged);
    (void)level, (void)user;
    snprintf(logged + used, sizeof logged - used, "%s\n", message);
}

static void set_fault(const char *node, float by) {
    spoilt = node;
    error = by;
    trigger = NAN;
    faults = 0;
    logged[0] = '\0';
    tenon_log_set(TENON_LOG_WARN, take_log, NULL);
    tn_partition_fault = node ? spoil : NULL;
}

/* ---- Sessions ---- */

static tenon_session *verified(const char *text, tenon_session_options options) {
    tenon_graph *graph = parse_graph(text);
    tenon_session *session = NULL;
    const char *threads = getenv("TENON_TEST_THREADS");
    options.threads = threads ? atoi(threads) : 2;
    options.backend = TENON_BACKEND_ONEDNN;
    options.verify = true;
    OK(tenon_session_create(graph, &options, &session));
    tenon_graph_destroy(&graph);
    return session;
}

static void run(tenon_session *session, int64_t rows, float *y) {
    static float x[64 * 96];
    tenon_context *context = NULL;
    for (int i = 0; i < 64 * 96; i++)
        x[i] = (float)(i % 17) / 8 - 1;
    tenon_view in = floats(x, rows, 96), out = floats(y, rows, 96);
    OK(tenon_context_create(session, &context));
    OK(tenon_context_run(context, &in, 1, &out, 1));
    tenon_context_destroy(&context);
}

/* The reason of each node outside oneDNN that verify mode left out, and how many partitions there
 * are. */
static int left_out(const tenon_session *session, int *partitions) {
    tenon_plan_info plan;
    int count = 0;
    OK(tenon_session_get_plan(session, &plan));
    *partitions = plan.partition_count;
    for (int i = 0; i < plan.step_count; i++) {
        tenon_step_info step;
        OK(tenon_session_get_step(session, i, &step));
        if (step.reason_kind != TENON_REASON_VERIFY)
            continue;
        ck_assert_int_eq(step.kind, TENON_STEP_KERNEL);
        ck_assert_msg(strstr(step.reason, "gave") && strstr(step.reason, "is allowed"), "%s",
                      step.reason);
        count++;
    }
    return count;
}

static void expect_reference(const char *text, int64_t rows, const float *y, float limit) {
    static float want[64 * 96];
    tenon_session *session = make_session(text, TENON_BACKEND_REFERENCE);
    float scale = 0;
    run(session, rows, want);
    tenon_session_destroy(&session);
    for (int i = 0; i < rows * 96; i++)
        scale = fmaxf(scale, fabsf(want[i]));
    for (int i = 0; i < rows * 96; i++) {
        if (!(fabsf(y[i] - want[i]) <= limit * scale))
            ck_abort_msg("%d: %g, not %g", i, y[i], want[i]);
    }
}

START_TEST(keeps_what_is_right) {
    float y[64 * 96];
    int partitions;
    set_fault(NULL, 0);
    tenon_session *session = verified(two_products, (tenon_session_options){0});
    ck_assert_int_eq(left_out(session, &partitions), 0);
    ck_assert_int_ge(partitions, 2);
    ck_assert_str_eq(logged, "");
    run(session, 64, y);
    expect_reference(two_products, 64, y, 1e-5f);
    tenon_session_destroy(&session);
}
END_TEST

/* An error in the first of two partitions leaves the second alone, which reads its result. */
START_TEST(leaves_out_what_is_wrong) {
    static const float errors[] = {500, -100, INFINITY, NAN};
    float y[64 * 96];
    int partitions, all;
    set_fault(NULL, 0);
    tenon_session *session = verified(two_products, (tenon_session_options){0});
    left_out(session, &all);
    tenon_session_destroy(&session);
    set_fault(_i % 2 ? "b" : "a", errors[_i / 2]);
    session = verified(two_products, (tenon_session_options){0});
    ck_assert_int_ge(left_out(session, &partitions), 1);
    ck_assert_int_lt(partitions, all);
    ck_assert_int_ge(partitions, 1);
    ck_assert_msg(strstr(logged, "verify mode") && strstr(logged, "kernels"), "'%s'", logged);
    ck_assert_int_eq(faults, 1); /* of the trial; the session does not run it */
    run(session, 64, y);
    ck_assert_int_eq(faults, 1);
    expect_reference(two_products, 64, y, 1e-5f);
    tenon_session_destroy(&session);
}
END_TEST

/* What rounding explains is no fault. */
START_TEST(allows_rounding) {
    int partitions;
    set_fault("a", 1e-5f);
    tenon_session *session = verified(two_products, (tenon_session_options){0});
    ck_assert_int_eq(left_out(session, &partitions), 0);
    ck_assert_int_eq(faults, 1);
    tenon_session_destroy(&session);
}
END_TEST

START_TEST(verifies_bfloat16) {
    int partitions;
    set_fault(NULL, 0);
    tenon_session_options bf16 = {.precision = TENON_PRECISION_BF16};
    tenon_session *session = verified(two_products, bf16);
    ck_assert_int_eq(left_out(session, &partitions), 0);
    ck_assert_int_ge(partitions, 1);
    tenon_session_destroy(&session);
}
END_TEST

/* Each set of shapes is verified when it is compiled. */
START_TEST(verifies_each_shape) {
    float y[64 * 96];
    int partitions;
    set_fault("y", 1);
    tenon_session *session = verified(open_size, (tenon_session_options){0});
    for (int rows = 16; rows <= 64; rows += 16) {
        run(session, rows, y);
        expect_reference(open_size, rows, y, 1e-5f);
        ck_assert_int_eq(left_out(session, &partitions), 1);
        ck_assert_int_eq(partitions, 0);
        ck_assert_int_eq(faults, rows / 16);
    }
    tenon_session_destroy(&session);
}
END_TEST

/* A fault that only some inputs show is found with samples that show it. */
START_TEST(takes_samples) {
    static const char text[] = "graph net {\n"
                               "  input %x: float32[64, 96]\n"
                               "  const %w: float32[96, 96] = ones\n"
                               "  %y = aten.linear(%x, %w)\n"
                               "  output \"y\" = %y\n"
                               "}\n";
    static float x[64 * 96];
    int partitions;
    tenon_view sample = floats(x, 64, 96);
    for (int i = 0; i < 64 * 96; i++)
        x[i] = 1;
    set_fault("y", 1);
    trigger = 96; /* the sum of a row of ones */
    tenon_session *session = verified(text, (tenon_session_options){0});
    ck_assert_int_eq(left_out(session, &partitions), 0);
    tenon_session_destroy(&session);
    session = verified(text, (tenon_session_options){.samples = &sample, .sample_count = 1});
    ck_assert_int_eq(left_out(session, &partitions), 1);
    tenon_session_destroy(&session);
    tenon_graph *graph = parse_graph(text);
    tenon_session_options options = {.samples = &sample, .sample_count = 2};
    FAILS(tenon_session_create(graph, &options, &session), TENON_INPUT_MISMATCH, "2 samples");
    sample.shape[0] = 63;
    options.sample_count = 1;
    FAILS(tenon_session_create(graph, &options, &session), TENON_INPUT_MISMATCH, "x");
    tenon_graph_destroy(&graph);
}
END_TEST

int main(void) {
    TCase *tests = tcase_create("verify");
    tcase_add_test(tests, keeps_what_is_right);
    tcase_add_loop_test(tests, leaves_out_what_is_wrong, 0, 8);
    tcase_add_test(tests, allows_rounding);
    tcase_add_test(tests, verifies_bfloat16);
    tcase_add_test(tests, verifies_each_shape);
    tcase_add_test(tests, takes_samples);
    Suite *suite = suite_create("verify");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
