#include "file.h"
#include "batch.h"
#include "disk.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITE_SIZE = 4 << 20 };

static tenon_status failed(const char *path, const char *what) {
    return tenon_fail(batch_io_status(errno), "%s: %s: %s", path, what, strerror(errno));
}

bool batch_file_exists(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

/* The path without links, dots and doubled slashes: what is there is resolved, and the rest follows
 * as it is written. NULL where it cannot be. The caller frees it. */
static char *resolve(const char *path) {
    char *head = strdup(path), *rest = strdup(""), *found = NULL, *whole = NULL;
    while (head && rest && !(found = realpath(*head ? head : ".", NULL)) && errno == ENOENT &&
           *head) {
        size_t length = strlen(head);
        while (length > 1 && head[length - 1] == '/')
            head[--length] = '\0';
        char *slash = strrchr(head, '/'), *name = slash ? slash + 1 : head, *longer = NULL;
        if (!*name || strcmp(name, "..") == 0)
            break;
        if (strcmp(name, ".") != 0) {
            if (asprintf(&longer, "/%s%s", name, rest) < 0)
                longer = NULL;
            free(rest);
            rest = longer;
        }
        name[slash == head ? 0 : slash ? -1 : 0] = '\0';
    }
    if (found && rest && asprintf(&whole, "%s%s", strcmp(found, "/") == 0 ? "" : found, rest) < 0)
        whole = NULL;
    free(found);
    free(head);
    free(rest);
    return whole;
}

bool batch_file_is_same(const char *a, const char *b) {
    struct stat x, y;
    if (stat(a, &x) == 0 && stat(b, &y) == 0)
        return batch_stat_is_same(&x, &y);
    char *p = resolve(a), *q = resolve(b);
    bool same = p && q && strcmp(p, q) == 0;
    free(p);
    free(q);
    return same;
}

bool batch_file_is_in(const char *path, const char *folder) {
    char *whole = resolve(path), *slash = whole ? strrchr(whole, '/') : NULL;
    if (slash)
        slash[slash == whole] = '\0';
    bool in = slash && batch_file_is_same(whole, folder);
    free(whole);
    return in;
}

tenon_status batch_file_name(const char *path, batch_file *out) {
    struct stat info;
    batch_file f = {.fd = -1, .path = realpath(path, NULL)};
    if (!f.path && errno == ENOENT)
        f.path = strdup(path);
    if (!f.path)
        return failed(path, "cannot be written");
    if (stat(f.path, &info) == 0 && !S_ISREG(info.st_mode)) {
        free(f.path);
        return tenon_fail(TENON_IO, "%s: it exists, and is no regular file", path);
    }
    char *partial;
    if (asprintf(&partial, "%s.partial", f.path) < 0) {
        free(f.path);
        return batch_no_memory();
    }
    f.partial = partial;
    *out = f;
    return TENON_OK;
}

tenon_status batch_open_locked(const char *path, int *fd) {
    int opened = batch_disk_used->open(path);
    if (opened < 0)
        return failed(path, "cannot be written");
    if (flock(opened, LOCK_EX | LOCK_NB) != 0) {
        tenon_status status =
            errno == EWOULDBLOCK
                ? tenon_fail(TENON_IO, "%s: another job is writing it at this moment", path)
                : failed(path, "cannot be locked");
        batch_disk_used->close(opened);
        return status;
    }
    *fd = opened;
    return TENON_OK;
}

tenon_status batch_file_open(batch_file *file, int64_t size) {
    struct stat info;
    int fd = -1;
    BATCH_TRY(batch_open_locked(file->partial, &fd));
    assert(fd >= 0);
    tenon_status status = TENON_OK;
    if (fstat(fd, &info) != 0)
        status = failed(file->partial, "cannot be read");
    else if (info.st_size < size)
        status = tenon_fail(TENON_INVALID_FILE,
                            "%s: it has %lld bytes, and should have %" PRId64
                            ": it was changed; --overwrite starts anew",
                            file->partial, (long long)info.st_size, size);
    else if (info.st_size > size && batch_disk_used->truncate(fd, size) != 0)
        status = failed(file->partial, "cannot be cut");
    if (status != TENON_OK) {
        batch_disk_used->close(fd);
        return status;
    }
    file->fd = fd;
    file->size = size;
    file->pending.size = 0;
    return TENON_OK;
}

static tenon_status flush(batch_file *file) {
    size_t size = file->pending.size;
    if (size > 0 &&
        batch_disk_used->write(file->fd, file->pending.data, size, file->size - (int64_t)size) != 0)
        return failed(file->partial, "cannot be written");
    file->pending.size = 0;
    return TENON_OK;
}

tenon_status batch_file_append(batch_file *file, const void *data, size_t size) {
    BATCH_TRY(batch_bytes_put(&file->pending, data, size));
    file->size += (int64_t)size;
    return file->pending.size >= WRITE_SIZE ? flush(file) : TENON_OK;
}

tenon_status batch_file_patch(batch_file *file, const void *data, size_t size) {
    BATCH_TRY(flush(file));
    return batch_disk_used->write(file->fd, data, size, 0) == 0
               ? TENON_OK
               : failed(file->partial, "cannot be written");
}

tenon_status batch_file_sync(batch_file *file) {
    BATCH_TRY(flush(file));
    return batch_disk_used->sync(file->fd) == 0 ? TENON_OK
                                                : failed(file->partial, "cannot be written");
}

tenon_status batch_file_rename(batch_file *file) {
    return batch_disk_used->rename(file->partial, file->path) == 0
               ? TENON_OK
               : failed(file->path, "cannot be written");
}

tenon_status batch_file_remove(batch_file *file) {
    return batch_disk_used->remove(file->partial) == 0 ? TENON_OK
                                                       : failed(file->partial, "cannot be removed");
}

tenon_status batch_file_sync_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    if (!folder)
        return batch_no_memory();
    tenon_status status = batch_disk_used->sync_folder(folder) == 0
                              ? TENON_OK
                              : failed(folder, "the folder cannot be written");
    free(folder);
    return status;
}

void batch_file_close(batch_file *file) {
    if (file->fd >= 0)
        batch_disk_used->close(file->fd);
    free(file->path);
    free(file->partial);
    batch_bytes_free(&file->pending);
    *file = (batch_file){.fd = -1};
}
