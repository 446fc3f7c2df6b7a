/* Shape rules of ops that make tensors. */
#include "core/infer.h"
#include <math.h>

/* The dtype that argument "dtype" gives, or `other`. */
static tenon_dtype dtype_or(const tn_infer *infer, tenon_dtype other) {
    int param = tn_op_param(infer->op, "dtype");
    if (param < 0 || tn_arg_is_none(infer->node, param))
        return other;
    return tn_arg_dtype(infer->node, param);
}

static tenon_status sized(tn_infer *infer, int arg) {
    tn_meta *out = &infer->out[0];
    out->rank = tn_arg_ints(infer->node, arg, out->shape, TENON_MAX_RANK);
    if (out->rank < 0)
        return tn_infer_fail(infer, "needs at most %d sizes", TENON_MAX_RANK);
    for (int d = 0; d < out->rank; d++)
        if (out->shape[d] < 0)
            return tn_infer_fail(infer, "size %lld is negative", (long long)out->shape[d]);
    return TENON_OK;
}

/* The dtype of a literal: what PyTorch infers a tensor of it to be. */
static tenon_dtype literal_dtype(const tn_infer *infer, int arg) {
    switch (infer->node->args[arg].kind) {
    case TENON_ARG_BOOL:
        return TENON_BOOL;
    case TENON_ARG_INT:
        return TENON_INT64;
    default:
        return TENON_FLOAT32;
    }
}

/* full, zeros, ones, empty */
tenon_status tn_infer_create(tn_infer *infer) {
    TN_TRY(sized(infer, 0));
    bool full = infer->op->id == TN_OP_full;
    infer->out[0].dtype = dtype_or(infer, full ? literal_dtype(infer, 1) : TENON_FLOAT32);
    return TENON_OK;
}

/* new_full and its like: self's dtype */
tenon_status tn_infer_create_new(tn_infer *infer) {
    tn_meta self;
    tn_infer_in(infer, 0, &self);
    TN_TRY(sized(infer, 1));
    infer->out[0].dtype = dtype_or(infer, self.dtype);
    return TENON_OK;
}

tenon_status tn_infer_scalar_tensor(tn_infer *infer) {
    infer->out[0].dtype = dtype_or(infer, TENON_FLOAT32);
    return TENON_OK;
}

static double number(const tn_infer *infer, int arg) {
    return tn_arg_float(infer->node, arg, 0);
}

static bool whole_numbers(const tn_infer *infer, int count) {
    for (int i = 0; i < count; i++)
        if (literal_dtype(infer, i) == TENON_FLOAT32)
            return false;
    return true;
}

/* ceil((end - start) / step) elements: exactly for integers, in double otherwise, as PyTorch counts
 * them. */
static tenon_status arange_length(tn_infer *infer, int start, int end, int step, bool exact,
                                  int64_t *length) {
    const tenon_node *node = infer->node;
    double from = start < 0 ? 0 : number(infer, start), to = number(infer, end);
    double by = step < 0 ? 1 : number(infer, step);
    if (by == 0 || !isfinite(from) || !isfinite(to) || isnan(by))
        return tn_infer_fail(infer, "needs finite ends and a step other than 0");
    if ((by > 0 && from > to) || (by < 0 && from < to))
        return tn_infer_fail(infer, "goes from %g to %g by %g", from, to, by);
    double count = ceil((to - from) / by);
    if (count >= 0x1p62)
        return tn_infer_fail(infer, "has too many elements");
    *length = (int64_t)count;
    if (exact) {
        int64_t a = start < 0 ? 0 : tn_arg_int(node, start, 0), b = tn_arg_int(node, end, 0);
        int64_t s = step < 0 ? 1 : tn_arg_int(node, step, 1), distance;
        if (__builtin_sub_overflow(b, a, &distance) || s == 0 || s == INT64_MIN)
            return tn_infer_fail(infer, "has too many elements");
        *length = distance / s + (distance % s != 0);
    }
    return TENON_OK;
}

tenon_status tn_infer_arange(tn_infer *infer) {
    int id = infer->op->id;
    int start = id == TN_OP_arange ? -1 : 0, end = id == TN_OP_arange ? 0 : 1;
    int step = id == TN_OP_arange_start_step ? 2 : -1;
    bool whole = whole_numbers(infer, id == TN_OP_arange ? 1 : step < 0 ? 2 : 3);
    tn_meta *out = &infer->out[0];
    out->dtype = dtype_or(infer, whole ? TENON_INT64 : TENON_FLOAT32);
    out->rank = 1;
    return arange_length(infer, start, end, step, out->dtype == TENON_INT64, &out->shape[0]);
}

tenon_status tn_infer_linspace(tn_infer *infer) {
    tn_meta *out = &infer->out[0];
    out->dtype = dtype_or(infer, TENON_FLOAT32);
    out->rank = 1;
    out->shape[0] = tn_arg_int(infer->node, 2, 0);
    if (out->shape[0] < 0)
        return tn_infer_fail(infer, "needs a number of steps of at least 0");
    return TENON_OK;
}

tenon_status tn_infer_eye(tn_infer *infer) {
    tn_meta *out = &infer->out[0];
    out->dtype = dtype_or(infer, TENON_FLOAT32);
    out->rank = 2;
    out->shape[0] = tn_arg_int(infer->node, 0, 0);
    out->shape[1] = infer->op->id == TN_OP_eye ? out->shape[0] : tn_arg_int(infer->node, 1, 0);
    if (out->shape[0] < 0 || out->shape[1] < 0)
        return tn_infer_fail(infer, "needs sizes of at least 0");
    return TENON_OK;
}

tenon_status tn_infer_tri(tn_infer *infer) {
    tn_infer_in(infer, 0, &infer->out[0]);
    if (infer->out[0].rank < 2)
        return tn_infer_fail(infer, "needs at least 2 dimensions");
    return TENON_OK;
}

/* ---- Quantization ---- */

static tenon_status check_axis(tn_infer *infer) {
    int axis;
    tn_meta *out = &infer->out[0], parameter;
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 3, 0), out->rank, &axis));
    for (int i = 1; i <= 2; i++) {
        if (tn_infer_in(infer, i, &parameter) &&
            (out->rank < 1 || parameter.rank != 1 || parameter.shape[0] != out->shape[axis]))
            return tn_infer_fail(infer, "needs one scale and zero point for each index of axis %d",
                                 axis);
    }
    return TENON_OK;
}

tenon_status tn_infer_quantize(tn_infer *infer) {
    tn_meta *out = &infer->out[0];
    tn_infer_in(infer, 0, out);
    if (!tn_dtype_is_float(out->dtype))
        return tn_infer_fail(infer, "needs a floating-point tensor");
    if (infer->op->id == TN_OP_quantize_per_channel)
        TN_TRY(check_axis(infer));
    out->dtype = dtype_or(infer, TENON_UINT8);
    if (!tn_dtype_is_integer(out->dtype))
        return tn_infer_fail(infer, "quantizes to integers, not %s", tenon_dtype_text(out->dtype));
    return TENON_OK;
}

tenon_status tn_infer_dequantize(tn_infer *infer) {
    tn_meta *out = &infer->out[0];
    tn_infer_in(infer, 0, out);
    if (!tn_dtype_is_integer(out->dtype))
        return tn_infer_fail(infer, "needs an integer tensor");
    if (infer->op->id == TN_OP_dequantize_per_channel)
        TN_TRY(check_axis(infer));
    int param = tn_op_param(infer->op, "out_dtype");
    out->dtype =
        tn_arg_is_none(infer->node, param) ? TENON_FLOAT32 : tn_arg_dtype(infer->node, param);
    return TENON_OK;
}
