/* The recording in Chrome's trace format, with the fields that PyTorch writes, and two of Tenon's:
 * a second track for each thread, on which the nodes of the model lie in the time of the steps that
 * ran them, and an arrow from each node to its step.
 *
 *     thread 7                 | Convolution+ReLU      | aten.mean |
 *                                ^               ^       ^
 *     thread 7: model nodes    | conv1         | relu1 | mean      |
 *
 * Format: "Trace Event Format", the Chromium project; PyTorch's fields as it writes them. */
#include "core/fail.h"
#include "profiler/averages.h"
#include "profiler/profiler.h"
#include "profiler/share.h"
#include "profiler/writer.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Linux numbers its threads below this; the tracks of nodes come after. */
#define NODE_TRACKS (1 << 24)
/* Large enough to come last. */
#define LAST_PROCESS (1 << 29)

typedef struct exporter {
    tn_writer writer;
    const tn_trace *trace;
    const tenon_profiler_options *options;
    int64_t base_ns; /* of the times that are written */
    int64_t arrows;
    int64_t *shares;
    int share_capacity;
    bool any; /* an event was written */
} exporter;

/* ---- Events ---- */

static cJSON *begin_event(exporter *x, const char *phase, const char *category, const char *name,
                          int64_t ns) {
    tn_writer *w = &x->writer;
    cJSON *made = cJSON_CreateObject();
    tn_json_add_text(w, made, "ph", phase);
    if (category)
        tn_json_add_text(w, made, "cat", category);
    tn_json_add_text(w, made, "name", name);
    tn_json_add_us(w, made, "ts", ns - x->base_ns);
    return made;
}

static cJSON *event(exporter *x, const char *phase, const char *category, const char *name,
                    int64_t thread, int64_t ns) {
    cJSON *made = begin_event(x, phase, category, name, ns);
    tn_json_add_int(&x->writer, made, "pid", getpid());
    tn_json_add_int(&x->writer, made, "tid", thread);
    return made;
}

static void emit(exporter *x, cJSON *made) {
    tn_writer_put(&x->writer, x->any ? ",\n" : "\n");
    tn_writer_json(&x->writer, made);
    x->any = true;
}

/* An event about a process or thread: its name, its place among others. */
static void emit_about(exporter *x, const char *what, int64_t thread, const char *key,
                       const char *text, int64_t number) {
    cJSON *made = event(x, "M", NULL, what, thread, x->trace->start_ns);
    cJSON *args = tn_json_add_object(&x->writer, made, "args");
    if (text)
        tn_json_add_text(&x->writer, args, key, text);
    else
        tn_json_add_int(&x->writer, args, key, number);
    emit(x, made);
}

/* ---- What a step read ---- */

/* C++'s names, as PyTorch writes them. */
static const char *type_text(tenon_dtype dtype) {
    static const char *const texts[TENON_DTYPE_COUNT] = {
        [TENON_FLOAT32] = "float",         [TENON_FLOAT64] = "double",
        [TENON_FLOAT16] = "c10::Half",     [TENON_BFLOAT16] = "c10::BFloat16",
        [TENON_INT64] = "long int",        [TENON_INT32] = "int",
        [TENON_INT16] = "short int",       [TENON_INT8] = "signed char",
        [TENON_UINT64] = "unsigned long",  [TENON_UINT32] = "unsigned int",
        [TENON_UINT16] = "unsigned short", [TENON_UINT8] = "unsigned char"};
    return texts[dtype] ? texts[dtype] : tenon_dtype_text(dtype);
}

static void add_sizes(tn_writer *w, cJSON *to, int rank, const int64_t *sizes) {
    cJSON *list = tn_json_add_array(w, to, NULL);
    for (int d = 0; d < rank; d++)
        tn_json_add_int(w, list, NULL, sizes[d]);
}

static void add_operands(tn_writer *w, cJSON *args, const tn_step *step) {
    cJSON *types = tn_json_add_array(w, args, "Input type");
    cJSON *strides = tn_json_add_array(w, args, "Input Strides");
    cJSON *sizes = tn_json_add_array(w, args, "Input Dims");
    for (int i = 0; i < step->in_count; i++) {
        const tenon_view *view = step->in[i].view;
        tn_json_add_text(w, types, NULL, view ? type_text(view->dtype) : "");
        add_sizes(w, strides, view ? view->rank : 0, view ? view->strides : NULL);
        add_sizes(w, sizes, view ? view->rank : 0, view ? view->shape : NULL);
    }
}

/* ---- Nodes ---- */

static const char *node_name(const tenon_node *node) {
    const char *name = tenon_node_name(node);
    return name && *name ? name : tenon_node_op(node);
}

/* Perfetto shows an arrow backwards when the slice that it ends at began first: so those of all
 * nodes of a step but its first. */
static void emit_arrow(exporter *x, const tenon_event *step, int64_t ns) {
    int64_t id = ++x->arrows;
    for (int end = 0; end < 2; end++) {
        int64_t thread = end ? step->thread : step->thread + NODE_TRACKS;
        cJSON *made = event(x, end ? "f" : "s", "node2step", "node2step", thread, ns);
        tn_json_add_int(&x->writer, made, "id", id);
        if (end)
            tn_json_add_text(&x->writer, made, "bp", "e");
        emit(x, made);
    }
}

static tenon_status emit_nodes(exporter *x, const tn_event *from, int index) {
    const tenon_event *step = &x->trace->events[index];
    const tn_plan *plan = from->subject;
    tn_writer *w = &x->writer;
    if (step->node_count > x->share_capacity) {
        int64_t *shares = realloc(x->shares, (size_t)step->node_count * sizeof *shares);
        if (!shares)
            return tn_no_memory();
        x->shares = shares;
        x->share_capacity = step->node_count;
    }
    int64_t at = step->start_ns;
    tn_share_time(plan, &plan->steps[from->index], step->end_ns - at, x->shares);
    for (int i = 0; i < step->node_count; i++) {
        const tenon_node *node = step->nodes[i];
        cJSON *made = event(x, "X", "model_node", node_name(node), step->thread + NODE_TRACKS, at);
        tn_json_add_us(w, made, "dur", x->shares[i]);
        cJSON *args = tn_json_add_object(w, made, "args");
        tn_json_add_text(w, args, "Op", tenon_node_op(node));
        tn_json_add_text(w, args, "Step", step->name);
        tn_json_add_int(w, args, "Step id", index + 1);
        tn_json_add_text(w, args, "Time",
                         step->node_count > 1 ? "estimate: a part of the step's" : "measured");
        if (*tenon_node_module_path(node))
            tn_json_add_text(w, args, "Module Hierarchy", tenon_node_module_path(node));
        if (x->options->with_flops)
            tn_json_add_number(w, args, "flops", tn_node_flops(node));
        emit(x, made);
        if (x->shares[i] > 0)
            emit_arrow(x, step, at);
        at += x->shares[i];
    }
    return TENON_OK;
}

/* ---- What was recorded ---- */

static bool is_step(const tn_event *from) {
    return from->kind <= TENON_EVENT_COPY && from->subject;
}

static void add_call_stack(tn_writer *w, cJSON *args, const char *stack) {
    char *line = strdup(stack);
    for (char *at = line; at && (at = strchr(at, '\n')) != NULL;)
        *at = ';';
    if (line)
        tn_json_add_text(w, args, "Call stack", line);
    else
        tn_json_add(w, args, NULL, NULL);
    free(line);
}

static tenon_status emit_event(exporter *x, const tn_event *from, int index) {
    const tenon_event *e = &x->trace->events[index];
    tn_writer *w = &x->writer;
    bool users = e->kind == TENON_EVENT_USER || e->kind == TENON_EVENT_STEP;
    bool step = is_step(from);
    cJSON *made =
        event(x, "X", users ? "user_annotation" : "cpu_op", e->name, e->thread, e->start_ns);
    tn_json_add_us(w, made, "dur", e->end_ns - e->start_ns);
    cJSON *args = tn_json_add_object(w, made, "args");
    tn_json_add_int(w, args, "External id", index + 1);
    tn_json_add_int(w, args, "Ev Idx", index);
    tn_json_add_text(w, args, "Kind", tn_event_kind_text(e->kind));
    if (step && x->options->record_shapes)
        add_operands(w, args, &((const tn_plan *)from->subject)->steps[from->index]);
    if (*e->module)
        tn_json_add_text(w, args, "Module Hierarchy", e->module);
    if (*e->stack)
        add_call_stack(w, args, e->stack);
    if (x->options->with_flops && step)
        tn_json_add_number(w, args, "flops", e->flops);
    if (x->options->profile_memory) {
        tn_json_add_int(w, args, "Memory", e->memory);
        tn_json_add_int(w, args, "Self memory", e->self_memory);
    }
    if (step) {
        cJSON *ops = tn_json_add_array(w, args, "Ops");
        cJSON *names = tn_json_add_array(w, args, "Nodes");
        for (int i = 0; i < e->node_count; i++) {
            tn_json_add_text(w, ops, NULL, tenon_node_op(e->nodes[i]));
            tn_json_add_text(w, names, NULL, node_name(e->nodes[i]));
        }
    }
    emit(x, made);
    return step ? emit_nodes(x, from, index) : TENON_OK;
}

static void emit_memory(exporter *x, const tenon_memory_event *change) {
    tn_writer *w = &x->writer;
    cJSON *made = event(x, "i", "cpu_instant_event", "[memory]", change->thread, change->time_ns);
    /* Of the process ("p"), where PyTorch writes "t": Perfetto takes instants of a thread for
     * slices of it, and would let the arrows of the step end there. */
    tn_json_add_text(w, made, "s", "p");
    cJSON *args = tn_json_add_object(w, made, "args");
    tn_json_add_int(w, args, "Total Reserved", 0);
    tn_json_add_int(w, args, "Total Allocated", change->total);
    tn_json_add_int(w, args, "Bytes", change->bytes);
    tn_json_add_int(w, args, "Device Id", -1);
    tn_json_add_int(w, args, "Device Type", 0);
    emit(x, made);
    made = event(x, "C", "memory", "Allocated", change->thread, change->time_ns);
    args = tn_json_add_object(w, made, "args");
    tn_json_add_int(w, args, "bytes", change->total);
    emit(x, made);
}

static void emit_thread_names(exporter *x, const tn_thread_events *thread) {
    char text[96];
    int64_t id = thread->thread;
    snprintf(text, sizeof text, "thread %lld", (long long)id);
    emit_about(x, "thread_name", id, "name", text, 0);
    emit_about(x, "thread_sort_index", id, "sort_index", NULL, id);
    int32_t i = 0;
    while (i < thread->event_count && !is_step(&thread->events[i]))
        i++;
    if (i == thread->event_count)
        return;
    snprintf(text, sizeof text, "thread %lld: model nodes", (long long)id);
    emit_about(x, "thread_name", id + NODE_TRACKS, "name", text, 0);
    emit_about(x, "thread_sort_index", id + NODE_TRACKS, "sort_index", NULL, id);
}

/* The whole recording as one event of a process of its own, as PyTorch has it. */
static void emit_span(exporter *x) {
    static const char process[] = "Spans", thread[] = "PyTorch Profiler";
    tn_writer *w = &x->writer;
    cJSON *made = begin_event(x, "X", "Trace", "PyTorch Profiler (0)", x->trace->start_ns);
    tn_json_add_us(w, made, "dur", x->trace->end_ns - x->trace->start_ns);
    tn_json_add_text(w, made, "pid", process);
    tn_json_add_text(w, made, "tid", thread);
    cJSON *args = tn_json_add_object(w, made, "args");
    tn_json_add_int(w, args, "Op count", x->trace->event_count);
    emit(x, made);
    made = begin_event(x, "M", NULL, "process_sort_index", x->trace->start_ns);
    tn_json_add_text(w, made, "pid", process);
    tn_json_add_int(w, made, "tid", 0);
    args = tn_json_add_object(w, made, "args");
    tn_json_add_int(w, args, "sort_index", LAST_PROCESS);
    emit(x, made);
}

/* Plans ran in which nothing was fused. */
static bool perturbed(const tn_trace *trace) {
    for (const tn_thread_events *t = trace->threads; t; t = t->next)
        for (int32_t i = 0; i < t->event_count; i++)
            if (is_step(&t->events[i]) && ((const tn_plan *)t->events[i].subject)->split_ops)
                return true;
    return false;
}

static tenon_status emit_all(exporter *x) {
    const tn_trace *trace = x->trace;
    int index = 0;
    emit_about(x, "process_name", 0, "name", program_invocation_short_name, 0);
    emit_about(x, "process_labels", 0, "labels", perturbed(trace) ? "CPU, " TN_PERTURBED : "CPU",
               0);
    emit_about(x, "process_sort_index", 0, "sort_index", NULL, getpid());
    for (const tn_thread_events *t = trace->threads; t; t = t->next) {
        emit_thread_names(x, t);
        for (int32_t i = 0; i < t->event_count; i++)
            TN_TRY(emit_event(x, &t->events[i], index++));
    }
    for (int i = 0; i < trace->change_count; i++)
        emit_memory(x, &trace->changes[i]);
    emit_span(x);
    return TENON_OK;
}

/* ---- The file ---- */

bool tn_trace_has_field(const char *key) {
    static const char *const keys[] = {
        "schemaVersion",   "deviceProperties",    "trace_id",    "with_stack", "profile_memory",
        "record_shapes",   "with_modules",        "with_flops",  "host_name",  "lost_events",
        "displayTimeUnit", "baseTimeNanoseconds", "traceEvents", "traceName"};
    for (int i = 0; i < TN_COUNT(keys); i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static void put_field(tn_writer *w, const char *key, cJSON *item) {
    tn_writer_add(w, "  \"%s\": ", key);
    tn_writer_json(w, item);
    tn_writer_put(w, ",\n");
}

static void put_number(tn_writer *w, const char *key, int64_t value) {
    tn_writer_add(w, "  \"%s\": %lld,\n", key, (long long)value);
}

static void put_text(tn_writer *w, const char *key, const char *text) {
    char *clean = tn_utf8(text);
    put_field(w, key, clean ? cJSON_CreateString(clean) : NULL);
    free(clean);
}

static void put_metadata(tn_writer *w, const tn_metadata *metadata) {
    for (const tn_metadata *m = metadata; m; m = m->next) {
        char *key = tn_utf8(m->key), *json = tn_utf8(m->json);
        tn_writer_put(w, "  ");
        tn_writer_json(w, key ? cJSON_CreateString(key) : NULL);
        tn_writer_put(w, ": ");
        tn_writer_put(w, json ? json : "null");
        tn_writer_put(w, ",\n");
        if (!json)
            tn_writer_json(w, NULL); /* it fails */
        free(key);
        free(json);
    }
}

static void put_head(exporter *x, const tenon_profiler *p) {
    tn_writer *w = &x->writer;
    char host[256] = "", id[40];
    gethostname(host, sizeof host - 1);
    snprintf(id, sizeof id, "%016llX%016llX", (unsigned long long)x->trace->start_ns,
             (unsigned long long)getpid());
    tn_writer_put(w, "{\n");
    put_number(w, "schemaVersion", 1);
    put_field(w, "deviceProperties", cJSON_CreateArray());
    put_text(w, "trace_id", id);
    if (p->options.with_stack)
        put_number(w, "with_stack", 1);
    if (p->options.profile_memory)
        put_number(w, "profile_memory", 1);
    if (p->options.record_shapes)
        put_number(w, "record_shapes", 1);
    if (p->options.with_modules)
        put_number(w, "with_modules", 1);
    if (p->options.with_flops)
        put_number(w, "with_flops", 1);
    put_text(w, "host_name", host);
    if (x->trace->lost > 0)
        put_number(w, "lost_events", x->trace->lost);
    put_metadata(w, p->metadata);
    put_text(w, "displayTimeUnit", "ms");
    put_number(w, "baseTimeNanoseconds", x->base_ns);
}

/* Midnight before the first event: times of a day keep their nanoseconds in a double. */
static int64_t base_time(const tn_trace *trace) {
    const int64_t day = 86400LL * 1000000000;
    int64_t first = trace->start_ns;
    for (int i = 0; i < trace->event_count; i++)
        if (trace->events[i].start_ns < first)
            first = trace->events[i].start_ns;
    return first - first % day;
}

tenon_status tenon_profiler_export_chrome_trace(const tenon_profiler *p, const char *path) {
    TN_TRY(tn_check_recorded(p));
    exporter x = {.trace = p->trace, .options = &p->options, .base_ns = base_time(p->trace)};
    TN_TRY(tn_writer_open(&x.writer, path));
    put_head(&x, p);
    tn_writer_put(&x.writer, "  \"traceEvents\": [");
    tenon_status status = emit_all(&x);
    tn_writer_put(&x.writer, "\n  ],\n  \"traceName\": ");
    char *name = tn_utf8(path);
    tn_writer_json(&x.writer, name ? cJSON_CreateString(name) : NULL);
    tn_writer_put(&x.writer, "\n}\n");
    free(name);
    free(x.shares);
    return tn_writer_close(&x.writer, status);
}
