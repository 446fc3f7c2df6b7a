/* Files of a test, in a folder of its own that goes when the process ends. */
#ifndef TEST_FILES_H
#define TEST_FILES_H

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char test_folder[256];

static int test_remove(const char *path, const struct stat *info, int type, struct FTW *ftw) {
    (void)info, (void)type, (void)ftw;
    return remove(path);
}

static void test_remove_folder(void) {
    nftw(test_folder, test_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* The path of that name in the folder, in one of eight buffers that take turns. */
static inline const char *test_path(const char *name) {
    static char paths[8][512];
    static int next;
    if (!test_folder[0]) {
        const char *base = getenv("TMPDIR");
        snprintf(test_folder, sizeof test_folder, "%s/tenon-test-XXXXXX", base ? base : "/tmp");
        ck_assert_ptr_nonnull(mkdtemp(test_folder));
        atexit(test_remove_folder);
    }
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder, name);
    return path;
}

static inline void test_write(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

/* The whole file, with a NUL behind it; the caller frees it. */
static inline char *test_read(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s cannot be opened", path);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*size + 1);
    ck_assert_ptr_nonnull(data);
    ck_assert_uint_eq(fread(data, 1, *size, file), *size);
    data[*size] = '\0';
    fclose(file);
    return data;
}

#endif
