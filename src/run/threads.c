#include "run/threads.h"
#include "core/fail.h"
#include "core/profile.h"
#include "run/places.h"
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- Floating-point mode ---- */

#if defined(__x86_64__)
#define FLUSH_BITS 0x8040u /* FTZ and DAZ */
static unsigned mode_get(void) {
    return _mm_getcsr();
}
static void mode_set(unsigned mode) {
    _mm_setcsr(mode);
}
#elif defined(__aarch64__)
#define FLUSH_BITS (1u << 24) /* FZ */
static unsigned mode_get(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return (unsigned)mode;
}
static void mode_set(unsigned mode) {
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode));
}
#else
#define FLUSH_BITS 0u
static unsigned mode_get(void) {
    return 0;
}
static void mode_set(unsigned mode) {
    (void)mode;
}
#endif

#define MAX_WORKERS 256

/* Sets the mode of this thread and of the workers it would use, and keeps theirs in `saved`; or
 * puts `saved` back. This thread's changes outside of the region: LLVM's OpenMP gives all threads
 * of a region the mode that it began with, and the caller that one again behind it. */
static void modes_change(int threads, unsigned *saved, bool restore) {
    if (threads > MAX_WORKERS)
        threads = MAX_WORKERS;
    if (!restore) {
        saved[0] = mode_get();
        mode_set(saved[0] | FLUSH_BITS);
    }
    if (threads > 1) {
#pragma omp parallel num_threads(threads)
        {
            int me = omp_get_thread_num();
            if (me > 0 && !restore)
                saved[me] = mode_get();
            if (me > 0)
                mode_set(restore ? saved[me] : saved[me] | FLUSH_BITS);
        }
    }
    if (restore)
        mode_set(saved[0]);
}

/* ---- Runs ---- */

/* gomp's workers do not survive fork, but the child's first thread still believes in its team,
 * whoever made it, and would wait for it for ever. */
static _Thread_local bool team_lost;

static atomic_uint forks;

static void after_fork(void) {
    team_lost = true;
    atomic_fetch_add(&forks, 1);
}

unsigned tn_threads_forks(void) {
    return atomic_load(&forks);
}

__attribute__((constructor)) static void fork_watch(void) {
    pthread_atfork(NULL, NULL, after_fork);
}

typedef struct job {
    int threads;
    bool flush;
    tenon_status (*work)(void *user);
    void *user;
    tenon_status status;
    char *message; /* of the failure, for the thread that waits */
    void *log;     /* of what it records */
} job;

static tenon_status run_here(const job *j) {
    unsigned saved[MAX_WORKERS];
    int threads = omp_get_max_threads(), dynamic = omp_get_dynamic();
    if (threads != j->threads)
        omp_set_num_threads(j->threads);
    if (dynamic)
        omp_set_dynamic(0);
    if (j->flush)
        modes_change(j->threads, saved, false);
    tenon_status status = j->work(j->user);
    if (j->flush)
        modes_change(j->threads, saved, true);
    if (dynamic)
        omp_set_dynamic(dynamic);
    if (omp_get_max_threads() != threads)
        omp_set_num_threads(threads);
    return status;
}

static void *run_job(void *user) {
    job *j = user;
    tn_profile_lend(j->log);
    j->status = run_here(j);
    if (j->status != TENON_OK)
        j->message = strdup(tenon_last_error());
    return NULL;
}

tenon_status tn_threads_run(int threads, bool flush, tenon_status (*work)(void *user), void *user) {
    job j = {.threads = threads, .flush = flush, .work = work, .user = user};
    tn_openmp_meet();
    if (threads == 1 || (!team_lost && !omp_in_parallel()))
        return run_here(&j);
    /* A new thread has no team yet, so it starts workers of its own. */
    pthread_t thread;
    j.log = tn_profile_borrow();
    if (pthread_create(&thread, NULL, run_job, &j) != 0)
        return tn_fail(TENON_OUT_OF_MEMORY, "%s: no thread could be started",
                       team_lost ? "run in a forked process"
                                 : "run inside an OpenMP parallel region");
    pthread_join(thread, NULL);
    if (j.status != TENON_OK)
        tn_fail(j.status, "%s", j.message ? j.message : "");
    free(j.message);
    return j.status;
}
