/* What passes are written with: emitting nodes, replacing nodes by rules, taking values apart. */
#ifndef TN_REWRITE_H
#define TN_REWRITE_H

#include "core/fail.h"
#include "core/graph.h"
#include "core/op.h"

/* ---- Arguments ---- */

#define VAL(x) tenon_arg_value(x)
#define INT(x) tenon_arg_int(x)
#define FLT(x) tenon_arg_float(x)
#define BOO(x) tenon_arg_bool(x)
#define DTY(x) tenon_arg_dtype(x)
#define NIL tenon_arg_none()
#define DEF ((tenon_arg){TENON_ARG_DEFAULT})
/* An argument list: TN_ARGS(VAL(x), INT(1)). */
#define TN_ARGS(...) (const tenon_arg[]){__VA_ARGS__}, TN_COUNT(((const tenon_arg[]){__VA_ARGS__}))

/* A list of integers, held in `items`. */
tenon_arg tn_ints(tenon_arg *items, const int64_t *values, int count);

/* ---- Emitting ---- */

/* Makes a node before `at` with the source of `at`, and gives its first output. */
tenon_status tn_emit(tenon_node *at, enum tn_op_id op, tenon_value **out, const tenon_arg *args,
                     int count);
/* The node that makes `value` carries on the name and source of `from`, rather than those of the
 * node that it replaces. */
void tn_name_after(tenon_value *value, const tenon_node *from);
/* A view of `value` in the given shape; `value` itself when it has it already. */
tenon_status tn_emit_view(tenon_node *at, tenon_value *value, const int64_t *shape, int rank,
                          tenon_value **out);
/* permute; `value` itself when the order is 0, 1, 2, ... */
tenon_status tn_emit_permute(tenon_node *at, tenon_value *value, const int64_t *order, int rank,
                             tenon_value **out);
/* `value` as `dtype`; itself when it is of that dtype. */
tenon_status tn_emit_cast(tenon_node *at, tenon_value *value, tenon_dtype dtype, tenon_value **out);
/* The constant `value` as float32; itself when it is that, and NULL for NULL. A widened copy is
 * made once for all graphs that share the constant. */
tenon_status tn_widened(tenon_value *value, tenon_value **out);
/* What is known of `from` (dtype, rank, sizes) is noted at `to`, where nothing is known. */
void tn_value_adopt(tenon_value *to, const tenon_value *from);

/* ---- Rules ----
 * A rule may emit nodes before `node` and set with[i] to the value that takes the place of output
 * i; all NULL (as it finds them): the node stays. Outputs without uses need no value. */
typedef tenon_status (*tn_rule_fn)(tenon_node *node, tenon_value **with);
typedef struct tn_rule {
    enum tn_op_id op;
    tn_rule_fn run;
} tn_rule;

/* Visits every node once, in order, and those that rules emit. */
tenon_status tn_apply_rules(tenon_graph *graph, const tn_rule *rules, int count, bool *changed);

/* "node 'x' (aten.y): message", for what a pass cannot do. */
tenon_status tn_pass_refuse(const tenon_node *node, const char *format, ...) TENON_PRINTF(2, 3);

/* ---- Matching ---- */

static inline bool tn_node_is(const tenon_node *node, enum tn_op_id op) {
    return node && node->op->id == (int)op;
}
/* The node whose first output `value` is, when it has that op; NULL otherwise. */
static inline tenon_node *tn_made_by(const tenon_value *value, enum tn_op_id op) {
    return value && value->node && value->index == 0 && value->node->op->id == (int)op ? value->node
                                                                                       : NULL;
}
/* The same, and nothing but one argument uses it. */
static inline tenon_node *tn_only_by(const tenon_value *value, enum tn_op_id op) {
    return value && value->use_count == 1 ? tn_made_by(value, op) : NULL;
}
static inline bool tn_is_constant(const tenon_value *value) {
    return value && value->kind == TENON_VALUE_CONSTANT && value->tensor;
}
/* Argument `index` as a number: a literal, or a constant of one element (then of rank 0 if `scalar`
 * is asked for). */
bool tn_arg_number(const tenon_node *node, int index, double *out);
/* Whether argument `index` is that number, within rounding of its own dtype. */
bool tn_arg_is(const tenon_node *node, int index, double number);
/* Of a node with operands 0 and 1 that commute: which of them is a number; -1 when none is. */
int tn_number_side(const tenon_node *node, double *number);
/* Whether a node is the mean over the two last dimensions of four, which it keeps. */
bool tn_is_image_mean(const tenon_node *node);
/* The size of dimension `dim` (from the end when negative), or -1. */
int64_t tn_size_of(const tenon_value *value, int dim);
bool tn_same_sizes(const tenon_value *a, const tenon_value *b); /* both known, equal */
bool tn_is_float_value(const tenon_value *value);
/* Each element of the result comes of the elements at its place, in the promoted dtype. */
bool tn_is_elementwise(int op);

#endif
