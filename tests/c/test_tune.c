/* Choosing by measurement: what is measured and when, the file, and that all ways compute the same.
 * Which way is faster is nobody's business here. */
#include "files.h"
#include "fusion/choose.h"
#include "run/session.h"
#include "run/tune.h"
#include "run_graph.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define CONVOLUTION(y, x) \
    "%" y " = aten.convolution(%" x ", %w, %b, [1, 1], [1, 1], [1, 1], false, [0, 0], 2)\n"
#define WEIGHTS                                                \
    "const %w: float32[32, 16, 3, 3] = random(7, -0.3, 0.3)\n" \
    "const %b: float32[32] = random(8)\n"

static const char convolution[] =
    "graph g {\ninput %x: float32[1, 32, 12, 12]\n" WEIGHTS CONVOLUTION(
        "y", "x") "%z = aten.relu(%y)\noutput \"z\" = %z\n}\n";
static const char linear[] = "graph g {\ninput %x: float32[32, 192]\n"
                             "const %w: float32[256, 192] = random(5, -0.2, 0.2)\n"
                             "const %b: float32[256] = random(6)\n"
                             "%y = aten.linear(%x, %w, %b)\n%z = aten.gelu(%y)\n"
                             "output \"z\" = %z\n}\n";

static tenon_session *make(const char *text, tenon_session_options options) {
    tenon_graph *graph = parse_graph(text);
    tenon_session *session = NULL;
    options.threads = 1;
    OK(tenon_session_create(graph, &options, &session));
    tenon_graph_destroy(&graph);
    return session;
}

static tenon_session *tuned(const char *text, const char *file) {
    return make(text, (tenon_session_options){.tune = file});
}

/* How many candidates a session for the graph measures. */
static int64_t measured(const char *text, const char *file) {
    tenon_session *session = tuned(text, file);
    int64_t count = session->tuner->measured;
    tenon_session_destroy(&session);
    return count;
}

static cJSON *read_json(const char *file) {
    size_t size;
    char *text = test_read(file, &size);
    cJSON *root = cJSON_Parse(text);
    ck_assert_msg(root != NULL, "%s", text);
    free(text);
    return root;
}

static void write_json(const char *file, const cJSON *root) {
    char *text = cJSON_Print(root);
    test_write(file, text, strlen(text));
    cJSON_free(text);
}

static cJSON *entry_of(const cJSON *root, int index) {
    return cJSON_GetArrayItem(cJSON_GetObjectItem(root, "entries"), index);
}

static int entry_count(const char *file) {
    cJSON *root = read_json(file);
    int count = cJSON_GetArraySize(cJSON_GetObjectItem(root, "entries"));
    cJSON_Delete(root);
    return count;
}

/* Puts another choice into the first entry. */
static void force(const char *file, const char *choice) {
    cJSON *root = read_json(file);
    cJSON_ReplaceItemInObject(entry_of(root, 0), "choice", cJSON_CreateString(choice));
    write_json(file, root);
    cJSON_Delete(root);
}

/* ---- What is measured ---- */

START_TEST(each_candidate_is_measured_once) {
    const char *file = test_path("once.json");
    ck_assert_int_eq(measured(convolution, file), 1);
    ck_assert_int_eq(measured(convolution, file), 0);
    ck_assert_int_eq(measured(linear, file), 1);
    ck_assert_int_eq(measured(linear, file), 0);
    ck_assert_int_eq(entry_count(file), 2);
    cJSON *root = read_json(file);
    const char *const ways[2][3] = {{"direct", "Winograd 2x2", "Winograd 4x4"},
                                    {"oneDNN", "packed", "Strassen"}};
    for (int i = 0; i < 2; i++) {
        const cJSON *times = cJSON_GetObjectItem(entry_of(root, i), "times_us");
        ck_assert_int_eq(cJSON_GetArraySize(times), 3);
        for (int way = 0; way < 3; way++)
            ck_assert_float_gt(cJSON_GetObjectItem(times, ways[i][way])->valuedouble, 0);
    }
    cJSON_Delete(root);
}
END_TEST

START_TEST(equal_nodes_are_one_candidate) {
    /* The second reads what the first gives, channels-last. */
    ck_assert_int_eq(measured("graph g {\ninput %x: float32[1, 32, 12, 12]\n" WEIGHTS CONVOLUTION(
                                  "y", "x") CONVOLUTION("z", "y") CONVOLUTION("v", "z")
                                  CONVOLUTION("u", "v") "output \"u\" = %u\n}\n",
                              test_path("equal.json")),
                     2);
    /* Other post-ops. */
    ck_assert_int_eq(measured("graph g {\ninput %x: float32[1, 32, 12, 12]\n" WEIGHTS
                                  CONVOLUTION("y", "x") "%r = aten.relu(%y)\n" CONVOLUTION(
                                      "z", "r") "%s = aten.add.Tensor(%z, %r)\n%t = aten.relu(%s)\n"
                                                "output \"t\" = %t\n}\n",
                              test_path("post.json")),
                     2);
}
END_TEST

START_TEST(each_shape_has_candidates_of_its_own) {
    static float numbers[24 * 32 * 144];
    tenon_session *session = tuned(
        "graph g {\nsymbol s in [1, 64]\ninput %x: float32[s, 32, 12, 12]\n" WEIGHTS CONVOLUTION(
            "y", "x") "output \"y\" = %y\n}\n",
        test_path("shapes.json"));
    const int64_t batches[] = {1, 2, 1, 24};
    const int64_t counts[] = {1, 2, 2, 3};
    for (int i = 0; i < 4; i++) {
        tenon_view in = view_of(numbers, TENON_FLOAT32, batches[i], 32, 12, 12);
        OK(tenon_session_compile(session, &in, 1));
        ck_assert_int_eq(session->tuner->measured, counts[i]);
    }
    tenon_session_destroy(&session);
}
END_TEST

START_TEST(there_is_nothing_to_choose_for_one_backend_alone) {
    const char *file = test_path("backend.json");
    for (int backend = TENON_BACKEND_ONEDNN; backend <= TENON_BACKEND_REFERENCE; backend++) {
        tenon_session *session = make(
            convolution, (tenon_session_options){.backend = (tenon_backend)backend, .tune = file});
        ck_assert_int_eq(session->tuner->measured, 0);
        tenon_session_destroy(&session);
    }
    ck_assert_int_ne(access(file, F_OK), 0);
}
END_TEST

START_TEST(a_dry_run_measures_nothing) {
    const char *file = test_path("dry.json");
    const tenon_session_options dry = {.dry_run = true, .tune = file};
    tenon_step_info step;
    tenon_session *session = make(convolution, dry);
    ck_assert_int_eq(session->tuner->measured, 0);
    OK(tenon_session_get_step(session, 0, &step));
    ck_assert_str_eq(step.choice, "");
    tenon_session_destroy(&session);
    ck_assert_int_ne(access(file, F_OK), 0);
    ck_assert_int_eq(measured(convolution, file), 1);
    force(file, "Winograd 2x2");
    session = make(convolution, dry);
    OK(tenon_session_get_step(session, 0, &step));
    ck_assert_str_eq(tenon_node_op(step.nodes[0]), "tenon.winograd_convolution");
    ck_assert_ptr_nonnull(strstr(step.choice, "Winograd 2x2 by measurement: direct "));
    tenon_session_destroy(&session);
}
END_TEST

START_TEST(the_default_file_is_in_the_cache_folder) {
    char file[600];
    setenv("XDG_CACHE_HOME", test_path("cache"), 1);
    snprintf(file, sizeof file, "%s/tenon/choices.json", test_path("cache"));
    ck_assert_int_eq(measured(convolution, ""), 1);
    ck_assert_int_eq(entry_count(file), 1);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", test_path("home"), 1);
    snprintf(file, sizeof file, "%s/.cache/tenon/choices.json", test_path("home"));
    ck_assert_int_eq(measured(convolution, ""), 1);
    ck_assert_int_eq(entry_count(file), 1);
}
END_TEST

/* ---- What is chosen ---- */

static void run(tenon_session *session, float *out, int64_t count) {
    float numbers[32 * 192];
    tenon_context *context = NULL;
    tenon_view in = {.data = numbers}, got = {0};
    const tenon_value *input = session->graph->inputs[0];
    in = tn_view_make(numbers, TENON_FLOAT32, input->rank, input->shape);
    for (int64_t i = 0; i < tenon_view_numel(&in); i++)
        numbers[i] = (float)(i * 7919 % 1009) / 500.0f - 1.0f;
    OK(tenon_context_create(session, &context));
    OK(tenon_context_run(context, &in, 1, &got, 1));
    ck_assert_int_eq(tenon_view_numel(&got), count);
    memcpy(out, got.data, (size_t)count * sizeof *out);
    tenon_context_destroy(&context);
}

/* `op` is the one that computes it. */
static void check_forced(const char *text, const char *file, const char *choice, const char *op,
                         const float *want, int64_t count) {
    tenon_step_info step;
    tenon_node_info node;
    float *got = malloc((size_t)count * sizeof *got), worst = 0;
    force(file, choice);
    tenon_session *session = tuned(text, file);
    ck_assert_int_eq(session->tuner->measured, 0);
    OK(tenon_session_get_step(session, 0, &step));
    ck_assert_str_eq(tenon_node_op(step.nodes[0]), op);
    ck_assert_msg(strncmp(step.choice, choice, strlen(choice)) == 0, "%s", step.choice);
    OK(tenon_session_get_node(session, step.nodes[0], &node));
    ck_assert_str_eq(node.choice, step.choice);
    if (step.reason_kind == TENON_REASON_KERNEL_PASS)
        ck_assert_ptr_nonnull(strstr(step.reason, step.choice));
    run(session, got, count);
    for (int64_t i = 0; i < count; i++)
        worst = fmaxf(worst, fabsf(got[i] - want[i]));
    ck_assert_msg(worst < 1e-4f, "%s: error %g", choice, (double)worst);
    tenon_session_destroy(&session);
    free(got);
}

static void check_ways(const char *text, const char *file, const char *const (*ways)[2], int count,
                       int64_t elements) {
    float *want = malloc((size_t)elements * sizeof *want);
    tenon_session *session =
        make(text, (tenon_session_options){.backend = TENON_BACKEND_REFERENCE});
    run(session, want, elements);
    tenon_session_destroy(&session);
    ck_assert_int_eq(measured(text, file), 1);
    for (int i = 0; i < count; i++)
        check_forced(text, file, ways[i][0], ways[i][1], want, elements);
    free(want);
}

START_TEST(the_file_decides) {
    static const char *const convolutions[][2] = {
        {"direct", "aten.convolution"},
        {"Winograd 2x2", "tenon.winograd_convolution"},
        {"Winograd 4x4", "tenon.winograd_convolution"},
    };
    static const char *const products[][2] = {
        {"oneDNN", "aten.linear"},
        {"packed", "tenon.packed_linear"},
        {"Strassen", "tenon.packed_linear"},
    };
    check_ways(convolution, test_path("conv.json"), convolutions, 3, 32 * 144);
    check_ways(linear, test_path("linear.json"), products, 3, 32 * 256);
}
END_TEST

/* ---- All ways, of all passes ---- */

/* Runs the candidate in each way, and takes the last one. */
typedef struct comparer {
    tn_chooser chooser;
    int64_t candidates, ways;
} comparer;

static void run_way(const tn_candidate *candidate, int way, float *out, int64_t *count) {
    tenon_graph *graph = NULL;
    tenon_passes *passes = NULL;
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    tenon_view in[4] = {0}, got[2] = {0};
    OK(tn_candidate_graph(candidate, way, &graph));
    OK(tenon_graph_verify(graph));
    OK(tenon_passes_create_minimal(&passes));
    OK(tenon_session_create(graph, &(tenon_session_options){.threads = 1, .passes = passes},
                            &session));
    OK(tenon_context_create(session, &context));
    ck_assert_int_le(graph->input_count, 4);
    ck_assert_int_le(graph->output_count, 2);
    for (int i = 0; i < graph->input_count; i++) {
        const tenon_value *input = graph->inputs[i];
        in[i] = tn_view_make(NULL, input->dtype, input->rank, input->shape);
        float *data = in[i].data = malloc((size_t)tenon_view_numel(&in[i]) * sizeof *data);
        for (int64_t k = 0; k < tenon_view_numel(&in[i]); k++)
            data[k] = (float)((k + i) * 7919 % 1009) / 500.0f - 1.0f;
    }
    OK(tenon_context_run(context, in, graph->input_count, got, graph->output_count));
    *count = 0;
    for (int i = 0; i < graph->output_count; i++) {
        int64_t elements = tenon_view_numel(&got[i]);
        ck_assert_int_le(*count + elements, 65536);
        memcpy(out + *count, got[i].data, (size_t)elements * sizeof *out);
        *count += elements;
    }
    for (int i = 0; i < graph->input_count; i++)
        free(in[i].data);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_passes_destroy(&passes);
    tenon_graph_destroy(&graph);
}

static tenon_status compare_ways(tn_chooser *self, const tn_candidate *candidate, int *way,
                                 tn_text *told) {
    static float want[65536], got[65536];
    comparer *c = (comparer *)self;
    int64_t count, other;
    ck_assert_ptr_nonnull(strstr(candidate->text, candidate->choice->ways[0]));
    run_way(candidate, 0, want, &count);
    for (int i = 1; i < candidate->choice->way_count; i++) {
        float worst = 0;
        run_way(candidate, i, got, &other);
        ck_assert_int_eq(count, other);
        for (int64_t k = 0; k < count; k++)
            worst = fmaxf(worst, fabsf(got[k] - want[k]) / (1 + fabsf(want[k])));
        ck_assert_msg(worst < 1e-4f, "%s: error %g\n%s", candidate->choice->ways[i], (double)worst,
                      candidate->text);
        c->ways++;
    }
    c->candidates++;
    *way = candidate->choice->way_count - 1;
    tn_text_add(told, "the last");
    return TENON_OK;
}

/* What passes ask about this graph; some of it is computed by `op` then. */
static void check_ways_of(const char *text, int64_t candidates, int64_t ways, const char *op) {
    tenon_graph *graph = parse_graph(text);
    tenon_passes *passes = NULL;
    comparer c = {.chooser = {.choose = compare_ways}};
    int64_t told = 0;
    bool found = false;
    OK(tenon_passes_create(&passes));
    graph->chooser = &c.chooser;
    OK(tenon_passes_apply_phase(passes, TENON_PASS_SHAPES, &graph, NULL, 0));
    ck_assert_int_eq(c.candidates, candidates);
    ck_assert_int_eq(c.ways, ways);
    for (const tenon_node *node = graph->first; node; node = node->next) {
        told += node->choice && node->op->id < TN_OP_COUNT;
        found |= strcmp(node->op->name, op) == 0;
    }
    ck_assert(found);
    ck_assert_int_eq(told, candidates);
    tenon_passes_destroy(&passes);
    tenon_graph_destroy(&graph);
}

#define POINTWISE(y, x, w) \
    "%" y " = aten.convolution(%" x ", %" w ", none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)\n"
#define DEPTHWISE(y, x, w) \
    "%" y " = aten.convolution(%" x ", %" w ", none, [1, 1], [1, 1], [1, 1], false, [0, 0], 24)\n"
#define POINTWISE_WEIGHT "const %w: float32[24, 24, 1, 1] = random(3, -0.3, 0.3)\n"
#define DEPTHWISE_WEIGHT "const %v: float32[24, 1, 3, 3] = random(4, -0.3, 0.3)\n"
#define IMAGE "graph g {\ninput %x: float32[1, 24, 10, 10]\n"

START_TEST(all_ways_compute_the_same) {
    check_ways_of(convolution, 1, 2, "tenon.winograd_convolution");
    check_ways_of(linear, 1, 2, "tenon.packed_linear");
    /* One row. */
    check_ways_of("graph g {\ninput %x: float32[1, 512]\n"
                  "const %w: float32[300, 512] = random(5, -0.2, 0.2)\n"
                  "%y = aten.linear(%x, %w)\noutput \"y\" = %y\n}\n",
                  1, 1, "tenon.packed_linear");
    /* The 1x1 that may join, the means, and what else reads the image. */
    check_ways_of(IMAGE DEPTHWISE_WEIGHT DEPTHWISE("a", "x", "v") "output \"a\" = %a\n}\n", 1, 1,
                  "tenon.depthwise_convolution");
    check_ways_of(
        IMAGE POINTWISE_WEIGHT DEPTHWISE_WEIGHT
            POINTWISE("a", "x", "w") "%b = aten.relu(%a)\n" DEPTHWISE(
                "c", "b", "v") "%d = aten.hardswish(%c)\n%e = aten.mean.dim(%d, [2, 3], true)\n"
                               "output \"d\" = %d\noutput \"e\" = %e\n}\n",
        2, 3, "tenon.depthwise_convolution");
    /* With batch norms: weights that wait to be scaled. */
    check_ways_of("graph g {\ninput %x: float32[1, 32, 6, 6]\n"
                  "const %w: float32[32, 32, 3, 3] = random(3, -0.3, 0.3)\n"
                  "const %s: float32[32, 1, 1, 1] = random(4)\n"
                  "%v = aten.mul.Tensor(%w, %s)\n"
                  "%y = aten.convolution(%x, %v, none, [2, 2], [1, 1], [1, 1], false, [0, 0], 1)\n"
                  "output \"y\" = %y\n}\n",
                  1, 1, "tenon.packed_convolution");
}
END_TEST

/* ---- Files that are not right ---- */

static char logged[4096];

static void take_log(tenon_log_level level, const char *message, void *user) {
    size_t used = strlen(logged);
    (void)level, (void)user;
    snprintf(logged + used, sizeof logged - used, "%s\n", message);
}

START_TEST(other_files_are_left_alone) {
    static const char *const files[][2] = {
        {"{\"format\": \"tenon choices\", \"version\": 1, \"entries\": [{\"mach", "cut off"},
        {"\x7f"
         "ELF",
         "no JSON"},
        {"[1, 2]", "something else"},
        {"{\"format\": \"tenon choices\", \"version\": 1, \"entries\": []}\nmore", "follows"},
        {"{\"format\": \"tenon choices\", \"version\": 1, \"entries\": []} {}", "follows"},
        {"{\"metrics\": {}, \"entries\": []}", "something else"},
        {"{\"format\": \"tenon choices\", \"version\": 2, \"entries\": []}", "newer"},
        {"{\"format\": \"tenon choices\", \"version\": \"1\", \"entries\": []}", "something else"},
        {"{\"format\": \"tenon choices\", \"version\": 1}", "no entries"},
        {"{\"format\": \"tenon choices\", \"version\": 1, \"entries\": {}}", "no entries"},
    };
    const char *file = test_path("other.json");
    tenon_log_set(TENON_LOG_WARN, take_log, NULL);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t size;
        test_write(file, files[i][0], strlen(files[i][0]));
        *logged = 0;
        ck_assert_int_eq(measured(convolution, file), 1);
        ck_assert_msg(strstr(logged, file) && strstr(logged, files[i][1]), "%d: '%s'", (int)i,
                      logged);
        char *text = test_read(file, &size);
        ck_assert_str_eq(text, files[i][0]);
        free(text);
    }
    *logged = 0;
    ck_assert_int_eq(measured(convolution, test_folder), 1);
    ck_assert_msg(strstr(logged, "not a regular file"), "'%s'", logged);
    *logged = 0;
    test_write(test_path("plain"), "", 0);
    ck_assert_int_eq(measured(convolution, test_path("plain/choices.json")), 1);
    ck_assert_msg(strstr(logged, "plain/choices.json"), "'%s'", logged);
    tenon_log_set(TENON_LOG_WARN, NULL, NULL);
}
END_TEST

static void check_refused(const char *file) {
    *logged = 0;
    ck_assert_int_eq(measured(convolution, file), 1);
    ck_assert_msg(strstr(logged, file) && strstr(logged, "not a regular file"), "'%s'", logged);
}

/* Whether anybody writes into it, or not: nothing waits. */
START_TEST(pipes_and_devices_are_refused) {
    struct stat info;
    const char *pipe = test_path("pipe");
    ck_assert_int_eq(mkfifo(pipe, 0600), 0);
    tenon_log_set(TENON_LOG_WARN, take_log, NULL);
    check_refused(pipe);
    check_refused("/dev/zero");
    check_refused("/dev/null");
    tenon_log_set(TENON_LOG_WARN, NULL, NULL);
    ck_assert(stat(pipe, &info) == 0 && S_ISFIFO(info.st_mode));
    ck_assert(stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode));
}
END_TEST

START_TEST(an_empty_file_is_a_new_one) {
    const char *file = test_path("empty.json");
    test_write(file, "", 0);
    tenon_log_set(TENON_LOG_WARN, take_log, NULL);
    *logged = 0;
    ck_assert_int_eq(measured(convolution, file), 1);
    ck_assert_int_eq(measured(convolution, file), 0);
    test_write(file, "\n", 1);
    ck_assert_int_eq(measured(convolution, file), 1);
    ck_assert_msg(strstr(logged, "no JSON") != NULL, "'%s'", logged);
    tenon_log_set(TENON_LOG_WARN, NULL, NULL);
}
END_TEST

START_TEST(links_and_modes_stay) {
    const char *file = test_path("real.json"), *link = test_path("link.json");
    struct stat info;
    /* To what is not there yet, by a relative path; then to what is. */
    ck_assert_int_eq(symlink("real.json", link), 0);
    ck_assert_int_eq(measured(convolution, link), 1);
    ck_assert(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
    ck_assert_int_eq(entry_count(file), 1);
    ck_assert_int_eq(chmod(file, 0640), 0);
    ck_assert_int_eq(measured(linear, link), 1);
    ck_assert(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
    ck_assert_int_eq(entry_count(file), 2);
    ck_assert(stat(file, &info) == 0);
    ck_assert_int_eq(info.st_mode & 07777, 0640);
}
END_TEST

/* ---- When it is kept ---- */

static const char *kept_file;
static int saved;

static void count_saves(tenon_log_level level, const char *message, void *user) {
    (void)level, (void)user;
    if (strncmp(message, "choices are kept", 16) == 0)
        ck_assert_int_eq(entry_count(kept_file), ++saved);
}

START_TEST(choices_are_kept_one_by_one) {
    static float numbers[32 * 144];
    tenon_view in = view_of(numbers, TENON_FLOAT32, 1, 32, 12, 12);
    kept_file = test_path("steps.json");
    tenon_session *session =
        tuned("graph g {\nsymbol s in [1, 64]\n"
              "input %x: float32[s, 32, 12, 12]\n" WEIGHTS CONVOLUTION("y", "x")
                  CONVOLUTION("z", "y") "output \"z\" = %z\n}\n",
              kept_file);
    session->tuner->save_interval = session->tuner->save_ns = 0;
    tenon_log_set(TENON_LOG_DEBUG, count_saves, NULL);
    OK(tenon_session_compile(session, &in, 1));
    tenon_log_set(TENON_LOG_WARN, NULL, NULL);
    ck_assert_int_eq(session->tuner->measured, 2);
    ck_assert_int_eq(saved, 2);
    tenon_session_destroy(&session);
}
END_TEST

/* They cost a measurement, and stay or go. */
START_TEST(entries_that_are_not_right_are_measured_again) {
    static const char *const changes[][2] = {
        {"choice", "\"Winograd 3x3\""},
        {"choice", "7"},
        {"machine", "\"another\""},
        {"machine", "null"},
        {"candidate", "{}"},
        {"candidate", "\"graph\""},
    };
    const char *file = test_path("entries.json");
    ck_assert_int_eq(measured(convolution, file), 1);
    tenon_log_set(TENON_LOG_WARN, take_log, NULL);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        cJSON *root = read_json(file);
        int count = cJSON_GetArraySize(cJSON_GetObjectItem(root, "entries"));
        cJSON_ReplaceItemInObject(entry_of(root, count - 1), changes[i][0],
                                  cJSON_Parse(changes[i][1]));
        write_json(file, root);
        cJSON_Delete(root);
        *logged = 0;
        ck_assert_int_eq(measured(convolution, file), 1);
        ck_assert_int_eq(measured(convolution, file), 0);
        const char *told = i == 0 ? "there is no choice 'Winograd 3x3' for aten.convolution, only "
                                    "direct, Winograd 2x2, Winograd 4x4\n"
                           : i == 1 ? "there is no choice '' for aten.convolution"
                                    : "";
        ck_assert_msg(*told ? strstr(logged, told) != NULL : !*logged, "%d: '%s'", (int)i, logged);
    }
    tenon_log_set(TENON_LOG_WARN, NULL, NULL);
    /* Times are only told. */
    cJSON *root = read_json(file);
    int count = cJSON_GetArraySize(cJSON_GetObjectItem(root, "entries"));
    cJSON_ReplaceItemInObject(entry_of(root, count - 1), "times_us",
                              cJSON_Parse("{\"direct\": -1, \"Winograd 2x2\": \"fast\"}"));
    cJSON_AddItemToArray(cJSON_GetObjectItem(root, "entries"), cJSON_CreateNull());
    write_json(file, root);
    cJSON_Delete(root);
    ck_assert_int_eq(measured(convolution, file), 0);
}
END_TEST

START_TEST(the_file_does_not_grow_for_ever) {
    const char *file = test_path("large.json");
    cJSON *root = cJSON_CreateObject(), *entries;
    cJSON_AddStringToObject(root, "format", "tenon choices");
    cJSON_AddNumberToObject(root, "version", 1);
    entries = cJSON_AddArrayToObject(root, "entries");
    for (int i = 0; i < 5000; i++) {
        cJSON *entry = cJSON_CreateObject();
        char name[32];
        snprintf(name, sizeof name, "machine %d", i);
        cJSON_AddStringToObject(entry, "machine", name);
        cJSON_AddItemToArray(entries, entry);
    }
    write_json(file, root);
    cJSON_Delete(root);
    ck_assert_int_eq(measured(convolution, file), 1);
    ck_assert_int_eq(entry_count(file), 4096);
    ck_assert_int_eq(measured(convolution, file), 0);
}
END_TEST

START_TEST(processes_share_a_file) {
    const char *file = test_path("shared.json");
    enum { PROCESSES = 4 };
    pid_t pids[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            int64_t count = measured(i % 2 ? convolution : linear, file);
            _exit(count > 1);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    ck_assert_int_ge(entry_count(file), 1);
    measured(convolution, file);
    measured(linear, file);
    ck_assert_int_eq(entry_count(file), 2);
    ck_assert_int_eq(measured(convolution, file), 0);
    ck_assert_int_eq(measured(linear, file), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tune");
    TCase *cases = tcase_create("tune");
    tcase_set_timeout(cases, 60);
    suite_add_tcase(suite, cases);
    tcase_add_test(cases, each_candidate_is_measured_once);
    tcase_add_test(cases, equal_nodes_are_one_candidate);
    tcase_add_test(cases, each_shape_has_candidates_of_its_own);
    tcase_add_test(cases, there_is_nothing_to_choose_for_one_backend_alone);
    tcase_add_test(cases, a_dry_run_measures_nothing);
    tcase_add_test(cases, the_default_file_is_in_the_cache_folder);
    tcase_add_test(cases, the_file_decides);
    tcase_add_test(cases, all_ways_compute_the_same);
    tcase_add_test(cases, other_files_are_left_alone);
    tcase_add_test(cases, pipes_and_devices_are_refused);
    tcase_add_test(cases, an_empty_file_is_a_new_one);
    tcase_add_test(cases, links_and_modes_stay);
    tcase_add_test(cases, choices_are_kept_one_by_one);
    tcase_add_test(cases, entries_that_are_not_right_are_measured_again);
    tcase_add_test(cases, the_file_does_not_grow_for_ever);
    tcase_add_test(cases, processes_share_a_file);
    return run_suite(suite);
}
