#include "mapped.h"
#include "batch.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RELEASE = 64 << 20 };

/* Where a thread that reads a mapping goes on after SIGBUS; NULL: it reads none. */
static _Thread_local sigjmp_buf *volatile escape;
static struct sigaction others; /* what took SIGBUS before */

static void on_sigbus(int number) {
    if (escape)
        siglongjmp(*escape, 1);
    sigaction(SIGBUS, &others, NULL); /* the access is repeated, and meets the other one */
    (void)number;
}

static void install(void) {
    struct sigaction action = {.sa_handler = on_sigbus};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &others);
}

bool batch_fault_of_file(int error) {
    static const int of_file[] = {ENOENT, EACCES, EPERM, ELOOP, ENAMETOOLONG, ENOTDIR, ENXIO};
    for (size_t i = 0; i < sizeof of_file / sizeof *of_file; i++)
        if (error == of_file[i])
            return true;
    return false;
}

tenon_status batch_open_regular(const char *path, int *fd, int64_t *size) {
    struct stat info;
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0)
        return tenon_fail(batch_fault_of_file(errno) ? TENON_INVALID_FILE : batch_io_status(errno),
                          "%s: cannot be opened: %s", path, strerror(errno));
    int error = fstat(opened, &info) == 0 ? 0 : errno;
    if (error || !S_ISREG(info.st_mode)) {
        close(opened);
        return tenon_fail(error ? TENON_IO : TENON_INVALID_FILE, "%s: %s", path,
                          error ? strerror(error) : "no regular file");
    }
    *fd = opened;
    *size = info.st_size;
    return TENON_OK;
}

tenon_status batch_open_lines(const char *path, FILE **out) {
    int fd = -1;
    int64_t size = 0;
    BATCH_TRY(batch_open_regular(path, &fd, &size));
    assert(fd >= 0);
    FILE *file = fdopen(fd, "r");
    if (!file) {
        close(fd);
        return batch_no_memory();
    }
    *out = file;
    return TENON_OK;
}

tenon_status batch_map(const char *path, batch_mapped *out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int fd = -1;
    int64_t size = 0;
    pthread_once(&once, install);
    BATCH_TRY(batch_open_regular(path, &fd, &size));
    batch_mapped m = {.path = strdup(path), .size = (size_t)size};
    void *data = m.size ? mmap(NULL, m.size, PROT_READ, MAP_SHARED, fd, 0) : NULL;
    int error = errno;
    close(fd);
    if (!m.path || data == MAP_FAILED) {
        free(m.path);
        return tenon_fail(batch_io_status(error), "%s: cannot be mapped: %s", path,
                          strerror(error));
    }
    if (m.size)
        madvise(data, m.size, MADV_SEQUENTIAL);
    m.data = data;
    *out = m;
    return TENON_OK;
}

void batch_unmap(batch_mapped *mapped) {
    if (mapped->data)
        munmap(mapped->data, mapped->size);
    free(mapped->path);
    *mapped = (batch_mapped){0};
}

static void release(batch_mapped *m, size_t at) {
    if (at < m->released)
        m->released = at / RELEASE * RELEASE;
    while (at - m->released >= 2 * (size_t)RELEASE) {
        madvise(m->data + m->released, RELEASE, MADV_DONTNEED);
        m->released += RELEASE;
    }
}

static tenon_status not_given(const batch_mapped *mapped, size_t at) {
    struct stat info;
    bool shorter = stat(mapped->path, &info) == 0 && (size_t)info.st_size < mapped->size;
    return tenon_fail(shorter ? TENON_INVALID_FILE : TENON_IO, "%s: cannot be read at byte %zu: %s",
                      mapped->path, at, shorter ? "the file became shorter" : "the disk fails");
}

tenon_status batch_mapped_read(batch_mapped *mapped, size_t at, size_t size, void *to) {
    sigjmp_buf place;
    release(mapped, at);
    if (sigsetjmp(place, 1) == 0) {
        escape = &place;
        memcpy(to, mapped->data + at, size);
        escape = NULL;
        return TENON_OK;
    }
    escape = NULL;
    return not_given(mapped, at);
}

static void gather(const char *from, const tenon_view *view, char *to) {
    int64_t index[TENON_MAX_RANK] = {0}, offset = 0, count = tenon_view_numel(view);
    size_t size = tenon_dtype_size(view->dtype);
    for (int64_t i = 0; i < count; i++) {
        memcpy(to + (size_t)i * size, from + offset * (int64_t)size, size);
        for (int d = view->rank - 1; d >= 0; d--) {
            offset += view->strides[d];
            if (++index[d] < view->shape[d])
                break;
            offset -= view->strides[d] * view->shape[d];
            index[d] = 0;
        }
    }
}

tenon_status batch_mapped_gather(batch_mapped *mapped, size_t at, const tenon_view *view,
                                 void *to) {
    sigjmp_buf place;
    if (sigsetjmp(place, 1) == 0) {
        escape = &place;
        gather(mapped->data + at, view, to);
        escape = NULL;
        return TENON_OK;
    }
    escape = NULL;
    return not_given(mapped, at);
}
