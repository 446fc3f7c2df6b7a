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

/* A transposition of 4-byte elements in tiles: rows of `to` are columns of `from`. */
static void move_tile4(char *to, int64_t to_row, const char *from, int64_t from_column,
                       int64_t rows, int64_t columns) {
    for (int64_t c0 = 0; c0 < columns; c0 += 16) {
        int64_t c1 = c0 + 16 < columns ? c0 + 16 : columns;
        for (int64_t r = 0; r < rows; r++) {
            uint32_t *t = (uint32_t *)(to + r * to_row);
            for (int64_t c = c0; c < c1; c++)
                t[c] = *(const uint32_t *)(from + c * from_column + r * 4);
        }
    }
}

/* Copies the part [begin, end) of the walk's outer positions, each a run of n. */
static void copy_part(tn_walk *w, int64_t begin, int64_t end, int64_t n, const int64_t *step,
                      char *to, tenon_dtype to_dtype, const char *from, tenon_dtype from_dtype) {
    if (begin >= end)
        return;
    size_t size = tenon_dtype_size(to_dtype);
    bool same = to_dtype == from_dtype;
    bool dense = same && step[0] == (int64_t)size && step[1] == (int64_t)size;
    /* The next dimension runs along `from` while this one runs along `to`: move tiles of both. */
    int d = w->rank - 1;
    bool tile = same && size == 4 && step[0] == 4 && d >= 0 && w->step[1][d] == 4 && step[1] != 4;
    tn_walk_seek(w, begin);
    for (int64_t i = begin; i < end;) {
        char *t = to + w->at[0];
        const char *f = from + w->at[1];
        if (tile) {
            int64_t rows = w->size[d] - w->index[d];
            rows = rows < end - i ? rows : end - i;
            rows = rows < 64 ? rows : 64;
            move_tile4(t, w->step[0][d], f, step[1], rows, n);
            i += rows;
            if (rows > 1 && i < end)
                tn_walk_seek(w, i);
            else
                tn_walk_next(w);
            continue;
        }
        if (dense)
            memcpy(t, f, (size_t)n * size);
        else if (same)
            TN_K(move_run)(t, step[0], f, step[1], size, n);
        else
            TN_K(convert_run)(t, step[0], to_dtype, f, step[1], from_dtype, n);
        tn_walk_next(w);
        i++;
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
    int64_t all = w.count, step[TN_WALK_ARRAYS];
    /* One long run is split, so that threads have something to share. */
    if (w.rank == 1 && w.size[0] >= 65536 && call->threads > 1) {
        int64_t piece = w.size[0] / call->threads;
        tn_walk rest = w;
        w.rank = 0;
        w.count = 1;
        int64_t used = piece * call->threads, t0 = rest.step[0][0], t1 = rest.step[1][0];
        TN_K(convert_run)
        ((char *)to + used * t0, t0, to_dtype, (const char *)from + used * t1, t1, from_dtype,
         rest.size[0] - used);
        tn_walk_dim(&w, call->threads, piece * t0, piece * t1, 0);
        tn_walk_dim(&w, piece, t0, t1, 0);
    }
    int64_t n = tn_walk_inner(&w, step);
    int threads = tn_threads(call, all, w.count);
    if (threads == 1) {
        copy_part(&w, 0, w.count, n, step, to, to_dtype, from, from_dtype);
        return;
    }
#pragma omp parallel for num_threads(threads) firstprivate(w)
    for (int t = 0; t < threads; t++)
        copy_part(&w, tn_part(w.count, t, threads), tn_part(w.count, t + 1, threads), n, step, to,
                  to_dtype, from, from_dtype);
}

void TN_K(copy_view)(const tn_call *call, const tenon_view *to, const tenon_view *from) {
    bool same = to->data == from->data && to->dtype == from->dtype;
    tn_walk w = tn_walk_make();
    for (int d = 0; d < to->rank; d++) {
        same = same && (to->shape[d] == 1 || to->strides[d] == from->strides[d]);
        tn_walk_dim(&w, to->shape[d], tn_step(to, d), tn_step(from, d), 0);
    }
    if (!same)
        TN_K(copy_walk)(call, &w, to->data, to->dtype, from->data, from->dtype);
}

void TN_K(fill_view)(const tn_call *call, const tenon_view *to, const void *value) {
    tn_walk w = tn_walk_make();
    for (int d = 0; d < to->rank; d++)
        tn_walk_dim(&w, to->shape[d], tn_step(to, d), 0, 0);
    TN_K(copy_walk)(call, &w, to->data, to->dtype, value, to->dtype);
}
