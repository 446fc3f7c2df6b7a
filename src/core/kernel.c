#include "core/kernel.h"
#include "core/budget.h"
#include "core/pages.h"
#include "core/profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tn_scratch_block {
    struct tn_scratch_block *next;
    size_t size;
    bool taken;
    void *data;
} tn_scratch_block;

void *tn_call_scratch(tn_call *call, size_t size) {
    tn_scratch *scratch = call->scratch;
    tn_scratch_block *best = NULL;
    for (tn_scratch_block *block = scratch->blocks; block; block = block->next)
        if (!block->taken && block->size >= size && (!best || block->size < best->size))
            best = block;
    if (!best) {
        /* One that is too small grows, so that the blocks stay as many as one kernel wants at once.
         */
        for (tn_scratch_block *block = scratch->blocks; block; block = block->next)
            if (!block->taken && (!best || block->size > best->size))
                best = block;
        if (!best) {
            best = calloc(1, sizeof *best);
            if (!best)
                return NULL;
            best->next = scratch->blocks;
            scratch->blocks = best;
        }
        size_t rounded = (size + 63) & ~(size_t)63, before = best->size;
        free(best->data);
        tn_profile_memory(-(int64_t)best->size);
        best->data = NULL;
        best->size = 0;
        if (rounded < size || !tn_room_take(rounded - before) ||
            posix_memalign(&best->data, 64, rounded ? rounded : 64) != 0) {
            best->data = NULL;
            return NULL;
        }
        tn_pages_large(best->data, rounded);
        best->size = rounded;
        tn_profile_memory((int64_t)rounded);
    }
    best->taken = true;
    return best->data;
}

void tn_scratch_reset(tn_scratch *scratch) {
    for (tn_scratch_block *block = scratch->blocks; block; block = block->next)
        block->taken = false;
}

void tn_scratch_free(tn_scratch *scratch) {
    while (scratch->blocks) {
        tn_scratch_block *next = scratch->blocks->next;
        tn_profile_memory(-(int64_t)scratch->blocks->size);
        free(scratch->blocks->data);
        free(scratch->blocks);
        scratch->blocks = next;
    }
}

tenon_view tn_call_operand(const tn_call *call, int index) {
    tenon_view view = {0};
    const tenon_arg *arg = &call->node->args[index];
    if (call->first[index] >= 0)
        return call->in[call->first[index]];
    view.data = (void *)&arg->as;
    view.dtype = arg->kind == TENON_ARG_INT     ? TENON_INT64
                 : arg->kind == TENON_ARG_FLOAT ? TENON_FLOAT64
                 : arg->kind == TENON_ARG_BOOL  ? TENON_BOOL
                                                : TENON_DTYPE_NONE;
    return view;
}

tenon_status tn_call_fail(const tn_call *call, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return tn_fail(TENON_RUN_FAILED, "node '%s' (%s): %s", call->node->name, call->node->op->name,
                   text);
}
