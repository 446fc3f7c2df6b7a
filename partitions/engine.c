/* One oneDNN engine for the process. It is never destroyed: compiled code and cached weights keep
 * plain pointers to it. */
#include "partitions/internal.h"
#include "partitions/pool.h"
#include "partitions/shim.h"
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Room for all packed weights, in megabytes: once the cache is full, oneDNN packs weights anew in
 * every run. */
#define CONSTANT_CACHE ((size_t)1 << 24)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static dnnl_engine_t engine;
static tn_isa engine_isa;
static bool isa_settled, spoilt;
static tn_caps caps;
static int64_t sets;
static size_t used_bytes, left_bytes;
static atomic_size_t next_id = 1;

static const struct {
    unsigned isa;
    const char *text;
} isas[] = {
    {dnnl_cpu_isa_sse41, "SSE41"},
    {dnnl_cpu_isa_avx, "AVX"},
    {dnnl_cpu_isa_avx2, "AVX2"},
    {dnnl_cpu_isa_avx2_vnni, "AVX2_VNNI"},
    {dnnl_cpu_isa_avx2_vnni_2, "AVX2_VNNI_2"},
    {dnnl_cpu_isa_avx512_core, "AVX512_CORE"},
    {dnnl_cpu_isa_avx512_core_vnni, "AVX512_CORE_VNNI"},
    {dnnl_cpu_isa_avx512_core_bf16, "AVX512_CORE_BF16"},
    {dnnl_cpu_isa_avx512_core_fp16, "AVX512_CORE_FP16"},
    {dnnl_cpu_isa_avx512_core_amx, "AVX512_CORE_AMX"},
    {dnnl_cpu_isa_avx512_core_amx_fp16, "AVX512_CORE_AMX_FP16"},
};

static const char *isa_text(unsigned isa) {
    for (int i = 0; i < TN_COUNT(isas); i++) {
        if (isas[i].isa == isa)
            return isas[i].text;
    }
    return "default";
}

const char *tn_dnnl_text(dnnl_status_t status) {
    switch (status) {
    case dnnl_success:
        return "success";
    case dnnl_out_of_memory:
        return "out of memory";
    case dnnl_invalid_arguments:
        return "invalid arguments";
    case dnnl_unimplemented:
        return "unimplemented";
    case dnnl_runtime_error:
        return "run-time error";
    case dnnl_invalid_graph:
        return "invalid graph";
    case dnnl_invalid_graph_op:
        return "invalid op";
    case dnnl_invalid_shape:
        return "invalid shape";
    case dnnl_invalid_data_type:
        return "invalid dtype";
    default:
        return "failure";
    }
}

tenon_status tn_dnnl_status(dnnl_status_t status) {
    return status == dnnl_success         ? TENON_OK
           : status == dnnl_out_of_memory ? TENON_OUT_OF_MEMORY
                                          : TENON_BACKEND;
}

/* oneDNN takes a cap only before it has looked at the CPU. */
static void settle_isa(tn_isa cap) {
    tn_isa from_environment = tn_isa_cap();
    cap = from_environment < cap ? from_environment : cap;
    if (isa_settled) {
        if (cap != engine_isa)
            tn_log(TENON_LOG_WARN,
                   "oneDNN keeps the ISA cap %s that it started with, although %s is asked for now",
                   tn_isa_text(engine_isa), tn_isa_text(cap));
        return;
    }
    isa_settled = true;
    engine_isa = cap;
#if defined(__x86_64__)
    if (cap < TN_ISA_AVX512) {
        dnnl_cpu_isa_t isa = cap == TN_ISA_BASELINE ? dnnl_cpu_isa_sse41 : dnnl_cpu_isa_avx2;
        if (tn_dnnl_set_max_cpu_isa(isa) != dnnl_success)
            tn_log(TENON_LOG_WARN, "oneDNN does not take the ISA cap %s", tn_isa_text(cap));
    }
#endif
}

static void fill_caps(void) {
    const dnnl_version_t *v = dnnl_version();
    unsigned isa = dnnl_get_effective_cpu_isa();
    caps.version = v->major * 10000 + v->minor * 100 + v->patch;
    caps.chain = caps.version >= 31000 ? 19 : 4;
    caps.gelu_tanh = caps.version >= 30900;
    caps.rms_norm = caps.version >= 31100;
    caps.right_side_safe = caps.version >= 30900;
    caps.select_safe = caps.version >= 30800;
    caps.deconv_binary = caps.version >= 31300;
#if defined(__x86_64__)
    bool avx512 = (isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
    bool vnni2 = (isa & dnnl_cpu_isa_avx2_vnni_2) == dnnl_cpu_isa_avx2_vnni_2;
    caps.bfloat16 = avx512 || vnni2;
    caps.float16 = vnni2 || (isa & dnnl_cpu_isa_avx512_core_fp16) == dnnl_cpu_isa_avx512_core_fp16;
#else
    (void)isa;
#endif
}

/* Kept for as long as the process, as oneDNN keeps only its address. */
static dnnl_graph_allocator_t allocator;

static tenon_status start(void) {
    dnnl_status_t status =
        tn_dnnl_graph_set_constant_tensor_cache_capacity(dnnl_cpu, CONSTANT_CACHE);
    if (status == dnnl_success && !allocator)
        status = tn_dnnl_graph_allocator_create(&allocator, tn_shim_allocate, tn_pool_free);
    if (status == dnnl_success)
        status = tn_dnnl_graph_make_engine_with_allocator(&engine, dnnl_cpu, 0, allocator);
    if (status != dnnl_success) {
        engine = NULL;
        return tn_fail(tn_dnnl_status(status), "oneDNN does not start: %s", tn_dnnl_text(status));
    }
    fill_caps();
    return TENON_OK;
}

tenon_status tn_engine_start(tn_isa cap, dnnl_engine_t *out) {
    pthread_mutex_lock(&lock);
    settle_isa(cap);
    tenon_status status = engine ? TENON_OK : start();
    if (status == TENON_OK)
        *out = engine;
    pthread_mutex_unlock(&lock);
    return status;
}

const tn_caps *tn_engine_caps(void) {
    return &caps;
}

size_t tn_engine_ids(void) {
    return atomic_fetch_add(&next_id, (size_t)1 << 32);
}

void tn_engine_enter(void) {
    pthread_mutex_lock(&lock);
    sets++;
    pthread_mutex_unlock(&lock);
}

void tn_engine_use(size_t bytes) {
    pthread_mutex_lock(&lock);
    used_bytes += bytes;
    pthread_mutex_unlock(&lock);
}

void tn_engine_compile_failed(void) {
    pthread_mutex_lock(&lock);
    tn_shim_forget_compiled();
    pthread_mutex_unlock(&lock);
}

/* Setting a capacity empties the cache. It must not be 0 for a moment: a partition that runs then
 * would leave its weights out. Partitions in use pack theirs again in their next run. */
static void empty_caches(bool last) {
    static bool odd;
    odd = !odd;
    (void)tn_dnnl_graph_set_constant_tensor_cache_capacity(dnnl_cpu, CONSTANT_CACHE + odd);
    if (last) {
        int capacity;
        tn_shim_forget_compiled();
        if (tn_dnnl_get_primitive_cache_capacity(&capacity) == dnnl_success) {
            (void)tn_dnnl_set_primitive_cache_capacity(0);
            (void)tn_dnnl_set_primitive_cache_capacity(capacity);
        }
    }
    tn_pool_trim();
}

void tn_engine_spoil(void) {
    pthread_mutex_lock(&lock);
    spoilt = true;
    pthread_mutex_unlock(&lock);
}

void tn_engine_leave(size_t bytes) {
    pthread_mutex_lock(&lock);
    sets--;
    used_bytes -= bytes;
    left_bytes += bytes;
    if (!spoilt && (sets == 0 || left_bytes > used_bytes)) {
        empty_caches(sets == 0);
        left_bytes = 0;
    }
    pthread_mutex_unlock(&lock);
}

bool tn_onednn_bfloat16(tn_isa cap) {
    pthread_mutex_lock(&lock);
    settle_isa(cap);
    fill_caps();
    bool bfloat16 = caps.bfloat16;
    pthread_mutex_unlock(&lock);
    return bfloat16;
}

bool tn_onednn_rounds(tn_isa cap) {
    pthread_mutex_lock(&lock);
    settle_isa(cap);
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    pthread_mutex_unlock(&lock);
    return isa == dnnl_cpu_isa_avx512_core_amx || isa == dnnl_cpu_isa_avx512_core_amx_fp16;
}

void tn_onednn_get_info(tn_onednn_info *info) {
    static char version[32];
    const dnnl_version_t *v = dnnl_version();
    pthread_mutex_lock(&lock);
    if (!isa_settled)
        settle_isa(TN_ISA_AVX512);
    if (caps.version == 0) /* once: others may read them already */
        fill_caps();
    if (version[0] == 0)
        snprintf(version, sizeof version, "%d.%d.%d", v->major, v->minor, v->patch);
    *info = (tn_onednn_info){
        .version = version,
        .runtime = v->cpu_runtime == DNNL_RUNTIME_OMP          ? "OpenMP"
                   : v->cpu_runtime == DNNL_RUNTIME_TBB        ? "TBB"
                   : v->cpu_runtime == DNNL_RUNTIME_THREADPOOL ? "threadpool"
                                                               : "sequential",
        .isa = isa_text(dnnl_get_effective_cpu_isa()),
        .bfloat16 = caps.bfloat16,
        .float16 = caps.float16,
    };
    pthread_mutex_unlock(&lock);
}
