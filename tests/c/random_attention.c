/* Motifs of attention: the op, and what it is taken apart into. */
#include "random_graph.h"
#include <math.h>

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

/* Some keys for some queries; rows may see all, or nothing. */
static tenon_value *some(rg *g, int64_t b, int64_t t, int64_t s, bool negated) {
    int64_t sizes[4] = {b, 1, rg_chance(g, 50) ? t : 1, s};
    int first = rg_chance(g, 40) ? 2 : 0;
    tenon_value *m = rg_chance(g, 70)
                         ? rg_constant(g, 4 - first, sizes + first, 1, rg_chance(g, 70) ? 0.8 : 0)
                         : rg_input(g, TENON_FLOAT32, 4 - first, sizes + first, 0);
    return rg_op(g, negated ? "le.Scalar" : "gt.Scalar", "vd", m, -0.3);
}

static tenon_value *seen(rg *g, int64_t b, int64_t t, int64_t s, bool negated) {
    tenon_value *m = t == s && rg_chance(g, 70) ? causal(g, t, negated) : some(g, b, t, s, negated);
    if (m && rg_rank(m) == 2 && rg_chance(g, 25))
        m = rg_op(g, "view", "vL", m, 4, 1, 1, (int)rg_size(m, 0), (int)s);
    return m;
}

static double low(rg *g) {
    static const double numbers[] = {-INFINITY, -INFINITY, -1e4, -1e9, -3.4028234663852886e38};
    return numbers[rg_int(g, 0, 4)];
}

static tenon_value *additive_mask(rg *g, int64_t t, int64_t s) {
    int64_t sizes[2] = {t, s};
    tenon_value *zero, *hidden;
    if (t != s || rg_chance(g, 30))
        return rg_constant(g, 2, sizes, 1, 0);
    switch (rg_int(g, 0, 2)) {
    case 0:
        return rg_op(g, "where.ScalarSelf", "vdv", causal(g, t, false), 0.0,
                     rg_op(g, "full", "Ld", 2, (int)t, (int)s, low(g)));
    case 1:
        zero = rg_op(g, "scalar_tensor", "dt", 0.0, TENON_FLOAT32);
        hidden = rg_op(g, "scalar_tensor", "dt", low(g), TENON_FLOAT32);
        return rg_op(g, "where.self", "vvv", causal(g, t, false), zero, hidden);
    default:
        return rg_op(g, "triu", "vi", rg_op(g, "full", "Ld", 2, (int)t, (int)s, low(g)), 1);
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

static tenon_value *masked(rg *g, tenon_value *scores, int64_t b, int64_t t, int64_t s) {
    switch (rg_int(g, 0, 5)) {
    case 0:
    case 1:
        return scores;
    case 2:
        return rg_op(g, "masked_fill.Scalar", "vvd", scores, seen(g, b, t, s, true), low(g));
    case 3:
        if (rg_chance(g, 50))
            return rg_op(g, "where.ScalarOther", "vvd", seen(g, b, t, s, false), scores, low(g));
        return rg_op(g, "where.self", "vvv", seen(g, b, t, s, false), scores,
                     rg_op(g, "full_like", "vd", scores, low(g)));
    default:
        return rg_add(g, scores, additive_mask(g, t, s));
    }
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
    scores = masked(g, rg_leak(g, scores), rg_size(q, 0), t, keys);
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
    if (form == 1)
        mask = seen(g, rg_size(q, 0), rg_size(q, 2), rg_size(k, 2), false);
    if (form == 2)
        mask = additive_mask(g, rg_size(q, 2), rg_size(k, 2));
    if (rg_chance(g, 40))
        return rg_op(g, "scaled_dot_product_attention", "vvvodb", q, k, v, mask, 0.0, form == 3);
    return rg_op(g, "scaled_dot_product_attention", "vvvodbd", q, k, v, mask, 0.0, form == 3, s);
}

static void attention(rg *g) {
    static const int64_t widths[] = {2, 4, 4, 6, 8}, large[] = {8, 16, 32, 48, 64};
    tenon_value *x = rg_pick(g, 3, 3), *other;
    if (!x || rg_size(x, -1) % 2 || rg_size(x, -1) == 0 || rg_numel(x) > rg_limit(g, 400) ||
        rg_numel(x) == 0) {
        int64_t sizes[3] = {rg_int(g, 1, 2), rg_int(g, 2, 5),
                            (g->large ? large : widths)[rg_int(g, 0, 4)]};
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

const rg_motif rg_attention[] = {{"attention", attention, 11}, {0}};
