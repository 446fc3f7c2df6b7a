/* Suites: lists of models with their batch sizes, inputs and expected outputs. */
#include "bench.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

double bench_number(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : __builtin_nan("");
}

const char *bench_text(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static void free_pairs(bench_pairs *pairs) {
    for (int i = 0; i < pairs->count; i++) {
        free(pairs->items[i].name);
        free(pairs->items[i].value);
    }
    free(pairs->items);
}

static void free_case(bench_case *c) {
    free(c->name);
    free(c->path);
    free_pairs(&c->inputs);
    free_pairs(&c->expected);
}

void bench_cases_free(bench_cases *cases) {
    for (int i = 0; i < cases->count; i++)
        free_case(&cases->items[i]);
    free(cases->items);
    *cases = (bench_cases){0};
}

/* Takes over `c`, also on failure. */
static bool add_case(bench_cases *cases, bench_case *c) {
    bench_case *grown = realloc(cases->items, ((size_t)cases->count + 1) * sizeof *grown);
    if (grown)
        cases->items = grown;
    if (!grown || !c->name || !c->path) {
        free_case(c);
        return bench_fail("out of memory");
    }
    cases->items[cases->count++] = *c;
    return true;
}

bool bench_cases_add(bench_cases *cases, const char *path, int64_t batch) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *point = strrchr(name, '.');
    size_t length = point && point > name ? (size_t)(point - name) : strlen(name);
    bench_case c = {.name = strndup(name, length), .path = strdup(path), .batch = batch};
    return add_case(cases, &c);
}

/* ---- Reading ---- */

typedef struct reader {
    const char *path; /* of the file */
    char *folder;     /* that its paths start from */
    const char *const *names;
    int name_count;
    const int64_t *batches;
    int batch_count;
    bool *names_found, *batches_found;
    bench_cases *out;
} reader;

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    struct stat facts;
    if (!file || fstat(fileno(file), &facts) != 0) {
        bench_fail("%s: %s", path, strerror(errno));
    } else if (!S_ISREG(facts.st_mode)) {
        bench_fail("%s: this is no file", path);
    } else if ((text = malloc((size_t)facts.st_size + 1)) == NULL) {
        bench_fail("out of memory");
    } else {
        text[fread(text, 1, (size_t)facts.st_size, file)] = 0;
        if (ferror(file)) {
            bench_fail("%s: %s", path, strerror(errno));
            free(text);
            text = NULL;
        }
    }
    if (file)
        fclose(file);
    return text;
}

cJSON *bench_read_json(const char *path) {
    char *text = read_text(path);
    const char *end = NULL;
    cJSON *json = text ? cJSON_ParseWithOpts(text, &end, true) : NULL;
    if (text && !json) {
        int line = 1;
        for (const char *c = text; end && c < end; c++)
            line += *c == '\n';
        bench_fail("%s: this is no JSON, from line %d on", path, line);
    }
    free(text);
    return json;
}

static char *join(const char *folder, const char *name) {
    char *path = NULL;
    if (*name == '/' || !*folder)
        return strdup(name);
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* {"NAME": "FILE.npy", ...} */
static bool read_pairs(const reader *r, const cJSON *model, int index, const char *key,
                       bench_pairs *out) {
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(model, key), *item;
    if (!object || cJSON_IsNull(object))
        return true;
    if (!cJSON_IsObject(object))
        return bench_fail("%s: models[%d].%s is no object", r->path, index, key);
    out->items = calloc((size_t)cJSON_GetArraySize(object) + 1, sizeof *out->items);
    if (!out->items)
        return bench_fail("out of memory");
    cJSON_ArrayForEach(item, object) {
        if (!cJSON_IsString(item))
            return bench_fail("%s: models[%d].%s.%s is no text", r->path, index, key, item->string);
        struct bench_pair *pair = &out->items[out->count++];
        pair->name = strdup(item->string);
        pair->value = join(r->folder, item->valuestring);
        if (!pair->name || !pair->value)
            return bench_fail("out of memory");
    }
    return true;
}

static bool is_wanted(const reader *r, const char *name, int64_t batch) {
    int by_name = -1, by_batch = -1;
    for (int i = 0; i < r->name_count; i++)
        by_name = strcmp(r->names[i], name) == 0 ? i : by_name;
    for (int i = 0; i < r->batch_count; i++)
        by_batch = r->batches[i] == batch ? i : by_batch;
    if (by_name >= 0)
        r->names_found[by_name] = true;
    if (r->name_count > 0 && by_name < 0)
        return false;
    if (by_batch >= 0)
        r->batches_found[by_batch] = true;
    return r->batch_count == 0 || by_batch >= 0;
}

static bool read_model(reader *r, const cJSON *model, int index) {
    const char *name = bench_text(model, "name"), *file = bench_text(model, "file");
    const cJSON *batch = cJSON_GetObjectItemCaseSensitive(model, "batch");
    if (!*name || !*file)
        return bench_fail("%s: models[%d] has no '%s'", r->path, index, *name ? "file" : "name");
    if (batch && !(cJSON_IsNumber(batch) && batch->valuedouble >= 1 &&
                   batch->valuedouble == (double)(int64_t)batch->valuedouble))
        return bench_fail("%s: models[%d].batch is no whole number above 0", r->path, index);
    bench_case c = {.batch = batch ? (int64_t)batch->valuedouble : 0, .from_suite = true};
    if (!is_wanted(r, name, c.batch))
        return true;
    c.name = strdup(name);
    c.path = join(r->folder, file);
    if (!read_pairs(r, model, index, "inputs", &c.inputs) ||
        !read_pairs(r, model, index, "outputs", &c.expected)) {
        free_case(&c);
        return false;
    }
    return add_case(r->out, &c);
}

/* What the suite has, for the message that something is not there. */
static void list_names(const cJSON *models, char *text, size_t capacity) {
    const cJSON *model;
    size_t used = 0;
    const char *last = "";
    text[0] = 0;
    cJSON_ArrayForEach(model, models) {
        const char *name = bench_text(model, "name");
        if (strcmp(name, last) != 0 && used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? ", " : "", name);
        last = name;
    }
}

static bool check_found(const reader *r, const cJSON *models) {
    char text[768];
    list_names(models, text, sizeof text);
    for (int i = 0; i < r->name_count; i++) {
        if (!r->names_found[i])
            return bench_fail("%s has no model '%s'; it has %s", r->path, r->names[i], text);
    }
    for (int i = 0; i < r->batch_count; i++) {
        if (!r->batches_found[i])
            return bench_fail("%s has none of these models with batch size %lld", r->path,
                              (long long)r->batches[i]);
    }
    return r->out->count > 0 || bench_fail("%s has no models", r->path);
}

static bool read_models(reader *r, const cJSON *json) {
    const cJSON *models = cJSON_GetObjectItemCaseSensitive(json, "models"), *model;
    int index = 0;
    if (!cJSON_IsArray(models))
        return bench_fail("%s: there is no list 'models'", r->path);
    cJSON_ArrayForEach(model, models) {
        if (!read_model(r, model, index++))
            return false;
    }
    return check_found(r, models);
}

bool bench_suite_read(const char *path, const char *const *names, int name_count,
                      const int64_t *batches, int batch_count, bench_cases *out) {
    struct stat facts;
    bool folder = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
    char *file = folder ? join(path, "suite.json") : strdup(path);
    char *slash = file ? strrchr(file, '/') : NULL;
    reader r = {.path = file,
                .folder =
                    strndup(file ? file : "", slash ? (size_t)(slash - file) + (slash == file) : 0),
                .names = names,
                .name_count = name_count,
                .batches = batches,
                .batch_count = batch_count,
                .names_found = calloc((size_t)name_count + 1, 1),
                .batches_found = calloc((size_t)batch_count + 1, 1),
                .out = out};
    bool fine =
        (file && r.folder && r.names_found && r.batches_found) || bench_fail("out of memory");
    cJSON *json = fine ? bench_read_json(file) : NULL;
    fine = json && read_models(&r, json);
    cJSON_Delete(json);
    free(file);
    free(r.folder);
    free(r.names_found);
    free(r.batches_found);
    if (!fine)
        bench_cases_free(out);
    return fine;
}
