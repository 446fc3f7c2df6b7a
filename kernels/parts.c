/* Images whose channels are neighbours in memory, put together from parts or taken apart into
 * groups that belong together:
 *
 *     interleave      y[i * n + k] = x_k[i]
 *     scaled_cat      y = activation(cat(x_0, x_1, ...) * scale + shift)
 *     split_mean      y[c] = sum over r of the mean of x[r * C + c] over the image
 *     split_sum       y[c] = sum over r of x[r * C + c] * s[r * C + c]
 *
 * The last two are what split attention is made of (Zhang et al. 2020, "ResNeSt"). Each reads its
 * images once and writes the result once. */
#include "kernels/activation.h"
#include "kernels/iterate.h"
#include "kernels/pixels.h"
#include "kernels/vector.h"
#include <string.h>

enum {
    RUN = 128, /* pixels that are summed up in one float */
    GROUP = 16 /* pixels at a time */
};

/* Pixels of all images, at one distance. */
typedef struct pixels {
    tn_pixels p;
    int64_t count; /* of one image */
} pixels;

static inline float *pixel_at(const pixels *p, int64_t i) {
    return p->p.data + i * p->p.pixel;
}

/* Pixels from `i` on, at most `most`, that lie in one image. */
static inline int64_t pixels_from(const pixels *p, int64_t i, int64_t most) {
    int64_t left = p->count - i % p->count;
    return left < most ? left : most;
}

static bool read_pixels(tn_call *call, const tenon_view *view, pixels *out) {
    out->count = view->shape[2] * view->shape[3];
    return tn_pixels_read(call, view, true, &out->p);
}

static int threads_for(const tn_call *call, const tenon_view *view) {
    return tn_threads_for(call->threads, tenon_view_numel(view));
}

/* ---- Parts to one ---- */

#if TN_LANES == 16
#define LOW \
    { 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23 }
#define HIGH \
    { 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31 }
#elif TN_LANES == 8
#define LOW \
    { 0, 8, 1, 9, 2, 10, 3, 11 }
#define HIGH \
    { 4, 12, 5, 13, 6, 14, 7, 15 }
#else
#define LOW \
    { 0, 4, 1, 5 }
#define HIGH \
    { 2, 6, 3, 7 }
#endif

static inline void interleave_vectors(const float *a, const float *b, float *to) {
    const tn_vec_int low = LOW, high = HIGH;
    tn_vec x = *(const tn_vec *)a, y = *(const tn_vec *)b;
    *(tn_vec *)to = __builtin_shuffle(x, y, low);
    *(tn_vec *)(to + TN_LANES) = __builtin_shuffle(x, y, high);
}

static void interleave_two(const float *a, const float *b, int64_t n, float *to) {
    int64_t i = 0;
    for (; i + TN_LANES <= n; i += TN_LANES)
        interleave_vectors(a + i, b + i, to + 2 * i);
    if (i < n && n >= TN_LANES) { /* the last ones, some of them again */
        interleave_vectors(a + n - TN_LANES, b + n - TN_LANES, to + 2 * (n - TN_LANES));
        return;
    }
    for (; i < n; i++) {
        to[2 * i] = a[i];
        to[2 * i + 1] = b[i];
    }
}

typedef struct parts {
    const pixels *in;
    const int64_t *channels;
    int count;
    pixels out;
    const float *scale, *shift;
    tn_activation activation;
    float low, high;
    bool bounded;
} parts;

static void interleave_pixel(const parts *j, int64_t i) {
    float *to = pixel_at(&j->out, i);
    int64_t each = j->channels[0];
    if (j->count == 2) {
        interleave_two(pixel_at(&j->in[0], i), pixel_at(&j->in[1], i), each, to);
        return;
    }
    for (int k = 0; k < j->count; k++) {
        const float *from = pixel_at(&j->in[k], i);
        for (int64_t c = 0; c < each; c++)
            to[c * j->count + k] = from[c];
    }
}

/* Some neighbouring channels of `n` pixels of one image. */
static void scale_part(const parts *j, const float *from, int64_t from_pixel, int64_t first,
                       int64_t channels, float *to, int64_t n) {
    const float *scale = j->scale + first, *shift = j->shift + first;
    int64_t c = 0, to_pixel = j->out.p.pixel;
    to += first;
    for (; c + TN_LANES <= channels; c += TN_LANES) {
        tn_vec a = *(const tn_vec *)(scale + c), b = *(const tn_vec *)(shift + c);
        tn_vec low = tn_vec_of(j->low), high = tn_vec_of(j->high);
        for (int64_t i = 0; i < n; i++) {
            tn_vec x = *(const tn_vec *)(from + i * from_pixel + c) * a + b;
            *(tn_vec *)(to + i * to_pixel + c) = tn_vec_clamp(x, low, high);
        }
    }
    for (; c < channels; c++) {
        for (int64_t i = 0; i < n; i++) {
            float x = from[i * from_pixel + c] * scale[c] + shift[c];
            to[i * to_pixel + c] = x < j->low ? j->low : x > j->high ? j->high : x;
        }
    }
}

static void scale_pixels(const parts *j, int64_t i, int64_t n) {
    float *to = pixel_at(&j->out, i);
    int64_t first = 0;
    for (int k = 0; k < j->count; k++) {
        scale_part(j, pixel_at(&j->in[k], i), j->in[k].p.pixel, first, j->channels[k], to, n);
        first += j->channels[k];
    }
    for (int64_t p = 0; p < n && !j->bounded; p++)
        tn_activate(&j->activation, to + p * j->out.p.pixel, first);
}

/* Reads the first `count` operands, which are images, and finds room for the result; data NULL:
 * memory is out. */
static tenon_view begin_parts(tn_call *call, int count, parts *j) {
    tenon_view target = tn_pixels_target(call, &call->out[0]);
    j->count = count;
    pixels *in = tn_call_scratch(call, (size_t)j->count * sizeof *in);
    int64_t *channels = tn_call_scratch(call, (size_t)j->count * sizeof *channels);
    bool missing = !target.data || !in || !channels || !read_pixels(call, &target, &j->out);
    for (int k = 0; k < j->count && !missing; k++) {
        channels[k] = call->in[k].shape[1];
        missing = !read_pixels(call, &call->in[k], &in[k]);
    }
    j->in = in;
    j->channels = channels;
    if (missing)
        target.data = NULL;
    return target;
}

/* images [b, c, h, w], all alike; gives [b, n c, h, w] */
tenon_status TN_K(interleave)(tn_call *call) {
    tenon_view *out = &call->out[0];
    parts j = {0};
    if (tenon_view_numel(out) == 0)
        return TENON_OK;
    tenon_view target = begin_parts(call, call->in_count, &j);
    if (!target.data)
        return tn_no_memory();
    int threads = threads_for(call, out);
    int64_t all = out->shape[0] * j.out.count;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < all; i++)
        interleave_pixel(&j, i);
    if (target.data != out->data)
        TN_K(copy_view)(call->threads, out, &target);
    return TENON_OK;
}

/* images [b, c_k, h, w], scale and shift [c]; gives [b, c, h, w], where c is the sum of all c_k */
tenon_status TN_K(scaled_cat)(tn_call *call) {
    tenon_view *out = &call->out[0];
    parts j = {0};
    if (tenon_view_numel(out) == 0)
        return TENON_OK;
    tenon_view target = begin_parts(call, call->in_count - 2, &j);
    if (!target.data || !tn_dense_in(call, 1, &j.scale) || !tn_dense_in(call, 2, &j.shift))
        return tn_no_memory();
    tn_activation_read(call->node, 3, &j.activation);
    j.bounded = tn_activation_bounds(&j.activation, &j.low, &j.high);
    if (!j.bounded) {
        j.low = -INFINITY;
        j.high = INFINITY;
    }
    int threads = threads_for(call, out);
    int64_t groups = (j.out.count + GROUP - 1) / GROUP, all = out->shape[0] * groups;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < all; i++) {
        int64_t first = i / groups * j.out.count + i % groups * GROUP;
        scale_pixels(&j, first, pixels_from(&j.out, first, GROUP));
    }
    if (target.data != out->data)
        TN_K(copy_view)(call->threads, out, &target);
    return TENON_OK;
}

/* ---- One to groups that are joined ---- */

/* sum[c] += the sum of x[c] over `n` pixels */
static void add_run(const float *x, int64_t pixel, int64_t channels, int64_t n, float *sum) {
    int64_t c = 0;
    for (; c + 2 * TN_LANES <= channels; c += 2 * TN_LANES) {
        tn_vec a = *(const tn_vec *)(sum + c), b = *(const tn_vec *)(sum + c + TN_LANES);
        for (int64_t i = 0; i < n; i++) {
            a += *(const tn_vec *)(x + i * pixel + c);
            b += *(const tn_vec *)(x + i * pixel + c + TN_LANES);
        }
        *(tn_vec *)(sum + c) = a;
        *(tn_vec *)(sum + c + TN_LANES) = b;
    }
    for (; c < channels; c++)
        for (int64_t i = 0; i < n; i++)
            sum[c] += x[i * pixel + c];
}

/* The sums of runs of pixels, one run in `sums` after another; and then their means. */
static void means(const pixels *in, int64_t batch, int64_t channels, int64_t groups, int threads,
                  float *sums, float *mean) {
    int64_t runs = (in->count + RUN - 1) / RUN, each = channels / groups;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < batch * runs; i++) {
        int64_t first = i / runs * in->count + i % runs * RUN;
        memset(sums + i * channels, 0, (size_t)channels * sizeof *sums);
        add_run(pixel_at(in, first), in->p.pixel, channels, pixels_from(in, first, RUN),
                sums + i * channels);
    }
    for (int64_t i = 0; i < batch * each; i++) {
        const float *from = sums + i / each * runs * channels + i % each;
        double sum = 0;
        for (int64_t run = 0; run < runs; run++)
            for (int64_t r = 0; r < groups; r++)
                sum += from[run * channels + r * each];
        mean[i] = (float)(sum / (double)in->count);
    }
}

/* image [b, groups c, h, w]; gives [b, c, 1, 1] */
tenon_status TN_K(split_mean)(tn_call *call) {
    const tenon_view *in = &call->in[0], *out = &call->out[0];
    int64_t channels = in->shape[1], groups = tn_arg_int(call->node, 1, 1);
    pixels from;
    if (tenon_view_numel(in) == 0)
        return TENON_OK;
    tenon_view mean = tn_view_make(NULL, TENON_FLOAT32, 4, out->shape);
    int64_t runs = (in->shape[2] * in->shape[3] + RUN - 1) / RUN * in->shape[0];
    float *sums = tn_call_scratch(call, (size_t)(runs * channels) * sizeof *sums);
    mean.data = tn_call_scratch(call, (size_t)tenon_view_numel(out) * sizeof *sums);
    if (!sums || !mean.data || !read_pixels(call, in, &from))
        return tn_no_memory();
    means(&from, in->shape[0], channels, groups, threads_for(call, in), sums, mean.data);
    TN_K(copy_view)(1, out, &mean);
    return TENON_OK;
}

static void join_groups(const float *x, const float *scale, int64_t groups, int64_t each,
                        float *to) {
    int64_t c = 0;
    for (; c + TN_LANES <= each; c += TN_LANES) {
        tn_vec y = {0};
        for (int64_t r = c; r < groups * each; r += each)
            y += *(const tn_vec *)(x + r) * *(const tn_vec *)(scale + r);
        *(tn_vec *)(to + c) = y;
    }
    for (; c < each; c++) {
        to[c] = 0;
        for (int64_t r = c; r < groups * each; r += each)
            to[c] += x[r] * scale[r];
    }
}

/* image [b, groups c, h, w], scale [b, groups, c, 1, 1]; gives [b, c, h, w] */
tenon_status TN_K(split_sum)(tn_call *call) {
    const tenon_view *in = &call->in[0];
    tenon_view *out = &call->out[0], target = tn_pixels_target(call, out);
    tenon_view scale = tn_dense(call, &call->in[1]);
    int64_t channels = in->shape[1], groups = tn_arg_int(call->node, 2, 1);
    pixels from, to;
    if (tenon_view_numel(out) == 0)
        return TENON_OK;
    if (!target.data || !scale.data || !read_pixels(call, in, &from) ||
        !read_pixels(call, &target, &to))
        return tn_no_memory();
    int threads = threads_for(call, in);
    int64_t all = in->shape[0] * from.count;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < all; i++)
        join_groups(pixel_at(&from, i), (const float *)scale.data + i / from.count * channels,
                    groups, channels / groups, pixel_at(&to, i));
    if (target.data != out->data)
        TN_K(copy_view)(call->threads, out, &target);
    return TENON_OK;
}
