/* Building, editing, verifying and binding graphs. */
#include "core/graph.h"
#include "core/infer.h"
#include "suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

static tenon_value *input(tenon_graph *graph, const char *name, int rank, const char *const *dims) {
    tenon_value *value = NULL;
    ck_assert_int_eq(tenon_graph_add_input(graph, name, TENON_FLOAT32, rank, dims, &value),
                     TENON_OK);
    return value;
}

static tenon_value *node(tenon_graph *graph, const char *op, const tenon_arg *args, int count) {
    tenon_node *out = NULL;
    tenon_status status = tenon_graph_add_node(graph, op, NULL, args, count, &out);
    ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
    return tenon_node_output(out, 0);
}

START_TEST(builds_and_verifies) {
    tenon_graph *graph = NULL;
    ck_assert_int_eq(tenon_graph_create("g", &graph), TENON_OK);
    tenon_value *x = input(graph, "x", 3, (const char *[]){"2", "3", "4"});
    tenon_arg order[] = {tenon_arg_int(2), tenon_arg_int(0), tenon_arg_int(-2)};
    tenon_value *p =
        node(graph, "aten.permute", (tenon_arg[]){tenon_arg_value(x), tenon_arg_list(order, 3)}, 2);
    ck_assert_int_eq(tenon_value_size(p, 0), 4);
    ck_assert_int_eq(tenon_value_size(p, 2), 3);
    tenon_arg size[] = {tenon_arg_int(-1), tenon_arg_int(6)};
    tenon_value *v = node(graph, "aten.view.default",
                          (tenon_arg[]){tenon_arg_value(p), tenon_arg_list(size, 2)}, 2);
    ck_assert_int_eq(tenon_value_size(v, 0), 4);
    ck_assert_int_eq(tenon_graph_add_output(graph, "out", tenon_arg_value(v)), TENON_OK);
    ck_assert_int_eq(tenon_graph_verify(graph), TENON_OK);
    ck_assert_int_eq(tenon_value_use_count(x), 1);

    /* What the rule refuses leaves the graph as it was. */
    tenon_arg bad[] = {tenon_arg_int(5), tenon_arg_int(5)};
    tenon_node *none = NULL;
    ck_assert_int_eq(tenon_graph_add_node(graph, "aten.view", "w",
                                          (tenon_arg[]){tenon_arg_value(p), tenon_arg_list(bad, 2)},
                                          2, &none),
                     TENON_INVALID_GRAPH);
    ck_assert_ptr_null(none);
    ck_assert_ptr_nonnull(strstr(tenon_last_error(), "24 elements"));
    ck_assert_int_eq(tenon_value_use_count(p), 1);
    ck_assert_int_eq(tenon_graph_add_node(graph, "aten.no_such", "w", NULL, 0, &none),
                     TENON_UNKNOWN_OP);
    ck_assert_int_eq(
        tenon_graph_add_node(graph, "aten.view", "w", (tenon_arg[]){tenon_arg_value(p)}, 1, &none),
        TENON_INVALID_GRAPH);
    ck_assert_ptr_nonnull(strstr(tenon_last_error(), "'size' is missing"));
    ck_assert_int_eq(tenon_graph_verify(graph), TENON_OK);
    tenon_graph_destroy(&graph);
    ck_assert_ptr_null(graph);
}
END_TEST

START_TEST(replaces_and_erases) {
    tenon_graph *graph = NULL;
    ck_assert_int_eq(tenon_graph_create("g", &graph), TENON_OK);
    tenon_value *x = input(graph, "x", 2, (const char *[]){"2", "3"});
    tenon_value *a = node(graph, "aten.t", (tenon_arg[]){tenon_arg_value(x)}, 1);
    tenon_value *b = node(graph, "aten.t", (tenon_arg[]){tenon_arg_value(a)}, 1);
    tenon_value *c = node(graph, "aten.alias", (tenon_arg[]){tenon_arg_value(b)}, 1);
    ck_assert_int_eq(tenon_graph_add_output(graph, NULL, tenon_arg_value(c)), TENON_OK);
    ck_assert_int_eq(tenon_node_erase(b->node), TENON_INVALID_GRAPH);
    ck_assert_int_eq(tenon_value_replace(b, x), TENON_OK);
    ck_assert_int_eq(tn_graph_drop_dead(graph), 2);
    ck_assert_int_eq(tenon_graph_node_count(graph), 1);
    ck_assert_ptr_eq(c->node->args[0].as.value, x);
    ck_assert_int_eq(tenon_graph_verify(graph), TENON_OK);
    ck_assert_ptr_null(tenon_graph_find_value(graph, "t"));
    tenon_graph_destroy(&graph);
}
END_TEST

static tenon_view shape(int rank, const int64_t *sizes) {
    tenon_view view = {NULL, TENON_FLOAT32, rank, {0}, {0}};
    memcpy(view.shape, sizes, (size_t)rank * sizeof *sizes);
    return view;
}

START_TEST(binds_symbols) {
    tenon_graph *graph = NULL, *bound = NULL;
    ck_assert_int_eq(tenon_graph_create("g", &graph), TENON_OK);
    tenon_value *x = input(graph, "x", 2, (const char *[]){"s", "4"});
    input(graph, "y", 2, (const char *[]){"2*s + 1", "4"});
    ck_assert_int_eq(tenon_graph_set_symbol_range(graph, "s", 2, 8), TENON_OK);
    tenon_value *n =
        node(graph, "aten.sym_size.int", (tenon_arg[]){tenon_arg_value(x), tenon_arg_int(0)}, 2);
    tenon_value *m =
        node(graph, "_operator.mul", (tenon_arg[]){tenon_arg_value(n), tenon_arg_int(4)}, 2);
    tenon_arg size[] = {tenon_arg_value(m)};
    tenon_value *v =
        node(graph, "aten.view", (tenon_arg[]){tenon_arg_value(x), tenon_arg_list(size, 1)}, 2);
    ck_assert_int_eq(tenon_graph_add_output(graph, "out", tenon_arg_value(v)), TENON_OK);
    ck_assert_int_eq(tenon_graph_verify(graph), TENON_OK);

    tenon_view good[] = {shape(2, (int64_t[]){3, 4}), shape(2, (int64_t[]){7, 4})};
    ck_assert_msg(tn_graph_specialize(graph, good, 2, &bound) == TENON_OK, "%s",
                  tenon_last_error());
    ck_assert_int_eq(tenon_graph_node_count(bound), 1);
    ck_assert_int_eq(bound->outputs[0].arg->as.value->shape[0], 12);
    ck_assert_int_eq(tenon_graph_verify(bound), TENON_OK);
    tenon_graph_destroy(&bound);

    tenon_view big[] = {shape(2, (int64_t[]){9, 4}), shape(2, (int64_t[]){19, 4})};
    ck_assert_int_eq(tn_graph_specialize(graph, big, 2, &bound), TENON_INPUT_MISMATCH);
    ck_assert_ptr_nonnull(strstr(tenon_last_error(), "above its maximum of 8"));
    tenon_view odd[] = {shape(2, (int64_t[]){3, 4}), shape(2, (int64_t[]){8, 4})};
    ck_assert_int_eq(tn_graph_specialize(graph, odd, 2, &bound), TENON_INPUT_MISMATCH);
    ck_assert_ptr_nonnull(strstr(tenon_last_error(), "'y'"));
    tenon_view fixed[] = {shape(2, (int64_t[]){3, 5}), shape(2, (int64_t[]){7, 4})};
    ck_assert_int_eq(tn_graph_specialize(graph, fixed, 2, &bound), TENON_INPUT_MISMATCH);
    ck_assert_int_eq(tn_graph_specialize(graph, good, 1, &bound), TENON_INPUT_MISMATCH);
    ck_assert_ptr_null(bound);
    tenon_graph_destroy(&graph);
}
END_TEST

/* Strides of a reshape, against a copy read element by element. */
START_TEST(reshapes_without_copies) {
    static const struct {
        int rank, to_rank;
        int64_t shape[4], strides[4], to[4], expect[4];
        bool possible;
    } cases[] = {
        {2, 1, {2, 3}, {3, 1}, {6}, {1}, true},
        {2, 1, {2, 3}, {1, 2}, {6}, {0}, false},
        {3, 2, {2, 3, 4}, {24, 8, 1}, {6, 4}, {8, 1}, true},
        {3, 2, {2, 3, 4}, {24, 8, 1}, {2, 12}, {0}, false},
        {2, 4, {4, 6}, {12, 2}, {2, 2, 1, 6}, {24, 12, 12, 2}, true},
        {3, 1, {1, 5, 1}, {7, 3, 9}, {5}, {3}, true},
        {2, 2, {1, 1}, {5, 5}, {1, 1}, {1, 1}, true},
        {2, 3, {3, 4}, {0, 1}, {3, 2, 2}, {0, 2, 1}, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tenon_view in = {NULL, TENON_FLOAT32, cases[i].rank, {0}, {0}}, out = in;
        memcpy(in.shape, cases[i].shape, sizeof cases[i].shape);
        memcpy(in.strides, cases[i].strides, sizeof cases[i].strides);
        out.rank = cases[i].to_rank;
        memcpy(out.shape, cases[i].to, sizeof cases[i].to);
        ck_assert_msg(tn_view_reshape(NULL, 0, &in, &out) == cases[i].possible, "case %zu", i);
        for (int d = 0; cases[i].possible && d < out.rank; d++)
            if (out.shape[d] > 1)
                ck_assert_msg(out.strides[d] == cases[i].expect[d], "case %zu, stride %d is %lld",
                              i, d, (long long)out.strides[d]);
    }
}
END_TEST

START_TEST(lists_every_op) {
    ck_assert_int_gt(tenon_op_count(), TN_OP_COUNT);
    tenon_op_info info, again;
    for (int i = 0; i < TN_OP_COUNT; i++) {
        ck_assert(tenon_op_get(i, &info));
        ck_assert(tenon_op_find(info.name, &again));
        ck_assert_str_eq(info.schema, again.schema);
        ck_assert_int_eq(tn_op_by_id(i)->id, i);
    }
    ck_assert(!tenon_op_get(tenon_op_count(), &info));
    ck_assert(!tenon_op_find("aten.nothing_such", &info));
    ck_assert_ptr_eq(tn_op_find("aten::view"), tn_op_find("aten.view.default"));
}
END_TEST

START_TEST(holds_many_nodes) {
    tenon_graph *graph = NULL, *copy = NULL;
    ck_assert_int_eq(tenon_graph_create("chain", &graph), TENON_OK);
    tenon_value *x = input(graph, "x", 1, (const char *[]){"4"});
    for (int i = 0; i < 200000; i++)
        x = node(graph, "aten.alias", (tenon_arg[]){tenon_arg_value(x)}, 1);
    ck_assert_int_eq(tenon_graph_add_output(graph, NULL, tenon_arg_value(x)), TENON_OK);
    ck_assert_int_eq(tenon_graph_verify(graph), TENON_OK);
    ck_assert_int_eq(tenon_graph_clone(graph, &copy), TENON_OK);
    ck_assert_int_eq(tenon_graph_node_count(copy), 200000);
    ck_assert_str_eq(copy->outputs[0].arg->as.value->name, x->name);
    tenon_graph_destroy(&graph);
    tenon_graph_destroy(&copy);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("graph");
    TCase *tests = tcase_create("graph");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, builds_and_verifies);
    tcase_add_test(tests, replaces_and_erases);
    tcase_add_test(tests, binds_symbols);
    tcase_add_test(tests, reshapes_without_copies);
    tcase_add_test(tests, lists_every_op);
    tcase_add_test(tests, holds_many_nodes);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
