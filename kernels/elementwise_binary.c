/* Elementwise ops of two tensors, one of which may be a number. */
#include "core/infer.h"
#include "kernels/elementwise.h"
#include "kernels/special.h"
#include "kernels/vmath.h"
#include <string.h>

#define FLOAT(name, single, doubled)           \
    TN_LOOP2(name##_f32, float, float, single) \
    TN_LOOP2(name##_f64, double, double, doubled)
#define BOTH(name, expression) FLOAT(name, expression, expression)
#define INT(name, expression) TN_LOOP2(name##_i64, int64_t, int64_t, expression)
#define ALL(name, expression) BOTH(name, expression) INT(name, expression)
/* Unsigned arithmetic wraps. */
#define UINT(name, expression) TN_LOOP2(name##_i64, uint64_t, uint64_t, expression)

BOTH(add, x + y)
UINT(add, x + y)
BOTH(sub, x - y)
UINT(sub, x - y)
/* p0 = alpha */
BOTH(add_alpha, x + p0 * y)
UINT(add_alpha, x + (uint64_t)p->i[0] * y)
BOTH(sub_alpha, x - p0 * y)
UINT(sub_alpha, x - (uint64_t)p->i[0] * y)
BOTH(mul, (x) * (y))
UINT(mul, (x) * (y))
BOTH(div, x / y)
FLOAT(div_trunc, truncf(x / y), trunc(x / y))

/* NaN on either side wins. */
#define MAXIMUM(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define MINIMUM(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
ALL(maximum, MAXIMUM(x, y))
ALL(minimum, MINIMUM(x, y))

FLOAT(atan2, atan2f(x, y), atan2(x, y))
FLOAT(hypot, hypotf(x, y), hypot(x, y))
FLOAT(fmod, fmodf(x, y), fmod(x, y))

/* NaN loses to a number. */
FLOAT(fmax, fmaxf(x, y), fmax(x, y))
FLOAT(fmin, fminf(x, y), fmin(x, y))
INT(fmax, x > y ? x : y)
INT(fmin, x < y ? x : y)
FLOAT(copysign, copysignf(x, y), copysign(x, y))
FLOAT(xlogy, y != y ? y : x == 0 ? 0 : (x)*tn_logf(y), y != y ? y : x == 0 ? 0 : (x)*log(y))
FLOAT(xlog1py, y != y ? y : x == 0 ? 0 : (x)*log1pf(y), y != y ? y : x == 0 ? 0 : (x)*log1p(y))
static inline uint64_t magnitude(int64_t x) {
    return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}
static inline int64_t lcm(int64_t x, int64_t y) {
    uint64_t a = magnitude(x), b = magnitude(y), g = tn_gcd(a, b);
    return g ? (int64_t)magnitude((int64_t)(a / g * b)) : 0;
}
TN_LOOP2(gcd_i64, int64_t, int64_t, tn_gcd(magnitude(x), magnitude(y)))
TN_LOOP2(lcm_i64, int64_t, int64_t, lcm(x, y))
FLOAT(nextafter, nextafterf(x, y), nextafter(x, y))
ALL(heaviside, x == 0 ? y : x > 0)

/* Python's %: the divisor's sign. */
static inline float remainder_float(float x, float y) {
    float mod = fmodf(x, y);
    return mod != 0 && (y < 0) != (mod < 0) ? mod + y : mod;
}
static inline double remainder_double(double x, double y) {
    double mod = fmod(x, y);
    return mod != 0 && (y < 0) != (mod < 0) ? mod + y : mod;
}
FLOAT(remainder, remainder_float(x, y), remainder_double(x, y))

/* Python's //, by fmod, so that the quotient fits the remainder. */
static inline double div_floor_double(double x, double y) {
    if (y == 0)
        return x / y;
    double mod = fmod(x, y), div = (x - mod) / y;
    if (mod != 0 && (y < 0) != (mod < 0))
        div -= 1;
    if (div == 0)
        return copysign(0, x / y);
    double whole = floor(div);
    return div - whole > 0.5 ? whole + 1 : whole;
}
static inline float div_floor_float(float x, float y) {
    if (y == 0)
        return x / y;
    float mod = fmodf(x, y), div = (x - mod) / y;
    if (mod != 0 && (y < 0) != (mod < 0))
        div -= 1;
    if (div == 0)
        return copysignf(0, x / y);
    float whole = floorf(div);
    return div - whole > 0.5f ? whole + 1 : whole;
}
FLOAT(div_floor, div_floor_float(x, y), div_floor_double(x, y))

/* Integer division: zero is an error that the driver reports; the smallest number by -1 wraps. */
#define DIVIDE(name, expression)                                        \
    static void name##_i64(void *out, const void *const *in, int64_t n, \
                           const tn_elem_numbers *p) {                  \
        int64_t *o = out;                                               \
        const int64_t *a = in[0], *b = in[1];                           \
        for (int64_t i = 0; i < n; i++) {                               \
            int64_t x = a[i], y = b[i];                                 \
            if (y == 0)                                                 \
                __atomic_store_n(p->failed, 1, __ATOMIC_RELAXED);       \
            o[i] = y == 0 ? 0 : (expression);                           \
        }                                                               \
    }
static inline int64_t quotient(int64_t x, int64_t y) {
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}
static inline int64_t rest(int64_t x, int64_t y) {
    return y == -1 ? 0 : x % y;
}
DIVIDE(div_trunc, quotient(x, y))
DIVIDE(div_floor, quotient(x, y) - (rest(x, y) != 0 && (rest(x, y) < 0) != (y < 0)))
DIVIDE(fmod, rest(x, y))
DIVIDE(remainder, rest(x, y) + (rest(x, y) != 0 && (rest(x, y) < 0) != (y < 0) ? y : 0))

FLOAT(pow, powf(x, y), pow(x, y))
/* Exponents that PyTorch treats apart when they are a number; y is that number. */
FLOAT(pow_half, sqrtf(x), sqrt(x))
FLOAT(pow_minus_half, 1 / sqrtf(x), 1 / sqrt(x))
BOTH(pow_two, (x) * (x))
BOTH(pow_three, (x) * (x) * (x))
BOTH(pow_minus_one, 1 / x)
BOTH(pow_minus_two, 1 / ((x) * (x)))

static inline int64_t pow_int(int64_t x, int64_t y) {
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    uint64_t result = 1, base = (uint64_t)x;
    for (uint64_t left = (uint64_t)y; left; left >>= 1) {
        if (left & 1)
            result *= base;
        base *= base;
    }
    return (int64_t)result;
}
INT(pow, pow_int(x, y))

INT(and, x &y)
INT(or, x | y)
INT(xor, x ^ y)
/* p0 = bits of the dtype, p1 = the largest shift to the right that differs from its neighbour */
INT(shift_left, y < 0 || y >= p0 ? 0 : (int64_t)((uint64_t)x << (y & 63)))
INT(shift_right, x >> (y < 0 || y >= p1 ? p1 : y))

#define COMPARE(name, operator)                         \
    TN_LOOP2(name##_f32, uint8_t, float, x operator y)  \
    TN_LOOP2(name##_f64, uint8_t, double, x operator y) \
    TN_LOOP2(name##_i64, uint8_t, int64_t, x operator y)
COMPARE(eq, ==)
COMPARE(ne, !=)
COMPARE(lt, <)
COMPARE(le, <=)
COMPARE(gt, >)
COMPARE(ge, >=)
TN_LOOP2(truth_and, uint8_t, uint8_t, x &y)
TN_LOOP2(truth_or, uint8_t, uint8_t, x | y)
TN_LOOP2(truth_xor, uint8_t, uint8_t, x ^ y)

enum {
    COMPARES = 1, /* the result is a truth value */
    LOGICAL = 2,  /* so are the operands */
    WIDE = 4,     /* numbers are not rounded to bfloat16 or float16 first */
    REVERSED = 8, /* the second operand comes first */
    SCALED = 16   /* times alpha: the next row in `scaled` */
};

typedef struct binary {
    tn_elem_fn f32, f64, i64, truth;
    int cost, flags;
} binary;

#define F(name, cost, flags) \
    { name##_f32, name##_f64, NULL, NULL, cost, flags }
#define FI(name, cost, flags) \
    { name##_f32, name##_f64, name##_i64, NULL, cost, flags }
#define BITS(name) \
    { NULL, NULL, name##_i64, truth_##name, 1, 0 }
#define TRUTH(name) \
    { NULL, NULL, NULL, truth_##name, 1, LOGICAL }
static const binary table[TN_OP_COUNT] = {
    [TN_OP_add_Tensor] = FI(add, 1, WIDE | SCALED),
    [TN_OP_add_Scalar] = FI(add, 1, WIDE | SCALED),
    [TN_OP_sub_Tensor] = FI(sub, 1, WIDE | SCALED),
    [TN_OP_subtract_Tensor] = FI(sub, 1, WIDE | SCALED),
    [TN_OP_sub_Scalar] = FI(sub, 1, WIDE | SCALED),
    [TN_OP_subtract_Scalar] = FI(sub, 1, WIDE | SCALED),
    [TN_OP_rsub_Tensor] = FI(sub, 1, WIDE | SCALED | REVERSED),
    [TN_OP_rsub_Scalar] = FI(sub, 1, WIDE | SCALED | REVERSED),
    [TN_OP_mul_Tensor] = FI(mul, 1, WIDE),
    [TN_OP_multiply_Tensor] = FI(mul, 1, WIDE),
    [TN_OP_mul_Scalar] = FI(mul, 1, WIDE),
    [TN_OP_multiply_Scalar] = FI(mul, 1, WIDE),
    [TN_OP_div_Tensor] = F(div, 1, WIDE),
    [TN_OP_divide_Tensor] = F(div, 1, WIDE),
    [TN_OP_div_Scalar] = F(div, 1, WIDE),
    [TN_OP_divide_Scalar] = F(div, 1, WIDE),
    [TN_OP_div_Tensor_mode] = F(div, 1, WIDE),
    [TN_OP_divide_Tensor_mode] = F(div, 1, WIDE),
    [TN_OP_div_Scalar_mode] = F(div, 1, WIDE),
    [TN_OP_divide_Scalar_mode] = F(div, 1, WIDE),
    [TN_OP_true_divide_Tensor] = F(div, 1, WIDE),
    [TN_OP_true_divide_Scalar] = F(div, 1, WIDE),
    [TN_OP_floor_divide] = FI(div_floor, 20, WIDE),
    [TN_OP_floor_divide_Scalar] = FI(div_floor, 20, WIDE),
    [TN_OP_remainder_Tensor] = FI(remainder, 20, 0),
    [TN_OP_remainder_Scalar] = FI(remainder, 20, 0),
    [TN_OP_remainder_Scalar_Tensor] = FI(remainder, 20, 0),
    [TN_OP_fmod_Tensor] = FI(fmod, 20, 0),
    [TN_OP_fmod_Scalar] = FI(fmod, 20, 0),
    [TN_OP_pow_Tensor_Tensor] = FI(pow, 20, 0),
    [TN_OP_pow_Tensor_Scalar] = FI(pow, 20, 0),
    [TN_OP_pow_Scalar] = FI(pow, 20, 0),
    [TN_OP_maximum] = FI(maximum, 1, 0),
    [TN_OP_max_other] = FI(maximum, 1, 0),
    [TN_OP_minimum] = FI(minimum, 1, 0),
    [TN_OP_min_other] = FI(minimum, 1, 0),
    [TN_OP_atan2] = F(atan2, 20, 0),
    [TN_OP_arctan2] = F(atan2, 20, 0),
    [TN_OP_fmax] = FI(fmax, 1, 0),
    [TN_OP_fmin] = FI(fmin, 1, 0),
    [TN_OP_copysign_Tensor] = F(copysign, 1, 0),
    [TN_OP_copysign_Scalar] = F(copysign, 1, 0),
    [TN_OP_xlogy_Tensor] = F(xlogy, 5, 0),
    [TN_OP_xlogy_Scalar_Self] = F(xlogy, 5, 0),
    [TN_OP_xlogy_Scalar_Other] = F(xlogy, 5, 0),
    [TN_OP_special_xlog1py] = F(xlog1py, 20, 0),
    [TN_OP_special_xlog1py_self_scalar] = F(xlog1py, 20, 0),
    [TN_OP_special_xlog1py_other_scalar] = F(xlog1py, 20, 0),
    [TN_OP_gcd] = {.i64 = gcd_i64, .cost = 60},
    [TN_OP_lcm] = {.i64 = lcm_i64, .cost = 60},
    [TN_OP_nextafter] = F(nextafter, 4, 0),
    [TN_OP_heaviside] = FI(heaviside, 1, 0),
    [TN_OP_hypot] = F(hypot, 10, 0),
    [TN_OP_eq_Tensor] = FI(eq, 1, COMPARES),
    [TN_OP_eq_Scalar] = FI(eq, 1, COMPARES),
    [TN_OP_ne_Tensor] = FI(ne, 1, COMPARES),
    [TN_OP_not_equal_Tensor] = FI(ne, 1, COMPARES),
    [TN_OP_ne_Scalar] = FI(ne, 1, COMPARES),
    [TN_OP_not_equal_Scalar] = FI(ne, 1, COMPARES),
    [TN_OP_lt_Tensor] = FI(lt, 1, COMPARES),
    [TN_OP_less_Tensor] = FI(lt, 1, COMPARES),
    [TN_OP_lt_Scalar] = FI(lt, 1, COMPARES),
    [TN_OP_less_Scalar] = FI(lt, 1, COMPARES),
    [TN_OP_le_Tensor] = FI(le, 1, COMPARES),
    [TN_OP_less_equal_Tensor] = FI(le, 1, COMPARES),
    [TN_OP_le_Scalar] = FI(le, 1, COMPARES),
    [TN_OP_less_equal_Scalar] = FI(le, 1, COMPARES),
    [TN_OP_gt_Tensor] = FI(gt, 1, COMPARES),
    [TN_OP_greater_Tensor] = FI(gt, 1, COMPARES),
    [TN_OP_gt_Scalar] = FI(gt, 1, COMPARES),
    [TN_OP_greater_Scalar] = FI(gt, 1, COMPARES),
    [TN_OP_ge_Tensor] = FI(ge, 1, COMPARES),
    [TN_OP_greater_equal_Tensor] = FI(ge, 1, COMPARES),
    [TN_OP_ge_Scalar] = FI(ge, 1, COMPARES),
    [TN_OP_greater_equal_Scalar] = FI(ge, 1, COMPARES),
    [TN_OP_logical_and] = TRUTH(and),
    [TN_OP_logical_or] = TRUTH(or),
    [TN_OP_logical_xor] = TRUTH(xor),
    [TN_OP_bitwise_and_Tensor] = BITS(and),
    [TN_OP_bitwise_and_Scalar] = BITS(and),
    [TN_OP_bitwise_and_Scalar_Tensor] = BITS(and),
    [TN_OP_dunder_and_Tensor] = BITS(and),
    [TN_OP_dunder_and_Scalar] = BITS(and),
    [TN_OP_bitwise_or_Tensor] = BITS(or),
    [TN_OP_bitwise_or_Scalar] = BITS(or),
    [TN_OP_bitwise_or_Scalar_Tensor] = BITS(or),
    [TN_OP_dunder_or_Tensor] = BITS(or),
    [TN_OP_dunder_or_Scalar] = BITS(or),
    [TN_OP_bitwise_xor_Tensor] = BITS(xor),
    [TN_OP_bitwise_xor_Scalar] = BITS(xor),
    [TN_OP_bitwise_xor_Scalar_Tensor] = BITS(xor),
    [TN_OP_dunder_xor_Tensor] = BITS(xor),
    [TN_OP_dunder_xor_Scalar] = BITS(xor),
    [TN_OP_bitwise_left_shift_Tensor] = {.i64 = shift_left_i64, .cost = 1},
    [TN_OP_bitwise_left_shift_Tensor_Scalar] = {.i64 = shift_left_i64, .cost = 1},
    [TN_OP_bitwise_left_shift_Scalar_Tensor] = {.i64 = shift_left_i64, .cost = 1},
    [TN_OP_dunder_lshift_Tensor] = {.i64 = shift_left_i64, .cost = 1},
    [TN_OP_dunder_lshift_Scalar] = {.i64 = shift_left_i64, .cost = 1},
    [TN_OP_bitwise_right_shift_Tensor] = {.i64 = shift_right_i64, .cost = 1},
    [TN_OP_bitwise_right_shift_Tensor_Scalar] = {.i64 = shift_right_i64, .cost = 1},
    [TN_OP_bitwise_right_shift_Scalar_Tensor] = {.i64 = shift_right_i64, .cost = 1},
    [TN_OP_dunder_rshift_Tensor] = {.i64 = shift_right_i64, .cost = 1},
    [TN_OP_dunder_rshift_Scalar] = {.i64 = shift_right_i64, .cost = 1},
};
static const binary add_scaled = FI(add_alpha, 1, WIDE | SCALED);
static const binary sub_scaled = FI(sub_alpha, 1, WIDE | SCALED);
static const binary trunc_mode = FI(div_trunc, 4, WIDE), floor_mode = FI(div_floor, 20, WIDE);
static const struct {
    double exponent;
    binary row;
} powers[] = {
    {0.5, F(pow_half, 2, 0)}, {-0.5, F(pow_minus_half, 2, 0)}, {2, F(pow_two, 1, 0)},
    {3, F(pow_three, 1, 0)},  {-1, F(pow_minus_one, 1, 0)},    {-2, F(pow_minus_two, 1, 0)},
};

/* The row of the op, or of a case of it that its arguments select. */
static binary choose(const tenon_node *node) {
    int id = node->op->id;
    binary row = table[id];
    if (tn_op_param(node->op, "rounding_mode") >= 0) {
        const char *mode = tn_arg_string(node, 2);
        return !mode ? row : strcmp(mode, "trunc") == 0 ? trunc_mode : floor_mode;
    }
    if (row.flags & SCALED && tn_arg_float(node, 2, 1) != 1) {
        int reversed = row.flags & REVERSED;
        row = row.f32 == add_f32 ? add_scaled : sub_scaled;
        row.flags |= reversed;
    }
    if (id == TN_OP_pow_Tensor_Scalar) {
        double exponent = tn_arg_float(node, 1, 0);
        for (int i = 0; i < TN_COUNT(powers); i++) {
            if (powers[i].exponent == exponent) {
                row = powers[i].row;
                row.i64 = pow_i64;
            }
        }
    }
    return row;
}

static void set_numbers(tn_elem_numbers *p, const binary *row, const tenon_node *node,
                        tenon_dtype dtype) {
    if (row->flags & SCALED) {
        p->f[0] = tn_arg_float(node, 2, 1);
        p->i[0] = tn_arg_int(node, 2, 1);
    } else if (row->i64 == shift_left_i64 || row->i64 == shift_right_i64) {
        p->i[0] = (int64_t)tenon_dtype_size(dtype) * 8;
        p->i[1] = p->i[0] - !tn_dtype_is_unsigned(dtype);
    }
}

tenon_status TN_K(binary)(tn_call *call) {
    const tenon_node *node = call->node;
    const tenon_view *out = &call->out[0];
    binary row = choose(node);
    tenon_dtype dtype = row.flags & COMPARES ? tn_result_type(node, 0, 1) : out->dtype;
    tn_class class = tn_class_of(dtype);
    bool truth = row.flags & LOGICAL || (row.truth && dtype == TENON_BOOL);
    if (truth)
        class = TN_CLASS_BOOL;
    tn_elem elem = {.in_count = 2, .cost = row.cost};
    elem.fn = truth                   ? row.truth
              : class == TN_CLASS_F32 ? row.f32
              : class == TN_CLASS_F64 ? row.f64
                                      : row.i64;
    if (!elem.fn)
        return tn_call_fail(call, "%s is not supported", tenon_dtype_text(dtype));
    elem.out_class = row.flags & COMPARES ? TN_CLASS_BOOL : class;
    tn_elem_classes(&elem, truth ? TENON_DTYPE_NONE : dtype, class);
    set_numbers(&elem.numbers, &row, node, dtype);
    tenon_view in[2];
    for (int i = 0; i < 2; i++) {
        in[i] = tn_call_operand(call, row.flags & REVERSED ? 1 - i : i);
        /* Numbers stay as they are where PyTorch computes with them in float. */
        if (row.flags & WIDE && in[i].rank == 0 && tn_dtype_is_float(dtype))
            elem.via[i] = TENON_DTYPE_NONE;
    }
    return TN_K(elementwise)(call, &elem, out, in);
}
