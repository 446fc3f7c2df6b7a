/* Plugins, the passes of examples/passes, and the options of the command that change passes.
 * PLUGINS and EXAMPLE_PASSES are the folders of the shared objects. */
#include "command.h"
#include "run_graph.h"

#define PLUGIN(name) "--pass-plugin " EXAMPLE_PASSES "/" name ".so "

static void set_up(void) {
    make_directory();
    write_file("m.txt", "graph m {\n"
                        "  symbol s0 in [1, 8]\n"
                        "  input %x: float32[s0, 3]\n"
                        "  %m = aten.mul.Tensor(%x, 1.702)\n"
                        "  %s = aten.sigmoid(%m)\n"
                        "  %y = aten.mul.Tensor(%s, %x)\n"
                        "  %r = aten.relu(%y)\n"
                        "  output \"y\" = %r\n"
                        "  output \"same\" = %x\n"
                        "}\n");
    write_file("q.txt", "graph q {\n"
                        "  input %x: float32[2, 3]\n"
                        "  %y = example.quick_gelu(%x, beta=1.702)\n"
                        "  output \"y\" = %y\n"
                        "}\n");
}

static tenon_passes *default_list(void) {
    tenon_passes *passes = NULL;
    OK(tenon_passes_create(&passes));
    return passes;
}

/* ---- Loading ---- */

START_TEST(plugins_add_to_the_list) {
    tenon_passes *passes = default_list();
    OK(tenon_plugin_load(EXAMPLE_PASSES "/quick_gelu.so", passes));
    ck_assert_int_eq(tenon_passes_find(passes, "quick_gelu"), 0);
    tenon_op_info info;
    ck_assert(tenon_op_find("example.quick_gelu", &info));
    /* again: the op is the same, the pass is there already */
    FAILS(tenon_plugin_load(EXAMPLE_PASSES "/quick_gelu.so", passes), TENON_INVALID_ARGUMENT,
          "plugin 'quick_gelu': pass 'quick_gelu': a pass of that name is in the list");
    tenon_passes_destroy(&passes);
    passes = default_list();
    OK(tenon_plugin_load(EXAMPLE_PASSES "/quick_gelu.so", passes)); /* into another list */
    tenon_passes_destroy(&passes);
}
END_TEST

START_TEST(other_shared_objects_are_refused) {
    tenon_passes *passes = default_list();
    int count = tenon_passes_count(passes);
    FAILS(tenon_plugin_load(PLUGINS "/old_version.so", passes), TENON_UNSUPPORTED,
          "version 42 of the plugin interface, this library has version 1");
    FAILS(tenon_plugin_load(PLUGINS "/no_entry.so", passes), TENON_INVALID_FILE,
          "no entry point tenon_plugin_entry");
    FAILS(tenon_plugin_load(PLUGINS "/nothing.so", passes), TENON_INVALID_FILE, "nothing.so");
    FAILS(tenon_plugin_load(TEST_DATA "/partitions.json", passes), TENON_INVALID_FILE,
          "partitions.json");
    FAILS(tenon_plugin_load(PLUGINS "/failing.so", passes), TENON_NOT_FOUND,
          "plugin 'failing': no pass is named 'nobody'");
    ck_assert_int_eq(tenon_passes_count(passes), count);
    tenon_passes_destroy(&passes);
}
END_TEST

/* ---- The examples ---- */

START_TEST(input_as_output_is_repaired) {
    WORKS_LOUDLY("passes m.txt --dim s0=2 " PLUGIN("repair_input_as_output"),
                 "after repair_input_as_output:\n");
    SAYS(err, "%clone = aten.clone(%x)\n");
    SAYS(out, "%clone: float32[2, 3] = aten.clone(%x)\n");
    SAYS(out, "output \"same\" = %clone\n");
    /* nothing to do, nothing said */
    WORKS("passes q.txt " PLUGIN("quick_gelu") PLUGIN("repair_input_as_output"));
}
END_TEST

START_TEST(quick_gelu_is_found_and_computed) {
    WORKS_LOUDLY("passes m.txt --dim s0=2 " PLUGIN("quick_gelu"), "quick_gelu");
    SAYS(out, "%y: float32[2, 3] = example.quick_gelu(%x)\n");
    ck_assert_ptr_null(strstr(out, "sigmoid"));
    /* the same numbers with the op and without it */
    WORKS("run m.txt --dim s0=5 --random 7 --output made");
    WORKS("run m.txt --dim s0=5 --random 7 --tolerance 1e-6 --expect y=made/y.npy " PLUGIN(
        "quick_gelu"));
    WORKS("run q.txt --random 7 " PLUGIN("quick_gelu"));
    WORKS("info q.txt " PLUGIN("quick_gelu"));
    SAYS(out, "example.quick_gelu");
    REFUSES("run q.txt --random 7", 1, "example.quick_gelu");
    WORKS("ops quick_gelu --schema " PLUGIN("quick_gelu"));
    SAYS(out, "example::quick_gelu(Tensor self, float beta=1.702) -> Tensor");
    WORKS_LOUDLY("run q.txt --random 7 --precision bf16 " PLUGIN("quick_gelu"), "");
    /* other patterns stay */
    write_file("n.txt", "graph n {\n  input %x: float32[2, 3]\n  %m = aten.mul.Tensor(%x, 1.5)\n"
                        "  %s = aten.sigmoid(%m)\n  %y = aten.mul.Tensor(%s, %m)\n"
                        "  output \"y\" = %y\n}\n");
    WORKS("run n.txt --random 7 " PLUGIN("quick_gelu"));
    write_file("b.txt", "graph b {\n  input %x: float32[2, 3]\n  %m = aten.mul.Tensor(%x, true)\n"
                        "  %s = aten.sigmoid(%m)\n  %y = aten.mul.Tensor(%s, %x)\n"
                        "  output \"y\" = %y\n}\n");
    WORKS("run b.txt --random 7 " PLUGIN("quick_gelu"));
    write_file("d.txt", "graph d {\n  input %x: float64[2, 3]\n  %m = aten.mul.Tensor(%x, 1.702)\n"
                        "  %s = aten.sigmoid(%m)\n  %y = aten.mul.Tensor(%s, %x)\n"
                        "  output \"y\" = %y\n}\n");
    WORKS("run d.txt --random 7 " PLUGIN("quick_gelu"));
}
END_TEST

START_TEST(nodes_are_counted) {
    WORKS_LOUDLY("run m.txt --dim s0=2 --random 7 " PLUGIN("quick_gelu")
                     PLUGIN("count_ops") "--pass-option count_ops.op=aten.relu",
                 "count_ops: 1 nodes of aten.relu in 1 graphs\n");
    WORKS_LOUDLY("run m.txt --dim s0=2 --random 7 " PLUGIN("quick_gelu") PLUGIN("count_ops"),
                 " nodes in 1 graphs\n");
}
END_TEST

/* ---- Options ---- */

START_TEST(the_list_is_printed) {
    WORKS_LOUDLY("passes " PLUGIN("count_ops"), "count_ops: 0 nodes in 0 graphs");
    SAYS(out, "functionalize");
    SAYS(out, "  * ");
    SAYS(out, "counts the nodes that are left [op=]\n");
    WORKS("passes --remove-pass norms");
    ck_assert_ptr_null(strstr(out, "rms norm are found"));
}
END_TEST

START_TEST(pass_options_are_checked) {
    REFUSES("passes --remove-pass nobody", 2, "--remove-pass: no pass is named 'nobody'");
    REFUSES("passes --remove-pass lower_all", 2, "cannot be removed");
    REFUSES("passes --pass-plugin " PLUGINS "/old_version.so", 1, "compile it again");
    REFUSES("passes --pass-plugin here.so", 1, "./here.so");
    REFUSES("passes --pass-option layout", 2, "--pass-option: 'layout' has no '='");
    REFUSES("passes --pass-option layout=1", 2, "--pass-option: 'layout' is not PASS.KEY");
    REFUSES("passes --pass-option layout.a=1", 2, "pass 'layout' has no option 'a'");
    REFUSES("passes --draw-after nobody=x.svg", 2, "no pass is named 'nobody'");
    REFUSES("passes --draw-before functionalize=x.svg", 2, "nothing goes before it");
    REFUSES("passes m.txt", 2, "--dim SYMBOL=N");
    REFUSES("run m.txt --dim s0=2 --random 1 --draw-after layout=none/x.svg", 1,
            "none/x.svg: cannot be written");
}
END_TEST

/* With Graphviz an SVG, without it (an empty PATH) the text form. */
START_TEST(graphs_are_drawn) {
    WORKS("run m.txt --dim s0=2 --random 1 --draw-after functionalize=a.svg "
          "--draw-before layout=b.svg");
    read_file("a.svg", out, sizeof out);
    bool drawn = strstr(out, "<svg") != NULL;
    SAYS(out, drawn ? "aten.sigmoid" : "= aten.sigmoid(%m)");
    read_file("b.svg", out, sizeof out);
    SAYS(out, drawn ? "aten.relu" : "= aten.relu(");
    char path[4096];
    snprintf(path, sizeof path, "%s", getenv("PATH"));
    ck_assert_int_eq(setenv("PATH", "/nowhere", 1), 0);
    tenon_graph *graph = NULL;
    snprintf(err, sizeof err, "%s/m.txt", directory);
    OK(tenon_load(err, &graph));
    snprintf(err, sizeof err, "%s/c.svg", directory);
    tenon_log_set(TENON_LOG_ERROR, NULL, NULL);
    OK(tenon_graph_draw(graph, err));
    ck_assert_int_eq(setenv("PATH", path, 1), 0);
    tenon_graph_destroy(&graph);
    read_file("c.svg", out, sizeof out);
    SAYS(out, "%s = aten.sigmoid(%m)");
    ck_assert_ptr_null(strstr(out, "<svg"));
}
END_TEST

START_TEST(dot_quotes_what_names_hold) {
    tenon_graph *graph = NULL;
    char *dot = NULL;
    OK(tenon_graph_parse("graph \"a \\\"q\\\"\" {\n  input %\"x\\\\\\n\": float32[s0, 3]\n"
                         "  const %w: float32[3] = ones\n  buffer %b: float32[3] = ones\n"
                         "  %m = aten.mul.Tensor(%\"x\\\\\\n\", %w)\n  %s = aten.relu(%m)\n"
                         "  write %b <- %w\n  output \"y\" = %s\n  output \"w\" = %w\n}",
                         "test", &graph));
    OK(tenon_graph_dot(graph, &dot));
    SAYS(dot, "digraph \"a \\\"q\\\"\" {");
    SAYS(dot, "n0 [label=\"aten.mul.Tensor\\nm\\n");
    SAYS(dot, "w float32[3]\"];");
    SAYS(dot, "i0 [shape=oval, fillcolor=\"#eeeeee\", label=\"x\\\\\\n\\nfloat32[s0, 3]\"];");
    SAYS(dot, "i0 -> n0 [tooltip=\"x\\\\\\n\"];");
    SAYS(dot, "n0 -> n1 [tooltip=\"m\"];");
    SAYS(dot, "n1 -> o0;");
    ck_assert_ptr_null(strstr(dot, "-> b1")); /* a constant has no place in the drawing */
    tenon_string_free(dot);
    tenon_graph_destroy(&graph);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("plugin");
    TCase *tests = tcase_create("plugins");
    tcase_add_unchecked_fixture(tests, set_up, remove_directory);
    tcase_add_test(tests, plugins_add_to_the_list);
    tcase_add_test(tests, other_shared_objects_are_refused);
    tcase_add_test(tests, input_as_output_is_repaired);
    tcase_add_test(tests, quick_gelu_is_found_and_computed);
    tcase_add_test(tests, nodes_are_counted);
    tcase_add_test(tests, the_list_is_printed);
    tcase_add_test(tests, pass_options_are_checked);
    tcase_add_test(tests, graphs_are_drawn);
    tcase_add_test(tests, dot_quotes_what_names_hold);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
