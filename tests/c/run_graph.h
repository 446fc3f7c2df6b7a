/* What tests that run whole graphs share. */
#ifndef RUN_GRAPH_H
#define RUN_GRAPH_H

#include "suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define OK(call) ck_assert_msg((call) == TENON_OK, "%s: %s", #call, tenon_last_error())
/* The call fails with this status, and its message holds `text`. */
#define FAILS(call, status, text)                                                                \
    do {                                                                                         \
        ck_assert_int_eq((call), status);                                                        \
        ck_assert_msg(strstr(tenon_last_error(), text) != NULL, "\"%s\" is not in \"%s\"", text, \
                      tenon_last_error());                                                       \
    } while (0)

static inline tenon_graph *parse_graph(const char *text) {
    tenon_graph *graph = NULL;
    OK(tenon_graph_parse(text, "test", &graph));
    return graph;
}

static inline tenon_session *make_session(const char *text, tenon_backend backend) {
    tenon_graph *graph = parse_graph(text);
    /* One thread for ThreadSanitizer, which does not understand gomp's barriers. */
    const char *threads = getenv("TENON_TEST_THREADS");
    tenon_session_options options = {.backend = backend, .threads = threads ? atoi(threads) : 2};
    tenon_session *session = NULL;
    OK(tenon_session_create(graph, &options, &session));
    tenon_graph_destroy(&graph);
    return session;
}

/* A row-major view; sizes up to the first -1. */
static inline tenon_view view_of(void *data, tenon_dtype dtype, int64_t a, int64_t b, int64_t c,
                                 int64_t d) {
    tenon_view view = {.data = data, .dtype = dtype};
    int64_t sizes[4] = {a, b, c, d}, stride = 1;
    while (view.rank < 4 && sizes[view.rank] >= 0) {
        view.shape[view.rank] = sizes[view.rank];
        view.rank++;
    }
    for (int i = view.rank - 1; i >= 0; i--) {
        view.strides[i] = stride;
        stride *= view.shape[i];
    }
    return view;
}

static inline tenon_view floats(float *data, int64_t a, int64_t b) {
    return view_of(data, TENON_FLOAT32, a, b, -1, -1);
}

static inline void check_floats(const tenon_view *view, const float *want, int64_t count) {
    ck_assert_int_eq(view->dtype, TENON_FLOAT32);
    ck_assert_int_eq(tenon_view_numel(view), count);
    ck_assert(tenon_view_is_contiguous(view));
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(((const float *)view->data)[i] == want[i], "element %d is %g, not %g", (int)i,
                      ((const float *)view->data)[i], want[i]);
}

#endif
