/* The plan of one set of input shapes: steps in order, and where every value lies. Immutable once
 * made. */
#ifndef TN_PLAN_H
#define TN_PLAN_H

#include "core/graph.h"
#include "core/kernel.h"
#include "partitions/partitions.h"
#include <stdatomic.h>
#include <tenon/session.h>

/* What memory a root takes part of. Each context gives every base an address. */
typedef enum tn_base {
    TN_BASE_ARENA,
    TN_BASE_FIXED, /* a constant: the address is known */
    TN_BASE_INPUT,
    TN_BASE_OUTPUT, /* of a graph output */
    TN_BASE_STATE,  /* a buffer as the last successful run left it */
    TN_BASE_NEXT    /* the same buffer as this run leaves it */
} tn_base;

/* One block of memory, which values (a value and its views, or in-place results) lie in. */
typedef struct tn_root {
    tn_base base;
    int32_t index;       /* input, output or state */
    int32_t parent;      /* in place: the root in whose memory it lies; -1: its own */
    int32_t first, last; /* steps that use it */
    int64_t shift;       /* bytes into `parent` */
    int64_t size;        /* bytes */
    int64_t offset;      /* ARENA */
    void *data;          /* FIXED */
} tn_root;

/* A tensor that a step reads or writes: a view (its data means nothing) at `offset` bytes into a
 * root. A root of -1: absent. */
typedef struct tn_operand {
    const tenon_view *view;
    int64_t offset;
    int32_t root;
} tn_operand;

typedef struct tn_step {
    tn_partition *partition; /* NULL: a kernel */
    tenon_node *node;        /* the kernel's, or the partition's first */
    tn_kernel_fn kernel;
    tn_operand *in, *out;
    int32_t *param_first;          /* kernels: tn_call.first */
    tenon_value **read, **written; /* what it reads and writes, each value once */
    int32_t in_count, out_count, read_count, written_count;
    bool copy; /* it only copies */
} tn_step;

/* A graph output: a value's place, or a literal kept in `literal`. */
typedef struct tn_plan_output {
    tn_operand place; /* root -1: a literal, or None when dtype is NONE */
    tenon_view view;  /* dtype, shape, row-major strides */
    union {
        int64_t i;
        double f;
        bool b;
    } literal;
} tn_plan_output;

/* A write into an input once the run has succeeded. */
typedef struct tn_plan_write {
    int32_t input;
    tn_operand place;
} tn_plan_write;

/* What an input must be for this plan to serve it. */
typedef struct tn_plan_input {
    const char *name;
    tenon_view view; /* dtype, shape, row-major strides */
    int64_t number;  /* bits of an input that is a plain number */
    bool is_number, written, read;
} tn_plan_input;

typedef struct tn_plan {
    atomic_int shares;
    atomic_bool evicted;
    _Atomic uint64_t last_used;
    tenon_session *session; /* that it is of, which it needs; NULL: none */
    tn_arena arena;         /* of everything below */
    tenon_graph *graph;
    tn_partitions *partitions;
    tenon_view *views;  /* by value id */
    int32_t *root_of;   /* by value id; -1: no memory */
    int64_t *offset_of; /* by value id: bytes into that root */
    int32_t *step_of;   /* by node->order; -1: a view */
    int32_t
        *source_of; /* by node->order: the step that makes its memory, -1: an input or constant */
    tn_root *roots;
    tn_step *steps;
    tn_plan_input *inputs;
    tn_plan_output *outputs;
    tn_plan_write *writes;
    bool *next_states; /* by state: this plan gives it a new value */
    int32_t root_count, step_count, input_count, output_count, write_count, state_count;
    int64_t view_count; /* view nodes outside partitions */
    int64_t arena_bytes, operand_count;
    double room; /* bytes that a run may allocate for scratch memory; 0: no bound */
    int threads;
    /* See tenon_plan_info. */
    int verified_partitions, verified_kernels, left_out;
    bool dry_run;    /* nothing is compiled: it cannot run */
    bool split_ops;  /* nothing was fused */
    atomic_bool ran; /* once at least */
} tn_plan;

typedef struct tn_plan_options {
    tenon_backend backend;
    tn_isa isa;
    int threads;
    tn_partition_family *family; /* of a model with several shapes; NULL for one */
    bool reuse;                  /* share memory between values; off only to find faults */
    bool dry_run;                /* compile nothing */
    bool split_ops;              /* fuse nothing */
    bool bf16_math;              /* oneDNN's products may round float32 operands */
    const char *const *states;   /* names of the session's buffers */
    int32_t state_count;
} tn_plan_options;

/* Plans `graph` (all shapes known, lowered), which the plan takes over on success. `inputs` are
 * those that it was specialised for. */
tenon_status tn_plan_create(tenon_graph *graph, const tenon_view *inputs,
                            const tn_plan_options *options, tn_plan **out);
tn_plan *tn_plan_share(tn_plan *plan);
void tn_plan_drop(tn_plan **plan);
/* The same for who may outlive the session. Both take a tn_plan. */
void tn_plan_hold(void *plan);
void tn_plan_let_go(void *plan);

/* Whether these inputs (`count` right) have the dtypes, shapes and numbers that the plan is for. */
bool tn_plan_fits(const tn_plan *plan, const tenon_view *inputs);

/* The root in whose memory root `index` lies, and how many bytes into it. */
static inline const tn_root *tn_plan_root(const tn_plan *plan, int32_t index, int64_t *shift) {
    const tn_root *root = &plan->roots[index];
    *shift = 0;
    if (root->parent >= 0) {
        *shift = root->shift;
        root = &plan->roots[root->parent];
    }
    return root;
}

/* Lets pages go of mapped weights that partition step `step` is the last to read: it has packed
 * copies by the end of its first run, and does without the pages from then on. */
void tn_plan_forget_weights(const tn_plan *plan, int32_t step);

/* ---- moved.c ---- */

/* Elements of memory that the view names, each once. */
int64_t tn_view_elements(const tenon_view *view);
/* Bytes that `node` (NULL: a partition) reads of `value`. */
int64_t tn_bytes_read(const tenon_node *node, const tenon_value *value, const tenon_view *view);

/* ---- layout.c ---- */

/* A node that copies, inserted by tn_layout_make; in the graph's arena. */
typedef struct tn_layout_copy {
    tenon_node *node;
    tenon_reason kind;
    const char *reason;
    struct tn_layout_copy *next;
} tn_layout_copy;

/* Strides of every value, and for outputs of view nodes the bytes from their input's first element
 * to theirs. */
typedef struct tn_layout {
    tenon_view *views; /* by value id, as tn_partitions_create wants them */
    int64_t *moves;
    tn_layout_copy *copies;
    int32_t count, capacity;
} tn_layout;

/* Lays out all values, and inserts nodes that copy (aten.clone) where a view node needs row-major
 * memory, a graph output or a new state must be memory of its own. */
tenon_status tn_layout_make(tenon_graph *graph, tn_layout *layout);
void tn_layout_free(tn_layout *layout);
/* The parameter whose memory the outputs of a view node share. */
int tn_layout_view_param(const tn_op *op);
/* Bytes between the first and past the last element; strides are not negative. */
int64_t tn_layout_span(const tenon_view *view);

#endif
