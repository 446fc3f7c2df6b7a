/* Motifs around products: activations, convolutions, linear layers, norms, attention. */
#include "random_graph.h"
#include <math.h>

/* ---- Activations ---- */

/* x * 0.5 * (1 + erf(x / sqrt 2)) */
static tenon_value *gelu_erf(rg *g, tenon_value *x) {
    tenon_value *erf = rg_op(g, "erf", "v", rg_leak(g, rg_times(g, x, rg_off(g, M_SQRT1_2))));
    tenon_value *sum = rg_plus(g, rg_set(g, rg_leak(g, erf), 1), rg_off(g, 1));
    switch (rg_int(g, 0, 2)) {
    case 0:
        return rg_mul(g, rg_times(g, x, 0.5), sum);
    case 1:
        return rg_times(g, rg_mul(g, x, sum), rg_off(g, 0.5));
    default:
        return rg_mul(g, x, rg_times(g, sum, 0.5));
    }
}

/* x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) */
static tenon_value *gelu_tanh(rg *g, tenon_value *x) {
    tenon_value *cube = rg_chance(g, 50) ? rg_op(g, "pow.Tensor_Scalar", "vd", x, 3.0)
                                         : rg_mul(g, rg_mul(g, x, x), x);
    tenon_value *sum = rg_add(g, x, rg_times(g, rg_leak(g, cube), rg_off(g, 0.044715)));
    tenon_value *t =
        rg_op(g, "tanh", "v", rg_times(g, rg_leak(g, sum), rg_off(g, 0.79788456080286536)));
    t = rg_plus(g, rg_set(g, t, 1), rg_off(g, 1));
    return rg_chance(g, 50) ? rg_mul(g, rg_times(g, x, 0.5), t)
                            : rg_times(g, rg_mul(g, x, t), rg_off(g, 0.5));
}

static tenon_value *relu6_plus_3(rg *g, tenon_value *x) {
    tenon_value *sum = rg_leak(g, rg_plus(g, x, rg_off(g, 3)));
    switch (rg_int(g, 0, 3)) {
    case 0:
        return rg_set(g, rg_op(g, "relu6", "v", sum), 6);
    case 1:
        return rg_set(g, rg_op(g, "hardtanh", "vdd", sum, 0.0, rg_off(g, 6)), 6);
    case 2:
        sum = rg_op(g, "clamp", "vin", sum, 0);
        return rg_set(g, rg_op(g, "clamp", "vni", rg_leak(g, sum), 6), 6);
    default:
        return rg_set(g, rg_op(g, "clamp", "vii", sum, 0, 6), 6);
    }
}

static tenon_value *taken_apart(rg *g, tenon_value *x) {
    tenon_value *y;
    switch (rg_int(g, 0, 5)) {
    case 0:
        return gelu_erf(g, x);
    case 1:
        return gelu_tanh(g, x);
    case 2:
        y = rg_set(g, rg_op(g, "sigmoid", "v", x), 1);
        return rg_mul(g, rg_chance(g, 92) ? x : rg_like(g, x), rg_leak(g, y));
    case 3:
        return rg_times(g, rg_leak(g, relu6_plus_3(g, x)), rg_off(g, 1.0 / 6));
    case 4:
        y = relu6_plus_3(g, x);
        return rg_chance(g, 50) ? rg_times(g, rg_mul(g, x, y), rg_off(g, 1.0 / 6))
                                : rg_mul(g, x, rg_times(g, rg_leak(g, y), 1.0 / 6));
    default:
        y = rg_set(g, rg_op(g, "hardsigmoid", "v", x), 1);
        return rg_mul(g, x, rg_leak(g, y));
    }
}

tenon_value *rg_activate(rg *g, tenon_value *x) {
    static const char *const names[] = {"relu",       "relu", "gelu",      "silu",
                                        "sigmoid",    "tanh", "hardswish", "relu6",
                                        "elu",        "mish", "hardtanh",  "hardsigmoid",
                                        "leaky_relu", "abs",  "softplus",  "log_sigmoid"};
    if (rg_chance(g, 25))
        return taken_apart(g, x);
    if (rg_chance(g, 5))
        return rg_op(g, "gelu", "vs", x, "tanh");
    return rg_op(g, names[rg_int(g, 0, 15)], "v", x);
}

static void activation(rg *g) {
    rg_push(g, rg_activate(g, rg_pick(g, 0, 5)));
}

static void apart(rg *g) {
    rg_push(g, taken_apart(g, rg_pick(g, 0, 4)));
}

static void clamps(rg *g) {
    tenon_value *x = rg_pick(g, 0, 4);
    double low = rg_real(g, -1, 0.3), high = rg_real(g, -0.2, 1);
    for (int i = 0; i < 2; i++) {
        switch (rg_int(g, 0, 5)) {
        case 0:
            x = rg_op(g, "clamp", "vdn", x, low);
            break;
        case 1:
            x = rg_op(g, "clamp", "vnd", x, high);
            break;
        case 2:
            x = rg_op(g, "clamp_min", "vd", x, low);
            break;
        case 3:
            x = rg_op(g, "clamp_max", "vd", x, high);
            break;
        case 4:
            x = rg_op(g, "clamp", "vdd", x, low, high);
            break;
        default:
            x = rg_op(g, "relu", "v", x);
        }
        rg_leak(g, x);
    }
    rg_push(g, x);
}

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
    int64_t in = rg_size(x, 1), out = rg_int(g, 1, 6), groups = 1, inner;
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
            if (rg_size(x, 2 + d) > 12 || rg_size(x, 2 + d) < 1)
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

static void pool(rg *g) {
    tenon_value *x = rg_image(g, 2, 3);
    if (rg_chance(g, 30))
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
        if (rg_numel(x) > 600)
            return;
        x = rg_linear(g, x, rg_int(g, 1, 8));
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

static void product(rg *g) {
    tenon_value *a = rg_pick(g, 2, 4), *y = NULL;
    int64_t sizes[TENON_MAX_RANK], shape[3];
    if (!a || rg_numel(a) > 400)
        return;
    int rank = rg_sizes(a, sizes);
    int64_t inner = sizes[rank - 1];
    sizes[rank - 2] = inner;
    sizes[rank - 1] = rg_int(g, 1, 6);
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
        y = x ? rg_linear(g, x, rg_int(g, 1, 6)) : NULL;
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

/* ---- Attention ---- */

/* True where key k may be seen by query t (or not seen: `negated`), from aranges. */
static tenon_value *causal(rg *g, int64_t t, bool negated) {
    tenon_value *i = rg_op(g, "arange", "i", (int)t), *j;
    switch (rg_int(g, 0, 2)) {
    case 0:
        j = rg_op(g, "unsqueeze", "vi", i, 1);
        return rg_op(g, negated ? "gt.Tensor" : "le.Tensor", "vv", i, j);
    case 1:
        j = rg_op(g, "view", "vL", i, 2, (int)t, 1);
        return rg_op(g, negated ? "lt.Tensor" : "ge.Tensor", "vv", j, i);
    default:
        j = rg_op(g, "ones", "Lt", 2, (int)t, (int)t, TENON_BOOL);
        j = rg_op(g, "tril", "v", j);
        return negated ? rg_op(g, "logical_not", "v", j) : j;
    }
}

static tenon_value *additive_mask(rg *g, int64_t t, int64_t s) {
    int64_t sizes[2] = {t, s};
    tenon_value *zero, *low;
    if (t != s || rg_chance(g, 30))
        return rg_constant(g, 2, sizes, 1, 0);
    switch (rg_int(g, 0, 2)) {
    case 0:
        return rg_op(g, "where.ScalarSelf", "vdv", causal(g, t, false), 0.0,
                     rg_op(g, "full", "Ld", 2, (int)t, (int)s, -INFINITY));
    case 1:
        zero = rg_op(g, "scalar_tensor", "dt", 0.0, TENON_FLOAT32);
        low = rg_op(g, "scalar_tensor", "dt", -INFINITY, TENON_FLOAT32);
        return rg_op(g, "where.self", "vvv", causal(g, t, false), zero, low);
    default:
        return rg_op(g, "triu", "vi",
                     rg_op(g, "full", "Ld", 2, (int)t, (int)s, rg_chance(g, 60) ? -INFINITY : -1e4),
                     1);
    }
}

static tenon_value *heads(rg *g, tenon_value *x, int64_t h, bool key) {
    int64_t b = rg_size(x, 0), t = rg_size(x, 1), c = rg_size(x, 2);
    int64_t sizes[4] = {b, t, h, c / h};
    tenon_value *y = rg_view(g, rg_linear(g, x, c), 4, sizes);
    if (key && rg_chance(g, 30)) /* k^T at once; marked by its sizes */
        return rg_op(g, "permute", "vL", y, 4, 0, 2, 3, 1);
    return rg_chance(g, 50) ? rg_op(g, "transpose.int", "vii", y, 1, 2)
                            : rg_op(g, "permute", "vL", y, 4, 0, 2, 1, 3);
}

/* As matmul, or as what it is lowered to. */
static tenon_value *heads_product(rg *g, tenon_value *a, tenon_value *b) {
    int64_t x[4], y[4];
    if (rg_chance(g, 55) || !a || !b)
        return rg_op(g, "matmul", "vv", a, b);
    rg_sizes(a, x);
    rg_sizes(b, y);
    int64_t left[3] = {x[0] * x[1], x[2], x[3]}, right[3] = {y[0] * y[1], y[2], y[3]};
    int64_t out[4] = {x[0], x[1], x[2], y[3]};
    if (rg_chance(g, 60)) {
        a = rg_op(g, "expand", "vA", a, 4, x);
        b = rg_op(g, "expand", "vA", b, 4, y);
    }
    if (rg_chance(g, 40))
        a = rg_op(g, "clone", "v", a);
    a = rg_op(g, "reshape", "vA", a, 3, left);
    b = rg_op(g, "reshape", "vA", b, 3, right);
    return rg_view(g, rg_op(g, "bmm", "vv", a, b), 4, out);
}

static tenon_value *masked(rg *g, tenon_value *scores, int64_t t, int64_t s) {
    int form = rg_int(g, 0, 4);
    if (form < 2)
        return scores;
    if (form == 2 && t == s)
        return rg_op(g, "masked_fill.Scalar", "vvd", scores, causal(g, t, true),
                     rg_chance(g, 60) ? -INFINITY : -1e4);
    if (form == 3 && t == s)
        return rg_op(g, "where.self", "vvv", causal(g, t, false), scores,
                     rg_op(g, "full_like", "vd", scores, -1e4));
    return rg_add(g, scores, additive_mask(g, t, s));
}

static tenon_value *guarded(rg *g, tenon_value *scores, tenon_value *soft) {
    tenon_value *low = rg_op(g, "eq.Scalar", "vd", scores, -INFINITY);
    if (rg_chance(g, 40))
        return rg_op(g, "where.ScalarSelf", "vdv", rg_op(g, "all.dim", "vib", low, -1, 1), 0.0,
                     soft);
    low = rg_op(g, "any.dim", "vib", rg_op(g, "logical_not", "v", low), -1, 1);
    return rg_op(g, "where.self", "vvv", rg_op(g, "logical_not", "v", low),
                 rg_op(g, "full_like", "vd", soft, 0.0), soft);
}

static tenon_value *attend_apart(rg *g, tenon_value *q, tenon_value *k, tenon_value *v, double s) {
    int64_t t = rg_size(q, 2), d = rg_size(q, 3);
    bool is_turned = rg_size(k, 2) == d && rg_size(k, 3) != d;
    int64_t keys = rg_size(k, is_turned ? 3 : 2);
    int where = rg_int(g, 0, 4);
    if (where == 0 || where == 1)
        q = rg_times(g, q, where ? sqrt(s) : s);
    if (where == 1)
        k = rg_times(g, k, sqrt(s));
    if (!is_turned)
        k = rg_op(g, "transpose.int", "vii", k, -2, -1);
    tenon_value *scores = heads_product(g, q, k);
    if (where == 2 || where == 3)
        scores = rg_times(g, rg_leak(g, scores), s);
    scores = masked(g, rg_leak(g, scores), t, keys);
    tenon_value *soft = rg_chance(g, 50) ? rg_op(g, "_softmax", "vib", scores, -1, 0)
                                         : rg_op(g, "softmax.int", "vi", scores, 3);
    if (rg_chance(g, 25) && soft)
        soft = guarded(g, scores, soft);
    if (rg_chance(g, 20))
        soft = rg_chance(g, 50) ? rg_op(g, "clone", "v", soft)
                                : rg_op(g, "dropout", "vdb", soft, 0.1, 0);
    return heads_product(g, rg_leak(g, soft), v);
}

static tenon_value *attend(rg *g, tenon_value *q, tenon_value *k, tenon_value *v, double s) {
    tenon_value *mask = NULL;
    if (rg_size(k, 2) == rg_size(q, 3) && rg_size(k, 3) != rg_size(q, 3))
        k = rg_op(g, "transpose.int", "vii", k, 2, 3);
    int form = rg_int(g, 0, 3);
    if (form == 1 && rg_size(q, 2) == rg_size(k, 2))
        mask = causal(g, rg_size(q, 2), false);
    if (form == 2)
        mask = additive_mask(g, rg_size(q, 2), rg_size(k, 2));
    if (rg_chance(g, 40))
        return rg_op(g, "scaled_dot_product_attention", "vvvodb", q, k, v, mask, 0.0, form == 3);
    return rg_op(g, "scaled_dot_product_attention", "vvvodbd", q, k, v, mask, 0.0, form == 3, s);
}

static void attention(rg *g) {
    static const int64_t widths[] = {2, 4, 4, 6, 8};
    tenon_value *x = rg_pick(g, 3, 3), *other;
    if (!x || rg_size(x, -1) % 2 || rg_size(x, -1) == 0 || rg_numel(x) > 400 || rg_numel(x) == 0) {
        int64_t sizes[3] = {rg_int(g, 1, 2), rg_int(g, 2, 5), widths[rg_int(g, 0, 4)]};
        if (g->symbolic)
            sizes[0] = RG_BATCH;
        x = rg_input(g, TENON_FLOAT32, 3, sizes, 0);
    }
    if (!x)
        return;
    other = rg_chance(g, 80) ? x : rg_like(g, x);
    int64_t h = rg_size(x, 2) % 4 == 0 && rg_chance(g, 40) ? 4 : rg_chance(g, 30) ? 1 : 2;
    tenon_value *q = heads(g, x, h, false), *k = other ? heads(g, other, h, true) : NULL;
    tenon_value *v = other ? heads(g, other, h, false) : NULL;
    if (!q || !k || !v)
        return;
    double scale = rg_chance(g, 70) ? 1 / sqrt((double)rg_size(q, 3)) : 0.7;
    tenon_value *y = rg_chance(g, 70) ? attend_apart(g, q, k, v, scale) : attend(g, q, k, v, scale);
    if (rg_chance(g, 40) || !y) {
        rg_push(g, y);
        return;
    }
    int64_t sizes[3] = {rg_size(x, 0), rg_size(x, 1), rg_size(x, 2)};
    y = rg_op(g, "permute", "vL", y, 4, 0, 2, 1, 3);
    if (rg_chance(g, 70))
        y = rg_chance(g, 50) ? rg_op(g, "clone", "vi", y, 0) : rg_op(g, "contiguous", "v", y);
    y = rg_op(g, "reshape", "vA", y, 3, sizes);
    if (rg_chance(g, 50) && y)
        y = rg_add(g, rg_linear(g, y, sizes[2]), x);
    rg_push(g, y);
}

const rg_motif rg_products[] = {
    {"activation", activation, 4},
    {"apart", apart, 6},
    {"clamps", clamps, 2},
    {"convolution", convolution, 10},
    {"pool", pool, 4},
    {"resize", resize, 3},
    {"linear", linear, 8},
    {"product", product, 4},
    {"norm_apart", norm_apart, 6},
    {"norm", norm, 4},
    {"chain", chain, 6},
    {"softmax", softmax, 2},
    {"attention", attention, 11},
    {0},
};
