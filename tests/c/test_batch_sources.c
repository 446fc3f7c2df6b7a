/* What batch jobs read: sources of samples, and files that are broken in every way. */
#include "batch_job.h"
#include "suite.h"
#include <batch/formats.h>
#include <batch/images.h>
#include <batch/sink.h>
#include <batch/source.h>
#include <unistd.h>
#include <zip.h>

enum { ROWS = 9, COLUMNS = 3 };

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
        job_save_npz(test_path("good.npz"), npy, size, i ? ZIP_CM_DEFLATE : ZIP_CM_STORE);
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
    job_save_npz(test_path("bad.npz"), bad, sizeof bad - 1, ZIP_CM_STORE);
    refuses(test_path("bad.npz"), fields, 1, "bad.npz: 'x': .npy header: 'descr' is missing");
    size_t size;
    char *npy = test_read(test_path("x.npy"), &size);
    job_save_npz(test_path("short.npz"), npy, size - 4, ZIP_CM_STORE);
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
    job_save_npz(test_path("x.npz"), file, turned_file("f4", data, sizeof data, file),
                 ZIP_CM_STORE);
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
    job_save_npz(test_path("b.npz"), npy, size, ZIP_CM_STORE);
    job_save_npz(test_path("c.npz"), npy, size, ZIP_CM_DEFLATE);
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

/* A folder among images that cannot be read is a bad sample, and the others are what they are. */
START_TEST(closed_folder_among_images) {
    batch_field field = field_of("x", TENON_FLOAT32, 3, (int64_t[]){3, 8, 8});
    char why[BATCH_TEXT] = "", name[BATCH_TEXT];
    ck_assert_int_eq(mkdir(test_path("f"), 0777), 0);
    ck_assert_int_eq(mkdir(test_path("f/closed"), 0777), 0);
    ck_assert_int_eq(mkdir(test_path("f/open"), 0777), 0);
    test_write(test_path("f/a.png"), "no", 2);
    test_write(test_path("f/closed/b.png"), "no", 2);
    test_write(test_path("f/open/c.png"), "no", 2);
    ck_assert_int_eq(chmod(test_path("f/closed"), 0), 0);
    ck_assert_int_eq(chmod(test_folder, 0755), 0);
    if (geteuid() == 0) /* to whom nothing is closed */
        ck_assert_int_eq(seteuid(65534), 0);
    batch_source *source = NULL;
    tenon_status status = batch_source_images(test_path("f"), &image_standard, &field, &source);
    ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
    ck_assert_int_eq(source->count, 3);
    static const char *const names[] = {"a.png", "closed", "open/c.png"};
    static const char *const reasons[] = {"neither", "cannot be opened: Permission", "neither"};
    float pixels[3 * 8 * 8];
    tenon_view row = field.row;
    row.data = pixels;
    for (int i = 0; i < 3; i++) {
        source->name(source, i, name);
        ck_assert_str_eq(name, names[i]);
        ck_assert_int_eq(source->fetch(source, i, &row, why), BATCH_BAD);
        ck_assert_msg(strstr(why, reasons[i]) != NULL, "%s", why);
    }
    cJSON *facts = cJSON_CreateObject();
    ck_assert_int_eq(source->identify(source, facts), TENON_OK);
    cJSON_Delete(facts);
    batch_source_destroy(&source);
    /* The one that was asked for is no sample. */
    ck_assert_int_ne(batch_source_images(test_path("f/closed"), &image_standard, &field, &source),
                     TENON_OK);
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
    ck_assert_int_eq(chmod(test_path("f/closed"), 0700), 0);
}
END_TEST

/* A pipe that nobody writes into, and what has no end, are no lists. */
START_TEST(lists_are_files) {
    batch_field field = field_of("x", TENON_FLOAT32, 3, (int64_t[]){3, 8, 8});
    batch_source *source = NULL;
    ck_assert_int_eq(mkfifo(test_path("pipe.txt"), 0666), 0);
    ck_assert_int_eq(symlink("/dev/zero", test_path("zero.txt")), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_ne(batch_source_images(test_path(i ? "zero.txt" : "pipe.txt"),
                                             &image_standard, &field, &source),
                         TENON_OK);
        ck_assert_ptr_nonnull(strstr(tenon_last_error(), ".txt: no regular file"));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("batch_sources");
    TCase *tests = tcase_create("sources");
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
    tcase_add_test(tests, closed_folder_among_images);
    tcase_add_test(tests, lists_are_files);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
