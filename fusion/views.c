/* Brings views into three forms and cancels chains of them, now that sizes are known.
 *
 *     squeeze, unsqueeze, flatten, reshape, view_as, ...  ->  view
 *     t, transpose, movedim, ...                          ->  permute
 *     expand_as, broadcast_to                             ->  expand
 *
 *     view(view(x)) -> view(x),  permute(permute(x)) -> permute(x),  expand(expand(x)) -> expand(x)
 *     cast(cast(x)) -> cast(x)   when the first cast loses nothing
 *
 * A view that changes nothing (the same shape, dimensions in order, a slice of everything, a cast
 * to the same dtype, a cat of one) is its input. A permute that moves dimensions of size 1 only is
 * a view.
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"
#include <string.h>

static bool known(const tenon_node *node) {
    const tenon_value *x = tn_arg_value(node, 0);
    return x && tn_value_static(x) && tn_value_static(node->outputs[0]);
}

/* The list argument `index` is exactly these numbers. */
static bool says(const tenon_node *node, int index, const int64_t *numbers, int count) {
    int64_t found[TENON_MAX_RANK];
    return tn_arg_ints(node, index, found, TENON_MAX_RANK) == count &&
           (count == 0 || memcmp(found, numbers, (size_t)count * sizeof *found) == 0);
}

static tenon_status reshape(tenon_node *node, tenon_value **with) {
    if (!known(node))
        return TENON_OK;
    tenon_value *x = tn_arg_value(node, 0);
    const tenon_value *out = node->outputs[0];
    const tenon_node *before = tn_made_by(x, TN_OP_view);
    if (before)
        x = tn_arg_value(before, 0);
    if (!before && node->op->id == TN_OP_view && !tn_same_sizes(x, out) &&
        says(node, 1, out->shape, out->rank))
        return TENON_OK;
    return tn_emit_view(node, x, out->shape, out->rank, with);
}

/* The order of dimensions that a node's strides rule gives: strides of the input are made unique
 * numbers, and looked up. */
static bool order_of(const tenon_node *node, int64_t *order) {
    const tenon_value *x = tn_arg_value(node, 0), *y = node->outputs[0];
    tenon_view in = {.dtype = x->dtype, .rank = x->rank},
               out = {.dtype = y->dtype, .rank = y->rank};
    for (int i = 0; i < x->rank; i++) {
        in.shape[i] = x->shape[i];
        in.strides[i] = i + 1;
        out.shape[i] = y->shape[i];
    }
    if (y->rank != x->rank || !node->op->view(node, 0, &in, &out))
        return false;
    for (int i = 0; i < y->rank; i++)
        order[i] = out.strides[i] - 1;
    return true;
}

static bool moves_ones_only(const tenon_value *x, const int64_t *order) {
    int64_t last = -1;
    for (int i = 0; i < x->rank; i++) {
        if (x->shape[order[i]] == 1)
            continue;
        if (order[i] < last)
            return false;
        last = order[i];
    }
    return true;
}

static tenon_status permute(tenon_node *node, tenon_value **with) {
    int64_t order[TENON_MAX_RANK], first[TENON_MAX_RANK];
    if (!known(node) || !order_of(node, order))
        return TENON_OK;
    tenon_value *x = tn_arg_value(node, 0);
    const tenon_value *out = node->outputs[0];
    const tenon_node *before = tn_made_by(x, TN_OP_permute);
    if (before && order_of(before, first)) {
        x = tn_arg_value(before, 0);
        for (int i = 0; i < out->rank; i++)
            order[i] = first[order[i]];
    }
    if (moves_ones_only(x, order))
        return tn_emit_view(node, x, out->shape, out->rank, with);
    if (x == tn_arg_value(node, 0) && node->op->id == TN_OP_permute &&
        says(node, 1, order, out->rank))
        return TENON_OK;
    return tn_emit_permute(node, x, order, out->rank, with);
}

static tenon_status expand(tenon_node *node, tenon_value **with) {
    if (!known(node))
        return TENON_OK;
    tenon_value *x = tn_arg_value(node, 0);
    const tenon_value *out = node->outputs[0];
    const tenon_node *before = tn_made_by(x, TN_OP_expand);
    if (before)
        x = tn_arg_value(before, 0);
    if (tn_same_sizes(x, out)) {
        with[0] = x;
        return TENON_OK;
    }
    if (tn_value_numel(x) == tn_value_numel(out)) /* it only puts ones in front */
        return tn_emit_view(node, x, out->shape, out->rank, with);
    if (!before && node->op->id == TN_OP_expand && says(node, 1, out->shape, out->rank))
        return TENON_OK;
    tenon_arg sizes[TENON_MAX_RANK];
    return tn_emit(node, TN_OP_expand, with,
                   TN_ARGS(VAL(x), tn_ints(sizes, out->shape, out->rank)));
}

/* A part that is the whole: sizes tell, since a slice only takes away (a negative step does not
 * exist). */
static tenon_status part(tenon_node *node, tenon_value **with) {
    tenon_value *x = tn_arg_value(node, 0);
    if (known(node) && tn_same_sizes(x, node->outputs[0]))
        with[0] = x;
    return TENON_OK;
}

/* One part of several: a split into one. */
static tenon_status split(tenon_node *node, tenon_value **with) {
    return node->output_count == 1 ? part(node, with) : TENON_OK;
}

/* The bits of a float's significand; 0 for other dtypes. */
static int digits_of(tenon_dtype dtype) {
    return dtype == TENON_FLOAT64    ? 53
           : dtype == TENON_FLOAT32  ? 24
           : dtype == TENON_FLOAT16  ? 11
           : dtype == TENON_BFLOAT16 ? 8
                                     : 0;
}

/* Whether `to` holds every value of `from`. */
static bool keeps_all(tenon_dtype from, tenon_dtype to) {
    int bits = 8 * (int)tenon_dtype_size(from);
    if (from == to || from == TENON_BOOL)
        return true;
    if (tn_dtype_is_float(from)) /* float16 and bfloat16 do not hold each other's */
        return digits_of(to) > digits_of(from) && (from != TENON_BFLOAT16 || to != TENON_FLOAT16);
    bits -= !tn_dtype_is_unsigned(from); /* the sign's */
    if (tn_dtype_is_float(to))
        return bits <= digits_of(to);
    return tn_dtype_is_integer(to) &&
           (tn_dtype_is_unsigned(to)
                ? tn_dtype_is_unsigned(from) && bits <= 8 * (int)tenon_dtype_size(to)
                : bits < 8 * (int)tenon_dtype_size(to));
}

/* cast(cast(x)), where the first loses nothing, is one cast, or x itself. */
static tenon_status cast(tenon_node *node, tenon_value **with) {
    tenon_value *x = tn_arg_value(node, 0);
    tenon_dtype dtype = node->outputs[0]->dtype;
    const tenon_node *before = tn_made_by(x, TN_OP_to_copy);
    tenon_value *source = before ? tn_arg_value(before, 0) : NULL;
    if (!x || x->dtype == TENON_DTYPE_NONE || dtype == TENON_DTYPE_NONE)
        return TENON_OK;
    bool skip = source && source->dtype != TENON_DTYPE_NONE && keeps_all(source->dtype, x->dtype);
    if (x->dtype == dtype) {
        with[0] = x;
        return TENON_OK;
    }
    return skip ? tn_emit_cast(node, source, dtype, with) : TENON_OK;
}

static tenon_status cat(tenon_node *node, tenon_value **with) {
    const tenon_arg *list = &node->args[0];
    if (list->kind == TENON_ARG_LIST && list->count == 1 &&
        list->as.list[0].kind == TENON_ARG_VALUE)
        with[0] = list->as.list[0].as.value;
    return TENON_OK;
}

/* repeat and tile by ones add dimensions at most. */
static tenon_status repeat(tenon_node *node, tenon_value **with) {
    tenon_value *x = tn_arg_value(node, 0);
    const tenon_value *out = node->outputs[0];
    if (!known(node) || tn_value_numel(x) != tn_value_numel(out) || tn_value_numel(x) == 0)
        return TENON_OK;
    return tn_emit_view(node, x, out->shape, out->rank, with);
}

static const tn_rule rules[] = {
    {TN_OP_view, reshape},
    {TN_OP_reshape, reshape},
    {TN_OP_unsafe_view, reshape},
    {TN_OP_reshape_alias, reshape},
    {TN_OP_view_as, reshape},
    {TN_OP_reshape_as, reshape},
    {TN_OP_flatten_using_ints, reshape},
    {TN_OP_unflatten_int, reshape},
    {TN_OP_ravel, reshape},
    {TN_OP_squeeze, reshape},
    {TN_OP_squeeze_dim, reshape},
    {TN_OP_squeeze_dims, reshape},
    {TN_OP_unsqueeze, reshape},
    {TN_OP_permute, permute},
    {TN_OP_transpose_int, permute},
    {TN_OP_swapaxes, permute},
    {TN_OP_t, permute},
    {TN_OP_numpy_T, permute},
    {TN_OP_mT, permute},
    {TN_OP_movedim_int, permute},
    {TN_OP_movedim_intlist, permute},
    {TN_OP_expand, expand},
    {TN_OP_expand_as, expand},
    {TN_OP_broadcast_to, expand},
    {TN_OP_slice_Tensor, part},
    {TN_OP_narrow, part},
    {TN_OP_split_Tensor, split},
    {TN_OP_split_sizes, split},
    {TN_OP_split_with_sizes, split},
    {TN_OP_chunk, split},
    {TN_OP_tensor_split_sections, split},
    {TN_OP_to_copy, cast},
    {TN_OP_cat, cat},
    {TN_OP_repeat, repeat},
    {TN_OP_tile, repeat},
};

tenon_status tn_pass_views(tenon_graph *graph, bool *changed) {
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
