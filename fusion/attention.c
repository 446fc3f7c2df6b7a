/* Recognises scaled dot-product attention that was taken apart. After the views pass it looks like
 * this. What is in parentheses may be absent; a * is by a number: the scale may stand at q, at k,
 * at their product, or be split between them.
 *
 *     q (*) - view --- bmm - view (*) (+ mask) - softmax (guard) - view --- bmm - view
 *     k^T (*) - view --'                                       v - view ----'
 *
 *     softmax(q k^T * scale + mask) v        Vaswani et al., 2017
 *
 * The guard gives rows that are masked altogether zeros instead of NaN, as the op does:
 *
 *     where(logical_not(any(logical_not(scores == -inf), -1, true)), zeros, softmax(scores))
 *     where(all(scores == -inf, -1, true), 0, softmax(scores))
 *
 * Without it only masks that cannot take away a whole row are accepted: none, or a constant that
 * leaves something of each. Scores or weights that are used elsewhere keep it from matching.
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"
#include <math.h>
#include <string.h>

typedef struct attention {
    tenon_value *q, *k, *v, *mask;
    double scale;
    bool guarded;
} attention;

static tenon_value *through_view(tenon_value *value) {
    const tenon_node *view = tn_only_by(value, TN_OP_view);
    return view ? tn_arg_value(view, 0) : value;
}

/* Takes products by numbers off, into the scale. */
static tenon_value *unscale(tenon_value *value, double *scale) {
    for (;;) {
        const tenon_node *node = value && value->use_count == 1 ? value->node : NULL;
        double number;
        if (!node)
            return value;
        bool times = tn_node_is(node, TN_OP_mul_Tensor) || tn_node_is(node, TN_OP_mul_Scalar);
        bool over = tn_node_is(node, TN_OP_div_Tensor) || tn_node_is(node, TN_OP_div_Scalar);
        int side = times && tn_arg_number(node, 0, &number) ? 0 : 1;
        if ((!times && !over) || !tn_arg_number(node, side, &number))
            return value;
        tenon_value *rest = tn_arg_value(node, 1 - side);
        if (!rest || !tn_same_sizes(rest, value) || rest->dtype != value->dtype)
            return value;
        *scale = over ? *scale / number : *scale * number;
        value = rest;
    }
}

static bool is_minus_infinity(const tenon_node *node, int index) {
    double number;
    return tn_arg_number(node, index, &number) && isinf(number) && number < 0;
}

/* scores == -inf */
static tenon_value *masked_scores(const tenon_value *value) {
    const tenon_node *node = tn_only_by(value, TN_OP_eq_Scalar);
    if (!node)
        node = tn_only_by(value, TN_OP_eq_Tensor);
    return node && is_minus_infinity(node, 1) ? tn_arg_value(node, 0) : NULL;
}

static bool over_last(const tenon_node *node) {
    int64_t dim = tn_arg_int(node, 1, 0);
    return (dim == -1 || dim == tn_arg_value(node, 0)->rank - 1) && tn_arg_bool(node, 2);
}

/* The scores of which whole rows are -inf where `value` is true; NULL when it is no such test. */
static tenon_value *guard_scores(const tenon_value *value) {
    const tenon_node *all = tn_only_by(value, TN_OP_all_dim);
    if (all)
        return over_last(all) ? masked_scores(tn_arg_value(all, 0)) : NULL;
    const tenon_node *outer = tn_only_by(value, TN_OP_logical_not);
    const tenon_node *any = outer ? tn_only_by(tn_arg_value(outer, 0), TN_OP_any_dim) : NULL;
    const tenon_node *inner =
        any && over_last(any) ? tn_only_by(tn_arg_value(any, 0), TN_OP_logical_not) : NULL;
    return inner ? masked_scores(tn_arg_value(inner, 0)) : NULL;
}

static bool is_zeros(const tenon_node *node, int index) {
    const tenon_value *value = tn_arg_value(node, index);
    const tenon_node *full = tn_made_by(value, TN_OP_full_like);
    double number;
    if (full)
        return tn_arg_number(full, 1, &number) && number == 0;
    if (tn_made_by(value, TN_OP_zeros_like))
        return true;
    return tn_arg_number(node, index, &number) && number == 0;
}

/* The softmax node under the guard, if there is one. `uses`: how many there may be of its result.
 */
static const tenon_node *softmax_of(attention *a, tenon_value *weights) {
    const tenon_node *guard = tn_only_by(weights, TN_OP_where_self);
    if (!guard)
        guard = tn_only_by(weights, TN_OP_where_ScalarSelf);
    tenon_value *result = guard ? tn_arg_value(guard, 2) : weights;
    const tenon_node *softmax = tn_made_by(result, TN_OP_softmax);
    if (!softmax || tn_arg_bool(softmax, 2))
        return NULL;
    int64_t dim = tn_arg_int(softmax, 1, 0);
    if (dim != -1 && dim != result->rank - 1)
        return NULL;
    if (!guard)
        return result->use_count == 1 ? softmax : NULL;
    /* full_like(softmax) is a use of its shape */
    const tenon_node *like = tn_made_by(tn_arg_value(guard, 1), TN_OP_full_like);
    if (!like)
        like = tn_made_by(tn_arg_value(guard, 1), TN_OP_zeros_like);
    int shape_uses = like && tn_arg_value(like, 0) == result ? 1 : 0;
    a->guarded = true;
    return result->use_count == 1 + shape_uses && is_zeros(guard, 1) &&
                   guard_scores(tn_arg_value(guard, 0)) == tn_arg_value(softmax, 0)
               ? softmax
               : NULL;
}

/* A mask that leaves something of every row of `columns` scores. */
static bool keeps_rows(const tenon_value *mask, int64_t columns) {
    if (!tn_is_constant(mask))
        return false;
    const tenon_view *view = &mask->tensor->view;
    int64_t count = tn_value_numel(mask), index[TENON_MAX_RANK] = {0};
    int64_t row = tn_size_of(mask, -1) == columns ? columns : 1; /* one number for all columns */
    bool kept = false;
    for (int64_t n = 0; n < count; n++) {
        int64_t at = 0;
        for (int d = 0; d < view->rank; d++)
            at += index[d] * view->strides[d];
        double number = tn_load_float(
            (const char *)view->data + at * (int64_t)tenon_dtype_size(view->dtype), view->dtype);
        if (isnan(number) || number == INFINITY)
            return false;
        kept |= isfinite(number);
        if (n % row == row - 1) {
            if (!kept)
                return false;
            kept = false;
        }
        for (int d = view->rank - 1; d >= 0 && ++index[d] == view->shape[d]; d--)
            index[d] = 0;
    }
    return true;
}

static bool fits_scores(const tenon_value *mask, const tenon_value *scores) {
    if (!mask || !tn_value_static(mask) || mask->rank > scores->rank ||
        mask->dtype != scores->dtype)
        return false;
    for (int i = 1; i <= mask->rank; i++) {
        int64_t size = tn_size_of(mask, -i);
        if (size != 1 && size != tn_size_of(scores, -i))
            return false;
    }
    return true;
}

/* scores = product (*) (+ mask). `uses`: of the scores, softmax and guard. Gives the first bmm. */
static const tenon_node *product_of(attention *a, tenon_value *scores) {
    if (scores->use_count != (a->guarded ? 2 : 1))
        return NULL;
    const tenon_node *sum = tn_made_by(scores, TN_OP_add_Tensor);
    if (!sum) {
        /* The guard's second use must not keep the product from being looked at as used once. */
        const tenon_node *view = tn_made_by(scores, TN_OP_view);
        return tn_only_by(view ? tn_arg_value(view, 0) : scores, TN_OP_bmm);
    }
    for (int i = 0; i < 2 && tn_arg_is(sum, 2, 1); i++) {
        double scale = 1;
        tenon_value *rest = unscale(tn_arg_value(sum, i), &scale);
        const tenon_node *bmm =
            rest && rest->use_count == 1 ? tn_only_by(through_view(rest), TN_OP_bmm) : NULL;
        a->mask = tn_arg_value(sum, 1 - i);
        if (bmm && tn_same_sizes(rest, scores) && fits_scores(a->mask, scores)) {
            a->scale *= scale;
            return bmm;
        }
    }
    return NULL;
}

static bool swaps_last(const tenon_node *permute, int rank) {
    int64_t order[TENON_MAX_RANK];
    if (rank < 2 || tn_arg_ints(permute, 1, order, TENON_MAX_RANK) != rank)
        return false;
    for (int i = 0; i < rank; i++) {
        int want = i < rank - 2 ? i : 2 * rank - 3 - i;
        if (order[i] != want && order[i] != want - rank)
            return false;
    }
    return true;
}

/* Scores that are scaled without a mask: the product stands behind a multiplication that both
 * softmax and guard read. */
static const tenon_node *scaled_product_of(attention *a, tenon_value *scores) {
    const tenon_node *node = scores->node;
    double number, scale = 1;
    bool times = tn_node_is(node, TN_OP_mul_Tensor) || tn_node_is(node, TN_OP_mul_Scalar);
    bool over = tn_node_is(node, TN_OP_div_Tensor) || tn_node_is(node, TN_OP_div_Scalar);
    if ((!times && !over) || !tn_arg_number(node, 1, &number) ||
        scores->use_count != (a->guarded ? 2 : 1))
        return NULL;
    tenon_value *rest = unscale(tn_arg_value(node, 0), &scale);
    if (!rest || rest->use_count != 1 || !tn_same_sizes(rest, scores))
        return NULL;
    a->scale *= over ? scale / number : scale * number;
    return tn_only_by(through_view(rest), TN_OP_bmm);
}

/* An operand of a bmm in the scores' leading sizes: what stands before its view, or else another
 * view of it (views that came before may have merged with that one). */
static tenon_status with_heads(tenon_node *at, const tenon_value *scores, tenon_value *value,
                               tenon_value **out) {
    int64_t shape[TENON_MAX_RANK];
    int rank = scores->rank;
    for (int i = 0; i < rank; i++)
        shape[i] = i < rank - 2 ? scores->shape[i] : tn_size_of(value, i - rank);
    tenon_value *before = through_view(value);
    if (before != value && tn_value_static(before) && before->rank == rank &&
        memcmp(before->shape, shape, (size_t)rank * sizeof *shape) == 0) {
        *out = before;
        return TENON_OK;
    }
    return tn_emit_view(at, value, shape, rank, out);
}

/* The second factor of a product, k^T, back to k: (.., d, t) -> (.., t, d). A new permute when
 * there is none to take off. */
static tenon_status key_of(tenon_node *at, attention *a, const tenon_value *scores,
                           tenon_value *right) {
    right = unscale(right, &a->scale);
    TN_TRY(with_heads(at, scores, right, &right));
    right = unscale(right, &a->scale);
    const tenon_node *permute = tn_made_by(right, TN_OP_permute);
    if (permute && swaps_last(permute, right->rank)) {
        a->k = unscale(tn_arg_value(permute, 0), &a->scale);
        return TENON_OK;
    }
    int64_t order[TENON_MAX_RANK];
    for (int i = 0; i < right->rank; i++)
        order[i] = i < right->rank - 2 ? i : 2 * right->rank - 3 - i;
    return tn_emit_permute(at, right, order, right->rank, &a->k);
}

/* q, k and v of one float dtype, over 1 or 2 dimensions of heads. */
static bool operands_fit(const tenon_node *first, const tenon_node *second,
                         const tenon_value *scores) {
    const tenon_value *all[] = {tn_arg_value(first, 0), tn_arg_value(first, 1),
                                tn_arg_value(second, 1)};
    for (int i = 0; i < 3; i++)
        if (!all[i] || !tn_value_static(all[i]) || all[i]->dtype != scores->dtype)
            return false;
    return (scores->rank == 3 || scores->rank == 4) && tn_is_float_value(scores) &&
           tn_size_of(first->outputs[0], -1) == tn_size_of(scores, -1) &&
           tn_size_of(first->outputs[0], -2) == tn_size_of(scores, -2);
}

static tenon_status emit(tenon_node *node, const attention *a, tenon_value **with) {
    tenon_value *y, *q = a->q, *k = a->k, *v = a->v, *mask = a->mask;
    if (q->rank == 3) { /* the kernels and oneDNN take heads as a dimension of their own */
        TN_TRY(tn_emit(node, TN_OP_unsqueeze, &q, TN_ARGS(VAL(q), INT(0))));
        TN_TRY(tn_emit(node, TN_OP_unsqueeze, &k, TN_ARGS(VAL(k), INT(0))));
        TN_TRY(tn_emit(node, TN_OP_unsqueeze, &v, TN_ARGS(VAL(v), INT(0))));
    }
    TN_TRY(tn_emit(node, TN_OP_scaled_dot_product_attention, &y,
                   TN_ARGS(VAL(q), VAL(k), VAL(v), VAL(mask), FLT(0), BOO(false), FLT(a->scale))));
    tn_name_after(y, node);
    return tn_emit_view(node, y, node->outputs[0]->shape, node->outputs[0]->rank, with);
}

static tenon_status match(tenon_node *node, tenon_value **with) {
    attention a = {.scale = 1};
    tenon_value *weights = tn_arg_value(node, 0);
    if (!tn_value_static(node->outputs[0]) || !tn_is_float_value(node->outputs[0]))
        return TENON_OK;
    const tenon_node *softmax = softmax_of(&a, through_view(weights));
    tenon_value *scores = softmax ? tn_arg_value(softmax, 0) : NULL;
    const tenon_node *first = scores ? product_of(&a, scores) : NULL;
    if (!first && scores && scores->node) {
        a.mask = NULL;
        first = scaled_product_of(&a, scores);
    }
    if (!first || (a.mask && !a.guarded && !keeps_rows(a.mask, tn_size_of(scores, -1))))
        return TENON_OK;
    if (!operands_fit(first, node, scores))
        return TENON_OK;
    a.q = unscale(tn_arg_value(first, 0), &a.scale);
    TN_TRY(with_heads(node, scores, a.q, &a.q));
    a.q = unscale(a.q, &a.scale);
    TN_TRY(with_heads(node, scores, tn_arg_value(node, 1), &a.v));
    TN_TRY(key_of(node, &a, scores, tn_arg_value(first, 1)));
    return emit(node, &a, with);
}

tenon_status tn_pass_attention(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {{TN_OP_bmm, match}};
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
