/* Memory over time, as JSON in PyTorch's form or as a page that draws it. */
#include "core/fail.h"
#include "profiler/profiler.h"
#include "profiler/timeline_page.h"
#include "profiler/writer.h"
#include <stdlib.h>
#include <string.h>

/* PyTorch's categories and one before them: a size of each at every time. Tenon's allocations are
 * of none, which is the last. */
#define COLUMNS 9

static bool ends_in(const char *path, const char *end) {
    size_t length = strlen(path), tail = strlen(end);
    return length >= tail && strcmp(path + length - tail, end) == 0;
}

/* What was there before the recording, as far as it was released. */
static int64_t before(const tn_trace *trace) {
    int64_t least = 0;
    for (int i = 0; i < trace->change_count; i++)
        if (trace->changes[i].total < least)
            least = trace->changes[i].total;
    return -least;
}

static void put_json(tn_writer *w, const tn_trace *trace) {
    int64_t base = before(trace);
    tn_writer_add(w, "[[%lld", (long long)(trace->start_ns / 1000));
    for (int i = 0; i < trace->change_count; i++)
        tn_writer_add(w, ", %lld", (long long)(trace->changes[i].time_ns / 1000));
    tn_writer_put(w, "],\n [");
    for (int i = -1; i < trace->change_count; i++) {
        tn_writer_put(w, i < 0 ? "[" : ", [");
        for (int column = 0; column < COLUMNS - 1; column++)
            tn_writer_put(w, "0, ");
        int64_t total = i < 0 ? 0 : trace->changes[i].total;
        tn_writer_add(w, "%lld]", (long long)(base + total));
    }
    tn_writer_put(w, "]]\n");
}

/* ---- The page ---- */

/* JSON within a script element: nothing in it may look like an end tag. */
static void put_script_text(tn_writer *w, const char *text) {
    char *clean = tn_utf8(text);
    cJSON *item = clean ? cJSON_CreateString(clean) : NULL;
    char *json = item ? cJSON_PrintUnformatted(item) : NULL;
    for (char *at = json; at && *at;) {
        size_t length = strcspn(at, "<");
        tn_writer_add(w, "%.*s%s", (int)length, at, at[length] ? "\\u003c" : "");
        at += length + (at[length] != '\0');
    }
    if (!json)
        tn_writer_json(w, NULL); /* it fails */
    cJSON_free(json);
    cJSON_Delete(item);
    free(clean);
}

/* A change is [nanoseconds since the start, bytes, number of its event's name or -1]. */
static tenon_status put_data(tn_writer *w, const tn_trace *trace) {
    tn_map numbers = {0};
    intptr_t count = 0;
    tenon_status status = TENON_OK;
    const char **names = calloc((size_t)trace->change_count + 1, sizeof *names);
    if (!names)
        return tn_no_memory();
    tn_writer_add(w, "{\"before\": %lld, \"length\": %lld, \"changes\": [",
                  (long long)before(trace), (long long)(trace->end_ns - trace->start_ns));
    for (int i = 0; i < trace->change_count && status == TENON_OK; i++) {
        const tenon_memory_event *change = &trace->changes[i];
        const char *name = change->event < 0 ? NULL : trace->events[change->event].name;
        intptr_t number = name ? (intptr_t)tn_map_get(&numbers, name) : 0;
        if (name && number == 0) {
            names[count] = name;
            number = ++count;
            status = tn_map_put(&numbers, name, (void *)number);
        }
        tn_writer_add(w, "%s[%lld, %lld, %d]", i ? "," : "",
                      (long long)(change->time_ns - trace->start_ns), (long long)change->bytes,
                      (int)number - 1);
    }
    tn_writer_put(w, "], \"names\": [");
    for (intptr_t i = 0; i < count; i++) {
        tn_writer_put(w, i ? "," : "");
        put_script_text(w, names[i]);
    }
    tn_writer_put(w, "]}");
    tn_map_free(&numbers);
    free(names);
    return status;
}

static tenon_status put_page(tn_writer *w, const tn_trace *trace) {
    static const char mark[] = "@DATA@";
    const char *at = strstr(timeline_page, mark);
    tn_writer_add(w, "%.*s", (int)(at - timeline_page), timeline_page);
    tenon_status status = put_data(w, trace);
    tn_writer_put(w, at + strlen(mark));
    return status;
}

tenon_status tenon_profiler_export_memory_timeline(const tenon_profiler *p, const char *path) {
    tn_writer w;
    tenon_status status = TENON_OK;
    if (!p->options.profile_memory)
        return tn_fail(TENON_INVALID_ARGUMENT,
                       "export_memory_timeline: the profiler was made without profile_memory");
    TN_TRY(tn_check_recorded(p));
    TN_TRY(tn_writer_open(&w, path));
    if (ends_in(path, ".html") || ends_in(path, ".html.gz"))
        status = put_page(&w, p->trace);
    else
        put_json(&w, p->trace);
    return tn_writer_close(&w, status);
}
