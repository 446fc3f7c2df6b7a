/* Random inputs: seeded, and such that integers stay within the tables that they index. */
#include "cli.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double uniform(uint64_t *state) {
    return ((double)(next_random(state) >> 11) + 0.5) * 0x1p-53;
}

/* Box-Muller. */
static double normal(uint64_t *state) {
    double a = uniform(state), b = uniform(state);
    return sqrt(-2 * log(a)) * cos(6.283185307179586 * b);
}

/* ---- What integers may be ---- */

#define FREE INT64_MAX

/* By value, a bound that its elements must stay below; in an open-addressed table of addresses. */
typedef struct limits {
    struct limit {
        const tenon_value *value;
        int64_t below;
    } * slots;
    size_t capacity, used;
} limits;

static struct limit *find_limit(const limits *l, const tenon_value *value) {
    size_t at = (size_t)(((uintptr_t)value >> 4) * 0x9e3779b97f4a7c15u) % l->capacity;
    while (l->slots[at].value && l->slots[at].value != value)
        at = (at + 1) % l->capacity;
    return &l->slots[at];
}

static int64_t get_limit(const limits *l, const tenon_value *value) {
    const struct limit *slot = find_limit(l, value);
    return slot->value ? slot->below : FREE;
}

/* False when memory is out. */
static bool lower_limit(limits *l, const tenon_value *value, int64_t below) {
    if (l->used * 2 >= l->capacity) {
        limits bigger = {calloc(l->capacity * 2, sizeof *l->slots), l->capacity * 2, 0};
        if (!bigger.slots)
            return false;
        for (size_t i = 0; i < l->capacity; i++) {
            if (l->slots[i].value) {
                *find_limit(&bigger, l->slots[i].value) = l->slots[i];
                bigger.used++;
            }
        }
        free(l->slots);
        *l = bigger;
    }
    struct limit *slot = find_limit(l, value);
    if (!slot->value) {
        *slot = (struct limit){value, below};
        l->used++;
    }
    if (below < slot->below)
        slot->below = below;
    return true;
}

/* The largest element of an integer constant or literal; 0 when it is neither. */
static int64_t largest(tenon_arg arg) {
    if (arg.kind == TENON_ARG_INT)
        return arg.as.i > 0 ? arg.as.i : 0;
    const tenon_tensor *tensor =
        arg.kind == TENON_ARG_VALUE ? tenon_value_tensor(arg.as.value) : NULL;
    if (!tensor || tenon_value_get_kind(arg.as.value) != TENON_VALUE_CONSTANT)
        return 0;
    const tenon_view *view = tenon_tensor_view(tensor);
    tenon_tensor *copy;
    int64_t most = 0;
    if (tenon_tensor_create(TENON_INT64, view->rank, view->shape, &copy) != TENON_OK)
        return 0;
    const tenon_view *to = tenon_tensor_view(copy);
    if (tenon_view_copy(to, view) == TENON_OK) {
        for (int64_t i = 0; i < tenon_view_numel(to); i++)
            most = ((int64_t *)to->data)[i] > most ? ((int64_t *)to->data)[i] : most;
    }
    tenon_tensor_destroy(&copy);
    return most;
}

static bool op_is(const tenon_node *node, const char *name) {
    const char *op = tenon_node_op(node);
    size_t length = strlen(name);
    return strncmp(op, "aten.", 5) == 0 && strncmp(op + 5, name, length) == 0 &&
           (op[5 + length] == 0 || op[5 + length] == '.' || op[5 + length] == '_');
}

/* Ops whose output holds elements of their first argument only. */
static bool moves_elements(const tenon_node *node) {
    static const char *const names[] = {
        "to",   "_to_copy", "clone",           "cat",   "stack", "index_select", "gather", "repeat",
        "flip", "roll",     "constant_pad_nd", "clamp", "where"};
    tenon_op_info info;
    if (tenon_op_find(tenon_node_op(node), &info) && info.is_view)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (op_is(node, names[i]))
            return true;
    }
    return false;
}

static tenon_value *value_of(tenon_arg arg) {
    return arg.kind == TENON_ARG_VALUE ? arg.as.value : NULL;
}

/* The size of dimension `dim` of a value, or FREE. */
static int64_t size_of(tenon_arg tensor, tenon_arg dim) {
    const tenon_value *value = value_of(tensor);
    if (!value || dim.kind != TENON_ARG_INT || tenon_value_rank(value) <= 0)
        return FREE;
    int64_t d = dim.as.i < 0 ? dim.as.i + tenon_value_rank(value) : dim.as.i;
    int64_t size = tenon_value_size(value, (int)d);
    return size < 0 ? FREE : size;
}

static bool limit_indices(limits *l, const tenon_node *node) {
    tenon_value *index = NULL;
    int64_t below = FREE;
    if (op_is(node, "embedding")) {
        index = value_of(tenon_node_arg_by_name(node, "indices"));
        below = size_of(tenon_node_arg_by_name(node, "weight"), tenon_arg_int(0));
    } else if (op_is(node, "index_select") || op_is(node, "gather")) {
        index = value_of(tenon_node_arg_by_name(node, "index"));
        below = size_of(tenon_node_arg_by_name(node, "self"), tenon_node_arg_by_name(node, "dim"));
    } else if (op_is(node, "index")) {
        tenon_arg indices = tenon_node_arg_by_name(node, "indices");
        for (int i = 0; indices.kind == TENON_ARG_LIST && i < indices.count; i++) {
            below = size_of(tenon_node_arg_by_name(node, "self"), tenon_arg_int(i));
            if (value_of(indices.as.list[i]) && below != FREE &&
                !lower_limit(l, indices.as.list[i].as.value, below))
                return false;
        }
        return true;
    }
    return !index || below == FREE || lower_limit(l, index, below);
}

/* What the outputs of a node may be tells what its first argument may be. */
static bool limit_inputs(limits *l, const tenon_node *node) {
    int64_t below = FREE;
    for (int i = 0; i < tenon_node_output_count(node); i++) {
        int64_t limit = get_limit(l, tenon_node_output(node, i));
        below = limit < below ? limit : below;
    }
    if (below == FREE || tenon_node_arg_count(node) == 0)
        return true;
    if (op_is(node, "add")) {
        tenon_arg a = tenon_node_arg(node, 0), b = tenon_node_arg(node, 1);
        int64_t for_a = below - largest(b), for_b = below - largest(a);
        return (!value_of(a) || lower_limit(l, a.as.value, for_a > 1 ? for_a : 1)) &&
               (!value_of(b) || lower_limit(l, b.as.value, for_b > 1 ? for_b : 1));
    }
    if (!moves_elements(node))
        return true;
    for (int i = 0; i < tenon_node_arg_count(node); i++) {
        tenon_arg arg = tenon_node_arg(node, i);
        int items = arg.kind == TENON_ARG_LIST ? arg.count : 1;
        for (int j = 0; j < items; j++) {
            tenon_value *value = value_of(arg.kind == TENON_ARG_LIST ? arg.as.list[j] : arg);
            if (value && !lower_limit(l, value, below))
                return false;
        }
    }
    return true;
}

/* Integers of `input` must stay below this; FREE when nothing indexes with them, -1 when memory is
 * out. */
static int64_t input_limit(const tenon_graph *graph, const tenon_value *input) {
    limits l = {calloc(64, sizeof *l.slots), 64, 0};
    bool done = l.slots != NULL;
    const tenon_node *last = NULL;
    for (const tenon_node *n = tenon_graph_first_node(graph); n; n = tenon_node_next(n))
        last = n;
    for (; last && done; last = tenon_node_previous(last))
        done = limit_inputs(&l, last) && limit_indices(&l, last);
    int64_t below = done ? get_limit(&l, input) : -1;
    free(l.slots);
    return below;
}

/* ---- Tensors ---- */

static bool is_float(tenon_dtype dtype) {
    return dtype == TENON_FLOAT16 || dtype == TENON_BFLOAT16 || dtype == TENON_FLOAT32 ||
           dtype == TENON_FLOAT64;
}

int cli_random(const tenon_graph *graph, int index, const tenon_view *shape, uint64_t seed,
               tenon_tensor **out) {
    bool floats = is_float(shape->dtype);
    tenon_tensor *wide, *made;
    int64_t below = 2;
    if (!floats && shape->dtype != TENON_BOOL) {
        below = input_limit(graph, tenon_graph_input(graph, index));
        if (below < 0)
            return cli_error(CLI_FAILED, "out of memory");
        /* Nothing says what it means: masks and types are the usual ones, and take 0 and 1. */
        below = below == FREE ? 2 : below < 1 ? 1 : below;
    }
    if (tenon_tensor_create(shape->dtype, shape->rank, shape->shape, &made) != TENON_OK)
        return cli_failed();
    if (tenon_tensor_create(floats ? TENON_FLOAT64 : TENON_INT64, shape->rank, shape->shape,
                            &wide) != TENON_OK) {
        tenon_tensor_destroy(&made);
        return cli_failed();
    }
    uint64_t state = seed * 0x100000001b3u + (uint64_t)index;
    const tenon_view *view = tenon_tensor_view(wide);
    for (int64_t i = 0; i < tenon_view_numel(view); i++) {
        if (floats)
            ((double *)view->data)[i] = normal(&state);
        else
            ((int64_t *)view->data)[i] = (int64_t)(next_random(&state) % (uint64_t)below);
    }
    tenon_status status = tenon_view_copy(tenon_tensor_view(made), view);
    tenon_tensor_destroy(&wide);
    if (status != TENON_OK) {
        tenon_tensor_destroy(&made);
        return cli_failed();
    }
    *out = made;
    return CLI_OK;
}
