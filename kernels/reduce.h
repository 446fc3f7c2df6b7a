/* How a reduction walks its input: kept dimensions (array 0: in, array 1: out) around reduced ones.
 */
#ifndef TN_REDUCE_H
#define TN_REDUCE_H

#include "core/rules.h"
#include "kernels/block.h"

typedef struct tn_reduction {
    tn_walk kept;    /* array 0: in, arrays 1 and 2: outputs */
    tn_walk reduced; /* array 0: in */
    int64_t n;       /* elements that one result is made of */
} tn_reduction;

/* Splits the dimensions of `in` by `mask` (bit d: reduced). `out` and `out2` (may be NULL) are with
 * or without the reduced ones. `order` keeps the reduced dimensions in their order. */
tn_reduction TN_K(reduction)(const tenon_view *in, uint32_t mask, const tenon_view *out,
                             const tenon_view *out2, bool order);

/* The mean and the biased variance over the dimensions of `mask`, one after the other in row-major
 * order of the rest. */
void TN_K(moments)(const tn_call *call, const tenon_view *in, uint32_t mask, double *mean,
                   double *variance);

#endif
