/* Activations as arguments of fused ops: `str activation, float alpha, float beta`. */
#ifndef TN_ACTIVATION_H
#define TN_ACTIVATION_H

#include "core/graph.h"

#define TN_ACTIVATION_LIST(X)                          \
    X(NONE, "none")                                    \
    X(RELU, "relu")                                    \
    X(CLAMP, "clamp")           /* to [alpha, beta] */ \
    X(LEAKY_RELU, "leaky_relu") /* alpha below 0 */    \
    X(HARDSWISH, "hardswish")                          \
    X(HARDSIGMOID, "hardsigmoid")                      \
    X(SIGMOID, "sigmoid")                              \
    X(SILU, "silu")                                    \
    X(GELU, "gelu")                                    \
    X(GELU_TANH, "gelu_tanh")                          \
    X(TANH, "tanh")                                    \
    X(ELU, "elu") /* alpha * (exp(x) - 1) below 0 */

typedef enum tn_activation_kind {
#define X(name, text) TN_ACT_##name,
    TN_ACTIVATION_LIST(X)
#undef X
        TN_ACT_COUNT
} tn_activation_kind;

typedef struct tn_activation {
    tn_activation_kind kind;
    float alpha, beta;
} tn_activation;

const char *tn_activation_text(tn_activation_kind kind);
/* Reads the arguments from `index` on. False when there is no activation of that name. */
bool tn_activation_read(const tenon_node *node, int index, tn_activation *out);

#endif
