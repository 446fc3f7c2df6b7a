/* Weights of convolutions that wait to be scaled. Batch norm multiplies each output channel's
 * weights by a number. Where the weight is large, the product stays a node:
 *
 *     %s = aten.mul.Tensor(%w, %scale)          scale: [channels, 1, 1, 1]
 *     %y = aten.convolution(%x, %s, ...)
 *
 * so that who packs or transforms the weight scales it on the way, and no scaled copy is in memory.
 * What is left at the end is computed by the pass "weights". */
#ifndef TN_WEIGHTS_H
#define TN_WEIGHTS_H

#include "core/derive.h"
#include "core/graph.h"

typedef struct tn_weight {
    tenon_value *values; /* a constant: a convolution's weight, not transposed */
    tenon_value *scale;  /* a constant of one number for each of its rows; NULL: 1 */
} tn_weight;

/* Whether the node makes a weight that waits. */
bool tn_weight_waits(const tenon_node *node);
/* Reads a constant, or a weight that waits. False for other values. */
bool tn_weight_read(tenon_value *value, tn_weight *out);
/* The scales as an array; NULL: there are none. */
const float *tn_weight_scales(const tn_weight *weight);
/* Emits before `at` the weight times scale[row], computed later; `*out` stays NULL where the weight
 * is too small to wait, or is no float32 one, or a scale is no normal number. */
tenon_status tn_weight_wait(tenon_node *at, const tn_weight *weight, const double *scale,
                            tenon_value **out);
/* tn_tensor_derive of the values; `user` has to hold what tn_weight_scales gives. */
tenon_status tn_weight_derive(const tn_weight *weight, const char *kind, tn_derive_fn make,
                              const void *user, tenon_tensor **out);
/* The scaled weight as a constant of its graph. It is made once. */
tenon_status tn_weight_settle(const tn_weight *weight, tenon_value **out);

#endif
