/* Starting, stepping and stopping. */
#include "profiler/profiler.h"
#include "core/fail.h"
#include "profiler/writer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(tenon_profiler *) active; /* the one that runs */

/* ---- Schedules ---- */

typedef struct schedule_number {
    const char *name;
    int64_t value, min;
} schedule_number;

/* The number that is wrong; name NULL when all are right. */
static schedule_number wrong_number(const tenon_profiler_schedule *s) {
    const schedule_number numbers[] = {{"skip_first", s->skip_first, 0},
                                       {"wait", s->wait, 0},
                                       {"warmup", s->warmup, 0},
                                       {"active", s->active, 1},
                                       {"repeat", s->repeat, 0}};
    for (int i = 0; i < TN_COUNT(numbers); i++)
        if (numbers[i].value < numbers[i].min || numbers[i].value > INT32_MAX)
            return numbers[i];
    return (schedule_number){0};
}

static tenon_status check_schedule(const tenon_profiler_schedule *s) {
    schedule_number wrong = wrong_number(s);
    return wrong.name
               ? tn_fail(TENON_INVALID_ARGUMENT, "profiler schedule: %s is %lld, not %lld to %d",
                         wrong.name, (long long)wrong.value, (long long)wrong.min, INT32_MAX)
               : TENON_OK;
}

tenon_profiler_action tenon_profiler_schedule_action(const tenon_profiler_schedule *s,
                                                     int64_t step) {
    if (!s || step < s->skip_first || wrong_number(s).name)
        return TENON_PROFILER_NONE;
    uint64_t wait = (uint64_t)s->wait, warmup = (uint64_t)s->warmup;
    uint64_t cycle = wait + warmup + (uint64_t)s->active;
    uint64_t from = (uint64_t)(step - s->skip_first) + (s->skip_first_wait ? wait : 0);
    uint64_t at = from % cycle;
    if (s->repeat > 0 && from / cycle >= (uint64_t)s->repeat)
        return TENON_PROFILER_NONE;
    return at < wait            ? TENON_PROFILER_NONE
           : at < wait + warmup ? TENON_PROFILER_WARMUP
           : at < cycle - 1     ? TENON_PROFILER_RECORD
                                : TENON_PROFILER_RECORD_AND_SAVE;
}

static tenon_profiler_action action_of(tenon_profiler *p, int64_t step) {
    if (p->options.schedule_fn) {
        p->calling = true;
        tenon_profiler_action action = p->options.schedule_fn(step, p->options.schedule_user);
        p->calling = false;
        return action < TENON_PROFILER_NONE || action > TENON_PROFILER_RECORD_AND_SAVE
                   ? TENON_PROFILER_NONE
                   : action;
    }
    return p->options.schedule ? tenon_profiler_schedule_action(&p->schedule, step)
                               : TENON_PROFILER_RECORD;
}

/* ---- Making ---- */

tenon_status tenon_profiler_create(const tenon_profiler_options *options, tenon_profiler **out) {
    const tenon_profiler_options none = {0};
    if (!options)
        options = &none;
    if (options->schedule)
        TN_TRY(check_schedule(options->schedule));
    tenon_profiler *p = calloc(1, sizeof *p);
    if (!p)
        return tn_no_memory();
    p->options = *options;
    if (options->schedule) {
        p->schedule = *options->schedule;
        p->options.schedule = &p->schedule;
    }
    p->steps = options->schedule || options->schedule_fn;
    *out = p;
    return TENON_OK;
}

void tenon_profiler_destroy(tenon_profiler **pointer) {
    tenon_profiler *p = *pointer;
    *pointer = NULL;
    if (!p)
        return;
    if (p->calling) { /* by a function of the user's: it goes when that has returned */
        p->doomed = true;
        return;
    }
    if (p->running) {
        tn_thread_events *threads = tn_profile_collect();
        tn_profile_free(&threads);
        atomic_store(&active, NULL);
    }
    tn_trace_destroy(&p->trace);
    while (p->metadata) {
        tn_metadata *next = p->metadata->next;
        free(p->metadata->key);
        free(p->metadata->json);
        free(p->metadata);
        p->metadata = next;
    }
    free(p);
}

/* ---- Recording ---- */

/* Warming up records too, so that the first step that counts finds everything made. */
static void begin_recording(tenon_profiler *p) {
    unsigned flags = TN_PROFILE_EVENTS;
    if (p->options.profile_memory)
        flags |= TN_PROFILE_MEMORY;
    if (p->options.with_stack)
        flags |= TN_PROFILE_STACK;
    if (p->recording) {
        tn_thread_events *threads = tn_profile_collect();
        tn_profile_free(&threads);
    }
    p->recording = true;
    tn_profile_start(flags);
    p->start_ns = tn_profile_now();
}

/* `keep`: what was recorded becomes the trace. */
static tenon_status end_recording(tenon_profiler *p, bool keep) {
    if (!p->recording)
        return TENON_OK;
    tn_trace *trace = NULL;
    p->recording = false;
    tn_thread_events *threads = tn_profile_collect();
    if (!keep) {
        tn_profile_free(&threads);
        return TENON_OK;
    }
    TN_TRY(tn_trace_create(&p->options, threads, p->start_ns, &trace));
    tn_trace_destroy(&p->trace);
    p->trace = trace;
    return TENON_OK;
}

static bool records(tenon_profiler_action action) {
    return action == TENON_PROFILER_RECORD || action == TENON_PROFILER_RECORD_AND_SAVE;
}

/* From one action to the next, as torch.profiler does; `last`: there is no next. A failure to keep
 * what was recorded does not keep the next cycle from being recorded. */
static tenon_status go_on(tenon_profiler *p, tenon_profiler_action from, tenon_profiler_action to,
                          bool last) {
    /* A cycle ends, or the profiler stops in the middle of one. A schedule that breaks off
     * otherwise calls nobody. */
    bool save = records(from) && (last || from == TENON_PROFILER_RECORD_AND_SAVE);
    bool goes_on = !last && from == TENON_PROFILER_RECORD && records(to);
    tenon_status status = TENON_OK;
    if (goes_on || (!last && from == to && !records(from)))
        return TENON_OK;
    if (from != TENON_PROFILER_WARMUP || last || to == TENON_PROFILER_NONE)
        status = end_recording(p, records(from));
    if (save && status == TENON_OK && p->options.on_trace_ready) {
        p->calling = true;
        p->options.on_trace_ready(p, p->options.ready_user);
        p->calling = false;
    }
    if (!last && to != TENON_PROFILER_NONE)
        begin_recording(p);
    return status;
}

static void begin_step(tenon_profiler *p) {
    char name[64];
    p->step_event = (tn_profile_token){0};
    if (!p->steps || !p->recording)
        return;
    snprintf(name, sizeof name, "ProfilerStep#%lld", (long long)p->step);
    p->step_event = tn_profile_begin(TENON_EVENT_STEP, name, NULL, 0);
}

static tenon_status check_running(const tenon_profiler *p) {
    if (!p->running)
        return tn_fail(TENON_INVALID_ARGUMENT, "the profiler was not started");
    return p->calling ? tn_fail(TENON_INVALID_ARGUMENT,
                                "on_trace_ready and schedules may not step or stop the profiler")
                      : TENON_OK;
}

/* At the end of a call that called the user: the profiler may have been destroyed there. */
static tenon_status finish(tenon_profiler *p, tenon_status status) {
    if (p->doomed)
        tenon_profiler_destroy(&p);
    return status;
}

tenon_status tenon_profiler_start(tenon_profiler *p) {
    tenon_profiler *nobody = NULL;
    if (!atomic_compare_exchange_strong(&active, &nobody, p))
        return tn_fail(TENON_INVALID_ARGUMENT,
                       nobody == p ? "the profiler runs already" : "another profiler runs already");
    p->running = true;
    p->step = 0;
    p->action = action_of(p, 0);
    if (p->action != TENON_PROFILER_NONE)
        begin_recording(p);
    begin_step(p);
    return finish(p, TENON_OK);
}

tenon_status tenon_profiler_step(tenon_profiler *p) {
    TN_TRY(check_running(p));
    tn_profile_end(p->step_event);
    tenon_profiler_action before = p->action;
    p->step++;
    p->action = action_of(p, p->step);
    tenon_status status = go_on(p, before, p->action, false);
    begin_step(p);
    return finish(p, status);
}

tenon_status tenon_profiler_stop(tenon_profiler *p) {
    TN_TRY(check_running(p));
    tn_profile_end(p->step_event);
    tenon_status status = go_on(p, p->action, TENON_PROFILER_NONE, true);
    p->running = false;
    atomic_store(&active, NULL);
    return finish(p, status);
}

tenon_status tn_check_recorded(const tenon_profiler *p) {
    return p->trace ? TENON_OK
                    : tn_fail(TENON_INVALID_ARGUMENT, "the profiler has recorded nothing");
}

int64_t tenon_profiler_step_num(const tenon_profiler *p) {
    return p->step;
}

tenon_profiler_action tenon_profiler_current_action(const tenon_profiler *p) {
    return p->action;
}

/* ---- Metadata ---- */

/* Takes over `json`. A key that is there already gets the new value. */
static tenon_status add_metadata(tenon_profiler *p, const char *key, char *json) {
    if (!json)
        return tn_no_memory();
    if (tn_trace_has_field(key)) {
        free(json);
        return tn_fail(TENON_INVALID_ARGUMENT, "metadata '%s': traces have that field already",
                       key);
    }
    tn_metadata **link = &p->metadata;
    while (*link && strcmp((*link)->key, key) != 0)
        link = &(*link)->next;
    if (*link) {
        free((*link)->json);
        (*link)->json = json;
        return TENON_OK;
    }
    tn_metadata *made = calloc(1, sizeof *made);
    char *copy = strdup(key);
    if (!made || !copy) {
        free(made);
        free(copy);
        free(json);
        return tn_no_memory();
    }
    *made = (tn_metadata){copy, json, NULL};
    *link = made;
    return TENON_OK;
}

tenon_status tenon_profiler_add_metadata(tenon_profiler *p, const char *key, const char *value) {
    cJSON *item = cJSON_CreateString(value);
    char *printed = item ? cJSON_PrintUnformatted(item) : NULL;
    char *json = printed ? strdup(printed) : NULL;
    cJSON_free(printed);
    cJSON_Delete(item);
    return add_metadata(p, key, json);
}

tenon_status tenon_profiler_add_metadata_json(tenon_profiler *p, const char *key,
                                              const char *json) {
    if (!tn_json_valid(json))
        return tn_fail(TENON_INVALID_ARGUMENT, "metadata '%s': this is no JSON: %.60s", key, json);
    return add_metadata(p, key, strdup(json));
}
