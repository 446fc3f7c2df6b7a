/* Growing bytes, and single rows. */
#include "batch.h"
#include "sink.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tenon_status(batch_no_memory)(void) {
    return tenon_fail(TENON_OUT_OF_MEMORY, "out of memory");
}

tenon_status batch_io_status(int error) {
    return error == ENOMEM ? TENON_OUT_OF_MEMORY : TENON_IO;
}

char *batch_bytes_add(batch_bytes *bytes, size_t size) {
    if (!bytes->data || size > bytes->capacity - bytes->size) {
        size_t capacity = bytes->capacity ? bytes->capacity : 4096;
        while (capacity - bytes->size < size) {
            if (capacity > SIZE_MAX / 2) {
                batch_no_memory();
                return NULL;
            }
            capacity *= 2;
        }
        char *data = realloc(bytes->data, capacity);
        if (!data) {
            batch_no_memory();
            return NULL;
        }
        bytes->data = data;
        bytes->capacity = capacity;
    }
    char *at = bytes->data + bytes->size;
    bytes->size += size;
    return at;
}

tenon_status batch_bytes_put(batch_bytes *bytes, const void *data, size_t size) {
    if (size == 0)
        return TENON_OK;
    char *at = batch_bytes_add(bytes, size);
    if (!at)
        return TENON_OUT_OF_MEMORY;
    if (size > 0)
        memcpy(at, data, size);
    return TENON_OK;
}

tenon_status batch_bytes_print(batch_bytes *bytes, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *at = length < 0 ? NULL : batch_bytes_add(bytes, (size_t)length + 1);
    if (at) {
        vsnprintf(at, (size_t)length + 1, format, again);
        bytes->size--; /* the NUL */
    }
    va_end(again);
    return at ? TENON_OK : batch_no_memory();
}

void batch_bytes_free(batch_bytes *bytes) {
    free(bytes->data);
    *bytes = (batch_bytes){0};
}

/* ---- Rows ---- */

static bool is_half(tenon_dtype dtype) {
    return dtype == TENON_FLOAT16 || dtype == TENON_BFLOAT16;
}

bool batch_row_fits(tenon_dtype from, tenon_dtype to) {
    return from == to || (from == TENON_FLOAT32 && to == TENON_BFLOAT16) ||
           (is_half(from) && to == TENON_FLOAT32);
}

tenon_status batch_row_copy(const tenon_view *row, tenon_dtype from, const void *bytes) {
    int64_t count = tenon_view_numel(row);
    size_t size = (size_t)count * tenon_dtype_size(from);
    if (from == TENON_BOOL) {
        for (int64_t i = 0; i < count; i++)
            ((unsigned char *)row->data)[i] = ((const unsigned char *)bytes)[i] != 0;
        return TENON_OK;
    }
    if (from == row->dtype) {
        memcpy(row->data, bytes, size);
        return TENON_OK;
    }
    tenon_view view = *row;
    view.dtype = from;
    view.data = (void *)(uintptr_t)bytes;
    if ((uintptr_t)bytes % tenon_dtype_size(from) == 0)
        return tenon_view_copy(row, &view);
    view.data = malloc(size + 1);
    if (!view.data)
        return batch_no_memory();
    memcpy(view.data, bytes, size);
    tenon_status status = tenon_view_copy(row, &view);
    free(view.data);
    return status;
}

void batch_row_blank(tenon_dtype dtype, void *data, size_t bytes) {
    uint16_t half = dtype == TENON_FLOAT16 ? 0x7e00 : 0x7fc0;
    float single = NAN;
    double wide = NAN;
    size_t size = tenon_dtype_size(dtype);
    const void *element = dtype == TENON_FLOAT32   ? (const void *)&single
                          : dtype == TENON_FLOAT64 ? (const void *)&wide
                          : is_half(dtype)         ? (const void *)&half
                                                   : NULL;
    if (!element)
        memset(data, 0, bytes);
    for (size_t at = 0; element && at + size <= bytes; at += size)
        memcpy((char *)data + at, element, size);
}

void batch_source_destroy(batch_source **source) {
    if (*source)
        (*source)->destroy(*source);
    *source = NULL;
}

void batch_sink_destroy(batch_sink **sink) {
    if (*sink)
        (*sink)->destroy(*sink);
    *sink = NULL;
}
