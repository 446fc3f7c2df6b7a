/* Events summed up. */
#include "profiler/averages.h"
#include "core/fail.h"
#include "profiler/profiler.h"
#include "run/plan.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct summing {
    const tn_trace *trace;
    tenon_averages *averages;
    tn_map rows; /* by key: its number, from 1 on */
    tn_text key;
    int *stack, depth; /* rows of the events that the present one is within */
    int *events;       /* these events */
} summing;

/* The first `lines` lines of a text. */
static size_t first_lines(const char *text, int lines) {
    const char *at = text;
    for (; lines > 0 && *at; lines--) {
        at += strcspn(at, "\n");
        if (lines > 1 && *at)
            at++;
    }
    return (size_t)(at - text);
}

/* Lengths keep parts apart, whatever they hold. */
static void add_part(tn_text *key, const char *text, size_t length) {
    tn_text_add(key, "%zu:", length);
    tn_text_put(key, text, length);
}

static char *copy_part(tn_arena *arena, const char *text, size_t length) {
    char *copy = tn_arena_alloc(arena, length + 1);
    if (copy)
        memcpy(copy, text, length);
    return copy;
}

static tenon_status new_row(summing *s, const tenon_event *event, const char *name,
                            size_t stack_length, int *out) {
    tenon_averages *a = s->averages;
    if (a->count == a->capacity) {
        int capacity = a->capacity ? a->capacity * 2 : 64;
        tn_average_row *rows = realloc(a->rows, (size_t)capacity * sizeof *rows);
        if (!rows)
            return tn_no_memory();
        a->rows = rows;
        a->capacity = capacity;
    }
    tn_average_row *row = &a->rows[a->count];
    *row = (tn_average_row){.top_level = event->parent < 0};
    row->sums.name = tn_arena_strdup(&a->arena, name);
    row->sums.shapes = tn_arena_strdup(&a->arena, a->groups.by_input_shape ? event->shapes : "");
    row->sums.module = tn_arena_strdup(&a->arena, a->groups.by_module ? event->module : "");
    row->sums.stack = copy_part(&a->arena, event->stack, stack_length);
    const char *key = copy_part(&a->arena, s->key.data, s->key.length);
    if (!row->sums.name || !row->sums.shapes || !row->sums.module || !row->sums.stack || !key)
        return tn_no_memory();
    TN_TRY(tn_map_put(&s->rows, key, (void *)(intptr_t)(a->count + 1)));
    *out = a->count++;
    return TENON_OK;
}

static tenon_status find_row(summing *s, const tenon_event *event, int *out) {
    const tenon_group_options *groups = &s->averages->groups;
    const char *name = event->kind == TENON_EVENT_STEP ? "ProfilerStep*" : event->name;
    size_t stack_length = first_lines(event->stack, groups->by_stack_n);
    s->key.length = 0;
    add_part(&s->key, name, strlen(name));
    tn_text_add(&s->key, event->kind == TENON_EVENT_USER ? "u" : "");
    if (groups->by_input_shape)
        add_part(&s->key, event->shapes, strlen(event->shapes));
    if (groups->by_module)
        add_part(&s->key, event->module, strlen(event->module));
    add_part(&s->key, event->stack, stack_length);
    if (s->key.failed)
        return tn_no_memory();
    int found = (int)(intptr_t)tn_map_get(&s->rows, s->key.data);
    if (found == 0)
        return new_row(s, event, name, stack_length, out);
    *out = found - 1;
    return TENON_OK;
}

/* Events come with those that they are within before them. */
static tenon_status add_event(summing *s, int index) {
    assert(s->trace);
    const tenon_event *event = &s->trace->events[index];
    int at = 0;
    TN_TRY(find_row(s, event, &at));
    while (s->depth > 0 && s->events[s->depth - 1] != event->parent)
        s->averages->rows[s->stack[--s->depth]].open--;
    tn_average_row *row = &s->averages->rows[at];
    row->sums.count++;
    row->sums.self_cpu_ns += event->self_ns;
    row->sums.self_memory += event->self_memory;
    row->sums.flops += event->flops;
    if (row->open == 0) {
        row->sums.cpu_ns += event->end_ns - event->start_ns;
        row->sums.memory += event->memory;
    }
    row->open++;
    s->events[s->depth] = index;
    s->stack[s->depth++] = at;
    return TENON_OK;
}

static bool is_perturbed(const tn_trace *trace) {
    for (const tn_thread_events *t = trace->threads; t; t = t->next)
        for (int32_t i = 0; i < t->event_count; i++) {
            const tn_event *event = &t->events[i];
            if (event->kind <= TENON_EVENT_COPY && event->subject &&
                ((const tn_plan *)event->subject)->split_ops)
                return true;
        }
    return false;
}

tenon_status tenon_profiler_key_averages(const tenon_profiler *p,
                                         const tenon_group_options *options, tenon_averages **out) {
    tenon_status status = TENON_OK;
    summing s = {.trace = p->trace};
    if (options && options->by_stack_n < 0)
        return tn_fail(TENON_INVALID_ARGUMENT, "group options: by_stack_n is %d, less than 0",
                       options->by_stack_n);
    tenon_averages *a = s.averages = calloc(1, sizeof *a);
    if (!a)
        return tn_no_memory();
    if (options)
        a->groups = *options;
    a->memory = p->options.profile_memory;
    a->flops = p->options.with_flops;
    a->perturbed = p->trace && is_perturbed(p->trace);
    int count = tenon_profiler_event_count(p);
    s.stack = malloc(((size_t)count + 1) * sizeof *s.stack);
    s.events = malloc(((size_t)count + 1) * sizeof *s.events);
    if (!s.stack || !s.events)
        status = tn_no_memory();
    for (int i = 0; i < count && status == TENON_OK; i++)
        status = add_event(&s, i);
    free(s.stack);
    free(s.events);
    tn_map_free(&s.rows);
    tn_text_free(&s.key);
    if (status == TENON_OK)
        *out = a;
    else
        tenon_averages_destroy(&a);
    return status;
}

void tenon_averages_destroy(tenon_averages **pointer) {
    tenon_averages *a = *pointer;
    *pointer = NULL;
    if (!a)
        return;
    free(a->rows);
    tn_arena_free(&a->arena);
    free(a);
}

int tenon_averages_count(const tenon_averages *a) {
    return a->count;
}

bool tenon_averages_get(const tenon_averages *a, int index, tenon_average *out) {
    if (index < 0 || index >= a->count)
        return false;
    *out = a->rows[index].sums;
    return true;
}

void tenon_averages_total(const tenon_averages *a, tenon_average *out) {
    tenon_average total = {.name = "Total", .shapes = "", .stack = "", .module = ""};
    for (int i = 0; i < a->count; i++) {
        const tenon_average *sums = &a->rows[i].sums;
        total.count += sums->count;
        total.self_cpu_ns += sums->self_cpu_ns;
        total.self_memory += sums->self_memory;
        total.flops += sums->flops;
    }
    total.cpu_ns = total.self_cpu_ns; /* what the outermost events took */
    total.memory = total.self_memory;
    *out = total;
}
