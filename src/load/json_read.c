/* Reads the lowered-graph form: docs/json-form.md. */
#include "core/fail.h"
#include "core/graph.h"
#include "load/json.h"
#include "load/kinds.h"
#include "load/weights.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *path;
    const tenon_load_options *options;
    cJSON *tree;
    tenon_graph *graph;
    tn_safetensors weights;
    char *weights_path;
    tn_arena scratch;  /* of the node being read */
    const char *place; /* what is being read, for messages; NULL outside */
    int64_t size;      /* of the file */
} reader;

static tenon_status fail(const reader *r, tenon_status status, const char *format, ...)
    TENON_PRINTF(3, 4);

static tenon_status fail(const reader *r, tenon_status status, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return r->place ? tn_fail(status, "%s: '%s': %s", r->path, r->place, message)
                    : tn_fail(status, "%s: %s", r->path, message);
}

#ifdef __clang_analyzer__ /* tools/analyse must know what it returns */
#define fail(r, status, ...) ((void)fail(r, status, __VA_ARGS__), (status))
#endif

/* A fault of a graph is a fault of the file here. */
static tenon_status within(const reader *r, tenon_status status) {
    if (status == TENON_INVALID_GRAPH || status == TENON_INVALID_ARGUMENT)
        status = TENON_INVALID_FILE;
    return tn_fail_within(status, "%s", r->path);
}

#define TRY_HERE(r, call)                  \
    do {                                   \
        tenon_status here_status = (call); \
        if (here_status != TENON_OK)       \
            return within(r, here_status); \
    } while (0)

/* The first item of a list that may be absent. */
static tenon_status list_of(reader *r, const char *name, const cJSON **first) {
    const cJSON *list = tn_json_get(r->tree, name);
    r->place = name;
    *first = NULL;
    if (!list)
        return TENON_OK;
    if (!cJSON_IsArray(list))
        return fail(r, TENON_INVALID_FILE, "it is no list");
    *first = list->child;
    return TENON_OK;
}

static tenon_status string_of(reader *r, const cJSON *object, const char *key, const char **out) {
    *out = tn_json_string(tn_json_get(object, key));
    return *out ? TENON_OK : fail(r, TENON_INVALID_FILE, "an item has no '%s'", key);
}

static tenon_status bound_of(reader *r, const cJSON *object, const char *key, int64_t none,
                             int64_t *out) {
    const cJSON *item = tn_json_get(object, key);
    *out = none;
    if (item && !cJSON_IsNull(item) && !tn_json_int(item, out))
        return fail(r, TENON_INVALID_FILE, "'%s' is neither an integer nor null", key);
    return TENON_OK;
}

/* ---- Symbols, inputs, constants ---- */

static tenon_status read_range(reader *r, const cJSON *item, int64_t *min, int64_t *max) {
    TN_TRY(bound_of(r, item, "min", INT64_MIN, min));
    TN_TRY(bound_of(r, item, "max", INT64_MAX, max));
    return *min <= *max ? TENON_OK : fail(r, TENON_INVALID_FILE, "a range is empty");
}

static tenon_status read_expr(reader *r, const char *text, const tn_expr **out) {
    TRY_HERE(r, tn_expr_parse(&r->graph->arena, text, tn_graph_symbol_fn, r->graph, out));
    return TENON_OK;
}

static tenon_status read_symbols(reader *r) {
    const cJSON *item;
    const char *text;
    const tn_expr *expr;
    int64_t min, max;
    TN_TRY(list_of(r, "symbols", &item));
    for (; item; item = item->next) {
        TN_TRY(string_of(r, item, "name", &text));
        TN_TRY(read_range(r, item, &min, &max));
        if (tn_graph_symbol_fn(r->graph, text) < 0)
            return tn_no_memory();
        TRY_HERE(r, tenon_graph_set_symbol_range(r->graph, text, min, max));
    }
    TN_TRY(list_of(r, "constraints", &item));
    for (; item; item = item->next) {
        TN_TRY(string_of(r, item, "expr", &text));
        TN_TRY(read_range(r, item, &min, &max));
        TN_TRY(read_expr(r, text, &expr));
        TRY_HERE(r, tn_graph_add_constraint(r->graph, expr, min, max));
    }
    return TENON_OK;
}

static tenon_status read_number_kind(reader *r, const char *text, tn_scalar *scalar,
                                     tenon_dtype *dtype) {
    static const struct {
        const char *text;
        tn_scalar scalar;
        tenon_dtype dtype;
    } kinds[] = {{"int", TN_SYMINT, TENON_INT64},
                 {"float", TN_SYMFLOAT, TENON_FLOAT64},
                 {"bool", TN_SYMBOOL, TENON_BOOL}};
    for (int i = 0; i < TN_COUNT(kinds); i++)
        if (strcmp(kinds[i].text, text) == 0) {
            *scalar = kinds[i].scalar;
            *dtype = kinds[i].dtype;
            return TENON_OK;
        }
    return fail(r, TENON_INVALID_FILE, "'%.40s' is not int, float or bool", text);
}

static tenon_status read_dtype(reader *r, const cJSON *item, tenon_dtype *out) {
    const char *text;
    TN_TRY(string_of(r, item, "dtype", &text));
    *out = tenon_dtype_from_text(text);
    return *out != TENON_DTYPE_NONE ? TENON_OK
                                    : fail(r, TENON_UNSUPPORTED, "unknown dtype '%.40s'", text);
}

static tenon_status read_dims(reader *r, const cJSON *list, const tn_expr **dims, int *rank) {
    if (!cJSON_IsArray(list))
        return fail(r, TENON_INVALID_FILE, "an input has no shape");
    *rank = 0;
    for (const cJSON *item = list->child; item; item = item->next) {
        int64_t size;
        const char *text = tn_json_string(item);
        if (*rank == TENON_MAX_RANK)
            return fail(r, TENON_INVALID_FILE, "an input has more than %d dimensions",
                        TENON_MAX_RANK);
        if (text)
            TN_TRY(read_expr(r, text, &dims[*rank]));
        else if (!tn_json_int(item, &size))
            return fail(r, TENON_INVALID_FILE, "a size is neither an integer nor text");
        else if (!(dims[*rank] = tn_expr_make(&r->graph->arena, TN_EXPR_INT, size, NULL, NULL)))
            return tn_no_memory();
        ++*rank;
    }
    return TENON_OK;
}

static tenon_status read_inputs(reader *r) {
    const cJSON *item;
    TN_TRY(list_of(r, "inputs", &item));
    for (; item; item = item->next) {
        const char *name, *text = tn_json_string(tn_json_get(item, "expr"));
        const char *number = tn_json_string(tn_json_get(item, "number"));
        const tn_expr *dims[TENON_MAX_RANK];
        tn_scalar scalar = TN_TENSOR;
        tenon_dtype dtype = TENON_DTYPE_NONE;
        int rank = 0;
        TN_TRY(string_of(r, item, "name", &name));
        if (number) {
            TN_TRY(read_number_kind(r, number, &scalar, &dtype));
            if (text)
                TN_TRY(read_expr(r, text, &dims[0]));
        } else {
            TN_TRY(read_dtype(r, item, &dtype));
            TN_TRY(read_dims(r, tn_json_get(item, "shape"), dims, &rank));
        }
        TRY_HERE(r, tn_graph_add_input(r->graph, name, scalar, dtype, rank, NULL,
                                       number && !text ? NULL : dims, NULL));
    }
    return TENON_OK;
}

/* The file of weights stands beside the JSON file: a name without folders. */
static tenon_status open_weights(reader *r) {
    const cJSON *item = tn_json_get(r->tree, "weights");
    const char *name = tn_json_string(item), *slash = strrchr(r->path, '/');
    r->place = NULL;
    if (!item)
        return TENON_OK;
    if (!name || !*name || strchr(name, '/'))
        return fail(r, TENON_INVALID_FILE,
                    "'weights' is not the name of a file in the same folder");
    size_t folder = slash ? (size_t)(slash - r->path) + 1 : 0;
    r->weights_path = malloc(folder + strlen(name) + 1);
    if (!r->weights_path)
        return tn_no_memory();
    memcpy(r->weights_path, r->path, folder);
    strcpy(r->weights_path + folder, name);
    /* NOLINTNEXTLINE(*unix.Malloc): the reader keeps its path, whatever happens to its weights */
    return tn_safetensors_open(&r->weights, r->weights_path, r->options->copy_weights);
}

static tenon_status read_constants(reader *r, const char *list, bool buffers) {
    const cJSON *item;
    TN_TRY(list_of(r, list, &item));
    for (; item; item = item->next) {
        const char *name, *tensor_name = tn_json_string(tn_json_get(item, "tensor"));
        tenon_tensor *tensor = NULL;
        TN_TRY(string_of(r, item, "name", &name));
        if (!r->weights.file.path)
            return fail(r, TENON_INVALID_FILE,
                        "'%s' needs a file of weights, and 'weights' names none", name);
        TN_TRY(tn_safetensors_get(&r->weights, tensor_name ? tensor_name : name, &tensor));
        tenon_status status = buffers ? tenon_graph_add_buffer(r->graph, name, tensor, NULL)
                                      : tenon_graph_add_constant(r->graph, name, tensor, NULL);
        tenon_tensor_destroy(&tensor);
        if (status != TENON_OK)
            return within(r, status);
    }
    return TENON_OK;
}

/* ---- Nodes ---- */

static tenon_status find_value(reader *r, const char *name, tenon_value **out) {
    *out = name ? tenon_graph_find_value(r->graph, name) : NULL;
    return *out ? TENON_OK
                : fail(r, TENON_INVALID_FILE, "no value '%.100s' is known here", name ? name : "");
}

static tenon_status read_object_arg(reader *r, const cJSON *item, tenon_arg *out) {
    const cJSON *inner = item->child;
    tenon_value *value;
    tenon_dtype dtype;
    double number;
    if (!inner || !inner->string || inner->next)
        return fail(r, TENON_INVALID_FILE, "an argument object needs one key");
    if (strcmp(inner->string, "value") == 0) {
        TN_TRY(find_value(r, tn_json_string(inner), &value));
        *out = tenon_arg_value(value);
    } else if (strcmp(inner->string, "dtype") == 0) {
        TN_TRY(read_dtype(r, item, &dtype));
        *out = tenon_arg_dtype(dtype);
    } else if (strcmp(inner->string, "float") == 0 && tn_json_float(inner, &number)) {
        *out = tenon_arg_float(number);
    } else {
        return fail(r, TENON_INVALID_FILE, "an argument object is not {value}, {dtype} or {float}");
    }
    return TENON_OK;
}

/* An argument that is not a list. */
static tenon_status read_single(reader *r, const cJSON *item, tenon_arg *out) {
    int64_t integer;
    if (cJSON_IsObject(item))
        return read_object_arg(r, item, out);
    if (cJSON_IsNull(item))
        *out = tenon_arg_none();
    else if (cJSON_IsBool(item))
        *out = tenon_arg_bool(cJSON_IsTrue(item));
    else if (tn_json_string(item))
        *out = tenon_arg_string(tn_json_string(item));
    else if (tn_json_int(item, &integer))
        *out = tenon_arg_int(integer);
    else if (cJSON_IsNumber(item))
        *out = tenon_arg_float(item->valuedouble);
    else
        return fail(r, TENON_INVALID_FILE, "an argument has no known form");
    return TENON_OK;
}

static tenon_status read_arg(reader *r, const cJSON *item, tenon_arg *out) {
    int32_t count = 0, i = 0;
    if (!cJSON_IsArray(item))
        return read_single(r, item, out);
    for (const cJSON *child = item->child; child; child = child->next)
        count++;
    tenon_arg *items = tn_arena_array(&r->scratch, (size_t)count + 1, sizeof *items);
    if (!items)
        return tn_no_memory();
    for (const cJSON *child = item->child; child; child = child->next)
        TN_TRY(read_single(r, child, &items[i++]));
    *out = tenon_arg_list(items, count);
    return TENON_OK;
}

static tenon_status read_args(reader *r, const tn_op *op, const cJSON *args, tenon_arg *out) {
    for (const cJSON *item = tn_json_first(args); item; item = item->next) {
        int index = item->string ? tn_op_param(op, item->string) : -1;
        if (index < 0)
            return fail(r, TENON_INVALID_FILE, "%s has no argument '%.60s'", op->name,
                        item->string ? item->string : "");
        TN_TRY(read_arg(r, item, &out[index]));
    }
    return TENON_OK;
}

/* What an output's item says where inference cannot know it. */
static tenon_status record(reader *r, tenon_value *value, const cJSON *item) {
    const char *number = tn_json_string(tn_json_get(item, "number"));
    int64_t rank;
    tenon_dtype dtype;
    value->channels_last =
        cJSON_IsTrue(tn_json_get(item, "channels_last")) && value->rank >= 3 && value->rank <= 5;
    if (number) {
        if (value->node->op->kind != TN_OP_SYM)
            return fail(r, TENON_INVALID_FILE, "'%s' is a tensor, not a number", value->name);
        return read_number_kind(r, number, &value->scalar, &value->dtype);
    }
    if (tn_json_get(item, "dtype")) {
        TN_TRY(read_dtype(r, item, &dtype));
        if (value->dtype != TENON_DTYPE_NONE && value->dtype != dtype)
            return fail(r, TENON_INVALID_FILE,
                        "the file records %s for '%s', the operator gives %s",
                        tenon_dtype_text(dtype), value->name, tenon_dtype_text(value->dtype));
        value->dtype = dtype;
    }
    if (tn_json_int(tn_json_get(item, "rank"), &rank)) {
        if (rank < 0 || rank > TENON_MAX_RANK || (value->rank >= 0 && value->rank != rank))
            return fail(r, TENON_INVALID_FILE, "the file records rank %lld for '%s'",
                        (long long)rank, value->name);
        value->rank = (int32_t)rank;
    }
    return TENON_OK;
}

static tenon_status name_outputs(reader *r, tenon_node *node, const cJSON *outputs, int count) {
    int i = 0;
    if (node->output_count != count)
        return fail(r, TENON_INVALID_FILE, "it names %d outputs, %s has %d", count, node->op->name,
                    node->output_count);
    for (const cJSON *item = tn_json_first(outputs); item; item = item->next, i++) {
        tenon_value *value = node->outputs[i];
        const char *name = tn_json_string(item);
        if (!name)
            TN_TRY(string_of(r, item, "name", &name));
        if (strcmp(value->name, name) != 0) {
            if (tenon_graph_find_value(r->graph, name))
                return fail(r, TENON_INVALID_FILE, "two values are named '%s'", name);
            TRY_HERE(r, tn_value_rename(value, name));
        }
        TN_TRY(record(r, value, item));
    }
    return TENON_OK;
}

static tenon_status read_node(reader *r, const cJSON *item) {
    const char *name, *op_name;
    tenon_node *node;
    TN_TRY(string_of(r, item, "op", &op_name));
    name = tn_json_string(tn_json_get(item, "name"));
    const tn_op *op = tn_op_find(op_name);
    r->place = name ? name : op_name;
    if (!op && tn_op_refused(op_name))
        return fail(r, TENON_UNSUPPORTED, "%.100s: %s", op_name, tn_op_refused(op_name));
    if (!op)
        return fail(r, TENON_UNKNOWN_OP, "unknown operator '%.100s'", op_name);
    tenon_arg *args = tn_arena_array(&r->scratch, (size_t)op->param_count + 1, sizeof *args);
    if (!args)
        return tn_no_memory();
    TN_TRY(read_args(r, op, tn_json_get(item, "args"), args));
    const cJSON *outputs = tn_json_get(item, "outputs");
    int count = 0;
    for (const cJSON *output = tn_json_first(outputs); output; output = output->next)
        count++;
    TRY_HERE(r, tn_graph_add(r->graph, NULL, op, name, args, op->param_count,
                             op->list_return ? count : -1, &node));
    const char *module = tn_json_string(tn_json_get(item, "module"));
    const char *trace = tn_json_string(tn_json_get(item, "trace"));
    if (module || trace) {
        node->source = tn_graph_source(r->graph, module ? module : "", trace ? trace : "");
        if (!node->source)
            return tn_no_memory();
    }
    return name_outputs(r, node, outputs, count);
}

static tenon_status read_nodes(reader *r) {
    const cJSON *item;
    TN_TRY(list_of(r, "nodes", &item));
    for (; item; item = item->next) {
        TN_TRY(read_node(r, item));
        tn_arena_reset(&r->scratch);
        r->place = "nodes";
    }
    return TENON_OK;
}

static tenon_status read_ends(reader *r) {
    const cJSON *item;
    const char *name;
    TN_TRY(list_of(r, "writes", &item));
    for (; item; item = item->next) {
        tenon_value *target, *value;
        TN_TRY(find_value(r, tn_json_string(tn_json_get(item, "target")), &target));
        TN_TRY(find_value(r, tn_json_string(tn_json_get(item, "value")), &value));
        TRY_HERE(r, tenon_graph_add_write(r->graph, target, value));
    }
    TN_TRY(list_of(r, "outputs", &item));
    for (; item; item = item->next) {
        tenon_arg arg;
        TN_TRY(string_of(r, item, "name", &name));
        TN_TRY(read_single(r, tn_json_get(item, "value"), &arg));
        TRY_HERE(r, tenon_graph_add_output(r->graph, name, arg));
    }
    return TENON_OK;
}

/* ---- All ---- */

static tenon_status read_tree(reader *r) {
    char *text;
    size_t size;
    TN_TRY(tn_file_read_all(r->path, &text, &size));
    tenon_status status = tn_json_parse(r->path, text, size, &r->tree);
    free(text);
    r->size = (int64_t)size;
    return status;
}

static tenon_status load(reader *r) {
    int64_t version;
    TN_TRY(read_tree(r));
    const char *format = tn_json_string(tn_json_get(r->tree, "format"));
    if (!format || strcmp(format, "tenon-graph") != 0)
        return fail(r, TENON_INVALID_FILE, "its 'format' is not \"tenon-graph\"");
    if (!tn_json_int(tn_json_get(r->tree, "version"), &version) || version != 1)
        return fail(r, TENON_UNSUPPORTED, "its 'version' is not 1");
    TN_TRY(tenon_graph_create(tn_json_string(tn_json_get(r->tree, "name")), &r->graph));
    TN_TRY(read_symbols(r));
    TN_TRY(read_inputs(r));
    TN_TRY(open_weights(r));
    TN_TRY(read_constants(r, "constants", false));
    TN_TRY(read_constants(r, "buffers", true));
    TN_TRY(read_nodes(r));
    TN_TRY(read_ends(r));
    TRY_HERE(r, tenon_graph_verify(r->graph));
    r->graph->file_bytes = r->size + (int64_t)r->weights.file.size;
    return r->weights.file.path ? tn_file_check(&r->weights.file) : TENON_OK;
}

tenon_status tn_load_json(const char *path, const tenon_load_options *options, tenon_graph **out) {
    reader r = {.path = path, .options = options};
    tenon_status status = load(&r);
    cJSON_Delete(r.tree);
    tn_safetensors_close(&r.weights);
    free(r.weights_path);
    tn_arena_free(&r.scratch);
    if (status != TENON_OK) {
        tenon_graph_destroy(&r.graph);
        return status;
    }
    *out = r.graph;
    return TENON_OK;
}
