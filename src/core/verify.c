/* The invariants of a graph, checked from the op table. */
#include "core/fail.h"
#include "core/infer.h"
#include <stdlib.h>
#include <string.h>

static tenon_status wrong(const tenon_node *node, const char *rule, const char *what) {
    return tn_fail(TENON_INVALID_GRAPH, "node '%s' (%s): %s '%s'", node->name, node->op->name, rule,
                   what);
}

/* A value is usable once what makes it has been passed; `seen[id]` tells. */
static tenon_status verify_uses(const tenon_node *node, const bool *seen) {
    int n = 0;
    for (int i = 0; i < node->op->param_count; i++) {
        tenon_arg *arg = &node->args[i];
        const tn_param *param = &node->op->params[i];
        int count = arg->kind == TENON_ARG_LIST ? arg->count : 1;
        if (arg->kind == TENON_ARG_DEFAULT)
            return wrong(node, "has no argument", param->name);
        if (arg->kind == TENON_ARG_NONE && !param->optional)
            return wrong(node, "None is not allowed for argument", param->name);
        for (int j = 0; j < count; j++) {
            tenon_arg *slot = arg->kind == TENON_ARG_LIST ? &arg->as.list[j] : arg;
            if (slot->kind != TENON_ARG_VALUE)
                continue;
            const tenon_value *value = slot->as.value;
            if (n == node->use_count || node->uses[n].slot != slot || node->uses[n].value != value)
                return wrong(node, "its uses do not match argument", param->name);
            if (value->graph != node->graph)
                return wrong(node, "uses a value of another graph,", value->name);
            if (!seen[value->id])
                return wrong(node, "uses, before it is made, the value", value->name);
            n++;
        }
    }
    return n == node->use_count ? TENON_OK
                                : wrong(node, "has uses beyond its arguments", node->name);
}

static bool same_meta(const tenon_value *value, tenon_dtype dtype, int rank, const int64_t *shape) {
    return value->dtype == dtype && value->rank == rank &&
           (rank <= 0 || memcmp(value->shape, shape, (size_t)rank * sizeof *shape) == 0);
}

/* Infers again and compares. */
static tenon_status verify_shapes(tenon_node *node) {
    for (int i = 0; i < node->use_count; i++)
        if (!tn_value_static(node->uses[i].value))
            return TENON_OK;
    if (node->op->kind == TN_OP_SYM || !node->op->infer)
        return TENON_OK;
    tn_meta out[64] = {0};
    tn_infer infer = {node,          node->op,           out, node->op->return_count,
                      TN_COUNT(out), &node->graph->arena};
    TN_TRY(node->op->infer(&infer));
    if (infer.out_count != node->output_count)
        return tn_infer_fail(&infer, "it has %d outputs, its shape rule gives %d",
                             node->output_count, infer.out_count);
    for (int i = 0; i < node->output_count; i++) {
        const tenon_value *value = node->outputs[i];
        const tn_meta *meta = &infer.out[i];
        if (value->shape && !same_meta(value, meta->dtype, meta->rank, meta->shape)) {
            char has[256], gives[256];
            return tn_infer_fail(
                &infer, "'%s' is %s, its shape rule gives %s", value->name,
                tn_shape_text(value->dtype, value->rank, value->shape, has, sizeof has),
                tn_shape_text(meta->dtype, meta->rank, meta->shape, gives, sizeof gives));
        }
    }
    return TENON_OK;
}

static tenon_status verify_nodes(const tenon_graph *graph, bool *seen) {
    int64_t count = 0;
    const tenon_node *previous = NULL;
    for (tenon_node *node = graph->first; node; previous = node, node = node->next, count++) {
        if (node->graph != graph || node->erased || node->prev != previous)
            return wrong(node, "is not linked properly in graph", graph->name);
        TN_TRY(verify_uses(node, seen));
        for (int i = 0; i < node->output_count; i++) {
            const tenon_value *value = node->outputs[i];
            if (value->node != node || value->index != i || value->kind != TENON_VALUE_NODE)
                return wrong(node, "does not own its output", value->name);
            seen[value->id] = true;
        }
        TN_TRY(verify_shapes(node));
    }
    if (graph->last != previous || count != graph->node_count)
        return tn_fail(TENON_INVALID_GRAPH, "graph '%s': its list of nodes is broken", graph->name);
    return TENON_OK;
}

static tenon_status verify_ends(const tenon_graph *graph, const bool *seen) {
    for (int i = 0; i < graph->output_count; i++) {
        const tenon_arg *arg = graph->outputs[i].arg;
        if (arg->kind == TENON_ARG_VALUE &&
            (arg->as.value->graph != graph || !seen[arg->as.value->id]))
            return tn_fail(TENON_INVALID_GRAPH, "output '%s': no node makes the value '%s'",
                           graph->outputs[i].name, arg->as.value->name);
    }
    for (int i = 0; i < graph->write_count; i++) {
        const tenon_value *target = graph->writes[i].target;
        const tenon_value *value = graph->writes[i].arg->as.value;
        if (value->graph != graph || !seen[value->id])
            return tn_fail(TENON_INVALID_GRAPH, "write to '%s': no node makes the value '%s'",
                           target->name, value->name);
        if (tn_value_static(target) && tn_value_static(value) &&
            !same_meta(target, value->dtype, value->rank, value->shape))
            return tn_fail(TENON_INVALID_GRAPH, "write to '%s': '%s' has another dtype or shape",
                           target->name, value->name);
    }
    return TENON_OK;
}

tenon_status tenon_graph_verify(const tenon_graph *graph) {
    bool *seen = calloc((size_t)graph->value_count + 1, sizeof *seen);
    if (!seen)
        return tn_no_memory();
    for (int i = 0; i < graph->input_count; i++)
        seen[graph->inputs[i]->id] = true;
    for (int i = 0; i < graph->constant_count; i++)
        seen[graph->constants[i]->id] = true;
    tenon_status status = verify_nodes(graph, seen);
    if (status == TENON_OK)
        status = verify_ends(graph, seen);
    free(seen);
    return status;
}
