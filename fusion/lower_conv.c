/* Convolutions under their many names become aten.convolution; pooling with indices that nobody
 * reads loses them.
 *
 *     conv2d(x, w, b, stride, padding, dilation, groups)
 *         ->  convolution(x, w, b, stride, padding, dilation, false, [0, 0], groups)
 *     max_pool2d_with_indices(x, ...)[0]  ->  max_pool2d(x, ...)
 */
#include "fusion/lower.h"
#include <string.h>

typedef struct conv {
    tenon_value *x, *w;
    tenon_arg bias;
    int dims; /* of space */
    int64_t stride[3], padding[3], dilation[3], extra[3];
    bool transposed;
    int64_t output_padding[3];
    int64_t groups;
} conv;

/* padding="same" takes d*(k-1) in all, its smaller half in front; what is left over is padded
 * beforehand (torch.nn.functional.conv2d). */
static bool same_padding(conv *c) {
    if (!tn_value_static(c->w) || c->w->rank != c->dims + 2)
        return false;
    for (int i = 0; i < c->dims; i++) {
        int64_t total;
        if (!tn_mul(c->dilation[i], c->w->shape[i + 2] - 1, &total) || total < 0)
            return false;
        c->padding[i] = total / 2;
        c->extra[i] = total % 2;
    }
    return true;
}

/* In the simplest case one convolution. Without a batch:
 *
 *     x -- unsqueeze -- convolution -- squeeze
 *
 * and for an even kernel with padding="same":
 *
 *     x -- constant_pad_nd(extra) -- convolution
 */
static tenon_status emit_conv(tenon_node *node, const conv *c, tenon_value **with) {
    tenon_value *x = c->x, *y;
    bool unbatched = x->rank == c->dims + 1;
    bool pads = false;
    tenon_arg lists[5][6];
    int64_t around[6] = {0};
    for (int i = 0; i < c->dims; i++) {
        around[2 * (c->dims - 1 - i) + 1] = c->extra[i];
        pads |= c->extra[i] > 0;
    }
    if (unbatched)
        TN_TRY(tn_emit(node, TN_OP_unsqueeze, &x, TN_ARGS(VAL(x), INT(0))));
    if (pads)
        TN_TRY(tn_emit(node, TN_OP_constant_pad_nd, &x,
                       TN_ARGS(VAL(x), tn_ints(lists[4], around, 2 * c->dims), FLT(0))));
    TN_TRY(tn_emit(node, TN_OP_convolution, &y,
                   TN_ARGS(VAL(x), VAL(c->w), c->bias, tn_ints(lists[0], c->stride, c->dims),
                           tn_ints(lists[1], c->padding, c->dims),
                           tn_ints(lists[2], c->dilation, c->dims), BOO(c->transposed),
                           tn_ints(lists[3], c->output_padding, c->dims), INT(c->groups))));
    if (unbatched)
        TN_TRY(tn_emit(node, TN_OP_squeeze_dim, &y, TN_ARGS(VAL(y), INT(0))));
    with[0] = y;
    return TENON_OK;
}

static bool ints(const tenon_node *node, int index, int64_t *out, int count) {
    return tn_arg_ints_of(node, index, out, count) == count;
}

static tenon_status lower_conv(tenon_node *node, tenon_value **with, int dims) {
    conv c = {.x = tn_arg_value(node, 0),
              .w = tn_arg_value(node, 1),
              .bias = node->args[2],
              .dims = dims};
    const char *mode = node->args[4].kind == TENON_ARG_STRING ? tn_arg_string(node, 4) : NULL;
    if (!c.x || !c.w || !ints(node, 3, c.stride, dims) || !ints(node, 5, c.dilation, dims) ||
        node->args[6].kind != TENON_ARG_INT)
        return TENON_OK;
    c.groups = node->args[6].as.i;
    if (mode && strcmp(mode, "same") == 0) {
        if (!same_padding(&c))
            return TENON_OK;
    } else if (mode && strcmp(mode, "valid") != 0) {
        return tn_pass_refuse(node, "padding '%s' is neither 'same' nor 'valid'", mode);
    } else if (!mode && !ints(node, 4, c.padding, dims)) {
        return TENON_OK;
    }
    return emit_conv(node, &c, with);
}

static tenon_status lower_conv_transpose(tenon_node *node, tenon_value **with, int dims) {
    conv c = {.x = tn_arg_value(node, 0),
              .w = tn_arg_value(node, 1),
              .bias = node->args[2],
              .dims = dims,
              .transposed = true};
    if (!c.x || !c.w || !ints(node, 3, c.stride, dims) || !ints(node, 4, c.padding, dims) ||
        !ints(node, 5, c.output_padding, dims) || node->args[6].kind != TENON_ARG_INT ||
        !ints(node, 7, c.dilation, dims))
        return TENON_OK;
    c.groups = node->args[6].as.i;
    return emit_conv(node, &c, with);
}

tenon_status tn_lower_conv1d(tenon_node *node, tenon_value **with) {
    return lower_conv(node, with, 1);
}

tenon_status tn_lower_conv2d(tenon_node *node, tenon_value **with) {
    return lower_conv(node, with, 2);
}

tenon_status tn_lower_conv3d(tenon_node *node, tenon_value **with) {
    return lower_conv(node, with, 3);
}

tenon_status tn_lower_conv_transpose1d(tenon_node *node, tenon_value **with) {
    return lower_conv_transpose(node, with, 1);
}

tenon_status tn_lower_conv_transpose2d(tenon_node *node, tenon_value **with) {
    return lower_conv_transpose(node, with, 2);
}

tenon_status tn_lower_conv_transpose3d(tenon_node *node, tenon_value **with) {
    return lower_conv_transpose(node, with, 3);
}

/* When nobody reads %i:
 *
 *     %y, %i = max_pool2d_with_indices(%x, ...)     ->     %y = max_pool2d(%x, ...)
 */
static tenon_status without_indices(tenon_node *node, tenon_value **with, enum tn_op_id op) {
    if (node->outputs[1]->use_count)
        return TENON_OK;
    return tn_emit(node, op, &with[0], node->args, node->op->param_count);
}

tenon_status tn_lower_max_pool2d(tenon_node *node, tenon_value **with) {
    return without_indices(node, with, TN_OP_max_pool2d);
}

tenon_status tn_lower_max_pool3d(tenon_node *node, tenon_value **with) {
    return without_indices(node, with, TN_OP_max_pool3d);
}

static tenon_status flat_planes(tenon_node *node, tenon_value *value, tenon_value **out) {
    int64_t shape[TENON_MAX_RANK];
    int last = value->rank - 2;
    memcpy(shape, value->shape, sizeof shape);
    shape[last] = value->shape[last] * value->shape[last + 1];
    return tn_emit_view(node, value, shape, last + 1, out);
}

/* Each gradient goes to where its maximum was, in a plane of zeros. */
tenon_status tn_lower_max_pool_backward(tenon_node *node, tenon_value **with) {
    tenon_value *grad = tn_arg_value(node, 0), *self = tn_arg_value(node, 1);
    tenon_value *indices = tn_arg_value(node, 7), *sums;
    tenon_arg sizes[TENON_MAX_RANK];
    if (!tn_value_static(grad) || !tn_value_static(self) || !tn_value_static(indices))
        return TENON_OK;
    TN_TRY(tn_emit(node, TN_OP_full, &sums,
                   TN_ARGS(tn_ints(sizes, self->shape, self->rank), INT(0), DTY(self->dtype))));
    TN_TRY(flat_planes(node, sums, &sums));
    TN_TRY(flat_planes(node, grad, &grad));
    TN_TRY(flat_planes(node, indices, &indices));
    TN_TRY(tn_emit(node, TN_OP_scatter_add, &sums,
                   TN_ARGS(VAL(sums), INT(-1), VAL(indices), VAL(grad))));
    return tn_emit_view(node, sums, self->shape, self->rank, with);
}
