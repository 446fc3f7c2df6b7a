/* Inputs of a model, from files or random. */
#include "cli.h"
#include <stdio.h>
#include <stdlib.h>

/* bfloat16 arrays are stored as float32 in files, so a floating input takes the other floating
 * dtypes too. */
static int convert(const tenon_graph *graph, cli_inputs *in, int index) {
    tenon_dtype wanted = tenon_value_dtype(tenon_graph_input(graph, index));
    const tenon_view *view = tenon_tensor_view(in->tensors[index]);
    tenon_tensor *converted;
    if (wanted != TENON_BFLOAT16 || view->dtype != TENON_FLOAT32)
        return CLI_OK;
    if (tenon_tensor_create(wanted, view->rank, view->shape, &converted) != TENON_OK)
        return cli_failed();
    if (tenon_view_copy(tenon_tensor_view(converted), view) != TENON_OK) {
        tenon_tensor_destroy(&converted);
        return cli_failed();
    }
    tenon_tensor_destroy(&in->tensors[index]);
    in->tensors[index] = converted;
    return CLI_OK;
}

static int read_given(const tenon_graph *graph, const cli_compile *compile, cli_inputs *in) {
    for (int i = 0; i < in->count; i++) {
        const tenon_value *input = tenon_graph_input(graph, i);
        const char *text = cli_pairs_find(&compile->inputs, tenon_value_name(input));
        int code = CLI_OK;
        if (!tenon_value_is_tensor(input)) {
            code = cli_number(input, text, &in->numbers[i], &in->views[i]);
        } else if (text) {
            if (tenon_npy_load(text, &in->tensors[i]) != TENON_OK)
                return cli_error(CLI_FAILED, "--input %s: %s", tenon_value_name(input),
                                 tenon_last_error());
            code = convert(graph, in, i);
            if (code == CLI_OK)
                in->views[i] = *tenon_tensor_view(in->tensors[i]);
        }
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static int list_missing(const tenon_graph *graph, const cli_inputs *in) {
    char text[512];
    int missing = 0;
    for (int i = 0; i < in->count; i++) {
        if (in->views[i].dtype != TENON_DTYPE_NONE)
            continue;
        if (missing++ == 0)
            cli_error(CLI_USAGE, "inputs are missing; give each with --input NAME=FILE.npy, or all "
                                 "with --random SEED:");
        cli_value_text(tenon_graph_input(graph, i), text, sizeof text);
        fprintf(stderr, "  %s: %s\n", tenon_value_name(tenon_graph_input(graph, i)), text);
    }
    return missing ? CLI_USAGE : CLI_OK;
}

static int fill(const tenon_graph *graph, const cli_compile *compile, uint64_t seed,
                cli_inputs *in) {
    int64_t *symbols = NULL;
    int code = cli_symbols(graph, &compile->dims, in->views, &symbols);
    for (int i = 0; i < in->count && code == CLI_OK; i++) {
        tenon_view shape;
        if (in->views[i].dtype != TENON_DTYPE_NONE)
            continue;
        code = cli_input_shape(graph, i, symbols, &shape);
        if (code == CLI_OK)
            code = cli_random(graph, i, &shape, seed, &in->tensors[i]);
        if (code == CLI_OK)
            in->views[i] = *tenon_tensor_view(in->tensors[i]);
    }
    free(symbols);
    return code;
}

int cli_inputs_read(const tenon_graph *graph, const cli_compile *compile, const uint64_t *seed,
                    cli_inputs *out) {
    int count = tenon_graph_input_count(graph);
    *out = (cli_inputs){.count = count};
    out->tensors = calloc((size_t)count + 1, sizeof(tenon_tensor *));
    out->views = calloc((size_t)count + 1, sizeof *out->views);
    out->numbers = calloc((size_t)count + 1, sizeof *out->numbers);
    if (!out->tensors || !out->views || !out->numbers)
        return cli_error(CLI_FAILED, "out of memory");
    int code =
        cli_check_names(&compile->inputs, "--input", "input", count, cli_graph_input_name, graph);
    if (code == CLI_OK)
        code = read_given(graph, compile, out);
    if (code == CLI_OK && !seed)
        code = list_missing(graph, out);
    return code == CLI_OK ? fill(graph, compile, seed ? *seed : 0, out) : code;
}

void cli_inputs_free(cli_inputs *inputs) {
    for (int i = 0; inputs->tensors && i < inputs->count; i++)
        tenon_tensor_destroy(&inputs->tensors[i]);
    free(inputs->tensors);
    free(inputs->views);
    free(inputs->numbers);
    *inputs = (cli_inputs){0};
}
