/* Within partitions/: what is worth a partition, and the sentences about it. */
#ifndef TN_PARTITIONS_POLICY_H
#define TN_PARTITIONS_POLICY_H

#include "partitions/internal.h"

/* NULL, or why the partition of b->ops[members[0..count)] is not worth its overhead with the
 * options given. */
const char *tn_not_worth(const tn_builder *b, const int32_t *members, int32_t count);

/* Whether the first op of a partition would run in oneDNN's reference code with the others fused
 * behind it. */
bool tn_starts_slowly(const tn_builder *b, const int32_t *members, int32_t count);

/* Whether that would happen to a binary op's partition if the op fused with what makes its
 * operands. */
bool tn_fuses_slowly(const tn_builder *b, const tn_lowered *op);

/* Add, Multiply and so on: ops of two operands that fuse behind others. */
bool tn_kind_binary(dnnl_graph_op_kind_t kind);

/* Writes the reason of each partition from set->items[first] on. */
tenon_status tn_explain_partitions(tn_builder *b, tn_partitions *set, int32_t first);

#endif
