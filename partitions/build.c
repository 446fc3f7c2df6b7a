/* Lowering: what the mappings call. */
#include "partitions/internal.h"
#include "partitions/shim.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tn_refuse(tn_builder *b, tenon_reason kind, const char *format, ...) {
    va_list list;
    va_start(list, format);
    b->refusal.kind = kind;
    vsnprintf(b->refusal.text, sizeof b->refusal.text, format, list);
    va_end(list);
    return false;
}

dnnl_data_type_t tn_dnnl_dtype(tenon_dtype dtype) {
    switch (dtype) {
    case TENON_FLOAT32:
        return dnnl_f32;
    case TENON_BFLOAT16:
        return dnnl_bf16;
    case TENON_FLOAT16:
        return dnnl_f16;
    case TENON_INT32:
        return dnnl_s32;
    case TENON_INT8:
        return dnnl_s8;
    case TENON_UINT8:
        return dnnl_u8;
    case TENON_BOOL:
        return dnnl_boolean;
    default:
        return dnnl_data_type_undef;
    }
}

bool tn_view_dense(const tenon_view *view) {
    /* With sizes of 1 left out, the strides sorted must be the running products of the sizes. */
    bool used[TENON_MAX_RANK] = {false};
    int64_t expect = 1;
    for (int found = 0; found < view->rank; found++) {
        int next = -1;
        for (int d = 0; d < view->rank && next < 0; d++) {
            if (!used[d] && (view->shape[d] == 1 || view->strides[d] == expect))
                next = d;
        }
        if (next < 0)
            return false;
        used[next] = true;
        expect *= view->shape[next];
    }
    return true;
}

bool tn_view_disjoint(const tenon_view *view) {
    /* Along growing strides, each dimension steps over all that comes before. */
    bool used[TENON_MAX_RANK] = {false};
    int64_t reach = 1;
    for (int found = 0; found < view->rank; found++) {
        int next = -1;
        for (int d = 0; d < view->rank; d++) {
            if (!used[d] && (next < 0 || view->strides[d] < view->strides[next]))
                next = d;
        }
        used[next] = true;
        if (view->shape[next] == 1)
            continue;
        if (view->strides[next] < reach)
            return false;
        reach = view->strides[next] * view->shape[next];
    }
    return true;
}

bool tn_same_layout(const tenon_view *a, const tenon_view *b) {
    if (a->rank != b->rank)
        return false;
    for (int d = 0; d < a->rank; d++) {
        if (a->shape[d] != b->shape[d] || (a->shape[d] != 1 && a->strides[d] != b->strides[d]))
            return false;
    }
    return true;
}

const tenon_view *tn_b_view(const tn_builder *b, const tenon_node *node, int index) {
    tenon_value *value = tn_arg_value(node, index);
    return value && value->scalar == TN_TENSOR ? &b->views[value->id] : NULL;
}

const tenon_view *tn_b_out_view(const tn_builder *b, const tenon_node *node, int output) {
    return &b->views[node->outputs[output]->id];
}

bool tn_b_check(tn_builder *b, const tenon_node *node, const tenon_view *view) {
    const tenon_view *out = tn_b_out_view(b, node, 0);
    tenon_dtype dtype = out->dtype;
    if (dtype != TENON_FLOAT32 && dtype != TENON_BFLOAT16 && dtype != TENON_FLOAT16)
        return tn_refuse(b, TENON_REASON_DTYPE, "oneDNN Graph does not compute it in %s",
                         tenon_dtype_text(dtype));
    if ((dtype == TENON_BFLOAT16 && !b->caps->bfloat16) ||
        (dtype == TENON_FLOAT16 && !b->caps->float16))
        return tn_refuse(b, TENON_REASON_DTYPE, "oneDNN does not compute in %s on this CPU",
                         tenon_dtype_text(dtype));
    if (!view)
        return tn_refuse(b, TENON_REASON_OPERANDS, "an operand is a number");
    if (view->dtype != dtype)
        return tn_refuse(b, TENON_REASON_DTYPE, "it mixes %s with %s",
                         tenon_dtype_text(view->dtype), tenon_dtype_text(dtype));
    if (tenon_view_numel(out) == 0 || tenon_view_numel(view) == 0)
        return tn_refuse(b, TENON_REASON_OPERANDS, "a tensor is empty");
    return true;
}

bool tn_b_one_output(tn_builder *b, const tenon_node *node) {
    for (int i = 1; i < node->output_count; i++) {
        if (node->outputs[i]->use_count > 0)
            return tn_refuse(b, TENON_REASON_EXTRA_OUTPUT,
                             "output %d is used, which oneDNN Graph does not give", i);
    }
    return true;
}

/* ---- Tensors ---- */

/* Whether the strides are those of `layout` where sizes are not 1. */
static bool lies_as(const tn_lt *t, const int64_t *layout) {
    for (int d = 0; d < t->rank; d++)
        if (t->shape[d] != 1 && t->strides[d] != layout[d])
            return false;
    return true;
}

/* The stride of a dimension of size 1 means nothing, but oneDNN tells layouts by it: 3.7 computes
 * into a layout of its own, and does not copy the result, where it fits neither the row-major nor
 * the channels-last one. */
static void settle_strides(tn_lt *t) {
    int64_t rows[TENON_MAX_RANK], last[TENON_MAX_RANK];
    tn_contiguous_strides(t->rank, t->shape, rows);
    if (t->rank >= 3 && t->rank <= 5) {
        tn_channels_last_strides(t->rank, t->shape, last);
        if (memcmp(last, t->strides, (size_t)t->rank * sizeof *last) == 0)
            return;
        if (lies_as(t, last) && !lies_as(t, rows)) {
            memcpy(t->strides, last, (size_t)t->rank * sizeof *last);
            return;
        }
    }
    for (int d = t->rank - 1; d >= 0; d--)
        if (t->shape[d] == 1)
            t->strides[d] = d == t->rank - 1 ? 1 : t->strides[d + 1] * t->shape[d + 1];
}

static int add_tensor(tn_builder *b, const tn_lt *tensor) {
    if (b->tensor_count == b->tensor_capacity) {
        int capacity = b->tensor_capacity ? b->tensor_capacity * 2 : 256;
        tn_lt *more = tn_arena_array(&b->arena, (size_t)capacity, sizeof *more);
        if (!more) {
            b->failed = true;
            return 0;
        }
        if (b->tensor_count)
            memcpy(more, b->tensors, (size_t)b->tensor_count * sizeof *more);
        b->tensors = more;
        b->tensor_capacity = capacity;
    }
    b->tensors[b->tensor_count] = *tensor;
    settle_strides(&b->tensors[b->tensor_count]);
    return b->tensor_count++;
}

int tn_b_value(tn_builder *b, tenon_value *value) {
    if (b->tensor_of[value->id] >= 0)
        return b->tensor_of[value->id];
    const tenon_view *view = &b->views[value->id];
    tn_lt made = {.value = value, .dtype = tn_dnnl_dtype(value->dtype), .producer = -1};
    if (view->dtype != TENON_DTYPE_NONE && view->rank > 0) {
        made.rank = view->rank;
        memcpy(made.shape, view->shape, sizeof made.shape);
        memcpy(made.strides, view->strides, sizeof made.strides);
    } else { /* one element: oneDNN likes a dimension */
        made.rank = 1;
        made.shape[0] = made.strides[0] = 1;
    }
    int tensor = add_tensor(b, &made);
    b->tensor_of[value->id] = tensor;
    return tensor;
}

static int add_reshaped(tn_builder *b, tenon_value *value, int rank, const int64_t *shape,
                        const int64_t *strides) {
    tn_lt made = {
        .value = value, .dtype = tn_dnnl_dtype(value->dtype), .producer = -1, .rank = rank};
    memcpy(made.shape, shape, (size_t)rank * sizeof *shape);
    memcpy(made.strides, strides, (size_t)rank * sizeof *strides);
    return add_tensor(b, &made);
}

/* A Wildcard between the value and its other shape keeps the dependency. */
int tn_b_reshaped(tn_builder *b, tenon_value *value, int rank, const int64_t *shape,
                  const int64_t *strides) {
    int whole = tn_b_value(b, value);
    int made = add_reshaped(b, value, rank, shape, strides);
    if (!b->failed && !b->views[value->id].data)
        tn_b_op(b, dnnl_graph_op_wildcard, whole, -1, -1, made);
    return made;
}

int tn_b_reshaped_out(tn_builder *b, tenon_node *node, int rank, const int64_t *shape,
                      const int64_t *strides) {
    int whole = tn_b_value(b, node->outputs[0]);
    int made = add_reshaped(b, node->outputs[0], rank, shape, strides);
    if (!b->failed)
        tn_b_op(b, dnnl_graph_op_wildcard, made, -1, -1, whole);
    return made;
}

int tn_b_literal(tn_builder *b, tenon_dtype dtype, int rank, const int64_t *shape, double number,
                 void **memory) {
    int64_t count = tn_numel(rank, shape);
    size_t size = tenon_dtype_size(dtype);
    /* The room to align it: oneDNN's vector loads do not need it, but like it. */
    char *room = tn_arena_array(&b->set->arena, (size_t)count + 64 / size, size);
    if (!room) {
        b->failed = true;
        return 0;
    }
    room += -(uintptr_t)room % 64;
    for (int64_t i = 0; i < count; i++)
        tn_store_float(room + (size_t)i * size, dtype, number);
    tn_lt made = {.literal = room, .dtype = tn_dnnl_dtype(dtype), .producer = -1, .rank = rank};
    memcpy(made.shape, shape, (size_t)rank * sizeof *shape);
    tn_contiguous_strides(rank, shape, made.strides);
    if (memory)
        *memory = room;
    return add_tensor(b, &made);
}

int tn_b_scalar(tn_builder *b, tenon_dtype dtype, double number) {
    static const int64_t one = 1;
    return tn_b_literal(b, dtype, 1, &one, number, NULL);
}

int tn_b_inner(tn_builder *b, tenon_dtype dtype, int rank, const int64_t *shape) {
    tn_lt made = {.dtype = tn_dnnl_dtype(dtype), .producer = -1, .rank = rank};
    memcpy(made.shape, shape, (size_t)rank * sizeof *shape);
    tn_contiguous_strides(rank, shape, made.strides);
    return add_tensor(b, &made);
}

void tn_b_weight(tn_builder *b, int tensor) {
    tn_lt *t = &b->tensors[tensor];
    if (b->options->pack_weights && t->value && b->views[t->value->id].data)
        t->constant = true;
}

/* ---- Ops ---- */

static bool grow_ops(tn_builder *b) {
    if (b->op_count < b->op_capacity)
        return true;
    int capacity = b->op_capacity ? b->op_capacity * 2 : 128;
    tn_lowered *more = tn_arena_array(&b->arena, (size_t)capacity, sizeof *more);
    if (!more)
        return false;
    if (b->op_count)
        memcpy(more, b->ops, (size_t)b->op_count * sizeof *more);
    b->ops = more;
    b->op_capacity = capacity;
    return true;
}

void tn_b_op_list(tn_builder *b, dnnl_graph_op_kind_t kind, const int *in, int in_count, int out) {
    if (b->failed)
        return;
    int out_count = out >= 0;
    tn_lowered made = {.kind = kind,
                       .node = b->node,
                       .in_count = in_count,
                       .out_count = out_count,
                       .partition = -1,
                       .item = -1,
                       .attrs = b->attrs.length,
                       .attrs_end = b->attrs.length};
    made.in = tn_arena_array(&b->arena, (size_t)(in_count + out_count) + 1, sizeof *made.in);
    size_t id = b->first_id + ((size_t)1 << 31) + (size_t)b->op_count;
    if (!made.in || !grow_ops(b) ||
        tn_dnnl_graph_op_create(&made.op, id, kind, tn_dnnl_kind_text(kind)) != dnnl_success) {
        b->failed = true;
        return;
    }
    made.out = made.in + in_count;
    memcpy(made.in, in, (size_t)in_count * sizeof *in);
    if (out_count) {
        made.out[0] = out;
        b->tensors[out].producer = b->op_count;
    }
    b->ops[b->op_count++] = made;
}

void tn_b_op(tn_builder *b, dnnl_graph_op_kind_t kind, int in0, int in1, int in2, int out) {
    int in[3] = {in0, in1, in2};
    int count = in0 < 0 ? 0 : in1 < 0 ? 1 : in2 < 0 ? 2 : 3;
    tn_b_op_list(b, kind, in, count, out);
}

static dnnl_graph_op_t last(tn_builder *b) {
    return b->failed || b->op_count == 0 ? NULL : b->ops[b->op_count - 1].op;
}

typedef enum attr_type { ATTR_INTS, ATTR_FLOATS, ATTR_BOOL, ATTR_STRING } attr_type;

typedef struct attr_head {
    int32_t attr, type, size; /* bytes that follow */
} attr_head;

static dnnl_status_t set_attr(dnnl_graph_op_t op, const attr_head *head, const void *bytes) {
    dnnl_graph_op_attr_t attr = (dnnl_graph_op_attr_t)head->attr;
    size_t size = (size_t)head->size;
    switch ((attr_type)head->type) {
    case ATTR_INTS:
        return tn_dnnl_graph_op_set_attr_s64(op, attr, bytes, size / sizeof(int64_t));
    case ATTR_FLOATS:
        return tn_dnnl_graph_op_set_attr_f32(op, attr, bytes, size / sizeof(float));
    case ATTR_BOOL:
        return tn_dnnl_graph_op_set_attr_bool(op, attr, bytes, size);
    default:
        return tn_dnnl_graph_op_set_attr_str(op, attr, bytes, size);
    }
}

/* Sets an attribute of the last op, and notes it. */
static void set(tn_builder *b, dnnl_graph_op_attr_t attr, attr_type type, const void *bytes,
                size_t size) {
    attr_head head = {(int32_t)attr, (int32_t)type, (int32_t)size};
    if (!last(b))
        return;
    dnnl_status_t status = set_attr(last(b), &head, bytes);
    tn_text_put(&b->attrs, (const char *)&head, sizeof head);
    tn_text_put(&b->attrs, bytes, size);
    b->ops[b->op_count - 1].attrs_end = b->attrs.length;
    if (status != dnnl_success || b->attrs.failed)
        b->failed = true;
}

dnnl_status_t tn_b_renew(tn_builder *b, int32_t index) {
    tn_lowered *op = &b->ops[index];
    dnnl_graph_op_t made = NULL;
    size_t id = b->first_id + ((size_t)1 << 31) + (size_t)index;
    dnnl_status_t status =
        tn_dnnl_graph_op_create(&made, id, op->kind, tn_dnnl_kind_text(op->kind));
    for (size_t at = op->attrs; status == dnnl_success && at < op->attrs_end;) {
        attr_head head;
        memcpy(&head, b->attrs.data + at, sizeof head);
        /* A copy that is aligned, and ends in a NUL for strings. */
        char *bytes = calloc((size_t)head.size + 1, 1);
        if (bytes)
            memcpy(bytes, b->attrs.data + at + sizeof head, (size_t)head.size);
        status = bytes ? set_attr(made, &head, bytes) : dnnl_out_of_memory;
        free(bytes);
        at += sizeof head + (size_t)head.size;
    }
    if (status != dnnl_success) {
        if (made)
            dnnl_graph_op_destroy(made);
        return status;
    }
    dnnl_graph_op_destroy(op->op);
    op->op = made;
    return dnnl_success;
}

void tn_b_set_ints(tn_builder *b, dnnl_graph_op_attr_t attr, const int64_t *values, int count) {
    set(b, attr, ATTR_INTS, values, (size_t)count * sizeof *values);
}

void tn_b_set_int(tn_builder *b, dnnl_graph_op_attr_t attr, int64_t value) {
    tn_b_set_ints(b, attr, &value, 1);
}

void tn_b_set_floats(tn_builder *b, dnnl_graph_op_attr_t attr, const float *values, int count) {
    set(b, attr, ATTR_FLOATS, values, (size_t)count * sizeof *values);
}

void tn_b_set_float(tn_builder *b, dnnl_graph_op_attr_t attr, double value) {
    float number = (float)value;
    tn_b_set_floats(b, attr, &number, 1);
}

void tn_b_set_bool(tn_builder *b, dnnl_graph_op_attr_t attr, bool value) {
    uint8_t byte = value;
    set(b, attr, ATTR_BOOL, &byte, 1);
}

void tn_b_set_string(tn_builder *b, dnnl_graph_op_attr_t attr, const char *value) {
    set(b, attr, ATTR_STRING, value, strlen(value));
}

dnnl_status_t tn_b_logical(const tn_builder *b, int32_t tensor, dnnl_graph_logical_tensor_t *out) {
    const tn_lt *t = &b->tensors[tensor];
    size_t id = b->first_id + (size_t)tensor;
    *out = (dnnl_graph_logical_tensor_t){0};
    if (b->options->family && !t->constant && !t->literal)
        return tn_dnnl_graph_logical_tensor_init(out, id, t->dtype, t->rank,
                                                 dnnl_graph_layout_type_undef,
                                                 dnnl_graph_tensor_property_variable);
    return tn_dnnl_graph_logical_tensor_init_with_strides(
        out, id, t->dtype, t->rank, t->shape, t->strides,
        t->constant ? dnnl_graph_tensor_property_constant : dnnl_graph_tensor_property_variable);
}
