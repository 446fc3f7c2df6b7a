/* Files of arrays, one after the other: a single one, or those of a folder by name. One is open at
 * a time. */
#include "batch.h"
#include "file.h"
#include "formats.h"
#include "hash.h"
#include "source.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct part {
    char *name; /* of the file */
    char *why;  /* what is wrong with all its samples; NULL: nothing */
    int64_t first, count;
    bool single; /* the file is one sample, without the first axis */
} part;

typedef struct files {
    batch_source base;
    char *path;
    bool folder;
    const batch_field *fields;
    int field_count;
    part *parts;
    int part_count;
    batch_archive *archive; /* of part `open` */
    int open;
    batch_array *arrays; /* by field, in it */
} files;

static tenon_status file_path(const files *f, int index, char **out) {
    int length = f->folder ? asprintf(out, "%s/%s", f->path, f->parts[index].name)
                           : asprintf(out, "%s", f->path);
    return length < 0 ? batch_no_memory() : TENON_OK;
}

/* ---- Whether a file fits ---- */

static void shape_text(const tenon_view *view, int from, char *text, size_t capacity) {
    size_t used = (size_t)snprintf(text, capacity, "%s[", tenon_dtype_text(view->dtype));
    for (int d = from; d < view->rank && used < capacity; d++)
        used += (size_t)snprintf(text + used, capacity - used, d > from ? ", %" PRId64 : "%" PRId64,
                                 view->shape[d]);
    if (used < capacity)
        snprintf(text + used, capacity - used, "]");
}

static tenon_status check_array(const files *f, int index, const batch_field *field,
                                const tenon_view *view, part *p) {
    char found[160], wanted[160];
    int skip = view->rank == field->row.rank ? 0 : 1;
    bool fits =
        view->rank == field->row.rank + skip && batch_row_fits(view->dtype, field->row.dtype);
    for (int d = 0; fits && d < field->row.rank; d++)
        fits = view->shape[d + skip] == field->row.shape[d];
    int64_t count = skip ? (view->rank > 0 ? view->shape[0] : 1) : 1;
    if (index > 0 && (count != p->count || p->single != !skip))
        return tenon_fail(TENON_INPUT_MISMATCH,
                          "%s: %" PRId64 " samples of input '%s', %" PRId64 " of '%s'", p->name,
                          count, field->name, p->count, f->fields[0].name);
    p->count = count;
    p->single = !skip;
    if (fits)
        return TENON_OK;
    shape_text(view, skip, found, sizeof found);
    shape_text(&field->row, 0, wanted, sizeof wanted);
    return tenon_fail(TENON_INPUT_MISMATCH, "%s: a sample of input '%s' is %s, the model takes %s",
                      p->name, field->name, found, wanted);
}

/* Opens the file of a part and finds its arrays. Writes how many samples it has into `p`. */
static tenon_status open_part(files *f, int index, part *p) {
    char *path = NULL;
    batch_archive_close(&f->archive);
    f->open = -1;
    BATCH_TRY(file_path(f, index, &path));
    tenon_status status = batch_archive_open(path, &f->archive);
    free(path);
    BATCH_TRY(status);
    for (int k = 0; k < f->field_count; k++) {
        BATCH_TRY(
            batch_archive_find(f->archive, f->fields[k].name, f->field_count == 1, &f->arrays[k]));
        BATCH_TRY(check_array(f, k, &f->fields[k], &f->arrays[k].view, p));
    }
    f->open = index;
    return TENON_OK;
}

/* ---- Opening ---- */

static tenon_status add_part(files *f, const char *name) {
    part *parts = realloc(f->parts, ((size_t)f->part_count + 1) * sizeof *parts);
    if (!parts)
        return batch_no_memory();
    f->parts = parts;
    parts[f->part_count] = (part){.name = strdup(name)};
    return parts[f->part_count++].name ? TENON_OK : batch_no_memory();
}

bool batch_source_is_array(const char *name) {
    static const char *const endings[] = {".npy", ".npz", ".safetensors"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t end = strlen(endings[i]);
        if (*name != '.' && length > end && strcmp(name + length - end, endings[i]) == 0)
            return true;
    }
    return false;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const part *)a)->name, ((const part *)b)->name);
}

static tenon_status list_folder(files *f) {
    DIR *folder = opendir(f->path);
    if (!folder)
        return tenon_fail(batch_io_status(errno), "%s: cannot be read: %s", f->path,
                          strerror(errno));
    tenon_status status = TENON_OK;
    struct dirent *entry;
    while (status == TENON_OK && (errno = 0, entry = readdir(folder)) != NULL)
        if (batch_source_is_array(entry->d_name))
            status = add_part(f, entry->d_name);
    if (status == TENON_OK && errno != 0)
        status =
            tenon_fail(batch_io_status(errno), "%s: cannot be read: %s", f->path, strerror(errno));
    closedir(folder);
    if (status == TENON_OK && f->part_count == 0)
        status = tenon_fail(TENON_NOT_FOUND,
                            "%s: there is no .npy, .npz or .safetensors file in it", f->path);
    if (status == TENON_OK)
        qsort(f->parts, (size_t)f->part_count, sizeof *f->parts, by_name);
    return status;
}

/* Whether something is wrong with one file of a folder, and others can be used. */
static bool is_of_file(const files *f, tenon_status status) {
    return f->folder && status != TENON_OUT_OF_MEMORY && status != TENON_IO;
}

/* A file of a folder that cannot be used is a bad sample, or as many as it has; of a single file it
 * is an error. */
static tenon_status survey(files *f) {
    for (int i = 0; i < f->part_count; i++) {
        part *p = &f->parts[i];
        p->count = 1;
        tenon_status status = open_part(f, i, p);
        if (status != TENON_OK && !is_of_file(f, status))
            return status;
        if (status != TENON_OK) {
            p->why = strdup(tenon_last_error());
            if (!p->why)
                return batch_no_memory();
        }
        p->first = f->base.count;
        if (__builtin_add_overflow(f->base.count, p->count, &f->base.count))
            return tenon_fail(TENON_INVALID_FILE, "%s: too many samples", f->path);
    }
    return TENON_OK;
}

/* ---- Samples ---- */

/* The last that starts there or before: empty ones lie in front of it. */
static const part *part_of(const files *f, int64_t index) {
    int low = 0, high = f->part_count - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (f->parts[middle].first <= index)
            low = middle;
        else
            high = middle - 1;
    }
    return &f->parts[low];
}

/* A file that cannot be opened any more may be gone with its folder. */
static batch_got fail(const files *f, tenon_status status, char *why) {
    snprintf(why, BATCH_TEXT, "%s", tenon_last_error());
    return is_of_file(f, status) && access(f->path, F_OK) == 0 ? BATCH_BAD : BATCH_FAILED;
}

/* The file may have changed since it was surveyed. */
static tenon_status reopen(files *f, const part *p) {
    part now = {.name = p->name, .count = 1};
    BATCH_TRY(open_part(f, (int)(p - f->parts), &now));
    if (now.count == p->count && now.single == p->single)
        return TENON_OK;
    f->open = -1;
    return tenon_fail(TENON_INVALID_FILE, "%s: it changed while the job ran", p->name);
}

static batch_got fetch(batch_source *base, int64_t index, const tenon_view *rows, char *why) {
    files *f = (files *)base;
    const part *p = part_of(f, index);
    if (p->why) {
        snprintf(why, BATCH_TEXT, "%s", p->why);
        return BATCH_BAD;
    }
    tenon_status status = f->open == (int)(p - f->parts) ? TENON_OK : reopen(f, p);
    for (int k = 0; k < f->field_count && status == TENON_OK; k++)
        status = batch_archive_read(f->archive, &f->arrays[k], index - p->first, &rows[k]);
    return status == TENON_OK ? BATCH_GOT : fail(f, status, why);
}

static void name(const batch_source *base, int64_t index, char *text) {
    const files *f = (const files *)base;
    const part *p = part_of(f, index);
    if (p->single || (p->why && p->count == 1))
        snprintf(text, BATCH_TEXT, "%s", p->name);
    else
        snprintf(text, BATCH_TEXT, "%.480s[%" PRId64 "]", p->name, index - p->first);
}

static bool reads(const batch_source *base, const struct stat *file) {
    const files *f = (const files *)base;
    bool found = false;
    for (int i = 0; i < f->part_count && !found; i++) {
        struct stat info;
        char *path = NULL;
        found = file_path(f, i, &path) == TENON_OK && stat(path, &info) == 0 &&
                batch_stat_is_same(&info, file);
        free(path);
    }
    return found;
}

/* A few files are told one by one, many as a whole. One of a folder that is not there counts,
 * too. */
static tenon_status identify(const batch_source *base, cJSON *facts) {
    enum { FEW = 16 };
    const files *f = (const files *)base;
    uint64_t hash = BATCH_HASH_START;
    char text[BATCH_TEXT];
    for (int i = 0; i < f->part_count; i++) {
        char *path = NULL;
        BATCH_TRY(file_path(f, i, &path));
        tenon_status status = batch_file_facts(path, text, sizeof text);
        free(path);
        if (status != TENON_OK && !is_of_file(f, status))
            return status;
        if (status != TENON_OK)
            snprintf(text, sizeof text, "not there");
        hash = batch_hash(hash, f->parts[i].name, strlen(f->parts[i].name) + 1);
        hash = batch_hash(hash, text, strlen(text));
        if (f->part_count <= FEW && !cJSON_AddStringToObject(facts, f->parts[i].name, text))
            return batch_no_memory();
    }
    if (f->part_count > FEW) {
        snprintf(text, sizeof text, "%d, hash of their names, sizes and times %016" PRIx64,
                 f->part_count, hash);
        if (!cJSON_AddStringToObject(facts, "files", text))
            return batch_no_memory();
    }
    return TENON_OK;
}

static void destroy(batch_source *base) {
    files *f = (files *)base;
    batch_archive_close(&f->archive);
    for (int i = 0; i < f->part_count; i++) {
        free(f->parts[i].name);
        free(f->parts[i].why);
    }
    free(f->parts);
    free(f->arrays);
    free(f->path);
    free(f);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static tenon_status start(files *f, const char *path) {
    struct stat info;
    if (stat(path, &info) != 0)
        return tenon_fail(batch_io_status(errno), "%s: %s", path, strerror(errno));
    f->folder = S_ISDIR(info.st_mode);
    BATCH_TRY(f->folder ? list_folder(f) : add_part(f, base_name(path)));
    return survey(f);
}

tenon_status batch_source_files(const char *path, const batch_field *fields, int count,
                                batch_source **out) {
    files *f = calloc(1, sizeof *f);
    if (!f)
        return batch_no_memory();
    *f = (files){.base = {.loaders = 1,
                          .fetch = fetch,
                          .name = name,
                          .identify = identify,
                          .reads = reads,
                          .destroy = destroy},
                 .path = strdup(path),
                 .fields = fields,
                 .field_count = count,
                 .open = -1,
                 .arrays = calloc((size_t)count + 1, sizeof *f->arrays)};
    tenon_status status = f->path && f->arrays ? start(f, path) : batch_no_memory();
    if (status != TENON_OK)
        destroy(&f->base);
    else
        *out = &f->base;
    return status;
}

static bool peek_file(const char *path, const char *name, tenon_view *out) {
    batch_archive *archive = NULL;
    batch_array array;
    bool found = batch_archive_open(path, &archive) == TENON_OK &&
                 batch_archive_find(archive, name, true, &array) == TENON_OK;
    if (found)
        *out = array.view;
    batch_archive_close(&archive);
    return found;
}

void batch_source_peek(const char *path, const char *name, tenon_view *out) {
    struct stat info;
    files f = {.path = (char *)(uintptr_t)path, .folder = true};
    *out = (tenon_view){0};
    if (stat(path, &info) != 0)
        return;
    if (!S_ISDIR(info.st_mode)) {
        peek_file(path, name, out);
        return;
    }
    bool found = list_folder(&f) != TENON_OK;
    for (int i = 0; i < f.part_count; i++) {
        char *file = NULL;
        if (!found && file_path(&f, i, &file) == TENON_OK)
            found = peek_file(file, name, out);
        free(file);
        free(f.parts[i].name);
    }
    free(f.parts);
}
