/* Reductions that tell where: argmax, argmin, and max and min along a dimension. NaN is greater (or
 * less) than all else; of equal elements the first counts. */
#include "kernels/reduce.h"

typedef struct job {
    tn_reduction r;
    const char *in;
    tenon_dtype dtype;
    bool least;   /* of them the least is wanted */
    bool integer; /* elements are compared as int64, else as double */
    int64_t run, run_step;
    tenon_view values, places; /* dtype NONE: not wanted */
} job;

typedef union block {
    double d[TN_BLOCK];
    int64_t i[TN_BLOCK];
} block;

static void load(const job *j, block *b, const char *p, int64_t step, int64_t n) {
    if (j->integer)
        tn_get_ints(b->i, p, step, j->dtype, n);
    else
        tn_get_doubles(b->d, p, step, j->dtype, n);
    /* The greatest of the turned numbers is the least of them. ~x turns integers without overflow.
     */
    if (j->least && j->integer) {
        for (int64_t i = 0; i < n; i++)
            b->i[i] = ~b->i[i];
    } else if (j->least) {
        for (int64_t i = 0; i < n; i++)
            b->d[i] = -b->d[i];
    }
}

typedef struct best {
    double d;
    int64_t i;
    int64_t place;
} best;

static void scan_double(best *at, const double *x, int64_t n, int64_t place) {
    int hit = 0;
    const double start = at->d;
    if (start != start && at->place >= 0)
        return;
#pragma omp simd reduction(| : hit)
    for (int64_t i = 0; i < n; i++)
        hit |= !(x[i] <= start);
    if (!hit && at->place >= 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        if (at->place < 0 || !(x[i] <= at->d)) {
            at->d = x[i];
            at->place = place + i;
            if (x[i] != x[i])
                return;
        }
    }
}

static void scan_int(best *at, const int64_t *x, int64_t n, int64_t place) {
    for (int64_t i = 0; i < n; i++) {
        if (at->place < 0 || x[i] > at->i) {
            at->i = x[i];
            at->place = place + i;
        }
    }
}

static void scan_run(const job *j, best *at, const char *in, int64_t place) {
    block b;
    for (int64_t k = 0; k < j->run; k += TN_BLOCK) {
        int64_t n = j->run - k < TN_BLOCK ? j->run - k : TN_BLOCK;
        load(j, &b, in + k * j->run_step, j->run_step, n);
        if (j->integer)
            scan_int(at, b.i, n, place + k);
        else
            scan_double(at, b.d, n, place + k);
    }
}

static int64_t find_row(const job *j, const char *in) {
    best at = {0, 0, -1};
    if (j->r.reduced.rank == 0) {
        scan_run(j, &at, in, 0);
        return at.place;
    }
    tn_walk w = j->r.reduced;
    tn_walk_seek(&w, 0);
    for (int64_t o = 0; o < w.count; o++) {
        scan_run(j, &at, in + w.at[0], o * j->run);
        tn_walk_next(&w);
    }
    return at.place;
}

/* The places of n neighbouring results. One reduced dimension. */
static void find_columns(const job *j, const char *in, int64_t step, int64_t n, int64_t *place) {
    block b, top;
    load(j, &top, in, step, n);
    for (int64_t i = 0; i < n; i++)
        place[i] = 0;
    for (int64_t k = 1; k < j->run; k++) {
        load(j, &b, in + k * j->run_step, step, n);
        if (j->integer) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                place[i] = b.i[i] > top.i[i] ? k : place[i];
                top.i[i] = b.i[i] > top.i[i] ? b.i[i] : top.i[i];
            }
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                bool takes = !(b.d[i] <= top.d[i]) && top.d[i] == top.d[i];
                place[i] = takes ? k : place[i];
                top.d[i] = takes ? b.d[i] : top.d[i];
            }
        }
    }
}

/* Stores the results of n neighbours whose elements begin at `in`. */
static void store(const job *j, const char *in, int64_t step, const int64_t *place, int64_t n,
                  char *value, int64_t value_step, char *at, int64_t at_step) {
    size_t size = tenon_dtype_size(j->dtype);
    if (at)
        tn_put_ints(at, at_step, j->places.dtype, place, n);
    if (!value)
        return;
    /* The places count along a single dimension: max.dim and min.dim take no more. */
    for (int64_t i = 0; i < n; i++)
        TN_K(move_run)
    (value + i * value_step, 0, in + i * step + place[i] * j->run_step, 0, size, 1);
}

static void part(const job *j, int64_t begin, int64_t end, int64_t column, const int64_t *step) {
    int64_t place[TN_BLOCK];
    int64_t pieces = (column + TN_BLOCK - 1) / TN_BLOCK;
    tn_walk w = j->r.kept;
    bool sides = column > 1;
    tn_walk_seek(&w, begin / pieces);
    for (int64_t i = begin; i < end; i++) {
        int64_t c = i % pieces * TN_BLOCK;
        int64_t n = column - c < TN_BLOCK ? column - c : TN_BLOCK;
        const char *in = j->in + w.at[0] + c * step[0];
        char *value = j->values.dtype ? (char *)j->values.data + w.at[1] + c * step[1] : NULL;
        char *at = j->places.dtype ? (char *)j->places.data + w.at[2] + c * step[2] : NULL;
        if (sides) {
            find_columns(j, in, step[0], n, place);
            store(j, in, step[0], place, n, value, step[1], at, step[2]);
        } else {
            place[0] = find_row(j, in);
            store(j, in, 0, place, 1, value, 0, at, 0);
        }
        if (i % pieces == pieces - 1)
            tn_walk_next(&w);
    }
}

tenon_status TN_K(reduce_arg)(tn_call *call) {
    const tenon_node *node = call->node;
    const tenon_view *in = tn_call_in(call, 0);
    int id = node->op->id;
    bool pair = id == TN_OP_max_dim || id == TN_OP_min_dim;
    job j = {.in = in->data, .dtype = in->dtype};
    j.least = id == TN_OP_min_dim || id == TN_OP_argmin;
    j.integer = !tn_dtype_is_float(in->dtype);
    j.places = call->out[pair ? 1 : 0];
    if (pair)
        j.values = call->out[0];
    uint32_t mask = tn_reduce_mask(node, 1, in->rank, true);
    j.r = TN_K(reduction)(in, mask, j.values.dtype ? &j.values : NULL,
                          j.places.dtype ? &j.places : NULL, true);
    if (j.r.kept.count == 0)
        return TENON_OK;
    int64_t work = j.r.kept.count * j.r.n, step[TN_WALK_ARRAYS], column = 1;
    j.run = tn_walk_inner(&j.r.reduced, step);
    j.run_step = step[0];
    int inner = j.r.kept.rank - 1;
    if (inner >= 0 && j.r.reduced.rank == 0 &&
        tn_walk_abs(j.r.kept.step[0][inner]) < tn_walk_abs(j.run_step))
        column = tn_walk_inner(&j.r.kept, step);
    int64_t tasks = j.r.kept.count * ((column + TN_BLOCK - 1) / TN_BLOCK);
    int threads = tn_threads(call, work, tasks);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; t++)
        part(&j, tn_part(tasks, t, threads), tn_part(tasks, t + 1, threads), column, step);
    return TENON_OK;
}
