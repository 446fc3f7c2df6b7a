/* What the rules of view ops share. */
#ifndef TN_VIEW_H
#define TN_VIEW_H

#include "core/infer.h"

/* The integers of argument `index`, at most TENON_MAX_RANK. */
tenon_status tn_view_sizes(tn_infer *infer, int index, int64_t *out, int *count);

/* `dim` counted from the end when negative; false when it is outside. */
static inline bool tn_view_dim(int64_t dim, int rank, int *out) {
    int limit = rank > 0 ? rank : 1;
    if (dim < -limit || dim >= limit)
        return false;
    *out = (int)(dim < 0 ? dim + limit : dim);
    return true;
}

enum { TN_MAX_PARTS = 1 << 24 }; /* outputs of one split or unbind */

/* Moves the first element, also of a view without memory, of which only the distances count. */
static inline void tn_view_shift(tenon_view *view, int64_t elements) {
    int64_t bytes = elements * (int64_t)tenon_dtype_size(view->dtype);
    view->data = (void *)((uintptr_t)view->data + (uintptr_t)bytes);
}

#endif
