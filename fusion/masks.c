/* Makes masks that are chosen into masks that are added, which is how attention is recognised.
 *
 *     scores -- where(keep, scores, low) -- softmax          keep: a constant
 *     scores -- + mask ------------------- softmax           mask: 0 where keep is true, or -inf
 *
 * masked_fill(scores, drop, low) and where(drop, low, scores) likewise. low is minus infinity, or
 * so low that softmax gives it no weight; then what stood there does not matter either, as long as
 * something of every row is kept.
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"
#include <math.h>

enum { MAX_ELEMENTS = 1 << 24 };

#define LOW (-1e9)

typedef struct choice {
    tenon_value *scores, *mask;
    bool keeps; /* true in the mask means that the score is kept */
} choice;

static bool is_low(const tenon_node *node, int index) {
    double number;
    return tn_arg_number(node, index, &number) && number <= LOW;
}

static bool read_choice(const tenon_node *node, choice *c) {
    bool fill = !tn_node_is(node, TN_OP_where_self);
    c->mask = tn_arg_value(node, fill ? 1 : 0);
    c->scores = tn_arg_value(node, fill ? 0 : 1);
    c->keeps = !fill;
    if (!is_low(node, 2)) {
        if (fill || !is_low(node, 1))
            return false;
        c->scores = tn_arg_value(node, 2);
        c->keeps = false;
    }
    const tenon_value *out = node->outputs[0];
    return c->mask && c->scores && tn_is_constant(c->mask) && c->mask->dtype == TENON_BOOL &&
           tn_same_sizes(c->scores, out) && c->scores->dtype == out->dtype &&
           (out->dtype == TENON_FLOAT32 || out->dtype == TENON_FLOAT64) && out->rank > 0 &&
           c->mask->rank > 0 && tn_value_numel(c->mask) <= MAX_ELEMENTS;
}

/* Its only use is a softmax over the last dimension. */
static bool is_weighed(const tenon_value *value) {
    const tenon_node *node = value->use_count == 1 ? value->uses->node : NULL;
    int64_t dim = tn_node_is(node, TN_OP_softmax) ? tn_arg_int(node, 1, 0) : 0;
    return tn_node_is(node, TN_OP_softmax) && (dim == -1 || dim == value->rank - 1);
}

/* Writes the mask that is added; false when a row keeps nothing. */
static bool write_mask(const choice *c, const tenon_view *to) {
    const tenon_view *from = &c->mask->tensor->view;
    int64_t index[TENON_MAX_RANK] = {0}, count = tenon_view_numel(from);
    int64_t columns = from->shape[from->rank - 1], size = (int64_t)tenon_dtype_size(to->dtype);
    bool kept = false;
    for (int64_t n = 0; n < count; n++) {
        int64_t at = 0;
        for (int d = 0; d < from->rank; d++)
            at += index[d] * from->strides[d];
        bool keep = (((const char *)from->data)[at] != 0) == c->keeps;
        tn_store_float((char *)to->data + n * size, to->dtype, keep ? 0 : -INFINITY);
        kept |= keep;
        if (n % columns == columns - 1 && !kept)
            return false;
        kept &= n % columns != columns - 1;
        for (int d = from->rank - 1; d >= 0 && ++index[d] == from->shape[d]; d--)
            index[d] = 0;
    }
    return count > 0;
}

/* Masks that were made, so that layers which share one mask go on doing so. */
enum { MADE = 8 };

typedef struct made {
    choice of;
    tenon_dtype dtype;
    tenon_value *mask;
} made;

static tenon_status mask_of(const choice *c, made *masks, int *count, tenon_value **out) {
    tenon_tensor *tensor = NULL;
    tenon_dtype dtype = c->scores->dtype;
    for (int i = 0; i < *count && i < MADE; i++) {
        *out = masks[i].mask;
        if (masks[i].of.mask == c->mask && masks[i].of.keeps == c->keeps && masks[i].dtype == dtype)
            return TENON_OK;
    }
    *out = NULL;
    TN_TRY(tenon_tensor_create(dtype, c->mask->rank, c->mask->shape, &tensor));
    if (!write_mask(c, &tensor->view)) {
        tenon_tensor_destroy(&tensor);
        return TENON_OK;
    }
    TN_TRY(tn_graph_new_constant(c->mask->graph, c->mask->name, tensor, out));
    masks[(*count)++ % MADE] = (made){*c, dtype, *out};
    return TENON_OK;
}

static bool is_choice(const tenon_node *node) {
    return tn_node_is(node, TN_OP_where_self) || tn_node_is(node, TN_OP_masked_fill_Scalar) ||
           tn_node_is(node, TN_OP_masked_fill_Tensor);
}

tenon_status tn_pass_masks(tenon_graph *graph, bool *changed) {
    made masks[MADE];
    int count = 0;
    for (tenon_node *node = graph->first, *next; node; node = next) {
        choice c;
        tenon_value *mask, *sum;
        next = node->next;
        if (!is_choice(node) || !read_choice(node, &c) || !is_weighed(node->outputs[0]))
            continue;
        TN_TRY(mask_of(&c, masks, &count, &mask));
        if (!mask)
            continue;
        TN_TRY(tn_emit(node, TN_OP_add_Tensor, &sum, TN_ARGS(VAL(c.scores), VAL(mask))));
        tn_name_after(sum, node);
        TN_TRY(tenon_value_replace(node->outputs[0], sum));
        TN_TRY(tenon_node_erase(node));
        *changed = true;
    }
    return TENON_OK;
}
