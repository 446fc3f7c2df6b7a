/* What part of a step's time each of its nodes took: an estimate. */
#ifndef TN_SHARE_H
#define TN_SHARE_H

#include "run/plan.h"

/* Time goes by arithmetic and bytes: the node's floating-point operations, and as many for each
 * byte that it reads from or writes to memory as take about the time of a byte. What stays inside
 * the partition is not moved. */
double tn_node_weight(const tn_plan *plan, const tn_partition *partition, const tenon_node *node);

/* Shares `total` out among the nodes of a step of the plan. Every node gets 1 at least when there
 * is enough; the shares sum to `total`. */
void tn_share_time(const tn_plan *plan, const tn_step *step, int64_t total, int64_t *shares);

#endif
