/* What goes into constant weights: scales, transposes as strides, and projections of one input. */
#include "core/graph.h"
#include "pass_test.h"
#include "suite.h"

#define OUT "output \"o\" = %y }"
#define LINEAR                                                                                \
    "graph g { const %x: float32[2, 3, 4] = random(1)\nconst %w: float32[5, 4] = random(2)\n" \
    "const %b: float32[5] = random(3)\nconst %c: float32[5] = random(4)\n"                    \
    "const %d: float32[4] = random(5)\n"
#define IMAGE                                                                       \
    "graph g { const %x: float32[1, 4, 5, 6] = random(1)\n"                         \
    "const %w: float32[6, 2, 3, 3] = random(2)\nconst %b: float32[6] = random(3)\n" \
    "const %c: float32[6, 1, 1] = random(4)\nconst %d: float32[1, 4, 1, 1] = random(5, 1, 2)\n"
#define CONV(x, b) "aten.convolution(%" x ", %w, " b ", [1, 1], [1, 1], [1, 1], false, [0, 0], 2)\n"
#define TURNED                                                                      \
    "graph g { const %x: float32[1, 6, 3, 3] = random(1)\n"                         \
    "const %w: float32[6, 2, 3, 3] = random(2)\nconst %b: float32[4] = random(3)\n" \
    "const %c: float32[4, 1, 1] = random(4)\nconst %d: float32[6, 1, 1] = random(5)\n"
#define TRANSPOSED(x) "aten.convolution(%" x ", %w, %b, [2, 2], [1, 1], [1, 1], true, [1, 1], 2)\n"

/* Scales that go: what is left is the product alone. */
static const char *const folded[] = {
    LINEAR "%z = aten.linear(%x, %w, %b)\n%y = aten.mul.Tensor(%z, 0.125)\n" OUT,
    LINEAR "%z = aten.linear(%x, %w)\n%y = aten.mul.Tensor(%c, %z)\n" OUT,
    LINEAR "%z = aten.linear(%x, %w, %b)\n%y = aten.div.Tensor(%z, %c)\n" OUT,
    LINEAR "%z = aten.mul.Scalar(%x, 3)\n%y = aten.linear(%z, %w, %b)\n" OUT,
    LINEAR "%z = aten.div.Tensor(%x, %d)\n%y = aten.linear(%z, %w, %b)\n" OUT,
    /* both, one after the other */
    LINEAR "%p = aten.mul.Tensor(%x, %d)\n%q = aten.linear(%p, %w, %b)\n"
           "%r = aten.div.Tensor(%q, 3)\n%y = aten.mul.Tensor(%r, %c)\n" OUT,
    IMAGE "%z = " CONV("x", "%b") "%y = aten.mul.Tensor(%z, %c)\n" OUT,
    IMAGE "%z = aten.mul.Tensor(%d, %x)\n%y = " CONV("z", "%b") OUT,
    IMAGE "%z = aten.div.Tensor(%x, %d)\n%y = tenon.padded_convolution(%z, %w, none, [1, 1], "
          "[0, 1], [1, 1], false, [0, 0], 2, [1, 1])\n" OUT,
    TURNED "%z = " TRANSPOSED("x") "%y = aten.mul.Tensor(%z, %c)\n" OUT,
    TURNED "%z = aten.mul.Tensor(%x, %d)\n%y = " TRANSPOSED("z") OUT,
    "graph g { const %x: float32[3, 4] = random(1)\nconst %w: float32[4, 5] = random(2)\n"
    "const %b: float32[5] = random(3)\nconst %c: float32[1, 5] = random(4)\n"
    "const %d: float32[4] = random(5)\n%p = aten.mul.Tensor(%x, %d)\n"
    "%q = aten.addmm(%b, %p, %w, beta=0.5, alpha=2)\n%y = aten.mul.Tensor(%q, %c)\n" OUT,
    "graph g { const %x: float64[3, 4] = random(1)\nconst %w: float64[4, 5] = random(2)\n"
    "%q = aten.mm(%x, %w)\n%y = aten.mul.Tensor(%q, -2)\n" OUT,
};

START_TEST(scales_go_into_weights) {
    tenon_graph *graph = pass_parse(folded[_i]);
    pass_run_all(graph, "scales");
    ck_assert_int_eq(tenon_graph_node_count(graph), 1);
    tenon_graph_destroy(&graph);
    pass_same(folded[_i], "scales", 2e-6);
}
END_TEST

static const char *const kept[] = {
    /* the product, the scaled input or the weight has another use */
    LINEAR "%z = aten.linear(%x, %w, %b)\n%y = aten.mul.Tensor(%z, 2)\noutput \"z\" = %z\n" OUT,
    LINEAR "%z = aten.mul.Tensor(%x, 2)\n%y = aten.linear(%z, %w)\noutput \"z\" = %z\n" OUT,
    LINEAR "%z = aten.linear(%x, %w, %b)\n%y = aten.mul.Tensor(%z, 2)\noutput \"w\" = %w\n" OUT,
    /* by rows; by a value; a number over it; into no constant; what no weight can say */
    LINEAR "const %r: float32[3, 1] = random(6)\n%z = aten.linear(%x, %w)\n"
           "%y = aten.mul.Tensor(%z, %r)\n" OUT,
    LINEAR "input %s: float32[5]\n%z = aten.linear(%x, %w)\n%y = aten.mul.Tensor(%z, %s)\n" OUT,
    LINEAR "%z = aten.linear(%x, %w)\n%y = aten.div.Tensor(2, %z)\n" OUT,
    LINEAR "input %v: float32[5, 4]\n%z = aten.linear(%x, %v)\n%y = aten.mul.Tensor(%z, 2)\n" OUT,
    LINEAR "%z = aten.linear(%x, %w)\n%y = aten.div.Tensor(%z, 0)\n" OUT,
    /* more dimensions, more channels, a wider dtype */
    LINEAR "const %r: float32[1, 1, 1, 5] = random(6)\n%z = aten.linear(%x, %w)\n"
           "%y = aten.mul.Tensor(%z, %r)\n" OUT,
    "graph g { const %x: float32[3, 1] = random(1)\nconst %w: float32[5, 4] = random(2)\n"
    "const %d: float32[4] = random(5)\n%z = aten.mul.Tensor(%x, %d)\n%y = aten.linear(%z, "
    "%w)\n" OUT,
    LINEAR "const %r: float64[5] = random(6)\n%z = aten.linear(%x, %w)\n"
           "%y = aten.mul.Tensor(%z, %r)\n" OUT,
    "graph g { input %x: int32[3, 4]\nconst %w: float32[5, 4] = random(2)\n"
    "%z = aten.mul.Tensor(%x, 0.5)\n%y = aten.linear(%z, %w)\n" OUT,
    "graph g { input %x: float16[3, 4]\nconst %w: float16[5, 4] = random(2)\n"
    "%z = aten.mul.Tensor(%x, 0.3)\n%y = aten.linear(%z, %w)\n" OUT,
    /* along the width, not the channels */
    IMAGE
    "const %r: float32[6] = random(6)\n%z = " CONV("x", "%b") "%y = aten.mul.Tensor(%z, %r)\n" OUT,
};

START_TEST(scales_stay) {
    pass_keeps(kept[_i], "scales");
}
END_TEST

/* ---- Transposes ---- */

START_TEST(transposes_become_strides) {
    static const char *const turned[] = {
        "%t = aten.t(%w)\n",
        "%t = aten.transpose.int(%w, 0, -1)\n",
        "%t = aten.permute(%w, [1, 0])\n",
        "%u = aten.unsqueeze(%w, 0)\n%v = aten.permute(%u, [2, 1, 0])\n%t = aten.squeeze(%v)\n",
    };
    for (int i = 0; i < (int)(sizeof turned / sizeof *turned); i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "graph g { input %%x: float32[3, 4]\nconst %%w: float32[4, 5] = random(2)\n%s"
                 "%%y = aten.linear(%%x, %%t)\noutput \"o\" = %%y }",
                 turned[i]);
        tenon_graph *graph = pass_parse(text);
        const void *memory =
            tenon_tensor_view(tenon_value_tensor(tenon_graph_find_value(graph, "w")))->data;
        pass_run_all(graph, "fold");
        ck_assert_int_eq(tenon_graph_node_count(graph), 1);
        const tenon_node *linear = tenon_graph_first_node(graph);
        const tenon_view *view =
            tenon_tensor_view(tenon_value_tensor(tenon_node_arg(linear, 1).as.value));
        ck_assert_ptr_eq(view->data, memory);
        ck_assert(view->strides[0] == 1 && view->strides[1] == 5);
        tenon_graph_destroy(&graph);
    }
}
END_TEST

START_TEST(transposes_of_values_stay) {
    pass_keeps("graph g { input %x: float32[3, 4]\ninput %w: float32[4, 5]\n%t = aten.t(%w)\n"
               "%y = aten.linear(%x, %t)\n" OUT,
               "fold");
}
END_TEST

/* ---- Projections ---- */

#define ROWS(rows)                                                                 \
    "graph g { const %x: float32[1, " rows ", 4] = random(1)\n"                    \
    "const %wq: float32[4, 4] = random(2)\nconst %wk: float32[2, 4] = random(3)\n" \
    "const %wv: float32[2, 4] = random(4)\nconst %bq: float32[4] = random(5)\n"    \
    "const %bk: float32[2] = random(6)\nconst %bv: float32[2] = random(7)\n"
#define VIEWS(rows)                                                                        \
    "%qh = aten.view(%q, [1, " rows ", 2, 2])\n%kh = aten.view(%k, [1, " rows ", 2, 1])\n" \
    "%vh = aten.view(%v, [1, " rows ", 2, 1])\noutput \"q\" = %qh\noutput \"k\" = %kh\n"   \
    "output \"v\" = %vh }"
#define BIASED                                                         \
    "%q = aten.linear(%x, %wq, %bq)\n%k = aten.linear(%x, %wk, %bk)\n" \
    "%v = aten.linear(%x, %wv, %bv)\n"
#define PLAIN(rest) \
    "%q = aten.linear(%x, %wq)\n%k = aten.linear(%x, %wk)\n" rest "%v = aten.linear(%x, %wv)\n"

static const char *const projections[] = {ROWS("3") BIASED VIEWS("3"),
                                          ROWS("3") PLAIN("") VIEWS("3")};

START_TEST(projections_become_one) {
    tenon_graph *graph = pass_parse(projections[_i]);
    pass_run_all(graph, "qkv");
    int linears = 0, slices = 0;
    for (const tenon_node *n = tenon_graph_first_node(graph); n; n = tenon_node_next(n)) {
        linears += strcmp(tenon_node_op(n), "aten.linear") == 0;
        slices += strcmp(tenon_node_op(n), "aten.slice.Tensor") == 0;
    }
    ck_assert_int_eq(linears, 1);
    ck_assert_int_eq(slices, 3);
    ck_assert_int_eq(tenon_graph_node_count(graph), 7);
    tenon_graph_destroy(&graph);
    pass_same(projections[_i], "qkv", 1e-6);
}
END_TEST

static const char *const separate[] = {
    /* a long sequence; one that is not known; many channels */
    "graph g { input %x: float32[2, 1025]\nconst %wq: float32[4, 1025] = random(2)\n"
    "const %wk: float32[4, 1025] = random(3)\n%q = aten.linear(%x, %wq)\n"
    "%k = aten.linear(%x, %wk)\n%qt = aten.view(%q, [2, 2, 2])\n%kt = aten.view(%k, [2, 2, 2])\n"
    "output \"q\" = %qt\noutput \"k\" = %kt }",
    ROWS("17") BIASED VIEWS("17"),
    "graph g { input %x: float32[1, s0, 4]\nconst %wq: float32[4, 4] = random(2)\n"
    "const %wk: float32[4, 4] = random(3)\n%q: float32[1, ?, 4] = aten.linear(%x, %wq)\n"
    "%k: float32[1, ?, 4] = aten.linear(%x, %wk)\n%qt: float32[1, 4, ?] = aten.mT(%q)\n"
    "%kt: float32[1, 4, ?] = aten.mT(%k)\noutput \"q\" = %qt\noutput \"k\" = %kt }",
    /* one has a bias; others fuse with what reads them; a weight that stays needed; other inputs */
    ROWS("3") "%q = aten.linear(%x, %wq, %bq)\n%k = aten.linear(%x, %wk)\n"
              "%qt = aten.mT(%q)\n%kt = aten.mT(%k)\noutput \"q\" = %qt\noutput \"k\" = %kt }",
    ROWS("3") "%q = aten.linear(%x, %wq)\n%k = aten.linear(%x, %wk)\n"
              "%qt = aten.mT(%q)\n%kt = aten.silu(%k)\noutput \"q\" = %qt\noutput \"k\" = %kt }",
    ROWS("3") "%q = aten.linear(%x, %wq)\n%k = aten.linear(%x, %wk)\n%qt = aten.mT(%q)\n"
              "%kt = aten.mT(%k)\noutput \"q\" = %qt\noutput \"k\" = %kt\noutput \"w\" = %wk }",
    ROWS("3") "%z = aten.relu(%x)\n%q = aten.linear(%x, %wq)\n%k = aten.linear(%z, %wk)\n"
              "%qt = aten.mT(%q)\n%kt = aten.mT(%k)\noutput \"q\" = %qt\noutput \"k\" = %kt }",
};

START_TEST(layers_stay_apart) {
    pass_keeps(separate[_i], "qkv");
}
END_TEST

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

int main(void) {
    Suite *suite = suite_create("pass_weights");
    TCase *tests = tcase_create("all");
    tcase_add_loop_test(tests, scales_go_into_weights, 0, COUNT(folded));
    tcase_add_loop_test(tests, scales_stay, 0, COUNT(kept));
    tcase_add_test(tests, transposes_become_strides);
    tcase_add_test(tests, transposes_of_values_stay);
    tcase_add_loop_test(tests, projections_become_one, 0, COUNT(projections));
    tcase_add_loop_test(tests, layers_stay_apart, 0, COUNT(separate));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
