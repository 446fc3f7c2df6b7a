/* What shape rules share, and the application of rules to nodes. */
#include "core/infer.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { OUTPUTS = 64 };

static bool meta_of(const tenon_arg *arg, tn_meta *meta) {
    *meta = (tn_meta){0};
    switch (arg->kind) {
    case TENON_ARG_VALUE:
        meta->dtype = arg->as.value->dtype;
        meta->rank = arg->as.value->rank;
        memcpy(meta->shape, arg->as.value->shape, (size_t)meta->rank * sizeof *meta->shape);
        return true;
    case TENON_ARG_INT:
        meta->dtype = TENON_INT64;
        return true;
    case TENON_ARG_FLOAT:
        meta->dtype = TENON_FLOAT64;
        return true;
    case TENON_ARG_BOOL:
        meta->dtype = TENON_BOOL;
        return true;
    default:
        return false;
    }
}

bool tn_infer_in(const tn_infer *infer, int index, tn_meta *meta) {
    return meta_of(&infer->node->args[index], meta);
}

bool tn_infer_item(const tn_infer *infer, int index, int item, tn_meta *meta) {
    return meta_of(&infer->node->args[index].as.list[item], meta);
}

int tn_infer_length(const tn_infer *infer, int index) {
    const tenon_arg *arg = &infer->node->args[index];
    return arg->kind == TENON_ARG_LIST ? arg->count : 0;
}

tenon_status tn_infer_list(tn_infer *infer, int count) {
    int has = infer->node->output_count; /* 0 while a node is made that does not say */
    if (has > 0 && count != has)
        return tn_infer_fail(infer, "it has %d outputs, its shape rule gives %d", has, count);
    if (count > infer->out_capacity) {
        infer->out = tn_arena_array(infer->arena, (size_t)count, sizeof *infer->out);
        if (!infer->out)
            return tn_no_memory();
        infer->out_capacity = count;
    }
    infer->out_count = count;
    return TENON_OK;
}

tenon_status tn_infer_fail(const tn_infer *infer, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return tn_fail(TENON_INVALID_GRAPH, "node '%s' (%s): %s", infer->node->name, infer->op->name,
                   text);
}

tenon_status tn_infer_broadcast(tn_infer *infer, tn_meta *to, const tn_meta *add) {
    int rank = to->rank > add->rank ? to->rank : add->rank;
    int64_t shape[TENON_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        int a = d - (rank - to->rank), b = d - (rank - add->rank);
        int64_t size_a = a >= 0 ? to->shape[a] : 1, size_b = b >= 0 ? add->shape[b] : 1;
        if (size_a != size_b && size_a != 1 && size_b != 1) {
            char left[256], right[256];
            return tn_infer_fail(
                infer, "shapes %s and %s do not broadcast",
                tn_shape_text(to->dtype, to->rank, to->shape, left, sizeof left),
                tn_shape_text(add->dtype, add->rank, add->shape, right, sizeof right));
        }
        shape[d] = size_a == 1 ? size_b : size_a;
    }
    to->rank = rank;
    memcpy(to->shape, shape, (size_t)rank * sizeof *shape);
    return TENON_OK;
}

tenon_status tn_infer_dim(tn_infer *infer, int64_t dim, int rank, int *out) {
    int64_t limit = rank > 0 ? rank : 1;
    if (dim < -limit || dim >= limit)
        return tn_infer_fail(infer, "dimension %lld is not in %lld..%lld", (long long)dim,
                             (long long)-limit, (long long)limit - 1);
    *out = (int)(dim < 0 ? dim + limit : dim);
    return TENON_OK;
}

/* c10's combine_categories: the higher category decides unless the lower one is a float and it is
 * not. */
static tenon_dtype combine(tenon_dtype higher, tenon_dtype lower) {
    if (tn_dtype_is_float(higher))
        return higher;
    if (higher == TENON_BOOL || tn_dtype_is_float(lower))
        return tn_promote(higher, lower);
    return higher != TENON_DTYPE_NONE ? higher : lower;
}

tenon_dtype tn_result_type(const tenon_node *node, int first, int last) {
    tenon_dtype dims = TENON_DTYPE_NONE, zero = TENON_DTYPE_NONE, number = TENON_DTYPE_NONE;
    for (int i = first; i <= last; i++) {
        const tenon_arg *arg = &node->args[i];
        int count = arg->kind == TENON_ARG_LIST ? arg->count : 1;
        for (int j = 0; j < count; j++) {
            const tenon_arg *item = arg->kind == TENON_ARG_LIST ? &arg->as.list[j] : arg;
            if (item->kind == TENON_ARG_VALUE) {
                tenon_dtype *category = item->as.value->rank > 0 ? &dims : &zero;
                *category = tn_promote(*category, item->as.value->dtype);
            } else if (item->kind == TENON_ARG_INT) {
                number = tn_promote(number, TENON_INT64);
            } else if (item->kind == TENON_ARG_FLOAT) {
                number = tn_promote(number, TENON_FLOAT32);
            } else if (item->kind == TENON_ARG_BOOL) {
                number = tn_promote(number, TENON_BOOL);
            }
        }
    }
    return combine(dims, combine(zero, number));
}

/* Whether a number can be an element of that dtype, by PyTorch's rule: what unsigned integers
 * cannot hold of negative integers wraps, and infinity and NaN are floats. bfloat16 is left out,
 * since sessions in bfloat16 make it of float32, with float32's largest numbers. */
static bool number_fits(const tenon_arg *arg, tenon_dtype dtype) {
    static const double floats[] = {[TENON_FLOAT16] = 65504, [TENON_FLOAT32] = FLT_MAX};
    if (dtype == TENON_FLOAT16 || dtype == TENON_FLOAT32) {
        double value = arg->kind == TENON_ARG_FLOAT ? arg->as.f : (double)arg->as.i;
        return !(fabs(value) > floats[dtype]) || isinf(value);
    }
    if (tn_dtype_is_float(dtype) || dtype == TENON_BOOL || dtype == TENON_UINT64)
        return true;
    bool unsigned_ = tn_dtype_is_unsigned(dtype);
    int bits = 8 * (int)tenon_dtype_size(dtype) - !unsigned_;
    double above = ldexp(1, bits), least = unsigned_ ? 0 : -above;
    if (arg->kind == TENON_ARG_FLOAT)
        return arg->as.f >= least && arg->as.f < above;
    return bits == 63 ||
           ((double)arg->as.i < above && (double)arg->as.i >= (unsigned_ ? 1 - above : least));
}

/* Numbers that become elements: of which arguments, as bits. */
static unsigned elements_of(int id) {
    switch (id) {
    case TN_OP_scalar_tensor:
        return 1U << 0;
    case TN_OP_full:
    case TN_OP_full_like:
    case TN_OP_fill_Scalar:
    case TN_OP_clamp_min:
    case TN_OP_clamp_max:
    case TN_OP_where_ScalarSelf:
    case TN_OP_pow_Tensor_Scalar:
        return 1U << 1;
    case TN_OP_new_full:
    case TN_OP_masked_fill_Scalar:
    case TN_OP_constant_pad_nd:
    case TN_OP_where_ScalarOther:
        return 1U << 2;
    case TN_OP_clamp:
    case TN_OP_clip:
    case TN_OP_threshold:
        return 1U << 1 | 1U << 2;
    case TN_OP_index_fill_int_Scalar:
    case TN_OP_scatter_value:
        return 1U << 3;
    default:
        return 0;
    }
}

static bool made_of_float32(int id) {
    return id == TN_OP_scalar_tensor || id == TN_OP_where_ScalarSelf ||
           id == TN_OP_where_ScalarOther;
}

static tenon_status check_numbers(const tn_infer *infer) {
    int id = infer->op->id;
    unsigned arguments = elements_of(id);
    tenon_dtype dtype = infer->out[0].dtype;
    bool wide = dtype == TENON_FLOAT32 ? id == TN_OP_pow_Tensor_Scalar
                                       : dtype == TENON_FLOAT16 && made_of_float32(id);
    if (arguments == 0 || wide)
        return TENON_OK;
    for (int i = 0; arguments >> i; i++) {
        const tenon_arg *arg = &infer->node->args[i];
        bool number = arg->kind == TENON_ARG_INT || arg->kind == TENON_ARG_FLOAT;
        if (arguments >> i & 1 && number && !number_fits(arg, dtype))
            return tn_infer_fail(infer, "argument '%s' is a number that %s cannot hold",
                                 infer->op->params[i].name, tenon_dtype_text(dtype));
    }
    return TENON_OK;
}

/* Runs the node's rule; `out` has room for OUTPUTS. */
static tenon_status apply(const tenon_node *node, tn_meta *out, tn_infer *infer) {
    *infer = (tn_infer){node, node->op, out, node->op->return_count, OUTPUTS, &node->graph->arena};
    if (!node->op->infer)
        return tn_fail(TENON_UNKNOWN_OP, "node '%s': %s has no functional twin among the operators",
                       node->name, node->op->name);
    TN_TRY(node->op->infer(infer));
    TN_TRY(check_numbers(infer));
    for (int i = 0; i < infer->out_count; i++) {
        const tn_meta *meta = &infer->out[i];
        if (meta->dtype != TENON_DTYPE_NONE && tn_numel(meta->rank, meta->shape) < 0) {
            char text[256];
            return tn_infer_fail(
                infer, "output %d, %s, is negative or too large in a size", i,
                tn_shape_text(meta->dtype, meta->rank, meta->shape, text, sizeof text));
        }
    }
    return TENON_OK;
}

tenon_status tn_infer_output_count(const tenon_node *node, int *count) {
    tn_meta out[OUTPUTS] = {0};
    tn_infer infer;
    TN_TRY(apply(node, out, &infer));
    *count = infer.out_count;
    return TENON_OK;
}

tenon_status tn_node_infer(tenon_node *node) {
    tn_meta out[OUTPUTS] = {0};
    tn_infer infer;
    TN_TRY(apply(node, out, &infer));
    if (infer.out_count != node->output_count)
        return tn_infer_fail(&infer, "it has %d outputs, its shape rule gives %d",
                             node->output_count, infer.out_count);
    for (int i = 0; i < node->output_count; i++) {
        const tn_meta *meta = &infer.out[i];
        tenon_value *value = node->outputs[i];
        if (!value->shape || value->rank < meta->rank) {
            value->shape =
                tn_arena_array(&node->graph->arena, (size_t)meta->rank + 1, sizeof(int64_t));
            if (!value->shape)
                return tn_no_memory();
        }
        value->dtype = meta->dtype;
        value->rank = meta->rank;
        memcpy(value->shape, meta->shape, (size_t)meta->rank * sizeof *meta->shape);
    }
    return TENON_OK;
}

tenon_status tn_graph_infer(tenon_graph *graph) {
    for (tenon_node *node = graph->first; node; node = node->next) {
        bool known = node->op->kind != TN_OP_SYM;
        for (int i = 0; known && i < node->use_count; i++)
            known = tn_value_static(node->uses[i].value);
        if (known)
            TN_TRY(tn_node_infer(node));
    }
    return TENON_OK;
}

/* Ops that only assert, and have no outputs. */
tenon_status tn_infer_nothing(tn_infer *infer) {
    (void)infer;
    return TENON_OK;
}
