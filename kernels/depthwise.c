/* Convolutions of one channel a group over images whose channels are neighbours, with the 1x1
 * convolution in front of them:
 *
 *     e = activation_e(x * W + b_e)                      (without W: e = activation_e(x))
 *     y = activation(depthwise(e) + b), and the means of y over the image
 *
 * (Sandler et al. 2018, "MobileNetV2", section 3.4, has the same idea: the expanded image never
 * exists.) A piece of work is some rows of the result in one panel of channels; the rows of e that
 * it needs come one after another into a ring in first-level cache, with zeros at the sides. Images
 * are float32, or bfloat16 when there is no W; what is computed is float32. */
#include "core/packed.h"
#include "core/window.h"
#include "kernels/activation.h"
#include "kernels/convert.h"
#include "kernels/iterate.h"
#include "kernels/panel.h"
#include "kernels/pixels.h"
#include <omp.h>
#include <string.h>

enum {
    PIXELS = 8,            /* results of a row in registers at a time */
    RING_BYTES = 24 << 10, /* wider images are cut into columns */
    MAX_TAPS = TN_DEPTHWISE_TAPS
};

typedef struct job {
    tn_pixels in, out;
    bool narrow; /* images are bfloat16 */
    const float *expand, *expand_bias, *weight, *bias;
    float *sums, *mean; /* sums: of each piece, by channel of its panel */
    int64_t batch, depth, channels, panels, height, width, out_height, out_width;
    int64_t kernel[2], stride[2], padding[2];
    int64_t bands, tiles, ring_width, tile_width; /* parts of the result's rows and columns */
    int64_t scratch;                              /* floats of a thread */
    tn_activation expand_activation, activation;
} job;

/* Rows y0..y1 and columns x0..x1 of the result. */
typedef struct piece {
    const job *j;
    int64_t batch, first, columns; /* channels */
    int64_t y0, y1, x0, x1;
    bool in_place; /* e is the input */
    int64_t have;  /* the next row of e */
    float *ring, *line, *sum;
    float bias[TN_PANEL], expand_bias[TN_PANEL];
    tn_panel_product product;
} piece;

/* Whether e is the input as it lies. */
static bool reads_in_place(const job *j, int64_t columns) {
    return !j->expand && !j->narrow && j->expand_activation.kind == TN_ACT_NONE &&
           columns % TN_LANES == 0; /* else what is read ends in a vector */
}

/* ---- Rows of e ---- */

static float *ring_row(const piece *p, int64_t row) {
    return p->ring + row % p->j->kernel[0] * p->j->ring_width * TN_PANEL;
}

/* Clamps are left out: products and filters do them. */
static void activate(const job *j, const tn_activation *a, float *x, int64_t n) {
    if (a->kind == TN_ACT_SILU && j->narrow) {
        for (int64_t i = 0; i < n; i += TN_LANES)
            *(tn_vec *)(x + i) = tn_vec_silu_narrow(*(const tn_vec *)(x + i));
    } else if (a->kind == TN_ACT_SILU) {
        for (int64_t i = 0; i < n; i += TN_LANES)
            *(tn_vec *)(x + i) = tn_vec_silu(*(const tn_vec *)(x + i));
    } else if (a->kind == TN_ACT_HARDSWISH) {
        for (int64_t i = 0; i < n; i += TN_LANES) {
            tn_vec v = *(const tn_vec *)(x + i);
            *(tn_vec *)(x + i) = v * tn_vec_hardsigmoid(v);
        }
    } else if (a->kind > TN_ACT_CLAMP) {
        tn_activate(a, x, n);
    }
}

/* `count` neighbours of a row of the input, from pixel x on. */
static void copy_pixels(const piece *p, int64_t row, int64_t x, int64_t count, float *ring) {
    const job *j = p->j;
    int64_t size = j->narrow ? sizeof(uint16_t) : sizeof(float), step = j->in.pixel * size;
    const char *in = (const char *)j->in.data +
                     (p->batch * j->in.batch + row * j->in.row + x * j->in.pixel + p->first) * size;
    for (int64_t i = 0; i < count; i++, in += step, ring += TN_PANEL) {
        if (!j->narrow)
            memcpy(ring, in, (size_t)p->columns * sizeof *ring);
        else if (p->columns % TN_LANES == 0)
            for (int64_t c = 0; c < p->columns; c += TN_LANES)
                *(tn_vec *)(ring + c) = tn_vec_of_bf16(in + c * size);
        else
            TN_K(load)[TN_CLASS_F32][TENON_BFLOAT16](ring, in, size, p->columns);
    }
}

static void fill_row(piece *p, int64_t row) {
    const job *j = p->j;
    int64_t left = p->x0 * j->stride[1] - j->padding[1];
    int64_t right = (p->x1 - 1) * j->stride[1] - j->padding[1] + j->kernel[1];
    int64_t from = left < 0 ? 0 : left, to = right > j->width ? j->width : right;
    float *ring = ring_row(p, row);
    if (from >= to) { /* padding alone */
        memset(ring, 0, (size_t)(right - left) * TN_PANEL * sizeof *ring);
        return;
    }
    memset(ring, 0, (size_t)(from - left) * TN_PANEL * sizeof *ring);
    memset(ring + (to - left) * TN_PANEL, 0, (size_t)(right - to) * TN_PANEL * sizeof *ring);
    ring += (from - left) * TN_PANEL;
    if (j->expand) { /* the product clamps */
        p->product.a = tn_pixel(&j->in, p->batch, row, from);
        p->product.out = ring;
        tn_panel_run(&p->product, to - from);
    } else {
        copy_pixels(p, row, from, to - from, ring);
        if (j->expand_activation.kind <= TN_ACT_CLAMP)
            tn_activate(&j->expand_activation, ring, (to - from) * TN_PANEL);
    }
    activate(j, &j->expand_activation, ring, (to - from) * TN_PANEL);
}

/* ---- Rows of the result ---- */

typedef struct line {
    const float *rows[MAX_TAPS]; /* where the window of result 0 begins; NULL: outside */
    const float *weight, *bias;
    float *out, *sum;
    int64_t out_pixel, height, width;
    int64_t step, tap;  /* between windows of neighbours, and between taps */
    int64_t first, end; /* taps of a row that are inside */
    float low, high;
} line;

/* `pixels` neighbours from x on. All arguments from `pixels` on are constants of each call: the
 * stride and the taps of a row are so, rather than as the line has them, where they are not 0. */
__attribute__((always_inline)) static inline void filter(const line *l, int64_t x, int64_t column,
                                                         const int pixels, const tn_vec_kind kind,
                                                         const int stride, const int taps) {
    tn_vec sum[PIXELS], start = *(const tn_vec *)(l->bias + column);
    int64_t tap = l->tap, step = stride ? stride * tap : l->step;
    int64_t first = taps ? 0 : l->first, end = taps ? taps : l->end;
    const float *w = l->weight + first * TN_PANEL + column;
#pragma GCC unroll 8
    for (int i = 0; i < pixels; i++)
        sum[i] = start;
    for (int64_t ty = 0; ty < l->height; ty++, w += l->width * TN_PANEL) {
        if (!l->rows[ty])
            continue;
        const float *in = l->rows[ty] + x * step + first * tap + column, *factors = w;
#pragma GCC unroll 5
        for (int64_t tx = first; tx < end; tx++, in += tap, factors += TN_PANEL) {
            tn_vec factor = *(const tn_vec *)factors;
#pragma GCC unroll 8
            for (int i = 0; i < pixels; i++)
                sum[i] += factor * *(const tn_vec *)(in + i * step);
        }
    }
    tn_vec low = tn_vec_of(l->low), high = tn_vec_of(l->high), total = {0};
    float *out = l->out + x * l->out_pixel + column;
#pragma GCC unroll 8
    for (int i = 0; i < pixels; i++) {
        tn_vec y = tn_vec_activate(sum[i], kind, low, high);
        *(tn_vec *)(out + i * l->out_pixel) = y;
        total += y;
    }
    *(tn_vec *)(l->sum + column) += total;
}

typedef void (*filter_fn)(const line *l, int64_t x, int64_t column);

#define FILTER(name, pixels, kind, stride, taps)                                                 \
    static __attribute__((noinline)) void name##_##pixels(const line *l, int64_t x, int64_t c) { \
        filter(l, x, c, pixels, kind, stride, taps);                                             \
    }
#define FILTERS(name, kind, stride, taps) \
    FILTER(name, 1, kind, stride, taps)   \
    FILTER(name, 4, kind, stride, taps)   \
    FILTER(name, 7, kind, stride, taps)   \
    FILTER(name, 8, kind, stride, taps)   \
    static const filter_fn name[] = {name##_1, name##_4, name##_7, name##_8};
#define KINDS(name, stride, taps)                             \
    FILTERS(name##_clamp, TN_VEC_CLAMP, stride, taps)         \
    FILTERS(name##_silu, TN_VEC_SILU, stride, taps)           \
    FILTERS(name##_hardswish, TN_VEC_HARDSWISH, stride, taps) \
    static const filter_fn *const name[] = {name##_clamp, name##_silu, name##_hardswish};
KINDS(any, 0, 0)
KINDS(one_3, 1, 3)
KINDS(two_3, 2, 3)
KINDS(one_5, 1, 5)
KINDS(two_5, 2, 5)
#undef KINDS
#undef FILTERS
#undef FILTER

/* Results from..to of the line, all of which see the same taps. */
static void filter_span(const line *l, tn_vec_kind kind, int64_t from, int64_t to,
                        int64_t columns) {
    const filter_fn *const *kinds = any;
    if (l->first == 0 && l->end == l->width && (l->width == 3 || l->width == 5)) {
        if (l->step == l->tap)
            kinds = l->width == 3 ? one_3 : one_5;
        else if (l->step == 2 * l->tap)
            kinds = l->width == 3 ? two_3 : two_5;
    }
    const filter_fn *filters = kinds[kind == TN_VEC_OTHER ? TN_VEC_CLAMP : kind];
    int64_t most = (to - from) % 8 && (to - from) % 7 == 0 ? 7 : 8;
    for (int64_t c = 0; c < columns; c += TN_LANES) {
        int64_t x = from;
        for (; to - x >= most; x += most)
            filters[most == 8 ? 3 : 2](l, x, c);
        if (to - x == 7) {
            filters[2](l, x, c);
            continue;
        }
        for (; to - x >= 4; x += 4)
            filters[1](l, x, c);
        for (; x < to; x++)
            filters[0](l, x, c);
    }
}

/* The same where windows reach over the sides of an image that is read in place. */
static void filter_sides(const piece *p, line *l, tn_vec_kind kind) {
    const job *j = p->j;
    int64_t width = p->x1 - p->x0, x = 0;
    while (x < width) {
        int64_t left = (p->x0 + x) * j->stride[1] - j->padding[1], to = x + 1;
        l->first = left < 0 ? -left : 0;
        l->end = j->width - left < l->width ? j->width - left : l->width;
        if (l->first == 0 && l->end == l->width) {
            int64_t last = (j->width - l->width + j->padding[1]) / j->stride[1] + 1 - p->x0;
            to = last < width ? last : width;
        }
        filter_span(l, kind, x, to, p->columns);
        x = to;
    }
}

/* The line at hand, which was computed apart, to the result. */
static void finish_line(const piece *p, int64_t y, bool activated, float *sum) {
    const job *j = p->j;
    int64_t width = p->x1 - p->x0;
    if (!activated) {
        activate(j, &j->activation, p->line, width * TN_PANEL);
        for (int c = 0; c < TN_PANEL; c += TN_LANES) {
            tn_vec total = {0};
            for (int64_t x = 0; x < width; x++)
                total += *(const tn_vec *)(p->line + x * TN_PANEL + c);
            *(tn_vec *)(sum + c) = total;
        }
    }
    int64_t size = j->narrow ? sizeof(uint16_t) : sizeof(float), step = j->out.pixel * size;
    char *out = (char *)j->out.data +
                (p->batch * j->out.batch + y * j->out.row + p->x0 * j->out.pixel + p->first) * size;
    const float *from = p->line;
    for (int64_t x = 0; x < width; x++, out += step, from += TN_PANEL) {
        if (!j->narrow)
            memcpy(out, from, (size_t)p->columns * sizeof *from);
        else if (p->columns % TN_LANES == 0)
            for (int64_t c = 0; c < p->columns; c += TN_LANES)
                tn_vec_to_bf16(out + c * size, *(const tn_vec *)(from + c));
        else
            TN_K(store)[TN_CLASS_F32][TENON_BFLOAT16](out, size, from, p->columns);
    }
}

static void piece_row(piece *p, int64_t y) {
    const job *j = p->j;
    int64_t top = y * j->stride[0] - j->padding[0], bottom = top + j->kernel[0];
    float sum[TN_PANEL] = {0};
    line l = {.bias = p->bias,
              .weight = j->weight + p->first * j->kernel[0] * j->kernel[1],
              .sum = sum,
              .height = j->kernel[0],
              .width = j->kernel[1],
              .end = j->kernel[1]};
    l.tap = p->in_place ? j->in.pixel : TN_PANEL;
    l.step = l.tap * j->stride[1];
    if (p->have < top)
        p->have = top;
    for (; !p->in_place && p->have < bottom && p->have < j->height; p->have++)
        fill_row(p, p->have);
    const float *in = NULL;
    if (p->in_place)
        in = tn_pixel(&j->in, p->batch, 0, p->x0 * j->stride[1] - j->padding[1]) + p->first;
    for (int64_t t = 0; t < j->kernel[0]; t++)
        l.rows[t] = top + t < 0 || top + t >= j->height ? NULL
                    : p->in_place                       ? in + (top + t) * j->in.row
                                                        : ring_row(p, top + t);
    tn_vec_kind kind = tn_vec_kind_of(&j->activation);
    if (j->narrow && kind == TN_VEC_SILU)
        kind = TN_VEC_OTHER;
    bool direct = kind != TN_VEC_OTHER && p->columns % TN_LANES == 0 && !j->narrow;
    if (!tn_activation_bounds(&j->activation, &l.low, &l.high)) {
        l.low = -INFINITY;
        l.high = INFINITY;
    }
    l.out = direct ? tn_pixel(&j->out, p->batch, y, p->x0) + p->first : p->line;
    l.out_pixel = direct ? j->out.pixel : TN_PANEL;
    if (p->in_place)
        filter_sides(p, &l, kind);
    else
        filter_span(&l, kind, 0, p->x1 - p->x0, p->columns);
    if (!direct)
        finish_line(p, y, kind != TN_VEC_OTHER, sum);
    for (int c = 0; p->sum && c < TN_PANEL; c++)
        p->sum[c] += sum[c];
}

/* ---- Pieces ---- */

static void run_piece(const job *j, int64_t index, float *scratch) {
    int64_t tile = index % j->tiles, panel = index / j->tiles % j->panels;
    int64_t band = index / j->tiles / j->panels % j->bands;
    piece p = {.j = j, .batch = index / j->tiles / j->panels / j->bands, .ring = scratch};
    p.line = scratch + j->kernel[0] * j->ring_width * TN_PANEL;
    p.first = panel * TN_PANEL;
    p.columns = j->channels - p.first < TN_PANEL ? j->channels - p.first : TN_PANEL;
    p.y0 = j->out_height * band / j->bands;
    p.y1 = j->out_height * (band + 1) / j->bands;
    p.x0 = j->out_width * tile / j->tiles;
    p.x1 = j->out_width * (tile + 1) / j->tiles;
    p.in_place = reads_in_place(j, p.columns);
    p.sum = j->sums ? j->sums + index * TN_PANEL : NULL;
    if (p.sum)
        memset(p.sum, 0, TN_PANEL * sizeof *p.sum);
    if (j->bias)
        memcpy(p.bias, j->bias + p.first, (size_t)p.columns * sizeof *p.bias);
    if (j->expand_bias)
        memcpy(p.expand_bias, j->expand_bias + p.first, (size_t)p.columns * sizeof *p.bias);
    p.product = (tn_panel_product){.b = j->expand ? j->expand + p.first * j->depth : NULL,
                                   .bias = p.expand_bias,
                                   .depth = j->depth,
                                   .a_row = j->in.pixel,
                                   .out_row = TN_PANEL,
                                   .columns = (p.columns + TN_LANES - 1) / TN_LANES * TN_LANES};
    if (!tn_activation_bounds(&j->expand_activation, &p.product.low, &p.product.high)) {
        p.product.low = -INFINITY;
        p.product.high = INFINITY;
    }
    for (int64_t y = p.y0; y < p.y1; y++)
        piece_row(&p, y);
}

static void plan(job *j, int threads) {
    int64_t most = RING_BYTES / (TN_PANEL * (int64_t)sizeof(float)) / j->kernel[0];
    most = (most - j->kernel[1]) / j->stride[1] + 1;
    most = most < PIXELS ? PIXELS : most;
    if (reads_in_place(j, j->channels))
        most = j->out_width; /* no ring */
    j->panels = (j->channels + TN_PANEL - 1) / TN_PANEL;
    j->tiles = (j->out_width + most - 1) / most;
    j->tile_width = (j->out_width + j->tiles - 1) / j->tiles;
    j->ring_width = (j->tile_width - 1) * j->stride[1] + j->kernel[1];
    j->scratch = (j->kernel[0] * j->ring_width + j->tile_width) * TN_PANEL;
    /* A band costs rows of e that its neighbour computes, too. */
    int64_t pieces = j->batch * j->panels * j->tiles;
    bool bands = threads > 1 && pieces % threads && pieces < 8 * threads;
    j->bands = bands && j->out_height >= 2 * threads ? threads : 1;
}

static void means(const job *j) {
    double pixels = (double)(j->out_height * j->out_width);
    for (int64_t b = 0; b < j->batch; b++) {
        for (int64_t c = 0; c < j->channels; c++) {
            double sum = 0;
            for (int64_t band = 0; band < j->bands; band++) {
                int64_t first = ((b * j->bands + band) * j->panels + c / TN_PANEL) * j->tiles;
                for (int64_t tile = 0; tile < j->tiles; tile++)
                    sum += j->sums[(first + tile) * TN_PANEL + c % TN_PANEL];
            }
            j->mean[b * j->channels + c] = (float)(sum / pixels);
        }
    }
}

static tenon_status run(tn_call *call, job *j) {
    int64_t pixels = j->batch * j->out_height * j->out_width;
    double work =
        (double)pixels * (double)j->channels * (double)(j->kernel[0] * j->kernel[1] + j->depth);
    int threads = work < TN_PARALLEL_WORK ? 1 : call->threads;
    plan(j, threads);
    int64_t pieces = j->batch * j->panels * j->bands * j->tiles;
    if (threads > pieces)
        threads = (int)pieces;
    float *scratch = tn_call_scratch(call, sizeof(float) * (size_t)(j->scratch * threads));
    if (j->mean)
        j->sums = tn_call_scratch(call, sizeof(float) * (size_t)(pieces * TN_PANEL));
    if (!scratch || (j->mean && !j->sums))
        return tn_no_memory();
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(dynamic)
    for (int64_t i = 0; i < pieces; i++)
        run_piece(j, i, scratch + j->scratch * omp_get_thread_num());
    if (j->mean)
        means(j);
    return TENON_OK;
}

/* ---- The node ---- */

/* input [b, k, h, w], expand_weight [panels, k, TN_PANEL] and expand_bias [c] or none; weight
 * [panels, taps, TN_PANEL], bias [c] or none; gives [b, c, h', w'] and [b, c, 1, 1] */
tenon_status TN_K(depthwise_convolution)(tn_call *call) {
    tenon_view in = call->in[0], *out = &call->out[0], *mean = &call->out[1], target, average;
    int64_t padding[4];
    job j = {.channels = tn_arg_int(call->node, 8, 0),
             .batch = in.shape[0],
             .narrow = in.dtype == TENON_BFLOAT16};
    bool image = out->dtype != TENON_DTYPE_NONE, means = mean->dtype != TENON_DTYPE_NONE;
    tenon_value *const *outputs = call->node->outputs;
    if (tenon_view_numel(&in) == 0 || (!image && !means))
        return TENON_OK;
    target = image ? *out : tn_view_make(NULL, in.dtype, 4, outputs[0]->shape);
    target = tn_pixels_target(call, &target);
    if (!target.data || !tn_pixels_read(call, &in, false, &j.in) ||
        !tn_pixels_read(call, &target, false, &j.out))
        return tn_no_memory();
    j.depth = in.shape[1];
    j.height = in.shape[2];
    j.width = in.shape[3];
    j.out_height = target.shape[2];
    j.out_width = target.shape[3];
    tn_window_ints(call->node, 9, j.kernel, 2);
    tn_window_ints(call->node, 10, j.stride, 2);
    tn_window_ints(call->node, 11, padding, 4);
    memcpy(j.padding, padding, sizeof j.padding);
    tn_activation_read(call->node, 3, &j.expand_activation);
    tn_activation_read(call->node, 12, &j.activation);
    if (!tn_dense_in(call, 1, &j.expand) || !tn_dense_in(call, 2, &j.expand_bias) ||
        !tn_dense_in(call, 6, &j.weight) || !tn_dense_in(call, 7, &j.bias))
        return tn_no_memory();
    if (!j.expand)
        j.depth = 0;
    if (means) {
        average = tn_view_make(NULL, TENON_FLOAT32, 4, mean->shape);
        average.data = tn_call_scratch(call, (size_t)tenon_view_numel(mean) * sizeof(float) + 1);
        if (!average.data)
            return tn_no_memory();
        j.mean = average.data;
    }
    TN_TRY(run(call, &j));
    if (means)
        TN_K(copy_view)(call->threads, mean, &average);
    if (image && target.data != out->data)
        TN_K(copy_view)(call->threads, out, &target);
    return TENON_OK;
}
