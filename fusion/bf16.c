/* Products in bfloat16, as torch.autocast("cpu", dtype=torch.bfloat16) has them.
 *
 *     x -- linear(w, b)        ->     x -- to bfloat16 -- linear(w in bfloat16, b in bfloat16)
 *
 * Convolutions, linear layers, products of matrices and attention take bfloat16 and give it (they accumulate in float32). Elementwise ops,
 * views, pools and cat go on in what they are given, by the usual promotion. Everything else (norms, softmax, reductions, indexing) gets
 * float32, and so do the graph's outputs, which keep the dtypes that the model declares.
 *
 * Weights are converted once a model (bf16_weights: a constant in bfloat16, and a cast back that the second pass takes away); the rest is done
 * for each set of shapes, when dtypes can be inferred again.
 */
#include "fusion/bf16.h"
#include "fusion/rewrite.h"
#include <stdlib.h>
#include <string.h>

static bool is_product(const tenon_node *node) {
    switch (node->op->id) {
    case TN_OP_convolution:
    case TN_OP_linear:
    case TN_OP_mm:
    case TN_OP_bmm:
    case TN_OP_addmm:
    case TN_OP_baddbmm:
    case TN_OP_matmul:
    case TN_OP_scaled_dot_product_attention:
        return true;
    default:
        return false;
    }
}

/* ---- Weights ---- */

static tenon_status constant_as(const tenon_value *value, tenon_dtype dtype, tenon_value **out) {
    const tenon_view *from = &value->tensor->view;
    tenon_tensor *tensor = NULL;
    TN_TRY(tenon_tensor_create(dtype, from->rank, from->shape, &tensor));
    tenon_status status = tenon_view_copy(&tensor->view, from);
    if (status != TENON_OK) {
        tenon_tensor_destroy(&tensor);
        return status;
    }
    return tn_emit_constant(value->graph, value->name, tensor, out);
}

static tenon_status convert_weight(tn_use *use, tenon_node *node, bool *changed) {
    tenon_value *weight = use->value, *twin, *back;
    if (!tn_is_constant(weight) || weight->dtype != TENON_FLOAT32 || weight->rank < 2)
        return TENON_OK;
    TN_TRY(constant_as(weight, TENON_BFLOAT16, &twin));
    TN_TRY(tn_emit(node, TN_OP_to_copy, &back, TN_ARGS(VAL(twin), DTY(TENON_FLOAT32))));
    tn_use_set(use, back);
    *changed = true;
    return TENON_OK;
}

static tenon_status pass_weights(tenon_graph *graph, bool *changed, void *user) {
    (void)user;
    for (tenon_node *node = graph->first; node; node = node->next)
        for (int i = 0; is_product(node) && i < node->use_count; i++)
            TN_TRY(convert_weight(&node->uses[i], node, changed));
    tn_graph_drop_constants(graph);
    return TENON_OK;
}

/* ---- Everything else ---- */

typedef struct casts {
    tenon_value **low, **high; /* by value id: the value in bfloat16, in float32 */
    int32_t count;
} casts;

static bool keeps_dtype(const tenon_node *node) {
    switch (node->op->id) {
    case TN_OP_max_pool2d:
    case TN_OP_max_pool2d_with_indices:
    case TN_OP_avg_pool2d:
    case TN_OP_channel_shuffle:
    case TN_OP_constant_pad_nd:
        return true;
    case TN_OP_cat: /* of one dtype */
        for (int i = 1; i < node->use_count; i++)
            if (node->uses[i].value->dtype != node->uses[0].value->dtype)
                return false;
        return true;
    case TN_OP_to_copy:
        return false;
    default:
        return node->op->kind == TN_OP_VIEW || tn_is_elementwise(node->op->id);
    }
}

/* The value as `dtype`: an earlier cast, what a cast was made of, or a new cast. */
static tenon_status as(casts *c, tenon_node *at, tenon_value *value, tenon_dtype dtype,
                       tenon_value **out) {
    tenon_value **kept = dtype == TENON_BFLOAT16 ? c->low : c->high;
    const tenon_node *cast = tn_made_by(value, TN_OP_to_copy);
    if (cast && dtype == TENON_BFLOAT16 && tn_arg_value(cast, 0)->dtype == dtype) {
        *out = tn_arg_value(cast, 0);
        return TENON_OK;
    }
    if (value->id < c->count && kept[value->id]) {
        *out = kept[value->id];
        return TENON_OK;
    }
    if (tn_is_constant(value))
        TN_TRY(constant_as(value, dtype, out));
    else
        TN_TRY(tn_emit_cast(at, value, dtype, out));
    if (value->id < c->count)
        kept[value->id] = *out;
    return TENON_OK;
}

/* Arguments of one dtype become another. */
static tenon_status convert(casts *c, tenon_node *node, tenon_dtype from, tenon_dtype to) {
    for (int i = 0; i < node->use_count; i++) {
        tenon_value *value = node->uses[i].value, *other;
        if (value->dtype != from || value->scalar != TN_TENSOR)
            continue;
        TN_TRY(as(c, node, value, to, &other));
        tn_use_set(&node->uses[i], other);
    }
    return TENON_OK;
}

/* Casts that the model itself has stay what they are; the dtype of others follows their arguments. */
static tenon_status visit(casts *c, tenon_node *node) {
    bool floats = node->output_count > 0 && node->outputs[0]->dtype == TENON_FLOAT32;
    if (is_product(node) && floats)
        TN_TRY(convert(c, node, TENON_FLOAT32, TENON_BFLOAT16));
    else if (!node->mark && !keeps_dtype(node))
        TN_TRY(convert(c, node, TENON_BFLOAT16, TENON_FLOAT32));
    return tn_node_infer(node);
}

static tenon_status restore(casts *c, tenon_graph *graph, tn_use *use, tenon_dtype dtype) {
    tenon_value *cast;
    (void)c;
    if (!use || use->value->dtype == dtype)
        return TENON_OK;
    TN_TRY(tn_graph_emit(graph, NULL, TN_OP_to_copy, NULL, use->value->node,
                         TN_ARGS(VAL(use->value), DTY(dtype)), &cast));
    tn_use_set(use, cast);
    return TENON_OK;
}

static tenon_status run(casts *c, tenon_graph *graph, tenon_dtype *declared) {
    for (int i = 0; i < graph->output_count; i++)
        if (graph->outputs[i].use)
            declared[i] = graph->outputs[i].use->value->dtype;
    for (tenon_node *node = graph->first; node; node = node->next) /* values that are bfloat16 already */
        node->mark = node->output_count > 0 && node->outputs[0]->dtype == TENON_BFLOAT16;
    for (tenon_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        TN_TRY(visit(c, node));
    }
    for (int i = 0; i < graph->output_count; i++)
        TN_TRY(restore(c, graph, graph->outputs[i].use, declared[i]));
    for (int i = 0; i < graph->write_count; i++)
        TN_TRY(restore(c, graph, graph->writes[i].use, graph->writes[i].target->dtype));
    return TENON_OK;
}

static tenon_status pass_products(tenon_graph *graph, bool *changed, void *user) {
    (void)user;
    for (const tenon_node *node = graph->first; node; node = node->next)
        *changed |= is_product(node);
    if (!*changed)
        return TENON_OK;
    casts c = {.count = graph->value_count};
    c.low = calloc((size_t)c.count + 1, sizeof *c.low);
    c.high = calloc((size_t)c.count + 1, sizeof *c.high);
    tenon_dtype *declared = calloc((size_t)graph->output_count + 1, sizeof *declared);
    tenon_status status = c.low && c.high && declared ? run(&c, graph, declared) : tn_no_memory();
    free(c.low);
    free(c.high);
    free(declared);
    return status;
}

tenon_status tn_bf16_pipeline(const tenon_pass_list *list, tenon_pass_list **out) {
    static const tenon_pass weights = {.name = "bf16_weights",
                                       .doc = "weights of products become bfloat16",
                                       .phase = TENON_PASS_MODEL,
                                       .run = pass_weights};
    static const tenon_pass products = {.name = "bf16",
                                        .doc = "products run in bfloat16",
                                        .phase = TENON_PASS_SHAPES,
                                        .run = pass_products};
    tenon_pass_list *copy = NULL;
    tenon_status status;
    int at = 0;
    TN_GOTO(tn_pass_list_copy(list, &copy));
    TN_GOTO(tenon_pass_list_insert(copy, -1, &weights));
    while (at < tenon_pass_list_count(copy) &&
           strcmp(tenon_pass_list_get(copy, at)->name, "merge_shapes") != 0)
        at++;
    TN_GOTO(tenon_pass_list_insert(copy, at, &products));
    *out = copy;
    return TENON_OK;
error:
    tenon_pass_list_destroy(&copy);
    return status;
}
