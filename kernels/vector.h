/* Vectors of floats as wide as the ISA level's registers, for what loops over arrays cannot say:
 * activations of sums that are still in registers. */
#ifndef TN_KERNEL_VECTOR_H
#define TN_KERNEL_VECTOR_H

#include "core/activation.h"
#include <stdint.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define TN_LANES 16
#elif defined(__AVX2__)
#define TN_LANES 8
#else
#define TN_LANES 4
#endif

typedef float tn_vec __attribute__((vector_size(TN_LANES * 4), aligned(4), may_alias));
typedef int32_t tn_vec_int __attribute__((vector_size(TN_LANES * 4), aligned(4), may_alias));

/* The numbers of the elements. */
#if TN_LANES == 16
#define TN_VEC_NUMBERS ((tn_vec_int){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
#elif TN_LANES == 8
#define TN_VEC_NUMBERS ((tn_vec_int){0, 1, 2, 3, 4, 5, 6, 7})
#else
#define TN_VEC_NUMBERS ((tn_vec_int){0, 1, 2, 3})
#endif

static inline tn_vec tn_vec_of(float x) {
    return x - (tn_vec){0};
}

/* Within [low, high]; NaN stays: both instructions give their second operand for it. */
static inline tn_vec tn_vec_clamp(tn_vec x, tn_vec low, tn_vec high) {
#if defined(__AVX512F__)
    return (tn_vec)_mm512_min_ps((__m512)high, _mm512_max_ps((__m512)low, (__m512)x));
#elif defined(__AVX2__)
    return (tn_vec)_mm256_min_ps((__m256)high, _mm256_max_ps((__m256)low, (__m256)x));
#elif defined(__SSE2__)
    return (tn_vec)_mm_min_ps((__m128)high, _mm_max_ps((__m128)low, (__m128)x));
#else
    for (int i = 0; i < TN_LANES; i++)
        x[i] = x[i] < low[i] ? low[i] : x[i] > high[i] ? high[i] : x[i];
    return x;
#endif
}

/* The greater one; NaN in x stays. */
static inline tn_vec tn_vec_max(tn_vec x, tn_vec low) {
#if defined(__AVX512F__)
    return (tn_vec)_mm512_max_ps((__m512)low, (__m512)x);
#elif defined(__AVX2__)
    return (tn_vec)_mm256_max_ps((__m256)low, (__m256)x);
#elif defined(__SSE2__)
    return (tn_vec)_mm_max_ps((__m128)low, (__m128)x);
#else
    for (int i = 0; i < TN_LANES; i++)
        x[i] = x[i] < low[i] ? low[i] : x[i];
    return x;
#endif
}

static inline float tn_vec_sum(tn_vec x) {
#pragma GCC unroll 4
    for (int step = TN_LANES / 2; step > 0; step /= 2)
        x += __builtin_shuffle(x, TN_VEC_NUMBERS ^ step);
    return x[0];
}

/* The greatest element; NaN may be left out of account. */
static inline float tn_vec_greatest(tn_vec x) {
#pragma GCC unroll 4
    for (int step = TN_LANES / 2; step > 0; step /= 2)
        x = tn_vec_max(x, __builtin_shuffle(x, TN_VEC_NUMBERS ^ step));
    return x[0];
}

/* The first lanes of a vector, none if `lanes` is negative: the others are neither read nor
 * written. */
#if defined(__AVX512F__)
typedef __mmask16 tn_vec_part;
static inline tn_vec_part tn_vec_part_of(int64_t lanes) {
    return (tn_vec_part)(lanes <= 0 ? 0 : lanes < TN_LANES ? (1u << lanes) - 1 : 0xffff);
}
static inline tn_vec tn_vec_load_part(const float *from, tn_vec_part part) {
    return (tn_vec)_mm512_maskz_loadu_ps(part, from);
}
static inline void tn_vec_store_part(float *to, tn_vec x, tn_vec_part part) {
    _mm512_mask_storeu_ps(to, part, (__m512)x);
}
#else
typedef int64_t tn_vec_part;
static inline tn_vec_part tn_vec_part_of(int64_t lanes) {
    return lanes <= 0 ? 0 : lanes < TN_LANES ? lanes : TN_LANES;
}
static inline tn_vec tn_vec_load_part(const float *from, tn_vec_part part) {
    tn_vec x = {0};
    if (part == TN_LANES)
        return *(const tn_vec *)from;
    __builtin_memcpy(&x, from, (size_t)part * sizeof *from);
    return x;
}
static inline void tn_vec_store_part(float *to, tn_vec x, tn_vec_part part) {
    if (part == TN_LANES)
        *(tn_vec *)to = x;
    else
        __builtin_memcpy(to, &x, (size_t)part * sizeof *to);
}
#endif

/* x / y for normal y: with AVX-512 by an approximation and one step of Newton's method, which is
 * sooner than a division, and at most 1.5 ulp off. */
static inline tn_vec tn_vec_quotient(tn_vec x, tn_vec y) {
#if defined(__AVX512F__)
    tn_vec r = (tn_vec)_mm512_rcp14_ps((__m512)y);
    return x * (r * (2.0f - y * r));
#else
    return x / y;
#endif
}

/* x / (1 + exp(-x)), within 4 ulp above -80, and 0 below -87; exp by 2^n 2^r with a polynomial
 * of 2^r for |r| <= 1/2, fitted as those of vmath.h. */
static inline tn_vec tn_vec_silu(tn_vec x) {
    const float scale = -1.44269502f, rest = -1.92596299e-8f; /* -1 / ln(2) */
    const float magic = 12582912.0f; /* 1.5 * 2^23: n stands in the low bits of a sum with it */
    tn_vec y = tn_vec_clamp(x, tn_vec_of(-87.0f), tn_vec_of(87.0f));
    tn_vec shifted = y * scale + magic, whole = shifted - magic;
    tn_vec r = (y * scale - whole) + y * rest;
    tn_vec p = r * 0.0013264659f + 0.009671566f;
    p = p * r + 0.055507343f;
    p = p * r + 0.24022241f;
    p = p * r + 0.693147f;
    p = p * r + 1.0f;
    tn_vec power = (tn_vec)(((tn_vec_int)shifted << 23) + 0x3f800000);
    /* not x: that may be -inf */
    tn_vec top = tn_vec_clamp(x, tn_vec_of(-87.0f), tn_vec_of(__builtin_inff()));
    return tn_vec_quotient(top, p * power + 1.0f);
}

/* The same within 2^-12, for a result that is rounded to bfloat16. */
static inline tn_vec tn_vec_silu_narrow(tn_vec x) {
    const float scale = -1.44269502f, magic = 12582912.0f;
    tn_vec top = tn_vec_clamp(x, tn_vec_of(-87.0f), tn_vec_of(__builtin_inff()));
    tn_vec y = tn_vec_clamp(x, tn_vec_of(-87.0f), tn_vec_of(87.0f));
    tn_vec shifted = y * scale + magic;
    tn_vec r = y * scale - (shifted - magic);
    tn_vec p = r * 0.0550085f + 0.2422098f;
    p = p * r + 0.6932829f;
    p = p * r + 1.0f;
    tn_vec power = (tn_vec)(((tn_vec_int)shifted << 23) + 0x3f800000), below = p * power + 1.0f;
#if defined(__AVX512F__)
    return top * (tn_vec)_mm512_rcp14_ps((__m512)below);
#else
    return top / below;
#endif
}

static inline tn_vec tn_vec_hardsigmoid(tn_vec x) {
    return tn_vec_clamp(x + 3.0f, tn_vec_of(0), tn_vec_of(6)) * (1.0f / 6.0f);
}

/* bfloat16 to float, and back to nearest, ties to even; NaN stays NaN. */
typedef uint16_t tn_vec_half __attribute__((vector_size(TN_LANES * 2), aligned(2), may_alias));
typedef uint32_t tn_vec_bits __attribute__((vector_size(TN_LANES * 4), aligned(4), may_alias));

static inline tn_vec tn_vec_of_bf16(const void *from) {
#if defined(__AVX512F__)
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from));
    return (tn_vec)_mm512_slli_epi32(wide, 16);
#else
    return (tn_vec)(__builtin_convertvector(*(const tn_vec_half *)from, tn_vec_bits) << 16);
#endif
}

static inline void tn_vec_to_bf16(void *to, tn_vec x) {
    tn_vec_bits b = (tn_vec_bits)x, rounded = (b + 0x7fff + ((b >> 16) & 1)) >> 16;
    tn_vec_bits is_nan = (tn_vec_bits)(x != x);
    rounded = (rounded & ~is_nan) | (0x7fc0 & is_nan);
#if defined(__AVX512F__)
    _mm256_storeu_si256(to, _mm512_cvtepi32_epi16((__m512i)rounded));
#else
    *(tn_vec_half *)to = __builtin_convertvector(rounded, tn_vec_half);
#endif
}

/* How an activation is computed on vectors. */
typedef enum tn_vec_kind {
    TN_VEC_CLAMP, /* to two bounds, which may be infinite */
    TN_VEC_SILU,
    TN_VEC_HARDSWISH,
    TN_VEC_OTHER /* not at all: it goes through memory */
} tn_vec_kind;

static inline tn_vec_kind tn_vec_kind_of(const tn_activation *a) {
    return a->kind <= TN_ACT_CLAMP       ? TN_VEC_CLAMP
           : a->kind == TN_ACT_SILU      ? TN_VEC_SILU
           : a->kind == TN_ACT_HARDSWISH ? TN_VEC_HARDSWISH
                                         : TN_VEC_OTHER;
}

/* `kind` is a constant of each call; `low` and `high` are used by a clamp alone. */
static inline tn_vec tn_vec_activate(tn_vec x, const tn_vec_kind kind, tn_vec low, tn_vec high) {
    if (kind == TN_VEC_CLAMP)
        return tn_vec_clamp(x, low, high);
    if (kind == TN_VEC_SILU)
        return tn_vec_silu(x);
    return kind == TN_VEC_HARDSWISH ? (tn_vec)(x * tn_vec_hardsigmoid(x)) : x;
}

#endif
