/* Samples as raw records in a stream: the bytes of all fields, one after the other, without any
 * frame. */
#include "batch.h"
#include "file.h"
#include "hash.h"
#include "source.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct stream {
    batch_source base;
    int fd;
    const batch_field *fields;
    int field_count;
    size_t size; /* of a record */
    char *record;
    int64_t next;  /* the record that comes next */
    uint64_t hash; /* of those before */
} stream;

/* Reads until `size` bytes are there, or the end. -1: it failed, or the job was stopped. */
static int64_t read_all(stream *s, char *why) {
    size_t done = 0;
    while (done < s->size) {
        struct pollfd wait = {.fd = s->fd, .events = POLLIN};
        if (batch_stopped()) {
            snprintf(why, BATCH_TEXT, "standard input: the job was stopped");
            return -1;
        }
        if (poll(&wait, 1, 100) == 0) /* milliseconds, until the next look at the flag */
            continue;
        ssize_t n = read(s->fd, s->record + done, s->size - done);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0) {
            snprintf(why, BATCH_TEXT, "standard input cannot be read: %s", strerror(errno));
            return -1;
        }
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (int64_t)done;
}

static batch_got next_record(stream *s, char *why) {
    int64_t read = read_all(s, why);
    if (read <= 0)
        return read < 0 ? BATCH_FAILED : BATCH_END;
    s->hash = batch_hash(s->hash, s->record, (size_t)read);
    s->next++;
    if ((size_t)read == s->size)
        return BATCH_GOT;
    snprintf(why, BATCH_TEXT, "standard input ends after %" PRId64 " of a record's %zu bytes", read,
             s->size);
    return BATCH_BAD;
}

static batch_got fetch(batch_source *base, int64_t index, const tenon_view *rows, char *why) {
    stream *s = (stream *)base;
    batch_got got = BATCH_GOT;
    while (s->next <= index) {
        got = next_record(s, why);
        if (got == BATCH_FAILED || got == BATCH_END)
            return got;
    }
    size_t at = 0;
    for (int k = 0; k < s->field_count && got == BATCH_GOT; k++) {
        if (batch_row_copy(&rows[k], rows[k].dtype, s->record + at) != TENON_OK) {
            snprintf(why, BATCH_TEXT, "%s", tenon_last_error());
            return BATCH_FAILED;
        }
        at += s->fields[k].bytes;
    }
    return got;
}

static void name(const batch_source *base, int64_t index, char *text) {
    (void)base;
    snprintf(text, BATCH_TEXT, "record %" PRId64, index);
}

static tenon_status identify(const batch_source *base, cJSON *facts) {
    const stream *s = (const stream *)base;
    char text[64];
    snprintf(text, sizeof text, "records of %zu bytes", s->size);
    return cJSON_AddStringToObject(facts, "standard input", text) ? TENON_OK : batch_no_memory();
}

static bool reads(const batch_source *base, const struct stat *file) {
    struct stat info;
    return fstat(((const stream *)base)->fd, &info) == 0 && batch_stat_is_same(&info, file);
}

static uint64_t digest(const batch_source *base) {
    return ((const stream *)base)->hash;
}

static void destroy(batch_source *base) {
    free(((stream *)base)->record);
    free(base);
}

tenon_status batch_source_stream(int fd, const batch_field *fields, int count, batch_source **out) {
    stream *s = calloc(1, sizeof *s);
    size_t size = 0;
    for (int k = 0; k < count; k++)
        size += fields[k].bytes;
    char *record = malloc(size + 1);
    if (size == 0 || !s || !record) {
        free(s);
        free(record);
        return size == 0 ? tenon_fail(TENON_INVALID_ARGUMENT, "a record would have no bytes")
                         : batch_no_memory();
    }
    *s = (stream){.base = {.count = -1,
                           .loaders = 1,
                           .fetch = fetch,
                           .name = name,
                           .identify = identify,
                           .reads = reads,
                           .digest = digest,
                           .destroy = destroy},
                  .fd = fd,
                  .fields = fields,
                  .field_count = count,
                  .size = size,
                  .record = record,
                  .hash = BATCH_HASH_START};
    *out = &s->base;
    return TENON_OK;
}
