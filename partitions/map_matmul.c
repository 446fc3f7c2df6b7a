/* Mappings of products and attention. */
#include "partitions/internal.h"
#include <math.h>
#include <string.h>

/* oneDNN multiplies matrices as they lie when one of the last two dimensions is dense and rows do
 * not overlap; what has another layout goes through its slow kernels. */
static bool matrix(tn_builder *b, const tenon_view *view) {
    int r = view->rank;
    if (r < 2 || r > 5)
        return tn_refuse(b, TENON_REASON_OPERANDS,
                         "oneDNN multiplies tensors of two to five dimensions");
    for (int i = 0; i < 2; i++) {
        int inner = r - 1 - i, outer = r - 2 + i;
        bool unit = view->strides[inner] == 1 || view->shape[inner] == 1;
        bool rows = view->shape[outer] == 1 || view->strides[outer] >= view->shape[inner];
        if (unit && rows) {
            for (int d = 0; d < r - 2; d++) {
                if (view->shape[d] != 1 && view->strides[d] <= 0)
                    return tn_refuse(b, TENON_REASON_LAYOUT,
                                     "oneDNN multiplies no operand that is expanded");
            }
            return true;
        }
    }
    return tn_refuse(b, TENON_REASON_LAYOUT,
                     "oneDNN multiplies matrices that are dense along rows or columns");
}

static bool result(tn_builder *b, const tenon_view *out) {
    return tenon_view_is_contiguous(out) ||
           tn_refuse(b, TENON_REASON_LAYOUT, "oneDNN gives row-major results only");
}

/* Checks the operands, and adds MatMul with `bias` (-1: none) into `out`. */
static bool matmul(tn_builder *b, tenon_node *node, int first, int second, bool transpose, int bias,
                   int out) {
    int x = tn_b_value(b, tn_arg_value(node, first)), w = tn_b_value(b, tn_arg_value(node, second));
    tn_b_weight(b, w);
    tn_b_op(b, dnnl_graph_op_matmul, x, w, bias, out);
    tn_b_set_bool(b, dnnl_graph_op_attr_transpose_b, transpose);
    return true;
}

static bool check_operands(tn_builder *b, tenon_node *node, int first, int second) {
    const tenon_view *x = tn_b_view(b, node, first), *y = tn_b_view(b, node, second);
    return tn_b_check(b, node, x) && tn_b_check(b, node, y) && matrix(b, x) && matrix(b, y) &&
           result(b, tn_b_out_view(b, node, 0));
}

static bool vector_bias(const tenon_view *bias, const tenon_view *out) {
    int64_t columns = out->shape[out->rank - 1];
    return bias->rank >= 1 && bias->shape[bias->rank - 1] == columns &&
           tenon_view_numel(bias) == columns &&
           (columns == 1 || bias->strides[bias->rank - 1] == 1);
}

/* The bias as a vector of the result's columns. */
static int bias_of(tn_builder *b, tenon_node *node, int index) {
    tenon_value *value = tn_arg_value(node, index);
    const tenon_view *view = tn_b_view(b, node, index);
    static const int64_t one = 1;
    int bias = view->rank == 1 ? tn_b_value(b, value)
                               : tn_b_reshaped(b, value, 1, &view->shape[view->rank - 1], &one);
    tn_b_weight(b, bias);
    return bias;
}

/* linear, mm, bmm */
bool tn_map_MatMul(tn_builder *b, tenon_node *node) {
    int bias_index = tn_op_param(node->op, "bias");
    const tenon_view *bias = bias_index >= 0 ? tn_b_view(b, node, bias_index) : NULL;
    bool linear = strcmp(node->op->name, "aten.linear") == 0;
    if (!check_operands(b, node, 0, 1) || (bias && !tn_b_check(b, node, bias)))
        return false;
    if (bias && !vector_bias(bias, tn_b_out_view(b, node, 0)))
        return tn_refuse(b, TENON_REASON_LAYOUT, "its bias is not one dense vector of the columns");
    return matmul(b, node, 0, 1, linear, bias ? bias_of(b, node, bias_index) : -1,
                  tn_b_value(b, node->outputs[0]));
}

/* addmm, baddbmm: beta * self + alpha * (one @ two) */
bool tn_map_MatMulAdd(tn_builder *b, tenon_node *node) {
    const tenon_view *out = tn_b_out_view(b, node, 0), *self = tn_b_view(b, node, 0);
    double beta = tn_arg_float(node, 3, 1), alpha = tn_arg_float(node, 4, 1);
    if (!check_operands(b, node, 1, 2) || (beta != 0 && !tn_b_check(b, node, self)))
        return false;
    if (beta != 0 && beta != 1)
        return tn_refuse(b, TENON_REASON_ATTRIBUTE, "its beta is %g, and oneDNN adds with 1 only",
                         beta);
    int last = tn_b_value(b, node->outputs[0]);
    if (beta == 1 && alpha == 1 && vector_bias(self, out))
        return matmul(b, node, 1, 2, false, bias_of(b, node, 0), last);
    if (beta == 1 &&
        !(tn_view_dense(self) && (!tn_same_shape(self, out) || tn_same_layout(self, out))))
        return tn_refuse(b, TENON_REASON_LAYOUT,
                         "its addend is neither dense nor laid out as the result");

    bool scaled = alpha != 1, added = beta == 1;
    int product = scaled || added ? tn_b_inner(b, out->dtype, out->rank, out->shape) : last;
    matmul(b, node, 1, 2, false, -1, product);
    if (scaled) {
        int next = added ? tn_b_inner(b, out->dtype, out->rank, out->shape) : last;
        tn_b_op(b, dnnl_graph_op_multiply, product, tn_b_scalar(b, out->dtype, alpha), -1, next);
        product = next;
    }
    if (added)
        tn_b_op(b, dnnl_graph_op_add, product, tn_b_value(b, tn_arg_value(node, 0)), -1, last);
    return true;
}

/* ---- Attention ----
 *
 *   softmax(query @ key^T * scale + mask) @ value
 *
 * oneDNN has a kernel for the whole that gives each thread some of the heads; it takes it when
 * there are more than two heads a thread. Tenon's packs the keys and values of a head once, which
 * pays when there are queries enough: for 16 tokens in 12 heads of 64 it takes half of oneDNN's
 * time, for 64 tokens 0.92, for 128 to 1024 from 0.97 to 1.03 (AMD EPYC with AVX-512); it writes
 * heads where the model wants them, and takes any mask. */

enum { QUERY, KEY, VALUE, MASK, DROPOUT, CAUSAL, SCALE, GQA };

/* An additive mask that hides what comes after. */
static int causal_mask(tn_builder *b, tenon_dtype dtype, int64_t rows, int64_t columns) {
    void *memory = NULL;
    int64_t shape[4] = {1, 1, rows, columns};
    if (b->causal_mask >= 0 && memcmp(b->tensors[b->causal_mask].shape, shape, sizeof shape) == 0)
        return b->causal_mask;
    int mask = tn_b_literal(b, dtype, 4, shape, 0, &memory);
    for (int64_t i = 0; memory && i < rows; i++) {
        for (int64_t j = i + 1; j < columns; j++)
            ((float *)memory)[i * columns + j] = -INFINITY;
    }
    b->causal_mask = mask;
    return mask;
}

/* A row that is masked throughout gives 0 in PyTorch and NaN here, so the mask must be a constant
 * without such rows. */
static bool mask_is_safe(const tenon_view *mask) {
    if (!mask->data || !tenon_view_is_contiguous(mask) || mask->rank < 1)
        return false;
    int64_t columns = mask->shape[mask->rank - 1], rows = tenon_view_numel(mask) / columns;
    const float *row = mask->data;
    for (int64_t i = 0; i < rows; i++, row += columns) {
        bool some = false;
        for (int64_t j = 0; j < columns && !some; j++)
            some = row[j] > -INFINITY;
        if (!some)
            return false;
    }
    return true;
}

/* A mask in all four dimensions: oneDNN 3.7 takes one of three to be the same for all heads. */
static int mask_of(tn_builder *b, tenon_node *node) {
    const tenon_view *mask = tn_b_view(b, node, MASK);
    tenon_value *value = tn_arg_value(node, MASK);
    if (mask->rank != 3)
        return tn_b_value(b, value);
    int64_t shape[4] = {1, mask->shape[0], mask->shape[1], mask->shape[2]};
    int64_t strides[4] = {tenon_view_numel(mask), mask->strides[0], mask->strides[1],
                          mask->strides[2]};
    return tn_b_reshaped(b, value, 4, shape, strides);
}

static bool check_attention(tn_builder *b, tenon_node *node) {
    const tenon_view *out = tn_b_out_view(b, node, 0), *mask = tn_b_view(b, node, MASK);
    for (int i = QUERY; i <= VALUE; i++) {
        const tenon_view *view = tn_b_view(b, node, i);
        if (!tn_b_check(b, node, view) || !matrix(b, view))
            return false;
        if (view->rank != 4 || view->shape[0] != out->shape[0] || view->shape[1] != out->shape[1])
            return tn_refuse(b, TENON_REASON_OPERANDS,
                             "oneDNN's attention needs equal batches and heads");
    }
    if (out->dtype != TENON_FLOAT32)
        return tn_refuse(b, TENON_REASON_ACCURACY,
                         "oneDNN would round the scores to %s, which PyTorch keeps in float32",
                         tenon_dtype_text(out->dtype));
    if (out->shape[3] > tn_b_view(b, node, KEY)->shape[3])
        return tn_refuse(b, TENON_REASON_ACCURACY,
                         "its values are wider than its keys, which oneDNN 3.7 computes wrongly");
    if (mask && (!tn_b_check(b, node, mask) || mask->rank < 2 || !mask_is_safe(mask)))
        return tn_refuse(
            b, TENON_REASON_ACCURACY,
            "its mask might hide whole rows, which gives 0 in PyTorch and NaN in oneDNN");
    if (tn_arg_bool(node, CAUSAL) && b->options->backend == TENON_BACKEND_AUTO)
        return tn_refuse(b, TENON_REASON_KERNEL_FASTER,
                         "it is causal: the kernel skips the half of the scores that the mask "
                         "hides, oneDNN computes "
                         "them");
    int64_t queries = out->shape[2], keys = tn_b_view(b, node, KEY)->shape[2];
    if (2 * queries >= keys && b->options->backend == TENON_BACKEND_AUTO)
        return tn_refuse(
            b, TENON_REASON_KERNEL_FASTER,
            "it has %lld queries for %lld keys: from half as many on the kernel, which "
            "packs keys and values once, is as fast or faster",
            (long long)queries, (long long)keys);
    if (out->shape[0] * out->shape[1] <= 2 * b->options->threads)
        return tn_refuse(b, TENON_REASON_ONEDNN_SLOW,
                         "it has %lld heads, and oneDNN's attention is the faster one from %d on "
                         "only: more than "
                         "two a thread",
                         (long long)(out->shape[0] * out->shape[1]), 2 * b->options->threads + 1);
    return result(b, out);
}

bool tn_map_SDPA(tn_builder *b, tenon_node *node) {
    if (!check_attention(b, node))
        return false;
    const tenon_view *q = tn_b_view(b, node, QUERY), *k = tn_b_view(b, node, KEY);
    tenon_dtype dtype = q->dtype;
    int64_t shape[4] = {q->shape[0], q->shape[1], q->shape[2], k->shape[2]};
    int scores = tn_b_inner(b, dtype, 4, shape), scaled = tn_b_inner(b, dtype, 4, shape);
    int weights = tn_b_inner(b, dtype, 4, shape), at = scaled;
    double scale = tn_arg_float(node, SCALE, 1 / sqrt((double)q->shape[3]));
    tn_b_op(b, dnnl_graph_op_matmul, tn_b_value(b, tn_arg_value(node, QUERY)),
            tn_b_value(b, tn_arg_value(node, KEY)), -1, scores);
    tn_b_set_bool(b, dnnl_graph_op_attr_transpose_b, true);
    tn_b_op(b, dnnl_graph_op_multiply, scores, tn_b_scalar(b, dtype, scale), -1, scaled);
    bool causal = tn_arg_bool(node, CAUSAL);
    if (causal || tn_b_view(b, node, MASK)) {
        int mask = causal ? causal_mask(b, dtype, shape[2], shape[3]) : mask_of(b, node);
        at = tn_b_inner(b, dtype, 4, shape);
        tn_b_op(b, dnnl_graph_op_add, scaled, mask, -1, at);
    }
    tn_b_op(b, dnnl_graph_op_softmax, at, -1, -1, weights);
    tn_b_set_int(b, dnnl_graph_op_attr_axis, -1);
    tn_b_op(b, dnnl_graph_op_matmul, weights, tn_b_value(b, tn_arg_value(node, VALUE)), -1,
            tn_b_value(b, node->outputs[0]));
    return true;
}
