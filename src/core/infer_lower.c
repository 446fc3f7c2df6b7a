/* Shape rules of the ops that passes rewrite into others. */
#include "core/infer.h"
#include <string.h>

/* The first argument's dtype and shape. */
tenon_status tn_infer_lower_same(tn_infer *infer) {
    if (!tn_infer_in(infer, 0, &infer->out[0]))
        return tn_infer_fail(infer, "needs an input");
    return TENON_OK;
}

/* The same, converted by an argument named "dtype". */
tenon_status tn_infer_lower_dtype(tn_infer *infer) {
    TN_TRY(tn_infer_lower_same(infer));
    int index = tn_op_param(infer->op, "dtype");
    tenon_dtype dtype = tn_arg_dtype(infer->node, index);
    if (dtype != TENON_DTYPE_NONE)
        infer->out[0].dtype = dtype;
    return TENON_OK;
}

/* The same, converted to the second argument's dtype. */
tenon_status tn_infer_lower_dtype_of(tn_infer *infer) {
    tn_meta other;
    TN_TRY(tn_infer_lower_same(infer));
    if (!tn_infer_in(infer, 1, &other))
        return tn_infer_fail(infer, "needs a second tensor");
    infer->out[0].dtype = other.dtype;
    return TENON_OK;
}

/* Result and mask. */
tenon_status tn_infer_lower_dropout(tn_infer *infer) {
    TN_TRY(tn_infer_lower_same(infer));
    infer->out[1] = infer->out[0];
    infer->out[1].dtype = TENON_BOOL;
    return TENON_OK;
}

static tenon_status lower_norm(tn_infer *infer, int channel_dim, int weight) {
    tn_meta part;
    TN_TRY(tn_infer_lower_same(infer));
    if (infer->out[0].rank <= channel_dim)
        return tn_infer_fail(infer, "needs an input of rank %d or more", channel_dim + 1);
    for (int i = weight; i < weight + 2; i++)
        if (tn_infer_in(infer, i, &part) &&
            (part.rank != 1 || part.shape[0] != infer->out[0].shape[channel_dim]))
            return tn_infer_fail(infer, "needs a weight and bias of %lld elements",
                                 (long long)infer->out[0].shape[channel_dim]);
    return TENON_OK;
}

tenon_status tn_infer_lower_batch_norm(tn_infer *infer) {
    return lower_norm(infer, 1, 1);
}

tenon_status tn_infer_lower_group_norm(tn_infer *infer) {
    TN_TRY(lower_norm(infer, 1, 2));
    int64_t groups = tn_arg_int(infer->node, 1, 1), channels = infer->out[0].shape[1];
    if (groups < 1 || channels % groups)
        return tn_infer_fail(infer, "%lld channels are not a multiple of %lld groups",
                             (long long)channels, (long long)groups);
    return TENON_OK;
}

tenon_status tn_infer_lower_layer_norm(tn_infer *infer) {
    int64_t shape[TENON_MAX_RANK];
    TN_TRY(tn_infer_lower_same(infer));
    const tn_meta *x = &infer->out[0];
    int count = tn_arg_ints(infer->node, 1, shape, TENON_MAX_RANK);
    if (count < 1 || count > x->rank ||
        memcmp(shape, x->shape + x->rank - count, (size_t)count * sizeof *shape) != 0)
        return tn_infer_fail(infer, "needs a normalized_shape that is the input's last sizes");
    return TENON_OK;
}

/* All sizes become 1 but that of one dimension; with -1 no dimension stays. */
static tenon_status except_dim(tn_infer *infer, tn_meta *x, int64_t dim) {
    int kept;
    if (dim == -1) {
        x->rank = 0;
        return TENON_OK;
    }
    TN_TRY(tn_infer_dim(infer, dim, x->rank, &kept));
    for (int i = 0; i < x->rank; i++)
        if (i != kept)
            x->shape[i] = 1;
    return TENON_OK;
}

tenon_status tn_infer_lower_norm_except_dim(tn_infer *infer) {
    TN_TRY(tn_infer_lower_same(infer));
    return except_dim(infer, &infer->out[0], tn_arg_int(infer->node, 2, 0));
}

/* The weight, and its norms. */
tenon_status tn_infer_lower_weight_norm(tn_infer *infer) {
    tn_meta g, norms;
    TN_TRY(tn_infer_lower_same(infer));
    if (!tn_infer_in(infer, 1, &g))
        return tn_infer_fail(infer, "needs a magnitude");
    norms = infer->out[0];
    TN_TRY(except_dim(infer, &norms, tn_arg_int(infer->node, 2, 0)));
    if (infer->out_count > 1)
        infer->out[1] = norms;
    return tn_infer_broadcast(infer, &infer->out[0], &g);
}

/* Pairs of amounts, the last dimension first. */
tenon_status tn_infer_lower_pad(tn_infer *infer) {
    int64_t pad[2 * TENON_MAX_RANK];
    TN_TRY(tn_infer_lower_same(infer));
    tn_meta *x = &infer->out[0];
    int count = tn_arg_ints(infer->node, 1, pad, 2 * TENON_MAX_RANK);
    if (count < 0 || count % 2 || count / 2 > x->rank)
        return tn_infer_fail(infer, "needs a pair of amounts for each of at most %d dimensions",
                             x->rank);
    for (int i = 0; i < count / 2; i++) {
        int64_t *size = &x->shape[x->rank - 1 - i];
        if (!tn_add(*size, pad[2 * i], size) || !tn_add(*size, pad[2 * i + 1], size) || *size < 0)
            return tn_infer_fail(infer, "pads dimension %d to a size that is not valid",
                                 x->rank - 1 - i);
    }
    return TENON_OK;
}

tenon_status tn_infer_lower_diff(tn_infer *infer) {
    tn_meta part;
    int dim;
    TN_TRY(tn_infer_lower_same(infer));
    tn_meta *x = &infer->out[0];
    if (x->rank == 0)
        return tn_infer_fail(infer, "needs an input with a dimension");
    int64_t n = tn_arg_int(infer->node, 1, 1);
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 2, -1), x->rank, &dim));
    if (n < 0)
        return tn_infer_fail(infer, "needs an order of at least 0");
    for (int i = 3; n > 0 && i < 5; i++) {
        if (!tn_infer_in(infer, i, &part))
            continue;
        if (part.rank != x->rank)
            return tn_infer_fail(infer, "needs tensors of one rank");
        if (!tn_add(x->shape[dim], part.shape[dim], &x->shape[dim]))
            return tn_infer_fail(infer, "dimension %d is too large", dim);
    }
    x->shape[dim] = x->shape[dim] > n ? x->shape[dim] - n : 0;
    return TENON_OK;
}

tenon_status tn_infer_lower_glu(tn_infer *infer) {
    int dim;
    TN_TRY(tn_infer_lower_same(infer));
    tn_meta *x = &infer->out[0];
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, -1), x->rank, &dim));
    if (x->rank == 0 || x->shape[dim] % 2)
        return tn_infer_fail(infer, "needs an even size in dimension %d", dim);
    x->shape[dim] /= 2;
    return TENON_OK;
}

tenon_status tn_infer_lower_rot90(tn_infer *infer) {
    int64_t dims[2];
    int a, b;
    TN_TRY(tn_infer_lower_same(infer));
    tn_meta *x = &infer->out[0];
    if (tn_arg_ints(infer->node, 2, dims, 2) != 2)
        return tn_infer_fail(infer, "needs two dimensions");
    TN_TRY(tn_infer_dim(infer, dims[0], x->rank, &a));
    TN_TRY(tn_infer_dim(infer, dims[1], x->rank, &b));
    if (a == b)
        return tn_infer_fail(infer, "needs two different dimensions");
    if (tn_arg_int(infer->node, 1, 1) % 2) {
        int64_t size = x->shape[a];
        x->shape[a] = x->shape[b];
        x->shape[b] = size;
    }
    return TENON_OK;
}

/* Arguments 0 and 1, broadcast. */
tenon_status tn_infer_lower_broadcast(tn_infer *infer) {
    tn_meta other;
    TN_TRY(tn_infer_lower_same(infer));
    if (!tn_infer_in(infer, 1, &other))
        return tn_infer_fail(infer, "needs two tensors");
    TN_TRY(tn_infer_broadcast(infer, &infer->out[0], &other));
    infer->out[0].dtype = tn_result_type(infer->node, 0, 1);
    return TENON_OK;
}

tenon_status tn_infer_lower_cosine_similarity(tn_infer *infer) {
    int dim;
    TN_TRY(tn_infer_lower_broadcast(infer));
    tn_meta *x = &infer->out[0];
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 2, 1), x->rank, &dim));
    if (x->rank == 0)
        return TENON_OK;
    for (int i = dim; i + 1 < x->rank; i++)
        x->shape[i] = x->shape[i + 1];
    x->rank--;
    return TENON_OK;
}

/* Reduced over a list of dimensions (argument 1; none or an empty one: all), kept as 1 by
 * argument 3. */
tenon_status tn_infer_lower_std_mean(tn_infer *infer) {
    int64_t dims[TENON_MAX_RANK];
    bool gone[TENON_MAX_RANK] = {0};
    TN_TRY(tn_infer_lower_same(infer));
    tn_meta *x = &infer->out[0];
    int count = tn_arg_ints(infer->node, 1, dims, TENON_MAX_RANK), rank = 0;
    bool keep = tn_arg_bool(infer->node, 3);
    if (count < 0)
        return tn_infer_fail(infer, "needs at most %d dimensions", TENON_MAX_RANK);
    for (int i = 0; i < count; i++) {
        int dim;
        TN_TRY(tn_infer_dim(infer, dims[i], x->rank, &dim));
        gone[dim] = true;
    }
    for (int i = 0; i < x->rank; i++) {
        if (count && !gone[i])
            x->shape[rank++] = x->shape[i];
        else if (keep)
            x->shape[rank++] = 1;
    }
    x->rank = rank;
    infer->out[1] = *x;
    return TENON_OK;
}

/* cat of tensors with at least `least` dimensions, along the second dimension where there is one if
 * `across`, else the first. */
static tenon_status lower_stack(tn_infer *infer, int least, bool across) {
    tn_meta *out = &infer->out[0], part;
    int count = tn_infer_length(infer, 0);
    for (int i = 0; i < count; i++) {
        if (!tn_infer_item(infer, 0, i, &part))
            return tn_infer_fail(infer, "needs tensors");
        while (part.rank < least) {
            memmove(part.shape + 1, part.shape, (size_t)part.rank * sizeof *part.shape);
            part.shape[0] = 1;
            part.rank++;
        }
        int dim = across && part.rank > 1;
        if (i == 0) {
            *out = part;
            continue;
        }
        if (part.rank != out->rank)
            return tn_infer_fail(infer, "needs tensors of one rank");
        for (int k = 0; k < part.rank; k++)
            if (k != dim && part.shape[k] != out->shape[k])
                return tn_infer_fail(infer, "needs equal sizes in dimension %d", k);
        if (!tn_add(out->shape[dim], part.shape[dim], &out->shape[dim]))
            return tn_infer_fail(infer, "dimension %d is too large", dim);
        out->dtype = tn_promote(out->dtype, part.dtype);
    }
    return count ? TENON_OK : tn_infer_fail(infer, "needs at least one tensor");
}

tenon_status tn_infer_lower_hstack(tn_infer *infer) {
    return lower_stack(infer, 1, true);
}

tenon_status tn_infer_lower_vstack(tn_infer *infer) {
    return lower_stack(infer, 2, false);
}

tenon_status tn_infer_lower_broadcast_tensors(tn_infer *infer) {
    tn_meta shape = {0}, part;
    int count = tn_infer_length(infer, 0);
    for (int i = 0; i < count; i++) {
        if (!tn_infer_item(infer, 0, i, &part))
            return tn_infer_fail(infer, "needs tensors");
        TN_TRY(tn_infer_broadcast(infer, &shape, &part));
    }
    TN_TRY(tn_infer_list(infer, count));
    for (int i = 0; i < count; i++) {
        tn_infer_item(infer, 0, i, &part);
        infer->out[i] = shape;
        infer->out[i].dtype = part.dtype;
    }
    return TENON_OK;
}
