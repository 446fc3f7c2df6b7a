/* Strided N-d iteration over an output and its inputs, for kernels.
 *
 *     tn_iter it;
 *     tn_iter_begin(&it, out->rank, out->shape);
 *     tn_iter_add(&it, out);            -- operand 0: its layout decides the order of the
 * dimensions tn_iter_add(&it, in);             -- operand 1: broadcast to the shape by strides of 0
 *     tn_iter_order(&it);
 *     tn_iter_run(&it, call->threads, 1, loop, user);
 *
 * tn_iter_order drops dimensions of size 1, orders the rest so that the smallest stride is
 * innermost, and merges neighbours that one stride covers. tn_iter_run splits the elements into one
 * range a thread and calls the loop on blocks of whole rows; rows at the ends of a range may be
 * partial. Everything is inline, so that a loop function that the compiler sees is inlined too. */
#ifndef TN_ITERATE_H
#define TN_ITERATE_H

#include "core/tensor.h"

#define TN_ITER_OPERANDS 6
/* Below so many elements (times their cost) a second thread costs more than it brings. */
#ifndef TN_PARALLEL_WORK /* a build that looks for races makes it small */
#define TN_PARALLEL_WORK 32768
#endif

typedef struct tn_iter {
    int count, rank; /* rank at least 2 after tn_iter_order; dimension 0 is the innermost then */
    int64_t numel;
    int64_t shape[TENON_MAX_RANK + 2];
    int64_t strides[TN_ITER_OPERANDS][TENON_MAX_RANK + 2]; /* in bytes */
    char *data[TN_ITER_OPERANDS];
} tn_iter;

/* `rows` rows of `n` elements: element (j, i) of operand k is at data[k] + j * outer[k] + i *
 * inner[k]. */
typedef void (*tn_iter_loop)(char *const *data, const int64_t *inner, const int64_t *outer,
                             int64_t n, int64_t rows, void *user);

static inline void tn_iter_begin(tn_iter *it, int rank, const int64_t *shape) {
    it->count = 0;
    it->rank = rank;
    it->numel = 1;
    for (int d = 0; d < rank; d++) {
        it->shape[d] = shape[d];
        it->numel *= shape[d];
    }
}

/* An operand by strides in elements of `size` bytes, one for each dimension. */
static inline void tn_iter_add_strides(tn_iter *it, void *data, size_t size,
                                       const int64_t *strides) {
    for (int d = 0; d < it->rank; d++)
        it->strides[it->count][d] = strides[d] * (int64_t)size;
    it->data[it->count++] = data;
}

/* An operand whose shape broadcasts to the iteration's. */
static inline void tn_iter_add(tn_iter *it, const tenon_view *view) {
    int64_t strides[TENON_MAX_RANK] = {0};
    int shift = it->rank - view->rank;
    for (int d = 0; d < view->rank; d++) {
        if (view->shape[d] != 1)
            strides[d + shift] = view->strides[d];
    }
    tn_iter_add_strides(it, view->data, tenon_dtype_size(view->dtype), strides);
}

/* Less than 0 when dimension `a` belongs inside `b`, more than 0 for the other way round, 0 when it
 * does not matter. */
static inline int tn_iter_compare(const tn_iter *it, int a, int b) {
    for (int k = 0; k < it->count; k++) {
        int64_t sa = it->strides[k][a], sb = it->strides[k][b];
        sa = sa < 0 ? -sa : sa;
        sb = sb < 0 ? -sb : sb;
        if (sa && sb && sa != sb)
            return sa < sb ? -1 : 1;
    }
    return 0;
}

static inline void tn_iter_swap(tn_iter *it, int a, int b) {
    int64_t t = it->shape[a];
    it->shape[a] = it->shape[b];
    it->shape[b] = t;
    for (int k = 0; k < it->count; k++) {
        t = it->strides[k][a];
        it->strides[k][a] = it->strides[k][b];
        it->strides[k][b] = t;
    }
}

static inline bool tn_iter_mergeable(const tn_iter *it, int inner, int outer) {
    for (int k = 0; k < it->count; k++) {
        if (it->strides[k][outer] != it->strides[k][inner] * it->shape[inner])
            return false;
    }
    return true;
}

static inline void tn_iter_order(tn_iter *it) {
    int rank = 0;
    for (int d = it->rank - 1, low = 0; low < d; low++, d--)
        tn_iter_swap(it, low, d);
    for (int d = 0; d < it->rank; d++) {
        if (it->shape[d] == 1)
            continue;
        if (d != rank)
            tn_iter_swap(it, d, rank);
        rank++;
    }
    for (int i = 1; i < rank;
         i++) { /* insertion sort; dimensions that compare equal keep their order */
        for (int at = i, j = i - 1; j >= 0; j--) {
            int order = tn_iter_compare(it, at, j);
            if (order > 0)
                break;
            if (order < 0) {
                tn_iter_swap(it, at, j);
                at = j;
            }
        }
    }
    int last = 0;
    for (int d = 1; d < rank; d++) {
        if (tn_iter_mergeable(it, last, d)) {
            it->shape[last] *= it->shape[d];
            continue;
        }
        if (++last != d)
            tn_iter_swap(it, last, d);
    }
    rank = rank ? last + 1 : 0;
    for (; rank < 2; rank++) {
        it->shape[rank] = 1;
        for (int k = 0; k < it->count; k++)
            it->strides[k][rank] = 0;
    }
    it->rank = rank;
}

/* The elements [begin, end) in iteration order. */
static inline void tn_iter_range(const tn_iter *it, int64_t begin, int64_t end, tn_iter_loop loop,
                                 void *user) {
    int64_t at[TENON_MAX_RANK + 2], rest = begin, inner[TN_ITER_OPERANDS], outer[TN_ITER_OPERANDS];
    if (begin >= end)
        return;
    for (int d = 0; d < it->rank; d++) {
        at[d] = rest % it->shape[d];
        rest /= it->shape[d];
    }
    for (int k = 0; k < it->count; k++) {
        inner[k] = it->strides[k][0];
        outer[k] = it->strides[k][1];
    }
    while (begin < end) {
        int64_t n = it->shape[0] - at[0], rows = 1;
        if (n > end - begin)
            n = end - begin;
        if (n == it->shape[0]) {
            rows = (end - begin) / n;
            if (rows > it->shape[1] - at[1])
                rows = it->shape[1] - at[1];
        }
        char *data[TN_ITER_OPERANDS];
        for (int k = 0; k < it->count; k++) {
            data[k] = it->data[k];
            for (int d = 0; d < it->rank; d++)
                data[k] += at[d] * it->strides[k][d];
        }
        loop(data, inner, outer, n, rows, user);
        begin += n * rows;
        at[0] += n;
        if (at[0] < it->shape[0])
            continue;
        at[0] = 0;
        at[1] += rows;
        for (int d = 1; d + 1 < it->rank && at[d] == it->shape[d]; d++) {
            at[d] = 0;
            at[d + 1]++;
        }
    }
}

/* Range `index` of `count` near-equal ranges of [0, n), their ends on multiples of 64. */
static inline void tn_split(int64_t n, int count, int index, int64_t *begin, int64_t *end) {
    int64_t part = ((n + count - 1) / count + 63) / 64 * 64;
    *begin = part * index < n ? part * index : n;
    *end = *begin + part < n ? *begin + part : n;
}

/* How many threads `work` is worth: all or one, so that OpenMP's team keeps its size. */
static inline int tn_threads_for(int threads, int64_t work) {
    return work < TN_PARALLEL_WORK ? 1 : threads;
}

/* `cost` weighs one element against one addition. */
static inline void tn_iter_run(const tn_iter *it, int threads, int64_t cost, tn_iter_loop loop,
                               void *user) {
    int parts =
        tn_threads_for(threads, it->numel > INT64_MAX / cost ? INT64_MAX : it->numel * cost);
    if (parts <= 1) {
        tn_iter_range(it, 0, it->numel, loop, user);
        return;
    }
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int i = 0; i < parts; i++) {
        int64_t begin, end;
        tn_split(it->numel, parts, i, &begin, &end);
        tn_iter_range(it, begin, end, loop, user);
    }
}

#endif
