/* Products of rows with one panel of a packed weight, in registers (core/packed.h tells how weights
 * are packed), and the vectors that they are made of. */
#ifndef TN_KERNEL_PANEL_H
#define TN_KERNEL_PANEL_H

#include "core/packed.h"
#include "kernels/vector.h"
#include <stdbool.h>

#if defined(__AVX512F__)
#define TN_TILE_ROWS 14
#elif defined(__AVX2__)
#define TN_TILE_ROWS 6
#else
#define TN_TILE_ROWS 4
#endif

/* out = clamp(a b + bias + residual), for some rows and the panel's first columns. Distances of
 * rows are in elements. */
typedef struct tn_panel_product {
    const float *a, *b, *bias; /* b: `depth` rows of the panel; bias: a whole panel's */
    const float *residual;     /* added before the clamp; NULL: none */
    float *out;
    bool more; /* instead of the bias, what is in `out` is added */
    int64_t depth, a_row, out_row, residual_row;
    int64_t columns;
    float low, high;
} tn_panel_product;

/* `rows` and `vectors` are constants of each call. */
__attribute__((always_inline)) static inline void tn_tile(const tn_panel_product *p, int64_t first,
                                                          int64_t column, const int rows,
                                                          const int vectors) {
    const float *a = p->a + first * p->a_row, *b = p->b + column;
    float *out = p->out + first * p->out_row + column;
    tn_vec_part part[2] = {tn_vec_part_of(p->columns - column),
                           tn_vec_part_of(p->columns - column - TN_LANES)};
    tn_vec sum[TN_TILE_ROWS][2];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            sum[r][v] = p->more ? tn_vec_load_part(out + r * p->out_row + v * TN_LANES, part[v])
                                : *(const tn_vec *)(p->bias + column + v * TN_LANES);
    }
    for (int64_t k = 0; k < p->depth; k++, b += TN_PANEL) {
        tn_vec x[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            x[v] = *(const tn_vec *)(b + v * TN_LANES);
            __builtin_prefetch(b + 16 * TN_PANEL + v * TN_LANES, 0, 3);
        }
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            float y = a[r * p->a_row + k];
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                sum[r][v] += y * x[v];
        }
    }
    tn_vec low = tn_vec_of(p->low), high = tn_vec_of(p->high);
    const float *residual = p->residual ? p->residual + first * p->residual_row + column : NULL;
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            tn_vec x = sum[r][v];
            if (residual)
                x += tn_vec_load_part(residual + r * p->residual_row + v * TN_LANES, part[v]);
            tn_vec_store_part(out + r * p->out_row + v * TN_LANES, tn_vec_clamp(x, low, high),
                              part[v]);
        }
    }
}

#define TN_TILES_OF(rows)                                                                          \
    static __attribute__((noinline)) void tn_tile_##rows(const tn_panel_product *p, int64_t first, \
                                                         int64_t column, bool two) {               \
        if (two)                                                                                   \
            tn_tile(p, first, column, rows, 2);                                                    \
        else                                                                                       \
            tn_tile(p, first, column, rows, 1);                                                    \
    }
TN_TILES_OF(1)
TN_TILES_OF(2)
TN_TILES_OF(3)
TN_TILES_OF(4)
#if TN_TILE_ROWS >= 6
TN_TILES_OF(5)
TN_TILES_OF(6)
#endif
#if TN_TILE_ROWS >= 14
TN_TILES_OF(7)
TN_TILES_OF(8)
TN_TILES_OF(9)
TN_TILES_OF(10)
TN_TILES_OF(11)
TN_TILES_OF(12)
TN_TILES_OF(13)
TN_TILES_OF(14)
#endif
#undef TN_TILES_OF

/* All of the product, by tiles of about equal heights: 16 rows are two tiles of 8. */
static inline void tn_panel_run(const tn_panel_product *p, int64_t rows) {
    static void (*const tiles[])(const tn_panel_product *, int64_t, int64_t, bool) = {
        NULL,
        tn_tile_1,
        tn_tile_2,
        tn_tile_3,
        tn_tile_4,
#if TN_TILE_ROWS >= 6
        tn_tile_5,
        tn_tile_6,
#endif
#if TN_TILE_ROWS >= 14
        tn_tile_7,
        tn_tile_8,
        tn_tile_9,
        tn_tile_10,
        tn_tile_11,
        tn_tile_12,
        tn_tile_13,
        tn_tile_14,
#endif
    };
    int64_t parts = (rows + TN_TILE_ROWS - 1) / TN_TILE_ROWS;
    for (int64_t i = 0; i < parts; i++) {
        int64_t first = rows * i / parts, last = rows * (i + 1) / parts;
        for (int64_t c = 0; c < p->columns; c += 2 * TN_LANES)
            tiles[last - first](p, first, c, p->columns - c > TN_LANES);
    }
}

#endif
