/* FNV-1a (Fowler, Noll and Vo) of 64 bits, on words of eight bytes: it tells one file from another,
 * and is no protection against anybody. */
#ifndef BATCH_HASH_H
#define BATCH_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/status.h>

#define BATCH_HASH_START 14695981039346656037u

uint64_t batch_hash(uint64_t hash, const void *bytes, size_t size);
/* Of a file, and its size, as text. */
tenon_status batch_file_hash(const char *path, char *text, size_t capacity);

#endif
