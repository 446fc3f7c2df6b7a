/* Numbers as operands, second names of ops, copies, and attention masks. */
#include "pass_test.h"
#include "suite.h"

typedef struct rewrite {
    const char *before, *after; /* NULL: it stays */
} rewrite;

#define X "graph g { input %x: float32[4, 9]\n"
#define OUT "output \"o\" = %y }"

static const rewrite scalars[] = {
    {X "%a = aten.add.Scalar(%x, 2, 3)\n%b = aten.multiply.Tensor(%a, %x)\n"
       "%c = aten.div.Scalar_mode(%b, 2.5, rounding_mode=\"floor\")\n"
       "%y = aten.less_equal.Scalar(%c, 1)\n" OUT,
     X "%a = aten.add.Tensor(%x, 2, alpha=3)\n%b = aten.mul.Tensor(%a, %x)\n"
       "%c = aten.div.Tensor_mode(%b, 2.5, rounding_mode=\"floor\")\n"
       "%y = aten.le.Tensor(%c, 1)\n" OUT},
    {X "%y = aten.rsub.Scalar(%x, 1, 2)\n" OUT, X "%y = aten.sub.Tensor(1, %x, alpha=2)\n" OUT},
    {X "%c = aten.gt.Scalar(%x, 0)\n%a = aten.where.ScalarOther(%c, %x, 0.5)\n"
       "%y = aten.masked_fill.Scalar(%a, %c, -1)\n" OUT,
     X "%c = aten.gt.Tensor(%x, 0)\n%a = aten.where.self(%c, %x, 0.5)\n"
       "%y = aten.masked_fill.Tensor(%a, %c, -1)\n" OUT},
    /* a power by a number has rules of its own, and copysign reads the sign of a zero */
    {X "%a = aten.pow.Tensor_Scalar(%x, 2)\n%y = aten.copysign.Scalar(%a, -0.0)\n" OUT, NULL},
};

START_TEST(numbers_and_names_get_one_form) {
    const rewrite *r = &scalars[_i];
    pass_check(r->before, "scalars", r->after ? r->after : r->before);
}
END_TEST

#define S "const %x: float32[2, 5] = random(1, -4, 4)\nconst %i: int32[3] = {-7, 0, 9}\n"

START_TEST(the_numbers_stay) {
    pass_same("graph g {" S "%a = aten.add.Scalar(%i, 2.5)\n%b = aten.rsub.Scalar(%i, 3, 2)\n"
              "%c = aten.rsub.Tensor(%x, %x, alpha=0.5)\n%d = aten.remainder.Scalar(%i, 4)\n"
              "%e = aten.floor_divide.Scalar(%i, 2)\n%f = aten.true_divide.Scalar(%i, 2)\n"
              "%m = aten.lt.Scalar(%x, 0.1)\n%n = aten.where.ScalarSelf(%m, 2, %x)\n"
              "%p = aten.clip(%x, none, 1)\n%q = aten.bitwise_xor.Scalar(%i, 5)\n"
              "output \"a\" = %a\noutput \"b\" = %b\noutput \"c\" = %c\noutput \"d\" = %d\n"
              "output \"e\" = %e\noutput \"f\" = %f\noutput \"n\" = %n\noutput \"p\" = %p\n"
              "output \"q\" = %q }",
              "scalars", 0);
}
END_TEST

/* ---- Copies ---- */

START_TEST(copies_of_inputs_go) {
    pass_check(X "%a = aten.clone(%x)\n%b = aten.detach(%a)\n%c = aten.contiguous(%b)\n"
                 "%y = aten.relu(%c)\n" OUT,
               "drop", X "%y = aten.relu(%x)\n" OUT);
}
END_TEST

/* A copy that is returned is memory of its own, and stays one. */
START_TEST(outputs_that_are_inputs_are_copies) {
    static const char text[] = X "%y = aten.clone(%x)\noutput \"o\" = %y\noutput \"x\" = %x }";
    pass_check(text, "drop repair",
               X
               "%y = aten.clone(%x)\n%z = aten.clone(%x)\noutput \"o\" = %y\noutput \"x\" = %z }");
    pass_keeps(X "%a = aten.relu(%x)\n%y = aten.view(%a, [36])\n" OUT, "repair");
}
END_TEST

START_TEST(casts_are_no_copies) {
    pass_keeps(X "%a = aten._to_copy(%x, dtype=float16)\n%y = aten.relu(%a)\n" OUT, "drop");
}
END_TEST

/* ---- Masks ---- */

#define QK(l, s)                                                                          \
    "graph g { const %q: float32[1, 2, " l ", 4] = random(1)\nconst %k: float32[1, 2, " s \
    ", 4] = random(2)\nconst %v: float32[1, 2, " s ", 4] = random(3)\n"
#define ATTEND(rest) "%y = aten.scaled_dot_product_attention(%q, %k, %v" rest ")\n" OUT
#define MASKED "%y = aten.scaled_dot_product_attention(%q, %k, %v, %m)\n" OUT

static const rewrite masks[] = {
    {QK("3", "3") "const %m: float32[3, 3] = {0, -inf, -inf, 0, 0, -inf, 0, 0, 0}\n" MASKED,
     QK("3", "3") ATTEND(", none, 0.0, true")},
    {QK("2", "3") "const %m: float32[1, 1, 2, 3] = {0, -3.4028235e38, -1e9, 0, 0, -1e30}\n" MASKED,
     QK("2", "3") ATTEND(", none, 0.0, true")},
    /* truth values, the same for both heads */
    {QK("2",
        "2") "const %m: bool[1, 2, 2, 2] = {true, false, true, true, true, false, true, true}\n"
             "%y = aten.scaled_dot_product_attention(%q, %k, %v, %m, scale=0.25)\n" OUT,
     QK("2", "2") ATTEND(", none, 0.0, true, scale=0.25")},
    /* it hides nothing */
    {QK("2", "3") "const %m: bool[1, 3] = {true, true, true}\n" MASKED, QK("2", "3") ATTEND("")},
    /* the corner is at the bottom right; the heads differ; a number that only weighs; the diagonal
     * is hidden; one row for all */
    {QK("2", "3") "const %m: float32[2, 3] = {0, 0, -inf, 0, 0, 0}\n" MASKED, NULL},
    {QK("2", "2") "const %m: bool[1, 2, 2, 2] = {true, false, true, true, true, true, true, "
                  "true}\n" MASKED,
     NULL},
    {QK("2", "2") "const %m: float32[2, 2] = {0, -10000, 0, 0}\n" MASKED, NULL},
    {QK("2", "2") "const %m: float32[2, 2] = {-inf, -inf, 0, -inf}\n" MASKED, NULL},
    {QK("2", "2") "const %m: float32[1, 2] = {0, -inf}\n" MASKED, NULL},
};

START_TEST(causal_masks_are_found) {
    const rewrite *r = &masks[_i];
    pass_check(r->before, "causal dead_shapes", r->after ? r->after : r->before);
    pass_same(r->before, "causal", 1e-6);
}
END_TEST

/* A mask that the graph builds: of arange and compare, of tril, and with where. */
#define L                                                                      \
    "graph g { input %q: float32[1, 2, 5, 4]\ninput %k: float32[1, 2, 5, 4]\n" \
    "input %v: float32[1, 2, 5, 4]\n"

START_TEST(built_masks_are_found) {
    static const char *const built[] = {
        L "%i = aten.arange(5)\n%r = aten.unsqueeze(%i, 1)\n%m = aten.le.Tensor(%i, %r)\n" MASKED,
        L "%o = aten.ones([5, 5], dtype=bool)\n%m = aten.tril(%o)\n" MASKED,
        L "%i = aten.arange(5)\n%r = aten.view(%i, [5, 1])\n%g = aten.gt.Tensor(%i, %r)\n"
          "%m0 = aten.where.Scalar(%g, -inf, 0.0)\n%m1 = aten.unsqueeze(%m0, 0)\n"
          "%m = aten.expand(%m1, [1, 2, 5, 5])\n" MASKED,
        L "%f = aten.full([5, 5], -3.4028234663852886e38)\n%m = aten.triu(%f, 1)\n" MASKED,
    };
    pass_check(built[_i], "fold_shapes causal dead_shapes", L ATTEND(", none, 0.0, true"));
}
END_TEST

/* Masks that choose among scores become masks that are added, and then attentions. */
#define SCORES                                                                                \
    "graph g { input %q: float32[1, 3, 4]\ninput %k: float32[1, 4, 3]\n"                      \
    "input %v: float32[1, 3, 4]\nconst %keep: bool[3, 3] = {true, false, false, true, true, " \
    "false, true, true, true}\nconst %drop: bool[1, 3] = {false, false, true}\n"              \
    "const %all: bool[3, 1] = {false, true, false}\n%s = aten.bmm(%q, %k)\n"
#define WEIGH "%p = aten._softmax(%m, -1, false)\n%y = aten.bmm(%p, %v)\n" OUT
#define ADD(c, shape, numbers) \
    SCORES "const %c: float32[" shape "] = {" numbers "}\n%m = aten.add.Tensor(%s, %c)\n" WEIGH

static const rewrite choices[] = {
    {SCORES "%m = aten.where.self(%keep, %s, -inf)\n" WEIGH,
     ADD("c", "3, 3", "0, -inf, -inf, 0, 0, -inf, 0, 0, 0")},
    {SCORES "%m = aten.masked_fill.Scalar(%s, %drop, -1e10)\n" WEIGH,
     ADD("c", "1, 3", "0, 0, -inf")},
    {SCORES "%m = aten.where.self(%drop, -3.4028234663852886e38, %s)\n" WEIGH,
     ADD("c", "1, 3", "0, 0, -inf")},
    /* a row of which nothing is left; a number that keeps some weight; weights over rows; scores
     * that are read elsewhere too */
    {SCORES "%m = aten.masked_fill.Scalar(%s, %all, -inf)\n" WEIGH, NULL},
    {SCORES "%m = aten.where.self(%keep, %s, -10.0)\n" WEIGH, NULL},
    {SCORES "%m = aten.where.self(%keep, %s, -inf)\n%p = aten._softmax(%m, 1, false)\n"
            "%y = aten.bmm(%p, %v)\n" OUT,
     NULL},
    {SCORES "%m = aten.where.self(%keep, %s, -inf)\noutput \"m\" = %m\n" WEIGH, NULL},
};

START_TEST(chosen_masks_are_added) {
    const rewrite *r = &choices[_i];
    pass_check(r->before, "masks", r->after ? r->after : r->before);
}
END_TEST

START_TEST(layers_share_a_mask) {
    tenon_graph *graph =
        pass_parse("graph g { input %s: float32[1, 3, 3]\nconst %k: bool[3, 3] = {true, false, "
                   "false, true, true, false, true, true, true}\n"
                   "%a = aten.where.self(%k, %s, -inf)\n%b = aten._softmax(%a, -1, false)\n"
                   "%c = aten.where.self(%k, %b, -inf)\n%d = aten._softmax(%c, -1, false)\n"
                   "%e = aten.masked_fill.Scalar(%d, %k, -inf)\n"
                   "%y = aten._softmax(%e, -1, false)\n" OUT);
    pass_run_all(graph, "masks");
    const tenon_value *added[3] = {NULL};
    int count = 0;
    for (const tenon_node *n = tenon_graph_first_node(graph); n; n = tenon_node_next(n))
        if (strcmp(tenon_node_op(n), "aten.add.Tensor") == 0 && count < 3)
            added[count++] = tenon_node_arg(n, 1).as.value;
    ck_assert_int_eq(count, 2); /* the last would hide a whole row */
    ck_assert_ptr_eq(added[0], added[1]);
    tenon_graph_destroy(&graph);
}
END_TEST

/* The attention of minGPT: the triangle is a constant, scores outside of it are filled. */
START_TEST(filled_scores_are_causal_attention) {
    static const char text[] =
        "graph g { const %q: float32[1, 2, 5, 4] = random(1)\n"
        "const %k: float32[1, 2, 5, 4] = random(2)\nconst %v: float32[1, 2, 5, 4] = random(3)\n"
        "%o = aten.ones([8, 8])\n%l = aten.tril(%o)\n%b = aten.view(%l, [1, 1, 8, 8])\n"
        "%b1 = aten.slice.Tensor(%b, 2, 0, 5)\n%b2 = aten.slice.Tensor(%b1, 3, 0, 5)\n"
        "%z = aten.eq.Scalar(%b2, 0)\n%t = aten.transpose.int(%k, -2, -1)\n"
        "%a = aten.matmul(%q, %t)\n%s = aten.mul.Tensor(%a, 0.5)\n"
        "%m = aten.masked_fill.Scalar(%s, %z, -inf)\n%p = aten.softmax.int(%m, -1)\n"
        "%y = aten.matmul(%p, %v)\n" OUT;
    char inputs[2048];
    const char *rest = strstr(text, "%o = ");
    snprintf(inputs, sizeof inputs,
             "graph g { input %%q: float32[1, 2, 5, 4]\ninput %%k: float32[1, 2, 5, 4]\n"
             "input %%v: float32[1, 2, 5, 4]\n%s",
             rest);
    pass_check(inputs,
               "scalars lower lower_all fold_shapes slices views masks attention causal "
               "views_last dead_shapes",
               "graph g { input %q: float32[1, 2, 5, 4]\ninput %k: float32[1, 2, 5, 4]\n"
               "input %v: float32[1, 2, 5, 4]\n%y = aten.scaled_dot_product_attention(%q, %k, %v, "
               "none, 0.0, true, scale=0.5)\n" OUT);
    pass_same(text, "scalars lower lower_all slices views masks attention causal views_last", 2e-6);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pass_forms");
    TCase *tests = tcase_create("all");
    tcase_add_loop_test(tests, numbers_and_names_get_one_form, 0,
                        (int)(sizeof scalars / sizeof *scalars));
    tcase_add_test(tests, the_numbers_stay);
    tcase_add_test(tests, copies_of_inputs_go);
    tcase_add_test(tests, outputs_that_are_inputs_are_copies);
    tcase_add_test(tests, casts_are_no_copies);
    tcase_add_loop_test(tests, causal_masks_are_found, 0, (int)(sizeof masks / sizeof *masks));
    tcase_add_loop_test(tests, built_masks_are_found, 0, 4);
    tcase_add_loop_test(tests, chosen_masks_are_added, 0, (int)(sizeof choices / sizeof *choices));
    tcase_add_test(tests, layers_share_a_mask);
    tcase_add_test(tests, filled_scores_are_causal_attention);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
