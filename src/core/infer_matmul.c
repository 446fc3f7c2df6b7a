/* Shapes of matrix products. */
#include "core/activation.h"
#include "core/infer.h"
#include "core/packed.h"
#include <string.h>

static tenon_status operands(tn_infer *infer, int first, tn_meta *a, tn_meta *b) {
    if (!tn_infer_in(infer, first, a) || !tn_infer_in(infer, first + 1, b))
        return tn_infer_fail(infer, "needs two tensors");
    if (a->dtype != b->dtype)
        return tn_infer_fail(infer, "needs tensors of one dtype, not %s and %s",
                             tenon_dtype_text(a->dtype), tenon_dtype_text(b->dtype));
    if (a->dtype == TENON_BOOL)
        return tn_infer_fail(infer, "is not defined for bool");
    return TENON_OK;
}

static tenon_status need_rank(tn_infer *infer, const tn_meta *a, int rank_a, const tn_meta *b,
                              int rank_b) {
    if (a->rank != rank_a || b->rank != rank_b)
        return tn_infer_fail(infer, "needs tensors of rank %d and %d, not %d and %d", rank_a,
                             rank_b, a->rank, b->rank);
    return TENON_OK;
}

static tenon_status need_equal(tn_infer *infer, int64_t a, int64_t b) {
    if (a != b)
        return tn_infer_fail(infer, "needs equal inner sizes, not %lld and %lld", (long long)a,
                             (long long)b);
    return TENON_OK;
}

/* The added tensor (argument 0) must have the result's dtype and broadcast to its shape. */
static tenon_status check_added(tn_infer *infer, const tn_meta *out) {
    tn_meta self, both = *out;
    if (!tn_infer_in(infer, 0, &self))
        return tn_infer_fail(infer, "needs a tensor to add");
    if (self.dtype != out->dtype)
        return tn_infer_fail(infer, "needs tensors of one dtype, not %s and %s",
                             tenon_dtype_text(self.dtype), tenon_dtype_text(out->dtype));
    TN_TRY(tn_infer_broadcast(infer, &both, &self));
    if (both.rank != out->rank || memcmp(both.shape, out->shape, sizeof(int64_t) * both.rank) != 0)
        return tn_infer_fail(infer, "needs an added tensor that broadcasts to the product's shape");
    return TENON_OK;
}

static tenon_status product(tn_infer *infer, int first, int rank) {
    tn_meta a, b, *out = &infer->out[0];
    TN_TRY(operands(infer, first, &a, &b));
    TN_TRY(need_rank(infer, &a, rank, &b, rank));
    if (rank == 3 && a.shape[0] != b.shape[0])
        return tn_infer_fail(infer, "needs equal batches, not %lld and %lld", (long long)a.shape[0],
                             (long long)b.shape[0]);
    TN_TRY(need_equal(infer, a.shape[rank - 1], b.shape[rank - 2]));
    *out = a;
    out->shape[rank - 1] = b.shape[rank - 1];
    return TENON_OK;
}

tenon_status tn_infer_mm(tn_infer *infer) {
    return product(infer, 0, 2);
}

tenon_status tn_infer_bmm(tn_infer *infer) {
    return product(infer, 0, 3);
}

tenon_status tn_infer_addmm(tn_infer *infer) {
    TN_TRY(product(infer, 1, 2));
    return check_added(infer, &infer->out[0]);
}

tenon_status tn_infer_baddbmm(tn_infer *infer) {
    TN_TRY(product(infer, 1, 3));
    return check_added(infer, &infer->out[0]);
}

/* beta * self + alpha * the sum of batch1[i] @ batch2[i] */
tenon_status tn_infer_addbmm(tn_infer *infer) {
    TN_TRY(product(infer, 1, 3));
    tn_meta *out = &infer->out[0];
    out->shape[0] = out->shape[1];
    out->shape[1] = out->shape[2];
    out->rank = 2;
    return check_added(infer, out);
}

static tenon_status matrix_vector(tn_infer *infer, int first) {
    tn_meta a, b, *out = &infer->out[0];
    TN_TRY(operands(infer, first, &a, &b));
    TN_TRY(need_rank(infer, &a, 2, &b, 1));
    TN_TRY(need_equal(infer, a.shape[1], b.shape[0]));
    *out = a;
    out->rank = 1;
    return TENON_OK;
}

tenon_status tn_infer_mv(tn_infer *infer) {
    return matrix_vector(infer, 0);
}

tenon_status tn_infer_addmv(tn_infer *infer) {
    TN_TRY(matrix_vector(infer, 1));
    return check_added(infer, &infer->out[0]);
}

tenon_status tn_infer_dot(tn_infer *infer) {
    tn_meta a, b;
    TN_TRY(operands(infer, 0, &a, &b));
    TN_TRY(need_rank(infer, &a, 1, &b, 1));
    TN_TRY(need_equal(infer, a.shape[0], b.shape[0]));
    infer->out[0].dtype = a.dtype;
    infer->out[0].rank = 0;
    return TENON_OK;
}

/* input [..., k] @ weight [n, k] transposed + bias; a weight of rank 1 gives no last dimension. */
tenon_status tn_infer_linear(tn_infer *infer) {
    tn_meta in, weight, bias, *out = &infer->out[0];
    TN_TRY(operands(infer, 0, &in, &weight));
    if (in.rank < 1 || weight.rank < 1 || weight.rank > 2)
        return tn_infer_fail(infer, "needs an input with dimensions and a weight of rank 1 or 2");
    TN_TRY(need_equal(infer, in.shape[in.rank - 1], weight.shape[weight.rank - 1]));
    *out = in;
    if (weight.rank == 2)
        out->shape[in.rank - 1] = weight.shape[0];
    else
        out->rank--;
    if (tn_infer_in(infer, 2, &bias)) {
        int64_t size = weight.rank == 2 ? weight.shape[0] : 1;
        if (bias.dtype != in.dtype)
            return tn_infer_fail(infer, "needs a bias of dtype %s, not %s",
                                 tenon_dtype_text(in.dtype), tenon_dtype_text(bias.dtype));
        if (bias.rank > 1 || (bias.rank == 1 && bias.shape[0] != size && bias.shape[0] != 1))
            return tn_infer_fail(infer, "needs a bias of shape [%lld]", (long long)size);
    }
    return TENON_OK;
}

/* As torch.matmul: vectors get a dimension for the product, which the result loses; batches
 * broadcast. */
tenon_status tn_infer_matmul(tn_infer *infer) {
    tn_meta a, b, *out = &infer->out[0];
    TN_TRY(operands(infer, 0, &a, &b));
    if (a.rank < 1 || b.rank < 1)
        return tn_infer_fail(infer, "needs tensors with dimensions");
    TN_TRY(need_equal(infer, a.shape[a.rank - 1], b.shape[b.rank == 1 ? 0 : b.rank - 2]));
    tn_meta batch = {.dtype = a.dtype, .rank = a.rank > 2 ? a.rank - 2 : 0};
    tn_meta other = {.dtype = a.dtype, .rank = b.rank > 2 ? b.rank - 2 : 0};
    memcpy(batch.shape, a.shape, sizeof(int64_t) * batch.rank);
    memcpy(other.shape, b.shape, sizeof(int64_t) * other.rank);
    TN_TRY(tn_infer_broadcast(infer, &batch, &other));
    *out = batch;
    if (a.rank > 1)
        out->shape[out->rank++] = a.shape[a.rank - 2];
    if (b.rank > 1)
        out->shape[out->rank++] = b.shape[b.rank - 1];
    return TENON_OK;
}

tenon_status tn_infer_outer(tn_infer *infer) {
    tn_meta a, b, *out = &infer->out[0];
    if (!tn_infer_in(infer, 0, &a) || !tn_infer_in(infer, 1, &b))
        return tn_infer_fail(infer, "needs two tensors");
    TN_TRY(need_rank(infer, &a, 1, &b, 1));
    out->dtype = tn_result_type(infer->node, 0, 1);
    out->rank = 2;
    out->shape[0] = a.shape[0];
    out->shape[1] = b.shape[0];
    return TENON_OK;
}

/* The product over the last dimensions; with a tensor of rank 0, the plain product. */
tenon_status tn_infer_inner(tn_infer *infer) {
    tn_meta a, b, *out = &infer->out[0];
    if (!tn_infer_in(infer, 0, &a) || !tn_infer_in(infer, 1, &b))
        return tn_infer_fail(infer, "needs two tensors");
    if (a.rank == 0 || b.rank == 0) {
        *out = a.rank == 0 ? b : a;
        out->dtype = tn_result_type(infer->node, 0, 1);
        return TENON_OK;
    }
    TN_TRY(operands(infer, 0, &a, &b));
    TN_TRY(need_equal(infer, a.shape[a.rank - 1], b.shape[b.rank - 1]));
    if (a.rank + b.rank - 2 > TENON_MAX_RANK)
        return tn_infer_fail(infer, "would have more than %d dimensions", TENON_MAX_RANK);
    *out = a;
    out->rank--;
    for (int i = 0; i < b.rank - 1; i++)
        out->shape[out->rank++] = b.shape[i];
    return TENON_OK;
}

/* Marks the contracted dimensions. */
static tenon_status contracted(tn_infer *infer, int index, const tn_meta *meta, int *dims,
                               int *count, bool *mark) {
    int64_t list[TENON_MAX_RANK];
    *count = tn_arg_ints(infer->node, index, list, TENON_MAX_RANK);
    if (*count < 0)
        return tn_infer_fail(infer, "needs lists of at most %d dimensions", TENON_MAX_RANK);
    for (int i = 0; i < *count; i++) {
        TN_TRY(tn_infer_dim(infer, list[i], meta->rank, &dims[i]));
        if (dims[i] >= meta->rank || mark[dims[i]])
            return tn_infer_fail(infer, "names dimension %d more than once", dims[i]);
        mark[dims[i]] = true;
    }
    return TENON_OK;
}

tenon_status tn_infer_tensordot(tn_infer *infer) {
    tn_meta a, b, *out = &infer->out[0];
    int dims_a[TENON_MAX_RANK], dims_b[TENON_MAX_RANK], count_a, count_b;
    bool mark_a[TENON_MAX_RANK] = {0}, mark_b[TENON_MAX_RANK] = {0};
    TN_TRY(operands(infer, 0, &a, &b));
    TN_TRY(contracted(infer, 2, &a, dims_a, &count_a, mark_a));
    TN_TRY(contracted(infer, 3, &b, dims_b, &count_b, mark_b));
    if (count_a != count_b)
        return tn_infer_fail(infer, "needs two lists of one length");
    for (int i = 0; i < count_a; i++) {
        int64_t x = a.shape[dims_a[i]], y = b.shape[dims_b[i]];
        if (x != y && x != 1 && y != 1) /* a size of 1 is summed against the other */
            return tn_infer_fail(infer, "needs equal contracted sizes, not %lld and %lld",
                                 (long long)x, (long long)y);
    }
    if (a.rank + b.rank - 2 * count_a > TENON_MAX_RANK)
        return tn_infer_fail(infer, "would have more than %d dimensions", TENON_MAX_RANK);
    out->dtype = a.dtype;
    out->rank = 0;
    for (int i = 0; i < a.rank; i++) {
        if (!mark_a[i])
            out->shape[out->rank++] = a.shape[i];
    }
    for (int i = 0; i < b.rank; i++) {
        if (!mark_b[i])
            out->shape[out->rank++] = b.shape[i];
    }
    return TENON_OK;
}

/* out[..., o] = sum over i, j of input1[..., i] * weight[o, i, j] * input2[..., j] + bias[o] */
tenon_status tn_infer_bilinear(tn_infer *infer) {
    tn_meta x, y, weight, bias, *out = &infer->out[0];
    TN_TRY(operands(infer, 0, &x, &y));
    TN_TRY(operands(infer, 1, &y, &weight));
    if (weight.rank != 3 || x.rank != y.rank || x.rank < 1 ||
        memcmp(x.shape, y.shape, sizeof(int64_t) * (x.rank - 1)) != 0)
        return tn_infer_fail(infer, "needs inputs of one shape but for the last size, and a weight "
                                    "of rank 3");
    TN_TRY(need_equal(infer, x.shape[x.rank - 1], weight.shape[1]));
    TN_TRY(need_equal(infer, y.shape[y.rank - 1], weight.shape[2]));
    if (tn_infer_in(infer, 3, &bias) && (bias.rank != 1 || bias.shape[0] != weight.shape[0]))
        return tn_infer_fail(infer, "needs a bias of shape [%lld]", (long long)weight.shape[0]);
    *out = x;
    out->shape[x.rank - 1] = weight.shape[0];
    return TENON_OK;
}

tenon_status tn_infer_cdist(tn_infer *infer) {
    tn_meta a, b, *out = &infer->out[0];
    TN_TRY(operands(infer, 0, &a, &b));
    if (a.rank < 2 || b.rank < 2)
        return tn_infer_fail(infer, "needs tensors of rank 2 at least");
    if (a.shape[a.rank - 1] != b.shape[b.rank - 1])
        return tn_infer_fail(infer, "needs equal last sizes, not %lld and %lld",
                             (long long)a.shape[a.rank - 1], (long long)b.shape[b.rank - 1]);
    if (!(tn_arg_float(infer->node, 2, 2) >= 0))
        return tn_infer_fail(infer, "needs p of at least 0");
    tn_meta batch = a, other = b;
    batch.rank -= 2;
    other.rank -= 2;
    TN_TRY(tn_infer_broadcast(infer, &batch, &other));
    *out = batch;
    out->shape[out->rank++] = a.shape[a.rank - 2];
    out->shape[out->rank++] = b.shape[b.rank - 2];
    return TENON_OK;
}

/* The distances between all pairs of rows. */
tenon_status tn_infer_pdist(tn_infer *infer) {
    tn_meta in, *out = &infer->out[0];
    if (!tn_infer_in(infer, 0, &in) || in.rank != 2 || !tn_dtype_is_float(in.dtype))
        return tn_infer_fail(infer, "needs a floating-point matrix");
    if (!(tn_arg_float(infer->node, 1, 2) >= 0))
        return tn_infer_fail(infer, "needs p of at least 0");
    int64_t n = in.shape[0], even = n & 1 ? (n - 1) / 2 : n / 2, pairs;
    if (!tn_mul(even, n & 1 ? n : n - 1, &pairs))
        return tn_infer_fail(infer, "has too many pairs");
    *out = (tn_meta){in.dtype, 1, {n > 0 ? pairs : 0}};
    return TENON_OK;
}

/* The weight is packed (core/packed.h). */
tenon_status tn_infer_packed_linear(tn_infer *infer) {
    tn_meta in, weight, bias, residual, *out = &infer->out[0];
    tn_activation activation;
    int64_t columns = tn_arg_int(infer->node, 4, 0);
    if (!tn_infer_in(infer, 0, &in) || !tn_infer_in(infer, 1, &weight) ||
        in.dtype != TENON_FLOAT32 || weight.dtype != TENON_FLOAT32 || in.rank < 1)
        return tn_infer_fail(infer, "needs a float32 input and weight");
    if (columns < 1 || weight.rank != 3 || weight.shape[0] != tn_packed_panels(columns) ||
        weight.shape[1] != in.shape[in.rank - 1] || weight.shape[2] != TN_PANEL)
        return tn_infer_fail(infer, "needs a weight of shape [panels, %lld, %d]",
                             (long long)in.shape[in.rank - 1], TN_PANEL);
    if (!tn_activation_read(infer->node, 6, &activation))
        return tn_infer_fail(infer, "has no activation \"%s\"", tn_arg_string(infer->node, 6));
    *out = in;
    out->shape[in.rank - 1] = columns;
    if (tn_infer_in(infer, 2, &bias) &&
        (bias.dtype != TENON_FLOAT32 || bias.rank != 1 || bias.shape[0] != columns))
        return tn_infer_fail(infer, "needs a float32 bias of %lld numbers", (long long)columns);
    if (tn_infer_in(infer, 3, &residual) &&
        (residual.dtype != TENON_FLOAT32 || residual.rank != out->rank ||
         memcmp(residual.shape, out->shape, (size_t)out->rank * sizeof *out->shape) != 0))
        return tn_infer_fail(infer, "needs a float32 residual of the output's shape");
    return TENON_OK;
}
