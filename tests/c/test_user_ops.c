/* Ops that are registered at run time: in texts, passes and sessions. */
#include "core/op.h"
#include "run_graph.h"
#include <stdio.h>

/* mine::scale_add(Tensor self, Tensor? other=None, float factor=2.0): self * factor + other */
static tenon_status scale_add_shape(const tenon_node *node, tenon_view *outputs, int count,
                                    void *user) {
    const tenon_value *x = tenon_node_arg(node, 0).as.value;
    (void)user;
    ck_assert_int_eq(count, 1);
    if (tenon_value_dtype(x) != TENON_FLOAT32)
        return tenon_fail(TENON_INVALID_GRAPH, "needs float32, not %s",
                          tenon_dtype_text(tenon_value_dtype(x)));
    outputs[0].dtype = TENON_FLOAT32;
    outputs[0].rank = tenon_value_rank(x);
    for (int d = 0; d < outputs[0].rank; d++)
        outputs[0].shape[d] = tenon_value_size(x, d);
    return TENON_OK;
}

static float at(const tenon_view *view, int64_t i, int64_t j) {
    return ((const float *)view->data)[i * view->strides[0] + j * view->strides[1]];
}

static tenon_status scale_add(tenon_op_call *call, void *user) {
    tenon_view x = tenon_op_call_input(call, 0), other = tenon_op_call_input(call, 1);
    tenon_view out = tenon_op_call_output(call, 0);
    double factor = tenon_node_arg(tenon_op_call_node(call), 2).as.f;
    float *row = tenon_op_call_scratch(call, (size_t)x.shape[1] * sizeof *row);
    ++*(int *)user;
    if (!row)
        return tenon_fail(TENON_OUT_OF_MEMORY, "no memory");
    if (tenon_op_call_threads(call) < 1 || tenon_op_call_input(call, 9).dtype)
        return tenon_fail(TENON_RUN_FAILED, "a call without sense");
    for (int64_t i = 0; i < x.shape[0]; i++) {
        for (int64_t j = 0; j < x.shape[1]; j++) {
            if (at(&x, i, j) < -1000)
                return tenon_fail(TENON_RUN_FAILED, "element [%lld, %lld] is too small",
                                  (long long)i, (long long)j);
            row[j] = (float)(at(&x, i, j) * factor);
        }
        for (int64_t j = 0; j < x.shape[1]; j++)
            ((float *)out.data)[i * out.strides[0] + j * out.strides[1]] =
                row[j] + (other.dtype ? at(&other, i, j) : 0);
    }
    return TENON_OK;
}

static const char schema[] =
    "mine::scale_add(Tensor self, Tensor? other=None, float factor=2.0) -> Tensor";
static int runs;

static int before; /* ops of the table */

static void set_up(void) {
    if (!before)
        before = tenon_op_count();
    OK(tenon_op_register(schema, scale_add_shape, scale_add, &runs));
}

START_TEST(registered_ops_are_listed) {
    tenon_op_info info;
    set_up(); /* the very same op again */
    ck_assert_int_eq(tenon_op_count(), before + 1);
    ck_assert(tenon_op_get(before, &info));
    ck_assert_str_eq(info.name, "mine.scale_add");
    ck_assert_str_eq(info.schema, schema);
    ck_assert_str_eq(info.onednn, "");
    ck_assert(info.is_registered && info.has_kernel && !info.is_view && !info.is_inplace);
    ck_assert(tenon_op_find("mine::scale_add.default", &info));
    ck_assert(tenon_op_find("aten.relu", &info) && !info.is_registered);
    ck_assert(!tenon_op_get(before + 1, &info));
}
END_TEST

START_TEST(bad_registrations_are_refused) {
    static const char *const cases[][2] = {
        {"scale(Tensor a) -> Tensor", "ns::name"},
        {"mine::a.b.c(Tensor a) -> Tensor", "ns::name or ns::name.overload"},
        {"mine::a..b(Tensor a) -> Tensor", "a part of the name is empty"},
        {"mine::(Tensor a) -> Tensor", "a part of the name is empty"},
        {"mine::a b(Tensor a) -> Tensor", "letters, digits"},
        {"mine::a(Tenso a) -> Tensor", "unknown type"},
        {"mine::a(Tensor a", "',' or ')' is missing"},
        {"mine::a(Tensor[ a) -> Tensor", "']' is missing"},
        {"mine::a(int[2", "']' is missing"},
        {"mine::a(int[] a=[[[[1]]]]) -> Tensor", "holds a list"},
        {"mine::a(Tensor a)", "'->' is missing"},
        {"mine::a_(Tensor(a!) a) -> Tensor(a!)", "neither write nor alias"},
        {"mine::v(Tensor(a) a) -> Tensor(a)", "neither write nor alias"},
        {"mine::a(Tensor a) -> ()", "returns nothing"},
        {"mine::a(Tensor a) -> Tensor[]", "returns new tensors only"},
        {"mine::a(Tensor a) -> int", "returns new tensors only"},
        {"mine::a(Tensor x, Tensor x) -> Tensor", "two arguments are named 'x'"},
        {"mine::a(Tensor x, int a=1.5) -> Tensor",
         "the default of argument 'a' is of another type"},
        {"mine::a(Tensor x, str a=3) -> Tensor", "the default of argument 'a' is of another type"},
        {"mine::a(Tensor x, Tensor a=3) -> Tensor",
         "the default of argument 'a' is of another type"},
        {"mine::a(Tensor x, int[-1] a) -> Tensor", "a negative length"},
        {"mine::a(Tensor 1x) -> Tensor", "the name '1x' begins with a digit"},
        {"mine::a(Tensor x) -> Tensor?", "returns new tensors only"},
        {"aten::relu(Tensor self) -> Tensor", "there is an op of that name"},
        {"mine::scale_add(Tensor self) -> Tensor", "there is an op of that name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        FAILS(tenon_op_register(cases[i][0], scale_add_shape, scale_add, &runs),
              TENON_INVALID_ARGUMENT, cases[i][1]);
    FAILS(tenon_op_register("mine::a(Tensor a) -> Tensor", NULL, scale_add, NULL),
          TENON_INVALID_ARGUMENT, "a shape rule and a kernel are needed");
    ck_assert_int_eq(tenon_op_count(), before + 1);
}
END_TEST

static const char model[] = "graph g {\n  symbol s0 in [1, 9]\n  input %x: float32[s0, 3]\n"
                            "  input %y: float32[s0, 3]\n"
                            "  %a = aten.add.Tensor(%x, %y)\n"
                            "  %t = mine.scale_add(%a, %y, 3.0)\n"
                            "  %u = mine.scale_add(%t)\n"
                            "  %r = aten.relu(%u)\n  output \"o\" = %r\n}\n";

START_TEST(registered_ops_run) {
    static const tenon_backend backends[] = {TENON_BACKEND_AUTO, TENON_BACKEND_ONEDNN,
                                             TENON_BACKEND_REFERENCE};
    float x[6] = {1, 2, 3, 4, 5, -60}, y[6] = {1, 1, 1, 1, 1, 1};
    const float want[6] = {14, 20, 26, 32, 38, 0}; /* relu(2 (3 (x + y) + y)) */
    for (int b = 0; b < 3; b++) {
        tenon_graph *graph = parse_graph(model);
        tenon_session *session = NULL;
        tenon_context *context = NULL;
        const tenon_view inputs[2] = {
            {.data = x, .dtype = TENON_FLOAT32, .rank = 2, .shape = {2, 3}, .strides = {3, 1}},
            {.data = y, .dtype = TENON_FLOAT32, .rank = 2, .shape = {2, 3}, .strides = {3, 1}}};
        tenon_view output = {0};
        tenon_session_options options = {.backend = backends[b]};
        OK(tenon_session_create(graph, &options, &session));
        OK(tenon_context_create(session, &context));
        OK(tenon_context_run(context, inputs, 2, &output, 1));
        for (int i = 0; i < 6; i++)
            ck_assert_float_eq(((float *)output.data)[i], want[i]);
        x[3] = -9999;
        output = (tenon_view){0};
        FAILS(tenon_context_run(context, inputs, 2, &output, 1), TENON_RUN_FAILED,
              "node 't' (mine.scale_add): element [1, 0] is too small");
        x[3] = 4;
        tenon_context_destroy(&context);
        tenon_session_destroy(&session);
        tenon_graph_destroy(&graph);
    }
}
END_TEST

/* Shape rules and kernels may take a tensor for granted. */
START_TEST(numbers_are_no_tensors) {
    static const char *const texts[] = {
        "graph g { %y = mine.scale_add(3)\n output \"o\" = %y }",
        "graph g { input %n: symint\n  %y = mine.scale_add(%n)\n  output \"o\" = %y }"};
    for (int i = 0; i < 2; i++) {
        tenon_graph *graph = NULL;
        FAILS(tenon_graph_parse(texts[i], "text", &graph), TENON_INVALID_GRAPH,
              "mine.scale_add: argument 'self' is a");
    }
}
END_TEST

static tenon_status fail_silently(tenon_op_call *call, void *user) {
    (void)call;
    return *(tenon_status *)user;
}

START_TEST(failures_without_a_message_get_one) {
    static tenon_status status = TENON_RUN_FAILED;
    static const struct {
        tenon_status given, status;
        const char *message;
    } cases[] = {{TENON_RUN_FAILED, TENON_RUN_FAILED,
                  "node 'y' (mine.silent): it returned 'run failed' without a message"},
                 {(tenon_status)77, TENON_INTERNAL,
                  "node 'y' (mine.silent): it returned 77, which is no status"}};
    OK(tenon_op_register("mine::silent(Tensor self) -> Tensor", scale_add_shape, fail_silently,
                         &status));
    tenon_session *session =
        make_session("graph g { input %x: float32[1, 1]\n  %y = mine.silent(%x)\n"
                     "  output \"o\" = %y }",
                     TENON_BACKEND_AUTO);
    tenon_context *context = NULL;
    OK(tenon_context_create(session, &context));
    for (int i = 0; i < 4; i++) {
        float x = 1;
        tenon_view input = view_of(&x, TENON_FLOAT32, 1, 1, -1, -1), output = {0};
        status = cases[i % 2].given;
        ck_assert_int_eq(tenon_context_run(context, &input, 1, &output, 1), cases[i % 2].status);
        ck_assert_str_eq(tenon_last_error(), cases[i % 2].message);
    }
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

/* Everything around it runs in bfloat16. */
START_TEST(bf16_sessions_keep_the_dtypes_of_registered_ops) {
    float x[6] = {1, 2, 3, 4, 5, 6};
    tenon_graph *graph = parse_graph(
        "graph g { input %x: float32[2, 3]\n  const %w: float32[3, 3] = {1, 0, 0, 0, 1, 0, 0, 0, "
        "1}\n"
        "  %a = aten.mm(%x, %w)\n  %y = mine.scale_add(%a, %x)\n  %b = aten.mm(%y, %w)\n"
        "  output \"o\" = %b }");
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    tenon_session_options options = {.precision = TENON_PRECISION_BF16,
                                     .bf16_fallback = TENON_BF16_FALLBACK_EMULATE};
    tenon_view input = view_of(x, TENON_FLOAT32, 2, 3, -1, -1), output = {0};
    OK(tenon_session_create(graph, &options, &session));
    OK(tenon_context_create(session, &context));
    OK(tenon_context_run(context, &input, 1, &output, 1));
    for (int i = 0; i < 6; i++)
        ck_assert_float_eq(((float *)output.data)[i], 3 * x[i]); /* all are bfloat16 numbers */
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(shape_rules_refuse_with_node_and_op) {
    tenon_graph *graph = NULL;
    FAILS(tenon_graph_parse("graph g { input %x: int64[2, 3]\n  %y = mine.scale_add(%x)\n"
                            "  output \"o\" = %y }",
                            "text", &graph),
          TENON_INVALID_GRAPH, "node 'y' (mine.scale_add): needs float32, not int64");
}
END_TEST

static tenon_status no_dtype(const tenon_node *node, tenon_view *outputs, int count, void *user) {
    (void)node, (void)count;
    outputs[0] = *(tenon_view *)user;
    return TENON_OK;
}

START_TEST(shape_rules_without_sense_are_refused) {
    static tenon_view given = {0};
    static const struct {
        tenon_view view;
        const char *message;
    } cases[] = {{{.dtype = TENON_DTYPE_NONE}, "the dtype 0"},
                 {{.dtype = (tenon_dtype)99}, "the dtype 99"},
                 {{.dtype = TENON_INT8, .rank = 13}, "the rank 13"},
                 {{.dtype = TENON_INT8, .rank = -1}, "the rank -1"},
                 {{.dtype = TENON_INT8, .rank = 1, .shape = {-5}}, "negative or too large"}};
    OK(tenon_op_register("mine::odd(Tensor self) -> Tensor", no_dtype, scale_add, &given));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tenon_graph *graph = NULL;
        given = cases[i].view;
        FAILS(tenon_graph_parse("graph g { input %x: int64[2, 3]\n  %y = mine.odd(%x)\n"
                                "  output \"o\" = %y }",
                                "text", &graph),
              TENON_INVALID_GRAPH, cases[i].message);
    }
}
END_TEST

/* ---- Lists of tensors, several outputs ---- */

/* mine::sum_and_count(Tensor[] items, Tensor number) -> (Tensor, Tensor) */
static tenon_status sum_shape(const tenon_node *node, tenon_view *outputs, int count, void *user) {
    (void)node, (void)user;
    for (int i = 0; i < count; i++)
        outputs[i].dtype = TENON_FLOAT32;
    return TENON_OK;
}

static tenon_status sum_and_count(tenon_op_call *call, void *user) {
    tenon_view number = tenon_op_call_input(call, 1);
    tenon_view sum = tenon_op_call_output(call, 0), count = tenon_op_call_output(call, 1);
    float total = number.dtype == TENON_FLOAT32 ? *(float *)number.data : -1;
    int items = tenon_node_arg(tenon_op_call_node(call), 0).count;
    *(bool *)user = count.dtype != TENON_DTYPE_NONE;
    for (int i = 0; i < items; i++) {
        tenon_view item = tenon_op_call_item(call, 0, i);
        for (int64_t k = 0; k < item.shape[0]; k++)
            total += ((float *)item.data)[k * item.strides[0]];
    }
    if (tenon_op_call_item(call, 0, items).dtype || tenon_op_call_output(call, 2).dtype)
        return tenon_fail(TENON_RUN_FAILED, "there is more than there is");
    *(float *)sum.data = total;
    if (count.dtype)
        *(float *)count.data = (float)items;
    return TENON_OK;
}

START_TEST(lists_numbers_and_several_outputs) {
    static bool wanted;
    float x[2] = {1, 2}, y[3] = {10, 20, 30};
    OK(tenon_op_register("mine::sum_and_count(Tensor[] items, Tensor number) -> (Tensor, Tensor)",
                         sum_shape, sum_and_count, &wanted));
    for (int both = 0; both < 2; both++) {
        char text[512];
        snprintf(text, sizeof text,
                 "graph g { input %%x: float32[2]\n  input %%y: float32[3]\n"
                 "  const %%n: float32[] = {5}\n"
                 "  %%s, %%c = mine.sum_and_count([%%x, %%y, %%x], %%n)\n"
                 "  output \"s\" = %%s\n%s }",
                 both ? "output \"c\" = %c" : "");
        tenon_graph *graph = parse_graph(text);
        tenon_session *session = NULL;
        tenon_context *context = NULL;
        const tenon_view inputs[2] = {
            {.data = x, .dtype = TENON_FLOAT32, .rank = 1, .shape = {2}, .strides = {1}},
            {.data = y, .dtype = TENON_FLOAT32, .rank = 1, .shape = {3}, .strides = {1}}};
        tenon_view outputs[2] = {0};
        OK(tenon_session_create(graph, NULL, &session));
        OK(tenon_context_create(session, &context));
        OK(tenon_context_run(context, inputs, 2, outputs, 1 + both));
        ck_assert_float_eq(*(float *)outputs[0].data, 71);
        ck_assert_int_eq(wanted, both);
        if (both)
            ck_assert_float_eq(*(float *)outputs[1].data, 3);
        tenon_context_destroy(&context);
        tenon_session_destroy(&session);
        tenon_graph_destroy(&graph);
    }
}
END_TEST

/* ---- In passes ---- */

static tenon_status fuse(tenon_pass_call *call) {
    tenon_pattern *pattern = NULL;
    int64_t count = 0;
    if (tenon_pattern_create("%m = aten.mul.Tensor(%x, $factor)\n"
                             "%y = aten.add.Tensor(%m, %other) commutative",
                             "fuse", &pattern) != TENON_OK)
        return TENON_INTERNAL;
    tenon_status status = tenon_pattern_rewrite(
        pattern, call->graph, "%z = mine.scale_add(%x, %other, $factor)", NULL, NULL, &count);
    tenon_pattern_destroy(&pattern);
    call->changed = count > 0;
    return status;
}

START_TEST(passes_insert_registered_ops) {
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {1, 1, 1, 1, 1, 1};
    tenon_graph *graph =
        parse_graph("graph g { input %x: float32[2, 3]\n  input %y: float32[2, 3]\n"
                    "  const %k: float32[2, 3] = ones\n"
                    "  %m = aten.mul.Tensor(%x, 4.0)\n  %a = aten.add.Tensor(%y, %m)\n"
                    "  %n = aten.mul.Tensor(%k, 4.0)\n  %b = aten.add.Tensor(%n, %k)\n"
                    "  %c = aten.add.Tensor(%a, %b)\n  output \"o\" = %c }");
    tenon_passes *passes = NULL;
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    tenon_plan_info plan;
    const tenon_view inputs[2] = {
        {.data = x, .dtype = TENON_FLOAT32, .rank = 2, .shape = {2, 3}, .strides = {3, 1}},
        {.data = y, .dtype = TENON_FLOAT32, .rank = 2, .shape = {2, 3}, .strides = {3, 1}}};
    tenon_view output = {0};
    runs = 0;
    OK(tenon_passes_create(&passes));
    OK(tenon_passes_insert(passes, 0, &(tenon_pass){.name = "fuse", .run = fuse}));
    OK(tenon_session_create(graph, &(tenon_session_options){.passes = passes}, &session));
    ck_assert_int_eq(runs, 1); /* over constants, when the model was lowered */
    OK(tenon_session_get_plan(session, &plan));
    ck_assert_ptr_null(tenon_graph_find_value(plan.graph, "m"));
    ck_assert_str_eq(tenon_node_op(tenon_value_node(tenon_graph_find_value(plan.graph, "a"))),
                     "mine.scale_add");
    OK(tenon_context_create(session, &context));
    OK(tenon_context_run(context, inputs, 2, &output, 1));
    ck_assert_int_eq(runs, 2);
    for (int i = 0; i < 6; i++)
        ck_assert_float_eq(((float *)output.data)[i], x[i] * 4 + 1 + 5);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_passes_destroy(&passes);
    tenon_graph_destroy(&graph);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("user_ops");
    TCase *tests = tcase_create("ops");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, registered_ops_are_listed);
    tcase_add_test(tests, bad_registrations_are_refused);
    tcase_add_test(tests, registered_ops_run);
    tcase_add_test(tests, numbers_are_no_tensors);
    tcase_add_test(tests, failures_without_a_message_get_one);
    tcase_add_test(tests, bf16_sessions_keep_the_dtypes_of_registered_ops);
    tcase_add_test(tests, shape_rules_refuse_with_node_and_op);
    tcase_add_test(tests, shape_rules_without_sense_are_refused);
    tcase_add_test(tests, lists_numbers_and_several_outputs);
    tcase_add_test(tests, passes_insert_registered_ops);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
