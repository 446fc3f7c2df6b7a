/* Verify mode: partitions against Tenon's own kernels. */
#ifndef TN_RUN_VERIFY_H
#define TN_RUN_VERIFY_H

#include "run/plan.h"

/* As tn_plan_create, but each oneDNN partition of the plan has computed what Tenon's kernels
 * compute from the same operands, on `inputs` (those without data are random, see
 * tenon_session_options.verify). A partition that differs is logged, its nodes go to kernels with
 * TENON_REASON_VERIFY, and the graph is planned again. */
tenon_status tn_plan_create_verified(tenon_graph *graph, const tenon_view *inputs,
                                     const tn_plan_options *options, tn_plan **out);

#endif
