/* Ops that make tensors. */
#include "kernels/convert.h"
#include "kernels/copy.h"
#include "kernels/iterate.h"
#include <math.h>
#include <string.h>

static int fill_argument(int id) {
    switch (id) {
    case TN_OP_full:
    case TN_OP_full_like:
        return 1;
    case TN_OP_new_full:
        return 2;
    case TN_OP_scalar_tensor:
        return 0;
    default:
        return -1;
    }
}

static bool is_ones(int id) {
    return id == TN_OP_ones || id == TN_OP_ones_like || id == TN_OP_new_ones;
}

/* full, ones, zeros and their like. empty gives zeros, so that every run gives the same. */
tenon_status TN_K(full)(tn_call *call) {
    int id = call->node->op->id, arg = fill_argument(id);
    int64_t number = is_ones(id);
    tenon_view value = tn_view_make(&number, TENON_INT64, 0, NULL);
    if (arg >= 0)
        value = tn_call_operand(call, arg);
    if (call->out[0].dtype != TENON_DTYPE_NONE)
        TN_K(copy_view)(call->threads, &call->out[0], &value);
    return TENON_OK;
}

/* Element i is a + i * step; from `turn` on it is counted back from b, so that linspace ends there
 * exactly. */
typedef struct series {
    bool whole;  /* integers, exactly */
    bool single; /* in float, as PyTorch does */
    int64_t start, step;
    double a, b, by;
    int64_t turn, last;
} series;

static void write_series(const tenon_view *out, const series *s) {
    tn_class class = s->whole ? TN_CLASS_I64 : TN_CLASS_F64;
    int64_t stride = out->strides[0] * (int64_t)tenon_dtype_size(out->dtype);
    for (int64_t at = 0; at < out->shape[0]; at += TN_CHUNK) {
        int64_t n = out->shape[0] - at < TN_CHUNK ? out->shape[0] - at : TN_CHUNK;
        int64_t integers[TN_CHUNK];
        double floats[TN_CHUNK];
        for (int64_t i = 0; i < n && s->whole; i++)
            integers[i] = (int64_t)((uint64_t)s->start + (uint64_t)(at + i) * (uint64_t)s->step);
        for (int64_t i = 0; i < n && !s->whole; i++) {
            int64_t k = at + i;
            if (s->single)
                floats[i] = k < s->turn ? (float)s->a + (float)s->by * (float)k
                                        : (float)s->b - (float)s->by * (float)(s->last - k);
            else
                floats[i] =
                    k < s->turn ? s->a + s->by * (double)k : s->b - s->by * (double)(s->last - k);
        }
        TN_K(store)
        [class][out->dtype]((char *)out->data + at * stride, stride,
                            s->whole ? (void *)integers : (void *)floats, n);
    }
}

tenon_status TN_K(arange)(tn_call *call) {
    const tenon_node *node = call->node;
    const tenon_view *out = &call->out[0];
    int id = node->op->id, start = id == TN_OP_arange ? -1 : 0;
    int step = id == TN_OP_arange_start_step ? 2 : -1;
    series s = {.whole = tn_dtype_is_integer(out->dtype), .turn = INT64_MAX};
    s.start = start < 0 ? 0 : tn_arg_int(node, start, 0);
    s.step = step < 0 ? 1 : tn_arg_int(node, step, 1);
    s.a = start < 0 ? 0 : tn_arg_float(node, start, 0);
    s.by = step < 0 ? 1 : tn_arg_float(node, step, 1);
    if (out->dtype != TENON_DTYPE_NONE)
        write_series(out, &s);
    return TENON_OK;
}

tenon_status TN_K(linspace)(tn_call *call) {
    const tenon_node *node = call->node;
    const tenon_view *out = &call->out[0];
    series s = {.a = tn_arg_float(node, 0, 0), .b = tn_arg_float(node, 1, 0)};
    if (out->dtype == TENON_DTYPE_NONE)
        return TENON_OK;
    s.single = tn_dtype_is_float(out->dtype) && out->dtype != TENON_FLOAT64;
    if (tn_dtype_is_integer(out->dtype)) {
        s.a = trunc(s.a);
        s.b = trunc(s.b);
    }
    s.last = out->shape[0] - 1;
    s.turn = out->shape[0] == 1 ? 1 : out->shape[0] / 2;
    s.by = s.single ? ((float)s.b - (float)s.a) / (float)s.last : (s.b - s.a) / (double)s.last;
    if (out->shape[0] == 1)
        s.by = 0;
    write_series(out, &s);
    return TENON_OK;
}

tenon_status TN_K(eye)(tn_call *call) {
    const tenon_view *out = &call->out[0];
    if (out->dtype == TENON_DTYPE_NONE)
        return TENON_OK;
    int64_t numbers[2] = {0, 1};
    tenon_view zero = tn_view_make(&numbers[0], TENON_INT64, 0, NULL), diagonal = *out;
    tenon_view one = tn_view_make(&numbers[1], TENON_INT64, 0, NULL);
    TN_K(copy_view)(call->threads, out, &zero);
    diagonal.rank = 1;
    diagonal.shape[0] = out->shape[0] < out->shape[1] ? out->shape[0] : out->shape[1];
    diagonal.strides[0] = out->strides[0] + out->strides[1];
    TN_K(copy_view)(call->threads, &diagonal, &one);
    return TENON_OK;
}

/* Element (i, j) of the last two dimensions stays where j - i <= diagonal (tril) or >= diagonal
 * (triu). */
typedef struct triangle {
    bool upper;
    int64_t diagonal;
    int64_t n, m;
    int64_t out_row, out_step, in_row, in_step;
    size_t size;
} triangle;

/* Elements [first, end) of a row stay; the others are 0. */
static void keep_part(const triangle *t, char *to, const char *from, int64_t first, int64_t end) {
    int64_t size = (int64_t)t->size;
    if (t->out_step == size && t->in_step == size) {
        memset(to, 0, (size_t)(first * size));
        memmove(to + first * size, from + first * size, (size_t)((end - first) * size));
        memset(to + end * size, 0, (size_t)((t->m - end) * size));
        return;
    }
    for (int64_t j = 0; j < t->m; j++) {
        if (j >= first && j < end)
            memmove(to + j * t->out_step, from + j * t->in_step, t->size);
        else
            memset(to + j * t->out_step, 0, t->size);
    }
}

static int64_t within(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

static void write_triangle(char *const *data, const int64_t *inner, const int64_t *outer, int64_t n,
                           int64_t rows, void *user) {
    const triangle *t = user;
    for (int64_t k = 0; k < n * rows; k++) {
        char *to = data[0] + k / n * outer[0] + k % n * inner[0];
        const char *from = data[1] + k / n * outer[1] + k % n * inner[1];
        for (int64_t i = 0; i < t->n; i++) {
            int64_t edge = within(t->diagonal, -t->n - 1, t->m + 1) + i;
            int64_t first = t->upper ? within(edge, 0, t->m) : 0;
            int64_t end = t->upper ? t->m : within(edge + 1, 0, t->m);
            keep_part(t, to + i * t->out_row, from + i * t->in_row, first, end);
        }
    }
}

tenon_status TN_K(tri)(tn_call *call) {
    const tenon_view *out = &call->out[0], *in = &call->in[0];
    if (out->dtype == TENON_DTYPE_NONE)
        return TENON_OK;
    int rank = out->rank;
    int64_t size = (int64_t)tenon_dtype_size(out->dtype);
    triangle t = {.upper = call->node->op->id == TN_OP_triu,
                  .diagonal = tn_arg_int(call->node, 1, 0),
                  .n = out->shape[rank - 2],
                  .m = out->shape[rank - 1],
                  .out_row = out->strides[rank - 2] * size,
                  .out_step = out->strides[rank - 1] * size,
                  .in_row = in->strides[rank - 2] * size,
                  .in_step = in->strides[rank - 1] * size,
                  .size = (size_t)size};
    tn_iter it;
    tn_iter_begin(&it, rank - 2, out->shape);
    tn_iter_add_strides(&it, out->data, (size_t)size, out->strides);
    tn_iter_add_strides(&it, in->data, (size_t)size, in->strides);
    tn_iter_order(&it);
    tn_iter_run(&it, call->threads, t.n * t.m > 0 ? t.n * t.m : 1, write_triangle, &t);
    return TENON_OK;
}
