/* The order of the steps: every node once, partitions as units, dependencies respected. */
#include "partitions/order.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct orderer {
    tn_partitions *set;
    tenon_node **nodes; /* by node->order */
    int64_t count;
    int32_t *owner; /* by node->order: its partition, or -1 */
    int64_t
        *waiting;  /* by the order of a unit's first node: uses of values that are not there yet */
    int64_t *heap; /* units that can run, the earliest on top */
    int64_t heap_count;
} orderer;

/* A unit is named by the order of its first node. */
static int64_t unit_of(const orderer *o, const tenon_node *node) {
    int32_t owner = o->owner[node->order];
    return owner < 0 ? node->order : o->set->items[owner].nodes[0]->order;
}

static void push(orderer *o, int64_t unit) {
    int64_t at = o->heap_count++;
    while (at > 0 && o->heap[(at - 1) / 2] > unit) {
        o->heap[at] = o->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    o->heap[at] = unit;
}

static int64_t pop(orderer *o) {
    int64_t top = o->heap[0], moved = o->heap[--o->heap_count], at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= o->heap_count)
            break;
        if (child + 1 < o->heap_count && o->heap[child + 1] < o->heap[child])
            child++;
        if (o->heap[child] >= moved)
            break;
        o->heap[at] = o->heap[child];
        at = child;
    }
    o->heap[at] = moved;
    return top;
}

static void count_waiting(orderer *o) {
    memset(o->waiting, 0, (size_t)o->count * sizeof *o->waiting);
    for (int64_t i = 0; i < o->count; i++) {
        const tenon_node *node = o->nodes[i];
        assert(node);
        for (int u = 0; u < node->use_count; u++) {
            const tenon_node *maker = node->uses[u].value->node;
            if (maker && unit_of(o, maker) != unit_of(o, node))
                o->waiting[unit_of(o, node)]++;
        }
    }
}

/* Tells those who wait for the outputs of `node`. */
static void release(orderer *o, const tenon_node *node) {
    for (int i = 0; i < node->output_count; i++) {
        for (const tn_use *use = node->outputs[i]->uses; use; use = use->next) {
            if (!use->node || unit_of(o, use->node) == unit_of(o, node))
                continue;
            if (--o->waiting[unit_of(o, use->node)] == 0)
                push(o, unit_of(o, use->node));
        }
    }
}

/* Makes the steps; false when partitions wait for each other in a circle. */
static bool make_steps(orderer *o) {
    tn_partitions *set = o->set;
    int64_t done = 0;
    count_waiting(o);
    set->step_count = 0;
    o->heap_count = 0;
    for (int64_t i = 0; i < o->count; i++) {
        if (unit_of(o, o->nodes[i]) == i && o->waiting[i] == 0)
            push(o, i);
    }
    while (o->heap_count > 0) {
        tenon_node *node = o->nodes[pop(o)];
        int32_t owner = o->owner[node->order];
        tn_partition *partition = owner < 0 ? NULL : &set->items[owner];
        int32_t members = partition ? partition->node_count : 1;
        set->steps[set->step_count++] = (tn_partition_step){partition, node};
        for (int i = 0; i < members; i++)
            release(o, partition ? partition->nodes[i] : node);
        done += members;
    }
    return done == o->count;
}

/* Takes the first partition of a circle apart. */
static tenon_status dissolve(orderer *o) {
    tn_partitions *set = o->set;
    int32_t worst = -1;
    for (int32_t i = 0; i < set->count; i++) {
        if (o->waiting[set->items[i].nodes[0]->order] > 0 &&
            (worst < 0 || set->items[i].nodes[0]->order < set->items[worst].nodes[0]->order))
            worst = i;
    }
    if (worst < 0)
        return tn_fail(TENON_INTERNAL, "the nodes cannot be ordered");
    tn_partition *gone = &set->items[worst];
    for (int i = 0; i < gone->node_count; i++) {
        o->owner[gone->nodes[i]->order] = -1;
        TN_TRY(tn_set_reason(gone->nodes[i], TENON_REASON_CIRCLE,
                             "the oneDNN partition %s would wait for a step that waits for it",
                             gone->ops));
    }
    tn_partition_free(gone);
    set->count--;
    if (worst < set->count) {
        *gone = set->items[set->count];
        for (int i = 0; i < gone->node_count; i++)
            o->owner[gone->nodes[i]->order] = worst;
    }
    return TENON_OK;
}

tenon_status tn_partitions_order(tn_partitions *set, tenon_graph *graph) {
    tenon_status status = TENON_OK;
    int64_t count = graph->node_count;
    size_t room = (size_t)count + 1;
    orderer o = {.set = set, .count = count};
    o.nodes = calloc(room, sizeof *o.nodes);
    o.owner = malloc(room * sizeof *o.owner);
    o.waiting = malloc(room * sizeof *o.waiting);
    o.heap = malloc(room * sizeof *o.heap);
    set->steps = tn_arena_array(&set->arena, room, sizeof *set->steps);
    if (!o.nodes || !o.owner || !o.waiting || !o.heap || !set->steps) {
        status = tn_no_memory();
        goto error;
    }
    for (tenon_node *node = graph->first; node; node = node->next) {
        o.nodes[node->order] = node;
        o.owner[node->order] = -1;
    }
    for (int32_t i = 0; i < set->count; i++) {
        for (int n = 0; n < set->items[i].node_count; n++)
            o.owner[set->items[i].nodes[n]->order] = i;
    }
    while (!make_steps(&o))
        TN_GOTO(dissolve(&o));
error:
    free(o.nodes);
    free(o.owner);
    free(o.waiting);
    free(o.heap);
    return status;
}
