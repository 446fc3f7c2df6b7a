#include "fuzz.h"
#include "core/graph.h"
#include "core/tensor.h"
#include <ftw.h>
#include <sanitizer/allocator_interface.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOAD_MIB = 256 };

void fuzz_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    abort();
}

/* ---- Files ---- */

static char folder[128];

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *ftw) {
    (void)info, (void)type, (void)ftw;
    return remove(path);
}

static void remove_folder(void) {
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_folder(void) {
    if (!folder[0]) {
        const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        snprintf(folder, sizeof folder, "%s/tenon-fuzz-XXXXXX", base);
        if (!mkdtemp(folder))
            fuzz_fail("%s cannot be made", folder);
        atexit(remove_folder);
    }
    return folder;
}

const char *fuzz_write(const char *name, const void *data, size_t size) {
    static char paths[8][256];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", fuzz_folder(), name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        fuzz_fail("%s cannot be written", path);
    return path;
}

/* The next line "=== NAME ===" at or behind `at`, or NULL; `*end` is what follows it. */
static const uint8_t *next_part(const uint8_t *at, const uint8_t *stop, const uint8_t **end,
                                char *name, size_t capacity) {
    for (; (at = memmem(at, (size_t)(stop - at), "=== ", 4)) != NULL; at += 4) {
        const uint8_t *close = memmem(at + 4, (size_t)(stop - at - 4), " ===\n", 5);
        size_t length = close ? (size_t)(close - at - 4) : 0;
        if (!close)
            return NULL;
        if (length >= capacity || memchr(at + 4, '\n', length))
            continue;
        memcpy(name, at + 4, length);
        name[length] = '\0';
        *end = close + 5;
        return at;
    }
    return NULL;
}

int fuzz_split(const uint8_t *data, size_t size, fuzz_part parts[FUZZ_PARTS]) {
    const uint8_t *stop = data + size, *behind = data;
    int count = 1;
    parts[0] = (fuzz_part){.data = data, .size = size};
    for (; count < FUZZ_PARTS; count++) {
        const uint8_t *at =
            next_part(behind, stop, &behind, parts[count].name, sizeof parts[count].name);
        if (!at)
            break;
        parts[count - 1].size = (size_t)(at - parts[count - 1].data);
        parts[count].data = behind;
        parts[count].size = (size_t)(stop - behind);
    }
    return count;
}

/* ---- Memory ---- */

static atomic_size_t live;
static atomic_bool counting;

static void count_malloc(const volatile void *memory, size_t size) {
    (void)memory;
    if (atomic_load(&counting) && atomic_fetch_add(&live, size) + size > (size_t)LOAD_MIB << 20) {
        atomic_store(&counting, false);
        fuzz_fail("loading takes more than %d MiB; the last allocation has %zu bytes", LOAD_MIB,
                  size);
    }
}

static void count_free(const volatile void *memory) {
    if (memory && atomic_load(&counting))
        atomic_fetch_sub(&live, __sanitizer_get_allocated_size(memory));
}

void fuzz_start(void) {
    if (!getenv("TENON_DEBUG"))
        tenon_log_set(TENON_LOG_NONE, NULL, NULL);
    if (!__sanitizer_install_malloc_and_free_hooks(count_malloc, count_free))
        fuzz_fail("allocations cannot be counted");
}

tenon_graph *fuzz_load(const char *path) {
    tenon_graph *graph = NULL;
    atomic_store(&live, (size_t)0);
    atomic_store(&counting, true);
    tenon_status status = tenon_load(path, &graph);
    atomic_store(&counting, false);
    if (status != TENON_OK && (graph || !*tenon_last_error()))
        fuzz_fail("a failed load gave %p and the message '%s'", (void *)graph, tenon_last_error());
    return graph;
}

/* ---- Graphs ---- */

enum { INPUTS = 64, SIZE = 3 };

/* Sizes for the inputs: open ones are what their expression gives when every symbol has its least
 * value, SIZE where that is smaller. */
static bool sample(const tenon_graph *graph, tenon_view *views) {
    tn_binding bindings[INPUTS];
    static const double number = 1;
    if (graph->input_count > INPUTS || graph->symbol_count > INPUTS)
        return false;
    for (int i = 0; i < graph->symbol_count; i++) {
        const tn_symbol *s = &graph->symbols[i];
        bindings[i] = (tn_binding){true, s->min > SIZE ? s->min : s->max < SIZE ? s->max : SIZE};
    }
    for (int i = 0; i < graph->input_count; i++) {
        const tenon_value *x = graph->inputs[i];
        views[i] = (tenon_view){.dtype = x->dtype, .rank = x->rank};
        if (x->scalar != TN_TENSOR)
            views[i].data = (void *)&number;
        for (int d = 0; d < x->rank; d++) {
            views[i].shape[d] = x->shape ? x->shape[d] : -1;
            if (x->dims && !tn_expr_eval(x->dims[d], bindings, &views[i].shape[d]))
                return false;
        }
    }
    return true;
}

static void reparse(const tenon_graph *graph) {
    char *text = NULL, *again = NULL;
    tenon_graph *copy = NULL;
    if (tenon_graph_print(graph, &text) != TENON_OK)
        fuzz_fail("a loaded graph cannot be printed: %s", tenon_last_error());
    if (tenon_graph_parse(text, "printed", &copy) == TENON_OK) {
        if (tenon_graph_print(copy, &again) != TENON_OK)
            fuzz_fail("a parsed graph cannot be printed: %s", tenon_last_error());
        tenon_graph_destroy(&copy);
    }
    tenon_string_free(text);
    tenon_string_free(again);
}

static void explain(const tenon_session *session) {
    tenon_plan_info plan;
    tenon_step_info step;
    if (tenon_session_get_plan(session, &plan) == TENON_OK)
        for (int i = 0; tenon_session_get_step(session, i, &step) == TENON_OK; i++)
            ;
}

void fuzz_graph(tenon_graph *graph) {
    tenon_view inputs[INPUTS];
    tenon_session *session = NULL;
    tenon_session_options options = {.dry_run = true, .threads = 1};
    if (tenon_graph_verify(graph) != TENON_OK)
        fuzz_fail("a loaded graph is not valid: %s", tenon_last_error());
    reparse(graph);
    bool known = sample(graph, inputs);
    if (tenon_session_create(graph, &options, &session) == TENON_OK) {
        if (known && tenon_session_compile(session, inputs, graph->input_count) == TENON_OK)
            explain(session);
        tenon_session_destroy(&session);
    }
    tenon_graph_destroy(&graph);
}
