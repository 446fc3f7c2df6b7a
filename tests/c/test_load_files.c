/* Files that cannot be read, are cut off or change while they are loaded, and limits. This suite
 * stands in for pread, fstat and mmap (by the names that large offsets give them) of Tenon's code.
 */
#include "archive.h"
#include "files.h"
#include "suite.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tenon/tenon.h>
#include <unistd.h>

#define CASE(name) TEST_DATA "/pt2-cases/" name ".pt2"

/* ---- Faults ---- */

typedef enum fault {
    NO_FAULT,
    READ_FAILS,  /* EIO */
    READS_LESS,  /* half of what was asked for: no fault at all */
    INTERRUPTED, /* EINTR once: no fault either */
    NO_MAPPING,
    CUT_OFF, /* the file loses its second half */
    TOUCHED, /* another time of modification */
    REWRITTEN
} fault;

static fault kind;
static long countdown; /* calls until it happens */
static bool happened;
static const char *target; /* the file that it happens to */

static bool now(void) {
    return kind != NO_FAULT && countdown-- == 0;
}

static void change(void) {
    struct stat info;
    happened = true;
    ck_assert_int_eq(stat(target, &info), 0);
    if (kind == CUT_OFF) {
        ck_assert_int_eq(truncate(target, info.st_size / 2), 0);
    } else if (kind == TOUCHED) {
        const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
        ck_assert_int_eq(utimensat(AT_FDCWD, target, times, 0), 0);
    } else if (kind == REWRITTEN) {
        FILE *file = fopen(target, "ab");
        ck_assert_ptr_nonnull(file);
        fputc('x', file);
        fclose(file);
    }
}

ssize_t __real_pread64(int fd, void *to, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *to, size_t size, off_t offset);
int __real_fstat64(int fd, struct stat *info);
int __wrap_fstat64(int fd, struct stat *info);
void *__real_mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset);

static bool is_target(int fd) {
    struct stat a, b;
    return kind != NO_FAULT && __real_fstat64(fd, &a) == 0 && stat(target, &b) == 0 &&
           a.st_ino == b.st_ino;
}

ssize_t __wrap_pread64(int fd, void *to, size_t size, off_t offset) {
    if (!is_target(fd))
        return __real_pread64(fd, to, size, offset);
    if (kind == READS_LESS) {
        happened = true;
        return __real_pread64(fd, to, size > 1 ? size / 2 : size, offset);
    }
    if (!now())
        return __real_pread64(fd, to, size, offset);
    if (kind == READ_FAILS || kind == INTERRUPTED) {
        happened = true;
        errno = kind == READ_FAILS ? EIO : EINTR;
        return -1;
    }
    change();
    return __real_pread64(fd, to, size, offset);
}

int __wrap_fstat64(int fd, struct stat *info) {
    if (kind != READ_FAILS || !now())
        return __real_fstat64(fd, info);
    happened = true;
    errno = EIO;
    return -1;
}

void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    if (kind == NO_MAPPING) {
        happened = true;
        errno = ENODEV;
        return MAP_FAILED;
    }
    return __real_mmap64(address, size, protection, flags, fd, offset);
}

/* ---- Loads ---- */

static void copy_file(const char *from, const char *to) {
    size_t size;
    char *data = test_read(from, &size);
    unlink(to); /* what mapped the old one keeps it */
    test_write(to, data, size);
    free(data);
}

/* Each call in turn; `good` says whether the load must succeed all the same. */
static void sweep(const char *model, const char *from, const char *to, fault what, bool good,
                  const tenon_load_options *options) {
    long n = 0;
    for (;; n++) {
        tenon_graph *graph = NULL;
        copy_file(from, to);
        kind = what;
        countdown = n;
        happened = false;
        target = to;
        tenon_status status = tenon_load_with(model, options, &graph);
        kind = NO_FAULT;
        if (!happened) {
            ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
            tenon_graph_destroy(&graph);
            break;
        }
        if (good) {
            ck_assert_msg(status == TENON_OK, "call %ld: %s", n, tenon_last_error());
        } else {
            ck_assert_msg(status == TENON_IO || status == TENON_INVALID_FILE,
                          "%s, fault %d, call %ld: %s: %s", model, (int)what, n,
                          tenon_status_text(status), tenon_last_error());
            ck_assert_ptr_nonnull(strstr(tenon_last_error(), test_folder));
            ck_assert_ptr_null(graph);
        }
        tenon_graph_destroy(&graph);
        if (what == READS_LESS || what == NO_MAPPING)
            break;
    }
    ck_assert_int_ge(n, what == READS_LESS || what == NO_MAPPING ? 0 : 1);
}

static void sweep_all(const char *model, const char *from, const char *to) {
    static const struct {
        fault kind;
        bool good;
    } faults[] = {{READ_FAILS, false}, {READS_LESS, true}, {INTERRUPTED, true}, {NO_MAPPING, true},
                  {CUT_OFF, false},    {TOUCHED, false},   {REWRITTEN, false}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        for (int how = 0; how < 3; how++) {
            if (how == 1 && faults[i].kind == NO_MAPPING)
                continue; /* nothing is mapped */
            sweep(model, from, to, faults[i].kind, faults[i].good,
                  &(tenon_load_options){.copy_weights = how == 1, .check_weights = how == 2});
        }
    }
}

START_TEST(archives_change) {
    static const char *const cases[] = {CASE("dyn_derived_raw"), CASE("dtype_weights"),
                                        CASE("counter_core")};
    const char *path = test_path("m.pt2");
    sweep_all(path, cases[_i], path);
}
END_TEST

START_TEST(json_and_weights_change) {
    static const char text[] =
        "graph g { input %x: float32[2] const %w: float32[2] = {1, 2} buffer %b: bool[3] = {true, "
        "false, true}\n%y = aten.add.Tensor(%x, %w) output \"o\" = %y output \"b\" = %b }";
    tenon_graph *graph = NULL;
    char model[512], weights[512];
    snprintf(model, sizeof model, "%s", test_path("g.json"));
    snprintf(weights, sizeof weights, "%s", test_path("g.safetensors"));
    test_write(test_path("g.txt"), text, sizeof text - 1);
    ck_assert_int_eq(tenon_load(test_path("g.txt"), &graph), TENON_OK);
    ck_assert_int_eq(tenon_save_json(graph, model), TENON_OK);
    tenon_graph_destroy(&graph);
    copy_file(model, test_path("j"));
    copy_file(weights, test_path("w"));
    sweep_all(model, test_path("w"), weights);
    sweep(model, test_path("j"), model, READ_FAILS, false, NULL);
    copy_file(test_path("g.txt"), test_path("t"));
    sweep(test_path("g.txt"), test_path("t"), test_path("g.txt"), READ_FAILS, false, NULL);
}
END_TEST

/* A model whose weights were copied runs on when its file goes and changes. */
START_TEST(copied_weights_stay) {
    tenon_load_options options = {.copy_weights = true};
    tenon_graph *graph = NULL, *mapped = NULL;
    char a[1 << 16], b[1 << 16];
    const char *path = test_path("m.pt2");
    copy_file(CASE("dtype_weights"), path);
    ck_assert_int_eq(tenon_load_with(path, &options, &graph), TENON_OK);
    ck_assert_int_eq(truncate(path, 0), 0);
    ck_assert_int_eq(tenon_load(CASE("dtype_weights"), &mapped), TENON_OK);
    ck_assert_int_gt(tenon_graph_constant_count(graph), 0);
    for (int i = 0; i < tenon_graph_constant_count(graph); i++) {
        const tenon_view *x = tenon_tensor_view(tenon_value_tensor(tenon_graph_constant(graph, i)));
        const tenon_view *y =
            tenon_tensor_view(tenon_value_tensor(tenon_graph_constant(mapped, i)));
        size_t size = (size_t)tenon_view_numel(x) * tenon_dtype_size(x->dtype);
        ck_assert_uint_le(size, sizeof a);
        memcpy(a, x->data, size);
        memcpy(b, y->data, size);
        ck_assert_int_eq(memcmp(a, b, size), 0);
    }
    tenon_graph_destroy(&graph);
    tenon_graph_destroy(&mapped);
}
END_TEST

/* ---- Limits ---- */

static void limited(const char *path, tenon_load_options options, const char *text) {
    tenon_graph *graph = NULL;
    ck_assert_int_eq(tenon_load_with(path, &options, &graph), TENON_LIMIT);
    ck_assert_msg(strstr(tenon_last_error(), text) && strstr(tenon_last_error(), path), "%s",
                  tenon_last_error());
    ck_assert_ptr_null(graph);
}

START_TEST(limits) {
    static const char text[] = "graph g { input %x: float32[2]\n%y = aten.neg(%x)\n%z = "
                               "aten.neg(%y)\noutput \"o\" = %z }";
    tenon_graph *graph = NULL;
    const char *path = test_path("g.txt");
    test_write(path, text, sizeof text - 1);
    limited(path, (tenon_load_options){.max_nodes = 1},
            "has 2 nodes, more than max_nodes allows, 1");
    tenon_load_options enough = {.max_nodes = 2};
    ck_assert_int_eq(tenon_load_with(path, &enough, &graph), TENON_OK);
    tenon_graph_destroy(&graph);
    enough.max_nodes = -1;
    ck_assert_int_eq(tenon_load_with(path, &enough, &graph), TENON_INVALID_ARGUMENT);
}
END_TEST

/* What a text does not list counts: by the option, and by default in proportion to the text. */
START_TEST(limits_generating) {
    static const char form[] = "graph g { input %%x: uint8[2]\nconst %%w: uint8[%lld] = zeros\n"
                               "output \"o\" = %%x }";
    enum { FREE = 32 << 20 };
    char text[256];
    const char *path = test_path("w.txt");
    long long most[] = {10000, FREE + 100 * (long long)(sizeof form - 8 + 8)};
    for (int i = 0; i < 2; i++)
        for (int more = 0; more < 2; more++) {
            tenon_load_options options = {.max_unpacked_bytes = i == 0 ? most[i] : 0};
            tenon_graph *graph = NULL;
            size_t length = (size_t)sprintf(text, form, most[i] + more);
            ck_assert(i == 0 || most[i] == FREE + 100 * (long long)length);
            test_write(path, text, length);
            if (more) {
                limited(path, options, "more than max_unpacked_bytes leaves");
            } else {
                ck_assert_int_eq(tenon_load_with(path, &options, &graph), TENON_OK);
                tenon_graph_destroy(&graph);
            }
        }
    tenon_graph *graph = NULL;
    ck_assert_int_eq(tenon_graph_parse(text, "t", &graph), TENON_LIMIT); /* the same default */
    ck_assert_ptr_null(graph);
}
END_TEST

/* A deflated model.json with a megabyte of spaces behind its text. */
START_TEST(limits_unpacking) {
    tenon_graph *graph = NULL;
    const char *path = test_path("big.pt2");
    archive a = archive_read(CASE("counter_core"));
    int model = archive_find(&a, "models/model.json");
    size_t size = a.entries[model].size, more = size + (1 << 20);
    char *text = malloc(more);
    memcpy(text, a.entries[model].data, size);
    memset(text + size, ' ', more - size);
    archive_set(&a, model, text, more);
    free(text);
    archive_write(&a, path, true);
    archive_free(&a);
    limited(path, (tenon_load_options){.max_unpacked_bytes = 1 << 20}, "max_unpacked_bytes");
    tenon_load_options enough = {.max_unpacked_bytes = 2 << 20};
    ck_assert_int_eq(tenon_load_with(path, &enough, &graph), TENON_OK);
    tenon_graph_destroy(&graph);
    ck_assert_int_eq(tenon_load(path, &graph), TENON_OK);
    tenon_graph_destroy(&graph);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("load_files");
    TCase *tests = tcase_create("load_files");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, archives_change, 0, 3);
    tcase_add_test(tests, json_and_weights_change);
    tcase_add_test(tests, copied_weights_stay);
    tcase_add_test(tests, limits);
    tcase_add_test(tests, limits_generating);
    tcase_add_test(tests, limits_unpacking);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
