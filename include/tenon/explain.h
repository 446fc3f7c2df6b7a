/* What a session made of a graph: where each node runs, and why. Read status.h first;
 * docs/explain.md tells what each reason means.
 *
 * A plan is a list of steps in running order. A step is one oneDNN Graph partition, one of Tenon's
 * kernels, or a copy. View nodes rename memory, and belong to no step.
 *
 * All functions here describe the plan that the session compiled last, and return NOT_FOUND before
 * the first compile. What they return lives until the session compiles again or goes. Thread-safe
 * as long as nothing compiles meanwhile. */
#ifndef TENON_EXPLAIN_H
#define TENON_EXPLAIN_H

#include <tenon/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Reasons
 * ------------------------------------------------------------------------------------------------
 */

/* X(NAME, text, advice): why a step begins where it does, or why a node runs where it runs; and
 * what a user can do about it. */
#define TENON_REASON_LIST(X)                                                                       \
    /* Why a step begins. */                                                                       \
    X(START, "start", "nothing to do: it reads only inputs and weights")                           \
    X(NO_PATTERN, "no-pattern",                                                                    \
      "nothing in the model is in the way: oneDNN ends one kernel and begins the next here; a "    \
      "newer oneDNN may join them")                                                                \
    X(SECOND_USE, "second-use",                                                                    \
      "let one op alone read the value (an output of the model counts as a reader), or compute "   \
      "it twice where that is cheap")                                                              \
    X(ONE_CHAIN, "one-chain",                                                                      \
      "nothing to do: a oneDNN kernel has one chain of ops, and reads other operands from memory") \
    X(CHAIN_LIMIT, "chain-limit", "oneDNN 3.10 and newer fuse longer chains")                      \
    X(VIEW_BETWEEN, "view-between",                                                                \
      "move the view before the first op of the chain or behind its last, or drop it")             \
    X(KERNEL_BEFORE, "kernel-before",                                                              \
      "see why the node that makes the value is outside oneDNN; once it is inside, both may fuse") \
    X(STRETCH, "stretch", "nothing to do: large graphs are cut where the fewest values cross")     \
    X(SPLIT_OPS, "split-ops", "leave split_ops off")                                               \
    /* Why a node is outside oneDNN. */                                                            \
    X(NOT_IN_OP_SET, "not-in-op-set",                                                              \
      "write it with operators beside which `tenon ops` names a oneDNN op, or leave it to the "    \
      "kernel")                                                                                    \
    X(DTYPE, "dtype",                                                                              \
      "cast the operands to one floating-point dtype that oneDNN computes in on this CPU")         \
    X(ATTRIBUTE, "attribute", "choose a value of the argument that oneDNN supports")               \
    X(OPERANDS, "operands", "give it operands of the rank, size and kind that oneDNN takes")       \
    X(LAYOUT, "layout",                                                                            \
      "make the operand dense before (contiguous()), or drop the view that makes it strided")      \
    X(EXTRA_OUTPUT, "extra-output", "do not use the output that oneDNN does not give")             \
    X(ACCURACY, "accuracy", "nothing to do: oneDNN would give another result than PyTorch")        \
    X(ONEDNN_SLOW, "onednn-slow",                                                                  \
      "nothing to do: oneDNN has no fast kernel for it, and Tenon's is the faster one")            \
    X(KERNEL_FASTER, "kernel-faster",                                                              \
      "nothing to do; --profile measures both, and --backend onednn insists on oneDNN")            \
    X(KERNEL_PASS, "kernel-pass",                                                                  \
      "nothing to do; --remove-pass leaves the pass out that chose it")                            \
    X(VERSION, "version", "use the newer oneDNN that the sentence names")                          \
    X(REFUSED, "refused", "try a newer oneDNN: this one takes the op, but not as it stands here")  \
    X(SPLIT, "split", "try a newer oneDNN: this one does not fuse the ops that the node takes")    \
    X(VERIFY, "verify",                                                                            \
      "report it with the model: oneDNN and Tenon's kernels differ, and one of them is wrong")     \
    X(CIRCLE, "circle", "nothing to do: fused, the steps would wait for each other")               \
    X(BACKEND, "backend", "choose the backend auto or onednn")                                     \
    /* Copies that were inserted. */                                                               \
    X(LAYOUT_COPY, "layout-copy",                                                                  \
      "reorder or drop the views before: strides cannot express them together")                    \
    X(OUTPUT_COPY, "output-copy",                                                                  \
      "return a value that is no input, view or other output of the model")                        \
    X(STATE_COPY, "state-copy", "nothing to do: state needs memory of its own")                    \
    /* Other nodes. */                                                                             \
    X(FUSED, "fused", "nothing to do: it runs in the partition")                                   \
    X(VIEW, "view", "nothing to do: it costs nothing")

typedef enum tenon_reason {
    TENON_REASON_NONE = 0, /* never in a plan */
#define X(name, text, advice) TENON_REASON_##name,
    TENON_REASON_LIST(X)
#undef X
        TENON_REASON_COUNT
} tenon_reason;

/* "second-use" and so on; "none" for TENON_REASON_NONE and for what is no reason. Thread-safe. */
TENON_API const char *tenon_reason_text(tenon_reason reason);

/* What a user can do about it, one clause without a full stop; "" as above. Thread-safe. */
TENON_API const char *tenon_reason_advice(tenon_reason reason);

/* ---- The plan
 * ------------------------------------------------------------------------------------------------
 */

typedef struct tenon_plan_info {
    int step_count;
    int partition_count; /* steps of kind TENON_STEP_ONEDNN */
    int kernel_count;    /* of kind TENON_STEP_KERNEL */
    int copy_count;      /* of kind TENON_STEP_COPY */
    int threads;         /* OpenMP threads of a run */
    bool dry_run;        /* nothing was compiled */
    int64_t node_count;  /* nodes after the passes */
    int64_t view_count;  /* of them, nodes that only rename memory */
    size_t arena_bytes;  /* activations of one context */
    size_t weight_bytes; /* constants, as stored */
    int64_t read_bytes;  /* sums over the steps */
    int64_t written_bytes;
    double flops;
    const tenon_graph *graph; /* the graph after the passes */
    /* What verify mode compared: oneDNN partitions, and results of kernels that passes chose. What
     * it left out of them: partitions and passes. 0 without it. */
    int verified_partitions, verified_kernels, left_out;
} tenon_plan_info;

TENON_API TENON_MUST_CHECK tenon_status tenon_session_get_plan(const tenon_session *session,
                                                               tenon_plan_info *out);

/* ---- Steps
 * ------------------------------------------------------------------------------------------------
 */

typedef enum tenon_step_kind {
    TENON_STEP_ONEDNN, /* one oneDNN Graph partition */
    TENON_STEP_KERNEL, /* one of Tenon's kernels */
    TENON_STEP_COPY    /* a conversion of layout, or a copy to an output */
} tenon_step_kind;

typedef struct tenon_step_info {
    tenon_step_kind kind;
    int node_count; /* nodes that the step computes */
    const tenon_node *const *nodes;
    tenon_reason reason_kind;
    const char *reason; /* why the step begins where it does, or why the node is outside oneDNN */
    const char *fused;  /* partitions: the ops of oneDNN, "Convolution+ReLU"; "" otherwise */
    int input_count;    /* operands that the step reads, weights among them */
    int output_count;
    int boundary_count;
    /* Memory that the operands name, each element once. An operand that is read by index (the table
     * of an embedding) counts as many elements as the result. What stays inside a partition is not
     * moved, and does not count. */
    int64_t read_bytes;
    int64_t weight_bytes; /* of read_bytes: constants */
    int64_t written_bytes;
    double flops;       /* of all its nodes, see tenon_node_info */
    const char *choice; /* of the first of its nodes that has one, see tenon_node_info; "" */
} tenon_step_info;

/* The step at `index` of the plan, in running order. INVALID_ARGUMENT past the end. */
TENON_API TENON_MUST_CHECK tenon_status tenon_session_get_step(const tenon_session *session,
                                                               int index, tenon_step_info *out);

typedef struct tenon_operand_info {
    const tenon_value *value;
    tenon_view view;    /* dtype, shape and strides; `data` is NULL */
    const char *layout; /* "row-major", "channels-last", "expanded", "strided" */
    int64_t bytes;      /* as read_bytes counts them */
    bool constant;
    int from_step; /* the step that makes it, through views; -1: an input, constant or buffer */
} tenon_operand_info;

/* Operand `index` of a step: first its inputs, then its outputs. INVALID_ARGUMENT past the end. */
TENON_API TENON_MUST_CHECK tenon_status tenon_session_get_operand(const tenon_session *session,
                                                                  int step, int index,
                                                                  tenon_operand_info *out);

/* A value that the step reads and another step makes: why the two are two steps. */
typedef struct tenon_boundary_info {
    const tenon_value *value;
    int from_step;
    tenon_reason reason_kind;
    const char *reason;
} tenon_boundary_info;

/* Boundary `index` of a step. INVALID_ARGUMENT past the end. */
TENON_API TENON_MUST_CHECK tenon_status tenon_session_get_boundary(const tenon_session *session,
                                                                   int step, int index,
                                                                   tenon_boundary_info *out);

/* ---- Nodes
 * ------------------------------------------------------------------------------------------------
 */

typedef enum tenon_conversion {
    TENON_CONVERSION_NONE = 0,
    TENON_CONVERSION_LAYOUT, /* a copy that was inserted: another order, or memory of its own */
    TENON_CONVERSION_DTYPE   /* a cast */
} tenon_conversion;

typedef struct tenon_node_info {
    int step; /* that computes it; -1: a view */
    tenon_reason reason_kind;
    const char *reason;
    /* Floating-point operations: 2 for each product that is summed (convolution, matmul, attention,
     * recurrent layers, interpolation), 1 for each element of an elementwise op, a reduction or a
     * pooling window, 5 to 8 for each element of a softmax or normalization, 0 for what only moves
     * or converts elements. docs/explain.md has the table. */
    double flops;
    tenon_conversion conversion;
    bool inserted; /* not the model's: a pass, the precision or the layout put it there */
    char conversion_for[256]; /* who reads it: "aten.view 'v', output 'logits'"; "" if no conversion
                               */
    /* Which of several ways to compute it was chosen by measurement (tenon_session_options.tune),
     * with the times of all: "Winograd 4x4 by measurement: direct 73.1 us, Winograd 4x4 41.0 us".
     * Or what verify mode found wrong with the kernel that a pass had chosen. "" where a rule
     * chose, or there was no choice. */
    const char *choice;
} tenon_node_info;

/* About a node of the plan's graph. INVALID_ARGUMENT for other nodes. */
TENON_API TENON_MUST_CHECK tenon_status tenon_session_get_node(const tenon_session *session,
                                                               const tenon_node *node,
                                                               tenon_node_info *out);

/* ---- Time
 * ------------------------------------------------------------------------------------------------
 */

/* Lets runs of the context measure each step, or not any more. Measuring costs two readings of the
 * clock a step. */
TENON_API void tenon_context_set_timing(tenon_context *context, bool on);

/* Nanoseconds that each step of the context's last run took, in running order; they live until its
 * next run. NOT_FOUND when it was not measured, or failed. */
TENON_API TENON_MUST_CHECK tenon_status tenon_context_get_times(const tenon_context *context,
                                                                const int64_t **out, int *count);

#ifdef __cplusplus
}
#endif
#endif
