/* Runs passes on graphs in the text form, and compares what comes out. */
#ifndef PASS_TEST_H
#define PASS_TEST_H

#include "core/tensor.h"
#include "fusion/pipeline.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

static inline tenon_graph *pass_parse(const char *text) {
    tenon_graph *graph = NULL;
    ck_assert_msg(tenon_graph_parse(text, "test", &graph) == TENON_OK, "%s", tenon_last_error());
    ck_assert_msg(tenon_graph_verify(graph) == TENON_OK, "%s", tenon_last_error());
    return graph;
}

/* One pass, as a list runs it: what it leaves must be a valid graph. */
static inline tenon_status pass_run(tenon_graph *graph, const char *name) {
    int row = 0;
    while (row < tn_default_pass_count && strcmp(tn_default_passes[row].pass.name, name) != 0)
        row++;
    ck_assert_msg(row < tn_default_pass_count, "no pass is named '%s'", name);
    const tenon_pass pass = tn_default_pass_get(row);
    return tn_pass_run(&pass, &graph, NULL, 0, false);
}

static inline void pass_run_all(tenon_graph *graph, const char *passes) {
    char names[256], *rest = names;
    snprintf(names, sizeof names, "%s", passes);
    for (char *name; (name = strsep(&rest, " ")) != NULL;)
        ck_assert_msg(pass_run(graph, name) == TENON_OK, "%s: %s", name, tenon_last_error());
}

/* `passes`: names, separated by spaces. Prints what they leave in the text form. */
static inline char *pass_apply(const char *text, const char *passes) {
    tenon_graph *graph = pass_parse(text);
    char *print = NULL;
    pass_run_all(graph, passes);
    ck_assert_int_eq(tenon_graph_print(graph, &print), TENON_OK);
    tenon_graph_destroy(&graph);
    return print;
}

/* A printed graph without the names of values (numbers by order of appearance) and nodes. */
static inline char *pass_canonical(const char *text) {
    size_t length = strlen(text), used = 0, capacity = 2 * length + 4096;
    char *out = malloc(capacity), names[512][96];
    int count = 0;
    ck_assert_ptr_nonnull(out);
    for (size_t i = 0; i < length;) {
        if (strncmp(text + i, ") name \"", 8) == 0) {
            out[used++] = text[i];
            i = (size_t)(strchr(text + i + 8, '"') - text) + 1;
            continue;
        }
        if (text[i] != '%') {
            out[used++] = text[i++];
            continue;
        }
        size_t end = i + 1;
        while (end < length &&
               (text[end] == '_' || text[end] == '.' || (text[end] >= '0' && text[end] <= '9') ||
                (text[end] >= 'a' && text[end] <= 'z') || (text[end] >= 'A' && text[end] <= 'Z')))
            end++;
        char name[96];
        snprintf(name, sizeof name, "%.*s", (int)(end - i), text + i);
        int at = 0;
        while (at < count && strcmp(names[at], name) != 0)
            at++;
        if (at == count) {
            ck_assert_int_lt(count, 512);
            snprintf(names[count++], sizeof names[0], "%s", name);
        }
        used += (size_t)snprintf(out + used, capacity - used, "%%v%d", at);
        i = end;
    }
    out[used] = '\0';
    return out;
}

/* `passes` make `after` of `before`. */
static inline void pass_check(const char *before, const char *passes, const char *after) {
    char *got = pass_apply(before, passes), *want = NULL;
    tenon_graph *graph = pass_parse(after);
    ck_assert_int_eq(tenon_graph_print(graph, &want), TENON_OK);
    char *got_names = pass_canonical(got), *want_names = pass_canonical(want);
    ck_assert_msg(strcmp(got_names, want_names) == 0, "%s gives\n%s\nnot\n%s", passes, got, want);
    free(got_names);
    free(want_names);
    tenon_string_free(got);
    tenon_string_free(want);
    tenon_graph_destroy(&graph);
}

/* The passes leave it as it is. */
static inline void pass_keeps(const char *text, const char *passes) {
    pass_check(text, passes, text);
}

/* Output `index` as elements; everything it needs must be constant. */
static inline const tenon_view *pass_output(const tenon_graph *graph, int index) {
    tenon_arg arg = tenon_graph_output(graph, index);
    ck_assert_int_eq(arg.kind, TENON_ARG_VALUE);
    const tenon_tensor *tensor = tenon_value_tensor(arg.as.value);
    ck_assert_msg(tensor != NULL, "output %d is '%s', which did not fold", index,
                  tenon_value_name(arg.as.value));
    return tenon_tensor_view(tensor);
}

static inline double pass_element(const tenon_view *view, int64_t index) {
    int64_t at = 0;
    for (int d = view->rank - 1; d >= 0; d--) {
        at += index % view->shape[d] * view->strides[d];
        index /= view->shape[d];
    }
    return tn_load_float((const char *)view->data + at * (int64_t)tenon_dtype_size(view->dtype),
                         view->dtype);
}

static inline void pass_near(const char *name, int64_t index, double got, double want,
                             double tolerance) {
    bool same = (isnan(got) && isnan(want)) || got == want ||
                fabs(got - want) <= tolerance * (1 + fabs(want));
    ck_assert_msg(same, "%s: element %lld is %g, not %g", name, (long long)index, got, want);
}

/* The outputs of a graph over constants are the same with `passes` before everything folds as
 * without. */
static inline void pass_same(const char *text, const char *passes, double tolerance) {
    tenon_graph *plain = pass_parse(text), *passed = pass_parse(text);
    pass_run_all(plain, "lower_all fold_shapes");
    pass_run_all(passed, passes);
    pass_run_all(passed, "lower_all fold_shapes");
    for (int i = 0; i < tenon_graph_output_count(plain); i++) {
        const tenon_view *want = pass_output(plain, i), *got = pass_output(passed, i);
        ck_assert(got->dtype == want->dtype && tn_same_shape(got, want));
        for (int64_t k = 0; k < tenon_view_numel(want); k++)
            pass_near(passes, k, pass_element(got, k), pass_element(want, k), tolerance);
    }
    tenon_graph_destroy(&plain);
    tenon_graph_destroy(&passed);
}

/* The pass refuses the graph with a message that holds `part`. */
static inline void pass_refuses(const char *text, const char *pass, const char *part) {
    tenon_graph *graph = pass_parse(text);
    ck_assert_int_ne(pass_run(graph, pass), TENON_OK);
    ck_assert_msg(strstr(tenon_last_error(), part) != NULL, "message '%s' lacks '%s'",
                  tenon_last_error(), part);
    tenon_graph_destroy(&graph);
}

#endif
