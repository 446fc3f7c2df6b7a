/* Recording what runs. The profiler (src/profiler) starts and collects recordings; everything else
 * only marks where its events begin and end, which costs one branch when nothing records. */
#ifndef TN_PROFILE_H
#define TN_PROFILE_H

#include "core/util.h"
#include <stdatomic.h>
#include <tenon/profiler.h>

enum {
    TN_PROFILE_EVENTS = 1,
    TN_PROFILE_MEMORY = 2,
    TN_PROFILE_STACK = 4,
    TN_PROFILE_GRAPH = 8 /* steps are shown to tn_profile_observe */
};

extern atomic_uint tn_profile_flags; /* 0: nothing records */

static inline bool tn_profile_on(unsigned flags) {
    return (atomic_load_explicit(&tn_profile_flags, memory_order_relaxed) & flags) != 0;
}

/* An open event. */
typedef struct tn_profile_token {
    uint32_t recording; /* 0: none */
    int32_t index;
} tn_profile_token;

/* Begins an event on this thread. `name` is copied. `subject` and `index` say what it is about
 * (plans: the step); the subject must be held. Thread-safe. */
tn_profile_token tn_profile_begin(tenon_event_kind kind, const char *name, const void *subject,
                                  int32_t index);
/* The same for an event named "WHAT: name". */
tn_profile_token tn_profile_begin_named(tenon_event_kind kind, const char *what, const char *name);
/* Ends it, and what is still open within it. */
void tn_profile_end(tn_profile_token token);

/* Keeps `object` until the recording goes: `share` is called now, unless this thread's recording
 * holds it already, and `drop` later. False: it is not held. */
bool tn_profile_hold(void *object, void (*share)(void *object), void (*drop)(void *object));

/* Sees every step before it runs, while TN_PROFILE_GRAPH is on, and some time after. Called by many
 * threads at once; `instance` is a tn_instance. */
typedef void (*tn_profile_observer)(void *instance, int32_t step);
extern _Atomic(tn_profile_observer) tn_profile_observe;

/* A thread that works for another, which waits for it, records as that one: it calls
 * tn_profile_lend with what tn_profile_borrow gave there (NULL: nothing records). */
void *tn_profile_borrow(void);
void tn_profile_lend(void *log);

/* Bytes that were allocated, or released (below 0). */
void tn_profile_memory_changed(int64_t bytes);
static inline void tn_profile_memory(int64_t bytes) {
    if (tn_profile_on(TN_PROFILE_MEMORY))
        tn_profile_memory_changed(bytes);
}

/* ---- For the profiler ---- */

typedef struct tn_event {
    int64_t begin, end; /* nanoseconds since 1970; end 0: still open */
    const char *name;
    const void *subject;
    void **frames; /* the caller's, innermost first, as backtrace() gives them */
    int32_t frame_count;
    int32_t index;
    int32_t parent; /* among the thread's events, -1: none */
    tenon_event_kind kind;
} tn_event;

typedef struct tn_memory_change {
    int64_t time, bytes;
    int32_t event; /* the innermost one that was open, or -1 */
} tn_memory_change;

typedef struct tn_held {
    void *object;
    void (*drop)(void *object);
} tn_held;

/* What one thread recorded. */
typedef struct tn_thread_events {
    int64_t thread;
    tn_event *events;
    tn_memory_change *changes;
    tn_held *held;
    int32_t event_count, change_count, held_count;
    int64_t lost; /* events for which memory was out */
    tn_arena arena;
    struct tn_thread_events *next;
} tn_thread_events;

/* Begins a recording; the caller sees to it that none runs. */
void tn_profile_start(unsigned flags);
/* Ends it, and gives what each thread recorded, which the caller frees. Open events end now. */
tn_thread_events *tn_profile_collect(void);
void tn_profile_free(tn_thread_events **events);
/* Nanoseconds since 1970, from a clock that never steps back. */
int64_t tn_profile_now(void);

#endif
