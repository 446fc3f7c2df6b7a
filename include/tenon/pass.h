/* Lowering passes: an ordered list of functions that change a graph before it is compiled. Read
 * status.h first; docs/passes.md shows how to write one. */
#ifndef TENON_PASS_H
#define TENON_PASS_H

#include <tenon/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* When a pass runs: once a model, before symbols are bound (sizes that depend on them are not known
 * then); or once for each set of input shapes, when all shapes are known. */
typedef enum tenon_pass_phase { TENON_PASS_MODEL = 0, TENON_PASS_SHAPES = 1 } tenon_pass_phase;

typedef struct tenon_pass tenon_pass;

/* What a pass is given, and gives back. */
typedef struct tenon_pass_call {
    /* To be changed in place; or to be replaced: set it to another graph, with as many outputs and
     * the same inputs (names, dtypes, shapes). That graph then belongs to the caller of the pass,
     * even if the pass fails, and so does the one that it gave: the pass destroys neither. In
     * place, too, inputs and outputs are neither added nor removed; outputs keep their names. */
    tenon_graph *graph;
    /* One for each input of the graph: dtype, rank and shape (-1: not known yet). `data` is NULL
     * where only these are known, or points at values that are as good as any other input. */
    const tenon_view *samples;
    int sample_count;
    const tenon_pass *pass; /* the pass itself: its user pointer and options */
    bool changed; /* out: whether the graph was changed, or replaced; edits are seen anyway */
} tenon_pass_call;

/* Runs a pass, which must not change the list that it is in. On failure (tenon_fail) `graph` may be
 * left half changed; the caller drops it. */
typedef tenon_status (*tenon_pass_fn)(tenon_pass_call *call);

typedef struct tenon_pass_option {
    const char *key, *value;
} tenon_pass_option;

struct tenon_pass {
    const char *name; /* unique in a list: letters, digits, '_' and '-' */
    const char *doc;  /* one line; may be NULL */
    tenon_pass_phase phase;
    tenon_pass_fn run;
    void *user;                  /* may be NULL */
    void (*destroy)(void *user); /* called once when the pass leaves its list; may be NULL */
    /* The options that the pass knows, with their values; copied. */
    const tenon_pass_option *options;
    int option_count;
    const char *after; /* names, separated by spaces, of passes that must run before this one, where
                        * they are in the list; may be NULL */
    bool remove_dead;  /* nodes that nothing needs are removed after it */
    bool required;     /* cannot be removed */
};

/* The value of an option of the pass, or NULL when it has no such option. */
TENON_API const char *tenon_pass_get_option(const tenon_pass *pass, const char *key);

/* ---- Lists of passes ----
 * A list holds pinned passes, which come first and stay there, and others, counted from 0. A pass
 * of the model phase always runs before one of the shapes phase, wherever they stand. */

typedef struct tenon_passes tenon_passes;

/* Makes a list that holds the default pipeline. */
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_create(tenon_passes **out);
/* Makes one that holds only what a graph needs to run at all: the pinned and the required passes.
 */
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_create_minimal(tenon_passes **out);
TENON_API void tenon_passes_destroy(tenon_passes **passes);

/* Passes that are not pinned. */
TENON_API int tenon_passes_count(const tenon_passes *passes);
/* The pass at `index`, or NULL. It lives until it is removed; its index moves with the list. */
TENON_API const tenon_pass *tenon_passes_get(const tenon_passes *passes, int index);
/* The index of the pass of that name, or -1. */
TENON_API int tenon_passes_find(const tenon_passes *passes, const char *name);

/* Inserts a copy of `pass` at `index` (0: right after the pinned pass that makes the graph
 * functional). From then on the list owns `user`; on failure it does not. INVALID_ARGUMENT: the
 * name is taken, or the place is against what this or another pass says in `after`, or the index is
 * outside 0 to the count. */
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_insert(tenon_passes *passes, int index,
                                                            const tenon_pass *pass);
/* The same at the end of the pass's phase. */
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_append(tenon_passes *passes,
                                                            const tenon_pass *pass);

/* Removes a pass, and calls its destroy function. NOT_FOUND; INVALID_ARGUMENT for a pinned or
 * required pass. */
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_remove(tenon_passes *passes, const char *name);
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_remove_at(tenon_passes *passes, int index);

/* Sets an option that the pass knows; `value` is copied. NOT_FOUND names the options there are. */
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_set_option(tenon_passes *passes,
                                                                const char *name, const char *key,
                                                                const char *value);

/* The list as text, one line a pass in the order in which they run: index, name, documentation,
 * what it must come after, options; passes that are not Tenon's are marked with '*'. The caller
 * frees it with tenon_string_free. */
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_dump(const tenon_passes *passes, char **out);

/* Inserts a pass that draws the graph into the file `path` (tenon_graph_draw) right before or after
 * the pass of that name. It is named "draw-before-NAME" or "draw-after-NAME". NOT_FOUND. */
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_insert_drawing(tenon_passes *passes,
                                                                    const char *name, bool after,
                                                                    const char *path);

/* ---- Running ---- */

/* Runs all passes on `*graph`, which may become another graph, outside any session: first those of
 * the model phase; then symbols are bound to the shapes of the samples, and those of the shapes
 * phase run. `samples` has one view for each input (data may be NULL, but for inputs that are plain
 * numbers); with a graph whose inputs have known shapes it may be NULL, `sample_count` 0.
 * INPUT_MISMATCH, before any pass runs, when they do not fit the graph.
 *
 * After each pass that changed something shapes are inferred again, dead nodes removed if the pass
 * asks for it, and the graph is verified. The error names the pass, the node and the rule; `*graph`
 * is then what it was before that pass.
 *
 * At log level DEBUG each pass logs what it did; at TRACE the graph after each that changed it, as
 * text with the lines that went ('-') and came ('+'). */
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_apply(const tenon_passes *passes,
                                                           tenon_graph **graph,
                                                           const tenon_view *samples,
                                                           int sample_count);

/* The same for the passes of one phase; those of the shapes phase need a graph without symbols. */
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_apply_phase(const tenon_passes *passes,
                                                                 tenon_pass_phase phase,
                                                                 tenon_graph **graph,
                                                                 const tenon_view *samples,
                                                                 int sample_count);

/* ---- What passes did ----
 * A graph remembers each pass that changed it, in order; a session's graph (tenon_plan_info) too.
 */

typedef struct tenon_pass_record {
    const char *name;
    tenon_pass_phase phase;
    int64_t nodes_before, nodes_after;
    int64_t removed_count, added_count; /* nodes that went and came */
    /* Some of them, "name (op)": at most 16 each. */
    const char *const *removed, *const *added;
    int removed_named, added_named;
    double milliseconds;
} tenon_pass_record;

TENON_API int tenon_graph_record_count(const tenon_graph *graph);
/* Record `index`; false past the end. It lives as long as the graph. */
TENON_API bool tenon_graph_record(const tenon_graph *graph, int index, tenon_pass_record *out);

#ifdef __cplusplus
}
#endif
#endif
