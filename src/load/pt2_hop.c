/* Higher-order operators: wrappers are inlined; both branches of cond are computed and one is
 * selected. */
#include "load/pt2.h"
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "torch.ops.higher_order.";

bool tn_pt2_is_higher_order(const char *target) {
    return strncmp(target, prefix, sizeof prefix - 1) == 0;
}

/* A list of arguments with lists opened up. */
typedef struct operands {
    tenon_arg *items;
    int count, capacity;
} operands;

static tenon_status push(tn_pt2 *pt2, operands *list, tenon_arg arg) {
    if (list->count == list->capacity) {
        int capacity = list->capacity ? list->capacity * 2 : 16;
        tenon_arg *items = tn_arena_array(&pt2->arena, (size_t)capacity, sizeof *items);
        if (!items)
            return tn_no_memory();
        if (list->count)
            memcpy(items, list->items, (size_t)list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = arg;
    return TENON_OK;
}

static tenon_status push_arg(tn_pt2 *pt2, tn_pt2_scope *scope, operands *list, const cJSON *arg) {
    tenon_arg value;
    TN_TRY(tn_pt2_arg(pt2, scope, arg, &value));
    if (value.kind != TENON_ARG_LIST)
        return push(pt2, list, value);
    for (int i = 0; i < value.count; i++)
        TN_TRY(push(pt2, list, value.as.list[i]));
    return TENON_OK;
}

/* ---- Inlining ---- */

static tenon_status bind_inputs(tn_pt2 *pt2, tn_pt2_scope *scope, const operands *given) {
    int i = 0;
    const cJSON *inputs = tn_json_get(scope->graph, "inputs");
    for (const cJSON *input = tn_json_first(inputs); input; input = input->next, i++) {
        tn_scalar scalar;
        const char *name = tn_pt2_output_name(input, &scalar);
        if (i >= given->count)
            return tn_pt2_fail(pt2, TENON_INVALID_FILE,
                               "its graph takes more than the %d operands given", given->count);
        if (name)
            TN_TRY(tn_pt2_bind(pt2, scope, name, given->items[i]));
    }
    if (i != given->count)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "its graph takes %d operands, %d are given", i,
                           given->count);
    return TENON_OK;
}

static tenon_status inline_scope(tn_pt2 *pt2, tn_pt2_scope *scope, const operands *given,
                                 operands *results) {
    TN_TRY(bind_inputs(pt2, scope, given));
    TN_TRY(tn_pt2_nodes(pt2, scope));
    const cJSON *outputs = tn_json_get(scope->graph, "outputs");
    for (const cJSON *output = tn_json_first(outputs); output; output = output->next)
        TN_TRY(push_arg(pt2, scope, results, output));
    return TENON_OK;
}

static tenon_status inline_graph(tn_pt2 *pt2, const cJSON *graph_arg, const operands *given,
                                 operands *results) {
    tn_pt2_scope scope = {0};
    if (pt2->depth == TN_PT2_DEPTH)
        return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "subgraphs nest deeper than %d", TN_PT2_DEPTH);
    pt2->depth++;
    tenon_status status = tn_pt2_scope_open(pt2, &scope, tn_json_get(graph_arg, "graph"));
    if (status == TENON_OK)
        status = inline_scope(pt2, &scope, given, results);
    tn_pt2_scope_close(&scope);
    pt2->depth--;
    return status;
}

/* Gives the node's output names what the graph returned. */
static tenon_status bind_outputs(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *node,
                                 const operands *results) {
    int i = 0;
    const cJSON *outputs = tn_json_get(node, "outputs");
    for (const cJSON *output = tn_json_first(outputs); output; output = output->next) {
        const cJSON *tensors = tn_json_get(output, "as_tensors"), *tensor = tn_json_first(tensors);
        do {
            tn_scalar scalar;
            const char *name = tensors ? tn_json_string(tn_json_get(tensor, "name"))
                                       : tn_pt2_output_name(output, &scalar);
            if (tensors && !tensor)
                break;
            if (i >= results->count)
                return tn_pt2_fail(pt2, TENON_INVALID_FILE,
                                   "it has more outputs than its graph's %d", results->count);
            if (name)
                TN_TRY(tn_pt2_bind(pt2, scope, name, results->items[i]));
            i++;
            tensor = tensor ? tensor->next : NULL;
        } while (tensor);
    }
    return TENON_OK;
}

/* ---- Wrappers ---- */

/* Arguments are settings, a graph, then its operands. */
static tenon_status inline_wrapper(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *node) {
    operands given = {0}, results = {0};
    const cJSON *graph = NULL;
    const cJSON *inputs = tn_json_get(node, "inputs");
    for (const cJSON *input = tn_json_first(inputs); input; input = input->next) {
        const cJSON *arg = tn_json_get(input, "arg"), *subgraph = tn_json_get(arg, "as_graph");
        if (subgraph && graph)
            return tn_pt2_fail(pt2, TENON_INVALID_FILE, "it has two graphs");
        if (subgraph)
            graph = subgraph;
        else if (graph && !tn_json_get(arg, "as_string")) /* an identifier of the graph */
            TN_TRY(push_arg(pt2, scope, &given, arg));
    }
    if (!graph)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "its graph is missing");
    TN_TRY(inline_graph(pt2, graph, &given, &results));
    return bind_outputs(pt2, scope, node, &results);
}

/* The settings of wrap_with_autocast: device, dtype, enabled, cache. Inside, operators would change
 * their dtypes. */
static tenon_status inline_autocast(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *node) {
    const cJSON *input = tn_json_first(tn_json_get(node, "inputs"));
    for (int i = 0; i < 2 && input; i++)
        input = input->next;
    if (!cJSON_IsFalse(tn_json_get(tn_json_get(input, "arg"), "as_bool")))
        return tn_pt2_fail(
            pt2, TENON_UNSUPPORTED,
            "a region under autocast: call run_decompositions() before torch.export.save");
    return inline_wrapper(pt2, scope, node);
}

/* ---- cond ---- */

static bool same_literal(const tenon_arg *a, const tenon_arg *b) {
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case TENON_ARG_VALUE:
        return a->as.value == b->as.value;
    case TENON_ARG_NONE:
        return true;
    case TENON_ARG_INT:
        return a->as.i == b->as.i;
    case TENON_ARG_BOOL:
        return a->as.b == b->as.b;
    case TENON_ARG_FLOAT:
        return a->as.f == b->as.f;
    default:
        return false;
    }
}

static bool is_tensor(const tenon_arg *arg) {
    return arg->kind == TENON_ARG_VALUE && arg->as.value->scalar == TN_TENSOR;
}

static tenon_status add_value(tn_pt2 *pt2, const char *op_name, const tenon_arg *args, int count,
                              tenon_value **out) {
    const tn_op *op = tn_op_find(op_name);
    tenon_node *node;
    if (!op)
        return tn_pt2_fail(pt2, TENON_UNKNOWN_OP, "it needs %s, an unknown operator", op_name);
    TN_PT2_TRY(pt2, tn_graph_add(pt2->graph, NULL, op, pt2->node, args, count, -1, &node));
    *out = node->outputs[0];
    return TENON_OK;
}

/* The predicate as a tensor without dimensions, so that it broadcasts to any shape. */
static tenon_status flat_predicate(tn_pt2 *pt2, tenon_arg *predicate) {
    tenon_arg args[2] = {*predicate, tenon_arg_list(NULL, 0)};
    tenon_value *flat = NULL;
    if (!is_tensor(predicate) || predicate->as.value->rank == 0)
        return TENON_OK;
    TN_TRY(add_value(pt2, "aten.view", args, 2, &flat));
    flat->dtype = predicate->as.value->dtype;
    flat->rank = 0;
    *predicate = tenon_arg_value(flat);
    return TENON_OK;
}

static tenon_status select_one(tn_pt2 *pt2, const tenon_arg *predicate, const tenon_arg *yes,
                               const tenon_arg *no, tenon_arg *out) {
    tenon_arg args[3] = {*predicate, *yes, *no};
    tenon_value *value = NULL;
    if (same_literal(yes, no)) {
        *out = *yes;
        return TENON_OK;
    }
    if (!is_tensor(yes) || !is_tensor(no))
        return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "its branches return numbers that differ");
    TN_TRY(add_value(pt2, "aten.where.self", args, 3, &value));
    if (value->dtype == TENON_DTYPE_NONE)
        value->dtype = yes->as.value->dtype;
    if (value->rank < 0)
        value->rank = yes->as.value->rank;
    *out = tenon_arg_value(value);
    return TENON_OK;
}

static tenon_status select_all(tn_pt2 *pt2, tenon_arg predicate, const operands *yes,
                               const operands *no, operands *results) {
    if (yes->count != no->count)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "its branches return %d and %d values",
                           yes->count, no->count);
    TN_TRY(flat_predicate(pt2, &predicate));
    for (int i = 0; i < yes->count; i++) {
        tenon_arg one = {0};
        TN_TRY(select_one(pt2, &predicate, &yes->items[i], &no->items[i], &one));
        TN_TRY(push(pt2, results, one));
    }
    return TENON_OK;
}

static tenon_status inline_branches(tn_pt2 *pt2, tenon_arg predicate, const cJSON *yes,
                                    const cJSON *no, const operands *given, operands *results) {
    operands a = {0}, b = {0};
    if (predicate.kind == TENON_ARG_BOOL)
        return inline_graph(pt2, predicate.as.b ? yes : no, given, results);
    bool outer = pt2->in_branch;
    pt2->in_branch = true;
    TN_TRY(inline_graph(pt2, yes, given, &a));
    TN_TRY(inline_graph(pt2, no, given, &b));
    pt2->in_branch = outer;
    return select_all(pt2, predicate, &a, &b, results);
}

static tenon_status inline_cond(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *node) {
    const cJSON *args[4] = {0};
    const cJSON *inputs = tn_json_get(node, "inputs");
    int count = 0;
    for (const cJSON *input = tn_json_first(inputs); input; input = input->next, count++)
        if (count < TN_COUNT(args))
            args[count] = tn_json_get(input, "arg");
    const cJSON *yes = tn_json_get(args[1], "as_graph"), *no = tn_json_get(args[2], "as_graph");
    if (!yes || !no || count < 3 || count > 4)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE,
                           "cond needs a predicate, two graphs and operands");
    tenon_arg predicate;
    operands given = {0}, results = {0};
    TN_TRY(tn_pt2_arg(pt2, scope, args[0], &predicate));
    if (args[3])
        TN_TRY(push_arg(pt2, scope, &given, args[3]));
    TN_TRY(inline_branches(pt2, predicate, yes, no, &given, &results));
    return bind_outputs(pt2, scope, node, &results);
}

tenon_status tn_pt2_higher_order(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *node,
                                 const char *target) {
    static const char *const wrappers[] = {
        "wrap_with_set_grad_enabled", "wrap",        "wrap_activation_checkpoint",
        "tag_activation_checkpoint",  "strict_mode", "invoke_subgraph"};
    const char *name = target + sizeof prefix - 1;
    for (int i = 0; i < TN_COUNT(wrappers); i++)
        if (strcmp(name, wrappers[i]) == 0)
            return inline_wrapper(pt2, scope, node);
    if (strcmp(name, "wrap_with_autocast") == 0)
        return inline_autocast(pt2, scope, node);
    if (strcmp(name, "cond") == 0)
        return inline_cond(pt2, scope, node);
    return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "the higher-order operator '%.60s' is not supported",
                       name);
}
