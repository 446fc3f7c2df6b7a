/* OpenMP's thread count, the floating-point mode, and runs that need a thread of their own. */
#ifndef TN_THREADS_H
#define TN_THREADS_H

#include "core/util.h"

/* Calls `work(user)` with OpenMP set to `threads` threads, denormals flushed to zero on this thread
 * and OpenMP's workers when `flush` says so, and puts back what it changed. Where OpenMP cannot run
 * here (inside a parallel region, or in the thread that went on after a fork) the work runs in a
 * thread of its own. Returns what `work` returns. */
tenon_status tn_threads_run(int threads, bool flush, tenon_status (*work)(void *user), void *user);

/* How many forks made this process from the one that loaded the library: what has another number
 * has its threads in another process. */
unsigned tn_threads_forks(void);

#endif
