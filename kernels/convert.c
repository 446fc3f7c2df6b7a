/* Conversions of rows between dtypes and the types that kernels compute in. */
#include "kernels/convert.h"

/* Two loops: packed rows vectorise. */
#define LOAD(name, FROM, TO, expression)                                              \
    static void load_##name(void *to_, const char *from, int64_t stride, int64_t n) { \
        TO *to = to_;                                                                 \
        if (stride == (int64_t)sizeof(FROM)) {                                        \
            const FROM *row = (const FROM *)from;                                     \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                     \
                FROM x = row[i];                                                      \
                to[i] = (TO)(expression);                                             \
            }                                                                         \
            return;                                                                   \
        }                                                                             \
        if (stride == 0) {                                                            \
            FROM x = *(const FROM *)from;                                             \
            TO value = (TO)(expression);                                              \
            for (int64_t i = 0; i < n; i++)                                           \
                to[i] = value;                                                        \
            return;                                                                   \
        }                                                                             \
        for (int64_t i = 0; i < n; i++) {                                             \
            FROM x = *(const FROM *)(from + i * stride);                              \
            to[i] = (TO)(expression);                                                 \
        }                                                                             \
    }

#define STORE(name, FROM, TO, expression)                                              \
    static void store_##name(char *to, int64_t stride, const void *from_, int64_t n) { \
        const FROM *from = from_;                                                      \
        if (stride == (int64_t)sizeof(TO)) {                                           \
            TO *row = (TO *)to;                                                        \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                      \
                FROM x = from[i];                                                      \
                row[i] = (TO)(expression);                                             \
            }                                                                          \
            return;                                                                    \
        }                                                                              \
        for (int64_t i = 0; i < n; i++) {                                              \
            FROM x = from[i];                                                          \
            *(TO *)(to + i * stride) = (TO)(expression);                               \
        }                                                                              \
    }

/* X(DTYPE, C type, as a number, as an int64, as a truth value) */
#define DTYPES(X)                                                                             \
    X(BOOL, uint8_t, x, x, x != 0)                                                            \
    X(UINT8, uint8_t, x, x, x != 0)                                                           \
    X(INT8, int8_t, x, x, x != 0)                                                             \
    X(INT16, int16_t, x, x, x != 0)                                                           \
    X(INT32, int32_t, x, x, x != 0)                                                           \
    X(INT64, int64_t, x, x, x != 0)                                                           \
    X(UINT16, uint16_t, x, x, x != 0)                                                         \
    X(UINT32, uint32_t, x, x, x != 0)                                                         \
    X(UINT64, uint64_t, x, x, x != 0)                                                         \
    X(FLOAT16, uint16_t, tn_half_float(x), tn_float_int(tn_half_float(x)), (x & 0x7fff) != 0) \
    X(BFLOAT16, uint16_t, tn_bf16_to_float(x), tn_float_int(tn_bf16_to_float(x)),             \
      (x & 0x7fff) != 0)                                                                      \
    X(FLOAT32, float, x, tn_float_int(x), x != 0)                                             \
    X(FLOAT64, double, x, tn_double_int(x), x != 0)

#define X(name, type, number, integer, truth) \
    LOAD(f32_##name, type, float, number)     \
    LOAD(f64_##name, type, double, number)    \
    LOAD(i64_##name, type, int64_t, integer)  \
    LOAD(bool_##name, type, uint8_t, truth)
DTYPES(X)
#undef X

const tn_load_fn TN_K(load)[TN_CLASS_COUNT][TENON_DTYPE_COUNT] = {
#define X(name, type, number, integer, truth)       \
    [TN_CLASS_F32][TENON_##name] = load_f32_##name, \
    [TN_CLASS_F64][TENON_##name] = load_f64_##name, \
    [TN_CLASS_I64][TENON_##name] = load_i64_##name, \
    [TN_CLASS_BOOL][TENON_##name] = load_bool_##name,
    DTYPES(X)
#undef X
};

/* An integer out of a float: wraps from int64, except that uint64 takes what is above int64's
 * range. */
static inline uint64_t float_unsigned(double value) {
    uint64_t high = (uint64_t)tn_double_int(value - 0x1p63) + (1ull << 63);
    return value >= 0x1p64 ? UINT64_MAX : value >= 0x1p63 ? high : (uint64_t)tn_double_int(value);
}

/* X(DTYPE, C type, from float, from double, from int64, from truth) */
#define STORES(X)                                                                            \
    X(BOOL, uint8_t, x != 0, x != 0, x != 0, x)                                              \
    X(UINT8, uint8_t, tn_float_int32(x), tn_double_int32(x), x, x)                           \
    X(INT8, int8_t, tn_float_int32(x), tn_double_int32(x), x, x)                             \
    X(INT16, int16_t, tn_float_int32(x), tn_double_int32(x), x, x)                           \
    X(INT32, int32_t, tn_float_int32(x), tn_double_int32(x), x, x)                           \
    X(INT64, int64_t, tn_float_int(x), tn_double_int(x), x, x)                               \
    X(UINT16, uint16_t, tn_float_int32(x), tn_double_int32(x), x, x)                         \
    X(UINT32, uint32_t, tn_float_int(x), tn_double_int(x), x, x)                             \
    X(UINT64, uint64_t, float_unsigned(x), float_unsigned(x), x, x)                          \
    X(FLOAT16, uint16_t, tn_float_half(x), tn_float_half((float)x), tn_float_half((float)x), \
      tn_float_half(x))                                                                      \
    X(BFLOAT16, uint16_t, tn_float_bfloat(x), tn_float_bfloat((float)x),                     \
      tn_float_bfloat((float)x), tn_float_bfloat(x))                                         \
    X(FLOAT32, float, x, x, x, x)                                                            \
    X(FLOAT64, double, x, x, x, x)

#define X(name, type, from_f32, from_f64, from_i64, from_bool) \
    STORE(f32_##name, float, type, from_f32)                   \
    STORE(f64_##name, double, type, from_f64)                  \
    STORE(i64_##name, int64_t, type, from_i64)                 \
    STORE(bool_##name, uint8_t, type, from_bool)
STORES(X)
#undef X

const tn_store_fn TN_K(store)[TN_CLASS_COUNT][TENON_DTYPE_COUNT] = {
#define X(name, type, from_f32, from_f64, from_i64, from_bool) \
    [TN_CLASS_F32][TENON_##name] = store_f32_##name,           \
    [TN_CLASS_F64][TENON_##name] = store_f64_##name,           \
    [TN_CLASS_I64][TENON_##name] = store_i64_##name,           \
    [TN_CLASS_BOOL][TENON_##name] = store_bool_##name,
    STORES(X)
#undef X
};
