#include "fusion/panels.h"
#include "core/derive.h"
#include "core/packed.h"
#include "core/workers.h"
#include "fusion/rewrite.h"
#include <string.h>

typedef struct panels {
    const tenon_view *from;
    int64_t n, channels, taps; /* taps: what is behind the second dimension, row-major */
    int64_t row, channel;      /* strides */
    const float *scale;        /* of each row, or NULL */
    float *to;
} panels;

enum { BLOCK = 16 }; /* of a row that are read together: rows often start a power of two apart */

/* The panels' columns are neighbours in memory; taps count before channels. */
static void pack_some(int64_t begin, int64_t end, void *user) {
    const panels *p = user;
    int64_t k = p->channels * p->taps;
    for (int64_t i = begin; i < end; i++) {
        const float *w = (const float *)p->from->data + i * TN_PANEL * p->row;
        float *to = p->to + i * k * TN_PANEL, block[BLOCK][TN_PANEL] = {{0}};
        int64_t left = p->n - i * TN_PANEL, columns = left < TN_PANEL ? left : TN_PANEL;
        for (int64_t first = 0; first < k; first += BLOCK) {
            int64_t count = k - first < BLOCK ? k - first : BLOCK, from[BLOCK], place[BLOCK];
            for (int64_t e = 0; e < count; e++) {
                int64_t channel = (first + e) / p->taps, tap = (first + e) % p->taps;
                from[e] = channel * p->channel + tap;
                place[e] = (tap * p->channels + channel) * TN_PANEL;
            }
            for (int64_t c = 0; c < columns; c++) {
                float scale = p->scale ? p->scale[i * TN_PANEL + c] : 1;
                for (int64_t e = 0; e < count; e++)
                    block[e][c] = w[c * p->row + from[e]] * scale;
            }
            for (int64_t e = 0; e < count; e++)
                memcpy(to + place[e], block[e], sizeof block[e]);
        }
    }
}

#define LEAST_PANELS 4 /* that a thread is worth */

tenon_status tn_pack_panels(const tenon_view *from, const void *packing, tenon_tensor **out) {
    const tn_packing *with = packing;
    int64_t n = from->shape[0], k = tenon_view_numel(from) / n;
    panels p = {
        from,        n,   from->shape[1], k / from->shape[1], from->strides[0], from->strides[1],
        with->scale, NULL};
    int64_t shape[3] = {with->panels, k, TN_PANEL};
    tenon_tensor *made;
    TN_TRY(tenon_tensor_create(TENON_FLOAT32, 3, shape, &made));
    p.to = made->view.data;
    tn_share_work((n + TN_PANEL - 1) / TN_PANEL, LEAST_PANELS, pack_some, &p);
    *out = made;
    return TENON_OK;
}

tenon_status tn_packed_weight(const tn_weight *weight, tenon_value **out) {
    const tenon_value *values = weight->values;
    tenon_tensor *tensor;
    tn_packing packing = {(values->shape[0] + TN_PANEL - 1) / TN_PANEL, tn_weight_scales(weight)};
    TN_TRY(tn_weight_derive(weight, "panels", tn_pack_panels, &packing, &tensor));
    return tn_graph_new_constant(values->graph, values->name, tensor, out);
}

bool tn_convolution_read(const tenon_node *node, tenon_dtype dtype, tn_convolution *c) {
    int64_t dilation[2];
    bool padded = tn_node_is(node, TN_OP_padded_convolution);
    if (!padded && !tn_node_is(node, TN_OP_convolution))
        return false;
    const tenon_value *y = node->outputs[0];
    c->x = tn_arg_value(node, 0);
    c->bias = tn_arg_value(node, 2);
    if (tn_arg_bool(node, 6) || !c->x || !tn_value_static(c->x) || c->x->rank != 4 ||
        c->x->dtype != dtype || tn_value_numel(c->x) < 1 || !tn_value_static(y) ||
        !y->channels_last || !tn_weight_read(tn_arg_value(node, 1), &c->weight) ||
        c->weight.values->dtype != dtype ||
        !tenon_view_is_contiguous(&c->weight.values->tensor->view) ||
        (c->bias ? c->bias->dtype != dtype : !tn_arg_is_none(node, 2)) ||
        tn_arg_ints_of(node, 3, c->stride, 2) != 2 || tn_arg_ints_of(node, 4, c->padding, 2) != 2 ||
        tn_arg_ints_of(node, padded ? 9 : 4, c->padding + 2, 2) != 2 ||
        tn_arg_ints_of(node, 5, dilation, 2) != 2 || dilation[0] != 1 || dilation[1] != 1)
        return false;
    c->groups = tn_arg_int(node, 8, 1);
    c->kernel[0] = c->weight.values->shape[2];
    c->kernel[1] = c->weight.values->shape[3];
    return true;
}

tenon_status tn_convolution_pack(tenon_node *node, const tn_convolution *c, tenon_value *x,
                                 tenon_value *scale) {
    tenon_value *weight;
    tenon_arg kernel[2], stride[2], padding[4];
    TN_TRY(tn_packed_weight(&c->weight, &weight));
    tn_post_ops post = tn_post_ops_of(node);
    return tn_fuse(TN_OP_packed_convolution, &post,
                   TN_ARGS(VAL(x), scale ? VAL(scale) : NIL, VAL(weight),
                           c->bias ? VAL(c->bias) : NIL, post.residual ? VAL(post.residual) : NIL,
                           INT(c->weight.values->shape[0]), tn_ints(kernel, c->kernel, 2),
                           tn_ints(stride, c->stride, 2), tn_ints(padding, c->padding, 4)));
}

bool tn_convolution_is_product(const tn_convolution *c) {
    static const int64_t zeros[4] = {0};
    return c->groups == 1 && c->kernel[0] == 1 && c->kernel[1] == 1 && c->stride[0] == 1 &&
           c->stride[1] == 1 && memcmp(c->padding, zeros, sizeof zeros) == 0;
}

tenon_status tn_convolution_widen(tn_convolution *c) {
    TN_TRY(tn_widened(c->weight.values, &c->weight.values));
    return tn_widened(c->bias, &c->bias);
}
