/* Allocations that fail while models are loaded, lowered, compiled, explained, run and served:
 * archives, and graphs that the passes rewrite, each in all the ways that a session may be. */
#include "alloc_faults.h"
#include "run_graph.h"
#include <math.h>

#define CASE(name) TEST_DATA "/pt2-cases/" name ".pt2"

enum { MOST_INPUTS = 8, MOST_OUTPUTS = 16, MOST_BYTES = 1 << 18 };

/* A model, and how it lives. */
typedef struct model {
    const char *path, *text; /* one of them */
    tenon_session_options options;
    bool explained;
    int shapes; /* sets of input shapes that take turns, for symbols; 0: 1 */
} model;

/* Inputs for all, as elements that any dtype can bear, and what the first run gave. */
static _Alignas(64) char zeros[MOST_BYTES], kept[MOST_BYTES];
static size_t kept_bytes;

static tenon_status input_views(const tenon_graph *graph, int more, tenon_view *views, int *count) {
    int64_t symbols[32] = {0};
    *count = tenon_graph_input_count(graph);
    for (int i = 0; i < tenon_graph_symbol_count(graph) && i < 32; i++) {
        int64_t min, max;
        tenon_graph_symbol(graph, i, NULL, &min, &max);
        symbols[i] = (min < 2 ? 2 : min) + more;
    }
    for (int i = 0; i < *count && i < MOST_INPUTS; i++) {
        const tenon_value *input = tenon_graph_input(graph, i);
        tenon_view *view = &views[i];
        int64_t stride = 1;
        *view = (tenon_view){.data = zeros, .dtype = tenon_value_dtype(input)};
        view->rank = tenon_value_rank(input);
        for (int d = view->rank - 1; d >= 0; d--) {
            tenon_status status = tenon_value_size_at(input, d, symbols, &view->shape[d]);
            if (status != TENON_OK)
                return status;
            view->strides[d] = stride;
            stride *= view->shape[d];
        }
    }
    return TENON_OK;
}

/* Where it must: a part that oneDNN has no memory for may have gone to kernels, which round
 * otherwise. */
static bool same(const tenon_view *view, const char *data, const char *want) {
    int64_t count = tenon_view_numel(view);
    if (view->dtype != TENON_FLOAT32)
        return memcmp(data, want, (size_t)count * tenon_dtype_size(view->dtype)) == 0;
    for (int64_t i = 0; i < count; i++) {
        float a, b;
        memcpy(&a, data + i * 4, 4);
        memcpy(&b, want + i * 4, 4);
        if (!(fabsf(a - b) <= 1e-2f * (1 + fabsf(b))) && !(isnan(a) && isnan(b)) && a != b)
            return false;
    }
    return true;
}

/* The first life keeps the outputs, and the others must have the same. */
static tenon_status compare(const tenon_view *outputs, int count, bool first) {
    static char row_major[MOST_BYTES];
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        tenon_view to = {.data = row_major, .dtype = outputs[i].dtype, .rank = outputs[i].rank};
        int64_t stride = 1;
        size_t bytes = (size_t)tenon_view_numel(&outputs[i]) * tenon_dtype_size(outputs[i].dtype);
        if (at + bytes > MOST_BYTES)
            return TENON_OK;
        for (int d = to.rank - 1; d >= 0; d--) {
            to.shape[d] = outputs[i].shape[d];
            to.strides[d] = stride;
            stride *= to.shape[d];
        }
        if (outputs[i].dtype == TENON_DTYPE_NONE || bytes == 0)
            continue;
        tenon_status status = tenon_view_copy(&to, &outputs[i]);
        if (status != TENON_OK)
            return status;
        if (first)
            memcpy(kept + at, row_major, bytes);
        else if (!same(&to, row_major, kept + at))
            return tenon_fail(TENON_INTERNAL, "output %d is wrong", i);
        at += bytes;
    }
    kept_bytes = at;
    return TENON_OK;
}

static tenon_status read_steps(const tenon_session *session) {
    tenon_plan_info plan;
    tenon_step_info step;
    tenon_operand_info operand;
    tenon_boundary_info boundary;
    tenon_status status = tenon_session_get_plan(session, &plan);
    for (int i = 0; status == TENON_OK && i < plan.step_count; i++) {
        status = tenon_session_get_step(session, i, &step);
        for (int k = 0; status == TENON_OK && k < step.input_count; k++)
            status = tenon_session_get_operand(session, i, k, &operand);
        for (int k = 0; status == TENON_OK && k < step.boundary_count; k++)
            status = tenon_session_get_boundary(session, i, k, &boundary);
        for (int k = 0; status == TENON_OK && k < step.node_count; k++) {
            tenon_node_info node;
            status = tenon_session_get_node(session, step.nodes[k], &node);
        }
    }
    return status;
}

static tenon_status run_once(const tenon_graph *graph, const model *m, tenon_session *session) {
    tenon_context *context = NULL;
    tenon_view inputs[MOST_INPUTS], outputs[MOST_OUTPUTS];
    int count, output_count = tenon_graph_output_count(graph);
    tenon_status status = tenon_context_create(session, &context);
    for (int run = 0; run < 2 * (m->shapes ? m->shapes : 1) && status == TENON_OK; run++) {
        memset(outputs, 0, sizeof outputs);
        status = input_views(graph, m->shapes ? run % m->shapes : 0, inputs, &count);
        if (status == TENON_OK)
            status = tenon_context_run(context, inputs, count, outputs, output_count);
        if (status == TENON_OK && run == 0)
            status = compare(outputs, output_count, kept_bytes == 0);
        if (status == TENON_OK && m->explained)
            status = read_steps(session);
    }
    tenon_context_destroy(&context);
    return status;
}

static tenon_status make_graph(const model *m, tenon_graph **graph) {
    return m->path ? tenon_load(m->path, graph) : tenon_graph_parse(m->text, "model", graph);
}

static tenon_status model_life(const void *user) {
    const model *m = user;
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    tenon_status status = make_graph(m, &graph);
    if (status == TENON_OK)
        status = tenon_session_create(graph, &m->options, &session);
    if (status == TENON_OK)
        status = run_once(graph, m, session);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
    return status;
}

/* ---- Archives ---- */

#define ARCHIVE(name)                                  \
    {                                                  \
        .path = CASE(name), .options = {.threads = 1 } \
    }

static const model archives[] = {
    ARCHIVE("convnet_raw"),       ARCHIVE("lstm"),        ARCHIVE("gru_cell_core"),
    ARCHIVE("sdpa_mask_core"),    ARCHIVE("einsum"),      ARCHIVE("cond"),
    ARCHIVE("inplace_views_raw"), ARCHIVE("interpolate"), ARCHIVE("channels_last"),
    ARCHIVE("scatter"),           ARCHIVE("qdq_tensor"),  ARCHIVE("autocast"),
};
enum { ARCHIVES = sizeof archives / sizeof *archives };

static void sweep_model(const char *name, const model *m, int most) {
    tenon_log_set(TENON_LOG_NONE, NULL, NULL);
    kept_bytes = 0;
    sweep_life(&(life){.name = name, .live = model_life, .user = m, .most = most, .needed = 50});
}

START_TEST(archives_live) {
    sweep_model(strrchr(archives[_i].path, '/') + 1, &archives[_i], 60);
}
END_TEST

/* ---- Graphs that the passes of all kinds rewrite ---- */

static const char conv_text[] =
    "graph g { input %x: float32[s0, 32, 16, 16]\n"
    "const %w: float32[32, 32, 3, 3] = random(1)\nconst %b: float32[32] = random(2)\n"
    "const %g: float32[32] = random(3)\nconst %h: float32[32] = random(4)\n"
    "const %m: float32[32] = random(5)\nconst %v: float32[32] = ones\n"
    "const %p: float32[64, 32, 1, 1] = random(6)\nconst %d: float32[64, 1, 3, 3] = random(7)\n"
    "const %q: float32[8, 64, 1, 1] = random(8)\nconst %r: float32[64, 8, 1, 1] = random(9)\n"
    "const %l: float32[10, 64] = random(10)\n"
    "%c = aten.conv2d(%x, %w, %b, [1, 1], [1, 1])\n"
    "%n, %ns, %nt = aten._native_batch_norm_legit_no_training(%c, %g, %h, %m, %v, 0.1, 1e-05)\n"
    "%a = aten.relu(%n)\n%e = aten.conv2d(%a, %p)\n%ea = aten.hardswish(%e)\n"
    "%f = aten.conv2d(%ea, %d, none, [2, 2], [1, 1], [1, 1], 64)\n%fa = aten.silu(%f)\n"
    "%k = aten.adaptive_avg_pool2d(%fa, [1, 1])\n%k1 = aten.conv2d(%k, %q)\n"
    "%k2 = aten.relu(%k1)\n%k3 = aten.conv2d(%k2, %r)\n%k4 = aten.sigmoid(%k3)\n"
    "%z = aten.mul.Tensor(%fa, %k4)\n%t = aten.max_pool2d(%z, [2, 2])\n"
    "%u = aten.mean.dim(%t, [2, 3])\n%y = aten.linear(%u, %l)\noutput \"y\" = %y }";

static const char attention_text[] =
    "graph g { input %x: float32[2, 12, 32]\n"
    "const %n: float32[32] = ones\nconst %o: float32[32] = zeros\n"
    "const %q: float32[32, 32] = random(1)\nconst %k: float32[32, 32] = random(2)\n"
    "const %v: float32[32, 32] = random(3)\nconst %u: float32[64, 32] = random(4)\n"
    "const %d: float32[32, 64] = random(5)\nconst %e: float32[32, 32] = random(6)\n"
    "%h = aten.layer_norm(%x, [32], %n, %o)\n"
    "%ql = aten.linear(%h, %q)\n%kl = aten.linear(%h, %k)\n%vl = aten.linear(%h, %v)\n"
    "%qv = aten.view(%ql, [2, 12, 4, 8])\n%kv = aten.view(%kl, [2, 12, 4, 8])\n"
    "%vv = aten.view(%vl, [2, 12, 4, 8])\n%qt = aten.transpose.int(%qv, 1, 2)\n"
    "%kt = aten.transpose.int(%kv, 1, 2)\n%vt = aten.transpose.int(%vv, 1, 2)\n"
    "%a = aten.scaled_dot_product_attention(%qt, %kt, %vt, none, 0.0, true)\n"
    "%at = aten.transpose.int(%a, 1, 2)\n%af = aten.reshape(%at, [2, 12, 32])\n"
    "%p = aten.linear(%af, %e)\n%r = aten.add.Tensor(%x, %p)\n"
    "%i = aten.linear(%r, %u)\n%g = aten.gelu(%i)\n%f = aten.linear(%g, %d)\n"
    "%s = aten.add.Tensor(%r, %f)\n%y = aten._softmax(%s, 2, false)\noutput \"y\" = %y }";

#define TEXT(source, ...)                                       \
    {                                                           \
        .text = source, .options = {.threads = 1, __VA_ARGS__ } \
    }

static const model texts[] = {
    TEXT(conv_text, .backend = TENON_BACKEND_AUTO),
    TEXT(conv_text, .backend = TENON_BACKEND_ONEDNN),
    TEXT(conv_text, .backend = TENON_BACKEND_REFERENCE),
    TEXT(conv_text, .precision = TENON_PRECISION_BF16,
         .bf16_fallback = TENON_BF16_FALLBACK_EMULATE),
    TEXT(conv_text, .verify = true),
    TEXT(conv_text, .split_ops = true),
    TEXT(attention_text, .backend = TENON_BACKEND_AUTO),
    TEXT(attention_text, .backend = TENON_BACKEND_ONEDNN),
    TEXT(attention_text, .precision = TENON_PRECISION_BF16,
         .bf16_fallback = TENON_BF16_FALLBACK_EMULATE),
    TEXT(attention_text, .verify = true),
};
static const char *const text_names[] = {
    "convolutions, auto",     "convolutions, oneDNN", "convolutions, kernels",
    "convolutions, bfloat16", "convolutions, verify", "convolutions, ops apart",
    "attention, auto",        "attention, oneDNN",    "attention, bfloat16",
    "attention, verify",
};
enum { TEXTS = sizeof texts / sizeof *texts };
_Static_assert(TEXTS == sizeof text_names / sizeof *text_names, "a name each");

START_TEST(passes_and_backends) {
    sweep_model(text_names[_i], &texts[_i], 60);
}
END_TEST

START_TEST(plans_are_explained) {
    model m = {.text = attention_text, .options = {.threads = 1}, .explained = true};
    sweep_model("explain", &m, 60);
    m.options.dry_run = false;
    m.text = conv_text;
    sweep_model("explain convolutions", &m, 60);
}
END_TEST

/* Three sets of shapes take turns in a session that keeps two. */
START_TEST(shapes_take_turns) {
    const model m = {.text = conv_text, .options = {.threads = 1, .max_shapes = 2}, .shapes = 3};
    sweep_model("shapes", &m, 60);
}
END_TEST

/* ---- Pools ---- */

static tenon_status serve(tenon_pool *pool, const tenon_view *input) {
    enum { REQUESTS = 6 };
    static float y[REQUESTS][2][10];
    tenon_request *requests[REQUESTS] = {NULL};
    tenon_status status = TENON_OK;
    for (int i = 0; i < REQUESTS && status == TENON_OK; i++) {
        tenon_view output = floats(&y[i][0][0], 2, 10);
        status = tenon_pool_submit(pool, input, 1, &output, 1, NULL, NULL, &requests[i]);
    }
    for (int i = 0; i < REQUESTS; i++) {
        tenon_status done = requests[i] ? tenon_request_wait(&requests[i]) : TENON_OK;
        status = status == TENON_OK ? done : status;
    }
    return status;
}

static tenon_status pool_life(const void *user) {
    const tenon_pool_options *options = user;
    const tenon_session_options session = {.threads = 2, .backend = TENON_BACKEND_REFERENCE};
    tenon_graph *graph = NULL;
    tenon_pool *pool = NULL;
    tenon_view input = {0};
    int count;
    tenon_status status = tenon_graph_parse(conv_text, "model", &graph);
    if (status == TENON_OK)
        status = input_views(graph, 0, &input, &count);
    if (status == TENON_OK)
        status = tenon_pool_create(graph, &session, options, &input, 1, &pool);
    if (status == TENON_OK)
        status = serve(pool, &input);
    if (status == TENON_OK)
        status = serve(pool, &input);
    tenon_pool_destroy(&pool);
    tenon_graph_destroy(&graph);
    return status;
}

START_TEST(pools_live) {
    static const tenon_pool_options options[] = {
        {.instances = 2, .threads = 1},
        {.instances = 2, .threads = 1, .batch = 4, .batch_wait_us = 100},
    };
    static const char *const names[] = {"pool", "pool with batches"};
    tenon_log_set(TENON_LOG_NONE, NULL, NULL);
    sweep_life(&(life){
        .name = names[_i], .live = pool_life, .user = &options[_i], .most = 120, .needed = 50});
}
END_TEST

int main(void) {
    Suite *suite = suite_create("memory_models");
    TCase *tests = tcase_create("memory_models");
    tcase_set_timeout(tests, 2400); /* the whole sweep takes long */
    tcase_add_loop_test(tests, archives_live, 0, ARCHIVES);
    tcase_add_loop_test(tests, passes_and_backends, 0, TEXTS);
    tcase_add_test(tests, plans_are_explained);
    tcase_add_test(tests, shapes_take_turns);
    tcase_add_loop_test(tests, pools_live, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
