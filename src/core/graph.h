/* The graph's insides. Everything lives in the graph's arena; erased nodes stay there, unlinked. */
#ifndef TN_GRAPH_H
#define TN_GRAPH_H

#include "core/expr.h"
#include "core/op.h"
#include "core/tensor.h"
#include "core/util.h"
#include <tenon/graph.h>

/* One use of a value: an argument slot of a node, of a graph output, or of a write. */
typedef struct tn_use {
    tenon_value *value;
    tenon_node *node;           /* NULL: a graph output or a write */
    tenon_arg *slot;            /* the argument, or list item, that holds the value */
    struct tn_use *prev, *next; /* in the value's list */
} tn_use;

typedef enum tn_scalar { TN_TENSOR = 0, TN_SYMINT, TN_SYMFLOAT, TN_SYMBOOL } tn_scalar;

struct tenon_value {
    tenon_graph *graph;
    const char *name;
    int32_t id; /* unique in the graph, dense: below graph->value_count */
    tenon_value_kind kind;
    tn_scalar scalar;  /* not TN_TENSOR: a number, with dtype int64, float64 or bool and rank 0 */
    tenon_dtype dtype; /* NONE: not known before symbols are bound */
    int32_t rank;      /* -1: not known */
    int64_t *shape;    /* NULL: not known; a size that depends on symbols is -1 */
    const tn_expr **dims; /* inputs with symbolic sizes: one a dimension (of a number: one for it);
                             NULL otherwise */
    tenon_tensor *tensor; /* CONSTANT, BUFFER: shared */
    tenon_node *node;     /* NODE */
    int32_t index;        /* among the node's outputs, the inputs, or the constants */
    bool channels_last;   /* its memory is laid out channels-last (rank 3 to 5) */
    tn_use *uses;         /* first */
    int64_t use_count;
};

/* Where a node came from; shared by nodes. */
typedef struct tn_source {
    const char *module_path; /* "layer1.0.conv1"; "" when unknown */
    const char *stack_trace;
} tn_source;

struct tenon_node {
    tenon_graph *graph;
    const tn_op *op;
    const char *name;
    tenon_node *prev, *next;
    int64_t order;   /* grows along the list; see tn_graph_number */
    tenon_arg *args; /* op->param_count */
    tenon_value **outputs;
    int32_t output_count;
    int32_t use_count;
    tn_use *uses; /* use_count: one for each VALUE in args, in order */
    const tn_source *source;
    const char *reason; /* why it runs where it runs, for `tenon explain`; NULL until then */
    int reason_kind;    /* tenon_reason (explain.h) */
    const char *barred; /* why oneDNN must not compute it; NULL: it may. Not copied. */
    const char *choice; /* what a chooser told of the way that computes it; NULL: nothing */
    int64_t mark;       /* free for a pass */
    uint32_t born;      /* graph->clock when it was made */
    bool erased;
};

typedef struct tn_symbol {
    const char *name;
    int64_t min, max; /* both included; INT64_MAX: no bound */
} tn_symbol;

typedef struct tn_output {
    const char *name;
    tenon_arg *arg;
    tn_use *use; /* NULL for literals */
} tn_output;

typedef struct tn_write {
    tenon_value *target; /* an input or a buffer */
    tenon_arg *arg;
    tn_use *use;
} tn_write;

/* A range that an expression of symbols must keep. */
typedef struct tn_constraint {
    const tn_expr *expr;
    int64_t min, max;
} tn_constraint;

struct tenon_graph {
    tn_arena arena;
    const char *name;
    tenon_value **inputs;
    tenon_value **constants; /* CONSTANT and BUFFER */
    tn_output *outputs;
    tn_write *writes;
    tn_symbol *symbols;
    tn_constraint *constraints;
    int32_t input_count, constant_count, output_count, write_count, symbol_count, constraint_count;
    int32_t input_capacity, constant_capacity, output_capacity, write_capacity, symbol_capacity,
        constraint_capacity;
    tenon_node *first, *last;
    int64_t node_count;
    int32_t value_count;                     /* ids given out */
    tn_map names;                            /* values */
    uint32_t clock;                          /* passes that ran on it */
    uint64_t edits;                          /* grows with every change of nodes, uses and values */
    struct tn_record *records, *last_record; /* what passes did (record.c) */
    int32_t record_count;
    int64_t file_bytes;         /* of the files that it was loaded from; 0: calls built it */
    struct tn_chooser *chooser; /* whom passes ask (fusion/choose.h); NULL: nobody. Not copied. */
};

static inline bool tn_is_symbolic(const tenon_graph *graph) {
    return graph->symbol_count > 0;
}
/* All sizes are known. */
bool tn_value_static(const tenon_value *value);
int64_t tn_value_numel(const tenon_value *value); /* of a static value */
/* Floating-point operations of a node whose shapes are known, as tenon_node_info counts them
 * (cost.c). */
double tn_node_flops(const tenon_node *node);
/* What the node costs, in about nanoseconds of one core where no kernel is fast (cost.c). */
double tn_node_work(const tenon_node *node);

/* Makes a node before `before` (NULL: at the end). As tenon_graph_add_node, but `list_count` gives
 * the number of outputs of an op that returns a list when shapes are not known yet (-1: by the
 * shape rule). When all inputs are static, shapes are inferred. */
tenon_status tn_graph_add(tenon_graph *graph, tenon_node *before, const tn_op *op, const char *name,
                          const tenon_arg *args, int count, int list_count, tenon_node **out);
/* A node with one output, by op id. The usual way to write passes; the source is copied from `like`
 * (may be NULL). */
tenon_status tn_graph_emit(tenon_graph *graph, tenon_node *before, enum tn_op_id op,
                           const char *name, const tenon_node *like, const tenon_arg *args,
                           int count, tenon_value **out);
/* An input of sizes known (`shape`) or as expressions (`dims`, then `shape` may be NULL), or a
 * number, for which `dims` (may be NULL) holds one expression, its value. */
tenon_status tn_graph_add_input(tenon_graph *graph, const char *name, tn_scalar scalar,
                                tenon_dtype dtype, int rank, const int64_t *shape,
                                const tn_expr **dims, tenon_value **out);
/* A constant whose name gets a number when it is taken. Takes over `tensor`, also on failure. */
tenon_status tn_graph_new_constant(tenon_graph *graph, const char *name, tenon_tensor *tensor,
                                   tenon_value **out);
/* Gives a value another name; a taken one gets a number. */
tenon_status tn_value_rename(tenon_value *value, const char *name);
tenon_status tn_graph_add_symbol(tenon_graph *graph, const char *name, int64_t min, int64_t max,
                                 int *index);
/* tn_symbol_fn over a graph. */
int tn_graph_symbol_fn(void *graph, const char *name);
tenon_status tn_graph_add_constraint(tenon_graph *graph, const tn_expr *expr, int64_t min,
                                     int64_t max);
const tn_source *tn_graph_source(tenon_graph *graph, const char *module_path,
                                 const char *stack_trace);
/* As tenon_graph_print, with the elements of constants that have at most so many. */
tenon_status tn_graph_print(const tenon_graph *graph, int64_t elements, char **out);
/* Replaces argument `index` of a node, with its uses. */
tenon_status tn_node_set_arg(tenon_node *node, int index, const tenon_arg *arg);
/* Enters the values of node->args into their use lists, and takes them out again. */
tenon_status tn_node_link(tenon_node *node);
void tn_node_unlink(tenon_node *node);
void tn_use_unlink(tn_use *use);
/* Lets one use hold another value. */
void tn_use_set(tn_use *use, tenon_value *value);
/* Moves a node before another of the same graph. */
void tn_node_move(tenon_node *node, tenon_node *before);
/* Numbers the nodes in order (node->order = 0, 1, ...). */
void tn_graph_number(tenon_graph *graph);
/* Erases nodes that nothing needs; returns how many. Linear time. */
int64_t tn_graph_drop_dead(tenon_graph *graph);
/* Drops constants that nothing uses. */
void tn_graph_drop_constants(tenon_graph *graph);
/* Infers the outputs of `node` again from its inputs. */
tenon_status tn_node_infer(tenon_node *node);
/* Infers all outputs again, in order. */
tenon_status tn_graph_infer(tenon_graph *graph);

/* ---- Arguments of nodes. `index` is the schema's.
 * ------------------------------------------------------------ */

static inline tenon_value *tn_arg_value(const tenon_node *node, int index) {
    const tenon_arg *a = &node->args[index];
    return a->kind == TENON_ARG_VALUE ? a->as.value : NULL;
}
static inline bool tn_arg_is_none(const tenon_node *node, int index) {
    return node->args[index].kind == TENON_ARG_NONE;
}
/* A number of any kind as that kind; `other` when it is None. */
int64_t tn_arg_int(const tenon_node *node, int index, int64_t other);
double tn_arg_float(const tenon_node *node, int index, double other);
bool tn_arg_bool(const tenon_node *node, int index);
tenon_dtype tn_arg_dtype(const tenon_node *node, int index);  /* NONE when None */
const char *tn_arg_string(const tenon_node *node, int index); /* NULL when None */
/* Integers of a list (or of one number, as a list of one); returns the count, or -1 when there are
 * more than `capacity` or one is not an integer. None gives 0. */
int tn_arg_ints(const tenon_node *node, int index, int64_t *out, int capacity);
/* The same for int[N] arguments: one number stands for N. */
int tn_arg_ints_of(const tenon_node *node, int index, int64_t *out, int count);

/* The same kind and content; floats bit by bit, so that 0.0 and -0.0 differ. */
bool tn_arg_equal(const tenon_arg *a, const tenon_arg *b);

/* ---- What passes did (record.c)
 * ------------------------------------------------------------------------------- */

/* The nodes of a graph before a pass. */
typedef struct tn_snapshot {
    const tenon_graph *graph;
    const tenon_node **nodes;
    int64_t count;
} tn_snapshot;

/* Takes note of the nodes, before a pass runs. */
tenon_status tn_snapshot_take(tenon_graph *graph, tn_snapshot *out);
void tn_snapshot_free(tn_snapshot *snapshot);
/* Adds to `graph` the record of a pass that made it of what the snapshot saw. When the pass handed
 * back another graph, the old one must still be there; its records are copied. */
tenon_status tn_record_add(tenon_graph *graph, const tn_snapshot *before, const char *name,
                           int phase, double milliseconds);
tenon_status tn_records_copy(tenon_graph *to, const tenon_graph *from);
/* The name of the pass that made the node, since the graph was made or copied; NULL: none. */
const char *tn_record_of(const tenon_graph *graph, const tenon_node *node);

/* ---- Binding symbols
 * ----------------------------------------------------------------------------------------- */

/* A copy for concrete inputs: `inputs[i]` gives dtype and shape, and for numbers their value in
 * `data` (int64, float64 or bool). Symbolic nodes become literals, all shapes are inferred.
 * INPUT_MISMATCH names input, size and range. */
tenon_status tn_graph_specialize(const tenon_graph *graph, const tenon_view *inputs, int count,
                                 tenon_graph **out);
/* Only the checks. */
tenon_status tn_graph_check_inputs(const tenon_graph *graph, const tenon_view *inputs, int count);

#endif
