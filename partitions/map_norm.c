/* Mappings of softmax, normalizations and reductions. */
#include "partitions/internal.h"
#include <math.h>
#include <string.h>

static bool dense_like(tn_builder *b, tenon_node *node) {
    const tenon_view *in = tn_b_view(b, node, 0);
    if (!tn_b_check(b, node, in))
        return false;
    return (tn_view_dense(in) && tn_same_layout(in, tn_b_out_view(b, node, 0))) ||
           tn_refuse(b, TENON_REASON_LAYOUT, "its operand is strided");
}

static bool softmax(tn_builder *b, tenon_node *node, dnnl_graph_op_kind_t kind) {
    if (!dense_like(b, node))
        return false;
    int rank = tn_b_view(b, node, 0)->rank;
    if (rank == 0)
        return tn_refuse(b, TENON_REASON_OPERANDS, "it is a single number");
    int64_t dim = tn_arg_int(node, 1, -1);
    tn_b_op(b, kind, tn_b_value(b, tn_arg_value(node, 0)), -1, -1, tn_b_value(b, node->outputs[0]));
    tn_b_set_int(b, dnnl_graph_op_attr_axis, dim < 0 ? dim + rank : dim);
    return true;
}

bool tn_map_SoftMax(tn_builder *b, tenon_node *node) {
    return softmax(b, node, dnnl_graph_op_softmax);
}

bool tn_map_LogSoftmax(tn_builder *b, tenon_node *node) {
    return softmax(b, node, dnnl_graph_op_log_softmax);
}

/* ---- Normalizations ---- */

/* An affine parameter as a vector of `size`; a missing one is all `fill`. */
static int parameter(tn_builder *b, tenon_node *node, int index, int64_t size, double fill,
                     tenon_dtype dtype) {
    tenon_value *value = tn_arg_value(node, index);
    static const int64_t one = 1;
    if (!value)
        return tn_b_literal(b, dtype, 1, &size, fill, NULL);
    const tenon_view *view = &b->views[value->id];
    int made = view->rank == 1 ? tn_b_value(b, value) : tn_b_reshaped(b, value, 1, &size, &one);
    tn_b_weight(b, made);
    return made;
}

static bool check_parameter(tn_builder *b, tenon_node *node, int index) {
    const tenon_view *view = tn_b_view(b, node, index);
    if (!view || (view->dtype == TENON_FLOAT32 && tenon_view_is_contiguous(view)))
        return true;
    return tn_refuse(b, TENON_REASON_DTYPE, "oneDNN normalizes with dense float32 parameters only");
}

/* native_layer_norm(input, normalized_shape, weight, bias, eps). oneDNN normalizes one dimension,
 * the last; several are one when they are dense. */
bool tn_map_LayerNorm(tn_builder *b, tenon_node *node) {
    const tenon_view *in = tn_b_view(b, node, 0), *out = tn_b_out_view(b, node, 0);
    int dims = node->args[1].count;
    if (!tn_b_one_output(b, node) || !tn_b_check(b, node, in) || !check_parameter(b, node, 2) ||
        !check_parameter(b, node, 3))
        return false;
    if (!tenon_view_is_contiguous(in) || !tenon_view_is_contiguous(out) || in->rank < 1 || dims < 1)
        return tn_refuse(b, TENON_REASON_LAYOUT, "its operand is strided");
    bool affine = tn_arg_value(node, 2) || tn_arg_value(node, 3);
    int64_t size = 1;
    for (int d = in->rank - dims; d < in->rank; d++)
        size *= in->shape[d];
    int64_t shape[2] = {tenon_view_numel(in) / size, size}, strides[2] = {size, 1};
    int src, dst;
    if (dims == 1 && in->rank >= 2 && in->rank <= 5) {
        src = tn_b_value(b, tn_arg_value(node, 0));
        dst = tn_b_value(b, node->outputs[0]);
    } else {
        src = tn_b_reshaped(b, tn_arg_value(node, 0), 2, shape, strides);
        dst = -1;
    }
    int gamma = affine ? parameter(b, node, 2, size, 1, TENON_FLOAT32) : -1;
    int beta = affine ? parameter(b, node, 3, size, 0, TENON_FLOAT32) : -1;
    if (dst < 0)
        dst = tn_b_reshaped_out(b, node, 2, shape, strides);
    tn_b_op(b, dnnl_graph_op_layer_norm, src, gamma, beta, dst);
    tn_b_set_bool(b, dnnl_graph_op_attr_keep_stats, false);
    tn_b_set_bool(b, dnnl_graph_op_attr_use_affine, affine);
    tn_b_set_float(b, dnnl_graph_op_attr_epsilon, tn_arg_float(node, 4, 1e-5));
    return true;
}

/* rms_norm(input, normalized_shape, weight, eps) */
bool tn_map_RMSNorm(tn_builder *b, tenon_node *node) {
#if DNNL_VERSION_MAJOR > 3 || DNNL_VERSION_MINOR >= 11
    const tenon_view *in = tn_b_view(b, node, 0), *weight = tn_b_view(b, node, 2);
    if (!b->caps->rms_norm)
        return tn_refuse(b, TENON_REASON_VERSION, "RMSNorm needs oneDNN 3.11");
    if (!tn_b_check(b, node, in) || !check_parameter(b, node, 2))
        return false;
    if (node->args[1].count != 1 || in->rank < 2 || in->rank > 5 || !tenon_view_is_contiguous(in) ||
        !tenon_view_is_contiguous(tn_b_out_view(b, node, 0)))
        return tn_refuse(b, TENON_REASON_LAYOUT,
                         "oneDNN's RMSNorm is over the last of two to five dense dimensions");
    /* PyTorch's default is the epsilon of the dtype it computes in. */
    double eps = tn_arg_float(node, 3, 1.1920928955078125e-07);
    int gamma = weight ? parameter(b, node, 2, in->shape[in->rank - 1], 1, TENON_FLOAT32) : -1;
    tn_b_op(b, dnnl_graph_op_rms_norm, tn_b_value(b, tn_arg_value(node, 0)), gamma, -1,
            tn_b_value(b, node->outputs[0]));
    tn_b_set_float(b, dnnl_graph_op_attr_epsilon, eps);
    return true;
#else
    (void)node;
    return tn_refuse(b, TENON_REASON_VERSION, "RMSNorm needs oneDNN 3.11");
#endif
}

/* native_group_norm(input, weight, bias, N, C, HxW, group, eps) */
bool tn_map_GroupNorm(tn_builder *b, tenon_node *node) {
    const tenon_view *in = tn_b_view(b, node, 0);
    if (!tn_b_one_output(b, node) || !dense_like(b, node) || !check_parameter(b, node, 1) ||
        !check_parameter(b, node, 2))
        return false;
    if (in->rank < 3 || in->rank > 5)
        return tn_refuse(b, TENON_REASON_OPERANDS,
                         "oneDNN needs a batch, channels and one to three more dimensions");
    bool affine = tn_arg_value(node, 1) || tn_arg_value(node, 2);
    int64_t channels = in->shape[1];
    int gamma = affine ? parameter(b, node, 1, channels, 1, TENON_FLOAT32) : -1;
    int beta = affine ? parameter(b, node, 2, channels, 0, TENON_FLOAT32) : -1;
    tn_b_op(b, dnnl_graph_op_group_norm, tn_b_value(b, tn_arg_value(node, 0)), gamma, beta,
            tn_b_value(b, node->outputs[0]));
    tn_b_set_int(b, dnnl_graph_op_attr_groups, tn_arg_int(node, 6, 1));
    tn_b_set_bool(b, dnnl_graph_op_attr_keep_stats, false);
    tn_b_set_bool(b, dnnl_graph_op_attr_use_affine, affine);
    tn_b_set_float(b, dnnl_graph_op_attr_epsilon, tn_arg_float(node, 7, 1e-5));
    tn_b_set_string(b, dnnl_graph_op_attr_data_format, "NCX");
    return true;
}

/* _native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum,
 * eps) */
bool tn_map_BatchNormInference(tn_builder *b, tenon_node *node) {
    const tenon_view *in = tn_b_view(b, node, 0);
    if (!tn_b_one_output(b, node) || !dense_like(b, node))
        return false;
    if (in->rank < 2 || in->rank > 5)
        return tn_refuse(b, TENON_REASON_OPERANDS,
                         "oneDNN needs a batch, channels and up to three more dimensions");
    int list[5] = {tn_b_value(b, tn_arg_value(node, 0))};
    for (int i = 1; i <= 4; i++) {
        if (!check_parameter(b, node, i))
            return false;
        list[i] = parameter(b, node, i, in->shape[1], i == 1 ? 1 : 0, TENON_FLOAT32);
    }
    tn_b_op_list(b, dnnl_graph_op_batch_norm_inference, list, 5, tn_b_value(b, node->outputs[0]));
    tn_b_set_float(b, dnnl_graph_op_attr_epsilon, tn_arg_float(node, 6, 1e-5));
    tn_b_set_string(b, dnnl_graph_op_attr_data_format, "NCX");
    return true;
}

/* ---- Reductions ---- */

/* The dimensions in argument "dim" (none or empty: all), counted from the start; -1 when they are
 * not numbers. */
static int reduced_dims(const tenon_node *node, int rank, int64_t *axes) {
    int dim = tn_op_param(node->op, "dim");
    int count = dim < 0 ? 0 : tn_arg_ints(node, dim, axes, rank);
    for (int i = 0; i < count; i++)
        axes[i] += axes[i] < 0 ? rank : 0;
    if (count == 0) {
        for (; count < rank; count++)
            axes[count] = count;
    }
    return count;
}

/* Whether the reduced dimensions lie innermost in row-major memory, as oneDNN's fast code needs
 * them. */
static bool innermost(const tenon_view *in, const int64_t *axes, int count) {
    int64_t reach = 1;
    for (int i = 0; i < count; i++)
        reach *= in->shape[axes[i]];
    for (int i = 0; i < count; i++) {
        if (in->shape[axes[i]] != 1 && in->strides[axes[i]] >= reach)
            return false;
    }
    return tenon_view_is_contiguous(in);
}

/* The mean over all spatial dimensions of channels-last memory is a pooling. */
static bool mean_by_pooling(tn_builder *b, tenon_node *node, const int64_t *axes, int count) {
    const tenon_view *in = tn_b_view(b, node, 0), *out = tn_b_out_view(b, node, 0);
    int64_t kernel[3], strides[3] = {1, 1, 1}, pads[3] = {0}, shape[5] = {1, 1, 1, 1, 1};
    int64_t dense[5];
    unsigned found = 0;
    int dims = in->rank - 2;
    for (int i = 0; i < count; i++)
        found |= 1u << axes[i];
    if (dims < 1 || dims > 3 || count != dims || found != ((1u << in->rank) - 1) - 3)
        return false;
    for (int d = 0; d < dims; d++)
        kernel[d] = in->shape[2 + d];
    memcpy(shape, in->shape, 2 * sizeof *shape);
    tn_contiguous_strides(in->rank, shape, dense);
    int src = tn_b_value(b, tn_arg_value(node, 0));
    int dst = out->rank == in->rank ? tn_b_value(b, node->outputs[0])
                                    : tn_b_reshaped_out(b, node, in->rank, shape, dense);
    tn_b_op(b, dnnl_graph_op_avg_pool, src, -1, -1, dst);
    tn_b_set_ints(b, dnnl_graph_op_attr_strides, strides, dims);
    tn_b_set_ints(b, dnnl_graph_op_attr_pads_begin, pads, dims);
    tn_b_set_ints(b, dnnl_graph_op_attr_pads_end, pads, dims);
    tn_b_set_ints(b, dnnl_graph_op_attr_kernel, kernel, dims);
    tn_b_set_string(b, dnnl_graph_op_attr_data_format, "NCX");
    tn_b_set_bool(b, dnnl_graph_op_attr_exclude_pad, true);
    return true;
}

/* A result without dimensions is computed with all of them kept. */
static bool reduce(tn_builder *b, tenon_node *node, dnnl_graph_op_kind_t kind) {
    const tenon_view *in = tn_b_view(b, node, 0), *out = tn_b_out_view(b, node, 0);
    int keep = tn_op_param(node->op, "keepdim");
    int64_t axes[TENON_MAX_RANK];
    if (!tn_b_one_output(b, node) || !tn_b_check(b, node, in))
        return false;
    if (in->rank < 1 || in->rank > 5 || !tn_view_dense(in) || !tn_view_dense(out))
        return tn_refuse(b, TENON_REASON_LAYOUT,
                         "its operand is strided, or has no or more than five dimensions");
    int count = reduced_dims(node, in->rank, axes);
    if (count < 0)
        return tn_refuse(b, TENON_REASON_ATTRIBUTE,
                         "the dimensions that it reduces are not numbers");
    if (!innermost(in, axes, count))
        return (kind == dnnl_graph_op_reduce_mean && mean_by_pooling(b, node, axes, count)) ||
               tn_refuse(b, TENON_REASON_ONEDNN_SLOW,
                         "oneDNN reduces dimensions that do not lie innermost in memory in its "
                         "reference code only");
    bool keeps = keep >= 0 && tn_arg_bool(node, keep);
    int src = tn_b_value(b, tn_arg_value(node, 0)), dst;
    if (out->rank == 0) {
        static const int64_t ones[TENON_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        keeps = true;
        dst = tn_b_reshaped_out(b, node, in->rank, ones, ones);
    } else {
        dst = tn_b_value(b, node->outputs[0]);
    }
    tn_b_op(b, kind, src, -1, -1, dst);
    tn_b_set_ints(b, dnnl_graph_op_attr_axes, axes, count);
    tn_b_set_bool(b, dnnl_graph_op_attr_keep_dims, keeps);
    return true;
}

#define REDUCE(name, kind)                                \
    bool tn_map_##name(tn_builder *b, tenon_node *node) { \
        return reduce(b, node, dnnl_graph_op_##kind);     \
    }
REDUCE(ReduceSum, reduce_sum)
REDUCE(ReduceMean, reduce_mean)
REDUCE(ReduceMax, reduce_max)
REDUCE(ReduceMin, reduce_min)
REDUCE(ReduceProd, reduce_prod)

/* norm.ScalarOpt_dim, linalg_vector_norm: argument 1 is p, and none is 2. */
bool tn_map_ReduceNorm(tn_builder *b, tenon_node *node) {
    double p = tn_arg_float(node, 1, 2);
    if (p != 1 && p != 2)
        return tn_refuse(b, TENON_REASON_ATTRIBUTE,
                         "its p is %g, and oneDNN reduces to the norms 1 and 2 only", p);
    return reduce(b, node, p == 1 ? dnnl_graph_op_reduce_l1 : dnnl_graph_op_reduce_l2);
}
