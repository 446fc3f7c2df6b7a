/* Within partitions/: what is worth a partition, and the sentences about it. */
#ifndef TN_PARTITIONS_POLICY_H
#define TN_PARTITIONS_POLICY_H

#include "partitions/internal.h"

/* Whether the partition of b->ops[members[0..count)] is worth its overhead with the options given;
 * `why` says why not. */
bool tn_worth(const tn_builder *b, const int32_t *members, int32_t count, tn_why *why);

/* Why the first op of a partition would run in oneDNN's reference code with the others fused
 * behind it; NULL when it would not. */
const tn_why *tn_starts_slowly(const tn_builder *b, const int32_t *members, int32_t count);

/* Whether that would happen to a binary op's partition if the op fused with what makes its
 * operands. */
bool tn_fuses_slowly(const tn_builder *b, const tn_lowered *op);

/* Elements of one of the builder's tensors. */
int64_t tn_elements(const tn_builder *b, int32_t tensor);

/* Add, Multiply and so on: ops of two operands that fuse behind others. */
bool tn_kind_binary(dnnl_graph_op_kind_t kind);

/* Ops that oneDNN fuses others behind, but hardly ever behind others: products, norms, poolings,
 * reductions. */
bool tn_kind_starts(dnnl_graph_op_kind_t kind);

/* ---- wrong.c ---- */

/* Why a binary op must not be fused with what makes its operand `k`, since it would be computed
 * wrongly; NULL when it may. A chain of ops may lie between the two, whose second operands may be
 * chains too. */
const tn_why *tn_fuses_wrongly(const tn_builder *b, const tn_lowered *op, int k);

/* ---- why.c ---- */

/* Adds what the operands of `node` are to the sentence of its refusal, where that tells more. */
void tn_why_operands(tn_builder *b, const tenon_node *node);

/* Writes reason and boundaries of each partition from set->items[first] on. */
tenon_status tn_explain_partitions(tn_builder *b, tn_partitions *set, int32_t first);

#endif
