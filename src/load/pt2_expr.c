/* Sizes in exported programs: sympy's srepr text, such as "Mul(Integer(2), Symbol('s77',
 * positive=True, integer=True))", and for ranges its plain text, such as "2*s77". */
#include "load/pt2.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64 };

typedef struct reader {
    tn_pt2 *pt2;
    const char *text, *at;
    int depth;
} reader;

static tenon_status bad(const reader *r, const char *rule) {
    return tn_pt2_fail(r->pt2, TENON_UNSUPPORTED, "size expression '%.200s': %s at '%.40s'",
                       r->text, rule, r->at);
}

static bool accept(reader *r, const char *token) {
    while (*r->at == ' ')
        r->at++;
    size_t length = strlen(token);
    if (strncmp(r->at, token, length) != 0)
        return false;
    r->at += length;
    return true;
}

static tenon_status make(reader *r, tn_expr_kind kind, int64_t value, const tn_expr *a,
                         const tn_expr *b, const tn_expr **out) {
    *out = tn_expr_make(&r->pt2->graph->arena, kind, value, a, b);
    return *out ? TENON_OK : tn_no_memory();
}

static tenon_status read_integer(reader *r, const tn_expr **out) {
    char *end;
    errno = 0;
    int64_t value = strtoll(r->at, &end, 10);
    if (end == r->at || errno != 0)
        return bad(r, "no 64-bit integer");
    r->at = end;
    return make(r, TN_EXPR_INT, value, NULL, NULL, out);
}

/* Symbol('s77', positive=True, integer=True), from behind the '('. */
static tenon_status read_symbol(reader *r, const tn_expr **out) {
    char name[64];
    if (!accept(r, "'"))
        return bad(r, "a symbol's name is missing");
    size_t length = strcspn(r->at, "'");
    if (length == 0 || length >= sizeof name || r->at[length] != '\'')
        return bad(r, "a symbol's name is wrong");
    memcpy(name, r->at, length);
    name[length] = '\0';
    if (name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] ||
        (name[0] >= '0' && name[0] <= '9'))
        return bad(r, "a symbol's name has other characters than letters and digits");
    r->at += strcspn(r->at, ")");
    if (!accept(r, ")"))
        return bad(r, "')' is missing");
    int index = tn_graph_symbol_fn(r->pt2->graph, name);
    return index < 0 ? tn_no_memory() : make(r, TN_EXPR_SYMBOL, index, NULL, NULL, out);
}

static const struct {
    const char *name;
    tn_expr_kind kind;
    bool many; /* takes more than two operands */
} functions[] = {
    {"Add(", TN_EXPR_ADD, true},
    {"Mul(", TN_EXPR_MUL, true},
    {"Max(", TN_EXPR_MAX, true},
    {"Min(", TN_EXPR_MIN, true},
    {"FloorDiv(", TN_EXPR_FLOORDIV, false},
    {"CleanDiv(", TN_EXPR_FLOORDIV, false},
    {"PythonMod(", TN_EXPR_MOD, false},
    {"Mod(", TN_EXPR_MOD, false},
    {"Pow(", TN_EXPR_POW, false},
    {"PowByNatural(", TN_EXPR_POW, false},
};

static tenon_status read_expr(reader *r, const tn_expr **out);

/* NOLINTNEXTLINE(misc-no-recursion): read_expr counts the depth */
static tenon_status read_operands(reader *r, tn_expr_kind kind, bool many, const tn_expr **out) {
    TN_TRY(read_expr(r, out));
    int count = 1;
    while (accept(r, ",")) {
        const tn_expr *b;
        if (strncmp(r->at, " evaluate=", 10) ==
            0) { /* a keyword that says nothing about the value */
            r->at += strcspn(r->at, ",)");
            continue;
        }
        TN_TRY(read_expr(r, &b));
        TN_TRY(make(r, kind, 0, *out, b, out));
        count++;
    }
    if (count < (many ? 1 : 2) || (!many && count > 2))
        return bad(r, "a wrong number of operands stands before");
    return accept(r, ")") ? TENON_OK : bad(r, "')' is missing");
}

/* NOLINTNEXTLINE(misc-no-recursion): no deeper than DEPTH */
static tenon_status read_expr(reader *r, const tn_expr **out) {
    tenon_status status = TENON_OK;
    if (++r->depth > DEPTH)
        return bad(r, "nested too deep");
    if (accept(r, "Integer(")) {
        TN_TRY(read_integer(r, out));
        status = accept(r, ")") ? TENON_OK : bad(r, "')' is missing");
    } else if (accept(r, "Symbol(")) {
        status = read_symbol(r, out);
    } else if (accept(r, "Identity(")) {
        TN_TRY(read_expr(r, out));
        status = accept(r, ")") ? TENON_OK : bad(r, "')' is missing");
    } else {
        int i = 0;
        while (i < TN_COUNT(functions) && !accept(r, functions[i].name))
            i++;
        status = i < TN_COUNT(functions)
                     ? read_operands(r, functions[i].kind, functions[i].many, out)
                     : bad(r, "an unknown function");
    }
    r->depth--;
    return status;
}

tenon_status tn_pt2_expr(tn_pt2 *pt2, const char *text, const tn_expr **out) {
    reader r = {pt2, text, text, 0};
    const tn_expr *expr;
    if (strlen(text) > 4096)
        return tn_pt2_fail(pt2, TENON_UNSUPPORTED,
                           "a size expression is longer than 4096 characters");
    TN_TRY(read_expr(&r, &expr));
    if (*r.at)
        return bad(&r, "unexpected text");
    *out = expr;
    return TENON_OK;
}

/* ---- Ranges ---- */

static bool read_bound(const cJSON *item, int64_t missing, int64_t *out) {
    *out = missing;
    return !item || cJSON_IsNull(item) || tn_json_int(item, out);
}

/* Finds symbols that inputs have made known; others, which no size names, are of no use. */
static int known_symbol(void *user, const char *name) {
    const tenon_graph *graph = user;
    for (int i = 0; i < graph->symbol_count; i++)
        if (strcmp(graph->symbols[i].name, name) == 0)
            return i;
    return -1;
}

static tenon_status set_range(tn_pt2 *pt2, const char *key, int64_t min, int64_t max) {
    const tn_expr *expr;
    if (min > max)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "range_constraints: the range of '%s' is empty",
                           key);
    /* A least size of 2 only says that the export did not decide by sizes of 0 and 1; as in
     * PyTorch, programs take these too. */
    if (known_symbol(pt2->graph, key) >= 0)
        return tenon_graph_set_symbol_range(pt2->graph, key, min == 2 ? 0 : min, max);
    char *text = tn_arena_strdup(&pt2->arena, key);
    if (!text)
        return tn_no_memory();
    for (char *p = text; *p; p++)
        if (strncmp(p, "Max(", 4) == 0 || strncmp(p, "Min(", 4) == 0)
            *p += 'a' - 'A';
    /* What cannot be read is a bound on symbols that have bounds of their own. */
    if (tn_expr_parse(&pt2->graph->arena, text, known_symbol, pt2->graph, &expr) != TENON_OK) {
        tn_log(TENON_LOG_INFO, "%s: the range of '%s' is not checked", pt2->path, key);
        return TENON_OK;
    }
    return tn_graph_add_constraint(pt2->graph, expr, min, max);
}

tenon_status tn_pt2_ranges(tn_pt2 *pt2) {
    const cJSON *ranges = tn_json_get(pt2->model, "range_constraints");
    for (const cJSON *item = tn_json_first(ranges); item; item = item->next) {
        int64_t min, max;
        if (!item->string || !read_bound(tn_json_get(item, "min_val"), INT64_MIN, &min) ||
            !read_bound(tn_json_get(item, "max_val"), INT64_MAX, &max))
            return tn_pt2_fail(pt2, TENON_INVALID_FILE, "range_constraints: a range is damaged");
        TN_PT2_TRY(pt2, set_range(pt2, item->string, min, max));
    }
    return TENON_OK;
}
