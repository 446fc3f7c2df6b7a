/* Linear layers that Tenon's own product computes sooner than oneDNN.
 *
 *     x -- linear(w, b) --.-- [ add(r) ] --.-- [ gelu, ... ] --
 *
 *     x -- tenon.packed_linear(packed w, b, r, activation) --
 *
 * The weight is a constant, and packed once (core/packed.h). Large ones are multiplied by
 * Strassen's method, which takes seven products of quarters for eight; errors about double.
 */
#include "core/packed.h"
#include "core/derive.h"
#include "fusion/choose.h"
#include "fusion/panels.h"
#include "fusion/passes.h"
#include "fusion/post_ops.h"
#include "fusion/rewrite.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* ---- Strassen's product ----
 *
 * Columns of the product are added to those half of the panels further on (kernels/packed.c), and
 * errors in one grow with the other: the largest weights of the two must be within a factor of 16.
 */

static int exponent_of(const tenon_view *w, int64_t row) {
    float most = 0;
    int exponent = 0;
    for (int64_t j = 0; j < w->shape[1]; j++) {
        float x = fabsf(((const float *)w->data)[row * w->strides[0] + j * w->strides[1]]);
        most = x > most || isnan(x) ? x : most;
    }
    if (!isfinite(most))
        return INT_MAX;
    frexpf(most, &exponent);
    return most == 0 ? INT_MIN : exponent;
}

/* One truth value: whether all pairs are alike. */
static tenon_status compare_pairs(const tenon_view *from, const void *user, tenon_tensor **out) {
    int64_t half = tn_packed_panels(from->shape[0]) / 2 * TN_PANEL;
    bool alike = true;
    (void)user;
    TN_TRY(tenon_tensor_create(TENON_BOOL, 0, NULL, out));
    for (int64_t i = 0; alike && i + half < from->shape[0]; i++) {
        int a = exponent_of(from, i), b = exponent_of(from, i + half);
        alike = a != INT_MAX && b != INT_MAX && a != INT_MIN && b != INT_MIN && abs(a - b) <= 4;
    }
    *(uint8_t *)(*out)->view.data = alike;
    return TENON_OK;
}

static tenon_status are_alike(const tenon_value *weight, bool *alike) {
    tenon_tensor *truth;
    TN_TRY(tn_tensor_derive(weight->tensor, "packed pairs", compare_pairs, NULL, &truth));
    *alike = *(const uint8_t *)truth->view.data;
    tenon_tensor_destroy(&truth);
    return TENON_OK;
}

/* ---- The choice ---- */

/* In the order of their names. */
enum { ONEDNN, PACKED, HALVED };
static const char *const ways[] = {"oneDNN", "packed", "Strassen"};

/* Measured on AVX-512: with few products a partition is as fast; with a few rows and many products
 * memory is what both wait for; and below some sizes what Strassen's method adds takes as long as
 * what it saves. */
#define MIN_PRODUCTS 524288.0
#define FEW_ROWS 8
#define MOST_WEIGHTS 8388608 /* for a few rows */
#define MIN_HALVED_ROWS 32
#define MIN_HALVED_DEPTH 192
/* What measuring may choose begins lower. */
#define LEAST_PRODUCTS 131072.0

static int64_t rows_of(const tenon_node *node) {
    return tn_value_numel(node->outputs[0]) / tn_arg_value(node, 1)->shape[0];
}

static double products_of(const tenon_node *node) {
    return (double)tn_value_numel(node->outputs[0]) * (double)tn_arg_value(node, 1)->shape[1];
}

static bool fits(const tenon_node *node) {
    if (!tn_node_is(node, TN_OP_linear))
        return false;
    const tenon_value *x = tn_arg_value(node, 0), *weight = tn_arg_value(node, 1);
    const tenon_value *bias = tn_arg_value(node, 2), *y = node->outputs[0];
    if (!tn_value_static(x) || !tn_value_static(y) || x->dtype != TENON_FLOAT32 || y->rank < 1 ||
        !tn_is_constant(weight) || weight->rank != 2 || weight->dtype != TENON_FLOAT32 ||
        weight->shape[0] < TN_PANEL ||
        (bias &&
         (bias->rank != 1 || bias->dtype != TENON_FLOAT32 || bias->shape[0] != weight->shape[0])))
        return false;
    return products_of(node) >= LEAST_PRODUCTS;
}

static bool pays(const tenon_node *node) {
    return products_of(node) >= MIN_PRODUCTS &&
           (rows_of(node) >= FEW_ROWS || tn_value_numel(tn_arg_value(node, 1)) <= MOST_WEIGHTS);
}

static bool may_halve(const tenon_node *node) {
    const tenon_value *weight = tn_arg_value(node, 1);
    return rows_of(node) >= MIN_HALVED_ROWS && weight->shape[1] >= MIN_HALVED_DEPTH &&
           weight->shape[1] % 2 == 0 && tn_packed_panels(weight->shape[0]) >= TN_PAIRS;
}

static tenon_status rewrite(tenon_graph *graph, tenon_node *node, int way) {
    const tenon_value *plain = tn_arg_value(node, 1);
    tenon_tensor *tensor;
    tenon_value *weight;
    int64_t columns = plain->shape[0];
    tn_packing packing = {.panels = tn_packed_panels(columns)};
    TN_TRY(tn_tensor_derive(plain->tensor, "packed", tn_pack_panels, &packing, &tensor));
    TN_TRY(tn_graph_new_constant(graph, plain->name, tensor, &weight));
    tn_post_ops post = tn_post_ops_of(node);
    return tn_fuse(TN_OP_packed_linear, &post,
                   TN_ARGS(node->args[0], VAL(weight), node->args[2],
                           post.residual ? VAL(post.residual) : NIL, INT(columns),
                           BOO(way == HALVED)));
}

static tenon_status choose(tenon_graph *graph, tenon_node *node, int *way) {
    bool halves = false;
    if (may_halve(node) && (pays(node) || graph->chooser))
        TN_TRY(are_alike(tn_arg_value(node, 1), &halves));
    int usual = !pays(node) ? ONEDNN : halves ? HALVED : PACKED;
    tn_post_ops post = tn_post_ops_of(node);
    return tn_choose(graph,
                     &(tn_choice){.nodes = post.nodes,
                                  .node_count = post.count,
                                  .ways = ways,
                                  .way_count = halves ? HALVED + 1 : PACKED + 1,
                                  .usual = usual,
                                  .apply = rewrite},
                     way);
}

/* ---- The pass ---- */

tenon_status tn_pass_packed(tenon_graph *graph, bool *changed) {
    for (tenon_node *node = graph->first; node; node = tenon_node_next(node)) {
        int way = ONEDNN;
        if (fits(node))
            TN_TRY(choose(graph, node, &way));
        if (way == ONEDNN)
            continue;
        TN_TRY(rewrite(graph, node, way));
        *changed = true;
    }
    return TENON_OK;
}
