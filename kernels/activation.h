/* Activations that fused ops apply to what they have in registers or in cache. The ops' arguments
 * are `str activation, float alpha, float beta`; the names are in core/activation.h. */
#ifndef TN_KERNEL_ACTIVATION_H
#define TN_KERNEL_ACTIVATION_H

#include "core/activation.h"
#include "kernels/vmath.h"

/* The bounds of an activation that is a clamp: relu is one to [0, inf], none one to [-inf, inf].
 * False for other ones, which tn_activate computes. */
static inline bool tn_activation_bounds(const tn_activation *a, float *low, float *high) {
    *low = a->kind == TN_ACT_NONE ? -INFINITY : a->kind == TN_ACT_RELU ? 0 : a->alpha;
    *high = a->kind == TN_ACT_CLAMP ? a->beta : INFINITY;
    return a->kind <= TN_ACT_CLAMP;
}

#define EACH(expression)                                      \
    do {                                                      \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) { \
            float v = x[i];                                   \
            x[i] = (expression);                              \
        }                                                     \
    } while (0)
#define WITHIN(v, low, high) ((v) < (low) ? (low) : (v) > (high) ? (high) : (v)) /* NaN stays */

/* In place, over neighbours in memory. */
static inline void tn_activate(const tn_activation *a, float *x, int64_t n) {
    const float alpha = a->alpha, beta = a->beta;
    switch (a->kind) {
    case TN_ACT_NONE:
    case TN_ACT_COUNT:
        break;
    case TN_ACT_RELU:
        EACH(v < 0 ? 0 : v);
        break;
    case TN_ACT_CLAMP:
        EACH(WITHIN(v, alpha, beta));
        break;
    case TN_ACT_LEAKY_RELU:
        EACH(v < 0 ? v * alpha : v);
        break;
    case TN_ACT_HARDSWISH:
        EACH(v * WITHIN(v + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f));
        break;
    case TN_ACT_HARDSIGMOID:
        EACH(WITHIN(v + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f));
        break;
    case TN_ACT_SIGMOID:
        EACH(tn_sigmoidf(v));
        break;
    case TN_ACT_SILU:
        EACH(v / (1.0f + tn_expf(-v)));
        break;
    case TN_ACT_GELU:
        EACH(tn_geluf(v));
        break;
    case TN_ACT_GELU_TANH:
        EACH(tn_gelu_tanhf(v));
        break;
    case TN_ACT_TANH:
        EACH(tn_tanhf(v));
        break;
    case TN_ACT_ELU:
        EACH(v > 0 ? v : alpha * tn_expm1f(v));
        break;
    }
}

#undef EACH
#undef WITHIN

#endif
