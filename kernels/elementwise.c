/* The driver of elementwise kernels. */
#include "kernels/elementwise.h"
#include "kernels/iterate.h"

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
    int64_t chunk = whole ? n : TN_CHUNK;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t at = 0; at < n; at += chunk) {
            int64_t count = n - at < chunk ? n - at : chunk;
            const void *in[TN_ELEM_INPUTS];
            for (int k = 0; k < e->in_count; k++) {
                const char *from = data[k + 1] + row * outer[k + 1] + at * inner[k + 1];
                in[k] = ops[k].direct ? from : ops[k].buffer;
                if (!ops[k].direct)
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
