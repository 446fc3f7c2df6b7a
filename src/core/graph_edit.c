/* Editing graphs, and the public reading of them. */
#include "core/arg.h"
#include "core/fail.h"
#include "core/graph.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Editing ---- */

static tenon_status add_by_name(tenon_graph *graph, tenon_node *before, const char *op,
                                const char *name, const tenon_arg *args, int count,
                                tenon_node **out) {
    const tn_op *found = tn_op_find(op);
    if (!found && tn_op_refused(op))
        return tn_fail(TENON_UNSUPPORTED, "%s%s%s%s: %s", name ? "node '" : "", name ? name : "",
                       name ? "': " : "", op, tn_op_refused(op));
    if (!found)
        return tn_fail(TENON_UNKNOWN_OP, "%s%s%sthere is no operator '%s'", name ? "node '" : "",
                       name ? name : "", name ? "': " : "", op);
    if (name && *name && found->return_count && tn_map_get(&graph->names, name))
        return tn_fail(TENON_INVALID_GRAPH, "graph '%s': two values are named '%s'", graph->name,
                       name);
    tenon_status status = tn_graph_add(graph, before, found, name, args, count, -1, out);
    return status == TENON_OK || !name ? status : tn_fail_within(status, "node '%s'", name);
}

tenon_status tenon_graph_add_node(tenon_graph *graph, const char *op, const char *name,
                                  const tenon_arg *args, int count, tenon_node **out) {
    return add_by_name(graph, NULL, op, name, args, count, out);
}

tenon_status tenon_graph_insert_node(tenon_node *before, const char *op, const char *name,
                                     const tenon_arg *args, int count, tenon_node **out) {
    return add_by_name(before->graph, before, op, name, args, count, out);
}

tenon_status tenon_graph_insert_node_after(tenon_node *after, const char *op, const char *name,
                                           const tenon_arg *args, int count, tenon_node **out) {
    return add_by_name(after->graph, after->next, op, name, args, count, out);
}

tenon_status tenon_node_clone(const tenon_node *node, tenon_node *before, tenon_node **out) {
    tenon_node *copy;
    if (before && before->graph != node->graph)
        return tn_fail(TENON_INVALID_ARGUMENT, "'%s' and '%s' are nodes of different graphs",
                       node->name, before->name);
    TN_TRY(tn_graph_add(node->graph, before, node->op, node->name, node->args,
                        node->op->param_count, node->output_count, &copy));
    copy->source = node->source;
    for (int i = 0; i < node->output_count; i++) {
        copy->outputs[i]->scalar = node->outputs[i]->scalar;
        if (copy->outputs[i]->dtype == TENON_DTYPE_NONE)
            copy->outputs[i]->dtype = node->outputs[i]->dtype;
    }
    *out = copy;
    return TENON_OK;
}

tenon_status tn_graph_emit(tenon_graph *graph, tenon_node *before, enum tn_op_id op,
                           const char *name, const tenon_node *like, const tenon_arg *args,
                           int count, tenon_value **out) {
    tenon_node *node;
    TN_TRY(tn_graph_add(graph, before, tn_op_by_id(op), name, args, count, -1, &node));
    if (like)
        node->source = like->source;
    *out = node->outputs[0];
    return TENON_OK;
}

tenon_status tn_node_set_arg(tenon_node *node, int index, const tenon_arg *arg) {
    tenon_arg checked;
    TN_TRY(tn_arg_check(node->graph, node->op, &node->op->params[index], arg, &checked));
    tn_node_unlink(node);
    node->args[index] = checked;
    return tn_node_link(node);
}

tenon_status tenon_node_set_arg(tenon_node *node, int index, tenon_arg arg) {
    if (index < 0 || index >= node->op->param_count)
        return tn_fail(TENON_INVALID_ARGUMENT, "node '%s' (%s): there is no argument %d",
                       node->name, node->op->name, index);
    tenon_status status = tn_node_set_arg(node, index, &arg);
    return status == TENON_OK ? TENON_OK : tn_fail_within(status, "node '%s'", node->name);
}

tenon_status tenon_node_move(tenon_node *node, tenon_node *before) {
    if (before && (before->graph != node->graph || before->erased))
        return tn_fail(TENON_INVALID_ARGUMENT, "'%s' and '%s' are nodes of different graphs",
                       node->name, before->name);
    if (before != node)
        tn_node_move(node, before);
    return TENON_OK;
}

tenon_status tenon_graph_make_constant(tenon_graph *graph, const char *name, tenon_dtype dtype,
                                       int rank, const int64_t *shape, const void *data,
                                       tenon_value **out) {
    tenon_tensor *tensor;
    TN_TRY(tenon_tensor_create(dtype, rank, shape, &tensor));
    const tenon_view *view = tenon_tensor_view(tensor);
    memcpy(view->data, data, (size_t)tenon_view_numel(view) * tenon_dtype_size(dtype));
    return tn_graph_new_constant(graph, name && *name ? name : "constant", tensor, out);
}

int64_t tenon_graph_remove_dead(tenon_graph *graph) {
    return tn_graph_drop_dead(graph);
}

void tn_graph_number(tenon_graph *graph) {
    int64_t order = 0;
    for (tenon_node *node = graph->first; node; node = node->next)
        node->order = order++;
}

static bool is_dead(const tenon_node *node) {
    if (node->op->kind == TN_OP_INPLACE || node->output_count == 0)
        return false; /* it is there for its effect */
    for (int i = 0; i < node->output_count; i++)
        if (node->outputs[i]->use_count > 0)
            return false;
    return true;
}

int64_t tn_graph_drop_dead(tenon_graph *graph) {
    int64_t count = 0;
    /* Backwards, so that what only fed a dead node is seen after it. */
    for (tenon_node *node = graph->last, *previous; node; node = previous) {
        previous = node->prev;
        if (is_dead(node) && tenon_node_erase(node) == TENON_OK)
            count++;
    }
    return count;
}

void tn_graph_drop_constants(tenon_graph *graph) {
    int32_t kept = 0;
    for (int i = 0; i < graph->constant_count; i++) {
        tenon_value *value = graph->constants[i];
        bool written = value->kind == TENON_VALUE_BUFFER; /* state stays visible */
        if (value->use_count == 0 && !written) {
            tn_map_remove(&graph->names, value->name);
            tenon_tensor_destroy(&value->tensor);
            continue;
        }
        value->index = kept;
        graph->constants[kept++] = value;
    }
    graph->constant_count = kept;
}

const tn_source *tn_graph_source(tenon_graph *graph, const char *module_path,
                                 const char *stack_trace) {
    tn_source *source = tn_arena_alloc(&graph->arena, sizeof *source);
    if (!source)
        return NULL;
    source->module_path = tn_arena_strdup(&graph->arena, module_path ? module_path : "");
    source->stack_trace = tn_arena_strdup(&graph->arena, stack_trace ? stack_trace : "");
    return source->module_path && source->stack_trace ? source : NULL;
}

void tenon_node_copy_source(tenon_node *to, const tenon_node *from) {
    to->source =
        to->graph == from->graph || !from->source
            ? from->source
            : tn_graph_source(to->graph, from->source->module_path, from->source->stack_trace);
}

/* ---- Graphs ---- */

const char *tenon_graph_name(const tenon_graph *graph) {
    return graph->name;
}

int tenon_graph_input_count(const tenon_graph *graph) {
    return graph->input_count;
}

tenon_value *tenon_graph_input(const tenon_graph *graph, int index) {
    return index >= 0 && index < graph->input_count ? graph->inputs[index] : NULL;
}

int tenon_graph_constant_count(const tenon_graph *graph) {
    return graph->constant_count;
}

tenon_value *tenon_graph_constant(const tenon_graph *graph, int index) {
    return index >= 0 && index < graph->constant_count ? graph->constants[index] : NULL;
}

int tenon_graph_output_count(const tenon_graph *graph) {
    return graph->output_count;
}

const char *tenon_graph_output_name(const tenon_graph *graph, int index) {
    return index >= 0 && index < graph->output_count ? graph->outputs[index].name : NULL;
}

tenon_arg tenon_graph_output(const tenon_graph *graph, int index) {
    return index >= 0 && index < graph->output_count ? *graph->outputs[index].arg : (tenon_arg){0};
}

int tenon_graph_write_count(const tenon_graph *graph) {
    return graph->write_count;
}

void tenon_graph_write(const tenon_graph *graph, int index, tenon_value **target,
                       tenon_value **value) {
    if (index < 0 || index >= graph->write_count)
        return;
    *target = graph->writes[index].target;
    *value = graph->writes[index].arg->as.value;
}

int tenon_graph_symbol_count(const tenon_graph *graph) {
    return graph->symbol_count;
}

void tenon_graph_symbol(const tenon_graph *graph, int index, const char **name, int64_t *min,
                        int64_t *max) {
    if (index < 0 || index >= graph->symbol_count)
        return;
    if (name)
        *name = graph->symbols[index].name;
    if (min)
        *min = graph->symbols[index].min;
    if (max)
        *max = graph->symbols[index].max;
}

int64_t tenon_graph_node_count(const tenon_graph *graph) {
    return graph->node_count;
}

tenon_node *tenon_graph_first_node(const tenon_graph *graph) {
    return graph->first;
}

tenon_node *tenon_graph_last_node(const tenon_graph *graph) {
    return graph->last;
}

tenon_value *tenon_graph_find_value(const tenon_graph *graph, const char *name) {
    return tn_map_get(&graph->names, name);
}

void tenon_string_free(char *text) {
    free(text);
}

/* ---- Nodes ---- */

tenon_node *tenon_node_next(const tenon_node *node) {
    do
        node = node->next;
    while (node && node->erased);
    return (tenon_node *)node;
}

tenon_node *tenon_node_previous(const tenon_node *node) {
    return node->prev;
}

const char *tenon_node_op(const tenon_node *node) {
    return node->op->name;
}

const char *tenon_node_name(const tenon_node *node) {
    return node->name;
}

const char *tenon_node_module_path(const tenon_node *node) {
    return node->source ? node->source->module_path : "";
}

const char *tenon_node_stack_trace(const tenon_node *node) {
    return node->source ? node->source->stack_trace : "";
}

int tenon_node_arg_count(const tenon_node *node) {
    return node->op->param_count;
}

const char *tenon_node_arg_name(const tenon_node *node, int index) {
    return index >= 0 && index < node->op->param_count ? node->op->params[index].name : NULL;
}

tenon_arg tenon_node_arg(const tenon_node *node, int index) {
    return index >= 0 && index < node->op->param_count ? node->args[index] : (tenon_arg){0};
}

tenon_arg tenon_node_arg_by_name(const tenon_node *node, const char *name) {
    return tenon_node_arg(node, tn_op_param(node->op, name));
}

tenon_value *tenon_node_arg_value(const tenon_node *node, int index) {
    tenon_arg arg = tenon_node_arg(node, index);
    return arg.kind == TENON_ARG_VALUE ? arg.as.value : NULL;
}

int tenon_node_output_count(const tenon_node *node) {
    return node->output_count;
}

tenon_value *tenon_node_output(const tenon_node *node, int index) {
    return index >= 0 && index < node->output_count ? node->outputs[index] : NULL;
}

/* ---- Values ---- */

const char *tenon_value_name(const tenon_value *value) {
    return value->name;
}

tenon_value_kind tenon_value_get_kind(const tenon_value *value) {
    return value->kind;
}

tenon_dtype tenon_value_dtype(const tenon_value *value) {
    return value->dtype;
}

bool tenon_value_is_tensor(const tenon_value *value) {
    return value->scalar == TN_TENSOR;
}

int tenon_value_rank(const tenon_value *value) {
    return value->rank;
}

int64_t tenon_value_size(const tenon_value *value, int dim) {
    return value->shape && dim >= 0 && dim < value->rank ? value->shape[dim] : -1;
}

void tenon_value_size_text(const tenon_value *value, int dim, char *text, size_t capacity) {
    const tenon_graph *graph = value->graph;
    int64_t size = tenon_value_size(value, dim);
    if (size >= 0 || !value->dims || dim < 0 || dim >= value->rank) {
        snprintf(text, capacity, size >= 0 ? "%lld" : "?", (long long)size);
        return;
    }
    tn_text out = {0};
    const char **names = calloc((size_t)graph->symbol_count, sizeof *names);
    for (int i = 0; names && i < graph->symbol_count; i++)
        names[i] = graph->symbols[i].name;
    if (names)
        tn_expr_print(value->dims[dim], names, &out);
    snprintf(text, capacity, "%s", out.data && !out.failed ? out.data : "?");
    free(names);
    tn_text_free(&out);
}

tenon_status tenon_value_size_at(const tenon_value *value, int dim, const int64_t *symbols,
                                 int64_t *out) {
    const tenon_graph *graph = value->graph;
    int64_t size = tenon_value_size(value, dim);
    if (size >= 0) {
        *out = size;
        return TENON_OK;
    }
    tn_binding *bindings = calloc((size_t)graph->symbol_count + 1, sizeof *bindings);
    if (!bindings)
        return tn_no_memory();
    for (int i = 0; i < graph->symbol_count; i++)
        bindings[i] = (tn_binding){symbols[i] >= 0, symbols[i]};
    bool found = value->dims && dim >= 0 && dim < value->rank &&
                 tn_expr_eval(value->dims[dim], bindings, &size) && size >= 0;
    free(bindings);
    if (!found)
        return tn_fail(TENON_NOT_FOUND, "'%s': the size of dimension %d is not known", value->name,
                       dim);
    *out = size;
    return TENON_OK;
}

bool tenon_value_view(const tenon_value *value, tenon_view *out) {
    if (!tn_value_static(value))
        return false;
    *out = tn_view_make(NULL, value->dtype, value->rank, value->shape);
    return true;
}

tenon_node *tenon_value_node(const tenon_value *value) {
    return value->node;
}

int64_t tenon_value_use_count(const tenon_value *value) {
    return value->use_count;
}

tenon_node *tenon_value_user(const tenon_value *value, int64_t index) {
    const tn_use *use = index >= 0 ? value->uses : NULL;
    while (use && index-- > 0)
        use = use->next;
    return use ? use->node : NULL;
}

const tenon_tensor *tenon_value_tensor(const tenon_value *value) {
    return value->tensor;
}
