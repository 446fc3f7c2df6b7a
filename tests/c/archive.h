/* Zip archives taken apart, changed, and put together again. */
#ifndef TEST_ARCHIVE_H
#define TEST_ARCHIVE_H

#include "files.h"
#include <stdbool.h>
#include <zip.h>

enum { ARCHIVE_ENTRIES = 64 };

typedef struct archive {
    int count;
    struct {
        char *name;
        char *data; /* with a NUL behind it */
        size_t size;
    } entries[ARCHIVE_ENTRIES];
} archive;

static inline archive archive_read(const char *path) {
    archive a = {0};
    int error = 0;
    zip_t *zip = zip_open(path, ZIP_RDONLY, &error);
    ck_assert_msg(zip != NULL, "%s cannot be opened", path);
    a.count = (int)zip_get_num_entries(zip, 0);
    ck_assert_int_le(a.count, ARCHIVE_ENTRIES - 4);
    for (int i = 0; i < a.count; i++) {
        zip_stat_t info;
        ck_assert_int_eq(zip_stat_index(zip, (zip_uint64_t)i, 0, &info), 0);
        zip_file_t *file = zip_fopen_index(zip, (zip_uint64_t)i, 0);
        ck_assert_ptr_nonnull(file);
        a.entries[i].name = strdup(info.name);
        a.entries[i].size = info.size;
        a.entries[i].data = calloc(1, info.size + 1);
        ck_assert_int_eq(zip_fread(file, a.entries[i].data, info.size), (zip_int64_t)info.size);
        zip_fclose(file);
    }
    zip_discard(zip);
    return a;
}

static inline void archive_free(archive *a) {
    for (int i = 0; i < a->count; i++) {
        free(a->entries[i].name);
        free(a->entries[i].data);
    }
    a->count = 0;
}

/* The entry whose name ends so, or -1. */
static inline int archive_find(const archive *a, const char *end) {
    for (int i = 0; i < a->count; i++) {
        size_t n = strlen(a->entries[i].name), m = strlen(end);
        if (n >= m && strcmp(a->entries[i].name + n - m, end) == 0)
            return i;
    }
    return -1;
}

static inline void archive_set(archive *a, int i, const char *data, size_t size) {
    char *copy = calloc(1, size + 1);
    memcpy(copy, data, size);
    free(a->entries[i].data);
    a->entries[i].data = copy;
    a->entries[i].size = size;
}

static inline void archive_drop(archive *a, int i) {
    free(a->entries[i].name);
    free(a->entries[i].data);
    memmove(&a->entries[i], &a->entries[i + 1], (size_t)(a->count - i - 1) * sizeof a->entries[0]);
    a->count--;
}

/* Replaces the first `from` in an entry; fails when there is none. */
static inline void archive_replace(archive *a, int i, const char *from, const char *to) {
    char *data = a->entries[i].data, *at = strstr(data, from);
    ck_assert_msg(at != NULL, "%s does not hold %s", a->entries[i].name, from);
    size_t before = (size_t)(at - data), rest = a->entries[i].size - before - strlen(from);
    char *changed = calloc(1, before + strlen(to) + rest + 1);
    memcpy(changed, data, before);
    strcpy(changed + before, to);
    memcpy(changed + before + strlen(to), at + strlen(from), rest);
    free(data);
    a->entries[i].data = changed;
    a->entries[i].size = before + strlen(to) + rest;
}

/* Entries are stored, as PyTorch does it, or deflated. */
static inline void archive_write(const archive *a, const char *path, bool deflated) {
    int error = 0;
    zip_t *zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &error);
    ck_assert_ptr_nonnull(zip);
    for (int i = 0; i < a->count; i++) {
        zip_source_t *source = zip_source_buffer(zip, a->entries[i].data, a->entries[i].size, 0);
        zip_int64_t index = zip_file_add(zip, a->entries[i].name, source, ZIP_FL_ENC_UTF_8);
        ck_assert_int_ge(index, 0);
        zip_set_file_compression(zip, (zip_uint64_t)index, deflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE,
                                 0);
    }
    ck_assert_int_eq(zip_close(zip), 0);
}

#endif
