/* What a session made of a graph: where each node runs, and why. Read status.h first. */
#ifndef TENON_EXPLAIN_H
#define TENON_EXPLAIN_H

#include <tenon/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tenon_step_kind {
    TENON_STEP_ONEDNN, /* one oneDNN Graph partition */
    TENON_STEP_KERNEL, /* one of Tenon's kernels */
    TENON_STEP_COPY    /* a conversion of layout, or a copy to an output */
} tenon_step_kind;

typedef struct tenon_step_info {
    tenon_step_kind kind;
    int node_count; /* nodes that the step computes */
    const tenon_node *const *nodes;
    const char *reason; /* why the step begins where it does, or why the node is outside oneDNN */
    const char *fused;  /* partitions: the ops of oneDNN, "Convolution+ReLU"; "" otherwise */
} tenon_step_info;

typedef struct tenon_plan_info {
    int step_count;
    int partition_count;      /* steps of kind TENON_STEP_ONEDNN */
    int64_t node_count;       /* nodes after the passes */
    int64_t view_count;       /* of them, nodes that only rename memory */
    size_t arena_bytes;       /* activations of one context */
    size_t weight_bytes;      /* constants, as stored */
    const tenon_graph *graph; /* the graph after the passes */
} tenon_plan_info;

/* Facts of the plan that was compiled last; NOT_FOUND before the first compile. What it returns
 * lives until the session compiles again or goes. */
TENON_API TENON_MUST_CHECK tenon_status tenon_session_get_plan(const tenon_session *session,
                                                               tenon_plan_info *out);

/* The step at `index` of that plan, in running order. INVALID_ARGUMENT past the end. */
TENON_API TENON_MUST_CHECK tenon_status tenon_session_get_step(const tenon_session *session,
                                                               int index, tenon_step_info *out);

#ifdef __cplusplus
}
#endif
#endif
