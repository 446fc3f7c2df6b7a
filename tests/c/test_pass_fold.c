/* Constants, equal nodes, batch norm in weights, views, layouts, outputs, and the list of passes
 * itself. */
#include "core/graph.h"
#include "pass_test.h"
#include "suite.h"
#include <pthread.h>

/* ---- Constants ---- */

START_TEST(constants_fold_through_kernels_and_views) {
    tenon_graph *graph = pass_parse("graph g { input %x: float32[3, 2]\n"
                                    "  const %w: float32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                                    "  %t = aten.permute(%w, [1, 0])\n"
                                    "  %m = aten.mul.Tensor(%t, 2.0)\n"
                                    "  %y = aten.add.Tensor(%x, %m)\n"
                                    "  output \"o\" = %y\n  output \"t\" = %t }");
    ck_assert_int_eq(pass_run(graph, "fold"), TENON_OK);
    ck_assert_int_eq(tenon_graph_node_count(graph), 1);
    const tenon_view *view = pass_output(graph, 1);
    const tenon_view *base =
        tenon_tensor_view(tenon_value_tensor(tenon_graph_find_value(graph, "w")));
    ck_assert_ptr_eq(view->data, base->data); /* the same memory, with other strides */
    static const double permuted[] = {1, 4, 2, 5, 3, 6};
    for (int i = 0; i < 6; i++)
        ck_assert_double_eq(pass_element(view, i), permuted[i]);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(large_results_are_left_to_the_run) {
    pass_keeps("graph g { %z = aten.zeros([4096, 4096])\n  output \"o\" = %z }", "fold");
    /* an expanded constant costs nothing; adding to it would */
    tenon_graph *graph = pass_parse("graph g { const %c: float32[1, 1] = {1}\n"
                                    "  %e = aten.expand(%c, [4096, 4096])\n"
                                    "  %y = aten.add.Tensor(%e, 1)\n  output \"o\" = %y }");
    ck_assert_int_eq(pass_run(graph, "fold"), TENON_OK);
    ck_assert_int_eq(tenon_graph_node_count(graph), 1);
    ck_assert_str_eq(tenon_node_op(tenon_graph_first_node(graph)), "aten.add.Tensor");
    tenon_graph_destroy(&graph);
}
END_TEST

/* Division by zero is an error of the run, not of the compiler, and never a crash (field case 23).
 */
START_TEST(what_a_kernel_refuses_is_left_to_the_run) {
    pass_keeps("graph g { const %a: int32[2] = {1, 2}\n  const %b: int32[2] = {0, 1}\n"
               "  %y = aten.floor_divide(%a, %b)\n  output \"o\" = %y }",
               "fold");
}
END_TEST

START_TEST(buffers_are_not_constants_unless_nobody_writes_them) {
    const char *text = "graph g { input %x: float32[2]\n  buffer %a: float32[2] = {1, 2}\n"
                       "  buffer %b: float32[2] = {3, 4}\n  %c = aten.add.Tensor(%a, %x)\n"
                       "  %d = aten.mul.Tensor(%b, 2.0)\n  write %a <- %c\n  output \"o\" = %d }";
    pass_keeps(text, "fold");
    tenon_graph *graph = pass_parse(text);
    pass_run_all(graph, "freeze fold");
    ck_assert_int_eq(tenon_value_get_kind(tenon_graph_find_value(graph, "a")), TENON_VALUE_BUFFER);
    ck_assert_double_eq(pass_element(pass_output(graph, 0), 1), 8);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(dead_nodes_are_left_to_others) {
    pass_keeps("graph g { const %a: float32[2] = {1, 2}\n  %b = aten.cat([%a, %a])\n"
               "  output \"o\" = %a }",
               "fold");
}
END_TEST

/* Kernels of several results compute each, whichever of the others is used. */
START_TEST(each_result_alone) {
    static const struct {
        const char *call;
        int results;
    } ops[] = {
        {"aten.max.dim(%x, 1)", 2},
        {"aten.min.dim(%x, -1, true)", 2},
        {"aten.var_mean.correction(%x, [1], correction=0)", 2},
        {"aten.std_mean.dim(%x, [2])", 2},
        {"aten.native_layer_norm(%x, [4, 5], none, none, 1e-05)", 3},
        {"aten.native_group_norm(%x, none, none, 2, 4, 5, 2, 1e-05)", 3},
        {"aten._native_batch_norm_legit.no_stats(%x, none, none, true, 0.1, 1e-05)", 3},
        {"aten.sort(%x)", 2},
        {"aten.topk(%x, 2)", 2},
        {"aten.max_pool1d_with_indices(%x, [2])", 2},
        {"aten.max_pool2d_with_indices(%x, [3, 3], [1, 1], [1, 1])", 2},
        {"aten.adaptive_max_pool1d(%x, [2])", 2},
        {"aten.adaptive_max_pool2d(%x, [2, 3])", 2},
        {"aten.lstm.input(%x, [%h, %h], [%u, %w], false, 1, 0.0, false, false, true)", 3},
        {"aten.gru.input(%x, %h, [%v, %z], false, 1, 0.0, false, false, true)", 2},
    };
    const char *start =
        "graph g { const %x: float32[2, 4, 5] = random(1)\n"
        "const %h: float32[1, 2, 3] = random(2)\n"
        "const %u: float32[12, 5] = random(3)\nconst %w: float32[12, 3] = random(4)\n"
        "const %v: float32[9, 5] = random(3)\nconst %z: float32[9, 3] = random(4)\n";
    static const char *const names[] = {"%a", "%a, %b", "%a, %b, %c"};
    static const char *const all[] = {"", "output \"a\" = %a\noutput \"b\" = %b\n",
                                      "output \"a\" = %a\noutput \"b\" = %b\noutput \"c\" = %c\n"};
    for (int i = 0; i < (int)(sizeof ops / sizeof *ops); i++) {
        char text[2048];
        int count = ops[i].results;
        snprintf(text, sizeof text, "%s%s = %s\n%s }", start, names[count - 1], ops[i].call,
                 all[count - 1]);
        tenon_graph *together = pass_parse(text);
        pass_run_all(together, "fold");
        for (int k = 0; k < count; k++) {
            snprintf(text, sizeof text, "%s%s = %s\noutput \"o\" = %%%c }", start, names[count - 1],
                     ops[i].call, 'a' + k);
            tenon_graph *alone = pass_parse(text);
            pass_run_all(alone, "fold");
            const tenon_view *got = pass_output(alone, 0), *want = pass_output(together, k);
            for (int64_t n = 0; n < tenon_view_numel(want); n++)
                pass_near(ops[i].call, n, pass_element(got, n), pass_element(want, n), 0);
            tenon_graph_destroy(&alone);
        }
        tenon_graph_destroy(&together);
    }
}
END_TEST

/* ---- Equal nodes ---- */

START_TEST(equal_nodes_become_one) {
    pass_check("graph g { input %x: float32[2]\n  %a = aten.relu(%x)\n  %b = aten.relu(%x)\n"
               "  %c = aten.neg(%a)\n  %d = aten.neg(%b)\n  %e = aten.add.Tensor(%c, %d)\n"
               "  output \"o\" = %e }",
               "merge",
               "graph g { input %x: float32[2]\n  %a = aten.relu(%x)\n  %c = aten.neg(%a)\n"
               "  %e = aten.add.Tensor(%c, %c)\n  output \"o\" = %e }");
}
END_TEST

START_TEST(different_nodes_stay) {
    pass_keeps("graph g { input %x: float32[2]\n  %a = aten.add.Tensor(%x, 0.0)\n"
               "  %b = aten.add.Tensor(%x, -0.0)\n  %c = aten.add.Tensor(%x, 0)\n"
               "  %d = aten.gelu(%x)\n  %e = aten.gelu(%x, approximate=\"tanh\")\n"
               "  output \"a\" = %a\n  output \"b\" = %b\n  output \"c\" = %c\n"
               "  output \"d\" = %d\n  output \"e\" = %e }",
               "merge");
}
END_TEST

START_TEST(small_constants_merge_by_their_elements) {
    tenon_graph *graph =
        pass_parse("graph g { input %x: float32[2]\n  const %a: float32[] = {2}\n"
                   "  const %b: float32[] = {2}\n  const %c: float32[] = {3}\n"
                   "  %p = aten.mul.Tensor(%x, %a)\n  %q = aten.mul.Tensor(%x, %b)\n"
                   "  %r = aten.mul.Tensor(%x, %c)\n  output \"p\" = %p\n"
                   "  output \"q\" = %q\n  output \"r\" = %r }");
    pass_run_all(graph, "merge dead");
    ck_assert_int_eq(tenon_graph_node_count(graph), 2);
    ck_assert_int_eq(tenon_graph_constant_count(graph), 2);
    tenon_graph_destroy(&graph);
}
END_TEST

/* ---- Batch norm ---- */

#define NORM                                                                    \
    "const %g: float32[4] = {1, 2, 3, 4}\n  const %z: float32[4] = random(5)\n" \
    "  const %m: float32[4] = random(6)\n  const %v: float32[4] = {0.5, 1, 2, 0.25}\n"
#define APPLY                                                                                    \
    "  %n, %s, %t = aten._native_batch_norm_legit_no_training(%y, %g, %z, %m, %v, 0.1, 1e-05)\n" \
    "  output \"o\" = %n }"

static const char *const foldable[] = {
    "graph g { const %x: float32[2, 3, 5, 5] = random(1)\n  const %w: float32[4, 3, 3, 3] = "
    "random(2)\n" NORM
    "  %y = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)\n" APPLY,
    "graph g { const %x: float32[2, 4, 5, 5] = random(1)\n  const %w: float32[4, 2, 3, 3] = "
    "random(2)\n"
    "  const %b: float32[4] = random(3)\n" NORM
    "  %y = aten.convolution(%x, %w, %b, [2, 2], [0, 0], [1, 1], false, [0, 0], 2)\n" APPLY,
    /* transposed and grouped: the weight is (in, out / groups, ...) */
    "graph g { const %x: float32[1, 6, 3, 3] = random(1)\n  const %w: float32[6, 2, 3, 3] = "
    "random(2)\n"
    "  const %b: float32[4] = random(3)\n" NORM
    "  %y = aten.convolution(%x, %w, %b, [2, 2], [1, 1], [1, 1], true, [1, 1], 2)\n" APPLY,
    "graph g { const %x: float32[1, 6, 5] = random(1)\n  const %w: float32[6, 4, 3] = "
    "random(2)\n" NORM "  %y = aten.convolution(%x, %w, none, [1], [0], [1], true, [0], 1)\n" APPLY,
    "graph g { const %x: float32[3, 5] = random(1)\n  const %w: float32[4, 5] = random(2)\n"
    "  const %b: float32[4] = random(3)\n" NORM "  %y = aten.linear(%x, %w, %b)\n" APPLY,
    "graph g { const %x: float32[3, 5] = random(1)\n  const %w: float32[5, 4] = random(2)\n"
    "  const %b: float32[4] = random(3)\n" NORM
    "  %y = aten.addmm(%b, %x, %w, beta=0.5, alpha=2.0)\n" APPLY,
    "graph g { const %x: float32[3, 5] = random(1)\n  const %w: float32[5, 4] = random(2)\n"
    "  const %b: float32[1, 1] = {0.75}\n" NORM "  %y = aten.addmm(%b, %x, %w)\n" APPLY,
};

static int count_op(const tenon_graph *graph, const char *op) {
    int count = 0;
    for (const tenon_node *n = tenon_graph_first_node(graph); n; n = tenon_node_next(n))
        count += strcmp(tenon_node_op(n), op) == 0;
    return count;
}

START_TEST(batch_norm_goes_into_the_weight) {
    tenon_graph *graph = pass_parse(foldable[_i]);
    pass_run_all(graph, "fold_bn");
    ck_assert_msg(tenon_graph_node_count(graph) == 1, "case %d: %lld nodes", _i,
                  (long long)tenon_graph_node_count(graph));
    tenon_graph_destroy(&graph);
    pass_same(foldable[_i], "fold_bn", 1e-5);
}
END_TEST

/* Large weights wait: what packs, transforms or rounds them scales them. */
START_TEST(large_weights_wait) {
    static const char *const passes[] = {"weights", "layout convolve weights",
                                         "layout winograd weights", "scales weights",
                                         "layout depthwise convolve weights"};
    static const struct {
        const char *sizes, *rest;
    } cases[] = {{"[40, 40, 3, 3]", "[1, 1], [1, 1], [1, 1], false, [0, 0], 1"},
                 {"[40, 20, 3, 3]", "[1, 1], [1, 1], [1, 1], false, [0, 0], 2"},
                 {"[40, 40, 1, 1]", "[2, 2], [0, 0], [1, 1], false, [0, 0], 1"},
                 {"[40, 1, 6, 5]", "[1, 1], [2, 2], [1, 1], false, [0, 0], 40"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char texts[2][2048], *text = texts[0], all[128];
        for (int is = 0; is < 2; is++)
            snprintf(
                texts[is], sizeof texts[is],
                "graph g { %s %%x: float32[2, 40, 12, 12]%s\nconst %%w: float32%s = random(2)\n"
                "const %%b: float32[40] = random(3)\nconst %%g: float32[40] = random(4)\n"
                "const %%m: float32[40] = random(5)\nconst %%v: float32[40] = random(6, 0.5, 2)\n"
                "const %%f: float32[1, 40, 1, 1] = random(7)\n"
                "%%y = aten.convolution(%%x, %%w, none, %s)\n"
                "%%n, %%s, %%t = aten._native_batch_norm_legit_no_training(%%y, %%g, %%b, %%m, "
                "%%v, "
                "0.1, 1e-05)\n%%z = aten.mul.Tensor(%%n, %%f)\noutput \"o\" = %%z }",
                is ? "input" : "const", is ? "" : " = random(1)", cases[i].sizes, cases[i].rest);
        char *waiting = pass_apply(texts[1], "fold_bn fold");
        ck_assert_ptr_nonnull(strstr(waiting, "= aten.mul.Tensor(%w,"));
        tenon_string_free(waiting);
        snprintf(all, sizeof all, "fold_bn %s", passes[_i]);
        char *after = pass_apply(text, all);
        ck_assert_ptr_null(strstr(after, "= aten.mul.Tensor(%w,"));
        tenon_string_free(after);
        pass_same(text, all, _i == 2 ? 3e-4 : 2e-5); /* Winograd's are larger */
    }
}
END_TEST

static const char *const unfoldable[] = {
    /* the product has another use */
    "graph g { input %x: float32[2, 3, 5, 5]\n  const %w: float32[4, 3, 3, 3] = random(2)\n" NORM
    "  %y = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)\n"
    "  output \"y\" = %y\n" APPLY,
    /* the weight is not a constant */
    "graph g { input %x: float32[2, 3, 5, 5]\n  input %w: float32[4, 3, 3, 3]\n" NORM
    "  %y = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)\n" APPLY,
    /* the channels of batch norm are not the outputs of linear */
    "graph g { input %x: float32[3, 4, 5]\n  const %w: float32[4, 5] = random(2)\n" NORM
    "  %y = aten.linear(%x, %w)\n" APPLY,
    /* a bias over rows */
    "graph g { input %x: float32[3, 5]\n  const %w: float32[5, 4] = random(2)\n"
    "  const %b: float32[3, 4] = random(3)\n" NORM "  %y = aten.addmm(%b, %x, %w)\n" APPLY,
};

START_TEST(batch_norm_stays) {
    tenon_graph *graph = pass_parse(unfoldable[_i]);
    pass_run_all(graph, "fold_bn");
    ck_assert_int_eq(count_op(graph, "aten._native_batch_norm_legit_no_training"), 1);
    tenon_graph_destroy(&graph);
}
END_TEST

/* Field case 15. */
START_TEST(field_case_of_grouped_transposed_batch_norm) {
    tenon_graph *graph = pass_parse(
        "graph g { const %x: float32[1, 4, 1, 1] = ones\n"
        "  const %w: float32[4, 2, 1, 1] = {1, 10, 2, 20, 3, 30, 4, 40}\n"
        "  const %g: float32[4] = {1, 2, 3, 4}\n  const %z: float32[4] = zeros\n"
        "  const %m: float32[4] = zeros\n  const %v: float32[4] = ones\n"
        "  %y = aten.convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], true, [0, 0], 2)\n"
        "  %n, %s, %t = aten._native_batch_norm_legit_no_training(%y, %g, %z, %m, %v, 0.1, 0.0)\n"
        "  output \"o\" = %n }");
    pass_run_all(graph, "fold_bn fold");
    static const double scaled[] = {3, 60, 21, 280};
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq(pass_element(pass_output(graph, 0), i), scaled[i]);
    tenon_graph_destroy(&graph);
    graph = pass_parse(
        "graph g { const %a: float32[1, 2] = ones\n  const %w: float32[2, 2] = ones\n"
        "  const %c: float32[2] = {1, 2}\n  const %g: float32[2] = {2, 3}\n"
        "  const %z: float32[2] = ones\n  const %m: float32[2] = zeros\n  const %v: float32[2] = "
        "ones\n"
        "  %y = aten.addmm(%c, %a, %w, beta=0.5, alpha=2)\n"
        "  %n, %s, %t = aten._native_batch_norm_legit_no_training(%y, %g, %z, %m, %v, 0.1, 0.0)\n"
        "  output \"o\" = %n }");
    pass_run_all(graph, "fold_bn fold");
    ck_assert_double_eq(pass_element(pass_output(graph, 0), 0), 10);
    ck_assert_double_eq(pass_element(pass_output(graph, 0), 1), 16);
    tenon_graph_destroy(&graph);
}
END_TEST

/* ---- Views ---- */

START_TEST(chains_of_views_cancel) {
    pass_check("graph g { input %x: float32[2, 3, 4]\n  %a = aten.flatten.using_ints(%x, 1)\n"
               "  %b = aten.unsqueeze(%a, 0)\n  %c = aten.reshape(%b, [6, -1])\n"
               "  %d = aten.relu(%c)\n  output \"o\" = %d }",
               "views",
               "graph g { input %x: float32[2, 3, 4]\n  %c = aten.view(%x, [6, 4])\n"
               "  %d = aten.relu(%c)\n  output \"o\" = %d }");
    pass_check("graph g { input %x: float32[2, 3, 4]\n  %a = aten.transpose.int(%x, 0, 1)\n"
               "  %b = aten.permute(%a, [2, 1, 0])\n  %c = aten.movedim.int(%b, 0, -1)\n"
               "  %d = aten.relu(%c)\n  output \"o\" = %d }",
               "views",
               "graph g { input %x: float32[2, 3, 4]\n  %d = aten.relu(%x)\n  output \"o\" = %d }");
    pass_check(
        "graph g { input %x: float32[1, 4]\n  %a = aten.expand(%x, [3, 4])\n"
        "  %b = aten.broadcast_to(%a, [2, 3, 4])\n  %d = aten.relu(%b)\n  output \"o\" = %d }",
        "views",
        "graph g { input %x: float32[1, 4]\n  %b = aten.expand(%x, [2, 3, 4])\n"
        "  %d = aten.relu(%b)\n  output \"o\" = %d }");
}
END_TEST

START_TEST(views_that_change_nothing_go) {
    pass_check("graph g { input %x: float32[2, 1, 4]\n  %a = aten.slice.Tensor(%x, 2, 0, 99)\n"
               "  %b = aten._to_copy(%a, dtype=float32)\n  %c = aten.cat([%b], 1)\n"
               "  %d = aten.expand(%c, [2, 1, 4])\n  %e = aten.permute(%d, [1, 0, 2])\n"
               "  %f = aten.relu(%e)\n  output \"o\" = %f }",
               "views",
               "graph g { input %x: float32[2, 1, 4]\n  %e = aten.view(%x, [1, 2, 4])\n"
               "  %f = aten.relu(%e)\n  output \"o\" = %f }");
}
END_TEST

START_TEST(views_that_change_something_stay) {
    pass_keeps("graph g { input %x: float32[2, 3, 4]\n  %a = aten.permute(%x, [0, 2, 1])\n"
               "  %b = aten.view(%a, [8, 3])\n  %c = aten.slice.Tensor(%b, 0, 1, 4)\n"
               "  %d = aten._to_copy(%c, float64)\n  output \"o\" = %d }",
               "views");
}
END_TEST

/* ---- Outputs ---- */

START_TEST(borrowed_outputs_are_copied) {
    pass_check(
        "graph g { input %x: float32[2, 3]\n  const %c: float32[2] = {1, 2}\n"
        "  buffer %b: float32[2, 3] = zeros\n  %v = aten.view(%x, [6])\n  %r = aten.relu(%x)\n"
        "  %w = aten.view(%r, [6])\n  write %b <- %x\n  output \"v\" = %v\n  output \"c\" = %c\n"
        "  output \"w\" = %w }",
        "repair",
        "graph g { input %x: float32[2, 3]\n  const %c: float32[2] = {1, 2}\n"
        "  buffer %b: float32[2, 3] = zeros\n  %v = aten.view(%x, [6])\n  %r = aten.relu(%x)\n"
        "  %w = aten.view(%r, [6])\n  %v1 = aten.clone(%v)\n  %c1 = aten.clone(%c)\n"
        "  %x1 = aten.clone(%x)\n  write %b <- %x1\n  output \"v\" = %v1\n  output \"c\" = %c1\n"
        "  output \"w\" = %w }");
}
END_TEST

/* ---- Layouts ---- */

static int count_channels_last(const char *text) {
    tenon_graph *graph = pass_parse(text);
    int count = 0;
    pass_run_all(graph, "layout");
    for (const tenon_node *n = tenon_graph_first_node(graph); n; n = tenon_node_next(n))
        count += n->output_count && n->outputs[0]->channels_last;
    tenon_graph_destroy(&graph);
    return count;
}

#define CONV(y, x) \
    "%" y " = aten.convolution(%" x ", %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)\n"
#define IMAGE \
    "graph g { input %x: float32[1, 8, 16, 16]\n  const %w: float32[8, 8, 3, 3] = random(1)\n"

START_TEST(regions_around_convolutions_are_channels_last) {
    /* conv, relu, conv, add; the view at the end needs row-major memory, the last add is outside */
    ck_assert_int_eq(count_channels_last(IMAGE CONV("a", "x") "%b = aten.relu(%a)\n" CONV(
                         "c", "b") "%d = aten.add.Tensor(%c, %a)\n"
                                   "%e = aten.view(%d, [1, 2048])\n  %f = aten.relu(%e)\n"
                                   "output \"o\" = %f }"),
                     4);
    /* no convolution, no region */
    ck_assert_int_eq(count_channels_last(IMAGE
                                         "%a = aten.relu(%x)\n%b = aten.max_pool2d(%a, [2, 2])\n"
                                         "output \"o\" = %b }"),
                     0);
    /* a lone small convolution in the middle of much that is row-major at its edges */
    ck_assert_int_eq(
        count_channels_last("graph g { input %x: float32[1, 8, 64, 64]\n  const %w: float32[8, 8, "
                            "3, 3] = random(1)\n"
                            "%a = aten.relu(%x)\n%s = aten.max_pool2d(%a, [32, 32])\n" CONV(
                                "c", "s") "%v = aten.view(%a, [8, 4096])\n%u = aten.relu(%v)\n"
                                          "output \"o\" = %c\n output \"u\" = %u }"),
        0);
}
END_TEST

/* ---- Size ---- */

enum { CHAIN = 200000 };

static void *run_chain(void *user) {
    tenon_graph *graph = NULL, *bound = NULL;
    tenon_passes *list = NULL;
    tenon_value *x = NULL;
    tenon_status status = tenon_graph_create("chain", &graph);
    if (status == TENON_OK)
        status =
            tenon_graph_add_input(graph, "x", TENON_FLOAT32, 2, (const char *[]){"2", "3"}, &x);
    for (int i = 0; status == TENON_OK && i < CHAIN; i++) {
        static const char *const ops[] = {"aten.relu_", "aten.t", "aten.neg", "aten.add.Tensor"};
        tenon_arg args[2] = {tenon_arg_value(x), tenon_arg_int(1)};
        tenon_node *node = NULL;
        status = tenon_graph_add_node(graph, ops[i % 4], NULL, args, i % 4 == 3 ? 2 : 1, &node);
        x = status == TENON_OK ? tenon_node_output(node, 0) : NULL;
    }
    if (status == TENON_OK)
        status = tenon_graph_add_output(graph, "o", tenon_arg_value(x));
    if (status == TENON_OK)
        status = tenon_passes_create(&list);
    if (status == TENON_OK)
        status = tn_passes_run(list, TENON_PASS_MODEL, &graph, NULL, 0);
    tenon_view view = {.dtype = TENON_FLOAT32, .rank = 2, .shape = {2, 3}};
    if (status == TENON_OK)
        status = tn_graph_specialize(graph, &view, 1, &bound);
    if (status == TENON_OK)
        status = tn_passes_run(list, TENON_PASS_SHAPES, &bound, NULL, 0);
    snprintf(user, 512, "%s", status == TENON_OK ? "" : tenon_last_error());
    tenon_passes_destroy(&list);
    tenon_graph_destroy(&graph);
    tenon_graph_destroy(&bound);
    return NULL;
}

START_TEST(long_chains_need_little_stack) {
    pthread_attr_t attributes;
    pthread_t thread;
    char message[512] = "";
    ck_assert_int_eq(pthread_attr_init(&attributes), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&attributes, 1 << 20), 0);
    ck_assert_int_eq(pthread_create(&thread, &attributes, run_chain, message), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_str_eq(message, "");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pass_fold");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, constants_fold_through_kernels_and_views);
    tcase_add_test(tests, large_results_are_left_to_the_run);
    tcase_add_test(tests, what_a_kernel_refuses_is_left_to_the_run);
    tcase_add_test(tests, dead_nodes_are_left_to_others);
    tcase_add_test(tests, each_result_alone);
    tcase_add_test(tests, buffers_are_not_constants_unless_nobody_writes_them);
    tcase_add_test(tests, equal_nodes_become_one);
    tcase_add_test(tests, different_nodes_stay);
    tcase_add_test(tests, small_constants_merge_by_their_elements);
    tcase_add_loop_test(tests, batch_norm_goes_into_the_weight, 0,
                        (int)(sizeof foldable / sizeof *foldable));
    tcase_add_loop_test(tests, large_weights_wait, 0, 5);
    tcase_add_loop_test(tests, batch_norm_stays, 0, (int)(sizeof unfoldable / sizeof *unfoldable));
    tcase_add_test(tests, field_case_of_grouped_transposed_batch_norm);
    tcase_add_test(tests, chains_of_views_cancel);
    tcase_add_test(tests, views_that_change_nothing_go);
    tcase_add_test(tests, views_that_change_something_stay);
    tcase_add_test(tests, borrowed_outputs_are_copied);
    tcase_add_test(tests, regions_around_convolutions_are_channels_last);
    tcase_add_test(tests, long_chains_need_little_stack);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
