/* Arrays in .npy files (numpy.org/doc/stable/reference/generated/numpy.lib.format.html). */
#include "core/fail.h"
#include "core/io_status.h"
#include "core/replace.h"
#include "core/tensor.h"
#include "core/util.h"
#include "load/file.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/load.h>

static const struct {
    const char *descr; /* without the byte order */
    tenon_dtype dtype;
} dtypes[] = {
    {"b1", TENON_BOOL},   {"u1", TENON_UINT8},   {"i1", TENON_INT8},    {"i2", TENON_INT16},
    {"i4", TENON_INT32},  {"i8", TENON_INT64},   {"u2", TENON_UINT16},  {"u4", TENON_UINT32},
    {"u8", TENON_UINT64}, {"f2", TENON_FLOAT16}, {"f4", TENON_FLOAT32}, {"f8", TENON_FLOAT64},
};

typedef struct header {
    const char *path;
    char *text, *at; /* of the dict */
    tenon_dtype dtype;
    bool fortran;
    int rank;
    int64_t shape[TENON_MAX_RANK];
} header;

static tenon_status bad(const header *h, const char *rule) {
    return tn_fail(TENON_INVALID_FILE, "%s: .npy header: %s", h->path, rule);
}

/* Moves behind `'key':`, or fails. */
static tenon_status find_key(header *h, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    h->at = strstr(h->text, quoted);
    if (!h->at)
        return tn_fail(TENON_INVALID_FILE, "%s: .npy header: '%s' is missing", h->path, key);
    h->at += strlen(quoted);
    h->at += strspn(h->at, " ");
    return TENON_OK;
}

static tenon_status read_descr(header *h) {
    TN_TRY(find_key(h, "descr"));
    if (*h->at != '\'')
        return tn_fail(TENON_UNSUPPORTED, "%s: structured arrays are not supported", h->path);
    char order = h->at[1];
    const char *rest = h->at[1] ? h->at + 2 : "";
    size_t length = strcspn(rest, "'");
    for (int i = 0; i < TN_COUNT(dtypes); i++)
        if (strlen(dtypes[i].descr) == length && strncmp(dtypes[i].descr, rest, length) == 0)
            h->dtype = dtypes[i].dtype;
    if (h->dtype == TENON_DTYPE_NONE || !strchr("<|=>", order))
        return tn_fail(TENON_UNSUPPORTED, "%s: the dtype '%.*s' is not supported", h->path,
                       (int)(length < 20 ? length + (order != 0) : 20), h->at + 1);
    if (order == '>' && tenon_dtype_size(h->dtype) > 1)
        return tn_fail(TENON_UNSUPPORTED, "%s: big-endian arrays are not supported", h->path);
    return TENON_OK;
}

static tenon_status read_shape(header *h) {
    TN_TRY(find_key(h, "shape"));
    if (*h->at++ != '(')
        return bad(h, "the shape is no tuple");
    for (;;) {
        char *end;
        h->at += strspn(h->at, " ,");
        if (*h->at == ')')
            return TENON_OK;
        if (h->rank == TENON_MAX_RANK)
            return tn_fail(TENON_UNSUPPORTED, "%s: more than %d dimensions", h->path,
                           TENON_MAX_RANK);
        errno = 0;
        h->shape[h->rank] = strtoll(h->at, &end, 10);
        if (end == h->at || errno != 0 || h->shape[h->rank] < 0)
            return bad(h, "a size is no number of at least 0");
        h->rank++;
        h->at = end + (*end == 'L'); /* as Python 2 wrote it */
    }
}

static tenon_status read_header(header *h) {
    TN_TRY(read_descr(h));
    TN_TRY(find_key(h, "fortran_order"));
    h->fortran = strncmp(h->at, "True", 4) == 0;
    if (!h->fortran && strncmp(h->at, "False", 5) != 0)
        return bad(h, "fortran_order is neither True nor False");
    return read_shape(h);
}

/* Where the dict starts and how long it is. */
static tenon_status find_header(const header *h, const unsigned char *bytes, size_t size,
                                size_t *start, size_t *length) {
    if (size < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return tn_fail(TENON_INVALID_FILE, "%s: not a .npy file", h->path);
    if (bytes[6] < 1 || bytes[6] > 3)
        return tn_fail(TENON_UNSUPPORTED, "%s: .npy version %d is not supported", h->path,
                       bytes[6]);
    *start = bytes[6] == 1 ? 10 : 12;
    if (size < *start)
        return bad(h, "the file ends inside");
    *length = bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] > 1)
        *length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    return TENON_OK;
}

static tenon_status parse_header(header *h, const char *bytes, size_t length) {
    h->text = malloc(length + 1);
    if (!h->text)
        return tn_no_memory();
    memcpy(h->text, bytes, length);
    h->text[length] = '\0';
    return read_header(h);
}

tenon_status tenon_npy_header(const char *source, const void *bytes, size_t size, tenon_view *out,
                              size_t *data_at) {
    header h = {.path = source};
    size_t start = 0, length = 0;
    TN_TRY(find_header(&h, bytes, size, &start, &length));
    *data_at = start + length;
    if (length > size - start)
        return tn_fail(TENON_NOT_FOUND, "%s: .npy header: the file ends inside", source);
    tenon_status status = parse_header(&h, (const char *)bytes + start, length);
    free(h.text);
    int64_t count = status == TENON_OK ? tn_numel(h.rank, h.shape) : 0, total;
    if (count < 0 || !tn_mul(count, (int64_t)tenon_dtype_size(h.dtype), &total))
        return bad(&h, "the sizes overflow");
    TN_TRY(status);
    int64_t stride = 1;
    *out = (tenon_view){.dtype = h.dtype, .rank = h.rank};
    for (int i = 0; i < h.rank; i++) {
        int d = h.fortran ? i : h.rank - 1 - i;
        out->shape[d] = h.shape[d];
        out->strides[d] = stride;
        stride *= h.shape[d] > 0 ? h.shape[d] : 1;
    }
    return TENON_OK;
}

/* The bytes of a file may lie askew for the dtype, so they are copied as bytes first. */
static tenon_status read_data(const header *h, const char *data, size_t size, tenon_tensor **out) {
    int64_t count = tn_numel(h->rank, h->shape), bytes;
    int64_t reversed[TENON_MAX_RANK];
    if (count < 0 || !tn_mul(count, (int64_t)tenon_dtype_size(h->dtype), &bytes))
        return bad(h, "the sizes overflow");
    if ((uint64_t)bytes != size)
        return tn_fail(TENON_INVALID_FILE, "%s: the shape needs %lld bytes, the file has %zu",
                       h->path, (long long)bytes, size);
    for (int d = 0; d < h->rank; d++)
        reversed[d] = h->shape[h->rank - 1 - d];
    tenon_tensor *tensor = NULL, *ordered = NULL;
    TN_TRY(tenon_tensor_create(h->dtype, h->rank, h->fortran ? reversed : h->shape, &tensor));
    memcpy(tensor->view.data, data, size);
    for (size_t i = 0; h->dtype == TENON_BOOL && i < size; i++)
        ((unsigned char *)tensor->view.data)[i] = ((unsigned char *)tensor->view.data)[i] != 0;
    if (h->fortran && h->rank > 1) {
        tenon_view turned = tensor->view;
        for (int d = 0; d < h->rank; d++) {
            turned.shape[d] = h->shape[d];
            turned.strides[d] = tensor->view.strides[h->rank - 1 - d];
        }
        tenon_status status = tenon_tensor_create(h->dtype, h->rank, h->shape, &ordered);
        if (status == TENON_OK)
            status = tenon_view_copy(&ordered->view, &turned);
        tenon_tensor_destroy(&tensor);
        if (status != TENON_OK) {
            tenon_tensor_destroy(&ordered);
            return status;
        }
        tensor = ordered;
    }
    *out = tensor;
    return TENON_OK;
}

static tenon_status load_npy(header *h, const char *bytes, size_t size, tenon_tensor **out) {
    size_t start = 0, length = 0;
    TN_TRY(find_header(h, (const unsigned char *)bytes, size, &start, &length));
    if (length > size - start)
        return bad(h, "the file ends inside");
    TN_TRY(parse_header(h, bytes + start, length));
    return read_data(h, bytes + start + length, size - start - length, out);
}

tenon_status tenon_npy_load(const char *path, tenon_tensor **out) {
    header h = {.path = path};
    char *bytes;
    size_t size;
    TN_TRY(tn_file_read_all(path, &bytes, &size));
    tenon_status status = load_npy(&h, bytes, size, out);
    free(h.text);
    free(bytes);
    return status;
}

/* ---- Writing ---- */

static void header_text(tn_text *text, const tenon_view *view) {
    const char *descr = "";
    for (int i = 0; i < TN_COUNT(dtypes); i++)
        if (dtypes[i].dtype == view->dtype)
            descr = dtypes[i].descr;
    tn_text_add(text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                tenon_dtype_size(view->dtype) == 1 ? '|' : '<', descr);
    for (int d = 0; d < view->rank; d++)
        tn_text_add(text, d ? " %" PRId64 "," : "%" PRId64 ",", view->shape[d]);
    if (view->rank > 1 && !text->failed)
        text->data[--text->length] = '\0'; /* only one size alone keeps its comma */
    tn_text_add(text, "), }");
    while (!text->failed && (10 + text->length + 1) % 64 != 0)
        tn_text_put(text, " ", 1);
    tn_text_put(text, "\n", 1);
}

static tenon_status write_npy(FILE *stream, const char *path, const tenon_view *view) {
    tn_text text = {0};
    header_text(&text, view);
    if (text.failed)
        return tn_no_memory();
    unsigned char start[10] = {0x93,
                               'N',
                               'U',
                               'M',
                               'P',
                               'Y',
                               1,
                               0,
                               (unsigned char)text.length,
                               (unsigned char)(text.length >> 8)};
    size_t bytes = (size_t)tenon_view_numel(view) * tenon_dtype_size(view->dtype);
    bool ok = fwrite(start, 1, sizeof start, stream) == sizeof start &&
              fwrite(text.data, 1, text.length, stream) == text.length &&
              (bytes == 0 || fwrite(view->data, 1, bytes, stream) == bytes);
    tn_text_free(&text);
    return ok ? TENON_OK
              : tn_fail(tn_io_status(errno), "%s: cannot be written: %s", path, strerror(errno));
}

tenon_status tenon_npy_save(const char *path, const tenon_view *view) {
    tenon_status status;
    tn_replace file = {0};
    tenon_tensor *copy = NULL;
    tenon_dtype dtype = view->dtype == TENON_BFLOAT16 ? TENON_FLOAT32 : view->dtype;
    TN_GOTO(tenon_tensor_create(dtype, view->rank, view->shape, &copy));
    TN_GOTO(tenon_view_copy(&copy->view, view));
    TN_GOTO(tn_replace_open(&file, path));
    TN_GOTO(write_npy(file.file, path, &copy->view));
    TN_GOTO(tn_replace_commit(&file));
error:
    tn_replace_close(&file);
    tenon_tensor_destroy(&copy);
    return status;
}
