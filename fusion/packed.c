/* Linear layers that Tenon's own product computes sooner than oneDNN.
 *
 *     x -- linear(w, b) --.-- [ add(r) ] --.-- [ gelu, ... ] --
 *
 *     x -- tenon.packed_linear(packed w, b, r, activation) --
 *
 * The weight is a constant, and packed once (core/packed.h).
 */
#include "core/packed.h"
#include "core/derive.h"
#include "fusion/passes.h"
#include "fusion/post_ops.h"
#include "fusion/rewrite.h"
#include <stdlib.h>

/* [n, k] to [panels, k, TN_PANEL] */
static tenon_status pack(const tenon_view *from, const void *user, tenon_tensor **out) {
    int64_t n = from->shape[0], k = from->shape[1], row = from->strides[0];
    int64_t shape[3] = {tn_packed_panels(n), k, TN_PANEL};
    const float *w = from->data;
    tenon_tensor *made;
    (void)user;
    TN_TRY(tenon_tensor_create(TENON_FLOAT32, 3, shape, &made));
    float *to = made->view.data;
    for (int64_t i = 0; i < n; i += TN_PANEL, to += k * TN_PANEL) {
        int64_t count = n - i < TN_PANEL ? n - i : TN_PANEL;
        for (int64_t j = 0; j < k; j++)
            for (int64_t c = 0; c < count; c++)
                to[j * TN_PANEL + c] = w[(i + c) * row + j * from->strides[1]];
    }
    *out = made;
    return TENON_OK;
}

/* With so few rows memory is what a product waits for, however it is packed. */
#define MIN_ROWS 5

static bool fits(const tenon_node *node) {
    const tenon_value *x = tn_arg_value(node, 0), *weight = tn_arg_value(node, 1);
    const tenon_value *bias = tn_arg_value(node, 2), *y = node->outputs[0];
    if (!tn_node_is(node, TN_OP_linear) || !tn_value_static(x) || !tn_value_static(y) ||
        x->dtype != TENON_FLOAT32 || y->rank < 1 || !tn_is_constant(weight) ||
        weight->rank != 2 || weight->dtype != TENON_FLOAT32 || weight->shape[0] < TN_PANEL / 2 ||
        (bias && (bias->rank != 1 || bias->dtype != TENON_FLOAT32 ||
                  bias->shape[0] != weight->shape[0])))
        return false;
    return tn_value_numel(y) / weight->shape[0] >= MIN_ROWS;
}

tenon_status tn_pass_packed(tenon_graph *graph, bool *changed) {
    for (tenon_node *node = graph->first; node; node = tenon_node_next(node)) {
        tenon_tensor *tensor;
        tenon_value *weight;
        if (!fits(node))
            continue;
        const tenon_value *plain = tn_arg_value(node, 1);
        int64_t columns = plain->shape[0];
        TN_TRY(tn_tensor_derive(plain->tensor, "packed", pack, NULL, &tensor));
        TN_TRY(tn_graph_new_constant(graph, plain->name, tensor, &weight));
        tn_post_ops post = tn_post_ops_of(node);
        TN_TRY(tn_fuse(graph, TN_OP_packed_linear, &post,
                       TN_ARGS(node->args[0], VAL(weight), node->args[2],
                               post.residual ? VAL(post.residual) : NIL, INT(columns), BOO(!getenv("NOS") && plain->shape[1]>=192))));
        *changed = true;
    }
    return TENON_OK;
}
