/* Composites that move elements, or make them of their places:
 *
 *     diag(v, k)          ->  tril(triu(columns of v, k), k)
 *     take(x, i)          ->  index(flat x, i)
 *     nonzero_static(x)   ->  searchsorted(cumsum(x != 0), [1, 2, ... size])
 *     logspace(a, b, n)   ->  base ^ linspace(a, b, n)
 *
 * Formulas are those of PyTorch's documentation, and of ATen where rounding depends on them.
 */
#include "fusion/composite.h"
#include "fusion/lower.h"
#include <stdlib.h>
#include <string.h>

/* ---- Diagonals and triangles ---- */

/* A square matrix with x (of rank 1) on diagonal `offset`, and zeros. */
tenon_value *tn_make_diagonal_matrix(tn_maker *m, tenon_value *x, int64_t offset) {
    int64_t extra = offset < 0 ? -offset : offset, size, shape[2];
    if (!tn_add(x->shape[0], extra, &size)) {
        tn_maker_refuse(m, "diagonal %lld is too far away", (long long)offset);
        size = 0;
    }
    shape[0] = shape[1] = size;
    tenon_arg pad[2] = {INT(0), INT(extra)};
    x = MAKE(constant_pad_nd, VAL(x), tenon_arg_list(pad, 2));
    x = MAKE(unsqueeze, VAL(x), INT(offset < 0 ? 0 : 1)); /* below: the column says which element */
    x = tn_make_expand(m, x, shape, 2);
    x = MAKE(triu, VAL(x), INT(offset));
    return MAKE(tril, VAL(x), INT(offset));
}

tenon_status tn_lower_diag(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0);
    int64_t offset = tn_arg_int(node, 1, 0);
    if (node->op->id == TN_OP_diagflat)
        x = tn_make_flat(m, x);
    if (x->rank != 1 && x->rank != 2)
        return tn_pass_refuse(node, "needs one or two dimensions");
    with[0] =
        x->rank == 2 ? MAKE(diagonal, VAL(x), INT(offset)) : tn_make_diagonal_matrix(m, x, offset);
    return m->status;
}

tenon_status tn_lower_trace(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    if (tn_arg_value(node, 0)->rank != 2)
        return tn_pass_refuse(node, "needs a matrix");
    with[0] = MAKE1(sum, MAKE(diagonal, node->args[0]));
    return m->status;
}

/* What is listed as a constant is made whenever shapes are inferred, also of a node that nobody
 * uses. So much of it is 32 MiB. */
#define MOST_LISTED ((int64_t)1 << 22)

/* The columns of row `row` that are in the triangle: from *first up to *last. */
static void triangle_row(const tenon_node *node, int64_t row, int64_t *first, int64_t *last) {
    int64_t columns = tn_arg_int(node, 1, 0);
    bool upper = node->op->id == TN_OP_triu_indices;
    __int128 edge = (__int128)row + tn_arg_int(node, 2, 0) + !upper;
    int64_t at = edge < 0 ? 0 : edge > columns ? columns : (int64_t)edge;
    *first = upper ? at : 0;
    *last = upper ? columns : at;
}

/* Rows and columns of the elements of a triangle, row by row. */
tenon_status tn_lower_triangle_places(tenon_node *node, tenon_value **with) {
    tn_maker m = {node};
    int64_t rows = tn_arg_int(node, 0, 0), columns = tn_arg_int(node, 1, 0), all, first, last;
    tenon_dtype dtype = tn_arg_dtype(node, 3);
    if (dtype == TENON_DTYPE_NONE)
        dtype = TENON_INT64;
    if (rows < 0 || columns < 0 || !tn_mul(rows, columns, &all) || all > 8 * MOST_LISTED)
        return tn_pass_refuse(node, "its sizes are negative or too large");
    if (dtype != TENON_INT64 && dtype != TENON_INT32)
        return tn_pass_refuse(node, "gives int32 or int64");
    int64_t shape[2] = {2, 0};
    for (int64_t i = 0; i < rows && columns > 0; i++) {
        triangle_row(node, i, &first, &last);
        shape[1] += last > first ? last - first : 0;
    }
    if (2 * shape[1] > MOST_LISTED)
        return tn_pass_refuse(node, "its sizes are negative or too large");
    int64_t *places = malloc((2 * (size_t)shape[1] + 1) * sizeof *places);
    if (!places)
        return tn_no_memory();
    for (int64_t i = 0, n = 0; i < rows && columns > 0; i++) {
        triangle_row(node, i, &first, &last);
        for (int64_t j = first; j < last; j++, n++) {
            places[n] = i;
            places[shape[1] + n] = j;
        }
    }
    with[0] = tn_make_ints(&m, dtype, places, 2, shape);
    free(places);
    return m.status;
}

/* ---- Products of sets ---- */

tenon_status tn_lower_cartesian_prod(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    const tenon_arg *list = &node->args[0];
    tenon_arg items[TENON_MAX_RANK];
    if (list->count < 1 || list->count > TENON_MAX_RANK)
        return tn_pass_refuse(node, "needs 1 to %d tensors", TENON_MAX_RANK);
    for (int i = 0; i < list->count; i++)
        if (list->as.list[i].as.value->rank != 1)
            return tn_pass_refuse(node, "needs tensors of one dimension");
    if (list->count == 1) {
        with[0] = MAKE(alias, list->as.list[0]);
        return m->status;
    }
    tenon_value *grid = MAKE(meshgrid_indexing, node->args[0], tenon_arg_string("ij"));
    for (int i = 0; i < list->count; i++)
        items[i] = VAL(tn_make_flat(m, tn_made_output(m, grid, i)));
    with[0] = MAKE(stack, tenon_arg_list(items, list->count), INT(1));
    return m->status;
}

/* The next choice of r of n in order; false after the last one. */
static bool next_choice(int64_t *choice, int r, int64_t n, bool repeat) {
    int i = r - 1;
    while (i >= 0 && choice[i] == n - 1 - (repeat ? 0 : r - 1 - i))
        i--;
    if (i < 0)
        return false;
    choice[i]++;
    for (int k = i + 1; k < r; k++)
        choice[k] = choice[k - 1] + !repeat;
    return true;
}

/* How many choices of r of n there are; more than `most` are most + 1. */
static int64_t count_choices(int64_t n, int64_t r, bool repeat, int64_t most) {
    __int128 count = 1;
    if (repeat && n > most)
        return most + 1;
    if (repeat && n > 0)
        n += r - 1;
    if (r > n)
        return 0;
    r = r < n - r ? r : n - r;
    for (int64_t k = 1; k <= r && count <= most; k++) /* n choose k, which grows up to n / 2 */
        count = count * (n - k + 1) / k;
    return count <= most ? (int64_t)count : most + 1;
}

tenon_status tn_lower_combinations(tenon_node *node, tenon_value **with) {
    enum { MOST = 16 };
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0);
    int64_t r = tn_arg_int(node, 1, 2), n = x->rank ? x->shape[0] : 0, choice[MOST] = {0};
    bool repeat = tn_arg_bool(node, 2);
    const int64_t none = 0;
    if (x->rank != 1 || r < 0 || r > MOST)
        return tn_pass_refuse(node, "needs one dimension, of which it takes 0 to %d", MOST);
    if (r == 0) {
        with[0] = tn_make_full(m, 1, &none, x->dtype, 0);
        return m->status;
    }
    const int64_t count = count_choices(n, r, repeat, MOST_LISTED / r), flat = count * r;
    if (flat > MOST_LISTED)
        return tn_pass_refuse(node, "it gives too many combinations");
    int64_t *all = malloc(((size_t)flat + 1) * sizeof *all);
    if (!all)
        return tn_no_memory();
    for (int k = 0; k < r; k++)
        choice[k] = repeat ? 0 : k;
    for (int64_t i = 0; i < count; i++, next_choice(choice, (int)r, n, repeat))
        memcpy(all + i * r, choice, (size_t)r * sizeof *choice);
    tenon_value *places = tn_make_ints(m, TENON_INT64, all, 1, &flat);
    free(all);
    x = MAKE(index_select, VAL(x), INT(0), VAL(places));
    const int64_t shape[2] = {count, r};
    with[0] = tn_make_view(m, x, shape, 2);
    return m->status;
}

/* ---- By index ---- */

static tenon_value *index_flat(tn_maker *m, tenon_value *x, tenon_value *index) {
    tenon_arg item = VAL(index);
    return MAKE(index_Tensor, VAL(x), tenon_arg_list(&item, 1));
}

tenon_status tn_lower_take(tenon_node *node, tenon_value **with) {
    tn_maker m = {node};
    tenon_value *index = tn_arg_value(node, 1);
    if (index->dtype != TENON_INT64)
        return tn_pass_refuse(node, "needs an int64 index");
    with[0] = index_flat(&m, tn_make_flat(&m, tn_arg_value(node, 0)), index);
    return m.status;
}

tenon_status tn_lower_put(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *index = tn_arg_value(node, 1);
    tenon_value *source = tn_arg_value(node, 2);
    if (index->dtype != TENON_INT64 || source->dtype != x->dtype ||
        tn_count_elements(index->shape, index->rank) !=
            tn_count_elements(source->shape, source->rank))
        return tn_pass_refuse(node, "needs an int64 index, and as many elements of self's dtype");
    tenon_arg item = VAL(tn_make_flat(m, index));
    tenon_value *flat = MAKE(index_put, VAL(tn_make_flat(m, x)), tenon_arg_list(&item, 1),
                             VAL(tn_make_flat(m, source)), node->args[3]);
    with[0] = tn_make_view(m, flat, x->shape, x->rank);
    return m->status;
}

/* scatter_reduce, with the index of a slice for all of its elements */
tenon_status tn_lower_index_reduce(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0), *index = tn_arg_value(node, 2);
    tenon_value *source = tn_arg_value(node, 3), *self = x;
    int dim = tn_maker_dim(m, tn_arg_int(node, 1, 0), x->rank);
    int64_t shape[TENON_MAX_RANK];
    const int64_t one = 1;
    if (index->rank > 1 || source->rank != x->rank || source->dtype != x->dtype ||
        tn_count_elements(index->shape, index->rank) != (x->rank ? source->shape[dim] : 1))
        return tn_pass_refuse(node, "needs an index for each slice of a source like self");
    if (x->rank == 0) {
        self = tn_make_view(m, x, &one, 1);
        source = tn_make_view(m, source, &one, 1);
    }
    for (int i = 0; i < self->rank; i++)
        shape[i] = i == dim ? tn_count_elements(index->shape, index->rank) : 1;
    index = tn_make_view(m, tn_make_cast(m, index, TENON_INT64), shape, self->rank);
    index = tn_make_expand(m, index, source->shape, source->rank);
    self = MAKE(scatter_reduce_two, VAL(self), INT(dim), VAL(index), VAL(source), node->args[4],
                node->args[5]);
    with[0] = tn_make_view(m, self, x->shape, x->rank);
    return m->status;
}

/* The r-th place that is not zero is the first one where r are counted; behind the last one the
 * search gives the number of elements. */
tenon_status tn_lower_nonzero_static(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0);
    int64_t size = tn_arg_int(node, 1, 0), fill = tn_arg_int(node, 2, -1), stride = 1;
    int64_t all = tn_count_elements(x->shape, x->rank), shape[2] = {size, x->rank};
    tenon_arg columns[TENON_MAX_RANK];
    if (size < 0)
        return tn_pass_refuse(node, "needs a size of at least 0");
    if (all == 0 || x->rank == 0) {
        with[0] = MAKE(full, tn_ints(columns, shape, 2), INT(fill), DTY(TENON_INT64));
        return m->status;
    }
    tenon_value *is = MAKE(ne_Scalar, VAL(tn_make_flat(m, x)), INT(0));
    tenon_value *counts = MAKE(cumsum, VAL(is), INT(0));
    tenon_value *wanted = MAKE(add_Tensor, VAL(tn_make_range(m, size)), INT(1));
    tenon_value *place = MAKE2(searchsorted_Tensor, counts, wanted);
    tenon_value *found = MAKE(lt_Scalar, VAL(place), INT(all));
    for (int d = x->rank - 1; d >= 0; d--) {
        tenon_value *at = MAKE(div_Tensor_mode, VAL(place), INT(stride), tenon_arg_string("floor"));
        at = MAKE(remainder_Scalar, VAL(at), INT(x->shape[d]));
        columns[d] = VAL(MAKE(where_ScalarOther, VAL(found), VAL(at), INT(fill)));
        stride *= x->shape[d];
    }
    with[0] = MAKE(stack, tenon_arg_list(columns, x->rank), INT(1));
    return m->status;
}

tenon_status tn_lower_searchsorted_scalar(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    const tenon_arg *a = node->args;
    tenon_value *sequence = tn_arg_value(node, 0);
    bool exact = a[1].kind != TENON_ARG_FLOAT || tn_dtype_is_float(sequence->dtype);
    tenon_dtype dtype = exact ? sequence->dtype : TENON_FLOAT32;
    if (sequence->rank != 1)
        return tn_pass_refuse(node, "a number is searched in one dimension, not in %d",
                              sequence->rank);
    tenon_value *wanted = MAKE(scalar_tensor, a[1], DTY(dtype));
    with[0] = MAKE(searchsorted_Tensor, VAL(tn_make_cast(m, sequence, dtype)), VAL(wanted), a[2],
                   a[3], a[4], a[5]);
    return m->status;
}

tenon_status tn_lower_msort(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    with[0] = MAKE(sort, node->args[0], INT(0));
    return m->status;
}

/* Sums over dimensions in front, and over those that become 1. */
tenon_status tn_lower_sum_to_size(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    tenon_value *x = tn_arg_value(node, 0);
    int64_t size[TENON_MAX_RANK];
    tenon_arg dims[TENON_MAX_RANK];
    int rank = tn_arg_ints(node, 1, size, TENON_MAX_RANK), count = 0;
    if (rank < 0 || rank > x->rank)
        return tn_pass_refuse(node, "needs at most %d sizes", x->rank);
    for (int d = 0; d < x->rank; d++) {
        int to = d - (x->rank - rank);
        if (to >= 0 && size[to] != x->shape[d] && size[to] != 1)
            return tn_pass_refuse(node, "size %lld does not broadcast to %lld", (long long)size[to],
                                  (long long)x->shape[d]);
        if (to < 0 || size[to] != x->shape[d])
            dims[count++] = INT(d);
    }
    if (rank == 0)
        x = MAKE1(sum, x);
    else if (count)
        x = MAKE(sum_dim_IntList, VAL(x), tenon_arg_list(dims, count), BOO(true));
    with[0] = tn_make_view(m, x, size, rank);
    return m->status;
}

/* ---- linspace and logspace with ends that are computed ---- */

static tenon_value *end_of(tn_maker *m, const tenon_arg *arg, tenon_dtype dtype, tenon_dtype wide) {
    const int64_t one = 1;
    if (arg->kind != TENON_ARG_VALUE)
        return tn_make_cast(m, MAKE(scalar_tensor, *arg, DTY(dtype)), wide);
    if (arg->as.value->rank != 0)
        tn_maker_refuse(m, "its ends must have no dimensions");
    return tn_make_cast(m, tn_make_cast(m, tn_make_view(m, arg->as.value, &one, 1), dtype), wide);
}

/* start + step * i in the first half, end - step * (n - 1 - i) in the second one (ATen's
 * linspace_kernel); integers in float64. */
static tenon_value *spaced(tn_maker *m, const tenon_arg *ends, int64_t steps, tenon_dtype dtype,
                           tenon_dtype wide) {
    if (tn_dtype_is_float(dtype))
        dtype = wide;
    tenon_value *start = end_of(m, &ends[0], dtype, wide), *end = end_of(m, &ends[1], dtype, wide);
    if (steps < 2)
        return tn_make_expand(m, start, &steps, 1);
    tenon_value *i = MAKE(arange, INT(steps), DTY(wide));
    tenon_value *left = MAKE(rsub_Scalar, VAL(i), INT(steps - 1));
    tenon_value *step = MAKE(div_Tensor, VAL(MAKE2(sub_Tensor, end, start)), INT(steps - 1));
    tenon_value *front = MAKE2(add_Tensor, start, MAKE2(mul_Tensor, step, i));
    tenon_value *back = MAKE2(sub_Tensor, end, MAKE2(mul_Tensor, step, left));
    tenon_value *first = MAKE(lt_Scalar, VAL(i), INT(steps / 2));
    return MAKE(where_self, VAL(first), VAL(front), VAL(back));
}

tenon_status tn_lower_spaced(tenon_node *node, tenon_value **with) {
    tn_maker maker = {node}, *m = &maker;
    int base = tn_op_param(node->op, "base");
    int64_t steps = tn_arg_int(node, 2, 0);
    tenon_dtype dtype = tn_arg_dtype(node, tn_op_param(node->op, "dtype"));
    if (dtype == TENON_DTYPE_NONE)
        dtype = TENON_FLOAT32;
    if (steps < 0 || dtype == TENON_BOOL)
        return tn_pass_refuse(node, "needs numbers, and no negative count");
    bool single = tn_dtype_is_float(dtype) && dtype != TENON_FLOAT64;
    single = single && (base < 0 || steps > 1); /* ATen raises a lone one in double */
    tenon_value *x = spaced(m, node->args, steps, dtype, single ? TENON_FLOAT32 : TENON_FLOAT64);
    if (base >= 0)
        x = MAKE(pow_Scalar, node->args[base], VAL(tn_make_cast(m, x, TENON_FLOAT64)));
    with[0] = tn_make_cast(m, x, dtype);
    return m->status;
}
