/* tenon explain */
#include "explain.h"
#include <stdlib.h>
#include <string.h>

typedef struct explain {
    cli_compile compile;
    char *html, *json;
    int profile;
    tenon_graph *graph;
    report report;
    tenon_view *inputs;
    int64_t *numbers;
} explain;

static int take_option(int option, const char *text, void *user) {
    explain *e = user;
    return cli_take_option(&e->compile, option, text);
}

/* Compiles, and shows what came of it in all the ways that were asked for. */
static int show(explain *e, int input_count) {
    report *r = &e->report;
    e->compile.options.dry_run = !e->profile && !e->compile.verify;
    if (tenon_session_create(e->graph, &e->compile.options, &r->session) != TENON_OK ||
        tenon_session_compile(r->session, e->inputs, input_count) != TENON_OK)
        return cli_failed();
    int code = report_gather(r);
    if (code == CLI_OK && e->profile)
        code = report_measure(r, e->graph, e->inputs, &e->compile.options);
    if (code == CLI_OK)
        code = report_print(r);
    if (code == CLI_OK && e->json)
        code = report_write_json(r, e->json);
    if (code == CLI_OK && e->html)
        code = report_write_html(r, e->html);
    return code;
}

static int execute(explain *e) {
    int code = cli_load(&e->compile, e->report.path, &e->graph);
    if (code == CLI_OK)
        code = cli_samples(e->graph, &e->compile, &e->inputs, &e->numbers);
    return code == CLI_OK ? show(e, tenon_graph_input_count(e->graph)) : code;
}

static const char about[] =
    "Tells where each part of MODEL runs: the oneDNN Graph partitions with their nodes, what was\n"
    "fused, what memory they move, and why each begins where it does; the nodes that Tenon's own\n"
    "kernels compute, and why; conversions and copies. Nothing is compiled, except with "
    "--verify,\n"
    "and with --profile, which runs the model on random inputs and tells how long each step takes. "
    "--html writes a "
    "page\n"
    "with the graph for a browser, --json the facts for programs; docs/explain.md describes both.";

int cli_explain(int argc, const char **argv) {
    explain e = {0};
    struct poptOption options[] = {
        {"input", 0, POPT_ARG_STRING, NULL, CLI_OPTION_INPUT, "value of an input that is a number",
         "NAME=NUMBER"},
        {"html", 0, POPT_ARG_STRING, &e.html, 0, "write a page for a browser", "FILE"},
        {"json", 0, POPT_ARG_STRING, &e.json, 0, "write all facts as JSON", "FILE"},
        {"profile", 0, POPT_ARG_NONE, &e.profile, 0, "compile, run, and measure each step", NULL},
        CLI_COMPILE_OPTIONS(e.compile),
        {"help", 'h', POPT_ARG_NONE, NULL, CLI_OPTION_HELP, "this text", NULL},
        POPT_TABLEEND};
    poptContext popt = poptGetContext("tenon explain", argc, argv, options, 0);
    int code = cli_parse(popt, "MODEL [OPTION...]", about, take_option, &e, &e.report.path);
    if (code == CLI_OK)
        code = cli_compile_check(&e.compile);
    if (code == CLI_OK && !e.report.path)
        code = cli_error(CLI_USAGE, "no model is given; see --help");
    const cli_written files[] = {{"--json", e.json}, {"--html", e.html}};
    if (code == CLI_OK)
        code = cli_check_files(files, 2, &e.compile, &e.report.path, 1);
    e.report.backend = e.compile.backend ? e.compile.backend : "auto";
    e.report.precision = e.compile.precision ? e.compile.precision : "fp32";
    if (code == CLI_OK)
        code = execute(&e);
    report_free(&e.report);
    tenon_session_destroy(&e.report.session);
    tenon_graph_destroy(&e.graph);
    free(e.inputs);
    free(e.numbers);
    free(e.html);
    free(e.json);
    cli_compile_free(&e.compile);
    poptFreeContext(popt);
    return code < 0 ? CLI_OK : code;
}
