/* Products with packed weights: linear layers of more than a few rows.
 *
 *     out = activation(input weight' + bias + residual)
 *
 * After Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", with the roles
 * that suit a large weight and few rows: the weight (core/packed.h) is read once for each chunk of
 * rows, in the order in which it lies, and what comes next of it is prefetched while the block at
 * hand is multiplied with all rows of the chunk; these are packed once, so that they stay in the
 * second-level cache. Rows are dealt evenly to tiles, which live in registers: 64 rows make
 * tiles of 12 and 13, not four of 14 and a rest of 8.
 *
 * Where the pass asks for it, the product is Strassen's ("Gaussian elimination is not optimal",
 * 1969), one level of it: rows, columns and the inner dimension are cut into halves, and seven
 * products of quarters do instead of eight. As in Huang et al., "Strassen's algorithm reloaded"
 * (SC 2016), there are no temporaries: sums of quarters of the input are made when it is packed,
 * those of the weight in registers, and a tile goes to each quarter of the result that it is part
 * of. Errors then depend on the largest elements of the two rows that are added, so rows are paired
 * only when these are within a factor; otherwise their chunk is multiplied the plain way, and so is
 * one with NaN or infinity, which would reach the other row. */
#include "core/packed.h"
#include "kernels/activation.h"
#include "kernels/convert.h"
#include "kernels/copy.h"
#include "kernels/vector.h"
#include "kernels/walk.h"
#include <omp.h>
#include <string.h>

#if defined(__AVX512F__)
#define ROWS 14
#elif defined(__AVX2__)
#define ROWS 6
#else
#define ROWS 4
#endif
#define LANES TN_LANES

typedef tn_vec vec;

enum {
    COLUMNS = 2 * LANES, /* of a tile */
    DEPTH = 256,         /* of the inner dimension, at a time */
    LD = DEPTH + 16,     /* between packed rows: off the powers of two, which share cache sets */
    CHUNK_BYTES = 1 << 20,
    MIN_SHARE = 24, /* rows of a thread */
    MIN_HALVED = 16,
    MAX_APART = 4 /* exponents of the largest elements of paired rows */
};

/* ---- Tiles ---- */

/* out = sign * product + from + bias, over `rows` x `columns` of the tile. */
typedef struct target {
    float *out;               /* NULL: none */
    const float *from, *bias; /* NULL: zeros */
    float sign;
    int64_t rows, columns;
} target;

/* The product of rows of `a` and COLUMNS columns of b, b + other or b - other. */
typedef struct tile {
    const float *a, *b, *other;
    int64_t depth, row; /* `row`: between rows of targets */
    target to[2];
    const char *ahead; /* what is prefetched, `step` bytes for each of the depth */
    int64_t step;
} tile;

/* `rows` and `sum` are constants of each call. */
__attribute__((always_inline)) static inline void compute(const tile *t, const int rows,
                                                          const int sum) {
    const float *a = t->a, *b = t->b, *other = t->other;
    const char *ahead = t->ahead;
    vec acc[ROWS][2];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = (vec){0};
    for (int64_t k = 0; k < t->depth; k++) {
        vec x = *(const vec *)b, y = *(const vec *)(b + LANES);
        if (sum > 0) {
            x += *(const vec *)other;
            y += *(const vec *)(other + LANES);
        } else if (sum < 0) {
            x -= *(const vec *)other;
            y -= *(const vec *)(other + LANES);
        }
        __builtin_prefetch(ahead, 0, 2);
        ahead += t->step;
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            float factor = a[r * LD + k];
            acc[r][0] += factor * x;
            acc[r][1] += factor * y;
        }
        b += TN_PANEL;
        other += TN_PANEL;
    }
    for (int i = 0; i < 2 && t->to[i].out; i++) {
        float *out = t->to[i].out;
        const float *from = t->to[i].from, *bias = t->to[i].bias, sign = t->to[i].sign;
        vec x = {0}, y = {0};
        if (bias) {
            x = *(const vec *)bias;
            y = *(const vec *)(bias + LANES);
        }
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            if (r >= t->to[i].rows)
                break;
            vec left = sign * acc[r][0] + x, right = sign * acc[r][1] + y;
            if (from) {
                left += *(const vec *)(from + r * t->row);
                right += *(const vec *)(from + r * t->row + LANES);
            }
            *(vec *)(out + r * t->row) = left;
            *(vec *)(out + r * t->row + LANES) = right;
        }
    }
}

#define TILE(rows)                                                           \
    static __attribute__((noinline)) void tile_##rows(const tile *t) {       \
        compute(t, rows, 0);                                                 \
    }                                                                        \
    static __attribute__((noinline)) void tile_sum_##rows(const tile *t) {   \
        compute(t, rows, 1);                                                 \
    }                                                                        \
    static __attribute__((noinline)) void tile_minus_##rows(const tile *t) { \
        compute(t, rows, -1);                                                \
    }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
#if ROWS >= 6
TILE(5)
TILE(6)
#endif
#if ROWS >= 14
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
TILE(13)
TILE(14)
#endif
#undef TILE

#define EACH_SUM(rows) \
    { tile_minus_##rows, tile_##rows, tile_sum_##rows }
static void (*const tiles[ROWS][3])(const tile *) = {
    EACH_SUM(1),  EACH_SUM(2),  EACH_SUM(3),  EACH_SUM(4),
#if ROWS >= 6
    EACH_SUM(5),  EACH_SUM(6),
#endif
#if ROWS >= 14
    EACH_SUM(7),  EACH_SUM(8),  EACH_SUM(9),  EACH_SUM(10),
    EACH_SUM(11), EACH_SUM(12), EACH_SUM(13), EACH_SUM(14),
#endif
};
#undef EACH_SUM

static void store_columns(const target *to, int64_t row, const float *buffer) {
    for (int64_t r = 0; r < to->rows; r++) {
        for (int64_t c = 0; c < to->columns; c++) {
            float more = (to->from ? to->from[r * row + c] : 0) + (to->bias ? to->bias[c] : 0);
            to->out[r * row + c] = to->sign * buffer[r * COLUMNS + c] + more;
        }
    }
}

/* Targets that do not take all columns get them through a buffer. */
static void run_tile(const tile *t, int64_t rows, int sum) {
    float buffer[ROWS * COLUMNS];
    bool whole = true;
    for (int i = 0; i < 2 && t->to[i].out; i++)
        whole = whole && t->to[i].columns == COLUMNS;
    if (whole) {
        tiles[rows - 1][sum + 1](t);
        return;
    }
    tile staged = *t;
    staged.row = COLUMNS;
    staged.to[0] = (target){.out = buffer, .sign = 1, .rows = rows};
    staged.to[1].out = NULL;
    tiles[rows - 1][sum + 1](&staged);
    for (int i = 0; i < 2 && t->to[i].out; i++)
        store_columns(&t->to[i], t->row, buffer);
}

/* ---- Products of quarters ---- */

/* Of A and B one quarter, or a sum or difference of two; of C one or two, to which the product is
 * added or from which it is taken. Quarters: 0 and 1 above, 2 and 3 below. */
typedef struct quarters {
    int8_t one, sign, two; /* sign 0: the first one only; of C, the sign for the second one */
    int8_t lead;           /* of C: the sign for the first one */
} quarters;

typedef struct recipe {
    quarters a, b, c;
} recipe;

static const recipe plain[] = {{{0, 0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, 1}}};

static const recipe strassen[] = {
    {{0, 1, 3, 1}, {0, 1, 3, 1}, {0, 1, 3, 1}},  /* (a11 + a22) (b11 + b22): c11, c22 */
    {{2, 1, 3, 1}, {0, 0, 0, 1}, {2, -1, 3, 1}}, /* (a21 + a22) b11: c21, -c22 */
    {{0, 0, 0, 1}, {1, -1, 3, 1}, {1, 1, 3, 1}}, /* a11 (b12 - b22): c12, c22 */
    {{3, 0, 0, 1}, {2, -1, 0, 1}, {0, 1, 2, 1}}, /* a22 (b21 - b11): c11, c21 */
    {{0, 1, 1, 1}, {3, 0, 0, 1}, {1, -1, 0, 1}}, /* (a11 + a12) b22: c12, -c11 */
    {{2, -1, 0, 1}, {0, 1, 1, 1}, {3, 0, 0, 1}}, /* (a21 - a11) (b11 + b12): c22 */
    {{1, -1, 3, 1}, {2, 1, 3, 1}, {0, 0, 0, 1}}, /* (a12 - a22) (b21 + b22): c11 */
};
/* Which product is the first, and which the last one, to reach a quarter of C. */
static const int8_t begins[4] = {0, 2, 1, 0}, ends[4] = {6, 4, 3, 5};

typedef struct job {
    const char *in;
    int64_t in_row, in_column; /* strides in bytes */
    const float *weight, *bias, *residual;
    float *out;
    int64_t m, n, k;
    bool halved; /* the pass asks for Strassen's product */
    tn_activation activation;
} job;

/* Rows that are multiplied at once, with the way to do it. */
typedef struct chunk {
    const recipe *recipes;
    int count, halves; /* products; 1 or 2 */
    int64_t first, rows;
    int64_t height;    /* rows of a quarter */
    int64_t k, depths; /* inner size of a quarter; its blocks */
    int64_t panels;    /* of a quarter */
    int64_t parts;     /* tiles that the height makes */
    float *packed;
} chunk;

/* Where part `i` of `parts` of `count` begins. */
static inline int64_t cut(int64_t count, int64_t i, int64_t parts) {
    return count * i / parts;
}

/* The same, on even numbers, so that rows make pairs. */
static inline int64_t row_cut(int64_t count, int64_t i, int64_t parts) {
    return i == parts ? count : count * i / parts / 2 * 2;
}

static chunk make_chunk(const job *j, bool halved, int64_t rows) {
    chunk c = {.recipes = halved ? strassen : plain,
               .count = halved ? TN_COUNT(strassen) : 1,
               .halves = halved ? 2 : 1,
               .rows = rows};
    c.height = (rows + c.halves - 1) / c.halves;
    c.k = j->k / c.halves;
    c.depths = c.k > DEPTH ? (c.k + DEPTH - 1) / DEPTH : 1;
    c.panels = halved ? tn_packed_panels(j->n) / 2 : (j->n + TN_PANEL - 1) / TN_PANEL;
    c.parts = (c.height + ROWS - 1) / ROWS;
    return c;
}

static int64_t packed_floats(const chunk *c) {
    return c->height * c->depths * c->count * LD;
}

/* Row `r` of quarter `quarter` of A, from its element `k` on; NULL where there is none. */
static const char *row_at(const job *j, const chunk *c, int quarter, int64_t r, int64_t k) {
    r += quarter / 2 * c->height;
    k += quarter % 2 * c->k;
    return r < c->rows ? j->in + (c->first + r) * j->in_row + k * j->in_column : NULL;
}

static void load_row(const job *j, const char *from, int64_t n, float *to) {
    if (!from)
        memset(to, 0, (size_t)n * sizeof *to);
    else if (j->in_column == sizeof(float))
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        TN_K(load)[TN_CLASS_F32][TENON_FLOAT32](to, from, j->in_column, n);
}

static void pack_chunk(const job *j, const chunk *c) {
    float *to = c->packed, other[DEPTH];
    for (int64_t d = 0; d < c->depths; d++) {
        int64_t k = cut(c->k, d, c->depths), n = cut(c->k, d + 1, c->depths) - k;
        for (int p = 0; p < c->count; p++) {
            const quarters *a = &c->recipes[p].a;
            for (int64_t r = 0; r < c->height; r++, to += LD) {
                load_row(j, row_at(j, c, a->one, r, k), n, to);
                if (a->sign == 0)
                    continue;
                const char *second = row_at(j, c, a->two, r, k);
                const float *y = (const float *)(const void *)second;
                if (!second || j->in_column != sizeof(float)) {
                    load_row(j, second, n, other);
                    y = other;
                }
                const float sign = a->sign;
#pragma omp simd
                for (int64_t i = 0; i < n; i++)
                    to[i] += sign * y[i];
            }
        }
    }
}

/* The exponent of the largest element of a row, 255 for NaN and infinities; neighbours only. */
static int exponent_of(const float *x, int64_t n) {
    uint32_t most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = tn_float_bits(x[i]) & 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return (int)(most >> 23);
}

/* Whether the rows may be added in pairs: finite, far from overflow, alike. */
static bool rows_pair(const job *j, const chunk *c) {
    for (int64_t r = 0; r + c->height < c->rows; r++) {
        int e[2];
        for (int i = 0; i < 2; i++) {
            const char *row = j->in + (c->first + r + i * c->height) * j->in_row;
            e[i] = exponent_of((const float *)(const void *)row, j->k);
        }
        int apart = e[0] < e[1] ? e[1] - e[0] : e[0] - e[1];
        if (apart > MAX_APART || e[0] > 200 || e[1] > 200)
            return false;
    }
    /* a row without a partner is added to nothing, but must be finite where zeros meet it */
    return c->rows % 2 == 0 ||
           exponent_of(
               (const float *)(const void *)(j->in + (c->first + c->height - 1) * j->in_row),
               j->k) <= 200;
}

/* The part of C that a tile of rows [r, r + rows) and column `column` of a panel has in a quarter.
 */
static target target_of(const job *j, const chunk *c, int quarter, int64_t r, int64_t rows,
                        int64_t panel, int64_t column, bool begin) {
    target t = {0};
    int64_t row = quarter / 2 * c->height + r;
    column += (quarter % 2 * c->panels + panel) * TN_PANEL;
    t.rows = c->rows - row < rows ? c->rows - row : rows;
    t.columns = j->n - column < COLUMNS ? j->n - column : COLUMNS;
    if (t.rows <= 0 || t.columns <= 0)
        return t;
    int64_t at = (c->first + row) * j->n + column;
    t.out = j->out + at;
    t.from = !begin ? t.out : j->residual ? j->residual + at : NULL;
    t.bias = begin && j->bias ? j->bias + column : NULL;
    return t;
}

static void activate(const job *j, const target *t) {
    for (int64_t r = 0; t->out && r < t->rows; r++)
        tn_activate(&j->activation, t->out + r * j->n, t->columns);
}

/* One product and block of the depth: all rows, one panel. */
static void run_product(const job *j, const chunk *c, int p, int64_t d, int64_t panel,
                        const char *ahead, int64_t step) {
    const recipe *how = &c->recipes[p];
    int64_t k = cut(c->k, d, c->depths), depth = cut(c->k, d + 1, c->depths) - k;
    const float *a = c->packed + (d * c->count + p) * c->height * LD, *b[2];
    int quarter[2] = {how->c.one, how->c.sign ? how->c.two : -1};
    for (int i = 0; i < 2; i++) {
        int of = i ? how->b.two : how->b.one;
        b[i] = j->weight + ((of % 2 * c->panels + panel) * j->k + of / 2 * c->k + k) * TN_PANEL;
    }
    for (int64_t part = 0; part < c->parts; part++) {
        int64_t r = cut(c->height, part, c->parts), rows = cut(c->height, part + 1, c->parts) - r;
        for (int64_t column = 0; column < TN_PANEL; column += COLUMNS) {
            tile t = {.a = a + r * LD,
                      .b = b[0] + column,
                      .other = b[1] + column,
                      .depth = depth,
                      .row = j->n,
                      .ahead = ahead,
                      .step = step};
            bool last[2] = {false, false};
            int count = 0;
            for (int i = 0; i < 2 && quarter[i] >= 0; i++) {
                int q = quarter[i];
                bool begin = d == 0 && (c->halves == 1 || begins[q] == p);
                t.to[count] = target_of(j, c, q, r, rows, panel, column, begin);
                t.to[count].sign = i ? how->c.sign : how->c.lead;
                last[count] = d + 1 == c->depths && (c->halves == 1 || ends[q] == p);
                count += t.to[count].out != NULL;
            }
            if (count == 0)
                continue;
            if (count == 1)
                t.to[1].out = NULL;
            run_tile(&t, rows, how->b.sign);
            for (int i = 0; i < count; i++)
                if (last[i])
                    activate(j, &t.to[i]);
            ahead += depth * step;
        }
    }
}

/* All rows of the chunk, and one panel of each half of the columns. The first products prefetch the
 * quarters of the weight that come next, one each. */
static void run_panel(const job *j, const chunk *c, int64_t panel) {
    int64_t tiles_of = c->parts * (TN_PANEL / COLUMNS);
    int64_t step = (TN_PANEL * (int64_t)sizeof(float) + tiles_of - 1) / tiles_of;
    for (int64_t d = 0; d < c->depths; d++) {
        int64_t next = d + 1 < c->depths ? cut(c->k, d + 1, c->depths) : 0;
        for (int p = 0; p < c->count; p++) {
            int of = p < c->halves * c->halves ? p : 0;
            const float *ahead = j->weight + ((of % 2 * c->panels + panel + (next == 0)) * j->k +
                                              of / 2 * c->k + next) *
                                                 TN_PANEL;
            bool useful = p < c->halves * c->halves;
            run_product(j, c, p, d, panel, (const char *)(useful ? ahead : c->packed),
                        useful ? step : 0);
        }
    }
}

/* Rows [begin, end) and share `column` of `across` of the panels. */
static void run_part(const job *j, int64_t begin, int64_t end, int64_t most, int64_t column,
                     int64_t across, float *packed) {
    int64_t chunks = (end - begin + most - 1) / most;
    for (int64_t i = 0; i < chunks; i++) {
        int64_t first = begin + row_cut(end - begin, i, chunks);
        int64_t rows = begin + row_cut(end - begin, i + 1, chunks) - first;
        chunk c = make_chunk(j, j->halved && rows >= MIN_HALVED, rows);
        c.first = first;
        if (c.halves == 2 && !rows_pair(j, &c)) {
            c = make_chunk(j, false, rows);
            c.first = first;
        }
        c.packed = packed;
        pack_chunk(j, &c);
        int64_t last = cut(c.panels, column + 1, across);
        for (int64_t p = cut(c.panels, column, across); p < last; p++)
            run_panel(j, &c, p);
    }
}

/* How many threads share the rows; the others share the panels. What one thread writes another one
 * reads at a price, and most of what surrounds a linear layer works row by row: rows it is, as long
 * as each thread gets enough of them to make good use of what it reads of the weight. */
static int64_t split(const job *j, int64_t threads) {
    int64_t most = j->m / MIN_SHARE, best = 1;
    for (int64_t down = 1; down <= threads && down <= most; down++)
        if (threads / down * down >= threads / best * best)
            best = down;
    return best;
}

static tenon_status run(tn_call *call, const job *j) {
    int threads = (double)j->m * (double)j->n * (double)j->k < 131072 ? 1 : call->threads;
    chunk one = make_chunk(j, j->halved, 2);
    int64_t most = 2 * (CHUNK_BYTES / (packed_floats(&one) * (int64_t)sizeof(float)));
    int64_t down = split(j, threads), across = threads / down;
    int64_t rows = (j->m + down - 1) / down + 2;
    most = most < 4 * ROWS ? 4 * ROWS : most > 16 * ROWS ? 16 * ROWS : most;
    chunk largest = make_chunk(j, j->halved, rows < most + 2 ? rows : most + 2);
    chunk other = make_chunk(j, false, largest.rows);
    int64_t size = packed_floats(&largest);
    size = size < packed_floats(&other) ? packed_floats(&other) : size;
    float *packed = tn_call_scratch(call, (size_t)(size * threads) * sizeof(float));
    if (!packed)
        return tn_no_memory();
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < across * down; i++)
        run_part(j, row_cut(j->m, i / across, down), row_cut(j->m, i / across + 1, down), most,
                 i % across, across, packed + size * omp_get_thread_num());
    return TENON_OK;
}

/* ---- The op ---- */

/* The rows of a view [..., n]; false when they have no common distance. */
static bool rows_of(const tenon_view *v, int64_t *count, int64_t *stride) {
    *count = 1;
    *stride = v->rank > 1 ? v->strides[v->rank - 2] : 0;
    for (int d = v->rank - 2; d >= 0; d--) {
        if (v->shape[d] == 1)
            continue;
        if (*count == 1)
            *stride = v->strides[d];
        else if (v->strides[d] != *stride * *count)
            return false;
        *count *= v->shape[d];
    }
    return true;
}

/* `view` itself where it is row-major, or a copy; data NULL: memory is out. */
static tenon_view dense(tn_call *call, const tenon_view *view) {
    tenon_view copy;
    if (tenon_view_is_contiguous(view))
        return *view;
    size_t size = (size_t)tenon_view_numel(view) * sizeof(float);
    copy = tn_view_make(tn_call_scratch(call, size + 1), view->dtype, view->rank, view->shape);
    if (copy.data)
        TN_K(copy_view)(call->threads, &copy, view);
    return copy;
}

/* input [..., k], weight [panels, k, TN_PANEL], bias [n] and residual [..., n] or none */
tenon_status TN_K(packed_linear)(tn_call *call) {
    tenon_view in = call->in[0], *out = &call->out[0], result = *out;
    const tenon_view *bias = tn_call_in(call, 2), *residual = tn_call_in(call, 3);
    int last = in.rank - 1;
    job j = {.n = out->shape[last], .k = in.shape[last]};
    if (tenon_view_numel(out) == 0)
        return TENON_OK;
    j.halved = tn_arg_bool(call->node, 5) && j.k % 2 == 0 && tn_packed_panels(j.n) >= TN_PAIRS;
    bool rows = rows_of(&in, &j.m, &j.in_row);
    if (!rows || (j.halved && j.k > 1 && in.strides[last] != 1)) {
        in = dense(call, &in);
        if (!in.data)
            return tn_no_memory();
        rows_of(&in, &j.m, &j.in_row);
    }
    tenon_view weight = dense(call, &call->in[1]), b = bias ? dense(call, bias) : weight;
    tenon_view r = residual ? dense(call, residual) : weight;
    if (!tenon_view_is_contiguous(out))
        result = tn_view_make(tn_call_scratch(call, (size_t)tenon_view_numel(out) * sizeof(float)),
                              out->dtype, out->rank, out->shape);
    if (!weight.data || !b.data || !r.data || !result.data)
        return tn_no_memory();
    j.in = in.data;
    j.in_row *= (int64_t)sizeof(float);
    j.in_column = in.strides[last] * (int64_t)sizeof(float);
    j.weight = weight.data;
    j.bias = bias ? b.data : NULL;
    j.residual = residual ? r.data : NULL;
    j.out = result.data;
    tn_activation_read(call->node, 6, &j.activation);
    TN_TRY(run(call, &j));
    if (result.data != out->data)
        TN_K(copy_view)(call->threads, out, &result);
    return TENON_OK;
}
