/* A small model that tests of the profiler run, and what they ask of its events. */
#ifndef PROFILE_NET_H
#define PROFILE_NET_H

#include "run_graph.h"

static const char net_text[] =
    "graph net {\n"
    "  input %x: float32[s0, 3, 16, 16]\n"
    "  const %w: float32[8, 3, 3, 3] = random(1)\n"
    "  const %l: float32[8, 5] = random(2)\n"
    "  %c = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, "
    "[0, 0], 1) in \"features.0\"\n"
    "  %r = aten.relu(%c) in \"features.1\"\n"
    "  %m = aten.mean.dim(%r, [2, 3])\n"
    "  %p = aten.mm(%m, %l) in \"head\"\n"
    "  output \"p\" = %p\n"
    "}\n";

typedef struct runner {
    tenon_session *session;
    tenon_context *context;
    float x[4 * 3 * 16 * 16];
} runner;

static inline void make_runner(runner *r, tenon_backend backend) {
    r->session = make_session(net_text, backend);
    OK(tenon_context_create(r->session, &r->context));
    for (size_t i = 0; i < sizeof r->x / sizeof *r->x; i++)
        r->x[i] = (float)(i % 13) / 6 - 1;
}

/* Without an assertion, for loops, threads and children of fork. */
static inline tenon_status try_run(runner *r, int64_t rows) {
    tenon_view input = view_of(r->x, TENON_FLOAT32, rows, 3, 16, 16), output = {0};
    return tenon_context_run(r->context, &input, 1, &output, 1);
}

static inline void run_once(runner *r, int64_t rows) {
    OK(try_run(r, rows));
}

static inline void drop_runner(runner *r) {
    tenon_context_destroy(&r->context);
    tenon_session_destroy(&r->session);
}

static inline int find_event(const tenon_profiler *profiler, tenon_event_kind kind,
                             const char *name, int from, tenon_event *out) {
    for (int i = from; tenon_profiler_get_event(profiler, i, out); i++)
        if (out->kind == kind && strcmp(out->name, name) == 0)
            return i;
    return -1;
}

/* Children lie within their parents, and self times sum to the roots' totals. */
static inline void check_nesting(const tenon_profiler *profiler) {
    int64_t roots = 0, self = 0;
    tenon_event event, parent;
    for (int i = 0; tenon_profiler_get_event(profiler, i, &event); i++) {
        self += event.self_ns;
        if (event.self_ns < 0 || event.start_ns > event.end_ns)
            ck_abort_msg("event %d takes no time", i);
        if (event.parent < 0) {
            roots += event.end_ns - event.start_ns;
            continue;
        }
        if (event.parent >= i || !tenon_profiler_get_event(profiler, event.parent, &parent) ||
            parent.thread != event.thread || event.start_ns < parent.start_ns ||
            event.end_ns > parent.end_ns)
            ck_abort_msg("event %d does not lie in event %d", i, event.parent);
    }
    ck_assert_int_eq(self, roots);
}

#endif
