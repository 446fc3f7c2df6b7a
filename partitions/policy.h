/* Within partitions/: what is worth a partition, and the sentences about it. */
#ifndef TN_PARTITIONS_POLICY_H
#define TN_PARTITIONS_POLICY_H

#include "partitions/internal.h"

/* NULL, or why the partition of b->ops[members[0..count)] is not worth its overhead with the
 * options given. */
const char *tn_not_worth(const tn_builder *b, const int32_t *members, int32_t count);

/* Add, Multiply and so on: ops of two operands that fuse behind others. */
bool tn_kind_binary(dnnl_graph_op_kind_t kind);

/* Writes the reason of each partition from set->items[first] on. */
tenon_status tn_explain_partitions(tn_builder *b, tn_partitions *set, int32_t first);

#endif
