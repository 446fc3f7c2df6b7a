/* Pools and shuffles over images whose sizes are known.
 *
 *     adaptive_avg_pool(x, 1)                         ->  mean over space
 *     adaptive_avg_pool(x, n), n divides the size     ->  avg_pool(x, size / n, size / n)
 *     adaptive_max_pool2d(x, n), indices not read     ->  max_pool2d(x, size / n, size / n)
 *     view(b, g, c/g, h, w) - permute(0, 2, 1, 3, 4) - view(b, c, h, w)
 *                                                     ->  channel_shuffle(x, g)
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"

/* The windows' sizes, when they divide x's last `dims` sizes. */
static bool windows(const tenon_node *node, int dims, int64_t *sizes, bool *global) {
    const tenon_value *x = tn_arg_value(node, 0), *y = node->outputs[0];
    if (!x || !tn_value_static(x) || !tn_value_static(y) || x->rank != y->rank || x->rank <= dims)
        return false;
    *global = true;
    for (int i = 0; i < dims; i++) {
        int64_t in = tn_size_of(x, i - dims), out = tn_size_of(y, i - dims);
        if (out < 1 || in < 1 || in % out)
            return false;
        sizes[i] = in / out;
        *global &= out == 1;
    }
    return true;
}

static tenon_status average(tenon_node *node, tenon_value **with, int dims, enum tn_op_id pool) {
    int64_t sizes[3], last[3];
    tenon_arg items[3], again[3];
    bool global;
    if (!tn_is_float_value(node->outputs[0]) || !windows(node, dims, sizes, &global))
        return TENON_OK;
    for (int i = 0; i < dims; i++)
        last[i] = i - dims;
    if (global)
        return tn_emit(node, TN_OP_mean_dim, with,
                       TN_ARGS(node->args[0], tn_ints(items, last, dims), BOO(true)));
    return tn_emit(
        node, pool, with,
        TN_ARGS(node->args[0], tn_ints(items, sizes, dims), tn_ints(again, sizes, dims)));
}

static tenon_status average1d(tenon_node *node, tenon_value **with) {
    return average(node, with, 1, TN_OP_avg_pool1d);
}

static tenon_status average2d(tenon_node *node, tenon_value **with) {
    return average(node, with, 2, TN_OP_avg_pool2d);
}

static tenon_status average3d(tenon_node *node, tenon_value **with) {
    return average(node, with, 3, TN_OP_avg_pool3d);
}

static tenon_status maximum2d(tenon_node *node, tenon_value **with) {
    int64_t sizes[2];
    tenon_arg items[2], again[2];
    bool global;
    if (node->outputs[1]->use_count || !windows(node, 2, sizes, &global))
        return TENON_OK;
    return tn_emit(node, TN_OP_max_pool2d, with,
                   TN_ARGS(node->args[0], tn_ints(items, sizes, 2), tn_ints(again, sizes, 2)));
}

static tenon_status shuffle(tenon_node *node, tenon_value **with) {
    const tenon_node *permute = tn_only_by(tn_arg_value(node, 0), TN_OP_permute);
    const tenon_node *split = permute ? tn_only_by(tn_arg_value(permute, 0), TN_OP_view) : NULL;
    tenon_value *x = split ? tn_arg_value(split, 0) : NULL;
    int64_t order[TENON_MAX_RANK];
    if (!x || !tn_same_sizes(x, node->outputs[0]) || x->rank != 4 ||
        tn_arg_ints(permute, 1, order, TENON_MAX_RANK) != 5)
        return TENON_OK;
    const tenon_value *groups = split->outputs[0];
    static const int64_t want[5] = {0, 2, 1, 3, 4};
    for (int i = 0; i < 5; i++)
        if (order[i] != want[i])
            return TENON_OK;
    if (groups->shape[0] != x->shape[0] || groups->shape[3] != x->shape[2] ||
        groups->shape[4] != x->shape[3])
        return TENON_OK;
    return tn_emit(node, TN_OP_channel_shuffle, with, TN_ARGS(VAL(x), INT(groups->shape[1])));
}

tenon_status tn_pass_spatial(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {
        {TN_OP_adaptive_avg_pool1d, average1d},
        {TN_OP_adaptive_avg_pool2d, average2d},
        {TN_OP_adaptive_avg_pool3d, average3d},
        {TN_OP__adaptive_avg_pool2d, average2d},
        {TN_OP__adaptive_avg_pool3d, average3d},
        {TN_OP_adaptive_max_pool2d, maximum2d},
        {TN_OP_view, shuffle},
    };
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
