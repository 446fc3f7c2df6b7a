/* Execution graphs: what is known while one is written, and the writing of nodes. */
#ifndef TN_EXECUTION_TRACE_H
#define TN_EXECUTION_TRACE_H

#include "core/profile.h"
#include "profiler/writer.h"
#include "run/context.h"

/* Nodes, tensors and storages are numbered together. */
enum { TN_PROCESS_NODE = 1 };

/* Something that has an address and an id. */
typedef struct tn_known {
    const void *key;
    int64_t id; /* 0: none yet */
} tn_known;

/* An instance whose steps were seen, and its latest run. */
typedef struct tn_observed {
    const void *key;
    const tn_instance *instance;
    const tn_plan *plan;
    int64_t run;       /* its node */
    int64_t at;        /* among plan->partitions->steps: the next one */
    int32_t step;      /* its number without views */
    int64_t *tensors;  /* ids by value, 0: none yet */
    int64_t *storages; /* by root, then by value for those without memory */
} tn_observed;

typedef struct tn_execution_trace {
    tn_writer writer;
    int64_t last_id;
    int64_t count; /* of nodes */
    void *memory;  /* tree of tn_known: storages outside arenas, by address */
    void *weights; /* the same: constants and buffers, by their tensor */
} tn_execution_trace;

typedef enum tn_execution_kind {
    TN_EXECUTION_KERNEL,
    TN_EXECUTION_COPY,
    TN_EXECUTION_VIEW,
    TN_EXECUTION_FUSED /* within a partition */
} tn_execution_kind;

/* The item of that key in a tree, zeroed when it is new; `size` bytes that begin as a tn_known or
 * tn_observed does. NULL: memory is out, and the trace fails. */
void *tn_execution_find(tn_execution_trace *trace, void **tree, const void *key, size_t size);
/* Its id, a new one when it had none; 0 when memory is out. */
int64_t tn_execution_id(tn_execution_trace *trace, void **tree, const void *key);

/* ---- execution_nodes.c: each writes a node, and returns its id ---- */

/* A node without operands: the process (which is its own parent) or a thread. */
int64_t tn_execution_write_mark(tn_execution_trace *trace, const char *name, int64_t parent,
                                int64_t thread);
int64_t tn_execution_write_run(tn_execution_trace *trace, tn_observed *seen, int64_t parent);
int64_t tn_execution_write_partition(tn_execution_trace *trace, tn_observed *seen,
                                     const tn_partition *partition);
int64_t tn_execution_write_node(tn_execution_trace *trace, tn_observed *seen,
                                const tenon_node *node, tn_execution_kind kind, int64_t parent);

#endif
