/* tenon_load: which kind of file it is decides its content. */
#include "core/fail.h"
#include "core/graph.h"
#include "core/profile.h"
#include "core/text.h"
#include "load/file.h"
#include "load/kinds.h"
#include <stdlib.h>
#include <string.h>
#include <tenon/load.h>

#define NODES_MAX ((int64_t)1 << 22)

static tenon_status load_text(const char *path, const tenon_load_options *options,
                              tenon_graph **out) {
    char *text;
    size_t size;
    TN_TRY(tn_file_read_all(path, &text, &size));
    tenon_status status = tn_graph_parse(text, path, options->max_unpacked_bytes, out);
    free(text);
    return status;
}

/* What stands behind white space, in the first bytes of a file. */
static bool starts(const char *text, const char *mark) {
    return strncmp(text + strspn(text, " \t\r\n"), mark, strlen(mark)) == 0;
}

static tenon_status read_start(const char *path, char *start, size_t room) {
    tn_file file;
    TN_TRY(tn_file_open(&file, path));
    size_t size = file.size < room - 1 ? file.size : room - 1;
    tenon_status status = file.size == 0
                              ? tn_fail(TENON_INVALID_FILE, "%s: the file is empty", path)
                              : tn_file_read(&file, 0, start, size);
    start[size] = '\0';
    if (status == TENON_OK)
        status = tn_file_check(&file);
    tn_file_close(&file);
    return status;
}

static tenon_status load(const char *path, const tenon_load_options *options, tenon_graph **out) {
    char start[4096];
    TN_TRY(read_start(path, start, sizeof start));
    if (memcmp(start, "PK", 2) == 0)
        return tn_load_pt2(path, options, out);
    if (starts(start, "{"))
        return tn_load_json(path, options, out);
    if (starts(start, "graph") || starts(start, "#"))
        return load_text(path, options, out);
    return tn_fail(TENON_INVALID_FILE,
                   "%s: neither a .pt2 archive nor a graph as JSON or text; models of PyTorch are "
                   "exported with torch.export.save",
                   path);
}

typedef tenon_status loader(const char *path, const tenon_load_options *options, tenon_graph **out);

static tenon_status check_nodes(const char *path, const tenon_load_options *options,
                                const tenon_graph *graph) {
    int64_t most = options->max_nodes > 0 ? options->max_nodes : NODES_MAX;
    if (graph->node_count <= most)
        return TENON_OK;
    return tn_fail(TENON_LIMIT,
                   "%s: the graph has %lld nodes, more than max_nodes allows, %lld; "
                   "tenon_load_options.max_nodes or --allow max_nodes=N raises it",
                   path, (long long)graph->node_count, (long long)most);
}

static tenon_status load_within(loader *kind, const char *path, const tenon_load_options *options,
                                tenon_graph **out) {
    static const tenon_load_options defaults = {0};
    tenon_graph *graph = NULL;
    tn_profile_token token = {0};
    if (!options)
        options = &defaults;
    if (options->max_nodes < 0 || options->max_unpacked_bytes < 0)
        return tn_fail(TENON_INVALID_ARGUMENT, "load options: a limit is negative");
    if (tn_profile_on(TN_PROFILE_EVENTS))
        token = tn_profile_begin_named(TENON_EVENT_LOAD, "load", path);
    tenon_status status = kind(path, options, &graph);
    tn_profile_end(token);
    if (status == TENON_OK)
        status = check_nodes(path, options, graph);
    if (status == TENON_OK)
        *out = graph;
    else
        tenon_graph_destroy(&graph);
    return status;
}

tenon_status tenon_load_with(const char *path, const tenon_load_options *options,
                             tenon_graph **out) {
    return load_within(load, path, options, out);
}

tenon_status tenon_load(const char *path, tenon_graph **out) {
    return load_within(load, path, NULL, out);
}

tenon_status tenon_load_pt2(const char *path, tenon_graph **out) {
    return load_within(tn_load_pt2, path, NULL, out);
}

tenon_status tenon_load_json(const char *path, tenon_graph **out) {
    return load_within(tn_load_json, path, NULL, out);
}
