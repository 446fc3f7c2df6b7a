/* Everything that a job changes on disk goes through one table of operations, so that tests can
 * record them, fail them, and lose what was not synced. */
#ifndef BATCH_DISK_H
#define BATCH_DISK_H

#include <stddef.h>
#include <stdint.h>

/* Each returns -1 and sets errno on failure. */
typedef struct batch_disk {
    int (*open)(const char *path); /* to read and write; made when it is not there */
    int (*write)(int fd, const void *data, size_t size, int64_t at); /* all of it; 0 */
    int (*truncate)(int fd, int64_t size);
    int (*sync)(int fd); /* the file's data and size */
    int (*sync_folder)(const char *path);
    int (*rename)(const char *from, const char *to);
    int (*remove)(const char *path);
    int (*make_folder)(const char *path);
    int (*close)(int fd);
} batch_disk;

extern const batch_disk batch_disk_real;
/* The one in use. Tests put another here while no job runs. */
extern const batch_disk *batch_disk_used;

#endif
