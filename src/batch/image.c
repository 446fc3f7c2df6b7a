/* Reading an image file: which format it is, by its first bytes. */
#include "image_rows.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const image_transform image_standard = {
    .resize_height = 256,
    .mean = {0.485f, 0.456f, 0.406f},
    .std = {0.229f, 0.224f, 0.225f},
    .max_pixels = IMAGE_MAX_PIXELS,
};

image_result image_bad(image_rows *rows, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rows->why, IMAGE_WHY, format, arguments);
    va_end(arguments);
    return IMAGE_BAD;
}

image_result image_no_memory(image_rows *rows) {
    snprintf(rows->why, IMAGE_WHY, "out of memory");
    return IMAGE_FAILED;
}

image_result image_read(const image_transform *transform, const void *bytes, size_t size,
                        float *out, char why[IMAGE_WHY]) {
    image_rows rows = {.transform = transform, .out = out, .why = why};
    image_result result;
    why[0] = 0;
    if (size == 0)
        result = image_bad(&rows, "the file is empty");
    else if (size >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0)
        result = image_jpeg(&rows, bytes, size);
    else if (size >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0)
        result = image_png(&rows, bytes, size);
    else
        result = image_bad(&rows, "neither JPEG nor PNG");
    image_rows_free(&rows);
    return result;
}
