/* Convolutions of one channel a group, with what stands around them, as one op.
 *
 *     x -- [ convolution 1x1 -- [ silu, ... ] ] -- convolution, groups = channels -- [ silu, ... ]
 * --.--
 *                                                                                                    '--
 * mean --
 *
 *     x -- tenon.depthwise_convolution --.-- y
 *                                        '-- mean
 *
 * The image between the two convolutions is never in memory. In bfloat16 the 1x1 convolution stays
 * oneDNN's, and only the activation behind it becomes part of the op.
 */
#include "core/packed.h"
#include "fusion/choose.h"
#include "fusion/panels.h"
#include "fusion/passes.h"
#include "fusion/post_ops.h"
#include "fusion/rewrite.h"

/* ---- Matching ---- */

static bool is_depthwise(const tn_convolution *c) {
    return c->groups > 1 && c->x->shape[1] == c->groups &&
           c->weight.values->shape[0] == c->groups && c->kernel[0] <= TN_DEPTHWISE_TAPS &&
           c->kernel[1] <= TN_DEPTHWISE_TAPS;
}

/* Whether all of `c->x` is a 1x1 convolution, and maybe an activation, that nothing else reads. */
static bool find_expansion(const tn_convolution *c, tn_convolution *expand, tn_post_ops *post) {
    tenon_node *node = c->x->node;
    if (!node || c->x->use_count != 1)
        return false;
    if (!tn_convolution_read(node, TENON_FLOAT32, expand)) {
        const tenon_value *before = node->use_count > 0 ? node->uses[0].value : NULL;
        node = before ? before->node : NULL;
        if (!node || !tn_convolution_read(node, TENON_FLOAT32, expand))
            return false;
    }
    if (!tn_convolution_is_product(expand))
        return false;
    *post = tn_post_ops_of(node);
    return !post->residual && post->nodes[post->count - 1]->outputs[0] == c->x;
}

/* An activation alone whose result nothing but the convolution reads. */
static void find_activation(const tn_convolution *c, tn_post_ops *post) {
    tenon_node *node = c->x->node;
    const tenon_value *before = node && node->use_count == 1 ? node->uses[0].value : NULL;
    if (c->x->use_count != 1 || !before || !before->node || before->index != 0)
        return;
    tn_post_ops found = tn_post_ops_of(before->node);
    if (!found.residual && found.count == 2 && found.nodes[1] == node)
        *post = (tn_post_ops){.activation = found.activation, .nodes = {node}, .count = 1};
}

/* A mean over the image among the users of `y`, with its dimensions kept. */
static tenon_node *find_mean(const tenon_value *y) {
    for (const tn_use *use = y->uses; use; use = use->next) {
        if (tn_is_image_mean(use->node) && use->node->outputs[0]->dtype == y->dtype)
            return use->node;
    }
    return NULL;
}

/* What can be one op. */
typedef struct chain {
    tn_convolution c, expand;
    tn_post_ops before, post; /* of `expand`, or the activation in front alone; and of `c` */
    bool expands, narrow;     /* narrow: in bfloat16 */
    tenon_node *mean;         /* NULL: there is none */
} chain;

static bool find_chain(tenon_node *node, chain *found) {
    *found = (chain){0};
    found->narrow = tn_convolution_read(node, TENON_BFLOAT16, &found->c);
    if ((!found->narrow && !tn_convolution_read(node, TENON_FLOAT32, &found->c)) ||
        !is_depthwise(&found->c))
        return false;
    found->expands = !found->narrow && find_expansion(&found->c, &found->expand, &found->before);
    if (!found->expands)
        found->before = (tn_post_ops){0};
    if (found->narrow)
        find_activation(&found->c, &found->before);
    found->post = tn_post_ops_of(node);
    if (found->post.residual)
        found->post = (tn_post_ops){.nodes = {node}, .count = 1};
    found->mean = find_mean(found->post.nodes[found->post.count - 1]->outputs[0]);
    return true;
}

/* ---- Rewriting ---- */

/* In the order of their names. */
enum { APART, JOINED, ALONE };
static const char *const ways[] = {"apart", "joined", "joined without the 1x1"};

static tenon_status rewrite(const chain *m, int way) {
    tn_convolution wide = m->c;
    const tn_convolution *c = &wide;
    tn_post_ops before = way == JOINED ? m->before : (tn_post_ops){0};
    tenon_value *x = before.count ? tn_arg_value(before.nodes[0], 0) : c->x;
    tenon_value *weight, *expand_weight = NULL;
    tenon_arg kernel[2], stride[2], padding[4];
    bool expands = m->expands && way == JOINED;
    TN_TRY(tn_convolution_widen(&wide));
    TN_TRY(tn_packed_weight(&c->weight, &weight));
    if (expands)
        TN_TRY(tn_packed_weight(&m->expand.weight, &expand_weight));
    const tn_activation *a = &before.activation;
    TN_TRY(tn_fuse(TN_OP_depthwise_convolution, &m->post,
                   TN_ARGS(VAL(x), expands ? VAL(expand_weight) : NIL,
                           expands && m->expand.bias ? VAL(m->expand.bias) : NIL,
                           tenon_arg_string(tn_activation_text(a->kind)), FLT(a->alpha),
                           FLT(a->beta), VAL(weight), c->bias ? VAL(c->bias) : NIL, INT(c->groups),
                           tn_ints(kernel, c->kernel, 2), tn_ints(stride, c->stride, 2),
                           tn_ints(padding, c->padding, 4))));
    for (int i = before.count - 1; i >= 0; i--)
        TN_TRY(tenon_node_erase(before.nodes[i]));
    if (m->mean) {
        TN_TRY(
            tenon_value_replace(m->mean->outputs[0], tn_arg_value(m->mean, 0)->node->outputs[1]));
        TN_TRY(tenon_node_erase(m->mean));
    }
    return TENON_OK;
}

/* ---- The choice ---- */

/* Images of so many pixels at most. */
#define FEW_PIXELS 196

static bool is_clamp(const tn_activation *a) {
    return a->kind <= TN_ACT_CLAMP;
}

/* Measured at batch 1: means, and activations other than clamps, take oneDNN longer; a 1x1
 * convolution pays where it makes a larger image, which then stays in cache, and oneDNN does not
 * join it with other windows than 3x3, nor soon in small images. Depthwise convolutions alone are
 * as fast there. */
static bool pays(const chain *m) {
    const tn_convolution *c = &m->c;
    if (m->narrow) /* oneDNN computes all but sigmoids as fast */
        return m->before.activation.kind == TN_ACT_SILU || m->post.activation.kind == TN_ACT_SILU;
    if (m->mean || !is_clamp(&m->post.activation))
        return true;
    return m->expands && (c->groups >= 2 * m->expand.x->shape[1] ||
                          !is_clamp(&m->before.activation) || c->kernel[0] != 3 ||
                          c->kernel[1] != 3 || c->x->shape[2] * c->x->shape[3] <= FEW_PIXELS);
}

static tenon_status apply(tenon_graph *graph, tenon_node *node, int way) {
    chain m;
    (void)graph;
    return find_chain(node, &m) ? rewrite(&m, way) : TENON_OK;
}

static tenon_status choose(tenon_graph *graph, const chain *m, int *way) {
    tenon_node *nodes[TN_COUNT(m->before.nodes) + TN_COUNT(m->post.nodes) + 1];
    int count = 0;
    for (int i = 0; i < m->before.count; i++)
        nodes[count++] = m->before.nodes[i];
    int root = count;
    for (int i = 0; i < m->post.count; i++)
        nodes[count++] = m->post.nodes[i];
    if (m->mean)
        nodes[count++] = m->mean;
    return tn_choose(graph,
                     &(tn_choice){.nodes = nodes,
                                  .node_count = count,
                                  .root = root,
                                  .ways = ways,
                                  .way_count = m->expands ? ALONE + 1 : JOINED + 1,
                                  .usual = pays(m) ? JOINED : APART,
                                  .apply = apply},
                     way);
}

tenon_status tn_pass_depthwise(tenon_graph *graph, bool *changed) {
    for (tenon_node *node = graph->first; node; node = tenon_node_next(node)) {
        chain m;
        int way = APART;
        if (find_chain(node, &m))
            TN_TRY(choose(graph, &m, &way));
        if (way == APART)
            continue;
        TN_TRY(rewrite(&m, way));
        *changed = true;
    }
    return TENON_OK;
}
