/* Scans along a dimension: cumsum, cumprod. Integers wrap in int64; floats are summed in double and
 * rounded at each store. */
#include "kernels/block.h"

typedef struct job {
    const char *in;
    char *out;
    tenon_dtype from, to;
    bool integer, product;
    tn_walk walk; /* around the dimension; array 0: in, array 1: out */
    int64_t n, in_step, out_step;
    int64_t column, column_step[TN_WALK_ARRAYS]; /* scans side by side */
} job;

typedef union block {
    double d[TN_BLOCK];
    int64_t i[TN_BLOCK];
} block;

static void get(const job *j, block *b, const char *p, int64_t step, int64_t n) {
    if (j->integer)
        tn_get_ints(b->i, p, step, j->from, n);
    else
        tn_get_doubles(b->d, p, step, j->from, n);
}

static void put(const job *j, const block *b, char *p, int64_t step, int64_t n) {
    if (j->integer)
        tn_put_ints(p, step, j->to, b->i, n);
    else
        tn_put_doubles(p, step, j->to, b->d, n);
}

static int64_t wrap(int64_t a, int64_t b, bool product) {
    return (int64_t)(product ? (uint64_t)a * (uint64_t)b : (uint64_t)a + (uint64_t)b);
}

static void scan_row(const job *j, const char *in, char *out) {
    block b;
    double d = j->product ? 1 : 0;
    int64_t whole = j->product ? 1 : 0;
    for (int64_t at = 0; at < j->n; at += TN_BLOCK) {
        int64_t n = j->n - at < TN_BLOCK ? j->n - at : TN_BLOCK;
        get(j, &b, in + at * j->in_step, j->in_step, n);
        for (int64_t i = 0; i < n; i++) {
            if (j->integer)
                b.i[i] = whole = wrap(whole, b.i[i], j->product);
            else
                b.d[i] = d = j->product ? d * b.d[i] : d + b.d[i];
        }
        put(j, &b, out + at * j->out_step, j->out_step, n);
    }
}

static void scan_columns(const job *j, const char *in, char *out, int64_t n) {
    block b, all;
    for (int64_t k = 0; k < j->n; k++) {
        get(j, &b, in + k * j->in_step, j->column_step[0], n);
        for (int64_t i = 0; i < n; i++) {
            if (j->integer)
                all.i[i] = k ? wrap(all.i[i], b.i[i], j->product) : b.i[i];
            else
                all.d[i] = k == 0 ? b.d[i] : j->product ? all.d[i] * b.d[i] : all.d[i] + b.d[i];
        }
        put(j, &all, out + k * j->out_step, j->column_step[1], n);
    }
}

static void part(const job *j, int64_t begin, int64_t end) {
    tn_walk w = j->walk;
    int64_t pieces = (j->column + TN_BLOCK - 1) / TN_BLOCK;
    tn_walk_seek(&w, begin / pieces);
    for (int64_t i = begin; i < end; i++) {
        int64_t c = i % pieces * TN_BLOCK;
        int64_t n = j->column - c < TN_BLOCK ? j->column - c : TN_BLOCK;
        const char *in = j->in + w.at[0] + c * j->column_step[0];
        char *out = j->out + w.at[1] + c * j->column_step[1];
        if (n == 1)
            scan_row(j, in, out);
        else
            scan_columns(j, in, out, n);
        if (i % pieces == pieces - 1)
            tn_walk_next(&w);
    }
}

tenon_status TN_K(scan)(tn_call *call) {
    const tenon_view *in = tn_call_in(call, 0);
    const tenon_view *out = &call->out[0];
    job j = {
        .in = in->data, .out = out->data, .from = in->dtype, .to = out->dtype, .n = 1, .column = 1};
    int64_t all = tenon_view_numel(in), dim = tn_arg_int(call->node, 1, 0);
    dim = dim < 0 ? dim + in->rank : dim;
    j.integer = !tn_dtype_is_float(out->dtype);
    j.product = call->node->op->id == TN_OP_cumprod;
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
    if (inner >= 0 && tn_walk_abs(j.walk.step[0][inner]) < tn_walk_abs(j.in_step))
        j.column = tn_walk_inner(&j.walk, j.column_step);
    int64_t tasks = j.walk.count * ((j.column + TN_BLOCK - 1) / TN_BLOCK);
    int threads = tn_threads(call, all, tasks);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; t++)
        part(&j, tn_part(tasks, t, threads), tn_part(tasks, t + 1, threads));
    return TENON_OK;
}
