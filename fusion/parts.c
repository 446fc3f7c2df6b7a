/* Images that are put together from parts, or taken apart into groups, and what is done to them,
 * as one op each.
 *
 *     a, b -- cat -- channel_shuffle(2) --         tenon.interleave([a, b])
 *
 *     a, b, ... -- cat -- batch_norm -- [ relu, ... ] --
 *                                                  tenon.scaled_cat([a, b, ...], scale, shift,
 * relu)
 *
 *     x -- view [b, r, c, h, w] --.-- sum [1] -- mean [2, 3] --     tenon.split_mean(x, r)
 *                                 '-- mul(s) -- sum [1] --          tenon.split_sum(x, s, r)
 */
#include "fusion/passes.h"
#include "fusion/post_ops.h"
#include "fusion/scaled.h"
#include <math.h>

static bool is_image(const tenon_value *x) {
    return x && tn_value_static(x) && x->rank == 4 && x->dtype == TENON_FLOAT32 &&
           x->scalar == TN_TENSOR && tn_value_numel(x) > 0;
}

/* The images that a cat along the channels has; NULL when `value` is not one, or has other uses. */
static const tenon_arg *cat_of(const tenon_value *value) {
    const tenon_node *cat = tn_only_by(value, TN_OP_cat);
    const tenon_arg *list = cat ? &cat->args[0] : NULL;
    if (!list || list->kind != TENON_ARG_LIST || !(tn_arg_is(cat, 1, 1) || tn_arg_is(cat, 1, -3)))
        return NULL;
    for (int i = 0; i < list->count; i++)
        if (list->as.list[i].kind != TENON_ARG_VALUE || !is_image(list->as.list[i].as.value))
            return NULL;
    return list;
}

static tenon_status shuffle(tenon_node *node, tenon_value **with) {
    const tenon_value *y = node->outputs[0];
    const tenon_arg *list = cat_of(tn_arg_value(node, 0));
    if (!list || !is_image(y) || !y->channels_last || tn_arg_int(node, 1, 0) != list->count)
        return TENON_OK;
    for (int i = 1; i < list->count; i++)
        if (list->as.list[i].as.value->shape[1] != list->as.list[0].as.value->shape[1])
            return TENON_OK;
    TN_TRY(tn_emit(node, TN_OP_interleave, with, TN_ARGS(*list)));
    with[0]->channels_last = true;
    return TENON_OK;
}

/* ---- Split attention ---- */

static bool is_along(const tenon_node *node, int64_t dim) {
    int64_t dims[1];
    return tn_arg_ints(node, 1, dims, 1) == 1 && dims[0] == dim;
}

/* The image [b, r c, h, w] of which `value` is a view [b, r, c, h, w]. */
static tenon_value *split_image(const tenon_value *value) {
    const tenon_node *view = tn_made_by(value, TN_OP_view);
    tenon_value *x = view ? tn_arg_value(view, 0) : NULL;
    const int64_t *shape = value ? value->shape : NULL;
    if (!is_image(x) || !x->channels_last || !tn_value_static(value) || value->rank != 5 ||
        shape[0] != x->shape[0] || shape[3] != x->shape[2] || shape[4] != x->shape[3])
        return NULL;
    return x;
}

static tenon_status split_mean(tenon_node *node, tenon_value **with) {
    const tenon_node *sum = tn_only_by(tn_arg_value(node, 0), TN_OP_sum_dim_IntList);
    const tenon_value *parts = sum ? tn_arg_value(sum, 0) : NULL;
    tenon_value *x = split_image(parts);
    if (!x || !is_along(sum, 1) || tn_arg_bool(sum, 2) || !is_image(sum->outputs[0]) ||
        !is_image(node->outputs[0]) || !tn_is_image_mean(node))
        return TENON_OK;
    TN_TRY(tn_emit(node, TN_OP_split_mean, with, TN_ARGS(VAL(x), INT(parts->shape[1]))));
    with[0]->channels_last = node->outputs[0]->channels_last;
    return TENON_OK;
}

static bool scales(const tenon_value *s, const tenon_value *parts) {
    return s && tn_value_static(s) && s->dtype == TENON_FLOAT32 && s->rank == 5 &&
           s->shape[0] == parts->shape[0] && s->shape[1] == parts->shape[1] &&
           s->shape[2] == parts->shape[2] && s->shape[3] == 1 && s->shape[4] == 1;
}

static tenon_status split_sum(tenon_node *node, tenon_value **with) {
    const tenon_value *y = node->outputs[0];
    const tenon_node *mul = tn_only_by(tn_arg_value(node, 0), TN_OP_mul_Tensor);
    if (!mul || !is_image(y) || !y->channels_last || !is_along(node, 1) || tn_arg_bool(node, 2))
        return TENON_OK;
    for (int i = 0; i < 2; i++) {
        const tenon_value *parts = tn_arg_value(mul, i);
        tenon_value *x = split_image(parts), *s = tn_arg_value(mul, 1 - i);
        if (!x || !scales(s, parts))
            continue;
        TN_TRY(tn_emit(node, TN_OP_split_sum, with, TN_ARGS(VAL(x), VAL(s), INT(parts->shape[1]))));
        with[0]->channels_last = true;
        break;
    }
    return TENON_OK;
}

/* ---- Batch norm of parts ---- */

static bool is_norm(const tenon_node *node) {
    const tenon_value *x = tn_arg_value(node, 0), *y = node->outputs[0];
    if (!is_image(x) || !is_image(y) || !y->channels_last || node->outputs[1]->use_count ||
        node->outputs[2]->use_count)
        return false;
    for (int i = 1; i < 5; i++)
        if (!tn_is_channel_vector(node, i, x->shape[1], i < 3))
            return false;
    return true;
}

/* scale = gamma / sqrt(var + eps), shift = beta - mean * scale */
static tenon_status norm_constants(const tenon_node *node, tenon_value **scale,
                                   tenon_value **shift) {
    tenon_tensor *a = NULL, *b = NULL;
    int64_t channels = node->outputs[0]->shape[1];
    double eps = tn_arg_float(node, 6, 0);
    TN_TRY(tenon_tensor_create(TENON_FLOAT32, 1, &channels, &a));
    tenon_status status = tenon_tensor_create(TENON_FLOAT32, 1, &channels, &b);
    if (status != TENON_OK) {
        tenon_tensor_destroy(&a);
        return status;
    }
    for (int64_t c = 0; c < channels; c++) {
        double factor = tn_channel_element(tn_arg_value(node, 1), c, 1) /
                        sqrt(tn_channel_element(tn_arg_value(node, 4), c, 0) + eps);
        ((float *)a->view.data)[c] = (float)factor;
        ((float *)b->view.data)[c] =
            (float)(tn_channel_element(tn_arg_value(node, 2), c, 0) -
                    tn_channel_element(tn_arg_value(node, 3), c, 0) * factor);
    }
    status = tn_graph_new_constant(node->graph, "scale", a, scale);
    if (status != TENON_OK) {
        tenon_tensor_destroy(&b);
        return status;
    }
    return tn_graph_new_constant(node->graph, "shift", b, shift);
}

static tenon_status norm(tenon_node *node, bool *changed) {
    tenon_value *x = tn_arg_value(node, 0), *scale, *shift;
    const tenon_arg *list = cat_of(x);
    tenon_node *cat = list ? x->node : NULL;
    tenon_arg alone[1] = {VAL(x)};
    if (!is_norm(node))
        return TENON_OK;
    tn_post_ops post = tn_post_ops_of(node);
    if (post.residual)
        post = (tn_post_ops){.nodes = {node}, .count = 1};
    TN_TRY(norm_constants(node, &scale, &shift));
    TN_TRY(tn_fuse(TN_OP_scaled_cat, &post,
                   TN_ARGS(list ? *list : tenon_arg_list(alone, 1), VAL(scale), VAL(shift))));
    if (cat)
        TN_TRY(tenon_node_erase(cat));
    *changed = true;
    return TENON_OK;
}

tenon_status tn_pass_parts(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {{TN_OP_channel_shuffle, shuffle},
                                    {TN_OP_mean_dim, split_mean},
                                    {TN_OP_sum_dim_IntList, split_sum}};
    for (tenon_node *node = graph->first; node; node = tenon_node_next(node))
        if (tn_node_is(node, TN_OP_native_batch_norm_legit_no_training))
            TN_TRY(norm(node, changed));
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
