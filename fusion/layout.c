/* Chooses which images lie channels-last in memory.
 *
 * oneDNN convolves channels-last; an image that is row-major costs a conversion at each side of
 * each convolution. A region is what hangs together through convolutions and ops that compute in
 * whatever layout they are given (elementwise, pools, batch norm, cat, ...):
 *
 *     input --> [ conv -- relu -- pool -- conv -- add ] --> view --> linear
 *               '-------------- a region -------------'
 *
 * Regions without a convolution stay row-major. The others become channels-last when that moves
 * fewer elements:
 *
 *     row-major:      what each convolution reads and writes
 *     channels-last:  what enters the region row-major, and what leaves it for row-major memory
 *
 * A view at the edge costs nothing when its strides can be expressed (src/core/view.c).
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"
#include <stdlib.h>
#include <string.h>

static bool is_convolution(const tenon_node *node) {
    return tn_node_is(node, TN_OP_convolution) || tn_node_is(node, TN_OP_padded_convolution);
}

/* Ops whose images may all lie either way, equally. */
static bool is_agnostic(const tenon_node *node) {
    switch (node->op->id) {
    case TN_OP_convolution:
    case TN_OP_padded_convolution:
    case TN_OP_native_batch_norm_legit_no_training:
    case TN_OP_native_batch_norm_legit_no_stats:
    case TN_OP_native_group_norm:
    case TN_OP_max_pool2d:
    case TN_OP_max_pool3d:
    case TN_OP_max_pool2d_with_indices:
    case TN_OP_max_pool3d_with_indices:
    case TN_OP_avg_pool2d:
    case TN_OP_avg_pool3d:
    case TN_OP_adaptive_avg_pool2d:
    case TN_OP_adaptive_avg_pool3d:
    case TN_OP__adaptive_avg_pool2d:
    case TN_OP__adaptive_avg_pool3d:
    case TN_OP_adaptive_max_pool2d:
    case TN_OP_cat:
    case TN_OP_channel_shuffle:
    case TN_OP_constant_pad_nd:
    case TN_OP_reflection_pad2d:
    case TN_OP_reflection_pad3d:
    case TN_OP_replication_pad2d:
    case TN_OP_replication_pad3d:
    case TN_OP_upsample_nearest2d_vec:
    case TN_OP_upsample_nearest2d:
    case TN_OP_upsample_nearest3d_vec:
    case TN_OP_upsample_nearest3d:
    case TN_OP__upsample_nearest_exact2d_vec:
    case TN_OP__upsample_nearest_exact2d:
    case TN_OP__upsample_nearest_exact3d_vec:
    case TN_OP__upsample_nearest_exact3d:
    case TN_OP_upsample_bilinear2d_vec:
    case TN_OP_upsample_bilinear2d:
    case TN_OP_upsample_trilinear3d_vec:
    case TN_OP_upsample_trilinear3d:
    case TN_OP_upsample_bicubic2d_vec:
    case TN_OP_upsample_bicubic2d:
    case TN_OP__upsample_bilinear2d_aa_vec:
    case TN_OP__upsample_bilinear2d_aa:
    case TN_OP_mean_dim:
    case TN_OP_sum_dim_IntList:
    case TN_OP_amax:
    /* parts of an image keep its strides */
    case TN_OP_slice_Tensor:
    case TN_OP_narrow:
    case TN_OP_split_Tensor:
    case TN_OP_split_sizes:
    case TN_OP_split_with_sizes:
    case TN_OP_chunk:
        return true;
    default:
        return tn_is_elementwise(node->op->id);
    }
}

static bool is_image(const tenon_value *value) {
    return tn_value_static(value) && (value->rank == 4 || value->rank == 5) &&
           value->scalar == TN_TENSOR;
}

typedef struct region {
    int32_t parent;   /* union-find over values */
    bool member;      /* of a region */
    bool counted;     /* it enters some region row-major, or leaves one for row-major memory */
    double row_major; /* elements that conversions move; of roots */
    double channels_last;
    bool has_conv;
} region;

static int32_t root_of(region *r, int32_t id) {
    while (r[id].parent != id) {
        r[id].parent = r[r[id].parent].parent;
        id = r[id].parent;
    }
    return id;
}

static void join(region *r, int32_t a, int32_t b) {
    r[root_of(r, a)].parent = root_of(r, b);
}

/* Whether this argument of an agnostic op is one of its images: not the weight of a convolution,
 * nor an operand that broadcasts. */
static bool is_operand(const tenon_node *node, int use) {
    const tenon_value *value = node->uses[use].value;
    if (!is_image(value) || value->rank != node->outputs[0]->rank)
        return false;
    return !is_convolution(node) || use == 0;
}

static bool made_in_region(const tenon_value *value) {
    return value->kind == TENON_VALUE_NODE && is_agnostic(value->node);
}

static void find_regions(const tenon_graph *graph, region *r) {
    for (const tenon_node *node = graph->first; node; node = node->next) {
        if (!is_agnostic(node) || node->output_count == 0)
            continue;
        int32_t first = -1;
        for (int i = 0; i < node->output_count; i++) {
            const tenon_value *out = node->outputs[i];
            if (!is_image(out))
                continue;
            r[out->id].member = true;
            if (first >= 0)
                join(r, out->id, first);
            first = out->id;
        }
        for (int i = 0; first >= 0 && i < node->use_count; i++)
            if (is_operand(node, i) && made_in_region(node->uses[i].value))
                join(r, node->uses[i].value->id, first);
    }
}

/* Whether a view of row-major memory lies channels-last. */
static bool view_is_channels_last(const tenon_value *value) {
    const tenon_node *node = value->node;
    if (value->kind != TENON_VALUE_NODE || node->op->kind != TN_OP_VIEW)
        return false;
    const tenon_value *x = tn_arg_value(node, 0);
    if (!x || !tn_value_static(x))
        return false;
    tenon_view in = tn_view_make(NULL, x->dtype, x->rank, x->shape);
    tenon_view out = {.dtype = value->dtype, .rank = value->rank};
    memcpy(out.shape, value->shape, (size_t)value->rank * sizeof *out.shape);
    return node->op->view(node, value->index, &in, &out) && tn_view_is_channels_last(&out);
}

/* Whether a consumer outside of the region takes the image channels-last without a conversion. */
static bool takes_channels_last(const tenon_node *user, const tenon_value *value) {
    if (is_agnostic(user))
        return true;
    if (user->op->kind != TN_OP_VIEW)
        return false;
    tenon_view in = {.dtype = value->dtype, .rank = value->rank};
    memcpy(in.shape, value->shape, (size_t)value->rank * sizeof *in.shape);
    tn_channels_last_strides(in.rank, in.shape, in.strides);
    for (int i = 0; i < user->output_count; i++) {
        const tenon_value *y = user->outputs[i];
        tenon_view out = {.dtype = y->dtype, .rank = y->rank};
        if (!tn_value_static(y))
            return false;
        memcpy(out.shape, y->shape, (size_t)y->rank * sizeof *out.shape);
        if (!user->op->view(user, i, &in, &out))
            return false;
    }
    return true;
}

static void count_inputs(region *r, const tenon_node *node) {
    int32_t root = root_of(r, node->outputs[0]->id);
    for (int i = 0; i < node->use_count; i++) {
        const tenon_value *value = node->uses[i].value;
        if (!is_operand(node, i))
            continue;
        double elements = (double)tn_value_numel(value);
        if (is_convolution(node))
            r[root].row_major += elements;
        if (made_in_region(value) || r[value->id].counted)
            continue;
        r[value->id].counted = true;
        if (view_is_channels_last(value))
            r[root].row_major += elements;
        else if (value->kind != TENON_VALUE_CONSTANT)
            r[root].channels_last += elements;
    }
}

static void count_output(region *r, const tenon_value *value) {
    int32_t root = root_of(r, value->id);
    for (const tn_use *use = value->uses; use; use = use->next) {
        if (use->node && takes_channels_last(use->node, value))
            continue;
        r[root].channels_last += (double)tn_value_numel(value);
        return; /* one conversion serves all */
    }
}

static void count_costs(const tenon_graph *graph, region *r) {
    for (const tenon_node *node = graph->first; node; node = node->next) {
        if (!is_agnostic(node) || node->output_count == 0)
            continue;
        if (is_image(node->outputs[0])) {
            bool conv = is_convolution(node);
            region *root = &r[root_of(r, node->outputs[0]->id)];
            root->has_conv |= conv;
            if (conv)
                root->row_major += (double)tn_value_numel(node->outputs[0]);
            count_inputs(r, node);
        }
        for (int i = 0; i < node->output_count; i++)
            if (is_image(node->outputs[i]))
                count_output(r, node->outputs[i]);
    }
}

static void mark(const tenon_graph *graph, region *r, bool *changed) {
    for (const tenon_node *node = graph->first; node; node = node->next) {
        for (int i = 0; i < node->output_count; i++) {
            tenon_value *value = node->outputs[i];
            if (!r[value->id].member || node->op->kind == TN_OP_VIEW)
                continue;
            const region *root = &r[root_of(r, value->id)];
            bool channels_last = root->has_conv && root->channels_last <= root->row_major;
            *changed |= value->channels_last != channels_last;
            value->channels_last = channels_last;
        }
    }
}

tenon_status tn_pass_layout(tenon_graph *graph, bool *changed) {
    region *regions = calloc((size_t)graph->value_count + 1, sizeof *regions);
    if (!regions)
        return tn_no_memory();
    for (int32_t i = 0; i < graph->value_count; i++)
        regions[i].parent = i;
    find_regions(graph, regions);
    count_costs(graph, regions);
    mark(graph, regions, changed);
    free(regions);
    return TENON_OK;
}
