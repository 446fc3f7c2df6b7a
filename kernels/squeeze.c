/* Squeeze-and-excitation (Hu et al. 2018, "Squeeze-and-Excitation Networks"):
 *
 *     s = activation2(activation1(m W1 + b1) W2 + b2)       m: one pixel of the channels' means
 */
#include "core/packed.h"
#include "kernels/activation.h"
#include "kernels/copy.h"
#include "kernels/iterate.h"
#include "kernels/panel.h"
#include "kernels/pixels.h"
#include "kernels/product.h"
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
    missing |= !tn_dense_in(call, 1, &one.weight) || !tn_dense_in(call, 2, &one.bias) ||
               !tn_dense_in(call, 7, &two.weight) || !tn_dense_in(call, 8, &two.bias);
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
