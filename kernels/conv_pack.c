/* Packing of patches and kernels for convolution as a matrix product, without a matrix of patches
 * in memory. */
#include "kernels/conv.h"
#include <string.h>

#define MAX_WIDTH 32 /* columns of a panel */

/* Neighbouring pixels of one row of the output: panel columns at..at + length - 1. */
typedef struct segment {
    int at, length;
    int64_t z, y, x;
} segment;

static int split_rows(const tn_conv *c, int64_t first, int64_t count, segment *out) {
    int n = 0;
    int64_t width = c->axis[2].out, height = c->axis[1].out;
    for (int64_t at = 0; at < count; n++) {
        int64_t p = first + at;
        segment *s = &out[n];
        s->x = p % width;
        s->y = p / width % height;
        s->z = p / width / height;
        s->at = (int)at;
        s->length = (int)(width - s->x < count - at ? width - s->x : count - at);
        at += s->length;
    }
    return n;
}

static inline bool inside(const tn_conv_axis *a, int64_t j, int64_t tap) {
    return j >= a->low[tap] && j < a->high[tap];
}

/* The three taps of a number below c->taps. */
static inline void split_tap(const tn_conv *c, int64_t tap, int64_t *t) {
    t[2] = tap % c->axis[2].taps;
    tap /= c->axis[2].taps;
    t[1] = tap % c->axis[1].taps;
    t[0] = tap / c->axis[1].taps;
}

/* Elements are moved, not computed with, so that only their size matters. */
#define PACK(type, suffix)                                                                         \
    static inline void copy_##suffix(type *to, const type *from, int64_t stride, int64_t n) {      \
        int64_t i = 0;                                                                             \
        if (stride == 1) {                                                                         \
            for (; i + 8 <= n; i += 8)                                                             \
                memcpy(to + i, from + i, 8 * sizeof *to);                                          \
            for (; i < n; i++)                                                                     \
                to[i] = from[i];                                                                   \
            return;                                                                                \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            to[i] = from[i * stride];                                                              \
    }                                                                                              \
                                                                                                   \
    /* One row of a panel: one tap of one channel for all its pixels. */                           \
    static void fill_row_##suffix(const tn_conv *c, const type *channel, const int64_t *t,         \
                                  const segment *segments, int n, type *to) {                      \
        const tn_conv_axis *z = &c->axis[0], *y = &c->axis[1], *x = &c->axis[2];                   \
        int64_t stride = c->in.space[2] * x->step;                                                 \
        int64_t low = x->low[t[2]], high = x->high[t[2]];                                          \
        for (int i = 0; i < n; i++) {                                                              \
            const segment *s = &segments[i];                                                       \
            int64_t end = s->x + s->length, a = end, b = end;                                      \
            if (inside(z, s->z, t[0]) && inside(y, s->y, t[1])) {                                  \
                a = low < s->x ? s->x : low < end ? low : end;                                     \
                b = high < a ? a : high < end ? high : end;                                        \
            }                                                                                      \
            type *p = to + s->at;                                                                  \
            for (int64_t j = s->x; j < a; j++)                                                     \
                *p++ = 0;                                                                          \
            if (a < b) {                                                                           \
                const type *from = channel + (s->z * z->step + z->offset[t[0]]) * c->in.space[0] + \
                                   (s->y * y->step + y->offset[t[1]]) * c->in.space[1] +           \
                                   (a * x->step + x->offset[t[2]]) * c->in.space[2];               \
                copy_##suffix(p, from, stride, b - a);                                             \
                p += b - a;                                                                        \
            }                                                                                      \
            for (int64_t j = b; j < end; j++)                                                      \
                *p++ = 0;                                                                          \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void columns_##suffix(const tn_conv *c, const type *in, type *to, int64_t first,        \
                                 int64_t count, int64_t k, int64_t depth, int width) {             \
        segment segments[MAX_WIDTH];                                                               \
        int n = split_rows(c, first, count, segments);                                             \
        int64_t t[3], channel = k / c->taps, tap = k % c->taps;                                    \
        for (int64_t j = 0; j < depth; j++, to += width) {                                         \
            split_tap(c, tap, t);                                                                  \
            fill_row_##suffix(c, in + channel * c->in.channel, t, segments, n, to);                \
            for (int64_t i = count; i < width; i++)                                                \
                to[i] = 0;                                                                         \
            if (++tap == c->taps) {                                                                \
                tap = 0;                                                                           \
                channel++;                                                                         \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* k counts channels innermost: runs of channels. */                                           \
    static void rows_##suffix(const tn_conv *c, const type *in, type *to, const segment *pixel,    \
                              int64_t k, int64_t depth) {                                          \
        int64_t t[3], tap = k / c->in_channels, channel = k % c->in_channels;                      \
        const tn_conv_axis *z = &c->axis[0], *y = &c->axis[1], *x = &c->axis[2];                   \
        for (int64_t j = 0; j < depth; tap++, channel = 0) {                                       \
            int64_t run =                                                                          \
                c->in_channels - channel < depth - j ? c->in_channels - channel : depth - j;       \
            split_tap(c, tap, t);                                                                  \
            if (inside(z, pixel->z, t[0]) && inside(y, pixel->y, t[1]) &&                          \
                inside(x, pixel->x, t[2])) {                                                       \
                const type *from = in + (pixel->z * z->step + z->offset[t[0]]) * c->in.space[0] +  \
                                   (pixel->y * y->step + y->offset[t[1]]) * c->in.space[1] +       \
                                   (pixel->x * x->step + x->offset[t[2]]) * c->in.space[2] +       \
                                   channel;                                                        \
                copy_##suffix(to + j, from, 1, run);                                               \
            } else {                                                                               \
                memset(to + j, 0, (size_t)run * sizeof *to);                                       \
            }                                                                                      \
            j += run;                                                                              \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* k counts taps innermost. */                                                                 \
    static void scattered_##suffix(const tn_conv *c, const type *in, type *to,                     \
                                   const segment *pixel, int64_t k, int64_t depth) {               \
        int64_t t[3], channel = k / c->taps, tap = k % c->taps;                                    \
        const tn_conv_axis *z = &c->axis[0], *y = &c->axis[1], *x = &c->axis[2];                   \
        split_tap(c, tap, t);                                                                      \
        for (int64_t j = 0; j < depth; j++) {                                                      \
            bool is = inside(z, pixel->z, t[0]) && inside(y, pixel->y, t[1]) &&                    \
                      inside(x, pixel->x, t[2]);                                                   \
            to[j] = is ? in[channel * c->in.channel +                                              \
                            (pixel->z * z->step + z->offset[t[0]]) * c->in.space[0] +              \
                            (pixel->y * y->step + y->offset[t[1]]) * c->in.space[1] +              \
                            (pixel->x * x->step + x->offset[t[2]]) * c->in.space[2]]               \
                       : 0;                                                                        \
            if (++t[2] < x->taps)                                                                  \
                continue;                                                                          \
            t[2] = 0;                                                                              \
            if (++t[1] < y->taps)                                                                  \
                continue;                                                                          \
            t[1] = 0;                                                                              \
            if (++t[0] < z->taps)                                                                  \
                continue;                                                                          \
            t[0] = 0;                                                                              \
            channel++;                                                                             \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void patches_##suffix(const tn_conv *c, const type *in, type *to, int64_t first,        \
                                 int64_t count, int64_t k, int64_t depth, int width) {             \
        if (width) {                                                                               \
            columns_##suffix(c, in, to, first, count, k, depth, width);                            \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                      \
            segment pixel;                                                                         \
            split_rows(c, first + i, 1, &pixel);                                                   \
            type *row = to + i * TN_GEMM_LD(sizeof *to);                                           \
            if (c->channel_inner)                                                                  \
                rows_##suffix(c, in, row, &pixel, k, depth);                                       \
            else                                                                                   \
                scattered_##suffix(c, in, row, &pixel, k, depth);                                  \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void kernel_##suffix(const tn_conv *c, const type *weight, type *to, int64_t count,     \
                                int64_t k, int64_t depth, int width) {                             \
        int64_t inner = c->channel_inner ? c->in_channels : c->taps;                               \
        int64_t outer_step = width ? 1 : TN_GEMM_LD(sizeof *to), inner_step = width ? width : 1;   \
        for (int64_t i = 0; i < count; i++, weight += c->weight.batch) {                           \
            int64_t major = k / inner, minor = k % inner;                                          \
            for (int64_t j = 0; j < depth; j++) {                                                  \
                int64_t channel = c->channel_inner ? minor : major;                                \
                int64_t tap = c->channel_inner ? major : minor;                                    \
                to[i * outer_step + j * inner_step] =                                              \
                    weight[channel * c->weight.channel + c->tap_weight[tap]];                      \
                if (++minor == inner) {                                                            \
                    minor = 0;                                                                     \
                    major++;                                                                       \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (int64_t j = 0; j < depth; j++) {                                                      \
            for (int64_t i = count; i < width; i++)                                                \
                to[j * width + i] = 0;                                                             \
        }                                                                                          \
    }

PACK(uint32_t, 4)
PACK(uint64_t, 8)

void TN_K(pack_patches)(const tn_operand *o, void *to, int64_t batch, int64_t first, int64_t count,
                        int64_t k, int64_t depth, int width) {
    const tn_conv *c = o->user;
    int64_t offset = batch * c->in.batch;
    if (c->class == TN_CLASS_F32)
        patches_4(c, (const uint32_t *)o->data + offset, to, first, count, k, depth, width);
    else
        patches_8(c, (const uint64_t *)o->data + offset, to, first, count, k, depth, width);
}

void TN_K(pack_kernel)(const tn_operand *o, void *to, int64_t batch, int64_t first, int64_t count,
                       int64_t k, int64_t depth, int width) {
    const tn_conv *c = o->user;
    int64_t offset = first * c->weight.batch;
    (void)batch; /* all batches share the kernel */
    if (c->class == TN_CLASS_F32)
        kernel_4(c, (const uint32_t *)o->data + offset, to, count, k, depth, width);
    else
        kernel_8(c, (const uint64_t *)o->data + offset, to, count, k, depth, width);
}
