/* Copies between strided views, for any kernel. */
#ifndef TN_COPY_H
#define TN_COPY_H

#include "kernels/kernels.h"

/* Copies `in`, broadcast to `out`'s shape and converted to its dtype as PyTorch converts;
 * vectorised, threaded, and in blocks where the one is a transpose of the other. They do not
 * overlap, or are the same view. */
void TN_K(copy_view)(int threads, const tenon_view *out, const tenon_view *in);

#endif
