#include "load/map_file.h"
#include "core/fail.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void unmap(void *user) {
    tn_storage *storage = user;
    munmap(storage->data, storage->size);
}

static tenon_status read_all(const char *path, int fd, size_t size, tn_storage **out) {
    tn_storage *storage = NULL;
    TN_TRY(tn_storage_alloc(size, &storage));
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, (char *)storage->data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            tn_storage_drop(&storage);
            return tn_fail(TENON_IO, "%s: cannot be read: %s", path,
                           n < 0 ? strerror(errno) : "it became shorter");
        }
        done += (size_t)n;
    }
    *out = storage;
    return TENON_OK;
}

static tenon_status map_open(const char *path, int fd, tn_storage **out) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return tn_fail(TENON_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return tn_fail(TENON_IO, "%s: not a regular file", path);
    size_t size = (size_t)info.st_size;
    void *data = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (data == MAP_FAILED)
        return read_all(path, fd, size, out);
    tn_storage *storage = NULL;
    tenon_status status = tn_storage_create(data, size, NULL, NULL, &storage);
    if (status != TENON_OK) {
        munmap(data, size);
        return status;
    }
    storage->release = unmap;
    storage->user = storage;
    storage->mapped = true;
    *out = storage;
    return TENON_OK;
}

tenon_status tn_map_file(const char *path, tn_storage **out) {
    /* Without waiting for who writes into a pipe, which is refused then. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return tn_fail(TENON_IO, "%s: cannot be opened: %s", path, strerror(errno));
    tenon_status status = map_open(path, fd, out);
    close(fd);
    return status;
}
