/* Arguments of the command `tenon`, one a line. Its subcommands read their options and look at the
 * model, a small one; they do not compile or run it, make processes, or open plugins. */
#include "cli/cli.h"
#include "fuzz.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGUMENTS = 24, LENGTH = 200 };

static const struct {
    const char *name;
    int (*run)(int argc, const char **argv);
} commands[] = {
    {"run", cli_run},         {"info", cli_info},   {"explain", cli_explain},
    {"profile", cli_profile}, {"bench", cli_bench}, {"passes", cli_passes},
    {"ops", cli_ops},         {"batch", cli_batch}, {"topology", cli_topology},
};

static const char model[] = "graph model {\n  input %x: float32[s0, 2]\n  input %k: int\n"
                            "  const %w: float32[2] = {1, 2}\n  buffer %b: float32[2] = {0, 0}\n"
                            "  %y: float32[?, ?] = aten.mul.Tensor(%x, %w)\n"
                            "  output \"y\" = %y\n  output \"k\" = %k\n}\n";

/* ---- What the linker puts in the place of the library's functions (-Wl,--wrap) ---- */

tenon_status __wrap_tenon_load(const char *path, tenon_graph **out);
tenon_status __wrap_tenon_session_create(const tenon_graph *graph,
                                         const tenon_session_options *options, tenon_session **out);
tenon_status __wrap_tenon_plugin_load(const char *path, tenon_passes *passes);
tenon_status __wrap_tenon_dot_to_svg(const char *dot, int seconds, char **out);
int __wrap_fork(void);

tenon_status __wrap_tenon_load(const char *path, tenon_graph **out) {
    return tenon_graph_parse(model, path, out);
}

tenon_status __wrap_tenon_session_create(const tenon_graph *graph,
                                         const tenon_session_options *options,
                                         tenon_session **out) {
    (void)graph, (void)options, (void)out;
    return tenon_fail(TENON_UNSUPPORTED, "nothing is compiled here");
}

tenon_status __wrap_tenon_plugin_load(const char *path, tenon_passes *passes) {
    (void)passes;
    return tenon_fail(TENON_IO, "%s: cannot be opened", path);
}

tenon_status __wrap_tenon_dot_to_svg(const char *dot, int seconds, char **out) {
    (void)dot, (void)seconds, (void)out;
    return tenon_fail(TENON_UNSUPPORTED, "nothing is drawn here");
}

int __wrap_fork(void) {
    return -1;
}

/* popt does not free what it took apart of "-abc" when c is unknown. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:poptGetNextOpt";
}

/* ---- Running ---- */

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    fuzz_start();
    if (chdir(fuzz_folder()) != 0)
        fuzz_fail("%s cannot be entered", fuzz_folder());
    return 0;
}

/* What the options had written. */
static void clear_folder(void) {
    DIR *folder = opendir(".");
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove(entry->d_name);
    if (folder)
        closedir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char text[ARGUMENTS][LENGTH];
    const char *argv[ARGUMENTS + 1] = {NULL};
    int argc = 0;
    for (size_t at = 0; at < size && argc < ARGUMENTS; argc++) {
        size_t used = 0;
        for (; at < size && data[at] != '\n'; at++)
            if (used + 1 < LENGTH && data[at])
                text[argc][used++] =
                    data[at] == '/' ? '_' : (char)data[at]; /* stays in the folder */
        text[argc][used] = '\0';
        argv[argc] = text[argc];
        at++;
    }
    for (size_t i = 0; argc > 0 && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[0], commands[i].name) == 0) {
            cli_set_command(argv[0]);
            commands[i].run(argc, argv);
        }
    clear_folder();
    return 0;
}
