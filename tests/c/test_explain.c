/* What sessions tell of their plans, against numbers computed by hand. */
#include "random_graph.h"
#include "run_graph.h"

#define G(body) "graph g {\n" body "}\n"
#define IN(name, type) "input %" name ": " type "\n"
#define OUT(name) "output \"" name "\" = %" name "\n"
#define WEIGHT(w, shape) "const %" w ": float32[" shape "] = random(7, -0.3, 0.3)\n"

static tenon_session *make(const char *text, const tenon_session_options *options) {
    tenon_graph *graph = parse_graph(text);
    tenon_session *session = NULL;
    OK(tenon_session_create(graph, options, &session));
    tenon_graph_destroy(&graph);
    return session;
}

static tenon_step_info step_at(const tenon_session *session, int index) {
    tenon_step_info step = {0};
    OK(tenon_session_get_step(session, index, &step));
    return step;
}

static tenon_operand_info operand_at(const tenon_session *session, int step, int index) {
    tenon_operand_info operand = {0};
    OK(tenon_session_get_operand(session, step, index, &operand));
    return operand;
}

/* About the node that makes the value of that name. */
static tenon_node_info node_of(const tenon_session *session, const char *value) {
    tenon_plan_info plan;
    tenon_node_info info = {0};
    OK(tenon_session_get_plan(session, &plan));
    const tenon_value *found = tenon_graph_find_value(plan.graph, value);
    ck_assert_msg(found && tenon_value_node(found), "the plan has no value '%s'", value);
    OK(tenon_session_get_node(session, tenon_value_node(found), &info));
    return info;
}

START_TEST(reasons_have_text_and_advice) {
    for (int i = TENON_REASON_NONE + 1; i < TENON_REASON_COUNT; i++) {
        const char *text = tenon_reason_text((tenon_reason)i);
        ck_assert_str_ne(text, "none");
        ck_assert_str_ne(tenon_reason_advice((tenon_reason)i), "");
        for (int j = TENON_REASON_NONE + 1; j < i; j++)
            ck_assert_str_ne(text, tenon_reason_text((tenon_reason)j));
    }
    ck_assert_str_eq(tenon_reason_text(TENON_REASON_SECOND_USE), "second-use");
    ck_assert_str_eq(tenon_reason_text(TENON_REASON_NONE), "none");
    ck_assert_str_eq(tenon_reason_text(TENON_REASON_COUNT), "none");
    ck_assert_str_eq(tenon_reason_advice(TENON_REASON_NONE), "");
}
END_TEST

static const char convolution[] =
    G(IN("x", "float32[1, 16, 8, 8]") WEIGHT("w", "24, 16, 3, 3")
          WEIGHT("b", "24") "%y = aten.convolution(%x, %w, %b, [1, 1], [1, 1], [1, 1], false, "
                            "[0, 0], 1)\n%z = aten.relu(%y)\n" OUT("z"));

/* 1*24*8*8 = 1536 results of 16*3*3 = 144 taps, and a ReLU each. */
START_TEST(a_convolution_and_its_relu) {
    tenon_session *session = make_session(convolution, TENON_BACKEND_ONEDNN);
    tenon_plan_info plan;
    OK(tenon_session_get_plan(session, &plan));
    ck_assert_int_eq(plan.partition_count, 2); /* and a copy of what lies channels-last */
    tenon_step_info step = step_at(session, 0);
    ck_assert_int_eq(step.kind, TENON_STEP_ONEDNN);
    ck_assert_str_eq(step.fused, "Convolution+ReLU");
    ck_assert_int_eq(step.node_count, 2);
    ck_assert_int_eq(step.reason_kind, TENON_REASON_START);
    ck_assert_int_eq(step.boundary_count, 0);
    ck_assert_int_eq(step.read_bytes, 4 * (1 * 16 * 8 * 8 + 24 * 144 + 24));
    ck_assert_int_eq(step.weight_bytes, 4 * (24 * 144 + 24));
    ck_assert_int_eq(step.written_bytes, 4 * 1536);
    ck_assert(step.flops == 2.0 * 1536 * 144 + 1536);
    ck_assert_int_eq(step.input_count, 3);
    ck_assert_int_eq(step.output_count, 1);
    int64_t bytes = 0;
    for (int i = 0; i < 4; i++) {
        tenon_operand_info operand = operand_at(session, 0, i);
        bytes += operand.bytes;
        ck_assert_int_eq(operand.view.dtype, TENON_FLOAT32);
        ck_assert_ptr_null(operand.view.data);
        ck_assert(operand.constant ==
                  (tenon_value_get_kind(operand.value) == TENON_VALUE_CONSTANT));
        ck_assert_int_eq(operand.from_step, i == 3 ? 0 : -1);
    }
    ck_assert_int_eq(bytes, step.read_bytes + step.written_bytes);
    ck_assert_str_eq(operand_at(session, 0, 3).layout, "channels-last");
    ck_assert_str_eq(step_at(session, 1).fused, "Reorder");
    ck_assert_int_eq(step_at(session, 1).reason_kind, TENON_REASON_OUTPUT_COPY);
    ck_assert_int_eq(operand_at(session, 1, 0).from_step, 0);
    tenon_node_info conv = node_of(session, "y"), relu = node_of(session, "z");
    ck_assert_int_eq(conv.step, 0);
    ck_assert_int_eq(conv.reason_kind, TENON_REASON_START);
    ck_assert_int_eq(relu.step, 0);
    ck_assert_int_eq(relu.reason_kind, TENON_REASON_FUSED);
    ck_assert(relu.flops == 1536);
    tenon_session_destroy(&session);
}
END_TEST

START_TEST(a_chain_of_products) {
    tenon_session *session = make_session(
        G(IN("x", "float32[8, 64]") WEIGHT("w", "32, 64")
              WEIGHT("v", "16, 32") "%a = aten.linear(%x, %w)\n%b = aten.relu(%a)\n"
                                    "%c = aten.linear(%b, %v)\n%d = aten.sin(%c)\n" OUT("d")),
        TENON_BACKEND_ONEDNN);
    tenon_boundary_info boundary;
    ck_assert_str_eq(step_at(session, 0).fused, "MatMul+ReLU");
    ck_assert(step_at(session, 0).flops == 2.0 * 8 * 32 * 64 + 8 * 32);
    ck_assert_str_eq(step_at(session, 1).fused, "MatMul");
    ck_assert(step_at(session, 1).flops == 2.0 * 8 * 16 * 32);
    ck_assert_int_eq(step_at(session, 1).boundary_count, 1);
    OK(tenon_session_get_boundary(session, 1, 0, &boundary));
    ck_assert_str_eq(tenon_value_name(boundary.value), "b");
    ck_assert_int_eq(boundary.from_step, 0);
    ck_assert_int_eq(boundary.reason_kind, TENON_REASON_NO_PATTERN);
    ck_assert_str_eq(boundary.reason, step_at(session, 1).reason);
    ck_assert_int_eq(step_at(session, 2).kind, TENON_STEP_KERNEL);
    ck_assert_int_eq(step_at(session, 2).reason_kind, TENON_REASON_NOT_IN_OP_SET);
    OK(tenon_session_get_boundary(session, 2, 0, &boundary));
    ck_assert_int_eq(boundary.from_step, 1);
    ck_assert_int_eq(boundary.reason_kind, TENON_REASON_NOT_IN_OP_SET);
    FAILS(tenon_session_get_boundary(session, 2, 1, &boundary), TENON_INVALID_ARGUMENT,
          "no boundary 1 of 1");
    tenon_operand_info operand;
    FAILS(tenon_session_get_operand(session, 2, 2, &operand), TENON_INVALID_ARGUMENT,
          "no operand 2 of 2");
    tenon_session_destroy(&session);
}
END_TEST

/* All operands of a partition count, not only the first op's. */
START_TEST(boundaries_of_later_operands) {
    tenon_session *session =
        make_session(G(IN("x", "float32[8, 64]")
                           WEIGHT("w", "64, 64") "%s = aten.sin(%x)\n%a = aten.linear(%x, %w)\n"
                                                 "%b = aten.add.Tensor(%a, %s)\n" OUT("b")),
                     TENON_BACKEND_ONEDNN);
    tenon_boundary_info boundary;
    int index = node_of(session, "b").step;
    tenon_step_info step = step_at(session, index);
    ck_assert_str_eq(step.fused, "MatMul+Add");
    ck_assert_int_eq(step.reason_kind, TENON_REASON_START);
    ck_assert_int_eq(step.boundary_count, 1);
    OK(tenon_session_get_boundary(session, index, 0, &boundary));
    ck_assert_str_eq(tenon_value_name(boundary.value), "s");
    ck_assert_int_eq(boundary.from_step, node_of(session, "s").step);
    ck_assert_int_eq(boundary.reason_kind, TENON_REASON_ONE_CHAIN);
    ck_assert_ptr_nonnull(strstr(boundary.reason, "other operand of Add"));
    tenon_session_destroy(&session);
}
END_TEST

typedef struct cost_case {
    const char *text;
    double flops;
    int64_t read, written; /* bytes */
} cost_case;

static const cost_case costs[] = {
    /* 2*4*3 sums of 5; the bias begins them */
    {G(IN("x", "float32[2, 4, 5]") WEIGHT("w", "3, 5")
           WEIGHT("b", "3") "%y = aten.linear(%x, %w, %b)\n" OUT("y")),
     2 * 24 * 5, 4 * (40 + 15 + 3), 4 * 24},
    {G(IN("a", "float32[4, 3]") IN("x", "float32[4, 5]")
           IN("w", "float32[5, 3]") "%y = aten.addmm(%a, %x, %w)\n" OUT("y")),
     2 * 12 * 5, 4 * (12 + 20 + 15), 4 * 12},
    /* each of 2*3*3 elements to 4*2*2 taps */
    {G(IN("x", "float32[1, 2, 3, 3]") WEIGHT(
         "w", "2, 4, 2, 2") "%y = aten.convolution(%x, %w, none, [2, 2], [0, 0], [1, 1], true, "
                            "[0, 0], 1)\n" OUT("y")),
     2 * 18 * 16, 4 * (18 + 32), 4 * 4 * 36},
    /* groups: 1*4*4*4 results of 1*3*3 taps */
    {G(IN("x", "float32[1, 4, 4, 4]") WEIGHT(
         "w", "4, 1, 3, 3") "%y = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, "
                            "[0, 0], 4)\n" OUT("y")),
     2 * 64 * 9, 4 * (64 + 36), 4 * 64},
    {G(IN("x", "float32[1, 2, 6, 6]") "%y = aten.max_pool2d(%x, [3, 2], [3, 2])\n" OUT("y")),
     2 * 2 * 3 * 6, 4 * 72, 4 * 12},
    {G(IN("x", "float32[2, 8]") "%y = aten._softmax(%x, -1, false)\n" OUT("y")), 5 * 16, 4 * 16,
     4 * 16},
    {G(IN("x", "float32[2, 8]") "%y = aten.sum.dim_IntList(%x, [1])\n" OUT("y")), 16, 4 * 16,
     4 * 2},
    /* 1*2 heads, 3 rows, 5 keys of 4, values of 6 */
    {G(IN("q", "float32[1, 2, 3, 4]") IN("k", "float32[1, 2, 5, 4]") IN(
         "v",
         "float32[1, 2, 5, 6]") "%y = aten.scaled_dot_product_attention(%q, %k, %v)\n" OUT("y")),
     2 * 30 * 4 + 5 * 30 + 2 * 36 * 5, 4 * (24 + 40 + 60), 4 * 36},
    /* four rows of a table of 100, by index */
    {G(WEIGHT("w", "100, 8") IN("i", "int64[4]") "%y = aten.embedding(%w, %i)\n" OUT("y")), 0,
     4 * 32 + 8 * 4, 4 * 32},
    /* an operand that is read twice counts once, and so does an expanded one */
    {G(IN("x", "float32[3, 4]") "%y = aten.mul.Tensor(%x, %x)\n" OUT("y")), 12, 4 * 12, 4 * 12},
    {G(IN("x", "float32[3, 4]") IN("r", "float32[1, 4]") "%e = aten.expand(%r, [3, 4])\n"
                                                         "%y = aten.add.Tensor(%x, %e)\n" OUT("y")),
     12, 4 * (12 + 4), 4 * 12},
    {G(IN("x", "float32[3, 4]") "%y = aten.flip(%x, [0])\n" OUT("y")), 0, 4 * 12, 4 * 12},
};

START_TEST(costs_are_counted) {
    const cost_case *c = &costs[_i];
    tenon_session *session = make_session(c->text, TENON_BACKEND_REFERENCE);
    tenon_step_info step = step_at(session, node_of(session, "y").step);
    ck_assert_msg(step.flops == c->flops, "case %d: %g operations instead of %g", _i, step.flops,
                  c->flops);
    ck_assert_int_eq(step.read_bytes, c->read);
    ck_assert_int_eq(step.written_bytes, c->written);
    tenon_session_destroy(&session);
}
END_TEST

START_TEST(layouts_have_names) {
    tenon_session *session = make_session(
        G(IN("x", "float32[3, 4]") IN(
            "r", "float32[1, 4]") "%e = aten.expand(%r, [3, 4])\n"
                                  "%t = aten.t(%x)\n%a = aten.sin(%t)\n%b = aten.sin(%e)\n" OUT("a")
                                      OUT("b")),
        TENON_BACKEND_REFERENCE);
    ck_assert_str_eq(operand_at(session, node_of(session, "a").step, 0).layout, "strided");
    ck_assert_str_eq(operand_at(session, node_of(session, "b").step, 0).layout, "expanded");
    ck_assert_str_eq(operand_at(session, node_of(session, "b").step, 1).layout, "row-major");
    tenon_node_info view = node_of(session, "e");
    ck_assert_int_eq(view.step, -1);
    ck_assert_int_eq(view.reason_kind, TENON_REASON_VIEW);
    ck_assert(view.flops == 0);
    tenon_session_destroy(&session);
}
END_TEST

START_TEST(conversions_of_layout) {
    tenon_session *session = make_session(
        G(IN("x", "float32[2, 3]") "%t = aten.t(%x)\n%v = aten.view(%t, [6])\n"
                                   "%y = aten.sin(%v)\n" OUT("y") "output \"x\" = %x\n"),
        TENON_BACKEND_REFERENCE);
    tenon_plan_info plan;
    OK(tenon_session_get_plan(session, &plan));
    ck_assert_int_eq(plan.copy_count, 2);
    int layout = 0, output = 0;
    for (int i = 0; i < plan.step_count; i++) {
        tenon_step_info step = step_at(session, i);
        tenon_node_info node;
        OK(tenon_session_get_node(session, step.nodes[0], &node));
        if (step.kind != TENON_STEP_COPY) {
            ck_assert_int_eq(node.conversion, TENON_CONVERSION_NONE);
            ck_assert_str_eq(node.conversion_for, "");
            continue;
        }
        ck_assert_int_eq(node.conversion, TENON_CONVERSION_LAYOUT);
        ck_assert(node.inserted);
        ck_assert_int_eq(node.reason_kind, step.reason_kind);
        layout += step.reason_kind == TENON_REASON_LAYOUT_COPY &&
                  strcmp(node.conversion_for, "aten.view 'v'") == 0;
        output += step.reason_kind == TENON_REASON_OUTPUT_COPY &&
                  strcmp(node.conversion_for, "output 'x'") == 0;
    }
    ck_assert_int_eq(layout, 1);
    ck_assert_int_eq(output, 1);
    ck_assert_ptr_nonnull(strstr(node_of(session, "v").reason, "a copy that was made for it"));
    tenon_session_destroy(&session);
}
END_TEST

START_TEST(conversions_of_dtype) {
    const tenon_session_options options = {.precision = TENON_PRECISION_BF16,
                                           .bf16_fallback = TENON_BF16_FALLBACK_EMULATE,
                                           .backend = TENON_BACKEND_REFERENCE};
    tenon_session *session =
        make(G(IN("x", "float32[2, 3]") IN("n", "int64[2, 4]")
                   WEIGHT("w", "4, 3") "%a = aten.linear(%x, %w)\n"
                                       "%f = aten._to_copy(%n, dtype=float32)\n"
                                       "%y = aten.sin(%f)\n" OUT("a") OUT("y")),
             &options);
    tenon_plan_info plan;
    int own = 0, to_product = 0, to_output = 0;
    OK(tenon_session_get_plan(session, &plan));
    for (const tenon_node *n = tenon_graph_first_node(plan.graph); n; n = tenon_node_next(n)) {
        tenon_node_info info;
        OK(tenon_session_get_node(session, n, &info));
        if (info.conversion != TENON_CONVERSION_DTYPE)
            continue;
        own += !info.inserted && strcmp(info.conversion_for, "aten.sin 'y'") == 0;
        to_product += info.inserted && strcmp(info.conversion_for, "aten.linear 'a'") == 0;
        to_output += info.inserted && strcmp(info.conversion_for, "output 'a'") == 0;
    }
    ck_assert_int_eq(own, 1);
    ck_assert_int_eq(to_product, 1);
    ck_assert_int_eq(to_output, 1);
    tenon_session_destroy(&session);
}
END_TEST

/* A dry run tells the same of a plan as one that is compiled, and cannot run. */
START_TEST(dry_runs_tell_the_same) {
    const tenon_session_options dry = {.backend = TENON_BACKEND_ONEDNN, .dry_run = true};
    const tenon_session_options real = {.backend = TENON_BACKEND_ONEDNN};
    tenon_session *sessions[2] = {make(convolution, &dry), make(convolution, &real)};
    tenon_plan_info plans[2];
    for (int i = 0; i < 2; i++)
        OK(tenon_session_get_plan(sessions[i], &plans[i]));
    ck_assert(plans[0].dry_run);
    ck_assert(!plans[1].dry_run);
    ck_assert_int_eq(plans[0].step_count, plans[1].step_count);
    ck_assert_int_eq(plans[0].read_bytes, plans[1].read_bytes);
    for (int i = 0; i < plans[0].step_count; i++) {
        tenon_step_info a = step_at(sessions[0], i), b = step_at(sessions[1], i);
        ck_assert_str_eq(a.fused, b.fused);
        ck_assert_str_eq(a.reason, b.reason);
    }
    static float in[16 * 64];
    tenon_view input = view_of(in, TENON_FLOAT32, 1, 16, 8, 8), output = {0};
    tenon_context *context = NULL;
    OK(tenon_context_create(sessions[0], &context));
    FAILS(tenon_context_run(context, &input, 1, &output, 1), TENON_UNSUPPORTED, "dry_run");
    tenon_context_destroy(&context);
    for (int i = 0; i < 2; i++)
        tenon_session_destroy(&sessions[i]);
}
END_TEST

START_TEST(runs_are_measured_when_asked) {
    tenon_session *session = make_session(convolution, TENON_BACKEND_ONEDNN);
    static float in[16 * 64];
    tenon_view input = view_of(in, TENON_FLOAT32, 1, 16, 8, 8), output = {0};
    tenon_context *context = NULL;
    tenon_plan_info plan;
    const int64_t *times = NULL;
    int count = 0;
    OK(tenon_session_get_plan(session, &plan));
    OK(tenon_context_create(session, &context));
    FAILS(tenon_context_get_times(context, &times, &count), TENON_NOT_FOUND, "not measured");
    OK(tenon_context_run(context, &input, 1, &output, 1));
    FAILS(tenon_context_get_times(context, &times, &count), TENON_NOT_FOUND, "not measured");
    tenon_context_set_timing(context, true);
    output = (tenon_view){0};
    OK(tenon_context_run(context, &input, 1, &output, 1));
    OK(tenon_context_get_times(context, &times, &count));
    ck_assert_int_eq(count, plan.step_count);
    for (int i = 0; i < count; i++)
        ck_assert_int_ge(times[i], 0);
    ck_assert_int_gt(times[0], 0);
    tenon_context_set_timing(context, false);
    output = (tenon_view){0};
    OK(tenon_context_run(context, &input, 1, &output, 1));
    FAILS(tenon_context_get_times(context, &times, &count), TENON_NOT_FOUND, "not measured");
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

/* What is wrong with a reason, or NULL. */
static const char *wrong_reason(tenon_reason kind, const char *text, bool view) {
    if (kind <= TENON_REASON_NONE || kind >= TENON_REASON_COUNT)
        return "it has no kind";
    if ((kind == TENON_REASON_VIEW) != view)
        return view ? "a view has another reason" : "no view, and yet the reason is that";
    return text && strlen(text) > 10 ? NULL : "it says nothing";
}

/* The same for a step: each value that another step makes comes over a boundary. */
static const char *wrong_step(const tenon_session *session, int index) {
    tenon_step_info step = step_at(session, index);
    const char *wrong = wrong_reason(step.reason_kind, step.reason, false);
    int made = 0;
    for (int i = 0; i < step.input_count && !wrong; i++) {
        tenon_operand_info operand = operand_at(session, index, i);
        made += operand.from_step >= 0 && !operand.constant;
        wrong = operand.from_step >= index ? "it reads what is not there yet" : NULL;
    }
    for (int i = 0; i < step.boundary_count && !wrong; i++) {
        tenon_boundary_info boundary = {0};
        OK(tenon_session_get_boundary(session, index, i, &boundary));
        wrong = wrong_reason(boundary.reason_kind, boundary.reason, false);
        if (!wrong && (boundary.from_step < 0 || boundary.from_step >= index))
            wrong = "a boundary is to no step before";
    }
    return wrong ? wrong : made != step.boundary_count ? "a boundary is missing" : NULL;
}

/* How many steps it checked. */
static int check_random(const tenon_graph *graph, unsigned seed, tenon_backend backend) {
    const tenon_session_options options = {.backend = backend, .threads = 1, .dry_run = true};
    tenon_session *session = NULL;
    tenon_plan_info plan = {0};
    if (tenon_session_create(graph, &options, &session) != TENON_OK)
        return 0; /* as the suite of random graphs allows */
    if (tenon_session_get_plan(session, &plan) == TENON_OK) {
        const char *wrong = NULL;
        for (int i = 0; i < plan.step_count && !wrong; i++)
            wrong = wrong_step(session, i);
        for (const tenon_node *n = tenon_graph_first_node(plan.graph); n && !wrong;
             n = tenon_node_next(n)) {
            tenon_node_info info;
            OK(tenon_session_get_node(session, n, &info));
            wrong = wrong_reason(info.reason_kind, info.reason, info.step < 0);
        }
        ck_assert_msg(!wrong, "seed %u, backend %d: %s", seed, (int)backend, wrong);
    }
    tenon_session_destroy(&session);
    return plan.step_count;
}

START_TEST(random_graphs_have_reasons) {
    static const tenon_backend backends[] = {TENON_BACKEND_AUTO, TENON_BACKEND_ONEDNN,
                                             TENON_BACKEND_REFERENCE};
    static rg g;
    int steps = 0;
    for (unsigned seed = 1; seed <= 150; seed++) {
        rg_make(&g, seed);
        for (int i = 0; i < 3; i++)
            steps += check_random(g.graph, seed, backends[i]);
        tenon_graph_destroy(&g.graph);
    }
    ck_assert_int_gt(steps, 1000);
}
END_TEST

START_TEST(wrong_questions_are_refused) {
    tenon_graph *graph = parse_graph(G(IN("x", "float32[s0, 3]") "%y = aten.sin(%x)\n" OUT("y")));
    tenon_session *session = NULL;
    tenon_plan_info plan;
    tenon_step_info step;
    tenon_node_info node;
    tenon_operand_info operand;
    tenon_boundary_info boundary;
    OK(tenon_session_create(graph, NULL, &session));
    FAILS(tenon_session_get_plan(session, &plan), TENON_NOT_FOUND, "nothing was compiled");
    FAILS(tenon_session_get_step(session, 0, &step), TENON_NOT_FOUND, "nothing was compiled");
    tenon_view input = floats(NULL, 4, 3);
    OK(tenon_session_compile(session, &input, 1));
    FAILS(tenon_session_get_node(session, tenon_graph_first_node(graph), &node),
          TENON_INVALID_ARGUMENT, "not of the plan's graph");
    FAILS(tenon_session_get_step(session, -1, &step), TENON_INVALID_ARGUMENT, "no step -1");
    FAILS(tenon_session_get_operand(session, 1, 0, &operand), TENON_INVALID_ARGUMENT, "no step 1");
    FAILS(tenon_session_get_boundary(session, 0, 0, &boundary), TENON_INVALID_ARGUMENT,
          "no boundary 0 of 0");
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("explain");
    TCase *tests = tcase_create("explain");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, reasons_have_text_and_advice);
    tcase_add_test(tests, a_convolution_and_its_relu);
    tcase_add_test(tests, a_chain_of_products);
    tcase_add_test(tests, boundaries_of_later_operands);
    tcase_add_loop_test(tests, costs_are_counted, 0, (int)(sizeof costs / sizeof *costs));
    tcase_add_test(tests, layouts_have_names);
    tcase_add_test(tests, conversions_of_layout);
    tcase_add_test(tests, conversions_of_dtype);
    tcase_add_test(tests, dry_runs_tell_the_same);
    tcase_add_test(tests, runs_are_measured_when_asked);
    tcase_add_test(tests, random_graphs_have_reasons);
    tcase_add_test(tests, wrong_questions_are_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
