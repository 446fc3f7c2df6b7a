/* Zip archives made byte by byte (PKWARE's APPNOTE.TXT, section 4.3), so that they may say whatever
 * a test wants of their entries. */
#ifndef ZIP_BYTES_H
#define ZIP_BYTES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* What an entry says of itself. */
typedef struct pack_facts {
    uint16_t method; /* 0 stored, 8 deflated */
    uint16_t flags;
    uint32_t crc, packed, size;
    const void *extra; /* of the directory's record */
    uint16_t extra_size;
} pack_facts;

typedef struct pack_bytes {
    char *file, *directory;
    size_t size, room, directory_size, directory_room;
    int count;
} pack_bytes;

static inline void pack_put(char **to, size_t *size, size_t *room, const void *data, size_t count) {
    if (*size + count > *room) {
        *room = (*size + count) * 2 + 256;
        *to = realloc(*to, *room);
        if (!*to)
            abort();
    }
    if (count)
        memcpy(*to + *size, data, count);
    *size += count;
}

static inline void pack_number(char *at, int bytes, uint64_t value) {
    for (int i = 0; i < bytes; i++)
        at[i] = (char)(value >> (8 * i));
}

/* A record of the directory, which says that the entry's header lies at `local`. */
static inline void pack_record(pack_bytes *z, const char *name, const pack_facts *facts,
                               uint32_t local) {
    char record[46] = "PK\1\2";
    pack_number(record + 4, 2, 20);
    pack_number(record + 6, 2, 20);
    pack_number(record + 8, 2, facts->flags);
    pack_number(record + 10, 2, facts->method);
    pack_number(record + 14, 2, 0x21); /* the first day that there is */
    pack_number(record + 16, 4, facts->crc);
    pack_number(record + 20, 4, facts->packed);
    pack_number(record + 24, 4, facts->size);
    pack_number(record + 28, 2, strlen(name));
    pack_number(record + 30, 2, facts->extra_size);
    pack_number(record + 42, 4, local);
    pack_put(&z->directory, &z->directory_size, &z->directory_room, record, sizeof record);
    pack_put(&z->directory, &z->directory_size, &z->directory_room, name, strlen(name));
    pack_put(&z->directory, &z->directory_size, &z->directory_room, facts->extra,
             facts->extra_size);
    z->count++;
}

static inline pack_facts pack_stored(const void *data, size_t size) {
    return (pack_facts){.crc = (uint32_t)crc32(0, data, (uInt)size),
                        .packed = (uint32_t)size,
                        .size = (uint32_t)size};
}

/* The header of an entry, and `bytes` bytes that stand for its contents. Gives where it lies. */
static inline uint32_t pack_local(pack_bytes *z, const char *name, const pack_facts *facts,
                                  const void *data, size_t bytes) {
    char header[30] = "PK\3\4";
    uint32_t at = (uint32_t)z->size;
    pack_number(header + 4, 2, 20);
    pack_number(header + 6, 2, facts->flags);
    pack_number(header + 8, 2, facts->method);
    pack_number(header + 12, 2, 0x21);
    pack_number(header + 14, 4, facts->crc);
    pack_number(header + 18, 4, facts->packed);
    pack_number(header + 22, 4, facts->size);
    pack_number(header + 26, 2, strlen(name));
    pack_put(&z->file, &z->size, &z->room, header, sizeof header);
    pack_put(&z->file, &z->size, &z->room, name, strlen(name));
    pack_put(&z->file, &z->size, &z->room, data, bytes);
    return at;
}

/* An honest entry, stored. */
static inline void pack_add(pack_bytes *z, const char *name, const void *data, size_t size) {
    pack_facts facts = pack_stored(data, size);
    pack_record(z, name, &facts, pack_local(z, name, &facts, data, size));
}

/* The directory and the record of the end. */
static inline void pack_end(pack_bytes *z) {
    char end[22] = "PK\5\6";
    pack_number(end + 8, 2, (uint64_t)z->count);
    pack_number(end + 10, 2, (uint64_t)z->count);
    pack_number(end + 12, 4, z->directory_size);
    pack_number(end + 16, 4, z->size);
    pack_put(&z->file, &z->size, &z->room, z->directory, z->directory_size);
    pack_put(&z->file, &z->size, &z->room, end, sizeof end);
}

static inline void pack_free(pack_bytes *z) {
    free(z->file);
    free(z->directory);
    *z = (pack_bytes){0};
}

#endif
