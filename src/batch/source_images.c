/* Image files, each of them a sample. */
#include "batch.h"
#include "file.h"
#include "hash.h"
#include "identity.h"
#include "images.h"
#include "mapped.h"
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

typedef struct images {
    batch_source base;
    char *folder; /* what the names start from, with its slash, or "" */
    char **names; /* base.count of them */
    size_t capacity;
    image_transform transform;
} images;

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), size = strlen(end);
    return length > size && strcasecmp(text + length - size, end) == 0;
}

static bool is_image(const char *name) {
    return ends_with(name, ".jpg") || ends_with(name, ".jpeg") || ends_with(name, ".png");
}

/* ---- Which files ---- */

static tenon_status add_name(images *s, const char *name, size_t length) {
    if ((size_t)s->base.count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 64;
        char **names = realloc(s->names, capacity * sizeof *names);
        if (!names)
            return batch_no_memory();
        s->names = names;
        s->capacity = capacity;
    }
    char *copy = strndup(name, length);
    if (!copy)
        return batch_no_memory();
    s->names[s->base.count++] = copy;
    return TENON_OK;
}

/* The next image below a folder, or folder in it that cannot be read, which is a bad sample; NULL
 * when there is none any more, or with a status. Links are followed, but not in circles. */
static FTSENT *next_image(FTS *walk, tenon_status *status) {
    FTSENT *entry;
    while (errno = 0, entry = fts_read(walk)) {
        bool hidden = entry->fts_level > 0 && entry->fts_name[0] == '.';
        switch (entry->fts_info) {
        case FTS_D:
            if (hidden)
                fts_set(walk, entry, FTS_SKIP);
            break;
        case FTS_DNR:
            if (entry->fts_level > 0)
                return entry;
            /* fallthrough */
        case FTS_ERR:
            *status = tenon_fail(batch_io_status(entry->fts_errno), "%s: cannot be read: %s",
                                 entry->fts_path, strerror(entry->fts_errno));
            return NULL;
        case FTS_F:
        case FTS_NS:
        case FTS_SLNONE:
            if (!hidden && is_image(entry->fts_name))
                return entry;
            break;
        default:
            break;
        }
    }
    if (errno != 0)
        *status =
            tenon_fail(batch_io_status(errno), "a folder cannot be read: %s", strerror(errno));
    return NULL;
}

static FTS *walk_folder(const char *path) {
    char *roots[] = {(char *)(uintptr_t)path, NULL};
    return fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, NULL);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static tenon_status list_folder(images *s, const char *path) {
    FTS *walk = walk_folder(path);
    tenon_status status = TENON_OK;
    FTSENT *entry;
    if (!walk)
        return tenon_fail(batch_io_status(errno), "%s: cannot be read: %s", path, strerror(errno));
    while (status == TENON_OK && (entry = next_image(walk, &status))) {
        const char *name = entry->fts_path + strlen(path);
        name += strspn(name, "/");
        status = add_name(s, name, strlen(name));
    }
    fts_close(walk);
    if (status == TENON_OK && s->base.count > 0)
        qsort(s->names, (size_t)s->base.count, sizeof *s->names, by_text);
    return status;
}

static tenon_status read_list(images *s, const char *path) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    tenon_status status = TENON_OK;
    FILE *file = NULL;
    BATCH_TRY(batch_open_lines(path, &file));
    while (status == TENON_OK && (errno = 0, length = getline(&line, &capacity, file)) >= 0) {
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            length--;
        if (length > 0)
            status = add_name(s, line, (size_t)length);
    }
    if (status == TENON_OK && !feof(file))
        status =
            tenon_fail(batch_io_status(errno), "%s: cannot be read: %s", path, strerror(errno));
    free(line);
    fclose(file);
    return status;
}

static tenon_status list_images(images *s, const char *path) {
    struct stat info;
    if (stat(path, &info) != 0)
        return tenon_fail(batch_io_status(errno), "%s: %s", path, strerror(errno));
    bool folder = S_ISDIR(info.st_mode);
    const char *slash = strrchr(path, '/');
    size_t length = folder ? strlen(path) : slash ? (size_t)(slash - path) : 0;
    if (asprintf(&s->folder, "%.*s%s", (int)length, path, folder || slash ? "/" : "") < 0) {
        s->folder = NULL;
        return batch_no_memory();
    }
    if (folder)
        BATCH_TRY(list_folder(s, path));
    else if (is_image(path))
        BATCH_TRY(add_name(s, slash ? slash + 1 : path, strlen(slash ? slash + 1 : path)));
    else
        BATCH_TRY(read_list(s, path));
    return s->base.count > 0 ? TENON_OK
                             : tenon_fail(TENON_NOT_FOUND, "%s: there are no images in it", path);
}

bool batch_path_is_images(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0)
        return false;
    if (!S_ISDIR(info.st_mode))
        return is_image(path) || ends_with(path, ".txt");
    FTS *walk = walk_folder(path);
    FTSENT *entry;
    bool image = false, array = false;
    tenon_status status = TENON_OK;
    if (!walk)
        return false;
    for (entry = fts_read(walk) ? fts_children(walk, 0) : NULL; entry; entry = entry->fts_link)
        array = array || batch_source_is_array(entry->fts_name);
    image = !array && next_image(walk, &status) != NULL;
    fts_close(walk);
    return image;
}

/* ---- Samples ---- */

static char *path_of(const images *s, int64_t index) {
    char *path = NULL;
    const char *name = s->names[index];
    return asprintf(&path, "%s%s", *name == '/' ? "" : s->folder, name) < 0 ? NULL : path;
}

/* Faults of one file; other errors are the machine's, and so are those of a folder that is gone. */
static batch_got cannot(const images *s, int error, const char *what, char *why) {
    batch_got got = batch_fault_of_file(error) ? BATCH_BAD : BATCH_FAILED;
    if (*s->folder && access(s->folder, F_OK) != 0)
        got = BATCH_FAILED;
    snprintf(why, BATCH_TEXT, "%s: %s", what, strerror(error));
    return got;
}

static batch_got bad(char *why, const char *text) {
    snprintf(why, BATCH_TEXT, "%s", text);
    return BATCH_BAD;
}

/* Reads a whole regular file; the caller frees the bytes, also on failure. */
static batch_got read_bytes(const images *s, int fd, char **bytes, size_t *size, char *why) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return cannot(s, errno, "cannot be read", why);
    if (!S_ISREG(info.st_mode))
        return bad(why, "no regular file");
    if (info.st_size > IMAGE_MAX_BYTES)
        return bad(why, "larger than 1 GiB");
    *bytes = malloc((size_t)info.st_size + 1);
    if (!*bytes)
        return cannot(s, ENOMEM, "cannot be read", why);
    for (*size = 0; *size < (size_t)info.st_size;) {
        ssize_t got = read(fd, *bytes + *size, (size_t)info.st_size - *size);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return cannot(s, errno, "cannot be read", why);
        *size += got > 0 ? (size_t)got : 0;
    }
    return BATCH_GOT;
}

static batch_got fetch(batch_source *base, int64_t index, const tenon_view *rows, char *why) {
    const images *s = (const images *)base;
    char *path = path_of(s, index), *bytes = NULL, reason[IMAGE_WHY];
    size_t size = 0;
    if (!path)
        return cannot(s, ENOMEM, "cannot be read", why);
    /* Not to wait for the other end of a pipe. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    batch_got got =
        fd < 0 ? cannot(s, errno, "cannot be opened", why) : read_bytes(s, fd, &bytes, &size, why);
    if (fd >= 0)
        close(fd);
    free(path);
    if (got == BATCH_GOT) {
        image_result result = image_read(&s->transform, bytes, size, rows[0].data, reason);
        if (result != IMAGE_OK) {
            bad(why, reason);
            got = result == IMAGE_BAD ? BATCH_BAD : BATCH_FAILED;
        }
    }
    free(bytes);
    return got;
}

static void name(const batch_source *base, int64_t index, char *text) {
    snprintf(text, BATCH_TEXT, "%s", ((const images *)base)->names[index]);
}

static bool reads(const batch_source *base, const struct stat *file) {
    const images *s = (const images *)base;
    bool found = false;
    for (int64_t i = 0; i < base->count && !found; i++) {
        struct stat info;
        char *path = path_of(s, i);
        found = path && stat(path, &info) == 0 && batch_stat_is_same(&info, file);
        free(path);
    }
    return found;
}

/* The files' sizes and times of change go into one hash. A file that is not there counts, too. */
static tenon_status identify(const batch_source *base, cJSON *facts) {
    const images *s = (const images *)base;
    const image_transform *t = &s->transform;
    uint64_t hash = BATCH_HASH_START;
    for (int64_t i = 0; i < base->count; i++) {
        struct stat info = {0};
        char *path = path_of(s, i);
        if (!path)
            return batch_no_memory();
        if (stat(path, &info) != 0)
            info = (struct stat){.st_size = -1};
        free(path);
        int64_t numbers[] = {info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
        hash = batch_hash(hash, s->names[i], strlen(s->names[i]) + 1);
        hash = batch_hash(hash, numbers, sizeof numbers);
    }
    BATCH_TRY(batch_fact(facts, "images", "%" PRId64 ", hash %016" PRIx64, base->count, hash));
    BATCH_TRY(batch_fact(facts, "transform",
                         "resize %" PRId64 "x%" PRId64 " %s, crop %" PRId64 "x%" PRId64
                         ", mean %.9g %.9g %.9g, std %.9g %.9g %.9g, at most %" PRId64 " pixels",
                         t->resize_height, t->resize_width,
                         t->filter == IMAGE_BICUBIC ? "bicubic" : "bilinear", t->crop_height,
                         t->crop_width, (double)t->mean[0], (double)t->mean[1], (double)t->mean[2],
                         (double)t->std[0], (double)t->std[1], (double)t->std[2], t->max_pixels));
    return batch_fact(facts, "decoders", "libjpeg-turbo %d, libpng %u",
                      LIBJPEG_TURBO_VERSION_NUMBER, (unsigned)png_access_version_number());
}

static void destroy(batch_source *base) {
    images *s = (images *)base;
    for (int64_t i = 0; i < base->count; i++)
        free(s->names[i]);
    free(s->names);
    free(s->folder);
    free(s);
}

static tenon_status check_field(images *s, const batch_field *field) {
    const tenon_view *row = &field->row;
    image_transform *t = &s->transform;
    if (row->dtype != TENON_FLOAT32 || row->rank != 3 || row->shape[0] != 3)
        return tenon_fail(TENON_INPUT_MISMATCH,
                          "input '%s': images are float32[3, height, width], and the model takes "
                          "another dtype or shape",
                          field->name);
    t->crop_height = t->crop_height > 0 ? t->crop_height : row->shape[1];
    t->crop_width = t->crop_width > 0 ? t->crop_width : row->shape[2];
    if (t->crop_height != row->shape[1] || t->crop_width != row->shape[2])
        return tenon_fail(TENON_INVALID_ARGUMENT,
                          "input '%s' takes images of %" PRId64 "x%" PRId64
                          " pixels (height, width): the crop is %" PRId64 "x%" PRId64,
                          field->name, row->shape[1], row->shape[2], t->crop_height, t->crop_width);
    if (t->crop_height < 1 || t->crop_width < 1 || t->crop_height > IMAGE_MAX_EDGE ||
        t->crop_width > IMAGE_MAX_EDGE)
        return tenon_fail(TENON_UNSUPPORTED, "input '%s': edges of images are 1 to %d pixels",
                          field->name, IMAGE_MAX_EDGE);
    return TENON_OK;
}

tenon_status batch_source_images(const char *path, const image_transform *transform,
                                 const batch_field *field, batch_source **out) {
    images *s = calloc(1, sizeof *s);
    if (!s)
        return batch_no_memory();
    *s = (images){.base = {.fetch = fetch,
                           .name = name,
                           .identify = identify,
                           .reads = reads,
                           .destroy = destroy},
                  .transform = *transform};
    tenon_status status = check_field(s, field);
    if (status == TENON_OK)
        status = list_images(s, path);
    if (status != TENON_OK)
        destroy(&s->base);
    else
        *out = &s->base;
    return status;
}
