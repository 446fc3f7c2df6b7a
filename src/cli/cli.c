#include "cli.h"
#include <batch/file.h>
#include <batch/identity.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Errors ---- */

static const char *command_name = "";

void cli_set_command(const char *name) {
    command_name = name;
}

int(cli_error)(int code, const char *format, ...) {
    va_list args;
    fflush(stdout);
    fprintf(stderr, "tenon%s%s: ", *command_name ? " " : "", command_name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return code;
}

int(cli_failed)(void) {
    return cli_error(CLI_FAILED, "%s", tenon_last_error());
}

int cli_integer(const char *option, const char *text, long long min, long long max,
                long long *out) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != 0 || value < min || value > max)
        return cli_error(CLI_USAGE, "%s: '%s' is not a whole number from %lld to %lld", option,
                         text, min, max);
    *out = value;
    return CLI_OK;
}

/* ---- Pairs ---- */

int cli_pairs_add(cli_pairs *pairs, const char *option, const char *text) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || equals[1] == 0)
        return cli_error(CLI_USAGE, "%s: '%s' is not NAME=VALUE", option, text);
    char *name = strndup(text, (size_t)(equals - text)), *value = strdup(equals + 1);
    struct cli_pair *items = realloc(pairs->items, ((size_t)pairs->count + 1) * sizeof *items);
    if (items)
        pairs->items = items;
    if (!name || !value || !items) {
        free(name);
        free(value);
        return cli_error(CLI_FAILED, "out of memory");
    }
    if (cli_pairs_find(pairs, name)) {
        int code = cli_error(CLI_USAGE, "%s: '%s' is given twice", option, name);
        free(name);
        free(value);
        return code;
    }
    pairs->items[pairs->count++] = (struct cli_pair){name, value};
    return CLI_OK;
}

const char *cli_pairs_find(const cli_pairs *pairs, const char *name) {
    for (int i = 0; i < pairs->count; i++) {
        if (strcmp(pairs->items[i].name, name) == 0)
            return pairs->items[i].value;
    }
    return NULL;
}

void cli_pairs_free(cli_pairs *pairs) {
    for (int i = 0; i < pairs->count; i++) {
        free(pairs->items[i].name);
        free(pairs->items[i].value);
    }
    free(pairs->items);
    *pairs = (cli_pairs){0};
}

const char *cli_graph_input_name(const void *graph, int index) {
    return tenon_value_name(tenon_graph_input(graph, index));
}

const char *cli_graph_output_name(const void *graph, int index) {
    return tenon_graph_output_name(graph, index);
}

int cli_check_names(const cli_pairs *pairs, const char *option, const char *what, int count,
                    const char *(*name)(const void *model, int index), const void *model) {
    for (int i = 0; i < pairs->count; i++) {
        int found = 0;
        for (int j = 0; j < count; j++)
            found |= strcmp(pairs->items[i].name, name(model, j)) == 0;
        if (found)
            continue;
        cli_error(CLI_USAGE, "%s: the model has no %s '%s'; it has:", option, what,
                  pairs->items[i].name);
        for (int j = 0; j < count; j++)
            fprintf(stderr, "  %s\n", name(model, j));
        return CLI_USAGE;
    }
    return CLI_OK;
}

/* ---- Options ---- */

int cli_compile_check(cli_compile *compile) {
    static const char *const backends[] = {"auto", "onednn", "reference"};
    static const char *const precisions[] = {"fp32", "bf16"};
    tenon_session_options *options = &compile->options;
    int backend = 0, precision = 0;
    while (compile->backend && backend < 3 && strcmp(compile->backend, backends[backend]) != 0)
        backend++;
    if (backend == 3)
        return cli_error(CLI_USAGE, "--backend: '%s' is not auto, onednn or reference",
                         compile->backend);
    while (compile->precision && precision < 2 &&
           strcmp(compile->precision, precisions[precision]) != 0)
        precision++;
    if (precision == 2)
        return cli_error(CLI_USAGE, "--precision: '%s' is not fp32 or bf16", compile->precision);
    bool bf16 = compile->fpmath && strcmp(compile->fpmath, "bf16") == 0;
    if (compile->fpmath && !bf16 && strcmp(compile->fpmath, "strict") != 0)
        return cli_error(CLI_USAGE, "--fpmath: '%s' is not strict or bf16", compile->fpmath);
    long long threads = 0;
    if (compile->threads && cli_integer("--threads", compile->threads, 0, 1024, &threads) != CLI_OK)
        return CLI_USAGE;
    if (compile->tune_file && !*compile->tune_file)
        return cli_error(CLI_USAGE, "--tune-file: the path is empty; --tune is for the default "
                                    "file");
    options->backend = (tenon_backend)backend;
    options->precision = (tenon_precision)precision;
    options->fpmath = bf16 ? TENON_FPMATH_BF16 : TENON_FPMATH_STRICT;
    options->threads = (int)threads;
    options->verify = compile->verify;
    options->passes = compile->passes;
    options->tune = compile->tune_file ? compile->tune_file : compile->tune ? "" : NULL;
    return CLI_OK;
}

int cli_take_option(cli_compile *compile, int option, const char *text) {
    if (option == CLI_OPTION_DIM)
        return cli_pairs_add(&compile->dims, "--dim", text);
    if (option == CLI_OPTION_INPUT)
        return cli_pairs_add(&compile->inputs, "--input", text);
    if (option == CLI_OPTION_ALLOW)
        return cli_take_limit(compile, text);
    return cli_take_pass_option(compile, option, text);
}

int cli_take_compile_option(int option, const char *text, void *user) {
    return cli_take_option(user, option, text);
}

void cli_compile_free(cli_compile *compile) {
    cli_pairs_free(&compile->dims);
    cli_pairs_free(&compile->inputs);
    cli_pairs_free(&compile->drawn);
    free(compile->backend);
    free(compile->precision);
    free(compile->fpmath);
    free(compile->tune_file);
    free(compile->threads);
    tenon_passes_destroy(&compile->passes);
}

int cli_parse_options(poptContext popt, const char *usage, const char *about,
                      int (*each)(int option, const char *text, void *user), void *user) {
    int option;
    poptSetOtherOptionHelp(popt, usage);
    while ((option = poptGetNextOpt(popt)) >= 0) {
        if (option == CLI_OPTION_HELP) {
            poptPrintHelp(popt, stdout, 0);
            printf("\n%s\n", about);
            return -1;
        }
        char *text = poptGetOptArg(popt);
        int code = each ? each(option, text ? text : "", user) : CLI_OK;
        free(text);
        if (code != CLI_OK)
            return code;
    }
    if (option < -1)
        return cli_error(CLI_USAGE, "%s: %s; see --help",
                         poptBadOption(popt, POPT_BADOPTION_NOALIAS), poptStrerror(option));
    return CLI_OK;
}

int cli_parse(poptContext popt, const char *usage, const char *about,
              int (*each)(int option, const char *text, void *user), void *user,
              const char **model) {
    int code = cli_parse_options(popt, usage, about, each, user);
    if (code != CLI_OK)
        return code;
    const char *first = poptGetArg(popt), *second = first ? poptGetArg(popt) : NULL;
    if (first && !*first)
        return cli_error(CLI_USAGE, "the path of the model is empty");
    if (second)
        return cli_error(CLI_USAGE, "one argument too many: '%s'", second);
    *model = first;
    return CLI_OK;
}

static int check_file(const cli_written *file) {
    if (!*file->path)
        return cli_error(CLI_USAGE, "%s: the path is empty", file->option);
    char *folder = strdup(file->path), *slash = folder ? strrchr(folder, '/') : NULL;
    if (!folder)
        return cli_error(CLI_FAILED, "out of memory");
    if (slash)
        slash[slash == folder] = '\0';
    int error =
        access(slash ? folder : ".", W_OK) == 0 || access(file->path, W_OK) == 0 ? 0 : errno;
    free(folder);
    return error ? cli_error(CLI_FAILED, "%s: '%s' cannot be written: %s", file->option, file->path,
                             strerror(error))
                 : CLI_OK;
}

/* Devices and pipes take what they are given, as often as it is. */
static bool is_lost(const char *path, const char *other) {
    struct stat info;
    return other && (stat(path, &info) != 0 || S_ISREG(info.st_mode)) &&
           batch_file_is_same(path, other);
}

static int check_read(const cli_written *file, const cli_compile *compile,
                      const char *const *models, int model_count) {
    bool read = false;
    for (int i = 0; i < model_count && !read; i++) {
        char *weights = NULL;
        if (!models[i])
            continue;
        if (batch_model_weights(models[i], &weights) != TENON_OK)
            return cli_failed();
        read = is_lost(file->path, models[i]) || is_lost(file->path, weights);
        free(weights);
    }
    for (int i = 0; i < compile->inputs.count; i++)
        read = read || is_lost(file->path, compile->inputs.items[i].value);
    return read ? cli_error(CLI_USAGE, "%s: '%s' is read, and would be written over", file->option,
                            file->path)
                : CLI_OK;
}

int cli_check_files(const cli_written *files, int count, const cli_compile *compile,
                    const char *const *models, int model_count) {
    int code = CLI_OK;
    for (int i = 0; i < count && code == CLI_OK; i++) {
        if (!files[i].path)
            continue;
        code = check_file(&files[i]);
        if (code == CLI_OK)
            code = check_read(&files[i], compile, models, model_count);
        for (int j = 0; j < i && code == CLI_OK; j++)
            if (files[j].path && is_lost(files[i].path, files[j].path))
                code = cli_error(CLI_USAGE, "%s: '%s' is what %s writes", files[i].option,
                                 files[i].path, files[j].option);
    }
    for (int i = 0; i < compile->drawn.count && code == CLI_OK; i++) {
        const cli_written drawn = {"--draw-before, --draw-after", compile->drawn.items[i].value};
        code = check_read(&drawn, compile, models, model_count);
    }
    return code;
}

/* ---- Shapes ---- */

static int find_symbol(const tenon_graph *graph, const char *text) {
    for (int i = 0; i < tenon_graph_symbol_count(graph); i++) {
        const char *name;
        tenon_graph_symbol(graph, i, &name, NULL, NULL);
        if (strcmp(name, text) == 0)
            return i;
    }
    return -1;
}

static void range_text(const tenon_graph *graph, int symbol, char *text, size_t capacity) {
    int64_t min, max;
    tenon_graph_symbol(graph, symbol, NULL, &min, &max);
    if (max == INT64_MAX)
        snprintf(text, capacity, "%lld or more", (long long)min);
    else
        snprintf(text, capacity, "%lld to %lld", (long long)min, (long long)max);
}

static int take_dims(const tenon_graph *graph, const cli_pairs *dims, int64_t *symbols) {
    for (int i = 0; i < dims->count; i++) {
        const char *name = dims->items[i].name;
        int symbol = find_symbol(graph, name);
        long long size = 0;
        char range[64];
        if (symbol < 0) {
            int count = tenon_graph_symbol_count(graph);
            cli_error(CLI_USAGE, "--dim: the model has no symbol '%s'%s", name,
                      count ? "; it has:" : ": all its sizes are fixed");
            for (int j = 0; j < count; j++) {
                tenon_graph_symbol(graph, j, &name, NULL, NULL);
                range_text(graph, j, range, sizeof range);
                fprintf(stderr, "  %s: %s\n", name, range);
            }
            return CLI_USAGE;
        }
        int64_t min, max;
        tenon_graph_symbol(graph, symbol, NULL, &min, &max);
        int code = cli_integer("--dim", dims->items[i].value, 0, INT64_MAX, &size);
        if (code != CLI_OK)
            return code;
        range_text(graph, symbol, range, sizeof range);
        if (size < min || size > max)
            return cli_error(CLI_USAGE, "--dim: %s is %lld, the model takes %s", name, size, range);
        symbols[symbol] = size;
    }
    return CLI_OK;
}

int cli_symbols(const tenon_graph *graph, const cli_pairs *dims, const tenon_view *known,
                int64_t **out) {
    int count = tenon_graph_symbol_count(graph);
    int64_t *symbols = malloc(((size_t)count + 1) * sizeof *symbols);
    char text[256];
    if (!symbols)
        return cli_error(CLI_FAILED, "out of memory");
    for (int i = 0; i < count; i++)
        symbols[i] = -1;
    for (int i = 0; known && i < tenon_graph_input_count(graph); i++) {
        const tenon_value *input = tenon_graph_input(graph, i);
        for (int d = 0; d < tenon_value_rank(input) && d < known[i].rank; d++) {
            tenon_value_size_text(input, d, text, sizeof text);
            int symbol = find_symbol(graph, text);
            if (symbol >= 0)
                symbols[symbol] = known[i].shape[d];
        }
    }
    int code = take_dims(graph, dims, symbols);
    if (code == CLI_OK)
        *out = symbols;
    else
        free(symbols);
    return code;
}

int cli_input_shape(const tenon_graph *graph, int index, const int64_t *symbols, tenon_view *view) {
    const tenon_value *input = tenon_graph_input(graph, index);
    char text[256], range[64];
    *view = (tenon_view){.dtype = tenon_value_dtype(input), .rank = tenon_value_rank(input)};
    for (int d = 0; d < view->rank; d++) {
        if (tenon_value_size_at(input, d, symbols, &view->shape[d]) == TENON_OK)
            continue;
        tenon_value_size_text(input, d, text, sizeof text);
        cli_error(CLI_USAGE,
                  "dimension %d of input '%s' is %s: give its symbols with --dim SYMBOL=N", d,
                  tenon_value_name(input), text);
        for (int i = 0; i < tenon_graph_symbol_count(graph); i++) {
            const char *name;
            tenon_graph_symbol(graph, i, &name, NULL, NULL);
            range_text(graph, i, range, sizeof range);
            fprintf(stderr, "  %s: %s\n", name, range);
        }
        return CLI_USAGE;
    }
    int64_t stride = 1;
    for (int d = view->rank - 1; d >= 0; d--) {
        view->strides[d] = stride;
        stride *= view->shape[d] > 0 ? view->shape[d] : 1;
    }
    return CLI_OK;
}

int cli_number(const tenon_value *input, const char *text, int64_t *number, tenon_view *view) {
    const char *name = tenon_value_name(input);
    tenon_dtype dtype = tenon_value_dtype(input);
    long long whole = 0;
    if (!text)
        return cli_error(CLI_USAGE, "input '%s' is a number: give it with --input %s=NUMBER", name,
                         name);
    *view = (tenon_view){.data = number, .dtype = dtype};
    if (dtype == TENON_FLOAT64) {
        char *end;
        double value = strtod(text, &end);
        if (end == text || *end != 0)
            return cli_error(CLI_USAGE, "--input: '%s' is a number, not '%s'", name, text);
        memcpy(number, &value, sizeof value);
        return CLI_OK;
    }
    int code = cli_integer("--input", text, INT64_MIN, INT64_MAX, &whole);
    *number = whole;
    if (dtype == TENON_BOOL)
        *(bool *)number = whole != 0;
    return code;
}

int cli_samples(const tenon_graph *graph, const cli_compile *compile, tenon_view **inputs,
                int64_t **numbers) {
    int count = tenon_graph_input_count(graph);
    int64_t *symbols = NULL;
    *inputs = calloc((size_t)count + 1, sizeof **inputs);
    *numbers = calloc((size_t)count + 1, sizeof **numbers);
    if (!*inputs || !*numbers)
        return cli_error(CLI_FAILED, "out of memory");
    int code =
        cli_check_names(&compile->inputs, "--input", "input", count, cli_graph_input_name, graph);
    if (code == CLI_OK)
        code = cli_symbols(graph, &compile->dims, NULL, &symbols);
    for (int i = 0; i < count && code == CLI_OK; i++) {
        const tenon_value *input = tenon_graph_input(graph, i);
        const char *number = cli_pairs_find(&compile->inputs, tenon_value_name(input));
        code = tenon_value_is_tensor(input)
                   ? cli_input_shape(graph, i, symbols, &(*inputs)[i])
                   : cli_number(input, number, &(*numbers)[i], &(*inputs)[i]);
    }
    free(symbols);
    return code;
}

/* ---- Text ---- */

void cli_value_text(const tenon_value *value, char *text, size_t capacity) {
    char size[128];
    int rank = tenon_value_rank(value);
    size_t used =
        (size_t)snprintf(text, capacity, "%s", tenon_dtype_text(tenon_value_dtype(value)));
    if (!tenon_value_is_tensor(value) || rank < 0) {
        if (used < capacity)
            snprintf(text + used, capacity - used, "%s", rank < 0 ? "[?]" : " number");
        return;
    }
    for (int d = 0; d < rank && used < capacity; d++) {
        tenon_value_size_text(value, d, size, sizeof size);
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", d == 0 ? "[" : ", ", size);
    }
    if (used < capacity)
        snprintf(text + used, capacity - used, "%s", rank == 0 ? "[]" : "]");
}

void cli_bytes_text(double bytes, char *text, size_t capacity) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++)
        bytes /= 1024;
    snprintf(text, capacity, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}
