/* The form in which a constant weight is packed for Tenon's own products. */
#ifndef TN_PACKED_H
#define TN_PACKED_H

#include <stdint.h>

/* A weight [n, k] becomes [panels, k, TN_PANEL]: panels of neighbouring columns of the product, so
 * that it is read once, from front to end. Columns from n on are zeros. From TN_PAIRS panels on
 * their number is even. */
#define TN_PANEL 32
#define TN_PAIRS 8

static inline int64_t tn_packed_panels(int64_t n) {
    int64_t panels = (n + TN_PANEL - 1) / TN_PANEL;
    return panels < TN_PAIRS ? panels : (panels + 1) / 2 * 2;
}

/* The weights of convolutions in panels, and of squeeze-and-excitation, are never padded to an even
 * number of them. The most rows and columns of a window that tenon.depthwise_convolution knows: */
#define TN_DEPTHWISE_TAPS 7

#endif
