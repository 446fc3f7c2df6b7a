/* Files that cannot be written: at every byte where the disk may be full, and at every call by
 * which a file is made, kept and named. Each time an error tells the path, the files of before are
 * whole, and nothing else is left. And images that cannot be read.
 *
 * A limit on the size of files stands for the full disk: it holds for every library that writes.
 * The other calls are wrapped, which reaches Tenon's own code. */
#include "batch_job.h"
#include "run_graph.h"
#include <batch/images.h>
#include <batch/source.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

/* ---- Calls that fail ---- */

static long call_at = -1, calls; /* the call that fails; -1: none */
static int call_error;
static char failed_call[32];

static bool fails(const char *name) {
    if (call_at < 0 || calls++ != call_at)
        return false;
    snprintf(failed_call, sizeof failed_call, "%s", name);
    errno = call_error;
    return true;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);
int __real_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode);
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __real_fflush(FILE *file);
int __wrap_fflush(FILE *file);
FILE *__real_fdopen(int fd, const char *mode);
FILE *__wrap_fdopen(int fd, const char *mode);
int __real_mkstemp64(char *path);
int __wrap_mkstemp64(char *path);
ssize_t __real_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size);

int __wrap_fsync(int fd) {
    return fails("fsync") ? -1 : __real_fsync(fd);
}

int __wrap_rename(const char *from, const char *to) {
    return fails("rename") ? -1 : __real_rename(from, to);
}

int __wrap_link(const char *from, const char *to) {
    return fails("link") ? -1 : __real_link(from, to);
}

int __wrap_fchmod(int fd, mode_t mode) {
    return fails("fchmod") ? -1 : __real_fchmod(fd, mode);
}

/* A file is closed even when that fails. */
int __wrap_fclose(FILE *file) {
    bool failed = fails("fclose");
    int error = errno, code = __real_fclose(file);
    if (failed)
        errno = error;
    return failed ? EOF : code;
}

int __wrap_fflush(FILE *file) {
    return fails("fflush") ? EOF : __real_fflush(file);
}

FILE *__wrap_fdopen(int fd, const char *mode) {
    return fails("fdopen") ? NULL : __real_fdopen(fd, mode);
}

int __wrap_mkstemp64(char *path) {
    return fails("mkstemp") ? -1 : __real_mkstemp64(path);
}

/* ---- What is written ---- */

static const char small[] = "graph a { input %x: float32[2]\nconst %w: float32[2] = {1, 2}\n"
                            "%y = aten.add.Tensor(%x, %w)\noutput \"y\" = %y }";
static const char large[] =
    "graph b { input %x: float32[64]\nconst %w: float32[64] = random(1)\n"
    "const %v: float32[512] = random(2)\n%z = aten.mul.Tensor(%x, %w)\n%s = aten.sum(%v)\n"
    "%y = aten.add.Tensor(%z, %s)\noutput \"y\" = %y }";

static tenon_graph *graphs[2];
static tenon_profiler *profiler;
static tenon_session *session;
static tenon_context *context;
static char folder[512];

static const char *in_folder(const char *name) {
    static char path[700];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static float numbers[512];

static tenon_status run(void) {
    tenon_view x = floats(numbers, 64, -1), y = {0};
    return tenon_context_run(context, &x, 1, &y, 1);
}

static tenon_status save_json(bool again) {
    return tenon_save_json(graphs[again], in_folder("m.json"));
}

static tenon_status save_npy(bool again) {
    tenon_view view = floats(numbers, again ? 512 : 3, -1);
    return tenon_npy_save(in_folder("a.npy"), &view);
}

static tenon_status write_text(bool again) {
    return tenon_file_write(in_folder("t.txt"), again ? large : small,
                            again ? sizeof large : sizeof small);
}

static tenon_status export_trace(bool again) {
    (void)again;
    return tenon_profiler_export_chrome_trace(profiler, in_folder("p.json"));
}

static tenon_status export_packed(bool again) {
    (void)again;
    return tenon_profiler_export_chrome_trace(profiler, in_folder("p.json.gz"));
}

static tenon_status export_stacks(bool again) {
    (void)again;
    return tenon_profiler_export_stacks(profiler, in_folder("s.txt"), "self_cpu_time_total");
}

static tenon_status export_timeline(bool again) {
    (void)again;
    return tenon_profiler_export_memory_timeline(profiler, in_folder("m.html"));
}

static tenon_status trace_runs(bool again) {
    tenon_status status = tenon_execution_trace_start(in_folder("e.json"));
    for (int i = 0; status == TENON_OK && i < (again ? 3 : 1); i++)
        status = run();
    tenon_status stopped = status == TENON_OK ? tenon_execution_trace_stop() : status;
    return stopped;
}

typedef struct writer {
    const char *name, *files[2];
    tenon_status (*write)(bool again);
} writer;

static const writer writers[] = {
    {"tenon_save_json", {"m.json", "m.safetensors"}, save_json},
    {"tenon_npy_save", {"a.npy"}, save_npy},
    {"tenon_file_write", {"t.txt"}, write_text},
    {"chrome trace", {"p.json"}, export_trace},
    {"packed chrome trace", {"p.json.gz"}, export_packed},
    {"stacks", {"s.txt"}, export_stacks},
    {"memory timeline", {"m.html"}, export_timeline},
    {"execution trace", {"e.json"}, trace_runs},
};
enum { WRITERS = sizeof writers / sizeof *writers };

static void set_up(void) {
    const tenon_profiler_options options = {
        .record_shapes = true, .profile_memory = true, .with_stack = true};
    const tenon_session_options session_options = {.threads = 1,
                                                   .backend = TENON_BACKEND_REFERENCE};
    signal(SIGXFSZ, SIG_IGN);
    tenon_log_set(TENON_LOG_NONE, NULL, NULL);
    snprintf(folder, sizeof folder, "%s", test_path("out"));
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    for (int i = 0; i < 512; i++)
        numbers[i] = (float)i;
    graphs[0] = parse_graph(small);
    graphs[1] = parse_graph(large);
    OK(tenon_session_create(graphs[1], &session_options, &session));
    OK(tenon_context_create(session, &context));
    OK(tenon_profiler_create(&options, &profiler));
    OK(tenon_profiler_start(profiler));
    OK(run());
    OK(tenon_profiler_stop(profiler));
}

static void tear_down(void) {
    tenon_profiler_destroy(&profiler);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graphs[0]);
    tenon_graph_destroy(&graphs[1]);
}

/* ---- What is left ---- */

typedef struct content {
    char *data[2];
    size_t size[2];
} content;

static content read_all(const writer *w) {
    content c = {0};
    for (int i = 0; i < 2 && w->files[i]; i++)
        c.data[i] = test_read(in_folder(w->files[i]), &c.size[i]);
    return c;
}

static bool is_same(const content *a, const content *b) {
    for (int i = 0; i < 2; i++)
        if (a->size[i] != b->size[i] ||
            (a->size[i] && memcmp(a->data[i], b->data[i], a->size[i]) != 0))
            return false;
    return true;
}

static void free_content(content *c) {
    free(c->data[0]);
    free(c->data[1]);
}

static int count_files(void) {
    int count = 0;
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void empty_folder(const writer *w) {
    for (int i = 0; i < 2 && w->files[i]; i++)
        unlink(in_folder(w->files[i]));
    ck_assert_int_eq(count_files(), 0);
}

/* After a failure: the files of before, or none where there were none, and a message. */
static void check_failed(const writer *w, tenon_status status, const content *before,
                         const char *where, long at) {
    ck_assert_msg(status == TENON_IO, "%s, %s %ld: %s: %s", w->name, where, at,
                  tenon_status_text(status), tenon_last_error());
    ck_assert_msg(strstr(tenon_last_error(), folder) != NULL, "%s, %s %ld: \"%s\" names no file",
                  w->name, where, at, tenon_last_error());
    int files = !before ? 0 : w->files[1] ? 2 : 1;
    ck_assert_msg(count_files() == files, "%s, %s %ld: %d files are left", w->name, where, at,
                  count_files());
    if (before) {
        content now = read_all(w);
        ck_assert_msg(is_same(&now, before), "%s, %s %ld: the old files are gone", w->name, where,
                      at);
        free_content(&now);
    }
}

/* ---- Full disks ---- */

static tenon_status write_within(const writer *w, long size) {
    struct rlimit limit, old;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = (rlim_t)size;
    setrlimit(RLIMIT_FSIZE, &limit);
    tenon_status status = w->write(true);
    setrlimit(RLIMIT_FSIZE, &old);
    return status;
}

/* Bytes of the largest file that it writes. */
static long size_of(const writer *w) {
    content c = read_all(w);
    long size = (long)(c.size[0] > c.size[1] ? c.size[0] : c.size[1]);
    free_content(&c);
    return size;
}

START_TEST(disks_are_full) {
    const writer *w = &writers[_i];
    for (int there = 0; there < 2; there++) {
        long size, points = 0;
        content before = {0};
        OK(w->write(true));
        size = size_of(w);
        ck_assert_int_gt(size, 100);
        empty_folder(w);
        if (there) {
            OK(w->write(false));
            before = read_all(w);
        }
        /* The start and the end, and places in between; times in traces have other lengths. */
        for (long n = 0; n < size - 20; n += n < 20 ? 1 : 1 + size / 40, points++)
            check_failed(w, write_within(w, n), there ? &before : NULL, "a limit of", n);
        OK(w->write(true));
        ck_assert_int_gt(points, 20);
        printf("full disk, %s: %ld points\n", w->name, points);
        fflush(stdout);
        empty_folder(w);
        free_content(&before);
    }
}
END_TEST

/* ---- Failing calls ---- */

START_TEST(calls_fail) {
    static const int errors[] = {EIO, ENOSPC};
    const writer *w = &writers[_i / 2];
    bool there = _i % 2;
    long n = 0;
    content before = {0};
    if (there) {
        OK(w->write(false));
        before = read_all(w);
    }
    for (;; n++) {
        calls = 0;
        call_error = errors[n % 2];
        *failed_call = '\0';
        call_at = n;
        tenon_status status = w->write(true);
        call_at = -1;
        if (!*failed_call) {
            OK(status);
            break;
        }
        if (strcmp(failed_call, "link") == 0 || status == TENON_OK) {
            /* It is not needed, but for taking back. */
            ck_assert_str_eq(failed_call, "link");
            OK(status);
            empty_folder(w);
            if (there)
                OK(w->write(false));
            continue;
        }
        check_failed(w, status, there ? &before : NULL, failed_call, n);
        ck_assert_msg(strstr(tenon_last_error(), strerror(call_error)) != NULL, "%s, %s: \"%s\"",
                      w->name, failed_call, tenon_last_error());
    }
    ck_assert_int_ge(n, 5);
    printf("failing calls, %s: %ld points\n", w->name, n);
    fflush(stdout);
    free_content(&before);
}
END_TEST

/* ---- What need not be kept ---- */

static int warnings;

static void count_warning(tenon_log_level level, const char *text, void *user) {
    (void)text, (void)user;
    warnings += level == TENON_LOG_WARN;
}

static tenon_status tune(const tenon_graph *graph, const char *path) {
    const tenon_session_options options = {.threads = 1, .tune = path};
    tenon_session *tuned = NULL;
    tenon_status status = tenon_session_create(graph, &options, &tuned);
    tenon_session_destroy(&tuned);
    return status;
}

/* Choices that cannot be kept are a warning, and those of before stay. */
START_TEST(choices_are_not_kept) {
    static const char wide[] = "graph g { input %x: float32[32, 64]\n"
                               "const %w: float32[64, 64] = random(1)\n%y = aten.linear(%x, %w)\n"
                               "%z = aten.relu(%y)\noutput \"z\" = %z }";
    static const char wider[] = "graph g { input %x: float32[48, 64]\n"
                                "const %w: float32[64, 64] = random(1)\n%y = aten.linear(%x, %w)\n"
                                "%z = aten.relu(%y)\noutput \"z\" = %z }";
    const writer w = {"choices", {"c.json"}, NULL};
    char path[700];
    tenon_graph *first = parse_graph(wide), *second = parse_graph(wider);
    snprintf(path, sizeof path, "%s", in_folder("c.json"));
    OK(tune(first, path));
    content before = read_all(&w);
    tenon_log_set(TENON_LOG_WARN, count_warning, NULL);
    for (long n = 0;; n++) {
        calls = warnings = 0;
        call_error = ENOSPC;
        *failed_call = '\0';
        call_at = n; /* Check writes too: no assert until it is over */
        tenon_status status = tune(second, path);
        call_at = -1;
        OK(status);
        if (!*failed_call)
            break;
        content now = read_all(&w);
        if (strcmp(failed_call, "fclose") == 0 && warnings == 0) {
            /* Of a file that was only read. */
            ck_assert(!is_same(&now, &before));
            test_write(path, before.data[0], before.size[0]);
            free_content(&now);
            continue;
        }
        ck_assert_msg(is_same(&now, &before), "%s: the old choices are gone", failed_call);
        ck_assert_msg(warnings > 0, "%s: no warning", failed_call);
        ck_assert_int_eq(count_files(), 1);
        free_content(&now);
    }
    content now = read_all(&w);
    ck_assert(!is_same(&now, &before));
    ck_assert_int_eq(warnings, 0);
    tenon_graph_destroy(&first);
    tenon_graph_destroy(&second);
    free_content(&now);
    free_content(&before);
}
END_TEST

/* ---- Images ---- */

typedef enum read_fault { NO_FAULT, READS_FAIL, READS_LESS, READS_INTERRUPTED } read_fault;
static read_fault fault;
static long reads;

ssize_t __wrap_read(int fd, void *to, size_t size) {
    if (fault == NO_FAULT)
        return __real_read(fd, to, size);
    long n = reads++;
    if (fault == READS_LESS)
        return __real_read(fd, to, size > 7 ? 7 : size);
    if (fault == READS_INTERRUPTED && n % 2)
        return __real_read(fd, to, size);
    errno = fault == READS_FAIL ? EIO : EINTR;
    return -1;
}

/* A PNG of one grey pixel: what libpng wrote, by hand. */
static const unsigned char pixel[] = {
    0x89, 'P',  'N',  'G',  '\r', '\n', 0x1a, '\n', 0,    0,    0,    13,   'I',  'H',
    'D',  'R',  0,    0,    0,    1,    0,    0,    0,    1,    8,    0,    0,    0,
    0,    0x3a, 0x7e, 0x9b, 0x55, 0,    0,    0,    10,   'I',  'D',  'A',  'T',  0x78,
    0x9c, 0x63, 0x68, 0x00, 0x00, 0x00, 0x82, 0x00, 0x81, 0x77, 0xcd, 0x72, 0xb6, 0,
    0,    0,    0,    'I',  'E',  'N',  'D',  0xae, 0x42, 0x60, 0x82};

START_TEST(images_are_read) {
    float row[3 * 4 * 4];
    char why[BATCH_TEXT];
    batch_field field = {
        .name = "x",
        .row = view_of(row, TENON_FLOAT32, 3, 4, 4, -1),
        .bytes = sizeof row,
    };
    batch_source *source = NULL;
    image_transform transform = image_standard;
    transform.resize_height = 4;
    const char *path = test_path("images");
    ck_assert_int_eq(mkdir(path, 0777), 0);
    char file[700];
    snprintf(file, sizeof file, "%s/a.png", path);
    test_write(file, pixel, sizeof pixel);
    OK(batch_source_images(path, &transform, &field, &source));
    for (fault = NO_FAULT; fault <= READS_INTERRUPTED; fault++) {
        reads = 0;
        batch_got got = source->fetch(source, 0, &field.row, why);
        if (fault == READS_FAIL) {
            ck_assert_int_eq(got, BATCH_FAILED);
            ck_assert_msg(strstr(why, strerror(EIO)) != NULL, "%s", why);
        } else {
            ck_assert_msg(got == BATCH_GOT, "fault %d: %s", (int)fault, why);
        }
        ck_assert(fault == NO_FAULT || reads > 0);
    }
    fault = NO_FAULT;
    batch_source_destroy(&source);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("file_faults");
    TCase *tests = tcase_create("file_faults");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, disks_are_full, 0, WRITERS);
    tcase_add_loop_test(tests, calls_fail, 0, 2 * WRITERS);
    tcase_add_test(tests, choices_are_not_kept);
    tcase_add_test(tests, images_are_read);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
