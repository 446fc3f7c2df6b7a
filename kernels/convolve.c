/* Convolution of images with a packed weight (core/packed.h):
 *
 *     out = activation(patches(input * scale) weight + bias + residual)
 *
 * The patches of a block of output pixels are gathered once, a row each, counting taps and then
 * channels, and stay in the second-level cache while all panels of the weight are multiplied with
 * them; a large weight comes from memory once for each block, in the order in which it lies. */
#include "kernels/activation.h"
#include "kernels/copy.h"
#include "kernels/iterate.h"
#include "kernels/panel.h"
#include "kernels/pixels.h"
#include <omp.h>
#include <string.h>

enum {
    BLOCK_BYTES = 512 << 10, /* of patches at a time */
    NEAR_BYTES = 24 << 10,   /* the same, where all of the weight stays in the second-level cache */
    NEAR_WEIGHT = 384 << 10,
    DEPTH = 256,   /* of a product at a time: a tile's rows stay in the nearest cache */
    MIN_SHARE = 48 /* rows of a thread for which it reads all of a weight */
};

typedef struct convolve {
    tn_pixels in, out, residual;        /* residual.data NULL: none */
    const float *scale, *weight, *bias; /* scale [batch, in_channels]; NULL: none */
    int64_t height, width, in_channels; /* of the input */
    int64_t out_height, out_width, channels;
    int64_t kernel[2], stride[2], padding[2]; /* padding: top, left */
    int64_t rows, depth, row;                 /* output pixels of all images; elements of a patch,
                                                 and from one patch to the next */
    int64_t panels, block;                    /* rows of a block, at most */
    bool direct;                              /* pixels are patches */
    tn_activation activation;
    float low, high;
    bool bounded; /* the activation is a clamp to [low, high] */
} convolve;

/* ---- Patches ---- */

/* `count` floats by pieces of a power of two, the last of which may overlap the one before. */
static inline void copy_floats(const float *from, int64_t count, float *to) {
    int64_t i = 0;
#define BY(n)                                                           \
    if (count >= (n)) {                                                 \
        for (; i + (n) < count; i += (n))                               \
            memcpy(to + i, from + i, (n) * sizeof *to);                 \
        memcpy(to + count - (n), from + count - (n), (n) * sizeof *to); \
        return;                                                         \
    }
    BY(16)
    BY(8)
    BY(4)
#undef BY
    for (; i < count; i++)
        to[i] = from[i];
}

static inline float *copy_pixels(const convolve *c, const float *from, const float *scale,
                                 int64_t count, float *to) {
    int64_t n = c->in_channels;
    if (!scale && c->in.pixel == n) {
        copy_floats(from, count * n, to);
        return to + count * n;
    }
    for (int64_t i = 0; i < count; i++, from += c->in.pixel, to += n) {
        if (!scale) {
            copy_floats(from, n, to);
            continue;
        }
#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            to[k] = from[k] * scale[k];
    }
    return to;
}

static inline float *zero_pixels(const convolve *c, int64_t count, float *to) {
    if (count > 0)
        memset(to, 0, (size_t)(count * c->in_channels) * sizeof *to);
    return to + count * c->in_channels;
}

static inline int64_t clamp_to(int64_t i, int64_t end) {
    return i < 0 ? 0 : i > end ? end : i;
}

/* The patch of one output pixel. */
static void gather_patch(const convolve *c, int64_t batch, int64_t y, int64_t x, float *to) {
    const float *scale = c->scale ? c->scale + batch * c->in_channels : NULL;
    int64_t top = y * c->stride[0] - c->padding[0], left = x * c->stride[1] - c->padding[1];
    int64_t begin = clamp_to(left, c->width), end = clamp_to(left + c->kernel[1], c->width);
    for (int64_t i = top; i < top + c->kernel[0]; i++) {
        if (i < 0 || i >= c->height || begin >= end) {
            to = zero_pixels(c, c->kernel[1], to);
            continue;
        }
        to = zero_pixels(c, begin - left, to);
        to = copy_pixels(c, tn_pixel(&c->in, batch, i, begin), scale, end - begin, to);
        to = zero_pixels(c, left + c->kernel[1] - end, to);
    }
}

static void gather(const convolve *c, int64_t first, int64_t count, float *to) {
    int64_t x = first % c->out_width, y = first / c->out_width % c->out_height;
    int64_t batch = first / c->out_width / c->out_height;
    for (int64_t i = 0; i < count; i++, to += c->row) {
        gather_patch(c, batch, y, x, to);
        if (++x < c->out_width)
            continue;
        x = 0;
        if (++y < c->out_height)
            continue;
        y = 0;
        batch++;
    }
}

/* ---- Products ---- */

/* One panel for all rows of a block. */
static void multiply(const convolve *c, int64_t first, int64_t count, int64_t panel,
                     const float *patches) {
    int64_t channel = panel * TN_PANEL;
    int64_t columns = c->channels - channel < TN_PANEL ? c->channels - channel : TN_PANEL;
    float bias[TN_PANEL] = {0};
    if (c->bias)
        memcpy(bias, c->bias + channel, (size_t)columns * sizeof *bias);
    tn_panel_product p = {.a_row = c->row,
                          .bias = bias,
                          .out = c->out.data + first * c->out.pixel + channel,
                          .out_row = c->out.pixel,
                          .residual_row = c->residual.pixel,
                          .columns = columns,
                          .low = -INFINITY,
                          .high = INFINITY};
    for (int64_t k = 0; k < c->depth; k += DEPTH) {
        p.a = patches + k;
        p.b = c->weight + (panel * c->depth + k) * TN_PANEL;
        p.more = k > 0;
        p.depth = c->depth - k;
        if (p.depth > DEPTH) {
            p.depth = DEPTH;
        } else {
            if (c->residual.data)
                p.residual = c->residual.data + first * c->residual.pixel + channel;
            p.low = c->bounded ? c->low : p.low;
            p.high = c->bounded ? c->high : p.high;
        }
        tn_panel_run(&p, count);
    }
    for (int64_t i = 0; i < count && !c->bounded; i++)
        tn_activate(&c->activation, p.out + i * p.out_row, columns);
}

/* Rows [begin, end), panels [from, to). */
static void run_part(const convolve *c, int64_t begin, int64_t end, int64_t from, int64_t to,
                     float *scratch) {
    int64_t blocks = (end - begin + c->block - 1) / c->block;
    for (int64_t i = 0; i < blocks; i++) {
        int64_t first = begin + (end - begin) * i / blocks;
        int64_t count = begin + (end - begin) * (i + 1) / blocks - first;
        const float *patches = c->direct ? c->in.data + first * c->row : scratch;
        if (!c->direct)
            gather(c, first, count, scratch);
        for (int64_t p = from; p < to; p++)
            multiply(c, first, count, p, patches);
    }
}

/* Threads share the rows, as long as each gets enough of them to make good use of what it reads of
 * the weight; otherwise the panels. */
static tenon_status run(tn_call *call, convolve *c) {
    double work = (double)c->rows * (double)(c->depth * c->channels);
    int64_t threads = work < TN_PARALLEL_WORK ? 1 : call->threads;
    int64_t bytes = c->depth * c->panels * TN_PANEL * 4 <= NEAR_WEIGHT ? NEAR_BYTES : BLOCK_BYTES;
    c->block = bytes / (c->row * (int64_t)sizeof(float)) / TN_TILE_ROWS * TN_TILE_ROWS;
    c->block = c->block < 2 * TN_TILE_ROWS ? 2 * TN_TILE_ROWS : c->block;
    int64_t down = c->rows / threads >= MIN_SHARE || c->panels < threads ? threads : 1;
    int64_t across = threads / down;
    down = (c->rows + c->block - 1) / c->block / down * down;
    down = down < 1 ? threads / across : down;
    down = down < c->rows ? down : c->rows;
    size_t size = (size_t)(c->block * c->row);
    float *scratch = tn_call_scratch(call, size * (size_t)threads * sizeof *scratch);
    if (!scratch)
        return tn_no_memory();
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(dynamic)
    for (int64_t i = 0; i < down * across; i++) {
        int64_t part = i / across, share = i % across;
        run_part(c, c->rows * part / down, c->rows * (part + 1) / down, c->panels * share / across,
                 c->panels * (share + 1) / across, scratch + size * (size_t)omp_get_thread_num());
    }
    return TENON_OK;
}

/* ---- The op ---- */

/* Whether each pixel is a patch as it lies, and neighbours do not share a few sets of the cache. */
static bool is_direct(const convolve *c, const tenon_view *in, int64_t *row) {
    int64_t distance;
    if (c->scale || c->depth != c->in_channels || c->out_height != c->height ||
        c->out_width != c->width || c->stride[0] != 1 || c->stride[1] != 1 || c->padding[0] != 0 ||
        c->padding[1] != 0 || !tn_view_by_pixels(in, true, &distance) || distance % 512 == 0)
        return false;
    *row = distance;
    return true;
}

/* input [b, k, h, w], scale [b, k, 1, 1] or none, weight [panels, taps * k, TN_PANEL], bias and
 * residual or none */
tenon_status TN_K(packed_convolution)(tn_call *call) {
    const tenon_node *node = call->node;
    const tenon_view *in = &call->in[0], *residual = tn_call_in(call, 4);
    tenon_view *out = &call->out[0], target;
    int64_t padding[4];
    convolve c = {.in_channels = in->shape[1],
                  .height = in->shape[2],
                  .width = in->shape[3],
                  .channels = out->shape[1],
                  .out_height = out->shape[2],
                  .out_width = out->shape[3],
                  .rows = out->shape[0] * out->shape[2] * out->shape[3]};
    if (tenon_view_numel(out) == 0)
        return TENON_OK;
    tn_arg_ints_of(node, 6, c.kernel, 2);
    tn_arg_ints_of(node, 7, c.stride, 2);
    tn_arg_ints_of(node, 8, padding, 4);
    memcpy(c.padding, padding, sizeof c.padding);
    c.depth = c.kernel[0] * c.kernel[1] * c.in_channels;
    c.row = ((c.depth + 15) / 16 | 1) * 16; /* an odd number of cache lines, so all their sets */
    c.panels = (c.channels + TN_PANEL - 1) / TN_PANEL;
    tn_activation_read(node, 9, &c.activation);
    c.bounded = tn_activation_bounds(&c.activation, &c.low, &c.high);
    target = tn_pixels_target(call, out);
    if (!target.data || !tn_dense_in(call, 1, &c.scale) || !tn_dense_in(call, 2, &c.weight) ||
        !tn_dense_in(call, 3, &c.bias) || !tn_pixels_read(call, in, false, &c.in) ||
        !tn_pixels_read(call, &target, true, &c.out) ||
        (residual && !tn_pixels_read(call, residual, true, &c.residual)))
        return tn_no_memory();
    c.direct = is_direct(&c, in, &c.row);
    TN_TRY(run(call, &c));
    if (target.data != out->data)
        TN_K(copy_view)(call->threads, out, &target);
    return TENON_OK;
}
