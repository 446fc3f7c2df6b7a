/* Normalisations over trailing dimensions: native_layer_norm and rms_norm. float32, float16 and
 * bfloat16 are computed in float with double sums, float64 in double. */
#include "kernels/block.h"
#include <float.h>
#include <math.h>

typedef struct job {
    const char *in;
    char *out; /* NULL: nobody wants the result */
    tenon_dtype from, to;
    tn_walk rows; /* array 0: in, array 1: out */
    tn_walk row;  /* the rest of one row's runs, in row-major order */
    int64_t n, run, run_step[TN_WALK_ARRAYS];
    const void *weight, *bias; /* n numbers of the type that is computed in, or NULL */
    double eps;
    bool rms;
    tenon_view mean, rstd; /* row-major; dtype NONE: not wanted */
} job;

/* Four sums side by side hide the latency of the addition. */
static double sum_of(const float *x, int64_t n) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int64_t q = n / 4;
    const float *x1 = x + q, *x2 = x + 2 * q, *x3 = x + 3 * q;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int64_t i = 0; i < q; i++) {
        s0 += (double)x[i];
        s1 += (double)x1[i];
        s2 += (double)x2[i];
        s3 += (double)x3[i];
    }
    for (int64_t i = 4 * q; i < n; i++)
        s0 += (double)x[i];
    return (s0 + s1) + (s2 + s3);
}

static double squares_of(const float *x, int64_t n, double shift) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int64_t q = n / 4;
    const float *x1 = x + q, *x2 = x + 2 * q, *x3 = x + 3 * q;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int64_t i = 0; i < q; i++) {
        double d0 = (double)x[i] - shift, d1 = (double)x1[i] - shift;
        double d2 = (double)x2[i] - shift, d3 = (double)x3[i] - shift;
        s0 += d0 * d0;
        s1 += d1 * d1;
        s2 += d2 * d2;
        s3 += d3 * d3;
    }
    for (int64_t i = 4 * q; i < n; i++) {
        double d = (double)x[i] - shift;
        s0 += d * d;
    }
    return (s0 + s1) + (s2 + s3);
}

/* Mean and rstd of a row, and the row itself: (x - mean) * rstd * weight + bias. With rms the mean
 * is taken as 0. */
static void norm_float(const job *j, const float *x, float *out, double *mean, double *rstd) {
    int64_t n = j->n;
    *mean = j->rms ? 0 : sum_of(x, n) / (double)n;
    *rstd = 1 / sqrt(squares_of(x, n, *mean) / (double)n + j->eps);
    if (!out)
        return;
    const float shift = (float)*mean, scale = (float)*rstd;
    const float *w = j->weight, *b = j->bias;
    if (w && b) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] = (x[i] - shift) * scale * w[i] + b[i];
    } else if (w) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] = (x[i] - shift) * scale * w[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] = (x[i] - shift) * scale;
        for (int64_t i = 0; b && i < n; i++)
            out[i] += b[i];
    }
}

static void norm_double(const job *j, double *x, double *mean, double *rstd) {
    int64_t n = j->n;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n && !j->rms; i++)
        sum += x[i];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *rstd = 1 / sqrt(squares / (double)n + j->eps);
    const double *w = j->weight, *b = j->bias;
    for (int64_t i = 0; i < n; i++) {
        double y = (x[i] - *mean) * *rstd;
        x[i] = (w ? y * w[i] : y) + (b ? b[i] : 0);
    }
}

/* Moves a row between memory and `buffer`. */
static void move_row(const job *j, bool store, char *p, void *buffer) {
    tn_walk w = j->row;
    bool wide = j->from == TENON_FLOAT64;
    int64_t step = j->run_step[store];
    tn_walk_seek(&w, 0);
    for (int64_t r = 0; r < w.count; r++) {
        char *at = p + w.at[store];
        if (store && wide)
            tn_put_doubles(at, step, j->to, (const double *)buffer + r * j->run, j->run);
        else if (store)
            tn_put_floats(at, step, j->to, (const float *)buffer + r * j->run, j->run);
        else if (wide)
            tn_get_doubles((double *)buffer + r * j->run, at, step, j->from, j->run);
        else
            tn_get_floats((float *)buffer + r * j->run, at, step, j->from, j->run);
        tn_walk_next(&w);
    }
}

static void put_stat(const tenon_view *v, int64_t i, double value) {
    if (v->dtype != TENON_DTYPE_NONE)
        tn_put_doubles((char *)v->data + i * (int64_t)tenon_dtype_size(v->dtype), 0, v->dtype,
                       &value, 1);
}

static void part(const job *j, int64_t begin, int64_t end, void *buffer) {
    tn_walk w = j->rows;
    bool whole = j->row.count == 1;
    bool direct = whole && j->from == TENON_FLOAT32 && j->run_step[0] == 4;
    bool direct_out =
        whole && j->from != TENON_FLOAT64 && j->to == TENON_FLOAT32 && j->run_step[1] == 4;
    double mean, rstd;
    tn_walk_seek(&w, begin);
    for (int64_t i = begin; i < end; i++) {
        char *in = (char *)(uintptr_t)(j->in + w.at[0]), *out = j->out ? j->out + w.at[1] : NULL;
        float *to = !out ? NULL : direct_out ? (float *)out : buffer;
        if (!direct)
            move_row(j, false, in, buffer);
        if (j->from == TENON_FLOAT64)
            norm_double(j, buffer, &mean, &rstd);
        else
            norm_float(j, direct ? (const float *)in : buffer, to, &mean, &rstd);
        if (out && !direct_out)
            move_row(j, true, out, buffer);
        put_stat(&j->mean, i, mean);
        put_stat(&j->rstd, i, rstd);
        tn_walk_next(&w);
    }
}

/* The elements of a weight in row-major order, as float or double; NULL without one. */
static void *unroll(const tenon_view *v, bool wide, void *to) {
    tn_walk w = tn_walk_make();
    int64_t step[TN_WALK_ARRAYS];
    if (!v)
        return NULL;
    for (int d = 0; d < v->rank; d++)
        tn_walk_dim(&w, v->shape[d], tn_step(v, d), 0, 0);
    tn_walk_merge(&w);
    int64_t n = tn_walk_inner(&w, step);
    tn_walk_seek(&w, 0);
    for (int64_t i = 0; i < w.count; i++) {
        const char *p = (const char *)v->data + w.at[0];
        if (wide)
            tn_get_doubles((double *)to + i * n, p, step[0], v->dtype, n);
        else
            tn_get_floats((float *)to + i * n, p, step[0], v->dtype, n);
        tn_walk_next(&w);
    }
    return to;
}

static tenon_status normalize(tn_call *call, job *j, int rank, const tenon_view *weight,
                              const tenon_view *bias) {
    const tenon_view *in = tn_call_in(call, 0);
    const tenon_view *out = call->out[0].dtype == TENON_DTYPE_NONE ? NULL : &call->out[0];
    bool wide = in->dtype == TENON_FLOAT64;
    j->in = in->data;
    j->from = in->dtype;
    j->out = out ? out->data : NULL;
    j->to = out ? out->dtype : TENON_DTYPE_NONE;
    j->rows = j->row = tn_walk_make();
    for (int d = 0; d < in->rank; d++)
        tn_walk_dim(d < in->rank - rank ? &j->rows : &j->row, in->shape[d], tn_step(in, d),
                    out ? tn_step(out, d) : 0, 0);
    j->n = j->row.count;
    if (j->rows.count == 0 || j->n == 0)
        return TENON_OK;
    int64_t rows = j->rows.count;
    tn_walk_merge(&j->rows);
    tn_walk_merge(&j->row);
    j->run = tn_walk_inner(&j->row, j->run_step);
    int threads = tn_threads(call, rows * j->n, rows);
    size_t size = ((size_t)j->n * (wide ? 8 : 4) + 63) / 64 * 64;
    char *buffer = tn_call_scratch(call, size * (size_t)(threads + 2));
    if (!buffer)
        return tn_no_memory();
    j->weight = unroll(weight, wide, buffer + size * (size_t)threads);
    j->bias = unroll(bias, wide, buffer + size * (size_t)(threads + 1));
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; t++)
        part(j, tn_part(rows, t, threads), tn_part(rows, t + 1, threads),
             buffer + (size_t)t * size);
    return TENON_OK;
}

/* A row-major stand-in for a statistic's view, or one of dtype NONE. */
static tenon_status stat_view(tn_call *call, int output, tenon_view *v) {
    v->dtype = TENON_DTYPE_NONE;
    if (output >= call->out_count || call->out[output].dtype == TENON_DTYPE_NONE)
        return TENON_OK;
    *v = call->out[output];
    if (tenon_view_is_contiguous(v))
        return TENON_OK;
    size_t size = (size_t)tenon_view_numel(v) * tenon_dtype_size(v->dtype);
    *v = tn_view_make(tn_call_scratch(call, size + 1), v->dtype, v->rank, v->shape);
    return v->data ? TENON_OK : tn_no_memory();
}

static void stat_done(tn_call *call, int output, const tenon_view *v) {
    if (v->dtype != TENON_DTYPE_NONE)
        TN_K(copy_view)(call->threads, &call->out[output], v);
}

static int list_count(const tenon_node *node, int index) {
    return node->args[index].kind == TENON_ARG_LIST ? node->args[index].count : 1;
}

tenon_status TN_K(layer_norm)(tn_call *call) {
    job j = {.eps = tn_arg_float(call->node, 4, 0)};
    TN_TRY(stat_view(call, 1, &j.mean));
    TN_TRY(stat_view(call, 2, &j.rstd));
    TN_TRY(
        normalize(call, &j, list_count(call->node, 1), tn_call_in(call, 2), tn_call_in(call, 3)));
    stat_done(call, 1, &j.mean);
    stat_done(call, 2, &j.rstd);
    return TENON_OK;
}

tenon_status TN_K(rms_norm)(tn_call *call) {
    /* Without an eps, PyTorch takes that of the type that it computes in. */
    bool wide = call->in[0].dtype == TENON_FLOAT64;
    job j = {.rms = true,
             .eps = tn_arg_float(call->node, 3, wide ? DBL_EPSILON : (double)FLT_EPSILON)};
    return normalize(call, &j, list_count(call->node, 1), tn_call_in(call, 2), NULL);
}
