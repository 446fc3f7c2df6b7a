/* Recognises linear layers: linear(x, w, b) = x w^T + b over the last dimension of x.
 *
 *     addmm(b, x, permute(w, [1, 0]))      ->  linear(x, w, b)       mm likewise, without b
 *     mm(x, constant m)                    ->  linear(x, w)          w is m turned around
 *     bmm(x, expand(m))                    ->  linear(x, w)          one matrix for the batch
 *     add(linear(x, w), b)                 ->  linear(x, w, b)       b: an element an output
 *     linear(view(x, [rows, k]), w, b)     ->  view(linear(x, w, b))
 *
 * The last lets the views around a layer cancel.
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"

/* A constant over the same memory with dimensions 0 and 1 swapped. */
static tenon_status swapped(tenon_graph *graph, const tenon_value *matrix, const tenon_view *view,
                            tenon_value **out) {
    tenon_view turned = *view;
    tenon_tensor *tensor = NULL;
    turned.shape[0] = view->shape[1];
    turned.shape[1] = view->shape[0];
    turned.strides[0] = view->strides[1];
    turned.strides[1] = view->strides[0];
    TN_TRY(tn_tensor_over(matrix->tensor->storage, &turned, &tensor));
    return tn_graph_new_constant(graph, matrix->name, tensor, out);
}

/* A value of which `matrix` is the transpose: behind a permute, or a constant. NULL when there is
 * none. */
static tenon_status weight_of(tenon_node *node, tenon_value *matrix, tenon_value **out) {
    static const enum tn_op_id swaps[] = {TN_OP_permute, TN_OP_t,       TN_OP_transpose_int,
                                          TN_OP_mT,      TN_OP_numpy_T, TN_OP_swapaxes};
    int64_t order[2];
    *out = NULL;
    if (!matrix || matrix->rank != 2)
        return TENON_OK;
    for (int i = 0; i < TN_COUNT(swaps); i++) {
        const tenon_node *swap = tn_made_by(matrix, swaps[i]);
        if (!swap)
            continue;
        bool turns = true;
        if (swaps[i] == TN_OP_permute)
            turns = tn_arg_ints(swap, 1, order, 2) == 2 && (order[0] == 1 || order[0] == -1);
        else if (swaps[i] == TN_OP_transpose_int || swaps[i] == TN_OP_swapaxes)
            turns = (tn_arg_int(swap, 1, 0) & 1) != (tn_arg_int(swap, 2, 0) & 1);
        *out = turns ? tn_arg_value(swap, 0) : NULL;
        return TENON_OK;
    }
    return tn_is_constant(matrix) ? swapped(node->graph, matrix, &matrix->tensor->view, out)
                                  : TENON_OK;
}

static tenon_status from_mm(tenon_node *node, tenon_value **with) {
    tenon_value *weight;
    if (!tn_is_float_value(node->outputs[0]))
        return TENON_OK;
    TN_TRY(weight_of(node, tn_arg_value(node, 1), &weight));
    return weight ? tn_emit(node, TN_OP_linear, with, TN_ARGS(node->args[0], VAL(weight)))
                  : TENON_OK;
}

/* A bias has one dimension, and one element for each row of the weight. */
static bool is_bias(const tenon_value *bias, const tenon_value *weight) {
    return bias && bias->rank == 1 && bias->dtype == weight->dtype && tn_size_of(weight, 0) >= 0 &&
           tn_size_of(bias, 0) == tn_size_of(weight, 0);
}

static tenon_status from_addmm(tenon_node *node, tenon_value **with) {
    tenon_value *weight, *bias = tn_arg_value(node, 0), *matrix = tn_arg_value(node, 2);
    if (!tn_is_float_value(node->outputs[0]) || !tn_arg_is(node, 3, 1) || !tn_arg_is(node, 4, 1) ||
        !bias || !matrix || bias->rank != 1 || bias->dtype != matrix->dtype ||
        tn_size_of(bias, 0) < 0 || tn_size_of(bias, 0) != tn_size_of(matrix, 1))
        return TENON_OK;
    TN_TRY(weight_of(node, matrix, &weight));
    return weight
               ? tn_emit(node, TN_OP_linear, with, TN_ARGS(node->args[1], VAL(weight), VAL(bias)))
               : TENON_OK;
}

/* The matrix that every item of a batch of matrices is, turned; NULL when they differ. */
static tenon_status batch_weight(tenon_node *node, tenon_value *batch, tenon_value **out) {
    *out = NULL;
    if (tn_is_constant(batch)) {
        tenon_view view = batch->tensor->view;
        if (view.strides[0] != 0 && view.shape[0] != 1)
            return TENON_OK;
        for (int i = 0; i < 2; i++) {
            view.shape[i] = view.shape[i + 1];
            view.strides[i] = view.strides[i + 1];
        }
        view.rank = 2;
        return swapped(node->graph, batch, &view, out);
    }
    const tenon_node *expand = tn_made_by(batch, TN_OP_expand);
    tenon_value *matrix = expand ? tn_arg_value(expand, 0) : NULL;
    if (!matrix || matrix->rank > 3 || matrix->rank < 2 ||
        (matrix->rank == 3 && matrix->shape[0] != 1) ||
        matrix->shape[matrix->rank - 2] != batch->shape[1] ||
        matrix->shape[matrix->rank - 1] != batch->shape[2])
        return TENON_OK;
    static const int64_t order[] = {1, 0};
    TN_TRY(tn_emit_view(node, matrix, batch->shape + 1, 2, &matrix));
    TN_TRY(weight_of(node, matrix, out));
    return *out ? TENON_OK : tn_emit_permute(node, matrix, order, 2, out);
}

static tenon_status from_bmm(tenon_node *node, tenon_value **with) {
    tenon_value *weight, *batch = tn_arg_value(node, 1);
    if (!tn_is_float_value(node->outputs[0]) || !batch || !tn_value_static(batch) ||
        batch->rank != 3)
        return TENON_OK;
    TN_TRY(batch_weight(node, batch, &weight));
    return weight ? tn_emit(node, TN_OP_linear, with, TN_ARGS(node->args[0], VAL(weight)))
                  : TENON_OK;
}

static tenon_status add_bias(tenon_node *node, tenon_value **with) {
    if (!tn_arg_is(node, 2, 1))
        return TENON_OK;
    for (int i = 0; i < 2; i++) {
        const tenon_node *linear = tn_only_by(tn_arg_value(node, i), TN_OP_linear);
        tenon_value *bias = tn_arg_value(node, 1 - i);
        if (linear && tn_arg_is_none(linear, 2) && is_bias(bias, tn_arg_value(linear, 1)))
            return tn_emit(node, TN_OP_linear, with,
                           TN_ARGS(linear->args[0], linear->args[1], VAL(bias)));
    }
    return TENON_OK;
}

/* Flattened rows go back into their shape before the product rather than after it. */
static tenon_status unflatten(tenon_node *node, tenon_value **with) {
    const tenon_node *view = tn_made_by(tn_arg_value(node, 0), TN_OP_view);
    tenon_value *x = view ? tn_arg_value(view, 0) : NULL, *y;
    const tenon_value *out = node->outputs[0];
    if (!x || !tn_value_static(x) || !tn_value_static(out) || out->rank != 2 || x->rank < 3 ||
        tn_size_of(x, -1) != tn_size_of(tn_arg_value(node, 0), -1))
        return TENON_OK;
    TN_TRY(tn_emit(node, TN_OP_linear, &y, TN_ARGS(VAL(x), node->args[1], node->args[2])));
    tn_name_after(y, node);
    return tn_emit_view(node, y, out->shape, out->rank, with);
}

/* Needs no sizes. */
tenon_status tn_pass_linear(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {{TN_OP_mm, from_mm}, {TN_OP_addmm, from_addmm}};
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}

tenon_status tn_pass_linear_shapes(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {{TN_OP_mm, from_mm},
                                    {TN_OP_addmm, from_addmm},
                                    {TN_OP_bmm, from_bmm},
                                    {TN_OP_add_Tensor, add_bias},
                                    {TN_OP_linear, unflatten}};
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
