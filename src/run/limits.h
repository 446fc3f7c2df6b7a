/* Limits on what a model may cost: tenon_limits. */
#ifndef TN_LIMITS_H
#define TN_LIMITS_H

#include "core/budget.h"
#include "run/plan.h"

/* Fills in the defaults. INVALID_ARGUMENT names a field that is out of range. */
tenon_status tn_limits_take(tenon_limits *limits);

/* Nodes, elements and rank; values whose shapes are not known yet pass. */
tenon_status tn_limits_check_graph(const tenon_limits *limits, const tenon_graph *graph);

/* The bytes that defaults count for a graph that a session is made of: of its files, or of its
 * constants and nodes where calls built it. Those of inputs come on top. */
double tn_limits_given(const tenon_graph *graph);
double tn_limits_view_bytes(const tenon_view *view);
/* The budget of one compilation; `before` (NULL: nothing) is what was charged already. */
tn_budget tn_limits_budget(const tenon_limits *limits, double given, const tn_budget *before);

/* Gives it what may be folded anew. */
void tn_limits_fold(const tenon_limits *limits, tn_budget *budget);

/* Operations and work of a run. */
tenon_status tn_limits_check_work(const tenon_limits *limits, const tenon_graph *graph,
                                  double given);
/* Memory of a run; sets what the plan leaves for scratch memory. */
tenon_status tn_limits_check_plan(const tenon_limits *limits, tn_plan *plan, double given);

#endif
