#include "model.h"
#include "images.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_BATCH = 16 };

static const char *input_name(const batch_model *m, int index) {
    return tenon_value_name(tenon_graph_input(m->graph, index));
}

static bool is_array(const batch_model *m, int index) {
    return tenon_value_is_tensor(tenon_graph_input(m->graph, index));
}

/* ---- Which path is for which input ---- */

/* The value that was given for an input by its name; NULL: none. */
static const char *find_named(const batch_job *job, const char *name) {
    for (int i = 0; i < job->inputs.count; i++)
        if (job->inputs.items[i].name && strcmp(job->inputs.items[i].name, name) == 0)
            return job->inputs.items[i].value;
    return NULL;
}

static const char *find_unnamed(const batch_job *job) {
    for (int i = 0; i < job->inputs.count; i++)
        if (!job->inputs.items[i].name)
            return job->inputs.items[i].value;
    return NULL;
}

static const char *path_of(const batch_job *job, const char *name) {
    const char *path = find_named(job, name);
    return path ? path : find_unnamed(job);
}

static tenon_status check_given(const batch_model *m, const batch_job *job) {
    int unnamed = 0;
    for (int i = 0; i < job->inputs.count; i++) {
        const char *name = job->inputs.items[i].name;
        bool known = !name;
        for (int j = 0; name && j < m->input_count; j++)
            known = known || strcmp(name, input_name(m, j)) == 0;
        if (!known)
            return tenon_fail(TENON_INVALID_ARGUMENT, "--input: the model has no input '%s'", name);
        for (int j = 0; name && j < i; j++)
            if (job->inputs.items[j].name && strcmp(job->inputs.items[j].name, name) == 0)
                return tenon_fail(TENON_INVALID_ARGUMENT, "--input: '%s' is given twice", name);
        if (!name && unnamed++)
            return tenon_fail(TENON_INVALID_ARGUMENT,
                              "--input: two paths without a name; NAME=PATH says what each is for");
    }
    for (int i = 0; i < m->input_count; i++) {
        const char *name = input_name(m, i);
        if (!(is_array(m, i) ? path_of(job, name) : find_named(job, name)))
            return tenon_fail(TENON_INVALID_ARGUMENT,
                              "input '%s' is missing: give it with --input %s=%s", name, name,
                              is_array(m, i) ? "PATH" : "NUMBER");
    }
    return TENON_OK;
}

/* ---- Sizes ---- */

static int find_symbol(const batch_model *m, const char *text) {
    for (int i = 0; i < tenon_graph_symbol_count(m->graph); i++) {
        const char *name;
        tenon_graph_symbol(m->graph, i, &name, NULL, NULL);
        if (strcmp(name, text) == 0)
            return i;
    }
    return -1;
}

static int symbol_of(const batch_model *m, int input, int dim) {
    char text[256];
    tenon_value_size_text(tenon_graph_input(m->graph, input), dim, text, sizeof text);
    return find_symbol(m, text);
}

static tenon_status take_dims(const batch_model *m, const batch_job *job, int64_t *symbols) {
    for (int i = 0; i < job->dims.count; i++) {
        const batch_pair *dim = &job->dims.items[i];
        int symbol = find_symbol(m, dim->name);
        char *end;
        errno = 0;
        long long size = strtoll(dim->value, &end, 10);
        if (symbol < 0)
            return tenon_fail(TENON_INVALID_ARGUMENT, "--dim: the model has no symbol '%s'",
                              dim->name);
        if (errno != 0 || end == dim->value || *end != '\0' || size < 0)
            return tenon_fail(TENON_INVALID_ARGUMENT, "--dim: '%s' is no size for '%s'", dim->value,
                              dim->name);
        symbols[symbol] = size;
    }
    return TENON_OK;
}

static const image_transform *transform_of(const batch_job *job) {
    return job->images ? job->images : &image_standard;
}

static void peek(const batch_job *job, const char *path, const char *name, tenon_view *out) {
    const image_transform *t = transform_of(job);
    if (!batch_path_is_images(path)) {
        batch_source_peek(path, name, out);
        return;
    }
    *out = (tenon_view){.dtype = TENON_FLOAT32,
                        .rank = 3,
                        .shape = {3, t->crop_height > 0 ? t->crop_height : IMAGES_CROP,
                                  t->crop_width > 0 ? t->crop_width : IMAGES_CROP}};
}

/* Sizes that the model leaves open, but for the batch, are those of the arrays. */
static void take_sizes(const batch_model *m, const batch_job *job, int64_t *symbols) {
    for (int i = 0; i < m->input_count; i++) {
        tenon_view found;
        int rank = tenon_value_rank(tenon_graph_input(m->graph, i));
        const char *path = path_of(job, input_name(m, i));
        bool open = false;
        for (int d = 1; d < rank; d++)
            open = open || tenon_value_size(tenon_graph_input(m->graph, i), d) < 0;
        if (!is_array(m, i) || !open || strcmp(path, "-") == 0)
            continue;
        peek(job, path, input_name(m, i), &found);
        int skip = found.rank == rank ? 0 : 1;
        for (int d = 1; d < rank && found.rank == rank - skip; d++) {
            int symbol = symbol_of(m, i, d);
            if (symbol >= 0 && symbols[symbol] < 0)
                symbols[symbol] = found.shape[d - skip];
        }
    }
}

/* The batch is the first size of every array: the same number, or the same symbol. */
static tenon_status find_batch(batch_model *m, const batch_job *job, int64_t *symbols) {
    int symbol = -1;
    int64_t fixed = -1;
    char text[256];
    for (int i = 0; i < m->input_count; i++) {
        const tenon_value *input = tenon_graph_input(m->graph, i);
        if (!is_array(m, i))
            continue;
        if (tenon_value_rank(input) < 1)
            return tenon_fail(TENON_UNSUPPORTED, "input '%s' has no first axis for the samples",
                              input_name(m, i));
        int64_t size = tenon_value_size(input, 0);
        tenon_value_size_text(input, 0, text, sizeof text);
        int own = size < 0 ? find_symbol(m, text) : -1;
        if (size < 0 && own < 0)
            return strcmp(text, "?") == 0
                       ? batch_no_memory()
                       : tenon_fail(TENON_UNSUPPORTED, "the first size of input '%s' is %s",
                                    input_name(m, i), text);
        if (size >= 0 ? symbol >= 0 || (fixed >= 0 && fixed != size)
                      : fixed >= 0 || (symbol >= 0 && symbol != own))
            return tenon_fail(TENON_UNSUPPORTED,
                              "the first size of input '%s' is %s, which differs from that of "
                              "another input",
                              input_name(m, i), text);
        fixed = size >= 0 ? size : fixed;
        symbol = own >= 0 ? own : symbol;
    }
    int64_t least = 0, most = INT64_MAX, given = symbol >= 0 ? symbols[symbol] : fixed;
    if (symbol < 0 && fixed < 0)
        return tenon_fail(TENON_UNSUPPORTED, "the model has no input that is an array");
    if (given >= 0 && job->batch > 0 && job->batch != given)
        return tenon_fail(TENON_INVALID_ARGUMENT,
                          "--batch: it is %" PRId64 ", the model's is %" PRId64, job->batch, given);
    if (symbol >= 0)
        tenon_graph_symbol(m->graph, symbol, NULL, &least, &most);
    m->batch = given >= 0 ? given : job->batch > 0 ? job->batch : DEFAULT_BATCH;
    if (given < 0 && job->batch == 0)
        m->batch = m->batch < least ? least : m->batch > most ? most : m->batch;
    if (m->batch < 1 || m->batch < least || m->batch > most)
        return tenon_fail(TENON_INVALID_ARGUMENT,
                          "--batch, --dim: a batch of %" PRId64 " is not from %" PRId64
                          " to %" PRId64,
                          m->batch, least > 1 ? least : 1, most);
    if (symbol >= 0)
        symbols[symbol] = m->batch;
    return TENON_OK;
}

static tenon_status take_number(batch_model *m, const batch_job *job, int index) {
    tenon_dtype dtype = tenon_value_dtype(tenon_graph_input(m->graph, index));
    const char *text = find_named(job, input_name(m, index));
    char *end;
    errno = 0;
    double real = strtod(text, &end);
    bool ok = end != text && *end == '\0';
    if (dtype == TENON_FLOAT64) {
        memcpy(&m->numbers[index], &real, sizeof real);
    } else {
        errno = 0;
        long long whole = strtoll(text, &end, 10);
        ok = errno == 0 && end != text && *end == '\0';
        m->numbers[index] = whole;
        if (dtype == TENON_BOOL)
            *(bool *)&m->numbers[index] = whole != 0;
    }
    if (!ok)
        return tenon_fail(TENON_INVALID_ARGUMENT, "--input: '%s' is a number, not '%s'",
                          input_name(m, index), text);
    m->inputs[index] = (tenon_view){.data = &m->numbers[index], .dtype = dtype};
    return TENON_OK;
}

static void set_strides(tenon_view *view) {
    int64_t stride = 1;
    for (int d = view->rank - 1; d >= 0; d--) {
        view->strides[d] = stride;
        stride *= view->shape[d] > 0 ? view->shape[d] : 1;
    }
}

static tenon_status take_array(batch_model *m, int index, const int64_t *symbols) {
    const tenon_value *input = tenon_graph_input(m->graph, index);
    tenon_view view = {.dtype = tenon_value_dtype(input), .rank = tenon_value_rank(input)};
    batch_field *field = &m->fields[m->field_count];
    int64_t bytes = (int64_t)tenon_dtype_size(view.dtype);
    char text[256];
    for (int d = 0; d < view.rank; d++) {
        tenon_status status = tenon_value_size_at(input, d, symbols, &view.shape[d]);
        if (status == TENON_OUT_OF_MEMORY)
            return status;
        if (status != TENON_OK) {
            tenon_value_size_text(input, d, text, sizeof text);
            return tenon_fail(TENON_INVALID_ARGUMENT,
                              "dimension %d of input '%s' is %s: give its symbols with --dim "
                              "SYMBOL=N",
                              d, input_name(m, index), text);
        }
        if (__builtin_mul_overflow(bytes, view.shape[d], &bytes))
            return tenon_fail(TENON_INVALID_ARGUMENT, "input '%s' is too large",
                              input_name(m, index));
    }
    set_strides(&view);
    m->inputs[index] = view;
    *field = (batch_field){.name = input_name(m, index), .row = view};
    field->row.rank--;
    memmove(field->row.shape, view.shape + 1, (size_t)field->row.rank * sizeof *view.shape);
    set_strides(&field->row);
    field->bytes = (size_t)(bytes / m->batch);
    m->field_inputs[m->field_count++] = index;
    return TENON_OK;
}

/* Samples without any byte could be as many as a header says. */
static tenon_status check_rows(const batch_model *m) {
    size_t bytes = 0;
    for (int i = 0; i < m->field_count; i++)
        bytes += m->fields[i].bytes;
    return bytes > 0 ? TENON_OK
                     : tenon_fail(TENON_UNSUPPORTED, "input '%s': samples have no elements",
                                  m->fields[0].name);
}

static tenon_status take_inputs(batch_model *m, const batch_job *job) {
    size_t count = (size_t)m->input_count + 1;
    int symbol_count = tenon_graph_symbol_count(m->graph);
    int64_t *symbols = malloc(((size_t)symbol_count + 1) * sizeof *symbols);
    m->inputs = calloc(count, sizeof *m->inputs);
    m->numbers = calloc(count, sizeof *m->numbers);
    m->fields = calloc(count, sizeof *m->fields);
    m->field_inputs = calloc(count, sizeof *m->field_inputs);
    bool ok = symbols && m->inputs && m->numbers && m->fields && m->field_inputs;
    tenon_status status = ok ? TENON_OK : batch_no_memory();
    for (int i = 0; ok && i < symbol_count; i++)
        symbols[i] = -1;
    if (status == TENON_OK)
        status = take_dims(m, job, symbols);
    if (status == TENON_OK)
        status = find_batch(m, job, symbols);
    if (status == TENON_OK)
        take_sizes(m, job, symbols);
    for (int i = 0; i < m->input_count && status == TENON_OK; i++)
        status = is_array(m, i) ? take_array(m, i, symbols) : take_number(m, job, i);
    if (status == TENON_OK)
        status = check_rows(m);
    free(symbols);
    return status;
}

/* ---- Sources ---- */

/* One path, with the fields that it fills. */
typedef struct given {
    const char *path, *name;
    batch_field *fields;
    int *numbers, count;
    batch_source *source;
} given;

static tenon_status open_source(const batch_job *job, given *g) {
    if (batch_path_is_images(g->path)) {
        if (g->count > 1)
            return tenon_fail(TENON_INVALID_ARGUMENT,
                              "--input: images fill one input, and these would fill %d: NAME=PATH "
                              "says which",
                              g->count);
        return batch_source_images(g->path, transform_of(job), g->fields, &g->source);
    }
    return strcmp(g->path, "-") == 0 ? batch_source_stream(0, g->fields, g->count, &g->source)
                                     : batch_source_files(g->path, g->fields, g->count, &g->source);
}

static tenon_status open_join(batch_model *m, given *all, int count) {
    batch_source *parts[BATCH_MOST_INPUTS];
    const char *names[BATCH_MOST_INPUTS];
    const int *fields[BATCH_MOST_INPUTS];
    int counts[BATCH_MOST_INPUTS];
    for (int i = 0; i < count; i++) {
        parts[i] = all[i].source;
        names[i] = all[i].name;
        fields[i] = all[i].numbers;
        counts[i] = all[i].count;
    }
    return batch_source_join(parts, names, fields, counts, count, &m->source);
}

/* Fields with a path of their own are sources of their own; the path without a name fills all
 * others. */
static tenon_status open_sources(batch_model *m, const batch_job *job) {
    given all[BATCH_MOST_INPUTS] = {0};
    int count = 0, rest = -1, streams = 0, images = 0;
    tenon_status status = TENON_OK;
    if (m->field_count > BATCH_MOST_INPUTS)
        return tenon_fail(TENON_UNSUPPORTED, "the model has more than %d inputs",
                          BATCH_MOST_INPUTS);
    m->sorted = calloc((size_t)m->field_count + 1, sizeof *m->sorted);
    int *numbers = calloc((size_t)m->field_count + 1, sizeof *numbers);
    if (!m->sorted || !numbers) {
        free(numbers);
        return batch_no_memory();
    }
    int used = 0;
    for (int own = 1; own >= 0; own--) { /* those with a path of their own first */
        for (int k = 0; k < m->field_count; k++) {
            const char *path = find_named(job, m->fields[k].name);
            if ((path != NULL) != (own != 0))
                continue;
            if (own || rest < 0) {
                rest = own ? -1 : count;
                all[count++] = (given){.path = path ? path : find_unnamed(job),
                                       .name = m->fields[k].name,
                                       .fields = m->sorted + used,
                                       .numbers = numbers + used};
            }
            m->sorted[used] = m->fields[k];
            numbers[used++] = k;
            all[count - 1].count++;
        }
    }
    if (rest < 0 && find_unnamed(job))
        status = tenon_fail(TENON_INVALID_ARGUMENT, "--input: nothing is left for '%s'",
                            find_unnamed(job));
    for (int i = 0; i < count; i++)
        images += batch_path_is_images(all[i].path);
    for (int i = 0; i < count; i++)
        streams += strcmp(all[i].path, "-") == 0;
    if (status == TENON_OK && job->images && images == 0)
        status = tenon_fail(TENON_INVALID_ARGUMENT,
                            "--resize, --crop, --mean, --std, --interpolation and --max-pixels are "
                            "for images, and no input is any");
    if (status == TENON_OK && streams > 1)
        status = tenon_fail(TENON_INVALID_ARGUMENT,
                            "--input: standard input can be given once; without a name it is "
                            "records of all inputs");
    for (int i = 0; i < count && status == TENON_OK; i++)
        status = open_source(job, &all[i]);
    if (status == TENON_OK && count > 1)
        status = open_join(m, all, count);
    else if (status == TENON_OK)
        m->source = all[0].source;
    for (int i = 0; i < count && status != TENON_OK; i++)
        batch_source_destroy(&all[i].source);
    free(numbers);
    return status;
}

/* ---- All ---- */

tenon_status batch_model_open(const batch_job *job, batch_model *out) {
    *out = (batch_model){0};
    tenon_status status = tenon_load_with(job->model, &job->load, &out->graph);
    if (status == TENON_INVALID_ARGUMENT) /* the file's fault, and not the caller's */
        status = TENON_INVALID_FILE;
    BATCH_TRY(status);
    out->input_count = tenon_graph_input_count(out->graph);
    BATCH_TRY(check_given(out, job));
    BATCH_TRY(take_inputs(out, job));
    return open_sources(out, job);
}

void batch_model_close(batch_model *model) {
    batch_source_destroy(&model->source);
    tenon_graph_destroy(&model->graph);
    free(model->inputs);
    free(model->numbers);
    free(model->fields);
    free(model->sorted);
    free(model->field_inputs);
    *model = (batch_model){0};
}
