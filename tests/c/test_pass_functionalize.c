/* In-place ops become values and write-backs. */
#include "inplace_cases.h"
#include "pass_test.h"
#include "suite.h"

START_TEST(in_place_is_a_value) {
    pass_check("graph g { input %x: float32[2]\n"
               "  %a = aten.mul.Tensor(%x, 2.0)\n"
               "  %b = aten.relu_(%a)\n"
               "  %c = aten.add.Tensor(%a, %b)\n"
               "  output \"o\" = %c }",
               "functionalize",
               "graph g { input %x: float32[2]\n"
               "  %a = aten.mul.Tensor(%x, 2.0)\n"
               "  %b = aten.relu(%a)\n"
               "  %c = aten.add.Tensor(%b, %b)\n"
               "  output \"o\" = %c }");
}
END_TEST

START_TEST(earlier_reads_keep_the_old_elements) {
    pass_check("graph g { input %x: float32[2]\n"
               "  %a = aten.mul.Tensor(%x, 2.0)\n"
               "  %s = aten.sum(%a)\n"
               "  %b = aten.relu_(%a)\n"
               "  output \"s\" = %s\n  output \"a\" = %a }",
               "functionalize",
               "graph g { input %x: float32[2]\n"
               "  %a = aten.mul.Tensor(%x, 2.0)\n"
               "  %s = aten.sum(%a)\n"
               "  %b = aten.relu(%a)\n"
               "  output \"s\" = %s\n  output \"a\" = %b }");
}
END_TEST

/* torch: x = x.clone(); s = x.sum(); v = x.view(-1); v += 1; x[:, 1:].relu_(); x[1, 2] = c */
START_TEST(writes_through_views) {
    pass_check("graph g { input %x: float32[3, 4]\n  input %k: float32[]\n"
               "  %c = aten.mul.Tensor(%x, 1.0)\n"
               "  %s = aten.sum(%c)\n"
               "  %v = aten.view(%c, [-1])\n"
               "  %w = aten.add_.Tensor(%v, 1.0)\n"
               "  %p = aten.slice.Tensor(%c, 1, 1, 9223372036854775807)\n"
               "  %r = aten.relu_(%p)\n"
               "  %row = aten.select.int(%c, 0, 1)\n"
               "  %e = aten.select.int(%row, 0, 2)\n"
               "  %f = aten.copy_(%e, %k)\n"
               "  output \"c\" = %c\n  output \"w\" = %w\n  output \"s\" = %s }",
               "functionalize",
               "graph g { input %x: float32[3, 4]\n  input %k: float32[]\n"
               "  %c = aten.mul.Tensor(%x, 1.0)\n"
               "  %s = aten.sum(%c)\n"
               "  %v = aten.view(%c, [-1])\n"
               "  %w = aten.add.Tensor(%v, 1.0)\n"
               "  %c1 = aten.view(%w, [3, 4])\n"
               "  %p = aten.slice.Tensor(%c1, 1, 1, 9223372036854775807)\n"
               "  %r = aten.relu(%p)\n"
               "  %c2 = aten.slice_scatter(%c1, %r, 1, 1, 9223372036854775807)\n"
               "  %row = aten.select.int(%c2, 0, 1)\n"
               "  %e = aten.select.int(%row, 0, 2)\n"
               "  %f = aten.copy(%e, %k)\n"
               "  %row1 = aten.select_scatter(%row, %f, 0, 2)\n"
               "  %c3 = aten.select_scatter(%c2, %row1, 0, 1)\n"
               "  %v1 = aten.view(%c3, [-1])\n"
               "  output \"c\" = %c3\n  output \"w\" = %v1\n  output \"s\" = %s }");
}
END_TEST

START_TEST(two_views_of_one_base) {
    pass_check("graph g { input %x: float32[2, 3]\n"
               "  %c = aten.mul.Tensor(%x, 1.0)\n"
               "  %a = aten.select.int(%c, 0, 0)\n"
               "  %b = aten.select.int(%c, 0, 1)\n"
               "  %a1 = aten.relu_(%a)\n"
               "  %b1 = aten.neg_(%b)\n"
               "  output \"c\" = %c }",
               "functionalize",
               "graph g { input %x: float32[2, 3]\n"
               "  %c = aten.mul.Tensor(%x, 1.0)\n"
               "  %a = aten.select.int(%c, 0, 0)\n"
               "  %a1 = aten.relu(%a)\n"
               "  %c1 = aten.select_scatter(%c, %a1, 0, 0)\n"
               "  %b = aten.select.int(%c1, 0, 1)\n"
               "  %b1 = aten.neg(%b)\n"
               "  %c2 = aten.select_scatter(%c1, %b1, 0, 1)\n"
               "  output \"c\" = %c2 }");
}
END_TEST

START_TEST(permuted_split_and_diagonal) {
    pass_check("graph g { input %x: float32[4, 4]\n"
               "  %c = aten.mul.Tensor(%x, 1.0)\n"
               "  %p = aten.permute(%c, [1, 0])\n"
               "  %a, %b = aten.split.Tensor(%p, 2, 1)\n"
               "  %r = aten.relu_(%b)\n"
               "  %d = aten.diagonal(%c)\n"
               "  %z = aten.zero_(%d)\n"
               "  output \"c\" = %c }",
               "functionalize",
               "graph g { input %x: float32[4, 4]\n"
               "  %c = aten.mul.Tensor(%x, 1.0)\n"
               "  %p = aten.permute(%c, [1, 0])\n"
               "  %a, %b = aten.split.Tensor(%p, 2, 1)\n"
               "  %r = aten.relu(%b)\n"
               "  %p1 = aten.slice_scatter(%p, %r, 1, 2, 4, 1)\n"
               "  %c1 = aten.permute(%p1, [1, 0])\n"
               "  %d = aten.diagonal(%c1)\n"
               "  %z = aten.fill.Scalar(%d, 0)\n"
               "  %c2 = aten.diagonal_scatter(%c1, %z)\n"
               "  output \"c\" = %c2 }");
}
END_TEST

START_TEST(inputs_and_buffers_are_written_back) {
    pass_check("graph g { input %x: float32[2, 3]\n  buffer %n: int64[] = {0}\n"
               "  %m = aten.mul_.Tensor(%x, 2.0)\n"
               "  %k = aten.add_.Tensor(%n, 1)\n"
               "  %y = aten.add.Tensor(%m, %k)\n"
               "  output \"y\" = %y\n  output \"x\" = %x }",
               "functionalize",
               "graph g { input %x: float32[2, 3]\n  buffer %n: int64[] = {0}\n"
               "  %m = aten.mul.Tensor(%x, 2.0)\n"
               "  %k = aten.add.Tensor(%n, 1)\n"
               "  %y = aten.add.Tensor(%m, %k)\n"
               "  write %x <- %m\n  write %n <- %k\n"
               "  output \"y\" = %y\n  output \"x\" = %m }");
}
END_TEST

START_TEST(a_written_constant_is_state) {
    tenon_graph *graph = pass_parse("graph g { const %p: float32[] = {3}\n"
                                    "  %q = aten.mul_.Tensor(%p, 2.0)\n  output \"q\" = %q }");
    ck_assert_int_eq(pass_run(graph, "functionalize"), TENON_OK);
    ck_assert_int_eq(tenon_value_get_kind(tenon_graph_find_value(graph, "p")), TENON_VALUE_BUFFER);
    ck_assert_int_eq(tenon_graph_write_count(graph), 1);
    tenon_graph_destroy(&graph);
}
END_TEST

/* What the graph says it writes comes last. */
START_TEST(writes_that_are_there_stay) {
    pass_check("graph g { input %x: float32[2]\n  buffer %n: float32[2] = {0, 0}\n"
               "  %a = aten.add_.Tensor(%n, %x)\n  %b = aten.mul.Tensor(%a, 3.0)\n"
               "  write %n <- %b\n  output \"o\" = %n }",
               "functionalize",
               "graph g { input %x: float32[2]\n  buffer %n: float32[2] = {0, 0}\n"
               "  %a = aten.add.Tensor(%n, %x)\n  %b = aten.mul.Tensor(%a, 3.0)\n"
               "  write %n <- %b\n  output \"o\" = %a }");
}
END_TEST

START_TEST(the_dtype_stays_that_of_the_target) {
    pass_check("graph g { input %x: float32[2]\n  input %y: float64[2]\n"
               "  %a = aten.mul.Tensor(%x, 1.0)\n  %b = aten.add_.Tensor(%a, %y)\n"
               "  %c = aten.gt_.Scalar(%b, 0)\n  output \"o\" = %c }",
               "functionalize",
               "graph g { input %x: float32[2]\n  input %y: float64[2]\n"
               "  %a = aten.mul.Tensor(%x, 1.0)\n  %b = aten.add.Tensor(%a, %y)\n"
               "  %b1 = aten._to_copy(%b, dtype=float32)\n"
               "  %c = aten.gt.Scalar(%b1, 0)\n  %c1 = aten._to_copy(%c, dtype=float32)\n"
               "  output \"o\" = %c1 }");
}
END_TEST

START_TEST(pow_and_metadata_ops) {
    pass_check("graph g { input %x: float32[2, 3]\n"
               "  %a = aten.mul.Tensor(%x, 1.0)\n  %b = aten.pow_.Scalar(%a, 3)\n"
               "  %t = aten.t_(%b)\n  %r = aten.relu_(%t)\n  output \"o\" = %a }",
               "functionalize",
               "graph g { input %x: float32[2, 3]\n"
               "  %a = aten.mul.Tensor(%x, 1.0)\n  %b = aten.pow.Tensor_Scalar(%a, 3)\n"
               "  %t = aten.t(%b)\n  %r = aten.relu(%t)\n  output \"o\" = %r }");
}
END_TEST

/* Sizes that depend on symbols: the inverse of a view takes its sizes from the base. */
START_TEST(symbolic_sizes) {
    pass_check("graph g { input %x: float32[s0, 4]\n"
               "  %a: float32[?, 4] = aten.mul.Tensor(%x, 1.0)\n"
               "  %v: float32[?] = aten.view(%a, [-1])\n"
               "  %r: float32[?] = aten.relu_(%v)\n"
               "  %y: float32[?, 4] = aten.neg(%a)\n  output \"o\" = %y }",
               "functionalize",
               "graph g { input %x: float32[s0, 4]\n"
               "  %a: float32[?, 4] = aten.mul.Tensor(%x, 1.0)\n"
               "  %v: float32[?] = aten.view(%a, [-1])\n"
               "  %r: float32[?] = aten.relu(%v)\n"
               "  %b: float32[?, 4] = aten.reshape_as(%r, %a)\n"
               "  %y: float32[?, 4] = aten.neg(%b)\n  output \"o\" = %y }");
}
END_TEST

/* A permuted tensor's reshape may be a copy: nobody reads the other side, so nothing is lost. */
START_TEST(maybe_shared_and_not_read) {
    pass_check("graph g { input %x: float32[2, 3]\n"
               "  %a = aten.mul.Tensor(%x, 1.0)\n  %p = aten.permute(%a, [1, 0])\n"
               "  %f = aten.reshape(%p, [6])\n  %r = aten.relu_(%f)\n  output \"o\" = %r }",
               "functionalize",
               "graph g { input %x: float32[2, 3]\n"
               "  %a = aten.mul.Tensor(%x, 1.0)\n  %p = aten.permute(%a, [1, 0])\n"
               "  %f = aten.reshape(%p, [6])\n  %r = aten.relu(%f)\n  output \"o\" = %r }");
}
END_TEST

START_TEST(maybe_shared_and_read_is_refused) {
    pass_refuses("graph g { input %x: float32[s0, 3]\n"
                 "  %a = aten.mul.Tensor(%x, 1.0)\n  %p = aten.permute(%a, [1, 0])\n"
                 "  %f = aten.reshape(%p, [-1])\n  %r = aten.relu_(%f)\n"
                 "  %n = aten.neg(%a)\n  output \"o\" = %n }",
                 "functionalize", "'n'");
}
END_TEST

/* reshape of row-major memory shares it. */
START_TEST(dense_reshape_is_shared) {
    pass_check("graph g { input %x: float32[2, 3]\n"
               "  %f = aten.reshape(%x, [6])\n  %r = aten.relu_(%f)\n  output \"o\" = %r }",
               "functionalize",
               "graph g { input %x: float32[2, 3]\n"
               "  %f = aten.reshape(%x, [6])\n  %r = aten.relu(%f)\n"
               "  %x1 = aten.view(%r, [2, 3])\n  write %x <- %x1\n  output \"o\" = %r }");
}
END_TEST

/* as_strided looks at all the memory that its input lies in. */
START_TEST(strided_views_are_of_the_root) {
    pass_check("graph g { input %x: float32[2, 3]\n  %t = aten.t(%x)\n"
               "  %v = aten.as_strided(%t, [3], [1], 1)\n  output \"o\" = %v }",
               "functionalize",
               "graph g { input %x: float32[2, 3]\n"
               "  %v = aten.as_strided(%x, [3], [1], 1)\n  output \"o\" = %v }");
    pass_check("graph g { input %x: float32[2, 3]\n  %t = aten.select.int(%x, 0, 1)\n"
               "  %v = aten.as_strided(%t, [2], [1])\n  output \"o\" = %v }",
               "functionalize",
               "graph g { input %x: float32[2, 3]\n"
               "  %v = aten.as_strided(%x, [2], [1], 3)\n  output \"o\" = %v }");
    pass_refuses("graph g { input %x: float32[s0, 3]\n  %t = aten.t(%x)\n"
                 "  %v = aten.as_strided(%t, [3], [1], 1)\n  output \"o\" = %v }",
                 "functionalize", "'v'");
}
END_TEST

START_TEST(expanded_memory_is_refused) {
    pass_refuses("graph g { input %x: float32[1, 3]\n"
                 "  %a = aten.mul.Tensor(%x, 1.0)\n  %e = aten.expand(%a, [2, 3])\n"
                 "  %r = aten.relu_(%e)\n  output \"o\" = %a }",
                 "functionalize", "'e'");
    /* Also where nobody looks at the memory itself. */
    pass_refuses("graph g { input %x: float32[1, 3]\n"
                 "  %a = aten.mul.Tensor(%x, 1.0)\n  %e = aten.expand(%a, [2, 3])\n"
                 "  %r = aten.relu_(%e)\n  output \"o\" = %e }",
                 "functionalize", "'e'");
}
END_TEST

/* Two constants over one memory, as tied weights are: a write to one would have to reach the other.
 */
START_TEST(written_tied_weights_are_refused) {
    tenon_graph *graph = NULL;
    tenon_tensor *whole = NULL;
    tenon_value *a, *b;
    tenon_node *node;
    ck_assert_int_eq(tenon_tensor_create(TENON_FLOAT32, 1, (const int64_t[]){4}, &whole), TENON_OK);
    ck_assert_int_eq(tenon_graph_create("g", &graph), TENON_OK);
    ck_assert_int_eq(tenon_graph_add_constant(graph, "a", whole, &a), TENON_OK);
    ck_assert_int_eq(tenon_graph_add_constant(graph, "b", whole, &b), TENON_OK);
    tenon_arg arg = tenon_arg_value(a);
    ck_assert_int_eq(tenon_graph_add_node(graph, "aten.relu_", NULL, &arg, 1, &node), TENON_OK);
    ck_assert_int_eq(tenon_graph_add_output(graph, "o", tenon_arg_value(b)), TENON_OK);
    ck_assert_int_eq(pass_run(graph, "functionalize"), TENON_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(tenon_last_error(), "'a'"));
    tenon_graph_destroy(&graph);
    tenon_tensor_destroy(&whole);
}
END_TEST

START_TEST(nothing_in_place_nothing_to_do) {
    pass_keeps("graph g { input %x: float32[2]\n  %a = aten.view(%x, [2])\n  output \"o\" = %a }",
               "functionalize");
}
END_TEST

START_TEST(memory_is_shared_as_in_pytorch) {
    const inplace_case *c = &inplace_cases[_i];
    tenon_graph *graph = pass_parse(c->text);
    int count = 0;
    pass_run_all(graph, "functionalize drop lower lower_all fold_shapes");
    for (int i = 0; i < tenon_graph_output_count(graph); i++) {
        const tenon_view *view = pass_output(graph, i);
        for (int64_t k = 0; k < tenon_view_numel(view); k++)
            pass_near(c->name, k, pass_element(view, k), c->want[count++], 1e-6);
    }
    ck_assert_int_eq(count, c->count);
    tenon_graph_destroy(&graph);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pass_functionalize");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, in_place_is_a_value);
    tcase_add_test(tests, earlier_reads_keep_the_old_elements);
    tcase_add_test(tests, writes_through_views);
    tcase_add_test(tests, two_views_of_one_base);
    tcase_add_test(tests, permuted_split_and_diagonal);
    tcase_add_test(tests, inputs_and_buffers_are_written_back);
    tcase_add_test(tests, a_written_constant_is_state);
    tcase_add_test(tests, writes_that_are_there_stay);
    tcase_add_test(tests, the_dtype_stays_that_of_the_target);
    tcase_add_test(tests, pow_and_metadata_ops);
    tcase_add_test(tests, symbolic_sizes);
    tcase_add_test(tests, maybe_shared_and_not_read);
    tcase_add_test(tests, maybe_shared_and_read_is_refused);
    tcase_add_test(tests, dense_reshape_is_shared);
    tcase_add_test(tests, strided_views_are_of_the_root);
    tcase_add_test(tests, expanded_memory_is_refused);
    tcase_add_test(tests, written_tied_weights_are_refused);
    tcase_add_test(tests, nothing_in_place_nothing_to_do);
    tcase_add_loop_test(tests, memory_is_shared_as_in_pytorch, 0,
                        (int)(sizeof inplace_cases / sizeof *inplace_cases));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
