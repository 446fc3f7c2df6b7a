/* Indexing by tensors along dimensions: index, index_put, index_add, index_copy, index_fill,
 * index_select, embedding.
 *
 * The index tensors are broadcast together and turned into one byte offset for each of their
 * positions, which also checks them before anything is read or written. What they do not index
 * moves in runs. */
#include "core/rules.h"
#include "kernels/combine.h"
#include <string.h>

typedef struct axis {
    int dim;
    tenon_view index;
} axis;

typedef struct plan {
    axis axes[TENON_MAX_RANK];
    int axis_count;
    int rank; /* of the positions */
    int64_t shape[TENON_MAX_RANK];
    int64_t count;    /* positions */
    int64_t *indexed; /* byte offset of each into the indexed tensor */
    int64_t *dense;   /* and into the other one */
    int place;        /* the dimension of the dense tensor where the positions stand */
    tn_walk rest;     /* dimensions that no index is for; array 0: indexed, array 1: dense */
    int64_t n, step[TN_WALK_ARRAYS];
} plan;

/* The coordinates of the true elements of a mask over dimensions from `dim` on, as index tensors.
 */
static tenon_status add_mask(tn_call *call, plan *p, int dim, const tenon_view *mask) {
    tn_walk w = tn_walk_make();
    int64_t shape[TENON_MAX_RANK], at[TENON_MAX_RANK] = {0}, numel = tenon_view_numel(mask),
                                   count = 0;
    for (int d = 0; d < mask->rank; d++)
        tn_walk_dim(&w, mask->shape[d], tn_step(mask, d), 0, 0);
    int64_t *list = tn_call_scratch(call, (size_t)numel * (size_t)(mask->rank + 1) * 8 + 8);
    if (!list)
        return tn_no_memory();
    if (numel > 0)
        tn_walk_seek(&w, 0);
    for (int64_t i = 0; i < numel; i++) {
        if (((const uint8_t *)mask->data)[w.at[0]]) {
            for (int d = 0; d < mask->rank; d++)
                list[d * numel + count] = at[d];
            count++;
        }
        for (int d = mask->rank - 1; d >= 0 && ++at[d] == mask->shape[d]; d--)
            at[d] = 0;
        tn_walk_next(&w);
    }
    shape[0] = count;
    for (int d = 0; d < mask->rank; d++) {
        axis *a = &p->axes[p->axis_count++];
        a->dim = dim + d;
        a->index = tn_view_make(list + d * numel, TENON_INT64, 1, shape);
    }
    return TENON_OK;
}

/* Broadcasts the index tensors together. */
static tenon_status broadcast(const tn_call *call, plan *p) {
    p->rank = 0;
    for (int k = 0; k < p->axis_count; k++)
        p->rank = p->axes[k].index.rank > p->rank ? p->axes[k].index.rank : p->rank;
    for (int d = 0; d < p->rank; d++)
        p->shape[d] = 1;
    for (int k = 0; k < p->axis_count; k++) {
        const tenon_view *v = &p->axes[k].index;
        for (int d = 0; d < v->rank; d++) {
            int64_t *size = &p->shape[p->rank - v->rank + d];
            if (v->shape[d] != 1 && *size != 1 && v->shape[d] != *size)
                return tn_call_fail(call,
                                    "the index tensors do not broadcast: size %lld against %lld",
                                    (long long)v->shape[d], (long long)*size);
            if (v->shape[d] != 1)
                *size = v->shape[d];
        }
    }
    p->count = tn_numel(p->rank, p->shape);
    return TENON_OK;
}

static tenon_status find_offsets(tn_call *call, plan *p, const tenon_view *self, bool negative) {
    for (int k = 0; k < p->axis_count; k++)
        TN_TRY(TN_K(check_indices)(call, &p->axes[k].index, self->shape[p->axes[k].dim], negative,
                                   "an index tensor"));
    p->indexed = tn_call_scratch(call, (size_t)p->count * 16 + 16);
    if (!p->indexed)
        return tn_no_memory();
    p->dense = p->indexed + p->count;
    memset(p->indexed, 0, (size_t)p->count * 8);
    for (int k = 0; k < p->axis_count && p->count > 0; k++) {
        tenon_view v = tn_expanded(&p->axes[k].index, p->rank, p->shape);
        int64_t size = self->shape[p->axes[k].dim], step = tn_step(self, p->axes[k].dim);
        tn_walk w = tn_walk_make();
        int64_t inner[TN_WALK_ARRAYS], b[TN_BLOCK], *to = p->indexed;
        for (int d = 0; d < v.rank; d++)
            tn_walk_dim(&w, v.shape[d], tn_step(&v, d), 0, 0);
        tn_walk_merge(&w);
        int64_t n = tn_walk_inner(&w, inner);
        tn_walk_seek(&w, 0);
        for (int64_t r = 0; r < w.count; r++) {
            for (int64_t at = 0; at < n; at += TN_BLOCK) {
                int64_t m = n - at < TN_BLOCK ? n - at : TN_BLOCK;
                tn_get_ints(b, (const char *)v.data + w.at[0] + at * inner[0], inner[0], v.dtype,
                            m);
                for (int64_t i = 0; i < m; i++)
                    *to++ += (b[i] < 0 ? b[i] + size : b[i]) * step;
            }
            tn_walk_next(&w);
        }
    }
    return TENON_OK;
}

/* Lays the dense tensor (of the shape: rest before `place`, positions, rest after) beside the
 * indexed one. */
static void lay(plan *p, const tenon_view *self, const tenon_view *dense) {
    uint32_t used = 0;
    int d = 0;
    for (int k = 0; k < p->axis_count; k++)
        used |= 1u << p->axes[k].dim;
    p->rest = tn_walk_make();
    for (int s = 0; s < self->rank; s++) {
        if (used >> s & 1)
            continue;
        if (d == p->place)
            d += p->rank;
        tn_walk_dim(&p->rest, self->shape[s], tn_step(self, s), tn_step(dense, d), 0);
        d++;
    }
    tn_walk w = tn_walk_make();
    for (int k = 0; k < p->rank; k++)
        tn_walk_dim(&w, p->shape[k], tn_step(dense, p->place + k), 0, 0);
    if (w.count > 0)
        tn_walk_seek(&w, 0);
    for (int64_t i = 0; i < p->count; i++) {
        p->dense[i] = w.at[0];
        tn_walk_next(&w);
    }
    if (p->rest.count == 0)
        return;
    tn_walk_sort(&p->rest, 1);
    tn_walk_merge(&p->rest);
    /* Whatever lies closer together in the dense tensor, a run of the rest or the positions, is
     * walked innermost. */
    int64_t apart = p->count > 1 ? tn_walk_abs(p->dense[1] - p->dense[0]) : INT64_MAX;
    p->n = 1;
    p->step[0] = p->step[1] = 0;
    if (p->rest.rank > 0 && tn_walk_abs(p->rest.step[1][p->rest.rank - 1]) <= apart)
        p->n = tn_walk_inner(&p->rest, p->step);
}

/* Where the positions stand in the dense shape: at the first indexed dimension when the indexed
 * ones are neighbours, else first. */
static int find_place(const plan *p) {
    for (int k = 1; k < p->axis_count; k++) {
        if (p->axes[k].dim != p->axes[k - 1].dim + 1)
            return 0;
    }
    return p->axis_count ? p->axes[0].dim : 0;
}

static tenon_status plan_list(tn_call *call, plan *p, const tenon_view *self) {
    const tenon_arg *list = &call->node->args[1];
    int first = call->first[1], dim = 0;
    p->axis_count = 0;
    for (int i = 0; i < list->count; i++) {
        const tenon_view *v =
            list->as.list[i].kind == TENON_ARG_VALUE ? &call->in[first + i] : NULL;
        if (!v || v->dtype == TENON_DTYPE_NONE) {
            dim++;
        } else if (v->dtype == TENON_BOOL || v->dtype == TENON_UINT8) {
            TN_TRY(add_mask(call, p, dim, v));
            dim += v->rank;
        } else {
            p->axes[p->axis_count].dim = dim++;
            p->axes[p->axis_count++].index = *v;
        }
    }
    TN_TRY(broadcast(call, p));
    p->place = find_place(p);
    return find_offsets(call, p, self, true);
}

static tenon_status plan_dim(tn_call *call, plan *p, const tenon_view *self, int64_t dim,
                             const tenon_view *index, bool negative) {
    dim = dim < 0 ? dim + self->rank : dim;
    p->axis_count = 1;
    p->axes[0].dim = (int)dim;
    p->axes[0].index = *index;
    TN_TRY(broadcast(call, p));
    p->place = (int)dim;
    return find_offsets(call, p, self, negative);
}

#define READ_CASE(T)                                                           \
    case sizeof(T):                                                            \
        if (packed) {                                                          \
            for (int64_t i = begin; i < end; i++)                              \
                ((T *)to)[i] = *(const T *)(from + p->indexed[i]);             \
        } else {                                                               \
            for (int64_t i = begin; i < end; i++)                              \
                *(T *)(to + p->dense[i]) = *(const T *)(from + p->indexed[i]); \
        }                                                                      \
        break;

static void read_singles(const plan *p, char *to, const char *from, size_t size, bool packed,
                         int64_t begin, int64_t end) {
    switch (size) {
        READ_CASE(uint8_t)
        READ_CASE(uint16_t)
        READ_CASE(uint32_t)
        READ_CASE(uint64_t)
    default:
        break;
    }
}

static void read_part(const plan *p, char *to, const char *from, size_t size, int64_t begin,
                      int64_t end) {
    tn_walk w = p->rest;
    if (begin >= end)
        return;
    bool packed = true;
    for (int64_t i = 0; i < p->count && packed; i++)
        packed = p->dense[i] == i * (int64_t)size;
    tn_walk_seek(&w, begin / p->count);
    while (begin < end) {
        int64_t b = begin % p->count,
                stop = p->count - b < end - begin ? p->count : b + end - begin;
        if (p->n == 1)
            read_singles(p, to + w.at[1], from + w.at[0], size, packed, b, stop);
        for (int64_t i = b; p->n > 1 && i < stop; i++)
            TN_K(move_run)
        (to + w.at[1] + p->dense[i], p->step[1], from + w.at[0] + p->indexed[i], p->step[0], size,
         p->n);
        begin += stop - b;
        tn_walk_next(&w);
    }
}

static tenon_status read_all(tn_call *call, plan *p, const tenon_view *self) {
    const tenon_view *out = &call->out[0];
    size_t size = tenon_dtype_size(out->dtype);
    int64_t total = tenon_view_numel(out);
    lay(p, self, out);
    if (total == 0)
        return TENON_OK;
    int64_t tasks = p->rest.count * p->count;
    int threads = tn_threads(call, total, tasks);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; t++)
        read_part(p, out->data, self->data, size, tn_part(tasks, t, threads),
                  tn_part(tasks, t + 1, threads));
    return TENON_OK;
}

tenon_status TN_K(index)(tn_call *call) {
    const tenon_view *self = tn_call_in(call, 0);
    const tenon_view *out = &call->out[0];
    plan p;
    TN_TRY(plan_list(call, &p, self));
    for (int d = 0; d < p.rank; d++) {
        if (out->shape[p.place + d] != p.shape[d])
            return tn_call_fail(call,
                                "a mask selects %lld elements, not the %lld it was planned for",
                                (long long)p.shape[d], (long long)out->shape[p.place + d]);
    }
    return read_all(call, &p, self);
}

tenon_status TN_K(index_select)(tn_call *call) {
    tenon_view self = tn_at_least_1d(tn_call_in(call, 0)), out = tn_at_least_1d(&call->out[0]);
    tenon_view index = tn_at_least_1d(tn_call_in(call, 2));
    tn_call inner = *call;
    plan p;
    inner.out = &out;
    TN_TRY(plan_dim(call, &p, &self, tn_arg_int(call->node, 1, 0), &index, false));
    return read_all(&inner, &p, &self);
}

tenon_status TN_K(embedding)(tn_call *call) {
    plan p;
    const tenon_view *weight = tn_call_in(call, 0);
    TN_TRY(plan_dim(call, &p, weight, 0, tn_call_in(call, 1), false));
    return read_all(call, &p, weight);
}

/* Writes or combines `values`, already of the dense shape, into `out` at the plan's positions, one
 * after the other. */
static void write_all(plan *p, const tenon_view *out, const tenon_view *values, tn_combine how) {
    const tn_combine_fn combine = TN_K(combine)[how][out->dtype];
    size_t size = tenon_dtype_size(out->dtype);
    lay(p, out, values);
    if (p->rest.count == 0 || p->count == 0)
        return;
    tn_walk w = p->rest;
    tn_walk_seek(&w, 0);
    for (int64_t r = 0; r < w.count; r++) {
        for (int64_t i = 0; i < p->count; i++) {
            char *to = (char *)out->data + w.at[0] + p->indexed[i];
            const char *from = (const char *)values->data + w.at[1] + p->dense[i];
            if (how == TN_SET) {
                TN_K(move_run)(to, p->step[0], from, p->step[1], size, p->n);
                continue;
            }
            for (int64_t k = 0; k < p->n; k++)
                combine(to + k * p->step[0], from + k * p->step[1]);
        }
        tn_walk_next(&w);
    }
}

/* The dense shape, of which it returns the rank: at most twice TENON_MAX_RANK. */
static int dense_shape(const plan *p, const tenon_view *self, int64_t *shape) {
    uint32_t used = 0;
    int rank = 0;
    bool placed = false;
    for (int k = 0; k < p->axis_count; k++)
        used |= 1u << p->axes[k].dim;
    for (int d = 0; d <= self->rank; d++) {
        for (int k = 0; k < p->rank && rank >= p->place && !placed; k++)
            shape[rank++] = p->shape[k];
        placed = placed || rank >= p->place;
        if (d < self->rank && !(used >> d & 1))
            shape[rank++] = self->shape[d];
    }
    return rank;
}

tenon_status TN_K(index_put)(tn_call *call) {
    const tenon_view *out = &call->out[0], *values = tn_call_in(call, 2);
    plan p;
    TN_TRY(plan_list(call, &p, out));
    int64_t shape[2 * TENON_MAX_RANK];
    int rank = dense_shape(&p, out, shape);
    if (rank > TENON_MAX_RANK)
        return tn_call_fail(call, "the values have %d dimensions, at most %d are supported", rank,
                            TENON_MAX_RANK);
    for (int d = 0; d < values->rank; d++) {
        int to = rank - values->rank + d;
        if (values->shape[d] != 1 && (to < 0 || values->shape[d] != shape[to]))
            return tn_call_fail(call, "the values do not broadcast: size %lld against %lld",
                                (long long)values->shape[d], (long long)(to < 0 ? 1 : shape[to]));
    }
    tenon_view dense = *values;
    while (dense.rank > rank) { /* leading sizes of 1 */
        dense.rank--;
        memmove(dense.shape, dense.shape + 1, (size_t)dense.rank * sizeof dense.shape[0]);
        memmove(dense.strides, dense.strides + 1, (size_t)dense.rank * sizeof dense.strides[0]);
    }
    dense = tn_expanded(&dense, rank, shape);
    TN_K(copy_view)(call->threads, out, tn_call_in(call, 0));
    write_all(&p, out, &dense, tn_arg_bool(call->node, 3) ? TN_ADD : TN_SET);
    return TENON_OK;
}

/* Puts a view times a number, in new memory, in its place. */
static tenon_status scale(tn_call *call, tenon_view *v, const tenon_arg *by) {
    const tenon_view source = *v;
    int64_t n = tenon_view_numel(&source);
    uint64_t factor[1];
    void *data = tn_call_scratch(call, (size_t)n * tenon_dtype_size(source.dtype) + 8);
    if (!data)
        return tn_no_memory();
    *v = tn_view_make(data, source.dtype, source.rank, source.shape);
    TN_K(copy_view)(call->threads, v, &source);
    tn_scalar_bytes(by, source.dtype, factor);
    for (int64_t i = 0; i < n; i++)
        TN_K(combine)
    [TN_MUL][source.dtype]((char *)data + i * (int64_t)tenon_dtype_size(source.dtype), factor);
    return TENON_OK;
}

/* index_add, index_copy, index_fill. */
tenon_status TN_K(index_write)(tn_call *call) {
    int id = call->node->op->id;
    bool fill = id == TN_OP_index_fill_int_Scalar || id == TN_OP_index_fill_int_Tensor;
    tenon_view out = tn_at_least_1d(&call->out[0]), index = tn_at_least_1d(tn_call_in(call, 2));
    tenon_view values;
    uint64_t value[1];
    plan p;
    TN_TRY(plan_dim(call, &p, &out, tn_arg_int(call->node, 1, 0), &index, fill));
    if (fill) {
        tenon_view number = tn_call_operand(call, 3);
        TN_K(convert_run)(value, 0, out.dtype, number.data, 0, number.dtype, 1);
        values = tn_repeated(value, &out);
        values.shape[p.place] = p.count;
    } else {
        values = tn_at_least_1d(tn_call_in(call, 3));
        const tenon_arg *alpha = id == TN_OP_index_add ? &call->node->args[4] : NULL;
        if (alpha && !(alpha->kind == TENON_ARG_INT && alpha->as.i == 1))
            TN_TRY(scale(call, &values, alpha));
    }
    TN_K(copy_view)(call->threads, &call->out[0], tn_call_in(call, 0));
    write_all(&p, &out, &values, id == TN_OP_index_add ? TN_ADD : TN_SET);
    return TENON_OK;
}
