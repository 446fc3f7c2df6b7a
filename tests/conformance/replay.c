/* Replays calls of operators that PyTorch made (capture.py), and compares the results.
 *
 *     replay [--backend auto|reference] [--threads N] [--json FILE] [--strict] FILE.zip...
 *
 * Each call becomes a graph of one node, whose tensors are inputs with the strides that they had.
 * It is right when all results have PyTorch's dtype and shape and are close to its values, or when
 * PyTorch refused the call and Tenon does. --json writes a line for each call that is not right,
 * and for each operator how many were. The exit status is 0 when no result was wrong; calls that
 * Tenon refuses are counted apart, and are wrong with --strict.
 */
#include "core/tensor.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <popt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <zip.h>

enum { MOST_TENSORS = 512, MOST_ARGS = 64, MOST_ITEMS = 512, MOST_OPS = 4096 };

typedef enum outcome { PASSED, REFUSED, WRONG } outcome;

typedef struct tally {
    char op[96];
    int count[3];
} tally;

typedef struct replay {
    tenon_backend backend;
    int threads;
    FILE *json;
    tally ops[MOST_OPS];
    int op_count, total[3];
    bool strict; /* refused calls are told as wrong ones are */
    /* of the call being replayed */
    const char *data;
    size_t data_size;
    const cJSON *call, *tensors;
    tenon_view views[MOST_TENSORS];
    void *memory[MOST_TENSORS]; /* own copies of the bytes, which in-place operators write */
    tenon_value *values[MOST_TENSORS];
    tenon_view inputs[MOST_TENSORS];
    int input_count;
    tenon_arg items[MOST_ITEMS];
    int item_count;
    char message[512];
} replay;

static const cJSON *get(const cJSON *object, const char *key) {
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static double as_double(const cJSON *item) {
    return cJSON_IsString(item) ? strtod(item->valuestring, NULL) : item->valuedouble;
}

static int64_t as_int(const cJSON *item) {
    return cJSON_IsString(item) ? strtoll(item->valuestring, NULL, 10) : (int64_t)item->valuedouble;
}

static void longs(const cJSON *list, int64_t *out) {
    const cJSON *item;
    cJSON_ArrayForEach(item, list) *out++ = as_int(item);
}

static void malformed(const char *what) {
    fprintf(stderr, "replay: the file is malformed: %s\n", what);
    exit(2);
}

/* ---- A call's tensors and arguments ---- */

static tenon_view *tensor_at(replay *r, int index) {
    const cJSON *json = cJSON_GetArrayItem(r->tensors, index);
    if (!json || index >= MOST_TENSORS)
        malformed("a tensor's number");
    tenon_view *view = &r->views[index];
    if (r->memory[index])
        return view;
    int64_t place[3]; /* first byte, bytes, bytes before the first element */
    for (int i = 0; i < 3; i++)
        place[i] = as_int(cJSON_GetArrayItem(json, 3 + i));
    if (place[0] < 0 || place[1] < 0 || (size_t)(place[0] + place[1]) > r->data_size)
        malformed("a tensor's bytes");
    memset(view, 0, sizeof *view);
    view->dtype = tenon_dtype_from_text(cJSON_GetArrayItem(json, 0)->valuestring);
    view->rank = cJSON_GetArraySize(cJSON_GetArrayItem(json, 1));
    if (view->rank > TENON_MAX_RANK)
        malformed("a tensor's rank");
    longs(cJSON_GetArrayItem(json, 1), view->shape);
    longs(cJSON_GetArrayItem(json, 2), view->strides);
    r->memory[index] = malloc((size_t)place[1] + 1);
    if (!r->memory[index])
        malformed("no memory");
    memcpy(r->memory[index], r->data + place[0], (size_t)place[1]);
    view->data = (char *)r->memory[index] + place[2];
    return view;
}

static tenon_status input_value(replay *r, tenon_graph *graph, int index, tenon_value **out) {
    tenon_view *view = tensor_at(r, index);
    if (!r->values[index]) {
        char name[32], sizes[TENON_MAX_RANK][32];
        const char *dims[TENON_MAX_RANK];
        snprintf(name, sizeof name, "x%d", index);
        for (int d = 0; d < view->rank; d++) {
            snprintf(sizes[d], sizeof sizes[d], "%lld", (long long)view->shape[d]);
            dims[d] = sizes[d];
        }
        tenon_status status =
            tenon_graph_add_input(graph, name, view->dtype, view->rank, dims, &r->values[index]);
        if (status != TENON_OK)
            return status;
        r->inputs[r->input_count++] = *view;
    }
    *out = r->values[index];
    return TENON_OK;
}

static tenon_status read_arg(replay *r, tenon_graph *graph, const cJSON *json, tenon_arg *out) {
    const cJSON *item;
    *out = (tenon_arg){0};
    if ((item = get(json, "t"))) {
        tenon_value *value;
        tenon_status status = input_value(r, graph, item->valueint, &value);
        *out = tenon_arg_value(value);
        return status;
    }
    if (get(json, "n"))
        *out = tenon_arg_none();
    else if ((item = get(json, "b")))
        *out = tenon_arg_bool(item->valueint != 0);
    else if ((item = get(json, "i")))
        *out = tenon_arg_int(as_int(item));
    else if ((item = get(json, "f")))
        *out = tenon_arg_float(as_double(item));
    else if ((item = get(json, "s")))
        *out = tenon_arg_string(item->valuestring);
    else if ((item = get(json, "d")))
        *out = tenon_arg_dtype(tenon_dtype_from_text(item->valuestring));
    else if ((item = get(json, "l"))) {
        int count = cJSON_GetArraySize(item);
        if (r->item_count + count > MOST_ITEMS)
            malformed("too long a list");
        tenon_arg *items = r->items + r->item_count;
        r->item_count += count;
        *out = tenon_arg_list(items, count);
        const cJSON *child;
        cJSON_ArrayForEach(child, item) {
            tenon_status status = read_arg(r, graph, child, items++);
            if (status != TENON_OK)
                return status;
        }
    }
    return TENON_OK;
}

/* ---- Comparison ---- */

static bool told(replay *r, const char *format, ...) TENON_PRINTF(2, 3);
static bool told(replay *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(r->message, sizeof r->message, format, args);
    va_end(args);
    return false;
}

/* What torch.testing takes as close, and the operator's own tests where they are wider. */
static void tolerances(const replay *r, tenon_dtype dtype, double *rtol, double *atol) {
    *rtol = dtype == TENON_FLOAT32    ? 1.3e-6
            : dtype == TENON_FLOAT16  ? 1e-3
            : dtype == TENON_BFLOAT16 ? 1.6e-2
                                      : 1e-7;
    *atol = dtype == TENON_FLOAT64 ? 1e-7 : 1e-5;
    const cJSON *own = get(get(r->call, "tolerances"), tenon_dtype_text(dtype));
    if (own) {
        *rtol = fmax(*rtol, cJSON_GetArrayItem(own, 0)->valuedouble);
        *atol = fmax(*atol, cJSON_GetArrayItem(own, 1)->valuedouble);
    }
}

static const void *element(const tenon_view *view, int64_t index) {
    int64_t at = 0;
    for (int d = view->rank - 1; d >= 0; d--) {
        at += index % view->shape[d] * view->strides[d];
        index /= view->shape[d];
    }
    return (const char *)view->data + at * (int64_t)tenon_dtype_size(view->dtype);
}

static bool close_to(double got, double want, double rtol, double atol) {
    return got == want || (isnan(got) && isnan(want)) ||
           (isfinite(got) && isfinite(want) && fabs(got - want) <= atol + rtol * fabs(want));
}

/* `precise` (or NULL): the values in float64. Where PyTorch rounds a half type several times on the
 * way, a result that is at least as near to them is right too, as in PyTorch's own tests. */
static bool compare(replay *r, const char *what, const tenon_view *got, const tenon_view *want,
                    const tenon_view *precise) {
    if (got->dtype != want->dtype)
        return told(r, "%s has dtype %s, PyTorch's %s", what, tenon_dtype_text(got->dtype),
                    tenon_dtype_text(want->dtype));
    if (!tn_same_shape(got, want)) {
        char left[256], right[256];
        return told(r, "%s is %s, PyTorch's %s", what,
                    tn_shape_text(got->dtype, got->rank, got->shape, left, sizeof left),
                    tn_shape_text(want->dtype, want->rank, want->shape, right, sizeof right));
    }
    double rtol, atol;
    tolerances(r, want->dtype, &rtol, &atol);
    int64_t numel = get(r->call, "values") ? 0 : tenon_view_numel(want);
    for (int64_t i = 0; i < numel; i++) {
        const void *a = element(got, i), *b = element(want, i);
        if (!tn_dtype_is_float(want->dtype)) {
            long long x = tn_load_int(a, got->dtype), y = tn_load_int(b, got->dtype);
            if (x != y)
                return told(r, "%s, element %lld is %lld, PyTorch's %lld", what, (long long)i, x,
                            y);
            continue;
        }
        double x = tn_load_float(a, got->dtype), y = tn_load_float(b, got->dtype);
        bool right = close_to(x, y, rtol, atol);
        if (!right && precise) {
            double z = tn_load_float(element(precise, i), precise->dtype);
            right = fabs(x - z) <= fabs(y - z) || (isfinite(x) && close_to(x, z, rtol, atol));
        }
        if (!right)
            return told(r, "%s, element %lld is %.9g, PyTorch's %.9g", what, (long long)i, x, y);
    }
    return true;
}

/* ---- One call ---- */

typedef struct running {
    tenon_graph *graph;
    tenon_session *session;
    tenon_context *context;
    tenon_view outputs[MOST_ITEMS];
    int output_count;
} running;

static tenon_status prepare(replay *r, running *run) {
    tenon_arg args[MOST_ARGS];
    tenon_node *node = NULL;
    const cJSON *item;
    int count = 0;
    const char *op = get(r->call, "op")->valuestring;
    cJSON_ArrayForEach(item, r->tensors) {
        if (cJSON_GetArraySize(cJSON_GetArrayItem(item, 1)) > TENON_MAX_RANK) {
            told(r, "more than %d dimensions", TENON_MAX_RANK);
            return TENON_UNSUPPORTED;
        }
    }
    tenon_status status = tenon_graph_create("call", &run->graph);
    cJSON_ArrayForEach(item, get(r->call, "args")) {
        if (status != TENON_OK)
            return status;
        status = read_arg(r, run->graph, item, &args[count++]);
    }
    if (status == TENON_OK)
        status = tenon_graph_add_node(run->graph, op, NULL, args, count, &node);
    if (status != TENON_OK)
        return status;
    run->output_count = tenon_node_output_count(node);
    for (int i = 0; i < run->output_count && status == TENON_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "y%d", i);
        status =
            tenon_graph_add_output(run->graph, name, tenon_arg_value(tenon_node_output(node, i)));
    }
    tenon_session_options options = {.threads = r->threads, .backend = r->backend};
    if (status == TENON_OK)
        status = tenon_session_create(run->graph, &options, &run->session);
    if (status == TENON_OK)
        status = tenon_context_create(run->session, &run->context);
    if (status == TENON_OK)
        status = tenon_context_run(run->context, r->inputs, r->input_count, run->outputs,
                                   run->output_count);
    return status;
}

/* The tensor of that number in a list of the call's; NULL where there is none. */
static const tenon_view *listed(replay *r, const char *list, int i) {
    const cJSON *item = get(cJSON_GetArrayItem(get(r->call, list), i), "t");
    return item ? tensor_at(r, item->valueint) : NULL;
}

static bool compare_output(replay *r, const running *run, int i, const cJSON *want) {
    char what[64];
    const tenon_view *got = &run->outputs[i];
    const cJSON *item = get(want, "t");
    snprintf(what, sizeof what, "output %d", i);
    if (get(want, "n"))
        return got->dtype == TENON_DTYPE_NONE || told(r, "%s is not None", what);
    if (item) {
        return got->dtype == TENON_DTYPE_NONE
                   ? told(r, "%s is None", what)
                   : compare(r, what, got, tensor_at(r, item->valueint), listed(r, "precise", i));
    }
    item = want->child;
    if (!item || !got->data || got->rank != 0)
        return told(r, "%s is no number", what);
    double x = tn_dtype_is_float(got->dtype) ? tn_load_float(got->data, got->dtype)
                                             : (double)tn_load_int(got->data, got->dtype);
    return close_to(x, as_double(item), 1.3e-6, 1e-5) ||
           told(r, "%s is %g, PyTorch's %g", what, x, as_double(item));
}

/* "aten.squeeze_.dim" and the like make their argument a view of itself, which an input cannot
 * become. */
static bool changes_shape(const char *op) {
    tenon_op_info info;
    char plain[96];
    const char *end = strrchr(op, '.');
    if (!end || end == op || end[-1] != '_')
        return false;
    int length = (int)(end - op - 1);
    snprintf(plain, sizeof plain, "%.*s%s", length, op, strcmp(end, ".default") == 0 ? "" : end);
    if (!tenon_op_find(plain, &info)) /* transpose_ has no overloads, transpose has */
        snprintf(plain, sizeof plain, "%.*s.int", length, op);
    return tenon_op_find(plain, &info) && info.is_view;
}

/* What an operator writes in place is what it gives, in the same order. */
static bool compare_changed(replay *r) {
    if (changes_shape(get(r->call, "op")->valuestring))
        return true;
    const cJSON *item;
    int i = 0;
    cJSON_ArrayForEach(item, get(r->call, "changed")) {
        const cJSON *arg = get(cJSON_GetArrayItem(get(r->call, "args"), atoi(item->string)), "t");
        char what[64];
        snprintf(what, sizeof what, "changed argument %s", item->string);
        if (arg && !compare(r, what, &r->views[arg->valueint],
                            tensor_at(r, get(item, "t")->valueint), listed(r, "precise", i)))
            return false;
        i++;
    }
    return true;
}

static bool compare_all(replay *r, const running *run) {
    const cJSON *item, *outputs = get(r->call, "outputs");
    int i = 0;
    if (cJSON_GetArraySize(outputs) != run->output_count)
        return told(r, "%d outputs, PyTorch has %d", run->output_count,
                    cJSON_GetArraySize(outputs));
    cJSON_ArrayForEach(item, outputs) if (!compare_output(r, run, i++, item)) return false;
    return compare_changed(r);
}

static outcome run_call(replay *r) {
    running *run = calloc(1, sizeof *run);
    outcome result;
    if (!run)
        malformed("no memory");
    r->input_count = r->item_count = 0;
    r->message[0] = 0;
    tenon_op_info info;
    bool known = tenon_op_find(get(r->call, "op")->valuestring, &info) && !info.refused;
    tenon_status status = prepare(r, run);
    if (status != TENON_OK && !r->message[0])
        snprintf(r->message, sizeof r->message, "%s: %s", tenon_status_text(status),
                 tenon_last_error());
    if (get(r->call, "fails"))
        result = status == TENON_OK ? (told(r, "PyTorch refuses this"), WRONG)
                 : known            ? PASSED
                                    : REFUSED;
    else
        result = status == TENON_OK ? (compare_all(r, run) ? PASSED : WRONG) : REFUSED;
    tenon_context_destroy(&run->context);
    tenon_session_destroy(&run->session);
    tenon_graph_destroy(&run->graph);
    free(run);
    for (int i = 0; i < cJSON_GetArraySize(r->tensors) && i < MOST_TENSORS; i++) {
        free(r->memory[i]);
        r->memory[i] = NULL;
        r->values[i] = NULL;
    }
    return result;
}

/* ---- Files ---- */

static tally *tally_of(replay *r, const char *op) {
    for (int i = r->op_count - 1; i >= 0; i--)
        if (strcmp(r->ops[i].op, op) == 0)
            return &r->ops[i];
    if (r->op_count == MOST_OPS)
        malformed("too many operators");
    tally *t = &r->ops[r->op_count++];
    snprintf(t->op, sizeof t->op, "%s", op);
    return t;
}

static void write_line(replay *r, const char *op, const char *sample, outcome result) {
    static const char *const texts[] = {"passed", "refused", "wrong"};
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "op", op);
    cJSON_AddStringToObject(line, "sample", sample);
    cJSON_AddStringToObject(line, "result", texts[result]);
    if (result != PASSED)
        cJSON_AddStringToObject(line, "message", r->message);
    char *text = cJSON_PrintUnformatted(line);
    fprintf(r->json, "%s\n", text);
    free(text);
    cJSON_Delete(line);
}

static void run_line(replay *r, const char *line, size_t length) {
    cJSON *call = cJSON_ParseWithLength(line, length);
    const cJSON *op = get(call, "op"), *sample = get(call, "sample");
    r->call = call;
    r->tensors = get(call, "tensors");
    if (!op || !sample || !r->tensors)
        malformed("a call");
    outcome result = run_call(r);
    r->total[result]++;
    tally_of(r, op->valuestring)->count[result]++;
    if (result == WRONG || (result == REFUSED && r->strict))
        fprintf(stderr, "%s (%s): %s\n", op->valuestring, sample->valuestring, r->message);
    if (r->json)
        write_line(r, op->valuestring, sample->valuestring, result);
    cJSON_Delete(call);
}

static char *read_entry(zip_t *archive, const char *path, const char *name, size_t *size) {
    zip_stat_t stat;
    zip_file_t *file = archive ? zip_fopen(archive, name, 0) : NULL;
    if (!file || zip_stat(archive, name, 0, &stat) != 0) {
        fprintf(stderr, "replay: %s: no %s\n", path, name);
        exit(2);
    }
    char *data = malloc(stat.size + 1);
    if (!data || zip_fread(file, data, stat.size) != (zip_int64_t)stat.size)
        malformed(name);
    data[stat.size] = 0;
    *size = stat.size;
    zip_fclose(file);
    return data;
}

static void run_file(replay *r, const char *path) {
    zip_t *archive = zip_open(path, ZIP_RDONLY, NULL);
    size_t size;
    char *lines = read_entry(archive, path, "calls.jsonl", &size);
    char *data = read_entry(archive, path, "data.bin", &r->data_size);
    r->data = data;
    for (char *line = lines; *line;) {
        size_t length = strcspn(line, "\n");
        run_line(r, line, length);
        line += length + (line[length] == '\n');
    }
    free(lines);
    free(data);
    zip_close(archive);
}

int main(int argc, char **argv) {
    replay *r = calloc(1, sizeof *r);
    static const char *const names[] = {"auto", "reference"};
    static const tenon_backend backends[] = {TENON_BACKEND_AUTO, TENON_BACKEND_REFERENCE};
    char *backend_text = NULL, *json = NULL;
    int strict = 0, threads = 1;
    struct poptOption options[] = {
        {"backend", 0, POPT_ARG_STRING, &backend_text, 0, "auto (default) or reference", NULL},
        {"threads", 0, POPT_ARG_INT, &threads, 0, "of OpenMP (default 1)", "N"},
        {"json", 0, POPT_ARG_STRING, &json, 0, "a line for each call", "FILE"},
        {"strict", 0, POPT_ARG_NONE, &strict, 0, "what is refused is wrong", NULL},
        POPT_AUTOHELP POPT_TABLEEND};
    poptContext popt = poptGetContext("replay", argc, (const char **)argv, options, 0);
    if (!r || poptGetNextOpt(popt) != -1 || !poptPeekArg(popt)) {
        poptPrintUsage(popt, stderr, 0);
        return 2;
    }
    int backend = backend_text && strcmp(backend_text, names[1]) == 0;
    r->backend = backends[backend];
    r->strict = strict;
    r->threads = threads;
    r->json = json ? fopen(json, "w") : NULL;
    for (const char *path; (path = poptGetArg(popt)) != NULL;)
        run_file(r, path);
    if (r->json)
        fclose(r->json);
    printf("%s: %d calls of %d operators: %d passed, %d refused, %d wrong\n", names[backend],
           r->total[PASSED] + r->total[REFUSED] + r->total[WRONG], r->op_count, r->total[PASSED],
           r->total[REFUSED], r->total[WRONG]);
    bool wrong = r->total[WRONG] > 0 || (strict && r->total[REFUSED] > 0);
    poptFreeContext(popt);
    free(backend_text);
    free(json);
    free(r);
    return wrong;
}
