/* The command `tenon`. */
#include "cli.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const cli_command commands[] = {
    {"run", "run a model, print and compare its outputs, time it", cli_run},
    {"info", "inputs, outputs, symbols, parameters and ops of a model", cli_info},
    {"explain", "where each part of a model runs, and why", cli_explain},
    {"profile", "what a model's time, memory and arithmetic go to", cli_profile},
    {"batch", "run a model on files of samples, with all cores; can be interrupted and resumed",
     cli_batch},
    {"bench", "how fast models run: times, rates, memory; comparison with an earlier run",
     cli_bench},
    {"passes", "the passes that change a graph before it is compiled, and what they leave",
     cli_passes},
    {"topology", "the cores that models may use, and where instances would run", cli_topology},
    {"ops", "the operators that Tenon knows", cli_ops},
};

static void usage(FILE *to) {
    fprintf(to, "usage: tenon COMMAND [OPTION...]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(to, "  %-8s  %s\n", commands[i].name, commands[i].summary);
    fprintf(to,
            "\n  --version   versions of Tenon and oneDNN, and what they use here\n"
            "  --help      this text; `tenon COMMAND --help` tells a command's options\n\n"
            "Exit status: 0 done, 1 failed or an output differs, 2 wrong usage, which may be that\n"
            "the model has no such input, symbol or size.\n"
            "TENON_DEBUG=3 in the environment shows every stage, up to TENON_DEBUG=5.\n");
}

static int version(void) {
    tenon_build_info info;
    tenon_get_build_info(&info);
    printf("tenon %s\n", info.version);
    printf("oneDNN %s, run time %s, ISA %s\n", info.onednn_version, info.onednn_runtime,
           info.onednn_isa);
    printf("kernels for %s, %d thread%s\n", info.kernel_isa, info.cores,
           info.cores == 1 ? "" : "s");
    printf("CPU: %s\n", info.cpu);
    return CLI_OK;
}

/* A file must not get the number of a closed stream. What stands there instead fails as that would:
 * it is not read as if it were empty, nor written as if somebody saw it. */
static void open_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* it gets `fd` */
}

static int run(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return version();
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        usage(stdout);
        return CLI_OK;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(name, commands[i].name) != 0)
            continue;
        /* popt's help names the program by its first argument. */
        char program[32];
        snprintf(program, sizeof program, "tenon %s", name);
        argv[1] = program;
        cli_set_command(commands[i].name);
        return commands[i].run(argc - 1, (const char **)argv + 1);
    }
    if (*name)
        cli_error(CLI_USAGE, "there is no command '%s'", name);
    usage(stderr);
    return CLI_USAGE;
}

int main(int argc, char **argv) {
    open_streams();
    int code = run(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout))
        return cli_error(CLI_FAILED, "writing to standard output failed");
    return code;
}
