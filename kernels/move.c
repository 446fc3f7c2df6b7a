/* Rearrangements: cat, stack, flip, roll, repeat, repeat_interleave, shuffles, meshgrid. Each is
 * one or a few strided copies. */
#include "core/rules.h"
#include "kernels/combine.h"
#include <string.h>

/* Copies `in` into the part of `out` that starts at `at` along `dim`; returns where the next one
 * starts. */
static int64_t put_part(const tn_call *call, const tenon_view *out, int dim, int64_t at,
                        const tenon_view *in) {
    tenon_view to = *out;
    to.data = (char *)to.data + at * tn_step(out, dim);
    to.shape[dim] = in->shape[dim];
    if (tenon_view_numel(in) > 0)
        TN_K(copy_view)(call->threads, &to, in);
    return at + in->shape[dim];
}

tenon_status TN_K(cat)(tn_call *call) {
    const tenon_view *out = &call->out[0];
    int64_t dim = tn_arg_int(call->node, 1, 0), at = 0;
    bool stack = call->node->op->id == TN_OP_stack;
    dim = dim < 0 ? dim + out->rank : dim;
    for (int i = 0; i < call->in_count; i++) {
        tenon_view in = call->in[i];
        /* PyTorch skips empty one-dimensional tensors whatever the shape of the others is. */
        if (!stack && in.rank == 1 && in.shape[0] == 0)
            continue;
        if (stack) {
            for (int d = in.rank++; d > dim; d--) {
                in.shape[d] = in.shape[d - 1];
                in.strides[d] = in.strides[d - 1];
            }
            in.shape[dim] = 1;
            in.strides[dim] = 0;
        }
        at = put_part(call, out, (int)dim, at, &in);
    }
    return TENON_OK;
}

tenon_status TN_K(flip)(tn_call *call) {
    const tenon_view *out = &call->out[0];
    tenon_view in = *tn_call_in(call, 0);
    uint32_t mask = tn_reduce_mask(call->node, 1, in.rank, false);
    if (tenon_view_numel(&in) == 0)
        return TENON_OK;
    for (int d = 0; d < in.rank; d++) {
        if (!(mask >> d & 1))
            continue;
        in.data = (char *)in.data + (in.shape[d] - 1) * tn_step(&in, d);
        in.strides[d] = -in.strides[d];
    }
    TN_K(copy_view)(call->threads, out, &in);
    return TENON_OK;
}

/* Copies the corners: each rolled dimension is cut into two parts, which change places. */
static void roll_dims(const tn_call *call, const tenon_view *out, const tenon_view *in,
                      const int64_t *shift) {
    int cut[TENON_MAX_RANK], cuts = 0;
    for (int d = 0; d < in->rank; d++) {
        if (shift[d] > 0)
            cut[cuts++] = d;
    }
    for (uint32_t corner = 0; corner < 1u << cuts; corner++) {
        tenon_view to = *out, from = *in;
        for (int k = 0; k < cuts; k++) {
            int d = cut[k];
            int64_t size = in->shape[d], s = shift[d];
            bool wraps = corner >> k & 1; /* the last s elements come first */
            to.shape[d] = from.shape[d] = wraps ? s : size - s;
            if (wraps)
                from.data = (char *)from.data + (size - s) * tn_step(in, d);
            else
                to.data = (char *)to.data + s * tn_step(out, d);
        }
        TN_K(copy_view)(call->threads, &to, &from);
    }
}

tenon_status TN_K(roll)(tn_call *call) {
    const tenon_view *in = tn_call_in(call, 0), *out = &call->out[0];
    int64_t shifts[TENON_MAX_RANK], dims[TENON_MAX_RANK], shift[TENON_MAX_RANK] = {0};
    int count = tn_arg_ints(call->node, 1, shifts, TENON_MAX_RANK);
    int dim_count = tn_arg_ints(call->node, 2, dims, TENON_MAX_RANK);
    int64_t n = tenon_view_numel(in);
    if (n == 0)
        return TENON_OK;
    if (dim_count == 0) { /* of the elements in row-major order */
        void *packed = tn_call_scratch(call, 2 * (size_t)n * tenon_dtype_size(in->dtype));
        if (!packed)
            return tn_no_memory();
        tenon_view from = tn_view_make(packed, in->dtype, in->rank, in->shape);
        tenon_view to = from;
        to.data = (char *)packed + n * (int64_t)tenon_dtype_size(in->dtype);
        TN_K(copy_view)(call->threads, &from, in);
        tenon_view flat = tn_view_make(from.data, in->dtype, 1, &n),
                   turned = tn_view_make(to.data, in->dtype, 1, &n);
        int64_t s = (shifts[0] % n + n) % n;
        roll_dims(call, &turned, &flat, &s);
        TN_K(copy_view)(call->threads, out, &to);
        return TENON_OK;
    }
    for (int i = 0; i < count; i++) {
        int64_t d = dims[i] < 0 ? dims[i] + in->rank : dims[i], size = in->shape[d];
        shift[d] = ((shift[d] + shifts[i] % size) % size + size) % size;
    }
    roll_dims(call, out, in, shift);
    return TENON_OK;
}

/* repeat and tile: dimension d of the output runs `repeats` times over that of the input. */
tenon_status TN_K(repeat)(tn_call *call) {
    const tenon_view *out = &call->out[0];
    tenon_view in = tn_expanded(tn_call_in(call, 0), out->rank, out->shape);
    int shift = out->rank - tn_call_in(call, 0)->rank;
    tn_walk w = tn_walk_make();
    for (int d = 0; d < out->rank; d++) {
        int64_t size = d < shift ? 1 : tn_call_in(call, 0)->shape[d - shift];
        int64_t times = size ? out->shape[d] / size : 0;
        tn_walk_dim(&w, times, size * tn_step(out, d), 0, 0);
        tn_walk_dim(&w, size, tn_step(out, d), tn_step(&in, d), 0);
    }
    if (tenon_view_numel(out) > 0)
        TN_K(copy_walk)(call, &w, out->data, out->dtype, in.data, in.dtype);
    return TENON_OK;
}

tenon_status TN_K(repeat_interleave)(tn_call *call) {
    const tenon_view *in = tn_call_in(call, 0), *out = &call->out[0];
    int64_t times = tn_arg_int(call->node, 1, 1), dim = tn_arg_int(call->node, 2, 0);
    bool flat = tn_arg_is_none(call->node, 2);
    dim = dim < 0 ? dim + in->rank : dim;
    tn_walk w = tn_walk_make();
    int64_t n = tenon_view_numel(in), step = flat ? times * tn_step(out, 0) * n : 0;
    for (int d = 0; d < in->rank; d++) {
        if (flat) {
            step = in->shape[d] ? step / in->shape[d] : 0;
            tn_walk_dim(&w, in->shape[d], step, tn_step(in, d), 0);
            continue;
        }
        tn_walk_dim(&w, in->shape[d], tn_step(out, d) * (d == dim ? times : 1), tn_step(in, d), 0);
        if (d == dim)
            tn_walk_dim(&w, times, tn_step(out, d), 0, 0);
    }
    if (flat || in->rank == 0)
        tn_walk_dim(&w, times, tn_step(out, 0), 0, 0);
    if (tenon_view_numel(out) > 0)
        TN_K(copy_walk)(call, &w, out->data, out->dtype, in->data, in->dtype);
    return TENON_OK;
}

/* pixel_shuffle: [C * r * r, H, W] to [C, H * r, W * r]; pixel_unshuffle is the way back. */
tenon_status TN_K(pixel_shuffle)(tn_call *call) {
    const tenon_view *in = tn_call_in(call, 0), *out = &call->out[0];
    bool back = call->node->op->id == TN_OP_pixel_unshuffle;
    int64_t r = tn_arg_int(call->node, 1, 1);
    const tenon_view *deep = back ? out : in, *wide = back ? in : out;
    int c = in->rank - 3;
    tn_walk w = tn_walk_make();
    int64_t step[3][2]; /* channel, row, column; of deep and wide */
    for (int k = 0; k < 3; k++) {
        step[k][0] = tn_step(deep, c + k);
        step[k][1] = tn_step(wide, c + k);
    }
    struct {
        int64_t size, deep, wide;
    } dims[5] = {{wide->shape[c], r * r * step[0][0], step[0][1]},
                 {deep->shape[c + 1], step[1][0], r * step[1][1]},
                 {r, r * step[0][0], step[1][1]},
                 {deep->shape[c + 2], step[2][0], r * step[2][1]},
                 {r, step[0][0], step[2][1]}};
    for (int d = 0; d < c; d++)
        tn_walk_dim(&w, in->shape[d], tn_step(out, d), tn_step(in, d), 0);
    for (int k = 0; k < 5; k++)
        tn_walk_dim(&w, dims[k].size, back ? dims[k].deep : dims[k].wide,
                    back ? dims[k].wide : dims[k].deep, 0);
    TN_K(copy_walk)(call, &w, out->data, out->dtype, in->data, in->dtype);
    return TENON_OK;
}

/* Channels [groups, each] become [each, groups]. */
tenon_status TN_K(channel_shuffle)(tn_call *call) {
    const tenon_view *in = tn_call_in(call, 0), *out = &call->out[0];
    int64_t groups = tn_arg_int(call->node, 1, 1), each = in->shape[1] / groups;
    tn_walk w = tn_walk_make();
    for (int d = 0; d < in->rank; d++) {
        if (d != 1) {
            tn_walk_dim(&w, in->shape[d], tn_step(out, d), tn_step(in, d), 0);
            continue;
        }
        tn_walk_dim(&w, groups, tn_step(out, d), each * tn_step(in, d), 0);
        tn_walk_dim(&w, each, groups * tn_step(out, d), tn_step(in, d), 0);
    }
    TN_K(copy_walk)(call, &w, out->data, out->dtype, in->data, in->dtype);
    return TENON_OK;
}

/* Output i runs along its own dimension; "xy" swaps the first two. */
tenon_status TN_K(meshgrid)(tn_call *call) {
    const char *indexing =
        call->node->op->id == TN_OP_meshgrid_indexing ? tn_arg_string(call->node, 1) : NULL;
    bool swap = indexing && strcmp(indexing, "xy") == 0 && call->in_count > 1;
    for (int i = 0; i < call->out_count; i++) {
        const tenon_view *out = &call->out[i], *in = &call->in[i];
        int dim = swap && i < 2 ? 1 - i : i;
        if (out->dtype == TENON_DTYPE_NONE || tenon_view_numel(out) == 0)
            continue;
        tenon_view v = tn_repeated(in->data, out);
        v.strides[dim] = in->rank ? in->strides[0] : 0;
        TN_K(copy_view)(call->threads, out, &v);
    }
    return TENON_OK;
}
