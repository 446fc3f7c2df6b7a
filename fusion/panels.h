/* Convolutions of images whose weights Tenon's own kernels take in panels (core/packed.h). */
#ifndef TN_PANELS_H
#define TN_PANELS_H

#include "fusion/post_ops.h"
#include "fusion/weights.h"

typedef struct tn_convolution {
    tenon_value *x, *bias; /* bias: NULL when there is none */
    tn_weight weight;
    int64_t kernel[2], stride[2], padding[4], groups; /* padding: top, left, bottom, right */
} tn_convolution;

/* Reads a convolution of images of that dtype with a channels-last result, not transposed or
 * dilated, with a constant row-major weight. False for any other node. */
bool tn_convolution_read(const tenon_node *node, tenon_dtype dtype, tn_convolution *out);
/* Whether it is a product of each pixel with one matrix. */
bool tn_convolution_is_product(const tn_convolution *c);
/* Makes weight and bias float32. */
tenon_status tn_convolution_widen(tn_convolution *c);

typedef struct tn_packing {
    int64_t panels;     /* at least as many as hold all rows of the weight */
    const float *scale; /* of each row; NULL: none */
} tn_packing;

/* Packs a weight [n, channels, ...], float32, of any strides with two dimensions and row-major with
 * more, into [panels, k, TN_PANEL], where k counts all but the first dimension, channels
 * innermost. A tn_derive_fn. */
tenon_status tn_pack_panels(const tenon_view *from, const void *packing, tenon_tensor **out);
/* The weight so packed, as a constant. It is made once for each weight. */
tenon_status tn_packed_weight(const tn_weight *weight, tenon_value **out);
/* Puts tenon.packed_convolution in the place of `node`, which is `c`, and of what joins it; of the
 * image `x` scaled by `scale` (NULL: as it is) instead of c->x. */
tenon_status tn_convolution_pack(tenon_node *node, const tn_convolution *c, tenon_value *x,
                                 tenon_value *scale);

#endif
