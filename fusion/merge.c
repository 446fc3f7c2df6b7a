/* Merges equal nodes, and constants over the same memory (or small ones with the same elements).
 *
 *     %a = aten.relu(%x)            %a = aten.relu(%x)
 *     %b = aten.relu(%x)     ->     every use of %b is one of %a
 *
 * A hash table over op and arguments; since arguments are merged first, chains of equal nodes go in
 * one pass.
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"
#include <stdlib.h>
#include <string.h>

enum { SMALL_BYTES = 64 };

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    return hash * 0xff51afd7ed558ccdu;
}

static uint64_t mix_bytes(uint64_t hash, const void *data, size_t size) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t hash_item(uint64_t hash, const tenon_arg *arg) {
    hash = mix(hash, (uint64_t)arg->kind);
    switch (arg->kind) {
    case TENON_ARG_VALUE:
        return mix(hash, (uint64_t)arg->as.value->id);
    case TENON_ARG_INT:
        return mix(hash, (uint64_t)arg->as.i);
    case TENON_ARG_FLOAT:
        return mix_bytes(hash, &arg->as.f, sizeof arg->as.f);
    case TENON_ARG_BOOL:
        return mix(hash, arg->as.b);
    case TENON_ARG_STRING:
        return mix_bytes(hash, arg->as.s, strlen(arg->as.s));
    case TENON_ARG_DTYPE:
        return mix(hash, (uint64_t)arg->as.dtype);
    default:
        return hash;
    }
}

static uint64_t hash_node(const tenon_node *node) {
    uint64_t hash = mix(1, (uint64_t)node->op->id);
    for (int i = 0; i < node->op->param_count; i++) {
        const tenon_arg *arg = &node->args[i];
        hash = hash_item(hash, arg);
        for (int k = 0; arg->kind == TENON_ARG_LIST && k < arg->count; k++)
            hash = hash_item(hash, &arg->as.list[k]);
    }
    return hash;
}

static bool same_node(const tenon_node *a, const tenon_node *b) {
    if (a->op != b->op || a->output_count != b->output_count)
        return false;
    for (int i = 0; i < a->op->param_count; i++)
        if (!tn_arg_equal(&a->args[i], &b->args[i]))
            return false;
    return true;
}

static uint64_t hash_constant(const tenon_value *value) {
    const tenon_view *view = &value->tensor->view;
    uint64_t hash = mix(mix(2, (uint64_t)view->dtype), (uint64_t)view->rank);
    size_t size = (size_t)tenon_view_numel(view) * tenon_dtype_size(view->dtype);
    for (int i = 0; i < view->rank; i++)
        hash = mix(hash, (uint64_t)view->shape[i]);
    return size <= SMALL_BYTES && tenon_view_is_contiguous(view)
               ? mix_bytes(hash, view->data, size)
               : mix(hash, (uint64_t)(uintptr_t)view->data);
}

static bool same_constant(const tenon_value *a, const tenon_value *b) {
    const tenon_view *x = &a->tensor->view, *y = &b->tensor->view;
    if (x->dtype != y->dtype || !tn_same_shape(x, y))
        return false;
    size_t size = (size_t)tenon_view_numel(x) * tenon_dtype_size(x->dtype);
    if (size <= SMALL_BYTES && tenon_view_is_contiguous(x) && tenon_view_is_contiguous(y))
        return memcmp(x->data, y->data, size) == 0;
    return x->data == y->data &&
           memcmp(x->strides, y->strides, (size_t)x->rank * sizeof *x->strides) == 0;
}

/* A table of nodes or constants with open addressing. */
typedef struct table {
    void **slots;
    size_t mask;
} table;

static tenon_status make_table(table *t, int64_t count) {
    size_t capacity = 16;
    while (capacity < (size_t)count * 2)
        capacity *= 2;
    t->slots = calloc(capacity, sizeof *t->slots);
    t->mask = capacity - 1;
    return t->slots ? TENON_OK : tn_no_memory();
}

static tenon_node *find_node(table *t, tenon_node *node) {
    size_t at = hash_node(node) & t->mask;
    for (; t->slots[at]; at = (at + 1) & t->mask)
        if (same_node(t->slots[at], node))
            return t->slots[at];
    t->slots[at] = node;
    return NULL;
}

static tenon_value *find_constant(table *t, tenon_value *value) {
    size_t at = hash_constant(value) & t->mask;
    for (; t->slots[at]; at = (at + 1) & t->mask)
        if (same_constant(t->slots[at], value))
            return t->slots[at];
    t->slots[at] = value;
    return NULL;
}

static tenon_status merge_nodes(tenon_graph *graph, table *t, bool *changed) {
    for (tenon_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (node->output_count == 0 || node->op->kind == TN_OP_INPLACE)
            continue;
        tenon_node *twin = find_node(t, node);
        if (!twin)
            continue;
        for (int i = 0; i < node->output_count; i++)
            TN_TRY(tenon_value_replace(node->outputs[i], twin->outputs[i]));
        TN_TRY(tenon_node_erase(node));
        *changed = true;
    }
    return TENON_OK;
}

static tenon_status merge_constants(tenon_graph *graph, table *t, bool *changed) {
    for (int i = 0; i < graph->constant_count; i++) {
        tenon_value *value = graph->constants[i];
        if (!tn_is_constant(value) || value->use_count == 0)
            continue;
        tenon_value *twin = find_constant(t, value);
        if (!twin)
            continue;
        TN_TRY(tenon_value_replace(value, twin));
        *changed = true;
    }
    return TENON_OK;
}

tenon_status tn_pass_merge(tenon_graph *graph, bool *changed) {
    table constants = {0}, nodes = {0};
    tenon_status status;
    TN_GOTO(make_table(&constants, graph->constant_count));
    TN_GOTO(make_table(&nodes, graph->node_count));
    TN_GOTO(merge_constants(graph, &constants, changed));
    TN_GOTO(merge_nodes(graph, &nodes, changed));
error:
    free(constants.slots);
    free(nodes.slots);
    return status;
}
