/* The text form read back: docs/text-form.md. Statements are read one by one into the graph;
 * nothing recurses. */
#include "core/fail.h"
#include "core/graph.h"
#include "core/text.h"
#include "core/text_lex.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    tn_lexer lex;
    tenon_graph *graph;
    int64_t room;     /* bytes that "zeros", "random" and the like may still make */
    tenon_arg *items; /* of the list being read */
    int32_t item_capacity;
} parser;

typedef struct text_type {
    tn_scalar scalar;
    tenon_dtype dtype;
    int32_t rank; /* -1: [...] */
    const char *dims[TENON_MAX_RANK];
    bool channels_last;
} text_type;

#define FAIL(p, ...) tn_lex_fail(&(p)->lex, TENON_INVALID_FILE, __VA_ARGS__)
/* For calls whose messages don't know the line. */
#define TRY_HERE(p, call)                                 \
    do {                                                  \
        tenon_status here_status = (call);                \
        if (here_status != TENON_OK)                      \
            return tn_lex_within(&(p)->lex, here_status); \
    } while (0)

/* ---- Types ---- */

static tenon_status read_dims(parser *p, text_type *out) {
    tn_lexer *lex = &p->lex;
    if (tn_lex_accept(lex, "...")) {
        out->rank = -1;
        return tn_lex_expect(lex, "]");
    }
    out->rank = 0;
    if (tn_lex_accept(lex, "]"))
        return TENON_OK;
    do {
        if (out->rank == TENON_MAX_RANK)
            return FAIL(p, "more than %d dimensions", TENON_MAX_RANK);
        TN_TRY(tn_lex_expression(lex, ",]", &out->dims[out->rank]));
        out->rank++;
    } while (tn_lex_accept(lex, ","));
    return tn_lex_expect(lex, "]");
}

static tenon_status read_type(parser *p, text_type *out) {
    static const char *const scalars[] = {
        [TN_SYMINT] = "symint", [TN_SYMFLOAT] = "symfloat", [TN_SYMBOOL] = "symbool"};
    *out = (text_type){0};
    for (int i = TN_SYMINT; i <= TN_SYMBOOL; i++)
        if (tn_lex_accept_word(&p->lex, scalars[i])) {
            static const tenon_dtype dtypes[] = {[TN_SYMINT] = TENON_INT64,
                                                 [TN_SYMFLOAT] = TENON_FLOAT64,
                                                 [TN_SYMBOOL] = TENON_BOOL};
            out->scalar = (tn_scalar)i;
            out->dtype = dtypes[i];
            if (i == TN_SYMINT && tn_lex_accept(&p->lex, "[")) {
                TN_TRY(tn_lex_expression(&p->lex, "]", &out->dims[0]));
                return tn_lex_expect(&p->lex, "]");
            }
            return TENON_OK;
        }
    if (!tn_lex_accept(&p->lex, "?")) {
        const char *name;
        TN_TRY(tn_lex_word(&p->lex, "a dtype", &name));
        out->dtype = tenon_dtype_from_text(name);
        if (out->dtype == TENON_DTYPE_NONE)
            return FAIL(p, "unknown dtype '%s'", name);
    }
    TN_TRY(tn_lex_expect(&p->lex, "["));
    TN_TRY(read_dims(p, out));
    out->channels_last = tn_lex_accept_word(&p->lex, "channels_last");
    if (out->channels_last && (out->rank < 3 || out->rank > 5))
        return FAIL(p, "channels_last needs rank 3 to 5");
    return TENON_OK;
}

/* Sizes that must be plain numbers. */
static tenon_status plain_sizes(parser *p, const text_type *type, int64_t *shape) {
    if (type->rank < 0 || type->scalar != TN_TENSOR || type->dtype == TENON_DTYPE_NONE)
        return FAIL(p, "a dtype and sizes are needed here");
    for (int d = 0; d < type->rank; d++)
        if (!tn_lex_is_int(type->dims[d], &shape[d]) || shape[d] < 0)
            return FAIL(p, "size '%s' is not a number of at least 0", type->dims[d]);
    return TENON_OK;
}

/* A node's output against what the text says of it. What is not inferred before symbols are bound
 * is taken from the text. */
static tenon_status check_type(parser *p, tenon_value *value, const text_type *type) {
    if (value->node->op->kind == TN_OP_SYM && type->scalar != TN_TENSOR) {
        value->scalar = type->scalar; /* which kind of number it is the operator does not tell */
        value->dtype = type->dtype;
    }
    if (value->scalar != type->scalar)
        return FAIL(p, "%s is %s, the text says otherwise", value->name,
                    value->scalar == TN_TENSOR ? "a tensor" : "a number");
    if (type->scalar != TN_TENSOR)
        return TENON_OK;
    if (value->dtype == TENON_DTYPE_NONE)
        value->dtype = type->dtype;
    if (type->dtype != TENON_DTYPE_NONE && value->dtype != type->dtype)
        return FAIL(p, "%s is %s, the text says %s", value->name, tenon_dtype_text(value->dtype),
                    tenon_dtype_text(type->dtype));
    if (value->rank < 0)
        value->rank = type->rank;
    if (type->rank >= 0 && value->rank != type->rank)
        return FAIL(p, "%s has rank %d, the text says %d", value->name, value->rank, type->rank);
    for (int d = 0; value->shape && d < type->rank; d++) {
        int64_t size;
        if (value->shape[d] >= 0 && tn_lex_is_int(type->dims[d], &size) && size != value->shape[d])
            return FAIL(p, "size %d of %s is %lld, the text says %lld", d, value->name,
                        (long long)value->shape[d], (long long)size);
    }
    value->channels_last = type->channels_last;
    return TENON_OK;
}

/* ---- Constants ---- */

/* splitmix64 (Steele, Lea and Flood 2014): the same numbers on every machine. */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void fill_random(const tenon_view *view, uint64_t seed, double low, double high) {
    int64_t count = tenon_view_numel(view);
    size_t size = tenon_dtype_size(view->dtype);
    for (int64_t i = 0; i < count; i++) {
        double u = (double)(next_random(&seed) >> 11) * 0x1p-53;
        void *at = (char *)view->data + (size_t)i * size;
        if (view->dtype == TENON_BOOL)
            tn_store_int(at, view->dtype, u < 0.5);
        else if (tn_dtype_is_integer(view->dtype))
            tn_store_int(at, view->dtype, (int64_t)floor(low + u * (high - low)));
        else
            tn_store_float(at, view->dtype, low + u * (high - low));
    }
}

/* One number for an element of that dtype: into `element` (room for 8 bytes). */
static tenon_status read_element(parser *p, tenon_dtype dtype, void *element) {
    tn_token token;
    TN_TRY(tn_lex_number(&p->lex, &token));
    bool integer = tn_dtype_is_integer(dtype) || dtype == TENON_BOOL;
    if (integer && token.kind == TN_TOKEN_FLOAT)
        return FAIL(p, "an element of %s must be an integer", tenon_dtype_text(dtype));
    if (dtype == TENON_UINT64 && token.kind == TN_TOKEN_UINT)
        memcpy(element, &token.u, sizeof token.u);
    else if (token.kind == TN_TOKEN_UINT)
        return FAIL(p, "a number does not fit in 64 bits");
    else if (token.kind == TN_TOKEN_FLOAT)
        tn_store_float(element, dtype, token.f);
    else if (integer) {
        tn_store_int(element, dtype, token.i);
        if (tn_load_int(element, dtype) != token.i || (dtype == TENON_UINT64 && token.i < 0))
            return FAIL(p, "%lld does not fit in %s", (long long)token.i, tenon_dtype_text(dtype));
    } else {
        tn_store_float(element, dtype, (double)token.i);
    }
    return TENON_OK;
}

static tenon_status fill_listed(parser *p, const tenon_view *view) {
    int64_t count = tenon_view_numel(view), i = 0;
    size_t size = tenon_dtype_size(view->dtype);
    while (!tn_lex_accept(&p->lex, "}")) {
        if (i > 0)
            TN_TRY(tn_lex_expect(&p->lex, ","));
        if (i == count)
            return FAIL(p, "more than the %lld elements of the shape", (long long)count);
        TN_TRY(read_element(p, view->dtype, (char *)view->data + (size_t)i * size));
        i++;
    }
    if (i != count)
        return FAIL(p, "%lld elements, the shape has %lld", (long long)i, (long long)count);
    return TENON_OK;
}

static void fill_with(const tenon_view *view, const void *element) {
    size_t size = tenon_dtype_size(view->dtype);
    int64_t count = tenon_view_numel(view);
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)view->data + (size_t)i * size, element, size);
}

/* random(seed), random(seed, low, high): floats in [low, high), integers from low to below high. */
static tenon_status read_random(parser *p, const tenon_view *view) {
    tn_token seed, bounds[2];
    bool is_int = tn_dtype_is_integer(view->dtype);
    double low = is_int ? 0 : -1, high = is_int ? 10 : 1;
    TN_TRY(tn_lex_expect(&p->lex, "("));
    TN_TRY(tn_lex_number(&p->lex, &seed));
    if (seed.kind != TN_TOKEN_INT)
        return FAIL(p, "the seed must be an integer");
    if (tn_lex_accept(&p->lex, ",")) {
        TN_TRY(tn_lex_number(&p->lex, &bounds[0]));
        TN_TRY(tn_lex_expect(&p->lex, ","));
        TN_TRY(tn_lex_number(&p->lex, &bounds[1]));
        low = tn_token_float(&bounds[0]);
        high = tn_token_float(&bounds[1]);
        if (!(low <= high) || !(high - low < 1e300))
            return FAIL(p, "random() needs finite bounds in order");
        if (is_int && !(low >= -0x1p62 && high <= 0x1p62))
            return FAIL(p, "random() of integers needs bounds within 2**62");
    }
    TN_TRY(tn_lex_expect(&p->lex, ")"));
    fill_random(view, (uint64_t)seed.i, low, high);
    return TENON_OK;
}

static tenon_status read_elements(parser *p, const tenon_view *view) {
    char element[8] = {0};
    const char *word;
    if (tn_lex_accept(&p->lex, "{"))
        return fill_listed(p, view);
    if (tn_lex_accept(&p->lex, "..."))
        return FAIL(p, "the elements were left out when this text was printed");
    TN_TRY(tn_lex_word(&p->lex, "'{', zeros, ones, full or random", &word));
    if (strcmp(word, "zeros") == 0)
        return TENON_OK; /* as created */
    if (strcmp(word, "random") == 0)
        return read_random(p, view);
    if (strcmp(word, "ones") == 0) {
        tn_store_int(element, view->dtype, 1);
    } else if (strcmp(word, "full") == 0) {
        TN_TRY(tn_lex_expect(&p->lex, "("));
        TN_TRY(read_element(p, view->dtype, element));
        TN_TRY(tn_lex_expect(&p->lex, ")"));
    } else {
        return FAIL(p, "'%s' is not '{', zeros, ones, full or random", word);
    }
    fill_with(view, element);
    return TENON_OK;
}

/* Memory that the text cannot justify by its own length is bounded. */
static tenon_status room_for(parser *p, const text_type *type, const int64_t *shape) {
    int64_t count = tn_numel(type->rank, shape), bytes;
    if (count < 0 || !tn_mul(count, (int64_t)tenon_dtype_size(type->dtype), &bytes))
        return FAIL(p, "the sizes overflow");
    if (tn_lex_peek(&p->lex, "{"))
        return count <= tn_lex_left(&p->lex) ? TENON_OK
                                             : FAIL(p, "the shape has more elements than the text");
    if (bytes > p->room)
        return tn_lex_fail(&p->lex, TENON_LIMIT,
                           "a constant of %lld bytes that the text does not list, more than "
                           "max_unpacked_bytes leaves, %lld" TN_UNPACKED_HOW,
                           (long long)bytes, (long long)p->room);
    p->room -= bytes;
    return TENON_OK;
}

static tenon_status read_constant(parser *p, bool buffer) {
    const char *name;
    text_type type;
    int64_t shape[TENON_MAX_RANK];
    tenon_tensor *tensor = NULL;
    tenon_value *value;
    TN_TRY(tn_lex_value_name(&p->lex, &name));
    TN_TRY(tn_lex_expect(&p->lex, ":"));
    TN_TRY(read_type(p, &type));
    TN_TRY(plain_sizes(p, &type, shape));
    TN_TRY(tn_lex_expect(&p->lex, "="));
    TN_TRY(room_for(p, &type, shape));
    TRY_HERE(p, tenon_tensor_create(type.dtype, type.rank, shape, &tensor));
    tenon_status status = read_elements(p, tenon_tensor_view(tensor));
    if (status == TENON_OK) {
        status = buffer ? tenon_graph_add_buffer(p->graph, name, tensor, &value)
                        : tenon_graph_add_constant(p->graph, name, tensor, &value);
        if (status != TENON_OK)
            tn_lex_within(&p->lex, status);
        else
            value->channels_last = type.channels_last;
    }
    tenon_tensor_destroy(&tensor);
    return status;
}

/* ---- Inputs, symbols ---- */

static tenon_status read_input(parser *p) {
    const char *name;
    text_type type;
    tenon_value *value;
    TN_TRY(tn_lex_value_name(&p->lex, &name));
    TN_TRY(tn_lex_expect(&p->lex, ":"));
    TN_TRY(read_type(p, &type));
    if (type.scalar != TN_TENSOR) {
        const tn_expr *expr = NULL;
        if (type.dims[0])
            TRY_HERE(p, tn_expr_parse(&p->graph->arena, type.dims[0], tn_graph_symbol_fn, p->graph,
                                      &expr));
        TRY_HERE(p, tn_graph_add_input(p->graph, name, type.scalar, type.dtype, 0, NULL,
                                       expr ? &expr : NULL, &value));
        return TENON_OK;
    }
    if (type.rank < 0 || type.dtype == TENON_DTYPE_NONE)
        return FAIL(p, "an input needs a dtype and sizes");
    TRY_HERE(p, tenon_graph_add_input(p->graph, name, type.dtype, type.rank, type.dims, &value));
    value->channels_last = type.channels_last;
    return TENON_OK;
}

static tenon_status read_bound(parser *p, int64_t *out) {
    tn_token token;
    TN_TRY(tn_lex_number(&p->lex, &token));
    if (token.kind == TN_TOKEN_INT)
        *out = token.i;
    else if (token.kind == TN_TOKEN_FLOAT && token.f > 1e300)
        *out = INT64_MAX;
    else if (token.kind == TN_TOKEN_FLOAT && token.f < -1e300)
        *out = INT64_MIN;
    else
        return FAIL(p, "a bound must be an integer, inf or -inf");
    return TENON_OK;
}

static tenon_status read_range(parser *p, int64_t *min, int64_t *max) {
    TN_TRY(tn_lex_expect(&p->lex, "["));
    TN_TRY(read_bound(p, min));
    TN_TRY(tn_lex_expect(&p->lex, ","));
    TN_TRY(read_bound(p, max));
    TN_TRY(tn_lex_expect(&p->lex, "]"));
    return *min <= *max ? TENON_OK : FAIL(p, "the range is empty");
}

static tenon_status read_symbol(parser *p) {
    const char *name;
    int64_t min, max;
    int index;
    TN_TRY(tn_lex_word(&p->lex, "a symbol's name", &name));
    if (!tn_lex_accept_word(&p->lex, "in"))
        return FAIL(p, "'in' is missing");
    TN_TRY(read_range(p, &min, &max));
    TRY_HERE(p, tn_graph_add_symbol(p->graph, name, min, max, &index));
    return TENON_OK;
}

static tenon_status read_constraint(parser *p) {
    const char *text;
    const tn_expr *expr;
    int64_t min, max;
    TN_TRY(tn_lex_expression(&p->lex, "[", &text));
    size_t length = strlen(text);
    if (length < 3 || strcmp(text + length - 3, " in") != 0)
        return FAIL(p, "'in' is missing");
    TN_TRY(tn_lex_copy(&p->lex, text, length - 3, &text));
    TN_TRY(read_range(p, &min, &max));
    TRY_HERE(p, tn_expr_parse(&p->graph->arena, text, tn_graph_symbol_fn, p->graph, &expr));
    TRY_HERE(p, tn_graph_add_constraint(p->graph, expr, min, max));
    return TENON_OK;
}

/* ---- Arguments ---- */

static tenon_status find_value(parser *p, const char *name, tenon_value **out) {
    *out = tenon_graph_find_value(p->graph, name);
    return *out ? TENON_OK : FAIL(p, "no value %%%s is known here", name);
}

/* One argument that is not a list. */
static tenon_status read_single(parser *p, tenon_arg *out) {
    tenon_value *value;
    const char *name;
    if (!tn_lex_peek(&p->lex, "%"))
        return tn_lex_literal(&p->lex, out);
    TN_TRY(tn_lex_value_name(&p->lex, &name));
    TN_TRY(find_value(p, name, &value));
    *out = tenon_arg_value(value);
    return TENON_OK;
}

static tenon_status read_list(parser *p, tenon_arg *out) {
    int32_t count = 0;
    while (!tn_lex_accept(&p->lex, "]")) {
        if (count > 0)
            TN_TRY(tn_lex_expect(&p->lex, ","));
        if (tn_lex_peek(&p->lex, "["))
            return FAIL(p, "a list cannot hold a list");
        if (count == p->item_capacity) {
            int32_t capacity = count ? count * 2 : 16;
            tenon_arg *items = realloc(p->items, (size_t)capacity * sizeof *items);
            if (!items)
                return tn_no_memory();
            p->items = items;
            p->item_capacity = capacity;
        }
        TN_TRY(read_single(p, &p->items[count]));
        count++;
    }
    tenon_arg *items = tn_arena_array(&p->lex.scratch, (size_t)count + 1, sizeof *items);
    if (!items)
        return tn_no_memory();
    if (count > 0)
        memcpy(items, p->items, (size_t)count * sizeof *items);
    *out = tenon_arg_list(items, count);
    return TENON_OK;
}

static tenon_status read_arg(parser *p, tenon_arg *out) {
    return tn_lex_accept(&p->lex, "[") ? read_list(p, out) : read_single(p, out);
}

static tenon_status read_args(parser *p, const tn_op *op, tenon_arg *args) {
    int position = 0, index;
    bool named = false;
    for (bool first = true; !tn_lex_accept(&p->lex, ")"); first = false) {
        if (!first)
            TN_TRY(tn_lex_expect(&p->lex, ","));
        TN_TRY(tn_lex_arg_place(&p->lex, op, &position, &named, &index));
        if (args[index].kind != TENON_ARG_DEFAULT)
            return FAIL(p, "argument '%s' is given twice", op->params[index].name);
        TN_TRY(read_arg(p, &args[index]));
    }
    return TENON_OK;
}

/* ---- Nodes ---- */

typedef struct text_target {
    const char *name;
    bool has_type;
    text_type type;
    struct text_target *next;
} text_target;

static tenon_status read_targets(parser *p, text_target **out, int *count) {
    text_target **link = out;
    *out = NULL;
    *count = 0;
    if (!tn_lex_peek(&p->lex, "%"))
        return TENON_OK;
    do {
        text_target *t = tn_arena_alloc(&p->lex.scratch, sizeof *t);
        if (!t)
            return tn_no_memory();
        TN_TRY(tn_lex_value_name(&p->lex, &t->name));
        t->has_type = tn_lex_accept(&p->lex, ":");
        if (t->has_type)
            TN_TRY(read_type(p, &t->type));
        *link = t;
        link = &t->next;
        ++*count;
    } while (tn_lex_accept(&p->lex, ","));
    return tn_lex_expect(&p->lex, "=");
}

static tenon_status name_outputs(parser *p, tenon_node *node, const text_target *targets,
                                 int count) {
    if (node->output_count != count)
        return FAIL(p, "%s has %d outputs, the text names %d", node->op->name, node->output_count,
                    count);
    for (int i = 0; i < count; i++, targets = targets->next) {
        tenon_value *value = node->outputs[i];
        if (strcmp(value->name, targets->name) != 0) {
            if (tenon_graph_find_value(p->graph, targets->name))
                return FAIL(p, "two values are named '%s'", targets->name);
            TRY_HERE(p, tn_value_rename(value, targets->name));
        }
        if (targets->has_type)
            TN_TRY(check_type(p, value, &targets->type));
    }
    return TENON_OK;
}

static tenon_status read_node(parser *p) {
    text_target *targets;
    int count;
    const char *name, *node_name = NULL, *module = NULL, *trace = NULL;
    tenon_node *node;
    TN_TRY(read_targets(p, &targets, &count));
    TN_TRY(tn_lex_word(&p->lex, "an operator or a statement", &name));
    const tn_op *op = tn_op_find(name);
    if (!op && tn_op_refused(name))
        return tn_lex_fail(&p->lex, TENON_UNSUPPORTED, "%s: %s", name, tn_op_refused(name));
    if (!op)
        return tn_lex_fail(&p->lex, TENON_UNKNOWN_OP, "unknown operator '%s'", name);
    TN_TRY(tn_lex_expect(&p->lex, "("));
    tenon_arg *args = tn_arena_array(&p->lex.scratch, (size_t)op->param_count + 1, sizeof *args);
    if (!args)
        return tn_no_memory();
    TN_TRY(read_args(p, op, args));
    if (tn_lex_accept_word(&p->lex, "name"))
        TN_TRY(tn_lex_string(&p->lex, &node_name));
    if (tn_lex_accept_word(&p->lex, "in"))
        TN_TRY(tn_lex_string(&p->lex, &module));
    if (tn_lex_accept_word(&p->lex, "trace"))
        TN_TRY(tn_lex_string(&p->lex, &trace));
    if (!node_name && targets)
        node_name = targets->name;
    TRY_HERE(p, tn_graph_add(p->graph, NULL, op, node_name, args, op->param_count,
                             op->list_return ? count : -1, &node));
    if (module || trace)
        node->source = tn_graph_source(p->graph, module ? module : "", trace ? trace : "");
    return name_outputs(p, node, targets, count);
}

static tenon_status read_output(parser *p) {
    const char *name;
    tenon_arg arg;
    TN_TRY(tn_lex_string(&p->lex, &name));
    TN_TRY(tn_lex_expect(&p->lex, "="));
    TN_TRY(read_single(p, &arg));
    TRY_HERE(p, tenon_graph_add_output(p->graph, name, arg));
    return TENON_OK;
}

static tenon_status read_write(parser *p) {
    const char *name;
    tenon_value *target, *value;
    TN_TRY(tn_lex_value_name(&p->lex, &name));
    TN_TRY(find_value(p, name, &target));
    TN_TRY(tn_lex_expect(&p->lex, "<-"));
    TN_TRY(tn_lex_value_name(&p->lex, &name));
    TN_TRY(find_value(p, name, &value));
    TRY_HERE(p, tenon_graph_add_write(p->graph, target, value));
    return TENON_OK;
}

static tenon_status read_statement(parser *p) {
    tn_lexer *lex = &p->lex;
    if (tn_lex_accept_word(lex, "input"))
        return read_input(p);
    if (tn_lex_accept_word(lex, "const"))
        return read_constant(p, false);
    if (tn_lex_accept_word(lex, "buffer"))
        return read_constant(p, true);
    if (tn_lex_accept_word(lex, "symbol"))
        return read_symbol(p);
    if (tn_lex_accept_word(lex, "constraint"))
        return read_constraint(p);
    if (tn_lex_accept_word(lex, "output"))
        return read_output(p);
    if (tn_lex_accept_word(lex, "write"))
        return read_write(p);
    return read_node(p);
}

static tenon_status read_graph(parser *p) {
    size_t length = (size_t)(p->lex.end - p->lex.at), good = tn_utf8_end(p->lex.at, length);
    if (good < length)
        return tn_fail(TENON_INVALID_FILE, "%s: not UTF-8 at byte %zu", p->lex.source, good);
    const char *name = NULL;
    if (!tn_lex_accept_word(&p->lex, "graph"))
        return FAIL(p, "a graph starts with 'graph NAME {'");
    if (tn_lex_peek(&p->lex, "\""))
        TN_TRY(tn_lex_string(&p->lex, &name));
    else if (!tn_lex_peek(&p->lex, "{"))
        TN_TRY(tn_lex_word(&p->lex, "a name", &name));
    TRY_HERE(p, tenon_graph_create(name, &p->graph));
    TN_TRY(tn_lex_expect(&p->lex, "{"));
    while (!tn_lex_accept(&p->lex, "}"))
        TN_TRY(read_statement(p));
    if (!tn_lex_at_end(&p->lex))
        return FAIL(p, "text after the graph's '}'");
    TRY_HERE(p, tenon_graph_verify(p->graph));
    return TENON_OK;
}

#define UNPACKED_RATIO 100
#define UNPACKED_FREE ((int64_t)32 << 20)

int64_t tn_unpacked_room(int64_t max_unpacked, size_t file_size) {
    int64_t room = max_unpacked;
    if (room == 0 &&
        (!tn_mul((int64_t)file_size, UNPACKED_RATIO, &room) || !tn_add(room, UNPACKED_FREE, &room)))
        room = INT64_MAX;
    return room;
}

tenon_status tenon_graph_parse(const char *text, const char *source, tenon_graph **out) {
    return tn_graph_parse(text, source, 0, out);
}

tenon_status tn_graph_parse(const char *text, const char *source, int64_t max_unpacked,
                            tenon_graph **out) {
    size_t length = strlen(text);
    parser p = {
        .lex = {.source = source ? source : "text", .at = text, .end = text + length, .line = 1},
        .room = tn_unpacked_room(max_unpacked, length)};
    tenon_status status = read_graph(&p);
    free(p.items);
    tn_arena_free(&p.lex.scratch);
    if (status != TENON_OK) {
        tenon_graph_destroy(&p.graph);
        return status;
    }
    p.graph->file_bytes = (int64_t)length;
    *out = p.graph;
    return TENON_OK;
}
