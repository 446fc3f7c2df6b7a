/* Shapes of scaled dot-product attention. */
#include "core/infer.h"
#include <string.h>

/* Broadcasts the dimensions before the last two. */
static tenon_status batch_of(tn_infer *infer, tn_meta *batch, const tn_meta *from, int heads) {
    tn_meta part = *from;
    part.rank -= 2;
    if (heads > 1)
        part.shape[part.rank - 1] *= heads;
    return tn_infer_broadcast(infer, batch, &part);
}

/* Query [..., l, e], key [..., s, e], value [..., s, v]. With `gqa`, key and value heads are
 * repeated to the query's. */
static tenon_status attention(tn_infer *infer, int mask_index, bool gqa) {
    tn_meta q, k, v, mask, batch = {0};
    int dropout = tn_op_param(infer->op, "dropout_p");
    if (tn_arg_float(infer->node, dropout, 0) != 0)
        return tn_infer_fail(infer, "needs dropout_p 0");
    if (!tn_infer_in(infer, 0, &q) || !tn_infer_in(infer, 1, &k) || !tn_infer_in(infer, 2, &v))
        return tn_infer_fail(infer, "needs query, key and value");
    if (q.dtype != k.dtype || q.dtype != v.dtype || !tn_dtype_is_float(q.dtype))
        return tn_infer_fail(infer, "needs query, key and value of one floating-point dtype");
    if (q.rank < 2 || k.rank < 2 || v.rank < 2)
        return tn_infer_fail(infer, "needs query, key and value of rank 2 at least");
    if (q.shape[q.rank - 1] != k.shape[k.rank - 1] || k.shape[k.rank - 2] != v.shape[v.rank - 2])
        return tn_infer_fail(infer, "needs query and key of one last size, and key and value of "
                                    "one length");
    int repeat_k = 1, repeat_v = 1;
    if (gqa) {
        if (q.rank < 3 || k.rank < 3 || v.rank < 3)
            return tn_infer_fail(infer, "needs a dimension of heads with enable_gqa");
        int64_t hq = q.shape[q.rank - 3], hk = k.shape[k.rank - 3], hv = v.shape[v.rank - 3];
        if (hk < 1 || hv < 1 || hq % hk != 0 || hq % hv != 0 || hq / hk > INT32_MAX ||
            hq / hv > INT32_MAX)
            return tn_infer_fail(infer, "needs query heads that are a multiple of the others");
        repeat_k = (int)(hq / hk);
        repeat_v = (int)(hq / hv);
    }
    TN_TRY(batch_of(infer, &batch, &q, 1));
    TN_TRY(batch_of(infer, &batch, &k, repeat_k));
    TN_TRY(batch_of(infer, &batch, &v, repeat_v));
    tn_meta *out = &infer->out[0];
    *out = batch;
    out->dtype = q.dtype;
    out->shape[out->rank++] = q.shape[q.rank - 2];
    out->shape[out->rank++] = v.shape[v.rank - 1];
    if (!tn_infer_in(infer, mask_index, &mask))
        return TENON_OK;
    if (mask.dtype != TENON_BOOL && mask.dtype != q.dtype && mask.dtype != TENON_FLOAT32)
        return tn_infer_fail(infer, "needs a mask of bool or of the query's dtype, not %s",
                             tenon_dtype_text(mask.dtype));
    tn_meta scores = *out, both;
    scores.shape[scores.rank - 1] = k.shape[k.rank - 2];
    both = scores;
    TN_TRY(tn_infer_broadcast(infer, &both, &mask));
    if (both.rank != scores.rank ||
        memcmp(both.shape, scores.shape, sizeof(int64_t) * both.rank) != 0)
        return tn_infer_fail(infer, "needs a mask that broadcasts to the scores' shape");
    return TENON_OK;
}

tenon_status tn_infer_attention(tn_infer *infer) {
    return attention(infer, 3, tn_arg_bool(infer->node, 7));
}

/* _scaled_dot_product_flash_attention_for_cpu: the second output is the logarithm of each row's
 * sum. */
tenon_status tn_infer_flash_attention(tn_infer *infer) {
    TN_TRY(attention(infer, 5, false));
    tn_meta *out = &infer->out[0], *sums = &infer->out[1];
    *sums = *out;
    sums->rank--;
    sums->dtype = out->dtype == TENON_FLOAT64 ? TENON_FLOAT64 : TENON_FLOAT32;
    return TENON_OK;
}
