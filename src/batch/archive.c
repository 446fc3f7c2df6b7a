/* Files that hold arrays: .npy and safetensors are mapped, members of .npz read as they are
 * inflated. */
#include "batch.h"
#include "formats.h"
#include "mapped.h"
#include "sink.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zip.h>

enum { HEADER_MAX = 1 << 20, SKIP = 1 << 16 };

typedef struct member {
    char *name;
    tenon_view view;
    int64_t at; /* of the first element: in the mapping, or in the member */
    int64_t zip_index;
    tenon_status status; /* not OK: what is wrong with it */
    char *why;
} member;

struct batch_archive {
    char *path;
    batch_mapped mapped;
    zip_t *zip;
    zip_file_t *open; /* the member that is read */
    int open_index;
    int64_t position; /* in it */
    member *members;
    int count;
    batch_bytes row;
};

/* ---- Dtypes ---- */

static const struct {
    tenon_dtype dtype;
    const char *npy, *safetensors;
} dtypes[] = {
    {TENON_BOOL, "b1", "BOOL"},   {TENON_UINT8, "u1", "U8"},    {TENON_INT8, "i1", "I8"},
    {TENON_INT16, "i2", "I16"},   {TENON_INT32, "i4", "I32"},   {TENON_INT64, "i8", "I64"},
    {TENON_UINT16, "u2", "U16"},  {TENON_UINT32, "u4", "U32"},  {TENON_UINT64, "u8", "U64"},
    {TENON_FLOAT16, "f2", "F16"}, {TENON_BFLOAT16, "", "BF16"}, {TENON_FLOAT32, "f4", "F32"},
    {TENON_FLOAT64, "f8", "F64"},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const char *batch_npy_dtype(tenon_dtype dtype) {
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].npy;
    return "";
}

const char *batch_safetensors_dtype_text(tenon_dtype dtype) {
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].safetensors;
    return "";
}

tenon_dtype batch_safetensors_dtype(const char *text) {
    for (int i = 0; i < DTYPES; i++)
        if (strcmp(dtypes[i].safetensors, text) == 0)
            return dtypes[i].dtype;
    return TENON_DTYPE_NONE;
}

/* ---- Members ---- */

static member *add_member(batch_archive *a, const char *name, size_t length) {
    member *members = realloc(a->members, ((size_t)a->count + 1) * sizeof *members);
    if (!members)
        return NULL;
    a->members = members;
    members[a->count] = (member){.name = strndup(name, length)};
    return members[a->count].name ? &members[a->count++] : NULL;
}

/* Keeps the thread's message for when somebody asks for this member. */
static tenon_status keep_failure(member *m, tenon_status status) {
    m->status = status;
    m->why = strdup(tenon_last_error());
    return m->why ? TENON_OK : batch_no_memory();
}

/* Bytes of the elements; -1 when they overflow. */
static int64_t view_bytes(const tenon_view *view) {
    int64_t bytes = (int64_t)tenon_dtype_size(view->dtype);
    if (tenon_view_numel(view) < 0)
        return -1;
    for (int d = 0; d < view->rank; d++)
        if (__builtin_mul_overflow(bytes, view->shape[d], &bytes))
            return -1;
    return bytes;
}

static void set_strides(tenon_view *view) {
    int64_t stride = 1;
    for (int d = view->rank - 1; d >= 0; d--) {
        view->strides[d] = stride;
        stride *= view->shape[d] > 0 ? view->shape[d] : 1;
    }
}

/* Of an array in the .npy format whose file has `size` bytes. */
static tenon_status check_npy(const char *name, const tenon_view *view, size_t data_at,
                              int64_t size) {
    int64_t bytes = view_bytes(view);
    if (bytes != size - (int64_t)data_at)
        return tenon_fail(TENON_INVALID_FILE,
                          "%s: the shape needs %" PRId64 " bytes, the file has %" PRId64, name,
                          bytes, size - (int64_t)data_at);
    return TENON_OK;
}

/* ---- .npy ---- */

static tenon_status open_npy(batch_archive *a) {
    size_t at = 0, size = a->mapped.size < HEADER_MAX ? a->mapped.size : HEADER_MAX;
    member *m = add_member(a, "", 0);
    char *bytes = m ? batch_bytes_add(&a->row, size) : NULL;
    if (!bytes)
        return batch_no_memory();
    BATCH_TRY(batch_mapped_read(&a->mapped, 0, size, bytes));
    tenon_status status = tenon_npy_header(a->path, bytes, size, &m->view, &at);
    m->at = (int64_t)at;
    return status == TENON_OK ? check_npy(a->path, &m->view, at, (int64_t)a->mapped.size)
           : status == TENON_NOT_FOUND
               ? tenon_fail(TENON_INVALID_FILE, "%s: .npy header: the file ends inside", a->path)
               : status;
}

/* ---- safetensors (huggingface.co/docs/safetensors) ---- */

static bool whole_number(const cJSON *item, int64_t *out) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= 9e15) ||
        item->valuedouble != (double)(int64_t)item->valuedouble)
        return false;
    *out = (int64_t)item->valuedouble;
    return true;
}

static tenon_status read_tensor(batch_archive *a, const cJSON *item, int64_t data_at, member *m) {
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(item, "shape"), *size;
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    int64_t begin, end, room = (int64_t)a->mapped.size - data_at;
    const char *text = cJSON_IsString(dtype) ? dtype->valuestring : "";
    m->view.dtype = batch_safetensors_dtype(text);
    if (m->view.dtype == TENON_DTYPE_NONE)
        return tenon_fail(TENON_UNSUPPORTED, "%s: tensor '%s' has the dtype '%.20s'", a->path,
                          m->name, text);
    if (!cJSON_IsArray(shape))
        return tenon_fail(TENON_INVALID_FILE, "%s: tensor '%s' has no shape", a->path, m->name);
    cJSON_ArrayForEach(size, shape) {
        if (m->view.rank == TENON_MAX_RANK || !whole_number(size, &m->view.shape[m->view.rank]))
            return tenon_fail(TENON_INVALID_FILE,
                              "%s: tensor '%s' has a size that is no whole number, or more than %d "
                              "dimensions",
                              a->path, m->name, TENON_MAX_RANK);
        m->view.rank++;
    }
    if (cJSON_GetArraySize(offsets) != 2 || !whole_number(offsets->child, &begin) ||
        !whole_number(offsets->child->next, &end) || begin > end || end > room ||
        end - begin != view_bytes(&m->view))
        return tenon_fail(TENON_INVALID_FILE,
                          "%s: the place of tensor '%s' does not fit its shape, or the file",
                          a->path, m->name);
    set_strides(&m->view);
    m->at = data_at + begin;
    return TENON_OK;
}

static tenon_status read_tensors(batch_archive *a, const cJSON *header, int64_t data_at) {
    const cJSON *item;
    if (!cJSON_IsObject(header))
        return tenon_fail(TENON_INVALID_FILE, "%s: its header is no JSON object", a->path);
    cJSON_ArrayForEach(item, header) {
        if (strcmp(item->string, "__metadata__") == 0)
            continue;
        member *m = add_member(a, item->string, strlen(item->string));
        if (!m)
            return batch_no_memory();
        tenon_status status = read_tensor(a, item, data_at, m);
        if (status != TENON_OK)
            BATCH_TRY(keep_failure(m, status));
    }
    return TENON_OK;
}

static tenon_status open_safetensors(batch_archive *a) {
    unsigned char start[8] = {0};
    uint64_t length = 0, size = a->mapped.size;
    if (size >= 8)
        BATCH_TRY(batch_mapped_read(&a->mapped, 0, 8, start));
    for (int i = 7; i >= 0; i--)
        length = length << 8 | start[i];
    if (size < 8 || length > size - 8 || length > 100000000)
        return tenon_fail(TENON_INVALID_FILE,
                          "%s: neither a .npy, nor a .npz, nor a safetensors file", a->path);
    char *text = batch_bytes_add(&a->row, (size_t)length);
    if (!text)
        return TENON_OUT_OF_MEMORY;
    BATCH_TRY(batch_mapped_read(&a->mapped, 8, (size_t)length, text));
    errno = 0;
    cJSON *header = cJSON_ParseWithLength(text, (size_t)length);
    if (!header && errno == ENOMEM)
        return batch_no_memory();
    tenon_status status = read_tensors(a, header, 8 + (int64_t)length);
    cJSON_Delete(header);
    return status;
}

/* ---- .npz ---- */

static tenon_status zip_failed(const batch_archive *a, const member *m, const char *what) {
    return errno == ENOMEM ? batch_no_memory()
                           : tenon_fail(TENON_INVALID_FILE, "%s: '%s' cannot be read: %s", a->path,
                                        m->name, what);
}

/* The machine's faults are told from those of the file. */
static tenon_status zip_status(zip_error_t *error) {
    if (errno == ENOMEM) /* libzip may find a whole archive inconsistent then */
        return TENON_OUT_OF_MEMORY;
    switch (zip_error_code_zip(error)) {
    case ZIP_ER_MEMORY:
        return TENON_OUT_OF_MEMORY;
    case ZIP_ER_OPEN:
        return batch_fault_of_file(zip_error_code_system(error)) ? TENON_INVALID_FILE : TENON_IO;
    case ZIP_ER_READ:
    case ZIP_ER_SEEK:
        return TENON_IO;
    default:
        return TENON_INVALID_FILE;
    }
}

static tenon_status zip_error(const batch_archive *a, const member *m, zip_error_t *error) {
    return tenon_fail(zip_status(error), "%s: '%s' cannot be read: %s", a->path, m->name,
                      zip_error_strerror(error));
}

static void close_member(batch_archive *a) {
    if (a->open)
        zip_fclose(a->open);
    a->open = NULL;
}

/* Reads exactly `size` bytes on from the position. */
static tenon_status read_on(batch_archive *a, const member *m, char *to, int64_t size) {
    while (size > 0) {
        errno = 0;
        zip_int64_t n = zip_fread(a->open, to, (zip_uint64_t)size);
        if (n <= 0) {
            tenon_status status =
                n < 0 ? zip_error(a, m, zip_file_get_error(a->open)) : zip_failed(a, m, "it ends");
            close_member(a);
            return status;
        }
        to += n;
        size -= n;
        a->position += n;
    }
    return TENON_OK;
}

/* Goes to a place in the member: back from the start, as what is deflated knows one way only. */
static tenon_status go_to(batch_archive *a, int index, int64_t at) {
    const member *m = &a->members[index];
    char skipped[SKIP];
    if (!a->open || a->open_index != index || a->position > at) {
        close_member(a);
        errno = 0;
        a->open = zip_fopen_index(a->zip, (zip_uint64_t)m->zip_index, 0);
        if (!a->open)
            return zip_error(a, m, zip_get_error(a->zip));
        a->open_index = index;
        a->position = 0;
    }
    if (at - a->position > SKIP && zip_fseek(a->open, at, SEEK_SET) == 0)
        a->position = at; /* of stored members */
    while (a->position < at)
        BATCH_TRY(read_on(a, m, skipped, at - a->position < SKIP ? at - a->position : SKIP));
    return TENON_OK;
}

static tenon_status read_member(batch_archive *a, int index, int64_t size) {
    member *m = &a->members[index];
    size_t at = 12;
    batch_bytes header = {0};
    char *name = NULL;
    if (asprintf(&name, "%s: '%s'", a->path, m->name) < 0)
        return batch_no_memory();
    char *text = batch_bytes_add(&header, (size_t)(size < HEADER_MAX ? size : HEADER_MAX));
    tenon_status status = text ? TENON_NOT_FOUND : TENON_OUT_OF_MEMORY;
    while (status == TENON_NOT_FOUND) {
        size_t want = at;
        if ((int64_t)want > size || want > HEADER_MAX) {
            errno = 0;
            status = zip_failed(a, m, "not a .npy file");
            break;
        }
        status = go_to(a, index, 0);
        if (status == TENON_OK)
            status = read_on(a, m, text, (int64_t)want);
        if (status == TENON_OK)
            status = tenon_npy_header(name, text, want, &m->view, &at);
    }
    batch_bytes_free(&header);
    m->at = (int64_t)at;
    if (status == TENON_OK)
        status = check_npy(name, &m->view, at, size);
    if (status == TENON_OK && !tenon_view_is_contiguous(&m->view))
        status = tenon_fail(TENON_UNSUPPORTED,
                            "%s: it is in Fortran order, where a sample does not lie in one piece, "
                            "and members are read from front to back: save it through "
                            "numpy.ascontiguousarray, or as a .npy file",
                            name);
    free(name);
    return status;
}

static tenon_status read_members(batch_archive *a) {
    for (zip_int64_t i = 0; i < zip_get_num_entries(a->zip, 0); i++) {
        zip_stat_t info;
        if (zip_stat_index(a->zip, (zip_uint64_t)i, 0, &info) != 0 ||
            !(info.valid & ZIP_STAT_NAME) || !(info.valid & ZIP_STAT_SIZE))
            continue;
        size_t length = strlen(info.name);
        if (length < 4 || strcmp(info.name + length - 4, ".npy") != 0)
            continue;
        member *m = add_member(a, info.name, length - 4);
        if (!m)
            return batch_no_memory();
        m->zip_index = i;
        tenon_status status =
            read_member(a, a->count - 1, info.size < INT64_MAX ? (int64_t)info.size : INT64_MAX);
        if (status != TENON_OK)
            BATCH_TRY(keep_failure(m, status));
    }
    return TENON_OK;
}

static tenon_status open_npz(batch_archive *a) {
    int code = 0;
    errno = 0;
    a->zip = zip_open(a->path, ZIP_RDONLY, &code);
    if (!a->zip) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        zip_error_set(&error, code, errno);
        tenon_status status = tenon_fail(zip_status(&error), "%s: not a .npz file: %s", a->path,
                                         zip_error_strerror(&error));
        zip_error_fini(&error);
        return status;
    }
    return read_members(a);
}

/* ---- All ---- */

static tenon_status open_kind(batch_archive *a) {
    char start[6] = "";
    size_t size = a->mapped.size < sizeof start ? a->mapped.size : sizeof start;
    if (size > 0)
        BATCH_TRY(batch_mapped_read(&a->mapped, 0, size, start));
    if (size == 6 && memcmp(start, "\x93NUMPY", 6) == 0)
        return open_npy(a);
    if (size >= 4 && (memcmp(start, "PK\x03\x04", 4) == 0 || memcmp(start, "PK\x05\x06", 4) == 0)) {
        batch_unmap(&a->mapped);
        return open_npz(a);
    }
    return open_safetensors(a);
}

tenon_status batch_archive_open(const char *path, batch_archive **out) {
    batch_archive *a = calloc(1, sizeof *a);
    if (!a || !(a->path = strdup(path))) {
        free(a);
        return batch_no_memory();
    }
    tenon_status status = batch_map(path, &a->mapped);
    if (status == TENON_OK)
        status = open_kind(a);
    if (status != TENON_OK)
        batch_archive_close(&a);
    else
        *out = a;
    return status;
}

void batch_archive_close(batch_archive **archive) {
    batch_archive *a = *archive;
    if (!a)
        return;
    close_member(a);
    if (a->zip)
        zip_discard(a->zip);
    for (int i = 0; i < a->count; i++) {
        free(a->members[i].name);
        free(a->members[i].why);
    }
    free(a->members);
    batch_unmap(&a->mapped);
    batch_bytes_free(&a->row);
    free(a->path);
    free(a);
    *archive = NULL;
}

tenon_status batch_archive_find(batch_archive *a, const char *name, bool any, batch_array *out) {
    int found = any && a->count == 1 ? 0 : -1;
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->members[i].name, name) == 0)
            found = i;
    if (!any && a->count == 1 && !*a->members[0].name)
        return tenon_fail(TENON_NOT_FOUND,
                          "%s: it holds one array, which has no name, and the model has several "
                          "inputs: give '%s' and each other one its own, with --input NAME=PATH",
                          a->path, name);
    if (found < 0) {
        char names[256] = "";
        size_t used = 0;
        for (int i = 0; i < a->count && used < sizeof names; i++)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s %s", i ? "," : ":",
                                     a->members[i].name);
        return tenon_fail(TENON_NOT_FOUND, "%s: it has no array '%s'; it has %d%s", a->path, name,
                          a->count, names);
    }
    const member *m = &a->members[found];
    if (m->status != TENON_OK)
        return tenon_fail(m->status, "%s", m->why);
    *out = (batch_array){found, m->name, m->view};
    return TENON_OK;
}

/* The bytes of one row, one after the other. */
static tenon_status read_row(batch_archive *a, const batch_array *array, int64_t index,
                             const tenon_view *row, char *to) {
    const member *m = &a->members[array->index];
    int64_t size = (int64_t)tenon_dtype_size(m->view.dtype), bytes = tenon_view_numel(row) * size;
    int axis = m->view.rank - row->rank; /* 0: the file is one sample */
    if (a->zip) {
        BATCH_TRY(go_to(a, array->index, m->at + index * bytes));
        return read_on(a, m, to, bytes);
    }
    if (bytes == 0)
        return TENON_OK;
    if (tenon_view_is_contiguous(&m->view))
        return batch_mapped_read(&a->mapped, (size_t)(m->at + index * bytes), (size_t)bytes, to);
    tenon_view view = *row;
    view.dtype = m->view.dtype;
    memcpy(view.strides, m->view.strides + axis, (size_t)row->rank * sizeof *view.strides);
    int64_t at = m->at + (axis ? index * m->view.strides[0] * size : 0);
    return batch_mapped_gather(&a->mapped, (size_t)at, &view, to);
}

tenon_status batch_archive_read(batch_archive *a, const batch_array *array, int64_t index,
                                const tenon_view *row) {
    const member *m = &a->members[array->index];
    bool same = m->view.dtype == row->dtype && row->dtype != TENON_BOOL;
    size_t bytes = (size_t)tenon_view_numel(row) * tenon_dtype_size(m->view.dtype);
    a->row.size = 0;
    char *to = same ? row->data : batch_bytes_add(&a->row, bytes);
    if (!to && bytes > 0)
        return TENON_OUT_OF_MEMORY;
    BATCH_TRY(read_row(a, array, index, row, to));
    return same ? TENON_OK : batch_row_copy(row, m->view.dtype, to);
}

tenon_status batch_file_facts(const char *path, char *text, size_t capacity) {
    struct stat info;
    if (stat(path, &info) != 0)
        return tenon_fail(batch_fault_of_file(errno) ? TENON_INVALID_FILE : batch_io_status(errno),
                          "%s: %s", path, strerror(errno));
    snprintf(text, capacity, "%lld bytes of %lld.%09ld", (long long)info.st_size,
             (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    return TENON_OK;
}
