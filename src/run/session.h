/* The session's insides. */
#ifndef TN_SESSION_H
#define TN_SESSION_H

#include "core/budget.h"
#include "run/plan.h"
#include <pthread.h>

struct tenon_session {
    tenon_graph *graph; /* after the passes of the model phase; never changes */
    tenon_session_options options;
    tenon_passes *passes; /* a pipeline of its own; NULL: the caller's */
    tn_plan_options plan_options;
    struct tn_tuner *tuner; /* chooses kernels by measurement; NULL: rules do */
    const char **states;    /* names of the graph's buffers */
    tenon_value **state_values;
    int32_t state_count;
    double given;            /* bytes of files, or of constants: what limits' defaults count */
    tn_budget lowered;       /* what the passes of the model phase took */
    bool *written;           /* by state: some run may change it */
    pthread_mutex_t lock;    /* of what follows */
    pthread_mutex_t compile; /* held while compiling, so that nothing is compiled twice */
    tn_plan **plans;         /* max_shapes at most */
    int32_t plan_count;
    tn_plan *latest;        /* compiled last, for explain */
    _Atomic uint64_t clock; /* of tn_plan.last_used */
    atomic_int shares;      /* the caller's, and one of each context */
};

/* A session lives until its last context has gone, whatever the caller does. */
void tn_session_share(tenon_session *session);
void tn_session_drop(tenon_session *session);

/* The plan for these inputs, compiled if it was not yet. The caller drops its share. */
tenon_status tn_session_plan(tenon_session *session, const tenon_view *inputs, int input_count,
                             tn_plan **out);

#endif
