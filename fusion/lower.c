/* Rewrites composite ops into those that have kernels, each as soon as what it needs is known.
 *
 *     conv2d(x, w, b, padding="same")     ->     constant_pad_nd - convolution
 *     layer_norm(x, shape, w, b)          ->     native_layer_norm(x, shape, w, b)[0]
 *     matmul(x, y)                        ->     view - bmm - view
 *     dropout(x, p, train=false)          ->     x
 *
 * "lower" runs before symbols are bound and leaves what needs sizes; "lower_all" runs behind, and
 * leaves nothing. lower.h lists the ops, and lower_*.c have their rules.
 */
#include "fusion/lower.h"
#include "fusion/passes.h"

static const tn_rule rules[] = {
#define X(op, function) {TN_OP_##op, tn_lower_##function},
    TN_LOWER_LIST(X) TN_COMPOSITE_LIST(X)
#undef X
};

tn_rule_fn tn_lower_rule(int op) {
    for (int i = 0; i < TN_COUNT(rules); i++)
        if (rules[i].op == (enum tn_op_id)op)
            return rules[i].run;
    return NULL;
}

tenon_status tn_pass_lower(tenon_graph *graph, bool *changed) {
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}

/* With all sizes known, nothing may be left to lower. */
tenon_status tn_pass_lower_all(tenon_graph *graph, bool *changed) {
    TN_TRY(tn_pass_lower(graph, changed));
    for (const tenon_node *node = graph->first; node; node = node->next) {
        if (node->op->kind == TN_OP_LOWER)
            return tn_pass_refuse(node, "this form of the op is not supported");
        if (node->op->kind == TN_OP_INPLACE)
            return tn_pass_refuse(node,
                                  "it writes in place, and the graph was not made functional");
    }
    return TENON_OK;
}
