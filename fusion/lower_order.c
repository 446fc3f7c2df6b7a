/* Statistics: those in order become a sort and a choice, the others sums and norms.
 *
 *     kthvalue(x, k, d)     ->  v, i = sort(x, d):  v[k - 1], i[k - 1] along d
 *     median(x, d)          ->  the same with k = (n + 1) / 2, or the last one when that is NaN
 *     nanmedian(x, d)       ->  gather of the middle of what is not NaN
 *     nanmean(x, d)         ->  nansum(x, d) / sum(not isnan(x), d)
 */
#include "fusion/lower.h"
#include <math.h>

/* ---- In order ---- */

typedef struct order {
    tenon_node *node;
    tenon_value *x, *sorted, *places; /* the input; the outputs of sort */
    int64_t dim, n;
    bool keep;
} order;

/* False when sizes are not known yet. */
static bool order_of(tenon_node *node, int dim, order *o) {
    *o = (order){.node = node, .x = tn_arg_value(node, 0)};
    if (!tn_value_static(o->x))
        return false;
    int keep = tn_op_param(node->op, "keepdim");
    o->keep = keep >= 0 && tn_arg_bool(node, keep);
    o->dim = dim < 0 && tn_op_param(node->op, "dim") < 0 ? 0 : dim;
    if (o->x->rank > 0 && o->dim < 0)
        o->dim += o->x->rank;
    o->n = o->x->rank ? o->x->shape[o->dim] : 1;
    return true;
}

static tenon_status sort(order *o) {
    TN_TRY(tn_emit(o->node, TN_OP_sort_stable, &o->sorted,
                   TN_ARGS(VAL(o->x), BOO(true), INT(o->dim), BOO(false))));
    o->places = o->sorted->node->outputs[1];
    return TENON_OK;
}

/* Element `at` along the dimension, which stays with size 1. */
static tenon_status part(const order *o, tenon_value *of, int64_t at, tenon_value **out) {
    if (o->x->rank == 0) {
        *out = of;
        return TENON_OK;
    }
    return tn_emit(o->node, TN_OP_narrow, out, TN_ARGS(VAL(of), INT(o->dim), INT(at), INT(1)));
}

static tenon_status give(const order *o, tenon_value *value, tenon_value *place,
                         tenon_value **with) {
    tenon_value *both[2] = {value, place};
    for (int i = 0; i < o->node->output_count; i++) {
        with[i] = both[i];
        if (!o->keep && o->x->rank > 0)
            TN_TRY(
                tn_emit(o->node, TN_OP_squeeze_dim, &with[i], TN_ARGS(VAL(both[i]), INT(o->dim))));
    }
    return TENON_OK;
}

tenon_status tn_lower_kthvalue(tenon_node *node, tenon_value **with) {
    order o;
    tenon_value *value, *place;
    if (!order_of(node, (int)tn_arg_int(node, 2, -1), &o))
        return TENON_OK;
    int64_t k = tn_arg_int(node, 1, 1);
    TN_TRY(sort(&o));
    TN_TRY(part(&o, o.sorted, k - 1, &value));
    TN_TRY(part(&o, o.places, k - 1, &place));
    return give(&o, value, place, with);
}

/* NaN, which sorts last, wins. */
static tenon_status median(order *o, tenon_value **with) {
    tenon_value *value, *place, *last, *last_place, *lost;
    TN_TRY(sort(o));
    TN_TRY(part(o, o->sorted, (o->n - 1) / 2, &value));
    TN_TRY(part(o, o->places, (o->n - 1) / 2, &place));
    if (tn_is_float_value(o->x)) {
        TN_TRY(part(o, o->sorted, o->n - 1, &last));
        TN_TRY(part(o, o->places, o->n - 1, &last_place));
        TN_TRY(tn_emit(o->node, TN_OP_isnan, &lost, TN_ARGS(VAL(last))));
        TN_TRY(
            tn_emit(o->node, TN_OP_where_self, &value, TN_ARGS(VAL(lost), VAL(last), VAL(value))));
        TN_TRY(tn_emit(o->node, TN_OP_where_self, &place,
                       TN_ARGS(VAL(lost), VAL(last_place), VAL(place))));
    }
    return give(o, value, place, with);
}

static tenon_status nanmedian(order *o, tenon_value **with) {
    tenon_value *count, *value, *place;
    tenon_arg dim = INT(o->dim);
    if (!tn_is_float_value(o->x) || o->x->rank == 0)
        return median(o, with);
    TN_TRY(sort(o));
    TN_TRY(tn_emit(o->node, TN_OP_isnan, &count, TN_ARGS(VAL(o->x))));
    TN_TRY(tn_emit(o->node, TN_OP_logical_not, &count, TN_ARGS(VAL(count))));
    TN_TRY(tn_emit(o->node, TN_OP_sum_dim_IntList, &count,
                   TN_ARGS(VAL(count), tenon_arg_list(&dim, 1), BOO(true))));
    TN_TRY(tn_emit(o->node, TN_OP_sub_Tensor, &count, TN_ARGS(VAL(count), INT(1))));
    TN_TRY(tn_emit(o->node, TN_OP_clamp_min, &count, TN_ARGS(VAL(count), INT(0))));
    TN_TRY(tn_emit(o->node, TN_OP_bitwise_right_shift_Tensor_Scalar, &count,
                   TN_ARGS(VAL(count), INT(1))));
    TN_TRY(tn_emit(o->node, TN_OP_gather, &value, TN_ARGS(VAL(o->sorted), dim, VAL(count))));
    TN_TRY(tn_emit(o->node, TN_OP_gather, &place, TN_ARGS(VAL(o->places), dim, VAL(count))));
    return give(o, value, place, with);
}

tenon_status tn_lower_median_dim(tenon_node *node, tenon_value **with) {
    order o;
    if (!order_of(node, (int)tn_arg_int(node, 1, 0), &o))
        return TENON_OK;
    return node->op->id == TN_OP_median_dim ? median(&o, with) : nanmedian(&o, with);
}

/* Over all elements; none give NaN. */
tenon_status tn_lower_median(tenon_node *node, tenon_value **with) {
    order o;
    tenon_arg all = INT(-1);
    if (!order_of(node, 0, &o))
        return TENON_OK;
    int64_t count = tn_value_numel(o.x);
    if (count == 0) {
        if (!tn_is_float_value(o.x))
            return tn_pass_refuse(node, "has no elements");
        return tn_emit(node, TN_OP_full, with,
                       TN_ARGS(tenon_arg_list(NULL, 0), FLT(NAN), DTY(o.x->dtype)));
    }
    TN_TRY(tn_emit(node, TN_OP_reshape, &o.x, TN_ARGS(VAL(o.x), tenon_arg_list(&all, 1))));
    o.dim = 0;
    o.n = count;
    return node->op->id == TN_OP_median ? median(&o, with) : nanmedian(&o, with);
}

/* ---- Sums and norms ---- */

static tenon_status nansum(tenon_node *node, tenon_value **out) {
    const tenon_arg *a = node->args;
    tenon_value *x = tn_arg_value(node, 0), *lost;
    if (x->dtype == TENON_DTYPE_NONE)
        return TENON_OK;
    if (tn_is_float_value(x)) {
        TN_TRY(tn_emit(node, TN_OP_isnan, &lost, TN_ARGS(VAL(x))));
        TN_TRY(tn_emit(node, TN_OP_where_ScalarSelf, &x, TN_ARGS(VAL(lost), INT(0), VAL(x))));
    }
    return tn_emit(node, TN_OP_sum_dim_IntList, out, TN_ARGS(VAL(x), a[1], a[2], a[3]));
}

tenon_status tn_lower_nansum(tenon_node *node, tenon_value **with) {
    return nansum(node, with);
}

tenon_status tn_lower_nanmean(tenon_node *node, tenon_value **with) {
    const tenon_arg *a = node->args;
    tenon_value *sum = NULL, *count;
    TN_TRY(nansum(node, &sum));
    if (!sum)
        return TENON_OK;
    TN_TRY(tn_emit(node, TN_OP_isnan, &count, TN_ARGS(a[0])));
    TN_TRY(tn_emit(node, TN_OP_logical_not, &count, TN_ARGS(VAL(count))));
    TN_TRY(tn_emit(node, TN_OP_sum_dim_IntList, &count, TN_ARGS(VAL(count), a[1], a[2])));
    return tn_emit(node, TN_OP_div_Tensor, with, TN_ARGS(VAL(sum), VAL(count)));
}

tenon_status tn_lower_aminmax(tenon_node *node, tenon_value **with) {
    tenon_arg dim = node->args[1];
    const tenon_arg dims = tenon_arg_list(&dim, dim.kind == TENON_ARG_INT);
    TN_TRY(tn_emit(node, TN_OP_amin, &with[0], TN_ARGS(node->args[0], dims, node->args[2])));
    return tn_emit(node, TN_OP_amax, &with[1], TN_ARGS(node->args[0], dims, node->args[2]));
}

/* norm(self, p), norm(self, p, dim, keepdim, dtype) and frobenius_norm(self, dim, keepdim). */
tenon_status tn_lower_norm(tenon_node *node, tenon_value **with) {
    const tn_op *op = node->op;
    int p = tn_op_param(op, "p"), dim = tn_op_param(op, "dim"), keep = tn_op_param(op, "keepdim");
    int dtype = tn_op_param(op, "dtype");
    const tenon_arg ord = p < 0 || tn_arg_is_none(node, p) ? INT(2) : node->args[p];
    return tn_emit(node, TN_OP_linalg_vector_norm, with,
                   TN_ARGS(node->args[0], ord, dim < 0 ? NIL : node->args[dim],
                           keep < 0 ? BOO(false) : node->args[keep],
                           dtype < 0 ? NIL : node->args[dtype]));
}

/* Slices along a dimension whose norm is above maxnorm are scaled down to it. */
tenon_status tn_lower_renorm(tenon_node *node, tenon_value **with) {
    const tenon_arg *a = node->args;
    tenon_value *x = tn_arg_value(node, 0), *norm, *scale, *above;
    tenon_arg others[TENON_MAX_RANK];
    int count = 0;
    if (x->rank < 0)
        return TENON_OK;
    int64_t dim = tn_arg_int(node, 2, 0);
    dim += dim < 0 ? x->rank : 0;
    if (x->rank < 2 || dim < 0 || dim >= x->rank)
        return tn_pass_refuse(node, "needs 2 dimensions at least, and one of them");
    for (int d = 0; d < x->rank; d++)
        if (d != dim)
            others[count++] = INT(d);
    TN_TRY(tn_emit(node, TN_OP_linalg_vector_norm, &norm,
                   TN_ARGS(a[0], a[1], tenon_arg_list(others, count), BOO(true))));
    TN_TRY(tn_emit(node, TN_OP_add_Tensor, &scale, TN_ARGS(VAL(norm), FLT(1e-7))));
    TN_TRY(tn_emit(node, TN_OP_reciprocal, &scale, TN_ARGS(VAL(scale))));
    TN_TRY(tn_emit(node, TN_OP_mul_Tensor, &scale, TN_ARGS(VAL(scale), a[3])));
    TN_TRY(tn_emit(node, TN_OP_gt_Scalar, &above, TN_ARGS(VAL(norm), a[3])));
    TN_TRY(tn_emit(node, TN_OP_where_ScalarOther, &scale, TN_ARGS(VAL(above), VAL(scale), FLT(1))));
    return tn_emit(node, TN_OP_mul_Tensor, with, TN_ARGS(a[0], VAL(scale)));
}
