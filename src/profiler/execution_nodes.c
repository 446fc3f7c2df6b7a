/* The nodes of execution graphs. */
#include "profiler/execution_trace.h"
#include <math.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OP_SCOPE = 0, USER_SCOPE = 7 }; /* RecordScope of ATen/record_function.h */

/* Numbers and C++ types, of c10/core/ScalarType.h. */
static const struct {
    int number;
    const char *type;
} dtypes[TENON_DTYPE_COUNT] = {
    [TENON_UINT8] = {0, "unsigned char"},
    [TENON_INT8] = {1, "signed char"},
    [TENON_INT16] = {2, "short int"},
    [TENON_INT32] = {3, "int"},
    [TENON_INT64] = {4, "long int"},
    [TENON_FLOAT16] = {5, "c10::Half"},
    [TENON_FLOAT32] = {6, "float"},
    [TENON_FLOAT64] = {7, "double"},
    [TENON_BOOL] = {11, "bool"},
    [TENON_BFLOAT16] = {15, "c10::BFloat16"},
    [TENON_UINT16] = {27, "unsigned short"},
    [TENON_UINT32] = {28, "unsigned int"},
    [TENON_UINT64] = {29, "unsigned long"},
};

/* What a node reads or makes. */
typedef struct operands {
    cJSON *values, *shapes, *types, *strides;
} operands;

typedef struct node_writer {
    tn_execution_trace *trace;
    tn_writer *w;
    tn_observed *seen; /* NULL: of no plan */
    cJSON *node;
    operands in, out;
    int64_t id;
} node_writer;

/* ---- Tensors ---- */

/* Values within partitions have no memory. */
static bool within_partition(const tn_plan *plan, const tenon_value *value) {
    int32_t step = value->node ? plan->step_of[value->node->order] : -1;
    return step >= 0 && plan->steps[step].partition != NULL;
}

/* A number of its own. */
static int64_t number(node_writer *n, int64_t *id) {
    if (*id == 0)
        *id = ++n->trace->last_id;
    return *id;
}

static int64_t tensor_id(node_writer *n, const tenon_value *value) {
    if (value->tensor)
        return tn_execution_id(n->trace, &n->trace->weights, value->tensor);
    return number(n, &n->seen->tensors[value->id]);
}

/* Of memory that outlives runs by its address, of the rest a new one each run. */
static int64_t storage_id(node_writer *n, const tenon_value *value, int64_t *offset) {
    const tn_plan *plan = n->seen->plan;
    int32_t index = plan->root_of[value->id];
    int64_t shift;
    *offset = 0;
    if (index < 0)
        return number(n, &n->seen->storages[plan->root_count + value->id]);
    const tn_root *root = tn_plan_root(plan, index, &shift);
    *offset = plan->offset_of[value->id] + shift;
    if (root->base == TN_BASE_ARENA)
        return number(n, &n->seen->storages[root - plan->roots]);
    const void *address =
        root->base == TN_BASE_FIXED
            ? root->data
            : n->seen->instance->addresses[tn_base_number(plan, root->base, root->index)];
    return tn_execution_id(n->trace, &n->trace->memory, address);
}

static void add_none(node_writer *n, operands *to) {
    tn_json_add_text(n->w, to->values, NULL, "<None>");
    tn_json_add_array(n->w, to->shapes, NULL);
    tn_json_add_array(n->w, to->strides, NULL);
}

/* Adds value, shape and strides; the text of the type goes to `type`. */
static void add_tensor(node_writer *n, operands *to, const tenon_value *value, tn_text *type) {
    const tn_plan *plan = n->seen->plan;
    tenon_view view = plan->views[value->id];
    if (view.dtype == TENON_DTYPE_NONE && within_partition(plan, value))
        view = tn_view_make(NULL, value->dtype, value->rank, value->shape);
    if (view.dtype == TENON_DTYPE_NONE) {
        add_none(n, to);
        tn_text_add(type, "None");
        return;
    }
    int64_t offset, id = tensor_id(n, value), storage = storage_id(n, value, &offset);
    int64_t size = (int64_t)tenon_dtype_size(view.dtype);
    const int64_t numbers[] = {id, storage, offset / size, tenon_view_numel(&view), size};
    cJSON *item = tn_json_add_array(n->w, to->values, NULL);
    for (int i = 0; i < TN_COUNT(numbers); i++)
        tn_json_add_int(n->w, item, NULL, numbers[i]);
    tn_json_add_text(n->w, item, NULL, "cpu");
    cJSON *shape = tn_json_add_array(n->w, to->shapes, NULL);
    cJSON *strides = tn_json_add_array(n->w, to->strides, NULL);
    for (int d = 0; d < view.rank; d++) {
        tn_json_add_int(n->w, shape, NULL, view.shape[d]);
        tn_json_add_int(n->w, strides, NULL, view.strides[d]);
    }
    tn_text_add(type, "Tensor(%s)", dtypes[view.dtype].type);
}

/* ---- Arguments ---- */

/* Numbers that are not finite are texts, which Python's float() reads. */
static void add_float(node_writer *n, cJSON *to, double value) {
    if (isfinite(value))
        tn_json_add_number(n->w, to, NULL, value);
    else
        tn_json_add_text(n->w, to, NULL, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

/* Anything but a list. */
static void add_item(node_writer *n, operands *to, const tenon_arg *arg, tn_text *type) {
    switch (arg->kind) {
    case TENON_ARG_VALUE:
        add_tensor(n, to, arg->as.value, type);
        return;
    case TENON_ARG_INT:
        tn_json_add_int(n->w, to->values, NULL, arg->as.i);
        tn_text_add(type, "Int");
        break;
    case TENON_ARG_FLOAT:
        add_float(n, to->values, arg->as.f);
        tn_text_add(type, "Double");
        break;
    case TENON_ARG_BOOL:
        tn_json_add(n->w, to->values, NULL, cJSON_CreateBool(arg->as.b));
        tn_text_add(type, "Bool");
        break;
    case TENON_ARG_STRING:
        tn_json_add_text(n->w, to->values, NULL, arg->as.s);
        tn_text_add(type, "String");
        break;
    case TENON_ARG_DTYPE:
        tn_json_add_int(n->w, to->values, NULL, dtypes[arg->as.dtype].number);
        tn_text_add(type, "Int");
        break;
    default:
        add_none(n, to);
        tn_text_add(type, "None");
        return;
    }
    tn_json_add_array(n->w, to->shapes, NULL);
    tn_json_add_array(n->w, to->strides, NULL);
}

static void add_type(node_writer *n, operands *to, tn_text *type) {
    if (type->failed && n->w->status == TENON_OK)
        n->w->status = tn_no_memory();
    tn_json_add_text(n->w, to->types, NULL, type->data ? type->data : "");
    tn_text_free(type);
}

static void add_arg(node_writer *n, operands *to, const tenon_arg *arg) {
    tn_text type = {0};
    if (arg->kind == TENON_ARG_LIST) {
        operands items = {.values = tn_json_add_array(n->w, to->values, NULL),
                          .shapes = tn_json_add_array(n->w, to->shapes, NULL),
                          .strides = tn_json_add_array(n->w, to->strides, NULL)};
        tn_text_add(&type, "GenericList[");
        for (int32_t i = 0; i < arg->count; i++) {
            tn_text_add(&type, "%s", i ? "," : "");
            add_item(n, &items, &arg->as.list[i], &type);
        }
        tn_text_add(&type, "]");
    } else {
        add_item(n, to, arg, &type);
    }
    add_type(n, to, &type);
}

static void add_value(node_writer *n, operands *to, tenon_value *value) {
    tenon_arg arg = tenon_arg_value(value);
    add_arg(n, to, &arg);
}

/* ---- Nodes ---- */

static operands add_operands(tn_writer *w, cJSON *node, const char *key) {
    cJSON *object = tn_json_add_object(w, node, key);
    return (operands){.values = tn_json_add_array(w, object, "values"),
                      .shapes = tn_json_add_array(w, object, "shapes"),
                      .types = tn_json_add_array(w, object, "types"),
                      .strides = tn_json_add_array(w, object, "strides")};
}

static node_writer begin_node(tn_execution_trace *trace, tn_observed *seen, int64_t id,
                              int64_t parent, const char *name) {
    node_writer n = {.trace = trace, .w = &trace->writer, .seen = seen, .id = id};
    n.node = cJSON_CreateObject();
    tn_json_add_int(n.w, n.node, "id", id);
    tn_json_add_text(n.w, n.node, "name", name);
    tn_json_add_int(n.w, n.node, "ctrl_deps", parent);
    n.in = add_operands(n.w, n.node, "inputs");
    n.out = add_operands(n.w, n.node, "outputs");
    return n;
}

/* The value is an item that the caller adds to what this returns. */
static cJSON *add_attribute(node_writer *n, cJSON *attributes, const char *name, const char *type) {
    cJSON *attribute = tn_json_add_object(n->w, attributes, NULL);
    tn_json_add_text(n->w, attribute, "name", name);
    tn_json_add_text(n->w, attribute, "type", type);
    return attribute;
}

static void add_number(node_writer *n, cJSON *attributes, const char *name, const char *type,
                       int64_t value) {
    tn_json_add_int(n->w, add_attribute(n, attributes, name, type), "value", value);
}

static void add_string(node_writer *n, cJSON *attributes, const char *name, const char *value) {
    tn_json_add_text(n->w, add_attribute(n, attributes, name, "string"), "value", value);
}

/* The attributes of PyTorch, in its order. */
static cJSON *add_attributes(node_writer *n, int scope, int64_t thread, const char *schema,
                             const char *backend) {
    cJSON *attributes = tn_json_add_array(n->w, n->node, "attrs");
    add_number(n, attributes, "rf_id", "uint64", n->trace->count++);
    add_number(n, attributes, "fw_parent", "uint64", 0);
    add_number(n, attributes, "seq_id", "int64", -1);
    add_number(n, attributes, "scope", "uint64", scope);
    add_number(n, attributes, "tid", "uint64", thread);
    add_number(n, attributes, "fw_tid", "uint64", 0);
    add_string(n, attributes, "op_schema", schema);
    add_string(n, attributes, "kernel_backend", backend);
    add_string(n, attributes, "kernel_file", "");
    add_string(n, attributes, "tensor_range", "");
    return attributes;
}

static int64_t end_node(node_writer *n) {
    tn_writer_put(n->w, n->id == TN_PROCESS_NODE ? "\n" : ",\n");
    tn_writer_json(n->w, n->node);
    return n->id;
}

static int64_t this_thread(void) {
    return (int64_t)syscall(SYS_gettid);
}

int64_t tn_execution_write_mark(tn_execution_trace *trace, const char *name, int64_t parent,
                                int64_t thread) {
    int64_t id = thread ? ++trace->last_id : parent;
    node_writer n = begin_node(trace, NULL, id, parent, name);
    add_attributes(&n, USER_SCOPE, thread, "", "");
    return end_node(&n);
}

int64_t tn_execution_write_run(tn_execution_trace *trace, tn_observed *seen, int64_t parent) {
    const tenon_graph *graph = seen->plan->graph;
    node_writer n = begin_node(trace, seen, ++trace->last_id, parent, "tenon_context_run");
    for (int32_t i = 0; i < graph->input_count; i++)
        if (graph->inputs[i]->scalar == TN_TENSOR)
            add_value(&n, &n.in, graph->inputs[i]);
    for (int32_t i = 0; i < graph->output_count; i++)
        add_arg(&n, &n.out, graph->outputs[i].arg);
    add_string(&n, add_attributes(&n, USER_SCOPE, this_thread(), "", ""), "graph", graph->name);
    return end_node(&n);
}

int64_t tn_execution_write_partition(tn_execution_trace *trace, tn_observed *seen,
                                     const tn_partition *partition) {
    node_writer n = begin_node(trace, seen, ++trace->last_id, seen->run, partition->ops);
    for (int32_t i = 0; i < partition->input_count; i++)
        add_value(&n, &n.in, partition->inputs[i]);
    for (int32_t i = 0; i < partition->output_count; i++)
        add_value(&n, &n.out, partition->outputs[i]);
    cJSON *attributes = add_attributes(&n, OP_SCOPE, this_thread(), "", "onednn");
    add_string(&n, attributes, "kind", "onednn");
    return end_node(&n);
}

int64_t tn_execution_write_node(tn_execution_trace *trace, tn_observed *seen,
                                const tenon_node *node, tn_execution_kind kind, int64_t parent) {
    static const char *const kinds[] = {[TN_EXECUTION_KERNEL] = "kernel",
                                        [TN_EXECUTION_COPY] = "copy",
                                        [TN_EXECUTION_VIEW] = "view",
                                        [TN_EXECUTION_FUSED] = "fused"};
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(node->op->schema, ".("), node->op->schema);
    node_writer n = begin_node(trace, seen, ++trace->last_id, parent, name);
    for (int32_t i = 0; i < node->op->param_count; i++)
        add_arg(&n, &n.in, &node->args[i]);
    for (int32_t i = 0; i < node->output_count; i++)
        add_value(&n, &n.out, node->outputs[i]);
    cJSON *attributes = add_attributes(&n, OP_SCOPE, this_thread(), node->op->schema,
                                       kind == TN_EXECUTION_FUSED ? "onednn" : "tenon");
    add_string(&n, attributes, "kind", kinds[kind]);
    add_string(&n, attributes, "node",
               node->output_count > 0 ? node->outputs[0]->name : node->name);
    add_string(&n, attributes, "module", node->source ? node->source->module_path : "");
    return end_node(&n);
}
