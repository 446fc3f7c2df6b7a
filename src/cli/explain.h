/* What `tenon explain` gathers and the ways it shows it. */
#ifndef CLI_EXPLAIN_H
#define CLI_EXPLAIN_H

#include "cli.h"
#include <stdio.h>
#include <tenon/explain.h>

typedef struct report_step {
    tenon_step_info info;
    double time; /* microseconds, the median of the runs; -1: not measured */
    /* Where the reason is that Tenon's kernel is faster: what oneDNN takes for the same nodes, and
     * the steps of the plan that these are. -1: not measured. */
    double onednn_time, own_time;
    int onednn_nodes;
} report_step;

typedef struct report_node {
    const tenon_node *node;
    tenon_node_info info;
} report_node;

typedef struct report {
    const char *path, *backend, *precision;
    tenon_session *session;
    tenon_plan_info plan;
    report_step *steps;
    report_node *nodes; /* in the graph's order */
    int node_count;
    int runs; /* measured; 0: none */
    double run_time;
} report;

/* Asks the session for all that it can tell of its plan. */
int report_gather(report *r);
void report_free(report *r);

/* "onednn", "kernel", "copy"; "view" for a node without a step. */
const char *report_where(const report *r, int step);
/* A name that no other node of the graph has: that of its first output, where it has one. */
const char *report_name(const tenon_node *node);
/* "aten.add.Tensor": the op that a step of one node computes; what oneDNN fused otherwise. */
const char *report_title(const report_step *step);

/* Prints it for people. */
int report_print(const report *r);
/* The same as one JSON object, described in docs/explain.md; the caller frees it. NULL, after a
 * message, when memory is out. */
char *report_json(const report *r);
int report_write_json(const report *r, const char *path);
/* One HTML page. */
int report_write_html(const report *r, const char *path);
/* The graph as an SVG element, from Graphviz; NULL when it is not installed or takes too long. The
 * caller frees it with tenon_string_free. */
char *report_draw(const report *r);

/* Runs the model on random inputs of these shapes, and notes the times of the steps. */
int report_measure(report *r, const tenon_graph *model, const tenon_view *inputs,
                   const tenon_session_options *options);

#endif
