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

static void P(plane_values)(const tn_pool *p, const T *in, T *out, T *row) {
    const tn_pool_axis *ax = &p->axis[2];
    for (int64_t z = 0; z < p->axis[0].out; z++) {
        for (int64_t y = 0; y < p->axis[1].out; y++) {
            T *to = out + z * p->out_space[0] + y * p->out_space[1];
            P(combine_rows)(p, in, z, y, row);
            for (int64_t x = 0; x < ax->out; x++) {
                T value = p->max ? LOWEST : 0;
                for (int64_t i = ax->start[x]; i < ax->end[x]; i += ax->step) {
                    if (!p->max)
                        value += row[i];
                    else if (WINS(row[i], value))
                        value = row[i];
                }
                if (!p->max && value != 0) /* nothing in the window gives 0, whatever the divisor */
                    value = (T)(value / (T)tn_pool_divisor(p, z, y, x));
                to[x] = value;
            }
        }
    }
}

/* Values with their places: of equal values the first wins, of several NaN the last one, as in
 * PyTorch. */
static void P(plane_indices)(const tn_pool *p, const T *in, T *out, int64_t *indices) {
    const tn_pool_axis *az = &p->axis[0], *ay = &p->axis[1], *ax = &p->axis[2];
    for (int64_t z = 0; z < az->out; z++) {
        for (int64_t y = 0; y < ay->out; y++) {
            for (int64_t x = 0; x < ax->out; x++) {
                T best = LOWEST;
                int64_t at = (az->start[z] * ay->in + ay->start[y]) * ax->in + ax->start[x];
                for (int64_t i = az->start[z]; i < az->end[z]; i += az->step) {
                    for (int64_t j = ay->start[y]; j < ay->end[y]; j += ay->step) {
                        const T *row = in + i * p->in_space[0] + j * p->in_space[1];
                        for (int64_t k = ax->start[x]; k < ax->end[x]; k += ax->step) {
                            if (WINS(row[k], best)) {
                                best = row[k];
                                at = (i * ay->in + j) * ax->in + k;
                            }
                        }
                    }
                }
                out[z * p->out_space[0] + y * p->out_space[1] + x] = best;
                *indices++ = at;
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
