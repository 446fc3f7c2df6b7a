/* Losses, as evaluation graphs hold them.
 *
 *     loss(x, y, reduction)  ->  formula of x and y, then nothing (0), mean (1) or sum (2)
 *
 * Formulas are those of ATen's Loss.cpp and LossNLL.cpp, with their order of operations.
 */
#include "core/infer.h"
#include "fusion/composite.h"
#include "fusion/lower.h"
#include <math.h>

enum { REDUCE_NONE = 0, REDUCE_MEAN = 1, REDUCE_SUM = 2 };

static tenon_value *reduced(tn_maker *m, tenon_value *loss, int64_t reduction) {
    if (reduction == REDUCE_MEAN)
        return MAKE1(mean, loss);
    return reduction == REDUCE_SUM ? MAKE1(sum, loss) : loss;
}

static tenon_value *zeros_like(tn_maker *m, tenon_value *x) {
    return MAKE1(zeros_like, x);
}

/* ---- Of a difference ---- */

/* z = |x - y|
 *     mse_loss         z^2
 *     l1_loss          z
 *     smooth_l1_loss   z < beta ? z^2 / (2 beta) : z - beta / 2
 *     huber_loss       z <= delta ? z^2 / 2 : delta (z - delta / 2) */
tenon_status tn_lower_distance_loss(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    int id = node->op->id;
    double knee = node->op->param_count > 3 ? tn_arg_float(node, 3, 1) : 0;
    tenon_value *x = tn_arg_value(node, 0), *y = tn_arg_value(node, 1), *near, *far, *close;
    tenon_dtype dtype = tn_result_type(node, 0, 1);
    if (dtype == TENON_FLOAT16 || dtype == TENON_BFLOAT16) { /* rounded once */
        x = tn_make_cast(m, x, TENON_FLOAT32);
        y = tn_make_cast(m, y, TENON_FLOAT32);
    }
    tenon_value *z = MAKE2(sub_Tensor, x, y);
    if (knee < 0 || (id == TN_OP_huber_loss && knee == 0))
        return tn_pass_refuse(node, "%g is not where a loss can turn", knee);
    z = id == TN_OP_mse_loss ? MAKE2(mul_Tensor, z, z) : MAKE1(abs, z);
    if (knee > 0) {
        bool huber = id == TN_OP_huber_loss;
        near = MAKE2(mul_Tensor, MAKE(mul_Tensor, VAL(z), FLT(0.5)), z);
        far = MAKE(sub_Tensor, VAL(z), FLT(0.5 * knee));
        if (huber)
            far = MAKE(mul_Tensor, VAL(far), FLT(knee));
        else
            near = MAKE(div_Tensor, VAL(near), FLT(knee));
        close = huber ? MAKE(le_Scalar, VAL(z), FLT(knee)) : MAKE(lt_Scalar, VAL(z), FLT(knee));
        z = MAKE(where_self, VAL(close), VAL(near), VAL(far));
    }
    with[0] = tn_make_cast(m, reduced(m, z, tn_arg_int(node, 2, REDUCE_MEAN)), dtype);
    return m->status;
}

/* ---- Of probabilities ---- */

/* (y - 1) max(log1p(-x), -100) - y max(log x, -100) */
tenon_status tn_lower_binary_cross_entropy(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *y = tn_arg_value(node, 1);
    if (!tn_same_sizes(x, y))
        return tn_pass_refuse(node, "its input and target have different shapes");
    tenon_value *no = MAKE(clamp_min, VAL(MAKE1(log1p, MAKE1(neg, x))), FLT(-100));
    tenon_value *yes = MAKE(clamp_min, VAL(MAKE1(log, x)), FLT(-100));
    no = MAKE2(mul_Tensor, MAKE(sub_Tensor, VAL(y), INT(1)), no);
    tenon_value *loss = MAKE2(sub_Tensor, no, MAKE2(mul_Tensor, y, yes));
    if (tn_arg_value(node, 2))
        loss = MAKE(mul_Tensor, VAL(loss), node->args[2]);
    with[0] = reduced(m, loss, tn_arg_int(node, 3, REDUCE_MEAN));
    return m->status;
}

/* (1 - y) x - (1 + (pos_weight - 1) y) log_sigmoid(x) */
tenon_status tn_lower_bce_with_logits(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *y = tn_arg_value(node, 1);
    tenon_value *positive = tn_arg_value(node, 3), *yes = MAKE1(log_sigmoid, x);
    if (!tn_same_sizes(x, y))
        return tn_pass_refuse(node, "its input and target have different shapes");
    if (positive) {
        positive = MAKE2(mul_Tensor, MAKE(sub_Tensor, VAL(positive), INT(1)), y);
        yes = MAKE2(mul_Tensor, yes, MAKE(add_Tensor, VAL(positive), INT(1)));
    }
    tenon_value *loss = MAKE2(mul_Tensor, MAKE(rsub_Scalar, VAL(y), INT(1)), x);
    loss = MAKE2(sub_Tensor, loss, yes);
    if (tn_arg_value(node, 2))
        loss = MAKE(mul_Tensor, VAL(loss), node->args[2]);
    with[0] = reduced(m, loss, tn_arg_int(node, 4, REDUCE_MEAN));
    return m->status;
}

/* y (log y - x), or exp(y) (y - x) of logarithms */
tenon_status tn_lower_kl_div(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *y = tn_arg_value(node, 1);
    tenon_value *loss = tn_arg_bool(node, 3)
                            ? MAKE2(mul_Tensor, MAKE1(exp, y), MAKE2(sub_Tensor, y, x))
                            : MAKE2(sub_Tensor, MAKE2(xlogy_Tensor, y, y), MAKE2(mul_Tensor, y, x));
    with[0] = reduced(m, loss, tn_arg_int(node, 2, REDUCE_MEAN));
    return m->status;
}

/* exp(x) - y x of logarithms, else x - y log(x + eps); in full with Stirling's formula where y > 1
 */
tenon_status tn_lower_poisson_nll_loss(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *y = tn_arg_value(node, 1), *loss, *more;
    if (tn_arg_bool(node, 2)) {
        loss = MAKE2(sub_Tensor, MAKE1(exp, x), MAKE2(mul_Tensor, y, x));
    } else {
        more = MAKE1(log, MAKE(add_Tensor, VAL(x), node->args[4]));
        loss = MAKE2(sub_Tensor, x, MAKE2(mul_Tensor, y, more));
    }
    if (tn_arg_bool(node, 3)) {
        more = MAKE2(sub_Tensor, MAKE2(mul_Tensor, y, MAKE1(log, y)), y);
        tenon_value *circle = MAKE1(log, MAKE(mul_Tensor, VAL(y), FLT(2 * 3.14159265358979323846)));
        more = MAKE2(add_Tensor, more, MAKE(mul_Tensor, VAL(circle), FLT(0.5)));
        more = MAKE(masked_fill_Scalar, VAL(more), VAL(MAKE(le_Scalar, VAL(y), INT(1))), INT(0));
        loss = MAKE2(add_Tensor, loss, more);
    }
    with[0] = reduced(m, loss, tn_arg_int(node, 5, REDUCE_MEAN));
    return m->status;
}

/* ---- Of classes ---- */

typedef struct classes {
    tenon_value *valid; /* where the target is not ignored */
    tenon_value *loss;  /* 0 elsewhere */
    tenon_value *weight;
} classes;

/* x has its classes along dimension 1 (of rank 1: 0), target an index for each of the other
 * places:  -weight[t] x[t] */
static classes of_classes(tn_maker *m, tenon_value *x, tenon_value *target, tenon_value *weight,
                          int64_t ignore) {
    classes c;
    int dim = x->rank > 1;
    bool fits = x->rank >= 1 && target->rank == x->rank - 1;
    for (int i = 0; fits && i < target->rank; i++)
        fits = target->shape[i] == x->shape[i < dim ? i : i + 1];
    /* of one vector the target may be a vector of one */
    bool lone = x->rank == 1 && target->rank == 1 && target->shape[0] == 1;
    if ((!fits && !lone) || (target->dtype != TENON_INT64 && target->dtype != TENON_UINT8) ||
        (weight && (weight->rank != 1 || weight->shape[0] != x->shape[dim]))) {
        tn_maker_refuse(m, "its target or weight does not fit the input");
        return (classes){x, x, x};
    }
    target = tn_make_cast(m, target, TENON_INT64);
    c.valid = MAKE(ne_Scalar, VAL(target), INT(ignore));
    target = MAKE(where_ScalarOther, VAL(c.valid), VAL(target), INT(0));
    tenon_value *at = lone ? target : MAKE(unsqueeze, VAL(target), INT(dim));
    tenon_value *picked = MAKE(gather, VAL(x), INT(dim), VAL(at));
    if (!lone)
        picked = MAKE(squeeze_dim, VAL(picked), INT(dim));
    if (weight) {
        const int64_t count = tn_count_elements(target->shape, target->rank);
        tenon_value *flat = tn_make_view(m, target, &count, 1);
        flat = MAKE(index_select, VAL(weight), INT(0), VAL(flat));
        c.weight = tn_make_view(m, flat, target->shape, target->rank);
        picked = MAKE2(mul_Tensor, picked, c.weight);
    } else {
        c.weight = MAKE(full_like, VAL(picked), FLT(1));
    }
    c.weight = MAKE(where_ScalarOther, VAL(c.valid), VAL(c.weight), INT(0));
    picked = MAKE1(neg, picked);
    c.loss = MAKE(where_ScalarOther, VAL(c.valid), VAL(picked), INT(0));
    return c;
}

static tenon_value *nll_loss(tn_maker *m, tenon_value *x, tenon_value *target, tenon_value *weight,
                             int64_t reduction, int64_t ignore, tenon_value **total) {
    classes c = of_classes(m, x, target, weight, ignore);
    tenon_value *sum = MAKE1(sum, c.weight);
    *total = reduction == REDUCE_NONE && x->rank > 1 ? zeros_like(m, sum) : sum;
    if (reduction == REDUCE_NONE)
        return c.loss;
    tenon_value *loss = MAKE1(sum, c.loss);
    return reduction == REDUCE_MEAN ? MAKE2(div_Tensor, loss, sum) : loss;
}

/* nll_loss, nll_loss2d, nll_loss_nd, and the forms that give the sum of the weights too */
tenon_status tn_lower_nll_loss(tenon_node *node, tenon_value **with) {
    tn_maker m = {node};
    tenon_value *total;
    int id = node->op->id;
    const tenon_value *x = tn_arg_value(node, 0);
    if ((id == TN_OP_nll_loss || id == TN_OP_nll_loss_forward) && x->rank > 2)
        return tn_pass_refuse(node, "needs at most two dimensions");
    if ((id == TN_OP_nll_loss2d || id == TN_OP_nll_loss2d_forward) && x->rank != 4)
        return tn_pass_refuse(node, "needs four dimensions");
    with[0] = nll_loss(&m, tn_arg_value(node, 0), tn_arg_value(node, 1), tn_arg_value(node, 2),
                       tn_arg_int(node, 3, REDUCE_MEAN), tn_arg_int(node, 4, -100), &total);
    if (node->op->return_count > 1)
        with[1] = total;
    return m.status;
}

/* The weight of each class, along the dimension of classes. */
static tenon_value *weighted(tn_maker *m, tenon_value *x, tenon_value *weight) {
    int64_t shape[TENON_MAX_RANK];
    int dim = x->rank > 1;
    if (!weight)
        return x;
    for (int i = 0; i < x->rank; i++)
        shape[i] = i == dim ? weight->shape[0] : 1;
    return MAKE2(mul_Tensor, x, tn_make_view(m, weight, shape, x->rank));
}

/* The target holds a probability for each class. */
static tenon_value *of_probabilities(tn_maker *m, tenon_value *x, tenon_value *target,
                                     tenon_value *weight, int64_t reduction, double smoothing) {
    int dim = x->rank > 1;
    int64_t count = x->shape[dim], all = tn_count_elements(x->shape, x->rank);
    if (smoothing > 0) {
        target = MAKE(mul_Tensor, VAL(target), FLT(1 - smoothing));
        target = MAKE(add_Tensor, VAL(target), FLT(smoothing / (double)count));
    }
    tenon_value *loss = weighted(m, MAKE2(mul_Tensor, x, target), weight);
    if (reduction == REDUCE_NONE)
        return MAKE1(neg, tn_make_sum(m, loss, dim, false));
    loss = MAKE1(neg, MAKE1(sum, loss));
    return reduction == REDUCE_SUM ? loss
                                   : MAKE(div_Tensor, VAL(loss), FLT((double)all / (double)count));
}

/* (1 - smoothing) nll_loss + smoothing / classes * sum of -x over the classes */
static tenon_value *smoothed(tn_maker *m, tenon_value *x, tenon_value *target, tenon_value *weight,
                             int64_t reduction, int64_t ignore, double smoothing) {
    int dim = x->rank > 1;
    tenon_value *total, *even, *loss = nll_loss(m, x, target, weight, reduction, ignore, &total);
    tenon_value *valid = MAKE(ne_Scalar, VAL(target), INT(ignore));
    even = MAKE1(neg, tn_make_sum(m, weighted(m, x, weight), dim, false));
    even = MAKE(where_ScalarOther, VAL(valid), VAL(even), INT(0));
    if (reduction != REDUCE_NONE)
        even = MAKE1(sum, even);
    if (reduction == REDUCE_MEAN)
        even = MAKE2(div_Tensor, even, total);
    loss = MAKE(mul_Tensor, VAL(loss), FLT(1 - smoothing));
    even = MAKE(mul_Tensor, VAL(even), FLT(smoothing / (double)x->shape[dim]));
    return MAKE2(add_Tensor, loss, even);
}

tenon_status tn_lower_cross_entropy_loss(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *target = tn_arg_value(node, 1), *total;
    tenon_value *weight = tn_arg_value(node, 2);
    int64_t reduction = tn_arg_int(node, 3, REDUCE_MEAN), ignore = tn_arg_int(node, 4, -100);
    double smoothing = tn_arg_float(node, 5, 0);
    if (x->rank < 1 || smoothing < 0 || smoothing > 1)
        return tn_pass_refuse(node, "needs classes, and a smoothing from 0 to 1");
    x = MAKE(log_softmax_int, VAL(x), INT(x->rank > 1));
    if (tn_same_sizes(x, target) && tn_dtype_is_float(target->dtype))
        with[0] = of_probabilities(m, x, target, weight, reduction, smoothing);
    else if (smoothing > 0)
        with[0] = smoothed(m, x, target, weight, reduction, ignore, smoothing);
    else
        with[0] = nll_loss(m, x, target, weight, reduction, ignore, &total);
    return m->status;
}

/* ---- Of margins ---- */

static tenon_value *hinge(tn_maker *m, tenon_value *x) {
    return MAKE(clamp_min, VAL(x), INT(0));
}

/* max(0, margin - y (x1 - x2)) */
tenon_status tn_lower_margin_ranking_loss(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *gap = MAKE(sub_Tensor, node->args[0], node->args[1]);
    gap = MAKE(mul_Tensor, VAL(MAKE(neg, node->args[2])), VAL(gap));
    gap = MAKE(add_Tensor, VAL(gap), node->args[3]);
    with[0] = reduced(m, hinge(m, gap), tn_arg_int(node, 4, REDUCE_MEAN));
    return m->status;
}

/* y != -1: x;  y != 1: max(0, margin - x) */
tenon_status tn_lower_hinge_embedding_loss(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *y = tn_arg_value(node, 1), *zero = zeros_like(m, x);
    tenon_value *far = hinge(m, MAKE(rsub_Scalar, VAL(x), node->args[2]));
    far = MAKE(where_self, VAL(MAKE(ne_Scalar, VAL(y), INT(1))), VAL(far), VAL(zero));
    tenon_value *near = MAKE(where_self, VAL(MAKE(ne_Scalar, VAL(y), INT(-1))), VAL(x), VAL(zero));
    with[0] = reduced(m, MAKE2(add_Tensor, far, near), tn_arg_int(node, 3, REDUCE_MEAN));
    return m->status;
}

/* cos = x1 . x2 / sqrt((x1 . x1 + eps) (x2 . x2 + eps));  y == 1: 1 - cos;  y == -1:
 * max(0, cos - margin) */
tenon_status tn_lower_cosine_embedding_loss(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *a = tn_arg_value(node, 0), *b = tn_arg_value(node, 1), *y = tn_arg_value(node, 2);
    tenon_arg dim = INT(y->rank), list = tenon_arg_list(&dim, 1);
    if (y->rank > 1 || a->rank != y->rank + 1 || b->rank != y->rank + 1)
        return tn_pass_refuse(node, "its inputs need one dimension more than the target");
    tenon_value *product = MAKE(sum_dim_IntList, VAL(MAKE2(mul_Tensor, a, b)), list);
    tenon_value *square1 = MAKE(sum_dim_IntList, VAL(MAKE2(mul_Tensor, a, a)), list);
    tenon_value *square2 = MAKE(sum_dim_IntList, VAL(MAKE2(mul_Tensor, b, b)), list);
    square1 = MAKE(add_Tensor, VAL(square1), FLT(1e-12));
    square2 = MAKE(add_Tensor, VAL(square2), FLT(1e-12));
    tenon_value *cosine =
        MAKE2(div_Tensor, product, MAKE1(sqrt, MAKE2(mul_Tensor, square1, square2)));
    tenon_value *zero = zeros_like(m, cosine);
    tenon_value *near = MAKE(rsub_Scalar, VAL(cosine), INT(1));
    tenon_value *far = hinge(m, MAKE(sub_Tensor, VAL(cosine), node->args[3]));
    near = MAKE(where_self, VAL(MAKE(eq_Scalar, VAL(y), INT(1))), VAL(near), VAL(zero));
    far = MAKE(where_self, VAL(MAKE(eq_Scalar, VAL(y), INT(-1))), VAL(far), VAL(zero));
    with[0] = reduced(m, MAKE2(add_Tensor, near, far), tn_arg_int(node, 4, REDUCE_MEAN));
    return m->status;
}

/* max(0, margin + |a - p| - |a - n|), or with swap the smaller of |a - n| and |p - n| */
tenon_status tn_lower_triplet_margin_loss(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    const tenon_arg *a = node->args;
    tenon_value *near = MAKE(pairwise_distance, a[0], a[1], a[4], a[5]);
    tenon_value *far = MAKE(pairwise_distance, a[0], a[2], a[4], a[5]);
    if (tn_arg_bool(node, 6))
        far = MAKE2(minimum, far, MAKE(pairwise_distance, a[1], a[2], a[4], a[5]));
    near = MAKE(add_Tensor, VAL(near), a[3]);
    with[0] = reduced(m, hinge(m, MAKE2(sub_Tensor, near, far)), tn_arg_int(node, 7, REDUCE_MEAN));
    return m->status;
}

/* log(1 + exp(-y x)) */
tenon_status tn_lower_soft_margin_loss(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = MAKE(mul_Tensor, VAL(MAKE(neg, node->args[1])), node->args[0]);
    with[0] = reduced(m, MAKE1(log1p, MAKE1(exp, x)), tn_arg_int(node, 2, REDUCE_MEAN));
    return m->status;
}

/* sum over c != t of max(0, margin - x[t] + x[c])^p * weight[t], by the number of classes */
tenon_status tn_lower_multi_margin_loss(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *target = tn_arg_value(node, 1);
    tenon_value *weight = tn_arg_value(node, 4);
    int64_t p = tn_arg_int(node, 2, 1), batch = x->rank == 2 ? x->shape[0] : 1;
    const int64_t rows[2] = {batch, x->rank ? x->shape[x->rank - 1] : 1}, column[2] = {batch, 1};
    if (x->rank > 2 || rows[1] < 1 || (p != 1 && p != 2) || target->dtype != TENON_INT64 ||
        tn_count_elements(target->shape, target->rank) != batch || target->rank > 1 ||
        (weight && tn_count_elements(weight->shape, weight->rank) != rows[1]))
        return tn_pass_refuse(node, "its input, target, p or weight do not fit");
    bool alone = x->rank < 2 && target->rank == 0;
    x = tn_make_view(m, x, rows, 2);
    target = tn_make_view(m, target, column, 2);
    tenon_value *gap = MAKE2(sub_Tensor, x, MAKE(gather, VAL(x), INT(1), VAL(target)));
    gap = hinge(m, MAKE(add_Tensor, VAL(gap), node->args[3]));
    if (p == 2)
        gap = MAKE2(mul_Tensor, gap, gap);
    if (weight) {
        tenon_value *picked = MAKE(index_select, VAL(weight), INT(0), VAL(tn_make_flat(m, target)));
        gap = MAKE2(mul_Tensor, gap, tn_make_view(m, picked, column, 2));
    }
    tenon_value *own = MAKE2(eq_Tensor, tn_make_range(m, rows[1]), target);
    gap = MAKE(masked_fill_Scalar, VAL(gap), VAL(own), INT(0));
    tenon_value *loss = MAKE(div_Tensor, VAL(tn_make_sum(m, gap, 1, false)), INT(rows[1]));
    int64_t reduction = tn_arg_int(node, 5, REDUCE_MEAN);
    if (reduction == REDUCE_NONE && alone)
        loss = tn_make_view(m, loss, NULL, 0);
    with[0] = reduced(m, loss, reduction);
    return m->status;
}

/* Targets are the indices in front of the first -1; sum over targets t and other classes c of
 * max(0, 1 - x[t] + x[c]), by the number of classes. */
tenon_status tn_lower_multilabel_margin_loss(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *target = tn_arg_value(node, 1);
    int rank = x->rank;
    int64_t batch = rank == 2 ? x->shape[0] : 1, count = rank ? x->shape[rank - 1] : 1;
    const int64_t rows[2] = {batch, count}, shape[3] = {batch, count, 1};
    const int64_t behind[3] = {batch, 1, count};
    if (rank > 2 || count < 1 || target->dtype != TENON_INT64 ||
        tn_count_elements(target->shape, target->rank) != batch * count ||
        (rank == 2 && target->rank != 2))
        return tn_pass_refuse(node, "its target does not fit the input");
    tenon_value *values = tn_make_view(m, x, rows, 2), *places = tn_make_view(m, target, rows, 2);
    tenon_value *listed = MAKE(ge_Scalar, VAL(places), INT(0));
    listed = MAKE(ne_Scalar, VAL(MAKE(cumprod, VAL(listed), INT(1))), INT(0));
    places = MAKE(where_ScalarOther, VAL(listed), VAL(places), INT(0));
    tenon_value *own = MAKE(gather, VAL(values), INT(1), VAL(places));
    /* [n, k, c]: the k-th target and class c */
    tenon_value *is = MAKE2(eq_Tensor, tn_make_view(m, places, shape, 3), tn_make_range(m, count));
    tenon_value *listed3 = tn_make_view(m, listed, shape, 3);
    is = MAKE(any_dim, VAL(MAKE2(logical_and, is, listed3)), INT(1));
    tenon_value *gap =
        MAKE2(sub_Tensor, tn_make_view(m, values, behind, 3), tn_make_view(m, own, shape, 3));
    gap = hinge(m, MAKE(add_Tensor, VAL(gap), INT(1)));
    tenon_value *counts =
        MAKE2(logical_and, listed3, MAKE1(logical_not, tn_make_view(m, is, behind, 3)));
    gap = MAKE(where_ScalarOther, VAL(counts), VAL(gap), INT(0));
    tenon_value *loss = tn_make_sum(m, tn_make_sum(m, gap, 2, false), 1, false);
    loss = MAKE(div_Tensor, VAL(loss), INT(count));
    int64_t reduction = tn_arg_int(node, 2, REDUCE_MEAN);
    if (reduction == REDUCE_NONE && rank < 2)
        loss = tn_make_view(m, loss, NULL, 0);
    with[0] = reduced(m, loss, reduction);
    if (node->op->return_count > 1)
        with[1] = tn_make_view(m, tn_make_cast(m, is, x->dtype), target->shape, target->rank);
    return m->status;
}
