/* From what threads recorded to events with names, times, texts and memory. */
#include "core/fail.h"
#include "profiler/profiler.h"
#include "profiler/writer.h"
#include "run/plan.h"
#include <execinfo.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* What is told of the steps of one plan, each made when it is first met. */
typedef struct plan_texts {
    const tn_plan *plan;
    tenon_event *steps; /* by step; the fields that do not change; name NULL: not made yet */
} plan_texts;

/* A text that many events share, by what it was made of: the addresses of frames, or two texts. */
typedef struct shared_text {
    const void *key;
    size_t size;
    const char *text;    /* NULL: not made yet */
    const char *pair[2]; /* where the key of two texts lies */
} shared_text;

typedef struct collector {
    const tenon_profiler_options *options;
    tn_trace *trace;
    plan_texts *plans;
    int plan_count, plan_capacity;
    int plan;    /* the one that was met last */
    void *texts; /* tree of shared_text */
} collector;

const char *tn_event_kind_text(tenon_event_kind kind) {
    static const char *const texts[] = {
        [TENON_EVENT_ONEDNN] = "onednn",   [TENON_EVENT_KERNEL] = "kernel",
        [TENON_EVENT_COPY] = "copy",       [TENON_EVENT_RUN] = "run",
        [TENON_EVENT_COMPILE] = "compile", [TENON_EVENT_PASS] = "pass",
        [TENON_EVENT_LOAD] = "load",       [TENON_EVENT_USER] = "user_annotation",
        [TENON_EVENT_STEP] = "step"};
    return (unsigned)kind < TN_COUNT(texts) ? texts[kind] : "unknown";
}

/* ---- Texts ---- */

/* The text moves to the trace's arena. */
static tenon_status keep(tn_trace *trace, tn_text *text, const char **out) {
    char *copy = text->failed ? NULL : tn_arena_strdup(&trace->arena, text->data ? text->data : "");
    tn_text_free(text);
    if (!copy)
        return tn_no_memory();
    *out = copy;
    return TENON_OK;
}

static tenon_status describe_operands(tn_trace *trace, const tn_step *step, tenon_event *event) {
    tn_text shapes = {0}, strides = {0};
    char shape[256];
    for (int i = 0; i < step->in_count; i++) {
        const tenon_view *view = step->in[i].view;
        if (!view)
            continue;
        tn_text_add(&shapes, "%s%s", shapes.length ? ", " : "",
                    tn_shape_text(view->dtype, view->rank, view->shape, shape, sizeof shape));
        tn_text_add(&strides, "%s[", strides.length ? ", " : "");
        for (int d = 0; d < view->rank; d++)
            tn_text_add(&strides, "%s%lld", d ? ", " : "", (long long)view->strides[d]);
        tn_text_add(&strides, "]");
    }
    tenon_status status = keep(trace, &shapes, &event->shapes);
    tenon_status second = keep(trace, &strides, &event->strides);
    return status == TENON_OK ? second : status;
}

/* The trace of a Python stack, as archives carry it, turned so that the innermost call is first:
 * the pairs of lines "File ..., line N, in f" and the source line become one each. */
static void add_stack(tn_text *out, const char *stack) {
    const char *lines[256];
    int count = 0;
    for (const char *at = stack; at && *at && count < TN_COUNT(lines);) {
        const char *end = strchr(at, '\n');
        if (strncmp(at + strspn(at, " "), "File \"", 6) == 0)
            lines[count++] = at + strspn(at, " ");
        at = end ? end + 1 : NULL;
    }
    for (int i = count - 1; i >= 0; i--) {
        tn_text_add(out, "%s", out->length ? "\n" : "");
        tn_text_put(out, lines[i], strcspn(lines[i], "\n"));
    }
}

static tenon_status describe_step(collector *c, const tn_plan *plan, int32_t index,
                                  tenon_event *event) {
    const tn_step *step = &plan->steps[index];
    const tn_partition *partition = step->partition;
    event->nodes = partition ? (const tenon_node *const *)partition->nodes
                             : (const tenon_node *const *)&step->node;
    event->node_count = partition ? partition->node_count : 1;
    event->shapes = event->strides = event->module = event->stack = "";
    if (c->options->with_flops)
        for (int i = 0; i < event->node_count; i++)
            event->flops += tn_node_flops(event->nodes[i]);
    const tn_source *source = event->nodes[0]->source;
    if (source && (c->options->with_modules || c->options->with_stack))
        event->module = source->module_path;
    if (source && c->options->with_stack) {
        tn_text stack = {0};
        add_stack(&stack, source->stack_trace);
        TN_TRY(keep(c->trace, &stack, &event->stack));
    }
    return c->options->record_shapes ? describe_operands(c->trace, step, event) : TENON_OK;
}

static plan_texts *find_plan(collector *c, const tn_plan *plan) {
    if (c->plan_count > 0 && c->plans[c->plan].plan == plan)
        return &c->plans[c->plan];
    for (c->plan = c->plan_count - 1; c->plan >= 0; c->plan--)
        if (c->plans[c->plan].plan == plan)
            return &c->plans[c->plan];
    c->plan = 0;
    if (c->plan_count == c->plan_capacity) {
        int capacity = c->plan_capacity ? c->plan_capacity * 2 : 8;
        plan_texts *plans = realloc(c->plans, (size_t)capacity * sizeof *plans);
        if (!plans)
            return NULL;
        c->plans = plans;
        c->plan_capacity = capacity;
    }
    tenon_event *steps = calloc((size_t)plan->step_count + 1, sizeof *steps);
    if (!steps)
        return NULL;
    c->plan = c->plan_count++;
    c->plans[c->plan] = (plan_texts){plan, steps};
    return &c->plans[c->plan];
}

static int compare_keys(const void *x, const void *y) {
    const shared_text *a = x, *b = y;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return memcmp(a->key, b->key, a->size);
}

/* The text of that key, which must stay; NULL when memory is out. */
static shared_text *find_text(collector *c, const void *key, size_t size) {
    shared_text *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->key = key;
    made->size = size;
    shared_text **found = tsearch(made, &c->texts, compare_keys);
    if (!found || *found != made)
        free(made);
    return found ? *found : NULL;
}

static void free_texts(collector *c) {
    while (c->texts) {
        shared_text *text = *(shared_text **)c->texts;
        tdelete(text, &c->texts, compare_keys);
        free(text);
    }
}

/* The caller's C functions. */
static tenon_status describe_frames(collector *c, const tn_event *from, tenon_event *event) {
    tn_text stack = {0};
    shared_text *shared =
        find_text(c, from->frames, (size_t)from->frame_count * sizeof *from->frames);
    if (!shared)
        return tn_no_memory();
    if (shared->text) {
        event->stack = shared->text;
        return TENON_OK;
    }
    char **names = from->frame_count ? backtrace_symbols(from->frames, from->frame_count) : NULL;
    for (int i = 0; names && i < from->frame_count; i++)
        tn_text_add(&stack, "%s%s", i ? "\n" : "", names[i]);
    free(names);
    TN_TRY(keep(c->trace, &stack, &shared->text));
    event->stack = shared->text;
    return TENON_OK;
}

/* ---- Events ---- */

/* The name as valid UTF-8, since tables and files show it. */
static tenon_status clean_name(tn_trace *trace, const char *name, const char **out) {
    char *clean = tn_utf8(name);
    if (!clean)
        return tn_no_memory();
    *out = strcmp(clean, name) == 0 ? name : tn_arena_strdup(&trace->arena, clean);
    free(clean);
    return *out ? TENON_OK : tn_no_memory();
}

static tenon_status describe(collector *c, const tn_event *from, tenon_event *event) {
    event->shapes = event->strides = event->module = event->stack = "";
    if (from->kind <= TENON_EVENT_COPY && from->subject) {
        plan_texts *texts = find_plan(c, from->subject);
        if (!texts)
            return tn_no_memory();
        tenon_event *step = &texts->steps[from->index];
        if (!step->shapes)
            TN_TRY(describe_step(c, texts->plan, from->index, step));
        *event = *step;
    } else if (from->frame_count > 0) {
        TN_TRY(describe_frames(c, from, event));
    }
    if (from->kind <= TENON_EVENT_COPY) /* an operator's */
        event->name = from->name;
    else
        TN_TRY(clean_name(c->trace, from->name, &event->name));
    event->kind = from->kind;
    event->start_ns = from->begin;
    event->end_ns = from->end > from->begin ? from->end : from->begin;
    event->self_ns = event->end_ns - event->start_ns;
    return TENON_OK;
}

/* Two stacks as one, made once. */
static tenon_status join(collector *c, const char *inner, const char *outer, const char **out) {
    tn_text stack = {0};
    const char *const pair[2] = {inner, outer};
    shared_text *shared = find_text(c, pair, sizeof pair);
    if (!shared)
        return tn_no_memory();
    if (!shared->text) {
        memcpy(shared->pair, pair, sizeof pair);
        shared->key = shared->pair;
        tn_text_add(&stack, "%s%s%s", inner, *inner ? "\n" : "", outer);
        TN_TRY(keep(c->trace, &stack, &shared->text));
    }
    *out = shared->text;
    return TENON_OK;
}

/* A step's stack goes on with the caller's of the run that it is in. */
static tenon_status join_stacks(collector *c, int first, int count) {
    tenon_event *events = c->trace->events;
    for (int i = first; i < first + count; i++) {
        int at = events[i].parent;
        while (at >= 0 && !*events[at].stack)
            at = events[at].parent;
        if (events[i].kind > TENON_EVENT_COPY || at < 0)
            continue;
        TN_TRY(join(c, events[i].stack, events[at].stack, &events[i].stack));
    }
    return TENON_OK;
}

static tenon_status add_thread(collector *c, const tn_thread_events *thread) {
    tn_trace *trace = c->trace;
    int first = trace->event_count;
    for (int32_t i = 0; i < thread->event_count; i++) {
        const tn_event *from = &thread->events[i];
        tenon_event *event = &trace->events[first + i];
        TN_TRY(describe(c, from, event));
        event->thread = thread->thread;
        event->parent = from->parent < 0 ? -1 : first + from->parent;
        if (from->parent >= 0) {
            tenon_event *parent = &trace->events[event->parent];
            parent->child_count++;
            parent->self_ns -= event->end_ns - event->start_ns;
        }
        if (event->end_ns > trace->end_ns)
            trace->end_ns = event->end_ns;
    }
    for (int32_t i = 0; i < thread->change_count; i++) {
        const tn_memory_change *from = &thread->changes[i];
        int event = from->event < 0 ? -1 : first + from->event;
        if (event >= 0)
            trace->events[event].self_memory += from->bytes;
        trace->changes[trace->change_count] = (tenon_memory_event){
            from->time, thread->thread, from->bytes, trace->change_count, event};
        trace->change_count++;
    }
    trace->event_count += thread->event_count;
    trace->lost += thread->lost;
    return c->options->with_stack ? join_stacks(c, first, thread->event_count) : TENON_OK;
}

static int by_time(const void *x, const void *y) {
    const tenon_memory_event *a = x, *b = y;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return (a->total > b->total) - (a->total < b->total); /* the order of adding, for now */
}

/* Sums: an event's memory is its own and that of the events within it, which stand behind it. */
static void sum_up(tn_trace *trace) {
    int64_t total = 0;
    for (int i = 0; i < trace->event_count; i++)
        trace->events[i].memory += trace->events[i].self_memory;
    for (int i = trace->event_count - 1; i >= 0; i--)
        if (trace->events[i].parent >= 0)
            trace->events[trace->events[i].parent].memory += trace->events[i].memory;
    qsort(trace->changes, (size_t)trace->change_count, sizeof *trace->changes, by_time);
    for (int i = 0; i < trace->change_count; i++)
        trace->changes[i].total = total += trace->changes[i].bytes;
}

tenon_status tn_trace_create(const tenon_profiler_options *options, tn_thread_events *threads,
                             int64_t start_ns, tn_trace **out) {
    size_t events = 0, changes = 0;
    tenon_status status = TENON_OK;
    tn_trace *trace = calloc(1, sizeof *trace);
    if (!trace) {
        tn_profile_free(&threads);
        return tn_no_memory();
    }
    collector c = {.options = options, .trace = trace};
    *trace = (tn_trace){.threads = threads, .start_ns = start_ns, .end_ns = start_ns};
    for (const tn_thread_events *t = threads; t; t = t->next) {
        events += (size_t)t->event_count;
        changes += (size_t)t->change_count;
    }
    trace->events = calloc(events + 1, sizeof *trace->events);
    trace->changes = calloc(changes + 1, sizeof *trace->changes);
    if (!trace->events || !trace->changes || events > INT32_MAX || changes > INT32_MAX)
        status = tn_no_memory();
    for (const tn_thread_events *t = threads; t && status == TENON_OK; t = t->next)
        status = add_thread(&c, t);
    for (int i = 0; i < c.plan_count; i++)
        free(c.plans[i].steps);
    free(c.plans);
    free_texts(&c);
    if (status != TENON_OK) {
        tn_trace_destroy(&trace);
        return status;
    }
    sum_up(trace);
    *out = trace;
    return TENON_OK;
}

void tn_trace_destroy(tn_trace **pointer) {
    tn_trace *trace = *pointer;
    *pointer = NULL;
    if (!trace)
        return;
    free(trace->events);
    free(trace->changes);
    tn_arena_free(&trace->arena);
    tn_profile_free(&trace->threads);
    free(trace);
}

/* ---- Reading ---- */

int tenon_profiler_event_count(const tenon_profiler *p) {
    return p->trace ? p->trace->event_count : 0;
}

bool tenon_profiler_get_event(const tenon_profiler *p, int index, tenon_event *out) {
    if (index < 0 || index >= tenon_profiler_event_count(p))
        return false;
    *out = p->trace->events[index];
    return true;
}

int tenon_profiler_memory_count(const tenon_profiler *p) {
    return p->trace ? p->trace->change_count : 0;
}

bool tenon_profiler_get_memory(const tenon_profiler *p, int index, tenon_memory_event *out) {
    if (index < 0 || index >= tenon_profiler_memory_count(p))
        return false;
    *out = p->trace->changes[index];
    return true;
}
