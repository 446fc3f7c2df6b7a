/* Sliding windows: what shape rules and kernels of convolution and pooling share. */
#ifndef TN_WINDOW_H
#define TN_WINDOW_H

#include "core/graph.h"

/* Integers of list argument `index`: `n` of them, or one that stands for `n`. Returns `n`, or
 * another number when the argument has neither length. */
int tn_window_ints(const tenon_node *node, int index, int64_t *out, int n);

/* The number of places for a window, with padding at the begin and the end; false when not even one
 * fits. `stride` and `dilation` are at least 1. */
bool tn_conv_size(int64_t in, int64_t kernel, int64_t stride, int64_t begin, int64_t end,
                  int64_t dilation, int64_t *out);

/* A pooling window over the last `n` dimensions. */
typedef struct tn_pool_window {
    int n;
    int64_t kernel[3], stride[3], padding[3], dilation[3];
    bool ceil;
} tn_pool_window;

/* Reads the arguments of an avg_pool or max_pool node (`max` tells which). False when a list has a
 * wrong length. */
bool tn_pool_window_read(const tenon_node *node, bool max, tn_pool_window *window);

#endif
