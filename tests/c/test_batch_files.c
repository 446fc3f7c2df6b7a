/* What batch jobs read and write: sources, sinks, the journal; and files that are broken in every
 * way. */
#include "batch_job.h"
#include "suite.h"
#include <batch/file.h>
#include <batch/formats.h>
#include <batch/journal.h>
#include <batch/sink.h>
#include <batch/source.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>
#include <zip.h>

enum { ROWS = 9, COLUMNS = 3 };

static batch_field field_of(const char *name, tenon_dtype dtype, int rank, const int64_t *shape) {
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

static batch_field float_field(void) {
    return field_of("x", TENON_FLOAT32, 1, (int64_t[]){COLUMNS});
}

static float value_at(int64_t row, int column) {
    return (float)(row * COLUMNS + column) / 4;
}

static void float_samples(const char *path) {
    float x[ROWS][COLUMNS];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            x[r][c] = value_at(r, c);
    job_save(path, TENON_FLOAT32, 2, (int64_t[]){ROWS, COLUMNS}, x);
}

static void check_row(batch_source *source, const batch_field *field, int64_t row) {
    float x[COLUMNS];
    char why[BATCH_TEXT] = "";
    tenon_view view = field->row;
    view.data = x;
    batch_got got = source->fetch(source, row, &view, why);
    ck_assert_msg(got == BATCH_GOT, "row %d: %d, %s", (int)row, (int)got, why);
    for (int c = 0; c < COLUMNS; c++)
        ck_assert_float_eq(x[c], value_at(row, c));
}

/* Fetches all samples, whatever comes of it. */
static int fetch_all(batch_source *source, const batch_field *field) {
    char why[BATCH_TEXT], name[BATCH_TEXT];
    char *row = malloc(field->bytes + 1);
    tenon_view view = field->row;
    int good = 0;
    view.data = row;
    for (int64_t i = 0; i < source->count && i < 100; i++) {
        why[0] = '\0';
        batch_got got = source->fetch(source, i, &view, why);
        source->name(source, i, name);
        ck_assert_uint_gt(strlen(name), 0);
        ck_assert(got == BATCH_GOT || strlen(why) > 0);
        good += got == BATCH_GOT;
    }
    free(row);
    return good;
}

/* ---- Broken files ---- */

static void write_npz(const char *path, const char *npy, size_t size, zip_int32_t method) {
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

static void write_safetensors(const char *path) {
    static const char header[] =
        "{\"__metadata__\":{\"a\":\"b\"},\"x\":{\"dtype\":\"F32\",\"shape\":[9,3],"
        "\"data_offsets\":[0,108]}}";
    char file[8 + sizeof header - 1 + 108] = {(char)(sizeof header - 1)};
    memcpy(file + 8, header, sizeof header - 1);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        float x = value_at(i / COLUMNS, i % COLUMNS);
        memcpy(file + 8 + sizeof header - 1 + 4 * i, &x, 4);
    }
    test_write(path, file, sizeof file);
}

/* Every length that a file may be cut to, and every byte that may be wrong: a message, or samples,
 * and no crash. */
static void break_file(const char *name, const char *data, size_t size) {
    batch_field field = float_field();
    const char *path = test_path(name);
    int opened = 0, refused = 0;
    for (size_t i = 0; i < 9 * size; i++) {
        char *copy = malloc(size + 1);
        size_t length = i < size ? i : size;
        memcpy(copy, data, size);
        if (i >= size)
            copy[(i - size) / 8] ^= (char)(1 << (i % 8));
        test_write(path, copy, length);
        free(copy);
        batch_source *source = NULL;
        tenon_status status = batch_source_files(path, &field, 1, &source);
        if (status == TENON_OK) {
            fetch_all(source, &field);
            opened++;
        } else {
            ck_assert_uint_gt(strlen(tenon_last_error()), 0);
            refused++;
        }
        batch_source_destroy(&source);
    }
    ck_assert_int_gt(refused, (int)size / 2);
    ck_assert_int_gt(opened, 10);
}

START_TEST(broken_npy) {
    size_t size;
    float_samples(test_path("good.npy"));
    char *data = test_read(test_path("good.npy"), &size);
    break_file("x.npy", data, size);
    free(data);
}
END_TEST

START_TEST(broken_safetensors) {
    size_t size;
    write_safetensors(test_path("good.safetensors"));
    char *data = test_read(test_path("good.safetensors"), &size);
    break_file("x.safetensors", data, size);
    free(data);
}
END_TEST

START_TEST(broken_npz) {
    size_t size, packed;
    float_samples(test_path("good.npy"));
    char *npy = test_read(test_path("good.npy"), &size);
    for (int i = 0; i < 2; i++) {
        write_npz(test_path("good.npz"), npy, size, i ? ZIP_CM_DEFLATE : ZIP_CM_STORE);
        char *data = test_read(test_path("good.npz"), &packed);
        break_file("x.npz", data, packed);
        free(data);
    }
    free(npy);
}
END_TEST

static void refuses(const char *path, const batch_field *fields, int count, const char *what) {
    batch_source *source = NULL;
    tenon_status status = batch_source_files(path, fields, count, &source);
    ck_assert_int_ne(status, TENON_OK);
    ck_assert_ptr_null(source);
    ck_assert_msg(strstr(tenon_last_error(), what) != NULL, "\"%s\" is not in \"%s\"", what,
                  tenon_last_error());
}

START_TEST(files_that_do_not_fit) {
    batch_field fields[2] = {float_field(), float_field()};
    batch_field wide = field_of("x", TENON_FLOAT32, 1, (int64_t[]){COLUMNS + 1});
    batch_field whole = field_of("x", TENON_INT64, 1, (int64_t[]){COLUMNS});
    fields[1].name = "z";
    float_samples(test_path("x.npy"));
    refuses(test_path("x.npy"), &wide, 1, "float32[3]");
    refuses(test_path("x.npy"), &whole, 1, "int64[3]");
    refuses(test_path("x.npy"), fields, 2, "x.npy: it holds one array, which has no name");
    refuses(test_path("x.npy"), fields, 2, "--input NAME=PATH");
    refuses(test_path("none.npy"), fields, 1, "No such file");
    ck_assert_int_eq(mkdir(test_path("empty"), 0777), 0);
    refuses(test_path("empty"), fields, 1, "no .npy");
    test_write(test_path("long.npy"), "\x93NUMPY\x01\x00\xff\xff{", 11);
    refuses(test_path("long.npy"), fields, 1, "ends inside");
    /* Of a .npz: the file and the member. */
    static const char bad[] = "\x93NUMPY\x01\x00\x08\x00{'de': 1}";
    write_npz(test_path("bad.npz"), bad, sizeof bad - 1, ZIP_CM_STORE);
    refuses(test_path("bad.npz"), fields, 1, "bad.npz: 'x': .npy header: 'descr' is missing");
    size_t size;
    char *npy = test_read(test_path("x.npy"), &size);
    write_npz(test_path("short.npz"), npy, size - 4, ZIP_CM_STORE);
    refuses(test_path("short.npz"), fields, 1, "short.npz: 'x': the shape needs 108 bytes");
    free(npy);
}
END_TEST

/* The file of an array in Fortran order, of 4 samples of 2x3; its length. */
enum { TURNED_ROWS = 4, TURNED = 4 * 2 * 3 };

static size_t turned_file(const char *dtype, const void *data, size_t size, char *file) {
    char dict[128];
    int length = snprintf(dict, sizeof dict,
                          "{'descr': '<%s', 'fortran_order': True, 'shape': (4, 2, 3), }\n", dtype);
    memcpy(file, "\x93NUMPY\x01", 8);
    file[8] = (char)length;
    file[9] = 0;
    memcpy(file + 10, dict, (size_t)length);
    memcpy(file + 10 + length, data, size);
    return 10 + (size_t)length + size;
}

/* Element (i, j, k) lies at i + 4 (j + 2 k), and the data at no multiple of its size. */
START_TEST(fortran_order) {
    batch_field field = field_of("x", TENON_FLOAT32, 2, (int64_t[]){2, 3});
    batch_field one = field_of("x", TENON_FLOAT32, 3, (int64_t[]){TURNED_ROWS, 2, 3});
    float data[TURNED], row[TURNED];
    uint16_t halves[TURNED];
    char file[512], why[BATCH_TEXT];
    for (int i = 0; i < TURNED; i++) {
        data[i] = (float)i;
        /* Numbers of float16 whose bits are those of i + 1 to 2, in steps of 1/1024. */
        halves[i] = (uint16_t)(0x3c00 + i);
    }
    ck_assert_int_eq(mkdir(test_path("f"), 0777), 0);
    test_write(test_path("x.npy"), file, turned_file("f4", data, sizeof data, file));
    test_write(test_path("f/x.npy"), file, turned_file("f4", data, sizeof data, file));
    test_write(test_path("h.npy"), file, turned_file("f2", halves, sizeof halves, file));
    static const char *const names[] = {"x.npy", "h.npy", "f"};
    for (int n = 0; n < 3; n++) {
        batch_source *source = NULL;
        const batch_field *f = n == 2 ? &one : &field; /* of the folder all is one sample */
        ck_assert_int_eq(batch_source_files(test_path(names[n]), f, 1, &source), TENON_OK);
        ck_assert_int_eq(source->count, n == 2 ? 1 : TURNED_ROWS);
        for (int i = 0; i < TURNED_ROWS; i++) {
            tenon_view view = f->row;
            view.data = row;
            ck_assert_int_eq(source->fetch(source, n == 2 ? 0 : i, &view, why), BATCH_GOT);
            for (int j = 0; j < 6; j++) {
                float at = (float)(i + TURNED_ROWS * (j / 3 + 2 * (j % 3)));
                ck_assert_float_eq(row[n == 2 ? i * 6 + j : j], n == 1 ? 1 + at / 1024 : at);
            }
        }
        batch_source_destroy(&source);
    }
    /* Members of archives are read one way only. */
    write_npz(test_path("x.npz"), file, turned_file("f4", data, sizeof data, file), ZIP_CM_STORE);
    refuses(test_path("x.npz"), &field, 1, "x.npz: 'x': it is in Fortran order");
}
END_TEST

/* ---- Samples ---- */

START_TEST(any_order_of_samples) {
    static const int order[] = {0, 1, 2, 8, 3, 3, 0, 7};
    size_t size;
    batch_field field = float_field();
    float_samples(test_path("a.npy"));
    char *npy = test_read(test_path("a.npy"), &size);
    write_npz(test_path("b.npz"), npy, size, ZIP_CM_STORE);
    write_npz(test_path("c.npz"), npy, size, ZIP_CM_DEFLATE);
    write_safetensors(test_path("d.safetensors"));
    static const char *const names[] = {"a.npy", "b.npz", "c.npz", "d.safetensors"};
    for (int i = 0; i < 4; i++) {
        batch_source *source = NULL;
        ck_assert_int_eq(batch_source_files(test_path(names[i]), &field, 1, &source), TENON_OK);
        ck_assert_int_eq(source->count, ROWS);
        for (size_t k = 0; k < sizeof order / sizeof *order; k++)
            check_row(source, &field, order[k]);
        batch_source_destroy(&source);
    }
    free(npy);
}
END_TEST

/* A file that loses its end while it is mapped. */
START_TEST(shrinking_file) {
    enum { COUNT = 4096 };
    batch_field field = field_of("x", TENON_FLOAT32, 1, (int64_t[]){1024});
    float *x = calloc(COUNT, 1024 * sizeof *x);
    job_save(test_path("x.npy"), TENON_FLOAT32, 2, (int64_t[]){COUNT, 1024}, x);
    batch_source *source = NULL;
    ck_assert_int_eq(batch_source_files(test_path("x.npy"), &field, 1, &source), TENON_OK);
    tenon_view row = field.row;
    char why[BATCH_TEXT];
    row.data = x;
    ck_assert_int_eq(source->fetch(source, 100, &row, why), BATCH_GOT);
    ck_assert_int_eq(truncate(test_path("x.npy"), 1 << 20), 0);
    ck_assert_int_eq(source->fetch(source, 100, &row, why), BATCH_GOT);
    ck_assert_int_eq(source->fetch(source, COUNT - 1, &row, why), BATCH_FAILED);
    ck_assert_ptr_nonnull(strstr(why, "shorter"));
    batch_source_destroy(&source);
    free(x);
}
END_TEST

static int64_t resident_bytes(void) {
    long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%lld %lld", &pages, &resident), 2);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

/* A file of 1 GiB, sparse: the memory in use stays below what is kept of it. */
START_TEST(long_file) {
    enum { COUNT = 1024, FLOATS = 1 << 18 };
    batch_field field = field_of("x", TENON_FLOAT32, 1, (int64_t[]){FLOATS});
    batch_sink *sink = NULL;
    char header[128], why[BATCH_TEXT];
    ck_assert_int_eq(batch_sink_npy("x", &field.row, &sink), TENON_OK);
    ck_assert_uint_eq(sink->header_size, sizeof header);
    ck_assert_int_eq(sink->header(sink, COUNT, header), TENON_OK);
    batch_sink_destroy(&sink);
    test_write(test_path("x.npy"), header, sizeof header);
    ck_assert_int_eq(truncate(test_path("x.npy"), 128 + (int64_t)COUNT * FLOATS * 4), 0);
    batch_source *source = NULL;
    ck_assert_int_eq(batch_source_files(test_path("x.npy"), &field, 1, &source), TENON_OK);
    tenon_view row = field.row;
    row.data = malloc(field.bytes);
    int64_t before = resident_bytes(), most = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        ck_assert_int_eq(source->fetch(source, i, &row, why), BATCH_GOT);
        int64_t now = resident_bytes() - before;
        most = now > most ? now : most;
    }
    ck_assert_int_lt(most, 256 << 20);
    batch_source_destroy(&source);
    free(row.data);
}
END_TEST

START_TEST(dtypes_of_rows) {
    float single[3] = {1.5f, -2.25f, NAN}, back[3];
    uint16_t half[3] = {0x3e00, 0xc080, 0x7e00}; /* the same, in float16 */
    unsigned char odd[13];
    batch_field f = float_field();
    tenon_view row = f.row;
    row.data = back;
    memcpy(odd + 1, half, sizeof half); /* aligned to nothing */
    ck_assert(batch_row_fits(TENON_FLOAT16, TENON_FLOAT32));
    ck_assert(batch_row_fits(TENON_FLOAT32, TENON_BFLOAT16));
    ck_assert(!batch_row_fits(TENON_FLOAT64, TENON_FLOAT32));
    ck_assert(!batch_row_fits(TENON_INT32, TENON_INT64));
    ck_assert_int_eq(batch_row_copy(&row, TENON_FLOAT16, odd + 1), TENON_OK);
    ck_assert_float_eq(back[0], 1.5f);
    ck_assert_float_eq(back[1], -2.25f);
    ck_assert(isnan(back[2]));
    uint16_t brain[3];
    row.dtype = TENON_BFLOAT16;
    row.data = brain;
    memcpy(odd + 1, single, sizeof single);
    ck_assert_int_eq(batch_row_copy(&row, TENON_FLOAT32, odd + 1), TENON_OK);
    ck_assert_uint_eq(brain[0], 0x3fc0);
    ck_assert_uint_eq(brain[1], 0xc010);
    unsigned char flags[3] = {0, 2, 255}, bools[3];
    row.dtype = TENON_BOOL;
    row.data = bools;
    ck_assert_int_eq(batch_row_copy(&row, TENON_BOOL, flags), TENON_OK);
    ck_assert(bools[0] == 0 && bools[1] == 1 && bools[2] == 1);
}
END_TEST

START_TEST(stream_of_records) {
    batch_field field = float_field();
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    for (int r = 0; r < ROWS; r++) {
        float x[COLUMNS] = {value_at(r, 0), value_at(r, 1), value_at(r, 2)};
        ck_assert_int_eq(write(ends[1], x, sizeof x), sizeof x);
    }
    ck_assert_int_eq(write(ends[1], "four!", 5), 5);
    close(ends[1]);
    batch_source *source = NULL;
    ck_assert_int_eq(batch_source_stream(ends[0], &field, 1, &source), TENON_OK);
    ck_assert_int_eq(source->count, -1);
    check_row(source, &field, 0);
    uint64_t digest = source->digest(source);
    check_row(source, &field, 4); /* behind the ones between */
    ck_assert_uint_ne(source->digest(source), digest);
    for (int r = 5; r < ROWS; r++)
        check_row(source, &field, r);
    float x[COLUMNS];
    char why[BATCH_TEXT] = "";
    tenon_view row = field.row;
    row.data = x;
    ck_assert_int_eq(source->fetch(source, ROWS, &row, why), BATCH_BAD);
    ck_assert_ptr_nonnull(strstr(why, "5 of a record's 12 bytes"));
    ck_assert_int_eq(source->fetch(source, ROWS + 1, &row, why), BATCH_END);
    batch_source_destroy(&source);
    close(ends[0]);
    batch_field none = field_of("x", TENON_FLOAT32, 1, (int64_t[]){0});
    ck_assert_int_eq(batch_source_stream(0, &none, 1, &source), TENON_INVALID_ARGUMENT);
}
END_TEST

START_TEST(wrong_files_of_a_folder) {
    batch_field field = float_field();
    char why[BATCH_TEXT], name[BATCH_TEXT];
    ck_assert_int_eq(mkdir(test_path("f"), 0777), 0);
    float_samples(test_path("f/1.npy"));
    test_write(test_path("f/2.npy"), "no", 2);
    job_save(test_path("f/3.npy"), TENON_FLOAT32, 2, (int64_t[]){2, 1}, (float[]){1, 2});
    job_save(test_path("f/4.npy"), TENON_FLOAT32, 1, (int64_t[]){3}, (float[]){0, .25f, .5f});
    batch_source *source = NULL;
    ck_assert_int_eq(batch_source_files(test_path("f"), &field, 1, &source), TENON_OK);
    ck_assert_int_eq(source->count, ROWS + 1 + 2 + 1);
    ck_assert_int_eq(fetch_all(source, &field), ROWS + 1);
    static const char *const names[] = {"1.npy[8]", "2.npy", "3.npy[0]", "3.npy[1]", "4.npy"};
    for (int i = 0; i < 5; i++) {
        source->name(source, ROWS - 1 + i, name);
        ck_assert_str_eq(name, names[i]);
    }
    float x[COLUMNS];
    tenon_view row = field.row;
    row.data = x;
    ck_assert_int_eq(source->fetch(source, ROWS + 1, &row, why), BATCH_BAD);
    ck_assert_ptr_nonnull(strstr(why, "float32[1], the model takes float32[3]"));
    /* One that changed since. */
    ck_assert_int_eq(source->fetch(source, ROWS + 3, &row, why), BATCH_GOT);
    job_save(test_path("f/1.npy"), TENON_FLOAT32, 2, (int64_t[]){1, 3}, (float[]){1, 2, 3});
    ck_assert_int_eq(source->fetch(source, 0, &row, why), BATCH_BAD);
    ck_assert_ptr_nonnull(strstr(why, "changed"));
    batch_source_destroy(&source);
}
END_TEST

static batch_got fetch_row(batch_source *source, const batch_field *field, int64_t index,
                           char *why) {
    float x[COLUMNS];
    tenon_view row = field->row;
    row.data = x;
    *why = '\0';
    return source->fetch(source, index, &row, why);
}

/* Names that lead nowhere, folders, pipes, and files that go while the job runs: bad samples, and
 * no reason to end. When the folder itself goes, all ends. */
START_TEST(names_of_a_folder_without_a_file) {
    batch_field field = float_field();
    char why[BATCH_TEXT];
    ck_assert_int_eq(mkdir(test_path("f"), 0777), 0);
    float_samples(test_path("f/1.npy"));
    ck_assert_int_eq(symlink("nowhere.npy", test_path("f/2.npy")), 0);
    ck_assert_int_eq(symlink("3.npy", test_path("f/3.npy")), 0); /* a circle */
    ck_assert_int_eq(mkdir(test_path("f/4.npy"), 0777), 0);
    ck_assert_int_eq(mkfifo(test_path("f/5.npy"), 0666), 0);
    float_samples(test_path("f/6.npy"));
    batch_source *source = NULL;
    ck_assert_int_eq(batch_source_files(test_path("f"), &field, 1, &source), TENON_OK);
    ck_assert_int_eq(source->count, 2 * ROWS + 4);
    cJSON *facts = cJSON_CreateObject();
    ck_assert_int_eq(source->identify(source, facts), TENON_OK);
    ck_assert_str_eq(cJSON_GetObjectItem(facts, "2.npy")->valuestring, "not there");
    cJSON_Delete(facts);
    static const char *const reasons[] = {"2.npy: cannot be opened: No such file",
                                          "3.npy: cannot be opened: Too many levels",
                                          "4.npy: no regular file", "5.npy: no regular file"};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(fetch_row(source, &field, ROWS + i, why), BATCH_BAD);
        ck_assert_msg(strstr(why, reasons[i]) != NULL, "%s", why);
    }
    ck_assert_int_eq(fetch_row(source, &field, 0, why), BATCH_GOT);
    ck_assert_int_eq(rename(test_path("f/6.npy"), test_path("6")), 0);
    ck_assert_int_eq(fetch_row(source, &field, ROWS + 4, why), BATCH_BAD);
    ck_assert_ptr_nonnull(strstr(why, "6.npy: cannot be opened: No such file"));
    ck_assert_int_eq(rename(test_path("6"), test_path("f/6.npy")), 0);
    ck_assert_int_eq(fetch_row(source, &field, ROWS + 4, why), BATCH_GOT);
    ck_assert_int_eq(rename(test_path("f"), test_path("g")), 0);
    ck_assert_int_eq(fetch_row(source, &field, 0, why), BATCH_FAILED);
    batch_source_destroy(&source);
}
END_TEST

/* One that becomes shorter while it is mapped is bad, and the rest of the folder is not. */
START_TEST(shrinking_file_of_a_folder) {
    enum { COUNT = 4096 };
    batch_field field = field_of("x", TENON_FLOAT32, 1, (int64_t[]){1024});
    float *x = calloc(COUNT, 1024 * sizeof *x);
    char why[BATCH_TEXT] = "";
    tenon_view row = field.row;
    ck_assert_int_eq(mkdir(test_path("f"), 0777), 0);
    job_save(test_path("f/1.npy"), TENON_FLOAT32, 2, (int64_t[]){COUNT, 1024}, x);
    job_save(test_path("f/2.npy"), TENON_FLOAT32, 2, (int64_t[]){1, 1024}, x);
    batch_source *source = NULL;
    ck_assert_int_eq(batch_source_files(test_path("f"), &field, 1, &source), TENON_OK);
    row.data = x;
    ck_assert_int_eq(source->fetch(source, 0, &row, why), BATCH_GOT);
    ck_assert_int_eq(truncate(test_path("f/1.npy"), 1 << 20), 0);
    ck_assert_int_eq(source->fetch(source, COUNT - 1, &row, why), BATCH_BAD);
    ck_assert_ptr_nonnull(strstr(why, "1.npy: cannot be read at byte"));
    ck_assert_ptr_nonnull(strstr(why, "shorter"));
    ck_assert_int_eq(source->fetch(source, COUNT, &row, why), BATCH_GOT);
    batch_source_destroy(&source);
    free(x);
}
END_TEST

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

int main(void) {
    Suite *suite = suite_create("batch_files");
    TCase *tests = tcase_create("files");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, broken_npy);
    tcase_add_test(tests, broken_safetensors);
    tcase_add_test(tests, broken_npz);
    tcase_add_test(tests, files_that_do_not_fit);
    tcase_add_test(tests, fortran_order);
    tcase_add_test(tests, any_order_of_samples);
    tcase_add_test(tests, shrinking_file);
    tcase_add_test(tests, long_file);
    tcase_add_test(tests, dtypes_of_rows);
    tcase_add_test(tests, stream_of_records);
    tcase_add_test(tests, wrong_files_of_a_folder);
    tcase_add_test(tests, names_of_a_folder_without_a_file);
    tcase_add_test(tests, shrinking_file_of_a_folder);
    tcase_add_test(tests, array_sinks);
    tcase_add_test(tests, lists_of_bad_samples);
    tcase_add_test(tests, journal_is_read_back);
    tcase_add_test(tests, broken_journal);
    tcase_add_test(tests, lines_of_another_journal);
    tcase_add_test(tests, paths_of_one_file);
    tcase_add_test(tests, partial_files);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
