/* The profiler's insides: its state, and what a recording became. */
#ifndef TN_PROFILER_H
#define TN_PROFILER_H

#include "core/profile.h"
#include <tenon/profiler.h>

/* One recording. Immutable once made. */
typedef struct tn_trace {
    tn_thread_events *threads;   /* what was recorded: names, plans and sessions live in it */
    tenon_event *events;         /* in the order of `threads` and of their events */
    tenon_memory_event *changes; /* by time */
    int event_count, change_count;
    int64_t lost; /* events for which memory was out */
    int64_t start_ns, end_ns;
    tn_arena arena; /* of texts */
} tn_trace;

typedef struct tn_metadata {
    char *key, *json;
    struct tn_metadata *next;
} tn_metadata;

struct tenon_profiler {
    tenon_profiler_options options;
    tenon_profiler_schedule schedule; /* of options.schedule */
    bool running, recording;
    bool doomed;  /* destroyed while it called */
    bool calling; /* on_trace_ready, or the schedule */
    bool steps;   /* they are marked in the trace */
    int64_t step;
    tenon_profiler_action action;
    tn_profile_token step_event;
    int64_t start_ns; /* of the recording */
    tn_trace *trace;  /* the last one; NULL before */
    tn_metadata *metadata;
};

/* Makes a trace of what threads recorded, which it takes over, also on failure. */
tenon_status tn_trace_create(const tenon_profiler_options *options, tn_thread_events *threads,
                             int64_t start_ns, tn_trace **out);
void tn_trace_destroy(tn_trace **trace);

/* "ONEDNN" and so on, in lower case with '_', as traces name categories. */
const char *tn_event_kind_text(tenon_event_kind kind);

/* Whether traces have a field of that name in their head, which metadata must not take. */
bool tn_trace_has_field(const char *key);

/* INVALID_ARGUMENT when there is no recording to export. */
tenon_status tn_check_recorded(const tenon_profiler *profiler);

#endif
