/* Time by module of the source model. */
#include "core/fail.h"
#include "profiler/profiler.h"
#include "profiler/share.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

/* What the steps of one plan took. */
typedef struct plan_times {
    const tn_plan *plan;
    int64_t *ns, *runs; /* by step */
} plan_times;

typedef struct module {
    tenon_module_time time;
    int first, last, next; /* children; the next one of its parent; -1: none */
} module;

typedef struct gathering {
    plan_times *plans;
    int plan_count, plan_capacity;
    module *modules;
    int module_count, module_capacity;
    tn_map index; /* by path: its number, from 1 on */
    tn_arena arena;
    bool flops;
} gathering;

struct tenon_module_times {
    tn_arena arena; /* of paths */
    tenon_module_time *items;
    int count;
    bool perturbed;
};

/* ---- Time of steps ---- */

static plan_times *find_plan(gathering *g, const tn_plan *plan) {
    for (int i = g->plan_count - 1; i >= 0; i--)
        if (g->plans[i].plan == plan)
            return &g->plans[i];
    if (g->plan_count == g->plan_capacity) {
        int capacity = g->plan_capacity ? g->plan_capacity * 2 : 8;
        plan_times *plans = realloc(g->plans, (size_t)capacity * sizeof *plans);
        if (!plans)
            return NULL;
        g->plans = plans;
        g->plan_capacity = capacity;
    }
    int64_t *numbers = calloc(2 * (size_t)plan->step_count + 1, sizeof *numbers);
    if (!numbers)
        return NULL;
    g->plans[g->plan_count] = (plan_times){plan, numbers, numbers + plan->step_count};
    return &g->plans[g->plan_count++];
}

static tenon_status gather(gathering *g, const tn_trace *trace) {
    const tenon_event *event = trace->events;
    for (const tn_thread_events *t = trace->threads; t; t = t->next)
        for (int32_t i = 0; i < t->event_count; i++, event++) {
            if (event->kind > TENON_EVENT_COPY || !t->events[i].subject)
                continue;
            plan_times *times = find_plan(g, t->events[i].subject);
            if (!times)
                return tn_no_memory();
            times->ns[t->events[i].index] += event->end_ns - event->start_ns;
            times->runs[t->events[i].index]++;
        }
    return TENON_OK;
}

/* ---- Modules ---- */

static tenon_status add_module(gathering *g, const char *path, size_t length, int parent, int depth,
                               int *out) {
    if (g->module_count == g->module_capacity) {
        int capacity = g->module_capacity ? g->module_capacity * 2 : 64;
        module *modules = realloc(g->modules, (size_t)capacity * sizeof *modules);
        if (!modules)
            return tn_no_memory();
        g->modules = modules;
        g->module_capacity = capacity;
    }
    char *copy = tn_arena_alloc(&g->arena, length + 1);
    if (!copy)
        return tn_no_memory();
    memcpy(copy, path, length);
    int made = g->module_count;
    TN_TRY(tn_map_put(&g->index, copy, (void *)(intptr_t)(made + 1)));
    g->modules[made] = (module){.time = {.path = copy, .parent = parent, .depth = depth},
                                .first = -1,
                                .last = -1,
                                .next = -1};
    if (parent >= 0) {
        module *in = &g->modules[parent];
        *(in->last < 0 ? &in->first : &g->modules[in->last].next) = made;
        in->last = made;
    }
    g->module_count++;
    *out = made;
    return TENON_OK;
}

/* The module of that path, which is made with those that it is in. */
static tenon_status find_module(gathering *g, const char *path, int *out) {
    char prefix[1024];
    int found = (int)(intptr_t)tn_map_get(&g->index, path) - 1, parent = 0;
    if (found >= 0) {
        *out = found;
        return TENON_OK;
    }
    size_t end = 0;
    for (int depth = 1; path[end] && depth <= MAX_DEPTH; depth++) {
        end += strcspn(path + end, ".");
        if (end >= sizeof prefix)
            break;
        memcpy(prefix, path, end);
        prefix[end] = 0;
        found = (int)(intptr_t)tn_map_get(&g->index, prefix) - 1;
        if (found < 0)
            TN_TRY(add_module(g, path, end, parent, depth, &found));
        parent = found;
        end += path[end] == '.';
    }
    *out = parent;
    return TENON_OK;
}

/* ---- Shares ---- */

static const char *path_of(const tenon_node *node) {
    return node->source ? node->source->module_path : "";
}

static bool spans_modules(const tn_partition *partition) {
    for (int32_t i = 1; i < partition->node_count; i++)
        if (strcmp(path_of(partition->nodes[i]), path_of(partition->nodes[0])) != 0)
            return true;
    return false;
}

static tenon_status add_node(gathering *g, const tenon_node *node, int64_t ns, int64_t runs,
                             bool estimated) {
    int at = 0;
    TN_TRY(find_module(g, path_of(node), &at));
    tenon_module_time *time = &g->modules[at].time;
    time->self_ns += ns;
    time->total_ns += ns;
    time->estimated_ns += estimated ? ns : 0;
    time->count += runs;
    time->flops += g->flops ? tn_node_flops(node) * (double)runs : 0;
    return TENON_OK;
}

/* Shares are rounded so that they sum up to the step's time. */
static tenon_status add_partition(gathering *g, const tn_plan *plan, const tn_partition *partition,
                                  int64_t ns, int64_t runs) {
    bool estimated = spans_modules(partition);
    double all = 0, sum = 0;
    int64_t given = 0;
    for (int32_t i = 0; i < partition->node_count; i++)
        all += tn_node_weight(plan, partition, partition->nodes[i]);
    for (int32_t i = 0; i < partition->node_count; i++) {
        sum += tn_node_weight(plan, partition, partition->nodes[i]);
        bool last = i == partition->node_count - 1;
        int64_t upto = last ? ns : all > 0 ? (int64_t)llround((double)ns * (sum / all)) : 0;
        TN_TRY(add_node(g, partition->nodes[i], upto - given, runs, estimated));
        given = upto;
    }
    return TENON_OK;
}

static tenon_status share_out(gathering *g) {
    int root;
    TN_TRY(add_module(g, "", 0, -1, 0, &root));
    for (int i = 0; i < g->plan_count; i++) {
        const plan_times *times = &g->plans[i];
        for (int32_t s = 0; s < times->plan->step_count; s++) {
            const tn_step *step = &times->plan->steps[s];
            int64_t ns = times->ns[s], runs = times->runs[s];
            if (runs == 0)
                continue;
            TN_TRY(step->partition ? add_partition(g, times->plan, step->partition, ns, runs)
                                   : add_node(g, step->node, ns, runs, false));
        }
    }
    for (int i = g->module_count - 1; i > 0; i--) { /* parents were made first */
        const tenon_module_time *from = &g->modules[i].time;
        tenon_module_time *to = &g->modules[from->parent].time;
        to->total_ns += from->total_ns;
        to->estimated_ns += from->estimated_ns;
        to->flops += from->flops;
    }
    return TENON_OK;
}

/* Each module before those in it. */
static tenon_status lay_out(const gathering *g, tenon_module_times *out) {
    int *place = malloc(((size_t)g->module_count + 1) * sizeof *place);
    out->items = calloc((size_t)g->module_count + 1, sizeof *out->items);
    if (!place || !out->items) {
        free(place);
        return tn_no_memory();
    }
    for (int at = 0; at >= 0;) {
        const module *m = &g->modules[at];
        place[at] = out->count;
        tenon_module_time *item = &out->items[out->count++];
        *item = m->time;
        item->parent = item->parent < 0 ? -1 : place[item->parent];
        if (m->first >= 0) {
            at = m->first;
            continue;
        }
        while (at >= 0 && g->modules[at].next < 0)
            at = g->modules[at].time.parent;
        at = at < 0 ? -1 : g->modules[at].next;
    }
    free(place);
    return TENON_OK;
}

tenon_status tenon_profiler_module_times(const tenon_profiler *p, tenon_module_times **out) {
    gathering g = {.flops = p->options.with_flops};
    tenon_module_times *times = calloc(1, sizeof *times);
    tenon_status status = times ? TENON_OK : tn_no_memory();
    if (status == TENON_OK && p->trace)
        status = gather(&g, p->trace);
    if (status == TENON_OK)
        status = share_out(&g);
    if (status == TENON_OK)
        status = lay_out(&g, times);
    for (int i = 0; i < g.plan_count; i++) {
        if (times)
            times->perturbed |= g.plans[i].plan->split_ops;
        free(g.plans[i].ns);
    }
    free(g.plans);
    free(g.modules);
    tn_map_free(&g.index);
    if (times)
        times->arena = g.arena;
    else
        tn_arena_free(&g.arena);
    if (status == TENON_OK)
        *out = times;
    else
        tenon_module_times_destroy(&times);
    return status;
}

void tenon_module_times_destroy(tenon_module_times **pointer) {
    tenon_module_times *times = *pointer;
    *pointer = NULL;
    if (!times)
        return;
    free(times->items);
    tn_arena_free(&times->arena);
    free(times);
}

int tenon_module_times_count(const tenon_module_times *times) {
    return times->count;
}

bool tenon_module_times_get(const tenon_module_times *times, int index, tenon_module_time *out) {
    if (index < 0 || index >= times->count)
        return false;
    *out = times->items[index];
    return true;
}

bool tenon_module_times_perturbed(const tenon_module_times *times) {
    return times->perturbed;
}
