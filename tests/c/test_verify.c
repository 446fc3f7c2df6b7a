/* Verify mode: partitions that a fault was put into are found, told and left out. */
#include "core/kernel.h"
#include "core/op.h"
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

/* Kernels that passes choose are put in the place of a right one that is wrong in one element. */
static const char *spoilt_kernel; /* the op; NULL: none */
tn_kernel_fn __real_tn_kernel_get(int id, tn_isa isa);
tn_kernel_fn __wrap_tn_kernel_get(int id, tn_isa isa);

static tenon_status wrong_kernel(tn_call *call) {
    tenon_status status = __real_tn_kernel_get(call->node->op->id, tn_isa_detect())(call);
    *(float *)call->out[0].data += 100;
    faults++;
    return status;
}

tn_kernel_fn __wrap_tn_kernel_get(int id, tn_isa isa) {
    return spoilt_kernel && strcmp(tn_op_by_id(id)->name, spoilt_kernel) == 0
               ? wrong_kernel
               : __real_tn_kernel_get(id, isa);
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

static tenon_session *make_verified(const char *text, tenon_session_options options) {
    tenon_graph *graph = parse_graph(text);
    tenon_session *session = NULL;
    const char *threads = getenv("TENON_TEST_THREADS");
    options.threads = threads ? atoi(threads) : 2;
    options.verify = true;
    OK(tenon_session_create(graph, &options, &session));
    tenon_graph_destroy(&graph);
    return session;
}

static tenon_session *verified(const char *text, tenon_session_options options) {
    options.backend = TENON_BACKEND_ONEDNN;
    return make_verified(text, options);
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
    ck_assert_int_eq(plan.verified_partitions, plan.partition_count);
    ck_assert_int_eq(plan.left_out > 0,
                     tn_partition_fault != NULL && faults > 0 && !(fabsf(error) <= 1e-3f));
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

/* ---- Kernels that passes choose ---- */

#define CONVOLUTION(y, x, w, window, groups)                                       \
    "%" y " = aten.convolution(%" x ", %" w ", none, [1, 1], [" window ", " window \
    "], [1, 1], false, [0, 0], " groups ")\n"
#define IMAGE(channels, size) \
    "graph net {\n  input %x: float32[1, " channels ", " size ", " size "]\n"
#define WEIGHT(name, a, b, size) \
    "const %" name ": float32[" a ", " b ", " size ", " size "] = random(1, -0.1, 0.1)\n"
#define END "output \"y\" = %y\n}\n"

static const struct {
    const char *op, *pass, *text;
} chosen[] = {
    {"tenon.winograd_convolution", "winograd",
     IMAGE("64", "56") WEIGHT("w", "64", "64", "3") CONVOLUTION(
         "c", "x", "w", "1", "1") "%r = aten.relu(%c)\n" CONVOLUTION("y", "r", "w", "1", "1") END},
    {"tenon.packed_linear", "packed",
     "graph net {\n  input %x: float32[96, 512]\nconst %w: float32[300, 512] = random(5, -0.2, "
     "0.2)\n%y = aten.linear(%x, %w)\n" END},
    {"tenon.packed_convolution", "convolve",
     IMAGE("32", "12") WEIGHT("w", "32", "32", "1")
         CONVOLUTION("c", "x", "w", "0", "1") "%y = aten.relu(%c)\n" END},
    {"tenon.depthwise_convolution", "depthwise",
     IMAGE("24", "10") WEIGHT("w", "24", "1", "3")
         CONVOLUTION("c", "x", "w", "1", "24") "%y = aten.hardswish(%c)\n" END},
    {"tenon.squeeze_excitation", "squeeze",
     IMAGE("32", "12") WEIGHT("w", "32", "32", "1")
         CONVOLUTION("c", "x", "w", "0", "1") "%m = aten.mean.dim(%c, [2, 3], true)\n" WEIGHT(
             "v", "8", "32", "1") WEIGHT("u", "32", "8", "1")
             CONVOLUTION("a", "m", "v", "0", "1") "%b = aten.relu(%a)\n" CONVOLUTION(
                 "d", "b", "u", "0",
                 "1") "%s = aten.sigmoid(%d)\n%y = aten.mul.Tensor(%c, %s)\n" END},
    {"tenon.interleave", "parts",
     IMAGE("32", "12") WEIGHT("w", "32", "32", "1") CONVOLUTION("c", "x", "w", "0", "1")
         CONVOLUTION("d", "c", "w", "0",
                     "1") "%e = aten.cat([%c, %d], 1)\n%y = aten.channel_shuffle(%e, 2)\n" END},
};

/* Whether the plan has a kernel of that op, and what is told of choices. */
static bool has_op(const tenon_session *session, const char *op, char *told, size_t room) {
    tenon_plan_info plan;
    bool found = false;
    told[0] = '\0';
    OK(tenon_session_get_plan(session, &plan));
    ck_assert_int_gt(plan.verified_partitions + plan.verified_kernels + plan.left_out, 0);
    ck_assert_int_eq(plan.left_out, spoilt_kernel != NULL);
    for (int i = 0; i < plan.step_count; i++) {
        tenon_step_info step;
        OK(tenon_session_get_step(session, i, &step));
        found |= strcmp(tenon_node_op(step.nodes[0]), op) == 0;
        if (*step.choice)
            snprintf(told, room, "%s", step.choice);
    }
    return found;
}

static float *run_all(tenon_session *session, int64_t *count) {
    tenon_context *context = NULL;
    tenon_view in = {.dtype = TENON_FLOAT32, .rank = tenon_session_input_rank(session, 0)},
               out = {0};
    OK(tenon_context_create(session, &context));
    int64_t size = 1;
    for (int d = in.rank - 1; d >= 0; d--) {
        char text[32];
        tenon_session_input_size_text(session, 0, d, text, sizeof text);
        in.shape[d] = atoi(text);
        in.strides[d] = size;
        size *= in.shape[d];
    }
    float *x = malloc((size_t)size * sizeof *x);
    for (int i = 0; i < size; i++)
        x[i] = (float)(i % 17) / 8 - 1;
    in.data = x;
    OK(tenon_context_run(context, &in, 1, &out, 1));
    *count = tenon_view_numel(&out);
    float *y = malloc((size_t)*count * sizeof *y);
    memcpy(y, out.data, (size_t)*count * sizeof *y);
    tenon_context_destroy(&context);
    free(x);
    return y;
}

START_TEST(leaves_out_passes_that_choose_what_is_wrong) {
    char told[512];
    int64_t count, wanted;
    set_fault(NULL, 0);
    tenon_session *session = make_verified(chosen[_i].text, (tenon_session_options){0});
    ck_assert_msg(has_op(session, chosen[_i].op, told, sizeof told), "%s", chosen[_i].op);
    ck_assert_str_eq(told, "");
    ck_assert_str_eq(logged, "");
    tenon_session_destroy(&session);

    spoilt_kernel = chosen[_i].op;
    session = make_verified(chosen[_i].text, (tenon_session_options){0});
    ck_assert_int_gt(faults, 0);
    ck_assert(!has_op(session, chosen[_i].op, told, sizeof told));
    const char *const said[] = {"verify mode", chosen[_i].op, chosen[_i].pass, "is allowed"};
    for (int i = 0; i < 4; i++) {
        ck_assert_msg(strstr(told, said[i]) != NULL, "'%s' is not told: '%s'", said[i], told);
        ck_assert_msg(strstr(logged, said[i]) != NULL, "'%s' is not logged: %s", said[i], logged);
    }
    float *y = run_all(session, &count);
    tenon_session_destroy(&session);
    spoilt_kernel = NULL;
    session = make_session(chosen[_i].text, TENON_BACKEND_REFERENCE);
    float *want = run_all(session, &wanted);
    tenon_session_destroy(&session);
    ck_assert_int_eq(count, wanted);
    for (int64_t i = 0; i < count; i++) {
        if (!(fabsf(y[i] - want[i]) <= 1e-4f))
            ck_abort_msg("%d: %g, not %g", (int)i, y[i], want[i]);
    }
    free(y);
    free(want);
}
END_TEST

int main(void) {
    TCase *tests = tcase_create("verify");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, keeps_what_is_right);
    tcase_add_loop_test(tests, leaves_out_what_is_wrong, 0, 8);
    tcase_add_test(tests, allows_rounding);
    tcase_add_test(tests, verifies_bfloat16);
    tcase_add_test(tests, verifies_each_shape);
    tcase_add_test(tests, takes_samples);
    tcase_add_loop_test(tests, leaves_out_passes_that_choose_what_is_wrong, 0,
                        sizeof chosen / sizeof *chosen);
    Suite *suite = suite_create("verify");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
