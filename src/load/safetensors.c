/* Safetensors (huggingface.co/docs/safetensors): eight bytes with the length of a JSON header, the
 * header, then the tensors without gaps. */
#include "core/fail.h"
#include "core/io_status.h"
#include "load/json.h"
#include "load/weights.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX 100000000 /* the format's own limit */

static const struct {
    const char *text;
    tenon_dtype dtype;
} dtypes[] = {
    {"BOOL", TENON_BOOL},   {"U8", TENON_UINT8},      {"I8", TENON_INT8},
    {"I16", TENON_INT16},   {"I32", TENON_INT32},     {"I64", TENON_INT64},
    {"U16", TENON_UINT16},  {"U32", TENON_UINT32},    {"U64", TENON_UINT64},
    {"F16", TENON_FLOAT16}, {"BF16", TENON_BFLOAT16}, {"F32", TENON_FLOAT32},
    {"F64", TENON_FLOAT64},
};

/* ---- Reading ---- */

static tenon_status read_header(tn_safetensors *file) {
    unsigned char start[8];
    uint64_t length = 0, size = file->file.size;
    if (size < sizeof start)
        return tn_fail(TENON_INVALID_FILE, "%s: %" PRIu64 " bytes are no safetensors file",
                       file->path, size);
    TN_TRY(tn_file_read(&file->file, 0, start, sizeof start));
    for (int i = 7; i >= 0; i--)
        length = length << 8 | start[i];
    if (length > HEADER_MAX || length > size - sizeof start)
        return tn_fail(TENON_INVALID_FILE,
                       "%s: its header claims %" PRIu64 " bytes, the file has %" PRIu64, file->path,
                       length, size);
    char *text = malloc((size_t)length + 1);
    if (!text)
        return tn_no_memory();
    tenon_status status = tn_file_read(&file->file, sizeof start, text, (size_t)length);
    text[length] = '\0';
    if (status == TENON_OK)
        status = tn_json_parse(file->path, text, (size_t)length, &file->header);
    free(text);
    file->data_at = (int64_t)(sizeof start + length);
    file->size = (int64_t)size - file->data_at;
    return status;
}

static tenon_status read_index(tn_safetensors *file, bool copy) {
    TN_TRY(tn_file_open(&file->file, file->path));
    TN_TRY(read_header(file));
    TN_TRY(tn_file_map(&file->file, copy));
    if (!cJSON_IsObject(file->header))
        return tn_fail(TENON_INVALID_FILE, "%s: its header is no JSON object", file->path);
    for (const cJSON *item = file->header->child; item; item = item->next) {
        if (!item->string || strcmp(item->string, "__metadata__") == 0)
            continue;
        if (tn_map_get(&file->tensors, item->string))
            return tn_fail(TENON_INVALID_FILE, "%s: two tensors are named '%s'", file->path,
                           item->string);
        TN_TRY(tn_map_put(&file->tensors, item->string, (void *)item));
    }
    return TENON_OK;
}

tenon_status tn_safetensors_open(tn_safetensors *file, const char *path, bool copy) {
    *file = (tn_safetensors){.path = path};
    tenon_status status = read_index(file, copy);
    if (status != TENON_OK)
        tn_safetensors_close(file);
    return status;
}

void tn_safetensors_close(tn_safetensors *file) {
    tn_map_free(&file->tensors);
    cJSON_Delete(file->header);
    tn_file_close(&file->file);
    *file = (tn_safetensors){0};
}

static tenon_status read_shape(const tn_safetensors *file, const char *name, const cJSON *item,
                               tenon_view *view) {
    const char *dtype = tn_json_string(tn_json_get(item, "dtype"));
    const cJSON *shape = tn_json_get(item, "shape");
    for (int i = 0; dtype && i < TN_COUNT(dtypes); i++)
        if (strcmp(dtypes[i].text, dtype) == 0)
            view->dtype = dtypes[i].dtype;
    if (view->dtype == TENON_DTYPE_NONE)
        return tn_fail(TENON_UNSUPPORTED,
                       "%s: tensor '%s' has the dtype '%.20s', which Tenon does not support",
                       file->path, name, dtype ? dtype : "");
    if (!cJSON_IsArray(shape))
        return tn_fail(TENON_INVALID_FILE, "%s: tensor '%s' has no shape", file->path, name);
    for (const cJSON *size = shape->child; size; size = size->next) {
        if (view->rank == TENON_MAX_RANK)
            return tn_fail(TENON_UNSUPPORTED, "%s: tensor '%s' has more than %d dimensions",
                           file->path, name, TENON_MAX_RANK);
        if (!tn_json_int(size, &view->shape[view->rank]) || view->shape[view->rank] < 0)
            return tn_fail(TENON_INVALID_FILE,
                           "%s: tensor '%s': a size is no integer of at least 0", file->path, name);
        view->rank++;
    }
    return TENON_OK;
}

tenon_status tn_safetensors_get(const tn_safetensors *file, const char *name, tenon_tensor **out) {
    const cJSON *item = tn_map_get(&file->tensors, name);
    const cJSON *offsets = tn_json_get(item, "data_offsets");
    tenon_view view = {0};
    int64_t begin, end, bytes;
    if (!item)
        return tn_fail(TENON_INVALID_FILE, "%s: tensor '%s' is missing", file->path, name);
    TN_TRY(read_shape(file, name, item, &view));
    if (!tn_json_int(tn_json_first(offsets), &begin) || !offsets->child->next ||
        !tn_json_int(offsets->child->next, &end) || begin < 0 || begin > end || end > file->size)
        return tn_fail(TENON_INVALID_FILE,
                       "%s: tensor '%s' lies outside the file's %lld bytes of data", file->path,
                       name, (long long)file->size);
    int64_t count = tn_numel(view.rank, view.shape), size = (int64_t)tenon_dtype_size(view.dtype);
    if (count < 0 || !tn_mul(count, size, &bytes) || bytes != end - begin) {
        char text[256];
        return tn_fail(TENON_INVALID_FILE, "%s: tensor '%s', %s, has %lld bytes", file->path, name,
                       tn_shape_text(view.dtype, view.rank, view.shape, text, sizeof text),
                       (long long)(end - begin));
    }
    tn_contiguous_strides(view.rank, view.shape, view.strides);
    view.data = (char *)file->file.bytes->data + file->data_at + begin;
    if ((uintptr_t)view.data % (uintptr_t)size == 0 && view.dtype != TENON_BOOL)
        return tn_tensor_over(file->file.bytes, &view, out);
    tenon_tensor *copy = NULL;
    TN_TRY(tenon_tensor_create(view.dtype, view.rank, view.shape, &copy));
    unsigned char *to = copy->view.data;
    tenon_status status =
        tn_file_read(&file->file, (size_t)(file->data_at + begin), to, (size_t)bytes);
    for (int64_t i = 0; i < bytes && view.dtype == TENON_BOOL; i++)
        to[i] = to[i] != 0;
    if (status == TENON_OK)
        *out = copy;
    else
        tenon_tensor_destroy(&copy);
    return status;
}

/* ---- Writing ---- */

static const char *dtype_text(tenon_dtype dtype) {
    for (int i = 0; i < TN_COUNT(dtypes); i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].text;
    return "";
}

/* Larger elements first: so each tensor stays aligned without gaps. */
static int by_size(const void *a, const void *b) {
    const tn_named_view *x = a, *y = b;
    size_t p = tenon_dtype_size(x->view->dtype), q = tenon_dtype_size(y->view->dtype);
    return p != q ? (p > q ? -1 : 1) : strcmp(x->name, y->name);
}

static int64_t bytes_of(const tenon_view *view) {
    return tenon_view_numel(view) * (int64_t)tenon_dtype_size(view->dtype);
}

static void header_text(tn_text *text, const tn_named_view *views, int count) {
    int64_t offset = 0;
    tn_text_add(text, "{");
    for (int i = 0; i < count; i++) {
        const tenon_view *view = views[i].view;
        tn_text_add(text, i ? "," : "");
        tn_json_quote(text, views[i].name);
        tn_text_add(text, ":{\"dtype\":\"%s\",\"shape\":[", dtype_text(view->dtype));
        for (int d = 0; d < view->rank; d++)
            tn_text_add(text, "%s%" PRId64, d ? "," : "", view->shape[d]);
        tn_text_add(text, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", offset,
                    offset + bytes_of(view));
        offset += bytes_of(view);
    }
    tn_text_add(text, "}");
    while (!text->failed && (text->length + 8) % 64 != 0)
        tn_text_put(text, " ", 1);
}

static tenon_status write_bytes(FILE *stream, const char *path, const void *data, size_t size) {
    if (size > 0 && fwrite(data, 1, size, stream) != size)
        return tn_fail(tn_io_status(errno), "%s: cannot be written: %s", path, strerror(errno));
    return TENON_OK;
}

static tenon_status write_view(FILE *stream, const char *path, const tenon_view *view) {
    if (tenon_view_is_contiguous(view))
        return write_bytes(stream, path, view->data, (size_t)bytes_of(view));
    tenon_tensor *copy = NULL;
    TN_TRY(tenon_tensor_create(view->dtype, view->rank, view->shape, &copy));
    tenon_status status = tenon_view_copy(&copy->view, view);
    if (status == TENON_OK)
        status = write_bytes(stream, path, copy->view.data, (size_t)bytes_of(view));
    tenon_tensor_destroy(&copy);
    return status;
}

tenon_status tn_safetensors_write(FILE *stream, const char *path, tn_named_view *views, int count) {
    tn_text header = {0};
    unsigned char length[8];
    qsort(views, (size_t)count, sizeof *views, by_size);
    header_text(&header, views, count);
    if (header.failed) {
        tn_text_free(&header);
        return tn_no_memory();
    }
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)header.length >> (8 * i));
    tenon_status status = write_bytes(stream, path, length, sizeof length);
    if (status == TENON_OK)
        status = write_bytes(stream, path, header.data, header.length);
    tn_text_free(&header);
    for (int i = 0; i < count && status == TENON_OK; i++)
        status = write_view(stream, path, views[i].view);
    return status;
}
