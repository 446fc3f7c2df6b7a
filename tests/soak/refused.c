/* What must fail: broken files, limits, inputs that do not fit, runs that cannot be computed. */
#include "soak.h"
#include <stdio.h>
#include <string.h>

static char cut_file[512];

/* The first half of a model's file. */
void refused_make(const char *folder) {
    static char bytes[1 << 20];
    FILE *from = fopen(models[0].files[0], "rb");
    size_t size = from ? fread(bytes, 1, sizeof bytes, from) / 2 : 0;
    snprintf(cut_file, sizeof cut_file, "%s/cut.pt2", folder);
    FILE *to = fopen(cut_file, "wb");
    if (!to || size == 0 || fwrite(bytes, 1, size, to) != size)
        exit(EXIT_FAILURE);
    fclose(from);
    fclose(to);
}

static void expect(const char *what, tenon_status got, tenon_status want) {
    atomic_fetch_add(&figure.refused, 1);
    if (got != want || tenon_last_error()[0] == 0)
        fault("%s: status %s, not %s: %s", what, tenon_status_text(got), tenon_status_text(want),
              tenon_last_error());
}

static tenon_status session_fails(const tenon_graph *graph, const tenon_session_options *options) {
    tenon_session *session = NULL;
    tenon_status status = tenon_session_create(graph, options, &session);
    tenon_session_destroy(&session);
    return status;
}

static void refuse_file(int kind, const char *folder) {
    char path[512];
    tenon_graph *graph = NULL;
    const tenon_load_options few = {.max_nodes = 1};
    snprintf(path, sizeof path, "%s/none.pt2", folder);
    switch (kind) {
    case 0:
        expect("a file that is not there", tenon_load(path, &graph), TENON_IO);
        break;
    case 1:
        expect("half a file", tenon_load(cut_file, &graph), TENON_INVALID_FILE);
        break;
    case 2:
        expect("a limit of nodes", tenon_load_with(models[0].files[0], &few, &graph), TENON_LIMIT);
        break;
    default:
        expect("half a text", tenon_graph_parse("graph g { input %x", "half", &graph),
               TENON_INVALID_FILE);
    }
    tenon_graph_destroy(&graph);
}

static void refuse_session(int kind) {
    const tenon_session_options few = {.limits = {.nodes = 1}}, isa = {.isa = "mmx"};
    if (kind == 0)
        expect("a session of one node", session_fails(models[0].graph, &few), TENON_LIMIT);
    else
        expect("an ISA", session_fails(models[0].graph, &isa), TENON_INVALID_ARGUMENT);
}

/* Runs of an integer division, whose inputs are wrong in one way; it goes on afterwards. */
static void refuse_run(int kind) {
    static const char text[] = "graph divide {\n"
                               "  input %x: int64[s0]\n"
                               "  const %k: int64[1] = {8}\n"
                               "  %y = aten.floor_divide(%k, %x)\n"
                               "  output \"y\" = %y\n"
                               "}\n";
    const tenon_session_options options = {.threads = 1, .limits = {.elements = kind == 4 ? 2 : 0}};
    int64_t x[3] = {1, 2, 4}, y[3] = {0, 0, 0};
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    CHECK(tenon_graph_parse(text, "divide", &graph));
    CHECK(tenon_session_create(graph, &options, &session));
    CHECK(tenon_context_create(session, &context));
    tenon_view in = {.data = x, .dtype = TENON_INT64, .rank = 1, .shape = {3}, .strides = {1}};
    tenon_view out = in;
    out.data = y;
    tenon_view bad_in = in, bad_out = out;
    tenon_status want = TENON_INPUT_MISMATCH;
    switch (kind) {
    case 0:
        bad_in.dtype = TENON_FLOAT32;
        break;
    case 1:
        bad_in.data = NULL;
        break;
    case 2:
        bad_out.shape[0] = 2;
        want = TENON_INVALID_ARGUMENT;
        break;
    case 3:
        x[1] = 0;
        want = TENON_RUN_FAILED;
        break;
    default:
        want = TENON_LIMIT;
    }
    expect("a run", tenon_context_run(context, &bad_in, 1, &bad_out, 1), want);
    x[1] = 2;
    if (kind != 4 && (tenon_context_run(context, &in, 1, &out, 1) != TENON_OK || y[0] != 8 ||
                      y[1] != 4 || y[2] != 2))
        fault("a run behind one that failed: %s", tenon_last_error());
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
}

void refused_call(unsigned kind, const char *folder) {
    int k = (int)(kind % 11);
    if (k < 4)
        refuse_file(k, folder);
    else if (k < 6)
        refuse_session(k - 4);
    else
        refuse_run(k - 6);
}
