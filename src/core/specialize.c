/* Copies of graphs: as they are, or with their symbols bound. */
#include "core/fail.h"
#include "core/infer.h"
#include <stdlib.h>
#include <string.h>

/* ---- Binding ---- */

static tenon_status mismatch(const tenon_value *input, const char *what, int dim, int64_t given) {
    char text[256];
    tenon_value_size_text(input, dim, text, sizeof text);
    return tn_fail(TENON_INPUT_MISMATCH, "input '%s': dimension %d is %lld, %s %s", input->name,
                   dim, (long long)given, what, text);
}

static tenon_status check_input(const tenon_value *input, const tenon_view *given) {
    if (given->dtype != input->dtype)
        return tn_fail(TENON_INPUT_MISMATCH, "input '%s': its dtype is %s, the model takes %s",
                       input->name, tenon_dtype_text(given->dtype), tenon_dtype_text(input->dtype));
    if (given->rank != input->rank)
        return tn_fail(TENON_INPUT_MISMATCH, "input '%s': its rank is %d, the model takes %d",
                       input->name, given->rank, input->rank);
    for (int d = 0; d < input->rank; d++) {
        if (given->shape[d] < 0)
            return tn_fail(TENON_INPUT_MISMATCH,
                           "input '%s': size %lld of dimension %d is negative", input->name,
                           (long long)given->shape[d], d);
        if (input->shape[d] >= 0 && given->shape[d] != input->shape[d])
            return mismatch(input, "the model takes", d, given->shape[d]);
    }
    if (input->scalar != TN_TENSOR && !given->data)
        return tn_fail(TENON_INPUT_MISMATCH, "input '%s' is a number, its value is missing",
                       input->name);
    return TENON_OK;
}

/* How many expressions an input has: one a dimension, or one for a number. */
static int expr_count(const tenon_value *input) {
    return !input->dims ? 0 : input->scalar != TN_TENSOR ? 1 : input->rank;
}

/* What expression `d` of an input stands for in the inputs given. */
static int64_t given_size(const tenon_value *input, const tenon_view *view, int d) {
    return input->scalar != TN_TENSOR ? tn_load_int(view->data, view->dtype) : view->shape[d];
}

/* Symbols that stand alone first, then those that an expression gives, until nothing changes. */
static tenon_status bind(const tenon_graph *graph, const tenon_view *inputs, tn_binding *bindings) {
    for (int pass = 0; pass <= graph->symbol_count + 1; pass++) {
        for (int i = 0; i < graph->input_count; i++) {
            const tenon_value *input = graph->inputs[i];
            for (int d = 0; d < expr_count(input); d++) {
                const tn_expr *expr = input->dims[d];
                int64_t size = given_size(input, &inputs[i], d), value;
                bool alone = expr->kind == TN_EXPR_SYMBOL;
                if (pass == 0 ? !alone : alone || tn_expr_eval(expr, bindings, &value))
                    continue;
                if (!tn_expr_solve(expr, size, bindings) && (alone || pass > graph->symbol_count))
                    return mismatch(input,
                                    alone ? "but other inputs give another value of"
                                          : "which gives no whole value for",
                                    d, size);
            }
        }
    }
    for (int i = 0; i < graph->input_count; i++) {
        const tenon_value *input = graph->inputs[i];
        for (int d = 0; d < expr_count(input); d++) {
            int64_t value, size = given_size(input, &inputs[i], d);
            if (!tn_expr_eval(input->dims[d], bindings, &value) || value != size)
                return mismatch(input, "the other inputs ask for", d, size);
        }
    }
    return TENON_OK;
}

/* Names the first input whose size holds the symbol. */
static const char *symbol_place(const tenon_graph *graph, int symbol) {
    for (int i = 0; i < graph->input_count; i++)
        for (int d = 0; d < expr_count(graph->inputs[i]); d++)
            if (graph->inputs[i]->dims[d]->kind == TN_EXPR_SYMBOL &&
                graph->inputs[i]->dims[d]->value == symbol)
                return graph->inputs[i]->name;
    return graph->input_count ? graph->inputs[0]->name : "";
}

static tenon_status check_ranges(const tenon_graph *graph, const tn_binding *bindings) {
    for (int i = 0; i < graph->symbol_count; i++) {
        const tn_symbol *symbol = &graph->symbols[i];
        int64_t value = bindings[i].value;
        if (bindings[i].bound && (value < symbol->min || value > symbol->max))
            return tn_fail(TENON_INPUT_MISMATCH, "input '%s': %s is %lld, %s its %s of %lld",
                           symbol_place(graph, i), symbol->name, (long long)value,
                           value < symbol->min ? "below" : "above",
                           value < symbol->min ? "minimum" : "maximum",
                           (long long)(value < symbol->min ? symbol->min : symbol->max));
    }
    for (int i = 0; i < graph->constraint_count; i++) {
        const tn_constraint *c = &graph->constraints[i];
        int64_t value;
        if (tn_expr_eval(c->expr, bindings, &value) && (value < c->min || value > c->max))
            return tn_fail(TENON_INPUT_MISMATCH,
                           "the input sizes give %lld where the model takes %lld to %lld",
                           (long long)value, (long long)c->min, (long long)c->max);
    }
    return TENON_OK;
}

tenon_status tn_graph_check_inputs(const tenon_graph *graph, const tenon_view *inputs, int count) {
    if (count != graph->input_count)
        return tn_fail(TENON_INPUT_MISMATCH, "graph '%s': %d inputs given, the model takes %d",
                       graph->name, count, graph->input_count);
    for (int i = 0; i < count; i++)
        TN_TRY(check_input(graph->inputs[i], &inputs[i]));
    if (graph->symbol_count == 0)
        return TENON_OK;
    tn_binding *bindings = calloc((size_t)graph->symbol_count, sizeof *bindings);
    if (!bindings)
        return tn_no_memory();
    tenon_status status = bind(graph, inputs, bindings);
    if (status == TENON_OK)
        status = check_ranges(graph, bindings);
    free(bindings);
    return status;
}

/* ---- Copying ---- */

typedef struct copier {
    const tenon_graph *from;
    tenon_graph *to;
    const tenon_view *inputs; /* NULL: a plain copy */
    tenon_arg *map;           /* by value id: the new value, or the number that it became */
    tn_arena scratch;
} copier;

/* NOLINTNEXTLINE(misc-no-recursion): bounded by the length of text that tn_expr_parse takes */
static const tn_expr *copy_expr(tn_arena *arena, const tn_expr *expr) {
    if (!expr)
        return NULL;
    const tn_expr *a = copy_expr(arena, expr->a), *b = copy_expr(arena, expr->b);
    if ((expr->a && !a) || (expr->b && !b))
        return NULL;
    return tn_expr_make(arena, expr->kind, expr->value, a, b);
}

static tenon_arg number_of(const tenon_value *input, const tenon_view *view) {
    if (input->scalar == TN_SYMFLOAT)
        return tenon_arg_float(tn_load_float(view->data, view->dtype));
    int64_t value = tn_load_int(view->data, view->dtype);
    return input->scalar == TN_SYMBOOL ? tenon_arg_bool(value != 0) : tenon_arg_int(value);
}

static tenon_status copy_symbols(copier *c) {
    for (int i = 0; i < c->from->symbol_count; i++) {
        const tn_symbol *symbol = &c->from->symbols[i];
        TN_TRY(tn_graph_add_symbol(c->to, symbol->name, symbol->min, symbol->max, NULL));
    }
    for (int i = 0; i < c->from->constraint_count; i++) {
        const tn_constraint *constraint = &c->from->constraints[i];
        const tn_expr *expr = copy_expr(&c->to->arena, constraint->expr);
        if (!expr)
            return tn_no_memory();
        TN_TRY(tn_graph_add_constraint(c->to, expr, constraint->min, constraint->max));
    }
    return TENON_OK;
}

static tenon_status copy_input(copier *c, int index) {
    const tenon_value *input = c->from->inputs[index];
    const tn_expr *dims[TENON_MAX_RANK];
    bool symbolic = input->dims && !c->inputs;
    for (int d = 0; symbolic && d < expr_count(input); d++)
        if (!(dims[d] = copy_expr(&c->to->arena, input->dims[d])))
            return tn_no_memory();
    const int64_t *shape = c->inputs ? c->inputs[index].shape : input->shape;
    tenon_value *value;
    TN_TRY(tn_graph_add_input(c->to, input->name, input->scalar, input->dtype, input->rank, shape,
                              symbolic ? dims : NULL, &value));
    value->channels_last = input->channels_last;
    c->map[input->id] = c->inputs && input->scalar != TN_TENSOR
                            ? number_of(input, &c->inputs[index])
                            : tenon_arg_value(value);
    return TENON_OK;
}

static tenon_status copy_constant(copier *c, const tenon_value *constant) {
    tenon_value *value;
    TN_TRY(constant->kind == TENON_VALUE_BUFFER
               ? tenon_graph_add_buffer(c->to, constant->name, constant->tensor, &value)
               : tenon_graph_add_constant(c->to, constant->name, constant->tensor, &value));
    value->channels_last = constant->channels_last;
    c->map[constant->id] = tenon_arg_value(value);
    return TENON_OK;
}

static tenon_status copy_args(copier *c, const tenon_node *node, tenon_arg **out) {
    tenon_arg *args = tn_arena_array(&c->scratch, (size_t)node->op->param_count, sizeof *args);
    if (!args)
        return tn_no_memory();
    for (int i = 0; i < node->op->param_count; i++) {
        args[i] = node->args[i];
        if (args[i].kind == TENON_ARG_VALUE)
            args[i] = c->map[args[i].as.value->id];
        if (args[i].kind != TENON_ARG_LIST)
            continue;
        tenon_arg *items = tn_arena_array(&c->scratch, (size_t)args[i].count, sizeof *items);
        if (!items)
            return tn_no_memory();
        for (int j = 0; j < args[i].count; j++) {
            items[j] = args[i].as.list[j];
            if (items[j].kind == TENON_ARG_VALUE)
                items[j] = c->map[items[j].as.value->id];
        }
        args[i].as.list = items;
    }
    *out = args;
    return TENON_OK;
}

static tenon_status evaluate_symbolic(copier *c, const tenon_node *node, const tenon_arg *args) {
    const tenon_value *tensor = NULL;
    for (int i = 0; i < node->op->param_count && !tensor; i++)
        if (args[i].kind == TENON_ARG_VALUE)
            tensor = args[i].as.value;
    if (tensor && !tn_value_static(tensor))
        return tn_fail(TENON_INVALID_GRAPH, "node '%s' (%s): its tensor has no known shape",
                       node->name, node->op->name);
    return node->op->sym(node, args, tensor, &c->map[node->outputs[0]->id]);
}

static tenon_status check_recorded(const tenon_node *node, const tenon_value *from,
                                   const tenon_value *to) {
    if (from->dtype == TENON_DTYPE_NONE || to->dtype == TENON_DTYPE_NONE)
        return TENON_OK;
    if (from->dtype != to->dtype)
        return tn_fail(TENON_INVALID_GRAPH,
                       "node '%s' (%s): dtype %s is recorded for '%s', the operator gives %s",
                       node->name, node->op->name, tenon_dtype_text(from->dtype), from->name,
                       tenon_dtype_text(to->dtype));
    return TENON_OK;
}

static tenon_status copy_shape(tenon_value *to, const tenon_value *from) {
    to->dtype = from->dtype;
    to->rank = from->rank;
    to->shape = NULL;
    if (!from->shape)
        return TENON_OK;
    to->shape = tn_arena_array(&to->graph->arena, (size_t)from->rank + 1, sizeof *to->shape);
    if (!to->shape)
        return tn_no_memory();
    memcpy(to->shape, from->shape, (size_t)from->rank * sizeof *to->shape);
    return TENON_OK;
}

static tenon_status copy_node(copier *c, const tenon_node *node) {
    tenon_arg *args = NULL;
    TN_TRY(copy_args(c, node, &args));
    if (c->inputs && node->op->kind == TN_OP_SYM)
        return evaluate_symbolic(c, node, args);
    tenon_node *copy;
    TN_TRY(tn_graph_add(c->to, NULL, node->op, node->name, args, node->op->param_count,
                        node->output_count, &copy));
    if (node->source) {
        copy->source = tn_graph_source(c->to, node->source->module_path, node->source->stack_trace);
        if (!copy->source)
            return tn_no_memory();
    }
    for (int i = 0; i < node->output_count; i++) {
        const tenon_value *from = node->outputs[i];
        tenon_value *to = copy->outputs[i];
        if (tn_value_static(to))
            TN_TRY(check_recorded(node, from, to));
        else if (!c->inputs)
            TN_TRY(copy_shape(to, from));
        if (strcmp(to->name, from->name) != 0)
            TN_TRY(tn_value_rename(to, from->name));
        to->scalar = from->scalar;
        to->channels_last = from->channels_last;
        c->map[from->id] = tenon_arg_value(to);
    }
    return TENON_OK;
}

static tenon_status copy_all(copier *c) {
    const tenon_graph *from = c->from;
    if (!c->inputs)
        TN_TRY(copy_symbols(c));
    for (int i = 0; i < from->input_count; i++)
        TN_TRY(copy_input(c, i));
    for (int i = 0; i < from->constant_count; i++)
        TN_TRY(copy_constant(c, from->constants[i]));
    for (const tenon_node *node = from->first; node; node = node->next) {
        TN_TRY(copy_node(c, node));
        tn_arena_reset(&c->scratch);
    }
    for (int i = 0; i < from->output_count; i++) {
        tenon_arg arg = *from->outputs[i].arg;
        if (arg.kind == TENON_ARG_VALUE)
            arg = c->map[arg.as.value->id];
        TN_TRY(tenon_graph_add_output(c->to, from->outputs[i].name, arg));
    }
    for (int i = 0; i < from->write_count; i++) {
        tenon_arg target = c->map[from->writes[i].target->id];
        tenon_arg value = c->map[from->writes[i].arg->as.value->id];
        if (target.kind != TENON_ARG_VALUE || value.kind != TENON_ARG_VALUE)
            return tn_fail(TENON_UNSUPPORTED, "write to '%s': a number input cannot be written",
                           from->writes[i].target->name);
        TN_TRY(tenon_graph_add_write(c->to, target.as.value, value.as.value));
    }
    return tn_records_copy(c->to, from);
}

static tenon_status copy_graph(const tenon_graph *from, const tenon_view *inputs,
                               tenon_graph **out) {
    copier c = {.from = from, .inputs = inputs};
    tenon_status status;
    TN_GOTO(tenon_graph_create(from->name, &c.to));
    c.to->file_bytes = from->file_bytes;
    c.map = calloc((size_t)from->value_count + 1, sizeof *c.map);
    if (!c.map)
        TN_GOTO(tn_no_memory());
    TN_GOTO(copy_all(&c));
    *out = c.to;
    c.to = NULL;
error:
    tenon_graph_destroy(&c.to);
    tn_arena_free(&c.scratch);
    free(c.map);
    return status;
}

tenon_status tenon_graph_clone(const tenon_graph *graph, tenon_graph **out) {
    return copy_graph(graph, NULL, out);
}

tenon_status tn_graph_specialize(const tenon_graph *graph, const tenon_view *inputs, int count,
                                 tenon_graph **out) {
    TN_TRY(tn_graph_check_inputs(graph, inputs, count));
    return copy_graph(graph, inputs, out);
}
