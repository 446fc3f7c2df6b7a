/* Numbers that are taken out of tensors. item() becomes the tensor itself, without dimensions,
 * which operators take in the place of a number; sums, differences and products of such numbers
 * become operators on tensors. Whatever else is worked out of them is lost: asserts on it go, and
 * other uses, such as a size, are refused. */
#include "load/pt2.h"
#include <stdio.h>
#include <string.h>

/* The argument that stands for a number that is lost. */
static const char lost[] = "a number that depends on data";

bool tn_pt2_is_lost(const tenon_arg *arg) {
    return arg->kind == TENON_ARG_STRING && arg->as.s == lost;
}

static bool is_tensor(const tenon_arg *arg) {
    return arg->kind == TENON_ARG_VALUE && arg->as.value->scalar == TN_TENSOR;
}

bool tn_pt2_is_item(const char *op) {
    return strcmp(op, "aten.item.default") == 0 ||
           strcmp(op, "aten._local_scalar_dense.default") == 0;
}

static tenon_status emit(tn_pt2 *pt2, const char *name, const tenon_arg *args, int count,
                         tenon_arg *out) {
    tenon_node *node;
    TN_PT2_TRY(pt2, tn_graph_add(pt2->graph, NULL, tn_op_find(name), NULL, args, count, -1, &node));
    *out = tenon_arg_value(node->outputs[0]);
    return TENON_OK;
}

/* Adds a node whose output's dtype and rank are known although its sizes may not be. */
static tenon_status emit_number(tn_pt2 *pt2, const char *name, const tenon_arg *args, int count,
                                tenon_dtype dtype, tenon_arg *out) {
    TN_TRY(emit(pt2, name, args, count, out));
    tenon_value *value = out->as.value;
    if (value->dtype == TENON_DTYPE_NONE)
        value->dtype = dtype;
    if (value->rank < 0)
        value->rank = 0;
    return TENON_OK;
}

static tenon_status cast(tn_pt2 *pt2, tenon_arg *arg, tenon_dtype dtype) {
    if (arg->as.value->dtype == dtype)
        return TENON_OK;
    const tenon_arg args[2] = {*arg, tenon_arg_dtype(dtype)};
    return emit_number(pt2, "aten._to_copy", args, 2, dtype, arg);
}

/* Python's numbers are float64 and int64; of float32 and less, float32 holds all, and gives
 * PyTorch's dtypes beside integers. */
static tenon_dtype number_dtype(tenon_dtype dtype) {
    if (dtype == TENON_FLOAT64 || dtype == TENON_BOOL)
        return dtype;
    return tn_dtype_is_float(dtype) ? TENON_FLOAT32 : TENON_INT64;
}

tenon_status tn_pt2_item(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *node) {
    const cJSON *input = tn_json_first(tn_json_get(node, "inputs"));
    tn_scalar scalar;
    const char *name = tn_pt2_output_name(tn_json_first(tn_json_get(node, "outputs")), &scalar);
    tenon_arg arg;
    TN_TRY(tn_pt2_arg(pt2, scope, tn_json_get(input, "arg"), &arg));
    if (!is_tensor(&arg) || !name)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "it takes a tensor and gives a number");
    tenon_dtype dtype = arg.as.value->dtype;
    if (dtype == TENON_DTYPE_NONE)
        return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "its tensor has no known dtype");
    if (arg.as.value->rank != 0) {
        const tenon_arg args[2] = {arg, tenon_arg_list(NULL, 0)};
        TN_TRY(emit_number(pt2, "aten.view", args, 2, dtype, &arg));
    }
    /* A copy: what is written to the tensor later does not change the number. */
    TN_TRY(emit_number(pt2, "aten.clone", &arg, 1, dtype, &arg));
    TN_TRY(cast(pt2, &arg, number_dtype(dtype)));
    return tn_pt2_bind(pt2, scope, name, arg);
}

/* ---- Arithmetic ---- */

static const struct {
    int op;
    const char *name;
} arithmetic[] = {
    {TN_OP_operator_add, "aten.add.Tensor"},
    {TN_OP_operator_sub, "aten.sub.Tensor"},
    {TN_OP_operator_mul, "aten.mul.Tensor"},
    {TN_OP_operator_neg, "aten.neg"},
};

bool tn_pt2_has_item(const tn_op *op, const tenon_arg *args) {
    for (int i = 0; i < op->param_count; i++)
        if (tn_pt2_is_lost(&args[i]) ||
            (op->params[i].type != TN_TYPE_TENSOR && is_tensor(&args[i])))
            return true;
    return false;
}

/* The result of a number op on numbers of which some are tensors. */
static tenon_status compute(tn_pt2 *pt2, const tn_op *op, tenon_arg *args, tenon_arg *out) {
    const char *name = NULL;
    bool floats = false;
    *out = tenon_arg_string(lost);
    for (int i = 0; i < TN_COUNT(arithmetic); i++)
        if (arithmetic[i].op == op->id)
            name = arithmetic[i].name;
    for (int i = 0; i < op->param_count; i++) {
        bool tensor = is_tensor(&args[i]);
        if (!name || tn_pt2_is_lost(&args[i]) ||
            (tensor && args[i].as.value->dtype == TENON_BOOL) ||
            (!tensor && args[i].kind != TENON_ARG_INT && args[i].kind != TENON_ARG_FLOAT))
            return TENON_OK;
        floats |= args[i].kind == TENON_ARG_FLOAT ||
                  (tensor && tn_dtype_is_float(args[i].as.value->dtype));
    }
    tenon_dtype dtype = TENON_INT64;
    for (int i = 0; i < op->param_count; i++) {
        if (!is_tensor(&args[i]))
            continue;
        if (floats && args[i].as.value->dtype == TENON_INT64)
            TN_TRY(cast(pt2, &args[i], TENON_FLOAT64));
        dtype = args[i].as.value->dtype == TENON_INT64 ? dtype : args[i].as.value->dtype;
    }
    return emit_number(pt2, name, args, op->param_count, dtype, out);
}

tenon_status tn_pt2_item_number(tn_pt2 *pt2, tn_pt2_scope *scope, const tn_op *op,
                                const cJSON *node, tenon_arg *args) {
    tn_scalar scalar;
    tenon_arg result;
    const char *name = tn_pt2_output_name(tn_json_first(tn_json_get(node, "outputs")), &scalar);
    TN_TRY(compute(pt2, op, args, &result));
    return name ? tn_pt2_bind(pt2, scope, name, result) : TENON_OK;
}

/* ---- Operators that take a number ---- */

static const tn_op *overload(const tn_op *op, const char *ending, const char *with) {
    char name[128];
    size_t length = strlen(op->name), cut = strlen(ending);
    if (length < cut || strcmp(op->name + length - cut, ending) != 0)
        return NULL;
    snprintf(name, sizeof name, "%.*s%s", (int)(length - cut), op->name, with);
    return tn_op_find(name);
}

/* The overload that takes a tensor as argument `index`, or NULL. */
static const tn_op *with_tensor(const tn_op *op, int index) {
    static const char *const endings[][2] = {
        {".Scalar", ".Tensor"},
        {".Tensor_Scalar", ".Tensor_Tensor"},
        {".Scalar", ".Tensor_Tensor"},
        {".Scalar_mode", ".Tensor_mode"},
        {".ScalarSelf", ".self"},
        {".ScalarOther", ".self"},
        {".Scalar", ".self"},
        {".int_Scalar", ".int_Tensor"},
        {"", ".Tensor"},
    };
    if (op->id == TN_OP_scalar_tensor) /* the same parameters in front */
        return tn_op_by_id(TN_OP_to_copy);
    for (int i = 0; i < TN_COUNT(endings); i++) {
        const tn_op *other = overload(op, endings[i][0], endings[i][1]);
        if (other && other->param_count == op->param_count &&
            other->params[index].type == TN_TYPE_TENSOR && !other->params[index].list)
            return other;
    }
    return NULL;
}

static tenon_status refuse(const tn_pt2 *pt2, const tn_param *param) {
    return tn_pt2_fail(pt2, TENON_UNSUPPORTED,
                       "argument '%s' depends on data: on the values of tensors, not only on their "
                       "shapes",
                       param->name);
}

tenon_status tn_pt2_item_args(const tn_pt2 *pt2, const tn_op **op, const tenon_arg *args) {
    for (int i = 0; i < (*op)->param_count; i++) {
        const tn_param *param = &(*op)->params[i];
        bool listed = args[i].kind == TENON_ARG_LIST;
        for (int k = 0; k < (listed ? args[i].count : 1); k++) {
            const tenon_arg *arg = listed ? &args[i].as.list[k] : &args[i];
            if (tn_pt2_is_lost(arg))
                return refuse(pt2, param);
            if (param->type == TN_TYPE_TENSOR || !is_tensor(arg))
                continue;
            const tn_op *other = listed ? NULL : with_tensor(*op, i);
            if (!other)
                return refuse(pt2, param);
            *op = other;
            param = &other->params[i];
        }
    }
    return TENON_OK;
}
