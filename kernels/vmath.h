/* Float functions without branches or tables, so that `omp simd` loops over them vectorise at every
 * ISA level.
 *
 * Largest errors found against double precision, over all of the domain that the tests walk
 * (tests/c/test_vmath.c checks them):
 *
 *     tn_expf, tn_logf, tn_erff                      1.5 ulp
 *     tn_sinf, tn_cosf (up to TN_SINCOS_LIMIT)       1.75 ulp
 *     tn_expm1f, tn_log1pf                           2 ulp
 *     tn_sigmoidf                                    2.5 ulp
 *     tn_tanhf                                       3 ulp
 *
 * Infinities and NaN give what C's functions give; subnormal results of tn_expf are right. The
 * methods are the usual ones (argument reduction as in Cody and Waite, "Software Manual for the
 * Elementary Functions"; a polynomial on the rest); the coefficients were fitted for this file by
 * reweighted least squares on Chebyshev nodes and rounded one after another. */
#ifndef TN_VMATH_H
#define TN_VMATH_H

#include <math.h>
#include <stdint.h>

#define TN_LN2_HIGH 0.693359375f /* nine bits: a multiple of up to 2^14 is exact */
#define TN_LN2_LOW -2.12194440e-4f
#define TN_ROUND_MAGIC \
    12582912.0f /* 1.5 * 2^23: adding it rounds to an integer that stands in the low bits */

static inline uint32_t tn_float_bits(float x) {
    union {
        float f;
        uint32_t u;
    } c = {x};
    return c.u;
}

static inline float tn_bits_float(uint32_t u) {
    union {
        uint32_t u;
        float f;
    } c = {u};
    return c.f;
}

/* 2^n for n in -126..127; anything for other n. */
static inline float tn_power_of_two(int32_t n) {
    return tn_bits_float(((uint32_t)n + 127u) << 23);
}

static inline float tn_with_sign(float magnitude, float sign) {
    return tn_bits_float((tn_float_bits(magnitude) & 0x7fffffffu) |
                         (tn_float_bits(sign) & 0x80000000u));
}

/* exp(r) - 1 for |r| <= ln(2) / 2, and the n of x = n * ln(2) + r. */
static inline float tn_exp_reduced(float x, int32_t *n) {
    float shifted = x * 1.44269504f + TN_ROUND_MAGIC;
    float whole = shifted - TN_ROUND_MAGIC;
    *n = (int32_t)(tn_float_bits(shifted) - tn_float_bits(TN_ROUND_MAGIC));
    float r = x - whole * TN_LN2_HIGH;
    r = r - whole * TN_LN2_LOW;
    float q = 0.00139429246f;
    q = q * r + 0.00836939365f;
    q = q * r + 0.0416663773f;
    q = q * r + 0.166665152f;
    q = q * r + 0.5f;
    return r + r * r * q;
}

static inline float tn_expf(float x) {
    float inside = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x; /* NaN stays */
    int32_t n;
    float r = tn_exp_reduced(inside, &n);
    int32_t half = (int32_t)(((uint32_t)n + 1024u) >> 1) - 512;
    int32_t rest = (int32_t)((uint32_t)n - (uint32_t)half); /* n may be anything for a NaN */
    return (r + 1.0f) * tn_power_of_two(half) * tn_power_of_two(rest);
}

static inline float tn_expm1f(float x) {
    float inside = x < -30.0f ? -30.0f : x > 89.0f ? 89.0f : x;
    int32_t n;
    float r = tn_exp_reduced(inside, &n);
    /* half of 2^n, which may be infinite; n may be anything for a NaN */
    float scale = tn_power_of_two((int32_t)((uint32_t)n - 1u));
    float result = 2.0f * (scale * r + (scale - 0.5f));
    return x == 0.0f ? x : result;
}

static inline float tn_logf(float x) {
    float tiny = x < 1.17549435e-38f ? 1.0f : 0.0f;
    uint32_t bits = tn_float_bits(tiny != 0.0f ? x * 8388608.0f : x);
    /* e and m with x = 2^e * m, m in [sqrt(1/2), sqrt(2)) */
    int32_t e = (int32_t)(bits - 0x3f3504f3u) >> 23;
    float f = tn_bits_float(bits - ((uint32_t)e << 23)) - 1.0f;
    float whole = (float)e - tiny * 23.0f;
    float p = 0.069155924f;
    p = p * f - 0.117898993f;
    p = p * f + 0.118729077f;
    p = p * f - 0.123843409f;
    p = p * f + 0.142186746f;
    p = p * f - 0.16669251f;
    p = p * f + 0.20002225f;
    p = p * f - 0.249999866f;
    p = p * f + 0.333333105f;
    float square = f * f;
    float result = f * square * p + whole * TN_LN2_LOW;
    result = result - 0.5f * square;
    result = result + f;
    result = result + whole * TN_LN2_HIGH;
    result = x > 0.0f ? result : x == 0.0f ? -INFINITY : NAN; /* NaN too */
    return x == INFINITY ? x : result;
}

/* log(1 + x) = log(u) + (what rounding u = 1 + x lost) / u */
static inline float tn_log1pf(float x) {
    float u = 1.0f + x;
    float lost = x - (u - 1.0f);
    float result = tn_logf(u) + lost / u;
    result = x == INFINITY || u == 0.0f ? tn_logf(u) : result;
    return u == 1.0f ? x : result;
}

static inline float tn_tanhf(float x) {
    float t = tn_expm1f(-2.0f * fabsf(x));
    return tn_with_sign(-t / (2.0f + t), x);
}

static inline float tn_sigmoidf(float x) {
    return 1.0f / (1.0f + tn_expf(-x));
}

/* A polynomial in x^2 near zero; else 1 - exp(g(|x|)) with a polynomial g for log(1 - erf). */
static inline float tn_erff(float x) {
    float t = fabsf(x), s = x * x;
    float p = 7.99136615e-05f;
    p = p * s - 0.000804807467f;
    p = p * s + 0.00519223651f;
    p = p * s - 0.0268556681f;
    p = p * s + 0.112836249f;
    p = p * s - 0.376126289f;
    p = p * s + 0.128379166f;
    float near = x + x * p;
    t = t > 4.0f ? 4.0f : t;
    float g = 2.14953088e-05f;
    g = g * t - 0.00043909144f;
    g = g * t + 0.00419352669f;
    g = g * t - 0.0251787473f;
    g = g * t + 0.108372182f;
    g = g * t + 0.633262813f;
    g = g * t + 1.12955678f;
    g = g * t - 0.000183443088f;
    float far = tn_with_sign(1.0f - tn_expf(-g), x);
    return fabsf(x) < 0.95f ? near : far; /* NaN: both are */
}

/* Up to this magnitude the reduction below is exact enough; loops hand larger arguments to C's
 * functions. */
#define TN_SINCOS_LIMIT 1048576.0f

/* sin(x + quarters * pi / 2) for |x| < TN_SINCOS_LIMIT. The reduction is in double, with pi / 2 in
 * two parts of which the first has 33 bits, so that its multiples are exact. */
static inline float tn_sin_shifted(float x, int32_t quarters) {
    double magic = 6755399441055744.0; /* 1.5 * 2^52 */
    union {
        double d;
        uint64_t u;
    } shifted = {(double)x * 0.63661977236758134308 + magic};
    double whole = shifted.d - magic;
    uint32_t n = (uint32_t)shifted.u + (uint32_t)quarters;
    double reduced = ((double)x - whole * 0x1.921fb544p+0) - whole * 0x1.0b4611a626331p-34;
    float r = (float)reduced, s = r * r;
    float a = 2.83612235e-06f;
    a = a * s - 0.000198534428f;
    a = a * s + 0.00833338033f;
    a = a * s - 0.166666672f;
    a = s > 0.0f ? r + r * s * a : r; /* -0 stays */
    float b = -2.89108499e-07f;
    b = b * s + 2.48224096e-05f;
    b = b * s - 0.00138889812f;
    b = b * s + 0.0416666679f;
    b = 1.0f - 0.5f * s + s * s * b;
    float result = n & 1 ? b : a;
    return tn_bits_float(tn_float_bits(result) ^ ((n & 2) << 30));
}

static inline float tn_sinf(float x) {
    return tn_sin_shifted(x, 0);
}
static inline float tn_cosf(float x) {
    return tn_sin_shifted(x, 1);
}

/* x * Phi(x), with the normal distribution by erf, here by a quotient of polynomials in x^2 that is
 * one division and no exponential: within 3e-7 of erf, which is what 1 + erf rounds away anyhow. */
static inline float tn_geluf(float x) {
    float z = x * 0.707106781f;
    float t = z < -3.92f ? -3.92f : z > 3.92f ? 3.92f : z; /* NaN stays */
    float s = t * t;
    float p = 2.03485047e-06f, q = 3.80711281e-05f;
    p = p * s + 0.000287465751f;
    q = q * s + 0.00118796469f;
    p = p * s + 0.00386770396f;
    q = q * s + 0.0151710492f;
    p = p * s + 0.0530585609f;
    q = q * s + 0.115078583f;
    p = p * s + 0.192749441f;
    q = q * s + 0.504151404f;
    p = p * s + 1.12837899f;
    q = q * s + 1.0f;
    float erf = t * p / q;
    erf = z > 3.92f ? 1.0f : z < -3.92f ? -1.0f : erf;
    return 0.5f * x * (1.0f + erf);
}

/* Hendrycks and Gimpel, "Gaussian Error Linear Units", the form with tanh. The argument is clamped
 * where tanh is 1 long since, so that x^3 cannot overflow into inf - inf. */
static inline float tn_gelu_tanhf(float x) {
    float z = x < -10.0f ? -10.0f : x > 10.0f ? 10.0f : x;
    float inner = 0.797884561f * (z + 0.044715f * z * z * z);
    return 0.5f * x * (1.0f + tn_tanhf(inner));
}

#endif
