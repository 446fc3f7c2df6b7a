/* Within partitions/: from partitions found to partitions that run. */
#ifndef TN_PARTITIONS_ORDER_H
#define TN_PARTITIONS_ORDER_H

#include "partitions/internal.h"

/* The stretch of nodes first..last, lowered, partitioned and compiled; its partitions are added to
 * set->items, which has room. `tensor_of`: one slot for each value id, all -1, and so again
 * afterwards. */
tenon_status tn_partitions_find(tn_partitions *set, const tenon_view *views,
                                const tn_partition_options *options, tenon_node *first,
                                tenon_node *last, dnnl_engine_t engine, int32_t *tensor_of);

/* A partition as oneDNN found it, in this builder's graph or before in another one of the family:
 * its tensor theirs[i] is ours[i] here (NULL: numbers are the same). */
typedef struct tn_partition_source {
    dnnl_graph_partition_t found;
    size_t first_id;
    const int32_t *theirs, *ours;
    int32_t count;
} tn_partition_source;

/* The partition of b->ops[members[0..count)] as the family has it; the first of its kind is taken
 * over from `*found`, which becomes NULL. */
tenon_status tn_family_find(tn_builder *b, const int32_t *members, int32_t count,
                            dnnl_graph_partition_t *found, tn_partition_source *out);

/* Compiles a partition that was found into `out`, whose nodes are set, and starts its ports.
 * BACKEND, with the cause in b->refusal, when it does not compile. */
tenon_status tn_partition_compile(tn_builder *b, const tn_partition_source *source,
                                  dnnl_engine_t engine, tn_partition *out);
void tn_partition_free(tn_partition *partition); /* what is compiled */

/* Makes set->steps. A partition that would wait for itself, directly or through others, is
 * dissolved. */
tenon_status tn_partitions_order(tn_partitions *set, tenon_graph *graph);

#endif
