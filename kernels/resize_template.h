/* Resizing for one type. Included by resize.c, which defines T and Z(name). */

/* to[x] (+)= weight * from[x] */
static void Z(add_scaled)(T *restrict to, const T *restrict from, T weight, bool first, int64_t n) {
    if (first) {
#pragma omp simd
        for (int64_t x = 0; x < n; x++)
            to[x] = weight * from[x];
    } else {
#pragma omp simd
        for (int64_t x = 0; x < n; x++)
            to[x] += weight * from[x];
    }
}

/* The row of the input that output (z, y) sees, mixed from several; one that counts alone is
 * returned as it is. */
static const T *Z(mix_rows)(const resize *r, const T *plane, int64_t z, int64_t y, T *buffer) {
    const resize_axis *az = &r->axis[0], *ay = &r->axis[1];
    const int64_t *iz = az->index + z * az->taps, *iy = ay->index + y * ay->taps;
    const double *wz = az->weight + z * az->taps, *wy = ay->weight + y * ay->taps;
    if (az->taps == 1 && ay->taps == 1)
        return plane + iz[0] * r->in_space[0] + iy[0] * r->in_space[1];
    for (int64_t i = 0; i < az->taps; i++) {
        for (int64_t j = 0; j < ay->taps; j++)
            Z(add_scaled)
        (buffer, plane + iz[i] * r->in_space[0] + iy[j] * r->in_space[1], (T)wz[i] * (T)wy[j],
         i == 0 && j == 0, r->axis[2].in);
    }
    return buffer;
}

static void Z(plane)(const resize *r, const T *in, T *out, T *buffer) {
    const resize_axis *ax = &r->axis[2];
    for (int64_t z = 0; z < r->axis[0].out; z++) {
        for (int64_t y = 0; y < r->axis[1].out; y++) {
            const T *row = Z(mix_rows)(r, in, z, y, buffer);
            T *to = out + z * r->out_space[0] + y * r->out_space[1];
            const int64_t *index = ax->index;
            const double *weight = ax->weight;
            if (ax->taps == 1) {
                for (int64_t x = 0; x < ax->out; x++)
                    to[x] = row[index[x]];
                continue;
            }
            for (int64_t x = 0; x < ax->out; x++, index += ax->taps, weight += ax->taps) {
                T sum = (T)weight[0] * row[index[0]];
                for (int64_t i = 1; i < ax->taps; i++)
                    sum += (T)weight[i] * row[index[i]];
                to[x] = sum;
            }
        }
    }
}

static void Z(planes)(const resize *r, int threads, const T *in, T *out, T *buffers) {
    int64_t planes = r->batch * r->channels;
    int64_t work = planes * r->axis[0].out * r->axis[1].out * r->axis[2].out;
#pragma omp parallel for num_threads(threads) if (work > TN_PARALLEL_WORK)
    for (int64_t i = 0; i < planes; i++) {
        int64_t batch = i / r->channels, channel = i % r->channels;
        Z(plane)
        (r, in + batch * r->in_batch + channel * r->in_channel,
         out + batch * r->out_batch + channel * r->out_channel,
         buffers + omp_get_thread_num() * r->axis[2].in);
    }
}

/* Channels as the innermost dimension. */
static void Z(channels_last)(const resize *r, int threads, const T *in, T *out) {
    const resize_axis *az = &r->axis[0], *ay = &r->axis[1], *ax = &r->axis[2];
    int64_t pixels = r->batch * az->out * ay->out * ax->out;
#pragma omp parallel for num_threads(threads) if (pixels * r->channels > TN_PARALLEL_WORK)
    for (int64_t p = 0; p < pixels; p++) {
        int64_t x = p % ax->out, y = p / ax->out % ay->out, z = p / ax->out / ay->out % az->out;
        int64_t batch = p / ax->out / ay->out / az->out;
        T *to = out + batch * r->out_batch + z * r->out_space[0] + y * r->out_space[1] +
                x * r->out_space[2];
        for (int64_t i = 0; i < az->taps * ay->taps * ax->taps; i++) {
            int64_t tx = x * ax->taps + i % ax->taps, ty = y * ay->taps + i / ax->taps % ay->taps;
            int64_t tz = z * az->taps + i / ax->taps / ay->taps;
            T weight = (T)az->weight[tz] * (T)ay->weight[ty] * (T)ax->weight[tx];
            Z(add_scaled)
            (to,
             in + batch * r->in_batch + az->index[tz] * r->in_space[0] +
                 ay->index[ty] * r->in_space[1] + ax->index[tx] * r->in_space[2],
             weight, i == 0, r->channels);
        }
    }
}
