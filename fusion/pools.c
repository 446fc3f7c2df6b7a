/* Puts an average pool in front of the pointwise convolution before it.
 *
 *     x -- convolution(1x1) -- avg_pool     ->     x -- avg_pool -- convolution(1x1)
 *
 * Both are linear, one over places and the other over channels, so their order does not matter but
 * for rounding; and the windows average a bias to itself where they do not reach over the edge. The
 * convolution then has only the windows to compute, a quarter of the places for a pool of 2x2 (the
 * transitions of DenseNet).
 */
#include "core/window.h"
#include "fusion/passes.h"
#include "fusion/rewrite.h"

static bool all_are(const tenon_node *node, int index, int dims, int64_t number) {
    int64_t values[3];
    if (tn_arg_ints_of(node, index, values, dims) != dims)
        return false;
    for (int d = 0; d < dims; d++)
        if (values[d] != number)
            return false;
    return true;
}

/* The convolution in front, when it takes each place for itself. */
static const tenon_node *pointwise(const tenon_value *value, int dims) {
    const tenon_node *node = tn_only_by(value, TN_OP_convolution);
    const tenon_value *weight = node ? tn_arg_value(node, 1) : NULL;
    if (!weight || weight->rank != dims + 2 || value->rank != dims + 2 || tn_arg_bool(node, 6) ||
        !all_are(node, 3, dims, 1) || !all_are(node, 4, dims, 0))
        return NULL;
    for (int d = 0; d < dims; d++)
        if (tn_size_of(weight, d - dims) != 1)
            return NULL;
    return node;
}

/* Whether the windows are at most half as many as the places, and do not reach over the edge. */
static bool reduces(const tenon_node *pool, const tn_pool_window *w) {
    double places = 1, windows = 1;
    for (int d = 0; d < w->n; d++) {
        if (w->padding[d] != 0)
            return false;
        places *= (double)tn_size_of(tn_arg_value(pool, 0), d - w->n);
        windows *= (double)tn_size_of(pool->outputs[0], d - w->n);
    }
    return !w->ceil && 2 * windows <= places;
}

static tenon_status pool(tenon_node *node, tenon_value **with) {
    const tenon_value *y = tn_arg_value(node, 0);
    int divisor = tn_op_param(node->op, "divisor_override");
    tn_pool_window w;
    if (!tn_value_static(node->outputs[0]) || !tn_is_float_value(node->outputs[0]) ||
        !tn_value_static(y) || (divisor >= 0 && !tn_arg_is_none(node, divisor)) ||
        !tn_pool_window_read(node, false, &w) || !reduces(node, &w))
        return TENON_OK;
    const tenon_node *conv = pointwise(y, w.n);
    if (!conv)
        return TENON_OK;
    tenon_arg a[10];
    tenon_value *pooled;
    for (int i = 0; i < node->op->param_count; i++)
        a[i] = node->args[i];
    a[0] = conv->args[0];
    TN_TRY(tn_emit(node, (enum tn_op_id)node->op->id, &pooled, a, node->op->param_count));
    tn_name_after(pooled, node);
    for (int i = 0; i < conv->op->param_count; i++)
        a[i] = conv->args[i];
    a[0] = VAL(pooled);
    TN_TRY(tn_emit(node, TN_OP_convolution, with, a, conv->op->param_count));
    tn_name_after(*with, conv);
    return TENON_OK;
}

tenon_status tn_pass_pools(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {
        {TN_OP_avg_pool1d, pool}, {TN_OP_avg_pool2d, pool}, {TN_OP_avg_pool3d, pool}};
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
