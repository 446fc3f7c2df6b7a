#include "fusion/rewrite.h"
#include "core/derive.h"
#include "core/infer.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tenon_arg tn_ints(tenon_arg *items, const int64_t *values, int count) {
    for (int i = 0; i < count; i++)
        items[i] = tenon_arg_int(values[i]);
    return tenon_arg_list(items, count);
}

tenon_status tn_emit(tenon_node *at, enum tn_op_id op, tenon_value **out, const tenon_arg *args,
                     int count) {
    return tn_graph_emit(at->graph, at, op, NULL, at, args, count, out);
}

enum { NAMED = 1 }; /* in a new node's mark */

void tn_name_after(tenon_value *value, const tenon_node *from) {
    value->node->name = from->name;
    value->node->mark = NAMED;
    tenon_node_copy_source(value->node, from);
}

static bool has_sizes(const tenon_value *value, const int64_t *shape, int rank) {
    return tn_value_static(value) && value->rank == rank &&
           (rank == 0 || memcmp(value->shape, shape, (size_t)rank * sizeof *shape) == 0);
}

tenon_status tn_emit_view(tenon_node *at, tenon_value *value, const int64_t *shape, int rank,
                          tenon_value **out) {
    if (has_sizes(value, shape, rank)) {
        *out = value;
        return TENON_OK;
    }
    tenon_arg sizes[TENON_MAX_RANK];
    return tn_emit(at, TN_OP_view, out, TN_ARGS(VAL(value), tn_ints(sizes, shape, rank)));
}

tenon_status tn_emit_permute(tenon_node *at, tenon_value *value, const int64_t *order, int rank,
                             tenon_value **out) {
    int i = 0;
    while (i < rank && order[i] == i)
        i++;
    if (i == rank) {
        *out = value;
        return TENON_OK;
    }
    tenon_arg dims[TENON_MAX_RANK];
    return tn_emit(at, TN_OP_permute, out, TN_ARGS(VAL(value), tn_ints(dims, order, rank)));
}

tenon_status tn_emit_cast(tenon_node *at, tenon_value *value, tenon_dtype dtype,
                          tenon_value **out) {
    if (value->dtype == dtype || dtype == TENON_DTYPE_NONE) {
        *out = value;
        return TENON_OK;
    }
    TN_TRY(tn_emit(at, TN_OP_to_copy, out, TN_ARGS(VAL(value), DTY(dtype))));
    if ((*out)->dtype == TENON_DTYPE_NONE) {
        tn_value_adopt(*out, value);
        (*out)->dtype = dtype;
    }
    return TENON_OK;
}

static tenon_status widen(const tenon_view *from, const void *user, tenon_tensor **out) {
    tenon_tensor *wide;
    (void)user;
    TN_TRY(tenon_tensor_create(TENON_FLOAT32, from->rank, from->shape, &wide));
    tenon_status status = tenon_view_copy(&wide->view, from);
    if (status == TENON_OK)
        *out = wide;
    else
        tenon_tensor_destroy(&wide);
    return status;
}

tenon_status tn_widened(tenon_value *value, tenon_value **out) {
    tenon_tensor *wide;
    *out = value;
    if (!value || value->dtype == TENON_FLOAT32)
        return TENON_OK;
    TN_TRY(tn_tensor_derive(value->tensor, "float32", widen, NULL, &wide));
    return tn_graph_new_constant(value->graph, value->name, wide, out);
}

void tn_value_adopt(tenon_value *to, const tenon_value *from) {
    if (to->dtype == TENON_DTYPE_NONE)
        to->dtype = from->dtype;
    if (to->rank < 0) {
        to->rank = from->rank;
        if (from->shape && from->rank > 0) {
            to->shape = tn_arena_array(&to->graph->arena, (size_t)from->rank, sizeof *from->shape);
            if (to->shape)
                memcpy(to->shape, from->shape, (size_t)from->rank * sizeof *from->shape);
        }
    }
}

static bool is_dead(const tenon_node *node) {
    if (!node || node->output_count == 0 || node->op->kind == TN_OP_INPLACE)
        return false;
    for (int i = 0; i < node->output_count; i++)
        if (node->outputs[i]->use_count)
            return false;
    return true;
}

/* Erases a node and what only fed it, so that later matches see true counts of uses. What does not
 * fit the list is left to tn_graph_drop_dead. */
static tenon_status erase_with_feeders(tenon_node *node) {
    tenon_node *dead[64] = {node};
    int count = 1;
    while (count > 0) {
        node = dead[--count];
        tenon_node *feeders[16];
        int feeder_count = 0;
        for (int i = 0; i < node->use_count && feeder_count < TN_COUNT(feeders); i++)
            if (node->uses[i].value->node)
                feeders[feeder_count++] = node->uses[i].value->node;
        TN_TRY(tenon_node_erase(node));
        for (int i = 0; i < feeder_count; i++) {
            bool again = feeders[i]->erased || !is_dead(feeders[i]);
            for (int k = 0; k < count; k++)
                again |= dead[k] == feeders[i];
            if (!again && count < TN_COUNT(dead))
                dead[count++] = feeders[i];
        }
    }
    return TENON_OK;
}

static tenon_status replace(tenon_node *node, tenon_value **with, int64_t made_from) {
    for (int i = 0; i < node->output_count; i++) {
        tenon_value *output = node->outputs[i];
        if (with[i]) {
            tn_value_adopt(with[i], output);
            if (with[i]->node && with[i]->id >= made_from && with[i]->node->mark != NAMED)
                with[i]->node->name = node->name; /* the one that the exported program knows */
            TN_TRY(tenon_value_replace(output, with[i]));
        } else if (output->use_count) {
            return tn_pass_refuse(node, "output %d is used, but was not replaced", i);
        }
    }
    return erase_with_feeders(node);
}

/* A composite whose shape rule is its formula waits for sizes. */
static bool waits(const tenon_node *node) {
    if (node->op->infer != tn_infer_composite)
        return false;
    for (int i = 0; i < node->use_count; i++)
        if (!tn_value_static(node->uses[i].value))
            return true;
    return false;
}

/* Composite ops take numbers where tensors are meant, as PyTorch does; rules are for tensors. */
static bool has_tensors(const tenon_node *node) {
    for (int i = 0; i < node->op->param_count; i++) {
        const tenon_arg *arg = &node->args[i];
        int count = arg->kind == TENON_ARG_LIST ? arg->count : 1;
        for (int k = 0; node->op->params[i].type == TN_TYPE_TENSOR && k < count; k++) {
            const tenon_arg *item = arg->kind == TENON_ARG_LIST ? &arg->as.list[k] : arg;
            if (item->kind != TENON_ARG_NONE &&
                (item->kind != TENON_ARG_VALUE || item->as.value->scalar != TN_TENSOR))
                return false;
        }
    }
    return true;
}

static tenon_status apply(tenon_graph *graph, tn_rule_fn *by_op, tenon_value **with,
                          bool *changed) {
    for (tenon_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        /* ops that users registered have ids behind those of the table */
        tn_rule_fn rule = node->op->id < TN_OP_COUNT ? by_op[node->op->id] : NULL;
        if (!rule || node->output_count == 0 || node->output_count > 64 ||
            (node->op->kind == TN_OP_LOWER && (!has_tensors(node) || waits(node))))
            continue;
        memset(with, 0, 64 * sizeof(tenon_value *));
        tenon_node *before = node->prev;
        int64_t made_from = graph->value_count;
        TN_TRY(rule(node, with));
        bool done = false;
        for (int i = 0; i < node->output_count; i++)
            done |= with[i] != NULL;
        if (!done)
            continue;
        *changed = true;
        tenon_node *made = before ? before->next : graph->first;
        if (made != node)
            next = made;
        TN_TRY(replace(node, with, made_from));
    }
    return TENON_OK;
}

tenon_status tn_apply_rules(tenon_graph *graph, const tn_rule *rules, int count, bool *changed) {
    tn_rule_fn by_op[TN_OP_COUNT] = {0};
    tenon_value *with[64];
    for (int i = 0; i < count; i++)
        by_op[rules[i].op] = rules[i].run;
    return apply(graph, by_op, with, changed);
}

tenon_status tn_pass_refuse(const tenon_node *node, const char *format, ...) {
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return tn_fail(TENON_UNSUPPORTED, "node '%s' (%s): %s", node->name, node->op->name, text);
}

static const void *element(const tenon_value *value) {
    return value->tensor->view.data;
}

bool tn_arg_number(const tenon_node *node, int index, double *out) {
    const tenon_arg *arg = &node->args[index];
    switch (arg->kind) {
    case TENON_ARG_INT:
        *out = (double)arg->as.i;
        return true;
    case TENON_ARG_FLOAT:
        *out = arg->as.f;
        return true;
    case TENON_ARG_BOOL:
        *out = arg->as.b;
        return true;
    case TENON_ARG_VALUE:
        if (!tn_is_constant(arg->as.value) || tn_value_numel(arg->as.value) != 1)
            return false;
        *out = tn_load_float(element(arg->as.value), arg->as.value->dtype);
        return true;
    default:
        return false;
    }
}

bool tn_arg_is(const tenon_node *node, int index, double number) {
    double found;
    return tn_arg_number(node, index, &found) && fabs(found - number) <= 1e-6 * fabs(number);
}

int tn_number_side(const tenon_node *node, double *number) {
    if (tn_arg_number(node, 1, number))
        return 1;
    return tn_arg_number(node, 0, number) ? 0 : -1;
}

bool tn_is_image_mean(const tenon_node *node) {
    int64_t dims[2]; /* of 0 to 3, only 2 and 3 make 5 */
    return tn_node_is(node, TN_OP_mean_dim) && tn_arg_value(node, 0)->rank == 4 &&
           tn_arg_ints(node, 1, dims, 2) == 2 && tn_arg_bool(node, 2) &&
           (dims[0] + 4) % 4 + (dims[1] + 4) % 4 == 5;
}

int64_t tn_size_of(const tenon_value *value, int dim) {
    if (dim < 0)
        dim += value->rank;
    return value->shape && dim >= 0 && dim < value->rank ? value->shape[dim] : -1;
}

bool tn_same_sizes(const tenon_value *a, const tenon_value *b) {
    return tn_value_static(a) && has_sizes(b, a->shape, a->rank);
}

bool tn_is_float_value(const tenon_value *value) {
    return tn_dtype_is_float(value->dtype);
}

/* Elementwise ops are those with these kernels. */
bool tn_is_elementwise(int id) {
    static const char *const kernels[TN_OP_COUNT] = {
#define OP(op, schema, infer, kernel, map) [TN_OP_##op] = #kernel,
#define VIEW(op, schema, infer, view)
#define INPLACE(op, schema)
#define LOWER(op, schema, infer)
#define SYM(op, schema, eval)
#include "core/ops.def"
#undef OP
#undef VIEW
#undef INPLACE
#undef LOWER
#undef SYM
    };
    static const char *const names[] = {"unary", "binary", "ternary", "copy"};
    for (int i = 0; id < TN_OP_COUNT && kernels[id] && i < TN_COUNT(names); i++)
        if (strcmp(kernels[id], names[i]) == 0)
            return true;
    return false;
}
