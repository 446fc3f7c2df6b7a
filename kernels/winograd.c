/* Convolution of 3x3 with stride 1 by Winograd's method: F(4x4, 3x3) and F(2x2, 3x3) of Lavin and
 * Gray, "Fast Algorithms for Convolutional Neural Networks" (2015).
 *
 * The output is cut into tiles of m x m pixels, each of which needs (m + 2) x (m + 2) of the input:
 *
 *     V[p] = transformed input      p: one of the (m + 2)^2 places; tiles x channels
 *     M[p] = V[p] U[p]              U: the transformed weight
 *     out  = transformed M + bias + residual, activated
 *
 * so that m * m outputs take (m + 2)^2 multiplications a pair of channels instead of 9 * m * m.
 * Images are channels-last, of float32 or bfloat16; all sums are float32. A block of tiles goes
 * through all three steps while it is in cache. U is made by the pass "winograd", or, for few
 * tiles, each time by the kernel, a panel and some input channels after another: U is up to four
 * times as large as the weight, and then reading it from memory takes longer than making it. */
#include "core/winograd.h"
#include "kernels/activation.h"
#include "kernels/copy.h"
#include "kernels/product.h"
#include "kernels/vector.h"
#include <omp.h>
#include <string.h>

#if defined(__AVX512F__)
#define ROWS 12
#elif defined(__AVX2__)
#define ROWS 6
#else
#define ROWS 4
#endif
#define LANES TN_LANES

typedef tn_vec vec;

enum {
    PANEL = TN_WINOGRAD_PANEL,
    MAX_PLACES = 36,
    SLICE = 2 * LANES,
    DEPTH = 64,                   /* input channels of U at a time, where the kernel makes it */
    U_PLACE = DEPTH * PANEL + 16, /* off the powers of two */
};

/* An image: strides in bytes; channels are neighbours. */
typedef struct image {
    char *data;
    int64_t batch, y, x;
} image;

typedef struct winograd {
    int tile, places; /* m, (m + 2)^2 */
    bool narrow;      /* images are bfloat16 */
    int64_t batch, groups, height, width, out_height, out_width;
    int64_t in_channels, out_channels; /* of a group */
    int64_t padding[2];
    int64_t tiles_y, tiles_x, tiles; /* tiles of all images */
    image in, out, residual;         /* residual.data NULL: none */
    const float *weight, *bias;
    bool plain;  /* the weight is not transformed */
    char *zeros; /* a pixel */
    int64_t panels;
    tn_activation activation;
    float low, high;
    bool bounded; /* the activation is a clamp to [low, high] */
    /* Of V and M: tiles of a block, distances between tiles and between places. */
    int64_t block, blocks, v_tile, m_tile, v_place, m_place;
} winograd;

/* ---- Elements ---- */

__attribute__((always_inline)) static inline vec load(const char *from, const bool narrow) {
    return narrow ? tn_vec_of_bf16(from) : *(const vec *)from;
}

__attribute__((always_inline)) static inline void store(char *to, vec x, const bool narrow) {
    if (narrow)
        tn_vec_to_bf16(to, x);
    else
        *(vec *)to = x;
}

/* ---- The input ---- */

/* y = B^T x for six numbers, or four. */
__attribute__((always_inline)) static inline void in_4(const vec *x, int s, vec *y, int t) {
    vec a = x[4 * s] - 4 * x[2 * s], b = x[3 * s] - 4 * x[s];
    vec c = x[4 * s] - x[2 * s], d = 2 * (x[3 * s] - x[s]);
    y[0] = 4 * x[0] - 5 * x[2 * s] + x[4 * s];
    y[t] = a + b;
    y[2 * t] = a - b;
    y[3 * t] = c + d;
    y[4 * t] = c - d;
    y[5 * t] = 4 * x[s] - 5 * x[3 * s] + x[5 * s];
}

__attribute__((always_inline)) static inline void in_2(const vec *x, int s, vec *y, int t) {
    y[0] = x[0] - x[2 * s];
    y[t] = x[s] + x[2 * s];
    y[2 * t] = x[2 * s] - x[s];
    y[3 * t] = x[s] - x[3 * s];
}

/* One tile and LANES channels; `pixels` are the places in the image. */
__attribute__((always_inline)) static inline void transform_in(char *const *pixels, int64_t channel,
                                                               float *v, int64_t v_place,
                                                               const int m, const bool narrow) {
    const int n = m + 2;
    vec x[MAX_PLACES], y[MAX_PLACES];
    for (int i = 0; i < n * n; i++)
        x[i] = load(pixels[i] + channel * (narrow ? 2 : 4), narrow);
    for (int i = 0; i < n; i++)
        m == 4 ? in_4(x + i, n, y + i, n) : in_2(x + i, n, y + i, n);
    for (int i = 0; i < n; i++)
        m == 4 ? in_4(y + i * n, 1, x + i * n, 1) : in_2(y + i * n, 1, x + i * n, 1);
    for (int i = 0; i < n * n; i++)
        *(vec *)(v + i * v_place) = x[i];
}

typedef struct place {
    int64_t image, y, x; /* of a tile's first output */
} place;

static place place_of(const winograd *w, int64_t tile) {
    int64_t x = tile % w->tiles_x, y = tile / w->tiles_x % w->tiles_y;
    return (place){tile / w->tiles_x / w->tiles_y, y * w->tile, x * w->tile};
}

/* Tile `tile` of a group into place `slot` of V. */
static void read_tile(const winograd *w, int64_t group, int64_t tile, float *v) {
    place p = place_of(w, tile);
    char *pixels[MAX_PLACES];
    int n = w->tile + 2, size = w->narrow ? 2 : 4;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            int64_t y = p.y + i - w->padding[0], x = p.x + j - w->padding[1];
            bool inside = y >= 0 && y < w->height && x >= 0 && x < w->width;
            pixels[i * n + j] = inside ? w->in.data + p.image * w->in.batch + y * w->in.y +
                                             x * w->in.x + group * w->in_channels * size
                                       : w->zeros;
        }
    }
    for (int64_t c = 0; c < w->in_channels; c += LANES) {
        int64_t from = c + LANES <= w->in_channels ? c : w->in_channels - LANES;
        if (w->tile == 4 && w->narrow)
            transform_in(pixels, from, v + from, w->v_place, 4, true);
        else if (w->tile == 4)
            transform_in(pixels, from, v + from, w->v_place, 4, false);
        else
            transform_in(pixels, from, v + from, w->v_place, 2, w->narrow);
    }
}

/* ---- The products ---- */

/* rows x (vectors * LANES) of M; both are constants of each call. */
__attribute__((always_inline)) static inline void multiply(int64_t depth, const float *a,
                                                           int64_t a_row, const float *b, float *m,
                                                           int64_t m_row, bool more, const int rows,
                                                           const int vectors) {
    vec sum[ROWS][2];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            sum[r][v] = more ? *(const vec *)(m + r * m_row + v * LANES) : (vec){0};
    for (int64_t k = 0; k < depth; k++) {
        vec x[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            x[v] = *(const vec *)(b + k * PANEL + v * LANES);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            float y = a[r * a_row + k];
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                sum[r][v] += y * x[v];
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            *(vec *)(m + r * m_row + v * LANES) = sum[r][v];
}

typedef void (*multiply_fn)(int64_t depth, const float *a, int64_t a_row, const float *b, float *m,
                            int64_t m_row, bool more, bool two);

#if ROWS == 12
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#elif ROWS == 6
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define EACH_ROWS(X) X(1) X(2) X(3) X(4)
#endif

#define X(rows)                                                                               \
    static void multiply_##rows(int64_t depth, const float *a, int64_t a_row, const float *b, \
                                float *m, int64_t m_row, bool more, bool two) {               \
        if (two)                                                                              \
            multiply(depth, a, a_row, b, m, m_row, more, rows, 2);                            \
        else                                                                                  \
            multiply(depth, a, a_row, b, m, m_row, more, rows, 1);                            \
    }
EACH_ROWS(X)
#undef X

#define X(rows) multiply_##rows,
static const multiply_fn multipliers[ROWS + 1] = {NULL, EACH_ROWS(X)};
#undef X

/* m (+)= v b: `count` tiles, `depth` input channels and one panel of output channels. */
static void multiply_tiles(const winograd *w, int64_t depth, int64_t panel, const float *v,
                           const float *b, float *m, int64_t count, bool more) {
    int64_t channels = w->out_channels - panel * PANEL, pieces = (count + ROWS - 1) / ROWS;
    for (int64_t from = 0; from < PANEL && from < channels; from += SLICE) {
        bool two = channels - from > LANES;
        for (int64_t i = 0; i < pieces; i++) { /* of nearly equal size */
            int64_t first = count * i / pieces, rows = count * (i + 1) / pieces - first;
            multipliers[rows](depth, v + first * w->v_tile, w->v_tile, b + from,
                              m + first * w->m_tile + from, w->m_tile, more, two);
        }
    }
}

/* Place p and one panel of output channels. */
static void multiply_panel(const winograd *w, int64_t group, int64_t p, int64_t panel,
                           const float *v, float *m, int64_t count) {
    int64_t depth = w->in_channels;
    const float *b = w->weight + ((group * w->places + p) * w->panels + panel) * depth * PANEL;
    multiply_tiles(w, depth, panel, v + p * w->v_place, b, m + p * w->m_place + panel * PANEL,
                   count, false);
}

/* ---- The products with a weight that is not transformed ---- */

/* y = G x for three numbers. */
__attribute__((always_inline)) static inline void weight_4(const vec *x, int s, vec *y, int t) {
    vec a = (x[0] + x[2 * s]) * (-1.0f / 6), b = x[s] * (1.0f / 6);
    vec c = x[0] * (1.0f / 24) + x[2 * s] * (1.0f / 6), d = x[s] * (1.0f / 12);
    y[0] = x[0] * 0.25f;
    y[t] = a - b;
    y[2 * t] = a + b;
    y[3 * t] = c + d;
    y[4 * t] = c - d;
    y[5 * t] = x[2 * s];
}

__attribute__((always_inline)) static inline void weight_2(const vec *x, int s, vec *y, int t) {
    vec a = (x[0] + x[2 * s]) * 0.5f, b = x[s] * 0.5f;
    y[0] = x[0];
    y[t] = a + b;
    y[2 * t] = a - b;
    y[3 * t] = x[2 * s];
}

/* LANES output channels of one input channel; `tap`: from one of the nine taps to the next. */
__attribute__((always_inline)) static inline void transform_weight(const float *w, int64_t tap,
                                                                   float *u, const int m) {
    const int n = m + 2;
    vec x[9], y[18], z[6];
#pragma GCC unroll 9
    for (int i = 0; i < 9; i++)
        x[i] = *(const vec *)(w + i * tap);
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++)
        m == 4 ? weight_4(x + i, 3, y + i, 3) : weight_2(x + i, 3, y + i, 3);
#pragma GCC unroll 6
    for (int i = 0; i < n; i++) {
        m == 4 ? weight_4(y + i * 3, 1, z, 1) : weight_2(y + i * 3, 1, z, 1);
#pragma GCC unroll 6
        for (int j = 0; j < n; j++)
            *(vec *)(u + (i * n + j) * U_PLACE) = z[j];
    }
}

/* Asks for part `i` of `parts` of DEPTH channels of the weight, of all taps. */
static void fetch(const float *w, int64_t tap, int64_t i, int64_t parts) {
    const int64_t floats = 16, each = DEPTH * PANEL / floats; /* of a cache line; lines of a tap */
    for (int64_t line = 9 * each * i / parts; line < 9 * each * (i + 1) / parts; line++)
        __builtin_prefetch(w + line / each * tap + line % each * floats, 0, 2);
}

/* All places of one panel of output channels. */
static void multiply_plain(const winograd *w, int64_t panel, const float *v, float *m, float *u) {
    int64_t in = w->in_channels, tap = in * PANEL;
    for (int64_t k = 0; k < in; k += DEPTH) {
        int64_t depth = in - k < DEPTH ? in - k : DEPTH;
        const float *from = w->weight + (panel * 9 * in + k) * PANEL;
        for (int64_t i = 0; i < depth * PANEL; i += LANES) {
            if (w->tile == 4)
                transform_weight(from + i, tap, u + i, 4);
            else
                transform_weight(from + i, tap, u + i, 2);
        }
        for (int64_t p = 0; p < w->places; p++) {
            if (k + depth < in)
                fetch(from + DEPTH * PANEL, tap, p, w->places);
            else if (panel + 1 < w->panels)
                fetch(w->weight + (panel + 1) * 9 * tap, tap, p, w->places);
            multiply_tiles(w, depth, panel, v + p * w->v_place + k, u + p * U_PLACE,
                           m + p * w->m_place + panel * PANEL, w->tiles, k > 0);
        }
    }
}

/* ---- The output ---- */

/* y = A^T x for six numbers, or four. */
__attribute__((always_inline)) static inline void out_4(const vec *x, int s, vec *y, int t) {
    vec a = x[s] + x[2 * s], b = x[s] - x[2 * s], c = x[3 * s] + x[4 * s], d = x[3 * s] - x[4 * s];
    y[0] = x[0] + a + c;
    y[t] = b + 2 * d;
    y[2 * t] = a + 4 * c;
    y[3 * t] = b + 8 * d + x[5 * s];
}

__attribute__((always_inline)) static inline void out_2(const vec *x, int s, vec *y, int t) {
    y[0] = x[0] + x[s] + x[2 * s];
    y[t] = x[s] - x[2 * s] - x[3 * s];
}

/* LANES channels of the pixels of a tile. */
__attribute__((always_inline)) static inline void
transform_out(const float *source, int64_t m_place, vec *out, const int m) {
    const int n = m + 2;
    vec x[MAX_PLACES], y[MAX_PLACES];
    for (int i = 0; i < n * n; i++)
        x[i] = *(const vec *)(source + i * m_place);
    for (int i = 0; i < n; i++)
        m == 4 ? out_4(x + i, n, y + i, n) : out_2(x + i, n, y + i, n);
    for (int i = 0; i < m; i++)
        m == 4 ? out_4(y + i * n, 1, out + i * m, 1) : out_2(y + i * n, 1, out + i * m, 1);
}

static inline char *pixel_of(const image *a, int64_t batch, int64_t y, int64_t x) {
    return a->data + batch * a->batch + y * a->y + x * a->x;
}

static inline vec activate(const winograd *w, vec x) {
    if (w->bounded)
        return tn_vec_clamp(x, tn_vec_of(w->low), tn_vec_of(w->high));
    float numbers[LANES];
    *(vec *)numbers = x;
    tn_activate(&w->activation, numbers, LANES);
    return *(vec *)numbers;
}

/* Writes what is inside the image of the tile's pixels, channels from `channel` on. */
__attribute__((always_inline)) static inline void write_pixels(const winograd *w, const place *p,
                                                               int64_t channel, const vec *values,
                                                               const bool narrow) {
    vec add = w->bias ? *(const vec *)(w->bias + channel) : (vec){0};
    channel *= narrow ? 2 : 4;
    for (int i = 0; i < w->tile && p->y + i < w->out_height; i++) {
        for (int j = 0; j < w->tile && p->x + j < w->out_width; j++) {
            vec x = values[i * w->tile + j] + add;
            if (w->residual.data)
                x += load(pixel_of(&w->residual, p->image, p->y + i, p->x + j) + channel, narrow);
            store(pixel_of(&w->out, p->image, p->y + i, p->x + j) + channel, activate(w, x),
                  narrow);
        }
    }
}

static void write_tile(const winograd *w, int64_t group, int64_t tile, const float *m) {
    place p = place_of(w, tile);
    for (int64_t k = 0; k < w->out_channels; k += LANES) {
        int64_t from = k + LANES <= w->out_channels ? k : w->out_channels - LANES;
        int64_t channel = group * w->out_channels + from;
        vec out[16];
        if (w->tile == 4)
            transform_out(m + from, w->m_place, out, 4);
        else
            transform_out(m + from, w->m_place, out, 2);
        if (w->narrow)
            write_pixels(w, &p, channel, out, true);
        else
            write_pixels(w, &p, channel, out, false);
    }
}

/* ---- The whole ---- */

/* Tiles [first, first + count) of a group, on this thread. */
static void run_block(const winograd *w, int64_t group, int64_t first, int64_t count, float *v,
                      float *m) {
    for (int64_t t = 0; t < count; t++)
        read_tile(w, group, first + t, v + t * w->v_tile);
    for (int64_t p = 0; p < w->places; p++)
        for (int64_t panel = 0; panel < w->panels; panel++)
            multiply_panel(w, group, p, panel, v, m, count);
    for (int64_t t = 0; t < count; t++)
        write_tile(w, group, first + t, m + t * w->m_tile);
}

/* All tiles of a group, by all threads together; `u`: room for part of U, for each thread, where
 * the weight is not transformed. */
static void run_together(const winograd *w, int64_t group, int threads, float *v, float *m,
                         float *u) {
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int64_t t = 0; t < w->tiles; t++)
            read_tile(w, group, t, v + t * w->v_tile);
        if (w->plain) {
            float *mine = u + w->places * U_PLACE * omp_get_thread_num();
#pragma omp for schedule(static)
            for (int64_t i = 0; i < w->panels; i++)
                multiply_plain(w, i, v, m, mine);
        } else {
#pragma omp for schedule(static)
            for (int64_t i = 0; i < w->places * w->panels; i++)
                multiply_panel(w, group, i / w->panels, i % w->panels, v, m, w->tiles);
        }
#pragma omp for schedule(static)
        for (int64_t t = 0; t < w->tiles; t++)
            write_tile(w, group, t, m + t * w->m_tile);
    }
}

static int64_t spread(int64_t elements) { /* to an odd number of cache lines, so to all sets */
    int64_t lines = (elements + 15) / 16;
    return (lines | 1) * 16;
}

static void plan(winograd *w, int threads) {
    w->block = w->plain ? w->tiles
                        : tn_winograd_block(w->tile, w->in_channels, w->out_channels, w->groups,
                                            w->tiles, threads);
    w->blocks = (w->tiles + w->block - 1) / w->block;
    w->v_tile = spread(w->in_channels);
    w->m_tile = spread(w->panels * PANEL);
    w->v_place = spread(w->block * w->v_tile);
    w->m_place = spread(w->block * w->m_tile);
}

static tenon_status run(tn_call *call, winograd *w) {
    plan(w, call->threads);
    int64_t tasks = w->groups * w->blocks;
    bool together = w->plain || tasks < call->threads;
    int copies = together ? 1 : call->threads;
    size_t v_size = (size_t)(w->places * w->v_place), size = v_size + w->places * w->m_place;
    size_t pixel = (size_t)w->in_channels * sizeof(float);
    size_t u_size = w->plain ? (size_t)(w->places * U_PLACE * call->threads) : 0;
    float *buffers = tn_call_scratch(call, (size * (size_t)copies + u_size) * sizeof *buffers);
    w->zeros = tn_call_scratch(call, pixel);
    if (!w->zeros || !buffers)
        return tn_no_memory();
    memset(w->zeros, 0, pixel);
    if (together) {
        for (int64_t group = 0; group < w->groups; group++)
            run_together(w, group, call->threads, buffers, buffers + v_size, buffers + size);
        return TENON_OK;
    }
#pragma omp parallel for num_threads(call->threads) schedule(dynamic) if (tasks > 1)
    for (int64_t i = 0; i < tasks; i++) {
        float *buffer = buffers + size * (size_t)omp_get_thread_num();
        int64_t first = i % w->blocks * w->block, left = w->tiles - first;
        run_block(w, i / w->blocks, first, left < w->block ? left : w->block, buffer,
                  buffer + v_size);
    }
    return TENON_OK;
}

/* The view as an image, in scratch memory when its channels are not neighbours; `fill`: with its
 * elements. */
static tenon_status as_image(tn_call *call, const tenon_view *view, bool fill, image *out,
                             tenon_view *staged) {
    *staged = *view;
    if (view->strides[1] != 1 && view->shape[1] > 1) {
        tn_channels_last_strides(view->rank, view->shape, staged->strides);
        staged->data =
            tn_call_scratch(call, (size_t)tenon_view_numel(view) * tenon_dtype_size(view->dtype));
        if (!staged->data)
            return tn_no_memory();
        if (fill)
            TN_K(copy_view)(call->threads, staged, view);
    }
    int64_t size = (int64_t)tenon_dtype_size(view->dtype);
    *out = (image){staged->data, staged->strides[0] * size, staged->strides[2] * size,
                   staged->strides[3] * size};
    return TENON_OK;
}

tenon_status TN_K(winograd_convolution)(tn_call *call) {
    const tenon_node *node = call->node;
    const tenon_view *in = &call->in[0], *weight = &call->in[1], *bias = tn_call_in(call, 2);
    const tenon_view *residual = tn_call_in(call, 3), *out = &call->out[0];
    tenon_view staged, other;
    winograd w = {.plain = weight->rank == 3, .panels = weight->shape[weight->rank == 3 ? 0 : 2]};
    if (out->dtype == TENON_DTYPE_NONE || tenon_view_numel(out) == 0)
        return TENON_OK;
    w.tile = (int)tn_arg_int(node, 5, 0);
    w.places = (w.tile + 2) * (w.tile + 2);
    tn_arg_ints_of(node, 6, w.padding, 2);
    w.groups = tn_arg_int(node, 7, 1);
    w.narrow = in->dtype == TENON_BFLOAT16;
    w.batch = in->shape[0];
    w.in_channels = in->shape[1] / w.groups;
    w.out_channels = out->shape[1] / w.groups;
    w.height = in->shape[2];
    w.width = in->shape[3];
    w.out_height = out->shape[2];
    w.out_width = out->shape[3];
    w.tiles_y = (w.out_height + w.tile - 1) / w.tile;
    w.tiles_x = (w.out_width + w.tile - 1) / w.tile;
    w.tiles = w.batch * w.tiles_y * w.tiles_x;
    w.weight = TN_K(packed)(call, TN_CLASS_F32, weight);
    if (!w.weight)
        return tn_no_memory();
    if (bias) {
        w.bias = TN_K(packed)(call, TN_CLASS_F32, bias);
        if (!w.bias)
            return tn_no_memory();
    }
    tn_activation_read(node, 8, &w.activation);
    w.bounded = tn_activation_bounds(&w.activation, &w.low, &w.high);
    TN_TRY(as_image(call, in, true, &w.in, &staged));
    if (residual)
        TN_TRY(as_image(call, residual, true, &w.residual, &staged));
    TN_TRY(as_image(call, out, false, &w.out, &other));
    TN_TRY(run(call, &w));
    if (other.data != out->data)
        TN_K(copy_view)(call->threads, out, &other);
    return TENON_OK;
}
