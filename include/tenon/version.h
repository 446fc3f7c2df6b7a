/* The library's version and what it runs on. Read status.h first. */
#ifndef TENON_VERSION_H
#define TENON_VERSION_H

#include <tenon/status.h>

#define TENON_VERSION_MAJOR 0
#define TENON_VERSION_MINOR 1
#define TENON_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_build_info {
    const char *version;        /* Tenon's, "0.1.0" */
    const char *onednn_version; /* of the oneDNN that is loaded, "3.7.2" */
    const char *onednn_runtime; /* its CPU run time: "OpenMP", "sequential", "TBB", "threadpool" */
    const char *onednn_isa;     /* the ISA that oneDNN uses here, such as "AVX512_CORE_BF16" */
    const char *kernel_isa; /* the ISA level of Tenon's own kernels: "baseline", "avx2", "avx512" */
    const char *cpu;        /* the CPU's name, as the system tells it; "unknown" */
    int cores;              /* cores that this process may use */
} tenon_build_info;

/* Fills `info`; the strings live as long as the process. Thread-safe. */
TENON_API void tenon_get_build_info(tenon_build_info *info);

#ifdef __cplusplus
}
#endif
#endif
