/* Stacks with the time that was spent in each, in the form that flame graph tools read (Brendan
 * Gregg's "folded" stacks): "outermost;...;innermost N". */
#include "core/fail.h"
#include "profiler/profiler.h"
#include "profiler/writer.h"
#include <stdlib.h>
#include <string.h>

typedef struct stack {
    char *text; /* with ';' between its frames */
    int64_t ns, us;
} stack;

typedef struct folder {
    const tn_trace *trace;
    tn_map map; /* text to stack */
    stack **stacks;
    int count;
} folder;

/* ---- Frames ---- */

/* A frame, in which nothing can be taken for a border of frames or of the number: as PyTorch
 * does, each of those characters becomes '_'. */
static void add_frame(tn_text *out, const char *text, size_t length) {
    if (out->length)
        tn_text_put(out, ";", 1);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        tn_text_put(out, c <= ' ' || c == ';' || c == 0x7f ? "_" : text + i, 1);
    }
    if (length == 0)
        tn_text_put(out, "_", 1);
}

/* The last line of [text, end), which moves `end` before it. */
static const char *last_line(const char *text, const char **end, size_t *length) {
    const char *stop = *end, *start = stop;
    while (start > text && start[-1] != '\n')
        start--;
    *end = start > text ? start - 1 : NULL;
    *length = (size_t)(stop - start);
    return start;
}

/* What names the function in a line: of "program(function+0x12) [0x7f00]", as backtrace_symbols
 * writes C frames, the function, or without one "program(+0x12)" without folders; of others all. */
static const char *function_of(const char *line, size_t *length) {
    const char *bracket = memchr(line, '(', *length), *address = memrchr(line, '[', *length);
    if (!bracket || !address || address < bracket || strncmp(address, "[0x", 3) != 0)
        return line;
    size_t named = strcspn(bracket + 1, "+)");
    if (named > 0) {
        *length = named;
        return bracket + 1;
    }
    const char *last = memrchr(line, '/', (size_t)(bracket - line));
    line = last ? last + 1 : line;
    *length = (size_t)(address - line) - (address[-1] == ' ');
    return line;
}

/* The lines of an event's stack, outermost first, without those that it shares with the event that
 * it ran within, which stand there already, and without the innermost when it has the event's name.
 */
static void add_lines(tn_text *out, const char *inner, const char *outer, const char *name) {
    const char *inner_end = *inner ? inner + strlen(inner) : NULL;
    const char *outer_end = *outer ? outer + strlen(outer) : NULL;
    while (inner_end) {
        size_t length, known_length = 0;
        const char *line = last_line(inner, &inner_end, &length);
        line = function_of(line, &length);
        if (outer_end) {
            const char *known = last_line(outer, &outer_end, &known_length);
            known = function_of(known, &known_length);
            if (length == known_length && memcmp(line, known, length) == 0)
                continue;
            outer_end = NULL;
        }
        if (inner_end || length != strlen(name) || memcmp(line, name, length) != 0)
            add_frame(out, line, length);
    }
}

/* The path from the outermost frame to the event; `path` is room for its ancestors. */
static tenon_status fold(const tn_trace *trace, int index, int *path, char **out) {
    int depth = 0;
    tn_text text = {0};
    const char *outer = "";
    for (int at = index; at >= 0; at = trace->events[at].parent)
        path[depth++] = at;
    while (depth > 0) {
        const tenon_event *event = &trace->events[path[--depth]];
        add_lines(&text, event->stack, outer, event->name);
        add_frame(&text, event->name, strlen(event->name));
        if (*event->stack)
            outer = event->stack;
    }
    *out = text.failed ? NULL : tn_utf8(text.data);
    tn_text_free(&text);
    return *out ? TENON_OK : tn_no_memory();
}

/* ---- Sums ---- */

static tenon_status add_time(folder *f, char *text, int64_t ns) {
    stack *known = tn_map_get(&f->map, text);
    if (known) {
        free(text);
        known->ns += ns;
        return TENON_OK;
    }
    stack *made = malloc(sizeof *made);
    if (!made) {
        free(text);
        return tn_no_memory();
    }
    *made = (stack){text, ns, 0};
    f->stacks[f->count++] = made; /* frees it also when the map has no room */
    return tn_map_put(&f->map, text, made);
}

static tenon_status collect(folder *f, bool self) {
    const tn_trace *trace = f->trace;
    int *path = calloc((size_t)trace->event_count + 1, sizeof *path);
    f->stacks = calloc((size_t)trace->event_count + 1, sizeof *f->stacks);
    tenon_status status = path && f->stacks ? TENON_OK : tn_no_memory();
    for (int i = 0; i < trace->event_count && status == TENON_OK; i++) {
        const tenon_event *event = &trace->events[i];
        char *text;
        status = fold(trace, i, path, &text);
        if (status == TENON_OK)
            status = add_time(f, text, self ? event->self_ns : event->end_ns - event->start_ns);
    }
    free(path);
    return status;
}

static int by_remainder(const void *x, const void *y) {
    const stack *a = *(stack *const *)x, *b = *(stack *const *)y;
    int64_t left = a->ns % 1000, right = b->ns % 1000;
    return left != right ? (left < right ? 1 : -1) : strcmp(a->text, b->text);
}

static int by_text(const void *x, const void *y) {
    return strcmp((*(stack *const *)x)->text, (*(stack *const *)y)->text);
}

/* Microseconds that sum to the total's: all are rounded down, but those with the largest
 * remainders. */
static void round_times(folder *f) {
    int64_t total = 0, rounded = 0;
    for (int i = 0; i < f->count; i++) {
        total += f->stacks[i]->ns;
        rounded += f->stacks[i]->us = f->stacks[i]->ns / 1000;
    }
    qsort(f->stacks, (size_t)f->count, sizeof *f->stacks, by_remainder);
    int64_t missing = (total + 500) / 1000 - rounded;
    for (int i = 0; i < f->count && missing > 0; i++, missing--)
        f->stacks[i]->us++;
    qsort(f->stacks, (size_t)f->count, sizeof *f->stacks, by_text);
}

static tenon_status put_stacks(const folder *f, const char *path) {
    tn_writer w;
    TN_TRY(tn_writer_open(&w, path));
    for (int i = 0; i < f->count; i++)
        if (f->stacks[i]->us > 0)
            tn_writer_add(&w, "%s %lld\n", f->stacks[i]->text, (long long)f->stacks[i]->us);
    return tn_writer_close(&w, TENON_OK);
}

tenon_status tenon_profiler_export_stacks(const tenon_profiler *p, const char *path,
                                          const char *metric) {
    if (!metric)
        metric = "self_cpu_time_total";
    bool self = strcmp(metric, "self_cpu_time_total") == 0;
    if (!self && strcmp(metric, "cpu_time_total") != 0)
        return tn_fail(TENON_INVALID_ARGUMENT,
                       "export_stacks: there is no metric '%.60s', only 'self_cpu_time_total' and "
                       "'cpu_time_total'%s",
                       metric, strstr(metric, "cuda") ? ": Tenon runs on CPUs" : "");
    TN_TRY(tn_check_recorded(p));
    folder f = {.trace = p->trace};
    tenon_status status = collect(&f, self);
    if (status == TENON_OK) {
        round_times(&f);
        status = put_stacks(&f, path);
    }
    for (int i = 0; i < f.count; i++) {
        free(f.stacks[i]->text);
        free(f.stacks[i]);
    }
    free(f.stacks);
    tn_map_free(&f.map);
    return status;
}
