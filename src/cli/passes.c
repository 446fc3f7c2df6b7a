/* The options that change the list of passes, and tenon passes. */
#include "cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int option;
    const char *name;
} pass_options[] = {
    {CLI_OPTION_PLUGIN, "--pass-plugin"},      {CLI_OPTION_REMOVE_PASS, "--remove-pass"},
    {CLI_OPTION_NO_WINOGRAD, "--no-winograd"}, {CLI_OPTION_PASS_OPTION, "--pass-option"},
    {CLI_OPTION_DRAW_BEFORE, "--draw-before"}, {CLI_OPTION_DRAW_AFTER, "--draw-after"},
};

static const char *name_of(int option) {
    for (size_t i = 0; i < sizeof pass_options / sizeof *pass_options; i++)
        if (pass_options[i].option == option)
            return pass_options[i].name;
    return "";
}

/* A plugin that is no file of the folder searched otherwise: "mine.so" means "./mine.so", as with
 * any other file. */
static tenon_status load_plugin(const char *path, tenon_passes *passes) {
    if (strchr(path, '/'))
        return tenon_plugin_load(path, passes);
    char *local = malloc(strlen(path) + 3);
    if (!local)
        return tenon_fail(TENON_OUT_OF_MEMORY, "out of memory");
    sprintf(local, "./%s", path);
    tenon_status status = tenon_plugin_load(local, passes);
    free(local);
    return status;
}

static int note_drawn(cli_compile *compile, int option, const char *path) {
    char pair[4200];
    int length = snprintf(pair, sizeof pair, "%d=%s", compile->drawn.count, path);
    return length < 0 || (size_t)length >= sizeof pair
               ? cli_error(CLI_USAGE, "%s: the path is too long", name_of(option))
               : cli_pairs_add(&compile->drawn, name_of(option), pair);
}

/* PASS=FILE, or PASS.KEY=VALUE. */
static int take_pair(cli_compile *compile, int option, char *text) {
    tenon_passes *passes = compile->passes;
    char *value = strchr(text, '='), *key = NULL;
    if (!value)
        return cli_error(CLI_USAGE, "%s: '%s' has no '='", name_of(option), text);
    *value++ = '\0';
    if (option == CLI_OPTION_PASS_OPTION) {
        key = strchr(text, '.');
        if (!key)
            return cli_error(CLI_USAGE, "%s: '%s' is not PASS.KEY", name_of(option), text);
        *key++ = '\0';
    }
    tenon_status status =
        key ? tenon_passes_set_option(passes, text, key, value)
            : tenon_passes_insert_drawing(passes, text, option == CLI_OPTION_DRAW_AFTER, value);
    if (status != TENON_OK)
        return cli_error(CLI_USAGE, "%s: %s", name_of(option), tenon_last_error());
    return key ? CLI_OK : note_drawn(compile, option, value);
}

int cli_take_pass_option(cli_compile *compile, int option, const char *text) {
    tenon_status status = TENON_OK;
    if (!compile->passes)
        status = tenon_passes_create(&compile->passes);
    if (status == TENON_OK && option == CLI_OPTION_PLUGIN) {
        if (load_plugin(text, compile->passes) != TENON_OK)
            return cli_failed();
    } else if (status == TENON_OK &&
               (option == CLI_OPTION_REMOVE_PASS || option == CLI_OPTION_NO_WINOGRAD)) {
        if (option == CLI_OPTION_NO_WINOGRAD)
            text = "winograd";
        if (tenon_passes_remove(compile->passes, text) != TENON_OK)
            return cli_error(CLI_USAGE, "%s: %s", name_of(option), tenon_last_error());
    } else if (status == TENON_OK) {
        char *copy = strdup(text);
        int code = copy ? take_pair(compile, option, copy) : cli_error(CLI_FAILED, "out of memory");
        free(copy);
        return code;
    }
    return status == TENON_OK ? CLI_OK : cli_failed();
}

/* ---- tenon passes ---- */

static int print_list(const cli_compile *compile) {
    tenon_passes *passes = compile->passes, *made = NULL;
    char *text = NULL;
    if (!passes && tenon_passes_create(&made) != TENON_OK)
        return cli_failed();
    int code = tenon_passes_dump(passes ? passes : made, &text) == TENON_OK ? CLI_OK : cli_failed();
    if (code == CLI_OK)
        printf("%s", text);
    tenon_string_free(text);
    tenon_passes_destroy(&made);
    return code;
}

static int print_records(const tenon_graph *graph) {
    tenon_pass_record record;
    for (int i = 0; tenon_graph_record(graph, i, &record); i++)
        fprintf(stderr, "%-18s %lld nodes went, %lld came: %lld -> %lld\n", record.name,
                (long long)record.removed_count, (long long)record.added_count,
                (long long)record.nodes_before, (long long)record.nodes_after);
    return CLI_OK;
}

static int apply(const char *path, cli_compile *compile) {
    tenon_graph *graph = NULL;
    tenon_view *inputs = NULL;
    int64_t *numbers = NULL;
    char *text = NULL;
    int code = cli_load(compile, path, &graph);
    if (code == CLI_OK && !compile->passes && tenon_passes_create(&compile->passes) != TENON_OK)
        code = cli_failed();
    if (code == CLI_OK)
        code = cli_samples(graph, compile, &inputs, &numbers);
    if (code == CLI_OK && tenon_passes_apply(compile->passes, &graph, inputs,
                                             tenon_graph_input_count(graph)) != TENON_OK)
        code = cli_failed();
    if (code == CLI_OK && tenon_graph_print(graph, &text) != TENON_OK)
        code = cli_failed();
    if (code == CLI_OK) {
        printf("%s", text);
        code = print_records(graph);
    }
    tenon_string_free(text);
    free(inputs);
    free(numbers);
    tenon_graph_destroy(&graph);
    return code;
}

static const char about[] =
    "Lists the passes in the order in which they run; '*' marks those that are not Tenon's own. "
    "With MODEL: applies them\n"
    "to it, and prints the graph that they leave as text, and which of them changed it on standard "
    "error. Options are\n"
    "followed in their order. TENON_DEBUG=5 in the environment prints the graph after each pass "
    "that changed it.";

int cli_passes(int argc, const char **argv) {
    const char *path = NULL;
    cli_compile compile = {0};
    struct poptOption options[] = {
        {"input", 0, POPT_ARG_STRING, NULL, CLI_OPTION_INPUT, "value of an input that is a number",
         "NAME=NUMBER"},
        {"dim", 0, POPT_ARG_STRING, NULL, CLI_OPTION_DIM, "size of a symbol", "SYMBOL=N"},
        CLI_LOAD_OPTIONS(compile),
        CLI_PASS_OPTIONS,
        {"help", 'h', POPT_ARG_NONE, NULL, CLI_OPTION_HELP, "this text", NULL},
        POPT_TABLEEND};
    poptContext popt = poptGetContext("tenon passes", argc, argv, options, 0);
    int code =
        cli_parse(popt, "[MODEL] [OPTION...]", about, cli_take_compile_option, &compile, &path);
    if (code == CLI_OK)
        code = path ? apply(path, &compile) : print_list(&compile);
    cli_compile_free(&compile);
    poptFreeContext(popt);
    return code < 0 ? CLI_OK : code;
}
