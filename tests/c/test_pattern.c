/* Patterns declared as text, and the editing of graphs from outside. */
#include "run_graph.h"
#include <stdio.h>

static tenon_pattern *read_pattern(const char *text) {
    tenon_pattern *pattern = NULL;
    OK(tenon_pattern_create(text, "test", &pattern));
    return pattern;
}

/* In how many nodes of the graph the pattern has its root. */
static int count_matches(const char *pattern_text, const char *graph_text) {
    tenon_pattern *pattern = read_pattern(pattern_text);
    tenon_graph *graph = parse_graph(graph_text);
    int count = 0;
    for (tenon_node *n = tenon_graph_first_node(graph); n; n = tenon_node_next(n))
        count += tenon_pattern_match(pattern, n);
    tenon_graph_destroy(&graph);
    tenon_pattern_destroy(&pattern);
    return count;
}

#define GRAPH(body) "graph g {\n  input %p: float32[2, 2]\n  input %q: float32[2, 2]\n" body "\n}"

static const char add_relu[] = "%s = aten.add.Tensor(%a, %b)\n%r = aten.relu(%s)\n";

START_TEST(ops_and_single_uses) {
    ck_assert_int_eq(count_matches(add_relu, GRAPH("%s = aten.add.Tensor(%p, %q)\n"
                                                   "%r = aten.relu(%s)\noutput \"o\" = %r")),
                     1);
    /* alpha is left out in the pattern: it must be the default */
    ck_assert_int_eq(count_matches(add_relu, GRAPH("%s = aten.add.Tensor(%p, %q, alpha=2)\n"
                                                   "%r = aten.relu(%s)\noutput \"o\" = %r")),
                     0);
    /* a second use, by a node or by an output */
    static const char *const used[] = {GRAPH("%s = aten.add.Tensor(%p, %q)\n%r = aten.relu(%s)\n"
                                             "%n = aten.neg(%s)\noutput \"o\" = %r\n"
                                             "output \"n\" = %n"),
                                       GRAPH("%s = aten.add.Tensor(%p, %q)\n%r = aten.relu(%s)\n"
                                             "output \"o\" = %r\noutput \"s\" = %s")};
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(count_matches(add_relu, used[i]), 0);
        ck_assert_int_eq(
            count_matches("shared %s = aten.add.Tensor(%a, %b)\n%r = aten.relu(%s)", used[i]), 1);
    }
    /* the root may have any number of uses */
    ck_assert_int_eq(count_matches("%r = aten.relu(%x)", GRAPH("%r = aten.relu(%p)\n"
                                                               "%n = aten.neg(%r)\n"
                                                               "output \"o\" = %r\n"
                                                               "output \"n\" = %n")),
                     1);
}
END_TEST

START_TEST(values_are_the_same_everywhere) {
    static const char swish[] = "%s = aten.sigmoid(%x)\n%y = aten.mul.Tensor(%x, %s)";
    static const char both[] = "%s = aten.sigmoid(%x)\n%y = aten.mul.Tensor(%x, %s) commutative";
    const char *right = GRAPH("%s = aten.sigmoid(%p)\n%y = aten.mul.Tensor(%p, %s)\n"
                              "output \"o\" = %y");
    const char *turned = GRAPH("%s = aten.sigmoid(%p)\n%y = aten.mul.Tensor(%s, %p)\n"
                               "output \"o\" = %y");
    const char *other = GRAPH("%s = aten.sigmoid(%p)\n%y = aten.mul.Tensor(%q, %s)\n"
                              "output \"o\" = %y");
    ck_assert_int_eq(count_matches(swish, right), 1);
    ck_assert_int_eq(count_matches(swish, turned), 0);
    ck_assert_int_eq(count_matches(swish, other), 0);
    ck_assert_int_eq(count_matches(both, right), 1);
    ck_assert_int_eq(count_matches(both, turned), 1);
    ck_assert_int_eq(count_matches(both, other), 0);
}
END_TEST

START_TEST(commutative_nodes_are_tried_together) {
    /* only the second order of the inner and of the outer node fits */
    ck_assert_int_eq(
        count_matches("%n = aten.neg(%a)\n%e = aten.exp(%b)\n"
                      "%m = aten.mul.Tensor(%n, %e) commutative\n"
                      "%y = aten.add.Tensor(%a, %m) commutative",
                      GRAPH("%e = aten.exp(%q)\n%n = aten.neg(%p)\n%m = aten.mul.Tensor(%e, %n)\n"
                            "%y = aten.add.Tensor(%m, %p)\noutput \"o\" = %y")),
        1);
}
END_TEST

START_TEST(literals_captures_and_anything) {
    const char *graph = GRAPH("%a = aten.clamp(%p, 0.0, 6.0)\n%t = aten.transpose.int(%a, 0, 1)\n"
                              "%v = aten.view(%t, [1, 4])\noutput \"o\" = %v");
    ck_assert_int_eq(count_matches("%a = aten.clamp(%x, 0, 6)", graph), 1);
    ck_assert_int_eq(count_matches("%a = aten.clamp(%x, 0, 7)", graph), 0);
    ck_assert_int_eq(count_matches("%a = aten.clamp(%x, _, max=6)", graph), 1);
    ck_assert_int_eq(count_matches("%a = aten.clamp(%x, none, 6)", graph), 0);
    ck_assert_int_eq(count_matches("%a = aten.view(%x, [1, $n])", graph), 1);
    ck_assert_int_eq(count_matches("%a = aten.view(%x, [$n, $n])", graph), 0);
    ck_assert_int_eq(count_matches("%a = aten.view(%x, [1, 4, 1])", graph), 0);
    ck_assert_int_eq(count_matches("%a = aten.view(%x, $shape)", graph), 1);
    ck_assert_int_eq(count_matches("%a = aten.view($x, _)", graph), 0); /* a value */
}
END_TEST

START_TEST(constants_are_told_from_other_values) {
    const char *graph = "graph g {\n  input %p: float32[2]\n  const %w: float32[2] = {1, 2}\n"
                        "  %a = aten.mul.Tensor(%p, %w)\n  %b = aten.mul.Tensor(%w, %p)\n"
                        "  output \"a\" = %a\n  output \"b\" = %b\n}";
    ck_assert_int_eq(count_matches("const %c\n%y = aten.mul.Tensor(%x, %c)", graph), 1);
    ck_assert_int_eq(count_matches("const %c\n%y = aten.mul.Tensor(%x, %c) commutative", graph), 2);
    ck_assert_int_eq(count_matches("%y = aten.mul.Tensor(%x, %c)", graph), 2);
}
END_TEST

START_TEST(dtypes_may_be_asked_for) {
    const char *graph = "graph g {\n  input %p: float32[2]\n  const %w: float64[2] = {1, 2}\n"
                        "  %a = aten.relu(%p)\n  %b = aten.relu(%w)\n"
                        "  output \"a\" = %a\n  output \"b\" = %b\n}";
    ck_assert_int_eq(count_matches("%y = aten.relu(%x)", graph), 2);
    ck_assert_int_eq(count_matches("value %x: float32\n%y = aten.relu(%x)", graph), 1);
    ck_assert_int_eq(count_matches("const %x: float64\n%y = aten.relu(%x)", graph), 1);
    ck_assert_int_eq(count_matches("const %x: float32\n%y = aten.relu(%x)", graph), 0);
    ck_assert_int_eq(count_matches("value %y: float64\n%y = aten.relu(%x)", graph), 1);
}
END_TEST

START_TEST(patterns_are_bounded) {
    char text[8192];
    size_t used = 0;
    tenon_pattern *pattern = NULL;
    for (int i = 0; i < 129; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "const %%c%d\n", i);
    FAILS(tenon_pattern_create(text, NULL, &pattern), TENON_INVALID_FILE,
          "pattern:129: more than 128 names");
    used = (size_t)snprintf(text, sizeof text, "%%v0 = aten.relu(%%x)\n");
    for (int i = 1; i < 65; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%%v%d = aten.relu(%%v%d)\n", i,
                                 i - 1);
    FAILS(tenon_pattern_create(text, NULL, &pattern), TENON_INVALID_FILE, "more than 64 nodes");
    used = (size_t)snprintf(text, sizeof text, "%%v0 = aten.mul.Tensor(%%x, %%y) commutative\n");
    for (int i = 1; i < 9; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%%v%d = aten.mul.Tensor(%%v%d, %%y) commutative\n", i, i - 1);
    FAILS(tenon_pattern_create(text, NULL, &pattern), TENON_INVALID_FILE,
          "more than 8 nodes are commutative");
}
END_TEST

START_TEST(what_matched_can_be_read) {
    tenon_pattern *pattern =
        read_pattern("# a comment\n%m, %i = aten.max.dim(%x, $dim)\n%r = aten.relu(%m)");
    tenon_graph *graph = parse_graph(GRAPH("%m, %i = aten.max.dim(%p, 1)\n%r = aten.relu(%m)\n"
                                           "output \"o\" = %r"));
    tenon_node *relu = tenon_graph_last_node(graph);
    ck_assert(!tenon_pattern_match(pattern, tenon_graph_first_node(graph)));
    ck_assert_ptr_null(tenon_pattern_value(pattern, "x"));
    ck_assert_int_eq(tenon_pattern_arg(pattern, "dim").kind, TENON_ARG_DEFAULT);
    ck_assert(tenon_pattern_match(pattern, relu));
    ck_assert_ptr_eq(tenon_pattern_value(pattern, "x"), tenon_graph_input(graph, 0));
    ck_assert_ptr_eq(tenon_pattern_value(pattern, "i"), tenon_graph_find_value(graph, "i"));
    ck_assert_ptr_eq(tenon_pattern_node(pattern, "r"), relu);
    ck_assert_ptr_eq(tenon_pattern_node(pattern, "i"), tenon_graph_first_node(graph));
    ck_assert_ptr_null(tenon_pattern_node(pattern, "x"));
    ck_assert_ptr_null(tenon_pattern_value(pattern, "nobody"));
    ck_assert_int_eq(tenon_pattern_arg(pattern, "dim").kind, TENON_ARG_INT);
    ck_assert_int_eq(tenon_pattern_arg(pattern, "dim").as.i, 1);
    tenon_graph_destroy(&graph);
    tenon_pattern_destroy(&pattern);
}
END_TEST

START_TEST(bad_patterns_name_the_line) {
    static const struct {
        const char *text;
        tenon_status status;
        const char *message;
    } cases[] = {
        {"", TENON_INVALID_FILE, "there is no node"},
        {"%a = aten.nothing(%x)", TENON_UNKNOWN_OP, "test:1: unknown operator 'aten.nothing'"},
        {"\n%a = aten.relu()", TENON_INVALID_FILE, "test:2: argument 'self' of aten.relu"},
        {"%a = aten.relu(%x, 1)", TENON_INVALID_FILE, "takes 1 arguments"},
        {"%a = aten.clamp(%x, min=1, 2)", TENON_INVALID_FILE, "without a name"},
        {"%a = aten.clamp(%x, 1, min=2)", TENON_INVALID_FILE, "given twice"},
        {"%a = aten.clamp(%x, low=1)", TENON_INVALID_FILE, "has no argument 'low'"},
        {"%a, %b = aten.relu(%x)", TENON_INVALID_FILE, "aten.relu has 1 outputs"},
        {"%a = aten.relu(%b)\n%b = aten.relu(%x)", TENON_INVALID_FILE, "after it was used"},
        {"%a = aten.relu(%x)\n%a = aten.neg(%a)", TENON_INVALID_FILE, "or twice"},
        {"%a = aten.relu(%x)\n%b = aten.relu(%x)", TENON_INVALID_FILE, "nothing uses %a"},
        {"%a = aten.relu(%x) commutative", TENON_INVALID_FILE, "no two arguments"},
        {"%a = aten.cat([[%x]])", TENON_INVALID_FILE, "a list cannot hold a list"},
        {"%a = aten.relu(%x", TENON_INVALID_FILE, "missing"},
        {"result %x", TENON_INVALID_FILE, "'%' is missing"},
        {"%a = aten.relu(%a)", TENON_INVALID_FILE, "the node uses %a, which it makes"},
        {"const %a\n%a = aten.relu(%x)", TENON_INVALID_FILE, "%a is a constant"},
        {"value %x: float31\n%a = aten.relu(%x)", TENON_INVALID_FILE, "'float31' is no dtype"},
        {"%a = aten.sum.dim_IntList(%x, \"str\")", TENON_INVALID_FILE,
         "argument 'dim' of aten.sum.dim_IntList cannot be this"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tenon_pattern *pattern = NULL;
        FAILS(tenon_pattern_create(cases[i].text, "test", &pattern), cases[i].status,
              cases[i].message);
        ck_assert_ptr_null(pattern);
    }
}
END_TEST

/* ---- Rewriting ---- */

static char *rewrite(const char *pattern_text, const char *replacement, const char *graph_text,
                     int64_t want) {
    tenon_pattern *pattern = read_pattern(pattern_text);
    tenon_graph *graph = parse_graph(graph_text);
    char *text = NULL;
    int64_t count = -1;
    OK(tenon_pattern_rewrite(pattern, graph, replacement, NULL, NULL, &count));
    ck_assert_int_eq(count, want);
    OK(tenon_graph_verify(graph));
    OK(tenon_graph_print(graph, &text));
    tenon_graph_destroy(&graph);
    tenon_pattern_destroy(&pattern);
    return text;
}

START_TEST(matches_are_replaced) {
    char *text = rewrite("%s = aten.sigmoid(%x)\n%y = aten.mul.Tensor(%x, %s) commutative",
                         "%z = aten.silu(%x)",
                         GRAPH("%s = aten.sigmoid(%p)\n%y = aten.mul.Tensor(%s, %p)\n"
                               "%s2 = aten.sigmoid(%y)\n%y2 = aten.mul.Tensor(%y, %s2)\n"
                               "output \"o\" = %y2"),
                         2);
    ck_assert_str_eq(text, "graph \"g\" {\n"
                           "  input %p: float32[2, 2]\n"
                           "  input %q: float32[2, 2]\n"
                           "  %y: float32[2, 2] = aten.silu(%p)\n"
                           "  %y2: float32[2, 2] = aten.silu(%y)\n"
                           "  output \"o\" = %y2\n"
                           "}\n");
    free(text);
}
END_TEST

START_TEST(captures_go_into_replacements) {
    char *text = rewrite("%t = aten.transpose.int(%x, $a, $b)\n%y = aten.transpose.int(%t, $a, $b)",
                         "result %x",
                         GRAPH("%t = aten.transpose.int(%p, 0, 1)\n"
                               "%u = aten.transpose.int(%t, 0, 1)\n"
                               "%y = aten.add.Scalar(%u, 1)\noutput \"o\" = %y"),
                         1);
    ck_assert_ptr_null(strstr(text, "transpose"));
    ck_assert_ptr_nonnull(strstr(text, "%y: float32[2, 2] = aten.add.Scalar(%p, 1)"));
    free(text);
    text = rewrite("%y = aten.clamp(%x, $low, $high)",
                   "%m = aten.clamp_min(%x, $low)\n%n = aten.clamp_max(%m, $high)",
                   GRAPH("%y = aten.clamp(%p, -1, 2.5)\noutput \"o\" = %y"), 1);
    ck_assert_msg(strstr(text, "aten.clamp_min(%p, -1)") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "%y: float32[2, 2] = aten.clamp_max(%clamp_min, 2.5)") != NULL, "%s",
                  text);
    free(text);
}
END_TEST

static bool only_first(const tenon_pattern *pattern, void *user) {
    const tenon_value *x = tenon_pattern_value(pattern, "x");
    return strcmp(tenon_value_name(x), user) == 0;
}

START_TEST(a_function_decides_about_matches) {
    tenon_pattern *pattern = read_pattern("%y = aten.relu(%x)");
    tenon_graph *graph = parse_graph(GRAPH("%a = aten.relu(%p)\n%b = aten.relu(%q)\n"
                                           "output \"a\" = %a\noutput \"b\" = %b"));
    int64_t count = 0;
    OK(tenon_pattern_rewrite(pattern, graph, "%z = aten.neg(%x)", only_first, "q", &count));
    ck_assert_int_eq(count, 1);
    ck_assert_str_eq(tenon_node_op(tenon_value_node(tenon_graph_find_value(graph, "a"))),
                     "aten.relu");
    ck_assert_str_eq(tenon_node_op(tenon_value_node(tenon_graph_find_value(graph, "b"))),
                     "aten.neg");
    tenon_graph_destroy(&graph);
    tenon_pattern_destroy(&pattern);
}
END_TEST

START_TEST(bad_replacements_are_refused) {
    static const char *const cases[][2] = {
        {"%z = aten.neg(%w)", "the pattern has no value %w"},
        {"%z = aten.add.Scalar(%x, $c)", "the pattern has no capture $c"},
        {"%z = aten.add.Scalar(%x, _)", "'_' stands for no argument"},
        {"%y = aten.neg(%x)", "%y is a value of the pattern"},
        {"%z = aten.neg(%y)", "%y is what gets replaced"},
        {"result %y", "%y is what gets replaced"},
        {"%z = aten.neg(%x)\n%v = aten.exp(%x)", "nothing uses %z"},
        {"%z = aten.neg(%x)\nresult %x", "nothing uses %z"},
        {"result %x\n%z = aten.neg(%x)", "text after the result"},
        {"", "there is no node"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tenon_pattern *pattern = read_pattern("%y = aten.relu(%x)");
        tenon_graph *graph = parse_graph(GRAPH("%a = aten.relu(%p)\noutput \"a\" = %a"));
        int64_t count = 7;
        FAILS(tenon_pattern_rewrite(pattern, graph, cases[i][0], NULL, NULL, &count),
              TENON_INVALID_FILE, cases[i][1]);
        ck_assert_int_eq(count, 7);
        tenon_graph_destroy(&graph);
        tenon_pattern_destroy(&pattern);
    }
}
END_TEST

/* The root's second output is used, and the replacement has one. */
START_TEST(outputs_without_a_stand_in_change_nothing) {
    static const char *const replacements[] = {"%z = aten.amax(%x, [1])", "result %x"};
    for (int i = 0; i < 2; i++) {
        tenon_pattern *pattern = read_pattern("%m, %i = aten.max.dim(%x, 1)");
        tenon_graph *graph = parse_graph(GRAPH("%m, %i = aten.max.dim(%p, 1)\noutput \"m\" = %m\n"
                                               "output \"i\" = %i"));
        char *before = NULL, *after = NULL;
        OK(tenon_graph_print(graph, &before));
        FAILS(tenon_pattern_rewrite(pattern, graph, replacements[i], NULL, NULL, NULL),
              TENON_INVALID_GRAPH, "node 'm' (aten.max.dim): its output 1 is used");
        OK(tenon_graph_verify(graph));
        OK(tenon_graph_print(graph, &after));
        ck_assert_str_eq(after, before);
        tenon_string_free(before);
        tenon_string_free(after);
        tenon_graph_destroy(&graph);
        tenon_pattern_destroy(&pattern);
    }
}
END_TEST

START_TEST(arguments_without_sense_are_refused) {
    tenon_graph *graph = parse_graph(GRAPH("output \"o\" = %p"));
    tenon_arg p = tenon_arg_value(tenon_graph_input(graph, 0)), items[2] = {p, p};
    tenon_node *node = NULL;
    const tenon_arg cast[2] = {p, tenon_arg_dtype((tenon_dtype)77)};
    FAILS(tenon_graph_add_node(graph, "aten.to.dtype", NULL, cast, 2, &node), TENON_INVALID_GRAPH,
          "argument 'dtype' is a dtype, but a dtype is needed");
    const tenon_arg lists[2] = {tenon_arg_list(items, -5), tenon_arg_list(NULL, 3)};
    for (int i = 0; i < 2; i++)
        FAILS(tenon_graph_add_node(graph, "aten.cat", NULL, &lists[i], 1, &node),
              TENON_INVALID_ARGUMENT, "argument 'tensors' is a list of ");
    tenon_arg nothing = {.kind = TENON_ARG_VALUE};
    FAILS(tenon_graph_add_node(graph, "aten.relu", NULL, &nothing, 1, &node), TENON_INVALID_GRAPH,
          "argument 'self'");
    FAILS(tenon_graph_add_node(graph, "aten.nope", NULL, &p, 1, &node), TENON_UNKNOWN_OP,
          "there is no operator 'aten.nope'");
    ck_assert_ptr_null(node);
    tenon_graph_destroy(&graph);
}
END_TEST

/* ---- Editing ---- */

START_TEST(nodes_are_walked_while_they_go_and_come) {
    tenon_graph *graph = parse_graph(GRAPH("%a = aten.relu(%p)\n%b = aten.neg(%a)\n"
                                           "%c = aten.relu(%b)\n%d = aten.relu(%c)\n"
                                           "output \"o\" = %d"));
    char *text = NULL;
    int seen = 0;
    for (tenon_node *n = tenon_graph_first_node(graph), *made; n; n = tenon_node_next(n)) {
        tenon_arg x = tenon_node_arg(n, 0);
        seen++;
        if (strcmp(tenon_node_op(n), "aten.relu") != 0)
            continue;
        OK(tenon_graph_insert_node(n, "aten.exp", NULL, &x, 1, &made));
        OK(tenon_value_replace(tenon_node_output(n, 0), tenon_node_output(made, 0)));
        tenon_node_copy_source(made, n);
        OK(tenon_node_erase(n));
    }
    ck_assert_int_eq(seen, 4);
    OK(tenon_graph_verify(graph));
    OK(tenon_graph_print(graph, &text));
    ck_assert_ptr_null(strstr(text, "relu"));
    tenon_string_free(text);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(insert_after_replace_except_and_set_output) {
    tenon_graph *graph = parse_graph(
        GRAPH("%a = aten.relu(%p)\n%b = aten.neg(%a)\noutput \"o\" = %a\noutput \"x\" = %p"));
    tenon_value *a = tenon_graph_find_value(graph, "a"), *p = tenon_graph_input(graph, 0);
    tenon_node *exp, *copy, *relu = tenon_value_node(a);
    tenon_arg arg = tenon_arg_value(a);
    char *text = NULL;
    OK(tenon_graph_insert_node_after(relu, "aten.exp", "e", &arg, 1, &exp));
    OK(tenon_value_replace_except(a, tenon_node_output(exp, 0), exp));
    ck_assert_int_eq(tenon_value_use_count(a), 1);
    ck_assert_ptr_eq(tenon_value_user(a, 0), exp);
    ck_assert_ptr_null(tenon_value_user(a, 1));
    ck_assert_int_eq(tenon_value_use_count(tenon_node_output(exp, 0)), 2);
    arg = tenon_arg_value(p);
    OK(tenon_graph_add_node(graph, "aten.clone", "c", &arg, 1, &copy));
    OK(tenon_graph_set_output(graph, 1, tenon_arg_value(tenon_node_output(copy, 0))));
    FAILS(tenon_graph_set_output(graph, 2, arg), TENON_INVALID_ARGUMENT, "no output 2 of 2");
    FAILS(tenon_graph_set_output(graph, 0, tenon_arg_dtype(TENON_INT8)), TENON_INVALID_ARGUMENT,
          "neither a value nor");
    ck_assert_int_eq(tenon_graph_remove_dead(graph), 1); /* %b */
    OK(tenon_graph_verify(graph));
    OK(tenon_graph_print(graph, &text));
    ck_assert_str_eq(text, "graph \"g\" {\n"
                           "  input %p: float32[2, 2]\n"
                           "  input %q: float32[2, 2]\n"
                           "  %a: float32[2, 2] = aten.relu(%p)\n"
                           "  %e: float32[2, 2] = aten.exp(%a)\n"
                           "  %c: float32[2, 2] = aten.clone(%p)\n"
                           "  output \"o\" = %e\n"
                           "  output \"x\" = %c\n"
                           "}\n");
    tenon_string_free(text);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(clones_constants_moves_and_arguments) {
    tenon_graph *graph = parse_graph(GRAPH("%a = aten.clamp(%p, 0, 1)\n%b = aten.neg(%a)\n"
                                           "output \"o\" = %b"));
    tenon_node *clamp = tenon_graph_first_node(graph), *copy;
    tenon_value *made, *again;
    const float data[2] = {1, 2};
    const int64_t shape[1] = {2};
    OK(tenon_node_clone(clamp, NULL, &copy));
    ck_assert_ptr_eq(tenon_graph_last_node(graph), copy);
    ck_assert_str_eq(tenon_value_name(tenon_node_output(copy, 0)), "a_4");
    ck_assert_int_eq((int)tenon_node_arg(copy, 2).as.i, 1);
    OK(tenon_node_set_arg(copy, 2, tenon_arg_int(9)));
    ck_assert_int_eq((int)tenon_node_arg(copy, 2).as.i, 9);
    ck_assert_int_eq((int)tenon_node_arg(clamp, 2).as.i, 1);
    FAILS(tenon_node_set_arg(copy, 3, tenon_arg_int(9)), TENON_INVALID_ARGUMENT, "no argument 3");
    FAILS(tenon_node_set_arg(copy, 0, tenon_arg_string("x")), TENON_INVALID_GRAPH,
          "node 'a': aten.clamp: argument 'self'");
    OK(tenon_node_move(copy, clamp));
    ck_assert_ptr_eq(tenon_graph_first_node(graph), copy);
    OK(tenon_graph_make_constant(graph, "k", TENON_FLOAT32, 1, shape, data, &made));
    OK(tenon_graph_make_constant(graph, "k", TENON_FLOAT32, 1, shape, data, &again));
    ck_assert_str_eq(tenon_value_name(made), "k");
    ck_assert_str_ne(tenon_value_name(again), "k");
    ck_assert_float_eq(((float *)tenon_tensor_view(tenon_value_tensor(again))->data)[1], 2);
    OK(tenon_graph_verify(graph));
    tenon_graph_destroy(&graph);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pattern");
    TCase *tests = tcase_create("match");
    tcase_add_test(tests, ops_and_single_uses);
    tcase_add_test(tests, values_are_the_same_everywhere);
    tcase_add_test(tests, commutative_nodes_are_tried_together);
    tcase_add_test(tests, literals_captures_and_anything);
    tcase_add_test(tests, constants_are_told_from_other_values);
    tcase_add_test(tests, dtypes_may_be_asked_for);
    tcase_add_test(tests, patterns_are_bounded);
    tcase_add_test(tests, what_matched_can_be_read);
    tcase_add_test(tests, bad_patterns_name_the_line);
    suite_add_tcase(suite, tests);
    tests = tcase_create("rewrite");
    tcase_add_test(tests, matches_are_replaced);
    tcase_add_test(tests, captures_go_into_replacements);
    tcase_add_test(tests, a_function_decides_about_matches);
    tcase_add_test(tests, bad_replacements_are_refused);
    tcase_add_test(tests, outputs_without_a_stand_in_change_nothing);
    tcase_add_test(tests, arguments_without_sense_are_refused);
    suite_add_tcase(suite, tests);
    tests = tcase_create("edit");
    tcase_add_test(tests, nodes_are_walked_while_they_go_and_come);
    tcase_add_test(tests, insert_after_replace_except_and_set_output);
    tcase_add_test(tests, clones_constants_moves_and_arguments);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
