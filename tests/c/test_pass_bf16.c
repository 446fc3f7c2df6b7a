/* Products in bfloat16: what the pass makes of graphs, and what sessions compute then. */
#include "fusion/bf16.h"
#include "pass_test.h"
#include "run/session.h"
#include "run_graph.h"

/* ---- The pass ---- */

/* The pass, and those that clear up behind it. */
static char *lower(const char *text) {
    tenon_graph *graph = pass_parse(text);
    tenon_passes *list = NULL, *passes = NULL;
    char *print = NULL;
    OK(tenon_passes_create(&list));
    for (int i = tenon_passes_count(list) - 1; i >= 0; i--) {
        const tenon_pass *pass = tenon_passes_get(list, i);
        if (!pass->required && strcmp(pass->name, "merge_shapes") != 0 &&
            strcmp(pass->name, "dead_shapes") != 0)
            OK(tenon_passes_remove(list, pass->name));
    }
    OK(tn_bf16_pipeline(list, &passes));
    ck_assert_int_eq(tenon_passes_find(passes, "bf16") + 1,
                     tenon_passes_find(passes, "merge_shapes"));
    OK(tn_passes_run(passes, TENON_PASS_SHAPES, &graph, NULL, 0));
    OK(tenon_graph_print(graph, &print));
    tenon_passes_destroy(&passes);
    tenon_passes_destroy(&list);
    tenon_graph_destroy(&graph);
    return print;
}

static void gives(const char *before, const char *after) {
    char *got = lower(before), *want = NULL;
    tenon_graph *graph = pass_parse(after);
    ck_assert_int_eq(tenon_graph_print(graph, &want), TENON_OK);
    char *got_names = pass_canonical(got), *want_names = pass_canonical(want);
    ck_assert_msg(strcmp(got_names, want_names) == 0, "gives\n%s\nnot\n%s", got, want);
    free(got_names);
    free(want_names);
    tenon_string_free(got);
    tenon_string_free(want);
    tenon_graph_destroy(&graph);
}

static void stays(const char *text) {
    gives(text, text);
}

static const char linear[] = "graph g {\n"
                             "  input %x: float32[2, 2]\n"
                             "  const %w: float32[1, 2] = {1, 1.00390625}\n"
                             "  const %b: float32[1] = {0.5}\n"
                             "  %y = aten.linear(%x, %w, %b)\n"
                             "  %z = aten.relu(%y)\n"
                             "  output \"o\" = %z\n"
                             "}\n";

START_TEST(products_and_what_follows_them) {
    gives(linear, "graph g {\n"
                  "  input %x: float32[2, 2]\n"
                  "  const %w: bfloat16[1, 2] = {1, 1}\n" /* a tie, to even */
                  "  const %b: bfloat16[1] = {0.5}\n"
                  "  %c: bfloat16[2, 2] = aten._to_copy(%x, bfloat16)\n"
                  "  %y: bfloat16[2, 1] = aten.linear(%c, %w, %b)\n"
                  "  %z: bfloat16[2, 1] = aten.relu(%y)\n"
                  "  %o: float32[2, 1] = aten._to_copy(%z, float32)\n"
                  "  output \"o\" = %o\n"
                  "}\n");
}
END_TEST

/* One cast serves three products; a product reads the one before it without casts in between. */
START_TEST(casts_are_shared_and_cancel) {
    gives("graph g {\n"
          "  input %x: float32[2, 2]\n"
          "  const %w: float32[2, 2] = {1, 2, 3, 4}\n"
          "  %a = aten.mm(%x, %w)\n"
          "  %b = aten.mm(%x, %x)\n"
          "  %c = aten.mm(%a, %b)\n"
          "  output \"o\" = %c\n"
          "}\n",
          "graph g {\n"
          "  input %x: float32[2, 2]\n"
          "  const %w: bfloat16[2, 2] = {1, 2, 3, 4}\n"
          "  %h = aten._to_copy(%x, bfloat16)\n"
          "  %a = aten.mm(%h, %w)\n"
          "  %b = aten.mm(%h, %h)\n"
          "  %c = aten.mm(%a, %b)\n"
          "  %o = aten._to_copy(%c, float32)\n"
          "  output \"o\" = %o\n"
          "}\n");
    /* the model's own cast to float32 has no other use */
    gives("graph g {\n"
          "  input %x: bfloat16[2, 2]\n"
          "  %a = aten._to_copy(%x, float32)\n"
          "  %b = aten.mm(%a, %a)\n"
          "  output \"o\" = %b\n"
          "}\n",
          "graph g {\n"
          "  input %x: bfloat16[2, 2]\n"
          "  %b = aten.mm(%x, %x)\n"
          "  %o = aten._to_copy(%b, float32)\n"
          "  output \"o\" = %o\n"
          "}\n");
}
END_TEST

/* A 0-d tensor and a number do not promote; a tensor with dimensions does. Norms keep their
 * parameters. */
START_TEST(elementwise_ops_promote) {
    gives("graph g {\n"
          "  input %x: float32[2, 2]\n"
          "  input %n: float32[]\n"
          "  const %g: float32[2] = {1, 2}\n"
          "  %a = aten.mm(%x, %x)\n"
          "  %b = aten.mul.Tensor(%a, %n)\n"
          "  %c = aten.add.Tensor(%b, 1.5)\n"
          "  %l, %m, %r = aten.native_layer_norm(%c, [2], %g, %g, 0.5)\n"
          "  %d = aten.add.Tensor(%l, %x)\n"
          "  %e = aten.mm(%d, %l)\n"
          "  output \"o\" = %e\n"
          "}\n",
          "graph g {\n"
          "  input %x: float32[2, 2]\n"
          "  input %n: float32[]\n"
          "  const %g: float32[2] = {1, 2}\n"
          "  %h: bfloat16[2, 2] = aten._to_copy(%x, bfloat16)\n"
          "  %a: bfloat16[2, 2] = aten.mm(%h, %h)\n"
          "  %b: bfloat16[2, 2] = aten.mul.Tensor(%a, %n)\n"
          "  %c: bfloat16[2, 2] = aten.add.Tensor(%b, 1.5)\n"
          "  %l, %m, %r = aten.native_layer_norm(%c, [2], %g, %g, 0.5)\n"
          "  %d: float32[2, 2] = aten.add.Tensor(%l, %x)\n"
          "  %k: bfloat16[2, 2] = aten._to_copy(%d, bfloat16)\n"
          "  %e: bfloat16[2, 2] = aten.mm(%k, %l)\n"
          "  %o: float32[2, 2] = aten._to_copy(%e, float32)\n"
          "  output \"o\" = %o\n"
          "}\n");
}
END_TEST

START_TEST(other_lists) {
    /* float32 */
    gives("graph g {\n"
          "  input %x: float32[2, 2]\n"
          "  %a = aten.mm(%x, %x)\n"
          "  %p = aten.prod.dim_int(%a, 1)\n"
          "  output \"o\" = %p\n"
          "}\n",
          "graph g {\n"
          "  input %x: float32[2, 2]\n"
          "  %h = aten._to_copy(%x, bfloat16)\n"
          "  %a = aten.mm(%h, %h)\n"
          "  %f = aten._to_copy(%a, float32)\n"
          "  %p = aten.prod.dim_int(%f, 1)\n"
          "  output \"o\" = %p\n"
          "}\n");
    /* the widest; and an op that does not promote */
    gives("graph g {\n"
          "  input %x: float32[2, 2]\n"
          "  input %i: int64[2, 2]\n"
          "  %a = aten.mm(%x, %x)\n"
          "  %c = aten.cat([%a, %x], 0)\n"
          "  %s = aten.scatter.src(%x, 0, %i, %a)\n"
          "  output \"c\" = %c\n"
          "  output \"s\" = %s\n"
          "}\n",
          "graph g {\n"
          "  input %x: float32[2, 2]\n"
          "  input %i: int64[2, 2]\n"
          "  %h = aten._to_copy(%x, bfloat16)\n"
          "  %a = aten.mm(%h, %h)\n"
          "  %f = aten._to_copy(%a, float32)\n"
          "  %c = aten.cat([%f, %x], 0)\n"
          "  %s = aten.scatter.src(%x, 0, %i, %f)\n"
          "  output \"c\" = %c\n"
          "  output \"s\" = %s\n"
          "}\n");
    /* an attention's mask stays */
    gives("graph g {\n"
          "  input %q: float32[1, 1, 2, 4]\n"
          "  input %m: float32[1, 1, 2, 2]\n"
          "  %y = aten.scaled_dot_product_attention(%q, %q, %q, %m)\n"
          "  output \"o\" = %y\n"
          "}\n",
          "graph g {\n"
          "  input %q: float32[1, 1, 2, 4]\n"
          "  input %m: float32[1, 1, 2, 2]\n"
          "  %h = aten._to_copy(%q, bfloat16)\n"
          "  %y = aten.scaled_dot_product_attention(%h, %h, %h, %m)\n"
          "  %o = aten._to_copy(%y, float32)\n"
          "  output \"o\" = %o\n"
          "}\n");
}
END_TEST

START_TEST(other_dtypes_stay) {
    stays("graph g {\n"
          "  input %i: int64[2, 2]\n"
          "  input %d: float64[2, 2]\n"
          "  %a = aten.mm(%i, %i)\n"
          "  %b = aten.mm(%d, %d)\n"
          "  %c = aten.cat([%d, %b], 0)\n"
          "  output \"a\" = %a\n"
          "  output \"c\" = %c\n"
          "}\n");
    stays("graph g {\n"
          "  input %x: float32[2, 2]\n"
          "  const %b: float32[2] = {1, 2}\n"
          "  %y = aten.add.Tensor(%x, %b)\n"
          "  %z = aten._softmax(%y, 1, false)\n"
          "  output \"z\" = %z\n"
          "}\n");
    /* bfloat16 that the model itself has */
    stays("graph g {\n"
          "  input %h: bfloat16[2, 2]\n"
          "  const %b: bfloat16[2] = {1, 2}\n"
          "  %y = aten.linear(%h, %h, %b)\n"
          "  %z = aten._softmax(%y, 1, false)\n"
          "  output \"z\" = %z\n"
          "}\n");
}
END_TEST

/* Between products no casts stand; one at each edge. */
START_TEST(regions_stay_in_bfloat16) {
    gives("graph g {\n"
          "  input %x: float32[1, 2, 4, 4]\n"
          "  const %w: float32[2, 2, 1, 1] = {1, 2, 3, 4}\n"
          "  %c = aten.convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)\n"
          "  %r = aten.relu(%c)\n"
          "  %p = aten.max_pool2d(%r, [2, 2])\n"
          "  %d = aten.convolution(%p, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)\n"
          "  %a = aten.add.Tensor(%d, %p)\n"
          "  %v = aten.view(%a, [1, 8])\n"
          "  %s = aten._softmax(%v, 1, false)\n"
          "  output \"a\" = %a\n"
          "  output \"s\" = %s\n"
          "}\n",
          "graph g {\n"
          "  input %x: float32[1, 2, 4, 4]\n"
          "  const %w: bfloat16[2, 2, 1, 1] = {1, 2, 3, 4}\n"
          "  %h = aten._to_copy(%x, bfloat16)\n"
          "  %c = aten.convolution(%h, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)\n"
          "  %r: bfloat16[1, 2, 4, 4] = aten.relu(%c)\n"
          "  %p = aten.max_pool2d(%r, [2, 2])\n"
          "  %d = aten.convolution(%p, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)\n"
          "  %a: bfloat16[1, 2, 2, 2] = aten.add.Tensor(%d, %p)\n"
          "  %v = aten.view(%a, [1, 8])\n"
          "  %s: bfloat16[1, 8] = aten._softmax(%v, 1, false)\n"
          "  %o = aten._to_copy(%a, float32)\n"
          "  %t = aten._to_copy(%s, float32)\n"
          "  output \"a\" = %o\n"
          "  output \"s\" = %t\n"
          "}\n");
}
END_TEST

/* What is written back has the dtype of its buffer. */
START_TEST(writes_keep_their_dtype) {
    gives("graph g {\n"
          "  input %x: float32[2, 2]\n"
          "  buffer %s: float32[2, 2] = {1, 2, 3, 4}\n"
          "  %y = aten.mm(%x, %s)\n"
          "  write %s <- %y\n"
          "  output \"o\" = %y\n"
          "}\n",
          "graph g {\n"
          "  input %x: float32[2, 2]\n"
          "  buffer %s: float32[2, 2] = {1, 2, 3, 4}\n"
          "  %h = aten._to_copy(%x, bfloat16)\n"
          "  %t = aten._to_copy(%s, bfloat16)\n"
          "  %y = aten.mm(%h, %t)\n"
          "  %o = aten._to_copy(%y, float32)\n"
          "  write %s <- %o\n"
          "  output \"o\" = %o\n"
          "}\n");
}
END_TEST

/* ---- Rounding ---- */

enum { ROWS = 8, ROW = 144 };

/* What the pass makes of the weight that the text has as %w; numbers of some distribution. */
static tenon_graph *lower_weight(const char *shape, const char *product, float *numbers) {
    static char text[ROWS * ROW * 24 + 1000];
    unsigned seed = 1;
    int at = snprintf(text, sizeof text, "graph g {\n  %s\n  const %%w: float32%s = {",
                      strchr(product, '\n') + 1, shape);
    for (int i = 0; i < ROWS * ROW; i++) {
        seed = seed * 1664525u + 1013904223u;
        numbers[i] = (float)((int)(seed >> 8) - (1 << 23)) / (1 << 24);
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%.9g", i ? ", " : "", numbers[i]);
    }
    snprintf(text + at, sizeof text - (size_t)at, "}\n  %.*s\n  output \"o\" = %%y\n}\n",
             (int)(strchr(product, '\n') - product), product);
    tenon_graph *graph = pass_parse(text);
    tenon_passes *list = NULL, *passes = NULL;
    OK(tenon_passes_create(&list));
    for (int i = tenon_passes_count(list) - 1; i >= 0; i--)
        if (!tenon_passes_get(list, i)->required)
            OK(tenon_passes_remove(list, tenon_passes_get(list, i)->name));
    OK(tn_bf16_pipeline(list, &passes));
    OK(tn_passes_run(passes, TENON_PASS_SHAPES, &graph, NULL, 0));
    tenon_passes_destroy(&passes);
    tenon_passes_destroy(&list);
    return graph;
}

static const uint16_t *rounded_weight(const tenon_graph *graph) {
    for (int i = 0; i < graph->constant_count; i++)
        if (graph->constants[i]->dtype == TENON_BFLOAT16)
            return graph->constants[i]->tensor->view.data;
    ck_abort_msg("no rounded weight");
    return NULL;
}

static const char convolution[] = "%y = aten.convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], "
                                  "false, [0, 0], 1)\n";

START_TEST(errors_of_kernels_cancel) {
    static const char *const shapes[] = {"[8, 16, 3, 3]", "[8, 144, 1, 1]", "[8, 1, 12, 12]"};
    static const char *const images[] = {"input %x: float32[1, 16, 12, 12]",
                                         "input %x: float32[1, 144, 12, 12]",
                                         "input %x: float32[1, 1, 12, 12]"};
    static float numbers[ROWS * ROW];
    char product[400];
    snprintf(product, sizeof product, "%s%s", convolution, images[_i]);
    tenon_graph *graph = lower_weight(shapes[_i], product, numbers);
    const uint16_t *got = rounded_weight(graph);
    double sums = 0, nearest_sums = 0, squares = 0, nearest_squares = 0;
    int far = 0;
    for (int row = 0; row < ROWS; row++) {
        double sum = 0, nearest_sum = 0;
        for (int i = row * ROW; i < (row + 1) * ROW; i++) {
            double error = tn_bf16_to_float(got[i]) - (double)numbers[i];
            double nearest = tn_bf16_to_float(tn_float_to_bf16(numbers[i])) - (double)numbers[i];
            far += fabs(error) >= fabs(numbers[i]) / 128;
            sum += error;
            nearest_sum += nearest;
            squares += error * error;
            nearest_squares += nearest * nearest;
        }
        sums += sum * sum;
        nearest_sums += nearest_sum * nearest_sum;
    }
    ck_assert_int_eq(far, 0);
    ck_assert_double_lt(sums, nearest_sums / 50);
    ck_assert_double_lt(squares, nearest_squares * 1.4);
    tenon_graph_destroy(&graph);
}
END_TEST

/* Rows of a transposed convolution's weight are inputs, and inputs of linear layers have a mean
 * near zero. */
START_TEST(other_weights_are_rounded_to_nearest) {
    static const char *const shapes[] = {"[8, 16, 3, 3]", "[8, 144]"};
    static const char *const products[] = {
        "%y = aten.convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], true, [0, 0], 1)\n"
        "input %x: float32[1, 8, 5, 5]",
        "%y = aten.linear(%x, %w, none)\ninput %x: float32[2, 144]"};
    static float numbers[ROWS * ROW];
    tenon_graph *graph = lower_weight(shapes[_i], products[_i], numbers);
    const uint16_t *got = rounded_weight(graph);
    int wrong = 0;
    for (int i = 0; i < ROWS * ROW; i++)
        wrong += got[i] != tn_float_to_bf16(numbers[i]);
    ck_assert_int_eq(wrong, 0);
    tenon_graph_destroy(&graph);
}
END_TEST

/* ---- Sessions ---- */

static const char network[] =
    "graph network {\n"
    "  symbol s0 in [1, 8]\n"
    "  input %x: float32[s0, 3, 16, 16]\n"
    "  const %w: float32[16, 3, 3, 3] = random(1)\n"
    "  const %g: float32[16] = random(2, 0.5, 1.5)\n"
    "  const %h: float32[16] = random(3)\n"
    "  const %m: float32[16] = random(4)\n"
    "  const %v: float32[16] = random(5, 0.5, 1.5)\n"
    "  const %l: float32[10, 16] = random(6)\n"
    "  const %b: float32[10] = random(7)\n"
    "  %c = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)\n"
    "  %n, %sm, %sv = aten._native_batch_norm_legit_no_training(%c, %g, %h, %m, %v, 0.1, 1e-05)\n"
    "  %r = aten.relu(%n)\n"
    "  %p = aten.mean.dim(%r, [2, 3])\n"
    "  %y = aten.linear(%p, %l, %b)\n"
    "  output \"features\" = %r\n"
    "  output \"scores\" = %y\n"
    "}\n";

enum { IMAGE = 3 * 16 * 16, FEATURES = 16 * 16 * 16 };

static tenon_session *session_of(const char *text, tenon_session_options options) {
    tenon_graph *graph = parse_graph(text);
    tenon_session *session = NULL;
    options.threads = 2;
    OK(tenon_session_create(graph, &options, &session));
    tenon_graph_destroy(&graph);
    return session;
}

/* Runs the network on `batch` images. */
static void run_network(tenon_session *session, int batch, float *features, float *scores) {
    static float images[8 * IMAGE];
    tenon_context *context = NULL;
    for (int i = 0; i < batch * IMAGE; i++)
        images[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    tenon_view in = view_of(images, TENON_FLOAT32, batch, 3, 16, 16);
    tenon_view out[2] = {view_of(features, TENON_FLOAT32, batch, 16, 16, 16),
                         floats(scores, batch, 10)};
    OK(tenon_context_create(session, &context));
    OK(tenon_context_run(context, &in, 1, out, 2));
    tenon_context_destroy(&context);
}

static double difference(const float *got, const float *want, int count) {
    double worst = 0, scale = 0;
    for (int i = 0; i < count; i++) {
        scale = fmax(scale, fabs(want[i]));
        worst = fmax(worst, fabs((double)got[i] - want[i]));
    }
    return worst / scale;
}

/* How many products of the session's last plan there are, and how many of them in bfloat16. */
static void count_products(const tenon_session *session, int *all, int *low) {
    tenon_plan_info plan;
    *all = *low = 0;
    OK(tenon_session_get_plan(session, &plan));
    for (tenon_node *n = tenon_graph_first_node(plan.graph); n; n = tenon_node_next(n)) {
        if (strcmp(tenon_node_op(n), "aten.convolution") != 0 &&
            strcmp(tenon_node_op(n), "aten.linear") != 0)
            continue;
        ++*all;
        *low += tenon_value_dtype(tenon_node_output(n, 0)) == TENON_BFLOAT16 &&
                tenon_value_dtype(tenon_node_arg(n, 1).as.value) == TENON_BFLOAT16;
    }
}

static void compare_with_float32(tenon_backend backend) {
    static float features[2][2 * FEATURES], scores[2][20];
    int all, low;
    tenon_session *plain = session_of(network, (tenon_session_options){.backend = backend});
    tenon_session *half =
        session_of(network, (tenon_session_options){.backend = backend,
                                                    .precision = TENON_PRECISION_BF16,
                                                    .bf16_fallback = TENON_BF16_FALLBACK_EMULATE});
    run_network(plain, 2, features[0], scores[0]);
    run_network(half, 2, features[1], scores[1]);
    count_products(plain, &all, &low);
    ck_assert_int_eq(all, 2);
    ck_assert_int_eq(low, 0);
    count_products(half, &all, &low);
    ck_assert_int_eq(all, 2);
    ck_assert_int_eq(low, 2);
    double by_features = difference(features[1], features[0], 2 * FEATURES);
    double by_scores = difference(scores[1], scores[0], 20);
    /* three roundings to 8 bits; and float32 would differ by less than 1e-5 */
    ck_assert_msg(by_features < 2e-2 && by_features > 1e-4, "features: %g", by_features);
    ck_assert_msg(by_scores < 2e-2 && by_scores > 1e-5, "scores: %g", by_scores);
    tenon_session_destroy(&plain);
    tenon_session_destroy(&half);
}

/* float32's lowest number is beyond bfloat16's; infinities stay. */
START_TEST(masks_stay_finite) {
    static const char *const fills[] = {
        "%z = aten.masked_fill.Scalar(%y, %m, -3.4028234663852886e38)",
        "%z = aten.masked_fill.Tensor(%y, %m, %v)", "%z = aten.where.self(%m, %v, %y)"};
    float x[4] = {1, 2, 3, 4}, w[4] = {1, 0, 0, 1};
    bool m[4] = {true, true, false, false};
    for (int i = 0; i < 6; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "graph g { input %%x: float32[2, 2]\ninput %%w: float32[2, 2]\n"
                 "input %%m: bool[2, 2]\n%%v = aten.scalar_tensor(%s, float32)\n"
                 "%%y = aten.mm(%%x, %%w)\n%s\n%%s = aten._softmax(%%z, -1, false)\n"
                 "output \"z\" = %%z\noutput \"s\" = %%s }",
                 i < 3 ? "-3.4028234663852886e38" : "-inf", fills[i % 3]);
        tenon_graph *graph = parse_graph(text);
        tenon_session *session = NULL;
        tenon_context *context = NULL;
        tenon_session_options options = {.precision = TENON_PRECISION_BF16,
                                         .bf16_fallback = TENON_BF16_FALLBACK_EMULATE};
        tenon_view in[3] = {floats(x, 2, 2), floats(w, 2, 2), view_of(m, TENON_BOOL, 2, 2, -1, -1)};
        tenon_view out[2] = {{0}};
        OK(tenon_session_create(graph, &options, &session));
        OK(tenon_context_create(session, &context));
        OK(tenon_context_run(context, in, 3, out, 2));
        const float *z = out[0].data, *s = out[1].data;
        ck_assert(z[0] <= -3e38f);
        ck_assert((isinf(z[0]) != 0) == (i > 3));
        ck_assert(i > 3 ? isnan(s[0]) : s[0] == 0.5f);
        ck_assert(s[2] + s[3] > 0.99f && s[3] > s[2]);
        tenon_context_destroy(&context);
        tenon_session_destroy(&session);
        tenon_graph_destroy(&graph);
    }
}
END_TEST

START_TEST(results_are_near_float32) {
    compare_with_float32(TENON_BACKEND_AUTO);
}
END_TEST

START_TEST(kernels_compute_it_too) {
    compare_with_float32(TENON_BACKEND_REFERENCE);
}
END_TEST

static const void *weight_of(const tenon_session *session, const char *op) {
    tenon_plan_info plan;
    OK(tenon_session_get_plan(session, &plan));
    for (tenon_node *n = tenon_graph_first_node(plan.graph); n; n = tenon_node_next(n))
        if (strcmp(tenon_node_op(n), op) == 0)
            return tenon_tensor_view(tenon_value_tensor(tenon_node_arg(n, 1).as.value))->data;
    return NULL;
}

START_TEST(shapes_share_weights) {
    static float features[3 * FEATURES], scores[30];
    tenon_session *session =
        session_of(network, (tenon_session_options){.precision = TENON_PRECISION_BF16,
                                                    .bf16_fallback = TENON_BF16_FALLBACK_EMULATE});
    run_network(session, 1, features, scores);
    const void *conv = weight_of(session, "aten.convolution");
    const void *line = weight_of(session, "aten.linear");
    run_network(session, 3, features, scores);
    ck_assert_ptr_nonnull(conv);
    ck_assert_ptr_eq(weight_of(session, "aten.convolution"), conv);
    ck_assert_ptr_eq(weight_of(session, "aten.linear"), line);
    tenon_session_destroy(&session);
}
END_TEST

START_TEST(callers_passes_are_kept) {
    tenon_passes *list = NULL;
    int all, low;
    OK(tenon_passes_create(&list));
    OK(tenon_passes_remove(list, "merge_shapes")); /* before which the pass stands otherwise */
    OK(tenon_passes_remove(list, "fold_bn"));
    int count = tenon_passes_count(list);
    tenon_session_options options = {.precision = TENON_PRECISION_BF16,
                                     .bf16_fallback = TENON_BF16_FALLBACK_EMULATE,
                                     .passes = list};
    static float features[FEATURES], scores[10];
    tenon_session *session = session_of(network, options);
    run_network(session, 1, features, scores);
    count_products(session, &all, &low);
    ck_assert_int_eq(low, 2);
    ck_assert_int_eq(tenon_passes_count(list), count);
    tenon_session_destroy(&session);
    tenon_passes_destroy(&list);
}
END_TEST

static char logged[512];

static void take_message(tenon_log_level level, const char *message, void *user) {
    (void)user;
    if (level == TENON_LOG_WARN)
        snprintf(logged, sizeof logged, "%s", message);
}

START_TEST(a_cpu_without_it) {
    static float features[2][FEATURES], scores[2][10];
    int all, low;
    setenv("TENON_MAX_ISA", "avx2", 1);
    tenon_log_set(TENON_LOG_WARN, take_message, NULL);
    tenon_session_options options = {.precision = TENON_PRECISION_BF16};
    tenon_session *plain = session_of(network, (tenon_session_options){0});
    ck_assert_str_eq(logged, "");
    tenon_session *session = session_of(network, options);
    ck_assert_msg(strstr(logged, "the model runs in float32") != NULL, "logged: '%s'", logged);
    run_network(plain, 1, features[0], scores[0]);
    run_network(session, 1, features[1], scores[1]);
    count_products(session, &all, &low);
    ck_assert_int_eq(low, 0);
    ck_assert(memcmp(features[0], features[1], sizeof features[0]) == 0);
    tenon_session_destroy(&session);
    tenon_session_destroy(&plain);

    tenon_graph *graph = parse_graph(network);
    options.bf16_fallback = TENON_BF16_FALLBACK_REFUSE;
    FAILS(tenon_session_create(graph, &options, &session), TENON_UNSUPPORTED, "bfloat16");
    options.bf16_fallback = (tenon_bf16_fallback)3;
    FAILS(tenon_session_create(graph, &options, &session), TENON_INVALID_ARGUMENT,
          "no bf16_fallback 3");
    tenon_graph_destroy(&graph);

    logged[0] = '\0';
    options.bf16_fallback = TENON_BF16_FALLBACK_EMULATE;
    session = session_of(network, options);
    ck_assert_str_eq(logged, "");
    run_network(session, 1, features[1], scores[1]);
    count_products(session, &all, &low);
    ck_assert_int_eq(low, 2);
    ck_assert(difference(scores[1], scores[0], 10) < 2e-2);
    tenon_session_destroy(&session);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pass_bf16");
    TCase *c = tcase_create("pass");
    tcase_add_test(c, products_and_what_follows_them);
    tcase_add_test(c, casts_are_shared_and_cancel);
    tcase_add_test(c, elementwise_ops_promote);
    tcase_add_test(c, other_lists);
    tcase_add_test(c, other_dtypes_stay);
    tcase_add_test(c, regions_stay_in_bfloat16);
    tcase_add_test(c, writes_keep_their_dtype);
    tcase_add_loop_test(c, errors_of_kernels_cancel, 0, 3);
    tcase_add_loop_test(c, other_weights_are_rounded_to_nearest, 0, 2);
    suite_add_tcase(suite, c);
    c = tcase_create("sessions");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, masks_stay_finite);
    tcase_add_test(c, results_are_near_float32);
    tcase_add_test(c, kernels_compute_it_too);
    tcase_add_test(c, shapes_share_weights);
    tcase_add_test(c, callers_passes_are_kept);
    tcase_add_test(c, a_cpu_without_it);
    suite_add_tcase(suite, c);
    return run_suite(suite);
}
