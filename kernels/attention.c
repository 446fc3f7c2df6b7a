/* Scaled dot-product attention: softmax(query key' * scale + mask) value, without the matrix of
 * scores in memory.
 *
 * As in PyTorch, a query whose keys are all masked gives zeros, and NaN in a key or value reaches
 * the result even where it is masked. */
#include "kernels/attention.h"
#include "kernels/iterate.h"
#include "kernels/vmath.h"
#include <math.h>
#include <omp.h>
#include <string.h>

#define T float
#define A(name) name##_f32
#define EXP tn_expf
#define CLASS_DTYPE TENON_FLOAT32
#include "kernels/attention_template.h"
#undef T
#undef A
#undef EXP
#undef CLASS_DTYPE

#define T double
#define A(name) name##_f64
#define EXP exp
#define CLASS_DTYPE TENON_FLOAT64
#include "kernels/attention_template.h"

/* From so many queries on it pays to pack the keys and values for them. */
enum { MIN_PANELS = 8 };

/* The strides of a view's leading dimensions as the output's batch sees them; `repeat` heads of the
 * output share one of the last of them. */
typedef struct batches {
    int rank;
    int64_t shape[TENON_MAX_RANK], strides[TENON_MAX_RANK], repeat;
} batches;

static batches batches_of(const tenon_view *v, const tenon_view *out, bool grouped) {
    batches b = {.rank = out->rank - 2, .repeat = 1};
    int shift = out->rank - v->rank;
    for (int d = 0; d < b.rank; d++) {
        b.shape[d] = out->shape[d];
        b.strides[d] = d >= shift && v->shape[d - shift] != 1 ? v->strides[d - shift] : 0;
    }
    if (grouped && b.rank > 0)
        b.repeat = out->shape[b.rank - 1] / v->shape[v->rank - 3];
    return b;
}

static char *batch_data(const tenon_view *v, const batches *b, int64_t index) {
    int64_t offset = 0;
    for (int d = b->rank - 1; d >= 0; d--) {
        int64_t i = index % b->shape[d];
        offset += (d == b->rank - 1 ? i / b->repeat : i) * b->strides[d];
        index /= b->shape[d];
    }
    return (char *)v->data + offset * (int64_t)tenon_dtype_size(v->dtype);
}

static tn_attention_matrix matrix_of(const tenon_view *v) {
    tn_attention_matrix m = {.data = v->data, .dtype = v->dtype};
    if (v->rank >= 2 && v->shape[v->rank - 2] != 1)
        m.row = v->strides[v->rank - 2];
    if (v->rank >= 1 && v->shape[v->rank - 1] != 1)
        m.column = v->strides[v->rank - 1];
    return m;
}

static size_t rounded(size_t size) {
    return (size + 63) / 64 * 64;
}

static char *take(char *base, size_t *at, size_t size) {
    char *place = base ? base + *at : NULL;
    *at += rounded(size);
    return place;
}

/* Carves a thread's memory, and returns its size; with `base` NULL only that matters. */
static size_t carve(const tn_attention *a, int64_t rows, char *base, tn_attention_memory *m) {
    size_t unit = tn_class_size(a->class), at = 0;
    m->scores = take(base, &at, (size_t)rows * TN_ATTENTION_KEYS * unit);
    m->sums = take(base, &at, (size_t)(rows * a->value_width) * unit);
    m->mask = take(base, &at, TN_ATTENTION_KEYS * unit);
    m->best = take(base, &at, (size_t)rows * unit);
    m->total = take(base, &at, (size_t)rows * unit);
    m->products = take(base, &at, a->scratch);
    return at;
}

static size_t products_size(const tn_attention *a, int64_t rows) {
    tn_gemm scores = {
        .class = a->class, .batch = 1, .m = rows, .n = TN_ATTENTION_KEYS, .k = a->width};
    tn_gemm values = {.class = a->class, .batch = 1, .m = rows, .n = a->value_width};
    values.k = TN_ATTENTION_KEYS;
    size_t one = TN_K(gemm_scratch)(&scores, 1), two = TN_K(gemm_scratch)(&values, 1);
    return one > two ? one : two;
}

typedef struct plan {
    const tenon_view *query, *key, *value, *mask, *out;
    batches by_query, by_key, by_value, by_mask, by_out;
    int64_t rows, blocks; /* queries of a block; blocks of a batch */
    bool panels;
    size_t memory; /* of a thread */
} plan;

static void task(const tn_attention *model, const plan *p, int64_t index, char *memory) {
    tn_attention a = *model;
    tn_attention_memory m;
    int64_t batch = index / p->blocks, row = index % p->blocks * p->rows;
    int64_t rows = a.queries - row < p->rows ? a.queries - row : p->rows;
    a.query.data = batch_data(p->query, &p->by_query, batch);
    a.key.data = batch_data(p->key, &p->by_key, batch);
    a.value.data = batch_data(p->value, &p->by_value, batch);
    a.out.data = batch_data(p->out, &p->by_out, batch);
    a.mask.data = p->mask ? batch_data(p->mask, &p->by_mask, batch) : NULL;
    if (p->panels) {
        TN_K(attention_panels)(&a, row, rows, memory);
        return;
    }
    carve(&a, p->rows, memory, &m);
    if (a.class == TN_CLASS_F32)
        block_f32(&a, &m, row, rows);
    else
        block_f64(&a, &m, row, rows);
}

static void set_plan(const tn_call *call, plan *p, bool grouped) {
    p->query = &call->in[0];
    p->key = &call->in[1];
    p->value = &call->in[2];
    p->mask = tn_call_in(call, 3);
    p->out = &call->out[0];
    p->by_query = batches_of(p->query, p->out, false);
    p->by_key = batches_of(p->key, p->out, grouped);
    p->by_value = batches_of(p->value, p->out, grouped);
    p->by_out = batches_of(p->out, p->out, false);
    if (p->mask)
        p->by_mask = batches_of(p->mask, p->out, false);
}

/* With panels a task is all queries of a head, or a share for each thread where there are too few
 * heads; each packs the keys anew. */
static void set_blocks(plan *p, tn_attention *a, int64_t batch, int threads) {
    tn_attention_memory m;
    p->panels = a->class == TN_CLASS_F32 && a->queries >= MIN_PANELS;
    p->rows = a->queries < TN_ATTENTION_ROWS ? a->queries : TN_ATTENTION_ROWS;
    if (p->panels) {
        int64_t parts = batch % threads == 0 || batch >= 4 * threads ? 1 : threads;
        p->rows = (a->queries + parts - 1) / parts;
        p->memory = TN_K(attention_panels_size)(a);
    } else {
        a->scratch = rounded(products_size(a, p->rows));
        p->memory = carve(a, p->rows, NULL, &m);
    }
    p->blocks = (a->queries + p->rows - 1) / p->rows;
}

tenon_status TN_K(attention)(tn_call *call) {
    const tenon_node *node = call->node;
    plan p = {0};
    tn_attention a = {.class = tn_class_of(call->in[0].dtype), .causal = tn_arg_bool(node, 5)};
    if (tenon_view_numel(&call->out[0]) == 0)
        return TENON_OK;
    set_plan(call, &p, tn_arg_bool(node, 7));
    a.query = matrix_of(p.query);
    a.key = matrix_of(p.key);
    a.value = matrix_of(p.value);
    a.out = matrix_of(p.out);
    if (p.mask)
        a.mask = matrix_of(p.mask);
    a.queries = p.query->shape[p.query->rank - 2];
    a.width = p.query->shape[p.query->rank - 1];
    a.keys = p.key->shape[p.key->rank - 2];
    a.value_width = p.value->shape[p.value->rank - 1];
    a.scale = tn_arg_float(node, 6, 1 / sqrt((double)a.width));
    int64_t batch = 1;
    for (int d = 0; d < p.out->rank - 2; d++)
        batch *= p.out->shape[d];
    set_blocks(&p, &a, batch, call->threads);
    char *memory = tn_call_scratch(call, p.memory * (size_t)call->threads);
    if (!memory)
        return tn_no_memory();
    double work =
        (double)batch * (double)a.queries * (double)a.keys * (double)(a.width + a.value_width);
#pragma omp parallel for num_threads(call->threads) schedule(dynamic) if (work > TN_PARALLEL_WORK)
    for (int64_t i = 0; i < batch * p.blocks; i++)
        task(&a, &p, i, memory + p.memory * (size_t)omp_get_thread_num());
    return TENON_OK;
}
