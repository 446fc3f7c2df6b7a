/* Files that the profiler writes, read back. */
#include "files.h"
#include "profile_net.h"
#include "profiler/profiler.h"
#include <cjson/cJSON.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <zlib.h>

/* A quote, a backslash, a line end, a control byte, and bytes that are no UTF-8. */
#define NASTY "a \"q\" \\ b\n\x01 \xff\xc3 \xc3\xa9"
#define NASTY_READ "a \"q\" \\ b\n\x01 \xef\xbf\xbd\xef\xbf\xbd \xc3\xa9"

static tenon_profiler *record(const tenon_profiler_options *options, tenon_backend backend,
                              int runs) {
    static runner r;
    tenon_profiler *profiler = NULL;
    OK(tenon_profiler_create(options, &profiler));
    make_runner(&r, backend);
    OK(tenon_profiler_start(profiler));
    for (int i = 0; i < runs; i++) {
        run_once(&r, 2);
        if (options && options->schedule)
            OK(tenon_profiler_step(profiler));
    }
    OK(tenon_profiler_stop(profiler));
    drop_runner(&r);
    return profiler;
}

/* ---- Strict JSON ----
 * cJSON reads more than JSON is: raw control bytes, numbers with leading zeros. */

static void check_strict(const char *text) {
    bool quoted = false;
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at < 0x20 && (quoted || *at != '\n'))
            ck_abort_msg("a raw byte %d", *at);
        if (*at == '"')
            quoted = !quoted;
        else if (quoted && *at == '\\')
            at++;
        else if (!quoted && *at >= '0' && *at <= '9') {
            const char *number = (const char *)at;
            size_t length = strspn(number, "0123456789.eE+-");
            if (number[0] == '0' && length > 1 && number[1] >= '0' && number[1] <= '9')
                ck_abort_msg("a number %.20s", number);
            at += length - 1;
        }
        if (*at >= 0x80) { /* UTF-8 of two or three bytes is all that is in these files */
            int more = *at >= 0xe0 ? 2 : 1;
            if (*at < 0xc2 || *at >= 0xf0)
                ck_abort_msg("byte %x starts no character", *at);
            while (more-- > 0)
                if (*++at < 0x80 || *at > 0xbf)
                    ck_abort_msg("byte %x goes on with no character", *at);
        }
    }
}

static cJSON *read_json(const char *path) {
    static char text[1 << 22];
    gzFile file = gzopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    int length = gzread(file, text, sizeof text - 1);
    gzclose(file);
    ck_assert_int_gt(length, 0);
    ck_assert_int_lt(length, (int)sizeof text - 1);
    text[length] = '\0';
    check_strict(text);
    cJSON *json = cJSON_ParseWithOpts(text, NULL, 1);
    ck_assert_ptr_nonnull(json);
    return json;
}

static const char *text_of(const cJSON *object, const char *key) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, key));
    return text ? text : "";
}

static double number_of(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItem(object, key);
    ck_assert_msg(cJSON_IsNumber(item), "no number '%s'", key);
    return item->valuedouble;
}

/* The next event of that phase and, unless NULL, category and name. */
static const cJSON *find(const cJSON *trace, const cJSON *after, const char *phase,
                         const char *category, const char *name) {
    const cJSON *e =
        after ? after->next : cJSON_GetArrayItem(cJSON_GetObjectItem(trace, "traceEvents"), 0);
    for (; e; e = e->next)
        if (strcmp(text_of(e, "ph"), phase) == 0 &&
            (!category || strcmp(text_of(e, "cat"), category) == 0) &&
            (!name || strcmp(text_of(e, "name"), name) == 0))
            return e;
    return NULL;
}

static cJSON *export_trace(const tenon_profiler *profiler, const char *name) {
    const char *path = test_path(name);
    OK(tenon_profiler_export_chrome_trace(profiler, path));
    return read_json(path);
}

static int64_t nanoseconds(const cJSON *object, const char *key) {
    return llround(number_of(object, key) * 1000);
}

/* ---- The trace ---- */

/* Each event that was recorded stands in the trace, to the nanosecond. */
static void check_events(const tenon_profiler *profiler, const cJSON *trace) {
    int64_t base = (int64_t)number_of(trace, "baseTimeNanoseconds");
    const cJSON *at = NULL;
    tenon_event event;
    for (int i = 0; tenon_profiler_get_event(profiler, i, &event); i++) {
        bool users = event.kind == TENON_EVENT_USER || event.kind == TENON_EVENT_STEP;
        do
            at = find(trace, at, "X", NULL, NULL);
        while (at && strcmp(text_of(at, "cat"), "model_node") == 0);
        ck_assert_ptr_nonnull(at);
        ck_assert_str_eq(text_of(at, "name"), event.name);
        ck_assert_str_eq(text_of(at, "cat"), users ? "user_annotation" : "cpu_op");
        ck_assert_int_eq(base + nanoseconds(at, "ts"), event.start_ns);
        ck_assert_int_eq(nanoseconds(at, "dur"), event.end_ns - event.start_ns);
        ck_assert_int_eq((int64_t)number_of(at, "tid"), event.thread);
        ck_assert_int_eq((int)number_of(cJSON_GetObjectItem(at, "args"), "External id"), i + 1);
    }
}

/* The nodes of a step lie in its time, one behind the other, and an arrow leads from each of them
 * to it. */
static int check_nodes(const cJSON *trace, const cJSON *step) {
    const cJSON *ops = cJSON_GetObjectItem(cJSON_GetObjectItem(step, "args"), "Ops"), *op;
    int64_t at = nanoseconds(step, "ts"), end = at + nanoseconds(step, "dur");
    int count = 0;
    const cJSON *node = step;
    cJSON_ArrayForEach(op, ops) {
        node = find(trace, node, "X", "model_node", NULL);
        ck_assert_ptr_nonnull(node);
        const cJSON *args = cJSON_GetObjectItem(node, "args");
        ck_assert_str_eq(text_of(args, "Op"), op->valuestring);
        ck_assert_str_eq(text_of(args, "Step"), text_of(step, "name"));
        ck_assert_int_eq(strncmp(text_of(args, "Time"), "estimate", 8) == 0,
                         cJSON_GetArraySize(ops) > 1);
        ck_assert_int_eq(nanoseconds(node, "ts"), at);
        at += nanoseconds(node, "dur");
        count++;
        if (nanoseconds(node, "dur") == 0)
            continue;
        const cJSON *from = find(trace, node, "s", "node2step", NULL);
        const cJSON *to = find(trace, from, "f", "node2step", NULL);
        ck_assert_ptr_nonnull(from);
        ck_assert_ptr_nonnull(to);
        ck_assert_double_eq(number_of(from, "id"), number_of(to, "id"));
        ck_assert_double_eq(number_of(from, "tid"), number_of(node, "tid"));
        ck_assert_double_eq(number_of(to, "tid"), number_of(step, "tid"));
        ck_assert_int_eq(nanoseconds(from, "ts"), nanoseconds(node, "ts"));
        ck_assert_int_ge(nanoseconds(to, "ts"), nanoseconds(step, "ts"));
        ck_assert_int_lt(nanoseconds(to, "ts"), end);
        ck_assert_str_eq(text_of(to, "bp"), "e");
    }
    ck_assert_int_eq(at, end);
    return count;
}

START_TEST(traces_hold_what_was_recorded) {
    const tenon_profiler_options options = {.record_shapes = true,
                                            .profile_memory = true,
                                            .with_stack = true,
                                            .with_flops = true,
                                            .with_modules = true};
    tenon_profiler *profiler = record(&options, TENON_BACKEND_AUTO, 2);
    OK(tenon_profiler_add_metadata(profiler, "who", NASTY));
    OK(tenon_profiler_add_metadata_json(profiler, "sizes", "[1, {\"a\": 2.5}]"));
    cJSON *trace = export_trace(profiler, "trace.json.gz");
    check_events(profiler, trace);
    ck_assert_int_eq((int)number_of(trace, "schemaVersion"), 1);
    ck_assert_str_eq(text_of(trace, "displayTimeUnit"), "ms");
    ck_assert_str_eq(text_of(trace, "who"), NASTY_READ);
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItem(trace, "sizes")), 2);
    ck_assert_int_eq((int)number_of(trace, "record_shapes"), 1);
    int nodes = 0, partitions = 0;
    for (const cJSON *e = NULL; (e = find(trace, e, "X", "cpu_op", NULL)) != NULL;) {
        const cJSON *args = cJSON_GetObjectItem(e, "args");
        if (cJSON_GetObjectItem(args, "Ops"))
            nodes += check_nodes(trace, e);
        if (strcmp(text_of(args, "Kind"), "onednn") != 0)
            continue;
        partitions++;
        ck_assert(cJSON_GetArraySize(cJSON_GetObjectItem(args, "Input Dims")) > 0);
    }
    ck_assert_int_ge(nodes, 8); /* four, twice */
    ck_assert_int_ge(partitions, 2);
    const cJSON *conv = NULL;
    for (const cJSON *e = NULL; !conv && (e = find(trace, e, "X", "model_node", NULL)) != NULL;)
        if (strstr(text_of(cJSON_GetObjectItem(e, "args"), "Op"), "convolution"))
            conv = cJSON_GetObjectItem(e, "args");
    ck_assert_str_eq(text_of(conv, "Module Hierarchy"), "features.0");
    ck_assert_double_eq(number_of(conv, "flops"), 2.0 * 2 * 8 * 16 * 16 * 3 * 3 * 3);
    cJSON_Delete(trace);
    tenon_profiler_destroy(&profiler);
}
END_TEST

START_TEST(traces_hold_shapes_and_memory) {
    const tenon_profiler_options options = {.record_shapes = true, .profile_memory = true};
    tenon_profiler *profiler = record(&options, TENON_BACKEND_REFERENCE, 1);
    cJSON *trace = export_trace(profiler, "shapes.json");
    const cJSON *conv = find(trace, NULL, "X", "cpu_op", "aten.convolution");
    ck_assert_ptr_nonnull(conv);
    const cJSON *args = cJSON_GetObjectItem(conv, "args");
    char *dims = cJSON_PrintUnformatted(cJSON_GetObjectItem(args, "Input Dims"));
    char *types = cJSON_PrintUnformatted(cJSON_GetObjectItem(args, "Input type"));
    char *strides = cJSON_PrintUnformatted(cJSON_GetObjectItem(args, "Input Strides"));
    ck_assert_ptr_nonnull(strstr(dims, "[2,3,16,16],[8,3,3,3]"));
    ck_assert_ptr_nonnull(strstr(types, "\"float\",\"float\""));
    ck_assert_ptr_nonnull(strstr(strides, "[768,256,16,1]"));
    cJSON_free(dims);
    cJSON_free(types);
    cJSON_free(strides);
    tenon_memory_event change;
    const cJSON *instant = NULL, *counter = NULL;
    int count = 0;
    for (; tenon_profiler_get_memory(profiler, count, &change); count++) {
        instant = find(trace, instant, "i", NULL, "[memory]");
        counter = find(trace, counter, "C", NULL, "Allocated");
        ck_assert_ptr_nonnull(instant);
        ck_assert_ptr_nonnull(counter);
        const cJSON *what = cJSON_GetObjectItem(instant, "args");
        ck_assert_double_eq(number_of(what, "Bytes"), (double)change.bytes);
        ck_assert_double_eq(number_of(what, "Total Allocated"), (double)change.total);
        ck_assert_double_eq(number_of(cJSON_GetObjectItem(counter, "args"), "bytes"),
                            (double)change.total);
    }
    ck_assert_int_gt(count, 0);
    ck_assert_ptr_null(find(trace, instant, "i", NULL, "[memory]"));
    cJSON_Delete(trace);
    tenon_profiler_destroy(&profiler);
}
END_TEST

START_TEST(traces_without_fusion_say_so) {
    for (int split = 0; split < 2; split++) {
        float x[3 * 16 * 16] = {0};
        tenon_graph *graph = parse_graph(net_text);
        tenon_session *session = NULL;
        tenon_context *context = NULL;
        tenon_profiler *profiler = NULL;
        tenon_view input = view_of(x, TENON_FLOAT32, 1, 3, 16, 16), output = {0};
        OK(tenon_session_create(graph, &(tenon_session_options){.split_ops = split != 0},
                                &session));
        OK(tenon_context_create(session, &context));
        OK(tenon_profiler_create(NULL, &profiler));
        OK(tenon_profiler_start(profiler));
        OK(tenon_context_run(context, &input, 1, &output, 1));
        OK(tenon_profiler_stop(profiler));
        cJSON *trace = export_trace(profiler, "split.json");
        const cJSON *labels = find(trace, NULL, "M", NULL, "process_labels");
        const char *text = text_of(cJSON_GetObjectItem(labels, "args"), "labels");
        ck_assert_int_eq(strstr(text, "perturbed") != NULL, split);
        int estimates = 0;
        for (const cJSON *e = NULL; (e = find(trace, e, "X", "model_node", NULL)) != NULL;)
            estimates += strcmp(text_of(cJSON_GetObjectItem(e, "args"), "Time"), "measured") != 0;
        ck_assert_int_eq(estimates > 0, !split);
        cJSON_Delete(trace);
        tenon_profiler_destroy(&profiler);
        tenon_context_destroy(&context);
        tenon_session_destroy(&session);
        tenon_graph_destroy(&graph);
    }
}
END_TEST

/* Ranges that begin and end within one reading of the clock last 0 ns, or nearly so. */
START_TEST(nasty_names_stay_valid) {
    tenon_profiler *profiler = NULL;
    OK(tenon_profiler_create(NULL, &profiler));
    OK(tenon_profiler_start(profiler));
    for (int i = 0; i < 1000; i++) {
        tenon_record_function_begin(NASTY);
        tenon_record_function_end();
    }
    tenon_record_function_begin("");
    tenon_record_function_end();
    OK(tenon_profiler_stop(profiler));
    /* 0 ns, whatever the clock did. */
    profiler->trace->events[0].end_ns = profiler->trace->events[0].start_ns;
    profiler->trace->events[0].self_ns = 0;
    OK(tenon_profiler_add_metadata(profiler, NASTY, "v"));
    cJSON *trace = export_trace(profiler, "nasty \"\\\n\xff.json");
    const cJSON *e = NULL;
    for (int i = 0; i < 1000; i++) {
        e = find(trace, e, "X", "user_annotation", NASTY_READ);
        ck_assert_ptr_nonnull(e);
        ck_assert_double_ge(number_of(e, "dur"), 0);
        ck_assert_int_eq(i == 0 && number_of(e, "dur") != 0, 0);
    }
    ck_assert_ptr_nonnull(find(trace, NULL, "X", "user_annotation", ""));
    ck_assert_str_eq(text_of(trace, NASTY_READ), "v");
    ck_assert_ptr_nonnull(strstr(text_of(trace, "traceName"), "nasty \"\\\n\xef\xbf\xbd.json"));
    cJSON_Delete(trace);
    tenon_profiler_destroy(&profiler);
}
END_TEST

/* A node of that name, through a graph. */
START_TEST(nasty_nodes_stay_valid) {
    float x[4] = {1, -1, 2, -2};
    const char *const dims[1] = {"4"};
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    tenon_profiler *profiler = NULL;
    tenon_value *value = NULL;
    tenon_node *node = NULL;
    OK(tenon_graph_create(NASTY, &graph));
    OK(tenon_graph_add_input(graph, "x", TENON_FLOAT32, 1, dims, &value));
    OK(tenon_graph_add_node(graph, "aten.sin", NASTY, (tenon_arg[]){tenon_arg_value(value)}, 1,
                            &node));
    OK(tenon_graph_add_output(graph, "y", tenon_arg_value(tenon_node_output(node, 0))));
    OK(tenon_session_create(graph, NULL, &session));
    OK(tenon_context_create(session, &context));
    OK(tenon_profiler_create(&(tenon_profiler_options){.with_stack = true}, &profiler));
    OK(tenon_profiler_start(profiler));
    tenon_view input = floats(x, 4, -1), output = {0};
    OK(tenon_context_run(context, &input, 1, &output, 1));
    OK(tenon_profiler_stop(profiler));
    cJSON *trace = export_trace(profiler, "node.json");
    const cJSON *found = find(trace, NULL, "X", "model_node", NASTY_READ);
    ck_assert_ptr_nonnull(found);
    ck_assert_str_eq(text_of(cJSON_GetObjectItem(found, "args"), "Op"), "aten.sin");
    cJSON_Delete(trace);
    tenon_profiler_destroy(&profiler);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
}
END_TEST

/* ---- Stacks ---- */

typedef struct folded {
    char text[4096];
    int64_t value;
} folded;

/* Reads the file as flame graph tools do: the number stands behind the last space of a line. */
static int read_stacks(const char *path, folded *out, int capacity) {
    size_t size;
    char *data = test_read(path, &size);
    int count = 0;
    ck_assert_uint_eq(strlen(data), size);
    for (char *line = data, *end; *line; line = end + 1) {
        char *rest;
        end = strchr(line, '\n');
        ck_assert_ptr_nonnull(end);
        *end = '\0';
        char *space = strrchr(line, ' ');
        ck_assert_ptr_nonnull(space);
        ck_assert_ptr_eq(strchr(line, ' '), space); /* none in the frames */
        ck_assert_int_lt(count, capacity);
        out[count].value = strtoll(space + 1, &rest, 10);
        ck_assert_msg(*rest == '\0' && rest > space + 1, "no number: %s", space);
        ck_assert_int_gt(out[count].value, 0);
        *space = '\0';
        ck_assert_uint_lt(strlen(line), sizeof out->text);
        strcpy(out[count++].text, line);
        for (int i = 0; i < count - 1; i++)
            ck_assert_str_ne(out[i].text, out[count - 1].text);
    }
    free(data);
    return count;
}

static int64_t stack_value(const folded *stacks, int count, const char *text) {
    for (int i = 0; i < count; i++)
        if (strcmp(stacks[i].text, text) == 0)
            return stacks[i].value;
    ck_abort_msg("no stack '%s'", text);
    return 0;
}

static int64_t sum_of(const folded *stacks, int count) {
    int64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += stacks[i].value;
    return sum;
}

/* Gives the event its times as if it had lasted that long, in order. */
static void set_time(tenon_profiler *profiler, int index, int64_t ns, int64_t self) {
    tenon_event *event = &profiler->trace->events[index];
    event->end_ns = event->start_ns + ns;
    event->self_ns = self;
}

START_TEST(stacks_sum_to_the_total) {
    folded stacks[8];
    tenon_profiler *profiler = NULL;
    OK(tenon_profiler_create(NULL, &profiler));
    OK(tenon_profiler_start(profiler));
    tenon_record_function_begin("outer one");
    for (int i = 0; i < 3; i++) {
        tenon_record_function_begin("a;b c\td\ne");
        tenon_record_function_begin("\xff in;nermost");
        tenon_record_function_end();
        tenon_record_function_end();
    }
    tenon_record_function_begin("");
    tenon_record_function_end();
    tenon_record_function_end();
    OK(tenon_profiler_stop(profiler));
    ck_assert_int_eq(tenon_profiler_event_count(profiler), 8);
    /* 3 x (2.4 + 0.3) us in 0.3 + 8.1 + 1.4 us: 300, 7200, 900 and 1400 ns, 9.8 us in all. */
    set_time(profiler, 0, 9800, 300);
    for (int i = 1; i < 7; i += 2) {
        set_time(profiler, i, 2700, 2400);
        set_time(profiler, i + 1, 300, 300);
    }
    set_time(profiler, 7, 1400, 1400);
    const char *path = test_path("stacks.txt");
    OK(tenon_profiler_export_stacks(profiler, path, "self_cpu_time_total"));
    int count = read_stacks(path, stacks, 8);
    ck_assert_int_eq(count, 3);
    ck_assert_int_eq(stack_value(stacks, count, "outer_one;a_b_c_d_e"), 7);
    ck_assert_int_eq(stack_value(stacks, count, "outer_one;a_b_c_d_e;\xef\xbf\xbd_in_nermost"), 1);
    ck_assert_int_eq(stack_value(stacks, count, "outer_one;_"), 2);
    ck_assert_int_eq(sum_of(stacks, count), 10);
    OK(tenon_profiler_export_stacks(profiler, path, "cpu_time_total"));
    count = read_stacks(path, stacks, 8);
    ck_assert_int_eq(stack_value(stacks, count, "outer_one"), 10);
    ck_assert_int_eq(stack_value(stacks, count, "outer_one;a_b_c_d_e"), 8);
    FAILS(tenon_profiler_export_stacks(profiler, path, "self_cuda_time_total"),
          TENON_INVALID_ARGUMENT, "Tenon runs on CPUs");
    FAILS(tenon_profiler_export_stacks(profiler, path, "time"), TENON_INVALID_ARGUMENT,
          "no metric 'time'");
    tenon_profiler_destroy(&profiler);
}
END_TEST

START_TEST(stacks_of_models_sum_to_the_total) {
    static folded stacks[512];
    int64_t total = 0;
    tenon_event event;
    for (int with_stack = 0; with_stack < 2; with_stack++) {
        const tenon_profiler_options options = {.with_stack = with_stack != 0};
        tenon_profiler *profiler = record(&options, TENON_BACKEND_AUTO, 3);
        total = 0;
        for (int i = 0; tenon_profiler_get_event(profiler, i, &event); i++)
            total += event.self_ns;
        const char *path = test_path("model.txt");
        OK(tenon_profiler_export_stacks(profiler, path, "self_cpu_time_total"));
        int count = read_stacks(path, stacks, 512), callers = 0, own = 0;
        ck_assert_int_gt(count, 0);
        ck_assert_int_eq(sum_of(stacks, count), (total + 500) / 1000);
        for (int i = 0; i < count; i++) {
            callers += strncmp(stacks[i].text, "tenon_context_run", 17) != 0;
            const char *run = strstr(stacks[i].text, "tenon_context_run");
            own += run && strstr(run + 1, "aten.m") != NULL; /* steps lie within runs */
            ck_assert_ptr_null(strstr(stacks[i].text, "[0x"));
            ck_assert_ptr_null(strstr(stacks[i].text, "tenon_context_run;tenon_context_run"));
        }
        ck_assert_int_eq(callers, with_stack ? count : 0);
        ck_assert_int_gt(own, 0);
        tenon_profiler_destroy(&profiler);
    }
}
END_TEST

/* ---- Files ---- */

START_TEST(failures_name_the_file) {
    tenon_profiler *profiler = NULL;
    size_t size;
    OK(tenon_profiler_create(NULL, &profiler));
    FAILS(tenon_profiler_export_chrome_trace(profiler, "t.json"), TENON_INVALID_ARGUMENT,
          "recorded nothing");
    FAILS(tenon_profiler_export_stacks(profiler, "t", "cpu_time_total"), TENON_INVALID_ARGUMENT,
          "recorded nothing");
    OK(tenon_profiler_start(profiler));
    OK(tenon_profiler_stop(profiler));
    FAILS(tenon_profiler_export_chrome_trace(profiler, "/nowhere/t.json"), TENON_IO,
          "/nowhere/t.json");
    FAILS(tenon_profiler_export_chrome_trace(profiler, "/dev/full"), TENON_IO, "/dev/full");
    FAILS(tenon_profiler_export_memory_timeline(profiler, "t.json"), TENON_INVALID_ARGUMENT,
          "profile_memory");
    /* A recording without events is a trace too; what stood there is replaced. */
    const char *path = test_path("there.json");
    test_write(path, "old", 3);
    OK(tenon_profiler_export_chrome_trace(profiler, path));
    cJSON *trace = read_json(path);
    ck_assert_ptr_null(find(trace, NULL, "X", "cpu_op", NULL));
    cJSON_Delete(trace);
    OK(tenon_profiler_export_stacks(profiler, path, "cpu_time_total"));
    free(test_read(path, &size));
    ck_assert_uint_eq(size, 0);
    OK(tenon_profiler_export_chrome_trace(profiler, "/dev/null"));
    tenon_profiler_destroy(&profiler);
}
END_TEST

START_TEST(metadata_is_strict) {
    static const char *const bad[] = {
        "01", "1.", "-.5", "\"a\nb\"", "\"\xff\"",  "[1,\x02 2]", "{\"a\": 1.e3}",
        "",   "[1", "nan", "1e",       "{\"a\":1}x"};
    static const char *const good[] = {"0", "-1.5e+3", "\"01 \\\" 1.\"", "[0.5, 10, {\"\": null}]",
                                       "12345678901234567890"};
    tenon_profiler *profiler = NULL;
    OK(tenon_profiler_create(NULL, &profiler));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(tenon_profiler_add_metadata_json(profiler, "k", bad[i]), TENON_INVALID_ARGUMENT,
              "no JSON");
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        OK(tenon_profiler_add_metadata_json(profiler, "k", good[i]));
    FAILS(tenon_profiler_add_metadata(profiler, "traceEvents", "x"), TENON_INVALID_ARGUMENT,
          "traceEvents");
    FAILS(tenon_profiler_add_metadata_json(profiler, "schemaVersion", "2"), TENON_INVALID_ARGUMENT,
          "schemaVersion");
    tenon_profiler_destroy(&profiler);
}
END_TEST

/* ---- TensorBoard ---- */

static int folder_files(const char *folder, char names[][256], int capacity) {
    struct dirent *entry;
    DIR *dir = opendir(folder);
    int count = 0;
    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.') {
            ck_assert_int_lt(count, capacity);
            snprintf(names[count++], 256, "%s", entry->d_name);
        }
    closedir(dir);
    return count;
}

START_TEST(traces_for_tensorboard_have_its_names) {
    const tenon_profiler_schedule schedule = {.wait = 1, .warmup = 1, .active = 2, .repeat = 2};
    char folder[600], names[4][256], host[256] = "", worker[300];
    gethostname(host, sizeof host - 1);
    snprintf(worker, sizeof worker, "%s_%d.", host, (int)getpid());
    for (int gzip = 0; gzip < 2; gzip++) {
        snprintf(folder, sizeof folder, "%s", test_path(gzip ? "new/er/gz" : "new/logs/"));
        tenon_tensorboard_options board = {
            .folder = folder, .worker = gzip ? "w 1" : NULL, .gzip = gzip != 0};
        const tenon_profiler_options options = {.schedule = &schedule,
                                                .on_trace_ready = tenon_tensorboard_trace_handler,
                                                .ready_user = &board};
        tenon_profiler *profiler = record(&options, TENON_BACKEND_AUTO, 8);
        tenon_profiler_destroy(&profiler);
        ck_assert_int_eq(folder_files(folder, names, 4), 2);
        bool seen[2] = {false, false};
        for (int i = 0; i < 2; i++) {
            const char *start = gzip ? "w 1." : worker, *end = NULL;
            char path[2000];
            ck_assert_int_eq(strncmp(names[i], start, strlen(start)), 0);
            long long stamp = strtoll(names[i] + strlen(start), (char **)&end, 10);
            ck_assert(stamp > 1000000000LL * 1000000000);
            ck_assert_str_eq(end, gzip ? ".pt.trace.json.gz" : ".pt.trace.json");
            snprintf(path, sizeof path, "%s/%s", folder, names[i]);
            cJSON *trace = read_json(path);
            int second = find(trace, NULL, "X", "user_annotation", "ProfilerStep#6") != NULL;
            const char *steps[2][2] = {{"ProfilerStep#2", "ProfilerStep#3"},
                                       {"ProfilerStep#6", "ProfilerStep#7"}};
            for (int s = 0; s < 2; s++)
                ck_assert_ptr_nonnull(find(trace, NULL, "X", "user_annotation", steps[second][s]));
            seen[second] = true;
            cJSON_Delete(trace);
        }
        ck_assert(seen[0] && seen[1]);
    }
}
END_TEST

static void take_message(tenon_log_level level, const char *message, void *user) {
    ck_assert_int_eq(level, TENON_LOG_ERROR);
    snprintf(user, 512, "%s", message);
}

START_TEST(handlers_log_failures) {
    char message[512] = "";
    tenon_tensorboard_options board = {.folder = "/dev/null/logs"};
    tenon_log_set(TENON_LOG_WARN, take_message, message);
    tenon_profiler *profiler =
        record(&(tenon_profiler_options){.on_trace_ready = tenon_tensorboard_trace_handler,
                                         .ready_user = &board},
               TENON_BACKEND_AUTO, 1);
    ck_assert_msg(strstr(message, "/dev/null/logs") != NULL, "%s", message);
    tenon_log_set(TENON_LOG_WARN, NULL, NULL);
    tenon_profiler_destroy(&profiler);
}
END_TEST

/* ---- Memory ---- */

START_TEST(memory_timelines_follow_the_changes) {
    tenon_profiler *profiler =
        record(&(tenon_profiler_options){.profile_memory = true}, TENON_BACKEND_REFERENCE, 1);
    /* As if more had been released than was allocated. */
    tn_trace *trace = profiler->trace;
    ck_assert_int_gt(trace->change_count, 0);
    int64_t peak = trace->changes[0].total;
    trace->changes[0].bytes -= peak + 100;
    for (int i = 0; i < trace->change_count; i++)
        trace->changes[i].total -= peak + 100;
    const char *names[] = {"memory.json", "memory.json.gz"};
    for (int n = 0; n < 2; n++) {
        const char *path = test_path(names[n]);
        OK(tenon_profiler_export_memory_timeline(profiler, path));
        cJSON *json = read_json(path);
        ck_assert_int_eq(cJSON_GetArraySize(json), 2);
        const cJSON *times = cJSON_GetArrayItem(json, 0), *sizes = cJSON_GetArrayItem(json, 1);
        ck_assert_int_eq(cJSON_GetArraySize(times), trace->change_count + 1);
        ck_assert_int_eq(cJSON_GetArraySize(sizes), trace->change_count + 1);
        double before = cJSON_GetArrayItem(cJSON_GetArrayItem(sizes, 0), 8)->valuedouble;
        ck_assert_double_ge(before, 100);
        for (int i = 0; i < trace->change_count; i++) {
            const cJSON *row = cJSON_GetArrayItem(sizes, i + 1);
            ck_assert_int_eq(cJSON_GetArraySize(row), 9);
            ck_assert_double_eq(cJSON_GetArrayItem(row, 8)->valuedouble,
                                before + (double)trace->changes[i].total);
            ck_assert_double_ge(cJSON_GetArrayItem(row, 8)->valuedouble, 0);
            ck_assert_double_eq(cJSON_GetArrayItem(times, i + 1)->valuedouble,
                                (double)(trace->changes[i].time_ns / 1000));
        }
        cJSON_Delete(json);
    }
    tenon_profiler_destroy(&profiler);
}
END_TEST

START_TEST(memory_pages_stand_alone) {
    size_t size;
    tenon_profiler *profiler = NULL;
    OK(tenon_profiler_create(&(tenon_profiler_options){.profile_memory = true}, &profiler));
    OK(tenon_profiler_start(profiler));
    tenon_record_function_begin("</script><b>" NASTY);
    tenon_session *session = make_session(net_text, TENON_BACKEND_REFERENCE);
    tenon_session_destroy(&session);
    tn_profile_memory(1234);
    tenon_record_function_end();
    OK(tenon_profiler_stop(profiler));
    const char *path = test_path("memory.html");
    OK(tenon_profiler_export_memory_timeline(profiler, path));
    char *page = test_read(path, &size);
    char *start = strstr(page, "id=\"data\">"), *end = start ? strstr(start, "</script>") : NULL;
    ck_assert_ptr_nonnull(end);
    ck_assert_ptr_null(strstr(page, "http"));
    ck_assert_ptr_null(strstr(page, "src="));
    *end = '\0';
    check_strict(start + 10);
    cJSON *data = cJSON_ParseWithOpts(start + 10, NULL, 1);
    ck_assert_ptr_nonnull(data);
    const cJSON *names = cJSON_GetObjectItem(data, "names"), *changes, *change = NULL;
    changes = cJSON_GetObjectItem(data, "changes");
    ck_assert_int_eq(cJSON_GetArraySize(changes), tenon_profiler_memory_count(profiler));
    bool found = false;
    cJSON_ArrayForEach(change, changes) {
        int name = cJSON_GetArrayItem(change, 2)->valueint;
        if (cJSON_GetArrayItem(change, 1)->valueint != 1234)
            continue;
        ck_assert_str_eq(cJSON_GetArrayItem(names, name)->valuestring, "</script><b>" NASTY_READ);
        found = true;
    }
    ck_assert(found);
    cJSON_Delete(data);
    free(page);
    tenon_profiler_destroy(&profiler);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("profiler_export");
    TCase *tests = tcase_create("export");
    tcase_add_test(tests, traces_hold_what_was_recorded);
    tcase_add_test(tests, traces_hold_shapes_and_memory);
    tcase_add_test(tests, traces_without_fusion_say_so);
    tcase_add_test(tests, nasty_names_stay_valid);
    tcase_add_test(tests, nasty_nodes_stay_valid);
    tcase_add_test(tests, stacks_sum_to_the_total);
    tcase_add_test(tests, stacks_of_models_sum_to_the_total);
    tcase_add_test(tests, failures_name_the_file);
    tcase_add_test(tests, metadata_is_strict);
    tcase_add_test(tests, traces_for_tensorboard_have_its_names);
    tcase_add_test(tests, handlers_log_failures);
    tcase_add_test(tests, memory_timelines_follow_the_changes);
    tcase_add_test(tests, memory_pages_stand_alone);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
