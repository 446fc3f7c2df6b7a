/* Running float32 models in bfloat16. */
#ifndef TN_BF16_H
#define TN_BF16_H

#include <tenon/pass.h>

/* A copy of `list` with the passes of bf16.c in it; the copy owns nothing of the passes' users. */
tenon_status tn_bf16_pipeline(const tenon_pass_list *list, tenon_pass_list **out);

/* manager.c: a copy whose passes are not destroyed with it. */
tenon_status tn_pass_list_copy(const tenon_pass_list *list, tenon_pass_list **out);

#endif
