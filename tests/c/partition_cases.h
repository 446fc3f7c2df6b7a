/* Small graphs, computed with partitions and with kernels. */
#ifndef PARTITION_CASES_H
#define PARTITION_CASES_H

#include "run_steps.h"
#include <math.h>
#include <stdio.h>
#include <tenon/tenon.h>

static inline tenon_graph *parse(const char *text) {
    tenon_graph *graph = NULL;
    tenon_status status = tenon_graph_parse(text, "test", &graph);
    ck_assert_msg(status == TENON_OK, "%s\n%s", tenon_last_error(), text);
    return graph;
}

static inline float *floats(const tenon_view *view) {
    tenon_view plain = tn_view_make(NULL, TENON_FLOAT32, view->rank, view->shape);
    plain.data = calloc((size_t)tenon_view_numel(view) + 1, sizeof(float));
    ck_assert_int_eq(tenon_view_copy(&plain, view), TENON_OK);
    return plain.data;
}

/* Both within `tolerance` of the largest element. */
static inline void compare(const char *name, const tenon_view *got, const tenon_view *want,
                           double tolerance) {
    float *a = floats(got), *b = floats(want);
    double largest = 1e-30, worst = 0;
    int64_t count = tenon_view_numel(got), at = 0;
    for (int64_t i = 0; i < count; i++) {
        double off = a[i] == b[i] ? 0 : fabs((double)a[i] - (double)b[i]);
        largest = fmax(largest, isfinite(b[i]) ? fabs((double)b[i]) : 0);
        if (!(off <= worst)) {
            worst = off;
            at = i;
        }
    }
    ck_assert_msg(worst <= tolerance * largest, "%s: element %lld is %g instead of %g (largest %g)",
                  name, (long long)at, a[at], b[at], largest);
    free(a);
    free(b);
}

/* The partitions as text: "Convolution+ReLU | MatMul". */
static inline const char *found(const steps *s, char *text, size_t room) {
    text[0] = '\0';
    for (int i = 0; i < s->set->count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, room - used, i ? " | %s" : "%s", s->set->items[i].ops);
    }
    return text;
}

typedef struct test_case {
    const char *name, *text;
    const char *partitions;
    double tolerance; /* 0: 1e-5 */
    tenon_backend backend;
    bool channels_last; /* everything of three to five dimensions */
} test_case;

static inline void lay_channels_last(tenon_graph *graph) {
    for (int i = 0; i < graph->input_count; i++)
        graph->inputs[i]->channels_last =
            graph->inputs[i]->rank >= 3 && graph->inputs[i]->rank <= 5;
    for (tenon_node *node = graph->first; node; node = node->next) {
        for (int i = 0; i < node->output_count; i++)
            node->outputs[i]->channels_last =
                node->outputs[i]->rank >= 3 && node->outputs[i]->rank <= 5;
    }
}

/* Computes the graph with kernels and with partitions, with inputs from `seed`. */
static inline void check_case(const test_case *c, int threads, bool pack, bool inplace) {
    tenon_graph *graphs[2] = {parse(c->text), parse(c->text)};
    steps *runs[2];
    char text[2048];
    for (int i = 0; i < 2; i++) {
        if (c->channels_last)
            lay_channels_last(graphs[i]);
        runs[i] = steps_make(graphs[i], i ? c->backend : TENON_BACKEND_REFERENCE, threads, pack);
        runs[i]->inplace = inplace;
    }
    ck_assert_int_eq(runs[0]->set->count, 0);
    if (c->partitions)
        ck_assert_msg(strcmp(found(runs[1], text, sizeof text), c->partitions) == 0,
                      "%s: found '%s'", c->name, text);
    for (unsigned seed = 1; seed <= 2; seed++) {
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < graphs[i]->input_count; k++)
                steps_input(runs[i], k, seed * 100 + (unsigned)k);
            steps_run(runs[i]);
        }
        for (int k = 0; k < graphs[0]->output_count; k++)
            compare(c->name, steps_output(runs[1], k), steps_output(runs[0], k),
                    c->tolerance > 0 ? c->tolerance : 1e-5);
    }
    for (int i = 0; i < 2; i++) {
        steps_free(runs[i]);
        tenon_graph_destroy(&graphs[i]);
    }
}

#define G(body) "graph g {\n" body "}\n"
#define IN(name, type) "input %" name ": " type "\n"
#define OUT(name) "output \"out\" = %" name "\n"
#define ONEDNN .backend = TENON_BACKEND_ONEDNN
#define WEIGHT(w, shape) "const %" w ": float32[" shape "] = random(7, -0.3, 0.3)\n"

#endif
