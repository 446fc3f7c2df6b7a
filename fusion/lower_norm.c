/* Normalisations and softmaxes become the ops that PyTorch itself runs them with.
 *
 *     batch_norm(x, w, b, mean, var, training=false, eps)
 *         ->  _native_batch_norm_legit_no_training(x, w, b, mean, var, eps)[0]
 *     group_norm(x, groups, w, b, eps)  ->  native_group_norm(x, w, b, N, C, HxW, groups, eps)[0]
 *     softmax(x, dim, dtype)            ->  _softmax(_to_copy(x, dtype), dim)
 */
#include "fusion/lower.h"
#include <math.h>
#include <string.h>

tenon_status tn_lower_batch_norm(tenon_node *node, tenon_value **with) {
    const tenon_arg *a = node->args;
    bool has_stats = tn_arg_value(node, 3) && tn_arg_value(node, 4);
    if (tn_arg_bool(node, 5)) {
        if (has_stats)
            return tn_pass_refuse(node,
                                  "batch norm in training changes its running statistics; export "
                                  "the model after eval(), or save program.run_decompositions()");
        return tn_emit(node, TN_OP_native_batch_norm_legit_no_stats, with,
                       TN_ARGS(a[0], a[1], a[2], BOO(true), a[6], a[7]));
    }
    if (!has_stats)
        return tn_pass_refuse(node, "batch norm outside training needs running statistics");
    return tn_emit(node, TN_OP_native_batch_norm_legit_no_training, with,
                   TN_ARGS(a[0], a[1], a[2], a[3], a[4], a[6], a[7]));
}

/* What a running statistic becomes:  (1 - momentum) * running + momentum * batch */
static tenon_status moved(tenon_node *node, int index, tenon_value *batch, tenon_value **out) {
    double momentum = tn_arg_float(node, 6, 0);
    tenon_value *kept;
    TN_TRY(tn_emit(node, TN_OP_mul_Tensor, &kept, TN_ARGS(node->args[index], FLT(1 - momentum))));
    TN_TRY(tn_emit(node, TN_OP_mul_Tensor, &batch, TN_ARGS(VAL(batch), FLT(momentum))));
    return tn_emit(node, TN_OP_add_Tensor, out, TN_ARGS(VAL(kept), VAL(batch)));
}

/* The mean and unbiased variance of each channel go into the running ones. */
static tenon_status move_statistics(tenon_node *node, tenon_value **with) {
    tenon_value *x = tn_arg_value(node, 0), *running = tn_arg_value(node, 3), *mean, *variance;
    int64_t dims[TENON_MAX_RANK];
    tenon_arg items[TENON_MAX_RANK];
    for (int d = 1; d < x->rank; d++)
        dims[d - 1] = d == 1 ? 0 : d;
    const tenon_arg list = tn_ints(items, dims, x->rank - 1);
    TN_TRY(tn_emit_cast(node, x, running->dtype, &x));
    TN_TRY(tn_emit(node, TN_OP_mean_dim, &mean, TN_ARGS(VAL(x), list)));
    TN_TRY(tn_emit(node, TN_OP_var_correction, &variance, TN_ARGS(VAL(x), list, INT(1))));
    TN_TRY(moved(node, 3, mean, &with[3]));
    return moved(node, 4, variance, &with[4]);
}

/* native_batch_norm, and _native_batch_norm_legit_functional, which gives the running statistics
 * too. */
tenon_status tn_lower_batch_norm_legit(tenon_node *node, tenon_value **with) {
    const tenon_arg *a = node->args;
    const tenon_value *x = tn_arg_value(node, 0), *running = tn_arg_value(node, 3);
    bool gives = node->output_count == 5;
    if (tn_arg_bool(node, 5)) {
        if (!gives && running)
            return tn_pass_refuse(node,
                                  "batch norm in training changes its running statistics; export "
                                  "the model after eval(), or save program.run_decompositions()");
        if (gives && (x->rank < 2 || running->dtype == TENON_DTYPE_NONE))
            return TENON_OK;
        TN_TRY(tn_emit(node, TN_OP_native_batch_norm_legit_no_stats, with,
                       TN_ARGS(a[0], a[1], a[2], BOO(true), a[6], a[7])));
        if (gives)
            TN_TRY(move_statistics(node, with));
    } else {
        TN_TRY(tn_emit(node, TN_OP_native_batch_norm_legit_no_training, with,
                       TN_ARGS(a[0], a[1], a[2], a[3], a[4], a[6], a[7])));
        for (int i = 3; i < node->output_count; i++)
            with[i] = tn_arg_value(node, i);
    }
    with[1] = with[0]->node->outputs[1];
    with[2] = with[0]->node->outputs[2];
    return TENON_OK;
}

tenon_status tn_lower_layer_norm(tenon_node *node, tenon_value **with) {
    const tenon_arg *a = node->args;
    return tn_emit(node, TN_OP_native_layer_norm, with, TN_ARGS(a[0], a[1], a[2], a[3], a[4]));
}

tenon_status tn_lower_fused_rms_norm(tenon_node *node, tenon_value **with) {
    if (node->outputs[1]->use_count)
        return tn_pass_refuse(node, "its second result (1 / root mean square) is not supported");
    return tn_emit(node, TN_OP_rms_norm, with, node->args, 4);
}

static tenon_status emit_group_norm(tenon_node *node, tenon_value **with, int64_t groups,
                                    const tenon_arg *weight, const tenon_arg *bias,
                                    const tenon_arg *eps) {
    const tenon_value *x = tn_arg_value(node, 0);
    int64_t inner = 1;
    if (x->rank < 2)
        return tn_pass_refuse(node, "its input has no channels");
    for (int i = 2; i < x->rank; i++)
        inner *= x->shape[i];
    return tn_emit(node, TN_OP_native_group_norm, with,
                   TN_ARGS(node->args[0], *weight, *bias, INT(x->shape[0]), INT(x->shape[1]),
                           INT(inner), INT(groups ? groups : x->shape[1]), *eps));
}

tenon_status tn_lower_group_norm(tenon_node *node, tenon_value **with) {
    const tenon_arg *a = node->args;
    if (!tn_value_static(tn_arg_value(node, 0)))
        return TENON_OK;
    return emit_group_norm(node, with, tn_arg_int(node, 1, 1), &a[2], &a[3], &a[4]);
}

/* Over its own statistics, instance norm is group norm with a group a channel. */
tenon_status tn_lower_instance_norm(tenon_node *node, tenon_value **with) {
    const tenon_arg *a = node->args;
    bool has_stats = tn_arg_value(node, 3) && tn_arg_value(node, 4);
    if (!tn_arg_bool(node, 5)) {
        if (!has_stats)
            return tn_pass_refuse(node, "instance norm outside training needs running statistics");
        return tn_emit(node, TN_OP_native_batch_norm_legit_no_training, with,
                       TN_ARGS(a[0], a[1], a[2], a[3], a[4], a[6], a[7]));
    }
    if (has_stats)
        return tn_pass_refuse(node,
                              "instance norm in training changes its running statistics; export "
                              "the model after eval(), or save program.run_decompositions()");
    if (!tn_value_static(tn_arg_value(node, 0)))
        return TENON_OK;
    return emit_group_norm(node, with, 0, &a[1], &a[2], &a[7]);
}

/* The norm over all dimensions but one, which are kept as 1; over all of them, into one number,
 * with -1 (ATen's norm_except_dim). NULL while the rank is not known. */
static tenon_status norm_except(tenon_node *node, tenon_value *v, int64_t power, int64_t dim,
                                tenon_value **out) {
    tenon_arg items[TENON_MAX_RANK];
    int64_t dims[TENON_MAX_RANK];
    int count = 0;
    *out = NULL;
    if (v->rank < 0)
        return TENON_OK;
    for (int i = 0; i < v->rank; i++)
        if (dim == -1 || (i != dim && i != dim + v->rank))
            dims[count++] = i;
    if (count == 0 && v->rank > 0) /* an empty list would mean all of them */
        return tn_emit(node, TN_OP_abs, out, TN_ARGS(VAL(v)));
    return tn_emit(node, TN_OP_linalg_vector_norm, out,
                   TN_ARGS(VAL(v), INT(power), tn_ints(items, dims, count), BOO(dim != -1)));
}

tenon_status tn_lower_norm_except_dim(tenon_node *node, tenon_value **with) {
    return norm_except(node, tn_arg_value(node, 0), tn_arg_int(node, 1, 2), tn_arg_int(node, 2, 0),
                       with);
}

/* v * (g / |v|)      Salimans and Kingma, Weight Normalization, 2016 */
tenon_status tn_lower_weight_norm(tenon_node *node, tenon_value **with) {
    tenon_value *v = tn_arg_value(node, 0), *norm, *scale;
    TN_TRY(norm_except(node, v, 2, tn_arg_int(node, 2, 0), &norm));
    if (!norm)
        return TENON_OK;
    TN_TRY(tn_emit(node, TN_OP_div_Tensor, &scale, TN_ARGS(node->args[1], VAL(norm))));
    TN_TRY(tn_emit(node, TN_OP_mul_Tensor, &with[0], TN_ARGS(VAL(v), VAL(scale))));
    if (node->output_count > 1)
        with[1] = norm;
    return TENON_OK;
}

static tenon_status lower_softmax(tenon_node *node, tenon_value **with, enum tn_op_id op) {
    tenon_value *x = tn_arg_value(node, 0);
    TN_TRY(tn_emit_cast(node, x, tn_arg_dtype(node, 2), &x));
    return tn_emit(node, op, with, TN_ARGS(VAL(x), node->args[1], BOO(false)));
}

tenon_status tn_lower_softmax(tenon_node *node, tenon_value **with) {
    return lower_softmax(node, with, TN_OP_softmax);
}

tenon_status tn_lower_log_softmax(tenon_node *node, tenon_value **with) {
    return lower_softmax(node, with, TN_OP_log_softmax);
}

/* Rows that are all -inf give zeros:  where(all(x == -inf, dim), 0, softmax(x, dim)) */
tenon_status tn_lower_safe_softmax(tenon_node *node, tenon_value **with) {
    tenon_value *x = tn_arg_value(node, 0), *soft, *masked;
    const tenon_arg dim = node->args[1];
    TN_TRY(tn_emit_cast(node, x, tn_arg_dtype(node, 2), &x));
    TN_TRY(tn_emit(node, TN_OP_softmax, &soft, TN_ARGS(VAL(x), dim, BOO(false))));
    TN_TRY(tn_emit(node, TN_OP_eq_Scalar, &masked, TN_ARGS(VAL(x), FLT(-INFINITY))));
    TN_TRY(tn_emit(node, TN_OP_all_dim, &masked, TN_ARGS(VAL(masked), dim, BOO(true))));
    return tn_emit(node, TN_OP_where_ScalarSelf, with, TN_ARGS(VAL(masked), FLT(0), VAL(soft)));
}

tenon_status tn_lower_std_mean(tenon_node *node, tenon_value **with) {
    const tenon_arg *a = node->args;
    TN_TRY(tn_emit(node, TN_OP_std_correction, &with[0], TN_ARGS(a[0], a[1], a[2], a[3])));
    return tn_emit(node, TN_OP_mean_dim, &with[1], TN_ARGS(a[0], a[1], a[3]));
}

static tenon_status unit(tenon_node *node, tenon_value *x, const int64_t *shape, int rank,
                         tenon_value **out) {
    const tenon_arg *a = node->args;
    tenon_value *norm;
    tenon_arg sizes[TENON_MAX_RANK];
    if (x->rank != rank || memcmp(x->shape, shape, (size_t)rank * sizeof *shape) != 0)
        TN_TRY(tn_emit(node, TN_OP_expand, &x, TN_ARGS(VAL(x), tn_ints(sizes, shape, rank))));
    tenon_arg dim = a[2];
    TN_TRY(tn_emit(node, TN_OP_linalg_vector_norm, &norm,
                   TN_ARGS(VAL(x), INT(2), tenon_arg_list(&dim, 1), BOO(true))));
    TN_TRY(tn_emit(node, TN_OP_clamp_min, &norm, TN_ARGS(VAL(norm), a[3])));
    return tn_emit(node, TN_OP_div_Tensor, out, TN_ARGS(VAL(x), VAL(norm)));
}

/* sum(x1 / max(|x1|, eps) * x2 / max(|x2|, eps), dim), over the broadcast shape. */
tenon_status tn_lower_cosine_similarity(tenon_node *node, tenon_value **with) {
    tenon_value *x1, *x2, *product;
    tenon_value *a = tn_arg_value(node, 0), *b = tn_arg_value(node, 1);
    tenon_arg dim = node->args[2];
    int64_t shape[TENON_MAX_RANK];
    if (!tn_value_static(a) || !tn_value_static(b))
        return TENON_OK;
    int rank = a->rank > b->rank ? a->rank : b->rank;
    for (int d = 1; d <= rank; d++) {
        int64_t one = d <= a->rank ? a->shape[a->rank - d] : 1;
        int64_t other = d <= b->rank ? b->shape[b->rank - d] : 1;
        shape[rank - d] = one == 1 ? other : one;
    }
    TN_TRY(unit(node, a, shape, rank, &x1));
    TN_TRY(unit(node, b, shape, rank, &x2));
    TN_TRY(tn_emit(node, TN_OP_mul_Tensor, &product, TN_ARGS(VAL(x1), VAL(x2))));
    return tn_emit(node, TN_OP_sum_dim_IntList, with,
                   TN_ARGS(VAL(product), tenon_arg_list(&dim, 1)));
}
