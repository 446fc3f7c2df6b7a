/* The profiler: what ran, when, for how long, on what. Its notions and names are those of
 * torch.profiler; docs/profiler.md sets them side by side. Read status.h first.
 *
 *     tenon_profiler *profiler = NULL;
 *     tenon_profiler_create(&(tenon_profiler_options){.record_shapes = true}, &profiler);
 *     tenon_profiler_start(profiler);
 *     tenon_context_run(...);                    any runs of any sessions, on any threads
 *     tenon_profiler_stop(profiler);
 *     tenon_profiler_key_averages(profiler, NULL, &averages);
 *     tenon_averages_table(averages, NULL, &text);
 *     tenon_profiler_export_chrome_trace(profiler, "trace.json.gz");
 *     tenon_profiler_destroy(&profiler);
 *
 * One profiler of a process records at a time. What it recorded keeps the plans that ran, with
 * their weights, until the next recording or the profiler's end.
 */
#ifndef TENON_PROFILER_H
#define TENON_PROFILER_H

#include <tenon/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_profiler tenon_profiler;

/* ---- Schedules
 * ------------------------------------------------------------------------------------------------
 */

/* What is done during a step. */
typedef enum tenon_profiler_action {
    TENON_PROFILER_NONE = 0,
    TENON_PROFILER_WARMUP, /* records, and throws it away */
    TENON_PROFILER_RECORD,
    TENON_PROFILER_RECORD_AND_SAVE /* the last step of a cycle */
} tenon_profiler_action;

/* The first skip_first steps are skipped; then cycles of `wait` idle steps, `warmup` steps and
 * `active` steps follow each other, `repeat` times, or until the profiler is stopped when `repeat`
 * is 0. With skip_first_wait the first cycle has no idle steps. None is negative or above
 * 2147483647, `active` is at least 1. */
typedef struct tenon_profiler_schedule {
    int64_t skip_first, wait, warmup, active, repeat;
    bool skip_first_wait;
} tenon_profiler_schedule;

/* The action of step `step` (from 0 on) by that schedule; NONE when there is no such step or
 * schedule. Thread-safe. */
TENON_API tenon_profiler_action
tenon_profiler_schedule_action(const tenon_profiler_schedule *schedule, int64_t step);

/* A schedule of your own; called once for each step, in order. What is no action counts as NONE. It
 * may not step or stop the profiler (INVALID_ARGUMENT). */
typedef tenon_profiler_action (*tenon_profiler_schedule_fn)(int64_t step, void *user);

/* Called at the end of each cycle, and at stop when it was recording: the results are those of the
 * cycle. Called by the thread that calls tenon_profiler_step or tenon_profiler_stop; it may read
 * and export them, but not step or stop the profiler (INVALID_ARGUMENT). When it, or a schedule,
 * destroys the profiler, that goes as soon as it has returned. */
typedef void (*tenon_profiler_ready_fn)(tenon_profiler *profiler, void *user);

/* ---- Recording
 * ------------------------------------------------------------------------------------------------
 */

typedef struct tenon_profiler_options {
    bool record_shapes;  /* dtypes, shapes and strides of what each step reads */
    bool profile_memory; /* allocations and releases, their sizes and running total */
    bool with_stack;     /* the model's Python stack, and the C caller's, of each event */
    bool with_flops;     /* floating-point operations, by the formulas of docs/explain.md */
    bool with_modules;   /* the path of the nn.Module of each step */
    const tenon_profiler_schedule *schedule; /* copied; NULL: everything between start and stop */
    tenon_profiler_schedule_fn schedule_fn;  /* instead of `schedule`; may be NULL */
    void *schedule_user;
    tenon_profiler_ready_fn on_trace_ready; /* may be NULL */
    void *ready_user;
} tenon_profiler_options;

/* Makes a profiler. `options` may be NULL. INVALID_ARGUMENT names a bad number of the schedule. */
TENON_API TENON_MUST_CHECK tenon_status tenon_profiler_create(const tenon_profiler_options *options,
                                                              tenon_profiler **out);
/* Stops it first, without a call of on_trace_ready; see there for a call from within. */
TENON_API void tenon_profiler_destroy(tenon_profiler **profiler);

/* Begins step 0. INVALID_ARGUMENT when it, or another profiler of the process, runs already. In a
 * child that the process forks nothing is recorded any more; what was recorded is the child's too,
 * to stop or to destroy, before it may start a profiler. */
TENON_API TENON_MUST_CHECK tenon_status tenon_profiler_start(tenon_profiler *profiler);
/* Ends the current step and begins the next. INVALID_ARGUMENT when it does not run, or within
 * on_trace_ready. OUT_OF_MEMORY: the cycle that has ended is lost; the profiler goes on. */
TENON_API TENON_MUST_CHECK tenon_status tenon_profiler_step(tenon_profiler *profiler);
/* Ends the recording. INVALID_ARGUMENT when it does not run, or within on_trace_ready.
 * OUT_OF_MEMORY: it has stopped, and what it recorded is lost. */
TENON_API TENON_MUST_CHECK tenon_status tenon_profiler_stop(tenon_profiler *profiler);

/* The current step, from 0 on; without a schedule steps are only counted. Both keep their last
 * value when the profiler has stopped. */
TENON_API int64_t tenon_profiler_step_num(const tenon_profiler *profiler);
TENON_API tenon_profiler_action tenon_profiler_current_action(const tenon_profiler *profiler);

/* Marks a range of the calling thread's time, to be seen as an event of that name (NULL: "");
 * ranges nest, and end on the thread that began them. One that is still open when what it lies in
 * ends (a step of the schedule, a run, the recording) ends with it; an end without a beginning
 * there does nothing. When nothing records these cost one branch. Thread-safe. */
TENON_API void tenon_record_function_begin(const char *name);
TENON_API void tenon_record_function_end(void);

/* Puts "key": "value" (or `json`, which must be valid JSON: INVALID_ARGUMENT otherwise) into the
 * traces that are exported. INVALID_ARGUMENT names a key that traces have already. */
TENON_API TENON_MUST_CHECK tenon_status tenon_profiler_add_metadata(tenon_profiler *profiler,
                                                                    const char *key,
                                                                    const char *value);
TENON_API TENON_MUST_CHECK tenon_status tenon_profiler_add_metadata_json(tenon_profiler *profiler,
                                                                         const char *key,
                                                                         const char *json);

/* ---- Events
 * ------------------------------------------------------------------------------------------------
 * Of the last recording, by thread, then by the time of their beginning; an event stands before
 * those that ran within it. */

typedef enum tenon_event_kind {
    TENON_EVENT_ONEDNN = 0, /* a oneDNN partition of a plan */
    TENON_EVENT_KERNEL,     /* a step that one of Tenon's kernels, or a registered one, computed */
    TENON_EVENT_COPY,       /* a conversion of layout, or a copy */
    TENON_EVENT_RUN,        /* tenon_context_run */
    TENON_EVENT_COMPILE,    /* the plan of one set of shapes: partitions, code, memory */
    TENON_EVENT_PASS,
    TENON_EVENT_LOAD, /* tenon_load */
    TENON_EVENT_USER, /* tenon_record_function_begin */
    TENON_EVENT_STEP, /* ProfilerStep#N */
    TENON_EVENT_KIND_COUNT
} tenon_event_kind;

typedef struct tenon_event {
    const char *name; /* "Convolution+ReLU", "aten.add.Tensor", "tenon_context_run", ... */
    tenon_event_kind kind;
    int64_t thread;           /* the kernel's thread id */
    int64_t start_ns, end_ns; /* nanoseconds since 1970, from a clock that never steps back */
    int64_t self_ns;          /* without the events directly within it */
    int parent;               /* index of the event that it ran within, or -1 */
    int child_count;          /* events directly within it */
    int64_t memory;           /* bytes allocated less bytes released; 0 without profile_memory */
    int64_t self_memory;
    double flops;        /* 0 without with_flops */
    const char *shapes;  /* "float32[1, 3, 224, 224], float32[64, 3, 7, 7]"; "" if not recorded */
    const char *strides; /* the same for strides: "[150528, 50176, 224, 1], [147, 49, 7, 1]" */
    const char *module;  /* "layer1.0.conv1"; "" if not known or not recorded. Of a partition: the
                          * first node's */
    const char *stack; /* the model's, then the caller's, innermost first, a line each; "" likewise
                        */
    int node_count;    /* of a plan's step */
    const struct tenon_node *const *nodes;
} tenon_event;

TENON_API int tenon_profiler_event_count(const tenon_profiler *profiler);
/* Event `index`; false past the end. Its texts live until the next recording. */
TENON_API bool tenon_profiler_get_event(const tenon_profiler *profiler, int index,
                                        tenon_event *out);

/* An allocation (bytes > 0) or a release. */
typedef struct tenon_memory_event {
    int64_t time_ns, thread;
    int64_t bytes;
    int64_t total; /* of what was allocated since the start and not released, after it */
    int event;     /* index of the innermost event that it happened in, or -1 */
} tenon_memory_event;

TENON_API int tenon_profiler_memory_count(const tenon_profiler *profiler);
TENON_API bool tenon_profiler_get_memory(const tenon_profiler *profiler, int index,
                                         tenon_memory_event *out);

/* ---- Averages
 * ------------------------------------------------------------------------------------------------
 */

typedef struct tenon_average {
    const char *name;   /* of steps of the schedule "ProfilerStep*" */
    const char *shapes; /* when grouped by them; "" otherwise */
    const char *stack;  /* when grouped by it: its first lines */
    const char *module; /* when grouped by it */
    int64_t count;
    int64_t self_cpu_ns, cpu_ns; /* sums; in cpu_ns and memory an event within one of the same
                                    group counts once, as part of that */
    int64_t self_memory, memory;
    double flops;
} tenon_average;

typedef struct tenon_group_options {
    bool by_input_shape; /* needs record_shapes */
    int by_stack_n;      /* lines of the stack that must be equal, which needs with_stack; 0: not
                            grouped by it */
    bool by_module;      /* needs with_modules or with_stack */
} tenon_group_options;

typedef struct tenon_averages tenon_averages;

/* Events summed up by name, and by what `options` (may be NULL) says, in order of first
 * appearance; ranges of the user's are kept apart from other events of the same name. The result
 * stands by itself; the recording is not changed. INVALID_ARGUMENT when by_stack_n is negative. */
TENON_API TENON_MUST_CHECK tenon_status tenon_profiler_key_averages(
    const tenon_profiler *profiler, const tenon_group_options *options, tenon_averages **out);
TENON_API void tenon_averages_destroy(tenon_averages **averages);
TENON_API int tenon_averages_count(const tenon_averages *averages);
TENON_API bool tenon_averages_get(const tenon_averages *averages, int index, tenon_average *out);
/* The sum of all of them, under the name "Total". */
TENON_API void tenon_averages_total(const tenon_averages *averages, tenon_average *out);

typedef struct tenon_table_options {
    /* "cpu_time" (the average), "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage",
     * "self_cpu_memory_usage", "count", "flops", or "key" (the name); NULL: in order of appearance.
     * Largest first. */
    const char *sort_by;
    int row_limit;               /* 0: 100; -1: all */
    int max_name_column_width;   /* 0: 55; -1: as wide as it takes; otherwise at least 4 */
    int max_shapes_column_width; /* 0: 80; likewise */
    int max_src_column_width;    /* 0: 75; likewise */
    bool top_level_events_only;  /* those whose first event ran within no other */
    const char *header;          /* a line above the table, may be NULL */
    const char *time_unit;       /* "s", "ms" or "us"; NULL: the one that fits each number */
} tenon_table_options;

/* The averages as PyTorch prints them; "" when there are none. INVALID_ARGUMENT names a key that
 * there is none of, and lists those that there are; what belongs to CUDA and other devices is
 * refused as such. `options` may be NULL. The caller frees `*out` with tenon_string_free. */
TENON_API TENON_MUST_CHECK tenon_status tenon_averages_table(const tenon_averages *averages,
                                                             const tenon_table_options *options,
                                                             char **out);

/* ---- Modules
 * ------------------------------------------------------------------------------------------------
 */

/* What the nodes of one nn.Module of the source model took. A step of several nodes (a oneDNN
 * partition) may span modules: its time is shared out among its nodes, in proportion to their
 * floating-point operations plus 8 for each byte that they read from outside the step or write for
 * others. Such times are estimates; sessions made with split_ops need none. */
typedef struct tenon_module_time {
    const char *path;     /* "layer1.0.conv1"; "": the model, and what has no module */
    int depth;            /* components of the path */
    int parent;           /* index of the module that it is in; -1 of the model */
    int64_t count;        /* runs of nodes directly in it */
    int64_t self_ns;      /* of nodes directly in it */
    int64_t total_ns;     /* with the modules in it */
    int64_t estimated_ns; /* of total_ns: by shares of steps that span modules */
    double flops;         /* with the modules in it; 0 without with_flops */
} tenon_module_time;

typedef struct tenon_module_times tenon_module_times;

/* The modules of all steps of the last recording: each before those in it, in order of first
 * appearance. Item 0 is the model, whose total is the time of all steps. Only the first 64
 * components of a path count. The result stands by itself. */
TENON_API TENON_MUST_CHECK tenon_status tenon_profiler_module_times(const tenon_profiler *profiler,
                                                                    tenon_module_times **out);
TENON_API void tenon_module_times_destroy(tenon_module_times **times);
TENON_API int tenon_module_times_count(const tenon_module_times *times);
TENON_API bool tenon_module_times_get(const tenon_module_times *times, int index,
                                      tenon_module_time *out);
/* Whether sessions made with split_ops ran. */
TENON_API bool tenon_module_times_perturbed(const tenon_module_times *times);
/* The tree as text. `row_limit`: 0: 100; -1: all. The caller frees `*out` with tenon_string_free.
 */
TENON_API TENON_MUST_CHECK tenon_status tenon_module_times_table(const tenon_module_times *times,
                                                                 int row_limit, char **out);

/* ---- Export
 * ------------------------------------------------------------------------------------------------
 * Files are written beside their place and moved there; a name that ends in ".gz" is compressed. IO
 * names the file. INVALID_ARGUMENT when nothing was recorded. */

/* Chrome's trace format, which Perfetto, chrome://tracing and TensorBoard open. */
TENON_API TENON_MUST_CHECK tenon_status
tenon_profiler_export_chrome_trace(const tenon_profiler *profiler, const char *path);

/* A line "outermost;...;innermost N" for each stack, N in microseconds, as flame graph tools read
 * them. `metric`: "self_cpu_time_total" (also for NULL) or "cpu_time_total". Time and size grow
 * with the depth of nested ranges, too. */
TENON_API TENON_MUST_CHECK tenon_status tenon_profiler_export_stacks(const tenon_profiler *profiler,
                                                                     const char *path,
                                                                     const char *metric);

/* Memory over time: a page (a name that ends in ".html") or JSON, [times, sizes] as PyTorch writes
 * it: microseconds since 1970, and for each time a list of nine sizes, of which all but the last,
 * that of memory of no known category, are 0. What was released but allocated before the recording
 * counts as there from its start. INVALID_ARGUMENT without profile_memory. */
TENON_API TENON_MUST_CHECK tenon_status
tenon_profiler_export_memory_timeline(const tenon_profiler *profiler, const char *path);

/* A handler for on_trace_ready: writes worker.timestamp.pt.trace.json[.gz] into a folder, which it
 * makes. `user` is a tenon_tensorboard_options, which must live as long as the profiler runs;
 * failures are logged. */
typedef struct tenon_tensorboard_options {
    const char *folder;
    const char *worker; /* NULL: "[hostname]_[pid]" */
    bool gzip;
} tenon_tensorboard_options;
TENON_API void tenon_tensorboard_trace_handler(tenon_profiler *profiler, void *user);

/* ---- Execution graphs
 * ------------------------------------------------------------------------------------------------
 */

/* Writes every step that runs from start to stop, with its inputs, outputs and the ids of their
 * values, into a JSON file in the form of PyTorch's ExecutionTraceObserver; what is fused into a
 * step stands below it. Works with or without a profiler; runs of several threads take turns in
 * writing. Sessions that ran are kept until it stops. Start: INVALID_ARGUMENT when one is written
 * already; IO names the file, which appears when it is whole. Stop: INVALID_ARGUMENT when none is
 * written, in a child of fork too; IO or OUT_OF_MEMORY when it could not be. Runs never fail by it,
 * but become slower: do not profile at the same time. Thread-safe. */
TENON_API TENON_MUST_CHECK tenon_status tenon_execution_trace_start(const char *path);
TENON_API TENON_MUST_CHECK tenon_status tenon_execution_trace_stop(void);

#ifdef __cplusplus
}
#endif
#endif
