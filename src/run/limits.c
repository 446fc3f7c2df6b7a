#include "run/limits.h"
#include "core/fail.h"
#include "core/util.h"
#include <math.h>

tenon_status tn_limits_take(tenon_limits *limits) {
    if (limits->nodes < 0 || limits->elements < 0 || limits->folded_bytes < 0 ||
        limits->run_bytes < 0 || limits->compile_bytes < 0 || !(limits->folded_flops >= 0) ||
        !(limits->run_flops >= 0) || !(limits->run_work >= 0) || !(limits->compile_work >= 0) ||
        !(limits->compile_seconds >= 0))
        return tn_fail(TENON_INVALID_ARGUMENT,
                       "session options: a limit is less than 0, or no number");
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
        return tn_fail(TENON_LIMIT,
                       "'%s' has %d dimensions, more than limits.rank allows, %lld" TN_LIMIT_HOW,
                       value->name, value->rank, (long long)limits->rank, "rank", "rank");
    int64_t count = tn_value_numel(value);
    if (count > limits->elements)
        return tn_fail(TENON_LIMIT,
                       "'%s' has %lld elements, more than limits.elements allows, "
                       "%lld" TN_LIMIT_HOW,
                       value->name, (long long)count, (long long)limits->elements, "elements",
                       "elements");
    return TENON_OK;
}

tenon_status tn_limits_check_graph(const tenon_limits *limits, const tenon_graph *graph) {
    if (graph->node_count > limits->nodes)
        return tn_fail(TENON_LIMIT,
                       "graph '%s' has %lld nodes, more than limits.nodes allows, "
                       "%lld" TN_LIMIT_HOW,
                       graph->name, (long long)graph->node_count, (long long)limits->nodes, "nodes",
                       "nodes");
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

/* ---- What depends on what is given ---- */

/* Defaults: so much, and so much for each byte that is given. */
#define RUN_BYTES_FREE ((double)(96 << 20))
#define RUN_BYTES_RATIO 64
#define COMPILE_BYTES_FREE ((double)(64 << 20))
#define COMPILE_BYTES_RATIO 64
#define RUN_WORK_FREE 4e9
#define RUN_WORK_RATIO 1e6
#define COMPILE_WORK_FREE 8e9
#define COMPILE_WORK_RATIO 1e5
/* The share of the work of compiling that may go into folding; what is beyond it the runs compute.
 */
#define FOLDED_SHARE 0.25
#define NODE_BYTES 1024 /* of a graph that calls built */

double tn_limits_view_bytes(const tenon_view *view) {
    return (double)tenon_view_numel(view) * (double)tenon_dtype_size(view->dtype);
}

double tn_limits_given(const tenon_graph *graph) {
    if (graph->file_bytes > 0)
        return (double)graph->file_bytes;
    double bytes = (double)graph->node_count * NODE_BYTES;
    for (int32_t i = 0; i < graph->constant_count; i++) {
        const tenon_tensor *tensor = graph->constants[i]->tensor;
        double elements = tn_limits_view_bytes(&tensor->view), all = (double)tensor->storage->size;
        bytes += elements < all ? elements : all;
    }
    return bytes;
}

void tn_limits_fold(const tenon_limits *limits, tn_budget *budget) {
    budget->folded_bytes = limits->folded_bytes;
    budget->folded_flops = limits->folded_flops;
    budget->folded_work = FOLDED_SHARE * budget->most_work;
}

tn_budget tn_limits_budget(const tenon_limits *limits, double given, const tn_budget *before) {
    tn_budget budget = {
        .most_bytes = limits->compile_bytes > 0 ? (double)limits->compile_bytes
                                                : COMPILE_BYTES_FREE + COMPILE_BYTES_RATIO * given,
        .most_work = limits->compile_work > 0 ? limits->compile_work
                                              : COMPILE_WORK_FREE + COMPILE_WORK_RATIO * given,
        .seconds = limits->compile_seconds};
    tn_limits_fold(limits, &budget);
    if (before) {
        budget.bytes = before->bytes;
        budget.work = before->work;
    }
    if (budget.seconds > 0)
        budget.end_ns = tn_clock_ns() + (int64_t)fmin(budget.seconds * 1e9, 1e18);
    return budget;
}

tenon_status tn_limits_check_work(const tenon_limits *limits, const tenon_graph *graph,
                                  double given) {
    double flops = 0, work = 0;
    for (const tenon_node *node = graph->first; node; node = node->next) {
        flops += tn_node_flops(node);
        work += tn_node_work(node);
    }
    if (limits->run_flops > 0 && flops > limits->run_flops)
        return tn_fail(TENON_LIMIT,
                       "graph '%s': a run takes %.4g floating-point operations, more than "
                       "limits.run_flops allows, %.4g" TN_LIMIT_HOW,
                       graph->name, flops, limits->run_flops, "run_flops", "run_flops");
    double most = limits->run_work > 0 ? limits->run_work : RUN_WORK_FREE + RUN_WORK_RATIO * given;
    if (work > most)
        return tn_fail(TENON_LIMIT,
                       "graph '%s': a run takes %.4g units of work, more than limits.run_work "
                       "allows, %.4g" TN_LIMIT_HOW,
                       graph->name, work, most, "run_work", "run_work");
    return TENON_OK;
}

/* Of a context: what it has for buffers, with what the run writes there. */
static double state_bytes(const tn_plan *plan) {
    double bytes = 0;
    for (int32_t i = 0; i < plan->graph->constant_count; i++) {
        if (plan->graph->constants[i]->kind == TENON_VALUE_BUFFER)
            bytes += 2 * tn_limits_view_bytes(&plan->graph->constants[i]->tensor->view);
    }
    return bytes;
}

tenon_status tn_limits_check_plan(const tenon_limits *limits, tn_plan *plan, double given) {
    double needed = (double)plan->arena_bytes + state_bytes(plan);
    for (int32_t i = 0; i < plan->output_count; i++)
        needed += tn_limits_view_bytes(&plan->outputs[i].view);
    double most = limits->run_bytes > 0 ? (double)limits->run_bytes
                                        : RUN_BYTES_FREE + RUN_BYTES_RATIO * given;
    TN_TRY(tn_limits_check_work(limits, plan->graph, given)); /* copies have come */
    if (needed > most)
        return tn_fail(TENON_LIMIT,
                       "graph '%s': a run needs %.0f bytes for activations, outputs and buffers, "
                       "more than limits.run_bytes allows, %.0f" TN_LIMIT_HOW,
                       plan->graph->name, needed, most, "run_bytes", "run_bytes");
    plan->room = fmax(1, most - needed);
    return TENON_OK;
}
