/* Formulas of norms, statistics and calculus.
 *
 * They are those of PyTorch's documentation and of ATen's ReduceOps.cpp, Correlation.cpp,
 * Sorting.cpp and Integration.cpp, with their order of operations.
 */
#include "core/infer.h"
#include "fusion/composite.h"
#include "fusion/lower.h"
#include <math.h>
#include <string.h>

/* ---- Distances ---- */

tenon_value *tn_make_vector_norm(tn_maker *m, tenon_value *x, double order, const int64_t *dims,
                                 int count, bool keep, tenon_arg dtype) {
    tenon_arg items[TENON_MAX_RANK];
    return MAKE(linalg_vector_norm, VAL(x), FLT(order), count ? tn_ints(items, dims, count) : NIL,
                BOO(keep), dtype);
}

/* norm(x1 - x2 + eps) along the last dimension */
tenon_status tn_lower_pairwise_distance(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *gap = MAKE(sub_Tensor, node->args[0], node->args[1]);
    const int64_t last = -1;
    gap = MAKE(add_Tensor, VAL(gap), node->args[3]);
    with[0] = tn_make_vector_norm(m, gap, tn_arg_float(node, 2, 2), &last, gap->rank > 0,
                                  tn_arg_bool(node, 4), NIL);
    return m->status;
}

tenon_status tn_lower_dist(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *gap = MAKE(sub_Tensor, node->args[0], node->args[1]);
    with[0] = tn_make_vector_norm(m, gap, tn_arg_float(node, 2, 2), NULL, 0, false, NIL);
    return m->status;
}

/* ---- Matrix norms ---- */

/* By rows and columns `dims`: "fro", or the largest (negative order: smallest) sum of a row
 * (infinity) or a column (1). Others need singular values. */
static tenon_value *matrix_norm(tn_maker *m, tenon_value *x, double order, const char *name,
                                const int64_t *given, bool keep, tenon_arg dtype) {
    int64_t dims[2] = {tn_maker_dim(m, given[0], x->rank), tn_maker_dim(m, given[1], x->rank)};
    bool by_column = fabs(order) == 1;
    tenon_arg item;
    if (x->rank < 2 || dims[0] == dims[1])
        tn_maker_refuse(m, "needs two dimensions");
    if (name && strcmp(name, "fro") == 0)
        return tn_make_vector_norm(m, x, 2, dims, 2, keep, dtype);
    if (name || (!by_column && !isinf(order))) {
        tn_maker_refuse(m, "this norm needs singular values, which are not supported");
        return x;
    }
    int64_t summed = dims[by_column ? 0 : 1], other = dims[by_column ? 1 : 0];
    x = tn_make_vector_norm(m, x, 1, &summed, 1, keep, dtype);
    other -= other > summed && !keep;
    if (order > 0 && x->shape[other] == 0)
        return tn_make_sum(m, x, (int)other, keep); /* 0 */
    item = INT(other);
    return order > 0 ? MAKE(amax, VAL(x), tenon_arg_list(&item, 1), BOO(keep))
                     : MAKE(amin, VAL(x), tenon_arg_list(&item, 1), BOO(keep));
}

/* linalg_norm and linalg_matrix_norm: of a matrix when there are two dimensions and an order */
tenon_status tn_lower_matrix_norm(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0);
    int64_t dims[TENON_MAX_RANK] = {0, 1};
    const tenon_arg dtype = node->args[4];
    const char *name = node->args[1].kind == TENON_ARG_STRING ? tn_arg_string(node, 1) : NULL;
    bool has_order = !tn_arg_is_none(node, 1), has_dims = !tn_arg_is_none(node, 2);
    bool keep = tn_arg_bool(node, 3);
    double order = name ? 0 : tn_arg_float(node, 1, 2);
    int count = tn_arg_ints(node, 2, dims, TENON_MAX_RANK);
    if (!tn_dtype_is_float(x->dtype))
        return tn_pass_refuse(node, "needs floating-point numbers");
    if (has_order && !has_dims && (x->rank > 2 || x->rank < (name ? 2 : 1)))
        return tn_pass_refuse(node, "with an order it needs a vector or a matrix");
    bool of_matrix = has_dims ? count == 2 : x->rank == 2;
    if (has_order && (of_matrix || name)) {
        if (has_dims && count != 2)
            return tn_pass_refuse(node, "needs two dimensions");
        with[0] = matrix_norm(m, x, order, name, dims, keep, dtype);
        return m->status;
    }
    if (node->op->id == TN_OP_linalg_matrix_norm || count < 0)
        return tn_pass_refuse(node, "needs two dimensions");
    with[0] = tn_make_vector_norm(m, x, order, dims, has_dims ? count : 0, keep, dtype);
    return m->status;
}

/* ---- Products ---- */

tenon_status tn_lower_vecdot(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *product = MAKE(mul_Tensor, node->args[0], node->args[1]);
    tenon_arg dim = node->args[2];
    with[0] = MAKE(sum_dim_IntList, VAL(product), tenon_arg_list(&dim, 1), BOO(false),
                   DTY(product->dtype));
    return m->status;
}

/* 1, x, x^2, ... along a new last dimension */
tenon_status tn_lower_vander(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *parts[2];
    int64_t shape[TENON_MAX_RANK];
    const int64_t one = 1;
    if (x->rank >= TENON_MAX_RANK)
        return tn_pass_refuse(node, "needs less than %d dimensions", TENON_MAX_RANK);
    if (x->rank == 0)
        x = tn_make_view(m, x, &one, 1);
    int64_t count = tn_arg_int(node, 1, x->shape[x->rank - 1]);
    if (count < 2)
        return tn_pass_refuse(node, "needs two columns or more");
    if (!tn_dtype_is_float(x->dtype))
        x = tn_make_cast(m, x, TENON_INT64);
    memcpy(shape, x->shape, (size_t)x->rank * sizeof *shape);
    int rank = x->rank + 1;
    shape[rank - 1] = count - 1;
    x = tn_make_expand(m, MAKE(unsqueeze, VAL(x), INT(-1)), shape, rank);
    parts[1] = MAKE(cumprod, VAL(x), INT(-1));
    shape[rank - 1] = 1;
    parts[0] = tn_make_full(m, rank, shape, x->dtype, 1);
    with[0] = tn_make_cat(m, parts, 2, rank - 1);
    return m->status;
}

/* From left to right. */
tenon_status tn_lower_multi_dot(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    const tenon_arg *list = &node->args[0];
    if (list->count < 2)
        return tn_pass_refuse(node, "needs two tensors or more");
    for (int i = 0; i < list->count; i++) {
        int rank = list->as.list[i].as.value->rank;
        bool end = i == 0 || i == list->count - 1;
        if (rank != 2 && !(end && rank == 1))
            return tn_pass_refuse(node, "needs matrices, and vectors at the ends only");
    }
    tenon_value *x = MAKE(matmul, list->as.list[0], list->as.list[1]);
    for (int i = 2; i < list->count; i++)
        x = MAKE(matmul, VAL(x), list->as.list[i]);
    with[0] = x;
    return m->status;
}

/* By squares. */
tenon_status tn_lower_matrix_power(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *power = NULL;
    int64_t n = tn_arg_int(node, 1, 1);
    if (x->rank < 2 || x->shape[x->rank - 1] != x->shape[x->rank - 2])
        return tn_pass_refuse(node, "needs square matrices");
    if (n < 0)
        return tn_pass_refuse(node, "negative powers need the inverse, which is not supported");
    if (n == 0) {
        x = MAKE(eye, INT(x->shape[x->rank - 1]), DTY(x->dtype));
        const tenon_value *like = tn_arg_value(node, 0);
        with[0] = tn_make_expand(m, x, like->shape, like->rank);
        return m->status;
    }
    for (; n; n >>= 1) {
        if (n & 1)
            power = power ? MAKE2(matmul, power, x) : x;
        if (n > 1)
            x = MAKE2(matmul, x, x);
    }
    with[0] = power;
    return m->status;
}

/* beta self + alpha vec1 vec2^T; of truth values with "and" and "or" */
tenon_status tn_lower_addr(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    const tenon_arg *a = node->args;
    tenon_value *self = tn_arg_value(node, 0), *v1 = tn_arg_value(node, 1);
    tenon_value *v2 = tn_arg_value(node, 2);
    if (v1->rank != 1 || v2->rank != 1)
        return tn_pass_refuse(node, "needs two vectors");
    const int64_t shape[2] = {v1->shape[0], v2->shape[0]};
    tenon_dtype dtype = tn_result_type(node, 0, 2);
    if (dtype == TENON_FLOAT16 || dtype == TENON_BFLOAT16) { /* rounded once */
        self = tn_make_cast(m, self, TENON_FLOAT32);
        v1 = tn_make_cast(m, v1, TENON_FLOAT32);
        v2 = tn_make_cast(m, v2, TENON_FLOAT32);
    }
    tenon_value *product = MAKE2(mul_Tensor, MAKE(unsqueeze, VAL(v1), INT(1)), v2);
    self = tn_make_expand(m, self, shape, 2);
    double beta = tn_arg_float(node, 3, 1), alpha = tn_arg_float(node, 4, 1);
    if (dtype == TENON_BOOL) {
        if (alpha == 0)
            product = MAKE1(zeros_like, product);
        with[0] = beta == 0 ? product : MAKE2(logical_or, self, product);
        return m->status;
    }
    if (alpha != 1)
        product = MAKE(mul_Tensor, VAL(product), a[4]);
    if (beta != 0) { /* else self is not read, not even its NaNs */
        if (beta != 1)
            self = MAKE(mul_Tensor, VAL(self), a[3]);
        product = MAKE2(add_Tensor, self, product);
    }
    with[0] = tn_make_cast(m, product, dtype);
    return m->status;
}

/* x * 2^y */
tenon_status tn_lower_ldexp(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *power = MAKE(pow_Scalar, FLT(2), node->args[1]);
    with[0] = MAKE(mul_Tensor, node->args[0], VAL(power));
    return m->status;
}

/* ---- Comparison ---- */

/* x == y, or |x - y| <= atol + |rtol y| where the difference is finite */
tenon_status tn_lower_isclose(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *y = tn_arg_value(node, 1);
    double rtol = tn_arg_float(node, 2, 1e-5), atol = tn_arg_float(node, 3, 1e-8);
    if (x->dtype != y->dtype || rtol < 0 || atol < 0)
        return tn_pass_refuse(node, "needs tensors of one dtype, and no negative tolerances");
    tenon_value *close = MAKE2(eq_Tensor, x, y);
    bool is_float = tn_dtype_is_float(x->dtype);
    if (is_float && tn_arg_bool(node, 4))
        close = MAKE2(logical_or, close, MAKE2(logical_and, MAKE1(isnan, x), MAKE1(isnan, y)));
    if (rtol != 0 || atol != 0) {
        x = tn_make_cast(m, x, is_float ? x->dtype : TENON_FLOAT32);
        y = tn_make_cast(m, y, x->dtype);
        tenon_value *bound = MAKE1(abs, MAKE(mul_Tensor, VAL(y), FLT(rtol)));
        tenon_value *gap = MAKE1(abs, MAKE2(sub_Tensor, x, y));
        bound = MAKE(add_Tensor, VAL(bound), FLT(atol));
        gap = MAKE2(logical_and, MAKE1(isfinite, gap), MAKE2(le_Tensor, gap, bound));
        close = MAKE2(logical_or, close, gap);
    }
    with[0] = close;
    return m->status;
}

/* ---- Quantiles ---- */

/* Sorted along a last dimension, the elements at q (n - 1), or between two; n counts no NaN in
 * nanquantile. */
static tenon_value *between(tn_maker *m, tenon_value *x, tenon_value *q, bool no_nan,
                            const char *way) {
    int64_t n = x->shape[x->rank - 1];
    tenon_value *sorted = MAKE(sort, VAL(x), INT(-1)), *rank, *nan = MAKE1(isnan, sorted);
    tenon_arg last = INT(-1);
    if (no_nan) {
        rank = MAKE(sum_dim_IntList, VAL(MAKE1(logical_not, nan)), tenon_arg_list(&last, 1),
                    BOO(true));
        rank = MAKE2(mul_Tensor, q, MAKE(sub_Tensor, VAL(rank), INT(1)));
        rank = MAKE(clamp_min, VAL(rank), INT(0));
    } else {
        nan = MAKE(any_dim, VAL(nan), INT(-1), BOO(true));
        rank = MAKE(mul_Tensor, VAL(q), INT(n - 1));
        rank = MAKE(where_ScalarSelf, VAL(nan), FLT((double)(n - 1)), VAL(rank));
    }
    if (strcmp(way, "lower") == 0)
        rank = MAKE1(floor, rank);
    else if (strcmp(way, "higher") == 0)
        rank = MAKE1(ceil, rank);
    else if (strcmp(way, "nearest") == 0)
        rank = MAKE1(round, rank);
    tenon_value *low = tn_make_cast(m, rank, TENON_INT64);
    tenon_value *below = MAKE(gather, VAL(sorted), INT(-1), VAL(low));
    if (strcmp(way, "linear") != 0 && strcmp(way, "midpoint") != 0)
        return below;
    tenon_value *high = tn_make_cast(m, MAKE1(ceil, rank), TENON_INT64);
    tenon_value *above = MAKE(gather, VAL(sorted), INT(-1), VAL(high));
    if (strcmp(way, "midpoint") == 0)
        return MAKE(lerp_Scalar, VAL(below), VAL(above), FLT(0.5));
    return MAKE(lerp_Tensor, VAL(below), VAL(above),
                VAL(MAKE2(sub_Tensor, rank, tn_make_cast(m, low, rank->dtype))));
}

tenon_status tn_lower_quantile(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *q = tn_arg_value(node, 1);
    int id = node->op->id, dim = 0, rank = x->rank;
    int64_t shape[TENON_MAX_RANK + 1];
    bool all = tn_arg_is_none(node, 2), keep = tn_arg_bool(node, 3), listed = q && q->rank == 1;
    const char *way = tn_arg_string(node, 4);
    if ((x->dtype != TENON_FLOAT32 && x->dtype != TENON_FLOAT64) || (q && q->dtype != x->dtype) ||
        (q && q->rank > 1) || tn_count_elements(x->shape, rank) == 0)
        return tn_pass_refuse(node, "needs elements of float32 or float64, and q of that dtype");
    double number = tn_arg_float(node, 1, 0);
    if (!q && !(number >= 0 && number <= 1))
        return tn_pass_refuse(node, "needs a quantile from 0 to 1");
    if (!q)
        q = MAKE(scalar_tensor, node->args[1], DTY(x->dtype));
    const int64_t count = tn_count_elements(q->shape, q->rank);
    q = tn_make_view(m, q, &count, 1);
    if (!all)
        dim = tn_maker_dim(m, tn_arg_int(node, 2, 0), rank);
    if (all || rank == 0)
        x = tn_make_flat(m, x);
    else
        x = MAKE(movedim_int, VAL(x), INT(dim), INT(-1));
    x = between(m, x, q, id == TN_OP_nanquantile || id == TN_OP_nanquantile_scalar,
                way ? way : "linear");
    int n = 0; /* q in front, and the dimension itself as 1 */
    if (listed) {
        x = MAKE(movedim_int, VAL(x), INT(-1), INT(0));
        shape[n++] = count;
    }
    const tenon_value *self = tn_arg_value(node, 0);
    for (int d = 0; d < rank; d++) {
        bool gone = all || d == dim;
        if (!gone)
            shape[n++] = self->shape[d];
        else if (keep)
            shape[n++] = 1;
    }
    if (n > TENON_MAX_RANK)
        return tn_pass_refuse(node, "rank above %d", TENON_MAX_RANK);
    with[0] = tn_make_view(m, x, shape, n);
    return m->status;
}

/* ---- Covariance ---- */

/* (x - mean) w (x - mean)^T / factor, observations along the last dimension */
static tenon_value *covariance(tn_maker *m, tenon_value *x, int64_t correction, tenon_value *times,
                               tenon_value *weight) {
    const int64_t row[2] = {1, tn_count_elements(x->shape, x->rank)};
    if (x->rank > 2 || x->dtype == TENON_BOOL)
        tn_maker_refuse(m, "needs numbers of at most two dimensions");
    if (x->rank < 2)
        x = tn_make_view(m, x, row, 2);
    tenon_value *w = times && weight ? MAKE2(mul_Tensor, times, weight) : times ? times : weight;
    tenon_value *total, *factor, *mean;
    if (w)
        total = MAKE1(sum, w);
    else
        total = MAKE(scalar_tensor, INT(x->shape[1]), DTY(TENON_INT64));
    mean = tn_make_sum(m, w ? MAKE2(mul_Tensor, x, w) : x, 1, true);
    mean = MAKE2(div_Tensor, mean, total);
    if (weight && correction) {
        factor = MAKE1(sum, MAKE2(mul_Tensor, w, weight));
        factor = MAKE(mul_Tensor, VAL(factor), INT(correction));
        factor = MAKE2(sub_Tensor, total, MAKE2(div_Tensor, factor, total));
    } else {
        factor = MAKE(sub_Tensor, VAL(total), INT(correction));
    }
    factor = MAKE(clamp_min, VAL(factor), INT(0));
    x = MAKE2(sub_Tensor, x, mean);
    tenon_value *y = w ? MAKE2(mul_Tensor, x, w) : x;
    tenon_dtype wide = y->dtype;
    x = MAKE2(mm, tn_make_cast(m, x, wide), MAKE1(t, y));
    return MAKE1(squeeze, MAKE2(div_Tensor, x, factor));
}

tenon_status tn_lower_cov(tenon_node *node, tenon_value **with) {
    tn_maker m = {node};
    with[0] = covariance(&m, tn_arg_value(node, 0), tn_arg_int(node, 1, 1), tn_arg_value(node, 2),
                         tn_arg_value(node, 3));
    return m.status;
}

/* cov / (the product of the deviations), kept in -1..1 */
tenon_status tn_lower_corrcoef(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *c = covariance(m, tn_arg_value(node, 0), 1, NULL, NULL);
    if (c->rank == 0) {
        with[0] = MAKE2(div_Tensor, c, c);
        return m->status;
    }
    tenon_value *deviation = MAKE1(sqrt, MAKE1(diagonal, c));
    c = MAKE2(div_Tensor, c, MAKE(unsqueeze, VAL(deviation), INT(1)));
    c = MAKE2(div_Tensor, c, deviation);
    with[0] = MAKE(clamp, VAL(c), INT(-1), INT(1));
    return m->status;
}

/* ---- Integrals ---- */

/* The distances of the points x along a dimension of y. */
static tenon_value *steps_of(tn_maker *m, tenon_value *x, const tenon_value *y, int dim) {
    int64_t shape[TENON_MAX_RANK];
    if (x->rank < y->rank) {
        bool line = x->rank == 1;
        for (int d = 0; d < y->rank; d++) {
            int from = d - (y->rank - x->rank);
            shape[d] = line ? (d == dim ? x->shape[0] : 1) : from >= 0 ? x->shape[from] : 1;
        }
        if (line && x->shape[0] != y->shape[dim])
            tn_maker_refuse(m, "has %lld points for %lld values", (long long)x->shape[0],
                            (long long)y->shape[dim]);
        x = tn_make_view(m, x, shape, y->rank);
    }
    return MAKE2(sub_Tensor, tn_make_slice(m, x, dim, 1, INT64_MAX),
                 tn_make_slice(m, x, dim, 0, -1));
}

/* (y[:-1] + y[1:]) / 2 * dx, summed, or summed up */
tenon_status tn_lower_trapezoid(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *y = tn_arg_value(node, 0), *x = tn_arg_value(node, 1), *sides;
    int id = node->op->id, dim = tn_maker_dim(m, tn_arg_int(node, 2, -1), y->rank);
    bool running = id == TN_OP_cumulative_trapezoid_x || id == TN_OP_cumulative_trapezoid_dx;
    if (y->rank == 0)
        return tn_pass_refuse(node, "needs a dimension");
    if (!running && y->shape[dim] == 0) {
        with[0] = tn_make_sum(m, y, dim, false);
        return m->status;
    }
    if (!running && !x) { /* the ends count half */
        sides = MAKE2(add_Tensor, MAKE(select_int, VAL(y), INT(dim), INT(0)),
                      MAKE(select_int, VAL(y), INT(dim), INT(-1)));
        tenon_arg item = INT(dim);
        tenon_value *sum = MAKE(sum_dim_IntList, VAL(y), tenon_arg_list(&item, 1));
        sum = MAKE2(sub_Tensor, sum, MAKE(mul_Tensor, VAL(sides), FLT(0.5)));
        with[0] = MAKE(mul_Tensor, VAL(sum), node->args[1]);
        return m->status;
    }
    sides =
        MAKE2(add_Tensor, tn_make_slice(m, y, dim, 0, -1), tn_make_slice(m, y, dim, 1, INT64_MAX));
    tenon_value *dx = x ? steps_of(m, x, y, dim) : NULL;
    if (running && !dx) {
        sides = MAKE(mul_Tensor, VAL(sides), FLT(tn_arg_float(node, 1, 1) / 2));
        with[0] = MAKE(cumsum, VAL(sides), INT(dim));
        return m->status;
    }
    if (running) {
        tenon_value *sums = MAKE(cumsum, VAL(MAKE2(mul_Tensor, dx, sides)), INT(dim));
        with[0] = MAKE(div_Tensor, VAL(sums), FLT(2));
        return m->status;
    }
    tenon_arg item = INT(dim);
    tenon_value *sum =
        MAKE(sum_dim_IntList, VAL(MAKE2(mul_Tensor, sides, dx)), tenon_arg_list(&item, 1));
    with[0] = MAKE(div_Tensor, VAL(sum), FLT(2));
    return m->status;
}

/* ---- Gradients of samples ---- */

static tenon_value *scaled_sum(tn_maker *m, tenon_value *const *x, tenon_value *const *factor) {
    tenon_value *sum = MAKE2(mul_Tensor, x[0], factor[0]);
    sum = MAKE2(add_Tensor, sum, MAKE2(mul_Tensor, x[1], factor[1]));
    return MAKE2(add_Tensor, sum, MAKE2(mul_Tensor, x[2], factor[2]));
}

/* Factors of three neighbours, distances a and b apart, for the slope at the middle (0), the first
 * (-1) or the last (1). */
static void slopes(tn_maker *m, tenon_value *a, tenon_value *b, int at, tenon_value **out) {
    tenon_value *sum = MAKE2(add_Tensor, a, b), *product = MAKE2(mul_Tensor, a, b);
    tenon_value *first = MAKE2(mul_Tensor, a, sum), *last = MAKE2(mul_Tensor, b, sum);
    if (at == 0) {
        out[0] = MAKE1(neg, MAKE2(div_Tensor, b, first));
        out[1] = MAKE2(div_Tensor, MAKE2(sub_Tensor, b, a), product);
        out[2] = MAKE2(div_Tensor, a, last);
    } else if (at < 0) {
        out[0] = MAKE1(neg, MAKE2(div_Tensor, MAKE2(add_Tensor, sum, a), first));
        out[1] = MAKE2(div_Tensor, sum, product);
        out[2] = MAKE1(neg, MAKE2(div_Tensor, a, last));
    } else {
        out[0] = MAKE2(div_Tensor, b, first);
        out[1] = MAKE1(neg, MAKE2(div_Tensor, sum, product));
        out[2] = MAKE2(div_Tensor, MAKE2(add_Tensor, sum, b), last);
    }
}

/* `count` elements along dim from `start` on (from the end when negative). */
static tenon_value *part(tn_maker *m, tenon_value *x, int dim, int64_t start, int64_t count) {
    int64_t first = start < 0 ? start + x->shape[dim] : start;
    return tn_make_slice(m, x, dim, first, first + count);
}

/* The three places at one end. */
static void ends(tn_maker *m, tenon_value *x, int dim, bool last, tenon_value **out) {
    for (int i = 0; i < 3; i++)
        out[i] = part(m, x, dim, last ? i - 3 : i, 1);
}

/* Points `points` apart: their distances differ. */
static tenon_value *slope_at(tn_maker *m, tenon_value *x, int dim, tenon_value *points, int edge) {
    int64_t n = x->shape[dim], shape[TENON_MAX_RANK];
    tenon_value *near[3], *factors[3], *parts[3];
    if (points->rank != 1 || points->shape[0] != n) {
        tn_maker_refuse(m, "needs a coordinate for each element");
        return x;
    }
    for (int d = 0; d < x->rank; d++)
        shape[d] = d == dim ? n : 1;
    points = tn_make_view(m, points, shape, x->rank);
    tenon_value *dx =
        MAKE2(sub_Tensor, part(m, points, dim, 1, n - 1), part(m, points, dim, 0, n - 1));
    slopes(m, part(m, dx, dim, 0, n - 2), part(m, dx, dim, 1, n - 2), 0, factors);
    for (int i = 0; i < 3; i++)
        near[i] = part(m, x, dim, i, n - 2);
    parts[1] = scaled_sum(m, near, factors);
    for (int last = 0; last < 2; last++) {
        if (edge == 1) {
            tenon_value *rise = MAKE2(sub_Tensor, part(m, x, dim, last ? -1 : 1, 1),
                                      part(m, x, dim, last ? -2 : 0, 1));
            parts[2 * last] = MAKE2(div_Tensor, rise, part(m, dx, dim, last ? -1 : 0, 1));
            continue;
        }
        slopes(m, part(m, dx, dim, last ? -2 : 0, 1), part(m, dx, dim, last ? -1 : 1, 1),
               last ? 1 : -1, factors);
        ends(m, x, dim, last, near);
        parts[2 * last] = scaled_sum(m, near, factors);
    }
    return tn_make_cat(m, parts, 3, dim);
}

/* Points that are all `dx` apart. */
static tenon_value *slope_even(tn_maker *m, tenon_value *x, int dim, tenon_arg dx, int edge) {
    int64_t n = x->shape[dim];
    tenon_value *near[3], *parts[3];
    parts[1] = MAKE2(sub_Tensor, part(m, x, dim, 2, n - 2), part(m, x, dim, 0, n - 2));
    parts[1] = MAKE(div_Tensor, VAL(MAKE(div_Tensor, VAL(parts[1]), dx)), INT(2));
    for (int last = 0; last < 2; last++) {
        if (edge == 1) {
            tenon_value *rise = MAKE2(sub_Tensor, part(m, x, dim, last ? -1 : 1, 1),
                                      part(m, x, dim, last ? -2 : 0, 1));
            parts[2 * last] = MAKE(div_Tensor, VAL(rise), dx);
            continue;
        }
        ends(m, x, dim, last, near);
        tenon_value *outer = MAKE(mul_Tensor, VAL(near[last ? 2 : 0]), INT(last ? 3 : -3));
        tenon_value *middle = MAKE(mul_Tensor, VAL(near[1]), INT(last ? -4 : 4));
        tenon_value *inner = near[last ? 0 : 2];
        inner = last ? inner : MAKE1(neg, inner);
        outer = MAKE2(add_Tensor, MAKE2(add_Tensor, outer, middle), inner);
        parts[2 * last] = MAKE(div_Tensor, VAL(MAKE(div_Tensor, VAL(outer), dx)), INT(2));
    }
    return tn_make_cat(m, parts, 3, dim);
}

tenon_status tn_lower_gradient(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0);
    int spacing = tn_op_param(node->op, "spacing"), place = tn_op_param(node->op, "dim");
    int edge = (int)tn_arg_int(node, tn_op_param(node->op, "edge_order"), 1);
    int64_t dims[TENON_MAX_RANK];
    int count = tn_arg_ints(node, place, dims, TENON_MAX_RANK);
    const tenon_arg *gaps = spacing >= 0 ? &node->args[spacing] : NULL;
    bool listed = gaps && gaps->kind == TENON_ARG_LIST;
    if (tn_arg_is_none(node, place))
        for (count = 0; count < x->rank; count++)
            dims[count] = count;
    if (count < 0 || (edge != 1 && edge != 2) || (listed && gaps->count != count))
        return tn_pass_refuse(node,
                              "needs a spacing for each dimension, and edges of order 1 or 2");
    for (int i = 0; i < count; i++) {
        int dim = tn_maker_dim(m, dims[i], x->rank);
        tenon_arg gap = listed ? gaps->as.list[i] : gaps ? *gaps : INT(1);
        if (gap.kind == TENON_ARG_NONE)
            gap = INT(1);
        if (x->rank == 0 || x->shape[dim] < edge + 1)
            return tn_pass_refuse(node, "needs %d elements or more in each dimension", edge + 1);
        with[i] = gap.kind == TENON_ARG_VALUE ? slope_at(m, x, dim, gap.as.value, edge)
                                              : slope_even(m, x, dim, gap, edge);
    }
    return m->status;
}
