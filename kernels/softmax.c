/* _softmax and _log_softmax along any dimension. float32, float16 and bfloat16 are computed in
 * float, float64 in double. A row without a finite maximum gives NaN, as PyTorch does. */
#include "kernels/block.h"
#include "kernels/vmath.h"
#include <math.h>
#include <string.h>

/* Rows that are worked on side by side when the softmax dimension is not the innermost. */
#define COLUMNS 16

static float row_max(const float *x, int64_t n) {
    float lane[16], top;
    int64_t i = 0;
    for (int k = 0; k < 16; k++)
        lane[k] = -INFINITY;
    for (; i + 16 <= n; i += 16) {
#pragma omp simd
        for (int k = 0; k < 16; k++)
            lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    }
    top = lane[0];
    for (int k = 1; k < 16; k++)
        top = lane[k] > top ? lane[k] : top;
    for (; i < n; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

/* The sum of exp(x - top), which go to `out` unless it is NULL. Blocks are summed in float, their
 * sums in double. */
static double row_exp(const float *x, float top, int64_t n, float *out) {
    double sum = 0;
    for (int64_t at = 0; at < n; at += TN_BLOCK) {
        int64_t end = n - at < TN_BLOCK ? n : at + TN_BLOCK;
        float part = 0;
        if (out) {
#pragma omp simd reduction(+ : part)
            for (int64_t i = at; i < end; i++) {
                float e = tn_expf(x[i] - top);
                out[i] = e;
                part += e;
            }
        } else {
#pragma omp simd reduction(+ : part)
            for (int64_t i = at; i < end; i++)
                part += tn_expf(x[i] - top);
        }
        sum += (double)part;
    }
    return sum;
}

static void softmax_row(const float *x, float *out, int64_t n, bool log_of) {
    const float top = row_max(x, n);
    if (log_of) {
        const float shift = (float)log(row_exp(x, top, n, NULL));
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] = (x[i] - top) - shift;
        return;
    }
    const float scale = (float)(1 / row_exp(x, top, n, out));
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] *= scale;
}

/* In place over `n` rows of COLUMNS numbers; each column is a softmax of its own. */
static void softmax_columns(float *x, int64_t n, bool log_of) {
    float top[COLUMNS], scale[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) {
        top[c] = -INFINITY;
        scale[c] = 0;
    }
    for (int64_t k = 0; k < n; k++) {
#pragma omp simd
        for (int c = 0; c < COLUMNS; c++)
            top[c] = x[k * COLUMNS + c] > top[c] ? x[k * COLUMNS + c] : top[c];
    }
    for (int64_t k = 0; k < n; k++) {
#pragma omp simd
        for (int c = 0; c < COLUMNS; c++) {
            float away = x[k * COLUMNS + c] - top[c], e = tn_expf(away);
            x[k * COLUMNS + c] = log_of ? away : e;
            scale[c] += e;
        }
    }
    for (int c = 0; c < COLUMNS; c++)
        scale[c] = log_of ? logf(scale[c]) : 1 / scale[c];
    for (int64_t k = 0; k < n; k++) {
#pragma omp simd
        for (int c = 0; c < COLUMNS; c++) {
            float y = x[k * COLUMNS + c];
            x[k * COLUMNS + c] = log_of ? y - scale[c] : y * scale[c];
        }
    }
}

static void softmax_double(double *x, int64_t n, bool log_of) {
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        top = x[i] > top ? x[i] : top;
    for (int64_t i = 0; i < n; i++) {
        double away = x[i] - top, e = exp(away);
        x[i] = log_of ? away : e;
        sum += e;
    }
    double shift = log(sum);
    for (int64_t i = 0; i < n; i++)
        x[i] = log_of ? x[i] - shift : x[i] / sum;
}

typedef struct job {
    const char *in;
    char *out;
    tenon_dtype from, to;
    tn_walk walk; /* around the softmax dimension; array 0: in, array 1: out */
    int64_t n, in_step, out_step;
    int64_t column,
        column_step[TN_WALK_ARRAYS]; /* rows side by side; 1 when the dimension is the innermost */
    bool log_of;
} job;

static void one_row(const job *j, const char *in, char *out, void *buffer) {
    if (j->from == TENON_FLOAT64) {
        tn_get_doubles(buffer, in, j->in_step, j->from, j->n);
        softmax_double(buffer, j->n, j->log_of);
        tn_put_doubles(out, j->out_step, j->to, buffer, j->n);
        return;
    }
    const float *x = (const float *)in;
    if (j->from != TENON_FLOAT32 || j->in_step != 4) {
        tn_get_floats(buffer, in, j->in_step, j->from, j->n);
        x = buffer;
    }
    if (j->to == TENON_FLOAT32 && j->out_step == 4) {
        softmax_row(x, (float *)out, j->n, j->log_of);
        return;
    }
    softmax_row(x, buffer, j->n, j->log_of);
    tn_put_floats(out, j->out_step, j->to, buffer, j->n);
}

static void some_columns(const job *j, const char *in, char *out, int64_t columns, float *buffer) {
    for (int64_t k = 0; k < j->n; k++) {
        float *row = buffer + k * COLUMNS;
        tn_get_floats(row, in + k * j->in_step, j->column_step[0], j->from, columns);
        for (int64_t c = columns; c < COLUMNS; c++)
            row[c] = 0;
    }
    softmax_columns(buffer, j->n, j->log_of);
    for (int64_t k = 0; k < j->n; k++)
        tn_put_floats(out + k * j->out_step, j->column_step[1], j->to, buffer + k * COLUMNS,
                      columns);
}

static void part(const job *j, int64_t begin, int64_t end, void *buffer) {
    tn_walk w = j->walk;
    int64_t pieces = j->column == 1 ? 1 : (j->column + COLUMNS - 1) / COLUMNS;
    tn_walk_seek(&w, begin / pieces);
    for (int64_t i = begin; i < end; i++) {
        const char *in = j->in + w.at[0];
        char *out = j->out + w.at[1];
        if (j->column == 1) {
            one_row(j, in, out, buffer);
        } else {
            int64_t c = i % pieces * COLUMNS;
            some_columns(j, in + c * j->column_step[0], out + c * j->column_step[1],
                         j->column - c < COLUMNS ? j->column - c : COLUMNS, buffer);
        }
        if (i % pieces == pieces - 1)
            tn_walk_next(&w);
    }
}

tenon_status TN_K(softmax)(tn_call *call) {
    const tenon_view *in = tn_call_in(call, 0);
    const tenon_view *out = &call->out[0];
    job j = {
        .in = in->data, .out = out->data, .from = in->dtype, .to = out->dtype, .n = 1, .column = 1};
    int64_t all = tenon_view_numel(in), dim = tn_arg_int(call->node, 1, -1);
    dim = dim < 0 ? dim + in->rank : dim;
    j.log_of = call->node->op->id == TN_OP_log_softmax;
    j.walk = tn_walk_make();
    if (all == 0)
        return TENON_OK;
    if (in->rank > 0) {
        j.n = in->shape[dim];
        j.in_step = tn_step(in, (int)dim);
        j.out_step = tn_step(out, (int)dim);
    }
    tn_walk_around(&j.walk, in, out, (int)dim);
    int inner = j.walk.rank - 1;
    int64_t tasks = j.walk.count, width = 1;
    if (inner >= 0 && j.from != TENON_FLOAT64 &&
        tn_walk_abs(j.walk.step[0][inner]) < tn_walk_abs(j.in_step)) {
        j.column = tn_walk_inner(&j.walk, j.column_step);
        tasks = j.walk.count * ((j.column + COLUMNS - 1) / COLUMNS);
        width = COLUMNS;
    }
    int threads = tn_threads(call, all * 4, tasks);
    size_t size = ((size_t)j.n * (size_t)width * (j.from == TENON_FLOAT64 ? 8 : 4) + 63) / 64 * 64;
    char *buffer = tn_call_scratch(call, size * (size_t)threads);
    if (!buffer)
        return tn_no_memory();
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; t++)
        part(&j, tn_part(tasks, t, threads), tn_part(tasks, t + 1, threads),
             buffer + (size_t)t * size);
    return TENON_OK;
}
