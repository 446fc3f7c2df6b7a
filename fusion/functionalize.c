/* Makes the graph functional: in-place ops become values.
 *
 *     %v = aten.select.int(%x, 0, 1)          %v  = aten.select.int(%x, 0, 1)
 *     %r = aten.relu_(%v)                     %r  = aten.relu(%v)
 *     %y = aten.mul.Tensor(%x, 2)    ->       %x1 = aten.select_scatter(%x, %r, 0, 1)
 *                                             %y  = aten.mul.Tensor(%x1, 2)
 *
 * Values that share memory form a tree of views over a root (an input, a constant, a buffer, or new
 * memory). A write through one of them gives the root a new version. Nothing more happens until
 * another value of the tree is read: then the views between the writer and the root are undone, one
 * by one (tn_emit_scatter), and the views from the root down to the value that is read are made
 * again. Writes that reach inputs and buffers become write-backs at the end.
 *
 * reshape, contiguous and the like share memory or do not, as strides were in the exported program.
 * Where all sizes are numbers, strides are followed from dense roots through views, by the rules of
 * the table. Where they are not known, both sides are roots of one group, and a write on one side
 * refuses a later read on the other.
 */
#include "fusion/alias.h"
#include "fusion/passes.h"
#include <stdlib.h>
#include <string.h>

typedef struct alias {
    tenon_value *value;
    tenon_value *now; /* what holds its elements */
    int64_t version;  /* of the root, at which `now` was right */
    int64_t newest;   /* roots: version, counted in writes */
    int64_t born;     /* roots: the clock when it was made */
    int32_t root, parent, writer;
    int32_t same;      /* the id of the value that it is another name of, or -1 */
    int32_t group;     /* roots: union-find */
    int32_t last_root; /* groups: who wrote last, when, and when another one did */
    int64_t last, before_last;
    tn_dense dense;
    tenon_node *view; /* makes it of its parent */
} alias;

typedef struct pass {
    tenon_graph *graph;
    alias *a; /* by value id; values made by this pass have none */
    tenon_view
        *memory; /* by value id: how it lies in its root, from TN_ORIGIN; no dtype: not known */
    int32_t count;
    int32_t *path; /* room for `count` ids */
    int32_t *ids;  /* by use of the node being visited: the value it named, or -1 for numbers */
    int64_t clock;
    int64_t budget; /* nodes that may still be made again */
    tenon_node *at; /* new nodes go before it; NULL: at the end */
} pass;

static int32_t resolve(pass *p, int32_t id) {
    while (p->a[id].same >= 0) {
        int32_t next = p->a[id].same;
        if (p->a[next].same >= 0)
            p->a[id].same = p->a[next].same;
        id = next;
    }
    return id;
}

static int32_t group_of(pass *p, int32_t root) {
    while (p->a[root].group != root) {
        p->a[root].group = p->a[p->a[root].group].group;
        root = p->a[root].group;
    }
    return root;
}

static void join(pass *p, int32_t a, int32_t b) {
    a = group_of(p, a);
    b = group_of(p, b);
    if (a == b)
        return;
    alias *x = &p->a[a], *y = &p->a[b];
    if (y->last > x->last) {
        x->before_last = x->last > y->before_last ? x->last : y->before_last;
        x->last = y->last;
        x->last_root = y->last_root;
    } else if (y->last > x->before_last) {
        x->before_last = y->last;
    }
    y->group = a;
}

/* Offset and strides of a value in its root's memory in the exported program, where known. */
static bool memory_of(const pass *p, int32_t id, tenon_view *out) {
    const alias *a = &p->a[id];
    if (p->memory[id].dtype == TENON_DTYPE_NONE) {
        if (a->root != id || a->dense != TN_DENSE_YES || !tn_value_static(a->value))
            return false;
        *out = tn_view_make(TN_ORIGIN, a->value->dtype, a->value->rank, a->value->shape);
        return true;
    }
    *out = p->memory[id];
    return true;
}

static tn_dense dense_of(const pass *p, int32_t id) {
    tenon_view memory;
    if (!memory_of(p, id, &memory))
        return p->a[id].dense;
    return tenon_view_is_contiguous(&memory) ? TN_DENSE_YES : TN_DENSE_NO;
}

typedef enum seen { SEEN, NOT_A_VIEW, NOT_KNOWN } seen;

/* How output `index` of a node lies in the memory of value `self`. */
static seen look(const pass *p, const tenon_node *node, int index, int32_t self, tenon_view *out) {
    const tenon_value *value = node->outputs[index];
    tenon_view in;
    if (self < 0 || !tn_value_static(value) || !memory_of(p, self, &in))
        return NOT_KNOWN;
    *out = tn_view_make(in.data, value->dtype, value->rank, value->shape);
    if (node->op->kind == TN_OP_VIEW)
        return node->op->view(node, index, &in, out) ? SEEN : NOT_A_VIEW;
    memcpy(out->strides, in.strides, sizeof out->strides); /* to, dropout: the same */
    return SEEN;
}

static alias *add_root(pass *p, tenon_value *value, tn_dense dense) {
    alias *a = &p->a[value->id];
    *a = (alias){.value = value,
                 .now = value,
                 .root = value->id,
                 .parent = -1,
                 .writer = -1,
                 .same = -1,
                 .group = value->id,
                 .last_root = -1,
                 .last = -1,
                 .before_last = -1,
                 .born = p->clock++,
                 .dense = dense};
    return a;
}

static void add_view(pass *p, tenon_value *value, int32_t parent, tenon_node *view,
                     tn_dense dense) {
    alias *a = add_root(p, value, dense);
    a->root = p->a[parent].root;
    a->parent = parent;
    a->view = view;
    a->version = p->a[a->root].newest;
}

/* The same, with where it lies. */
static void add_seen(pass *p, tenon_value *value, int32_t parent, tenon_node *view,
                     const tenon_view *memory) {
    add_view(p, value, parent, view, TN_DENSE_UNKNOWN);
    p->memory[value->id] = *memory;
    p->a[value->id].dense = dense_of(p, value->id);
}

static tenon_status spend(pass *p, const tenon_node *node) {
    return p->budget-- > 0 ? TENON_OK
                           : tn_pass_refuse(node, "making it functional takes too many copies");
}

/* Brings the root up to the newest version, from the writer up. */
static tenon_status sync_root(pass *p, int32_t root) {
    int64_t newest = p->a[root].newest;
    for (int32_t id = p->a[root].writer; p->a[root].version != newest;) {
        alias *child = &p->a[id], *parent = &p->a[child->parent];
        if (parent->version != newest) {
            TN_TRY(spend(p, child->view));
            tenon_value *now;
            TN_TRY(tn_emit_scatter(p->graph, p->at, child->view, child->value->index, parent->now,
                                   child->now, &now));
            parent->now = now;
            parent->version = newest;
        }
        id = child->parent;
    }
    return TENON_OK;
}

/* Makes the view again of its parent's newest elements; all outputs of its node at once. */
static tenon_status replay(pass *p, int32_t id) {
    alias *a = &p->a[id];
    tenon_node *view = a->view, *made;
    TN_TRY(spend(p, view));
    tenon_arg args[64];
    if (view->op->param_count > TN_COUNT(args))
        return tn_pass_refuse(view, "it has too many arguments");
    for (int i = 0; i < view->op->param_count; i++)
        args[i] = view->args[i];
    args[0] = tenon_arg_value(p->a[a->parent].now);
    TN_TRY(tn_graph_add(p->graph, p->at, view->op, NULL, args, view->op->param_count,
                        view->op->list_return ? view->output_count : -1, &made));
    tenon_node_copy_source(made, view);
    for (int i = 0; i < view->output_count; i++) {
        alias *sibling = view->output_count == 1 ? a : &p->a[view->outputs[i]->id];
        tn_value_adopt(made->outputs[i], sibling->value);
        sibling->now = made->outputs[i];
        sibling->version = p->a[a->root].newest;
    }
    return TENON_OK;
}

/* Whether a root that may share memory with this one was written since this one was made. */
static bool written_elsewhere(pass *p, int32_t root) {
    const alias *group = &p->a[group_of(p, root)];
    int64_t last = group->last_root == root ? group->before_last : group->last;
    return last > p->a[root].born;
}

/* The value that holds the elements of value `id` at this point of the program. */
static tenon_status current(pass *p, const tenon_node *reader, int32_t id, tenon_value **out) {
    alias *a = &p->a[id];
    int32_t root = a->root;
    if (written_elsewhere(p, root))
        return tn_fail(TENON_UNSUPPORTED,
                       "node '%s': reads value '%s', which may or may not share memory with one "
                       "that was written in place",
                       reader ? reader->name : "output", a->value->name);
    int64_t newest = p->a[root].newest;
    int count = 0;
    for (int32_t i = id; p->a[i].version != newest; i = p->a[i].parent) {
        if (p->a[i].parent < 0) {
            TN_TRY(sync_root(p, root));
            count = 0;
            i = id;
            if (a->version == newest)
                break;
        }
        p->path[count++] = i;
    }
    while (count > 0) {
        int32_t i = p->path[--count];
        if (p->a[i].version != newest)
            TN_TRY(replay(p, i));
    }
    *out = a->now;
    return TENON_OK;
}

static tenon_status refresh(pass *p, const tenon_node *reader, tn_use *use, int32_t *id) {
    *id = -1;
    if (!use || use->value->id >= p->count || use->value->scalar != TN_TENSOR)
        return TENON_OK;
    *id = resolve(p, use->value->id);
    tenon_value *now = NULL;
    TN_TRY(current(p, reader, *id, &now));
    tn_use_set(use, now);
    return TENON_OK;
}

static void write_to(pass *p, int32_t id, tenon_value *now) {
    alias *a = &p->a[id], *root = &p->a[a->root];
    a->now = now;
    a->version = ++root->newest;
    root->writer = id;
    alias *group = &p->a[group_of(p, a->root)];
    if (group->last_root != a->root) {
        group->before_last = group->last;
        group->last_root = a->root;
    }
    group->last = p->clock++;
}

/* The op that gives what an in-place op writes. */
static const tn_op *functional_op(const tenon_node *node) {
    switch (node->op->id) {
    case TN_OP_pow__Scalar: /* pow.Scalar is number ** tensor */
        return tn_op_by_id(TN_OP_pow_Tensor_Scalar);
    case TN_OP_zero_:
        return tn_op_by_id(TN_OP_fill_Scalar);
    default:
        return node->op->functional;
    }
}

/* The place among the node's uses of argument `index`, or -1 when that is no tensor. */
static int use_of(const tenon_node *node, int index) {
    for (int i = 0; i < node->use_count; i++)
        if (node->uses[i].slot == &node->args[index])
            return i;
    return -1;
}

/* The argument that is written: the first one, or `out`, which the functional op does not take. */
static int written_arg(const tn_op *op) {
    int index = 0;
    while (!op->params[index].written)
        index++;
    return index;
}

static tenon_status make_functional(pass *p, tenon_node *node, int written, tenon_value **out) {
    const tn_op *op = functional_op(node);
    if (!op || node->output_count != 1)
        return tn_pass_refuse(node, "there is no op that gives what it writes");
    tenon_arg args[64];
    int count = 0;
    if (op->param_count > 62)
        return tn_pass_refuse(node, "it has too many arguments");
    for (int i = 0; i < node->op->param_count && count < op->param_count; i++)
        if (i == 0 || i != written)
            args[count++] = node->args[i];
    if (node->op->id == TN_OP_zero_)
        args[count++] = tenon_arg_int(0);
    tenon_node *made;
    TN_TRY(tn_graph_add(p->graph, node, op, node->name, args, count, -1, &made));
    tenon_node_copy_source(made, node);
    *out = made->outputs[0];
    return TENON_OK;
}

/* Whether the value may be of another dtype than what it is written to; in-place ops convert it. */
static bool may_need_cast(const tenon_node *node, tenon_dtype target) {
    switch (node->op->id) {
    case TN_OP_eq__Tensor:
    case TN_OP_eq__Scalar:
    case TN_OP_ne__Tensor:
    case TN_OP_ne__Scalar:
    case TN_OP_lt__Tensor:
    case TN_OP_lt__Scalar:
    case TN_OP_le__Tensor:
    case TN_OP_le__Scalar:
    case TN_OP_gt__Tensor:
    case TN_OP_gt__Scalar:
    case TN_OP_ge__Tensor:
    case TN_OP_ge__Scalar:
    case TN_OP_logical_not_:
    case TN_OP_logical_and_:
    case TN_OP_logical_or_:
    case TN_OP_logical_xor_:
        return true;
    default:
        break;
    }
    for (int i = 1; i < node->use_count; i++)
        if (node->uses[i].value->dtype != target)
            return true;
    return false;
}

/* Ops that give other values than those they write: their functional form gives the written ones
 * behind them. */
static tenon_status visit_updates(pass *p, tenon_node *node) {
    const tn_op *op = node->op->functional;
    tenon_node *made;
    TN_TRY(tn_graph_add(p->graph, node, op, node->name, node->args, op->param_count, -1, &made));
    tenon_node_copy_source(made, node);
    for (int i = 0; i < node->output_count; i++) {
        tn_value_adopt(made->outputs[i], node->outputs[i]);
        add_root(p, node->outputs[i], TN_DENSE_UNKNOWN)->now = made->outputs[i];
    }
    for (int i = 0, next = node->output_count; i < node->op->param_count; i++) {
        if (!node->op->params[i].written)
            continue;
        int use = use_of(node, i);
        tenon_value *now = made->outputs[next++];
        if (use < 0 || p->ids[use] < 0)
            return tn_pass_refuse(node, "it has no tensor to write to");
        tn_value_adopt(now, p->a[p->ids[use]].now);
        write_to(p, p->ids[use], now);
    }
    return TENON_OK;
}

/* Whether one element stands for several, as far as is known. */
static bool repeats(const pass *p, int32_t id) {
    for (; p->memory[id].dtype == TENON_DTYPE_NONE; id = p->a[id].parent) {
        if (p->a[id].parent < 0)
            return false;
        switch (p->a[id].view->op->id) {
        case TN_OP_expand:
        case TN_OP_expand_as:
        case TN_OP_broadcast_to:
        case TN_OP_unfold:
            return true;
        default:
            break;
        }
    }
    return !tn_apart(&p->memory[id]);
}

static tenon_status visit_inplace(pass *p, tenon_node *node) {
    if (!node->op->returns[0].written)
        return visit_updates(p, node);
    int written = written_arg(node->op), use = use_of(node, written);
    if (use < 0 || p->ids[use] < 0)
        return tn_pass_refuse(node, "it has no tensor to write to");
    int32_t self = p->ids[use];
    tenon_value *now = NULL, *output, *target = p->a[self].now;
    if (node->op->id == TN_OP_resize_ && p->a[self].dense != TN_DENSE_YES)
        return tn_pass_refuse(node,
                              "the order of the elements in memory, which it takes, is not known");
    TN_TRY(make_functional(p, node, written, &now));
    output = node->outputs[0];
    add_root(p, output, TN_DENSE_UNKNOWN);
    if (now->node->op->kind ==
        TN_OP_VIEW) { /* squeeze_, t_, ...: the same memory, seen differently */
        tenon_view memory;
        tn_value_adopt(now, output);
        bool dense = node->op->id == TN_OP_resize_;
        if (look(p, now->node, 0, self, &memory) == SEEN)
            add_seen(p, output, self, now->node, &memory);
        else
            add_view(p, output, self, now->node, dense ? TN_DENSE_YES : TN_DENSE_UNKNOWN);
        p->a[output->id].now = now;
        p->a[self].same = output->id;
        return TENON_OK;
    }
    if (!tn_can_cast(now->dtype, target->dtype))
        return tn_fail(TENON_INVALID_GRAPH,
                       "node '%s' (%s): its result is %s, which cannot be written to %s",
                       node->name, node->op->name, tenon_dtype_text(now->dtype),
                       tenon_dtype_text(target->dtype));
    if (repeats(p, self))
        return tn_pass_refuse(node, "it writes '%s', where one element stands for several",
                              p->a[self].value->name);
    if (now->dtype != TENON_DTYPE_NONE || may_need_cast(node, target->dtype))
        TN_TRY(tn_emit_cast(node, now, target->dtype, &now));
    tn_value_adopt(now, target);
    p->a[output->id].same = self;
    write_to(p, self, now);
    return TENON_OK;
}

static void visit_other(pass *p, tenon_node *node) {
    int32_t self = node->use_count && tn_arg_value(node, 0) == node->uses[0].value ? p->ids[0] : -1;
    tn_dense inputs = TN_DENSE_YES;
    for (int i = 0; i < node->use_count; i++)
        if (p->ids[i] >= 0 && dense_of(p, p->ids[i]) != TN_DENSE_YES)
            inputs = TN_DENSE_UNKNOWN;
    tn_dense first = self >= 0 ? dense_of(p, self) : TN_DENSE_UNKNOWN;
    bool lists = tn_shares_list(node);
    tn_sharing sharing = lists || self >= 0 ? tn_sharing_of(node, first) : TN_SHARE_NOT;
    tn_dense dense = tn_dense_of(node, first, inputs);
    for (int i = 0; i < node->output_count; i++) {
        tenon_view memory;
        seen how = sharing == TN_SHARE_NOT || lists ? NOT_KNOWN : look(p, node, i, self, &memory);
        bool reshape = sharing == TN_SHARE_MAYBE && tn_is_reshape(node);
        if (how == SEEN && (sharing == TN_SHARE_SURE || reshape)) {
            add_seen(p, node->outputs[i], self, node, &memory);
            continue;
        }
        if (sharing == TN_SHARE_SURE) {
            add_view(p, node->outputs[i], self, node, dense);
            continue;
        }
        bool copied = how == NOT_A_VIEW && reshape;
        add_root(p, node->outputs[i], copied ? TN_DENSE_YES : dense);
        for (int k = 0; sharing == TN_SHARE_MAYBE && !copied && k < (lists ? node->use_count : 1);
             k++)
            if (p->ids[k] >= 0)
                join(p, p->a[p->ids[k]].root, node->outputs[i]->id);
    }
}

/* as_strided is about the whole memory that its input lies in: it becomes one of the root. */
static tenon_status rebase(pass *p, tenon_node *node) {
    const tenon_value *self = tn_arg_value(node, 0);
    if (!self || self->id >= p->count)
        return TENON_OK;
    int32_t id = resolve(p, self->id), root = p->a[id].root;
    bool offset = !tn_arg_is_none(node, 3);
    tenon_view in, whole;
    if (memory_of(p, id, &in) && memory_of(p, root, &whole) && p->a[root].same < 0) {
        int64_t at = ((char *)in.data - TN_ORIGIN) / (int64_t)tenon_dtype_size(in.dtype);
        if (id == root)
            return TENON_OK;
        TN_TRY(tenon_node_set_arg(node, 0, tenon_arg_value(p->a[root].value)));
        return offset ? TENON_OK : tenon_node_set_arg(node, 3, tenon_arg_int(at));
    }
    if (dense_of(p, id) == TN_DENSE_YES && (id == root || !offset))
        return TENON_OK;
    return tn_pass_refuse(node, "how the memory of its input lies is not known");
}

static tenon_status visit(pass *p, tenon_node *node) {
    p->at = node;
    if (node->op->id == TN_OP_as_strided)
        TN_TRY(rebase(p, node));
    for (int i = 0; i < node->use_count; i++)
        TN_TRY(refresh(p, node, &node->uses[i], &p->ids[i]));
    if (node->op->kind == TN_OP_INPLACE)
        return visit_inplace(p, node);
    for (int i = 0; i < node->op->param_count; i++)
        if (node->op->params[i].written)
            return tn_pass_refuse(node,
                                  "it writes an argument, and there is no op that gives what it "
                                  "writes");
    visit_other(p, node);
    return TENON_OK;
}

/* The bytes that a view of a file's weight lies in; its strides are not negative. */
static void extent(const tenon_view *view, const char **first, const char **end) {
    int64_t last = 0;
    for (int d = 0; d < view->rank; d++) {
        if (view->shape[d] == 0) {
            *first = *end = view->data;
            return;
        }
        last += (view->shape[d] - 1) * view->strides[d];
    }
    *first = view->data;
    *end = *first + (last + 1) * (int64_t)tenon_dtype_size(view->dtype);
}

/* Constants that are views of one weight in the file: a write to one would have to reach the
 * others. */
static tenon_status check_alone(const pass *p, const tenon_value *target) {
    const char *first, *end, *other_first, *other_end;
    if (!target->tensor)
        return TENON_OK;
    extent(&target->tensor->view, &first, &end);
    for (int i = 0; i < p->graph->constant_count; i++) {
        const tenon_value *other = p->graph->constants[i];
        if (other == target)
            continue;
        extent(&other->tensor->view, &other_first, &other_end);
        if (first < other_end && other_first < end)
            return tn_fail(TENON_UNSUPPORTED,
                           "'%s' is written in place and shares memory with '%s'", target->name,
                           other->name);
    }
    return TENON_OK;
}

/* Inputs and state that were written get their last elements after the run. A constant that is
 * written is state. */
static tenon_status write_back(pass *p, tenon_value *target) {
    alias *root = &p->a[target->id];
    if (written_elsewhere(p, target->id))
        return tn_fail(TENON_UNSUPPORTED,
                       "value '%s' may or may not share memory with one that was written in place",
                       target->name);
    if (root->newest == 0)
        return TENON_OK;
    TN_TRY(check_alone(p, target));
    if (target->kind == TENON_VALUE_CONSTANT)
        target->kind = TENON_VALUE_BUFFER;
    for (int i = 0; i < p->graph->write_count; i++)
        if (p->graph->writes[i].target == target)
            return TENON_OK; /* the graph says what it becomes */
    TN_TRY(sync_root(p, target->id));
    return tenon_graph_add_write(p->graph, target, root->now);
}

static tenon_status finish(pass *p) {
    tenon_graph *graph = p->graph;
    int32_t id;
    p->at = NULL;
    for (int i = 0; i < graph->output_count; i++)
        TN_TRY(refresh(p, NULL, graph->outputs[i].use, &id));
    for (int i = 0; i < graph->write_count; i++)
        TN_TRY(refresh(p, NULL, graph->writes[i].use, &id));
    for (int i = 0; i < graph->input_count; i++)
        TN_TRY(write_back(p, graph->inputs[i]));
    for (int i = 0; i < graph->constant_count; i++)
        TN_TRY(write_back(p, graph->constants[i]));
    for (tenon_node *node = graph->last, *previous; node; node = previous) {
        previous = node->prev;
        if (node->op->kind == TN_OP_INPLACE)
            TN_TRY(tenon_node_erase(node));
    }
    return TENON_OK;
}

static tenon_status run(pass *p) {
    tenon_graph *graph = p->graph;
    for (int i = 0; i < graph->input_count; i++)
        add_root(p, graph->inputs[i], TN_DENSE_YES);
    for (int i = 0; i < graph->constant_count; i++)
        add_root(p, graph->constants[i],
                 tenon_view_is_contiguous(&graph->constants[i]->tensor->view) ? TN_DENSE_YES
                                                                              : TN_DENSE_UNKNOWN);
    for (tenon_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        TN_TRY(visit(p, node));
    }
    return finish(p);
}

static bool is_strided_view(const tenon_node *node) {
    const tenon_value *self = node->op->id == TN_OP_as_strided ? tn_arg_value(node, 0) : NULL;
    return self && self->node && self->node->op->kind == TN_OP_VIEW;
}

tenon_status tn_pass_functionalize(tenon_graph *graph, bool *changed) {
    int32_t widest = 1;
    for (const tenon_node *node = graph->first; node; node = node->next) {
        *changed |= node->op->kind == TN_OP_INPLACE || is_strided_view(node);
        widest = node->use_count > widest ? node->use_count : widest;
    }
    if (!*changed)
        return TENON_OK;
    pass p = {.graph = graph,
              .count = graph->value_count,
              .clock = 1,
              .budget = 64 * (graph->node_count + 1000)};
    p.a = calloc((size_t)p.count, sizeof *p.a);
    p.memory = calloc((size_t)p.count, sizeof *p.memory);
    p.path = calloc((size_t)p.count, sizeof *p.path);
    p.ids = calloc((size_t)widest, sizeof *p.ids);
    tenon_status status = p.a && p.memory && p.path && p.ids ? run(&p) : tn_no_memory();
    free(p.a);
    free(p.memory);
    free(p.path);
    free(p.ids);
    return status;
}
