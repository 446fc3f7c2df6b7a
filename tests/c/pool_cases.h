/* What the tests of pools share: a small model, requests, and an instance that is held where a test
 * wants it by a callback that waits, so that nothing depends on time. */
#ifndef TEST_POOL_CASES_H
#define TEST_POOL_CASES_H

#include "run/pool.h"
#include "run_graph.h"
#include <semaphore.h>
#include <stdatomic.h>

enum { ROWS = 3, WIDTH = 5 };

static const char affine[] = "graph g {\n"
                             "  symbol s0 in [1, 64]\n"
                             "  input %x: float32[s0, 5]\n"
                             "  const %w: float32[5] = {1, 2, 3, 4, 5}\n"
                             "  %a = aten.mul.Tensor(%x, %w)\n"
                             "  %y = aten.relu(%a)\n"
                             "  output \"y\" = %y\n"
                             "}\n";

static inline tenon_pool *make_pool(const char *text, const tenon_pool_options *options,
                                    const tenon_view *samples, int count) {
    tenon_graph *graph = parse_graph(text);
    tenon_pool *pool = NULL;
    OK(tenon_pool_create(graph, NULL, options, samples, count, &pool));
    tenon_graph_destroy(&graph);
    return pool;
}

static inline tenon_pool *affine_pool(int instances, int queue) {
    const tenon_pool_options options = {.instances = instances, .threads = 1, .queue = queue};
    tenon_view sample = floats(NULL, ROWS, WIDTH);
    return make_pool(affine, &options, &sample, 1);
}

/* Numbers that differ from request to request, and what `affine` makes of them. */
static inline void fill(float *x, int rows, int seed) {
    for (int i = 0; i < rows * WIDTH; i++)
        x[i] = (float)((i * 7 + seed * 13) % 29) - 9;
}

static inline bool right(const float *x, const float *y, int rows) {
    for (int i = 0; i < rows * WIDTH; i++) {
        float want = x[i] * (float)(i % WIDTH + 1);
        if (y[i] != (want > 0 ? want : 0))
            return false;
    }
    return true;
}

/* ---- An instance that is held ---- */

typedef struct gate {
    sem_t reached, open;
    atomic_int calls;
    tenon_status status;
} gate;

static inline void gate_init(gate *g) {
    *g = (gate){.status = TENON_INTERNAL};
    sem_init(&g->reached, 0, 0);
    sem_init(&g->open, 0, 0);
}

static inline void hold(void *user, tenon_status status, const tenon_view *outputs) {
    gate *g = user;
    (void)outputs;
    g->status = status;
    sem_post(&g->reached);
    sem_wait(&g->open);
}

static inline void note(void *user, tenon_status status, const tenon_view *outputs) {
    gate *g = user;
    (void)outputs;
    g->status = status;
    atomic_fetch_add(&g->calls, 1);
}

typedef struct run {
    float x[ROWS * WIDTH], y[ROWS * WIDTH];
    tenon_view in, out;
    tenon_request *request;
} run;

static inline void run_init(run *r, int seed) {
    fill(r->x, ROWS, seed);
    r->in = floats(r->x, ROWS, WIDTH);
    r->out = floats(r->y, ROWS, WIDTH);
}

static inline void run_submit(tenon_pool *pool, run *r, tenon_pool_done done, void *user) {
    OK(tenon_pool_submit(pool, &r->in, 1, &r->out, 1, done, user, &r->request));
}

/* The pool's one instance is in a callback when this returns. */
static inline void occupy(tenon_pool *pool, run *r, gate *g) {
    gate_init(g);
    run_init(r, 99);
    run_submit(pool, r, hold, g);
    sem_wait(&g->reached);
}

static inline void release(run *r, gate *g) {
    sem_post(&g->open);
    OK(tenon_request_wait(&r->request));
    ck_assert_int_eq(g->status, TENON_OK);
}

typedef struct producer {
    tenon_pool *pool;
    run *r;
} producer;

/* Without memory of the caller's, and without a handle. */
static inline void check_outputs(void *user, tenon_status status, const tenon_view *outputs) {
    run *r = user;
    if (status == TENON_OK && outputs[0].data)
        memcpy(r->y, outputs[0].data, sizeof r->y);
}

/* One row of a run's numbers. */
static inline void take_rows(run *r, int from, int rows) {
    r->in = floats(r->x + from * WIDTH, rows, WIDTH);
    r->out = floats(r->y + from * WIDTH, rows, WIDTH);
}

#endif
