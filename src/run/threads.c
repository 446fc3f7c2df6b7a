#include "run/threads.h"
#include "core/fail.h"
#include "core/profile.h"
#include <hwloc.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- Cores ---- */

static hwloc_topology_t topology;
static pthread_once_t topology_once = PTHREAD_ONCE_INIT;

/* hwloc's x86 backend would visit every core by changing this thread's binding, so it is told not
 * to. */
static void topology_load(void) {
    hwloc_topology_t made;
    if (hwloc_topology_init(&made) != 0)
        return;
    unsigned long flags = HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM;
#if HWLOC_API_VERSION >= 0x00020500
    flags |= HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#endif
    if (hwloc_topology_set_flags(made, flags) != 0 ||
        hwloc_topology_set_all_types_filter(made, HWLOC_TYPE_FILTER_KEEP_NONE) != 0 ||
        hwloc_topology_set_type_filter(made, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
        hwloc_topology_load(made) != 0) {
        hwloc_topology_destroy(made);
        return;
    }
    topology = made;
}

/* Cores that the calling thread's mask touches, or 0 when unknown. */
static int cores_bound(void) {
    pthread_once(&topology_once, topology_load);
    if (!topology)
        return 0;
    int count = 0;
    hwloc_bitmap_t mask = hwloc_bitmap_alloc();
    if (mask && hwloc_get_cpubind(topology, mask, HWLOC_CPUBIND_THREAD) == 0) {
        int depth = hwloc_get_type_or_below_depth(topology, HWLOC_OBJ_CORE);
        int cores = hwloc_get_nbobjs_by_depth(topology, depth);
        for (int i = 0; i < cores; i++) {
            hwloc_obj_t core = hwloc_get_obj_by_depth(topology, depth, (unsigned)i);
            count += hwloc_bitmap_intersects(core->cpuset, mask);
        }
    }
    hwloc_bitmap_free(mask);
    return count;
}

/* Cores' worth of CPU time from "quota period" in version 2's cpu.max, rounded up; 0: no limit. */
static int quota_read(const char *path) {
    FILE *file = fopen(path, "r");
    long quota = 0, period = 0;
    if (!file)
        return 0;
    int fields = fscanf(file, "%ld %ld", &quota, &period);
    fclose(file);
    return fields == 2 && quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

/* The same from version 1's two files. */
static int quota_read_v1(const char *directory) {
    char path[600];
    long values[2] = {0, 0};
    const char *const names[2] = {"cpu.cfs_quota_us", "cpu.cfs_period_us"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        FILE *file = fopen(path, "r");
        if (!file)
            return 0;
        int fields = fscanf(file, "%ld", &values[i]);
        fclose(file);
        if (fields != 1 || values[i] <= 0)
            return 0;
    }
    return (int)((values[0] + values[1] - 1) / values[1]);
}

static int smaller(int a, int b) {
    return a == 0 || (b > 0 && b < a) ? b : a;
}

/* The smallest quota on the way from this process's cgroup to the root; 0: no limit. */
static int quota_cores(void) {
    FILE *file = fopen("/proc/self/cgroup", "r");
    char line[512], path[600];
    int best = smaller(quota_read("/sys/fs/cgroup/cpu.max"), quota_read_v1("/sys/fs/cgroup/cpu"));
    if (!file)
        return best;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        bool v2 = controllers[1] == 0, v1 = strstr(controllers, "cpu") != NULL;
        for (char *end = group + strlen(group); (v1 || v2) && end > group;
             end = strrchr(group, '/')) {
            *end = 0;
            snprintf(path, sizeof path, v2 ? "/sys/fs/cgroup%s/cpu.max" : "/sys/fs/cgroup/cpu%s",
                     group);
            best = smaller(best, v2 ? quota_read(path) : quota_read_v1(path));
            if (!strchr(group, '/'))
                break;
        }
    }
    fclose(file);
    return best;
}

int tn_threads_available(void) {
    int cores = smaller(cores_bound(), quota_cores());
    if (cores == 0)
        cores = omp_get_num_procs();
    if (getenv("OMP_NUM_THREADS") && omp_get_max_threads() < cores)
        cores = omp_get_max_threads();
    return cores < 1 ? 1 : cores;
}

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
 * puts `saved` back. */
static void modes_change(int threads, unsigned *saved, bool restore) {
    if (threads > MAX_WORKERS)
        threads = MAX_WORKERS;
    if (threads == 1) {
        if (!restore)
            saved[0] = mode_get();
        mode_set(restore ? saved[0] : saved[0] | FLUSH_BITS);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        int me = omp_get_thread_num();
        if (!restore)
            saved[me] = mode_get();
        mode_set(restore ? saved[me] : saved[me] | FLUSH_BITS);
    }
}

/* ---- Runs ---- */

/* gomp's workers do not survive fork, but the child's first thread still believes in its team,
 * whoever made it, and would wait for it for ever. */
static _Thread_local bool team_lost;

static void after_fork(void) {
    team_lost = true;
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
    if (threads == 1 || (!team_lost && !omp_in_parallel()))
        return run_here(&j);
    /* A new thread has no team yet, so it starts workers of its own. */
    pthread_t thread;
    j.log = tn_profile_borrow();
    if (pthread_create(&thread, NULL, run_job, &j) != 0)
        return tn_fail(TENON_RUN_FAILED, "%s: no thread could be started",
                       team_lost ? "run in a forked process"
                                 : "run inside an OpenMP parallel region");
    pthread_join(thread, NULL);
    if (j.status != TENON_OK)
        tn_fail(j.status, "%s", j.message ? j.message : "");
    free(j.message);
    return j.status;
}
