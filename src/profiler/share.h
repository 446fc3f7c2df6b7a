/* What part of a step's time each of its nodes took: an estimate. */
#ifndef TN_SHARE_H
#define TN_SHARE_H

#include "core/graph.h"

/* Shares `total` out among the nodes in the ratio of the floating-point operations plus the bytes
 * of what each reads and writes. Every node gets 1 at least when there is enough; the shares sum to
 * `total`. */
void tn_share_time(const tenon_node *const *nodes, int count, int64_t total, int64_t *shares);

#endif
