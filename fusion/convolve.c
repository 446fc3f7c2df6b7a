/* Convolutions that Tenon's own kernel computes with packed weights.
 *
 *     x -- convolution(w, b) --.-- [ add(r) ] --.-- [ relu, ... ] --
 *
 *     x -- tenon.packed_convolution(packed w, b, r, activation) --
 *
 * Up to some size it is as fast as oneDNN's, and needs less of all else: the weight is in memory
 * once, scaled by a batch norm on the way, and nothing is compiled.
 */
#include "fusion/choose.h"
#include "fusion/panels.h"
#include "fusion/passes.h"
#include "fusion/post_ops.h"
#include "fusion/rewrite.h"

/* With fewer channels, those of a picture, gathering takes longer than oneDNN's ways around it. */
#define MIN_CHANNELS 16
/* With more multiplications, those of batches, oneDNN's is up to a tenth faster: measured, batches
 * of 8 images of ResNet-50. */
#define MOST_PRODUCTS 134217728.0

static bool pays(const tenon_node *node, const tn_convolution *c) {
    const tenon_value *weight = c->weight.values;
    double products = (double)tn_value_numel(node->outputs[0]) * (double)tn_value_numel(weight) /
                      (double)weight->shape[0];
    return weight->shape[1] >= MIN_CHANNELS && products <= MOST_PRODUCTS;
}

static bool read(const tenon_node *node, tn_convolution *c) {
    return tn_convolution_read(node, TENON_FLOAT32, c) && c->groups == 1;
}

static tenon_status apply(tenon_graph *graph, tenon_node *node, int way) {
    tn_convolution c;
    (void)graph;
    (void)way;
    return read(node, &c) ? tn_convolution_pack(node, &c, c.x, NULL) : TENON_OK;
}

static tenon_status choose(tenon_graph *graph, tenon_node *node, const tn_convolution *c,
                           int *way) {
    static const char *const ways[] = {"oneDNN", "packed"};
    tn_post_ops post = tn_post_ops_of(node);
    return tn_choose(graph,
                     &(tn_choice){.nodes = post.nodes,
                                  .node_count = post.count,
                                  .ways = ways,
                                  .way_count = TN_COUNT(ways),
                                  .usual = pays(node, c),
                                  .apply = apply},
                     way);
}

tenon_status tn_pass_convolve(tenon_graph *graph, bool *changed) {
    for (tenon_node *node = graph->first; node; node = tenon_node_next(node)) {
        tn_convolution c;
        int way = 0;
        if (read(node, &c))
            TN_TRY(choose(graph, node, &c, &way));
        if (!way)
            continue;
        TN_TRY(tn_convolution_pack(node, &c, c.x, NULL));
        *changed = true;
    }
    return TENON_OK;
}
