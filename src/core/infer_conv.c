/* Shapes of convolutions. Sizes follow PyTorch's documentation of Conv2d and ConvTranspose2d. */
#include "core/activation.h"
#include "core/infer.h"
#include "core/packed.h"
#include "core/window.h"
#include "core/winograd.h"
#include <string.h>

typedef struct conv_rule {
    int n; /* spatial dimensions */
    int64_t stride[3], padding[3], padding_end[3], dilation[3], output_padding[3];
    int64_t groups;
    bool transposed, same;
    tn_meta in, weight, bias;
    bool has_bias;
} conv_rule;

int tn_window_ints(const tenon_node *node, int index, int64_t *out, int n) {
    int count = tn_arg_ints(node, index, out, n);
    if (count == 1) {
        for (int i = 1; i < n; i++)
            out[i] = out[0];
        return n;
    }
    return count;
}

bool tn_conv_size(int64_t in, int64_t kernel, int64_t stride, int64_t begin, int64_t end,
                  int64_t dilation, int64_t *out) {
    __int128 span = (__int128)dilation * (kernel - 1) + 1;
    __int128 room = (__int128)in + begin + end - span;
    if (room < 0)
        return false;
    room = room / stride + 1;
    if (room > INT64_MAX)
        return false;
    *out = (int64_t)room;
    return true;
}

static bool transposed_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding,
                            int64_t dilation, int64_t output_padding, int64_t *out) {
    __int128 size = (__int128)(in - 1) * stride - 2 * (__int128)padding +
                    (__int128)dilation * (kernel - 1) + output_padding + 1;
    if (size < 0 || size > INT64_MAX)
        return false;
    *out = (int64_t)size;
    return true;
}

static tenon_status window_arg(tn_infer *infer, int index, const char *what, int64_t least,
                               int64_t *out, int n) {
    if (tn_window_ints(infer->node, index, out, n) != n)
        return tn_infer_fail(infer, "needs %d numbers as %s", n, what);
    for (int i = 0; i < n; i++) {
        if (out[i] < least)
            return tn_infer_fail(infer, "needs %s of at least %lld, not %lld", what,
                                 (long long)least, (long long)out[i]);
    }
    return TENON_OK;
}

static tenon_status read_tensors(tn_infer *infer, conv_rule *rule) {
    if (!tn_infer_in(infer, 0, &rule->in) || !tn_infer_in(infer, 1, &rule->weight))
        return tn_infer_fail(infer, "needs an input and a weight");
    rule->has_bias = tn_infer_in(infer, 2, &rule->bias);
    if (rule->weight.rank != rule->n + 2)
        return tn_infer_fail(infer, "needs a weight of rank %d, not %d", rule->n + 2,
                             rule->weight.rank);
    if (rule->weight.dtype != rule->in.dtype ||
        (rule->has_bias && rule->bias.dtype != rule->in.dtype))
        return tn_infer_fail(infer, "needs input, weight and bias of one dtype");
    return TENON_OK;
}

static tenon_status check_channels(tn_infer *infer, const conv_rule *rule, int64_t channels,
                                   int64_t *out_channels) {
    const int64_t *w = rule->weight.shape;
    if (rule->groups < 1)
        return tn_infer_fail(infer, "needs groups of at least 1, not %lld",
                             (long long)rule->groups);
    if (w[0] % rule->groups != 0)
        return tn_infer_fail(infer, "needs a weight whose size %lld is a multiple of groups %lld",
                             (long long)w[0], (long long)rule->groups);
    int64_t other; /* the channels that the weight's dimension 1 stands for */
    if (!tn_mul(w[1], rule->groups, &other))
        return tn_infer_fail(infer, "has too many channels");
    int64_t expected = rule->transposed ? w[0] : other;
    *out_channels = rule->transposed ? other : w[0];
    if (channels != expected)
        return tn_infer_fail(infer, "needs an input of %lld channels, not %lld",
                             (long long)expected, (long long)channels);
    if (rule->has_bias && (rule->bias.rank != 1 || rule->bias.shape[0] != *out_channels))
        return tn_infer_fail(infer, "needs a bias of shape [%lld]", (long long)*out_channels);
    return TENON_OK;
}

/* Everything but the tensors has been read into `rule`. */
static tenon_status conv_shape(tn_infer *infer, conv_rule *rule, bool unbatched_allowed) {
    const tn_meta *in = &rule->in;
    int n = rule->n, channel = in->rank - n - 1;
    if (channel != 1 && !(channel == 0 && unbatched_allowed))
        return tn_infer_fail(infer, "needs an input of rank %d, not %d", n + 2, in->rank);
    int64_t out_channels = 0;
    TN_TRY(check_channels(infer, rule, in->shape[channel], &out_channels));
    tn_meta *out = &infer->out[0];
    out->dtype = in->dtype;
    out->rank = in->rank;
    if (channel == 1)
        out->shape[0] = in->shape[0];
    out->shape[channel] = out_channels;
    for (int i = 0; i < n; i++) {
        int64_t size = in->shape[channel + 1 + i], kernel = rule->weight.shape[2 + i];
        int64_t *to = &out->shape[channel + 1 + i];
        if (kernel < 1)
            return tn_infer_fail(infer, "needs a weight without empty dimensions");
        if (rule->same) {
            *to = size;
        } else if (rule->transposed) {
            if (!transposed_size(size, kernel, rule->stride[i], rule->padding[i], rule->dilation[i],
                                 rule->output_padding[i], to))
                return tn_infer_fail(infer, "would have an output of a negative size");
        } else if (!tn_conv_size(size, kernel, rule->stride[i], rule->padding[i],
                                 rule->padding_end[i], rule->dilation[i], to)) {
            return tn_infer_fail(
                infer,
                "needs a padded input of at least the kernel's size: %lld + %lld + %lld "
                "is below %lld taps with dilation %lld",
                (long long)size, (long long)rule->padding[i], (long long)rule->padding_end[i],
                (long long)kernel, (long long)rule->dilation[i]);
        }
    }
    return TENON_OK;
}

/* aten.convolution, and tenon.padded_convolution, which has a padding of its own behind */
tenon_status tn_infer_convolution(tn_infer *infer) {
    conv_rule rule = {0};
    tn_meta in;
    if (!tn_infer_in(infer, 0, &in))
        return tn_infer_fail(infer, "needs an input");
    rule.n = in.rank - 2;
    if (rule.n < 1 || rule.n > 3)
        return tn_infer_fail(infer, "needs an input of rank 3 to 5, not %d", in.rank);
    TN_TRY(read_tensors(infer, &rule));
    TN_TRY(window_arg(infer, 3, "stride", 1, rule.stride, rule.n));
    TN_TRY(window_arg(infer, 4, "padding", 0, rule.padding, rule.n));
    TN_TRY(window_arg(infer, 5, "dilation", 1, rule.dilation, rule.n));
    rule.transposed = tn_arg_bool(infer->node, 6);
    if (rule.transposed)
        TN_TRY(window_arg(infer, 7, "output_padding", 0, rule.output_padding, rule.n));
    rule.groups = tn_arg_int(infer->node, 8, 1);
    memcpy(rule.padding_end, rule.padding, sizeof rule.padding);
    if (infer->op->id == TN_OP_padded_convolution) {
        TN_TRY(window_arg(infer, 9, "padding_end", 0, rule.padding_end, rule.n));
        if (rule.transposed)
            return tn_infer_fail(infer, "has no transposed form");
    }
    return conv_shape(infer, &rule, false);
}

static bool is_vector(tn_infer *infer, int index, int64_t size) {
    tn_meta v;
    return !tn_infer_in(infer, index, &v) ||
           (v.dtype == TENON_FLOAT32 && v.rank == 1 && v.shape[0] == size);
}

static bool is_packed(tn_infer *infer, int index, int64_t rows, int64_t columns) {
    tn_meta w;
    return tn_infer_in(infer, index, &w) && w.dtype == TENON_FLOAT32 && w.rank == 3 &&
           w.shape[0] == (columns + TN_PANEL - 1) / TN_PANEL && w.shape[1] == rows &&
           w.shape[2] == TN_PANEL;
}

/* The weight is a transformed one (core/winograd.h), or packed as that of any convolution. */
static bool is_winograd_weight(tn_infer *infer, const tn_meta *weight, int64_t channels,
                               int64_t in_channels, int64_t tile, int64_t groups) {
    const int64_t *w = weight->shape;
    int64_t panels = (channels / groups + TN_WINOGRAD_PANEL - 1) / TN_WINOGRAD_PANEL;
    if (weight->rank == 3)
        return groups == 1 && is_packed(infer, 1, 9 * in_channels, channels);
    return weight->rank == 5 && weight->dtype == TENON_FLOAT32 && w[0] == groups &&
           w[1] == (tile + 2) * (tile + 2) && w[2] == panels && w[3] == in_channels / groups &&
           w[4] == TN_WINOGRAD_PANEL;
}

tenon_status tn_infer_winograd(tn_infer *infer) {
    tn_meta in, weight, bias, residual;
    tn_activation activation;
    int64_t padding[3];
    if (!tn_infer_in(infer, 0, &in) || !tn_infer_in(infer, 1, &weight) ||
        (in.dtype != TENON_FLOAT32 && in.dtype != TENON_BFLOAT16) || in.rank != 4)
        return tn_infer_fail(infer, "needs an input of rank 4, float32 or bfloat16");
    int64_t channels = tn_arg_int(infer->node, 4, 0), tile = tn_arg_int(infer->node, 5, 0);
    int64_t groups = tn_arg_int(infer->node, 7, 1);
    TN_TRY(window_arg(infer, 6, "padding", 0, padding, 2));
    if (groups < 1 || channels < 1 || channels > INT32_MAX || channels % groups ||
        in.shape[1] > INT32_MAX || in.shape[1] % groups || (tile != 2 && tile != 4) ||
        in.shape[1] / groups < TN_WINOGRAD_CHANNELS || channels / groups < TN_WINOGRAD_CHANNELS ||
        !is_winograd_weight(infer, &weight, channels, in.shape[1], tile, groups))
        return tn_infer_fail(infer,
                             "needs groups of at least %d channels, tiles of 2 or 4, and a float32 "
                             "weight of [groups, 36 or 16, panels, channels, %d], or with one "
                             "group of [panels, 9 * channels, %d]",
                             TN_WINOGRAD_CHANNELS, TN_WINOGRAD_PANEL, TN_PANEL);
    if (!tn_activation_read(infer->node, 8, &activation))
        return tn_infer_fail(infer, "has no activation \"%s\"", tn_arg_string(infer->node, 8));
    tn_meta *out = &infer->out[0];
    *out = in;
    out->shape[1] = channels;
    for (int i = 0; i < 2; i++)
        if (!tn_conv_size(in.shape[2 + i], 3, 1, padding[i], padding[i], 1, &out->shape[2 + i]))
            return tn_infer_fail(infer, "needs a padded input of at least 3x3");
    if (tn_infer_in(infer, 2, &bias) && ((bias.dtype != TENON_FLOAT32 && bias.dtype != in.dtype) ||
                                         bias.rank != 1 || bias.shape[0] != channels))
        return tn_infer_fail(infer, "needs a bias of %lld numbers, float32 or as the input",
                             (long long)channels);
    if (tn_infer_in(infer, 3, &residual) &&
        (residual.dtype != in.dtype || residual.rank != 4 ||
         memcmp(residual.shape, out->shape, 4 * sizeof *out->shape) != 0))
        return tn_infer_fail(infer, "needs a residual of the output's dtype and shape");
    return TENON_OK;
}

/* The weights are packed ones (core/packed.h). The second output has the means of the first. */
tenon_status tn_infer_depthwise(tn_infer *infer) {
    tn_meta in, weight;
    tn_activation activation;
    int64_t kernel[2], stride[2], padding[4];
    if (!tn_infer_in(infer, 0, &in) || in.rank != 4 || in.shape[1] < 1 || in.shape[2] < 1 ||
        in.shape[3] < 1 ||
        (in.dtype != TENON_FLOAT32 &&
         (in.dtype != TENON_BFLOAT16 || !tn_arg_is_none(infer->node, 1))))
        return tn_infer_fail(infer,
                             "needs a float32 image, or without an expansion a bfloat16 one");
    int64_t channels = tn_arg_int(infer->node, 8, 0);
    TN_TRY(window_arg(infer, 9, "kernel_size", 1, kernel, 2));
    TN_TRY(window_arg(infer, 10, "stride", 1, stride, 2));
    TN_TRY(window_arg(infer, 11, "padding", 0, padding, 4));
    if (kernel[0] > TN_DEPTHWISE_TAPS || kernel[1] > TN_DEPTHWISE_TAPS)
        return tn_infer_fail(infer, "needs a window of at most %d taps a side", TN_DEPTHWISE_TAPS);
    if (channels < 1 || channels > INT32_MAX ||
        !is_packed(infer, 6, kernel[0] * kernel[1], channels))
        return tn_infer_fail(infer, "needs a weight of [panels, taps, %d]", TN_PANEL);
    if (tn_infer_in(infer, 1, &weight) ? !is_packed(infer, 1, in.shape[1], channels)
                                       : in.shape[1] != channels)
        return tn_infer_fail(infer, "needs an input of its channels, or a weight that expands it");
    if (!is_vector(infer, 2, channels) || !is_vector(infer, 7, channels))
        return tn_infer_fail(infer, "needs float32 biases of %lld numbers", (long long)channels);
    if (!tn_activation_read(infer->node, 3, &activation) ||
        !tn_activation_read(infer->node, 12, &activation))
        return tn_infer_fail(infer, "has no such activation");
    tn_meta *out = infer->out;
    out[0] = out[1] = in;
    out[0].shape[1] = out[1].shape[1] = channels;
    for (int i = 0; i < 2; i++) {
        out[1].shape[2 + i] = 1;
        if (!tn_conv_size(in.shape[2 + i], kernel[i], stride[i], padding[i], padding[2 + i], 1,
                          &out[0].shape[2 + i]))
            return tn_infer_fail(infer, "needs a padded input of at least the kernel's size");
    }
    return TENON_OK;
}

/* Two layers over one pixel an image, with packed weights. */
tenon_status tn_infer_squeeze_excitation(tn_infer *infer) {
    tn_meta mean, *out = &infer->out[0];
    tn_activation activation;
    int64_t first = tn_arg_int(infer->node, 3, 0), second = tn_arg_int(infer->node, 9, 0);
    if (!tn_infer_in(infer, 0, &mean) || mean.rank != 4 ||
        (mean.dtype != TENON_FLOAT32 && mean.dtype != TENON_BFLOAT16) || mean.shape[2] != 1 ||
        mean.shape[3] != 1 || mean.shape[1] < 1)
        return tn_infer_fail(infer, "needs float32 or bfloat16 means of [batch, channels, 1, 1]");
    if (first < 1 || second < 1 || first > INT32_MAX || second > INT32_MAX ||
        !is_packed(infer, 1, mean.shape[1], first) || !is_packed(infer, 7, first, second) ||
        !is_vector(infer, 2, first) || !is_vector(infer, 8, second))
        return tn_infer_fail(infer, "needs weights of [panels, channels, %d], and biases",
                             TN_PANEL);
    if (!tn_activation_read(infer->node, 4, &activation) ||
        !tn_activation_read(infer->node, 10, &activation))
        return tn_infer_fail(infer, "has no such activation");
    *out = mean;
    out->shape[1] = second;
    return TENON_OK;
}

/* A convolution with a packed weight, of an image whose channels may be scaled. */
tenon_status tn_infer_packed_convolution(tn_infer *infer) {
    tn_meta in, scale, residual, *out = &infer->out[0];
    tn_activation activation;
    int64_t kernel[2], stride[2], padding[4], depth;
    int64_t channels = tn_arg_int(infer->node, 5, 0);
    if (!tn_infer_in(infer, 0, &in) || in.dtype != TENON_FLOAT32 || in.rank != 4 || in.shape[1] < 1)
        return tn_infer_fail(infer, "needs a float32 image");
    if (tn_infer_in(infer, 1, &scale) &&
        (scale.dtype != TENON_FLOAT32 || scale.rank != 4 || scale.shape[0] != in.shape[0] ||
         scale.shape[1] != in.shape[1] || scale.shape[2] != 1 || scale.shape[3] != 1))
        return tn_infer_fail(infer, "needs a float32 scale for each channel of each image");
    TN_TRY(window_arg(infer, 6, "kernel_size", 1, kernel, 2));
    TN_TRY(window_arg(infer, 7, "stride", 1, stride, 2));
    TN_TRY(window_arg(infer, 8, "padding", 0, padding, 4));
    if (channels < 1 || channels > INT32_MAX || !tn_mul(kernel[0], kernel[1], &depth) ||
        !tn_mul(depth, in.shape[1], &depth) || !is_packed(infer, 2, depth, channels) ||
        !is_vector(infer, 3, channels))
        return tn_infer_fail(infer, "needs a weight of [panels, taps * channels, %d], and a bias",
                             TN_PANEL);
    if (!tn_activation_read(infer->node, 9, &activation))
        return tn_infer_fail(infer, "has no such activation");
    *out = in;
    out->shape[1] = channels;
    for (int i = 0; i < 2; i++)
        if (!tn_conv_size(in.shape[2 + i], kernel[i], stride[i], padding[i], padding[2 + i], 1,
                          &out->shape[2 + i]))
            return tn_infer_fail(infer, "needs a padded input of at least the kernel's size");
    if (tn_infer_in(infer, 4, &residual) &&
        (residual.dtype != TENON_FLOAT32 || residual.rank != 4 ||
         memcmp(residual.shape, out->shape, 4 * sizeof *out->shape) != 0))
        return tn_infer_fail(infer, "needs a float32 residual of the output's shape");
    return TENON_OK;
}

/* ---- Images of parts ---- */

static bool is_image(const tn_meta *meta) {
    return meta->dtype == TENON_FLOAT32 && meta->rank == 4;
}

/* A cat along the channels, of images. */
static tenon_status joined_images(tn_infer *infer, bool alike) {
    int count = tn_infer_length(infer, 0);
    tn_meta in, *out = &infer->out[0];
    if (count == 0)
        return tn_infer_fail(infer, "needs at least one image");
    for (int i = 0; i < count; i++) {
        if (infer->node->args[0].as.list[i].kind != TENON_ARG_VALUE ||
            !tn_infer_item(infer, 0, i, &in) || !is_image(&in))
            return tn_infer_fail(infer, "item %d must be a float32 image", i);
        int64_t channels = i ? out->shape[1] : 0, first = i ? out->shape[1] / i : in.shape[1];
        if (i && (in.shape[0] != out->shape[0] || memcmp(in.shape + 2, out->shape + 2, 16) != 0 ||
                  (alike && in.shape[1] != first)))
            return tn_infer_fail(infer, "item %d has another size than the ones before", i);
        *out = in;
        if (!tn_add(channels, in.shape[1], &out->shape[1]))
            return tn_infer_fail(infer, "the sum of the channels is too large");
    }
    return TENON_OK;
}

tenon_status tn_infer_interleave(tn_infer *infer) {
    return joined_images(infer, true);
}

tenon_status tn_infer_scaled_cat(tn_infer *infer) {
    tn_activation activation;
    TN_TRY(joined_images(infer, false));
    int64_t channels = infer->out[0].shape[1];
    if (!is_vector(infer, 1, channels) || !is_vector(infer, 2, channels))
        return tn_infer_fail(infer, "needs a float32 scale and shift of %lld numbers",
                             (long long)channels);
    if (!tn_activation_read(infer->node, 3, &activation))
        return tn_infer_fail(infer, "has no such activation");
    return TENON_OK;
}

/* An image of so many groups of channels, as argument `index` says. */
static tenon_status read_groups(tn_infer *infer, int index, tn_meta *out) {
    int64_t groups = tn_arg_int(infer->node, index, 0);
    if (!tn_infer_in(infer, 0, out) || !is_image(out) || out->shape[2] < 1 || out->shape[3] < 1)
        return tn_infer_fail(infer, "needs a float32 image");
    if (groups < 1 || out->shape[1] % groups)
        return tn_infer_fail(infer, "needs groups of equally many channels");
    out->shape[1] /= groups;
    return TENON_OK;
}

tenon_status tn_infer_split_mean(tn_infer *infer) {
    tn_meta *out = &infer->out[0];
    TN_TRY(read_groups(infer, 1, out));
    out->shape[2] = out->shape[3] = 1;
    return TENON_OK;
}

tenon_status tn_infer_split_sum(tn_infer *infer) {
    tn_meta *out = &infer->out[0], scale;
    TN_TRY(read_groups(infer, 2, out));
    const int64_t want[] = {out->shape[0], tn_arg_int(infer->node, 2, 0), out->shape[1], 1, 1};
    if (!tn_infer_in(infer, 1, &scale) || scale.dtype != TENON_FLOAT32 || scale.rank != 5 ||
        memcmp(scale.shape, want, sizeof want) != 0)
        return tn_infer_fail(infer, "needs a float32 scale of [batch, groups, channels, 1, 1]");
    return TENON_OK;
}

/* conv1d, conv2d, conv3d */
tenon_status tn_infer_conv_nd(tn_infer *infer) {
    conv_rule rule = {.n = infer->op->params[3].fixed};
    TN_TRY(read_tensors(infer, &rule));
    TN_TRY(window_arg(infer, 3, "stride", 1, rule.stride, rule.n));
    TN_TRY(window_arg(infer, 4, "padding", 0, rule.padding, rule.n));
    TN_TRY(window_arg(infer, 5, "dilation", 1, rule.dilation, rule.n));
    memcpy(rule.padding_end, rule.padding, sizeof rule.padding);
    rule.groups = tn_arg_int(infer->node, 6, 1);
    return conv_shape(infer, &rule, true);
}

/* conv1d.padding, conv2d.padding, conv3d.padding: padding is "valid" or "same". */
tenon_status tn_infer_conv_nd_padding(tn_infer *infer) {
    conv_rule rule = {.n = infer->op->params[3].fixed};
    TN_TRY(read_tensors(infer, &rule));
    TN_TRY(window_arg(infer, 3, "stride", 1, rule.stride, rule.n));
    TN_TRY(window_arg(infer, 5, "dilation", 1, rule.dilation, rule.n));
    const char *padding = tn_arg_string(infer->node, 4);
    if (padding && strcmp(padding, "same") == 0) {
        rule.same = true;
        for (int i = 0; i < rule.n; i++) {
            if (rule.stride[i] != 1)
                return tn_infer_fail(infer, "needs stride 1 with padding \"same\"");
        }
    } else if (!padding || strcmp(padding, "valid") != 0) {
        return tn_infer_fail(infer, "needs padding \"valid\" or \"same\", not \"%s\"",
                             padding ? padding : "");
    }
    rule.groups = tn_arg_int(infer->node, 6, 1);
    return conv_shape(infer, &rule, true);
}

/* conv_transpose1d, conv_transpose2d.input, conv_transpose3d.input */
tenon_status tn_infer_conv_transpose_nd(tn_infer *infer) {
    conv_rule rule = {.n = infer->op->params[3].fixed, .transposed = true};
    TN_TRY(read_tensors(infer, &rule));
    TN_TRY(window_arg(infer, 3, "stride", 1, rule.stride, rule.n));
    TN_TRY(window_arg(infer, 4, "padding", 0, rule.padding, rule.n));
    TN_TRY(window_arg(infer, 5, "output_padding", 0, rule.output_padding, rule.n));
    rule.groups = tn_arg_int(infer->node, 6, 1);
    TN_TRY(window_arg(infer, 7, "dilation", 1, rule.dilation, rule.n));
    return conv_shape(infer, &rule, true);
}
