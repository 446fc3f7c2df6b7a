#include "disk.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int real_open(const char *path) {
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
}

static int real_write(int fd, const void *data, size_t size, int64_t at) {
    for (size_t done = 0; done < size;) {
        ssize_t n = pwrite(fd, (const char *)data + done, size - done, (off_t)(at + (int64_t)done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        done += (size_t)n;
    }
    return 0;
}

static int real_truncate(int fd, int64_t size) {
    return ftruncate(fd, (off_t)size);
}

static int real_sync(int fd) {
    return fdatasync(fd);
}

static int real_sync_folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int code = fsync(fd), error = errno;
    close(fd);
    /* Some file systems know no syncing of folders. */
    if (code != 0 && (error == EINVAL || error == ENOTSUP))
        code = 0;
    errno = error;
    return code;
}

static int real_make_folder(const char *path) {
    return mkdir(path, 0777);
}

const batch_disk batch_disk_real = {
    .open = real_open,
    .write = real_write,
    .truncate = real_truncate,
    .sync = real_sync,
    .sync_folder = real_sync_folder,
    .rename = rename,
    .remove = unlink,
    .make_folder = real_make_folder,
    .close = close,
};
const batch_disk *batch_disk_used = &batch_disk_real;
