/* Runs every archive of data/pt2-cases and compares with what eager PyTorch gave; the README there
 * describes the cases. */
#include "core/tensor.h"
#include "files.h"
#include "load/json.h"
#include "suite.h"
#include <check.h>
#include <glob.h>
#include <math.h>
#include <tenon/tenon.h>

enum { MAX_VALUES = 32 };

static glob_t files;

typedef struct run_case {
    const char *path; /* of the JSON file */
    char name[64];
    cJSON *tree;
    const cJSON *tolerance;
    tenon_session *session;
    tenon_context *context;
    int outputs;
    bool may_refuse;
} run_case;

/* ---- Values ---- */

static bool number(const cJSON *item, double *out) {
    const char *text = tn_json_string(item);
    if (cJSON_IsBool(item))
        *out = cJSON_IsTrue(item);
    else if (text)
        *out = strcmp(text, "nan") == 0 ? NAN : strcmp(text, "inf") == 0 ? INFINITY : -INFINITY;
    else
        return tn_json_float(item, out);
    return true;
}

static void store(void *element, tenon_dtype dtype, const cJSON *item) {
    int64_t integer;
    double real = 0;
    if (!tn_dtype_is_float(dtype) && tn_json_int(item, &integer)) {
        tn_store_int(element, dtype, integer);
        return;
    }
    ck_assert(number(item, &real));
    tn_store_float(element, dtype, real);
}

static int read_ints(const cJSON *list, int64_t *out) {
    int count = 0;
    for (const cJSON *item = tn_json_first(list); item; item = item->next) {
        ck_assert_int_lt(count, TENON_MAX_RANK);
        ck_assert(tn_json_int(item, &out[count++]));
    }
    return count;
}

/* The bytes that strides span. */
static int64_t span(const tenon_view *view) {
    int64_t last = 0;
    for (int d = 0; d < view->rank; d++) {
        if (view->shape[d] == 0)
            return 1;
        last += (view->shape[d] - 1) * view->strides[d];
    }
    return (last + 1) * (int64_t)tenon_dtype_size(view->dtype);
}

/* A tensor or number of a case, in memory that the caller frees (view.data). */
static tenon_view read_value(const cJSON *item) {
    tenon_view view = {0};
    const char *kind = tn_json_string(tn_json_get(item, "kind"));
    const cJSON *values = tn_json_get(item, "values");
    if (kind) {
        view.dtype = strcmp(kind, "int") == 0     ? TENON_INT64
                     : strcmp(kind, "float") == 0 ? TENON_FLOAT64
                     : strcmp(kind, "bool") == 0  ? TENON_BOOL
                                                  : TENON_DTYPE_NONE;
        view.data = calloc(1, 8);
        if (view.dtype != TENON_DTYPE_NONE)
            store(view.data, view.dtype, tn_json_get(item, "value"));
        return view;
    }
    view.dtype = tenon_dtype_from_text(tn_json_string(tn_json_get(item, "dtype")));
    ck_assert_int_ne(view.dtype, TENON_DTYPE_NONE);
    view.rank = read_ints(tn_json_get(item, "shape"), view.shape);
    tn_contiguous_strides(view.rank, view.shape, view.strides);
    if (tn_json_get(item, "strides"))
        read_ints(tn_json_get(item, "strides"), view.strides);
    view.data = calloc(1, (size_t)span(&view));
    const cJSON *value = tn_json_first(values);
    int64_t index[TENON_MAX_RANK] = {0}, count = tenon_view_numel(&view);
    for (int64_t i = 0; i < count; i++, value = value->next) {
        int64_t offset = 0;
        ck_assert_ptr_nonnull(value);
        for (int d = 0; d < view.rank; d++)
            offset += index[d] * view.strides[d];
        store((char *)view.data + offset * (int64_t)tenon_dtype_size(view.dtype), view.dtype,
              value);
        for (int d = view.rank - 1; d >= 0 && ++index[d] == view.shape[d]; d--)
            index[d] = 0;
    }
    ck_assert_ptr_null(value);
    return view;
}

/* ---- Comparing ---- */

static void check_element(const run_case *c, const char *what, const tenon_view *got,
                          const void *at, const void *want, int64_t index) {
    double g = tn_load_float(at, got->dtype), w = tn_load_float(want, got->dtype), rtol = 0,
           atol = 0;
    const cJSON *tolerance = tn_json_get(c->tolerance, tenon_dtype_text(got->dtype));
    if (!tn_dtype_is_float(got->dtype)) {
        ck_assert_msg(tn_load_int(at, got->dtype) == tn_load_int(want, got->dtype),
                      "%s: %s: element %lld is %lld, not %lld", c->name, what, (long long)index,
                      (long long)tn_load_int(at, got->dtype),
                      (long long)tn_load_int(want, got->dtype));
        return;
    }
    if (tolerance) {
        tn_json_float(tolerance->child, &rtol);
        tn_json_float(tolerance->child->next, &atol);
    }
    bool same = (isnan(g) && isnan(w)) || g == w || fabs(g - w) <= atol + rtol * fabs(w);
    ck_assert_msg(same, "%s: %s: element %lld is %.9g, not %.9g", c->name, what, (long long)index,
                  g, w);
}

static void check_value(const run_case *c, const char *what, const tenon_view *got,
                        const cJSON *item) {
    char a[256], b[256];
    tenon_view want = read_value(item);
    bool same =
        got->dtype == want.dtype && (want.dtype == TENON_DTYPE_NONE || tn_same_shape(got, &want));
    ck_assert_msg(same, "%s: %s is %s, not %s", c->name, what,
                  tn_shape_text(got->dtype, got->rank, got->shape, a, sizeof a),
                  tn_shape_text(want.dtype, want.rank, want.shape, b, sizeof b));
    int64_t index[TENON_MAX_RANK] = {0};
    int64_t count = want.dtype == TENON_DTYPE_NONE ? 0 : tenon_view_numel(&want);
    size_t size = tenon_dtype_size(want.dtype);
    for (int64_t i = 0; i < count; i++) {
        int64_t offset = 0, from = 0;
        for (int d = 0; d < got->rank; d++) {
            offset += index[d] * got->strides[d];
            from += index[d] * want.strides[d];
        }
        check_element(c, what, got, (char *)got->data + offset * (int64_t)size,
                      (char *)want.data + from * (int64_t)size, i);
        for (int d = got->rank - 1; d >= 0 && ++index[d] == got->shape[d]; d--)
            index[d] = 0;
    }
    free(want.data);
}

/* ---- Runs ---- */

/* Inputs by name; constants that the program does not take again are left out. */
static int read_inputs(const run_case *c, const cJSON *run, tenon_view *inputs) {
    int count = tenon_session_input_count(c->session);
    ck_assert_int_le(count, MAX_VALUES);
    for (const cJSON *item = tn_json_first(tn_json_get(run, "inputs")); item; item = item->next) {
        const char *name = tn_json_string(tn_json_get(item, "name"));
        int index = tenon_session_find_input(c->session, name);
        ck_assert_msg(index >= 0 || tn_json_get(item, "kind"), "%s: no input '%s'", c->name, name);
        if (index >= 0)
            inputs[index] = read_value(item);
    }
    for (int i = 0; i < count; i++)
        ck_assert_msg(inputs[i].dtype != TENON_DTYPE_NONE, "%s: input '%s' has no value", c->name,
                      tenon_session_input_name(c->session, i));
    return count;
}

static void check_outputs(const run_case *c, const cJSON *run, const tenon_view *outputs) {
    int i = 0;
    char what[64];
    for (const cJSON *item = tn_json_first(tn_json_get(run, "outputs")); item;
         item = item->next, i++) {
        ck_assert_int_lt(i, c->outputs);
        snprintf(what, sizeof what, "output %d", i);
        check_value(c, what, &outputs[i], item);
    }
    ck_assert_msg(i == c->outputs, "%s: %d outputs, not %d", c->name, c->outputs, i);
}

/* What the run changed. */
static void check_effects(const run_case *c, const cJSON *run, const tenon_view *inputs) {
    const cJSON *after = tn_json_get(run, "inputs_after"), *state = tn_json_get(run, "state_after");
    for (const cJSON *item = tn_json_first(after); item; item = item->next) {
        int index = tenon_session_find_input(c->session, item->string);
        ck_assert_int_ge(index, 0);
        check_value(c, item->string, &inputs[index], item);
    }
    for (const cJSON *item = tn_json_first(state); item; item = item->next) {
        tenon_view view = {0};
        tenon_status status = tenon_context_get_state(c->context, item->string, &view);
        ck_assert_msg(status == TENON_OK, "%s: state '%s': %s", c->name, item->string,
                      tenon_last_error());
        check_value(c, item->string, &view, item);
    }
}

static tenon_status check_run(const run_case *c, const cJSON *run) {
    tenon_view inputs[MAX_VALUES] = {0}, outputs[MAX_VALUES] = {0};
    const char *error = tn_json_string(tn_json_get(run, "error"));
    int count = read_inputs(c, run, inputs);
    tenon_status status = tenon_context_run(c->context, inputs, count, outputs, c->outputs);
    if (error) {
        ck_assert_msg(status != TENON_OK, "%s: ran although %s", c->name, error);
        ck_assert_uint_gt(strlen(tenon_last_error()), 0);
        status = TENON_OK;
    } else if (status == TENON_OK) {
        check_outputs(c, run, outputs);
        check_effects(c, run, inputs);
    }
    for (int i = 0; i < count; i++)
        free(inputs[i].data);
    return status;
}

static tenon_status open_case(run_case *c, tenon_backend backend) {
    char path[512];
    tenon_graph *graph = NULL;
    tenon_session_options options = {.backend = backend, .threads = 2};
    snprintf(path, sizeof path, "%.*s.pt2", (int)(strlen(c->path) - 5), c->path);
    tenon_status status = tenon_load(path, &graph);
    if (status == TENON_OK)
        status = tenon_session_create(graph, &options, &c->session);
    tenon_graph_destroy(&graph);
    if (status == TENON_OK)
        status = tenon_context_create(c->session, &c->context);
    if (status == TENON_OK) {
        c->outputs = tenon_session_output_count(c->session);
        ck_assert_int_le(c->outputs, MAX_VALUES);
    }
    return status;
}

static void read_case(run_case *c, int index) {
    size_t size;
    c->path = files.gl_pathv[index];
    const char *slash = strrchr(c->path, '/');
    snprintf(c->name, sizeof c->name, "%s", slash + 1);
    char *text = test_read(c->path, &size);
    ck_assert_int_eq(tn_json_parse(c->path, text, size, &c->tree), TENON_OK);
    free(text);
    c->tolerance = tn_json_get(c->tree, "tolerance");
}

static void check_case(int index, tenon_backend backend) {
    run_case c = {0};
    read_case(&c, index);
    const char *expect = tn_json_string(tn_json_get(c.tree, "expect"));
    tenon_status status = open_case(&c, backend);
    const cJSON *runs = tn_json_get(c.tree, "runs");
    for (const cJSON *run = runs->child; run && status == TENON_OK; run = run->next) {
        if (!cJSON_IsTrue(tn_json_get(c.tree, "stateful")))
            ck_assert_int_eq(tenon_context_reset_state(c.context), TENON_OK);
        status = check_run(&c, run);
    }
    if (strcmp(expect, "run") == 0)
        ck_assert_msg(status == TENON_OK, "%s: %s", c.name, tenon_last_error());
    if (strcmp(expect, "refuse") == 0)
        ck_assert_msg(status != TENON_OK, "%s: ran, and should not: %s", c.name,
                      tn_json_string(tn_json_get(c.tree, "reason")));
    if (status != TENON_OK)
        ck_assert_uint_gt(strlen(tenon_last_error()), 0);
    tenon_context_destroy(&c.context);
    tenon_session_destroy(&c.session);
    cJSON_Delete(c.tree);
}

START_TEST(reference) {
    check_case(_i, TENON_BACKEND_REFERENCE);
}
END_TEST

START_TEST(automatic) {
    check_case(_i, TENON_BACKEND_AUTO);
}
END_TEST

/* All of them are there. */
START_TEST(count) {
    glob_t given = {0};
    ck_assert_int_eq(glob(TEST_DATA "/pt2-cases/*.json", 0, NULL, &given), 0);
    ck_assert_uint_eq(given.gl_pathc, 58);
    ck_assert_uint_eq(files.gl_pathc, 58 + 23);
    globfree(&given);
}
END_TEST

int main(void) {
    glob(TEST_DATA "/pt2-cases/*.json", 0, NULL, &files);
    glob(TEST_DATA "/pt2-extra/*.json", GLOB_APPEND, NULL, &files);
    Suite *suite = suite_create("pt2_cases");
    TCase *tests = tcase_create("pt2_cases");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, count);
    tcase_add_loop_test(tests, reference, 0, (int)files.gl_pathc);
    tcase_add_loop_test(tests, automatic, 0, (int)files.gl_pathc);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
