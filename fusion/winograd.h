/* Weights of Winograd's convolution. */
#ifndef TN_FUSION_WINOGRAD_H
#define TN_FUSION_WINOGRAD_H

#include "fusion/weights.h"

/* The weight [out, in of a group, 3, 3], float32 or bfloat16, as tenon.winograd_convolution takes
 * it (core/winograd.h), for tiles of `tile` x `tile` outputs, 4 or 2. Made once for each weight;
 * the caller destroys it. */
tenon_status tn_winograd_weight(const tn_weight *weight, int tile, int64_t groups,
                                tenon_tensor **out);

#endif
