/* Convolutions with one input channel a group: memory-bound, so computed directly. */
#include "kernels/conv.h"
#include "kernels/iterate.h"
#include <string.h>

/* ---- x as the innermost dimension: every row of the output is a sum of shifted rows ---- */

static void add_row(float *restrict out, const float *restrict in, float w, int64_t step,
                    int64_t n) {
    if (step == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] += w * in[i];
    } else if (step == 2) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] += w * in[2 * i];
    } else {
        for (int64_t i = 0; i < n; i++)
            out[i] += w * in[i * step];
    }
}

static void plane_row(const tn_conv *c, const float *in, const float *weight, float bias, int64_t z,
                      int64_t y, float *out) {
    const tn_conv_axis *az = &c->axis[0], *ay = &c->axis[1], *ax = &c->axis[2];
    int64_t tap = 0;
    for (int64_t i = 0; i < ax->out; i++)
        out[i] = bias;
    for (int64_t tz = 0; tz < az->taps; tz++) {
        for (int64_t ty = 0; ty < ay->taps; ty++) {
            if (z < az->low[tz] || z >= az->high[tz] || y < ay->low[ty] || y >= ay->high[ty]) {
                tap += ax->taps;
                continue;
            }
            const float *row = in + (z * az->step + az->offset[tz]) * c->in.space[0] +
                               (y * ay->step + ay->offset[ty]) * c->in.space[1];
            for (int64_t tx = 0; tx < ax->taps; tx++, tap++) {
                int64_t low = ax->low[tx], high = ax->high[tx];
                if (low < high)
                    add_row(out + low, row + low * ax->step + ax->offset[tx],
                            weight[c->tap_weight[tap]], ax->step, high - low);
            }
        }
    }
}

static void planes(tn_call *call, const tn_conv *c) {
    int64_t channels = c->groups * c->out_channels, height = c->axis[1].out;
    int64_t rows = c->axis[0].out * height, work = c->batch * channels * c->pixels * c->taps;
#pragma omp parallel for num_threads(call->threads) if (work > TN_PARALLEL_WORK)
    for (int64_t i = 0; i < c->batch * channels; i++) {
        int64_t batch = i / channels, channel = i % channels, group = channel / c->out_channels;
        const float *in = (const float *)c->in.data + batch * c->in.batch + group * c->in.channel;
        const float *weight = (const float *)c->weight.data + channel * c->weight.batch;
        float *out = (float *)c->out.data + batch * c->out.batch + channel * c->out.channel;
        float bias = c->bias ? ((const float *)c->bias)[channel] : 0;
        for (int64_t r = 0; r < rows; r++) {
            int64_t z = r / height, y = r % height;
            plane_row(c, in, weight, bias, z, y, out + z * c->out.space[0] + y * c->out.space[1]);
        }
    }
}

/* ---- Channels as the innermost dimension ---- */

#define BLOCK 64 /* channels that are summed at a time */

static void pixel_block(const tn_conv *c, const float *in, const float *weights, const float *bias,
                        int64_t channels, const int64_t *j, int64_t n, float *out) {
    const tn_conv_axis *az = &c->axis[0], *ay = &c->axis[1], *ax = &c->axis[2];
    float sum[BLOCK] = {0};
    if (bias)
        memcpy(sum, bias, (size_t)n * sizeof *sum);
    for (int64_t tz = 0; tz < az->taps; tz++) {
        if (j[0] < az->low[tz] || j[0] >= az->high[tz])
            continue;
        for (int64_t ty = 0; ty < ay->taps; ty++) {
            if (j[1] < ay->low[ty] || j[1] >= ay->high[ty])
                continue;
            const float *row = in + (j[0] * az->step + az->offset[tz]) * c->in.space[0] +
                               (j[1] * ay->step + ay->offset[ty]) * c->in.space[1];
            for (int64_t tx = 0; tx < ax->taps; tx++) {
                if (j[2] < ax->low[tx] || j[2] >= ax->high[tx])
                    continue;
                const float *x = row + (j[2] * ax->step + ax->offset[tx]) * c->in.space[2];
                const float *w = weights + ((tz * ay->taps + ty) * ax->taps + tx) * channels;
                if (n == BLOCK) {
#pragma omp simd
                    for (int64_t i = 0; i < BLOCK; i++)
                        sum[i] += w[i] * x[i];
                } else {
#pragma omp simd
                    for (int64_t i = 0; i < n; i++)
                        sum[i] += w[i] * x[i];
                }
            }
        }
    }
    memcpy(out, sum, (size_t)n * sizeof *sum);
}

static tenon_status pixels(tn_call *call, const tn_conv *c) {
    int64_t channels = c->groups, height = c->axis[1].out, width = c->axis[2].out;
    int64_t rows = c->batch * c->axis[0].out * height,
            work = c->batch * channels * c->pixels * c->taps;
    float *weights = tn_call_scratch(call, sizeof *weights * (size_t)(c->taps * channels));
    if (!weights)
        return tn_no_memory();
    for (int64_t t = 0; t < c->taps; t++) {
        for (int64_t i = 0; i < channels; i++)
            weights[t * channels + i] =
                ((const float *)c->weight.data)[i * c->weight.batch + c->tap_weight[t]];
    }
#pragma omp parallel for num_threads(call->threads) if (work > TN_PARALLEL_WORK)
    for (int64_t r = 0; r < rows; r++) {
        int64_t batch = r / height / c->axis[0].out;
        int64_t j[3] = {r / height % c->axis[0].out, r % height, 0};
        const float *in = (const float *)c->in.data + batch * c->in.batch;
        float *out = (float *)c->out.data + batch * c->out.batch + j[0] * c->out.space[0] +
                     j[1] * c->out.space[1];
        for (; j[2] < width; j[2]++) {
            for (int64_t i = 0; i < channels; i += BLOCK)
                pixel_block(c, in + i, weights + i, c->bias ? (const float *)c->bias + i : NULL,
                            channels, j, channels - i < BLOCK ? channels - i : BLOCK,
                            out + j[2] * c->out.space[2] + i);
        }
    }
    return TENON_OK;
}

bool TN_K(depthwise)(tn_call *call, const tn_conv *c, tenon_status *status) {
    bool in_x = c->in.space[2] == 1 || c->in_size[2] == 1;
    bool out_x = c->out.space[2] == 1 || c->out_size[2] == 1;
    *status = TENON_OK;
    if (c->out.dtype != TENON_FLOAT32)
        return false;
    if (c->groups > 1 && c->out_channels == 1 && c->in.channel == 1 && c->out.channel == 1) {
        *status = pixels(call, c);
        return true;
    }
    if (in_x && out_x && c->groups > 1) {
        planes(call, c);
        return true;
    }
    return false;
}
