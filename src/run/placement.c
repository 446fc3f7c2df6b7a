/* Where instances run: PUs for each, by the rules of tenon_topology_place. */
#include "core/fail.h"
#include "core/util.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/topology.h>

#define MAX_THREADS 4096

/* How much of a machine an instance may be spread over, the least first. */
typedef enum level {
    CELL,
    GROUP,
    NODE,
    MACHINE,
    LEVELS
} level; /* a cell: one kind in an L3 group */

typedef struct candidate {
    tenon_pu pu;
    int id[LEVELS]; /* of the part that it is in */
    int uses;       /* instances that have it */
    bool free;
    int group_free; /* free PUs of its L3 group, as an instance is placed */
} candidate;

/* A part of the machine, as an instance is placed. */
typedef struct part {
    int free, kind, taken; /* taken: PUs of its node that instances have */
} part;

typedef struct placer {
    candidate *all;
    part *parts; /* by id, at one level */
    int count, sibling_limit;
} placer;

/* Numbers for the parts that PUs are in. */
static void name_parts(placer *p) {
    for (int i = 0; i < p->count; i++) {
        candidate *c = &p->all[i];
        for (level l = CELL; l < LEVELS; l++) {
            c->id[l] = l == MACHINE ? 0 : i;
            for (int k = 0; k < i && l != MACHINE; k++) {
                const tenon_pu *other = &p->all[k].pu;
                bool same =
                    l == NODE ? other->node == c->pu.node
                              : other->l3 == c->pu.l3 && (l == GROUP || other->kind == c->pu.kind);
                if (same) {
                    c->id[l] = p->all[k].id[l];
                    break;
                }
            }
        }
    }
}

static bool available(const placer *p, const candidate *c) {
    return c->free && c->pu.sibling <= p->sibling_limit;
}

/* The best part at this level with `threads` PUs left: of the fastest kind, on the node that
 * instances have the least of, with the most left. -1: none. */
static int best_part(placer *p, level l, int threads) {
    int best = -1;
    memset(p->parts, 0, (size_t)p->count * sizeof *p->parts);
    for (int i = 0; i < p->count; i++) {
        candidate *c = &p->all[i];
        part *at = &p->parts[c->id[l]];
        at->free += available(p, c);
        at->kind = l == CELL ? c->pu.kind : 0;
    }
    for (int i = 0; i < p->count; i++) {
        for (int k = 0; l != MACHINE && k < p->count && p->all[i].id[l] == i; k++)
            p->parts[i].taken += p->all[k].pu.node == p->all[i].pu.node ? p->all[k].uses : 0;
    }
    for (int i = 0; i < p->count; i++) {
        const part *at = &p->parts[i];
        if (at->free < threads)
            continue;
        const part *than = best < 0 ? NULL : &p->parts[best];
        if (!than || at->kind > than->kind ||
            (at->kind == than->kind &&
             (at->taken < than->taken || (at->taken == than->taken && at->free > than->free))))
            best = i;
    }
    return best;
}

/* First PUs of cores before second ones, fast kinds before slow ones, whole L3 groups. */
static int order(const void *left, const void *right) {
    const candidate *a = *(const candidate *const *)left, *b = *(const candidate *const *)right;
    if (a->pu.sibling != b->pu.sibling)
        return a->pu.sibling - b->pu.sibling;
    if (a->pu.kind != b->pu.kind)
        return b->pu.kind - a->pu.kind;
    if (a->group_free != b->group_free)
        return b->group_free - a->group_free;
    if (a->pu.l3 != b->pu.l3)
        return a->pu.l3 - b->pu.l3;
    return a->pu.core - b->pu.core;
}

static void take(placer *p, level l, int id, int threads, candidate **list, int *pus) {
    int found = 0;
    for (int i = 0; i < p->count; i++) {
        candidate *c = &p->all[i];
        c->group_free = 0;
        for (int k = 0; k < p->count && l > GROUP; k++)
            c->group_free += p->all[k].pu.l3 == c->pu.l3 && available(p, &p->all[k]);
        if (c->id[l] == id && available(p, c))
            list[found++] = c;
    }
    assert(found > 0);
    qsort(list, (size_t)found, sizeof(candidate *), order);
    for (int i = 0; i < threads; i++) {
        candidate *c = list[i % found];
        c->uses += i < found;
        c->free = false;
        pus[i] = c->pu.os_index;
    }
}

/* PUs for the next instance. */
static void place_one(placer *p, int threads, candidate **list, int *pus) {
    int left = 0;
    for (int i = 0; i < p->count; i++)
        left += available(p, &p->all[i]);
    int wanted = threads < p->count ? threads : p->count;
    for (int i = 0; left < wanted && i < p->count; i++)
        p->all[i].free = true;
    for (level l = CELL; l < LEVELS; l++) {
        int id = best_part(p, l, wanted);
        if (id >= 0) {
            take(p, l, id, threads, list, pus);
            return;
        }
    }
}

static const candidate *find(const placer *p, int os_index) {
    const candidate *c = p->all;
    while (c->pu.os_index != os_index)
        c++;
    return c;
}

static void describe(const placer *p, int threads, const int *pus, tenon_place *place) {
    const candidate *first = find(p, pus[0]);
    *place = (tenon_place){.node = first->pu.node, .l3 = first->pu.l3};
    for (int i = 0; i < threads; i++) {
        const candidate *c = find(p, pus[i]);
        place->split_nodes |= c->pu.node != first->pu.node;
        place->split_l3 |= c->pu.l3 != first->pu.l3;
        place->mixed |= c->pu.kind != first->pu.kind;
        place->shared |= c->uses > 1 || i >= p->count;
        for (int k = 0; k < i; k++)
            place->siblings |= find(p, pus[k])->pu.core == c->pu.core && pus[k] != pus[i];
    }
}

/* The usable PUs, and how many of a core may be needed for all. */
static tenon_status placer_make(const tenon_topology *topology, int wanted, placer *p) {
    tenon_topology_info info;
    tenon_pu pu;
    tenon_topology_get_info(topology, &info);
    p->all = calloc((size_t)info.pus, sizeof *p->all);
    p->parts = calloc((size_t)info.pus, sizeof *p->parts);
    if (!p->all || !p->parts)
        return tn_no_memory();
    int core = -1, sibling = 0, deepest = 0;
    for (int i = 0; tenon_topology_pu(topology, i, &pu); i++) {
        if (!pu.usable)
            continue;
        sibling = pu.core == core ? sibling + 1 : 0;
        core = pu.core;
        pu.sibling = sibling; /* among those that may be used */
        deepest = sibling > deepest ? sibling : deepest;
        p->all[p->count++] = (candidate){.pu = pu, .free = true};
    }
    if (p->count == 0)
        return tn_fail(TENON_INVALID_ARGUMENT, "topology: no CPU may be used");
    for (int have = 0; p->sibling_limit <= deepest; p->sibling_limit++) {
        for (int i = 0; i < p->count; i++)
            have += p->all[i].pu.sibling == p->sibling_limit;
        if (have >= wanted)
            break;
    }
    name_parts(p);
    return TENON_OK;
}

tenon_status tenon_topology_place(const tenon_topology *topology, int instances, int threads,
                                  tenon_place *places, int *pus) {
    tenon_status status;
    placer p = {0};
    candidate **list = NULL;
    if (instances < 1 || threads < 1 || instances > MAX_THREADS / threads)
        return tn_fail(TENON_INVALID_ARGUMENT,
                       "%d instances of %d threads: there must be 1 to %d threads in all",
                       instances, threads, MAX_THREADS);
    TN_GOTO(placer_make(topology, instances * threads, &p));
    list = calloc((size_t)p.count, sizeof(candidate *));
    if (!list)
        TN_GOTO(tn_no_memory());
    for (int i = 0; i < instances; i++)
        place_one(&p, threads, list, pus + i * threads);
    for (int i = 0; i < instances; i++)
        describe(&p, threads, pus + i * threads, &places[i]);
error:
    free(list);
    free(p.all);
    free(p.parts);
    return status;
}
