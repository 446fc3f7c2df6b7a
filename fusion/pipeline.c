#include "fusion/pipeline.h"
#include "core/util.h"
#include "fusion/passes.h"

const tn_default_pass tn_default_passes[] = {
#define X(name, function, phase, pinned, doc) \
    {{name, doc, TENON_PASS_##phase, tn_pass_##function, NULL, NULL}, pinned},
    TN_PASS_LIST(X)
#undef X
};

const int tn_default_pass_count = TN_COUNT(tn_default_passes);
