/* libzip reads the directory and inflates. Where the bytes of a stored entry lie it does not tell,
 * so that a second, small reading of the directory finds them (PKWARE's APPNOTE.TXT, sections 4.3.7
 * to 4.3.16); where the two disagree, entries are read instead of mapped. */
#include "load/pt2_zip.h"
#include "core/fail.h"
#include "core/io_status.h"
#include "core/text.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { CHECKED_BYTES = 1 << 20 }; /* read at a time, to compare a checksum */

/* A deflated byte makes at most 1032 bytes (zlib's technical details). */
#define INFLATE_MAX 1032

/* ---- Where stored bytes lie ---- */

static uint64_t le(const unsigned char *p, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | p[i];
    return value;
}

/* The end record with its comment, and the 64-bit locator before it. */
#define TAIL_MAX (20 + 22 + 65535)
/* Of records that are looked at; those of more are read by libzip alone. */
#define DIRECTORY_MAX (64 << 20)

typedef struct directory {
    const tn_file *file;
    unsigned char *records;
    uint64_t start, size, count; /* where the records lie, and how many bytes and records */
} directory;

/* Finds the end record, and in archives of more than 4 GB its 64-bit twin. `*found` is false where
 * they are not as they should be. */
static tenon_status parse_end(directory *d, const unsigned char *tail, uint64_t length,
                              bool *found) {
    uint64_t file_size = d->file->size, base = file_size - length, at = length - 22;
    while (at > 0 && le(tail + at, 4) != 0x06054b50)
        at--;
    uint64_t end = base + at;
    *found = le(tail + at, 4) == 0x06054b50;
    d->count = le(tail + at + 10, 2);
    d->start = le(tail + at + 16, 4);
    if (*found && at >= 20 && le(tail + at - 20, 4) == 0x07064b50) {
        unsigned char twin[56] = {0};
        end = le(tail + at - 12, 8);
        if (file_size >= sizeof twin && end <= file_size - sizeof twin)
            TN_TRY(tn_file_read(d->file, end, twin, sizeof twin));
        *found = le(twin, 4) == 0x06064b50;
        d->count = le(twin + 32, 8);
        d->start = le(twin + 48, 8);
    }
    d->size = d->start <= end ? end - d->start : 0;
    *found = *found && d->size > 0 && d->size <= DIRECTORY_MAX;
    return TENON_OK;
}

/* Reads the records; `records` stays NULL where they cannot be found. */
static tenon_status read_directory(directory *d) {
    uint64_t length = d->file->size < TAIL_MAX ? d->file->size : TAIL_MAX;
    if (length < 22)
        return TENON_OK;
    unsigned char *tail = malloc(length);
    if (!tail)
        return tn_no_memory();
    tenon_status status = tn_file_read(d->file, d->file->size - length, tail, length);
    bool found = false;
    if (status == TENON_OK)
        status = parse_end(d, tail, length, &found);
    free(tail);
    if (status != TENON_OK || !found)
        return status;
    unsigned char *records = malloc(d->size);
    if (!records)
        return tn_no_memory();
    status = tn_file_read(d->file, d->start, records, d->size);
    if (status == TENON_OK)
        d->records = records;
    else
        free(records);
    return status;
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

/* Sets `offset` of the entry that the record at `*at` describes, when all agree, and moves `*at` to
 * the next record, or to UINT64_MAX. */
static tenon_status locate(const directory *d, uint64_t *at, tn_pt2_entry *entry,
                           const char *full_name) {
    unsigned char header[30];
    const unsigned char *record = d->records + *at;
    bool whole = d->size >= 46 && *at <= d->size - 46 && le(record, 4) == 0x02014b50;
    uint64_t room = whole ? d->size - 46 - *at : 0, before = *at, file_size = d->file->size;
    *at = UINT64_MAX;
    if (!whole)
        return TENON_OK;
    uint64_t name = le(record + 28, 2), extra = le(record + 30, 2), comment = le(record + 32, 2);
    uint64_t packed = le(record + 20, 4), size = le(record + 24, 4), local = le(record + 42, 4);
    uint64_t method = le(record + 10, 2), flags = le(record + 8, 2);
    if (name + extra + comment > room)
        return TENON_OK;
    widen(record + 46 + name, extra, &size, &packed, &local);
    *at = before + 46 + name + extra + comment;
    if (!full_name || strlen(full_name) != name || memcmp(record + 46, full_name, name) != 0 ||
        method != 0 || (flags & 1) || size != packed || size != (uint64_t)entry->size ||
        file_size < sizeof header || local > file_size - sizeof header)
        return TENON_OK;
    TN_TRY(tn_file_read(d->file, local, header, sizeof header));
    uint64_t data = local + sizeof header + le(header + 26, 2) + le(header + 28, 2);
    if (le(header, 4) == 0x04034b50 && data <= file_size && size <= file_size - data)
        entry->offset = (int64_t)data;
    return TENON_OK;
}

static tenon_status locate_all(tn_pt2_zip *zip) {
    directory d = {.file = &zip->file};
    TN_TRY(read_directory(&d));
    uint64_t at = d.records && d.count == (uint64_t)zip->count ? 0 : UINT64_MAX;
    tenon_status status = TENON_OK;
    for (int64_t i = 0; i < zip->count && at != UINT64_MAX && status == TENON_OK; i++)
        status =
            locate(&d, &at, &zip->list[i], zip_get_name(zip->zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW));
    free(d.records);
    return status;
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
                                      .crc = info.crc,
                                      .offset = -1};
        if (!zip->list[i].name)
            return tn_no_memory();
    }
    return name_entries(zip);
}

static tenon_status open_failed(const tn_pt2_zip *zip, int error) {
    /* libzip may find a whole archive inconsistent when memory is out. */
    bool no_memory = error == ZIP_ER_MEMORY || errno == ENOMEM;
    zip_error_t e;
    zip_error_init_with_code(&e, error);
    const char *text = zip_error_strerror(&e);
    tenon_status status =
        no_memory ? tn_no_memory()
        : error == ZIP_ER_OPEN || error == ZIP_ER_READ
            ? tn_fail(TENON_IO, "%s: cannot be read: %s", zip->path, text)
            : tn_fail(TENON_INVALID_FILE, "%s: not a whole zip archive: %s", zip->path, text);
    zip_error_fini(&e);
    return status;
}

/* Entries that share bytes would make a small file large: a few bytes, which inflate to a thousand
 * times as many, once for each record that names them. */
static tenon_status check_room(const tn_pt2_zip *zip) {
    uint64_t left = zip->file.size;
    for (int64_t i = 0; i < zip->count; i++) {
        if ((uint64_t)zip->list[i].packed_size > left)
            return tn_fail(TENON_INVALID_FILE,
                           "%s: entry '%s' claims %lld bytes, more than the file has left: its "
                           "entries overlap, or it was cut off",
                           zip->path, zip->list[i].name, (long long)zip->list[i].packed_size);
        left -= (uint64_t)zip->list[i].packed_size;
    }
    return TENON_OK;
}

static tenon_status open_zip(tn_pt2_zip *zip, const tenon_load_options *options) {
    int error = 0;
    TN_TRY(tn_file_open(&zip->file, zip->path));
    int fd = dup(zip->file.fd); /* libzip closes it */
    if (fd < 0)
        return tn_fail(tn_io_status(errno), "%s: %s", zip->path, strerror(errno));
    errno = 0;
    zip->zip = zip_fdopen(fd, 0, &error);
    if (!zip->zip) {
        tenon_status status = open_failed(zip, error);
        close(fd);
        return status;
    }
    TN_TRY(list_entries(zip));
    TN_TRY(locate_all(zip));
    TN_TRY(check_room(zip));
    zip->room = tn_unpacked_room(options->max_unpacked_bytes, zip->file.size);
    zip->check = options->check_weights;
    return tn_file_map(&zip->file, options->copy_weights);
}

tenon_status tn_pt2_zip_open(tn_pt2_zip *zip, const char *path, const tenon_load_options *options) {
    *zip = (tn_pt2_zip){.path = path};
    tenon_status status = open_zip(zip, options);
    if (status != TENON_OK)
        tn_pt2_zip_close(zip);
    return status;
}

void tn_pt2_zip_close(tn_pt2_zip *zip) {
    for (int64_t i = 0; zip->list && i < zip->count; i++)
        tn_storage_drop(&zip->list[i].storage);
    tn_file_close(&zip->file);
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
static tenon_status check_sizes(tn_pt2_zip *zip, const tn_pt2_entry *entry) {
    int64_t most;
    if (!tn_mul(entry->packed_size, INFLATE_MAX, &most) || !tn_add(most, 64, &most))
        most = INT64_MAX;
    if (entry->size > most)
        return tn_fail(TENON_INVALID_FILE, "%s: entry '%s' claims %lld bytes from %lld packed ones",
                       zip->path, entry->name, (long long)entry->size,
                       (long long)entry->packed_size);
    if (entry->size <= entry->packed_size)
        return TENON_OK;
    if (entry->size > zip->room)
        return tn_fail(TENON_LIMIT,
                       "%s: entry '%s' unpacks to %lld bytes, more than max_unpacked_bytes leaves, "
                       "%lld" TN_UNPACKED_HOW,
                       zip->path, entry->name, (long long)entry->size, (long long)zip->room);
    zip->room -= entry->size;
    return TENON_OK;
}

static tenon_status read_entry(tn_pt2_zip *zip, const tn_pt2_entry *entry, char *data) {
    errno = 0;
    zip_file_t *file = zip_fopen_index(zip->zip, (zip_uint64_t)entry->index, 0);
    if (!file)
        return errno == ENOMEM ? tn_no_memory()
                               : tn_fail(TENON_INVALID_FILE, "%s: entry '%s' cannot be read: %s",
                                         zip->path, entry->name, zip_strerror(zip->zip));
    int64_t done = 0;
    bool ok = true;
    while (ok && done < entry->size) {
        zip_int64_t n = zip_fread(file, data + done, (zip_uint64_t)(entry->size - done));
        ok = n > 0;
        done += n > 0 ? n : 0;
    }
    char extra;
    ok = ok && zip_fread(file, &extra, 1) == 0; /* the end is where the checksum is compared */
    bool no_memory = !ok && errno == ENOMEM;
    zip_fclose(file);
    if (no_memory)
        return tn_no_memory();
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

/* Read, not mapped: a file that is cut off meanwhile is an error, and no signal. */
static tenon_status check_stored(const tn_pt2_zip *zip, const tn_pt2_entry *entry) {
    uint32_t crc = (uint32_t)crc32(0, NULL, 0);
    unsigned char *part = malloc(CHECKED_BYTES);
    if (!part)
        return tn_no_memory();
    tenon_status status = TENON_OK;
    for (int64_t done = 0; done < entry->size && status == TENON_OK;) {
        int64_t left = entry->size - done;
        size_t size = (size_t)(left < CHECKED_BYTES ? left : CHECKED_BYTES);
        status = tn_file_read(&zip->file, (size_t)(entry->offset + done), part, size);
        if (status == TENON_OK)
            crc = (uint32_t)crc32(crc, part, (uInt)size);
        done += (int64_t)size;
    }
    free(part);
    if (status != TENON_OK || crc == entry->crc)
        return status;
    return tn_fail(TENON_INVALID_FILE,
                   "%s: entry '%s' is damaged: its checksum is %08x, the archive says %08x",
                   zip->path, entry->name, crc, entry->crc);
}

tenon_status tn_pt2_zip_bytes(tn_pt2_zip *zip, tn_pt2_entry *entry, tn_storage **storage,
                              char **data, bool own) {
    if (!entry->storage && entry->offset >= 0 && entry->offset % 8 == 0 && !own) {
        if (zip->check)
            TN_TRY(check_stored(zip, entry));
        entry->storage = tn_storage_share(zip->file.bytes);
    }
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
    *data = (char *)entry->storage->data + (entry->storage == zip->file.bytes ? entry->offset : 0);
    return TENON_OK;
}
