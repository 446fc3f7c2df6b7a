/* Views of parts: select, unbind, slice, narrow, split, chunk, diagonal, unfold. Semantics are
 * PyTorch's. */
#include "core/view.h"
#include <string.h>

/* ---- select and unbind ---- */

static void without(const tn_meta *in, int dim, tn_meta *out) {
    out->dtype = in->dtype;
    out->rank = 0;
    for (int d = 0; d < in->rank; d++)
        if (d != dim)
            out->shape[out->rank++] = in->shape[d];
}

tenon_status tn_infer_select(tn_infer *infer) {
    tn_meta in;
    int dim;
    tn_infer_in(infer, 0, &in);
    if (in.rank == 0)
        return tn_infer_fail(infer, "cannot select from a 0-d tensor");
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), in.rank, &dim));
    int64_t at = tn_arg_int(infer->node, 2, 0);
    if (at < -in.shape[dim] || at >= in.shape[dim])
        return tn_infer_fail(infer, "index %lld is outside dimension %d of size %lld",
                             (long long)at, dim, (long long)in.shape[dim]);
    without(&in, dim, &infer->out[0]);
    return TENON_OK;
}

static bool select_at(const tenon_node *node, int64_t at, const tenon_view *in, tenon_view *out) {
    int dim;
    if (!tn_view_dim(tn_arg_int(node, 1, 0), in->rank, &dim))
        return false;
    tn_view_shift(out, (at < 0 ? at + in->shape[dim] : at) * in->strides[dim]);
    for (int d = 0, n = 0; d < in->rank; d++)
        if (d != dim)
            out->strides[n++] = in->strides[d];
    return true;
}

bool tn_view_select(const tenon_node *node, int index, const tenon_view *in, tenon_view *out) {
    (void)index;
    return select_at(node, tn_arg_int(node, 2, 0), in, out);
}

tenon_status tn_infer_unbind(tn_infer *infer) {
    tn_meta in;
    int dim;
    tn_infer_in(infer, 0, &in);
    if (in.rank == 0)
        return tn_infer_fail(infer, "cannot unbind a 0-d tensor");
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), in.rank, &dim));
    if (in.shape[dim] > TN_MAX_PARTS)
        return tn_infer_fail(infer, "gives %lld outputs, too many", (long long)in.shape[dim]);
    TN_TRY(tn_infer_list(infer, (int)in.shape[dim]));
    for (int i = 0; i < infer->out_count; i++)
        without(&in, dim, &infer->out[i]);
    return TENON_OK;
}

bool tn_view_unbind(const tenon_node *node, int index, const tenon_view *in, tenon_view *out) {
    return select_at(node, index, in, out);
}

/* ---- slice and narrow ---- */

/* Start, end (clamped) and step along a dimension of that size; returns what is wrong, or NULL. */
static const char *bounds(const tenon_node *node, int64_t size, int64_t *start, int64_t *end,
                          int64_t *step) {
    *start = tn_arg_int(node, 2, 0);
    if (node->op->id == TN_OP_narrow) {
        int64_t length = tn_arg_int(node, 3, 0);
        *start += *start < 0 ? size : 0;
        *step = 1;
        if (*start < 0 || length < 0 || *start > size || length > size - *start)
            return "the part lies outside the dimension";
        *end = *start + length;
        return NULL;
    }
    *end = tn_arg_int(node, 3, INT64_MAX);
    *step = tn_arg_int(node, 4, 1);
    if (*step <= 0)
        return "the step must be positive";
    *start += *start < 0 ? size : 0;
    *end += *end < 0 ? size : 0;
    *start = *start < 0 ? 0 : *start > size ? size : *start;
    *end = *end < *start ? *start : *end > size ? size : *end;
    return NULL;
}

tenon_status tn_infer_slice(tn_infer *infer) {
    tn_meta in;
    int dim;
    int64_t start, end, step;
    tn_infer_in(infer, 0, &in);
    if (in.rank == 0)
        return tn_infer_fail(infer, "cannot slice a 0-d tensor");
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), in.rank, &dim));
    const char *message = bounds(infer->node, in.shape[dim], &start, &end, &step);
    if (message)
        return tn_infer_fail(infer, "%s", message);
    infer->out[0] = in;
    infer->out[0].shape[dim] = (end - start) / step + ((end - start) % step != 0);
    return TENON_OK;
}

bool tn_view_slice(const tenon_node *node, int index, const tenon_view *in, tenon_view *out) {
    int dim;
    int64_t start, end, step;
    (void)index;
    if (!tn_view_dim(tn_arg_int(node, 1, 0), in->rank, &dim) ||
        bounds(node, in->shape[dim], &start, &end, &step))
        return false;
    memcpy(out->strides, in->strides, sizeof out->strides);
    tn_view_shift(out, start * in->strides[dim]);
    if (out->shape[dim] > 1) /* a step may be as large as int64 allows */
        out->strides[dim] *= step;
    return true;
}

/* ---- split, chunk, tensor_split ---- */

static bool parts_are_listed(const tenon_node *node) {
    return node->op->id == TN_OP_split_with_sizes || node->op->id == TN_OP_split_sizes;
}

/* How many parts, or -1 when there can be none such. */
static int64_t part_count(const tenon_node *node, int64_t total) {
    int64_t n = tn_arg_int(node, 1, 0);
    if (parts_are_listed(node))
        return node->args[1].count;
    if (n <= 0)
        return n == 0 && total == 0 && node->op->id == TN_OP_split_Tensor ? 1 : -1;
    if (node->op->id == TN_OP_tensor_split_sections)
        return n;
    if (node->op->id == TN_OP_chunk) {
        if (total == 0)
            return n;
        n = total / n + (total % n != 0);
    }
    return total == 0 ? 1 : total / n + (total % n != 0);
}

/* Where part `index` starts; the part after the last one starts at the dimension's end. */
static int64_t part_start(const tenon_node *node, int64_t total, int index) {
    int64_t n = tn_arg_int(node, 1, 0), start = 0;
    if (parts_are_listed(node)) {
        for (int i = 0; i < index; i++)
            start += node->args[1].as.list[i].as.i;
        return start;
    }
    if (total == 0)
        return 0;
    if (node->op->id == TN_OP_tensor_split_sections)
        return index * (total / n) + (index < total % n ? index : total % n);
    if (node->op->id == TN_OP_chunk)
        n = total / n + (total % n != 0);
    return index == 0 || n < total / index ? index * n : total < index * n ? total : index * n;
}

static tenon_status check_list(tn_infer *infer, int64_t total) {
    const tenon_arg *list = &infer->node->args[1];
    int64_t sum = 0;
    for (int i = 0; i < list->count; i++) {
        int64_t length = list->as.list[i].kind == TENON_ARG_INT ? list->as.list[i].as.i : -1;
        if (length < 0 || length > total - sum)
            return tn_infer_fail(infer, "part %d of %lld does not fit in size %lld", i,
                                 (long long)length, (long long)total);
        sum += length;
    }
    if (sum != total)
        return tn_infer_fail(infer, "the parts add up to %lld, the dimension has %lld",
                             (long long)sum, (long long)total);
    return TENON_OK;
}

tenon_status tn_infer_split(tn_infer *infer) {
    tn_meta in;
    int dim;
    tn_infer_in(infer, 0, &in);
    if (in.rank == 0)
        return tn_infer_fail(infer, "cannot split a 0-d tensor");
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 2, 0), in.rank, &dim));
    int64_t total = in.shape[dim], count = part_count(infer->node, total);
    if (count < 0 || count > TN_MAX_PARTS)
        return tn_infer_fail(infer, "cannot split size %lld into such parts", (long long)total);
    if (parts_are_listed(infer->node))
        TN_TRY(check_list(infer, total));
    TN_TRY(tn_infer_list(infer, (int)count));
    for (int i = 0; i < infer->out_count; i++) {
        infer->out[i] = in;
        infer->out[i].shape[dim] =
            part_start(infer->node, total, i + 1) - part_start(infer->node, total, i);
    }
    return TENON_OK;
}

bool tn_view_split(const tenon_node *node, int index, const tenon_view *in, tenon_view *out) {
    int dim;
    if (!tn_view_dim(tn_arg_int(node, 2, 0), in->rank, &dim))
        return false;
    memcpy(out->strides, in->strides, sizeof out->strides);
    tn_view_shift(out, part_start(node, in->shape[dim], index) * in->strides[dim]);
    return true;
}

/* ---- diagonal ---- */

static bool diagonal_dims(const tenon_node *node, int rank, int *a, int *b) {
    return rank >= 2 && tn_view_dim(tn_arg_int(node, 2, 0), rank, a) &&
           tn_view_dim(tn_arg_int(node, 3, 1), rank, b) && *a != *b;
}

tenon_status tn_infer_diagonal(tn_infer *infer) {
    tn_meta in, *out = &infer->out[0];
    int a, b;
    tn_infer_in(infer, 0, &in);
    if (!diagonal_dims(infer->node, in.rank, &a, &b))
        return tn_infer_fail(infer, "needs two different dimensions of rank %d", in.rank);
    int64_t shift = tn_arg_int(infer->node, 1, 0), rows = in.shape[a], columns = in.shape[b], left;
    if (shift >= 0)
        left = shift >= columns ? 0 : columns - shift < rows ? columns - shift : rows;
    else
        left = shift <= -rows ? 0 : rows + shift < columns ? rows + shift : columns;
    out->dtype = in.dtype;
    for (int d = 0; d < in.rank; d++)
        if (d != a && d != b)
            out->shape[out->rank++] = in.shape[d];
    out->shape[out->rank++] = left;
    return TENON_OK;
}

bool tn_view_diagonal(const tenon_node *node, int index, const tenon_view *in, tenon_view *out) {
    int a, b, n = 0;
    (void)index;
    if (!diagonal_dims(node, in->rank, &a, &b))
        return false;
    for (int d = 0; d < in->rank; d++)
        if (d != a && d != b)
            out->strides[n++] = in->strides[d];
    out->strides[n] = in->strides[a] + in->strides[b];
    int64_t shift = tn_arg_int(node, 1, 0);
    if (out->shape[n] > 0)
        tn_view_shift(out, shift >= 0 ? shift * in->strides[b] : -shift * in->strides[a]);
    return true;
}

/* ---- unfold: windows along a dimension ---- */

tenon_status tn_infer_unfold(tn_infer *infer) {
    tn_meta in, *out = &infer->out[0];
    int dim;
    int64_t size = tn_arg_int(infer->node, 2, 0), step = tn_arg_int(infer->node, 3, 0);
    tn_infer_in(infer, 0, &in);
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), in.rank, &dim));
    int64_t total = in.rank ? in.shape[dim] : 1;
    if (size < 0 || size > total || step <= 0 || in.rank == TENON_MAX_RANK)
        return tn_infer_fail(infer, "windows of %lld, %lld apart, do not fit in size %lld",
                             (long long)size, (long long)step, (long long)total);
    *out = in;
    if (in.rank)
        out->shape[dim] = (total - size) / step + 1;
    out->shape[out->rank++] = size;
    return TENON_OK;
}

bool tn_view_unfold(const tenon_node *node, int index, const tenon_view *in, tenon_view *out) {
    int dim;
    (void)index;
    if (!tn_view_dim(tn_arg_int(node, 1, 0), in->rank, &dim))
        return false;
    memcpy(out->strides, in->strides, sizeof out->strides);
    out->strides[in->rank] = in->rank ? in->strides[dim] : 1;
    if (in->rank && out->shape[dim] > 1)
        out->strides[dim] = in->strides[dim] * tn_arg_int(node, 3, 1);
    return true;
}
