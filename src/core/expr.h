/* Integer expressions over symbols, for sizes that are known only when a session is made. */
#ifndef TN_EXPR_H
#define TN_EXPR_H

#include "core/util.h"

typedef enum tn_expr_kind {
    TN_EXPR_INT,
    TN_EXPR_SYMBOL,
    TN_EXPR_ADD,
    TN_EXPR_MUL,
    TN_EXPR_FLOORDIV, /* toward minus infinity, as Python's // */
    TN_EXPR_MOD,      /* with the divisor's sign, as Python's % */
    TN_EXPR_POW,
    TN_EXPR_MIN,
    TN_EXPR_MAX
} tn_expr_kind;

typedef struct tn_expr {
    tn_expr_kind kind;
    int64_t value; /* INT: the number. SYMBOL: its index in the graph */
    const struct tn_expr *a, *b;
} tn_expr;

/* Finds or adds the symbol of that name; returns its index, or -1 when memory is out. */
typedef int (*tn_symbol_fn)(void *user, const char *name);

/* Parses infix text: integers, names, + - * // % ** min(a, b) max(a, b) and parentheses. Nested at
 * most 64 deep. */
tenon_status tn_expr_parse(tn_arena *arena, const char *text, tn_symbol_fn symbol, void *user,
                           const tn_expr **out);
const tn_expr *tn_expr_make(tn_arena *arena, tn_expr_kind kind, int64_t value, const tn_expr *a,
                            const tn_expr *b); /* NULL when memory is out */
/* Prints infix text that tn_expr_parse reads back. `names[i]` names symbol i. */
void tn_expr_print(const tn_expr *expr, const char *const *names, tn_text *out);

/* A symbol's value while shapes are bound. */
typedef struct tn_binding {
    bool bound;
    int64_t value;
} tn_binding;

/* Evaluates; false when a symbol is unbound, on overflow, or on a division by zero. */
bool tn_expr_eval(const tn_expr *expr, const tn_binding *bindings, int64_t *out);
/* Solves expr == value for its single unbound symbol, through +, * and exact // by constants; false
 * when it cannot. */
bool tn_expr_solve(const tn_expr *expr, int64_t value, tn_binding *bindings);

#endif
