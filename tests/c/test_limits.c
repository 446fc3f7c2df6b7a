/* Limits on what a model may cost. */
#include "run_graph.h"
#include <math.h>
#include <tenon/explain.h>

static tenon_status make(const char *text, tenon_limits limits, tenon_session **out) {
    tenon_graph *graph = parse_graph(text);
    tenon_session_options options = {.threads = 1, .limits = limits};
    tenon_status status = tenon_session_create(graph, &options, out);
    tenon_graph_destroy(&graph);
    return status;
}

static void refused(const char *text, tenon_limits limits, const char *why) {
    tenon_session *session = NULL;
    FAILS(make(text, limits, &session), TENON_LIMIT, why);
    ck_assert_ptr_null(session);
}

static void allowed(const char *text, tenon_limits limits) {
    tenon_session *session = NULL;
    OK(make(text, limits, &session));
    tenon_session_destroy(&session);
}

static const char chain[] = "graph g { input %x: float32[4, 6]\n%a = aten.neg(%x)\n%b = "
                            "aten.exp(%a)\n%c = aten.cat([%b, %a], 0)\noutput \"o\" = %c }";

START_TEST(each_limit) {
    refused(chain, (tenon_limits){.nodes = 2}, "has 3 nodes, more than limits.nodes allows, 2");
    allowed(chain, (tenon_limits){.nodes = 3});
    refused(chain, (tenon_limits){.elements = 47}, "'c' has 48 elements");
    allowed(chain, (tenon_limits){.elements = 48});
    refused(chain, (tenon_limits){.rank = 1}, "'x' has 2 dimensions");
    allowed(chain, (tenon_limits){.rank = 2});
    /* neg and exp count 24 each, cat moves */
    refused(chain, (tenon_limits){.run_flops = 47}, "takes 48 floating-point operations");
    allowed(chain, (tenon_limits){.run_flops = 48});
    /* 20 for each element that one of them reads or writes, and 1 for each flop */
    refused(chain, (tenon_limits){.run_work = 3887}, "takes 3888 units of work");
    allowed(chain, (tenon_limits){.run_work = 3888});
    refused(chain, (tenon_limits){.compile_seconds = 1e-9}, "limits.compile_seconds allows, 1e-09");
    allowed(chain, (tenon_limits){.compile_seconds = 1e9});
    refused(chain, (tenon_limits){.run_bytes = 191}, "limits.run_bytes allows, 191");
    allowed(chain, (tenon_limits){.run_bytes = 4096});
}
END_TEST

/* The least that is enough, found by halving, is just allowed, and less by one is just refused. */
static int64_t check_least(const char *text, bool bytes, int64_t enough) {
    const char *why = bytes ? "limits.compile_bytes allows" : "limits.compile_work allows";
    int64_t least = 0;
    while (enough - least > 1) {
        int64_t middle = least + (enough - least) / 2;
        tenon_session *session = NULL;
        tenon_limits limits = {.compile_bytes = bytes ? middle : 0,
                               .compile_work = bytes ? 0 : (double)middle};
        tenon_status status = make(text, limits, &session);
        if (status != TENON_OK)
            FAILS(status, TENON_LIMIT, why);
        ck_assert_int_eq(status == TENON_OK, session != NULL);
        *(status == TENON_OK ? &enough : &least) = middle;
        tenon_session_destroy(&session);
    }
    return enough;
}

/* A batch norm goes into a weight of 4 * 4 * 9 floats, which is made new, and which oneDNN, or a
 * kernel, packs. */
START_TEST(compiling) {
    static const char text[] =
        "graph g { input %x: float32[1, 4, 8, 8]\nconst %w: float32[4, 4, 3, 3] = random(1)\n"
        "const %m: float32[4] = random(2)\nconst %v: float32[4] = ones\n"
        "%c = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)\n"
        "%y, %a, %b = aten._native_batch_norm_legit_no_training(%c, none, none, %m, %v, 0.1, "
        "1e-5)\n"
        "output \"o\" = %y }";
    ck_assert_int_ge(check_least(text, true, 1 << 20), 4 * 4 * 9 * 4);
    ck_assert_int_gt(check_least(text, false, (int64_t)1 << 40), 1);
    /* a oneDNN partition is 1e7 */
    static const char product[] = "graph g { input %x: float32[64, 64]\n%y = aten.mm(%x, %x)\n"
                                  "output \"o\" = %y }";
    ck_assert_int_ge(check_least(product, false, (int64_t)1 << 40), 10000000);
}
END_TEST

START_TEST(limits_are_checked) {
    static const tenon_limits wrong[] = {
        {.nodes = -1},     {.elements = -1},      {.rank = -1},         {.rank = 13},
        {.run_bytes = -1}, {.run_flops = -1},     {.folded_bytes = -1}, {.folded_flops = -1},
        {.run_work = -1},  {.compile_bytes = -1}, {.compile_work = -1}, {.compile_seconds = -1},
        {.run_work = NAN}};
    tenon_session *session = NULL;
    FAILS(make(chain, wrong[_i], &session), TENON_INVALID_ARGUMENT, "limit");
}
END_TEST

/* What kernels work in is part of a run's memory, and known when they ask for it. A histogram keeps
 * a copy of its input and its counts as doubles. */
START_TEST(scratch_memory) {
    static const char text[] = "graph g { input %x: float32[1000]\n%y = aten.histc(%x, 1000)\n"
                               "output \"o\" = %y }";
    static float x[1000];
    tenon_view input = floats(x, 1000, -1);
    for (int enough = 0; enough < 2; enough++) {
        tenon_session *session = NULL;
        tenon_context *context = NULL;
        tenon_view output = {0};
        OK(make(text, (tenon_limits){.run_bytes = enough ? 64000 : 16000}, &session));
        OK(tenon_context_create(session, &context));
        tenon_status status = tenon_context_run(context, &input, 1, &output, 1);
        if (enough)
            OK(status);
        else
            FAILS(status, TENON_LIMIT, "more scratch memory than limits.run_bytes leaves");
        tenon_context_destroy(&context);
        tenon_session_destroy(&session);
    }
}
END_TEST

/* Open sizes are checked when they are known. */
START_TEST(each_shape) {
    static const char text[] =
        "graph g { input %x: float32[n, 6]\n%a = aten.neg(%x)\noutput \"o\" = %a }";
    tenon_session *session = NULL;
    float x[24] = {0};
    tenon_view three = floats(x, 3, 6), four = floats(x, 4, 6);
    OK(make(text, (tenon_limits){.elements = 18}, &session));
    OK(tenon_session_compile(session, &three, 1));
    FAILS(tenon_session_compile(session, &four, 1), TENON_LIMIT, "24 elements");
    OK(tenon_session_compile(session, &three, 1));
    tenon_session_destroy(&session);
}
END_TEST

static int64_t nodes_left(const char *text, tenon_limits limits) {
    tenon_session *session = NULL;
    tenon_plan_info plan;
    OK(make(text, limits, &session));
    OK(tenon_session_get_plan(session, &plan));
    int64_t count = plan.node_count - plan.view_count;
    tenon_session_destroy(&session);
    return count;
}

/* Past the budget nothing is refused: the run computes it. */
START_TEST(folding_has_a_budget) {
    static const char grows[] = "graph g { input %x: float32[64, 64]\n"
                                "%f = aten.full([64, 64], 2)\n%y = aten.add.Tensor(%x, %f)\n"
                                "output \"o\" = %y }";
    static const char works[] = "graph g { input %x: float32[16, 16]\n"
                                "const %a: float32[16, 16] = random(1)\n"
                                "%p = aten.mm(%a, %a)\n%y = aten.add.Tensor(%x, %p)\n"
                                "output \"o\" = %y }";
    ck_assert_int_eq(nodes_left(grows, (tenon_limits){0}), 1);
    ck_assert_int_eq(nodes_left(grows, (tenon_limits){.folded_bytes = 2 * 64 * 64 * 4}), 1);
    ck_assert_int_eq(nodes_left(grows, (tenon_limits){.folded_bytes = 64 * 64 * 4 - 1}), 2);
    ck_assert_int_eq(nodes_left(works, (tenon_limits){0}), 1);
    ck_assert_int_eq(nodes_left(works, (tenon_limits){.folded_flops = 2 * 16 * 16 * 16}), 1);
    ck_assert_int_eq(nodes_left(works, (tenon_limits){.folded_flops = 2 * 16 * 16 * 16 - 1}), 2);
}
END_TEST

/* Small texts that ask for much are refused, or get little, by the defaults. */
START_TEST(small_files_stay_small) {
    static const char *const texts[] = {
        "graph g { input %x: float32[1]\n%f = aten.full([100000, 100000], 1)\n"
        "%y = aten.add.Tensor(%f, %x)\noutput \"o\" = %y }",
        "graph g { input %x: float32[1]\n%f = aten.expand(%x, [1000000, 1000000])\n"
        "%y = aten.neg(%f)\noutput \"o\" = %y }",
        "graph g { input %x: float32[40000, 1]\ninput %y: float32[1, 40000]\n"
        "%z = aten.mm(%x, %y)\n%s = aten.sum(%z)\noutput \"o\" = %s }",
    };
    refused(texts[_i], (tenon_limits){0}, "limits.");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("limits");
    TCase *tests = tcase_create("limits");
    tcase_add_test(tests, each_limit);
    tcase_add_loop_test(tests, limits_are_checked, 0, 13);
    tcase_add_test(tests, compiling);
    tcase_add_test(tests, scratch_memory);
    tcase_add_test(tests, each_shape);
    tcase_add_test(tests, folding_has_a_budget);
    tcase_add_loop_test(tests, small_files_stay_small, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
