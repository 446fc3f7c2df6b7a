/* Elementwise kernels by hand: cases met in the field, strided iteration, copies, conversions.
 * tests/c/test_op_cases.c compares the ops themselves with PyTorch. */
#define TN_ISA baseline
#include "kernels/convert.h"
#include "kernels/iterate.h"
#include "run_node.h"
#include "suite.h"
#include <check.h>
#include <math.h>
#include <tenon/tenon.h>

/* ck_assert tells the runner of every pass; this one, for inner loops, only of failures. */
#define CHECK(condition)                    \
    do {                                    \
        if (!(condition))                   \
            ck_abort_msg("%s", #condition); \
    } while (0)

static tenon_graph *graph;

static void setup(void) {
    ck_assert_int_eq(tenon_graph_create("test", &graph), TENON_OK);
}

static void teardown(void) {
    tenon_graph_destroy(&graph);
}

static tenon_arg vector(tenon_dtype dtype, const void *data, int64_t n) {
    tenon_view view = tn_view_make((void *)(uintptr_t)data, dtype, 1, &n);
    return tenon_arg_value(run_constant(graph, &view));
}
#define FLOATS(...)                                     \
    vector(TENON_FLOAT32, (const float[]){__VA_ARGS__}, \
           (int64_t)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))
#define INTS(...)                                       \
    vector(TENON_INT32, (const int32_t[]){__VA_ARGS__}, \
           (int64_t)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)))

static tenon_node *make(const char *op, const tenon_arg *args, int count) {
    tenon_node *node = NULL;
    tenon_status status = tenon_graph_add_node(graph, op, NULL, args, count, &node);
    ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
    return node;
}

/* Runs at every level and compares with `want`, one number an element. */
static void expect_numbers(const char *op, const tenon_arg *args, int count, double tolerance,
                           const double *want, int64_t n) {
    tenon_node *node = make(op, args, count);
    for_each_isa(isa) {
        tenon_tensor *out = NULL;
        ck_assert_int_eq(run_node(node, isa, 2, RUN_PACKED, &out), TENON_OK);
        const tenon_view *view = tenon_tensor_view(out);
        ck_assert_int_eq(tenon_view_numel(view), n);
        size_t size = tenon_dtype_size(view->dtype);
        for (int64_t i = 0; i < n; i++) {
            double got = tn_load_float((char *)view->data + (size_t)i * size, view->dtype);
            bool same = got == want[i] || (isnan(got) && isnan(want[i])) ||
                        fabs(got - want[i]) <= tolerance;
            ck_assert_msg(same, "%s (%s) element %lld is %g, not %g", op, tn_isa_text(isa),
                          (long long)i, got, want[i]);
        }
        tenon_tensor_destroy(&out);
    }
}
#define EXPECT(op, tolerance, count, args, ...)                               \
    expect_numbers(op, args, count, tolerance, (const double[]){__VA_ARGS__}, \
                   (int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))
#define ARGS(...) ((const tenon_arg[]){__VA_ARGS__})

/* The two forms of GELU differ by 5e-4, and neither gives NaN far out. */
START_TEST(gelu_has_two_forms) {
    EXPECT("aten.gelu", 1e-6, 1, ARGS(FLOATS(-3, -2, -1, 1, 2, 1e20f, -1e20f)), -.004050, -.045500,
           -.158655, .841345, 1.954500, (double)1e20f, 0);
    EXPECT("aten.gelu", 1e-6, 2,
           ARGS(FLOATS(-3, -2, -1, 1, 2, 1e20f, -1e20f), tenon_arg_string("tanh")), -.003637,
           -.045402, -.158808, .841192, 1.954598, (double)1e20f, 0);
}
END_TEST

START_TEST(remainder_and_fmod_differ_in_sign) {
    EXPECT("aten.remainder.Tensor", 0, 2, ARGS(INTS(-7, 7, -7, 7), INTS(3, -3, -3, 3)), 2, -2, -1,
           1);
    EXPECT("aten.fmod.Tensor", 0, 2, ARGS(INTS(-7, 7, -7, 7), INTS(3, -3, -3, 3)), -1, 1, -1, 1);
    EXPECT("aten.remainder.Tensor", 0, 2, ARGS(FLOATS(-7.5f, 7.5f), FLOATS(2, -2)), .5, -.5);
    EXPECT("aten.fmod.Tensor", 0, 2, ARGS(FLOATS(-7.5f, 7.5f), FLOATS(2, -2)), -1.5, 1.5);
}
END_TEST

static void expect_zero_division(const char *op, const tenon_arg *args, int count) {
    tenon_node *node = make(op, args, count);
    for_each_isa(isa) {
        tenon_tensor *out = NULL;
        ck_assert_int_eq(run_node(node, isa, 2, RUN_PACKED, &out), TENON_RUN_FAILED);
        ck_assert_ptr_null(out);
        ck_assert_ptr_nonnull(strstr(tenon_last_error(), "division by zero"));
        ck_assert_ptr_nonnull(strstr(tenon_last_error(), tenon_node_name(node)));
    }
}

START_TEST(integer_division_by_zero_fails) {
    static const char *const ops[] = {"aten.floor_divide", "aten.remainder.Tensor",
                                      "aten.fmod.Tensor"};
    static const int8_t ones[] = {1, 2}, zeros[] = {0, 1};
    for (int i = 0; i < 3; i++) {
        expect_zero_division(ops[i], ARGS(INTS(1, 2), INTS(0, 1)), 2);
        expect_zero_division(ops[i],
                             ARGS(vector(TENON_INT8, ones, 2), vector(TENON_INT8, zeros, 2)), 2);
        expect_zero_division(ops[i], ARGS(INTS(1, 2), tenon_arg_int(0)), 2);
    }
    for (int i = 0; i < 2; i++) {
        tenon_arg mode = tenon_arg_string(i ? "floor" : "trunc");
        expect_zero_division("aten.div.Tensor_mode", ARGS(INTS(1, 2), INTS(0, 1), mode), 3);
    }
    EXPECT("aten.div.Tensor", 0, 2, ARGS(INTS(1, 2), INTS(0, 1)), INFINITY, 2);
}
END_TEST

START_TEST(smallest_integer_by_minus_one_wraps) {
    static const int64_t least[] = {INT64_MIN}, minus[] = {-1};
    static const int8_t small[] = {-128}, less[] = {-1};
    tenon_arg trunc_mode = tenon_arg_string("trunc"), floor_mode = tenon_arg_string("floor");
    const tenon_arg pairs[][2] = {
        {INTS(INT32_MIN), INTS(-1)},
        {vector(TENON_INT64, least, 1), vector(TENON_INT64, minus, 1)},
        {vector(TENON_INT8, small, 1), vector(TENON_INT8, less, 1)},
    };
    const double results[] = {INT32_MIN, (double)INT64_MIN, -128};
    for (int i = 0; i < 3; i++) {
        const tenon_arg *p = pairs[i];
        EXPECT("aten.floor_divide", 0, 2, p, results[i]);
        EXPECT("aten.div.Tensor_mode", 0, 3, ARGS(p[0], p[1], trunc_mode), results[i]);
        EXPECT("aten.div.Tensor_mode", 0, 3, ARGS(p[0], p[1], floor_mode), results[i]);
        EXPECT("aten.remainder.Tensor", 0, 2, p, 0);
        EXPECT("aten.fmod.Tensor", 0, 2, p, 0);
    }
}
END_TEST

START_TEST(clamp_upper_bound_wins) {
    EXPECT("aten.clamp", 0, 3, ARGS(FLOATS(0, 5, 10), tenon_arg_int(6), tenon_arg_int(3)), 3, 3, 3);
    EXPECT("aten.clamp", 0, 3, ARGS(INTS(0, 5, 10), tenon_arg_int(6), tenon_arg_int(3)), 3, 3, 3);
    EXPECT("aten.clamp.Tensor", 0, 3, ARGS(FLOATS(0, 5, 10), FLOATS(6), FLOATS(3)), 3, 3, 3);
    EXPECT("aten.hardtanh", 0, 3, ARGS(FLOATS(0, 5, 10), tenon_arg_int(6), tenon_arg_int(3)), 3, 3,
           3);
    EXPECT("aten.clamp", 0, 2, ARGS(FLOATS(0, 5, 10), tenon_arg_float(NAN)), NAN, NAN, NAN);
    EXPECT("aten.clamp.Tensor", 0, 2, ARGS(FLOATS(0, 5), FLOATS(NAN)), NAN, NAN);
}
END_TEST

/* ---- Iteration ---- */

static uint64_t seed = 88172645463325252u;
static int64_t below(int64_t n) { /* xorshift (Marsaglia) */
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int64_t)(seed % (uint64_t)n);
}

/* Random sizes, of about `most` elements at most, in a layout of permuted dimensions with gaps. */
static tenon_view random_view(tenon_dtype dtype, int rank, int64_t most) {
    tenon_view view = {NULL, dtype, rank, {0}, {0}};
    int order[TENON_MAX_RANK] = {0};
    int64_t numel = 1, stride = 1;
    for (int d = 0; d < rank; d++) {
        int64_t limit = most / numel < 40 ? most / numel : 40;
        view.shape[d] = limit > 1 ? 1 + below(limit) : 1;
        numel *= view.shape[d];
        int at = (int)below(d + 1);
        order[d] = order[at];
        order[at] = d;
    }
    for (int i = 0; i < rank; i++) {
        view.strides[order[i]] = stride;
        stride *= view.shape[order[i]] + below(2);
    }
    view.data = calloc((size_t)stride, tenon_dtype_size(dtype));
    return view;
}

static char *element(const tenon_view *view, int64_t index) {
    int64_t at = 0;
    for (int d = view->rank - 1; d >= 0; d--) {
        at += index % view->shape[d] * view->strides[d];
        index /= view->shape[d];
    }
    return (char *)view->data + at * (int64_t)tenon_dtype_size(view->dtype);
}

static void count_visit(char *const *data, const int64_t *inner, const int64_t *outer, int64_t n,
                        int64_t rows, void *user) {
    (void)user;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = 0; i < n; i++) {
            int32_t *to = (int32_t *)(data[0] + row * outer[0] + i * inner[0]);
            *to += *(const int32_t *)(data[1] + row * outer[1] + i * inner[1]);
        }
    }
}

/* Each element meets its own partner, once, however the dimensions lie and the range is split. */
START_TEST(iteration_visits_each_element_once) {
    for (int round = 0; round < 300; round++) {
        int rank = (int)below(6);
        tenon_view out = random_view(TENON_INT32, rank, round % 10 ? 500 : 90000), in = out;
        int drop = rank ? (int)below(rank) : 0; /* the partner lacks leading dimensions */
        in.rank = rank - drop;
        for (int d = 0; d < in.rank; d++) {
            in.shape[d] = out.shape[d + drop];
            if (below(3) == 0)
                in.shape[d] = 1;
        }
        tn_contiguous_strides(in.rank, in.shape, in.strides);
        in.data = calloc((size_t)tenon_view_numel(&in), sizeof(int32_t));
        for (int64_t i = 0; i < tenon_view_numel(&in); i++)
            ((int32_t *)in.data)[i] = (int32_t)i + 1;
        tn_iter it;
        tn_iter_begin(&it, out.rank, out.shape);
        tn_iter_add(&it, &out);
        tn_iter_add(&it, &in);
        tn_iter_order(&it);
        tn_iter_run(&it, 1 + round % 4, 1, count_visit, NULL);
        tenon_view spread = in;
        spread.rank = out.rank;
        for (int d = 0; d < out.rank; d++) {
            bool broadcast = d < drop || in.shape[d - drop] == 1;
            spread.shape[d] = out.shape[d];
            spread.strides[d] = broadcast ? 0 : in.strides[d - drop];
        }
        for (int64_t i = 0; i < tenon_view_numel(&out); i++)
            CHECK(*(int32_t *)element(&out, i) == *(int32_t *)element(&spread, i));
        free(in.data);
        free(out.data);
    }
}
END_TEST

/* Copies between any two layouts, of every element size, and with conversion. */
START_TEST(copies_between_any_layouts) {
    static const tenon_dtype dtypes[] = {TENON_UINT8, TENON_INT16, TENON_INT32, TENON_FLOAT64};
    for (int round = 0; round < 300; round++) {
        tenon_dtype dtype = dtypes[round % 4];
        tenon_view in = random_view(dtype, (int)below(5), round % 10 ? 2000 : 90000);
        int64_t numel = tenon_view_numel(&in);
        for (int64_t i = 0; i < numel; i++)
            tn_store_int(element(&in, i), dtype, below(100));
        tenon_arg args[2] = {tenon_arg_value(run_constant(graph, &in)),
                             tenon_arg_dtype(round % 3 ? dtype : TENON_FLOAT32)};
        tenon_node *node = make("aten._to_copy", args, 2);
        for_each_isa(isa) {
            for (int layout = 0; layout < RUN_LAYOUT_COUNT; layout++) {
                tenon_tensor *out = NULL;
                ck_assert_int_eq(run_node(node, isa, 2, (run_layout)layout, &out), TENON_OK);
                const tenon_view *view = tenon_tensor_view(out);
                for (int64_t i = 0; i < numel; i++)
                    CHECK(tn_load_int(element(view, i), view->dtype) ==
                          tn_load_int(element(&in, i), dtype));
                tenon_tensor_destroy(&out);
            }
        }
        free(in.data);
    }
}
END_TEST

/* Pictures of three colours, each in a plane, to pixels of a narrower dtype. */
START_TEST(colours_become_pixels) {
    static const tenon_dtype dtypes[] = {TENON_BFLOAT16, TENON_FLOAT16, TENON_INT16};
    static const int64_t widths[] = {1, 2, 31, 64, 65, 200};
    for (int s = 0; s < TN_COUNT(widths) * TN_COUNT(dtypes); s++) {
        tenon_dtype dtype = dtypes[s % TN_COUNT(dtypes)];
        const int64_t shape[] = {2, 3, 5, widths[s / TN_COUNT(dtypes)]};
        tenon_view in = tn_view_make(NULL, TENON_FLOAT32, 4, shape);
        int64_t numel = tenon_view_numel(&in);
        in.data = malloc((size_t)numel * sizeof(float));
        for (int64_t i = 0; i < numel; i++)
            ((float *)in.data)[i] = (float)below(200000) / 13 - 7000;
        tenon_arg args[2] = {tenon_arg_value(run_constant(graph, &in)), tenon_arg_dtype(dtype)};
        tenon_node *node = make("aten._to_copy", args, 2);
        for_each_isa(isa) {
            tenon_tensor *out = NULL;
            ck_assert_int_eq(run_node(node, isa, 2, RUN_CHANNELS_LAST, &out), TENON_OK);
            const tenon_view *view = tenon_tensor_view(out);
            CHECK(view->strides[1] == 1);
            for (int64_t i = 0; i < numel; i++) {
                float x = ((float *)in.data)[i];
                int16_t want = dtype == TENON_INT16     ? (int16_t)x
                               : dtype == TENON_FLOAT16 ? (int16_t)tn_float_to_half(x)
                                                        : (int16_t)tn_float_to_bf16(x);
                CHECK(*(const int16_t *)(const void *)element(view, i) == want);
            }
            tenon_tensor_destroy(&out);
        }
        free(in.data);
    }
}
END_TEST

/* Short rows that follow each other, with an operand that all of them share. */
START_TEST(shared_rows_are_repeated) {
    static const int64_t widths[] = {1, 2, 17, 96, 255, 256, 257, 600};
    static const tenon_dtype dtypes[] = {TENON_FLOAT32, TENON_BFLOAT16, TENON_INT32};
    for (int s = 0; s < TN_COUNT(widths) * TN_COUNT(dtypes); s++) {
        tenon_dtype dtype = dtypes[s % TN_COUNT(dtypes)];
        int64_t n = widths[s / TN_COUNT(dtypes)], rows = 61, wide[] = {3, rows, n};
        tenon_view x = tn_view_make(NULL, dtype, 3, wide);
        tenon_view y = tn_view_make(NULL, TENON_INT32, 3, (const int64_t[]){3, 1, n});
        int64_t numel = tenon_view_numel(&x);
        x.data = malloc((size_t)numel * tenon_dtype_size(dtype));
        y.data = malloc((size_t)(3 * n) * sizeof(int32_t));
        for (int64_t i = 0; i < numel; i++)
            tn_store_int(element(&x, i), dtype, i % 101);
        for (int64_t i = 0; i < 3 * n; i++)
            ((int32_t *)y.data)[i] = (int32_t)(i % 7);
        tenon_arg args[2] = {tenon_arg_value(run_constant(graph, &x)),
                             tenon_arg_value(run_constant(graph, &y))};
        tenon_node *node = make("aten.add.Tensor", args, 2);
        for_each_isa(isa) {
            tenon_tensor *out = NULL;
            ck_assert_int_eq(run_node(node, isa, 2, RUN_PACKED, &out), TENON_OK);
            const tenon_view *got = tenon_tensor_view(out);
            for (int64_t i = 0; i < numel; i++)
                CHECK(tn_load_int(element(got, i), got->dtype) ==
                      i % 101 + (i / n / rows * n + i % n) % 7);
            tenon_tensor_destroy(&out);
        }
        free(x.data);
        free(y.data);
    }
}
END_TEST

/* More elements than one thread takes, rows shorter and longer than a chunk, operands of other
 * dtypes. */
START_TEST(large_broadcasts_are_exact) {
    static const int64_t shapes[][3] = {{3, 700, 50}, {2, 3, 20000}, {50, 1000, 3}};
    for (int s = 0; s < 3; s++) {
        tenon_view x = tn_view_make(NULL, TENON_FLOAT32, 3, shapes[s]);
        tenon_view y = tn_view_make(NULL, TENON_INT16, 2, (const int64_t[]){shapes[s][1], 1});
        int64_t numel = tenon_view_numel(&x);
        x.data = malloc((size_t)numel * sizeof(float));
        y.data = malloc((size_t)shapes[s][1] * sizeof(int16_t));
        for (int64_t i = 0; i < numel; i++)
            ((float *)x.data)[i] = (float)(i % 1009);
        for (int64_t i = 0; i < shapes[s][1]; i++)
            ((int16_t *)y.data)[i] = (int16_t)(i * 3);
        tenon_arg args[2] = {tenon_arg_value(run_constant(graph, &x)),
                             tenon_arg_value(run_constant(graph, &y))};
        tenon_node *node = make("aten.add.Tensor", args, 2);
        for_each_isa(isa) {
            tenon_tensor *out = NULL;
            ck_assert_int_eq(run_node(node, isa, 3, RUN_PACKED, &out), TENON_OK);
            const float *got = tenon_tensor_view(out)->data;
            for (int64_t i = 0; i < numel; i++)
                CHECK(got[i] == (float)(i % 1009 + i / shapes[s][2] % shapes[s][1] * 3));
            tenon_tensor_destroy(&out);
        }
        free(x.data);
        free(y.data);
    }
}
END_TEST

/* ---- Conversions ---- */

START_TEST(half_conversions_agree) {
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float exact = tn_half_to_float((uint16_t)bits), fast = tn_half_float((uint16_t)bits);
        CHECK(memcmp(&exact, &fast, 4) == 0 || (isnan(exact) && isnan(fast)));
        CHECK(isnan(fast) || tn_float_half(fast) == bits);
    }
    for (uint64_t u = 0; u < 1ull << 32; u += 997) {
        union {
            uint32_t u;
            float f;
        } c = {(uint32_t)u};
        bool nan = isnan(c.f);
        uint16_t half = tn_float_half(c.f), bfloat = tn_float_bfloat(c.f);
        CHECK(nan ? (half & 0x7fff) > 0x7c00 : half == tn_float_to_half(c.f));
        CHECK(nan ? (bfloat & 0x7fff) > 0x7f80 : bfloat == tn_float_to_bf16(c.f));
    }
}
END_TEST

START_TEST(floats_become_integers_safely) {
    ck_assert_int_eq(tn_float_int(-2.9f), -2);
    ck_assert_int_eq(tn_float_int(NAN), INT64_MIN);
    ck_assert_int_eq(tn_float_int(1e30f), INT64_MIN);
    ck_assert_int_eq(tn_float_int(-0x1p63f), INT64_MIN);
    ck_assert_int_eq(tn_double_int(0x1.fffffffffffffp62), INT64_MAX - 1023);
    ck_assert_int_eq(tn_double_int32(2147483647.9), INT32_MAX);
    ck_assert_int_eq(tn_double_int32(-2147483648.9), INT32_MIN);
    ck_assert_int_eq(tn_double_int32(2147483648.0), INT32_MIN);
    ck_assert_int_eq(tn_float_int32(INFINITY), INT32_MIN);
}
END_TEST

/* Which memory a kernel may write is known by op and input. */
START_TEST(in_place_rule) {
    ck_assert(tn_kernel_inplace(TN_OP_relu, 0));
    ck_assert(tn_kernel_inplace(TN_OP_add_Tensor, 1));
    ck_assert(tn_kernel_inplace(TN_OP_where_self, 2));
    ck_assert(!tn_kernel_inplace(TN_OP_arange, 0));
    ck_assert(!tn_kernel_inplace(-1, 0));
    ck_assert(!tn_kernel_inplace(TN_OP_COUNT, 0));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("elementwise");
    TCase *tcase = tcase_create("elementwise");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, gelu_has_two_forms);
    tcase_add_test(tcase, remainder_and_fmod_differ_in_sign);
    tcase_add_test(tcase, integer_division_by_zero_fails);
    tcase_add_test(tcase, smallest_integer_by_minus_one_wraps);
    tcase_add_test(tcase, clamp_upper_bound_wins);
    tcase_add_test(tcase, iteration_visits_each_element_once);
    tcase_add_test(tcase, copies_between_any_layouts);
    tcase_add_test(tcase, colours_become_pixels);
    tcase_add_test(tcase, shared_rows_are_repeated);
    tcase_add_test(tcase, large_broadcasts_are_exact);
    tcase_add_test(tcase, half_conversions_agree);
    tcase_add_test(tcase, floats_become_integers_safely);
    tcase_add_test(tcase, in_place_rule);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
