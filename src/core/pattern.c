/* Patterns of nodes: reading and matching. Rewriting is in pattern_rewrite.c. */
#include "core/pattern.h"
#include "core/arg.h"
#include "core/fail.h"
#include <stdlib.h>
#include <string.h>

#define MAX_COMMUTATIVE 8

/* ---- Reading ---- */

#define FAIL(p, ...) tn_lex_fail(&(p)->lex, TENON_INVALID_FILE, __VA_ARGS__)

static int find_name(const char *const *names, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* The number of a name, which is new when `names` does not hold it yet. */
static tenon_status number_of(tenon_pattern *p, const char **names, int *count, const char *name,
                              int *out) {
    *out = find_name(names, *count, name);
    if (*out >= 0)
        return TENON_OK;
    if (*count == TN_PATTERN_NAMES)
        return FAIL(p, "more than %d names", TN_PATTERN_NAMES);
    *out = (*count)++;
    names[*out] = name;
    return TENON_OK;
}

static tenon_status read_value(tenon_pattern *p, int *out) {
    const char *name;
    TN_TRY(tn_lex_value_name(&p->lex, &name));
    return number_of(p, p->value_names, &p->value_count, name, out);
}

static tenon_status read_single(tenon_pattern *p, tn_pattern_arg *out) {
    const char *name;
    if (tn_lex_peek(&p->lex, "%")) {
        out->kind = TN_PATTERN_VALUE;
        return read_value(p, &out->number);
    }
    if (tn_lex_accept(&p->lex, "$")) {
        out->kind = TN_PATTERN_CAPTURE;
        TN_TRY(tn_lex_word(&p->lex, "a name behind '$'", &name));
        return number_of(p, p->capture_names, &p->capture_count, name, &out->number);
    }
    if (tn_lex_accept_word(&p->lex, "_")) {
        out->kind = TN_PATTERN_ANY;
        return TENON_OK;
    }
    out->kind = TN_PATTERN_LITERAL;
    return tn_lex_literal(&p->lex, &out->literal);
}

static tenon_status read_list(tenon_pattern *p, tn_pattern_arg *out) {
    tn_pattern_arg items[TN_PATTERN_NAMES];
    int count = 0;
    while (!tn_lex_accept(&p->lex, "]")) {
        if (count > 0)
            TN_TRY(tn_lex_expect(&p->lex, ","));
        if (count == TN_PATTERN_NAMES)
            return FAIL(p, "a list has more than %d items", TN_PATTERN_NAMES);
        if (tn_lex_peek(&p->lex, "["))
            return FAIL(p, "a list cannot hold a list");
        TN_TRY(read_single(p, &items[count++]));
    }
    *out = (tn_pattern_arg){.kind = TN_PATTERN_LIST, .count = count};
    out->items = tn_arena_array(&p->lex.scratch, (size_t)count + 1, sizeof *out->items);
    if (!out->items)
        return tn_no_memory();
    memcpy(out->items, items, (size_t)count * sizeof *items);
    return TENON_OK;
}

static tenon_status read_args(tenon_pattern *p, tn_pattern_node *node) {
    const tn_op *op = node->op;
    int position = 0, index;
    bool named = false;
    node->args = tn_arena_array(&p->lex.scratch, (size_t)op->param_count + 1, sizeof *node->args);
    if (!node->args)
        return tn_no_memory();
    for (bool first = true; !tn_lex_accept(&p->lex, ")"); first = false) {
        if (!first)
            TN_TRY(tn_lex_expect(&p->lex, ","));
        TN_TRY(tn_lex_arg_place(&p->lex, op, &position, &named, &index));
        if (node->args[index].kind != TN_PATTERN_LEFT_OUT)
            return FAIL(p, "argument '%s' is given twice", op->params[index].name);
        TN_TRY(tn_lex_accept(&p->lex, "[") ? read_list(p, &node->args[index])
                                           : read_single(p, &node->args[index]));
    }
    for (int i = 0; i < op->param_count; i++) {
        if (node->args[i].kind == TN_PATTERN_LEFT_OUT && !op->params[i].has_default)
            return FAIL(p, "argument '%s' of %s is missing", op->params[i].name, op->name);
        if (node->args[i].kind == TN_PATTERN_LITERAL &&
            !tn_arg_fits(op, &op->params[i], node->args[i].literal))
            return FAIL(p, "argument '%s' of %s cannot be this", op->params[i].name, op->name);
    }
    return TENON_OK;
}

/* "%a, %b =" */
static tenon_status read_targets(tenon_pattern *p, tn_pattern_node *node, int index) {
    do {
        int number;
        if (node->output_count == TN_PATTERN_OUTPUTS)
            return FAIL(p, "a node has more than %d outputs", TN_PATTERN_OUTPUTS);
        TN_TRY(read_value(p, &number));
        if (p->makers[number] >= 0 || p->used[number])
            return FAIL(p, "%%%s is made after it was used, or twice", p->value_names[number]);
        if (p->constant[number])
            return FAIL(p, "%%%s is a constant, so no node makes it", p->value_names[number]);
        p->makers[number] = index;
        node->outputs[node->output_count++] = number;
    } while (tn_lex_accept(&p->lex, ","));
    return tn_lex_expect(&p->lex, "=");
}

/* What a node takes was used: a maker cannot come later. */
static tenon_status note_uses(tenon_pattern *p, const tn_pattern_node *node) {
    for (int i = 0; i < node->op->param_count; i++) {
        const tn_pattern_arg *arg = &node->args[i];
        const tn_pattern_arg *items = arg->kind == TN_PATTERN_LIST ? arg->items : arg;
        int count = arg->kind == TN_PATTERN_LIST ? arg->count : 1;
        for (int k = 0; k < count; k++)
            if (items[k].kind == TN_PATTERN_VALUE) {
                if (p->makers[items[k].number] == p->node_count)
                    return FAIL(p, "the node uses %%%s, which it makes",
                                p->value_names[items[k].number]);
                p->used[items[k].number] = true;
            }
    }
    return TENON_OK;
}

static tenon_status read_node(tenon_pattern *p) {
    const char *name;
    if (p->node_count == TN_PATTERN_NODES)
        return FAIL(p, "more than %d nodes", TN_PATTERN_NODES);
    tn_pattern_node *node = &p->nodes[p->node_count];
    node->shared = tn_lex_accept_word(&p->lex, "shared");
    TN_TRY(read_targets(p, node, p->node_count));
    TN_TRY(tn_lex_word(&p->lex, "an operator", &name));
    node->op = tn_op_find(name);
    if (!node->op)
        return tn_lex_fail(&p->lex, TENON_UNKNOWN_OP, "unknown operator '%s'", name);
    if (!node->op->list_return && node->output_count > node->op->return_count)
        return FAIL(p, "%s has %d outputs", node->op->name, node->op->return_count);
    TN_TRY(tn_lex_expect(&p->lex, "("));
    TN_TRY(read_args(p, node));
    if (tn_lex_accept_word(&p->lex, "commutative")) {
        if (node->op->param_count < 2)
            return FAIL(p, "%s has no two arguments to be exchanged", node->op->name);
        if (p->commutative_count == MAX_COMMUTATIVE)
            return FAIL(p, "more than %d nodes are commutative", MAX_COMMUTATIVE);
        node->order_bit = ++p->commutative_count;
    }
    TN_TRY(note_uses(p, node));
    p->node_count++;
    return TENON_OK;
}

/* Every node but the last feeds another one. */
static tenon_status check_ends(tenon_pattern *p) {
    if (p->node_count == 0)
        return p->result >= 0 ? TENON_OK : FAIL(p, "there is no node");
    for (int i = 0; i + (p->result < 0) < p->node_count; i++) {
        bool feeds = false;
        for (int k = 0; k < p->nodes[i].output_count; k++)
            feeds |= p->used[p->nodes[i].outputs[k]] || p->nodes[i].outputs[k] == p->result;
        if (!feeds)
            return FAIL(p, "nothing uses %%%s, and it is not the last node",
                        p->value_names[p->nodes[i].outputs[0]]);
    }
    return TENON_OK;
}

/* "const %w: float32", "value %x: float32"; the dtype may be left out. */
static tenon_status read_condition(tenon_pattern *p, bool constant) {
    const char *word;
    int number;
    TN_TRY(read_value(p, &number));
    p->constant[number] |= constant;
    if (!tn_lex_accept(&p->lex, ":"))
        return TENON_OK;
    TN_TRY(tn_lex_word(&p->lex, "a dtype", &word));
    p->dtypes[number] = tenon_dtype_from_text(word);
    return p->dtypes[number] ? TENON_OK : FAIL(p, "'%s' is no dtype", word);
}

tenon_status tn_pattern_read(const char *text, const char *source, const tenon_pattern *base,
                             tenon_pattern **out) {
    tenon_pattern *p = calloc(1, sizeof *p);
    tenon_status status = TENON_OK;
    if (!p)
        return tn_no_memory();
    p->lex = (tn_lexer){.source = source, .at = text, .end = text + strlen(text), .line = 1};
    p->result = -1;
    memset(p->makers, -1, sizeof p->makers);
    if (base) { /* its names are known, with the same numbers */
        memcpy(p->value_names, base->value_names, sizeof p->value_names);
        memcpy(p->capture_names, base->capture_names, sizeof p->capture_names);
        p->value_count = base->value_count;
        p->capture_count = base->capture_count;
    }
    for (bool constant = false;
         status == TENON_OK && ((constant = tn_lex_accept_word(&p->lex, "const")) ||
                                tn_lex_accept_word(&p->lex, "value"));)
        status = read_condition(p, constant);
    while (status == TENON_OK && p->result < 0 && !tn_lex_at_end(&p->lex)) {
        if (base && tn_lex_accept_word(&p->lex, "result"))
            status = read_value(p, &p->result);
        else
            status = read_node(p);
    }
    if (status == TENON_OK && !tn_lex_at_end(&p->lex))
        status = FAIL(p, "text after the result");
    if (status == TENON_OK)
        status = check_ends(p);
    if (status != TENON_OK)
        tenon_pattern_destroy(&p);
    else
        *out = p;
    return status;
}

tenon_status tenon_pattern_create(const char *text, const char *source, tenon_pattern **out) {
    return tn_pattern_read(text, source ? source : "pattern", NULL, out);
}

void tenon_pattern_destroy(tenon_pattern **pattern) {
    if (!*pattern)
        return;
    tn_arena_free(&(*pattern)->lex.scratch);
    free(*pattern);
    *pattern = NULL;
}

/* ---- Matching ---- */

static bool is_number(const tenon_arg *arg) {
    return arg->kind == TENON_ARG_INT || arg->kind == TENON_ARG_FLOAT ||
           arg->kind == TENON_ARG_BOOL;
}

static double number_value(const tenon_arg *arg) {
    return arg->kind == TENON_ARG_INT     ? (double)arg->as.i
           : arg->kind == TENON_ARG_FLOAT ? arg->as.f
                                          : (double)arg->as.b;
}

/* Equal, where 1, 1.0 and true are: schemas turn one into another. */
static bool equal_single(const tenon_arg *a, const tenon_arg *b) {
    if (a->kind != b->kind && is_number(a) && is_number(b))
        return number_value(a) == number_value(b);
    return tn_arg_equal(a, b);
}

/* The same; one item stands for a list of it. */
static bool equal_arg(const tenon_arg *want, const tenon_arg *arg) {
    const tenon_arg *items = want->kind == TENON_ARG_LIST ? want->as.list : want;
    int count = want->kind == TENON_ARG_LIST ? want->count : 1;
    if (arg->kind != TENON_ARG_LIST)
        return want->kind != TENON_ARG_LIST && equal_single(want, arg);
    if (arg->count != count)
        return false;
    for (int i = 0; i < count; i++)
        if (!equal_single(&items[i], &arg->as.list[i]))
            return false;
    return true;
}

static bool match_value(tenon_pattern *p, int number, tenon_value *value) {
    if (p->values[number])
        return p->values[number] == value;
    if ((p->constant[number] && value->kind != TENON_VALUE_CONSTANT) ||
        (p->dtypes[number] && value->dtype != p->dtypes[number]))
        return false;
    p->values[number] = value;
    return true;
}

static bool match_single(tenon_pattern *p, const tn_pattern_arg *want, const tenon_arg *arg) {
    tenon_arg *kept;
    switch (want->kind) {
    case TN_PATTERN_ANY:
        return true;
    case TN_PATTERN_VALUE:
        return arg->kind == TENON_ARG_VALUE && match_value(p, want->number, arg->as.value);
    case TN_PATTERN_CAPTURE:
        kept = &p->captures[want->number];
        if (arg->kind == TENON_ARG_VALUE)
            return false;
        if (kept->kind != TENON_ARG_DEFAULT)
            return tn_arg_equal(kept, arg);
        *kept = *arg;
        return true;
    default:
        return equal_arg(&want->literal, arg);
    }
}

static bool match_arg(tenon_pattern *p, const tn_param *param, const tn_pattern_arg *want,
                      const tenon_arg *arg) {
    if (want->kind == TN_PATTERN_LEFT_OUT)
        return equal_arg(&param->preset, arg);
    if (want->kind != TN_PATTERN_LIST)
        return match_single(p, want, arg);
    if (arg->kind != TENON_ARG_LIST || arg->count != want->count)
        return false;
    for (int i = 0; i < want->count; i++)
        if (!match_single(p, &want->items[i], &arg->as.list[i]))
            return false;
    return true;
}

static bool match_node(tenon_pattern *p, int index, tenon_node *node) {
    const tn_pattern_node *want = &p->nodes[index];
    bool exchanged = want->order_bit > 0 && (p->orders >> (want->order_bit - 1) & 1) != 0;
    if (node->op != want->op)
        return false;
    p->matched[index] = node;
    for (int i = 0; i < want->output_count; i++)
        if (i >= node->output_count || !match_value(p, want->outputs[i], node->outputs[i]))
            return false;
    for (int i = 0; i < want->op->param_count; i++) {
        int at = exchanged && i < 2 ? 1 - i : i;
        if (!match_arg(p, &want->op->params[at], &want->args[i], &node->args[at]))
            return false;
    }
    return true;
}

/* Every use of the node's outputs is by a node of the match. */
static bool used_inside(const tenon_pattern *p, const tenon_node *node) {
    for (int i = 0; i < node->output_count; i++) {
        for (const tn_use *use = node->outputs[i]->uses; use; use = use->next) {
            int k = 0;
            while (k < p->node_count && p->matched[k] != use->node)
                k++;
            if (k == p->node_count)
                return false;
        }
    }
    return true;
}

/* From the root back: a node's outputs are bound by what uses them. */
static bool match_all(tenon_pattern *p, tenon_node *root) {
    memset(p->values, 0, sizeof p->values);
    memset(p->captures, 0, sizeof p->captures);
    memset(p->matched, 0, sizeof p->matched);
    for (int i = p->node_count - 1; i >= 0; i--) {
        const tn_pattern_node *want = &p->nodes[i];
        tenon_node *node = i == p->node_count - 1 ? root : NULL;
        for (int k = 0; k < want->output_count && !node; k++)
            if (p->values[want->outputs[k]])
                node = p->values[want->outputs[k]]->node;
        if (!node || !match_node(p, i, node))
            return false;
    }
    for (int i = 0; i + 1 < p->node_count; i++)
        if (!p->nodes[i].shared && !used_inside(p, p->matched[i]))
            return false;
    return true;
}

bool tenon_pattern_match(tenon_pattern *pattern, tenon_node *root) {
    unsigned all = 1u << pattern->commutative_count;
    pattern->found = false;
    if (root->op != pattern->nodes[pattern->node_count - 1].op)
        return false;
    for (pattern->orders = 0; pattern->orders < all && !pattern->found; pattern->orders++)
        pattern->found = match_all(pattern, root);
    return pattern->found;
}

tenon_value *tenon_pattern_value(const tenon_pattern *pattern, const char *name) {
    int number = find_name(pattern->value_names, pattern->value_count, name);
    return number >= 0 && pattern->found ? pattern->values[number] : NULL;
}

tenon_node *tenon_pattern_node(const tenon_pattern *pattern, const char *name) {
    int number = find_name(pattern->value_names, pattern->value_count, name);
    int maker = number >= 0 ? pattern->makers[number] : -1;
    return maker >= 0 && pattern->found ? pattern->matched[maker] : NULL;
}

tenon_arg tenon_pattern_arg(const tenon_pattern *pattern, const char *name) {
    int number = find_name(pattern->capture_names, pattern->capture_count, name);
    return number >= 0 && pattern->found ? pattern->captures[number] : (tenon_arg){0};
}

tenon_status tenon_pattern_erase(tenon_pattern *pattern) {
    for (int i = pattern->found ? pattern->node_count - 1 : -1; i >= 0; i--) {
        tenon_node *node = pattern->matched[i];
        bool used = node->erased;
        for (int k = 0; k < node->output_count; k++)
            used |= node->outputs[k]->use_count > 0;
        if (!used)
            TN_TRY(tenon_node_erase(node));
    }
    pattern->found = false;
    return TENON_OK;
}
