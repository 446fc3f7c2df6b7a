#include "partitions/partitions.h"
#include "core/fail.h"
#include "partitions/order.h"
#include <stdlib.h>
#include <string.h>

/* Nodes that oneDNN sees at once: partitioning takes it quadratic time, and stack along chains of
 * ops (16,384 ops fit 1 MiB). */
#define STRETCH 512

#define VIEW_REASON "it only renames memory: strides express it, and nothing runs"

bool tn_map_none(tn_builder *b, tenon_node *node) {
    return tn_refuse(b, TENON_REASON_NOT_IN_OP_SET, "%s is not in oneDNN Graph's op set",
                     node->op->name);
}

bool tn_map_chosen(tn_builder *b, tenon_node *node) {
    if (node->choice)
        return tn_refuse(b, TENON_REASON_KERNEL_PASS,
                         "a pass chose this kernel of Tenon's (%s) for it: %s", node->op->name,
                         node->choice);
    return tn_refuse(b, TENON_REASON_KERNEL_PASS,
                     "a pass chose this kernel of Tenon's (%s) for it, by its rule",
                     node->op->name);
}

static const struct {
    tn_map_fn map;
    const char *text;
} maps[TN_OP_COUNT + 1] = {
#define OP(id, schema, infer, kernel, map) [TN_OP_##id] = {tn_map_##map, #map},
#define VIEW(id, schema, infer, view)
#define INPLACE(id, schema)
#define LOWER(id, schema, infer)
#define SYM(id, schema, eval)
#include "core/ops.def"
#undef OP
#undef VIEW
#undef INPLACE
#undef LOWER
#undef SYM
};

const char *tn_onednn_text(int id) {
    if (id < 0 || id >= TN_OP_COUNT || !maps[id].map || maps[id].map == tn_map_none ||
        maps[id].map == tn_map_chosen)
        return "";
    return maps[id].text;
}

bool tn_map_node(tn_builder *b, tenon_node *node) {
    int id = node->op->id;
    if (node->op->kind == TN_OP_VIEW)
        return tn_refuse(b, TENON_REASON_VIEW, VIEW_REASON);
    if (node->barred)
        return tn_refuse(b, TENON_REASON_VERIFY, "%s", node->barred);
    if (id < 0 || id >= TN_OP_COUNT || !maps[id].map)
        return tn_refuse(b, TENON_REASON_NOT_IN_OP_SET, "%s is not in oneDNN Graph's op set",
                         node->op->name);
    return maps[id].map(b, node);
}

/* cross[i]: how many values made by node i or before are used after it. */
static tenon_status count_crossings(const tenon_graph *graph, int32_t **out) {
    int32_t *cross = calloc((size_t)graph->node_count + 1, sizeof *cross);
    if (!cross)
        return tn_no_memory();
    for (const tenon_node *node = graph->first; node; node = node->next) {
        for (int i = 0; i < node->output_count; i++) {
            int64_t last = node->order;
            for (const tn_use *use = node->outputs[i]->uses; use; use = use->next) {
                if (use->node && use->node->order > last)
                    last = use->node->order;
            }
            cross[node->order]++;
            cross[last]--;
        }
    }
    for (int64_t i = 1; i < graph->node_count; i++)
        cross[i] += cross[i - 1];
    *out = cross;
    return TENON_OK;
}

/* The last node of the stretch that begins at `first`: the cut falls where the fewest values cross
 * it. */
static tenon_node *stretch_end(tenon_node *first, const int32_t *cross) {
    tenon_node *best = NULL, *node = first;
    for (int i = 0; i < STRETCH; i++, node = node->next) {
        if (!node->next)
            return node;
        if (i >= STRETCH / 2 && (!best || cross[node->order] <= cross[best->order]))
            best = node;
    }
    return best;
}

static tenon_status find_all(tn_partitions *set, tenon_graph *graph, const tenon_view *views,
                             const tn_partition_options *options) {
    dnnl_engine_t engine;
    int32_t *cross = NULL, *tensor_of = NULL;
    tenon_status status;
    TN_GOTO(tn_engine_start(options->isa, &engine));
    TN_GOTO(count_crossings(graph, &cross));
    size_t values = (size_t)graph->value_count + 1;
    tensor_of = malloc(values * sizeof *tensor_of);
    if (!tensor_of) {
        status = tn_no_memory();
        goto error;
    }
    memset(tensor_of, -1, values * sizeof *tensor_of);
    for (tenon_node *first = graph->first, *last; first; first = last->next) {
        last = stretch_end(first, cross);
        TN_GOTO(tn_partitions_find(set, views, options, first, last, engine, tensor_of));
    }
error:
    free(cross);
    free(tensor_of);
    return status;
}

static size_t count_weights(const tn_partitions *set, const tenon_view *views) {
    size_t bytes = 0;
    for (int32_t i = 0; i < set->count; i++) {
        const tn_partition *p = &set->items[i];
        for (int32_t k = 0; k < p->input_count; k++) {
            const tenon_view *view = &views[p->inputs[k]->id];
            if (view->data)
                bytes += (size_t)tenon_view_numel(view) * tenon_dtype_size(view->dtype);
        }
    }
    return bytes;
}

static tenon_status set_reference_reason(tenon_node *node) {
    if (node->op->kind == TN_OP_VIEW)
        return tn_set_reason(node, TENON_REASON_VIEW, VIEW_REASON);
    return tn_set_reason(node, TENON_REASON_BACKEND,
                         "the reference backend was asked for, which runs everything in Tenon's "
                         "kernels");
}

tenon_status tn_partitions_create(tenon_graph *graph, const tenon_view *views,
                                  const tn_partition_options *options, tn_partitions **out) {
    tenon_status status = TENON_OK;
    tn_partitions *set = calloc(1, sizeof *set);
    if (!set)
        return tn_no_memory();
    tn_graph_number(graph);
    tn_engine_enter();
    if (options->backend == TENON_BACKEND_REFERENCE) {
        for (tenon_node *node = graph->first; node; node = node->next)
            TN_GOTO(set_reference_reason(node));
    } else {
        TN_GOTO(find_all(set, graph, views, options));
    }
    TN_GOTO(tn_partitions_order(set, graph));
    if (options->pack_weights && !options->family && !options->dry_run) {
        set->weight_bytes = count_weights(set, views);
        tn_engine_use(set->weight_bytes);
    }
    *out = set;
    return TENON_OK;
error:
    tn_partitions_destroy(&set);
    return status;
}

void tn_partitions_destroy(tn_partitions **set) {
    if (!*set)
        return;
    for (int32_t i = 0; i < (*set)->count; i++)
        tn_partition_free(&(*set)->items[i]);
    tn_engine_leave((*set)->weight_bytes);
    tn_arena_free(&(*set)->arena);
    free(*set);
    *set = NULL;
}
