/* Mappings of ops that only move elements. */
#include "partitions/internal.h"

bool tn_map_Concat(tn_builder *b, tenon_node *node) {
    const tenon_view *out = tn_b_out_view(b, node, 0);
    const tenon_arg *list = &node->args[0];
    int tensors[TN_LOWERED_INPUTS], count = 0;
    if (list->count > TN_LOWERED_INPUTS)
        return tn_refuse(b, TENON_REASON_OPERANDS, "oneDNN joins %d tensors at most",
                         TN_LOWERED_INPUTS);
    if (!tn_b_check(b, node, out))
        return false;
    if (!tn_view_dense(out))
        return tn_refuse(b, TENON_REASON_LAYOUT, "its result is strided");
    for (int i = 0; i < list->count; i++) {
        const tenon_arg *item = &list->as.list[i];
        /* Only one that is empty may have another rank. */
        if (!tn_b_check(b, node, &b->views[item->as.value->id]))
            return false;
        tensors[count++] = tn_b_value(b, item->as.value);
    }
    int64_t dim = tn_arg_int(node, 1, 0);
    tn_b_op_list(b, dnnl_graph_op_concat, tensors, count, tn_b_value(b, node->outputs[0]));
    tn_b_set_int(b, dnnl_graph_op_attr_axis, dim < 0 ? dim + out->rank : dim);
    return true;
}

/* clone: a copy, from one layout to another perhaps */
bool tn_map_Reorder(tn_builder *b, tenon_node *node) {
    const tenon_view *in = tn_b_view(b, node, 0), *out = tn_b_out_view(b, node, 0);
    if (!tn_b_check(b, node, in))
        return false;
    if (in->rank < 1 || in->rank > 6 || !tn_view_dense(in) || !tn_view_dense(out))
        return tn_refuse(b, TENON_REASON_LAYOUT, "it copies from a strided view");
    tn_b_op(b, dnnl_graph_op_reorder, tn_b_value(b, tn_arg_value(node, 0)), -1, -1,
            tn_b_value(b, node->outputs[0]));
    return true;
}
