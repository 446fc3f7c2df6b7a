/* Float32 models in bfloat16: where casts go, and what comes out. */
#include "core/graph.h"
#include "fusion/bf16.h"
#include "pass_test.h"

static int count(const tenon_graph *graph, const char *op, tenon_dtype dtype) {
    int found = 0;
    for (const tenon_node *n = graph->first; n; n = n->next)
        found += strcmp(n->op->name, op) == 0 && n->outputs[0]->dtype == dtype;
    return found;
}

/* Both phases of the pipeline with bfloat16 in it, on a graph without symbols. */
static tenon_graph *lower(const char *text) {
    tenon_graph *graph = pass_parse(text);
    tenon_pass_list *list = NULL, *low = NULL;
    ck_assert_int_eq(tenon_pass_list_create(&list), TENON_OK);
    ck_assert_int_eq(tn_bf16_pipeline(list, &low), TENON_OK);
    ck_assert_int_eq(tenon_pass_list_count(low), tenon_pass_list_count(list) + 2);
    tenon_pass_list_destroy(&list);
    for (int phase = 0; phase < 2; phase++)
        ck_assert_msg(tenon_pass_list_run(low, (tenon_pass_phase)phase, graph) == TENON_OK, "%s",
                      tenon_last_error());
    tenon_pass_list_destroy(&low);
    return graph;
}

/* One cast in, one cast out; what is between stays in bfloat16, the norm gets float32. */
START_TEST(casts_stand_at_the_edges) {
    tenon_graph *graph = lower(
        "graph g { input %x: float32[2, 3, 8, 8]\n  const %w: float32[4, 3, 3, 3] = random(1)\n"
        "  const %v: float32[4, 4, 1, 1] = random(2)\n  const %b: float32[4] = random(3)\n"
        "  %c = aten.convolution(%x, %w, %b, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)\n"
        "  %r = aten.relu(%c)\n  %p = aten.max_pool2d(%r, [2, 2])\n"
        "  %d = aten.convolution(%p, %v, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)\n"
        "  %a = aten.add.Tensor(%d, %p)\n  %s = aten._softmax(%a, 1, false)\n  output \"o\" = %a\n"
        "  output \"s\" = %s }");
    ck_assert_int_eq(count(graph, "aten.convolution", TENON_BFLOAT16), 2);
    ck_assert_int_eq(count(graph, "aten.relu", TENON_BFLOAT16), 1);
    ck_assert_int_eq(count(graph, "aten.add.Tensor", TENON_BFLOAT16), 1);
    ck_assert_int_eq(count(graph, "aten._softmax", TENON_FLOAT32), 1);
    ck_assert_int_eq(count(graph, "aten._to_copy", TENON_BFLOAT16), 1);
    ck_assert_int_eq(count(graph, "aten._to_copy", TENON_FLOAT32), 1);
    for (int i = 0; i < graph->output_count; i++)
        ck_assert_int_eq(graph->outputs[i].use->value->dtype, TENON_FLOAT32);
    for (int i = 0; i < graph->constant_count; i++)
        ck_assert_int_eq(graph->constants[i]->dtype, TENON_BFLOAT16);
    tenon_graph_destroy(&graph);
}
END_TEST

/* What depends on constants alone is computed before there is any bfloat16. */
START_TEST(constants_fold_in_float32) {
    tenon_graph *graph = lower("graph g { const %x: float32[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                               "  const %w: float32[2, 3] = {1, 0, -1, 2, 2, 2}\n"
                               "  const %b: float32[2] = {10, 20}\n  input %y: float32[2, 3]\n"
                               "  %l = aten.linear(%x, %w, %b)\n  %m = aten.linear(%y, %w, %b)\n"
                               "  output \"l\" = %l\n  output \"m\" = %m }");
    /* the first is folded in float32, before there is any bfloat16 */
    ck_assert_int_eq(count(graph, "aten.linear", TENON_BFLOAT16), 1);
    tenon_graph_destroy(&graph);
}
END_TEST

/* Casts that the model has, and values that are bfloat16 already, stay. */
START_TEST(the_models_own_dtypes_stay) {
    tenon_graph *graph = lower("graph g { input %x: float64[2, 3]\n  input %h: bfloat16[2, 3]\n"
                               "  const %w: float64[2, 3] = random(1)\n"
                               "  %l = aten.linear(%x, %w)\n  %s = aten._softmax(%h, 1, false)\n"
                               "  output \"l\" = %l\n  output \"s\" = %s }");
    ck_assert_int_eq(count(graph, "aten.linear", TENON_FLOAT64), 1);
    ck_assert_int_eq(count(graph, "aten._softmax", TENON_BFLOAT16), 1);
    ck_assert_int_eq(graph->node_count, 2);
    tenon_graph_destroy(&graph);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pass_bf16");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, casts_stand_at_the_edges);
    tcase_add_test(tests, constants_fold_in_float32);
    tcase_add_test(tests, the_models_own_dtypes_stay);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
