/* Nodes of exported programs. */
#include "load/pt2.h"
#include <stdlib.h>
#include <string.h>

/* ---- Scopes ---- */

tenon_status tn_pt2_scope_open(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *graph) {
    *scope = (tn_pt2_scope){.graph = graph};
    const cJSON *metas = tn_json_get(graph, "tensor_values");
    if (!cJSON_IsObject(metas) || !cJSON_IsArray(tn_json_get(graph, "nodes")))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "a graph lacks its nodes or tensor_values");
    for (const cJSON *item = metas->child; item; item = item->next)
        if (item->string)
            TN_TRY(tn_map_put(&scope->metas, item->string, (void *)item));
    return TENON_OK;
}

void tn_pt2_scope_close(tn_pt2_scope *scope) {
    tn_map_free(&scope->args);
    tn_map_free(&scope->metas);
}

/* ---- What a node may be ---- */

/* "torch.ops.aten.add.Tensor" is aten.add.Tensor; "_operator.mul" stays. */
static const char *op_name_of(const char *target) {
    static const char prefix[] = "torch.ops.";
    return strncmp(target, prefix, sizeof prefix - 1) == 0 ? target + sizeof prefix - 1 : target;
}

/* The part between the first two points is one of those names, with or without a last underscore.
 */
static bool base_is_one_of(const char *op, const char *const *names, int count) {
    const char *base = strchr(op, '.');
    if (!base)
        return false;
    size_t length = strcspn(++base, ".");
    for (int i = 0; i < count; i++) {
        size_t n = strlen(names[i]);
        if (strncmp(base, names[i], n) == 0 && (length == n || (length == n + 1 && base[n] == '_')))
            return true;
    }
    return false;
}

/* Dropout in training draws random numbers too. */
static tenon_status refuse_training(const tn_pt2 *pt2, const tn_op *op, const tenon_arg *args) {
    static const char *const dropouts[] = {"dropout", "alpha_dropout", "feature_dropout",
                                           "feature_alpha_dropout", "native_dropout"};
    int p = tn_op_param(op, "p"), train = tn_op_param(op, "train");
    if (base_is_one_of(op->name, dropouts, TN_COUNT(dropouts)) && p >= 0 && train >= 0 &&
        args[train].kind == TENON_ARG_BOOL && args[train].as.b &&
        !(args[p].kind == TENON_ARG_FLOAT && args[p].as.f == 0) &&
        !(args[p].kind == TENON_ARG_INT && args[p].as.i == 0))
        return tn_pt2_fail(
            pt2, TENON_UNSUPPORTED,
            "dropout in training draws random numbers: call eval() before the export");
    int dropout_p = tn_op_param(op, "dropout_p");
    if (dropout_p >= 0 && args[dropout_p].kind == TENON_ARG_FLOAT && args[dropout_p].as.f > 0)
        return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "attention with dropout draws random numbers");
    return TENON_OK;
}

/* ---- Where a node came from ---- */

/* The last path in "key,path,type;key,path,type". Names may hold the separators: in exports that
 * are not strict the key is "L__self__" and the path, which tells where the path starts; strict
 * ones have numbers as keys. */
static const char *module_path(tn_pt2 *pt2, const char *stack) {
    static const char self[] = "L__self__";
    const char *type = stack ? strrchr(stack, ',') : NULL;
    if (!type)
        return "";
    size_t length = (size_t)(type - stack);
    char *text = tn_arena_alloc(&pt2->arena, length + 1);
    if (!text)
        return "";
    memcpy(text, stack, length);
    for (char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
        size_t path = strlen(comma + 1), before = (size_t)(comma - text),
               need = path + sizeof self - 1;
        const char *at = memrchr(text, '@', before); /* "@1": a second call of the module */
        if (at && before > (size_t)(at - text) &&
            strspn(at + 1, "0123456789") == before - (size_t)(at - text) - 1)
            before = (size_t)(at - text);
        if (before >= need && memcmp(text + before - path, comma + 1, path) == 0 &&
            memcmp(text + before - need, self, sizeof self - 1) == 0)
            return comma + 1;
    }
    const char *last = strrchr(text, ';');
    last = last ? last + 1 : text;
    size_t key = strspn(last, "0123456789");
    return key > 0 && last[key] == ',' ? last + key + 1 : "";
}

static tenon_status set_source(tn_pt2 *pt2, tenon_node *node, const cJSON *metadata) {
    const char *stack = tn_json_string(tn_json_get(metadata, "nn_module_stack"));
    const char *trace = tn_json_string(tn_json_get(metadata, "stack_trace"));
    if (!stack && !trace)
        return TENON_OK;
    node->source = tn_graph_source(pt2->graph, module_path(pt2, stack), trace ? trace : "");
    return node->source ? TENON_OK : tn_no_memory();
}

/* ---- Outputs ---- */

static tenon_status record_number(const tn_pt2 *pt2, const tn_pt2_scope *scope, tenon_value *value,
                                  const char *name, tn_scalar scalar) {
    static const struct {
        const char *table;
        tenon_dtype dtype;
    } kinds[] = {[TN_SYMINT] = {"sym_int_values", TENON_INT64},
                 [TN_SYMFLOAT] = {"sym_float_values", TENON_FLOAT64},
                 [TN_SYMBOOL] = {"sym_bool_values", TENON_BOOL}};
    const cJSON *known = tn_json_get(tn_json_get(scope->graph, kinds[scalar].table), name);
    const char *text = tn_json_string(tn_json_get(tn_json_get(known, "as_expr"), "expr_str"));
    if (text)
        TN_TRY(tn_pt2_check_backed(pt2, text, name));
    if (value) {
        value->scalar = scalar;
        value->dtype = kinds[scalar].dtype;
        value->rank = 0;
    }
    return TENON_OK;
}

static tenon_status contradiction(const tn_pt2 *pt2, const tenon_value *value, const char *name,
                                  const tn_pt2_meta *meta) {
    char a[256], b[256];
    return tn_pt2_fail(pt2, TENON_INVALID_FILE,
                       "the file records %s for '%s', the operator gives %s",
                       tn_shape_text(meta->dtype, meta->rank, meta->shape, a, sizeof a), name,
                       tn_shape_text(value->dtype, value->rank, value->shape, b, sizeof b));
}

/* With `value` NULL it only checks that Tenon can hold what the file says. */
tenon_status tn_pt2_record(tn_pt2 *pt2, const tn_pt2_scope *scope, tenon_value *value,
                           const char *name, tn_scalar scalar) {
    tn_pt2_meta meta;
    if (scalar != TN_TENSOR)
        return record_number(pt2, scope, value, name, scalar);
    const cJSON *item = tn_map_get(&scope->metas, name);
    if (!item)
        return TENON_OK; /* outputs that nothing uses are not recorded */
    TN_TRY(tn_pt2_read_meta(pt2, item, name, &meta));
    if (!value)
        return TENON_OK;
    if (value->scalar != TN_TENSOR)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE,
                           "'%s' is recorded as a tensor, the operator gives a number", name);
    if (value->dtype == TENON_DTYPE_NONE)
        value->dtype = meta.dtype;
    if (value->rank < 0)
        value->rank = meta.rank;
    bool same = value->dtype == meta.dtype && value->rank == meta.rank;
    for (int d = 0; same && value->shape && d < meta.rank; d++)
        same = value->shape[d] < 0 || meta.shape[d] < 0 || value->shape[d] == meta.shape[d];
    /* What nothing uses may be recorded as no kernel gives it. */
    if (!same && value->shape && !strstr(name, "_unused_"))
        return contradiction(pt2, value, name, &meta);
    return TENON_OK;
}

/* One after the other, the items of an output list, as_tensors opened up. */
typedef struct outputs {
    const cJSON *item, *tensor; /* the next ones; `tensor` inside as_tensors */
} outputs;

/* The next name and its kind; a NULL name stands for None. False at the end. */
static bool next_output(outputs *at, const char **name, tn_scalar *scalar) {
    while (at->item) {
        const cJSON *tensors = tn_json_get(at->item, "as_tensors");
        if (!tensors) {
            *name = tn_pt2_output_name(at->item, scalar);
            at->item = at->item->next;
            return true;
        }
        at->tensor = at->tensor ? at->tensor->next : tn_json_first(tensors);
        if (at->tensor) {
            *name = tn_json_string(tn_json_get(at->tensor, "name"));
            *scalar = TN_TENSOR;
            return true;
        }
        at->item = at->item->next;
    }
    return false;
}

static int count_outputs(const cJSON *list) {
    outputs at = {tn_json_first(list), NULL};
    const char *name;
    tn_scalar scalar;
    int count = 0;
    while (next_output(&at, &name, &scalar))
        count++;
    return count;
}

/* Before the operator is looked up: that Tenon can hold what comes out. */
static tenon_status check_outputs(tn_pt2 *pt2, const tn_pt2_scope *scope, const cJSON *list) {
    outputs at = {tn_json_first(list), NULL};
    const char *name;
    tn_scalar scalar;
    while (next_output(&at, &name, &scalar))
        if (name)
            TN_TRY(tn_pt2_record(pt2, scope, NULL, name, scalar));
    return TENON_OK;
}

static tenon_status take_outputs(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *list,
                                 tenon_node *node) {
    outputs at = {tn_json_first(list), NULL};
    const char *name;
    tn_scalar scalar;
    for (int i = 0; i < node->output_count && next_output(&at, &name, &scalar); i++) {
        if (!name)
            continue;
        tenon_value *value = node->outputs[i];
        TN_TRY(tn_pt2_record(pt2, scope, value, name, scalar));
        if (strcmp(value->name, name) != 0)
            TN_TRY(tn_value_rename(value, name));
        TN_TRY(tn_pt2_bind(pt2, scope, name, tenon_arg_value(value)));
    }
    return TENON_OK;
}

/* ---- Nodes ---- */

static tenon_status read_args(tn_pt2 *pt2, tn_pt2_scope *scope, const tn_op *op,
                              const cJSON *inputs, tenon_arg *args) {
    int position = 0;
    for (const cJSON *input = tn_json_first(inputs); input; input = input->next, position++) {
        const char *name = tn_json_string(tn_json_get(input, "name"));
        int index = name && op->kind != TN_OP_SYM ? tn_op_param(op, name) : position;
        if (index < 0)
            return tn_pt2_fail(pt2, TENON_INVALID_FILE, "the operator has no argument '%.60s'",
                               name);
        if (index >= op->param_count)
            return tn_pt2_fail(pt2, TENON_INVALID_FILE,
                               "%d arguments or more, the operator takes %d", index + 1,
                               op->param_count);
        if (args[index].kind != TENON_ARG_DEFAULT)
            return tn_pt2_fail(pt2, TENON_INVALID_FILE, "argument '%s' is given twice",
                               op->params[index].name);
        TN_TRY(tn_pt2_arg(pt2, scope, tn_json_get(input, "arg"), &args[index]));
    }
    return TENON_OK;
}

static tenon_status add_node(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item, const tn_op *op) {
    const cJSON *list = tn_json_get(item, "outputs");
    tenon_arg *args = tn_arena_array(&pt2->arena, (size_t)op->param_count + 8, sizeof *args);
    tenon_node *node;
    if (!args)
        return tn_no_memory();
    TN_TRY(read_args(pt2, scope, op, tn_json_get(item, "inputs"), args));
    bool counted = tn_pt2_has_item(op, args);
    if (counted && op->return_count == 0 && !op->list_return)
        return TENON_OK; /* an assert on what only a run would know */
    if (counted && op->kind == TN_OP_SYM)
        return tn_pt2_item_number(pt2, scope, op, item, args);
    TN_TRY(tn_pt2_item_args(pt2, &op, args));
    TN_TRY(refuse_training(pt2, op, args));
    if (pt2->in_branch && op->kind == TN_OP_INPLACE)
        return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "a branch of cond writes to a tensor in place");
    int count = count_outputs(list);
    TN_PT2_TRY(pt2, tn_graph_add(pt2->graph, NULL, op, pt2->node, args, op->param_count,
                                 op->list_return ? count : -1, &node));
    if (node->output_count != count)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "it has %d outputs, the operator gives %d",
                           count, node->output_count);
    TN_TRY(set_source(pt2, node, tn_json_get(item, "metadata")));
    return take_outputs(pt2, scope, list, node);
}

static tenon_status read_node(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item) {
    const char *target = tn_json_string(tn_json_get(item, "target"));
    if (!target)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "a node has no target");
    pt2->op = op_name_of(target);
    pt2->node = tn_json_string(tn_json_get(item, "name"));
    if (!pt2->node) { /* files of schema 8.0 to 8.x name outputs only */
        tn_scalar scalar;
        pt2->node = tn_pt2_output_name(tn_json_first(tn_json_get(item, "outputs")), &scalar);
    }
    if (!pt2->node)
        pt2->node = "";
    if (tn_pt2_is_item(pt2->op))
        return tn_pt2_item(pt2, scope, item);
    const tn_op *op = tn_op_find(pt2->op);
    const char *refused = op ? NULL : tn_op_refused(pt2->op);
    if (refused)
        return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "%s", refused);
    if (!op || op->kind != TN_OP_SYM)
        TN_TRY(check_outputs(pt2, scope, tn_json_get(item, "outputs")));
    if (tn_pt2_is_higher_order(target))
        return tn_pt2_higher_order(pt2, scope, item, target);
    if (!op)
        return tn_pt2_fail(pt2, TENON_UNKNOWN_OP,
                           "unknown operator (saving program.run_decompositions() may replace it)");
    return add_node(pt2, scope, item, op);
}

tenon_status tn_pt2_nodes(tn_pt2 *pt2, tn_pt2_scope *scope) {
    const char *node = pt2->node, *op = pt2->op;
    const cJSON *nodes = tn_json_get(scope->graph, "nodes");
    for (const cJSON *item = tn_json_first(nodes); item; item = item->next)
        TN_TRY(read_node(pt2, scope, item));
    pt2->node = node;
    pt2->op = op;
    return TENON_OK;
}
