/* Resize, crop and normalize.
 *
 * The numbers are those of Pillow's Image.resize on RGB, bit by bit (ImagingResample in its
 * Resample.c): each row is resized first and rounded to bytes, and then the columns, or the other
 * way round, both with weights of 22 bits behind the binary point. Where the filter lies and that
 * its weights are divided by their sum is computed in double, as there. Rows come one after
 * another, so each is added to the outputs that see it: memory does not depend on the size of the
 * image, and what the crop throws away is not computed. */
#include "image_rows.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/version.h>

#define WEIGHT_BITS 22

/* ---- Places and weights ---- */

/* Keys' cubic kernel with a = -0.5 (Keys, "Cubic Convolution Interpolation for Digital Image
 * Processing"), and the tent. */
static double filter_at(image_filter filter, double x) {
    const double a = -0.5;
    x = fabs(x);
    if (filter == IMAGE_BILINEAR)
        return x < 1 ? 1 - x : 0;
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static int32_t fixed(double weight) {
    double scaled = weight * (1 << WEIGHT_BITS);
    return (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

static void place(image_axis *axis, image_filter filter, int64_t j, double *exact) {
    double scale = (double)axis->in / (double)axis->resized, wide = scale < 1 ? 1 : scale;
    double support = (filter == IMAGE_BILINEAR ? 1 : 2) * wide, sum = 0;
    int64_t at = axis->start < 0 ? j : j + axis->start; /* in the resized image */
    double centre = ((double)at + 0.5) * scale;
    int64_t first = (int64_t)(centre - support + 0.5), end = (int64_t)(centre + support + 0.5);
    first = first < 0 ? 0 : first;
    end = end > axis->in ? axis->in : end;
    int64_t count = end - first;
    for (int64_t t = 0; t < count; t++) {
        exact[t] = filter_at(filter, ((double)(first + t) - centre + 0.5) * (1 / wide));
        sum += exact[t];
    }
    int32_t *weight = axis->weight + j * axis->taps;
    for (int64_t t = 0; t < count; t++)
        weight[t] = fixed(sum != 0 ? exact[t] / sum : exact[t]);
    axis->first[j] = (int32_t)first;
    axis->count[j] = (int32_t)count;
    axis->needed = first < axis->needed ? first : axis->needed;
    axis->end = end > axis->end ? end : axis->end;
}

/* CenterCrop: where the crop begins in the resized image, halves rounded to even as Python's
 * round() does; negative where the image is smaller and stands in the middle of zeros. */
static int64_t crop_start(int64_t resized, int64_t crop) {
    if (resized < crop)
        return -((crop - resized) / 2);
    int64_t half = (resized - crop) / 2;
    return (resized - crop) % 2 ? half + half % 2 : half;
}

static bool make_axis(image_axis *axis, image_filter filter, int64_t in, int64_t resized,
                      int64_t crop) {
    double scale = (double)in / (double)resized;
    *axis = (image_axis){.in = in, .resized = resized, .needed = in};
    axis->start = crop_start(resized, crop);
    axis->outputs = resized < crop ? resized : crop;
    axis->taps =
        2 * (int64_t)ceil((filter == IMAGE_BILINEAR ? 1 : 2) * (scale < 1 ? 1 : scale)) + 1;
    axis->first = calloc((size_t)axis->outputs, sizeof *axis->first);
    axis->count = calloc((size_t)axis->outputs, sizeof *axis->count);
    axis->first_pair = calloc((size_t)axis->outputs, sizeof *axis->first_pair);
    axis->weight = calloc((size_t)(axis->outputs * axis->taps), sizeof *axis->weight);
    double *exact = calloc((size_t)axis->taps, sizeof *exact);
    bool made = axis->first && axis->count && axis->first_pair && axis->weight && exact;
    for (int64_t j = 0; made && j < axis->outputs; j++)
        place(axis, filter, j, exact);
    free(exact);
    return made;
}

static int64_t even(int64_t n) {
    return n + n % 2;
}

/* Windows of one width, moved to the left where they would leave the image. */
static bool make_pairs(image_axis *axis) {
    int64_t most = 0;
    for (int64_t j = 0; j < axis->outputs; j++)
        most = axis->count[j] > most ? axis->count[j] : most;
    int64_t width = even(most);
    axis->pair_count = width / 2;
    size_t size = (size_t)(axis->outputs * axis->pair_count) * sizeof *axis->pairs;
    axis->pairs = aligned_alloc(sizeof *axis->pairs, size);
    if (!axis->pairs)
        return false;
    memset(axis->pairs, 0, size);
    for (int64_t j = 0; j < axis->outputs; j++) {
        int64_t last = even(axis->in) - width;
        int64_t first = axis->first[j] < last ? axis->first[j] : last;
        axis->first_pair[j] = (int32_t)first;
        for (int64_t t = 0; t < axis->count[j]; t++) {
            int64_t at = axis->first[j] - first + t;
            for (int c = 0; c < IMAGE_CHANNELS; c++)
                axis->pairs[j * axis->pair_count + at / 2][at % 2 * IMAGE_CHANNELS + c] =
                    axis->weight[j * axis->taps + t];
        }
    }
    return true;
}

static void free_axis(image_axis *axis) {
    free(axis->first_pair);
    free(axis->pairs);
    free(axis->first);
    free(axis->count);
    free(axis->weight);
}

/* ---- Rows ---- */

typedef int32_t pixel __attribute__((vector_size(IMAGE_CHANNELS * sizeof(int32_t))));

static const int32_t half = 1 << (WEIGHT_BITS - 1);

#define INLINE static inline __attribute__((always_inline))

/* Sums for a row, in fixed point. */
INLINE void resize_pairs(const image_axis *axis, int64_t pair_count, const uint8_t *restrict from,
                         int32_t *restrict to) {
    const image_pair *weights = axis->pairs;
    for (int64_t x = 0; x < axis->outputs; x++, weights += pair_count) {
        const uint8_t *b = from + (int64_t)axis->first_pair[x] * IMAGE_CHANNELS;
        image_pair sums = {half, half, half, half};
        for (int64_t i = 0; i < pair_count; i++, b += 2 * IMAGE_CHANNELS) {
            image_pair values = {b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]};
            sums += values * weights[i];
        }
        pixel sum = __builtin_shufflevector(sums, sums, 0, 1, 2, 3) +
                    __builtin_shufflevector(sums, sums, 4, 5, 6, 7);
        memcpy(to + x * IMAGE_CHANNELS, &sum, sizeof sum);
    }
}

/* Loops over a number of pairs that is known are unrolled. */
INLINE void resize_row(const image_axis *axis, const uint8_t *from, int32_t *to) {
    switch (axis->pair_count) {
    case 1:
        resize_pairs(axis, 1, from, to);
        break;
    case 2:
        resize_pairs(axis, 2, from, to);
        break;
    case 3:
        resize_pairs(axis, 3, from, to);
        break;
    default:
        resize_pairs(axis, axis->pair_count, from, to);
    }
}

INLINE void add_row(int32_t *restrict sums, const uint8_t *restrict row, int32_t weight, bool first,
                    int64_t n) {
    if (first)
        for (int64_t i = 0; i < n; i++)
            sums[i] = half + weight * row[i];
    else
        for (int64_t i = 0; i < n; i++)
            sums[i] += weight * row[i];
}

INLINE void clip_row(const int32_t *restrict sums, uint8_t *restrict row, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int32_t sum = sums[i] >> WEIGHT_BITS;
        row[i] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
}

/* All once more for CPUs with AVX2: SSE2 has no product of integers of 32 bits. */
struct image_functions {
    void (*resize)(const image_axis *axis, const uint8_t *from, int32_t *to);
    void (*add)(int32_t *sums, const uint8_t *row, int32_t weight, bool first, int64_t n);
    void (*clip)(const int32_t *sums, uint8_t *row, int64_t n);
};

#define FUNCTIONS(suffix, target)                                                                  \
    target static void resize_##suffix(const image_axis *axis, const uint8_t *from, int32_t *to) { \
        resize_row(axis, from, to);                                                                \
    }                                                                                              \
    target static void add_##suffix(int32_t *sums, const uint8_t *row, int32_t weight, bool first, \
                                    int64_t n) {                                                   \
        add_row(sums, row, weight, first, n);                                                      \
    }                                                                                              \
    target static void clip_##suffix(const int32_t *sums, uint8_t *row, int64_t n) {               \
        clip_row(sums, row, n);                                                                    \
    }                                                                                              \
    static const image_functions functions_##suffix = {resize_##suffix, add_##suffix, clip_##suffix}

FUNCTIONS(plain, );
#if defined(__x86_64__)
FUNCTIONS(avx2, __attribute__((target("avx2"))));
#endif

/* As the kernels are chosen, so that TENON_MAX_ISA counts here too. */
static const image_functions *best_functions(void) {
#if defined(__x86_64__)
    tenon_build_info info;
    tenon_get_build_info(&info);
    if (strcmp(info.kernel_isa, "baseline") != 0)
        return &functions_avx2;
#endif
    return &functions_plain;
}

/* ---- Start and end ---- */

/* torchvision's Resize: the longer edge is cut off to an integer. */
static void resized_size(const image_transform *t, int64_t width, int64_t height, int64_t *to_width,
                         int64_t *to_height) {
    *to_width = width;
    *to_height = height;
    if (t->resize_width > 0) {
        *to_width = t->resize_width;
        *to_height = t->resize_height;
    } else if (t->resize_height > 0 && width <= height) {
        *to_width = t->resize_height;
        *to_height = t->resize_height * height / width;
    } else if (t->resize_height > 0) {
        *to_height = t->resize_height;
        *to_width = t->resize_height * width / height;
    }
}

/* Normalize's results for each byte, in float as there. */
static void make_table(image_rows *rows) {
    const image_transform *t = rows->transform;
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            rows->table[c][v] = ((float)v / 255.0f - t->mean[c]) / t->std[c];
}

static void fill_with_zeros(image_rows *rows) {
    int64_t plane = rows->transform->crop_height * rows->transform->crop_width;
    for (int64_t i = 0; i < 3 * plane; i++)
        rows->out[i] = rows->table[i / plane][0];
}

image_result image_rows_start(image_rows *rows, int64_t width, int64_t height) {
    const image_transform *t = rows->transform;
    int64_t to_width, to_height;
    if (width < 1 || height < 1 || width > IMAGE_MAX_EDGE || height > IMAGE_MAX_EDGE)
        return image_bad(rows, "%lldx%lld pixels: edges are 1 to %d", (long long)width,
                         (long long)height, IMAGE_MAX_EDGE);
    if (width * height > t->max_pixels)
        return image_bad(rows, "%lldx%lld pixels: more than the limit of %lld", (long long)width,
                         (long long)height, (long long)t->max_pixels);
    resized_size(t, width, height, &to_width, &to_height);
    if (to_width > t->max_pixels / to_height)
        return image_bad(rows,
                         "%lldx%lld pixels would become %lldx%lld: more than the limit of %lld",
                         (long long)width, (long long)height, (long long)to_width,
                         (long long)to_height, (long long)t->max_pixels);
    if (!make_axis(&rows->down, t->filter, height, to_height, t->crop_height) ||
        !make_axis(&rows->across, t->filter, width, to_width, t->crop_width) ||
        !make_pairs(&rows->across))
        return image_no_memory(rows);
    /* Pillow 13 does so since the height shrinks by much more. */
    rows->columns_first = to_height < height && height - to_height > 2 * (width - to_width);
    size_t narrow = (size_t)rows->across.outputs * IMAGE_CHANNELS;
    size_t wide = (size_t)width * IMAGE_CHANNELS, length = rows->columns_first ? wide : narrow;
    rows->length = (int64_t)length;
    rows->narrow = malloc(narrow);
    rows->wide = malloc(wide + IMAGE_CHANNELS);
    rows->fixed = malloc(narrow * sizeof *rows->fixed);
    rows->sums = malloc((size_t)rows->down.outputs * length * sizeof *rows->sums);
    if (!rows->narrow || !rows->wide || !rows->fixed || !rows->sums)
        return image_no_memory(rows);
    rows->functions = best_functions();
    make_table(rows);
    if (rows->down.start < 0 || rows->across.start < 0 || rows->down.outputs < t->crop_height ||
        rows->across.outputs < t->crop_width)
        fill_with_zeros(rows);
    return IMAGE_OK;
}

void image_rows_free(image_rows *rows) {
    free_axis(&rows->down);
    free_axis(&rows->across);
    free(rows->narrow);
    free(rows->wide);
    free(rows->sums);
    free(rows->fixed);
}

bool image_rows_done(const image_rows *rows) {
    return rows->row >= rows->down.end;
}

static void resize_across(image_rows *rows, const uint8_t *pixels) {
    rows->functions->resize(&rows->across, pixels, rows->fixed);
    rows->functions->clip(rows->fixed, rows->narrow, rows->across.outputs * IMAGE_CHANNELS);
}

static void finish(image_rows *rows, int64_t j) {
    const image_transform *t = rows->transform;
    int64_t n = rows->across.outputs, plane = t->crop_height * t->crop_width;
    int64_t y = j - (rows->down.start < 0 ? rows->down.start : 0);
    int64_t x = rows->across.start < 0 ? -rows->across.start : 0;
    float *to = rows->out + y * t->crop_width + x;
    uint8_t *row = rows->columns_first ? rows->wide : rows->narrow;
    rows->functions->clip(rows->sums + j * rows->length, row, rows->length);
    if (rows->columns_first)
        resize_across(rows, rows->wide);
    for (int c = 0; c < 3; c++)
        for (int64_t i = 0; i < n; i++)
            to[c * plane + i] = rows->table[c][rows->narrow[i * IMAGE_CHANNELS + c]];
}

void image_rows_put(image_rows *rows, const uint8_t *pixels) {
    const image_axis *down = &rows->down;
    int64_t row = rows->row++;
    if (row < down->needed || row >= down->end)
        return;
    if (!rows->columns_first)
        resize_across(rows, pixels);
    for (int64_t j = rows->low; j < down->outputs && down->first[j] <= row; j++)
        rows->functions->add(rows->sums + j * rows->length,
                             rows->columns_first ? pixels : rows->narrow,
                             down->weight[j * down->taps + row - down->first[j]],
                             row == down->first[j], rows->length);
    while (rows->low < down->outputs && down->first[rows->low] + down->count[rows->low] <= row + 1)
        finish(rows, rows->low++);
}
