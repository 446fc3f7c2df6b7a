/* Outputs as .npy and as safetensors files: a header of fixed length, then the rows. */
#include "batch.h"
#include "formats.h"
#include "sink.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sink {
    batch_sink base;
    char *name;
    bool safetensors;
    tenon_view row;
    tenon_dtype dtype; /* in the file */
} sink;

/* The header without the spaces that fill it up. NumPy, too, leaves room for the first size to grow
 * (numpy.lib.format, GROWTH_AXIS_MAX_DIGITS). */
static tenon_status npy_text(const sink *s, int64_t rows, batch_bytes *out) {
    BATCH_TRY(batch_bytes_print(out, "{'descr': '%c%s', 'fortran_order': False, 'shape': (%" PRId64,
                                tenon_dtype_size(s->dtype) == 1 ? '|' : '<',
                                batch_npy_dtype(s->dtype), rows));
    for (int d = 0; d < s->row.rank; d++)
        BATCH_TRY(batch_bytes_print(out, ", %" PRId64, s->row.shape[d]));
    return batch_bytes_print(out, s->row.rank == 0 ? ",), }" : "), }");
}

static tenon_status safetensors_text(const sink *s, int64_t rows, batch_bytes *out) {
    cJSON *name = cJSON_CreateString(s->name);
    char *quoted = name ? cJSON_PrintUnformatted(name) : NULL;
    cJSON_Delete(name);
    if (!quoted)
        return batch_no_memory();
    int64_t bytes = rows * tenon_view_numel(&s->row) * (int64_t)tenon_dtype_size(s->dtype);
    tenon_status status = batch_bytes_print(out, "{%s:{\"dtype\":\"%s\",\"shape\":[%" PRId64,
                                            quoted, batch_safetensors_dtype_text(s->dtype), rows);
    for (int d = 0; d < s->row.rank && status == TENON_OK; d++)
        status = batch_bytes_print(out, ",%" PRId64, s->row.shape[d]);
    if (status == TENON_OK)
        status = batch_bytes_print(out, "],\"data_offsets\":[0,%" PRId64 "]}}", bytes);
    cJSON_free(quoted);
    return status;
}

static tenon_status header_text(const sink *s, int64_t rows, batch_bytes *out) {
    return s->safetensors ? safetensors_text(s, rows, out) : npy_text(s, rows, out);
}

static void little_endian(char *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        to[i] = (char)(value >> (8 * i));
}

static tenon_status write_header(const batch_sink *base, int64_t rows, char *bytes) {
    const sink *s = (const sink *)base;
    batch_bytes text = {0};
    size_t start = s->safetensors ? 8 : 10;
    tenon_status status = header_text(s, rows, &text);
    if (status == TENON_OK) {
        memset(bytes, ' ', base->header_size);
        memcpy(bytes + start, text.data, text.size);
        if (s->safetensors) {
            little_endian(bytes, base->header_size - start, 8);
        } else {
            memcpy(bytes, "\x93NUMPY\x01", 8); /* with the 0 behind: version 1.0 */
            little_endian(bytes + 8, base->header_size - start, 2);
            bytes[base->header_size - 1] = '\n';
        }
    }
    batch_bytes_free(&text);
    return status;
}

static tenon_status encode(batch_sink *base, const batch_rows *rows, batch_bytes *out) {
    const sink *s = (const sink *)base;
    size_t bytes = (size_t)tenon_view_numel(&s->row) * tenon_dtype_size(s->dtype);
    char *at = batch_bytes_add(out, bytes * (size_t)rows->count);
    if (!at)
        return TENON_OUT_OF_MEMORY;
    if (rows->view.dtype == s->dtype) {
        memcpy(at, rows->view.data, bytes * (size_t)rows->count);
    } else {
        tenon_view to = rows->view;
        to.dtype = s->dtype;
        to.data = malloc(bytes * (size_t)rows->count + 1); /* aligned, which `at` may not be */
        if (!to.data)
            return batch_no_memory();
        tenon_status status = tenon_view_copy(&to, &rows->view);
        memcpy(at, to.data, bytes * (size_t)rows->count);
        free(to.data);
        BATCH_TRY(status);
    }
    for (int64_t i = 0; i < rows->count; i++) {
        if (rows->bad[i])
            batch_row_blank(s->dtype, at + bytes * (size_t)i, bytes);
    }
    return TENON_OK;
}

static void destroy(batch_sink *base) {
    free(((sink *)base)->name);
    free(base);
}

static tenon_status create(const char *output, const tenon_view *row, bool safetensors,
                           batch_sink **out) {
    sink *s = calloc(1, sizeof *s);
    if (!s)
        return batch_no_memory();
    *s = (sink){.base = {.header = write_header, .encode = encode, .destroy = destroy},
                .name = strdup(output),
                .safetensors = safetensors,
                .row = *row,
                .dtype = row->dtype == TENON_BFLOAT16 && !safetensors ? TENON_FLOAT32 : row->dtype};
    batch_bytes text = {0};
    /* With room for two numbers of 20 digits, in whole blocks of 64 bytes, so that rows are
     * aligned. */
    tenon_status status = s->name ? header_text(s, 0, &text) : batch_no_memory();
    s->base.header_size = (10 + text.size + 2 * 20 + 63) / 64 * 64;
    batch_bytes_free(&text);
    if (status != TENON_OK) {
        destroy(&s->base);
        return status;
    }
    *out = &s->base;
    return TENON_OK;
}

tenon_status batch_sink_npy(const char *output, const tenon_view *row, batch_sink **out) {
    return create(output, row, false, out);
}

tenon_status batch_sink_safetensors(const char *output, const tenon_view *row, batch_sink **out) {
    return create(output, row, true, out);
}
