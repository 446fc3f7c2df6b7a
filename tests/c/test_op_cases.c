/* The cases of tests/data/ops/NAME.json (made by tests/python/gen_op_cases.py from PyTorch),
 * through the kernels at every ISA level, with one thread and two, into outputs of every layout,
 * and in place where the kernel allows it. Ops that passes rewrite run as a model of one node. */
#include "run_node.h"
#include "suite.h"
#include <check.h>
#include <cjson/cJSON.h>
#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <tenon/tenon.h>

enum { MOST_ARGS = 64, MOST_FILES = 64 };

static char files[MOST_FILES][256];
static int file_count;

/* Failures are told as they come, so that one run shows them all. */
static int failures;

static bool expect(bool met, const char *format, ...) TENON_PRINTF(2, 3);
static bool expect(bool met, const char *format, ...) {
    if (!met && failures++ < 50) {
        va_list args;
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fputc('\n', stderr);
    }
    return met;
}

static double as_double(const cJSON *item) {
    return cJSON_IsString(item) ? strtod(item->valuestring, NULL) : item->valuedouble;
}

static int64_t as_int(const cJSON *item) {
    return cJSON_IsString(item) ? strtoll(item->valuestring, NULL, 10) : (int64_t)item->valuedouble;
}

static int longs(const cJSON *list, int64_t *out) {
    int n = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list) out[n++] = as_int(item);
    return n;
}

static const cJSON *get(const cJSON *object, const char *key) {
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

/* A tensor over new memory, which the view holds; one value of `data` stands for all. */
static tenon_view read_tensor(const cJSON *json) {
    tenon_view view = {0};
    view.dtype = tenon_dtype_from_text(get(json, "dtype")->valuestring);
    view.rank = longs(get(json, "shape"), view.shape);
    tn_contiguous_strides(view.rank, view.shape, view.strides);
    if (get(json, "strides"))
        longs(get(json, "strides"), view.strides);
    int64_t last = 0;
    for (int d = 0; d < view.rank; d++)
        last += view.strides[d] * (view.shape[d] > 0 ? view.shape[d] - 1 : 0);
    size_t size = tenon_dtype_size(view.dtype);
    view.data = calloc((size_t)last + 1, size);
    const cJSON *data = get(json, "data"), *item = data->child;
    int count = cJSON_GetArraySize(data);
    ck_assert(count <= 1 || count == last + 1 || tenon_view_numel(&view) == 0);
    for (int64_t i = 0; i <= last && item; i++) {
        void *element = (char *)view.data + (size_t)i * size;
        if (tn_dtype_is_float(view.dtype))
            tn_store_float(element, view.dtype, as_double(item));
        else
            tn_store_int(element, view.dtype, as_int(item));
        item = item->next ? item->next : item;
    }
    return view;
}

typedef struct run_case {
    const char *file;
    int number;
    const cJSON *json;
    tenon_graph *graph;
    tenon_node *node;
    double rtol, atol; /* below 0: the dtype's */
} run_case;

static tenon_arg read_arg(run_case *c, const cJSON *json, const cJSON *inputs, tenon_arg *list) {
    const cJSON *item;
    int n = 0;
    if ((item = get(json, "t"))) {
        tenon_view view = read_tensor(cJSON_GetArrayItem(inputs, item->valueint));
        return tenon_arg_value(run_constant(c->graph, &view));
    }
    if (get(json, "n"))
        return tenon_arg_none();
    if ((item = get(json, "b")))
        return tenon_arg_bool(item->valueint != 0);
    if ((item = get(json, "i")))
        return tenon_arg_int(as_int(item));
    if ((item = get(json, "f")))
        return tenon_arg_float(as_double(item));
    if ((item = get(json, "s")))
        return tenon_arg_string(item->valuestring);
    if ((item = get(json, "d")))
        return tenon_arg_dtype(tenon_dtype_from_text(item->valuestring));
    if ((item = get(json, "l"))) {
        const cJSON *child;
        cJSON_ArrayForEach(child, item) list[n++] = read_arg(c, child, inputs, NULL);
        return tenon_arg_list(list, n);
    }
    return (tenon_arg){0};
}

/* What torch.testing takes as close. */
static void tolerances(const run_case *c, tenon_dtype dtype, double *rtol, double *atol) {
    *rtol = dtype == TENON_FLOAT32    ? 1.3e-6
            : dtype == TENON_FLOAT16  ? 1e-3
            : dtype == TENON_BFLOAT16 ? 1.6e-2
                                      : 1e-7;
    *atol = dtype == TENON_FLOAT64 ? 1e-7 : 1e-5;
    *rtol = c->rtol >= 0 ? c->rtol : *rtol;
    *atol = c->atol >= 0 ? c->atol : *atol;
}

static bool compare_element(const run_case *c, const tenon_view *got, const void *a, const void *b,
                            const char *how) {
    if (!tn_dtype_is_float(got->dtype))
        return expect(tn_load_int(a, got->dtype) == tn_load_int(b, got->dtype),
                      "%s case %d: %s (%s) gives %lld, PyTorch %lld", c->file, c->number,
                      c->node->op->name, how, (long long)tn_load_int(a, got->dtype),
                      (long long)tn_load_int(b, got->dtype));
    double x = tn_load_float(a, got->dtype), y = tn_load_float(b, got->dtype), rtol, atol;
    tolerances(c, got->dtype, &rtol, &atol);
    bool close = x == y || (isnan(x) && isnan(y)) ||
                 (isfinite(x) && isfinite(y) && fabs(x - y) <= atol + rtol * fabs(y));
    return expect(close, "%s case %d: %s (%s) gives %.9g, PyTorch %.9g", c->file, c->number,
                  c->node->op->name, how, x, y);
}

static void compare(const run_case *c, const tenon_view *got, const cJSON *json, const char *how) {
    tenon_view want = read_tensor(json);
    char left[256], right[256];
    bool same = expect(got->dtype == want.dtype && tn_same_shape(got, &want),
                       "%s case %d: %s gives %s, PyTorch %s", c->file, c->number, c->node->op->name,
                       tn_shape_text(got->dtype, got->rank, got->shape, left, sizeof left),
                       tn_shape_text(want.dtype, want.rank, want.shape, right, sizeof right));
    size_t size = tenon_dtype_size(want.dtype);
    int64_t numel = tenon_view_numel(&want);
    for (int64_t i = 0; i < numel && same; i++) {
        int64_t rest = i, at = 0;
        for (int d = got->rank - 1; d >= 0; d--) {
            at += rest % got->shape[d] * got->strides[d];
            rest /= got->shape[d];
        }
        same = compare_element(c, got, (char *)got->data + at * (int64_t)size,
                               (char *)want.data + i * (int64_t)size, how);
    }
    free(want.data);
}

static void run_once(const run_case *c, tn_isa isa, int threads, int inplace, run_layout layout) {
    tenon_tensor *out[256];
    char how[64];
    const cJSON *outputs = get(c->json, "outputs");
    snprintf(how, sizeof how, "%s, %d threads, layout %d%s", tn_isa_text(isa), threads, layout,
             inplace >= 0 ? ", in place" : "");
    if (!expect(cJSON_GetArraySize(outputs) == c->node->output_count,
                "%s case %d: %s has %d outputs, PyTorch's has %d", c->file, c->number,
                c->node->op->name, c->node->output_count, cJSON_GetArraySize(outputs)))
        return;
    tenon_status status = run_node_inplace(c->node, isa, threads, inplace, layout, out);
    if (!expect(status == TENON_OK, "%s case %d (%s): %s", c->file, c->number, how,
                tenon_last_error()))
        return;
    for (int i = 0; i < c->node->output_count; i++) {
        const cJSON *want = cJSON_GetArrayItem(outputs, i);
        bool same = expect((want->child != NULL) == (out[i] != NULL), "%s case %d: %s output %d",
                           c->file, c->number, c->node->op->name, i);
        if (same && out[i])
            compare(c, tenon_tensor_view(out[i]), want, how);
        tenon_tensor_destroy(&out[i]);
    }
}

static bool fits_output(const tenon_node *node, int in) {
    tenon_view views[256];
    int32_t first[MOST_ARGS];
    int count;
    run_inputs(node, views, first, &count);
    const tenon_value *out = node->outputs[0];
    return in < count && views[in].dtype == out->dtype && views[in].rank == out->rank &&
           memcmp(views[in].shape, out->shape, (size_t)out->rank * sizeof(int64_t)) == 0;
}

static void run_everywhere(const run_case *c) {
    bool fails = get(c->json, "fails") != NULL;
    for_each_isa(isa) {
        if (fails) {
            tenon_tensor *out[256];
            expect(run_node(c->node, isa, 1, RUN_PACKED, out) != TENON_OK,
                   "%s case %d: %s must fail", c->file, c->number, c->node->op->name);
            continue;
        }
        for (int layout = 0; layout < RUN_LAYOUT_COUNT; layout++)
            run_once(c, isa, 1 + layout % 2, -1, (run_layout)layout);
        for (int in = 0; in < 3; in++)
            if (tn_kernel_inplace(c->node->op->id, in) && fits_output(c->node, in))
                run_once(c, isa, 1, in, RUN_PACKED);
    }
}

static void run_model(const run_case *c) {
    bool fails = get(c->json, "fails") != NULL;
    const cJSON *outputs = get(c->json, "outputs");
    tenon_session_options options = {.backend = TENON_BACKEND_REFERENCE, .threads = 1};
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    tenon_view views[64] = {0};
    char name[16];
    int count = c->node->output_count;
    tenon_status status = TENON_OK;
    if (!fails && !expect(cJSON_GetArraySize(outputs) == count,
                          "%s case %d: %s has %d outputs, PyTorch's has %d", c->file, c->number,
                          c->node->op->name, count, cJSON_GetArraySize(outputs)))
        return;
    for (int i = 0; i < count && status == TENON_OK; i++) {
        snprintf(name, sizeof name, "o%d", i);
        status = tenon_graph_add_output(c->graph, name, tenon_arg_value(c->node->outputs[i]));
    }
    if (status == TENON_OK)
        status = tenon_session_create(c->graph, &options, &session);
    if (status == TENON_OK)
        status = tenon_context_create(session, &context);
    if (status == TENON_OK)
        status = tenon_context_run(context, NULL, 0, views, count);
    expect((status != TENON_OK) == fails, "%s case %d: %s: %s", c->file, c->number,
           c->node->op->name, fails ? "must fail" : tenon_last_error());
    for (int i = 0; i < count && status == TENON_OK && !fails; i++)
        compare(c, &views[i], cJSON_GetArrayItem(outputs, i), "as a model");
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}

static void run_json(const char *file, int number, const cJSON *json) {
    run_case c = {.file = file, .number = number, .json = json, .rtol = -1, .atol = -1};
    tenon_arg args[MOST_ARGS], *lists = calloc(MOST_ARGS * 64, sizeof *lists);
    const cJSON *item, *inputs = get(json, "inputs");
    const char *op = get(json, "op")->valuestring;
    int count = 0;
    if ((item = get(json, "rtol")))
        c.rtol = item->valuedouble;
    if ((item = get(json, "atol")))
        c.atol = item->valuedouble;
    ck_assert_int_eq(tenon_graph_create(op, &c.graph), TENON_OK);
    cJSON_ArrayForEach(item, get(json, "args")) {
        args[count] = read_arg(&c, item, inputs, lists + count * 64);
        count++;
    }
    tenon_status status = tenon_graph_add_node(c.graph, op, NULL, args, count, &c.node);
    if (status != TENON_OK)
        expect(get(json, "fails") != NULL, "%s case %d: %s", file, number, tenon_last_error());
    else if (c.node->op->kind == TN_OP_KERNEL)
        run_everywhere(&c);
    else
        run_model(&c);
    for (int i = 0; i < tenon_graph_constant_count(c.graph); i++)
        free(c.graph->constants[i]->tensor->view.data);
    tenon_graph_destroy(&c.graph);
    free(lists);
}

START_TEST(test_file) {
    char path[512];
    snprintf(path, sizeof path, "%s/ops/%s", TEST_DATA, files[_i]);
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    ck_assert_int_eq((long)fread(text, 1, (size_t)size, file), size);
    text[size] = 0;
    fclose(file);
    cJSON *json = cJSON_Parse(text);
    ck_assert_msg(json != NULL, "%s is not JSON", path);
    int number = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, json) run_json(files[_i], number++, item);
    ck_assert_int_gt(number, 0);
    ck_assert_msg(failures == 0, "%s: %d wrong elements or calls", files[_i], failures);
    cJSON_Delete(json);
    free(text);
}
END_TEST

static int by_name(const void *a, const void *b) {
    return strcmp(a, b);
}

int main(void) {
    DIR *dir = opendir(TEST_DATA "/ops");
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;)
        if (strstr(entry->d_name, ".json") && file_count < MOST_FILES)
            snprintf(files[file_count++], sizeof files[0], "%s", entry->d_name);
    if (dir)
        closedir(dir);
    qsort(files, (size_t)file_count, sizeof files[0], by_name);
    Suite *suite = suite_create("op_cases");
    TCase *tcase = tcase_create("op_cases");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_file, 0, file_count);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
