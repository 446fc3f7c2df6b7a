#include "fusion/post_ops.h"
#include "fusion/rewrite.h"
#include <math.h>
#include <string.h>

/* The only node that uses output 0 of `node`, when it can join it. */
static tenon_node *next_of(const tenon_node *node) {
    const tenon_value *value = node->outputs[0];
    tenon_node *next = value->use_count == 1 ? value->uses->node : NULL;
    const tenon_value *out = next && next->output_count == 1 ? next->outputs[0] : NULL;
    bool known = value->dtype == TENON_FLOAT32 || value->dtype == TENON_BFLOAT16;
    return known && out && out->dtype == value->dtype && tn_same_sizes(out, value) &&
                   out->channels_last == value->channels_last
               ? next
               : NULL;
}

static tenon_value *residual_of(const tenon_node *add, const tenon_value *value) {
    if (!tn_node_is(add, TN_OP_add_Tensor) || !tn_arg_is(add, 2, 1))
        return NULL;
    tenon_value *a = tn_arg_value(add, 0), *b = tn_arg_value(add, 1);
    tenon_value *other = a == value ? b : a;
    return other && other != value && other->scalar == TN_TENSOR && other->dtype == value->dtype &&
                   tn_same_sizes(other, value) &&
                   (other->channels_last || other->kind != TENON_VALUE_NODE) == value->channels_last
               ? other
               : NULL;
}

/* Clamps to [low, high], either of which may be missing. */
static bool clamp_of(const tenon_node *node, int low, int high, tn_activation *a) {
    double from = -INFINITY, to = INFINITY;
    if ((low >= 0 && !tn_arg_is_none(node, low) && !tn_arg_number(node, low, &from)) ||
        (high >= 0 && !tn_arg_is_none(node, high) && !tn_arg_number(node, high, &to)) ||
        !(from <= to))
        return false;
    *a = (tn_activation){TN_ACT_CLAMP, (float)from, (float)to};
    return true;
}

static bool activation_of(const tenon_node *node, tn_activation *a) {
    double alpha = 0;
    *a = (tn_activation){TN_ACT_NONE};
    switch (node->op->id) {
    case TN_OP_relu:
        a->kind = TN_ACT_RELU;
        return true;
    case TN_OP_relu6:
        *a = (tn_activation){TN_ACT_CLAMP, 0, 6};
        return true;
    case TN_OP_hardtanh:
    case TN_OP_clamp:
        return clamp_of(node, 1, 2, a);
    case TN_OP_clamp_min:
        return clamp_of(node, 1, -1, a);
    case TN_OP_clamp_max:
        return clamp_of(node, -1, 1, a);
    case TN_OP_leaky_relu:
        *a = (tn_activation){TN_ACT_LEAKY_RELU};
        if (!tn_arg_number(node, 1, &alpha))
            return false;
        a->alpha = (float)alpha;
        return true;
    case TN_OP_hardswish:
        a->kind = TN_ACT_HARDSWISH;
        return true;
    case TN_OP_hardsigmoid:
        a->kind = TN_ACT_HARDSIGMOID;
        return true;
    case TN_OP_sigmoid:
        a->kind = TN_ACT_SIGMOID;
        return true;
    case TN_OP_silu:
        a->kind = TN_ACT_SILU;
        return true;
    case TN_OP_gelu:
        a->kind = strcmp(tn_arg_string(node, 1), "tanh") == 0 ? TN_ACT_GELU_TANH : TN_ACT_GELU;
        return true;
    case TN_OP_tanh:
        a->kind = TN_ACT_TANH;
        return true;
    case TN_OP_elu:
        *a = (tn_activation){TN_ACT_ELU};
        if (!tn_arg_number(node, 1, &alpha) || !tn_arg_is(node, 2, 1) || !tn_arg_is(node, 3, 1))
            return false;
        a->alpha = (float)alpha;
        return true;
    default:
        return false;
    }
}

tn_post_ops tn_post_ops_of(tenon_node *node) {
    tn_post_ops post = {.nodes = {node}, .count = 1};
    tn_activation activation;
    tenon_node *next = next_of(node);
    post.residual = next ? residual_of(next, node->outputs[0]) : NULL;
    if (post.residual) {
        post.nodes[post.count++] = next;
        next = next_of(next);
    }
    if (next && tn_arg_value(next, 0) == post.nodes[post.count - 1]->outputs[0] &&
        activation_of(next, &activation)) {
        post.activation = activation;
        post.nodes[post.count++] = next;
    }
    return post;
}

tenon_status tn_fuse(enum tn_op_id op, const tn_post_ops *post, const tenon_arg *args, int count) {
    tenon_arg all[TN_MAX_FUSED_ARGS];
    tenon_node *last = post->nodes[post->count - 1];
    tenon_value *fused, *old = last->outputs[0];
    memcpy(all, args, (size_t)count * sizeof *args);
    all[count] = tenon_arg_string(tn_activation_text(post->activation.kind));
    all[count + 1] = FLT(post->activation.alpha);
    all[count + 2] = FLT(post->activation.beta);
    TN_TRY(tn_emit(last, op, &fused, all, count + 3));
    fused->channels_last = old->channels_last;
    TN_TRY(tenon_value_replace(old, fused));
    tenon_node_copy_source(fused->node, last);
    fused->node->name = last->name;
    fused->node->choice = last->choice;
    for (int i = post->count - 1; i >= 0; i--)
        TN_TRY(tenon_node_erase(post->nodes[i]));
    return TENON_OK;
}
