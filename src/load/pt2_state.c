/* Which constants the program changes: those that mutation specs name, and in programs as
 * torch.export left them, those that in-place operators reach, directly or through views. */
#include "load/pt2.h"
#include <stdlib.h>
#include <string.h>

/* Sets of values that may share memory: union-find by value id, with path halving. */
typedef struct sets {
    int32_t *parent;
    bool *written; /* at the set's representative */
} sets;

static int32_t find(const sets *s, int32_t id) {
    while (s->parent[id] != id)
        id = s->parent[id] = s->parent[s->parent[id]];
    return id;
}

static void unite(sets *s, int32_t a, int32_t b) {
    a = find(s, a);
    b = find(s, b);
    s->parent[a] = b;
    s->written[b] |= s->written[a];
}

/* Calls unite for what argument `param` shares with the outputs, and marks it when it is written.
 */
static void visit_value(sets *s, const tenon_node *node, const tn_param *param,
                        const tenon_value *value) {
    for (int i = 0; param->alias && i < node->output_count; i++) {
        int ret = node->op->list_return ? 0 : i;
        if (node->op->returns[ret].alias)
            unite(s, value->id, node->outputs[i]->id);
    }
    if (param->written)
        s->written[find(s, value->id)] = true;
}

static void visit_node(sets *s, const tenon_node *node) {
    for (int i = 0; i < node->op->param_count; i++) {
        const tn_param *param = &node->op->params[i];
        const tenon_arg *arg = &node->args[i];
        if (!param->alias)
            continue;
        if (arg->kind == TENON_ARG_VALUE)
            visit_value(s, node, param, arg->as.value);
        for (int j = 0; arg->kind == TENON_ARG_LIST && j < arg->count; j++)
            if (arg->as.list[j].kind == TENON_ARG_VALUE)
                visit_value(s, node, param, arg->as.list[j].as.value);
    }
}

/* The bytes that a tensor's elements span. */
static void span(const tenon_tensor *tensor, const char **low, const char **high) {
    const tenon_view *view = tenon_tensor_view(tensor);
    int64_t size = (int64_t)tenon_dtype_size(view->dtype);
    *low = *high = view->data;
    if (tenon_view_numel(view) == 0)
        return;
    *high += size;
    for (int d = 0; d < view->rank; d++)
        *high += (view->shape[d] - 1) * view->strides[d] * size;
}

typedef struct piece {
    const char *low, *high;
    const tenon_value *value;
} piece;

static int by_address(const void *a, const void *b) {
    const piece *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

/* State is copied for each context, so that memory shared with it would go stale. */
static tenon_status refuse_shared_state(tn_pt2 *pt2) {
    int count = pt2->graph->constant_count;
    piece *pieces = calloc((size_t)count + 1, sizeof *pieces);
    if (!pieces)
        return tn_no_memory();
    for (int i = 0; i < count; i++) {
        pieces[i].value = pt2->graph->constants[i];
        span(pieces[i].value->tensor, &pieces[i].low, &pieces[i].high);
    }
    qsort(pieces, (size_t)count, sizeof *pieces, by_address);
    tenon_status status = TENON_OK;
    const piece *reach =
        count ? &pieces[0] : NULL; /* the one that ends last so far, and buffers before others */
    for (int i = 1; i < count && status == TENON_OK; i++) {
        bool state =
            pieces[i].value->kind == TENON_VALUE_BUFFER || reach->value->kind == TENON_VALUE_BUFFER;
        if (pieces[i].low < reach->high && pieces[i].low < pieces[i].high && state)
            status = tn_pt2_fail(pt2, TENON_UNSUPPORTED,
                                 "'%s' and '%s' share memory, and the program changes one of them",
                                 reach->value->name, pieces[i].value->name);
        if (pieces[i].high > reach->high)
            reach = &pieces[i];
    }
    free(pieces);
    return status;
}

tenon_status tn_pt2_find_state(tn_pt2 *pt2) {
    tenon_graph *graph = pt2->graph;
    sets s = {calloc((size_t)graph->value_count + 1, sizeof *s.parent),
              calloc((size_t)graph->value_count + 1, sizeof *s.written)};
    if (s.parent && s.written) {
        for (int32_t i = 0; i < graph->value_count; i++)
            s.parent[i] = i;
        for (const tenon_node *node = graph->first; node; node = node->next)
            visit_node(&s, node);
        for (int i = 0; i < graph->constant_count; i++)
            if (s.written[find(&s, graph->constants[i]->id)])
                graph->constants[i]->kind = TENON_VALUE_BUFFER;
    }
    bool ok = s.parent && s.written;
    free(s.parent);
    free(s.written);
    return ok ? refuse_shared_state(pt2) : tn_no_memory();
}
