/* What kernels share among themselves, one set for each ISA level. */
#ifndef TN_KERNELS_H
#define TN_KERNELS_H

#include "core/kernel.h"

extern const tn_kernel_fn TN_K(table)[TN_OP_COUNT + 1];

#endif
