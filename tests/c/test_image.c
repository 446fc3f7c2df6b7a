/* JPEG and PNG files to samples: numbers against a naive resize, limits, and damaged files.
 * tests/python/test_batch_images.py compares with torchvision. */
#include "batch/image.h"
#include "suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

static uint32_t seed = 1;

static uint32_t next_random(uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)seed * below) >> 32);
}

/* Smooth pictures with edges, RGB. */
static uint8_t *picture(int width, int height) {
    uint8_t *pixels = malloc((size_t)width * (size_t)height * 3);
    uint32_t edge = next_random((uint32_t)width);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < 3; c++)
                pixels[(y * width + x) * 3 + c] =
                    (uint8_t)(128 + 100 * sin(0.07 * (x + 3 * c) + 0.11 * y) +
                              ((uint32_t)x > edge ? 27 : 0));
    return pixels;
}

typedef struct file {
    unsigned char *bytes;
    size_t size;
} file;

static file make_png(const uint8_t *pixels, int width, int height, uint32_t format) {
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = format};
    size_t size = 100000 + (size_t)width * (size_t)height * 4;
    file made = {malloc(size), size};
    ck_assert(png_image_write_to_memory(&image, made.bytes, &made.size, 0, pixels, 0, NULL));
    return made;
}

typedef enum kind { BASELINE, PROGRESSIVE, RESTARTS, CMYK } kind;

static file make_jpeg(const uint8_t *pixels, int width, int height, kind of) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    int channels = of == CMYK ? 4 : 3;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &bytes, &size);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = channels;
    jpeg.in_color_space = of == CMYK ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 90, TRUE);
    if (of == PROGRESSIVE)
        jpeg_simple_progression(&jpeg);
    if (of == RESTARTS)
        jpeg.restart_interval = 3;
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        size_t row = of == CMYK ? 0 : jpeg.next_scanline;
        JSAMPROW line = (JSAMPROW)(uintptr_t)(pixels + row * (size_t)width * (size_t)channels);
        jpeg_write_scanlines(&jpeg, &line, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    return (file){bytes, size};
}

static image_transform standard(int resize, int height, int width) {
    return (image_transform){.resize_height = resize,
                             .crop_height = height,
                             .crop_width = width,
                             .mean = {0.5f, 0.25f, 0},
                             .std = {0.25f, 0.5f, 1},
                             .max_pixels = IMAGE_MAX_PIXELS};
}

/* A byte before normalization. */
static double level(const image_transform *t, const float *out, int c, int64_t i) {
    int64_t plane = t->crop_height * t->crop_width;
    return 255 * ((double)out[c * plane + i] * (double)t->std[c] + (double)t->mean[c]);
}

static float *read_file(const image_transform *t, file f) {
    char why[IMAGE_WHY];
    float *out = malloc((size_t)(3 * t->crop_height * t->crop_width) * sizeof *out);
    image_result result = image_read(t, f.bytes, f.size, out, why);
    ck_assert_msg(result == IMAGE_OK, "%s", why);
    return out;
}

static void check_refused(const image_transform *t, file f, const char *text) {
    char why[IMAGE_WHY];
    float *out = malloc((size_t)(3 * t->crop_height * t->crop_width) * sizeof *out);
    ck_assert_int_eq(image_read(t, f.bytes, f.size, out, why), IMAGE_BAD);
    ck_assert_msg(strstr(why, text), "'%s' without '%s'", why, text);
    free(out);
}

START_TEST(keeps_pixels_that_are_not_resized) {
    image_transform t = standard(0, 20, 31);
    uint8_t *pixels = picture(31, 20);
    file f = make_png(pixels, 31, 20, PNG_FORMAT_RGB);
    float *out = read_file(&t, f);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 20 * 31; i++)
            ck_assert(out[c * 20 * 31 + i] ==
                      ((float)pixels[3 * i + c] / 255.0f - t.mean[c]) / t.std[c]);
    free(out);
    free(pixels);
    free(f.bytes);
}
END_TEST

static double kernel(image_filter filter, double x) {
    x = fabs(x);
    if (filter == IMAGE_BILINEAR)
        return x < 1 ? 1 - x : 0;
    if (x < 1)
        return 1.5 * x * x * x - 2.5 * x * x + 1;
    return x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
}

/* Weights of all inputs for one output of a resize, normalized. */
static void weigh(image_filter filter, int in, int out, int at, double *weight) {
    double scale = (double)in / out, wide = scale > 1 ? scale : 1, sum = 0;
    for (int i = 0; i < in; i++)
        sum += weight[i] = kernel(filter, (i + 0.5 - (at + 0.5) * scale) / wide);
    for (int i = 0; i < in; i++)
        weight[i] /= sum;
}

/* Bytes between the two directions and weights in fixed point move a result by a level or so. */
START_TEST(resizes_as_the_formula_says) {
    double worst = 0;
    for (int round = 0; round < 24; round++) {
        int width = 5 + (int)next_random(90), height = 5 + (int)next_random(90);
        image_transform t = standard(7 + (int)next_random(60), 0, 0);
        t.resize_width = 7 + next_random(60);
        t.crop_height = t.resize_height - next_random(5);
        t.crop_width = t.resize_width - next_random(5);
        t.filter = round % 2 ? IMAGE_BICUBIC : IMAGE_BILINEAR;
        uint8_t *pixels = picture(width, height);
        file f = make_png(pixels, width, height, PNG_FORMAT_RGB);
        float *out = read_file(&t, f);
        int64_t top = lrint((double)(t.resize_height - t.crop_height) / 2);
        int64_t left = lrint((double)(t.resize_width - t.crop_width) / 2);
        double down[100], across[100];
        for (int64_t i = 0; i < t.crop_height * t.crop_width; i++) {
            double sum[3] = {0};
            weigh(t.filter, height, (int)t.resize_height, (int)(i / t.crop_width + top), down);
            weigh(t.filter, width, (int)t.resize_width, (int)(i % t.crop_width + left), across);
            for (int y = 0; y < height; y++)
                for (int x = 0; x < width; x++)
                    for (int c = 0; c < 3; c++)
                        sum[c] += down[y] * across[x] * pixels[(y * width + x) * 3 + c];
            for (int c = 0; c < 3; c++)
                worst = fmax(worst, fabs(fmin(fmax(sum[c], 0), 255) - level(&t, out, c, i)));
        }
        free(out);
        free(pixels);
        free(f.bytes);
    }
    ck_assert_msg(worst < 1.3, "%g levels", worst);
    ck_assert_msg(worst > 0.4, "%g levels: nothing was rounded", worst);
}
END_TEST

START_TEST(puts_small_images_in_the_middle_of_zeros) {
    image_transform t = standard(0, 9, 10);
    uint8_t *pixels = picture(7, 4);
    file f = make_png(pixels, 7, 4, PNG_FORMAT_RGB);
    float *out = read_file(&t, f);
    for (int y = 0; y < 9; y++)
        for (int x = 0; x < 10; x++) {
            bool inside = y >= 2 && y < 6 && x >= 1 && x < 8;
            double want = inside ? pixels[((y - 2) * 7 + x - 1) * 3 + 1] : 0;
            ck_assert_double_eq_tol(level(&t, out, 1, y * 10 + x), want, 1e-3);
        }
    free(out);
    free(pixels);
    free(f.bytes);
}
END_TEST

START_TEST(refuses_what_is_no_image_or_too_large) {
    image_transform t = standard(256, 224, 224);
    unsigned char header[33] =
        "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x02";
    uint32_t crc = (uint32_t)crc32(0, header + 12, 17);
    for (int i = 0; i < 4; i++)
        header[29 + i] = (unsigned char)(crc >> (24 - 8 * i));
    check_refused(&t, (file){header, 0}, "empty");
    check_refused(&t, (file){(unsigned char *)"GIF89a..", 8}, "neither JPEG nor PNG");
    check_refused(&t, (file){header, sizeof header}, "damaged PNG");

    uint8_t *pixels = picture(64, 48);
    file f = make_jpeg(pixels, 64, 48, BASELINE);
    unsigned char *frame = memmem(f.bytes, f.size, "\xff\xc0", 2);
    ck_assert_ptr_nonnull(frame);
    image_transform small = t;
    small.max_pixels = 64 * 48 - 1;
    check_refused(&small, f, "64x48 pixels: more than the limit of 3071");
    small.max_pixels = 64 * 48;
    check_refused(&small, f, "would become 341x256");
    memcpy(frame + 5, "\xff\xdc\xff\xdc", 4);
    check_refused(&t, f, "65500x65500 pixels: more than the limit");
    free(pixels);
    free(f.bytes);
}
END_TEST

/* A few bytes a scan, and a pass over the image for each. */
START_TEST(refuses_many_scans) {
    image_transform t = standard(32, 32, 32);
    uint8_t *pixels = picture(64, 48);
    file f = make_jpeg(pixels, 64, 48, PROGRESSIVE);
    /* The first scan, up to the tables of the next one, again and again. */
    unsigned char *scan = memmem(f.bytes, f.size, "\xff\xda", 2);
    unsigned char *next = memmem(scan, f.size - (size_t)(scan - f.bytes), "\xff\xc4", 2);
    ck_assert(scan && next);
    size_t at = (size_t)(next - f.bytes), length = (size_t)(next - scan);
    file many = {malloc(f.size + 150 * length), f.size + 150 * length};
    memcpy(many.bytes, f.bytes, at);
    for (size_t i = 0; i < 150; i++)
        memcpy(many.bytes + at + i * length, scan, length);
    memcpy(many.bytes + at + 150 * length, next, f.size - at);
    check_refused(&t, many, "more than 100 scans");
    free(many.bytes);
    free(f.bytes);
    free(pixels);
}
END_TEST

/* Kinds of files for the tests of damage. */
static file sample(int which) {
    int width = 40 + (int)next_random(60), height = 40 + (int)next_random(60);
    uint8_t *pixels = picture(width, height);
    static const uint32_t formats[] = {PNG_FORMAT_RGB, PNG_FORMAT_GRAY, PNG_FORMAT_RGBA};
    file f = which < 4
                 ? make_jpeg(pixels, width, height, (kind)which)
                 : make_png(pixels, which == 6 ? width * 3 / 4 : width, height, formats[which - 4]);
    free(pixels);
    return f;
}

START_TEST(notices_files_that_end_early) {
    for (int which = 0; which < 7; which++) {
        image_transform t = standard(which % 2 ? 40 : 24, 24, 24);
        file f = sample(which);
        free(read_file(&t, f));
        for (size_t size = 0; size < f.size; size += size < 600 || f.size - size < 60 ? 1 : 97) {
            /* Of exactly that size, so that a sanitizer sees reads behind the end. */
            file cut = {malloc(size + !size), size};
            memcpy(cut.bytes, f.bytes, size);
            check_refused(&t, cut, "");
            free(cut.bytes);
        }
        free(f.bytes);
    }
}
END_TEST

/* Makes the checksums of a PNG's chunks right again, so that the damage gets behind them. */
static void repair(file f) {
    for (size_t at = 8; at + 12 <= f.size;) {
        unsigned char *b = f.bytes + at;
        size_t size = (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
        if (size > f.size - at - 12)
            return;
        uint32_t crc = (uint32_t)crc32(0, b + 4, (uInt)size + 4);
        for (int i = 0; i < 4; i++)
            b[8 + size + (size_t)i] = (unsigned char)(crc >> (24 - 8 * i));
        at += size + 12;
    }
}

START_TEST(survives_damage) {
    int good = 0, bad = 0;
    for (int round = 0; round < 7 * 300; round++) {
        image_transform t = standard(20 + (int)next_random(20), 24, 24);
        char why[IMAGE_WHY];
        float out[3 * 24 * 24];
        file f = sample(round % 7);
        t.max_pixels = 1 << 20;
        for (uint32_t i = 0, count = 1 + next_random(8); i < count; i++) {
            /* Half of them in the first bytes, where the headers are. */
            uint32_t below = (uint32_t)(i % 2 && f.size > 700 ? 700 : f.size);
            f.bytes[next_random(below)] = (unsigned char)next_random(256);
        }
        if (round % 2)
            repair(f);
        image_result result = image_read(&t, f.bytes, f.size, out, why);
        ck_assert_int_ne(result, IMAGE_FAILED);
        if (result == IMAGE_BAD && why[0])
            bad++;
        else if (result == IMAGE_OK)
            good++;
        free(f.bytes);
    }
    ck_assert_int_eq(good + bad, 7 * 300);
    ck_assert_int_gt(good, 100);
    ck_assert_int_gt(bad, 500);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("image");
    TCase *tests = tcase_create("image");
    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, keeps_pixels_that_are_not_resized);
    tcase_add_test(tests, resizes_as_the_formula_says);
    tcase_add_test(tests, puts_small_images_in_the_middle_of_zeros);
    tcase_add_test(tests, refuses_what_is_no_image_or_too_large);
    tcase_add_test(tests, refuses_many_scans);
    tcase_add_test(tests, notices_files_that_end_early);
    tcase_add_test(tests, survives_damage);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
