/* Composite ops that are formulas over other ops, written as nested calls.
 *
 * Their rows in ops.def have the shape rule "composite": dtype and shape of what they give are
 * those of the formula (composite.c makes it for inputs of the given shapes), so that a formula
 * stands in one place. They are lowered once all sizes are known; rules may read dtypes and sizes
 * of inputs, but not the node's outputs, and give all of them. */
#ifndef TN_COMPOSITE_H
#define TN_COMPOSITE_H

#include "fusion/rewrite.h"

/* Makes nodes before `at`. After a failure nothing more is made, and calls give a number. */
typedef struct tn_maker {
    tenon_node *at;
    tenon_status status;
} tn_maker;

tenon_value *tn_make(tn_maker *m, enum tn_op_id op, const tenon_arg *args, int count);
/* Output `index` of the node that makes `first`. */
tenon_value *tn_made_output(tn_maker *m, tenon_value *first, int index);
#define MAKE(op, ...) tn_make(m, TN_OP_##op, TN_ARGS(__VA_ARGS__))
/* MAKE of one tensor, and of two operands of any kind. */
#define MAKE1(op, x) MAKE(op, VAL(x))
#define MAKE2(op, x, y) MAKE(op, VAL(x), VAL(y))

/* ---- Shapes and dtypes ---- */

tenon_value *tn_make_view(tn_maker *m, tenon_value *x, const int64_t *shape, int rank);
tenon_value *tn_make_flat(tn_maker *m, tenon_value *x);
tenon_value *tn_make_expand(tn_maker *m, tenon_value *x, const int64_t *shape, int rank);
tenon_value *tn_make_cast(tn_maker *m, tenon_value *x, tenon_dtype dtype);
tenon_value *tn_make_slice(tn_maker *m, tenon_value *x, int dim, int64_t start, int64_t end);
tenon_value *tn_make_cat(tn_maker *m, tenon_value *const *parts, int count, int dim);
/* Sum over one dimension, kept or not, in x's dtype. */
tenon_value *tn_make_sum(tn_maker *m, tenon_value *x, int dim, bool keep);
/* 0, 1, ... count - 1 as int64 */
tenon_value *tn_make_range(tn_maker *m, int64_t count);
/* A constant of int64 numbers, or int32. */
tenon_value *tn_make_ints(tn_maker *m, tenon_dtype dtype, const int64_t *values, int rank,
                          const int64_t *shape);
tenon_value *tn_make_full(tn_maker *m, int rank, const int64_t *shape, tenon_dtype dtype,
                          double value);
/* x with another status: the first failure stays. Returns false once something failed. */
bool tn_maker_ok(const tn_maker *m);
tenon_status tn_maker_refuse(tn_maker *m, const char *format, ...) TENON_PRINTF(2, 3);
/* The dimension counted from the front; refuses one outside of the rank (0 counts as 1). */
int tn_maker_dim(tn_maker *m, int64_t dim, int rank);
int64_t tn_count_elements(const int64_t *shape, int rank);

/* ---- Ops with more than one user ---- */

tenon_value *tn_make_diagonal_matrix(tn_maker *m, tenon_value *x, int64_t offset);
tenon_value *tn_make_vector_norm(tn_maker *m, tenon_value *x, double order, const int64_t *dims,
                                 int count, bool keep, tenon_arg dtype);

#endif
