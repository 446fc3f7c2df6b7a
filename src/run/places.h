/* Cores: which this process may use, and binding threads to them. */
#ifndef TN_PLACES_H
#define TN_PLACES_H

#include "core/util.h"
#include <tenon/topology.h>

/* Threads that a session uses by default: one for each core of the calling thread's affinity mask,
 * capped by the cgroup's CPU quota; OMP_NUM_THREADS overrides both. At least 1. Changes no binding.
 * Thread-safe. */
int tn_threads_available(void);

/* Lets OpenMP know the calling thread, with its affinity mask as it was: LLVM's runtime gives a
 * thread that it meets for the first time all cores of the process. Thread-safe. */
void tn_openmp_meet(void);

/* Cores' worth of CPU time that the cgroup of this process, or one that it is in, may use; 0: no
 * limit. `root` goes before "/proc" and "/sys": "" but in tests. */
double tn_cpu_quota(const char *root);

/* Binds the calling thread to `count` PUs (the system's numbers), and memory that it touches first
 * to NUMA node `node` as long as there is some (-1: anywhere). Threads that it makes inherit both.
 * False where the system does not let it. */
bool tn_place_bind(const int *pus, int count, int node);

#endif
