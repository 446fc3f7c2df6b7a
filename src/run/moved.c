/* The memory that nodes move, as `tenon explain` tells it. */
#include "run/plan.h"

int64_t tn_view_elements(const tenon_view *view) {
    int64_t named = 1;
    for (int d = 0; d < view->rank; d++)
        named *= view->strides[d] != 0 || view->shape[d] == 0 ? view->shape[d] : 1;
    int64_t reach = tn_layout_span(view) / (int64_t)tenon_dtype_size(view->dtype);
    return named < reach ? named : reach;
}

/* Operators that read their first operand by index. */
static bool reads_by_index(const tenon_node *node) {
    switch (node->op->id) {
    case TN_OP_embedding:
    case TN_OP_index_select:
    case TN_OP_gather:
    case TN_OP_index_Tensor:
    case TN_OP_unsafe_index_Tensor:
    case TN_OP_take_along_dim:
        return true;
    default:
        return false;
    }
}

int64_t tn_bytes_read(const tenon_node *node, const tenon_value *value, const tenon_view *view) {
    if (view->dtype == TENON_DTYPE_NONE)
        return 0;
    int64_t count = tn_view_elements(view);
    if (node && reads_by_index(node) && value == tn_arg_value(node, 0)) {
        int64_t taken = tn_value_numel(node->outputs[0]);
        count = taken < count ? taken : count;
    }
    return count * (int64_t)tenon_dtype_size(view->dtype);
}
