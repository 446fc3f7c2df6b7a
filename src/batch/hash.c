#include "hash.h"
#include "mapped.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRIME 1099511628211u

uint64_t batch_hash(uint64_t hash, const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = (hash ^ word) * PRIME;
        hash ^= hash >> 32; /* FNV alone never carries high bits down */
    }
    for (; size > 0; size--, at++)
        hash = (hash ^ *at) * PRIME;
    return hash;
}

tenon_status batch_file_hash(const char *path, char *text, size_t capacity) {
    enum { PIECE = 1 << 16 };
    batch_mapped mapped = {0};
    uint64_t hash = BATCH_HASH_START;
    char piece[PIECE];
    tenon_status status = batch_map(path, &mapped);
    for (size_t at = 0; status == TENON_OK && at < mapped.size;) {
        size_t size = mapped.size - at < PIECE ? mapped.size - at : PIECE;
        status = batch_mapped_read(&mapped, at, size, piece);
        if (status == TENON_OK)
            hash = batch_hash(hash, piece, size);
        at += size;
    }
    if (status == TENON_OK)
        snprintf(text, capacity, "%zu bytes, hash %016" PRIx64, mapped.size, hash);
    batch_unmap(&mapped);
    return status;
}
