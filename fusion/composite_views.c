/* Copies of views, and views by other names:
 *
 *     transpose_copy(x, 0, 1)  ->  transpose(x, 0, 1)
 *     hsplit(x, 3)             ->  tensor_split(x, 3, 1)
 *     atleast_2d(x)            ->  view(x, [1, n])
 *
 * In a functional graph a view and its copy hold the same elements; fusion/alias.c tells which of
 * these may share memory with their input.
 */
#include "fusion/composite.h"
#include "fusion/lower.h"
#include <math.h>
#include <string.h>

/* ---- The same arguments, another op ---- */

static enum tn_op_id base_of(int op) {
    switch (op) {
    case TN_OP_as_strided_copy:
        return TN_OP_as_strided;
    case TN_OP_diagonal_copy:
    case TN_OP_linalg_diagonal:
        return TN_OP_diagonal;
    case TN_OP_expand_copy:
        return TN_OP_expand;
    case TN_OP_narrow_copy:
        return TN_OP_narrow;
    case TN_OP_permute_copy:
        return TN_OP_permute;
    case TN_OP_select_copy_int:
        return TN_OP_select_int;
    case TN_OP_slice_copy_Tensor:
        return TN_OP_slice_Tensor;
    case TN_OP_split_copy_Tensor:
    case TN_OP_unsafe_split_Tensor:
        return TN_OP_split_Tensor;
    case TN_OP_split_with_sizes_copy:
    case TN_OP_unsafe_split_with_sizes:
        return TN_OP_split_with_sizes;
    case TN_OP_unsafe_chunk:
        return TN_OP_chunk;
    case TN_OP_squeeze_copy:
        return TN_OP_squeeze;
    case TN_OP_squeeze_copy_dim:
        return TN_OP_squeeze_dim;
    case TN_OP_squeeze_copy_dims:
        return TN_OP_squeeze_dims;
    case TN_OP_t_copy:
        return TN_OP_t;
    case TN_OP_transpose_copy_int:
        return TN_OP_transpose_int;
    case TN_OP_unbind_copy_int:
        return TN_OP_unbind_int;
    case TN_OP_unfold_copy:
        return TN_OP_unfold;
    case TN_OP_unsqueeze_copy:
        return TN_OP_unsqueeze;
    case TN_OP_view_copy:
        return TN_OP_view;
    case TN_OP_vdot:
        return TN_OP_dot;
    default:
        return TN_OP_alias; /* alias_copy, detach_copy, conj_physical */
    }
}

/* All outputs of a node that gives a list take the place of the rule's. */
static tenon_status give_list(tenon_node *node, enum tn_op_id op, const tenon_arg *args, int count,
                              tenon_value **with) {
    tenon_node *made;
    TN_TRY(tn_graph_add(node->graph, node, tn_op_by_id(op), NULL, args, count, -1, &made));
    tenon_node_copy_source(made, node);
    if (made->output_count > 64)
        return tn_pass_refuse(node, "it gives more than 64 tensors");
    for (int i = 0; i < made->output_count; i++)
        with[i] = made->outputs[i];
    return TENON_OK;
}

tenon_status tn_lower_renamed(tenon_node *node, tenon_value **with) {
    return give_list(node, base_of(node->op->id), node->args, node->op->param_count, with);
}

/* ---- Parts ---- */

/* hsplit, vsplit, dsplit: along the second dimension (of one: the first), the first, the third. */
tenon_status tn_lower_split_along(tenon_node *node, tenon_value **with) {
    const tenon_value *x = tn_arg_value(node, 0);
    int id = node->op->id, dim = 0, least = 2;
    bool listed = node->args[1].kind == TENON_ARG_LIST;
    if (id == TN_OP_hsplit_int || id == TN_OP_hsplit_array) {
        dim = x->rank > 1;
        least = 1;
    } else if (id == TN_OP_dsplit_int || id == TN_OP_dsplit_array) {
        dim = 2;
        least = 3;
    }
    if (x->rank < least)
        return tn_pass_refuse(node, "needs %d dimensions or more", least);
    int64_t parts = tn_arg_int(node, 1, 0);
    if (!listed && (parts < 1 || x->shape[dim] % parts))
        return tn_pass_refuse(node, "size %lld does not split into %lld equal parts",
                              (long long)x->shape[dim], (long long)parts);
    return give_list(node, listed ? TN_OP_tensor_split_indices : TN_OP_tensor_split_sections,
                     TN_ARGS(node->args[0], node->args[1], INT(dim)), with);
}

static tenon_status split_at(tenon_node *node, const int64_t *at, int count, tenon_value **with) {
    tn_maker m = {node};
    tenon_value *x = tn_arg_value(node, 0);
    int dim = tn_maker_dim(&m, tn_arg_int(node, 2, 0), x->rank);
    int64_t start = 0;
    if (x->rank == 0)
        return tn_pass_refuse(node, "needs a tensor with a dimension");
    for (int i = 0; i <= count; i++) {
        int64_t end = i < count ? at[i] : INT64_MAX;
        with[i] = tn_make_slice(&m, x, dim, start, end);
        start = end;
    }
    return m.status;
}

tenon_status tn_lower_tensor_split(tenon_node *node, tenon_value **with) {
    int64_t at[63];
    int count = tn_arg_ints(node, 1, at, TN_COUNT(at));
    return count < 0 ? tn_pass_refuse(node, "it gives more than 64 tensors")
                     : split_at(node, at, count, with);
}

/* The tensor with the places, or their number, decides how many outputs there are. */
tenon_status tn_lower_tensor_split_tensor(tenon_node *node, tenon_value **with) {
    const tenon_value *places = tn_arg_value(node, 1);
    int64_t at[63] = {0};
    if (!tn_is_constant(places))
        return tn_pass_refuse(node, "the number of its outputs depends on data");
    const tenon_view *view = &places->tensor->view;
    int64_t count = tenon_view_numel(view);
    if (view->dtype != TENON_INT64 || view->rank > 1 || count > TN_COUNT(at))
        return tn_pass_refuse(node, "needs at most 63 places as int64");
    for (int64_t i = 0; i < count; i++)
        at[i] = ((const int64_t *)view->data)[view->rank ? i * view->strides[0] : 0];
    if (view->rank)
        return split_at(node, at, (int)count, with);
    return give_list(node, TN_OP_tensor_split_sections,
                     TN_ARGS(node->args[0], INT(at[0]), node->args[2]), with);
}

/* narrow with a start that is computed: index_select(x, dim, start + [0, 1, ... length - 1]) */
tenon_status tn_lower_narrow_tensor(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *start = tn_arg_value(node, 2);
    int64_t length = tn_arg_int(node, 3, 0);
    int dim = tn_maker_dim(m, tn_arg_int(node, 1, 0), x->rank);
    if (x->rank == 0 || tn_count_elements(start->shape, start->rank) != 1 ||
        tn_dtype_is_float(start->dtype) || start->dtype == TENON_BOOL)
        return tn_pass_refuse(node, "needs a dimension and one integer to start at");
    if (length < 0 || length > x->shape[dim])
        return tn_pass_refuse(node, "%lld elements are more than there are", (long long)length);
    start = tn_make_flat(m, tn_make_cast(m, start, TENON_INT64));
    tenon_value *turned = MAKE(add_Tensor, VAL(start), INT(x->shape[dim]));
    start = MAKE(where_self, VAL(MAKE(lt_Scalar, VAL(start), INT(0))), VAL(turned), VAL(start));
    tenon_value *index = MAKE2(add_Tensor, tn_make_range(m, length), start);
    with[0] = MAKE(index_select, VAL(x), INT(dim), VAL(index));
    return m->status;
}

/* ---- At least so many dimensions ---- */

static tenon_value *at_least(tn_maker *m, tenon_value *x, int rank) {
    int64_t shape[3] = {1, 1, 1};
    if (x->rank >= rank)
        return MAKE1(alias, x);
    if (x->rank == 2) /* a third one behind */
        memcpy(shape, x->shape, 2 * sizeof *shape);
    else if (x->rank == 1)
        shape[rank == 1 ? 0 : 1] = x->shape[0];
    return tn_make_view(m, x, shape, rank);
}

tenon_status tn_lower_at_least(tenon_node *node, tenon_value **with) {
    tn_maker m = {node};
    int id = node->op->id;
    int rank = id == TN_OP_atleast_1d || id == TN_OP_atleast_1d_Sequence   ? 1
               : id == TN_OP_atleast_2d || id == TN_OP_atleast_2d_Sequence ? 2
                                                                           : 3;
    const tenon_arg *list = &node->args[0];
    if (list->kind == TENON_ARG_VALUE) {
        with[0] = at_least(&m, list->as.value, rank);
        return m.status;
    }
    if (list->count > 64)
        return tn_pass_refuse(node, "it gives more than 64 tensors");
    for (int i = 0; i < list->count; i++)
        with[i] = at_least(&m, list->as.list[i].as.value, rank);
    return m.status;
}

/* column_stack: vectors are columns;  dstack: along a third dimension */
tenon_status tn_lower_stack_columns(tenon_node *node, tenon_value **with) {
    tn_maker m = {node};
    const tenon_arg *list = &node->args[0];
    bool deep = node->op->id == TN_OP_dstack;
    tenon_value **parts =
        tn_arena_array(&node->graph->arena, (size_t)list->count + 1, sizeof(tenon_value *));
    if (!parts)
        return tn_no_memory();
    for (int i = 0; i < list->count; i++) {
        tenon_value *x = list->as.list[i].as.value;
        const int64_t column[2] = {tn_count_elements(x->shape, x->rank), 1};
        parts[i] = deep ? at_least(&m, x, 3) : x->rank < 2 ? tn_make_view(&m, x, column, 2) : x;
    }
    with[0] = tn_make_cat(&m, parts, list->count, deep ? 2 : 1);
    return m.status;
}

/* fliplr, flipud */
tenon_status tn_lower_flip_side(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    int dim = node->op->id == TN_OP_fliplr;
    tenon_arg item = INT(dim);
    if (tn_arg_value(node, 0)->rank <= dim)
        return tn_pass_refuse(node, "needs %d dimensions or more", dim + 1);
    with[0] = MAKE(flip, node->args[0], tenon_arg_list(&item, 1));
    return m->status;
}

/* ---- What complex numbers would make different ---- */

/* isreal: always;  isposinf, isneginf: x == +-inf, false for integers */
tenon_status tn_lower_is_class(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0);
    bool real = node->op->id == TN_OP_isreal;
    double infinity = node->op->id == TN_OP_isposinf ? HUGE_VAL : -HUGE_VAL;
    if (real || !tn_dtype_is_float(x->dtype))
        with[0] = MAKE(full_like, VAL(x), FLT(real), DTY(TENON_BOOL));
    else
        with[0] = MAKE(eq_Scalar, VAL(x), FLT(infinity));
    return m->status;
}

/* pi where x < 0, else 0; NaN stays */
tenon_status tn_lower_angle(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0);
    x = tn_make_cast(m, x, tn_dtype_is_float(x->dtype) ? x->dtype : TENON_FLOAT32);
    tenon_value *negative = MAKE(lt_Scalar, VAL(x), INT(0));
    tenon_value *turn =
        MAKE(mul_Tensor, VAL(tn_make_cast(m, negative, x->dtype)), FLT(3.14159265358979323846));
    with[0] = MAKE(where_self, VAL(MAKE1(isnan, x)), VAL(x), VAL(turn));
    return m->status;
}
