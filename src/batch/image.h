/* Images to samples: JPEG and PNG files become what torchvision's transforms make of them with
 * Pillow behind. Thread-safe: nothing is shared. */
#ifndef BATCH_IMAGE_H
#define BATCH_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum image_filter { IMAGE_BILINEAR, IMAGE_BICUBIC } image_filter;

/* Resize, CenterCrop, division by 255 and Normalize, in this order. Sizes are in pixels and at most
 * IMAGE_MAX_EDGE. */
typedef struct image_transform {
    int64_t resize_height; /* 0: images keep their size */
    int64_t resize_width;  /* 0: the shorter edge becomes resize_height, and the other follows */
    int64_t crop_height, crop_width;
    image_filter filter; /* widened by the scale where images shrink: antialiased */
    float mean[3], std[3];
    int64_t max_pixels; /* of a file, and of what it is resized to, before the crop */
} image_transform;

/* Sizes of torchvision's models for ImageNet, with the mean and the standard deviation of that data
 * set; crop_height and crop_width 0. */
extern const image_transform image_standard;

/* Pillow warns of files with more pixels. */
#define IMAGE_MAX_PIXELS 89478485
#define IMAGE_MAX_EDGE 1000000
#define IMAGE_MAX_BYTES (INT64_C(1) << 30)
#define IMAGE_WHY 160 /* bytes of a reason */

typedef enum image_result {
    IMAGE_OK,
    IMAGE_BAD,   /* the file's fault */
    IMAGE_FAILED /* out of memory */
} image_result;

/* Reads an image file of `size` bytes into `out`, row-major [3, crop_height, crop_width] in RGB.
 * Otherwise gives the reason in `why`, and `out` may be half written. Memory in use is bounded by
 * the transform, and for progressive JPEG and interlaced PNG by max_pixels. */
image_result image_read(const image_transform *transform, const void *bytes, size_t size,
                        float *out, char why[IMAGE_WHY]);

#endif
