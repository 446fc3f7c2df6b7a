/* Allocations that fail, one after the other, and blocks that are left behind.
 *
 * With TEST_OWN_ALLOCATOR this replaces the allocator of the whole process, so that what cJSON,
 * libzip, libpng and oneDNN ask for fails too, and blocks that Tenon's code leaves are counted.
 * Sanitizers have an allocator of their own: with them the program is linked with --wrap for the
 * allocator's functions, which reaches Tenon's code only, and leaks and bad accesses are theirs to
 * see. The start of a thread counts as an allocation in both, and is wrapped in both. */
#ifndef TEST_ALLOC_FAULTS_H
#define TEST_ALLOC_FAULTS_H

#include "suite.h"
#include <errno.h>
#include <hwloc.h>
#include <link.h>
#include <partitions/shim.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

/* ---- What fails ---- */

static atomic_long fault_points;       /* allocations so far that could have failed */
static atomic_long fault_at = -1;      /* the one that fails; -1: none */
static atomic_long allocations_of_own; /* by Tenon's code and the test's */
static atomic_bool faults_counted;

static bool fails_now(void) {
    return atomic_load(&faults_counted) &&
           atomic_fetch_add(&fault_points, 1) == atomic_load(&fault_at);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *user);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *user) {
    return fails_now() ? EAGAIN : __real_pthread_create(thread, attributes, run, user);
}

/* oneDNN ends the process when memory is out while it empties its cache of weights, and follows
 * null pointers when memory is out while it makes a stream, compiles or executes (seen in 3.7), and
 * hwloc does wherever it allocates (seen in 2.9), so that what is allocated in there does not fail.
 * What Tenon allocates for them does. */
static atomic_int within_library;

int __real_hwloc_topology_load(hwloc_topology_t topology);
int __wrap_hwloc_topology_load(hwloc_topology_t topology);

int __wrap_hwloc_topology_load(hwloc_topology_t topology) {
    within_library++;
    int code = __real_hwloc_topology_load(topology);
    within_library--;
    return code;
}

__typeof__(dnnl_stream_create) __real_dnnl_stream_create, __wrap_dnnl_stream_create;
__typeof__(dnnl_graph_set_constant_tensor_cache_capacity)
    __real_dnnl_graph_set_constant_tensor_cache_capacity,
    __wrap_dnnl_graph_set_constant_tensor_cache_capacity;
__typeof__(tn_shim_compile) __real_tn_shim_compile, __wrap_tn_shim_compile;
__typeof__(tn_shim_execute) __real_tn_shim_execute, __wrap_tn_shim_execute;

dnnl_status_t __wrap_dnnl_stream_create(dnnl_stream_t *stream, dnnl_engine_t engine,
                                        unsigned flags) {
    within_library++;
    dnnl_status_t status = __real_dnnl_stream_create(stream, engine, flags);
    within_library--;
    return status;
}

dnnl_status_t __wrap_dnnl_graph_set_constant_tensor_cache_capacity(dnnl_engine_kind_t kind,
                                                                   size_t size) {
    within_library++;
    dnnl_status_t status = __real_dnnl_graph_set_constant_tensor_cache_capacity(kind, size);
    within_library--;
    return status;
}

dnnl_status_t __wrap_tn_shim_compile(dnnl_graph_partition_t partition,
                                     dnnl_graph_compiled_partition_t compiled, size_t in_count,
                                     const dnnl_graph_logical_tensor_t **in, size_t out_count,
                                     const dnnl_graph_logical_tensor_t **out, dnnl_engine_t engine,
                                     int threads) {
    within_library++;
    dnnl_status_t status =
        __real_tn_shim_compile(partition, compiled, in_count, in, out_count, out, engine, threads);
    within_library--;
    return status;
}

dnnl_status_t __wrap_tn_shim_execute(dnnl_graph_compiled_partition_t compiled, dnnl_stream_t stream,
                                     size_t in_count, const_dnnl_graph_tensor_t *in,
                                     size_t out_count, const_dnnl_graph_tensor_t *out, int threads,
                                     uint64_t kind) {
    within_library++;
    dnnl_status_t status =
        __real_tn_shim_execute(compiled, stream, in_count, in, out_count, out, threads, kind);
    within_library--;
    return status;
}

#ifdef TEST_OWN_ALLOCATOR

/* ---- Whose allocation it is ---- */

typedef enum owner { OWN, LIBRARY, SPARED } owner;

enum { MOST_RANGES = 128 };
static struct {
    uintptr_t begin, end;
    owner owner;
} ranges[MOST_RANGES];
static int range_count;

/* GCC's OpenMP and the dynamic loader end the process when memory is out, and hwloc crashes; Check
 * is not tested. */
static int add_ranges(struct dl_phdr_info *info, size_t size, void *user) {
    static const char *const spared[] = {"libgomp",  "libomp",   "libhwloc",
                                         "ld-linux", "libcheck", "libsubunit"};
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
    owner who = *name ? LIBRARY : OWN;
    (void)size, (void)user;
    for (size_t i = 0; i < sizeof spared / sizeof *spared; i++)
        if (strncmp(name, spared[i], strlen(spared[i])) == 0)
            who = SPARED;
    for (int i = 0; i < info->dlpi_phnum && range_count < MOST_RANGES; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t begin = (uintptr_t)info->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        ranges[range_count].begin = begin;
        ranges[range_count].end = begin + part->p_memsz;
        ranges[range_count++].owner = who;
    }
    return 0;
}

static owner owner_of(const void *caller) {
    uintptr_t at = (uintptr_t)caller;
    for (int i = 0; i < range_count; i++)
        if (at >= ranges[i].begin && at < ranges[i].end)
            return ranges[i].owner;
    return LIBRARY;
}

static bool fails_for(const void *caller) {
    if (!atomic_load(&faults_counted))
        return false;
    owner who = owner_of(caller);
    if (who == OWN)
        atomic_fetch_add(&allocations_of_own, 1);
    if (who == SPARED || (who == LIBRARY && within_library) || !fails_now())
        return false;
    errno = ENOMEM;
    return true;
}

/* ---- Blocks that were allocated while that is counted: a table by address ---- */

enum { SLOTS = 1 << 18 };
static struct {
    void *block;
    const void *caller;
} held_blocks[SLOTS];
static atomic_long held;
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
#define GONE ((void *)held_blocks) /* so that longer chains stay whole */

static size_t slot_of(const void *block) {
    return (size_t)(((uintptr_t)block >> 4) * 2654435761u) % SLOTS;
}

static void *keep(void *block, const void *caller) {
    if (!block || !atomic_load(&faults_counted) || owner_of(caller) != OWN)
        return block;
    pthread_mutex_lock(&held_lock);
    size_t i = slot_of(block);
    while (held_blocks[i].block && held_blocks[i].block != GONE)
        i = (i + 1) % SLOTS;
    held_blocks[i].block = block;
    held_blocks[i].caller = caller;
    held++;
    pthread_mutex_unlock(&held_lock);
    return block;
}

static void forget(const void *block) {
    if (!block || held == 0)
        return;
    pthread_mutex_lock(&held_lock);
    for (size_t i = slot_of(block); held_blocks[i].block; i = (i + 1) % SLOTS)
        if (held_blocks[i].block == block) {
            held_blocks[i].block = GONE;
            held--;
            break;
        }
    pthread_mutex_unlock(&held_lock);
}

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

#define CALLER __builtin_return_address(0)

void *malloc(size_t size) {
    return fails_for(CALLER) ? NULL : keep(__libc_malloc(size), CALLER);
}

void *calloc(size_t count, size_t size) {
    return fails_for(CALLER) ? NULL : keep(__libc_calloc(count, size), CALLER);
}

void *realloc(void *block, size_t size) {
    if (fails_for(CALLER))
        return NULL;
    forget(block);
    return keep(__libc_realloc(block, size), CALLER);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return fails_for(CALLER) ? NULL : keep(__libc_memalign(alignment, size), CALLER);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    void *block = fails_for(CALLER) ? NULL : keep(__libc_memalign(alignment, size), CALLER);
    if (!block)
        return ENOMEM;
    *out = block;
    return 0;
}

char *strndup(const char *text, size_t size) {
    size_t length = strnlen(text, size);
    char *copy = fails_for(CALLER) ? NULL : keep(__libc_malloc(length + 1), CALLER);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

char *strdup(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = fails_for(CALLER) ? NULL : keep(__libc_malloc(size), CALLER);
    return copy ? memcpy(copy, text, size) : NULL;
}

void free(void *block) {
    int error = errno;
    forget(block);
    __libc_free(block);
    errno = error;
}

static void start_counting(long n) {
    if (range_count == 0)
        dl_iterate_phdr(add_ranges, NULL);
    memset(held_blocks, 0, sizeof held_blocks);
    held = fault_points = allocations_of_own = 0;
    fault_at = n;
    faults_counted = true;
}

/* Where the first block of those that are left was allocated: an address for addr2line. */
static const void *first_held(void) {
    Dl_info info;
    for (size_t i = 0; i < SLOTS; i++)
        if (held_blocks[i].block && held_blocks[i].block != GONE)
            return dladdr(held_blocks[i].caller, &info)
                       ? (const void *)((uintptr_t)held_blocks[i].caller -
                                        (uintptr_t)info.dli_fbase)
                       : held_blocks[i].caller;
    return NULL;
}

#else

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *data, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *data, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);

static const long held = 0;

static bool own_fails(void) {
    if (faults_counted)
        atomic_fetch_add(&allocations_of_own, 1);
    if (!fails_now())
        return false;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size) {
    return own_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return own_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *data, size_t size) {
    return own_fails() ? NULL : __real_realloc(data, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return own_fails() ? NULL : __real_aligned_alloc(alignment, size);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
    return own_fails() ? ENOMEM : __real_posix_memalign(out, alignment, size);
}

char *__wrap_strdup(const char *text) {
    return own_fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size) {
    return own_fails() ? NULL : __real_strndup(text, size);
}

static void start_counting(long n) {
    fault_points = allocations_of_own = 0;
    fault_at = n;
    faults_counted = true;
}

static const void *first_held(void) {
    return NULL;
}

#endif

static void stop_counting(void) {
    faults_counted = false;
    fault_at = -1;
}

/* ---- Sweeps ---- */

/* A life makes something, uses it and takes it apart. It returns the status of the first call that
 * fails, and INTERNAL when all went well but for the results. It must not assert: Check allocates
 * for that. */
typedef struct life {
    const char *name;
    tenon_status (*live)(const void *user);
    const void *user;
    int most;   /* points in the short form, spread evenly; 0: 400 */
    int needed; /* per cent of the points that must fail the life; the others it does without */
    bool keeps; /* blocks may stay: what is cached for the process */
    void (*check)(void); /* after each life, with asserts; may be NULL */
} life;

/* With one allocation failing at a time, in turn: the life fails with OUT_OF_MEMORY and a message,
 * or it does without; nothing leaks; and later lives go well. The short form takes every k-th
 * point, the long one (TENON_SWEEP=full in the environment) all. */
static inline void sweep_life(const life *l) {
    const char *form = getenv("TENON_SWEEP");
    bool full = form && strcmp(form, "full") == 0;
    long swept = 0, failures = 0, most = l->most ? l->most : 400;
    for (int i = 0; i < 2; i++) { /* what is made once a process is made */
        tenon_status status = l->live(l->user);
        ck_assert_msg(status == TENON_OK, "%s: %s", l->name, tenon_last_error());
    }
    start_counting(-1);
    tenon_status status = l->live(l->user);
    long count = fault_points;
    stop_counting();
    ck_assert_msg(status == TENON_OK, "%s: %s", l->name, tenon_last_error());
    ck_assert_msg(count > 0, "%s allocates nothing", l->name);
    ck_assert_msg(l->keeps || held == 0, "%s: %ld blocks leak, one made at %p", l->name, (long)held,
                  first_held());
    long stride = full || count <= most ? 1 : (count + most - 1) / most;
    for (long n = 0; n < count; n += stride, swept++) {
        char message[512];
        (void)tenon_fail(TENON_INTERNAL, "%s", "");
        start_counting(n);
        status = l->live(l->user);
        stop_counting();
        snprintf(message, sizeof message, "%s", tenon_last_error());
        if (status != TENON_OK) {
            failures++;
            ck_assert_msg(status == TENON_OUT_OF_MEMORY, "%s, allocation %ld: %s: %s", l->name, n,
                          tenon_status_text(status), message);
            ck_assert_msg(*message, "%s, allocation %ld: no message", l->name, n);
        }
        ck_assert_msg(l->keeps || held == 0, "%s, allocation %ld: %ld blocks leak, one made at %p",
                      l->name, n, (long)held, first_held());
        if (l->check)
            l->check();
        if (swept % 16 == 0) {
            status = l->live(l->user);
            ck_assert_msg(status == TENON_OK, "%s, after allocation %ld had failed: %s", l->name, n,
                          tenon_last_error());
        }
    }
    status = l->live(l->user);
    ck_assert_msg(status == TENON_OK, "%s: %s", l->name, tenon_last_error());
    printf("sweep %s: %ld of %ld points, of which %ld fail it\n", l->name, swept, count, failures);
    fflush(stdout);
    ck_assert_int_gt(swept, 0);
    ck_assert_msg(failures * 100 >= swept * l->needed && failures > 0,
                  "%s: only %ld of %ld points fail it", l->name, failures, swept);
}

#endif
