/* Elements of any dtype to and from the few types that kernels compute in.
 *
 * A class is what a loop works in: float for float32, float16 and bfloat16 (which are computed in
 * float and rounded once), double for float64, int64_t for the integers, uint8_t 0 or 1 for truth
 * values. Rows of another dtype or with gaps go through a buffer of at most TN_CHUNK elements. */
#ifndef TN_CONVERT_H
#define TN_CONVERT_H

#include "core/tensor.h"
#include "kernels/kernels.h"

#define TN_CHUNK 512

typedef enum tn_class {
    TN_CLASS_F32,
    TN_CLASS_F64,
    TN_CLASS_I64,
    TN_CLASS_BOOL,
    TN_CLASS_COUNT
} tn_class;

/* n elements of a dtype, `stride` bytes apart, to the class's type, packed. Floats become truth
 * values by != 0, integers toward zero. */
typedef void (*tn_load_fn)(void *to, const char *from, int64_t stride, int64_t n);
/* n packed elements of the class's type to a dtype, `stride` bytes apart. Integers wrap; floats
 * that an integer cannot hold give what tn_float_int says, by way of int32 for narrow integers. */
typedef void (*tn_store_fn)(char *to, int64_t stride, const void *from, int64_t n);

extern const tn_load_fn TN_K(load)[TN_CLASS_COUNT][TENON_DTYPE_COUNT];
extern const tn_store_fn TN_K(store)[TN_CLASS_COUNT][TENON_DTYPE_COUNT];

/* The class that a dtype is computed in. */
static inline tn_class tn_class_of(tenon_dtype dtype) {
    switch (dtype) {
    case TENON_FLOAT64:
        return TN_CLASS_F64;
    case TENON_FLOAT32:
    case TENON_FLOAT16:
    case TENON_BFLOAT16:
        return TN_CLASS_F32;
    default:
        return TN_CLASS_I64;
    }
}

static inline size_t tn_class_size(tn_class class) {
    return class == TN_CLASS_F32 ? 4 : class == TN_CLASS_BOOL ? 1 : 8;
}

/* Whether packed elements of the dtype are the class's type as they are. */
static inline bool tn_class_is(tn_class class, tenon_dtype dtype) {
    return (class == TN_CLASS_F32 && dtype == TENON_FLOAT32) ||
           (class == TN_CLASS_F64 && dtype == TENON_FLOAT64) ||
           (class == TN_CLASS_I64 && (dtype == TENON_INT64 || dtype == TENON_UINT64)) ||
           (class == TN_CLASS_BOOL && dtype == TENON_BOOL);
}

/* IEEE half to float without branches, so that loops over it vectorise. Subnormal halves are built
 * by a subtraction of normal floats, which is right even where the processor flushes subnormal
 * floats. */
static inline float tn_half_float(uint16_t bits) {
    union {
        uint32_t u;
        float f;
    } normal, small, bias = {113u << 23};
    uint32_t magnitude = (uint32_t)(bits & 0x7fff) << 13;
    normal.u = magnitude + (112u << 23) + ((bits & 0x7c00) == 0x7c00 ? 112u << 23 : 0);
    small.u = magnitude + (113u << 23);
    small.f -= bias.f;
    normal.u = (bits & 0x7c00) == 0 ? small.u : normal.u;
    normal.u |= (uint32_t)(bits & 0x8000) << 16;
    return normal.f;
}

/* Float to IEEE half, to nearest even. Adding 0.5 leaves the ten bits of a subnormal half in the
 * sum's low bits, rounded. */
static inline uint16_t tn_float_half(float value) {
    union {
        float f;
        uint32_t u;
    } v = {value}, small;
    uint32_t sign = v.u >> 16 & 0x8000u, normal, result;
    v.u &= 0x7fffffffu;
    small.f = v.f + 0.5f;
    normal = (v.u + 0xfffu + (v.u >> 13 & 1) - (112u << 23)) >> 13;
    result = v.u < 113u << 23 ? small.u - 0x3f000000u : normal;
    result = v.u >= 0x477ff000u ? 0x7c00u : result; /* 65520 and more */
    result = v.u > 0x7f800000u ? 0x7e00u : result;
    return (uint16_t)(result | sign);
}

static inline uint16_t tn_float_bfloat(float value) {
    union {
        float f;
        uint32_t u;
    } c = {value};
    uint32_t rounded = (c.u + 0x7fffu + (c.u >> 16 & 1)) >> 16;
    return (uint16_t)((c.u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

/* Toward zero. NaN and what the type cannot hold give its smallest number, as x86's conversions,
 * and so PyTorch, do. */
static inline int64_t tn_float_int(float value) {
    bool fits = value >= -0x1p63f && value < 0x1p63f;
    int64_t result = (int64_t)(fits ? value : 0.0f);
    return fits ? result : INT64_MIN;
}

static inline int64_t tn_double_int(double value) {
    bool fits = value >= -0x1p63 && value < 0x1p63;
    int64_t result = (int64_t)(fits ? value : 0.0);
    return fits ? result : INT64_MIN;
}

static inline int32_t tn_float_int32(float value) {
    bool fits = value >= -0x1p31f && value < 0x1p31f;
    int32_t result = (int32_t)(fits ? value : 0.0f);
    return fits ? result : INT32_MIN;
}

static inline int32_t tn_double_int32(double value) {
    bool fits = value > -0x1p31 - 1 && value < 0x1p31;
    int32_t result = (int32_t)(fits ? value : 0.0);
    return fits ? result : INT32_MIN;
}

#endif
