#include "fusion/choose.h"
#include "fusion/passes.h"
#include "fusion/rewrite.h"
#include "fusion/weights.h"
#include <stdio.h>

/* ---- Cutting out ---- */

typedef struct cutter {
    const tn_choice *choice;
    tenon_graph *to;
    tn_map copies; /* by name of a value, its copy */
    tn_arena scratch;
    int count;
} cutter;

/* A value that none of the nodes makes. */
static tenon_status take_outside(cutter *c, const tenon_value *value, tenon_value **out) {
    bool constant = tn_is_constant(value);
    char name[32];
    snprintf(name, sizeof name, "%c%d", constant ? 'w' : 'x', c->count++);
    if (constant) {
        TN_TRY(tenon_graph_add_constant(c->to, name, value->tensor, out));
        (*out)->channels_last = value->channels_last;
        return TENON_OK;
    }
    TN_TRY(tn_graph_add_input(c->to, name, TN_TENSOR, value->dtype, value->rank, value->shape, NULL,
                              out));
    if (value->kind != TENON_VALUE_NODE)
        return TENON_OK;
    tenon_arg arg = VAL(*out);
    TN_TRY(tn_graph_emit(c->to, NULL, TN_OP_clone, NULL, NULL, &arg, 1, out));
    (*out)->channels_last = value->channels_last;
    return TENON_OK;
}

static tenon_status take_node(cutter *c, const tenon_node *node, tenon_node **out);

/* NOLINTBEGIN(misc-no-recursion): to a weight that waits, whose own operands are constants */

static tenon_status take_value(cutter *c, tenon_arg *arg) {
    tenon_node *scaled;
    if (arg->kind != TENON_ARG_VALUE)
        return TENON_OK;
    const tenon_value *value = arg->as.value;
    tenon_value *copy = tn_map_get(&c->copies, value->name);
    if (!copy && value->node && tn_weight_waits(value->node)) { /* a weight is no input */
        TN_TRY(take_node(c, value->node, &scaled));
        copy = scaled->outputs[0];
    } else if (!copy) {
        TN_TRY(take_outside(c, value, &copy));
        TN_TRY(tn_map_put(&c->copies, value->name, copy));
    }
    *arg = VAL(copy);
    return TENON_OK;
}

static tenon_status take_arg(cutter *c, tenon_arg *arg) {
    if (arg->kind != TENON_ARG_LIST)
        return take_value(c, arg);
    tenon_arg *items = tn_arena_array(&c->scratch, (size_t)arg->count + 1, sizeof *items);
    if (!items)
        return tn_no_memory();
    for (int i = 0; i < arg->count; i++) {
        items[i] = arg->as.list[i];
        TN_TRY(take_value(c, &items[i]));
    }
    arg->as.list = items;
    return TENON_OK;
}

static tenon_status take_node(cutter *c, const tenon_node *node, tenon_node **out) {
    int count = node->op->param_count;
    tenon_arg *args = tn_arena_array(&c->scratch, (size_t)count + 1, sizeof *args);
    if (!args)
        return tn_no_memory();
    for (int i = 0; i < count; i++) {
        args[i] = node->args[i];
        TN_TRY(take_arg(c, &args[i]));
    }
    TN_TRY(tn_graph_add(c->to, NULL, node->op, NULL, args, count, node->output_count, out));
    for (int i = 0; i < node->output_count; i++) {
        (*out)->outputs[i]->channels_last = node->outputs[i]->channels_last;
        TN_TRY(tn_map_put(&c->copies, node->outputs[i]->name, (*out)->outputs[i]));
    }
    return TENON_OK;
}

/* NOLINTEND(misc-no-recursion) */

static bool is_inside(const tn_choice *choice, const tenon_node *node) {
    for (int i = 0; i < choice->node_count; i++) {
        if (choice->nodes[i] == node)
            return true;
    }
    return false;
}

/* What other nodes read, the model gives, or nobody reads, are outputs. */
static tenon_status give_outputs(cutter *c, const tenon_node *node) {
    for (int i = 0; i < node->output_count; i++) {
        const tenon_value *value = node->outputs[i];
        bool wanted = value->use_count == 0 && node->output_count == 1;
        for (const tn_use *use = value->uses; use && !wanted; use = use->next)
            wanted = !is_inside(c->choice, use->node);
        tenon_value *copy = tn_map_get(&c->copies, value->name);
        if (wanted)
            TN_TRY(tenon_graph_add_output(c->to, copy->name, VAL(copy)));
    }
    return TENON_OK;
}

/* `root`: the copy of the choice's. */
static tenon_status cut(cutter *c, tenon_node **root) {
    TN_TRY(tenon_graph_create("candidate", &c->to));
    for (int i = 0; i < c->choice->node_count; i++) {
        tenon_node *copy;
        TN_TRY(take_node(c, c->choice->nodes[i], &copy));
        if (i == c->choice->root)
            *root = copy;
    }
    for (int i = 0; i < c->choice->node_count; i++)
        TN_TRY(give_outputs(c, c->choice->nodes[i]));
    return TENON_OK;
}

static tenon_status cut_out(const tn_choice *choice, tenon_graph **out, tenon_node **root) {
    cutter c = {.choice = choice};
    tenon_status status = cut(&c, root);
    tn_map_free(&c.copies);
    tn_arena_free(&c.scratch);
    if (status == TENON_OK)
        *out = c.to;
    else
        tenon_graph_destroy(&c.to);
    return status;
}

tenon_status tn_candidate_graph(const tn_candidate *candidate, int way, tenon_graph **out) {
    tenon_graph *graph = NULL;
    tenon_node *root = NULL;
    TN_TRY(cut_out(candidate->choice, &graph, &root));
    bool changed = false;
    tenon_status status = way == 0 ? TENON_OK : candidate->choice->apply(graph, root, way);
    if (status == TENON_OK)
        status = tn_pass_weights(graph, &changed);
    if (status == TENON_OK) {
        tn_graph_drop_dead(graph);
        tn_graph_drop_constants(graph);
        *out = graph;
    } else {
        tenon_graph_destroy(&graph);
    }
    return status;
}

/* ---- Asking ---- */

static tenon_status text_of(const tn_choice *choice, tn_text *text) {
    tenon_graph *graph = NULL;
    tenon_node *root = NULL;
    char *print = NULL;
    tn_text_add(text, "#");
    for (int i = 0; i < choice->way_count; i++)
        tn_text_add(text, "%s %s", i ? "," : "", choice->ways[i]);
    TN_TRY(cut_out(choice, &graph, &root));
    tenon_status status = tn_graph_print(graph, 1, &print);
    tenon_graph_destroy(&graph);
    TN_TRY(status);
    tn_text_add(text, "\n%s", print);
    tenon_string_free(print);
    return text->failed ? tn_no_memory() : TENON_OK;
}

/* The nodes share one copy of the text. */
static tenon_status note(tenon_graph *graph, const tn_choice *choice, const tn_text *told) {
    if (told->failed)
        return tn_no_memory();
    if (!told->data)
        return TENON_OK;
    const char *copy = tn_arena_strdup(&graph->arena, told->data);
    if (!copy)
        return tn_no_memory();
    for (int i = 0; i < choice->node_count; i++)
        choice->nodes[i]->choice = copy;
    return TENON_OK;
}

tenon_status tn_choose(tenon_graph *graph, const tn_choice *choice, int *way) {
    tn_text text = {0}, told = {0};
    tenon_status status;
    *way = choice->usual;
    if (!graph->chooser)
        return TENON_OK;
    TN_GOTO(text_of(choice, &text));
    const tn_candidate candidate = {choice, text.data};
    TN_GOTO(graph->chooser->choose(graph->chooser, &candidate, way, &told));
    TN_GOTO(note(graph, choice, &told));
error:
    tn_text_free(&text);
    tn_text_free(&told);
    return status;
}
