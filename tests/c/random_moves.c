/* Motifs that move elements, write in place, compare, index, and compute from constants. */
#include "random_graph.h"

/* ---- Views ---- */

static tenon_value *reshaped(rg *g, tenon_value *x) {
    int64_t sizes[TENON_MAX_RANK], numel = rg_numel(x);
    int rank = rg_int(g, 1, 4);
    if (numel == 0)
        return x;
    for (int i = 0; i < rank; i++) {
        int64_t size = rg_int(g, 1, 6);
        sizes[i] = g->symbolic && i == 0 && numel % RG_BATCH == 0 ? RG_BATCH
                   : numel % size == 0                            ? size
                                                                  : 1;
        numel /= sizes[i];
    }
    sizes[rg_int(g, g->symbolic && rank > 1, rank - 1)] *= numel;
    if (rg_chance(g, 20))
        sizes[rg_int(g, 0, rank - 1)] = -1;
    return rg_view(g, x, rank, sizes);
}

static tenon_value *permuted(rg *g, tenon_value *x) {
    int64_t order[TENON_MAX_RANK];
    int rank = rg_rank(x);
    if (rank < 2)
        return rg_op(g, "unsqueeze", "vi", x, rg_int(g, -1, rank));
    for (int i = 0; i < rank; i++)
        order[i] = i;
    for (int i = rank - 1; i > 0; i--) {
        int k = rg_int(g, 0, i);
        int64_t keep = order[i];
        order[i] = order[k];
        order[k] = keep;
    }
    int a = rg_int(g, -rank, rank - 1), b = rg_int(g, -rank, rank - 1);
    switch (rg_int(g, 0, 4)) {
    case 0:
        return rg_op(g, "transpose.int", "vii", x, a, b);
    case 1:
        return rg_op(g, "movedim.int", "vii", x, a, b);
    case 2:
        return rank == 2 ? rg_op(g, "t", "v", x) : rg_op(g, "mT", "v", x);
    default:
        for (int i = 0; i < rank; i++)
            if (rg_chance(g, 20))
                order[i] -= rank;
        return rg_op(g, "permute", "vA", x, rank, order);
    }
}

static tenon_value *part(rg *g, tenon_value *x) {
    int rank = rg_rank(x), dim = rank ? rg_int(g, 0, rank - 1) : 0;
    int64_t size = rank ? rg_size(x, dim) : 0;
    if (size < 1 || (g->symbolic && size % RG_BATCH == 0))
        return x;
    int from = rg_int(g, 0, (int)size - 1), to = rg_int(g, from + 1, (int)size);
    int at = rg_chance(g, 50) ? dim : dim - rank;
    switch (rg_int(g, 0, 6)) {
    case 0:
        return rg_op(g, "slice.Tensor", "viiM", x, at, rg_chance(g, 50) ? from : from - (int)size);
    case 1:
        return rg_op(g, "slice.Tensor", "viii", x, at, from - (int)size,
                     to < size ? to - (int)size : to);
    case 2:
        return rg_op(g, "slice.Tensor", "viiii", x, at, from, to, 2);
    case 3:
        return rg_op(g, "narrow", "viii", x, at, from, to - from);
    case 4:
        return rg_op(g, "select.int", "vii", x, at, rg_chance(g, 50) ? from : from - (int)size);
    case 5:
        return rg_op(g, "slice.Tensor", "vi", x, at);
    default:
        return rg_op(g, "slice.Tensor", "viii", x, at, from, to);
    }
}

static tenon_value *widened(rg *g, tenon_value *x) {
    int64_t sizes[TENON_MAX_RANK + 1];
    int rank = rg_sizes(x, sizes + 1), first = rg_chance(g, 30) ? 0 : 1;
    if (rg_numel(x) > rg_limit(g, 300))
        return x;
    sizes[0] = rg_int(g, 1, 3);
    for (int i = 1; i <= rank; i++)
        sizes[i] = sizes[i] == 1 && rg_chance(g, 60) ? rg_int(g, 1, 3)
                   : rg_chance(g, 30)                ? -1
                                                     : sizes[i];
    return rg_op(g, rg_chance(g, 70) ? "expand" : "broadcast_to", "vA", x, rank + 1 - first,
                 sizes + first);
}

static tenon_value *one_view(rg *g, tenon_value *x) {
    int rank = rg_rank(x);
    switch (rg_int(g, 0, 11)) {
    case 0:
    case 1:
        return reshaped(g, x);
    case 2:
    case 3:
        return permuted(g, x);
    case 4:
    case 5:
        return part(g, x);
    case 6:
        return widened(g, x);
    case 7:
        return rg_op(g, "squeeze", "v", x);
    case 8:
        return rank ? rg_op(g, "squeeze.dim", "vi", x, rg_int(g, -rank, rank - 1)) : x;
    case 9:
        return rank ? rg_op(g, "flatten.using_ints", "vii", x, rg_int(g, 0, rank - 1), -1) : x;
    case 10:
        return rg_op(g,
                     rg_chance(g, 50)   ? "clone"
                     : rg_chance(g, 50) ? "contiguous"
                                        : "alias",
                     "v", x);
    default:
        return rank < 5 ? rg_op(g, "unsqueeze", "vi", x, rg_int(g, -rank - 1, rank)) : x;
    }
}

static void views(rg *g) {
    tenon_value *x = rg_pick(g, 0, 4);
    for (int i = rg_int(g, 1, 5); i > 0 && x; i--) {
        x = one_view(g, x);
        rg_leak(g, x);
        if (x && rg_chance(g, 15)) /* pointwise between views */
            x = rg_activate(g, x);
    }
    rg_push(g, x);
}

/* There and back: the second cancels the first, or nearly. */
static void back(rg *g) {
    tenon_value *x = rg_pick(g, 2, 4), *y;
    int64_t sizes[TENON_MAX_RANK];
    int rank = rg_sizes(x, sizes);
    if (!x)
        return;
    switch (rg_int(g, 0, 3)) {
    case 0:
        y = rg_op(g, "transpose.int", "vii", x, 0, 1);
        y = rg_op(g, "transpose.int", "vii", rg_leak(g, y), rg_chance(g, 85) ? 1 : -1, 0);
        break;
    case 1:
        y = reshaped(g, x);
        y = rg_op(g, "reshape", "vA", rg_leak(g, y), rank, sizes);
        break;
    case 2:
        y = rg_op(g, "unsqueeze", "vi", x, 0);
        y = rg_op(g, "squeeze.dim", "vi", rg_leak(g, y), rg_chance(g, 80) ? 0 : 1);
        break;
    default:
        y = rg_op(g, "_to_copy", "vt", x, rg_chance(g, 85) ? TENON_FLOAT64 : TENON_INT32);
        y = rg_op(g, "_to_copy", "vt", rg_leak(g, y), TENON_FLOAT32);
    }
    rg_push(g, y);
}

/* Parts of a value, put together again as they were, or not quite. */
static void cat_of_parts(rg *g) {
    tenon_value *x = rg_pick(g, 1, 4), *parts[8];
    if (!x)
        return;
    int rank = rg_rank(x), dim = rg_int(g, 0, rank - 1), count = 0, form = rg_int(g, 0, 3);
    int64_t size = rg_size(x, dim);
    if (size < 2 || size > 8 || (g->symbolic && size % RG_BATCH == 0))
        return;
    int cut = rg_int(g, 1, (int)size - 1);
    if (form == 0) {
        rg_op(g, "split.Tensor", "vii", x, cut, dim);
    } else if (form == 1) {
        rg_op(g, "chunk", "vii", x, 2, rg_chance(g, 50) ? dim : dim - rank);
    } else if (form == 2) {
        rg_op(g, "split_with_sizes", "vLi", x, 2, cut, (int)size - cut, dim);
    } else {
        parts[count++] = rg_op(g, "slice.Tensor", "viii", x, dim, 0, cut);
        parts[count++] =
            rg_op(g, "slice.Tensor", "viiM", x, dim, rg_chance(g, 50) ? cut : cut - (int)size);
    }
    for (int i = 0; form < 3 && i < 8 && rg_output(g, i); i++)
        parts[count++] = rg_output(g, i);
    if (form < 3 && rg_output(g, 8))
        return;
    int what = rg_int(g, 0, 9);
    if (count > 1 && what == 0) { /* swapped */
        tenon_value *first = parts[0];
        parts[0] = parts[count - 1];
        parts[count - 1] = first;
    } else if (what == 1) {
        count--;
    } else if (what == 2) {
        parts[0] = parts[0] ? rg_activate(g, parts[0]) : NULL;
    }
    rg_leak(g, parts[0]);
    if (count && what != 3)
        rg_push(g, rg_op(g, "cat", "Vi", count, parts, what == 4 ? rg_int(g, 0, rank - 1) : dim));
    for (int i = 0; what == 3 && i < count; i++)
        rg_push(g, parts[i]);
}

static void cat(rg *g) {
    tenon_value *x = rg_pick(g, 1, 4);
    tenon_value *parts[3] = {x, rg_like(g, x), x};
    if (!x || rg_numel(x) > rg_limit(g, 600))
        return;
    int rank = rg_rank(x), count = rg_int(g, 1, 3);
    if (rg_chance(g, 70))
        rg_push(g, rg_op(g, "cat", "Vi", count, parts, rg_int(g, -rank, rank - 1)));
    else
        rg_push(g, rg_op(g, "stack", "Vi", count, parts, rg_int(g, -rank - 1, rank)));
}

static void shifted(rg *g) {
    tenon_value *x = rg_pick(g, 1, 4);
    int rank = rg_rank(x);
    int64_t ones[TENON_MAX_RANK];
    if (!x || rg_numel(x) > rg_limit(g, 600))
        return;
    for (int i = 0; i < rank; i++)
        ones[i] = rg_chance(g, 75) ? 1 : 2;
    switch (rg_int(g, 0, 4)) {
    case 0:
        rg_push(g, rg_op(g, "flip", "vL", x, 1, rg_int(g, -rank, rank - 1)));
        break;
    case 1:
        rg_push(g, rg_op(g, "roll", "vLL", x, 1, rg_int(g, -2, 2), 1, rg_int(g, 0, rank - 1)));
        break;
    case 2:
        rg_push(g, rg_op(g, "constant_pad_nd", "vLd", x, 2, rg_int(g, 0, 2), rg_int(g, 0, 2), 0.5));
        break;
    case 3:
        rg_push(g, rg_op(g, rank > 1 ? "tril" : "neg", "v", x));
        break;
    default:
        rg_push(g, rg_op(g, "repeat", "vA", x, rank, ones));
    }
}

/* ---- Comparing and indexing ---- */

static tenon_value *condition(rg *g, const tenon_value *like) {
    int64_t sizes[TENON_MAX_RANK];
    int rank = rg_sizes(like, sizes);
    tenon_value *c = rg_chance(g, 30) ? rg_pick_dtype(g, TENON_BOOL) : NULL;
    if (c && rg_rank(c) <= rank) {
        bool fits = true;
        for (int i = 1; i <= rg_rank(c); i++)
            fits &= rg_size(c, -i) == 1 || rg_size(c, -i) == rg_size(like, -i);
        if (fits)
            return c;
    }
    for (int i = 0; i < rank; i++)
        if (rg_chance(g, 20))
            sizes[i] = 1;
    c = rg_input(g, TENON_INT64, rank, sizes, 5);
    c = rg_op(g, rg_chance(g, 50) ? "gt.Scalar" : "ne.Scalar", "vi", c, 2);
    if (rg_chance(g, 25))
        c = rg_op(g, "logical_not", "v", c);
    rg_push(g, c);
    return c;
}

static void choose(rg *g) {
    tenon_value *x = rg_pick(g, 0, 4);
    tenon_value *c = x ? condition(g, x) : NULL;
    switch (rg_int(g, 0, 4)) {
    case 0:
        rg_push(g, rg_op(g, "where.ScalarOther", "vvd", c, x, 0.5));
        break;
    case 1:
        rg_push(g, rg_op(g, "masked_fill.Scalar", "vvd", x, c, -2.0));
        break;
    case 2:
        rg_push(g, rg_op(g, "mul.Tensor", "vv", x, rg_op(g, "to.dtype", "vt", c, TENON_FLOAT32)));
        break;
    case 3: /* compares far from where elements are */
        c = rg_op(g, "lt.Scalar", "vd", x, 1e4);
        rg_push(g, rg_op(g, "where.self", "vvv", c, x, rg_number(g, 1, 0)));
        rg_push(g, c);
        break;
    default:
        rg_push(g, rg_op(g, "where.self", "vvv", c, x,
                         rg_chance(g, 50) ? rg_like(g, x) : rg_spread(g, x)));
    }
}

static void lookup(rg *g) {
    int64_t rows = rg_int(g, 2, 6), table[2] = {rows, rg_int(g, 1, 6)};
    int64_t sizes[2] = {g->symbolic ? RG_BATCH : rg_int(g, 1, 3), rg_int(g, 1, 4)};
    tenon_value *x = rg_pick(g, 2, 3), *index;
    switch (rg_int(g, 0, 3)) {
    case 0:
        if (!x || rg_size(x, 1) < 1 || rg_size(x, 1) % RG_BATCH == 0)
            return;
        index = rg_input(g, TENON_INT64, 1, &sizes[1], rg_size(x, 1));
        rg_push(g, rg_op(g, "index_select", "viv", x, 1, index));
        break;
    case 1:
        if (!x || rg_size(x, -1) < 1 || rg_size(x, -1) % RG_BATCH == 0)
            return;
        int64_t shape[3];
        int rank = rg_sizes(x, shape);
        index = rg_input(g, TENON_INT64, rank, shape, rg_size(x, -1));
        rg_push(g, rg_op(g, "gather", "viv", x, -1, index));
        break;
    default:
        index = rg_input(g, rg_chance(g, 70) ? TENON_INT64 : TENON_INT32, 2, sizes, rows);
        if (rg_chance(g, 30))
            index = rg_op(g, "clamp", "vii", index, 0, (int)rows - 1);
        rg_push(g, rg_op(g, "embedding", "vv", rg_constant(g, 2, table, 1, 0), index));
    }
}

static void cast(rg *g) {
    tenon_value *x = rg_pick(g, 0, 4), *y;
    switch (rg_int(g, 0, 5)) {
    case 0: /* some of it in double */
        y = rg_op(g, "_to_copy", "vt", x, TENON_FLOAT64);
        y = rg_op(g, "add.Tensor", "vd", rg_op(g, "mul.Tensor", "vv", y, y), 0.25);
        rg_push(g, rg_op(g, "_to_copy", "vt", rg_leak(g, y), TENON_FLOAT32));
        break;
    case 1:
        y = x ? condition(g, x) : NULL;
        y = rg_op(g, "_to_copy", "vt", y, TENON_INT32);
        rg_push(g, rg_op(g, "add.Tensor", "vi", y, 3));
        rg_push(g, rg_op(g, "mul.Tensor", "vv", x, y));
        break;
    case 2:
        rg_push(g, rg_op(g, "_to_copy", "vt", x, TENON_FLOAT32));
        break;
    case 3:
        y = rg_op(g, "to.dtype", "vt", x, TENON_FLOAT64);
        rg_push(g, y);
        rg_push(g, rg_op(g, "type_as", "vv", y, x));
        break;
    case 4: /* integers */
        y = rg_op(g, "arange", "i", rg_int(g, 1, 6));
        y = rg_op(g, "add.Tensor", "vi", rg_op(g, "mul.Tensor", "vi", y, 3), 1);
        rg_push(g, y);
        rg_push(g, rg_op(g, "_to_copy", "vt", y, TENON_FLOAT32));
        break;
    default:
        rg_push(g, rg_op(g, "to.dtype", "vt", x, TENON_FLOAT32));
    }
}

static void nothing(rg *g) {
    tenon_value *x = rg_pick(g, 0, 4);
    switch (rg_int(g, 0, 6)) {
    case 0:
        x = rg_op(g, "dropout", "vdb", x, 0.5, 0);
        break;
    case 1:
        x = rg_op(g, "native_dropout", "vdb", x, 0.5, 0);
        if (rg_chance(g, 30))
            rg_push(g, rg_output(g, 1));
        break;
    case 2:
        x = rg_op(g, "contiguous", "v", x);
        break;
    case 3:
        x = rg_op(g, "detach", "v", x);
        break;
    case 4:
        x = rg_op(g, "lift_fresh_copy", "v", x);
        break;
    default:
        x = rg_op(g, "clone", "v", x);
    }
    rg_push(g, rg_chance(g, 40) && x ? rg_activate(g, x) : x);
}

/* Equal nodes twice. */
static void twins(rg *g) {
    tenon_value *x = rg_pick(g, 1, 4), *y[2];
    uint64_t state = g->state;
    for (int i = 0; i < 2; i++) {
        if (rg_chance(g, 80))
            g->state = state;
        y[i] =
            x ? rg_activate(g, rg_chance(g, 50) ? rg_op(g, "mul.Tensor", "vd", x, 0.5) : x) : NULL;
    }
    rg_push(g, y[0]);
    rg_push(g, rg_chance(g, 40) ? rg_add(g, y[0], y[1]) : y[1]);
}

/* ---- Constants ---- */

static tenon_value *created(rg *g, int size) {
    switch (rg_int(g, 0, 7)) {
    case 0:
        return rg_op(g, "arange", "it", size, TENON_FLOAT32);
    case 1:
        return rg_op(g, "linspace", "ddi", -1.0, 1.0, size);
    case 2:
        return rg_op(g, "ones", "L", 1, size);
    case 3:
        return rg_op(g, "full", "Ld", 2, rg_int(g, 1, 3), size, 0.75);
    case 4:
        return rg_op(g, "eye", "i", size);
    case 5:
        return rg_op(g, "zeros", "L", 2, 1, size);
    case 6:
        return rg_op(g, "arange.start_step", "ddd", 0.0, size * 0.5, 0.5);
    default:
        return rg_vector(g, size, 1, 0);
    }
}

static void constants(rg *g) {
    int size = rg_int(g, 1, 5);
    tenon_value *x = rg_set(g, created(g, size), 5);
    for (int i = rg_int(g, 0, 3); i > 0 && x; i--)
        x = rg_chance(g, 50)   ? one_view(g, x)
            : rg_chance(g, 50) ? rg_times(g, x, 0.3)
                               : rg_activate(g, x);
    if (rg_chance(g, 60) && x) {
        int64_t sizes[TENON_MAX_RANK + 1];
        int rank = rg_sizes(x, sizes + 1);
        sizes[0] = g->symbolic ? RG_BATCH : rg_int(g, 1, 3);
        if (rank <= 4 && rg_numel(x) <= 200)
            x = rg_mul(g, rg_input(g, TENON_FLOAT32, rank + 1, sizes, 0), x);
    }
    rg_push(g, x);
}

/* ---- Writes ---- */

static void write_to(rg *g, tenon_value *x) {
    switch (rg_int(g, 0, 6)) {
    case 0:
        rg_op(g, "relu_", "v", x);
        break;
    case 1:
        rg_op(g, "mul_.Tensor", "vd", x, 0.5);
        break;
    case 2:
        rg_op(g, "add_.Tensor", "vvd", x, rg_spread(g, x), 0.5);
        break;
    case 3:
        rg_op(g, "copy_", "vv", x, rg_spread(g, x));
        break;
    case 4:
        rg_op(g, "fill_.Scalar", "vd", x, 0.25);
        break;
    case 5:
        rg_op(g, "zero_", "v", x);
        break;
    default:
        rg_op(g, "clamp_", "vdd", x, -0.5, 0.5);
    }
}

static tenon_value *sure_view(rg *g, tenon_value *x) {
    int rank = rg_rank(x);
    switch (rg_int(g, 0, 3)) {
    case 0:
        return rank > 1 ? rg_op(g, "transpose.int", "vii", x, 0, 1) : x;
    case 1:
        return rank < 5 ? rg_op(g, "unsqueeze", "vi", x, rg_int(g, 0, rank)) : x;
    default:
        return rank ? part(g, x) : x;
    }
}

static void in_place(rg *g) {
    tenon_value *x = rg_pick(g, 1, 4), *y, *v;
    y = rg_chance(g, 80) ? rg_op(g, rg_chance(g, 50) ? "clone" : "neg", "v", x) : x;
    if (rg_chance(g, 40)) /* an earlier view of what is written */
        rg_push(g, rg_op(g, "unsqueeze", "vi", y, 0));
    for (int i = rg_int(g, 1, 3); i > 0 && y; i--) {
        v = y;
        for (int k = rg_int(g, 0, 2); k > 0 && v; k--)
            v = sure_view(g, v);
        if (v)
            write_to(g, v);
        rg_leak(g, v);
        if (rg_chance(g, 20))
            rg_push(g, rg_op(g, "neg", "v", y));
    }
    rg_push(g, y);
}

static void state(rg *g) {
    tenon_value *x = rg_pick(g, 0, 3), *b;
    int64_t sizes[TENON_MAX_RANK];
    int rank = rg_sizes(x, sizes);
    b = x ? rg_buffer(g, rank, sizes) : NULL;
    if (!b)
        return;
    tenon_value *before = rg_chance(g, 40) ? rg_op(g, "neg", "v", b) : NULL;
    switch (rg_int(g, 0, 3)) {
    case 0:
        rg_op(g, "add_.Tensor", "vv", b, x);
        break;
    case 1:
        rg_op(g, "copy_", "vv", b, rg_op(g, "mul.Tensor", "vd", x, 0.5));
        break;
    case 2: { /* a write that the graph says */
        tenon_value *next = rg_chance(g, 50) ? rg_op(g, "sub.Tensor", "vv", x, b) : x;
        if (next && tenon_graph_add_write(g->graph, b, next) != TENON_OK)
            g->refused++;
        break;
    }
    default: /* nothing writes it: a constant */
        break;
    }
    rg_push(g, before);
    rg_push(g, rg_op(g, "mul.Tensor", "vv", b, x));
    if (rg_chance(g, 30))
        rg_push(g, b);
}

const rg_motif rg_moves[] = {
    {"views", views, 8},
    {"back", back, 4},
    {"cat_of_parts", cat_of_parts, 5},
    {"cat", cat, 3},
    {"shifted", shifted, 3},
    {"choose", choose, 4},
    {"lookup", lookup, 3},
    {"cast", cast, 4},
    {"nothing", nothing, 3},
    {"twins", twins, 3},
    {"constants", constants, 4},
    {"in_place", in_place, 4},
    {"state", state, 3},
    {0},
};
