/* Pooling of planes whose x is the innermost dimension, for one type. Included by pool.c, which
 * defines T, P(name) and LOWEST. */

/* A new value wins when it is greater, or not a number. */
#define WINS(value, best) ((value) > (best) || (value) != (value))

/* row[x] = the maximum or the sum over z and y of the window. */
static void P(combine_rows)(const tn_pool *p, const T *plane, int64_t z, int64_t y,
                            T *restrict row) {
    const tn_pool_axis *az = &p->axis[0], *ay = &p->axis[1];
    int64_t width = p->axis[2].in;
    T first = p->max ? LOWEST : 0;
    for (int64_t x = 0; x < width; x++)
        row[x] = first;
    for (int64_t i = az->start[z]; i < az->end[z]; i += az->step) {
        for (int64_t j = ay->start[y]; j < ay->end[y]; j += ay->step) {
            const T *in = plane + i * p->in_space[0] + j * p->in_space[1];
            if (p->max) {
#pragma omp simd
                for (int64_t x = 0; x < width; x++)
                    row[x] = WINS(in[x], row[x]) ? in[x] : row[x];
            } else {
#pragma omp simd
                for (int64_t x = 0; x < width; x++)
                    row[x] += in[x];
            }
        }
    }
}

/* Windows at regular places: one sweep over the row of the output for each tap. `s` is a constant
 * of each call. */
__attribute__((always_inline)) static inline void P(sweep)(bool max, const T *restrict from,
                                                           int64_t s, int64_t n, T *restrict to) {
    if (max) {
#pragma omp simd
        for (int64_t x = 0; x < n; x++)
            to[x] = WINS(from[x * s], to[x]) ? from[x * s] : to[x];
    } else {
#pragma omp simd
        for (int64_t x = 0; x < n; x++)
            to[x] += from[x * s];
    }
}

static void P(combine_taps)(const tn_pool *p, const T *row, T *to) {
    const tn_pool_axis *a = &p->axis[2];
    for (int64_t t = 0; t < a->taps; t++) {
        int64_t low = tn_pool_low(a, t), n = tn_pool_high(a, t) - low;
        const T *from = row + low * a->stride + a->first + t * a->step;
        if (n <= 0)
            continue;
        if (a->stride == 1)
            P(sweep)(p->max, from, 1, n, to + low);
        else if (a->stride == 2)
            P(sweep)(p->max, from, 2, n, to + low);
        else
            P(sweep)(p->max, from, a->stride, n, to + low);
    }
}

static void P(plane_values)(const tn_pool *p, const T *in, T *out, T *row) {
    const tn_pool_axis *ax = &p->axis[2];
    for (int64_t z = 0; z < p->axis[0].out; z++) {
        for (int64_t y = 0; y < p->axis[1].out; y++) {
            T *to = out + z * p->out_space[0] + y * p->out_space[1];
            P(combine_rows)(p, in, z, y, row);
            for (int64_t x = 0; x < ax->out; x++)
                to[x] = p->max ? LOWEST : 0;
            if (ax->taps)
                P(combine_taps)(p, row, to);
            for (int64_t x = 0; x < ax->out && !ax->taps; x++) {
                for (int64_t i = ax->start[x]; i < ax->end[x]; i++) {
                    T best = WINS(row[i], to[x]) ? row[i] : to[x];
                    to[x] = p->max ? best : to[x] + row[i];
                }
            }
            for (int64_t x = 0; x < ax->out && !p->max; x++) {
                if (to[x] != 0) /* nothing in the window gives 0, whatever the divisor */
                    to[x] = (T)(to[x] / (T)tn_pool_divisor(p, z, y, x));
            }
        }
    }
}

__attribute__((always_inline)) static inline void P(sweep_at)(const T *restrict from, int64_t s,
                                                              int64_t n, int64_t place,
                                                              T *restrict best,
                                                              int64_t *restrict at) {
#pragma omp simd
    for (int64_t x = 0; x < n; x++) {
        bool wins = WINS(from[x * s], best[x]);
        best[x] = wins ? from[x * s] : best[x];
        at[x] = wins ? place + x * s : at[x];
    }
}

static void P(sweep_one)(const T *row, int64_t start, int64_t end, int64_t place, T *best,
                         int64_t *at) {
    for (int64_t i = start; i < end; i++) {
        if (WINS(row[i], *best)) {
            *best = row[i];
            *at = place + i;
        }
    }
}

/* A row of the output takes in one row of the input, which starts at `place`. */
static void P(row_indices)(const tn_pool_axis *a, const T *row, int64_t place, T *best,
                           int64_t *at) {
    for (int64_t t = 0; t < a->taps; t++) {
        int64_t low = tn_pool_low(a, t), n = tn_pool_high(a, t) - low;
        int64_t from = low * a->stride + a->first + t * a->step;
        if (n <= 0)
            continue;
        if (a->stride == 2)
            P(sweep_at)(row + from, 2, n, place + from, best + low, at + low);
        else
            P(sweep_at)(row + from, a->stride, n, place + from, best + low, at + low);
    }
    for (int64_t x = 0; x < a->out && !a->taps; x++)
        P(sweep_one)(row, a->start[x], a->end[x], place, &best[x], &at[x]);
}

/* Values with their places: of equal values the first wins, of several NaN the last one, as in
 * PyTorch. */
static void P(plane_indices)(const tn_pool *p, const T *in, T *out, int64_t *at) {
    const tn_pool_axis *az = &p->axis[0], *ay = &p->axis[1], *ax = &p->axis[2];
    for (int64_t z = 0; z < az->out; z++) {
        for (int64_t y = 0; y < ay->out; y++, at += ax->out) {
            T *best = out + z * p->out_space[0] + y * p->out_space[1];
            for (int64_t x = 0; x < ax->out; x++) {
                best[x] = LOWEST;
                at[x] = (az->start[z] * ay->in + ay->start[y]) * ax->in + ax->start[x];
            }
            for (int64_t i = az->start[z]; i < az->end[z]; i += az->step) {
                for (int64_t j = ay->start[y]; j < ay->end[y]; j += ay->step)
                    P(row_indices)
                (ax, in + i * p->in_space[0] + j * p->in_space[1], (i * ay->in + j) * ax->in, best,
                 at);
            }
        }
    }
}

static void P(planes)(const tn_pool *p, int threads, const T *in, T *out, int64_t *indices,
                      T *rows) {
    int64_t planes = p->batch * p->channels;
    int64_t pixels = p->axis[0].out * p->axis[1].out * p->axis[2].out;
    int64_t work = planes * p->axis[0].in * p->axis[1].in * p->axis[2].in;
#pragma omp parallel for num_threads(threads) if (work > TN_PARALLEL_WORK)
    for (int64_t i = 0; i < planes; i++) {
        int64_t batch = i / p->channels, channel = i % p->channels;
        const T *from = in + batch * p->in_batch + channel * p->in_channel;
        T *to = out + batch * p->out_batch + channel * p->out_channel;
        if (indices)
            P(plane_indices)(p, from, to, indices + i * pixels);
        else
            P(plane_values)(p, from, to, rows + omp_get_thread_num() * p->axis[2].in);
    }
}

#undef WINS
