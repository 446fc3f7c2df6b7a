/* What kernels work with. */
#ifndef TN_KERNEL_H
#define TN_KERNEL_H

#include "core/fail.h"
#include "core/graph.h"

/* One call of a kernel. Inputs are the tensors among the node's arguments, in the schema's order,
 * lists flattened; they may have any strides. Outputs are allocated, with the inferred dtype and
 * shape and any strides that do not overlap. An output never overlaps an input, except where
 * tn_kernel_inplace says that it may be exactly the same view. */
struct tenon_op_call {
    const tenon_node *node; /* its args hold no symbols */
    const tenon_view *in;
    tenon_view *out;      /* dtype NONE: nobody wants this output */
    const int32_t *first; /* by schema argument: its first tensor's index in `in`; absent list items
                             have dtype NONE there; -1: no tensor */
    int in_count, out_count;
    int threads; /* as many as OpenMP may use */
    struct tn_scratch *scratch;
};

/* Memory that is valid until the kernel returns, 64-byte aligned, not zeroed; NULL when memory is
 * out. It is kept between runs, so that only a first run allocates. Not for use inside a parallel
 * region. */
void *tn_call_scratch(tn_call *call, size_t size);

typedef struct tn_scratch {
    struct tn_scratch_block *blocks;
} tn_scratch;
void tn_scratch_reset(tn_scratch *scratch); /* what was handed out may be handed out again */
void tn_scratch_free(tn_scratch *scratch);

/* The view of tensor argument `index`, or NULL when it is absent. */
static inline const tenon_view *tn_call_in(const tn_call *call, int index) {
    int32_t i = call->first[index];
    return i < 0 || call->in[i].dtype == TENON_DTYPE_NONE ? NULL : &call->in[i];
}
/* The view of a tensor or number argument: for a number, a 0-d view (int64, float64, bool) of the
 * literal. */
tenon_view tn_call_operand(const tn_call *call, int index);
/* RUN_FAILED with the node's name and op before the message. */
tenon_status tn_call_fail(const tn_call *call, const char *format, ...) TENON_PRINTF(2, 3);

/* ---- ISA levels
 * ----------------------------------------------------------------------------------------------
 * Everything in kernels/ is compiled once for each level, with TN_ISA set to its suffix. Functions
 * that cross files there are named TN_K(name). */
#define TN_PASTE2(a, b, c) a##b##_##c
#define TN_PASTE(a, b, c) TN_PASTE2(a, b, c)
#ifdef TN_ISA
#define TN_K(name) TN_PASTE(tn_k_, name, TN_ISA)
#endif

typedef enum tn_isa { TN_ISA_BASELINE, TN_ISA_AVX2, TN_ISA_AVX512, TN_ISA_COUNT } tn_isa;

/* The kernel of op `id` at that ISA level (the highest that was built, at most `isa`), or NULL. */
tn_kernel_fn tn_kernel_get(int id, tn_isa isa);
/* What TENON_MAX_ISA says: baseline, avx2 or avx512. Other text caps nothing, with a warning in the
 * log, once. */
tn_isa tn_isa_cap(void);
/* The best level of this CPU, capped by TENON_MAX_ISA. */
tn_isa tn_isa_detect(void);
/* Whether this CPU multiplies tiles of bfloat16 (AMX), and oneDNN may: TENON_MAX_ISA caps it. */
bool tn_cpu_has_amx(void);
const char *tn_isa_text(tn_isa isa);
/* In upper or lower case. */
bool tn_isa_from_text(const char *text, tn_isa *isa);
/* Whether output 0 of the op may be the very memory of its input number `in` (equal dtype, shape
 * and strides). */
bool tn_kernel_inplace(int id, int in);

#endif
