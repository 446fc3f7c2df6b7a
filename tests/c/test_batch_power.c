/* Batch jobs that end at any moment. What a job does to the disk is recorded. Then every prefix of
 * that is replayed into a folder of its own, with what was not synced lost, or kept in part, or in
 * another order, and the job is resumed there: it must end with the same bytes. And every operation
 * of a job is made to fail. */
#include "batch_job.h"
#include "suite.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* ---- Recording ---- */

typedef enum kind { OPEN, WRITE, TRUNCATE, SYNC, SYNC_FOLDER, RENAME, REMOVE, KINDS } kind;

enum { MOST_STEPS = 2000, MOST_INODES = 64, MOST_NAMES = 64, MOST_FD = 1024, MOST_BYTES = 4096 };

typedef struct step {
    kind kind;
    int inode;
    char path[128], to[128]; /* names in the folder */
    int64_t at, size;
    char *data;
} step;

static step steps[MOST_STEPS];
static int step_count;
static int inode_of_fd[MOST_FD];
static int inode_count;
static struct {
    char name[128];
    int inode;
} names[MOST_NAMES];
static int name_count;

static int fail_at; /* the operation that fails; -1: none */
static int fail_errno;
static int operations;

static bool fails(void) {
    if (operations++ != fail_at)
        return false;
    errno = fail_errno;
    return true;
}

static const char *base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int *find_name(const char *name) {
    for (int i = 0; i < name_count; i++)
        if (strcmp(names[i].name, name) == 0)
            return &names[i].inode;
    ck_assert_int_lt(name_count, MOST_NAMES);
    snprintf(names[name_count].name, sizeof names->name, "%s", name);
    names[name_count].inode = -1;
    return &names[name_count++].inode;
}

static step *record(kind k, int inode) {
    ck_assert_int_lt(step_count, MOST_STEPS);
    steps[step_count] = (step){.kind = k, .inode = inode};
    return &steps[step_count++];
}

static int disk_open(const char *path) {
    if (fails())
        return -1;
    int fd = batch_disk_real.open(path);
    if (fd < 0)
        return fd;
    ck_assert_int_lt(fd, MOST_FD);
    int *inode = find_name(base(path));
    if (*inode < 0) {
        *inode = inode_count++;
        ck_assert_int_lt(inode_count, MOST_INODES);
        snprintf(record(OPEN, *inode)->path, sizeof steps->path, "%s", base(path));
    }
    inode_of_fd[fd] = *inode;
    return fd;
}

static int disk_write(int fd, const void *data, size_t size, int64_t at) {
    if (fails()) {
        (void)!pwrite(fd, data, size / 2, at); /* the disk was full in the middle */
        errno = fail_errno;
        return -1;
    }
    step *s = record(WRITE, inode_of_fd[fd]);
    s->at = at;
    s->size = (int64_t)size;
    s->data = malloc(size + 1);
    memcpy(s->data, data, size);
    return batch_disk_real.write(fd, data, size, at);
}

static int disk_truncate(int fd, int64_t size) {
    if (fails())
        return -1;
    record(TRUNCATE, inode_of_fd[fd])->size = size;
    return batch_disk_real.truncate(fd, size);
}

static int disk_sync(int fd) {
    if (fails())
        return -1;
    record(SYNC, inode_of_fd[fd]);
    return 0; /* nobody pulls the plug of this machine */
}

static int disk_sync_folder(const char *path) {
    (void)path;
    if (fails())
        return -1;
    record(SYNC_FOLDER, -1);
    return 0;
}

static int disk_rename(const char *from, const char *to) {
    if (fails())
        return -1;
    int *old = find_name(base(from));
    step *s = record(RENAME, *old);
    memccpy(s->path, base(from), 0, sizeof s->path - 1);
    memccpy(s->to, base(to), 0, sizeof s->to - 1);
    int inode = *old;
    *old = -1;
    *find_name(base(to)) = inode;
    return batch_disk_real.rename(from, to);
}

static int disk_remove(const char *path) {
    if (fails())
        return -1;
    int *old = find_name(base(path));
    snprintf(record(REMOVE, *old)->path, sizeof steps->path, "%s", base(path));
    *old = -1;
    return batch_disk_real.remove(path);
}

static int disk_make_folder(const char *path) {
    return fails() ? -1 : batch_disk_real.make_folder(path);
}

static int disk_close(int fd) {
    return batch_disk_real.close(fd);
}

static const batch_disk recording = {disk_open,   disk_write,       disk_truncate,
                                     disk_sync,   disk_sync_folder, disk_rename,
                                     disk_remove, disk_make_folder, disk_close};

static int no_sync(int fd) {
    (void)fd;
    return 0;
}

static int no_sync_folder(const char *path) {
    (void)path;
    return 0;
}

/* The real operations, but for the ones that a busy disk makes wait. */
static batch_disk unsynced;

static void stop_recording(void) {
    unsynced = batch_disk_real;
    unsynced.sync = no_sync;
    unsynced.sync_folder = no_sync_folder;
    batch_disk_used = &unsynced;
}

static void start_recording(void) {
    batch_disk_used = &recording;
    fail_at = -1;
    for (int i = 0; i < step_count; i++)
        free(steps[i].data);
    operations = step_count = inode_count = name_count = 0;
}

/* ---- What a power loss leaves ---- */

typedef struct content {
    char data[MOST_BYTES];
    int64_t size;
} content;

static content files[MOST_INODES];
static int folder[MOST_NAMES]; /* by name: the inode, or -1 */
static uint64_t seed;

static unsigned draw(unsigned below) {
    seed ^= seed << 13; /* Marsaglia's xorshift */
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 33) % below;
}

static void set_size(content *c, int64_t size) {
    ck_assert_int_le(size, MOST_BYTES);
    if (size > c->size)
        memset(c->data + c->size, 0, (size_t)(size - c->size));
    c->size = size;
}

static void apply_data(const step *s, int64_t from, int64_t to) {
    content *c = &files[s->inode];
    if (s->kind == TRUNCATE) {
        set_size(c, s->size);
    } else if (to > from) {
        if (s->at + to > c->size)
            set_size(c, s->at + to);
        memcpy(c->data + s->at + from, s->data + from, (size_t)(to - from));
    }
}

static int slot(const char *name) {
    find_name(name);
    for (int i = 0; i < name_count; i++)
        if (strcmp(names[i].name, name) == 0)
            return i;
    return -1;
}

static void apply_folder(const step *s) {
    if (s->kind == OPEN)
        folder[slot(s->path)] = s->inode;
    if (s->kind != OPEN && folder[slot(s->path)] == s->inode)
        folder[slot(s->path)] = -1;
    if (s->kind == RENAME)
        folder[slot(s->to)] = s->inode;
}

static bool is_data(const step *s) {
    return s->kind == WRITE || s->kind == TRUNCATE;
}

static bool is_name(const step *s) {
    return s->kind == OPEN || s->kind == RENAME || s->kind == REMOVE;
}

/* Whether a later step before `count` made step `i` durable. */
static bool is_synced(int i, int count) {
    for (int k = i + 1; k < count; k++)
        if (is_data(&steps[i]) ? steps[k].kind == SYNC && steps[k].inode == steps[i].inode
                               : steps[k].kind == SYNC_FOLDER)
            return true;
    return false;
}

typedef enum loss { ALL_LOST, NONE_LOST, SOME_LOST } loss;

/* Files and folder after the first `count` steps, of which those that were not synced got lost, or
 * not, or some did. What was synced stands; the rest of each file comes after that. */
static void lose_power(int count, loss how) {
    memset(files, 0, sizeof files);
    for (int i = 0; i < MOST_NAMES; i++)
        folder[i] = -1;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < count; i++) {
            const step *s = &steps[i];
            bool synced = is_synced(i, count);
            if (synced != (pass == 0) || (!synced && how == ALL_LOST) ||
                (!synced && how == SOME_LOST && draw(3) == 0))
                continue;
            bool partly = !synced && how == SOME_LOST && draw(2) == 0;
            int64_t from = partly ? draw((unsigned)s->size + 1) : 0;
            int64_t to = partly ? from + draw((unsigned)(s->size - from) + 1) : s->size;
            if (is_data(s))
                apply_data(s, from, to);
            if (is_name(s))
                apply_folder(s);
        }
    }
}

static void materialize(const char *to) {
    char path[700];
    ck_assert_int_eq(mkdir(to, 0777), 0);
    for (int i = 0; i < name_count; i++) {
        if (folder[i] < 0)
            continue;
        snprintf(path, sizeof path, "%.500s/%.120s", to, names[i].name);
        test_write(path, files[folder[i]].data, (size_t)files[folder[i]].size);
    }
}

/* ---- Jobs ---- */

static char model_path[512], input_path[512];

static void job_in(job_case *c, const char *in, char paths[2][700]) {
    snprintf(paths[0], 700, "%s/y.npy", in);
    snprintf(paths[1], 700, "%s/k.safetensors", in);
    job_make(c, model_path, input_path, paths[0], paths[1]);
}

static void check_whole(const char *given, const char *wanted) {
    static const char *const whole[] = {"y.npy", "k.safetensors", "y.npy.errors.csv"};
    char a[700], b[700];
    for (int i = 0; i < 3; i++) {
        snprintf(a, sizeof a, "%s/%s", given, whole[i]);
        snprintf(b, sizeof b, "%s/%s", wanted, whole[i]);
        job_equal(a, b);
        snprintf(a, sizeof a, "%s/%s.partial", given, whole[i]);
        ck_assert_msg(!job_exists(a), "%s is left", a);
    }
}

static void empty_folder(const char *path) {
    char file[1000];
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.')
            ck_assert_int_eq(unlink(file), 0);
    }
    closedir(dir);
    ck_assert_int_eq(rmdir(path), 0);
}

static void write_inputs(void) {
    job_silence();
    snprintf(model_path, sizeof model_path, "%s", test_path("model.txt"));
    snprintf(input_path, sizeof input_path, "%s", test_path("x.npy"));
    test_write(model_path, job_model, sizeof job_model - 1);
    job_samples(input_path, JOB_SAMPLES, 13);
}

static void run_job(const char *in, bool resume, bool overwrite, batch_end end) {
    job_case c;
    char paths[2][700];
    job_in(&c, in, paths);
    c.job.resume = resume;
    c.job.overwrite = overwrite;
    batch_end got = batch_run(&c.job);
    ck_assert_msg(got == end, "%s: %d, %s", in, (int)got, tenon_last_error());
}

static const char *new_folder(const char *name) {
    const char *path = test_path(name);
    ck_assert_int_eq(mkdir(path, 0777), 0);
    return path;
}

static void resume_all_prefixes(const char *wanted, int first) {
    char crashed[512];
    snprintf(crashed, sizeof crashed, "%s", test_path("crashed"));
    int recorded = step_count;
    stop_recording();
    for (int count = first; count <= recorded; count++) {
        for (int variant = 0; variant < 6; variant++) {
            seed = 88172645463325252u + (uint64_t)(count * 6 + variant);
            lose_power(count, variant < 2 ? (loss)variant : SOME_LOST);
            materialize(crashed);
            run_job(crashed, true, false, BATCH_FINISHED);
            check_whole(crashed, wanted);
            empty_folder(crashed);
        }
    }
}

START_TEST(every_prefix_can_be_resumed) {
    write_inputs();
    const char *wanted = new_folder("wanted");
    start_recording();
    run_job(wanted, false, false, BATCH_FINISHED);
    ck_assert_int_gt(step_count, 40);
    int seen[KINDS] = {0};
    for (int i = 0; i < step_count; i++)
        seen[steps[i].kind]++;
    for (int i = 0; i < REMOVE; i++)
        ck_assert_msg(seen[i] > 0, "no operation of kind %d", i);
    resume_all_prefixes(wanted, 0);
}
END_TEST

/* A resumed job is interrupted, too. */
START_TEST(every_prefix_of_a_resumed_job_can_be_resumed) {
    write_inputs();
    const char *wanted = new_folder("wanted"), *again = new_folder("again");
    run_job(wanted, false, false, BATCH_FINISHED);
    start_recording();
    fail_at = 38; /* in the midst of writing */
    fail_errno = EIO;
    run_job(again, false, false, BATCH_FAILURE);
    fail_at = -1;
    int before = step_count;
    run_job(again, true, false, BATCH_FINISHED);
    check_whole(again, wanted);
    ck_assert_int_gt(step_count, before + 20);
    resume_all_prefixes(wanted, before);
}
END_TEST

/* The old files are whole until the new ones are, and the journal is of the one or the other. */
START_TEST(every_prefix_of_overwriting_can_be_resumed) {
    write_inputs();
    const char *wanted = new_folder("wanted"), *again = new_folder("again");
    run_job(wanted, false, false, BATCH_FINISHED);
    start_recording();
    run_job(again, false, false, BATCH_FINISHED);
    int before = step_count;
    run_job(again, false, true, BATCH_FINISHED);
    check_whole(again, wanted);
    resume_all_prefixes(wanted, before);
}
END_TEST

/* ---- Failing operations ---- */

START_TEST(every_operation_may_fail) {
    static const int errors[] = {ENOSPC, EIO};
    char crashed[512];
    write_inputs();
    const char *wanted = new_folder("wanted");
    start_recording();
    run_job(wanted, false, false, BATCH_FINISHED);
    int count = operations;
    ck_assert_int_gt(count, 40);
    for (int i = 0; i < 2 * count; i++) {
        snprintf(crashed, sizeof crashed, "%s", new_folder("crashed"));
        start_recording();
        fail_at = i / 2;
        fail_errno = errors[i % 2];
        run_job(crashed, false, false, BATCH_FAILURE);
        ck_assert_msg(strstr(tenon_last_error(), strerror(errors[i % 2])) != NULL, "\"%s\"",
                      tenon_last_error());
        /* And once more, later, in the resumed job; it may be over before. */
        start_recording();
        fail_at = 11 + i % 7;
        fail_errno = errors[i % 2];
        job_case c;
        char paths[2][700];
        job_in(&c, crashed, paths);
        c.job.resume = true;
        batch_run(&c.job);
        stop_recording();
        run_job(crashed, true, false, BATCH_FINISHED);
        check_whole(crashed, wanted);
        empty_folder(crashed);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("batch_power");
    TCase *tests = tcase_create("power");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, every_prefix_can_be_resumed);
    tcase_add_test(tests, every_prefix_of_a_resumed_job_can_be_resumed);
    tcase_add_test(tests, every_prefix_of_overwriting_can_be_resumed);
    tcase_add_test(tests, every_operation_may_fail);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
