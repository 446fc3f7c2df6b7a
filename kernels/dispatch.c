/* Chooses the ISA level of the kernels, once for the process. */
#include "core/fail.h"
#include "core/kernel.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdatomic.h>
#include <stdlib.h>
#include <strings.h>

/* TN_KERNEL_LEVELS: how many levels were built, from the lowest on. */
extern const tn_kernel_fn tn_k_table_baseline[], tn_k_table_avx2[], tn_k_table_avx512[];
static const tn_kernel_fn *const tables[] = {
    tn_k_table_baseline,
#if TN_KERNEL_LEVELS > 1
    tn_k_table_avx2,
#endif
#if TN_KERNEL_LEVELS > 2
    tn_k_table_avx512,
#endif
};

static const char *const texts[TN_ISA_COUNT] = {"baseline", "avx2", "avx512"};

const char *tn_isa_text(tn_isa isa) {
    return texts[isa];
}

bool tn_isa_from_text(const char *text, tn_isa *isa) {
    for (int i = 0; i < TN_ISA_COUNT; i++) {
        if (strcasecmp(text, texts[i]) == 0) {
            *isa = (tn_isa)i;
            return true;
        }
    }
    return false;
}

tn_isa tn_isa_cap(void) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    tn_isa cap = TN_ISA_COUNT - 1;
    const char *text = getenv("TENON_MAX_ISA");
    if (text && *text && !tn_isa_from_text(text, &cap) && !atomic_flag_test_and_set(&told))
        tn_log(TENON_LOG_WARN,
               "TENON_MAX_ISA is '%s', not one of baseline, avx2, avx512: it caps nothing", text);
    return cap;
}

#if defined(__x86_64__)
/* Intel's manual, volume 2, CPUID leaf 1; clang before 19 does not know it by name. */
static bool cpu_has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
}
#endif

tn_isa tn_isa_detect(void) {
    tn_isa best = TN_ISA_BASELINE, cap = tn_isa_cap();
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cpu_has_f16c() &&
        __builtin_cpu_supports("bmi2")) {
        best = TN_ISA_AVX2;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
            best = TN_ISA_AVX512;
    }
#endif
    return cap < best ? cap : best;
}

bool tn_cpu_has_amx(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d; /* Intel's manual, volume 2, CPUID leaf 7: AMX-BF16 is bit 22 of EDX */
    return tn_isa_detect() == TN_ISA_AVX512 && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (d >> 22 & 1);
#else
    return false;
#endif
}

tn_kernel_fn tn_kernel_get(int id, tn_isa isa) {
    if (id >= TN_OP_COUNT)
        return tn_op_by_id(id) ? tn_user_kernel : NULL;
    if (id < 0)
        return NULL;
    int level = (int)isa < TN_COUNT(tables) ? (int)isa : TN_COUNT(tables) - 1;
    return tables[level][id];
}

/* Kernels that read every input's element, if at all, before they write the output's element of the
 * same index; and those that bear it for their first input only. */
#define IN_PLACE_KERNELS(X) X(unary) X(binary) X(ternary) X(copy) X(tri) X(quantize_per_tensor)
#define FIRST_IN_PLACE_KERNELS(X) \
    X(scan)                       \
    X(softmax)                    \
    X(layer_norm)                 \
    X(rms_norm)                   \
    X(batch_norm)                 \
    X(group_norm)                 \
    X(index_put)                  \
    X(index_write)                \
    X(scatter)                    \
    X(masked_scatter)             \
    X(part_scatter)               \
    X(as_strided_scatter)
/* And those that bear it for what they add to a sum, behind their two operands. */
#define ADDED_IN_PLACE_KERNELS(X) X(packed_linear)
#define X(name) tenon_status tn_k_##name##_baseline(tn_call *call);
IN_PLACE_KERNELS(X)
ADDED_IN_PLACE_KERNELS(X)
FIRST_IN_PLACE_KERNELS(X)
#undef X

bool tn_kernel_inplace(int id, int in) {
    if (id < 0 || id >= TN_OP_COUNT || in < 0)
        return false;
#define X(name)                                  \
    if (tables[0][id] == tn_k_##name##_baseline) \
        return true;
    IN_PLACE_KERNELS(X)
#undef X
#define X(name)                                  \
    if (tables[0][id] == tn_k_##name##_baseline) \
        return in == 0;
    FIRST_IN_PLACE_KERNELS(X)
#undef X
#define X(name)                                  \
    if (tables[0][id] == tn_k_##name##_baseline) \
        return in >= 2;
    ADDED_IN_PLACE_KERNELS(X)
#undef X
    return false;
}
