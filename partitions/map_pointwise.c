/* Mappings of elementwise ops. The strides of operands and result are one layout, or an operand is
 * broadcast. */
#include "partitions/internal.h"
#include <math.h>
#include <string.h>

/* ---- One operand ---- */

/* Checks argument 0 and output 0: dense, one layout. */
static bool like(tn_builder *b, tenon_node *node) {
    const tenon_view *in = tn_b_view(b, node, 0);
    if (!tn_b_check(b, node, in))
        return false;
    if (!tn_view_dense(in) || !tn_same_layout(in, tn_b_out_view(b, node, 0)))
        return tn_refuse(b, TENON_REASON_LAYOUT, "its operand is strided");
    return true;
}

static bool unary(tn_builder *b, tenon_node *node, dnnl_graph_op_kind_t kind) {
    if (!like(b, node))
        return false;
    tn_b_op(b, kind, tn_b_value(b, tn_arg_value(node, 0)), -1, -1, tn_b_value(b, node->outputs[0]));
    return true;
}

#define UNARY(name, kind)                                 \
    bool tn_map_##name(tn_builder *b, tenon_node *node) { \
        return unary(b, node, dnnl_graph_op_##kind);      \
    }
UNARY(Abs, abs)
UNARY(Exp, exp)
UNARY(HardSwish, hard_swish)
UNARY(Log, log)
UNARY(Mish, mish)
UNARY(ReLU, relu)
UNARY(Sigmoid, sigmoid)
UNARY(Sqrt, sqrt)
UNARY(Square, square)
UNARY(Tanh, tanh)

bool tn_map_Round(tn_builder *b, tenon_node *node) {
    if (tn_b_out_view(b, node, 0)->dtype != TENON_FLOAT32)
        return tn_refuse(b, TENON_REASON_DTYPE, "oneDNN rounds float32 only");
    return unary(b, node, dnnl_graph_op_round);
}

bool tn_map_HardSigmoid(tn_builder *b, tenon_node *node) {
    if (!unary(b, node, dnnl_graph_op_hard_sigmoid))
        return false;
    tn_b_set_float(b, dnnl_graph_op_attr_alpha, 1.0 / 6);
    tn_b_set_float(b, dnnl_graph_op_attr_beta, 0.5);
    return true;
}

bool tn_map_GELU(tn_builder *b, tenon_node *node) {
    const char *form = tn_arg_string(node, 1);
    bool tanh_form = form && strcmp(form, "tanh") == 0;
    /* Without the attribute oneDNN would take the erf form silently. */
    if (tanh_form && !b->caps->gelu_tanh)
        return tn_refuse(b, TENON_REASON_VERSION, "the tanh form of GELU needs oneDNN 3.9");
    if (!unary(b, node, dnnl_graph_op_gelu))
        return false;
#if DNNL_VERSION_MAJOR > 3 || DNNL_VERSION_MINOR >= 9
    if (tanh_form)
        tn_b_set_string(b, dnnl_graph_op_attr_mode, "gelu_tanh");
#else
    if (tanh_form)
        return tn_refuse(b, TENON_REASON_VERSION, "this build knows oneDNN %d.%d only",
                         DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR);
#endif
    return true;
}

bool tn_map_Elu(tn_builder *b, tenon_node *node) {
    if (tn_arg_float(node, 2, 1) != 1 || tn_arg_float(node, 3, 1) != 1)
        return tn_refuse(
            b, TENON_REASON_ATTRIBUTE,
            "its scale or input_scale is not 1, and oneDNN's Elu has no scale and input_scale");
    if (!unary(b, node, dnnl_graph_op_elu))
        return false;
    tn_b_set_float(b, dnnl_graph_op_attr_alpha, tn_arg_float(node, 1, 1));
    return true;
}

bool tn_map_LeakyReLU(tn_builder *b, tenon_node *node) {
    if (!unary(b, node, dnnl_graph_op_leaky_relu))
        return false;
    tn_b_set_float(b, dnnl_graph_op_attr_alpha, tn_arg_float(node, 1, 0.01));
    return true;
}

/* PyTorch returns x where beta * x > threshold; at 20 and above that differs from the formula in
 * rounding only. */
bool tn_map_SoftPlus(tn_builder *b, tenon_node *node) {
    if (tn_arg_float(node, 2, 20) < 20)
        return tn_refuse(b, TENON_REASON_ATTRIBUTE,
                         "its threshold is below 20, and oneDNN's SoftPlus has no threshold");
    if (!unary(b, node, dnnl_graph_op_softplus))
        return false;
    tn_b_set_float(b, dnnl_graph_op_attr_beta, tn_arg_float(node, 1, 1));
    return true;
}

static bool clamp(tn_builder *b, tenon_node *node, double min, double max) {
    if (isnan(min) || isnan(max) || min > max)
        return tn_refuse(b, TENON_REASON_ATTRIBUTE, "its bounds %g and %g are not in order", min,
                         max);
    if (!unary(b, node, dnnl_graph_op_clamp))
        return false;
    tn_b_set_float(b, dnnl_graph_op_attr_min, min);
    tn_b_set_float(b, dnnl_graph_op_attr_max, max);
    return true;
}

/* clamp, clamp_min, clamp_max, hardtanh, relu6 */
bool tn_map_Clamp(tn_builder *b, tenon_node *node) {
    const char *name = node->op->name;
    if (strcmp(name, "aten.relu6") == 0)
        return clamp(b, node, 0, 6);
    if (strcmp(name, "aten.clamp_min") == 0)
        return clamp(b, node, tn_arg_float(node, 1, 0), INFINITY);
    if (strcmp(name, "aten.clamp_max") == 0)
        return clamp(b, node, -INFINITY, tn_arg_float(node, 1, 0));
    return clamp(b, node, tn_arg_float(node, 1, -INFINITY), tn_arg_float(node, 2, INFINITY));
}

/* x * sigmoid(x): oneDNN makes one swish of it */
bool tn_map_SigmoidMultiply(tn_builder *b, tenon_node *node) {
    if (!like(b, node))
        return false;
    const tenon_view *view = tn_b_out_view(b, node, 0);
    int x = tn_b_value(b, tn_arg_value(node, 0));
    int gate = tn_b_inner(b, view->dtype, view->rank, view->shape);
    if (view->rank > 0)
        memcpy(b->tensors[gate].strides, view->strides, sizeof view->strides);
    else
        return tn_refuse(b, TENON_REASON_OPERANDS, "it is a single number");
    tn_b_op(b, dnnl_graph_op_sigmoid, x, -1, -1, gate);
    tn_b_op(b, dnnl_graph_op_multiply, gate, x, -1, tn_b_value(b, node->outputs[0]));
    return true;
}

/* Casts between float dtypes; no cast is a copy. */
bool tn_map_TypeCast(tn_builder *b, tenon_node *node) {
    const tenon_view *in = tn_b_view(b, node, 0), *out = tn_b_out_view(b, node, 0);
    if (!in || in->dtype == out->dtype)
        return tn_refuse(b, TENON_REASON_KERNEL_FASTER,
                         "it only copies, which a plain loop does as fast");
    for (int i = 0; i < 2; i++) {
        tenon_dtype dtype = i ? out->dtype : in->dtype;
        bool float32 = dtype == TENON_FLOAT32;
        if (!float32 && !(dtype == TENON_BFLOAT16 && b->caps->bfloat16) &&
            !(dtype == TENON_FLOAT16 && b->caps->float16))
            return tn_refuse(b, TENON_REASON_DTYPE, "oneDNN does not cast %s here",
                             tenon_dtype_text(dtype));
    }
    if (in->dtype != TENON_FLOAT32 && out->dtype != TENON_FLOAT32)
        return tn_refuse(b, TENON_REASON_DTYPE, "oneDNN does not cast bfloat16 to float16");
    if (tenon_view_numel(out) == 0 || !tn_view_dense(in) || !tn_same_layout(in, out))
        return tn_refuse(b, TENON_REASON_LAYOUT, "its operand is empty or strided");
    tn_b_op(b, dnnl_graph_op_type_cast, tn_b_value(b, tn_arg_value(node, 0)), -1, -1,
            tn_b_value(b, node->outputs[0]));
    return true;
}

/* ---- Two operands ---- */

/* An operand that is broadcast, or lies as the result does. */
static bool fits(tn_builder *b, const tenon_view *in, const tenon_view *out) {
    if (tn_same_shape(in, out))
        return (tn_view_dense(in) && tn_same_layout(in, out)) ||
               tn_refuse(b, TENON_REASON_LAYOUT, "its operands lie in different layouts");
    return tn_view_dense(in) || tn_refuse(b, TENON_REASON_LAYOUT, "an operand is strided");
}

/* The number that an argument is: a literal, or a constant of one element without dimensions, whose
 * dtype does not matter. */
static bool number_of(const tn_builder *b, const tenon_node *node, int index, double *number) {
    const tenon_arg *arg = &node->args[index];
    if (arg->kind == TENON_ARG_VALUE) {
        const tenon_view *view = tn_b_view(b, node, index);
        if (!view || view->rank > 0 || !view->data)
            return false;
        *number = tn_load_float(view->data, view->dtype);
        return true;
    }
    *number = tn_arg_float(node, index, 0);
    return arg->kind != TENON_ARG_NONE;
}

/* Operand `index` times `scale`, as a tensor; -1 when it does not fit. */
static int operand(tn_builder *b, tenon_node *node, int index, double scale) {
    const tenon_view *out = tn_b_out_view(b, node, 0), *in;
    double number;
    if (number_of(b, node, index, &number))
        return tn_b_scalar(b, out->dtype, number * scale);
    in = tn_b_view(b, node, index);
    if (!tn_b_check(b, node, in) || !fits(b, in, out))
        return -1;
    if (scale != 1) {
        tn_refuse(b, TENON_REASON_ATTRIBUTE,
                  "its alpha is not 1, and oneDNN's binary ops have no alpha");
        return -1;
    }
    return tn_b_value(b, tn_arg_value(node, index));
}

/* kind(argument first, argument second * scale); one of the operands has the shape of the result.
 */
static bool binary(tn_builder *b, tenon_node *node, dnnl_graph_op_kind_t kind, int first,
                   int second, double scale) {
    const tenon_view *out = tn_b_out_view(b, node, 0);
    const tenon_view *x = tn_b_view(b, node, first), *y = tn_b_view(b, node, second);
    if (!(x && tn_same_shape(x, out)) && !(y && tn_same_shape(y, out)))
        return tn_refuse(b, TENON_REASON_ONEDNN_SLOW,
                         "both operands are broadcast, which oneDNN does in its reference code");
    if (!tn_b_check(b, node, out))
        return false;
    if (!tn_view_dense(out))
        return tn_refuse(b, TENON_REASON_LAYOUT, "its result is strided");
    int left = operand(b, node, first, 1);
    int right = left < 0 ? -1 : operand(b, node, second, scale);
    if (right < 0)
        return false;
    tn_b_op(b, kind, left, right, -1, tn_b_value(b, node->outputs[0]));
    return true;
}

bool tn_map_Add(tn_builder *b, tenon_node *node) {
    return binary(b, node, dnnl_graph_op_add, 0, 1, tn_arg_float(node, 2, 1));
}

bool tn_map_Multiply(tn_builder *b, tenon_node *node) {
    return binary(b, node, dnnl_graph_op_multiply, 0, 1, 1);
}

bool tn_map_Divide(tn_builder *b, tenon_node *node) {
    return binary(b, node, dnnl_graph_op_divide, 0, 1, 1);
}

bool tn_map_Maximum(tn_builder *b, tenon_node *node) {
    return binary(b, node, dnnl_graph_op_maximum, 0, 1, 1);
}

bool tn_map_Minimum(tn_builder *b, tenon_node *node) {
    return binary(b, node, dnnl_graph_op_minimum, 0, 1, 1);
}

/* sub and rsub. x - number is x + (-number), which fuses in every version. */
bool tn_map_Subtract(tn_builder *b, tenon_node *node) {
    double alpha = tn_arg_float(node, 2, 1), number;
    if (strncmp(node->op->name, "aten.rsub", 9) != 0)
        return number_of(b, node, 1, &number)
                   ? binary(b, node, dnnl_graph_op_add, 0, 1, -alpha)
                   : binary(b, node, dnnl_graph_op_subtract, 0, 1, alpha);
    if (alpha != 1)
        return tn_refuse(b, TENON_REASON_ATTRIBUTE,
                         "its alpha is not 1, and oneDNN's binary ops have no alpha");
    return binary(b, node, dnnl_graph_op_subtract, 1, 0, 1);
}

/* neg */
bool tn_map_NegativeMultiply(tn_builder *b, tenon_node *node) {
    if (!like(b, node))
        return false;
    tn_b_op(b, dnnl_graph_op_multiply, tn_b_value(b, tn_arg_value(node, 0)),
            tn_b_scalar(b, tn_b_out_view(b, node, 0)->dtype, -1), -1,
            tn_b_value(b, node->outputs[0]));
    return true;
}

/* The slope has one element, or one a channel (dimension 1). */
bool tn_map_PReLU(tn_builder *b, tenon_node *node) {
    const tenon_view *slope = tn_b_view(b, node, 1);
    if (!like(b, node) || !tn_b_check(b, node, slope))
        return false;
    if (tn_b_view(b, node, 0)->rank < 2 || !tenon_view_is_contiguous(slope))
        return tn_refuse(b, TENON_REASON_OPERANDS,
                         "oneDNN's PReLU needs a channel dimension and a dense slope");
    int64_t size = tenon_view_numel(slope);
    static const int64_t one = 1;
    int weight = slope->rank == 1 ? tn_b_value(b, tn_arg_value(node, 1))
                                  : tn_b_reshaped(b, tn_arg_value(node, 1), 1, &size, &one);
    tn_b_op(b, dnnl_graph_op_prelu, tn_b_value(b, tn_arg_value(node, 0)), weight, -1,
            tn_b_value(b, node->outputs[0]));
    tn_b_set_string(b, dnnl_graph_op_attr_data_format, "NCX");
    tn_b_set_bool(b, dnnl_graph_op_attr_per_channel_broadcast, size > 1);
    return true;
}

/* ---- Three operands ---- */

/* where(condition, self, other) */
bool tn_map_Select(tn_builder *b, tenon_node *node) {
    const tenon_view *out = tn_b_out_view(b, node, 0), *cond = tn_b_view(b, node, 0);
    if (!tn_b_check(b, node, out))
        return false;
    if (!cond || cond->dtype != TENON_BOOL)
        return tn_refuse(b, TENON_REASON_DTYPE, "oneDNN's Select needs a bool condition");
    if (!fits(b, cond, out))
        return false;
    int tensors[2];
    for (int i = 0; i < 2; i++) {
        const tenon_view *view = tn_b_view(b, node, 1 + i);
        bool whole = view && tn_same_shape(view, out);
        if (!b->caps->select_safe && !(whole && tn_same_shape(cond, out)))
            return tn_refuse(b, TENON_REASON_VERSION,
                             "before oneDNN 3.8 a broadcast Select turns infinities into NaN");
        tensors[i] = operand(b, node, 1 + i, 1);
        if (tensors[i] < 0)
            return false;
    }
    tn_b_op(b, dnnl_graph_op_select, tn_b_value(b, tn_arg_value(node, 0)), tensors[0], tensors[1],
            tn_b_value(b, node->outputs[0]));
    return true;
}
