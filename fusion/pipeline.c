#include "fusion/pipeline.h"
#include "core/util.h"
#include "fusion/passes.h"

#define PINNED_PASS 2
#define REQUIRED_PASS 1
#define OPTIONAL_PASS 0
#define KERNEL_PASS -1

const tn_default_pass tn_default_passes[] = {
#define X(name_, function, phase_, kind, after_, doc_)   \
    {.pass = {.name = name_,                             \
              .doc = doc_,                               \
              .phase = TENON_PASS_##phase_,              \
              .after = after_,                           \
              .remove_dead = true,                       \
              .required = kind##_PASS >= REQUIRED_PASS}, \
     .builtin = tn_pass_##function,                      \
     .pinned = kind##_PASS == PINNED_PASS,               \
     .kernel = kind##_PASS == KERNEL_PASS},
    TN_PASS_LIST(X)
#undef X
};

const int tn_default_pass_count = TN_COUNT(tn_default_passes);

static tenon_status run_builtin(tenon_pass_call *call) {
    const tn_default_pass *row = call->pass->user;
    return row->builtin(call->graph, &call->changed);
}

tenon_pass tn_default_pass_get(int row) {
    tenon_pass pass = tn_default_passes[row].pass;
    pass.run = run_builtin;
    pass.user = (void *)&tn_default_passes[row];
    return pass;
}

bool tn_pass_is_builtin(const tenon_pass *pass) {
    return pass->run == run_builtin;
}

bool tn_pass_is_kernel(const tenon_pass *pass) {
    return tn_pass_is_builtin(pass) && ((const tn_default_pass *)pass->user)->kernel;
}
