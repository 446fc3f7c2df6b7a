/* Lets products run in bfloat16, as torch.autocast("cpu", dtype=torch.bfloat16) does.
 *
 *     x -- linear(w, b) -- relu -- output
 *     x -- to bfloat16 -- linear(w16, b16) -- relu -- to float32 -- output
 *
 * Three lists (PyTorch's, aten/src/ATen/autocast_mode.h; tried op by op with PyTorch 2.13) say what
 * happens to the floating-point operands but float64 ones: products take them as bfloat16, sum in
 * float32 and give bfloat16; ops that need the range or the digits take them as float32; ops that
 * join tensors take the wider dtype. All other ops run in the dtype of their inputs, and
 * elementwise ones promote mixed dtypes. Where mixed dtypes are not allowed (PyTorch fails there),
 * the inputs are taken as the wider one. What PyTorch takes apart below its lists (max_pool3d,
 * matmul of vectors) is on them in its parts. Recurrent layers stay in float32, and outputs and
 * buffers in the dtypes that the model declares.
 *
 * An attention's additive mask keeps its dtype: float32's lowest number, a usual mask, would become
 * an infinity.
 */
#include "fusion/bf16.h"
#include "core/derive.h"
#include "core/infer.h"
#include "core/workers.h"
#include "fusion/pipeline.h"
#include "fusion/rewrite.h"
#include "fusion/weights.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum policy { AS_INPUTS, LOWER, FLOAT32, WIDEST } policy;

/* Rows for ops that Tenon does not have are no fault. */
static const struct {
    const char *op;
    policy policy;
} lists[] = {
    {"aten.convolution", LOWER},
    {"tenon.padded_convolution", LOWER},
    {"aten.linear", LOWER},
    {"aten.mm", LOWER},
    {"aten.bmm", LOWER},
    {"aten.addmm", LOWER},
    {"aten.baddbmm", LOWER},
    {"aten.scaled_dot_product_attention", LOWER},
    {"aten.prelu", LOWER},
    /* what matmul and linear become for vectors */
    {"aten.mv", LOWER},
    {"aten.addmv", LOWER},
    {"aten.dot", LOWER},

    {"aten.avg_pool3d", FLOAT32},
    {"aten.max_pool3d", FLOAT32},
    {"aten.max_pool3d_with_indices", FLOAT32},
    {"aten.adaptive_avg_pool3d", FLOAT32},
    {"aten._adaptive_avg_pool3d", FLOAT32},
    {"aten.adaptive_max_pool3d", FLOAT32},
    {"aten.reflection_pad1d", FLOAT32},
    {"aten.reflection_pad2d", FLOAT32},
    {"aten.replication_pad1d", FLOAT32},
    {"aten.replication_pad2d", FLOAT32},
    {"aten.replication_pad3d", FLOAT32},
    {"aten.prod", FLOAT32},
    {"aten.prod.dim_int", FLOAT32},
    {"aten.grid_sampler", FLOAT32},
    {"aten.grid_sampler_2d", FLOAT32},
    {"aten.grid_sampler_3d", FLOAT32},
    {"aten.cdist", FLOAT32},
    {"aten._cdist_forward", FLOAT32},
    {"aten.trace", FLOAT32},
    {"aten.inverse", FLOAT32},
    {"aten.linalg_inv_ex", FLOAT32},
    {"aten.mse_loss", FLOAT32},
    {"aten.l1_loss", FLOAT32},
    {"aten.smooth_l1_loss", FLOAT32},
    {"aten.huber_loss", FLOAT32},
    /* their scales were chosen for float32 */
    {"aten.fake_quantize_per_tensor_affine", FLOAT32},
    {"quantized_decomposed.quantize_per_tensor", FLOAT32},
    {"quantized_decomposed.quantize_per_channel", FLOAT32},

    {"aten.cat", WIDEST},
    {"aten.stack", WIDEST},
    {"aten.index_copy", WIDEST},
};

static void read_lists(policy *by_op) {
    memset(by_op, 0, TN_OP_COUNT * sizeof *by_op);
    for (int i = 0; i < TN_COUNT(lists); i++) {
        const tn_op *op = tn_op_find(lists[i].op);
        if (op)
            by_op[op->id] = lists[i].policy;
    }
}

/* ---- Casts ---- */

typedef struct lowering {
    tenon_graph *graph;
    bool *changed;
    policy by_op[TN_OP_COUNT];
    tenon_dtype *declared; /* by value id: the dtype before the pass */
    int32_t declared_count;
} lowering;

/* The value of which `value` is a wider copy, when it has that dtype. */
static tenon_value *narrow_source(const tenon_value *value, tenon_dtype dtype) {
    const tenon_node *copy = tn_made_by(value, TN_OP_to_copy);
    tenon_value *source = copy ? tn_arg_value(copy, 0) : NULL;
    return source && source->dtype == dtype && tn_promote(dtype, value->dtype) == value->dtype
               ? source
               : NULL;
}

/* ---- Rounding ----
 *
 * A convolution sums over inputs whose mean is not zero, after a ReLU or GELU for one. Errors d of
 * the weights, each below half a unit, then add up to an error of whole channels, mean(x) * sum d,
 * that no later sum averages out: in deep networks it is most of the error at the output. So where
 * the other neighbour in bfloat16 is almost as near, it is taken if it lowers
 *
 *     sum d^2 + (sum d)^2,
 *
 * as if the inputs' mean were their deviation; after Guo et al., SQuant, 2022, which balances the
 * sums of the errors of kernels and channels. Here the second sum begins with what is left of the
 * kernels before in the same output channel. Values that bfloat16 holds stay as they are. */

#define LEAST_ELEMENTS 65536 /* that a thread is worth */

/* The elements that are looked at together where a kernel has one, and at most. */
enum { GROUP = 32, MOST_GROUP = 128 };

/* The neighbour of `rounded` on the other side of the number that it was rounded from with an error
 * of this sign. */
static uint16_t other_side(uint16_t rounded, float error) {
    bool negative = rounded >> 15;
    return (uint16_t)((error > 0) == negative ? rounded + 1 : rounded - 1);
}

/* Balances a group of at most MOST_GROUP; returns the sum of the errors, those before included. */
static float balance(const float *x, uint16_t *y, int64_t count, float before) {
    float error[MOST_GROUP], step[MOST_GROUP], sum = before;
    for (int64_t i = 0; i < count; i++) {
        float now = tn_bf16_to_float(y[i]);
        error[i] = now - x[i];
        bool stays = error[i] == 0 || (y[i] & 0x7fff) == 0;
        step[i] = stays ? 0 : tn_bf16_to_float(other_side(y[i], error[i])) - now;
        step[i] = isfinite(step[i]) ? step[i] : 0;
        sum += error[i];
    }
    for (int64_t flips = 0; flips < count && isfinite(sum); flips++) {
        float best = 0;
        int64_t at = -1;
        for (int64_t i = 0; i < count; i++) {
            /* half of what the sums of squares gain */
            float gain = -step[i] * (sum + error[i] + step[i]);
            at = gain > best ? i : at;
            best = gain > best ? gain : best;
        }
        if (at < 0)
            break;
        y[at] = other_side(y[at], error[at]);
        sum += step[at];
        error[at] += step[at];
        step[at] = -step[at];
    }
    return sum;
}

typedef struct rounding {
    const float *from;
    uint16_t *to;
    int64_t length; /* of a row */
    int64_t group;  /* 0: each element by itself */
} rounding;

static void round_rows(int64_t begin, int64_t end, void *user) {
    const rounding *r = user;
    for (int64_t row = begin; row < end; row++) {
        const float *x = r->from + row * r->length;
        uint16_t *y = r->to + row * r->length;
        float sum = 0;
        for (int64_t i = 0; i < r->length; i++) {
            y[i] = tn_float_to_bf16(x[i]);
            y[i] = (uint16_t)(y[i] - (isinf(tn_bf16_to_float(y[i])) && isfinite(x[i])));
        }
        for (int64_t i = 0; r->group && i < r->length; i += r->group) {
            int64_t count = r->length - i < r->group ? r->length - i : r->group;
            sum = balance(x + i, y + i, count, sum);
        }
    }
}

/* `user`: NULL, or anything for the weight of a convolution. */
static tenon_status round_weight(const tenon_view *from, const void *user, tenon_tensor **out) {
    tenon_tensor *rounded;
    TN_TRY(tenon_tensor_create(TENON_BFLOAT16, from->rank, from->shape, &rounded));
    tenon_status status = TENON_OK;
    int64_t count = tenon_view_numel(from);
    if (from->dtype == TENON_FLOAT32 && tenon_view_is_contiguous(from) && count > 0) {
        rounding r = {from->data, rounded->view.data, count, 0};
        int64_t rows = from->rank > 1 ? from->shape[0] : 1;
        r.length = count / rows;
        if (user) {
            int64_t kernel = r.length / from->shape[1];
            r.group = kernel == 1 ? GROUP : kernel < MOST_GROUP ? kernel : MOST_GROUP;
        }
        tn_share_work(rows, LEAST_ELEMENTS / r.length + 1, round_rows, &r);
    } else {
        status = tenon_view_copy(&rounded->view, from);
    }
    if (status == TENON_OK)
        *out = rounded;
    else
        tenon_tensor_destroy(&rounded);
    return status;
}

/* Whether `value` is the weight of a convolution, which has output channels as rows. */
static bool is_kernel(const tenon_node *node, const tenon_value *value) {
    return node && value->rank > 2 &&
           (tn_node_is(node, TN_OP_convolution) || tn_node_is(node, TN_OP_padded_convolution)) &&
           tn_arg_value(node, 1) == value && !tn_arg_bool(node, 6);
}

/* `value` as `dtype`, for a use before `before` (NULL: at the end). A later pass merges equal ones.
 */
static tenon_status cast(lowering *l, tenon_node *before, tenon_value *value, tenon_dtype dtype,
                         tenon_value **out) {
    tenon_tensor *rounded;
    tn_weight weight;
    bool kernel = is_kernel(before, value);
    *out = narrow_source(value, dtype);
    if (*out)
        return TENON_OK;
    if (tn_weight_read(value, &weight))
        TN_TRY(tn_weight_settle(&weight, &value));
    if (!tn_is_constant(value) || dtype != TENON_BFLOAT16)
        return tn_graph_emit(l->graph, before, TN_OP_to_copy, NULL, before ? before : value->node,
                             TN_ARGS(VAL(value), DTY(dtype)), out);
    TN_TRY(tn_tensor_derive(value->tensor, kernel ? "bfloat16, balanced" : "bfloat16", round_weight,
                            kernel ? before : NULL, &rounded));
    return tn_graph_new_constant(l->graph, value->name, rounded, out);
}

static tenon_status cast_use(lowering *l, tn_use *use, tenon_dtype dtype) {
    tenon_value *value;
    if (!use || use->value->dtype == dtype)
        return TENON_OK;
    TN_TRY(cast(l, use->node, use->value, dtype, &value));
    tn_use_set(use, value);
    *l->changed = true;
    return TENON_OK;
}

/* What outputs and registered ops take: the dtype that the value had without the pass. */
static tenon_status cast_declared(lowering *l, tn_use *use) {
    int32_t id = use ? use->value->id : 0;
    return use && id < l->declared_count ? cast_use(l, use, l->declared[id]) : TENON_OK;
}

/* ---- Nodes ---- */

/* Whether the use is a floating-point operand that casts concern. */
static bool is_operand(const tenon_node *node, const tn_use *use) {
    bool mask = tn_node_is(node, TN_OP_scaled_dot_product_attention) && use->slot == &node->args[3];
    return tn_is_float_value(use->value) && !mask;
}

/* The widest dtype among the operands; NONE when there is none. */
static tenon_dtype widest(const tenon_node *node) {
    tenon_dtype dtype = TENON_DTYPE_NONE;
    for (int i = 0; i < node->use_count; i++)
        if (is_operand(node, &node->uses[i]))
            dtype = tn_promote(dtype, node->uses[i].value->dtype);
    return dtype;
}

/* Elementwise ops promote, and norms have parameters of a dtype of their own. */
static bool takes_mixed(const tenon_node *node) {
    static const tn_infer_fn rules[] = {
        tn_infer_arithmetic,
        tn_infer_divide,
        tn_infer_divide_mode,
        tn_infer_compare,
        tn_infer_where,
        tn_infer_clamp,
        tn_infer_addc,
        tn_infer_masked_fill,
        tn_infer_native_layer_norm,
        tn_infer_rms_norm,
        tn_infer_native_group_norm,
        tn_infer_native_batch_norm,
    };
    for (int i = 0; i < TN_COUNT(rules); i++)
        if (node->op->infer == rules[i])
            return true;
    return false;
}

/* The dtype that the op takes its operands in; NONE: each in its own. */
static tenon_dtype operand_dtype(const lowering *l, const tenon_node *node) {
    policy how = node->op->id < TN_OP_COUNT ? l->by_op[node->op->id] : AS_INPUTS;
    tenon_dtype wide = widest(node);
    if (wide == TENON_DTYPE_NONE || (how == AS_INPUTS && takes_mixed(node)))
        return TENON_DTYPE_NONE;
    if (wide == TENON_FLOAT64)
        return wide;
    return how == LOWER ? TENON_BFLOAT16 : how == FLOAT32 ? TENON_FLOAT32 : wide;
}

static bool is_static(const tenon_node *node) {
    for (int i = 0; i < node->use_count; i++)
        if (!tn_value_static(node->uses[i].value))
            return false;
    return node->op->infer != NULL;
}

#define MOST_BF16 0x1.fep127 /* the largest number of bfloat16 */

static bool is_beyond(double x) {
    return isfinite(x) && fabs(x) > MOST_BF16;
}

/* Numbers that float32 holds and bfloat16 does not would become infinite, and rows that a mask
 * fills with the lowest one would become NaN: they are as large as can be instead. */
static tenon_status fit_numbers(lowering *l, tenon_node *node) {
    const tenon_value *y = node->output_count ? node->outputs[0] : NULL;
    if (!y || y->dtype != TENON_BFLOAT16 || y->id >= l->declared_count ||
        l->declared[y->id] != TENON_FLOAT32)
        return TENON_OK;
    for (int i = 0; i < node->op->param_count; i++) {
        tenon_arg *arg = &node->args[i];
        if (arg->kind == TENON_ARG_FLOAT && is_beyond(arg->as.f))
            arg->as.f = copysign(MOST_BF16, arg->as.f);
    }
    for (int i = 0; i < node->use_count; i++) {
        const tenon_value *x = node->uses[i].value;
        if (x->rank == 0 && x->dtype == TENON_FLOAT32 && tn_is_constant(x) &&
            is_beyond(*(const float *)x->tensor->view.data))
            TN_TRY(cast_use(l, &node->uses[i], TENON_BFLOAT16));
    }
    return TENON_OK;
}

static tenon_status visit(lowering *l, tenon_node *node) {
    if (!is_static(node))
        return TENON_OK;
    if (node->op->id >= TN_OP_COUNT) {
        for (int i = 0; i < node->use_count; i++)
            TN_TRY(cast_declared(l, &node->uses[i]));
        return tn_node_infer(node);
    }
    tenon_dtype dtype = operand_dtype(l, node);
    for (int i = 0; dtype != TENON_DTYPE_NONE && i < node->use_count; i++)
        if (is_operand(node, &node->uses[i]))
            TN_TRY(cast_use(l, &node->uses[i], dtype));
    TN_TRY(tn_node_infer(node));
    return fit_numbers(l, node);
}

/* ---- The pass ---- */

static tenon_status run(lowering *l) {
    tenon_graph *graph = l->graph;
    for (int i = 0; i < graph->input_count; i++)
        l->declared[graph->inputs[i]->id] = graph->inputs[i]->dtype;
    for (int i = 0; i < graph->constant_count; i++)
        l->declared[graph->constants[i]->id] = graph->constants[i]->dtype;
    for (tenon_node *node = graph->first; node; node = node->next)
        for (int i = 0; i < node->output_count; i++)
            l->declared[node->outputs[i]->id] = node->outputs[i]->dtype;
    for (tenon_node *node = graph->first; node; node = node->next)
        TN_TRY(visit(l, node));
    for (int i = 0; i < graph->output_count; i++)
        TN_TRY(cast_declared(l, graph->outputs[i].use));
    for (int i = 0; i < graph->write_count; i++)
        TN_TRY(cast_use(l, graph->writes[i].use, graph->writes[i].target->dtype));
    return TENON_OK;
}

static tenon_status pass_bf16(tenon_pass_call *call) {
    tenon_graph *graph = call->graph;
    lowering l = {.graph = graph, .changed = &call->changed, .declared_count = graph->value_count};
    l.declared = calloc((size_t)graph->value_count + 1, sizeof *l.declared);
    if (!l.declared)
        return tn_no_memory();
    read_lists(l.by_op);
    tenon_status status = run(&l);
    free(l.declared);
    return status;
}

tenon_status tn_bf16_pipeline(const tenon_passes *list, tenon_passes **out) {
    const tenon_pass pass = {.name = "bf16",
                             .doc = "products run in bfloat16",
                             .phase = TENON_PASS_SHAPES,
                             .run = pass_bf16,
                             .after = "lower_all norms attention",
                             .remove_dead = true};
    tenon_passes *copy = NULL;
    tenon_status status;
    TN_GOTO(tn_passes_copy(list, &copy));
    int at = tenon_passes_find(copy, "merge_shapes");
    TN_GOTO(at >= 0 ? tenon_passes_insert(copy, at, &pass) : tenon_passes_append(copy, &pass));
    *out = copy;
    return TENON_OK;
error:
    tenon_passes_destroy(&copy);
    return status;
}
