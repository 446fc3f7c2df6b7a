#include "partitions/policy.h"
#include "core/fail.h"
#include <stdio.h>
#include <string.h>

/* How the cost of an op grows. */
typedef enum op_weight { LIGHT, UNARY, BINARY, COSTLY, PASS, HEAVY } op_weight;

static const struct {
    dnnl_graph_op_kind_t kind;
    const char *text;
    op_weight weight;
} kinds[] = {
    {dnnl_graph_op_abs, "Abs", UNARY},
    {dnnl_graph_op_add, "Add", BINARY},
    {dnnl_graph_op_avg_pool, "AvgPool", PASS},
    {dnnl_graph_op_batch_norm_inference, "BatchNormInference", PASS},
    {dnnl_graph_op_clamp, "Clamp", UNARY},
    {dnnl_graph_op_concat, "Concat", LIGHT},
    {dnnl_graph_op_convolution, "Convolution", HEAVY},
    {dnnl_graph_op_conv_transpose, "ConvTranspose", HEAVY},
    {dnnl_graph_op_dequantize, "Dequantize", LIGHT},
    {dnnl_graph_op_divide, "Divide", BINARY},
    {dnnl_graph_op_elu, "Elu", UNARY},
    {dnnl_graph_op_end, "End", LIGHT},
    {dnnl_graph_op_exp, "Exp", UNARY},
    {dnnl_graph_op_gelu, "GELU", COSTLY},
    {dnnl_graph_op_group_norm, "GroupNorm", PASS},
    {dnnl_graph_op_hard_sigmoid, "HardSigmoid", UNARY},
    {dnnl_graph_op_hard_swish, "HardSwish", UNARY},
    {dnnl_graph_op_interpolate, "Interpolate", PASS},
    {dnnl_graph_op_layer_norm, "LayerNorm", PASS},
    {dnnl_graph_op_leaky_relu, "LeakyReLU", UNARY},
    {dnnl_graph_op_log, "Log", UNARY},
    {dnnl_graph_op_log_softmax, "LogSoftmax", PASS},
    {dnnl_graph_op_matmul, "MatMul", HEAVY},
    {dnnl_graph_op_maximum, "Maximum", BINARY},
    {dnnl_graph_op_max_pool, "MaxPool", PASS},
    {dnnl_graph_op_minimum, "Minimum", BINARY},
    {dnnl_graph_op_mish, "Mish", UNARY},
    {dnnl_graph_op_multiply, "Multiply", BINARY},
    {dnnl_graph_op_prelu, "PReLU", LIGHT},
    {dnnl_graph_op_quantize, "Quantize", LIGHT},
    {dnnl_graph_op_reduce_l1, "ReduceL1", PASS},
    {dnnl_graph_op_reduce_l2, "ReduceL2", PASS},
    {dnnl_graph_op_reduce_max, "ReduceMax", PASS},
    {dnnl_graph_op_reduce_mean, "ReduceMean", PASS},
    {dnnl_graph_op_reduce_min, "ReduceMin", PASS},
    {dnnl_graph_op_reduce_prod, "ReduceProd", PASS},
    {dnnl_graph_op_reduce_sum, "ReduceSum", PASS},
    {dnnl_graph_op_relu, "ReLU", UNARY},
    {dnnl_graph_op_reorder, "Reorder", LIGHT},
    {dnnl_graph_op_round, "Round", UNARY},
    {dnnl_graph_op_select, "Select", LIGHT},
    {dnnl_graph_op_sigmoid, "Sigmoid", UNARY},
    {dnnl_graph_op_softmax, "SoftMax", PASS},
    {dnnl_graph_op_softplus, "SoftPlus", UNARY},
    {dnnl_graph_op_sqrt, "Sqrt", UNARY},
    {dnnl_graph_op_square, "Square", UNARY},
    {dnnl_graph_op_subtract, "Subtract", BINARY},
    {dnnl_graph_op_tanh, "Tanh", UNARY},
    {dnnl_graph_op_type_cast, "TypeCast", LIGHT},
    {dnnl_graph_op_wildcard, "Wildcard", LIGHT},
};

static int find_kind(dnnl_graph_op_kind_t kind) {
    for (int i = 0; i < TN_COUNT(kinds); i++) {
        if (kinds[i].kind == kind)
            return i;
    }
    return -1;
}

const char *tn_dnnl_kind_text(dnnl_graph_op_kind_t kind) {
    int i = find_kind(kind);
    return i < 0 ? "op" : kinds[i].text;
}

static op_weight weight_of(dnnl_graph_op_kind_t kind) {
    int i = find_kind(kind);
    return i < 0 ? LIGHT : kinds[i].weight;
}

bool tn_kind_binary(dnnl_graph_op_kind_t kind) {
    return weight_of(kind) == BINARY;
}

bool tn_kind_starts(dnnl_graph_op_kind_t kind) {
    op_weight w = weight_of(kind);
    return w == HEAVY || w == PASS;
}

/* ---- What is worth a partition ---- */

/* Measured with oneDNN 3.7.2 on AVX-512 against Tenon's kernels. One execution costs 2 microseconds
 * on one thread, and 5 to 20 for waking and joining a second one. A small product then takes as
 * long as in a kernel, a depthwise convolution a fifth; norms, softmax, reductions and pools take
 * half to a quarter; lone light ops the same, but for GELU; chains of them save passes over memory.
 */
#define MIN_PRODUCTS 32768.0
/* A linear layer of one or two rows only reads its weight, once. Tenon's kernel reads four rows of
 * it side by side as they lie, which memory serves faster than oneDNN's packed blocks: by 1.3 to
 * 1.7 from where the weight does not stay in a cache. */
#define FEW_ROWS 2
#define READ_ELEMENTS (1 << 21)
/* A product of many pairs of small matrices: for each pair oneDNN pads copies, 4 KiB and more, and
 * takes 1.8 to 10 times as long, up to 16x16x16. */
#define TINY_PRODUCTS 4096
#define TINY_COUNT 64
#define MIN_ELEMENTS 8192
#define MIN_CHAIN_ELEMENTS 65536

int64_t tn_elements(const tn_builder *b, int32_t tensor) {
    return tn_numel(b->tensors[tensor].rank, b->tensors[tensor].shape);
}

/* Multiplications of a Convolution, ConvTranspose or MatMul. */
static double products(const tn_builder *b, const tn_lowered *op) {
    const tn_lt *src = &b->tensors[op->in[0]], *weight = &b->tensors[op->in[1]];
    double out = (double)tn_elements(b, op->out[0]);
    if (op->kind == dnnl_graph_op_matmul)
        return out * (double)src->shape[src->rank - 1];
    double taps = (double)tn_elements(b, op->in[1]) / (double)weight->shape[0];
    return op->kind == dnnl_graph_op_convolution ? out * taps
                                                 : (double)tn_elements(b, op->in[0]) * taps;
}

/* Whether it is a linear layer that takes as long as reading its weight. */
static bool only_reads(const tn_builder *b, const tn_lowered *op) {
    if (op->kind != dnnl_graph_op_matmul || op->node->op->id != TN_OP_linear)
        return false;
    const tn_lt *weight = &b->tensors[op->in[1]], *out = &b->tensors[op->out[0]];
    return weight->dtype == dnnl_f32 && weight->rank == 2 && weight->strides[1] == 1 &&
           tn_elements(b, op->in[1]) >= READ_ELEMENTS &&
           tn_elements(b, op->out[0]) <= FEW_ROWS * out->shape[out->rank - 1];
}

/* Whether it multiplies many small matrices by small matrices. */
static bool is_tiny(const tn_builder *b, const tn_lowered *op) {
    const tn_lt *weight = &b->tensors[op->in[1]], *out = &b->tensors[op->out[0]];
    if (op->kind != dnnl_graph_op_matmul || weight->rank < 3 || out->rank < 3)
        return false;
    double count = (double)tn_elements(b, op->out[0]);
    count /= (double)(out->shape[out->rank - 1] * out->shape[out->rank - 2]);
    return count >= TINY_COUNT && products(b, op) <= count * TINY_PRODUCTS;
}

/* What a partition has to do. */
typedef struct amount {
    bool heavy, pass, costly;
    bool reads; /* products only read weights */
    bool tiny;  /* products are of small matrices */
    double products;
    int64_t largest; /* elements of the largest operand or result */
    int32_t nodes;
} amount;

static amount amount_of(const tn_builder *b, const int32_t *members, int32_t count) {
    amount a = {.nodes = 1, .reads = true, .tiny = true};
    for (int32_t i = 0; i < count; i++) {
        const tn_lowered *op = &b->ops[members[i]];
        op_weight w = weight_of(op->kind);
        int64_t size = tn_elements(b, op->in[0]);
        int64_t out = op->out_count ? tn_elements(b, op->out[0]) : 0;
        size = size > out ? size : out;
        a.largest = size > a.largest ? size : a.largest;
        a.heavy |= w == HEAVY;
        a.pass |= w == PASS;
        a.costly |= w == COSTLY;
        a.tiny &= w != HEAVY || is_tiny(b, op);
        a.reads &= w == HEAVY ? only_reads(b, op) : w != PASS;
        a.nodes += i > 0 && op->node != b->ops[members[i - 1]].node;
        a.products += w == HEAVY ? products(b, op) : 0;
    }
    return a;
}

bool tn_worth(const tn_builder *b, const int32_t *members, int32_t count, tn_why *why) {
    amount a = amount_of(b, members, count);
    bool chain = a.nodes > 1 || a.costly;
    why->kind = TENON_REASON_KERNEL_FASTER;
    if (b->options->backend == TENON_BACKEND_AUTO && a.heavy && a.reads) {
        snprintf(why->text, sizeof why->text,
                 "so few rows take as long as reading the weight, which a plain loop does faster: "
                 "at most %d rows, and a weight of %d elements or more",
                 FEW_ROWS, READ_ELEMENTS);
        return false;
    }
    if (b->options->backend == TENON_BACKEND_AUTO && a.heavy && a.tiny) {
        snprintf(
            why->text, sizeof why->text,
            "for each pair of so small matrices oneDNN pads copies, and a plain loop does not: "
            "%d pairs or more of at most %d multiplications",
            TINY_COUNT, TINY_PRODUCTS);
        return false;
    }
    if (b->options->backend != TENON_BACKEND_AUTO ||
        (a.heavy  ? a.products >= MIN_PRODUCTS || a.largest >= MIN_CHAIN_ELEMENTS
         : a.pass ? a.largest >= MIN_ELEMENTS
                  : chain && a.largest >= MIN_CHAIN_ELEMENTS))
        return true;
    if (a.heavy)
        snprintf(why->text, sizeof why->text,
                 "so small a product is done sooner by a plain loop than by a oneDNN partition: "
                 "%.0f multiplications, and it pays from %.0f on",
                 a.products, MIN_PRODUCTS);
    else if (a.pass)
        snprintf(why->text, sizeof why->text,
                 "so small a tensor is done sooner by a plain loop than by a oneDNN partition: "
                 "%lld elements, and it pays from %d on",
                 (long long)a.largest, MIN_ELEMENTS);
    else if (chain)
        snprintf(why->text, sizeof why->text,
                 "for light ops on so small a tensor plain loops are as fast: %lld elements, and a "
                 "chain of them pays from %d on",
                 (long long)a.largest, MIN_CHAIN_ELEMENTS);
    else
        snprintf(why->text, sizeof why->text,
                 "nothing fuses with this light op, and on its %lld elements a plain loop is as "
                 "fast by itself",
                 (long long)a.largest);
    return false;
}

/* ---- What oneDNN does slowly, in its reference code ---- */

const tn_why *tn_starts_slowly(const tn_builder *b, const int32_t *members, int32_t count) {
    static const tn_why norm = {TENON_REASON_ONEDNN_SLOW,
                                "oneDNN's fast group norm for row-major memory takes no op behind "
                                "it; with one it runs in reference code"};
    static const tn_why lone = {TENON_REASON_ONEDNN_SLOW,
                                "an elementwise oneDNN kernel takes no binary op behind it; with "
                                "one it runs in reference code"};
    const tn_lowered *head = &b->ops[members[0]];
    if (count < 2)
        return NULL;
    const tn_lowered *next = &b->ops[members[1]];
    const tn_lt *in = &b->tensors[head->in[0]];
    if (head->kind ==
        dnnl_graph_op_group_norm) /* its fast code for row-major memory takes no post-ops */
        return in->rank > 2 && in->shape[1] > 1 && in->strides[1] != 1 ? &norm : NULL;
    op_weight w = weight_of(head->kind);
    if ((w != UNARY && w != COSTLY) || weight_of(next->kind) != BINARY)
        return NULL;
    /* An elementwise primitive takes no post-ops. x * sigmoid(x) is one function to it. */
    bool swish = head->kind == dnnl_graph_op_sigmoid && next->kind == dnnl_graph_op_multiply &&
                 (next->in[0] == head->in[0] || next->in[1] == head->in[0]);
    return !swish || count > 2 ? &lone : NULL;
}

bool tn_fuses_slowly(const tn_builder *b, const tn_lowered *op) {
    for (int k = 0; k < op->in_count; k++) {
        int32_t at = b->tensors[op->in[k]].producer;
        if (at < 0 || op->in_count != 2)
            continue;
        /* Behind a product with a matrix, an operand that changes from row to row only. */
        const tn_lt *other = &b->tensors[op->in[1 - k]], *out = &b->tensors[op->out[0]];
        bool by_row = other->rank > 0 && other->shape[other->rank - 1] == 1 &&
                      out->shape[out->rank - 1] > 1 && tn_elements(b, op->in[1 - k]) > 1;
        for (int step = 0; by_row && step < b->caps->chain && at >= 0; step++) {
            const tn_lowered *before = &b->ops[at];
            if (before->kind == dnnl_graph_op_matmul && b->tensors[before->in[1]].rank == 2)
                return true;
            at = before->in_count > 0 ? b->tensors[before->in[0]].producer : -1;
        }
    }
    return false;
}
