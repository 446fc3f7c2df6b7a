/* Normalisations with one scale and shift a channel: batch norm (inference, and without running
 * statistics) and group norm. The statistics are taken in double; then out = in * scale[c] +
 * shift[c] in either layout. */
#include "kernels/reduce.h"
#include <math.h>

/* Scales and shifts of `channels` channels, or of each channel of each batch entry. */
typedef struct affine {
    double *scale, *shift;
    float *scale_f, *shift_f;
    int64_t channels;
    bool per_batch;
} affine;

static tenon_status make_affine(tn_call *call, affine *a, int64_t count) {
    double *p = tn_call_scratch(call, (size_t)count * 24 + 64);
    if (!p)
        return tn_no_memory();
    a->scale = p;
    a->shift = p + count;
    a->scale_f = (float *)(p + 2 * count);
    a->shift_f = a->scale_f + count;
    return TENON_OK;
}

typedef struct job {
    const affine *a;
    const char *in;
    char *out;
    tenon_dtype from, to;
    tn_walk walk; /* array 0: in, array 1: out, array 2: index of scale and shift */
    int64_t n, step[TN_WALK_ARRAYS];
} job;

/* n elements with one scale and shift (`along` false) or one each. */
#define APPLY(NAME, T)                                                                            \
    static void NAME(const T *x, T *out, const T *scale, const T *shift, int64_t n, bool along) { \
        if (along) {                                                                              \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] =                          \
                x[i] * scale[i] + shift[i];                                                       \
            return;                                                                               \
        }                                                                                         \
        const T a = *scale, b = *shift;                                                           \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = x[i] * a + b;                \
    }
APPLY(apply_float, float)
APPLY(apply_double, double)

static void apply_run(const job *j, const char *in, char *out, int64_t c, bool along) {
    const affine *a = j->a;
    union {
        float f[TN_BLOCK];
        double d[TN_BLOCK];
    } b;
    if (j->from == TENON_FLOAT32 && j->to == TENON_FLOAT32 && j->step[0] == 4 && j->step[1] == 4) {
        apply_float((const float *)in, (float *)out, a->scale_f + c, a->shift_f + c, j->n, along);
        return;
    }
    for (int64_t at = 0; at < j->n; at += TN_BLOCK) {
        int64_t n = j->n - at < TN_BLOCK ? j->n - at : TN_BLOCK, k = along ? c + at : c;
        const char *x = in + at * j->step[0];
        char *y = out + at * j->step[1];
        if (j->from == TENON_FLOAT64) {
            tn_get_doubles(b.d, x, j->step[0], j->from, n);
            apply_double(b.d, b.d, a->scale + k, a->shift + k, n, along);
            tn_put_doubles(y, j->step[1], j->to, b.d, n);
        } else {
            tn_get_floats(b.f, x, j->step[0], j->from, n);
            apply_float(b.f, b.f, a->scale_f + k, a->shift_f + k, n, along);
            tn_put_floats(y, j->step[1], j->to, b.f, n);
        }
    }
}

static void apply_part(const job *j, int64_t begin, int64_t end) {
    tn_walk w = j->walk;
    tn_walk_seek(&w, begin);
    for (int64_t i = begin; i < end; i++) {
        apply_run(j, j->in + w.at[0], j->out + w.at[1], w.at[2], j->step[2] != 0);
        tn_walk_next(&w);
    }
}

/* out = in * scale + shift; dimension 1 is the channel's. */
static void apply(const tn_call *call, const affine *a, const tenon_view *in,
                  const tenon_view *out) {
    job j = {.a = a, .in = in->data, .out = out->data, .from = in->dtype, .to = out->dtype};
    int64_t count = tenon_view_numel(in), channels = in->shape[1];
    if (out->dtype == TENON_DTYPE_NONE || count == 0)
        return;
    for (int64_t c = 0; c < a->channels; c++) {
        a->scale_f[c] = (float)a->scale[c];
        a->shift_f[c] = (float)a->shift[c];
    }
    j.walk = tn_walk_make();
    for (int d = 0; d < in->rank; d++) {
        int64_t index = d == 1 ? 1 : d == 0 && a->per_batch ? channels : 0;
        tn_walk_dim(&j.walk, in->shape[d], tn_step(in, d), tn_step(out, d), index);
    }
    tn_walk_sort(&j.walk, 0);
    tn_walk_merge(&j.walk);
    /* A run whose scale index moves by more than one is walked element by element. */
    j.n = 1;
    if (j.walk.rank == 0 || j.walk.step[2][j.walk.rank - 1] <= 1)
        j.n = tn_walk_inner(&j.walk, j.step);
    int threads = tn_threads(call, count, j.walk.count);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; t++)
        apply_part(&j, tn_part(j.walk.count, t, threads), tn_part(j.walk.count, t + 1, threads));
}

/* Element i of a 1-d parameter; `other` without one. */
static double element(const tenon_view *v, int64_t i, double other) {
    return v ? tn_load_float((const char *)v->data + i * tn_step(v, 0), v->dtype) : other;
}

static void put_stats(const tenon_view *v, const double *from, int64_t n) {
    for (int64_t i = 0; v->dtype != TENON_DTYPE_NONE && i < n; i++) {
        int64_t at = 0, rest = i;
        for (int d = v->rank - 1; d >= 0; d--) {
            at += rest % v->shape[d] * tn_step(v, d);
            rest /= v->shape[d];
        }
        tn_store_float((char *)v->data + at, v->dtype, from[i]);
    }
}

tenon_status TN_K(batch_norm)(tn_call *call) {
    const tenon_view *in = tn_call_in(call, 0), *weight = tn_call_in(call, 1),
                     *bias = tn_call_in(call, 2);
    bool running = call->node->op->id == TN_OP_native_batch_norm_legit_no_training;
    double eps = tn_arg_float(call->node, running ? 6 : 5, 0);
    int64_t channels = in->shape[1];
    affine a = {.channels = channels};
    TN_TRY(make_affine(call, &a, channels));
    double *means = tn_call_scratch(call, (size_t)channels * 16 + 64);
    if (!means)
        return tn_no_memory();
    double *variances = means + channels;
    if (running) {
        for (int64_t c = 0; c < channels; c++) {
            means[c] = element(tn_call_in(call, 3), c, 0);
            variances[c] = element(tn_call_in(call, 4), c, 1);
        }
    } else {
        TN_K(moments)(call, in, ((1u << in->rank) - 1) & ~2u, means, variances);
    }
    for (int64_t c = 0; c < channels; c++) {
        double rstd = 1 / sqrt(variances[c] + eps);
        a.scale[c] = rstd * element(weight, c, 1);
        a.shift[c] = element(bias, c, 0) - means[c] * a.scale[c];
        variances[c] = rstd;
    }
    apply(call, &a, in, &call->out[0]);
    if (!running) {
        put_stats(&call->out[1], means, channels);
        put_stats(&call->out[2], variances, channels);
    }
    return TENON_OK;
}

/* The view [batch, groups, channels of a group, ...] of `in`, whose dimension 1 is split. */
static tenon_view grouped(const tenon_view *in, int64_t groups) {
    tenon_view v = *in;
    v.rank++;
    for (int d = in->rank; d > 2; d--) {
        v.shape[d] = in->shape[d - 1];
        v.strides[d] = in->strides[d - 1];
    }
    v.shape[1] = groups;
    v.shape[2] = in->shape[1] / groups;
    v.strides[1] = in->strides[1] * v.shape[2];
    v.strides[2] = in->strides[1];
    return v;
}

tenon_status TN_K(group_norm)(tn_call *call) {
    const tenon_view *in = tn_call_in(call, 0), *weight = tn_call_in(call, 1),
                     *bias = tn_call_in(call, 2);
    int64_t groups = tn_arg_int(call->node, 6, 1);
    double eps = tn_arg_float(call->node, 7, 0);
    int64_t batch = in->shape[0], channels = in->shape[1], each = channels / groups;
    affine a = {.channels = batch * channels, .per_batch = true};
    TN_TRY(make_affine(call, &a, batch * channels));
    double *means = tn_call_scratch(call, (size_t)(batch * groups) * 16 + 64);
    if (!means)
        return tn_no_memory();
    double *rstds = means + batch * groups;
    tenon_view v = grouped(in, groups);
    TN_K(moments)(call, &v, ((1u << v.rank) - 1) & ~3u, means, rstds);
    for (int64_t g = 0; g < batch * groups; g++) {
        rstds[g] = 1 / sqrt(rstds[g] + eps);
        for (int64_t k = 0; k < each; k++) {
            int64_t c = g % groups * each + k, i = g / groups * channels + c;
            a.scale[i] = rstds[g] * element(weight, c, 1);
            a.shift[i] = element(bias, c, 0) - means[g] * a.scale[i];
        }
    }
    apply(call, &a, in, &call->out[0]);
    put_stats(&call->out[1], means, batch * groups);
    put_stats(&call->out[2], rstds, batch * groups);
    return TENON_OK;
}
