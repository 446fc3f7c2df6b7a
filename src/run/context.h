/* A context's insides. */
#ifndef TN_CONTEXT_H
#define TN_CONTEXT_H

#include "run/session.h"

/* A place that holds the address of some memory of a base, which changes when the base moves. */
typedef struct tn_patch {
    void **place;
    int64_t offset;
} tn_patch;

/* A step with its tensors bound. */
typedef struct tn_bound_step {
    tn_call call;        /* kernels */
    tn_kernel_fn kernel; /* NULL: a partition */
    tn_partition *partition;
    void **in, **out; /* partitions */
} tn_bound_step;

/* A plan bound to a context: what a run needs, prepared. Bases are numbered: the arena, inputs,
 * outputs, states, next states. */
typedef struct tn_instance {
    tn_plan *plan;
    tn_arena arena; /* of everything below */
    tn_bound_step *steps;
    tn_patch *patches; /* grouped by base */
    int64_t *first;    /* by base: its first patch; one more at the end */
    void **addresses;  /* by base: what the patched places hold */
    int64_t *times;    /* by step: nanoseconds of the last run that was measured */
    int32_t base_count;
} tn_instance;

/* Memory that grows on demand. */
typedef struct tn_memory {
    void *data;
    size_t size;
} tn_memory;

typedef struct tn_state {
    tenon_view view;            /* row-major; data: the value as the last successful run left it */
    tn_storage *current, *next; /* `next` only when runs may change it */
} tn_state;

struct tenon_context {
    tenon_session *session;
    tn_memory arena;
    tn_scratch scratch;
    tn_state *states;
    tn_memory *inputs; /* row-major copies of strided inputs */
    tn_memory
        *outputs;  /* for callers that give no memory, or memory that cannot be written directly */
    bool *direct;  /* this run: output i is written to the caller's memory */
    void **wanted; /* by base: addresses of this run */
    tn_instance **instances;
    int32_t instance_count, instance_capacity;
    tn_instance *current;
    bool timing; /* runs are to be measured */
    bool timed;  /* the last one was, in current->times */
};

tenon_status tn_instance_create(tenon_context *context, tn_plan *plan, tn_instance **out);
void tn_instance_destroy(tn_instance **instance);
/* Points everything at these addresses, by base. */
void tn_instance_patch(tn_instance *instance, void *const *addresses);
/* `timing`: notes how long each step takes. */
tenon_status tn_instance_run(tn_instance *instance, tn_scratch *scratch, bool timing);

/* The number of a base. */
static inline int32_t tn_base_number(const tn_plan *plan, tn_base base, int32_t index) {
    switch (base) {
    case TN_BASE_INPUT:
        return 1 + index;
    case TN_BASE_OUTPUT:
        return 1 + plan->input_count + index;
    case TN_BASE_STATE:
        return 1 + plan->input_count + plan->output_count + index;
    case TN_BASE_NEXT:
        return 1 + plan->input_count + plan->output_count + plan->state_count + index;
    default:
        return 0;
    }
}

#endif
