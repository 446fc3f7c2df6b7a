/* Several sources side by side: sample i is sample i of each. */
#include "batch.h"
#include "source.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct part {
    batch_source *source;
    char *name;
    int *fields, count;
} part;

typedef struct join {
    batch_source base;
    part *parts;
    int part_count;
} join;

enum { MOST_FIELDS = 64 }; /* of a part */

static batch_got fetch(batch_source *base, int64_t index, const tenon_view *rows, char *why) {
    const join *j = (const join *)base;
    batch_got worst = BATCH_GOT;
    for (int i = 0; i < j->part_count; i++) {
        const part *p = &j->parts[i];
        tenon_view some[MOST_FIELDS];
        char reason[BATCH_TEXT];
        for (int k = 0; k < p->count; k++)
            some[k] = rows[p->fields[k]];
        batch_got got = p->source->fetch(p->source, index, some, reason);
        if (got == BATCH_END && base->count >= 0) {
            snprintf(reason, sizeof reason,
                     "input '%.200s' ends after %" PRId64 " of %" PRId64 " samples", p->name, index,
                     base->count);
            got = BATCH_FAILED;
        }
        if (got > worst) {
            worst = got;
            memcpy(why, reason, sizeof reason);
        }
    }
    return worst;
}

static void name(const batch_source *base, int64_t index, char *text) {
    const join *j = (const join *)base;
    j->parts[0].source->name(j->parts[0].source, index, text);
}

static tenon_status identify(const batch_source *base, cJSON *facts) {
    const join *j = (const join *)base;
    for (int i = 0; i < j->part_count; i++) {
        cJSON *own = cJSON_AddObjectToObject(facts, j->parts[i].name);
        if (!own)
            return batch_no_memory();
        BATCH_TRY(j->parts[i].source->identify(j->parts[i].source, own));
    }
    return TENON_OK;
}

static bool reads(const batch_source *base, const struct stat *file) {
    const join *j = (const join *)base;
    bool found = false;
    for (int i = 0; i < j->part_count && !found; i++)
        found = j->parts[i].source->reads(j->parts[i].source, file);
    return found;
}

static void destroy(batch_source *base) {
    join *j = (join *)base;
    for (int i = 0; j->parts && i < j->part_count; i++) {
        batch_source_destroy(&j->parts[i].source);
        free(j->parts[i].name);
        free(j->parts[i].fields);
    }
    free(j->parts);
    free(j);
}

/* The longest known count; parts of unknown length must have as many. */
static tenon_status check(join *j, batch_source *const *sources) {
    int known = -1;
    j->base.count = -1;
    for (int i = 0; i < j->part_count; i++) {
        int64_t count = sources[i]->count;
        if (count >= 0 && known >= 0 && count != j->base.count)
            return tenon_fail(TENON_INPUT_MISMATCH,
                              "input '%s' has %" PRId64 " samples, input '%s' has %" PRId64,
                              j->parts[known].name, j->base.count, j->parts[i].name, count);
        if (count >= 0) {
            known = i;
            j->base.count = count;
        }
        int loaders = sources[i]->loaders;
        if (loaders > 0 && (j->base.loaders == 0 || loaders < j->base.loaders))
            j->base.loaders = loaders;
    }
    return TENON_OK;
}

tenon_status batch_source_join(batch_source *const *parts, const char *const *names,
                               const int *const *fields, const int *counts, int part_count,
                               batch_source **out) {
    join *j = calloc(1, sizeof *j);
    if (!j)
        return batch_no_memory();
    j->base = (batch_source){
        .fetch = fetch, .name = name, .identify = identify, .reads = reads, .destroy = destroy};
    j->parts = calloc((size_t)part_count + 1, sizeof *j->parts);
    tenon_status status = j->parts ? TENON_OK : batch_no_memory();
    for (int i = 0; i < part_count && status == TENON_OK; i++) {
        part *p = &j->parts[j->part_count++];
        *p = (part){.name = strdup(names[i]),
                    .fields = malloc(((size_t)counts[i] + 1) * sizeof(int)),
                    .count = counts[i]};
        if (counts[i] > MOST_FIELDS)
            status =
                tenon_fail(TENON_UNSUPPORTED, "more than %d inputs from one file", MOST_FIELDS);
        else if (!p->name || !p->fields)
            status = batch_no_memory();
        else
            memcpy(p->fields, fields[i], (size_t)counts[i] * sizeof(int));
    }
    if (status == TENON_OK)
        status = check(j, parts);
    if (status != TENON_OK) {
        destroy(&j->base);
        return status;
    }
    for (int i = 0; i < part_count; i++)
        j->parts[i].source = parts[i];
    *out = &j->base;
    return TENON_OK;
}
