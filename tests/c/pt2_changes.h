/* Exported programs that are changed before they are loaded. */
#ifndef TEST_PT2_CHANGES_H
#define TEST_PT2_CHANGES_H

#include "archive.h"
#include <check.h>
#include <tenon/tenon.h>

#define CASE(name) TEST_DATA "/pt2-cases/" name ".pt2"
#define MODEL "models/model.json"
#define WEIGHTS "data/weights/model_weights_config.json"
#define WEIGHT "data/weights/weight_0"
#define CONSTANTS "data/constants/model_constants_config.json"

static inline tenon_graph *load(const char *path) {
    tenon_graph *graph = NULL;
    tenon_status status = tenon_load(path, &graph);
    ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
    return graph;
}

static inline void check_refused(const char *path, tenon_status status, const char *message) {
    tenon_graph *graph = NULL;
    tenon_status got = tenon_load_pt2(path, &graph);
    ck_assert_msg(got == status && strstr(tenon_last_error(), message) != NULL &&
                      strstr(tenon_last_error(), path) != NULL,
                  "%s: '%s' does not hold '%s'", tenon_status_text(got), tenon_last_error(),
                  message);
    ck_assert_ptr_null(graph);
}

typedef struct change {
    const char *entry; /* the end of its name */
    const char *from;  /* the first such text in it; NULL: all of the entry */
    const char *to;    /* NULL: the entry goes */
    tenon_status status;
    const char *message; /* what tenon_last_error holds */
} change;

static inline void change_archive(archive *a, const change *c) {
    int entry = archive_find(a, c->entry);
    ck_assert_msg(entry >= 0, "no entry %s", c->entry);
    if (c->from)
        archive_replace(a, entry, c->from, c->to);
    else if (c->to)
        archive_set(a, entry, c->to, strlen(c->to));
    else
        archive_drop(a, entry);
}

/* Each change alone makes the archive one that is refused. */
static inline void check_changes(const char *path, const change *changes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const change *c = &changes[i];
        archive a = archive_read(path);
        change_archive(&a, c);
        archive_write(&a, test_path("bad.pt2"), false);
        check_refused(test_path("bad.pt2"), c->status, c->message);
        archive_free(&a);
    }
}

/* All changes together leave a program that loads. */
static inline tenon_graph *load_changed(const char *path, const change *changes, size_t count) {
    archive a = archive_read(path);
    for (size_t i = 0; i < count; i++)
        change_archive(&a, &changes[i]);
    archive_write(&a, test_path("changed.pt2"), false);
    archive_free(&a);
    return load(test_path("changed.pt2"));
}

#endif
