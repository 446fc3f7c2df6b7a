#include "fusion/scaled.h"
#include "core/workers.h"
#include "fusion/weights.h"

/* ---- Reading ---- */

double tn_channel_element(const tenon_value *value, int64_t index, double other) {
    if (!value)
        return other;
    const tenon_view *view = &value->tensor->view;
    int64_t at = 0;
    for (int d = 0; d < view->rank; d++)
        at += view->shape[d] == 1 ? 0 : index * view->strides[d];
    return tn_load_float((const char *)view->data + at * (int64_t)tenon_dtype_size(view->dtype),
                         view->dtype);
}

bool tn_is_channel_vector(const tenon_node *node, int index, int64_t channels, bool optional) {
    const tenon_value *value = tn_arg_value(node, index);
    if (!value)
        return optional && tn_arg_is_none(node, index);
    return tn_is_constant(value) && tn_is_float_value(value) && value->rank == 1 &&
           value->shape[0] == channels;
}

double tn_product_bias(const tn_product *p, int64_t channel) {
    return p->beta == 0 ? 0 : p->beta * tn_channel_element(p->bias, channel, 0);
}

static bool is_convolution(const tenon_node *node) {
    return tn_node_is(node, TN_OP_convolution) || tn_node_is(node, TN_OP_padded_convolution);
}

/* A bias that stands for one number an output. */
static bool fits_bias(const tn_product *p, bool broadcasts) {
    const tenon_value *bias = p->bias;
    if (!bias)
        return true;
    if (!tn_is_constant(bias) || !tn_is_float_value(bias))
        return false;
    if (!broadcasts)
        return bias->rank == 1 && bias->shape[0] == p->out;
    int64_t numel = tn_value_numel(bias);
    return bias->rank <= 2 && (numel == 1 || (numel == p->out && bias->rank > 0 &&
                                              bias->shape[bias->rank - 1] == p->out));
}

static bool read_convolution(tn_product *p) {
    int64_t groups = tn_arg_int(p->node, 8, 1);
    const int64_t *shape = p->weight->shape;
    int64_t other;
    if (groups < 1 || p->weight->rank < 3 || shape[0] % groups || !tn_mul(shape[1], groups, &other))
        return false;
    bool transposed = tn_arg_bool(p->node, 6);
    p->in = transposed ? shape[0] : other;
    p->out = transposed ? other : shape[0];
    return fits_bias(p, false);
}

bool tn_product_read(tenon_node *node, tn_product *p) {
    bool addmm = tn_node_is(node, TN_OP_addmm), mm = tn_node_is(node, TN_OP_mm);
    bool convolution = is_convolution(node), linear = tn_node_is(node, TN_OP_linear);
    if (!addmm && !mm && !convolution && !linear)
        return false;
    *p = (tn_product){.node = node, .alpha = 1, .beta = 1};
    tn_weight weight = {NULL, NULL};
    tn_weight_read(tn_arg_value(node, addmm ? 2 : 1), &weight);
    p->weight = weight.values;
    p->waiting = weight.scale;
    p->bias = mm ? NULL : tn_arg_value(node, addmm ? 0 : 2);
    if (!mm && !p->bias && (addmm || !tn_arg_is_none(node, 2)))
        return false;
    if (!tn_is_constant(p->weight) || !tn_is_float_value(p->weight))
        return false;
    if (convolution)
        return read_convolution(p);
    if (p->weight->rank != 2)
        return false;
    p->out = p->weight->shape[linear ? 0 : 1];
    p->in = p->weight->shape[linear ? 1 : 0];
    if (addmm) {
        p->beta = tn_arg_float(node, 3, 1);
        p->alpha = tn_arg_float(node, 4, 1);
    }
    return fits_bias(p, addmm);
}

/* ---- Scaling ---- */

/* to = from * scale, over what is left of the dimensions below `dim`. */
/* NOLINTNEXTLINE(misc-no-recursion): over dimensions, which are at most 12 */
static void scale_block(const tenon_view *to, const tenon_view *from, int dim, char *out,
                        const char *in, double scale) {
    int64_t size = (int64_t)tenon_dtype_size(to->dtype);
    if (dim == to->rank) {
        tn_store_float(out, to->dtype, tn_load_float(in, from->dtype) * scale);
        return;
    }
    if (dim == to->rank - 1 && to->dtype == TENON_FLOAT32) {
        float *x = (float *)out;
        const float *y = (const float *)in;
        for (int64_t i = 0; i < to->shape[dim]; i++)
            x[i * to->strides[dim]] = (float)(y[i * from->strides[dim]] * scale);
        return;
    }
    for (int64_t i = 0; i < to->shape[dim]; i++)
        scale_block(to, from, dim + 1, out + i * to->strides[dim] * size,
                    in + i * from->strides[dim] * size, scale);
}

/* Which channel the weight's element [i, k, ...] belongs to. A convolution's weight is (out, in /
 * groups, ...), a transposed one's (in, out / groups, ...), linear's (out, in), a matrix (in, out).
 */
static int64_t channel_of(const tn_product *p, bool over_inputs, int64_t i, int64_t k) {
    if (!is_convolution(p->node))
        return tn_node_is(p->node, TN_OP_linear) != over_inputs ? i : k;
    if (tn_arg_bool(p->node, 6) == over_inputs)
        return i;
    int64_t rows = p->weight->shape[0] / tn_arg_int(p->node, 8, 1);
    return i / (rows ? rows : 1) * p->weight->shape[1] + k;
}

/* Rows that each are one stretch of memory. */
typedef struct stretches {
    const tn_product *product;
    const double *scale;
    const tenon_view *to, *from;
    int64_t length;
} stretches;

static void scale_rows(int64_t begin, int64_t end, void *user) {
    const stretches *s = user;
    for (int64_t i = begin; i < end; i++) {
        double scale = s->product->alpha * s->scale[i];
        if (s->to->dtype == TENON_FLOAT32 && s->from->dtype == TENON_FLOAT32) {
            float *x = (float *)s->to->data + i * s->length;
            const float *y = (const float *)s->from->data + i * s->length;
            for (int64_t k = 0; k < s->length; k++)
                x[k] = (float)(y[k] * scale);
            continue;
        }
        size_t to = tenon_dtype_size(s->to->dtype), from = tenon_dtype_size(s->from->dtype);
        for (int64_t k = i * s->length; k < (i + 1) * s->length; k++)
            tn_store_float(
                (char *)s->to->data + k * (int64_t)to, s->to->dtype,
                tn_load_float((char *)s->from->data + k * (int64_t)from, s->from->dtype) * scale);
    }
}

#define LEAST_ELEMENTS 65536 /* that a thread is worth */

static void scale_weight(const tn_product *p, const double *scale, bool over_inputs,
                         const tenon_view *to, const tenon_view *from) {
    int64_t size = (int64_t)tenon_dtype_size(to->dtype), rows = from->shape[0];
    bool by_row = channel_of(p, over_inputs, 1, 0) == 1 && channel_of(p, over_inputs, 0, 1) == 0 &&
                  tenon_view_is_contiguous(from);
    if (by_row) { /* the usual case: each row is one stretch */
        int64_t length = rows ? tenon_view_numel(from) / rows : 0;
        stretches s = {p, scale, to, from, length};
        tn_share_work(rows, length > 0 ? LEAST_ELEMENTS / length + 1 : rows, scale_rows, &s);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < from->shape[1]; k++)
            scale_block(
                to, from, 2, (char *)to->data + (i * to->strides[0] + k * to->strides[1]) * size,
                (const char *)from->data + (i * from->strides[0] + k * from->strides[1]) * size,
                p->alpha * scale[channel_of(p, over_inputs, i, k)]);
}

static tenon_status new_weight(const tn_product *p, tenon_node *at, const double *scale,
                               bool over_inputs, tenon_value **out) {
    const tn_weight before = {p->weight, p->waiting};
    bool waits = !over_inputs && is_convolution(p->node) && !tn_arg_bool(p->node, 6);
    tenon_value *settled = p->weight;
    *out = NULL;
    if (waits)
        TN_TRY(tn_weight_wait(at, &before, scale, out));
    if (*out)
        return TENON_OK;
    TN_TRY(tn_weight_settle(&before, &settled));
    const tenon_tensor *old = settled->tensor;
    tenon_tensor *weight = NULL;
    TN_TRY(tenon_tensor_create(old->view.dtype, old->view.rank, old->view.shape, &weight));
    scale_weight(p, scale, over_inputs, &weight->view, &old->view);
    if (old->storage->mapped && tenon_view_is_contiguous(&old->view))
        tn_storage_forget_pages(old->storage, old->view.data,
                                (size_t)tenon_view_numel(&old->view) *
                                    tenon_dtype_size(old->view.dtype));
    return tn_graph_new_constant(p->node->graph, p->weight->name, weight, out);
}

static tenon_status new_bias(const tn_product *p, const double *values, tenon_value **out) {
    tenon_tensor *bias = NULL;
    TN_TRY(tenon_tensor_create(p->weight->dtype, 1, &p->out, &bias));
    for (int64_t o = 0; o < p->out; o++)
        tn_store_float((char *)bias->view.data + o * (int64_t)tenon_dtype_size(bias->view.dtype),
                       bias->view.dtype, values[o]);
    return tn_graph_new_constant(p->node->graph, p->bias ? p->bias->name : "bias", bias, out);
}

tenon_status tn_product_scaled(const tn_product *p, tenon_node *at, tenon_value *x,
                               const double *scale, bool over_inputs, const double *bias,
                               tenon_value **out) {
    tenon_value *weight, *shift = NULL;
    tenon_arg a[10];
    for (int i = 0; i < p->node->op->param_count; i++)
        a[i] = p->node->args[i];
    TN_TRY(new_weight(p, at, scale, over_inputs, &weight));
    if (bias)
        TN_TRY(new_bias(p, bias, &shift));
    bool addmm = tn_node_is(p->node, TN_OP_addmm), mm = tn_node_is(p->node, TN_OP_mm);
    a[0] = x ? VAL(x) : a[addmm];
    a[1] = VAL(weight);
    a[2] = VAL(shift);
    if ((mm || addmm) && shift)
        TN_TRY(tn_emit(at, TN_OP_addmm, out, TN_ARGS(a[2], a[0], a[1])));
    else if (mm || addmm)
        TN_TRY(tn_emit(at, TN_OP_mm, out, a, 2));
    else
        TN_TRY(tn_emit(at, (enum tn_op_id)p->node->op->id, out, a, p->node->op->param_count));
    tn_name_after(*out, p->node);
    return TENON_OK;
}
