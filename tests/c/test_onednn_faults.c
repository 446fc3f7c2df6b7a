/* oneDNN's functions fail: what they compute goes to kernels where that is possible, and else the
 * call fails with its own message and the next one is as good as ever. The linker puts the
 * functions of this file in the place of oneDNN's. */
#include "run_graph.h"
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_graph.h>

/* The first `count` calls of a function fail; 0: all of them. */
static struct {
    const char *function; /* NULL: none */
    dnnl_status_t status;
    int count, calls;
} fault;

static bool fails(const char *function) {
    return fault.function && strcmp(fault.function, function) == 0 &&
           (++fault.calls <= fault.count || fault.count == 0);
}

#define WRAP(function, parameters, arguments)                                     \
    dnnl_status_t __real_##function parameters;                                   \
    dnnl_status_t __wrap_##function parameters;                                   \
    dnnl_status_t __wrap_##function parameters {                                  \
        return fails(#function + 5) ? fault.status : __real_##function arguments; \
    }

WRAP(dnnl_graph_add_op, (dnnl_graph_graph_t graph, dnnl_graph_op_t op), (graph, op))
WRAP(dnnl_graph_op_add_input, (dnnl_graph_op_t op, const dnnl_graph_logical_tensor_t *input),
     (op, input))
WRAP(dnnl_graph_graph_get_partitions,
     (dnnl_graph_graph_t graph, size_t count, dnnl_graph_partition_t *partitions),
     (graph, count, partitions))
WRAP(dnnl_graph_partition_get_ops, (dnnl_graph_partition_t partition, size_t count, size_t *ids),
     (partition, count, ids))
WRAP(dnnl_graph_partition_get_input_ports,
     (const_dnnl_graph_partition_t partition, size_t count, dnnl_graph_logical_tensor_t *inputs),
     (partition, count, inputs))
WRAP(dnnl_graph_partition_compile,
     (dnnl_graph_partition_t partition, dnnl_graph_compiled_partition_t compiled, size_t in_count,
      const dnnl_graph_logical_tensor_t **in, size_t out_count,
      const dnnl_graph_logical_tensor_t **out, dnnl_engine_t engine),
     (partition, compiled, in_count, in, out_count, out, engine))
WRAP(dnnl_graph_compiled_partition_query_logical_tensor,
     (const_dnnl_graph_compiled_partition_t compiled, size_t id, dnnl_graph_logical_tensor_t *out),
     (compiled, id, out))
WRAP(dnnl_graph_compiled_partition_get_inplace_ports,
     (const_dnnl_graph_compiled_partition_t compiled, size_t *count,
      const dnnl_graph_inplace_pair_t **pairs),
     (compiled, count, pairs))
WRAP(dnnl_graph_compiled_partition_execute,
     (const_dnnl_graph_compiled_partition_t compiled, dnnl_stream_t stream, size_t in_count,
      const_dnnl_graph_tensor_t *in, size_t out_count, const_dnnl_graph_tensor_t *out),
     (compiled, stream, in_count, in, out_count, out))
WRAP(dnnl_graph_tensor_create,
     (dnnl_graph_tensor_t * tensor, const dnnl_graph_logical_tensor_t *logical,
      dnnl_engine_t engine, void *handle),
     (tensor, logical, engine, handle))
WRAP(dnnl_stream_create, (dnnl_stream_t * stream, dnnl_engine_t engine, unsigned flags),
     (stream, engine, flags))
WRAP(dnnl_graph_make_engine_with_allocator,
     (dnnl_engine_t * engine, dnnl_engine_kind_t kind, size_t index,
      const_dnnl_graph_allocator_t allocator),
     (engine, kind, index, allocator))

/* Here the fault is that oneDNN says no. */
dnnl_status_t __real_dnnl_graph_partition_is_supported(const_dnnl_graph_partition_t partition,
                                                       uint8_t *supported);
dnnl_status_t __wrap_dnnl_graph_partition_is_supported(const_dnnl_graph_partition_t partition,
                                                       uint8_t *supported);
dnnl_status_t __wrap_dnnl_graph_partition_is_supported(const_dnnl_graph_partition_t partition,
                                                       uint8_t *supported) {
    dnnl_status_t status = __real_dnnl_graph_partition_is_supported(partition, supported);
    if (fails("graph_partition_is_supported"))
        *supported = 0;
    return status;
}

/* ---- A model ---- */

enum { ROWS = 8, SIZE = 64 };

static const char text[] = "graph net {\n"
                           "  input %x: float32[8, 64]\n"
                           "  const %w: float32[64, 64] = random(7, -0.3, 0.3)\n"
                           "  %a = aten.linear(%x, %w)\n"
                           "  %b = aten.relu(%a)\n"
                           "  %c = aten.sin(%b)\n"
                           "  %d = aten.linear(%c, %w)\n"
                           "  output \"y\" = %d\n"
                           "}\n";
static float input[ROWS * SIZE], want[ROWS * SIZE];

static tenon_status run(tenon_context *context) {
    tenon_view in = floats(input, ROWS, SIZE), out = {0};
    tenon_status status = tenon_context_run(context, &in, 1, &out, 1);
    for (int i = 0; status == TENON_OK && i < ROWS * SIZE; i++)
        ck_assert(fabsf(((const float *)out.data)[i] - want[i]) < 1e-4f);
    return status;
}

static tenon_status compile(tenon_session **out) {
    tenon_graph *graph = parse_graph(text);
    tenon_session_options options = {.backend = TENON_BACKEND_ONEDNN, .threads = 1};
    tenon_view in = floats(input, ROWS, SIZE);
    tenon_session *session = NULL;
    tenon_status status = tenon_session_create(graph, &options, &session);
    if (status == TENON_OK)
        status = tenon_session_compile(session, &in, 1);
    if (status != TENON_OK)
        tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
    *out = session;
    return status;
}

static void set_up(void) {
    tenon_session *session = make_session(text, TENON_BACKEND_REFERENCE);
    tenon_context *context = NULL;
    tenon_view in = floats(input, ROWS, SIZE), out = {0};
    for (int i = 0; i < ROWS * SIZE; i++)
        input[i] = (float)(i % 13) * 0.1f - 0.5f;
    OK(tenon_context_create(session, &context));
    OK(tenon_context_run(context, &in, 1, &out, 1));
    memcpy(want, out.data, sizeof want);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}

/* How many partitions the session has, and whether a reason tells of the fault. */
static int count_partitions(const tenon_session *session, const char *reason) {
    tenon_plan_info plan;
    int count = 0;
    bool told = !*reason;
    OK(tenon_session_get_plan(session, &plan));
    for (int i = 0; i < plan.step_count; i++) {
        tenon_step_info step;
        OK(tenon_session_get_step(session, i, &step));
        count += step.kind == TENON_STEP_ONEDNN;
        told |= strstr(step.reason, reason) != NULL;
    }
    ck_assert_msg(told, "no step tells '%s'", reason);
    return count;
}

/* Computes right without a fault, after there was one. */
static void check_works(void) {
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    fault.function = NULL;
    OK(compile(&session));
    ck_assert_int_eq(count_partitions(session, ""), 2);
    OK(tenon_context_create(session, &context));
    OK(run(context));
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}

/* ---- Compiling ---- */

typedef struct fault_case {
    const char *function;
    dnnl_status_t status;
    int count;
    int partitions;      /* -1: compiling fails */
    tenon_status failed; /* with this status */
    const char *told;    /* in the reason of a step, or in the message */
} fault_case;

#define KERNELS 0, TENON_OK
#define FAILED(status) -1, status

static const fault_case cases[] = {
    {"graph_add_op", dnnl_invalid_graph_op, 1, 2, TENON_OK, "oneDNN refuses the attributes of"},
    {"graph_graph_get_partitions", dnnl_invalid_graph, 0, KERNELS,
     "oneDNN does not partition the nodes from 'a' on: invalid graph"},
    {"graph_graph_get_partitions", dnnl_out_of_memory, 0, FAILED(TENON_OUT_OF_MEMORY),
     "out of memory"},
    {"graph_partition_is_supported", dnnl_success, 0, KERNELS, "has no kernel for MatMul"},
    {"graph_partition_get_ops", dnnl_invalid_arguments, 0, FAILED(TENON_BACKEND),
     "oneDNN does not tell a partition's ops: invalid arguments"},
    {"graph_partition_get_input_ports", dnnl_invalid_arguments, 0, FAILED(TENON_BACKEND),
     "oneDNN does not tell a partition's ports: invalid arguments"},
    {"graph_op_add_input", dnnl_invalid_arguments, 0, FAILED(TENON_BACKEND),
     "oneDNN takes no such tensor: invalid arguments"},
    {"graph_partition_compile", dnnl_unimplemented, 0, KERNELS,
     "oneDNN does not compile it: unimplemented"},
    {"graph_partition_compile", dnnl_runtime_error, 0, KERNELS, "run-time error"},
    {"graph_partition_compile", dnnl_invalid_graph_op, 0, KERNELS, "invalid op"},
    {"graph_partition_compile", dnnl_invalid_shape, 0, KERNELS, "invalid shape"},
    {"graph_partition_compile", dnnl_invalid_data_type, 0, KERNELS, "invalid dtype"},
    {"graph_partition_compile", dnnl_last_impl_reached, 0, KERNELS, "failure"},
    {"graph_partition_compile", dnnl_out_of_memory, 0, FAILED(TENON_OUT_OF_MEMORY),
     "out of memory"},
    {"graph_compiled_partition_query_logical_tensor", dnnl_invalid_arguments, 0, KERNELS,
     "it would lay out the result differently"},
    {"stream_create", dnnl_runtime_error, 0, KERNELS, "oneDNN does not compile it: run-time error"},
    {"graph_tensor_create", dnnl_runtime_error, 0, KERNELS,
     "oneDNN does not compile it: run-time error"},
    /* Without knowledge of it nothing is computed in place. */
    {"graph_compiled_partition_get_inplace_ports", dnnl_runtime_error, 0, 2, TENON_OK, ""},
};

START_TEST(compiling) {
    const fault_case *c = &cases[_i];
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    set_up();
    fault.function = c->function;
    fault.status = c->status;
    fault.count = c->count;
    tenon_status status = compile(&session);
    ck_assert_int_gt(fault.calls, 0);
    if (c->partitions < 0) {
        ck_assert_int_eq(status, c->failed);
        ck_assert_msg(strstr(tenon_last_error(), c->told) != NULL, "'%s' does not tell '%s'",
                      tenon_last_error(), c->told);
    } else {
        ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
        ck_assert_int_eq(count_partitions(session, c->told), c->partitions);
        OK(tenon_context_create(session, &context));
        OK(run(context));
        tenon_context_destroy(&context);
    }
    tenon_session_destroy(&session);
    check_works();
}
END_TEST

START_TEST(starting) {
    tenon_session *session = NULL;
    set_up();
    fault.function = "graph_make_engine_with_allocator";
    fault.status = dnnl_runtime_error;
    fault.count = 0;
    FAILS(compile(&session), TENON_BACKEND, "oneDNN does not start: run-time error");
    ck_assert_ptr_null(session);
    check_works();
}
END_TEST

/* ---- Running ---- */

/* A run that fails leaves the context as it was; one that never succeeded may have left half of
 * what oneDNN packs, and does not run again. */
START_TEST(running) {
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    set_up();
    OK(compile(&session));
    OK(tenon_context_create(session, &context));
    if (_i == 1)
        OK(run(context));
    fault.function = "graph_compiled_partition_execute";
    fault.status = dnnl_runtime_error;
    fault.count = 0;
    FAILS(run(context), TENON_RUN_FAILED, "node 'a': oneDNN partition MatMul+ReLU: run-time error");
    fault.status = dnnl_out_of_memory;
    FAILS(run(context), TENON_OUT_OF_MEMORY, "oneDNN partition MatMul+ReLU: out of memory");
    fault.function = NULL;
    if (_i == 1)
        OK(run(context));
    else
        FAILS(run(context), TENON_OUT_OF_MEMORY, "out of memory");
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    if (_i == 1)
        check_works();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("onednn_faults");
    TCase *tests = tcase_create("onednn_faults");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, compiling, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(tests, starting);
    tcase_add_loop_test(tests, running, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
