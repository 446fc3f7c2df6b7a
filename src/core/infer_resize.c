/* Shapes of resizing and grid sampling. */
#include "core/infer.h"
#include "core/window.h"

static double number_of(const tenon_arg *arg) {
    return arg->kind == TENON_ARG_FLOAT ? arg->as.f
           : arg->kind == TENON_ARG_INT ? (double)arg->as.i
                                        : 0;
}

static tenon_status image(tn_infer *infer, int n, tn_meta *in) {
    if (!tn_infer_in(infer, 0, in))
        return tn_infer_fail(infer, "needs an input");
    if (in->rank != n + 2)
        return tn_infer_fail(infer, "needs an input of rank %d, not %d", n + 2, in->rank);
    if (!tn_dtype_is_float(in->dtype) && in->dtype != TENON_UINT8)
        return tn_infer_fail(infer, "is not defined for %s", tenon_dtype_text(in->dtype));
    for (int i = 1; i < in->rank; i++) {
        if (in->shape[i] == 0)
            return tn_infer_fail(infer, "needs an input without empty dimensions but the batch");
    }
    return TENON_OK;
}

static tenon_status resized(tn_infer *infer, const tn_meta *in, const int64_t *size) {
    infer->out[0] = *in;
    for (int i = 2; i < in->rank; i++) {
        if (size[i - 2] < 1)
            return tn_infer_fail(infer, "needs output sizes of at least 1, not %lld",
                                 (long long)size[i - 2]);
        infer->out[0].shape[i] = size[i - 2];
    }
    return TENON_OK;
}

/* upsample_*: output_size is given */
tenon_status tn_infer_upsample(tn_infer *infer) {
    int n = infer->op->params[1].fixed;
    int64_t size[3];
    tn_meta in;
    TN_TRY(image(infer, n, &in));
    if (tn_window_ints(infer->node, 1, size, n) != n)
        return tn_infer_fail(infer, "needs %d numbers as output_size", n);
    return resized(infer, &in, size);
}

/* upsample_*.vec: output_size or scale_factors, one of them None; sizes are rounded toward zero */
tenon_status tn_infer_upsample_vec(tn_infer *infer) {
    const tenon_node *node = infer->node;
    int factors = infer->op->param_count - 1, n;
    bool by_size = !tn_arg_is_none(node, 1), by_scale = !tn_arg_is_none(node, factors);
    int64_t size[3];
    tn_meta in;
    if (!tn_infer_in(infer, 0, &in))
        return tn_infer_fail(infer, "needs an input");
    n = in.rank - 2;
    if (n < 1 || n > 3)
        return tn_infer_fail(infer, "needs an input of rank 3 to 5, not %d", in.rank);
    TN_TRY(image(infer, n, &in));
    if (by_size == by_scale)
        return tn_infer_fail(infer, "needs either output_size or scale_factors");
    if (by_size) {
        if (tn_arg_ints(node, 1, size, 3) != n)
            return tn_infer_fail(infer, "needs %d numbers as output_size", n);
        return resized(infer, &in, size);
    }
    const tenon_arg *list = &node->args[factors];
    if (list->kind != TENON_ARG_LIST || list->count != n)
        return tn_infer_fail(infer, "needs %d numbers as scale_factors", n);
    for (int i = 0; i < n; i++) {
        double scaled = (double)in.shape[2 + i] * number_of(&list->as.list[i]);
        if (!(scaled >= 1 && scaled < 9e18))
            return tn_infer_fail(infer, "needs output sizes of at least 1");
        size[i] = (int64_t)scaled;
    }
    return resized(infer, &in, size);
}

/* grid_sampler: input [n, c, h, w], grid [n, y, x, 2] */
tenon_status tn_infer_grid_sampler(tn_infer *infer) {
    tn_meta in, grid;
    TN_TRY(image(infer, 2, &in));
    if (!tn_infer_in(infer, 1, &grid) || grid.rank != 4 || grid.shape[0] != in.shape[0] ||
        grid.shape[3] != 2)
        return tn_infer_fail(infer, "needs a grid of shape [%lld, y, x, 2]",
                             (long long)in.shape[0]);
    if (grid.dtype != in.dtype || !tn_dtype_is_float(in.dtype))
        return tn_infer_fail(infer, "needs input and grid of one floating-point dtype");
    int64_t mode = tn_arg_int(infer->node, 2, 0), padding = tn_arg_int(infer->node, 3, 0);
    if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
        return tn_infer_fail(infer, "needs modes from 0 to 2");
    infer->out[0] = in;
    infer->out[0].shape[2] = grid.shape[1];
    infer->out[0].shape[3] = grid.shape[2];
    return TENON_OK;
}
