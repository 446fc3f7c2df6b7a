#include "run/limits.h"
#include "core/fail.h"

tenon_status tn_limits_take(tenon_limits *limits) {
    if (limits->nodes < 0 || limits->elements < 0 || limits->folded_bytes < 0 ||
        limits->run_bytes < 0 || !(limits->folded_flops >= 0) || !(limits->run_flops >= 0))
        return tn_fail(TENON_INVALID_ARGUMENT, "session options: a limit is less than 0");
    if (limits->rank < 0 || limits->rank > TENON_MAX_RANK)
        return tn_fail(TENON_INVALID_ARGUMENT, "session options: limits.rank is %lld, not 0 to %d",
                       (long long)limits->rank, TENON_MAX_RANK);
    if (limits->nodes == 0)
        limits->nodes = (int64_t)1 << 22;
    if (limits->elements == 0)
        limits->elements = (int64_t)1 << 36;
    if (limits->rank == 0)
        limits->rank = TENON_MAX_RANK;
    if (limits->folded_bytes == 0)
        limits->folded_bytes = (int64_t)32 << 20;
    if (limits->folded_flops == 0)
        limits->folded_flops = 4e9;
    return TENON_OK;
}

static tenon_status check_value(const tenon_limits *limits, const tenon_value *value) {
    if (value->scalar != TN_TENSOR || !tn_value_static(value))
        return TENON_OK;
    if (value->rank > limits->rank)
        return tn_fail(TENON_LIMIT, "'%s' has %d dimensions, more than limits.rank allows, %lld",
                       value->name, value->rank, (long long)limits->rank);
    int64_t count = tn_value_numel(value);
    if (count > limits->elements)
        return tn_fail(TENON_LIMIT,
                       "'%s' has %lld elements, more than limits.elements allows, %lld",
                       value->name, (long long)count, (long long)limits->elements);
    return TENON_OK;
}

tenon_status tn_limits_check_graph(const tenon_limits *limits, const tenon_graph *graph) {
    if (graph->node_count > limits->nodes)
        return tn_fail(TENON_LIMIT,
                       "graph '%s' has %lld nodes, more than limits.nodes allows, %lld",
                       graph->name, (long long)graph->node_count, (long long)limits->nodes);
    for (int32_t i = 0; i < graph->input_count; i++)
        TN_TRY(check_value(limits, graph->inputs[i]));
    for (int32_t i = 0; i < graph->constant_count; i++)
        TN_TRY(check_value(limits, graph->constants[i]));
    for (const tenon_node *node = graph->first; node; node = node->next) {
        for (int i = 0; i < node->output_count; i++)
            TN_TRY(check_value(limits, node->outputs[i]));
    }
    return TENON_OK;
}

static double bytes_of(const tenon_view *view) {
    return (double)tenon_view_numel(view) * (double)tenon_dtype_size(view->dtype);
}

tenon_status tn_limits_check_plan(const tenon_limits *limits, const tn_plan *plan) {
    double given = 0, needed = (double)plan->arena_bytes, flops = 0;
    for (int32_t i = 0; i < plan->input_count; i++)
        given += bytes_of(&plan->inputs[i].view);
    for (int32_t i = 0; i < plan->graph->constant_count; i++)
        given += (double)plan->graph->constants[i]->tensor->storage->size;
    for (int32_t i = 0; i < plan->output_count; i++)
        needed += bytes_of(&plan->outputs[i].view);
    double most = limits->run_bytes > 0 ? (double)limits->run_bytes : 64 * given + (192 << 20);
    if (needed > most)
        return tn_fail(TENON_LIMIT,
                       "graph '%s': a run needs %.0f bytes for activations and outputs, more than "
                       "limits.run_bytes allows, %.0f",
                       plan->graph->name, needed, most);
    for (const tenon_node *node = plan->graph->first; node; node = node->next)
        flops += tn_node_flops(node);
    if (limits->run_flops > 0 && flops > limits->run_flops)
        return tn_fail(TENON_LIMIT,
                       "graph '%s': a run takes %.4g floating-point operations, more than "
                       "limits.run_flops allows, %.4g",
                       plan->graph->name, flops, limits->run_flops);
    return TENON_OK;
}
