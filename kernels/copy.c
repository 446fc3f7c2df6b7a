/* Copies, conversions and fills. */
#include "kernels/copy.h"
#include "kernels/convert.h"
#include "kernels/iterate.h"
#include <string.h>

typedef struct conversion {
    tn_load_fn load;
    tn_store_fn store;
    int64_t from_size, to_size;
} conversion;

/* Other dtypes, by way of a class that holds what both can hold. */
static void convert(char *const *data, const int64_t *inner, const int64_t *outer, int64_t n,
                    int64_t rows, void *user) {
    const conversion *by = user;
    _Alignas(64) char buffer[TN_CHUNK * sizeof(int64_t)];
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t at = 0; at < n; at += TN_CHUNK) {
            int64_t count = n - at < TN_CHUNK ? n - at : TN_CHUNK;
            by->load(buffer, data[1] + row * outer[1] + at * inner[1], inner[1], count);
            by->store(data[0] + row * outer[0] + at * inner[0], inner[0], buffer, count);
        }
    }
}

static tn_class class_between(tenon_dtype from, tenon_dtype to) {
    if (to == TENON_BOOL)
        return TN_CLASS_BOOL;
    if (to == TENON_FLOAT64 || from == TENON_FLOAT64)
        return TN_CLASS_F64;
    return tn_dtype_is_float(to) || tn_dtype_is_float(from) ? TN_CLASS_F32 : TN_CLASS_I64;
}

enum { TILE = 16 };

/* Full tiles in vectors. Unaligned rows of eight elements; shuffles within lanes of 16 bytes, as
 * every level has them, but for the last step. */
typedef uint32_t words __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint16_t shorts __attribute__((vector_size(16), aligned(2), may_alias));

/* Transposes 8x8 by swapping off-diagonal blocks of 4, 2 and 1: the shuffles that do it for rows j
 * and j + step. */
#define SWAP(step, ...)                                            \
    _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) {          \
        if (j & (step))                                            \
            continue;                                              \
        vector upper = r[j], lower = r[j + (step)];                \
        const vector masks[2] = {__VA_ARGS__};                     \
        r[j] = __builtin_shuffle(upper, lower, masks[0]);          \
        r[j + (step)] = __builtin_shuffle(upper, lower, masks[1]); \
    }
#define TRANSPOSE(name, VECTOR)                                                                   \
    static inline void name(char *to, int64_t to_row, const char *from, int64_t from_step) {      \
        typedef VECTOR vector;                                                                    \
        vector r[8];                                                                              \
        _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) r[j] =                                \
            *(const vector *)(from + j * from_step);                                              \
        SWAP(4, {0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15})                         \
        SWAP(2, {0, 1, 8, 9, 4, 5, 12, 13}, {2, 3, 10, 11, 6, 7, 14, 15})                         \
        SWAP(1, {0, 8, 2, 10, 4, 12, 6, 14}, {1, 9, 3, 11, 5, 13, 7, 15})                         \
        _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) * (vector *)(to + j * to_row) = r[j]; \
    }
TRANSPOSE(transpose_words, words)
TRANSPOSE(transpose_shorts, shorts)

/* A full tile of elements of `size` bytes, if there is a fast way. */
static inline bool move_full(int64_t size, char *to, int64_t to_row, const char *from,
                             int64_t from_step) {
    if (size != 4 && size != 2)
        return false;
    for (int64_t i = 0; i < TILE; i += 8) {
        for (int64_t row = 0; row < TILE; row += 8) {
            char *part = to + row * to_row + i * size;
            const char *block = from + i * from_step + row * size;
            if (size == 4)
                transpose_words(part, to_row, block, from_step);
            else
                transpose_shorts(part, to_row, block, from_step);
        }
    }
    return true;
}

/* One dtype: rows that are packed on both sides, rows of one repeated element, transposes in tiles,
 * and anything else. */
#define MOVE(TYPE)                                                                              \
    static void move_row_##TYPE(char *to, int64_t to_stride, const char *from,                  \
                                int64_t from_stride, int64_t n) {                               \
        const int64_t size = sizeof(TYPE);                                                      \
        if (to_stride == size && from_stride == size) {                                         \
            memcpy(to, from, (size_t)(n * size));                                               \
        } else if (to_stride == size && from_stride == 0) {                                     \
            TYPE *row = (TYPE *)to, value = *(const TYPE *)from;                                \
            for (int64_t i = 0; i < n; i++)                                                     \
                row[i] = value;                                                                 \
        } else {                                                                                \
            for (int64_t i = 0; i < n; i++)                                                     \
                *(TYPE *)(to + i * to_stride) = *(const TYPE *)(from + i * from_stride);        \
        }                                                                                       \
    }                                                                                           \
    /* `n` by `rows`; `to` is packed along n, `from` along rows. */                             \
    static void move_tile_##TYPE(char *to, int64_t to_row, const char *from, int64_t from_step, \
                                 int64_t n, int64_t rows) {                                     \
        if (n == TILE && rows == TILE && move_full(sizeof(TYPE), to, to_row, from, from_step))  \
            return;                                                                             \
        if (n < 8) {                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                   \
                const TYPE *line = (const TYPE *)(from + i * from_step);                        \
                for (int64_t row = 0; row < rows; row++)                                        \
                    *(TYPE *)(to + row * to_row + i * (int64_t)sizeof(TYPE)) = line[row];       \
            }                                                                                   \
            return;                                                                             \
        }                                                                                       \
        TYPE tile[TILE][TILE];                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                       \
            const TYPE *line = (const TYPE *)(from + i * from_step);                            \
            for (int64_t row = 0; row < rows; row++)                                            \
                tile[row][i] = line[row];                                                       \
        }                                                                                       \
        for (int64_t row = 0; row < rows; row++)                                                \
            memcpy(to + row * to_row, tile[row], (size_t)n * sizeof(TYPE));                     \
    }                                                                                           \
    static void move_##TYPE(char *const *data, const int64_t *inner, const int64_t *outer,      \
                            int64_t n, int64_t rows, void *user) {                              \
        const int64_t size = sizeof(TYPE);                                                      \
        (void)user;                                                                             \
        if (inner[0] == size && outer[1] == size && n > 1 && rows > 1) {                        \
            for (int64_t row = 0; row < rows; row += TILE) {                                    \
                int64_t height = rows - row < TILE ? rows - row : TILE;                         \
                for (int64_t i = 0; i < n; i += TILE)                                           \
                    move_tile_##TYPE(data[0] + row * outer[0] + i * size, outer[0],             \
                                     data[1] + row * size + i * inner[1], inner[1],             \
                                     n - i < TILE ? n - i : TILE, height);                      \
            }                                                                                   \
            return;                                                                             \
        }                                                                                       \
        for (int64_t row = 0; row < rows; row++)                                                \
            move_row_##TYPE(data[0] + row * outer[0], inner[0], data[1] + row * outer[1],       \
                            inner[1], n);                                                       \
    }
MOVE(uint8_t)
MOVE(uint16_t)
MOVE(uint32_t)
MOVE(uint64_t)

typedef void (*move_row_fn)(char *to, int64_t to_stride, const char *from, int64_t from_stride,
                            int64_t n);
static const move_row_fn row_moves[] = {[1] = move_row_uint8_t,
                                        [2] = move_row_uint16_t,
                                        [4] = move_row_uint32_t,
                                        [8] = move_row_uint64_t};

enum { ROWS = 64 };

/* Rows of three elements, the colours of pixels, which the compiler shuffles together in vectors.
 */
static void deal_colours(uint16_t *restrict to, const uint16_t *restrict from, int64_t rows) {
    for (int64_t row = 0; row < rows; row++) {
        to[3 * row] = from[row];
        to[3 * row + 1] = from[ROWS + row];
        to[3 * row + 2] = from[2 * ROWS + row];
    }
}

static void convert_colours(char *const *data, const int64_t *inner, const int64_t *outer,
                            int64_t rows, const conversion *by) {
    _Alignas(64) char buffer[ROWS * sizeof(int64_t)];
    _Alignas(64) uint16_t converted[3 * ROWS];
    for (int64_t row = 0; row < rows; row += ROWS) {
        int64_t count = rows - row < ROWS ? rows - row : ROWS;
        for (int64_t i = 0; i < 3; i++) {
            by->load(buffer, data[1] + row * outer[1] + i * inner[1], by->from_size, count);
            by->store((char *)(converted + i * ROWS), by->to_size, buffer, count);
        }
        deal_colours((uint16_t *)(void *)(data[0] + row * outer[0]), converted, count);
    }
}

/* A conversion of a transpose: what is packed in the input is converted in runs, and then dealt to
 * the rows of the output, some rows at a time, which stay in cache until they are whole. */
static void convert_across(char *const *data, const int64_t *inner, const int64_t *outer, int64_t n,
                           int64_t rows, void *user) {
    const conversion *by = user;
    _Alignas(64) char buffer[ROWS * sizeof(int64_t)], converted[ROWS * sizeof(int64_t)];
    if (outer[1] != by->from_size || rows == 1) {
        convert(data, inner, outer, n, rows, user);
        return;
    }
    if (n == 3 && by->to_size == 2 && inner[0] == 2 && outer[0] == 6) {
        convert_colours(data, inner, outer, rows, by);
        return;
    }
    for (int64_t row = 0; row < rows; row += ROWS) {
        int64_t count = rows - row < ROWS ? rows - row : ROWS;
        for (int64_t i = 0; i < n; i++) {
            by->load(buffer, data[1] + row * outer[1] + i * inner[1], by->from_size, count);
            by->store(converted, by->to_size, buffer, count);
            row_moves[by->to_size](data[0] + row * outer[0] + i * inner[0], outer[0], converted,
                                   by->to_size, count);
        }
    }
}

/* In a transpose the dimension along which the input is packed goes next to the one along which
 * the output is. Whether it is one. */
static bool order_transpose(tn_iter *it, int64_t size) {
    if (it->strides[1][0] == size || it->strides[1][0] == 0)
        return false;
    for (int d = 1; d < it->rank; d++)
        if (it->strides[1][d] == size && it->shape[d] > 1)
            tn_iter_swap(it, 1, d);
    return true;
}

void TN_K(copy_view)(int threads, const tenon_view *out, const tenon_view *in) {
    int64_t size = (int64_t)tenon_dtype_size(in->dtype);
    tn_iter it;
    tn_iter_begin(&it, out->rank, out->shape);
    tn_iter_add(&it, out);
    tn_iter_add(&it, in);
    tn_iter_order(&it);
    if (it.data[0] == it.data[1] && out->dtype == in->dtype)
        return;
    if (out->dtype != in->dtype) {
        tn_class class = class_between(in->dtype, out->dtype);
        conversion by = {TN_K(load)[class][in->dtype], TN_K(store)[class][out->dtype], size,
                         (int64_t)tenon_dtype_size(out->dtype)};
        tn_iter_run(&it, threads, 1, order_transpose(&it, size) ? convert_across : convert, &by);
        return;
    }
    order_transpose(&it, size);
    static const tn_iter_loop moves[] = {
        [1] = move_uint8_t, [2] = move_uint16_t, [4] = move_uint32_t, [8] = move_uint64_t};
    tn_iter_run(&it, threads, 1, moves[size], NULL);
}

/* clone, _to_copy: argument 0. copy, fill: argument 1, broadcast. */
tenon_status TN_K(copy)(tn_call *call) {
    int id = call->node->op->id;
    bool other = id == TN_OP_copy || id == TN_OP_fill_Scalar || id == TN_OP_fill_Tensor;
    tenon_view in = tn_call_operand(call, other);
    if (call->out[0].dtype != TENON_DTYPE_NONE)
        TN_K(copy_view)(call->threads, &call->out[0], &in);
    return TENON_OK;
}
