/* Formulas of norms, statistics and calculus.
 *
 * They are those of PyTorch's documentation and of ATen's ReduceOps.cpp, Correlation.cpp,
 * Sorting.cpp and Integration.cpp, with their order of operations.
 */
#include "fusion/composite.h"
#include "fusion/lower.h"
#include <math.h>
#include <string.h>

/* ---- Distances ---- */

tenon_value *tn_make_vector_norm(tn_maker *m, tenon_value *x, double order, const int64_t *dims,
                                 int count, bool keep, tenon_arg dtype) {
    tenon_arg items[TENON_MAX_RANK];
    return MAKE(linalg_vector_norm, VAL(x), FLT(order), count ? tn_ints(items, dims, count) : NIL,
                BOO(keep), dtype);
}

/* norm(x1 - x2 + eps) along the last dimension */
tenon_status tn_lower_pairwise_distance(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *gap = MAKE(sub_Tensor, node->args[0], node->args[1]);
    const int64_t last = -1;
    gap = MAKE(add_Tensor, VAL(gap), node->args[3]);
    with[0] = tn_make_vector_norm(m, gap, tn_arg_float(node, 2, 2), &last, gap->rank > 0,
                                  tn_arg_bool(node, 4), NIL);
    return m->status;
}

tenon_status tn_lower_dist(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *gap = MAKE(sub_Tensor, node->args[0], node->args[1]);
    with[0] = tn_make_vector_norm(m, gap, tn_arg_float(node, 2, 2), NULL, 0, false, NIL);
    return m->status;
}
