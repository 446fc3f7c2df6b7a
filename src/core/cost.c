/* The arithmetic of nodes, as `tenon explain` tells it, and the work that limits count. */
#include "core/graph.h"
#include <math.h>

/* How the arithmetic of a kernel grows. */
typedef enum cost {
    MOVES,     /* none: it moves, converts or compares by index */
    ELEMENT,   /* 1 for each element of the result */
    QUANTIZE,  /* 2 for each: times the scale, plus a shift */
    INPUT,     /* 1 for each element of the first operand */
    SPLIT,     /* 2 for each element of the first operand */
    WINDOW,    /* 1 for each element of each window */
    SOFTMAX,   /* 5 for each element: maximum, difference, exponential, sum, quotient */
    RMS,       /* 5 for each: square, sum, scale, weight, and the mean's share */
    NORM,      /* 8 for each: mean, difference, square, sum, scale, weight, bias */
    BATCH,     /* 4 for each: difference, scale, weight, bias */
    DOT,       /* 2 for each product that is summed */
    DISTANCE,  /* 3 for each difference that is squared and summed */
    CONV,      /* 2 for each tap */
    ATTENTION, /* both products, and a softmax of the scores */
    RECURRENT, /* 2 for each weight, row of the batch and moment */
    LINEAR,    /* 2 for each of 2 taps a dimension */
    WINOGRAD,  /* as the plain convolution that it computes */
    DEPTHWISE, /* 2 for each tap, and for each channel that expands an element */
    PACKED,    /* 2 for each tap and input channel, 1 for each element that is scaled */
    SQUEEZE,   /* 2 for each product */
    CUBIC      /* 2 for each of 4 taps a dimension */
} cost;

/* By kernel, as ops.def names them: an operator with a kernel that is missing here does not
 * compile. */
enum {
    of_adaptive_avg_pool = INPUT,
    of_adaptive_max_pool = INPUT,
    of_addmm = DOT,
    of_addmv = DOT,
    of_arange = MOVES,
    of_as_strided_scatter = MOVES,
    of_attention = ATTENTION,
    of_avg_pool = WINDOW,
    of_batch_norm = BATCH,
    of_binary = ELEMENT,
    of_cat = MOVES,
    of_cdist = DISTANCE,
    of_channel_shuffle = MOVES,
    of_col2im = INPUT,
    of_constant_pad = MOVES,
    of_convolution = CONV,
    of_winograd_convolution = WINOGRAD,
    of_copy = MOVES,
    of_depthwise_convolution = DEPTHWISE,
    of_cumulate = INPUT,
    of_dequantize_per_channel = QUANTIZE,
    of_dequantize_per_tensor = QUANTIZE,
    of_dot = DOT,
    of_edge_pad = MOVES,
    of_embedding = MOVES,
    of_embedding_bag = INPUT,
    of_eye = MOVES,
    of_flip = MOVES,
    of_full = MOVES,
    of_gather = MOVES,
    of_grid_sampler = LINEAR,
    of_group_norm = NORM,
    of_gru = RECURRENT,
    of_histc = INPUT,
    of_im2col = MOVES,
    of_index = MOVES,
    of_index_put = MOVES,
    of_index_select = MOVES,
    of_index_write = MOVES,
    of_interleave = MOVES,
    of_layer_norm = NORM,
    of_linear = DOT,
    of_linspace = MOVES,
    of_lstm = RECURRENT,
    of_masked_scatter = MOVES,
    of_masked_select = MOVES,
    of_max_pool = WINDOW,
    of_meshgrid = MOVES,
    of_mm = DOT,
    of_mode = INPUT,
    of_mv = DOT,
    of_nonzero = MOVES,
    of_nothing = MOVES,
    of_one_hot = MOVES,
    of_part_scatter = MOVES,
    of_pdist = DISTANCE,
    of_pixel_shuffle = MOVES,
    of_packed_convolution = PACKED,
    of_packed_linear = DOT,
    of_quantize_per_channel = QUANTIZE,
    of_quantize_per_tensor = QUANTIZE,
    of_reduce = INPUT,
    of_reduce_arg = INPUT,
    of_repeat = MOVES,
    of_repeat_interleave = MOVES,
    of_rms_norm = RMS,
    of_rnn_relu = RECURRENT,
    of_rnn_tanh = RECURRENT,
    of_roll = MOVES,
    of_scaled_cat = QUANTIZE,
    of_scan = INPUT,
    of_scatter = MOVES,
    of_search = MOVES,
    of_softmax = SOFTMAX,
    of_sort = MOVES,
    of_split_mean = INPUT,
    of_split_sum = SPLIT,
    of_squeeze_excitation = SQUEEZE,
    of_take_along_dim = MOVES,
    of_ternary = ELEMENT,
    of_tri = MOVES,
    of_unary = ELEMENT,
    of_upsample_cubic = CUBIC,
    of_upsample_cubic_aa = CUBIC,
    of_upsample_linear = LINEAR,
    of_upsample_linear_aa = LINEAR,
    of_upsample_nearest = MOVES,
    of_upsample_nearest_exact = MOVES
};

static const uint8_t costs[TN_OP_COUNT + 1] = {
#define OP(id, schema, infer, kernel, map) [TN_OP_##id] = of_##kernel,
#define VIEW(id, schema, infer, view)
#define INPLACE(id, schema)
#define LOWER(id, schema, infer)
#define SYM(id, schema, eval)
#include "core/ops.def"
#undef OP
#undef VIEW
#undef INPLACE
#undef LOWER
#undef SYM
};

static double elements(const tenon_value *value) {
    return value ? (double)tn_value_numel(value) : 0;
}

/* Elements of dimension `dim`, counted from the end when negative. */
static double size(const tenon_value *value, int dim) {
    dim += dim < 0 ? value->rank : 0;
    return dim >= 0 && dim < value->rank ? (double)value->shape[dim] : 1;
}

/* Tensor operand number `index` among those that are there. */
static const tenon_value *operand(const tenon_node *node, int index) {
    for (int i = 0; i < node->use_count; i++) {
        if (node->uses[i].value->scalar == TN_TENSOR && index-- == 0)
            return node->uses[i].value;
    }
    return NULL;
}

/* linear, mm, bmm, mv and dot sum over the last dimension of the first operand; addmm, baddbmm and
 * addmv over that of the second. What is added to the sums begins them, and counts nothing, as in
 * PyTorch's profiler. */
static double products(const tenon_node *node, double out) {
    bool added = tn_op_param(node->op, "beta") >= 0 && tn_op_param(node->op, "self") == 0;
    const tenon_value *left = tn_arg_value(node, added ? 1 : 0);
    return left ? out * 2 * size(left, -1) : 0;
}

/* A transposed one gives each element of its input to each tap. */
static double convolution(const tenon_node *node, double out) {
    const tenon_value *weight = tn_arg_value(node, 1);
    bool transposed = tn_arg_bool(node, 6);
    double taps = size(weight, 0) > 0 ? elements(weight) / size(weight, 0) : 0;
    double from = transposed ? elements(tn_arg_value(node, 0)) : out;
    return 2 * from * taps;
}

static double attention(const tenon_node *node, double out) {
    const tenon_value *query = tn_arg_value(node, 0), *key = tn_arg_value(node, 1);
    double keys = size(key, -2), depth = size(query, -1);
    double scores = depth > 0 ? elements(query) / depth * keys : 0;
    return 2 * scores * depth + 5 * scores + 2 * out * keys;
}

/* The matrices among a recurrent layer's weights: how many, and their elements. */
static double matrices(const tenon_node *node, double *weights) {
    int list = tn_op_param(node->op, "params");
    double count = 0;
    *weights = 0;
    if (list < 0 || node->args[list].kind != TENON_ARG_LIST)
        return 0;
    for (int i = 0; i < node->args[list].count; i++) {
        const tenon_arg *item = &node->args[list].as.list[i];
        if (item->kind == TENON_ARG_VALUE && item->as.value->rank == 2) {
            *weights += elements(item->as.value);
            count++;
        }
    }
    return count;
}

/* They are multiplied for each moment and row of the batch: what the input has but its last
 * dimension. */
static double recurrent(const tenon_node *node) {
    const tenon_value *input = tn_arg_value(node, 0);
    double weights, rows = 1;
    matrices(node, &weights);
    for (int d = 0; input && d < input->rank - 1; d++)
        rows *= size(input, d);
    return input ? 2 * weights * rows : 0;
}

static double window(const tenon_node *node, double out) {
    int64_t sizes[TENON_MAX_RANK];
    int list = tn_op_param(node->op, "kernel_size");
    int dims = list < 0 ? 0 : node->op->params[list].fixed;
    if (dims < 1 || dims > TENON_MAX_RANK || tn_arg_ints_of(node, list, sizes, dims) < 0)
        return out;
    for (int i = 0; i < dims; i++)
        out *= (double)sizes[i];
    return out;
}

static double taps(const tenon_node *node, double out, double each) {
    out *= 2;
    for (int d = 2; d < node->outputs[0]->rank; d++)
        out *= each;
    return out;
}

double tn_node_flops(const tenon_node *node) {
    const tenon_value *first = operand(node, 0);
    double out = node->output_count > 0 ? elements(node->outputs[0]) : 0;
    if (node->op->id < 0 || node->op->id >= TN_OP_COUNT)
        return out;
    if (!first)
        return 0;
    switch ((cost)costs[node->op->id]) {
    case MOVES:
        return 0;
    case ELEMENT:
        return out;
    case QUANTIZE:
        return 2 * out;
    case INPUT:
        return elements(first);
    case SPLIT:
        return 2 * elements(first);
    case WINDOW:
        return window(node, out);
    case SOFTMAX:
    case RMS:
        return 5 * elements(first);
    case NORM:
        return 8 * elements(first);
    case BATCH:
        return 4 * elements(first);
    case DOT:
        return products(node, out);
    case DISTANCE:
        return 3 * out * size(first, -1);
    case CONV:
        return convolution(node, out);
    case WINOGRAD:
        return out * 2 * 9 * size(first, 1) / (double)tn_arg_int(node, 7, 1);
    case PACKED: /* its weight is [panels, taps * channels, ...] */
        return out * 2 * size(tn_arg_value(node, 2), 1) +
               (tn_arg_value(node, 1) ? elements(first) : 0);
    case SQUEEZE: {
        double hidden = (double)tn_arg_int(node, 3, 0) * size(first, 0);
        return 2 * hidden * (size(first, 1) + size(node->outputs[0], 1));
    }
    case DEPTHWISE:
        return out * 2 * size(tn_arg_value(node, 6), 1) +
               (tn_arg_value(node, 1) ? elements(first) * 2 * size(node->outputs[0], 1) : 0);
    case ATTENTION:
        return attention(node, out);
    case RECURRENT:
        return recurrent(node);
    case LINEAR:
        return taps(node, out, 2);
    case CUBIC:
        return taps(node, out, 4);
    }
    return 0;
}

/* ---- Work: nanoseconds of one core, as the slowest of Tenon's kernels that may run takes. All
 * figures are measured, on one thread of the reference backend, and rounded up. ---- */

#define ELEMENT_WORK 20.0 /* an element that is read or written */
#define FLOP_WORK 0.25    /* of products, which are blocked for all dtypes */
#define ROW_WORK 200.0    /* a row that is normalised by itself, and an element that is sampled */
#define STEP_WORK 1500.0  /* a step of a recurrent layer, and the attention of a head */
#define PANEL 32          /* columns that products compute at least */

/* What an element takes beyond that, where it is much. */
static double slow(int id) {
    switch (id) {
    case TN_OP_erfinv:
        return 400;
    case TN_OP_lgamma:
    case TN_OP_digamma:
    case TN_OP_special_ndtr:
        return 150;
    case TN_OP_logcumsumexp:
        return 100;
    default:
        return 0;
    }
}

/* The elements that windows cover which are as large as it takes for all of the input, and `more`
 * in each dimension. */
static double covering(const tenon_node *node, double out, double more) {
    const tenon_value *from = operand(node, 0), *to = node->outputs[0];
    for (int d = to->rank - 1; d >= 0 && d >= to->rank - 3 && from; d--) {
        if (to->shape[d] != size(from, d))
            out *= more * (1 + size(from, d) / fmax(1, (double)to->shape[d]));
    }
    return out;
}

/* A sort, or a search of each element. */
static double comparisons(const tenon_node *node, double elements_read) {
    double most = 2;
    for (int i = 0; i < node->use_count; i++)
        most = fmax(most, elements(node->uses[i].value));
    return ELEMENT_WORK * elements_read * log2(most);
}

/* The kernel goes through all taps of each element of the result, also where a transposed one has
 * nothing to multiply. */
static double all_taps(const tenon_node *node, double groups) {
    const tenon_value *weight = tn_arg_value(node, 1);
    double columns = tn_arg_bool(node, 6) ? size(weight, 1) * groups : size(weight, 0);
    return columns > 0 ? 2 * elements(node->outputs[0]) * elements(weight) / columns : 0;
}

static double product_work(const tenon_node *node) {
    double flops = tn_node_flops(node);
    if (costs[node->op->id] == CONV) { /* groups are products of their own */
        int list = tn_op_param(node->op, "groups");
        double groups = list < 0 ? 1 : fmax(1, (double)tn_arg_int(node, list, 1));
        double columns = size(node->outputs[0], 1) / groups;
        flops = fmax(flops, all_taps(node, groups));
        if (columns < PANEL)
            flops *= PANEL / fmax(1, columns);
    }
    return FLOP_WORK * flops;
}

/* What a node computes, beside what it reads and writes. */
static double arithmetic(const tenon_node *node, double in, double out) {
    const tenon_value *first = operand(node, 0);
    switch (node->op->id) {
    case TN_OP_sort:
    case TN_OP_sort_stable:
    case TN_OP_argsort:
    case TN_OP_argsort_stable:
    case TN_OP_topk:
    case TN_OP_mode:
    case TN_OP_bucketize_Tensor:
    case TN_OP_searchsorted_Tensor:
        return comparisons(node, in);
    case TN_OP_grid_sampler_2d:
    case TN_OP_grid_sampler:
        return 2 * ROW_WORK * out;
    case TN_OP__upsample_bilinear2d_aa:
    case TN_OP__upsample_bilinear2d_aa_vec:
        return covering(node, elements(node->outputs[0]), 2);
    case TN_OP__upsample_bicubic2d_aa:
    case TN_OP__upsample_bicubic2d_aa_vec:
        return covering(node, elements(node->outputs[0]), 4);
    case TN_OP_adaptive_avg_pool1d:
    case TN_OP_adaptive_avg_pool2d:
    case TN_OP_adaptive_avg_pool3d:
    case TN_OP__adaptive_avg_pool2d:
    case TN_OP__adaptive_avg_pool3d:
    case TN_OP_adaptive_max_pool1d:
    case TN_OP_adaptive_max_pool2d:
    case TN_OP_adaptive_max_pool3d:
        return covering(node, elements(node->outputs[0]), 1);
    case TN_OP__embedding_bag:
    case TN_OP__embedding_bag_forward_only:
    case TN_OP_embedding_bag:
    case TN_OP_embedding_bag_padding_idx: /* a row for each index */
        return ELEMENT_WORK * elements(operand(node, 1)) * size(first, -1);
    default:
        break;
    }
    switch ((cost)costs[node->op->id]) {
    case DOT:
    case CONV:
    case WINOGRAD:
    case DEPTHWISE:
    case PACKED:
    case SQUEEZE:
        return product_work(node);
    case ATTENTION: {
        double head = size(first, -1) * size(first, -2);
        return product_work(node) + (head > 0 ? STEP_WORK * elements(first) / head : 0);
    }
    case RECURRENT: { /* weights are read again in each step; two matrices a layer and direction */
        double weights, layers = fmax(1, matrices(node, &weights) / 2);
        return tn_node_flops(node) + STEP_WORK * layers * fmax(size(first, 0), size(first, 1));
    }
    case DISTANCE:
        return ELEMENT_WORK * tn_node_flops(node);
    case SOFTMAX:
    case RMS:
    case NORM:
    case BATCH:
        return tn_node_flops(node) +
               (size(first, -1) > 0 ? ROW_WORK * elements(first) / size(first, -1) : 0);
    default:
        return tn_node_flops(node) + slow(node->op->id) * out;
    }
}

double tn_node_work(const tenon_node *node) {
    double in = 0, out = 0;
    if (node->op->kind != TN_OP_KERNEL)
        return 0;
    for (int i = 0; i < node->use_count; i++)
        in += elements(node->uses[i].value);
    for (int i = 0; i < node->output_count; i++)
        out += elements(node->outputs[i]);
    double work = ELEMENT_WORK * (in + out);
    if (node->op->id >= 0 && node->op->id < TN_OP_COUNT && node->output_count > 0)
        work += arithmetic(node, in, out);
    return work;
}
