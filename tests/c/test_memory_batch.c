/* Allocations that fail in batch jobs, and threads that do not start: what reads samples, what
 * writes results, the journal, and jobs that are resumed. */
#include "alloc_faults.h"
#include "batch_job.h"
#include <batch/formats.h>
#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <zip.h>

/* glibc follows a null pointer when memory is out in there (seen in 2.36). */
FTS *__real_fts64_open(char *const *paths, int options,
                       int (*order)(const FTSENT **, const FTSENT **));
FTS *__wrap_fts64_open(char *const *paths, int options,
                       int (*order)(const FTSENT **, const FTSENT **));

FTS *__wrap_fts64_open(char *const *paths, int options,
                       int (*order)(const FTSENT **, const FTSENT **)) {
    within_library++;
    FTS *walk = __real_fts64_open(paths, options, order);
    within_library--;
    return walk;
}

static char model_path[512], npy_path[512], npz_path[512], deflated_path[512], tensors_path[512],
    folder_path[512], out_path[512];

static void write_npz(const char *path, const char *from, zip_int32_t method) {
    size_t size;
    char *npy = test_read(from, &size);
    job_save_npz(path, npy, size, method);
    free(npy);
}

static void write_safetensors(const char *path, const char *from) {
    char header[128];
    size_t size, bytes = (size_t)JOB_SAMPLES * JOB_WIDTH * sizeof(float);
    char *npy = test_read(from, &size), *file = calloc(1, 8 + sizeof header + bytes);
    int length = snprintf(header, sizeof header,
                          "{\"x\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%zu]}}",
                          JOB_SAMPLES, JOB_WIDTH, bytes);
    file[0] = (char)length;
    memcpy(file + 8, header, (size_t)length);
    memcpy(file + 8 + length, npy + size - bytes, bytes);
    test_write(path, file, 8 + (size_t)length + bytes);
    free(npy);
    free(file);
}

static int sync_nothing(int fd) {
    (void)fd;
    return 0; /* nobody pulls the plug of this machine */
}

static int sync_no_folder(const char *path) {
    (void)path;
    return 0;
}

static void write_files(void) {
    static batch_disk disk;
    char part[700];
    disk = batch_disk_real;
    disk.sync = sync_nothing;
    disk.sync_folder = sync_no_folder;
    batch_disk_used = &disk;
    job_silence();
    snprintf(model_path, sizeof model_path, "%s", test_path("model.txt"));
    snprintf(npy_path, sizeof npy_path, "%s", test_path("x.npy"));
    snprintf(npz_path, sizeof npz_path, "%s", test_path("x.npz"));
    snprintf(deflated_path, sizeof deflated_path, "%s", test_path("d.npz"));
    snprintf(tensors_path, sizeof tensors_path, "%s", test_path("x.safetensors"));
    snprintf(folder_path, sizeof folder_path, "%s", test_path("parts"));
    snprintf(out_path, sizeof out_path, "%s", test_path("out"));
    ck_assert_int_eq(mkdir(folder_path, 0777), 0);
    ck_assert_int_eq(mkdir(out_path, 0777), 0);
    test_write(model_path, job_model, sizeof job_model - 1);
    job_samples(npy_path, JOB_SAMPLES, 13);
    for (int i = 0; i < 3; i++) {
        snprintf(part, sizeof part, "%s/%d.npy", folder_path, i);
        job_samples(part, JOB_SAMPLES / 3, i == 1 ? 6 : -1);
    }
    write_npz(npz_path, npy_path, ZIP_CM_STORE);
    write_npz(deflated_path, npy_path, ZIP_CM_DEFLATE);
    write_safetensors(tensors_path, npy_path);
}

static void empty_out(void) {
    char path[1000];
    bool counted = faults_counted;
    faults_counted = false;
    DIR *dir = opendir(out_path);
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", out_path, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (dir)
        closedir(dir);
    faults_counted = counted;
}

/* What a failed job says is all that tells why. */
static tenon_status status_of(batch_end end) {
    const char *text = tenon_last_error();
    if (end == BATCH_FINISHED)
        return TENON_OK;
    return end == BATCH_FAILURE &&
                   (strstr(text, "out of memory") || strstr(text, "no thread") ||
                    /* libzip's words, which in one place sees no archive then */
                    strstr(text, "Malloc failure") || strstr(text, "Not a zip archive") ||
                    strstr(text, "insufficient memory") || strstr(text, strerror(ENOMEM)))
               ? TENON_OUT_OF_MEMORY
               : TENON_INTERNAL;
}

/* How a job is done. */
typedef struct course {
    const char *input, *model; /* model NULL: the one of batch_job.h */
    const char *files[2];      /* of outputs y and k; NULL: y.npy and k.safetensors */
    bool json, resume;
} course;

static const char *const written[] = {"y.npy", "k.safetensors", "y.npy.errors.csv",
                                      "y.csv", "e.jsonl",       "s.json"};
enum { WRITTEN = sizeof written / sizeof *written };

/* What the first life wrote, as the others must. */
static struct {
    char bytes[8192];
    ssize_t size;
} wanted[WRITTEN];
static bool keeps_wanted;

static bool read_out(const char *name, char *bytes, ssize_t capacity, ssize_t *size) {
    char path[1000];
    snprintf(path, sizeof path, "%s/%s", out_path, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *size = fd < 0 ? -1 : read(fd, bytes, (size_t)capacity);
    if (fd >= 0)
        close(fd);
    return *size < capacity;
}

/* A file that has its name is whole, whatever became of the job. Summaries tell times. */
static tenon_status check_out(bool finished) {
    char bytes[sizeof wanted->bytes];
    for (int i = 0; i < WRITTEN - 1; i++) {
        ssize_t size;
        if (!read_out(written[i], bytes, sizeof bytes, &size))
            return tenon_fail(TENON_INTERNAL, "%s is too large", written[i]);
        if (keeps_wanted) {
            memcpy(wanted[i].bytes, bytes, size > 0 ? (size_t)size : 0);
            wanted[i].size = size;
        }
        if (size < 0 ? finished && wanted[i].size >= 0
                     : size != wanted[i].size || memcmp(bytes, wanted[i].bytes, (size_t)size) != 0)
            return tenon_fail(TENON_INTERNAL, "%s is %s", written[i],
                              size < 0 ? "missing" : "no whole file");
    }
    return TENON_OK;
}

static void make_job(const course *c, job_case *made, char paths[4][700]) {
    for (int i = 0; i < 2; i++)
        snprintf(paths[i], 700, "%s/%s", out_path, c->files[i] ? c->files[i] : written[i]);
    snprintf(paths[2], 700, "%s/e.jsonl", out_path);
    snprintf(paths[3], 700, "%s/s.json", out_path);
    job_make(made, c->model ? c->model : model_path, c->input, paths[0], paths[1]);
    if (c->json) {
        made->job.errors = paths[2];
        made->job.json = paths[3];
    }
}

static tenon_status job_life(const void *user) {
    const course *c = user;
    job_case made;
    char paths[4][700], message[1024];
    empty_out();
    make_job(c, &made, paths);
    tenon_status status = status_of(batch_run(&made.job));
    snprintf(message, sizeof message, "%s", tenon_last_error());
    tenon_status whole = check_out(status == TENON_OK);
    if (whole != TENON_OK)
        return whole;
    if (status != TENON_OK && c->resume && faults_counted) {
        /* The disk has what was done: it goes on from there. */
        stop_counting();
        made.job.resume = true;
        tenon_status resumed = status_of(batch_run(&made.job));
        if (resumed == TENON_OK)
            resumed = check_out(true);
        faults_counted = true;
        if (resumed != TENON_OK)
            return tenon_fail(TENON_INTERNAL, "resumed: %s", tenon_last_error());
    }
    return status == TENON_OK ? status : tenon_fail(status, "%s", message);
}

static void sweep_job(const char *name, const course *c, int most, int needed) {
    tenon_log_set(TENON_LOG_NONE, NULL, NULL);
    keeps_wanted = true;
    ck_assert_msg(job_life(c) == TENON_OK, "%s: %s", name, tenon_last_error());
    keeps_wanted = false;
    sweep_life(&(life){.name = name, .live = job_life, .user = c, .most = most, .needed = needed});
}

START_TEST(sources) {
    static const char *const paths[] = {npy_path, npz_path, deflated_path, tensors_path,
                                        folder_path};
    static const char *const names[] = {"batch npy", "batch npz, stored", "batch npz, deflated",
                                        "batch safetensors", "batch folder"};
    write_files();
    sweep_job(names[_i], &(course){.input = paths[_i], .resume = true}, 150, 30);
}
END_TEST

START_TEST(sinks) {
    write_files();
    sweep_job("batch csv and summary",
              &(course){.input = npy_path, .files = {"y.csv"}, .json = true, .resume = true}, 200,
              30);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("memory_batch");
    TCase *tests = tcase_create("memory_batch");
    tcase_set_timeout(tests, 2400); /* the whole sweep takes long */
    tcase_add_loop_test(tests, sources, 0, 5);
    tcase_add_test(tests, sinks);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
