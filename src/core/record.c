/* What each pass did to a graph: which nodes went and came. */
#include "core/fail.h"
#include "core/graph.h"
#include <stdlib.h>
#include <string.h>
#include <tenon/pass.h>

#define MAX_NAMED 16

typedef struct tn_record {
    tenon_pass_record public;
    uint32_t clock; /* graph->clock of the pass; 0: of another graph */
    struct tn_record *next;
} tn_record;

tenon_status tn_snapshot_take(tenon_graph *graph, tn_snapshot *out) {
    tn_snapshot snapshot = {.graph = graph};
    snapshot.nodes = malloc(((size_t)graph->node_count + 1) * sizeof *snapshot.nodes);
    if (!snapshot.nodes)
        return tn_no_memory();
    for (const tenon_node *node = graph->first; node; node = node->next)
        snapshot.nodes[snapshot.count++] = node;
    graph->clock++;
    *out = snapshot;
    return TENON_OK;
}

void tn_snapshot_free(tn_snapshot *snapshot) {
    free(snapshot->nodes);
    snapshot->nodes = NULL;
}

/* ---- Comparing ---- */

typedef struct naming {
    tenon_graph *graph; /* whose arena holds the texts */
    const char **texts;
    int named;
    int64_t count;
} naming;

static tenon_status note(naming *n, const tenon_node *node) {
    n->count++;
    if (n->named == MAX_NAMED)
        return TENON_OK;
    tn_text text = {0};
    tn_text_add(&text, "%s (%s)", node->name, node->op->name);
    const char *copy = text.failed ? NULL : tn_arena_strdup(&n->graph->arena, text.data);
    tn_text_free(&text);
    if (!copy)
        return tn_no_memory();
    n->texts[n->named++] = copy;
    return TENON_OK;
}

/* Of another graph, where nodes are told by the names of their values. */
static bool is_in(const tenon_graph *graph, const tenon_node *node) {
    const char *name = node->output_count > 0 ? node->outputs[0]->name : NULL;
    const tenon_value *value = name ? tn_map_get(&graph->names, name) : NULL;
    return value && value->node && value->node->op == node->op;
}

static tenon_status compare(const tn_snapshot *before, const tenon_graph *graph, naming *removed,
                            naming *added) {
    bool same = before->graph == graph;
    for (int64_t i = 0; i < before->count; i++) {
        const tenon_node *node = before->nodes[i];
        if (same ? node->erased : !is_in(graph, node))
            TN_TRY(note(removed, node));
    }
    for (const tenon_node *node = graph->first; node; node = node->next)
        if (same ? node->born == graph->clock : !is_in(before->graph, node))
            TN_TRY(note(added, node));
    return TENON_OK;
}

/* ---- Keeping ---- */

static tenon_status append(tenon_graph *graph, const tenon_pass_record *record, uint32_t clock) {
    tn_record *copy = tn_arena_alloc(&graph->arena, sizeof *copy);
    if (!copy)
        return tn_no_memory();
    copy->public = *record;
    copy->clock = clock;
    if (graph->last_record)
        graph->last_record->next = copy;
    else
        graph->records = copy;
    graph->last_record = copy;
    graph->record_count++;
    return TENON_OK;
}

tenon_status tn_record_add(tenon_graph *graph, const tn_snapshot *before, const char *name,
                           int phase, double milliseconds) {
    if (before->graph != graph)
        TN_TRY(tn_records_copy(graph, before->graph));
    naming removed = {.graph = graph}, added = {.graph = graph};
    removed.texts = tn_arena_array(&graph->arena, MAX_NAMED, sizeof *removed.texts);
    added.texts = tn_arena_array(&graph->arena, MAX_NAMED, sizeof *added.texts);
    const char *copy = tn_arena_strdup(&graph->arena, name);
    if (!removed.texts || !added.texts || !copy)
        return tn_no_memory();
    TN_TRY(compare(before, graph, &removed, &added));
    return append(graph,
                  &(tenon_pass_record){.name = copy,
                                       .phase = (tenon_pass_phase)phase,
                                       .nodes_before = before->count,
                                       .nodes_after = graph->node_count,
                                       .removed_count = removed.count,
                                       .added_count = added.count,
                                       .removed = removed.texts,
                                       .added = added.texts,
                                       .removed_named = removed.named,
                                       .added_named = added.named,
                                       .milliseconds = milliseconds},
                  graph->clock);
}

static tenon_status copy_texts(tenon_graph *to, const char *const *from, int count,
                               const char *const **out) {
    const char **texts = tn_arena_array(&to->arena, (size_t)count + 1, sizeof *texts);
    if (!texts)
        return tn_no_memory();
    for (int i = 0; i < count; i++)
        if (!(texts[i] = tn_arena_strdup(&to->arena, from[i])))
            return tn_no_memory();
    *out = texts;
    return TENON_OK;
}

tenon_status tn_records_copy(tenon_graph *to, const tenon_graph *from) {
    for (const tn_record *record = from->records; record; record = record->next) {
        tenon_pass_record copy = record->public;
        copy.name = tn_arena_strdup(&to->arena, copy.name);
        if (!copy.name)
            return tn_no_memory();
        TN_TRY(copy_texts(to, copy.removed, copy.removed_named, &copy.removed));
        TN_TRY(copy_texts(to, copy.added, copy.added_named, &copy.added));
        TN_TRY(append(to, &copy, 0));
    }
    return TENON_OK;
}

const char *tn_record_of(const tenon_graph *graph, const tenon_node *node) {
    const tn_record *record = node->born ? graph->records : NULL;
    while (record && record->clock != node->born)
        record = record->next;
    return record ? record->public.name : NULL;
}

int tenon_graph_record_count(const tenon_graph *graph) {
    return graph->record_count;
}

bool tenon_graph_record(const tenon_graph *graph, int index, tenon_pass_record *out) {
    const tn_record *record = index >= 0 ? graph->records : NULL;
    for (int i = 0; i < index && record; i++)
        record = record->next;
    if (record)
        *out = record->public;
    return record != NULL;
}
