/* The symbolic twin of a graph. */
#include "core/graph.h"
#include "random_graph.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct twin {
    const tenon_graph *from;
    tenon_graph *to;
    tenon_value **map; /* by id */
    tenon_value *batch;
    tenon_arg items[96];
    int used;
} twin;

/* number = k * RG_BATCH as a symbolic number */
static bool times_batch(twin *t, int64_t number, tenon_arg *out) {
    tenon_node *node = NULL;
    if (number == RG_BATCH) {
        *out = tenon_arg_value(t->batch);
        return true;
    }
    tenon_arg args[] = {tenon_arg_value(t->batch), tenon_arg_int(number / RG_BATCH)};
    if (tenon_graph_add_node(t->to, "_operator.mul", NULL, args, 2, &node) != TENON_OK)
        return false;
    *out = tenon_arg_value(tenon_node_output(node, 0));
    return true;
}

static bool twin_arg(twin *t, const tenon_arg *from, bool symbolic, tenon_arg *out) {
    *out = *from;
    if (from->kind == TENON_ARG_VALUE) {
        *out = tenon_arg_value(t->map[from->as.value->id]);
    } else if (from->kind == TENON_ARG_INT && symbolic && from->as.i > 0 &&
               from->as.i < INT32_MAX && from->as.i % RG_BATCH == 0) {
        return times_batch(t, from->as.i, out);
    } else if (from->kind == TENON_ARG_LIST) {
        tenon_arg *items = t->items + t->used;
        t->used += from->count;
        for (int i = 0; i < from->count; i++)
            if (!twin_arg(t, &from->as.list[i], symbolic, &items[i]))
                return false;
        *out = tenon_arg_list(items, from->count);
    }
    return true;
}

static bool twin_node(twin *t, const tenon_node *node) {
    tenon_arg args[24];
    tenon_node *made = NULL;
    bool done = false;
    for (int symbolic = 1; symbolic >= 0 && !done; symbolic--) {
        t->used = 0;
        for (int i = 0; i < node->op->param_count; i++)
            if (!twin_arg(t, &node->args[i], symbolic, &args[i]))
                return false;
        done = tn_graph_add(t->to, NULL, node->op, node->name, args, node->op->param_count,
                            node->op->list_return ? node->output_count : -1, &made) == TENON_OK;
    }
    for (int i = 0; done && i < node->output_count; i++) {
        /* dtypes that need shapes are not known yet; the text form gives them so too */
        if (made->outputs[i]->dtype == TENON_DTYPE_NONE)
            made->outputs[i]->dtype = node->outputs[i]->dtype;
        t->map[node->outputs[i]->id] = made->outputs[i];
    }
    return done;
}

static bool twin_inputs(twin *t) {
    for (int i = 0; i < t->from->input_count; i++) {
        const tenon_value *x = t->from->inputs[i];
        char texts[TENON_MAX_RANK][32];
        const char *dims[TENON_MAX_RANK];
        int symbolic = -1;
        for (int d = 0; d < x->rank; d++) {
            int64_t size = x->shape[d], times = size / RG_BATCH;
            dims[d] = texts[d];
            if (size == RG_BATCH)
                symbolic = d;
            if (size && size % RG_BATCH == 0)
                snprintf(texts[d], sizeof texts[d], times == 1 ? "s0" : "%lld*s0",
                         (long long)times);
            else
                snprintf(texts[d], sizeof texts[d], "%lld", (long long)size);
        }
        tenon_value **to = &t->map[x->id];
        if (tenon_graph_add_input(t->to, x->name, x->dtype, x->rank, dims, to) != TENON_OK)
            return false;
        tenon_arg args[] = {tenon_arg_value(*to), tenon_arg_int(symbolic)};
        tenon_node *node = NULL;
        if (symbolic >= 0 && !t->batch) {
            if (tenon_graph_add_node(t->to, "aten.sym_size.int", NULL, args, 2, &node) != TENON_OK)
                return false;
            t->batch = tenon_node_output(node, 0);
        }
    }
    return t->batch != NULL;
}

static bool make_twin(twin *t) {
    if (!twin_inputs(t))
        return false;
    for (int i = 0; i < t->from->constant_count; i++) {
        const tenon_value *c = t->from->constants[i];
        tenon_value **to = &t->map[c->id];
        tenon_status status = c->kind == TENON_VALUE_BUFFER
                                  ? tenon_graph_add_buffer(t->to, c->name, c->tensor, to)
                                  : tenon_graph_add_constant(t->to, c->name, c->tensor, to);
        if (status != TENON_OK)
            return false;
    }
    for (const tenon_node *node = t->from->first; node; node = node->next)
        if (!twin_node(t, node))
            return false;
    for (int i = 0; i < t->from->output_count; i++) {
        tenon_arg arg;
        if (!twin_arg(t, t->from->outputs[i].arg, false, &arg) ||
            tenon_graph_add_output(t->to, t->from->outputs[i].name, arg) != TENON_OK)
            return false;
    }
    for (int i = 0; i < t->from->write_count; i++) {
        tenon_arg arg;
        if (!twin_arg(t, t->from->writes[i].arg, false, &arg) ||
            tenon_graph_add_write(t->to, t->map[t->from->writes[i].target->id], arg.as.value) !=
                TENON_OK)
            return false;
    }
    return true;
}

tenon_graph *rg_symbolic(const tenon_graph *graph) {
    twin t = {.from = graph, .map = calloc((size_t)graph->value_count + 1, sizeof *t.map)};
    if (!t.map || tenon_graph_create(graph->name, &t.to) != TENON_OK)
        abort();
    if (!make_twin(&t))
        tenon_graph_destroy(&t.to);
    free(t.map);
    return t.to;
}
