/* Writes what the fuzzers start from into a folder: for each of them a folder of inputs, and a
 * dictionary of the words in its files. All of it comes from the exported programs in tests/data,
 * from random graphs, and from the lists below. */
#include "../c/archive.h"
#include "../c/random_graph.h"
#include "../c/zip_bytes.h"
#include "core/graph.h"
#include "core/op.h"
#include "core/tensor.h"
#include <dirent.h>
#include <sys/stat.h>

enum { FILE_MAX = 24 << 10, RANDOM_GRAPHS = 60 };

static const char *output;

static void stop(const char *what) {
    fprintf(stderr, "seeds: %s: %s\n", what, tenon_last_error());
    exit(1);
}

/* ---- Files ---- */

/* OUTPUT/FUZZER/NAME. */
static const char *place(const char *fuzzer, const char *name) {
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", output, fuzzer);
    if (mkdir(path, 0777) != 0 && access(path, W_OK) != 0)
        stop(path);
    snprintf(path, sizeof path, "%s/%s/%s", output, fuzzer, name);
    return path;
}

static void write_seed(const char *fuzzer, const char *name, const void *data, size_t size) {
    if (size <= FILE_MAX)
        test_write(place(fuzzer, name), data, size);
}

static void add_part(char **text, size_t *size, size_t *room, const char *name, const void *data,
                     size_t count) {
    char line[128];
    int length = snprintf(line, sizeof line, "=== %s ===\n", name);
    pack_put(text, size, room, line, (size_t)length);
    pack_put(text, size, room, data, count);
}

/* ---- Graphs: as text, and as JSON with weights ---- */

static void write_graph(const tenon_graph *graph, const char *name) {
    char *text = NULL, *joined = NULL;
    size_t json_size, weights_size, size = 0, room = 0;
    if (tenon_graph_print(graph, &text) != TENON_OK ||
        tenon_save_json(graph, test_path("graph.json")) != TENON_OK)
        stop(name);
    write_seed("text", name, text, strlen(text));
    char *json = test_read(test_path("graph.json"), &json_size);
    char *weights = access(test_path("graph.safetensors"), R_OK) == 0
                        ? test_read(test_path("graph.safetensors"), &weights_size)
                        : NULL;
    pack_put(&joined, &size, &room, json, json_size);
    if (weights)
        add_part(&joined, &size, &room, "weights", weights, weights_size);
    write_seed("json", name, joined, size);
    if (weights)
        write_seed("arrays", name, weights, weights_size);
    remove(test_path("graph.safetensors"));
    free(json);
    free(weights);
    free(joined);
    tenon_string_free(text);
}

static void write_random_graphs(void) {
    static rg g;
    char name[32];
    for (int i = 0; i < RANDOM_GRAPHS; i++) {
        unsigned char bytes[256];
        uint64_t state = (uint64_t)i;
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (unsigned char)rg_bits(&state);
        snprintf(name, sizeof name, "random%d", i);
        write_seed("graphs", name, bytes, sizeof bytes);
        rg_make_from(&g, bytes, sizeof bytes);
        tenon_graph *symbolic = g.symbolic ? rg_symbolic(g.graph) : NULL;
        write_graph(symbolic ? symbolic : g.graph, name);
        tenon_graph_destroy(&symbolic);
        tenon_graph_destroy(&g.graph);
    }
}

/* ---- Archives ---- */

static void write_program(const char *path, const char *name) {
    size_t size, joined_size = 0, room = 0;
    char *bytes = test_read(path, &size), *joined = NULL;
    archive a = archive_read(path);
    write_seed("archive", name, bytes, size);
    int model = archive_find(&a, "models/model.json");
    if (model >= 0)
        write_seed("model", name, a.entries[model].data, a.entries[model].size);
    for (int i = 0; i < a.count; i++)
        if (!strstr(a.entries[i].name, "sample_inputs"))
            add_part(&joined, &joined_size, &room, a.entries[i].name, a.entries[i].data,
                     a.entries[i].size);
    write_seed("entries", name, joined, joined_size);
    if (size < 8192) {
        archive_write(&a, test_path("deflated.pt2"), true);
        free(bytes);
        bytes = test_read(test_path("deflated.pt2"), &size);
        snprintf(joined, room, "%s.deflated", name);
        write_seed("archive", joined, bytes, size);
    }
    tenon_graph *graph = NULL;
    if (tenon_load(path, &graph) == TENON_OK) {
        write_graph(graph, name);
        tenon_graph_destroy(&graph);
    }
    archive_free(&a);
    free(bytes);
    free(joined);
}

static void write_programs(const char *folder) {
    DIR *list = opendir(folder);
    char path[1024];
    if (!list)
        stop(folder);
    for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (length < 4 || strcmp(entry->d_name + length - 4, ".pt2") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        write_program(path, entry->d_name);
    }
    closedir(list);
}

/* ---- Arrays ---- */

static void write_arrays(void) {
    static const char turned[] =
        "\x93NUMPY\1\0\x46\0{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }        \n"
        "01234567";
    pack_bytes zip = {0};
    for (int dtype = 1; dtype < TENON_DTYPE_COUNT; dtype++) {
        tenon_tensor *tensor = NULL;
        size_t size;
        const char *name = tenon_dtype_text(dtype);
        char member[32];
        if (tenon_tensor_create(dtype, dtype % 4, (const int64_t[]){2, 3, 1}, &tensor) !=
                TENON_OK ||
            tenon_npy_save(test_path("a.npy"), tenon_tensor_view(tensor)) != TENON_OK)
            stop(name);
        char *bytes = test_read(test_path("a.npy"), &size);
        write_seed("npy", name, bytes, size);
        write_seed("arrays", name, bytes, size);
        snprintf(member, sizeof member, "%s.npy", dtype == TENON_FLOAT32 ? "x" : name);
        pack_add(&zip, member, bytes, size);
        free(bytes);
        tenon_tensor_destroy(&tensor);
    }
    write_seed("arrays", "empty_header", "\0\0\0\0\0\0\0", 8);
    write_seed("npy", "fortran", turned, sizeof turned - 1);
    write_seed("arrays", "fortran", turned, sizeof turned - 1);
    pack_end(&zip);
    write_seed("arrays", "npz", zip.file, zip.size);
    pack_free(&zip);
}

/* ---- Commands ---- */

static const char *const commands[] = {
    "run\nmodel.pt2\n--random\n7\n--dim\ns0=3\n--iterations\n2",
    "run\nmodel.pt2\n--input\nx=x.npy\n--input\nk=5\n--expect\ny=y.npy\n--tolerance\n1e-3",
    "run\n--backend\nonednn\n--threads\n2\n--precision\nbf16\nmodel.pt2\n--output\nout",
    "info\nmodel.pt2",
    "explain\nmodel.pt2\n--dim\ns0=3\n--input\nk=1\n--json\n--verify",
    "explain\nmodel.pt2\n--html\npage.html\n--profile",
    "profile\nmodel.pt2\n--dim=s0=4\n--iterations=3\n--sort\ntotal\n--trace\nt.json\n--by-module",
    "bench\nmodel.pt2\n--batch\n1,2\n--precision\nfp32\n--threads\n1\n--no-peaks\n--json\nout.json",
    "bench\n--baseline\na.json\n--threshold\n5\n--suite\ns.txt\n--retries\n1",
    "passes",
    "passes\nmodel.pt2\n--dim\ns0=2\n--input\nk=3\n--remove-pass\nwinograd",
    "passes\nmodel.pt2\n--draw-after\nfold=f.svg",
    "passes\n--pass-option\nwinograd.tile=4\n--pass-plugin\nmine.so\n--no-winograd",
    "ops\n--schema",
    "ops\naten.add.Tensor",
    "run\n--help",
};

static void write_commands(void) {
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char name[32];
        snprintf(name, sizeof name, "command%zu", i);
        write_seed("command", name, commands[i], strlen(commands[i]));
    }
}

/* ---- Dictionaries ---- */

static const char *const pt2_words[] = {"as_tensor",
                                        "as_tensors",
                                        "as_int",
                                        "as_ints",
                                        "as_float",
                                        "as_bool",
                                        "as_none",
                                        "as_string",
                                        "as_sym_int",
                                        "as_sym_ints",
                                        "as_name",
                                        "as_expr",
                                        "as_graph",
                                        "as_scalar_type",
                                        "as_device",
                                        "as_memory_format",
                                        "as_layout",
                                        "as_optional_tensors",
                                        "expr_str",
                                        "graph_module",
                                        "graph",
                                        "signature",
                                        "input_specs",
                                        "output_specs",
                                        "user_input",
                                        "user_output",
                                        "parameter",
                                        "buffer",
                                        "buffer_mutation",
                                        "buffer_name",
                                        "tensor_constant",
                                        "tensor_values",
                                        "sym_int_values",
                                        "sizes",
                                        "strides",
                                        "storage_offset",
                                        "dtype",
                                        "nodes",
                                        "inputs",
                                        "outputs",
                                        "target",
                                        "name",
                                        "arg",
                                        "metadata",
                                        "nn_module_stack",
                                        "range_constraints",
                                        "min_val",
                                        "max_val",
                                        "module_call_graph",
                                        "out_spec",
                                        "config",
                                        "path_name",
                                        "tensor_meta",
                                        "use_pickle",
                                        "schema_version",
                                        "major",
                                        "torch.ops.higher_order.cond",
                                        "torch.ops.higher_order.wrap",
                                        "_operator.mul",
                                        "_operator.add",
                                        "=== ",
                                        " ===\x0a",
                                        "models/model.json",
                                        "archive_format",
                                        "data/weights/",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "18446744073709551616",
                                        "1e308",
                                        "Infinity",
                                        "NaN",
                                        "Integer(",
                                        "Symbol('s0', positive=True, integer=True)",
                                        "Mul(",
                                        "Add(",
                                        "FloorDiv(",
                                        "PythonMod(",
                                        "Pow(",
                                        "Max(",
                                        "4294967296",
                                        NULL};
static const char *const json_words[] = {"format",
                                         "tenon-graph",
                                         "version",
                                         "name",
                                         "weights",
                                         "symbols",
                                         "constraints",
                                         "expr",
                                         "min",
                                         "max",
                                         "inputs",
                                         "dtype",
                                         "shape",
                                         "number",
                                         "int",
                                         "float",
                                         "bool",
                                         "constants",
                                         "tensor",
                                         "buffers",
                                         "nodes",
                                         "op",
                                         "args",
                                         "value",
                                         "outputs",
                                         "writes",
                                         "target",
                                         "module",
                                         "trace",
                                         "rank",
                                         "channels_last",
                                         "data_offsets",
                                         "__metadata__",
                                         "F32",
                                         "BF16",
                                         "BOOL",
                                         "I64",
                                         "graph.safetensors",
                                         "=== weights ===\x0a",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "1e308",
                                         "Infinity",
                                         "NaN",
                                         "s0 // 2",
                                         "min(s0, 2)",
                                         "** 9",
                                         NULL};
static const char *const text_words[] = {"graph",
                                         "input",
                                         "output",
                                         "const",
                                         "buffer",
                                         "write",
                                         "symbol",
                                         "<-",
                                         "none",
                                         "true",
                                         "false",
                                         "inf",
                                         "nan",
                                         "-inf",
                                         "float32",
                                         "bfloat16",
                                         "int64",
                                         "bool",
                                         "float64",
                                         "[?, ?]",
                                         "channels",
                                         "[s0, 2]",
                                         " in ",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "1e308",
                                         "{...}",
                                         "zeros",
                                         "s0 // 2",
                                         "min(",
                                         "max(",
                                         "**",
                                         NULL};
static const char *const array_words[] = {"'descr':",
                                          "'fortran_order':",
                                          "'shape':",
                                          "True",
                                          "False",
                                          "'<f4'",
                                          "'|b1'",
                                          "'<i8'",
                                          "'>f4'",
                                          "\x93NUMPY\x01",
                                          "PK\x01\x02",
                                          "PK\x03\x04",
                                          "PK\x05\x06",
                                          "PK\x06\x06",
                                          "PK\x06\x07",
                                          ".npy",
                                          "9223372036854775807",
                                          "4294967296",
                                          "data_offsets",
                                          "dtype",
                                          "shape",
                                          "F32",
                                          NULL};
static const char *const command_words[] = {"run",
                                            "info",
                                            "explain",
                                            "profile",
                                            "bench",
                                            "passes",
                                            "ops",
                                            "--dim",
                                            "--input",
                                            "--backend",
                                            "--precision",
                                            "--fpmath",
                                            "--threads",
                                            "--verify",
                                            "--tune",
                                            "--tune-file",
                                            "--pass-plugin",
                                            "--remove-pass",
                                            "--no-winograd",
                                            "--pass-option",
                                            "--draw-before",
                                            "--draw-after",
                                            "--random",
                                            "--output",
                                            "--expect",
                                            "--tolerance",
                                            "--iterations",
                                            "--json",
                                            "--html",
                                            "--schema",
                                            "--markdown",
                                            "--active",
                                            "--baseline",
                                            "--batch",
                                            "--by-module",
                                            "--detail",
                                            "--execution-trace",
                                            "--file",
                                            "--flops",
                                            "--granularity",
                                            "--group-by-shape",
                                            "--group-by-stack",
                                            "--instances",
                                            "--interval",
                                            "--limit",
                                            "--memory",
                                            "--memory-timeline",
                                            "--niter",
                                            "--nwarmup",
                                            "--no-peaks",
                                            "--record-shapes",
                                            "--repeat",
                                            "--retries",
                                            "--rounds",
                                            "--schedule",
                                            "--sort",
                                            "--stacks",
                                            "--suite",
                                            "--tensorboard",
                                            "--threshold",
                                            "--time-limit",
                                            "--trace",
                                            "--tree",
                                            "--wait",
                                            "--warmup",
                                            "--width",
                                            "--help",
                                            "--",
                                            "=",
                                            "s0=",
                                            "k=",
                                            "9223372036854775807",
                                            "-1",
                                            "1e400",
                                            "nan",
                                            "auto",
                                            "onednn",
                                            "reference",
                                            "fp32",
                                            "bf16",
                                            "strict",
                                            "model.pt2",
                                            "\x0a",
                                            NULL};
static const char *const no_words[] = {NULL};

static void write_word(FILE *file, const char *word) {
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)word; *c; c++)
        fprintf(file, *c < 0x20 || *c > 0x7e || *c == '"' || *c == '\\' ? "\\x%02x" : "%c", *c);
    fputs("\"\n", file);
}

/* libFuzzer takes words of up to 64 bytes. */
static void write_dictionary(const char *fuzzer, const char *const *words, const char *before) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.dict", output, fuzzer);
    FILE *file = fopen(path, "w");
    if (!file)
        stop(path);
    for (; *words; words++)
        write_word(file, *words);
    for (int i = 0; before && i < TN_OP_COUNT; i++) {
        snprintf(path, sizeof path, "%s%s", before, tn_op_by_id(i)->name);
        if (strlen(path) < 60)
            write_word(file, path);
    }
    fclose(file);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: seeds TEST_DATA OUTPUT\n");
        return 2;
    }
    char folder[1024];
    output = argv[2];
    mkdir(output, 0777);
    snprintf(folder, sizeof folder, "%s/pt2-cases", argv[1]);
    write_programs(folder);
    write_random_graphs();
    write_arrays();
    write_commands();
    write_dictionary("archive", array_words, NULL);
    write_dictionary("entries", pt2_words, "torch.ops.");
    write_dictionary("model", pt2_words, "torch.ops.");
    write_dictionary("json", json_words, "");
    write_dictionary("text", text_words, "");
    write_dictionary("npy", array_words, NULL);
    write_dictionary("arrays", array_words, NULL);
    write_dictionary("command", command_words, NULL);
    write_dictionary("graphs", no_words, NULL);
    return 0;
}
