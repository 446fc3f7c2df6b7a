/* What a plan can tell about itself. */
#include "core/fail.h"
#include "run/context.h"
#include <stdio.h>
#include <string.h>

const char *tenon_reason_text(tenon_reason reason) {
    switch (reason) {
#define X(name, text, advice) \
    case TENON_REASON_##name: \
        return text;
        TENON_REASON_LIST(X)
#undef X
    default:
        return "none";
    }
}

const char *tenon_reason_advice(tenon_reason reason) {
    switch (reason) {
#define X(name, text, advice) \
    case TENON_REASON_##name: \
        return advice;
        TENON_REASON_LIST(X)
#undef X
    default:
        return "";
    }
}

static tenon_status find_plan(const tenon_session *session, const tn_plan **plan) {
    tenon_session *unlocked = (tenon_session *)session;
    pthread_mutex_lock(&unlocked->lock);
    const tn_plan *latest = session->latest;
    pthread_mutex_unlock(&unlocked->lock);
    if (!latest)
        return tn_fail(TENON_NOT_FOUND, "nothing was compiled yet");
    *plan = latest;
    return TENON_OK;
}

static tenon_status find_step(const tenon_session *session, int index, const tn_plan **plan,
                              const tn_step **step) {
    TN_TRY(find_plan(session, plan));
    if (index < 0 || index >= (*plan)->step_count)
        return tn_fail(TENON_INVALID_ARGUMENT, "there is no step %d of %d", index,
                       (*plan)->step_count);
    *step = &(*plan)->steps[index];
    return TENON_OK;
}

/* ---- Steps ---- */

/* The step that makes the value, through views; -1: none does. */
static int maker_of(const tn_plan *plan, const tenon_value *value) {
    return value->node ? plan->source_of[value->node->order] : -1;
}

static bool is_constant(const tn_plan *plan, const tenon_value *value) {
    return plan->views[value->id].data != NULL;
}

static int64_t bytes_of(const tn_plan *plan, const tn_step *step, const tenon_value *value) {
    return tn_bytes_read(step->partition ? NULL : step->node, value, &plan->views[value->id]);
}

static tenon_node *const *nodes_of(const tn_step *step, int *count) {
    *count = step->partition ? step->partition->node_count : 1;
    return step->partition ? step->partition->nodes : (tenon_node *const *)&step->node;
}

/* A kernel has a boundary for each operand that a step makes. */
static int count_boundaries(const tn_plan *plan, const tn_step *step) {
    int count = 0;
    if (step->partition)
        return step->partition->boundary_count;
    for (int i = 0; i < step->read_count; i++)
        count += maker_of(plan, step->read[i]) >= 0;
    return count;
}

/* A copy that was inserted, and not computed together with other nodes. */
static bool is_inserted_copy(const tenon_node *node) {
    return node->op->id == TN_OP_clone && (node->reason_kind == TENON_REASON_LAYOUT_COPY ||
                                           node->reason_kind == TENON_REASON_OUTPUT_COPY ||
                                           node->reason_kind == TENON_REASON_STATE_COPY);
}

/* Why a step begins where it does. */
static tenon_reason reason_of(const tn_step *step, const char **text) {
    const tn_partition *p = step->partition;
    bool own = !p || (p->node_count == 1 && is_inserted_copy(p->nodes[0]));
    *text = own ? step->node->reason : p->reason;
    *text = *text ? *text : "";
    return own ? (tenon_reason)step->node->reason_kind : p->reason_kind;
}

static void describe(const tn_plan *plan, const tn_step *step, tenon_step_info *out) {
    const tn_partition *partition = step->partition;
    *out = (tenon_step_info){
        .kind = partition    ? TENON_STEP_ONEDNN
                : step->copy ? TENON_STEP_COPY
                             : TENON_STEP_KERNEL,
        .fused = partition ? partition->ops : "",
        .input_count = step->read_count,
        .output_count = step->written_count,
        .boundary_count = count_boundaries(plan, step),
        .choice = "",
    };
    out->reason_kind = reason_of(step, &out->reason);
    out->nodes = (const tenon_node *const *)nodes_of(step, &out->node_count);
    for (int i = 0; i < out->node_count; i++) {
        out->flops += tn_node_flops(out->nodes[i]);
        if (!*out->choice && out->nodes[i]->choice)
            out->choice = out->nodes[i]->choice;
    }
    for (int i = 0; i < step->read_count; i++) {
        int64_t bytes = bytes_of(plan, step, step->read[i]);
        out->read_bytes += bytes;
        out->weight_bytes += is_constant(plan, step->read[i]) ? bytes : 0;
    }
    for (int i = 0; i < step->written_count; i++)
        out->written_bytes +=
            tn_bytes_read(NULL, step->written[i], &plan->views[step->written[i]->id]);
}

tenon_status tenon_session_get_plan(const tenon_session *session, tenon_plan_info *out) {
    const tn_plan *plan = NULL;
    TN_TRY(find_plan(session, &plan));
    tenon_plan_info info = {.step_count = plan->step_count,
                            .threads = plan->threads,
                            .dry_run = plan->dry_run,
                            .node_count = plan->graph->node_count,
                            .view_count = plan->view_count,
                            .arena_bytes = (size_t)plan->arena_bytes,
                            .graph = plan->graph,
                            .verified_partitions = plan->verified_partitions,
                            .verified_kernels = plan->verified_kernels,
                            .left_out = plan->left_out};
    for (int32_t i = 0; i < plan->graph->constant_count; i++) {
        const tenon_view *view = &plan->graph->constants[i]->tensor->view;
        info.weight_bytes += (size_t)tenon_view_numel(view) * tenon_dtype_size(view->dtype);
    }
    for (int32_t i = 0; i < plan->step_count; i++) {
        tenon_step_info step;
        describe(plan, &plan->steps[i], &step);
        info.partition_count += step.kind == TENON_STEP_ONEDNN;
        info.kernel_count += step.kind == TENON_STEP_KERNEL;
        info.copy_count += step.kind == TENON_STEP_COPY;
        info.read_bytes += step.read_bytes;
        info.written_bytes += step.written_bytes;
        info.flops += step.flops;
    }
    *out = info;
    return TENON_OK;
}

tenon_status tenon_session_get_step(const tenon_session *session, int index, tenon_step_info *out) {
    const tn_plan *plan = NULL;
    const tn_step *step = NULL;
    TN_TRY(find_step(session, index, &plan, &step));
    describe(plan, step, out);
    return TENON_OK;
}

/* ---- Operands ---- */

static const char *layout_of(const tenon_view *view) {
    int64_t strides[TENON_MAX_RANK];
    bool expanded = false, last = view->rank >= 3 && view->rank <= 5;
    if (tenon_view_is_contiguous(view))
        return "row-major";
    if (last)
        tn_channels_last_strides(view->rank, view->shape, strides);
    for (int d = 0; d < view->rank; d++) {
        expanded |= view->strides[d] == 0 && view->shape[d] > 1;
        last = last && (view->shape[d] == 1 || view->strides[d] == strides[d]);
    }
    return last ? "channels-last" : expanded ? "expanded" : "strided";
}

tenon_status tenon_session_get_operand(const tenon_session *session, int index, int operand,
                                       tenon_operand_info *out) {
    const tn_plan *plan = NULL;
    const tn_step *step = NULL;
    TN_TRY(find_step(session, index, &plan, &step));
    if (operand < 0 || operand >= step->read_count + step->written_count)
        return tn_fail(TENON_INVALID_ARGUMENT, "step %d has no operand %d of %d", index, operand,
                       step->read_count + step->written_count);
    bool input = operand < step->read_count;
    const tenon_value *value =
        input ? step->read[operand] : step->written[operand - step->read_count];
    tenon_view view = plan->views[value->id];
    view.data = NULL;
    *out = (tenon_operand_info){.value = value,
                                .view = view,
                                .layout = layout_of(&view),
                                .bytes = input ? bytes_of(plan, step, value)
                                               : tn_bytes_read(NULL, value, &view),
                                .constant = is_constant(plan, value),
                                .from_step = input ? maker_of(plan, value) : index};
    return TENON_OK;
}

/* ---- Boundaries ---- */

tenon_status tenon_session_get_boundary(const tenon_session *session, int index, int boundary,
                                        tenon_boundary_info *out) {
    const tn_plan *plan = NULL;
    const tn_step *step = NULL;
    TN_TRY(find_step(session, index, &plan, &step));
    int count = count_boundaries(plan, step), at = boundary;
    if (boundary < 0 || boundary >= count)
        return tn_fail(TENON_INVALID_ARGUMENT, "step %d has no boundary %d of %d", index, boundary,
                       count);
    if (step->partition) {
        const tn_boundary *b = &step->partition->boundaries[boundary];
        *out = (tenon_boundary_info){b->value, maker_of(plan, b->value), b->kind, b->reason};
        return TENON_OK;
    }
    for (int i = 0; i < step->read_count; i++) {
        int from = maker_of(plan, step->read[i]);
        if (from < 0 || at-- > 0)
            continue;
        *out = (tenon_boundary_info){step->read[i], from, (tenon_reason)step->node->reason_kind,
                                     step->node->reason ? step->node->reason : ""};
        break;
    }
    return TENON_OK;
}

/* ---- Nodes ---- */

/* "aten.view 'v'", "output 'logits'", for each use of the value while there is room. */
static void name_users(const tenon_graph *graph, const tenon_value *value, char *text,
                       size_t room) {
    size_t used = 0;
    int64_t named = 0;
    for (const tn_use *use = value->uses; use && named < 3; use = use->next, named++) {
        const char *what = "output", *name = "";
        for (int i = 0; !use->node && i < graph->output_count; i++) {
            if (graph->outputs[i].use == use)
                name = graph->outputs[i].name;
        }
        for (int i = 0; !use->node && i < graph->write_count; i++) {
            if (graph->writes[i].use != use)
                continue;
            what = graph->writes[i].target->kind == TENON_VALUE_BUFFER ? "buffer" : "input";
            name = graph->writes[i].target->name;
        }
        if (use->node) {
            what = use->node->op->name;
            name = use->node->name;
        }
        if (used < room)
            used += (size_t)snprintf(text + used, room - used, "%s%s '%s'", named ? ", " : "", what,
                                     name);
    }
    if (value->use_count > named && used < room)
        snprintf(text + used, room - used, " and %lld more", (long long)(value->use_count - named));
}

static tenon_conversion conversion_of(const tenon_node *node) {
    if (is_inserted_copy(node))
        return TENON_CONVERSION_LAYOUT;
    const tenon_value *from = node->op->id == TN_OP_to_copy ? tn_arg_value(node, 0) : NULL;
    return from && from->dtype != node->outputs[0]->dtype ? TENON_CONVERSION_DTYPE
                                                          : TENON_CONVERSION_NONE;
}

tenon_status tenon_session_get_node(const tenon_session *session, const tenon_node *node,
                                    tenon_node_info *out) {
    const tn_plan *plan = NULL;
    TN_TRY(find_plan(session, &plan));
    if (node->graph != plan->graph)
        return tn_fail(TENON_INVALID_ARGUMENT, "node '%s' is not of the plan's graph", node->name);
    int index = plan->step_of[node->order];
    const tn_step *step = index < 0 ? NULL : &plan->steps[index];
    tenon_node_info info = {.step = index,
                            .flops = step ? tn_node_flops(node) : 0,
                            .choice = node->choice ? node->choice : ""};
    if (!step) {
        info.reason_kind = (tenon_reason)node->reason_kind;
        info.reason = node->reason ? node->reason : "";
    } else if (step->node == node) {
        info.reason_kind = reason_of(step, &info.reason);
    } else {
        info.reason_kind = TENON_REASON_FUSED;
        info.reason = "oneDNN fuses it into the kernel of the op before it";
    }
    info.conversion = conversion_of(node);
    if (info.conversion != TENON_CONVERSION_NONE)
        name_users(plan->graph, node->outputs[0], info.conversion_for, sizeof info.conversion_for);
    /* The session's graph is the model before anything depended on shapes, layouts or precision. */
    info.inserted =
        node->output_count > 0 && !tn_map_get(&session->graph->names, node->outputs[0]->name);
    *out = info;
    return TENON_OK;
}

/* ---- Time ---- */

void tenon_context_set_timing(tenon_context *context, bool on) {
    context->timing = on;
}

tenon_status tenon_context_get_times(const tenon_context *context, const int64_t **out,
                                     int *count) {
    if (!context->timed || !context->current)
        return tn_fail(TENON_NOT_FOUND, "the context's last run was not measured");
    *out = context->current->times;
    *count = context->current->plan->step_count;
    return TENON_OK;
}
