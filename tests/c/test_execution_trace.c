/* Execution graphs: their nodes, the ids of values, and who may write them. */
#include "profile_net.h"
#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Views, state, a part of memory, a number that JSON has none of, and one past doubles. */
static const char viewed[] = "graph viewed {\n"
                             "  input %x: float32[4, 6]\n"
                             "  buffer %b: float32[4] = zeros\n"
                             "  %r = aten.relu(%x)\n"
                             "  %s = aten.slice.Tensor(%r, 1, 2, 9223372036854775807)\n"
                             "  %v = aten.transpose.int(%s, 0, 1)\n"
                             "  %e = aten.lt.Scalar(%v, 0)\n"
                             "  %f = aten.masked_fill.Scalar(%v, %e, -inf)\n"
                             "  %a = aten.add.Tensor(%f, %b)\n"
                             "  %n = aten.add.Tensor(%b, 1)\n"
                             "  write %b <- %n\n"
                             "  output \"a\" = %a\n"
                             "}\n";

static char path[] = "/tmp/tenon-execution-XXXXXX";

static void make_path(void) {
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static cJSON *read_trace(void) {
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    char *text = calloc(1, (size_t)size + 1);
    rewind(file);
    ck_assert_uint_eq(fread(text, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    unlink(path);
    cJSON *trace = cJSON_ParseWithOpts(text, NULL, 1);
    ck_assert_msg(trace != NULL, "no JSON: %.300s", text);
    free(text);
    return trace;
}

static const cJSON *get(const cJSON *item, const char *key) {
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(item, key);
    ck_assert_msg(found != NULL, "no %s", key);
    return found;
}

static const char *attribute(const cJSON *node, const char *name) {
    const cJSON *item;
    cJSON_ArrayForEach(item, get(node, "attrs")) {
        if (strcmp(get(item, "name")->valuestring, name) == 0)
            return get(item, "value")->valuestring;
    }
    return NULL;
}

/* The number of nodes of that name; the last of them in `out`. */
static int find_nodes(const cJSON *trace, const char *name, const cJSON **out) {
    int count = 0;
    const cJSON *node;
    cJSON_ArrayForEach(node, get(trace, "nodes")) {
        if (strcmp(get(node, "name")->valuestring, name) == 0) {
            count++;
            *out = node;
        }
    }
    return count;
}

static const cJSON *only_node(const cJSON *trace, const char *name) {
    const cJSON *node = NULL;
    ck_assert_msg(find_nodes(trace, name, &node) == 1, "not one %s", name);
    return node;
}

/* Field `field` of tensor `index` among the inputs or outputs: its id, storage, offset, elements,
 * bytes of one. */
static int field_of(const cJSON *node, const char *side, int index, int field) {
    const cJSON *tensor = cJSON_GetArrayItem(get(get(node, side), "values"), index);
    ck_assert_int_eq(cJSON_GetArraySize(tensor), 6);
    return cJSON_GetArrayItem(tensor, field)->valueint;
}

START_TEST(values_keep_their_ids_from_node_to_node) {
    float x[24] = {1};
    tenon_session *session = make_session(viewed, TENON_BACKEND_REFERENCE);
    tenon_context *context = NULL;
    tenon_view input = view_of(x, TENON_FLOAT32, 4, 6, -1, -1), output = {0};
    OK(tenon_context_create(session, &context));
    make_path();
    OK(tenon_execution_trace_start(path));
    OK(tenon_context_run(context, &input, 1, &output, 1));
    OK(tenon_execution_trace_stop());
    output = (tenon_view){0};
    OK(tenon_context_run(context, &input, 1, &output, 1)); /* not written */
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);

    cJSON *trace = read_trace();
    const cJSON *run = only_node(trace, "tenon_context_run"),
                *relu = only_node(trace, "aten::relu");
    const cJSON *slice = only_node(trace, "aten::slice"), *t = only_node(trace, "aten::permute");
    const cJSON *lt = only_node(trace, "aten::lt"), *fill = only_node(trace, "aten::masked_fill");
    ck_assert_str_eq(attribute(run, "graph"), "viewed");
    ck_assert_str_eq(attribute(slice, "kind"), "view");
    ck_assert_str_eq(attribute(relu, "kind"), "kernel");
    ck_assert_str_eq(attribute(relu, "op_schema"), "aten::relu(Tensor self) -> Tensor");
    ck_assert_int_eq(get(relu, "ctrl_deps")->valueint, get(run, "id")->valueint);
    ck_assert_int_eq(field_of(run, "inputs", 0, 0), field_of(relu, "inputs", 0, 0));
    ck_assert_int_eq(field_of(relu, "outputs", 0, 0), field_of(slice, "inputs", 0, 0));
    ck_assert_int_eq(field_of(slice, "outputs", 0, 0), field_of(t, "inputs", 0, 0));
    ck_assert_int_eq(field_of(t, "outputs", 0, 0), field_of(lt, "inputs", 0, 0));
    ck_assert_int_eq(field_of(t, "outputs", 0, 0), field_of(fill, "inputs", 0, 0));
    ck_assert_int_eq(field_of(lt, "outputs", 0, 0), field_of(fill, "inputs", 1, 0));
    /* A view is a tensor of its own, in the same storage. */
    ck_assert_int_ne(field_of(t, "outputs", 0, 0), field_of(relu, "outputs", 0, 0));
    ck_assert_int_eq(field_of(t, "outputs", 0, 1), field_of(relu, "outputs", 0, 1));
    ck_assert_int_ne(field_of(lt, "outputs", 0, 1), field_of(relu, "outputs", 0, 1));
    ck_assert_int_eq(field_of(t, "outputs", 0, 2), 2);
    ck_assert_int_eq(field_of(t, "outputs", 0, 3), 16);
    ck_assert_int_eq(field_of(t, "outputs", 0, 4), 4);
    /* Numbers. */
    char *printed = cJSON_PrintUnformatted(get(slice, "inputs"));
    ck_assert_msg(strstr(printed, "\"Int\",\"Int\",\"Int\",\"Int\"") != NULL, "%s", printed);
    cJSON_free(printed);
    const cJSON *value = cJSON_GetArrayItem(get(get(fill, "inputs"), "values"), 2);
    ck_assert_str_eq(value->valuestring, "-inf");
    ck_assert_str_eq(cJSON_GetArrayItem(get(get(lt, "outputs"), "types"), 0)->valuestring,
                     "Tensor(bool)");
    cJSON_Delete(trace);
}
END_TEST

START_TEST(runs_share_weights_and_nothing_else) {
    static runner r;
    const cJSON *node = NULL, *linear[3];
    make_runner(&r, TENON_BACKEND_REFERENCE);
    make_path();
    OK(tenon_execution_trace_start(path));
    run_once(&r, 2);
    run_once(&r, 2);
    run_once(&r, 3);
    drop_runner(&r); /* what was seen of it stays right */
    make_runner(&r, TENON_BACKEND_REFERENCE);
    run_once(&r, 2);
    drop_runner(&r);
    OK(tenon_execution_trace_stop());
    cJSON *trace = read_trace();
    ck_assert_int_eq(find_nodes(trace, "tenon_context_run", &node), 4);
    int count = 0, last = 0;
    cJSON_ArrayForEach(node, get(trace, "nodes")) {
        ck_assert_int_gt(get(node, "id")->valueint, last);
        last = get(node, "id")->valueint;
        if (strcmp(get(node, "name")->valuestring, "aten::linear") == 0 && count < 3)
            linear[count++] = node;
    }
    ck_assert_int_eq(count, 3);
    ck_assert_int_eq(field_of(linear[0], "inputs", 1, 0), field_of(linear[1], "inputs", 1, 0));
    ck_assert_int_ne(field_of(linear[0], "inputs", 0, 0), field_of(linear[1], "inputs", 0, 0));
    /* Plans of other shapes share memory of weights. */
    ck_assert_int_eq(field_of(linear[0], "inputs", 1, 1), field_of(linear[2], "inputs", 1, 1));
    cJSON_Delete(trace);
}
END_TEST

START_TEST(partitions_have_what_is_fused_below_them) {
    static runner r;
    make_runner(&r, TENON_BACKEND_ONEDNN);
    make_path();
    OK(tenon_execution_trace_start(path));
    run_once(&r, 2);
    OK(tenon_execution_trace_stop());
    drop_runner(&r);
    cJSON *trace = read_trace();
    const cJSON *partition = only_node(trace, "Convolution+ReLU");
    const cJSON *convolution = only_node(trace, "aten::convolution");
    const cJSON *relu = only_node(trace, "aten::relu");
    int id = get(partition, "id")->valueint;
    ck_assert_int_eq(get(convolution, "ctrl_deps")->valueint, id);
    ck_assert_int_eq(get(relu, "ctrl_deps")->valueint, id);
    ck_assert_str_eq(attribute(convolution, "kind"), "fused");
    ck_assert_str_eq(attribute(convolution, "module"), "features.0");
    ck_assert_str_eq(attribute(partition, "kernel_backend"), "onednn");
    for (int field = 0; field < 3; field++) {
        ck_assert_int_eq(field_of(convolution, "outputs", 0, field),
                         field_of(relu, "inputs", 0, field));
        ck_assert_int_eq(field_of(relu, "outputs", 0, field),
                         field_of(partition, "outputs", 0, field));
        ck_assert_int_eq(field_of(convolution, "inputs", 0, field),
                         field_of(partition, "inputs", 0, field));
    }
    cJSON_Delete(trace);
}
END_TEST

START_TEST(one_is_written_at_a_time) {
    tenon_profiler *profiler = NULL;
    tenon_event event;
    static runner r;
    make_runner(&r, TENON_BACKEND_REFERENCE);
    FAILS(tenon_execution_trace_stop(), TENON_INVALID_ARGUMENT, "no execution trace");
    FAILS(tenon_execution_trace_start("/nowhere/trace.json"), TENON_IO, "/nowhere/trace.json");
    FAILS(tenon_execution_trace_stop(), TENON_INVALID_ARGUMENT, "no execution trace");
    make_path();
    OK(tenon_execution_trace_start(path));
    FAILS(tenon_execution_trace_start(path), TENON_INVALID_ARGUMENT, "already");
    /* A profiler comes and goes. */
    OK(tenon_profiler_create(NULL, &profiler));
    OK(tenon_profiler_start(profiler));
    run_once(&r, 1);
    OK(tenon_profiler_stop(profiler));
    run_once(&r, 1);
    OK(tenon_execution_trace_stop());
    int count = 0;
    for (int at = -1;
         (at = find_event(profiler, TENON_EVENT_KERNEL, "aten.linear", at + 1, &event)) >= 0;)
        count++;
    ck_assert_int_eq(count, 1);
    tenon_profiler_destroy(&profiler);
    cJSON *trace = read_trace();
    const cJSON *node = NULL;
    ck_assert_int_eq(find_nodes(trace, "aten::linear", &node), 2);
    cJSON_Delete(trace);
    OK(tenon_execution_trace_start("/dev/full"));
    run_once(&r, 1);
    FAILS(tenon_execution_trace_stop(), TENON_IO, "/dev/full");
    drop_runner(&r);
}
END_TEST

static void *run_many(void *user) {
    for (int i = 0; i < 40; i++)
        if (try_run(user, 1 + i % 2) != TENON_OK)
            break;
    return NULL;
}

/* Each thread's runs stand below a node of its own, whole. */
START_TEST(threads_take_turns) {
    static runner r[3];
    pthread_t threads[3];
    const cJSON *node = NULL;
    int runs[3] = {0}, parents[3] = {0}, steps = 0;
    for (int i = 0; i < 3; i++)
        make_runner(&r[i], TENON_BACKEND_REFERENCE);
    make_path();
    OK(tenon_execution_trace_start(path));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_many, &r[i]), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    OK(tenon_execution_trace_stop());
    for (int i = 0; i < 3; i++)
        drop_runner(&r[i]);
    cJSON *trace = read_trace();
    cJSON_ArrayForEach(node, get(trace, "nodes")) {
        int parent = get(node, "ctrl_deps")->valueint, i = 0;
        steps += strcmp(get(node, "name")->valuestring, "aten::linear") == 0;
        if (strcmp(get(node, "name")->valuestring, "tenon_context_run") != 0)
            continue;
        while (i < 2 && parents[i] != 0 && parents[i] != parent)
            i++;
        parents[i] = parent;
        runs[i]++;
    }
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(runs[i], 40);
    ck_assert_int_eq(steps, 120);
    cJSON_Delete(trace);
}
END_TEST

START_TEST(children_of_fork_leave_the_file_alone) {
    static runner r;
    int status = -1;
    make_runner(&r, TENON_BACKEND_REFERENCE);
    make_path();
    OK(tenon_execution_trace_start(path));
    run_once(&r, 1);
    pid_t child = fork();
    if (child == 0) {
        bool right =
            try_run(&r, 1) == TENON_OK && tenon_execution_trace_stop() == TENON_INVALID_ARGUMENT;
        char other[sizeof path + 8];
        snprintf(other, sizeof other, "%s.child", path);
        right = right && tenon_execution_trace_start(other) == TENON_OK;
        right = right && try_run(&r, 1) == TENON_OK && tenon_execution_trace_stop() == TENON_OK &&
                unlink(other) == 0;
        _exit(right ? 0 : 1);
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    run_once(&r, 1);
    OK(tenon_execution_trace_stop());
    drop_runner(&r);
    cJSON *trace = read_trace();
    const cJSON *node = NULL;
    ck_assert_int_eq(find_nodes(trace, "tenon_context_run", &node), 2);
    cJSON_Delete(trace);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("execution_trace");
    TCase *tests = tcase_create("write");
    tcase_add_test(tests, values_keep_their_ids_from_node_to_node);
    tcase_add_test(tests, runs_share_weights_and_nothing_else);
    tcase_add_test(tests, partitions_have_what_is_fused_below_them);
    tcase_add_test(tests, one_is_written_at_a_time);
    tcase_add_test(tests, threads_take_turns);
    tcase_add_test(tests, children_of_fork_leave_the_file_alone);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
