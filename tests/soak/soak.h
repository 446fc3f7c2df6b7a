/* The soak test's parts. models.c has models with what they give, work.c what its threads do,
 * refused.c what must fail, usage.c what the process holds, main.c the rounds. */
#ifndef SOAK_H
#define SOAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#define CHECK(call)                                                                       \
    do {                                                                                  \
        if ((call) != TENON_OK) {                                                         \
            fprintf(stderr, "soak: %s:%d: %s\n", __FILE__, __LINE__, tenon_last_error()); \
            exit(EXIT_FAILURE);                                                           \
        }                                                                                 \
    } while (0)

enum { MAX_MODELS = 64, MAX_SETS = 6, MAX_VALUES = 16, FORMS = 2, ROWS = 4 };

/* ---- Faults and figures ---- */

typedef struct figures {
    atomic_llong runs, requests, cancelled, busy, loads, sessions, refused, recordings, children;
    atomic_llong faults;
} figures;

extern figures figure;

/* Counts a fault, and tells of the first ones. */
void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Models ---- */

/* How a session is made. The same inputs give the same bytes in every session of one variant. */
typedef struct variant {
    const char *name;
    tenon_session_options options;
    double tolerance; /* of the largest element of the reference's output */
} variant;

extern const variant variants[];
extern const int variant_count;

/* Inputs of one set of shapes, and what they give. */
typedef struct sample {
    tenon_tensor *inputs[MAX_VALUES];
    tenon_tensor *outputs[MAX_VALUES];  /* of the reference kernels on one thread */
    tenon_tensor *(*exact)[MAX_VALUES]; /* by variant */
} sample;

typedef struct model {
    const char *name;
    char *files[FORMS]; /* that it is loaded from; NULL: no such file */
    bool rows;          /* row i of each output depends on row i of each input only */
    bool stateful;
    tenon_graph *graph;
    int inputs, outputs, sets;
    sample samples[MAX_SETS];
} model;

extern model models[MAX_MODELS];
extern int model_count;

/* Makes the models that are built in, from files of `source` (the project's folder), and those of
 * `paths`; other forms of them are written into `folder`. */
void models_make(const char *source, const char *folder, char **paths, int path_count);
void models_free(void);

/* Makes a session of the variant that keeps few shapes. */
tenon_status model_session(const tenon_graph *graph, int v, int max_shapes, bool verify,
                           tenon_session **out);
/* Runs a set of inputs, which are copied first, and compares. Returns false for a fault. */
bool model_run(const model *m, int set, int v, tenon_context *context);
/* Whether outputs are the bytes that the variant gives, or near to what rows from `row` on of the
 * reference's outputs are. */
bool model_exact(const model *m, int set, int v, const tenon_view *outputs);
bool model_near(const model *m, int set, int v, int64_t row, const tenon_view *outputs);

/* ---- Work ---- */

unsigned next_random(unsigned *state);

/* One round: sessions and pools that eight threads share, while they make and end their own. */
void round_run(int number, const char *folder);

/* A call that must fail, of kind `kind` (any number), and then does so as it should. */
void refused_call(unsigned kind, const char *folder);
void refused_make(const char *folder);

/* ---- What the process holds ---- */

typedef struct usage {
    double resident, used; /* MiB: resident, and what the allocator handed out */
    int files, mappings, threads;
} usage;

/* Now, or when no more than `threads` threads are left, for some of them may be ending. */
usage usage_now(int threads);

#endif
