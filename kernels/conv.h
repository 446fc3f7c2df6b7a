/* What the parts of convolution share. Convolutions of one and two dimensions are those of three
 * with sizes of 1. */
#ifndef TN_CONV_H
#define TN_CONV_H

#include "kernels/product.h"

/* One dimension: output j sees input j * step + offset[t] through tap t of the kernel, which is
 * kernel[t]; that input exists for low[t] <= j < high[t]. A transposed convolution with a stride is
 * one such set for each remainder ("phase") of the output's position by the stride: within a phase,
 * it is an ordinary convolution with a part of the taps. */
typedef struct tn_conv_axis {
    int64_t out, in, step;
    int64_t taps;
    int64_t *offset, *kernel, *low, *high; /* `taps` numbers each */
    int64_t first, stride;                 /* output j stands at first + j * stride of the result */
} tn_conv_axis;

/* Strides are in elements: of the batch, the channel, then z, y, x. */
typedef struct tn_conv_array {
    char *data;
    tenon_dtype dtype;
    int64_t batch, channel, space[3];
} tn_conv_array;

typedef struct tn_conv {
    tn_class class; /* of in, weight and bias; `out` has its own dtype */
    int64_t batch, groups, in_channels, out_channels; /* channels of a group */
    int64_t kernel[3], in_size[3], out_size[3], stride[3], padding[3], dilation[3];
    bool transposed;
    bool narrow; /* groups of few channels, which go by rows of pixels whatever the layout */
    tn_conv_array in, out;
    tn_conv_array weight; /* `batch` is its stride by output channel, `channel` by input channel */
    int64_t weight_group; /* its stride by group */
    const char *bias;     /* of the class's type, packed, or NULL */
    tn_conv_axis axis[3];
    int64_t taps;        /* of all three axes */
    int64_t *tap_weight; /* their offsets in the weight */
    bool channel_inner;  /* k counts channels innermost; otherwise taps */
    int64_t pixels;      /* outputs of a channel */
} tn_conv;

/* Packs patches of the input: outer index pixel, inner index k. `user` is the tn_conv; `data` the
 * group's first channel. */
void TN_K(pack_patches)(const tn_operand *operand, void *to, int64_t batch, int64_t first,
                        int64_t count, int64_t k, int64_t depth, int width);
/* Packs the weight: outer index output channel. */
void TN_K(pack_kernel)(const tn_operand *operand, void *to, int64_t batch, int64_t first,
                       int64_t count, int64_t k, int64_t depth, int width);

/* Computes a convolution with one input channel a group, in float, if its layout is one that this
 * knows; false otherwise. */
bool TN_K(depthwise)(tn_call *call, const tn_conv *conv, tenon_status *status);

#endif
