#include "core/util.h"
#include "core/fail.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Arena ---- */

struct tn_block {
    struct tn_block *previous;
    size_t size;
    _Alignas(16) char data[];
};

void *tn_arena_alloc(tn_arena *arena, size_t size) {
    if (size > SIZE_MAX / 4)
        return NULL;
    size = (size + 15) & ~(size_t)15;
    if (!arena->block || arena->block->size - arena->used < size) {
        /* Blocks grow with the arena, so that a large graph takes few of them. */
        size_t wanted = arena->block ? arena->block->size * 2 : 4096;
        if (wanted > (size_t)1 << 20)
            wanted = (size_t)1 << 20;
        if (wanted < size)
            wanted = size;
        struct tn_block *block = calloc(1, sizeof *block + wanted);
        if (!block)
            return NULL;
        block->previous = arena->block;
        block->size = wanted;
        arena->block = block;
        arena->used = 0;
    }
    void *data = arena->block->data + arena->used;
    arena->used += size;
    return data;
}

void *tn_arena_array(tn_arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return tn_arena_alloc(arena, bytes);
}

char *tn_arena_strdup(tn_arena *arena, const char *text) {
    size_t length = strlen(text) + 1;
    char *copy = tn_arena_alloc(arena, length);
    if (copy)
        memcpy(copy, text, length);
    return copy;
}

void tn_arena_free(tn_arena *arena) {
    while (arena->block) {
        struct tn_block *previous = arena->block->previous;
        free(arena->block);
        arena->block = previous;
    }
    arena->used = 0;
}

void tn_arena_reset(tn_arena *arena) {
    if (!arena->block)
        return;
    tn_arena rest = {arena->block->previous, 0};
    tn_arena_free(&rest);
    arena->block->previous = NULL;
    memset(arena->block->data, 0, arena->used);
    arena->used = 0;
}

tn_arena tn_arena_fixed(void *memory, size_t size) {
    struct tn_block *block = memory;
    block->size = size - sizeof *block;
    return (tn_arena){block, 0};
}

/* ---- Map: open addressing, linear probing, removal by shifting back ---- */

typedef struct tn_map_slot {
    const char *key;
    void *value;
    uint64_t hash;
} tn_map_slot;

uint64_t tn_hash(const void *bytes, size_t count) {
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return hash;
}

static tn_map_slot *find_slot(const tn_map *map, const char *key, uint64_t hash) {
    size_t i = (size_t)hash & (map->capacity - 1);
    while (map->slots[i].key && (map->slots[i].hash != hash || strcmp(map->slots[i].key, key) != 0))
        i = (i + 1) & (map->capacity - 1);
    return &map->slots[i];
}

void *tn_map_get(const tn_map *map, const char *key) {
    return map->capacity ? find_slot(map, key, tn_hash(key, strlen(key)))->value : NULL;
}

tenon_status tn_map_put(tn_map *map, const char *key, void *value) {
    if (map->used * 2 >= map->capacity) {
        tn_map bigger = {NULL, map->capacity ? map->capacity * 2 : 32, map->used};
        bigger.slots = calloc(bigger.capacity, sizeof *bigger.slots);
        if (!bigger.slots)
            return tn_no_memory();
        for (size_t i = 0; i < map->capacity; i++)
            if (map->slots[i].key)
                *find_slot(&bigger, map->slots[i].key, map->slots[i].hash) = map->slots[i];
        free(map->slots);
        *map = bigger;
    }
    uint64_t hash = tn_hash(key, strlen(key));
    tn_map_slot *slot = find_slot(map, key, hash);
    if (!slot->key) {
        map->used++;
        slot->key = key;
        slot->hash = hash;
    }
    slot->value = value;
    return TENON_OK;
}

void tn_map_remove(tn_map *map, const char *key) {
    if (!map->capacity)
        return;
    size_t mask = map->capacity - 1;
    size_t hole = (size_t)(find_slot(map, key, tn_hash(key, strlen(key))) - map->slots);
    if (!map->slots[hole].key)
        return;
    map->used--;
    for (size_t i = (hole + 1) & mask; map->slots[i].key; i = (i + 1) & mask) {
        size_t home = (size_t)map->slots[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole] = (tn_map_slot){0};
}

void tn_map_free(tn_map *map) {
    free(map->slots);
    *map = (tn_map){0};
}

/* ---- Text ---- */

static bool text_room(tn_text *text, size_t more) {
    if (text->failed)
        return false;
    if (text->capacity - text->length <= more) {
        size_t capacity = text->capacity ? text->capacity * 2 : 256;
        while (capacity - text->length <= more)
            capacity *= 2;
        char *data = realloc(text->data, capacity);
        if (!data) {
            text->failed = true;
            return false;
        }
        text->data = data;
        text->capacity = capacity;
    }
    return true;
}

void tn_text_put(tn_text *text, const char *bytes, size_t length) {
    if (!text_room(text, length))
        return;
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void tn_text_add(tn_text *text, const char *format, ...) {
    char fixed[256];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(fixed, sizeof fixed, format, args);
    va_end(args);
    if (length < 0)
        return;
    if ((size_t)length < sizeof fixed) {
        tn_text_put(text, fixed, (size_t)length);
        return;
    }
    if (!text_room(text, (size_t)length))
        return;
    va_start(args, format);
    vsnprintf(text->data + text->length, (size_t)length + 1, format, args);
    va_end(args);
    text->length += (size_t)length;
}

void tn_text_free(tn_text *text) {
    free(text->data);
    *text = (tn_text){0};
}

/* ---- Time ---- */

int64_t tn_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
