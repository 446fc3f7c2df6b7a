/* Loaders and writers of files, with each of their allocations failing in turn. */
#include "alloc_faults.h"
#include "files.h"
#include <dirent.h>

#define CASE(name) TEST_DATA "/pt2-cases/" name ".pt2"

/* ---- Loading ---- */

static tenon_status load_life(const void *user) {
    tenon_graph *graph = NULL;
    tenon_status status = tenon_load(user, &graph);
    if (status != TENON_OK && graph)
        return tenon_fail(TENON_INTERNAL, "the out-pointer was touched");
    tenon_graph_destroy(&graph);
    return status;
}

static tenon_status copying_life(const void *user) {
    const tenon_load_options options = {.copy_weights = true};
    tenon_graph *graph = NULL;
    tenon_status status = tenon_load_with(user, &options, &graph);
    if (status != TENON_OK && graph)
        return tenon_fail(TENON_INTERNAL, "the out-pointer was touched");
    tenon_graph_destroy(&graph);
    return status;
}

static void sweep_load(const char *name, const char *path) {
    sweep_life(&(life){.name = name, .live = load_life, .user = path, .needed = 50});
}

START_TEST(archives) {
    sweep_load("load dyn_derived_raw.pt2", CASE("dyn_derived_raw"));
    sweep_load("load cond.pt2", CASE("cond"));
    sweep_load("load counter_core.pt2", CASE("counter_core"));
    sweep_load("load dtype_weights.pt2", CASE("dtype_weights"));
    sweep_life(&(life){.name = "load dtype_weights.pt2, copying",
                       .live = copying_life,
                       .user = CASE("dtype_weights"),
                       .needed = 50});
}
END_TEST

static const char text[] = "graph g { input %x: float32[s0, 2] const %w: float32[2] = {1, 2} "
                           "buffer %b: bool[1] = {true}\n"
                           "%y: float32[?, ?] = aten.permute(%x, [1, 0]) in \"a\" output \"o\" "
                           "= %y output \"w\" = %w }";

START_TEST(json_and_text) {
    tenon_graph *graph = NULL;
    char path[512];
    test_write(test_path("g.txt"), text, sizeof text - 1);
    ck_assert_int_eq(tenon_load(test_path("g.txt"), &graph), TENON_OK);
    ck_assert_int_eq(tenon_save_json(graph, test_path("g.json")), TENON_OK);
    tenon_graph_destroy(&graph);
    snprintf(path, sizeof path, "%s", test_path("g.txt"));
    sweep_load("load text", path);
    snprintf(path, sizeof path, "%s", test_path("g.json"));
    sweep_load("load JSON", path);
    sweep_life(
        &(life){.name = "load JSON, copying", .live = copying_life, .user = path, .needed = 50});
}
END_TEST

/* ---- Arrays ---- */

static tenon_status array_life(const void *user) {
    tenon_tensor *tensor = NULL;
    tenon_status status = tenon_npy_load(user, &tensor);
    if (status != TENON_OK && tensor)
        return tenon_fail(TENON_INTERNAL, "the out-pointer was touched");
    if (status == TENON_OK && ((const float *)tenon_tensor_view(tensor)->data)[4] != 5)
        status = tenon_fail(TENON_INTERNAL, "element 4 is wrong");
    tenon_tensor_destroy(&tensor);
    return status;
}

static float numbers[6] = {1, 2, 3, 4, 5, 6};
static const tenon_view array = {
    .data = numbers, .dtype = TENON_FLOAT32, .rank = 2, .shape = {2, 3}, .strides = {3, 1}};

START_TEST(arrays) {
    char path[512], turned[512];
    static const char head[] = "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }\n";
    char file[10 + sizeof head - 1 + sizeof numbers] = "\x93NUMPY\x01";
    static const float columns[6] = {1, 3, 5, 2, 4, 6};
    file[8] = (char)(sizeof head - 1);
    memcpy(file + 10, head, sizeof head - 1);
    memcpy(file + 10 + sizeof head - 1, columns, sizeof columns);
    snprintf(path, sizeof path, "%s", test_path("a.npy"));
    snprintf(turned, sizeof turned, "%s", test_path("t.npy"));
    test_write(turned, file, sizeof file);
    ck_assert_int_eq(tenon_npy_save(path, &array), TENON_OK);
    sweep_life(&(life){.name = "load npy", .live = array_life, .user = path, .needed = 90});
    sweep_life(
        &(life){.name = "load npy, by columns", .live = array_life, .user = turned, .needed = 90});
}
END_TEST

/* ---- Writing ---- */

/* Into a folder of its own, where a file was before. */
static tenon_graph *model;
static char folder[512], json[600], npy[600];

static int files_in(const char *path) {
    int count = 0;
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

static tenon_status save_life(const void *user) {
    (void)user;
    return tenon_save_json(model, json);
}

static tenon_status save_array_life(const void *user) {
    (void)user;
    return tenon_npy_save(npy, &array);
}

static tenon_status write_life(const void *user) {
    return tenon_file_write(user, "text", 4);
}

/* What was there, or is there now, is whole, and nothing else is left. */
static void check_saved(void) {
    tenon_graph *graph = NULL;
    ck_assert_msg(tenon_load(json, &graph) == TENON_OK, "%s", tenon_last_error());
    tenon_graph_destroy(&graph);
    ck_assert_int_eq(files_in(folder), 4);
}

static void check_array(void) {
    ck_assert_msg(array_life(npy) == TENON_OK, "%s", tenon_last_error());
    ck_assert_int_eq(files_in(folder), 4);
}

/* The link stays one. */
static void check_link(void) {
    char link[700], target[16];
    snprintf(link, sizeof link, "%s/link", folder);
    ck_assert_int_eq(readlink(link, target, sizeof target), 5);
    ck_assert_int_eq(files_in(folder), 4);
}

START_TEST(writing) {
    char link[600];
    snprintf(folder, sizeof folder, "%s", test_path("saved"));
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    snprintf(json, sizeof json, "%s/m.json", folder);
    snprintf(npy, sizeof npy, "%s/a.npy", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    ck_assert_int_eq(symlink("a.npy", link), 0);
    ck_assert_int_eq(tenon_load(CASE("cond"), &model), TENON_OK);
    ck_assert_int_eq(tenon_save_json(model, json), TENON_OK);
    ck_assert_int_eq(tenon_npy_save(npy, &array), TENON_OK);
    sweep_life(&(life){.name = "save JSON", .live = save_life, .check = check_saved, .needed = 50});
    sweep_life(
        &(life){.name = "save npy", .live = save_array_life, .check = check_array, .needed = 80});
    sweep_life(&(life){.name = "write a file",
                       .live = write_life,
                       .user = link,
                       .check = check_link,
                       .needed = 60});
    tenon_graph_destroy(&model);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("load_memory");
    TCase *tests = tcase_create("load_memory");
    tcase_set_timeout(tests, 2400); /* the whole sweep takes long */
    tcase_add_test(tests, archives);
    tcase_add_test(tests, json_and_text);
    tcase_add_test(tests, arrays);
    tcase_add_test(tests, writing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
