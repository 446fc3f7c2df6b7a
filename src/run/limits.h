/* Limits on what a model may cost: tenon_limits. */
#ifndef TN_LIMITS_H
#define TN_LIMITS_H

#include "run/plan.h"

/* Fills in the defaults. INVALID_ARGUMENT names a field that is out of range. */
tenon_status tn_limits_take(tenon_limits *limits);

/* Nodes, elements and rank; values whose shapes are not known yet pass. */
tenon_status tn_limits_check_graph(const tenon_limits *limits, const tenon_graph *graph);
/* Memory and operations of a run. */
tenon_status tn_limits_check_plan(const tenon_limits *limits, const tn_plan *plan);

#endif
