/* Blocked matrix products: the types and the packing of strided operands. */
#include "kernels/gemm.h"
#include <omp.h>
#include <string.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define FLOAT_ROWS 12
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define FLOAT_ROWS 6
#else
#define VECTOR_BYTES 16
#define FLOAT_ROWS 6
#endif

#define T float
#define G(name) name##_f32
#define NUMBER(x) ((T)(x))
#define ROWS FLOAT_ROWS
#include "kernels/gemm_template.h"
#undef T
#undef G

#define T double
#define G(name) name##_f64
#include "kernels/gemm_template.h"
#undef T
#undef G
#undef ROWS
#undef NUMBER

#define T uint64_t /* which wraps */
#define G(name) name##_i64
#define NUMBER(x) ((T)(int64_t)(x))
#define ROWS 4
#include "kernels/gemm_template.h"
#undef T
#undef G
#undef ROWS

/* Below so many multiplications one thread is faster. */
static int useful_threads(const tn_gemm *g, int threads) {
    return (double)g->batch * (double)g->m * (double)g->n * (double)g->k < 131072 ? 1 : threads;
}

size_t TN_K(gemm_scratch)(const tn_gemm *g, int threads) {
    size_t size;
    if (g->batch == 0 || g->m == 0 || g->n == 0 || g->k == 0)
        return 0;
    threads = useful_threads(g, threads);
    if (g->class == TN_CLASS_F32)
        size = size_f32(g, threads);
    else if (g->class == TN_CLASS_F64)
        size = size_f64(g, threads);
    else
        size = size_i64(g, threads);
    return (size + 63) / 64 * 64;
}

void TN_K(gemm)(const tn_gemm *g, int threads, void *scratch) {
    if (g->batch == 0 || g->m == 0 || g->n == 0)
        return;
    threads = useful_threads(g, threads);
    if (g->class == TN_CLASS_F32)
        run_f32(g, threads, scratch);
    else if (g->class == TN_CLASS_F64)
        run_f64(g, threads, scratch);
    else
        run_i64(g, threads, scratch);
}

/* ---- Strided operands ---- */

tn_operand TN_K(operand)(tn_class class, const void *data, tenon_dtype dtype, int64_t outer,
                         int64_t inner, int64_t batch) {
    tn_operand o = {.pack = TN_K(pack_strided), .class = class, .data = data, .dtype = dtype};
    o.outer = outer;
    o.inner = inner;
    o.batch = batch;
    return o;
}

/* One element between buffers of the class. */
static inline void put(tn_class class, void *to, int64_t i, const void *from, int64_t j) {
    if (class == TN_CLASS_F32)
        ((uint32_t *)to)[i] = ((const uint32_t *)from)[j];
    else
        ((uint64_t *)to)[i] = ((const uint64_t *)from)[j]; /* double or int64 */
}

typedef float vec4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t mask4 __attribute__((vector_size(16)));

/* to[j * width + i] = from[i * outer + j] for 4 i and depth j. */
static void transpose_4_rows(float *to, const float *from, int64_t outer, int64_t depth,
                             int width) {
    int64_t j = 0;
    for (; j + 4 <= depth; j += 4) {
        vec4 r0 = *(const vec4 *)(from + j), r1 = *(const vec4 *)(from + outer + j);
        vec4 r2 = *(const vec4 *)(from + 2 * outer + j), r3 = *(const vec4 *)(from + 3 * outer + j);
        vec4 t0 = __builtin_shuffle(r0, r1, ((mask4){0, 4, 1, 5}));
        vec4 t1 = __builtin_shuffle(r2, r3, ((mask4){0, 4, 1, 5}));
        vec4 t2 = __builtin_shuffle(r0, r1, ((mask4){2, 6, 3, 7}));
        vec4 t3 = __builtin_shuffle(r2, r3, ((mask4){2, 6, 3, 7}));
        *(vec4 *)(to + j * width) = __builtin_shuffle(t0, t1, ((mask4){0, 1, 4, 5}));
        *(vec4 *)(to + (j + 1) * width) = __builtin_shuffle(t0, t1, ((mask4){2, 3, 6, 7}));
        *(vec4 *)(to + (j + 2) * width) = __builtin_shuffle(t2, t3, ((mask4){0, 1, 4, 5}));
        *(vec4 *)(to + (j + 3) * width) = __builtin_shuffle(t2, t3, ((mask4){2, 3, 6, 7}));
    }
    for (; j < depth; j++) {
        for (int i = 0; i < 4; i++)
            to[j * width + i] = from[i * outer + j];
    }
}

/* Columns are neighbours in memory. */
static void pack_neighbours(const tn_operand *o, char *to, const char *from, int64_t count,
                            int64_t depth, int width) {
    size_t size = tenon_dtype_size(o->dtype), unit = tn_class_size(o->class);
    tn_load_fn load = TN_K(load)[o->class][o->dtype];
    for (int64_t j = 0; j < depth; j++) {
        char *row = to + j * width * unit;
        const char *source = from + j * o->inner * (int64_t)size;
        if (o->dtype == TENON_FLOAT32 && count == width)
            memcpy(row, source, width * sizeof(float));
        else
            load(row, source, (int64_t)size, count);
        if (count < width)
            memset(row + count * unit, 0, (width - count) * unit);
    }
}

static void pack_columns(const tn_operand *o, char *to, const char *from, int64_t count,
                         int64_t depth, int width) {
    if (o->outer == 1 || count == 1) {
        pack_neighbours(o, to, from, count, depth, width);
        return;
    }
    size_t size = tenon_dtype_size(o->dtype), unit = tn_class_size(o->class);
    tn_load_fn load = TN_K(load)[o->class][o->dtype];
    int64_t i = 0;
    if (o->dtype == TENON_FLOAT32 && o->inner == 1) {
        for (; i + 4 <= count; i += 4)
            transpose_4_rows((float *)to + i, (const float *)from + i * o->outer, o->outer, depth,
                             width);
    }
    uint64_t buffer[TN_GEMM_DEPTH];
    for (; i < count; i++) {
        load(buffer, from + i * o->outer * (int64_t)size, o->inner * (int64_t)size, depth);
        for (int64_t j = 0; j < depth; j++)
            put(o->class, to, j * width + i, buffer, j);
    }
    for (int64_t j = 0; j < depth && count < width; j++)
        memset(to + (j * width + count) * unit, 0, (width - count) * unit);
}

static void pack_rows(const tn_operand *o, char *to, const char *from, int64_t count,
                      int64_t depth) {
    size_t size = tenon_dtype_size(o->dtype), unit = tn_class_size(o->class);
    tn_load_fn load = TN_K(load)[o->class][o->dtype];
    int ld = TN_GEMM_LD(unit);
    if (o->outer == 1 && o->inner != 1 && count > 1) {
        uint64_t buffer[16];
        for (int64_t j = 0; j < depth; j++) {
            load(buffer, from + j * o->inner * (int64_t)size, (int64_t)size, count);
            for (int64_t i = 0; i < count; i++)
                put(o->class, to, i * ld + j, buffer, i);
        }
        return;
    }
    for (int64_t i = 0; i < count; i++)
        load(to + i * ld * unit, from + i * o->outer * (int64_t)size, o->inner * (int64_t)size,
             depth);
}

void TN_K(pack_strided)(const tn_operand *o, void *to, int64_t batch, int64_t first, int64_t count,
                        int64_t k, int64_t depth, int width) {
    int64_t offset = batch * o->batch + first * o->outer + k * o->inner;
    const char *from = o->data + offset * (int64_t)tenon_dtype_size(o->dtype);
    if (width)
        pack_columns(o, to, from, count, depth, width);
    else
        pack_rows(o, to, from, count, depth);
}
