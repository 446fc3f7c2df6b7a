/* What the parts of pooling share. All pooling is over three dimensions, those that are missing
 * having size 1. */
#ifndef TN_POOL_H
#define TN_POOL_H

#include "kernels/product.h"

/* One dimension: output j takes inputs start[j], start[j] + step, ... below end[j]; extent[j] is
 * what it counts for in an average. */
typedef struct tn_pool_axis {
    int64_t in, out, step;
    int64_t *start, *end, *extent; /* `out` numbers each */
} tn_pool_axis;

typedef struct tn_pool {
    bool max;
    double divisor; /* of averages, unless 0: then the product of the extents */
    int64_t batch, channels;
    tn_pool_axis axis[3];
    /* Strides in elements. */
    int64_t in_batch, in_channel, in_space[3];
    int64_t out_batch, out_channel, out_space[3];
} tn_pool;

static inline double tn_pool_divisor(const tn_pool *p, int64_t z, int64_t y, int64_t x) {
    return p->divisor != 0
               ? p->divisor
               : (double)(p->axis[0].extent[z] * p->axis[1].extent[y] * p->axis[2].extent[x]);
}

#endif
