/* Finding partitions in a stretch of the graph.
 *
 * Every node of the stretch becomes oneDNN ops, or a Wildcard when oneDNN cannot take it, so that
 * oneDNN sees all dependencies and its partitions stay convex; values that are needed outside get
 * an End. When what oneDNN found cannot be used as it is (a node falls apart into two partitions,
 * one does not compile), the nodes concerned are set apart and the stretch is partitioned again. */
#include "core/budget.h"
#include "partitions/order.h"
#include "partitions/policy.h"
#include "partitions/shim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds that mapping and partitioning take for an op, and for each pair of a stretch's ops.
 */
#define OP_WORK 20e3
#define PAIR_WORK 200.0

typedef struct finder {
    tn_builder b;
    tn_partitions *set;
    tenon_node *first, *end; /* end: the node after the stretch, or NULL */
    int64_t first_order, last_order;
    dnnl_engine_t engine;
    int32_t mapped; /* ops of nodes; those behind are the Wildcards and Ends of a round */
    int32_t kept;   /* partitions of the set that stretches before this one made */
    dnnl_graph_graph_t graph;
    dnnl_graph_partition_t *found;
    size_t found_count;
    bool again;
} finder;

static bool in_stretch(const finder *f, const tenon_node *node) {
    return node && node->order >= f->first_order && node->order <= f->last_order;
}

static tenon_status put_outside(tenon_node *node, const tn_why *why) {
    node->mark = TN_OUTSIDE;
    return tn_set_reason(node, why->kind, "%s", why->text);
}

/* Lets it be a partition by itself, if it can. */
static tenon_status set_alone(tenon_node *node, const tn_why *why) {
    node->mark = TN_ALONE;
    return tn_set_reason(node, why->kind, "%s", why->text);
}

/* ---- Lowering ---- */

static tenon_status lower(finder *f) {
    static const tn_why split = {TENON_REASON_SPLIT_OPS,
                                 "split_ops was asked for, so that each node is a step by itself"};
    tn_builder *b = &f->b;
    for (tenon_node *node = f->first; node != f->end; node = node->next) {
        int32_t ops = b->op_count;
        b->node = node;
        b->refusal.text[0] = '\0';
        node->mark = TN_TAKEN;
        if (!tn_map_node(b, node)) {
            /* A mapping may have started; unused tensors do no harm. */
            while (b->op_count > ops)
                dnnl_graph_op_destroy(b->ops[--b->op_count].op);
            for (int i = 0; i < node->output_count; i++) {
                int32_t t = b->tensor_of[node->outputs[i]->id];
                if (t >= 0)
                    b->tensors[t].producer = -1;
            }
            tn_why_operands(b, node);
            TN_TRY(put_outside(node, &b->refusal));
        } else if (b->options->split_ops) {
            TN_TRY(set_alone(node, &split));
        }
        if (b->failed)
            return tn_no_memory();
    }
    f->mapped = b->op_count;
    return TENON_OK;
}

/* When all ops together are not worth a partition, none of them is, and oneDNN need not look at
 * them. */
static tenon_status skip_small(finder *f) {
    tn_builder *b = &f->b;
    tenon_status status = TENON_OK;
    tn_why why;
    int32_t *all = malloc(((size_t)f->mapped + 1) * sizeof *all);
    if (!all)
        return tn_no_memory();
    for (int32_t i = 0; i < f->mapped; i++)
        all[i] = i;
    if (f->mapped > 0 && !tn_worth(b, all, f->mapped, &why)) {
        for (int32_t i = 0; i < f->mapped; i++) {
            if (!tn_worth(b, &i, 1, &why))
                TN_GOTO(put_outside(b->ops[i].node, &why));
        }
        while (b->op_count > 0)
            dnnl_graph_op_destroy(b->ops[--b->op_count].op);
        f->mapped = 0;
    }
error:
    free(all);
    return status;
}

/* Tells each op its tensors, from `first` on. */
static tenon_status connect(finder *f, int32_t first) {
    tn_builder *b = &f->b;
    for (int32_t i = first; i < b->op_count; i++) {
        tn_lowered *op = &b->ops[i];
        for (int k = 0; k < op->in_count + op->out_count; k++) {
            dnnl_graph_logical_tensor_t logical;
            /* The outputs stand behind the inputs. */
            dnnl_status_t status = tn_b_logical(b, op->in[k], &logical);
            if (status == dnnl_success)
                status = k < op->in_count ? tn_dnnl_graph_op_add_input(op->op, &logical)
                                          : tn_dnnl_graph_op_add_output(op->op, &logical);
            if (status != dnnl_success)
                return tn_fail(tn_dnnl_status(status), "node '%s': oneDNN takes no such tensor: %s",
                               op->node ? op->node->name : "", tn_dnnl_text(status));
        }
    }
    return TENON_OK;
}

/* ---- Rounds ---- */

static void wildcard(finder *f, tenon_node *node) {
    tn_builder *b = &f->b;
    int *numbers = tn_arena_array(&b->arena, (size_t)node->use_count + 1, sizeof *numbers);
    int count = 0;
    if (!numbers) {
        b->failed = true;
        return;
    }
    b->node = NULL;
    for (int i = 0; i < node->use_count; i++) {
        if (in_stretch(f, node->uses[i].value->node))
            numbers[count++] = tn_b_value(b, node->uses[i].value);
    }
    if (count == 0)
        return; /* it depends on nothing here */
    for (int i = 0; i < node->output_count; i++)
        tn_b_op_list(b, dnnl_graph_op_wildcard, numbers, count, tn_b_value(b, node->outputs[i]));
}

static void end(finder *f, int32_t tensor, const tn_why *why) {
    f->b.node = NULL;
    f->b.tensors[tensor].apart = why;
    tn_b_op(&f->b, dnnl_graph_op_end, tensor, -1, -1, -1);
}

/* Ends for what is needed elsewhere, and around nodes that were set apart. */
static void ends(finder *f, tenon_node *node) {
    tn_builder *b = &f->b;
    for (int i = 0; i < node->output_count; i++) {
        int32_t tensor = b->tensor_of[node->outputs[i]->id];
        if (tensor < 0)
            continue;
        bool needed = node->mark == TN_ALONE;
        for (const tn_use *use = node->outputs[i]->uses; use && !needed; use = use->next)
            needed = !use->node || !in_stretch(f, use->node) || use->node->mark == TN_ALONE;
        if (needed)
            end(f, tensor, NULL);
    }
}

/* Keeps apart what this version would fuse wrongly, or slowly. */
static void keep_apart(finder *f) {
    static const tn_why right = {TENON_REASON_ACCURACY,
                                 "before 3.9 oneDNN swaps the sides of a subtraction or division "
                                 "whose right side it fuses"};
    static const tn_why by_row = {TENON_REASON_ONEDNN_SLOW,
                                  "behind a product an operand that changes from row to row only "
                                  "runs in oneDNN's reference code"};
    static const tn_why norm = {TENON_REASON_REFUSED,
                                "oneDNN does not come to an end when it compiles a batch norm "
                                "with a convolution that has a second use"};
    tn_builder *b = &f->b;
    for (int32_t i = 0; i < f->mapped; i++) {
        const tn_lowered *op = &b->ops[i];
        if (op->node->mark == TN_OUTSIDE)
            continue;
        bool ordered = op->kind == dnnl_graph_op_subtract || op->kind == dnnl_graph_op_divide;
        if (ordered && !b->caps->right_side_safe && b->tensors[op->in[1]].producer >= 0)
            end(f, op->in[1], &right);
        if (op->kind == dnnl_graph_op_batch_norm_inference && b->tensors[op->in[0]].value &&
            b->tensors[op->in[0]].value->use_count > 1)
            end(f, op->in[0], &norm);
        if (!tn_kind_binary(op->kind))
            continue;
        if (tn_fuses_slowly(b, op)) {
            for (int k = 0; k < op->in_count; k++)
                end(f, op->in[k], &by_row);
        }
        for (int k = 0; k < op->in_count; k++) {
            const tn_why *why = tn_fuses_wrongly(b, op, k);
            if (why)
                end(f, op->in[k], why);
        }
    }
}

static void end_round(finder *f) {
    tn_builder *b = &f->b;
    for (size_t i = 0; i < f->found_count; i++)
        if (f->found[i]) /* a family keeps some */
            dnnl_graph_partition_destroy(f->found[i]);
    free(f->found);
    f->found = NULL;
    f->found_count = 0;
    if (f->graph)
        dnnl_graph_graph_destroy(f->graph);
    f->graph = NULL;
    while (b->op_count > f->mapped) {
        tn_lowered *op = &b->ops[--b->op_count];
        if (op->out_count)
            b->tensors[op->out[0]].producer = -1;
        dnnl_graph_op_destroy(op->op);
    }
}

static tenon_status ask(finder *f) {
    tn_builder *b = &f->b;
    for (tenon_node *node = f->first; node != f->end; node = node->next) {
        if (node->mark == TN_OUTSIDE)
            wildcard(f, node);
    }
    for (tenon_node *node = f->first; node != f->end; node = node->next) {
        if (node->mark != TN_OUTSIDE)
            ends(f, node);
    }
    keep_apart(f);
    if (b->failed)
        return tn_no_memory();
    double ops = b->op_count;
    TN_TRY(tn_budget_work(ops * OP_WORK + ops * ops * PAIR_WORK));
    TN_TRY(connect(f, f->mapped));
    dnnl_status_t status = tn_dnnl_graph_graph_create_with_fpmath_mode(
        &f->graph, dnnl_cpu,
        b->options->bf16_math ? dnnl_fpmath_mode_bf16 : dnnl_fpmath_mode_strict);
    bool some = false; /* oneDNN refuses a graph without ops */
    for (int32_t i = 0; i < b->op_count && status == dnnl_success; i++) {
        const tn_lowered *op = &b->ops[i];
        b->ops[i].partition = b->ops[i].item = -1;
        if (op->node && op->node->mark == TN_OUTSIDE)
            continue;
        some = true;
        status = tn_dnnl_graph_add_op(f->graph, op->op);
        if (status == dnnl_invalid_graph_op && op->node) {
            tn_refuse(b, TENON_REASON_ATTRIBUTE, "oneDNN refuses the attributes of %s",
                      tn_dnnl_kind_text(op->kind));
            f->again = true;
            return put_outside(op->node, &b->refusal);
        }
    }
    if (!some)
        return TENON_OK;
    if (status == dnnl_success)
        status = tn_shim_partition(f->graph);
    if (status == dnnl_success)
        status = tn_dnnl_graph_graph_get_partition_num(f->graph, &f->found_count);
    if (status == dnnl_success) {
        f->found = calloc(f->found_count + 1, sizeof *f->found);
        if (!f->found) {
            f->found_count = 0;
            return tn_no_memory();
        }
        status = tn_dnnl_graph_graph_get_partitions(f->graph, f->found_count, f->found);
    }
    if (status == dnnl_out_of_memory)
        return tn_no_memory();
    if (status == dnnl_success)
        return TENON_OK;
    tn_log(TENON_LOG_WARN, "oneDNN does not partition the nodes from '%s' on: %s", f->first->name,
           tn_dnnl_text(status));
    tn_refuse(b, TENON_REASON_REFUSED, "oneDNN does not partition the nodes from '%s' on: %s",
              f->first->name, tn_dnnl_text(status));
    for (int32_t i = 0; i < f->mapped; i++)
        TN_TRY(put_outside(b->ops[i].node, &b->refusal));
    f->found_count = 0;
    return TENON_OK;
}

/* Marks each op with its partition. */
static tenon_status assign(finder *f) {
    tn_builder *b = &f->b;
    size_t base = b->first_id + ((size_t)1 << 31);
    for (size_t p = 0; p < f->found_count; p++) {
        size_t count = 0;
        dnnl_status_t status = tn_dnnl_graph_partition_get_op_num(f->found[p], &count);
        size_t *ids = calloc(count + 1, sizeof *ids);
        if (!ids)
            return tn_no_memory();
        if (status == dnnl_success)
            status = tn_dnnl_graph_partition_get_ops(f->found[p], count, ids);
        for (size_t i = 0; i < count && status == dnnl_success; i++) {
            if (ids[i] >= base && ids[i] - base < (size_t)b->op_count)
                b->ops[ids[i] - base].partition = (int32_t)p;
        }
        free(ids);
        if (status != dnnl_success)
            return tn_fail(tn_dnnl_status(status), "oneDNN does not tell a partition's ops: %s",
                           tn_dnnl_text(status));
    }
    return TENON_OK;
}

/* Nodes whose ops are in several partitions, or in one that oneDNN does not run. */
static tenon_status check_nodes(finder *f) {
    tn_builder *b = &f->b;
    const tn_lowered *before = NULL;
    for (int32_t i = 0; i < f->mapped; i++) {
        tn_lowered *op = &b->ops[i];
        if (op->node->mark == TN_OUTSIDE || op->kind == dnnl_graph_op_wildcard)
            continue;
        uint8_t supported = 0;
        if (op->partition >= 0)
            (void)tn_dnnl_graph_partition_is_supported(f->found[op->partition], &supported);
        bool apart = before && before->node == op->node && before->partition != op->partition;
        before = op;
        if (supported && !apart)
            continue;
        if (apart)
            tn_refuse(b, TENON_REASON_SPLIT,
                      "it takes several oneDNN ops, which oneDNN %d.%d does not fuse into one "
                      "kernel here",
                      b->caps->version / 10000, b->caps->version / 100 % 100);
        else
            tn_refuse(b, TENON_REASON_REFUSED,
                      "oneDNN %d.%d has no kernel for %s as it stands here",
                      b->caps->version / 10000, b->caps->version / 100 % 100,
                      tn_dnnl_kind_text(op->kind));
        tn_why_operands(b, op->node);
        TN_TRY(put_outside(op->node, &b->refusal));
        f->again = true;
    }
    return TENON_OK;
}

/* ---- From what was found to partitions of the set ---- */

static tn_partition *new_partition(finder *f) {
    tn_partitions *set = f->set;
    if (set->count == set->capacity) {
        int32_t capacity = set->capacity ? set->capacity * 2 : 16;
        tn_partition *more = tn_arena_array(&set->arena, (size_t)capacity, sizeof *more);
        if (!more)
            return NULL;
        if (set->count)
            memcpy(more, set->items, (size_t)set->count * sizeof *more);
        set->items = more;
        set->capacity = capacity;
    }
    tn_partition *made = &set->items[set->count];
    memset(made, 0, sizeof *made);
    return made;
}

/* Compiles the partition of ops[members[0..count)], and adds it to the set. */
static tenon_status keep(finder *f, const int32_t *members, int32_t count) {
    tn_builder *b = &f->b;
    const tn_lowered *head = &b->ops[members[0]];
    tn_text ops = {0};
    tn_partition *made = new_partition(f);
    if (!made)
        return tn_no_memory();
    made->nodes = tn_arena_array(&f->set->arena, (size_t)count, sizeof(tenon_node *));
    if (!made->nodes)
        return tn_no_memory();
    for (int32_t i = 0; i < count; i++) {
        const tn_lowered *op = &b->ops[members[i]];
        if (made->node_count == 0 || made->nodes[made->node_count - 1] != op->node)
            made->nodes[made->node_count++] = op->node;
        tn_text_add(&ops, i ? "+%s" : "%s", tn_dnnl_kind_text(op->kind));
    }
    made->ops = ops.failed ? NULL : tn_arena_strdup(&f->set->arena, ops.data);
    tn_text_free(&ops);
    if (!made->ops)
        return tn_no_memory();
    b->refusal.text[0] = '\0';
    tn_partition_source source = {f->found[head->partition], b->first_id, NULL, NULL, 0};
    tenon_status status = TENON_OK;
    if (b->options->family)
        status = tn_family_find(b, members, count, &f->found[head->partition], &source);
    if (status == TENON_OK)
        status = tn_partition_compile(b, &source, f->engine, made);
    if (status == TENON_BACKEND && b->refusal.text[0]) {
        bool single = made->node_count == 1;
        f->again = true;
        for (int32_t i = 0; i < made->node_count; i++) {
            TN_TRY(set_alone(made->nodes[i], &b->refusal));
            if (single)
                TN_TRY(put_outside(made->nodes[0], &b->refusal));
        }
        return TENON_OK;
    }
    if (status != TENON_OK)
        return status;
    made->op_count = count;
    for (int32_t i = 0; i < count; i++)
        b->ops[members[i]].item = f->set->count;
    f->set->count++;
    return TENON_OK;
}

static tenon_status keep_all(finder *f) {
    tn_builder *b = &f->b;
    tenon_status status = TENON_OK;
    size_t room = (size_t)f->mapped + 1;
    int32_t *members = malloc(room * sizeof *members);
    int32_t *next = malloc(room * sizeof *next); /* op -> the next one of its partition */
    int32_t *heads = malloc((f->found_count + 1) * sizeof *heads);
    if (!members || !next || !heads) {
        status = tn_no_memory();
        goto error;
    }
    for (size_t p = 0; p < f->found_count; p++)
        heads[p] = -1;
    for (int32_t i = f->mapped - 1; i >= 0; i--) {
        const tn_lowered *op = &b->ops[i];
        if (op->node->mark == TN_OUTSIDE || op->kind == dnnl_graph_op_wildcard || op->partition < 0)
            continue;
        next[i] = heads[op->partition];
        heads[op->partition] = i;
    }
    for (size_t p = 0; p < f->found_count; p++) {
        int32_t count = 0;
        for (int32_t i = heads[p]; i >= 0; i = next[i])
            members[count++] = i;
        if (count == 0)
            continue;
        const tn_why *slow = tn_starts_slowly(b, members, count);
        if (slow && b->ops[members[0]].node->mark != TN_ALONE) {
            TN_GOTO(set_alone(b->ops[members[0]].node, slow));
            f->again = true;
        }
        if (f->again)
            continue;
        tn_why why;
        if (tn_worth(b, members, count, &why)) {
            TN_GOTO(keep(f, members, count));
            continue;
        }
        for (int32_t i = 0; i < count; i++)
            TN_GOTO(put_outside(b->ops[members[i]].node, &why));
    }
error:
    free(members);
    free(next);
    free(heads);
    return status;
}

/* Makes the ops of nodes again: a oneDNN graph that was finalized leaves pointers to its own copies
 * of the ops in tensors that it shares with ours (seen in 3.6). */
static tenon_status renew(finder *f) {
    for (int32_t i = 0; i < f->mapped; i++) {
        dnnl_status_t status = tn_b_renew(&f->b, i);
        if (status != dnnl_success)
            return tn_fail(tn_dnnl_status(status), "oneDNN does not take an op a second time: %s",
                           tn_dnnl_text(status));
    }
    return connect(f, 0);
}

static tenon_status round_of(finder *f) {
    while (f->set->count > f->kept)
        tn_partition_free(&f->set->items[--f->set->count]);
    f->again = false;
    TN_TRY(ask(f));
    if (f->again)
        return TENON_OK;
    TN_TRY(assign(f));
    TN_TRY(check_nodes(f));
    return f->again ? TENON_OK : keep_all(f);
}

tenon_status tn_partitions_find(tn_partitions *set, const tenon_view *views,
                                const tn_partition_options *options, tenon_node *first,
                                tenon_node *last, dnnl_engine_t engine, int32_t *tensor_of) {
    finder f = {
        .set = set, .first = first, .end = last->next, .engine = engine, .kept = set->count};
    f.first_order = first->order;
    f.last_order = last->order;
    f.b = (tn_builder){.set = set,
                       .options = options,
                       .views = views,
                       .caps = tn_engine_caps(),
                       .tensor_of = tensor_of,
                       .first_id = tn_engine_ids(),
                       .causal_mask = -1};
    tenon_status status = lower(&f);
    if (status == TENON_OK)
        status = skip_small(&f);
    if (status == TENON_OK)
        status = connect(&f, 0);
    do {
        /* Each round but the last sets a node apart that the rounds before did not. */
        if (status == TENON_OK && f.mapped > 0)
            status = round_of(&f);
        if (status == TENON_OK && !f.again)
            status = tn_explain_partitions(&f.b, set, f.kept);
        end_round(&f);
        if (status == TENON_OK && f.again)
            status = renew(&f);
    } while (status == TENON_OK && f.again);
    while (f.b.op_count > 0)
        dnnl_graph_op_destroy(f.b.ops[--f.b.op_count].op);
    for (int32_t i = 0; i < f.b.tensor_count; i++) {
        if (f.b.tensors[i].value)
            tensor_of[f.b.tensors[i].value->id] = -1;
    }
    tn_text_free(&f.b.attrs);
    tn_arena_free(&f.b.arena);
    return status;
}
