/* Resizing: nearest, linear and cubic interpolation of one to three dimensions, and with
 * antialiasing.
 *
 * Every method is separable: an output is a weighted sum of a few inputs along each dimension.
 * Where they lie and what they weigh follows PyTorch's area_pixel_compute_scale and
 * area_pixel_compute_source_index, in float unless the data are double, as there. */
#include "core/window.h"
#include "kernels/iterate.h"
#include "kernels/product.h"
#include <math.h>
#include <omp.h>
#include <string.h>

/* Output j is the sum of weight[j * taps + t] times input index[j * taps + t]. */
typedef struct resize_axis {
    int64_t in, out, taps;
    int64_t *index;
    double *weight;
} resize_axis;

typedef struct resize {
    int64_t batch, channels;
    resize_axis axis[3];
    /* Strides in elements. */
    int64_t in_batch, in_channel, in_space[3];
    int64_t out_batch, out_channel, out_space[3];
} resize;

#define T float
#define Z(name) name##_f32
#include "kernels/resize_template.h"
#undef T
#undef Z
#define T double
#define Z(name) name##_f64
#include "kernels/resize_template.h"
#undef T
#undef Z

/* ---- Places and weights ---- */

typedef enum method { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, LINEAR_AA, CUBIC_AA } method;

typedef struct rule {
    method method;
    bool align_corners, single; /* computed in float */
    bool plane;                 /* two dimensions */
} rule;

static double rounded(const rule *r, double x) {
    return r->single ? (double)(float)x : x;
}

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Inputs for each output; `given` is the scale factor of the node, or 0. Equal sizes, and twice the
 * size for the nearest neighbours of a plane, ignore it in some methods, as PyTorch does. */
static double axis_scale(const rule *r, const resize_axis *a, double given) {
    bool copies =
        r->method == LINEAR || r->method >= LINEAR_AA || (r->method == NEAREST && r->plane);
    if (copies && a->in == a->out)
        return 1;
    if (r->method == NEAREST && r->plane && a->out == 2 * a->in)
        return 0.5;
    if (r->align_corners && r->method >= LINEAR)
        return a->out > 1 ? rounded(r, rounded(r, (double)(a->in - 1)) / (double)(a->out - 1)) : 0;
    if (given > 0)
        return rounded(r, 1 / given);
    return rounded(r, rounded(r, (double)a->in) / (double)a->out);
}

static double source(const rule *r, double scale, int64_t j) {
    if (r->align_corners)
        return rounded(r, scale * (double)j);
    return rounded(r, rounded(r, scale * ((double)j + 0.5)) - 0.5);
}

/* Keys' cubic kernel at distance x from its centre (Keys, "Cubic Convolution Interpolation for
 * Digital Image Processing"). */
static double keys(double x, double a) {
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

static int64_t axis_taps(const rule *r, double scale) {
    switch (r->method) {
    case NEAREST:
    case NEAREST_EXACT:
        return 1;
    case LINEAR:
        return 2;
    case CUBIC:
        return 4;
    default: {
        double half = r->method == LINEAR_AA ? 1 : 2;
        return 2 * (int64_t)ceil(half * (scale > 1 ? scale : 1)) + 1;
    }
    }
}

static void place_nearest(const rule *r, const resize_axis *a, double scale, int64_t j) {
    double at = r->method == NEAREST ? rounded(r, scale * (double)j)
                                     : rounded(r, scale * ((double)j + 0.5));
    a->index[j] = clamp((int64_t)floor(at), 0, a->in - 1);
    a->weight[j] = 1;
}

static void place_linear(const rule *r, const resize_axis *a, double scale, int64_t j) {
    double at = source(r, scale, j);
    at = at > 0 ? at : 0;
    int64_t low = clamp((int64_t)at, 0, a->in - 1);
    double part = at - (double)low;
    part = part > 1 ? 1 : part;
    a->index[2 * j] = low;
    a->index[2 * j + 1] = low + (low < a->in - 1);
    a->weight[2 * j] = 1 - part;
    a->weight[2 * j + 1] = part;
}

static void place_cubic(const rule *r, const resize_axis *a, double scale, int64_t j) {
    double at = source(r, scale, j), low = floor(at);
    for (int64_t t = 0; t < 4; t++) {
        a->index[4 * j + t] = clamp((int64_t)low - 1 + t, 0, a->in - 1);
        a->weight[4 * j + t] = keys(at - low + 1 - (double)t, -0.75);
    }
}

/* The filter is widened by the scale, and its weights add up to 1. */
static void place_antialiased(const rule *r, const resize_axis *a, double scale, int64_t j) {
    double half = r->method == LINEAR_AA ? 1 : 2, wide = scale > 1 ? scale : 1, sum = 0;
    double centre = rounded(r, scale * ((double)j + 0.5)), support = half * wide;
    int64_t first = clamp((int64_t)(centre - support + 0.5), 0, a->in - 1);
    int64_t end = clamp((int64_t)(centre + support + 0.5), first + 1, a->in);
    int64_t *index = a->index + j * a->taps;
    double *weight = a->weight + j * a->taps;
    for (int64_t t = 0; t < a->taps; t++) {
        double x = ((double)(first + t) - centre + 0.5) / wide;
        double w = r->method == LINEAR_AA ? 1 - fabs(x) : keys(x, -0.5);
        bool inside = first + t < end && (r->method == CUBIC_AA || w > 0);
        index[t] = inside ? first + t : first;
        weight[t] = inside ? w : 0;
        sum += weight[t];
    }
    for (int64_t t = 0; t < a->taps && sum != 0; t++)
        weight[t] /= sum;
}

static tenon_status make_axis(tn_call *call, const rule *r, resize_axis *a, double given,
                              bool real) {
    rule one = {.method = NEAREST, .single = r->single};
    const rule *use = real ? r : &one; /* dimensions that are not there keep their one element */
    double scale = axis_scale(use, a, given);
    a->taps = axis_taps(use, scale);
    size_t count = (size_t)(a->taps * a->out);
    a->index = tn_call_scratch(call, count * sizeof *a->index);
    a->weight = tn_call_scratch(call, count * sizeof *a->weight);
    if (!a->index || !a->weight)
        return tn_no_memory();
    for (int64_t j = 0; j < a->out; j++) {
        if (use->method <= NEAREST_EXACT)
            place_nearest(use, a, scale, j);
        else if (use->method == LINEAR)
            place_linear(use, a, scale, j);
        else if (use->method == CUBIC)
            place_cubic(use, a, scale, j);
        else
            place_antialiased(use, a, scale, j);
    }
    return TENON_OK;
}

/* ---- Layouts ---- */

/* The class to compute in: bytes are computed in float. */
static tn_class class_of(tenon_dtype dtype) {
    return dtype == TENON_FLOAT64 ? TN_CLASS_F64 : TN_CLASS_F32;
}

static tenon_view as_rank_5(const tenon_view *v) {
    tenon_view to = {.data = v->data, .dtype = v->dtype, .rank = 5};
    for (int d = 0; d < 5; d++) {
        int from = d < 2 ? d : d - (5 - v->rank);
        bool there = d < 2 || from >= 2;
        to.shape[d] = there ? v->shape[from] : 1;
        to.strides[d] = there ? v->strides[from] : 0;
    }
    return to;
}

static void set_in(resize *r, const tenon_view *v) {
    r->batch = v->shape[0];
    r->channels = v->shape[1];
    r->in_batch = v->strides[0];
    r->in_channel = v->strides[1];
    memcpy(r->in_space, v->strides + 2, sizeof r->in_space);
}

static void set_out(resize *r, const tenon_view *v) {
    r->out_batch = v->strides[0];
    r->out_channel = v->strides[1];
    memcpy(r->out_space, v->strides + 2, sizeof r->out_space);
}

/* Bytes are rounded to nearest. */
static void round_bytes(float *values, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float x = rintf(values[i]);
        values[i] = x < 0 ? 0 : x > 255 ? 255 : x;
    }
}

/* ---- Planes of bytes ---- */

/* PyTorch resizes them as Pillow does: along the rows, then along the columns, each time with
 * weights of 16 bits and a result of 8 (_separable_upsample_generic_Nd_kernel_impl_single_dim). */
typedef struct byte_axis {
    const resize_axis *axis;
    int32_t *weight;
    int bits; /* behind the binary point */
} byte_axis;

/* Weights of one input are one. */
static void merge_taps(const resize_axis *a, int64_t j) {
    const int64_t *index = a->index + j * a->taps;
    double *weight = a->weight + j * a->taps;
    for (int64_t t = 1; t < a->taps; t++) {
        int64_t first = 0;
        while (index[first] != index[t])
            first++;
        if (first < t) {
            weight[first] += weight[t];
            weight[t] = 0;
        }
    }
}

static tenon_status make_byte_axis(tn_call *call, const resize_axis *a, byte_axis *b) {
    int64_t count = a->taps * a->out;
    double most = 0;
    *b = (byte_axis){.axis = a, .weight = tn_call_scratch(call, (size_t)count * sizeof *b->weight)};
    if (!b->weight)
        return tn_no_memory();
    for (int64_t j = 0; j < a->out; j++)
        merge_taps(a, j);
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, a->weight[i]);
    while (b->bits < 22 && (int)(0.5 + most * (double)(1 << (b->bits + 1))) < 1 << 15)
        b->bits++;
    for (int64_t i = 0; i < count; i++) {
        double w = a->weight[i] * (double)(1 << b->bits);
        b->weight[i] = (int32_t)(w < 0 ? w - 0.5 : w + 0.5);
    }
    return TENON_OK;
}

/* One line; strides in bytes. */
static void resize_bytes(const byte_axis *b, const uint8_t *from, int64_t step, uint8_t *to,
                         int64_t to_step) {
    const resize_axis *a = b->axis;
    for (int64_t j = 0; j < a->out; j++) {
        int32_t sum = b->bits > 0 ? 1 << (b->bits - 1) : 0;
        for (int64_t t = j * a->taps; t < (j + 1) * a->taps; t++)
            sum += b->weight[t] * from[a->index[t] * step];
        sum >>= b->bits;
        to[j * to_step] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
}

static tenon_status by_byte_planes(tn_call *call, const resize *r, const tenon_view *in,
                                   const tenon_view *out) {
    const resize_axis *rows = &r->axis[1], *columns = &r->axis[2];
    byte_axis down, across;
    size_t size = (size_t)(rows->in * columns->out);
    TN_TRY(make_byte_axis(call, rows, &down));
    TN_TRY(make_byte_axis(call, columns, &across));
    uint8_t *between = tn_call_scratch(call, size * (size_t)call->threads);
    if (!between)
        return tn_no_memory();
    int64_t planes = in->shape[0] * in->shape[1];
#pragma omp parallel for num_threads(call->threads) schedule(static)
    for (int64_t p = 0; p < planes; p++) {
        int64_t n = p / in->shape[1], c = p % in->shape[1];
        const uint8_t *from = (const uint8_t *)in->data + n * in->strides[0] + c * in->strides[1];
        uint8_t *to = (uint8_t *)out->data + n * out->strides[0] + c * out->strides[1];
        uint8_t *mine = between + size * (size_t)omp_get_thread_num();
        for (int64_t y = 0; y < rows->in; y++)
            resize_bytes(&across, from + y * in->strides[3], in->strides[4],
                         mine + y * columns->out, 1);
        for (int64_t x = 0; x < columns->out; x++)
            resize_bytes(&down, mine + x, columns->out, to + x * out->strides[4], out->strides[3]);
    }
    return TENON_OK;
}

/* ---- All ---- */

static tenon_status by_planes(tn_call *call, resize *r, tenon_view in, tenon_view out) {
    tn_class class = class_of(in.dtype);
    size_t unit = tn_class_size(class);
    const void *from = in.data;
    void *to = out.data;
    tenon_view place = out;
    if (!tn_class_is(class, in.dtype) || in.strides[4] != 1) {
        from = TN_K(packed)(call, class, &in);
        if (!from)
            return tn_no_memory();
        tn_contiguous_strides(5, in.shape, in.strides);
    }
    int64_t count = tenon_view_numel(&out);
    bool staged = !tn_class_is(class, out.dtype) || out.strides[4] != 1;
    if (staged) {
        to = tn_call_scratch(call, (size_t)count * unit);
        if (!to)
            return tn_no_memory();
        tn_contiguous_strides(5, out.shape, place.strides);
    }
    set_in(r, &in);
    set_out(r, &place);
    void *buffers = tn_call_scratch(call, (size_t)call->threads * (size_t)in.shape[4] * unit);
    if (!buffers)
        return tn_no_memory();
    if (class == TN_CLASS_F32)
        planes_f32(r, call->threads, from, to, buffers);
    else
        planes_f64(r, call->threads, from, to, buffers);
    if (out.dtype == TENON_UINT8)
        round_bytes(to, count);
    if (staged)
        TN_K(store_view)(class, &out, to, call->threads);
    return TENON_OK;
}

/* `given` holds three scale factors, 0 where there is none. */
static tenon_status run(tn_call *call, method how, bool align_corners, const double *given) {
    resize r = {0};
    bool bytes = call->in[0].dtype == TENON_UINT8 && call->in[0].rank == 4 && how >= LINEAR;
    rule how_to = {how, align_corners, call->in[0].dtype != TENON_FLOAT64 && !bytes,
                   call->in[0].rank == 4};
    tenon_view in = as_rank_5(&call->in[0]), out = as_rank_5(&call->out[0]);
    if (tenon_view_numel(&out) == 0)
        return TENON_OK;
    for (int d = 0; d < 3; d++) {
        r.axis[d].in = in.shape[2 + d];
        r.axis[d].out = out.shape[2 + d];
        TN_TRY(make_axis(call, &how_to, &r.axis[d], given[d], d >= 5 - call->in[0].rank));
    }
    if (bytes)
        return by_byte_planes(call, &r, &in, &out);
    bool float32 = in.dtype == TENON_FLOAT32;
    if (in.strides[1] == 1 && out.strides[1] == 1 && in.shape[1] > 1 &&
        (float32 || in.dtype == TENON_FLOAT64)) {
        set_in(&r, &in);
        set_out(&r, &out);
        if (float32)
            channels_last_f32(&r, call->threads, in.data, out.data);
        else
            channels_last_f64(&r, call->threads, in.data, out.data);
        return TENON_OK;
    }
    return by_planes(call, &r, in, out);
}

/* Overloads: (input, output_size, [align_corners,] scale_factors) and (self, output_size,
 * [align_corners,] scales...). */
static tenon_status upsample(tn_call *call, method how) {
    const tenon_node *node = call->node;
    const tn_op *op = node->op;
    int n = call->in[0].rank - 2, align = tn_op_param(op, "align_corners");
    int factors = tn_op_param(op, "scale_factors");
    double given[3] = {0};
    for (int i = 0; i < n; i++) {
        if (factors < 0) {
            given[3 - n + i] = tn_arg_float(node, op->param_count - n + i, 0);
        } else if (node->args[factors].kind == TENON_ARG_LIST) {
            const tenon_arg *f = &node->args[factors].as.list[i];
            given[3 - n + i] = f->kind == TENON_ARG_FLOAT ? f->as.f : (double)f->as.i;
        }
    }
    return run(call, how, align >= 0 && tn_arg_bool(node, align), given);
}

tenon_status TN_K(upsample_nearest)(tn_call *call) {
    return upsample(call, NEAREST);
}

tenon_status TN_K(upsample_nearest_exact)(tn_call *call) {
    return upsample(call, NEAREST_EXACT);
}

tenon_status TN_K(upsample_linear)(tn_call *call) {
    return upsample(call, LINEAR);
}

tenon_status TN_K(upsample_cubic)(tn_call *call) {
    return upsample(call, CUBIC);
}

tenon_status TN_K(upsample_linear_aa)(tn_call *call) {
    return upsample(call, LINEAR_AA);
}

tenon_status TN_K(upsample_cubic_aa)(tn_call *call) {
    return upsample(call, CUBIC_AA);
}
