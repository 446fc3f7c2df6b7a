/* Conversions, padding, and small composites.
 *
 *     x.to(dtype)            ->  _to_copy(x, dtype), or x
 *     glu(x, d)              ->  a, b = chunk(x, 2, d):  a * sigmoid(b)
 *     pad(x, p, "circular")  ->  cat(x[-p:], x, x[:p]), dimension by dimension
 *
 * Formulas stand at the rules; they are those of PyTorch's documentation.
 */
#include "fusion/lower.h"
#include <math.h>
#include <string.h>

/* ---- Conversions ---- */

static tenon_status convert(tenon_node *node, tenon_dtype dtype, tenon_value **with) {
    return tn_emit_cast(node, tn_arg_value(node, 0), dtype, with);
}

tenon_status tn_lower_to_dtype(tenon_node *node, tenon_value **with) {
    return convert(node, tn_arg_dtype(node, tn_op_param(node->op, "dtype")), with);
}

tenon_status tn_lower_to_other(tenon_node *node, tenon_value **with) {
    tenon_dtype dtype = tn_arg_value(node, 1)->dtype;
    return dtype == TENON_DTYPE_NONE ? TENON_OK : convert(node, dtype, with);
}

/* copy(self, src): src in self's shape and dtype. */
tenon_status tn_lower_copy(tenon_node *node, tenon_value **with) {
    tenon_value *self = tn_arg_value(node, 0), *src = tn_arg_value(node, 1);
    if (!self || !src || self->dtype == TENON_DTYPE_NONE)
        return TENON_OK;
    TN_TRY(tn_emit_cast(node, src, self->dtype, &src));
    if (!tn_same_sizes(self, src))
        TN_TRY(tn_emit(node, TN_OP_expand_as, &src, TN_ARGS(VAL(src), VAL(self))));
    with[0] = src;
    return TENON_OK;
}

/* ---- Padding ---- */

static tenon_status slice(tenon_node *node, tenon_value *x, int64_t dim, int64_t start, int64_t end,
                          tenon_value **out) {
    return tn_emit(node, TN_OP_slice_Tensor, out,
                   TN_ARGS(VAL(x), INT(dim), INT(start), INT(end), INT(1)));
}

/* x wraps around:  cat(x[-left:], x, x[:right]), dimension by dimension */
static tenon_status pad_circular(tenon_node *node, const int64_t *pad, int dims,
                                 tenon_value **with) {
    tenon_value *x = tn_arg_value(node, 0);
    for (int i = 0; i < dims; i++) {
        int64_t dim = -1 - i, left = pad[2 * i], right = pad[2 * i + 1];
        tenon_value *part;
        tenon_arg parts[3];
        int count = 0;
        if (left < 0 || right < 0)
            return tn_pass_refuse(node, "circular padding by a negative amount");
        if (left) {
            TN_TRY(slice(node, x, dim, -left, INT64_MAX, &part));
            parts[count++] = VAL(part);
        }
        parts[count++] = VAL(x);
        if (right) {
            TN_TRY(slice(node, x, dim, 0, right, &part));
            parts[count++] = VAL(part);
        }
        if (count > 1)
            TN_TRY(tn_emit(node, TN_OP_cat, &x, TN_ARGS(tenon_arg_list(parts, count), INT(dim))));
    }
    with[0] = x;
    return TENON_OK;
}

tenon_status tn_lower_pad(tenon_node *node, tenon_value **with) {
    static const enum tn_op_id reflect[] = {TN_OP_reflection_pad1d, TN_OP_reflection_pad2d,
                                            TN_OP_reflection_pad3d};
    static const enum tn_op_id replicate[] = {TN_OP_replication_pad1d, TN_OP_replication_pad2d,
                                              TN_OP_replication_pad3d};
    const tenon_arg *a = node->args;
    const char *mode = tn_arg_string(node, 2);
    if (!mode || strcmp(mode, "constant") == 0)
        return tn_emit(node, TN_OP_constant_pad_nd, with,
                       TN_ARGS(a[0], a[1], FLT(tn_arg_float(node, 3, 0))));
    int64_t pad[6];
    int count = a[1].count;
    if (a[1].kind != TENON_ARG_LIST || count < 2 || count > 6 || count % 2)
        return tn_pass_refuse(node, "'%s' padding of %d amounts", mode, count);
    if (strcmp(mode, "reflect") == 0)
        return tn_emit(node, reflect[count / 2 - 1], with, TN_ARGS(a[0], a[1]));
    if (strcmp(mode, "replicate") == 0)
        return tn_emit(node, replicate[count / 2 - 1], with, TN_ARGS(a[0], a[1]));
    if (strcmp(mode, "circular") != 0)
        return tn_pass_refuse(node, "unknown padding mode '%s'", mode);
    return tn_arg_ints(node, 1, pad, 6) == count ? pad_circular(node, pad, count / 2, with)
                                                 : TENON_OK;
}

/* ---- Dropout: nothing outside of training ---- */

tenon_status tn_lower_dropout(tenon_node *node, tenon_value **with) {
    if (tn_arg_float(node, 1, 0) != 0 && tn_arg_bool(node, 2))
        return tn_pass_refuse(node, "dropout in training is random; export the model after eval()");
    with[0] = tn_arg_value(node, 0);
    return TENON_OK;
}

tenon_status tn_lower_native_dropout(tenon_node *node, tenon_value **with) {
    if (tn_arg_is_none(node, 2))
        return tn_pass_refuse(node, "dropout in training is random; export the model after eval()");
    TN_TRY(tn_lower_dropout(node, with));
    if (!node->outputs[1]->use_count)
        return TENON_OK;
    return tn_emit(node, TN_OP_ones_like, &with[1], TN_ARGS(VAL(with[0]), DTY(TENON_BOOL)));
}

/* ---- The rest ---- */

/* x[1:] - x[:-1], n times over; bools by xor */
tenon_status tn_lower_diff(tenon_node *node, tenon_value **with) {
    tenon_value *x = tn_arg_value(node, 0), *front, *back;
    int64_t n = tn_arg_int(node, 1, 1), dim = tn_arg_int(node, 2, -1);
    tenon_arg parts[3];
    int count = 0;
    if (n < 0 || n > 64)
        return tn_pass_refuse(node, "differences of order %lld", (long long)n);
    if (tn_arg_value(node, 3))
        parts[count++] = node->args[3];
    parts[count++] = VAL(x);
    if (tn_arg_value(node, 4))
        parts[count++] = node->args[4];
    if (n > 0 && count > 1)
        TN_TRY(tn_emit(node, TN_OP_cat, &x, TN_ARGS(tenon_arg_list(parts, count), INT(dim))));
    bool is_bool = node->outputs[0]->dtype == TENON_BOOL;
    for (int64_t i = 0; i < n; i++) {
        TN_TRY(slice(node, x, dim, 1, INT64_MAX, &front));
        TN_TRY(slice(node, x, dim, 0, -1, &back));
        TN_TRY(tn_emit(node, is_bool ? TN_OP_logical_xor : TN_OP_sub_Tensor, &x,
                       TN_ARGS(VAL(front), VAL(back))));
    }
    with[0] = x;
    return TENON_OK;
}

/* a * sigmoid(b), where a and b are the halves of x */
tenon_status tn_lower_glu(tenon_node *node, tenon_value **with) {
    tenon_node *halves;
    tenon_value *gate;
    TN_TRY(tn_graph_add(node->graph, node, tn_op_by_id(TN_OP_chunk), NULL,
                        TN_ARGS(node->args[0], INT(2), node->args[1]), 2, &halves));
    tenon_node_copy_source(halves, node);
    for (int i = 0; i < 2; i++)
        if (halves->outputs[i]->dtype == TENON_DTYPE_NONE)
            halves->outputs[i]->dtype = node->outputs[0]->dtype;
    TN_TRY(tn_emit(node, TN_OP_sigmoid, &gate, TN_ARGS(VAL(halves->outputs[1]))));
    return tn_emit(node, TN_OP_mul_Tensor, with, TN_ARGS(VAL(halves->outputs[0]), VAL(gate)));
}

/* One turn flips the second dimension and swaps the two, three turns flip the first one and swap
 * (ATen's rot90). */
tenon_status tn_lower_rot90(tenon_node *node, tenon_value **with) {
    int64_t dims[2], k = tn_arg_int(node, 1, 1) % 4;
    tenon_value *x = tn_arg_value(node, 0);
    tenon_arg items[2];
    k = k < 0 ? k + 4 : k;
    if (tn_arg_ints(node, 2, dims, 2) != 2)
        return tn_pass_refuse(node, "it needs two dimensions");
    if (k == 2)
        return tn_emit(node, TN_OP_flip, with, TN_ARGS(VAL(x), tn_ints(items, dims, 2)));
    if (k) {
        TN_TRY(tn_emit(node, TN_OP_flip, &x,
                       TN_ARGS(VAL(x), tn_ints(items, &dims[k == 1 ? 1 : 0], 1))));
        TN_TRY(tn_emit(node, TN_OP_transpose_int, &x, TN_ARGS(VAL(x), INT(dims[0]), INT(dims[1]))));
    }
    with[0] = x;
    return TENON_OK;
}

/* max(a, b) + log1p(exp(-|a - b|)); where a == b (infinities too) it is a + log 2. In float32 for
 * half types, to round once. */
tenon_status tn_lower_logaddexp(tenon_node *node, tenon_value **with) {
    tenon_value *a = tn_arg_value(node, 0), *b = tn_arg_value(node, 1);
    tenon_value *top, *gap, *equal, *twice;
    tenon_dtype dtype = tn_promote(a->dtype, b->dtype);
    tenon_dtype wide = tenon_dtype_size(dtype) == 2 ? TENON_FLOAT32 : dtype;
    TN_TRY(tn_emit_cast(node, a, wide, &a));
    TN_TRY(tn_emit_cast(node, b, wide, &b));
    TN_TRY(tn_emit(node, TN_OP_maximum, &top, TN_ARGS(VAL(a), VAL(b))));
    TN_TRY(tn_emit(node, TN_OP_sub_Tensor, &gap, TN_ARGS(VAL(a), VAL(b))));
    TN_TRY(tn_emit(node, TN_OP_abs, &gap, TN_ARGS(VAL(gap))));
    TN_TRY(tn_emit(node, TN_OP_neg, &gap, TN_ARGS(VAL(gap))));
    TN_TRY(tn_emit(node, TN_OP_exp, &gap, TN_ARGS(VAL(gap))));
    TN_TRY(tn_emit(node, TN_OP_log1p, &gap, TN_ARGS(VAL(gap))));
    TN_TRY(tn_emit(node, TN_OP_add_Tensor, &gap, TN_ARGS(VAL(top), VAL(gap))));
    TN_TRY(tn_emit(node, TN_OP_eq_Tensor, &equal, TN_ARGS(VAL(a), VAL(b))));
    TN_TRY(tn_emit(node, TN_OP_add_Tensor, &twice, TN_ARGS(VAL(top), FLT(0.69314718055994531))));
    TN_TRY(tn_emit(node, TN_OP_where_self, &top, TN_ARGS(VAL(equal), VAL(twice), VAL(gap))));
    return tn_emit_cast(node, top, dtype, with);
}

/* Tensors of fewer than `rank` dimensions get more in front, then cat. */
static tenon_status stack_along(tenon_node *node, tenon_value **with, int rank, bool horizontal) {
    const tenon_arg *list = &node->args[0];
    tenon_arg *parts = tn_arena_array(&node->graph->arena, (size_t)list->count + 1, sizeof *parts);
    if (!parts)
        return tn_no_memory();
    int found = 0;
    for (int i = 0; i < list->count; i++) {
        tenon_value *x = list->as.list[i].as.value;
        if (x->rank < 0)
            return TENON_OK;
        found = x->rank > found ? x->rank : found;
        while (x->rank < rank)
            TN_TRY(tn_emit(node, TN_OP_unsqueeze, &x, TN_ARGS(VAL(x), INT(0))));
        parts[i] = VAL(x);
    }
    return tn_emit(node, TN_OP_cat, with,
                   TN_ARGS(tenon_arg_list(parts, list->count), INT(horizontal && found > 1)));
}

tenon_status tn_lower_hstack(tenon_node *node, tenon_value **with) {
    return stack_along(node, with, 1, true);
}

tenon_status tn_lower_vstack(tenon_node *node, tenon_value **with) {
    return stack_along(node, with, 2, false);
}

tenon_status tn_lower_broadcast_tensors(tenon_node *node, tenon_value **with) {
    for (int i = 0; i < node->output_count; i++)
        if (!tn_value_static(node->outputs[i]))
            return TENON_OK;
    for (int i = 0; i < node->output_count; i++) {
        const tenon_value *out = node->outputs[i];
        tenon_arg sizes[TENON_MAX_RANK];
        TN_TRY(tn_emit(node, TN_OP_expand, &with[i],
                       TN_ARGS(node->args[0].as.list[i], tn_ints(sizes, out->shape, out->rank))));
    }
    return TENON_OK;
}

tenon_status tn_lower_flash_attention(tenon_node *node, tenon_value **with) {
    const tenon_arg *a = node->args;
    if (node->outputs[1]->use_count)
        return tn_pass_refuse(node, "its second result (logsumexp) is not supported");
    if (tn_arg_float(node, 3, 0) != 0)
        return tn_pass_refuse(node, "dropout in training is random; export the model after eval()");
    return tn_emit(node, TN_OP_scaled_dot_product_attention, with,
                   TN_ARGS(a[0], a[1], a[2], a[5], FLT(0), a[4], a[6], BOO(false)));
}
