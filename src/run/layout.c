/* Strides of every value. View nodes cost nothing where strides can express them; elsewhere their
 * input is copied first. */
#include "core/fail.h"
#include "run/plan.h"
#include <stdlib.h>
#include <string.h>

/* Views are computed from this address when there is no memory yet; only differences are kept. */
#define NOWHERE ((char *)((uintptr_t)1 << 40))

static tenon_status grow(tn_layout *layout, int32_t count) {
    if (count > layout->capacity) {
        int32_t capacity = count + count / 4 + 16;
        tenon_view *views = realloc(layout->views, (size_t)capacity * sizeof *views);
        if (!views)
            return tn_no_memory();
        layout->views = views;
        int64_t *moves = realloc(layout->moves, (size_t)capacity * sizeof *moves);
        if (!moves)
            return tn_no_memory();
        layout->moves = moves;
        layout->capacity = capacity;
    }
    if (count > layout->count) {
        memset(layout->views + layout->count, 0,
               (size_t)(count - layout->count) * sizeof *layout->views);
        memset(layout->moves + layout->count, 0,
               (size_t)(count - layout->count) * sizeof *layout->moves);
        layout->count = count;
    }
    return TENON_OK;
}

void tn_layout_free(tn_layout *layout) {
    free(layout->views);
    free(layout->moves);
    *layout = (tn_layout){0};
}

int tn_layout_view_param(const tn_op *op) {
    int first = -1;
    for (int i = 0; i < op->param_count; i++) {
        if (op->params[i].type != TN_TYPE_TENSOR)
            continue;
        if (op->params[i].alias)
            return i;
        first = first < 0 ? i : first;
    }
    return first;
}

int64_t tn_layout_span(const tenon_view *view) {
    int64_t last = 0;
    for (int d = 0; d < view->rank; d++) {
        if (view->shape[d] == 0)
            return 0;
        last += (view->shape[d] - 1) * view->strides[d];
    }
    return (last + 1) * (int64_t)tenon_dtype_size(view->dtype);
}

/* A view of the value's dtype and shape, laid out as the value says. */
static void lay_out(const tenon_value *value, tenon_view *view) {
    *view = tn_view_make(NULL, value->dtype, value->rank, value->shape);
    if (value->channels_last && value->rank >= 3 && value->rank <= 5)
        tn_channels_last_strides(value->rank, value->shape, view->strides);
}

static tenon_status check_static(const tenon_value *value) {
    if (!tn_value_static(value))
        return tn_fail(TENON_INTERNAL, "value '%s' has no known shape when the plan is made",
                       value->name);
    return TENON_OK;
}

/* The view of output `index`; false when strides cannot express it. */
static bool view_output(tn_layout *layout, const tenon_node *node, int index,
                        const tenon_value *input) {
    const tenon_value *value = node->outputs[index];
    tenon_view in = layout->views[input->id],
               out = tn_view_make(NULL, value->dtype, value->rank, value->shape);
    bool known = in.data != NULL;
    if (!known)
        in.data = NOWHERE;
    out.data = in.data;
    if (!node->op->view(node, index, &in, &out))
        return false;
    layout->moves[value->id] = (char *)out.data - (char *)in.data;
    if (!known)
        out.data = NULL;
    layout->views[value->id] = out;
    return true;
}

/* Inserts a row-major copy of `value` before `before`. */
static tenon_status insert_copy(tn_layout *layout, tenon_graph *graph, tenon_node *before,
                                const tenon_node *like, tenon_value *value, tenon_reason kind,
                                const char *reason, tenon_value **out) {
    tenon_arg arg = tenon_arg_value(value);
    tenon_value *copy;
    TN_TRY(tn_graph_emit(graph, before, TN_OP_clone, NULL, like, &arg, 1, &copy));
    TN_TRY(grow(layout, graph->value_count));
    lay_out(copy, &layout->views[copy->id]);
    tn_layout_copy *record = tn_arena_alloc(&graph->arena, sizeof *record);
    if (!record)
        return tn_no_memory();
    *record = (tn_layout_copy){copy->node, kind, reason, layout->copies};
    layout->copies = record;
    *out = copy;
    return TENON_OK;
}

#define CHAIN 4 /* view nodes between attention and the view that needs row-major order */

/* Attention writes its heads where the views after it want them: when they only reorder dimensions,
 * and nothing else reads the result, its memory gets their order, and what `input` (the last of
 * them) names is row-major.
 *
 *     attention [b, h, l, e] -- transpose [b, l, h, e] -- view [b, l, h*e]
 */
static bool order_heads(tn_layout *layout, const tenon_value *input) {
    const tenon_node *chain[CHAIN];
    int count = 0;
    while (count < CHAIN && input->use_count == 1 && input->node &&
           input->node->op->kind == TN_OP_VIEW && input->node->output_count == 1) {
        chain[count++] = input->node;
        input = tn_arg_value(input->node, tn_layout_view_param(input->node->op));
    }
    if (count == 0 || input->use_count != 1 || !input->node || input->channels_last ||
        input->node->op->id != TN_OP_scaled_dot_product_attention)
        return false;
    /* Strides that tell which dimension is which. */
    tenon_view *from = &layout->views[input->id], order = *from;
    int rank = from->rank;
    bool seen[TENON_MAX_RANK] = {false};
    order.data = NOWHERE;
    for (int d = 0; d < rank; d++)
        order.strides[d] = d + 1;
    for (int i = count - 1; i >= 0; i--) {
        const tenon_value *value = chain[i]->outputs[0];
        tenon_view next = tn_view_make(order.data, value->dtype, value->rank, value->shape);
        if (!chain[i]->op->view(chain[i], 0, &order, &next) || next.data != order.data)
            return false;
        order = next;
    }
    for (int d = 0; d < rank; d++) {
        int64_t at = order.rank == rank ? order.strides[d] - 1 : -1;
        if (at < 0 || at >= rank || seen[at] || from->shape[at] != order.shape[d])
            return false;
        seen[at] = true;
    }
    if (order.strides[rank - 1] != rank)
        return false; /* what lies innermost stays there: kernels run along it */
    int64_t strides[TENON_MAX_RANK];
    tn_contiguous_strides(rank, order.shape, strides);
    for (int d = 0; d < rank; d++)
        from->strides[order.strides[d] - 1] = strides[d];
    for (int i = count - 1; i >= 0; i--) {
        if (!view_output(layout, chain[i], 0,
                         tn_arg_value(chain[i], tn_layout_view_param(chain[i]->op))))
            return false;
    }
    return true;
}

static bool view_outputs(tn_layout *layout, const tenon_node *node, const tenon_value *input) {
    for (int i = 0; i < node->output_count; i++) {
        if (!view_output(layout, node, i, input))
            return false;
    }
    return true;
}

/* `copies[id]` remembers the row-major copy of a value. */
static tenon_status view_node(tn_layout *layout, tenon_graph *graph, tenon_node *node,
                              tn_map *copies) {
    int param = tn_layout_view_param(node->op);
    tenon_value *input = param < 0 ? NULL : tn_arg_value(node, param);
    if (!input)
        return tn_fail(TENON_INVALID_GRAPH, "node '%s' (%s): it has no tensor to view", node->name,
                       node->op->name);
    for (int i = 0; i < node->output_count; i++)
        TN_TRY(check_static(node->outputs[i]));
    if (view_outputs(layout, node, input) ||
        (order_heads(layout, input) && view_outputs(layout, node, input)))
        return TENON_OK;
    tenon_value *copy = tn_map_get(copies, input->name);
    if (!copy) {
        TN_TRY(insert_copy(layout, graph, node, node, input, TENON_REASON_LAYOUT_COPY,
                           "a copy: no strides express the next view on this memory, so that it "
                           "needs the elements in row-major order",
                           &copy));
        TN_TRY(tn_map_put(copies, input->name, copy));
    }
    tenon_arg arg = tenon_arg_value(copy);
    TN_TRY(tn_node_set_arg(node, param, &arg));
    if (!view_outputs(layout, node, copy))
        return tn_fail(TENON_INTERNAL, "node '%s' (%s): no view of row-major memory", node->name,
                       node->op->name);
    return TENON_OK;
}

static tenon_status lay_out_leaves(tn_layout *layout, const tenon_graph *graph) {
    for (int i = 0; i < graph->input_count; i++) {
        const tenon_value *input = graph->inputs[i];
        if (input->scalar != TN_TENSOR)
            continue;
        TN_TRY(check_static(input));
        layout->views[input->id] = tn_view_make(NULL, input->dtype, input->rank, input->shape);
    }
    for (int i = 0; i < graph->constant_count; i++) {
        const tenon_value *constant = graph->constants[i];
        const tenon_view *view = &constant->tensor->view;
        layout->views[constant->id] =
            constant->kind == TENON_VALUE_CONSTANT
                ? *view
                : tn_view_make(NULL, view->dtype, view->rank, view->shape);
    }
    return TENON_OK;
}

static tenon_status lay_out_nodes(tn_layout *layout, tenon_graph *graph, tn_map *copies) {
    for (tenon_node *node = graph->first; node; node = node->next) {
        if (node->op->kind == TN_OP_VIEW) {
            TN_TRY(view_node(layout, graph, node, copies));
            continue;
        }
        if (node->op->kind != TN_OP_KERNEL)
            return tn_fail(TENON_UNSUPPORTED,
                           "node '%s' (%s): no pass has rewritten it into operators that run",
                           node->name, node->op->name);
        for (int i = 0; i < node->output_count; i++) {
            tenon_value *value = node->outputs[i];
            if (value->use_count == 0)
                continue; /* nobody wants it */
            TN_TRY(check_static(value));
            if (tn_value_numel(value) < 0 || tn_value_numel(value) > INT64_MAX / 16)
                return tn_fail(TENON_UNSUPPORTED, "value '%s': its size overflows", value->name);
            lay_out(value, &layout->views[value->id]);
        }
    }
    return TENON_OK;
}

/* ---- Outputs and writes ---- */

/* The value in whose memory `value` lies. */
static tenon_value *owner_of(tenon_value *value) {
    while (value->node && value->node->op->kind == TN_OP_VIEW)
        value = tn_arg_value(value->node, tn_layout_view_param(value->node->op));
    return value;
}

/* Whether the memory of `value` can be given away: all of an activation's memory, row-major, and
 * not given away before. */
static bool claim(const tn_layout *layout, tenon_value *value, tn_map *claimed) {
    tenon_value *owner = owner_of(value);
    const tenon_view *view = &layout->views[value->id];
    if (!owner->node || layout->moves[value->id] != 0 || !tenon_view_is_contiguous(view) ||
        tn_layout_span(view) != tn_layout_span(&layout->views[owner->id]) ||
        tn_map_get(claimed, owner->name))
        return false;
    for (const tenon_value *v = value; v != owner;
         v = tn_arg_value(v->node, tn_layout_view_param(v->node->op))) {
        if (layout->moves[v->id] != 0)
            return false;
    }
    return true;
}

static tenon_status own(tn_layout *layout, tenon_graph *graph, tn_use *use, tn_map *claimed,
                        tenon_reason kind, const char *reason) {
    tenon_value *value = use->value, *copy;
    if (claim(layout, value, claimed))
        return tn_map_put(claimed, owner_of(value)->name, value);
    TN_TRY(insert_copy(layout, graph, value->node ? value->node->next : graph->first, value->node,
                       value, kind, reason, &copy));
    tn_use_set(use, copy);
    return tn_map_put(claimed, copy->name, copy);
}

static tenon_status own_results(tn_layout *layout, tenon_graph *graph, tn_map *claimed) {
    for (int i = 0; i < graph->output_count; i++) {
        if (graph->outputs[i].use)
            TN_TRY(own(layout, graph, graph->outputs[i].use, claimed, TENON_REASON_OUTPUT_COPY,
                       "a copy: the output needs row-major memory of its own"));
    }
    for (int i = 0; i < graph->write_count; i++) {
        tn_write *write = &graph->writes[i];
        if (write->target->kind == TENON_VALUE_BUFFER)
            TN_TRY(own(layout, graph, write->use, claimed, TENON_REASON_STATE_COPY,
                       "a copy: the new state needs memory of its own"));
        else if (owner_of(write->use->value)->kind == TENON_VALUE_INPUT)
            TN_TRY(own(layout, graph, write->use, claimed, TENON_REASON_STATE_COPY,
                       "a copy: an input is written with another input's value"));
    }
    return TENON_OK;
}

tenon_status tn_layout_make(tenon_graph *graph, tn_layout *layout) {
    tn_map copies = {0}, claimed = {0};
    tenon_status status;
    TN_GOTO(grow(layout, graph->value_count));
    TN_GOTO(lay_out_leaves(layout, graph));
    TN_GOTO(lay_out_nodes(layout, graph, &copies));
    TN_GOTO(own_results(layout, graph, &claimed));
error:
    tn_map_free(&copies);
    tn_map_free(&claimed);
    return status;
}
