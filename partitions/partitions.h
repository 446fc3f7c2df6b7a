/* What oneDNN Graph runs: finds partitions in a graph, compiles and executes them. Nothing outside
 * this folder sees oneDNN. */
#ifndef TN_PARTITIONS_H
#define TN_PARTITIONS_H

#include "core/graph.h"
#include "core/kernel.h"
#include <tenon/explain.h>

/* What the sets of several input shapes of one model share: partitions, and with them packed
 * weights. */
typedef struct tn_partition_family tn_partition_family;

tenon_status tn_partition_family_create(tn_partition_family **out);
void tn_partition_family_destroy(tn_partition_family **family); /* after its sets */

typedef struct tn_partition_options {
    tenon_backend backend;
    int threads;                 /* OpenMP threads of compiling and executing, at least 1 */
    bool pack_weights;           /* keep weights packed: faster, for a second copy of each weight */
    tn_partition_family *family; /* of a model of which several shapes are compiled; NULL: none.
                                  * Sets of one family may be created by several threads */
    tn_isa isa;     /* cap on oneDNN's ISA; it holds for the process from the first call on */
    bool dry_run;   /* finds partitions, but compiles none: they cannot be executed */
    bool split_ops; /* a partition computes one node */
    bool bf16_math; /* products of float32 values may round them to bfloat16 */
} tn_partition_options;

/* Output `out` may be given the memory of input `in` when nothing reads that input afterwards.
 * Worth following: a residual add then saves a pass over the output. */
typedef struct tn_partition_inplace {
    int32_t in, out;
} tn_partition_inplace;

/* A value that a partition reads and another step makes: why the two did not fuse. */
typedef struct tn_boundary {
    tenon_value *value;
    tenon_reason kind;
    const char *reason;
} tn_boundary;

/* Nodes that one compiled oneDNN partition computes. */
typedef struct tn_partition {
    tenon_node **nodes;    /* in the graph's order */
    tenon_value **inputs;  /* each once; constants among them */
    tenon_value **outputs; /* each once; all must be given memory */
    tn_partition_inplace *inplace;
    int32_t node_count, input_count, output_count, inplace_count;
    const char *ops;         /* "Convolution+ReLU" */
    const char *reason;      /* why it begins where it does */
    tn_boundary *boundaries; /* one for each value that another step makes */
    int32_t boundary_count;
    tenon_reason reason_kind;
    int32_t op_count; /* of oneDNN */
    struct tn_compiled *compiled;
} tn_partition;

/* One unit of work: a partition, or a node by itself (which a kernel computes, or a view, which may
 * cost a copy). */
typedef struct tn_partition_step {
    tn_partition *partition; /* NULL: the node alone */
    tenon_node *node;        /* the partition's first node, or the node */
} tn_partition_step;

typedef struct tn_partitions {
    tn_partition *items;
    int32_t count;
    tn_partition_step
        *steps; /* every node of the graph once, in an order that respects all dependencies */
    int64_t step_count;
    tn_arena arena;
    int32_t capacity;    /* of items */
    size_t weight_bytes; /* constants that partitions read */
} tn_partitions;

/* Decides where every node of `graph` runs (all shapes known, no LOWER or SYM nodes left) and
 * compiles the partitions. `views` is indexed by value id: dtype, shape and strides of the memory
 * in which the plan will keep the value, views resolved (so the output of a view node that costs
 * nothing has its input's strides; of one that costs a copy, those of the copy); `data` is set for
 * constant memory only (constants and views of them), which must stay there unchanged as long as
 * the set lives. A dtype NONE means that nobody has or wants that value. Sets node->reason of every
 * node outside oneDNN. Numbers the nodes (node->order). The graph must outlive the set. A partition
 * that does not compile is no error: its nodes go to kernels, with that reason. With
 * TENON_BACKEND_REFERENCE every node is a step. Thread-safe for different graphs. */
tenon_status tn_partitions_create(tenon_graph *graph, const tenon_view *views,
                                  const tn_partition_options *options, tn_partitions **out);

/* Gives back compiled code and packed weights; nothing may be executing. */
void tn_partitions_destroy(tn_partitions **set);

/* Computes the partition: in[i] is the first element of inputs[i], laid out as `views` said, out[i]
 * of outputs[i]. Never allocates in Tenon's code. Thread-safe: executions of the same partition
 * wait for each other. RUN_FAILED names nodes and cause. */
tenon_status tn_partition_execute(tn_partition *partition, void *const *in, void *const *out);

/* For tests: called with what a partition gave, which it may spoil; NULL: nothing is. To be set
 * while nothing runs. */
extern void (*tn_partition_fault)(const tn_partition *partition, void *const *out);

typedef struct tn_onednn_info {
    const char *version;    /* "3.7.2" */
    const char *runtime;    /* "OpenMP", "sequential", "TBB", "threadpool" */
    const char *isa;        /* "AVX512_CORE_BF16" */
    bool bfloat16, float16; /* this CPU computes in them */
} tn_onednn_info;

/* About the oneDNN that is loaded. Settles its ISA, with TENON_MAX_ISA as the cap, when no session
 * did before. Thread-safe. */
void tn_onednn_get_info(tn_onednn_info *info);

/* Whether oneDNN computes in bfloat16 here. Settles its ISA with `cap`, as making a set does.
 * Thread-safe. */
bool tn_onednn_bfloat16(tn_isa cap);
/* Whether it has kernels that round float32 operands to bfloat16 when they may: those for AMX only
 * (seen with 3.7 on AVX512_BF16). Settles its ISA likewise. */
bool tn_onednn_rounds(tn_isa cap);

#endif
