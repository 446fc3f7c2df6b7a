/* Names of outputs, from the tree that the program's out_spec describes: "logits", "0", "boxes.1".
 */
#include "load/pt2.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct walk {
    tn_pt2 *pt2;
    const char **names;
    int count, capacity;
    bool failed;
    char path[1024];
} walk;

static void leaf(walk *w) {
    if (w->count < w->capacity && !w->failed) {
        w->names[w->count] = tn_arena_strdup(&w->pt2->arena, w->path);
        w->failed = !w->names[w->count];
    }
    w->count++;
}

/* The fields of a namedtuple type, or NULL. */
static const cJSON *namedtuple_fields(const tn_pt2 *pt2, const char *context) {
    const cJSON *table = tn_json_get(pt2->module, "treespec_namedtuple_fields");
    const cJSON *fields = tn_json_get(tn_json_get(table, context), "fields");
    return tn_json_first(fields);
}

/* The context of a dict is its keys, as JSON text; types that users register often give the same.
 */
static cJSON *read_keys(const char *context) {
    cJSON *keys = NULL;
    if (context && *context == '[' &&
        tn_json_parse("out_spec", context, strlen(context), &keys) != TENON_OK)
        return NULL;
    return keys;
}

/* NOLINTNEXTLINE(misc-no-recursion): nested as deep as cJSON reads */
static void visit(walk *w, const cJSON *spec, size_t length) {
    const cJSON *type = tn_json_get(spec, "type");
    if (!cJSON_IsObject(spec) || cJSON_IsNull(type)) {
        leaf(w);
        return;
    }
    const char *context = tn_json_string(tn_json_get(spec, "context"));
    cJSON *keys = read_keys(context);
    const cJSON *key = tn_json_first(keys);
    const char *type_name = tn_json_string(type);
    if (!key && context && type_name && strcmp(type_name, "collections.namedtuple") == 0)
        key = namedtuple_fields(w->pt2, context);
    int index = 0;
    const cJSON *children = tn_json_get(spec, "children_spec");
    for (const cJSON *child = tn_json_first(children); child; child = child->next, index++) {
        const char *name = tn_json_string(key);
        char number[16];
        snprintf(number, sizeof number, "%d", index);
        snprintf(w->path + length, sizeof w->path - length, "%s%s", length ? "." : "",
                 name ? name : number);
        visit(w, child, strlen(w->path));
        w->path[length] = '\0';
        key = key ? key->next : NULL;
    }
    cJSON_Delete(keys);
}

static const cJSON *root_signature(const tn_pt2 *pt2) {
    const cJSON *calls = tn_json_get(pt2->module, "module_call_graph");
    for (const cJSON *item = tn_json_first(calls); item; item = item->next) {
        const char *fqn = tn_json_string(tn_json_get(item, "fqn"));
        if (fqn && !*fqn)
            return tn_json_get(item, "signature");
    }
    return NULL;
}

const char **tn_pt2_output_names(tn_pt2 *pt2, int count) {
    const char *text = tn_json_string(tn_json_get(root_signature(pt2), "out_spec"));
    cJSON *tree = NULL;
    walk w = {.pt2 = pt2, .capacity = count};
    w.names = tn_arena_array(&pt2->arena, (size_t)count + 1, sizeof *w.names);
    if (!w.names || !text || tn_json_parse("out_spec", text, strlen(text), &tree) != TENON_OK)
        return NULL;
    /* [version, tree] */
    const cJSON *version = tn_json_first(tree);
    if (version && version->next)
        visit(&w, version->next, 0);
    cJSON_Delete(tree);
    return w.count == count && !w.failed ? w.names : NULL;
}
