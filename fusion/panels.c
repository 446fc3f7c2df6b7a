#include "fusion/panels.h"
#include "core/derive.h"
#include "core/packed.h"
#include "fusion/rewrite.h"
#include <string.h>

tenon_status tn_pack_panels(const tenon_view *from, const void *panels, tenon_tensor **out) {
    int64_t n = from->shape[0], k = tenon_view_numel(from) / n;
    int64_t row = from->strides[0], inner = from->rank == 2 ? from->strides[1] : 1;
    int64_t shape[3] = {*(const int64_t *)panels, k, TN_PANEL};
    const float *w = from->data;
    tenon_tensor *made;
    TN_TRY(tenon_tensor_create(TENON_FLOAT32, 3, shape, &made));
    float *to = made->view.data;
    for (int64_t i = 0; i < n; i += TN_PANEL, to += k * TN_PANEL) {
        int64_t count = n - i < TN_PANEL ? n - i : TN_PANEL;
        for (int64_t j = 0; j < k; j++)
            for (int64_t c = 0; c < count; c++)
                to[j * TN_PANEL + c] = w[(i + c) * row + j * inner];
    }
    *out = made;
    return TENON_OK;
}

tenon_status tn_packed_weight(const tenon_value *weight, tenon_value **out) {
    tenon_tensor *tensor;
    int64_t panels = (weight->shape[0] + TN_PANEL - 1) / TN_PANEL;
    TN_TRY(tn_tensor_derive(weight->tensor, "panels", tn_pack_panels, &panels, &tensor));
    return tn_graph_new_constant(weight->graph, weight->name, tensor, out);
}

bool tn_convolution_read(const tenon_node *node, tenon_dtype dtype, tn_convolution *c) {
    int64_t dilation[2];
    bool padded = tn_node_is(node, TN_OP_padded_convolution);
    if (!padded && !tn_node_is(node, TN_OP_convolution))
        return false;
    const tenon_value *y = node->outputs[0];
    c->x = tn_arg_value(node, 0);
    c->weight = tn_arg_value(node, 1);
    c->bias = tn_arg_value(node, 2);
    if (tn_arg_bool(node, 6) || !c->x || !tn_value_static(c->x) || c->x->rank != 4 ||
        c->x->dtype != dtype || tn_value_numel(c->x) < 1 || !tn_value_static(y) ||
        !y->channels_last || !tn_is_constant(c->weight) || c->weight->dtype != dtype ||
        !tenon_view_is_contiguous(&c->weight->tensor->view) ||
        (c->bias ? c->bias->dtype != dtype : !tn_arg_is_none(node, 2)) ||
        tn_arg_ints_of(node, 3, c->stride, 2) != 2 || tn_arg_ints_of(node, 4, c->padding, 2) != 2 ||
        tn_arg_ints_of(node, padded ? 9 : 4, c->padding + 2, 2) != 2 ||
        tn_arg_ints_of(node, 5, dilation, 2) != 2 || dilation[0] != 1 || dilation[1] != 1)
        return false;
    c->groups = tn_arg_int(node, 8, 1);
    c->kernel[0] = c->weight->shape[2];
    c->kernel[1] = c->weight->shape[3];
    return true;
}

bool tn_convolution_is_product(const tn_convolution *c) {
    static const int64_t zeros[4] = {0};
    return c->groups == 1 && c->kernel[0] == 1 && c->kernel[1] == 1 && c->stride[0] == 1 &&
           c->stride[1] == 1 && memcmp(c->padding, zeros, sizeof zeros) == 0;
}

tenon_status tn_convolution_widen(tn_convolution *c) {
    TN_TRY(tn_widened(c->weight, &c->weight));
    return tn_widened(c->bias, &c->bias);
}
