/* Shape rules of normalizations. */
#include "core/infer.h"
#include "core/rules.h"
#include <string.h>

/* Statistics have the parameters' dtype when they differ from the input (PyTorch's mixed mode),
 * else the input's. */
static tenon_dtype stat_dtype(const tn_infer *infer, tenon_dtype in, int first, int last) {
    tn_meta meta;
    for (int i = first; i <= last; i++) {
        if (!tn_arg_is_none(infer->node, i) && tn_infer_in(infer, i, &meta))
            return meta.dtype;
    }
    return in;
}

/* Optional parameter `index` must have that shape. */
static tenon_status need_shape(tn_infer *infer, int index, int rank, const int64_t *shape) {
    tn_meta meta;
    char text[256], need[256];
    if (tn_arg_is_none(infer->node, index))
        return TENON_OK;
    TN_TRY(tn_need_tensor(infer, index, &meta));
    TN_TRY(tn_need_float(infer, meta.dtype));
    if (meta.rank == rank && memcmp(meta.shape, shape, (size_t)rank * sizeof *shape) == 0)
        return TENON_OK;
    return tn_infer_fail(infer, "'%s' is %s, but needs the shape of %s",
                         infer->op->params[index].name,
                         tn_shape_text(meta.dtype, meta.rank, meta.shape, text, sizeof text),
                         tn_shape_text(meta.dtype, rank, shape, need, sizeof need));
}

/* The input, and how many trailing dimensions normalized_shape covers. */
static tenon_status get_trailing(tn_infer *infer, tn_meta *in, int *count) {
    int64_t shape[TENON_MAX_RANK];
    char text[256], given[256];
    TN_TRY(tn_need_tensor(infer, 0, in));
    TN_TRY(tn_need_float(infer, in->dtype));
    *count = tn_arg_ints(infer->node, 1, shape, TENON_MAX_RANK);
    if (*count < 1)
        return tn_infer_fail(infer, "normalized_shape needs 1 to %d sizes", TENON_MAX_RANK);
    if (*count > in->rank ||
        memcmp(in->shape + in->rank - *count, shape, (size_t)*count * sizeof *shape) != 0)
        return tn_infer_fail(infer, "normalized_shape %s is not the end of the input's shape %s",
                             tn_shape_text(in->dtype, *count, shape, given, sizeof given),
                             tn_shape_text(in->dtype, in->rank, in->shape, text, sizeof text));
    TN_TRY(need_shape(infer, 2, *count, shape));
    return TENON_OK;
}

tenon_status tn_infer_native_layer_norm(tn_infer *infer) {
    tn_meta in;
    int count;
    TN_TRY(get_trailing(infer, &in, &count));
    TN_TRY(need_shape(infer, 3, count, in.shape + in.rank - count));
    infer->out[0] = in;
    for (int d = in.rank - count; d < in.rank; d++)
        in.shape[d] = 1;
    in.dtype = stat_dtype(infer, in.dtype, 2, 3);
    infer->out[1] = infer->out[2] = in;
    return TENON_OK;
}

/* rms_norm, and _fused_rms_norm, which gives 1 / root too. */
tenon_status tn_infer_rms_norm(tn_infer *infer) {
    tn_meta in;
    int count;
    TN_TRY(get_trailing(infer, &in, &count));
    infer->out[0] = in;
    if (infer->out_count == 1)
        return TENON_OK;
    for (int d = in.rank - count; d < in.rank; d++)
        in.shape[d] = 1;
    if (in.dtype == TENON_FLOAT16 || in.dtype == TENON_BFLOAT16)
        in.dtype = TENON_FLOAT32;
    infer->out[1] = in;
    return TENON_OK;
}

tenon_status tn_infer_native_group_norm(tn_infer *infer) {
    tn_meta in;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(tn_need_float(infer, in.dtype));
    if (in.rank < 2 || in.rank >= TENON_MAX_RANK)
        return tn_infer_fail(infer, "needs an input of 2 to %d dimensions", TENON_MAX_RANK - 1);
    int64_t groups = tn_arg_int(infer->node, 6, 0), rest = tn_numel(in.rank - 2, in.shape + 2);
    if (tn_arg_int(infer->node, 3, 0) != in.shape[0] ||
        tn_arg_int(infer->node, 4, 0) != in.shape[1] || tn_arg_int(infer->node, 5, 0) != rest)
        return tn_infer_fail(infer, "N, C and HxW are not the sizes of the input");
    if (groups < 1 || in.shape[1] % groups != 0)
        return tn_infer_fail(infer, "%lld channels do not split into %lld groups",
                             (long long)in.shape[1], (long long)groups);
    TN_TRY(need_shape(infer, 1, 1, &in.shape[1]));
    TN_TRY(need_shape(infer, 2, 1, &in.shape[1]));
    infer->out[0] = in;
    in.dtype = stat_dtype(infer, in.dtype, 1, 2);
    in.rank = 2;
    in.shape[1] = groups;
    infer->out[1] = infer->out[2] = in;
    return TENON_OK;
}

/* With running statistics PyTorch returns empty ones; without, those of the batch. */
tenon_status tn_infer_native_batch_norm(tn_infer *infer) {
    tn_meta in;
    bool running = infer->op->id == TN_OP_native_batch_norm_legit_no_training;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(tn_need_float(infer, in.dtype));
    if (in.rank < 2)
        return tn_infer_fail(infer, "needs an input of at least 2 dimensions");
    for (int i = 1; i <= (running ? 4 : 2); i++)
        TN_TRY(need_shape(infer, i, 1, &in.shape[1]));
    if (!running && !tn_arg_bool(infer->node, 3))
        return tn_infer_fail(infer, "needs running statistics, or training = true");
    infer->out[0] = in;
    in.dtype = stat_dtype(infer, in.dtype, 1, running ? 4 : 2);
    in.rank = 1;
    in.shape[0] = running ? 0 : in.shape[1];
    infer->out[1] = infer->out[2] = in;
    return TENON_OK;
}

/* In training the statistics are those of the batch, else empty; the running ones follow. */
tenon_status tn_infer_batch_norm_legit(tn_infer *infer) {
    tn_meta in, running;
    bool training = tn_arg_bool(infer->node, 5);
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(tn_need_float(infer, in.dtype));
    if (in.rank < 2)
        return tn_infer_fail(infer, "needs an input of at least 2 dimensions");
    for (int i = 1; i <= 4; i++)
        TN_TRY(need_shape(infer, i, 1, &in.shape[1]));
    if (!training && (tn_arg_is_none(infer->node, 3) || tn_arg_is_none(infer->node, 4)))
        return tn_infer_fail(infer, "needs running statistics, or training = true");
    infer->out[0] = in;
    in.dtype = stat_dtype(infer, in.dtype, 1, 4);
    in.rank = 1;
    in.shape[0] = training ? in.shape[1] : 0;
    infer->out[1] = infer->out[2] = in;
    for (int i = 3; i < infer->out_count; i++) {
        TN_TRY(tn_need_tensor(infer, i, &running));
        infer->out[i] = running;
    }
    return TENON_OK;
}
