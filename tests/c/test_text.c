/* The text form: round trips, and messages that name the line. */
#include "core/graph.h"
#include "core/text.h"
#include "suite.h"
#include <check.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

static tenon_graph *parse(const char *text) {
    tenon_graph *graph = NULL;
    tenon_status status = tenon_graph_parse(text, "t", &graph);
    ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
    return graph;
}

static char *print(const tenon_graph *graph) {
    char *text = NULL;
    ck_assert_int_eq(tenon_graph_print(graph, &text), TENON_OK);
    return text;
}

/* What is printed is `want`, and is printed again after it was read. */
static void check_round_trip(const char *text, const char *want) {
    tenon_graph *graph = parse(text);
    char *first = print(graph);
    ck_assert_str_eq(first, want);
    tenon_graph *again = parse(first);
    char *second = print(again);
    ck_assert_str_eq(second, want);
    tenon_string_free(first);
    tenon_string_free(second);
    tenon_graph_destroy(&graph);
    tenon_graph_destroy(&again);
}

static const char *fails(const char *text, tenon_status status) {
    tenon_graph *graph = NULL;
    ck_assert_int_eq(tenon_graph_parse(text, "t", &graph), status);
    ck_assert_ptr_null(graph);
    return tenon_last_error();
}

START_TEST(round_trip_of_everything) {
    check_round_trip(
        "# a comment\n"
        "graph g {\n"
        "  symbol s0 in [2, 64]\n"
        "  constraint 2*s0 in [4, 100]\n"
        "  input %x: float32[s0, 3]\n"
        "  input %y: int64[2*s0 + 1]   # derived\n"
        "  input %n: symint\n"
        "  input %m: symint[s0 + 1]\n"
        "  input %f: symfloat\n"
        "  const %w: float32[2, 3] = {0.1, -0.0, inf, -inf, nan, 16777216}\n"
        "  const %\"a b\": bool[2] = {true, false}\n"
        "  buffer %count: uint64[] = {18446744073709551615}\n"
        "  %v: float32[?, ?] = aten.permute(%x, [0, 1]) in \"layer.0\"\n"
        "  %a, %b = aten.split.sizes(%w, [1, 2], dim=1) name \"halves\"\n"
        "  aten._assert_scalar(%n, \"say \\\"no\\\"\\n\")\n"
        "  %c = aten.alias(%count)\n"
        "  write %count <- %c\n"
        "  output \"out.0\" = %v\n"
        "  output \"none\" = none\n"
        "  output \"half\" = 0.5\n"
        "  output \"three\" = 3\n"
        "}\n",
        "graph \"g\" {\n"
        "  symbol s0 in [2, 64]\n"
        "  constraint 2*s0 in [4, 100]\n"
        "  input %x: float32[s0, 3]\n"
        "  input %y: int64[(2*s0) + 1]\n"
        "  input %n: symint\n"
        "  input %m: symint[s0 + 1]\n"
        "  input %f: symfloat\n"
        "  const %w: float32[2, 3] = {0.1, -0.0, inf, -inf, nan, 16777216.0}\n"
        "  const %\"a b\": bool[2] = {true, false}\n"
        "  buffer %count: uint64[] = {18446744073709551615}\n"
        "  %v: float32[?, ?] = aten.permute(%x, [0, 1]) in \"layer.0\"\n"
        "  %a: float32[2, 1], %b: float32[2, 2] = aten.split.sizes(%w, [1, 2], 1) name \"halves\"\n"
        "  aten._assert_scalar(%n, \"say \\\"no\\\"\\n\") name \"_assert_scalar\"\n"
        "  %c: uint64[] = aten.alias(%count)\n"
        "  write %count <- %c\n"
        "  output \"out.0\" = %v\n"
        "  output \"none\" = none\n"
        "  output \"half\" = 0.5\n"
        "  output \"three\" = 3\n"
        "}\n");
}
END_TEST

START_TEST(floats_read_back) {
    static const double values[] = {0.1,    1.0 / 3,   1e-45,  3.4028234663852886e38,
                                    5e-324, 1e22,      -0.0,   65504,
                                    1e-7,   123456789, 2.5e-7, 1e300,
                                    M_PI,   0x1p-126};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        for (tenon_dtype dtype = TENON_FLOAT16; dtype <= TENON_FLOAT64; dtype++) {
            char stored[8], back[8];
            tn_text text = {0};
            const char *end = NULL;
            double value;
            tn_store_float(stored, dtype, values[i]);
            tn_text_float(&text, tn_load_float(stored, dtype), dtype);
            ck_assert_msg(tn_parse_float(text.data, &end, &value) && !*end, "%s", text.data);
            tn_store_float(back, dtype, value);
            ck_assert_msg(memcmp(stored, back, tenon_dtype_size(dtype)) == 0, "%.17g as %s: %s",
                          values[i], tenon_dtype_text(dtype), text.data);
            ck_assert_msg(strpbrk(text.data, ".einf") != NULL, "%s looks like an integer",
                          text.data);
            tn_text_free(&text);
        }
    }
}
END_TEST

/* A host with decimal commas reads and writes the same text. */
START_TEST(the_locale_does_not_count) {
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"};
    for (size_t i = 0; i < sizeof locales / sizeof *locales; i++)
        if (setlocale(LC_ALL, locales[i]))
            break;
    check_round_trip("graph { const %w: float64[2] = {0.5, 1e-05} output \"o\" = 2.5 }",
                     "graph {\n  const %w: float64[2] = {0.5, 1e-05}\n  output \"o\" = 2.5\n}\n");
}
END_TEST

START_TEST(elements_are_made) {
    tenon_graph *graph =
        parse("graph {"
              "  const %z: float32[3] = zeros\n const %o: int8[2] = ones\n"
              "  const %f: bfloat16[2, 2] = full(1.5)\n const %t: bool[1] = full(true)\n"
              "  const %r: float32[1000] = random(7)\n const %s: float32[1000] = random(7)\n"
              "  const %i: int64[1000] = random(3, -2, 5)\n const %u: float32[1000] = random(8)\n"
              "}");
    const tenon_view *v = tenon_tensor_view(tenon_value_tensor(tenon_graph_find_value(graph, "f")));
    ck_assert_uint_eq(((const uint16_t *)v->data)[3], 0x3fc0);
    ck_assert_int_eq(tenon_value_dtype(tenon_graph_find_value(graph, "o")), TENON_INT8);
    const float *r =
        tenon_tensor_view(tenon_value_tensor(tenon_graph_find_value(graph, "r")))->data;
    const float *s =
        tenon_tensor_view(tenon_value_tensor(tenon_graph_find_value(graph, "s")))->data;
    const float *u =
        tenon_tensor_view(tenon_value_tensor(tenon_graph_find_value(graph, "u")))->data;
    const int64_t *n =
        tenon_tensor_view(tenon_value_tensor(tenon_graph_find_value(graph, "i")))->data;
    ck_assert_mem_eq(r, s, 1000 * sizeof *r);
    ck_assert_mem_ne(r, u, 1000 * sizeof *r);
    int64_t low = 0, high = 0;
    for (int i = 0; i < 1000; i++) {
        ck_assert(r[i] >= -1 && r[i] < 1);
        low = n[i] < low ? n[i] : low;
        high = n[i] > high ? n[i] : high;
    }
    ck_assert_int_eq(low, -2);
    ck_assert_int_eq(high, 4);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(large_constants_are_left_out) {
    tenon_graph *graph = parse("graph { const %w: float32[65] = zeros }");
    char *text = print(graph);
    ck_assert_str_eq(text, "graph {\n  const %w: float32[65] = ...\n}\n");
    ck_assert_ptr_nonnull(
        strstr(fails(text, TENON_INVALID_FILE), "t:2: the elements were left out"));
    tenon_string_free(text);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(refuses_with_the_line) {
    static const struct {
        const char *text, *message;
        tenon_status status;
    } cases[] = {
        {"", "t:1: a graph starts with", TENON_INVALID_FILE},
        {"graph g {", "t:1: an operator or a statement is missing at the end", TENON_INVALID_FILE},
        {"graph g { input %x: float32[2, 3]\n input %y: int8[4]\n %z = aten.add.Tensor(%x, %y) }",
         "shapes [2, 3] and int8[4] do not broadcast", TENON_INVALID_GRAPH},
        {"graph g {}\nx", "t:2: text after the graph", TENON_INVALID_FILE},
        {"graph g {\n\n%y = aten.alias(%x)}", "t:3: no value %x is known", TENON_INVALID_FILE},
        {"graph g {\ninput %x: float32[1, 1, 4, 4]\nconst %w: float32[1, 1, 3, 3, 3] = zeros\n"
         "%y = aten.convolution(%x, %w, none, [1], [0], [1], false, [0], 1)}",
         "t:4: node 'y' (aten.convolution): needs a weight of rank 4, not 5", TENON_INVALID_GRAPH},
        {"graph g {\n%y = aten.no_such(1)}", "t:2: unknown operator 'aten.no_such'",
         TENON_UNKNOWN_OP},
        {"graph g {\ninput %x: float33[2]}", "t:2: unknown dtype 'float33'", TENON_INVALID_FILE},
        {"graph g {\ninput %x: float32[-2]}", "t:2: input 'x': size -2", TENON_INVALID_ARGUMENT},
        {"graph g {\ninput %x: float32[s0 +]}", "t:2: input 'x': size expression",
         TENON_INVALID_ARGUMENT},
        {"graph g {\ninput %x: float32[2]\ninput %x: float32[2]}", "t:3: graph 'g': two values",
         TENON_INVALID_GRAPH},
        {"graph g {\nconst %w: float32[2] = {1}}", "t:2: 1 elements, the shape has 2",
         TENON_INVALID_FILE},
        {"graph g {\nconst %w: float32[2] = {1, 2, 3}}", "t:2: more than the 2",
         TENON_INVALID_FILE},
        {"graph g {\nconst %w: int8[1] = {200}}", "t:2: 200 does not fit in int8",
         TENON_INVALID_FILE},
        {"graph g {\nconst %w: int8[1] = {1.5}}", "must be an integer", TENON_INVALID_FILE},
        {"graph g {\nconst %w: float32[99999999999] = {1}}", "more elements than the text",
         TENON_INVALID_FILE},
        {"graph g {\nconst %w: float32[99999999999] = zeros}",
         "more than max_unpacked_bytes leaves", TENON_LIMIT},
        {"graph g {\nconst %w: float32[4000000000, 4000000000, 4] = zeros}", "the sizes overflow",
         TENON_INVALID_FILE},
        {"graph g {\ninput %x: float32[2]\n%y: int64[2] = aten.alias(%x)}",
         "t:3: y is float32, the text says int64", TENON_INVALID_FILE},
        {"graph g {\ninput %x: float32[2]\n%y: float32[3] = aten.alias(%x)}", "size 0 of y is 2",
         TENON_INVALID_FILE},
        {"graph g {\ninput %x: float32[2]\n%y, %z = aten.alias(%x)}",
         "has 1 outputs, the text names 2", TENON_INVALID_FILE},
        {"graph g {\ninput %x: float32[2]\n%x = aten.alias(%x)}", "two values are named 'x'",
         TENON_INVALID_FILE},
        {"graph g {\ninput %x: float32[2]\n%y = aten.alias(%x, 1)}", "takes 1 arguments",
         TENON_INVALID_FILE},
        {"graph g {\ninput %x: float32[2]\n%y = aten.alias(selv=%x)}", "has no argument 'selv'",
         TENON_INVALID_FILE},
        {"graph g {\ninput %x: float32[2]\n%y = aten.permute(dims=[0], %x)}",
         "without a name follows", TENON_INVALID_FILE},
        {"graph g {\ninput %x: float32[2]\n%y = aten.permute(%x, [[0]])}",
         "a list cannot hold a list", TENON_INVALID_FILE},
        {"graph g {\ninput %x: float32[2]\n%y = aten.permute(%x, [9223372036854775808])}",
         "does not fit in 64 bits", TENON_INVALID_FILE},
        {"graph g {\noutput \"a\\q\" = 1}", "unknown escape '\\q'", TENON_INVALID_FILE},
        {"graph g {\noutput \"a = 1}", "does not end on its line", TENON_INVALID_FILE},
        {"graph g {\nsymbol s0 in [3, 2]}", "the range is empty", TENON_INVALID_FILE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *message = fails(cases[i].text, cases[i].status);
        ck_assert_msg(strstr(message, cases[i].message) != NULL, "'%s' does not hold '%s'", message,
                      cases[i].message);
    }
}
END_TEST

/* 200,000 nodes: linear time, and no recursion over the graph. */
START_TEST(long_chains) {
    enum { COUNT = 200000 };
    tn_text text = {0};
    tn_text_add(&text, "graph {\n  input %%v0: float32[2]\n");
    for (int i = 1; i <= COUNT; i++)
        tn_text_add(&text, "  %%v%d: float32[2] = aten.alias(%%v%d)\n", i, i - 1);
    tn_text_add(&text, "  output \"o\" = %%v%d\n}\n", COUNT);
    tenon_graph *graph = parse(text.data);
    ck_assert_int_eq(tenon_graph_node_count(graph), COUNT);
    char *again = print(graph);
    ck_assert_str_eq(again, text.data);
    tenon_string_free(again);
    tn_text_free(&text);
    tenon_graph_destroy(&graph);
}
END_TEST

/* Every prefix of a text, and the text with each byte changed, parses or fails; run under the
 * sanitizers. */
START_TEST(damaged_texts) {
    static const char good[] =
        "graph \"g\\x41\" {\n symbol s0 in [2, inf]\n input %x: float32[s0, min(2, 3)]\n"
        " const %w: uint64[2] = {1, 18446744073709551615}\n"
        " %y: ?[...] = aten.permute(%x, dims=[1, -1]) name \"q\" in \"m\"\n"
        " output \"o\" = %y\n output \"p\" = -1e-3\n}\n";
    char text[sizeof good];
    for (size_t i = 0; i < sizeof good - 1; i++) {
        tenon_graph *graph = NULL;
        memcpy(text, good, sizeof good);
        text[i] = '\0';
        if (tenon_graph_parse(text, NULL, &graph) == TENON_OK)
            tenon_graph_destroy(&graph);
        for (int flip = 0; flip < 12; flip++) {
            static const char with[] = "\"\\%[]{}(9.- ";
            memcpy(text, good, sizeof good);
            text[i] = with[flip];
            if (tenon_graph_parse(text, NULL, &graph) == TENON_OK)
                tenon_graph_destroy(&graph);
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text");
    TCase *tests = tcase_create("text");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, round_trip_of_everything);
    tcase_add_test(tests, floats_read_back);
    tcase_add_test(tests, the_locale_does_not_count);
    tcase_add_test(tests, elements_are_made);
    tcase_add_test(tests, large_constants_are_left_out);
    tcase_add_test(tests, refuses_with_the_line);
    tcase_add_test(tests, long_chains);
    tcase_add_test(tests, damaged_texts);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
