/* Shape rules of reductions, scans, softmax and sorting. */
#include "core/infer.h"
#include "core/rules.h"
#include <string.h>

tenon_status tn_need_tensor(const tn_infer *infer, int index, tn_meta *meta) {
    if (infer->node->args[index].kind != TENON_ARG_VALUE)
        return tn_infer_fail(infer, "argument '%s' must be a tensor",
                             infer->op->params[index].name);
    tn_infer_in(infer, index, meta);
    return TENON_OK;
}

tenon_status tn_need_float(const tn_infer *infer, tenon_dtype dtype) {
    if (!tn_dtype_is_float(dtype))
        return tn_infer_fail(infer, "needs a floating-point dtype, not %s",
                             tenon_dtype_text(dtype));
    return TENON_OK;
}

/* Checks the dimensions of argument `index`, then gives them as a mask. */
static tenon_status get_mask(tn_infer *infer, int index, int rank, bool empty_is_all,
                             uint32_t *mask) {
    int64_t dims[TENON_MAX_RANK];
    uint32_t seen = 0;
    int count = tn_arg_ints(infer->node, index, dims, TENON_MAX_RANK);
    if (count < 0)
        return tn_infer_fail(infer, "'dim' has more than %d dimensions", TENON_MAX_RANK);
    for (int i = 0; i < count; i++) {
        int d;
        TN_TRY(tn_infer_dim(infer, dims[i], rank, &d));
        if (seen >> d & 1)
            return tn_infer_fail(infer, "dimension %d appears twice in 'dim'", d);
        seen |= 1u << d;
    }
    *mask = tn_reduce_mask(infer->node, index, rank, empty_is_all);
    return TENON_OK;
}

/* The shape of `in` without the dimensions of the mask, or with sizes of 1 in their place. */
static void reduce_shape(tn_meta *out, const tn_meta *in, uint32_t mask, bool keep) {
    out->rank = 0;
    for (int d = 0; d < in->rank; d++) {
        if (!(mask >> d & 1))
            out->shape[out->rank++] = in->shape[d];
        else if (keep)
            out->shape[out->rank++] = 1;
    }
}

static bool keeps(const tn_infer *infer) {
    int i = tn_op_param(infer->op, "keepdim");
    return i >= 0 && tn_arg_bool(infer->node, i);
}

/* Results that have no meaning without elements. */
static tenon_status need_elements(const tn_infer *infer, const tn_meta *in, uint32_t mask) {
    for (int d = 0; d < in->rank; d++) {
        if ((mask >> d & 1) && in->shape[d] == 0)
            return tn_infer_fail(infer, "dimension %d, which it reduces, has size 0", d);
    }
    return TENON_OK;
}

static tenon_status need_order(const tn_infer *infer, tenon_dtype dtype) {
    if (dtype == TENON_UINT64)
        return tn_infer_fail(infer, "needs a dtype other than uint64");
    return TENON_OK;
}

static tenon_dtype sum_dtype(const tn_infer *infer, tenon_dtype in) {
    int i = tn_op_param(infer->op, "dtype");
    tenon_dtype given = i < 0 ? TENON_DTYPE_NONE : tn_arg_dtype(infer->node, i);
    if (given != TENON_DTYPE_NONE)
        return given;
    return tn_dtype_is_float(in) ? in : TENON_INT64;
}

tenon_status tn_infer_reduce(tn_infer *infer) {
    tn_meta in, *out = &infer->out[0];
    uint32_t mask;
    bool empty_is_all = true;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    int dim = tn_op_param(infer->op, "dim"), dtype = tn_op_param(infer->op, "dtype");
    out->dtype = in.dtype;
    switch (infer->op->id) {
    case TN_OP_any:
    case TN_OP_any_dim:
    case TN_OP_any_dims:
    case TN_OP_all:
    case TN_OP_all_dim:
    case TN_OP_all_dims:
        out->dtype = in.dtype == TENON_UINT8 ? TENON_UINT8 : TENON_BOOL;
        empty_is_all = false;
        break;
    case TN_OP_count_nonzero:
    case TN_OP_count_nonzero_dim_IntList:
        out->dtype = TENON_INT64;
        break;
    case TN_OP_logsumexp:
        out->dtype = tn_dtype_is_float(in.dtype) ? in.dtype : TENON_FLOAT32;
        break;
    case TN_OP_sum:
    case TN_OP_nansum:
    case TN_OP_sum_dim_IntList:
    case TN_OP_prod:
    case TN_OP_prod_dim_int:
        out->dtype = sum_dtype(infer, in.dtype);
        break;
    case TN_OP_max:
    case TN_OP_min:
    case TN_OP_amax:
    case TN_OP_amin:
        TN_TRY(need_order(infer, in.dtype));
        break;
    case TN_OP_median:
    case TN_OP_nanmedian:
        if (in.dtype == TENON_BOOL)
            return tn_infer_fail(infer, "needs numbers");
        TN_TRY(need_order(infer, in.dtype));
        break;
    case TN_OP_linalg_vector_norm:
        TN_TRY(tn_need_float(infer, in.dtype));
        /* fallthrough */
    default: /* means, variances and norms */
        if (dtype >= 0 && !tn_arg_is_none(infer->node, dtype))
            out->dtype = tn_arg_dtype(infer->node, dtype);
        TN_TRY(tn_need_float(infer, out->dtype));
    }
    if (dim < 0)
        mask = (1u << in.rank) - 1;
    else
        TN_TRY(get_mask(infer, dim, in.rank, empty_is_all, &mask));
    if (infer->op->id == TN_OP_max || infer->op->id == TN_OP_min || infer->op->id == TN_OP_amax ||
        infer->op->id == TN_OP_amin)
        TN_TRY(need_elements(infer, &in, mask));
    if (infer->op->id == TN_OP_linalg_vector_norm) {
        double p = tn_arg_float(infer->node, 1, 2);
        if (p < 0 || p - p != 0) /* negative or infinite */
            TN_TRY(need_elements(infer, &in, mask));
    }
    reduce_shape(out, &in, mask, keeps(infer));
    if (infer->out_count > 1)
        infer->out[1] = *out;
    return TENON_OK;
}

/* kthvalue: k counts from 1. */
static tenon_status need_place(const tn_infer *infer, const tn_meta *in, uint32_t mask) {
    int64_t k = tn_arg_int(infer->node, 1, 0), size = 1;
    for (int d = 0; d < in->rank; d++)
        if (mask >> d & 1)
            size = in->shape[d];
    if (k < 1 || k > size)
        return tn_infer_fail(infer, "k = %lld is not in 1..%lld", (long long)k, (long long)size);
    return TENON_OK;
}

tenon_status tn_infer_reduce_arg(tn_infer *infer) {
    tn_meta in, out;
    uint32_t mask;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(need_order(infer, in.dtype));
    TN_TRY(get_mask(infer, tn_op_param(infer->op, "dim"), in.rank, true, &mask));
    TN_TRY(need_elements(infer, &in, mask));
    if (infer->op->id == TN_OP_kthvalue)
        TN_TRY(need_place(infer, &in, mask));
    reduce_shape(&out, &in, mask, keeps(infer));
    out.dtype = in.dtype;
    for (int i = 0; i < infer->out_count; i++)
        infer->out[i] = out;
    infer->out[infer->out_count - 1].dtype = TENON_INT64;
    return TENON_OK;
}

/* The dimension is argument 1. */
tenon_status tn_infer_scan(tn_infer *infer) {
    tn_meta in;
    int dim;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), in.rank, &dim));
    in.dtype = sum_dtype(infer, in.dtype);
    infer->out[0] = in;
    return TENON_OK;
}

tenon_status tn_infer_softmax(tn_infer *infer) {
    tn_meta in;
    int dim;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(tn_need_float(infer, in.dtype));
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), in.rank, &dim));
    if (tn_arg_bool(infer->node, 2)) {
        if (in.dtype != TENON_FLOAT16)
            return tn_infer_fail(infer, "half_to_float needs float16, not %s",
                                 tenon_dtype_text(in.dtype));
        in.dtype = TENON_FLOAT32;
    }
    infer->out[0] = in;
    return TENON_OK;
}

/* sort and argsort; the places are the last output. */
tenon_status tn_infer_sort(tn_infer *infer) {
    tn_meta in;
    int dim;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, tn_op_param(infer->op, "dim"), -1), in.rank,
                        &dim));
    for (int i = 0; i < infer->out_count; i++)
        infer->out[i] = in;
    infer->out[infer->out_count - 1].dtype = TENON_INT64;
    return TENON_OK;
}

tenon_status tn_infer_topk(tn_infer *infer) {
    tn_meta in;
    int dim;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 2, -1), in.rank, &dim));
    int64_t k = tn_arg_int(infer->node, 1, 0), size = in.rank ? in.shape[dim] : 1;
    if (k < 0 || k > size)
        return tn_infer_fail(infer, "k = %lld is not in 0..%lld", (long long)k, (long long)size);
    if (in.rank)
        in.shape[dim] = k;
    infer->out[0] = infer->out[1] = in;
    infer->out[1].dtype = TENON_INT64;
    return TENON_OK;
}
