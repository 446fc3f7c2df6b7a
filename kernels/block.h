/* Runs of elements between memory of any dtype and the type that a kernel computes in. Steps are in
 * bytes. */
#ifndef TN_BLOCK_H
#define TN_BLOCK_H

#include "kernels/convert.h"
#include "kernels/copy.h"
#include "kernels/walk.h"

static inline void tn_get_floats(float *to, const void *from, int64_t step, tenon_dtype dtype,
                                 int64_t n) {
    TN_K(load)[TN_CLASS_F32][dtype](to, from, step, n);
}
static inline void tn_get_doubles(double *to, const void *from, int64_t step, tenon_dtype dtype,
                                  int64_t n) {
    TN_K(load)[TN_CLASS_F64][dtype](to, from, step, n);
}
static inline void tn_get_ints(int64_t *to, const void *from, int64_t step, tenon_dtype dtype,
                               int64_t n) {
    TN_K(load)[TN_CLASS_I64][dtype](to, from, step, n);
}
static inline void tn_put_floats(void *to, int64_t step, tenon_dtype dtype, const float *from,
                                 int64_t n) {
    TN_K(store)[TN_CLASS_F32][dtype](to, step, from, n);
}
static inline void tn_put_doubles(void *to, int64_t step, tenon_dtype dtype, const double *from,
                                  int64_t n) {
    TN_K(store)[TN_CLASS_F64][dtype](to, step, from, n);
}
static inline void tn_put_ints(void *to, int64_t step, tenon_dtype dtype, const int64_t *from,
                               int64_t n) {
    TN_K(store)[TN_CLASS_I64][dtype](to, step, from, n);
}

/* Copies n elements of `size` bytes. */
void TN_K(move_run)(void *to, int64_t to_step, const void *from, int64_t from_step, size_t size,
                    int64_t n);
/* The same with a conversion of dtype. */
void TN_K(convert_run)(void *to, int64_t to_step, tenon_dtype to_dtype, const void *from,
                       int64_t from_step, tenon_dtype from_dtype, int64_t n);

/* Copies all of a walk (array 0: to, array 1: from), converting the dtype. */
void TN_K(copy_walk)(const tn_call *call, const tn_walk *walk, void *to, tenon_dtype to_dtype,
                     const void *from, tenon_dtype from_dtype);
/* Sets every element of a view to the element at `value`, which has the view's dtype. */
void TN_K(fill_view)(const tn_call *call, const tenon_view *to, const void *value);

/* The element's bytes of a number. */
static inline void tn_scalar_bytes(const tenon_arg *arg, tenon_dtype dtype, void *bytes) {
    if (arg->kind == TENON_ARG_FLOAT)
        tn_store_float(bytes, dtype, arg->as.f);
    else if (arg->kind == TENON_ARG_BOOL)
        tn_store_int(bytes, dtype, arg->as.b);
    else
        tn_store_int(bytes, dtype, arg->as.i);
}

/* Elements of one cache-friendly piece of a run. */
#define TN_BLOCK TN_CHUNK

#endif
