/* Arguments: checked against the schema when a node is made, read by rules and kernels afterwards.
 */
#include "core/arg.h"
#include "core/fail.h"
#include <string.h>

static const char *kind_text(const tenon_arg *arg) {
    static const char *const texts[] = {"nothing", "None",     "a value", "an integer", "a float",
                                        "a bool",  "a string", "a dtype", "a list"};
    return (unsigned)arg->kind < TN_COUNT(texts) ? texts[arg->kind] : "an unknown kind";
}

static const char *const type_texts[] = {
    [TN_TYPE_TENSOR] = "a tensor", [TN_TYPE_INT] = "an integer",  [TN_TYPE_FLOAT] = "a float",
    [TN_TYPE_BOOL] = "a bool",     [TN_TYPE_SCALAR] = "a number", [TN_TYPE_STRING] = "a string",
    [TN_TYPE_DTYPE] = "a dtype",   [TN_TYPE_ENUM] = "an integer",
};

/* Whether a single argument fits, after a harmless conversion. PyTorch takes numbers for tensors;
 * registered ops do not. */
static bool fits(const tn_op *op, tn_type type, tenon_arg *arg) {
    bool numbers = type != TN_TYPE_TENSOR || op->id < TN_OP_COUNT;
    if (arg->kind == TENON_ARG_VALUE) {
        if (!arg->as.value || arg->as.value->scalar == TN_TENSOR)
            return arg->as.value && type == TN_TYPE_TENSOR;
        return numbers &&
               type <= TN_TYPE_SCALAR; /* a symbolic number; its kind is checked when bound */
    }
    bool number =
        arg->kind == TENON_ARG_INT || arg->kind == TENON_ARG_FLOAT || arg->kind == TENON_ARG_BOOL;
    switch (type) {
    case TN_TYPE_TENSOR:
        return numbers && number;
    case TN_TYPE_SCALAR:
        return number;
    case TN_TYPE_INT:
    case TN_TYPE_ENUM:
        if (arg->kind == TENON_ARG_BOOL)
            *arg = tenon_arg_int(arg->as.b);
        return arg->kind == TENON_ARG_INT;
    case TN_TYPE_FLOAT:
        if (arg->kind == TENON_ARG_INT)
            *arg = tenon_arg_float((double)arg->as.i);
        return arg->kind == TENON_ARG_FLOAT;
    case TN_TYPE_BOOL:
        if (arg->kind == TENON_ARG_INT)
            *arg = tenon_arg_bool(arg->as.i != 0);
        return arg->kind == TENON_ARG_BOOL;
    case TN_TYPE_STRING:
        return arg->kind == TENON_ARG_STRING;
    case TN_TYPE_DTYPE:
        return arg->kind == TENON_ARG_DTYPE && arg->as.dtype > TENON_DTYPE_NONE &&
               arg->as.dtype < TENON_DTYPE_COUNT;
    }
    return false;
}

static tenon_status wrong(const tn_op *op, const tn_param *param, const tenon_arg *arg) {
    return tn_fail(TENON_INVALID_GRAPH, "%s: argument '%s' is %s, but %s%s%s is needed", op->name,
                   param->name, kind_text(arg), param->list ? "a list, each item " : "",
                   type_texts[param->type], param->optional ? " or None" : "");
}

static tenon_status keep_string(tn_arena *arena, tenon_arg *arg) {
    if (arg->kind != TENON_ARG_STRING)
        return TENON_OK;
    arg->as.s = tn_arena_strdup(arena, arg->as.s);
    return arg->as.s ? TENON_OK : tn_no_memory();
}

bool tn_arg_fits(const tn_op *op, const tn_param *param, tenon_arg arg) {
    if (arg.kind == TENON_ARG_NONE)
        return param->optional;
    if (arg.kind != TENON_ARG_LIST)
        return fits(op, param->type, &arg);
    for (int i = 0; i < arg.count; i++) {
        tenon_arg item = arg.as.list[i];
        if (!param->list || !fits(op, param->type, &item))
            return false;
    }
    return param->list;
}

tenon_status tn_arg_check(tenon_graph *graph, const tn_op *op, const tn_param *param,
                          const tenon_arg *from, tenon_arg *to) {
    tenon_arg one = *from;
    *to = *from;
    if (from->kind == TENON_ARG_NONE)
        return param->optional ? TENON_OK : wrong(op, param, from);
    if (!param->list) {
        if (!fits(op, param->type, to))
            return wrong(op, param, from);
        if (to->kind == TENON_ARG_VALUE && to->as.value->graph != graph)
            return tn_fail(TENON_INVALID_ARGUMENT, "%s: argument '%s' is a value of another graph",
                           op->name, param->name);
        return keep_string(&graph->arena, to);
    }
    if (from->kind != TENON_ARG_LIST) { /* a single number stands for a list */
        if (param->type == TN_TYPE_TENSOR)
            return wrong(op, param, from);
        *to = tenon_arg_list(&one, 1);
    }
    if (to->count < 0 || (to->count > 0 && !to->as.list))
        return tn_fail(TENON_INVALID_ARGUMENT, "%s: argument '%s' is a list of %d items", op->name,
                       param->name, to->count);
    tenon_arg *items = tn_arena_array(&graph->arena, (size_t)to->count, sizeof *items);
    if (!items)
        return tn_no_memory();
    for (int i = 0; i < to->count; i++) {
        items[i] = to->as.list[i];
        bool absent = items[i].kind == TENON_ARG_NONE && param->item_optional;
        if (!absent && !fits(op, param->type, &items[i]))
            return wrong(op, param, &items[i]);
        if (items[i].kind == TENON_ARG_VALUE && items[i].as.value->graph != graph)
            return tn_fail(TENON_INVALID_ARGUMENT,
                           "%s: argument '%s' holds a value of another graph", op->name,
                           param->name);
        TN_TRY(keep_string(&graph->arena, &items[i]));
    }
    *to = tenon_arg_list(items, to->count);
    return TENON_OK;
}

/* NOLINTNEXTLINE(misc-no-recursion): items of a list are no lists */
bool tn_arg_equal(const tenon_arg *a, const tenon_arg *b) {
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case TENON_ARG_DEFAULT:
    case TENON_ARG_NONE:
        return true;
    case TENON_ARG_VALUE:
        return a->as.value == b->as.value;
    case TENON_ARG_INT:
        return a->as.i == b->as.i;
    case TENON_ARG_FLOAT:
        /* NaN is equal to itself, and -0 is not 0. */
        return memcmp(&a->as.f, &b->as.f, sizeof a->as.f) == 0; /* NOLINT(*-comparison,cert-*) */
    case TENON_ARG_BOOL:
        return a->as.b == b->as.b;
    case TENON_ARG_STRING:
        return strcmp(a->as.s, b->as.s) == 0;
    case TENON_ARG_DTYPE:
        return a->as.dtype == b->as.dtype;
    case TENON_ARG_LIST:
        if (a->count != b->count)
            return false;
        for (int i = 0; i < a->count; i++)
            if (!tn_arg_equal(&a->as.list[i], &b->as.list[i]))
                return false;
        return true;
    }
    return false;
}

/* ---- Reading ---- */

static bool number_as_int(const tenon_arg *arg, int64_t *out) {
    switch (arg->kind) {
    case TENON_ARG_INT:
        *out = arg->as.i;
        return true;
    case TENON_ARG_BOOL:
        *out = arg->as.b;
        return true;
    case TENON_ARG_FLOAT:
        if (!(arg->as.f > -0x1p63 && arg->as.f < 0x1p63))
            return false;
        *out = (int64_t)arg->as.f;
        return true;
    default:
        return false;
    }
}

int64_t tn_arg_int(const tenon_node *node, int index, int64_t other) {
    int64_t value;
    return number_as_int(&node->args[index], &value) ? value : other;
}

double tn_arg_float(const tenon_node *node, int index, double other) {
    const tenon_arg *arg = &node->args[index];
    int64_t value;
    if (arg->kind == TENON_ARG_FLOAT)
        return arg->as.f;
    return number_as_int(arg, &value) ? (double)value : other;
}

bool tn_arg_bool(const tenon_node *node, int index) {
    int64_t value;
    return number_as_int(&node->args[index], &value) && value != 0;
}

tenon_dtype tn_arg_dtype(const tenon_node *node, int index) {
    const tenon_arg *arg = &node->args[index];
    return arg->kind == TENON_ARG_DTYPE ? arg->as.dtype : TENON_DTYPE_NONE;
}

const char *tn_arg_string(const tenon_node *node, int index) {
    const tenon_arg *arg = &node->args[index];
    return arg->kind == TENON_ARG_STRING ? arg->as.s : NULL;
}

int tn_arg_ints(const tenon_node *node, int index, int64_t *out, int capacity) {
    const tenon_arg *arg = &node->args[index];
    if (arg->kind == TENON_ARG_NONE)
        return 0;
    int count = arg->kind == TENON_ARG_LIST ? arg->count : 1;
    if (count > capacity)
        return -1;
    for (int i = 0; i < count; i++)
        if (!number_as_int(arg->kind == TENON_ARG_LIST ? &arg->as.list[i] : arg, &out[i]))
            return -1;
    return count;
}

int tn_arg_ints_of(const tenon_node *node, int index, int64_t *out, int count) {
    int found = tn_arg_ints(node, index, out, count);
    if (found == 1)
        for (int i = 1; i < count; i++)
            out[i] = out[0];
    return found == 1 ? count : found;
}
