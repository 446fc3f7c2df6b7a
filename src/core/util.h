/* An arena, a table of names, and a growing text. */
#ifndef TN_UTIL_H
#define TN_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/status.h>

#define TN_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Memory that is freed all at once. All zero is an empty arena. */
typedef struct tn_arena {
    struct tn_block *block;
    size_t used;
} tn_arena;

void *tn_arena_alloc(tn_arena *arena,
                     size_t size); /* zeroed, 16-byte aligned; NULL when memory is out */
void *tn_arena_array(tn_arena *arena, size_t count,
                     size_t size); /* the same, checked for overflow */
char *tn_arena_strdup(tn_arena *arena, const char *text);
void tn_arena_free(tn_arena *arena);
void tn_arena_reset(tn_arena *arena); /* empty again, keeping its largest block */
/* An arena over the caller's zeroed memory, for data that is never freed; it must be large enough.
 */
tn_arena tn_arena_fixed(void *memory, size_t size);

/* FNV-1a of 64 bits (Fowler, Noll and Vo). */
uint64_t tn_hash(const void *bytes, size_t count);

/* Names to pointers. All zero is an empty map. Keys are not copied. */
typedef struct tn_map {
    struct tn_map_slot *slots;
    size_t capacity, used;
} tn_map;

void *tn_map_get(const tn_map *map, const char *key); /* NULL when absent */
tenon_status tn_map_put(tn_map *map, const char *key,
                        void *value); /* replaces; `value` is not NULL */
void tn_map_remove(tn_map *map, const char *key);
void tn_map_free(tn_map *map);

/* A growing text. All zero is an empty one. Once memory is out, `failed` stays set and the rest is
 * dropped. */
typedef struct tn_text {
    char *data; /* NUL-terminated once anything was added */
    size_t length, capacity;
    bool failed;
} tn_text;

void tn_text_add(tn_text *text, const char *format, ...) TENON_PRINTF(2, 3);
void tn_text_put(tn_text *text, const char *bytes, size_t length);
void tn_text_free(tn_text *text);

/* Nanoseconds of a clock that never steps back. */
int64_t tn_clock_ns(void);

/* a * b, or false on overflow. */
static inline bool tn_mul(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool tn_add(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

#endif
