/* Lowering passes: an ordered list of functions that change a graph. Read status.h first. */
#ifndef TENON_PASS_H
#define TENON_PASS_H

#include <tenon/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* When a pass runs: once a model, before symbols are bound; or once for each set of input shapes,
 * when all shapes are known. */
typedef enum tenon_pass_phase { TENON_PASS_MODEL = 0, TENON_PASS_SHAPES = 1 } tenon_pass_phase;

/* Changes `graph` in place and sets `*changed`. On failure the caller of the pass drops the graph.
 */
typedef tenon_status (*tenon_pass_fn)(tenon_graph *graph, bool *changed, void *user);

typedef struct tenon_pass {
    const char *name; /* unique in a list */
    const char *doc;  /* one line */
    tenon_pass_phase phase;
    tenon_pass_fn run;
    void *user;                  /* given to `run`; may be NULL */
    void (*destroy)(void *user); /* called when the list goes; may be NULL */
} tenon_pass;

typedef struct tenon_passes tenon_passes;

/* Makes a list that holds the default pipeline. */
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_create(tenon_passes **out);
TENON_API void tenon_passes_destroy(tenon_passes **list);

TENON_API int tenon_passes_count(const tenon_passes *list);
/* The pass at `index`, or NULL. */
TENON_API const tenon_pass *tenon_passes_get(const tenon_passes *list, int index);

/* Inserts a copy of `pass` at `index`; -1 means at the end of its phase. The pinned passes at the
 * start stay before index 0. */
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_insert(tenon_passes *list, int index,
                                                            const tenon_pass *pass);
/* Removes the pass of that name. NOT_FOUND; INVALID_ARGUMENT for a pinned pass. */
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_remove(tenon_passes *list, const char *name);

/* Runs the passes of one phase on `graph`, in order. After each pass that changed something, dead
 * nodes go and the graph is verified; the error names the pass. The phase TENON_PASS_SHAPES needs a
 * graph without symbols. */
TENON_API TENON_MUST_CHECK tenon_status tenon_passes_run(const tenon_passes *list,
                                                         tenon_pass_phase phase,
                                                         tenon_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
