/* Convolution of one to three dimensions, transposed ones too, as blocked matrix products. */
#include "kernels/conv.h"
#include "core/window.h"
#include "kernels/iterate.h"
#include <omp.h>
#include <string.h>

/* Fewer channels of a group leave most of a vector of channels empty. */
#define NARROW 16

/* ---- Reading the node ---- */

static void set_array(tn_conv_array *a, const tenon_view *v) {
    a->data = v->data;
    a->dtype = v->dtype;
    a->batch = v->strides[0];
    a->channel = v->strides[1];
    for (int d = 0; d < 3; d++) {
        int from = d - (5 - v->rank) + 2;
        a->space[d] = from >= 2 ? v->strides[from] : 0;
    }
}

static void set_sizes(int64_t *to, const tenon_view *v) {
    for (int d = 0; d < 3; d++) {
        int from = d - (5 - v->rank) + 2;
        to[d] = from >= 2 ? v->shape[from] : 1;
    }
}

static void set_list(const tenon_node *node, int index, int n, int64_t missing, int64_t *to) {
    int64_t list[3];
    tn_window_ints(node, index, list, n);
    for (int d = 0; d < 3; d++)
        to[d] = d < 3 - n ? missing : list[d - (3 - n)];
}

/* `in` as a view of the class's type: packed in row-major order when it is of another, or always.
 */
static tenon_status as_class(tn_call *call, tn_class class, const tenon_view *in, bool always,
                             tenon_view *out) {
    static const tenon_dtype dtypes[] = {[TN_CLASS_F32] = TENON_FLOAT32,
                                         [TN_CLASS_F64] = TENON_FLOAT64,
                                         [TN_CLASS_I64] = TENON_INT64};
    if (tn_class_is(class, in->dtype) && !always) {
        *out = *in;
        return TENON_OK;
    }
    const void *data = TN_K(packed)(call, class, in);
    if (!data)
        return tn_no_memory();
    *out = tn_view_make((void *)data, dtypes[class], in->rank, in->shape);
    return TENON_OK;
}

static tenon_status read_node(tn_call *call, tn_conv *c) {
    const tenon_node *node = call->node;
    const tenon_view *bias = tn_call_in(call, 2);
    tenon_view in, weight;
    int n = call->in[0].rank - 2;
    c->class = tn_class_of(call->in[0].dtype);
    c->transposed = tn_arg_bool(node, 6);
    c->groups = tn_arg_int(node, 8, 1);
    c->batch = call->in[0].shape[0];
    c->in_channels = call->in[0].shape[1] / c->groups;
    c->out_channels = call->out[0].shape[1] / c->groups;
    c->narrow = c->groups > 1 && c->in_channels > 1 && c->out_channels < NARROW;
    TN_TRY(as_class(call, c->class, &call->in[0], c->narrow, &in));
    TN_TRY(as_class(call, c->class, &call->in[1], false, &weight));
    set_list(node, 3, n, 1, c->stride);
    set_list(node, 4, n, 0, c->padding);
    set_list(node, 5, n, 1, c->dilation);
    set_array(&c->in, &in);
    set_array(&c->out, &call->out[0]);
    set_array(&c->weight, &weight);
    set_sizes(c->in_size, &in);
    set_sizes(c->out_size, &call->out[0]);
    set_sizes(c->kernel, &weight);
    if (c->transposed) { /* its weight has the input channels first */
        c->weight_group = c->in_channels * c->weight.batch;
        int64_t t = c->weight.batch;
        c->weight.batch = c->weight.channel;
        c->weight.channel = t;
    } else {
        c->weight_group = c->out_channels * c->weight.batch;
    }
    if (bias) {
        c->bias = TN_K(packed)(call, c->class, bias);
        if (!c->bias)
            return tn_no_memory();
    }
    return TENON_OK;
}

/* ---- Phases ---- */

static int64_t divide_up(int64_t a, int64_t b) { /* b > 0; toward plus infinity */
    return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

/* Fills axis `d` for outputs at `phase`, `phase` + stride, ... of a transposed convolution, or for
 * all outputs of an ordinary one (phase 0). */
static void set_axis(tn_conv *c, int d, int64_t phase) {
    tn_conv_axis *a = &c->axis[d];
    int64_t stride = c->stride[d], size = c->out_size[d];
    a->in = c->in_size[d];
    a->step = c->transposed ? 1 : stride;
    a->first = phase;
    a->stride = c->transposed ? stride : 1;
    a->out = c->transposed ? (size > phase ? (size - phase + stride - 1) / stride : 0) : size;
    a->taps = 0;
    for (int64_t k = 0; k < c->kernel[d]; k++) {
        int64_t t = a->taps;
        if (c->transposed) { /* input i reaches output i * stride - padding + k * dilation */
            int64_t place = phase + c->padding[d] - k * c->dilation[d];
            if (place % stride != 0)
                continue;
            a->offset[t] = place / stride;
        } else {
            a->offset[t] = k * c->dilation[d] - c->padding[d];
        }
        a->kernel[t] = k;
        int64_t low = divide_up(-a->offset[t], a->step);
        int64_t high = divide_up(a->in - a->offset[t], a->step);
        a->low[t] = low < 0 ? 0 : low;
        a->high[t] = high > a->out ? a->out : high;
        a->taps++;
    }
}

static tenon_status make_axes(tn_call *call, tn_conv *c) {
    int64_t taps = c->kernel[0] * c->kernel[1] * c->kernel[2];
    int64_t each = c->kernel[0] + c->kernel[1] + c->kernel[2];
    int64_t *at = tn_call_scratch(call, sizeof *at * (size_t)(taps + 4 * each));
    if (!at)
        return tn_no_memory();
    c->tap_weight = at;
    at += taps;
    for (int d = 0; d < 3; d++) {
        tn_conv_axis *a = &c->axis[d];
        a->offset = at;
        a->kernel = at + c->kernel[d];
        a->low = at + 2 * c->kernel[d];
        a->high = at + 3 * c->kernel[d];
        at += 4 * c->kernel[d];
    }
    return TENON_OK;
}

static void set_phase(tn_conv *c, const int64_t *phase) {
    for (int d = 0; d < 3; d++)
        set_axis(c, d, phase[d]);
    const tn_conv_axis *a = c->axis;
    c->taps = a[0].taps * a[1].taps * a[2].taps;
    c->pixels = a[0].out * a[1].out * a[2].out;
    int64_t *to = c->tap_weight;
    for (int64_t z = 0; z < a[0].taps; z++) {
        for (int64_t y = 0; y < a[1].taps; y++) {
            for (int64_t x = 0; x < a[2].taps; x++)
                *to++ = a[0].kernel[z] * c->weight.space[0] + a[1].kernel[y] * c->weight.space[1] +
                        a[2].kernel[x] * c->weight.space[2];
        }
    }
}

/* ---- The product ---- */

/* Whether position p of the output lies at p * stride, counting x fastest. */
static bool linear(const tn_conv_array *a, const int64_t *size, int64_t *stride) {
    int64_t expected = 0, count = 1;
    for (int d = 2; d >= 0; d--) {
        if (size[d] == 1)
            continue;
        if (count == 1)
            expected = a->space[d];
        else if (a->space[d] != expected * count)
            return false;
        count *= size[d];
    }
    *stride = expected;
    return true;
}

/* The output as the product sees it. */
typedef struct place {
    char *data;
    int64_t batch, channel, pixel; /* strides; one of the last two is 1 */
    bool staged;
} place;

static tenon_status choose_place(tn_call *call, const tn_conv *c, place *p) {
    int64_t stride = 1, channels = c->out_channels * c->groups;
    bool whole = c->axis[0].stride == 1 && c->axis[1].stride == 1 && c->axis[2].stride == 1;
    *p = (place){c->out.data, c->out.batch, c->out.channel, 1, false};
    bool rows = !c->narrow || c->out.channel != 1;
    if (whole && rows && tn_class_is(c->class, c->out.dtype) &&
        linear(&c->out, c->out_size, &stride)) {
        p->pixel = stride;
        if (c->pixels == 1)
            p->pixel = c->out.channel == 1 ? channels : 1;
        if (p->pixel == 1 || c->out.channel == 1)
            return TENON_OK;
    }
    size_t count = (size_t)(c->batch * channels * c->pixels);
    p->data = tn_call_scratch(call, count * tn_class_size(c->class));
    p->batch = channels * c->pixels;
    p->channel = c->pixels;
    p->pixel = 1;
    p->staged = true;
    return p->data ? TENON_OK : tn_no_memory();
}

static bool pointwise(const tn_conv *c, int64_t *stride) {
    for (int d = 0; d < 3; d++) {
        const tn_conv_axis *a = &c->axis[d];
        if (a->taps != 1 || a->offset[0] != 0 || a->step != 1 || a->in != a->out)
            return false;
    }
    return linear(&c->in, c->in_size, stride);
}

/* The product of group `group`. With channels as neighbours in the output, its rows are pixels;
 * otherwise, channels. */
static tn_gemm group_gemm(const tn_conv *c, const place *p, int64_t group) {
    bool pixel_rows = p->pixel != 1;
    int64_t unit = (int64_t)tn_class_size(c->class), stride;
    tn_operand patches = {.pack = TN_K(pack_patches), .class = c->class, .user = c};
    tn_operand kernel = {.pack = TN_K(pack_kernel), .class = c->class, .user = c};
    patches.data = c->in.data + group * c->in_channels * c->in.channel * unit;
    kernel.data = c->weight.data + group * c->weight_group * unit;
    if (pointwise(c, &stride)) {
        patches =
            TN_K(operand)(c->class, patches.data, c->in.dtype, stride, c->in.channel, c->in.batch);
        kernel = TN_K(operand)(c->class, kernel.data + c->tap_weight[0] * unit, c->weight.dtype,
                               c->weight.batch, c->weight.channel, 0);
    }
    tn_gemm g = {.class = c->class, .batch = c->batch, .k = c->in_channels * c->taps, .alpha = 1};
    g.m = pixel_rows ? c->pixels : c->out_channels;
    g.n = pixel_rows ? c->out_channels : c->pixels;
    g.a = pixel_rows ? patches : kernel;
    g.b = pixel_rows ? kernel : patches;
    g.share_a = !pixel_rows;
    g.c = p->data + group * c->out_channels * p->channel * unit;
    g.c_batch = p->batch;
    g.c_row = pixel_rows ? p->pixel : p->channel;
    g.bias = c->bias ? c->bias + group * c->out_channels * unit : NULL;
    g.bias_rows = !pixel_rows;
    return g;
}

static tenon_status all_groups(tn_call *call, const tn_conv *c, const place *p) {
    bool each = c->groups > 1 && c->groups >= 2 * call->threads; /* every group on one thread */
    int threads = each ? 1 : call->threads;
    tn_gemm model = group_gemm(c, p, 0);
    model.chunk = each ? (size_t)1 << 20 : 0;
    size_t size = TN_K(gemm_scratch)(&model, threads);
    char *scratch = tn_call_scratch(call, size * (size_t)(each ? call->threads : 1) + 64);
    if (!scratch)
        return tn_no_memory();
    if (!each) {
        for (int64_t group = 0; group < c->groups; group++) {
            tn_gemm g = group_gemm(c, p, group);
            TN_K(gemm)(&g, threads, scratch);
        }
        return TENON_OK;
    }
#pragma omp parallel for num_threads(call->threads) schedule(dynamic)
    for (int64_t group = 0; group < c->groups; group++) {
        tn_gemm g = group_gemm(c, p, group);
        g.chunk = model.chunk;
        TN_K(gemm)(&g, 1, scratch + size * (size_t)omp_get_thread_num());
    }
    return TENON_OK;
}

static void store_phase(tn_call *call, const tn_conv *c, const place *p) {
    tenon_view out = {.dtype = c->out.dtype, .rank = 5};
    out.data = c->out.data;
    out.shape[0] = c->batch;
    out.shape[1] = c->out_channels * c->groups;
    out.strides[0] = c->out.batch;
    out.strides[1] = c->out.channel;
    for (int d = 0; d < 3; d++) {
        const tn_conv_axis *a = &c->axis[d];
        out.shape[2 + d] = a->out;
        out.strides[2 + d] = c->out.space[d] * a->stride;
        out.data =
            (char *)out.data + a->first * c->out.space[d] * (int64_t)tenon_dtype_size(c->out.dtype);
    }
    TN_K(store_view)(c->class, &out, p->data, call->threads);
}

static tenon_status run_phase(tn_call *call, tn_conv *c, const int64_t *phase, place *buffer) {
    set_phase(c, phase);
    if (c->pixels == 0)
        return TENON_OK;
    if (!buffer->data || buffer->staged) {
        place old = *buffer; /* the first phase is the largest: its buffer serves the others */
        if (old.data) {
            buffer->batch = c->out_channels * c->groups * c->pixels;
            buffer->channel = c->pixels;
        } else {
            TN_TRY(choose_place(call, c, buffer));
        }
    }
    c->channel_inner = buffer->pixel != 1 && c->in.channel == 1;
    TN_TRY(all_groups(call, c, buffer));
    if (buffer->staged)
        store_phase(call, c, buffer);
    return TENON_OK;
}

tenon_status TN_K(convolution)(tn_call *call) {
    tn_conv c = {0};
    tenon_status status;
    if (tenon_view_numel(&call->out[0]) == 0)
        return TENON_OK;
    TN_TRY(read_node(call, &c));
    TN_TRY(make_axes(call, &c));
    if (!c.transposed && c.in_channels == 1 && c.class == TN_CLASS_F32) {
        set_phase(&c, (int64_t[3]){0, 0, 0});
        if (TN_K(depthwise)(call, &c, &status))
            return status;
    }
    place buffer = {0};
    int64_t phases[3];
    for (int d = 0; d < 3; d++)
        phases[d] = !c.transposed ? 1 : c.stride[d] < c.out_size[d] ? c.stride[d] : c.out_size[d];
    for (int64_t i = 0; i < phases[0] * phases[1] * phases[2]; i++) {
        int64_t phase[3] = {i / phases[2] / phases[1], i / phases[2] % phases[1], i % phases[2]};
        TN_TRY(run_phase(call, &c, phase, &buffer));
    }
    return TENON_OK;
}
