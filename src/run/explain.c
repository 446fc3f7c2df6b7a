#include "core/fail.h"
#include "run/session.h"
#include <tenon/explain.h>

static const tn_plan *plan_of(const tenon_session *session) {
    tenon_session *unlocked = (tenon_session *)session;
    pthread_mutex_lock(&unlocked->lock);
    const tn_plan *plan = session->latest;
    pthread_mutex_unlock(&unlocked->lock);
    return plan;
}

static tenon_status find_plan(const tenon_session *session, const tn_plan **plan) {
    *plan = plan_of(session);
    return *plan ? TENON_OK : tn_fail(TENON_NOT_FOUND, "nothing was compiled yet");
}

tenon_status tenon_session_get_plan(const tenon_session *session, tenon_plan_info *out) {
    const tn_plan *plan;
    TN_TRY(find_plan(session, &plan));
    size_t weights = 0;
    for (int32_t i = 0; i < plan->graph->constant_count; i++) {
        const tenon_view *view = &plan->graph->constants[i]->tensor->view;
        weights += (size_t)tenon_view_numel(view) * tenon_dtype_size(view->dtype);
    }
    *out = (tenon_plan_info){.step_count = plan->step_count,
                             .partition_count = plan->partitions->count,
                             .node_count = plan->graph->node_count,
                             .view_count = plan->view_count,
                             .arena_bytes = (size_t)plan->arena_bytes,
                             .weight_bytes = weights,
                             .graph = plan->graph};
    return TENON_OK;
}

tenon_status tenon_session_get_step(const tenon_session *session, int index, tenon_step_info *out) {
    const tn_plan *plan;
    TN_TRY(find_plan(session, &plan));
    if (index < 0 || index >= plan->step_count)
        return tn_fail(TENON_INVALID_ARGUMENT, "there is no step %d of %d", index,
                       plan->step_count);
    const tn_step *step = &plan->steps[index];
    const tn_partition *partition = step->partition;
    *out = (tenon_step_info){.kind = partition    ? TENON_STEP_ONEDNN
                                     : step->copy ? TENON_STEP_COPY
                                                  : TENON_STEP_KERNEL,
                             .node_count = partition ? partition->node_count : 1,
                             .nodes = partition ? (const tenon_node *const *)partition->nodes
                                                : (const tenon_node *const *)&step->node,
                             .reason = partition ? partition->reason : step->node->reason,
                             .fused = partition ? partition->ops : ""};
    if (!out->reason)
        out->reason = "";
    return TENON_OK;
}
