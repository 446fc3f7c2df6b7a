/* Squeeze-and-excitation, and the convolution of the image that it scales.
 *
 *     m -- convolution 1x1 -- [ relu, ... ] -- convolution 1x1 -- [ sigmoid, ... ] --
 *                                                           with m of one pixel
 *     m -- tenon.squeeze_excitation --
 *
 *     x --.-- mul --.-- convolution 1x1 -- [ add(r) ] -- [ relu, ... ] --
 *     s --'
 *
 *     x, s -- tenon.packed_convolution --
 */
#include "fusion/panels.h"
#include "fusion/passes.h"
#include "fusion/post_ops.h"
#include "fusion/rewrite.h"

static tenon_arg bias_of(const tn_convolution *c) {
    return c->bias ? VAL(c->bias) : NIL;
}

/* ---- Squeeze and excitation ---- */

static tenon_status two_layers(tenon_node *node, tn_convolution *one, bool *changed) {
    tn_convolution two;
    tn_post_ops first = tn_post_ops_of(node);
    const tenon_value *hidden = first.nodes[first.count - 1]->outputs[0];
    tenon_node *next = hidden->use_count == 1 ? hidden->uses->node : NULL;
    tenon_value *weight1, *weight2;
    if (one->x->shape[2] != 1 || one->x->shape[3] != 1 || first.residual || !next ||
        !tn_convolution_read(next, one->x->dtype, &two) || !tn_convolution_is_product(&two) ||
        two.x != hidden)
        return TENON_OK;
    tn_post_ops second = tn_post_ops_of(next);
    if (second.residual)
        return TENON_OK;
    TN_TRY(tn_convolution_widen(one));
    TN_TRY(tn_convolution_widen(&two));
    TN_TRY(tn_packed_weight(&one->weight, &weight1));
    TN_TRY(tn_packed_weight(&two.weight, &weight2));
    const tn_activation *a = &first.activation;
    TN_TRY(
        tn_fuse(TN_OP_squeeze_excitation, &second,
                TN_ARGS(VAL(one->x), VAL(weight1), bias_of(one), INT(one->weight.values->shape[0]),
                        tenon_arg_string(tn_activation_text(a->kind)), FLT(a->alpha), FLT(a->beta),
                        VAL(weight2), bias_of(&two), INT(two.weight.values->shape[0]))));
    for (int i = first.count - 1; i >= 0; i--)
        TN_TRY(tenon_node_erase(first.nodes[i]));
    *changed = true;
    return TENON_OK;
}

/* ---- The scaled image ---- */

/* From so many weights on, what scaling costs is little beside the product, for which oneDNN has
 * more ways to keep weights in cache. */
#define MOST_WEIGHTS 400000

static bool is_scale(const tenon_value *s, const tenon_value *x) {
    return s && x && s->rank == 4 && x->rank == 4 && s->dtype == TENON_FLOAT32 &&
           x->dtype == TENON_FLOAT32 && tn_value_static(s) && tn_value_static(x) &&
           s->shape[0] == x->shape[0] && s->shape[1] == x->shape[1] && s->shape[2] == 1 &&
           s->shape[3] == 1;
}

static tenon_status scaled(tenon_node *node, const tn_convolution *c, bool *changed) {
    tenon_node *mul = tn_only_by(c->x, TN_OP_mul_Tensor);
    tenon_value *x = mul ? tn_arg_value(mul, 0) : NULL, *scale = mul ? tn_arg_value(mul, 1) : NULL;
    if (is_scale(x, scale) && !is_scale(scale, x)) {
        tenon_value *other = x;
        x = scale;
        scale = other;
    }
    if (!is_scale(scale, x) || tn_value_numel(c->weight.values) > MOST_WEIGHTS)
        return TENON_OK;
    TN_TRY(tn_convolution_pack(node, c, x, scale));
    TN_TRY(tenon_node_erase(mul));
    *changed = true;
    return TENON_OK;
}

tenon_status tn_pass_squeeze(tenon_graph *graph, bool *changed) {
    for (tenon_node *node = graph->first; node; node = tenon_node_next(node)) {
        tn_convolution c;
        bool found = false;
        if ((!tn_convolution_read(node, TENON_FLOAT32, &c) &&
             !tn_convolution_read(node, TENON_BFLOAT16, &c)) ||
            !tn_convolution_is_product(&c))
            continue;
        TN_TRY(two_layers(node, &c, &found));
        if (!found && c.x->dtype == TENON_FLOAT32)
            TN_TRY(scaled(node, &c, &found));
        *changed |= found;
    }
    return TENON_OK;
}
