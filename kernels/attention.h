/* What attention's driver and its loops for one type share. */
#ifndef TN_ATTENTION_H
#define TN_ATTENTION_H

#include "kernels/product.h"

enum { TN_ATTENTION_ROWS = 96, TN_ATTENTION_KEYS = 256 }; /* of the scores that exist at once */

/* One matrix of a batch; strides in elements. */
typedef struct tn_attention_matrix {
    char *data;
    tenon_dtype dtype;
    int64_t row, column;
} tn_attention_matrix;

typedef struct tn_attention {
    tn_class class;
    int64_t queries, keys, width, value_width;
    double scale;
    bool causal;
    tn_attention_matrix query, key, value, mask,
        out;        /* of the batch at hand; mask.data may be NULL */
    size_t scratch; /* bytes for the products */
} tn_attention;

/* A thread's memory: scores, the output's rows, a row of the mask, statistics of each row, and the
 * products' scratch. */
typedef struct tn_attention_memory {
    char *scores, *sums, *mask, *best, *total, *products;
} tn_attention_memory;

/* Queries row..row + rows - 1 of the batch at hand, for class float and where packing all keys and
 * values pays: many queries. `memory` has as many bytes as attention_panels_size gives, aligned
 * to 64. */
size_t TN_K(attention_panels_size)(const tn_attention *a);
void TN_K(attention_panels)(const tn_attention *a, int64_t row, int64_t rows, void *memory);

#endif
