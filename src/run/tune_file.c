/*
 *     {"format": "tenon choices", "version": 1, "entries": [
 *       {"machine": "...", "candidate": "# before: ...\n# oneDNN, ...\ngraph ...", "choice":
 * "oneDNN", "times_us": {"oneDNN": 12.5, ...}}]}
 */
#include "run/tune_file.h"
#include "core/fail.h"
#include "core/replace.h"
#include "load/file.h"
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT "tenon choices"
#define VERSION 1
#define MOST_ENTRIES 4096   /* the oldest go first */
#define MOST_BYTES 33554432 /* a larger file is none of ours */

/* ---- Reading ---- */

static const char *text_in(const cJSON *object, const char *name) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text ? text : "";
}

/* The entries of the file's text; NULL, and why: they are not to be had. */
static cJSON *parse(const char *text, size_t size, const char **why) {
    const char *end = NULL, *last = text + size;
    cJSON *root = cJSON_ParseWithLengthOpts(text, size, &end, false), *entries = NULL;
    while (root && end < last && strchr(" \t\r\n", *end) && *end)
        end++;
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(root, "version");
    if (!root)
        *why = "it is no JSON, or was cut off";
    else if (end < last)
        *why = "other text follows its JSON";
    else if (strcmp(text_in(root, "format"), FORMAT) != 0 || !cJSON_IsNumber(version))
        *why = "it holds something else";
    else if (version->valuedouble > VERSION)
        *why = "a newer Tenon wrote it";
    else
        entries = cJSON_DetachItemFromObjectCaseSensitive(root, "entries");
    if (entries && !cJSON_IsArray(entries)) {
        cJSON_Delete(entries);
        entries = NULL;
    }
    if (root && !entries && !*why)
        *why = "it has no entries";
    cJSON_Delete(root);
    return entries;
}

/* The entries that the file has now; NULL when memory is out. */
static cJSON *read_entries(tn_tune_file *file) {
    char *text = NULL;
    size_t size = 0;
    const char *why = NULL;
    cJSON *entries = NULL;
    struct stat info;
    file->usable = true;
    bool there = stat(file->path, &info) == 0;
    if (there ? S_ISREG(info.st_mode) && info.st_size == 0 : errno == ENOENT)
        return cJSON_CreateArray();
    if (there && !S_ISREG(info.st_mode))
        why = "it is not a regular file";
    else if (there && info.st_size > MOST_BYTES)
        why = "it is too large";
    else if (tn_file_read_all(file->path, &text, &size) != TENON_OK)
        why = tenon_last_error();
    else
        entries = parse(text, size, &why);
    free(text);
    if (why) {
        file->usable = false;
        tn_log(TENON_LOG_WARN, "choices are neither read from '%s' nor kept there: %s", file->path,
               why);
    }
    return entries ? entries : cJSON_CreateArray();
}

static char *join(const char *folder, const char *rest) {
    char *path = malloc(strlen(folder) + strlen(rest) + 1);
    if (path)
        strcat(strcpy(path, folder), rest);
    return path;
}

static char *default_path(void) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    return cache && *cache == '/' ? join(cache, "/tenon/choices.json")
                                  : join(home ? home : "", "/.cache/tenon/choices.json");
}

tenon_status tn_tune_open(tn_tune_file *file, const char *path) {
    *file = (tn_tune_file){.path = path && *path ? strdup(path) : default_path()};
    if (!file->path)
        return tn_no_memory();
    file->added = cJSON_CreateArray();
    file->entries = read_entries(file);
    return file->added && file->entries ? TENON_OK : tn_no_memory();
}

void tn_tune_close(tn_tune_file *file) {
    cJSON_Delete(file->entries);
    cJSON_Delete(file->added);
    free(file->path);
    *file = (tn_tune_file){0};
}

/* ---- Looking up ---- */

static bool is_about(const cJSON *item, const char *machine, const char *candidate) {
    return strcmp(text_in(item, "machine"), machine) == 0 &&
           strcmp(text_in(item, "candidate"), candidate) == 0;
}

static cJSON *find(const cJSON *entries, const char *machine, const char *candidate) {
    cJSON *item;
    cJSON_ArrayForEach(item, entries) {
        if (is_about(item, machine, candidate))
            return item;
    }
    return NULL;
}

/* Somebody edited it. */
static void warn_choice(const tn_tune_file *file, const char *op, const char *choice,
                        const char *const *ways, int way_count) {
    tn_text possible = {0};
    for (int i = 0; i < way_count; i++)
        tn_text_add(&possible, "%s%s", i > 0 ? ", " : "", ways[i]);
    if (!possible.failed)
        tn_log(TENON_LOG_WARN, "'%s': there is no choice '%s' for %s, only %s", file->path, choice,
               op, possible.data);
    tn_text_free(&possible);
}

bool tn_tune_find(const tn_tune_file *file, const char *op, const char *const *ways, int way_count,
                  tn_tune_entry *entry) {
    const cJSON *item = find(file->added, entry->machine, entry->candidate);
    if (!item)
        item = find(file->entries, entry->machine, entry->candidate);
    const cJSON *times = cJSON_GetObjectItemCaseSensitive(item, "times_us");
    int way = 0;
    while (item && way < way_count && strcmp(text_in(item, "choice"), ways[way]) != 0)
        way++;
    if (item && way == way_count)
        warn_choice(file, op, text_in(item, "choice"), ways, way_count);
    if (!item || way == way_count)
        return false;
    entry->way = way;
    for (int i = 0; i < way_count; i++) {
        const cJSON *time = cJSON_GetObjectItemCaseSensitive(times, ways[i]);
        entry->times[i] = cJSON_IsNumber(time) && time->valuedouble > 0 ? time->valuedouble : 0;
    }
    return true;
}

/* ---- Writing ---- */

/* Takes `item` over, in the place of an older one about the same. */
static bool put(cJSON *entries, cJSON *item) {
    cJSON *old = find(entries, text_in(item, "machine"), text_in(item, "candidate"));
    if (old)
        cJSON_Delete(cJSON_DetachItemViaPointer(entries, old));
    if (cJSON_AddItemToArray(entries, item))
        return true;
    cJSON_Delete(item);
    return false;
}

tenon_status tn_tune_add(tn_tune_file *file, const char *const *ways, int way_count,
                         const tn_tune_entry *entry) {
    cJSON *item = cJSON_CreateObject();
    bool done = cJSON_AddStringToObject(item, "machine", entry->machine) &&
                cJSON_AddStringToObject(item, "candidate", entry->candidate) &&
                cJSON_AddStringToObject(item, "choice", ways[entry->way]);
    cJSON *times = cJSON_AddObjectToObject(item, "times_us");
    for (int i = 0; i < way_count; i++) {
        double tenths = (double)(int64_t)(entry->times[i] * 10 + 0.5);
        if (entry->times[i] > 0)
            done = done && cJSON_AddNumberToObject(times, ways[i], tenths / 10);
    }
    if (done && times)
        return put(file->added, item) ? TENON_OK : tn_no_memory();
    cJSON_Delete(item);
    return tn_no_memory();
}

/* Makes the folders of the path, as far as they are not there. */
static void make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
}

/* Moves what is in `added`. */
static bool merge(cJSON *entries, cJSON *added) {
    while (cJSON_GetArraySize(added) > 0) {
        if (!put(entries, cJSON_DetachItemFromArray(added, 0)))
            return false;
    }
    while (cJSON_GetArraySize(entries) > MOST_ENTRIES)
        cJSON_DeleteItemFromArray(entries, 0);
    return true;
}

static char *print(cJSON *entries) {
    cJSON *root = cJSON_CreateObject();
    char *text = NULL;
    if (cJSON_AddStringToObject(root, "format", FORMAT) &&
        cJSON_AddNumberToObject(root, "version", VERSION) &&
        cJSON_AddItemReferenceToObject(root, "entries", entries))
        text = cJSON_Print(root);
    cJSON_Delete(root);
    return text;
}

static tenon_status write_entries(const tn_tune_file *file) {
    tn_replace replace = {0};
    char *text = print(file->entries);
    if (!text)
        return tn_no_memory();
    make_folders(file->path);
    tenon_status status = tn_replace_open(&replace, file->path);
    if (status == TENON_OK) {
        fputs(text, replace.file);
        fputc('\n', replace.file);
        status = tn_replace_commit(&replace);
    }
    tn_replace_close(&replace);
    cJSON_free(text);
    return status;
}

void tn_tune_save(tn_tune_file *file) {
    if (!file->usable || cJSON_GetArraySize(file->added) == 0)
        return;
    /* Other processes may have written meanwhile. */
    cJSON *entries = read_entries(file);
    if (entries) {
        cJSON_Delete(file->entries);
        file->entries = entries;
    }
    bool done = entries && merge(entries, file->added);
    if (!file->usable)
        return;
    if ((done ? write_entries(file) : tn_no_memory()) == TENON_OK) {
        tn_log(TENON_LOG_DEBUG, "choices are kept in '%s'", file->path);
        return;
    }
    file->usable = false; /* so that they are at hand in this process, and this is said once */
    tn_log(TENON_LOG_WARN, "choices are not kept: %s", tenon_last_error());
}
