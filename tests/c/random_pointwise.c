/* Motifs of elementwise ops and reductions. */
#include "random_graph.h"
#include <math.h>

/* ---- Activations ---- */

/* x * 0.5 * (1 + erf(x / sqrt 2)) */
static tenon_value *gelu_erf(rg *g, tenon_value *x) {
    tenon_value *erf = rg_op(g, "erf", "v", rg_leak(g, rg_times(g, x, rg_off(g, M_SQRT1_2))));
    tenon_value *sum = rg_plus(g, rg_set(g, rg_leak(g, erf), 1), rg_off(g, 1));
    switch (rg_int(g, 0, 2)) {
    case 0:
        return rg_mul(g, rg_times(g, x, 0.5), sum);
    case 1:
        return rg_times(g, rg_mul(g, x, sum), rg_off(g, 0.5));
    default:
        return rg_mul(g, x, rg_times(g, sum, 0.5));
    }
}

/* x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) */
static tenon_value *gelu_tanh(rg *g, tenon_value *x) {
    tenon_value *cube = rg_chance(g, 50) ? rg_op(g, "pow.Tensor_Scalar", "vd", x, 3.0)
                                         : rg_mul(g, rg_mul(g, x, x), x);
    tenon_value *sum = rg_add(g, x, rg_times(g, rg_leak(g, cube), rg_off(g, 0.044715)));
    tenon_value *t =
        rg_op(g, "tanh", "v", rg_times(g, rg_leak(g, sum), rg_off(g, 0.79788456080286536)));
    t = rg_plus(g, rg_set(g, t, 1), rg_off(g, 1));
    return rg_chance(g, 50) ? rg_mul(g, rg_times(g, x, 0.5), t)
                            : rg_times(g, rg_mul(g, x, t), rg_off(g, 0.5));
}

static tenon_value *relu6_plus_3(rg *g, tenon_value *x) {
    tenon_value *sum = rg_leak(g, rg_plus(g, x, rg_off(g, 3)));
    switch (rg_int(g, 0, 3)) {
    case 0:
        return rg_set(g, rg_op(g, "relu6", "v", sum), 6);
    case 1:
        return rg_set(g, rg_op(g, "hardtanh", "vdd", sum, 0.0, rg_off(g, 6)), 6);
    case 2:
        sum = rg_op(g, "clamp", "vin", sum, 0);
        return rg_set(g, rg_op(g, "clamp", "vni", rg_leak(g, sum), 6), 6);
    default:
        return rg_set(g, rg_op(g, "clamp", "vii", sum, 0, 6), 6);
    }
}

static tenon_value *taken_apart(rg *g, tenon_value *x) {
    tenon_value *y;
    switch (rg_int(g, 0, 5)) {
    case 0:
        return gelu_erf(g, x);
    case 1:
        return gelu_tanh(g, x);
    case 2:
        y = rg_set(g, rg_op(g, "sigmoid", "v", x), 1);
        return rg_mul(g, rg_chance(g, 92) ? x : rg_like(g, x), rg_leak(g, y));
    case 3:
        return rg_times(g, rg_leak(g, relu6_plus_3(g, x)), rg_off(g, 1.0 / 6));
    case 4:
        y = relu6_plus_3(g, x);
        return rg_chance(g, 50) ? rg_times(g, rg_mul(g, x, y), rg_off(g, 1.0 / 6))
                                : rg_mul(g, x, rg_times(g, rg_leak(g, y), 1.0 / 6));
    default:
        y = rg_set(g, rg_op(g, "hardsigmoid", "v", x), 1);
        return rg_mul(g, x, rg_leak(g, y));
    }
}

tenon_value *rg_activate(rg *g, tenon_value *x) {
    static const char *const names[] = {"relu",       "relu", "gelu",      "silu",
                                        "sigmoid",    "tanh", "hardswish", "relu6",
                                        "elu",        "mish", "hardtanh",  "hardsigmoid",
                                        "leaky_relu", "abs",  "softplus",  "log_sigmoid"};
    if (rg_chance(g, 25))
        return taken_apart(g, x);
    if (rg_chance(g, 5))
        return rg_op(g, "gelu", "vs", x, "tanh");
    return rg_op(g, names[rg_int(g, 0, 15)], "v", x);
}

static void activation(rg *g) {
    rg_push(g, rg_activate(g, rg_pick(g, 0, 5)));
}

static void apart(rg *g) {
    rg_push(g, taken_apart(g, rg_pick(g, 0, 4)));
}

static void clamps(rg *g) {
    tenon_value *x = rg_pick(g, 0, 4);
    double low = rg_real(g, -1, 0.3), high = rg_real(g, -0.2, 1);
    for (int i = 0; i < 2; i++) {
        switch (rg_int(g, 0, 5)) {
        case 0:
            x = rg_op(g, "clamp", "vdn", x, low);
            break;
        case 1:
            x = rg_op(g, "clamp", "vnd", x, high);
            break;
        case 2:
            x = rg_op(g, "clamp_min", "vd", x, low);
            break;
        case 3:
            x = rg_op(g, "clamp_max", "vd", x, high);
            break;
        case 4:
            x = rg_op(g, "clamp", "vdd", x, low, high);
            break;
        default:
            x = rg_op(g, "relu", "v", x);
        }
        rg_leak(g, x);
    }
    rg_push(g, x);
}

/* ---- Elementwise ---- */

static void unary(rg *g) {
    static const char *const any[] = {"neg",        "abs",   "sin",  "cos",   "erf",
                                      "square",     "exp",   "tanh", "expm1", "atan",
                                      "reciprocal", "log1p", "sqrt", "rsqrt", "log"};
    tenon_value *x = rg_pick(g, 0, 4);
    int at = rg_int(g, 0, 14);
    double size = x ? rg_get(g, x) : 0;
    if (at == 6 || at == 8)
        x = rg_set(g, rg_op(g, "clamp_max", "vd", x, 2.0), 2);
    if (at >= 10)
        x = rg_op(g, "add.Tensor", "vd", rg_op(g, "abs", "v", x), 0.5);
    rg_push(g, rg_set(g, rg_op(g, any[at], "v", x), at == 5 ? size * size : at == 6 ? 8 : size));
}

static void binary(rg *g) {
    static const char *const names[] = {"add.Tensor", "sub.Tensor", "mul.Tensor",
                                        "maximum",    "minimum",    "rsub.Tensor"};
    tenon_value *a = rg_pick(g, 0, 4);
    tenon_value *b = rg_chance(g, 55) ? rg_like(g, a) : rg_spread(g, a);
    if (!a || !b)
        return;
    double size = rg_get(g, a) + rg_get(g, b);
    bool swap = rg_chance(g, 40);
    int at = rg_int(g, 0, 9);
    tenon_value *l = swap ? b : a, *r = swap ? a : b, *y;
    if (at == 6 || at == 7) /* atan2 jumps where its second argument is not positive */
        y = rg_op(g, at == 6 ? "atan2" : "div.Tensor", "vv", l,
                  rg_op(g, "add.Tensor", "vd", rg_op(g, "abs", "v", r), 0.5));
    else if (at == 8)
        y = rg_op(g, rg_chance(g, 50) ? "add.Tensor" : "sub.Tensor", "vvd", l, r,
                  rg_chance(g, 50) ? 2.0 : 0.5);
    else if (at == 9)
        y = rg_op(g, "lerp.Scalar", "vvd", l, r, 0.3);
    else
        y = rg_op(g, names[at], "vv", l, r);
    rg_push(g, rg_set(g, y, at == 2 ? rg_get(g, a) * rg_get(g, b) : size * 2));
}

static void scalar(rg *g) {
    tenon_value *x = rg_pick(g, 0, 4);
    for (int i = rg_int(g, 1, 3); i > 0; i--) {
        double number = rg_chance(g, 20) ? 1 : rg_chance(g, 30) ? 2 : rg_real(g, 0.3, 2);
        switch (rg_int(g, 0, 5)) {
        case 0:
            x = rg_plus(g, x, rg_chance(g, 15) ? 0 : number);
            break;
        case 1:
            x = rg_op(g, "rsub.Scalar", "vd", x, number);
            break;
        case 2:
            x = rg_op(g, "mul.Scalar", "vi", x, rg_int(g, 1, 2));
            break;
        case 3:
            x = rg_op(g, "sub.Scalar", "vd", x, number);
            break;
        default:
            x = rg_times(g, x, number);
        }
        rg_leak(g, x);
    }
    rg_push(g, x);
}

static void composite(rg *g) {
    tenon_value *x = rg_pick(g, 1, 4), *y = rg_like(g, x);
    switch (rg_int(g, 0, 5)) {
    case 0:
        if (x && rg_size(x, -1) % 2 == 0)
            rg_push(g, rg_op(g, "glu", "vi", x, -1));
        break;
    case 1:
        if (x && rg_size(x, -1) > 1)
            rg_push(g, rg_op(g, "diff", "v", x));
        break;
    case 2:
        rg_push(g, rg_op(g, "logaddexp", "vv", x, y));
        break;
    case 3:
        rg_push(g, rg_op(g, "addcmul", "vvvd", x, rg_like(g, x), y, 0.5));
        break;
    case 4:
        rg_push(g,
                rg_op(g, "add.Tensor", "vv", rg_op(g, "cosine_similarity", "vvid", x, y, -1, 1e-3),
                      rg_number(g, 0.5, 0)));
        break;
    default:
        rg_push(g, rg_op(g, "prelu", "vv", x, rg_vector(g, 1, 0.2, 0.3)));
    }
}

/* ---- Reductions ---- */

static void reduction(rg *g) {
    static const char *const names[] = {"mean.dim", "sum.dim_IntList", "amax", "amin", "logsumexp"};
    tenon_value *x = rg_pick(g, 1, 4), *y;
    if (!x || rg_numel(x) == 0)
        return;
    int rank = rg_rank(x), dim = rg_int(g, -rank, rank - 1), keep = rg_chance(g, 50);
    double size = rg_get(g, x) * 4;
    switch (rg_int(g, 0, 8)) {
    case 0:
        y = rg_op(g, rg_chance(g, 50) ? "mean" : "sum", "v", x);
        break;
    case 1:
        y = rg_op(g, "var.correction", "vLib", x, 1, dim, 0, keep);
        size *= size;
        break;
    case 2:
        y = rg_op(g, "max.dim", "vib", x, dim, keep);
        rg_push(g, rg_output(g, 1));
        break;
    case 3:
        y = rg_op(g, "cumsum", "vi", x, dim);
        break;
    case 4:
        y = rg_op(g, "linalg_vector_norm", "viLb", x, 2, 1, dim, keep);
        break;
    default:
        y = rg_op(g, names[rg_int(g, 0, 4)], "vLb", x, 1, dim, keep);
    }
    rg_push(g, rg_set(g, y, size));
}

const rg_motif rg_pointwise[] = {
    {"activation", activation, 4}, {"apart", apart, 6},         {"clamps", clamps, 2},
    {"unary", unary, 4},           {"binary", binary, 8},       {"scalar", scalar, 4},
    {"composite", composite, 3},   {"reduction", reduction, 4}, {0}};
