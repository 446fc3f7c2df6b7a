/* Sessions: options, inputs and outputs of every kind, and compiled shapes. */
#include "run/session.h"
#include "run_graph.h"
#include <math.h>
#include <stdio.h>

static const char open_graph[] = "graph g {\n"
                                 "  symbol s0 in [2, 64]\n"
                                 "  input %x: float32[s0, 3]\n"
                                 "  input %k: int64[3]\n"
                                 "  const %w: float32[3] = {1, 2, 3}\n"
                                 "  %a = aten.add.Tensor(%x, %w)\n"
                                 "  %b = aten.mul.Tensor(%a, %k)\n"
                                 "  output \"sum\" = %a\n"
                                 "  output \"product\" = %b\n"
                                 "}\n";

/* ---- Options ---- */

START_TEST(options_are_checked) {
    tenon_graph *graph = parse_graph(open_graph);
    tenon_session *session = NULL;
    tenon_session_options options = {.threads = -1};
    FAILS(tenon_session_create(graph, &options, &session), TENON_INVALID_ARGUMENT, "threads is -1");
    options = (tenon_session_options){.backend = (tenon_backend)7};
    FAILS(tenon_session_create(graph, &options, &session), TENON_INVALID_ARGUMENT, "backend 7");
    options = (tenon_session_options){.fpmath = (tenon_fpmath)2};
    FAILS(tenon_session_create(graph, &options, &session), TENON_INVALID_ARGUMENT, "fpmath 2");
    options = (tenon_session_options){.precision = (tenon_precision)3};
    FAILS(tenon_session_create(graph, &options, &session), TENON_INVALID_ARGUMENT, "precision 3");
    options = (tenon_session_options){.max_shapes = -2};
    FAILS(tenon_session_create(graph, &options, &session), TENON_INVALID_ARGUMENT,
          "max_shapes is -2");
    options = (tenon_session_options){.isa = "sse9"};
    FAILS(tenon_session_create(graph, &options, &session), TENON_INVALID_ARGUMENT, "sse9");
    ck_assert_ptr_null(session);
    options = (tenon_session_options){.isa = "baseline", .backend = TENON_BACKEND_REFERENCE};
    OK(tenon_session_create(graph, &options, &session));
    ck_assert_int_eq(session->plan_options.isa, TN_ISA_BASELINE);
    ck_assert_int_ge(session->options.threads, 1);
    tenon_session_destroy(&session);
    ck_assert_ptr_null(session);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
}
END_TEST

/* Rounded operands: near the strict result, and its very self where the CPU has no bfloat16. */
START_TEST(fpmath_rounds_operands) {
    tenon_graph *graph = parse_graph("graph g { input %x: float32[64, 256]\n"
                                     "const %w: float32[256, 256] = random(1)\n"
                                     "%y = aten.linear(%x, %w)\noutput \"y\" = %y }");
    float *x = malloc(64 * 256 * sizeof *x), *strict = malloc(64 * 256 * sizeof *strict);
    ck_assert(x && strict);
    for (int i = 0; i < 64 * 256; i++)
        x[i] = (float)(i * 7919 % 1009) / 500.0f - 1.0f;
    for (int mode = 0; mode < 2; mode++) {
        tenon_session_options options = {.threads = 1, .fpmath = (tenon_fpmath)mode};
        tenon_session *session = NULL;
        tenon_context *context = NULL;
        tenon_view in = tn_view_make(x, TENON_FLOAT32, 2, (const int64_t[]){64, 256}), out = {0};
        OK(tenon_session_create(graph, &options, &session));
        OK(tenon_context_create(session, &context));
        OK(tenon_context_run(context, &in, 1, &out, 1));
        float worst = 0;
        for (int i = 0; i < 64 * 256; i++) {
            float got = ((const float *)out.data)[i];
            if (mode == 0)
                strict[i] = got;
            worst = fmaxf(worst, fabsf(got - strict[i]));
        }
        ck_assert_float_le(worst, 0.5f); /* sums of 256 products of 2 or less, 8 bits each */
        ck_assert(session->plan_options.bf16_math ==
                  (mode == 1 && tn_onednn_rounds(session->plan_options.isa)));
        if (!session->plan_options.bf16_math)
            ck_assert_float_le(worst, 1e-4f);
        tenon_context_destroy(&context);
        tenon_session_destroy(&session);
    }
    free(x);
    free(strict);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(names_dtypes_and_sizes) {
    tenon_session *session = make_session(open_graph, TENON_BACKEND_AUTO);
    char text[16];
    ck_assert_int_eq(tenon_session_input_count(session), 2);
    ck_assert_str_eq(tenon_session_input_name(session, 1), "k");
    ck_assert_ptr_null(tenon_session_input_name(session, 2));
    ck_assert_ptr_null(tenon_session_input_name(session, -1));
    ck_assert_int_eq(tenon_session_input_dtype(session, 0), TENON_FLOAT32);
    ck_assert_int_eq(tenon_session_input_dtype(session, 1), TENON_INT64);
    ck_assert_int_eq(tenon_session_input_rank(session, 0), 2);
    tenon_session_input_size_text(session, 0, 0, text, sizeof text);
    ck_assert_str_eq(text, "s0");
    tenon_session_input_size_text(session, 0, 1, text, sizeof text);
    ck_assert_str_eq(text, "3");
    ck_assert_int_eq(tenon_session_find_input(session, "x"), 0);
    ck_assert_int_eq(tenon_session_find_input(session, "y"), -1);
    ck_assert_int_eq(tenon_session_output_count(session), 2);
    ck_assert_str_eq(tenon_session_output_name(session, 1), "product");
    ck_assert_int_eq(tenon_session_find_output(session, "sum"), 0);
    ck_assert_int_eq(tenon_session_find_output(session, "x"), -1);
    tenon_session_destroy(&session);
}
END_TEST

/* ---- Inputs ---- */

START_TEST(wrong_inputs_are_named) {
    tenon_session *session = make_session(open_graph, TENON_BACKEND_REFERENCE);
    tenon_context *context = NULL;
    float x[6] = {0};
    int64_t k[3] = {1, 2, 3};
    tenon_view inputs[2] = {floats(x, 2, 3), view_of(k, TENON_INT64, 3, -1, -1, -1)},
               outputs[2] = {{0}};
    const tenon_view good[2] = {inputs[0], inputs[1]};
    OK(tenon_context_create(session, &context));
    FAILS(tenon_context_run(context, inputs, 1, outputs, 2), TENON_INPUT_MISMATCH,
          "1 inputs given, the model takes 2");
    FAILS(tenon_context_run(context, inputs, 2, outputs, 1), TENON_INVALID_ARGUMENT,
          "1 outputs given");
    inputs[1].dtype = TENON_INT32;
    FAILS(tenon_context_run(context, inputs, 2, outputs, 2), TENON_INPUT_MISMATCH,
          "'k': its dtype is int32");
    inputs[1] = good[1];
    inputs[1].shape[0] = 4;
    FAILS(tenon_context_run(context, inputs, 2, outputs, 2), TENON_INPUT_MISMATCH,
          "'k': dimension 0 is 4");
    inputs[1] = good[1];
    inputs[0].rank = 1;
    FAILS(tenon_context_run(context, inputs, 2, outputs, 2), TENON_INPUT_MISMATCH,
          "'x': its rank is 1");
    inputs[0] = floats(x, 1, 3);
    FAILS(tenon_context_run(context, inputs, 2, outputs, 2), TENON_INPUT_MISMATCH,
          "below its minimum of 2");
    inputs[0] = floats(x, 65, 3);
    FAILS(tenon_context_run(context, inputs, 2, outputs, 2), TENON_INPUT_MISMATCH,
          "above its maximum of 64");
    inputs[0] = good[0];
    inputs[0].data = NULL;
    FAILS(tenon_context_run(context, inputs, 2, outputs, 2), TENON_INPUT_MISMATCH,
          "'x': it has no data");
    inputs[0].data = (char *)x + 1;
    FAILS(tenon_context_run(context, inputs, 2, outputs, 2), TENON_INPUT_MISMATCH, "not aligned");
    inputs[0] = good[0];
    float place[6];
    outputs[0] = floats(place, 3, 2);
    FAILS(tenon_context_run(context, inputs, 2, outputs, 2), TENON_INVALID_ARGUMENT,
          "output 'sum': the memory given is for float32[3, 2], the model gives float32[2, 3]");
    outputs[0] = floats(place, 2, 3);
    outputs[0].strides[0] = 0;
    FAILS(tenon_context_run(context, inputs, 2, outputs, 2), TENON_INPUT_MISMATCH,
          "name some element twice");
    outputs[0] = floats(place, 2, 3);
    OK(tenon_context_run(context, inputs, 2, outputs, 2));
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

/* Inputs and outputs of any strides, negative ones too, and outputs over inputs. */
START_TEST(strides_of_the_caller) {
    tenon_session *session = make_session(open_graph, TENON_BACKEND_REFERENCE);
    tenon_context *context = NULL;
    float x[6] = {6, 5, 4, 3, 2, 1}, place[12] = {0};
    int64_t k[6] = {1, 0, 10, 0, 100, 0};
    tenon_view inputs[2] = {floats(x + 5, 2, 3), view_of(k, TENON_INT64, 3, -1, -1, -1)};
    inputs[0].strides[0] = -1; /* the transpose, backwards: [[1, 3, 5], [2, 4, 6]] */
    inputs[0].strides[1] = -2;
    inputs[1].strides[0] = 2;
    tenon_view outputs[2] = {floats(place, 2, 3), {0}};
    outputs[0].strides[0] = 1;
    outputs[0].strides[1] = 4;
    const float sum[6] = {2, 5, 8, 3, 6, 9}, product[6] = {2, 50, 800, 3, 60, 900};
    OK(tenon_context_create(session, &context));
    for (int run = 0; run < 2; run++) {
        memset(place, 0, sizeof place);
        outputs[1] = (tenon_view){0};
        OK(tenon_context_run(context, inputs, 2, outputs, 2));
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 3; j++)
                ck_assert(place[i + 4 * j] == sum[i * 3 + j]);
        ck_assert(place[2] == 0 && place[3] == 0);
        check_floats(&outputs[1], product, 6);
    }
    /* The first output lies where the input does. */
    float both[6] = {1, 3, 5, 2, 4, 6};
    inputs[0] = floats(both, 2, 3);
    outputs[0] = inputs[0];
    outputs[1] = (tenon_view){0};
    OK(tenon_context_run(context, inputs, 2, outputs, 2));
    check_floats(&outputs[0], sum, 6);
    check_floats(&outputs[1], product, 6);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

START_TEST(numbers_as_inputs_and_outputs) {
    tenon_session *session = make_session("graph g {\n"
                                          "  input %x: float32[2]\n"
                                          "  input %n: symint\n"
                                          "  %y = aten.mul.Tensor(%x, %n)\n"
                                          "  output \"y\" = %y\n"
                                          "  output \"n\" = %n\n"
                                          "  output \"half\" = 0.5\n"
                                          "  output \"yes\" = true\n"
                                          "  output \"nothing\" = none\n"
                                          "}\n",
                                          TENON_BACKEND_REFERENCE);
    tenon_context *context = NULL;
    float x[2] = {1.5f, -2}, room[2];
    int64_t n = 4;
    double half = 0;
    tenon_view inputs[2] = {floats(x, 2, -1), {.data = &n, .dtype = TENON_INT64}}, outputs[5];
    OK(tenon_context_create(session, &context));
    for (n = 4; n < 6; n++) {
        const float want[2] = {1.5f * (float)n, -2 * (float)n};
        memset(outputs, 0, sizeof outputs);
        outputs[2] = (tenon_view){.data = &half, .dtype = TENON_FLOAT64};
        OK(tenon_context_run(context, inputs, 2, outputs, 5));
        check_floats(&outputs[0], want, 2);
        ck_assert_int_eq(outputs[1].dtype, TENON_INT64);
        ck_assert_int_eq(*(int64_t *)outputs[1].data, n);
        ck_assert(half == 0.5);
        ck_assert_int_eq(outputs[3].dtype, TENON_BOOL);
        ck_assert(*(bool *)outputs[3].data);
        ck_assert_int_eq(outputs[4].dtype, TENON_DTYPE_NONE);
    }
    inputs[1].data = NULL;
    FAILS(tenon_context_run(context, inputs, 2, outputs, 5), TENON_INPUT_MISMATCH,
          "'n' is a number");
    inputs[1].data = &n;
    memset(outputs, 0, sizeof outputs);
    outputs[4] = floats(room, 2, -1);
    FAILS(tenon_context_run(context, inputs, 2, outputs, 5), TENON_INVALID_ARGUMENT,
          "'nothing' is None");
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

/* Inputs, constants, and one value twice as outputs: each has memory of its own. */
START_TEST(outputs_that_nothing_computes) {
    tenon_session *session = make_session("graph g {\n"
                                          "  input %x: float32[2, 2]\n"
                                          "  const %k: float32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                                          "  %t = aten.t(%k)\n"
                                          "  %n = aten.neg(%x)\n"
                                          "  %h = aten.select.int(%n, 0, 1)\n"
                                          "  output \"x\" = %x\n"
                                          "  output \"k\" = %t\n"
                                          "  output \"n\" = %n\n"
                                          "  output \"again\" = %n\n"
                                          "  output \"half\" = %h\n"
                                          "}\n",
                                          TENON_BACKEND_AUTO);
    tenon_context *context = NULL;
    float x[4] = {1, 2, 3, 4};
    const float k[6] = {1, 4, 2, 5, 3, 6}, n[4] = {-1, -2, -3, -4};
    tenon_view input = floats(x, 2, 2), outputs[5] = {{0}};
    OK(tenon_context_create(session, &context));
    OK(tenon_context_run(context, &input, 1, outputs, 5));
    check_floats(&outputs[0], x, 4);
    check_floats(&outputs[1], k, 6);
    check_floats(&outputs[2], n, 4);
    check_floats(&outputs[3], n, 4);
    check_floats(&outputs[4], n + 2, 2);
    for (int i = 0; i < 5; i++) {
        ck_assert_ptr_ne(outputs[i].data, x);
        for (int j = 0; j < i; j++)
            ck_assert_ptr_ne(outputs[i].data, outputs[j].data);
    }
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

START_TEST(empty_tensors) {
    tenon_session *session = make_session("graph g {\n"
                                          "  input %x: float32[s0, 3]\n"
                                          "  %y = aten.relu(%x)\n"
                                          "  %z = aten.view(%y, [-1])\n"
                                          "  output \"z\" = %z\n"
                                          "}\n",
                                          TENON_BACKEND_AUTO);
    tenon_context *context = NULL;
    tenon_view input = floats(NULL, 0, 3), output = {0};
    OK(tenon_context_create(session, &context));
    OK(tenon_context_run(context, &input, 1, &output, 1));
    ck_assert_int_eq(output.rank, 1);
    ck_assert_int_eq(output.shape[0], 0);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

/* Of a pool with indices the indices alone may be wanted. */
START_TEST(only_the_indices) {
    static const char *const pools[] = {"max_pool2d_with_indices(%x, [2, 2])",
                                        "adaptive_max_pool2d(%x, [1, 2])"};
    float x[8] = {1, 5, 2, 8, 3, 4, 9, 7};
    char text[256];
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text,
                 "graph g { input %%x: float32[1, 1, 2, 4]\n  %%y, %%i = aten.%s\n"
                 "  output \"i\" = %%i }",
                 pools[i]);
        tenon_session *session = make_session(text, TENON_BACKEND_AUTO);
        tenon_context *context = NULL;
        tenon_view input = view_of(x, TENON_FLOAT32, 1, 1, 2, 4), output = {0};
        OK(tenon_context_create(session, &context));
        OK(tenon_context_run(context, &input, 1, &output, 1));
        ck_assert_int_eq(output.dtype, TENON_INT64);
        ck_assert_int_eq(tenon_view_numel(&output), 2);
        ck_assert_int_eq(((const int64_t *)output.data)[0], 1);
        ck_assert_int_eq(((const int64_t *)output.data)[1], 6);
        tenon_context_destroy(&context);
        tenon_session_destroy(&session);
    }
}
END_TEST

/* Nodes that nothing needs do not run, also when no pass removes them. */
START_TEST(nodes_without_use) {
    float x[4] = {1, 2, 3, 4};
    const float want[4] = {1, 2, 3, 4};
    tenon_graph *graph = parse_graph("graph g { input %x: float32[2, 2]\n"
                                     "  %unused = aten.addmm(%x, %x, %x)\n"
                                     "  %y = aten.relu(%x)\n  output \"y\" = %y }");
    tenon_passes *passes = NULL;
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    OK(tenon_passes_create_minimal(&passes));
    tenon_session_options options = {.backend = TENON_BACKEND_REFERENCE, .passes = passes};
    OK(tenon_session_create(graph, &options, &session));
    OK(tenon_context_create(session, &context));
    tenon_view input = floats(x, 2, 2), output = {0};
    OK(tenon_context_run(context, &input, 1, &output, 1));
    check_floats(&output, want, 4);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_passes_destroy(&passes);
    tenon_graph_destroy(&graph);
}
END_TEST

/* ---- Compiled shapes ---- */

START_TEST(compiled_shapes_are_bounded) {
    tenon_graph *graph = parse_graph(open_graph);
    tenon_session_options options = {.max_shapes = 3, .backend = TENON_BACKEND_REFERENCE};
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    float x[64 * 3] = {0};
    int64_t k[3] = {1, 1, 1};
    OK(tenon_session_create(graph, &options, &session));
    tenon_graph_destroy(&graph);
    OK(tenon_context_create(session, &context));
    tenon_plan_info plan;
    FAILS(tenon_session_get_plan(session, &plan), TENON_NOT_FOUND, "nothing was compiled");
    for (int round = 0; round < 3; round++) {
        for (int rows = 2; rows < 12; rows++) {
            tenon_view inputs[2] = {floats(x, rows, 3), view_of(k, TENON_INT64, 3, -1, -1, -1)},
                       outputs[2] = {{0}};
            OK(tenon_context_run(context, inputs, 2, outputs, 2));
            ck_assert_int_eq(outputs[0].shape[0], rows);
            ck_assert(((float *)outputs[0].data)[rows * 3 - 1] == 3);
            ck_assert_int_le(session->plan_count, 3);
        }
    }
    /* The one used last stays while others come. */
    tenon_view kept[2] = {floats(NULL, 20, 3), view_of(NULL, TENON_INT64, 3, -1, -1, -1)};
    for (int rows = 21; rows < 30; rows++) {
        tenon_view other[2] = {floats(NULL, rows, 3), kept[1]};
        OK(tenon_session_compile(session, kept, 2));
        OK(tenon_session_compile(session, other, 2));
        int found = 0;
        for (int i = 0; i < session->plan_count; i++)
            found += session->plans[i]->inputs[0].view.shape[0] == 20;
        ck_assert_int_eq(found, 1);
    }
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

START_TEST(steps_tell_where_nodes_run) {
    tenon_session *session = make_session("graph g {\n"
                                          "  input %x: float32[2, 2]\n"
                                          "  %a = aten.relu(%x)\n"
                                          "  %b = aten.t(%a)\n"
                                          "  output \"x\" = %x\n"
                                          "  output \"b\" = %b\n"
                                          "}\n",
                                          TENON_BACKEND_REFERENCE);
    tenon_plan_info plan;
    tenon_step_info step;
    OK(tenon_session_get_plan(session, &plan));
    ck_assert_int_eq(plan.partition_count, 0);
    ck_assert_int_eq(plan.view_count, 1);
    ck_assert_int_eq(plan.step_count, 3);
    int copies = 0;
    for (int i = 0; i < plan.step_count; i++) {
        OK(tenon_session_get_step(session, i, &step));
        ck_assert_int_eq(step.node_count, 1);
        ck_assert_str_ne(step.reason, "");
        copies += step.kind == TENON_STEP_COPY;
    }
    ck_assert_int_eq(copies, 2);
    FAILS(tenon_session_get_step(session, 3, &step), TENON_INVALID_ARGUMENT, "no step 3");
    tenon_session_destroy(&session);
}
END_TEST

/* That a result has the shape of the buffer that it is written to shows when sizes are known. */
START_TEST(writes_must_fit) {
    tenon_session *session = make_session("graph g {\n"
                                          "  input %x: float32[s0]\n"
                                          "  buffer %b: float32[2] = {1, 2}\n"
                                          "  %y = aten.relu(%x)\n"
                                          "  write %b <- %y\n"
                                          "  output \"y\" = %y\n"
                                          "}\n",
                                          TENON_BACKEND_REFERENCE);
    float data[3] = {0};
    tenon_view in = view_of(data, TENON_FLOAT32, 3, -1, -1, -1);
    FAILS(tenon_session_compile(session, &in, 1), TENON_INVALID_GRAPH, "write to 'b'");
    in.shape[0] = 2;
    OK(tenon_session_compile(session, &in, 1));
    char size[8] = "x";
    tenon_session_input_size_text(session, 1, 0, size, sizeof size); /* there is no such input */
    ck_assert_str_eq(size, "");
    tenon_session_destroy(&session);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("session");
    TCase *tests = tcase_create("session");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, options_are_checked);
    tcase_add_test(tests, fpmath_rounds_operands);
    tcase_add_test(tests, names_dtypes_and_sizes);
    tcase_add_test(tests, wrong_inputs_are_named);
    tcase_add_test(tests, strides_of_the_caller);
    tcase_add_test(tests, numbers_as_inputs_and_outputs);
    tcase_add_test(tests, outputs_that_nothing_computes);
    tcase_add_test(tests, empty_tensors);
    tcase_add_test(tests, nodes_without_use);
    tcase_add_test(tests, only_the_indices);
    tcase_add_test(tests, compiled_shapes_are_bounded);
    tcase_add_test(tests, steps_tell_where_nodes_run);
    tcase_add_test(tests, writes_must_fit);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
