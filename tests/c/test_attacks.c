/* Files that were made to do harm: what they say of themselves is not what they are. Each is
 * refused with a message, or does what an honest file does. */
#include "archive.h"
#include "core/graph.h"
#include "core/tensor.h"
#include "core/text.h"
#include "run_graph.h"
#include "zip_bytes.h"
#include <pthread.h>

#define PROGRAM TEST_DATA "/pt2-cases/param_views.pt2"
#define WEIGHT "data/weights/weight_0"
#define MODEL "models/model.json"

static void check_refused(const char *path, const char *message) {
    tenon_graph *graph = NULL;
    tenon_status got = tenon_load(path, &graph);
    ck_assert_msg(got != TENON_OK && strstr(tenon_last_error(), message) != NULL &&
                      strstr(tenon_last_error(), path) != NULL,
                  "%s: '%s' does not hold '%s'", tenon_status_text(got), tenon_last_error(),
                  message);
    ck_assert_ptr_null(graph);
}

static char *load_text(const char *path) {
    tenon_graph *graph = NULL;
    char *text = NULL;
    OK(tenon_load(path, &graph));
    OK(tenon_graph_print(graph, &text));
    tenon_graph_destroy(&graph);
    return text;
}

/* ---- Archives ---- */

/* All entries of a good program, of which one may be left out. */
static pack_bytes start_archive(archive *a, const char *without) {
    pack_bytes zip = {0};
    *a = archive_read(PROGRAM);
    int skip = without ? archive_find(a, without) : -1;
    for (int i = 0; i < a->count; i++)
        if (i != skip)
            pack_add(&zip, a->entries[i].name, a->entries[i].data, a->entries[i].size);
    return zip;
}

static const char *finish_archive(archive *a, pack_bytes *zip) {
    const char *path = test_path("program.pt2");
    if (zip->directory)
        pack_end(zip);
    test_write(path, zip->file, zip->size);
    pack_free(zip);
    archive_free(a);
    return path;
}

static void check_same_program(const char *path) {
    char *got = load_text(path), *want = load_text(PROGRAM);
    const char *a = strchr(got, '{'), *b = strchr(want, '{'); /* behind the name */
    ck_assert_str_eq(a, b);
    tenon_string_free(got);
    tenon_string_free(want);
}

/* Nothing is unpacked, so that such names lead nowhere. */
START_TEST(names_that_lead_out) {
    archive a;
    pack_bytes zip = start_archive(&a, NULL);
    static const char *const names[] = {"../../escaped", "/tmp/escaped", "param_views/../escaped",
                                        "C:\\escaped", "\xff\xfe"};
    for (int i = 0; i < 5; i++)
        pack_add(&zip, names[i], "data", 4);
    check_same_program(finish_archive(&a, &zip));

    zip = start_archive(&a, "model_weights_config.json");
    int at = archive_find(&a, "model_weights_config.json");
    archive_replace(&a, at, "\"weight_0\"", "\"/etc/passwd\"");
    pack_add(&zip, a.entries[at].name, a.entries[at].data, a.entries[at].size);
    check_refused(finish_archive(&a, &zip),
                  "'data/weights//etc/passwd', which holds 'w', is missing");
}
END_TEST

START_TEST(two_entries_of_one_name) {
    archive a;
    pack_bytes zip = start_archive(&a, NULL);
    int at = archive_find(&a, WEIGHT);
    pack_add(&zip, a.entries[at].name, a.entries[at].data, a.entries[at].size);
    check_refused(finish_archive(&a, &zip), "two entries are named 'data/weights/weight_0'");
}
END_TEST

/* Many records of one content, so that a small file would become a large one. */
START_TEST(entries_that_overlap) {
    archive a;
    pack_bytes zip = start_archive(&a, NULL);
    char *data = calloc(1, 4096), name[64];
    pack_facts facts = pack_stored(data, 4096);
    uint32_t local = pack_local(&zip, "param_views/data/weights/more", &facts, data, 4096);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "param_views/data/weights/more%d", i);
        pack_record(&zip, name, &facts, local);
    }
    free(data);
    check_refused(finish_archive(&a, &zip), "entries overlap");
}
END_TEST

/* A weight whose record says other things than its bytes. Versions of libzip notice some of it. */
START_TEST(records_that_lie) {
    static const struct {
        int32_t method, crc, packed, size, local; /* added */
        const char *message;
    } cases[] = {
        {0, 0, 0, 1, 0, "is damaged or cut off"},
        {0, 0, 1, 1, 0, "is damaged or cut off"},
        {0, 0, 0, 1 << 30, 0, "packed ones"},
        {0, 0, 1 << 30, 1 << 30, 0, "entries overlap"},
        {0, 0, 0, -8, 0, "needs"},
        {0, 0, 0, 0, 1 << 20, ""},
        {0, 0, 0, 0, 1, ""},
        {8, 0, 0, 0, 0, ""},
        {99, 0, 0, 0, 0, ""},
        {8, 0, 0, 1 << 20, 0, "packed ones"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        archive a;
        pack_bytes zip = start_archive(&a, WEIGHT);
        int at = archive_find(&a, WEIGHT);
        pack_facts facts = pack_stored(a.entries[at].data, a.entries[at].size);
        facts.method = (uint16_t)(facts.method + cases[i].method);
        uint32_t local =
            pack_local(&zip, a.entries[at].name, &facts, a.entries[at].data, a.entries[at].size);
        facts.packed += (uint32_t)cases[i].packed;
        facts.size += (uint32_t)cases[i].size;
        pack_record(&zip, a.entries[at].name, &facts, local + (uint32_t)cases[i].local);
        check_refused(finish_archive(&a, &zip), cases[i].message);
    }
}
END_TEST

/* What is read is checked. Weights are mapped, and nobody reads them before they are used. */
START_TEST(wrong_checksums) {
    for (int method = 0; method < 3; method++) {
        archive a;
        const char *name = method == 0 ? MODEL : WEIGHT;
        pack_bytes zip = start_archive(&a, name);
        int at = archive_find(&a, name);
        const char *data = a.entries[at].data;
        size_t size = a.entries[at].size;
        pack_facts facts = pack_stored(data, size);
        facts.crc ^= 1;
        /* without alignment it is copied, and so checked */
        while (method == 1 && (zip.size + 30 + strlen(a.entries[at].name)) % 8 != 4)
            pack_put(&zip.file, &zip.size, &zip.room, "", 1);
        while (method == 2 && (zip.size + 30 + strlen(a.entries[at].name)) % 8 != 0)
            pack_put(&zip.file, &zip.size, &zip.room, "", 1);
        pack_record(&zip, a.entries[at].name, &facts,
                    pack_local(&zip, a.entries[at].name, &facts, data, size));
        const char *path = finish_archive(&a, &zip);
        if (method < 2) {
            check_refused(path, "is damaged or cut off");
            continue;
        }
        check_same_program(path);
        for (int copy = 0; copy < 2; copy++) { /* a copy of the file is no better */
            tenon_load_options options = {.check_weights = true, .copy_weights = copy};
            tenon_graph *graph = NULL;
            FAILS(tenon_load_with(path, &options, &graph), TENON_INVALID_FILE,
                  "entry 'data/weights/weight_0' is damaged: its checksum is");
            ck_assert_ptr_null(graph);
            OK(tenon_load_with(PROGRAM, &options, &graph));
            tenon_graph_destroy(&graph);
        }
    }
}
END_TEST

/* 64 MiB of zeros in 64 KiB, as a weight, as the program, and with a size that lies. */
START_TEST(deflate_bombs) {
    enum { SIZE = 32 << 20 };
    char *zeros = calloc(1, SIZE), *packed = malloc(SIZE / 512);
    z_stream stream = {.next_in = (Bytef *)zeros,
                       .avail_in = SIZE,
                       .next_out = (Bytef *)packed,
                       .avail_out = SIZE / 512};
    ck_assert_int_eq(deflateInit2(&stream, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY), Z_OK);
    ck_assert_int_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    pack_facts facts = pack_stored(zeros, SIZE);
    facts.method = 8;
    facts.packed = (uint32_t)stream.total_out;
    static const struct {
        const char *entry, *message;
        uint32_t size;
    } cases[] = {
        {WEIGHT, NULL, SIZE},
        {MODEL, "a NUL byte at byte 0", SIZE},
        {"archive_format", "more than 4096", SIZE},
        {WEIGHT, "is damaged or cut off", SIZE - 4096},
        {WEIGHT, "is damaged or cut off", SIZE + 4},
        {WEIGHT, "packed ones", 0x7fffffff},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        archive a;
        pack_bytes zip = start_archive(&a, cases[i].entry);
        const char *name = a.entries[archive_find(&a, cases[i].entry)].name;
        facts.size = cases[i].size;
        pack_record(&zip, name, &facts, pack_local(&zip, name, &facts, packed, facts.packed));
        const char *path = finish_archive(&a, &zip);
        if (cases[i].message) {
            check_refused(path, cases[i].message);
        } else {
            tenon_string_free(load_text(path));
        }
    }
    deflateEnd(&stream);
    free(zeros);
    free(packed);
}
END_TEST

/* ---- zip64 ---- */

/* The 64-bit record of the end with its locator, in front of the end. */
static void end_64(pack_bytes *zip, uint64_t count, uint64_t size, uint64_t start, uint64_t at) {
    char end64[56] = "PK\6\6", locator[20] = "PK\6\7", end[22] = "PK\5\6";
    pack_number(end64 + 4, 8, 44);
    pack_number(end64 + 12, 2, 45);
    pack_number(end64 + 14, 2, 45);
    pack_number(end64 + 24, 8, count);
    pack_number(end64 + 32, 8, count);
    pack_number(end64 + 40, 8, size);
    pack_number(end64 + 48, 8, start);
    pack_number(locator + 8, 8, at);
    pack_number(locator + 16, 4, 1);
    memset(end + 8, 0xff, 12);
    pack_put(&zip->file, &zip->size, &zip->room, zip->directory, zip->directory_size);
    pack_put(&zip->file, &zip->size, &zip->room, end64, sizeof end64);
    pack_put(&zip->file, &zip->size, &zip->room, locator, sizeof locator);
    pack_put(&zip->file, &zip->size, &zip->room, end, sizeof end);
    free(zip->directory);
    zip->directory = NULL;
}

START_TEST(sixty_four_bits) {
    archive a;
    pack_bytes zip = start_archive(&a, WEIGHT);
    int at = archive_find(&a, WEIGHT);
    for (int lie = 0; lie < 2; lie++) {
        if (lie) {
            zip = start_archive(&a, WEIGHT);
            at = archive_find(&a, WEIGHT);
        }
        char extra[28] = "\1\0\x18";
        size_t size = a.entries[at].size;
        pack_facts facts = pack_stored(a.entries[at].data, size);
        uint32_t local = pack_local(&zip, a.entries[at].name, &facts, a.entries[at].data, size);
        pack_number(extra + 4, 8, lie ? (uint64_t)1 << 62 : size);
        pack_number(extra + 12, 8, lie ? (uint64_t)1 << 62 : size);
        pack_number(extra + 20, 8, local);
        facts.packed = facts.size = 0xffffffff;
        facts.extra = extra;
        facts.extra_size = sizeof extra;
        pack_record(&zip, a.entries[at].name, &facts, 0xffffffff);
        end_64(&zip, (uint64_t)zip.count, zip.directory_size, zip.size,
               zip.size + zip.directory_size);
        const char *path = finish_archive(&a, &zip);
        if (lie)
            check_refused(path, "");
        else
            check_same_program(path);
    }
}
END_TEST

/* Counts, sizes and places that are far outside, or just so. */
START_TEST(ends_that_lie) {
    static const uint64_t far[] = {1,
                                   22,
                                   0xffff,
                                   0xfffffffe,
                                   0xffffffff,
                                   (uint64_t)1 << 40,
                                   INT64_MAX,
                                   (uint64_t)1 << 63,
                                   UINT64_MAX - 55,
                                   UINT64_MAX};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        for (int which = 0; which < 4; which++) {
            archive a;
            pack_bytes zip = start_archive(&a, NULL);
            uint64_t facts[] = {(uint64_t)zip.count, zip.directory_size, zip.size,
                                zip.size + zip.directory_size};
            facts[which] += far[i];
            end_64(&zip, facts[0], facts[1], facts[2], facts[3]);
            tenon_graph *graph = NULL;
            if (tenon_load(finish_archive(&a, &zip), &graph) == TENON_OK)
                tenon_graph_destroy(&graph);
            else
                ck_assert_ptr_null(graph);
        }
}
END_TEST

/* ---- Other files ---- */

#define HEAD "{\"format\": \"tenon-graph\", \"version\": 1, "
#define X "\"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [2]}], "

static void check_json(const char *json, const char *message) {
    const char *path = test_path("attack.json");
    test_write(path, json, strlen(json));
    check_refused(path, message);
}

START_TEST(weights_outside_of_the_folder) {
    check_json(HEAD "\"weights\": \"/etc/passwd\"}", "not the name of a file in the same folder");
    check_json(HEAD "\"weights\": \"a/../w\"}", "not the name of a file in the same folder");
    tenon_graph *graph = NULL;
    static const char json[] = HEAD "\"weights\": \"..\"}";
    test_write(test_path("attack.json"), json, strlen(json));
    ck_assert_int_eq(tenon_load(test_path("attack.json"), &graph), TENON_IO);
    ck_assert_ptr_nonnull(strstr(tenon_last_error(), "not a regular file"));
}
END_TEST

/* A value must be made before it is used. */
START_TEST(cyclic_graphs) {
    check_json(HEAD X "\"nodes\": [{\"op\": \"aten.add.Tensor\", \"args\": {\"self\": {\"value\": "
                      "\"x\"}, \"other\": {\"value\": \"y\"}}, \"outputs\": [\"y\"]}]}",
               "no value 'y' is known here");
    check_json(HEAD X "\"nodes\": ["
                      "{\"op\": \"aten.relu\", \"args\": {\"self\": {\"value\": \"b\"}}, "
                      "\"outputs\": [\"a\"]},"
                      "{\"op\": \"aten.relu\", \"args\": {\"self\": {\"value\": \"a\"}}, "
                      "\"outputs\": [\"b\"]}]}",
               "no value 'b' is known here");
    tenon_graph *graph = NULL;
    FAILS(tenon_graph_parse("graph { input %x: float32[2]\n %y = aten.add.Tensor(%x, %y) }", "t",
                            &graph),
          TENON_INVALID_FILE, "no value %y is known");
    archive a = archive_read(PROGRAM);
    int at = archive_find(&a, MODEL);
    archive_replace(&a, at, "{\"as_tensor\": {\"name\": \"x\"}}, \"kind\"",
                    "{\"as_tensor\": {\"name\": \"matmul\"}}, \"kind\"");
    archive_write(&a, test_path("cycle.pt2"), false);
    check_refused(test_path("cycle.pt2"), "the value 'matmul' is not known here");
    archive_free(&a);
}
END_TEST

static void write_weights(const char *header, size_t length) {
    char *bytes = calloc(1, length + 8);
    pack_number(bytes, 8, length);
    memcpy(bytes + 8, header, length);
    test_write(test_path("w.safetensors"), bytes, length + 8);
    free(bytes);
}

/* The nesting of a tree of outputs is JSON inside JSON. */
START_TEST(deep_nesting) {
    enum { DEPTH = 100000 };
    char *deep = malloc(2 * DEPTH + 64);
    ck_assert_ptr_nonnull(deep);
    memset(deep, '[', DEPTH);
    write_weights(deep, DEPTH);
    const char *path = test_path("w.json");
    static const char json[] =
        HEAD "\"weights\": \"w.safetensors\", \"constants\": [{\"name\": \"w\"}]}";
    test_write(path, json, strlen(json));
    tenon_graph *graph = NULL;
    FAILS(tenon_load(path, &graph), TENON_INVALID_FILE, "not valid JSON");

    archive a = archive_read(PROGRAM);
    int at = archive_find(&a, MODEL), length = sprintf(deep, "\"out_spec\": \"[1, ");
    for (int i = 0; i < 900; i++)
        length += sprintf(deep + length, "{\\\"type\\\": \\\"l\\\", \\\"children_spec\\\": [");
    for (int i = 0; i < 900; i++)
        length += sprintf(deep + length, "]}");
    strcpy(deep + length, "]\", \"old\"");
    archive_replace(&a, at, "\"out_spec\"", deep);
    archive_write(&a, test_path("deep.pt2"), false);
    tenon_string_free(load_text(test_path("deep.pt2")));
    archive_free(&a);

    length = sprintf(deep, "graph { input %%x: float32[");
    memset(deep + length, '(', DEPTH);
    strcpy(deep + length + DEPTH, "]}");
    FAILS(tenon_graph_parse(deep, "t", &graph), TENON_INVALID_FILE, "");
    free(deep);
}
END_TEST

START_TEST(invalid_utf8) {
    static const char *const bytes[] = {"\x80",         "\xc0\xaf",         "\xe2\x82",
                                        "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        char text[256];
        snprintf(text, sizeof text, HEAD "\"name\": \"a%s\"}", bytes[i]);
        check_json(text, "not UTF-8");
        snprintf(text, sizeof text, "graph \"a%s\" {}", bytes[i]);
        test_write(test_path("attack.txt"), text, strlen(text));
        check_refused(test_path("attack.txt"), "not UTF-8");
    }
    tenon_graph *graph = NULL;
    static const char good[] = HEAD "\"name\": \"\xc3\xa4\xe2\x82\xac\xf0\x9f\x92\xa1\\u00e4\"}";
    test_write(test_path("attack.json"), good, strlen(good));
    OK(tenon_load(test_path("attack.json"), &graph));
    ck_assert_str_eq(tenon_graph_name(graph), "\xc3\xa4\xe2\x82\xac\xf0\x9f\x92\xa1\xc3\xa4");
    tenon_graph_destroy(&graph);
}
END_TEST

/* ---- Numbers ---- */

enum { LARGE = 1 << 20 };

static tenon_status run_reference(const char *text) {
    tenon_session_options options = {.backend = TENON_BACKEND_REFERENCE, .threads = 1};
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    float data[16] = {1, 2, 3, 4};
    tenon_view input = tn_view_make(data, TENON_FLOAT32, 4, (const int64_t[]){1, 1, 4, 4});
    tenon_view output = {0};
    tenon_status status = tenon_graph_parse(text, "t", &graph);
    if (status == TENON_OK && tenon_graph_output(graph, 0).as.value->shape &&
        tn_numel(tenon_graph_output(graph, 0).as.value->rank,
                 tenon_graph_output(graph, 0).as.value->shape) > LARGE)
        status = TENON_LIMIT; /* that much memory, and time to fill it, is what was asked for */
    if (status == TENON_OK)
        status = tenon_session_create(graph, &options, &session);
    if (status == TENON_OK)
        status = tenon_context_create(session, &context);
    if (status == TENON_OK)
        status = tenon_context_run(context, &input, tenon_graph_input_count(graph), &output, 1);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
    return status;
}

/* Each attribute that is a number is one that no program means: it is refused, or gives some
 * result. */
START_TEST(numbers_that_no_program_means) {
    static const char *const calls[] = {
        "aten.arange(%s, dtype=float32)",
        "aten.arange.start_step(0, %s, 1)",
        "aten.arange.start_step(0, 10, %s)",
        "aten.linspace(0, %s, 3)",
        "aten.linspace(0, 1, %s)",
        "aten.full([2], %s)",
        "aten.full([2], %s, dtype=int64)",
        "aten.full([%s], 1)",
        "aten.clamp(%%x, %s, %s)",
        "aten.add.Scalar(%%x, %s)",
        "aten.pow.Tensor_Scalar(%%x, %s)",
        "aten.upsample_nearest2d(%%x, [4, 4], %s, %s)",
        "aten.upsample_bilinear2d.vec(%%x, none, false, [%s, 2.0])",
        "aten.avg_pool2d(%%x, [%s, 2])",
        "aten.max_pool2d(%%x, [2, 2], [%s, 1])",
        "aten.constant_pad_nd(%%x, [%s, 1], 0)",
        "aten.constant_pad_nd(%%x, [1, 1], %s)",
        "aten.select.int(%%x, %s, 0)",
        "aten.select.int(%%x, 0, %s)",
        "aten.slice.Tensor(%%x, 3, %s, %s, 1)",
        "aten.slice.Tensor(%%x, 3, 0, 4, %s)",
        "aten.view(%%x, [%s, -1])",
        "aten.expand(%%x, [%s, 1, 4, 4])",
        "aten.repeat(%%x, [%s, 1, 1, 1])",
        "aten.roll(%%x, [%s], [3])",
        "aten.cumsum(%%x, %s)",
        "aten.unfold(%%x, 3, %s, 1)",
        "aten.unfold(%%x, 3, 2, %s)",
        "aten.as_strided(%%x, [2], [%s])",
        "aten.as_strided(%%x, [2], [1], %s)",
        "aten.as_strided(%%x, [%s, %s], [1, 1])",
        "aten.softmax.int(%%x, %s)",
        "aten.topk(%%x, %s)",
        "aten.tril(%%x, %s)",
        "aten.eye(%s)",
        "aten.zeros([%s])",
        "aten.zeros([%s, %s, %s])",
        "aten.native_layer_norm(%%x, [4], none, none, %s)",
        "aten.hardtanh(%%x, %s, %s)",
        "aten.quantize_per_tensor(%%x, %s, 0, int8)",
        "aten.pixel_shuffle(%%x, %s)",
        "aten.glu(%%x, %s)",
        "aten.diagonal(%%x, %s)",
        "aten.one_hot(%%x, %s)",
        "aten.nan_to_num(%%x, %s, %s, %s)",
        "aten.mean.dim(%%x, [%s])",
        "aten.var.correction(%%x, [3], correction=%s)",
    };
    static const char *const numbers[] = {"nan",
                                          "inf",
                                          "-inf",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "4611686018427387904",
                                          "4294967296",
                                          "-1",
                                          "0",
                                          "1e300",
                                          "-0.5"};
    int given = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            char call[256], text[512];
            const char *n = numbers[k];
            _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wformat-nonliteral\"")
                snprintf(call, sizeof call, calls[i], n, n, n);
            _Pragma("GCC diagnostic pop") snprintf(
                text, sizeof text,
                "graph { input %%x: float32[1, 1, 4, 4]\n %%y = %s\n output \"y\" = %%y }", call);
            given += run_reference(text) == TENON_OK;
        }
    ck_assert_int_gt(given, 50);
}
END_TEST

/* ---- Long chains ---- */

enum { CHAIN = 200000, STACK = 1 << 20 };

static void *load_chain(void *user) {
    const char *path = user;
    tenon_session_options options = {.dry_run = true, .threads = 1};
    tenon_graph *graph = NULL, *again = NULL;
    tenon_session *session = NULL;
    OK(tenon_load(path, &graph));
    OK(tenon_save_json(graph, test_path("chain.json")));
    OK(tenon_load(test_path("chain.json"), &again));
    ck_assert_int_eq(tenon_graph_node_count(again), CHAIN);
    OK(tenon_session_create(again, &options, &session));
    tenon_session_destroy(&session);
    tenon_graph_destroy(&again);
    tenon_graph_destroy(&graph);
    return NULL;
}

START_TEST(long_chains_on_a_small_stack) {
    tn_text text = {0};
    tn_text_add(&text, "graph {\n  input %%v0: float32[2]\n");
    for (int i = 1; i <= CHAIN; i++)
        tn_text_add(&text, "  %%v%d = aten.%s(%%v%d)\n", i, i % 2 ? "relu" : "neg", i - 1);
    tn_text_add(&text, "  output \"o\" = %%v%d\n}\n", CHAIN);
    const char *path = test_path("chain.txt");
    test_write(path, text.data, text.length);
    tn_text_free(&text);
    pthread_attr_t small;
    pthread_t thread;
    ck_assert_int_eq(pthread_attr_init(&small), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&small, STACK), 0);
    ck_assert_int_eq(pthread_create(&thread, &small, load_chain, (void *)path), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&small);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("attacks");
    TCase *tests = tcase_create("attacks");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, names_that_lead_out);
    tcase_add_test(tests, two_entries_of_one_name);
    tcase_add_test(tests, entries_that_overlap);
    tcase_add_test(tests, records_that_lie);
    tcase_add_test(tests, wrong_checksums);
    tcase_add_test(tests, deflate_bombs);
    tcase_add_test(tests, sixty_four_bits);
    tcase_add_test(tests, ends_that_lie);
    tcase_add_test(tests, weights_outside_of_the_folder);
    tcase_add_test(tests, cyclic_graphs);
    tcase_add_test(tests, deep_nesting);
    tcase_add_test(tests, invalid_utf8);
    tcase_add_test(tests, numbers_that_no_program_means);
    tcase_add_test(tests, long_chains_on_a_small_stack);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
