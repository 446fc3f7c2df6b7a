/* Graphs: build node by node, inspect, print, parse. Read status.h first.
 *
 * A graph is a list of nodes in topological order over typed values. A node has an op, arguments in
 * the order of the op's schema, and values as outputs. The graph owns its nodes, values and
 * strings; pointers to them live until the graph is destroyed, or, for nodes and their outputs,
 * until they are erased.
 *
 * Ops carry PyTorch's names: "aten.add.Tensor"; the overload "default" may be left out
 * ("aten.relu").
 */
#ifndef TENON_GRAPH_H
#define TENON_GRAPH_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_graph tenon_graph;
typedef struct tenon_node tenon_node;
typedef struct tenon_value tenon_value;

/* ---- Arguments
 * ---------------------------------------------------------------------------------------------- */

typedef enum tenon_arg_kind {
    TENON_ARG_DEFAULT = 0, /* left out: the schema's default; never seen in a node */
    TENON_ARG_NONE,        /* None */
    TENON_ARG_VALUE,       /* a tensor, or a symbolic number */
    TENON_ARG_INT,
    TENON_ARG_FLOAT,
    TENON_ARG_BOOL,
    TENON_ARG_STRING,
    TENON_ARG_DTYPE,
    TENON_ARG_LIST /* of any of the above but DEFAULT and LIST */
} tenon_arg_kind;

/* One argument. Memory formats and layouts are integers, as PyTorch numbers them; devices are
 * strings. When a node is made, lists and strings are copied. */
typedef struct tenon_arg {
    tenon_arg_kind kind;
    int32_t count; /* of a list */
    union {
        tenon_value *value;
        int64_t i;
        double f;
        bool b;
        const char *s;
        tenon_dtype dtype;
        struct tenon_arg *list;
    } as;
} tenon_arg;

static inline tenon_arg tenon_arg_none(void) {
    tenon_arg a = {TENON_ARG_NONE, 0, {0}};
    return a;
}
/* NULL gives None. */
static inline tenon_arg tenon_arg_value(tenon_value *value) {
    tenon_arg a = {TENON_ARG_NONE, 0, {0}};
    if (value) {
        a.kind = TENON_ARG_VALUE;
        a.as.value = value;
    }
    return a;
}
static inline tenon_arg tenon_arg_int(int64_t i) {
    tenon_arg a = {TENON_ARG_INT, 0, {0}};
    a.as.i = i;
    return a;
}
static inline tenon_arg tenon_arg_float(double f) {
    tenon_arg a = {TENON_ARG_FLOAT, 0, {0}};
    a.as.f = f;
    return a;
}
static inline tenon_arg tenon_arg_bool(bool b) {
    tenon_arg a = {TENON_ARG_BOOL, 0, {0}};
    a.as.b = b;
    return a;
}
static inline tenon_arg tenon_arg_string(const char *s) {
    tenon_arg a = {TENON_ARG_STRING, 0, {0}};
    a.as.s = s;
    return a;
}
static inline tenon_arg tenon_arg_dtype(tenon_dtype dtype) {
    tenon_arg a = {TENON_ARG_DTYPE, 0, {0}};
    a.as.dtype = dtype;
    return a;
}
/* `items` must live until the node has been made. */
static inline tenon_arg tenon_arg_list(tenon_arg *items, int count) {
    tenon_arg a = {TENON_ARG_LIST, 0, {0}};
    a.count = count;
    a.as.list = items;
    return a;
}

/* ---- Building
 * -----------------------------------------------------------------------------------------------
 */

/* Makes an empty graph. `name` (may be NULL) is copied. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_create(const char *name, tenon_graph **out);
TENON_API void tenon_graph_destroy(tenon_graph **graph);

/* A copy that shares the constants' memory. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_clone(const tenon_graph *graph,
                                                          tenon_graph **out);

/* Adds a tensor input. `dims` has one text a dimension: a number ("224"), or an expression over
 * symbols ("s0", "2*s0", "s0 + 1"), which makes new symbols known to the graph. Names must be
 * unique among the graph's values. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_add_input(tenon_graph *graph, const char *name,
                                                              tenon_dtype dtype, int rank,
                                                              const char *const *dims,
                                                              tenon_value **out);

/* Adds a constant that keeps a share of `tensor`. It must not change as long as the graph, or a
 * session made from it, lives. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_add_constant(tenon_graph *graph,
                                                                 const char *name,
                                                                 const tenon_tensor *tensor,
                                                                 tenon_value **out);

/* Adds a buffer: state with an initial value, which runs may change (each context has its own). */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_add_buffer(tenon_graph *graph, const char *name,
                                                               const tenon_tensor *initial,
                                                               tenon_value **out);

/* Adds a node at the end. `args` stand in the schema's order; those left out at the end, and those
 * of kind DEFAULT, take the schema's default. `name` (may be NULL) names the node and its outputs.
 * UNKNOWN_OP; INVALID_GRAPH when an argument does not fit the schema, or the shape rule refuses. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_add_node(tenon_graph *graph, const char *op,
                                                             const char *name,
                                                             const tenon_arg *args, int count,
                                                             tenon_node **out);

/* Adds an output: a value, or a literal (None, int, float, bool, string). */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_add_output(tenon_graph *graph, const char *name,
                                                               tenon_arg arg);

/* Lets each successful run store `value` into `target`, a buffer or an input of the same dtype and
 * shape. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_add_write(tenon_graph *graph,
                                                              tenon_value *target,
                                                              tenon_value *value);

/* Gives the range of a symbol, both ends included; INT64_MAX means no bound. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_set_symbol_range(tenon_graph *graph,
                                                                     const char *symbol,
                                                                     int64_t min, int64_t max);

/* Checks every invariant: order, uses, schemas, dtypes and shapes. INVALID_GRAPH names the node and
 * the rule. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_verify(const tenon_graph *graph);

/* ---- Editing
 * ------------------------------------------------------------------------------------------------
 */

/* Nodes may be walked while they are edited: tenon_node_next of a node that was erased meanwhile
 * still finds the next one that is there; nodes that are inserted before the current one are not
 * visited. Shapes of new nodes are inferred when those of their inputs are known; those of nodes
 * whose inputs changed, after a pass. */

/* As tenon_graph_add_node, before or after another node. New names are found for outputs when
 * `name` is NULL. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_insert_node(tenon_node *before, const char *op,
                                                                const char *name,
                                                                const tenon_arg *args, int count,
                                                                tenon_node **out);
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_insert_node_after(tenon_node *after,
                                                                      const char *op,
                                                                      const char *name,
                                                                      const tenon_arg *args,
                                                                      int count, tenon_node **out);

/* A copy of `node` (op, arguments, source information) before `before`, a node of the same graph;
 * NULL: at the end. */
TENON_API TENON_MUST_CHECK tenon_status tenon_node_clone(const tenon_node *node, tenon_node *before,
                                                         tenon_node **out);

/* Gives argument `index` (counted as in the schema) another value. INVALID_GRAPH when it does not
 * fit the schema. */
TENON_API TENON_MUST_CHECK tenon_status tenon_node_set_arg(tenon_node *node, int index,
                                                           tenon_arg arg);

/* Moves a node before another one of the same graph; NULL: to the end. */
TENON_API TENON_MUST_CHECK tenon_status tenon_node_move(tenon_node *node, tenon_node *before);

/* Puts `with` in the place of `value` in every use, graph outputs and writes included; in those by
 * `except` (may be NULL) not. */
TENON_API TENON_MUST_CHECK tenon_status tenon_value_replace(tenon_value *value, tenon_value *with);
TENON_API TENON_MUST_CHECK tenon_status tenon_value_replace_except(tenon_value *value,
                                                                   tenon_value *with,
                                                                   const tenon_node *except);

/* Gives output `index` of the graph another value, or a literal. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_set_output(tenon_graph *graph, int index,
                                                               tenon_arg arg);

/* Adds a constant with a copy of the row-major elements at `data`. `name` (may be NULL) gets a
 * number when it is taken. */
TENON_API TENON_MUST_CHECK tenon_status
tenon_graph_make_constant(tenon_graph *graph, const char *name, tenon_dtype dtype, int rank,
                          const int64_t *shape, const void *data, tenon_value **out);

/* Erases a node whose outputs have no uses; INVALID_GRAPH otherwise. */
TENON_API TENON_MUST_CHECK tenon_status tenon_node_erase(tenon_node *node);

/* Erases all nodes that nothing needs; gives how many they were. Linear time. */
TENON_API int64_t tenon_graph_remove_dead(tenon_graph *graph);

/* Copies the exported name's origin (module path, stack trace) to another node. */
TENON_API void tenon_node_copy_source(tenon_node *to, const tenon_node *from);

/* ---- Inspecting
 * --------------------------------------------------------------------------------------------- */

TENON_API const char *tenon_graph_name(const tenon_graph *graph);
TENON_API int tenon_graph_input_count(const tenon_graph *graph);
TENON_API tenon_value *tenon_graph_input(const tenon_graph *graph, int index);
TENON_API int tenon_graph_constant_count(const tenon_graph *graph); /* constants and buffers */
TENON_API tenon_value *tenon_graph_constant(const tenon_graph *graph, int index);
TENON_API int tenon_graph_output_count(const tenon_graph *graph);
TENON_API const char *tenon_graph_output_name(const tenon_graph *graph, int index);
TENON_API tenon_arg tenon_graph_output(const tenon_graph *graph, int index);
TENON_API int tenon_graph_write_count(const tenon_graph *graph);
TENON_API void tenon_graph_write(const tenon_graph *graph, int index, tenon_value **target,
                                 tenon_value **value);
TENON_API int tenon_graph_symbol_count(const tenon_graph *graph);
/* `name`, `min`, `max` may each be NULL. */
TENON_API void tenon_graph_symbol(const tenon_graph *graph, int index, const char **name,
                                  int64_t *min, int64_t *max);
TENON_API int64_t tenon_graph_node_count(const tenon_graph *graph);
TENON_API tenon_node *tenon_graph_first_node(const tenon_graph *graph); /* NULL when empty */
TENON_API tenon_node *tenon_graph_last_node(const tenon_graph *graph);
/* The value of that name, or NULL. */
TENON_API tenon_value *tenon_graph_find_value(const tenon_graph *graph, const char *name);

TENON_API tenon_node *tenon_node_next(const tenon_node *node); /* NULL at the end */
TENON_API tenon_node *tenon_node_previous(const tenon_node *node);
TENON_API const char *tenon_node_op(const tenon_node *node);
TENON_API const char *tenon_node_name(const tenon_node *node);
TENON_API const char *tenon_node_module_path(const tenon_node *node); /* "" when unknown */
TENON_API const char *tenon_node_stack_trace(const tenon_node *node); /* "" when unknown */
TENON_API int tenon_node_arg_count(const tenon_node *node);
TENON_API const char *tenon_node_arg_name(const tenon_node *node, int index);
TENON_API tenon_arg tenon_node_arg(const tenon_node *node, int index);
/* The argument of that name in the op's schema; kind DEFAULT when there is none. */
TENON_API tenon_arg tenon_node_arg_by_name(const tenon_node *node, const char *name);
/* The value that argument `index` holds; NULL when it holds something else, or there is none. */
TENON_API tenon_value *tenon_node_arg_value(const tenon_node *node, int index);
TENON_API int tenon_node_output_count(const tenon_node *node);
TENON_API tenon_value *tenon_node_output(const tenon_node *node, int index);

typedef enum tenon_value_kind {
    TENON_VALUE_INPUT,
    TENON_VALUE_CONSTANT,
    TENON_VALUE_BUFFER,
    TENON_VALUE_NODE /* a node's output */
} tenon_value_kind;

TENON_API const char *tenon_value_name(const tenon_value *value);
TENON_API tenon_value_kind tenon_value_get_kind(const tenon_value *value);
TENON_API tenon_dtype tenon_value_dtype(const tenon_value *value);
/* False for symbolic numbers and for inputs that are plain numbers. */
TENON_API bool tenon_value_is_tensor(const tenon_value *value);
/* -1 when it is not known before the symbols are bound. */
TENON_API int tenon_value_rank(const tenon_value *value);
/* The size, or -1 when it depends on symbols. */
TENON_API int64_t tenon_value_size(const tenon_value *value, int dim);
/* Writes the size as text ("224", "2*s0", "?") into `text`, cut at `capacity` bytes. */
TENON_API void tenon_value_size_text(const tenon_value *value, int dim, char *text,
                                     size_t capacity);
/* The size when symbol i of the graph is symbols[i] (-1: not known). NOT_FOUND when it depends on
 * more than that. */
TENON_API TENON_MUST_CHECK tenon_status tenon_value_size_at(const tenon_value *value, int dim,
                                                            const int64_t *symbols, int64_t *out);
/* Writes dtype, rank and shape of a value into `out`, with row-major strides and no data; false
 * when not all of them are known. */
TENON_API bool tenon_value_view(const tenon_value *value, tenon_view *out);
TENON_API tenon_node *tenon_value_node(const tenon_value *value); /* NULL when no node makes it */
/* Uses: arguments of nodes that hold the value, graph outputs and writes. */
TENON_API int64_t tenon_value_use_count(const tenon_value *value);
/* The node that has use `index`, in no certain order; NULL for a graph output or a write, and past
 * the end. */
TENON_API tenon_node *tenon_value_user(const tenon_value *value, int64_t index);
/* A constant's data or a buffer's initial value; NULL for other values. */
TENON_API const tenon_tensor *tenon_value_tensor(const tenon_value *value);

/* ---- Text
 * ---------------------------------------------------------------------------------------------------
 */

/* Prints the graph as text (docs/text-form.md) into a new string, which the caller frees with
 * tenon_string_free. Small constants are printed with their elements; for others the text gives
 * dtype and shape. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_print(const tenon_graph *graph, char **out);

/* Parses the text form. `source` (may be NULL) names the text in messages. INVALID_FILE names line
 * and rule. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_parse(const char *text, const char *source,
                                                          tenon_graph **out);

TENON_API void tenon_string_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
