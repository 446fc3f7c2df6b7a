/* Each thread writes into a log of its own, under a lock that only the collecting thread ever
 * contends for. */
#include "core/profile.h"
#include "core/fail.h"
#include <assert.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_FRAMES 48
#define RECORDING (TN_PROFILE_EVENTS | TN_PROFILE_MEMORY | TN_PROFILE_STACK)

atomic_uint tn_profile_flags;
_Atomic(tn_profile_observer) tn_profile_observe;

typedef struct thread_log {
    pthread_mutex_t lock;
    tn_thread_events *now; /* NULL: nothing since it was collected last */
    int32_t event_capacity, change_capacity, held_capacity;
    int32_t open;       /* the innermost open event, or -1 */
    uint32_t recording; /* another one for each log and each time it is collected; not 0 */
    int64_t thread;
    bool dead; /* its thread has ended */
    struct thread_log *next;
} thread_log;

static pthread_mutex_t logs_lock = PTHREAD_MUTEX_INITIALIZER; /* before the lock of a log */
static thread_log *logs;
static atomic_uint last_recording;
static _Atomic int64_t clock_offset;
static _Thread_local thread_log *mine;
static pthread_key_t key;
static bool prepared; /* there is a key, and forks are seen to */
static pthread_once_t once = PTHREAD_ONCE_INIT;

int64_t tn_profile_now(void) {
    return tn_clock_ns() + atomic_load_explicit(&clock_offset, memory_order_relaxed);
}

/* ---- Logs ---- */

static uint32_t new_recording(void) {
    uint32_t number;
    do
        number = atomic_fetch_add(&last_recording, 1) + 1;
    while (number == 0);
    return number;
}

static void free_log(thread_log *log) {
    pthread_mutex_destroy(&log->lock);
    free(log);
}

/* A thread ends: what it recorded stays until it is collected. */
static void thread_ends(void *user) {
    thread_log *log = user;
    mine = NULL;
    pthread_mutex_lock(&logs_lock);
    log->dead = true;
    if (!log->now) {
        thread_log **link = &logs;
        while (*link != log)
            link = &(*link)->next;
        *link = log->next;
        free_log(log);
    }
    pthread_mutex_unlock(&logs_lock);
}

static void before_fork(void) {
    pthread_mutex_lock(&logs_lock);
    for (thread_log *log = logs; log; log = log->next)
        pthread_mutex_lock(&log->lock);
}

static void after_fork(void) {
    for (thread_log *log = logs; log; log = log->next)
        pthread_mutex_unlock(&log->lock);
    pthread_mutex_unlock(&logs_lock);
}

/* The other threads are gone, and nothing records any more: nobody might ever collect it. */
static void after_fork_in_child(void) {
    atomic_store(&tn_profile_flags, 0);
    for (thread_log *log = logs; log; log = log->next)
        log->dead = log != mine;
    if (mine)
        mine->thread = (int64_t)syscall(SYS_gettid);
    after_fork();
}

static void prepare_process(void) {
    prepared = pthread_key_create(&key, thread_ends) == 0 &&
               pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0;
}

static thread_log *my_log(void) {
    if (mine)
        return mine;
    thread_log *log = calloc(1, sizeof *log);
    if (!log)
        return NULL;
    pthread_once(&once, prepare_process);
    if (!prepared || pthread_setspecific(key, log) != 0) {
        free(log);
        return NULL;
    }
    pthread_mutex_init(&log->lock, NULL);
    log->thread = (int64_t)syscall(SYS_gettid);
    log->open = -1;
    log->recording = new_recording();
    pthread_mutex_lock(&logs_lock);
    log->next = logs;
    logs = log;
    pthread_mutex_unlock(&logs_lock);
    return mine = log;
}

/* The thread's log, locked, with room for what happens now, when something records; NULL
 * otherwise. */
static thread_log *open_log(void) {
    thread_log *log = my_log();
    if (!log)
        return NULL;
    pthread_mutex_lock(&log->lock);
    if (tn_profile_on(RECORDING)) {
        if (!log->now && (log->now = calloc(1, sizeof *log->now)) != NULL)
            log->now->thread = log->thread;
        if (log->now)
            return log;
    }
    pthread_mutex_unlock(&log->lock);
    return NULL;
}

void *tn_profile_borrow(void) {
    return tn_profile_on(RECORDING) ? my_log() : NULL;
}

void tn_profile_lend(void *log) {
    mine = log;
}

/* Room for one more item. */
static bool grow(void *array, int32_t count, int32_t *capacity, size_t size) {
    if (count < *capacity)
        return true;
    int32_t bigger = *capacity <= INT32_MAX / 2 ? *capacity * 2 : INT32_MAX;
    if (bigger == 0)
        bigger = 256;
    void *data = count < bigger ? realloc(*(void **)array, (size_t)bigger * size) : NULL;
    if (!data)
        return false;
    *(void **)array = data;
    *capacity = bigger;
    return true;
}

/* ---- Events ---- */

static void take_frames(thread_log *log, tn_event *event) {
    void *frames[MAX_FRAMES];
    int count = backtrace(frames, MAX_FRAMES), skipped = 2; /* this one and its caller */
    if (count <= skipped)
        return;
    event->frames =
        tn_arena_array(&log->now->arena, (size_t)(count - skipped), sizeof *event->frames);
    if (!event->frames)
        return;
    memcpy(event->frames, frames + skipped, (size_t)(count - skipped) * sizeof *frames);
    event->frame_count = count - skipped;
}

tn_profile_token tn_profile_begin(tenon_event_kind kind, const char *name, const void *subject,
                                  int32_t index) {
    tn_profile_token token = {0};
    thread_log *log = open_log();
    if (!log)
        return token;
    tn_thread_events *now = log->now;
    /* The name of a step is its plan's, which is held. */
    bool keep = subject && kind <= TENON_EVENT_COPY;
    const char *copy = keep ? name : tn_arena_strdup(&now->arena, name ? name : "");
    if (copy && grow(&now->events, now->event_count, &log->event_capacity, sizeof *now->events)) {
        tn_event *event = &now->events[now->event_count];
        *event = (tn_event){
            .name = copy, .subject = subject, .index = index, .parent = log->open, .kind = kind};
        token = (tn_profile_token){log->recording, now->event_count};
        log->open = now->event_count++;
        if (tn_profile_on(TN_PROFILE_STACK) && kind >= TENON_EVENT_RUN)
            take_frames(log, event);
        event->begin = tn_profile_now();
    } else {
        now->lost++;
    }
    pthread_mutex_unlock(&log->lock);
    return token;
}

tn_profile_token tn_profile_begin_named(tenon_event_kind kind, const char *what, const char *name) {
    char text[512];
    snprintf(text, sizeof text, "%s: %s", what, name);
    return tn_profile_begin(kind, text, NULL, 0);
}

/* Ends the open events of a locked log from `index` on: an event and what is open within it. */
static void end_open(thread_log *log, int32_t index) {
    int64_t end = tn_profile_now();
    for (int32_t at = log->open; at >= index; at = log->open) {
        log->now->events[at].end = end;
        log->open = log->now->events[at].parent;
    }
}

/* When the token is of this log as it is now. */
static bool end_in(thread_log *log, tn_profile_token token) {
    pthread_mutex_lock(&log->lock);
    bool right = log->recording == token.recording;
    if (right && log->now->events[token.index].end == 0)
        end_open(log, token.index);
    pthread_mutex_unlock(&log->lock);
    return right;
}

void tn_profile_end(tn_profile_token token) {
    if (token.recording == 0 || (mine && end_in(mine, token)))
        return;
    /* Another thread's, or of a recording that was collected. */
    pthread_mutex_lock(&logs_lock);
    for (thread_log *log = logs; log; log = log->next)
        if (end_in(log, token))
            break;
    pthread_mutex_unlock(&logs_lock);
}

bool tn_profile_hold(void *object, void (*share)(void *object), void (*drop)(void *object)) {
    thread_log *log = open_log();
    if (!log)
        return false;
    tn_thread_events *now = log->now;
    bool held = false;
    for (int32_t i = now->held_count - 1; i >= 0 && !held; i--)
        held = now->held[i].object == object;
    if (!held && grow(&now->held, now->held_count, &log->held_capacity, sizeof *now->held)) {
        share(object);
        assert(now->held);
        now->held[now->held_count++] = (tn_held){object, drop};
        held = true;
    }
    now->lost += !held;
    pthread_mutex_unlock(&log->lock);
    return held;
}

void tn_profile_memory_changed(int64_t bytes) {
    thread_log *log = open_log();
    if (!log)
        return;
    tn_thread_events *now = log->now;
    if (grow(&now->changes, now->change_count, &log->change_capacity, sizeof *now->changes)) {
        assert(now->changes);
        now->changes[now->change_count++] = (tn_memory_change){tn_profile_now(), bytes, log->open};
    } else {
        now->lost++;
    }
    pthread_mutex_unlock(&log->lock);
}

/* ---- Starting and collecting ---- */

void tn_profile_start(unsigned flags) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    atomic_store(&clock_offset, (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - tn_clock_ns());
    atomic_fetch_or(&tn_profile_flags, flags);
}

/* Moves what a log holds, and leaves it empty. */
static tn_thread_events *take(thread_log *log) {
    pthread_mutex_lock(&log->lock);
    tn_thread_events *taken = log->now;
    if (taken)
        end_open(log, 0);
    log->now = NULL;
    log->event_capacity = log->change_capacity = log->held_capacity = 0;
    log->open = -1;
    log->recording = new_recording();
    pthread_mutex_unlock(&log->lock);
    return taken;
}

tn_thread_events *tn_profile_collect(void) {
    tn_thread_events *all = NULL;
    atomic_fetch_and(&tn_profile_flags, ~(unsigned)RECORDING);
    pthread_mutex_lock(&logs_lock);
    for (thread_log **link = &logs, *log; (log = *link) != NULL;) {
        tn_thread_events *taken = take(log);
        if (taken) {
            taken->next = all;
            all = taken;
        }
        if (log->dead) {
            *link = log->next;
            free_log(log);
        } else {
            link = &log->next;
        }
    }
    pthread_mutex_unlock(&logs_lock);
    return all;
}

void tn_profile_free(tn_thread_events **pointer) {
    for (tn_thread_events *events = *pointer, *next; events; events = next) {
        next = events->next;
        for (int32_t i = events->held_count - 1; i >= 0; i--)
            events->held[i].drop(events->held[i].object);
        free(events->events);
        free(events->changes);
        free(events->held);
        tn_arena_free(&events->arena);
        free(events);
    }
    *pointer = NULL;
}

/* ---- Ranges of the user ---- */

void tenon_record_function_begin(const char *name) {
    if (tn_profile_on(TN_PROFILE_EVENTS))
        tn_profile_begin(TENON_EVENT_USER, name, NULL, 0);
}

/* The innermost event, when it is a range: one that lies around a step or run in which this is
 * called has not ended. */
void tenon_record_function_end(void) {
    thread_log *log = mine;
    if (!tn_profile_on(TN_PROFILE_EVENTS) || !log)
        return;
    pthread_mutex_lock(&log->lock);
    if (log->open >= 0 && log->now->events[log->open].kind == TENON_EVENT_USER)
        end_open(log, log->open);
    pthread_mutex_unlock(&log->lock);
}
