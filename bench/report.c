/* The run as tables. */
#include "bench.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tables: columns as wide as what stands in them ---- */

enum { MOST_COLUMNS = 16, CELL = 160 };

typedef struct table {
    int columns, rows, capacity;
    char (*cells)[CELL];
    bool left[MOST_COLUMNS]; /* the others are numbers */
} table;

/* A row's first cell; NULL when memory is out. */
static char (*add_row(table *t))[CELL] {
    if (t->rows == t->capacity) {
        int capacity = 2 * t->capacity + 16;
        void *grown = realloc(t->cells, (size_t)capacity * (size_t)t->columns * CELL);
        if (!grown)
            return NULL;
        t->cells = grown;
        t->capacity = capacity;
    }
    char(*row)[CELL] = t->cells + (size_t)t->rows++ * (size_t)t->columns;
    memset(row, 0, (size_t)t->columns * CELL);
    return row;
}

/* Characters, not bytes. */
static int width_of(const char *text) {
    int width = 0;
    for (; *text; text++)
        width += (*text & 0xc0) != 0x80;
    return width;
}

static void print_table(const table *t) {
    int widths[MOST_COLUMNS] = {0};
    for (int r = 0; r < t->rows; r++) {
        for (int c = 0; c < t->columns; c++) {
            int width = width_of(t->cells[r * t->columns + c]);
            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
    for (int r = 0; r < t->rows; r++) {
        char(*row)[CELL] = t->cells + r * t->columns;
        int last = t->columns - 1;
        while (last > 0 && !row[last][0])
            last--;
        for (int c = 0; c <= last; c++) {
            int gap = widths[c] - width_of(row[c]);
            if (!t->left[c])
                printf("%*s%s", gap, "", row[c]);
            else
                printf("%s%*s", row[c], c < last ? gap : 0, "");
            printf("%s", c < last ? "  " : "\n");
        }
    }
}

static void put(char *cell, const char *format, double number) {
    if (isfinite(number))
        snprintf(cell, CELL, format, number);
    else
        snprintf(cell, CELL, "-");
}

/* Four digits, more or less. */
static void put_scaled(char *cell, double number) {
    put(cell, number < 1 ? "%.4f" : number < 10 ? "%.3f" : number < 100 ? "%.2f" : "%.1f", number);
}

static const char *titles(int column) {
    static const char *const all[] = {"Model",   "Batch",      "Precision", "Median ms",
                                      "±",       "IQR",        "p90 ms",    "p99 ms",
                                      "Min ms",  "Samples/s",  "GFLOP/s",   "Of GEMM",
                                      "Load ms", "Compile ms", "First ms",  "Peak MiB"};
    return all[column];
}

static const cJSON *results_of(const cJSON *run) {
    return cJSON_GetObjectItemCaseSensitive(run, "results");
}

static bool has_failed(const cJSON *result) {
    return *bench_text(result, "error") != 0;
}

/* ---- The machine ---- */

static void print_machine(const cJSON *run) {
    const cJSON *environ = cJSON_GetObjectItemCaseSensitive(run, "environ");
    const cJSON *peaks = cJSON_GetObjectItemCaseSensitive(environ, "peaks"), *item;
    double threads = bench_number(environ, "threads");
    double instances = bench_number(environ, "instances");
    printf("%s; oneDNN %s, %s; kernels for %s; %.0f thread%s", bench_text(environ, "device"),
           bench_text(environ, "onednn_version"), bench_text(environ, "onednn_isa"),
           bench_text(environ, "kernel_isa"), threads, threads == 1 ? "" : "s");
    if (instances > 1)
        printf(" in each of %.0f instances", instances);
    printf("\n");
    for (int p = 0; p < 2; p++) {
        const char *precision =
            bench_precision_text(p ? TENON_PRECISION_BF16 : TENON_PRECISION_FP32);
        item = cJSON_GetObjectItemCaseSensitive(peaks, precision);
        if (item)
            printf("GEMM peak in %s: %.1f GFLOP/s (%.0f x %.0f)\n", precision,
                   bench_number(item, "flops_per_s") * 1e-9, bench_number(item, "size"),
                   bench_number(item, "size"));
    }
    const cJSON *memory = cJSON_GetObjectItemCaseSensitive(peaks, "memory");
    bool first = true;
    cJSON_ArrayForEach(item, memory) {
        printf("%s%.1f GB/s over %.1f MiB", first ? "Triad: " : ", ",
               bench_number(item, "bytes_per_s") * 1e-9, bench_number(item, "bytes") / (1 << 20));
        first = false;
    }
    printf(memory ? "\n\n" : "\n");
}

/* ---- Results ---- */

static void fill_row(char (*row)[CELL], const cJSON *result) {
    const cJSON *interval = cJSON_GetObjectItemCaseSensitive(result, "interval_ms");
    double batch = bench_number(result, "batch"), median = bench_number(result, "median_ms");
    double low = NAN, high = NAN;
    if (interval) {
        low = cJSON_GetArrayItem(interval, 0)->valuedouble;
        high = cJSON_GetArrayItem(interval, 1)->valuedouble;
    }
    snprintf(row[0], CELL, "%s", bench_text(result, "model"));
    put(row[1], "%.0f", batch > 0 ? batch : NAN);
    snprintf(row[2], CELL, "%s", bench_text(result, "precision"));
    if (has_failed(result)) {
        snprintf(row[3], CELL, "failed");
        return;
    }
    put_scaled(row[3], median);
    put(row[4],
        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(result, "converged")) ? "%.1f%%" : "%.1f%%!",
        (high - low) / 2 / median * 100);
    put(row[5], "%.1f%%", bench_number(result, "iqr_ms") / median * 100);
    put_scaled(row[6], bench_number(result, "p90_ms"));
    put_scaled(row[7], bench_number(result, "p99_ms"));
    put_scaled(row[8], bench_number(result, "min_ms"));
    put_scaled(row[9], bench_number(result, "throughput"));
    put(row[10], "%.1f", bench_number(result, "flops_per_s") * 1e-9);
    put(row[11], "%.0f%%", bench_number(result, "gemm_share") * 100);
    put(row[12], "%.1f", bench_number(result, "load_ms"));
    put(row[13], "%.1f", bench_number(result, "compile_ms"));
    put_scaled(row[14], bench_number(result, "first_run_ms"));
    put(row[15], "%.1f", bench_number(result, "peak_memory_bytes") / (1 << 20));
}

/* Gives false when memory is out, which cost no more than the table. */
static bool print_results(const cJSON *run) {
    enum { COLUMNS = 16 };
    table t = {.columns = COLUMNS, .left = {[0] = true, [2] = true}};
    const cJSON *result;
    char(*row)[CELL] = add_row(&t);
    bool unsettled = false;
    for (int c = 0; row && c < COLUMNS; c++)
        snprintf(row[c], CELL, "%s", titles(c));
    cJSON_ArrayForEach(result, results_of(run)) {
        row = row ? add_row(&t) : NULL;
        if (row)
            fill_row(row, result);
        unsettled =
            unsettled || cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(result, "converged"));
    }
    if (row)
        print_table(&t);
    free(t.cells);
    if (unsettled)
        printf("! the interval did not become as narrow as was asked for\n");
    return row != NULL;
}

static void print_failures(const cJSON *run) {
    const cJSON *result;
    bool any = false;
    cJSON_ArrayForEach(result, results_of(run)) {
        if (!has_failed(result))
            continue;
        printf("%s%s, batch %.0f, %s: %s\n", any ? "" : "\nFailed:\n", bench_text(result, "model"),
               bench_number(result, "batch"), bench_text(result, "precision"),
               bench_text(result, "error"));
        any = true;
    }
}

/* ---- Against the baseline ---- */

static void note_difference(const cJSON *run, const char *field, const char *what) {
    const cJSON *a =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(run, "environ"), field);
    const cJSON *b = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(run, "baseline_environ"), field);
    if (b && !cJSON_Compare(a, b, true))
        printf("Note: the baseline was measured with %s\n", what);
}

static void fill_comparison(char (*row)[CELL], const cJSON *result, double threshold) {
    const cJSON *baseline = cJSON_GetObjectItemCaseSensitive(result, "baseline");
    const cJSON *interval = cJSON_GetObjectItemCaseSensitive(baseline, "ratio_interval");
    double low = cJSON_GetArrayItem(interval, 0)->valuedouble;
    double high = cJSON_GetArrayItem(interval, 1)->valuedouble;
    snprintf(row[0], CELL, "%s", bench_text(result, "model"));
    put(row[1], "%.0f", bench_number(result, "batch"));
    snprintf(row[2], CELL, "%s", bench_text(result, "precision"));
    put_scaled(row[3], bench_number(baseline, "median_ms"));
    put_scaled(row[4], bench_number(result, "median_ms"));
    put(row[5], "%.3f", bench_number(baseline, "ratio"));
    snprintf(row[6], CELL, "%.3f to %.3f", low, high);
    snprintf(row[7], CELL, "%s", low > threshold ? "SLOWER" : high < 1 ? "faster" : "");
}

static void print_comparison(const cJSON *run) {
    static const char *const heads[] = {"Model",  "Batch", "Precision", "Baseline ms",
                                        "Now ms", "Ratio", "95 %",      ""};
    enum { COLUMNS = 8 };
    double threshold = bench_number(run, "threshold"), logs = 0;
    table t = {.columns = COLUMNS, .left = {[0] = true, [2] = true, [6] = true, [7] = true}};
    const cJSON *result;
    int count = 0, all = 0;
    char(*row)[CELL] = add_row(&t);
    for (int c = 0; row && c < COLUMNS; c++)
        snprintf(row[c], CELL, "%s", heads[c]);
    cJSON_ArrayForEach(result, results_of(run)) {
        const cJSON *baseline = cJSON_GetObjectItemCaseSensitive(result, "baseline");
        all++;
        if (!baseline || !row)
            continue;
        row = add_row(&t);
        if (row)
            fill_comparison(row, result, threshold);
        logs += log(bench_number(baseline, "ratio"));
        count++;
    }
    printf("\nAgainst the baseline (above 1: slower):\n");
    note_difference(run, "device", "another CPU");
    note_difference(run, "onednn_version", "another oneDNN");
    note_difference(run, "onednn_isa", "another ISA of oneDNN");
    note_difference(run, "kernel_isa", "kernels for another ISA");
    note_difference(run, "threads", "another number of threads");
    note_difference(run, "instances", "another number of instances");
    if (count > 0 && row)
        print_table(&t);
    if (count > 0)
        printf("Geometric mean of %d ratio%s: %.3f\n", count, count == 1 ? "" : "s",
               exp(logs / count));
    if (count < all)
        printf("%d of %d results have none to compare with\n", all - count, all);
    free(t.cells);
}

/* ---- Details ---- */

typedef struct entry {
    const cJSON *first; /* step */
    const char *title;
    double time, flops, bytes, bound;
    int count;
} entry;

static int by_time(const void *a, const void *b) {
    double x = ((const entry *)a)->time, y = ((const entry *)b)->time;
    return (x < y) - (x > y);
}

static int by_title(const void *a, const void *b) {
    return strcmp(((const entry *)a)->title, ((const entry *)b)->title);
}

static void fill_detail(char (*row)[CELL], const entry *e, double total, bool one) {
    const double bound = e->bound;
    put(row[0], "%.1f", e->time);
    put(row[1], "%.1f%%", e->time / total * 100);
    put(row[2], "%.2f", e->flops * 1e-6);
    put(row[3], "%.2f", e->bytes / (1 << 20));
    put(row[4], "%.2f", e->bytes > 0 ? e->flops / e->bytes : NAN);
    put(row[5], "%.1f", e->flops / e->time * 1e-3);
    put(row[6], "%.1f", e->bytes / e->time * 1e-3);
    put(row[7], "%.0f%%", bound / e->time * 100);
    snprintf(row[8], CELL, "%s", one ? bench_text(e->first, "bound") : "");
    if (one)
        snprintf(row[9], CELL, "%s", bench_text(e->first, "kind"));
    else
        snprintf(row[9], CELL, "%d", e->count);
    snprintf(row[10], CELL, "%s", e->title);
    snprintf(row[11], CELL, "%s", one ? bench_text(e->first, "name") : "");
}

static void print_entries(entry *entries, int count, int limit, double total, bool one) {
    static const char *const heads[] = {"us",   "Share", "MFLOP",   "MiB",   "FLOP/B", "GFLOP/s",
                                        "GB/s", "Roof",  "Limited", "Where", "Step",   "Gives"};
    enum { COLUMNS = 12 };
    table t = {.columns = COLUMNS, .left = {[8] = true, [9] = one, [10] = true, [11] = true}};
    char(*row)[CELL] = add_row(&t);
    for (int c = 0; row && c < COLUMNS; c++)
        snprintf(row[c], CELL, "%s", heads[c]);
    if (row && !one) {
        row[8][0] = row[11][0] = 0;
        snprintf(row[9], CELL, "Steps");
    }
    qsort(entries, (size_t)count, sizeof *entries, by_time);
    for (int i = 0; i < count && row && (limit < 0 || i < limit); i++) {
        row = add_row(&t);
        if (row)
            fill_detail(row, &entries[i], total, one);
    }
    if (row)
        print_table(&t);
    if (limit >= 0 && count > limit)
        printf("%d more\n", count - limit);
    free(t.cells);
}

/* Steps of one title become one entry; returns how many there are. */
static int group(entry *entries, int count) {
    int groups = 0;
    qsort(entries, (size_t)count, sizeof *entries, by_title);
    for (int i = 0; i < count; i++) {
        entry *last = groups > 0 ? &entries[groups - 1] : NULL;
        if (!last || strcmp(last->title, entries[i].title) != 0) {
            entries[groups++] = entries[i];
            continue;
        }
        last->time += entries[i].time;
        last->flops += entries[i].flops;
        last->bytes += entries[i].bytes;
        last->bound += entries[i].bound;
        last->count++;
    }
    return groups;
}

static void print_detail(const cJSON *result, int limit) {
    const cJSON *steps = cJSON_GetObjectItemCaseSensitive(result, "steps"), *step;
    int count = 0;
    double total = 0, bound = 0;
    entry *entries = calloc((size_t)cJSON_GetArraySize(steps) + 1, sizeof *entries);
    if (!entries || !steps) {
        free(entries);
        return;
    }
    cJSON_ArrayForEach(step, steps) {
        entries[count] =
            (entry){.first = step,
                    .title = bench_text(step, "title"),
                    .time = bench_number(step, "time_us"),
                    .flops = bench_number(step, "flops"),
                    .bytes = bench_number(step, "read_bytes") + bench_number(step, "written_bytes"),
                    .bound = bench_number(step, "bound_us"),
                    .count = 1};
        total += entries[count].time;
        bound += entries[count++].bound;
    }
    printf("\n%s, batch %.0f, %s: %d steps, %.3f ms", bench_text(result, "model"),
           bench_number(result, "batch"), bench_text(result, "precision"), count, total * 1e-3);
    if (isfinite(bound))
        printf("; the roofs allow %.3f ms", bound * 1e-3);
    printf("\n");
    print_entries(entries, count, limit, total, true);
    printf("\nThe same by kind of step:\n");
    count = group(entries, count);
    print_entries(entries, count, limit, total, false);
    free(entries);
}

void bench_print(const cJSON *run, int limit) {
    const cJSON *result;
    print_machine(run);
    if (!print_results(run))
        printf("out of memory\n");
    print_failures(run);
    cJSON_ArrayForEach(result, results_of(run)) {
        print_detail(result, limit);
    }
    if (!isnan(bench_number(run, "threshold")))
        print_comparison(run);
}
