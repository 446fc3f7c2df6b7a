#include "merge.h"
#include "file.h"
#include "formats.h"
#include "identity.h"
#include "journal.h"
#include "outputs.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

typedef struct shard {
    batch_journal journal;
    char *folder; /* of the journal, and of the files */
} shard;

typedef struct merge {
    const batch_job *job;
    shard *shards;
    int count;
    int64_t samples;
    char *piece;
} merge;

static const cJSON *facts_of(const shard *s) {
    return cJSON_GetObjectItemCaseSensitive(s->journal.job, "job");
}

/* ---- The journals ---- */

static tenon_status open_shard(merge *m, int index) {
    const char *value = m->job->outputs.items[0].value;
    shard *s = &m->shards[index];
    char *file = NULL, *path = NULL;
    bool folder = !batch_is_file_path(value);
    tenon_status status = batch_shard_path(value, index, m->job->shards, &file);
    if (status == TENON_OK)
        status = batch_journal_path(file, folder ? value : NULL, index, m->job->shards, &path);
    free(file);
    BATCH_TRY(status);
    const char *slash = strrchr(path, '/');
    s->folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("");
    if (!s->folder)
        status = batch_no_memory();
    else if (!batch_file_exists(path))
        status = tenon_fail(TENON_NOT_FOUND, "shard %d of %d was not begun: there is no '%s'",
                            index, m->job->shards, path);
    else
        status = batch_journal_open(path, &s->journal);
    free(path);
    BATCH_TRY(status);
    m->count = index + 1;
    if (s->journal.state.stage != BATCH_DONE)
        return tenon_fail(TENON_INVALID_FILE,
                          "shard %d of %d is not done: %" PRId64 " samples are; --resume goes on "
                          "with it",
                          index, m->job->shards, s->journal.state.samples);
    m->samples += s->journal.state.samples;
    return TENON_OK;
}

/* What is only about this shard, and what may differ between machines, with other roundings. */
static const char *const machine[] = {"shard",   "files", "CPU", "ISA", "version of oneDNN",
                                      "threads", NULL};
static const char *const own[] = {"shard", "files", NULL};

static tenon_status compare_shards(const merge *m) {
    for (int i = 1; i < m->count; i++) {
        const cJSON *a = facts_of(&m->shards[0]), *b = facts_of(&m->shards[i]);
        batch_bytes text = {0};
        char other[40];
        bool differs = false, rounds = false;
        snprintf(other, sizeof other, "in shard %d", i);
        tenon_status status =
            batch_identity_differs(a, b, machine, "in shard 0", other, &differs, &text);
        if (status == TENON_OK && !differs)
            status = batch_identity_differs(a, b, own, "in shard 0", other, &rounds, &text);
        if (status == TENON_OK && differs)
            status =
                tenon_fail(TENON_INVALID_FILE, "the shards are of different jobs:%s", text.data);
        if (status == TENON_OK && rounds && !m->job->quiet)
            fprintf(stderr, "tenon batch: the shards may round differently:%s\n", text.data);
        batch_bytes_free(&text);
        BATCH_TRY(status);
    }
    return TENON_OK;
}

/* ---- The files ---- */

/* The name of a file, which the journal tells; NULL: there is none. */
static const char *name_of(const shard *s, int index) {
    const cJSON *files = cJSON_GetObjectItemCaseSensitive(facts_of(s), "files");
    const cJSON *name = cJSON_IsArray(files) ? cJSON_GetArrayItem(files, index) : NULL;
    return cJSON_IsString(name) ? name->valuestring : NULL;
}

static tenon_status shard_file(const merge *m, int index, int file, char **out) {
    const shard *s = &m->shards[index];
    const char *name = name_of(s, file);
    if (!name)
        return tenon_fail(TENON_INVALID_FILE, "%s: it names no file %d", s->journal.path, file);
    return asprintf(out, "%s%s", s->folder, name) < 0 ? batch_no_memory() : TENON_OK;
}

/* "DIR/a.npy" of shard 0's "DIR/a.0-of-2.npy". */
static tenon_status merged_file(const merge *m, int file, char **out) {
    char mark[48], *path = NULL;
    BATCH_TRY(shard_file(m, 0, file, &path));
    snprintf(mark, sizeof mark, ".0-of-%d", m->job->shards);
    char *at = strstr(path + strlen(m->shards[0].folder), mark);
    if (at)
        memmove(at, at + strlen(mark), strlen(at + strlen(mark)) + 1);
    *out = path;
    return at ? TENON_OK
              : tenon_fail(TENON_INVALID_FILE, "%s: '%s' is no shard's file",
                           m->shards[0].journal.path, path);
}

static size_t header_size(const merge *m, int file) {
    const cJSON *headers = cJSON_GetObjectItemCaseSensitive(m->shards[0].journal.job, "headers");
    const cJSON *size = cJSON_GetArrayItem(headers, file);
    return cJSON_IsNumber(size) && size->valuedouble >= 0 ? (size_t)size->valuedouble : 0;
}

/* Appends bytes `from` to `end` of a file, which has `size`. */
static tenon_status append_file(merge *m, batch_file *to, const char *path, int64_t from,
                                int64_t end, int64_t size) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return tenon_fail(batch_io_status(errno), "%s: cannot be opened: %s", path,
                          strerror(errno));
    tenon_status status = TENON_OK;
    if (fstat(fd, &info) != 0 || info.st_size != size)
        status = tenon_fail(TENON_INVALID_FILE, "%s: it is not as its journal tells", path);
    while (status == TENON_OK && from < end) {
        size_t want = end - from < PIECE ? (size_t)(end - from) : PIECE;
        ssize_t n = pread(fd, m->piece, want, (off_t)from);
        if (n < 0 && errno == EINTR)
            continue;
        status =
            n > 0 ? batch_file_append(to, m->piece, (size_t)n)
                  : tenon_fail(n < 0 ? batch_io_status(errno) : TENON_IO, "%s: cannot be read: %s",
                               path, n < 0 ? strerror(errno) : "it became shorter");
        from += n;
    }
    close(fd);
    return status;
}

/* The first shard's header, for all samples. Tables in text say nothing about their length. */
static tenon_status add_header(merge *m, batch_file *to, const char *first, int64_t first_size,
                               int file) {
    batch_archive *archive = NULL;
    batch_array array;
    batch_sink *sink = NULL;
    size_t size = header_size(m, file);
    bool safetensors =
        strlen(first) > 12 && strcmp(first + strlen(first) - 12, ".safetensors") == 0;
    if (!batch_is_array_path(first))
        return append_file(m, to, first, 0, (int64_t)size, first_size);
    tenon_status status = batch_archive_open(first, &archive);
    if (status == TENON_OK)
        status = batch_archive_find(archive, "", true, &array);
    if (status == TENON_OK) {
        tenon_view row = array.view;
        row.rank--;
        memmove(row.shape, row.shape + 1, (size_t)row.rank * sizeof *row.shape);
        status = safetensors ? batch_sink_safetensors(array.name, &row, &sink)
                             : batch_sink_npy(array.name, &row, &sink);
    }
    if (status == TENON_OK && sink->header_size != size)
        status = tenon_fail(TENON_INVALID_FILE, "%s: it is not as its journal tells", first);
    if (status == TENON_OK)
        status = sink->header(sink, m->samples, m->piece);
    if (status == TENON_OK)
        status = batch_file_append(to, m->piece, size);
    batch_sink_destroy(&sink);
    batch_archive_close(&archive);
    return status;
}

/* A shard without bad samples may have no list of them. */
static bool is_left_out(const merge *m, int index, const char *path) {
    return !batch_file_exists(path) && !batch_is_array_path(path) &&
           m->shards[index].journal.state.bad == 0;
}

static tenon_status add_shard(merge *m, batch_file *to, int index, int file) {
    char *path = NULL;
    int64_t size = m->shards[index].journal.state.sizes[file];
    BATCH_TRY(shard_file(m, index, file, &path));
    tenon_status status = TENON_OK;
    if (!is_left_out(m, index, path))
        status = append_file(m, to, path, (int64_t)header_size(m, file), size, size);
    free(path);
    return status;
}

/* The first shard that has the file; NULL: none. The caller frees it. */
static tenon_status find_first(const merge *m, int file, char **out, int64_t *size) {
    for (int i = 0; i < m->count; i++) {
        char *path = NULL;
        BATCH_TRY(shard_file(m, i, file, &path));
        if (!is_left_out(m, i, path)) {
            *out = path;
            *size = m->shards[i].journal.state.sizes[file];
            return TENON_OK;
        }
        free(path);
    }
    *out = NULL;
    return TENON_OK;
}

static tenon_status write_merged(merge *m, batch_file *to, int file) {
    char *first = NULL, *path = NULL;
    int64_t size = 0;
    BATCH_TRY(find_first(m, file, &first, &size));
    if (!first)
        return TENON_OK;
    tenon_status status = merged_file(m, file, &path);
    if (status == TENON_OK)
        status = batch_file_name(path, to);
    if (status == TENON_OK && !m->job->overwrite && batch_file_exists(to->path))
        status = tenon_fail(TENON_IO, "%s: it exists; --overwrite replaces it", path);
    if (status == TENON_OK)
        status = batch_file_open(to, 0);
    if (status == TENON_OK)
        status = add_header(m, to, first, size, file);
    for (int i = 0; i < m->count && status == TENON_OK; i++)
        status = add_shard(m, to, i, file);
    if (status == TENON_OK)
        status = batch_file_sync(to);
    free(first);
    free(path);
    return status;
}

/* ---- All ---- */

static tenon_status merge_all(merge *m, batch_file *files) {
    m->shards = calloc((size_t)m->job->shards, sizeof *m->shards);
    m->piece = malloc(PIECE);
    if (!m->shards || !m->piece)
        return batch_no_memory();
    for (int i = 0; i < m->job->shards; i++)
        m->shards[i].journal = (batch_journal){.fd = -1, .old_fd = -1};
    for (int i = 0; i < m->job->shards; i++)
        BATCH_TRY(open_shard(m, i));
    BATCH_TRY(compare_shards(m));
    int count = m->shards[0].journal.state.file_count;
    for (int i = 0; i < count; i++)
        BATCH_TRY(write_merged(m, &files[i], i));
    for (int i = 0; i < count; i++)
        if (files[i].fd >= 0)
            BATCH_TRY(batch_file_rename(&files[i]));
    for (int i = 0; i < count; i++)
        if (files[i].fd >= 0)
            BATCH_TRY(batch_file_sync_folder(files[i].path));
    return TENON_OK;
}

tenon_status batch_merge(const batch_job *job) {
    merge m = {.job = job};
    batch_file files[BATCH_MOST_FILES];
    for (int i = 0; i < BATCH_MOST_FILES; i++)
        files[i] = (batch_file){.fd = -1};
    if (job->outputs.count == 0 || job->shards < 1)
        return tenon_fail(TENON_INVALID_ARGUMENT, "merging takes an output and how many shards");
    tenon_status status = merge_all(&m, files);
    if (status == TENON_OK && !job->quiet)
        fprintf(stderr, "tenon batch: %" PRId64 " samples of %d shards\n", m.samples, m.count);
    for (int i = 0; i < BATCH_MOST_FILES; i++)
        batch_file_close(&files[i]);
    for (int i = 0; m.shards && i < job->shards; i++) {
        batch_journal_close(&m.shards[i].journal);
        free(m.shards[i].folder);
    }
    free(m.shards);
    free(m.piece);
    return status;
}
