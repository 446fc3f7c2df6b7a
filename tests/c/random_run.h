/* Runs graphs with lists of passes, and compares what they give. */
#ifndef RANDOM_RUN_H
#define RANDOM_RUN_H

#include "core/fail.h"
#include "core/graph.h"
#include "core/tensor.h"
#include "random_graph.h"
#include "run_graph.h"
#include <math.h>
#include <stdio.h>

enum { PASSES = 96, RESULTS = 128, ROUNDS = 2 };

/* ---- What a run gives ---- */

typedef struct result {
    tenon_tensor *items[RESULTS];
    char names[RESULTS][48];
    int count;
} result;

static void clear(result *r) {
    for (int i = 0; i < r->count; i++)
        tenon_tensor_destroy(&r->items[i]);
    r->count = 0;
}

static void keep(result *r, const char *what, const char *name, const tenon_view *view) {
    if (r->count == RESULTS || view->dtype == TENON_DTYPE_NONE)
        return;
    OK(tenon_tensor_create(view->dtype, view->rank, view->shape, &r->items[r->count]));
    OK(tenon_view_copy(tenon_tensor_view(r->items[r->count]), view));
    snprintf(r->names[r->count++], sizeof r->names[0], "%s %s", what, name);
}

static const tenon_tensor *find(const result *r, const char *name) {
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->names[i], name) == 0)
            return r->items[i];
    return NULL;
}

typedef struct variant {
    tenon_backend backend;
    int threads;
    bool symbolic;
    bool outside;               /* the passes run before there is a session */
    bool bfloat16;              /* products are computed in bfloat16 */
    bool verify;                /* partitions are compared with kernels */
    const char *passes[PASSES]; /* in order, without the pinned ones */
    int count;
} variant;

/* One graph, its symbolic form (may be NULL), and what its integer inputs may hold. */
typedef struct subject {
    tenon_graph *graph, *symbolic;
    uint64_t seed;
    int64_t limit[2 * RG_INPUTS];
    const struct subject
        *before; /* other sizes of the same, which a session meets first; or NULL */
} subject;

static void fill_input(const subject *s, int index, const tenon_view *view) {
    uint64_t state = s->seed * 77 + (uint64_t)index;
    for (int64_t i = 0; i < tenon_view_numel(view); i++) {
        uint64_t bits = rg_bits(&state);
        char *at = (char *)view->data + i * (int64_t)tenon_dtype_size(view->dtype);
        int64_t limit = s->limit[index] ? s->limit[index] : 2;
        if (tn_dtype_is_float(view->dtype))
            tn_store_float(at, view->dtype, (double)(bits >> 11) * 0x1p-52 - 1);
        else
            tn_store_int(at, view->dtype, (int64_t)(bits % (uint64_t)limit));
    }
}

/* ---- Running ---- */

/* A list with these passes in this order. Names that end in AGAIN are of a pass that runs twice. */
#define AGAIN "-again"

static tenon_status make_passes(const variant *v, tenon_passes **out) {
    tenon_passes *all = NULL, *passes = NULL;
    OK(tenon_passes_create(&all));
    OK(tenon_passes_create_minimal(&passes));
    tenon_status status = TENON_OK;
    int at = 0;
    for (int i = 0; i < v->count && status == TENON_OK; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s",
                 (int)(strstr(v->passes[i], AGAIN) ? strstr(v->passes[i], AGAIN) - v->passes[i]
                                                   : (long)strlen(v->passes[i])),
                 v->passes[i]);
        tenon_pass pass = *tenon_passes_get(all, tenon_passes_find(all, name));
        if (tenon_passes_find(passes, v->passes[i]) < 0) {
            pass.name = v->passes[i];
            pass.required = false;
            status = tenon_passes_insert(passes, at, &pass);
        }
        at++;
    }
    tenon_passes_destroy(&all);
    *out = passes;
    return status;
}

static tenon_status run_rounds(const tenon_graph *graph, tenon_context *context,
                               tenon_tensor **inputs, result *r) {
    int in = tenon_graph_input_count(graph), out = tenon_graph_output_count(graph);
    tenon_view views[2 * RG_INPUTS], outputs[RESULTS];
    for (int i = 0; i < in; i++)
        views[i] = *tenon_tensor_view(inputs[i]);
    for (int round = 0; round < ROUNDS; round++) {
        char what[32];
        snprintf(what, sizeof what, "run %d output", round);
        memset(outputs, 0, sizeof outputs);
        TN_TRY(tenon_context_run(context, views, in, outputs, out));
        for (int i = 0; i < out; i++)
            keep(r, what, tenon_graph_output_name(graph, i), &outputs[i]);
    }
    for (int i = 0; i < tenon_context_state_count(context); i++) {
        tenon_view view;
        TN_TRY(tenon_context_get_state(context, tenon_context_state_name(context, i), &view));
        keep(r, "state", tenon_context_state_name(context, i), &view);
    }
    for (int i = 0; i < in; i++)
        keep(r, "input", tenon_value_name(tenon_graph_input(graph, i)), &views[i]);
    return TENON_OK;
}

/* Every third graph gets inputs whose memory lies turned around. */
static tenon_tensor *make_input(const subject *s, int index) {
    const tenon_value *x = s->graph->inputs[index];
    tenon_tensor *tensor = NULL, *turned = NULL;
    tenon_view view = {.dtype = x->dtype, .rank = x->rank};
    int64_t back[TENON_MAX_RANK];
    OK(tenon_tensor_create(x->dtype, x->rank, x->shape, &tensor));
    fill_input(s, index, tenon_tensor_view(tensor));
    if (s->seed % 3 != 0 || x->rank < 2)
        return tensor;
    for (int d = 0; d < x->rank; d++)
        back[d] = x->shape[x->rank - 1 - d];
    tn_contiguous_strides(x->rank, back, view.strides);
    for (int d = 0; d < x->rank / 2; d++) {
        int64_t keep = view.strides[d];
        view.strides[d] = view.strides[x->rank - 1 - d];
        view.strides[x->rank - 1 - d] = keep;
    }
    memcpy(view.shape, x->shape, (size_t)x->rank * sizeof *view.shape);
    view.data = calloc((size_t)tenon_view_numel(&view) + 1, tenon_dtype_size(x->dtype));
    OK(tenon_view_copy(&view, tenon_tensor_view(tensor)));
    OK(tenon_tensor_wrap(&view, free, view.data, &turned));
    tenon_tensor_destroy(&tensor);
    return turned;
}

static tenon_status run_session(const subject *s, const tenon_graph *graph, tenon_session *session,
                                result *r) {
    tenon_tensor *inputs[2 * RG_INPUTS];
    tenon_context *context = NULL;
    int count = tenon_graph_input_count(s->graph);
    for (int i = 0; i < count; i++)
        inputs[i] = make_input(s, i);
    tenon_status status = tenon_context_create(session, &context);
    if (status == TENON_OK)
        status = run_rounds(graph, context, inputs, r);
    tenon_context_destroy(&context);
    for (int i = 0; i < count; i++)
        tenon_tensor_destroy(&inputs[i]);
    return status;
}

static tenon_status apply(const subject *s, const tenon_graph *graph, const tenon_passes *list,
                          tenon_graph **out) {
    tenon_view samples[2 * RG_INPUTS];
    int count = tenon_graph_input_count(s->graph);
    for (int i = 0; i < count; i++) {
        const tenon_value *x = s->graph->inputs[i];
        samples[i] = tn_view_make(NULL, x->dtype, x->rank, x->shape);
    }
    OK(tenon_graph_clone(graph, out));
    return tenon_passes_apply(list, out, samples, count);
}

static tenon_status run(const subject *s, const tenon_graph *graph, const variant *v, result *r) {
    tenon_session_options options = {.backend = v->backend,
                                     .threads = v->threads,
                                     .verify = v->verify,
                                     .precision =
                                         v->bfloat16 ? TENON_PRECISION_BF16 : TENON_PRECISION_FP32};
    tenon_passes *list = NULL;
    tenon_session *session = NULL;
    tenon_graph *applied = NULL;
    tenon_status status = make_passes(v, &list);
    if (status == TENON_OK && v->outside) {
        status = apply(s, graph, list, &applied);
        tenon_passes_destroy(&list);
        OK(tenon_passes_create_minimal(&list));
    }
    options.passes = list;
    if (status == TENON_OK)
        status = tenon_session_create(applied ? applied : graph, &options, &session);
    if (status == TENON_OK && s->before && v->symbolic && !applied) {
        result other = {.count = 0};
        status = run_session(s->before, graph, session, &other);
        clear(&other);
    }
    if (status == TENON_OK)
        status = run_session(s, graph, session, r);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&applied);
    tenon_passes_destroy(&list);
    if (status != TENON_OK)
        clear(r);
    return status;
}

/* ---- Noise ---- */

/* How exact results are: by a few roundings, or by one of bfloat16. */
static bool coarse;

static tenon_tensor *noise_like(const tenon_value *value, uint64_t *state) {
    tenon_tensor *tensor = NULL;
    double size = coarse ? 0x1p-7 : value->dtype == TENON_FLOAT64 ? 0x1p-46 : 0x1p-20;
    OK(tenon_tensor_create(value->dtype, value->rank, value->shape, &tensor));
    const tenon_view *view = tenon_tensor_view(tensor);
    for (int64_t i = 0; i < tenon_view_numel(view); i++)
        tn_store_float((char *)view->data + i * (int64_t)tenon_dtype_size(view->dtype), view->dtype,
                       1 + size * ((double)(rg_bits(state) >> 11) * 0x1p-52 - 1));
    return tensor;
}

static void add_noise(tenon_value *value, tenon_node *before, uint64_t *state) {
    tenon_graph *graph = value->graph;
    tenon_value *noise = NULL, *noisy = NULL;
    if (!value->use_count || (value->dtype != TENON_FLOAT32 && value->dtype != TENON_FLOAT64))
        return;
    char name[32];
    snprintf(name, sizeof name, "noise%d", (int)graph->value_count);
    tenon_tensor *tensor = noise_like(value, state);
    OK(tenon_graph_add_constant(graph, name, tensor, &noise));
    tenon_tensor_destroy(&tensor);
    tenon_arg args[] = {tenon_arg_value(noise), tenon_arg_value(noise)};
    OK(tn_graph_emit(graph, before, TN_OP_mul_Tensor, NULL, NULL, args, 2, &noisy));
    OK(tenon_value_replace(value, noisy));
    args[0] = tenon_arg_value(value);
    OK(tn_node_set_arg(noisy->node, 0, &args[0]));
}

/* The graph with noise; it must be functional, since writes would not reach what is multiplied. */
static tenon_graph *noisy(const tenon_graph *from, uint64_t seed) {
    static const variant none = {.count = 0};
    tenon_graph *graph = NULL;
    tenon_passes *list = NULL;
    uint64_t state = seed;
    OK(make_passes(&none, &list));
    OK(tenon_graph_clone(from, &graph));
    if (tenon_passes_apply_phase(list, TENON_PASS_MODEL, &graph, NULL, 0) != TENON_OK) {
        tenon_passes_destroy(&list);
        tenon_graph_destroy(&graph);
        return NULL;
    }
    tenon_passes_destroy(&list);
    tenon_node *first = graph->first;
    int constants = graph->constant_count;
    for (int i = 0; i < graph->input_count; i++)
        add_noise(graph->inputs[i], first, &state);
    for (int i = 0; i < constants; i++)
        add_noise(graph->constants[i], first, &state);
    for (tenon_node *node = first, *next; node; node = next) {
        next = node->next;
        for (int i = 0; i < node->output_count && node->op->kind != TN_OP_VIEW; i++)
            add_noise(node->outputs[i], next, &state);
    }
    return graph;
}

/* ---- Comparing ---- */

typedef struct tally {
    int graphs, refused, outputs, unsteady;
    int runs;
} tally;

static tally counts;

static double element(const tenon_tensor *tensor, int64_t index) {
    const tenon_view *view = tenon_tensor_view(tensor);
    const char *at = (const char *)view->data + index * (int64_t)tenon_dtype_size(view->dtype);
    return tn_dtype_is_float(view->dtype) ? tn_load_float(at, view->dtype)
                                          : (double)tn_load_int(at, view->dtype);
}

/* How far elements of item `index` may move; negative: it is not compared. `onednn`: it sums in
 * float32 where Tenon has wider sums, and its functions are less exact. */
static double tolerance(const result *want, const result *noise, int noises, int index,
                        bool onednn) {
    const tenon_tensor *x = want->items[index];
    double scale = 0, moved = 0;
    int64_t numel = tenon_view_numel(tenon_tensor_view(x));
    bool is_float = tn_dtype_is_float(tenon_tensor_view(x)->dtype);
    bool wide = tenon_tensor_view(x)->dtype == TENON_FLOAT64;
    for (int k = 0; k < noises; k++) {
        const tenon_tensor *y = find(&noise[k], want->names[index]);
        for (int64_t i = 0; y && i < numel; i++) {
            double a = element(x, i), b = element(y, i);
            if (isfinite(a) != isfinite(b) || (!is_float && a != b))
                return -1;
            if (!isfinite(a))
                continue;
            scale = fmax(scale, fabs(a));
            moved = fmax(moved, fabs(a - b));
        }
    }
    if (moved > (coarse ? 5e-2 : 5e-5) * scale)
        return -1;
    if (!is_float)
        return 0;
    if (coarse)
        return 4 * moved + 3e-2 * scale;
    return (onednn ? 32 : 8) * moved +
           (wide     ? 1e-14
            : onednn ? 1e-5
                     : 2e-6) *
               scale +
           (wide ? 1e-300 : 1e-36);
}

/* Whether `got` is `want`; the first difference goes into `text`. */
static bool agrees(const result *want, const result *noise, int noises, const result *got,
                   bool onednn, char *text, size_t capacity) {
    for (int i = 0; i < got->count; i++) {
        int at = 0;
        while (at < want->count && strcmp(want->names[at], got->names[i]) != 0)
            at++;
        if (at == want->count) {
            snprintf(text, capacity, "%s is new", got->names[i]);
            return false;
        }
        const tenon_view *a = tenon_tensor_view(want->items[at]);
        const tenon_view *b = tenon_tensor_view(got->items[i]);
        if (a->dtype != b->dtype || !tn_same_shape(a, b)) {
            snprintf(text, capacity, "%s has another dtype or shape", got->names[i]);
            return false;
        }
        double may = tolerance(want, noise, noises, at, onednn);
        counts.outputs++;
        counts.unsteady += may < 0;
        for (int64_t k = 0; may >= 0 && k < tenon_view_numel(a); k++) {
            double x = element(want->items[at], k), y = element(got->items[i], k);
            if (x == y || fabs(x - y) <= may || (isnan(x) && (isnan(y) || onednn)))
                continue;
            snprintf(text, capacity, "%s, element %lld: %.9g, not %.9g (within %.3g)",
                     got->names[i], (long long)k, y, x, may);
            return false;
        }
    }
    return true;
}

/* ---- Passes ---- */

static tenon_passes *defaults;

static const tenon_pass *known(const char *name) {
    return tenon_passes_get(defaults, tenon_passes_find(defaults, name));
}

static bool is_required(const char *name) {
    const tenon_pass *pass = known(name);
    return pass && pass->required;
}

/* Whether `pass` must come after the pass called `name`. */
static bool comes_after(const tenon_pass *pass, const char *name) {
    size_t length = strlen(name);
    for (const char *at = pass->after; at && (at = strstr(at, name)) != NULL; at += length)
        if ((at == pass->after || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

/* Another order that no pass forbids. Required passes keep theirs. */
static void shuffle_passes(rg *g, variant *v) {
    const char *left[PASSES];
    int count = v->count;
    memcpy(left, v->passes, sizeof left);
    v->count = 0;
    while (count > 0) {
        int k = rg_int(g, 0, count - 1);
        bool free = true;
        for (int i = 0; i < count; i++)
            free &= !(comes_after(known(left[k]), left[i]) ||
                      (i < k && is_required(left[i]) && is_required(left[k])));
        if (!free)
            continue;
        v->passes[v->count++] = left[k];
        count--;
        memmove(left + k, left + k + 1, (size_t)(count - k) * sizeof *left);
    }
}

/* The name of the second run; false when the list has it already. */
static bool again_name(const variant *v, const char *name, const char **out) {
    static char names[PASSES][48];
    int at = tenon_passes_find(defaults, name);
    snprintf(names[at], sizeof names[at], "%s" AGAIN, name);
    for (int i = 0; i < v->count; i++)
        if (v->passes[i] == names[at])
            return false;
    *out = names[at];
    return true;
}

/* All passes of which each optional one is taken with a chance of `percent`. */
static variant draw(rg *g, int percent, bool shuffle) {
    variant v = {.backend = TENON_BACKEND_REFERENCE, .threads = 1};
    for (int i = 0; i < tenon_passes_count(defaults); i++) {
        const char *name = tenon_passes_get(defaults, i)->name;
        if (is_required(name) || rg_chance(g, percent))
            v.passes[v.count++] = name;
    }
    if (shuffle)
        shuffle_passes(g, &v);
    for (int i = 0; i < PASSES / 4 && shuffle && rg_chance(g, 10); i++) {
        /* one that has run runs again, last of all */
        const char *name = v.passes[rg_int(g, 0, v.count - 1)];
        if (!strstr(name, AGAIN) && v.count < PASSES && again_name(&v, name, &v.passes[v.count]))
            v.count++;
    }
    return v;
}

/* ---- One graph ---- */

typedef struct trial {
    result want, noise[2];
    int noises;
} trial;

static tenon_status reference(const subject *s, trial *t) {
    rg none = {.state = 1};
    variant plain = draw(&none, 0, false);
    memset(t, 0, sizeof *t);
    TN_TRY(run(s, s->graph, &plain, &t->want));
    for (; t->noises < 2; t->noises++) {
        tenon_graph *graph = noisy(s->graph, s->seed + (uint64_t)t->noises * 1000003);
        if (!graph)
            return TENON_UNSUPPORTED;
        tenon_status status = run(s, graph, &plain, &t->noise[t->noises]);
        tenon_graph_destroy(&graph);
        if (status != TENON_OK)
            return status;
    }
    return TENON_OK;
}

static void drop_trial(trial *t) {
    clear(&t->want);
    clear(&t->noise[0]);
    clear(&t->noise[1]);
}

static bool passes(const subject *s, const trial *t, const variant *v, char *text, size_t size) {
    result got = {.count = 0};
    const tenon_graph *graph = v->symbolic && s->symbolic ? s->symbolic : s->graph;
    counts.runs++;
    if (run(s, graph, v, &got) != TENON_OK) {
        snprintf(text, size, "%s", tenon_last_error());
        /* Writes through a view whose place depends on a symbol are refused. */
        bool refused = v->symbolic && strstr(text, "pass functionalize") != NULL;
        counts.refused += refused;
        return refused;
    }
    bool same = agrees(&t->want, t->noise, t->noises, &got, v->backend != TENON_BACKEND_REFERENCE,
                       text, size);
    clear(&got);
    return same;
}

#endif
