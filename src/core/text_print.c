/* Graphs as text: docs/text-form.md. */
#include "core/fail.h"
#include "core/graph.h"
#include "core/text.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Constants of at most so many elements are printed in full. */
#define ELEMENTS_SHOWN 64

typedef struct printer {
    const tenon_graph *graph;
    tn_text *out;
    const char **symbols; /* names by index */
    int64_t elements;     /* of a constant that is printed in full, at most */
} printer;

static void print_bound(tn_text *out, int64_t bound) {
    if (bound == INT64_MAX)
        tn_text_add(out, "inf");
    else if (bound == INT64_MIN)
        tn_text_add(out, "-inf");
    else
        tn_text_add(out, "%" PRId64, bound);
}

static void print_range(tn_text *out, int64_t min, int64_t max) {
    tn_text_add(out, " in [");
    print_bound(out, min);
    tn_text_add(out, ", ");
    print_bound(out, max);
    tn_text_add(out, "]\n");
}

static const char *scalar_text(tn_scalar scalar) {
    return scalar == TN_SYMINT ? "symint" : scalar == TN_SYMFLOAT ? "symfloat" : "symbool";
}

static bool type_known(const tenon_value *value) {
    return value->scalar != TN_TENSOR || value->dtype != TENON_DTYPE_NONE || value->rank >= 0;
}

static void print_type(printer *p, const tenon_value *value) {
    if (value->scalar != TN_TENSOR) {
        tn_text_add(p->out, "%s", scalar_text(value->scalar));
        if (value->dims) {
            tn_text_add(p->out, "[");
            tn_expr_print(value->dims[0], p->symbols, p->out);
            tn_text_add(p->out, "]");
        }
        return;
    }
    tn_text_add(p->out, "%s[",
                value->dtype == TENON_DTYPE_NONE ? "?" : tenon_dtype_text(value->dtype));
    if (value->rank < 0)
        tn_text_add(p->out, "...");
    for (int d = 0; d < value->rank; d++) {
        if (d > 0)
            tn_text_add(p->out, ", ");
        if (value->shape && value->shape[d] >= 0)
            tn_text_add(p->out, "%" PRId64, value->shape[d]);
        else if (value->dims)
            tn_expr_print(value->dims[d], p->symbols, p->out);
        else
            tn_text_add(p->out, "?");
    }
    tn_text_add(p->out, value->channels_last ? "] channels_last" : "]");
}

static void print_element(tn_text *out, const void *element, tenon_dtype dtype) {
    if (dtype == TENON_BOOL)
        tn_text_add(out, tn_load_int(element, dtype) ? "true" : "false");
    else if (dtype == TENON_UINT64)
        tn_text_add(out, "%" PRIu64, (uint64_t)tn_load_int(element, dtype));
    else if (tn_dtype_is_integer(dtype))
        tn_text_add(out, "%" PRId64, tn_load_int(element, dtype));
    else
        tn_text_float(out, tn_load_float(element, dtype), dtype);
}

static void print_elements(tn_text *out, const tenon_view *view) {
    int64_t count = tenon_view_numel(view), index[TENON_MAX_RANK] = {0};
    const char *at = view->data;
    int64_t size = (int64_t)tenon_dtype_size(view->dtype);
    tn_text_add(out, " = {");
    for (int64_t i = 0; i < count; i++) {
        if (i > 0)
            tn_text_add(out, ", ");
        print_element(out, at, view->dtype);
        for (int d = view->rank - 1; d >= 0; d--) {
            at += view->strides[d] * size;
            if (++index[d] < view->shape[d])
                break;
            at -= view->strides[d] * size * view->shape[d];
            index[d] = 0;
        }
    }
    tn_text_add(out, "}");
}

static void print_constant(printer *p, const tenon_value *value) {
    tn_text_add(p->out, value->kind == TENON_VALUE_BUFFER ? "  buffer " : "  const ");
    tn_text_value_name(p->out, value->name);
    tn_text_add(p->out, ": ");
    print_type(p, value);
    const tenon_view *view = tenon_tensor_view(value->tensor);
    if (tenon_view_numel(view) <= p->elements)
        print_elements(p->out, view);
    else
        tn_text_add(p->out, " = ...");
    tn_text_add(p->out, "\n");
}

/* NOLINTNEXTLINE(misc-no-recursion): items of a list are no lists */
static void print_arg(printer *p, const tenon_arg *arg) {
    switch (arg->kind) {
    case TENON_ARG_DEFAULT:
    case TENON_ARG_NONE:
        tn_text_add(p->out, "none");
        break;
    case TENON_ARG_VALUE:
        tn_text_value_name(p->out, arg->as.value->name);
        break;
    case TENON_ARG_INT:
        tn_text_add(p->out, "%" PRId64, arg->as.i);
        break;
    case TENON_ARG_FLOAT:
        tn_text_float(p->out, arg->as.f, TENON_FLOAT64);
        break;
    case TENON_ARG_BOOL:
        tn_text_add(p->out, arg->as.b ? "true" : "false");
        break;
    case TENON_ARG_STRING:
        tn_text_quote(p->out, arg->as.s);
        break;
    case TENON_ARG_DTYPE:
        tn_text_add(p->out, "%s", tenon_dtype_text(arg->as.dtype));
        break;
    case TENON_ARG_LIST:
        tn_text_add(p->out, "[");
        for (int i = 0; i < arg->count; i++) {
            if (i > 0)
                tn_text_add(p->out, ", ");
            print_arg(p, &arg->as.list[i]);
        }
        tn_text_add(p->out, "]");
        break;
    }
}

/* Arguments that equal their default are left out; from the first of those on, the others are
 * named. */
static void print_args(printer *p, const tenon_node *node) {
    bool named = false, first = true;
    for (int i = 0; i < node->op->param_count; i++) {
        const tn_param *param = &node->op->params[i];
        if (param->has_default && tn_arg_equal(&node->args[i], &param->preset)) {
            named = true;
            continue;
        }
        if (!first)
            tn_text_add(p->out, ", ");
        first = false;
        if (named)
            tn_text_add(p->out, "%s=", param->name);
        print_arg(p, &node->args[i]);
    }
}

static void print_node(printer *p, const tenon_node *node) {
    tn_text_add(p->out, "  ");
    for (int i = 0; i < node->output_count; i++) {
        const tenon_value *value = node->outputs[i];
        if (i > 0)
            tn_text_add(p->out, ", ");
        tn_text_value_name(p->out, value->name);
        if (type_known(value)) {
            tn_text_add(p->out, ": ");
            print_type(p, value);
        }
    }
    tn_text_add(p->out, "%s%s(", node->output_count > 0 ? " = " : "", node->op->name);
    print_args(p, node);
    tn_text_add(p->out, ")");
    if (node->name &&
        (node->output_count == 0 || strcmp(node->name, node->outputs[0]->name) != 0)) {
        tn_text_add(p->out, " name ");
        tn_text_quote(p->out, node->name);
    }
    if (node->source && node->source->module_path && node->source->module_path[0]) {
        tn_text_add(p->out, " in ");
        tn_text_quote(p->out, node->source->module_path);
    }
    tn_text_add(p->out, "\n");
}

static void print_ends(printer *p) {
    const tenon_graph *graph = p->graph;
    for (int i = 0; i < graph->write_count; i++) {
        tn_text_add(p->out, "  write ");
        tn_text_value_name(p->out, graph->writes[i].target->name);
        tn_text_add(p->out, " <- ");
        print_arg(p, graph->writes[i].arg);
        tn_text_add(p->out, "\n");
    }
    for (int i = 0; i < graph->output_count; i++) {
        tn_text_add(p->out, "  output ");
        tn_text_quote(p->out, graph->outputs[i].name);
        tn_text_add(p->out, " = ");
        print_arg(p, graph->outputs[i].arg);
        tn_text_add(p->out, "\n");
    }
}

static void print_graph(printer *p) {
    const tenon_graph *graph = p->graph;
    tn_text_add(p->out, "graph ");
    if (graph->name && graph->name[0]) {
        tn_text_quote(p->out, graph->name);
        tn_text_add(p->out, " ");
    }
    tn_text_add(p->out, "{\n");
    for (int i = 0; i < graph->symbol_count; i++) {
        tn_text_add(p->out, "  symbol %s", graph->symbols[i].name);
        print_range(p->out, graph->symbols[i].min, graph->symbols[i].max);
    }
    for (int i = 0; i < graph->constraint_count; i++) {
        tn_text_add(p->out, "  constraint ");
        tn_expr_print(graph->constraints[i].expr, p->symbols, p->out);
        print_range(p->out, graph->constraints[i].min, graph->constraints[i].max);
    }
    for (int i = 0; i < graph->input_count; i++) {
        tn_text_add(p->out, "  input ");
        tn_text_value_name(p->out, graph->inputs[i]->name);
        tn_text_add(p->out, ": ");
        print_type(p, graph->inputs[i]);
        tn_text_add(p->out, "\n");
    }
    for (int i = 0; i < graph->constant_count; i++)
        print_constant(p, graph->constants[i]);
    for (const tenon_node *node = graph->first; node; node = node->next)
        print_node(p, node);
    print_ends(p);
    tn_text_add(p->out, "}\n");
}

tenon_status tenon_graph_print(const tenon_graph *graph, char **out) {
    return tn_graph_print(graph, ELEMENTS_SHOWN, out);
}

tenon_status tn_graph_print(const tenon_graph *graph, int64_t elements, char **out) {
    tn_text text = {0};
    printer p = {.graph = graph, .out = &text, .elements = elements};
    p.symbols = calloc((size_t)graph->symbol_count + 1, sizeof *p.symbols);
    if (!p.symbols)
        return tn_no_memory();
    for (int i = 0; i < graph->symbol_count; i++)
        p.symbols[i] = graph->symbols[i].name;
    print_graph(&p);
    free(p.symbols);
    if (text.failed) {
        tn_text_free(&text);
        return tn_no_memory();
    }
    *out = text.data;
    return TENON_OK;
}
