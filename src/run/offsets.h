/* Where each buffer lies in the arena. */
#ifndef TN_OFFSETS_H
#define TN_OFFSETS_H

#include "core/util.h"

#define TN_ALIGN 64

/* A buffer that is in use from step `first` to step `last`, both included. */
typedef struct tn_buffer {
    int64_t size;
    int32_t first, last;
    int64_t offset; /* set by tn_offsets_assign: a multiple of TN_ALIGN */
} tn_buffer;

/* Gives buffers that are in use at the same time memory that does not overlap, and sets `*total` to
 * the bytes needed. Near-linear time; OUT_OF_MEMORY, INVALID_ARGUMENT when the sizes overflow. */
tenon_status tn_offsets_assign(tn_buffer *buffers, int32_t count, int64_t *total);

/* No arena is smaller: the largest number of bytes in use in one step. -1 when memory is out. */
int64_t tn_offsets_bound(const tn_buffer *buffers, int32_t count);

#endif
