/* tenon_load: which kind of file it is decides its content. */
#include "core/fail.h"
#include "core/profile.h"
#include "core/tensor.h"
#include "load/map_file.h"
#include <stdlib.h>
#include <string.h>
#include <tenon/load.h>

static tenon_status load_text(const char *path, const tn_storage *file, tenon_graph **out) {
    char *text = malloc(file->size + 1);
    if (!text)
        return tn_no_memory();
    memcpy(text, file->data, file->size);
    text[file->size] = '\0';
    tenon_status status = tenon_graph_parse(text, path, out);
    free(text);
    return status;
}

static bool starts(const tn_storage *file, size_t at, const char *mark, size_t length) {
    return file->size - at >= length && memcmp((const char *)file->data + at, mark, length) == 0;
}

static tenon_status load(const char *path, tenon_graph **out) {
    tn_storage *file = NULL;
    TN_TRY(tn_map_file(path, &file));
    size_t at = 0;
    while (at < file->size && strchr(" \t\r\n", ((const char *)file->data)[at]) &&
           ((const char *)file->data)[at])
        at++;
    tenon_status status;
    if (starts(file, 0, "PK", 2))
        status = tenon_load_pt2(path, out);
    else if (starts(file, at, "{", 1))
        status = tenon_load_json(path, out);
    else if (starts(file, at, "graph", 5) || starts(file, at, "#", 1))
        status = load_text(path, file, out);
    else if (file->size == 0)
        status = tn_fail(TENON_INVALID_FILE, "%s: the file is empty", path);
    else
        status =
            tn_fail(TENON_INVALID_FILE,
                    "%s: neither a .pt2 archive nor a graph as JSON or text; models of PyTorch are "
                    "exported with torch.export.save",
                    path);
    tn_storage_drop(&file);
    return status;
}

tenon_status tenon_load(const char *path, tenon_graph **out) {
    tn_profile_token token = {0};
    if (tn_profile_on(TN_PROFILE_EVENTS))
        token = tn_profile_begin_named(TENON_EVENT_LOAD, "load", path);
    tenon_status status = load(path, out);
    tn_profile_end(token);
    return status;
}
