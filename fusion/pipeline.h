/* The default pipeline as a table, and what the library's own callers of passes use. */
#ifndef TN_PIPELINE_H
#define TN_PIPELINE_H

#include <tenon/pass.h>

/* A built-in pass: it changes `graph` in place and sets `*changed`. */
typedef tenon_status (*tn_builtin_fn)(tenon_graph *graph, bool *changed);

typedef struct tn_default_pass {
    tenon_pass pass;
    tn_builtin_fn builtin;
    bool pinned, kernel;
} tn_default_pass;

extern const tn_default_pass tn_default_passes[];
extern const int tn_default_pass_count;

/* The row's pass as lists hold it. */
tenon_pass tn_default_pass_get(int row);
bool tn_pass_is_builtin(const tenon_pass *pass);
/* Whether it chooses kernels of Tenon's instead of oneDNN. */
bool tn_pass_is_kernel(const tenon_pass *pass);

/* Runs one pass. `keep`: on failure `*graph` is what it was before; otherwise it may be half
 * changed. `samples` may be NULL. */
tenon_status tn_pass_run(const tenon_pass *pass, tenon_graph **graph, const tenon_view *samples,
                         int sample_count, bool keep);
/* The passes of one phase, where a failure ends the graph's use. */
tenon_status tn_passes_run(const tenon_passes *passes, tenon_pass_phase phase, tenon_graph **graph,
                           const tenon_view *samples, int sample_count);
/* A copy whose passes are not destroyed with it. */
tenon_status tn_passes_copy(const tenon_passes *passes, tenon_passes **out);
/* The same, without the passes that choose kernels of Tenon's. */
tenon_status tn_passes_without_kernels(const tenon_passes *passes, tenon_passes **out);
/* The same, with the pinned and required passes, and of the others only those that choose kernels
 * and stand behind the pass of that name. */
tenon_status tn_passes_kernels_behind(const tenon_passes *passes, const char *name,
                                      tenon_passes **out);

#endif
