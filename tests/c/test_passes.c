/* Lists of passes, and passes of the user's own. */
#include "core/graph.h"
#include "pass_test.h"
#include "run_graph.h"

static tenon_passes *default_list(void) {
    tenon_passes *list = NULL;
    OK(tenon_passes_create(&list));
    return list;
}

static char *print(const tenon_graph *graph) {
    char *text = NULL;
    OK(tenon_graph_print(graph, &text));
    return text;
}

/* ---- The list ---- */

static tenon_status count_runs(tenon_pass_call *call) {
    ++*(int *)call->pass->user;
    return TENON_OK;
}

static void note_destroyed(void *user) {
    *(int *)user = -1;
}

START_TEST(lists_insert_and_remove) {
    tenon_passes *list = default_list();
    int runs = 0, count = tenon_passes_count(list);
    tenon_pass pass = {.name = "mine", .run = count_runs, .user = &runs, .destroy = note_destroyed};
    OK(tenon_passes_insert(list, 0, &pass));
    ck_assert_int_eq(tenon_passes_count(list), count + 1);
    ck_assert_str_eq(tenon_passes_get(list, 0)->name, "mine");
    ck_assert_int_eq(tenon_passes_find(list, "mine"), 0);
    FAILS(tenon_passes_insert(list, 0, &pass), TENON_INVALID_ARGUMENT, "in the list already");
    FAILS(tenon_passes_insert(list, count + 2, &pass), TENON_INVALID_ARGUMENT, "already");
    FAILS(tenon_passes_remove(list, "functionalize"), TENON_INVALID_ARGUMENT, "cannot be removed");
    FAILS(tenon_passes_remove(list, "lower_all"), TENON_INVALID_ARGUMENT, "cannot be removed");
    FAILS(tenon_passes_remove(list, "nobody"), TENON_NOT_FOUND, "nobody");
    FAILS(tenon_passes_remove_at(list, count + 1), TENON_NOT_FOUND, "there is no pass");
    tenon_graph *graph =
        parse_graph("graph g { input %x: float32[2]\n  %a = aten.mul.Tensor(%x, 2.0)\n"
                    "  %b = aten.relu_(%a)\n  output \"o\" = %a }");
    OK(tenon_passes_apply_phase(list, TENON_PASS_MODEL, &graph, NULL, 0));
    ck_assert_int_eq(runs, 1);
    char *text = print(graph);
    ck_assert_ptr_null(strstr(text, "relu_")); /* the pinned pass ran before it */
    free(text);
    tenon_graph_destroy(&graph);
    OK(tenon_passes_remove_at(list, 0));
    ck_assert_int_eq(runs, -1);
    ck_assert_int_eq(tenon_passes_find(list, "mine"), -1);
    tenon_passes_destroy(&list);
    ck_assert_ptr_null(list);
    tenon_passes_destroy(&list);
}
END_TEST

START_TEST(a_list_owns_the_user_once_it_has_the_pass) {
    tenon_passes *list = default_list();
    int user = 0;
    tenon_pass pass = {.name = "mine", .run = count_runs, .user = &user, .destroy = note_destroyed};
    pass.after = "layout"; /* against it at index 0 */
    pass.phase = TENON_PASS_SHAPES;
    FAILS(tenon_passes_insert(list, 0, &pass), TENON_INVALID_ARGUMENT, "layout");
    ck_assert_int_eq(user, 0);
    OK(tenon_passes_append(list, &pass));
    tenon_passes_destroy(&list);
    ck_assert_int_eq(user, -1);
}
END_TEST

START_TEST(a_pass_at_the_end_of_its_phase) {
    tenon_passes *list = default_list();
    int runs = 0;
    tenon_pass pass = {.name = "mine", .run = count_runs, .user = &runs};
    OK(tenon_passes_append(list, &pass));
    int at = tenon_passes_find(list, "mine");
    ck_assert_int_eq(tenon_passes_get(list, at - 1)->phase, TENON_PASS_MODEL);
    ck_assert_int_eq(tenon_passes_get(list, at + 1)->phase, TENON_PASS_SHAPES);
    tenon_passes_destroy(&list);
}
END_TEST

START_TEST(passes_without_sense_are_refused) {
    tenon_passes *list = default_list();
    int runs = 0;
    FAILS(tenon_passes_append(list, &(tenon_pass){.name = "mine"}), TENON_INVALID_ARGUMENT,
          "needs a name and a function");
    FAILS(tenon_passes_append(list, &(tenon_pass){.run = count_runs}), TENON_INVALID_ARGUMENT,
          "needs a name and a function");
    FAILS(tenon_passes_append(list, &(tenon_pass){.name = "a b", .run = count_runs}),
          TENON_INVALID_ARGUMENT, "letters, digits");
    FAILS(tenon_passes_append(list, &(tenon_pass){.name = "a", .run = count_runs, .phase = 7}),
          TENON_INVALID_ARGUMENT, "unknown phase 7");
    FAILS(tenon_passes_append(list, &(tenon_pass){.name = "a", .run = count_runs, .after = "x a"}),
          TENON_INVALID_ARGUMENT, "after itself");
    FAILS(tenon_passes_insert(list, -1, &(tenon_pass){.name = "a", .run = count_runs}),
          TENON_INVALID_ARGUMENT, "index -1 is outside");
    static const tenon_pass_option bad[][2] = {{{"a", NULL}, {"b", ""}},
                                               {{"a=b", ""}, {"b", ""}},
                                               {{"", ""}, {"b", ""}},
                                               {{"a", ""}, {"a", ""}}};
    for (int i = 0; i < 4; i++)
        FAILS(tenon_passes_append(list, &(tenon_pass){.name = "a",
                                                      .run = count_runs,
                                                      .options = bad[i],
                                                      .option_count = 2}),
              TENON_INVALID_ARGUMENT, "pass 'a': ");
    FAILS(tenon_passes_append(list, &(tenon_pass){.name = "a", .run = count_runs, .doc = "x\ny"}),
          TENON_INVALID_ARGUMENT, "one line each");
    ck_assert_int_eq(runs, 0);
    tenon_passes_destroy(&list);
}
END_TEST

/* "first" and "second", which must run after it. */
START_TEST(the_order_that_passes_ask_for_is_kept) {
    int runs = 0;
    const tenon_pass first = {.name = "first", .run = count_runs, .user = &runs};
    const tenon_pass second = {
        .name = "second", .run = count_runs, .user = &runs, .after = "other first"};
    tenon_pass last = second;
    last.name = "last";
    last.phase = TENON_PASS_SHAPES;
    tenon_passes *list = NULL;
    OK(tenon_passes_create_minimal(&list));
    OK(tenon_passes_insert(list, 0, &first));
    FAILS(tenon_passes_insert(list, 0, &second), TENON_INVALID_ARGUMENT,
          "'second' must run after 'first'");
    OK(tenon_passes_insert(list, 0, &last)); /* a phase later, wherever it stands */
    OK(tenon_passes_insert(list, 2, &second));
    OK(tenon_passes_remove(list, "first"));
    FAILS(tenon_passes_append(list, &first), TENON_INVALID_ARGUMENT,
          "'second' must run after 'first'");
    OK(tenon_passes_insert(list, 0, &first));
    tenon_passes_destroy(&list);
}
END_TEST

START_TEST(built_in_passes_keep_their_order) {
    tenon_passes *list = default_list();
    tenon_pass attention = *tenon_passes_get(list, tenon_passes_find(list, "attention"));
    const tenon_pass *layout = tenon_passes_get(list, tenon_passes_find(list, "layout"));
    attention.name = "attention"; /* the list's own text goes with its pass */
    attention.doc = "again";
    attention.after = "lower_all";
    ck_assert_ptr_nonnull(strstr(layout->after, "attention"));
    int at = tenon_passes_find(list, "attention");
    OK(tenon_passes_remove(list, "attention"));
    FAILS(tenon_passes_append(list, &attention), TENON_INVALID_ARGUMENT,
          "must run after 'attention', which cannot stand behind it");
    FAILS(tenon_passes_insert(list, tenon_passes_find(list, "lower_all"), &attention),
          TENON_INVALID_ARGUMENT, "'attention' must run after 'lower_all'");
    OK(tenon_passes_insert(list, at, &attention));
    tenon_passes_destroy(&list);
}
END_TEST

START_TEST(options_are_kept_and_set) {
    tenon_passes *list = default_list();
    int runs = 0;
    char key[] = "depth";
    const tenon_pass_option options[] = {{key, "3"}, {"mode", "fast"}};
    tenon_pass pass = {
        .name = "mine", .run = count_runs, .user = &runs, .options = options, .option_count = 2};
    OK(tenon_passes_append(list, &pass));
    key[0] = 'x'; /* what is given is copied */
    const tenon_pass *kept = tenon_passes_get(list, tenon_passes_find(list, "mine"));
    ck_assert_str_eq(tenon_pass_get_option(kept, "depth"), "3");
    OK(tenon_passes_set_option(list, "mine", "depth", "12"));
    ck_assert_str_eq(tenon_pass_get_option(kept, "depth"), "12");
    ck_assert_str_eq(tenon_pass_get_option(kept, "mode"), "fast");
    ck_assert_ptr_null(tenon_pass_get_option(kept, "nothing"));
    FAILS(tenon_passes_set_option(list, "mine", "nothing", "1"), TENON_NOT_FOUND,
          "pass 'mine' has no option 'nothing'; it has depth, mode");
    FAILS(tenon_passes_set_option(list, "layout", "x", "1"), TENON_NOT_FOUND, "it has none");
    FAILS(tenon_passes_set_option(list, "nobody", "x", "1"), TENON_NOT_FOUND, "nobody");
    tenon_passes_destroy(&list);
}
END_TEST

START_TEST(the_list_as_text) {
    tenon_passes *list = default_list();
    char *text = NULL;
    int runs = 0;
    const tenon_pass_option option = {"depth", "3"};
    OK(tenon_passes_insert(list, 0,
                           &(tenon_pass){.name = "mine",
                                         .doc = "counts",
                                         .run = count_runs,
                                         .user = &runs,
                                         .after = "functionalize",
                                         .options = &option,
                                         .option_count = 1}));
    OK(tenon_passes_dump(list, &text));
    const char *pinned = strstr(text, "    -  functionalize"), *mine = strstr(text, "  *  0  mine");
    const char *next = strstr(text, "     1  ");
    ck_assert_msg(pinned && mine && next && pinned < mine && mine < next, "%s", text);
    ck_assert_ptr_nonnull(strstr(mine, "counts [after functionalize] [depth=3]\n"));
    ck_assert_ptr_nonnull(strstr(text, "[pinned]"));
    ck_assert_ptr_nonnull(strstr(text, "[required]"));
    tenon_string_free(text);
    tenon_passes_destroy(&list);
}
END_TEST

/* ---- Running ---- */

static const char two_nodes[] = "graph g { input %x: float32[2]\n  %a = aten.relu(%x)\n"
                                "  %b = aten.neg(%a)\n  output \"o\" = %b }";

static tenon_status break_graph(tenon_pass_call *call) {
    tenon_node *node = tenon_graph_first_node(call->graph);
    node->uses[0].value = node->outputs[0];
    call->changed = true;
    return TENON_OK;
}

static tenon_status give_up(tenon_pass_call *call) {
    tenon_node *node = tenon_graph_first_node(call->graph);
    OK(tenon_value_replace(tenon_node_output(node, 0), tenon_graph_input(call->graph, 0)));
    OK(tenon_node_erase(node));
    return tenon_fail(TENON_UNSUPPORTED, "node '%s' is too %s", "a", "long");
}

START_TEST(a_failing_pass_is_named_and_the_graph_kept) {
    static const struct {
        tenon_pass_fn run;
        tenon_status status;
        const char *message;
    } cases[] = {{break_graph, TENON_INVALID_GRAPH, "pass bad: node 'a'"},
                 {give_up, TENON_UNSUPPORTED, "pass bad: node 'a' is too long"}};
    for (int i = 0; i < TN_COUNT(cases); i++) {
        tenon_passes *list = default_list();
        OK(tenon_passes_insert(list, 0, &(tenon_pass){.name = "bad", .run = cases[i].run}));
        tenon_graph *graph = parse_graph(two_nodes);
        char *before = print(graph);
        FAILS(tenon_passes_apply(list, &graph, NULL, 0), cases[i].status, cases[i].message);
        OK(tenon_graph_verify(graph));
        char *after = print(graph);
        ck_assert_str_eq(after, before);
        free(before);
        free(after);
        tenon_graph_destroy(&graph);
        tenon_passes_destroy(&list);
    }
}
END_TEST

START_TEST(a_failing_pass_fails_the_session) {
    tenon_passes *list = default_list();
    tenon_session *session = NULL;
    OK(tenon_passes_insert(list, 0, &(tenon_pass){.name = "bad", .run = give_up}));
    tenon_graph *graph = parse_graph(two_nodes);
    FAILS(tenon_session_create(graph, &(tenon_session_options){.passes = list}, &session),
          TENON_UNSUPPORTED, "pass bad");
    ck_assert_ptr_null(session);
    tenon_graph_destroy(&graph);
    tenon_passes_destroy(&list);
}
END_TEST

/* Builds relu(relu(x)) anew, in another graph. */
static tenon_status hand_back(tenon_pass_call *call) {
    const char *text = call->pass->user;
    if (tenon_graph_parse(text, "handed back", &call->graph) != TENON_OK)
        return TENON_INVALID_GRAPH;
    return TENON_OK;
}

START_TEST(a_pass_may_hand_back_another_graph) {
    tenon_passes *list = default_list();
    char text[] = "graph h { input %x: float32[2]\n  %c = aten.relu(%x)\n  %d = aten.exp(%c)\n"
                  "  output \"o\" = %d }";
    OK(tenon_passes_insert(list, 0,
                           &(tenon_pass){.name = "other", .run = hand_back, .user = text}));
    tenon_graph *graph = parse_graph(two_nodes);
    tenon_session *session = NULL;
    OK(tenon_session_create(graph, &(tenon_session_options){.passes = list}, &session));
    tenon_plan_info plan;
    OK(tenon_session_get_plan(session, &plan));
    tenon_pass_record record;
    ck_assert(tenon_graph_record(plan.graph, 0, &record));
    ck_assert_str_eq(record.name, "other");
    ck_assert_int_eq(record.removed_count, 2);
    ck_assert_int_eq(record.added_count, 2);
    ck_assert_str_eq(record.removed[1], "b (aten.neg)");
    ck_assert_str_eq(record.added[1], "d (aten.exp)");
    ck_assert_int_eq(tenon_graph_node_count(plan.graph), 2);
    tenon_session_destroy(&session);

    OK(tenon_passes_apply(list, &graph, NULL, 0));
    ck_assert_str_eq(tenon_graph_name(graph), "h");
    tenon_graph_destroy(&graph);
    tenon_passes_destroy(&list);
}
END_TEST

START_TEST(another_graph_must_take_the_same_inputs) {
    static const char *const texts[][2] = {
        {"graph h { input %x: float32[2]\n  output \"o\" = %x\n  output \"p\" = %x }",
         "1 inputs and 2 outputs, not 1 and 1"},
        {"graph h { input %y: float32[2]\n  output \"o\" = %y }", "'y', has another name than 'x'"},
        {"graph h { input %x: float64[2]\n  output \"o\" = %x }",
         "'x', has another dtype than 'x'"},
        {"graph h { input %x: float32[4000]\n  output \"o\" = %x }", "another size"},
        {"graph h { input %x: float32[s0]\n  output \"o\" = %x }", "another size"},
        {"graph h { input %x: float32[2, 1]\n  output \"o\" = %x }", "another rank"}};
    for (int i = 0; i < TN_COUNT(texts); i++) {
        tenon_passes *list = default_list();
        OK(tenon_passes_insert(
            list, 0,
            &(tenon_pass){.name = "other", .run = hand_back, .user = (void *)texts[i][0]}));
        tenon_graph *graph = parse_graph(two_nodes);
        FAILS(tenon_passes_apply(list, &graph, NULL, 0), TENON_INVALID_GRAPH, texts[i][1]);
        ck_assert_str_eq(tenon_graph_name(graph), "g");
        tenon_graph_destroy(&graph);
        tenon_passes_destroy(&list);
    }
}
END_TEST

/* Passes that edit without saying so, or what they must not. */
static tenon_status forget_to_say(tenon_pass_call *call) {
    OK(tenon_node_move(tenon_graph_first_node(call->graph), NULL));
    return TENON_OK;
}

static tenon_status add_input(tenon_pass_call *call) {
    return tenon_graph_add_input(call->graph, "more", TENON_FLOAT32, 1, (const char *[]){"2"},
                                 NULL);
}

static tenon_status add_output(tenon_pass_call *call) {
    return tenon_graph_add_output(call->graph, "more",
                                  tenon_arg_value(tenon_graph_input(call->graph, 0)));
}

static tenon_status insert_in_place(tenon_pass_call *call) {
    tenon_node *last = tenon_graph_last_node(call->graph), *made;
    tenon_arg x = tenon_arg_value(tenon_node_output(last, 0));
    return tenon_graph_insert_node_after(last, "aten.relu_", NULL, &x, 1, &made);
}

static tenon_status say_nothing(tenon_pass_call *call) {
    (void)call;
    return TENON_UNSUPPORTED;
}

static tenon_status replace_and_fail(tenon_pass_call *call) {
    OK(tenon_graph_create("lost", &call->graph)); /* which Tenon then owns */
    return tenon_fail(TENON_UNSUPPORTED, "not today");
}

static tenon_status add_buffer(tenon_pass_call *call) {
    tenon_tensor *tensor = NULL;
    OK(tenon_tensor_create(TENON_FLOAT32, 0, NULL, &tensor));
    tenon_status status = tenon_graph_add_buffer(call->graph, "more", tensor, NULL);
    tenon_tensor_destroy(&tensor);
    return status;
}

START_TEST(faults_of_passes_are_found_right_behind_them) {
    static const struct {
        tenon_pass_fn run;
        tenon_status status;
        const char *message;
        bool shapes_only;
    } cases[] = {
        {forget_to_say, TENON_INVALID_GRAPH, "pass bad: node 'b' (aten.neg): uses, before it",
         false},
        {add_input, TENON_INVALID_GRAPH, "pass bad: it leaves a graph with 2 inputs and 1", false},
        {add_output, TENON_INVALID_GRAPH, "pass bad: it leaves a graph with 1 inputs and 2", false},
        {insert_in_place, TENON_INVALID_GRAPH, "(aten.relu_): passes leave no in-place ops", false},
        {say_nothing, TENON_UNSUPPORTED, "it returned 'unsupported' without a message", false},
        {replace_and_fail, TENON_UNSUPPORTED, "pass bad: not today", false},
        {add_buffer, TENON_INVALID_GRAPH, "pass bad: it adds a buffer", true}};
    for (int i = 0; i < 2 * TN_COUNT(cases); i++) {
        tenon_pass_phase phase = i % 2 ? TENON_PASS_SHAPES : TENON_PASS_MODEL;
        if (cases[i / 2].shapes_only && phase == TENON_PASS_MODEL)
            continue;
        tenon_passes *list = default_list();
        tenon_session *session = NULL;
        OK(tenon_passes_append(
            list, &(tenon_pass){.name = "bad", .phase = phase, .run = cases[i / 2].run}));
        tenon_graph *graph = parse_graph(two_nodes);
        FAILS(tenon_session_create(graph, &(tenon_session_options){.passes = list}, &session),
              cases[i / 2].status, cases[i / 2].message);
        FAILS(tenon_passes_apply(list, &graph, NULL, 0), cases[i / 2].status, cases[i / 2].message);
        OK(tenon_graph_verify(graph));
        ck_assert_int_eq(tenon_graph_node_count(graph), 2);
        tenon_graph_destroy(&graph);
        tenon_passes_destroy(&list);
    }
}
END_TEST

/* Keeps what it was given. */
static tenon_status keep_samples(tenon_pass_call *call) {
    tenon_view *kept = call->pass->user;
    ck_assert_int_eq(call->sample_count, 2);
    memcpy(kept, call->samples, 2 * sizeof *kept);
    return TENON_OK;
}

START_TEST(passes_see_samples) {
    tenon_passes *list = default_list();
    tenon_session *session = NULL;
    tenon_view model[2], shapes[2];
    float numbers[6] = {0};
    const int64_t sizes[2] = {2, 3};
    tenon_graph *graph = parse_graph("graph g { symbol s0 in [1, 9]\n input %x: float32[s0, 3]\n"
                                     " input %y: int64[4]\n %a = aten.neg(%x)\n"
                                     " output \"o\" = %a\n output \"y\" = %y }");
    OK(tenon_passes_append(list,
                           &(tenon_pass){.name = "first", .run = keep_samples, .user = model}));
    OK(tenon_passes_append(list, &(tenon_pass){.name = "second",
                                               .phase = TENON_PASS_SHAPES,
                                               .run = keep_samples,
                                               .user = shapes}));
    OK(tenon_session_create(graph, &(tenon_session_options){.passes = list}, &session));
    ck_assert_int_eq(model[0].dtype, TENON_FLOAT32);
    ck_assert_int_eq(model[0].shape[0], -1);
    ck_assert_int_eq(model[0].shape[1], 3);
    ck_assert_ptr_null(model[0].data);
    const tenon_view inputs[2] = {tn_view_make(numbers, TENON_FLOAT32, 2, sizes),
                                  {.dtype = TENON_INT64, .rank = 1, .shape = {4}}};
    OK(tenon_session_compile(session, inputs, 2));
    ck_assert_int_eq(shapes[0].shape[0], 2);
    ck_assert_ptr_eq(shapes[0].data, numbers);
    tenon_session_destroy(&session);

    FAILS(tenon_passes_apply(list, &graph, NULL, 0), TENON_INVALID_ARGUMENT, "samples");
    tenon_view wrong[2] = {inputs[0], inputs[1]};
    wrong[1].shape[0] = 5;
    memset(model, 0, sizeof model);
    FAILS(tenon_passes_apply(list, &graph, wrong, 2), TENON_INPUT_MISMATCH, "'y'");
    ck_assert_int_eq(model[0].dtype, TENON_DTYPE_NONE); /* no pass ran */
    FAILS(tenon_passes_apply_phase(list, (tenon_pass_phase)9, &graph, inputs, 2),
          TENON_INVALID_ARGUMENT, "no phase 9");
    FAILS(tenon_passes_apply(list, &graph, inputs, 1), TENON_INVALID_ARGUMENT,
          "has 2 inputs, and 1 samples");
    OK(tenon_passes_apply(list, &graph, inputs, 2));
    ck_assert_int_eq(tenon_value_size(tenon_graph_input(graph, 0), 0), 2);
    tenon_graph_destroy(&graph);
    tenon_passes_destroy(&list);
}
END_TEST

START_TEST(the_shapes_phase_needs_bound_symbols) {
    tenon_passes *list = default_list();
    tenon_graph *graph = parse_graph("graph g { input %x: float32[s0]\n  output \"o\" = %x }");
    FAILS(tenon_passes_apply_phase(list, TENON_PASS_SHAPES, &graph, NULL, 0),
          TENON_INVALID_ARGUMENT, "without symbols");
    tenon_graph_destroy(&graph);
    tenon_passes_destroy(&list);
}
END_TEST

/* Puts an unused node, and a node of another shape in the place of %a. */
static tenon_status widen(tenon_pass_call *call) {
    tenon_node *neg = tenon_node_next(tenon_graph_first_node(call->graph)), *cat = NULL;
    tenon_value *a = tenon_node_output(tenon_node_previous(neg), 0);
    tenon_arg items[2] = {tenon_arg_value(a), tenon_arg_value(a)}, list = tenon_arg_list(items, 2);
    OK(tenon_graph_insert_node(neg, "aten.exp", "unused", items, 1, &cat));
    OK(tenon_graph_insert_node(neg, "aten.cat", "wide", &list, 1, &cat));
    tenon_arg wide = tenon_arg_value(tenon_node_output(cat, 0));
    OK(tn_node_set_arg(neg, 0, &wide));
    call->changed = true;
    return TENON_OK;
}

START_TEST(shapes_are_inferred_and_dead_nodes_removed_if_asked) {
    for (int dead = 0; dead < 2; dead++) {
        tenon_passes *list = NULL;
        OK(tenon_passes_create_minimal(&list));
        OK(tenon_passes_append(
            list, &(tenon_pass){.name = "widen", .run = widen, .remove_dead = dead == 1}));
        tenon_graph *graph = parse_graph(two_nodes);
        OK(tenon_passes_apply_phase(list, TENON_PASS_MODEL, &graph, NULL, 0));
        ck_assert_int_eq(tenon_value_size(tenon_graph_find_value(graph, "b"), 0), 4);
        ck_assert_int_eq(tenon_graph_find_value(graph, "unused") == NULL, dead);
        tenon_graph_destroy(&graph);
        tenon_passes_destroy(&list);
    }
}
END_TEST

/* ---- What is logged, recorded and drawn ---- */

static char logged[1 << 16];

static void take_message(tenon_log_level level, const char *message, void *user) {
    (void)level, (void)user;
    size_t length = strlen(logged);
    snprintf(logged + length, sizeof logged - length, "%s\n", message);
}

static tenon_status replace_relu(tenon_pass_call *call) {
    tenon_node *relu = tenon_graph_first_node(call->graph), *made = NULL;
    tenon_arg x = tenon_node_arg(relu, 0);
    OK(tenon_graph_insert_node(relu, "aten.sigmoid", "s", &x, 1, &made));
    OK(tenon_value_replace(tenon_node_output(relu, 0), tenon_node_output(made, 0)));
    call->changed = true;
    return TENON_OK;
}

static tenon_passes *list_with_replacement(void) {
    tenon_passes *list = NULL;
    OK(tenon_passes_create_minimal(&list));
    OK(tenon_passes_append(
        list, &(tenon_pass){.name = "soften", .run = replace_relu, .remove_dead = true}));
    return list;
}

START_TEST(the_log_shows_the_difference) {
    tenon_passes *list = list_with_replacement();
    tenon_graph *graph = parse_graph(two_nodes);
    tenon_log_set(TENON_LOG_TRACE, take_message, NULL);
    OK(tenon_passes_apply(list, &graph, NULL, 0));
    tenon_log_set(TENON_LOG_WARN, NULL, NULL);
    ck_assert_msg(strstr(logged, "pass soften: changed, 2 -> 2 nodes") != NULL, "%s", logged);
    ck_assert_msg(strstr(logged, "after pass soften:\n  graph \"g\" {\n") != NULL, "%s", logged);
    ck_assert_msg(strstr(logged, "\n-   %a: float32[2] = aten.relu(%x)\n") != NULL, "%s", logged);
    ck_assert_msg(strstr(logged, "\n+   %s: float32[2] = aten.sigmoid(%x)\n") != NULL, "%s",
                  logged);
    ck_assert_msg(strstr(logged, "\n-   %b: float32[2] = aten.neg(%a)\n") != NULL, "%s", logged);
    ck_assert_ptr_null(strstr(logged, "after pass lower")); /* it changed nothing */
    tenon_graph_destroy(&graph);
    tenon_passes_destroy(&list);
}
END_TEST

START_TEST(records_tell_what_passes_did) {
    tenon_passes *list = list_with_replacement();
    tenon_graph *graph = parse_graph(two_nodes), *copy = NULL;
    tenon_pass_record record;
    ck_assert_int_eq(tenon_graph_record_count(graph), 0);
    OK(tenon_passes_apply(list, &graph, NULL, 0));
    OK(tenon_graph_clone(graph, &copy));
    tenon_graph_destroy(&graph);
    ck_assert_int_eq(tenon_graph_record_count(copy), 1);
    ck_assert(tenon_graph_record(copy, 0, &record));
    ck_assert(!tenon_graph_record(copy, 1, &record));
    ck_assert(!tenon_graph_record(copy, -1, &record));
    ck_assert_str_eq(record.name, "soften");
    ck_assert_int_eq(record.phase, TENON_PASS_MODEL);
    ck_assert_int_eq(record.nodes_before, 2);
    ck_assert_int_eq(record.nodes_after, 2);
    ck_assert_int_eq(record.removed_count, 1);
    ck_assert_int_eq(record.added_count, 1);
    ck_assert_str_eq(record.removed[0], "a (aten.relu)");
    ck_assert_str_eq(record.added[0], "s (aten.sigmoid)");
    tenon_graph_destroy(&copy);
    tenon_passes_destroy(&list);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("passes");
    TCase *tests = tcase_create("list");
    tcase_add_test(tests, lists_insert_and_remove);
    tcase_add_test(tests, a_list_owns_the_user_once_it_has_the_pass);
    tcase_add_test(tests, a_pass_at_the_end_of_its_phase);
    tcase_add_test(tests, passes_without_sense_are_refused);
    tcase_add_test(tests, the_order_that_passes_ask_for_is_kept);
    tcase_add_test(tests, built_in_passes_keep_their_order);
    tcase_add_test(tests, options_are_kept_and_set);
    tcase_add_test(tests, the_list_as_text);
    suite_add_tcase(suite, tests);
    tests = tcase_create("run");
    tcase_add_test(tests, a_failing_pass_is_named_and_the_graph_kept);
    tcase_add_test(tests, a_failing_pass_fails_the_session);
    tcase_add_test(tests, a_pass_may_hand_back_another_graph);
    tcase_add_test(tests, another_graph_must_take_the_same_inputs);
    tcase_add_test(tests, faults_of_passes_are_found_right_behind_them);
    tcase_add_test(tests, passes_see_samples);
    tcase_add_test(tests, the_shapes_phase_needs_bound_symbols);
    tcase_add_test(tests, shapes_are_inferred_and_dead_nodes_removed_if_asked);
    tcase_add_test(tests, the_log_shows_the_difference);
    tcase_add_test(tests, records_tell_what_passes_did);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
