/* Running float32 models in bfloat16. */
#ifndef TN_BF16_H
#define TN_BF16_H

#include <tenon/pass.h>

/* A copy of `list` with the pass "bf16" in it: before "merge_shapes", which merges its casts. The
 * copy owns nothing of the passes' users. */
tenon_status tn_bf16_pipeline(const tenon_passes *list, tenon_passes **out);

#endif
