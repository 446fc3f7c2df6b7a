/* Choosing kernels by measurement. */
#ifndef TN_TUNE_H
#define TN_TUNE_H

#include "run/plan.h"
#include "run/tune_file.h"

typedef struct tn_tuner {
    tn_chooser chooser; /* first: tn_choose hands it back */
    tn_tune_file file;
    char *machine;              /* what choices depend on beside the candidate */
    const tenon_passes *passes; /* the session's */
    tn_plan_options plan;       /* isa, threads, dry_run */
    bool keep_denormals;
    size_t other_bytes;             /* that are read in between, as a run reads the other layers */
    int64_t save_interval, save_ns; /* what was measured is saved so often; when next */
    int64_t measured;               /* candidates that were measured */
} tn_tuner;

/* `path`: as tenon_session_options.tune, not NULL. `passes`: as long as
 * the tuner lives. `weight_bytes`: of the model. */
tenon_status tn_tuner_create(const char *path, const tenon_passes *passes,
                             const tn_plan_options *plan, bool keep_denormals, size_t weight_bytes,
                             tn_tuner **out);
void tn_tuner_destroy(tn_tuner **tuner);

#endif
