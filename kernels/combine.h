/* How an element that is written meets the one that is there. */
#ifndef TN_COMBINE_H
#define TN_COMBINE_H

#include "kernels/block.h"

typedef enum tn_combine { TN_SET, TN_ADD, TN_MUL, TN_MAX, TN_MIN, TN_COMBINE_COUNT } tn_combine;

typedef void (*tn_combine_fn)(void *to, const void *from);

/* One element; NaN wins a comparison. Sums and products of bools are or and and. */
extern const tn_combine_fn TN_K(combine)[TN_COMBINE_COUNT][TENON_DTYPE_COUNT];

/* RUN_FAILED unless every index lies in [0, size), or in [-size, size) when `negative`. `what`
 * names the tensor. */
tenon_status TN_K(check_indices)(const tn_call *call, const tenon_view *index, int64_t size,
                                 bool negative, const char *what);

/* A view whose every element is that at `data`. */
static inline tenon_view tn_repeated(void *data, const tenon_view *like) {
    tenon_view v = *like;
    v.data = data;
    for (int d = 0; d < v.rank; d++)
        v.strides[d] = 0;
    return v;
}

/* `v` with strides of 0 where it broadcasts to the shape. */
static inline tenon_view tn_expanded(const tenon_view *v, int rank, const int64_t *shape) {
    tenon_view w = *v;
    w.rank = rank;
    for (int d = 0; d < rank; d++) {
        int s = d - (rank - v->rank);
        w.shape[d] = shape[d];
        w.strides[d] = s >= 0 && v->shape[s] != 1 ? v->strides[s] : 0;
    }
    return w;
}

/* A 0-d view as one of a single element in one dimension. */
static inline tenon_view tn_at_least_1d(const tenon_view *v) {
    tenon_view w = *v;
    if (w.rank == 0) {
        w.rank = 1;
        w.shape[0] = w.strides[0] = 1;
    }
    return w;
}

#endif
