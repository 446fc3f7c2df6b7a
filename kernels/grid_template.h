/* Grid sampling for one type. Included by grid.c, which defines T and S(name). Coordinates follow
 * PyTorch's GridSampler.h. */

static T S(reflect)(T x, T low, T span) {
    if (span <= 0)
        return 0;
    x = (T)fabs(x - low);
    T turns = (T)floor(x / span), rest = x - turns * span;
    return (turns - 2 * (T)floor(turns / 2) == 0 ? rest : span - rest) + low;
}

static T S(pad)(const grid *g, T x, int64_t size) {
    if (g->padding == PAD_ZEROS)
        return x;
    if (g->padding == PAD_REFLECTION)
        x = g->align_corners ? S(reflect)(x, 0, (T)(size - 1)) : S(reflect)(x, -(T)0.5, (T)size);
    return x > 0 ? x < (T)(size - 1) ? x : (T)(size - 1) : 0; /* NaN gives 0 */
}

static T S(place)(const grid *g, T x, int64_t size) {
    return g->align_corners ? (x + 1) / 2 * (T)(size - 1) : ((x + 1) * (T)size - 1) / 2;
}

static int64_t S(whole)(T x) { /* far away or NaN: outside */
    return x > -1e9 && x < 1e9 ? (int64_t)floor(x) : -1000;
}

static void S(add_tap)(const grid *g, S(taps) * t, int64_t y, int64_t x, T weight) {
    if (y < 0 || y >= g->height || x < 0 || x >= g->width)
        return;
    t->offset[t->count] = y * g->in_y + x * g->in_x;
    t->weight[t->count++] = weight;
}

static void S(cubic_weights)(T t, T *w) {
    const T a = (T)-0.75;
    T u = 1 - t, p = t + 1, q = u + 1;
    w[0] = ((a * p - 5 * a) * p + 8 * a) * p - 4 * a;
    w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    w[2] = ((a + 2) * u - (a + 3)) * u * u + 1;
    w[3] = ((a * q - 5 * a) * q + 8 * a) * q - 4 * a;
}

static void S(find_taps)(const grid *g, T x, T y, S(taps) * t) {
    x = S(place)(g, x, g->width);
    y = S(place)(g, y, g->height);
    t->count = 0;
    if (g->mode == MODE_CUBIC) {
        T fx = (T)floor(x), fy = (T)floor(y), wx[4], wy[4];
        S(cubic_weights)(x - fx, wx);
        S(cubic_weights)(y - fy, wy);
        for (int i = 0; i < 16; i++) {
            int row = i / 4, column = i % 4;
            S(add_tap)
            (g, t, S(whole)(S(pad)(g, fy - 1 + (T)row, g->height)),
             S(whole)(S(pad)(g, fx - 1 + (T)column, g->width)), wy[row] * wx[column]);
        }
        return;
    }
    x = S(pad)(g, x, g->width);
    y = S(pad)(g, y, g->height);
    if (g->mode == MODE_NEAREST) {
        S(add_tap)(g, t, S(whole)((T)rint(y)), S(whole)((T)rint(x)), 1);
        return;
    }
    T fx = (T)floor(x), fy = (T)floor(y), px = x - fx, py = y - fy;
    int64_t ix = S(whole)(x), iy = S(whole)(y);
    S(add_tap)(g, t, iy, ix, (1 - py) * (1 - px));
    S(add_tap)(g, t, iy, ix + 1, (1 - py) * px);
    S(add_tap)(g, t, iy + 1, ix, py * (1 - px));
    S(add_tap)(g, t, iy + 1, ix + 1, py * px);
}

static void S(sample)(const grid *g, int64_t index, const T *in, const T *coordinates, T *out) {
    int64_t pixels = g->out_height * g->out_width, batch = index / pixels, pixel = index % pixels;
    S(taps) t;
    S(find_taps)(g, coordinates[2 * index], coordinates[2 * index + 1], &t);
    for (int64_t c = 0; c < g->channels; c++) {
        const T *from = in + batch * g->in_batch + c * g->in_channel;
        T sum = 0;
        for (int i = 0; i < t.count; i++)
            sum += t.weight[i] * from[t.offset[i]];
        out[(batch * g->channels + c) * pixels + pixel] = sum;
    }
}
