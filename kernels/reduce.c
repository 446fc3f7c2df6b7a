/* Reductions to values: sum, mean, prod, max, min, any, all, var, std, logsumexp, norms,
 * count_nonzero.
 *
 * Each is one or two folds over the elements. Integers fold in int64 (which wraps as PyTorch does),
 * floats in double. When the elements of one result lie along the smallest step, they are folded as
 * rows; otherwise neighbouring results are folded side by side, as columns.
 */
#include "kernels/reduce.h"
#include "kernels/vmath.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

tn_reduction TN_K(reduction)(const tenon_view *in, uint32_t mask, const tenon_view *out,
                             const tenon_view *out2, bool order) {
    tn_reduction r = {tn_walk_make(), tn_walk_make(), 0};
    bool keeps = out && out->rank == in->rank;
    bool keeps2 = out2 && out2->rank == in->rank;
    int o = 0;
    for (int d = 0; d < in->rank; d++) {
        int64_t step = tn_step(in, d);
        if (mask >> d & 1) {
            tn_walk_dim(&r.reduced, in->shape[d], step, 0, 0);
            continue;
        }
        tn_walk_dim(&r.kept, in->shape[d], step, out ? tn_step(out, keeps ? d : o) : 0,
                    out2 ? tn_step(out2, keeps2 ? d : o) : 0);
        o++;
    }
    r.n = r.reduced.count;
    if (r.kept.count == 0 || r.n == 0)
        return r;
    tn_walk_sort(&r.kept, 0);
    tn_walk_merge(&r.kept);
    if (!order)
        tn_walk_sort(&r.reduced, 0);
    tn_walk_merge(&r.reduced);
    return r;
}

/* ---- Folds
 * ---------------------------------------------------------------------------------------------------
 */

typedef enum fold {
    FOLD_SUM,
    FOLD_PROD,
    FOLD_MAX,
    FOLD_MIN,
    FOLD_NONZERO, /* counts */
    FOLD_ABS_SUM,
    FOLD_ABS_MAX,
    FOLD_ABS_MIN,
    FOLD_SQUARES, /* of the distance from `shift` */
    FOLD_POWERS,  /* of the absolute value */
    FOLD_EXP      /* of the distance from `shift` */
} fold;

static double fold_start(fold f) {
    switch (f) {
    case FOLD_PROD:
        return 1;
    case FOLD_MAX:
        return -INFINITY;
    case FOLD_MIN:
    case FOLD_ABS_MIN:
        return INFINITY;
    default:
        return 0;
    }
}

static int64_t fold_start_int(fold f) {
    switch (f) {
    case FOLD_PROD:
        return 1;
    case FOLD_MAX:
        return INT64_MIN;
    case FOLD_MIN:
        return INT64_MAX;
    default:
        return 0;
    }
}

#define LANES 32

/* NaN wins: once in `a` no comparison takes it out. */
#define TAKE_MAX(a, x) ((x) > (a) || (x) != (x) ? (x) : (a))
#define TAKE_MIN(a, x) ((x) < (a) || (x) != (x) ? (x) : (a))

/* STEP makes the new `a` from `a`, the element `x` and `s`; JOIN joins two such, `a` and `x`. */
#define FOLD_LANES(A, STEP, COUNT)                            \
    for (; i + COUNT <= n; i += COUNT) {                      \
        _Pragma("omp simd") for (int k = 0; k < COUNT; k++) { \
            const A x = (A)in[i + k], a = lane[k];            \
            lane[k] = STEP;                                   \
        }                                                     \
    }
#define FOLD_HALVES(A, JOIN, COUNT)                       \
    _Pragma("omp simd") for (int k = 0; k < COUNT; k++) { \
        const A x = lane[k + COUNT], a = lane[k];         \
        lane[k] = JOIN;                                   \
    }
#define FOLD_CASE(NAME, A, STEP, JOIN)            \
    case NAME: {                                  \
        A lane[LANES];                            \
        int64_t i = 0;                            \
        if (n >= LANES / 2) {                     \
            for (int k = 0; k < LANES; k++)       \
                lane[k] = start;                  \
            FOLD_LANES(A, STEP, LANES)            \
            FOLD_HALVES(A, JOIN, LANES / 2)       \
            FOLD_LANES(A, STEP, LANES / 2)        \
            FOLD_HALVES(A, JOIN, LANES / 4)       \
            FOLD_HALVES(A, JOIN, LANES / 8)       \
            for (int k = 0; k < LANES / 8; k++) { \
                const A x = lane[k], a = all;     \
                all = JOIN;                       \
            }                                     \
        }                                         \
        for (; i < n; i++) {                      \
            const A x = (A)in[i], a = all;        \
            all = STEP;                           \
        }                                         \
        return all;                               \
    }

/* Without FOLD_EXP, for which float has a fast function. */
#define REAL_FOLDS(CASE)                                             \
    CASE(FOLD_SUM, double, a + x, a + x)                             \
    CASE(FOLD_PROD, double, a *x, a *x)                              \
    CASE(FOLD_MAX, double, TAKE_MAX(a, x), TAKE_MAX(a, x))           \
    CASE(FOLD_MIN, double, TAKE_MIN(a, x), TAKE_MIN(a, x))           \
    CASE(FOLD_NONZERO, double, a + (x != 0 ? 1.0 : 0.0), a + x)      \
    CASE(FOLD_ABS_SUM, double, a + fabs(x), a + x)                   \
    CASE(FOLD_ABS_MAX, double, TAKE_MAX(a, fabs(x)), TAKE_MAX(a, x)) \
    CASE(FOLD_ABS_MIN, double, TAKE_MIN(a, fabs(x)), TAKE_MIN(a, x)) \
    CASE(FOLD_SQUARES, double, a + (x - s) * (x - s), a + x)         \
    CASE(FOLD_POWERS, double, a + pow(fabs(x), s), a + x)
#define FLOAT_FOLDS(CASE) \
    REAL_FOLDS(CASE)      \
    CASE(FOLD_EXP, double, a + (double)tn_expf((float)(x - s)), a + x)
#define DOUBLE_FOLDS(CASE) \
    REAL_FOLDS(CASE)       \
    CASE(FOLD_EXP, double, a + exp(x - s), a + x)

#define INT_FOLDS(CASE)                                            \
    CASE(FOLD_SUM, int64_t, (int64_t)((uint64_t)a + (uint64_t)x),  \
         (int64_t)((uint64_t)a + (uint64_t)x))                     \
    CASE(FOLD_PROD, int64_t, (int64_t)((uint64_t)a * (uint64_t)x), \
         (int64_t)((uint64_t)a * (uint64_t)x))                     \
    CASE(FOLD_MAX, int64_t, x > a ? x : a, x > a ? x : a)          \
    CASE(FOLD_MIN, int64_t, x < a ? x : a, x < a ? x : a)          \
    CASE(FOLD_NONZERO, int64_t, a + (x != 0), a + x)

/* The fold of n elements, from `all` on. */
#define ROW_FUNCTION(NAME, T, A, START, FOLDS)                       \
    static A NAME(fold f, const T *in, int64_t n, A all, double s) { \
        const A start = START(f);                                    \
        (void)s;                                                     \
        switch (f) {                                                 \
            FOLDS(FOLD_CASE)                                         \
        default:                                                     \
            return all;                                              \
        }                                                            \
    }
ROW_FUNCTION(row_float, float, double, fold_start, FLOAT_FOLDS)
ROW_FUNCTION(row_double, double, double, fold_start, DOUBLE_FOLDS)
ROW_FUNCTION(row_int, int64_t, int64_t, fold_start_int, INT_FOLDS)

#define COLUMN_CASE(NAME, A, STEP, JOIN)                      \
    case NAME:                                                \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) { \
            const A x = (A)in[i], a = acc[i];                 \
            const double s = shift[i];                        \
            (void)s;                                          \
            acc[i] = STEP;                                    \
        }                                                     \
        break;

/* Folds one element into each of n results. */
#define COLUMN_FUNCTION(NAME, T, A, FOLDS)                            \
    static void NAME(fold f, const T *in, int64_t n, A *restrict acc, \
                     const double *restrict shift) {                  \
        switch (f) {                                                  \
            FOLDS(COLUMN_CASE)                                        \
        default:                                                      \
            break;                                                    \
        }                                                             \
    }
COLUMN_FUNCTION(column_float, float, double, FLOAT_FOLDS)
COLUMN_FUNCTION(column_double, double, double, DOUBLE_FOLDS)
COLUMN_FUNCTION(column_int, int64_t, int64_t, INT_FOLDS)

/* ---- Blocks of results
 * --------------------------------------------------------------------------------------- */

typedef enum element { ELEMENT_FLOAT, ELEMENT_DOUBLE, ELEMENT_INT } element;

/* What is folded, and how the elements are read. */
typedef struct job {
    tn_reduction r;
    const char *in;
    tenon_dtype dtype;
    element element;
    int64_t run, run_step;       /* reduced elements along the innermost reduced dimension */
    int64_t column, column_step; /* results side by side, in column order */
} job;

typedef union block {
    float f[TN_BLOCK];
    double d[TN_BLOCK];
    int64_t i[TN_BLOCK];
} block;

typedef union results {
    double d[TN_BLOCK];
    int64_t i[TN_BLOCK];
} results;

/* The n elements at `p`, converted into `b` unless they are fit for use as they are. */
static const void *load(const job *j, const char *p, int64_t step, int64_t n, block *b) {
    if (j->element == ELEMENT_FLOAT) {
        if (j->dtype == TENON_FLOAT32 && step == 4)
            return p;
        tn_get_floats(b->f, p, step, j->dtype, n);
    } else if (j->element == ELEMENT_DOUBLE) {
        if (j->dtype == TENON_FLOAT64 && step == 8)
            return p;
        tn_get_doubles(b->d, p, step, j->dtype, n);
    } else {
        if (j->dtype == TENON_INT64 && step == 8)
            return p;
        tn_get_ints(b->i, p, step, j->dtype, n);
    }
    return b;
}

/* One run of the innermost reduced dimension. */
static void fold_run(const job *j, fold f, const char *in, double shift, results *acc) {
    block b;
    for (int64_t at = 0; at < j->run; at += TN_BLOCK) {
        int64_t n = j->run - at < TN_BLOCK ? j->run - at : TN_BLOCK;
        const void *x = load(j, in + at * j->run_step, j->run_step, n, &b);
        if (j->element == ELEMENT_FLOAT)
            acc->d[0] = row_float(f, x, n, acc->d[0], shift);
        else if (j->element == ELEMENT_DOUBLE)
            acc->d[0] = row_double(f, x, n, acc->d[0], shift);
        else
            acc->i[0] = row_int(f, x, n, acc->i[0], shift);
    }
}

static void fold_row(const job *j, fold f, const char *in, double shift, results *acc) {
    if (j->element == ELEMENT_INT)
        acc->i[0] = fold_start_int(f);
    else
        acc->d[0] = fold_start(f);
    if (j->r.reduced.rank == 0) {
        fold_run(j, f, in, shift, acc);
        return;
    }
    tn_walk w = j->r.reduced;
    tn_walk_seek(&w, 0);
    for (int64_t o = 0; o < w.count; o++) {
        fold_run(j, f, in + w.at[0], shift, acc);
        tn_walk_next(&w);
    }
}

static void fold_columns(const job *j, fold f, const char *in, int64_t n, const double *shift,
                         results *acc) {
    tn_walk w = j->r.reduced;
    block b;
    for (int64_t i = 0; i < n; i++) {
        if (j->element == ELEMENT_INT)
            acc->i[i] = fold_start_int(f);
        else
            acc->d[i] = fold_start(f);
    }
    tn_walk_seek(&w, 0);
    for (int64_t o = 0; o < w.count; o++) {
        for (int64_t k = 0; k < j->run; k++) {
            const void *x = load(j, in + w.at[0] + k * j->run_step, j->column_step, n, &b);
            if (j->element == ELEMENT_FLOAT)
                column_float(f, x, n, acc->d, shift);
            else if (j->element == ELEMENT_DOUBLE)
                column_double(f, x, n, acc->d, shift);
            else
                column_int(f, x, n, acc->i, shift);
        }
        tn_walk_next(&w);
    }
}

/* ---- Ops
 * -----------------------------------------------------------------------------------------------------
 */

typedef enum ending {
    END_NONE,
    END_MEAN,
    END_ANY,
    END_ALL,
    END_VAR, /* two folds: the sum, then the squares around the mean */
    END_STD,
    END_LOGSUMEXP, /* two folds: the maximum, then the powers around it */
    END_SQRT,
    END_ROOT
} ending;

typedef struct recipe {
    fold fold;
    ending ending;
    double correction, power;
    uint32_t mask;
    bool integer_only_if_in; /* the elements' dtype decides how to fold, not the output's */
} recipe;

static recipe norm_recipe(double p) {
    recipe r = {FOLD_POWERS, END_ROOT};
    r.power = p;
    if (p == 2) {
        r.fold = FOLD_SQUARES;
        r.ending = END_SQRT;
    } else if (p == 1) {
        r.fold = FOLD_ABS_SUM;
        r.ending = END_NONE;
    } else if (p == 0) {
        r.fold = FOLD_NONZERO;
        r.ending = END_NONE;
    } else if (isinf(p)) {
        r.fold = p > 0 ? FOLD_ABS_MAX : FOLD_ABS_MIN;
        r.ending = END_NONE;
    }
    return r;
}

/* The correction of the var and std family: None and `unbiased` mean 1. */
static double correction_of(const tenon_node *node) {
    int i = tn_op_param(node->op, "correction");
    if (i >= 0)
        return tn_arg_float(node, i, 1);
    i = tn_op_param(node->op, "unbiased");
    return i < 0 || tn_arg_bool(node, i) ? 1 : 0;
}

static recipe find_recipe(const tenon_node *node, int rank) {
    recipe r = {FOLD_SUM, END_NONE};
    bool empty_is_all = true;
    switch (node->op->id) {
    case TN_OP_mean:
    case TN_OP_mean_dim:
        r.ending = END_MEAN;
        break;
    case TN_OP_prod:
    case TN_OP_prod_dim_int:
        r.fold = FOLD_PROD;
        break;
    case TN_OP_max:
    case TN_OP_amax:
        r.fold = FOLD_MAX;
        break;
    case TN_OP_min:
    case TN_OP_amin:
        r.fold = FOLD_MIN;
        break;
    case TN_OP_any:
    case TN_OP_any_dim:
    case TN_OP_any_dims:
        r.fold = FOLD_NONZERO;
        r.ending = END_ANY;
        r.integer_only_if_in = true;
        empty_is_all = false;
        break;
    case TN_OP_all:
    case TN_OP_all_dim:
    case TN_OP_all_dims:
        r.fold = FOLD_NONZERO;
        r.ending = END_ALL;
        r.integer_only_if_in = true;
        empty_is_all = false;
        break;
    case TN_OP_count_nonzero:
    case TN_OP_count_nonzero_dim_IntList:
        r.fold = FOLD_NONZERO;
        r.integer_only_if_in = true;
        break;
    case TN_OP_var:
    case TN_OP_var_dim:
    case TN_OP_var_correction:
    case TN_OP_var_mean:
    case TN_OP_var_mean_dim:
    case TN_OP_var_mean_correction:
        r.ending = END_VAR;
        r.correction = correction_of(node);
        break;
    case TN_OP_std:
    case TN_OP_std_dim:
    case TN_OP_std_correction:
    case TN_OP_std_mean:
    case TN_OP_std_mean_dim:
        r.ending = END_STD;
        r.correction = correction_of(node);
        break;
    case TN_OP_logsumexp:
        r.fold = FOLD_MAX;
        r.ending = END_LOGSUMEXP;
        break;
    case TN_OP_norm_ScalarOpt_dim:
    case TN_OP_linalg_vector_norm:
        r = norm_recipe(tn_arg_float(node, 1, 2));
        break;
    default: /* the sums */
        break;
    }
    int dim = tn_op_param(node->op, "dim");
    r.mask = dim < 0 ? (1u << rank) - 1 : tn_reduce_mask(node, dim, rank, empty_is_all);
    return r;
}

/* Ends n results in double; `mean` gets the mean where the recipe makes one. */
static void finish(const job *j, const recipe *r, results *acc, double *shift, int64_t n,
                   const char *in) {
    double count = (double)j->r.n;
    for (int64_t i = 0; i < n; i++) {
        switch (r->ending) {
        case END_MEAN:
            acc->d[i] /= count;
            break;
        case END_VAR:
        case END_STD:
            shift[i] = acc->d[i] / count;
            break;
        case END_LOGSUMEXP:
            shift[i] = isinf(acc->d[i]) ? 0 : acc->d[i];
            break;
        case END_SQRT:
            acc->d[i] = sqrt(acc->d[i]);
            break;
        case END_ROOT:
            acc->d[i] = pow(acc->d[i], 1 / r->power);
            break;
        default:
            break;
        }
    }
    if (r->ending != END_VAR && r->ending != END_STD && r->ending != END_LOGSUMEXP)
        return;
    fold second = r->ending == END_LOGSUMEXP ? FOLD_EXP : FOLD_SQUARES;
    if (j->column)
        fold_columns(j, second, in, n, shift, acc);
    else
        fold_row(j, second, in, shift[0], acc);
    double divisor = count - r->correction > 0 ? count - r->correction : 0;
    for (int64_t i = 0; i < n; i++) {
        if (r->ending == END_LOGSUMEXP)
            acc->d[i] = log(acc->d[i]) + shift[i];
        else
            acc->d[i] = r->ending == END_STD ? sqrt(acc->d[i] / divisor) : acc->d[i] / divisor;
    }
}

static void store(const job *j, const recipe *r, results *acc, char *to, int64_t step,
                  tenon_dtype dtype, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double count = j->element == ELEMENT_INT ? (double)acc->i[i] : acc->d[i];
        bool truth = r->ending == END_ANY ? count > 0 : count == (double)j->r.n;
        if (r->ending != END_ANY && r->ending != END_ALL)
            break;
        if (j->element == ELEMENT_INT)
            acc->i[i] = truth;
        else
            acc->d[i] = truth;
    }
    if (j->element == ELEMENT_INT)
        tn_put_ints(to, step, dtype, acc->i, n);
    else
        tn_put_doubles(to, step, dtype, acc->d, n);
}

static void reduce_part(const job *j, const recipe *r, const tenon_view *out,
                        const tenon_view *mean, int64_t begin, int64_t end, int64_t width,
                        int64_t pieces, const int64_t *step) {
    tn_walk w = j->r.kept;
    double shift[TN_BLOCK];
    results acc;
    tn_walk_seek(&w, begin / pieces);
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i % pieces * width;
        int64_t n = j->column ? (j->column - at < width ? j->column - at : width) : 1;
        const char *in = j->in + w.at[0] + at * step[0];
        for (int64_t k = 0; k < n; k++)
            shift[k] = r->ending == END_ROOT ? r->power : 0;
        if (j->column)
            fold_columns(j, r->fold, in, n, shift, &acc);
        else
            fold_row(j, r->fold, in, shift[0], &acc);
        if (j->element != ELEMENT_INT)
            finish(j, r, &acc, shift, n, in);
        if (out->dtype != TENON_DTYPE_NONE)
            store(j, r, &acc, (char *)out->data + w.at[1] + at * step[1], step[1], out->dtype, n);
        if (mean)
            tn_put_doubles((char *)mean->data + w.at[2] + at * step[2], step[2], mean->dtype, shift,
                           n);
        if (i % pieces == pieces - 1)
            tn_walk_next(&w);
    }
}

static element element_of(const recipe *r, tenon_dtype in, tenon_dtype out) {
    tenon_dtype by = r->integer_only_if_in || out == TENON_DTYPE_NONE ? in : out;
    if (!tn_dtype_is_float(by))
        return ELEMENT_INT;
    if (in == TENON_FLOAT64 || in == TENON_INT64 || in == TENON_INT32 || in == TENON_UINT32)
        return ELEMENT_DOUBLE;
    return ELEMENT_FLOAT;
}

static void run(const tn_call *call, const recipe *r, const tenon_view *in, const tenon_view *out,
                const tenon_view *mean) {
    job j = {.in = in->data, .dtype = in->dtype};
    bool wanted = out->dtype != TENON_DTYPE_NONE;
    j.element = element_of(r, in->dtype, wanted ? out->dtype : mean->dtype);
    j.r = TN_K(reduction)(in, r->mask, wanted ? out : NULL, mean, false);
    if (j.r.kept.count == 0)
        return;
    int64_t work = j.r.kept.count * (j.r.n > 0 ? j.r.n : 1), step[TN_WALK_ARRAYS];
    j.run = tn_walk_inner(&j.r.reduced, step);
    j.run_step = step[0];
    int64_t width = 1, pieces = 1;
    int inner = j.r.kept.rank - 1;
    step[0] = step[1] = step[2] = 0;
    if (inner >= 0 &&
        (j.run < 2 || tn_walk_abs(j.r.kept.step[0][inner]) < tn_walk_abs(j.run_step))) {
        j.column = tn_walk_inner(&j.r.kept, step);
        j.column_step = step[0];
        width = j.column / call->threads;
        width = width < 64 ? 64 : width > TN_BLOCK ? TN_BLOCK : (width + 15) / 16 * 16;
        pieces = (j.column + width - 1) / width;
    }
    int64_t tasks = j.r.kept.count * pieces;
    int threads = tn_threads(call, work, tasks);
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; t++)
        reduce_part(&j, r, out, mean, tn_part(tasks, t, threads), tn_part(tasks, t + 1, threads),
                    width, pieces, step);
}

tenon_status TN_K(reduce)(tn_call *call) {
    const tenon_view *in = tn_call_in(call, 0);
    recipe r = find_recipe(call->node, in->rank);
    bool second = call->out_count > 1 && call->out[1].dtype != TENON_DTYPE_NONE;
    if (second || call->out[0].dtype != TENON_DTYPE_NONE)
        run(call, &r, in, &call->out[0], second ? &call->out[1] : NULL);
    return TENON_OK;
}

void TN_K(moments)(const tn_call *call, const tenon_view *in, uint32_t mask, double *mean,
                   double *variance) {
    recipe r = {FOLD_SUM, END_VAR};
    int64_t shape[TENON_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < in->rank; d++) {
        if (!(mask >> d & 1))
            shape[rank++] = in->shape[d];
    }
    r.mask = mask;
    tenon_view out = tn_view_make(variance, TENON_FLOAT64, rank, shape);
    tenon_view means = tn_view_make(mean, TENON_FLOAT64, rank, shape);
    run(call, &r, in, &out, &means);
}
