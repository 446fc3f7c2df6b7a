/* Affine quantization, as PyTorch's quantized_decomposed operators define it. */
#include "kernels/elementwise.h"
#include <math.h>

/* p0 = 1 / scale, p1 = zero point, p2 and p3 = the quantized values' range */
TN_LOOP1(quantize, float, float, fminf(fmaxf(rintf(x *p0) + p1, p2), p3))
/* p0 = scale, p1 = zero point */
TN_LOOP1(dequantize, float, float, (x - p1) * p0)
/* x, y and z: the tensor, its scale, its zero point */
TN_LOOP3(quantize_channel, float, float, float, fminf(fmaxf(rintf(x *(1 / y)) + z, p2), p3))
TN_LOOP3(dequantize_channel, float, float, float, (x - z) * y)

tenon_status TN_K(quantize_per_tensor)(tn_call *call) {
    const tenon_node *node = call->node;
    tn_elem elem = {.fn = quantize, .in_count = 1, .cost = 2, .out_class = TN_CLASS_F32};
    tn_elem_classes(&elem, TENON_DTYPE_NONE, TN_CLASS_F32);
    elem.numbers.f[0] = 1 / tn_arg_float(node, 1, 1);
    for (int i = 1; i < 4; i++)
        elem.numbers.f[i] = tn_arg_float(node, i + 1, 0);
    return TN_K(elementwise)(call, &elem, &call->out[0], &call->in[0]);
}

tenon_status TN_K(dequantize_per_tensor)(tn_call *call) {
    const tenon_node *node = call->node;
    tn_elem elem = {.fn = dequantize, .in_count = 1, .cost = 1, .out_class = TN_CLASS_F32};
    tn_elem_classes(&elem, TENON_DTYPE_NONE, TN_CLASS_F32);
    elem.numbers.f[0] = tn_arg_float(node, 1, 1);
    elem.numbers.f[1] = tn_arg_float(node, 2, 0);
    return TN_K(elementwise)(call, &elem, &call->out[0], &call->in[0]);
}

static tenon_status per_channel(tn_call *call, tn_elem_fn fn) {
    const tenon_node *node = call->node;
    int rank = call->out[0].rank;
    int64_t axis = tn_arg_int(node, 3, 0);
    axis += axis < 0 ? rank : 0;
    tn_elem elem = {.fn = fn, .in_count = 3, .cost = 2, .out_class = TN_CLASS_F32};
    tn_elem_classes(&elem, TENON_DTYPE_NONE, TN_CLASS_F32);
    elem.numbers.f[2] = tn_arg_float(node, 4, 0);
    elem.numbers.f[3] = tn_arg_float(node, 5, 0);
    float zero = 0;
    const tenon_view *points = tn_call_in(call, 2);
    tenon_view in[3] = {call->in[0], *tn_call_in(call, 1),
                        tn_view_make(&zero, TENON_FLOAT32, 0, NULL)};
    if (points)
        in[2] = *points;
    for (int i = 1; i < 3; i++) {
        int64_t stride = in[i].rank ? in[i].strides[0] : 0;
        in[i].rank = rank;
        for (int d = 0; d < rank; d++) {
            in[i].shape[d] = d == axis ? call->out[0].shape[d] : 1;
            in[i].strides[d] = d == axis ? stride : 0;
        }
    }
    return TN_K(elementwise)(call, &elem, &call->out[0], in);
}

tenon_status TN_K(quantize_per_channel)(tn_call *call) {
    return per_channel(call, quantize_channel);
}

tenon_status TN_K(dequantize_per_channel)(tn_call *call) {
    return per_channel(call, dequantize_channel);
}
