/* Recognises normalisations over the last dimensions that were taken apart.
 *
 *     native_layer_norm     d = x - mean(x),   v = mean(d^2) or var(x)
 *                           d * rsqrt(v + eps)   or   d / sqrt(v + eps)
 *     rms_norm              x * rsqrt(mean(x^2) + eps)
 *
 *     x --.------------------- sub -.------------------------ mul - * gamma - + beta
 *         '-- mean - neg ------'    '- square - mean - + eps - rsqrt -'
 *
 *     x --.--------------------------------- mul - * gamma
 *         '-- square - mean - + eps - rsqrt -'
 *
 * (Ba et al. 2016; Zhang and Sennrich 2019.) 1 / sqrt(..) and (..)^-0.5 are as good as rsqrt. Then
 * takes a following * gamma and + beta in, when these have exactly the sizes of the dimensions that
 * are normalised: one that only broadcasts is another function.
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"

/* How many of the last dimensions the reduction goes over, kept as 1; 0 when it is not of that
 * kind. */
static int last_dims(const tenon_node *node, int dim_index, int keep_index) {
    int64_t dims[TENON_MAX_RANK];
    const tenon_value *x = tn_arg_value(node, 0);
    int count = tn_arg_ints(node, dim_index, dims, TENON_MAX_RANK);
    bool seen[TENON_MAX_RANK] = {0};
    if (!tn_arg_bool(node, keep_index) || count < 1 || count > x->rank)
        return 0;
    for (int i = 0; i < count; i++) {
        int64_t dim = dims[i] < 0 ? dims[i] + x->rank : dims[i];
        if (dim < x->rank - count || dim >= x->rank || seen[dim])
            return 0;
        seen[dim] = true;
    }
    return count;
}

/* mean(inner) over the last dimensions, in inner's dtype: gives inner. */
static tenon_value *mean_of(const tenon_value *value, bool only, int *count) {
    const tenon_node *node =
        only ? tn_only_by(value, TN_OP_mean_dim) : tn_made_by(value, TN_OP_mean_dim);
    if (!node || value->dtype != tn_arg_value(node, 0)->dtype)
        return NULL;
    *count = last_dims(node, 1, 2);
    return *count ? tn_arg_value(node, 0) : NULL;
}

static tenon_value *square_of(const tenon_value *value) {
    const tenon_node *node = tn_only_by(value, TN_OP_pow_Tensor_Scalar);
    if (node)
        return tn_arg_is(node, 1, 2) ? tn_arg_value(node, 0) : NULL;
    node = tn_only_by(value, TN_OP_square);
    if (node)
        return tn_arg_value(node, 0);
    node = tn_only_by(value, TN_OP_mul_Tensor);
    return node && tn_arg_value(node, 0) == tn_arg_value(node, 1) ? tn_arg_value(node, 0) : NULL;
}

/* value = inner + eps, used once */
static tenon_value *plus_eps(const tenon_value *value, double *eps) {
    const tenon_node *node = tn_only_by(value, TN_OP_add_Tensor);
    if (!node)
        node = tn_only_by(value, TN_OP_add_Scalar);
    if (!node || !tn_arg_is(node, 2, 1))
        return NULL;
    int side = tn_number_side(node, eps);
    return side >= 0 && *eps >= 0 ? tn_arg_value(node, 1 - side) : NULL;
}

/* value = 1 / sqrt(inner), in one of its forms, used once: gives inner. */
static tenon_value *inverse_root(const tenon_value *value) {
    const tenon_node *node = tn_only_by(value, TN_OP_rsqrt);
    if (node)
        return tn_arg_value(node, 0);
    node = tn_only_by(value, TN_OP_pow_Tensor_Scalar);
    if (node)
        return tn_arg_is(node, 1, -0.5) ? tn_arg_value(node, 0) : NULL;
    const tenon_node *over = tn_only_by(value, TN_OP_reciprocal);
    const tenon_value *root = over ? tn_arg_value(over, 0) : NULL;
    node = tn_only_by(value, TN_OP_div_Tensor);
    if (node && tn_arg_is(node, 0, 1))
        root = tn_arg_value(node, 1);
    node = tn_only_by(root, TN_OP_sqrt);
    return node ? tn_arg_value(node, 0) : NULL;
}

/* top / sqrt(inner), or top times that, in either order: gives inner, and top. */
static tenon_value *root_of(const tenon_node *node, tenon_value **top) {
    if (tn_node_is(node, TN_OP_div_Tensor)) {
        const tenon_node *root = tn_only_by(tn_arg_value(node, 1), TN_OP_sqrt);
        *top = tn_arg_value(node, 0);
        return root ? tn_arg_value(root, 0) : NULL;
    }
    for (int i = 0; i < 2; i++) {
        tenon_value *inner = inverse_root(tn_arg_value(node, i));
        *top = tn_arg_value(node, 1 - i);
        if (inner)
            return inner;
    }
    return NULL;
}

/* d = x - mean(x); gives x. */
static tenon_value *centred(const tenon_value *d, int *count) {
    const tenon_node *sub = tn_made_by(d, TN_OP_sub_Tensor);
    tenon_value *x = sub ? tn_arg_value(sub, 0) : NULL;
    return x && tn_arg_is(sub, 2, 1) && mean_of(tn_arg_value(sub, 1), false, count) == x ? x : NULL;
}

/* The biased variance of x over its last dimensions: mean(d^2), var(x, correction=0). */
static bool is_variance(const tenon_value *value, const tenon_value *x, const tenon_value *d,
                        int count) {
    int over = 0;
    tenon_value *inner = mean_of(value, true, &over);
    if (inner)
        return over == count && square_of(inner) == d;
    const tenon_node *var = tn_only_by(value, TN_OP_var_correction);
    double correction = 1;
    if (var)
        return tn_arg_value(var, 0) == x && last_dims(var, 1, 3) == count &&
               tn_arg_number(var, 2, &correction) && correction == 0;
    var = tn_only_by(value, TN_OP_var_dim);
    return var && tn_arg_value(var, 0) == x && !tn_arg_bool(var, 2) &&
           last_dims(var, 1, 3) == count;
}

/* x's last `count` sizes as a list */
static tenon_arg last_sizes(const tenon_value *x, int count, tenon_arg *items) {
    return tn_ints(items, x->shape + x->rank - count, count);
}

static tenon_status normalize(tenon_node *node, tenon_value **with) {
    tenon_value *top, *x, *inner;
    tenon_arg sizes[TENON_MAX_RANK];
    double eps = 0;
    int count = 0;
    if (!tn_is_float_value(node->outputs[0]) || !tn_value_static(node->outputs[0]))
        return TENON_OK;
    tenon_value *sum = root_of(node, &top);
    if (!sum || !top || !(inner = plus_eps(sum, &eps)))
        return TENON_OK;
    if ((x = centred(top, &count)) != NULL && is_variance(inner, x, top, count) &&
        tn_same_sizes(x, node->outputs[0]) && x->dtype == node->outputs[0]->dtype)
        return tn_emit(node, TN_OP_native_layer_norm, with,
                       TN_ARGS(VAL(x), last_sizes(x, count, sizes), NIL, NIL, FLT(eps)));
    tenon_value *squares = mean_of(inner, true, &count);
    x = squares ? square_of(squares) : NULL;
    if (!x || x != top || !tn_same_sizes(x, node->outputs[0]) ||
        x->dtype != node->outputs[0]->dtype)
        return TENON_OK;
    return tn_emit(node, TN_OP_rms_norm, with,
                   TN_ARGS(VAL(x), last_sizes(x, count, sizes), NIL, FLT(eps)));
}

/* Whether `value` has exactly the sizes that `norm` goes over. */
static bool is_affine(const tenon_value *value, const tenon_node *norm) {
    int64_t sizes[TENON_MAX_RANK];
    int count = tn_arg_ints(norm, 1, sizes, TENON_MAX_RANK);
    if (!value || !tn_value_static(value) || value->rank != count || count < 1 ||
        value->dtype != norm->outputs[0]->dtype)
        return false;
    for (int i = 0; i < count; i++)
        if (value->shape[i] != sizes[i])
            return false;
    return true;
}

static bool others_unused(const tenon_node *norm) {
    for (int i = 1; i < norm->output_count; i++)
        if (norm->outputs[i]->use_count)
            return false;
    return true;
}

/* norm(x) * gamma */
static tenon_status take_gamma(tenon_node *node, tenon_value **with) {
    for (int i = 0; i < 2; i++) {
        tenon_value *gamma = tn_arg_value(node, 1 - i);
        const tenon_node *norm = tn_only_by(tn_arg_value(node, i), TN_OP_native_layer_norm);
        if (norm && tn_arg_is_none(norm, 2) && tn_arg_is_none(norm, 3) && others_unused(norm) &&
            is_affine(gamma, norm))
            return tn_emit(node, TN_OP_native_layer_norm, with,
                           TN_ARGS(norm->args[0], norm->args[1], VAL(gamma), NIL, norm->args[4]));
        norm = tn_only_by(tn_arg_value(node, i), TN_OP_rms_norm);
        if (norm && tn_arg_is_none(norm, 2) && is_affine(gamma, norm))
            return tn_emit(node, TN_OP_rms_norm, with,
                           TN_ARGS(norm->args[0], norm->args[1], VAL(gamma), norm->args[3]));
    }
    return node->op->id == TN_OP_mul_Tensor ? normalize(node, with) : TENON_OK;
}

/* norm(x) + beta */
static tenon_status take_beta(tenon_node *node, tenon_value **with) {
    for (int i = 0; i < 2 && tn_arg_is(node, 2, 1); i++) {
        tenon_value *beta = tn_arg_value(node, 1 - i);
        const tenon_node *norm = tn_only_by(tn_arg_value(node, i), TN_OP_native_layer_norm);
        if (norm && tn_arg_is_none(norm, 3) && others_unused(norm) && is_affine(beta, norm))
            return tn_emit(
                node, TN_OP_native_layer_norm, with,
                TN_ARGS(norm->args[0], norm->args[1], norm->args[2], VAL(beta), norm->args[4]));
    }
    return TENON_OK;
}

tenon_status tn_pass_norms(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {{TN_OP_mul_Tensor, take_gamma},
                                    {TN_OP_div_Tensor, normalize},
                                    {TN_OP_add_Tensor, take_beta}};
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
