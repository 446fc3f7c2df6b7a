/* A pass that gives outputs which are inputs memory of their own.
 *
 *     %x -- output                    %x -- aten.clone -- output
 *
 * Then it removes what nothing needs, checks the graph, and logs it. docs/passes.md walks through
 * this file.
 */
#include <stdio.h>
#include <tenon/tenon.h>

/* Puts a clone before output `index`, when that is an input of the graph. */
static tenon_status repair(tenon_graph *graph, int index, bool *changed) {
    tenon_arg output = tenon_graph_output(graph, index);
    tenon_node *clone = NULL;
    if (output.kind != TENON_ARG_VALUE ||
        tenon_value_get_kind(output.as.value) != TENON_VALUE_INPUT)
        return TENON_OK;
    tenon_status status = tenon_graph_add_node(graph, "aten.clone", NULL, &output, 1, &clone);
    if (status != TENON_OK)
        return status;
    *changed = true;
    return tenon_graph_set_output(graph, index, tenon_arg_value(tenon_node_output(clone, 0)));
}

static tenon_status run(tenon_pass_call *call) {
    tenon_graph *graph = call->graph;
    for (int i = 0; i < tenon_graph_output_count(graph); i++) {
        tenon_status status = repair(graph, i, &call->changed);
        if (status != TENON_OK)
            return status;
    }
    if (tenon_graph_remove_dead(graph) > 0)
        call->changed = true;
    tenon_status status = tenon_graph_verify(graph);
    if (status != TENON_OK || !call->changed)
        return status;
    char *text = NULL;
    status = tenon_graph_print(graph, &text);
    if (status == TENON_OK)
        fprintf(stderr, "after %s:\n%s", call->pass->name, text);
    tenon_string_free(text);
    return status;
}

static tenon_status setup(tenon_passes *passes) {
    const tenon_pass pass = {.name = "repair_input_as_output",
                             .doc = "outputs that are inputs become copies",
                             .phase = TENON_PASS_MODEL,
                             .run = run};
    return tenon_passes_append(passes, &pass);
}

TENON_PLUGIN("repair_input_as_output", setup)
