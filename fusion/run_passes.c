/* Running passes: what is checked, logged and recorded around each. */
#include "core/budget.h"
#include "core/fail.h"
#include "core/graph.h"
#include "core/profile.h"
#include "core/text_diff.h"
#include "fusion/choose.h"
#include "fusion/passes_list.h"
#include <stdlib.h>
#include <string.h>

/* Nanoseconds that a pass takes for a node, with what is checked behind it. */
#define NODE_WORK 200.0

typedef struct runner {
    const tenon_view *samples; /* NULL: what the graph's inputs say */
    int sample_count;
    bool keep;
} runner;

/* ---- Samples ---- */

/* Dtypes and shapes of the graph's inputs, -1 for sizes that are not known. */
static tenon_view *samples_of(const tenon_graph *graph) {
    tenon_view *samples = calloc((size_t)graph->input_count + 1, sizeof *samples);
    for (int i = 0; samples && i < graph->input_count; i++)
        samples[i] = tn_view_make(NULL, graph->inputs[i]->dtype, graph->inputs[i]->rank,
                                  graph->inputs[i]->shape);
    return samples;
}

/* ---- One pass ---- */

/* What a pass may not change: how the graph is called. */
typedef struct interface {
    int32_t inputs, outputs, buffers;
} interface;

static interface interface_of(const tenon_graph *graph) {
    interface found = {graph->input_count, graph->output_count, 0};
    for (int i = 0; i < graph->constant_count; i++)
        found.buffers += graph->constants[i]->kind == TENON_VALUE_BUFFER;
    return found;
}

static tenon_status check_input(int index, const tenon_value *before, const tenon_value *after) {
    const char *wrong = strcmp(before->name, after->name) != 0 ? "name"
                        : before->dtype != after->dtype        ? "dtype"
                        : before->rank != after->rank          ? "rank"
                                                               : NULL;
    for (int d = 0; !wrong && d < before->rank; d++)
        if (before->shape[d] != after->shape[d])
            wrong = "size";
    return wrong ? tn_fail(TENON_INVALID_GRAPH,
                           "it hands back a graph whose input %d, '%s', has another %s than '%s'",
                           index, after->name, wrong, before->name)
                 : TENON_OK;
}

/* `was` is how `before` was called; the pass may have changed it. */
static tenon_status check_interface(const tenon_pass *pass, interface was,
                                    const tenon_graph *before, const tenon_graph *after) {
    if (!after)
        return tn_fail(TENON_INVALID_GRAPH, "it hands back no graph");
    interface is = interface_of(after);
    if (is.inputs != was.inputs || is.outputs != was.outputs)
        return tn_fail(TENON_INVALID_GRAPH,
                       "it leaves a graph with %d inputs and %d outputs, not %d and %d", is.inputs,
                       is.outputs, was.inputs, was.outputs);
    if (pass->phase == TENON_PASS_SHAPES && is.buffers > was.buffers)
        return tn_fail(TENON_INVALID_GRAPH,
                       "it adds a buffer, which only passes of the model phase may do");
    for (int i = 0; after != before && i < was.inputs; i++)
        TN_TRY(check_input(i, before->inputs[i], after->inputs[i]));
    return TENON_OK;
}

/* No pass sees in-place ops, so none may leave one. */
static tenon_status check_functional(const tenon_graph *graph) {
    for (const tenon_node *node = graph->first; node; node = node->next)
        if (node->op->kind == TN_OP_INPLACE)
            return tn_fail(TENON_INVALID_GRAPH,
                           "node '%s' (%s): passes leave no in-place ops; use the one without '_'",
                           node->name, node->op->name);
    return TENON_OK;
}

/* Puts the graph right after a pass that changed it. Built-in passes keep shapes right themselves.
 */
static tenon_status settle(const tenon_pass *pass, tenon_graph *graph) {
    if (!tn_pass_is_builtin(pass)) {
        TN_TRY(check_functional(graph));
        TN_TRY(tn_graph_infer(graph));
    }
    if (pass->remove_dead)
        tn_graph_drop_dead(graph);
    return tenon_graph_verify(graph);
}

static void log_change(const tenon_pass *pass, const char *before, const tenon_graph *graph) {
    char *after = NULL;
    tn_text text = {0};
    if (!before || tenon_graph_print(graph, &after) != TENON_OK)
        return;
    tn_text_diff(before, after, &text);
    if (!text.failed)
        tn_log(TENON_LOG_TRACE, "after pass %s:\n%s", pass->name, text.data ? text.data : "");
    tn_text_free(&text);
    tenon_string_free(after);
}

static tenon_status call_pass(const tenon_pass *pass, const runner *r, tenon_graph *graph,
                              tenon_pass_call *call) {
    tenon_view *samples = r->samples ? NULL : samples_of(graph);
    if (!r->samples && !samples)
        return tn_no_memory();
    *call = (tenon_pass_call){.graph = graph,
                              .samples = samples ? samples : r->samples,
                              .sample_count = graph->input_count,
                              .pass = pass};
    if (graph->chooser)
        graph->chooser->pass = pass;
    tn_user_enter();
    tn_profile_token token = {0};
    if (tn_profile_on(TN_PROFILE_EVENTS))
        token = tn_profile_begin_named(TENON_EVENT_PASS, "pass", pass->name);
    tenon_status status = tn_user_leave(pass->run(call));
    tn_profile_end(token);
    call->samples = NULL;
    free(samples);
    return status;
}

/* Runs the pass on `graph`, and gives the graph that it leaves in `*out`, which is `graph` or a new
 * one, right and recorded. On failure a new one is gone. */
static tenon_status run_checked(const tenon_pass *pass, const runner *r, tenon_graph *graph,
                                tenon_graph **out) {
    tenon_pass_call call = {.graph = graph};
    const interface was = interface_of(graph);
    uint64_t edits = graph->edits;
    tn_snapshot snapshot = {0};
    char *text = NULL;
    int64_t start = tn_clock_ns();
    tenon_status status;
    if (tn_logs(TENON_LOG_TRACE))
        TN_GOTO(tenon_graph_print(graph, &text));
    TN_GOTO(tn_budget_work((double)graph->node_count * NODE_WORK));
    TN_GOTO(tn_snapshot_take(graph, &snapshot));
    TN_GOTO(call_pass(pass, r, graph, &call));
    TN_GOTO(check_interface(pass, was, graph, call.graph));
    call.graph->chooser = graph->chooser;
    /* Tenon's own passes say when they changed something; others may forget to. */
    bool changed =
        call.changed || call.graph != graph || (graph->edits != edits && !tn_pass_is_builtin(pass));
    if (changed)
        TN_GOTO(settle(pass, call.graph));
    double milliseconds = (double)(tn_clock_ns() - start) * 1e-6;
    tn_log(TENON_LOG_DEBUG, "pass %s: %s, %lld -> %lld nodes, %.2f ms", pass->name,
           changed ? "changed" : "no change", (long long)snapshot.count,
           (long long)call.graph->node_count, milliseconds);
    if (changed) {
        TN_GOTO(tn_record_add(call.graph, &snapshot, pass->name, (int)pass->phase, milliseconds));
        log_change(pass, text, call.graph);
    }
    *out = call.graph;
    call.graph = graph;
error:
    if (call.graph != graph)
        tenon_graph_destroy(&call.graph);
    tn_snapshot_free(&snapshot);
    tenon_string_free(text);
    return status;
}

static tenon_status run_one(const tenon_pass *pass, const runner *r, tenon_graph **graph) {
    tenon_graph *before = NULL, *after = *graph;
    if (r->keep)
        TN_TRY(tenon_graph_clone(*graph, &before));
    tenon_status status = run_checked(pass, r, *graph, &after);
    if (status != TENON_OK && before) {
        /* A half-changed graph gives way to the copy. */
        tenon_graph_destroy(graph);
        *graph = before;
        before = NULL;
    } else if (after != *graph) {
        tenon_graph_destroy(graph);
        *graph = after;
    }
    tenon_graph_destroy(&before);
    return status == TENON_OK ? TENON_OK : tn_fail_within(status, "pass %s", pass->name);
}

tenon_status tn_pass_run(const tenon_pass *pass, tenon_graph **graph, const tenon_view *samples,
                         int sample_count, bool keep) {
    const runner r = {samples, sample_count, keep};
    return run_one(pass, &r, graph);
}

/* ---- Lists ---- */

static tenon_status check_samples(const runner *r, const tenon_graph *graph) {
    if (!r->samples)
        return TENON_OK;
    if (r->sample_count == graph->input_count)
        return tn_graph_check_inputs(graph, r->samples, r->sample_count);
    return tn_fail(TENON_INVALID_ARGUMENT, "graph '%s' has %d inputs, and %d samples were given",
                   graph->name, graph->input_count, r->sample_count);
}

static tenon_status run_phase(const tenon_passes *passes, tenon_pass_phase phase, const runner *r,
                              tenon_graph **graph) {
    if (phase != TENON_PASS_MODEL && phase != TENON_PASS_SHAPES)
        return tn_fail(TENON_INVALID_ARGUMENT, "there is no phase %d of passes", (int)phase);
    if (phase == TENON_PASS_SHAPES && tn_is_symbolic(*graph))
        return tn_fail(TENON_INVALID_ARGUMENT,
                       "graph '%s': passes of the shapes phase need a graph without symbols",
                       (*graph)->name);
    TN_TRY(check_samples(r, *graph));
    for (int i = 0; i < passes->count; i++)
        if (passes->items[i]->phase == phase)
            TN_TRY(run_one(passes->items[i], r, graph));
    return TENON_OK;
}

tenon_status tn_passes_run(const tenon_passes *passes, tenon_pass_phase phase, tenon_graph **graph,
                           const tenon_view *samples, int sample_count) {
    const runner r = {samples, sample_count, false};
    return run_phase(passes, phase, &r, graph);
}

tenon_status tenon_passes_apply_phase(const tenon_passes *passes, tenon_pass_phase phase,
                                      tenon_graph **graph, const tenon_view *samples,
                                      int sample_count) {
    const runner r = {samples, sample_count, true};
    return run_phase(passes, phase, &r, graph);
}

/* Binds symbols, and inputs that are numbers. */
static tenon_status bind(const runner *r, tenon_graph **graph) {
    tenon_view *samples = r->samples ? NULL : samples_of(*graph);
    tenon_graph *bound = NULL;
    if (!r->samples && !samples)
        return tn_no_memory();
    tenon_status status =
        tn_graph_specialize(*graph, samples ? samples : r->samples, (*graph)->input_count, &bound);
    free(samples);
    if (status != TENON_OK)
        return status;
    tenon_graph_destroy(graph);
    *graph = bound;
    return TENON_OK;
}

tenon_status tenon_passes_apply(const tenon_passes *passes, tenon_graph **graph,
                                const tenon_view *samples, int sample_count) {
    const runner r = {samples, sample_count, true};
    if (!samples && tn_is_symbolic(*graph))
        return tn_fail(TENON_INVALID_ARGUMENT,
                       "graph '%s' has open sizes: samples of its inputs are needed",
                       (*graph)->name);
    TN_TRY(run_phase(passes, TENON_PASS_MODEL, &r, graph));
    TN_TRY(bind(&r, graph));
    return run_phase(passes, TENON_PASS_SHAPES, &r, graph);
}
