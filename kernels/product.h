/* Matrix products of strided matrices of any dtype, with the fastest way chosen for their shapes.
 */
#ifndef TN_PRODUCT_H
#define TN_PRODUCT_H

#include "kernels/gemm.h"

/* Strides are in elements. */
typedef struct tn_matrix {
    void *data;
    tenon_dtype dtype;
    int64_t batch, row, column;
} tn_matrix;

/* c[i] = alpha * a[i] b[i] + beta * added[i]; a is m x k, b is k x n. With beta 0 (or `added.data`
 * NULL) what is added is not read. */
typedef struct tn_product {
    int64_t batch, m, n, k;
    tn_matrix a, b, c, added;
    double alpha, beta;
} tn_product;

tenon_status TN_K(product)(tn_call *call, const tn_product *product);

/* Every element of `view` into packed row-major `to`, in the class's type, and back. */
void TN_K(load_view)(tn_class class, void *to, const tenon_view *view, int threads);
void TN_K(store_view)(tn_class class, const tenon_view *view, const void *from, int threads);
/* The same, into scratch, where it is not packed and of the class's type already. NULL: memory is
 * out. */
const void *TN_K(packed)(tn_call *call, tn_class class, const tenon_view *view);

/* out[r * out_row + i] = the dot product of row r of `a` (of `m`, packed) and row i of `b` (of n,
 * `ldb` elements of `dtype` apart), k numbers each; the class is float or double. */
void TN_K(dots)(tn_class class, int64_t m, int64_t n, int64_t k, const void *a, const void *b,
                tenon_dtype dtype, int64_t ldb, void *out, int64_t out_row);

#endif
