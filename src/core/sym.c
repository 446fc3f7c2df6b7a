/* Symbolic numbers: evaluated with Python's meaning once symbols are bound. */
#include "core/infer.h"
#include <math.h>
#include <string.h>

static bool is_float(const tenon_arg *arg) {
    return arg->kind == TENON_ARG_FLOAT;
}

static double as_float(const tenon_arg *arg) {
    return arg->kind == TENON_ARG_FLOAT ? arg->as.f
           : arg->kind == TENON_ARG_INT ? (double)arg->as.i
                                        : (double)arg->as.b;
}

static int64_t as_int(const tenon_arg *arg) {
    return arg->kind == TENON_ARG_INT ? arg->as.i : arg->as.b;
}

static tenon_status wrong(const tenon_node *node, const char *rule) {
    return tn_fail(TENON_RUN_FAILED, "node '%s' (%s): %s", node->name, node->op->name, rule);
}

static tenon_status need_numbers(const tenon_node *node, const tenon_arg *args) {
    for (int i = 0; i < node->op->param_count; i++)
        if (args[i].kind != TENON_ARG_INT && args[i].kind != TENON_ARG_FLOAT &&
            args[i].kind != TENON_ARG_BOOL)
            return wrong(node, "a number is not known when symbols are bound");
    return TENON_OK;
}

static tenon_status float_binary(const tenon_node *node, double a, double b, tenon_arg *out) {
    double result;
    switch (node->op->id) {
    case TN_OP_operator_add:
        result = a + b;
        break;
    case TN_OP_operator_sub:
        result = a - b;
        break;
    case TN_OP_operator_mul:
        result = a * b;
        break;
    case TN_OP_operator_pow:
        result = pow(a, b);
        break;
    case TN_OP_torch_sym_min:
        result = fmin(a, b);
        break;
    case TN_OP_torch_sym_max:
        result = fmax(a, b);
        break;
    default: /* truediv, floordiv, mod */
        if (b == 0)
            return wrong(node, "division by zero");
        if (node->op->id == TN_OP_operator_truediv)
            result = a / b;
        else if (node->op->id == TN_OP_operator_floordiv)
            result = floor(a / b);
        else
            result = a - b * floor(a / b);
    }
    *out = tenon_arg_float(result);
    return TENON_OK;
}

tenon_status tn_sym_binary(const tenon_node *node, const tenon_arg *args, const tenon_value *tensor,
                           tenon_arg *out) {
    static const struct {
        int op;
        tn_expr_kind kind;
    } kinds[] = {
        {TN_OP_operator_add, TN_EXPR_ADD},           {TN_OP_operator_mul, TN_EXPR_MUL},
        {TN_OP_operator_floordiv, TN_EXPR_FLOORDIV}, {TN_OP_operator_mod, TN_EXPR_MOD},
        {TN_OP_operator_pow, TN_EXPR_POW},           {TN_OP_torch_sym_min, TN_EXPR_MIN},
        {TN_OP_torch_sym_max, TN_EXPR_MAX},
    };
    (void)tensor;
    TN_TRY(need_numbers(node, args));
    bool negative_power =
        node->op->id == TN_OP_operator_pow && !is_float(&args[1]) && as_int(&args[1]) < 0;
    if (is_float(&args[0]) || is_float(&args[1]) || node->op->id == TN_OP_operator_truediv ||
        negative_power)
        return float_binary(node, as_float(&args[0]), as_float(&args[1]), out);
    tn_expr a = {TN_EXPR_INT, as_int(&args[0]), NULL, NULL};
    tn_expr b = {TN_EXPR_INT, as_int(&args[1]), NULL, NULL};
    tn_expr whole = {TN_EXPR_ADD, 0, &a, &b};
    for (int i = 0; i < TN_COUNT(kinds); i++)
        if (kinds[i].op == node->op->id)
            whole.kind = kinds[i].kind;
    bool subtract = node->op->id == TN_OP_operator_sub;
    int64_t value;
    if (subtract ? __builtin_sub_overflow(a.value, b.value, &value)
                 : !tn_expr_eval(&whole, NULL, &value))
        return wrong(node, "integer overflow, or division by zero");
    *out = tenon_arg_int(value);
    return TENON_OK;
}

tenon_status tn_sym_compare(const tenon_node *node, const tenon_arg *args,
                            const tenon_value *tensor, tenon_arg *out) {
    (void)tensor;
    TN_TRY(need_numbers(node, args));
    int order;
    if (is_float(&args[0]) || is_float(&args[1])) {
        double a = as_float(&args[0]), b = as_float(&args[1]);
        order = a < b ? -1 : a > b;
    } else {
        int64_t a = as_int(&args[0]), b = as_int(&args[1]);
        order = a < b ? -1 : a > b;
    }
    switch (node->op->id) {
    case TN_OP_operator_eq:
        *out = tenon_arg_bool(order == 0);
        break;
    case TN_OP_operator_ne:
        *out = tenon_arg_bool(order != 0);
        break;
    case TN_OP_operator_lt:
        *out = tenon_arg_bool(order < 0);
        break;
    case TN_OP_operator_le:
        *out = tenon_arg_bool(order <= 0);
        break;
    case TN_OP_operator_gt:
        *out = tenon_arg_bool(order > 0);
        break;
    default:
        *out = tenon_arg_bool(order >= 0);
    }
    return TENON_OK;
}

tenon_status tn_sym_logic(const tenon_node *node, const tenon_arg *args, const tenon_value *tensor,
                          tenon_arg *out) {
    (void)tensor;
    TN_TRY(need_numbers(node, args));
    bool a = as_float(&args[0]) != 0;
    if (node->op->id == TN_OP_torch_sym_not)
        *out = tenon_arg_bool(!a);
    else if (node->op->id == TN_OP_operator_and_)
        *out = tenon_arg_bool(a && as_float(&args[1]) != 0);
    else
        *out = tenon_arg_bool(a || as_float(&args[1]) != 0);
    return TENON_OK;
}

tenon_status tn_sym_unary(const tenon_node *node, const tenon_arg *args, const tenon_value *tensor,
                          tenon_arg *out) {
    (void)tensor;
    TN_TRY(need_numbers(node, args));
    double value = as_float(&args[0]);
    switch (node->op->id) {
    case TN_OP_operator_neg:
        if (is_float(&args[0]))
            *out = tenon_arg_float(-value);
        else if (as_int(&args[0]) == INT64_MIN)
            return wrong(node, "integer overflow");
        else
            *out = tenon_arg_int(-as_int(&args[0]));
        return TENON_OK;
    case TN_OP_torch_sym_float:
        *out = tenon_arg_float(value);
        return TENON_OK;
    case TN_OP_torch_sym_sqrt:
        *out = tenon_arg_float(sqrt(value));
        return TENON_OK;
    default:
        break;
    }
    if (!is_float(&args[0])) {
        *out = tenon_arg_int(as_int(&args[0]));
        return TENON_OK;
    }
    value = node->op->id == TN_OP_math_ceil    ? ceil(value)
            : node->op->id == TN_OP_math_floor ? floor(value)
            : node->op->id == TN_OP_math_round ? nearbyint(value)
                                               : trunc(value);
    if (!(value >= -0x1p63 && value < 0x1p63))
        return wrong(node, "the number does not fit in 64 bits");
    *out = tenon_arg_int((int64_t)value);
    return TENON_OK;
}

/* A graph's values are row-major, whatever strides a plan gives them; so are those of channels-last
 * memory when only one of their dimensions after the batch is larger than 1. */
static bool is_contiguous(const tenon_value *tensor, int64_t format) {
    int64_t strides[TENON_MAX_RANK], want[TENON_MAX_RANK];
    if (format != 2 && format != 3) /* c10::MemoryFormat: channels last, channels last 3d */
        return true;
    if (tensor->rank != (format == 2 ? 4 : 5))
        return false;
    tn_contiguous_strides(tensor->rank, tensor->shape, strides);
    tn_channels_last_strides(tensor->rank, tensor->shape, want);
    for (int d = 0; d < tensor->rank; d++)
        if (tensor->shape[d] != 1 && strides[d] != want[d])
            return false;
    return true;
}

tenon_status tn_sym_size(const tenon_node *node, const tenon_arg *args, const tenon_value *tensor,
                         tenon_arg *out) {
    if (!tensor)
        return wrong(node, "needs a tensor");
    int64_t strides[TENON_MAX_RANK], dim = 0;
    if (node->op->id == TN_OP_sym_numel) {
        *out = tenon_arg_int(tn_value_numel(tensor));
        return TENON_OK;
    }
    if (node->op->id == TN_OP_sym_storage_offset) {
        *out = tenon_arg_int(0);
        return TENON_OK;
    }
    if (node->op->id == TN_OP_sym_is_contiguous) {
        *out =
            tenon_arg_bool(is_contiguous(tensor, args[1].kind == TENON_ARG_INT ? args[1].as.i : 0));
        return TENON_OK;
    }
    if (args[1].kind != TENON_ARG_INT)
        return wrong(node, "the dimension is not an integer");
    dim = args[1].as.i;
    if (dim < -tensor->rank || dim >= tensor->rank)
        return wrong(node, "the dimension is outside the tensor's rank");
    dim += dim < 0 ? tensor->rank : 0;
    tn_contiguous_strides(tensor->rank, tensor->shape, strides);
    *out = tenon_arg_int(node->op->id == TN_OP_sym_size_int ? tensor->shape[dim] : strides[dim]);
    return TENON_OK;
}
