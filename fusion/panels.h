/* Convolutions of images whose weights Tenon's own kernels take in panels (core/packed.h). */
#ifndef TN_PANELS_H
#define TN_PANELS_H

#include "core/graph.h"

typedef struct tn_convolution {
    tenon_value *x, *weight, *bias;                   /* bias: NULL when there is none */
    int64_t kernel[2], stride[2], padding[4], groups; /* padding: top, left, bottom, right */
} tn_convolution;

/* Reads a convolution of images of that dtype with a channels-last result, not transposed or
 * dilated, with a constant row-major weight. False for any other node. */
bool tn_convolution_read(const tenon_node *node, tenon_dtype dtype, tn_convolution *out);
/* Whether it is a product of each pixel with one matrix. */
bool tn_convolution_is_product(const tn_convolution *c);
/* Makes weight and bias float32. */
tenon_status tn_convolution_widen(tn_convolution *c);
/* Packs a weight [n, ...], float32, of any strides with two dimensions and row-major with more,
 * into [panels, k, TN_PANEL], where k counts all but the first dimension. `panels` is an int64_t,
 * at least as many as hold n columns; a tn_derive_fn. */
tenon_status tn_pack_panels(const tenon_view *from, const void *panels, tenon_tensor **out);
/* The weight [n, ...] as a constant [panels, k, TN_PANEL], where k counts all but the first
 * dimension. It is made once for each weight. */
tenon_status tn_packed_weight(const tenon_value *weight, tenon_value **out);

#endif
