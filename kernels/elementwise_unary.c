/* Elementwise ops of one tensor. */
#include "kernels/elementwise.h"
#include "kernels/special.h"
#include "kernels/vmath.h"
#include <float.h>
#include <string.h>

/* A float and a double loop from one expression each; INT adds the integers' loop. */
#define FLOAT(name, single, doubled)           \
    TN_LOOP1(name##_f32, float, float, single) \
    TN_LOOP1(name##_f64, double, double, doubled)
#define BOTH(name, expression) FLOAT(name, expression, expression)
#define INT(name, expression) TN_LOOP1(name##_i64, int64_t, int64_t, expression)
#define TRUTH(name, floats, integers)             \
    TN_LOOP1(name##_f32, uint8_t, float, floats)  \
    TN_LOOP1(name##_f64, uint8_t, double, floats) \
    TN_LOOP1(name##_i64, uint8_t, int64_t, integers)
#define LIBM(name) FLOAT(name, name##f(x), name(x))

INT(same, x)
FLOAT(abs, fabsf(x), fabs(x))
INT(abs, x < 0 ? (int64_t)(0 - (uint64_t)x) : x)
BOTH(neg, -x)
INT(neg, 0 - (uint64_t)x)
BOTH(sign, (x > 0) - (x < 0))
INT(sign, (x > 0) - (x < 0))
BOTH(square, (x) * (x))
INT(square, (uint64_t)(x) * (uint64_t)(x))
FLOAT(ceil, ceilf(x), ceil(x))
FLOAT(floor, floorf(x), floor(x))
FLOAT(trunc, truncf(x), trunc(x))
FLOAT(round, rintf(x), rint(x))
FLOAT(frac, x - truncf(x), x - trunc(x))
BOTH(reciprocal, 1 / x)
FLOAT(rsqrt, 1 / sqrtf(x), 1 / sqrt(x))
FLOAT(sqrt, sqrtf(x), sqrt(x))

FLOAT(exp, tn_expf(x), exp(x))
FLOAT(expm1, tn_expm1f(x), expm1(x))
FLOAT(log, tn_logf(x), log(x))
FLOAT(log1p, tn_log1pf(x), log1p(x))
FLOAT(tanh, tn_tanhf(x), tanh(x))
FLOAT(erf, tn_erff(x), erf(x))
FLOAT(sigmoid, tn_sigmoidf(x), 1 / (1 + exp(-x)))
LIBM(acos)
LIBM(acosh)
LIBM(asin)
LIBM(asinh)
LIBM(atan)
LIBM(atanh)
LIBM(cosh)
LIBM(erfc)
LIBM(exp2)
LIBM(log10)
LIBM(log2)
LIBM(sinh)
LIBM(tan)
FLOAT(sinc, x == 0 ? 1 : sinf(x * (float)M_PI) / (x * (float)M_PI),
      x == 0 ? 1 : sin(x * M_PI) / (x * M_PI))

/* sin and cos: float loops that vectorise, but for rows with arguments too large for their
 * reduction. */
static bool all_within(const float *x, int64_t n, float limit) {
    int outside = 0;
#pragma omp simd reduction(| : outside)
    for (int64_t i = 0; i < n; i++)
        outside |= !(fabsf(x[i]) < limit);
    return !outside;
}
#define CIRCULAR(name)                                                  \
    TN_LOOP1(name##_f32_inside, float, float, tn_##name##f(x))          \
    TN_LOOP1(name##_f32_any, float, float, name##f(x))                  \
    TN_LOOP1(name##_f64, double, double, name(x))                       \
    static void name##_f32(void *out, const void *const *in, int64_t n, \
                           const tn_elem_numbers *p) {                  \
        if (all_within(in[0], n, TN_SINCOS_LIMIT))                      \
            name##_f32_inside(out, in, n, p);                           \
        else                                                            \
            name##_f32_any(out, in, n, p);                              \
    }
CIRCULAR(sin)
CIRCULAR(cos)

/* Activations. `x < 0 ? 0 : x` and its like keep NaN. */
#define CLAMP(v, low, high) ((v) < (low) ? (low) : (v) > (high) ? (high) : (v))
BOTH(relu, x < 0 ? 0 : x)
INT(relu, x < 0 ? 0 : x)
FLOAT(gelu, tn_geluf(x), 0.5 * x * (1 + erf(x * M_SQRT1_2)))
static inline double gelu_tanh_double(double x) {
    double z = CLAMP(x, -40, 40);
    return 0.5 * x * (1 + tanh(0.5 * M_2_SQRTPI * M_SQRT2 * (z + 0.044715 * z * z * z)));
}
FLOAT(gelu_tanh, tn_gelu_tanhf(x), gelu_tanh_double(x))
FLOAT(silu, x / (1 + tn_expf(-x)), x / (1 + exp(-x)))
BOTH(hardswish, (x) * (CLAMP(x + 3, 0, 6)) / 6)
BOTH(hardsigmoid, CLAMP(x + 3, 0, 6) / 6)
/* p0 = low, p1 = high; when low > high, high wins */
#define HARDTANH ((x < p0 ? p0 : x) > p1 ? p1 : (x < p0 ? p0 : x))
BOTH(hardtanh, HARDTANH)
INT(hardtanh, HARDTANH)
/* p0 = alpha * scale, p1 = scale, p2 = input scale; selu and celu are cases of it */
FLOAT(elu, x <= 0 ? tn_expm1f(x * p2) * p0 : x * p1, x <= 0 ? expm1(x * p2) * p0 : x * p1)
BOTH(leaky_relu, x > 0 ? x : x * p0)
/* p0 = beta, p1 = threshold */
FLOAT(softplus, (x)*p0 > p1 ? x : tn_log1pf(tn_expf(x * p0)) / p0,
      (x)*p0 > p1 ? x : log1p(exp(x * p0)) / p0)
/* tanh(log(1 + e)) = (e^2 + 2e) / (e^2 + 2e + 2) with e = exp(x), which is 1 long before e^2
 * overflows. */
static inline float mish_float(float x) {
    float e = tn_expf(x > 20 ? 20 : x), n = e * (e + 2);
    return x > 20 ? x : x * n / (n + 2);
}
FLOAT(mish, mish_float(x), (x)*tanh(log1p(exp(x))))
FLOAT(log_sigmoid, (x > 0 ? 0 : x) - tn_log1pf(tn_expf(-fabsf(x))),
      (x > 0 ? 0 : x) - log1p(exp(-fabs(x))))
BOTH(threshold, x <= p0 ? p1 : x)
INT(threshold, x <= p0 ? p1 : x)
/* p0, p1: where x is cut off on both sides */
FLOAT(logit, tn_logf(CLAMP(x, p0, p1) / (1 - CLAMP(x, p0, p1))),
      log(CLAMP(x, p0, p1) / (1 - CLAMP(x, p0, p1))))
BOTH(nan_to_num, x != x ? p0 : x == INFINITY ? p1 : x == -INFINITY ? p2 : x)
/* p0 = 10^|decimals|; p1 is 1 for decimals below 0 */
FLOAT(round_decimals, p1 != 0 ? rintf(x / p0) * p0 : rintf(x * p0) / p0,
      p1 != 0 ? rint(x / p0) * p0 : rint(x * p0) / p0)

/* p0 = lambda */
BOTH(hardshrink, x >= -p0 && x <= p0 ? 0 : x)
BOTH(softshrink, x > p0 ? x - p0 : x < -p0 ? x + p0 : 0 * x)

#define DOUBLED(name) FLOAT(name, (float)tn_##name((double)x), tn_##name(x))
DOUBLED(lgamma)
DOUBLED(digamma)
DOUBLED(erfinv)
DOUBLED(entr)
FLOAT(ndtr, (float)(0.5 * erfc((double)-x * M_SQRT1_2)), 0.5 * erfc(-x * M_SQRT1_2))
FLOAT(deg2rad, x *(float)(M_PI / 180), x *(M_PI / 180))
FLOAT(rad2deg, x *(float)(180 / M_PI), x *(180 / M_PI))
TRUTH(signbit, signbit(x) != 0, x < 0)
TRUTH(isnan, x != x, 0)
TRUTH(isinf, x == INFINITY || x == -INFINITY, 0)
TRUTH(isfinite, x - x == 0, 1)
TN_LOOP1(logical_not, uint8_t, uint8_t, !x)
INT(bitwise_not, ~x)

typedef struct unary {
    tn_elem_fn f32, f64, i64; /* i64 NULL: integers stay as they are, or are computed in float */
    int cost;
} unary;

#define ROW(name, cost) \
    { name##_f32, name##_f64, NULL, cost }
#define ROW_INT(name, cost) \
    { name##_f32, name##_f64, name##_i64, cost }
static const unary table[TN_OP_COUNT] = {
    [TN_OP_abs] = ROW_INT(abs, 1),
    [TN_OP_absolute] = ROW_INT(abs, 1),
    [TN_OP_acos] = ROW(acos, 20),
    [TN_OP_acosh] = ROW(acosh, 20),
    [TN_OP_asin] = ROW(asin, 20),
    [TN_OP_asinh] = ROW(asinh, 20),
    [TN_OP_atan] = ROW(atan, 20),
    [TN_OP_atanh] = ROW(atanh, 20),
    [TN_OP_ceil] = ROW(ceil, 1),
    [TN_OP_cos] = ROW(cos, 8),
    [TN_OP_cosh] = ROW(cosh, 20),
    [TN_OP_erf] = ROW(erf, 8),
    [TN_OP_erfc] = ROW(erfc, 20),
    [TN_OP_exp] = ROW(exp, 4),
    [TN_OP_exp2] = ROW(exp2, 10),
    [TN_OP_expm1] = ROW(expm1, 4),
    [TN_OP_floor] = ROW(floor, 1),
    [TN_OP_frac] = ROW(frac, 1),
    [TN_OP_log] = ROW(log, 4),
    [TN_OP_log10] = ROW(log10, 20),
    [TN_OP_log1p] = ROW(log1p, 5),
    [TN_OP_log2] = ROW(log2, 10),
    [TN_OP_neg] = ROW_INT(neg, 1),
    [TN_OP_negative] = ROW_INT(neg, 1),
    [TN_OP_reciprocal] = ROW(reciprocal, 1),
    [TN_OP_round] = ROW(round, 1),
    [TN_OP_round_decimals] = ROW(round_decimals, 2),
    [TN_OP_special_round] = ROW(round_decimals, 2),
    [TN_OP_rsqrt] = ROW(rsqrt, 2),
    [TN_OP_sigmoid] = ROW(sigmoid, 4),
    [TN_OP_sign] = ROW_INT(sign, 1),
    [TN_OP_sgn] = ROW_INT(sign, 1),
    [TN_OP_sin] = ROW(sin, 8),
    [TN_OP_sinc] = ROW(sinc, 20),
    [TN_OP_sinh] = ROW(sinh, 20),
    [TN_OP_sqrt] = ROW(sqrt, 2),
    [TN_OP_square] = ROW_INT(square, 1),
    [TN_OP_tan] = ROW(tan, 20),
    [TN_OP_tanh] = ROW(tanh, 6),
    [TN_OP_trunc] = ROW(trunc, 1),
    [TN_OP_fix] = ROW(trunc, 1),
    [TN_OP_relu] = ROW_INT(relu, 1),
    [TN_OP_relu6] = ROW_INT(hardtanh, 1),
    [TN_OP_gelu] = ROW(gelu, 8),
    [TN_OP_silu] = ROW(silu, 4),
    [TN_OP_hardswish] = ROW(hardswish, 1),
    [TN_OP_hardsigmoid] = ROW(hardsigmoid, 1),
    [TN_OP_hardtanh] = ROW_INT(hardtanh, 1),
    [TN_OP_elu] = ROW(elu, 5),
    [TN_OP_selu] = ROW(elu, 5),
    [TN_OP_celu] = ROW(elu, 5),
    [TN_OP_leaky_relu] = ROW(leaky_relu, 1),
    [TN_OP_softplus] = ROW(softplus, 8),
    [TN_OP_mish] = ROW(mish, 14),
    [TN_OP_log_sigmoid] = ROW(log_sigmoid, 8),
    [TN_OP_threshold] = ROW_INT(threshold, 1),
    [TN_OP_logit] = ROW(logit, 6),
    [TN_OP_nan_to_num] = ROW(nan_to_num, 1),
    [TN_OP_hardshrink] = ROW(hardshrink, 1),
    [TN_OP_softshrink] = ROW(softshrink, 1),
    [TN_OP_signbit] = ROW_INT(signbit, 1),
    [TN_OP_lgamma] = ROW(lgamma, 40),
    [TN_OP_digamma] = ROW(digamma, 40),
    [TN_OP_erfinv] = ROW(erfinv, 60),
    [TN_OP_special_entr] = ROW(entr, 20),
    [TN_OP_special_ndtr] = ROW(ndtr, 30),
    [TN_OP_deg2rad] = ROW(deg2rad, 1),
    [TN_OP_rad2deg] = ROW(rad2deg, 1),
    [TN_OP_isnan] = ROW_INT(isnan, 1),
    [TN_OP_isinf] = ROW_INT(isinf, 1),
    [TN_OP_isfinite] = ROW_INT(isfinite, 1),
    [TN_OP_bitwise_not] = {NULL, NULL, bitwise_not_i64, 1},
};
static const unary gelu_tanh = ROW(gelu_tanh, 8);

static void set(tn_elem_numbers *p, const tenon_node *node, int index, int arg, double other) {
    p->f[index] = tn_arg_float(node, arg, other);
    p->i[index] = tn_arg_int(node, arg, (int64_t)other);
}

static void set_limits(tn_elem_numbers *p, const tenon_node *node, tenon_dtype dtype) {
    double largest = dtype == TENON_FLOAT16    ? 65504.0
                     : dtype == TENON_BFLOAT16 ? 0x1.fep127
                     : dtype == TENON_FLOAT32  ? FLT_MAX
                                               : DBL_MAX;
    p->f[0] = tn_arg_float(node, 1, 0);
    p->f[1] = tn_arg_float(node, 2, largest);
    p->f[2] = tn_arg_float(node, 3, -largest);
}

static void set_elu(tn_elem_numbers *p, double alpha, double scale, double input_scale) {
    p->f[0] = alpha * scale;
    p->f[1] = scale;
    p->f[2] = input_scale;
}

static void set_numbers(tn_elem_numbers *p, const tenon_node *node, tenon_dtype dtype) {
    double alpha;
    switch (node->op->id) {
    case TN_OP_relu6:
        p->f[1] = 6;
        p->i[1] = 6;
        break;
    case TN_OP_hardtanh:
    case TN_OP_threshold:
    case TN_OP_softplus:
        set(p, node, 0, 1, -1);
        set(p, node, 1, 2, 1);
        break;
    case TN_OP_leaky_relu:
        set(p, node, 0, 1, 0.01);
        break;
    case TN_OP_hardshrink:
    case TN_OP_softshrink:
        set(p, node, 0, 1, 0.5);
        break;
    case TN_OP_elu:
        set_elu(p, tn_arg_float(node, 1, 1), tn_arg_float(node, 2, 1), tn_arg_float(node, 3, 1));
        break;
    case TN_OP_selu: /* Klambauer et al., "Self-Normalizing Neural Networks" */
        set_elu(p, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
        break;
    case TN_OP_celu:
        alpha = tn_arg_float(node, 1, 1);
        set_elu(p, alpha, 1, 1 / alpha);
        break;
    case TN_OP_logit:
        p->f[0] = tn_arg_float(node, 1, -INFINITY);
        p->f[1] = tn_arg_is_none(node, 1) ? INFINITY : 1 - p->f[0];
        break;
    case TN_OP_special_round:
    case TN_OP_round_decimals:
        p->f[0] = pow(10, fabs((double)tn_arg_int(node, 1, 0)));
        p->f[1] = tn_arg_int(node, 1, 0) < 0;
        break;
    case TN_OP_nan_to_num:
        set_limits(p, node, dtype);
        break;
    default:
        break;
    }
}

tenon_status TN_K(unary)(tn_call *call) {
    tenon_view in = tn_call_operand(call, 0);
    const tenon_view *out = &call->out[0];
    int id = call->node->op->id;
    const unary *row = &table[id];
    if (id == TN_OP_gelu && strcmp(tn_arg_string(call->node, 1), "tanh") == 0)
        row = &gelu_tanh;
    bool tests =
        id == TN_OP_isnan || id == TN_OP_isinf || id == TN_OP_isfinite || id == TN_OP_signbit;
    tenon_dtype dtype = tests ? in.dtype : out->dtype; /* what the op computes in */
    tn_class class = tn_class_of(dtype);
    tn_elem elem = {.in_count = 1, .cost = row->cost};
    elem.fn = class == TN_CLASS_F32 ? row->f32 : class == TN_CLASS_F64 ? row->f64 : row->i64;
    if (id == TN_OP_logical_not || (id == TN_OP_bitwise_not && dtype == TENON_BOOL)) {
        class = TN_CLASS_BOOL;
        elem.fn = logical_not;
    } else if (!elem.fn) {
        elem.fn = same_i64;
    }
    elem.out_class = tests ? TN_CLASS_BOOL : class;
    tn_elem_classes(&elem, class == TN_CLASS_BOOL ? TENON_DTYPE_NONE : dtype, class);
    set_numbers(&elem.numbers, call->node, dtype);
    return TN_K(elementwise)(call, &elem, out, &in);
}
