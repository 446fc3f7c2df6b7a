/* Products with constant weights, and how their weights are scaled: convolutions (transposed and
 * grouped ones too), linear, mm and addmm. */
#ifndef TN_SCALED_H
#define TN_SCALED_H

#include "fusion/rewrite.h"

typedef struct tn_product {
    tenon_node *node;
    tenon_value *weight, *bias; /* constants; bias may be NULL */
    tenon_value *waiting;       /* what multiplies the weight, if it waits for that (weights.h) */
    int64_t in, out;            /* channels */
    double alpha, beta;         /* of addmm: y = alpha * x w + beta * bias */
} tn_product;

/* Reads a product whose weight, and bias if it has one, are floating-point constants of known
 * sizes. */
bool tn_product_read(tenon_node *node, tn_product *product);
/* Element `channel` of the bias, with beta; 0 when there is none. */
double tn_product_bias(const tn_product *product, int64_t channel);
/* Element `index` of a constant of at most one dimension that is not 1; `other` when it is NULL. */
double tn_channel_element(const tenon_value *value, int64_t index, double other);

/* Whether argument `index` is a constant of one number for each channel; or, if that may be, none.
 */
bool tn_is_channel_vector(const tenon_node *node, int index, int64_t channels, bool optional);

/* Emits before `at`, of `x` (NULL: what the product reads) and new constants:
 *
 *     w'[o, i] = w[o, i] * scale[o]     (over_inputs: scale[i])
 *     b'[o]    = bias[o]                (NULL: no bias)
 *
 * computed in double and rounded once; a large convolution's weight waits. alpha and beta are 1
 * afterwards. */
tenon_status tn_product_scaled(const tn_product *product, tenon_node *at, tenon_value *x,
                               const double *scale, bool over_inputs, const double *bias,
                               tenon_value **out);

#endif
