/* Shape rules of rearrangements and padding. */
#include "core/infer.h"
#include "core/rules.h"
#include <string.h>

/* Gets a list of at most `capacity` integers. */
static tenon_status get_ints(const tn_infer *infer, int index, int64_t *out, int capacity,
                             int *count) {
    *count = tn_arg_ints(infer->node, index, out, capacity);
    if (*count < 0)
        return tn_infer_fail(infer, "'%s' needs at most %d integers", infer->op->params[index].name,
                             capacity);
    return TENON_OK;
}

/* a * b, or -1 where it overflows or one is negative; the caller's tn_numel refuses it. */
static int64_t times(int64_t a, int64_t b) {
    int64_t product;
    return a >= 0 && b >= 0 && tn_mul(a, b, &product) ? product : -1;
}

static bool is_legacy_empty(const tn_meta *meta) {
    return meta->rank == 1 && meta->shape[0] == 0;
}

tenon_status tn_infer_cat(tn_infer *infer) {
    int count = tn_infer_length(infer, 0), dim = 0;
    tn_meta out = {0};
    bool any = false;
    if (count == 0)
        return tn_infer_fail(infer, "needs at least one tensor");
    for (int i = 0; i < count; i++) {
        tn_meta in;
        if (infer->node->args[0].as.list[i].kind != TENON_ARG_VALUE)
            return tn_infer_fail(infer, "item %d must be a tensor", i);
        tn_infer_item(infer, 0, i, &in);
        if (in.rank == 0)
            return tn_infer_fail(infer, "item %d has no dimensions", i);
        if (is_legacy_empty(&in))
            continue;
        if (!any) {
            TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), in.rank, &dim));
            out = in;
            any = true;
            continue;
        }
        bool fits = in.rank == out.rank;
        for (int d = 0; fits && d < in.rank; d++)
            fits = d == dim || in.shape[d] == out.shape[d];
        if (!fits) {
            char a[256], b[256];
            return tn_infer_fail(infer, "item %d, %s, does not fit %s but in dimension %d", i,
                                 tn_shape_text(in.dtype, in.rank, in.shape, a, sizeof a),
                                 tn_shape_text(out.dtype, out.rank, out.shape, b, sizeof b), dim);
        }
        if (!tn_add(out.shape[dim], in.shape[dim], &out.shape[dim]))
            return tn_infer_fail(infer, "the sum of the sizes is too large");
    }
    if (!any)
        out.rank = 1;
    out.dtype = tn_result_type(infer->node, 0, 0);
    infer->out[0] = out;
    return TENON_OK;
}

tenon_status tn_infer_stack(tn_infer *infer) {
    int count = tn_infer_length(infer, 0), dim;
    tn_meta first = {0}, in;
    if (count == 0)
        return tn_infer_fail(infer, "needs at least one tensor");
    for (int i = 0; i < count; i++) {
        if (infer->node->args[0].as.list[i].kind != TENON_ARG_VALUE)
            return tn_infer_fail(infer, "item %d must be a tensor", i);
        tn_infer_item(infer, 0, i, &in);
        if (i == 0)
            first = in;
        if (in.rank != first.rank ||
            memcmp(in.shape, first.shape, (size_t)in.rank * sizeof *in.shape) != 0)
            return tn_infer_fail(infer, "item %d has another shape than item 0", i);
    }
    if (first.rank == TENON_MAX_RANK)
        return tn_infer_fail(infer, "needs tensors of less than %d dimensions", TENON_MAX_RANK);
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), first.rank + 1, &dim));
    for (int d = first.rank++; d > dim; d--)
        first.shape[d] = first.shape[d - 1];
    first.shape[dim] = count;
    first.dtype = tn_result_type(infer->node, 0, 0);
    infer->out[0] = first;
    return TENON_OK;
}

/* The shape stays; the list of dimensions is checked. */
tenon_status tn_infer_flip(tn_infer *infer) {
    int64_t dims[TENON_MAX_RANK];
    uint32_t seen = 0;
    int count, d;
    tn_meta in;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(get_ints(infer, 1, dims, TENON_MAX_RANK, &count));
    for (int i = 0; i < count; i++) {
        TN_TRY(tn_infer_dim(infer, dims[i], in.rank, &d));
        if (seen >> d & 1)
            return tn_infer_fail(infer, "dimension %d appears twice", d);
        seen |= 1u << d;
    }
    infer->out[0] = in;
    return TENON_OK;
}

tenon_status tn_infer_roll(tn_infer *infer) {
    int64_t shifts[TENON_MAX_RANK], dims[TENON_MAX_RANK];
    int count, dim_count, d;
    tn_meta in;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(get_ints(infer, 1, shifts, TENON_MAX_RANK, &count));
    TN_TRY(get_ints(infer, 2, dims, TENON_MAX_RANK, &dim_count));
    if (count == 0 || (dim_count == 0 ? count != 1 : count != dim_count))
        return tn_infer_fail(infer, "%d shifts do not match %d dimensions", count, dim_count);
    if (in.rank == 0 && dim_count > 0)
        return tn_infer_fail(infer, "a tensor without dimensions has none to roll");
    for (int i = 0; i < dim_count; i++)
        TN_TRY(tn_infer_dim(infer, dims[i], in.rank, &d));
    infer->out[0] = in;
    return TENON_OK;
}

/* repeat, and tile, which may give fewer numbers than there are dimensions. */
tenon_status tn_infer_repeat(tn_infer *infer) {
    int64_t repeats[TENON_MAX_RANK];
    int count;
    tn_meta in, out = {0};
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(get_ints(infer, 1, repeats, TENON_MAX_RANK, &count));
    if (count < in.rank && infer->op->id != TN_OP_tile)
        return tn_infer_fail(infer, "%d repeats for %d dimensions", count, in.rank);
    out.dtype = in.dtype;
    out.rank = count > in.rank ? count : in.rank;
    for (int d = 0; d < out.rank; d++) {
        int r = d - (out.rank - count), s = d - (out.rank - in.rank);
        out.shape[d] = times(s < 0 ? 1 : in.shape[s], r < 0 ? 1 : repeats[r]);
    }
    infer->out[0] = out;
    return TENON_OK;
}

tenon_status tn_infer_repeat_interleave(tn_infer *infer) {
    tn_meta in;
    int dim;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    int64_t repeats = tn_arg_int(infer->node, 1, 0), size;
    if (tn_arg_is_none(infer->node, 2)) {
        infer->out[0] = (tn_meta){in.dtype, 1, {times(tn_numel(in.rank, in.shape), repeats)}};
        size = infer->out[0].shape[0];
    } else {
        TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 2, 0), in.rank, &dim));
        size = times(in.rank ? in.shape[dim] : 1, repeats);
        in.rank = in.rank ? in.rank : 1;
        in.shape[dim] = size;
        infer->out[0] = in;
    }
    if (!tn_arg_is_none(infer->node, 3) && tn_arg_int(infer->node, 3, 0) != size)
        return tn_infer_fail(infer, "output_size is not %lld", (long long)size);
    return TENON_OK;
}

tenon_status tn_infer_constant_pad(tn_infer *infer) {
    int64_t pad[2 * TENON_MAX_RANK];
    int count;
    tn_meta in;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(get_ints(infer, 1, pad, 2 * TENON_MAX_RANK, &count));
    if (count % 2 != 0 || count / 2 > in.rank)
        return tn_infer_fail(infer, "%d numbers do not pad %d dimensions", count, in.rank);
    for (int i = 0; i < count; i += 2) {
        int d = in.rank - 1 - i / 2;
        int64_t before = pad[i], after = pad[i + 1], size = in.shape[d], left = size;
        left += before < 0 ? (before < -size ? -size - 1 : before) : 0;
        left += after < 0 ? (after < -size ? -size - 1 : after) : 0;
        if (left < 0)
            return tn_infer_fail(infer,
                                 "dimension %d of size %lld cannot be cropped by (%lld, %lld)", d,
                                 (long long)size, (long long)before, (long long)after);
        if (!tn_add(left, before < 0 ? 0 : before, &left) ||
            !tn_add(left, after < 0 ? 0 : after, &left))
            return tn_infer_fail(infer, "dimension %d becomes too large", d);
        in.shape[d] = left;
    }
    infer->out[0] = in;
    return TENON_OK;
}

/* reflection_padNd and replication_padNd: N = half of the numbers, with or without a batch. */
tenon_status tn_infer_edge_pad(tn_infer *infer) {
    int64_t pad[2 * TENON_MAX_RANK];
    int count, id = infer->op->id;
    bool reflects = id == TN_OP_reflection_pad1d || id == TN_OP_reflection_pad2d ||
                    id == TN_OP_reflection_pad3d;
    int want = id == TN_OP_reflection_pad1d || id == TN_OP_replication_pad1d   ? 1
               : id == TN_OP_reflection_pad2d || id == TN_OP_replication_pad2d ? 2
                                                                               : 3;
    tn_meta in;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    TN_TRY(get_ints(infer, 1, pad, 2 * TENON_MAX_RANK, &count));
    if (count != 2 * want || (in.rank != want + 1 && in.rank != want + 2))
        return tn_infer_fail(infer, "needs %d numbers and %d or %d dimensions", 2 * want, want + 1,
                             want + 2);
    for (int i = 0; i < count; i += 2) {
        int d = in.rank - 1 - i / 2;
        int64_t size = in.shape[d], out;
        if (reflects && (pad[i] >= size || pad[i + 1] >= size))
            return tn_infer_fail(infer,
                                 "padding (%lld, %lld) must be less than size %lld of dimension %d",
                                 (long long)pad[i], (long long)pad[i + 1], (long long)size, d);
        if (!tn_add(size, pad[i], &out) || !tn_add(out, pad[i + 1], &out) || out < 1 || size < 1)
            return tn_infer_fail(infer,
                                 "dimension %d of size %lld cannot be padded by (%lld, %lld)", d,
                                 (long long)size, (long long)pad[i], (long long)pad[i + 1]);
        in.shape[d] = out;
    }
    infer->out[0] = in;
    return TENON_OK;
}

tenon_status tn_infer_pixel_shuffle(tn_infer *infer) {
    tn_meta in;
    bool back = infer->op->id == TN_OP_pixel_unshuffle;
    int64_t r = tn_arg_int(infer->node, 1, 0), square = times(r, r);
    TN_TRY(tn_need_tensor(infer, 0, &in));
    if (in.rank < 3 || r < 1 || square < 1)
        return tn_infer_fail(infer, "needs at least 3 dimensions and a positive factor");
    int64_t *c = &in.shape[in.rank - 3], *h = c + 1, *w = c + 2;
    if (back ? *h % r != 0 || *w % r != 0 : *c % square != 0)
        return tn_infer_fail(infer, "[%lld, %lld, %lld] does not split by factor %lld",
                             (long long)*c, (long long)*h, (long long)*w, (long long)r);
    *c = back ? times(*c, square) : *c / square;
    *h = back ? *h / r : times(*h, r);
    *w = back ? *w / r : times(*w, r);
    infer->out[0] = in;
    return TENON_OK;
}

tenon_status tn_infer_channel_shuffle(tn_infer *infer) {
    tn_meta in;
    int64_t groups = tn_arg_int(infer->node, 1, 0);
    TN_TRY(tn_need_tensor(infer, 0, &in));
    if (in.rank < 3 || groups < 1 || in.shape[1] % groups != 0)
        return tn_infer_fail(infer,
                             "needs at least 3 dimensions and channels that split into %lld groups",
                             (long long)groups);
    infer->out[0] = in;
    return TENON_OK;
}

/* Windows along each of two dimensions; the lists stand at `first` and after it. */
static tenon_status count_windows(tn_infer *infer, int first, const int64_t *size, int64_t *out) {
    int64_t kernel[2], dilation[2], padding[2], stride[2];
    int64_t *const lists[4] = {kernel, dilation, padding, stride};
    for (int k = 0; k < 4; k++) {
        if (tn_arg_ints_of(infer->node, first + k, lists[k], 2) != 2)
            return tn_infer_fail(infer, "'%s' needs two numbers",
                                 infer->op->params[first + k].name);
    }
    for (int d = 0; d < 2; d++) {
        int64_t span, padded;
        if (kernel[d] < 1 || dilation[d] < 1 || stride[d] < 1 || padding[d] < 0 ||
            !tn_mul(dilation[d], kernel[d] - 1, &span) || !tn_mul(2, padding[d], &padded) ||
            !tn_add(padded, size[d], &padded) || span >= padded)
            return tn_infer_fail(infer, "no window fits dimension %d of size %lld", d,
                                 (long long)size[d]);
        out[d] = (padded - span - 1) / stride[d] + 1;
    }
    out[2] = times(kernel[0], kernel[1]);
    return TENON_OK;
}

tenon_status tn_infer_im2col(tn_infer *infer) {
    tn_meta in;
    int64_t windows[3];
    TN_TRY(tn_need_tensor(infer, 0, &in));
    if (in.rank != 3 && in.rank != 4)
        return tn_infer_fail(infer, "needs 3 or 4 dimensions");
    TN_TRY(count_windows(infer, 1, in.shape + in.rank - 2, windows));
    in.rank--;
    in.shape[in.rank - 2] = times(in.shape[in.rank - 2], windows[2]);
    in.shape[in.rank - 1] = times(windows[0], windows[1]);
    infer->out[0] = in;
    return TENON_OK;
}

tenon_status tn_infer_col2im(tn_infer *infer) {
    tn_meta in;
    int64_t windows[3], size[2];
    TN_TRY(tn_need_tensor(infer, 0, &in));
    if (in.rank != 2 && in.rank != 3)
        return tn_infer_fail(infer, "needs 2 or 3 dimensions");
    if (tn_arg_ints_of(infer->node, 1, size, 2) != 2)
        return tn_infer_fail(infer, "'output_size' needs two numbers");
    TN_TRY(count_windows(infer, 2, size, windows));
    int c = in.rank - 2;
    if (windows[2] < 1 || in.shape[c] % windows[2] != 0 ||
        in.shape[c + 1] != times(windows[0], windows[1]))
        return tn_infer_fail(infer, "[%lld, %lld] are not the columns of such windows",
                             (long long)in.shape[c], (long long)in.shape[c + 1]);
    in.shape[c] /= windows[2];
    in.shape[c + 1] = size[0];
    in.shape[c + 2] = size[1];
    in.rank++;
    infer->out[0] = in;
    return TENON_OK;
}

tenon_status tn_infer_meshgrid(tn_infer *infer) {
    int count = tn_infer_length(infer, 0);
    tn_meta out = {0}, in;
    if (count == 0 || count > TENON_MAX_RANK)
        return tn_infer_fail(infer, "needs 1 to %d tensors", TENON_MAX_RANK);
    if (infer->op->id == TN_OP_meshgrid_indexing) {
        const char *text = tn_arg_string(infer->node, 1);
        if (!text || (strcmp(text, "ij") != 0 && strcmp(text, "xy") != 0))
            return tn_infer_fail(infer, "indexing must be \"ij\" or \"xy\"");
    }
    TN_TRY(tn_infer_list(infer, count));
    for (int i = 0; i < count; i++) {
        if (infer->node->args[0].as.list[i].kind != TENON_ARG_VALUE)
            return tn_infer_fail(infer, "item %d must be a tensor", i);
        tn_infer_item(infer, 0, i, &in);
        if (in.rank > 1 || (i > 0 && in.dtype != out.dtype))
            return tn_infer_fail(infer, "needs tensors of one dtype and at most one dimension");
        out.dtype = in.dtype;
        out.shape[out.rank++] = in.rank ? in.shape[0] : 1;
    }
    if (infer->op->id == TN_OP_meshgrid_indexing && count > 1 &&
        strcmp(tn_arg_string(infer->node, 1), "xy") == 0) {
        int64_t t = out.shape[0];
        out.shape[0] = out.shape[1];
        out.shape[1] = t;
    }
    for (int i = 0; i < count; i++)
        infer->out[i] = out;
    return TENON_OK;
}
