#include "partitions/pool.h"
#include "core/budget.h"
#include "core/pages.h"
#include "core/profile.h"
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

/* Sizes are rounded up to one of four steps between powers of two, so that at most a fifth of a
 * block is waste. */
#define STEPS 4
#define MIN_SHIFT 10
#define CLASSES ((48 - MIN_SHIFT) * STEPS)

/* Stands right before the memory that was handed out. */
typedef struct header {
    struct header *next; /* in the free list */
    void *block;
    size_t size; /* of its class */
    int size_class;
} header;

#define HEADER 64
_Static_assert(sizeof(header) <= HEADER, "the header fits in the room before the memory");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static header *free_lists[CLASSES];

/* The smallest class that holds `size`, with its own size; -1 when there is none. */
static int class_of(size_t size, size_t *rounded) {
    size_t base = (size_t)1 << MIN_SHIFT;
    for (int i = 0; i < CLASSES; i += STEPS, base *= 2) {
        if (size > base * 2)
            continue;
        for (int step = 0; step < STEPS; step++) {
            *rounded = base + base / STEPS * (size_t)(step + 1);
            if (size <= *rounded)
                return i + step;
        }
    }
    return -1;
}

void *tn_pool_alloc(size_t size, size_t alignment) {
    size_t rounded;
    int size_class = class_of(size, &rounded);
    if (size_class < 0 || alignment > 4096)
        return NULL;
    if (alignment <= HEADER) {
        pthread_mutex_lock(&lock);
        header *kept = free_lists[size_class];
        if (kept)
            free_lists[size_class] = kept->next;
        pthread_mutex_unlock(&lock);
        if (kept) {
            tn_profile_memory((int64_t)rounded);
            return (char *)kept + HEADER;
        }
    }
    size_t room = alignment <= HEADER ? HEADER : alignment;
    size_t whole = (rounded + 2 * room - 1) / room * room;
    if (!tn_room_take(whole))
        return NULL;
    char *block = aligned_alloc(room, whole);
    if (!block) { /* what lies in the lists may be what is missing */
        tn_pool_trim();
        block = aligned_alloc(room, whole);
    }
    if (!block)
        return NULL;
    tn_pages_large(block, whole);
    header *made = (header *)(void *)(block + room - HEADER);
    /* A block of a larger alignment is as good as another one afterwards. Headers are of the lock:
     * who frees a block need not be who got it. */
    pthread_mutex_lock(&lock);
    *made = (header){.block = block, .size = rounded, .size_class = size_class};
    pthread_mutex_unlock(&lock);
    tn_profile_memory((int64_t)rounded);
    return block + room;
}

void tn_pool_free(void *memory) {
    if (!memory)
        return;
    header *freed = (header *)(void *)((char *)memory - HEADER);
    pthread_mutex_lock(&lock);
    int64_t size = (int64_t)freed->size;
    freed->next = free_lists[freed->size_class];
    free_lists[freed->size_class] = freed;
    pthread_mutex_unlock(&lock);
    tn_profile_memory(-size);
}

void tn_pool_trim(void) {
    for (int i = 0; i < CLASSES; i++) {
        pthread_mutex_lock(&lock);
        header *list = free_lists[i];
        free_lists[i] = NULL;
        pthread_mutex_unlock(&lock);
        while (list) {
            header *next = list->next;
            free(list->block);
            list = next;
        }
    }
}
