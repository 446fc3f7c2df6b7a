/* Writes the lowered-graph form: docs/json-form.md. */
#include "core/fail.h"
#include "core/graph.h"
#include "core/io_status.h"
#include "core/replace.h"
#include "load/json.h"
#include "load/weights.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/load.h>

typedef struct writer {
    const tenon_graph *graph;
    tn_text text;
    const char **symbols; /* names by index */
    tn_named_view *views; /* tensors to be written */
    int view_count;
    const char **tensors; /* by constant: the name of its tensor */
} writer;

/* ---- JSON ---- */

/* `"key": ` with the comma that parts it from what was before. */
static void key(writer *w, bool *first, const char *name) {
    tn_text_add(&w->text, "%s", *first ? "" : ", ");
    *first = false;
    tn_json_quote(&w->text, name);
    tn_text_add(&w->text, ": ");
}

static void string_field(writer *w, bool *first, const char *name, const char *value) {
    key(w, first, name);
    tn_json_quote(&w->text, value);
}

static void bound_field(writer *w, bool *first, const char *name, int64_t value, int64_t none) {
    key(w, first, name);
    if (value == none)
        tn_text_add(&w->text, "null");
    else
        tn_text_add(&w->text, "%" PRId64, value);
}

static void expr_text(writer *w, const tn_expr *expr) {
    tn_text text = {0};
    tn_expr_print(expr, w->symbols, &text);
    tn_json_quote(&w->text, text.failed ? "" : text.data);
    w->text.failed |= text.failed;
    tn_text_free(&text);
}

/* NOLINTNEXTLINE(misc-no-recursion): items of a list are no lists */
static void write_arg(writer *w, const tenon_arg *arg) {
    switch (arg->kind) {
    case TENON_ARG_DEFAULT:
    case TENON_ARG_NONE:
        tn_text_add(&w->text, "null");
        break;
    case TENON_ARG_VALUE:
        tn_text_add(&w->text, "{\"value\": ");
        tn_json_quote(&w->text, arg->as.value->name);
        tn_text_add(&w->text, "}");
        break;
    case TENON_ARG_INT:
        tn_text_add(&w->text, "%" PRId64, arg->as.i);
        break;
    case TENON_ARG_FLOAT:
        tn_text_add(&w->text, "{\"float\": ");
        tn_json_float_text(&w->text, arg->as.f);
        tn_text_add(&w->text, "}");
        break;
    case TENON_ARG_BOOL:
        tn_text_add(&w->text, arg->as.b ? "true" : "false");
        break;
    case TENON_ARG_STRING:
        tn_json_quote(&w->text, arg->as.s);
        break;
    case TENON_ARG_DTYPE:
        tn_text_add(&w->text, "{\"dtype\": \"%s\"}", tenon_dtype_text(arg->as.dtype));
        break;
    case TENON_ARG_LIST:
        tn_text_add(&w->text, "[");
        for (int i = 0; i < arg->count; i++) {
            tn_text_add(&w->text, i ? ", " : "");
            write_arg(w, &arg->as.list[i]);
        }
        tn_text_add(&w->text, "]");
        break;
    }
}

/* ---- Parts of the graph ---- */

/* Starts a list of objects, one a line. */
static void open_list(writer *w, const char *name) {
    tn_text_add(&w->text, ",\n  \"%s\": [", name);
}

static void open_item(writer *w, int index) {
    tn_text_add(&w->text, index ? ",\n    {" : "\n    {");
}

static void write_symbols(writer *w) {
    open_list(w, "symbols");
    for (int i = 0; i < w->graph->symbol_count; i++) {
        bool first = true;
        open_item(w, i);
        string_field(w, &first, "name", w->graph->symbols[i].name);
        bound_field(w, &first, "min", w->graph->symbols[i].min, INT64_MIN);
        bound_field(w, &first, "max", w->graph->symbols[i].max, INT64_MAX);
        tn_text_add(&w->text, "}");
    }
    tn_text_add(&w->text, "]");
    open_list(w, "constraints");
    for (int i = 0; i < w->graph->constraint_count; i++) {
        bool first = true;
        open_item(w, i);
        key(w, &first, "expr");
        expr_text(w, w->graph->constraints[i].expr);
        bound_field(w, &first, "min", w->graph->constraints[i].min, INT64_MIN);
        bound_field(w, &first, "max", w->graph->constraints[i].max, INT64_MAX);
        tn_text_add(&w->text, "}");
    }
    tn_text_add(&w->text, "]");
}

static const char *number_text(tn_scalar scalar) {
    return scalar == TN_SYMINT ? "int" : scalar == TN_SYMFLOAT ? "float" : "bool";
}

static void write_shape(writer *w, const tenon_value *value) {
    tn_text_add(&w->text, "[");
    for (int d = 0; d < value->rank; d++) {
        tn_text_add(&w->text, d ? ", " : "");
        if (value->shape[d] >= 0)
            tn_text_add(&w->text, "%" PRId64, value->shape[d]);
        else
            expr_text(w, value->dims[d]);
    }
    tn_text_add(&w->text, "]");
}

static void write_inputs(writer *w) {
    open_list(w, "inputs");
    for (int i = 0; i < w->graph->input_count; i++) {
        const tenon_value *value = w->graph->inputs[i];
        bool first = true;
        open_item(w, i);
        string_field(w, &first, "name", value->name);
        if (value->scalar != TN_TENSOR) {
            string_field(w, &first, "number", number_text(value->scalar));
            if (value->dims) {
                key(w, &first, "expr");
                expr_text(w, value->dims[0]);
            }
        } else {
            string_field(w, &first, "dtype", tenon_dtype_text(value->dtype));
            key(w, &first, "shape");
            write_shape(w, value);
        }
        tn_text_add(&w->text, "}");
    }
    tn_text_add(&w->text, "]");
}

static void write_constants(writer *w) {
    static const char *const lists[] = {"constants", "buffers"};
    static const tenon_value_kind kinds[] = {TENON_VALUE_CONSTANT, TENON_VALUE_BUFFER};
    for (int k = 0; k < 2; k++) {
        int count = 0;
        open_list(w, lists[k]);
        for (int i = 0; i < w->graph->constant_count; i++) {
            const tenon_value *value = w->graph->constants[i];
            bool first = true;
            if (value->kind != kinds[k])
                continue;
            open_item(w, count++);
            string_field(w, &first, "name", value->name);
            if (strcmp(w->tensors[i], value->name) != 0)
                string_field(w, &first, "tensor", w->tensors[i]);
            tn_text_add(&w->text, "}");
        }
        tn_text_add(&w->text, "]");
    }
}

/* A name alone where everything else can be inferred. */
static void write_node_output(writer *w, const tenon_value *value) {
    bool first = true;
    bool number = value->scalar != TN_TENSOR,
         known = value->shape || value->dtype == TENON_DTYPE_NONE;
    if (!number && known && !value->channels_last) {
        tn_json_quote(&w->text, value->name);
        return;
    }
    tn_text_add(&w->text, "{");
    string_field(w, &first, "name", value->name);
    if (number) {
        string_field(w, &first, "number", number_text(value->scalar));
    } else if (!known) {
        string_field(w, &first, "dtype", tenon_dtype_text(value->dtype));
        if (value->rank >= 0) {
            key(w, &first, "rank");
            tn_text_add(&w->text, "%d", value->rank);
        }
    }
    if (value->channels_last) {
        key(w, &first, "channels_last");
        tn_text_add(&w->text, "true");
    }
    tn_text_add(&w->text, "}");
}

static void write_node(writer *w, const tenon_node *node, int index) {
    bool first = true, first_arg = true;
    open_item(w, index);
    string_field(w, &first, "op", node->op->name);
    string_field(w, &first, "name", node->name);
    key(w, &first, "args");
    tn_text_add(&w->text, "{");
    for (int i = 0; i < node->op->param_count; i++) {
        key(w, &first_arg, node->op->params[i].name);
        write_arg(w, &node->args[i]);
    }
    tn_text_add(&w->text, "}");
    key(w, &first, "outputs");
    tn_text_add(&w->text, "[");
    for (int i = 0; i < node->output_count; i++) {
        tn_text_add(&w->text, i ? ", " : "");
        write_node_output(w, node->outputs[i]);
    }
    tn_text_add(&w->text, "]");
    if (node->source && node->source->module_path[0])
        string_field(w, &first, "module", node->source->module_path);
    if (node->source && node->source->stack_trace[0])
        string_field(w, &first, "trace", node->source->stack_trace);
    tn_text_add(&w->text, "}");
}

static void write_ends(writer *w) {
    open_list(w, "writes");
    for (int i = 0; i < w->graph->write_count; i++) {
        bool first = true;
        open_item(w, i);
        string_field(w, &first, "target", w->graph->writes[i].target->name);
        string_field(w, &first, "value", w->graph->writes[i].arg->as.value->name);
        tn_text_add(&w->text, "}");
    }
    tn_text_add(&w->text, "]");
    open_list(w, "outputs");
    for (int i = 0; i < w->graph->output_count; i++) {
        bool first = true;
        open_item(w, i);
        string_field(w, &first, "name", w->graph->outputs[i].name);
        key(w, &first, "value");
        write_arg(w, w->graph->outputs[i].arg);
        tn_text_add(&w->text, "}");
    }
    tn_text_add(&w->text, "]\n}\n");
}

static void write_graph(writer *w, const char *weights) {
    tn_text_add(&w->text, "{\n  \"format\": \"tenon-graph\",\n  \"version\": 1,\n  \"name\": ");
    tn_json_quote(&w->text, w->graph->name ? w->graph->name : "");
    if (weights) {
        tn_text_add(&w->text, ",\n  \"weights\": ");
        tn_json_quote(&w->text, weights);
    }
    write_symbols(w);
    write_inputs(w);
    write_constants(w);
    open_list(w, "nodes");
    int index = 0;
    for (const tenon_node *node = w->graph->first; node; node = node->next)
        write_node(w, node, index++);
    tn_text_add(&w->text, "]");
    write_ends(w);
}

/* ---- Weights ---- */

typedef struct keyed {
    const tenon_view *view;
    int index; /* of the constant */
} keyed;

static int by_memory(const void *a, const void *b) {
    const keyed *x = a, *y = b;
    if (x->view->data != y->view->data)
        return (uintptr_t)x->view->data < (uintptr_t)y->view->data ? -1 : 1;
    return x->index - y->index;
}

static bool same_view(const tenon_view *a, const tenon_view *b) {
    return a->data == b->data && a->dtype == b->dtype && tn_same_shape(a, b) &&
           memcmp(a->strides, b->strides, (size_t)a->rank * sizeof *a->strides) == 0;
}

/* Constants that are the same memory are written once, under the first one's name. */
static tenon_status collect_views(writer *w) {
    int count = w->graph->constant_count;
    keyed *sorted = calloc((size_t)count + 1, sizeof *sorted);
    w->views = calloc((size_t)count + 1, sizeof *w->views);
    w->tensors = calloc((size_t)count + 1, sizeof *w->tensors);
    if (!sorted || !w->views || !w->tensors) {
        free(sorted);
        return tn_no_memory();
    }
    for (int i = 0; i < count; i++)
        sorted[i] = (keyed){tenon_tensor_view(w->graph->constants[i]->tensor), i};
    qsort(sorted, (size_t)count, sizeof *sorted, by_memory);
    for (int i = 0; i < count; i++) {
        const char *name = w->graph->constants[sorted[i].index]->name;
        for (int j = i - 1; j >= 0 && sorted[j].view->data == sorted[i].view->data; j--)
            if (same_view(sorted[j].view, sorted[i].view))
                name = w->tensors[sorted[j].index];
        w->tensors[sorted[i].index] = name;
        if (name == w->graph->constants[sorted[i].index]->name)
            w->views[w->view_count++] = (tn_named_view){name, sorted[i].view};
    }
    free(sorted);
    return TENON_OK;
}

/* ---- Files ---- */

static tenon_status write_files(writer *w, const char *path, const char *weights_path) {
    tenon_status status;
    tn_replace json = {0}, weights = {0};
    const char *slash = strrchr(weights_path, '/');
    TN_TRY(collect_views(w));
    write_graph(w, w->view_count ? (slash ? slash + 1 : weights_path) : NULL);
    if (w->text.failed)
        return tn_no_memory();
    TN_GOTO(tn_replace_open(&json, path));
    if (fwrite(w->text.data, 1, w->text.length, json.file) != w->text.length)
        TN_GOTO(tn_fail(tn_io_status(errno), "%s: cannot be written: %s", path, strerror(errno)));
    if (w->view_count) {
        TN_GOTO(tn_replace_open(&weights, weights_path));
        TN_GOTO(tn_safetensors_write(weights.file, weights_path, w->views, w->view_count));
        TN_GOTO(tn_replace_commit_both(&weights, &json));
    } else {
        TN_GOTO(tn_replace_commit(&json));
    }
error:
    tn_replace_close(&json);
    tn_replace_close(&weights);
    return status;
}

tenon_status tenon_save_json(const tenon_graph *graph, const char *path) {
    static const char end[] = ".json", weights_end[] = ".safetensors";
    size_t length = strlen(path), stem = length - (sizeof end - 1);
    if (length < sizeof end || strcmp(path + stem, end) != 0)
        return tn_fail(TENON_INVALID_ARGUMENT, "%s: the name must end in .json", path);
    writer w = {.graph = graph};
    char *weights_path = malloc(stem + sizeof weights_end);
    w.symbols = calloc((size_t)graph->symbol_count + 1, sizeof *w.symbols);
    tenon_status status = weights_path && w.symbols ? TENON_OK : tn_no_memory();
    if (status == TENON_OK) {
        memcpy(weights_path, path, stem);
        strcpy(weights_path + stem, weights_end);
        for (int i = 0; i < graph->symbol_count; i++)
            w.symbols[i] = graph->symbols[i].name;
        status = write_files(&w, path, weights_path);
    }
    free(weights_path);
    free(w.symbols);
    free(w.views);
    free(w.tensors);
    tn_text_free(&w.text);
    return status;
}
