/* Drops what means nothing in a functional graph.
 *
 *     aten.clone(%x)                    ->  %x       detach, alias, contiguous, ... likewise
 *     aten._assert_...(%x)              ->  nothing
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"

static tenon_status drop_identity(tenon_node *node, tenon_value **with) {
    with[0] = tn_arg_value(node, 0);
    return TENON_OK;
}

static const tn_rule rules[] = {
    {TN_OP_alias, drop_identity},      {TN_OP_detach, drop_identity},
    {TN_OP_lift_fresh, drop_identity}, {TN_OP_lift_fresh_copy, drop_identity},
    {TN_OP_contiguous, drop_identity}, {TN_OP_positive, drop_identity},
    {TN_OP_clone, drop_identity},
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

tenon_status tn_pass_drop(tenon_graph *graph, bool *changed) {
    for (tenon_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (!is_check(node))
            continue;
        TN_TRY(tenon_node_erase(node));
        *changed = true;
    }
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
