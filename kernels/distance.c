/* Distances between the rows of two matrices. */
#include "kernels/iterate.h"
#include "kernels/product.h"
#include <math.h>

#define DISTANCE(name, T)                                                                 \
    static T name(const T *restrict a, const T *restrict b, int64_t n, double p) {        \
        T sum = 0;                                                                        \
        if (p == 2) {                                                                     \
            _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < n; i++) sum += \
                (a[i] - b[i]) * (a[i] - b[i]);                                            \
            return (T)sqrt(sum);                                                          \
        }                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                 \
            T d = (T)fabs(a[i] - b[i]);                                                   \
            if (p == 0)                                                                   \
                sum += d != 0;                                                            \
            else if (p == 1)                                                              \
                sum += d;                                                                 \
            else if (isinf(p))                                                            \
                sum = d > sum || d != d ? d : sum;                                        \
            else                                                                          \
                sum += (T)pow(d, p);                                                      \
        }                                                                                 \
        return p == 0 || p == 1 || isinf(p) ? sum : (T)pow(sum, 1 / p);                   \
    }

DISTANCE(distance_f32, float)
DISTANCE(distance_f64, double)

/* `v` with the output's batch: broadcast dimensions get stride 0. */
static tenon_view broadcast(const tenon_view *v, const tenon_view *out) {
    tenon_view to = *v;
    int shift = out->rank - v->rank;
    to.rank = out->rank;
    for (int d = 0; d < out->rank; d++) {
        bool there = d >= shift;
        bool batch = d < out->rank - 2;
        to.shape[d] = batch ? out->shape[d] : v->shape[d - shift];
        to.strides[d] = there && !(batch && v->shape[d - shift] == 1) ? v->strides[d - shift] : 0;
    }
    return to;
}

tenon_status TN_K(cdist)(tn_call *call) {
    const tenon_view *out = &call->out[0];
    tenon_view a = broadcast(&call->in[0], out), b = broadcast(&call->in[1], out);
    tn_class class = tn_class_of(out->dtype);
    double p = tn_arg_float(call->node, 2, 2);
    int64_t count = tenon_view_numel(out), n = a.shape[a.rank - 1];
    int64_t rows = out->shape[out->rank - 2], columns = out->shape[out->rank - 1];
    if (count == 0)
        return TENON_OK;
    const char *x = TN_K(packed)(call, class, &a), *y = TN_K(packed)(call, class, &b);
    char *to = tn_call_scratch(call, (size_t)count * tn_class_size(class));
    if (!x || !y || !to)
        return tn_no_memory();
#pragma omp parallel for num_threads(call->threads) if (count * n > TN_PARALLEL_WORK)
    for (int64_t i = 0; i < count; i++) {
        int64_t row = i / columns, column = row / rows * columns + i % columns;
        if (class == TN_CLASS_F32)
            ((float *)to)[i] =
                distance_f32((const float *)x + row * n, (const float *)y + column * n, n, p);
        else
            ((double *)to)[i] =
                distance_f64((const double *)x + row * n, (const double *)y + column * n, n, p);
    }
    TN_K(store_view)(class, out, to, call->threads);
    return TENON_OK;
}

tenon_status TN_K(pdist)(tn_call *call) {
    const tenon_view *in = &call->in[0], *out = &call->out[0];
    tn_class class = tn_class_of(out->dtype);
    double p = tn_arg_float(call->node, 1, 2);
    int64_t rows = in->shape[0], n = in->shape[1], count = tenon_view_numel(out);
    if (count == 0)
        return TENON_OK;
    const char *x = TN_K(packed)(call, class, in);
    char *to = tn_call_scratch(call, (size_t)count * tn_class_size(class));
    if (!x || !to)
        return tn_no_memory();
#pragma omp parallel for schedule(dynamic) \
    num_threads(call->threads) if (count * n > TN_PARALLEL_WORK)
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = i * rows - i * (i + 1) / 2; /* pairs before row i's */
        for (int64_t j = i + 1; j < rows; j++, at++) {
            if (class == TN_CLASS_F32)
                ((float *)to)[at] =
                    distance_f32((const float *)x + i * n, (const float *)x + j * n, n, p);
            else
                ((double *)to)[at] =
                    distance_f64((const double *)x + i * n, (const double *)x + j * n, n, p);
        }
    }
    TN_K(store_view)(class, out, to, call->threads);
    return TENON_OK;
}
