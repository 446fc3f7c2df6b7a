/* Small batch jobs, run in the test's own process. */
#ifndef TEST_BATCH_JOB_H
#define TEST_BATCH_JOB_H

#include "files.h"
#include <batch/batch.h>
#include <batch/disk.h>
#include <batch/source.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

enum { JOB_BATCH = 4, JOB_WIDTH = 6, JOB_SAMPLES = 21 };

/* Two outputs of different dtypes, of which one looks at a number that may lie outside. */
static const char job_model[] = "graph job { input %x: float32[4, 6]\n"
                                "const %w: float32[5, 6] = random(1)\n"
                                "%y = aten.linear(%x, %w, none)\n"
                                "%s = aten.sum.dim_IntList(%x, [1], false)\n"
                                "%i = aten.round(%s)\n"
                                "%k = aten._to_copy(%i, dtype=int64)\n"
                                "output \"y\" = %y\n"
                                "output \"k\" = %k }\n";

static inline void job_save(const char *path, tenon_dtype dtype, int rank, const int64_t *shape,
                            const void *data) {
    tenon_tensor *tensor = NULL;
    ck_assert_int_eq(tenon_tensor_create(dtype, rank, shape, &tensor), TENON_OK);
    const tenon_view *view = tenon_tensor_view(tensor);
    memcpy(view->data, data, (size_t)tenon_view_numel(view) * tenon_dtype_size(dtype));
    ck_assert_int_eq(tenon_npy_save(path, view), TENON_OK);
    tenon_tensor_destroy(&tensor);
}

/* Samples of which `bad` (-1: none) holds NaN. */
static inline void job_samples(const char *path, int64_t count, int64_t bad) {
    float *x = malloc((size_t)count * JOB_WIDTH * sizeof *x + 1);
    ck_assert_ptr_nonnull(x);
    for (int64_t i = 0; i < count * JOB_WIDTH; i++)
        x[i] = (float)((i * 7919) % 1000) / 100.0f - 5;
    if (bad >= 0)
        x[bad * JOB_WIDTH + 2] = NAN;
    job_save(path, TENON_FLOAT32, 2, (int64_t[]){count, JOB_WIDTH}, x);
    free(x);
}

/* An input of a model, as its samples fill it. */
static inline batch_field field_of(const char *name, tenon_dtype dtype, int rank,
                                   const int64_t *shape) {
    batch_field f = {.name = name, .row = {.dtype = dtype, .rank = rank}};
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        f.row.shape[d] = shape[d];
        f.row.strides[d] = stride;
        stride *= shape[d];
    }
    f.bytes = (size_t)stride * tenon_dtype_size(dtype);
    return f;
}

/* The two outputs as files of a folder. */
typedef struct job_case {
    batch_pair input, outputs[2];
    batch_job job;
} job_case;

static inline void job_make(job_case *c, const char *model, const char *input, const char *y,
                            const char *k) {
    *c = (job_case){.input = {NULL, input}, .outputs = {{"y", y}, {"k", k}}};
    c->job = (batch_job){.model = model,
                         .inputs = {&c->input, 1},
                         .outputs = {c->outputs, 2},
                         .session = {.threads = 1, .backend = TENON_BACKEND_REFERENCE},
                         .instances = 1,
                         .checkpoint = 2,
                         .skip_bad = true,
                         .check_nan = true,
                         .quiet = true};
}

static inline void job_equal(const char *given, const char *wanted) {
    size_t a_size, b_size;
    char *a = test_read(given, &a_size), *b = test_read(wanted, &b_size);
    ck_assert_msg(a_size == b_size && memcmp(a, b, a_size) == 0, "%s differs from %s", given,
                  wanted);
    free(a);
    free(b);
}

/* A .npz archive whose only member, x.npy, has these bytes. */
static inline void job_save_npz(const char *path, const char *npy, size_t size,
                                zip_int32_t method) {
    int error = 0;
    unlink(path);
    zip_t *zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &error);
    ck_assert_ptr_nonnull(zip);
    zip_source_t *source = zip_source_buffer(zip, npy, size, 0);
    zip_int64_t index = zip_file_add(zip, "x.npy", source, 0);
    ck_assert_int_ge(index, 0);
    ck_assert_int_eq(zip_set_file_compression(zip, (zip_uint64_t)index, method, 0), 0);
    ck_assert_int_eq(zip_close(zip), 0);
}

static inline bool job_exists(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

/* What jobs say to people on standard error would drown the tests' own words. */
static inline void job_silence(void) {
    if (!getenv("JOB_LOUD"))
        ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));
}

#endif
