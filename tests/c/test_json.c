/* The lowered-graph form: JSON with a file of weights. */
#include "core/graph.h"
#include "core/tensor.h"
#include "files.h"
#include "suite.h"
#include <check.h>
#include <tenon/tenon.h>

static tenon_graph *parse(const char *text) {
    tenon_graph *graph = NULL;
    tenon_status status = tenon_graph_parse(text, "t", &graph);
    ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
    return graph;
}

static tenon_graph *reload(const tenon_graph *graph, const char *name) {
    tenon_graph *again = NULL;
    tenon_status status = tenon_save_json(graph, test_path(name));
    ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
    status = tenon_load(test_path(name), &again);
    ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
    return again;
}

static void check_same(const tenon_graph *a, const tenon_graph *b) {
    char *x = NULL, *y = NULL;
    ck_assert_int_eq(tenon_graph_print(a, &x), TENON_OK);
    ck_assert_int_eq(tenon_graph_print(b, &y), TENON_OK);
    ck_assert_str_eq(x, y);
    tenon_string_free(x);
    tenon_string_free(y);
}

START_TEST(round_trip_of_everything) {
    tenon_graph *graph = parse(
        "graph \"g \\\"q\\\"\" {\n"
        "  symbol s0 in [2, 64]\n  symbol s1 in [0, inf]\n"
        "  constraint 2*s0 in [4, 100]\n"
        "  input %x: float32[s0, 3]\n  input %y: int64[2*s0 + 1]\n  input %n: symint[s1]\n  input "
        "%f: symfloat\n"
        "  input %i: float32[1, 2, 3, 4]\n"
        "  const %w: float32[2, 3] = {0.1, -0.0, inf, -inf, nan, 16777216}\n"
        "  const %\"a b\\n\": bool[2] = {true, false}\n"
        "  buffer %count: uint64[] = {18446744073709551615}\n"
        "  %v: float32[?, ?] = aten.permute(%x, [0, 1]) in \"layer.0\" trace \"File \\\"m.py\\\", "
        "line 3\\n  return\"\n"
        "  %s: ?[...] = aten.slice.Tensor(%y, 0, 1, 9223372036854775807, -9223372036854775808)\n"
        "  %a, %b = aten.split.sizes(%w, [1, 2], dim=1) name \"halves\"\n"
        "  %k: symint = _operator.add(%n, 1)\n"
        "  %t: float32[?, ?] = aten.view(%x, [%k, -1])\n"
        "  aten._assert_scalar(%n, \"say \\\"no\\\"\\n\")\n"
        "  %c = aten.alias(%count)\n"
        "  %r: float32[1, 2, 3, 4] channels_last = aten.relu(%i)\n"
        "  %d: float64[1, 2, 3, 4] = aten._to_copy(%r, dtype=float64)\n"
        "  write %count <- %c\n"
        "  output \"out.0\" = %v\n  output \"none\" = none\n  output \"half\" = 0.5\n  output "
        "\"one\" = 1.0\n"
        "  output \"three\" = 3\n  output \"inf\" = -inf\n  output \"nan\" = nan\n  output "
        "\"most\" = inf\n  output \"text\" = "
        "\"9007199254740993\"\n"
        "  output \"big\" = 9007199254740993\n  output \"yes\" = true\n  output \"k\" = %k\n"
        "}\n");
    tenon_graph *again = reload(graph, "g.json");
    check_same(graph, again);
    const tenon_node *node = tenon_graph_first_node(again);
    ck_assert_str_eq(tenon_node_module_path(node), "layer.0");
    ck_assert_str_eq(tenon_node_stack_trace(node), "File \"m.py\", line 3\n  return");
    /* Written again, it is the same file. */
    ck_assert_int_eq(tenon_save_json(again, test_path("h.json")), TENON_OK);
    size_t m, n;
    char *first = test_read(test_path("g.safetensors"), &m),
         *second = test_read(test_path("h.safetensors"), &n);
    ck_assert_uint_eq(m, n);
    ck_assert_mem_eq(first, second, m);
    free(first);
    free(second);
    tenon_graph_destroy(&graph);
    tenon_graph_destroy(&again);
}
END_TEST

START_TEST(every_dtype_keeps_its_bytes) {
    tenon_graph *graph = NULL;
    ck_assert_int_eq(tenon_graph_create("dtypes", &graph), TENON_OK);
    unsigned char bytes[13 * 24];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    for (int dtype = 1; dtype < TENON_DTYPE_COUNT; dtype++) {
        tenon_tensor *tensor = NULL;
        ck_assert_int_eq(tenon_tensor_create(dtype, 2, (const int64_t[]){3, 1}, &tensor), TENON_OK);
        memcpy(tenon_tensor_view(tensor)->data, bytes + dtype, 3 * tenon_dtype_size(dtype));
        if (dtype == TENON_BOOL)
            memcpy(tenon_tensor_view(tensor)->data, "\1\0\1", 3);
        ck_assert_int_eq(tenon_graph_add_constant(graph, tenon_dtype_text(dtype), tensor, NULL),
                         TENON_OK);
        tenon_tensor_destroy(&tensor);
    }
    tenon_graph *again = reload(graph, "d.json");
    for (int dtype = 1; dtype < TENON_DTYPE_COUNT; dtype++) {
        const tenon_view *a = tenon_tensor_view(
            tenon_value_tensor(tenon_graph_find_value(graph, tenon_dtype_text(dtype))));
        const tenon_view *b = tenon_tensor_view(
            tenon_value_tensor(tenon_graph_find_value(again, tenon_dtype_text(dtype))));
        ck_assert_int_eq(a->dtype, b->dtype);
        ck_assert_mem_eq(a->data, b->data, 3 * tenon_dtype_size(dtype));
        ck_assert_uint_eq((uintptr_t)b->data % tenon_dtype_size(dtype), 0);
    }
    tenon_graph_destroy(&graph);
    tenon_graph_destroy(&again);
}
END_TEST

/* Shared memory is written once and shared again; strides are written out. */
START_TEST(tied_and_strided_constants) {
    tenon_graph *graph = NULL;
    tenon_tensor *w = NULL, *t = NULL;
    ck_assert_int_eq(tenon_graph_create("tied", &graph), TENON_OK);
    ck_assert_int_eq(tenon_tensor_create(TENON_FLOAT32, 2, (const int64_t[]){2, 3}, &w), TENON_OK);
    for (int i = 0; i < 6; i++)
        ((float *)tenon_tensor_view(w)->data)[i] = (float)i;
    tenon_view turned = *tenon_tensor_view(w);
    turned.shape[0] = 3, turned.shape[1] = 2, turned.strides[0] = 1, turned.strides[1] = 3;
    ck_assert_int_eq(tenon_tensor_wrap(&turned, NULL, NULL, &t), TENON_OK);
    ck_assert_int_eq(tenon_graph_add_constant(graph, "emb", w, NULL), TENON_OK);
    ck_assert_int_eq(tenon_graph_add_constant(graph, "out", w, NULL), TENON_OK);
    ck_assert_int_eq(tenon_graph_add_constant(graph, "turned", t, NULL), TENON_OK);
    tenon_graph *again = reload(graph, "tied.json");
    const tenon_view *emb =
        tenon_tensor_view(tenon_value_tensor(tenon_graph_find_value(again, "emb")));
    const tenon_view *out =
        tenon_tensor_view(tenon_value_tensor(tenon_graph_find_value(again, "out")));
    const tenon_view *got =
        tenon_tensor_view(tenon_value_tensor(tenon_graph_find_value(again, "turned")));
    static const float want[] = {0, 3, 1, 4, 2, 5};
    ck_assert_ptr_eq(emb->data, out->data);
    ck_assert_mem_eq(got->data, want, sizeof want);
    tenon_graph_destroy(&again);
    tenon_graph_destroy(&graph);
    tenon_tensor_destroy(&t);
    tenon_tensor_destroy(&w);
}
END_TEST

static void check_refused(const char *json, tenon_status status, const char *message) {
    tenon_graph *graph = NULL;
    const char *path = test_path("bad.json");
    test_write(path, json, strlen(json));
    tenon_status got = tenon_load_json(path, &graph);
    ck_assert_msg(got == status && strstr(tenon_last_error(), message) != NULL,
                  "status %d, '%s' does not hold '%s'", got, tenon_last_error(), message);
    ck_assert_ptr_null(graph);
}

#define HEAD "{\"format\": \"tenon-graph\", \"version\": 1, "

#define X_ALIAS                                                                                   \
    HEAD "\"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [2]}], \"nodes\": [{" \
         "\"op\": \"aten.alias\", \"args\": {\"self\": {\"value\": \"x\"}}, \"outputs\": ["

/* Numbers as other programs write them. */
START_TEST(forms_of_numbers) {
    static const struct {
        const char *arg, *printed;
    } cases[] = {
        {"0.5", "0.5"},
        {"{\"float\": 2}", "2.0"},
        {"{\"float\": \"Infinity\"}", "inf"},
        {"{\"float\": \"-Infinity\"}", "-inf"},
        {"{\"float\": \"NaN\"}", "nan"},
        {"{\"float\": 9007199254740993}", "9007199254740992.0"},
        {"9007199254740993", "9007199254740993"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[600], want[100], *text = NULL;
        tenon_graph *graph = NULL;
        snprintf(json, sizeof json,
                 HEAD "\"inputs\": [{\"name\": \"x\", \"dtype\": \"float64\", \"shape\": [2]}], "
                      "\"nodes\": [{\"op\": \"aten.mul.Tensor\", \"args\": {\"self\": {\"value\": "
                      "\"x\"}, \"other\": %s}, \"outputs\": [\"y\"]}]}",
                 cases[i].arg);
        snprintf(want, sizeof want, "aten.mul.Tensor(%%x, %s)", cases[i].printed);
        test_write(test_path("n.json"), json, strlen(json));
        tenon_status status = tenon_load_json(test_path("n.json"), &graph);
        ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
        ck_assert_int_eq(tenon_graph_print(graph, &text), TENON_OK);
        ck_assert_msg(strstr(text, want) != NULL, "no %s in %s", want, text);
        tenon_string_free(text);
        tenon_graph_destroy(&graph);
    }
}
END_TEST

START_TEST(refuses_bad_json) {
    static const struct {
        const char *json, *message;
        tenon_status status;
    } cases[] = {
        {"", "not valid JSON near byte 0", TENON_INVALID_FILE},
        {"{\"format\": \"tenon-graph\", \"version\": 1, ", "not valid JSON near",
         TENON_INVALID_FILE},
        {"{}", "'format' is not", TENON_INVALID_FILE},
        {"{\"format\": \"tenon-graph\", \"version\": 2}", "'version' is not 1", TENON_UNSUPPORTED},
        {HEAD "\"inputs\": 3}", "'inputs': it is no list", TENON_INVALID_FILE},
        {HEAD "\"inputs\": [{\"name\": \"x\"}]}", "no 'dtype'", TENON_INVALID_FILE},
        {HEAD "\"inputs\": [{\"name\": \"x\", \"dtype\": \"float33\", \"shape\": []}]}",
         "unknown dtype 'float33'", TENON_UNSUPPORTED},
        {HEAD "\"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [-1]}]}",
         "negative", TENON_INVALID_FILE},
        {HEAD "\"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [0.5]}]}",
         "neither an integer nor text", TENON_INVALID_FILE},
        {HEAD "\"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": "
              "[4611686018427387904, 4]}]}",
         "overflows", TENON_INVALID_FILE},
        {HEAD "\"constants\": [{\"name\": \"w\"}]}", "'weights' names none", TENON_INVALID_FILE},
        {HEAD "\"weights\": \"../w.safetensors\"}", "not the name of a file in the same folder",
         TENON_INVALID_FILE},
        {HEAD "\"weights\": \"absent.safetensors\"}", "cannot be opened", TENON_IO},
        {HEAD "\"nodes\": [{\"op\": \"aten.nope\", \"name\": \"n1\"}]}",
         "'n1': unknown operator 'aten.nope'", TENON_UNKNOWN_OP},
        {HEAD "\"nodes\": [{\"op\": \"aten.alias\", \"args\": {\"self\": {\"value\": \"x\"}}}]}",
         "no value 'x' is known", TENON_INVALID_FILE},
        {HEAD "\"nodes\": [{\"op\": \"aten.alias\", \"args\": {\"other\": 1}}]}",
         "no argument 'other'", TENON_INVALID_FILE},
        {HEAD "\"nodes\": [{\"op\": \"aten.alias\", \"args\": {}}]}", "argument 'self' is missing",
         TENON_INVALID_FILE},
        {HEAD "\"nodes\": [{\"op\": \"aten.alias\", \"args\": {\"self\": {\"valu\": 1}}}]}",
         "not {value}, {dtype} or {float}", TENON_INVALID_FILE},
        {HEAD "\"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [2]}], \"nodes\": "
              "[{\"op\": "
              "\"aten.alias\", \"args\": {\"self\": {\"value\": \"x\"}}, \"outputs\": []}]}",
         "names 0 outputs, aten.alias has 1", TENON_INVALID_FILE},
        {HEAD "\"inputs\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [2]}], \"nodes\": "
              "[{\"op\": "
              "\"aten.alias\", \"args\": {\"self\": {\"value\": \"x\"}}, \"outputs\": [{\"name\": "
              "\"y\", "
              "\"dtype\": \"int64\"}]}]}",
         "records int64 for 'y', the operator gives float32", TENON_INVALID_FILE},
        {HEAD "\"symbols\": [{\"name\": \"s0\", \"min\": 0.5}]}",
         "'min' is neither an integer nor null", TENON_INVALID_FILE},
        {HEAD "\"symbols\": [{\"name\": \"s0\", \"min\": 3, \"max\": 2}]}", "a range is empty",
         TENON_INVALID_FILE},
        {HEAD "\"inputs\": [{\"name\": \"n\", \"number\": \"complex\"}]}",
         "'complex' is not int, float or bool", TENON_INVALID_FILE},
        {HEAD "\"nodes\": [{\"op\": \"aten.alias\", \"args\": {\"self\": {}}}]}",
         "an argument object needs one key", TENON_INVALID_FILE},
        {HEAD "\"nodes\": [{\"op\": \"aten.alias\", \"args\": {\"self\": {\"float\": 1, "
              "\"dtype\": \"int8\"}}}]}",
         "an argument object needs one key", TENON_INVALID_FILE},
        {HEAD "\"nodes\": [{\"op\": \"aten.rand_like\", \"name\": \"r\"}]}",
         "'r': aten.rand_like: ", TENON_UNSUPPORTED},
        {X_ALIAS "{\"name\": \"y\", \"number\": \"int\"}]}]}", "'y' is a tensor, not a number",
         TENON_INVALID_FILE},
        {X_ALIAS "{\"name\": \"y\", \"rank\": 2}]}]}", "records rank 2 for 'y'",
         TENON_INVALID_FILE},
        {X_ALIAS "{\"name\": \"y\", \"rank\": 13}]}]}", "records rank 13 for 'y'",
         TENON_INVALID_FILE},
        {X_ALIAS "\"x\"]}]}", "two values are named 'x'", TENON_INVALID_FILE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refused(cases[i].json, cases[i].status, cases[i].message);
    /* Deep nesting must not overflow the stack. */
    char *deep = malloc(200001);
    memset(deep, '[', 200000);
    deep[200000] = '\0';
    check_refused(deep, TENON_INVALID_FILE, "not valid JSON");
    free(deep);
}
END_TEST

/* A file of weights with that header, and `size` bytes of data. */
static void write_weights(const char *header, size_t size) {
    unsigned char bytes[1024] = {0};
    size_t length = strlen(header);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    test_write(test_path("w.safetensors"), bytes, 8 + length + size);
}

START_TEST(refuses_bad_weights) {
    static const char json[] =
        HEAD "\"weights\": \"w.safetensors\", \"constants\": [{\"name\": \"w\"}]}";
    static const struct {
        const char *header;
        size_t size;
        const char *message;
        tenon_status status;
    } cases[] = {
        {"[]", 0, "no JSON object", TENON_INVALID_FILE},
        {"{", 0, "not valid JSON", TENON_INVALID_FILE},
        {"{}", 0, "tensor 'w' is missing", TENON_INVALID_FILE},
        {"{\"w\": {}}", 0, "the dtype ''", TENON_UNSUPPORTED},
        {"{\"w\": {\"dtype\": \"F8_E4M3\"}}", 0, "the dtype 'F8_E4M3'", TENON_UNSUPPORTED},
        {"{\"w\": {\"dtype\": \"F32\"}}", 0, "has no shape", TENON_INVALID_FILE},
        {"{\"w\": {\"dtype\": \"F32\", \"shape\": [-1]}}", 0, "a size is no integer",
         TENON_INVALID_FILE},
        {"{\"w\": {\"dtype\": \"F32\", \"shape\": [1]}}", 4, "lies outside", TENON_INVALID_FILE},
        {"{\"w\": {\"dtype\": \"I8\", \"shape\": [128], \"data_offsets\": [0, 0]}}", 0,
         "has 0 bytes", TENON_INVALID_FILE},
        {"{\"w\": {\"dtype\": \"I64\", \"shape\": [1], \"data_offsets\": [0, 512]}}", 512,
         "has 512 bytes", TENON_INVALID_FILE},
        {"{\"w\": {\"dtype\": \"F32\", \"shape\": [1000000], \"data_offsets\": [0, 4000000]}}", 4,
         "lies outside", TENON_INVALID_FILE},
        {"{\"w\": {\"dtype\": \"F32\", \"shape\": [4611686018427387904, 4], \"data_offsets\": [0, "
         "16]}}",
         16, "has 16 bytes", TENON_INVALID_FILE},
        {"{\"w\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 0]}}", 8,
         "lies outside", TENON_INVALID_FILE},
        {"{\"w\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [9223372036854775804, "
         "9223372036854775807]}}",
         8, "lies outside", TENON_INVALID_FILE},
        {"{\"w\": {\"dtype\": \"F32\", \"shape\": [1,1,1,1,1,1,1,1,1,1,1,1,1]}}", 0,
         "tensor 'w' has more than 12 dimensions", TENON_UNSUPPORTED},
        {"{\"w\": {}, \"w\": {}}", 0, "two tensors are named 'w'", TENON_INVALID_FILE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_weights(cases[i].header, cases[i].size);
        check_refused(json, cases[i].status, cases[i].message);
    }
    test_write(test_path("w.safetensors"), "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
    check_refused(json, TENON_INVALID_FILE, "its header claims");
    test_write(test_path("w.safetensors"), "1234", 4);
    check_refused(json, TENON_INVALID_FILE, "no safetensors file");

    /* Data that lie askew are read all the same, and what is said of the file is left out. */
    tenon_graph *graph = NULL;
    write_weights("{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F64\",\"shape\":[1],"
                  "\"data_offsets\":[1,9]}}",
                  9);
    test_write(test_path("good.json"), json, sizeof json - 1);
    ck_assert_int_eq(tenon_load(test_path("good.json"), &graph), TENON_OK);
    const tenon_view *view =
        tenon_tensor_view(tenon_value_tensor(tenon_graph_find_value(graph, "w")));
    ck_assert_uint_eq((uintptr_t)view->data % 8, 0);
    tenon_graph_destroy(&graph);
}
END_TEST

/* What cannot be written leaves the old files as they were. */
START_TEST(writes_whole_or_not_at_all) {
    tenon_graph *graph = parse("graph { const %w: float32[2] = {1, 2} output \"w\" = %w }");
    ck_assert_int_eq(tenon_save_json(graph, test_path("no/such/folder.json")), TENON_IO);
    ck_assert_int_eq(tenon_save_json(graph, test_path("g.txt")), TENON_INVALID_ARGUMENT);
    ck_assert_int_eq(tenon_save_json(graph, test_path("k.json")), TENON_OK);
    /* Over the very files that a graph is mapped from. */
    tenon_graph *again = reload(graph, "k.json"), *third = NULL;
    ck_assert_int_eq(tenon_save_json(again, test_path("k.json")), TENON_OK);
    ck_assert_int_eq(tenon_load(test_path("k.json"), &third), TENON_OK);
    check_same(again, third);
    tenon_graph_destroy(&graph);
    tenon_graph_destroy(&again);
    tenon_graph_destroy(&third);
}
END_TEST

START_TEST(files_by_content) {
    tenon_graph *graph = NULL;
    static const char text[] = "# a graph\ngraph g { output \"o\" = 1 }\n";
    test_write(test_path("g.pt2"), text, sizeof text - 1);
    ck_assert_int_eq(tenon_load(test_path("g.pt2"), &graph), TENON_OK);
    ck_assert_str_eq(tenon_graph_name(graph), "g");
    tenon_graph_destroy(&graph);
    test_write(test_path("e"), "", 0);
    ck_assert_int_eq(tenon_load(test_path("e"), &graph), TENON_INVALID_FILE);
    ck_assert_ptr_nonnull(strstr(tenon_last_error(), "the file is empty"));
    test_write(test_path("e"), "\x80\x02", 2);
    ck_assert_int_eq(tenon_load(test_path("e"), &graph), TENON_INVALID_FILE);
    ck_assert_ptr_nonnull(strstr(tenon_last_error(), "torch.export.save"));
    ck_assert_int_eq(tenon_load(test_path("absent"), &graph), TENON_IO);
    ck_assert_int_eq(tenon_load(test_folder, &graph), TENON_IO);
}
END_TEST

/* Every prefix of both files, and both with single bits changed. */
START_TEST(damaged) {
    tenon_graph *graph =
        parse("graph g { input %x: float32[s0, 2] const %w: float32[2] = {1, 2} buffer %b: bool[1] "
              "= {true}\n"
              "%y: float32[?, ?] = aten.permute(%x, [1, 0]) output \"o\" = %y output \"w\" = %w }");
    ck_assert_int_eq(tenon_save_json(graph, test_path("f.json")), TENON_OK);
    tenon_graph_destroy(&graph);
    static const char *const names[] = {"f.json", "f.safetensors"};
    for (int f = 0; f < 2; f++) {
        size_t size;
        const char *path = test_path(names[f]);
        char *good = test_read(path, &size), *bytes = malloc(size);
        for (size_t i = 0; i < size; i++) {
            test_write(path, good, i);
            if (tenon_load_json(test_path("f.json"), &graph) == TENON_OK)
                tenon_graph_destroy(&graph);
            memcpy(bytes, good, size);
            bytes[i] ^= (char)(1 << (i % 8));
            test_write(path, bytes, size);
            if (tenon_load_json(test_path("f.json"), &graph) == TENON_OK)
                tenon_graph_destroy(&graph);
        }
        test_write(path, good, size);
        free(good);
        free(bytes);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("json");
    TCase *tests = tcase_create("json");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, round_trip_of_everything);
    tcase_add_test(tests, every_dtype_keeps_its_bytes);
    tcase_add_test(tests, tied_and_strided_constants);
    tcase_add_test(tests, forms_of_numbers);
    tcase_add_test(tests, refuses_bad_json);
    tcase_add_test(tests, refuses_bad_weights);
    tcase_add_test(tests, writes_whole_or_not_at_all);
    tcase_add_test(tests, files_by_content);
    tcase_add_test(tests, damaged);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
