/* Verify mode: partitions, and kernels that passes choose, against plain kernels. */
#ifndef TN_RUN_VERIFY_H
#define TN_RUN_VERIFY_H

#include "run/plan.h"
#include <tenon/pass.h>

typedef struct tn_verify {
    const tenon_passes *passes;
    /* Runs the passes of the shapes phase. */
    tenon_status (*lower)(void *user, const tenon_passes *passes, tenon_graph **graph);
    void *user;
    const tenon_view *inputs; /* those without data are random, see tenon_session_options.verify */
    const tn_plan_options *options;
} tn_verify;

/* Lowers `graph`, whose shapes are known, and plans it. A pass that chose a kernel which differs
 * from plain ones is left out; a oneDNN partition that differs goes to kernels, with
 * TENON_REASON_VERIFY. Both are logged. The plan takes the graph over on success. */
tenon_status tn_plan_create_verified(const tn_verify *verify, tenon_graph *graph, tn_plan **out);

#endif
