/* Squeeze-and-excitation (Hu et al. 2018, "Squeeze-and-Excitation Networks"), and the 1x1
 * convolution of an image that its factors scale:
 *
 *     s = activation2(activation1(m W1 + b1) W2 + b2)       m: one pixel of the channels' means
 *     y = activation((x * s) W + b + residual)
 *
 * The scaled image exists only in the rows that a thread has at hand. */
#include "core/packed.h"
#include "kernels/activation.h"
#include "kernels/copy.h"
#include "kernels/iterate.h"
#include "kernels/panel.h"
#include "kernels/pixels.h"
#include "kernels/product.h"
#include <omp.h>
#include <string.h>

/* ---- Products of a few rows ---- */

typedef struct layer {
    const float *weight, *bias;
    int64_t in, out; /* channels */
    tn_activation activation;
} layer;

static int64_t panels_of(int64_t channels) {
    return (channels + TN_PANEL - 1) / TN_PANEL;
}

/* to[rows, panels * TN_PANEL] = activation(from W + b); threads share the panels. */
static void apply(const layer *l, int threads, int64_t rows, const float *from, int64_t from_row,
                  float *to) {
    int64_t panels = panels_of(l->out), row = panels * TN_PANEL;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < panels; i++) {
        float bias[TN_PANEL] = {0};
        int64_t first = i * TN_PANEL;
        int64_t columns = l->out - first < TN_PANEL ? l->out - first : TN_PANEL;
        if (l->bias)
            memcpy(bias, l->bias + first, (size_t)columns * sizeof *bias);
        tn_panel_product p = {.a = from,
                              .a_row = from_row,
                              .b = l->weight + first * l->in,
                              .bias = bias,
                              .depth = l->in,
                              .out = to + first,
                              .out_row = row,
                              .columns = columns,
                              .low = -INFINITY,
                              .high = INFINITY};
        tn_panel_run(&p, rows);
        for (int64_t r = 0; r < rows; r++)
            tn_activate(&l->activation, to + r * row + first, columns);
    }
}

static const float *constant(tn_call *call, int index, bool *missing) {
    const tenon_view *view = tn_call_in(call, index);
    tenon_view v = view ? tn_dense(call, view) : (tenon_view){0};
    *missing |= view && !v.data;
    return v.data;
}

/* mean [b, c, 1, 1], weights [panels, in, TN_PANEL], biases or none; gives [b, c', 1, 1]; means
 * and result are float32 or bfloat16 */
tenon_status TN_K(squeeze_excitation)(tn_call *call) {
    const tenon_view *in = &call->in[0], *out = &call->out[0];
    const float *mean = TN_K(packed)(call, TN_CLASS_F32, in);
    int64_t batch = in->shape[0];
    bool missing = !mean;
    layer one = {.in = in->shape[1], .out = tn_arg_int(call->node, 3, 0)};
    layer two = {.in = one.out, .out = out->shape[1]};
    if (tenon_view_numel(out) == 0)
        return TENON_OK;
    one.weight = constant(call, 1, &missing);
    one.bias = constant(call, 2, &missing);
    two.weight = constant(call, 7, &missing);
    two.bias = constant(call, 8, &missing);
    tn_activation_read(call->node, 4, &one.activation);
    tn_activation_read(call->node, 10, &two.activation);
    int64_t middle = panels_of(one.out) * TN_PANEL, end = panels_of(two.out) * TN_PANEL;
    float *hidden = tn_call_scratch(call, (size_t)(batch * middle) * sizeof *hidden);
    float *result = tn_call_scratch(call, (size_t)(batch * end) * sizeof *result);
    if (missing || !hidden || !result)
        return tn_no_memory();
    int threads = batch * one.in * one.out < TN_PARALLEL_WORK ? 1 : call->threads;
    apply(&one, threads, batch, mean, one.in, hidden);
    apply(&two, threads, batch, hidden, middle, result);
    tenon_view view = tn_view_make(result, TENON_FLOAT32, 4, out->shape);
    view.strides[0] = end;
    TN_K(copy_view)(1, out, &view);
    return TENON_OK;
}

/* ---- The scaled image's convolution ---- */

enum { BLOCK_BYTES = 256 << 10 }; /* of scaled pixels at a time */

typedef struct job {
    tn_pixels in, out, residual;
    const float *scale; /* [batch, in] */
    layer layer;
    int64_t batch, rows, width, blocks; /* blocks of rows of pixels in an image */
    int64_t scratch;
} job;

static void scale_pixels(const job *j, int64_t batch, int64_t first, int64_t count, float *to) {
    const float *scale = j->scale + batch * j->layer.in;
    for (int64_t i = first; i < first + count; i++, to += j->layer.in) {
        const float *from = tn_pixel(&j->in, batch, i / j->width, i % j->width);
#pragma omp simd
        for (int64_t c = 0; c < j->layer.in; c++)
            to[c] = from[c] * scale[c];
    }
}

/* Pixels that end in part of a vector go through `edge`. */
static void block_panel(const job *j, int64_t batch, int64_t first, int64_t count, int64_t panel,
                        const float *scaled, float *edge) {
    const layer *l = &j->layer;
    int64_t channel = panel * TN_PANEL;
    int64_t columns = l->out - channel < TN_PANEL ? l->out - channel : TN_PANEL;
    float bias[TN_PANEL] = {0};
    bool whole = columns % TN_LANES == 0;
    float *out = tn_pixel(&j->out, batch, 0, first) + channel;
    const float *residual =
        j->residual.data ? tn_pixel(&j->residual, batch, 0, first) + channel : NULL;
    if (l->bias)
        memcpy(bias, l->bias + channel, (size_t)columns * sizeof *bias);
    tn_panel_product p = {.a = scaled,
                          .a_row = l->in,
                          .b = l->weight + channel * l->in,
                          .bias = bias,
                          .depth = l->in,
                          .out = whole ? out : edge,
                          .out_row = whole ? j->out.pixel : TN_PANEL,
                          .residual = whole ? residual : NULL,
                          .residual_row = j->residual.pixel,
                          .columns = columns};
    bool bounded = tn_activation_bounds(&l->activation, &p.low, &p.high);
    if (!bounded || (residual && !whole)) {
        p.low = -INFINITY;
        p.high = INFINITY;
    }
    tn_panel_run(&p, count);
    for (int64_t i = 0; i < count && (!whole || !bounded); i++) {
        float *x = p.out + i * p.out_row;
        for (int64_t c = 0; residual && !whole && c < columns; c++)
            x[c] += residual[i * j->residual.pixel + c];
        tn_activate(&l->activation, x, columns);
        if (!whole)
            memcpy(out + i * j->out.pixel, x, (size_t)columns * sizeof *x);
    }
}

static void block(const job *j, int64_t index, float *scratch) {
    int64_t batch = index / j->blocks, i = index % j->blocks;
    int64_t first = j->rows * i / j->blocks, count = j->rows * (i + 1) / j->blocks - first;
    float *edge = scratch + count * j->layer.in;
    scale_pixels(j, batch, first, count, scratch);
    for (int64_t p = 0; p < panels_of(j->layer.out); p++)
        block_panel(j, batch, first, count, p, scratch, edge);
}

/* input [b, k, h, w], scale [b, k, 1, 1], weight [panels, k, TN_PANEL], bias and residual or none
 */
tenon_status TN_K(scaled_convolution)(tn_call *call) {
    const tenon_view *residual = tn_call_in(call, 4);
    tenon_view *out = &call->out[0], scale = tn_dense(call, &call->in[1]), target;
    bool missing = !scale.data;
    job j = {.batch = out->shape[0], .rows = out->shape[2] * out->shape[3], .width = out->shape[3]};
    if (tenon_view_numel(out) == 0)
        return TENON_OK;
    j.layer.in = call->in[0].shape[1];
    j.layer.out = out->shape[1];
    j.layer.weight = constant(call, 2, &missing);
    j.layer.bias = constant(call, 3, &missing);
    j.scale = scale.data;
    tn_activation_read(call->node, 6, &j.layer.activation);
    target = tn_pixels_target(call, out);
    missing |= !target.data || !tn_pixels_read(call, &call->in[0], false, &j.in) ||
               !tn_pixels_read(call, &target, true, &j.out) ||
               (residual && !tn_pixels_read(call, residual, true, &j.residual));
    if (missing)
        return tn_no_memory();
    double work = (double)(j.batch * j.rows) * (double)(j.layer.in * j.layer.out);
    int threads = work < TN_PARALLEL_WORK ? 1 : call->threads;
    int64_t most =
        BLOCK_BYTES / (j.layer.in * (int64_t)sizeof(float)) / TN_TILE_ROWS * TN_TILE_ROWS;
    most = most < TN_TILE_ROWS ? TN_TILE_ROWS : most;
    j.blocks = (j.rows + most - 1) / most;
    if (j.batch * j.blocks % threads && j.batch * j.blocks < 4 * threads)
        j.blocks = (j.blocks + threads - 1) / threads * threads;
    j.blocks = j.blocks < j.rows ? j.blocks : j.rows;
    j.scratch = ((j.rows + j.blocks - 1) / j.blocks) * (j.layer.in + TN_PANEL);
    float *scratch = tn_call_scratch(call, sizeof(float) * (size_t)(j.scratch * threads));
    if (!scratch)
        return tn_no_memory();
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(dynamic)
    for (int64_t i = 0; i < j.batch * j.blocks; i++)
        block(&j, i, scratch + j.scratch * omp_get_thread_num());
    if (target.data != out->data)
        TN_K(copy_view)(call->threads, out, &target);
    return TENON_OK;
}
