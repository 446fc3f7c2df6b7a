/* Products, convolution, pooling, attention and resizing by hand: cases met in the field, and sizes
 * beyond the blocks of the kernels against plain loops in double. tests/c/test_op_cases.c compares
 * the ops themselves with PyTorch. */
#include "suite.h"
#include "text_node.h"
#include <check.h>
#include <math.h>
#include <tenon/tenon.h>

static void compare(const char *what, tn_isa isa, const tenon_view *v, int64_t n,
                    const double *want, double tolerance) {
    ck_assert_int_eq(tenon_view_numel(v), n);
    for (int64_t i = 0; i < n; i++) {
        double got = element(v, i);
        if (!(fabs(got - want[i]) <= tolerance || got == want[i] || (isnan(got) && isnan(want[i]))))
            ck_abort_msg("%s (%s): element %d is %.9g, not %.9g", what, tn_isa_text(isa), (int)i,
                         got, want[i]);
    }
}

/* Output `output` of the last node has those elements, at every level and in every layout. */
static void expect(const char *body, int output, double tolerance, int n, const double *want) {
    tenon_node *node = parse(body);
    for_each_isa(isa) {
        for (int layout = 0; layout < RUN_LAYOUT_COUNT; layout++) {
            tenon_tensor *out[4];
            tenon_status status = run_node(node, isa, 2, (run_layout)layout, out);
            ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
            compare(body, isa, tenon_tensor_view(out[output]), n, want, tolerance);
            for (int i = 0; i < node->output_count; i++)
                tenon_tensor_destroy(&out[i]);
        }
    }
}
#define EXPECT(body, output, tolerance, ...)                                                       \
    expect(body, output, tolerance, (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)), \
           (const double[]){__VA_ARGS__})

/* ---- Cases met in the field ---- */

START_TEST(max_pool_pads_with_minus_infinity) {
    EXPECT("const %x: float32[1, 1, 2, 2] = full(-1)\n"
           "%y = aten.max_pool2d(%x, [2, 2], [2, 2], [1, 1])",
           0, 0, -1, -1, -1, -1);
    EXPECT("const %x: int32[1, 1, 2, 2] = full(-5)\n"
           "%y = aten.max_pool2d(%x, [2, 2], [2, 2], [1, 1])",
           0, 0, -5, -5, -5, -5);
}
END_TEST

START_TEST(avg_pool_counts_the_overhanging_window) {
#define POOL(padding)                             \
    "const %x: float32[1, 1, 4] = {1, 2, 3, 4}\n" \
    "%y = aten.avg_pool1d(%x, [3], [2], [1], true, " padding ")"
    EXPECT(POOL("true"), 0, 1e-6, 1, 3, 2);
    EXPECT(POOL("false"), 0, 1e-6, 1.5, 3, 4);
#undef POOL
}
END_TEST

START_TEST(max_pool_keeps_nan) {
#define ONE                                            \
    "const %x: float32[1, 1, 2, 2] = {1, nan, 5, 6}\n" \
    "%y, %i = aten.max_pool2d_with_indices(%x, [2, 2])"
    EXPECT(ONE, 0, 0, NAN);
    EXPECT(ONE, 1, 0, 1);
#undef ONE
    EXPECT("const %x: float32[1, 1, 3, 3] = full(nan)\n%y = aten.max_pool2d(%x, [3, 3])", 0, 0,
           NAN);
    EXPECT("const %x: bfloat16[1, 1, 3, 3] = full(nan)\n%y = aten.max_pool2d(%x, [3, 3])", 0, 0,
           NAN);
    EXPECT("const %x: float32[1, 3] = {1, nan, 2}\n%y, %i = aten.adaptive_max_pool1d(%x, [1])", 0,
           0, NAN);
}
END_TEST

START_TEST(transposed_convolution_with_dilation) {
    tenon_node *node = parse("const %x: float32[1, 1, 50, 50] = ones\n"
                             "const %w: float32[1, 3, 3, 5] = ones\n"
                             "%y = aten.convolution(%x, %w, none, [2, 1], [4, 2], [3, 1], true, "
                             "[0, 0], 1)");
    ck_assert_int_eq(node->outputs[0]->shape[1], 3);
    ck_assert_int_eq(node->outputs[0]->shape[2], 97);
    ck_assert_int_eq(node->outputs[0]->shape[3], 50);
    EXPECT("const %x: float32[1, 1, 3, 3] = {0, 0, 0, 0, 1, 0, 0, 0, 0}\n"
           "const %w: float32[1, 1, 3, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9}\n"
           "%y = aten.convolution(%x, %w, none, [2, 2], [2, 2], [2, 2], true, [0, 0], 1)",
           0, 0, 1, 0, 2, 0, 3, 0, 0, 0, 0, 0, 4, 0, 5, 0, 6, 0, 0, 0, 0, 0, 7, 0, 8, 0, 9);
}
END_TEST

START_TEST(grouped_transposed_convolution) {
    EXPECT("const %x: float32[1, 4, 1, 1] = ones\n"
           "const %w: float32[4, 2, 1, 1] = {1, 10, 2, 20, 3, 30, 4, 40}\n"
           "%y = aten.convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], true, [0, 0], 2)",
           0, 0, 3, 30, 7, 70);
}
END_TEST

START_TEST(output_padding_lengthens_the_end) {
    EXPECT("const %x: float32[1, 1, 2, 2] = ones\n"
           "const %w: float32[1, 1, 3, 3] = ones\n"
           "%y = aten.convolution(%x, %w, none, [2, 2], [1, 1], [1, 1], true, [1, 1], 1)",
           0, 0, 1, 2, 1, 1, 2, 4, 2, 2, 1, 2, 1, 1, 1, 2, 1, 1);
}
END_TEST

START_TEST(dilated_depthwise_convolution) {
    double want[4 * 25];
    for (int i = 0; i < 100; i++) {
        bool y = i / 5 % 5 == 2, x = i % 5 == 2; /* all three taps of that axis hit */
        want[i] = 1 + (y ? 3 : 2) * (x ? 3 : 2) / 9.0;
    }
    expect("const %x: float32[1, 4, 5, 5] = ones\n"
           "const %w: float32[4, 1, 3, 3] = full(0.1111111111111111)\n"
           "const %b: float32[4] = ones\n"
           "%y = aten.convolution(%x, %w, %b, [1, 1], [2, 2], [2, 2], false, [0, 0], 4)",
           0, 1e-6, 100, want);
}
END_TEST

START_TEST(nearest_keeps_the_given_scale) {
#define X "const %x: float32[1, 1, 4] = {0, 1, 2, 3}\n"
    EXPECT(X "%y = aten.upsample_nearest1d.vec(%x, none, [1.6])", 0, 0, 0, 0, 1, 1, 2, 3);
    EXPECT(X "%y = aten.upsample_nearest1d.vec(%x, [6], none)", 0, 0, 0, 0, 1, 2, 2, 3);
    EXPECT(X "%y = aten._upsample_nearest_exact1d.vec(%x, [6], none)", 0, 0, 0, 1, 1, 2, 3, 3);
#undef X
    EXPECT("const %x: float32[1, 1, 1, 4] = {0, 1, 2, 3}\n"
           "%y = aten.upsample_nearest2d.vec(%x, none, [1.0, 1.6])",
           0, 0, 0, 0, 1, 1, 2, 3);
}
END_TEST

START_TEST(bfloat16_accumulates_in_float) {
    EXPECT("const %a: bfloat16[1, 1024] = ones\nconst %b: bfloat16[1024, 1] = ones\n"
           "%y = aten.mm(%a, %b)",
           0, 0, 1024);
    EXPECT("const %a: bfloat16[1, 1, 64, 64] = ones\n%y = aten.avg_pool2d(%a, [64, 64])", 0, 0, 1);
    EXPECT("const %a: bfloat16[1, 1, 64, 64] = ones\n"
           "%y = aten.adaptive_avg_pool2d(%a, [1, 1])",
           0, 0, 1);
    EXPECT("const %x: bfloat16[1, 600, 1, 1] = ones\nconst %w: bfloat16[1, 600, 1, 1] = ones\n"
           "%y = aten.convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)",
           0, 0, 600);
}
END_TEST

#define QKV                                                                        \
    "const %q: float32[1, 1, 2, 4] = ones\nconst %k: float32[1, 1, 3, 4] = ones\n" \
    "const %v: float32[1, 1, 3, 4] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}\n"

START_TEST(masked_rows_of_attention) {
    EXPECT(QKV "const %m: bool[2, 3] = {true, false, false, false, false, false}\n"
               "%y = aten.scaled_dot_product_attention(%q, %k, %v, %m)",
           0, 1e-6, 0, 1, 2, 3, 0, 0, 0, 0);
    EXPECT(QKV "const %m: float32[2, 3] = {0, -inf, -inf, -inf, -inf, -inf}\n"
               "%y = aten.scaled_dot_product_attention(%q, %k, %v, %m)",
           0, 1e-6, 0, 1, 2, 3, 0, 0, 0, 0);
    EXPECT(QKV "const %m: float32[2, 3] = {0, -inf, -inf, -3.4028234663852886e38, "
               "-3.4028234663852886e38, -3.4028234663852886e38}\n"
               "%y = aten.scaled_dot_product_attention(%q, %k, %v, %m)",
           0, 1e-5, 0, 1, 2, 3, 4, 5, 6, 7);
}
END_TEST

START_TEST(attention_passes_nan_on) {
    EXPECT("const %q: float32[1, 1, 1, 2] = full(nan)\nconst %k: float32[1, 1, 2, 2] = ones\n"
           "%y = aten.scaled_dot_product_attention(%q, %k, %k)",
           0, 0, NAN, NAN);
    /* A masked key that is NaN still reaches the result, as in PyTorch. */
    EXPECT(
        "const %q: float32[1, 1, 1, 2] = ones\nconst %k: float32[1, 1, 2, 2] = {1, 1, nan, nan}\n"
        "const %v: float32[1, 1, 2, 2] = ones\nconst %m: bool[1, 2] = {true, false}\n"
        "%y = aten.scaled_dot_product_attention(%q, %k, %v, %m)",
        0, 0, NAN, NAN);
}
END_TEST

/* ---- Sizes beyond the kernels' blocks, against plain loops ---- */

static double at4(const tenon_view *v, int64_t a, int64_t b, int64_t c, int64_t d) {
    int64_t i[4] = {a, b, c, d}, at = 0;
    for (int k = 0; k < 4; k++)
        at += i[k] * v->strides[k];
    return tn_load_float((char *)v->data + at * (int64_t)tenon_dtype_size(v->dtype), v->dtype);
}

static const tenon_view *constant(const tenon_node *node, int index) {
    return tenon_tensor_view(node->args[index].as.value->tensor);
}

static void check_all(const char *what, const tenon_node *node, const double *want,
                      double tolerance) {
    for_each_isa(isa) {
        for (int threads = 1; threads <= 3; threads += 2) {
            for (int layout = 0; layout < RUN_LAYOUT_COUNT; layout++) {
                tenon_tensor *out[1];
                tenon_status status = run_node(node, isa, threads, (run_layout)layout, out);
                ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
                const tenon_view *v = tenon_tensor_view(out[0]);
                compare(what, isa, v, tenon_view_numel(v), want, tolerance);
                tenon_tensor_destroy(&out[0]);
            }
        }
    }
}

static void check_product(const char *dtype, int m, int n, int k, double tolerance) {
    char body[512];
    snprintf(body, sizeof body,
             "const %%a: %s[%d, %d] = random(1)\nconst %%b: %s[%d, %d] = random(2)\n"
             "%%y = aten.mm(%%a, %%b)",
             dtype, m, k, dtype, k, n);
    tenon_node *node = parse(body);
    const tenon_view *a = constant(node, 0), *b = constant(node, 1);
    double *want = calloc((size_t)(m * n), sizeof *want);
    ck_assert_ptr_nonnull(want);
    for (int i = 0; i < m; i++) {
        for (int p = 0; p < k; p++) {
            double x = element(a, i * k + p);
            for (int j = 0; j < n; j++)
                want[i * n + j] += x * element(b, p * n + j);
        }
    }
    check_all(body, node, want, tolerance);
    free(want);
}

START_TEST(products_of_many_blocks) {
    static const int sizes[][3] = {{1, 300, 700},  {300, 1, 513}, {3, 257, 65}, {5, 70, 600},
                                   {97, 131, 259}, {13, 33, 513}, {150, 40, 31}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_product("float32", sizes[i][0], sizes[i][1], sizes[i][2], 2e-4);
        check_product("float64", sizes[i][0], sizes[i][1], sizes[i][2], 1e-11);
        check_product("int64", sizes[i][0], sizes[i][1], sizes[i][2], 0);
    }
    check_product("bfloat16", 40, 70, 300, 0.15);
}
END_TEST

typedef struct conv_case {
    int n, groups, inner, outer, size, kernel, stride, padding, dilation;
} conv_case;

static double conv_at(const conv_case *c, const tenon_view *x, const tenon_view *w, int b, int o,
                      int y, int z) {
    double sum = 0;
    for (int i = 0; i < c->inner; i++) {
        for (int ky = 0; ky < c->kernel; ky++) {
            for (int kx = 0; kx < c->kernel; kx++) {
                int iy = y * c->stride - c->padding + ky * c->dilation;
                int ix = z * c->stride - c->padding + kx * c->dilation;
                if (iy >= 0 && iy < c->size && ix >= 0 && ix < c->size)
                    sum += at4(x, b, o / c->outer * c->inner + i, iy, ix) * at4(w, o, i, ky, kx);
            }
        }
    }
    return sum;
}

static void check_convolution(const conv_case *c) {
    char body[512];
    snprintf(body, sizeof body,
             "const %%x: float32[%d, %d, %d, %d] = random(1)\n"
             "const %%w: float32[%d, %d, %d, %d] = random(2)\n"
             "const %%b: float32[%d] = random(3)\n"
             "%%y = aten.convolution(%%x, %%w, %%b, [%d], [%d], [%d], false, [0], %d)",
             c->n, c->groups * c->inner, c->size, c->size, c->groups * c->outer, c->inner,
             c->kernel, c->kernel, c->groups * c->outer, c->stride, c->padding, c->dilation,
             c->groups);
    tenon_node *node = parse(body);
    const tenon_view *x = constant(node, 0), *w = constant(node, 1), *bias = constant(node, 2);
    const int64_t *out = node->outputs[0]->shape;
    int64_t count = out[0] * out[1] * out[2] * out[3];
    double *want = malloc((size_t)count * sizeof *want);
    ck_assert_ptr_nonnull(want);
    for (int64_t i = 0; i < count; i++) {
        int64_t o = i / out[3] / out[2] % out[1];
        want[i] = element(bias, o) + conv_at(c, x, w, (int)(i / out[3] / out[2] / out[1]), (int)o,
                                             (int)(i / out[3] % out[2]), (int)(i % out[3]));
    }
    check_all(body, node, want, 2e-4);
    free(want);
}

START_TEST(convolutions_of_many_blocks) {
    static const conv_case cases[] = {
        {1, 1, 37, 29, 11, 3, 1, 1, 1}, {2, 1, 70, 33, 7, 1, 1, 0, 1},
        {1, 1, 3, 40, 23, 7, 2, 3, 1},  {1, 2, 40, 3, 9, 3, 1, 2, 2},
        {2, 70, 1, 1, 19, 3, 1, 1, 1},  {1, 70, 1, 1, 20, 5, 2, 2, 1},
        {1, 9, 4, 4, 10, 3, 1, 1, 1},   {1, 1, 5, 100, 6, 6, 1, 0, 1},
        {1, 1, 40, 5, 13, 1, 2, 0, 1},  {1, 3, 1, 2, 40, 3, 3, 0, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_convolution(&cases[i]);
}
END_TEST

typedef struct attention_case {
    int queries, keys, width, values;
    bool causal;
    const char *mask; /* its dtype and shape */
    bool rounded;     /* in bfloat16, where weights are rounded too */
} attention_case;

/* Row 1 sees nothing, row 2 only what comes late, the others four keys of five; where a mask of
 * floats hides nothing it adds. */
static void fill_mask(const tenon_view *m, int keys) {
    int64_t rows = tenon_view_numel(m) / keys;
    for (int64_t i = 0; i < rows; i++) {
        for (int j = 0; j < keys; j++) {
            bool seen = rows == 1 || (i != 1 && (i != 2 || j >= keys - 9) && (i * 7 + j) % 5);
            if (m->dtype == TENON_BOOL)
                ((uint8_t *)m->data)[i * keys + j] = seen;
            else
                ((float *)m->data)[i * keys + j] = seen ? (float)((i + j) % 3) : -INFINITY;
        }
    }
}

/* What the mask adds to a score. */
static double mask_at(const tenon_view *m, int keys, int row, int key) {
    int64_t at = tenon_view_numel(m) == keys ? key : (int64_t)row * keys + key;
    if (m->dtype == TENON_BOOL)
        return ((uint8_t *)m->data)[at] ? 0 : -INFINITY;
    return ((float *)m->data)[at];
}

static void attend(const attention_case *c, const tenon_node *node, int head, int i, double *weight,
                   double *out) {
    const tenon_view *q = constant(node, 0), *k = constant(node, 1), *v = constant(node, 2);
    double total = 0;
    for (int j = 0; j < c->keys; j++) {
        double sum = 0, mask = c->mask ? mask_at(constant(node, 3), c->keys, i, j) : 0;
        for (int e = 0; e < c->width; e++)
            sum += at4(q, 0, head, i, e) * at4(k, 0, head, j, e);
        weight[j] = c->causal && j > i ? 0 : exp(2 * sum + mask);
        total += weight[j];
    }
    for (int j = 0; j < c->keys && total > 0; j++) {
        for (int e = 0; e < c->values; e++)
            out[e] += weight[j] / total * at4(v, 0, head, j, e);
    }
}

static void check_attention(const attention_case *c) {
    char body[512], mask[64] = "";
    const char *dtype = c->rounded ? "bfloat16" : "float32";
    if (c->mask)
        snprintf(mask, sizeof mask, "const %%m: %s = zeros\n", c->mask);
    snprintf(body, sizeof body,
             "const %%q: %s[1, 2, %d, %d] = random(1)\n"
             "const %%k: %s[1, 2, %d, %d] = random(2)\n"
             "const %%v: %s[1, 2, %d, %d] = random(3)\n%s"
             "%%y = aten.scaled_dot_product_attention(%%q, %%k, %%v, %s, 0.0, %s, scale=2.0)",
             dtype, c->queries, c->width, dtype, c->keys, c->width, dtype, c->keys, c->values, mask,
             c->mask ? "%m" : "none", c->causal ? "true" : "false");
    tenon_node *node = parse(body);
    if (c->mask)
        fill_mask(constant(node, 3), c->keys);
    double *want = calloc((size_t)(2 * c->queries * c->values), sizeof *want);
    double *weight = malloc((size_t)c->keys * sizeof *weight);
    ck_assert(want && weight);
    for (int row = 0; row < 2 * c->queries; row++)
        attend(c, node, row / c->queries, row % c->queries, weight, want + row * c->values);
    check_all(body, node, want, c->rounded ? 1e-2 : 2e-5);
    free(want);
    free(weight);
}

START_TEST(attention_of_many_blocks) {
    static const attention_case cases[] = {
        {200, 600, 16, 16, false, NULL, false},
        {200, 300, 16, 16, true, NULL, false},
        {300, 200, 16, 16, true, NULL, false},
        {1, 520, 33, 33, false, NULL, false},
        {37, 45, 7, 70, false, NULL, false},
        {30, 270, 40, 33, false, "float32[30, 270]", false},
        {29, 290, 16, 16, false, "bool[29, 290]", false},
        {8, 270, 16, 5, false, "float32[1, 270]", false},
        {16, 290, 5, 16, false, "bool[290]", false},
        {5, 290, 5, 16, false, "bool[5, 290]", false},
        {200, 600, 16, 16, false, NULL, true},
        {200, 299, 16, 70, true, NULL, true},
        {31, 33, 7, 16, false, NULL, true},
        {30, 271, 40, 33, false, "float32[30, 271]", true},
        {29, 290, 16, 16, false, "bool[29, 290]", true},
        {3, 290, 16, 16, false, "bool[3, 290]", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_attention(&cases[i]);
}
END_TEST

static void put(const tenon_view *view, int64_t at, float number) {
    if (view->dtype == TENON_BFLOAT16)
        ((uint16_t *)view->data)[at] = tn_float_to_bf16(number);
    else
        ((float *)view->data)[at] = number;
}

/* Of many queries one sees no key; the last key is NaN, or the last query infinite. */
START_TEST(attention_of_many_passes_nan_on) {
    char body[512];
    const char *dtype = _i ? "bfloat16" : "float32";
    snprintf(body, sizeof body,
             "const %%q: %s[1, 1, 20, 2] = ones\nconst %%k: %s[1, 1, 301, 2] = ones\n"
             "const %%v: %s[1, 1, 301, 2] = ones\nconst %%m: float32[20, 301] = zeros\n"
             "%%y = aten.scaled_dot_product_attention(%%q, %%k, %%v, %%m)",
             dtype, dtype, dtype);
    tenon_node *node = parse(body);
    for (int j = 0; j < 301; j++)
        put(constant(node, 3), 3 * 301 + j, -INFINITY);
    for_each_isa(isa) {
        for (int i = 0; i < 3; i++) {
            double want[40];
            put(constant(node, 1), 2 * 300, i == 1 ? NAN : 1);
            put(constant(node, 0), 2 * 19, i == 2 ? INFINITY : 1);
            for (int j = 0; j < 40; j++)
                want[j] = i == 1 || (i == 2 && j / 2 == 19) ? NAN : j / 2 == 3 ? 0 : 1;
            tenon_tensor *out;
            ck_assert_int_eq(run_node(node, isa, 2, RUN_PACKED, &out), TENON_OK);
            compare(body, isa, tenon_tensor_view(out), 40, want, 1e-6);
            tenon_tensor_destroy(&out);
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("blocked_kernels");
    TCase *field = tcase_create("field"), *blocks = tcase_create("blocks");
    tcase_add_checked_fixture(field, NULL, teardown);
    tcase_add_checked_fixture(blocks, NULL, teardown);
    tcase_set_timeout(field, 60);
    tcase_set_timeout(blocks, 240);
    tcase_add_test(field, max_pool_pads_with_minus_infinity);
    tcase_add_test(field, avg_pool_counts_the_overhanging_window);
    tcase_add_test(field, max_pool_keeps_nan);
    tcase_add_test(field, transposed_convolution_with_dilation);
    tcase_add_test(field, grouped_transposed_convolution);
    tcase_add_test(field, output_padding_lengthens_the_end);
    tcase_add_test(field, dilated_depthwise_convolution);
    tcase_add_test(field, nearest_keeps_the_given_scale);
    tcase_add_test(field, bfloat16_accumulates_in_float);
    tcase_add_test(field, masked_rows_of_attention);
    tcase_add_test(field, attention_passes_nan_on);
    tcase_add_test(blocks, products_of_many_blocks);
    tcase_add_test(blocks, convolutions_of_many_blocks);
    tcase_add_test(blocks, attention_of_many_blocks);
    tcase_add_loop_test(field, attention_of_many_passes_nan_on, 0, 2);
    suite_add_tcase(suite, field);
    suite_add_tcase(suite, blocks);
    return run_suite(suite);
}
