/* The transforms, fed by the decoders row by row. */
#ifndef BATCH_IMAGE_ROWS_H
#define BATCH_IMAGE_ROWS_H

#include "image.h"

enum { IMAGE_CHANNELS = 4 }; /* of a row: R, G, B, and one that is ignored */

/* The weights of two neighbouring pixels, one for each channel. */
typedef int32_t image_pair __attribute__((vector_size(2 * IMAGE_CHANNELS * sizeof(int32_t))));

/* One direction of a resize: output j is the sum of count[j] inputs from first[j] on, times weights
 * in fixed point. */
typedef struct image_axis {
    int64_t in, resized;    /* pixels before the crop */
    int64_t start, outputs; /* the part of the crop that the image covers */
    int64_t taps;           /* weights of one output, some of them unused */
    int64_t needed, end;    /* inputs that count */
    int32_t *first, *count, *weight;
    /* The same for rows of pixels: equally many pairs from first_pair[j] on for each output. */
    int64_t pair_count;
    int32_t *first_pair;
    image_pair *pairs;
} image_axis;

typedef struct image_functions image_functions;

typedef struct image_rows {
    const image_transform *transform;
    float *out;
    char *why;
    image_axis down, across;
    bool columns_first; /* `down` before `across` */
    int64_t row, low;   /* of the next row; the first output that is not finished */
    int64_t length;     /* bytes of a row that goes into `down` */
    int32_t *sums;      /* outputs of `down`, each a row */
    uint8_t *wide;      /* a row of these, rounded, that goes into `across` */
    int32_t *fixed;     /* a row after `across`, in fixed point */
    uint8_t *narrow;    /* and rounded */
    const image_functions *functions;
    float table[3][256];
} image_rows;

/* Begins with an image of this size. IMAGE_BAD when it is too large. `rows` must be zeroed before,
 * and freed whatever this gives. */
image_result image_rows_start(image_rows *rows, int64_t width, int64_t height);
/* The next row, with IMAGE_CHANNELS bytes behind it that can be read. */
void image_rows_put(image_rows *rows, const uint8_t *pixels);
/* Whether the rows that are still to come change nothing. */
bool image_rows_done(const image_rows *rows);
void image_rows_free(image_rows *rows);

image_result image_bad(image_rows *rows, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
image_result image_no_memory(image_rows *rows);

/* The decoders: give all rows that are needed to `rows`. */
image_result image_jpeg(image_rows *rows, const uint8_t *bytes, size_t size);
image_result image_png(image_rows *rows, const uint8_t *bytes, size_t size);

#endif
