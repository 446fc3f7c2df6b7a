/* embedding_bag: sums, means or maxima of rows of a weight, for bags of indices that follow each
 * other. */
#include "kernels/block.h"
#include "kernels/product.h"
#include <string.h>

enum { SUM, MEAN, MAX };

typedef struct job {
    tn_class class;
    const tenon_view *weight;
    const tenon_view *bags, *places; /* bag_size and max_indices; dtype NONE: not wanted */
    const int64_t *indices, *starts; /* starts[bags] is the end */
    const char *scale;               /* of the class, or NULL */
    char *out;                       /* rows of the class */
    int64_t features, padding;
    int mode;
} job;

#define ADD_ROW(T)                                                                 \
    do {                                                                           \
        T *to = sum;                                                               \
        const T *from = row, by = j->scale ? ((const T *)j->scale)[i] : 1;         \
        _Pragma("omp simd") for (int64_t k = 0; k < n; k++) to[k] += by * from[k]; \
    } while (0)
#define MAX_ROW(T)                               \
    do {                                         \
        T *to = sum;                             \
        const T *from = row;                     \
        for (int64_t k = 0; k < n; k++) {        \
            if (count == 0 || from[k] > to[k]) { \
                to[k] = from[k];                 \
                place[k] = index;                \
            }                                    \
        }                                        \
    } while (0)
#define SCALE_ROW(T)                    \
    do {                                \
        T *to = sum;                    \
        for (int64_t k = 0; k < n; k++) \
            to[k] /= (T)count;          \
    } while (0)

static void put_number(const tenon_view *v, int64_t at, int64_t value) {
    if (v->dtype != TENON_DTYPE_NONE)
        tn_store_int((char *)v->data + at * (int64_t)tenon_dtype_size(v->dtype), v->dtype, value);
}

/* `row` and `place` have room for one row. */
static void one_bag(const job *j, int64_t bag, void *row, int64_t *place) {
    int64_t n = j->features, count = 0, step = tn_step(j->weight, 0);
    size_t size = (size_t)n * tn_class_size(j->class);
    void *sum = j->out + (size_t)bag * size;
    bool wide = j->class == TN_CLASS_F64;
    memset(sum, 0, size);
    memset(place, 0, (size_t)n * sizeof *place);
    for (int64_t i = j->starts[bag]; i < j->starts[bag + 1]; i++) {
        int64_t index = j->indices[i];
        if (index == j->padding)
            continue;
        TN_K(load)
        [j->class][j->weight->dtype](row, (const char *)j->weight->data + index * step,
                                     tn_step(j->weight, 1), n);
        if (j->mode == MAX && wide)
            MAX_ROW(double);
        else if (j->mode == MAX)
            MAX_ROW(float);
        else if (wide)
            ADD_ROW(double);
        else
            ADD_ROW(float);
        count++;
    }
    if (j->mode == MEAN && count > 0 && wide)
        SCALE_ROW(double);
    else if (j->mode == MEAN && count > 0)
        SCALE_ROW(float);
    if (j->mode != SUM)
        put_number(j->bags, bag, count);
    for (int64_t k = 0; j->mode == MAX && k < n; k++)
        put_number(j->places, bag * n + k, place[k]);
    if (j->mode == MEAN)
        put_number(j->places, bag, count);
}

static tenon_status check(tn_call *call, const job *j, const int64_t *offsets, int64_t count,
                          int64_t bags, int64_t *starts) {
    int64_t n = tenon_view_numel(tn_call_in(call, 1)), rows = j->weight->shape[0];
    for (int64_t i = 0; i < n; i++)
        if (j->indices[i] < 0 || j->indices[i] >= rows)
            return tn_call_fail(call, "index %lld is not in 0..%lld", (long long)j->indices[i],
                                (long long)rows - 1);
    if (count > 0 && offsets[0] != 0)
        return tn_call_fail(call, "the first offset is %lld, not 0", (long long)offsets[0]);
    for (int64_t i = 0; i < count; i++)
        if (offsets[i] > n || (i > 0 && offsets[i] < offsets[i - 1]))
            return tn_call_fail(call, "offset %lld is below the one before, or above %lld",
                                (long long)offsets[i], (long long)n);
    memcpy(starts, offsets, (size_t)bags * sizeof *starts);
    starts[bags] = n;
    return TENON_OK;
}

/* Zeros where there is nothing to tell, and the bag of each index. */
static void fill_rest(tn_call *call, const job *j, const tenon_view *of, int64_t bags) {
    const tenon_view *counts[] = {j->bags, j->places};
    for (int k = 0; k < 2 && j->mode == SUM; k++)
        for (int64_t i = 0; counts[k]->dtype && i < tenon_view_numel(counts[k]); i++)
            put_number(counts[k], i, 0);
    (void)call;
    if (of->dtype == TENON_DTYPE_NONE || tenon_view_numel(of) == 0)
        return;
    for (int64_t bag = 0; bag < bags; bag++)
        for (int64_t i = j->starts[bag]; i < j->starts[bag + 1]; i++)
            put_number(of, i, bag);
}

/* A row-major stand-in for an output, or one of dtype NONE. */
static tenon_status stand_in(tn_call *call, int output, tenon_view *v) {
    *v = call->out[output];
    if (v->dtype == TENON_DTYPE_NONE)
        return TENON_OK;
    size_t size = (size_t)tenon_view_numel(v) * tenon_dtype_size(v->dtype);
    *v = tn_view_make(tn_call_scratch(call, size + 8), v->dtype, v->rank, v->shape);
    return v->data ? TENON_OK : tn_no_memory();
}

tenon_status TN_K(embedding_bag)(tn_call *call) {
    const tenon_node *node = call->node;
    const tenon_view *weight = tn_call_in(call, 0), *index = tn_call_in(call, 1);
    const tenon_view *offsets = tn_call_in(call, 2), *scale = tn_call_in(call, 6);
    int64_t count = offsets->shape[0], bags = count - tn_arg_bool(node, 7);
    tenon_view extra[3];
    job j = {.class = tn_class_of(weight->dtype),
             .weight = weight,
             .bags = &extra[1],
             .places = &extra[2],
             .features = weight->shape[1],
             .padding = node->op->param_count > 8 ? tn_arg_int(node, 8, -1) : -1,
             .mode = (int)tn_arg_int(node, 4, 0)};
    if (node->op->id == TN_OP_embedding_bag_padding_idx && j.padding < 0 &&
        !tn_arg_is_none(node, 8))
        j.padding += weight->shape[0];
    for (int i = 0; i < 3; i++)
        TN_TRY(stand_in(call, i + 1, &extra[i]));
    size_t row = (size_t)j.features * 8 + 64;
    int64_t *starts = tn_call_scratch(call, (size_t)(bags + 1) * sizeof *starts);
    j.indices = (const int64_t *)TN_K(packed)(call, TN_CLASS_I64, index);
    const int64_t *at = (const int64_t *)TN_K(packed)(call, TN_CLASS_I64, offsets);
    j.scale = scale ? TN_K(packed)(call, j.class, scale) : NULL;
    j.out = tn_call_scratch(call, (size_t)(bags * j.features) * tn_class_size(j.class) + 8);
    int threads = tn_threads(call, index->shape[0] * j.features, bags);
    char *rows = tn_call_scratch(call, 2 * row * (size_t)threads);
    if (!starts || !j.indices || !at || (scale && !j.scale) || !j.out || !rows)
        return tn_no_memory();
    TN_TRY(check(call, &j, at, count, bags, starts));
    j.starts = starts;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; t++)
        for (int64_t bag = tn_part(bags, t, threads); bag < tn_part(bags, t + 1, threads); bag++)
            one_bag(&j, bag, rows + 2 * row * (size_t)t,
                    (int64_t *)(rows + row * (size_t)(2 * t + 1)));
    fill_rest(call, &j, &extra[0], bags);
    for (int i = 0; i < 3; i++)
        if (extra[i].dtype)
            TN_K(copy_view)(call->threads, &call->out[i + 1], &extra[i]);
    if (call->out[0].dtype)
        TN_K(store_view)(j.class, &call->out[0], j.out, call->threads);
    return TENON_OK;
}
