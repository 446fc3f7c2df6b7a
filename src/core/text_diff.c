/* The lines in which two texts differ. */
#include "core/text_diff.h"
#include <stdlib.h>
#include <string.h>

typedef struct lines {
    char *copy;
    char **items;
    size_t count;
    tn_map places; /* text -> pointer to its last item */
} lines;

static void lines_free(lines *l) {
    free(l->copy);
    free(l->items);
    tn_map_free(&l->places);
}

static bool lines_split(const char *text, lines *l) {
    size_t count = 1;
    for (const char *c = text; *c; c++)
        count += *c == '\n';
    l->copy = strdup(text);
    l->items = malloc(count * sizeof *l->items);
    if (!l->copy || !l->items)
        return false;
    char *rest = l->copy;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (!rest && !*line)
            break;
        l->items[l->count] = line;
        if (tn_map_put(&l->places, line, &l->items[l->count++]) != TENON_OK)
            return false;
    }
    return true;
}

/* Walks both texts at once. Where the lines differ, an old line that the new text does not have, or
 * has behind its place only (it moved), goes first; then new lines come. Linear time; not always
 * the shortest list of changes. */
static void walk(const lines *old, const lines *new, tn_text *out) {
    size_t i = 0, j = 0;
    while (i < old->count || j < new->count) {
        bool more = i < old->count, coming = j < new->count;
        if (more && coming && strcmp(old->items[i], new->items[j]) == 0) {
            tn_text_add(out, "  %s\n", old->items[i++]);
            j++;
            continue;
        }
        char *const *other = more ? tn_map_get(&new->places, old->items[i]) : NULL;
        if (more && (!coming || !other || (size_t)(other - new->items) < j))
            tn_text_add(out, "- %s\n", old->items[i++]);
        else
            tn_text_add(out, "+ %s\n", new->items[j++]);
    }
}

void tn_text_diff(const char *before, const char *after, tn_text *out) {
    lines old = {0}, new = {0};
    if (lines_split(before, &old) && lines_split(after, &new))
        walk(&old, &new, out);
    else
        out->failed = true;
    lines_free(&old);
    lines_free(&new);
}
