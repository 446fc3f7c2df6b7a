/* libzip reads the directory and inflates. Where the bytes of a stored entry lie it does not tell,
 * so that a second, small reading of the directory finds them (PKWARE's APPNOTE.TXT, sections 4.3.7
 * to 4.3.16); where the two disagree, entries are read instead of mapped. */
#include "load/pt2_zip.h"
#include "core/fail.h"
#include "load/map_file.h"
#include <stdlib.h>
#include <string.h>

/* A deflated byte makes at most 1032 bytes (zlib's technical details). */
#define INFLATE_MAX 1032

/* ---- Where stored bytes lie ---- */

static uint64_t le(const unsigned char *p, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | p[i];
    return value;
}

typedef struct directory {
    const unsigned char *file;
    uint64_t size, start, count;
} directory;

/* Finds the end record, and in archives of more than 4 GB its 64-bit twin. */
static bool find_directory(directory *d) {
    if (d->size < 22)
        return false;
    uint64_t at = d->size - 22, lowest = d->size > 22 + 65535 ? d->size - 22 - 65535 : 0;
    while (le(d->file + at, 4) != 0x06054b50) {
        if (at == lowest)
            return false;
        at--;
    }
    d->count = le(d->file + at + 10, 2);
    d->start = le(d->file + at + 16, 4);
    if (at >= 20 && le(d->file + at - 20, 4) == 0x07064b50) {
        uint64_t end64 = le(d->file + at - 12, 8);
        if (d->size < 56 || end64 > d->size - 56 || le(d->file + end64, 4) != 0x06064b50)
            return false;
        d->count = le(d->file + end64 + 32, 8);
        d->start = le(d->file + end64 + 48, 8);
    }
    return true;
}

/* The 64-bit extra field holds, in order, those of these numbers that are all ones in the record.
 */
static void widen(const unsigned char *extra, uint64_t length, uint64_t *size, uint64_t *packed,
                  uint64_t *local) {
    while (length >= 4) {
        uint64_t id = le(extra, 2), bytes = le(extra + 2, 2);
        extra += 4;
        length -= 4;
        if (bytes > length)
            return;
        if (id == 1) {
            uint64_t *const fields[] = {size, packed, local};
            for (int i = 0; i < TN_COUNT(fields); i++)
                if (*fields[i] == 0xffffffffu && bytes >= 8) {
                    *fields[i] = le(extra, 8);
                    extra += 8;
                    bytes -= 8;
                }
            return;
        }
        extra += bytes;
        length -= bytes;
    }
}

/* Sets `offset` of the entry that the record at `at` describes, when all agree. Returns the next
 * record, or 0. */
static uint64_t locate(const directory *d, uint64_t at, tn_pt2_entry *entry,
                       const char *full_name) {
    if (d->size < 46 || at > d->size - 46 || le(d->file + at, 4) != 0x02014b50)
        return 0;
    const unsigned char *record = d->file + at;
    uint64_t name = le(record + 28, 2), extra = le(record + 30, 2), comment = le(record + 32, 2);
    uint64_t packed = le(record + 20, 4), size = le(record + 24, 4), local = le(record + 42, 4);
    uint64_t method = le(record + 10, 2), flags = le(record + 8, 2);
    if (name + extra + comment > d->size - 46 - at)
        return 0;
    widen(record + 46 + name, extra, &size, &packed, &local);
    uint64_t next = at + 46 + name + extra + comment;
    if (!full_name || strlen(full_name) != name || memcmp(record + 46, full_name, name) != 0)
        return next;
    if (method != 0 || (flags & 1) || size != packed || size != (uint64_t)entry->size)
        return next;
    if (d->size < 30 || local > d->size - 30 || le(d->file + local, 4) != 0x04034b50)
        return next;
    uint64_t data = local + 30 + le(d->file + local + 26, 2) + le(d->file + local + 28, 2);
    if (data <= d->size && size <= d->size - data)
        entry->offset = (int64_t)data;
    return next;
}

static tenon_status locate_all(tn_pt2_zip *zip) {
    TN_TRY(tn_map_file(zip->path, &zip->file));
    directory d = {zip->file->data, zip->file->size, 0, 0};
    if (!find_directory(&d) || d.count != (uint64_t)zip->count)
        return TENON_OK;
    uint64_t at = d.start;
    for (int64_t i = 0; i < zip->count; i++) {
        at = locate(&d, at, &zip->list[i], zip_get_name(zip->zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW));
        if (at == 0)
            break;
    }
    return TENON_OK;
}

/* ---- The directory ---- */

/* Names start below the folder that "archive_format" stands in. */
static size_t top_length_of(const tn_pt2_zip *zip, const char **top) {
    size_t best = SIZE_MAX;
    for (int64_t i = 0; i < zip->count; i++) {
        const char *name = zip->list[i].name, *slash = strrchr(name, '/');
        const char *base = slash ? slash + 1 : name;
        if (strcmp(base, "archive_format") == 0 && (size_t)(base - name) < best) {
            best = (size_t)(base - name);
            *top = name;
        }
    }
    if (best == SIZE_MAX && zip->count > 0) { /* an older layout: the first entry's first folder */
        *top = zip->list[0].name;
        best = strcspn(*top, "/");
        best = (*top)[best] ? best + 1 : 0;
    }
    return best == SIZE_MAX ? 0 : best;
}

static tenon_status name_entries(tn_pt2_zip *zip) {
    const char *top = "";
    size_t top_length = top_length_of(zip, &top);
    for (int64_t i = 0; i < zip->count; i++) {
        tn_pt2_entry *entry = &zip->list[i];
        if (strncmp(entry->name, top, top_length) == 0)
            entry->name += top_length;
        if (tn_map_get(&zip->entries, entry->name))
            return tn_fail(TENON_INVALID_FILE, "%s: two entries are named '%s'", zip->path,
                           entry->name);
        TN_TRY(tn_map_put(&zip->entries, entry->name, entry));
    }
    return TENON_OK;
}

static tenon_status list_entries(tn_pt2_zip *zip) {
    zip->count = zip_get_num_entries(zip->zip, 0);
    if (zip->count < 0)
        zip->count = 0;
    zip->list = tn_arena_array(&zip->arena, (size_t)zip->count + 1, sizeof *zip->list);
    if (!zip->list)
        return tn_no_memory();
    for (int64_t i = 0; i < zip->count; i++) {
        zip_stat_t info;
        if (zip_stat_index(zip->zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW, &info) != 0 || !info.name ||
            info.size > INT64_MAX / 2 || info.comp_size > INT64_MAX / 2)
            return tn_fail(TENON_INVALID_FILE, "%s: entry %lld of the zip directory is damaged",
                           zip->path, (long long)i);
        zip->list[i] = (tn_pt2_entry){.name = tn_arena_strdup(&zip->arena, info.name),
                                      .index = i,
                                      .size = (int64_t)info.size,
                                      .packed_size = (int64_t)info.comp_size,
                                      .offset = -1};
        if (!zip->list[i].name)
            return tn_no_memory();
    }
    return name_entries(zip);
}

static tenon_status open_zip(tn_pt2_zip *zip) {
    int error = 0;
    zip->zip = zip_open(zip->path, ZIP_RDONLY, &error);
    if (!zip->zip) {
        zip_error_t e;
        zip_error_init_with_code(&e, error);
        bool io = error == ZIP_ER_OPEN || error == ZIP_ER_NOENT || error == ZIP_ER_READ;
        const char *text = zip_error_strerror(&e);
        tenon_status status =
            error == ZIP_ER_MEMORY ? tn_no_memory()
            : io                   ? tn_fail(TENON_IO, "%s: cannot be read: %s", zip->path, text)
                 : tn_fail(TENON_INVALID_FILE, "%s: not a whole zip archive: %s", zip->path, text);
        zip_error_fini(&e);
        return status;
    }
    TN_TRY(list_entries(zip));
    return locate_all(zip);
}

tenon_status tn_pt2_zip_open(tn_pt2_zip *zip, const char *path) {
    *zip = (tn_pt2_zip){.path = path};
    tenon_status status = open_zip(zip);
    if (status != TENON_OK)
        tn_pt2_zip_close(zip);
    return status;
}

void tn_pt2_zip_close(tn_pt2_zip *zip) {
    for (int64_t i = 0; zip->list && i < zip->count; i++)
        tn_storage_drop(&zip->list[i].storage);
    tn_storage_drop(&zip->file);
    if (zip->zip)
        zip_discard(zip->zip);
    tn_map_free(&zip->entries);
    tn_arena_free(&zip->arena);
    *zip = (tn_pt2_zip){0};
}

tn_pt2_entry *tn_pt2_zip_find(const tn_pt2_zip *zip, const char *name) {
    return tn_map_get(&zip->entries, name);
}

/* ---- Contents ---- */

/* The directory's sizes must be ones that the file's bytes can make. */
static tenon_status check_sizes(const tn_pt2_zip *zip, const tn_pt2_entry *entry) {
    int64_t most;
    if (entry->packed_size > (int64_t)zip->file->size)
        return tn_fail(TENON_INVALID_FILE,
                       "%s: entry '%s' claims %lld bytes, more than the file has", zip->path,
                       entry->name, (long long)entry->packed_size);
    if (!tn_mul(entry->packed_size, INFLATE_MAX, &most) || !tn_add(most, 64, &most))
        most = INT64_MAX;
    if (entry->size > most)
        return tn_fail(TENON_INVALID_FILE, "%s: entry '%s' claims %lld bytes from %lld packed ones",
                       zip->path, entry->name, (long long)entry->size,
                       (long long)entry->packed_size);
    return TENON_OK;
}

static tenon_status read_entry(tn_pt2_zip *zip, const tn_pt2_entry *entry, char *data) {
    zip_file_t *file = zip_fopen_index(zip->zip, (zip_uint64_t)entry->index, 0);
    if (!file)
        return tn_fail(TENON_INVALID_FILE, "%s: entry '%s' cannot be read: %s", zip->path,
                       entry->name, zip_strerror(zip->zip));
    int64_t done = 0;
    bool ok = true;
    while (ok && done < entry->size) {
        zip_int64_t n = zip_fread(file, data + done, (zip_uint64_t)(entry->size - done));
        ok = n > 0;
        done += n > 0 ? n : 0;
    }
    char extra;
    ok = ok && zip_fread(file, &extra, 1) == 0; /* the end is where the checksum is compared */
    zip_fclose(file);
    if (!ok)
        return tn_fail(TENON_INVALID_FILE,
                       "%s: entry '%s' is damaged or cut off after %lld of %lld bytes", zip->path,
                       entry->name, (long long)done, (long long)entry->size);
    return TENON_OK;
}

tenon_status tn_pt2_zip_text(tn_pt2_zip *zip, const char *name, int64_t limit, char **out,
                             size_t *length) {
    tn_pt2_entry *entry = tn_pt2_zip_find(zip, name);
    if (!entry)
        return tn_fail(TENON_INVALID_FILE, "%s: entry '%s' is missing", zip->path, name);
    TN_TRY(check_sizes(zip, entry));
    if (entry->size > limit)
        return tn_fail(TENON_INVALID_FILE, "%s: entry '%s' has %lld bytes, more than %lld",
                       zip->path, name, (long long)entry->size, (long long)limit);
    char *text = malloc((size_t)entry->size + 1);
    if (!text)
        return tn_no_memory();
    tenon_status status = read_entry(zip, entry, text);
    if (status != TENON_OK) {
        free(text);
        return status;
    }
    text[entry->size] = '\0';
    *out = text;
    *length = (size_t)entry->size;
    return TENON_OK;
}

tenon_status tn_pt2_zip_bytes(tn_pt2_zip *zip, tn_pt2_entry *entry, tn_storage **storage,
                              char **data) {
    if (!entry->storage && entry->offset >= 0 && entry->offset % 8 == 0)
        entry->storage = tn_storage_share(zip->file);
    if (!entry->storage) {
        tn_storage *copy = NULL;
        TN_TRY(check_sizes(zip, entry));
        TN_TRY(tn_storage_alloc((size_t)entry->size, &copy));
        tenon_status status = read_entry(zip, entry, copy->data);
        if (status != TENON_OK) {
            tn_storage_drop(&copy);
            return status;
        }
        entry->storage = copy;
    }
    *storage = entry->storage;
    *data = (char *)entry->storage->data + (entry->storage == zip->file ? entry->offset : 0);
    return TENON_OK;
}
