/* The sentences of `tenon explain`: why a node is outside oneDNN, and why a partition begins where
 * it does. */
#include "core/fail.h"
#include "partitions/policy.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tenon_status tn_set_reason(tenon_node *node, tenon_reason kind, const char *format, ...) {
    char text[sizeof((tn_why *)0)->text];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    node->reason_kind = kind;
    /* Neighbours often have the same reason. */
    const tenon_node *prev = node->prev;
    if (prev && prev->reason && strcmp(prev->reason, text) == 0) {
        node->reason = prev->reason;
        return TENON_OK;
    }
    node->reason = tn_arena_strdup(&node->graph->arena, text);
    return node->reason ? TENON_OK : tn_no_memory();
}

/* ---- Operands ---- */

static void add(tn_why *why, const char *format, ...) TENON_PRINTF(2, 3);

static void add(tn_why *why, const char *format, ...) {
    size_t used = strlen(why->text);
    va_list list;
    va_start(list, format);
    vsnprintf(why->text + used, sizeof why->text - used, format, list);
    va_end(list);
}

/* "self float32[2, 3] with strides [1, 2]" */
static void add_view(tn_why *why, const char *name, const tenon_view *view) {
    char text[96];
    add(why, "%s %s", name, tn_shape_text(view->dtype, view->rank, view->shape, text, sizeof text));
    if (tenon_view_is_contiguous(view))
        return;
    add(why, " with strides [");
    for (int d = 0; d < view->rank; d++)
        add(why, d ? ", %lld" : "%lld", (long long)view->strides[d]);
    add(why, "]");
}

void tn_why_operands(tn_builder *b, const tenon_node *node) {
    tn_why *why = &b->refusal;
    if (why->kind != TENON_REASON_LAYOUT && why->kind != TENON_REASON_OPERANDS &&
        why->kind != TENON_REASON_DTYPE && why->kind != TENON_REASON_REFUSED &&
        why->kind != TENON_REASON_ONEDNN_SLOW)
        return;
    const char *separator = " (";
    for (int i = 0; i < node->op->param_count; i++) {
        const tenon_view *view = tn_b_view(b, node, i);
        if (!view || view->dtype == TENON_DTYPE_NONE)
            continue;
        add(why, "%s", separator);
        add_view(why, node->op->params[i].name, view);
        separator = ", ";
    }
    if (node->output_count > 0 && tn_b_out_view(b, node, 0)->dtype != TENON_DTYPE_NONE) {
        add(why, "%s", separator);
        add_view(why, "result", tn_b_out_view(b, node, 0));
        separator = ", ";
    }
    if (*separator == ',')
        add(why, ")");
}

/* ---- Boundaries ---- */

typedef struct explainer {
    const tn_builder *b;
    tn_partitions *set;
} explainer;

/* The op that makes the tensor, looked for behind other shapes of the same value; NULL when a
 * kernel, a view or nothing in this stretch does. */
static const tn_lowered *maker_of(const tn_builder *b, const tn_lt *tensor) {
    int32_t at = tensor->producer;
    while (at >= 0) {
        const tn_lowered *op = &b->ops[at];
        if (op->kind != dnnl_graph_op_wildcard)
            return op;
        if (!op->node)
            return NULL;
        at = b->tensors[op->in[0]].producer;
    }
    return NULL;
}

/* Who makes the memory in which the value lies, through some views; NULL for inputs and constants.
 */
static const tenon_node *source_of(const tenon_value *value) {
    for (int i = 0;
         i < 64 && value->node && value->node->op->kind == TN_OP_VIEW && value->node->use_count > 0;
         i++)
        value = value->node->uses[0].value;
    return value->node;
}

/* The op of the same partition behind which `op` is fused with another operand than `index`. */
static const tn_lowered *chain_before(const tn_builder *b, const tn_lowered *op, int index) {
    for (int k = 0; k < op->in_count; k++) {
        const tn_lowered *maker = k == index ? NULL : maker_of(b, &b->tensors[op->in[k]]);
        if (maker && maker->item == op->item)
            return maker;
    }
    return NULL;
}

static void second_use(const tenon_value *value, const tenon_node *reader, tn_why *why) {
    const tn_use *other = value->uses;
    while (other->next && other->node == reader)
        other = other->next;
    why->kind = TENON_REASON_SECOND_USE;
    if (other->node == reader)
        snprintf(why->text, sizeof why->text,
                 "'%s' is read twice by '%s'; oneDNN fuses along values with one use", value->name,
                 reader->name);
    else if (other->node)
        snprintf(why->text, sizeof why->text,
                 "'%s' has %lld uses, one of them in '%s' (%s); oneDNN fuses along values with one "
                 "use",
                 value->name, (long long)value->use_count, other->node->name,
                 other->node->op->name);
    else
        snprintf(why->text, sizeof why->text,
                 "'%s' is also a result of the model; oneDNN fuses along values with one use",
                 value->name);
}

/* Why the partition of `op` did not take in what makes its operand `value`: an op of another
 * partition (`maker`), or what runs outside oneDNN (NULL). */
static void between(const explainer *e, const tn_lowered *op, const tn_lt *tensor,
                    const tn_lowered *maker, tn_why *why) {
    const tn_builder *b = e->b;
    const tenon_value *value = tensor->value;
    const tenon_node *node = value->node;
    int major = b->caps->version / 10000, minor = b->caps->version / 100 % 100;
    char from[160];
    if (maker)
        snprintf(from, sizeof from, "%s", tn_dnnl_kind_text(maker->kind));
    else
        snprintf(from, sizeof from, "%s", node->op->name);
    bool batch_norm = op->kind == dnnl_graph_op_batch_norm_inference;
    bool product = op->kind == dnnl_graph_op_convolution && maker && maker->kind == op->kind;
    if (node->op->kind == TN_OP_VIEW && !tn_kind_starts(op->kind)) {
        why->kind = TENON_REASON_VIEW_BETWEEN;
        snprintf(why->text, sizeof why->text,
                 "'%s' comes through %s from '%s'; oneDNN fuses ops that touch", value->name,
                 node->op->name, source_of(value)->name);
    } else if (!maker && node->mark == TN_OUTSIDE && node->op->kind != TN_OP_VIEW) {
        why->kind = TENON_REASON_KERNEL_BEFORE;
        snprintf(why->text, sizeof why->text, "'%s' comes from a kernel (%s): %s", value->name,
                 node->op->name, node->reason ? node->reason : "");
    } else if (tn_kind_starts(op->kind) && !batch_norm && !product) {
        why->kind = TENON_REASON_NO_PATTERN;
        snprintf(why->text, sizeof why->text,
                 "oneDNN %d.%d has no pattern that joins %s to what is before it: '%s', from %s",
                 major, minor, tn_dnnl_kind_text(op->kind), value->name, from);
    } else if (!maker) {
        why->kind = TENON_REASON_STRETCH;
        snprintf(why->text, sizeof why->text,
                 "Tenon gives oneDNN some hundred nodes at a time, and '%s' (%s) is among those "
                 "given before",
                 value->name, node->op->name);
    } else if (value->use_count > 1) {
        second_use(value, op->node, why);
    } else if (tensor->apart) {
        *why = *tensor->apart;
    } else if (op->node->mark == TN_ALONE || maker->node->mark == TN_ALONE) {
        const tenon_node *alone = op->node->mark == TN_ALONE ? op->node : maker->node;
        why->kind = (tenon_reason)alone->reason_kind;
        snprintf(why->text, sizeof why->text, "'%s' is kept apart: %s", alone->name, alone->reason);
    } else if (e->set->items[maker->item].node_count > b->caps->chain) {
        why->kind = TENON_REASON_CHAIN_LIMIT;
        snprintf(why->text, sizeof why->text,
                 "oneDNN %d.%d fuses at most %d ops behind another, and '%s' ends such a chain",
                 major, minor, b->caps->chain, value->name);
    } else {
        why->kind = TENON_REASON_NO_PATTERN;
        snprintf(why->text, sizeof why->text,
                 "oneDNN %d.%d has no pattern that joins %s to %s before it ('%s')", major, minor,
                 tn_dnnl_kind_text(op->kind), from, value->name);
    }
}

/* The boundary that operand `index` of `op` is; false when it is none, or not a new one. */
static bool find_boundary(const explainer *e, const tn_lowered *op, int index, tn_why *why) {
    const tn_lt *tensor = &e->b->tensors[op->in[index]];
    const tn_partition *partition = &e->set->items[op->item];
    const tenon_value *value = tensor->value;
    if (!value || e->b->views[value->id].data || !source_of(value))
        return false;
    const tn_lowered *maker = maker_of(e->b, tensor);
    if (maker && maker->item == op->item)
        return false;
    for (int32_t i = 0; i < partition->boundary_count; i++) {
        if (partition->boundaries[i].value == value)
            return false;
    }
    const tn_lowered *chain = chain_before(e->b, op, index);
    if (!chain) {
        between(e, op, tensor, maker && maker->item >= 0 ? maker : NULL, why);
        return true;
    }
    why->kind = TENON_REASON_ONE_CHAIN;
    snprintf(why->text, sizeof why->text,
             "'%s' is the other operand of %s, which is fused behind %s; one oneDNN kernel has one "
             "chain",
             value->name, tn_dnnl_kind_text(op->kind), tn_dnnl_kind_text(chain->kind));
    return true;
}

static tenon_status add_boundary(const explainer *e, const tn_lowered *op, int index) {
    tn_partition *partition = &e->set->items[op->item];
    tn_why why;
    if (!find_boundary(e, op, index, &why))
        return TENON_OK;
    const char *text = tn_arena_strdup(&e->set->arena, why.text);
    if (!text)
        return tn_no_memory();
    partition->boundaries[partition->boundary_count++] =
        (tn_boundary){e->b->tensors[op->in[index]].value, why.kind, text};
    return TENON_OK;
}

/* Which of a first op's boundaries says most; the larger. */
static int telling(tenon_reason kind) {
    return kind == TENON_REASON_NO_PATTERN ? 0 : kind == TENON_REASON_KERNEL_BEFORE ? 1 : 2;
}

/* The partition begins as the operands of its first op say. */
static void begin(tn_partition *partition) {
    partition->reason_kind = TENON_REASON_START;
    partition->reason = "its operands are inputs and constants, or views of them";
    for (int32_t i = 0; i < partition->boundary_count; i++) {
        const tn_boundary *boundary = &partition->boundaries[i];
        if (partition->reason_kind != TENON_REASON_START &&
            telling(boundary->kind) <= telling(partition->reason_kind))
            continue;
        partition->reason_kind = boundary->kind;
        partition->reason = boundary->reason;
    }
}

tenon_status tn_explain_partitions(tn_builder *b, tn_partitions *set, int32_t first) {
    const explainer e = {b, set};
    int32_t count = set->count - first;
    int32_t *room = calloc((size_t)count + 1, sizeof *room);
    tenon_status status = TENON_OK;
    if (!room)
        return tn_no_memory();
    for (int32_t i = 0; i < b->op_count; i++) {
        if (b->ops[i].item >= first)
            room[b->ops[i].item - first] += b->ops[i].in_count;
    }
    for (int32_t i = 0; i < count; i++) {
        tn_partition *partition = &set->items[first + i];
        partition->boundaries =
            tn_arena_array(&set->arena, (size_t)room[i] + 1, sizeof *partition->boundaries);
        if (!partition->boundaries)
            TN_GOTO(tn_no_memory());
    }
    for (int32_t i = 0; i < b->op_count; i++) {
        const tn_lowered *op = &b->ops[i];
        if (op->item < first)
            continue;
        for (int k = 0; k < op->in_count; k++)
            TN_GOTO(add_boundary(&e, op, k));
        if (!set->items[op->item].reason)
            begin(&set->items[op->item]);
    }
error:
    free(room);
    return status;
}
