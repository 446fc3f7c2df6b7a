/* Parts of exported programs, each in a program that is right but for that part: size expressions,
 * arguments, subgraphs, numbers out of tensors, inputs and outputs. */
#include "core/graph.h"
#include "pt2_changes.h"
#include "suite.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define EXTRA(name) TEST_DATA "/pt2-extra/" name ".pt2"
#define ARG(name, arg) "{\"name\": \"" name "\", \"arg\": " arg ", \"kind\": 1}"
#define TENSOR(name) "{\"as_tensor\": {\"name\": \"" name "\"}}"
#define INT(number) "{\"as_int\": " number "}"

static bool holds(const tenon_graph *graph, const char *text) {
    char *printed = NULL;
    ck_assert_int_eq(tenon_graph_print(graph, &printed), TENON_OK);
    bool found = strstr(printed, text) != NULL;
    if (!found)
        fprintf(stderr, "no %s in\n%s", text, printed);
    tenon_string_free(printed);
    return found;
}

/* What a program prints as after one change. */
static void check_holds(const char *path, const char *from, const char *to, const char *text) {
    const change changes[] = {{MODEL, from, to, TENON_OK, NULL}};
    tenon_graph *graph = load_changed(path, changes, 1);
    ck_assert(holds(graph, text));
    tenon_graph_destroy(&graph);
}

/* Is refused after all of the changes. */
static void check_refused_after(const char *path, const change *changes, size_t count,
                                const char *message) {
    archive a = archive_read(path);
    for (size_t i = 0; i < count; i++)
        change_archive(&a, &changes[i]);
    archive_write(&a, test_path("bad.pt2"), false);
    check_refused(test_path("bad.pt2"), TENON_UNSUPPORTED, message);
    archive_free(&a);
}

/* ---- Sizes ---- */

#define S77 "Symbol('s77', positive=True, integer=True)"
#define TWICE "Mul(Integer(2), " S77 ")"

START_TEST(refuses_bad_sizes) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"Integer(x)", "no 64-bit integer at 'x)'"},
        {"Integer(99999999999999999999)", "no 64-bit integer"},
        {"Integer(1", "')' is missing"},
        {"Symbol(s77)", "a symbol's name is missing"},
        {"Symbol('')", "a symbol's name is wrong"},
        {"Symbol('s77)", "a symbol's name is wrong"},
        {"Symbol('s 7')", "other characters than letters and digits"},
        {"Symbol('7')", "other characters than letters and digits"},
        {"Symbol('s77', positive=True", "')' is missing"},
        {"Identity(Integer(1)", "')' is missing"},
        {"Mul(Integer(2), Integer(2)", "')' is missing"},
        {"FloorDiv(Integer(2))", "a wrong number of operands"},
        {"Mod(Integer(1), Integer(2), Integer(3))", "a wrong number of operands"},
        {"Sin(Integer(1))", "an unknown function"},
        {"Integer(2) Integer(3)", "unexpected text at ' Integer(3)'"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const change changes[] = {
            {MODEL, TWICE, cases[i].text, TENON_UNSUPPORTED, cases[i].message}};
        check_changes(CASE("dyn_derived_raw"), changes, 1);
    }
}
END_TEST

/* `inside` within `count` calls of Identity. */
static char *nested(int count, const char *inside) {
    char *text = calloc(1, (size_t)count * 10 + strlen(inside) + 1), *at = text;
    for (int i = 0; i < count; i++)
        at += sprintf(at, "Identity(");
    at += sprintf(at, "%s", inside);
    memset(at, ')', (size_t)count);
    return text;
}

START_TEST(refuses_deep_and_long_sizes) {
    char *deep = nested(64, "Integer(2)"), *fits = nested(62, TWICE), *is_long = nested(500, "x");
    const change refused[] = {
        {MODEL, TWICE, deep, TENON_UNSUPPORTED, "nested too deep"},
        {MODEL, TWICE, is_long, TENON_UNSUPPORTED, "longer than 4096 characters"},
    };
    check_changes(CASE("dyn_derived_raw"), refused, COUNT(refused));
    check_holds(CASE("dyn_derived_raw"), TWICE, fits, "input %y: float32[2*s77, 3]");
    free(deep);
    free(fits);
    free(is_long);
}
END_TEST

/* Forms that sympy writes. */
START_TEST(reads_forms_of_sizes) {
    check_holds(CASE("dyn_derived_raw"), TWICE, "Mul(Integer(2), " S77 ", evaluate=False)",
                "input %y: float32[2*s77, 3]");
    check_holds(CASE("dyn_derived_raw"), TWICE, "Add(" S77 ", " S77 ", Integer(-1))",
                "input %y: float32[(s77 + s77) + (-1), 3]");
    check_holds(CASE("dyn_derived_raw"), TWICE, "Max(Integer(4), PythonMod(" S77 ", Integer(3)))",
                "input %y: float32[max(4, s77 % 3), 3]");
}
END_TEST

START_TEST(ranges) {
    static const change refused[] = {
        {MODEL, "\"s77 + 1\": {\"min_val\": 3", "\"s77 + 1\": {\"min_val\": 10", TENON_INVALID_FILE,
         "the range of 's77 + 1' is empty"},
        {MODEL, "\"s77\": {\"min_val\": 2", "\"s77\": {\"min_val\": \"2\"", TENON_INVALID_FILE,
         "range_constraints: a range is damaged"},
        {MODEL, "\"max_val\": 8", "\"max_val\": 1e30", TENON_INVALID_FILE, "a range is damaged"},
    };
    check_changes(CASE("dyn_derived_raw"), refused, COUNT(refused));
    /* sympy's name of a function; what cannot be read is left out. */
    static const change read[] = {
        {MODEL, "\"2*s77\": {", "\"Max(4, Min(20, 2*s77))\": {", TENON_OK, NULL},
        {MODEL, "\"s77 + 1\": {", "\"floor(s77)\": {", TENON_OK, NULL},
    };
    tenon_graph *graph = load_changed(CASE("dyn_derived_raw"), read, COUNT(read));
    ck_assert_int_eq(graph->constraint_count, 1);
    ck_assert_int_eq(graph->constraints[0].min, 4);
    ck_assert_int_eq(graph->constraints[0].max, 16);
    tenon_graph_destroy(&graph);
}
END_TEST

/* ---- Arguments ---- */

START_TEST(refuses_bad_arguments) {
    static const change changes[] = {
        {MODEL, INT("0"), INT("\"a\""), TENON_INVALID_FILE, "an argument is no 64-bit integer"},
        {MODEL, INT("0"), INT("0.5"), TENON_INVALID_FILE, "an argument is no 64-bit integer"},
        {MODEL, "{\"as_float\": 1.5}", "{\"as_float\": \"x\"}", TENON_INVALID_FILE,
         "an argument is no float"},
        {MODEL, "{\"as_float\": 1.5}", "{\"as_string\": 5}", TENON_INVALID_FILE,
         "an argument is no string"},
        {MODEL, "{\"as_float\": 1.5}", "{\"as_bool\": 5}", TENON_INVALID_FILE,
         "an argument is no bool"},
        {MODEL, "{\"as_float\": 1.5}", "{\"as_memory_format\": 5}", TENON_INVALID_FILE,
         "an argument is no memory format"},
        {MODEL, "{\"as_float\": 1.5}", "{\"as_layout\": 2}", TENON_UNSUPPORTED,
         "a sparse layout is asked for"},
        {MODEL, "{\"as_float\": 1.5}", "{\"as_complex\": {\"real\": 1.5, \"imag\": 0.0}}",
         TENON_UNSUPPORTED, "an argument is a complex number"},
        {MODEL, "{\"as_ints\": [0]}", "{\"as_ints\": 0}", TENON_INVALID_FILE,
         "an argument is no list"},
        {MODEL, ARG("a", "{\"as_sym_int\": {\"as_name\": \"sym_size_int_1\"}}"),
         ARG("a", INT("1")) ", " ARG("a", INT("1")) ", " ARG("a", INT("1")), TENON_INVALID_FILE,
         "3 arguments or more, the operator takes 2"},
    };
    check_changes(CASE("symint_args"), changes, COUNT(changes));
    check_holds(CASE("symint_args"), "{\"as_float\": 1.5}",
                "{\"as_sym_float\": {\"as_float\": 2.5}}", "2.5");
}
END_TEST

START_TEST(dropout) {
    static const change changes[] = {{MODEL, "\"dropout_p\", \"arg\": {\"as_float\": 0.0}",
                                      "\"dropout_p\", \"arg\": {\"as_float\": 0.5}",
                                      TENON_UNSUPPORTED,
                                      "attention with dropout draws random numbers"}};
    check_changes(CASE("sdpa"), changes, COUNT(changes));
    /* Without a chance it does nothing, in training too. */
    check_holds(EXTRA("dropout_raw"), "{\"as_float\": 0.5}", INT("0"),
                "aten.dropout(%x, 0.0, true)");
    check_holds(EXTRA("dropout_raw"), "{\"as_float\": 0.5}", "{\"as_float\": 0.0}",
                "aten.dropout(%x, 0.0, true)");
}
END_TEST

/* ---- Subgraphs ---- */

#define ONE_GRAPH \
    ARG("", "{\"as_graph\": {\"name\": \"g\", \"graph\": {\"inputs\": [], \"nodes\": []}}}")
#define BIAS ARG("", TENSOR("p_f_bias"))
#define GIVES(outputs) "], \"outputs\": [" outputs "], \"metadata\": {\"nn_module_stack\""

START_TEST(refuses_bad_wrappers) {
    static const change changes[] = {
        {MODEL, ARG("", "{\"as_bool\": false}"), ONE_GRAPH, TENON_INVALID_FILE,
         "it has two graphs"},
        {MODEL, "\"as_graph\"", "\"as_string\"", TENON_INVALID_FILE, "its graph is missing"},
        {MODEL, ", " BIAS GIVES(TENSOR("getitem")), GIVES(TENSOR("getitem")), TENON_INVALID_FILE,
         "its graph takes more than the 2 operands given"},
        {MODEL, BIAS GIVES(TENSOR("getitem")), BIAS ", " BIAS GIVES(TENSOR("getitem")),
         TENON_INVALID_FILE, "its graph takes 3 operands, 4 are given"},
        {MODEL, BIAS GIVES(TENSOR("getitem")),
         BIAS GIVES(TENSOR("getitem") ", " TENSOR("getitem_1")), TENON_INVALID_FILE,
         "it has more outputs than its graph's 1"},
    };
    check_changes(CASE("no_grad_block_raw"), changes, COUNT(changes));
    /* Outputs as one list. */
    check_holds(CASE("no_grad_block_raw"), BIAS GIVES(TENSOR("getitem")),
                BIAS GIVES("{\"as_tensors\": [{\"name\": \"getitem\"}]}"),
                "aten.mul.Tensor(%relu, %sum_1)");
}
END_TEST

/* A graph that only runs another one, `depth` deep. */
static char *wrapped(int depth) {
    static const char open[] =
        "{\"target\": \"torch.ops.higher_order.wrap\", \"name\": \"w\", \"outputs\": [], "
        "\"inputs\": [{\"name\": \"\", \"arg\": {\"as_graph\": {\"name\": \"g\", \"graph\": "
        "{\"inputs\": [], \"outputs\": [], \"tensor_values\": {}, \"nodes\": [";
    static const char close[] = "]}}}}]}";
    char *text = calloc(1, (size_t)depth * (sizeof open + sizeof close) + 64), *at = text;
    ck_assert_ptr_nonnull(text);
    at += sprintf(at, "\"nodes\": [");
    for (int i = 0; i < depth; i++)
        at += sprintf(at, "%s", open);
    for (int i = 0; i < depth; i++)
        at += sprintf(at, "%s", close);
    sprintf(at, ", ");
    return text;
}

START_TEST(refuses_deep_subgraphs) {
    char *fits = wrapped(32), *deep = wrapped(33);
    const change changes[] = {
        {MODEL, "\"nodes\": [", deep, TENON_UNSUPPORTED, "subgraphs nest deeper than 32"}};
    check_changes(CASE("param_views"), changes, COUNT(changes));
    check_holds(CASE("param_views"), "\"nodes\": [", fits, "aten.matmul");
    free(fits);
    free(deep);
}
END_TEST

/* ---- cond ---- */

#define BRANCH "\"outputs\": [" TENSOR("sub") "], \"nodes\""
#define OTHER "\"outputs\": [" TENSOR("add") "], \"nodes\""
#define PREDICATE         \
    ARG("", TENSOR("gt")) \
    ", "                  \
    "{\"name\": \"\", \"arg\": {\"as_graph\""

START_TEST(refuses_bad_branches) {
    static const change changes[] = {
        {MODEL, BRANCH, "\"outputs\": [" TENSOR("sub") ", " TENSOR("mul") "], \"nodes\"",
         TENON_INVALID_FILE, "its branches return 1 and 2 values"},
        {MODEL, BRANCH, "\"outputs\": [" INT("1") "], \"nodes\"", TENON_UNSUPPORTED,
         "its branches return numbers that differ"},
        {MODEL, "torch.ops.aten.sub.Tensor", "torch.ops.aten.sub_.Tensor", TENON_UNSUPPORTED,
         "a branch of cond writes to a tensor in place"},
        {MODEL, ARG("", TENSOR("gt")) ", ", "", TENON_INVALID_FILE,
         "cond needs a predicate, two graphs and operands"},
    };
    check_changes(CASE("cond"), changes, COUNT(changes));
}
END_TEST

/* A predicate that is known chooses its branch. */
START_TEST(chooses_known_branches) {
    check_holds(CASE("cond"), ARG("", TENSOR("gt")), ARG("", "{\"as_bool\": true}"),
                "aten.mul.Tensor(%add, 2)");
    check_holds(CASE("cond"), ARG("", TENSOR("gt")), ARG("", "{\"as_bool\": false}"),
                "aten.mul.Tensor(%sub, 2)");
}
END_TEST

/* Both branches may return the same number beside their tensors, which is then no choice. */
START_TEST(branches_with_numbers) {
    static const char *const numbers[] = {INT("3"), "{\"as_bool\": true}", "{\"as_float\": 2.5}"};
    static const char *const others[] = {INT("4"), "{\"as_bool\": false}", "{\"as_float\": 3.5}"};
    static const char *const printed[] = {
        "aten.mul.Tensor(%cond, 3)", "aten.mul.Tensor(%cond, true)", "aten.mul.Tensor(%cond, 2.5)"};
    for (size_t i = 0; i < COUNT(numbers); i++) {
        char yes[200], no[200], differs[200];
        snprintf(yes, sizeof yes, "\"outputs\": [" TENSOR("add") ", %s], \"nodes\"", numbers[i]);
        snprintf(no, sizeof no, "\"outputs\": [" TENSOR("sub") ", %s], \"nodes\"", numbers[i]);
        snprintf(differs, sizeof differs, "\"outputs\": [" TENSOR("sub") ", %s], \"nodes\"",
                 others[i]);
        change changes[] = {
            {MODEL, OTHER, yes, TENON_OK, NULL},
            {MODEL, BRANCH, no, TENON_OK, NULL},
            {MODEL, "\"outputs\": [" TENSOR("getitem") "]",
             "\"outputs\": [" TENSOR("getitem") ", {\"as_sym_int\": {\"as_name\": \"n\"}}]",
             TENON_OK, NULL},
            {MODEL, ARG("other", INT("2")), ARG("other", "{\"as_sym_int\": {\"as_name\": \"n\"}}"),
             TENON_OK, NULL},
        };
        tenon_graph *graph = load_changed(CASE("cond"), changes, COUNT(changes));
        ck_assert(holds(graph, printed[i]));
        tenon_graph_destroy(&graph);
        changes[1].to = differs;
        check_refused_after(CASE("cond"), changes, COUNT(changes), "return numbers that differ");
    }
}
END_TEST

/* A predicate of one element, whatever its rank, chooses all of the results. */
START_TEST(predicates_with_dimensions) {
    static const change changes[] = {
        {MODEL, "torch.ops.aten.sum.default", "torch.ops.aten.sum.dim_IntList", TENON_OK, NULL},
        {MODEL, ARG("self", TENSOR("x")) "]",
         ARG("self", TENSOR("x")) ", " ARG("dim", "{\"as_ints\": [0, 1]}") ", " ARG(
             "keepdim", "{\"as_bool\": true}") "]",
         TENON_OK, NULL},
        {MODEL, "\"sum_1\": {\"dtype\": 7, \"sizes\": []",
         "\"sum_1\": {\"dtype\": 7, \"sizes\": [" INT("1") ", " INT("1") "]", TENON_OK, NULL},
        {MODEL, "\"strides\": [], \"storage_offset\": {\"as_int\": 0}, \"layout\": 7}, \"gt\"",
         "\"strides\": [" INT("1") ", " INT("1") "], \"storage_offset\": {\"as_int\": 0}, "
                                                 "\"layout\": 7}, \"gt\"",
         TENON_OK, NULL},
        {MODEL, "\"gt\": {\"dtype\": 12, \"sizes\": []",
         "\"gt\": {\"dtype\": 12, \"sizes\": [" INT("1") ", " INT("1") "]", TENON_OK, NULL},
        {MODEL, "\"strides\": [], \"storage_offset\": {\"as_int\": 0}, \"layout\": 7}, \"getitem\"",
         "\"strides\": [" INT("1") ", " INT("1") "], \"storage_offset\": {\"as_int\": 0}, "
                                                 "\"layout\": 7}, \"getitem\"",
         TENON_OK, NULL},
    };
    tenon_graph *graph = load_changed(CASE("cond"), changes, COUNT(changes));
    ck_assert(holds(graph, "%cond: bool[] = aten.view(%gt, [])"));
    ck_assert(holds(graph, "float32[2, 3] = aten.where.self(%cond, %add, %sub)"));
    tenon_graph_destroy(&graph);
}
END_TEST

/* ---- Numbers out of tensors ---- */

START_TEST(numbers_of_tensors) {
    static const change refused[] = {
        {MODEL, ARG("self", TENSOR("n")), ARG("self", INT("1")), TENON_INVALID_FILE,
         "it takes a tensor and gives a number"},
        {MODEL, "\"outputs\": [{\"as_sym_int\": {\"as_name\": \"item\"}}]", "\"outputs\": []",
         TENON_INVALID_FILE, "it takes a tensor and gives a number"},
        {MODEL, ARG("end", INT("2")), ARG("end", "{\"as_sym_int\": {\"as_name\": \"item\"}}"),
         TENON_UNSUPPORTED, "argument 'end' depends on data"},
        /* A comparison of it is no number that Tenon computes. */
        {MODEL, ARG("end", INT("2")), ARG("end", "{\"as_sym_bool\": {\"as_name\": \"ge_1\"}}"),
         TENON_UNSUPPORTED, "argument 'end' depends on data"},
    };
    check_changes(EXTRA("item_raw"), refused, COUNT(refused));
    static const change lost[] = {
        {MODEL, "{\"user_output\": {\"arg\": " TENSOR("mul") "}}",
         "{\"user_output\": {\"arg\": {\"as_sym_bool\": {\"as_name\": \"ge_1\"}}}}",
         TENON_UNSUPPORTED, "an output is a number that depends on data"}};
    check_changes(EXTRA("item_raw"), lost, 1);
    static const change listed[] = {
        {MODEL, "\"zeros\": {\"dtype\"", "\"z\": {\"dtype\"", TENON_OK, NULL},
        {MODEL, "{\"as_sym_ints\": [{\"as_name\": \"item\"}]}",
         "{\"as_sym_ints\": [{\"as_int\": 1}, {\"as_name\": \"item\"}]}", TENON_OK, NULL}};
    check_refused_after(EXTRA("sized_raw"), listed, COUNT(listed),
                        "argument 'size' depends on data");
}
END_TEST

/* ---- Inputs and outputs ---- */

#define OUTPUT(name) "{\"user_output\": {\"arg\": " TENSOR(name) "}}"

START_TEST(inputs_and_outputs) {
    static const change refused[] = {
        {MODEL, "{\"user_input\": {\"arg\": " TENSOR("x") "}}",
         "{\"user_input\": {\"arg\": {\"as_tensor\": {}}}}", TENON_INVALID_FILE,
         "an input has no name"},
        {MODEL, "{\"user_input\": {\"arg\": " TENSOR("x") "}}", "{}", TENON_INVALID_FILE,
         "an input in the signature is damaged"},
    };
    check_changes(CASE("dyn_derived_raw"), refused, COUNT(refused));
    /* The specification of the outputs is gone: they are called as their values, each once. */
    static const change changes[] = {
        {MODEL, "\"out_spec\"", "\"x\"", TENON_OK, NULL},
        {MODEL, OUTPUT("mul"), OUTPUT("add"), TENON_OK, NULL},
        {MODEL, OUTPUT("sum_1"), "{\"loss_output\": {\"arg\": {\"name\": \"sum_1\"}}}", TENON_OK,
         NULL},
    };
    tenon_graph *graph = load_changed(CASE("dyn_derived_raw"), changes, COUNT(changes));
    ck_assert_str_eq(tenon_graph_output_name(graph, 0), "add");
    ck_assert_str_eq(tenon_graph_output_name(graph, 1), "add_1");
    ck_assert_ptr_eq(tenon_graph_output(graph, 2).as.value, tenon_graph_find_value(graph, "sum_1"));
    tenon_graph_destroy(&graph);
}
END_TEST

/* Texts of the archive may end in a line feed. */
START_TEST(versions_with_line_feeds) {
    static const change changes[] = {{"archive_version", NULL, "0 \n", TENON_OK, NULL},
                                     {"byteorder", NULL, "little\n", TENON_OK, NULL}};
    tenon_graph *graph = load_changed(CASE("param_views"), changes, COUNT(changes));
    tenon_graph_destroy(&graph);
}
END_TEST

/* ---- Weights ---- */

#define MORE INT("1") ", "
#define SIZE "\"sizes\": [{\"as_int\": 3}"
#define SYMBOLIC "{\"as_expr\": {\"expr_str\": \"" S77 "\"}}"

START_TEST(refuses_odd_weights) {
    char path[1000];
    snprintf(path, sizeof path, "\"%0900d\"", 1);
    const change changes[] = {
        {WEIGHTS, SIZE,
         "\"sizes\": [" MORE MORE MORE MORE MORE MORE MORE MORE MORE MORE MORE MORE INT("1"),
         TENON_UNSUPPORTED, "'w' has more than 12 dimensions"},
        {WEIGHTS, "\"strides\": [{\"as_int\": 6}", "\"strides\": [" SYMBOLIC, TENON_INVALID_FILE,
         "weight 'w' has a symbolic size or stride"},
        {WEIGHTS, "\"storage_offset\": {\"as_int\": 8}", "\"storage_offset\": " SYMBOLIC,
         TENON_INVALID_FILE, "weight 'w' has a symbolic offset"},
        {WEIGHTS, "\"weight_0\"", path, TENON_INVALID_FILE, "its path_name is too long"},
    };
    check_changes(CASE("param_views"), changes, COUNT(changes));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pt2_programs");
    TCase *tests = tcase_create("pt2_programs");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, refuses_bad_sizes);
    tcase_add_test(tests, refuses_deep_and_long_sizes);
    tcase_add_test(tests, reads_forms_of_sizes);
    tcase_add_test(tests, ranges);
    tcase_add_test(tests, refuses_bad_arguments);
    tcase_add_test(tests, dropout);
    tcase_add_test(tests, refuses_bad_wrappers);
    tcase_add_test(tests, refuses_deep_subgraphs);
    tcase_add_test(tests, refuses_bad_branches);
    tcase_add_test(tests, chooses_known_branches);
    tcase_add_test(tests, branches_with_numbers);
    tcase_add_test(tests, predicates_with_dimensions);
    tcase_add_test(tests, numbers_of_tensors);
    tcase_add_test(tests, inputs_and_outputs);
    tcase_add_test(tests, versions_with_line_feeds);
    tcase_add_test(tests, refuses_odd_weights);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
