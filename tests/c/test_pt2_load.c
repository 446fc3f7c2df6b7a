/* The loader of exported programs: what it makes of good archives, and that each kind of bad one
 * has its own message. */
#include "core/graph.h"
#include "core/tensor.h"
#include "pt2_changes.h"
#include "suite.h"
#include <check.h>
#include <tenon/tenon.h>

static const tenon_view *weight(const tenon_graph *graph, const char *name) {
    const tenon_value *value = tenon_graph_find_value(graph, name);
    ck_assert_msg(value != NULL, "no value '%s'", name);
    return tenon_tensor_view(tenon_value_tensor(value));
}

/* ---- Good archives ---- */

START_TEST(views_of_one_storage) {
    tenon_graph *graph = load(CASE("param_views"));
    const tenon_view *w = weight(graph, "w"), *wt = weight(graph, "wt"),
                     *one = weight(graph, "one");
    ck_assert_int_eq(w->strides[0], 6);
    ck_assert_int_eq(wt->strides[1], 6);
    /* Offsets 8, 1 and 23 in the same storage. */
    ck_assert_int_eq((char *)w->data - (char *)wt->data, 7 * 4);
    ck_assert_int_eq((char *)one->data - (char *)w->data, 15 * 4);
    ck_assert_int_eq(weight(graph, "row")->strides[1], 0);
    /* Mapped, not copied. */
    ck_assert(tenon_value_tensor(tenon_graph_find_value(graph, "w"))->storage->mapped);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(names_of_outputs) {
    static const struct {
        const char *path, *names[8];
    } cases[] = {
        {CASE("nested_out"), {"b", "a.0", "a.1.0", "a.1.1.z", "a.1.1.c"}},
        {CASE("const_outputs_raw"), {"y", "n", "none", "flag", "f", "minus"}},
        {CASE("passthrough_core"), {"0", "1", "2", "3"}},
        {CASE("kwargs_none"), {"add"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tenon_graph *graph = load(cases[i].path);
        for (int j = 0; cases[i].names[j]; j++)
            ck_assert_str_eq(tenon_graph_output_name(graph, j), cases[i].names[j]);
        tenon_graph_destroy(&graph);
    }
    tenon_graph *graph = load(CASE("const_outputs_raw"));
    ck_assert_int_eq(tenon_graph_output_count(graph), 6);
    ck_assert_int_eq(tenon_graph_output(graph, 1).as.i, 3);
    ck_assert_int_eq(tenon_graph_output(graph, 2).kind, TENON_ARG_NONE);
    ck_assert(tenon_graph_output(graph, 3).as.b);
    ck_assert(tenon_graph_output(graph, 4).as.f == 2.5);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(inputs_are_the_users) {
    tenon_graph *graph = load(CASE("kwargs_none"));
    ck_assert_int_eq(tenon_graph_input_count(graph), 2);
    ck_assert_str_eq(tenon_value_name(tenon_graph_input(graph, 0)), "x");
    ck_assert_str_eq(tenon_value_name(tenon_graph_input(graph, 1)), "scale");
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(mutations_of_inputs) {
    tenon_graph *graph = load(CASE("input_mut_core"));
    tenon_value *target = NULL, *value = NULL;
    ck_assert_int_eq(tenon_graph_write_count(graph), 2);
    tenon_graph_write(graph, 1, &target, &value);
    ck_assert_str_eq(tenon_value_name(target), "y");
    ck_assert_str_eq(tenon_value_name(value), "where");
    ck_assert_int_eq(tenon_graph_output_count(graph), 1);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(sources_of_nodes) {
    tenon_graph *graph = load(CASE("odd_names"));
    tenon_node *node = tenon_graph_first_node(graph);
    ck_assert_str_eq(tenon_node_module_path(node), "say \"hi\"");
    ck_assert_ptr_nonnull(strstr(tenon_node_stack_trace(node), "File \""));
    ck_assert_int_eq(tenon_value_get_kind(tenon_graph_find_value(graph, "a,b;c")),
                     TENON_VALUE_CONSTANT);
    tenon_graph_destroy(&graph);
    graph = load(CASE("strict_nested"));
    ck_assert_str_eq(tenon_node_module_path(tenon_graph_first_node(graph)), "m.0.fc");
    tenon_graph_destroy(&graph);
}
END_TEST

/* In-place operators make state of what they reach: n through copy_, ema and p through results of
 * earlier ones. */
START_TEST(state_of_raw_programs) {
    static const char *const paths[] = {CASE("counter_raw"), CASE("counter_core")};
    for (int i = 0; i < 2; i++) {
        tenon_graph *graph = load(paths[i]);
        static const char *const names[] = {"n", "ema", "p"};
        for (int j = 0; j < 3; j++)
            ck_assert_int_eq(tenon_value_get_kind(tenon_graph_find_value(graph, names[j])),
                             TENON_VALUE_BUFFER);
        ck_assert_int_eq(tenon_graph_write_count(graph), i == 0 ? 0 : 3);
        ck_assert_int_eq(tenon_graph_output_count(graph), 4);
        tenon_graph_destroy(&graph);
    }
}
END_TEST

START_TEST(symbols_and_ranges) {
    tenon_graph *graph = load(CASE("dyn_derived_raw"));
    const char *name;
    int64_t min, max;
    char text[32];
    ck_assert_int_eq(tenon_graph_symbol_count(graph), 1);
    tenon_graph_symbol(graph, 0, &name, &min, &max);
    ck_assert_str_eq(name, "s77");
    ck_assert_int_eq(min, 0); /* the file says 2, which does not bind */
    ck_assert_int_eq(max, 8);
    tenon_value_size_text(tenon_graph_input(graph, 1), 0, text, sizeof text);
    ck_assert_str_eq(text, "2*s77");
    ck_assert_int_eq(graph->constraint_count, 2);
    tenon_graph_destroy(&graph);
}
END_TEST

START_TEST(tied_weights_share_memory) {
    tenon_graph *graph = load(CASE("tied_embedding"));
    ck_assert_ptr_eq(weight(graph, "emb.weight")->data, weight(graph, "out.weight")->data);
    tenon_graph_destroy(&graph);
}
END_TEST

/* The same graph, whether entries are stored or deflated, under whatever top folder. */
START_TEST(layouts_of_archives) {
    archive a = archive_read(CASE("param_views"));
    tenon_graph *want = load(CASE("param_views"));
    char *want_text = NULL;
    ck_assert_int_eq(tenon_graph_print(want, &want_text), TENON_OK);
    for (int deflated = 0; deflated < 2; deflated++) {
        archive_write(&a, test_path("param_views.pt2"), deflated);
        tenon_graph *graph = load(test_path("param_views.pt2"));
        char *text = NULL;
        ck_assert_int_eq(tenon_graph_print(graph, &text), TENON_OK);
        ck_assert_str_eq(text, want_text);
        tenon_string_free(text);
        tenon_graph_destroy(&graph);
        for (int i = 0; i < a.count; i++) {
            char renamed[300];
            snprintf(renamed, sizeof renamed, "other/%s", strchr(a.entries[i].name, '/') + 1);
            free(a.entries[i].name);
            a.entries[i].name = strdup(renamed);
        }
    }
    tenon_string_free(want_text);
    tenon_graph_destroy(&want);
    archive_free(&a);
}
END_TEST

/* ---- Bad archives ---- */

START_TEST(refuses_bad_layouts) {
    static const change changes[] = {
        {"archive_format", NULL, NULL, TENON_INVALID_FILE, "entry 'archive_format' is missing"},
        {"archive_format", NULL, "pt3", TENON_UNSUPPORTED, "archive_format is 'pt3'"},
        {"archive_version", NULL, "1", TENON_UNSUPPORTED, "archive_version is '1'"},
        {"archive_version", NULL, NULL, TENON_INVALID_FILE, "entry 'archive_version' is missing"},
        {"byteorder", NULL, "big", TENON_UNSUPPORTED, "byteorder is 'big'"},
        {MODEL, NULL, NULL, TENON_INVALID_FILE, "entry 'models/model.json' is missing"},
        {MODEL, NULL, "", TENON_INVALID_FILE, "not valid JSON near byte 0"},
        {MODEL, NULL, "{\"a\": ", TENON_INVALID_FILE, "not valid JSON"},
        {MODEL, NULL, "{}", TENON_INVALID_FILE, "no schema_version"},
        {MODEL, "\"major\": 8", "\"major\": 7", TENON_UNSUPPORTED,
         "its schema version is 7.20, Tenon reads 8: export it again with torch.export.save"},
        {MODEL, "\"input_specs\"", "\"x\"", TENON_INVALID_FILE, "no graph signature"},
        {MODEL, "\"nodes\"", "\"x\"", TENON_INVALID_FILE, "lacks its nodes"},
        {MODEL, "\"tensor_values\"", "\"x\"", TENON_INVALID_FILE,
         "lacks its nodes or tensor_values"},
        {WEIGHTS, NULL, NULL, TENON_INVALID_FILE, "'w' is missing in data/weights/"},
        {WEIGHTS, NULL, "[", TENON_INVALID_FILE, "model_weights_config.json: not valid JSON"},
        {WEIGHTS, NULL, "{}", TENON_INVALID_FILE, "it has no 'config'"},
    };
    check_changes(CASE("param_views"), changes, sizeof changes / sizeof *changes);
}
END_TEST

START_TEST(refuses_bad_weights) {
    static const change changes[] = {
        {WEIGHT, NULL, NULL, TENON_INVALID_FILE,
         "entry 'data/weights/weight_0', which holds 'w', is missing"},
        {WEIGHT, NULL, "1234", TENON_INVALID_FILE,
         "weight 'w' needs 92 bytes by its sizes, strides and offset"},
        {WEIGHT, NULL, "", TENON_INVALID_FILE, "entry 'data/weights/weight_0' has 0"},
        {WEIGHTS, "\"storage_offset\": {\"as_int\": 8}", "\"storage_offset\": {\"as_int\": 10}",
         TENON_INVALID_FILE, "weight 'w' needs 100 bytes"},
        {WEIGHTS, "\"strides\": [{\"as_int\": 6}", "\"strides\": [{\"as_int\": 60}",
         TENON_INVALID_FILE, "weight 'w' needs 524 bytes"},
        {WEIGHTS, "\"strides\": [{\"as_int\": 6}",
         "\"strides\": [{\"as_int\": 4611686018427387904}", TENON_INVALID_FILE,
         "weight 'w': its sizes, strides or offset overflow"},
        {WEIGHTS, "\"strides\": [{\"as_int\": 6}", "\"strides\": [{\"as_int\": -6}",
         TENON_INVALID_FILE, "-6 as a size, stride or offset is negative"},
        {WEIGHTS, "\"storage_offset\": {\"as_int\": 8}", "\"storage_offset\": {\"as_int\": -1}",
         TENON_INVALID_FILE, "-1 as a size, stride or offset is negative"},
        {WEIGHTS, "\"storage_offset\": {\"as_int\": 8}",
         "\"storage_offset\": {\"as_int\": 9223372036854775807}", TENON_INVALID_FILE, "overflow"},
        {WEIGHTS, "\"sizes\": [{\"as_int\": 3}", "\"sizes\": [{\"as_int\": -3}", TENON_INVALID_FILE,
         "-3 as a size, stride or offset is negative"},
        {WEIGHTS, "\"sizes\": [{\"as_int\": 3}", "\"sizes\": [{\"as_int\": 2}", TENON_INVALID_FILE,
         "weight 'w' is float32[2, 3], the program records float32[3, 3]"},
        {WEIGHTS, "\"sizes\": [{\"as_int\": 3}", "\"sizes\": [{\"as_int\": 0.5}",
         TENON_INVALID_FILE, "a size is no 64-bit integer"},
        {WEIGHTS, "\"sizes\": [{\"as_int\": 3}", "\"sizes\": [{\"as_int\": 99999999999999999999}",
         TENON_INVALID_FILE, "a size is no 64-bit integer"},
        {WEIGHTS, "\"sizes\": [{\"as_int\": 3},", "\"sizes\": [", TENON_INVALID_FILE,
         "1 sizes and 2 strides"},
        {WEIGHTS, "\"dtype\": 7", "\"dtype\": 8", TENON_INVALID_FILE,
         "weight 'w' is float64[3, 3]"},
        {WEIGHTS, "\"dtype\": 7", "\"dtype\": 0", TENON_UNSUPPORTED, "'w' has the unknown dtype 0"},
        {WEIGHTS, "\"dtype\": 7", "\"dtype\": 999", TENON_UNSUPPORTED,
         "'w' has the unknown dtype 999"},
        {WEIGHTS, "\"dtype\": 7", "\"dtype\": 29", TENON_UNSUPPORTED, "'w' has dtype 29 (float8)"},
        {WEIGHTS, "\"dtype\": 7", "\"dtype\": 10", TENON_UNSUPPORTED,
         "'w' has dtype 10 (complex numbers)"},
        {WEIGHTS, "\"dtype\": 7", "\"dtype\": \"f\"", TENON_INVALID_FILE, "'w' has no dtype"},
        {WEIGHTS, "\"layout\": 7", "\"layout\": 2", TENON_UNSUPPORTED,
         "'w' is a sparse tensor (layout 2)"},
        {WEIGHTS, "\"use_pickle\": false", "\"use_pickle\": true", TENON_UNSUPPORTED,
         "'w' is stored as a Python pickle"},
        {WEIGHTS, "\"tensor_meta\"", "\"x\"", TENON_INVALID_FILE, "'w' has no tensor_meta"},
        {WEIGHTS, "\"path_name\"", "\"x\"", TENON_INVALID_FILE, "weight 'w' has no path_name"},
        {WEIGHTS, "\"weight_0\"", "\"../../archive_version\"", TENON_INVALID_FILE, "is missing"},
    };
    check_changes(CASE("param_views"), changes, sizeof changes / sizeof *changes);
}
END_TEST

START_TEST(refuses_bad_programs) {
    static const change changes[] = {
        {MODEL, "aten.matmul.default", "aten.matmull.default", TENON_UNKNOWN_OP,
         "node 'matmul' (aten.matmull.default): unknown operator"},
        {MODEL, "torch.ops.aten.matmul.default", "torch.ops.higher_order.map_impl",
         TENON_UNSUPPORTED,
         "node 'matmul' (higher_order.map_impl): runs a graph once for each slice"},
        {MODEL, "torch.ops.aten.matmul.default", "torch.ops.higher_order.flex_attention",
         TENON_UNSUPPORTED, "the higher-order operator 'flex_attention'"},
        {MODEL, "aten.matmul.default", "aten.convolution_backward.default", TENON_UNSUPPORTED,
         "node 'matmul' (aten.convolution_backward.default): computes gradients, which an "
         "inference graph does not hold"},
        {MODEL, "torch.ops.aten.matmul.default", "torch.ops.aten.randn_like.default",
         TENON_UNSUPPORTED, "random numbers"},
        {MODEL, "\"name\": \"self\"", "\"name\": \"selv\"", TENON_INVALID_FILE,
         "no argument 'selv'"},
        {MODEL, "\"name\": \"other\"", "\"name\": \"self\"", TENON_INVALID_FILE,
         "argument 'self' is given twice"},
        {MODEL, "{\"as_tensor\": {\"name\": \"x\"}}, \"kind\"",
         "{\"as_tensor\": {\"name\": \"xx\"}}, \"kind\"", TENON_INVALID_FILE,
         "node 'matmul' (aten.matmul.default): the value 'xx' is not known here"},
        {MODEL, "{\"as_tensor\": {\"name\": \"x\"}}, \"kind\"", "{\"as_custom_obj\": {}}, \"kind\"",
         TENON_UNSUPPORTED, "an argument has the kind 'as_custom_obj'"},
        {MODEL, "{\"as_tensor\": {\"name\": \"x\"}}, \"kind\"", "{\"as_string\": \"x\"}, \"kind\"",
         TENON_INVALID_FILE, "argument 'self' is a string"},
        {MODEL, "{\"as_tensor\": {\"name\": \"x\"}}, \"kind\"", "[], \"kind\"", TENON_INVALID_FILE,
         "an argument is damaged"},
        {MODEL, "\"outputs\": [{\"as_tensor\": {\"name\": \"matmul_1\"}}]", "\"outputs\": []",
         TENON_INVALID_FILE, "it has 0 outputs, the operator gives 1"},
        {MODEL, "\"outputs\": [{\"as_tensor\": {\"name\": \"mul\"}}]",
         "\"outputs\": [{\"as_tensor\": {\"name\": \"add\"}}]", TENON_INVALID_FILE,
         "two values are named 'add'"},
        {MODEL, "{\"user_input\": ", "{\"custom_obj\": ", TENON_UNSUPPORTED,
         "an input of kind 'custom_obj'"},
        {MODEL, "{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"mul\"}}}}",
         "{\"loss_output\": {\"arg\": {\"n\": 1, \"name\": 2}}}", TENON_INVALID_FILE,
         "an output names an unknown value"},
        {MODEL, "{\"user_output\": ", "{\"token\": ", TENON_UNSUPPORTED,
         "an output of kind 'token'"},
        {MODEL, "{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"mul\"}}}}",
         "{\"buffer_mutation\": {\"arg\": {\"name\": \"mul\"}, \"buffer_name\": \"q\"}}",
         TENON_INVALID_FILE, "a mutation of something unknown"},
        {MODEL, "{\"user_output\": {\"arg\": {\"as_tensor\": {\"name\": \"matmul_1\"}}}}",
         "{\"parameter_mutation\": {\"arg\": {\"name\": \"matmul_1\"}, \"parameter_name\": "
         "\"wt\"}}",
         TENON_UNSUPPORTED, "share memory, and the program changes one of them"},
        {MODEL, "\"parameter_name\": \"w\"", "\"parameter_name\": \"q\"", TENON_INVALID_FILE,
         "'q' is missing in data/weights/"},
    };
    check_changes(CASE("param_views"), changes, sizeof changes / sizeof *changes);
}
END_TEST

/* A graph is refused when what it records contradicts what its operators give. */
START_TEST(refuses_contradictions) {
    tenon_graph *graph = NULL;
    ck_assert_int_eq(tenon_load(CASE("autocast_lost"), &graph), TENON_INVALID_FILE);
    ck_assert_ptr_nonnull(strstr(tenon_last_error(),
                                 "node 'conv2d' (aten.conv2d.default): the file records "
                                 "bfloat16[1, 3, 2, 2] for 'conv2d', the operator gives float32"));
}
END_TEST

START_TEST(refuses_other_archives) {
    static const struct {
        const char *entries[3], *message;
        tenon_status status;
    } cases[] = {
        {{"serialized_exported_program.json", "version"},
         "before 2.9: export it again with torch.export.save",
         TENON_UNSUPPORTED},
        {{"top/data.pkl", "top/version"}, "torch.save or TorchScript", TENON_UNSUPPORTED},
        {{"top/data.pkl", "top/byteorder"}, "torch.save or TorchScript", TENON_UNSUPPORTED},
        {{"word/document.xml"}, "not an exported program", TENON_INVALID_FILE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        archive a = {0};
        for (; cases[i].entries[a.count]; a.count++) {
            a.entries[a.count].name = strdup(cases[i].entries[a.count]);
            a.entries[a.count].data = strdup("8");
            a.entries[a.count].size = 1;
        }
        archive_write(&a, test_path("other.pt2"), false);
        check_refused(test_path("other.pt2"), cases[i].status, cases[i].message);
        archive_free(&a);
    }
    check_refused(test_path("absent.pt2"), TENON_IO, "No such file");
    test_write(test_path("noise.pt2"), "PK\3\4 and then nothing", 21);
    check_refused(test_path("noise.pt2"), TENON_INVALID_FILE, "not a whole zip archive");
    test_write(test_path("empty.pt2"), "", 0);
    check_refused(test_path("empty.pt2"), TENON_INVALID_FILE, "zip archive");
}
END_TEST

/* JSON nested too deep must not overflow the stack. */
START_TEST(refuses_deep_nesting) {
    enum { DEPTH = 100000 };
    archive a = archive_read(CASE("param_views"));
    char *deep = malloc(DEPTH * 2 + 1);
    memset(deep, '[', DEPTH);
    archive_set(&a, archive_find(&a, MODEL), deep, DEPTH);
    archive_write(&a, test_path("deep.pt2"), true);
    check_refused(test_path("deep.pt2"), TENON_INVALID_FILE, "not valid JSON");
    free(deep);
    archive_free(&a);
}
END_TEST

/* ---- Damage ---- */

static uint64_t random_state;

static size_t random_below(size_t bound) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)((random_state >> 33) % bound);
}

static void try_load(const char *path) {
    tenon_graph *graph = NULL;
    char *text = NULL;
    if (tenon_load_pt2(path, &graph) != TENON_OK) {
        ck_assert_ptr_null(graph);
        ck_assert_uint_gt(strlen(tenon_last_error()), 0);
        return;
    }
    if (tenon_graph_print(graph, &text) == TENON_OK)
        tenon_string_free(text);
    tenon_graph_destroy(&graph);
}

/* Cut at each boundary of an entry (its header, its data, its record in the directory) and around
 * it. */
START_TEST(cut_at_each_boundary) {
    size_t size;
    char *good = test_read(CASE("param_views"), &size);
    const char *path = test_path("cut.pt2");
    int boundaries = 0;
    for (size_t at = 0; at + 4 <= size; at++) {
        bool mark = memcmp(good + at, "PK\1\2", 4) == 0 || memcmp(good + at, "PK\3\4", 4) == 0 ||
                    memcmp(good + at, "PK\5\6", 4) == 0 || memcmp(good + at, "PK\7\10", 4) == 0;
        for (size_t cut = at; mark && cut < at + 2; cut++) {
            test_write(path, good, cut);
            check_refused(path, TENON_INVALID_FILE, "not a whole zip archive");
            boundaries++;
        }
    }
    ck_assert_int_gt(boundaries, 40);
    free(good);
}
END_TEST

static const char *const small[] = {CASE("param_views"),       CASE("cond"),
                                    CASE("nested_out"),        CASE("counter_raw"),
                                    CASE("dyn_derived_raw"),   CASE("symint_args"),
                                    CASE("kwargs_none"),       CASE("dtype_weights"),
                                    CASE("input_mut_core"),    CASE("zero_dim_empty"),
                                    CASE("no_grad_block_raw"), CASE("lifted")};

/* Bits of the file, where checksums catch most of it. */
START_TEST(flipped_bits_of_the_file) {
    size_t size;
    char *good = test_read(small[_i], &size), *bytes = malloc(size);
    random_state = (uint64_t)_i + 1;
    for (int i = 0; i < 60; i++) {
        memcpy(bytes, good, size);
        for (size_t flips = 1 + random_below(3); flips > 0; flips--)
            bytes[random_below(size)] ^= (char)(1 << random_below(8));
        test_write(test_path("flip.pt2"), bytes, i % 6 ? size : random_below(size));
        try_load(test_path("flip.pt2"));
    }
    free(good);
    free(bytes);
}
END_TEST

/* Bytes inside the JSON entries, under right checksums: digits, names and structure change. */
START_TEST(changed_bytes_of_the_program) {
    static const char *const names[] = {MODEL, MODEL, MODEL, WEIGHTS, CONSTANTS};
    static const char with[] = "0123456789-\"{}[],:aesxtn_. \x01\xff";
    random_state = (uint64_t)_i + 100;
    for (int i = 0; i < 150; i++) {
        archive a = archive_read(small[_i]);
        int entry = archive_find(&a, names[random_below(5)]);
        size_t size = a.entries[entry].size;
        for (size_t changes = 1 + random_below(3); changes > 0 && size > 0; changes--)
            a.entries[entry].data[random_below(size)] = with[random_below(sizeof with - 1)];
        archive_write(&a, test_path("change.pt2"), false);
        try_load(test_path("change.pt2"));
        archive_free(&a);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pt2_load");
    TCase *tests = tcase_create("pt2_load");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, views_of_one_storage);
    tcase_add_test(tests, names_of_outputs);
    tcase_add_test(tests, inputs_are_the_users);
    tcase_add_test(tests, mutations_of_inputs);
    tcase_add_test(tests, sources_of_nodes);
    tcase_add_test(tests, state_of_raw_programs);
    tcase_add_test(tests, symbols_and_ranges);
    tcase_add_test(tests, tied_weights_share_memory);
    tcase_add_test(tests, layouts_of_archives);
    tcase_add_test(tests, refuses_bad_layouts);
    tcase_add_test(tests, refuses_bad_weights);
    tcase_add_test(tests, refuses_bad_programs);
    tcase_add_test(tests, refuses_contradictions);
    tcase_add_test(tests, refuses_other_archives);
    tcase_add_test(tests, refuses_deep_nesting);
    tcase_add_test(tests, cut_at_each_boundary);
    tcase_add_loop_test(tests, flipped_bits_of_the_file, 0, (int)(sizeof small / sizeof *small));
    tcase_add_loop_test(tests, changed_bytes_of_the_program, 0,
                        (int)(sizeof small / sizeof *small));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
