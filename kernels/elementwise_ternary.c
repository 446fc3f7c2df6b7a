/* Elementwise ops of three tensors, and those of one tensor with two bounds. */
#include "core/infer.h"
#include "kernels/elementwise.h"
#include <math.h>

/* One loop a class. */
#define CLASSES3(name, expression)                           \
    TN_LOOP3(name##_f32, float, float, float, expression)    \
    TN_LOOP3(name##_f64, double, double, double, expression) \
    TN_LOOP3(name##_i64, int64_t, int64_t, int64_t, expression)
#define CLASSES2(name, expression)                   \
    TN_LOOP2(name##_f32, float, float, expression)   \
    TN_LOOP2(name##_f64, double, double, expression) \
    TN_LOOP2(name##_i64, int64_t, int64_t, expression)
#define CLASSES1(name, expression)                   \
    TN_LOOP1(name##_f32, float, float, expression)   \
    TN_LOOP1(name##_f64, double, double, expression) \
    TN_LOOP1(name##_i64, int64_t, int64_t, expression)

TN_LOOP3(where_f32, float, uint8_t, float, x ? y : z)
TN_LOOP3(where_f64, double, uint8_t, double, x ? y : z)
TN_LOOP3(where_i64, int64_t, uint8_t, int64_t, x ? y : z)
TN_LOOP3(where_bool, uint8_t, uint8_t, uint8_t, x ? y : z)

/* NaN wins on either side; of two bounds the wrong way round, the upper one. */
#define MAXIMUM(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define MINIMUM(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
CLASSES3(clamp_both, MINIMUM(MAXIMUM(x, y), z))
CLASSES2(clamp_low, MAXIMUM(x, y))
CLASSES2(clamp_high, MINIMUM(x, y))
/* p0, p1 = the bounds, not NaN */
CLASSES1(clamp, ((x) < p0 ? p0 : (x)) > p1 ? p1 : (x) < p0 ? p0 : (x))
CLASSES1(all_p0, p0)

/* p0 = value */
TN_LOOP3(addcmul_f32, float, float, float, x + p0 * y * z)
TN_LOOP3(addcmul_f64, double, double, double, x + p0 * y * z)
TN_LOOP3(addcmul_i64, uint64_t, uint64_t, uint64_t, x + (uint64_t)p->i[0] * y * z)
TN_LOOP3(addcdiv_f32, float, float, float, x + p0 * y / z)
TN_LOOP3(addcdiv_f64, double, double, double, x + p0 * y / z)

/* From the end that is nearer, so that weight 1 gives `end` exactly. */
#define LERP(absolute) (absolute(z) < 0.5f ? x + z * (y - x) : y - (y - x) * (1 - z))
TN_LOOP3(lerp_f32, float, float, float, LERP(fabsf))
TN_LOOP3(lerp_f64, double, double, double, LERP(fabs))
TN_LOOP2(prelu_f32, float, float, x > 0 ? x : x * y)
TN_LOOP2(prelu_f64, double, double, x > 0 ? x : x * y)

#define PICK(class, name) \
    ((class) == TN_CLASS_F32 ? name##_f32 : (class) == TN_CLASS_F64 ? name##_f64 : name##_i64)

static tenon_status where(tn_call *call, const tenon_view *condition, const tenon_view *yes,
                          const tenon_view *no) {
    const tenon_view *out = &call->out[0];
    tn_class class = out->dtype == TENON_BOOL ? TN_CLASS_BOOL : tn_class_of(out->dtype);
    tn_elem elem = {.in_count = 3, .cost = 1, .out_class = class};
    tn_elem_classes(&elem, out->dtype, class);
    elem.in_class[0] = TN_CLASS_BOOL;
    elem.via[0] = TENON_DTYPE_NONE;
    elem.fn = class == TN_CLASS_BOOL ? where_bool : PICK(class, where);
    tenon_view in[3] = {*condition, *yes, *no};
    return TN_K(elementwise)(call, &elem, out, in);
}

/* A bound that is an integer, as an element of the dtype: uint8's -1 is 255. */
static int64_t bound(const tenon_node *node, int index, tenon_dtype dtype, int64_t none) {
    int64_t element = 0;
    if (index < 0 || tn_arg_is_none(node, index))
        return none;
    tn_store_int(&element, dtype, tn_arg_int(node, index, none));
    return tn_load_int(&element, dtype);
}

/* Bounds that are numbers. */
static tenon_status clamp_numbers(tn_call *call, int low, int high) {
    const tenon_view *out = &call->out[0];
    const tenon_node *node = call->node;
    tn_class class = tn_class_of(out->dtype);
    tn_elem elem = {.in_count = 1, .cost = 1, .out_class = class, .fn = PICK(class, clamp)};
    tn_elem_numbers *p = &elem.numbers;
    p->f[0] = low < 0 ? -INFINITY : tn_arg_float(node, low, -INFINITY);
    p->f[1] = high < 0 ? INFINITY : tn_arg_float(node, high, INFINITY);
    if (class == TN_CLASS_I64) {
        p->i[0] = bound(node, low, out->dtype, INT64_MIN);
        p->i[1] = bound(node, high, out->dtype, INT64_MAX);
    }
    if (class != TN_CLASS_I64 && (isnan(p->f[0]) || isnan(p->f[1]))) {
        p->f[0] = NAN;
        elem.fn = PICK(class, all_p0);
    }
    tn_elem_classes(&elem, out->dtype, class);
    tenon_view in = tn_call_operand(call, 0);
    return TN_K(elementwise)(call, &elem, out, &in);
}

/* Bounds that are tensors, or numbers in their place; `low` and `high` are argument indices, or -1.
 */
static tenon_status clamp_tensors(tn_call *call, int low, int high) {
    const tenon_view *out = &call->out[0];
    const tenon_node *node = call->node;
    if (low >= 0 && tn_arg_is_none(node, low))
        low = -1;
    if (high >= 0 && tn_arg_is_none(node, high))
        high = -1;
    tn_class class = tn_class_of(out->dtype);
    tn_elem elem = {.in_count = 1, .cost = 1, .out_class = class};
    tenon_view in[3] = {tn_call_operand(call, 0)};
    if (low >= 0)
        in[elem.in_count++] = tn_call_operand(call, low);
    if (high >= 0)
        in[elem.in_count++] = tn_call_operand(call, high);
    elem.fn = low >= 0 && high >= 0 ? PICK(class, clamp_both)
              : low >= 0            ? PICK(class, clamp_low)
                                    : PICK(class, clamp_high);
    tn_elem_classes(&elem, out->dtype, class);
    return TN_K(elementwise)(call, &elem, out, in);
}

static tenon_status addc(tn_call *call) {
    const tenon_view *out = &call->out[0];
    tn_class class = tn_class_of(out->dtype);
    tn_elem elem = {.in_count = 3, .cost = 2, .out_class = class};
    if (call->node->op->id == TN_OP_addcmul)
        elem.fn = PICK(class, addcmul);
    else
        elem.fn = class == TN_CLASS_F32 ? addcdiv_f32 : addcdiv_f64;
    elem.numbers.f[0] = tn_arg_float(call->node, 3, 1);
    elem.numbers.i[0] = tn_arg_int(call->node, 3, 1);
    tn_elem_classes(&elem, out->dtype, class);
    tenon_view in[3];
    for (int i = 0; i < 3; i++)
        in[i] = tn_call_operand(call, i);
    return TN_K(elementwise)(call, &elem, out, in);
}

static tenon_status lerp(tn_call *call) {
    const tenon_view *out = &call->out[0];
    tn_class class = tn_class_of(out->dtype);
    tn_elem elem = {.in_count = 3, .cost = 3, .out_class = class};
    elem.fn = class == TN_CLASS_F32 ? lerp_f32 : lerp_f64;
    tn_elem_classes(&elem, TENON_DTYPE_NONE, class);
    tenon_view in[3];
    for (int i = 0; i < 3; i++)
        in[i] = tn_call_operand(call, i);
    return TN_K(elementwise)(call, &elem, out, in);
}

/* The weight, one number or one a channel, lies along dimension 1. */
static tenon_status prelu(tn_call *call) {
    const tenon_view *out = &call->out[0];
    tn_class class = tn_class_of(out->dtype);
    tn_elem elem = {.in_count = 2, .cost = 1, .out_class = class};
    elem.fn = class == TN_CLASS_F32 ? prelu_f32 : prelu_f64;
    tn_elem_classes(&elem, TENON_DTYPE_NONE, class);
    const tenon_view *weight = &call->in[1];
    tenon_view in[2] = {call->in[0], *weight};
    in[1].rank = out->rank;
    for (int d = 0; d < out->rank; d++) {
        bool channels = d == 1 && tenon_view_numel(weight) > 1;
        in[1].shape[d] = channels ? out->shape[d] : 1;
        in[1].strides[d] = channels ? weight->strides[weight->rank - 1] : 0;
    }
    return TN_K(elementwise)(call, &elem, out, in);
}

tenon_status TN_K(ternary)(tn_call *call) {
    tenon_view a, b, c;
    switch (call->node->op->id) {
    case TN_OP_where_self:
    case TN_OP_where_ScalarSelf:
    case TN_OP_where_ScalarOther:
    case TN_OP_where_Scalar:
        a = tn_call_operand(call, 0);
        b = tn_call_operand(call, 1);
        c = tn_call_operand(call, 2);
        return where(call, &a, &b, &c);
    case TN_OP_masked_fill_Scalar:
    case TN_OP_masked_fill_Tensor:
        a = tn_call_operand(call, 1);
        b = tn_call_operand(call, 2);
        c = tn_call_operand(call, 0);
        return where(call, &a, &b, &c);
    case TN_OP_clamp:
    case TN_OP_clip:
        return clamp_numbers(call, 1, 2);
    case TN_OP_clamp_min:
        return clamp_numbers(call, 1, -1);
    case TN_OP_clamp_max:
        return clamp_numbers(call, -1, 1);
    case TN_OP_clamp_Tensor:
    case TN_OP_clip_Tensor:
        return clamp_tensors(call, 1, 2);
    case TN_OP_clamp_min_Tensor:
        return clamp_tensors(call, 1, -1);
    case TN_OP_clamp_max_Tensor:
        return clamp_tensors(call, -1, 1);
    case TN_OP_addcmul:
    case TN_OP_addcdiv:
        return addc(call);
    case TN_OP_lerp_Scalar:
    case TN_OP_lerp_Tensor:
        return lerp(call);
    default:
        return prelu(call);
    }
}
