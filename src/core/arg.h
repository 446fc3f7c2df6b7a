/* Checking arguments against schemas. */
#ifndef TN_ARG_H
#define TN_ARG_H

#include "core/graph.h"

/* Copies `from` to `to` in the graph's arena, converted as the parameter wants it. INVALID_GRAPH
 * names op and parameter. */
tenon_status tn_arg_check(tenon_graph *graph, const tn_op *op, const tn_param *param,
                          const tenon_arg *from, tenon_arg *to);
/* Whether an argument that holds no value would fit. */
bool tn_arg_fits(const tn_op *op, const tn_param *param, tenon_arg arg);

#endif
