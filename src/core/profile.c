/* Each thread writes into a log of its own, under a lock that only the collecting thread ever
 * contends for. */
#include "core/profile.h"
#include "core/fail.h"
#include <execinfo.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_FRAMES 48

atomic_uint tn_profile_flags;

typedef struct thread_log {
    pthread_mutex_t lock;
    tn_thread_events now;
    int32_t event_capacity, change_capacity, held_capacity;
    int32_t open; /* the innermost open event, or -1 */
    uint32_t recording;
    bool dead; /* its thread has ended */
    struct thread_log *next;
} thread_log;

static pthread_mutex_t logs_lock = PTHREAD_MUTEX_INITIALIZER;
static thread_log *logs;
static atomic_uint current; /* the number of the recording */
static _Atomic int64_t clock_offset;
static _Thread_local thread_log *mine;
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static int64_t monotonic(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t tn_profile_now(void) {
    return monotonic() + atomic_load_explicit(&clock_offset, memory_order_relaxed);
}

/* ---- Logs ---- */

static void free_log(thread_log *log) {
    tn_thread_events *events = malloc(sizeof *events);
    if (events) {
        *events = log->now;
        tn_profile_free(&events);
    }
    pthread_mutex_destroy(&log->lock);
    free(log);
}

/* A thread ends: what it recorded stays until it is collected. */
static void thread_ends(void *user) {
    thread_log *log = user;
    mine = NULL;
    pthread_mutex_lock(&logs_lock);
    log->dead = true;
    if (!tn_profile_on(~0u)) {
        thread_log **link = &logs;
        while (*link != log)
            link = &(*link)->next;
        *link = log->next;
        pthread_mutex_unlock(&logs_lock);
        free_log(log);
        return;
    }
    pthread_mutex_unlock(&logs_lock);
}

static void make_key(void) {
    pthread_key_create(&key, thread_ends);
}

static thread_log *my_log(void) {
    if (mine)
        return mine;
    thread_log *log = calloc(1, sizeof *log);
    if (!log)
        return NULL;
    pthread_once(&key_once, make_key);
    if (pthread_setspecific(key, log) != 0) {
        free(log);
        return NULL;
    }
    pthread_mutex_init(&log->lock, NULL);
    log->now.thread = (int64_t)syscall(SYS_gettid);
    log->open = -1;
    pthread_mutex_lock(&logs_lock);
    log->next = logs;
    logs = log;
    pthread_mutex_unlock(&logs_lock);
    return mine = log;
}

/* The thread's log, locked, when something records; NULL otherwise. */
static thread_log *open_log(void) {
    thread_log *log = my_log();
    if (!log)
        return NULL;
    pthread_mutex_lock(&log->lock);
    if (tn_profile_on(~0u)) {
        log->recording = atomic_load(&current);
        return log;
    }
    pthread_mutex_unlock(&log->lock);
    return NULL;
}

void *tn_profile_borrow(void) {
    return tn_profile_on(~0u) ? my_log() : NULL;
}

void tn_profile_lend(void *log) {
    mine = log;
}

/* Room for one more item. */
static bool grow(void *array, int32_t count, int32_t *capacity, size_t size) {
    if (count < *capacity)
        return true;
    int32_t bigger = *capacity ? *capacity * 2 : 256;
    void *data = bigger > 0 ? realloc(*(void **)array, (size_t)bigger * size) : NULL;
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
        tn_arena_array(&log->now.arena, (size_t)(count - skipped), sizeof *event->frames);
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
    tn_thread_events *now = &log->now;
    /* The name of a step is its plan's, which is held. */
    bool keep = subject && kind <= TENON_EVENT_COPY;
    const char *copy = keep ? name : tn_arena_strdup(&now->arena, name);
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

void tn_profile_end(tn_profile_token token) {
    if (token.recording == 0 || !mine)
        return;
    int64_t end = tn_profile_now();
    pthread_mutex_lock(&mine->lock);
    if (mine->recording == token.recording && token.index < mine->now.event_count) {
        tn_event *event = &mine->now.events[token.index];
        event->end = end;
        mine->open = event->parent;
    }
    pthread_mutex_unlock(&mine->lock);
}

void tn_profile_end_kind(tenon_event_kind kind) {
    if (!mine)
        return;
    tn_profile_token token = {0};
    pthread_mutex_lock(&mine->lock);
    int32_t at = mine->open;
    while (at >= 0 && mine->now.events[at].kind != kind)
        at = mine->now.events[at].parent;
    if (at >= 0)
        token = (tn_profile_token){mine->recording, at};
    pthread_mutex_unlock(&mine->lock);
    tn_profile_end(token);
}

void tn_profile_hold(void *object, void (*share)(void *object), void (*drop)(void *object)) {
    thread_log *log = open_log();
    if (!log)
        return;
    tn_thread_events *now = &log->now;
    bool held = false;
    for (int32_t i = now->held_count - 1; i >= 0 && !held; i--)
        held = now->held[i].object == object;
    if (!held && grow(&now->held, now->held_count, &log->held_capacity, sizeof *now->held)) {
        share(object);
        now->held[now->held_count++] = (tn_held){object, drop};
    }
    pthread_mutex_unlock(&log->lock);
}

void tn_profile_memory_changed(int64_t bytes) {
    thread_log *log = open_log();
    if (!log)
        return;
    tn_thread_events *now = &log->now;
    if (grow(&now->changes, now->change_count, &log->change_capacity, sizeof *now->changes))
        now->changes[now->change_count++] = (tn_memory_change){tn_profile_now(), bytes, log->open};
    else
        now->lost++;
    pthread_mutex_unlock(&log->lock);
}

/* ---- Starting and collecting ---- */

void tn_profile_start(unsigned flags) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    atomic_store(&clock_offset, (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - monotonic());
    if (atomic_fetch_add(&current, 1) + 1 == 0)
        atomic_store(&current, 1); /* 0 is no recording */
    atomic_store(&tn_profile_flags, flags);
}

/* Moves what a log holds, and leaves it empty. */
static tn_thread_events *take(thread_log *log, int64_t end) {
    tn_thread_events *taken = NULL;
    pthread_mutex_lock(&log->lock);
    if (log->now.event_count + log->now.change_count + log->now.held_count > 0)
        taken = malloc(sizeof *taken);
    if (taken) {
        *taken = log->now;
        for (int32_t i = 0; i < taken->event_count; i++)
            if (taken->events[i].end == 0)
                taken->events[i].end = end;
        log->now = (tn_thread_events){.thread = taken->thread};
        log->event_capacity = log->change_capacity = log->held_capacity = 0;
    }
    log->open = -1;
    log->recording = 0;
    pthread_mutex_unlock(&log->lock);
    return taken;
}

tn_thread_events *tn_profile_collect(void) {
    tn_thread_events *all = NULL;
    atomic_store(&tn_profile_flags, 0);
    int64_t end = tn_profile_now();
    pthread_mutex_lock(&logs_lock);
    for (thread_log **link = &logs, *log; (log = *link) != NULL;) {
        tn_thread_events *taken = take(log, end);
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

void tenon_record_function_end(void) {
    if (tn_profile_on(TN_PROFILE_EVENTS))
        tn_profile_end_kind(TENON_EVENT_USER);
}
