/* Small files that ask for much: with default options each of them is refused, or costs little to
 * load, to compile and to run once. Work is what the limits count; memory is the process's own
 * peak. docs/limits.md promises 256 MB for a file of 1 KB. */
#include "archive.h"
#include "core/tensor.h"
#include "core/text.h"
#include "run_graph.h"
#include "zip_bytes.h"
#include <math.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { SMALL_FILE = 1024, MOST_MEMORY = 256000000, MOST_INPUT = 1 << 16, GIVEN_NUMBER = 100000000 };

/* ---- Memory ---- */

/* Sanitizers keep memory of their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURED false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define MEASURED false
#endif
#endif
#ifndef MEASURED
#define MEASURED true
#endif

/* A field of /proc/self/status in bytes; 0 where there is none. */
static double memory(const char *field) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    double kilobytes = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, field, strlen(field)) == 0)
            sscanf(line + strlen(field), ": %lf", &kilobytes);
    }
    if (file)
        fclose(file);
    return kilobytes * 1024;
}

static void check_memory(double before) {
    double peak = memory("VmHWM");
    if (MEASURED && peak > 0)
        ck_assert_msg(peak - before < MOST_MEMORY, "it took %.0f bytes", peak - before);
}

/* ---- One file ---- */

/* Arrays for the inputs, with 2 for each symbol; numbers are large. */
static tenon_status run_once(const tenon_graph *graph, tenon_session *session) {
    static int64_t numbers[8];
    static char bytes[8][MOST_INPUT];
    tenon_view inputs[8] = {0}, outputs[8] = {0};
    int64_t symbols[8] = {2, 2, 2, 2, 2, 2, 2, 2};
    tenon_context *context = NULL;
    int count = tenon_graph_input_count(graph), output_count = tenon_graph_output_count(graph);
    ck_assert(count <= 8 && output_count <= 8 && tenon_graph_symbol_count(graph) <= 8);
    for (int i = 0; i < count; i++) {
        const tenon_value *input = tenon_graph_input(graph, i);
        int64_t shape[TENON_MAX_RANK];
        for (int d = 0; d < tenon_value_rank(input); d++)
            OK(tenon_value_size_at(input, d, symbols, &shape[d]));
        inputs[i] =
            tn_view_make(bytes[i], tenon_value_dtype(input), tenon_value_rank(input), shape);
        ck_assert_int_le(tenon_view_numel(&inputs[i]) * (int64_t)tenon_dtype_size(inputs[i].dtype),
                         MOST_INPUT);
        numbers[i] = GIVEN_NUMBER;
        if (!tenon_value_is_tensor(input))
            inputs[i].data = &numbers[i];
    }
    tenon_status status = tenon_context_create(session, &context);
    if (status == TENON_OK)
        status = tenon_context_run(context, inputs, count, outputs, output_count);
    tenon_context_destroy(&context);
    return status;
}

static tenon_status use(const char *path) {
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    tenon_session_options options = {.threads = 2}; /* on every machine */
    tenon_status status = tenon_load(path, &graph);
    if (status == TENON_OK)
        status = tenon_session_create(graph, &options, &session);
    if (status == TENON_OK)
        status = run_once(graph, session);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
    return status;
}

/* `why` NULL: it runs; else it ends with a message that holds `why`. */
static void judge(const char *path, const char *why) {
    double before = memory("VmRSS");
    tenon_status status = use(path);
    if (!why)
        ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
    else
        ck_assert_msg(status != TENON_OK && status != TENON_OUT_OF_MEMORY &&
                          strstr(tenon_last_error(), why) != NULL,
                      "%s: \"%s\" is not in \"%s\"", tenon_status_text(status), why,
                      status == TENON_OK ? "" : tenon_last_error());
    check_memory(before);
}

/* ---- Graphs: `head`, then `op` so many times, then `tail`; @ is the value before, %x at first
 * ----
 */

#define P "input %p: float32[1]\n"
#define P2 "input %p: float32[1, 1]\n"
#define P4 "input %p: float32[1, 1, 1, 1]\n"
#define WORK "limits.run_work allows"
#define BYTES "limits.run_bytes allows"
#define SCRATCH "limits.run_bytes leaves"

static const struct {
    const char *head, *op, *tail, *why;
    int times;
} cases[] = {
    /* values that double, cheap and slow ops on large values */
    {"input %x: float32[4]\n", "aten.cat([@, @])", NULL, WORK, 30},
    {"input %x: float32[4]\n", "aten.cat([@, @])", "aten.sum(@)", NULL, 20},
    {P "%x = aten.repeat(%p, [5000000])\n", "aten.lgamma(@)", NULL, WORK, 12},
    {P "%x = aten.repeat(%p, [5000000])\n", "aten.neg(@)", NULL, NULL, 12},
    {P "%x = aten.repeat(%p, [9000000])\n", "aten.neg(@)", NULL, WORK, 24},
    {P2 "%x = aten.expand(%p, [5000000, 2])\n", "aten.erfinv(@)", NULL, WORK, 2},
    {P "%x = aten.repeat(%p, [9000000])\n", "aten.pow.Tensor_Tensor(@, %x)", NULL, WORK, 16},
    {P2 "%x = aten.repeat(%p, [3000, 3000])\n", "aten.logcumsumexp(@, 1)", NULL, WORK, 8},
    {P2 "%x = aten.repeat(%p, [3000, 1000])\n", "aten.view(@, [1000, 3000])", "aten.t(@)", NULL, 9},
    {P "%x = aten.repeat(%p, [4000000])\n", "aten.flip(@, [0])", "aten.sum(@)", NULL, 9},
    /* what is expanded takes no memory, and time all the same */
    {P2 "%x = aten.expand(%p, [100000, 100000])\n", "aten.sum(@)", NULL, WORK, 1},
    {P2 "%x = aten.expand(%p, [1000000, 1000000])\n", "aten.sum(@)", NULL, "limits.elements", 1},
    {P2 "%x = aten.expand(%p, [6000, 6000])\n", "aten.sum(@)", NULL, NULL, 1},
    {"input %p: float32[4]\n%x = aten.as_strided(%p, [100000, 100000], [0, 0])\n", "aten.sum(@)",
     NULL, WORK, 1},
    {"input %p: float32[4]\n%x = aten.as_strided(%p, [3000, 3000], [0, 0])\n", "aten.neg(@)", NULL,
     NULL, 1},
    {"input %p: float32[4000]\n%x = aten.unfold(%p, 0, 2000, 1)\n", "aten.unfold(@, 0, 1000, 1)",
     "aten.neg(@)", WORK, 1},
    {P2 "const %c: float32[1, 1] = {2}\n%e = aten.expand(%c, [100000, 100000])\n"
        "%x = aten.mul.Tensor(%p, %e)\n",
     "aten.sum(@)", NULL, WORK, 1},
    {P2 "const %c: float32[1, 1] = {2}\n%e = aten.expand(%c, [2000, 3000])\n"
        "%x = aten.mul.Tensor(%p, %e)\n",
     "aten.sum(@)", NULL, NULL, 1},
    {P "const %c: float32[1, 1] = {2}\n%e = aten.expand(%c, [200000, 200000])\n%x = aten.sum(%e)\n",
     "aten.add.Tensor(@, %p)", NULL, WORK, 1},
    {"input %x: float32[1, 1, 8, 8]\nconst %c: bool[1, 1, 1, 1] = {true}\n"
     "%m = aten.expand(%c, [30000, 30000, 8, 8])\n%n = aten.slice.Tensor(%m, 0, 0, 1)\n"
     "%o = aten.slice.Tensor(%n, 1, 0, 1)\n",
     "aten.scaled_dot_product_attention(@, @, @, %o)", NULL, NULL, 1},
    /* constants that a text does not list, and what is made of them */
    {P "const %w: float32[8000000] = zeros\n%x = aten.slice.Tensor(%w, 0, 0, 1)\n",
     "aten.add.Tensor(@, %p)", NULL, NULL, 1},
    {P "const %w: int8[32000000] = random(1)\n%x = aten.slice.Tensor(%w, 0, 0, 1)\n",
     "aten.add.Tensor(@, %p)", NULL, NULL, 1},
    {P
     "const %w: float32[4500000] = zeros\nconst %v: float32[4500000] = zeros\n%x = aten.neg(%p)\n",
     "aten.neg(@)", NULL, "max_unpacked_bytes leaves", 1},
    {P "const %w: float32[6000000] = ones\n%x = aten.erfinv(%w)\n", "aten.erfinv(@)", NULL, WORK,
     16},
    {P "const %w: float32[2800, 2800] = random(1)\n%x = aten.mm(%w, %w)\n", "aten.mm(@, %w)", NULL,
     WORK, 2},
    {P "%x = aten.arange(30000000)\n", "aten.add.Tensor(@, %p)", NULL, BYTES, 1},
    {P "%w = aten.eye(3000)\n%x = aten.mul.Tensor(%p, %w)\n", "aten.sum(@)", NULL, NULL, 1},
    {"input %x: float32[1, 512, 2, 2]\nconst %w: float32[512, 512, 3, 3] = random(1)\n",
     "aten.convolution(@, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)", NULL, NULL, 4},
    {"input %x: float32[1, 8, 32, 32]\nconst %w: float32[8, 8, 300, 300] = random(1)\n",
     "aten.convolution(@, %w, none, [1, 1], [150, 150], [1, 1], false, [0, 0], 1)", NULL, WORK, 8},
    {"input %x: float32[1, 2800]\nconst %w: float32[2800, 2800] = random(1)\n", "aten.mm(@, %w)",
     NULL, NULL, 9},
    {P "buffer %b: float32[8000000] = zeros\n%n = aten.add.Tensor(%b, %p)\nwrite %b <- %n\n"
       "%x = aten.sum(%b)\n",
     "aten.neg(@)", NULL, NULL, 1},
    /* products */
    {P "%x = aten.repeat(%p, [4000, 4000])\n", "aten.mm(@, %x)", NULL, WORK, 1},
    {"input %p: int64[1]\n%x = aten.repeat(%p, [2000, 2000])\n", "aten.mm(@, %x)", NULL, WORK, 4},
    {"input %p: float32[1, 1, 1, 64]\n%x = aten.repeat(%p, [1, 8, 40000, 1])\n",
     "aten.scaled_dot_product_attention(@, %x, %x)", NULL, WORK, 1},
    {"input %p: float32[1, 1, 1]\n%x = aten.repeat(%p, [3000000, 1, 1])\n", "aten.bmm(@, %x)", NULL,
     NULL, 2},
    {P4 "const %w: float32[1, 1, 31, 31] = random(1)\n%x = aten.repeat(%p, [4, 1, 1000, 1000])\n",
     "aten.convolution(@, %w, none, [1, 1], [15, 15], [1, 1], false, [0, 0], 1)", NULL, WORK, 1},
    {"input %x: float32[1, 64, 4, 4]\nconst %w: float32[64, 64, 20, 20] = random(1)\n",
     "aten.convolution(@, %w, none, [20, 20], [0, 0], [1, 1], true, [0, 0], 1)", NULL, WORK, 2},
    {P4 "const %w: float32[8, 1, 7, 7] = random(1)\n%x = aten.neg(%p)\n",
     "aten.convolution(@, %w, none, [1, 1], [600, 600], [100, 100], false, [0, 0], 1)", NULL, NULL,
     1},
    {"input %p: float32[1, 1, 1]\nconst %w: float32[1000000, 1, 1] = random(1)\n"
     "%x = aten.repeat(%p, [1, 1000000, 4])\n",
     "aten.convolution(@, %w, none, [1], [0], [1], false, [0], 1000000)", NULL, SCRATCH, 1},
    {P2 "%x = aten.repeat(%p, [5000, 500])\n", "aten.cdist(@, @, 3.0)", NULL, WORK, 1},
    {"input %p: float32[10]\n%x = aten.einsum(\"a,b,c,d,e,f,g,h->abcdefgh\", [%p, %p, %p, %p, %p, "
     "%p, %p, %p])\n",
     "aten.neg(@)", NULL, WORK, 1},
    {"input %p: float32[1, 1, 1]\nconst %h: float32[1, 1, 1] = zeros\nconst %w: float32[4, 1] = "
     "random(1)\nconst %b: float32[4] = random(2)\n%x = aten.repeat(%p, [9000000, 1, 1])\n"
     "%y, %i, %c = aten.lstm.input(%x, [%h, %h], [%w, %w, %b, %b], true, 1, 0.0, false, false, "
     "false)\n",
     "aten.neg(%y)", NULL, WORK, 1},
    {"input %p: float32[1, 1, 0]\nconst %h: float32[1, 1, 1000] = zeros\nconst %v: float32[3000, "
     "0] = zeros\nconst %w: float32[3000, 1000] = random(1)\n%x = aten.repeat(%p, [3500, 1, 1])\n"
     "%y, %z = aten.gru.input(%x, %h, [%v, %w], false, 1, 0.0, false, false, false)\n",
     "aten.neg(%y)", NULL, WORK, 1},
    {"input %p: float32[1, 1, 1]\nconst %h: float32[4, 1, 1] = zeros\nconst %w: float32[4, 1] = "
     "random(1)\n%x = aten.repeat(%p, [1000000, 1, 1])\n%y, %i, %c = aten.lstm.input(%x, [%h, %h], "
     "[%w, %w, %w, %w, %w, %w, %w, %w], false, 4, 0.0, false, false, false)\n",
     "aten.neg(%y)", NULL, WORK, 1},
    {"input %x: float64[1, 1, 1, 1]\nconst %w: float64[1, 1, 700, 700] = ones\n",
     "aten.convolution(@, %w, none, [1, 1], [0, 0], [1, 1], true, [0, 0], 1)", NULL, WORK, 1},
    /* constants that shape rules list */
    {"input %x: int64[1]\n%t = aten.triu_indices(4000000000000000000, 0)\n", "aten.neg(@)", NULL,
     NULL, 1},
    {P "%x = aten.tril_indices(7000, 7000)\n", "aten.neg(@)", NULL, "too large", 1},
    {P "%x = aten.tril_indices(1500, 1500)\n", "aten.add.Tensor(@, %p)", NULL, NULL, 1},
    {P "%x = aten.expand(%p, [30])\n", "aten.combinations(@, 16)", NULL, "too many combinations",
     1},
    {P "%x = aten.expand(%p, [30])\n", "aten.combinations(@, 29)", NULL, "0 to 16", 1},
    {P "%x = aten.expand(%p, [2000])\n", "aten.combinations(@, 2)", NULL, NULL, 1},
    {P "%x = aten.expand(%p, [3000000000])\n", "aten.combinations(@, 2, true)", NULL,
     "too many combinations", 1},
    /* windows, sizes */
    {"input %x: float32[4]\n", "aten.constant_pad_nd(@, [20000000, 20000000], 1)", NULL, BYTES, 1},
    {"input %x: float32[4]\n", "aten.constant_pad_nd(@, [5000000, 5000000], 1)", NULL, NULL, 1},
    {P4 "%x = aten.neg(%p)\n", "aten.upsample_bilinear2d(@, [40000, 40000], false)", NULL, WORK, 1},
    {P4 "%x = aten.neg(%p)\n", "aten.upsample_bilinear2d(@, [3000, 3000], false)", NULL, NULL, 1},
    {P4 "%x = aten.repeat(%p, [1, 1, 2000, 1])\n",
     "aten._upsample_bicubic2d_aa(@, [1, 4000000], false)", NULL, WORK, 1},
    {P4 "%x = aten.repeat(%p, [1, 1, 20000, 1])\n", "aten._adaptive_avg_pool2d(@, [1, 4000000])",
     NULL, WORK, 1},
    {P4 "%x = aten.repeat(%p, [1, 1, 3000, 1000])\n",
     "aten.avg_pool2d(@, [301, 301], [1, 1], [150, 150])", NULL, WORK, 1},
    {P4 "%e = aten.constant_pad_nd(%p, [200, 200, 200, 200], 1)\n%x = aten.neg(%e)\n",
     "aten.im2col(@, [100, 100], [1, 1], [0, 0], [1, 1])", NULL, WORK, 1},
    {P4 "input %q: float32[1, 1, 1, 2]\n%x = aten.repeat(%q, [1, 4000, 4000, 1])\n",
     "aten.grid_sampler_2d(%p, @, 2, 0, false)", NULL, WORK, 1},
    /* sorts, tables, indices */
    {P "%x = aten.repeat(%p, [1500000])\n", "aten.argsort(@)", NULL, NULL, 1},
    {P "%x = aten.repeat(%p, [3000000])\n", "aten.argsort(@)", NULL, WORK, 4},
    {P "%x = aten.repeat(%p, [4000000])\n", "aten.searchsorted.Tensor(@, @)", NULL, WORK, 3},
    {P "%x = aten.repeat(%p, [5000000])\n", "aten.histc(@, 9000000, 0, 1)", NULL, SCRATCH, 1},
    {"input %x: int64[4]\n", "aten.one_hot(@, 100000000)", NULL, WORK, 1},
    {"input %x: int64[4]\nconst %w: float32[4, 1000000] = random(1)\n", "aten.embedding(%w, @)",
     NULL, NULL, 1},
    {"input %i: int64[4]\nconst %w: float32[4, 1000000] = random(1)\nconst %o: int64[1] = {0}\n"
     "%e = aten.repeat(%i, [1000])\n%x, %a, %b, %c = aten.embedding_bag(%w, %e, %o)\n",
     "aten.neg(@)", NULL, WORK, 1},
    {"input %p: float32[1]\ninput %i: int64[1]\n%j = aten.repeat(%i, [9000000])\n%x = "
     "aten.neg(%p)\n",
     "aten.gather(@, 0, %j)", NULL, WORK, 12},
    {P "%e = aten.repeat(%p, [4000000])\n%a, %x = aten.split.Tensor(%e, 1)\n", "aten.neg(@)", NULL,
     "its shape rule gives 4000000", 1},
    /* ranks, rows of one element, open sizes, numbers */
    {"input %p: float32[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
     "%x = aten.repeat(%p, [4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4])\n",
     "aten.permute(@, [11, 9, 7, 5, 3, 1, 0, 2, 4, 6, 8, 10])", "aten.add.Tensor(@, %x)", BYTES, 1},
    {P2 "%x = aten.repeat(%p, [9000000, 1])\n%y, %i, %j = aten.native_layer_norm(%x, [1], none, "
        "none, 1e-5)\n",
     "aten.neg(%y)", NULL, SCRATCH, 2},
    {"input %p: float32[n, 1]\n%x = aten.repeat(%p, [1, 20000000])\n", "aten.neg(@)", NULL, BYTES,
     1},
    {"input %p: float32[n, 1]\n%x = aten.repeat(%p, [1, 3000000])\n", "aten.neg(@)", NULL, NULL, 1},
    {"input %n: symint\n" P "%x = aten.zeros([%n])\n", "aten.add.Tensor(@, %p)", NULL, WORK, 1},
    /* many small steps */
    {"input %x: float32[8, 64]\n", "aten._softmax(@, 1, false)", NULL, NULL, 22},
    {"input %x: float32[128, 128]\n", "aten.mm(@, @)", NULL, NULL, 30},
};

static const int case_count = (int)(sizeof cases / sizeof *cases);

static void add(tn_text *text, const char *op, const char *before) {
    for (const char *c = op; *c; c++) {
        if (*c == '@')
            tn_text_add(text, "%%%s", before);
        else
            tn_text_put(text, c, 1);
    }
}

static tn_text text_of(int index) {
    tn_text text = {0};
    char name[16] = "x";
    int steps = cases[index].times + (cases[index].tail != NULL);
    tn_text_add(&text, "graph {\n%s", cases[index].head);
    for (int i = 0; i < steps; i++) {
        tn_text_add(&text, "%%v%d = ", i);
        add(&text, i < cases[index].times ? cases[index].op : cases[index].tail, name);
        tn_text_add(&text, "\n");
        snprintf(name, sizeof name, "v%d", i);
    }
    tn_text_add(&text, "output \"o\" = %%%s }", name);
    ck_assert(!text.failed);
    return text;
}

START_TEST(texts) {
    tn_text text = text_of(_i);
    const char *path = test_path("g.txt");
    ck_assert_uint_le(text.length, SMALL_FILE);
    test_write(path, text.data, text.length);
    tn_text_free(&text);
    judge(path, cases[_i].why);
}
END_TEST

/* The same graphs as JSON, where nothing stands for large constants. */
START_TEST(json_graphs) {
    tn_text text = text_of(_i);
    tenon_graph *graph = NULL;
    if (!strstr(text.data, "const ") && !strstr(text.data, "buffer ") &&
        tenon_graph_parse(text.data, "t", &graph) == TENON_OK) {
        const char *path = test_path("g.json");
        OK(tenon_save_json(graph, path));
        judge(path, cases[_i].why);
    }
    tenon_graph_destroy(&graph);
    tn_text_free(&text);
}
END_TEST

/* ---- Archives ---- */

/* Puts `to` in the place of the first `from` behind `behind`, in an entry. */
static void replace_behind(archive *a, int entry, const char *behind, const char *from,
                           const char *to) {
    tn_text text = {0};
    const char *data = a->entries[entry].data, *at = strstr(data, behind);
    at = at ? strstr(at, from) : NULL;
    ck_assert_ptr_nonnull(at);
    tn_text_put(&text, data, (size_t)(at - data));
    tn_text_add(&text, "%s%s", to, at + strlen(from));
    ck_assert(!text.failed);
    archive_set(a, entry, text.data, text.length);
    tn_text_free(&text);
}

/* A padding of an exported program made large, with the sizes that the file records of it. */
START_TEST(archives) {
    static const struct {
        const char *padding, *size, *why;
    } amounts[] = {{"999994", "1000000", NULL},
                   {"3999994", "4000000", BYTES},
                   {"99999994", "100000000", WORK},
                   {"9999999999994", "10000000000000", "limits.elements allows"}};
    char padding[64], size[64];
    archive a = archive_read(TEST_DATA "/pt2-cases/pads.pt2");
    int model = archive_find(&a, "models/model.json");
    const char *path = test_path("pads.pt2");
    for (int i = 0; i < a.count; i++) {
        if (strstr(a.entries[i].name, "sample_inputs"))
            archive_set(&a, i, "", 0);
    }
    snprintf(padding, sizeof padding, "[%s, 2, 0, 1]", amounts[_i].padding);
    snprintf(size, sizeof size, "{\"as_int\": %s}", amounts[_i].size);
    replace_behind(&a, model, "", "[1, 2, 0, 1]", padding);
    replace_behind(&a, model, "\"pad\": {", "{\"as_int\": 7}", size);
    archive_write(&a, path, true);
    archive_free(&a);
    judge(path, amounts[_i].why);
}
END_TEST

/* ---- Arrays ---- */

/* A .npy file's header for that shape, with zeros behind it. */
static char *array_of(const char *shape, size_t zeros, size_t *size) {
    char header[128];
    snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }",
             shape);
    char *bytes = calloc(1, 128 + zeros);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(bytes + 10, ' ', 117);
    memcpy(bytes + 10, header, strlen(header));
    bytes[127] = '\n';
    *size = 128 + zeros;
    return bytes;
}

static void write_npz(const char *path, const char *bytes, size_t size) {
    archive a = {.count = 1};
    a.entries[0].name = strdup("x.npy");
    a.entries[0].data = malloc(size + 1);
    ck_assert(a.entries[0].name && a.entries[0].data);
    memcpy(a.entries[0].data, bytes, size);
    a.entries[0].size = size;
    archive_write(&a, path, true);
    archive_free(&a);
}

/* Shapes of files that hold less, samples without elements, and what a small archive unpacks to. */
START_TEST(arrays_of_samples) {
    static const struct {
        const char *shape, *why;
        size_t zeros;
        bool npz;
    } arrays[] = {
        {"(1000000000, 4)", "needs 16000000000 bytes", 64, false},
        {"(1000000000, 4)", "needs 16000000000 bytes", 900000, true},
        {"(1000000000000000000, 4)", "", 64, false},
        {"(100000000, 0)", "samples have no elements", 0, false},
        {"(100000000, 0)", "samples have no elements", 0, true},
        {"(50000, 4)", NULL, 800000, true},
        {"(1, 200000)", NULL, 800000, true},
    };
    char line[4096], name[512], model[512], input[512], output[512];
    size_t size;
    char *bytes = array_of(arrays[_i].shape, arrays[_i].zeros, &size);
    long long columns = strtoll(strchr(arrays[_i].shape, ',') + 1, NULL, 10);
    snprintf(model, sizeof model, "%s", test_path("m.txt"));
    snprintf(input, sizeof input, "%s", test_path(arrays[_i].npz ? "x.npz" : "x.npy"));
    snprintf(output, sizeof output, "%s", test_path("o.npy"));
    snprintf(name, sizeof name, "%s", test_path("err"));
    int length = snprintf(line, sizeof line,
                          "graph { input %%x: float32[n, %lld]\n%%y = aten.neg(%%x)\n"
                          "output \"y\" = %%y }",
                          columns);
    test_write(model, line, (size_t)length);
    if (arrays[_i].npz)
        write_npz(input, bytes, size);
    else
        test_write(input, bytes, size);
    free(bytes);
    snprintf(line, sizeof line,
             "exec %s batch %s --input %s --output %s --instances 1 --threads 2 --quiet 2>%s",
             TENON_COMMAND, model, input, output, name);
    int status = system(line);
    ck_assert(WIFEXITED(status));
    char *told = test_read(name, &size);
    ck_assert_msg(WEXITSTATUS(status) == (arrays[_i].why ? 1 : 0), "%s", told);
    ck_assert_msg(!arrays[_i].why || strstr(told, arrays[_i].why), "%s", told);
    free(told);
    struct rusage usage;
    ck_assert_int_eq(getrusage(RUSAGE_CHILDREN, &usage), 0);
    if (MEASURED)
        ck_assert_msg(usage.ru_maxrss < MOST_MEMORY / 1024, "%ld KiB", usage.ru_maxrss);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("hostile");
    TCase *tests = tcase_create("hostile");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, texts, 0, case_count);
    tcase_add_loop_test(tests, json_graphs, 0, case_count);
    tcase_add_loop_test(tests, archives, 0, 4);
    tcase_add_loop_test(tests, arrays_of_samples, 0, 7);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
