/* Composite ops, lowered and computed, give what PyTorch gives; what cannot be lowered is refused.
 */
#include "lower_cases.h"
#include "pass_test.h"
#include "suite.h"

static void types_of(const tenon_graph *graph, char *text, size_t capacity) {
    size_t used = 0;
    for (int i = 0; i < tenon_graph_output_count(graph); i++) {
        const tenon_view *view = pass_output(graph, i);
        char shape[256];
        used += (size_t)snprintf(
            text + used, capacity - used, "%s%s", i ? " " : "",
            tn_shape_text(view->dtype, view->rank, view->shape, shape, sizeof shape));
    }
}

START_TEST(composites_compute_what_pytorch_does) {
    const lower_case *c = &lower_cases[_i];
    tenon_graph *graph = pass_parse(c->text);
    char types[512];
    int count = 0;
    pass_run_all(graph, "drop lower lower_all fold_shapes");
    types_of(graph, types, sizeof types);
    ck_assert_msg(strcmp(types, c->types) == 0, "%s: %s, not %s", c->name, types, c->types);
    for (int i = 0; i < tenon_graph_output_count(graph); i++) {
        const tenon_view *view = pass_output(graph, i);
        for (int64_t k = 0; k < tenon_view_numel(view); k++)
            pass_near(c->name, k, pass_element(view, k), c->want[count++], 2e-6);
    }
    ck_assert_int_eq(count, c->count);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(without_sizes_what_needs_none_is_lowered) {
    pass_check(
        "graph g { input %x: float32[s0, 3, s1, s1]\n  const %w: float32[4, 3, 3, 3] = random(1)\n"
        "  %y: float32[?, 4, ?, ?] = aten.conv2d(%x, %w, none, [1, 1], [1, 1])\n"
        "  %z: float32[?, 4, ?, ?] = aten.softmax.int(%y, 1)\n  output \"o\" = %z }",
        "lower",
        "graph g { input %x: float32[s0, 3, s1, s1]\n  const %w: float32[4, 3, 3, 3] = random(1)\n"
        "  %y: float32[?, 4, ?, ?] = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], "
        "false, [0, 0], 1)\n"
        "  %z: float32[?, 4, ?, ?] = aten._softmax(%y, 1, false)\n  output \"o\" = %z }");
    pass_keeps("graph g { input %x: float32[s0, 3]\n  input %y: float32[3, s1]\n"
               "  %z: float32[?, ?] = aten.matmul(%x, %y)\n  output \"o\" = %z }",
               "lower");
}
END_TEST

START_TEST(copies_asserts_and_dropout_go) {
    pass_check(
        "graph g { input %x: float32[2]\n  aten._assert_tensor_metadata(%x, none, none, float32)\n"
        "  %a = aten.clone(%x)\n  %b = aten.dropout(%a, 0.5, false)\n"
        "  %c = aten.detach(%b)\n  %d, %m = aten.native_dropout(%c, 0.5, false)\n"
        "  %e = aten.contiguous(%d)\n  %f = aten.relu(%e)\n  output \"o\" = %f\n"
        "  output \"m\" = %m }",
        "drop lower",
        "graph g { input %x: float32[2]\n  %m = aten.ones_like(%x, dtype=bool)\n"
        "  %f = aten.relu(%x)\n  output \"o\" = %f\n  output \"m\" = %m }");
}
END_TEST

START_TEST(indices_that_are_read_stay) {
    pass_keeps("graph g { input %x: float32[1, 1, 4, 4]\n"
               "  %a, %i = aten.max_pool2d_with_indices(%x, [2, 2])\n  output \"o\" = %i }",
               "lower");
}
END_TEST

START_TEST(training_is_refused) {
    pass_refuses("graph g { input %x: float32[2]\n  %y = aten.dropout(%x, 0.5, true)\n"
                 "  output \"o\" = %y }",
                 "lower", "'y'");
    pass_refuses("graph g { input %x: float32[2, 3]\n  const %m: float32[3] = zeros\n"
                 "  const %v: float32[3] = ones\n"
                 "  %y = aten.batch_norm(%x, none, none, %m, %v, true, 0.1, 1e-05, true)\n"
                 "  output \"o\" = %y }",
                 "lower", "'y'");
}
END_TEST

/* Numbers in the place of tensors, and arguments that make no sense before sizes are known: errors,
 * never a crash. */
START_TEST(odd_arguments_are_refused) {
    static const char *const nodes[] = {
        "%y = aten.softmax.int(3.0, 0)",        "%y = aten.type_as(%x, 2)",
        "%y = aten.hstack([1, 2.5])",           "%y = aten.einsum(\"i,i\", [%x, 3])",
        "%y = aten.cosine_similarity(%x, 1.0)",
    };
    for (int i = 0; i < (int)(sizeof nodes / sizeof *nodes); i++) {
        char text[256];
        tenon_graph *graph = NULL;
        snprintf(text, sizeof text, "graph g { input %%x: float32[4]\n  %s\n  output \"o\" = %%y }",
                 nodes[i]);
        tenon_status status = tenon_graph_parse(text, "test", &graph);
        if (status == TENON_OK)
            status = pass_run(graph, "lower_all");
        ck_assert_msg(status != TENON_OK, "%s", nodes[i]);
        tenon_graph_destroy(&graph);
    }
    pass_keeps(
        "graph g { input %x: float32[s0, 4, 3]\n  const %w: float32[3, 2, 1] = random(1)\n"
        "  const %g: float32[2] = ones\n  const %z: float32[2] = zeros\n"
        "  %y: float32[?, 2, ?] = aten.convolution(%x, %w, none, [1], [0], [1], true, [0], 0)\n"
        "  %n: float32[?, 2, ?], %s: float32[0], %t: float32[0] = "
        "aten._native_batch_norm_legit_no_training(%y, %g, %z, %z, %g, 0.1, 1e-05)\n"
        "  output \"o\" = %n }",
        "fold_bn");
}
END_TEST

START_TEST(what_cannot_be_lowered_is_refused) {
    pass_refuses("graph g { input %q: float32[1, 1, 2, 4]\n"
                 "  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %q, %q)\n"
                 "  output \"o\" = %l }",
                 "lower_all", "'y'");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pass_lower");
    TCase *tests = tcase_create("all");
    tcase_add_loop_test(tests, composites_compute_what_pytorch_does, 0,
                        (int)(sizeof lower_cases / sizeof *lower_cases));
    tcase_add_test(tests, without_sizes_what_needs_none_is_lowered);
    tcase_add_test(tests, copies_asserts_and_dropout_go);
    tcase_add_test(tests, indices_that_are_read_stay);
    tcase_add_test(tests, training_is_refused);
    tcase_add_test(tests, what_cannot_be_lowered_is_refused);
    tcase_add_test(tests, odd_arguments_are_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
