/* Arrays in .npy files. */
#include "core/tensor.h"
#include "files.h"
#include "suite.h"
#include <check.h>
#include <math.h>
#include <tenon/tenon.h>

/* The bytes that NumPy 1.26 writes for numpy.save of these arrays. */
static size_t numpy_file(unsigned char *out, int major, const char *dict, const void *data,
                         size_t size) {
    size_t start = major == 1 ? 10 : 12, length = strlen(dict), total = start + length + 1;
    size_t padded = (total + 63) / 64 * 64;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)major;
    out[7] = 0;
    for (size_t i = 8; i < start; i++)
        out[i] = (unsigned char)((padded - start) >> (8 * (i - 8)));
    memcpy(out + start, dict, length);
    memset(out + start + length, ' ', padded - start - length);
    out[padded - 1] = '\n';
    if (size)
        memcpy(out + padded, data, size);
    return padded + size;
}

static tenon_tensor *load(const char *dict, int major, const void *data, size_t size) {
    unsigned char bytes[512];
    const char *path = test_path("a.npy");
    tenon_tensor *tensor = NULL;
    test_write(path, bytes, numpy_file(bytes, major, dict, data, size));
    tenon_status status = tenon_npy_load(path, &tensor);
    ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
    return tensor;
}

START_TEST(reads_what_numpy_writes) {
    static const float floats[] = {1, 2, 3, 4, 5, 6};
    for (int major = 1; major <= 3; major++) {
        tenon_tensor *c = load("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", major,
                               floats, sizeof floats);
        const tenon_view *view = tenon_tensor_view(c);
        ck_assert_int_eq(view->dtype, TENON_FLOAT32);
        ck_assert_int_eq(view->rank, 2);
        ck_assert_int_eq(view->shape[0], 2);
        ck_assert_int_eq(view->shape[1], 3);
        ck_assert_mem_eq(view->data, floats, sizeof floats);
        tenon_tensor_destroy(&c);
    }
    tenon_tensor *f = load("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 1, floats,
                           sizeof floats);
    static const float turned[] = {1, 3, 5, 2, 4, 6};
    ck_assert_mem_eq(tenon_tensor_view(f)->data, turned, sizeof turned);
    tenon_tensor_destroy(&f);

    static const unsigned char bools[] = {0, 1, 7};
    tenon_tensor *b =
        load("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", 1, bools, 3);
    ck_assert_mem_eq(tenon_tensor_view(b)->data, "\0\1\1", 3);
    tenon_tensor_destroy(&b);

    static const int64_t scalar = -5;
    tenon_tensor *s =
        load("{'descr': '<i8', 'fortran_order': False, 'shape': (), }", 1, &scalar, 8);
    ck_assert_int_eq(tenon_tensor_view(s)->rank, 0);
    ck_assert_int_eq(*(const int64_t *)tenon_tensor_view(s)->data, -5);
    tenon_tensor_destroy(&s);

    tenon_tensor *e =
        load("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4), }", 1, NULL, 0);
    ck_assert_int_eq(tenon_tensor_view(e)->shape[1], 4);
    tenon_tensor_destroy(&e);
}
END_TEST

START_TEST(writes_what_numpy_reads) {
    static const float floats[] = {1, 2, 3, 4, 5, 6};
    tenon_view view = tn_view_make((void *)floats, TENON_FLOAT32, 2, (const int64_t[]){2, 3});
    const char *path = test_path("w.npy");
    ck_assert_int_eq(tenon_npy_save(path, &view), TENON_OK);
    unsigned char want[512];
    size_t size,
        want_size =
            numpy_file(want, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                       floats, sizeof floats);
    char *got = test_read(path, &size);
    ck_assert_uint_eq(size, want_size);
    ck_assert_mem_eq(got, want, size);
    free(got);

    /* One size keeps its comma; strides are followed. */
    view.rank = 1;
    view.shape[0] = 3;
    view.strides[0] = 2;
    ck_assert_int_eq(tenon_npy_save(path, &view), TENON_OK);
    got = test_read(path, &size);
    ck_assert_ptr_nonnull(strstr(got + 10, "'shape': (3,), }"));
    static const float picked[] = {1, 3, 5};
    ck_assert_mem_eq(got + size - sizeof picked, picked, sizeof picked);
    free(got);
}
END_TEST

START_TEST(round_trip_of_each_dtype) {
    for (int dtype = 1; dtype < TENON_DTYPE_COUNT; dtype++) {
        tenon_tensor *tensor = NULL, *back = NULL;
        ck_assert_int_eq(tenon_tensor_create(dtype, 3, (const int64_t[]){2, 1, 2}, &tensor),
                         TENON_OK);
        const tenon_view *view = tenon_tensor_view(tensor);
        for (int i = 0; i < 4; i++)
            tn_store_float((char *)view->data + i * (int)tenon_dtype_size(dtype), dtype, i * 0.5);
        ck_assert_int_eq(tenon_npy_save(test_path("r.npy"), view), TENON_OK);
        ck_assert_int_eq(tenon_npy_load(test_path("r.npy"), &back), TENON_OK);
        const tenon_view *got = tenon_tensor_view(back);
        ck_assert_int_eq(got->dtype, dtype == TENON_BFLOAT16 ? TENON_FLOAT32 : dtype);
        ck_assert(tn_same_shape(got, view));
        for (int i = 0; i < 4; i++)
            ck_assert(tn_load_float((char *)got->data + i * (int)tenon_dtype_size(got->dtype),
                                    got->dtype) ==
                      tn_load_float((char *)view->data + i * (int)tenon_dtype_size(dtype), dtype));
        tenon_tensor_destroy(&tensor);
        tenon_tensor_destroy(&back);
    }
}
END_TEST

START_TEST(refuses) {
    static const struct {
        const char *dict, *message;
        size_t size;
    } cases[] = {
        {"{'fortran_order': False, 'shape': (2,), }", "'descr' is missing", 8},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", "big-endian", 8},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "the dtype '<c8' is not", 8},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "structured", 8},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,), }", "neither True nor False", 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2, }", "no tuple", 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "a size is no number", 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2", "a size is no number", 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
         "needs 12 bytes, the file has 8", 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
         "needs 4 bytes, the file has 8", 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
         "overflow", 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,), }",
         "the sizes overflow", 8},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 9223372036854775807, 1, 0), }",
         "overflow", 0},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
         "a size is no number", 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1), }",
         "more than 12", 4},
    };
    unsigned char bytes[512], data[16] = {0};
    tenon_tensor *tensor = NULL;
    const char *path = test_path("bad.npy");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_write(path, bytes, numpy_file(bytes, 1, cases[i].dict, data, cases[i].size));
        ck_assert_int_ne(tenon_npy_load(path, &tensor), TENON_OK);
        ck_assert_msg(strstr(tenon_last_error(), cases[i].message) &&
                          strstr(tenon_last_error(), path),
                      "'%s' does not hold '%s'", tenon_last_error(), cases[i].message);
        ck_assert_ptr_null(tensor);
    }
    test_write(path, "\x93NUMPY\2\0\1\0", 10); /* version 2 has four bytes of length */
    ck_assert_int_eq(tenon_npy_load(path, &tensor), TENON_INVALID_FILE);
    ck_assert_ptr_nonnull(strstr(tenon_last_error(), "the file ends inside"));
    ck_assert_int_eq(tenon_npy_load(test_path("absent.npy"), &tensor), TENON_IO);
    ck_assert_int_eq(tenon_npy_load(test_folder, &tensor), TENON_IO);
    tenon_view view = tn_view_make(data, TENON_FLOAT32, 1, (const int64_t[]){2});
    ck_assert_int_eq(tenon_npy_save(test_path("no/such/folder.npy"), &view), TENON_IO);
}
END_TEST

/* Cut at each byte, and with each byte changed. */
START_TEST(damaged) {
    static const float floats[] = {1, 2, 3, 4, 5, 6};
    unsigned char good[512], bytes[512];
    size_t size = numpy_file(good, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }",
                             floats, sizeof floats);
    const char *path = test_path("cut.npy");
    tenon_tensor *tensor = NULL;
    for (size_t i = 0; i < size; i++) {
        test_write(path, good, i);
        ck_assert_int_ne(tenon_npy_load(path, &tensor), TENON_OK);
        memcpy(bytes, good, size);
        bytes[i] ^= (unsigned char)(1 << (i % 8));
        test_write(path, bytes, size);
        if (tenon_npy_load(path, &tensor) == TENON_OK)
            tenon_tensor_destroy(&tensor);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("npy");
    TCase *tests = tcase_create("npy");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, reads_what_numpy_writes);
    tcase_add_test(tests, writes_what_numpy_reads);
    tcase_add_test(tests, round_trip_of_each_dtype);
    tcase_add_test(tests, refuses);
    tcase_add_test(tests, damaged);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
