/* Recognises activations that were taken apart. Products are looked at as bags of factors, so that
 * their order and grouping do not matter.
 *
 *     silu            x * sigmoid(x)
 *     gelu            x * 0.5 * (1 + erf(x / sqrt 2))
 *     gelu, tanh      x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
 *     hardsigmoid     clamp(x + 3, 0, 6) / 6
 *     hardswish       x * clamp(x + 3, 0, 6) / 6   or   x * hardsigmoid(x)
 *     clamp           clamp(clamp(x, low, none), none, high), either first, low <= high
 *
 *     x --.--------------- mul          x --.-- + 3 -- clamp(0, 6) -- / 6 -- mul
 *         '-- sigmoid -----'                '-------------------------------'
 *         silu(x)                           hardswish(x)
 *
 * (Hendrycks and Gimpel 2016, Ramachandran et al. 2017, Howard et al. 2019.) Inner values must have
 * no other use than the pattern's.
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"
#include <math.h>

enum { FACTORS = 4 };

typedef struct bag {
    double number; /* the product of the numbers */
    tenon_value *values[FACTORS];
    int count;
    bool full; /* more factors than there is room for */
} bag;

static bool near(double a, double b) {
    return fabs(a - b) <= 2e-4 * fabs(b);
}

static bool is_product(const tenon_node *node) {
    return tn_node_is(node, TN_OP_mul_Tensor) || tn_node_is(node, TN_OP_mul_Scalar) ||
           tn_node_is(node, TN_OP_div_Tensor) || tn_node_is(node, TN_OP_div_Scalar);
}

/* A number that does not change shape or dtype: a literal, or a constant of rank 0. */
static bool number_at(const tenon_node *node, int index, double *out) {
    const tenon_value *value = tn_arg_value(node, index);
    return (!value || value->rank == 0) && tn_arg_number(node, index, out);
}

static void put(bag *b, tenon_value *value) {
    if (!value || b->count == FACTORS)
        b->full = true;
    else
        b->values[b->count++] = value;
}

/* The factors of a product; factors that are products themselves, and used only here, are opened
 * too. */
static bag factors_of(const tenon_node *root) {
    bag b = {.number = 1};
    const tenon_node *open[FACTORS] = {root};
    int count = 1;
    while (count > 0 && !b.full) {
        const tenon_node *node = open[--count];
        bool divides = tn_node_is(node, TN_OP_div_Tensor) || tn_node_is(node, TN_OP_div_Scalar);
        for (int i = 0; i < 2 && !b.full; i++) {
            double number;
            tenon_value *value = tn_arg_value(node, i);
            if (number_at(node, i, &number)) {
                b.number = i == 1 && divides ? b.number / number : b.number * number;
            } else if (i == 1 && divides) {
                b.full = true;
            } else if (value && value->use_count == 1 && value->node && is_product(value->node) &&
                       count < FACTORS) {
                open[count++] = value->node;
            } else {
                put(&b, value);
            }
        }
    }
    return b;
}

static bag factors_of_value(const tenon_value *value) {
    bag none = {.full = true};
    return value && value->use_count == 1 && value->node && is_product(value->node)
               ? factors_of(value->node)
               : none;
}

/* value = other + number, used once: gives `other`. */
static tenon_value *plus(const tenon_value *value, double number) {
    const tenon_node *node = tn_only_by(value, TN_OP_add_Tensor);
    double found;
    if (!node)
        node = tn_only_by(value, TN_OP_add_Scalar);
    if (!node || !tn_arg_is(node, 2, 1))
        return NULL;
    for (int i = 0; i < 2; i++)
        if (number_at(node, i, &found) && near(found, number))
            return tn_arg_value(node, 1 - i);
    return NULL;
}

/* x^3, or x * x * x */
static bool is_cube(const tenon_value *value, const tenon_value *x) {
    const tenon_node *power = tn_only_by(value, TN_OP_pow_Tensor_Scalar);
    if (power)
        return tn_arg_value(power, 0) == x && tn_arg_is(power, 1, 3);
    bag b = factors_of_value(value);
    return !b.full && b.count == 3 && near(b.number, 1) && b.values[0] == x && b.values[1] == x &&
           b.values[2] == x;
}

/* 0.044715 * x^3 */
static bool is_cubic_term(const tenon_value *value, const tenon_value *x) {
    bag b = factors_of_value(value);
    if (b.full || !near(b.number, 0.044715))
        return false;
    if (b.count == 1)
        return is_cube(b.values[0], x);
    return b.count == 3 && b.values[0] == x && b.values[1] == x && b.values[2] == x;
}

/* erf(x / sqrt 2) */
static bool is_erf_part(const tenon_value *value, const tenon_value *x) {
    const tenon_node *erf = tn_only_by(value, TN_OP_erf);
    if (!erf)
        return false;
    bag b = factors_of_value(tn_arg_value(erf, 0));
    return !b.full && b.count == 1 && b.values[0] == x && near(b.number, 0.70710678118654752);
}

/* tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)) */
static bool is_tanh_part(const tenon_value *value, const tenon_value *x) {
    const tenon_node *tanh = tn_only_by(value, TN_OP_tanh);
    if (!tanh)
        return false;
    bag b = factors_of_value(tn_arg_value(tanh, 0));
    if (b.full || b.count != 1 || !near(b.number, 0.79788456080286536))
        return false;
    const tenon_node *sum = tn_only_by(b.values[0], TN_OP_add_Tensor);
    if (!sum || !tn_arg_is(sum, 2, 1))
        return false;
    const tenon_value *l = tn_arg_value(sum, 0), *r = tn_arg_value(sum, 1);
    return (l == x && is_cubic_term(r, x)) || (r == x && is_cubic_term(l, x));
}

/* clamp(x + 3, 0, 6), used once: gives x. */
static tenon_value *relu6_of_plus_3(const tenon_value *value) {
    const tenon_node *node = value && value->use_count == 1 ? value->node : NULL;
    if (!node)
        return NULL;
    if (tn_node_is(node, TN_OP_relu6))
        return plus(tn_arg_value(node, 0), 3);
    if (!tn_node_is(node, TN_OP_clamp) && !tn_node_is(node, TN_OP_hardtanh))
        return NULL;
    double low;
    if (!tn_arg_number(node, 1, &low) || low != 0 || !tn_arg_is(node, 2, 6))
        return NULL;
    return plus(tn_arg_value(node, 0), 3);
}

static tenon_status product(tenon_node *node, tenon_value **with) {
    const tenon_value *out = node->outputs[0];
    if (!tn_is_float_value(out))
        return TENON_OK;
    bag b = factors_of(node);
    if (b.full || b.count < 1 || b.count > 2)
        return TENON_OK;
    if (b.count == 1) {
        tenon_value *x = relu6_of_plus_3(b.values[0]);
        return x && near(b.number, 1.0 / 6)
                   ? tn_emit(node, TN_OP_hardsigmoid, with, TN_ARGS(VAL(x)))
                   : TENON_OK;
    }
    for (int i = 0; i < 2; i++) {
        tenon_value *x = b.values[i], *other = b.values[1 - i], *inner;
        if (x->dtype != out->dtype)
            continue;
        const tenon_node *gate = tn_only_by(other, TN_OP_sigmoid);
        if (gate && tn_arg_value(gate, 0) == x && b.number == 1)
            return tn_emit(node, TN_OP_silu, with, TN_ARGS(VAL(x)));
        gate = tn_only_by(other, TN_OP_hardsigmoid);
        if (gate && tn_arg_value(gate, 0) == x && b.number == 1)
            return tn_emit(node, TN_OP_hardswish, with, TN_ARGS(VAL(x)));
        if (near(b.number, 1.0 / 6) && relu6_of_plus_3(other) == x)
            return tn_emit(node, TN_OP_hardswish, with, TN_ARGS(VAL(x)));
        inner = near(b.number, 0.5) ? plus(other, 1) : NULL;
        if (inner && is_erf_part(inner, x))
            return tn_emit(node, TN_OP_gelu, with, TN_ARGS(VAL(x)));
        if (inner && is_tanh_part(inner, x))
            return tn_emit(node, TN_OP_gelu, with, TN_ARGS(VAL(x), tenon_arg_string("tanh")));
    }
    return TENON_OK;
}

/* Two bounds, one after the other. */
static tenon_status clamps(tenon_node *node, tenon_value **with) {
    const tenon_node *inner = tn_only_by(tn_arg_value(node, 0), TN_OP_clamp);
    double low, high;
    if (!inner || node->outputs[0]->dtype != inner->outputs[0]->dtype ||
        tn_arg_value(inner, 0)->dtype != inner->outputs[0]->dtype)
        return TENON_OK;
    const tenon_node *below = tn_arg_is_none(inner, 2) && tn_arg_is_none(node, 1) ? inner : node;
    const tenon_node *above = below == inner ? node : inner;
    if (!tn_arg_is_none(below, 2) || !tn_arg_is_none(above, 1) || !tn_arg_number(below, 1, &low) ||
        !tn_arg_number(above, 2, &high) || !(low <= high))
        return TENON_OK;
    return tn_emit(node, TN_OP_clamp, with,
                   TN_ARGS(inner->args[0], below->args[1], above->args[2]));
}

tenon_status tn_pass_activations(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {
        {TN_OP_mul_Tensor, product}, {TN_OP_mul_Scalar, product}, {TN_OP_div_Tensor, product},
        {TN_OP_div_Scalar, product}, {TN_OP_clamp, clamps},
    };
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
