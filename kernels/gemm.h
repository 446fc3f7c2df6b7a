/* Blocked matrix products, on which matmul, convolution, attention and recurrent kernels stand.
 *
 * C = alpha * A B (+ what C holds, or + a bias), where A is m x k, B is k x n. Operands are read
 * through a packing function, so that they may have any layout or dtype, or not exist in memory at
 * all (the patches of a convolution). As in Goto and van de Geijn, "Anatomy of High-Performance
 * Matrix Multiplication": a tile of C lives in registers; one operand is packed once and shared by
 * all threads, the other one is packed block by block by the thread that uses it. */
#ifndef TN_GEMM_H
#define TN_GEMM_H

#include "kernels/convert.h"

#define TN_GEMM_DEPTH 256 /* how much of k is packed at a time */
/* Elements between packed rows of A: off the powers of two, which would meet in the same cache
 * sets. */
#define TN_GEMM_LD(size) (TN_GEMM_DEPTH + 64 / (int)(size))

typedef struct tn_operand tn_operand;

/* Packs elements (first + i, k + j), i < count, j < depth, of one batch in the class's type.
 * `width` 0 (A): to[i * TN_GEMM_LD + j]. Otherwise (B): to[j * width + i], with zeros for i from
 * count to width - 1. */
typedef void (*tn_pack_fn)(const tn_operand *operand, void *to, int64_t batch, int64_t first,
                           int64_t count, int64_t k, int64_t depth, int width);

/* A matrix whose outer index counts rows of A or columns of B, and whose inner index is k. */
struct tn_operand {
    tn_pack_fn pack;
    tn_class class;
    const void *user; /* for `pack` */
    /* For tn_pack_strided: */
    const char *data;
    tenon_dtype dtype;
    int64_t outer, inner, batch; /* strides in elements */
};

typedef struct tn_gemm {
    tn_class class; /* of C, and of the packed operands: F32, F64 or I64 (which wraps) */
    int64_t batch, m, n, k;
    tn_operand a, b;
    bool share_a; /* A is the operand that all batches share, and that is packed once; otherwise B
                     is */
    void *c;      /* columns are neighbours; must not overlap the operands */
    int64_t c_batch, c_row;
    double alpha;
    bool accumulate;  /* add to C */
    const void *bias; /* unless accumulate: m numbers (bias_rows) or n numbers, or NULL */
    bool bias_rows;
    size_t
        chunk; /* the bytes of packed shared operand that may exist at once; 0 for a good number */
} tn_gemm;

/* Bytes of scratch that tn_gemm needs, a multiple of 64. */
size_t TN_K(gemm_scratch)(const tn_gemm *gemm, int threads);
/* `scratch` is 64-byte aligned. With one thread it opens no parallel region. */
void TN_K(gemm)(const tn_gemm *gemm, int threads, void *scratch);

/* An operand with strides. */
tn_operand TN_K(operand)(tn_class class, const void *data, tenon_dtype dtype, int64_t outer,
                         int64_t inner, int64_t batch);
void TN_K(pack_strided)(const tn_operand *operand, void *to, int64_t batch, int64_t first,
                        int64_t count, int64_t k, int64_t depth, int width);

#endif
