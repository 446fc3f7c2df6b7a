/* Weights rounded to bfloat16, found again by the memory of the original. */
#include "core/fail.h"
#include "fusion/bf16.h"
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    tenon_tensor *from, *rounded;
    int64_t next; /* of the same slot; -1: none */
} entry;

struct tn_bf16 {
    entry *entries;
    int64_t *slots; /* the first entry of each, -1: none */
    int64_t count, capacity;
    size_t slot_count; /* a power of two */
};

tenon_status tn_bf16_create(tn_bf16 **out) {
    tn_bf16 *bf16 = calloc(1, sizeof *bf16);
    if (!bf16)
        return tn_no_memory();
    *out = bf16;
    return TENON_OK;
}

void tn_bf16_destroy(tn_bf16 **pointer) {
    tn_bf16 *bf16 = *pointer;
    *pointer = NULL;
    if (!bf16)
        return;
    for (int64_t i = 0; i < bf16->count; i++) {
        tenon_tensor_destroy(&bf16->entries[i].from);
        tenon_tensor_destroy(&bf16->entries[i].rounded);
    }
    free(bf16->entries);
    free(bf16->slots);
    free(bf16);
}

static size_t slot_of(const tn_bf16 *bf16, const tenon_view *view) {
    uint64_t hash = (uint64_t)(uintptr_t)view->data * 0x9e3779b97f4a7c15u;
    return (size_t)(hash >> 32) & (bf16->slot_count - 1);
}

static void fill_slots(tn_bf16 *bf16) {
    for (size_t i = 0; i < bf16->slot_count; i++)
        bf16->slots[i] = -1;
    for (int64_t i = 0; i < bf16->count; i++) {
        int64_t *slot = &bf16->slots[slot_of(bf16, &bf16->entries[i].from->view)];
        bf16->entries[i].next = *slot;
        *slot = i;
    }
}

static tenon_status grow(tn_bf16 *bf16) {
    if (bf16->count < bf16->capacity)
        return TENON_OK;
    int64_t capacity = bf16->capacity ? bf16->capacity * 2 : 64;
    entry *entries = realloc(bf16->entries, (size_t)capacity * sizeof *entries);
    if (!entries)
        return tn_no_memory();
    bf16->entries = entries;
    int64_t *slots = realloc(bf16->slots, (size_t)capacity * sizeof *slots);
    if (!slots)
        return tn_no_memory();
    bf16->slots = slots;
    bf16->capacity = capacity;
    bf16->slot_count = (size_t)capacity;
    fill_slots(bf16);
    return TENON_OK;
}

static bool same_elements(const tenon_view *a, const tenon_view *b) {
    return a->data == b->data && a->dtype == b->dtype && tn_same_shape(a, b) &&
           memcmp(a->strides, b->strides, (size_t)a->rank * sizeof *a->strides) == 0;
}

static tenon_status convert(const tenon_tensor *from, tenon_tensor **out) {
    const tenon_view *view = &from->view;
    tenon_tensor *rounded;
    TN_TRY(tenon_tensor_create(TENON_BFLOAT16, view->rank, view->shape, &rounded));
    int64_t count = tenon_view_numel(view);
    tenon_status status = TENON_OK;
    if (view->dtype == TENON_FLOAT32 && tenon_view_is_contiguous(view)) {
        const float *x = view->data;
        uint16_t *y = rounded->view.data;
        for (int64_t i = 0; i < count; i++)
            y[i] = tn_float_to_bf16(x[i]);
        if (from->storage->mapped) /* the run reads the copy only */
            tn_storage_forget_pages(from->storage, x, (size_t)count * sizeof *x);
    } else {
        status = tenon_view_copy(&rounded->view, view);
    }
    if (status == TENON_OK)
        *out = rounded;
    else
        tenon_tensor_destroy(&rounded);
    return status;
}

tenon_status tn_bf16_round(tn_bf16 *bf16, const tenon_tensor *tensor, tenon_tensor **out) {
    int64_t at = bf16->count ? bf16->slots[slot_of(bf16, &tensor->view)] : -1;
    while (at >= 0 && !same_elements(&bf16->entries[at].from->view, &tensor->view))
        at = bf16->entries[at].next;
    if (at >= 0)
        return tenon_tensor_share(bf16->entries[at].rounded, out);
    TN_TRY(grow(bf16));
    entry made = {0};
    tenon_status status;
    TN_GOTO(tenon_tensor_share(tensor, &made.from));
    TN_GOTO(convert(tensor, &made.rounded));
    TN_GOTO(tenon_tensor_share(made.rounded, out));
    int64_t *slot = &bf16->slots[slot_of(bf16, &tensor->view)];
    made.next = *slot;
    *slot = bf16->count;
    bf16->entries[bf16->count++] = made;
    return TENON_OK;
error:
    tenon_tensor_destroy(&made.from);
    tenon_tensor_destroy(&made.rounded);
    return status;
}

void tn_bf16_trim(tn_bf16 *bf16) {
    int64_t kept = 0;
    for (int64_t i = 0; i < bf16->count; i++) {
        entry *e = &bf16->entries[i];
        if (atomic_load(&e->from->storage->shares) > 1) {
            bf16->entries[kept++] = *e;
            continue;
        }
        tenon_tensor_destroy(&e->from);
        tenon_tensor_destroy(&e->rounded);
    }
    bf16->count = kept;
    fill_slots(bf16);
}
