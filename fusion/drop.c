/* Drops what means nothing in a functional graph.
 *
 *     aten.clone(%x)                    ->  %x       detach, alias, contiguous, ... likewise
 *     aten.dropout(%x, p, false)        ->  %x
 *     aten._assert_...(%x)              ->  nothing
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"

static tenon_status drop_identity(tenon_node *node, tenon_value **with) {
    with[0] = tn_arg_value(node, 0);
    return TENON_OK;
}

static tenon_status drop_dropout(tenon_node *node, tenon_value **with) {
    if (tn_arg_float(node, 1, 0) != 0 && tn_arg_bool(node, 2))
        return tn_pass_refuse(node, "dropout in training is random; export the model after eval()");
    with[0] = tn_arg_value(node, 0);
    return TENON_OK;
}

static tenon_status drop_native_dropout(tenon_node *node, tenon_value **with) {
    if (tn_arg_is_none(node, 2))
        return tn_pass_refuse(node, "dropout in training is random; export the model after eval()");
    TN_TRY(drop_dropout(node, with));
    if (!node->outputs[1]->use_count)
        return TENON_OK;
    return tn_emit(node, TN_OP_ones_like, &with[1], TN_ARGS(VAL(with[0]), DTY(TENON_BOOL)));
}

static const tn_rule rules[] = {
    {TN_OP_alias, drop_identity},
    {TN_OP_detach, drop_identity},
    {TN_OP_lift_fresh, drop_identity},
    {TN_OP_lift_fresh_copy, drop_identity},
    {TN_OP_contiguous, drop_identity},
    {TN_OP_positive, drop_identity},
    {TN_OP_clone, drop_identity},
    {TN_OP_dropout, drop_dropout},
    {TN_OP_alpha_dropout, drop_dropout},
    {TN_OP_feature_dropout, drop_dropout},
    {TN_OP_native_dropout, drop_native_dropout},
};

static bool is_check(const tenon_node *node) {
    switch (node->op->id) {
    case TN_OP_assert_scalar:
    case TN_OP_assert_tensor_metadata:
    case TN_OP_assert_async_msg:
    case TN_OP_sym_constrain_range:
    case TN_OP_sym_constrain_range_for_size:
        return true;
    default:
        return false;
    }
}

tenon_status tn_pass_drop(tenon_graph *graph, bool *changed, void *user) {
    (void)user;
    for (tenon_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (!is_check(node))
            continue;
        TN_TRY(tenon_node_erase(node));
        *changed = true;
    }
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
