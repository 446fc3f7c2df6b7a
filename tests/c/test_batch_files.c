/* What batch jobs write: sinks, the journal, files. */
#include "batch_job.h"
#include "suite.h"
#include <batch/file.h>
#include <batch/formats.h>
#include <batch/journal.h>
#include <batch/progress.h>
#include <batch/sink.h>

/* ---- Sinks ---- */

/* Whatever the shape and the number of rows, the header is as long, and what is read back equal. */
START_TEST(array_sinks) {
    static const int64_t shapes[][3] = {{1, 0, 0}, {2, 3, 0}, {7, 1, 5}};
    for (int dtype = TENON_BOOL; dtype < TENON_DTYPE_COUNT; dtype++) {
        for (int k = 0; k < 8; k++) {
            int rank = k / 2;
            batch_field f = field_of("o", (tenon_dtype)dtype, rank, rank ? shapes[rank - 1] : NULL);
            batch_sink *sink = NULL;
            batch_bytes bytes = {0};
            char *data = malloc(f.bytes * 3 + 1);
            memset(data, 1, f.bytes * 3);
            bool bad[3] = {false, true, false};
            batch_rows rows = {.count = 3, .bad = bad, .view = f.row};
            rows.view.rank++;
            rows.view.shape[0] = 3;
            memmove(rows.view.shape + 1, f.row.shape, (size_t)rank * sizeof *f.row.shape);
            memmove(rows.view.strides + 1, f.row.strides, (size_t)rank * sizeof *f.row.strides);
            rows.view.strides[0] = (int64_t)(f.bytes / tenon_dtype_size((tenon_dtype)dtype));
            rows.view.data = data;
            ck_assert_int_eq(k % 2 ? batch_sink_safetensors("o\"\n", &f.row, &sink)
                                   : batch_sink_npy("o", &f.row, &sink),
                             TENON_OK);
            ck_assert_uint_eq(sink->header_size % 64, 0);
            char *header = batch_bytes_add(&bytes, sink->header_size);
            ck_assert_int_eq(sink->header(sink, INT64_MAX / 4096, header), TENON_OK);
            ck_assert_int_eq(sink->header(sink, 3, header), TENON_OK);
            ck_assert_int_eq(sink->encode(sink, &rows, &bytes), TENON_OK);
            const char *path = test_path(k % 2 ? "o.safetensors" : "o.npy");
            test_write(path, bytes.data, bytes.size);
            batch_archive *archive = NULL;
            batch_array array;
            ck_assert_int_eq(batch_archive_open(path, &archive), TENON_OK);
            ck_assert_int_eq(batch_archive_find(archive, "", true, &array), TENON_OK);
            ck_assert_str_eq(array.name, k % 2 ? "o\"\n" : "");
            ck_assert_int_eq(array.view.rank, rank + 1);
            ck_assert_int_eq(array.view.shape[0], 3);
            bool wider = dtype == TENON_BFLOAT16 && k % 2 == 0;
            ck_assert_int_eq(array.view.dtype, wider ? TENON_FLOAT32 : (tenon_dtype)dtype);
            tenon_view row = f.row;
            char *read = malloc(f.bytes + 1);
            row.data = read;
            for (int r = 0; r < 3 && !wider; r++) {
                ck_assert_int_eq(batch_archive_read(archive, &array, r, &row), TENON_OK);
                if (r == 1)
                    batch_row_blank((tenon_dtype)dtype, data + f.bytes, f.bytes);
                ck_assert_mem_eq(read, data + f.bytes * (size_t)r, f.bytes);
            }
            free(read);
            free(data);
            batch_archive_close(&archive);
            batch_bytes_free(&bytes);
            batch_sink_destroy(&sink);
        }
    }
}
END_TEST

static void odd_name(const batch_source *source, int64_t index, char *text) {
    (void)source;
    snprintf(text, BATCH_TEXT, "a,\"b\" %d", (int)index);
}

START_TEST(lists_of_bad_samples) {
    batch_source source = {.name = odd_name};
    bool bad[3] = {true, false, true};
    char line[] = "two\nlines";
    char *why[3] = {line, NULL, NULL};
    batch_rows rows = {.first = 5, .count = 3, .bad = bad, .why = why, .source = &source};
    static const char *const wanted[] = {
        "sample,name,reason\n5,\"a,\"\"b\"\" 5\",\"two\nlines\"\n7,\"a,\"\"b\"\" 7\",\n",
        "{\"sample\":5,\"name\":\"a,\\\"b\\\" 5\",\"reason\":\"two\\nlines\"}\n"
        "{\"sample\":7,\"name\":\"a,\\\"b\\\" 7\",\"reason\":\"\"}\n"};
    for (int json = 0; json < 2; json++) {
        batch_sink *sink = NULL;
        batch_bytes bytes = {0};
        ck_assert_int_eq(batch_sink_errors(json, &sink), TENON_OK);
        char *header = batch_bytes_add(&bytes, sink->header_size);
        ck_assert_int_eq(sink->header(sink, 3, header), TENON_OK);
        ck_assert_int_eq(sink->encode(sink, &rows, &bytes), TENON_OK);
        ck_assert_int_eq(batch_bytes_put(&bytes, "", 1), TENON_OK);
        ck_assert_str_eq(bytes.data, wanted[json]);
        batch_bytes_free(&bytes);
        batch_sink_destroy(&sink);
    }
}
END_TEST

/* ---- The journal ---- */

static cJSON *job_line(void) {
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "job", "this one");
    return line;
}

static void write_journal(const char *path, int states) {
    batch_journal j;
    ck_assert_int_eq(batch_journal_open(path, &j), TENON_OK);
    ck_assert_int_eq(j.state.stage, BATCH_NOTHING);
    ck_assert_int_eq(batch_journal_start(&j, job_line()), TENON_OK);
    for (int i = 0; i < states; i++) {
        batch_state s = {.stage = BATCH_RUNNING,
                         .samples = 10 * (i + 1),
                         .bad = i,
                         .digest = UINT64_MAX - (uint64_t)i,
                         .file_count = 2,
                         .sizes = {i, (int64_t)1 << 50}};
        ck_assert_int_eq(batch_journal_add(&j, &s), TENON_OK);
    }
    batch_journal_close(&j);
}

START_TEST(journal_is_read_back) {
    batch_journal j, other;
    const char *path = test_path("journal");
    write_journal(path, 3);
    ck_assert_int_eq(batch_journal_open(path, &j), TENON_OK);
    ck_assert_str_eq(cJSON_GetObjectItem(j.job, "job")->valuestring, "this one");
    ck_assert_int_eq(j.state.samples, 30);
    ck_assert_int_eq(j.state.bad, 2);
    ck_assert_uint_eq(j.state.digest, UINT64_MAX - 2);
    ck_assert_int_eq(j.state.file_count, 2);
    ck_assert_int_eq(j.state.sizes[0], 2);
    ck_assert_int_eq(j.state.sizes[1], (int64_t)1 << 50);
    ck_assert_int_eq(batch_journal_open(path, &other), TENON_IO);
    ck_assert_ptr_nonnull(strstr(tenon_last_error(), "another job"));
    /* A new one takes its place, and is locked too. */
    ck_assert_int_eq(batch_journal_start(&j, job_line()), TENON_OK);
    ck_assert_int_eq(batch_journal_open(path, &other), TENON_IO);
    batch_journal_close(&j);
    ck_assert_int_eq(batch_journal_open(path, &j), TENON_OK);
    ck_assert_int_eq(j.state.stage, BATCH_RUNNING);
    ck_assert_int_eq(j.state.samples, 0);
    batch_journal_close(&j);
}
END_TEST

/* Whatever becomes of its bytes, a journal tells what it has told at some time, or nothing; and new
 * lines follow on that. */
START_TEST(broken_journal) {
    enum { STATES = 4 };
    size_t size;
    char path[512];
    snprintf(path, sizeof path, "%s", test_path("journal"));
    write_journal(path, STATES);
    char *data = test_read(path, &size);
    int seen[STATES + 1] = {0};
    for (size_t i = 0; i < 3 * size; i++) {
        char *copy = malloc(size + 1);
        memcpy(copy, data, size);
        size_t length = i < size ? i : size, at = i % size;
        if (i >= size)
            copy[at] = i < 2 * size ? (char)(copy[at] ^ 1) : '\0';
        test_write(path, copy, length);
        free(copy);
        batch_journal j;
        ck_assert_int_eq(batch_journal_open(path, &j), TENON_OK);
        ck_assert_int_eq(j.state.samples % 10, 0);
        int64_t done = j.state.samples / 10;
        ck_assert(done >= 0 && done <= STATES);
        ck_assert(j.state.stage == BATCH_RUNNING || !j.job);
        ck_assert(done == 0 || j.state.bad == done - 1);
        seen[done]++;
        if (j.job && i % 7 == 0) {
            batch_state next = {.stage = BATCH_COMPLETE, .samples = 990};
            ck_assert_int_eq(batch_journal_continue(&j), TENON_OK);
            ck_assert_int_eq(batch_journal_add(&j, &next), TENON_OK);
            batch_journal_close(&j);
            ck_assert_int_eq(batch_journal_open(path, &j), TENON_OK);
            ck_assert_int_eq(j.state.samples, 990);
        }
        batch_journal_close(&j);
    }
    for (int i = 0; i < STATES; i++)
        ck_assert_int_gt(seen[i], 10);
    free(data);
}
END_TEST

/* A line of another journal, checksum and all, is none of this one. */
START_TEST(lines_of_another_journal) {
    size_t size, other_size;
    const char *path = test_path("journal");
    write_journal(test_path("other"), 9);
    write_journal(path, 2);
    char *data = test_read(path, &size), *other = test_read(test_path("other"), &other_size);
    char *last = other + other_size - 1;
    while (last[-1] != '\n')
        last--;
    batch_bytes joined = {0};
    batch_bytes_put(&joined, data, size);
    batch_bytes_put(&joined, last, (size_t)(other + other_size - last));
    test_write(path, joined.data, joined.size);
    batch_journal j;
    ck_assert_int_eq(batch_journal_open(path, &j), TENON_OK);
    ck_assert_int_eq(j.state.samples, 20);
    batch_journal_close(&j);
    batch_bytes_free(&joined);
    free(data);
    free(other);
}
END_TEST

/* ---- Files ---- */

/* However a path is written, and whether anything is there. */
START_TEST(paths_of_one_file) {
    char folder[512], a[1024], b[1024];
    snprintf(folder, sizeof folder, "%s", test_path("p"));
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    ck_assert_int_eq(symlink("p", test_path("link")), 0);
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {"p/y.npy", "p/y.npy", true},
        {"p/y.npy", "p/./y.npy", true},
        {"p/y.npy", "p//y.npy", true},
        {"p/y.npy", "link/y.npy", true},
        {"p/y.npy", "p/../link/y.npy", true},
        {"new/y.npy", "new/./y.npy", true},
        {"new/a//y.npy", "./new//a/y.npy", true},
        {"p/y.npy", "p/z.npy", false},
        {"p/y.npy", "new/y.npy", false},
        {"p/y.npy", "new/../p/z.npy", false},
    };
    ck_assert_int_eq(chdir(test_folder), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_msg(batch_file_is_same(cases[i].a, cases[i].b) == cases[i].same, "%s and %s",
                      cases[i].a, cases[i].b);
        snprintf(a, sizeof a, "%s/%s", test_folder, cases[i].a);
        ck_assert_msg(batch_file_is_same(a, cases[i].b) == cases[i].same, "%s and %s", a,
                      cases[i].b);
    }
    test_write("p/y.npy", "1", 1);
    ck_assert_int_eq(link("p/y.npy", "hard.npy"), 0);
    ck_assert_int_eq(symlink("p/y.npy", "soft.npy"), 0);
    test_write("p/z.npy", "1", 1);
    snprintf(b, sizeof b, "%s/p/./y.npy", test_folder);
    ck_assert(batch_file_is_same("hard.npy", b) && batch_file_is_same("soft.npy", b));
    ck_assert(!batch_file_is_same("hard.npy", "p/z.npy"));
    ck_assert(batch_file_is_in("p/none", "link/") && batch_file_is_in(b, "p"));
    ck_assert(!batch_file_is_in("none", "p") && !batch_file_is_in("p/new/none", "p"));
    ck_assert(batch_file_is_in("none", ".") && batch_file_is_in("/none", "/"));
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

START_TEST(partial_files) {
    batch_file f, same;
    char path[512], link[512];
    snprintf(path, sizeof path, "%s", test_path("o.npy"));
    snprintf(link, sizeof link, "%s", test_path("link.npy"));
    test_write(path, "old", 3);
    ck_assert_int_eq(symlink(path, link), 0);
    ck_assert_int_eq(batch_file_name(link, &f), TENON_OK);
    ck_assert_str_eq(f.path, path); /* the link stays */
    ck_assert_int_eq(batch_file_name(path, &same), TENON_OK);
    ck_assert_int_eq(batch_file_open(&f, 0), TENON_OK);
    ck_assert_int_eq(batch_file_open(&same, 0), TENON_IO);
    ck_assert_int_eq(batch_file_append(&f, "0123456789", 10), TENON_OK);
    ck_assert_int_eq(batch_file_patch(&f, "ab", 2), TENON_OK);
    ck_assert_int_eq(batch_file_sync(&f), TENON_OK);
    job_equal(path, path);
    ck_assert_int_eq(batch_file_rename(&f), TENON_OK);
    size_t size;
    char *data = test_read(link, &size);
    ck_assert_str_eq(data, "ab23456789");
    free(data);
    batch_file_close(&f);
    ck_assert_int_eq(batch_file_open(&same, 5), TENON_INVALID_FILE); /* there are not so many */
    batch_file_close(&same);
    ck_assert_int_eq(batch_file_name("/dev/null", &f), TENON_IO);
}
END_TEST

/* ---- Progress ---- */

/* What it shows next, without waiting for when it would be time. */
static char *shown(batch_progress *p, bool ends) {
    size_t size;
    ck_assert_ptr_nonnull(freopen(test_path("shown"), "w", stderr));
    p->shown = -1e9;
    if (ends)
        batch_progress_end(p);
    else
        batch_progress_show(p);
    fflush(stderr);
    return test_read(test_path("shown"), &size);
}

static void shows(batch_progress *p, bool terminal, int64_t samples, int64_t total,
                  const char *begin, const char *left) {
    p->terminal = terminal;
    p->samples = samples;
    p->total = total;
    char *text = shown(p, false);
    ck_assert_msg(strncmp(text, begin, strlen(begin)) == 0, "\"%s\" begins otherwise", text);
    ck_assert_msg((strstr(text, left) != NULL) == (total >= 0), "%s in \"%s\"", left, text);
    ck_assert_ptr_nonnull(strstr(text, " cores busy"));
    ck_assert_int_eq(strchr(text, '\n') != NULL, !terminal);
    ck_assert_int_eq(strstr(text, ", 3 bad") != NULL, p->bad == 3);
    free(text);
}

/* So long ago that rates have the same digits for as long as a test may take. */
START_TEST(progress_is_shown) {
    enum { ALL = 1000000, SECONDS = 100000 };
    batch_progress p;
    batch_progress_start(&p, false, 0, ALL);
    p.start -= SECONDS;
    shows(&p, true, ALL / 2, ALL,
          "\r\033[K############............ 500000 of 1000000 samples, 5.0 a second, 27:", " left");
    shows(&p, true, ALL - 1, ALL, "\r\033[K#######################. 999999 of ", ", 0:00 left");
    p.bad = 3;
    shows(&p, true, ALL, ALL, "\r\033[K######################## 1000000 of ", ", 0:00 left");
    shows(&p, true, 0, ALL, "\r\033[K........................ 0 of 1000000 samples, 0.0 a s", "");
    shows(&p, true, 0, 0, "\r\033[K 0 of 0 samples, ", "");
    shows(&p, true, ALL / 2, -1, "\r\033[K 500000 samples, 5.0 a second", " left");
    p.start_samples = ALL / 4; /* that were done before count for the bar, and not for the rate */
    shows(&p, true, ALL / 2, ALL,
          "\r\033[K############............ 500000 of 1000000 samples, 2.5 a second, 55:", " left");
    p.bad = 0;
    shows(&p, false, ALL / 2, ALL, "tenon batch: 500000 of 1000000 samples, 2.5 a second, ", "");
    shows(&p, false, ALL / 2, -1, "tenon batch: 500000 samples, 2.5 a second, ", " left");
    char *text = shown(&p, true);
    ck_assert_str_eq(text, "");
    free(text);
    p.terminal = true;
    text = shown(&p, true);
    ck_assert_str_eq(text, "\r\033[K"); /* the line is free for what follows */
    free(text);
    p.quiet = true;
    for (int ends = 0; ends < 2; ends++) {
        text = shown(&p, ends);
        ck_assert_str_eq(text, "");
        free(text);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("batch_files");
    TCase *tests = tcase_create("files");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, array_sinks);
    tcase_add_test(tests, lists_of_bad_samples);
    tcase_add_test(tests, journal_is_read_back);
    tcase_add_test(tests, broken_journal);
    tcase_add_test(tests, lines_of_another_journal);
    tcase_add_test(tests, paths_of_one_file);
    tcase_add_test(tests, partial_files);
    tcase_add_test(tests, progress_is_shown);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
