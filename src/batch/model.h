/* A job's model: its inputs at the job's batch, and where they come from. */
#ifndef BATCH_MODEL_H
#define BATCH_MODEL_H

#include "batch.h"
#include "source.h"

enum { BATCH_MOST_INPUTS = 64 };

typedef struct batch_model {
    tenon_graph *graph;
    int64_t batch;
    int input_count;
    tenon_view *inputs;  /* dtype and shape of each at that batch; numbers with their value */
    int64_t *numbers;    /* the memory of these */
    batch_field *fields; /* the inputs that are arrays */
    int *field_inputs;   /* which input that is */
    int field_count;
    batch_field *sorted; /* the same, source by source */
    batch_source *source;
} batch_model;

/* Loads the model and opens its sources. The caller frees it, also on failure. */
tenon_status batch_model_open(const batch_job *job, batch_model *out);
void batch_model_close(batch_model *model);

#endif
