/* A run beside one that was saved. */
#include "bench.h"
#include "stats.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading ---- */

static bool check_samples(const char *path, const cJSON *result, int index) {
    const cJSON *samples = cJSON_GetObjectItemCaseSensitive(result, "samples_ms"), *item;
    int at = 0;
    if (!cJSON_IsArray(samples) || cJSON_GetArraySize(samples) == 0)
        return bench_fail("%s: results[%d] has no list 'samples_ms' with numbers", path, index);
    cJSON_ArrayForEach(item, samples) {
        if (!cJSON_IsNumber(item) || !(item->valuedouble > 0) || !isfinite(item->valuedouble))
            return bench_fail("%s: results[%d].samples_ms[%d] is no number above 0", path, index,
                              at);
        at++;
    }
    return true;
}

static bool check_result(const char *path, const cJSON *result, int index) {
    static const char *const texts[] = {"model", "precision"};
    for (int i = 0; i < 2; i++) {
        if (!*bench_text(result, texts[i]))
            return bench_fail("%s: results[%d] has no text '%s'", path, index, texts[i]);
    }
    if (*bench_text(result, "error"))
        return true; /* it failed then, so that there is nothing to compare with */
    if (isnan(bench_number(result, "batch")))
        return bench_fail("%s: results[%d] has no number 'batch'", path, index);
    return check_samples(path, result, index);
}

cJSON *bench_run_read(const char *path) {
    cJSON *run = bench_read_json(path), *result;
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(run, "results");
    bool fine = run != NULL;
    int index = 0;
    if (run && strcmp(bench_text(run, "name"), "tenon") != 0)
        fine = bench_fail("%s: this is no run that `tenon bench --json` saved: its name is not "
                          "'tenon'",
                          path);
    else if (run && !cJSON_IsArray(results))
        fine = bench_fail("%s: this is no run that `tenon bench --json` saved: it has no list "
                          "'results'",
                          path);
    if (fine)
        cJSON_ArrayForEach(result, results) {
            fine = fine && check_result(path, result, index++);
        }
    if (!fine) {
        cJSON_Delete(run);
        run = NULL;
    }
    return run;
}

/* ---- Comparing ---- */

static const cJSON *find(const cJSON *run, const cJSON *like) {
    const cJSON *result;
    cJSON_ArrayForEach(result, cJSON_GetObjectItemCaseSensitive(run, "results")) {
        if (strcmp(bench_text(result, "model"), bench_text(like, "model")) == 0 &&
            strcmp(bench_text(result, "precision"), bench_text(like, "precision")) == 0 &&
            bench_number(result, "batch") == bench_number(like, "batch"))
            return *bench_text(result, "error") ? NULL : result;
    }
    return NULL;
}

static double *sorted_samples(const cJSON *result, int *count) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(result, "samples_ms"), *item;
    double *samples = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *samples);
    *count = 0;
    if (!samples)
        return NULL;
    cJSON_ArrayForEach(item, list) {
        samples[(*count)++] = item->valuedouble;
    }
    bench_sort(samples, *count);
    return samples;
}

bool bench_compare(cJSON *result, const cJSON *baseline, double threshold, bool *slower) {
    const cJSON *theirs = find(baseline, result);
    int count, their_count;
    *slower = false;
    if (!theirs)
        return true;
    double *ours = sorted_samples(result, &count), *old = sorted_samples(theirs, &their_count);
    bool fine = ours && old;
    if (fine) {
        bench_interval interval;
        double ratio = bench_ratio(ours, count, old, their_count, &interval);
        *slower = interval.low > threshold;
        cJSON *item = cJSON_AddObjectToObject(result, "baseline");
        cJSON_AddNumberToObject(item, "median_ms", bench_quantile(old, their_count, 0.5));
        cJSON_AddNumberToObject(item, "ratio", ratio);
        cJSON *bounds = cJSON_CreateDoubleArray((double[]){interval.low, interval.high}, 2);
        fine = cJSON_AddItemToObject(item, "ratio_interval", bounds) &&
               cJSON_AddBoolToObject(item, "slower", *slower);
    }
    free(ours);
    free(old);
    return fine || bench_fail("out of memory");
}

bool bench_run_note_baseline(cJSON *run, const cJSON *baseline, double threshold) {
    const cJSON *environ = cJSON_GetObjectItemCaseSensitive(baseline, "environ");
    cJSON_AddNumberToObject(run, "threshold", threshold);
    return !environ ||
           cJSON_AddItemToObject(run, "baseline_environ", cJSON_Duplicate(environ, true)) ||
           bench_fail("out of memory");
}
