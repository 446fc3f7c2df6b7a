/* Scans that remember more than a sum: cummax and cummin, with the place of what they found, and
 * logcumsumexp. The last of equal elements counts; once there is NaN, it stays. */
#include "kernels/block.h"
#include "kernels/combine.h"
#include <math.h>

typedef struct job {
    const tenon_view *in;
    tenon_view values, places; /* dtype NONE: not wanted */
    int64_t n, step[3];
    bool most, sum;
} job;

static void put_place(const job *j, char *p, int64_t place) {
    if (j->places.dtype)
        *(int64_t *)(void *)p = place;
}

static void whole_row(const job *j, const char *in, char *values, char *places) {
    int64_t best = 0, place = 0;
    for (int64_t i = 0; i < j->n; i++) {
        int64_t x = tn_load_int(in + i * j->step[0], j->in->dtype);
        bool better =
            i == 0 || (j->in->dtype == TENON_UINT64
                           ? j->most ? (uint64_t)x >= (uint64_t)best : (uint64_t)x <= (uint64_t)best
                       : j->most ? x >= best
                                 : x <= best);
        if (better) {
            best = x;
            place = i;
        }
        if (j->values.dtype)
            tn_store_int(values + i * j->step[1], j->values.dtype, best);
        put_place(j, places + i * j->step[2], place);
    }
}

static void float_row(const job *j, const char *in, char *values, char *places) {
    double best = 0;
    int64_t place = 0;
    for (int64_t i = 0; i < j->n; i++) {
        double x = tn_load_float(in + i * j->step[0], j->in->dtype);
        if (i == 0 || x != x || (best == best && (j->most ? x >= best : x <= best))) {
            best = x;
            place = i;
        }
        if (j->values.dtype)
            tn_store_float(values + i * j->step[1], j->values.dtype, best);
        put_place(j, places + i * j->step[2], place);
    }
}

/* log(exp(a) + exp(b)) */
static double add_logs(double a, double b) {
    double low = a < b ? a : b, high = a < b ? b : a;
    if (a != a || b != b)
        return NAN;
    return low == high && isinf(low) ? low : high + log1p(exp(low - high));
}

static void log_row(const job *j, const char *in, char *values) {
    double sum = -INFINITY;
    for (int64_t i = 0; i < j->n; i++) {
        sum = add_logs(sum, tn_load_float(in + i * j->step[0], j->in->dtype));
        tn_store_float(values + i * j->step[1], j->values.dtype, sum);
    }
}

static void part(const job *j, const tn_walk *walk, int64_t begin, int64_t end) {
    tn_walk w = *walk;
    tn_walk_seek(&w, begin);
    for (int64_t r = begin; r < end; r++) {
        const char *in = (const char *)j->in->data + w.at[0];
        char *values = j->values.dtype ? (char *)j->values.data + w.at[1] : NULL;
        char *places = j->places.dtype ? (char *)j->places.data + w.at[2] : NULL;
        if (j->sum)
            log_row(j, in, values);
        else if (tn_dtype_is_float(j->in->dtype))
            float_row(j, in, values, places);
        else
            whole_row(j, in, values, places);
        tn_walk_next(&w);
    }
}

tenon_status TN_K(cumulate)(tn_call *call) {
    int id = call->node->op->id;
    const tenon_view in = tn_at_least_1d(tn_call_in(call, 0));
    int64_t dim = tn_arg_int(call->node, 1, 0);
    job j = {.in = &in, .most = id == TN_OP_cummax, .sum = id == TN_OP_logcumsumexp};
    j.values = tn_at_least_1d(&call->out[0]);
    if (call->out_count > 1)
        j.places = tn_at_least_1d(&call->out[1]);
    if (tenon_view_numel(&in) == 0 || (!j.values.dtype && !j.places.dtype))
        return TENON_OK;
    dim = dim < 0 ? dim + in.rank : dim;
    tn_walk walk = tn_walk_make();
    for (int d = 0; d < in.rank; d++) {
        int64_t step[3] = {tn_step(&in, d), j.values.dtype ? tn_step(&j.values, d) : 0,
                           j.places.dtype ? tn_step(&j.places, d) : 0};
        if (d != dim) {
            tn_walk_dim(&walk, in.shape[d], step[0], step[1], step[2]);
            continue;
        }
        j.n = in.shape[d];
        for (int k = 0; k < 3; k++)
            j.step[k] = step[k];
    }
    int threads = tn_threads(call, walk.count * j.n * 4, walk.count);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; t++)
        part(&j, &walk, tn_part(walk.count, t, threads), tn_part(walk.count, t + 1, threads));
    return TENON_OK;
}
