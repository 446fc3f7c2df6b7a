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
    /* Windows at regular places: output j takes first + j * stride + t * step for t below `taps`,
     * where that lies inside. 0 taps: windows have no rule. */
    int64_t taps, stride, first;
} tn_pool_axis;

/* The outputs that tap t reaches: low <= j < high. */
static inline int64_t tn_pool_low(const tn_pool_axis *a, int64_t t) {
    int64_t offset = a->first + t * a->step;
    return offset >= 0 ? 0 : (-offset + a->stride - 1) / a->stride;
}
static inline int64_t tn_pool_high(const tn_pool_axis *a, int64_t t) {
    int64_t room = a->in - 1 - a->first - t * a->step;
    int64_t high = room < 0 ? 0 : room / a->stride + 1;
    return high < a->out ? high : a->out;
}

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
