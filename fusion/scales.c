/* Folds a scale behind or in front of a product into its constant weight.
 *
 *     x -- linear(w, b) -- * c     ->     x -- linear(w * c, b * c)
 *     x -- * c -- linear(w, b)     ->     x -- linear(w * c, b)
 *
 * and likewise for convolution, mm and addmm, and for / c. c is a number, or a constant with one
 * element for each channel: of the result in the first form, of x in the second. Padding by 0 is 0
 * times any c. What stands between must have no other use, and neither must the weight: another
 * would keep the unscaled one in memory too. Only float32 and float64: smaller dtypes would round
 * the weight.
 */
#include "fusion/passes.h"
#include "fusion/scaled.h"
#include <math.h>
#include <stdlib.h>

static bool is_divide(const tenon_node *node) {
    return tn_node_is(node, TN_OP_div_Tensor) || tn_node_is(node, TN_OP_div_Scalar);
}

static bool is_multiply(const tenon_node *node) {
    return tn_node_is(node, TN_OP_mul_Tensor) || tn_node_is(node, TN_OP_mul_Scalar);
}

/* Reads operand `index` of a product by constants as `count` factors, one a channel of `value`, the
 * other operand: of dimension 1 when the weight is that of a convolution, of the last otherwise. */
static bool read_factors(const tenon_node *node, int index, const tenon_value *value,
                         const tn_product *p, int64_t count, double *factors) {
    const tenon_value *c = tn_arg_value(node, index);
    int wide = p->weight->rank == 2 ? 1 : p->weight->rank - 1; /* dimensions from the channel on */
    double number = 0;
    bool one = tn_arg_number(node, index, &number);
    if (c && (!tn_is_constant(c) || !tn_is_float_value(c)))
        return false;
    if (c && c->rank > 0) { /* it must not decide the dtype, nor the sizes */
        int known = value->rank >= 0 ? value->rank : p->weight->rank == 2 ? 1 : p->weight->rank;
        if (c->dtype != p->weight->dtype || c->rank > known)
            return false;
        if (value->rank >= 0 && !one && !tn_same_sizes(value, node->outputs[0]))
            return false;
    }
    for (int d = 0; !one && d < c->rank; d++)
        if (c->shape[d] != (d == c->rank - wide ? count : 1))
            return false;
    if (!one && c->rank < wide)
        return false;
    for (int64_t i = 0; i < count; i++) {
        double factor = one ? number : tn_channel_element(c, i, 1);
        factors[i] = is_divide(node) ? 1 / factor : factor;
        if (!isfinite(factors[i]))
            return false;
    }
    return true;
}

static bool read_product(tenon_node *node, tn_product *p) {
    return node && tn_product_read(node, p) && p->weight->use_count == 1 &&
           (p->weight->dtype == TENON_FLOAT32 || p->weight->dtype == TENON_FLOAT64);
}

/* product(x) * c */
static tenon_status behind(tenon_node *node, tenon_value **with) {
    for (int side = 0; side < (is_divide(node) ? 1 : 2); side++) {
        tenon_value *y = tn_arg_value(node, side);
        tn_product p;
        if (!y || y->use_count != 1 || y->index != 0 || !read_product(y->node, &p))
            continue;
        double *scale = calloc((size_t)p.out * 2 + 1, sizeof *scale), *bias = scale + p.out;
        if (!scale)
            return tn_no_memory();
        tenon_status status = TENON_OK;
        if (read_factors(node, 1 - side, y, &p, p.out, scale)) {
            for (int64_t o = 0; o < p.out; o++)
                bias[o] = tn_product_bias(&p, o) * scale[o];
            status = tn_product_scaled(&p, node, NULL, scale, false, p.bias ? bias : NULL, with);
        }
        free(scale);
        if (status != TENON_OK || with[0])
            return status;
    }
    return TENON_OK;
}

/* product(x * c), where side `side` of the multiplication is x */
static tenon_status take_front(const tn_product *p, const tenon_node *mul, int side,
                               tenon_value **with) {
    tenon_value *x = tn_arg_value(mul, side);
    if (!x || x->dtype != p->weight->dtype)
        return TENON_OK;
    double *scale = calloc((size_t)(p->in + p->out) + 1, sizeof *scale), *bias = scale + p->in;
    if (!scale)
        return tn_no_memory();
    tenon_status status = TENON_OK;
    if (read_factors(mul, 1 - side, x, p, p->in, scale)) {
        for (int64_t o = 0; o < p->out; o++)
            bias[o] = tn_product_bias(p, o);
        status = tn_product_scaled(p, p->node, x, scale, true, p->bias ? bias : NULL, with);
    }
    free(scale);
    return status;
}

static tenon_status in_front(tenon_node *node, tenon_value **with) {
    const tenon_value *x = tn_arg_value(node, tn_node_is(node, TN_OP_addmm));
    tenon_node *mul = x && x->use_count == 1 ? x->node : NULL;
    tn_product p;
    if (!mul || (!is_multiply(mul) && !is_divide(mul)) || !read_product(node, &p))
        return TENON_OK;
    for (int side = 0; side < (is_divide(mul) ? 1 : 2) && !with[0]; side++)
        TN_TRY(take_front(&p, mul, side, with));
    return TENON_OK;
}

tenon_status tn_pass_scales(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {
        {TN_OP_mul_Tensor, behind},    {TN_OP_mul_Scalar, behind},
        {TN_OP_div_Tensor, behind},    {TN_OP_div_Scalar, behind},
        {TN_OP_convolution, in_front}, {TN_OP_padded_convolution, in_front},
        {TN_OP_linear, in_front},      {TN_OP_mm, in_front},
        {TN_OP_addmm, in_front},
    };
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
