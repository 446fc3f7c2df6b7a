#include "core/replace.h"
#include "core/fail.h"
#include "core/io_status.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/load.h>
#include <unistd.h>

enum { MOST_LINKS = 40, MOST_PATH = 4096 };

/* What the link at `path` says, as a path of its own; `path` when it is none, and NULL when memory
 * is out. */
static char *follow(char *path) {
    char target[MOST_PATH];
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length <= 0)
        return path;
    target[length] = '\0';
    const char *slash = strrchr(path, '/');
    size_t folder = slash && *target != '/' ? (size_t)(slash - path) + 1 : 0;
    /* NOLINTNEXTLINE(*TaintedAlloc): the length is below MOST_PATH */
    char *joined = malloc(folder + (size_t)length + 1);
    if (joined)
        strcpy((char *)memcpy(joined, path, folder) + folder, target);
    return joined;
}

/* The path behind all links, also where nothing stands there yet. */
static char *resolve(const char *path) {
    char *at = strdup(path), *next;
    for (int i = 0; at && i < MOST_LINKS && (next = follow(at)) != at; i++) {
        free(at);
        at = next;
    }
    return at;
}

/* Names of open files, such as /dev/stdout: who opened them goes on with them. */
static bool is_stream(const char *path) {
    return strncmp(path, "/dev/std", 8) == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
           strncmp(path, "/proc/", 6) == 0;
}

static bool open_temporary(tn_replace *replace, const struct stat *old) {
    static const char suffix[] = ".XXXXXX";
    replace->temporary = malloc(strlen(replace->path) + sizeof suffix);
    if (!replace->temporary)
        return false;
    strcat(strcpy(replace->temporary, replace->path), suffix);
    int fd = mkstemp(replace->temporary);
    if (fd >= 0) {
        mode_t mask = umask(0);
        umask(mask);
        /* The owner stays where that may be set, which comes first: it clears bits of the mode. */
        bool kept = old && fchown(fd, old->st_uid, old->st_gid) == 0;
        mode_t mode = !old ? 0666 & ~mask : old->st_mode & (kept ? 07777 : 0777);
        if (fchmod(fd, mode) == 0)
            replace->file = fdopen(fd, "wb");
        if (replace->file)
            return true;
        int error = errno;
        close(fd);
        unlink(replace->temporary);
        errno = error;
    }
    free(replace->temporary);
    replace->temporary = NULL;
    return false;
}

/* Fails where it would wait for who reads a pipe. */
static FILE *open_in_place(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0666);
    int flags = fd < 0 ? 0 : fcntl(fd, F_GETFL);
    FILE *file = NULL;
    if (fd >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0)
        file = fdopen(fd, "wb");
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

static tenon_status cannot_write(const tn_replace *replace, int error) {
    return tn_fail(tn_io_status(error), "%s: cannot be written: %s", replace->path,
                   strerror(error));
}

tenon_status tn_replace_open(tn_replace *replace, const char *path) {
    struct stat old;
    *replace = (tn_replace){.path = resolve(path)};
    if (!replace->path)
        return tn_no_memory();
    bool there = stat(replace->path, &old) == 0, done = false, in_place;
    in_place = (there && !S_ISREG(old.st_mode)) || is_stream(path);
    if (!in_place) {
        done = open_temporary(replace, there ? &old : NULL);
        in_place = !done && there && (errno == EACCES || errno == EPERM || errno == EROFS);
    }
    if (in_place)
        done = (replace->file = open_in_place(path)) != NULL;
    if (done)
        return TENON_OK;
    bool pipe = there && S_ISFIFO(old.st_mode) && errno == ENXIO;
    tenon_status status = tn_fail(tn_io_status(errno), "%s: cannot be written: %s", path,
                                  pipe ? "nobody reads this pipe" : strerror(errno));
    tn_replace_close(replace);
    return status;
}

/* Writes everything out, with nothing left to do but the rename. */
static tenon_status finish(tn_replace *replace) {
    bool ok = fflush(replace->file) == 0 && !ferror(replace->file) &&
              (!replace->temporary || fsync(fileno(replace->file)) == 0);
    int error = errno;
    if (fclose(replace->file) != 0 && ok) {
        ok = false;
        error = errno;
    }
    replace->file = NULL;
    return ok ? TENON_OK : cannot_write(replace, error);
}

static tenon_status give_name(tn_replace *replace) {
    if (replace->temporary && rename(replace->temporary, replace->path) != 0)
        return cannot_write(replace, errno);
    free(replace->temporary);
    replace->temporary = NULL;
    return TENON_OK;
}

tenon_status tn_replace_commit(tn_replace *replace) {
    TN_TRY(finish(replace));
    return give_name(replace);
}

/* A second name for the file that is at the path: NULL when there is none, or the file system knows
 * no second names. */
static char *keep_old(const tn_replace *replace) {
    static const char suffix[] = ".old";
    char *name = replace->temporary ? malloc(strlen(replace->temporary) + sizeof suffix) : NULL;
    if (name && link(replace->path, strcat(strcpy(name, replace->temporary), suffix)) != 0) {
        free(name);
        name = NULL;
    }
    return name;
}

tenon_status tn_replace_commit_both(tn_replace *first, tn_replace *second) {
    TN_TRY(finish(first));
    TN_TRY(finish(second));
    bool temporary = first->temporary != NULL, there = access(first->path, F_OK) == 0;
    char *old = keep_old(first);
    tenon_status status = give_name(first);
    if (status == TENON_OK) {
        status = give_name(second);
        if (status != TENON_OK && old)
            (void)rename(old, first->path);
        else if (status != TENON_OK && temporary && !there)
            unlink(first->path);
    }
    if (old)
        unlink(old);
    free(old);
    return status;
}

void tn_replace_close(tn_replace *replace) {
    if (replace->file)
        fclose(replace->file);
    if (replace->temporary)
        unlink(replace->temporary);
    free(replace->temporary);
    free(replace->path);
    *replace = (tn_replace){0};
}

tenon_status tenon_file_write(const char *path, const char *data, size_t size) {
    tn_replace file = {0};
    TN_TRY(tn_replace_open(&file, path));
    fwrite(data, 1, size, file.file); /* the commit tells of failures */
    tenon_status status = tn_replace_commit(&file);
    tn_replace_close(&file);
    return status;
}
