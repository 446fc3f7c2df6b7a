/* What the subcommands share. */
#ifndef CLI_H
#define CLI_H

#include <popt.h>
#include <tenon/tenon.h>

/* Exit codes. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

typedef struct cli_command {
    const char *name, *summary;
    int (*run)(int argc, const char **argv);
} cli_command;

int cli_run(int argc, const char **argv);
int cli_info(int argc, const char **argv);
int cli_explain(int argc, const char **argv);
int cli_profile(int argc, const char **argv);
int cli_bench(int argc, const char **argv);
int cli_batch(int argc, const char **argv);
int cli_ops(int argc, const char **argv);
int cli_passes(int argc, const char **argv);
int cli_topology(int argc, const char **argv);

/* "NAME=VALUE" options, in order. */
typedef struct cli_pairs {
    struct cli_pair {
        char *name, *value;
    } * items;
    int count;
} cli_pairs;

/* Splits "NAME=VALUE"; CLI_USAGE for other text, and for a name given before. */
int cli_pairs_add(cli_pairs *pairs, const char *option, const char *text);
const char *cli_pairs_find(const cli_pairs *pairs, const char *name); /* NULL when absent */
void cli_pairs_free(cli_pairs *pairs);

/* Prints "tenon NAME: ..." on standard error and returns `code`. */
int cli_error(int code, const char *format, ...) TENON_PRINTF(2, 3);
/* The same with the library's last message. */
int cli_failed(void);
#ifdef __clang_analyzer__ /* tools/analyse must know what these return */
#define cli_error(code, ...) ((void)cli_error(code, __VA_ARGS__), (code))
#define cli_failed() ((void)cli_failed(), CLI_FAILED)
#endif
/* What cli_error calls the program: "run" gives "tenon run". */
void cli_set_command(const char *name);

/* Reads an integer in min..max; CLI_USAGE names the option. */
int cli_integer(const char *option, const char *text, long long min, long long max, long long *out);

/* Options of the commands that compile a model. */
typedef struct cli_compile {
    cli_pairs dims;   /* --dim */
    cli_pairs inputs; /* --input */
    cli_pairs drawn;  /* --draw-before and --draw-after: a number, and the file */
    char *backend, *precision, *fpmath, *tune_file, *threads;
    int tune, verify, copy_weights, check_weights;
    tenon_load_options load;       /* from --allow and, by cli_load, the above */
    tenon_passes *passes;          /* NULL: no option changed the default */
    tenon_session_options options; /* from the above, by cli_compile_check */
} cli_compile;

/* Values that poptGetNextOpt returns for options with text to take. */
enum {
    CLI_OPTION_HELP = 'h',
    CLI_OPTION_DIM = 1000,
    CLI_OPTION_INPUT,
    CLI_OPTION_EXPECT,
    CLI_OPTION_PLUGIN,
    CLI_OPTION_REMOVE_PASS,
    CLI_OPTION_NO_WINOGRAD,
    CLI_OPTION_PASS_OPTION,
    CLI_OPTION_DRAW_BEFORE,
    CLI_OPTION_DRAW_AFTER,
    CLI_OPTION_ALLOW
};

#define CLI_LOAD_OPTIONS(c)                                                     \
    {"allow",          0,                                                       \
     POPT_ARG_STRING,  NULL,                                                    \
     CLI_OPTION_ALLOW, "what the model may cost: docs/limits.md has the names", \
     "NAME=VALUE"},                                                             \
        {"copy-weights",                                                        \
         0,                                                                     \
         POPT_ARG_NONE,                                                         \
         &(c).copy_weights,                                                     \
         0,                                                                     \
         "load a copy of the weights, so that the file may change",             \
         NULL},                                                                 \
    {                                                                           \
        "check-weights", 0, POPT_ARG_NONE, &(c).check_weights, 0,               \
            "compare the checksums of all weights of an archive", NULL          \
    }

#define CLI_PLUGIN_OPTION                                           \
    {                                                               \
        "pass-plugin", 0, POPT_ARG_STRING, NULL, CLI_OPTION_PLUGIN, \
            "passes and ops of a shared object", "FILE.so"          \
    }
#define CLI_PASS_OPTIONS                                                                          \
    CLI_PLUGIN_OPTION, {"remove-pass",      0,     POPT_ARG_STRING, NULL, CLI_OPTION_REMOVE_PASS, \
                        "leave a pass out", "PASS"},                                              \
        {"no-winograd",                                                                           \
         0,                                                                                       \
         POPT_ARG_NONE,                                                                           \
         NULL,                                                                                    \
         CLI_OPTION_NO_WINOGRAD,                                                                  \
         "leave the pass winograd out",                                                           \
         NULL},                                                                                   \
        {"pass-option",          0,                                                               \
         POPT_ARG_STRING,        NULL,                                                            \
         CLI_OPTION_PASS_OPTION, "set an option of a pass",                                       \
         "PASS.KEY=VALUE"},                                                                       \
        {"draw-before",          0,                                                               \
         POPT_ARG_STRING,        NULL,                                                            \
         CLI_OPTION_DRAW_BEFORE, "draw the graph before a pass",                                  \
         "PASS=FILE.svg"},                                                                        \
    {                                                                                             \
        "draw-after", 0, POPT_ARG_STRING, NULL, CLI_OPTION_DRAW_AFTER,                            \
            "draw the graph after a pass", "PASS=FILE.svg"                                        \
    }
#define CLI_TUNE_OPTIONS(c)                                                                     \
    {"tune",    0, POPT_ARG_NONE,                                                               \
     &(c).tune, 0, "choose kernels by measurement, kept in $XDG_CACHE_HOME/tenon/choices.json", \
     NULL},                                                                                     \
    {                                                                                           \
        "tune-file", 0, POPT_ARG_STRING, &(c).tune_file, 0, "the same, kept in FILE", "FILE"    \
    }
#define CLI_COMPILE_OPTIONS(c)                                                                       \
    {"dim",           0,                                                                             \
     POPT_ARG_STRING, NULL,                                                                          \
     CLI_OPTION_DIM,  "size of a symbol, for models with open sizes",                                \
     "SYMBOL=N"},                                                                                    \
        {"backend", 0, POPT_ARG_STRING, &(c).backend, 0, "auto, onednn or reference (default auto)", \
         "BACKEND"},                                                                                 \
        {"precision", 0, POPT_ARG_STRING, &(c).precision, 0, "fp32 or bf16 (default fp32)",          \
         "PRECISION"},                                                                               \
        {"fpmath",    0, POPT_ARG_STRING,                                                            \
         &(c).fpmath, 0, "strict or bf16: how float32 products multiply (default strict)",           \
         "MODE"},                                                                                    \
        {"threads", 0, POPT_ARG_STRING, &(c).threads, 0, "threads (default: one for each core)",     \
         "N"},                                                                                       \
        {"verify",    0, POPT_ARG_NONE,                                                              \
         &(c).verify, 0, "leave out partitions and chosen kernels that differ from plain ones",      \
         NULL},                                                                                      \
        CLI_TUNE_OPTIONS(c), CLI_LOAD_OPTIONS(c), CLI_PASS_OPTIONS

/* Takes an option that these macros, or --input, declare. */
int cli_take_option(cli_compile *compile, int option, const char *text);
/* The same for cli_parse, where `user` is a cli_compile. */
int cli_take_compile_option(int option, const char *text, void *user);
int cli_take_pass_option(cli_compile *compile, int option, const char *text);
/* --allow; unknown names are CLI_USAGE, and the known ones are listed. */
int cli_take_limit(cli_compile *compile, const char *text);
/* The options that CLI_LOAD_OPTIONS declares, and loading a model with them. */
tenon_load_options cli_load_options(const cli_compile *compile);
int cli_load(const cli_compile *compile, const char *path, tenon_graph **out);
int cli_compile_check(cli_compile *compile);
void cli_compile_free(cli_compile *compile);

/* Parses the options; -1 when help was asked for, and given. `each` (may be NULL) is called for
 * options of the enumeration above, with "" where they take no value. Arguments are left for
 * poptGetArg. */
int cli_parse_options(poptContext popt, const char *usage, const char *about,
                      int (*each)(int option, const char *text, void *user), void *user);
/* Parses what is left: one model path, after the options. */
int cli_parse(poptContext popt, const char *usage, const char *about,
              int (*each)(int option, const char *text, void *user), void *user,
              const char **model);

/* A file that an option names; its path may be NULL. */
typedef struct cli_written {
    const char *option, *path;
} cli_written;

/* Files are written at the end: finds out before there is work to lose whether each can be, and is
 * neither a second one's, nor one that is read: a model, or what --input names. */
int cli_check_files(const cli_written *files, int count, const cli_compile *compile,
                    const char *const *models, int model_count);

/* The sizes of the graph's symbols, in order: from --dim, and from `known` shapes of inputs (dtype
 * NONE: unknown). -1: not known. The caller frees it. */
int cli_symbols(const tenon_graph *graph, const cli_pairs *dims, const tenon_view *known,
                int64_t **out);
/* The dtype and shape of input `index` for those sizes. */
int cli_input_shape(const tenon_graph *graph, int index, const int64_t *symbols, tenon_view *view);
/* Dtypes and shapes of all inputs, from --dim, and numbers from --input, into which the views of
 * inputs that are plain numbers point. The caller frees both. */
int cli_samples(const tenon_graph *graph, const cli_compile *compile, tenon_view **inputs,
                int64_t **numbers);
/* The value of an input that is a plain number, from the text that --input gave (NULL: none). */
int cli_number(const tenon_value *input, const char *text, int64_t *number, tenon_view *view);

/* Arrays and numbers for a graph's inputs. */
typedef struct cli_inputs {
    int count;
    tenon_tensor **tensors; /* NULL for those that are numbers */
    tenon_view *views;
    int64_t *numbers;
} cli_inputs;

/* Reads what --input gave; the others are random from `seed`, or CLI_USAGE lists them when it is
 * NULL. The caller frees it, also on failure. */
int cli_inputs_read(const tenon_graph *graph, const cli_compile *compile, const uint64_t *seed,
                    cli_inputs *out);
void cli_inputs_free(cli_inputs *inputs);

/* The elements in another dtype (the caller destroys it), or NULL. */
tenon_tensor *cli_converted(const tenon_view *view, tenon_dtype dtype);

/* Compares an output with what was expected. `error` receives the largest difference, `scale` the
 * largest expected magnitude; of numbers that are no floats, and so must be equal, 0 and -1.
 * CLI_FAILED for another shape, and where such numbers differ. */
int cli_compare(const char *name, const tenon_view *given, const tenon_view *wanted, double *error,
                double *scale);

/* Names of --input and --expect must be the model's. */
int cli_check_names(const cli_pairs *pairs, const char *option, const char *what, int count,
                    const char *(*name)(const void *model, int index), const void *model);
const char *cli_graph_input_name(const void *graph, int index);
const char *cli_graph_output_name(const void *graph, int index);

/* "float32[1, 3, s0]" of a value. */
void cli_value_text(const tenon_value *value, char *text, size_t capacity);
/* "97.5 MiB" */
void cli_bytes_text(double bytes, char *text, size_t capacity);

/* A tensor of seeded random elements for input `index`: floats from the normal distribution,
 * integers that stay within the tables that they index. */
int cli_random(const tenon_graph *graph, int index, const tenon_view *shape, uint64_t seed,
               tenon_tensor **out);

#endif
