/* Drops what nothing needs: nodes none of whose results is used, then constants.
 *
 *     %a = aten.relu(%x)
 *     %b = aten.neg(%a)            ->      %a = aten.relu(%x)
 *     output "o" = %a                      output "o" = %a
 *
 * Outputs and write-backs are needed; so is a node that is there for its effect.
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"

tenon_status tn_pass_dead(tenon_graph *graph, bool *changed) {
    *changed = tn_graph_drop_dead(graph) > 0;
    tn_graph_drop_constants(graph);
    return TENON_OK;
}
