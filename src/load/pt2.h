/* Loading an exported program: what the files of the loader share. */
#ifndef TN_PT2_H
#define TN_PT2_H

#include "core/fail.h"
#include "core/graph.h"
#include "load/json.h"
#include "load/pt2_zip.h"

/* Subgraphs may nest so deep. */
enum { TN_PT2_DEPTH = 32 };

/* Names of one graph of the program: each subgraph has its own. */
typedef struct tn_pt2_scope {
    tn_map args;  /* names to tenon_arg */
    tn_map metas; /* names to the cJSON items of tensor_values */
    const cJSON *graph;
} tn_pt2_scope;

typedef struct tn_pt2 {
    const char *path;
    const tenon_load_options *options;
    tn_pt2_zip zip;
    tenon_graph *graph;
    tn_arena arena; /* as long as the load */
    cJSON *model, *weights, *constants;
    const cJSON *module, *signature;         /* graph_module and its signature */
    tn_map weight_configs, constant_configs; /* FQNs to cJSON items */
    tn_pt2_scope scope;                      /* of the outermost graph */
    int depth;
    bool in_branch;        /* inside a branch of cond: only functional ops */
    const char *node, *op; /* the node being read, for messages; NULL outside */
} tn_pt2;

/* Fails with the file and, inside one, the node before the message. */
tenon_status tn_pt2_fail(const tn_pt2 *pt2, tenon_status status, const char *format, ...)
    TENON_PRINTF(3, 4);
/* Puts the same before the thread's message; what is a fault of a graph becomes a fault of the
 * file. */
tenon_status tn_pt2_within(const tn_pt2 *pt2, tenon_status status);
#ifdef __clang_analyzer__ /* tools/analyse must know what these return */
#define tn_pt2_fail(pt2, status, ...) ((void)tn_pt2_fail(pt2, status, __VA_ARGS__), (status))
#define tn_pt2_within(pt2, status) ((void)tn_pt2_within(pt2, status), (status))
#endif
#define TN_PT2_TRY(pt2, call)                      \
    do {                                           \
        tenon_status pt2_status = (call);          \
        if (pt2_status != TENON_OK)                \
            return tn_pt2_within(pt2, pt2_status); \
    } while (0)

/* ---- pt2_meta.c: dtypes, sizes, tensor_meta ---- */

typedef struct tn_pt2_meta {
    tenon_dtype dtype;
    int32_t rank;
    int64_t shape[TENON_MAX_RANK], strides[TENON_MAX_RANK]; /* -1: symbolic */
    const char *dims[TENON_MAX_RANK];                       /* sympy's text of symbolic sizes */
    int64_t offset;
} tn_pt2_meta;

/* The dtype of that number in the file; UNSUPPORTED for complex, float8 and unknown ones, naming
 * `what`. */
tenon_status tn_pt2_dtype(const tn_pt2 *pt2, const cJSON *number, const char *what,
                          tenon_dtype *out);
/* Reads a tensor_meta; `what` names the tensor in messages. Sizes that data decide are UNSUPPORTED.
 */
tenon_status tn_pt2_read_meta(const tn_pt2 *pt2, const cJSON *item, const char *what,
                              tn_pt2_meta *out);
/* UNSUPPORTED when the symbolic text names a symbol that only a run would know. */
tenon_status tn_pt2_check_backed(const tn_pt2 *pt2, const char *expression, const char *what);

/* ---- pt2_expr.c: sympy's text ---- */

/* Parses what sympy's srepr prints. */
tenon_status tn_pt2_expr(tn_pt2 *pt2, const char *text, const tn_expr **out);
/* Sets ranges of symbols and of expressions. */
tenon_status tn_pt2_ranges(tn_pt2 *pt2);

/* ---- pt2_weights.c ---- */

/* Reads the two tables of weights. */
tenon_status tn_pt2_open_weights(tn_pt2 *pt2);
/* Makes the tensor of parameter, buffer or constant `fqn`, which `name` records as `meta` (may be
 * NULL). */
tenon_status tn_pt2_tensor(tn_pt2 *pt2, const char *fqn, bool is_constant, const cJSON *meta,
                           tenon_tensor **out);

/* ---- pt2_names.c: the structures of inputs and outputs ---- */

/* Names of the leaves of a tree of outputs ("logits", "0", "boxes.1"), or NULL when there are not
 * `count` of them. A tree that is one leaf gives "". In the arena. */
const char **tn_pt2_output_names(tn_pt2 *pt2, int count);

/* ---- pt2_args.c ---- */

tenon_status tn_pt2_arg(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *arg, tenon_arg *out);
/* Gives a name of the scope an argument. */
tenon_status tn_pt2_bind(tn_pt2 *pt2, tn_pt2_scope *scope, const char *name, tenon_arg arg);
/* The name in an output argument (as_tensor, as_sym_int, ...), or NULL. */
const char *tn_pt2_output_name(const cJSON *arg, tn_scalar *scalar);

/* ---- pt2_nodes.c ---- */

tenon_status tn_pt2_scope_open(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *graph);
void tn_pt2_scope_close(tn_pt2_scope *scope);
/* Adds all nodes of the scope's graph. */
tenon_status tn_pt2_nodes(tn_pt2 *pt2, tn_pt2_scope *scope);
/* Records what the file says of an output; INVALID_FILE when inference contradicts it. */
tenon_status tn_pt2_record(tn_pt2 *pt2, const tn_pt2_scope *scope, tenon_value *value,
                           const char *name, tn_scalar scalar);

/* ---- pt2_hop.c: higher-order operators ---- */

bool tn_pt2_is_higher_order(const char *target);
tenon_status tn_pt2_higher_order(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *node,
                                 const char *target);

/* ---- pt2_item.c: numbers that are taken out of tensors ---- */

bool tn_pt2_is_item(const char *op);
/* Whether the argument is a number that only a run would know, and no tensor holds. */
bool tn_pt2_is_lost(const tenon_arg *arg);
tenon_status tn_pt2_item(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *node);
/* Whether a number among the arguments depends on data. */
bool tn_pt2_has_item(const tn_op *op, const tenon_arg *args);
/* An op of kind SYM on such numbers. */
tenon_status tn_pt2_item_number(tn_pt2 *pt2, tn_pt2_scope *scope, const tn_op *op,
                                const cJSON *node, tenon_arg *args);
/* The overload that takes tensors where such numbers are given. UNSUPPORTED when there is none. */
tenon_status tn_pt2_item_args(const tn_pt2 *pt2, const tn_op **op, const tenon_arg *args);

/* ---- pt2_state.c ---- */

/* Turns the constants that nodes write in place into buffers. UNSUPPORTED when such memory is
 * shared. */
tenon_status tn_pt2_find_state(tn_pt2 *pt2);

#endif
