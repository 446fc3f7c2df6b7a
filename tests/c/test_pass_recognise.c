/* What was taken apart is found again, computes the same, and what only looks like it stays. */
#include "pass_test.h"
#include "suite.h"

/* Inputs are constants, so that both ways can be computed; the recognisers do not fold. */
#define X "const %x: float32[2, 5] = random(1, -4, 4)\n"

typedef struct found {
    const char *passes, *op; /* NULL: none of the ops below is found */
    const char *text;
} found;

static const found cases[] = {
    {"activations", "aten.silu",
     "graph g {" X "%s = aten.sigmoid(%x)\n%y = aten.mul.Tensor(%s, %x)\noutput \"o\" = %y }"},
    {"activations", "aten.gelu",
     "graph g {" X "%h = aten.mul.Tensor(%x, 0.5)\n%a = aten.mul.Tensor(%x, 0.7071067811865476)\n"
     "%e = aten.erf(%a)\n%p = aten.add.Tensor(%e, 1)\n%y = aten.mul.Tensor(%h, %p)\noutput \"o\" = "
     "%y }"},
    {"activations", "aten.gelu",
     "graph g {" X "%a = aten.div.Tensor(%x, 1.4142135623730951)\n%e = aten.erf(%a)\n"
     "%p = aten.add.Tensor(%e, 1.0)\n%q = aten.mul.Tensor(%x, %p)\n%y = aten.div.Tensor(%q, 2)\n"
     "output \"o\" = %y }"},
    {"activations", "aten.gelu",
     "graph g {" X "%h = aten.mul.Tensor(%x, 0.5)\n%c = aten.pow.Tensor_Scalar(%x, 3.0)\n"
     "%d = aten.mul.Tensor(%c, 0.044715)\n%e = aten.add.Tensor(%x, %d)\n"
     "%f = aten.mul.Tensor(%e, 0.7978845608028654)\n%t = aten.tanh(%f)\n%p = aten.add.Tensor(%t, "
     "1.0)\n"
     "%y = aten.mul.Tensor(%h, %p)\noutput \"o\" = %y }"},
    {"activations", "aten.gelu",
     "graph g {" X "%c = aten.mul.Tensor(%x, %x)\n%c3 = aten.mul.Tensor(%c, %x)\n"
     "%d = aten.mul.Tensor(%c3, 0.044715)\n%e = aten.add.Tensor(%d, %x)\n"
     "%f = aten.mul.Tensor(%e, 0.7978845608028654)\n%t = aten.tanh(%f)\n%p = aten.add.Tensor(%t, "
     "1)\n"
     "%q = aten.mul.Tensor(%p, %x)\n%y = aten.mul.Tensor(%q, 0.5)\noutput \"o\" = %y }"},
    {"activations", "aten.hardswish",
     "graph g {" X
     "%a = aten.add.Tensor(%x, 3)\n%c = aten.clamp(%a, 0, 6)\n%m = aten.mul.Tensor(%x, %c)\n"
     "%y = aten.div.Tensor(%m, 6)\noutput \"o\" = %y }"},
    {"activations", "aten.hardswish",
     "graph g {" X
     "%a = aten.add.Tensor(%x, 3)\n%b = aten.clamp(%a, 0)\n%c = aten.clamp(%b, none, 6)\n"
     "%m = aten.mul.Tensor(%x, %c)\n%y = aten.div.Tensor(%m, 6)\noutput \"o\" = %y }"},
    {"activations", "aten.clamp",
     "graph g {" X
     "%a = aten.clamp(%x, none, 1.5)\n%y = aten.clamp(%a, -0.5)\noutput \"o\" = %y }"},
    {"activations", "aten.hardsigmoid",
     "graph g {" X "%a = aten.add.Tensor(%x, 3)\n%c = aten.hardtanh(%a, 0.0, 6.0)\n"
     "%y = aten.div.Tensor(%c, 6)\noutput \"o\" = %y }"},
    {"activations", "aten.hardswish",
     "graph g {" X "%h = aten.hardsigmoid(%x)\n%y = aten.mul.Tensor(%x, %h)\noutput \"o\" = %y }"},
    /* a wrong constant, a wrong operand, a second use */
    {"activations", NULL,
     "graph g {" X "%h = aten.mul.Tensor(%x, 0.5)\n%a = aten.mul.Tensor(%x, 0.70)\n"
     "%e = aten.erf(%a)\n%p = aten.add.Tensor(%e, 1)\n%y = aten.mul.Tensor(%h, %p)\noutput \"o\" = "
     "%y }"},
    {"activations", NULL,
     "graph g {" X
     "const %z: float32[2, 5] = random(2)\n%s = aten.sigmoid(%z)\n%y = aten.mul.Tensor(%s, %x)\n"
     "output \"o\" = %y }"},
    {"activations", NULL,
     "graph g {" X
     "%s = aten.sigmoid(%x)\n%y = aten.mul.Tensor(%s, %x)\noutput \"o\" = %y\noutput \"s\" = %s }"},
    {"activations", NULL,
     "graph g {" X
     "%a = aten.add.Tensor(%x, 3)\n%c = aten.clamp(%a, 0, 5)\n%m = aten.mul.Tensor(%x, %c)\n"
     "%y = aten.div.Tensor(%m, 6)\noutput \"o\" = %y }"},
    /* linear */
    {"linear", "aten.linear",
     "graph g { const %x: float32[3, 4] = random(1)\nconst %w: float32[2, 4] = random(2)\n"
     "const %b: float32[2] = random(3)\n%t = aten.permute(%w, [1, 0])\n%y = aten.addmm(%b, %x, "
     "%t)\noutput \"o\" = %y }"},
    {"linear", "aten.linear",
     "graph g { const %x: float32[3, 4] = random(1)\nconst %w: float32[2, 4] = random(2)\n"
     "%t = aten.t(%w)\n%y = aten.mm(%x, %t)\noutput \"o\" = %y }"},
    {"linear", "aten.linear",
     "graph g { const %x: float32[3, 4] = random(1)\nconst %w: float32[4, 2] = random(2)\n"
     "const %b: float32[2] = random(3)\n%y = aten.addmm(%b, %x, %w)\noutput \"o\" = %y }"},
    {"linear", NULL,
     "graph g { const %x: float32[3, 4] = random(1)\nconst %w: float32[4, 2] = random(2)\n"
     "const %b: float32[2] = random(3)\n%y = aten.addmm(%b, %x, %w, beta=2)\noutput \"o\" = %y }"},
    {"linear", NULL,
     "graph g { const %x: float32[3, 4] = random(1)\nconst %w: float32[4, 2] = random(2)\n"
     "const %b: float32[3, 2] = random(3)\n%y = aten.addmm(%b, %x, %w)\noutput \"o\" = %y }"},
    {"views linear_shapes linear_shapes", "aten.linear",
     "graph g { const %x: float32[2, 3, 4] = random(1)\nconst %w: float32[2, 4] = random(2)\n"
     "const %b: float32[2] = random(3)\n%t = aten.permute(%w, [1, 0])\n%e = aten.expand(%t, [2, 4, "
     "2])\n"
     "%v = aten.view(%e, [2, 4, 2])\n%y = aten.bmm(%x, %v)\n%z = aten.add.Tensor(%y, %b)\noutput "
     "\"o\" = %z }"},
    {"fold_shapes linear_shapes", NULL,
     "graph g { input %x: float32[2, 3, 4]\nconst %w: float32[2, 4, 2] = random(2)\n"
     "%y = aten.bmm(%x, %w)\noutput \"o\" = %w }"},
    /* norms */
    {"norms", "aten.native_layer_norm",
     "graph g { const %x: float32[2, 3, 4] = random(1)\nconst %w: float32[4] = random(2)\nconst "
     "%b: float32[4] = random(3)\n"
     "%m = aten.mean.dim(%x, [-1], true)\n%d = aten.sub.Tensor(%x, %m)\n%s = "
     "aten.pow.Tensor_Scalar(%d, 2)\n"
     "%v = aten.mean.dim(%s, [-1], true)\n%e = aten.add.Tensor(%v, 1e-05)\n%r = aten.rsqrt(%e)\n"
     "%n = aten.mul.Tensor(%d, %r)\n%g = aten.mul.Tensor(%n, %w)\n%y = aten.add.Tensor(%g, "
     "%b)\noutput \"o\" = %y }"},
    {"norms", "aten.native_layer_norm",
     "graph g { const %x: float32[2, 3, 4] = random(1)\n"
     "%m = aten.mean.dim(%x, [1, 2], true)\n%d = aten.sub.Tensor(%x, %m)\n"
     "%v = aten.var.correction(%x, [1, 2], correction=0, keepdim=true)\n%e = aten.add.Tensor(%v, "
     "1e-05)\n"
     "%r = aten.sqrt(%e)\n%y = aten.div.Tensor(%d, %r)\noutput \"o\" = %y }"},
    {"norms", "aten.rms_norm",
     "graph g { const %x: float32[2, 3, 4] = random(1)\nconst %w: float32[4] = random(2)\n"
     "%s = aten.pow.Tensor_Scalar(%x, 2)\n%v = aten.mean.dim(%s, [-1], true)\n%e = "
     "aten.add.Tensor(%v, 1e-06)\n"
     "%r = aten.rsqrt(%e)\n%n = aten.mul.Tensor(%x, %r)\n%y = aten.mul.Tensor(%w, %n)\noutput "
     "\"o\" = %y }"},
    {"norms", "aten.rms_norm",
     "graph g { const %x: float32[2, 3, 4] = random(1)\nconst %w: float32[3, 4] = random(2)\n"
     "%s = aten.mul.Tensor(%x, %x)\n%v = aten.mean.dim(%s, [1, 2], true)\n"
     "%e = aten.add.Scalar(%v, 0.001)\n%q = aten.sqrt(%e)\n%r = aten.reciprocal(%q)\n"
     "%n = aten.mul.Tensor(%r, %x)\n%y = aten.mul.Tensor(%n, %w)\noutput \"o\" = %y }"},
    {"norms", "aten.rms_norm",
     "graph g { const %x: float32[2, 3, 4] = random(1)\n"
     "%s = aten.square(%x)\n%v = aten.mean.dim(%s, [2], true)\n%e = aten.add.Tensor(1e-05, %v)\n"
     "%r = aten.pow.Tensor_Scalar(%e, -0.5)\n%y = aten.mul.Tensor(%x, %r)\noutput \"o\" = %y }"},
    {"norms", NULL, /* another power, and the root of another tensor's mean */
     "graph g { const %x: float32[2, 3, 4] = random(1)\n"
     "%s = aten.square(%x)\n%v = aten.mean.dim(%s, [2], true)\n%e = aten.add.Tensor(%v, 1e-05)\n"
     "%r = aten.pow.Tensor_Scalar(%e, -0.4)\n%y = aten.mul.Tensor(%x, %r)\noutput \"o\" = %y }"},
    {"norms", NULL,
     "graph g { const %x: float32[2, 3, 4] = random(1)\nconst %z: float32[2, 3, 4] = random(2)\n"
     "%s = aten.square(%x)\n%v = aten.mean.dim(%s, [2], true)\n%e = aten.add.Tensor(%v, 1e-05)\n"
     "%r = aten.rsqrt(%e)\n%y = aten.mul.Tensor(%z, %r)\noutput \"o\" = %y }"},
    {"norms", NULL, /* sample variance */
     "graph g { const %x: float32[2, 3, 4] = random(1)\n"
     "%m = aten.mean.dim(%x, [-1], true)\n%d = aten.sub.Tensor(%x, %m)\n"
     "%v = aten.var.correction(%x, [-1], correction=1, keepdim=true)\n%e = aten.add.Tensor(%v, "
     "1e-05)\n"
     "%r = aten.sqrt(%e)\n%y = aten.div.Tensor(%d, %r)\noutput \"o\" = %y }"},
    {"norms", NULL, /* not the last dimension */
     "graph g { const %x: float32[2, 3, 4] = random(1)\n"
     "%s = aten.pow.Tensor_Scalar(%x, 2)\n%v = aten.mean.dim(%s, [1], true)\n%e = "
     "aten.add.Tensor(%v, 1e-06)\n"
     "%r = aten.rsqrt(%e)\n%y = aten.mul.Tensor(%x, %r)\noutput \"o\" = %y }"},
    /* pools */
    {"spatial", "aten.mean.dim",
     "graph g { const %x: float32[1, 2, 4, 6] = random(1)\n%y = aten.adaptive_avg_pool2d(%x, [1, "
     "1])\noutput \"o\" = %y }"},
    {"spatial", "aten.avg_pool2d",
     "graph g { const %x: float32[1, 2, 4, 6] = random(1)\n%y = aten.adaptive_avg_pool2d(%x, [2, "
     "3])\noutput \"o\" = %y }"},
    {"spatial", "aten.max_pool2d",
     "graph g { const %x: float32[1, 2, 4, 6] = random(1)\n%y, %i = aten.adaptive_max_pool2d(%x, "
     "[2, 3])\noutput \"o\" = %y }"},
    {"spatial", NULL,
     "graph g { const %x: float32[1, 2, 4, 6] = random(1)\n%y = aten.adaptive_avg_pool2d(%x, [3, "
     "3])\noutput \"o\" = %y }"},
    {"spatial", "aten.channel_shuffle",
     "graph g { const %x: float32[1, 6, 2, 2] = random(1)\n%a = aten.view(%x, [1, 2, 3, 2, 2])\n"
     "%b = aten.permute(%a, [0, 2, 1, 3, 4])\n%y = aten.view(%b, [1, 6, 2, 2])\noutput \"o\" = %y "
     "}"},
};

static int count_op(const tenon_graph *graph, const char *op) {
    int count = 0;
    for (const tenon_node *n = tenon_graph_first_node(graph); n; n = tenon_node_next(n))
        count += strcmp(tenon_node_op(n), op) == 0;
    return count;
}

START_TEST(patterns) {
    static const char *const all[] = {"aten.silu",
                                      "aten.gelu",
                                      "aten.hardswish",
                                      "aten.linear",
                                      "aten.native_layer_norm",
                                      "aten.rms_norm",
                                      "aten.avg_pool2d",
                                      "aten.max_pool2d",
                                      "aten.channel_shuffle"};
    const found *c = &cases[_i];
    tenon_graph *graph = pass_parse(c->text);
    pass_run_all(graph, c->passes);
    if (c->op)
        ck_assert_msg(count_op(graph, c->op) == 1, "case %d: no %s", _i, c->op);
    for (int i = 0; !c->op && i < (int)(sizeof all / sizeof *all); i++)
        ck_assert_msg(count_op(graph, all[i]) == 0, "case %d: %s", _i, all[i]);
    tenon_graph_destroy(&graph);
    pass_same(c->text, c->passes, 2e-6);
}
END_TEST

START_TEST(whole_patterns_leave_one_node) {
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        if (!cases[i].op || strstr(cases[i].text, "unused"))
            continue;
        tenon_graph *graph = pass_parse(cases[i].text);
        pass_run_all(graph, cases[i].passes);
        int64_t views = count_op(graph, "aten.view") + count_op(graph, "aten.permute") +
                        count_op(graph, "aten.t");
        ck_assert_msg(tenon_graph_node_count(graph) - views == 1, "case %d: %lld nodes", i,
                      (long long)tenon_graph_node_count(graph));
        tenon_graph_destroy(&graph);
    }
}
END_TEST

/* A gamma that only broadcasts is another function: it stays a product (field case 47). */
START_TEST(layer_norm_needs_gamma_of_its_own_shape) {
    static const char *const shapes[] = {"[1]", "[3, 1]"};
    char text[1024];
    for (int i = 0; i < 2; i++) {
        snprintf(
            text, sizeof text,
            "graph g { const %%x: float32[2, 3, 4] = random(1)\nconst %%w: float32%s = random(2)\n"
            "%%m = aten.mean.dim(%%x, [-1], true)\n%%d = aten.sub.Tensor(%%x, %%m)\n"
            "%%s = aten.mul.Tensor(%%d, %%d)\n%%v = aten.mean.dim(%%s, [-1], true)\n"
            "%%e = aten.add.Tensor(%%v, 1e-05)\n%%r = aten.rsqrt(%%e)\n"
            "%%n = aten.mul.Tensor(%%d, %%r)\n%%y = aten.mul.Tensor(%%n, %%w)\noutput \"o\" = %%y "
            "}",
            shapes[i]);
        tenon_graph *graph = pass_parse(text);
        pass_run_all(graph, "norms");
        ck_assert_int_eq(count_op(graph, "aten.native_layer_norm"), 1);
        ck_assert_int_eq(count_op(graph, "aten.mul.Tensor"), 1);
        tenon_graph_destroy(&graph);
        pass_same(text, "norms", 2e-6);
    }
}
END_TEST

/* ---- Attention ---- */

#define QKV                                                                                  \
    "const %q: float32[2, 3, 4, 8] = random(1)\nconst %k: float32[2, 3, 5, 8] = random(2)\n" \
    "const %v: float32[2, 3, 5, 6] = random(3)\n"
#define SCORES                                                                                    \
    "%qs = aten.mul.Scalar(%q, 0.5946035575013605)\n%kt = aten.permute(%k, [0, 1, 3, 2])\n"       \
    "%ks = aten.mul.Scalar(%kt, 0.5946035575013605)\n%qe = aten.expand(%qs, [2, 3, 4, 8])\n"      \
    "%qv = aten.view(%qe, [6, 4, 8])\n%kv = aten.view(%ks, [6, 8, 5])\n%p = aten.bmm(%qv, %kv)\n" \
    "%s0 = aten.view(%p, [2, 3, 4, 5])\n"
#define GUARD                                                              \
    "%w0 = aten._softmax(%s, -1, false)\n%eq = aten.eq.Scalar(%s, -inf)\n" \
    "%no = aten.logical_not(%eq)\n%any = aten.any.dim(%no, -1, true)\n"    \
    "%none = aten.logical_not(%any)\n%zero = aten.full_like(%w0, 0)\n"     \
    "%w = aten.where.self(%none, %zero, %w0)\n"
#define VALUES                                                                                   \
    "%we = aten.view(%w, [6, 4, 5])\n%vv = aten.view(%v, [6, 5, 6])\n%y0 = aten.bmm(%we, %vv)\n" \
    "%y = aten.view(%y0, [2, 3, 4, 6])\noutput \"o\" = %y }"

static const struct {
    bool matches;
    const char *text;
} attentions[] = {
    {true, "graph g {" QKV "const %m: float32[4, 5] = random(4)\n" SCORES
           "%s = aten.add.Tensor(%s0, %m)\n" GUARD VALUES},
    /* the first row of the mask takes everything */
    {true,
     "graph g {" QKV
     "const %m: float32[1, 4, 5] = {-inf, -inf, -inf, -inf, -inf, 0, -inf, 0, 0, 0, 0, 0, 0, 0, 0,"
     " 0, 0, 0, 0, -inf}\n" SCORES "%s = aten.add.Tensor(%m, %s0)\n" GUARD VALUES},
    {true, "graph g {" QKV SCORES "%s = aten.view(%s0, [2, 3, 4, 5])\n" GUARD VALUES},
    {true, "graph g {" QKV SCORES "%w = aten._softmax(%s0, 3, false)\n" VALUES},
    /* the values' own view merges with the one before the product */
    {true, "graph g {const %q: float32[2, 3, 4, 8] = random(1)\nconst %k: float32[2, 3, 5, 8] = "
           "random(2)\n"
           "const %v0: float32[1, 2, 3, 5, 6] = random(3)\n%v = aten.squeeze.dim(%v0, 0)\n" SCORES
           "%w = aten._softmax(%s0, 3, false)\n" VALUES},
    /* k was scaled as (t, d), and the scale of the product stands behind it */
    {true,
     "graph g {" QKV "%k1 = aten.mul.Tensor(%k, 0.5)\n%kt = aten.transpose.int(%k1, 2, 3)\n"
     "%s0 = aten.matmul(%q, %kt)\n%s = aten.mul.Tensor(%s0, 0.25)\n%w = aten.softmax.int(%s, -1)\n"
     "%y = aten.matmul(%w, %v)\noutput \"o\" = %y }"},
    {true, "graph g {" QKV SCORES
           "%s = aten.div.Tensor(%s0, 2.0)\n%w = aten._softmax(%s, 3, false)\n" VALUES},
    {true, "graph g {" QKV "const %m: float32[4, 5] = random(4)\n" SCORES
           "%s = aten.add.Tensor(%s0, %m)\n%w = aten._softmax(%s, -1, false)\n" VALUES},
    {true, "graph g {" QKV SCORES "%w = aten._safe_softmax(%s0, -1)\n" VALUES},
    /* softmax over another dimension; scores that are returned too; a mask with more dimensions */
    {false, "graph g {" QKV SCORES "%w = aten._softmax(%s0, 2, false)\n" VALUES},
    {false, "graph g {" QKV SCORES "%w = aten._softmax(%s0, 3, false)\noutput \"w\" = %w\n" VALUES},
    /* no guard: a row that is masked altogether is NaN */
    {false, "graph g {" QKV
            "const %m: float32[4, 5] = {-inf, -inf, -inf, -inf, -inf, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,"
            " 0, 0, 0, 0, 0}\n" SCORES
            "%s = aten.add.Tensor(%s0, %m)\n%w = aten._softmax(%s, -1, false)\n" VALUES},
};

START_TEST(attention) {
    const char *text = attentions[_i].text;
    tenon_graph *graph = pass_parse(text);
    pass_run_all(graph, "lower lower_all views attention views dead_shapes");
    ck_assert_msg(count_op(graph, "aten.scaled_dot_product_attention") == attentions[_i].matches,
                  "case %d", _i);
    if (attentions[_i].matches)
        ck_assert_int_le(tenon_graph_node_count(graph) - count_op(graph, "aten.view"), 1);
    tenon_graph_destroy(&graph);
    pass_same(text, "lower lower_all views attention", 2e-6);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pass_recognise");
    TCase *tests = tcase_create("all");
    tcase_add_loop_test(tests, patterns, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(tests, whole_patterns_leave_one_node);
    tcase_add_test(tests, layer_norm_needs_gamma_of_its_own_shape);
    tcase_add_loop_test(tests, attention, 0, (int)(sizeof attentions / sizeof *attentions));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
