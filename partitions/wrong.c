/* What the oneDNN that is loaded computes wrongly when it fuses it. */
#include "partitions/policy.h"

enum { OPEN = 24 }; /* ops before a binary one that are looked at */

/* Whether an operand has an element of its own for each of the result. */
static bool is_whole(const tn_builder *b, const tn_lowered *op, int k) {
    return tn_elements(b, op->in[k]) == tn_elements(b, op->out[0]);
}

/* Whether an operand changes along some of the leading dimensions, and not along others. */
static bool is_patch(const tn_builder *b, const tn_lowered *op, int k) {
    const tn_lt *x = &b->tensors[op->in[k]], *y = &b->tensors[op->out[0]];
    bool changes = false, stays = false;
    for (int d = 0; d < y->rank - 1; d++) {
        int of_x = d - y->rank + x->rank;
        if (y->shape[d] == 1)
            continue;
        if (of_x >= 0 && x->shape[of_x] != 1)
            changes = true;
        else
            stays = true;
    }
    return changes && stays;
}

/* Whether an operand changes from channel to channel only, of images of one pixel. */
static bool is_of_pixels(const tn_builder *b, const tn_lowered *op, int k) {
    const tn_lt *y = &b->tensors[op->out[0]];
    return y->rank > 2 && y->shape[0] > 1 && y->shape[1] > 1 &&
           tn_elements(b, op->out[0]) == y->shape[0] * y->shape[1] &&
           tn_elements(b, op->in[k]) == y->shape[1];
}

/* A product of many matrices with one. */
static bool shares_weight(const tn_builder *b, const tn_lowered *op) {
    const tn_lt *w = &b->tensors[op->in[1]];
    int64_t matrices = 1;
    for (int d = 0; d < w->rank - 2; d++)
        matrices *= w->shape[d];
    return matrices == 1 && b->tensors[op->out[0]].rank > 2;
}

/* Why a binary op, whose operand `other` does not come from `before`, must not be fused with it. */
static const tn_why *wrong_with(const tn_builder *b, const tn_lowered *op, int other,
                                const tn_lowered *before) {
    static const tn_why deconv = {TENON_REASON_ACCURACY,
                                  "before 3.13 oneDNN computes a binary op behind a transposed "
                                  "convolution wrongly"};
    static const tn_why pool = {TENON_REASON_ACCURACY,
                                "oneDNN 3.7 reads the other operand of a binary op behind a pool "
                                "in the wrong places"};
    static const tn_why norm = {TENON_REASON_ACCURACY,
                                "oneDNN 3.7 loses what is added to the result of a LayerNorm"};
    static const tn_why rows = {TENON_REASON_ACCURACY,
                                "oneDNN 3.7 takes the rows of a product with one weight together, "
                                "and misplaces an operand that is the same for some of them"};
    switch (before->kind) {
    case dnnl_graph_op_conv_transpose:
        return b->caps->deconv_binary ? NULL : &deconv;
    case dnnl_graph_op_max_pool:
    case dnnl_graph_op_avg_pool:
        return is_whole(b, op, other) ? &pool : NULL;
    case dnnl_graph_op_layer_norm:
        return op->kind == dnnl_graph_op_add && is_whole(b, op, other) ? &norm : NULL;
    case dnnl_graph_op_matmul:
        return is_patch(b, op, other) && shares_weight(b, before) ? &rows : NULL;
    default:
        return NULL;
    }
}

const tn_why *tn_fuses_wrongly(const tn_builder *b, const tn_lowered *op, int k) {
    static const tn_why pixel = {TENON_REASON_ACCURACY,
                                 "oneDNN 3.7 misplaces an operand for each channel of images of "
                                 "one pixel"};
    int32_t open[OPEN], at = b->tensors[op->in[k]].producer;
    int count = 0, seen = 0;
    if (at >= 0 && b->ops[at].kind != dnnl_graph_op_convolution && is_of_pixels(b, op, 1 - k))
        return &pixel;
    if (at >= 0)
        open[count++] = at;
    while (seen < count) {
        const tn_lowered *before = &b->ops[open[seen++]];
        const tn_why *why = wrong_with(b, op, 1 - k, before);
        if (why)
            return why;
        bool starts = tn_kind_starts(before->kind);
        for (int i = 0; !starts && i < before->in_count && i < 2 && count < OPEN; i++) {
            at = b->tensors[before->in[i]].producer;
            if (at >= 0)
                open[count++] = at;
        }
    }
    return NULL;
}
