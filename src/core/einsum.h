/* Equations of aten.einsum, as the shape rule and the pass that lowers it see them. */
#ifndef TN_EINSUM_H
#define TN_EINSUM_H

#include <stdbool.h>
#include <stdint.h>
#include <tenon/tensor.h>

#define TN_EINSUM_LABELS 52 /* A-Z, then a-z */
#define TN_EINSUM_TERMS 16

typedef struct tn_einsum_term {
    int8_t labels[TENON_MAX_RANK];
    int8_t count;
    int8_t ellipsis; /* the number of labels before "...", or -1 */
} tn_einsum_term;

typedef struct tn_einsum {
    tn_einsum_term terms[TN_EINSUM_TERMS];
    tn_einsum_term out;
    int count; /* of terms */
} tn_einsum;

/* Parses "bij,bjk->bik". Without "->", `out` is made by torch.einsum's rule. False when the text is
 * no equation, or the result names a label twice or one that no term has. */
bool tn_einsum_parse(const char *text, tn_einsum *sum);

#endif
