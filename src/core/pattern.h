/* The inside of patterns. */
#ifndef TN_PATTERN_H
#define TN_PATTERN_H

#include "core/graph.h"
#include "core/text_lex.h"
#include <tenon/pattern.h>

#define TN_PATTERN_NODES 64
#define TN_PATTERN_NAMES 128
#define TN_PATTERN_OUTPUTS 8

typedef enum tn_pattern_kind {
    TN_PATTERN_LEFT_OUT, /* the schema's default */
    TN_PATTERN_ANY,
    TN_PATTERN_VALUE,
    TN_PATTERN_CAPTURE,
    TN_PATTERN_LITERAL,
    TN_PATTERN_LIST
} tn_pattern_kind;

typedef struct tn_pattern_arg {
    tn_pattern_kind kind;
    int number; /* of a value or a capture */
    tenon_arg literal;
    struct tn_pattern_arg *items;
    int count;
} tn_pattern_arg;

typedef struct tn_pattern_node {
    const tn_op *op;
    tn_pattern_arg *args; /* op->param_count */
    int outputs[TN_PATTERN_OUTPUTS], output_count;
    int order_bit; /* of commutative nodes, from 1 on */
    bool shared;
} tn_pattern_node;

struct tenon_pattern {
    tn_lexer lex; /* texts live in its scratch arena */
    tn_pattern_node nodes[TN_PATTERN_NODES];
    const char *value_names[TN_PATTERN_NAMES], *capture_names[TN_PATTERN_NAMES];
    int makers[TN_PATTERN_NAMES]; /* by value: the node, or -1 */
    bool used[TN_PATTERN_NAMES], constant[TN_PATTERN_NAMES];
    tenon_dtype dtypes[TN_PATTERN_NAMES]; /* NONE: any */
    int node_count, value_count, capture_count, commutative_count;
    int result; /* of a replacement: the value that stands for its last node, or -1 */
    /* The last match. */
    bool found;
    unsigned orders; /* a bit for each commutative node: its arguments are exchanged */
    tenon_value *values[TN_PATTERN_NAMES];
    tenon_arg captures[TN_PATTERN_NAMES];
    tenon_node *matched[TN_PATTERN_NODES];
};

/* Reads a pattern, or, over the names of `base`, a replacement. */
tenon_status tn_pattern_read(const char *text, const char *source, const tenon_pattern *base,
                             tenon_pattern **out);

#endif
