/* The benchmark runner behind `tenon bench`: cases are measured one after the other, each in
 * processes of its own, and what they found is kept as JSON, from which the table, the saved file,
 * the comparison and the page are made. docs/bench.md tells what each number means. It uses Tenon's
 * public API only.
 *
 * Functions that can fail return false, and have set the message that bench_error gives. */
#ifndef BENCH_H
#define BENCH_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <tenon/tenon.h>

/* The message of the last failure. */
const char *bench_error(void);
/* Sets it; returns false. */
bool bench_fail(const char *format, ...) TENON_PRINTF(1, 2);
#ifdef __clang_analyzer__ /* tools/analyse must know what it returns */
#define bench_fail(...) ((void)bench_fail(__VA_ARGS__), false)
#endif

/* ---- What to measure ---- */

typedef struct bench_pairs {
    struct bench_pair {
        char *name, *value;
    } * items;
    int count;
} bench_pairs;

typedef struct bench_case {
    char *name;
    char *path;
    int64_t batch;        /* wanted; 0: whatever the model has */
    bool from_suite;      /* the batch is the suite's, and the archive is made for it */
    bench_pairs inputs;   /* arrays in .npy files */
    bench_pairs expected; /* outputs that are compared, likewise */
} bench_case;

typedef struct bench_cases {
    bench_case *items;
    int count;
} bench_cases;

/* Reads a suite: the file at `path`, or suite.json in that folder. Keeps the models named in
 * `names` (none: all), and of these the batch sizes in `batches` (none: all). Fails on a file that
 * is no suite, and on a name or a batch size that it has not. The caller frees it, with
 * bench_cases_free. */
bool bench_suite_read(const char *path, const char *const *names, int name_count,
                      const int64_t *batches, int batch_count, bench_cases *out);
/* Adds a model at a path of its own; its name is the file's, without folder and ending. */
bool bench_cases_add(bench_cases *cases, const char *path, int64_t batch);
void bench_cases_free(bench_cases *cases);

typedef struct bench_options {
    tenon_session_options session; /* without the precision */
    tenon_load_options load;
    int instances;     /* processes that run at once; at least 1 */
    int warmup;        /* runs before the first timed one */
    bool warmup_fixed; /* also where they take more than half of the time limit */
    int iterations;    /* timed runs of a round; at least 1 */
    int rounds;        /* at most; 0: as many as it takes */
    double interval;   /* wanted: the median's interval, as a part of the median */
    double seconds;    /* a case ends with its rounds when these are over */
    double tolerance;  /* of outputs that are compared; 0: by precision */
    bool detail;       /* time each step, too */
} bench_options;

/* What the command knows how to do: arrays for a model, and comparing them. Called in the process
 * that measures; what these print on standard error becomes the message of a failure. */
typedef struct bench_host {
    /* Gives arrays for all inputs, which live as long as the process, and the batch size (0: there
     * is none). */
    bool (*inputs)(void *user, const tenon_graph *graph, const bench_case *c, tenon_view **views,
                   int *count, int64_t *batch);
    /* The largest error of an output against what was expected, as a part of the largest expected
     * magnitude; infinite for another shape or dtype. */
    bool (*compare)(void *user, const tenon_view *given, const char *expected_path, double *error);
    void *user;
} bench_host;

/* ---- Processes ---- */

/* A worker's line to the process that started it. */
typedef struct bench_channel bench_channel;

/* What a worker does: runs on a thread of its own (the thread that went on after a fork has no
 * OpenMP workers) in a process of its own. False: it failed, and said why on standard error. */
typedef bool (*bench_work)(bench_channel *channel, void *user);

/* Part of the work that is done, 0 to 1. */
void bench_progress(bench_channel *channel, double part);
/* Waits until all workers have come here. False: this process is to end. */
bool bench_ready(bench_channel *channel);
/* Says that this worker has measured; it goes on with its load until bench_stopped is true, which
 * is when all workers have said so. */
void bench_done(bench_channel *channel);
bool bench_stopped(bench_channel *channel);
/* Hands over what was found. */
bool bench_give(bench_channel *channel, const cJSON *result);

typedef struct bench_outcome {
    cJSON *results; /* an array, one for each worker; NULL when any failed */
    char *errors;   /* what the first worker, or the first that failed, printed; may be "" */
} bench_outcome;

/* Runs `count` workers at once, each with the cores that are its share, and waits for them.
 * `progress` (may be NULL) is called now and then. False: no process could be started. The caller
 * frees `out` with bench_outcome_free, also on failure. */
bool bench_run_workers(int count, bench_work work, void *user,
                       void (*progress)(void *user, double part), void *progress_user,
                       bench_outcome *out);
void bench_outcome_free(bench_outcome *outcome);
/* Cores that this process may use; what workers share out. */
int bench_cores(void);

/* ---- Measuring: results are JSON objects, with the fields of docs/bench.md ---- */

/* Seconds, from a clock that does not step. */
double bench_now(void);

typedef struct bench_measurement {
    const bench_case *c;
    const bench_options *options;
    const bench_host *host;
    tenon_precision precision;
} bench_measurement;

/* A bench_work; `user` is a bench_measurement. */
bool bench_measure(bench_channel *channel, void *user);

typedef struct bench_peak_job {
    const bench_options *options;
    tenon_precision precision;
    bool memory; /* the memory's rate too */
} bench_peak_job;

/* A bench_work that measures what the machine can do; `user` is a bench_peak_job. */
bool bench_measure_peaks(bench_channel *channel, void *user);

/* One object from those of all instances; takes over `results`. NULL: memory is out. */
cJSON *bench_combine(cJSON *results);

/* A number of an object; NAN where there is none. */
double bench_number(const cJSON *object, const char *name);
/* A text of an object; "" where there is none. */
const char *bench_text(const cJSON *object, const char *name);

/* "fp32" or "bf16". */
const char *bench_precision_text(tenon_precision precision);

/* Reads a JSON file; NULL, and names the file. */
cJSON *bench_read_json(const char *path);

/* ---- A run: {"name": "tenon", "environ": {...}, "metrics": {...}, "results": [...]} ---- */

/* An empty run with what there is to know of the machine. NULL: memory is out. */
cJSON *bench_run_create(const bench_options *options);
/* Adds the peaks of a precision; takes over `results`. */
bool bench_run_add_peaks(cJSON *run, tenon_precision precision, cJSON *results);
/* Adds a result, also of a case that failed; takes it over, and fills in what needs the peaks. */
bool bench_run_add(cJSON *run, cJSON *result);
/* Makes the metrics, in TorchBench's terms. */
bool bench_run_finish(cJSON *run);
bool bench_run_write(const cJSON *run, const char *path);
/* Reads and checks a run that was saved. NULL: it cannot be used. */
cJSON *bench_run_read(const char *path);

/* Sets a result beside that of the same model, batch and precision in `baseline`, where it has one:
 * adds "baseline". `slower` receives whether it is slower than `threshold` with its whole interval.
 */
bool bench_compare(cJSON *result, const cJSON *baseline, double threshold, bool *slower);
/* Notes in `run` what its results were compared with. */
bool bench_run_note_baseline(cJSON *run, const cJSON *baseline, double threshold);

/* The table, and below it the details and the comparison. */
void bench_print(const cJSON *run, int limit);
/* One HTML page. */
bool bench_write_page(const cJSON *run, const char *path);

#endif
