/* Shape rules of elementwise ops, copies and fills. */
#include "core/infer.h"
#include <string.h>

static tenon_status needs(const tn_infer *infer, const char *what, tenon_dtype dtype) {
    return tn_infer_fail(infer, "needs %s, not %s", what, tenon_dtype_text(dtype));
}

/* ---- One tensor ---- */

static bool rounds(int id) {
    return id == TN_OP_ceil || id == TN_OP_floor || id == TN_OP_round || id == TN_OP_trunc ||
           id == TN_OP_fix;
}

/* The input's dtype. */
tenon_status tn_infer_unary_same(tn_infer *infer) {
    int id = infer->op->id;
    tn_meta *out = &infer->out[0];
    tn_infer_in(infer, 0, out);
    if (id == TN_OP_square && out->dtype == TENON_BOOL)
        out->dtype = TENON_INT64; /* pow(self, 2) */
    else if (id == TN_OP_bitwise_not && tn_dtype_is_float(out->dtype))
        return needs(infer, "an integer or bool tensor", out->dtype);
    else if (out->dtype == TENON_BOOL &&
             (id == TN_OP_abs || id == TN_OP_absolute || id == TN_OP_neg || id == TN_OP_negative ||
              id == TN_OP_relu || id == TN_OP_hardtanh || id == TN_OP_threshold || rounds(id)))
        return needs(infer, "a numeric tensor", out->dtype);
    return TENON_OK;
}

/* Integers give float32. */
tenon_status tn_infer_unary_float(tn_infer *infer) {
    tn_infer_in(infer, 0, &infer->out[0]);
    if (!tn_dtype_is_float(infer->out[0].dtype))
        infer->out[0].dtype = TENON_FLOAT32;
    return TENON_OK;
}

/* Floats only. */
tenon_status tn_infer_unary_floating(tn_infer *infer) {
    tn_infer_in(infer, 0, &infer->out[0]);
    if (!tn_dtype_is_float(infer->out[0].dtype))
        return needs(infer, "a floating-point tensor", infer->out[0].dtype);
    if (infer->op->id == TN_OP_gelu) {
        const char *form = tn_arg_string(infer->node, 1);
        if (strcmp(form, "none") != 0 && strcmp(form, "tanh") != 0)
            return tn_infer_fail(infer, "approximate is '%s', not 'none' or 'tanh'", form);
    }
    if (infer->op->id == TN_OP_softshrink && tn_arg_float(infer->node, 1, 0.5) < 0)
        return tn_infer_fail(infer, "lambd is below 0");
    return TENON_OK;
}

tenon_status tn_infer_unary_bool(tn_infer *infer) {
    tn_infer_in(infer, 0, &infer->out[0]);
    infer->out[0].dtype = TENON_BOOL;
    return TENON_OK;
}

/* ---- Two tensors ---- */

/* Broadcasts arguments first..last, of which some may be None, into output 0, and sets their result
 * type. */
static tenon_status broadcast(tn_infer *infer, int first, int last) {
    tn_meta *out = &infer->out[0], meta;
    for (int i = first; i <= last; i++) {
        if (tn_infer_in(infer, i, &meta))
            TN_TRY(tn_infer_broadcast(infer, out, &meta));
    }
    out->dtype = tn_result_type(infer->node, first, last);
    return TENON_OK;
}

static bool is_bool_arg(const tn_infer *infer, int index) {
    tn_meta meta;
    return infer->node->args[index].kind == TENON_ARG_BOOL ||
           (tn_infer_in(infer, index, &meta) && meta.dtype == TENON_BOOL);
}

static bool is_float_arg(const tn_infer *infer, int index) {
    return infer->node->args[index].kind == TENON_ARG_FLOAT;
}

tenon_status tn_infer_arithmetic(tn_infer *infer) {
    TN_TRY(broadcast(infer, 0, 1));
    tenon_dtype dtype = infer->out[0].dtype;
    bool alpha = false;
    switch (infer->op->id) {
    case TN_OP_add_Tensor:
    case TN_OP_add_Scalar:
        alpha = true;
        break;
    case TN_OP_sub_Tensor:
    case TN_OP_sub_Scalar:
    case TN_OP_subtract_Tensor:
    case TN_OP_subtract_Scalar:
    case TN_OP_rsub_Tensor:
    case TN_OP_rsub_Scalar:
        alpha = true;
        if (is_bool_arg(infer, 0) || is_bool_arg(infer, 1))
            return needs(infer, "numbers (logical_xor subtracts truth values)", TENON_BOOL);
        break;
    case TN_OP_mul_Tensor:
    case TN_OP_mul_Scalar:
    case TN_OP_multiply_Tensor:
    case TN_OP_multiply_Scalar:
    case TN_OP_fmax:
    case TN_OP_fmin:
    case TN_OP_heaviside:
    case TN_OP_maximum:
    case TN_OP_max_other:
    case TN_OP_minimum:
    case TN_OP_min_other:
        break;
    case TN_OP_nextafter:
    case TN_OP_hypot:
        if (!tn_dtype_is_float(dtype))
            return needs(infer, "floating-point tensors", dtype);
        break;
    case TN_OP_pow_Tensor_Scalar:
        if (!tn_dtype_is_float(dtype) && tn_arg_int(infer->node, 1, 0) < 0)
            return tn_infer_fail(infer, "an integer to a negative integer power is no integer");
        if (is_bool_arg(infer, 1))
            break;
        /* fall through */
    default:
        if (dtype == TENON_BOOL)
            return needs(infer, "numbers", dtype);
    }
    if (alpha && !tn_dtype_is_float(dtype) && is_float_arg(infer, 2))
        return tn_infer_fail(infer, "alpha is a float, the result %s", tenon_dtype_text(dtype));
    return TENON_OK;
}

/* Integers give float32. */
tenon_status tn_infer_divide(tn_infer *infer) {
    TN_TRY(broadcast(infer, 0, 1));
    if (!tn_dtype_is_float(infer->out[0].dtype))
        infer->out[0].dtype = TENON_FLOAT32;
    return TENON_OK;
}

tenon_status tn_infer_divide_mode(tn_infer *infer) {
    const char *mode = tn_arg_string(infer->node, 2);
    if (!mode)
        return tn_infer_divide(infer);
    if (strcmp(mode, "trunc") != 0 && strcmp(mode, "floor") != 0)
        return tn_infer_fail(infer, "rounding_mode is '%s', not 'trunc' or 'floor'", mode);
    return tn_infer_arithmetic(infer);
}

tenon_status tn_infer_bitwise(tn_infer *infer) {
    TN_TRY(broadcast(infer, 0, 1));
    tenon_dtype dtype = infer->out[0].dtype;
    bool shift = strstr(infer->op->name, "shift") != NULL;
    if (tn_dtype_is_float(dtype) || (shift && dtype == TENON_BOOL))
        return needs(infer, shift ? "integers" : "integers or truth values", dtype);
    return TENON_OK;
}

tenon_status tn_infer_compare(tn_infer *infer) {
    TN_TRY(broadcast(infer, 0, 1));
    infer->out[0].dtype = TENON_BOOL;
    return TENON_OK;
}

/* ---- Three tensors ---- */

tenon_status tn_infer_where(tn_infer *infer) {
    tn_meta condition;
    if (!tn_infer_in(infer, 0, &condition) ||
        (condition.dtype != TENON_BOOL && condition.dtype != TENON_UINT8))
        return needs(infer, "a bool condition", condition.dtype);
    TN_TRY(broadcast(infer, 1, 2));
    return tn_infer_broadcast(infer, &infer->out[0], &condition);
}

/* Bounds of numbers or tensors; arguments 1 and 2, or 1 alone. */
tenon_status tn_infer_clamp(tn_infer *infer) {
    int last = infer->op->param_count - 1;
    bool bounded = false;
    for (int i = 1; i <= last; i++)
        bounded = bounded || !tn_arg_is_none(infer->node, i);
    if (!bounded)
        return tn_infer_fail(infer, "needs min, max or both");
    TN_TRY(broadcast(infer, 0, last));
    bool tensors = infer->op->params[1].type == TN_TYPE_TENSOR;
    bool both = last == 2 && !tn_arg_is_none(infer->node, 1) && !tn_arg_is_none(infer->node, 2);
    if (infer->out[0].dtype == TENON_BOOL && (!tensors || both))
        return needs(infer, "numbers", TENON_BOOL);
    return TENON_OK;
}

tenon_status tn_infer_masked_fill(tn_infer *infer) {
    tn_meta *out = &infer->out[0], mask, value;
    tn_infer_in(infer, 0, out);
    if (!tn_infer_in(infer, 1, &mask) || mask.dtype != TENON_BOOL)
        return needs(infer, "a bool mask", mask.dtype);
    if (tn_infer_in(infer, 2, &value) && value.rank != 0)
        return tn_infer_fail(infer, "needs a value without dimensions, not of rank %d", value.rank);
    return tn_infer_broadcast(infer, out, &mask);
}

tenon_status tn_infer_addc(tn_infer *infer) {
    TN_TRY(broadcast(infer, 0, 2));
    tenon_dtype dtype = infer->out[0].dtype;
    if (dtype == TENON_BOOL)
        return needs(infer, "numbers", dtype);
    if (infer->op->id == TN_OP_addcdiv && !tn_dtype_is_float(tn_result_type(infer->node, 1, 2)))
        return needs(infer, "a floating-point quotient", tn_result_type(infer->node, 1, 2));
    return TENON_OK;
}

tenon_status tn_infer_lerp(tn_infer *infer) {
    tn_meta *out = &infer->out[0], end, weight;
    tn_infer_in(infer, 0, out);
    if (!tn_dtype_is_float(out->dtype))
        return needs(infer, "floating-point tensors", out->dtype);
    if (!tn_infer_in(infer, 1, &end) || end.dtype != out->dtype)
        return tn_infer_fail(infer, "needs self and end of one dtype");
    TN_TRY(tn_infer_broadcast(infer, out, &end));
    return tn_infer_in(infer, 2, &weight) ? tn_infer_broadcast(infer, out, &weight) : TENON_OK;
}

tenon_status tn_infer_prelu(tn_infer *infer) {
    tn_meta *out = &infer->out[0], weight;
    tn_infer_in(infer, 0, out);
    if (!tn_dtype_is_float(out->dtype))
        return needs(infer, "floating-point tensors", out->dtype);
    if (!tn_infer_in(infer, 1, &weight) || weight.dtype != out->dtype || weight.rank > 1)
        return tn_infer_fail(infer, "needs a weight of self's dtype and rank 1 at most");
    int64_t channels = out->rank > 1 ? out->shape[1] : 1;
    if (weight.rank == 1 && weight.shape[0] != 1 && weight.shape[0] != channels)
        return tn_infer_fail(infer, "has %lld weights for %lld channels",
                             (long long)weight.shape[0], (long long)channels);
    return TENON_OK;
}

/* ---- Copies and fills ---- */

/* Argument 0's shape and dtype, or the dtype that a `dtype` parameter gives. */
tenon_status tn_infer_like(tn_infer *infer) {
    tn_infer_in(infer, 0, &infer->out[0]);
    int param = tn_op_param(infer->op, "dtype");
    if (param >= 0 && !tn_arg_is_none(infer->node, param))
        infer->out[0].dtype = tn_arg_dtype(infer->node, param);
    return TENON_OK;
}

/* `src`, or `value`, must broadcast to self. */
tenon_status tn_infer_copy_into(tn_infer *infer) {
    tn_meta *out = &infer->out[0], self, from;
    tn_infer_in(infer, 0, out);
    self = *out;
    if (!tn_infer_in(infer, 1, &from))
        return tn_infer_fail(infer, "needs something to copy");
    TN_TRY(tn_infer_broadcast(infer, out, &from));
    bool same = out->rank == self.rank &&
                memcmp(out->shape, self.shape, (size_t)self.rank * sizeof *self.shape) == 0;
    if (!same)
        return tn_infer_fail(infer, "needs a source that broadcasts to self");
    return TENON_OK;
}
