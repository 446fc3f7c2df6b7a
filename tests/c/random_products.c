/* Motifs around products: convolutions, pools, linear layers, norms. */
#include "random_graph.h"

/* ---- Convolutions ---- */

static tenon_value *batch_norm(rg *g, tenon_value *x) {
    int64_t channels = rg_size(x, 1);
    tenon_value *gamma = rg_chance(g, 85) ? rg_vector(g, channels, 0.5, 1) : NULL;
    tenon_value *beta = rg_chance(g, 85) ? rg_vector(g, channels, 0.5, 0) : NULL;
    tenon_value *mean = rg_vector(g, channels, 0.5, 0), *var = rg_vector(g, channels, 0.4, 1);
    if (rg_chance(g, 60))
        return rg_op(g, "batch_norm", "voovvbddb", x, gamma, beta, mean, var, 0, 0.1, 1e-5, 1);
    return rg_op(g, "_native_batch_norm_legit_no_training", "voovvdd", x, gamma, beta, mean, var,
                 0.1, 1e-3);
}

static tenon_value *pad_image(rg *g, tenon_value *x, int space) {
    int64_t pads[8];
    int count = 2 * space;
    for (int i = 0; i < count; i++)
        pads[i] = rg_chance(g, 6) ? -1 : rg_int(g, 0, 2);
    if (rg_chance(g, 5)) { /* channels too */
        pads[count++] = rg_int(g, 0, 1);
        pads[count++] = rg_int(g, 0, 1);
    }
    double value = rg_chance(g, 80) ? 0 : 0.5;
    return rg_chance(g, 70) ? rg_op(g, "constant_pad_nd", "vAd", x, count, pads, value)
                            : rg_op(g, "pad", "vAsd", x, count, pads, "constant", value);
}

static tenon_value *convolve(rg *g, tenon_value *x, int space, bool transposed) {
    static const char *const plain[] = {"", "conv1d", "conv2d", "conv3d"};
    static const char *const back[] = {"", "conv_transpose1d", "conv_transpose2d.input",
                                       "conv_transpose3d.input"};
    int64_t in = rg_size(x, 1), out = rg_width(g), groups = 1, inner;
    int64_t weight[5], stride[3], pad[3], dilation[3], zero[3] = {0};
    if (rg_chance(g, 25) && (in % 2 == 0 || rg_chance(g, 60)) && in > 1) {
        groups = in % 2 == 0 && rg_chance(g, 40) ? 2 : in;
        out = groups * rg_int(g, 1, 2);
    }
    weight[0] = transposed ? in : out;
    weight[1] = (transposed ? out : in) / groups;
    inner = in / groups;
    bool dilates = rg_chance(g, 12), strides = rg_chance(g, 30);
    for (int i = 0; i < space; i++) {
        bool wide = rg_size(x, 2 + i) >= 3 && rg_chance(g, 65);
        weight[2 + i] = wide ? 3 : rg_int(g, 1, 2);
        inner *= weight[2 + i];
        stride[i] = strides ? 2 : 1;
        pad[i] = rg_int(g, 0, wide ? 1 : 0);
        dilation[i] = dilates && !wide ? 2 : 1;
        if ((weight[2 + i] - 1) * dilation[i] + 1 > rg_size(x, 2 + i) + 2 * pad[i])
            weight[2 + i] = 1;
    }
    tenon_value *w = rg_weight(g, 2 + space, weight, inner);
    tenon_value *b = rg_chance(g, 60) ? rg_vector(g, out, 0.5, 0) : NULL;
    int n = space;
    if (rg_chance(g, 40))
        return rg_op(g, "convolution", "vvoAAAbAi", x, w, b, n, stride, n, pad, n, dilation,
                     transposed, n, zero, (int)groups);
    if (transposed)
        return rg_op(g, back[space], "vvoAAAiA", x, w, b, n, stride, n, pad, n, zero, (int)groups,
                     n, dilation);
    if (rg_chance(g, 15) && !strides)
        return rg_op(g,
                     space == 1   ? "conv1d.padding"
                     : space == 2 ? "conv2d.padding"
                                  : "conv3d.padding",
                     "vvoAsAi", x, w, b, n, stride, rg_chance(g, 80) ? "same" : "valid", n,
                     dilation, (int)groups);
    return rg_op(g, plain[space], "vvoAAAi", x, w, b, n, stride, n, pad, n, dilation, (int)groups);
}

static int some_space(rg *g) {
    int at = rg_int(g, 0, 9);
    return at < 2 ? 1 : at < 9 ? 2 : 3;
}

static void convolution(rg *g) {
    int space = some_space(g);
    tenon_value *x = rg_image(g, space, 3), *first = x;
    for (int i = rg_int(g, 1, 2); i > 0 && x; i--) {
        for (int d = 0; d < space; d++)
            if (rg_size(x, 2 + d) > rg_limit(g, 12) || rg_size(x, 2 + d) < 1)
                return;
        if (rg_chance(g, 25))
            x = rg_leak(g, pad_image(g, x, space));
        x = x ? rg_leak(g, convolve(g, x, space, rg_chance(g, 15))) : NULL;
        if (!x)
            return;
        if (rg_chance(g, 45))
            x = rg_leak(g, batch_norm(g, x));
        if (rg_chance(g, 15))
            x = rg_times(g, x, rg_real(g, 0.5, 1.5));
        if (rg_chance(g, 15) && x) { /* a scale and a shift for each channel */
            int64_t sizes[5] = {rg_size(x, 1), 1, 1, 1};
            x = rg_mul(g, x, rg_constant(g, space + 1, sizes, 0.5, 1));
            if (rg_chance(g, 60))
                x = rg_add(g, x, rg_constant(g, space + 1, sizes, 0.5, 0));
        }
        if (rg_chance(g, 20))
            x = rg_add(g, x, rg_like(g, x));
        if (rg_chance(g, 60))
            x = rg_activate(g, x);
    }
    if (rg_chance(g, 20) && x && rg_rank(first) == rg_rank(x))
        rg_push(g, first);
    rg_push(g, x);
}

/* What Winograd's method is for, and near misses. */
static void wide_convolution(rg *g) {
    int groups = rg_chance(g, 25) ? 2 : 1;
    int64_t sizes[4] = {rg_int(g, 1, 2), groups * rg_int(g, 30, 40), rg_int(g, 25, 30),
                        rg_int(g, 25, 30)};
    tenon_value *x = rg_input(g, TENON_FLOAT32, 4, sizes, 0);
    for (int i = rg_int(g, 1, 2); i > 0 && x; i--) {
        int64_t out = rg_chance(g, 50) ? sizes[1] : groups * rg_int(g, 30, 40);
        int64_t weight[4] = {out, rg_size(x, 1) / groups, 3, 3}, zero[2] = {0};
        int64_t pad[2] = {rg_int(g, 0, 2), 1}, one[2] = {1, 1};
        int64_t stride[2] = {1, rg_chance(g, 90) ? 1 : 2};
        tenon_value *b = rg_chance(g, 70) ? rg_vector(g, out, 0.5, 0) : NULL;
        x = rg_leak(g,
                    rg_op(g, "convolution", "vvoAAAbAi", x, rg_weight(g, 4, weight, 9 * weight[1]),
                          b, 2, stride, 2, pad, 2, one, 0, 2, zero, groups));
        if (x && rg_chance(g, 40))
            x = rg_leak(g, rg_add(g, x, rg_like(g, x)));
        if (x && rg_chance(g, 70))
            x = rg_activate(g, x);
    }
    rg_push(g, x);
}

static tenon_value *product_1x1(rg *g, tenon_value *x, int64_t out) {
    int64_t weight[4] = {out, rg_size(x, 1), 1, 1}, one[2] = {1, 1}, zero[2] = {0};
    tenon_value *b = rg_chance(g, 70) ? rg_vector(g, out, 0.5, 0) : NULL;
    tenon_value *y = rg_op(g, "convolution", "vvoAAAbAi", x, rg_weight(g, 4, weight, weight[1]), b,
                           2, one, 2, zero, 2, one, 0, 2, zero, 1);
    return rg_leak(g, y && rg_chance(g, 30) ? batch_norm(g, y) : y);
}

/* Blocks of mobile nets: expansion, depthwise convolution, squeeze and excitation, projection. */
static void mobile_block(rg *g) {
    int64_t sizes[4] = {rg_int(g, 1, 2), rg_int(g, 3, 24), rg_int(g, 3, 15), rg_int(g, 3, 15)};
    tenon_value *first = rg_input(g, TENON_FLOAT32, 4, sizes, 0), *x = first, *m = NULL;
    if (rg_chance(g, 75)) {
        x = product_1x1(g, x, rg_int(g, 4, 70));
        if (x && rg_chance(g, 85))
            x = rg_leak(g, rg_activate(g, x));
    }
    if (!x)
        return;
    int64_t channels = rg_size(x, 1), taps = rg_chance(g, 60) ? 3 : rg_int(g, 1, 5);
    int64_t weight[4] = {channels, 1, taps, taps}, one[2] = {1, 1}, zero[2] = {0};
    int64_t stride[2] = {rg_int(g, 1, 2), rg_int(g, 1, 2)}, pad[2] = {taps / 2, rg_int(g, 1, 2)};
    tenon_value *b = rg_chance(g, 70) ? rg_vector(g, channels, 0.5, 0) : NULL;
    x = rg_leak(g, rg_op(g, "convolution", "vvoAAAbAi", x, rg_weight(g, 4, weight, taps * taps), b,
                         2, stride, 2, pad, 2, one, 0, 2, zero, (int)channels));
    if (x && rg_chance(g, 70))
        x = rg_activate(g, x);
    if (x && rg_chance(g, 50)) {
        m = rg_op(g, "mean.dim", "vLb", x, 2, 2, 3, 1);
        m = m ? product_1x1(g, m, rg_int(g, 2, 12)) : NULL;
        m = m ? rg_leak(g, rg_activate(g, m)) : NULL;
        m = m ? product_1x1(g, m, channels) : NULL;
        m = m ? rg_leak(g, rg_op(g, "sigmoid", "v", m)) : NULL;
        x = m ? rg_leak(g, rg_mul(g, x, m)) : NULL;
    }
    if (x && rg_chance(g, 70))
        x = product_1x1(g, x, rg_chance(g, 50) ? sizes[1] : rg_int(g, 2, 40));
    if (x && rg_size(x, 1) == sizes[1] && rg_size(x, 2) == sizes[2] && rg_size(x, 3) == sizes[3])
        x = rg_add(g, x, first);
    if (x && rg_chance(g, 30))
        x = rg_activate(g, x);
    rg_push(g, x);
}

/* x [b, r c, h, w] to the sum of its r groups of channels, with weights from their means. */
static tenon_value *split_attention(rg *g, tenon_value *x, int groups) {
    int64_t image[5] = {rg_size(x, 0), groups, rg_size(x, 1) / groups, rg_size(x, 2),
                        rg_size(x, 3)};
    int64_t scale[5] = {image[0], groups, image[2], 1, 1};
    tenon_value *v = rg_leak(g, rg_view(g, x, 5, image));
    tenon_value *m = v ? rg_leak(g, rg_op(g, "sum.dim_IntList", "vL", v, 1, 1)) : NULL;
    m = m ? rg_op(g, "mean.dim", "vLb", m, 2, 2, 3, rg_chance(g, 90)) : NULL;
    m = m && rg_rank(m) == 4 ? product_1x1(g, m, groups * image[2]) : NULL;
    m = m ? rg_view(g, rg_op(g, "sigmoid", "v", m), 5, scale) : NULL;
    v = m ? rg_leak(g, rg_mul(g, v, m)) : NULL;
    return v ? rg_op(g, "sum.dim_IntList", "vL", v, 1, rg_chance(g, 90) ? 1 : 2) : NULL;
}

/* Convolutions' results together: shuffled, normalised, or weighed against each other. */
static void image_of_parts(rg *g) {
    int64_t sizes[4] = {rg_int(g, 1, 2), rg_int(g, 3, 24), rg_int(g, 3, 12), rg_int(g, 3, 12)};
    int64_t channels = rg_chance(g, 50) ? sizes[1] : rg_int(g, 4, 40);
    tenon_value *x = rg_input(g, TENON_FLOAT32, 4, sizes, 0), *parts[3] = {0}, *y;
    int count = rg_int(g, 1, 3);
    for (int i = 0; i < count; i++) {
        parts[i] = product_1x1(g, x, rg_chance(g, 80) ? channels : rg_int(g, 4, 40));
        if (parts[i] && rg_chance(g, 50))
            parts[i] = rg_activate(g, parts[i]);
        if (!parts[i])
            return;
    }
    if (count > 1 && sizes[1] == channels && rg_chance(g, 30))
        parts[0] = x;
    y = count > 1 ? rg_op(g, "cat", "Vi", count, parts, rg_chance(g, 90) ? 1 : -3) : parts[0];
    y = y ? rg_leak(g, y) : NULL;
    int what = rg_int(g, 0, 2);
    if (what == 0 && y) {
        y = rg_leak(g, batch_norm(g, y));
        y = y && rg_chance(g, 80) ? rg_activate(g, y) : y;
    } else if (y && rg_size(y, 1) % count == 0) {
        y = what == 1 ? rg_op(g, "channel_shuffle", "vi", y, count) : split_attention(g, y, count);
    }
    if (y && rg_rank(y) == 4 && rg_chance(g, 60))
        y = product_1x1(g, rg_leak(g, y), rg_int(g, 2, 40));
    rg_push(g, y);
}

static tenon_value *pooled(rg *g, tenon_value *x) {
    bool odd = rg_chance(g, 30);
    int kernel = rg_int(g, 2, 3), stride = rg_int(g, 1, 2), pad = odd ? 1 : 0;
    tenon_value *y;
    switch (rg_int(g, 0, 9)) {
    case 0:
        return rg_op(g, "avg_pool2d", "vLLLbb", x, 2, kernel, kernel, 2, stride, stride, 2, pad,
                     pad, 0, rg_chance(g, 50));
    case 1:
        return rg_op(g, "avg_pool2d", "vL", x, 2, 2, 2);
    case 2:
        y = rg_op(g, "max_pool2d_with_indices", "vLL", x, 2, kernel, kernel, 2, stride, stride);
        if (rg_chance(g, 30))
            rg_push(g, rg_output(g, 1));
        return y;
    case 3:
        return rg_op(g, "adaptive_avg_pool2d", "vL", x, 2, 1, 1);
    case 4:
        return rg_op(g, "_adaptive_avg_pool2d", "vL", x, 2, rg_int(g, 1, 3), rg_int(g, 1, 3));
    case 5:
        return rg_op(g, "adaptive_avg_pool2d", "vL", x, 2, rg_int(g, 1, 4), rg_int(g, 1, 3));
    case 6:
        y = rg_op(g, "adaptive_max_pool2d", "vL", x, 2, rg_int(g, 1, 3), rg_int(g, 1, 3));
        if (rg_chance(g, 30))
            rg_push(g, rg_output(g, 1));
        return y;
    case 7:
        return rg_op(g, "mean.dim", "vLb", x, 2, rg_chance(g, 50) ? 2 : -2, -1, rg_chance(g, 50));
    default:
        return rg_op(g, "max_pool2d", "vLLL", x, 2, kernel, kernel, 2, stride, stride, 2, pad, pad);
    }
}

static tenon_value *pointwise(rg *g, tenon_value *x) {
    int64_t weight[4] = {rg_width(g), rg_size(x, 1), 1, 1}, one[2] = {1, 1}, zero[2] = {0};
    int64_t pad[2] = {rg_chance(g, 10), 0};
    return rg_op(g, "convolution", "vvoAAAbAi", x, rg_weight(g, 4, weight, weight[1]),
                 rg_vector(g, weight[0], 0.5, 0), 2, one, 2, pad, 2, one, 0, 2, zero, 1);
}

static void pool(rg *g) {
    tenon_value *x = rg_image(g, 2, 3);
    if (rg_chance(g, 25))
        x = rg_leak(g, pointwise(g, x));
    if (x && rg_chance(g, 30))
        x = rg_leak(g, pad_image(g, x, 2));
    if (x && rg_size(x, 2) >= 3 && rg_size(x, 3) >= 3)
        x = pooled(g, x);
    rg_push(g, x);
}

static void resize(rg *g) {
    tenon_value *x = rg_image(g, 2, 1);
    int64_t h = x ? rg_size(x, 2) : 0, w = x ? rg_size(x, 3) : 0, c = x ? rg_size(x, 1) : 0;
    int64_t split[5] = {x ? rg_size(x, 0) : 0, 2, c / 2, h, w}, back[4] = {split[0], c, h, w};
    switch (rg_int(g, 0, 4)) {
    case 0:
        if (h * w <= 25)
            rg_push(g, rg_op(g, "upsample_nearest2d.vec", "vLn", x, 2, (int)h * 2, (int)w * 2));
        break;
    case 1:
        if (h * w <= 25)
            rg_push(g, rg_op(g, "upsample_bilinear2d", "vLb", x, 2, (int)h + 2, (int)w + 1,
                             rg_chance(g, 50)));
        break;
    case 2:
        if (c % 4 == 0)
            rg_push(g, rg_op(g, "pixel_shuffle", "vi", x, 2));
        break;
    default: /* a channel shuffle */
        if (c % 2 == 0 && c > 0) {
            tenon_value *y = rg_leak(g, rg_view(g, x, 5, split));
            y = rg_chance(g, 50) ? rg_op(g, "permute", "vL", y, 5, 0, 2, 1, 3, 4)
                                 : rg_op(g, "transpose.int", "vii", y, 1, 2);
            if (rg_chance(g, 50))
                y = rg_op(g, "clone", "v", y);
            rg_push(g, rg_op(g, "reshape", "vA", rg_leak(g, y), 4, back));
        }
    }
}

/* ---- Linear layers ---- */

static tenon_value *flat_rows(rg *g, tenon_value *x, int64_t *rows) {
    int64_t last = rg_size(x, -1);
    *rows = last ? rg_numel(x) / last : 0;
    int64_t sizes[2] = {*rows, last};
    return rg_rank(x) == 2 ? x : rg_view(g, x, 2, sizes);
}

static tenon_value *turned(rg *g, tenon_value *w) {
    switch (rg_int(g, 0, 3)) {
    case 0:
        return rg_op(g, "t", "v", w);
    case 1:
        return rg_op(g, "transpose.int", "vii", w, 0, rg_chance(g, 50) ? 1 : -1);
    case 2:
        return rg_op(g, "numpy_T", "v", w);
    default:
        return rg_op(g, "permute", "vL", w, 2, 1, 0);
    }
}

static tenon_value *batched(rg *g, tenon_value *x, tenon_value *right, int64_t in, int64_t out) {
    int64_t sizes[3] = {0, 0, in}, wide[3] = {0, in, out}, shape[TENON_MAX_RANK];
    int rank = rg_sizes(x, shape);
    sizes[0] = wide[0] = rank > 2 ? rg_size(x, 0) : 1;
    sizes[1] = sizes[0] ? rg_numel(x) / (sizes[0] * in) : 0;
    tenon_value *many = rg_op(g, "expand", "vA", right, 3, wide);
    tenon_value *y = rg_op(g, "bmm", "vv", rg_view(g, x, 3, sizes), many);
    shape[rank - 1] = out;
    return rg_view(g, y, rank, shape);
}

tenon_value *rg_linear(rg *g, tenon_value *x, int64_t out) {
    int64_t in = rg_size(x, -1), rows, shape[TENON_MAX_RANK], forward[2] = {out, in},
            backward[2] = {in, out};
    int rank = rg_sizes(x, shape);
    bool has_bias = rg_chance(g, 60);
    tenon_value *y, *bias = has_bias ? rg_vector(g, out, 0.5, 0) : NULL;
    if (rg_chance(g, 30)) {
        y = rg_op(g, "linear", "vvo", x, rg_weight(g, 2, forward, in), bias);
    } else {
        tenon_value *right = rg_chance(g, 60) ? turned(g, rg_weight(g, 2, forward, in))
                                              : rg_weight(g, 2, backward, in);
        rg_leak(g, right);
        if (rg_chance(g, 35)) {
            y = rg_op(g, "matmul", "vv", x, right);
        } else if (rg_chance(g, 25) && rank > 1 && in) {
            y = batched(g, x, right, in, out);
        } else if (in) {
            tenon_value *flat = flat_rows(g, x, &rows);
            shape[rank - 1] = out;
            y = bias && rg_chance(g, 60)
                    ? (rg_chance(g, 85)
                           ? rg_op(g, "addmm", "vvv", bias, flat, right)
                           : rg_op(g, "addmm", "vvvdd", bias, flat, right, 0.5, rg_off(g, 1)))
                    : rg_op(g, "mm", "vv", flat, right);
            if (bias && tenon_value_use_count(bias) == 0 && rg_chance(g, 50))
                y = rg_add(g, y, bias);
            if (rank != 2)
                y = rg_view(g, y, rank, shape);
        } else {
            return NULL;
        }
        if (bias && tenon_value_use_count(bias) == 0)
            y = rg_add(g, rg_leak(g, y), bias);
    }
    return rg_leak(g, y);
}

static void linear(rg *g) {
    tenon_value *x = rg_pick(g, 1, 4);
    for (int i = rg_int(g, 1, 2); i > 0 && x; i--) {
        if (rg_numel(x) > rg_limit(g, 600))
            return;
        x = rg_linear(g, x, rg_width(g));
        if (rg_chance(g, 15) && rg_rank(x) == 2)
            x = batch_norm(g, x);
        if (rg_chance(g, 25))
            x = rg_times(g, x, rg_real(g, 0.2, 1.5));
        if (rg_chance(g, 20))
            x = rg_add(g, x, rg_like(g, x));
        if (rg_chance(g, 50) && x)
            x = rg_activate(g, x);
    }
    rg_push(g, x);
}

/* Averages of a convolution that looks at single places, and near misses. */
static void pointwise_pool(rg *g) {
    int64_t sizes[4] = {rg_int(g, 1, 2), rg_width(g), rg_int(g, 2, 6), rg_int(g, 2, 6)};
    tenon_value *x = rg_input(g, TENON_FLOAT32, 4, sizes, 0);
    int64_t out = rg_width(g), weight[4] = {out, sizes[1], 1, 1}, one[2] = {1, 1}, zero[2] = {0};
    x = rg_op(g, "convolution", "vvoAAAbAi", x, rg_weight(g, 4, weight, sizes[1]),
              rg_chance(g, 60) ? rg_vector(g, out, 0.5, 0) : NULL, 2, one, 2, zero, 2, one, 0, 2,
              zero, 1);
    if (rg_chance(g, 15))
        rg_leak(g, x);
    rg_push(g, rg_op(g, "avg_pool2d", "vL", x, 2, 2, 2));
}

/* What packed weights and Strassen's method are for, and near misses. */
static void wide_linear(rg *g) {
    int64_t sizes[2] = {rg_int(g, 28, 40), rg_int(g, 190, 196)};
    tenon_value *x = rg_input(g, TENON_FLOAT32, 2, sizes, 0);
    for (int i = rg_int(g, 1, 2); i > 0 && x; i--) {
        x = rg_linear(g, x, rg_chance(g, 80) ? rg_int(g, 240, 260) : rg_width(g));
        if (rg_chance(g, 40))
            x = rg_add(g, x, rg_like(g, x));
        if (rg_chance(g, 50) && x)
            x = rg_activate(g, x);
    }
    rg_push(g, x);
}

static void product(rg *g) {
    tenon_value *a = rg_pick(g, 2, 4), *y = NULL;
    int64_t sizes[TENON_MAX_RANK], shape[3];
    if (!a || rg_numel(a) > rg_limit(g, 400))
        return;
    int rank = rg_sizes(a, sizes);
    int64_t inner = sizes[rank - 1];
    sizes[rank - 2] = inner;
    sizes[rank - 1] = rg_width(g);
    tenon_value *b = rg_chance(g, 50) ? rg_input(g, TENON_FLOAT32, rank, sizes, 0)
                                      : rg_weight(g, rank, sizes, inner);
    switch (rg_int(g, 0, 3)) {
    case 0: /* a a^T */
        y = rg_op(g, "matmul", "vv", a,
                  rg_op(g, "transpose.int", "vii", a, -1, rg_chance(g, 50) ? -2 : rank - 2));
        break;
    case 1:
        if (rank == 3) {
            shape[0] = rg_size(a, 0);
            shape[1] = rg_chance(g, 50) ? 1 : rg_size(a, 1);
            shape[2] = sizes[2];
            y = rg_op(g, "baddbmm", "vvvdd", rg_constant(g, 3, shape, 1, 0), a, b,
                      rg_chance(g, 60) ? 1.0 : 0.5, rg_chance(g, 60) ? 1.0 : 2.0);
            break;
        }
        if (rank == 2) {
            y = rg_op(g, "einsum", "sV", "ij,jk->ki", 2, (tenon_value *[]){a, b});
            break;
        }
        /* fallthrough */
    default:
        y = rg_op(g, "matmul", "vv", a, b);
    }
    rg_push(g, rg_set(g, y, 1.5 * (a ? rg_get(g, a) : 1)));
}

/* ---- Norms ---- */

static tenon_value *mean_last(rg *g, tenon_value *x, int count) {
    int rank = rg_rank(x);
    int64_t dims[4];
    for (int i = 0; i < count; i++)
        dims[i] = rg_chance(g, 70) ? i - count : rank - count + i;
    if (rg_chance(g, 4))
        dims[0] = 0;
    return rg_op(g, "mean.dim", "vAb", x, count, dims, 1);
}

static tenon_value *squared(rg *g, tenon_value *x) {
    double size = x ? rg_get(g, x) : 0;
    int form = rg_int(g, 0, 2);
    return rg_set(g,
                  form == 0   ? rg_op(g, "pow.Tensor_Scalar", "vd", x, rg_off(g, 2))
                  : form == 1 ? rg_op(g, "square", "v", x)
                              : rg_op(g, "mul.Tensor", "vv", x, x),
                  size * size);
}

/* d / sqrt(v + eps) */
static tenon_value *over_root(rg *g, tenon_value *top, tenon_value *v, double eps) {
    tenon_value *sum = rg_leak(g, rg_plus(g, v, eps));
    tenon_value *y = rg_chance(g, 60)
                         ? rg_mul(g, top, rg_op(g, "rsqrt", "v", sum))
                         : rg_op(g, "div.Tensor", "vv", top, rg_op(g, "sqrt", "v", sum));
    return rg_set(g, y, 2);
}

static tenon_value *affine(rg *g, tenon_value *x, int count, bool shift) {
    int64_t sizes[TENON_MAX_RANK];
    int rank = rg_sizes(x, sizes);
    if (rank < 0)
        return NULL;
    int64_t *last = sizes + rank - count;
    if (rg_chance(g, 8)) /* broadcasts only */
        last[0] = 1;
    if (rg_chance(g, 75))
        x = rg_mul(g, x, rg_constant(g, count, last, 0.5, 1));
    if (shift && rg_chance(g, 70))
        x = rg_add(g, rg_leak(g, x), rg_constant(g, count, last, 0.5, 0));
    return x;
}

static void norm_apart(rg *g) {
    tenon_value *x = rg_pick(g, 2, 4), *d = x, *v;
    int rank = rg_rank(x), count = rank > 2 && rg_chance(g, 25) ? 2 : 1;
    double eps = rg_chance(g, 50) ? 1e-5 : 1e-2;
    int64_t dims[2] = {-1, -2};
    if (!x || rg_size(x, -1) < 3)
        return;
    bool rms = rg_chance(g, 50), doubled = rg_chance(g, 10);
    if (doubled)
        d = x = rg_op(g, "_to_copy", "vt", x, TENON_FLOAT64);
    if (!rms)
        d = rg_op(g, "sub.Tensor", "vv", x, rg_leak(g, mean_last(g, x, count)));
    if (!rms && rg_chance(g, 30))
        v = rg_op(g, "var.correction", "vAib", x, count, dims, rg_chance(g, 88) ? 0 : 1, 1);
    else if (!rms && rg_chance(g, 20))
        v = rg_op(g, "var.dim", "vAbb", x, count, dims, 0, 1);
    else
        v = mean_last(g, rg_leak(g, squared(g, d)), count);
    tenon_value *y = over_root(g, rg_leak(g, d), v, eps);
    if (doubled)
        y = rg_op(g, "_to_copy", "vt", y, TENON_FLOAT32);
    rg_push(g, affine(g, rg_leak(g, y), count, !rms));
}

static void norm(rg *g) {
    tenon_value *x = rg_pick(g, 2, 4), *w, *b, *y = NULL;
    int64_t sizes[TENON_MAX_RANK];
    int rank = rg_sizes(x, sizes), count = rank > 2 && rg_chance(g, 25) ? 2 : 1;
    if (!x || rg_size(x, -1) < 3)
        return;
    int64_t *last = sizes + rank - count;
    w = rg_chance(g, 70) ? rg_constant(g, count, last, 0.5, 1) : NULL;
    b = w && rg_chance(g, 80) ? rg_constant(g, count, last, 0.5, 0) : NULL;
    switch (rg_int(g, 0, 4)) {
    case 0:
        y = rg_op(g, "rms_norm", "vAod", x, count, last, w, 1e-3);
        break;
    case 1:
        y = rg_op(g, "native_layer_norm", "vAood", x, count, last, w, b, 1e-5);
        if (rg_chance(g, 25))
            rg_push(g, rg_output(g, rg_int(g, 1, 2)));
        break;
    case 2:
        if (rank > 2 && rg_size(x, 1) > 0) {
            int groups = rg_size(x, 1) % 2 == 0 ? 2 : 1;
            y = rg_op(g, "group_norm", "vioodb", x, groups, rg_vector(g, rg_size(x, 1), 0.5, 1),
                      rg_vector(g, rg_size(x, 1), 0.5, 0), 1e-5, 1);
            break;
        }
        /* fallthrough */
    default:
        y = rg_op(g, "layer_norm", "vAood", x, count, last, w, b, 1e-5);
    }
    rg_set(g, y, 2);
    if (!w && rg_chance(g, 60))
        y = affine(g, y, count, true);
    rg_push(g, y);
}

static void softmax(rg *g) {
    tenon_value *x = rg_pick(g, 1, 4), *y;
    int dim = x ? rg_int(g, -rg_rank(x), rg_rank(x) - 1) : 0;
    switch (rg_int(g, 0, 3)) {
    case 0:
        y = rg_op(g, "_softmax", "vib", x, dim, 0);
        break;
    case 1:
        y = rg_op(g, "log_softmax.int", "vi", x, dim);
        break;
    case 2:
        y = rg_op(g, "_log_softmax", "vib", x, dim, 0);
        break;
    default:
        y = rg_op(g, "softmax.int", "vi", x, dim);
    }
    rg_push(g, y);
}

/* What oneDNN fuses: something to start with, and pointwise ops behind it. */
static void chain(rg *g) {
    tenon_value *x = rg_image(g, 2, 3), *y = NULL;
    int64_t last = x ? rg_size(x, 3) : 0;
    switch (rg_int(g, 0, 9)) {
    case 0:
        y = rg_op(g, "native_layer_norm", "vLvvd", x, 1, (int)last, rg_vector(g, last, 0.5, 1),
                  rg_vector(g, last, 0.5, 0), 1e-5);
        break;
    case 1:
        y = x ? batch_norm(g, x) : NULL;
        break;
    case 2:
        y = rg_op(g, "_softmax", "vib", x, rg_int(g, 1, 3), 0);
        break;
    case 3:
        y = rg_op(g, rg_chance(g, 50) ? "mean.dim" : "amax", "vLb", x, 1, rg_int(g, 1, 3), 1);
        break;
    case 4:
        y = x ? rg_linear(g, x, rg_width(g)) : NULL;
        break;
    case 5:
        y = x ? convolve(g, x, 2, rg_chance(g, 30)) : NULL;
        break;
    case 6:
        y = rg_activate(g, x);
        break;
    case 7:
        y = rg_op(g, "group_norm", "vinndb", x, 1, 1e-5, 1);
        break;
    default:
        y = x ? pooled(g, x) : NULL;
    }
    for (int i = rg_int(g, 1, 4); i > 0 && y; i--) {
        tenon_value *z = rg_chance(g, 50) ? rg_like(g, y) : rg_spread(g, y);
        switch (rg_int(g, 0, 5)) {
        case 0:
            y = rg_add(g, y, z);
            break;
        case 1:
            y = rg_mul(g, y, z);
            break;
        case 2:
            y = rg_op(g, rg_chance(g, 50) ? "sub.Tensor" : "rsub.Tensor", "vv", y, z);
            break;
        case 3:
            y = rg_op(g, rg_chance(g, 50) ? "maximum" : "minimum", "vv", z, y);
            break;
        case 4:
            y = rg_times(g, y, rg_real(g, 0.3, 1.5));
            break;
        default:
            y = rg_activate(g, y);
        }
        if (y && rg_get(g, y) > 12)
            y = rg_set(g, rg_op(g, "tanh", "v", y), 1);
    }
    rg_push(g, y);
}

const rg_motif rg_products[] = {
    {"convolution", convolution, 10},
    {"wide_convolution", wide_convolution, 5},
    {"mobile_block", mobile_block, 3},
    {"image_of_parts", image_of_parts, 4},
    {"pool", pool, 4},
    {"resize", resize, 3},
    {"linear", linear, 8},
    {"product", product, 4},
    {"norm_apart", norm_apart, 6},
    {"norm", norm, 4},
    {"chain", chain, 6},
    {"softmax", softmax, 2},
    {"wide_linear", wide_linear, 2},
    {"pointwise_pool", pointwise_pool, 2},
    {0},
};
