/* Making graphs. Editing is in graph_edit.c, binding symbols in specialize.c. */
#include "core/arg.h"
#include "core/fail.h"
#include "core/infer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more item in a growing array. */
static tenon_status grow(void *array, int32_t count, int32_t *capacity, size_t size) {
    if (count < *capacity)
        return TENON_OK;
    int32_t bigger = *capacity ? *capacity * 2 : 8;
    void *data = realloc(*(void **)array, (size_t)bigger * size);
    if (!data)
        return tn_no_memory();
    *(void **)array = data;
    *capacity = bigger;
    return TENON_OK;
}

tenon_status tenon_graph_create(const char *name, tenon_graph **out) {
    tenon_graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        return tn_no_memory();
    graph->name = tn_arena_strdup(&graph->arena, name ? name : "");
    if (!graph->name) {
        free(graph);
        return tn_no_memory();
    }
    *out = graph;
    return TENON_OK;
}

void tenon_graph_destroy(tenon_graph **pointer) {
    tenon_graph *graph = *pointer;
    *pointer = NULL;
    if (!graph)
        return;
    for (int i = 0; i < graph->constant_count; i++)
        tenon_tensor_destroy(&graph->constants[i]->tensor);
    free(graph->inputs);
    free(graph->constants);
    free(graph->outputs);
    free(graph->writes);
    free(graph->symbols);
    free(graph->constraints);
    tn_map_free(&graph->names);
    tn_arena_free(&graph->arena);
    free(graph);
}

/* ---- Values ---- */

tenon_status tn_value_rename(tenon_value *value, const char *name) {
    tenon_graph *graph = value->graph;
    char *copy;
    if (*name == '\0')
        name = "v";
    if (tn_map_get(&graph->names, name)) {
        size_t capacity = strlen(name) + 32;
        copy = tn_arena_alloc(&graph->arena, capacity);
        if (!copy)
            return tn_no_memory();
        int64_t number = value->id;
        do
            snprintf(copy, capacity, "%s_%lld", name, (long long)number++);
        while (tn_map_get(&graph->names, copy));
    } else {
        copy = tn_arena_strdup(&graph->arena, name);
        if (!copy)
            return tn_no_memory();
    }
    TN_TRY(tn_map_put(&graph->names, copy, value));
    if (value->name)
        tn_map_remove(&graph->names, value->name);
    value->name = copy;
    return TENON_OK;
}

static tenon_status new_value(tenon_graph *graph, tenon_value_kind kind, const char *name,
                              tenon_value **out) {
    tenon_value *value = tn_arena_alloc(&graph->arena, sizeof *value);
    if (!value)
        return tn_no_memory();
    value->graph = graph;
    value->kind = kind;
    value->rank = -1;
    value->id = graph->value_count++;
    graph->edits++;
    TN_TRY(tn_value_rename(value, name));
    *out = value;
    return TENON_OK;
}

static tenon_status check_new_name(const tenon_graph *graph, const char *name) {
    if (!name || !*name)
        return tn_fail(TENON_INVALID_ARGUMENT, "graph '%s': a name is empty", graph->name);
    if (tn_map_get(&graph->names, name))
        return tn_fail(TENON_INVALID_GRAPH, "graph '%s': two values are named '%s'", graph->name,
                       name);
    return TENON_OK;
}

bool tn_value_static(const tenon_value *value) {
    if (value->scalar != TN_TENSOR || !value->shape || value->dtype == TENON_DTYPE_NONE)
        return false;
    for (int d = 0; d < value->rank; d++)
        if (value->shape[d] < 0)
            return false;
    return true;
}

int64_t tn_value_numel(const tenon_value *value) {
    return tn_numel(value->rank, value->shape);
}

tenon_status tn_graph_add_input(tenon_graph *graph, const char *name, tn_scalar scalar,
                                tenon_dtype dtype, int rank, const int64_t *shape,
                                const tn_expr **dims, tenon_value **out) {
    TN_TRY(check_new_name(graph, name));
    if (dtype <= TENON_DTYPE_NONE || dtype >= TENON_DTYPE_COUNT)
        return tn_fail(TENON_INVALID_ARGUMENT, "input '%s': %d is no dtype", name, (int)dtype);
    if (rank < 0 || rank > TENON_MAX_RANK)
        return tn_fail(TENON_INVALID_ARGUMENT, "input '%s': rank %d is not in 0..%d", name, rank,
                       TENON_MAX_RANK);
    TN_TRY(grow(&graph->inputs, graph->input_count, &graph->input_capacity, sizeof *graph->inputs));
    tenon_value *value = NULL;
    TN_TRY(new_value(graph, TENON_VALUE_INPUT, name, &value));
    value->scalar = scalar;
    value->dtype = dtype;
    value->rank = rank;
    value->shape = tn_arena_array(&graph->arena, (size_t)rank + 1, sizeof *value->shape);
    if (!value->shape)
        return tn_no_memory();
    bool symbolic = false;
    for (int d = 0; d < rank; d++) {
        bool known = !dims || dims[d]->kind == TN_EXPR_INT;
        value->shape[d] = !known ? -1 : dims ? dims[d]->value : shape[d];
        symbolic |= !known;
        if (known && value->shape[d] < 0)
            return tn_fail(TENON_INVALID_ARGUMENT,
                           "input '%s': size %lld of dimension %d is negative", name,
                           (long long)value->shape[d], d);
    }
    if (symbolic || (dims && scalar != TN_TENSOR)) {
        size_t count = scalar != TN_TENSOR ? 1 : (size_t)rank;
        value->dims = tn_arena_array(&graph->arena, count, sizeof *value->dims);
        if (!value->dims)
            return tn_no_memory();
        memcpy(value->dims, dims, count * sizeof *dims);
    } else if (tn_numel(rank, value->shape) < 0) {
        return tn_fail(TENON_INVALID_ARGUMENT, "input '%s': its size overflows", name);
    }
    value->index = graph->input_count;
    graph->inputs[graph->input_count++] = value;
    if (out)
        *out = value;
    return TENON_OK;
}

tenon_status tenon_graph_add_input(tenon_graph *graph, const char *name, tenon_dtype dtype,
                                   int rank, const char *const *dims, tenon_value **out) {
    const tn_expr *exprs[TENON_MAX_RANK];
    TN_TRY(check_new_name(graph, name));
    if (rank < 0 || rank > TENON_MAX_RANK)
        return tn_fail(TENON_INVALID_ARGUMENT, "input '%s': rank %d is not in 0..%d", name, rank,
                       TENON_MAX_RANK);
    for (int d = 0; d < rank; d++) {
        tenon_status status =
            tn_expr_parse(&graph->arena, dims[d], tn_graph_symbol_fn, graph, &exprs[d]);
        if (status != TENON_OK)
            return tn_fail_within(status, "input '%s'", name);
    }
    return tn_graph_add_input(graph, name, TN_TENSOR, dtype, rank, NULL, exprs, out);
}

static tenon_status add_constant(tenon_graph *graph, tenon_value_kind kind, const char *name,
                                 const tenon_tensor *tensor, tenon_value **out) {
    TN_TRY(grow(&graph->constants, graph->constant_count, &graph->constant_capacity,
                sizeof *graph->constants));
    tenon_value *value = NULL;
    TN_TRY(new_value(graph, kind, name, &value));
    const tenon_view *view = &tensor->view;
    value->dtype = view->dtype;
    value->rank = view->rank;
    value->shape = tn_arena_array(&graph->arena, (size_t)view->rank + 1, sizeof *value->shape);
    if (!value->shape)
        return tn_no_memory();
    memcpy(value->shape, view->shape, (size_t)view->rank * sizeof *value->shape);
    TN_TRY(tenon_tensor_share(tensor, &value->tensor));
    value->index = graph->constant_count;
    graph->constants[graph->constant_count++] = value;
    if (out)
        *out = value;
    return TENON_OK;
}

tenon_status tenon_graph_add_constant(tenon_graph *graph, const char *name,
                                      const tenon_tensor *tensor, tenon_value **out) {
    TN_TRY(check_new_name(graph, name));
    return add_constant(graph, TENON_VALUE_CONSTANT, name, tensor, out);
}

tenon_status tn_graph_new_constant(tenon_graph *graph, const char *name, tenon_tensor *tensor,
                                   tenon_value **out) {
    tenon_status status = add_constant(graph, TENON_VALUE_CONSTANT, name, tensor, out);
    tenon_tensor_destroy(&tensor);
    return status;
}

tenon_status tenon_graph_add_buffer(tenon_graph *graph, const char *name,
                                    const tenon_tensor *initial, tenon_value **out) {
    TN_TRY(check_new_name(graph, name));
    return add_constant(graph, TENON_VALUE_BUFFER, name, initial, out);
}

/* ---- Symbols ---- */

tenon_status tn_graph_add_symbol(tenon_graph *graph, const char *name, int64_t min, int64_t max,
                                 int *index) {
    TN_TRY(grow(&graph->symbols, graph->symbol_count, &graph->symbol_capacity,
                sizeof *graph->symbols));
    char *copy = tn_arena_strdup(&graph->arena, name);
    if (!copy)
        return tn_no_memory();
    graph->symbols[graph->symbol_count] = (tn_symbol){copy, min, max};
    if (index)
        *index = graph->symbol_count;
    graph->symbol_count++;
    return TENON_OK;
}

static int find_symbol(const tenon_graph *graph, const char *name) {
    for (int i = 0; i < graph->symbol_count; i++)
        if (strcmp(graph->symbols[i].name, name) == 0)
            return i;
    return -1;
}

int tn_graph_symbol_fn(void *user, const char *name) {
    tenon_graph *graph = user;
    int index = find_symbol(graph, name);
    if (index < 0 && tn_graph_add_symbol(graph, name, 0, INT64_MAX, &index) != TENON_OK)
        return -1;
    return index;
}

tenon_status tenon_graph_set_symbol_range(tenon_graph *graph, const char *symbol, int64_t min,
                                          int64_t max) {
    int index = find_symbol(graph, symbol);
    if (index < 0)
        return tn_fail(TENON_NOT_FOUND, "graph '%s': no size names the symbol '%s'", graph->name,
                       symbol);
    if (min > max)
        return tn_fail(TENON_INVALID_ARGUMENT, "symbol '%s': the range %lld..%lld is empty", symbol,
                       (long long)min, (long long)max);
    graph->symbols[index].min = min;
    graph->symbols[index].max = max;
    return TENON_OK;
}

tenon_status tn_graph_add_constraint(tenon_graph *graph, const tn_expr *expr, int64_t min,
                                     int64_t max) {
    TN_TRY(grow(&graph->constraints, graph->constraint_count, &graph->constraint_capacity,
                sizeof *graph->constraints));
    graph->constraints[graph->constraint_count++] = (tn_constraint){expr, min, max};
    return TENON_OK;
}

/* ---- Uses ---- */

static void link_use(tn_use *use, tenon_value *value) {
    value->graph->edits++;
    use->value = value;
    use->prev = NULL;
    use->next = value->uses;
    if (use->next)
        use->next->prev = use;
    value->uses = use;
    value->use_count++;
}

void tn_use_unlink(tn_use *use) {
    use->value->graph->edits++;
    if (use->prev)
        use->prev->next = use->next;
    else
        use->value->uses = use->next;
    if (use->next)
        use->next->prev = use->prev;
    use->value->use_count--;
}

void tn_use_set(tn_use *use, tenon_value *value) {
    tn_use_unlink(use);
    use->slot->as.value = value;
    link_use(use, value);
}

static int count_values(const tenon_node *node) {
    int count = 0;
    for (int i = 0; i < node->op->param_count; i++) {
        const tenon_arg *arg = &node->args[i];
        if (arg->kind == TENON_ARG_VALUE)
            count++;
        else if (arg->kind == TENON_ARG_LIST)
            for (int j = 0; j < arg->count; j++)
                count += arg->as.list[j].kind == TENON_ARG_VALUE;
    }
    return count;
}

tenon_status tn_node_link(tenon_node *node) {
    int count = count_values(node), n = 0;
    tn_use *uses = tn_arena_array(&node->graph->arena, (size_t)count, sizeof *uses);
    if (!uses)
        return tn_no_memory();
    for (int i = 0; i < node->op->param_count; i++) {
        tenon_arg *arg = &node->args[i];
        int items = arg->kind == TENON_ARG_LIST ? arg->count : 1;
        for (int j = 0; j < items; j++) {
            tenon_arg *slot = arg->kind == TENON_ARG_LIST ? &arg->as.list[j] : arg;
            if (slot->kind != TENON_ARG_VALUE)
                continue;
            uses[n] = (tn_use){.node = node, .slot = slot};
            link_use(&uses[n++], slot->as.value);
        }
    }
    node->uses = uses;
    node->use_count = count;
    return TENON_OK;
}

void tn_node_unlink(tenon_node *node) {
    for (int i = 0; i < node->use_count; i++)
        tn_use_unlink(&node->uses[i]);
    node->use_count = 0;
}

tenon_status tenon_value_replace(tenon_value *value, tenon_value *with) {
    if (value == with)
        return TENON_OK;
    if (value->graph != with->graph)
        return tn_fail(TENON_INVALID_ARGUMENT, "'%s' and '%s' are values of different graphs",
                       value->name, with->name);
    tn_use *last = NULL;
    value->graph->edits++;
    for (tn_use *use = value->uses; use; use = use->next) {
        use->value = with;
        use->slot->as.value = with;
        last = use;
    }
    if (last) {
        last->next = with->uses;
        if (last->next)
            last->next->prev = last;
        with->uses = value->uses;
        with->use_count += value->use_count;
        value->uses = NULL;
        value->use_count = 0;
    }
    return TENON_OK;
}

tenon_status tenon_value_replace_except(tenon_value *value, tenon_value *with,
                                        const tenon_node *except) {
    if (value->graph != with->graph)
        return tn_fail(TENON_INVALID_ARGUMENT, "'%s' and '%s' are values of different graphs",
                       value->name, with->name);
    if (value == with)
        return TENON_OK;
    for (tn_use *use = value->uses, *next; use; use = next) {
        next = use->next;
        if (!except || use->node != except)
            tn_use_set(use, with);
    }
    return TENON_OK;
}

/* ---- Nodes ---- */

static void insert(tenon_graph *graph, tenon_node *node, tenon_node *before) {
    node->next = before;
    node->prev = before ? before->prev : graph->last;
    *(node->prev ? &node->prev->next : &graph->first) = node;
    *(before ? &before->prev : &graph->last) = node;
    /* Right at the end; in between only after tn_graph_number. */
    node->order = node->prev ? node->prev->order + 1 : 0;
    graph->node_count++;
    graph->edits++;
}

static void take_out(tenon_node *node) {
    tenon_graph *graph = node->graph;
    *(node->prev ? &node->prev->next : &graph->first) = node->next;
    *(node->next ? &node->next->prev : &graph->last) = node->prev;
    graph->node_count--;
    graph->edits++;
}

void tn_node_move(tenon_node *node, tenon_node *before) {
    take_out(node);
    insert(node->graph, node, before);
}

static tenon_status fill_args(tenon_graph *graph, tenon_node *node, const tenon_arg *args,
                              int count) {
    const tn_op *op = node->op;
    if (count > op->param_count)
        return tn_fail(TENON_INVALID_GRAPH, "%s: %d arguments given, it takes %d", op->name, count,
                       op->param_count);
    node->args = tn_arena_array(&graph->arena, (size_t)op->param_count, sizeof *node->args);
    if (!node->args)
        return tn_no_memory();
    for (int i = 0; i < op->param_count; i++) {
        const tn_param *param = &op->params[i];
        bool given = i < count && args[i].kind != TENON_ARG_DEFAULT;
        if (!given && !param->has_default)
            return tn_fail(TENON_INVALID_GRAPH, "%s: argument '%s' is missing", op->name,
                           param->name);
        TN_TRY(tn_arg_check(graph, op, param, given ? &args[i] : &param->preset, &node->args[i]));
    }
    return TENON_OK;
}

static bool inputs_static(const tenon_node *node) {
    for (int i = 0; i < node->use_count; i++)
        if (!tn_value_static(node->uses[i].value))
            return false;
    return true;
}

/* What outputs are called when nobody says: "add_Tensor" stays readable as "add". */
static const char *default_name(const tn_op *op, char *text, size_t capacity) {
    const char *base = strchr(op->name, '.') + 1;
    size_t length = strcspn(base, ".");
    snprintf(text, capacity, "%.*s", (int)length, base);
    return text;
}

static tenon_status make_outputs(tenon_node *node, const char *name, int count) {
    tenon_graph *graph = node->graph;
    node->output_count = count;
    node->outputs = tn_arena_array(&graph->arena, (size_t)count, sizeof *node->outputs);
    if (!node->outputs)
        return tn_no_memory();
    for (int i = 0; i < count; i++) {
        tenon_value *value = NULL;
        TN_TRY(new_value(graph, TENON_VALUE_NODE, name, &value));
        value->node = node;
        value->index = i;
        node->outputs[i] = value;
        if (node->op->kind == TN_OP_SYM) {
            value->scalar = TN_SYMINT;
            value->dtype = TENON_INT64;
            value->rank = 0;
        }
    }
    return TENON_OK;
}

static void forget_outputs(tenon_node *node) {
    for (int i = 0; i < node->output_count; i++)
        if (node->outputs && node->outputs[i])
            tn_map_remove(&node->graph->names, node->outputs[i]->name);
}

tenon_status tn_graph_add(tenon_graph *graph, tenon_node *before, const tn_op *op, const char *name,
                          const tenon_arg *args, int count, int list_count, tenon_node **out) {
    char text[128];
    tenon_node *node = tn_arena_alloc(&graph->arena, sizeof *node);
    if (!node)
        return tn_no_memory();
    node->graph = graph;
    node->op = op;
    node->born = graph->clock;
    TN_TRY(fill_args(graph, node, args, count));
    if (!name || !*name)
        name = default_name(op, text, sizeof text);
    node->name = tn_arena_strdup(&graph->arena, name);
    if (!node->name)
        return tn_no_memory();
    TN_TRY(tn_node_link(node));

    tenon_status status;
    bool infer = op->kind != TN_OP_SYM && inputs_static(node);
    int outputs = op->list_return ? list_count : op->return_count;
    if (infer && outputs < 0) {
        TN_GOTO(tn_infer_output_count(node, &outputs));
    } else if (outputs < 0) {
        TN_GOTO(tn_fail(TENON_INVALID_GRAPH,
                        "%s: how many outputs it has is not known before the symbols are bound",
                        op->name));
    }
    TN_GOTO(make_outputs(node, name, outputs));
    if (infer)
        TN_GOTO(tn_node_infer(node));
    insert(graph, node, before);
    if (out)
        *out = node;
    return TENON_OK;
error:
    tn_node_unlink(node);
    forget_outputs(node);
    return status;
}

tenon_status tenon_node_erase(tenon_node *node) {
    for (int i = 0; i < node->output_count; i++)
        if (node->outputs[i]->use_count > 0)
            return tn_fail(TENON_INVALID_GRAPH, "node '%s' cannot be erased: '%s' has uses",
                           node->name, node->outputs[i]->name);
    tn_node_unlink(node);
    forget_outputs(node);
    take_out(node);
    node->erased = true;
    return TENON_OK;
}

/* ---- Outputs and writes ---- */

static tenon_status keep_arg(tenon_graph *graph, tenon_arg arg, tenon_arg **kept, tn_use **use) {
    tenon_arg *copy = tn_arena_alloc(&graph->arena, sizeof *copy);
    if (!copy)
        return tn_no_memory();
    *copy = arg;
    if (arg.kind == TENON_ARG_STRING && !(copy->as.s = tn_arena_strdup(&graph->arena, arg.as.s)))
        return tn_no_memory();
    *use = NULL;
    if (arg.kind == TENON_ARG_VALUE) {
        if (arg.as.value->graph != graph)
            return tn_fail(TENON_INVALID_ARGUMENT, "graph '%s': '%s' is a value of another graph",
                           graph->name, arg.as.value->name);
        *use = tn_arena_alloc(&graph->arena, sizeof **use);
        if (!*use)
            return tn_no_memory();
        (*use)->slot = copy;
        link_use(*use, arg.as.value);
    }
    *kept = copy;
    return TENON_OK;
}

static tenon_status check_output(const char *name, tenon_arg arg) {
    if (arg.kind == TENON_ARG_DEFAULT || arg.kind == TENON_ARG_LIST || arg.kind == TENON_ARG_DTYPE)
        return tn_fail(TENON_INVALID_ARGUMENT,
                       "output '%s': neither a value nor None, a number or a string",
                       name ? name : "");
    return TENON_OK;
}

tenon_status tenon_graph_set_output(tenon_graph *graph, int index, tenon_arg arg) {
    tenon_arg *kept = NULL;
    tn_use *use = NULL;
    graph->edits++;
    if (index < 0 || index >= graph->output_count)
        return tn_fail(TENON_INVALID_ARGUMENT, "graph '%s': there is no output %d of %d",
                       graph->name, index, graph->output_count);
    tn_output *output = &graph->outputs[index];
    TN_TRY(check_output(output->name, arg));
    TN_TRY(keep_arg(graph, arg, &kept, &use));
    if (output->use)
        tn_use_unlink(output->use);
    output->arg = kept;
    output->use = use;
    return TENON_OK;
}

tenon_status tenon_graph_add_output(tenon_graph *graph, const char *name, tenon_arg arg) {
    TN_TRY(check_output(name, arg));
    for (int i = 0; name && i < graph->output_count; i++)
        if (strcmp(graph->outputs[i].name, name) == 0)
            return tn_fail(TENON_INVALID_GRAPH, "graph '%s': two outputs are named '%s'",
                           graph->name, name);
    TN_TRY(grow(&graph->outputs, graph->output_count, &graph->output_capacity,
                sizeof *graph->outputs));
    char text[32];
    snprintf(text, sizeof text, "%d", graph->output_count);
    tn_output output = {tn_arena_strdup(&graph->arena, name ? name : text), NULL, NULL};
    if (!output.name)
        return tn_no_memory();
    TN_TRY(keep_arg(graph, arg, &output.arg, &output.use));
    graph->outputs[graph->output_count++] = output;
    graph->edits++;
    return TENON_OK;
}

tenon_status tenon_graph_add_write(tenon_graph *graph, tenon_value *target, tenon_value *value) {
    if (target->kind != TENON_VALUE_BUFFER && target->kind != TENON_VALUE_INPUT)
        return tn_fail(TENON_INVALID_GRAPH, "write to '%s': only buffers and inputs can be written",
                       target->name);
    for (int i = 0; i < graph->write_count; i++)
        if (graph->writes[i].target == target)
            return tn_fail(TENON_INVALID_GRAPH, "two writes to '%s'", target->name);
    TN_TRY(grow(&graph->writes, graph->write_count, &graph->write_capacity, sizeof *graph->writes));
    tn_write write = {target, NULL, NULL};
    TN_TRY(keep_arg(graph, tenon_arg_value(value), &write.arg, &write.use));
    graph->writes[graph->write_count++] = write;
    return TENON_OK;
}
