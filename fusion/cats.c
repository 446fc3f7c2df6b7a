/* Joins neighbouring parts of one tensor that cat puts together again.
 *
 *     x -- [0:2] --.                              cat(x[0:2], x[2:6], y)  ->  cat(x[0:6], y)
 *     x -- [2:6] --- cat -- z     ->     x -- z   cat(split(x, ...))      ->  x
 *     x -- [6:9] --'                              stack(unbind(x, d), d)  ->  x
 *
 * A part is a slice or narrow of step 1, or a result of split, chunk or tensor_split, all along the
 * dimension of the cat; for stack, a result of unbind or select.
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"

/* Elements start to start + count of x, along the dimension. */
typedef struct part {
    tenon_value *x;
    tenon_value *value; /* NULL: several parts joined */
    int64_t start, count;
} part;

/* Whether argument `index` of the node is that dimension of x. */
static bool is_along(const tenon_node *node, int index, const tenon_value *x, int64_t dim) {
    int64_t found = tn_arg_int(node, index, 0);
    return node->args[index].kind == TENON_ARG_INT && (found < 0 ? found + x->rank : found) == dim;
}

/* Where a slice or narrow starts; -1 when it is no plain part. */
static int64_t slice_start(const tenon_node *node, const tenon_value *x, int64_t dim) {
    bool slice = tn_node_is(node, TN_OP_slice_Tensor);
    if (!is_along(node, 1, x, dim) || (slice && tn_arg_int(node, 4, 0) != 1) ||
        (node->args[2].kind != TENON_ARG_INT && !tn_arg_is_none(node, 2)))
        return -1;
    int64_t start = tn_arg_int(node, 2, 0), size = x->shape[dim];
    start += start < 0 ? size : 0;
    return start < 0 ? 0 : start > size ? size : start;
}

/* Where a result of split starts. `before`: the part in front, which often is the one before. */
static int64_t split_start(const tenon_value *value, int64_t dim, const part *before) {
    const tenon_node *node = value->node;
    if (before && before->value && before->value->node == node &&
        before->value->index == value->index - 1)
        return before->start + before->count;
    int64_t start = 0;
    for (int i = 0; i < value->index; i++)
        start += node->outputs[i]->shape[dim];
    return start;
}

static part part_of(tenon_value *value, int64_t dim, const part *before) {
    part whole = {value, value, 0, value->shape[dim]};
    const tenon_node *node = value->node;
    tenon_value *x = node && node->op->kind == TN_OP_VIEW ? tn_arg_value(node, 0) : NULL;
    int64_t start = -1;
    if (!x || !tn_value_static(x) || x->rank != value->rank)
        return whole;
    switch (node->op->id) {
    case TN_OP_slice_Tensor:
    case TN_OP_narrow:
        start = slice_start(node, x, dim);
        break;
    case TN_OP_split_Tensor:
    case TN_OP_split_sizes:
    case TN_OP_split_with_sizes:
    case TN_OP_chunk:
    case TN_OP_tensor_split_sections:
        if (is_along(node, tn_op_param(node->op, "dim"), x, dim))
            start = split_start(value, dim, before);
        break;
    default:
        break;
    }
    return start < 0 ? whole : (part){x, value, start, value->shape[dim]};
}

/* One element of x, which select or unbind took; x is NULL when it is none. */
static part element_of(tenon_value *value, int64_t dim) {
    part none = {NULL, value, 0, 1};
    const tenon_node *node = value->node;
    tenon_value *x = node && node->op->kind == TN_OP_VIEW ? tn_arg_value(node, 0) : NULL;
    if (!x || !tn_value_static(x) || x->rank != value->rank + 1 || !is_along(node, 1, x, dim))
        return none;
    if (tn_node_is(node, TN_OP_unbind_int))
        return (part){x, value, value->index, 1};
    if (!tn_node_is(node, TN_OP_select_int) || node->args[2].kind != TENON_ARG_INT)
        return none;
    int64_t index = tn_arg_int(node, 2, 0);
    return (part){x, value, index < 0 ? index + x->shape[dim] : index, 1};
}

/* The parts of the node's list, neighbours joined, in the graph's arena. Gives how many; 0 when
 * something of it is not known. */
static tenon_status read_parts(const tenon_node *node, int64_t dim, bool stack, part **out,
                               int *out_count) {
    const tenon_arg *list = &node->args[0];
    part *parts = tn_arena_array(&node->graph->arena, (size_t)list->count, sizeof *parts);
    int count = 0;
    part last = {0}; /* as it came, so that a split's next result finds its place */
    if (!parts)
        return tn_no_memory();
    *out_count = 0;
    for (int i = 0; i < list->count; i++) {
        tenon_value *value = list->as.list[i].as.value;
        if (list->as.list[i].kind != TENON_ARG_VALUE || !tn_value_static(value) ||
            value->rank != node->outputs[0]->rank - stack)
            return TENON_OK;
        part next = stack ? element_of(value, dim) : part_of(value, dim, i ? &last : NULL);
        part *before = count ? &parts[count - 1] : NULL;
        last = next;
        if (before && next.x && before->x == next.x &&
            before->start + before->count == next.start) {
            before->value = NULL;
            before->count += next.count;
        } else {
            parts[count++] = next;
        }
    }
    *out = parts;
    *out_count = count;
    return TENON_OK;
}

static tenon_status value_of(tenon_node *node, const part *p, int64_t dim, tenon_value **out) {
    *out = p->value;
    if (p->value)
        return TENON_OK;
    *out = p->x;
    if (p->count == p->x->shape[dim])
        return TENON_OK;
    return tn_emit(node, TN_OP_slice_Tensor, out,
                   TN_ARGS(VAL(p->x), INT(dim), INT(p->start), INT(p->start + p->count), INT(1)));
}

static tenon_status join(tenon_node *node, tenon_value **with, bool stack) {
    const tenon_arg *list = &node->args[0];
    const tenon_value *out = node->outputs[0];
    part *parts = NULL;
    int count = 0;
    if (list->kind != TENON_ARG_LIST || list->count < 2 || !tn_value_static(out) ||
        node->args[1].kind != TENON_ARG_INT)
        return TENON_OK;
    int64_t dim = tn_arg_int(node, 1, 0);
    dim += dim < 0 ? out->rank : 0;
    TN_TRY(read_parts(node, dim, stack, &parts, &count));
    if (count == 0 || count == list->count || (stack && count > 1))
        return TENON_OK;
    if (count == 1)
        return value_of(node, &parts[0], dim, with);
    tenon_arg *items = tn_arena_array(&node->graph->arena, (size_t)count, sizeof *items);
    if (!items)
        return tn_no_memory();
    for (int i = 0; i < count; i++) {
        tenon_value *value;
        TN_TRY(value_of(node, &parts[i], dim, &value));
        items[i] = VAL(value);
    }
    return tn_emit(node, TN_OP_cat, with, TN_ARGS(tenon_arg_list(items, count), INT(dim)));
}

static tenon_status cat(tenon_node *node, tenon_value **with) {
    return join(node, with, false);
}

static tenon_status stack(tenon_node *node, tenon_value **with) {
    return join(node, with, true);
}

tenon_status tn_pass_cats(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {{TN_OP_cat, cat}, {TN_OP_stack, stack}};
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
