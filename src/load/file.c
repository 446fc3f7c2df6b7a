#include "load/file.h"
#include "core/fail.h"
#include "core/io_status.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

tenon_status tn_file_open(tn_file *file, const char *path) {
    /* Without waiting for who writes into a pipe, which is refused then. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *file = (tn_file){.path = NULL};
    if (fd < 0)
        return tn_fail(tn_io_status(errno), "%s: cannot be opened: %s", path, strerror(errno));
    *file = (tn_file){.path = path, .fd = fd};
    tenon_status status = TENON_OK;
    if (fstat(fd, &file->seen) != 0)
        status = tn_fail(tn_io_status(errno), "%s: %s", path, strerror(errno));
    else if (!S_ISREG(file->seen.st_mode))
        status = tn_fail(TENON_IO, "%s: not a regular file", path);
    file->size = (size_t)file->seen.st_size;
    if (status != TENON_OK)
        tn_file_close(file);
    return status;
}

void tn_file_close(tn_file *file) {
    if (file->path)
        close(file->fd);
    tn_storage_drop(&file->bytes);
    *file = (tn_file){.path = NULL};
}

tenon_status tn_file_read(const tn_file *file, size_t offset, void *to, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread(file->fd, (char *)to + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return tn_fail(n < 0 ? tn_io_status(errno) : TENON_IO, "%s: cannot be read: %s",
                           file->path, n < 0 ? strerror(errno) : "it became shorter");
        done += (size_t)n;
    }
    return TENON_OK;
}

/* ---- Mapping ---- */

static void unmap(void *user) {
    tn_storage *storage = user;
    munmap(storage->data, storage->size);
}

static tenon_status copy_all(tn_file *file) {
    tn_storage *storage = NULL;
    TN_TRY(tn_storage_alloc(file->size, &storage));
    tenon_status status = tn_file_read(file, 0, storage->data, file->size);
    if (status == TENON_OK)
        file->bytes = storage;
    else
        tn_storage_drop(&storage);
    return status;
}

tenon_status tn_file_map(tn_file *file, bool copy) {
    void *data = MAP_FAILED;
    if (file->size > 0 && !copy)
        data = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, file->fd, 0);
    if (data == MAP_FAILED)
        return copy_all(file);
    tn_storage *storage = NULL;
    tenon_status status = tn_storage_create(data, file->size, NULL, NULL, &storage);
    if (status != TENON_OK) {
        munmap(data, file->size);
        return status;
    }
    storage->release = unmap;
    storage->user = storage;
    storage->mapped = true;
    file->bytes = storage;
    return TENON_OK;
}

tenon_status tn_file_check(const tn_file *file) {
    struct stat now;
    if (fstat(file->fd, &now) != 0)
        return tn_fail(tn_io_status(errno), "%s: %s", file->path, strerror(errno));
    if (now.st_size != file->seen.st_size || now.st_mtim.tv_sec != file->seen.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != file->seen.st_mtim.tv_nsec)
        return tn_fail(TENON_IO, "%s: it changed while it was loaded", file->path);
    return TENON_OK;
}

tenon_status tn_file_read_all(const char *path, char **out, size_t *size) {
    tn_file file;
    TN_TRY(tn_file_open(&file, path));
    char *text = malloc(file.size + 1);
    tenon_status status = text ? tn_file_read(&file, 0, text, file.size) : tn_no_memory();
    if (status == TENON_OK)
        status = tn_file_check(&file);
    if (status == TENON_OK) {
        text[file.size] = '\0';
        *out = text;
        *size = file.size;
    } else {
        free(text);
    }
    tn_file_close(&file);
    return status;
}
