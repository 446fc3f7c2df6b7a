/* Padding (constant, reflection, replication, circular) and the unrolling of windows (im2col,
 * col2im). */
#include "kernels/combine.h"
#include <string.h>

/* Padding before and after each dimension; the list counts from the last one. Negative padding
 * crops. */
static void get_padding(const tenon_node *node, int rank, int64_t *before, int64_t *after) {
    int64_t list[2 * TENON_MAX_RANK];
    int count = tn_arg_ints(node, 1, list, 2 * TENON_MAX_RANK);
    memset(before, 0, TENON_MAX_RANK * sizeof *before);
    memset(after, 0, TENON_MAX_RANK * sizeof *after);
    for (int i = 0; i + 1 < count && i / 2 < rank; i += 2) {
        before[rank - 1 - i / 2] = list[i];
        after[rank - 1 - i / 2] = list[i + 1];
    }
}

/* The part [from, from + size) of dimension d. */
static tenon_view cut(const tenon_view *v, int d, int64_t from, int64_t size) {
    tenon_view w = *v;
    w.data = (char *)w.data + from * tn_step(v, d);
    w.shape[d] = size;
    return w;
}

static void fill_part(const tn_call *call, const tenon_view *v, const void *value) {
    if (tenon_view_numel(v) > 0)
        TN_K(fill_view)(call, v, value);
}

tenon_status TN_K(constant_pad)(tn_call *call) {
    const tenon_view *in = tn_call_in(call, 0);
    int64_t before[TENON_MAX_RANK], after[TENON_MAX_RANK];
    tenon_view to = call->out[0], from = *in;
    uint64_t value[1];
    get_padding(call->node, in->rank, before, after);
    tn_scalar_bytes(&call->node->args[2], to.dtype, value);
    /* Dimension by dimension the borders are filled, and what is left of both shrinks to the part
     * in common. */
    for (int d = 0; d < in->rank; d++) {
        int64_t b = before[d], a = after[d], size = to.shape[d];
        if (b < 0)
            from = cut(&from, d, -b, from.shape[d] + b);
        if (a < 0)
            from.shape[d] += a;
        b = b < 0 ? 0 : b > size ? size : b;
        a = a < 0 ? 0 : a > size - b ? size - b : a;
        tenon_view low = cut(&to, d, 0, b), high = cut(&to, d, size - a, a);
        fill_part(call, &low, value);
        fill_part(call, &high, value);
        to = cut(&to, d, b, size - a - b);
    }
    if (tenon_view_numel(&to) > 0)
        TN_K(copy_view)(call->threads, &to, &from);
    return TENON_OK;
}

/* The input's place for place i of the output, for a dimension of `size`. */
typedef int64_t (*source_fn)(int64_t i, int64_t size);

static int64_t reflect(int64_t i, int64_t size) {
    i = i < 0 ? -i : i;
    return i >= size ? 2 * size - 2 - i : i;
}

static int64_t replicate(int64_t i, int64_t size) {
    return i < 0 ? 0 : i >= size ? size - 1 : i;
}

#define PICK_CASE(T)                                                 \
    case sizeof(T):                                                  \
        for (int64_t i = 0; i < n; i++)                              \
            *(T *)(to + i * step) = *(const T *)(from + offsets[i]); \
        break;

static void pick_run(char *to, int64_t step, const char *from, const int64_t *offsets, size_t size,
                     int64_t n) {
    switch (size) {
        PICK_CASE(uint8_t)
        PICK_CASE(uint16_t)
        PICK_CASE(uint32_t)
        PICK_CASE(uint64_t)
    default:
        break;
    }
}

/* Rows [begin, end) of the output; every element takes an input element, by a table of byte offsets
 * for each dimension. Places [low, high) of a row follow each other in the input, too. */
static void pick_part(const tenon_view *out, const tenon_view *in, int64_t *const *offsets,
                      int64_t low, int64_t high, int64_t begin, int64_t end) {
    int last = out->rank - 1;
    int64_t step = tn_step(out, last), width = out->shape[last];
    int64_t at[TENON_MAX_RANK], rest = begin;
    size_t size = tenon_dtype_size(out->dtype);
    for (int d = last - 1; d >= 0; d--) {
        at[d] = rest % out->shape[d];
        rest /= out->shape[d];
    }
    for (int64_t r = begin; r < end; r++) {
        char *to = out->data;
        const char *source = in->data;
        for (int d = 0; d < last; d++) {
            to += at[d] * tn_step(out, d);
            source += offsets[d][at[d]];
        }
        pick_run(to, step, source, offsets[last], size, low);
        TN_K(move_run)
        (to + low * step, step, source + offsets[last][low], tn_step(in, last), size, high - low);
        pick_run(to + high * step, step, source, offsets[last] + high, size, width - high);
        for (int d = last - 1; d >= 0 && ++at[d] == out->shape[d]; d--)
            at[d] = 0;
    }
}

static int is_reflection(int id) {
    return id == TN_OP_reflection_pad1d || id == TN_OP_reflection_pad2d ||
           id == TN_OP_reflection_pad3d;
}

tenon_status TN_K(edge_pad)(tn_call *call) {
    const tenon_view *in = tn_call_in(call, 0), *out = &call->out[0];
    int64_t before[TENON_MAX_RANK], after[TENON_MAX_RANK], *offsets[TENON_MAX_RANK], total = 0;
    source_fn source = is_reflection(call->node->op->id) ? reflect : replicate;
    get_padding(call->node, in->rank, before, after);
    if (tenon_view_numel(out) == 0)
        return TENON_OK;
    for (int d = 0; d < out->rank; d++)
        total += out->shape[d];
    int64_t *table = tn_call_scratch(call, (size_t)total * sizeof *table);
    if (!table)
        return tn_no_memory();
    for (int d = 0; d < out->rank; d++) {
        offsets[d] = table;
        for (int64_t i = 0; i < out->shape[d]; i++)
            *table++ = source(i - before[d], in->shape[d]) * tn_step(in, d);
    }
    int last = out->rank - 1;
    int64_t rows = tenon_view_numel(out) / out->shape[last];
    int64_t low = before[last] > 0 ? before[last] : 0, high = before[last] + in->shape[last];
    high = high < out->shape[last] ? high : out->shape[last];
    int threads = tn_threads(call, tenon_view_numel(out), rows);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; t++)
        pick_part(out, in, offsets, low, high, tn_part(rows, t, threads),
                  tn_part(rows, t + 1, threads));
    return TENON_OK;
}

/* ---- Windows
 * --------------------------------------------------------------------------------------------------
 */

typedef struct windows {
    tenon_view image, columns; /* [N, C, H, W] and [N, C * kh * kw, oh * ow] */
    int64_t kernel[2], dilation[2], padding[2], stride[2], out[2];
} windows;

static windows get_windows(const tenon_node *node, const tenon_view *image,
                           const tenon_view *columns, int first) {
    windows w = {.image = *image, .columns = *columns};
    int64_t *const lists[4] = {w.kernel, w.dilation, w.padding, w.stride};
    for (int k = 0; k < 4; k++)
        tn_arg_ints_of(node, first + k, lists[k], 2);
    if (image->rank == 3) { /* no batch */
        tenon_view *const both[2] = {&w.image, &w.columns};
        for (int k = 0; k < 2; k++) {
            memmove(both[k]->shape + 1, both[k]->shape, sizeof(int64_t) * (TENON_MAX_RANK - 1));
            memmove(both[k]->strides + 1, both[k]->strides, sizeof(int64_t) * (TENON_MAX_RANK - 1));
            both[k]->shape[0] = 1;
            both[k]->strides[0] = 0;
            both[k]->rank++;
        }
    }
    for (int d = 0; d < 2; d++)
        w.out[d] =
            (w.image.shape[2 + d] + 2 * w.padding[d] - w.dilation[d] * (w.kernel[d] - 1) - 1) /
                w.stride[d] +
            1;
    return w;
}

/* One row of windows of a channel: to the columns, or added from them. Windows [begin, end) see the
 * image. */
static void window_row(const windows *w, char *image, char *column, int64_t x0, bool add) {
    const tenon_view *im = &w->image;
    const tn_combine_fn combine = TN_K(combine)[TN_ADD][im->dtype];
    const int64_t zero = 0, n = w->out[1], step = tn_step(&w->columns, 2), stride = w->stride[1];
    size_t size = tenon_dtype_size(im->dtype);
    int64_t begin = x0 < 0 ? (-x0 + stride - 1) / stride : 0;
    int64_t end = x0 < im->shape[3] ? (im->shape[3] - x0 + stride - 1) / stride : 0;
    begin = begin < n ? begin : n;
    end = !image || end < begin ? begin : end < n ? end : n;
    char *pixel = image ? image + (x0 + begin * stride) * tn_step(im, 3) : column;
    if (add) {
        for (int64_t i = begin; i < end; i++)
            combine(pixel + (i - begin) * stride * tn_step(im, 3), column + i * step);
        return;
    }
    TN_K(move_run)(column, step, &zero, 0, size, begin);
    TN_K(move_run)(column + begin * step, step, pixel, stride * tn_step(im, 3), size, end - begin);
    TN_K(move_run)(column + end * step, step, &zero, 0, size, n - end);
}

static void window_channel(const windows *w, int64_t n, int64_t c, bool add) {
    const tenon_view *im = &w->image, *co = &w->columns;
    const int64_t kernel = w->kernel[0] * w->kernel[1];
    char *image = (char *)im->data + n * tn_step(im, 0) + c * tn_step(im, 1);
    for (int64_t k = 0; k < kernel; k++) {
        char *column = (char *)co->data + n * tn_step(co, 0) + (c * kernel + k) * tn_step(co, 1);
        int64_t x0 = k % w->kernel[1] * w->dilation[1] - w->padding[1];
        for (int64_t o = 0; o < w->out[0]; o++) {
            int64_t y = o * w->stride[0] - w->padding[0] + k / w->kernel[1] * w->dilation[0];
            bool inside = y >= 0 && y < im->shape[2];
            window_row(w, inside ? image + y * tn_step(im, 2) : NULL,
                       column + o * w->out[1] * tn_step(co, 2), x0, add);
        }
    }
}

static void each_channel(const tn_call *call, const windows *w, bool add) {
    int64_t tasks = w->image.shape[0] * w->image.shape[1];
    int threads = tn_threads(call, tenon_view_numel(&w->columns), tasks);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t t = 0; t < tasks; t++)
        window_channel(w, t / w->image.shape[1], t % w->image.shape[1], add);
}

tenon_status TN_K(im2col)(tn_call *call) {
    windows w = get_windows(call->node, tn_call_in(call, 0), &call->out[0], 1);
    each_channel(call, &w, false);
    return TENON_OK;
}

tenon_status TN_K(col2im)(tn_call *call) {
    const int64_t zero = 0;
    windows w = get_windows(call->node, &call->out[0], tn_call_in(call, 0), 2);
    fill_part(call, &call->out[0], &zero);
    each_channel(call, &w, true);
    return TENON_OK;
}
