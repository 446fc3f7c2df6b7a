/* Mappings of convolutions, poolings and resizings. Spatial dimensions stand last, as PyTorch has
 * them ("NCX"); that values lie channels-last shows in their strides alone, and costs oneDNN no
 * reorder. */
#include "partitions/internal.h"
#include <math.h>
#include <string.h>

#define MAX_SPATIAL 3

/* Batch, channels and 1 to 3 spatial dimensions. */
static bool spatial_dims(tn_builder *b, const tenon_view *view, int *dims) {
    *dims = view->rank - 2;
    return (*dims >= 1 && *dims <= MAX_SPATIAL) ||
           tn_refuse(b, TENON_REASON_OPERANDS,
                     "oneDNN needs a batch, channels and one to three more dimensions");
}

/* The same, dense. */
static bool spatial(tn_builder *b, const tenon_view *view, int *dims) {
    return spatial_dims(b, view, dims) &&
           (tn_view_dense(view) || tn_refuse(b, TENON_REASON_LAYOUT, "its operand is strided"));
}

static void set_window(tn_builder *b, int dims, const int64_t *strides, const int64_t *begin,
                       const int64_t *end) {
    tn_b_set_ints(b, dnnl_graph_op_attr_strides, strides, dims);
    tn_b_set_ints(b, dnnl_graph_op_attr_pads_begin, begin, dims);
    tn_b_set_ints(b, dnnl_graph_op_attr_pads_end, end, dims);
    tn_b_set_string(b, dnnl_graph_op_attr_data_format, "NCX");
}

bool tn_map_Convolution(tn_builder *b, tenon_node *node) {
    const tenon_view *src = tn_b_view(b, node, 0), *weight = tn_b_view(b, node, 1);
    const tenon_view *bias = tn_b_view(b, node, 2);
    int64_t strides[MAX_SPATIAL], pads[MAX_SPATIAL], dilations[MAX_SPATIAL], extra[MAX_SPATIAL];
    int64_t end[MAX_SPATIAL];
    int end_index = node->op->id == TN_OP_padded_convolution ? 9 : 4;
    bool transposed = tn_arg_bool(node, 6);
    int dims;
    if (!tn_b_check(b, node, src) || !tn_b_check(b, node, weight) ||
        (bias && !tn_b_check(b, node, bias)) || !spatial_dims(b, src, &dims))
        return false;
    /* oneDNN makes a slice dense before; that is still faster than a kernel. */
    if (!tn_view_disjoint(src) || !tn_view_dense(tn_b_out_view(b, node, 0)))
        return tn_refuse(b, TENON_REASON_LAYOUT,
                         "oneDNN needs an operand that is not expanded, and a dense result");
    if (weight->rank != src->rank || !tn_view_dense(weight) || (bias && bias->strides[0] != 1))
        return tn_refuse(b, TENON_REASON_LAYOUT, "its weight is strided");
    if (tn_arg_ints_of(node, 3, strides, dims) < 0 || tn_arg_ints_of(node, 4, pads, dims) < 0 ||
        tn_arg_ints_of(node, 5, dilations, dims) < 0 || tn_arg_ints_of(node, 7, extra, dims) < 0 ||
        tn_arg_ints_of(node, end_index, end, dims) < 0)
        return tn_refuse(b, TENON_REASON_ATTRIBUTE,
                         "its window (kernel, stride, padding, dilation) is not made of numbers");
    for (int d = 0; d < dims; d++) {
        if (pads[d] < 0 || end[d] < 0)
            return tn_refuse(b, TENON_REASON_ATTRIBUTE, "its padding is negative (%lld)",
                             (long long)(pads[d] < 0 ? pads[d] : end[d]));
        int64_t extent = (weight->shape[2 + d] - 1) * dilations[d] + 1;
        if (!transposed && (pads[d] >= extent || end[d] >= extent))
            return tn_refuse(b, TENON_REASON_ATTRIBUTE,
                             "it pads by as much as its kernel reaches over, so that windows see "
                             "nothing else: oneDNN 3.7 reads outside of the image then");
    }
    int w = tn_b_value(b, tn_arg_value(node, 1));
    int c = bias ? tn_b_value(b, tn_arg_value(node, 2)) : -1;
    tn_b_weight(b, w);
    if (bias)
        tn_b_weight(b, c);
    tn_b_op(b, transposed ? dnnl_graph_op_conv_transpose : dnnl_graph_op_convolution,
            tn_b_value(b, tn_arg_value(node, 0)), w, c, tn_b_value(b, node->outputs[0]));
    set_window(b, dims, strides, pads, end);
    tn_b_set_ints(b, dnnl_graph_op_attr_dilations, dilations, dims);
    tn_b_set_int(b, dnnl_graph_op_attr_groups, tn_arg_int(node, 8, 1));
    tn_b_set_string(b, dnnl_graph_op_attr_weights_format, transposed ? "IOX" : "OIX");
    if (transposed)
        tn_b_set_ints(b, dnnl_graph_op_attr_output_padding, extra, dims);
    return true;
}

/* ---- Pooling ---- */

typedef struct window {
    int dims;
    int64_t kernel[MAX_SPATIAL], strides[MAX_SPATIAL], pads[MAX_SPATIAL], dilations[MAX_SPATIAL];
    int64_t end[MAX_SPATIAL]; /* padding behind, which gives just PyTorch's number of windows */
    bool beyond;              /* a window reaches past the padding: ceil_mode at work */
} window;

/* kernel_size, stride (empty: the kernel) and padding are arguments 1 to 3. */
static bool read_window(tn_builder *b, const tenon_node *node, window *w) {
    const tenon_view *in = tn_b_view(b, node, 0), *out = tn_b_out_view(b, node, 0);
    if (!tn_b_check(b, node, in) || !spatial(b, in, &w->dims))
        return false;
    if (!tn_same_layout(in, in) || !tn_view_dense(out))
        return tn_refuse(b, TENON_REASON_LAYOUT, "its result is strided");
    bool strided = node->args[2].kind != TENON_ARG_LIST || node->args[2].count > 0;
    if (tn_arg_ints_of(node, 1, w->kernel, w->dims) < 0 ||
        (strided && tn_arg_ints_of(node, 2, w->strides, w->dims) < 0) ||
        tn_arg_ints_of(node, 3, w->pads, w->dims) < 0)
        return tn_refuse(b, TENON_REASON_ATTRIBUTE,
                         "its window (kernel, stride, padding, dilation) is not made of numbers");
    if (!strided)
        memcpy(w->strides, w->kernel, sizeof w->kernel);
    for (int d = 0; d < w->dims; d++) {
        if (w->dilations[d] == 0)
            w->dilations[d] = 1;
        int64_t reach = (out->shape[2 + d] - 1) * w->strides[d] +
                        (w->kernel[d] - 1) * w->dilations[d] + 1 - w->pads[d];
        w->end[d] = reach - in->shape[2 + d];
        w->beyond |= w->end[d] > w->pads[d];
        if (w->end[d] < 0)
            w->end[d] =
                w->pads[d]; /* the last elements are in no window: rounding down does that */
        if (w->pads[d] >= w->kernel[d] || w->end[d] >= w->kernel[d] * w->dilations[d])
            return tn_refuse(b, TENON_REASON_ATTRIBUTE,
                             "a window may lie wholly in the padding, which oneDNN does not allow: "
                             "padding must be less "
                             "than the kernel");
    }
    return true;
}

static void pool(tn_builder *b, tenon_node *node, dnnl_graph_op_kind_t kind, const window *w) {
    tn_b_op(b, kind, tn_b_value(b, tn_arg_value(node, 0)), -1, -1, tn_b_value(b, node->outputs[0]));
    set_window(b, w->dims, w->strides, w->pads, w->end);
    tn_b_set_ints(b, dnnl_graph_op_attr_kernel, w->kernel, w->dims);
}

bool tn_map_MaxPool(tn_builder *b, tenon_node *node) {
    window w = {0};
    const tenon_view *in = tn_b_view(b, node, 0);
    if (!tn_b_one_output(b, node))
        return false;
    if (in && in->rank > 2 && in->rank <= 2 + MAX_SPATIAL &&
        tn_arg_ints_of(node, 4, w.dilations, in->rank - 2) < 0)
        return tn_refuse(b, TENON_REASON_ATTRIBUTE,
                         "its window (kernel, stride, padding, dilation) is not made of numbers");
    if (!read_window(b, node, &w))
        return false;
    for (int d = 0; d < w.dims; d++) {
        if (w.dilations[d] != 1)
            return tn_refuse(b, TENON_REASON_ONEDNN_SLOW,
                             "oneDNN pools with dilation in its reference code only");
    }
    pool(b, node, dnnl_graph_op_max_pool, &w);
    tn_b_set_ints(b, dnnl_graph_op_attr_dilations, w.dilations, w.dims);
    return true;
}

/* avg_pool1d to avg_pool3d */
bool tn_map_AvgPool(tn_builder *b, tenon_node *node) {
    window w = {0};
    int include = tn_op_param(node->op, "count_include_pad");
    int divisor = tn_op_param(node->op, "divisor_override");
    bool count_pad = tn_arg_bool(node, include), padded = false;
    bool divides = divisor >= 0 && !tn_arg_is_none(node, divisor);
    double taps = 1;
    if (!read_window(b, node, &w))
        return false;
    for (int d = 0; d < w.dims; d++) {
        padded |= w.pads[d] > 0;
        taps *= (double)w.kernel[d];
    }
    /* With padding included, it divides by the window, wherever that reaches. */
    if (divides && tn_arg_float(node, divisor, 0) != taps)
        return tn_refuse(b, TENON_REASON_ATTRIBUTE,
                         "its divisor_override is %g, and oneDNN's AvgPool divides by the %g "
                         "elements of its window only",
                         tn_arg_float(node, divisor, 0), taps);
    if (!divides && w.beyond && count_pad && padded)
        return tn_refuse(b, TENON_REASON_ATTRIBUTE,
                         "oneDNN's AvgPool has no ceil_mode with count_include_pad");
    /* Without padding, what a last window reaches beyond the input never counts. */
    pool(b, node, dnnl_graph_op_avg_pool, &w);
    tn_b_set_bool(b, dnnl_graph_op_attr_exclude_pad, !divides && (!count_pad || !padded));
    return true;
}

/* Adaptive average pooling to sizes that divide the input's. */
bool tn_map_AdaptiveAvgPool(tn_builder *b, tenon_node *node) {
    const tenon_view *in = tn_b_view(b, node, 0), *out = tn_b_out_view(b, node, 0);
    window w = {0};
    if (!tn_b_check(b, node, in) || !spatial(b, in, &w.dims))
        return false;
    if (!tn_view_dense(out))
        return tn_refuse(b, TENON_REASON_LAYOUT, "its result is strided");
    for (int d = 0; d < w.dims; d++) {
        if (in->shape[2 + d] % out->shape[2 + d] != 0)
            return tn_refuse(
                b, TENON_REASON_ATTRIBUTE,
                "its output size does not divide its input size, so that windows differ in size");
        w.kernel[d] = w.strides[d] = in->shape[2 + d] / out->shape[2 + d];
    }
    pool(b, node, dnnl_graph_op_avg_pool, &w);
    tn_b_set_bool(b, dnnl_graph_op_attr_exclude_pad, true);
    return true;
}

/* ---- Resizing ---- */

/* The scale that PyTorch uses in spatial dimension d: the one given, or out / in. */
static double scale_of(const tenon_node *node, int d, int dims, double fallback) {
    static const char *const names[] = {"scales_d", "scales_h", "scales_w"};
    int list = tn_op_param(node->op, "scale_factors");
    int one = tn_op_param(node->op, dims == 1 ? "scales" : names[MAX_SPATIAL - dims + d]);
    if (list >= 0 && node->args[list].kind == TENON_ARG_LIST && d < node->args[list].count) {
        const tenon_arg *item = &node->args[list].as.list[d];
        return item->kind == TENON_ARG_FLOAT ? item->as.f
               : item->kind == TENON_ARG_INT ? (double)item->as.i
                                             : fallback;
    }
    return one >= 0 ? tn_arg_float(node, one, fallback) : fallback;
}

/* upsample_nearest*, upsample_linear1d, upsample_bilinear2d, upsample_trilinear3d */
bool tn_map_Interpolate(tn_builder *b, tenon_node *node) {
    const tenon_view *in = tn_b_view(b, node, 0), *out = tn_b_out_view(b, node, 0);
    bool nearest = strstr(node->op->name, "nearest") != NULL;
    int align = tn_op_param(node->op, "align_corners"), dims;
    if (!tn_b_check(b, node, in) || !spatial(b, in, &dims))
        return false;
    if (!tn_view_dense(out))
        return tn_refuse(b, TENON_REASON_LAYOUT, "its result is strided");
    if (align >= 0 && tn_arg_bool(node, align))
        return tn_refuse(b, TENON_REASON_ATTRIBUTE, "oneDNN's Interpolate has no align_corners");
    int64_t pixels = 1;
    for (int d = 0; d < dims; d++)
        pixels *= in->shape[2 + d];
    if (pixels == 1 && in->shape[1] > 1)
        return tn_refuse(b, TENON_REASON_ACCURACY,
                         "oneDNN lays the result out channels-last when its input is one pixel");
    for (int d = 0; d < dims; d++) {
        int64_t from = in->shape[2 + d], to = out->shape[2 + d];
        if (nearest && to % from != 0)
            return tn_refuse(b, TENON_REASON_ACCURACY,
                             "oneDNN rounds otherwise than PyTorch unless the scale is whole");
        double scale = scale_of(node, d, dims, (double)to / (double)from);
        if (fabs(scale * (double)from - (double)to) > 1e-9 * (double)to)
            return tn_refuse(
                b, TENON_REASON_ATTRIBUTE,
                "its scale_factor is not the ratio of its sizes, which is all that oneDNN takes");
    }
    tn_b_op(b, dnnl_graph_op_interpolate, tn_b_value(b, tn_arg_value(node, 0)), -1, -1,
            tn_b_value(b, node->outputs[0]));
    static const char *const modes[] = {"linear", "bilinear", "trilinear"};
    tn_b_set_string(b, dnnl_graph_op_attr_mode, nearest ? "nearest" : modes[dims - 1]);
    tn_b_set_string(b, dnnl_graph_op_attr_coordinate_transformation_mode, "half_pixel");
    tn_b_set_ints(b, dnnl_graph_op_attr_sizes, out->shape + 2, dims);
    tn_b_set_string(b, dnnl_graph_op_attr_data_format, "NCX");
    return true;
}
