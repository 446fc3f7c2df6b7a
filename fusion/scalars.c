/* Brings ops that take a number, and second names of ops, into one form, so that later passes see
 * only that:
 *
 *     add.Scalar(x, 2)           ->  add.Tensor(x, 2)      the number stays a literal
 *     multiply.Tensor(x, y)      ->  mul.Tensor(x, y)
 *     rsub.Scalar(x, 1)          ->  sub.Tensor(1, x)
 *     where.ScalarOther(c, x, 0) ->  where.self(c, x, 0)
 *
 * A literal takes part in type promotion as a number, whichever overload holds it. Overloads whose
 * results depend on more than that (a power of integers by a number) keep their form.
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"

/* X(from, to): the same parameters in the same order. */
#define RENAMED(X)                            \
    X(add_Scalar, add_Tensor)                 \
    X(sub_Scalar, sub_Tensor)                 \
    X(subtract_Scalar, sub_Tensor)            \
    X(subtract_Tensor, sub_Tensor)            \
    X(mul_Scalar, mul_Tensor)                 \
    X(multiply_Scalar, mul_Tensor)            \
    X(multiply_Tensor, mul_Tensor)            \
    X(div_Scalar, div_Tensor)                 \
    X(divide_Scalar, div_Tensor)              \
    X(divide_Tensor, div_Tensor)              \
    X(true_divide_Scalar, div_Tensor)         \
    X(true_divide_Tensor, div_Tensor)         \
    X(div_Scalar_mode, div_Tensor_mode)       \
    X(divide_Scalar_mode, div_Tensor_mode)    \
    X(divide_Tensor_mode, div_Tensor_mode)    \
    X(floor_divide_Scalar, floor_divide)      \
    X(remainder_Scalar, remainder_Tensor)     \
    X(fmod_Scalar, fmod_Tensor)               \
    X(eq_Scalar, eq_Tensor)                   \
    X(ne_Scalar, ne_Tensor)                   \
    X(not_equal_Scalar, ne_Tensor)            \
    X(not_equal_Tensor, ne_Tensor)            \
    X(lt_Scalar, lt_Tensor)                   \
    X(less_Scalar, lt_Tensor)                 \
    X(less_Tensor, lt_Tensor)                 \
    X(le_Scalar, le_Tensor)                   \
    X(less_equal_Scalar, le_Tensor)           \
    X(less_equal_Tensor, le_Tensor)           \
    X(gt_Scalar, gt_Tensor)                   \
    X(greater_Scalar, gt_Tensor)              \
    X(greater_Tensor, gt_Tensor)              \
    X(ge_Scalar, ge_Tensor)                   \
    X(greater_equal_Scalar, ge_Tensor)        \
    X(greater_equal_Tensor, ge_Tensor)        \
    X(bitwise_and_Scalar, bitwise_and_Tensor) \
    X(bitwise_or_Scalar, bitwise_or_Tensor)   \
    X(bitwise_xor_Scalar, bitwise_xor_Tensor) \
    X(max_other, maximum)                     \
    X(min_other, minimum)                     \
    X(arctan2, atan2)                         \
    X(where_ScalarSelf, where_self)           \
    X(where_ScalarOther, where_self)          \
    X(masked_fill_Scalar, masked_fill_Tensor) \
    X(clip, clamp)                            \
    X(clip_Tensor, clamp_Tensor)              \
    X(negative, neg)                          \
    X(absolute, abs)                          \
    X(fix, trunc)

static tenon_status rename_to(tenon_node *node, tenon_value **with, enum tn_op_id op) {
    return tn_emit(node, op, with, node->args, node->op->param_count);
}

#define X(from, to)                                                         \
    static tenon_status from_##from(tenon_node *node, tenon_value **with) { \
        return rename_to(node, with, TN_OP_##to);                           \
    }
RENAMED(X)
#undef X

/* rsub(x, y, alpha) = y - alpha * x */
static tenon_status turn(tenon_node *node, tenon_value **with) {
    return tn_emit(node, TN_OP_sub_Tensor, with,
                   TN_ARGS(node->args[1], node->args[0], node->args[2]));
}

tenon_status tn_pass_scalars(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {
#define X(from, to) {TN_OP_##from, from_##from},
        RENAMED(X)
#undef X
            {TN_OP_rsub_Scalar, turn},
        {TN_OP_rsub_Tensor, turn}};
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
