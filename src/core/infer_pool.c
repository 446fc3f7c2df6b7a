/* Shapes of pooling. */
#include "core/infer.h"
#include "core/window.h"

bool tn_pool_window_read(const tenon_node *node, bool max, tn_pool_window *w) {
    int n = w->n = node->op->params[1].fixed;
    for (int i = 0; i < n; i++)
        w->dilation[i] = 1;
    if (tn_window_ints(node, 1, w->kernel, n) != n)
        return false;
    int strides = tn_window_ints(node, 2, w->stride, n);
    if (strides == 0) {
        for (int i = 0; i < n; i++)
            w->stride[i] = w->kernel[i];
    } else if (strides != n) {
        return false;
    }
    if (tn_window_ints(node, 3, w->padding, n) != n)
        return false;
    if (max && tn_window_ints(node, 4, w->dilation, n) != n)
        return false;
    w->ceil = tn_arg_bool(node, max ? 5 : 4);
    return true;
}

/* PyTorch's pooling_output_shape: with ceil, the last window must start inside the input or its
 * left padding. */
static bool pool_size(const tn_pool_window *w, int i, int64_t in, int64_t *out) {
    __int128 room = (__int128)in + 2 * (__int128)w->padding[i] -
                    (__int128)w->dilation[i] * (w->kernel[i] - 1) - 1;
    if (w->ceil)
        room += w->stride[i] - 1;
    if (room < 0)
        return false;
    __int128 size = room / w->stride[i] + 1;
    if (w->ceil && (size - 1) * w->stride[i] >= (__int128)in + w->padding[i])
        size--;
    if (size < 1 || size > INT64_MAX)
        return false;
    *out = (int64_t)size;
    return true;
}

static tenon_status check_window(tn_infer *infer, const tn_pool_window *w) {
    for (int i = 0; i < w->n; i++) {
        if (w->kernel[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1)
            return tn_infer_fail(infer, "needs kernel_size, stride and dilation of at least 1");
        __int128 span = (__int128)w->dilation[i] * (w->kernel[i] - 1) + 1;
        if (w->padding[i] < 0 || w->padding[i] > span / 2)
            return tn_infer_fail(infer, "needs padding of at most half of the kernel, not %lld",
                                 (long long)w->padding[i]);
    }
    return TENON_OK;
}

static tenon_status pool_input(tn_infer *infer, int n, tn_meta *in) {
    if (!tn_infer_in(infer, 0, in))
        return tn_infer_fail(infer, "needs an input");
    if (in->rank != n + 1 && in->rank != n + 2)
        return tn_infer_fail(infer, "needs an input of rank %d or %d, not %d", n + 1, n + 2,
                             in->rank);
    return TENON_OK;
}

static tenon_status pool(tn_infer *infer, bool max) {
    tn_pool_window w;
    tn_meta in;
    if (!tn_pool_window_read(infer->node, max, &w))
        return tn_infer_fail(infer, "needs %d numbers, or one, as kernel_size, stride and padding",
                             infer->op->params[1].fixed);
    TN_TRY(check_window(infer, &w));
    TN_TRY(pool_input(infer, w.n, &in));
    if (in.shape[in.rank - w.n - 1] == 0)
        return tn_infer_fail(infer, "needs an input with channels");
    tn_meta *out = &infer->out[0];
    *out = in;
    for (int i = 0; i < w.n; i++) {
        int d = in.rank - w.n + i;
        if (!pool_size(&w, i, in.shape[d], &out->shape[d]))
            return tn_infer_fail(infer, "has no place for a window of %lld in a size of %lld",
                                 (long long)w.kernel[i], (long long)in.shape[d]);
    }
    if (infer->out_count > 1) {
        infer->out[1] = *out;
        infer->out[1].dtype = TENON_INT64;
    }
    return TENON_OK;
}

tenon_status tn_infer_avg_pool(tn_infer *infer) {
    if (infer->op->param_count > 6 && !tn_arg_is_none(infer->node, 6) &&
        tn_arg_int(infer->node, 6, 0) == 0)
        return tn_infer_fail(infer, "needs a divisor_override that is not 0");
    return pool(infer, false);
}

tenon_status tn_infer_max_pool(tn_infer *infer) {
    return pool(infer, true);
}

/* adaptive_avg_pool and adaptive_max_pool */
tenon_status tn_infer_adaptive_pool(tn_infer *infer) {
    int n = infer->op->params[1].fixed;
    int64_t size[3];
    tn_meta in;
    TN_TRY(pool_input(infer, n, &in));
    if (tn_window_ints(infer->node, 1, size, n) != n)
        return tn_infer_fail(infer, "needs %d numbers, or one, as output_size", n);
    tn_meta *out = &infer->out[0];
    *out = in;
    for (int i = 0; i < n; i++) {
        int d = in.rank - n + i;
        if (size[i] < 0)
            return tn_infer_fail(infer, "needs sizes of at least 0, not %lld", (long long)size[i]);
        if (in.shape[d] == 0)
            return tn_infer_fail(infer, "needs an input without empty spatial dimensions");
        out->shape[d] = size[i];
    }
    if (infer->out_count > 1) {
        infer->out[1] = *out;
        infer->out[1].dtype = TENON_INT64;
    }
    return TENON_OK;
}

/* Gradients by the indices of the maxima: the shape of what was pooled. */
tenon_status tn_infer_max_pool_backward(tn_infer *infer) {
    tn_meta grad, self, indices;
    if (!tn_infer_in(infer, 0, &grad) || !tn_infer_in(infer, 1, &self) ||
        !tn_infer_in(infer, infer->op->param_count - 1, &indices))
        return tn_infer_fail(infer, "needs three tensors");
    if (grad.rank != self.rank || (self.rank != 3 && self.rank != 4))
        return tn_infer_fail(infer, "needs tensors of rank 3 or 4");
    if (grad.dtype != self.dtype || indices.dtype != TENON_INT64)
        return tn_infer_fail(infer, "needs gradients of the input's dtype, and int64 indices");
    for (int d = 0; d < self.rank; d++)
        if (grad.shape[d] != indices.shape[d] ||
            (d < self.rank - 2 && grad.shape[d] != self.shape[d]))
            return tn_infer_fail(infer, "needs gradients and indices of one shape, and the input's "
                                        "batch and channels");
    infer->out[0] = self;
    return TENON_OK;
}
