/* Gives every slice one form, now that sizes are known, so that equal ones merge:
 *
 *     x[-3:], x[2:9223372036854775807], narrow(x, 0, 2, 3)     ->     x[2:5]     of 5 elements
 *     x[0:5:2], x[:6:2]                                        ->     x[0:5:2]
 *     x[1:9][2:4]                                              ->     x[3:5]
 *     x[0:5]                                                   ->     x          of 5 elements
 *     select(x, 0, -1)                                         ->     select(x, 0, 4)
 *
 * The end is one more than the last element that is taken; a slice of one element has step 1, one
 * of none is 0:0.
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"

typedef struct part {
    tenon_value *x;
    int64_t dim, start, step, count;
} part;

/* Reads a slice or narrow of known sizes. */
static bool read_part(const tenon_node *node, part *p) {
    tenon_value *x = tn_arg_value(node, 0);
    const tenon_value *out = node->outputs[0];
    bool slice = tn_node_is(node, TN_OP_slice_Tensor);
    if (!x || !tn_value_static(x) || !tn_value_static(out) || x->rank < 1 ||
        node->args[1].kind != TENON_ARG_INT ||
        (node->args[2].kind != TENON_ARG_INT && !tn_arg_is_none(node, 2)))
        return false;
    *p = (part){x, tn_arg_int(node, 1, 0), tn_arg_int(node, 2, 0), 1, 0};
    p->dim += p->dim < 0 ? x->rank : 0;
    if (p->dim < 0 || p->dim >= x->rank || (slice && node->args[4].kind != TENON_ARG_INT))
        return false;
    int64_t size = x->shape[p->dim];
    p->start += p->start < 0 ? size : 0;
    p->start = p->start < 0 ? 0 : p->start > size ? size : p->start;
    p->step = slice ? tn_arg_int(node, 4, 1) : 1;
    p->count = out->shape[p->dim];
    return p->step > 0;
}

/* A part of a part along one dimension is a part of the whole. */
static void through_slice(part *p) {
    const tenon_node *before = tn_made_by(p->x, TN_OP_slice_Tensor);
    part outer;
    int64_t step, offset;
    if (!before || !read_part(before, &outer) || outer.dim != p->dim ||
        !tn_mul(outer.step, p->step, &step) || !tn_mul(outer.step, p->start, &offset))
        return;
    p->x = outer.x;
    p->start = outer.start + offset;
    p->step = step;
}

static tenon_status slice(tenon_node *node, tenon_value **with) {
    part p;
    if (!read_part(node, &p))
        return TENON_OK;
    through_slice(&p);
    if (p.count <= 1)
        p.step = 1;
    if (p.count == 0)
        p.start = 0;
    if (p.count == p.x->shape[p.dim]) {
        with[0] = p.x;
        return TENON_OK;
    }
    int64_t end = p.count ? p.start + (p.count - 1) * p.step + 1 : 0;
    const tenon_arg want[] = {VAL(p.x), INT(p.dim), INT(p.start), INT(end), INT(p.step)};
    bool same = tn_node_is(node, TN_OP_slice_Tensor);
    for (int i = 0; same && i < TN_COUNT(want); i++)
        same = tn_arg_equal(&node->args[i], &want[i]);
    return same ? TENON_OK : tn_emit(node, TN_OP_slice_Tensor, with, want, TN_COUNT(want));
}

static tenon_status select(tenon_node *node, tenon_value **with) {
    tenon_value *x = tn_arg_value(node, 0);
    if (!x || !tn_value_static(x) || node->args[1].kind != TENON_ARG_INT ||
        node->args[2].kind != TENON_ARG_INT)
        return TENON_OK;
    int64_t dim = tn_arg_int(node, 1, 0), index = tn_arg_int(node, 2, 0);
    if (dim >= 0 && index >= 0)
        return TENON_OK;
    dim += dim < 0 ? x->rank : 0;
    index += index < 0 ? tn_size_of(x, (int)dim) : 0;
    return tn_emit(node, TN_OP_select_int, with, TN_ARGS(VAL(x), INT(dim), INT(index)));
}

tenon_status tn_pass_slices(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {
        {TN_OP_slice_Tensor, slice}, {TN_OP_narrow, slice}, {TN_OP_select_int, select}};
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
