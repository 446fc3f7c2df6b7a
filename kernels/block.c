/* Copies of runs of elements. */
#include "kernels/block.h"
#include <string.h>

#define MOVE_CASE(T)                                                         \
    case sizeof(T):                                                          \
        if (to_step == (int64_t)sizeof(T)) {                                 \
            T *p = to;                                                       \
            if (from_step == 0) {                                            \
                const T x = *(const T *)from;                                \
                for (int64_t i = 0; i < n; i++)                              \
                    p[i] = x;                                                \
            } else {                                                         \
                for (int64_t i = 0; i < n; i++)                              \
                    p[i] = *(const T *)((const char *)from + i * from_step); \
            }                                                                \
        } else {                                                             \
            for (int64_t i = 0; i < n; i++)                                  \
                *(T *)((char *)to + i * to_step) =                           \
                    *(const T *)((const char *)from + i * from_step);        \
        }                                                                    \
        break;

void TN_K(move_run)(void *to, int64_t to_step, const void *from, int64_t from_step, size_t size,
                    int64_t n) {
    if (to_step == (int64_t)size && from_step == (int64_t)size) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    switch (size) {
        MOVE_CASE(uint8_t)
        MOVE_CASE(uint16_t)
        MOVE_CASE(uint32_t)
        MOVE_CASE(uint64_t)
    default:
        break;
    }
}

void TN_K(convert_run)(void *to, int64_t to_step, tenon_dtype to_dtype, const void *from,
                       int64_t from_step, tenon_dtype from_dtype, int64_t n) {
    if (to_dtype == from_dtype) {
        TN_K(move_run)(to, to_step, from, from_step, tenon_dtype_size(to_dtype), n);
        return;
    }
    bool whole = !tn_dtype_is_float(from_dtype);
    bool wide = from_dtype == TENON_FLOAT64;
    union {
        float f[TN_BLOCK];
        double d[TN_BLOCK];
        int64_t i[TN_BLOCK];
    } b;
    for (int64_t at = 0; at < n; at += TN_BLOCK) {
        int64_t m = n - at < TN_BLOCK ? n - at : TN_BLOCK;
        void *t = (char *)to + at * to_step;
        const void *f = (const char *)from + at * from_step;
        if (whole) {
            tn_get_ints(b.i, f, from_step, from_dtype, m);
            tn_put_ints(t, to_step, to_dtype, b.i, m);
        } else if (wide) {
            tn_get_doubles(b.d, f, from_step, from_dtype, m);
            tn_put_doubles(t, to_step, to_dtype, b.d, m);
        } else {
            tn_get_floats(b.f, f, from_step, from_dtype, m);
            tn_put_floats(t, to_step, to_dtype, b.f, m);
        }
    }
}

void TN_K(copy_walk)(const tn_call *call, const tn_walk *walk, void *to, tenon_dtype to_dtype,
                     const void *from, tenon_dtype from_dtype) {
    if (walk->count == 0)
        return;
    tn_walk w = *walk;
    for (int d = 0; d < w.rank; d++)
        w.step[2][d] = 0;
    tn_walk_sort(&w, 0);
    tn_walk_merge(&w);
    /* What a view cannot hold is walked here. */
    int rank = w.rank < TENON_MAX_RANK ? w.rank : TENON_MAX_RANK;
    int64_t shape[TENON_MAX_RANK] = {0};
    w.rank -= rank;
    w.count = 1;
    for (int d = 0; d < w.rank; d++)
        w.count *= w.size[d];
    for (int d = 0; d < rank; d++)
        shape[d] = w.size[w.rank + d];
    tenon_view t = tn_view_make(to, to_dtype, rank, shape);
    tenon_view f = tn_view_make(NULL, from_dtype, rank, shape);
    for (int d = 0; d < rank; d++) {
        t.strides[d] = w.step[0][w.rank + d] / (int64_t)tenon_dtype_size(to_dtype);
        f.strides[d] = w.step[1][w.rank + d] / (int64_t)tenon_dtype_size(from_dtype);
    }
    tn_walk_seek(&w, 0);
    for (int64_t i = 0; i < w.count; i++) {
        t.data = (char *)to + w.at[0];
        f.data = (char *)(uintptr_t)from + w.at[1];
        TN_K(copy_view)(call->threads, &t, &f);
        tn_walk_next(&w);
    }
}

void TN_K(fill_view)(const tn_call *call, const tenon_view *to, const void *value) {
    tenon_view one = tn_view_make((void *)(uintptr_t)value, to->dtype, 0, NULL);
    TN_K(copy_view)(call->threads, to, &one);
}
