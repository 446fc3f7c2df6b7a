/* One node of a graph in text at a time, for tests of kernels by hand. */
#ifndef TEST_TEXT_NODE_H
#define TEST_TEXT_NODE_H

#include "run_node.h"
#include <check.h>
#include <stdio.h>
#include <tenon/tenon.h>

static tenon_graph *graph;

/* The last node of a graph in text. */
static tenon_node *parse(const char *body) {
    char text[4096];
    snprintf(text, sizeof text, "graph t {\n%s\n}\n", body);
    tenon_graph_destroy(&graph);
    tenon_status status = tenon_graph_parse(text, "test", &graph);
    ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
    return graph->last;
}

static void teardown(void) {
    tenon_graph_destroy(&graph);
}

/* Element number `i` of a view, row-major. */
static double element(const tenon_view *v, int64_t i) {
    int64_t at = 0;
    for (int d = v->rank - 1; d >= 0; d--) {
        at += i % v->shape[d] * v->strides[d];
        i /= v->shape[d];
    }
    return tn_load_float((char *)v->data + at * (int64_t)tenon_dtype_size(v->dtype), v->dtype);
}

#endif
