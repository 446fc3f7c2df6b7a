#include "journal.h"
#include "batch.h"
#include "disk.h"
#include "file.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static const char *const stages[] = {"nothing", "running", "complete", "finished"};

/* ---- Reading ---- */

static bool read_number(const cJSON *item, int64_t *out) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble < 9e15))
        return false;
    *out = (int64_t)item->valuedouble;
    return true;
}

static bool read_state(const cJSON *line, batch_state *out) {
    const cJSON *stage = cJSON_GetObjectItemCaseSensitive(line, "state"), *size;
    const cJSON *digest = cJSON_GetObjectItemCaseSensitive(line, "digest");
    batch_state s = {0};
    for (int i = BATCH_RUNNING; cJSON_IsString(stage) && i <= BATCH_DONE; i++)
        if (strcmp(stage->valuestring, stages[i]) == 0)
            s.stage = (batch_stage)i;
    if (s.stage == BATCH_NOTHING ||
        !read_number(cJSON_GetObjectItemCaseSensitive(line, "samples"), &s.samples) ||
        !read_number(cJSON_GetObjectItemCaseSensitive(line, "bad"), &s.bad))
        return false;
    s.digest = cJSON_IsString(digest) ? strtoull(digest->valuestring, NULL, 16) : 0;
    cJSON_ArrayForEach(size, cJSON_GetObjectItemCaseSensitive(line, "bytes")) {
        if (s.file_count == BATCH_MOST_FILES || !read_number(size, &s.sizes[s.file_count++]))
            return false;
    }
    *out = s;
    return true;
}

/* Takes one line, without its end; NOT_FOUND when it is none of ours. */
static tenon_status read_line(batch_journal *j, const char *line, size_t length) {
    if (length < 9 || line[length - 9] != '\t')
        return TENON_NOT_FOUND;
    char digits[9] = "", *end;
    memcpy(digits, line + length - 8, 8);
    uint32_t check = (uint32_t)crc32(j->check, (const Bytef *)line, (uInt)(length - 9));
    if (strtoul(digits, &end, 16) != check || end != digits + 8)
        return TENON_NOT_FOUND;
    errno = 0;
    cJSON *json = cJSON_ParseWithLength(line, length - 9);
    if (!json && errno == ENOMEM)
        return batch_no_memory();
    bool first = !j->job;
    bool ok = first ? cJSON_IsObject(json) && cJSON_HasObjectItem(json, "job")
                    : read_state(json, &j->state);
    if (ok)
        j->check = check;
    if (ok && first) {
        j->job = json;
        j->state = (batch_state){.stage = BATCH_RUNNING};
    } else {
        cJSON_Delete(json);
    }
    return ok ? TENON_OK : TENON_NOT_FOUND;
}

static tenon_status read_journal(batch_journal *j) {
    FILE *file = fopen(j->path, "rb");
    if (!file)
        return tenon_fail(batch_io_status(errno), "%s: cannot be read: %s", j->path,
                          strerror(errno));
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    tenon_status status = TENON_OK;
    while (status == TENON_OK && (errno = 0, length = getline(&line, &capacity, file)) > 0) {
        status =
            line[length - 1] == '\n' ? read_line(j, line, (size_t)length - 1) : TENON_NOT_FOUND;
        if (status == TENON_OK)
            j->size += length;
    }
    if (status == TENON_NOT_FOUND) /* what is behind is not of this job */
        status = TENON_OK;
    else if (status == TENON_OK && !feof(file))
        status =
            tenon_fail(batch_io_status(errno), "%s: cannot be read: %s", j->path, strerror(errno));
    free(line);
    fclose(file);
    return status;
}

/* Another job may have put a new journal in its place before this one got the lock. */
static bool is_at_path(int fd, const char *path) {
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && batch_stat_is_same(&a, &b);
}

tenon_status batch_journal_open(const char *path, batch_journal *out) {
    batch_journal j = {.path = strdup(path), .fd = -1, .old_fd = -1};
    tenon_status status = j.path ? batch_open_locked(path, &j.fd) : batch_no_memory();
    if (status == TENON_OK && !is_at_path(j.fd, path))
        status = tenon_fail(TENON_IO, "%s: another job began at this moment", path);
    if (status == TENON_OK)
        status = read_journal(&j);
    if (status != TENON_OK)
        batch_journal_close(&j);
    else
        *out = j;
    return status;
}

/* ---- Writing ---- */

static tenon_status failed(const batch_journal *j) {
    return tenon_fail(batch_io_status(errno), "%s: cannot be written: %s", j->path,
                      strerror(errno));
}

static tenon_status add_line(batch_journal *j, int fd, const cJSON *line) {
    char *json = cJSON_PrintUnformatted(line);
    batch_bytes text = {0};
    if (!json)
        return batch_no_memory();
    uint32_t check = (uint32_t)crc32(j->check, (const Bytef *)json, (uInt)strlen(json));
    tenon_status status = batch_bytes_print(&text, "%s\t%08" PRIx32 "\n", json, check);
    cJSON_free(json);
    if (status == TENON_OK && (batch_disk_used->write(fd, text.data, text.size, j->size) != 0 ||
                               batch_disk_used->sync(fd) != 0))
        status = failed(j);
    if (status == TENON_OK) {
        j->check = check;
        j->size += (int64_t)text.size;
    }
    batch_bytes_free(&text);
    return status;
}

tenon_status batch_journal_start(batch_journal *journal, cJSON *job) {
    char *path = NULL;
    int fd = -1;
    cJSON_Delete(journal->job);
    journal->job = job;
    journal->state = (batch_state){.stage = BATCH_RUNNING};
    journal->size = 0;
    journal->check = 0;
    if (!job || asprintf(&path, "%s.new", journal->path) < 0)
        return batch_no_memory();
    tenon_status status = batch_open_locked(path, &fd);
    if (status == TENON_OK && batch_disk_used->truncate(fd, 0) != 0)
        status = failed(journal);
    if (status == TENON_OK)
        status = add_line(journal, fd, job);
    if (status == TENON_OK && batch_disk_used->rename(path, journal->path) != 0)
        status = failed(journal);
    if (status == TENON_OK)
        status = batch_file_sync_folder(journal->path);
    free(path);
    /* The lock of the old one is kept for those who opened it before. */
    if (fd >= 0) {
        journal->old_fd = journal->fd;
        journal->fd = fd;
    }
    return status;
}

tenon_status batch_journal_continue(batch_journal *journal) {
    if (batch_disk_used->truncate(journal->fd, journal->size) != 0 ||
        batch_disk_used->sync(journal->fd) != 0)
        return failed(journal);
    return TENON_OK;
}

tenon_status batch_journal_add(batch_journal *journal, const batch_state *state) {
    char digest[24];
    snprintf(digest, sizeof digest, "%016" PRIx64, state->digest);
    cJSON *line = cJSON_CreateObject(), *sizes = NULL;
    bool ok = line && cJSON_AddStringToObject(line, "state", stages[state->stage]) &&
              cJSON_AddNumberToObject(line, "samples", (double)state->samples) &&
              cJSON_AddNumberToObject(line, "bad", (double)state->bad) &&
              cJSON_AddStringToObject(line, "digest", digest) &&
              (sizes = cJSON_AddArrayToObject(line, "bytes")) != NULL;
    for (int i = 0; ok && i < state->file_count; i++)
        ok = cJSON_AddItemToArray(sizes, cJSON_CreateNumber((double)state->sizes[i]));
    tenon_status status = ok ? add_line(journal, journal->fd, line) : batch_no_memory();
    cJSON_Delete(line);
    if (status == TENON_OK)
        journal->state = *state;
    return status;
}

void batch_journal_close(batch_journal *journal) {
    if (journal->fd >= 0)
        batch_disk_used->close(journal->fd);
    if (journal->old_fd >= 0)
        batch_disk_used->close(journal->old_fd);
    cJSON_Delete(journal->job);
    free(journal->path);
    *journal = (batch_journal){.fd = -1, .old_fd = -1};
}
