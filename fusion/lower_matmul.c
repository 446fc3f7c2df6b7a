/* Products of tensors become mm, bmm and linear on views. They need sizes.
 *
 *     x [.., n, k] -- expand - view [b, n, k] --.
 *                                               bmm - view [.., n, m]      matmul(x, y)
 *     y [.., k, m] -- expand - view [b, k, m] --'
 *
 * (torch.matmul's rules: dimensions in front broadcast, vectors get a dimension that goes again.)
 */
#include "fusion/lower.h"

static bool known(const tenon_value *a, const tenon_value *b) {
    return a && b && tn_value_static(a) && tn_value_static(b);
}

static int64_t product(const int64_t *sizes, int count) {
    int64_t all = 1;
    for (int i = 0; i < count; i++)
        all *= sizes[i];
    return all;
}

/* The value in the shape batch + its last two sizes, flattened to rank 3. */
static tenon_status as_batch(tenon_node *node, tenon_value *x, const int64_t *batch, int batch_rank,
                             tenon_value **out) {
    int64_t shape[TENON_MAX_RANK], flat[3];
    tenon_arg items[TENON_MAX_RANK];
    for (int i = 0; i < batch_rank; i++)
        shape[i] = batch[i];
    shape[batch_rank] = x->shape[x->rank - 2];
    shape[batch_rank + 1] = x->shape[x->rank - 1];
    TN_TRY(tn_emit(node, TN_OP_expand, &x, TN_ARGS(VAL(x), tn_ints(items, shape, batch_rank + 2))));
    flat[0] = product(batch, batch_rank);
    flat[1] = shape[batch_rank];
    flat[2] = shape[batch_rank + 1];
    return tn_emit_view(node, x, flat, 3, out);
}

/* Two matrices or more:  broadcast batches -> bmm -> the batches' shape */
static tenon_status matmul_batches(tenon_node *node, tenon_value *a, tenon_value *b,
                                   tenon_value **out) {
    int64_t shape[TENON_MAX_RANK];
    int rank = (a->rank > b->rank ? a->rank : b->rank) - 2;
    if (rank + 2 > TENON_MAX_RANK)
        return tn_pass_refuse(node, "rank above %d", TENON_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        int ia = i - rank + a->rank - 2, ib = i - rank + b->rank - 2;
        int64_t sa = ia >= 0 ? a->shape[ia] : 1, sb = ib >= 0 ? b->shape[ib] : 1;
        if (sa != sb && sa != 1 && sb != 1)
            return tn_pass_refuse(node, "batch sizes %lld and %lld do not broadcast", (long long)sa,
                                  (long long)sb);
        shape[i] = sa == 1 ? sb : sa;
    }
    shape[rank] = a->shape[a->rank - 2];
    shape[rank + 1] = b->shape[b->rank - 1];
    TN_TRY(as_batch(node, a, shape, rank, &a));
    TN_TRY(as_batch(node, b, shape, rank, &b));
    TN_TRY(tn_emit(node, TN_OP_bmm, out, TN_ARGS(VAL(a), VAL(b))));
    return tn_emit_view(node, *out, shape, rank + 2, out);
}

/* x (..., k) by a matrix (k, n):  all but x's last dimension are rows. */
static tenon_status matmul_rows(tenon_node *node, tenon_value *a, tenon_value *b,
                                tenon_value **out) {
    int64_t rows[2] = {product(a->shape, a->rank - 1), a->shape[a->rank - 1]};
    int64_t shape[TENON_MAX_RANK];
    for (int i = 0; i < a->rank - 1; i++)
        shape[i] = a->shape[i];
    shape[a->rank - 1] = b->shape[1];
    int rank = a->rank;
    TN_TRY(tn_emit_view(node, a, rows, 2, &a));
    TN_TRY(tn_emit(node, TN_OP_mm, out, TN_ARGS(VAL(a), VAL(b))));
    return tn_emit_view(node, *out, shape, rank, out);
}

/* torch.matmul: vectors count as a row on the left and a column on the right, and their dimension
 * goes again. */
tenon_status tn_lower_matmul(tenon_node *node, tenon_value **with) {
    tenon_value *a = tn_arg_value(node, 0), *b = tn_arg_value(node, 1), *y;
    if (!known(a, b))
        return TENON_OK;
    if (a->rank < 1 || b->rank < 1)
        return tn_pass_refuse(node, "its inputs need at least one dimension");
    bool row = a->rank == 1, column = b->rank == 1;
    if (row && column)
        return tn_emit(node, TN_OP_dot, with, TN_ARGS(VAL(a), VAL(b)));
    if (row)
        TN_TRY(tn_emit(node, TN_OP_unsqueeze, &a, TN_ARGS(VAL(a), INT(0))));
    if (column)
        TN_TRY(tn_emit(node, TN_OP_unsqueeze, &b, TN_ARGS(VAL(b), INT(1))));
    if (a->shape[a->rank - 1] != b->shape[b->rank - 2])
        return tn_pass_refuse(node, "sizes %lld and %lld do not agree",
                              (long long)a->shape[a->rank - 1], (long long)b->shape[b->rank - 2]);
    if (a->rank == 2 && b->rank == 2)
        TN_TRY(tn_emit(node, TN_OP_mm, &y, TN_ARGS(VAL(a), VAL(b))));
    else if (b->rank == 2)
        TN_TRY(matmul_rows(node, a, b, &y));
    else
        TN_TRY(matmul_batches(node, a, b, &y));
    if (row)
        TN_TRY(tn_emit(node, TN_OP_squeeze_dim, &y, TN_ARGS(VAL(y), INT(-2))));
    if (column)
        TN_TRY(tn_emit(node, TN_OP_squeeze_dim, &y, TN_ARGS(VAL(y), INT(-1))));
    with[0] = y;
    return TENON_OK;
}

/* Sums over the given dimensions of both:  permute them together, flatten, mm, and back to what is
 * left of the shapes. */
static tenon_status contract(tenon_node *node, tenon_value *a, tenon_value *b, const int64_t *da,
                             const int64_t *db, int count, tenon_value **out) {
    int64_t order_a[TENON_MAX_RANK], order_b[TENON_MAX_RANK], shape[TENON_MAX_RANK];
    bool used_a[TENON_MAX_RANK] = {0}, used_b[TENON_MAX_RANK] = {0};
    int64_t inner = 1, rows = 1, columns = 1;
    int free_a = 0, free_b = 0;
    for (int i = 0; i < count; i++) {
        int64_t x = da[i] < 0 ? da[i] + a->rank : da[i], y = db[i] < 0 ? db[i] + b->rank : db[i];
        bool fits = x >= 0 && x < a->rank && y >= 0 && y < b->rank && !used_a[x] && !used_b[y];
        /* One that broadcasts has the other's sum to itself, as in PyTorch. */
        if (fits && a->shape[x] != b->shape[y] && (a->shape[x] == 1 || b->shape[y] == 1)) {
            tenon_value **wide = a->shape[x] == 1 ? &b : &a;
            tenon_arg dim = INT(a->shape[x] == 1 ? y : x);
            TN_TRY(tn_emit(
                node, TN_OP_sum_dim_IntList, wide,
                TN_ARGS(VAL(*wide), tenon_arg_list(&dim, 1), BOO(true), DTY((*wide)->dtype))));
        }
        if (!fits || a->shape[x] != b->shape[y])
            return tn_pass_refuse(node, "dimensions %lld and %lld cannot be contracted",
                                  (long long)da[i], (long long)db[i]);
        used_a[x] = used_b[y] = true;
        order_a[a->rank - count + i] = x;
        order_b[i] = y;
        inner *= a->shape[x];
    }
    if (a->rank + b->rank - 2 * count > TENON_MAX_RANK)
        return tn_pass_refuse(node, "rank above %d", TENON_MAX_RANK);
    for (int i = 0; i < a->rank; i++) {
        if (used_a[i])
            continue;
        order_a[free_a] = i;
        shape[free_a++] = a->shape[i];
        rows *= a->shape[i];
    }
    for (int i = 0; i < b->rank; i++) {
        if (used_b[i])
            continue;
        order_b[count + free_b] = i;
        shape[free_a + free_b++] = b->shape[i];
        columns *= b->shape[i];
    }
    int64_t flat_a[2] = {rows, inner}, flat_b[2] = {inner, columns};
    TN_TRY(tn_emit_permute(node, a, order_a, a->rank, &a));
    TN_TRY(tn_emit_permute(node, b, order_b, b->rank, &b));
    TN_TRY(tn_emit_view(node, a, flat_a, 2, &a));
    TN_TRY(tn_emit_view(node, b, flat_b, 2, &b));
    TN_TRY(tn_emit(node, TN_OP_mm, out, TN_ARGS(VAL(a), VAL(b))));
    return tn_emit_view(node, *out, shape, free_a + free_b, out);
}

tenon_status tn_lower_tensordot(tenon_node *node, tenon_value **with) {
    tenon_value *a = tn_arg_value(node, 0), *b = tn_arg_value(node, 1);
    int64_t da[TENON_MAX_RANK], db[TENON_MAX_RANK];
    int count = tn_arg_ints(node, 2, da, TENON_MAX_RANK);
    if (!known(a, b))
        return TENON_OK;
    if (count < 0 || tn_arg_ints(node, 3, db, TENON_MAX_RANK) != count)
        return tn_pass_refuse(node, "its lists of dimensions differ in length");
    return contract(node, a, b, da, db, count, with);
}

tenon_status tn_lower_inner(tenon_node *node, tenon_value **with) {
    tenon_value *a = tn_arg_value(node, 0), *b = tn_arg_value(node, 1);
    const int64_t last = -1;
    if (!known(a, b))
        return TENON_OK;
    if (a->rank == 0 || b->rank == 0)
        return tn_emit(node, TN_OP_mul_Tensor, with, TN_ARGS(VAL(a), VAL(b)));
    return contract(node, a, b, &last, &last, 1, with);
}

tenon_status tn_lower_outer(tenon_node *node, tenon_value **with) {
    tenon_value *column;
    TN_TRY(tn_emit(node, TN_OP_unsqueeze, &column, TN_ARGS(node->args[0], INT(1))));
    return tn_emit(node, TN_OP_mul_Tensor, with, TN_ARGS(VAL(column), node->args[1]));
}

/* beta * self + alpha * sum over the batch of (batch1 @ batch2): one product, with batch and inner
 * dimension in a row. */
tenon_status tn_lower_addbmm(tenon_node *node, tenon_value **with) {
    tenon_value *a = tn_arg_value(node, 1), *b = tn_arg_value(node, 2);
    if (!known(a, b))
        return TENON_OK;
    const int64_t order[3] = {1, 0, 2}, inner = a->shape[0] * a->shape[2];
    const int64_t flat_a[2] = {a->shape[1], inner}, flat_b[2] = {inner, b->shape[2]};
    TN_TRY(tn_emit_permute(node, a, order, 3, &a));
    TN_TRY(tn_emit_view(node, a, flat_a, 2, &a));
    TN_TRY(tn_emit_view(node, b, flat_b, 2, &b));
    return tn_emit(node, TN_OP_addmm, with,
                   TN_ARGS(node->args[0], VAL(a), VAL(b), node->args[3], node->args[4]));
}

/* y[..., o] = sum over i, j of x1[..., i] w[o, i, j] x2[..., j] + b[o]:
 *     x1 (n, i) @ w as (i, o*j) -> (n, o, j);   times x2 (n, 1, j), summed over j
 * in float32 for half types, to round once. */
tenon_status tn_lower_bilinear(tenon_node *node, tenon_value **with) {
    tenon_value *x1 = tn_arg_value(node, 0), *x2 = tn_arg_value(node, 1);
    tenon_value *w = tn_arg_value(node, 2), *y;
    if (!known(x1, x2) || !tn_value_static(w))
        return TENON_OK;
    if (w->rank != 3 || x1->rank < 1 || x1->rank != x2->rank)
        return tn_pass_refuse(node, "its ranks do not fit");
    int rank = x1->rank;
    tenon_dtype dtype = x1->dtype;
    tenon_dtype wide =
        tenon_dtype_size(dtype) == 2 && tn_dtype_is_float(dtype) ? TENON_FLOAT32 : dtype;
    int64_t n = product(x1->shape, rank - 1), o = w->shape[0], i = w->shape[1], j = w->shape[2];
    const int64_t order[3] = {1, 0, 2}, flat1[2] = {n, i}, flat_w[2] = {i, o * j};
    const int64_t flat2[3] = {n, 1, j}, between[3] = {n, o, j};
    int64_t shape[TENON_MAX_RANK];
    tenon_arg last = INT(-1);
    for (int k = 0; k < rank - 1; k++)
        shape[k] = x1->shape[k];
    shape[rank - 1] = o;
    TN_TRY(tn_emit_cast(node, x1, wide, &x1));
    TN_TRY(tn_emit_cast(node, x2, wide, &x2));
    TN_TRY(tn_emit_cast(node, w, wide, &w));
    TN_TRY(tn_emit_view(node, x1, flat1, 2, &x1));
    TN_TRY(tn_emit_view(node, x2, flat2, 3, &x2));
    TN_TRY(tn_emit_permute(node, w, order, 3, &w));
    TN_TRY(tn_emit_view(node, w, flat_w, 2, &w));
    TN_TRY(tn_emit(node, TN_OP_mm, &y, TN_ARGS(VAL(x1), VAL(w))));
    TN_TRY(tn_emit_view(node, y, between, 3, &y));
    TN_TRY(tn_emit(node, TN_OP_mul_Tensor, &y, TN_ARGS(VAL(y), VAL(x2))));
    TN_TRY(tn_emit(node, TN_OP_sum_dim_IntList, &y,
                   TN_ARGS(VAL(y), tenon_arg_list(&last, 1), BOO(false), DTY(wide))));
    if (tn_arg_value(node, 3))
        TN_TRY(tn_emit(node, TN_OP_add_Tensor, &y, TN_ARGS(VAL(y), node->args[3])));
    TN_TRY(tn_emit_cast(node, y, dtype, &y));
    return tn_emit_view(node, y, shape, rank, with);
}
