/* Lists of passes, and running them. */
#include "core/fail.h"
#include "core/graph.h"
#include "fusion/bf16.h"
#include "fusion/pipeline.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct tenon_passes {
    tenon_pass *items; /* pinned ones first; names and docs are the list's own */
    int count, capacity, pinned;
};

static tenon_pass_phase phase_of(const tenon_passes *list, int at) {
    return list->items[at].phase;
}

static int find(const tenon_passes *list, const char *name) {
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return i;
    return -1;
}

static tenon_status put(tenon_passes *list, int at, const tenon_pass *pass) {
    if (list->count == list->capacity) {
        int capacity = list->capacity ? list->capacity * 2 : 64;
        tenon_pass *items = realloc(list->items, (size_t)capacity * sizeof *items);
        if (!items)
            return tn_no_memory();
        list->items = items;
        list->capacity = capacity;
    }
    tenon_pass copy = *pass;
    char *name = strdup(pass->name), *doc = strdup(pass->doc ? pass->doc : "");
    if (!name || !doc) {
        free(name);
        free(doc);
        return tn_no_memory();
    }
    copy.name = name;
    copy.doc = doc;
    memmove(list->items + at + 1, list->items + at,
            (size_t)(list->count - at) * sizeof *list->items);
    list->items[at] = copy;
    list->count++;
    return TENON_OK;
}

static void drop(tenon_pass *pass) {
    if (pass->destroy)
        pass->destroy(pass->user);
    free((char *)pass->name);
    free((char *)pass->doc);
}

tenon_status tenon_passes_create(tenon_passes **out) {
    tenon_passes *list = calloc(1, sizeof *list);
    if (!list)
        return tn_no_memory();
    for (int i = 0; i < tn_default_pass_count; i++) {
        tenon_status status = put(list, list->count, &tn_default_passes[i].pass);
        if (status != TENON_OK) {
            tenon_passes_destroy(&list);
            return status;
        }
        list->pinned += tn_default_passes[i].pinned;
    }
    *out = list;
    return TENON_OK;
}

void tenon_passes_destroy(tenon_passes **list) {
    if (!*list)
        return;
    for (int i = 0; i < (*list)->count; i++)
        drop(&(*list)->items[i]);
    free((*list)->items);
    free(*list);
    *list = NULL;
}

tenon_status tn_passes_copy(const tenon_passes *list, tenon_passes **out) {
    tenon_passes *copy = calloc(1, sizeof *copy);
    if (!copy)
        return tn_no_memory();
    for (int i = 0; i < list->count; i++) {
        tenon_pass pass = list->items[i];
        pass.destroy = NULL;
        tenon_status status = put(copy, copy->count, &pass);
        if (status != TENON_OK) {
            tenon_passes_destroy(&copy);
            return status;
        }
    }
    copy->pinned = list->pinned;
    *out = copy;
    return TENON_OK;
}

int tenon_passes_count(const tenon_passes *list) {
    return list->count - list->pinned;
}

const tenon_pass *tenon_passes_get(const tenon_passes *list, int index) {
    return index < 0 || index >= list->count - list->pinned ? NULL
                                                            : &list->items[list->pinned + index];
}

tenon_status tenon_passes_insert(tenon_passes *list, int index, const tenon_pass *pass) {
    if (!pass->name || !pass->name[0] || !pass->run)
        return tn_fail(TENON_INVALID_ARGUMENT, "a pass needs a name and a function");
    if (pass->phase != TENON_PASS_MODEL && pass->phase != TENON_PASS_SHAPES)
        return tn_fail(TENON_INVALID_ARGUMENT, "pass '%s': unknown phase %d", pass->name,
                       (int)pass->phase);
    if (find(list, pass->name) >= 0)
        return tn_fail(TENON_INVALID_ARGUMENT, "a pass named '%s' is in the list already",
                       pass->name);
    if (index < -1 || index > list->count - list->pinned)
        return tn_fail(TENON_INVALID_ARGUMENT, "pass '%s': index %d is outside 0 to %d", pass->name,
                       index, list->count - list->pinned);
    int at = list->pinned + index;
    if (index == -1) {
        at = list->count;
        while (at > list->pinned && phase_of(list, at - 1) > pass->phase)
            at--;
    }
    return put(list, at, pass);
}

tenon_status tenon_passes_remove(tenon_passes *list, const char *name) {
    int at = find(list, name);
    if (at < 0)
        return tn_fail(TENON_NOT_FOUND, "no pass is named '%s'", name);
    if (at < list->pinned)
        return tn_fail(TENON_INVALID_ARGUMENT, "pass '%s' is pinned", name);
    drop(&list->items[at]);
    memmove(list->items + at, list->items + at + 1,
            (size_t)(list->count - at - 1) * sizeof *list->items);
    list->count--;
    return TENON_OK;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void trace(const tenon_pass *pass, const tenon_graph *graph) {
    char *text = NULL;
    if (tn_logs(TENON_LOG_TRACE) && tenon_graph_print(graph, &text) == TENON_OK) {
        tn_log(TENON_LOG_TRACE, "after pass %s:\n%s", pass->name, text);
        tenon_string_free(text);
    }
}

static tenon_status run_one(const tenon_pass *pass, tenon_graph *graph) {
    double start = tn_logs(TENON_LOG_DEBUG) ? now() : 0;
    int64_t before = graph->node_count;
    bool changed = false;
    TN_TRY(pass->run(graph, &changed, pass->user));
    if (changed) {
        tn_graph_drop_dead(graph);
        TN_TRY(tenon_graph_verify(graph));
    }
    if (tn_logs(TENON_LOG_DEBUG))
        tn_log(TENON_LOG_DEBUG, "pass %s: %s, %lld -> %lld nodes, %.2f ms", pass->name,
               changed ? "changed" : "no change", (long long)before, (long long)graph->node_count,
               now() - start);
    if (changed)
        trace(pass, graph);
    return TENON_OK;
}

tenon_status tenon_passes_run(const tenon_passes *list, tenon_pass_phase phase,
                              tenon_graph *graph) {
    if (phase == TENON_PASS_SHAPES && tn_is_symbolic(graph))
        return tn_fail(TENON_INVALID_ARGUMENT,
                       "graph '%s': passes of the shapes phase need a graph without symbols",
                       graph->name);
    for (int i = 0; i < list->count; i++) {
        const tenon_pass *pass = &list->items[i];
        if (pass->phase != phase)
            continue;
        tenon_status status = run_one(pass, graph);
        if (status != TENON_OK)
            return tn_fail_within(status, "pass %s", pass->name);
    }
    return TENON_OK;
}
