/* Putting nodes declared as text in the place of what a pattern matched. */
#include "core/fail.h"
#include "core/pattern.h"
#include <string.h>

/* Values and captures that neither the pattern nor an earlier line makes. */
static tenon_status check_known(tenon_pattern *r, const tenon_pattern *pattern) {
    for (int i = pattern->value_count; i < r->value_count; i++)
        if (r->makers[i] < 0)
            return tn_lex_fail(&r->lex, TENON_INVALID_FILE, "the pattern has no value %%%s",
                               r->value_names[i]);
    for (int i = 0; i < pattern->value_count; i++)
        if (r->makers[i] >= 0)
            return tn_lex_fail(&r->lex, TENON_INVALID_FILE, "%%%s is a value of the pattern",
                               r->value_names[i]);
    const tn_pattern_node *root = &pattern->nodes[pattern->node_count - 1];
    for (int i = 0; i < root->output_count; i++)
        if (r->used[root->outputs[i]] || r->result == root->outputs[i])
            return tn_lex_fail(&r->lex, TENON_INVALID_FILE, "%%%s is what gets replaced",
                               r->value_names[root->outputs[i]]);
    if (r->capture_count > pattern->capture_count)
        return tn_lex_fail(&r->lex, TENON_INVALID_FILE, "the pattern has no capture $%s",
                           r->capture_names[pattern->capture_count]);
    for (int i = 0; i < r->node_count; i++)
        for (int k = 0; k < r->nodes[i].op->param_count; k++)
            if (r->nodes[i].args[k].kind == TN_PATTERN_ANY)
                return tn_lex_fail(&r->lex, TENON_INVALID_FILE,
                                   "'_' stands for no argument in a replacement");
    return TENON_OK;
}

static tenon_arg single(const tenon_pattern *r, const tn_pattern_arg *arg) {
    switch (arg->kind) {
    case TN_PATTERN_VALUE:
        return tenon_arg_value(r->values[arg->number]);
    case TN_PATTERN_CAPTURE:
        return r->captures[arg->number];
    case TN_PATTERN_LITERAL:
        return arg->literal;
    default:
        return (tenon_arg){TENON_ARG_DEFAULT};
    }
}

static tenon_status emit(tenon_pattern *r, int index, tenon_node *root) {
    const tn_pattern_node *node = &r->nodes[index];
    int count = node->op->param_count;
    tenon_arg *args = tn_arena_array(&r->lex.scratch, (size_t)count + 1, sizeof *args);
    if (!args)
        return tn_no_memory();
    for (int i = 0; i < count; i++) {
        const tn_pattern_arg *arg = &node->args[i];
        args[i] = single(r, arg);
        if (arg->kind != TN_PATTERN_LIST)
            continue;
        tenon_arg *items = tn_arena_array(&r->lex.scratch, (size_t)arg->count + 1, sizeof *items);
        if (!items)
            return tn_no_memory();
        for (int k = 0; k < arg->count; k++)
            items[k] = single(r, &arg->items[k]);
        args[i] = tenon_arg_list(items, arg->count);
    }
    tenon_node *made;
    int outputs = node->op->list_return ? node->output_count : -1;
    TN_TRY(tn_graph_add(root->graph, root, node->op, NULL, args, count, outputs, &made));
    made->source = root->source;
    r->matched[index] = made;
    for (int i = 0; i < node->output_count; i++)
        r->values[node->outputs[i]] = made->outputs[i];
    return TENON_OK;
}

/* The value that takes the place of output `index` of the root. */
static tenon_value *stand_in(const tenon_pattern *r, int index) {
    if (r->result >= 0)
        return index == 0 ? r->values[r->result] : NULL;
    const tenon_node *last = r->matched[r->node_count - 1];
    return index < last->output_count ? last->outputs[index] : NULL;
}

/* Every output of the root that is used gets a stand-in. */
static tenon_status check_outputs(const tenon_pattern *r, const tenon_node *root) {
    const tn_pattern_node *last = r->result < 0 ? &r->nodes[r->node_count - 1] : NULL;
    int count = !last ? 1 : last->op->list_return ? last->output_count : last->op->return_count;
    for (int i = count; i < root->output_count; i++)
        if (root->outputs[i]->use_count > 0)
            return tn_fail(TENON_INVALID_GRAPH,
                           "node '%s' (%s): its output %d is used, and the replacement has none",
                           root->name, root->op->name, i);
    return TENON_OK;
}

static tenon_status replace(tenon_pattern *pattern, tenon_pattern *r) {
    tenon_node *root = pattern->matched[pattern->node_count - 1];
    TN_TRY(check_outputs(r, root));
    memcpy(r->values, pattern->values, sizeof r->values);
    memcpy(r->captures, pattern->captures, sizeof r->captures);
    memset(r->matched, 0, sizeof r->matched);
    for (int i = 0; i < r->node_count; i++)
        TN_TRY(emit(r, i, root));
    for (int i = 0; i < root->output_count; i++) {
        if (root->outputs[i]->use_count > 0)
            TN_TRY(tenon_value_replace(root->outputs[i], stand_in(r, i)));
    }
    TN_TRY(tenon_pattern_erase(pattern));
    if (r->result >= 0 || !root->erased)
        return TENON_OK;
    /* What takes the place takes the name. */
    r->matched[r->node_count - 1]->name = root->name;
    for (int i = 0; i < root->output_count; i++) {
        tenon_value *with = stand_in(r, i);
        if (with)
            TN_TRY(tn_value_rename(with, root->outputs[i]->name));
    }
    return TENON_OK;
}

tenon_status tenon_pattern_rewrite(tenon_pattern *pattern, tenon_graph *graph,
                                   const char *replacement, tenon_pattern_accept accept, void *user,
                                   int64_t *count) {
    tenon_pattern *r = NULL;
    int64_t replaced = 0;
    TN_TRY(tn_pattern_read(replacement, "replacement", pattern, &r));
    tenon_status status = check_known(r, pattern);
    for (tenon_node *node = graph->first; node && status == TENON_OK;
         node = tenon_node_next(node)) {
        if (!tenon_pattern_match(pattern, node) || (accept && !accept(pattern, user)))
            continue;
        status = replace(pattern, r);
        replaced += status == TENON_OK;
    }
    tenon_pattern_destroy(&r);
    if (status == TENON_OK && count)
        *count = replaced;
    return status;
}
