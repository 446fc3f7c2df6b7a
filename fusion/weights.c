#include "fusion/weights.h"
#include "core/workers.h"
#include "fusion/passes.h"
#include "fusion/rewrite.h"
#include <math.h>
#include <stdio.h>

/* Smaller weights are scaled at once. */
#define LEAST_WAITING 256

static bool can_wait(const tenon_value *w) {
    return tn_is_constant(w) && w->dtype == TENON_FLOAT32 && w->rank == 4 &&
           tenon_view_is_contiguous(&w->tensor->view) && tn_value_numel(w) >= LEAST_WAITING;
}

bool tn_weight_waits(const tenon_node *node) {
    if (!tn_node_is(node, TN_OP_mul_Tensor) || node->outputs[0]->use_count == 0)
        return false;
    const tenon_value *w = tn_arg_value(node, 0), *scale = tn_arg_value(node, 1);
    if (!can_wait(w) || !tn_is_constant(scale) || scale->dtype != TENON_FLOAT32 ||
        scale->rank != 4 || scale->shape[0] != w->shape[0] ||
        tn_value_numel(scale) != w->shape[0] || !tenon_view_is_contiguous(&scale->tensor->view))
        return false;
    for (const tn_use *use = node->outputs[0]->uses; use; use = use->next)
        if ((!tn_node_is(use->node, TN_OP_convolution) &&
             !tn_node_is(use->node, TN_OP_padded_convolution)) ||
            use->slot != &use->node->args[1] || tn_arg_bool(use->node, 6))
            return false;
    return true;
}

bool tn_weight_read(tenon_value *value, tn_weight *out) {
    if (tn_is_constant(value)) {
        *out = (tn_weight){value, NULL};
        return true;
    }
    if (!value || !value->node || !tn_weight_waits(value->node))
        return false;
    *out = (tn_weight){tn_arg_value(value->node, 0), tn_arg_value(value->node, 1)};
    return true;
}

const float *tn_weight_scales(const tn_weight *weight) {
    return weight->scale ? weight->scale->tensor->view.data : NULL;
}

tenon_status tn_weight_wait(tenon_node *at, const tn_weight *weight, const double *scale,
                            tenon_value **out) {
    tenon_tensor *tensor = NULL;
    tenon_value *factors;
    int64_t rows = weight->values->shape[0], shape[4] = {rows, 1, 1, 1};
    const float *before = tn_weight_scales(weight);
    if (!can_wait(weight->values))
        return TENON_OK;
    TN_TRY(tenon_tensor_create(TENON_FLOAT32, 4, shape, &tensor));
    float *to = tensor->view.data;
    for (int64_t i = 0; i < rows; i++) {
        to[i] = (float)(scale[i] * (before ? before[i] : 1));
        if (to[i] != 0 && !isnormal(to[i])) {
            tenon_tensor_destroy(&tensor);
            return TENON_OK;
        }
    }
    TN_TRY(tn_graph_new_constant(at->graph, "scale", tensor, &factors));
    TN_TRY(tn_emit(at, TN_OP_mul_Tensor, out, TN_ARGS(VAL(weight->values), VAL(factors))));
    tn_value_adopt(*out, weight->values);
    return TENON_OK;
}

/* ---- Deriving ---- */

tenon_status tn_weight_derive(const tn_weight *weight, const char *kind, tn_derive_fn make,
                              const void *user, tenon_tensor **out) {
    char text[128];
    const float *scales = tn_weight_scales(weight);
    if (!scales)
        return tn_tensor_derive(weight->values->tensor, kind, make, user, out);
    snprintf(
        text, sizeof text, "%s, scaled %016llx", kind,
        (unsigned long long)tn_hash(scales, (size_t)weight->values->shape[0] * sizeof *scales));
    return tn_tensor_derive(weight->values->tensor, text, make, user, out);
}

typedef struct scaling {
    const float *from, *scale;
    float *to;
    int64_t length; /* of a row */
} scaling;

static void scale_rows(int64_t begin, int64_t end, void *user) {
    const scaling *s = user;
    for (int64_t i = begin; i < end; i++)
        for (int64_t k = i * s->length; k < (i + 1) * s->length; k++)
            s->to[k] = s->from[k] * s->scale[i];
}

#define LEAST_ELEMENTS 65536 /* that a thread is worth */

static tenon_status scale_weight(const tenon_view *from, const void *scale, tenon_tensor **out) {
    scaling s = {from->data, scale, NULL, tenon_view_numel(from) / from->shape[0]};
    tenon_tensor *made;
    TN_TRY(tenon_tensor_create(TENON_FLOAT32, from->rank, from->shape, &made));
    s.to = made->view.data;
    tn_share_work(from->shape[0], LEAST_ELEMENTS / s.length + 1, scale_rows, &s);
    *out = made;
    return TENON_OK;
}

tenon_status tn_weight_settle(const tn_weight *weight, tenon_value **out) {
    tenon_tensor *tensor;
    *out = weight->values;
    if (!weight->scale)
        return TENON_OK;
    TN_TRY(tn_weight_derive(weight, "weight", scale_weight, tn_weight_scales(weight), &tensor));
    return tn_graph_new_constant(weight->values->graph, weight->values->name, tensor, out);
}

/* ---- The pass ---- */

static tenon_status settle_node(tenon_node *node, tenon_value **with) {
    tn_weight weight;
    return tn_weight_read(node->outputs[0], &weight) ? tn_weight_settle(&weight, with) : TENON_OK;
}

tenon_status tn_pass_weights(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {{TN_OP_mul_Tensor, settle_node}};
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
