/* Two orders of placing buffers, of which the better is taken. By time: as an allocator with free
 * lists would, in order of steps, which is near-linear. By size: the largest first, each into the
 * smallest gap among those in use at the same time, which is usually tighter and quadratic, so it
 * is kept to small plans. */
#include "run/offsets.h"
#include "core/fail.h"
#include <stdlib.h>
#include <string.h>

#define BY_SIZE_LIMIT 8000

/* ---- By time ---- */

#define NONE (-1)
#define CLASSES 256 /* 4 to each power of two */
#define SEARCH 32   /* blocks looked at in one class for the best fit */

/* A block of the simulated heap: in use or free, in a list by address and, when free, in its
 * class's list. */
typedef struct block {
    int64_t offset, size;
    int32_t before, after;  /* by address */
    int32_t previous, next; /* free blocks of one class */
    bool free;
} block;

typedef struct heap {
    block *blocks;
    int32_t used, last; /* `last` by address */
    int32_t unused;     /* block records to use again, by `next` */
    int32_t lists[CLASSES];
    int64_t top;
} heap;

static int size_class(int64_t size) {
    uint64_t units = (uint64_t)size / TN_ALIGN;
    int log = 63 - __builtin_clzll(units | 1);
    int quarter = log >= 2 ? (int)(units >> (log - 2)) & 3 : 0;
    return log * 4 + quarter;
}

static void list_add(heap *h, int32_t b) {
    int32_t *head = &h->lists[size_class(h->blocks[b].size)];
    h->blocks[b].free = true;
    h->blocks[b].previous = NONE;
    h->blocks[b].next = *head;
    if (*head != NONE)
        h->blocks[*head].previous = b;
    *head = b;
}

static void list_remove(heap *h, int32_t b) {
    block *x = &h->blocks[b];
    x->free = false;
    if (x->next != NONE)
        h->blocks[x->next].previous = x->previous;
    if (x->previous != NONE)
        h->blocks[x->previous].next = x->next;
    else
        h->lists[size_class(x->size)] = x->next;
}

static int32_t block_new(heap *h, int64_t offset, int64_t size, int32_t before, int32_t after) {
    int32_t b = h->unused;
    if (b != NONE)
        h->unused = h->blocks[b].next;
    else
        b = h->used++;
    h->blocks[b] = (block){offset, size, before, after, NONE, NONE, false};
    if (before != NONE)
        h->blocks[before].after = b;
    if (after != NONE)
        h->blocks[after].before = b;
    else
        h->last = b;
    return b;
}

/* Joins the block after `b` to it. */
static void block_join(heap *h, int32_t b) {
    int32_t gone = h->blocks[b].after;
    h->blocks[b].size += h->blocks[gone].size;
    h->blocks[b].after = h->blocks[gone].after;
    if (h->blocks[gone].after != NONE)
        h->blocks[h->blocks[gone].after].before = b;
    else
        h->last = b;
    h->blocks[gone].next = h->unused;
    h->unused = gone;
}

static int32_t heap_take(heap *h, int64_t size) {
    int32_t best = NONE;
    for (int c = size_class(size); c < CLASSES && best == NONE; c++) {
        int32_t b = h->lists[c];
        for (int i = 0; i < SEARCH && b != NONE; i++, b = h->blocks[b].next) {
            if (h->blocks[b].size >= size &&
                (best == NONE || h->blocks[b].size < h->blocks[best].size))
                best = b;
        }
    }
    if (best == NONE) {
        if (h->last != NONE && h->blocks[h->last].free) {
            best = h->last;
            list_remove(h, best);
            h->blocks[best].size = size;
            h->top = h->blocks[best].offset + size;
        } else {
            best = block_new(h, h->top, size, h->last, NONE);
            h->top += size;
        }
        return best;
    }
    list_remove(h, best);
    if (h->blocks[best].size > size) {
        int32_t rest = block_new(h, h->blocks[best].offset + size, h->blocks[best].size - size,
                                 best, h->blocks[best].after);
        h->blocks[best].size = size;
        list_add(h, rest);
    }
    return best;
}

static void heap_give(heap *h, int32_t b) {
    int32_t after = h->blocks[b].after, before = h->blocks[b].before;
    if (after != NONE && h->blocks[after].free) {
        list_remove(h, after);
        block_join(h, b);
    }
    if (before != NONE && h->blocks[before].free) {
        list_remove(h, before);
        block_join(h, before);
        b = before;
    }
    list_add(h, b);
}

static int64_t align_up(int64_t size) {
    return (size + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
}

/* Indices of the buffers in order of `first` (or of `last`), by counting; NULL when memory is out.
 */
static int32_t *in_order(const tn_buffer *buffers, int32_t count, bool by_last) {
    int32_t steps = 0;
    for (int32_t i = 0; i < count; i++)
        steps = buffers[i].last >= steps ? buffers[i].last + 1 : steps;
    int32_t *start = calloc((size_t)steps + 2, sizeof *start);
    int32_t *order = malloc(((size_t)count + 1) * sizeof *order);
    if (!start || !order) {
        free(start);
        free(order);
        return NULL;
    }
    for (int32_t i = 0; i < count; i++)
        start[(by_last ? buffers[i].last : buffers[i].first) + 1]++;
    for (int32_t s = 0; s < steps; s++)
        start[s + 1] += start[s];
    for (int32_t i = 0; i < count; i++)
        order[start[by_last ? buffers[i].last : buffers[i].first]++] = i;
    free(start);
    return order;
}

static tenon_status by_time(tn_buffer *buffers, int32_t count, const int32_t *starts,
                            const int32_t *ends, int64_t *total) {
    heap h = {.last = NONE, .unused = NONE};
    memset(h.lists, 0xff, sizeof h.lists);
    /* A take adds at most one record beside its own. */
    h.blocks = malloc(((size_t)count * 2 + 1) * sizeof *h.blocks);
    int32_t *held = malloc(((size_t)count + 1) * sizeof *held);
    if (!h.blocks || !held) {
        free(h.blocks);
        free(held);
        return tn_no_memory();
    }
    for (int32_t i = 0, gone = 0; i < count; i++) {
        /* NOLINTNEXTLINE(*ArraySubscript): `starts` and `ends` have all buffers */
        tn_buffer *b = &buffers[starts[i]];
        for (; buffers[ends[gone]].last < b->first; gone++)
            heap_give(&h, held[ends[gone]]);
        held[starts[i]] = heap_take(&h, align_up(b->size > 0 ? b->size : 1));
        b->offset = h.blocks[held[starts[i]]].offset;
    }
    *total = h.top;
    free(h.blocks);
    free(held);
    return TENON_OK;
}

/* ---- By size ---- */

typedef struct sized {
    int64_t size;
    int32_t index;
} sized;

static int larger_first(const void *a, const void *b) {
    const sized *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

/* Writes offsets to `offsets`; `placed` holds the indices of placed buffers in order of their
 * offsets. */
static void place_all(const tn_buffer *buffers, int32_t count, const sized *order, int32_t *placed,
                      int64_t *offsets, int64_t *total) {
    *total = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t me = order[i].index;
        int64_t size = order[i].size, end = 0, best = -1, best_gap = INT64_MAX;
        for (int32_t p = 0; p < i; p++) {
            const tn_buffer *other = &buffers[placed[p]];
            if (other->last < buffers[me].first || other->first > buffers[me].last)
                continue;
            int64_t gap = offsets[placed[p]] - end;
            if (gap >= size && gap < best_gap) {
                best = end;
                best_gap = gap;
            }
            int64_t other_end = offsets[placed[p]] + align_up(other->size > 0 ? other->size : 1);
            end = other_end > end ? other_end : end;
        }
        offsets[me] = best >= 0 ? best : end;
        *total = offsets[me] + size > *total ? offsets[me] + size : *total;
        int32_t at = i;
        for (; at > 0 && offsets[placed[at - 1]] > offsets[me]; at--)
            placed[at] = placed[at - 1];
        placed[at] = me;
    }
}

static tenon_status by_size(tn_buffer *buffers, int32_t count, int64_t *total) {
    sized *order = malloc(((size_t)count + 1) * sizeof *order);
    int32_t *placed = malloc(((size_t)count + 1) * sizeof *placed);
    int64_t *offsets = malloc(((size_t)count + 1) * sizeof *offsets), sum;
    tenon_status status = TENON_OK;
    if (order && placed && offsets) {
        for (int32_t i = 0; i < count; i++)
            order[i] = (sized){align_up(buffers[i].size > 0 ? buffers[i].size : 1), i};
        qsort(order, (size_t)count, sizeof *order, larger_first);
        place_all(buffers, count, order, placed, offsets, &sum);
        if (sum < *total) {
            *total = sum;
            for (int32_t i = 0; i < count; i++)
                buffers[i].offset = offsets[i];
        }
    } else {
        status = tn_no_memory();
    }
    free(order);
    free(placed);
    free(offsets);
    return status;
}

/* ---- Both ---- */

static int64_t bound_of(const tn_buffer *buffers, int32_t count, const int32_t *starts,
                        const int32_t *ends) {
    int64_t used = 0, most = 0;
    for (int32_t i = 0, gone = 0; i < count; i++) {
        const tn_buffer *b = &buffers[starts[i]];
        for (; buffers[ends[gone]].last < b->first; gone++)
            used -= align_up(buffers[ends[gone]].size > 0 ? buffers[ends[gone]].size : 1);
        used += align_up(b->size > 0 ? b->size : 1);
        most = used > most ? used : most;
    }
    return most;
}

int64_t tn_offsets_bound(const tn_buffer *buffers, int32_t count) {
    int32_t *starts = in_order(buffers, count, false), *ends = in_order(buffers, count, true);
    int64_t bound = starts && ends ? bound_of(buffers, count, starts, ends) : -1;
    free(starts);
    free(ends);
    return bound;
}

tenon_status tn_offsets_assign(tn_buffer *buffers, int32_t count, int64_t *total) {
    int64_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        if (buffers[i].size > INT64_MAX - TN_ALIGN ||
            !tn_add(sum, align_up(buffers[i].size) + TN_ALIGN, &sum))
            return tn_fail(TENON_INVALID_ARGUMENT,
                           "the model's activations are larger than memory can be");
    }
    int32_t *starts = in_order(buffers, count, false), *ends = in_order(buffers, count, true);
    tenon_status status =
        starts && ends ? by_time(buffers, count, starts, ends, total) : tn_no_memory();
    if (status == TENON_OK && count <= BY_SIZE_LIMIT &&
        *total > bound_of(buffers, count, starts, ends))
        status = by_size(buffers, count, total);
    free(starts);
    free(ends);
    return status;
}
