/* Gives outputs and write-backs memory of their own.
 *
 *     output "o" = %x                        ->     %c = aten.clone(%x)     output "o" = %c
 *     write %state <- %view_of_input         ->     %c = aten.clone(...)    write %state <- %c
 *
 * when what is returned is an input, a buffer or a constant, or a view of one: a write-back, or the
 * caller, may change it while the result is still read.
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"

static bool is_borrowed(const tenon_value *value) {
    while (value->kind == TENON_VALUE_NODE && value->node->op->kind == TN_OP_VIEW &&
           value->node->use_count)
        value = value->node->uses[0].value;
    return value->kind != TENON_VALUE_NODE && value->scalar == TN_TENSOR;
}

static tenon_status repair(tenon_graph *graph, tn_use *use, bool *changed) {
    if (!use || !is_borrowed(use->value))
        return TENON_OK;
    tenon_value *copy;
    TN_TRY(tn_graph_emit(graph, NULL, TN_OP_clone, NULL, use->value->node, TN_ARGS(VAL(use->value)),
                         &copy));
    tn_value_adopt(copy, use->value);
    tn_use_set(use, copy);
    *changed = true;
    return TENON_OK;
}

tenon_status tn_pass_repair(tenon_graph *graph, bool *changed) {
    for (int i = 0; i < graph->output_count; i++)
        TN_TRY(repair(graph, graph->outputs[i].use, changed));
    for (int i = 0; i < graph->write_count; i++)
        TN_TRY(repair(graph, graph->writes[i].use, changed));
    return TENON_OK;
}
