/* Attention of many queries in float32, with the keys and values of a head packed into panels once
 * (kernels/panel.h). Scores of a few queries and keys at a time stay in a cache; softmax follows
 * block by block (Milakov and Gimelshein, "Online normalizer calculation for softmax").
 *
 * In bfloat16, where the CPU sums products of pairs of them in float32 (AVX512_BF16), two numbers
 * stand where there is one float: neighbours of a query or key, or the same columns of two values.
 * Weights are rounded to bfloat16, their sum is not; PyTorch does the same. */
#include "kernels/attention.h"
#include "kernels/copy.h"
#include "kernels/panel.h"
#include "kernels/vmath.h"
#include <math.h>
#include <string.h>

/* Of the scores that exist at once; rows are apart by more, or they would share sets of the cache.
 */
enum { ROWS = 2 * TN_TILE_ROWS, KEYS = 256, SCORES = KEYS + TN_LANES };

typedef struct work {
    const tn_attention *a;
    int64_t unit;  /* numbers in the place of a float: 2 for pairs, else 1 */
    int64_t width; /* of the values, in whole panels */
    float *keys, *values, *rows, *scores, *sums, *best, *total, *mask;
} work;

static int64_t whole(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

static float *take(float *base, size_t *at, int64_t count) {
    float *place = base ? base + *at : NULL;
    *at += (size_t)whole(count, 16);
    return place;
}

/* Carves a thread's memory, and returns its size in floats; with `base` NULL only that matters. */
static size_t carve(const tn_attention *a, float *base, work *w) {
    size_t at = 0;
    w->a = a;
    w->unit = 1;
    w->width = whole(a->value_width, TN_PANEL);
    w->keys = take(base, &at, whole(a->keys, TN_PANEL) * a->width);
    w->values = take(base, &at, a->keys * w->width);
    w->rows = take(base, &at, (ROWS > TN_PANEL ? ROWS : TN_PANEL) * a->width);
    w->scores = take(base, &at, ROWS * SCORES);
    w->sums = take(base, &at, ROWS * w->width);
    w->best = take(base, &at, ROWS);
    w->total = take(base, &at, ROWS);
    w->mask = take(base, &at, KEYS);
    return at;
}

size_t TN_K(attention_panels_size)(const tn_attention *a) {
    work w;
    return carve(a, NULL, &w) * sizeof(float);
}

/* ---- Operands ---- */

static const char *element(const tn_attention_matrix *m, int64_t row, int64_t column) {
    return m->data + (row * m->row + column * m->column) * (int64_t)tenon_dtype_size(m->dtype);
}

static bool is_dense(const tn_attention_matrix *m) {
    return m->dtype == TENON_FLOAT32 && m->column == 1;
}

/* `n` elements from there on, as floats. */
static void load(const tn_attention_matrix *m, int64_t row, int64_t column, int64_t n, float *to) {
    TN_K(load)
    [TN_CLASS_F32][m->dtype](to, element(m, row, column),
                             m->column * (int64_t)tenon_dtype_size(m->dtype), n);
}

/* `count` rows of the query or key, as they lie or copied to w->rows. */
static const float *rows_of(const work *w, const tn_attention_matrix *m, int64_t row, int64_t count,
                            int64_t *stride) {
    int64_t n = w->a->width;
    if (w->unit == 2 || is_dense(m)) {
        *stride = m->row / w->unit;
        return (const float *)(const void *)element(m, row, 0);
    }
    for (int64_t r = 0; r < count; r++)
        load(m, row + r, 0, n, w->rows + r * n);
    *stride = n;
    return w->rows;
}

/* The keys become columns of panels, which end with zeros. */
static void pack_keys(const work *w) {
    const tn_attention *a = w->a;
    int64_t depth = a->width / w->unit;
    for (int64_t k = 0; k < a->keys; k += TN_PANEL) {
        int64_t n = a->keys - k < TN_PANEL ? a->keys - k : TN_PANEL, stride;
        int64_t shape[2] = {depth, n};
        float *to = w->keys + k * depth;
        const float *from = rows_of(w, &a->key, k, n, &stride);
        tenon_view out = tn_view_make(to, TENON_FLOAT32, 2, shape);
        tenon_view in = tn_view_make((void *)from, TENON_FLOAT32, 2, shape);
        out.strides[0] = TN_PANEL;
        in.strides[0] = 1;
        in.strides[1] = stride;
        if (n < TN_PANEL)
            memset(to, 0, (size_t)(TN_PANEL * depth) * sizeof *to);
        TN_K(copy_view)(1, &out, &in);
    }
}

static void pack_values(const work *w) {
    const tn_attention *a = w->a;
    for (int64_t c = 0; c < a->value_width; c += TN_PANEL) {
        int64_t n = a->value_width - c < TN_PANEL ? a->value_width - c : TN_PANEL;
        float *to = w->values + c * a->keys;
        for (int64_t k = 0; k < a->keys; k++, to += TN_PANEL) {
            if (n == TN_PANEL && is_dense(&a->value)) {
                memcpy(to, element(&a->value, k, c), TN_PANEL * sizeof *to);
                continue;
            }
            load(&a->value, k, c, n, to);
            memset(to + n, 0, (size_t)(TN_PANEL - n) * sizeof *to);
        }
    }
}

static void pack_value_pairs(const work *w) {
    const tn_attention *a = w->a;
    for (int64_t c = 0; c < a->value_width; c += TN_PANEL) {
        int64_t n = a->value_width - c < TN_PANEL ? a->value_width - c : TN_PANEL;
        uint32_t *to = (uint32_t *)(void *)w->values + c * whole(a->keys, 2) / 2;
        for (int64_t k = 0; k < a->keys; k += 2, to += TN_PANEL) {
            const uint16_t *one = (const uint16_t *)(const void *)element(&a->value, k, c);
            const uint16_t *two = one + (k + 1 < a->keys ? a->value.row : 0);
            const uint32_t both = k + 1 < a->keys ? 0xffffffffu : 0xffffu;
            for (int64_t i = 0; i < n; i++)
                to[i] = (one[i] | (uint32_t)two[i] << 16) & both;
            memset(to + n, 0, (size_t)(TN_PANEL - n) * sizeof *to);
        }
    }
}

/* What is added to the scores of keys first..first + n - 1; minus infinity where a boolean mask is
 * false. NULL: nothing. */
static const float *mask_of(const work *w, int64_t row, int64_t first, int64_t n) {
    const tn_attention_matrix *m = &w->a->mask;
    if (!m->data)
        return NULL;
    if (is_dense(m))
        return (const float *)(const void *)element(m, row, first);
    float *to = w->mask;
    if (m->dtype != TENON_BOOL) {
        load(m, row, first, n, to);
        return to;
    }
    uint8_t keep[KEYS];
    TN_K(load)[TN_CLASS_BOOL][m->dtype](keep, element(m, row, first), m->column, n);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = keep[i] ? 0 : -INFINITY;
    return to;
}

/* ---- Softmax ---- */

/* 2^x for x up to 0, and 0 below -127; the polynomial is that of tn_vec_silu. */
static inline tn_vec power(tn_vec x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: n stands in the low bits of a sum with it */
    x = tn_vec_max(x, tn_vec_of(-127.0f));
    tn_vec shifted = x + magic;
    tn_vec r = x - (shifted - magic);
    tn_vec p = r * 0.0013264659f + 0.009671566f;
    p = p * r + 0.055507343f;
    p = p * r + 0.24022241f;
    p = p * r + 0.693147f;
    p = p * r + 1.0f;
    return p * (tn_vec)(((tn_vec_int)shifted << 23) + 0x3f800000);
}

/* The first `n` elements, and minus infinity behind them. */
static inline tn_vec keep_some(tn_vec x, int64_t n) {
    tn_vec_int keep = TN_VEC_NUMBERS < (int32_t)n, low = (tn_vec_int)tn_vec_of(-INFINITY);
    return (tn_vec)(((tn_vec_int)x & keep) | (low & ~keep));
}

/* Scores scaled and masked, with minus infinity behind them up to a whole vector; the greatest, for
 * which NaN need not count. */
static float scale_scores(float *x, int64_t n, float scale, const float *mask) {
    tn_vec one = tn_vec_of(-INFINITY), two = one;
    int64_t i = 0;
    for (; i + 2 * TN_LANES <= n; i += 2 * TN_LANES) {
        tn_vec *at = (tn_vec *)(x + i);
        at[0] *= scale;
        at[1] *= scale;
        if (mask) {
            at[0] += ((const tn_vec *)(mask + i))[0];
            at[1] += ((const tn_vec *)(mask + i))[1];
        }
        one = tn_vec_max(at[0], one);
        two = tn_vec_max(at[1], two);
    }
    for (; i < n; i += TN_LANES) {
        tn_vec y = *(tn_vec *)(x + i) * scale;
        int64_t some = n - i < TN_LANES ? n - i : TN_LANES;
        if (mask)
            y += tn_vec_load_part(mask + i, tn_vec_part_of(some));
        y = keep_some(y, some);
        *(tn_vec *)(x + i) = y;
        one = tn_vec_max(y, one);
    }
    return tn_vec_greatest(tn_vec_max(one, two));
}

static bool has_nan(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (isnan(x[i]))
            return true;
    return false;
}

/* n scores to weights relative to `now`, the greatest so far; what was summed before is scaled to
 * match. */
static void weigh(const work *w, int64_t r, int64_t n, float now) {
    float *x = w->scores + r * SCORES, *sums = w->sums + r * w->width;
    now = now > w->best[r] ? now : w->best[r];
    if (now == -INFINITY) { /* all masked so far, or NaN */
        if (!has_nan(x, n)) {
            memset(x, 0, (size_t)n * sizeof *x);
            return;
        }
        now = 0;
    }
    tn_vec total = {0}, other = {0};
    int64_t i = 0;
    for (; i + TN_LANES < n; i += 2 * TN_LANES) {
        tn_vec *at = (tn_vec *)(x + i);
        at[0] = power((at[0] - now) * 1.44269504f);
        at[1] = power((at[1] - now) * 1.44269504f);
        total += at[0];
        other += at[1];
    }
    if (i < n) {
        tn_vec y = power((*(tn_vec *)(x + i) - now) * 1.44269504f);
        *(tn_vec *)(x + i) = y;
        total += y;
    }
    float before = w->best[r] == now ? 1 : tn_expf(w->best[r] - now);
    w->total[r] = w->total[r] * before + tn_vec_sum(total + other);
    w->best[r] = now;
    for (i = 0; i < w->width && before != 1; i += TN_LANES)
        *(tn_vec *)(sums + i) *= before;
}

/* Scores of keys first..first + n - 1 to weights. */
static void softmax(const work *w, int64_t row, int64_t rows, int64_t first, int64_t n) {
    const float *mask = NULL;
    float best[ROWS];
    int64_t seen[ROWS];
    for (int64_t r = 0; r < rows; r++) {
        int64_t last = w->a->causal ? row + r + 1 - first : n;
        seen[r] = last < 0 ? 0 : last < n ? last : n;
        if (r == 0 || w->a->mask.row != 0)
            mask = mask_of(w, row + r, first, n);
        best[r] = scale_scores(w->scores + r * SCORES, seen[r], (float)w->a->scale, mask);
    }
    for (int64_t r = 0; r < rows; r++) {
        weigh(w, r, seen[r], best[r]);
        memset(w->scores + r * SCORES + seen[r], 0,
               (size_t)(whole(n, 2) - seen[r]) * sizeof(float));
    }
}

/* ---- Products of pairs ---- */

#if defined(__AVX512F__)
typedef int32_t pair __attribute__((aligned(2), may_alias));

/* `rows` and `vectors` are constants of each call. */
__attribute__((always_inline, target("avx512bf16"))) static inline void
pair_tile(const tn_panel_product *p, int64_t first, const int rows, const int vectors) {
    const pair *a = (const pair *)(const void *)p->a + first * p->a_row;
    const float *b = p->b;
    __m512 sum[TN_TILE_ROWS][2];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = _mm512_setzero_ps();
    for (int64_t k = 0; k < p->depth; k++, b += TN_PANEL) {
        __m512bh x[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            x[v] = (__m512bh)_mm512_loadu_ps(b + v * TN_LANES);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            __m512bh y = (__m512bh)_mm512_set1_epi32(a[r * p->a_row + k]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                sum[r][v] = _mm512_dpbf16_ps(sum[r][v], y, x[v]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            tn_vec *to = (tn_vec *)(p->out + (first + r) * p->out_row + v * TN_LANES);
            *to = (tn_vec)sum[r][v] + (p->residual ? *to : (tn_vec){0});
        }
    }
}

#define PAIR_TILE(rows)                                                           \
    __attribute__((noinline, target("avx512bf16"))) static void pair_tile_##rows( \
        const tn_panel_product *p, int64_t first) {                               \
        if (p->columns > TN_LANES)                                                \
            pair_tile(p, first, rows, 2);                                         \
        else                                                                      \
            pair_tile(p, first, rows, 1);                                         \
    }
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
EACH_ROWS(PAIR_TILE)

/* As tn_panel_run, for pairs; a residual is what is in `out`. */
static void run_pairs(const tn_panel_product *p, int64_t rows) {
#define X(rows) [rows] = pair_tile_##rows,
    static void (*const tiles[])(const tn_panel_product *, int64_t) = {EACH_ROWS(X)};
#undef X
    int64_t parts = (rows + TN_TILE_ROWS - 1) / TN_TILE_ROWS;
    for (int64_t i = 0; i < parts; i++) {
        int64_t first = rows * i / parts, last = rows * (i + 1) / parts;
        tiles[last - first](p, first);
    }
}

/* n weights to bfloat16, where they are. */
__attribute__((target("avx512bf16"))) static void round_weights(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += TN_LANES)
        _mm256_storeu_si256((__m256i *)(void *)((uint16_t *)(void *)x + i),
                            (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i)));
}

static bool is_pairs(const tn_attention_matrix *m) {
    return m->dtype == TENON_BFLOAT16 && m->column == 1 && m->row % 2 == 0 &&
           (uintptr_t)m->data % 4 == 0;
}

static bool fits_pairs(const tn_attention *a) {
    return a->width % 2 == 0 && is_pairs(&a->query) && is_pairs(&a->key) && is_pairs(&a->value) &&
           __builtin_cpu_supports("avx512bf16");
}
#else
static bool fits_pairs(const tn_attention *a) {
    (void)a;
    return false;
}

static void run_pairs(const tn_panel_product *p, int64_t rows) {
    tn_panel_run(p, rows);
}

static void round_weights(float *x, int64_t n) {
    (void)x, (void)n;
}
#endif

/* ---- Blocks ---- */

static const float zeros[TN_PANEL];

static void scores(const work *w, const float *query, int64_t stride, int64_t rows, int64_t first,
                   int64_t n) {
    int64_t depth = w->a->width / w->unit;
    tn_panel_product p = {.a = query, .a_row = stride, .depth = depth, .bias = zeros};
    p.low = -INFINITY;
    p.high = INFINITY;
    p.out_row = SCORES;
    for (int64_t k = 0; k < n; k += TN_PANEL) {
        p.b = w->keys + (first + k) * depth;
        p.out = w->scores + k;
        p.columns = n - k < TN_PANEL ? n - k : TN_PANEL;
        (w->unit == 2 ? run_pairs : tn_panel_run)(&p, rows);
    }
}

static void add_values(const work *w, int64_t rows, int64_t first, int64_t n) {
    int64_t keys = whole(w->a->keys, w->unit) / w->unit, depth = whole(n, w->unit) / w->unit;
    tn_panel_product p = {.a = w->scores, .a_row = SCORES, .depth = depth, .bias = zeros};
    p.low = -INFINITY;
    p.high = INFINITY;
    p.out_row = p.residual_row = w->width;
    for (int64_t c = 0; c < w->a->value_width; c += TN_PANEL) {
        p.b = w->values + c * keys + first / w->unit * TN_PANEL;
        p.out = w->sums + c;
        p.residual = first > 0 ? p.out : NULL;
        p.columns = w->a->value_width - c < TN_PANEL ? w->a->value_width - c : TN_PANEL;
        (w->unit == 2 ? run_pairs : tn_panel_run)(&p, rows);
    }
}

static void store(const work *w, int64_t row, int64_t rows) {
    const tn_attention *a = w->a;
    int64_t size = (int64_t)tenon_dtype_size(a->out.dtype);
    tn_store_fn put = TN_K(store)[TN_CLASS_F32][a->out.dtype];
    for (int64_t r = 0; r < rows; r++) {
        float *sums = w->sums + r * w->width, total = w->total[r];
        float scale = total != 0 ? 1 / total : 0; /* a query that sees no key gives 0 */
#pragma omp simd
        for (int64_t i = 0; i < a->value_width; i++)
            sums[i] = total != 0 ? sums[i] * scale : 0;
        put((char *)element(&a->out, row + r, 0), a->out.column * size, sums, a->value_width);
    }
}

static void block(const work *w, int64_t row, int64_t rows) {
    const tn_attention *a = w->a;
    int64_t keys = a->causal && row + rows < a->keys ? row + rows : a->keys, stride;
    const float *query = rows_of(w, &a->query, row, rows, &stride);
    for (int64_t r = 0; r < rows; r++) {
        w->best[r] = -INFINITY;
        w->total[r] = 0;
    }
    for (int64_t first = 0; first < keys; first += KEYS) {
        int64_t n = keys - first < KEYS ? keys - first : KEYS;
        scores(w, query, stride, rows, first, n);
        softmax(w, row, rows, first, n);
        for (int64_t r = 0; r < rows && w->unit == 2; r++)
            round_weights(w->scores + r * SCORES, n);
        add_values(w, rows, first, n);
    }
    store(w, row, rows);
}

void TN_K(attention_panels)(const tn_attention *a, int64_t row, int64_t rows, void *memory) {
    work w;
    carve(a, memory, &w);
    w.unit = fits_pairs(a) ? 2 : 1;
    pack_keys(&w);
    if (w.unit == 2)
        pack_value_pairs(&w);
    else
        pack_values(&w);
    int64_t blocks = (rows + ROWS - 1) / ROWS;
    for (int64_t i = 0; i < blocks; i++) {
        int64_t begin = rows * i / blocks, end = rows * (i + 1) / blocks;
        block(&w, row + begin, end - begin);
    }
}
