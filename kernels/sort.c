/* Sorting along a dimension: sort, argsort, topk; and searching in sorted sequences: searchsorted,
 * bucketize.
 *
 * Elements become unsigned 64-bit keys that order as the elements do, with NaN greatest and both
 * zeros equal; for a descending order the keys are turned. Sorting is always stable, and topk takes
 * the first of equal elements. */
#include "kernels/combine.h"
#include <string.h>

typedef struct item {
    uint64_t key;
    int64_t place;
} item;

static uint64_t float_key(double x) {
    union {
        double d;
        uint64_t u;
    } c = {x};
    if (x != x)
        return UINT64_MAX;
    if (x == 0)
        c.u = 0;
    return c.u >> 63 ? ~c.u : c.u | UINT64_C(1) << 63;
}

/* The keys of n elements. */
static void get_keys(item *to, const char *p, int64_t step, tenon_dtype dtype, int64_t n,
                     bool turn) {
    union {
        double d[TN_BLOCK];
        int64_t i[TN_BLOCK];
    } b;
    for (int64_t at = 0; at < n; at += TN_BLOCK) {
        int64_t m = n - at < TN_BLOCK ? n - at : TN_BLOCK;
        bool is_float = tn_dtype_is_float(dtype);
        if (is_float)
            tn_get_doubles(b.d, p + at * step, step, dtype, m);
        else
            tn_get_ints(b.i, p + at * step, step, dtype, m);
        for (int64_t i = 0; i < m; i++) {
            uint64_t key = is_float
                               ? float_key(b.d[i])
                               : (uint64_t)b.i[i] ^ (dtype == TENON_UINT64 ? 0 : UINT64_C(1) << 63);
            to[at + i].key = turn ? ~key : key;
            to[at + i].place = at + i;
        }
    }
}

/* Merges sorted runs [0, half) and [half, n) of `from` into `to`. */
static void merge(item *to, const item *from, int64_t half, int64_t n) {
    int64_t a = 0, b = half;
    for (int64_t i = 0; i < n; i++)
        to[i] = b >= n || (a < half && from[a].key <= from[b].key) ? from[a++] : from[b++];
}

/* Sorts by key, stably; the result is in `x` or in `other`. */
static item *merge_sort(item *x, item *other, int64_t n) {
    enum { RUN = 16 };
    for (int64_t at = 0; at < n; at += RUN) {
        int64_t end = n - at < RUN ? n : at + RUN;
        for (int64_t i = at + 1; i < end; i++) {
            item one = x[i];
            int64_t k = i;
            for (; k > at && x[k - 1].key > one.key; k--)
                x[k] = x[k - 1];
            x[k] = one;
        }
    }
    for (int64_t run = RUN; run < n; run *= 2) {
        for (int64_t at = 0; at < n; at += 2 * run) {
            int64_t m = n - at < 2 * run ? n - at : 2 * run;
            merge(other + at, x + at, run < m ? run : m, m);
        }
        item *t = x;
        x = other;
        other = t;
    }
    return x;
}

static bool after(const item *a, const item *b) {
    return a->key > b->key || (a->key == b->key && a->place > b->place);
}

static void sift(item *heap, int64_t n, int64_t i) {
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= n)
            return;
        if (child + 1 < n && after(&heap[child + 1], &heap[child]))
            child++;
        if (!after(&heap[child], &heap[i]))
            return;
        item t = heap[i];
        heap[i] = heap[child];
        heap[child] = t;
        i = child;
    }
}

/* Moves the k first items in order to the front, in order; the rest is lost. A heap holds the k
 * best, the last of them on top. */
static void select_first(item *x, int64_t n, int64_t k) {
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        sift(x, k, i);
    for (int64_t i = k; i < n && k > 0; i++) {
        if (after(&x[0], &x[i])) {
            x[0] = x[i];
            sift(x, k, 0);
        }
    }
    for (int64_t m = k - 1; m > 0; m--) {
        item t = x[0];
        x[0] = x[m];
        x[m] = t;
        sift(x, m, 0);
    }
}

typedef struct job {
    const char *in;
    tenon_dtype dtype;
    tn_walk walk; /* array 0: in, array 1: values, array 2: places */
    int64_t n, k, step[TN_WALK_ARRAYS];
    tenon_view values, places; /* dtype NONE: not wanted */
    bool descending, top;
} job;

static void part(const job *j, int64_t begin, int64_t end, item *x) {
    tn_walk w = j->walk;
    size_t size = tenon_dtype_size(j->dtype);
    tn_walk_seek(&w, begin);
    for (int64_t r = begin; r < end; r++) {
        const char *in = j->in + w.at[0];
        item *sorted = x;
        get_keys(x, in, j->step[0], j->dtype, j->n, j->descending);
        /* A heap pays only while few are wanted. */
        if (j->top && j->k < j->n / 4)
            select_first(x, j->n, j->k);
        else
            sorted = merge_sort(x, x + j->n, j->n);
        for (int64_t i = 0; i < j->k; i++) {
            int64_t place = sorted[i].place;
            if (j->values.dtype)
                TN_K(move_run)
            ((char *)j->values.data + w.at[1] + i * j->step[1], 0, in + place * j->step[0], 0, size,
             1);
            if (j->places.dtype)
                *(int64_t *)((char *)j->places.data + w.at[2] + i * j->step[2]) = place;
        }
        tn_walk_next(&w);
    }
}

/* The most frequent element, the smallest of several, and its last place. As PyTorch has it, a NaN
 * equals nothing and comes first. */
static void mode_row(const job *j, item *x, const char *in, int64_t at_value, int64_t at_place) {
    get_keys(x, in, j->step[0], j->dtype, j->n, false);
    const item *sorted = merge_sort(x, x + j->n, j->n);
    int64_t place = 0, most = 0;
    for (int64_t i = j->n; i > 0 && tn_dtype_is_float(j->dtype) && sorted[i - 1].key == UINT64_MAX;
         i--) {
        most = 1;
        place = sorted[i - 1].place;
    }
    for (int64_t i = 0, begin = 0; i < j->n; i++) {
        if (most > 0 && tn_dtype_is_float(j->dtype) && sorted[i].key == UINT64_MAX)
            break;
        if (i + 1 < j->n && sorted[i + 1].key == sorted[i].key)
            continue;
        if (i + 1 - begin > most) {
            most = i + 1 - begin;
            place = sorted[i].place;
        }
        begin = i + 1;
    }
    if (j->values.dtype)
        TN_K(move_run)
    ((char *)j->values.data + at_value, 0, in + place * j->step[0], 0, tenon_dtype_size(j->dtype),
     1);
    if (j->places.dtype)
        *(int64_t *)(void *)((char *)j->places.data + at_place) = place;
}

tenon_status TN_K(mode)(tn_call *call) {
    const tenon_node *node = call->node;
    tenon_view in = tn_at_least_1d(tn_call_in(call, 0));
    job j = {.in = in.data, .dtype = in.dtype, .walk = tn_walk_make(), .values = call->out[0]};
    int64_t dim = tn_arg_int(node, 1, -1);
    bool keep = tn_arg_bool(node, 2);
    dim = dim < 0 ? dim + in.rank : dim;
    j.places = call->out[1];
    for (int d = 0, to = 0; d < in.rank; d++) {
        if (d == dim) {
            j.n = in.shape[d];
            j.step[0] = tn_step(&in, d);
            to += keep;
            continue;
        }
        tn_walk_dim(&j.walk, in.shape[d], tn_step(&in, d),
                    j.values.dtype ? tn_step(&j.values, to) : 0,
                    j.places.dtype ? tn_step(&j.places, to) : 0);
        to++;
    }
    if (j.walk.count == 0)
        return TENON_OK;
    item *x = tn_call_scratch(call, (size_t)j.n * 2 * sizeof *x);
    if (!x)
        return tn_no_memory();
    tn_walk_seek(&j.walk, 0);
    for (int64_t r = 0; r < j.walk.count; r++) {
        mode_row(&j, x, j.in + j.walk.at[0], j.walk.at[1], j.walk.at[2]);
        tn_walk_next(&j.walk);
    }
    return TENON_OK;
}

static bool flag(const tenon_node *node, const char *name, bool other) {
    int i = tn_op_param(node->op, name);
    return i < 0 ? other : tn_arg_bool(node, i);
}

tenon_status TN_K(sort)(tn_call *call) {
    const tenon_node *node = call->node;
    int id = node->op->id;
    bool only_places = id == TN_OP_argsort || id == TN_OP_argsort_stable;
    tenon_view in = tn_at_least_1d(tn_call_in(call, 0));
    job j = {.in = in.data, .dtype = in.dtype, .walk = tn_walk_make(), .top = id == TN_OP_topk};
    j.descending = flag(node, "descending", flag(node, "largest", false));
    j.places = tn_at_least_1d(&call->out[only_places ? 0 : 1]);
    if (!only_places)
        j.values = tn_at_least_1d(&call->out[0]);
    const tenon_view *shape = j.places.dtype ? &j.places : &j.values;
    int64_t dim = tn_arg_int(node, tn_op_param(node->op, "dim"), -1);
    dim = dim < 0 ? dim + in.rank : dim;
    if (!shape->dtype || tenon_view_numel(shape) == 0)
        return TENON_OK;
    for (int d = 0; d < in.rank; d++) {
        int64_t step[3] = {tn_step(&in, d), j.values.dtype ? tn_step(&j.values, d) : 0,
                           j.places.dtype ? tn_step(&j.places, d) : 0};
        if (d != dim) {
            tn_walk_dim(&j.walk, in.shape[d], step[0], step[1], step[2]);
            continue;
        }
        j.n = in.shape[d];
        j.k = shape->shape[d];
        memcpy(j.step, step, sizeof step);
    }
    int threads = tn_threads(call, j.walk.count * j.n * 8, j.walk.count);
    item *x = tn_call_scratch(call, (size_t)threads * (size_t)j.n * 2 * sizeof *x);
    if (!x)
        return tn_no_memory();
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int t = 0; t < threads; t++)
        part(&j, tn_part(j.walk.count, t, threads), tn_part(j.walk.count, t + 1, threads),
             x + 2 * j.n * t);
    return TENON_OK;
}

/* ---- Searching
 * ------------------------------------------------------------------------------------------------
 */

typedef struct sequence {
    const char *data;
    int64_t n, step;
    tenon_dtype dtype;
    const char *sorter; /* NULL, or int64 places in order */
    int64_t sorter_step;
} sequence;

/* The first place whose element is not less than `value` (`right`: greater). PyTorch's comparisons:
 * a NaN value goes to the end. */
static int64_t search(const sequence *s, const void *value, tenon_dtype dtype, bool right) {
    int64_t low = 0, high = s->n;
    bool whole = !tn_dtype_is_float(dtype) && !tn_dtype_is_float(s->dtype);
    double x = tn_load_float(value, dtype);
    int64_t xi = whole ? tn_load_int(value, dtype) : 0;
    while (low < high) {
        int64_t middle = low + (high - low) / 2, place = middle;
        if (s->sorter)
            place = *(const int64_t *)(s->sorter + middle * s->sorter_step);
        const char *p = s->data + place * s->step;
        bool goes_on;
        if (whole) {
            int64_t e = tn_load_int(p, s->dtype);
            goes_on = right ? !(e > xi) : !(e >= xi);
        } else {
            double e = tn_load_float(p, s->dtype);
            goes_on = right ? !(e > x) : !(e >= x);
        }
        if (goes_on)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

tenon_status TN_K(search)(tn_call *call) {
    const tenon_node *node = call->node;
    bool bucketize = tn_op_param(node->op, "boundaries") >= 0;
    const tenon_view *sorted = tn_call_in(call, bucketize ? 1 : 0);
    const tenon_view value = tn_call_operand(call, bucketize ? 0 : 1), *values = &value;
    const tenon_view *out = &call->out[0];
    const tenon_view *sorter = bucketize ? NULL : tn_call_in(call, 5);
    const char *side = bucketize ? NULL : tn_arg_string(node, 4);
    bool right = tn_arg_bool(node, 3) || (side && strcmp(side, "right") == 0);
    bool rows = sorted->rank > 1;
    if (sorter)
        TN_TRY(TN_K(check_indices)(call, sorter, sorted->shape[sorted->rank - 1], false, "sorter"));
    tn_walk w = tn_walk_make(), s = tn_walk_make();
    for (int d = 0; d < values->rank; d++) {
        bool inner = d == values->rank - 1;
        tn_walk_dim(&w, values->shape[d], tn_step(values, d), tn_step(out, d), 0);
        tn_walk_dim(&s, values->shape[d], rows && !inner ? tn_step(sorted, d) : 0,
                    sorter && rows && !inner ? tn_step(sorter, d) : 0, 0);
    }
    if (w.count == 0)
        return TENON_OK;
    int last = sorted->rank - 1;
    tn_walk_seek(&w, 0);
    tn_walk_seek(&s, 0);
    for (int64_t i = 0; i < w.count; i++) {
        sequence q = {(const char *)sorted->data + s.at[0],
                      sorted->shape[last],
                      tn_step(sorted, last),
                      sorted->dtype,
                      NULL,
                      0};
        if (sorter) {
            q.sorter = (const char *)sorter->data + s.at[1];
            q.sorter_step = tn_step(sorter, last);
        }
        int64_t place = search(&q, (const char *)values->data + w.at[0], values->dtype, right);
        tn_store_int((char *)out->data + w.at[1], out->dtype, place);
        tn_walk_next(&w);
        tn_walk_next(&s);
    }
    return TENON_OK;
}
