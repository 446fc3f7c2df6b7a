/* The driver of elementwise kernels. */
#include "kernels/elementwise.h"
#include "kernels/iterate.h"
#include <string.h>

typedef struct job {
    const tn_elem *elem;
    tenon_dtype out_dtype, in_dtype[TN_ELEM_INPUTS];
    size_t out_size, in_size[TN_ELEM_INPUTS];
} job;

/* One operand while rows are walked. */
typedef struct operand {
    tn_load_fn load;
    tenon_dtype round; /* NONE: as loaded */
    bool direct;       /* rows are packed and of the class: no buffer */
    bool repeats;      /* the buffer holds what all rows see */
    const char *held;  /* what a broadcast operand's buffer holds, and how many times */
    int64_t held_count;
    char *buffer;
} operand;

#define WRAP(TYPE)                                                                      \
    do {                                                                                \
        int64_t *v = data;                                                              \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) v[i] = (int64_t)(TYPE)v[i]; \
    } while (0)

/* Rounds packed values of a class to what `dtype` can hold. */
static void round_row(void *data, tn_class class, tenon_dtype dtype, int64_t n) {
    if (class == TN_CLASS_F32) {
        float *v = data;
        if (dtype == TENON_BFLOAT16) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                v[i] = tn_bf16_to_float(tn_float_bfloat(v[i]));
        } else if (dtype == TENON_FLOAT16) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                v[i] = tn_half_float(tn_float_half(v[i]));
        }
    } else if (class == TN_CLASS_I64) {
        switch (dtype) {
        case TENON_INT8:
            WRAP(int8_t);
            break;
        case TENON_UINT8:
            WRAP(uint8_t);
            break;
        case TENON_INT16:
            WRAP(int16_t);
            break;
        case TENON_UINT16:
            WRAP(uint16_t);
            break;
        case TENON_INT32:
            WRAP(int32_t);
            break;
        case TENON_UINT32:
            WRAP(uint32_t);
            break;
        default:
            break;
        }
    }
}

static void load(const job *j, operand *op, int k, const char *from, int64_t stride, int64_t n) {
    if (stride == 0) {
        if (op->held == from && op->held_count >= n)
            return;
        op->held = from;
        op->held_count = n;
    }
    op->load(op->buffer, from, stride, n);
    if (op->round != TENON_DTYPE_NONE)
        round_row(op->buffer, j->elem->in_class[k], op->round, n);
}

/* How many short rows are one row of elements that follow each other, in which operands that all
 * rows share repeat; 1: none. */
static int64_t rows_together(const tn_elem *e, const int64_t *inner, const int64_t *outer,
                             int64_t n, int64_t rows) {
    bool repeats = false;
    if (rows < 2 || 2 * n > TN_CHUNK || outer[0] != n * inner[0])
        return 1;
    for (int k = 1; k <= e->in_count; k++) {
        if (outer[k] != 0 && outer[k] != n * inner[k])
            return 1;
        repeats |= outer[k] == 0;
    }
    int64_t most = TN_CHUNK / n;
    return !repeats ? 1 : most < rows ? most : rows;
}

/* Loads one row, `times` times over. */
static void load_repeated(const job *j, operand *op, int k, const char *from, int64_t stride,
                          int64_t n, int64_t times) {
    size_t row = tn_class_size(j->elem->in_class[k]) * (size_t)n;
    load(j, op, k, from, stride, n);
    for (int64_t i = 1; i < times; i++)
        memcpy(op->buffer + (size_t)i * row, op->buffer, row);
    op->direct = false;
    op->repeats = true;
}

static void walk(char *const *data, const int64_t *inner, const int64_t *outer, int64_t n,
                 int64_t rows, void *user) {
    const job *j = user;
    const tn_elem *e = j->elem;
    _Alignas(64) char buffers[TN_ELEM_INPUTS + 1][TN_CHUNK * sizeof(int64_t)];
    operand ops[TN_ELEM_INPUTS] = {0};
    bool store =
        !(tn_class_is(e->out_class, j->out_dtype) && (inner[0] == (int64_t)j->out_size || n == 1));
    bool whole = !store;
    for (int k = 0; k < e->in_count; k++) {
        operand *op = &ops[k];
        tenon_dtype from = j->in_dtype[k];
        op->load = TN_K(load)[e->in_class[k]][from];
        op->round = e->via[k] == from ? TENON_DTYPE_NONE : e->via[k];
        op->direct = op->round == TENON_DTYPE_NONE && tn_class_is(e->in_class[k], from) &&
                     (inner[k + 1] == (int64_t)j->in_size[k] || n == 1);
        op->buffer = buffers[k];
        whole = whole && op->direct;
    }
    int64_t chunk = whole ? n : TN_CHUNK, together = rows_together(e, inner, outer, n, rows);
    if (together > 1) {
        for (int k = 0; k < e->in_count; k++)
            if (outer[k + 1] == 0)
                load_repeated(j, &ops[k], k, data[k + 1], inner[k + 1], n, together);
        chunk = together * n;
        n *= rows;
        rows = 1;
    }
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t at = 0; at < n; at += chunk) {
            int64_t count = n - at < chunk ? n - at : chunk;
            const void *in[TN_ELEM_INPUTS];
            for (int k = 0; k < e->in_count; k++) {
                const char *from = data[k + 1] + row * outer[k + 1] + at * inner[k + 1];
                in[k] = ops[k].direct ? from : ops[k].buffer;
                if (!ops[k].direct && !ops[k].repeats)
                    load(j, &ops[k], k, from, inner[k + 1], count);
            }
            char *to = data[0] + row * outer[0] + at * inner[0];
            if (store) {
                e->fn(buffers[TN_ELEM_INPUTS], in, count, &e->numbers);
                TN_K(store)
                [e->out_class][j->out_dtype](to, inner[0], buffers[TN_ELEM_INPUTS], count);
            } else {
                e->fn(to, in, count, &e->numbers);
            }
        }
    }
}

tenon_status TN_K(elementwise)(tn_call *call, const tn_elem *elem, const tenon_view *out,
                               const tenon_view *in) {
    if (out->dtype == TENON_DTYPE_NONE)
        return TENON_OK;
    int failed = 0;
    tn_elem own = *elem;
    own.numbers.failed = &failed;
    job j = {.elem = &own, .out_dtype = out->dtype, .out_size = tenon_dtype_size(out->dtype)};
    tn_iter it;
    tn_iter_begin(&it, out->rank, out->shape);
    tn_iter_add(&it, out);
    for (int k = 0; k < own.in_count; k++) {
        j.in_dtype[k] = in[k].dtype;
        j.in_size[k] = tenon_dtype_size(in[k].dtype);
        tn_iter_add(&it, &in[k]);
    }
    tn_iter_order(&it);
    tn_iter_run(&it, call->threads, own.cost ? own.cost : 1, walk, &j);
    if (failed)
        return tn_call_fail(call, "integer division by zero");
    return TENON_OK;
}
