/* Shape rules of statistics in order, of set-like tests, and of tensors put together from others;
 * most of them passes rewrite. */
#include "core/infer.h"
#include "core/rules.h"
#include <string.h>

/* ---- Elementwise ---- */

/* Integers, broadcast. */
tenon_status tn_infer_whole(tn_infer *infer) {
    TN_TRY(tn_infer_lower_broadcast(infer));
    tenon_dtype dtype = infer->out[0].dtype;
    if (!tn_dtype_is_integer(dtype))
        return tn_infer_fail(infer, "needs integers, not %s", tenon_dtype_text(dtype));
    return TENON_OK;
}

tenon_status tn_infer_float_power(tn_infer *infer) {
    TN_TRY(tn_infer_lower_broadcast(infer));
    infer->out[0].dtype = TENON_FLOAT64;
    return TENON_OK;
}

/* ---- Reductions and scans ---- */

tenon_status tn_infer_aminmax(tn_infer *infer) {
    tn_meta in, *out = &infer->out[0];
    int dim = -1;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    bool all = tn_arg_is_none(infer->node, 1), keep = tn_arg_bool(infer->node, 2);
    if (!all)
        TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), in.rank, &dim));
    *out = (tn_meta){in.dtype, 0, {0}};
    for (int d = 0; d < in.rank; d++) {
        bool gone = all || d == dim;
        if (gone && in.shape[d] == 0)
            return tn_infer_fail(infer, "dimension %d, which it reduces, has size 0", d);
        if (!gone || keep)
            out->shape[out->rank++] = gone ? 1 : in.shape[d];
    }
    infer->out[1] = *out;
    return TENON_OK;
}

/* cummax and cummin give places too; logcumsumexp takes floats. */
tenon_status tn_infer_cumulate(tn_infer *infer) {
    tn_meta in;
    int dim;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), in.rank, &dim));
    if (infer->op->id == TN_OP_logcumsumexp)
        TN_TRY(tn_need_float(infer, in.dtype));
    infer->out[0] = in;
    if (infer->out_count > 1) {
        infer->out[1] = in;
        infer->out[1].dtype = TENON_INT64;
    }
    return TENON_OK;
}

tenon_status tn_infer_histc(tn_infer *infer) {
    tn_meta in;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(tn_need_float(infer, in.dtype));
    int64_t bins = tn_arg_int(infer->node, 1, 100);
    if (bins <= 0)
        return tn_infer_fail(infer, "needs bins, not %lld", (long long)bins);
    if (tn_arg_float(infer->node, 2, 0) > tn_arg_float(infer->node, 3, 0))
        return tn_infer_fail(infer, "min is larger than max");
    infer->out[0] = (tn_meta){in.dtype, 1, {bins}};
    return TENON_OK;
}

/* ---- Indexing ---- */

tenon_status tn_infer_isin(tn_infer *infer) {
    tn_infer_in(infer, 0, &infer->out[0]);
    infer->out[0].dtype = TENON_BOOL;
    return TENON_OK;
}

/* ---- Tensors put together ---- */

/* The dimension of argument "dim", or the first of size 3. */
int tn_cross_dim(const tenon_node *node, int rank, const int64_t *shape) {
    int index = tn_op_param(node->op, "dim");
    if (!tn_arg_is_none(node, index)) {
        int64_t dim = tn_arg_int(node, index, -1);
        return (int)(dim < 0 ? dim + rank : dim);
    }
    for (int d = 0; d < rank; d++)
        if (shape[d] == 3)
            return d;
    return -1;
}

tenon_status tn_infer_cross(tn_infer *infer) {
    tn_meta self, other;
    TN_TRY(tn_infer_lower_broadcast(infer));
    const tn_meta *out = &infer->out[0];
    tn_infer_in(infer, 1, &other);
    int dim = tn_cross_dim(infer->node, out->rank, out->shape);
    tn_infer_in(infer, 0, &self);
    if (self.rank != other.rank)
        return tn_infer_fail(infer, "needs tensors of one rank");
    if (dim < 0 || dim >= out->rank || out->shape[dim] != 3 || out->dtype == TENON_BOOL)
        return tn_infer_fail(infer, "needs vectors of 3 numbers");
    return TENON_OK;
}

static tenon_status embed(tn_infer *infer, const tn_meta *in, int64_t offset, int64_t at1,
                          int64_t at2) {
    tn_meta *out = &infer->out[0];
    int first, second, rank = in->rank + 1;
    int64_t size;
    if (in->rank < 1 || rank > TENON_MAX_RANK)
        return tn_infer_fail(infer, "needs 1 to %d dimensions", TENON_MAX_RANK - 1);
    TN_TRY(tn_infer_dim(infer, at1, rank, &first));
    TN_TRY(tn_infer_dim(infer, at2, rank, &second));
    if (first == second)
        return tn_infer_fail(infer, "needs two different dimensions");
    if (offset == INT64_MIN ||
        !tn_add(in->shape[in->rank - 1], offset < 0 ? -offset : offset, &size))
        return tn_infer_fail(infer, "the offset is too large");
    *out = (tn_meta){in->dtype, rank, {0}};
    for (int d = 0, from = 0; d < rank; d++)
        out->shape[d] = d == first || d == second ? size : in->shape[from++];
    return TENON_OK;
}

tenon_status tn_infer_diag_embed(tn_infer *infer) {
    tn_meta in;
    const tenon_node *node = infer->node;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    return embed(infer, &in, tn_arg_int(node, 1, 0), tn_arg_int(node, 2, -2),
                 tn_arg_int(node, 3, -1));
}

tenon_status tn_infer_block_diag(tn_infer *infer) {
    tn_meta *out = &infer->out[0], part;
    *out = (tn_meta){TENON_DTYPE_NONE, 2, {0, 0}};
    for (int i = 0; i < tn_infer_length(infer, 0); i++) {
        if (!tn_infer_item(infer, 0, i, &part) || part.rank > 2)
            return tn_infer_fail(infer, "needs tensors of at most 2 dimensions");
        int64_t rows = part.rank == 2 ? part.shape[0] : 1;
        int64_t columns = part.rank > 0 ? part.shape[part.rank - 1] : 1;
        if (!tn_add(out->shape[0], rows, &out->shape[0]) ||
            !tn_add(out->shape[1], columns, &out->shape[1]))
            return tn_infer_fail(infer, "is too large");
        out->dtype = i ? tn_promote(out->dtype, part.dtype) : part.dtype;
    }
    if (out->dtype == TENON_DTYPE_NONE)
        return tn_infer_fail(infer, "needs at least one tensor");
    return TENON_OK;
}

tenon_status tn_infer_kron(tn_infer *infer) {
    tn_meta a, b, *out = &infer->out[0];
    TN_TRY(tn_need_tensor(infer, 0, &a));
    TN_TRY(tn_need_tensor(infer, 1, &b));
    *out = (tn_meta){tn_result_type(infer->node, 0, 1), a.rank > b.rank ? a.rank : b.rank, {0}};
    if (2 * out->rank > TENON_MAX_RANK)
        return tn_infer_fail(infer, "needs at most %d dimensions", TENON_MAX_RANK / 2);
    for (int d = 0; d < out->rank; d++) {
        int i = d - (out->rank - a.rank), j = d - (out->rank - b.rank);
        if (!tn_mul(i < 0 ? 1 : a.shape[i], j < 0 ? 1 : b.shape[j], &out->shape[d]))
            return tn_infer_fail(infer, "is too large");
    }
    return TENON_OK;
}

/* Images or volumes, of the given sizes. */
tenon_status tn_infer_max_unpool(tn_infer *infer) {
    tn_meta self, index;
    int dims = infer->op->id == TN_OP_max_unpool2d ? 2 : 3;
    int64_t size[TENON_MAX_RANK];
    TN_TRY(tn_need_tensor(infer, 0, &self));
    TN_TRY(tn_need_tensor(infer, 1, &index));
    if ((self.rank != dims + 1 && self.rank != dims + 2) || index.dtype != TENON_INT64 ||
        index.rank != self.rank ||
        memcmp(index.shape, self.shape, (size_t)self.rank * sizeof *self.shape) != 0)
        return tn_infer_fail(infer, "needs int64 places of the input's shape, of rank %d or %d",
                             dims + 1, dims + 2);
    if (tn_arg_ints(infer->node, 2, size, dims) != dims)
        return tn_infer_fail(infer, "needs %d output sizes", dims);
    memcpy(self.shape + self.rank - dims, size, (size_t)dims * sizeof *size);
    infer->out[0] = self;
    return TENON_OK;
}
