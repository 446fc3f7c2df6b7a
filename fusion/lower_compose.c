/* Tensors put together from others, and small formulas.
 *
 *     diag_embed(x)      ->  diagonal_scatter(zeros, x)
 *     kron(a, b)         ->  (a as (.., n, 1, ..)) * (b as (.., 1, m, ..)), seen in the result's
 * shape cross(a, b, d)     ->  roll(a, -1) * roll(b, -2) - roll(a, -2) * roll(b, -1)   along d
 *     isin(x, t)         ->  any(x[..., None] == t.flatten(), -1)
 *     max_unpool2d(x, i) ->  zeros, with x scattered to the places i of each channel
 */
#include "core/rules.h"
#include "fusion/lower.h"
#include <string.h>

/* ---- Formulas ---- */

/* log2(2^a + 2^b) = max + log2(1 + 2^-|a - b|) */
tenon_status tn_lower_logaddexp2(tenon_node *node, tenon_value **with) {
    const tenon_arg *a = node->args;
    tenon_value *top, *gap, *equal, *twice;
    TN_TRY(tn_emit(node, TN_OP_maximum, &top, TN_ARGS(a[0], a[1])));
    TN_TRY(tn_emit(node, TN_OP_sub_Tensor, &gap, TN_ARGS(a[0], a[1])));
    TN_TRY(tn_emit(node, TN_OP_abs, &gap, TN_ARGS(VAL(gap))));
    TN_TRY(tn_emit(node, TN_OP_neg, &gap, TN_ARGS(VAL(gap))));
    TN_TRY(tn_emit(node, TN_OP_exp2, &gap, TN_ARGS(VAL(gap))));
    TN_TRY(tn_emit(node, TN_OP_log1p, &gap, TN_ARGS(VAL(gap))));
    TN_TRY(tn_emit(node, TN_OP_mul_Tensor, &gap, TN_ARGS(VAL(gap), FLT(1.4426950408889634))));
    TN_TRY(tn_emit(node, TN_OP_add_Tensor, &gap, TN_ARGS(VAL(top), VAL(gap))));
    TN_TRY(tn_emit(node, TN_OP_eq_Tensor, &equal, TN_ARGS(a[0], a[1])));
    TN_TRY(tn_emit(node, TN_OP_add_Tensor, &twice, TN_ARGS(VAL(top), INT(1))));
    return tn_emit(node, TN_OP_where_self, with, TN_ARGS(VAL(equal), VAL(twice), VAL(gap)));
}

/* In float64. */
tenon_status tn_lower_float_power(tenon_node *node, tenon_value **with) {
    tenon_arg sides[2];
    for (int i = 0; i < 2; i++) {
        tenon_value *x = tn_arg_value(node, i);
        sides[i] = node->args[i];
        if (!x || x->scalar != TN_TENSOR) {
            sides[i] = x ? VAL(x) : FLT(tn_arg_float(node, i, 0));
            continue;
        }
        TN_TRY(tn_emit_cast(node, x, TENON_FLOAT64, &x));
        sides[i] = VAL(x);
    }
    enum tn_op_id op = node->op->id == TN_OP_float_power_Scalar          ? TN_OP_pow_Scalar
                       : node->op->id == TN_OP_float_power_Tensor_Scalar ? TN_OP_pow_Tensor_Scalar
                                                                         : TN_OP_pow_Tensor_Tensor;
    return tn_emit(node, op, with, TN_ARGS(sides[0], sides[1]));
}

tenon_status tn_lower_cross(tenon_node *node, tenon_value **with) {
    tenon_value *a = tn_arg_value(node, 0), *b = tn_arg_value(node, 1), *rolled[4], *left, *right;
    const tenon_value *out = node->outputs[0];
    if (!tn_value_static(a) || !tn_value_static(b) || !tn_value_static(out))
        return TENON_OK;
    tenon_arg dim = INT(tn_cross_dim(node, out->rank, out->shape) - out->rank);
    for (int i = 0; i < 4; i++) {
        tenon_value *of = i < 2 ? a : b;
        tenon_arg shift = INT(i % 2 ? -2 : -1);
        tenon_arg sizes[TENON_MAX_RANK];
        if (!tn_same_sizes(of, out))
            TN_TRY(tn_emit(node, TN_OP_expand, &of,
                           TN_ARGS(VAL(of), tn_ints(sizes, out->shape, out->rank))));
        TN_TRY(tn_emit(node, TN_OP_roll, &rolled[i],
                       TN_ARGS(VAL(of), tenon_arg_list(&shift, 1), tenon_arg_list(&dim, 1))));
    }
    TN_TRY(tn_emit(node, TN_OP_mul_Tensor, &left, TN_ARGS(VAL(rolled[0]), VAL(rolled[3]))));
    TN_TRY(tn_emit(node, TN_OP_mul_Tensor, &right, TN_ARGS(VAL(rolled[1]), VAL(rolled[2]))));
    return tn_emit(node, TN_OP_sub_Tensor, with, TN_ARGS(VAL(left), VAL(right)));
}

tenon_status tn_lower_convolution(tenon_node *node, tenon_value **with) {
    return tn_emit(node, TN_OP_convolution, with, node->args, 9);
}

/* ---- Indexing ---- */

static tenon_status flat(tenon_node *node, tenon_value *x, tenon_value **out) {
    tenon_arg all = INT(-1);
    return tn_emit(node, TN_OP_reshape, out, TN_ARGS(VAL(x), tenon_arg_list(&all, 1)));
}

tenon_status tn_lower_isin(tenon_node *node, tenon_value **with) {
    tenon_value *x = tn_arg_value(node, 0), *among = tn_arg_value(node, 1), *found;
    tenon_arg left = node->args[0], right = node->args[1];
    if (x && among) {
        TN_TRY(tn_emit(node, TN_OP_unsqueeze, &x, TN_ARGS(VAL(x), INT(-1))));
        left = VAL(x);
    }
    if (among) {
        TN_TRY(flat(node, among, &among));
        right = VAL(among);
    }
    if (!x) { /* a number, among tensors */
        left = right;
        right = node->args[0];
    }
    TN_TRY(tn_emit(node, among && x ? TN_OP_eq_Tensor : TN_OP_eq_Scalar, &found,
                   TN_ARGS(left, right)));
    if (among)
        TN_TRY(tn_emit(node, TN_OP_any_dim, &found, TN_ARGS(VAL(found), INT(-1))));
    if (tn_arg_bool(node, 3))
        TN_TRY(tn_emit(node, TN_OP_logical_not, &found, TN_ARGS(VAL(found))));
    with[0] = found;
    return TENON_OK;
}

tenon_status tn_lower_max_unpool(tenon_node *node, tenon_value **with) {
    tenon_value *x = tn_arg_value(node, 0), *index = tn_arg_value(node, 1), *zeros;
    const tenon_value *out = node->outputs[0];
    if (!tn_value_static(x) || !tn_value_static(out))
        return TENON_OK;
    int dims = node->op->id == TN_OP_max_unpool2d ? 2 : 3, rank = x->rank;
    int64_t planes = 1, from = 1, to = 1;
    for (int d = 0; d < rank; d++) {
        planes *= d < rank - dims ? x->shape[d] : 1;
        from *= d < rank - dims ? 1 : x->shape[d];
        to *= d < rank - dims ? 1 : out->shape[d];
    }
    const int64_t flat_in[2] = {planes, from}, flat_out[2] = {planes, to};
    tenon_arg sizes[2];
    TN_TRY(tn_emit_view(node, x, flat_in, 2, &x));
    TN_TRY(tn_emit_view(node, index, flat_in, 2, &index));
    TN_TRY(tn_emit(node, TN_OP_zeros, &zeros, TN_ARGS(tn_ints(sizes, flat_out, 2), DTY(x->dtype))));
    TN_TRY(tn_emit(node, TN_OP_scatter_src, &x, TN_ARGS(VAL(zeros), INT(1), VAL(index), VAL(x))));
    return tn_emit_view(node, x, out->shape, rank, with);
}

/* ---- Diagonals and blocks ---- */

static tenon_status embed(tenon_node *node, tenon_value *x, const tenon_arg *where,
                          tenon_value **out) {
    const tenon_value *result = node->outputs[0];
    tenon_value *zeros;
    tenon_arg sizes[TENON_MAX_RANK];
    TN_TRY(tn_emit(node, TN_OP_zeros, &zeros,
                   TN_ARGS(tn_ints(sizes, result->shape, result->rank), DTY(result->dtype))));
    return tn_emit(node, TN_OP_diagonal_scatter, out,
                   TN_ARGS(VAL(zeros), VAL(x), where[0], where[1], where[2]));
}

tenon_status tn_lower_diag_embed(tenon_node *node, tenon_value **with) {
    if (!tn_value_static(node->outputs[0]))
        return TENON_OK;
    return embed(node, tn_arg_value(node, 0), &node->args[1], with);
}

tenon_status tn_lower_block_diag(tenon_node *node, tenon_value **with) {
    const tenon_arg *list = &node->args[0];
    const tenon_value *out = node->outputs[0];
    tenon_arg *rows = tn_arena_array(&node->graph->arena, (size_t)list->count + 1, sizeof *rows);
    int64_t column = 0;
    if (!rows)
        return tn_no_memory();
    if (!tn_value_static(out))
        return TENON_OK;
    for (int i = 0; i < list->count; i++) {
        tenon_value *x = list->as.list[i].as.value;
        while (x->rank < 2)
            TN_TRY(tn_emit(node, TN_OP_unsqueeze, &x, TN_ARGS(VAL(x), INT(0))));
        TN_TRY(tn_emit_cast(node, x, out->dtype, &x));
        tenon_arg pad[2] = {INT(column), INT(out->shape[1] - column - x->shape[1])};
        column += x->shape[1];
        TN_TRY(tn_emit(node, TN_OP_constant_pad_nd, &x,
                       TN_ARGS(VAL(x), tenon_arg_list(pad, 2), INT(0))));
        rows[i] = VAL(x);
    }
    return tn_emit(node, TN_OP_cat, with, TN_ARGS(tenon_arg_list(rows, list->count), INT(0)));
}

tenon_status tn_lower_kron(tenon_node *node, tenon_value **with) {
    tenon_value *a = tn_arg_value(node, 0), *b = tn_arg_value(node, 1), *product;
    const tenon_value *out = node->outputs[0];
    int64_t left[TENON_MAX_RANK], right[TENON_MAX_RANK];
    if (!tn_value_static(a) || !tn_value_static(b) || !tn_value_static(out))
        return TENON_OK;
    for (int d = 0; d < out->rank; d++) {
        int i = d - (out->rank - a->rank), j = d - (out->rank - b->rank);
        left[2 * d] = i < 0 ? 1 : a->shape[i];
        left[2 * d + 1] = 1;
        right[2 * d] = 1;
        right[2 * d + 1] = j < 0 ? 1 : b->shape[j];
    }
    TN_TRY(tn_emit_view(node, a, left, 2 * out->rank, &a));
    TN_TRY(tn_emit_view(node, b, right, 2 * out->rank, &b));
    TN_TRY(tn_emit(node, TN_OP_mul_Tensor, &product, TN_ARGS(VAL(a), VAL(b))));
    return tn_emit_view(node, product, out->shape, out->rank, with);
}
