/* Pooling: maxima and averages over windows of one to three dimensions, fixed or adaptive. */
#include "kernels/pool.h"
#include "core/window.h"
#include "kernels/iterate.h"
#include <math.h>
#include <omp.h>
#include <string.h>

#define T float
#define P(name) name##_f32
#define LOWEST (-INFINITY)
#include "kernels/pool_template.h"
#undef T
#undef P

#define T double
#define P(name) name##_f64
#include "kernels/pool_template.h"
#undef T
#undef P
#undef LOWEST

#define T int64_t
#define P(name) name##_i64
#define LOWEST INT64_MIN
#include "kernels/pool_template.h"
#undef T
#undef P
#undef LOWEST

/* ---- Channels as the innermost dimension, in float ---- */

#define BLOCK 64 /* channels that are computed at a time */

static void block_max(float *restrict best, const float *restrict in, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        best[i] = in[i] > best[i] || in[i] != in[i] ? in[i] : best[i];
}

static void block_max_at(float *restrict best, int32_t *restrict at, const float *restrict in,
                         int32_t place, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        bool wins = (in[i] > best[i]) | (in[i] != in[i]);
        best[i] = wins ? in[i] : best[i];
        at[i] = wins ? place : at[i];
    }
}

static void block_add(float *restrict sum, const float *restrict in, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += in[i];
}

/* One pixel of the output for n channels, with places where `at` is given. */
static void pixel(const tn_pool *p, const float *in, const int64_t *j, int64_t n, float *value,
                  int32_t *at) {
    const tn_pool_axis *az = &p->axis[0], *ay = &p->axis[1], *ax = &p->axis[2];
    for (int64_t i = 0; i < n; i++)
        value[i] = p->max ? -INFINITY : 0;
    for (int64_t i = 0; i < n && at; i++)
        at[i] = (int32_t)((az->start[j[0]] * ay->in + ay->start[j[1]]) * ax->in + ax->start[j[2]]);
    for (int64_t z = az->start[j[0]]; z < az->end[j[0]]; z += az->step) {
        for (int64_t y = ay->start[j[1]]; y < ay->end[j[1]]; y += ay->step) {
            const float *row = in + z * p->in_space[0] + y * p->in_space[1];
            for (int64_t x = ax->start[j[2]]; x < ax->end[j[2]]; x += ax->step) {
                const float *from = row + x * p->in_space[2];
                if (!p->max)
                    block_add(value, from, n);
                else if (!at)
                    block_max(value, from, n);
                else
                    block_max_at(value, at, from, (int32_t)((z * ay->in + y) * ax->in + x), n);
            }
        }
    }
    if (p->max)
        return;
    float divisor = (float)tn_pool_divisor(p, j[0], j[1], j[2]);
    for (int64_t i = 0; i < n; i++)
        value[i] = value[i] != 0 ? value[i] / divisor : 0;
}

static void channels_last(const tn_pool *p, int threads, const float *in, float *out,
                          int64_t *indices) {
    const tn_pool_axis *az = &p->axis[0], *ay = &p->axis[1], *ax = &p->axis[2];
    int64_t blocks = (p->channels + BLOCK - 1) / BLOCK, pixels = az->out * ay->out * ax->out;
    int64_t tasks = p->batch * az->out * ay->out * blocks;
    int64_t work = p->batch * p->channels * az->in * ay->in * ax->in;
#pragma omp parallel for num_threads(threads) if (work > TN_PARALLEL_WORK)
    for (int64_t task = 0; task < tasks; task++) {
        int64_t c = task % blocks * BLOCK, row = task / blocks, batch = row / ay->out / az->out;
        int64_t n = p->channels - c < BLOCK ? p->channels - c : BLOCK;
        int64_t j[3] = {row / ay->out % az->out, row % ay->out, 0};
        float value[BLOCK];
        int32_t at[BLOCK];
        for (; j[2] < ax->out; j[2]++) {
            pixel(p, in + batch * p->in_batch + c, j, n, value, indices ? at : NULL);
            memcpy(out + batch * p->out_batch + c + j[0] * p->out_space[0] +
                       j[1] * p->out_space[1] + j[2] * p->out_space[2],
                   value, (size_t)n * sizeof *value);
            int64_t place = (j[0] * ay->out + j[1]) * ax->out + j[2];
            for (int64_t i = 0; i < n && indices; i++)
                indices[(batch * p->channels + c + i) * pixels + place] = at[i];
        }
    }
}

/* ---- Layouts ---- */

/* A view of rank n + 1 or n + 2 as one of rank 5. */
static tenon_view as_rank_5(const tenon_view *v, int n) {
    tenon_view to = {.data = v->data, .dtype = v->dtype, .rank = 5};
    for (int d = 0; d < 5; d++) {
        to.shape[d] = 1;
        to.strides[d] = 0;
    }
    for (int d = 0; d < v->rank; d++) {
        int from_end = v->rank - 1 - d;
        int at = from_end < n ? 4 - from_end : 1 - (from_end - n);
        to.shape[at] = v->shape[d];
        to.strides[at] = v->strides[d];
    }
    return to;
}

static void set_in(tn_pool *p, const tenon_view *v) {
    p->batch = v->shape[0];
    p->channels = v->shape[1];
    p->in_batch = v->strides[0];
    p->in_channel = v->strides[1];
    for (int d = 0; d < 3; d++)
        p->in_space[d] = v->strides[2 + d];
}

static void set_out(tn_pool *p, const tenon_view *v) {
    p->out_batch = v->strides[0];
    p->out_channel = v->strides[1];
    for (int d = 0; d < 3; d++)
        p->out_space[d] = v->strides[2 + d];
}

static bool inner(const tenon_view *v, int d) {
    return v->strides[d] == 1 || v->shape[d] == 1;
}

/* Computes planes; what has another dtype or another innermost dimension goes through packed
 * copies. */
static tenon_status by_planes(tn_call *call, tn_pool *p, tenon_view in, tenon_view out,
                              int64_t *indices) {
    tn_class class = tn_class_of(in.dtype);
    size_t unit = tn_class_size(class);
    const void *from = in.data;
    void *to = out.data;
    if (!tn_class_is(class, in.dtype) || !inner(&in, 4)) {
        from = TN_K(packed)(call, class, &in);
        if (!from)
            return tn_no_memory();
        tn_contiguous_strides(5, in.shape, in.strides);
    }
    bool staged = !tn_class_is(class, out.dtype) || !inner(&out, 4);
    tenon_view place = out;
    if (staged) {
        to = tn_call_scratch(call, (size_t)tenon_view_numel(&out) * unit);
        if (!to)
            return tn_no_memory();
        tn_contiguous_strides(5, out.shape, place.strides);
    }
    set_in(p, &in);
    set_out(p, &place);
    void *rows = tn_call_scratch(call, (size_t)call->threads * (size_t)in.shape[4] * unit);
    if (!rows)
        return tn_no_memory();
    if (class == TN_CLASS_F32)
        planes_f32(p, call->threads, from, to, indices, rows);
    else if (class == TN_CLASS_F64)
        planes_f64(p, call->threads, from, to, indices, rows);
    else
        planes_i64(p, call->threads, from, to, indices, rows);
    if (staged)
        TN_K(store_view)(class, &out, to, call->threads);
    return TENON_OK;
}

static tenon_status pool(tn_call *call, tn_pool *p, int n) {
    tenon_view in = as_rank_5(&call->in[0], n), out = as_rank_5(&call->out[0], n), places;
    int64_t count = tenon_view_numel(&out), *indices = NULL;
    bool wanted = call->out_count > 1 && call->out[1].dtype != TENON_DTYPE_NONE;
    if (count == 0)
        return TENON_OK;
    if (wanted) {
        places = as_rank_5(&call->out[1], n);
        indices = places.data;
        if (!tenon_view_is_contiguous(&places))
            indices = tn_call_scratch(call, (size_t)count * sizeof *indices);
        if (!indices)
            return tn_no_memory();
    }
    int64_t plane = in.shape[2] * in.shape[3] * in.shape[4];
    if (in.dtype == TENON_FLOAT32 && in.strides[1] == 1 && out.strides[1] == 1 && in.shape[1] > 1 &&
        plane <= INT32_MAX) {
        set_in(p, &in);
        set_out(p, &out);
        channels_last(p, call->threads, in.data, out.data, indices);
    } else {
        TN_TRY(by_planes(call, p, in, out, indices));
    }
    if (wanted && indices != places.data)
        TN_K(store_view)(TN_CLASS_I64, &places, indices, call->threads);
    return TENON_OK;
}

/* ---- Windows ---- */

static tenon_status make_axes(tn_call *call, tn_pool *p, int n) {
    const tenon_view *in = &call->in[0], *out = &call->out[0];
    int64_t total = 0, *at;
    for (int d = 0; d < 3; d++) {
        tn_pool_axis *a = &p->axis[d];
        a->in = d < 3 - n ? 1 : in->shape[in->rank - 3 + d];
        a->out = d < 3 - n ? 1 : out->shape[out->rank - 3 + d];
        a->step = 1;
        total += a->out;
    }
    at = tn_call_scratch(call, sizeof *at * (size_t)(3 * total + 1));
    if (!at)
        return tn_no_memory();
    for (int d = 0; d < 3; d++) {
        tn_pool_axis *a = &p->axis[d];
        a->start = at;
        a->end = at + a->out;
        a->extent = at + 2 * a->out;
        at += 3 * a->out;
        for (int64_t j = 0; j < a->out && d < 3 - n; j++) {
            a->start[j] = 0;
            a->end[j] = a->extent[j] = 1;
        }
    }
    return TENON_OK;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void set_windows(tn_pool *p, const tn_pool_window *w, bool count_padding) {
    for (int i = 0; i < w->n; i++) {
        tn_pool_axis *a = &p->axis[3 - w->n + i];
        a->step = w->dilation[i];
        a->taps = w->kernel[i];
        a->stride = w->stride[i];
        a->first = -w->padding[i];
        for (int64_t j = 0; j < a->out; j++) {
            int64_t start = j * w->stride[i] - w->padding[i];
            int64_t end = start + w->dilation[i] * (w->kernel[i] - 1) + 1;
            a->extent[j] = least(end, a->in + w->padding[i]) - start;
            if (start < 0)
                start += (-start + a->step - 1) / a->step * a->step;
            a->start[j] = start;
            a->end[j] = least(end, a->in);
            if (!count_padding)
                a->extent[j] = a->end[j] - start;
        }
    }
}

/* A call whose values have a place, also when nothing reads but the indices. `out` holds 2 views.
 */
static tenon_status with_values(const tn_call *call, tn_call *own, tenon_view *out) {
    const tenon_value *value = call->node->outputs[0];
    *own = *call;
    if (call->out[0].dtype != TENON_DTYPE_NONE)
        return TENON_OK;
    void *data =
        tn_call_scratch(own, (size_t)tn_value_numel(value) * tenon_dtype_size(value->dtype));
    if (!data)
        return tn_no_memory();
    out[0] = tn_view_make(data, value->dtype, value->rank, value->shape);
    out[1] = call->out[1];
    own->out = out;
    return TENON_OK;
}

tenon_status TN_K(max_pool)(tn_call *given) {
    tn_pool p = {.max = true};
    tn_pool_window w;
    tenon_view out[2];
    tn_call own, *call = &own;
    TN_TRY(with_values(given, call, out));
    tn_pool_window_read(call->node, true, &w);
    TN_TRY(make_axes(call, &p, w.n));
    set_windows(&p, &w, false);
    return pool(call, &p, w.n);
}

tenon_status TN_K(avg_pool)(tn_call *call) {
    tn_pool p = {0};
    tn_pool_window w;
    tn_pool_window_read(call->node, false, &w);
    TN_TRY(make_axes(call, &p, w.n));
    set_windows(&p, &w, tn_arg_bool(call->node, 5));
    if (call->node->op->param_count > 6)
        p.divisor = tn_arg_float(call->node, 6, 0);
    return pool(call, &p, w.n);
}

static tenon_status adaptive(tn_call *call, bool max) {
    tn_pool p = {.max = max};
    int n = call->node->op->params[1].fixed;
    TN_TRY(make_axes(call, &p, n));
    for (int d = 3 - n; d < 3; d++) {
        tn_pool_axis *a = &p.axis[d];
        for (int64_t j = 0; j < a->out;
             j++) { /* floor of j * in / out, ceiling of (j + 1) * in / out */
            a->start[j] = j * a->in / a->out;
            a->end[j] = 1 + ((j + 1) * a->in - 1) / a->out;
            a->extent[j] = a->end[j] - a->start[j];
        }
    }
    return pool(call, &p, n);
}

tenon_status TN_K(adaptive_avg_pool)(tn_call *call) {
    return adaptive(call, false);
}

tenon_status TN_K(adaptive_max_pool)(tn_call *call) {
    tenon_view out[2];
    tn_call own;
    TN_TRY(with_values(call, &own, out));
    return adaptive(&own, true);
}
