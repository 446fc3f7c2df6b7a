/* Running float32 models in bfloat16. */
#ifndef TN_BF16_H
#define TN_BF16_H

#include "core/tensor.h"
#include <tenon/pass.h>

/* Weights rounded to bfloat16, each once for all shapes of a model. Not thread-safe. */
typedef struct tn_bf16 tn_bf16;

tenon_status tn_bf16_create(tn_bf16 **out);
void tn_bf16_destroy(tn_bf16 **bf16);

/* The constant rounded to bfloat16: new memory at the first wish, the same memory later. The caller
 * destroys it. */
tenon_status tn_bf16_round(tn_bf16 *bf16, const tenon_tensor *tensor, tenon_tensor **out);
/* Gives back what belongs to constants that nothing else holds any more. */
void tn_bf16_trim(tn_bf16 *bf16);

/* A copy of `list` with the pass "bf16" in it: before "merge_shapes", which merges its casts. The
 * copy uses `bf16`, and owns nothing of the passes' users. */
tenon_status tn_bf16_pipeline(const tenon_passes *list, tn_bf16 *bf16, tenon_passes **out);

#endif
