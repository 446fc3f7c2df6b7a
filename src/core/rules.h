/* Rules that shape rules and kernels share. */
#ifndef TN_RULES_H
#define TN_RULES_H

#include "core/infer.h"

/* The set of dimensions (bit d) that argument `index` gives: an int or a list of them; None means
 * all. An empty list means all when `empty_is_all`, else none. The dimensions were checked by the
 * shape rule; a rank of 0 gives 0. */
uint32_t tn_reduce_mask(const tenon_node *node, int index, int rank, bool empty_is_all);

/* The slice that arguments `index` (start), the next (end) and the next (step) give of a dimension
 * of `size`: its length, or -1 when the step is not positive. */
int64_t tn_slice_range(const tenon_node *node, int index, int64_t size, int64_t *start,
                       int64_t *step);

/* How many elements of a constant are not 0; -1 when the value is no constant. */
int64_t tn_constant_nonzero(const tenon_value *value);

/* The dimension along which cross and linalg_cross compute, or -1 when there is none. */
int tn_cross_dim(const tenon_node *node, int rank, const int64_t *shape);

/* Fails unless argument `index` is a tensor, not a literal number. */
tenon_status tn_need_tensor(const tn_infer *infer, int index, tn_meta *meta);
tenon_status tn_need_float(const tn_infer *infer, tenon_dtype dtype);

#endif
