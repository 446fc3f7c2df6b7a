/* Models, and what they give. */
#include "soak.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

model models[MAX_MODELS];
int model_count;

/* BF16 is emulated where the CPU has no such instructions. */
const variant variants[] = {
    {"auto, 1 thread", {.threads = 1}, 1e-4},
    {"auto, 2 threads", {.threads = 2}, 1e-4},
    {"onednn, 3 threads", {.threads = 3, .backend = TENON_BACKEND_ONEDNN}, 1e-4},
    {"reference, 2 threads", {.threads = 2, .backend = TENON_BACKEND_REFERENCE}, 1e-4},
    {"bfloat16, 2 threads",
     {.threads = 2,
      .precision = TENON_PRECISION_BF16,
      .bf16_fallback = TENON_BF16_FALLBACK_EMULATE},
     0.1},
    {"split ops, denormals, 1 thread",
     {.threads = 1, .split_ops = true, .keep_denormals = true},
     1e-4},
};
const int variant_count = (int)(sizeof variants / sizeof *variants);

static const struct {
    const char *name, *text; /* or no text, and a file */
    bool rows;
} known[] = {
    {"examples/digits/digits.pt2", NULL, true},
    {"images",
     "graph net {\n"
     "  symbol s0 in [1, 64]\n"
     "  input %x: float32[s0, 3, 12, 12]\n"
     "  const %w: float32[16, 3, 3, 3] = random(1)\n"
     "  const %v: float32[32, 16, 3, 3] = random(2)\n"
     "  const %u: float32[10, 32] = random(3)\n"
     "  %a = aten.conv2d(%x, %w, none, [1, 1], [1, 1])\n"
     "  %b = aten.relu(%a)\n"
     "  %c = aten.conv2d(%b, %v, none, [2, 2], [1, 1])\n"
     "  %d = aten.relu(%c)\n"
     "  %e = aten.mean.dim(%d, [2, 3])\n"
     "  %f = aten.linear(%e, %u)\n"
     "  %y = aten.softmax.int(%f, 1)\n"
     "  output \"y\" = %y\n"
     "}\n",
     true},
    {"tokens",
     "graph encoder {\n"
     "  symbol s0 in [1, 64]\n"
     "  input %x: float32[2, s0, 64]\n"
     "  const %v: float32[192, 64] = random(1)\n"
     "  const %w: float32[128, 64] = random(2)\n"
     "  const %u: float32[64, 128] = random(3)\n"
     "  const %k: float32[64] = random(4)\n"
     "  %n = aten.layer_norm(%x, [64], %k)\n"
     "  %a = aten.linear(%n, %v)\n"
     "  %b, %c, %d = aten.split.Tensor(%a, 64, 2)\n"
     "  %q = aten.unflatten.int(%b, 2, [4, 16])\n"
     "  %r = aten.unflatten.int(%c, 2, [4, 16])\n"
     "  %s = aten.unflatten.int(%d, 2, [4, 16])\n"
     "  %qt = aten.transpose.int(%q, 1, 2)\n"
     "  %rt = aten.transpose.int(%r, 1, 2)\n"
     "  %st = aten.transpose.int(%s, 1, 2)\n"
     "  %t = aten.scaled_dot_product_attention(%qt, %rt, %st)\n"
     "  %tt = aten.transpose.int(%t, 1, 2)\n"
     "  %m = aten.flatten.using_ints(%tt, 2, 3)\n"
     "  %h = aten.add.Tensor(%x, %m)\n"
     "  %f = aten.linear(%h, %w)\n"
     "  %g = aten.gelu(%f)\n"
     "  %o = aten.linear(%g, %u)\n"
     "  %y = aten.add.Tensor(%h, %o)\n"
     "  %z = aten.cumsum(%y, 1)\n"
     "  output \"y\" = %y\n"
     "  output \"z\" = %z\n"
     "}\n",
     false},
    {"tests/data/pt2-cases/convnet_raw.pt2", NULL, false},
    {"tests/data/pt2-cases/dyn_two.pt2", NULL, false},
    {"tests/data/pt2-cases/dyn_derived_raw.pt2", NULL, false},
    {"tests/data/pt2-cases/sdpa_mask_core.pt2", NULL, false},
    {"tests/data/pt2-cases/lstm.pt2", NULL, false},
    {"tests/data/pt2-cases/counter_raw.pt2", NULL, false},
    {"tests/data/pt2-cases/gru_cell_core.pt2", NULL, false},
    {"tests/data/pt2-cases/norms.pt2", NULL, false},
    {"tests/data/pt2-cases/convs.pt2", NULL, false},
    {"tests/data/pt2-cases/pools.pt2", NULL, false},
    {"tests/data/pt2-cases/autocast.pt2", NULL, false},
    {"tests/data/pt2-cases/input_mut_raw.pt2", NULL, false},
    {"tests/data/pt2-cases/inplace_views_raw.pt2", NULL, false},
    {"tests/data/pt2-cases/tied_embedding.pt2", NULL, false},
    {"tests/data/pt2-extra/branches_raw.pt2", NULL, false},
};

/* ---- Inputs ---- */

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t splitmix(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static tenon_tensor *copy_of(const tenon_view *view, tenon_dtype dtype) {
    tenon_tensor *copy = NULL;
    CHECK(tenon_tensor_create(dtype, view->rank, view->shape, &copy));
    CHECK(tenon_view_copy(tenon_tensor_view(copy), view));
    return copy;
}

/* Floats from -1 to 1; integers are 0 and 1, which any table can be indexed with. */
static tenon_tensor *random_tensor(const tenon_view *shape, uint64_t seed) {
    tenon_tensor *wide = NULL;
    CHECK(tenon_tensor_create(TENON_FLOAT64, shape->rank, shape->shape, &wide));
    const tenon_view *view = tenon_tensor_view(wide);
    bool floats = shape->dtype >= TENON_FLOAT16;
    for (int64_t i = 0; i < tenon_view_numel(view); i++) {
        uint64_t bits = splitmix(&seed) >> 11;
        ((double *)view->data)[i] = floats ? (double)bits * 0x1p-52 - 1 : (double)(bits & 1);
    }
    tenon_tensor *made = copy_of(view, shape->dtype);
    tenon_tensor_destroy(&wide);
    return made;
}

/* Set `set` has larger symbols than the one before, as far as their ranges go. */
static void make_inputs(const model *m, int set, sample *s) {
    int64_t symbols[MAX_VALUES] = {0};
    int count = tenon_graph_symbol_count(m->graph);
    for (int i = 0; i < count && i < MAX_VALUES; i++) {
        int64_t min, max;
        tenon_graph_symbol(m->graph, i, NULL, &min, &max);
        symbols[i] = (min > 1 ? min : 1) + 3 * set + i;
        symbols[i] = symbols[i] > max ? max : symbols[i];
    }
    for (int i = 0; i < m->inputs; i++) {
        const tenon_value *input = tenon_graph_input(m->graph, i);
        tenon_view shape = {.dtype = tenon_value_dtype(input), .rank = tenon_value_rank(input)};
        for (int d = 0; d < shape.rank; d++)
            CHECK(tenon_value_size_at(input, d, symbols, &shape.shape[d]));
        s->inputs[i] = random_tensor(&shape, (uint64_t)(set * 100 + i));
    }
}

/* ---- Comparing ---- */

static bool near(const tenon_view *got, const tenon_view *want, double tolerance) {
    tenon_tensor *a = copy_of(got, TENON_FLOAT64), *b = copy_of(want, TENON_FLOAT64);
    const double *x = tenon_tensor_view(a)->data, *y = tenon_tensor_view(b)->data;
    int64_t count = tenon_view_numel(got);
    double most = 1e-3;
    bool same = true;
    for (int64_t i = 0; i < count; i++)
        most = isfinite(y[i]) && fabs(y[i]) > most ? fabs(y[i]) : most;
    for (int64_t i = 0; i < count && same; i++)
        same =
            x[i] == y[i] || (isnan(x[i]) && isnan(y[i])) || fabs(x[i] - y[i]) <= tolerance * most;
    tenon_tensor_destroy(&a);
    tenon_tensor_destroy(&b);
    return same;
}

static bool same_type(const tenon_view *a, const tenon_view *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++)
        same = a->shape[d] == b->shape[d];
    return same;
}

bool model_near(const model *m, int set, int v, int64_t row, const tenon_view *outputs) {
    for (int i = 0; i < m->outputs; i++) {
        if (!m->samples[set].outputs[i])
            continue;
        tenon_view want = *tenon_tensor_view(m->samples[set].outputs[i]);
        bool floats = want.dtype >= TENON_FLOAT16;
        if (m->rows && want.rank > 0) {
            want.data = (char *)want.data +
                        (size_t)row * (size_t)want.strides[0] * tenon_dtype_size(want.dtype);
            want.shape[0] = outputs[i].shape[0];
        }
        if (!same_type(&outputs[i], &want) ||
            (!near(&outputs[i], &want, variants[v].tolerance) &&
             (floats || variants[v].options.precision == TENON_PRECISION_FP32)))
            return false;
    }
    return true;
}

bool model_exact(const model *m, int set, int v, const tenon_view *outputs) {
    for (int i = 0; i < m->outputs; i++) {
        const tenon_tensor *wanted = m->samples[set].exact[v][i];
        if (!wanted && outputs[i].dtype == TENON_DTYPE_NONE)
            continue;
        const tenon_view *want = wanted ? tenon_tensor_view(wanted) : NULL;
        if (!want || !same_type(&outputs[i], want) || !tenon_view_is_contiguous(&outputs[i]) ||
            memcmp(outputs[i].data, want->data,
                   (size_t)tenon_view_numel(want) * tenon_dtype_size(want->dtype)) != 0)
            return false;
    }
    return true;
}

/* ---- Running ---- */

tenon_status model_session(const tenon_graph *graph, int v, int max_shapes, bool verify,
                           tenon_session **out) {
    tenon_session_options options = variants[v].options;
    options.max_shapes = max_shapes;
    options.verify = verify;
    return tenon_session_create(graph, &options, out);
}

/* The outputs lie in the context. */
static tenon_status run(const model *m, int set, tenon_context *context, tenon_view *outputs) {
    tenon_tensor *copies[MAX_VALUES];
    tenon_view inputs[MAX_VALUES];
    for (int i = 0; i < m->inputs; i++) { /* a model may write them */
        const tenon_view *view = tenon_tensor_view(m->samples[set].inputs[i]);
        copies[i] = copy_of(view, view->dtype);
        inputs[i] = *tenon_tensor_view(copies[i]);
    }
    memset(outputs, 0, MAX_VALUES * sizeof *outputs);
    tenon_status status = m->stateful ? tenon_context_reset_state(context) : TENON_OK;
    if (status == TENON_OK)
        status = tenon_context_run(context, inputs, m->inputs, outputs, m->outputs);
    for (int i = 0; i < m->inputs; i++)
        tenon_tensor_destroy(&copies[i]);
    return status;
}

bool model_run(const model *m, int set, int v, tenon_context *context) {
    tenon_view outputs[MAX_VALUES];
    atomic_fetch_add(&figure.runs, 1);
    if (run(m, set, context, outputs) != TENON_OK)
        fault("%s, set %d, %s: %s", m->name, set, variants[v].name, tenon_last_error());
    else if (!model_exact(m, set, v, outputs))
        fault("%s, set %d, %s: other bytes than before", m->name, set, variants[v].name);
    else
        return true;
    return false;
}

static void keep(const model *m, const tenon_view *outputs, tenon_tensor **kept) {
    for (int i = 0; i < m->outputs; i++)
        kept[i] =
            outputs[i].dtype == TENON_DTYPE_NONE ? NULL : copy_of(&outputs[i], outputs[i].dtype);
}

/* Sizes that the model says it does not take are left out. */
static void find_samples(model *m, tenon_context *context) {
    int tries = tenon_graph_symbol_count(m->graph) > 0 ? 3 * MAX_SETS : 1;
    for (int i = 0; i < tries && m->sets < MAX_SETS; i++) {
        tenon_view outputs[MAX_VALUES];
        sample *s = &m->samples[m->sets];
        make_inputs(m, i, s);
        tenon_status status = run(m, m->sets, context, outputs);
        if (status == TENON_OK) {
            s->exact = calloc((size_t)variant_count, sizeof *s->exact);
            if (!s->exact)
                exit(EXIT_FAILURE);
            keep(m, outputs, s->outputs);
            m->sets++;
            continue;
        }
        if (status != TENON_INPUT_MISMATCH || (i == tries - 1 && m->sets == 0))
            CHECK(status);
        for (int k = 0; k < m->inputs; k++)
            tenon_tensor_destroy(&s->inputs[k]);
    }
}

static void find_outputs(model *m) {
    const tenon_session_options plain = {.threads = 1, .backend = TENON_BACKEND_REFERENCE};
    tenon_view outputs[MAX_VALUES];
    for (int v = -1; v < variant_count; v++) {
        tenon_session *session = NULL;
        tenon_context *context = NULL;
        if (v < 0)
            CHECK(tenon_session_create(m->graph, &plain, &session));
        else
            CHECK(model_session(m->graph, v, MAX_SETS, false, &session));
        CHECK(tenon_context_create(session, &context));
        m->stateful = tenon_context_state_count(context) > 0;
        if (v < 0)
            find_samples(m, context);
        for (int s = 0; s < m->sets && v >= 0; s++) {
            CHECK(run(m, s, context, outputs));
            keep(m, outputs, m->samples[s].exact[v]);
            if (!model_near(m, s, v, 0, outputs))
                fault("%s, set %d, %s: not what the reference kernels give", m->name, s,
                      variants[v].name);
        }
        tenon_context_destroy(&context);
        tenon_session_destroy(&session);
    }
}

/* ---- Making ---- */

static char *join(const char *folder, const char *name) {
    char *path = NULL;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        exit(EXIT_FAILURE);
    return path;
}

static bool fits(const tenon_graph *graph) {
    bool fits = tenon_graph_input_count(graph) <= MAX_VALUES &&
                tenon_graph_output_count(graph) <= MAX_VALUES &&
                tenon_graph_symbol_count(graph) <= MAX_VALUES;
    for (int i = 0; fits && i < tenon_graph_input_count(graph); i++)
        fits = tenon_value_is_tensor(tenon_graph_input(graph, i));
    return fits;
}

/* Takes `file`, the model's own; it is written as JSON, and stays without one where that form
 * cannot have it. */
static void add(const char *name, char *file, const char *folder, bool rows) {
    char json[32];
    model *m = &models[model_count];
    *m = (model){.name = name, .files = {file}, .rows = rows};
    CHECK(tenon_load(file, &m->graph));
    if (!fits(m->graph)) {
        fprintf(stderr,
                "soak: %s: too many inputs, outputs or symbols, or inputs that are numbers\n",
                name);
        exit(EXIT_FAILURE);
    }
    m->inputs = tenon_graph_input_count(m->graph);
    m->outputs = tenon_graph_output_count(m->graph);
    snprintf(json, sizeof json, "model%d.json", model_count);
    m->files[1] = join(folder, json);
    CHECK(tenon_save_json(m->graph, m->files[1]));
    find_outputs(m);
    model_count++;
}

void models_make(const char *source, const char *folder, char **paths, int path_count) {
    int count = (int)(sizeof known / sizeof *known);
    if (count + path_count > MAX_MODELS) {
        fprintf(stderr, "soak: at most %d models\n", MAX_MODELS - count);
        exit(2);
    }
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "model%d.tenon", i);
        char *file = known[i].text ? join(folder, name) : join(source, known[i].name);
        if (known[i].text)
            CHECK(tenon_file_write(file, known[i].text, strlen(known[i].text)));
        add(known[i].name, file, folder, known[i].rows);
    }
    for (int i = 0; i < path_count; i++)
        add(paths[i], strdup(paths[i]), folder, false);
}

void models_free(void) {
    for (int i = 0; i < model_count; i++) {
        model *m = &models[i];
        for (int s = 0; s < m->sets; s++) {
            for (int k = 0; k < MAX_VALUES; k++) {
                tenon_tensor_destroy(&m->samples[s].inputs[k]);
                tenon_tensor_destroy(&m->samples[s].outputs[k]);
                for (int v = 0; v < variant_count; v++)
                    tenon_tensor_destroy(&m->samples[s].exact[v][k]);
            }
            free(m->samples[s].exact);
        }
        for (int f = 0; f < FORMS; f++)
            free(m->files[f]);
        tenon_graph_destroy(&m->graph);
    }
}
