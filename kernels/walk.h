/* Walking over several strided arrays of one shape at once. Steps are in bytes. */
#ifndef TN_WALK_H
#define TN_WALK_H

#include "kernels/iterate.h"
#include "kernels/kernels.h"

/* Kernels split dimensions (repeat, pixel_shuffle), so a walk may have twice the rank of a tensor.
 */
#define TN_WALK_RANK (2 * TENON_MAX_RANK)
#define TN_WALK_ARRAYS 3

typedef struct tn_walk {
    int rank;
    int64_t count; /* positions in all */
    int64_t size[TN_WALK_RANK];
    int64_t step[TN_WALK_ARRAYS][TN_WALK_RANK];
    int64_t index[TN_WALK_RANK];
    int64_t at[TN_WALK_ARRAYS]; /* byte offsets of the current position */
} tn_walk;

static inline tn_walk tn_walk_make(void) {
    tn_walk w;
    w.rank = 0;
    w.count = 1;
    for (int a = 0; a < TN_WALK_ARRAYS; a++)
        w.at[a] = 0;
    return w;
}

/* Adds a dimension inside those that are there. Sizes of 1 need none. */
static inline void tn_walk_dim(tn_walk *w, int64_t size, int64_t step0, int64_t step1,
                               int64_t step2) {
    w->count *= size;
    if (size == 1)
        return;
    int d = w->rank++;
    w->size[d] = size;
    w->step[0][d] = step0;
    w->step[1][d] = step1;
    w->step[2][d] = step2;
    w->index[d] = 0;
}

static inline void tn_walk_swap(tn_walk *w, int d, int e) {
    int64_t t = w->size[d];
    w->size[d] = w->size[e];
    w->size[e] = t;
    for (int a = 0; a < TN_WALK_ARRAYS; a++) {
        t = w->step[a][d];
        w->step[a][d] = w->step[a][e];
        w->step[a][e] = t;
    }
}

static inline int64_t tn_walk_abs(int64_t x) {
    return x < 0 ? -x : x;
}

/* Orders the dimensions so that array `a` (then array 0) is walked with the smallest steps
 * innermost. */
static inline void tn_walk_sort(tn_walk *w, int a) {
    for (int d = 1; d < w->rank; d++) {
        for (int e = d; e > 0; e--) {
            int64_t outer = tn_walk_abs(w->step[a][e - 1]), inner = tn_walk_abs(w->step[a][e]);
            if (outer > inner ||
                (outer == inner && tn_walk_abs(w->step[0][e - 1]) >= tn_walk_abs(w->step[0][e])))
                break;
            tn_walk_swap(w, e - 1, e);
        }
    }
}

/* Joins neighbouring dimensions that every array walks as one. */
static inline void tn_walk_merge(tn_walk *w) {
    int to = 0;
    for (int d = 1; d < w->rank; d++) {
        bool joins = true;
        for (int a = 0; a < TN_WALK_ARRAYS; a++)
            joins = joins && w->step[a][to] == w->step[a][d] * w->size[d];
        if (joins) {
            w->size[to] *= w->size[d];
        } else {
            to++;
            w->size[to] = w->size[d];
        }
        for (int a = 0; a < TN_WALK_ARRAYS; a++)
            w->step[a][to] = w->step[a][d];
    }
    if (w->rank > 0)
        w->rank = to + 1;
}

/* Takes the innermost dimension out of the walk; a walk of rank 0 gives a size of 1. */
static inline int64_t tn_walk_inner(tn_walk *w, int64_t step[TN_WALK_ARRAYS]) {
    if (w->rank == 0) {
        for (int a = 0; a < TN_WALK_ARRAYS; a++)
            step[a] = 0;
        return w->count < 1 ? 0 : 1;
    }
    int d = --w->rank;
    for (int a = 0; a < TN_WALK_ARRAYS; a++)
        step[a] = w->step[a][d];
    w->count = 1;
    for (int e = 0; e < d; e++)
        w->count *= w->size[e];
    return w->size[d];
}

/* Goes to position `i` below count. */
static inline void tn_walk_seek(tn_walk *w, int64_t i) {
    for (int a = 0; a < TN_WALK_ARRAYS; a++)
        w->at[a] = 0;
    for (int d = w->rank - 1; d >= 0 && w->count > 0; d--) {
        w->index[d] = i % w->size[d];
        i /= w->size[d];
        for (int a = 0; a < TN_WALK_ARRAYS; a++)
            w->at[a] += w->index[d] * w->step[a][d];
    }
}

/* To the next position; after the last one, to the first. */
static inline void tn_walk_next(tn_walk *w) {
    for (int d = w->rank - 1; d >= 0; d--) {
        if (++w->index[d] < w->size[d]) {
            for (int a = 0; a < TN_WALK_ARRAYS; a++)
                w->at[a] += w->step[a][d];
            return;
        }
        w->index[d] = 0;
        for (int a = 0; a < TN_WALK_ARRAYS; a++)
            w->at[a] -= w->step[a][d] * (w->size[d] - 1);
    }
}

/* Positions [begin, end) of part `part` of `parts`. */
static inline int64_t tn_part(int64_t count, int part, int parts) {
    return count / parts * part + (count % parts * part) / parts;
}

/* How many threads `work` elements in so many tasks are worth. */
static inline int tn_threads(const tn_call *call, int64_t work, int64_t tasks) {
    return tasks < 2 ? 1 : tn_threads_for(call->threads, work);
}

static inline int64_t tn_step(const tenon_view *v, int d) {
    return v->strides[d] * (int64_t)tenon_dtype_size(v->dtype);
}

/* Adds all dimensions of `in` (array 0) and `out` (array 1) but `dim`, and puts them in the order
 * of `in`. */
static inline void tn_walk_around(tn_walk *w, const tenon_view *in, const tenon_view *out,
                                  int dim) {
    for (int d = 0; d < in->rank; d++)
        if (d != dim)
            tn_walk_dim(w, in->shape[d], tn_step(in, d), tn_step(out, d), 0);
    tn_walk_sort(w, 0);
    tn_walk_merge(w);
}

#endif
