/* Shape rules and strides of the ops that share their input's memory. Semantics are PyTorch's.
 * Parts of a tensor are in view_part.c. */
#include "core/view.h"
#include <string.h>

/* ---- The same shape ---- */

/* That of the first argument, or of the one that is written. */
tenon_status tn_infer_same(tn_infer *infer) {
    int index = 0;
    while (index < infer->op->param_count && !infer->op->params[index].written)
        index++;
    tn_infer_in(infer, index < infer->op->param_count ? index : 0, &infer->out[0]);
    return TENON_OK;
}

bool tn_view_same(const tenon_node *node, int index, const tenon_view *in, tenon_view *out) {
    (void)node, (void)index;
    memcpy(out->strides, in->strides, sizeof out->strides);
    return true;
}

/* ---- expand: expand, broadcast_to, expand_as ---- */

tenon_status tn_view_sizes(tn_infer *infer, int index, int64_t *out, int *count) {
    *count = tn_arg_ints(infer->node, index, out, TENON_MAX_RANK);
    return *count >= 0
               ? TENON_OK
               : tn_infer_fail(infer, "the sizes are not at most %d integers", TENON_MAX_RANK);
}

static tenon_status expand_to(tn_infer *infer, int rank, const int64_t *size) {
    tn_meta in, *out = &infer->out[0];
    tn_infer_in(infer, 0, &in);
    if (rank < in.rank)
        return tn_infer_fail(infer, "expands rank %d to the smaller rank %d", in.rank, rank);
    out->dtype = in.dtype;
    out->rank = rank;
    for (int d = 0; d < rank; d++) {
        int from = d - (rank - in.rank);
        int64_t old = from >= 0 ? in.shape[from] : 1;
        int64_t wanted = size[d] == -1 && from >= 0 ? old : size[d];
        if (wanted < 0 || (old != 1 && old != wanted))
            return tn_infer_fail(infer, "cannot expand size %lld of dimension %d to %lld",
                                 (long long)old, d, (long long)size[d]);
        out->shape[d] = wanted;
    }
    return TENON_OK;
}

tenon_status tn_infer_expand(tn_infer *infer) {
    int64_t size[TENON_MAX_RANK];
    int rank;
    TN_TRY(tn_view_sizes(infer, 1, size, &rank));
    return expand_to(infer, rank, size);
}

tenon_status tn_infer_expand_as(tn_infer *infer) {
    tn_meta other;
    tn_infer_in(infer, 1, &other);
    return expand_to(infer, other.rank, other.shape);
}

bool tn_view_expand(const tenon_node *node, int index, const tenon_view *in, tenon_view *out) {
    (void)node, (void)index;
    for (int d = 0; d < out->rank; d++) {
        int from = d - (out->rank - in->rank);
        bool kept = from >= 0 && in->shape[from] == out->shape[d];
        out->strides[d] = kept ? in->strides[from] : 0;
    }
    return true;
}

/* ---- Orders of dimensions: permute, transpose, t, movedim, ... ---- */

static bool swap_order(int rank, int64_t a, int64_t b, int *order) {
    int x, y;
    if (!tn_view_dim(a, rank, &x) || !tn_view_dim(b, rank, &y))
        return false;
    if (rank > 0) {
        order[x] = y;
        order[y] = x;
    }
    return true;
}

static bool move_order(const tenon_node *node, int rank, int *order) {
    int64_t from[TENON_MAX_RANK], to[TENON_MAX_RANK];
    int count = tn_arg_ints(node, 1, from, TENON_MAX_RANK);
    if (count < 0 || count != tn_arg_ints(node, 2, to, TENON_MAX_RANK))
        return false;
    bool taken[TENON_MAX_RANK] = {0};
    for (int d = 0; d < rank; d++)
        order[d] = -1;
    for (int i = 0; i < count; i++) {
        int source, target;
        if (!tn_view_dim(from[i], rank, &source) || !tn_view_dim(to[i], rank, &target))
            return false;
        if (rank == 0)
            continue;
        if (taken[source] || order[target] >= 0)
            return false;
        taken[source] = true;
        order[target] = source;
    }
    for (int d = 0, next = 0; d < rank; d++) {
        if (order[d] >= 0)
            continue;
        while (taken[next])
            next++;
        order[d] = next++;
    }
    return true;
}

/* order[d] is the input's dimension that becomes dimension d. False when the arguments do not give
 * a permutation. */
static bool order_of(const tenon_node *node, int rank, int *order) {
    int64_t dims[TENON_MAX_RANK];
    bool seen[TENON_MAX_RANK] = {0};
    for (int d = 0; d < rank; d++)
        order[d] = d;
    switch (node->op->id) {
    case TN_OP_transpose_int:
    case TN_OP_swapaxes:
    case TN_OP_swapaxes_:
    case TN_OP_transpose_:
        return swap_order(rank, tn_arg_int(node, 1, 0), tn_arg_int(node, 2, 0), order);
    case TN_OP_t:
    case TN_OP_t_:
        return rank <= 2 && (rank < 2 || swap_order(rank, 0, 1, order));
    case TN_OP_matrix_H:
        return rank == 0 || (rank == 2 && swap_order(rank, 0, 1, order));
    case TN_OP_mT:
    case TN_OP_mH:
        return rank == 0 || (rank >= 2 && swap_order(rank, -1, -2, order));
    case TN_OP_numpy_T:
        for (int d = 0; d < rank; d++)
            order[d] = rank - 1 - d;
        return true;
    case TN_OP_movedim_int:
    case TN_OP_movedim_intlist:
        return move_order(node, rank, order);
    default:
        if (tn_arg_ints(node, 1, dims, TENON_MAX_RANK) != rank)
            return false;
        for (int d = 0; d < rank; d++) {
            if (!tn_view_dim(dims[d], rank, &order[d]) || seen[order[d]])
                return false;
            seen[order[d]] = true;
        }
        return true;
    }
}

tenon_status tn_infer_permute(tn_infer *infer) {
    tn_meta in, *out = &infer->out[0];
    int order[TENON_MAX_RANK];
    tn_infer_in(infer, 0, &in);
    if (!order_of(infer->node, in.rank, order))
        return tn_infer_fail(infer, "the dimensions do not permute those of rank %d", in.rank);
    *out = in;
    for (int d = 0; d < in.rank; d++)
        out->shape[d] = in.shape[order[d]];
    return TENON_OK;
}

bool tn_view_permute(const tenon_node *node, int index, const tenon_view *in, tenon_view *out) {
    int order[TENON_MAX_RANK];
    (void)index;
    if (!order_of(node, in->rank, order))
        return false;
    for (int d = 0; d < in->rank; d++)
        out->strides[d] = in->strides[order[d]];
    return true;
}

/* ---- Reshapes: view, reshape, flatten, unflatten, squeeze, unsqueeze, ... ---- */

/* Puts `count` elements into `size`, of which one may be -1. */
static tenon_status reshape_to(tn_infer *infer, int64_t count, int rank, const int64_t *size,
                               int64_t *shape) {
    int64_t known = 1;
    int open = -1;
    for (int d = 0; d < rank; d++) {
        shape[d] = size[d];
        if (size[d] == -1 && open < 0)
            open = d;
        else if (size[d] < 0 || !tn_mul(known, size[d], &known))
            return tn_infer_fail(infer, "size %lld of dimension %d is not possible",
                                 (long long)size[d], d);
    }
    if (open >= 0 && (known == 0 || count % known != 0))
        return tn_infer_fail(infer, "%lld elements do not fill the sizes given", (long long)count);
    if (open >= 0)
        shape[open] = count / known;
    else if (known != count)
        return tn_infer_fail(infer, "has %lld elements, the sizes given have %lld",
                             (long long)count, (long long)known);
    return TENON_OK;
}

tenon_status tn_infer_view(tn_infer *infer) {
    tn_meta in, *out = &infer->out[0];
    int64_t size[TENON_MAX_RANK];
    tn_infer_in(infer, 0, &in);
    TN_TRY(tn_view_sizes(infer, 1, size, &out->rank));
    out->dtype = in.dtype;
    return reshape_to(infer, tn_numel(in.rank, in.shape), out->rank, size, out->shape);
}

tenon_status tn_infer_view_as(tn_infer *infer) {
    tn_meta in, *out = &infer->out[0];
    int64_t size[TENON_MAX_RANK];
    tn_infer_in(infer, 0, &in);
    tn_infer_in(infer, 1, out);
    out->dtype = in.dtype;
    memcpy(size, out->shape, sizeof size);
    return reshape_to(infer, tn_numel(in.rank, in.shape), out->rank, size, out->shape);
}

tenon_status tn_infer_flatten(tn_infer *infer) {
    tn_meta in, *out = &infer->out[0];
    int first, last;
    bool all = infer->op->param_count == 1; /* ravel */
    tn_infer_in(infer, 0, &in);
    TN_TRY(tn_infer_dim(infer, all ? 0 : tn_arg_int(infer->node, 1, 0), in.rank, &first));
    TN_TRY(tn_infer_dim(infer, all ? -1 : tn_arg_int(infer->node, 2, -1), in.rank, &last));
    if (first > last)
        return tn_infer_fail(infer, "its first dimension %d comes after its last, %d", first, last);
    out->dtype = in.dtype;
    out->rank = in.rank == 0 ? 1 : in.rank - (last - first);
    int64_t product = 1;
    for (int d = first; d <= last && d < in.rank; d++)
        product *= in.shape[d];
    for (int d = 0; d < out->rank; d++)
        out->shape[d] = d < first ? in.shape[d] : d == first ? product : in.shape[d + last - first];
    return TENON_OK;
}

tenon_status tn_infer_unflatten(tn_infer *infer) {
    tn_meta in, *out = &infer->out[0];
    int64_t size[TENON_MAX_RANK], shape[TENON_MAX_RANK];
    int dim, count;
    tn_infer_in(infer, 0, &in);
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), in.rank, &dim));
    TN_TRY(tn_view_sizes(infer, 2, size, &count));
    if (in.rank == 0 || in.rank - 1 + count > TENON_MAX_RANK)
        return tn_infer_fail(infer, "cannot unflatten rank %d into %d sizes", in.rank, count);
    TN_TRY(reshape_to(infer, in.shape[dim], count, size, shape));
    out->dtype = in.dtype;
    out->rank = in.rank - 1 + count;
    for (int d = 0; d < out->rank; d++)
        out->shape[d] = d < dim           ? in.shape[d]
                        : d < dim + count ? shape[d - dim]
                                          : in.shape[d - count + 1];
    return TENON_OK;
}

tenon_status tn_infer_squeeze(tn_infer *infer) {
    tn_meta in, *out = &infer->out[0];
    bool drop[TENON_MAX_RANK] = {0};
    tn_infer_in(infer, 0, &in);
    if (infer->op->param_count == 1) {
        memset(drop, 1, sizeof drop);
    } else {
        int64_t dims[TENON_MAX_RANK];
        int count, dim;
        TN_TRY(tn_view_sizes(infer, 1, dims, &count));
        for (int i = 0; i < count; i++) {
            TN_TRY(tn_infer_dim(infer, dims[i], in.rank, &dim));
            drop[dim] = true;
        }
    }
    out->dtype = in.dtype;
    for (int d = 0; d < in.rank; d++)
        if (!drop[d] || in.shape[d] != 1)
            out->shape[out->rank++] = in.shape[d];
    return TENON_OK;
}

tenon_status tn_infer_unsqueeze(tn_infer *infer) {
    tn_meta in, *out = &infer->out[0];
    int dim;
    tn_infer_in(infer, 0, &in);
    if (in.rank == TENON_MAX_RANK)
        return tn_infer_fail(infer, "rank %d is the highest possible", TENON_MAX_RANK);
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), in.rank + 1, &dim));
    out->dtype = in.dtype;
    out->rank = in.rank + 1;
    for (int d = 0; d < out->rank; d++)
        out->shape[d] = d < dim ? in.shape[d] : d == dim ? 1 : in.shape[d - 1];
    return TENON_OK;
}

/* Strides for any reshape, where they exist: each run of input dimensions that is contiguous in
 * itself is cut up anew; the rule is that of at::detail::computeStride. */
bool tn_view_reshape(const tenon_node *node, int index, const tenon_view *in, tenon_view *out) {
    (void)node, (void)index;
    if (tenon_view_numel(in) == 0) {
        tn_contiguous_strides(out->rank, out->shape, out->strides);
        return true;
    }
    int to = out->rank - 1;
    int64_t run = 1, base = 1; /* the run's elements, and its smallest stride */
    for (int d = in->rank - 1; d >= -1; d--) {
        if (d >= 0 && in->shape[d] == 1)
            continue;
        if (run > 1 && (d < 0 || in->strides[d] != base * run)) {
            int64_t filled = 1;
            while (to >= 0 && (filled < run || out->shape[to] == 1)) {
                out->strides[to] = base * filled;
                filled *= out->shape[to--];
            }
            if (filled != run)
                return false;
            run = 1;
        }
        if (d >= 0) {
            if (run == 1)
                base = in->strides[d];
            run *= in->shape[d];
        }
    }
    while (to >= 0)
        out->strides[to--] = 1; /* sizes of 1 */
    return true;
}

/* ---- as_strided: over the row-major elements of its input ---- */

tenon_status tn_infer_as_strided(tn_infer *infer) {
    tn_meta in, *out = &infer->out[0];
    int64_t strides[TENON_MAX_RANK], last = tn_arg_int(infer->node, 3, 0), reach;
    int count;
    tn_infer_in(infer, 0, &in);
    TN_TRY(tn_view_sizes(infer, 1, out->shape, &out->rank));
    TN_TRY(tn_view_sizes(infer, 2, strides, &count));
    if (count != out->rank)
        return tn_infer_fail(infer, "has %d sizes but %d strides", out->rank, count);
    out->dtype = in.dtype;
    bool fits = last >= 0;
    for (int d = 0; d < out->rank; d++)
        fits = fits && out->shape[d] >= 0 && strides[d] >= 0 &&
               tn_mul(out->shape[d] > 0 ? out->shape[d] - 1 : 0, strides[d], &reach) &&
               tn_add(last, reach, &last);
    if (!fits || (last >= tn_numel(in.rank, in.shape) && tn_numel(out->rank, out->shape) != 0))
        return tn_infer_fail(infer, "its sizes and strides reach outside its input");
    return TENON_OK;
}

bool tn_view_as_strided(const tenon_node *node, int index, const tenon_view *in, tenon_view *out) {
    (void)index;
    if (!tenon_view_is_contiguous(in) ||
        tn_arg_ints(node, 2, out->strides, TENON_MAX_RANK) != out->rank)
        return false;
    tn_view_shift(out, tn_arg_int(node, 3, 0));
    return true;
}

/* ---- resize: the first elements in another shape ---- */

tenon_status tn_infer_resize(tn_infer *infer) {
    tn_meta in, *out = &infer->out[0];
    int64_t size[TENON_MAX_RANK];
    int rank;
    TN_TRY(tn_view_sizes(infer, 1, size, &rank));
    tn_infer_in(infer, 0, &in);
    *out = (tn_meta){in.dtype, rank, {0}};
    memcpy(out->shape, size, (size_t)rank * sizeof *size);
    int64_t wanted = tn_numel(rank, size), there = tn_numel(in.rank, in.shape);
    if (wanted < 0 || wanted > there)
        return tn_infer_fail(infer, "would have %lld elements of %lld: the others have no values",
                             (long long)wanted, (long long)there);
    return TENON_OK;
}

bool tn_view_resize(const tenon_node *node, int index, const tenon_view *in, tenon_view *out) {
    (void)node, (void)index;
    if (!tenon_view_is_contiguous(in))
        return false;
    tn_contiguous_strides(out->rank, out->shape, out->strides);
    return true;
}
