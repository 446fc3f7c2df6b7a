/* gather, take_along_dim, the scatter family, and scatters into slices. */
#include "core/rules.h"
#include "kernels/combine.h"
#include <math.h>
#include <string.h>

/* One pass over the elements of `index`, each of which names a place along `dim` of `indexed`;
 * `dense` lies beside the index. */
typedef struct pass {
    tenon_view indexed, index, dense;
    int dim;
    bool wraps; /* any index is taken modulo the size */
} pass;

typedef struct lines {
    tn_walk walk; /* array 0: indexed without `dim`, array 1: index, array 2: dense */
    int64_t n, step[TN_WALK_ARRAYS], dim_step;
} lines;

static lines make_lines(const pass *p) {
    lines l = {.walk = tn_walk_make(), .dim_step = tn_step(&p->indexed, p->dim)};
    for (int d = 0; d < p->index.rank; d++)
        tn_walk_dim(&l.walk, p->index.shape[d], d == p->dim ? 0 : tn_step(&p->indexed, d),
                    tn_step(&p->index, d), tn_step(&p->dense, d));
    if (l.walk.count == 0)
        return l;
    tn_walk_merge(&l.walk);
    l.n = tn_walk_inner(&l.walk, l.step);
    return l;
}

#define GATHER_CASE(T)                                                         \
    case sizeof(T):                                                            \
        for (int64_t i = 0; i < n; i++)                                        \
            *(T *)(to + i * l->step[2]) =                                      \
                *(const T *)(from + i * l->step[0] + places[i] * l->dim_step); \
        break;

static void gather_run(const lines *l, char *to, const char *from, const int64_t *places,
                       size_t size, int64_t n) {
    switch (size) {
        GATHER_CASE(uint8_t)
        GATHER_CASE(uint16_t)
        GATHER_CASE(uint32_t)
        GATHER_CASE(uint64_t)
    default:
        break;
    }
}

static void gather_part(const pass *p, const lines *l, int64_t begin, int64_t end) {
    tn_walk w = l->walk;
    int64_t places[TN_BLOCK];
    size_t size = tenon_dtype_size(p->indexed.dtype);
    tn_walk_seek(&w, begin);
    for (int64_t r = begin; r < end; r++) {
        for (int64_t at = 0; at < l->n; at += TN_BLOCK) {
            int64_t n = l->n - at < TN_BLOCK ? l->n - at : TN_BLOCK;
            tn_get_ints(places, (const char *)p->index.data + w.at[1] + at * l->step[1], l->step[1],
                        p->index.dtype, n);
            for (int64_t i = 0; p->wraps && i < n; i++) {
                int64_t rest = places[i] % p->indexed.shape[p->dim];
                places[i] = rest < 0 ? rest + p->indexed.shape[p->dim] : rest;
            }
            gather_run(l, (char *)p->dense.data + w.at[2] + at * l->step[2],
                       (const char *)p->indexed.data + w.at[0] + at * l->step[0], places, size, n);
        }
        tn_walk_next(&w);
    }
}

static tenon_status gather_pass(const tn_call *call, const pass *p) {
    int64_t size = p->indexed.shape[p->dim];
    if (!p->wraps)
        TN_TRY(TN_K(check_indices)(call, &p->index, size, false, "the index tensor"));
    else if (size == 0)
        return tn_call_fail(call, "a dimension of size 0 has nothing to take");
    lines l = make_lines(p);
    if (l.walk.count == 0)
        return TENON_OK;
    int threads = tn_threads(call, l.walk.count * l.n, l.walk.count);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; t++)
        gather_part(p, &l, tn_part(l.walk.count, t, threads),
                    tn_part(l.walk.count, t + 1, threads));
    return TENON_OK;
}

/* Indices were checked. In order, since places may repeat. */
static void scatter_pass(const pass *p, tn_combine how) {
    const tn_combine_fn combine = TN_K(combine)[how][p->indexed.dtype];
    lines l = make_lines(p);
    if (l.walk.count == 0)
        return;
    tn_walk w = l.walk;
    int64_t places[TN_BLOCK];
    tn_walk_seek(&w, 0);
    for (int64_t r = 0; r < w.count; r++) {
        for (int64_t at = 0; at < l.n; at += TN_BLOCK) {
            int64_t n = l.n - at < TN_BLOCK ? l.n - at : TN_BLOCK;
            char *to = (char *)p->indexed.data + w.at[0] + at * l.step[0];
            const char *from = (const char *)p->dense.data + w.at[2] + at * l.step[2];
            tn_get_ints(places, (const char *)p->index.data + w.at[1] + at * l.step[1], l.step[1],
                        p->index.dtype, n);
            for (int64_t i = 0; i < n; i++)
                combine(to + i * l.step[0] + places[i] * l.dim_step, from + i * l.step[2]);
        }
        tn_walk_next(&w);
    }
}

static int dim_of(const tn_call *call, int index, int rank) {
    int64_t dim = tn_arg_int(call->node, index, 0);
    return (int)(dim < 0 ? dim + rank : dim);
}

tenon_status TN_K(gather)(tn_call *call) {
    pass p = {.indexed = tn_at_least_1d(tn_call_in(call, 0)),
              .index = tn_at_least_1d(tn_call_in(call, 2)),
              .dense = tn_at_least_1d(&call->out[0])};
    p.dim = dim_of(call, 1, p.indexed.rank);
    if (tenon_view_numel(&p.index) == 0)
        return TENON_OK;
    return gather_pass(call, &p);
}

/* A view of all elements in one dimension, through a copy when strides do not give one. */
static tenon_status flat(tn_call *call, const tenon_view *v, tenon_view *out) {
    int64_t n = tenon_view_numel(v);
    void *data = v->data;
    if (!tenon_view_is_contiguous(v)) {
        data = tn_call_scratch(call, (size_t)n * tenon_dtype_size(v->dtype) + 8);
        if (!data)
            return tn_no_memory();
        tenon_view packed = tn_view_make(data, v->dtype, v->rank, v->shape);
        TN_K(copy_view)(call->threads, &packed, v);
    }
    *out = tn_view_make(data, v->dtype, 1, &n);
    return TENON_OK;
}

tenon_status TN_K(take_along_dim)(tn_call *call) {
    const tenon_view *self = tn_call_in(call, 0), *index = tn_call_in(call, 1),
                     *out = &call->out[0];
    pass p = {.dense = tn_at_least_1d(out)};
    if (tenon_view_numel(out) == 0)
        return TENON_OK;
    if (tn_arg_is_none(call->node, 2)) {
        TN_TRY(flat(call, self, &p.indexed));
        TN_TRY(flat(call, index, &p.index));
        return gather_pass(call, &p);
    }
    tenon_view s = tn_at_least_1d(self), i = tn_at_least_1d(index);
    p.dim = dim_of(call, 2, s.rank);
    int64_t shape[TENON_MAX_RANK];
    memcpy(shape, p.dense.shape, sizeof shape);
    p.index = tn_expanded(&i, p.dense.rank, shape);
    shape[p.dim] = s.shape[p.dim];
    p.indexed = tn_expanded(&s, p.dense.rank, shape);
    p.wraps = true; /* as PyTorch, which takes the remainder here */
    return gather_pass(call, &p);
}

/* How the reduce argument says to combine; `mean` is a sum that is divided later. */
static tn_combine combine_of(const tenon_node *node, bool *mean) {
    int i = tn_op_param(node->op, "reduce");
    const char *text = i >= 0 ? tn_arg_string(node, i) : NULL;
    *mean = false;
    if (node->op->id == TN_OP_scatter_add)
        return TN_ADD;
    if (!text)
        return TN_SET;
    *mean = strcmp(text, "mean") == 0;
    return strcmp(text, "amax") == 0                                    ? TN_MAX
           : strcmp(text, "amin") == 0                                  ? TN_MIN
           : strcmp(text, "prod") == 0 || strcmp(text, "multiply") == 0 ? TN_MUL
                                                                        : TN_ADD;
}

/* What leaves the other operand as it is. */
static void neutral(tn_combine how, tenon_dtype dtype, void *bytes) {
    if (how == TN_ADD || how == TN_MUL)
        tn_store_int(bytes, dtype, how == TN_MUL);
    else if (tn_dtype_is_float(dtype))
        tn_store_float(bytes, dtype, how == TN_MAX ? -INFINITY : INFINITY);
    else if (dtype == TENON_BOOL)
        tn_store_int(bytes, dtype, how == TN_MIN);
    else if (tn_dtype_is_unsigned(dtype))
        tn_store_int(bytes, dtype, how == TN_MAX ? 0 : -1);
    else {
        int bits = 8 * (int)tenon_dtype_size(dtype);
        int64_t top = (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
        tn_store_int(bytes, dtype, how == TN_MAX ? -top - 1 : top);
    }
}

/* Divides sums by how many elements went into each. */
static tenon_status divide_sums(tn_call *call, pass p, bool include_self) {
    tenon_view *out = &p.indexed;
    int64_t n = tenon_view_numel(out), one = 1, zero = include_self;
    int64_t *counts = tn_call_scratch(call, (size_t)n * 8 + 8);
    if (!counts)
        return tn_no_memory();
    tenon_view v = tn_view_make(counts, TENON_INT64, out->rank, out->shape);
    pass count = {v, p.index, tn_repeated(&one, &p.index), p.dim, false};
    count.dense.dtype = TENON_INT64;
    TN_K(fill_view)(call, &v, &zero);
    scatter_pass(&count, TN_ADD);
    tn_walk w = tn_walk_make();
    for (int d = 0; d < out->rank; d++)
        tn_walk_dim(&w, out->shape[d], tn_step(out, d), tn_step(&v, d), 0);
    if (n > 0)
        tn_walk_seek(&w, 0);
    for (int64_t i = 0; i < n; i++) {
        char *at = (char *)out->data + w.at[0];
        int64_t c = *(const int64_t *)((const char *)counts + w.at[1]);
        c = c < 1 ? 1 : c;
        if (tn_dtype_is_float(out->dtype)) {
            tn_store_float(at, out->dtype, tn_load_float(at, out->dtype) / (double)c);
        } else {
            int64_t sum = tn_load_int(at, out->dtype), q = sum / c;
            tn_store_int(at, out->dtype, sum % c < 0 ? q - 1 : q);
        }
        tn_walk_next(&w);
    }
    return TENON_OK;
}

/* A row-major copy in float32. */
static tenon_status widen(tn_call *call, const tenon_view *v, tenon_view *out) {
    void *data = tn_call_scratch(call, (size_t)tenon_view_numel(v) * sizeof(float) + 8);
    if (!data)
        return tn_no_memory();
    *out = tn_view_make(data, TENON_FLOAT32, v->rank, v->shape);
    TN_K(copy_view)(call->threads, out, v);
    return TENON_OK;
}

tenon_status TN_K(scatter)(tn_call *call) {
    const tenon_node *node = call->node;
    pass p = {.indexed = tn_at_least_1d(&call->out[0]),
              .index = tn_at_least_1d(tn_call_in(call, 2))};
    uint64_t value[1], start[1];
    bool mean, include_self = true;
    tn_combine how = combine_of(node, &mean);
    int self = tn_op_param(node->op, "include_self");
    if (self >= 0)
        include_self = tn_arg_bool(node, self);
    p.dim = dim_of(call, 1, p.indexed.rank);
    bool empty = tenon_view_numel(&p.index) == 0;
    if (!empty)
        TN_TRY(
            TN_K(check_indices)(call, &p.index, p.indexed.shape[p.dim], false, "the index tensor"));
    const tenon_view *in = tn_call_in(call, 0), *out = &call->out[0];
    bool widens = (how == TN_ADD || how == TN_MUL) &&
                  (out->dtype == TENON_BFLOAT16 || out->dtype == TENON_FLOAT16);
    tenon_view sums = *out, source;
    if (widens && !empty)
        TN_TRY(widen(call, in, &sums));
    else
        TN_K(copy_view)(call->threads, out, in);
    if (empty)
        return TENON_OK;
    p.indexed = tn_at_least_1d(&sums);
    if (!include_self) {
        pass clear = p;
        neutral(how, p.indexed.dtype, start);
        clear.dense = tn_repeated(start, &p.index);
        clear.dense.dtype = p.indexed.dtype;
        scatter_pass(&clear, TN_SET);
    }
    source = tn_call_operand(call, 3);
    if (tn_call_in(call, 3)) {
        if (widens)
            TN_TRY(widen(call, tn_call_in(call, 3), &source));
        p.dense = tn_at_least_1d(&source);
    } else {
        TN_K(convert_run)(value, 0, p.indexed.dtype, source.data, 0, source.dtype, 1);
        p.dense = tn_repeated(value, &p.index);
        p.dense.dtype = p.indexed.dtype;
    }
    scatter_pass(&p, how);
    if (mean)
        TN_TRY(divide_sums(call, p, include_self));
    if (widens)
        TN_K(copy_view)(call->threads, out, &sums);
    return TENON_OK;
}

tenon_status TN_K(masked_scatter)(tn_call *call) {
    const tenon_view *self = tn_call_in(call, 0), *mask = tn_call_in(call, 1),
                     *source = tn_call_in(call, 2);
    const tenon_view *out = &call->out[0];
    tenon_view m = tn_expanded(mask, out->rank, out->shape);
    tenon_view s = tn_expanded(self, out->rank, out->shape);
    int64_t n = tenon_view_numel(out), have = tenon_view_numel(source), want = 0;
    size_t size = tenon_dtype_size(out->dtype);
    tn_walk w = tn_walk_make(), from = tn_walk_make();
    for (int d = 0; d < out->rank; d++)
        tn_walk_dim(&w, out->shape[d], tn_step(out, d), tn_step(&m, d), 0);
    for (int d = 0; d < source->rank; d++)
        tn_walk_dim(&from, source->shape[d], tn_step(source, d), 0, 0);
    if (n == 0)
        return TENON_OK;
    tn_walk_seek(&w, 0);
    for (int64_t i = 0; i < n; i++) {
        want += ((const uint8_t *)m.data)[w.at[1]] != 0;
        tn_walk_next(&w);
    }
    if (want > have)
        return tn_call_fail(call, "the mask takes %lld elements, the source has %lld",
                            (long long)want, (long long)have);
    TN_K(copy_view)(call->threads, out, &s);
    if (want == 0)
        return TENON_OK;
    tn_walk_seek(&from, 0);
    for (int64_t i = 0; i < n; i++) {
        if (((const uint8_t *)m.data)[w.at[1]]) {
            TN_K(move_run)
            ((char *)out->data + w.at[0], 0, (const char *)source->data + from.at[0], 0, size, 1);
            tn_walk_next(&from);
        }
        tn_walk_next(&w);
    }
    return TENON_OK;
}

/* The part of `out` that a view op of the same arguments would give. */
static tenon_view part_of(const tenon_node *node, const tenon_view *out, const tenon_view *source) {
    tenon_view v = *out;
    int64_t size = 2;
    if (node->op->id == TN_OP_diagonal_scatter) {
        int64_t offset = tn_arg_int(node, 2, 0), a = tn_arg_int(node, 3, 0),
                b = tn_arg_int(node, 4, 1);
        a = a < 0 ? a + out->rank : a;
        b = b < 0 ? b + out->rank : b;
        v.data = (char *)v.data +
                 (offset > 0 ? offset * tn_step(out, (int)b) : -offset * tn_step(out, (int)a));
        v.rank = source->rank;
        for (int d = 0, k = 0; d < out->rank; d++) {
            if (d != a && d != b)
                v.strides[k++] = out->strides[d];
        }
        v.strides[v.rank - 1] = out->strides[a] + out->strides[b];
        memcpy(v.shape, source->shape, sizeof v.shape);
        return v;
    }
    int64_t dim = tn_arg_int(node, 2, 0);
    dim = dim < 0 ? dim + out->rank : dim;
    size = out->shape[dim];
    if (node->op->id == TN_OP_select_scatter) {
        int64_t index = tn_arg_int(node, 3, 0);
        v.data = (char *)v.data + (index < 0 ? index + size : index) * tn_step(out, (int)dim);
        v.rank--;
        for (int d = (int)dim; d < v.rank; d++) {
            v.shape[d] = v.shape[d + 1];
            v.strides[d] = v.strides[d + 1];
        }
        return v;
    }
    int64_t start, step;
    v.shape[dim] = tn_slice_range(node, 3, size, &start, &step);
    v.data = (char *)v.data + start * tn_step(out, (int)dim);
    if (v.shape[dim] > 1) /* a step may be as large as int64 allows */
        v.strides[dim] *= step;
    return v;
}

tenon_status TN_K(part_scatter)(tn_call *call) {
    const tenon_view *out = &call->out[0], *source = tn_call_in(call, 1);
    TN_K(copy_view)(call->threads, out, tn_call_in(call, 0));
    tenon_view to = part_of(call->node, out, source);
    tenon_view from = tn_expanded(source, to.rank, to.shape);
    if (tenon_view_numel(&to) > 0)
        TN_K(copy_view)(call->threads, &to, &from);
    return TENON_OK;
}

/* Strides of as_strided_scatter count in the row-major order of self, whatever the layout of `out`
 * is. */
tenon_status TN_K(as_strided_scatter)(tn_call *call) {
    const tenon_view *out = &call->out[0], *source = tn_call_in(call, 1);
    int64_t strides[TENON_MAX_RANK], offset = tn_arg_int(call->node, 4, 0);
    size_t size = tenon_dtype_size(out->dtype);
    tn_arg_ints(call->node, 3, strides, TENON_MAX_RANK);
    TN_K(copy_view)(call->threads, out, tn_call_in(call, 0));
    tn_walk w = tn_walk_make();
    for (int d = 0; d < source->rank; d++)
        tn_walk_dim(&w, source->shape[d], tn_step(source, d), strides[d], 0);
    if (w.count == 0)
        return TENON_OK;
    tn_walk_seek(&w, 0);
    for (int64_t i = 0; i < w.count; i++) {
        int64_t rest = offset + w.at[1], at = 0;
        for (int d = out->rank - 1; d >= 0; d--) {
            at += rest % out->shape[d] * tn_step(out, d);
            rest /= out->shape[d];
        }
        TN_K(move_run)((char *)out->data + at, 0, (const char *)source->data + w.at[0], 0, size, 1);
        tn_walk_next(&w);
    }
    return TENON_OK;
}

tenon_status TN_K(one_hot)(tn_call *call) {
    const tenon_view *index = tn_call_in(call, 0), *out = &call->out[0];
    int64_t one = 1, zero = 0, classes = out->shape[index->rank];
    if (tenon_view_numel(out) == 0)
        return TENON_OK;
    TN_TRY(TN_K(check_indices)(call, index, classes, false, "the class tensor"));
    TN_K(fill_view)(call, out, &zero);
    pass p = {.indexed = *out, .index = *index, .dim = index->rank};
    p.index.shape[p.index.rank] = 1;
    p.index.strides[p.index.rank++] = 0;
    p.dense = tn_repeated(&one, &p.index);
    p.dense.dtype = TENON_INT64;
    scatter_pass(&p, TN_SET);
    return TENON_OK;
}

/* The elements where the mask is true, in row-major order; how many there are was planned. */
tenon_status TN_K(masked_select)(tn_call *call) {
    const tenon_view *in = tn_call_in(call, 0), *mask = tn_call_in(call, 1), *out = &call->out[0];
    int64_t shape[TENON_MAX_RANK], found = 0;
    int rank = in->rank > mask->rank ? in->rank : mask->rank;
    for (int d = 0; d < rank; d++) {
        int a = d - (rank - in->rank), b = d - (rank - mask->rank);
        shape[d] = a >= 0 && (b < 0 || in->shape[a] != 1) ? in->shape[a] : mask->shape[b];
    }
    tenon_view s = tn_expanded(in, rank, shape), m = tn_expanded(mask, rank, shape);
    size_t size = tenon_dtype_size(in->dtype);
    tn_walk w = tn_walk_make();
    for (int d = 0; d < rank; d++)
        tn_walk_dim(&w, shape[d], tn_step(&s, d), tn_step(&m, d), 0);
    if (w.count > 0)
        tn_walk_seek(&w, 0);
    for (int64_t i = 0; i < w.count; i++) {
        if (((const uint8_t *)m.data)[w.at[1]]) {
            if (found < out->shape[0])
                TN_K(move_run)
            ((char *)out->data + found * tn_step(out, 0), 0, (const char *)s.data + w.at[0], 0,
             size, 1);
            found++;
        }
        tn_walk_next(&w);
    }
    if (found != out->shape[0])
        return tn_call_fail(call, "the mask selects %lld elements, %lld were planned for",
                            (long long)found, (long long)out->shape[0]);
    return TENON_OK;
}

/* The row-major coordinates of the elements that are not 0; how many there are was planned. */
tenon_status TN_K(nonzero)(tn_call *call) {
    const tenon_view *in = tn_call_in(call, 0), *out = &call->out[0];
    int64_t n = tenon_view_numel(in), found = 0, at[TENON_MAX_RANK] = {0};
    tn_walk w = tn_walk_make();
    for (int d = 0; d < in->rank; d++)
        tn_walk_dim(&w, in->shape[d], tn_step(in, d), 0, 0);
    if (n > 0)
        tn_walk_seek(&w, 0);
    for (int64_t i = 0; i < n; i++) {
        if (tn_load_float((const char *)in->data + w.at[0], in->dtype) != 0) {
            if (found == out->shape[0])
                return tn_call_fail(call, "more than %lld elements are not 0", (long long)found);
            for (int d = 0; d < in->rank; d++)
                tn_store_int((char *)out->data + found * tn_step(out, 0) + d * tn_step(out, 1),
                             out->dtype, at[d]);
            found++;
        }
        for (int d = in->rank - 1; d >= 0 && ++at[d] == in->shape[d]; d--)
            at[d] = 0;
        tn_walk_next(&w);
    }
    if (found != out->shape[0])
        return tn_call_fail(call, "%lld elements are not 0, %lld were planned for",
                            (long long)found, (long long)out->shape[0]);
    return TENON_OK;
}
