/* Element by element combinations, and the check of indices. */
#include "kernels/combine.h"

#define COMBINE(NAME, T, LOAD, STORE, ADD, MUL)          \
    static void set_##NAME(void *to, const void *from) { \
        *(T *)to = *(const T *)from;                     \
    }                                                    \
    static void add_##NAME(void *to, const void *from) { \
        T *t = to;                                       \
        const T *f = from;                               \
        *t = STORE(ADD(LOAD(*t), LOAD(*f)));             \
    }                                                    \
    static void mul_##NAME(void *to, const void *from) { \
        T *t = to;                                       \
        const T *f = from;                               \
        *t = STORE(MUL(LOAD(*t), LOAD(*f)));             \
    }                                                    \
    static void max_##NAME(void *to, const void *from) { \
        T *t = to;                                       \
        const T *f = from;                               \
        if (LOAD(*f) > LOAD(*t) || LOAD(*f) != LOAD(*f)) \
            *t = *f;                                     \
    }                                                    \
    static void min_##NAME(void *to, const void *from) { \
        T *t = to;                                       \
        const T *f = from;                               \
        if (LOAD(*f) < LOAD(*t) || LOAD(*f) != LOAD(*f)) \
            *t = *f;                                     \
    }

#define SAME(x) (x)
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define OR(a, b) ((a) | (b))
#define AND(a, b) ((a) & (b))
#define WRAP(op, a, b) ((uint64_t)(a)op(uint64_t)(b))
#define PLUS_INT(a, b) WRAP(+, a, b)
#define TIMES_INT(a, b) WRAP(*, a, b)

/* X(DTYPE, C type, load, store, sum, product) */
#define DTYPES(X)                                                          \
    X(BOOL, uint8_t, SAME, SAME, OR, AND)                                  \
    X(UINT8, uint8_t, SAME, (uint8_t)SAME, PLUS_INT, TIMES_INT)            \
    X(INT8, int8_t, SAME, (int8_t)SAME, PLUS_INT, TIMES_INT)               \
    X(INT16, int16_t, SAME, (int16_t)SAME, PLUS_INT, TIMES_INT)            \
    X(INT32, int32_t, SAME, (int32_t)SAME, PLUS_INT, TIMES_INT)            \
    X(INT64, int64_t, SAME, (int64_t)SAME, PLUS_INT, TIMES_INT)            \
    X(UINT16, uint16_t, SAME, (uint16_t)SAME, PLUS_INT, TIMES_INT)         \
    X(UINT32, uint32_t, SAME, (uint32_t)SAME, PLUS_INT, TIMES_INT)         \
    X(UINT64, uint64_t, SAME, SAME, PLUS_INT, TIMES_INT)                   \
    X(FLOAT16, uint16_t, tn_half_float, tn_float_half, PLUS, TIMES)        \
    X(BFLOAT16, uint16_t, tn_bf16_to_float, tn_float_to_bf16, PLUS, TIMES) \
    X(FLOAT32, float, SAME, SAME, PLUS, TIMES)                             \
    X(FLOAT64, double, SAME, SAME, PLUS, TIMES)

#define X COMBINE
DTYPES(X)
#undef X

const tn_combine_fn TN_K(combine)[TN_COMBINE_COUNT][TENON_DTYPE_COUNT] = {
#define X(name, type, load, store, add, mul)                                  \
    [TN_SET][TENON_##name] = set_##name, [TN_ADD][TENON_##name] = add_##name, \
    [TN_MUL][TENON_##name] = mul_##name, [TN_MAX][TENON_##name] = max_##name, \
    [TN_MIN][TENON_##name] = min_##name,
    DTYPES(X)
#undef X
};

tenon_status TN_K(check_indices)(const tn_call *call, const tenon_view *index, int64_t size,
                                 bool negative, const char *what) {
    tn_walk w = tn_walk_make();
    int64_t step[TN_WALK_ARRAYS], b[TN_BLOCK], low = negative ? -size : 0;
    for (int d = 0; d < index->rank; d++)
        tn_walk_dim(&w, index->shape[d], tn_step(index, d), 0, 0);
    if (w.count == 0)
        return TENON_OK;
    tn_walk_sort(&w, 0);
    tn_walk_merge(&w);
    int64_t n = tn_walk_inner(&w, step);
    tn_walk_seek(&w, 0);
    for (int64_t r = 0; r < w.count; r++) {
        for (int64_t at = 0; at < n; at += TN_BLOCK) {
            int64_t m = n - at < TN_BLOCK ? n - at : TN_BLOCK, bad = 0;
            tn_get_ints(b, (const char *)index->data + w.at[0] + at * step[0], step[0],
                        index->dtype, m);
            for (int64_t i = 0; i < m; i++)
                bad |= b[i] < low || b[i] >= size;
            for (int64_t i = 0; bad && i < m; i++) {
                if (b[i] < low || b[i] >= size)
                    return tn_call_fail(call, "index %lld in %s is out of range for size %lld",
                                        (long long)b[i], what, (long long)size);
            }
        }
        tn_walk_next(&w);
    }
    return TENON_OK;
}
