#include "core/expr.h"
#include "core/fail.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

const tn_expr *tn_expr_make(tn_arena *arena, tn_expr_kind kind, int64_t value, const tn_expr *a,
                            const tn_expr *b) {
    tn_expr *expr = tn_arena_alloc(arena, sizeof *expr);
    if (expr)
        *expr = (tn_expr){kind, value, a, b};
    return expr;
}

/* ---- Parsing: precedence climbing ---- */

typedef struct parser {
    tn_arena *arena;
    const char *text, *at;
    tn_symbol_fn symbol;
    void *user;
    int depth;
} parser;

/* What recurses over an expression is bounded by the length of its text, 4096.
 * NOLINTBEGIN(misc-no-recursion) */

static tenon_status parse_sum(parser *p, const tn_expr **out);

static void skip(parser *p) {
    while (*p->at == ' ')
        p->at++;
}

static bool accept(parser *p, const char *token) {
    skip(p);
    size_t length = strlen(token);
    if (strncmp(p->at, token, length) != 0)
        return false;
    p->at += length;
    return true;
}

static tenon_status bad(const parser *p, const char *rule) {
    return tn_fail(TENON_INVALID_ARGUMENT, "size expression '%s': %s at '%s'", p->text, rule,
                   p->at);
}

static tenon_status make(parser *p, tn_expr_kind kind, int64_t value, const tn_expr *a,
                         const tn_expr *b, const tn_expr **out) {
    *out = tn_expr_make(p->arena, kind, value, a, b);
    return *out ? TENON_OK : tn_no_memory();
}

static tenon_status parse_name(parser *p, const tn_expr **out) {
    char name[128];
    size_t length = 0;
    while (isalnum((unsigned char)*p->at) || *p->at == '_' || *p->at == '.') {
        if (length + 1 == sizeof name)
            return bad(p, "a name is too long");
        name[length++] = *p->at++;
    }
    name[length] = '\0';
    bool min = strcmp(name, "min") == 0, max = strcmp(name, "max") == 0;
    if ((min || max) && accept(p, "(")) {
        const tn_expr *a, *b;
        TN_TRY(parse_sum(p, &a));
        if (!accept(p, ","))
            return bad(p, "',' is missing");
        TN_TRY(parse_sum(p, &b));
        if (!accept(p, ")"))
            return bad(p, "')' is missing");
        return make(p, min ? TN_EXPR_MIN : TN_EXPR_MAX, 0, a, b, out);
    }
    int index = p->symbol(p->user, name);
    if (index < 0)
        return tn_no_memory();
    return make(p, TN_EXPR_SYMBOL, index, NULL, NULL, out);
}

static tenon_status parse_atom(parser *p, const tn_expr **out) {
    skip(p);
    if (accept(p, "(")) {
        TN_TRY(parse_sum(p, out));
        return accept(p, ")") ? TENON_OK : bad(p, "')' is missing");
    }
    if (accept(p, "-")) {
        const tn_expr *a, *minus;
        TN_TRY(parse_atom(p, &a));
        if (a->kind == TN_EXPR_INT && a->value != INT64_MIN)
            return make(p, TN_EXPR_INT, -a->value, NULL, NULL, out);
        TN_TRY(make(p, TN_EXPR_INT, -1, NULL, NULL, &minus));
        return make(p, TN_EXPR_MUL, 0, minus, a, out);
    }
    if (isdigit((unsigned char)*p->at)) {
        int64_t value = 0;
        for (; isdigit((unsigned char)*p->at); p->at++)
            if (!tn_mul(value, 10, &value) || !tn_add(value, *p->at - '0', &value))
                return bad(p, "a number does not fit in 64 bits");
        return make(p, TN_EXPR_INT, value, NULL, NULL, out);
    }
    if (isalpha((unsigned char)*p->at) || *p->at == '_')
        return parse_name(p, out);
    return bad(p, "a number, a name or '(' is missing");
}

static tenon_status parse_power(parser *p, const tn_expr **out) {
    if (++p->depth > MAX_DEPTH)
        return bad(p, "nested too deep");
    TN_TRY(parse_atom(p, out));
    if (accept(p, "**")) {
        const tn_expr *b;
        TN_TRY(parse_power(p, &b));
        TN_TRY(make(p, TN_EXPR_POW, 0, *out, b, out));
    }
    p->depth--;
    return TENON_OK;
}

static tenon_status parse_product(parser *p, const tn_expr **out) {
    TN_TRY(parse_power(p, out));
    for (;;) {
        const tn_expr *b;
        tn_expr_kind kind;
        if (accept(p, "*"))
            kind = TN_EXPR_MUL;
        else if (accept(p, "//"))
            kind = TN_EXPR_FLOORDIV;
        else if (accept(p, "%"))
            kind = TN_EXPR_MOD;
        else
            return TENON_OK;
        TN_TRY(parse_power(p, &b));
        TN_TRY(make(p, kind, 0, *out, b, out));
    }
}

static tenon_status parse_sum(parser *p, const tn_expr **out) {
    TN_TRY(parse_product(p, out));
    for (;;) {
        const tn_expr *b, *minus;
        bool subtract = false;
        if (!accept(p, "+")) {
            if (!accept(p, "-"))
                return TENON_OK;
            subtract = true;
        }
        TN_TRY(parse_product(p, &b));
        if (subtract) {
            TN_TRY(make(p, TN_EXPR_INT, -1, NULL, NULL, &minus));
            TN_TRY(make(p, TN_EXPR_MUL, 0, minus, b, &b));
        }
        TN_TRY(make(p, TN_EXPR_ADD, 0, *out, b, out));
    }
}

tenon_status tn_expr_parse(tn_arena *arena, const char *text, tn_symbol_fn symbol, void *user,
                           const tn_expr **out) {
    parser p = {arena, text, text, symbol, user, 0};
    const tn_expr *expr;
    if (strlen(text) > 4096)
        return tn_fail(TENON_INVALID_ARGUMENT, "size expression: longer than 4096 characters");
    TN_TRY(parse_sum(&p, &expr));
    skip(&p);
    if (*p.at)
        return bad(&p, "unexpected text");
    *out = expr;
    return TENON_OK;
}

/* ---- Printing ---- */

static void print(const tn_expr *e, const char *const *names, tn_text *out, bool inner) {
    static const char *const signs[] = {[TN_EXPR_ADD] = " + ",
                                        [TN_EXPR_MUL] = "*",
                                        [TN_EXPR_FLOORDIV] = "//",
                                        [TN_EXPR_MOD] = " % ",
                                        [TN_EXPR_POW] = "**"};
    switch (e->kind) {
    case TN_EXPR_INT:
        tn_text_add(out, inner && e->value < 0 ? "(%lld)" : "%lld", (long long)e->value);
        break;
    case TN_EXPR_SYMBOL:
        tn_text_add(out, "%s", names[e->value]);
        break;
    case TN_EXPR_MIN:
    case TN_EXPR_MAX:
        tn_text_add(out, e->kind == TN_EXPR_MIN ? "min(" : "max(");
        print(e->a, names, out, false);
        tn_text_add(out, ", ");
        print(e->b, names, out, false);
        tn_text_add(out, ")");
        break;
    default:
        if (inner)
            tn_text_add(out, "(");
        print(e->a, names, out, true);
        tn_text_add(out, "%s", signs[e->kind]);
        print(e->b, names, out, true);
        if (inner)
            tn_text_add(out, ")");
    }
}

void tn_expr_print(const tn_expr *expr, const char *const *names, tn_text *out) {
    print(expr, names, out, false);
}

/* ---- Evaluating ---- */

static bool apply(tn_expr_kind kind, int64_t a, int64_t b, int64_t *out) {
    switch (kind) {
    case TN_EXPR_ADD:
        return tn_add(a, b, out);
    case TN_EXPR_MUL:
        return tn_mul(a, b, out);
    case TN_EXPR_FLOORDIV:
    case TN_EXPR_MOD: {
        if (b == 0 || (a == INT64_MIN && b == -1))
            return false;
        int64_t quotient = a / b, rest = a % b;
        if (rest != 0 && (rest < 0) != (b < 0)) {
            quotient--;
            rest += b;
        }
        *out = kind == TN_EXPR_MOD ? rest : quotient;
        return true;
    }
    case TN_EXPR_POW: {
        int64_t result = 1;
        if (b < 0)
            return false;
        if (a == 0 || a == 1 || b == 0) {
            *out = b == 0 ? 1 : a;
            return true;
        }
        for (int64_t i = 0; i < b; i++)
            if (!tn_mul(result, a, &result) || i > 64)
                return false;
        *out = result;
        return true;
    }
    case TN_EXPR_MIN:
        *out = a < b ? a : b;
        return true;
    case TN_EXPR_MAX:
        *out = a > b ? a : b;
        return true;
    default:
        return false;
    }
}

bool tn_expr_eval(const tn_expr *expr, const tn_binding *bindings, int64_t *out) {
    int64_t a, b;
    if (expr->kind == TN_EXPR_INT) {
        *out = expr->value;
        return true;
    }
    if (expr->kind == TN_EXPR_SYMBOL) {
        *out = bindings[expr->value].value;
        return bindings[expr->value].bound;
    }
    return tn_expr_eval(expr->a, bindings, &a) && tn_expr_eval(expr->b, bindings, &b) &&
           apply(expr->kind, a, b, out);
}

/* NOLINTEND(misc-no-recursion) */

bool tn_expr_solve(const tn_expr *expr, int64_t value, tn_binding *bindings) {
    for (;;) {
        if (expr->kind == TN_EXPR_SYMBOL) {
            tn_binding *binding = &bindings[expr->value];
            if (!binding->bound)
                *binding = (tn_binding){true, value};
            return binding->value == value;
        }
        if (expr->kind == TN_EXPR_INT)
            return expr->value == value;
        int64_t known;
        bool left = tn_expr_eval(expr->a, bindings, &known);
        if (!left && !tn_expr_eval(expr->b, bindings, &known))
            return false;
        const tn_expr *unknown = left ? expr->b : expr->a;
        if (expr->kind == TN_EXPR_ADD) {
            if (known == INT64_MIN || !tn_add(value, -known, &value))
                return false;
        } else if (expr->kind == TN_EXPR_MUL) {
            if (known == 0 || (known == -1 && value == INT64_MIN) || value % known != 0)
                return false;
            value /= known;
        } else if (expr->kind == TN_EXPR_FLOORDIV && !left && (known == 1 || known == -1)) {
            value *= known;
        } else {
            return false;
        }
        expr = unknown;
    }
}
