/* Makes constants of buffers that no run changes.
 *
 *     buffer %mean                              const %mean
 *     buffer %count                     ->      buffer %count
 *     write %count <- %next                     write %count <- %next
 *
 * What depends on constants alone can then be computed, and weights packed, before the first run.
 */
#include "fusion/passes.h"
#include "fusion/rewrite.h"
#include <stdlib.h>

tenon_status tn_pass_freeze(tenon_graph *graph, bool *changed) {
    bool *written = calloc((size_t)graph->value_count + 1, sizeof *written);
    if (!written)
        return tn_no_memory();
    for (int i = 0; i < graph->write_count; i++)
        written[graph->writes[i].target->id] = true;
    for (int i = 0; i < graph->constant_count; i++) {
        tenon_value *value = graph->constants[i];
        if (value->kind != TENON_VALUE_BUFFER || written[value->id])
            continue;
        value->kind = TENON_VALUE_CONSTANT;
        *changed = true;
    }
    free(written);
    return TENON_OK;
}
