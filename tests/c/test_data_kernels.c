/* Reductions, softmax, norms, sorting, indexing and movement by hand: cases met in the field, bad
 * indices, sizes that depend on data, threads. tests/c/test_op_cases.c compares the ops themselves
 * with PyTorch. */
#include "suite.h"
#include "text_node.h"
#include <check.h>
#include <math.h>
#include <tenon/tenon.h>

/* Output `output` of the last node has that dtype and those elements, at every level. */
static void expect(const char *body, int output, tenon_dtype dtype, int n, const double *want) {
    tenon_node *node = parse(body);
    for_each_isa(isa) {
        tenon_tensor *out[4];
        tenon_status status = run_node(node, isa, 2, RUN_PACKED, out);
        ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
        const tenon_view *v = tenon_tensor_view(out[output]);
        ck_assert_int_eq(v->dtype, dtype);
        ck_assert_int_eq(tenon_view_numel(v), n);
        for (int i = 0; i < n; i++) {
            double got = element(v, i);
            if (!(got == want[i] || (isnan(got) && isnan(want[i]))))
                ck_abort_msg("%s (%s): element %d is %.9g, not %.9g", body, tn_isa_text(isa), i,
                             got, want[i]);
        }
        for (int i = 0; i < node->output_count; i++)
            tenon_tensor_destroy(&out[i]);
    }
}
#define EXPECT(body, output, dtype, ...)                                  \
    expect(body, output, TENON_##dtype,                                   \
           (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)), \
           (const double[]){__VA_ARGS__})

/* The last node fails when it runs, with a message that holds both texts. */
static void expect_failure(const char *body, const char *first, const char *second) {
    tenon_node *node = parse(body);
    for_each_isa(isa) {
        tenon_tensor *out[4];
        ck_assert_int_eq(run_node(node, isa, 1, RUN_PACKED, out), TENON_RUN_FAILED);
        const char *message = tenon_last_error();
        ck_assert_msg(strstr(message, first) && strstr(message, second), "%s", message);
    }
}

/* The graph is refused with a message that holds the text. */
static void expect_refusal(const char *body, const char *text) {
    char whole[2048];
    tenon_graph *refused = NULL;
    snprintf(whole, sizeof whole, "graph t {\n%s\n}\n", body);
    ck_assert_int_ne(tenon_graph_parse(whole, "test", &refused), TENON_OK);
    ck_assert_ptr_null(refused);
    ck_assert_msg(strstr(tenon_last_error(), text) != NULL, "%s", tenon_last_error());
}

/* ---- Cases met in the field ---- */

START_TEST(test_narrow_floats_do_not_stick) {
    EXPECT("const %x: bfloat16[512] = ones\n %y = aten.sum(%x)", 0, BFLOAT16, 512);
    EXPECT("const %x: bfloat16[4096] = ones\n %y = aten.mean(%x)", 0, BFLOAT16, 1);
    EXPECT("const %x: bfloat16[2, 4096] = ones\n %y = aten.mean.dim(%x, [1])", 0, BFLOAT16, 1, 1);
    EXPECT("const %x: bfloat16[4096, 2] = ones\n %y = aten.mean.dim(%x, [0])", 0, BFLOAT16, 1, 1);
    EXPECT("const %x: float16[4096] = ones\n %y = aten.sum(%x)", 0, FLOAT16, 4096);
    double even[512];
    for (int i = 0; i < 512; i++)
        even[i] = 1.0 / 512;
    expect("const %x: bfloat16[512] = zeros\n %y = aten._softmax(%x, 0, false)", 0, TENON_BFLOAT16,
           512, even);
}
END_TEST

START_TEST(test_narrow_integers_widen) {
    EXPECT("const %x: uint8[3] = {200, 100, 50}\n %y = aten.cumsum(%x, 0)", 0, INT64, 200, 300,
           350);
    EXPECT("const %x: int8[3] = full(100)\n %y = aten.sum(%x)", 0, INT64, 300);
    EXPECT("const %x: int8[3] = full(100)\n %y = aten.prod(%x)", 0, INT64, 1000000);
    EXPECT("const %x: bool[3] = {1, 1, 0}\n %y = aten.cumsum(%x, 0)", 0, INT64, 1, 2, 2);
    EXPECT("const %x: bool[3] = {1, 1, 0}\n %y = aten.sum.dim_IntList(%x, [0])", 0, INT64, 2);
}
END_TEST

START_TEST(test_topk_order) {
    EXPECT("const %x: float32[6] = {1, 2, -3, 4, nan, inf}\n %v, %i = aten.topk(%x, 3)", 1, INT64,
           4, 5, 3);
    EXPECT("const %x: float32[6] = {1, 2, -3, 4, nan, inf}\n %v, %i = aten.topk(%x, 3)", 0, FLOAT32,
           NAN, INFINITY, 4);
    EXPECT("const %x: float32[5] = {1, 2, -3, 4, nan}\n %v, %i = aten.topk(%x, 2, largest=false)",
           1, INT64, 2, 0);
    EXPECT("const %x: float32[5] = {2, 3, 3, 1, 3}\n %v, %i = aten.topk(%x, 2)", 1, INT64, 1, 2);
}
END_TEST

START_TEST(test_no_dimensions) {
    EXPECT("const %x: float32[] = {3}\n %y = aten.max(%x)", 0, FLOAT32, 3);
    EXPECT("const %x: float32[] = {3}\n %y = aten.sum.dim_IntList(%x, [0])", 0, FLOAT32, 3);
    EXPECT("const %x: float32[] = {3}\n %y = aten.mean(%x)", 0, FLOAT32, 3);
    EXPECT("const %x: float32[] = {3}\n %y = aten._softmax(%x, 0, false)", 0, FLOAT32, 1);
    EXPECT("const %x: float32[] = {3}\n %v, %i = aten.max.dim(%x, -1)", 1, INT64, 0);
    EXPECT("const %x: float32[] = {3}\n %v, %i = aten.sort(%x)", 0, FLOAT32, 3);
    EXPECT("const %x: float32[] = {3}\n %y = aten.var.correction(%x, correction=0)", 0, FLOAT32, 0);
}
END_TEST

START_TEST(test_softmax_without_finite_maximum) {
    EXPECT("const %x: float32[2, 2] = {-inf, -inf, -inf, 0}\n %y = aten._softmax(%x, 1, false)", 0,
           FLOAT32, NAN, NAN, 0, 1);
}
END_TEST

/* ---- Indices ---- */

#define TABLE "const %x: float32[3] = {10, 20, 30}\n"
#define ROWS "const %x: float32[3, 2] = {10, 11, 20, 21, 30, 31}\n"

START_TEST(test_negative_indices) {
    EXPECT(TABLE "const %i: int64[1] = {-1}\n %y = aten.index.Tensor(%x, [%i])", 0, FLOAT32, 30);
    const char *const refusing[] = {
        TABLE "const %i: int64[1] = {-1}\n %y = aten.index_select(%x, 0, %i)",
        TABLE "const %i: int64[1] = {-1}\n %y = aten.gather(%x, 0, %i)",
        ROWS "const %i: int64[1] = {-1}\n %y = aten.embedding(%x, %i)",
        TABLE "const %i: int64[1] = {-1}\n %y = aten.scatter.value(%x, 0, %i, 1)",
    };
    for (int i = 0; i < TN_COUNT(refusing); i++)
        expect_failure(refusing[i], "'y'", "index -1");
    expect_failure(TABLE "const %i: int64[1] = {-4}\n %y = aten.index.Tensor(%x, [%i])", "'y'",
                   "index -4");
    expect_failure(TABLE "const %i: int32[2] = {0, 3}\n %y = aten.index.Tensor(%x, [%i])", "size 3",
                   "index 3");
}
END_TEST

/* What a failing node must leave alone: its output, here in place of its input. */
START_TEST(test_bad_index_writes_nothing) {
    const char *const bodies[] = {
        TABLE "const %i: int64[2] = {0, 1000000000}\n const %s: float32[2] = {1, 2}\n"
              " %y = aten.scatter.src(%x, 0, %i, %s)",
        TABLE "const %i: int64[2] = {0, -1}\n const %s: float32[2] = {1, 2}\n"
              " %y = aten.scatter_add(%x, 0, %i, %s)",
        TABLE "const %i: int64[2] = {0, 3}\n const %s: float32[2] = {1, 2}\n"
              " %y = aten.scatter_reduce.two(%x, 0, %i, %s, \"amax\", include_self=false)",
        TABLE "const %i: int64[2] = {0, 3}\n const %s: float32[2] = {1, 2}\n"
              " %y = aten.index_put(%x, [%i], %s)",
        TABLE "const %i: int64[2] = {0, 3}\n const %s: float32[2] = {1, 2}\n"
              " %y = aten.index_add(%x, 0, %i, %s)",
        TABLE "const %i: int64[2] = {0, 3}\n const %s: float32[2] = {1, 2}\n"
              " %y = aten.index_copy(%x, 0, %i, %s)",
        TABLE "const %i: int64[2] = {0, 3}\n %y = aten.index_fill.int_Scalar(%x, 0, %i, 1)",
        TABLE "const %m: bool[3] = {1, 1, 1}\n const %s: float32[2] = {1, 2}\n"
              " %y = aten.masked_scatter(%x, %m, %s)",
    };
    for (int i = 0; i < TN_COUNT(bodies); i++) {
        tenon_node *node = parse(bodies[i]);
        for_each_isa(isa) {
            float data[3] = {10, 20, 30};
            tenon_view in[8], out = tn_view_make(data, TENON_FLOAT32, 1, (const int64_t[]){3});
            int32_t first[16];
            int count;
            tn_scratch scratch = {0};
            run_inputs(node, in, first, &count);
            in[0] = out;
            tn_call call = {node, in, &out, first, count, 1, 1, &scratch};
            ck_assert_int_eq(tn_kernel_get(node->op->id, isa)(&call), TENON_RUN_FAILED);
            tn_scratch_free(&scratch);
            ck_assert(data[0] == 10 && data[1] == 20 && data[2] == 30);
        }
    }
}
END_TEST

/* ---- Sizes that depend on data ---- */

START_TEST(test_data_dependent_sizes_are_refused) {
    const char *const bodies[] = {
        TABLE "input %m: bool[3]\n %y = aten.index.Tensor(%x, [%m])",
        TABLE "buffer %m: bool[3] = ones\n %y = aten.index.Tensor(%x, [%m])",
        "input %x: float32[3]\n %y = aten.nonzero(%x)",
        "input %x: float32[3]\n input %m: bool[3]\n %y = aten.masked_select(%x, %m)",
        "input %x: int64[3]\n %y = aten.one_hot(%x)",
    };
    for (int i = 0; i < TN_COUNT(bodies); i++)
        expect_refusal(bodies[i], "the size of its output depends on data");
    tenon_value *x = parse("input %x: float32[3]\n %y = aten.neg(%x)")->args[0].as.value;
    tenon_arg arg = tenon_arg_value(x);
    tenon_node *node = NULL;
    ck_assert_int_eq(tenon_graph_add_node(graph, "aten.nonzero", NULL, &arg, 1, &node),
                     TENON_UNSUPPORTED);
}
END_TEST

START_TEST(test_constant_masks_are_counted) {
    EXPECT(TABLE "const %m: bool[3] = {1, 0, 1}\n %y = aten.index.Tensor(%x, [%m])", 0, FLOAT32, 10,
           30);
    EXPECT(ROWS "const %m: bool[1, 2] = {0, 1}\n %y = aten.masked_select(%x, %m)", 0, FLOAT32, 11,
           21, 31);
    EXPECT("const %x: int64[4] = {0, 5, 0, 7}\n %y = aten.nonzero(%x)", 0, INT64, 1, 3);
}
END_TEST

/* Writing by a mask needs no size: masks that only a run knows will do. */
START_TEST(test_index_put_by_mask) {
#define MASK "buffer %m: bool[3] = {1, 0, 1}\n"
    EXPECT(TABLE MASK "const %v: float32[] = {7}\n %y = aten.index_put(%x, [%m], %v)", 0, FLOAT32,
           7, 20, 7);
    EXPECT(TABLE MASK "const %v: float32[1] = {7}\n %y = aten.index_put(%x, [%m], %v, true)", 0,
           FLOAT32, 17, 20, 37);
    EXPECT(TABLE MASK "const %v: float32[2] = {7, 8}\n %y = aten.index_put(%x, [%m], %v)", 0,
           FLOAT32, 7, 20, 8);
    EXPECT(ROWS MASK "const %v: float32[2] = {1, 2}\n %y = aten.index_put(%x, [%m], %v)", 0,
           FLOAT32, 1, 2, 20, 21, 1, 2);
    EXPECT(ROWS "buffer %m: bool[2] = {0, 1}\n const %v: float32[3, 1] = {1, 2, 3}\n"
                " %y = aten.index_put(%x, [none, %m], %v)",
           0, FLOAT32, 10, 1, 20, 2, 30, 3);
    EXPECT(TABLE "buffer %m: bool[3] = zeros\n const %v: float32[] = {7}\n"
                 " %y = aten.index_put(%x, [%m], %v)",
           0, FLOAT32, 10, 20, 30);
    expect_failure(TABLE MASK
                   "const %v: float32[3] = {7, 8, 9}\n %y = aten.index_put(%x, [%m], %v)",
                   "'y'", "do not broadcast");
}
END_TEST

/* ---- Shape rules ---- */

START_TEST(test_refusals_name_the_rule) {
    expect_refusal("input %x: float32[2, 3]\n %y = aten.sum.dim_IntList(%x, [0, 0])", "twice");
    expect_refusal("input %x: float32[2, 3]\n %y = aten.mean.dim(%x, [2])", "dimension 2");
    expect_refusal("input %x: float32[2, 0]\n %y = aten.amax(%x)", "size 0");
    expect_refusal("input %x: int64[2]\n %y = aten.mean(%x)", "floating-point");
    expect_refusal("input %x: float32[2, 3, 4]\n const %w: float32[2] = ones\n %a, %b, %c = "
                   "aten._native_batch_norm_legit_no_training(%x, %w, none, %w, %w, 0.1, 1e-05)",
                   "'weight' is float32[2]");
    expect_refusal("input %x: float32[2, 4]\n %a, %b, %c = "
                   "aten._native_batch_norm_legit.no_stats(%x, none, none, false, 0.1, 1e-05)",
                   "training = true");
    expect_refusal("input %x: float32[2, 3]\n %y = aten.repeat(%x, [4611686018427387904, 8])",
                   "too large");
    expect_refusal("input %x: float32[2, 3]\n %y = aten.constant_pad_nd(%x, "
                   "[9223372036854775807, 9223372036854775807])",
                   "too large");
    expect_refusal("input %x: float32[2, 3]\n %y = aten.sum(2.5)\n", "must be a tensor");
}
END_TEST

/* More dimensions, split in two each, than a view holds. */
START_TEST(test_repeat_of_many_dimensions) {
    tenon_node *node = parse("const %x: int64[2, 2, 2, 2, 2, 2, 2] = random(1, 0, 1000)\n"
                             " %y = aten.repeat(%x, [2, 2, 2, 2, 2, 2, 2])");
    const tenon_view *in = tenon_tensor_view(node->args[0].as.value->tensor);
    for_each_isa(isa) {
        tenon_tensor *out = NULL;
        ck_assert_int_eq(run_node(node, isa, 2, RUN_REVERSED, &out), TENON_OK);
        for (int64_t i = 0; i < 1 << 14; i++) {
            int64_t from = 0; /* index k of a dimension of 4 comes from k % 2 */
            for (int d = 0; d < 7; d++)
                from |= (i >> 2 * d & 1) << d;
            if (element(tenon_tensor_view(out), i) != element(in, from))
                ck_abort_msg("element %lld", (long long)i);
        }
        tenon_tensor_destroy(&out);
    }
}
END_TEST

/* ---- Threads ---- */

/* Results do not depend on the number of threads, and every part of a large output is written. */
START_TEST(test_threads) {
    const char *const bodies[] = {
        "const %x: float32[64, 1100] = random(1)\n %y = aten._softmax(%x, 1, false)",
        "const %x: float32[40, 33, 50] = random(1)\n %y = aten._log_softmax(%x, 1, false)",
        "const %x: float32[64, 1100] = random(1)\n const %w: float32[1100] = random(2)\n"
        " %y, %m, %r = aten.native_layer_norm(%x, [1100], %w, %w, 1e-05)",
        "const %x: bfloat16[64, 1100] = random(1)\n %y = aten.rms_norm(%x, [1100])",
        "const %x: float32[2, 32, 40, 40] = random(1)\n"
        " %y, %m, %r = aten.native_group_norm(%x, none, none, 2, 32, 1600, 4, 1e-05)",
        "const %x: float32[2, 32, 40, 40] = random(1)\n const %w: float32[32] = random(2, 1, 2)\n"
        " %y, %m, %r = aten._native_batch_norm_legit_no_training(%x, %w, %w, %w, %w, 0.1, 1e-05)",
        "const %x: float32[64, 1100] = random(1)\n %y = aten.sum.dim_IntList(%x, [1])",
        "const %x: float32[64, 1100] = random(1)\n %y = aten.sum.dim_IntList(%x, [0])",
        "const %x: float32[2, 32, 40, 40] = random(1)\n %y = aten.mean.dim(%x, [2, 3])",
        "const %x: int64[64, 1100] = random(1, 0, 1000)\n %y, %i = aten.max.dim(%x, 0)",
        "const %x: float32[64, 1100] = random(1)\n %y = aten.argmax(%x, 1)",
        "const %x: float32[64, 1100] = random(1)\n %y, %i = aten.sort(%x, 0)",
        "const %x: float32[64, 1100] = random(1)\n %y, %i = aten.topk(%x, 9)",
        "const %x: float32[64, 1100] = random(1)\n %y = aten.cumsum(%x, 0)",
        "const %x: float32[64, 1100] = random(1)\n const %i: int64[40, 20] = random(2, 0, 64)\n"
        " %y = aten.embedding(%x, %i)",
        "const %x: float32[64, 1100] = random(1)\n const %i: int64[900] = random(2, 0, 1100)\n"
        " %y = aten.index.Tensor(%x, [none, %i])",
        "const %x: float32[64, 1100] = random(1)\n const %i: int64[64, 1100] = random(2, 0, 64)\n"
        " %y = aten.gather(%x, 0, %i)",
        "const %x: float32[64, 1100] = random(1)\n %y = aten.cat([%x, %x, %x], 1)",
        "const %x: float32[1, 32, 40, 40] = random(1)\n %y = aten.reflection_pad2d(%x, [3, 3, 3, "
        "3])",
        "const %x: float32[1, 32, 40, 40] = random(1)\n %y = aten.pixel_shuffle(%x, 4)",
        "const %x: float32[1, 8, 40, 40] = random(1)\n"
        " %y = aten.im2col(%x, [3, 3], [1, 1], [1, 1], [1, 1])",
    };
    for (int i = 0; i < TN_COUNT(bodies); i++) {
        tenon_node *node = parse(bodies[i]);
        tn_isa isa = tn_isa_detect();
        tenon_tensor *one[4], *many[4];
        ck_assert_int_eq(run_node(node, isa, 1, RUN_PACKED, one), TENON_OK);
        ck_assert_int_eq(run_node(node, isa, 3, RUN_PACKED, many), TENON_OK);
        for (int k = 0; k < node->output_count; k++) {
            if (one[k]) {
                const tenon_view *v = tenon_tensor_view(one[k]);
                size_t size = (size_t)tenon_view_numel(v) * tenon_dtype_size(v->dtype);
                ck_assert_msg(memcmp(v->data, tenon_tensor_view(many[k])->data, size) == 0,
                              "output %d of %s", k, bodies[i]);
            }
            tenon_tensor_destroy(&one[k]);
            tenon_tensor_destroy(&many[k]);
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("data_kernels");
    TCase *tcase = tcase_create("data_kernels");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, test_narrow_floats_do_not_stick);
    tcase_add_test(tcase, test_narrow_integers_widen);
    tcase_add_test(tcase, test_topk_order);
    tcase_add_test(tcase, test_no_dimensions);
    tcase_add_test(tcase, test_softmax_without_finite_maximum);
    tcase_add_test(tcase, test_negative_indices);
    tcase_add_test(tcase, test_bad_index_writes_nothing);
    tcase_add_test(tcase, test_data_dependent_sizes_are_refused);
    tcase_add_test(tcase, test_constant_masks_are_counted);
    tcase_add_test(tcase, test_index_put_by_mask);
    tcase_add_test(tcase, test_refusals_name_the_rule);
    tcase_add_test(tcase, test_repeat_of_many_dimensions);
    tcase_add_test(tcase, test_threads);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
