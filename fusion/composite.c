#include "fusion/composite.h"
#include "core/infer.h"
#include "fusion/lower.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Shape rule ---- */

enum { MOST_OUTPUTS = 64 };

/* `arg` for the scratch graph: tensors become inputs of the same dtype and shape, constants
 * themselves. */
/* NOLINTNEXTLINE(misc-no-recursion): items of a list are no lists */
static tenon_status scratch_arg(tenon_graph *graph, const tenon_arg *arg, tenon_arg *out) {
    char name[32];
    *out = *arg;
    if (arg->kind == TENON_ARG_LIST) {
        out->as.list = tn_arena_array(&graph->arena, (size_t)arg->count + 1, sizeof *out);
        if (!out->as.list)
            return tn_no_memory();
        for (int i = 0; i < arg->count; i++)
            TN_TRY(scratch_arg(graph, &arg->as.list[i], (tenon_arg *)&out->as.list[i]));
        return TENON_OK;
    }
    if (arg->kind != TENON_ARG_VALUE)
        return TENON_OK;
    const tenon_value *value = arg->as.value;
    tenon_value *copy;
    snprintf(name, sizeof name, "x%d", graph->value_count);
    if (value->kind == TENON_VALUE_CONSTANT && value->tensor) {
        tenon_tensor *tensor;
        TN_TRY(tenon_tensor_share(value->tensor, &tensor));
        TN_TRY(tn_graph_new_constant(graph, name, tensor, &copy));
    } else {
        TN_TRY(tn_graph_add_input(graph, name, TN_TENSOR, value->dtype, value->rank, value->shape,
                                  NULL, &copy));
    }
    *out = tenon_arg_value(copy);
    return TENON_OK;
}

/* Runs the rule on a node of the scratch graph that stands for the one asked about. */
static tenon_status try_rule(const tn_infer *infer, tenon_graph *graph, tenon_value **with) {
    const tenon_node *node = infer->node;
    tenon_arg args[64];
    tenon_node *place;
    if (infer->op->param_count > TN_COUNT(args))
        return tn_pass_refuse(node, "it has too many arguments");
    for (int i = 0; i < infer->op->param_count; i++) {
        const tn_param *param = &infer->op->params[i];
        tenon_arg_kind kind = node->args[i].kind;
        if (param->type == TN_TYPE_TENSOR && !param->list && kind != TENON_ARG_VALUE &&
            kind != TENON_ARG_NONE)
            return tn_pass_refuse(node, "'%s' must be a tensor", param->name);
        TN_TRY(scratch_arg(graph, &node->args[i], &args[i]));
    }
    TN_TRY(tn_graph_add(graph, NULL, tn_op_by_id(TN_OP_assert_scalar), node->name,
                        TN_ARGS(INT(1), tenon_arg_string("")), -1, &place));
    tenon_node stand_in = *place;
    place->op = infer->op;
    place->args = args;
    tenon_status status = tn_lower_rule(infer->op->id)(place, with);
    place->op = stand_in.op;
    place->args = stand_in.args;
    return status;
}

tenon_status tn_infer_composite(tn_infer *infer) {
    tenon_value *with[MOST_OUTPUTS] = {0};
    tenon_graph *graph;
    tenon_status status;
    int count = 0;
    TN_TRY(tenon_graph_create("shapes", &graph));
    TN_GOTO(try_rule(infer, graph, with));
    while (count < MOST_OUTPUTS && with[count])
        count++;
    if (infer->op->list_return)
        TN_GOTO(tn_infer_list(infer, count));
    if (count != infer->out_count)
        TN_GOTO(tn_pass_refuse(infer->node, "this form of the op is not supported"));
    for (int i = 0; i < count; i++) {
        infer->out[i].dtype = with[i]->dtype;
        infer->out[i].rank = with[i]->rank;
        memcpy(infer->out[i].shape, with[i]->shape, (size_t)with[i]->rank * sizeof(int64_t));
    }
error:
    tenon_graph_destroy(&graph);
    return status;
}

/* ---- Making nodes ---- */

/* What calls give after a failure. Room in front, as sizes may be read from the end. */
static int64_t no_sizes[2 * TENON_MAX_RANK];
static tenon_value nothing = {.dtype = TENON_FLOAT32, .shape = no_sizes + TENON_MAX_RANK};

bool tn_maker_ok(const tn_maker *m) {
    return m->status == TENON_OK;
}

tenon_value *tn_make(tn_maker *m, enum tn_op_id op, const tenon_arg *args, int count) {
    tenon_value *out = &nothing;
    if (m->status == TENON_OK)
        m->status = tn_emit(m->at, op, &out, args, count);
    return m->status == TENON_OK ? out : &nothing;
}

tenon_value *tn_made_output(tn_maker *m, tenon_value *first, int index) {
    return m->status == TENON_OK ? first->node->outputs[index] : &nothing;
}

tenon_status tn_maker_refuse(tn_maker *m, const char *format, ...) {
    char text[256];
    va_list list;
    if (m->status != TENON_OK)
        return m->status;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return m->status = tn_pass_refuse(m->at, "%s", text);
}

int tn_maker_dim(tn_maker *m, int64_t dim, int rank) {
    int64_t limit = rank > 0 ? rank : 1;
    if (dim < -limit || dim >= limit) {
        tn_maker_refuse(m, "dimension %lld is not in %lld..%lld", (long long)dim, (long long)-limit,
                        (long long)limit - 1);
        return 0;
    }
    return (int)(dim < 0 ? dim + limit : dim);
}

int64_t tn_count_elements(const int64_t *shape, int rank) {
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    return count;
}

tenon_value *tn_make_view(tn_maker *m, tenon_value *x, const int64_t *shape, int rank) {
    tenon_value *out = &nothing;
    if (m->status == TENON_OK)
        m->status = tn_emit_view(m->at, x, shape, rank, &out);
    return m->status == TENON_OK ? out : &nothing;
}

tenon_value *tn_make_flat(tn_maker *m, tenon_value *x) {
    const int64_t count = tn_count_elements(x->shape, x->rank);
    return tn_make_view(m, x, &count, 1);
}

tenon_value *tn_make_expand(tn_maker *m, tenon_value *x, const int64_t *shape, int rank) {
    tenon_arg sizes[TENON_MAX_RANK];
    return MAKE(expand, VAL(x), tn_ints(sizes, shape, rank));
}

tenon_value *tn_make_cast(tn_maker *m, tenon_value *x, tenon_dtype dtype) {
    tenon_value *out = &nothing;
    if (m->status == TENON_OK)
        m->status = tn_emit_cast(m->at, x, dtype, &out);
    return m->status == TENON_OK ? out : &nothing;
}

tenon_value *tn_make_slice(tn_maker *m, tenon_value *x, int dim, int64_t start, int64_t end) {
    return MAKE(slice_Tensor, VAL(x), INT(dim), INT(start), INT(end), INT(1));
}

tenon_value *tn_make_cat(tn_maker *m, tenon_value *const *parts, int count, int dim) {
    tenon_arg *items = tn_arena_array(&m->at->graph->arena, (size_t)count + 1, sizeof *items);
    if (!items) {
        m->status = m->status == TENON_OK ? tn_no_memory() : m->status;
        return &nothing;
    }
    for (int i = 0; i < count; i++)
        items[i] = VAL(parts[i]);
    return MAKE(cat, tenon_arg_list(items, count), INT(dim));
}

tenon_value *tn_make_sum(tn_maker *m, tenon_value *x, int dim, bool keep) {
    tenon_arg item = INT(dim);
    return MAKE(sum_dim_IntList, VAL(x), tenon_arg_list(&item, 1), BOO(keep), DTY(x->dtype));
}

tenon_value *tn_make_range(tn_maker *m, int64_t count) {
    return MAKE(arange, INT(count), DTY(TENON_INT64));
}

tenon_value *tn_make_ints(tn_maker *m, tenon_dtype dtype, const int64_t *values, int rank,
                          const int64_t *shape) {
    tenon_tensor *tensor;
    tenon_value *out = &nothing;
    if (m->status == TENON_OK)
        m->status = tenon_tensor_create(dtype, rank, shape, &tensor);
    if (m->status != TENON_OK)
        return &nothing;
    int64_t count = tenon_view_numel(&tensor->view);
    for (int64_t i = 0; i < count; i++)
        tn_store_int((char *)tensor->view.data + i * (int64_t)tenon_dtype_size(dtype), dtype,
                     values[i]);
    m->status = tn_graph_new_constant(m->at->graph, m->at->name, tensor, &out);
    return m->status == TENON_OK ? out : &nothing;
}

tenon_value *tn_make_full(tn_maker *m, int rank, const int64_t *shape, tenon_dtype dtype,
                          double value) {
    tenon_arg sizes[TENON_MAX_RANK];
    return MAKE(full, tn_ints(sizes, shape, rank), FLT(value), DTY(dtype));
}
