/* Lists of passes. Running them is in run_passes.c. */
#include "core/fail.h"
#include "core/util.h"
#include "fusion/passes_list.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/draw.h>

static tenon_status refuse(const tenon_pass *pass, const char *rule) {
    return tn_fail(TENON_INVALID_ARGUMENT, "pass '%s': %s", pass->name, rule);
}

/* ---- Copies of passes: names, texts and options are the list's own ---- */

static void free_texts(tenon_pass *pass) {
    for (int i = 0; pass->options && i < pass->option_count; i++) {
        free((char *)pass->options[i].key);
        free((char *)pass->options[i].value);
    }
    free((void *)pass->options);
    free((char *)pass->name);
    free((char *)pass->doc);
    free((char *)pass->after);
}

static tenon_status copy_texts(const tenon_pass *from, tenon_pass *to) {
    *to = *from;
    tenon_pass_option *options =
        calloc((size_t)(from->option_count > 0 ? from->option_count : 0) + 1, sizeof *options);
    to->options = options;
    to->name = strdup(from->name);
    to->doc = strdup(from->doc ? from->doc : "");
    to->after = strdup(from->after ? from->after : "");
    bool ok = options && to->name && to->doc && to->after;
    for (int i = 0; ok && i < from->option_count; i++) {
        options[i].key = strdup(from->options[i].key);
        options[i].value = strdup(from->options[i].value ? from->options[i].value : "");
        ok = options[i].key && options[i].value;
    }
    if (ok)
        return TENON_OK;
    free_texts(to);
    return tn_no_memory();
}

static void drop(tenon_pass *pass) {
    if (pass->destroy)
        pass->destroy(pass->user);
    free_texts(pass);
}

static tenon_status put(tenon_passes *passes, int at, const tenon_pass *pass) {
    if (passes->count == passes->capacity) {
        int capacity = passes->capacity ? passes->capacity * 2 : 64;
        tenon_pass **items = realloc(passes->items, (size_t)capacity * sizeof *items);
        if (!items)
            return tn_no_memory();
        passes->items = items;
        passes->capacity = capacity;
    }
    tenon_pass *copy = malloc(sizeof *copy);
    if (!copy)
        return tn_no_memory();
    tenon_status status = copy_texts(pass, copy);
    if (status != TENON_OK) {
        free(copy);
        return status;
    }
    memmove(passes->items + at + 1, passes->items + at,
            (size_t)(passes->count - at) * sizeof *passes->items);
    passes->items[at] = copy;
    passes->count++;
    return TENON_OK;
}

/* ---- Making lists ---- */

static tenon_status create(bool minimal, tenon_passes **out) {
    tenon_passes *passes = calloc(1, sizeof *passes);
    if (!passes)
        return tn_no_memory();
    for (int i = 0; i < tn_default_pass_count; i++) {
        tenon_pass pass = tn_default_pass_get(i);
        if (minimal && !pass.required)
            continue;
        tenon_status status = put(passes, passes->count, &pass);
        if (status != TENON_OK) {
            tenon_passes_destroy(&passes);
            return status;
        }
        passes->pinned += tn_default_passes[i].pinned;
    }
    *out = passes;
    return TENON_OK;
}

tenon_status tenon_passes_create(tenon_passes **out) {
    return create(false, out);
}

tenon_status tenon_passes_create_minimal(tenon_passes **out) {
    return create(true, out);
}

void tenon_passes_destroy(tenon_passes **pointer) {
    tenon_passes *passes = *pointer;
    *pointer = NULL;
    if (!passes)
        return;
    for (int i = 0; i < passes->count; i++) {
        drop(passes->items[i]);
        free(passes->items[i]);
    }
    free(passes->items);
    free(passes);
}

tenon_status tn_passes_copy(const tenon_passes *passes, tenon_passes **out) {
    tenon_passes *copy = calloc(1, sizeof *copy);
    if (!copy)
        return tn_no_memory();
    for (int i = 0; i < passes->count; i++) {
        tenon_pass pass = *passes->items[i];
        pass.destroy = NULL;
        tenon_status status = put(copy, copy->count, &pass);
        if (status != TENON_OK) {
            tenon_passes_destroy(&copy);
            return status;
        }
    }
    copy->pinned = passes->pinned;
    *out = copy;
    return TENON_OK;
}

/* ---- Looking up ---- */

int tenon_passes_count(const tenon_passes *passes) {
    return passes->count - passes->pinned;
}

const tenon_pass *tenon_passes_get(const tenon_passes *passes, int index) {
    return index < 0 || index >= tenon_passes_count(passes) ? NULL
                                                            : passes->items[passes->pinned + index];
}

/* Among all, pinned ones included. */
static int find(const tenon_passes *passes, const char *name) {
    for (int i = 0; i < passes->count; i++)
        if (strcmp(passes->items[i]->name, name) == 0)
            return i;
    return -1;
}

int tenon_passes_find(const tenon_passes *passes, const char *name) {
    int at = find(passes, name);
    return at < passes->pinned ? -1 : at - passes->pinned;
}

/* ---- Changing ---- */

/* Whether the words of `list` hold `word`. */
static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; at && *at; at += strspn(at, " ")) {
        size_t size = strcspn(at, " ");
        if (size == length && strncmp(at, word, length) == 0)
            return true;
        at += size;
    }
    return false;
}

/* Passes run by phase, then by place. */
static bool runs_before(const tenon_pass *a, int at_a, const tenon_pass *b, int at_b) {
    return a->phase != b->phase ? a->phase < b->phase : at_a < at_b;
}

/* What stands between `pass` and the place `at`, before whose item it would go. */
static tenon_status check_order(const tenon_passes *passes, int at, const tenon_pass *pass) {
    for (int i = 0; i < passes->count; i++) {
        const tenon_pass *other = passes->items[i];
        bool other_first = runs_before(other, i, pass, i < at ? at : at - 1);
        if (has_word(pass->after, other->name) && !other_first)
            return tn_fail(TENON_INVALID_ARGUMENT,
                           "pass '%s' must run after '%s', so it cannot stand before it",
                           pass->name, other->name);
        if (has_word(other->after, pass->name) && other_first)
            return tn_fail(TENON_INVALID_ARGUMENT,
                           "pass '%s' must run after '%s', which cannot stand behind it",
                           other->name, pass->name);
    }
    return TENON_OK;
}

static int find_option(const tenon_pass *pass, const char *key) {
    for (int i = 0; i < pass->option_count; i++)
        if (strcmp(pass->options[i].key, key) == 0)
            return i;
    return -1;
}

static tenon_status check_pass(const tenon_passes *passes, const tenon_pass *pass) {
    if (!pass->name || !pass->name[0] || !pass->run)
        return tn_fail(TENON_INVALID_ARGUMENT, "a pass needs a name and a function");
    for (const char *c = pass->name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '-')
            return refuse(pass, "a name has letters, digits, '_' and '-' only");
    if (pass->phase != TENON_PASS_MODEL && pass->phase != TENON_PASS_SHAPES)
        return tn_fail(TENON_INVALID_ARGUMENT, "pass '%s': unknown phase %d", pass->name,
                       (int)pass->phase);
    if (find(passes, pass->name) >= 0)
        return refuse(pass, "a pass of that name is in the list already");
    if (has_word(pass->after, pass->name))
        return refuse(pass, "it cannot run after itself");
    if (pass->option_count < 0 || (pass->option_count > 0 && !pass->options))
        return refuse(pass, "options are missing");
    for (int i = 0; i < pass->option_count; i++) {
        const char *key = pass->options[i].key;
        if (!key || !*key || strchr(key, '=') || !pass->options[i].value)
            return refuse(pass, "an option has no value, or no key, or a key with '='");
        if (find_option(pass, key) < i)
            return refuse(pass, "two options have the same key");
    }
    if ((pass->doc && strchr(pass->doc, '\n')) || (pass->after && strchr(pass->after, '\n')))
        return refuse(pass, "its documentation and `after` are one line each");
    return TENON_OK;
}

tenon_status tenon_passes_insert(tenon_passes *passes, int index, const tenon_pass *pass) {
    TN_TRY(check_pass(passes, pass));
    if (index < 0 || index > tenon_passes_count(passes))
        return tn_fail(TENON_INVALID_ARGUMENT, "pass '%s': index %d is outside 0 to %d", pass->name,
                       index, tenon_passes_count(passes));
    TN_TRY(check_order(passes, passes->pinned + index, pass));
    return put(passes, passes->pinned + index, pass);
}

tenon_status tenon_passes_append(tenon_passes *passes, const tenon_pass *pass) {
    int index = tenon_passes_count(passes);
    while (index > 0 && tenon_passes_get(passes, index - 1)->phase > pass->phase)
        index--;
    return tenon_passes_insert(passes, index, pass);
}

static tenon_status remove_at(tenon_passes *passes, int at) {
    tenon_pass *pass = passes->items[at];
    if (at < passes->pinned || pass->required)
        return refuse(pass, "no graph runs without it, so it cannot be removed");
    drop(pass);
    free(pass);
    memmove(passes->items + at, passes->items + at + 1,
            (size_t)(passes->count - at - 1) * sizeof *passes->items);
    passes->count--;
    return TENON_OK;
}

static tenon_status find_named(const tenon_passes *passes, const char *name, int *at) {
    *at = find(passes, name);
    return *at >= 0 ? TENON_OK : tn_fail(TENON_NOT_FOUND, "no pass is named '%s'", name);
}

tenon_status tenon_passes_remove(tenon_passes *passes, const char *name) {
    int at;
    TN_TRY(find_named(passes, name, &at));
    return remove_at(passes, at);
}

tenon_status tenon_passes_remove_at(tenon_passes *passes, int index) {
    if (!tenon_passes_get(passes, index))
        return tn_fail(TENON_NOT_FOUND, "there is no pass %d of %d", index,
                       tenon_passes_count(passes));
    return remove_at(passes, passes->pinned + index);
}

/* ---- Options ---- */

const char *tenon_pass_get_option(const tenon_pass *pass, const char *key) {
    int i = find_option(pass, key);
    return i < 0 ? NULL : pass->options[i].value;
}

static tenon_status no_option(const tenon_pass *pass, const char *key) {
    tn_text known = {0};
    for (int i = 0; i < pass->option_count; i++)
        tn_text_add(&known, "%s%s", i ? ", " : "", pass->options[i].key);
    tenon_status status =
        tn_fail(TENON_NOT_FOUND, "pass '%s' has no option '%s'; it has %s", pass->name, key,
                known.data && !known.failed ? known.data : "none");
    tn_text_free(&known);
    return status;
}

tenon_status tenon_passes_set_option(tenon_passes *passes, const char *name, const char *key,
                                     const char *value) {
    int at;
    TN_TRY(find_named(passes, name, &at));
    tenon_pass *pass = passes->items[at];
    int i = find_option(pass, key);
    if (i < 0)
        return no_option(pass, key);
    char *copy = strdup(value);
    if (!copy)
        return tn_no_memory();
    free((char *)pass->options[i].value);
    ((tenon_pass_option *)pass->options)[i].value = copy;
    return TENON_OK;
}

/* ---- As text ---- */

static void dump_pass(const tenon_passes *passes, int at, tn_text *out) {
    const tenon_pass *pass = passes->items[at];
    if (at < passes->pinned)
        tn_text_add(out, "    -  ");
    else
        tn_text_add(out, "  %s %2d  ", tn_pass_is_builtin(pass) ? " " : "*", at - passes->pinned);
    tn_text_add(out, "%-18s %s", pass->name, pass->doc);
    if (at < passes->pinned)
        tn_text_add(out, " [pinned]");
    else if (pass->required)
        tn_text_add(out, " [required]");
    if (pass->after[0])
        tn_text_add(out, " [after %s]", pass->after);
    for (int i = 0; i < pass->option_count; i++)
        tn_text_add(out, " [%s=%s]", pass->options[i].key, pass->options[i].value);
    tn_text_add(out, "\n");
}

tenon_status tenon_passes_dump(const tenon_passes *passes, char **out) {
    static const char *const titles[] = {"Once a model, before sizes are known:\n",
                                         "Once for each set of input shapes:\n"};
    tn_text text = {0};
    for (int phase = TENON_PASS_MODEL; phase <= TENON_PASS_SHAPES; phase++) {
        tn_text_add(&text, "%s", titles[phase]);
        for (int i = 0; i < passes->count; i++)
            if ((int)passes->items[i]->phase == phase)
                dump_pass(passes, i, &text);
    }
    if (text.failed) {
        tn_text_free(&text);
        return tn_no_memory();
    }
    *out = text.data;
    return TENON_OK;
}

/* ---- Drawing ---- */

static tenon_status draw(tenon_pass_call *call) {
    return tenon_graph_draw(call->graph, tenon_pass_get_option(call->pass, "path"));
}

tenon_status tenon_passes_insert_drawing(tenon_passes *passes, const char *name, bool after,
                                         const char *path) {
    int at;
    char text[256], doc[300];
    TN_TRY(find_named(passes, name, &at));
    snprintf(text, sizeof text, "draw-%s-%.200s", after ? "after" : "before", name);
    snprintf(doc, sizeof doc, "draws the graph %s %.200s", after ? "after" : "before", name);
    const tenon_pass_option option = {"path", path};
    const tenon_pass pass = {.name = text,
                             .doc = doc,
                             .phase = passes->items[at]->phase,
                             .run = draw,
                             .options = &option,
                             .option_count = 1};
    if (at < passes->pinned && !after)
        return tn_fail(TENON_INVALID_ARGUMENT, "pass '%s' is pinned: nothing goes before it", name);
    TN_TRY(check_pass(passes, &pass));
    return put(passes, after ? at + 1 : at, &pass);
}

/* A copy of the passes for which `keep` is true. */
static tenon_status copy_some(const tenon_passes *passes,
                              bool (*keep)(const tenon_pass *, int, int), int at,
                              tenon_passes **out) {
    tenon_passes *copy;
    TN_TRY(tn_passes_copy(passes, &copy));
    for (int i = tenon_passes_count(copy) - 1; i >= 0; i--) {
        tenon_status status =
            keep(tenon_passes_get(copy, i), i, at) ? TENON_OK : tenon_passes_remove_at(copy, i);
        if (status != TENON_OK) {
            tenon_passes_destroy(&copy);
            return status;
        }
    }
    *out = copy;
    return TENON_OK;
}

static bool is_no_kernel(const tenon_pass *pass, int index, int at) {
    (void)index, (void)at;
    return !tn_pass_is_kernel(pass);
}

tenon_status tn_passes_without_kernels(const tenon_passes *passes, tenon_passes **out) {
    return copy_some(passes, is_no_kernel, 0, out);
}

static bool is_kernel_behind(const tenon_pass *pass, int index, int at) {
    return pass->required || (tn_pass_is_kernel(pass) && index > at);
}

tenon_status tn_passes_kernels_behind(const tenon_passes *passes, const char *name,
                                      tenon_passes **out) {
    return copy_some(passes, is_kernel_behind, tenon_passes_find(passes, name), out);
}
