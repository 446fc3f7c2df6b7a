/* tenon info */
#include "cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void print_inputs(const tenon_graph *graph) {
    char text[512];
    printf("inputs\n");
    for (int i = 0; i < tenon_graph_input_count(graph); i++) {
        const tenon_value *input = tenon_graph_input(graph, i);
        cli_value_text(input, text, sizeof text);
        printf("  %s: %s\n", tenon_value_name(input), text);
    }
    printf("outputs\n");
    for (int i = 0; i < tenon_graph_output_count(graph); i++) {
        tenon_arg arg = tenon_graph_output(graph, i);
        printf("  %s: ", tenon_graph_output_name(graph, i));
        if (arg.kind == TENON_ARG_VALUE) {
            cli_value_text(arg.as.value, text, sizeof text);
            printf("%s\n", text);
        } else if (arg.kind == TENON_ARG_INT) {
            printf("%lld\n", (long long)arg.as.i);
        } else if (arg.kind == TENON_ARG_FLOAT) {
            printf("%g\n", arg.as.f);
        } else if (arg.kind == TENON_ARG_BOOL) {
            printf("%s\n", arg.as.b ? "True" : "False");
        } else {
            printf("%s\n", arg.kind == TENON_ARG_STRING ? arg.as.s : "None");
        }
    }
}

static void print_symbols(const tenon_graph *graph) {
    int count = tenon_graph_symbol_count(graph);
    if (count > 0)
        printf("symbols\n");
    for (int i = 0; i < count; i++) {
        const char *name;
        int64_t min, max;
        tenon_graph_symbol(graph, i, &name, &min, &max);
        if (max == INT64_MAX)
            printf("  %s: %lld or more\n", name, (long long)min);
        else
            printf("  %s: %lld to %lld\n", name, (long long)min, (long long)max);
    }
}

static void print_writes(const tenon_graph *graph) {
    int count = tenon_graph_write_count(graph);
    if (count > 0)
        printf("written by each run\n");
    for (int i = 0; i < count; i++) {
        tenon_value *target, *value;
        tenon_graph_write(graph, i, &target, &value);
        printf("  %s (%s)\n", tenon_value_name(target),
               tenon_value_get_kind(target) == TENON_VALUE_BUFFER ? "buffer" : "input");
    }
}

/* Weights that share memory (tied ones) count once in the bytes. */
static int compare_data(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;
    return (x > y) - (x < y);
}

static int print_weights(const tenon_graph *graph) {
    int count = tenon_graph_constant_count(graph), buffers = 0;
    const void **data = malloc(((size_t)count + 1) * sizeof *data);
    double bytes = 0, elements = 0;
    char text[64];
    if (!data)
        return cli_error(CLI_FAILED, "out of memory");
    for (int i = 0; i < count; i++)
        data[i] = tenon_tensor_view(tenon_value_tensor(tenon_graph_constant(graph, i)))->data;
    qsort(data, (size_t)count, sizeof *data, compare_data);
    int distinct = 0;
    for (int i = 0; i < count; i++)
        distinct += i == 0 || data[i] != data[i - 1];
    for (int i = 0; i < count; i++) {
        const tenon_value *constant = tenon_graph_constant(graph, i);
        const tenon_view *view = tenon_tensor_view(tenon_value_tensor(constant));
        buffers += tenon_value_get_kind(constant) == TENON_VALUE_BUFFER;
        elements += (double)tenon_view_numel(view);
        bytes += (double)tenon_view_numel(view) * (double)tenon_dtype_size(view->dtype);
    }
    free(data);
    cli_bytes_text(bytes, text, sizeof text);
    printf("parameters: %d constants and %d buffers, %.0f elements, %s", count - buffers, buffers,
           elements, text);
    printf(distinct < count ? " (%d share memory)\n" : "\n", count - distinct);
    return CLI_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

typedef struct op_count {
    const char *name;
    int64_t count;
} op_count;

static int most_first(const void *a, const void *b) {
    const op_count *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return strcmp(x->name, y->name);
}

static int print_ops(const tenon_graph *graph) {
    size_t nodes = (size_t)tenon_graph_node_count(graph), n = 0, kinds = 0;
    const char **names = malloc((nodes + 1) * sizeof *names);
    op_count *counts = malloc((nodes + 1) * sizeof *counts);
    if (!names || !counts) {
        free(names);
        free(counts);
        return cli_error(CLI_FAILED, "out of memory");
    }
    for (const tenon_node *node = tenon_graph_first_node(graph); node; node = tenon_node_next(node))
        names[n++] = tenon_node_op(node);
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        if (kinds > 0 && strcmp(counts[kinds - 1].name, names[i]) == 0)
            counts[kinds - 1].count++;
        else
            counts[kinds++] = (op_count){names[i], 1};
    }
    qsort(counts, kinds, sizeof *counts, most_first);
    printf("operators: %zu nodes\n", nodes);
    for (size_t i = 0; i < kinds; i++)
        printf("  %6lld  %s\n", (long long)counts[i].count, counts[i].name);
    free(names);
    free(counts);
    return CLI_OK;
}

static int print_all(const char *path, const tenon_graph *graph) {
    struct stat status;
    char text[64];
    printf("model: %s", path);
    if (stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
        cli_bytes_text((double)status.st_size, text, sizeof text);
        printf(", %s", text);
    }
    printf("\n");
    print_inputs(graph);
    print_symbols(graph);
    print_writes(graph);
    int code = print_weights(graph);
    return code == CLI_OK ? print_ops(graph) : code;
}

static const char about[] = "Tells the inputs and outputs of MODEL with their dtypes and shapes, "
                            "the ranges of its symbols, what its runs\n"
                            "write, its parameters, its operators and its size.";

int cli_info(int argc, const char **argv) {
    const char *path = NULL;
    tenon_graph *graph = NULL;
    cli_compile compile = {0};
    struct poptOption options[] = {
        CLI_LOAD_OPTIONS(compile),
        CLI_PLUGIN_OPTION,
        {"help", 'h', POPT_ARG_NONE, NULL, CLI_OPTION_HELP, "this text", NULL},
        POPT_TABLEEND};
    poptContext popt = poptGetContext("tenon info", argc, argv, options, 0);
    int code = cli_parse(popt, "MODEL", about, cli_take_compile_option, &compile, &path);
    if (code == CLI_OK && !path)
        code = cli_error(CLI_USAGE, "no model is given; see --help");
    if (code == CLI_OK)
        code = cli_load(&compile, path, &graph);
    if (code == CLI_OK)
        code = print_all(path, graph);
    tenon_graph_destroy(&graph);
    cli_compile_free(&compile);
    poptFreeContext(popt);
    return code < 0 ? CLI_OK : code;
}
