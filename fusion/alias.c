#include "fusion/alias.h"

/* c10::MemoryFormat */
enum { FORMAT_CONTIGUOUS = 0, FORMAT_PRESERVE = 1 };

static bool wants_other_format(const tenon_node *node, tn_dense input) {
    int index = tn_op_param(node->op, "memory_format");
    if (index < 0 || tn_arg_is_none(node, index))
        return false;
    int64_t format = tn_arg_int(node, index, FORMAT_PRESERVE);
    return format != FORMAT_PRESERVE && !(format == FORMAT_CONTIGUOUS && input == TN_DENSE_YES);
}

static tenon_dtype wanted_dtype(const tenon_node *node) {
    int index = tn_op_param(node->op, "dtype");
    if (index >= 0)
        return tn_arg_is_none(node, index) ? tn_arg_value(node, 0)->dtype
                                           : tn_arg_dtype(node, index);
    const tenon_value *other = tn_arg_value(node, 1);
    return other ? other->dtype : TENON_DTYPE_NONE;
}

/* Tensor.to returns its input when nothing is to be converted. */
static tn_sharing sharing_of_to(const tenon_node *node, tn_dense input) {
    const tenon_value *self = tn_arg_value(node, 0);
    int copy = tn_op_param(node->op, "copy");
    if (!self || (copy >= 0 && tn_arg_bool(node, copy)))
        return TN_SHARE_NOT;
    tenon_dtype dtype = wanted_dtype(node);
    if (self->dtype == TENON_DTYPE_NONE || dtype == TENON_DTYPE_NONE)
        return TN_SHARE_MAYBE;
    if (dtype != self->dtype)
        return TN_SHARE_NOT;
    return wants_other_format(node, input) ? TN_SHARE_MAYBE : TN_SHARE_SURE;
}

bool tn_shares_list(const tenon_node *node) {
    switch (node->op->id) {
    case TN_OP_broadcast_tensors:
    case TN_OP_meshgrid:
    case TN_OP_meshgrid_indexing:
    case TN_OP_atleast_1d_Sequence:
    case TN_OP_atleast_2d_Sequence:
    case TN_OP_atleast_3d_Sequence:
    case TN_OP_einsum: /* of one operand it may only order dimensions */
        return true;
    default:
        return false;
    }
}

bool tn_is_reshape(const tenon_node *node) {
    switch (node->op->id) {
    case TN_OP_reshape:
    case TN_OP_reshape_as:
    case TN_OP_flatten_using_ints:
        return true;
    default:
        return false;
    }
}

tn_sharing tn_sharing_of(const tenon_node *node, tn_dense input) {
    if (tn_shares_list(node))
        return TN_SHARE_MAYBE;
    if (tn_is_reshape(node))
        return input == TN_DENSE_YES ? TN_SHARE_SURE : TN_SHARE_MAYBE;
    switch (node->op->id) {
    case TN_OP_to_dtype:
    case TN_OP_to_device:
    case TN_OP_to_dtype_layout:
    case TN_OP_to_other:
    case TN_OP_type_as:
        return sharing_of_to(node, input);
    case TN_OP_dropout:
    case TN_OP_alpha_dropout:
    case TN_OP_feature_dropout: /* outside training they return their input */
        return TN_SHARE_SURE;
    case TN_OP_lift_fresh_copy:
        return TN_SHARE_NOT;
    case TN_OP_atleast_1d: /* no alias marks, but they give their input where it has the rank */
    case TN_OP_atleast_2d:
    case TN_OP_atleast_3d:
    case TN_OP_sum_to_size:
        return TN_SHARE_MAYBE;
    case TN_OP_contiguous:
        if (tn_arg_int(node, 1, FORMAT_CONTIGUOUS) != FORMAT_CONTIGUOUS)
            return TN_SHARE_MAYBE;
        /* fall through */
    case TN_OP_ravel:
        return input == TN_DENSE_YES  ? TN_SHARE_SURE
               : input == TN_DENSE_NO ? TN_SHARE_NOT
                                      : TN_SHARE_MAYBE;
    default:
        if (node->op->kind == TN_OP_LOWER && node->op->param_count && node->op->params[0].alias)
            return TN_SHARE_MAYBE;
        return node->op->kind == TN_OP_VIEW ? TN_SHARE_SURE : TN_SHARE_NOT;
    }
}

/* A permutation of dimensions with more than one element makes strides that are not row-major. */
static tn_dense dense_of_permute(const tenon_node *node) {
    const tenon_value *self = tn_arg_value(node, 0);
    int64_t dims[TENON_MAX_RANK], last = -1;
    if (!self || !tn_value_static(self) || tn_arg_ints(node, 1, dims, TENON_MAX_RANK) != self->rank)
        return TN_DENSE_UNKNOWN;
    for (int i = 0; i < self->rank; i++) {
        int64_t dim = dims[i] < 0 ? dims[i] + self->rank : dims[i];
        if (dim < 0 || dim >= self->rank)
            return TN_DENSE_UNKNOWN;
        if (self->shape[dim] == 1)
            continue;
        if (dim < last)
            return TN_DENSE_NO;
        last = dim;
    }
    return TN_DENSE_YES;
}

tn_dense tn_dense_of(const tenon_node *node, tn_dense first, tn_dense inputs) {
    switch (node->op->id) {
    case TN_OP_view:
    case TN_OP_unsafe_view:
    case TN_OP_view_as:
    case TN_OP_alias:
    case TN_OP_detach:
    case TN_OP_lift_fresh:
    case TN_OP_positive:
    case TN_OP_unsqueeze:
    case TN_OP_squeeze:
    case TN_OP_squeeze_dim:
    case TN_OP_squeeze_dims:
    case TN_OP_unflatten_int:
    case TN_OP_to_dtype:
    case TN_OP_to_device:
    case TN_OP_to_other:
    case TN_OP_type_as:
    case TN_OP_dropout:
        return first == TN_DENSE_YES ? TN_DENSE_YES : TN_DENSE_UNKNOWN;
    case TN_OP_to_dtype_layout:
        return first == TN_DENSE_YES && !wants_other_format(node, first) ? TN_DENSE_YES
                                                                         : TN_DENSE_UNKNOWN;
    case TN_OP_contiguous:
        return tn_arg_int(node, 1, FORMAT_CONTIGUOUS) == FORMAT_CONTIGUOUS ? TN_DENSE_YES
                                                                           : TN_DENSE_UNKNOWN;
    case TN_OP_ravel:
        return TN_DENSE_YES;
    case TN_OP_reshape:
    case TN_OP_reshape_as:
    case TN_OP_flatten_using_ints:
        return first == TN_DENSE_YES ? TN_DENSE_YES : TN_DENSE_UNKNOWN;
    case TN_OP_select_int:
    case TN_OP_unbind_int:
        return first == TN_DENSE_YES && tn_arg_int(node, 1, 1) == 0 ? TN_DENSE_YES
                                                                    : TN_DENSE_UNKNOWN;
    case TN_OP_permute:
        return first == TN_DENSE_YES ? dense_of_permute(node) : TN_DENSE_UNKNOWN;
    case TN_OP_clone:
        if (!tn_arg_is_none(node, 1) && tn_arg_int(node, 1, 1) == FORMAT_CONTIGUOUS)
            return TN_DENSE_YES;
        return !wants_other_format(node, first) ? first : TN_DENSE_UNKNOWN;
    case TN_OP_scaled_dot_product_attention: /* its result is a transposed view */
    case TN_OP_lstm_input:
    case TN_OP_gru_input:
    case TN_OP_rnn_tanh_input:
    case TN_OP_rnn_relu_input:
    case TN_OP_einsum:
    case TN_OP_broadcast_tensors:
    case TN_OP_meshgrid:
    case TN_OP_meshgrid_indexing:
    case TN_OP_nonzero:
    case TN_OP_rot90:
    case TN_OP_to_copy:
        return TN_DENSE_UNKNOWN;
    default:
        return node->op->kind != TN_OP_VIEW && inputs == TN_DENSE_YES ? TN_DENSE_YES
                                                                      : TN_DENSE_UNKNOWN;
    }
}

/* ---- The inverses of views ---- */

typedef struct scatter {
    tenon_graph *graph;
    tenon_node *before;
    const tenon_node *view;
    tenon_value *base, *part;
    tenon_value **out;
} scatter;

static tenon_status emit(const scatter *s, enum tn_op_id op, const tenon_arg *args, int count) {
    TN_TRY(tn_graph_emit(s->graph, s->before, op, NULL, s->view, args, count, s->out));
    tn_value_adopt(*s->out, s->base);
    return TENON_OK;
}

/* view, squeeze, flatten, ...: the same elements in the base's shape. */
static tenon_status reshape_back(const scatter *s) {
    if (!tn_value_static(s->base))
        return emit(s, TN_OP_reshape_as, TN_ARGS(VAL(s->part), VAL(s->base)));
    tenon_arg sizes[TENON_MAX_RANK];
    return emit(s, TN_OP_view,
                TN_ARGS(VAL(s->part), tn_ints(sizes, s->base->shape, s->base->rank)));
}

static tenon_status permute_back(const scatter *s) {
    int64_t dims[TENON_MAX_RANK], inverse[TENON_MAX_RANK];
    int rank = tn_arg_ints(s->view, 1, dims, TENON_MAX_RANK);
    if (rank < 0)
        return tn_pass_refuse(s->view, "its dimensions are not numbers");
    for (int i = 0; i < rank; i++) {
        int64_t dim = dims[i] < 0 ? dims[i] + rank : dims[i];
        if (dim < 0 || dim >= rank)
            return tn_pass_refuse(s->view, "dimension %lld is outside rank %d", (long long)dims[i],
                                  rank);
        inverse[dim] = i;
    }
    tenon_arg items[TENON_MAX_RANK];
    return emit(s, TN_OP_permute, TN_ARGS(VAL(s->part), tn_ints(items, inverse, rank)));
}

/* x.narrow(dim, start, length) is x[start : start + length]. */
static tenon_status narrow_back(const scatter *s) {
    const tenon_arg *args = s->view->args;
    if (args[2].kind != TENON_ARG_INT || args[3].kind != TENON_ARG_INT)
        return tn_pass_refuse(s->view,
                              "writing through it needs a start and a length that are numbers");
    int64_t start = args[2].as.i, end;
    if (!tn_add(start, args[3].as.i, &end) || (start < 0 && end >= 0))
        end = INT64_MAX;
    return emit(s, TN_OP_slice_scatter,
                TN_ARGS(VAL(s->base), VAL(s->part), args[1], INT(start), INT(end), INT(1)));
}

/* Part `index` of a split along a dimension, each part of a size that is known. */
static tenon_status split_back(const scatter *s, int index) {
    const tenon_node *view = s->view;
    bool by_list = view->args[1].kind == TENON_ARG_LIST;
    int64_t start = 0, end = 0;
    if (view->op->id == TN_OP_chunk || view->op->id == TN_OP_tensor_split_sections) {
        int64_t dim = tn_arg_int(view, 2, 0);
        for (int i = 0; i <= index; i++) {
            int64_t size = tn_size_of(view->outputs[i], (int)dim);
            if (size < 0)
                return tn_pass_refuse(view, "writing through it needs sizes that are known");
            start = end;
            if (!tn_add(end, size, &end))
                return tn_pass_refuse(view, "its sizes are too large");
        }
    } else if (by_list) {
        for (int i = 0; i <= index; i++) {
            const tenon_arg *size = &view->args[1].as.list[i];
            if (i >= view->args[1].count || size->kind != TENON_ARG_INT)
                return tn_pass_refuse(view, "writing through it needs sizes that are numbers");
            start = end;
            if (!tn_add(end, size->as.i, &end))
                return tn_pass_refuse(view, "its sizes are too large");
        }
    } else if (view->args[1].kind == TENON_ARG_INT) {
        if (!tn_mul(view->args[1].as.i, index, &start) || !tn_add(start, view->args[1].as.i, &end))
            return tn_pass_refuse(view, "its sizes are too large");
    } else {
        return tn_pass_refuse(view, "writing through it needs a size that is a number");
    }
    return emit(s, TN_OP_slice_scatter,
                TN_ARGS(VAL(s->base), VAL(s->part), view->args[2], INT(start), INT(end), INT(1)));
}

/* By strides alone: each steps over all that smaller ones reach. */
bool tn_apart(const tenon_view *view) {
    bool done[TENON_MAX_RANK] = {0};
    int64_t reach = 0;
    for (int left = view->rank; left > 0; left--) {
        int least = -1;
        for (int d = 0; d < view->rank; d++)
            if (!done[d] && (least < 0 || view->strides[d] < view->strides[least]))
                least = d;
        done[least] = true;
        if (view->shape[least] == 0)
            return true;
        if (view->shape[least] == 1)
            continue;
        if (view->strides[least] <= reach)
            return false;
        reach += (view->shape[least] - 1) * view->strides[least];
    }
    return true;
}

/* Any view of known sizes: its strides over the row-major elements of the base. */
static tenon_status strided_back(const scatter *s, int index) {
    const tenon_value *base = s->base, *value = s->view->outputs[index];
    if (s->view->op->kind != TN_OP_VIEW || !tn_value_static(base) || !tn_value_static(value))
        return tn_pass_refuse(s->view, "writing through this view cannot be made functional");
    tenon_arg sizes[TENON_MAX_RANK], strides[TENON_MAX_RANK];
    tenon_view in = tn_view_make(TN_ORIGIN, base->dtype, base->rank, base->shape);
    tenon_view out = tn_view_make(TN_ORIGIN, value->dtype, value->rank, value->shape);
    if (!s->view->op->view(s->view, index, &in, &out) || !tn_apart(&out))
        return tn_pass_refuse(s->view, "one element of it stands for several");
    int64_t offset = ((char *)out.data - TN_ORIGIN) / (int64_t)tenon_dtype_size(out.dtype);
    return emit(s, TN_OP_as_strided_scatter,
                TN_ARGS(VAL(s->base), VAL(s->part), tn_ints(sizes, out.shape, out.rank),
                        tn_ints(strides, out.strides, out.rank), INT(offset)));
}

tenon_status tn_emit_scatter(tenon_graph *graph, tenon_node *before, const tenon_node *view,
                             int index, tenon_value *base, tenon_value *part, tenon_value **out) {
    const scatter s = {graph, before, view, base, part, out};
    const tenon_arg *args = view->args;
    switch (view->op->id) {
    case TN_OP_alias:
    case TN_OP_detach:
    case TN_OP_lift_fresh:
    case TN_OP_contiguous:
    case TN_OP_positive:
    case TN_OP_to_dtype:
    case TN_OP_to_device:
    case TN_OP_to_dtype_layout:
    case TN_OP_to_other:
    case TN_OP_type_as:
    case TN_OP_dropout:
    case TN_OP_alpha_dropout:
    case TN_OP_feature_dropout:
        *out = part;
        return TENON_OK;
    case TN_OP_view:
    case TN_OP_unsafe_view:
    case TN_OP_reshape:
    case TN_OP_reshape_alias:
    case TN_OP_view_as:
    case TN_OP_reshape_as:
    case TN_OP_flatten_using_ints:
    case TN_OP_unflatten_int:
    case TN_OP_ravel:
    case TN_OP_squeeze:
    case TN_OP_squeeze_dim:
    case TN_OP_squeeze_dims:
    case TN_OP_unsqueeze:
        return reshape_back(&s);
    case TN_OP_permute:
        return permute_back(&s);
    case TN_OP_transpose_int:
    case TN_OP_swapaxes:
        return emit(&s, TN_OP_transpose_int, TN_ARGS(VAL(part), args[1], args[2]));
    case TN_OP_t:
    case TN_OP_numpy_T:
    case TN_OP_mT:
        return emit(&s, (enum tn_op_id)view->op->id, TN_ARGS(VAL(part)));
    case TN_OP_movedim_int:
    case TN_OP_movedim_intlist:
        return emit(&s, (enum tn_op_id)view->op->id, TN_ARGS(VAL(part), args[2], args[1]));
    case TN_OP_select_int:
        return emit(&s, TN_OP_select_scatter, TN_ARGS(VAL(base), VAL(part), args[1], args[2]));
    case TN_OP_unbind_int:
        return emit(&s, TN_OP_select_scatter, TN_ARGS(VAL(base), VAL(part), args[1], INT(index)));
    case TN_OP_slice_Tensor:
        return emit(&s, TN_OP_slice_scatter,
                    TN_ARGS(VAL(base), VAL(part), args[1], args[2], args[3], args[4]));
    case TN_OP_narrow:
        return narrow_back(&s);
    case TN_OP_split_Tensor:
    case TN_OP_split_sizes:
    case TN_OP_split_with_sizes:
    case TN_OP_chunk:
    case TN_OP_tensor_split_sections:
        return split_back(&s, index);
    case TN_OP_diagonal:
        return emit(&s, TN_OP_diagonal_scatter,
                    TN_ARGS(VAL(base), VAL(part), args[1], args[2], args[3]));
    case TN_OP_as_strided:
        return emit(&s, TN_OP_as_strided_scatter,
                    TN_ARGS(VAL(base), VAL(part), args[1], args[2], args[3]));
    default:
        return strided_back(&s, index);
    }
}
