/* Running the command `tenon`, whose path is TENON_COMMAND, in a folder of its own. */
#ifndef TEST_COMMAND_H
#define TEST_COMMAND_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[4096];
static char out[1 << 16], err[1 << 16];

static void read_file(const char *name, char *text, size_t capacity) {
    char path[5000];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, capacity - 1, file)] = 0;
    fclose(file);
}

static inline void write_file(const char *name, const char *text) {
    char path[5000];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fputs(text, file) >= 0, 1);
    ck_assert_int_eq(fclose(file), 0);
}

/* Runs the command in the directory; returns its exit status. What it prints is in `out` and `err`.
 */
static int tenon(const char *arguments) {
    char line[6000];
    snprintf(line, sizeof line, "cd %s && " TENON_COMMAND " %s >out 2>err", directory, arguments);
    int status = system(line);
    ck_assert(WIFEXITED(status));
    read_file("out", out, sizeof out);
    read_file("err", err, sizeof err);
    return WEXITSTATUS(status);
}

#define SAYS(text, what) \
    ck_assert_msg(strstr(text, what) != NULL, "\"%s\" is not in \"%s\"", what, text)
/* The command ends with this status, and says `what` on standard error only. */
#define REFUSES(arguments, status, what)                                            \
    do {                                                                            \
        int code = tenon(arguments);                                                \
        ck_assert_msg(code == (status), "%s: status %d, %s", arguments, code, err); \
        SAYS(err, what);                                                            \
    } while (0)
#define WORKS(arguments)                                                     \
    do {                                                                     \
        int code = tenon(arguments);                                         \
        ck_assert_msg(code == 0, "%s: status %d, %s", arguments, code, err); \
        ck_assert_str_eq(err, "");                                           \
    } while (0)

/* The command works, and says `what` on standard error. */
#define WORKS_LOUDLY(arguments, what)                                        \
    do {                                                                     \
        int code = tenon(arguments);                                         \
        ck_assert_msg(code == 0, "%s: status %d, %s", arguments, code, err); \
        SAYS(err, what);                                                     \
    } while (0)

static void make_directory(void) {
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/tenon-cli-XXXXXX", base ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void remove_directory(void) {
    char line[5000];
    snprintf(line, sizeof line, "rm -r %s", directory);
    ck_assert_int_eq(system(line), 0);
}

#endif
