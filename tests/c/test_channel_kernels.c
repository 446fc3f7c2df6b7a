/* Depthwise convolutions with what is around them, squeeze-and-excitation, and convolutions whose
 * weights come in panels, and images of parts, against plain loops in double. */
#include "core/packed.h"
#include "suite.h"
#include "text_node.h"
#include <check.h>
#include <math.h>
#include <tenon/tenon.h>

typedef struct operands {
    const tenon_view *v[8]; /* constants of the graph, in order */
    int count;
} operands;

/* Random numbers for all constants, small ones. Padding of panels stays 0. */
static operands fill(uint64_t seed, int64_t channels, int64_t middle, bool channels_last) {
    operands o = {.count = tenon_graph_constant_count(graph)};
    ck_assert_int_le(o.count, 8);
    for (int i = 0; i < o.count; i++) {
        tenon_tensor *tensor = tenon_graph_constant(graph, i)->tensor;
        tenon_view *v = &tensor->view;
        int64_t n = tenon_view_numel(v);
        for (int64_t k = 0; k < n; k++) {
            int64_t columns = v->rank != 3 ? TN_PANEL : i == 1 && middle ? middle : channels;
            int64_t column =
                v->rank != 3 ? 0 : k / v->shape[2] / v->shape[1] * TN_PANEL + k % TN_PANEL;
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            tn_store_float((char *)v->data + k * (int64_t)tenon_dtype_size(v->dtype), v->dtype,
                           column < columns ? (double)(seed >> 40) / (1 << 23) - 1 : 0);
        }
        if (v->rank == 4 && channels_last)
            tn_channels_last_strides(4, v->shape, v->strides);
        o.v[i] = v;
    }
    return o;
}

static double activated(const char *name, double x) {
    if (strcmp(name, "relu") == 0)
        return x < 0 ? 0 : x;
    if (strcmp(name, "clamp") == 0) /* to [-0.5, 0.75] */
        return x < -0.5 ? -0.5 : x > 0.75 ? 0.75 : x;
    if (strcmp(name, "silu") == 0)
        return x / (1 + exp(-x));
    if (strcmp(name, "hardswish") == 0)
        return x * fmin(fmax(x + 3, 0), 6) / 6;
    if (strcmp(name, "sigmoid") == 0)
        return 1 / (1 + exp(-x));
    if (strcmp(name, "gelu") == 0)
        return x * 0.5 * (1 + erf(x * sqrt(0.5)));
    return x;
}

/* Element [row, column] of a weight in panels. */
static double in_panels(const tenon_view *w, int64_t row, int64_t column) {
    return element(w, (column / TN_PANEL * w->shape[1] + row) * TN_PANEL + column % TN_PANEL);
}

static double pixel(const tenon_view *v, int64_t b, int64_t c, int64_t y, int64_t x) {
    int64_t at = b * v->strides[0] + c * v->strides[1] + y * v->strides[2] + x * v->strides[3];
    return tn_load_float((char *)v->data + at * (int64_t)tenon_dtype_size(v->dtype), v->dtype);
}

static void close_to(const char *body, tn_isa isa, int output, int64_t at, double got, double want,
                     double tolerance) {
    if (!(fabs(got - want) <= tolerance * (1 + fabs(want))))
        ck_abort_msg("%s\n(%s): output %d, element %d is %.9g, not %.9g", body, tn_isa_text(isa),
                     output, (int)at, got, want);
}

/* At every level, in every layout, with one thread and with three. */
static void check_node(const char *body, tenon_node *node, double *const *want) {
    for_each_isa(isa) {
        for (int run = 0; run < 2 * RUN_LAYOUT_COUNT; run++) {
            tenon_tensor *out[2];
            tenon_status status = run_node(node, isa, run % 2 ? 3 : 1, (run_layout)(run / 2), out);
            ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
            for (int i = 0; i < node->output_count; i++) {
                const tenon_view *v = tenon_tensor_view(out[i]);
                for (int64_t k = 0; k < tenon_view_numel(v); k++)
                    close_to(body, isa, i, k, element(v, k), want[i][k],
                             v->dtype == TENON_BFLOAT16 ? 5e-3 : 1e-4);
                tenon_tensor_destroy(&out[i]);
            }
        }
    }
}

/* ---- Depthwise ---- */

typedef struct depthwise_case {
    int batch, in, channels, height, width; /* in: 0 without an expansion */
    int kernel[2], stride[2], padding[4];
    const char *before, *after;
    bool channels_last, bias, narrow;
} depthwise_case;

/* The image between the two convolutions, [b, c, h, w]; the caller frees it. */
static double *expanded(const depthwise_case *c, const operands *o) {
    double *e = malloc(sizeof *e * (size_t)(c->batch * c->channels * c->height * c->width));
    ck_assert_ptr_nonnull(e);
    int64_t at = 0;
    for (int b = 0; b < c->batch; b++)
        for (int k = 0; k < c->channels; k++)
            for (int y = 0; y < c->height; y++)
                for (int x = 0; x < c->width; x++, at++) {
                    double sum = c->in ? element(o->v[2], k) : pixel(o->v[0], b, k, y, x);
                    for (int i = 0; i < c->in; i++)
                        sum += pixel(o->v[0], b, i, y, x) * in_panels(o->v[1], i, k);
                    e[at] = activated(c->before, sum);
                }
    return e;
}

static double window(const depthwise_case *c, const double *plane, const tenon_view *w, int64_t k,
                     int64_t y, int64_t x) {
    double sum = 0;
    for (int i = 0; i < c->kernel[0]; i++) {
        for (int j = 0; j < c->kernel[1]; j++) {
            int64_t row = y * c->stride[0] - c->padding[0] + i;
            int64_t column = x * c->stride[1] - c->padding[1] + j;
            if (row >= 0 && row < c->height && column >= 0 && column < c->width)
                sum += plane[row * c->width + column] * in_panels(w, i * c->kernel[1] + j, k);
        }
    }
    return sum;
}

static void depthwise(const depthwise_case *c) {
    char body[2048], expand[512] = "", bias[128] = "";
    int panels = (c->channels + TN_PANEL - 1) / TN_PANEL;
    if (c->in)
        snprintf(expand, sizeof expand,
                 "const %%e: float32[%d, %d, 32] = zeros\nconst %%f: float32[%d] = zeros\n", panels,
                 c->in, c->channels);
    if (c->bias)
        snprintf(bias, sizeof bias, "const %%b: float32[%d] = zeros\n", c->channels);
    snprintf(body, sizeof body,
             "const %%x: %s[%d, %d, %d, %d] = zeros\n%s"
             "const %%w: float32[%d, %d, 32] = zeros\n%s"
             "%%y, %%m = tenon.depthwise_convolution(%%x, %s, %s, \"%s\", -0.5, 0.75, %%w, %s, %d, "
             "[%d, %d], [%d, %d], [%d, %d, %d, %d], \"%s\", -0.5, 0.75)",
             c->narrow ? "bfloat16" : "float32", c->batch, c->in ? c->in : c->channels, c->height,
             c->width, expand, panels, c->kernel[0] * c->kernel[1], bias, c->in ? "%e" : "none",
             c->in ? "%f" : "none", c->before, c->bias ? "%b" : "none", c->channels, c->kernel[0],
             c->kernel[1], c->stride[0], c->stride[1], c->padding[0], c->padding[1], c->padding[2],
             c->padding[3], c->after);
    tenon_node *node = parse(body);
    operands o = fill(7, c->channels, 0, c->channels_last);
    const tenon_view *w = o.v[c->in ? 3 : 1];
    const int64_t *shape = node->outputs[0]->shape;
    int64_t pixels = shape[2] * shape[3], planes = (int64_t)c->batch * c->channels;
    double *e = expanded(c, &o), *y = malloc(sizeof *y * (size_t)(planes * pixels));
    double *mean = calloc((size_t)planes, sizeof *mean);
    ck_assert(y && mean);
    for (int64_t i = 0; i < planes; i++) {
        for (int64_t p = 0; p < pixels; p++) {
            double sum = window(c, e + i * c->height * c->width, w, i % c->channels, p / shape[3],
                                p % shape[3]);
            sum += c->bias ? element(o.v[o.count - 1], i % c->channels) : 0;
            y[i * pixels + p] = activated(c->after, sum);
            mean[i] += y[i * pixels + p] / (double)pixels;
        }
    }
    check_node(body, node, (double *const[]){y, mean});
    free(e);
    free(y);
    free(mean);
}

START_TEST(depthwise_convolutions) {
    static const depthwise_case cases[] = {
        {1, 0, 32, 9, 9, {3, 3}, {1, 1}, {1, 1, 1, 1}, "none", "none", true, true},
        {2, 0, 48, 14, 14, {3, 3}, {2, 2}, {1, 1, 1, 1}, "none", "silu", true, false},
        {1, 0, 35, 7, 23, {5, 5}, {1, 1}, {2, 2, 2, 2}, "none", "hardswish", true, true},
        {1, 0, 17, 8, 70, {3, 3}, {1, 1}, {1, 1, 1, 1}, "none", "gelu", false, true},
        {1, 0, 64, 15, 17, {5, 5}, {2, 2}, {1, 2, 2, 1}, "none", "clamp", true, true},
        {1, 0, 32, 5, 4, {7, 2}, {3, 2}, {4, 0, 3, 3}, "none", "relu", true, true},
        {2, 5, 40, 6, 7, {3, 3}, {1, 1}, {1, 1, 1, 1}, "silu", "silu", true, true},
        {1, 16, 96, 12, 130, {3, 3}, {2, 2}, {1, 1, 1, 1}, "relu", "none", true, true},
        {1, 24, 33, 14, 14, {5, 5}, {1, 1}, {2, 2, 2, 2}, "hardswish", "hardswish", false, true},
        {3, 3, 70, 3, 3, {3, 3}, {2, 2}, {0, 0, 1, 1}, "sigmoid", "clamp", true, false},
        {1, 7, 64, 9, 1, {1, 1}, {2, 1}, {0, 0, 0, 0}, "clamp", "gelu", true, true},
        {1, 0, 32, 9, 9, {3, 3}, {1, 1}, {1, 1, 1, 1}, "silu", "none", true, true},
        {1, 0, 33, 9, 9, {3, 3}, {1, 1}, {1, 1, 1, 1}, "relu", "relu", true, true},
        {2, 0, 48, 14, 14, {3, 3}, {2, 2}, {1, 1, 1, 1}, "none", "silu", true, false, true},
        {1, 0, 35, 7, 23, {5, 5}, {1, 1}, {2, 2, 2, 2}, "silu", "hardswish", true, true, true},
        {1, 0, 64, 15, 70, {5, 5}, {2, 2}, {1, 2, 2, 1}, "silu", "silu", true, true, true},
        {1, 0, 17, 8, 7, {3, 3}, {1, 1}, {1, 1, 1, 1}, "clamp", "gelu", false, true, true},
    };
    depthwise(&cases[_i]);
}
END_TEST

START_TEST(depthwise_convolutions_keep_nan) {
    tenon_node *node = parse("const %x: float32[1, 16, 1, 8] = full(nan)\n"
                             "const %w: float32[1, 1, 32] = ones\n"
                             "%y, %m = tenon.depthwise_convolution(%x, none, none, \"none\", 0, 0, "
                             "%w, none, 16, [1, 1], [1, 1], [0, 0, 0, 0], \"silu\", 0, 0)");
    static const char *const activations[] = {"none", "relu", "clamp", "silu", "hardswish"};
    tenon_arg arg = tenon_arg_string(activations[_i]);
    ck_assert_int_eq(tn_node_set_arg(node, 12, &arg), TENON_OK);
    for_each_isa(isa) {
        tenon_tensor *out[2];
        ck_assert_int_eq(run_node(node, isa, 1, RUN_CHANNELS_LAST, out), TENON_OK);
        for (int i = 0; i < 2; i++) {
            ck_assert_double_nan(element(tenon_tensor_view(out[i]), 0));
            tenon_tensor_destroy(&out[i]);
        }
    }
}
END_TEST

/* ---- Squeeze and excitation ---- */

START_TEST(squeeze_excitations) {
    static const struct {
        int batch, in, middle, out;
        const char *before, *after, *dtype;
    } cases[] = {{1, 32, 8, 32, "silu", "sigmoid", "float32"},
                 {2, 37, 9, 70, "relu", "none", "float32"},
                 {3, 300, 150, 130, "gelu", "clamp", "float32"},
                 {2, 40, 9, 70, "silu", "sigmoid", "bfloat16"}};
    int in = cases[_i].in, middle = cases[_i].middle, out = cases[_i].out;
    char body[1024];
    snprintf(body, sizeof body,
             "const %%m: %s[%d, %d, 1, 1] = zeros\nconst %%v: float32[%d, %d, 32] = zeros\n"
             "const %%b: float32[%d] = zeros\nconst %%w: float32[%d, %d, 32] = zeros\n"
             "%%y = tenon.squeeze_excitation(%%m, %%v, %%b, %d, \"%s\", 0, 0, %%w, none, %d, "
             "\"%s\", -0.5, 0.75)",
             cases[_i].dtype, cases[_i].batch, in, (middle + 31) / 32, in, middle, (out + 31) / 32,
             middle, middle, cases[_i].before, out, cases[_i].after);
    tenon_node *node = parse(body);
    operands o = fill(3, out, middle, false);
    double *y = malloc(sizeof *y * (size_t)(cases[_i].batch * out));
    ck_assert_ptr_nonnull(y);
    for (int b = 0; b < cases[_i].batch; b++) {
        double hidden[256];
        for (int h = 0; h < middle; h++) {
            hidden[h] = element(o.v[2], h);
            for (int i = 0; i < in; i++)
                hidden[h] += element(o.v[0], b * in + i) * in_panels(o.v[1], i, h);
            hidden[h] = activated(cases[_i].before, hidden[h]);
        }
        for (int k = 0; k < out; k++) {
            double sum = 0;
            for (int h = 0; h < middle; h++)
                sum += hidden[h] * in_panels(o.v[3], h, k);
            y[b * out + k] = activated(cases[_i].after, sum);
        }
    }
    check_node(body, node, (double *const[]){y});
    free(y);
}
END_TEST

typedef struct packed_case {
    int batch, in, out, height, width, kernel[2], stride[2], padding[4];
    const char *after;
    bool scale, bias, residual, channels_last;
} packed_case;

static double packed_sum(const packed_case *c, const operands *o, int b, int k, int y, int x) {
    double sum = 0;
    for (int i = 0; i < c->kernel[0]; i++)
        for (int j = 0; j < c->kernel[1]; j++) {
            int row = y * c->stride[0] + i - c->padding[0];
            int column = x * c->stride[1] + j - c->padding[1];
            if (row < 0 || row >= c->height || column < 0 || column >= c->width)
                continue;
            for (int n = 0; n < c->in; n++)
                sum += pixel(o->v[0], b, n, row, column) *
                       in_panels(o->v[1], (i * c->kernel[1] + j) * c->in + n, k) *
                       (c->scale ? element(o->v[2], b * c->in + n) : 1);
        }
    return sum;
}

START_TEST(packed_convolutions) {
    static const packed_case cases[] = {
        {1, 32, 16, 14, 14, {1, 1}, {1, 1}, {0}, "none", true, true, false, true},
        {2, 19, 41, 7, 5, {1, 1}, {1, 1}, {0}, "relu", true, true, true, true},
        {1, 70, 64, 31, 9, {1, 1}, {1, 1}, {0}, "silu", true, false, true, true},
        {2, 1200, 33, 5, 9, {1, 1}, {1, 1}, {0}, "gelu", true, true, true, false},
        {1, 8, 100, 1, 1, {1, 1}, {1, 1}, {0}, "clamp", true, true, false, true},
        {2, 512, 24, 6, 5, {1, 1}, {1, 1}, {0}, "none", false, true, true, true},
        {2, 300, 70, 6, 7, {1, 1}, {1, 1}, {0}, "hardswish", false, false, false, true},
        {1, 20, 40, 9, 8, {1, 1}, {2, 2}, {0}, "relu", false, true, false, true},
        {2, 37, 50, 9, 11, {3, 3}, {2, 2}, {1, 1, 1, 1}, "relu", false, true, true, true},
        {1, 16, 33, 8, 7, {5, 3}, {1, 2}, {2, 0, 1, 3}, "gelu", true, true, false, true},
        {3, 3, 18, 13, 12, {7, 7}, {2, 2}, {3, 3, 3, 3}, "clamp", false, false, false, false},
        {1, 4, 5, 4, 4, {4, 4}, {1, 1}, {3, 3, 3, 3}, "none", false, true, true, true},
        {1, 130, 96, 10, 10, {3, 3}, {1, 1}, {1, 1, 1, 1}, "silu", false, true, true, true}};
    const packed_case *c = &cases[_i];
    char body[1024], scale[128] = "", bias[64] = "", residual[128] = "";
    int height = (c->height + c->padding[0] + c->padding[2] - c->kernel[0]) / c->stride[0] + 1;
    int width = (c->width + c->padding[1] + c->padding[3] - c->kernel[1]) / c->stride[1] + 1;
    if (c->scale)
        snprintf(scale, sizeof scale, "const %%s: float32[%d, %d, 1, 1] = zeros\n", c->batch,
                 c->in);
    if (c->bias)
        snprintf(bias, sizeof bias, "const %%b: float32[%d] = zeros\n", c->out);
    if (c->residual)
        snprintf(residual, sizeof residual, "const %%r: float32[%d, %d, %d, %d] = zeros\n",
                 c->batch, c->out, height, width);
    snprintf(body, sizeof body,
             "const %%x: float32[%d, %d, %d, %d] = zeros\nconst %%w: float32[%d, %d, 32] = zeros\n"
             "%s%s%s%%y = tenon.packed_convolution(%%x, %s, %%w, %s, %s, %d, [%d, %d], [%d, %d], "
             "[%d, %d, %d, %d], \"%s\", -0.5, 0.75)",
             c->batch, c->in, c->height, c->width, (c->out + 31) / 32,
             c->kernel[0] * c->kernel[1] * c->in, scale, bias, residual, c->scale ? "%s" : "none",
             c->bias ? "%b" : "none", c->residual ? "%r" : "none", c->out, c->kernel[0],
             c->kernel[1], c->stride[0], c->stride[1], c->padding[0], c->padding[1], c->padding[2],
             c->padding[3], c->after);
    tenon_node *node = parse(body);
    operands o = fill(5, c->out, 0, c->channels_last);
    double *want = malloc(sizeof *want * (size_t)(c->batch * c->out * height * width));
    ck_assert_ptr_nonnull(want);
    const tenon_view *b = o.v[2 + c->scale], *r = o.v[2 + c->scale + c->bias];
    int64_t at = 0;
    for (int n = 0; n < c->batch; n++)
        for (int k = 0; k < c->out; k++)
            for (int y = 0; y < height; y++)
                for (int x = 0; x < width; x++, at++) {
                    double sum = packed_sum(c, &o, n, k, y, x) + (c->bias ? element(b, k) : 0);
                    sum += c->residual ? pixel(r, n, k, y, x) : 0;
                    want[at] = activated(c->after, sum);
                }
    check_node(body, node, (double *const[]){want});
    free(want);
}
END_TEST

/* ---- Images of parts ---- */

typedef struct parts_case {
    int batch, height, width, channels[4]; /* of each part, up to a 0 */
    const char *after;                     /* NULL: interleaved */
    bool channels_last;
} parts_case;

static int parts_text(const parts_case *c, char *body, size_t size, char *list, int *channels) {
    int count = 0, at = 0, end = 0;
    *channels = 0;
    for (; count < 4 && c->channels[count]; count++) {
        at +=
            snprintf(body + at, size - (size_t)at, "const %%x%d: float32[%d, %d, %d, %d] = zeros\n",
                     count, c->batch, c->channels[count], c->height, c->width);
        end += sprintf(list + end, "%s%%x%d", count ? ", " : "", count);
        *channels += c->channels[count];
    }
    snprintf(body + at, size - (size_t)at,
             c->after ? "const %%s: float32[%d] = zeros\nconst %%t: float32[%d] = zeros\n"
                        "%%y = tenon.scaled_cat([%s], %%s, %%t, \"%s\", -0.5, 0.75)"
                      : "const %%s: float32[%d] = zeros\nconst %%t: float32[%d] = zeros\n"
                        "%%y = tenon.interleave([%s])",
             *channels, *channels, list, c->after);
    return count;
}

START_TEST(images_of_parts) {
    static const parts_case cases[] = {
        {1, 7, 5, {16, 16}, NULL, true},          {2, 3, 9, {58, 58}, NULL, true},
        {1, 14, 14, {5, 5}, NULL, true},          {1, 28, 28, {20, 20, 20}, NULL, true},
        {2, 4, 3, {33, 33}, NULL, false},         {1, 9, 9, {64, 32, 32}, "relu", true},
        {2, 5, 7, {19, 3, 40, 1}, "clamp", true}, {1, 17, 1, {37}, "silu", true},
        {1, 28, 28, {24, 24}, "none", false},
    };
    const parts_case *c = &cases[_i];
    char body[2048], list[64];
    int channels, count = parts_text(c, body, sizeof body, list, &channels);
    tenon_node *node = parse(body);
    operands o = fill(11, channels, 0, c->channels_last);
    double *y = malloc(sizeof *y * (size_t)(c->batch * channels * c->height * c->width));
    ck_assert_ptr_nonnull(y);
    int64_t at = 0;
    for (int b = 0; b < c->batch; b++)
        for (int k = 0; k < channels; k++)
            for (int r = 0; r < c->height; r++)
                for (int x = 0; x < c->width; x++, at++) {
                    int part = 0, channel = k;
                    while (c->after && channel >= c->channels[part])
                        channel -= c->channels[part++];
                    if (!c->after) {
                        part = k % count;
                        channel = k / count;
                    }
                    y[at] = pixel(o.v[part], b, channel, r, x);
                    if (c->after)
                        y[at] = activated(c->after, y[at] * element(o.v[count], k) +
                                                        element(o.v[count + 1], k));
                }
    check_node(body, node, (double *const[]){y});
    free(y);
}
END_TEST

START_TEST(groups_of_channels) {
    static const struct {
        int batch, groups, channels, height, width;
        bool channels_last;
    } cases[] = {{1, 2, 32, 14, 14, true},
                 {2, 2, 70, 5, 7, true},
                 {1, 4, 9, 13, 21, true},
                 {3, 1, 17, 1, 1, true},
                 {1, 3, 40, 6, 6, false}};
    int groups = cases[_i].groups, channels = cases[_i].channels, batch = cases[_i].batch;
    int height = cases[_i].height, width = cases[_i].width;
    int64_t pixels = (int64_t)height * width, planes = (int64_t)batch * channels;
    double *y = malloc(sizeof *y * (size_t)(planes * pixels));
    ck_assert_ptr_nonnull(y);
    for (int means = 0; means < 2; means++) {
        char body[1024];
        snprintf(body, sizeof body,
                 "const %%x: float32[%d, %d, %d, %d] = zeros\n"
                 "const %%s: float32[%d, %d, %d, 1, 1] = zeros\n%%y = tenon.split_%s %d)",
                 batch, groups * channels, height, width, batch, groups, channels,
                 means ? "mean(%x," : "sum(%x, %s,", groups);
        tenon_node *node = parse(body);
        operands o = fill(13, channels, 0, cases[_i].channels_last);
        memset(y, 0, sizeof *y * (size_t)(planes * pixels));
        for (int64_t i = 0; i < planes * pixels * groups; i++) {
            int64_t p = i % pixels, k = i / pixels % channels, b = i / pixels / channels / groups;
            int64_t r = i / pixels / channels % groups;
            double x = pixel(o.v[0], b, r * channels + k, p / width, p % width);
            if (means)
                y[b * channels + k] += x / (double)pixels;
            else
                y[(b * channels + k) * pixels + p] +=
                    x * element(o.v[1], (b * groups + r) * channels + k);
        }
        check_node(body, node, (double *const[]){y});
    }
    free(y);
}
END_TEST

/* ---- What the shape rules refuse ---- */

START_TEST(wrong_arguments_are_refused) {
    static const char *const bodies[] = {
        /* too wide a window */
        "input %x: float32[1, 8, 9, 9]\nconst %w: float32[1, 81, 32] = zeros\n"
        "%y, %m = tenon.depthwise_convolution(%x, none, none, \"none\", 0, 0, %w, none, 8, [9, 9], "
        "[1, 1], [0, 0, 0, 0])",
        /* an expansion in bfloat16 */
        "input %x: bfloat16[1, 8, 9, 9]\nconst %e: float32[1, 8, 32] = zeros\n"
        "const %w: float32[1, 9, 32] = zeros\n"
        "%y, %m = tenon.depthwise_convolution(%x, %e, none, \"none\", 0, 0, %w, none, 8, [3, 3], "
        "[1, 1], [0, 0, 0, 0])",
        /* channels that do not fit */
        "input %x: float32[1, 8, 9, 9]\nconst %w: float32[1, 9, 32] = zeros\n"
        "%y, %m = tenon.depthwise_convolution(%x, none, none, \"none\", 0, 0, %w, none, 9, [3, 3], "
        "[1, 1], [0, 0, 0, 0])",
        /* an unknown activation */
        "input %x: float32[1, 8, 9, 9]\nconst %w: float32[1, 9, 32] = zeros\n"
        "%y, %m = tenon.depthwise_convolution(%x, none, none, \"none\", 0, 0, %w, none, 8, [3, 3], "
        "[1, 1], [0, 0, 0, 0], \"cosine\")",
        /* means of more than one pixel */
        "input %m: float32[1, 8, 2, 1]\nconst %w: float32[1, 8, 32] = zeros\n"
        "%y = tenon.squeeze_excitation(%m, %w, none, 8, \"relu\", 0, 0, %w, none, 8)",
        /* a weight that is not packed */
        "input %m: float32[1, 8, 1, 1]\nconst %w: float32[8, 8] = zeros\n"
        "%y = tenon.squeeze_excitation(%m, %w, none, 8, \"relu\", 0, 0, %w, none, 8)",
        /* a scale for other channels */
        "input %x: float32[1, 8, 9, 9]\ninput %s: float32[1, 9, 1, 1]\n"
        "const %w: float32[1, 8, 32] = zeros\n"
        "%y = tenon.packed_convolution(%x, %s, %w, none, none, 8, [1, 1], [1, 1], [0, 0, 0, 0])",
        /* a residual of another shape */
        "input %x: float32[1, 8, 9, 9]\ninput %s: float32[1, 8, 1, 1]\n"
        "const %w: float32[1, 8, 32] = zeros\n"
        "%y = tenon.packed_convolution(%x, %s, %w, none, %x, 9, [1, 1], [1, 1], [0, 0, 0, 0])",
        /* a weight of fewer taps */
        "input %x: float32[1, 8, 9, 9]\nconst %w: float32[1, 64, 32] = zeros\n"
        "%y = tenon.packed_convolution(%x, none, %w, none, none, 8, [3, 3], [1, 1], [0, 0, 0, 0])",
        /* a window that is larger than the image */
        "input %x: float32[1, 8, 2, 9]\nconst %w: float32[1, 72, 32] = zeros\n"
        "%y = tenon.packed_convolution(%x, none, %w, none, none, 8, [3, 3], [1, 1], [0, 0, 0, 0])",
        /* no stride */
        "input %x: float32[1, 8, 9, 9]\nconst %w: float32[1, 72, 32] = zeros\n"
        "%y = tenon.packed_convolution(%x, none, %w, none, none, 8, [3, 3], [0, 1], [0, 0, 0, 0])",
        /* parts of different sizes */
        "input %x: float32[1, 8, 9, 9]\ninput %z: float32[1, 8, 9, 8]\n"
        "%y = tenon.interleave([%x, %z])",
        "input %x: float32[1, 8, 9, 9]\ninput %z: float32[1, 9, 9, 9]\n"
        "%y = tenon.interleave([%x, %z])",
        /* no parts */
        "input %x: float32[1, 8, 9, 9]\n%y = tenon.interleave([])",
        /* a shift of other channels than the parts' */
        "input %x: float32[1, 8, 9, 9]\ninput %s: float32[16]\ninput %t: float32[8]\n"
        "%y = tenon.scaled_cat([%x, %x], %s, %t)",
        /* groups that do not come out */
        "input %x: float32[1, 8, 9, 9]\n%y = tenon.split_mean(%x, 3)",
        /* a scale without groups */
        "input %x: float32[1, 8, 9, 9]\ninput %s: float32[1, 8, 1, 1, 1]\n"
        "%y = tenon.split_sum(%x, %s, 2)",
    };
    char text[1024];
    tenon_graph *made = NULL;
    snprintf(text, sizeof text, "graph t {\n%s\n}\n", bodies[_i]);
    ck_assert_int_ne(tenon_graph_parse(text, "test", &made), TENON_OK);
    ck_assert_ptr_null(made);
    ck_assert_ptr_nonnull(strstr(tenon_last_error(), "tenon."));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("channel_kernels");
    TCase *tests = tcase_create("tests");
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, depthwise_convolutions, 0, 17);
    tcase_add_loop_test(tests, depthwise_convolutions_keep_nan, 0, 5);
    tcase_add_loop_test(tests, squeeze_excitations, 0, 4);
    tcase_add_loop_test(tests, images_of_parts, 0, 9);
    tcase_add_loop_test(tests, groups_of_channels, 0, 5);
    tcase_add_loop_test(tests, packed_convolutions, 0, 13);
    tcase_add_loop_test(tests, wrong_arguments_are_refused, 0, 17);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
