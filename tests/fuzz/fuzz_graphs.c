/* Random valid graphs, which the bytes choose: backend auto gives what Tenon's kernels give without
 * optional passes, also in verify mode. */
#include <check.h> /* the one in asserts, before what would include Check's */

#include "../c/random_run.h"
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    fuzz_start();
    OK(tenon_passes_create(&defaults));
    return 0;
}

static void check(const subject *s, const trial *t, const variant *v, const char *what) {
    char text[512], *graph = NULL;
    if (passes(s, t, v, text, sizeof text))
        return;
    OK(tenon_graph_print(v->symbolic && s->symbolic ? s->symbolic : s->graph, &graph));
    fuzz_fail("%s\n%s: %s", graph, what, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static rg g;
    trial t;
    rg_make_from(&g, data, size);
    subject s = {.graph = g.graph, .seed = (uint64_t)size};
    memcpy(s.limit, g.limit, sizeof g.limit);
    s.symbolic = g.symbolic ? rg_symbolic(g.graph) : NULL;
    if (reference(&s, &t) == TENON_OK) {
        variant some = draw(&g, 50, true), all = draw(&g, 100, false);
        all.symbolic = true;
        all.backend = TENON_BACKEND_AUTO;
        check(&s, &t, &some, "backend reference, some passes in some order");
        check(&s, &t, &all, "backend auto");
        all.verify = true;
        check(&s, &t, &all, "backend auto, verified");
    }
    drop_trial(&t);
    tenon_graph_destroy(&s.symbolic);
    tenon_graph_destroy(&g.graph);
    return 0;
}
