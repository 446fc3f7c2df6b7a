#include "mapped.h"
#include "topk.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char header_line[] = "sample,rank,index,label,score\n";

typedef struct topk {
    batch_sink base;
    int64_t classes, count;
    bool softmax;
    char **labels; /* NULL: none */
    double *scores;
    int64_t *order;
} topk;

/* ---- Text ---- */

static tenon_status read_labels(topk *s, const char *path, const char *output) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    int64_t count = 0;
    tenon_status status = TENON_OK;
    s->labels = calloc((size_t)s->classes + 1, sizeof *s->labels);
    if (!s->labels)
        return batch_no_memory();
    FILE *file = NULL;
    BATCH_TRY(batch_open_lines(path, &file));
    while (status == TENON_OK && (errno = 0, length = getline(&line, &capacity, file)) >= 0) {
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            length--;
        if (count < s->classes && !(s->labels[count] = strndup(line, (size_t)length)))
            status = batch_no_memory();
        count++;
    }
    if (status == TENON_OK && !feof(file))
        status =
            tenon_fail(batch_io_status(errno), "%s: cannot be read: %s", path, strerror(errno));
    free(line);
    fclose(file);
    if (status == TENON_OK && count != s->classes)
        status = tenon_fail(TENON_INVALID_FILE,
                            "%s: it has %" PRId64 " labels, output '%s' has %" PRId64 " classes",
                            path, count, output, s->classes);
    return status;
}

static tenon_status write_header(const batch_sink *base, int64_t rows, char *bytes) {
    (void)rows;
    memcpy(bytes, header_line, base->header_size);
    return TENON_OK;
}

/* ---- The best ---- */

static bool better(const double *scores, int64_t a, int64_t b) {
    if (isnan(scores[a]) || isnan(scores[b]))
        return isnan(scores[a]) == isnan(scores[b]) ? a < b : isnan(scores[b]);
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
}

/* Moves the worst of a heap whose worst is in front down from `at`. */
static void sink_down(const double *scores, int64_t *heap, int64_t count, int64_t at) {
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && better(scores, heap[child], heap[child + 1]))
            child++;
        if (!better(scores, heap[at], heap[child]))
            return;
        int64_t held = heap[at];
        heap[at] = heap[child];
        heap[child] = held;
    }
}

/* The best `count` indices, in order: a heap of them, then heap sort. */
static void find_best(const double *scores, int64_t classes, int64_t count, int64_t *best) {
    for (int64_t i = 0; i < count; i++)
        best[i] = i;
    for (int64_t i = count / 2 - 1; i >= 0; i--)
        sink_down(scores, best, count, i);
    for (int64_t i = count; i < classes; i++) {
        if (better(scores, i, best[0])) {
            best[0] = i;
            sink_down(scores, best, count, 0);
        }
    }
    for (int64_t left = count - 1; left > 0; left--) {
        int64_t worst = best[0];
        best[0] = best[left];
        best[left] = worst;
        sink_down(scores, best, left, 0);
    }
}

static void to_probabilities(double *scores, int64_t count) {
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        most = scores[i] > most ? scores[i] : most;
    for (int64_t i = 0; i < count; i++)
        sum += scores[i] = exp(scores[i] - most);
    for (int64_t i = 0; i < count; i++)
        scores[i] /= sum;
}

static tenon_status encode_row(topk *s, const tenon_view *row, const char *sample,
                               batch_bytes *out) {
    tenon_view scores = *row;
    scores.dtype = TENON_FLOAT64;
    scores.data = s->scores;
    BATCH_TRY(tenon_view_copy(&scores, row));
    if (s->softmax)
        to_probabilities(s->scores, s->classes);
    find_best(s->scores, s->classes, s->count, s->order);
    for (int64_t rank = 0; rank < s->count; rank++) {
        int64_t index = s->order[rank];
        BATCH_TRY(batch_csv_quote(out, sample));
        BATCH_TRY(batch_bytes_print(out, ",%" PRId64 ",%" PRId64 ",", rank + 1, index));
        BATCH_TRY(batch_csv_quote(out, s->labels ? s->labels[index] : ""));
        /* The sign of a NaN tells nothing, and differs between CPUs. */
        BATCH_TRY(isnan(s->scores[index]) ? batch_bytes_print(out, ",nan\n")
                                          : batch_bytes_print(out, ",%.9g\n", s->scores[index]));
    }
    return TENON_OK;
}

static tenon_status encode(batch_sink *base, const batch_rows *rows, batch_bytes *out) {
    topk *s = (topk *)base;
    int64_t bytes = s->classes * (int64_t)tenon_dtype_size(rows->view.dtype);
    char name[BATCH_TEXT];
    for (int64_t i = 0; i < rows->count; i++) {
        if (rows->bad[i])
            continue;
        rows->source->name(rows->source, rows->first + i, name);
        tenon_view row = {.data = (char *)rows->view.data + i * bytes,
                          .dtype = rows->view.dtype,
                          .rank = 1,
                          .shape = {s->classes},
                          .strides = {1}};
        BATCH_TRY(encode_row(s, &row, name, out));
    }
    return TENON_OK;
}

static void destroy(batch_sink *base) {
    topk *s = (topk *)base;
    for (int64_t i = 0; s->labels && i < s->classes; i++)
        free(s->labels[i]);
    free(s->labels);
    free(s->scores);
    free(s->order);
    free(s);
}

static tenon_status start(topk *s, const char *output, const tenon_view *row,
                          const batch_topk *options) {
    int64_t longest = 1;
    s->classes = tenon_view_numel(row);
    for (int d = 0; d < row->rank; d++)
        longest = row->shape[d] > longest ? row->shape[d] : longest;
    if (s->classes < 1 || s->classes != longest)
        return tenon_fail(TENON_INVALID_ARGUMENT,
                          "output '%s' has %" PRId64
                          " numbers for a sample that are not one score for each class: a .csv "
                          "file cannot hold the best",
                          output, s->classes);
    s->count = options->count > 0 ? options->count : BATCH_TOPK;
    s->count = s->count < s->classes ? s->count : s->classes;
    s->scores = malloc((size_t)s->classes * sizeof *s->scores);
    s->order = malloc((size_t)s->count * sizeof *s->order);
    if (!s->scores || !s->order)
        return batch_no_memory();
    return options->labels ? read_labels(s, options->labels, output) : TENON_OK;
}

tenon_status batch_sink_topk(const char *output, const tenon_view *row, const batch_topk *options,
                             batch_sink **out) {
    static const batch_topk none;
    topk *s = calloc(1, sizeof *s);
    if (!s)
        return batch_no_memory();
    options = options ? options : &none;
    *s = (topk){.base = {.header_size = strlen(header_line),
                         .header = write_header,
                         .encode = encode,
                         .destroy = destroy},
                .softmax = options->softmax};
    tenon_status status = start(s, output, row, options);
    if (status != TENON_OK)
        destroy(&s->base);
    else
        *out = &s->base;
    return status;
}
