/* Folds padding by a constant into the window that reads it; padding by nothing goes.
 *
 *     x -- constant_pad_nd([0, 0, ..])                    ->   x
 *     x -- constant_pad_nd(0) -- convolution(padding)     ->   x -- convolution(padding + pad)
 *     x -- constant_pad_nd(0) -- avg_pool(padding)        ->   x -- avg_pool(padding + pad)
 *     x -- constant_pad_nd(-inf) -- max_pool(padding)     ->   x -- max_pool(padding + pad)
 *
 * Padding that differs at the two ends (as TensorFlow's "SAME" does with even sizes) makes a
 * convolution tenon.padded_convolution. Pools pad both ends alike, but do not read what is in no
 * window, and ceil_mode adds what a last window lacks: the fold is made when one of the two modes
 * gives the same number of windows.
 *
 * Exact, since a convolution adds 0 for padding; an average divides by its whole window, for which
 * divisor_override speaks where padding would not count; and a maximum ignores minus infinity, and
 * 0 too when no element is below it and each window has one. Pads below 0 cut: they stay.
 */
#include "core/window.h"
#include "fusion/passes.h"
#include "fusion/rewrite.h"
#include <math.h>

typedef struct pads {
    tenon_value *x;           /* what is padded */
    int64_t begin[3], end[3]; /* by spatial dimension */
    double value;
} pads;

/* Reads the padding of `value` over its last `dims` dimensions. */
static bool read_pads(const tenon_value *value, int dims, pads *p) {
    const tenon_node *node = tn_made_by(value, TN_OP_constant_pad_nd);
    int64_t amounts[2 * TENON_MAX_RANK];
    int count = node ? tn_arg_ints(node, 1, amounts, TN_COUNT(amounts)) : 0;
    if (count < 2 || count % 2 || !tn_arg_number(node, 2, &p->value))
        return false;
    p->x = tn_arg_value(node, 0);
    if (!p->x || !tn_value_static(p->x) || !tn_value_static(value) || p->x->rank < dims)
        return false;
    for (int i = 0; i < count; i++)
        if (amounts[i] < 0 || (i >= 2 * dims && amounts[i] != 0))
            return false;
    for (int d = 0; d < dims; d++) { /* pairs stand from the last dimension on */
        int at = 2 * (dims - 1 - d);
        p->begin[d] = at < count ? amounts[at] : 0;
        p->end[d] = at < count ? amounts[at + 1] : 0;
        if (p->x->shape[p->x->rank - dims + d] < 1)
            return false;
    }
    return true;
}

/* ---- Convolution ---- */

static tenon_status convolution(tenon_node *node, tenon_value **with) {
    bool padded = tn_node_is(node, TN_OP_padded_convolution);
    const tenon_value *weight = tn_arg_value(node, 1);
    int dims = weight ? weight->rank - 2 : 0;
    int64_t begin[3], end[3];
    tenon_arg items[2][3], a[10];
    pads p;
    if (dims < 1 || dims > 3 || tn_arg_bool(node, 6) ||
        !read_pads(tn_arg_value(node, 0), dims, &p) || p.value != 0 || p.x->rank != dims + 2 ||
        tn_arg_ints_of(node, 4, begin, dims) != dims ||
        tn_arg_ints_of(node, padded ? 9 : 4, end, dims) != dims)
        return TENON_OK;
    bool alike = true;
    for (int d = 0; d < dims; d++) {
        if (!tn_add(begin[d], p.begin[d], &begin[d]) || !tn_add(end[d], p.end[d], &end[d]))
            return TENON_OK;
        alike &= begin[d] == end[d];
    }
    for (int i = 0; i < 9; i++)
        a[i] = node->args[i];
    a[0] = VAL(p.x);
    a[4] = tn_ints(items[0], begin, dims);
    a[9] = tn_ints(items[1], end, dims);
    return tn_emit(node, alike ? TN_OP_convolution : TN_OP_padded_convolution, with, a,
                   alike ? 9 : 10);
}

/* ---- Pools ---- */

/* The number of windows that PyTorch makes (pooling_output_shape). */
static int64_t window_count(int64_t in, int64_t kernel, int64_t stride, int64_t padding,
                            bool ceil) {
    int64_t room = in + 2 * padding - kernel + (ceil ? stride - 1 : 0);
    int64_t count = room < 0 ? 0 : room / stride + 1;
    return ceil && count > 0 && (count - 1) * stride >= in + padding ? count - 1 : count;
}

/* Puts the padding in front of `p` into the window, when it then has as many places as before with
 * `ceil`. */
static bool fits(const tenon_node *node, const pads *p, const tn_pool_window *w, bool ceil) {
    for (int d = 0; d < w->n; d++) {
        int64_t in = tn_size_of(p->x, d - w->n), want = tn_size_of(node->outputs[0], d - w->n);
        int64_t padding;
        if (!tn_add(w->padding[d], p->begin[d], &padding) || padding > w->kernel[d] / 2 ||
            window_count(in, w->kernel[d], w->stride[d], padding, ceil) != want)
            return false;
    }
    return true;
}

/* Reads window and padding, and decides the mode. */
static bool match_pool(const tenon_node *node, bool max, tn_pool_window *w, pads *p, bool *ceil) {
    if (!tn_is_float_value(node->outputs[0]) || !tn_value_static(node->outputs[0]) ||
        !tn_pool_window_read(node, max, w) || !read_pads(tn_arg_value(node, 0), w->n, p))
        return false;
    for (int d = 0; d < w->n; d++)
        if (w->dilation[d] != 1)
            return false;
    *ceil = !fits(node, p, w, false);
    return !*ceil || fits(node, p, w, true);
}

/* No element is below 0 (NaN aside, which wins in both forms). */
static bool is_not_negative(const tenon_value *value) {
    const tenon_node *node = value->node;
    double low;
    switch (node ? node->op->id : TN_OP_COUNT) {
    case TN_OP_relu:
    case TN_OP_relu6:
    case TN_OP_sigmoid:
    case TN_OP_hardsigmoid:
    case TN_OP_softmax:
    case TN_OP_exp:
    case TN_OP_square:
    case TN_OP_abs:
        return true;
    case TN_OP_clamp:
    case TN_OP_clamp_min:
    case TN_OP_hardtanh:
        return tn_arg_number(node, 1, &low) && low >= 0;
    default:
        return false;
    }
}

static tenon_status max_pool(tenon_node *node, tenon_value **with) {
    tenon_arg padding[3];
    tn_pool_window w;
    pads p;
    bool ceil;
    if (!match_pool(node, true, &w, &p, &ceil) ||
        !((isinf(p.value) && p.value < 0) || (p.value == 0 && is_not_negative(p.x))))
        return TENON_OK;
    for (int d = 0; d < w.n; d++)
        w.padding[d] += p.begin[d];
    const tenon_arg *a = node->args;
    return tn_emit(
        node, node->op->id, with,
        TN_ARGS(VAL(p.x), a[1], a[2], tn_ints(padding, w.padding, w.n), a[4], BOO(ceil)));
}

static tenon_status avg_pool(tenon_node *node, tenon_value **with) {
    tenon_arg padding[3], a[7];
    int64_t divisor = 1;
    tn_pool_window w;
    pads p;
    bool ceil, inner = false;
    if (!match_pool(node, false, &w, &p, &ceil) || p.value != 0 || w.ceil)
        return TENON_OK;
    for (int d = 0; d < w.n; d++) {
        inner |= w.padding[d] > 0;
        w.padding[d] += p.begin[d];
        if (!tn_mul(divisor, w.kernel[d], &divisor))
            return TENON_OK;
    }
    bool given = w.n > 1 && !tn_arg_is_none(node, 6);
    if ((inner && !given && !tn_arg_bool(node, 5)) || (w.n == 1 && ceil))
        return TENON_OK;
    for (int i = 0; i < node->op->param_count; i++)
        a[i] = node->args[i];
    a[0] = VAL(p.x);
    a[3] = tn_ints(padding, w.padding, w.n);
    a[4] = BOO(ceil);
    a[5] = BOO(true);
    if (!given && ceil)
        a[6] = INT(divisor);
    return tn_emit(node, node->op->id, with, a, node->op->param_count);
}

/* ---- Nothing ---- */

/* Models that pad to a multiple of their window do it for every image, whether it needs it or not.
 */
static tenon_status nothing(tenon_node *node, tenon_value **with) {
    int64_t amounts[2 * TENON_MAX_RANK];
    int count = tn_arg_ints(node, 1, amounts, TN_COUNT(amounts));
    for (int i = 0; i < count; i++)
        if (amounts[i] != 0)
            return TENON_OK;
    if (count >= 0)
        with[0] = tn_arg_value(node, 0);
    return TENON_OK;
}

tenon_status tn_pass_pads(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {
        {TN_OP_convolution, convolution}, {TN_OP_padded_convolution, convolution},
        {TN_OP_max_pool1d, max_pool},     {TN_OP_max_pool2d, max_pool},
        {TN_OP_max_pool3d, max_pool},     {TN_OP_avg_pool1d, avg_pool},
        {TN_OP_avg_pool2d, avg_pool},     {TN_OP_avg_pool3d, avg_pool},
        {TN_OP_constant_pad_nd, nothing}};
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
