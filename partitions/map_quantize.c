/* Mappings of torch.export's quantization ops (quantized_decomposed). */
#include "partitions/internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* oneDNN saturates to the whole range of int8 or uint8. */
static bool whole_range(tn_builder *b, const tenon_node *node, tenon_dtype dtype, int min) {
    bool whole = dtype == TENON_INT8
                     ? tn_arg_int(node, min, 0) == -128 && tn_arg_int(node, min + 1, 0) == 127
                 : dtype == TENON_UINT8
                     ? tn_arg_int(node, min, 0) == 0 && tn_arg_int(node, min + 1, 0) == 255
                     : false;
    return whole || tn_refuse(b, TENON_REASON_ATTRIBUTE,
                              "oneDNN quantizes to the whole range of int8 or uint8 only");
}

static bool check_layout(tn_builder *b, const tenon_view *in, const tenon_view *out) {
    if (in->rank < 1 || tenon_view_numel(in) == 0 || !tn_view_dense(in) || !tn_same_layout(in, out))
        return tn_refuse(b, TENON_REASON_LAYOUT,
                         "its operand is strided, empty or a single number");
    return true;
}

/* `scales` and `zeros` (may be NULL: all 0) become attributes of the op added last. */
static bool set_scales(tn_builder *b, int axis, int count, const float *scales,
                       const int64_t *zeros) {
    tn_b_set_floats(b, dnnl_graph_op_attr_scales, scales, count);
    if (zeros)
        tn_b_set_ints(b, dnnl_graph_op_attr_zps, zeros, count);
    tn_b_set_string(b, dnnl_graph_op_attr_qtype, axis < 0 ? "per_tensor" : "per_channel");
    if (axis >= 0)
        tn_b_set_int(b, dnnl_graph_op_attr_axis, axis);
    return true;
}

static bool per_tensor(tn_builder *b, tenon_node *node, dnnl_graph_op_kind_t kind) {
    float scale = (float)tn_arg_float(node, 1, 1);
    int64_t zero = tn_arg_int(node, 2, 0);
    if (!(scale > 0))
        return tn_refuse(b, TENON_REASON_ATTRIBUTE, "its scale is not positive");
    tn_b_op(b, kind, tn_b_value(b, tn_arg_value(node, 0)), -1, -1, tn_b_value(b, node->outputs[0]));
    return set_scales(b, -1, 1, &scale, &zero);
}

/* Scales and zero points are constants with an element for each index of dimension `axis`. */
static bool per_channel(tn_builder *b, tenon_node *node, dnnl_graph_op_kind_t kind) {
    const tenon_view *in = tn_b_view(b, node, 0);
    const tenon_view *scales = tn_b_view(b, node, 1), *zeros = tn_b_view(b, node, 2);
    int64_t axis = tn_arg_int(node, 3, 0);
    axis += axis < 0 ? in->rank : 0;
    if (!scales || !scales->data || (zeros && !zeros->data))
        return tn_refuse(b, TENON_REASON_OPERANDS, "its scales are no constants");
    int64_t count = tenon_view_numel(scales); /* as many as channels, as the shape rule says */
    float *numbers = tn_arena_array(&b->arena, (size_t)count, sizeof *numbers);
    int64_t *points = tn_arena_array(&b->arena, (size_t)count, sizeof *points);
    if (!numbers || !points) {
        b->failed = true;
        return true;
    }
    for (int64_t i = 0; i < count; i++) {
        size_t at = (size_t)(i * scales->strides[0]) * tenon_dtype_size(scales->dtype);
        numbers[i] = (float)tn_load_float((const char *)scales->data + at, scales->dtype);
        if (!(numbers[i] > 0))
            return tn_refuse(b, TENON_REASON_ATTRIBUTE, "scale number %lld is not positive",
                             (long long)i);
        if (zeros) {
            at = (size_t)(i * zeros->strides[0]) * tenon_dtype_size(zeros->dtype);
            points[i] = tn_load_int((const char *)zeros->data + at, zeros->dtype);
        }
        if (points[i] != 0)
            return tn_refuse(b, TENON_REASON_ATTRIBUTE, "oneDNN has no zero points by channel");
    }
    tn_b_op(b, kind, tn_b_value(b, tn_arg_value(node, 0)), -1, -1, tn_b_value(b, node->outputs[0]));
    return set_scales(b, (int)axis, (int)count, numbers, NULL);
}

bool tn_map_Quantize(tn_builder *b, tenon_node *node) {
    const tenon_view *in = tn_b_view(b, node, 0), *out = tn_b_out_view(b, node, 0);
    bool channels = strstr(node->op->name, "per_channel") != NULL;
    if (!in || in->dtype != TENON_FLOAT32)
        return tn_refuse(b, TENON_REASON_DTYPE, "oneDNN quantizes float32 only");
    if (!check_layout(b, in, out) || !whole_range(b, node, out->dtype, channels ? 4 : 3))
        return false;
    return channels ? per_channel(b, node, dnnl_graph_op_quantize)
                    : per_tensor(b, node, dnnl_graph_op_quantize);
}

bool tn_map_Dequantize(tn_builder *b, tenon_node *node) {
    const tenon_view *in = tn_b_view(b, node, 0), *out = tn_b_out_view(b, node, 0);
    bool channels = strstr(node->op->name, "per_channel") != NULL;
    if (!in || (in->dtype != TENON_INT8 && in->dtype != TENON_UINT8) || out->dtype != TENON_FLOAT32)
        return tn_refuse(b, TENON_REASON_DTYPE,
                         "oneDNN dequantizes int8 and uint8 to float32 only");
    if (!check_layout(b, in, out))
        return false;
    return channels ? per_channel(b, node, dnnl_graph_op_dequantize)
                    : per_tensor(b, node, dnnl_graph_op_dequantize);
}
