/* Folds batch norm into the convolution, linear or addmm before it: the first becomes the second.
 *
 *     x -- convolution(w, b) -- batch_norm(gamma, beta, mean, var, eps)
 *
 *     x -- convolution(w', b')
 *
 *     scale = gamma / sqrt(var + eps)
 *     w'[o] = w[o] * scale[o]
 *     b'[o] = (b[o] - mean[o]) * scale[o] + beta[o]
 *
 * computed in double. A transposed convolution's weight is (in, out / groups, ...): channel o of
 * group g is w[g * in / groups ..., o - g * out / groups]. addmm has w[i, o], alpha w and beta b.
 * The result must have no other use.
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"
#include <math.h>
#include <stdlib.h>

typedef struct folding {
    tenon_node *norm, *product;
    tenon_value *weight, *bias; /* of the product; bias may be NULL */
    double *scale, *shift;      /* by output channel */
    int64_t channels;
    double alpha, beta; /* of addmm */
} folding;

static double element(const tenon_value *value, int64_t index, double other) {
    if (!value)
        return other;
    const tenon_view *view = &value->tensor->view;
    int64_t at = view->rank == 0 || view->shape[view->rank - 1] == 1
                     ? 0
                     : index * view->strides[view->rank - 1];
    return tn_load_float((const char *)view->data + at * (int64_t)tenon_dtype_size(view->dtype),
                         view->dtype);
}

/* A vector over the channels: constant, or absent. */
static bool is_vector(const tenon_node *node, int index, int64_t channels, bool optional) {
    const tenon_value *value = tn_arg_value(node, index);
    if (!value)
        return optional && tn_arg_is_none(node, index);
    return tn_is_constant(value) && tn_is_float_value(value) && value->rank == 1 &&
           value->shape[0] == channels;
}

/* A bias of addmm: one that broadcasts along rows only. */
static bool is_row(const tenon_value *value, int64_t channels) {
    if (!tn_is_constant(value) || !tn_is_float_value(value) || value->rank > 2)
        return false;
    int64_t numel = tn_value_numel(value);
    return numel == 1 ||
           (numel == channels && value->rank > 0 && value->shape[value->rank - 1] == channels);
}

static bool match_product(folding *f) {
    tenon_node *p = f->product;
    f->alpha = f->beta = 1;
    if (tn_node_is(p, TN_OP_convolution)) {
        f->weight = tn_arg_value(p, 1);
        f->bias = tn_arg_value(p, 2);
        if (!tn_is_constant(f->weight) || f->weight->rank < 2)
            return false;
        int64_t groups = tn_arg_int(p, 8, 1);
        f->channels = f->weight->shape[0];
        if (tn_arg_bool(p, 6) && (groups < 1 || f->weight->shape[0] % groups ||
                                  !tn_mul(f->weight->shape[1], groups, &f->channels)))
            return false;
        return is_vector(p, 2, f->channels, true);
    }
    /* The channels are dimension 1 of batch norm's input: a matrix here. */
    if (p->outputs[0]->rank != 2)
        return false;
    if (tn_node_is(p, TN_OP_linear)) {
        f->weight = tn_arg_value(p, 1);
        f->bias = tn_arg_value(p, 2);
        if (!tn_is_constant(f->weight) || f->weight->rank != 2)
            return false;
        f->channels = f->weight->shape[0];
        return is_vector(p, 2, f->channels, true);
    }
    f->weight = tn_arg_value(p, 2);
    f->bias = tn_arg_value(p, 0);
    f->beta = tn_arg_float(p, 3, 1);
    f->alpha = tn_arg_float(p, 4, 1);
    if (!tn_is_constant(f->weight) || f->weight->rank != 2)
        return false;
    f->channels = f->weight->shape[1];
    return is_row(f->bias, f->channels);
}

static bool match(folding *f) {
    const tenon_value *y = tn_arg_value(f->norm, 0);
    for (int i = 1; i < f->norm->output_count; i++)
        if (f->norm->outputs[i]->use_count)
            return false;
    f->product = tn_only_by(y, TN_OP_convolution);
    if (!f->product)
        f->product = tn_only_by(y, TN_OP_linear);
    if (!f->product)
        f->product = tn_only_by(y, TN_OP_addmm);
    if (!f->product || !match_product(f) || !tn_is_float_value(f->weight))
        return false;
    return is_vector(f->norm, 1, f->channels, true) && is_vector(f->norm, 2, f->channels, true) &&
           is_vector(f->norm, 3, f->channels, false) && is_vector(f->norm, 4, f->channels, false);
}

static void compute_scale(folding *f) {
    const tenon_value *gamma = tn_arg_value(f->norm, 1), *beta = tn_arg_value(f->norm, 2);
    const tenon_value *mean = tn_arg_value(f->norm, 3), *var = tn_arg_value(f->norm, 4);
    double eps = tn_arg_float(f->norm, 6, 0);
    for (int64_t o = 0; o < f->channels; o++) {
        double bias = f->beta == 0 ? 0 : f->beta * element(f->bias, o, 0);
        f->scale[o] = element(gamma, o, 1) / sqrt(element(var, o, 0) + eps);
        f->shift[o] = (bias - element(mean, o, 0)) * f->scale[o] + element(beta, o, 0);
        f->scale[o] *= f->alpha;
    }
}

/* to = from * scale, over what is left of the dimensions below `dim`. The ranks are small: this
 * recurses over dimensions only. */
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

/* The usual case: each channel is one block of floats. */
static void scale_rows(const folding *f, const tenon_view *to, const tenon_view *from) {
    int64_t row = from->strides[0];
    const float *in = from->data;
    float *out = to->data;
    for (int64_t o = 0; o < f->channels; o++)
        for (int64_t i = 0; i < row; i++)
            out[o * row + i] = (float)((double)in[o * row + i] * f->scale[o]);
}

/* Walks the two outer dimensions, where the channel is decided. */
static void scale_weight(const folding *f, const tenon_view *to, const tenon_view *from) {
    int64_t size = (int64_t)tenon_dtype_size(to->dtype), per_group = 0;
    bool transposed = tn_node_is(f->product, TN_OP_convolution) && tn_arg_bool(f->product, 6);
    bool columns = tn_node_is(f->product, TN_OP_addmm);
    if (!transposed && !columns && to->dtype == TENON_FLOAT32 && tenon_view_is_contiguous(from) &&
        tenon_view_numel(from) == f->channels * from->strides[0]) {
        scale_rows(f, to, from);
        return;
    }
    if (transposed)
        per_group = from->shape[0] / tn_arg_int(f->product, 8, 1);
    for (int64_t i = 0; i < from->shape[0]; i++) {
        for (int64_t k = 0; k < from->shape[1]; k++) {
            int64_t o = transposed ? i / (per_group ? per_group : 1) * from->shape[1] + k
                        : columns  ? k
                                   : i;
            scale_block(
                to, from, 2, (char *)to->data + (i * to->strides[0] + k * to->strides[1]) * size,
                (const char *)from->data + (i * from->strides[0] + k * from->strides[1]) * size,
                f->scale[o]);
        }
    }
}

static tenon_status new_weight(const folding *f, tenon_value **out) {
    const tenon_tensor *old = f->weight->tensor;
    tenon_tensor *weight = NULL;
    TN_TRY(tenon_tensor_create(old->view.dtype, old->view.rank, old->view.shape, &weight));
    scale_weight(f, &weight->view, &old->view);
    if (old->storage->mapped && tenon_view_is_contiguous(&old->view))
        tn_storage_forget_pages(old->storage, old->view.data,
                                (size_t)tenon_view_numel(&old->view) *
                                    tenon_dtype_size(old->view.dtype));
    return tn_emit_constant(f->norm->graph, f->weight->name, weight, out);
}

static tenon_status new_bias(const folding *f, tenon_value **out) {
    tenon_tensor *bias = NULL;
    TN_TRY(tenon_tensor_create(f->weight->dtype, 1, &f->channels, &bias));
    for (int64_t o = 0; o < f->channels; o++)
        tn_store_float((char *)bias->view.data + o * (int64_t)tenon_dtype_size(bias->view.dtype),
                       bias->view.dtype, f->shift[o]);
    return tn_emit_constant(f->norm->graph, f->bias ? f->bias->name : "bias", bias, out);
}

static tenon_status emit(const folding *f, tenon_value **with) {
    tenon_value *weight, *bias;
    const tenon_arg *a = f->product->args;
    compute_scale((folding *)f);
    TN_TRY(new_weight(f, &weight));
    TN_TRY(new_bias(f, &bias));
    tenon_node *at = f->norm;
    if (tn_node_is(f->product, TN_OP_convolution)) {
        TN_TRY(tn_emit(at, TN_OP_convolution, with,
                       TN_ARGS(a[0], VAL(weight), VAL(bias), a[3], a[4], a[5], a[6], a[7], a[8])));
    } else if (tn_node_is(f->product, TN_OP_linear)) {
        TN_TRY(tn_emit(at, TN_OP_linear, with, TN_ARGS(a[0], VAL(weight), VAL(bias))));
    } else {
        TN_TRY(tn_emit(at, TN_OP_addmm, with, TN_ARGS(VAL(bias), a[1], VAL(weight))));
    }
    tn_name_after(with[0], f->product);
    return TENON_OK;
}

static tenon_status fold_norm(tenon_node *node, tenon_value **with) {
    folding f = {.norm = node};
    if (!match(&f))
        return TENON_OK;
    f.scale = calloc((size_t)f.channels + 1, sizeof *f.scale);
    f.shift = calloc((size_t)f.channels + 1, sizeof *f.shift);
    tenon_status status = f.scale && f.shift ? emit(&f, with) : tn_no_memory();
    free(f.scale);
    free(f.shift);
    return status;
}

tenon_status tn_pass_fold_bn(tenon_graph *graph, bool *changed, void *user) {
    static const tn_rule rules[] = {
        {TN_OP_native_batch_norm_legit_no_training, fold_norm},
    };
    (void)user;
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
