/* The generator: chance, values, and whole graphs. */
#include "random_graph.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Chance ---- */

/* splitmix64 (Steele, Lea and Flood 2014) */
uint64_t rg_bits(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int rg_int(rg *g, int low, int high) {
    uint64_t count = (uint64_t)(high - low + 1), number = 0;
    if (g->byte_count >= 2) {
        for (int i = 0; i < (count > 256 ? 2 : 1); i++, g->byte_count--)
            number = number << 8 | *g->bytes++;
        return low + (int)(number % count);
    }
    return low + (int)(rg_bits(&g->state) % count);
}

bool rg_chance(rg *g, int percent) {
    return rg_int(g, 0, 99) < percent;
}

double rg_real(rg *g, double low, double high) {
    return low + (high - low) * (double)(rg_bits(&g->state) >> 11) * 0x1p-53;
}

int rg_dim(rg *g) {
    static const int sizes[] = {1, 2, 2, 3, 4, 4, 5, 6, 8};
    static const int large[] = {1, 2, 3, 4, 8, 16, 17, 20, 32};
    if (g->empty && rg_chance(g, 12))
        return 0;
    return (g->large ? large : sizes)[rg_int(g, 0, 8)];
}

int rg_width(rg *g) {
    static const int large[] = {1, 3, 8, 16, 17, 32, 40, 64};
    int at = rg_int(g, 0, 7);
    return g->large ? large[at] : at + 1;
}

int64_t rg_limit(rg *g, int64_t elements) {
    return g->large ? elements * 32 : elements;
}

/* ---- Values ---- */

int rg_rank(const tenon_value *value) {
    return value ? tenon_value_rank(value) : -1;
}

int64_t rg_size(const tenon_value *value, int dim) {
    return tenon_value_size(value, dim < 0 ? dim + tenon_value_rank(value) : dim);
}

int rg_sizes(const tenon_value *value, int64_t *out) {
    int rank = rg_rank(value);
    for (int i = 0; i < rank; i++)
        out[i] = tenon_value_size(value, i);
    return rank;
}

int64_t rg_numel(const tenon_value *value) {
    int64_t numel = 1;
    for (int i = 0; i < rg_rank(value); i++)
        numel *= tenon_value_size(value, i);
    return numel;
}

static bool is_float(const tenon_value *value) {
    return tenon_value_dtype(value) == TENON_FLOAT32;
}

tenon_value *rg_set(rg *g, tenon_value *value, double size) {
    for (int i = g->value_count - 1; value && i >= 0; i--)
        if (g->values[i] == value) {
            g->size[i] = (float)size;
            return value;
        }
    if (value && g->value_count < RG_VALUES) {
        g->values[g->value_count] = value;
        g->size[g->value_count++] = (float)size;
    }
    return value;
}

double rg_get(rg *g, const tenon_value *value) {
    for (int i = g->value_count - 1; i >= 0; i--)
        if (g->values[i] == value)
            return g->size[i];
    return 1;
}

void rg_push(rg *g, tenon_value *value) {
    if (value && g->pool_count < RG_POOL && rg_numel(value) <= rg_limit(g, 2048) &&
        tenon_value_rank(value) <= 6)
        g->pool[g->pool_count++] = value;
}

typedef struct packer {
    tenon_arg args[24], items[96];
    int count, used;
    bool failed;
    double size;
} packer;

static void pack_value(rg *g, packer *p, tenon_arg *arg, tenon_value *value) {
    *arg = tenon_arg_value(value);
    if (value && is_float(value) && rg_get(g, value) > p->size)
        p->size = rg_get(g, value);
}

static tenon_arg pack_list(rg *g, packer *p, char letter, va_list *rest) {
    int count = va_arg(*rest, int);
    tenon_arg *items = p->items + p->used;
    const int64_t *sizes = letter == 'A' ? va_arg(*rest, const int64_t *) : NULL;
    tenon_value **values = letter == 'V' ? va_arg(*rest, tenon_value **) : NULL;
    for (int i = 0; i < count; i++) {
        if (letter == 'V') {
            p->failed |= !values[i];
            pack_value(g, p, &items[i], values[i]);
        } else {
            items[i] = tenon_arg_int(sizes ? sizes[i] : va_arg(*rest, int));
        }
    }
    p->used += count;
    return tenon_arg_list(items, count);
}

static void pack(rg *g, packer *p, const char *format, va_list *rest) {
    for (; *format; format++) {
        tenon_arg *arg = &p->args[p->count++];
        switch (*format) {
        case 'v':
        case 'o':
            pack_value(g, p, arg, va_arg(*rest, tenon_value *));
            p->failed |= *format == 'v' && arg->kind == TENON_ARG_NONE;
            break;
        case 'i':
            *arg = tenon_arg_int(va_arg(*rest, int));
            break;
        case 'd':
            *arg = tenon_arg_float(va_arg(*rest, double));
            break;
        case 'b':
            *arg = tenon_arg_bool(va_arg(*rest, int) != 0);
            break;
        case 's':
            *arg = tenon_arg_string(va_arg(*rest, const char *));
            break;
        case 't':
            *arg = tenon_arg_dtype((tenon_dtype)va_arg(*rest, int));
            break;
        case 'n':
            *arg = tenon_arg_none();
            break;
        case 'M':
            *arg = tenon_arg_int(INT64_MAX);
            break;
        case '-':
            *arg = (tenon_arg){TENON_ARG_DEFAULT, 0, {0}};
            break;
        default:
            *arg = pack_list(g, p, *format, rest);
        }
    }
}

tenon_value *rg_op(rg *g, const char *name, const char *format, ...) {
    packer p = {.size = 0};
    char full[96];
    va_list rest;
    va_start(rest, format);
    pack(g, &p, format, &rest);
    va_end(rest);
    g->node = NULL;
    if (p.failed)
        return NULL;
    snprintf(full, sizeof full, "aten.%s", name);
    if (tenon_graph_add_node(g->graph, full, NULL, p.args, p.count, &g->node) != TENON_OK) {
        g->refused++;
        snprintf(g->why, sizeof g->why, "%s: %s", full, tenon_last_error());
        g->node = NULL;
        return NULL;
    }
    for (int i = 0; i < tenon_node_output_count(g->node); i++)
        rg_set(g, tenon_node_output(g->node, i), p.size);
    return rg_output(g, 0);
}

tenon_value *rg_output(rg *g, int index) {
    return g->node && index < tenon_node_output_count(g->node) ? tenon_node_output(g->node, index)
                                                               : NULL;
}

tenon_value *rg_input(rg *g, tenon_dtype dtype, int rank, const int64_t *sizes, int64_t limit) {
    char name[32], texts[TENON_MAX_RANK][24];
    const char *dims[TENON_MAX_RANK];
    tenon_value *value = NULL;
    if (g->input_count == RG_INPUTS)
        return NULL;
    for (int i = 0; i < rank; i++) {
        snprintf(texts[i], sizeof texts[i], "%lld", (long long)sizes[i]);
        dims[i] = texts[i];
    }
    snprintf(name, sizeof name, "x%d", g->input_count);
    if (tenon_graph_add_input(g->graph, name, dtype, rank, dims, &value) != TENON_OK)
        return NULL;
    g->limit[g->input_count++] = limit;
    return rg_set(g, value, 1);
}

/* ---- Constants ---- */

static void fill(rg *g, const tenon_view *view, double scale, double middle) {
    float *data = view->data;
    for (int64_t i = 0; i < tenon_view_numel(view); i++)
        data[i] = (float)(middle + rg_real(g, -scale, scale));
}

/* A tensor; now and then one whose memory lies turned around. */
static tenon_tensor *make_tensor(rg *g, int rank, const int64_t *sizes, double scale,
                                 double middle) {
    tenon_tensor *tensor = NULL, *turned = NULL;
    int64_t back[TENON_MAX_RANK];
    for (int i = 0; i < rank; i++)
        back[i] = sizes[rank - 1 - i];
    bool turn = rank > 1 && rg_chance(g, 10);
    if (tenon_tensor_create(TENON_FLOAT32, rank, turn ? back : sizes, &tensor) != TENON_OK)
        abort();
    fill(g, tenon_tensor_view(tensor), scale, middle);
    if (!turn)
        return tensor;
    tenon_view view = *tenon_tensor_view(tensor), copy = view;
    for (int i = 0; i < rank; i++) {
        view.shape[i] = copy.shape[rank - 1 - i];
        view.strides[i] = copy.strides[rank - 1 - i];
    }
    view.data = malloc((size_t)tenon_view_numel(&view) * sizeof(float) + 1);
    memcpy(view.data, copy.data, (size_t)tenon_view_numel(&view) * sizeof(float));
    if (tenon_tensor_wrap(&view, free, view.data, &turned) != TENON_OK)
        abort();
    tenon_tensor_destroy(&tensor);
    return turned;
}

static tenon_value *add_constant(rg *g, tenon_tensor *tensor, bool buffer, double size) {
    char name[32];
    tenon_value *value = NULL;
    snprintf(name, sizeof name, "%s%d", buffer ? "state" : "w", g->constant_count++);
    tenon_status status = buffer ? tenon_graph_add_buffer(g->graph, name, tensor, &value)
                                 : tenon_graph_add_constant(g->graph, name, tensor, &value);
    tenon_tensor_destroy(&tensor);
    return status == TENON_OK ? rg_set(g, value, size) : NULL;
}

tenon_value *rg_constant(rg *g, int rank, const int64_t *sizes, double scale, double middle) {
    for (int i = 0; g->symbolic && i < rank; i++)
        if (sizes[i] && sizes[i] % RG_BATCH == 0)
            return rg_plus(g, rg_times(g, rg_input(g, TENON_FLOAT32, rank, sizes, 0), scale),
                           middle);
    return add_constant(g, make_tensor(g, rank, sizes, scale, middle), false,
                        scale + (middle < 0 ? -middle : middle));
}

tenon_value *rg_vector(rg *g, int64_t size, double scale, double middle) {
    return rg_constant(g, 1, &size, scale, middle);
}

tenon_value *rg_number(rg *g, double number, int rank) {
    static const int64_t ones[] = {1, 1, 1, 1, 1, 1};
    return add_constant(g, make_tensor(g, rank, ones, 0, number), false,
                        number < 0 ? -number : number);
}

tenon_value *rg_buffer(rg *g, int rank, const int64_t *sizes) {
    for (int i = 0; g->symbolic && i < rank; i++)
        if (sizes[i] && sizes[i] % RG_BATCH == 0)
            return NULL;
    return add_constant(g, make_tensor(g, rank, sizes, 1, 0), true, 1);
}

tenon_value *rg_weight(rg *g, int rank, const int64_t *sizes, int64_t inner) {
    double scale = 1;
    while (scale * scale * (double)inner > 3)
        scale *= 0.75;
    tenon_value *w = rg_constant(g, rank, sizes, scale, 0);
    if (w && rg_chance(g, 15)) /* weights that are computed */
        w = rg_chance(g, 50) ? rg_times(g, w, 0.5) : rg_op(g, "clone", "v", w);
    return w;
}

/* ---- Picking ---- */

/* Large elements are made small before they are used, so that results stay finite. */
static tenon_value *tame(rg *g, tenon_value *value) {
    double size = rg_get(g, value);
    if (size <= 12)
        return value;
    switch (rg_int(g, 0, 3)) {
    case 0:
        return rg_set(g, rg_op(g, "tanh", "v", value), 1);
    case 1:
        return rg_set(g, rg_op(g, "hardtanh", "vii", value, -1, 2), 2);
    case 2:
        return rg_set(g, rg_op(g, "sigmoid", "v", value), 1);
    default:
        return rg_set(g, rg_op(g, "mul.Tensor", "vd", value, 1 / size), 1);
    }
}

static tenon_value *pick_if(rg *g, bool (*fits)(const tenon_value *, const void *),
                            const void *what) {
    int found = 0, count = 0;
    for (int i = 0; i < g->pool_count; i++)
        count += fits(g->pool[i], what);
    if (!count)
        return NULL;
    /* the later of two, so that graphs grow deep */
    int a = rg_int(g, 0, count - 1), b = rg_int(g, 0, count - 1);
    int want = a > b ? a : b;
    for (int i = 0; i < g->pool_count; i++)
        if (fits(g->pool[i], what) && found++ == want)
            return g->pool[i];
    return NULL;
}

static bool has_rank(const tenon_value *value, const void *what) {
    const int *range = what;
    return is_float(value) && rg_rank(value) >= range[0] && rg_rank(value) <= range[1];
}

static bool has_dtype(const tenon_value *value, const void *what) {
    return tenon_value_dtype(value) == *(const tenon_dtype *)what;
}

static bool has_sizes(const tenon_value *value, const void *what) {
    const tenon_value *other = what;
    if (value == other || !is_float(value) || rg_rank(value) != rg_rank(other))
        return false;
    for (int i = 0; i < rg_rank(value); i++)
        if (rg_size(value, i) != rg_size(other, i))
            return false;
    return true;
}

static tenon_value *new_input(rg *g, int rank) {
    int64_t sizes[TENON_MAX_RANK], numel = 1;
    for (int i = 0; i < rank; i++) {
        sizes[i] = rg_dim(g);
        if (numel * sizes[i] > rg_limit(g, 512))
            sizes[i] = 1;
        numel *= sizes[i] ? sizes[i] : 1;
    }
    if (g->symbolic && rank > 0 && rg_chance(g, 75))
        sizes[rg_chance(g, 85) ? 0 : rg_int(g, 0, rank - 1)] = RG_BATCH;
    return rg_input(g, TENON_FLOAT32, rank, sizes, 0);
}

tenon_value *rg_pick(rg *g, int low, int high) {
    int range[2] = {low, high};
    tenon_value *value = rg_chance(g, 7) ? NULL : pick_if(g, has_rank, range);
    if (!value)
        value = new_input(g, rg_int(g, low, high));
    return value ? tame(g, value) : NULL;
}

tenon_value *rg_pick_dtype(rg *g, tenon_dtype dtype) {
    return pick_if(g, has_dtype, &dtype);
}

tenon_value *rg_image(rg *g, int space, int least) {
    int range[2] = {space + 2, space + 2};
    tenon_value *value = pick_if(g, has_rank, range);
    if (value && rg_chance(g, 85)) {
        bool fits = rg_size(value, 1) > 0;
        for (int i = 0; i < space; i++)
            fits &= rg_size(value, 2 + i) >= least;
        if (fits)
            return tame(g, value);
    }
    int64_t sizes[TENON_MAX_RANK] = {rg_int(g, 1, 2), rg_width(g)};
    if (g->symbolic)
        sizes[0] = RG_BATCH;
    for (int i = 0; i < space; i++)
        sizes[2 + i] = least + rg_int(g, 0, space > 2 ? 1 : g->large ? 10 : 4);
    return rg_input(g, TENON_FLOAT32, space + 2, sizes, 0);
}

tenon_value *rg_like(rg *g, const tenon_value *value) {
    int64_t sizes[TENON_MAX_RANK];
    if (!value)
        return NULL;
    tenon_value *other = rg_chance(g, 75) ? pick_if(g, has_sizes, value) : NULL;
    if (other)
        return tame(g, other);
    if (rg_chance(g, 40))
        return rg_activate(g, (tenon_value *)value);
    int rank = rg_sizes(value, sizes);
    return rg_chance(g, 50) ? rg_constant(g, rank, sizes, 1, 0)
                            : rg_input(g, TENON_FLOAT32, rank, sizes, 0);
}

tenon_value *rg_spread(rg *g, const tenon_value *value) {
    int64_t sizes[TENON_MAX_RANK];
    if (!value)
        return NULL;
    int rank = rg_sizes(value, sizes), first = rank ? rg_int(g, 0, rank) : 0;
    for (int i = 0; i < rank; i++)
        if (rg_chance(g, 35))
            sizes[i] = 1;
    return rg_chance(g, 65) ? rg_constant(g, rank - first, sizes + first, 1, 0)
                            : rg_input(g, TENON_FLOAT32, rank - first, sizes + first, 0);
}

/* ---- Forms of the same ---- */

tenon_value *rg_times(rg *g, tenon_value *x, double number) {
    double size = x ? rg_get(g, x) * (number < 0 ? -number : number) : 0;
    tenon_value *y;
    switch (rg_int(g, 0, 6)) {
    case 0:
        y = rg_op(g, "mul.Scalar", "vd", x, number);
        break;
    case 1:
        y = rg_op(g, "mul.Tensor", "vv", rg_number(g, number, 0), x);
        break;
    case 2:
        y = rg_op(g, "mul.Tensor", "vv", x, rg_number(g, number, rg_rank(x) > 0));
        break;
    case 3:
        y = rg_op(g, "div.Tensor", "vd", x, 1 / number);
        break;
    case 4:
        y = rg_op(g, "div.Scalar", "vd", x, 1 / number);
        break;
    default:
        y = rg_op(g, "mul.Tensor", "vd", x, number);
    }
    return rg_set(g, y, size);
}

tenon_value *rg_plus(rg *g, tenon_value *x, double number) {
    double size = x ? rg_get(g, x) + (number < 0 ? -number : number) : 0;
    tenon_value *y;
    switch (rg_int(g, 0, 5)) {
    case 0:
        y = rg_op(g, "add.Scalar", "vd", x, number);
        break;
    case 1:
        y = rg_op(g, "add.Tensor", "vv", rg_number(g, number, 0), x);
        break;
    case 2:
        y = rg_op(g, "add.Tensor", "vv", x, rg_number(g, number, rg_rank(x) > 0));
        break;
    case 3:
        y = rg_op(g, "sub.Tensor", "vd", x, -number);
        break;
    default:
        y = rg_op(g, "add.Tensor", "vd", x, number);
    }
    return rg_set(g, y, size);
}

tenon_value *rg_mul(rg *g, tenon_value *a, tenon_value *b) {
    double size = a && b ? rg_get(g, a) * rg_get(g, b) : 0;
    bool swap = rg_chance(g, 50);
    return rg_set(g, rg_op(g, "mul.Tensor", "vv", swap ? b : a, swap ? a : b), size);
}

tenon_value *rg_add(rg *g, tenon_value *a, tenon_value *b) {
    double size = a && b ? rg_get(g, a) + rg_get(g, b) : 0;
    bool swap = rg_chance(g, 50);
    return rg_set(g, rg_op(g, "add.Tensor", "vv", swap ? b : a, swap ? a : b), size);
}

tenon_value *rg_leak(rg *g, tenon_value *value) {
    if (value && rg_chance(g, 6))
        rg_push(g, value);
    return value;
}

double rg_off(rg *g, double number) {
    return rg_chance(g, 7) ? number * 1.25 + (number == 0 ? 0.5 : 0) : number;
}

tenon_value *rg_view(rg *g, tenon_value *x, int rank, const int64_t *sizes) {
    static const char *const names[] = {"view", "view", "reshape", "_unsafe_view"};
    return rg_op(g, names[rg_int(g, 0, 3)], "vA", x, rank, sizes);
}

/* ---- Whole graphs ---- */

static void finish(rg *g) {
    int given = 0, want = rg_int(g, 1, 5);
    char name[32];
    /* what nothing uses comes first, the latest before */
    for (int round = 0; round < 2; round++)
        for (int i = g->pool_count - 1; i >= 0 && given < want + 2 * !round; i--) {
            bool unused = tenon_value_use_count(g->pool[i]) == 0;
            if (round == 0 ? !unused : !rg_chance(g, 10))
                continue;
            snprintf(name, sizeof name, "o%d", given++);
            if (tenon_graph_add_output(g->graph, name, tenon_arg_value(g->pool[i])) != TENON_OK)
                abort();
        }
    if (rg_chance(g, 10) && g->input_count && /* an input that is an output */
        tenon_graph_add_output(g->graph, "same",
                               tenon_arg_value(tenon_graph_input(
                                   g->graph, rg_int(g, 0, g->input_count - 1)))) != TENON_OK)
        abort();
    if (rg_chance(g, 5) && g->constant_count &&
        tenon_graph_add_output(g->graph, "weight",
                               tenon_arg_value(tenon_graph_constant(
                                   g->graph, rg_int(g, 0, g->constant_count - 1)))) != TENON_OK)
        abort();
    if (rg_chance(g, 5) && tenon_graph_add_output(g->graph, "none", tenon_arg_none()) != TENON_OK)
        abort();
}

static void make_one(rg *g) {
    const rg_motif *lists[] = {rg_pointwise, rg_products, rg_attention, rg_moves};
    enum { LISTS = sizeof lists / sizeof *lists };
    int total = 0;
    for (int k = 0; k < LISTS; k++)
        for (const rg_motif *m = lists[k]; m->name; m++)
            total += m->weight;
    int at = rg_int(g, 0, total - 1);
    for (int k = 0; k < LISTS; k++)
        for (const rg_motif *m = lists[k]; m->name; m++) {
            at -= m->weight;
            if (at < 0) {
                m->make(g);
                return;
            }
        }
}

static void make(rg *g, const char *name) {
    if (tenon_graph_create(name, &g->graph) != TENON_OK)
        abort();
    g->symbolic = rg_chance(g, 15);
    g->empty = !g->symbolic && rg_chance(g, 5);
    g->large = !g->symbolic && rg_chance(g, 8);
    for (int i = rg_int(g, 1, 2); i > 0; i--)
        rg_push(g, new_input(g, rg_int(g, 1, 4)));
    for (int i = rg_int(g, 1, 7); i > 0; i--)
        make_one(g);
    finish(g);
}

void rg_make(rg *g, uint64_t seed) {
    char name[48];
    *g = (rg){.state = seed * 0x2545f4914f6cdd1du + 1};
    snprintf(name, sizeof name, "seed_%llu", (unsigned long long)seed);
    make(g, name);
}

void rg_make_from(rg *g, const uint8_t *bytes, size_t count) {
    *g = (rg){.state = 1, .bytes = bytes, .byte_count = count};
    make(g, "bytes");
    g->byte_count = 0;
}
