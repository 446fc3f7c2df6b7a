/* The record of a run: results with what follows from them, and TorchBench's metrics. */
#include "bench.h"
#include "stats.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

static double sum_of(const cJSON *results, const char *name) {
    const cJSON *result;
    double sum = 0;
    cJSON_ArrayForEach(result, results) {
        sum += bench_number(result, name);
    }
    return sum;
}

static void set_number(cJSON *object, const char *name, double number) {
    cJSON_DeleteItemFromObjectCaseSensitive(object, name);
    if (isfinite(number))
        cJSON_AddNumberToObject(object, name, number);
}

/* The numbers of a list in an array, which the caller frees; NULL: memory is out. */
static double *numbers_of(const cJSON *list, int *count) {
    double *numbers = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *numbers);
    const cJSON *item;
    *count = 0;
    if (numbers)
        cJSON_ArrayForEach(item, list) {
            numbers[(*count)++] = item->valuedouble;
        }
    return numbers;
}

/* ---- Results ---- */

static bool add_statistics(cJSON *result) {
    int count;
    double *samples = numbers_of(cJSON_GetObjectItemCaseSensitive(result, "samples_ms"), &count);
    double *work = calloc((size_t)count + 1, sizeof *work);
    bool fine = samples && work && count > 0;
    if (fine) {
        bench_stats s;
        bench_describe(samples, count, work, &s);
        set_number(result, "median_ms", s.median);
        cJSON *interval = cJSON_CreateDoubleArray((double[]){s.interval.low, s.interval.high}, 2);
        fine = cJSON_AddItemToObject(result, "interval_ms", interval);
        set_number(result, "min_ms", s.min);
        set_number(result, "max_ms", s.max);
        set_number(result, "mean_ms", s.mean);
        set_number(result, "p90_ms", s.p90);
        set_number(result, "p99_ms", s.p99);
        set_number(result, "iqr_ms", s.iqr);
        set_number(result, "mad_ms", s.mad);
    }
    free(samples);
    free(work);
    return fine;
}

/* Samples a second of one instance, and of all. A model without a batch gives one sample a run. */
static bool add_rates(cJSON *result, cJSON *instances) {
    double batch = bench_number(result, "batch"), sum = 0;
    cJSON *instance;
    cJSON_ArrayForEach(instance, instances) {
        if (!add_statistics(instance))
            return false;
        double rate = fmax(batch, 1) * 1e3 / bench_number(instance, "median_ms");
        set_number(instance, "throughput", rate);
        sum += rate;
    }
    set_number(result, "throughput", sum);
    set_number(result, "flops_per_s", sum / fmax(batch, 1) * bench_number(result, "model_flops"));
    return true;
}

/* Puts the samples of all instances together; the times of preparing and the memory become means,
 * as in TorchBench. */
static bool merge(cJSON *result, cJSON *instances) {
    static const char *const means[] = {"load_ms", "compile_ms", "first_run_ms", "ttfb_ms",
                                        "peak_memory_bytes"};
    int count = cJSON_GetArraySize(instances);
    cJSON *samples = cJSON_GetObjectItemCaseSensitive(result, "samples_ms"), *instance;
    const cJSON *item;
    for (size_t i = 0; i < sizeof means / sizeof *means; i++)
        set_number(result, means[i], sum_of(instances, means[i]) / count);
    bool first = true, converged = true;
    cJSON_ArrayForEach(instance, instances) {
        converged =
            converged && cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(instance, "converged"));
        const cJSON *more = first ? NULL : cJSON_GetObjectItemCaseSensitive(instance, "samples_ms");
        cJSON_ArrayForEach(item, more) {
            if (!cJSON_AddItemToArray(samples, cJSON_CreateNumber(item->valuedouble)))
                return false;
        }
        first = false;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(result, "converged");
    cJSON_AddBoolToObject(result, "converged", converged);
    return true;
}

/* What the parts say of each instance that is not in the result already. */
static bool add_instances(cJSON *result, const cJSON *instances) {
    static const char *const kept[] = {"median_ms", "throughput", "peak_memory_bytes"};
    cJSON *list = cJSON_AddArrayToObject(result, "instances");
    const cJSON *instance;
    cJSON_ArrayForEach(instance, instances) {
        cJSON *item = cJSON_CreateObject();
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            set_number(item, kept[i], bench_number(instance, kept[i]));
        if (!cJSON_AddItemToArray(list, item)) {
            cJSON_Delete(item);
            return false;
        }
    }
    return true;
}

cJSON *bench_combine(cJSON *results) {
    cJSON *result = cJSON_Duplicate(cJSON_GetArrayItem(results, 0), true);
    bool fine = result && merge(result, results) && add_statistics(result) &&
                add_rates(result, results) && add_instances(result, results);
    cJSON_Delete(results);
    if (!fine) {
        cJSON_Delete(result);
        bench_fail("out of memory");
        return NULL;
    }
    return result;
}

/* ---- The machine ---- */

cJSON *bench_run_create(const bench_options *options) {
    static const char *const backends[] = {"auto", "onednn", "reference"};
    tenon_build_info info;
    struct utsname system = {0};
    char date[64];
    time_t now = time(NULL);
    struct tm parts;
    tenon_get_build_info(&info);
    uname(&system);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
    int cores = bench_cores(), threads = options->session.threads;
    cJSON *run = cJSON_CreateObject();
    cJSON_AddStringToObject(run, "name", "tenon");
    cJSON *environ = cJSON_AddObjectToObject(run, "environ");
    /* TorchBench's tools want this key, whatever it says. */
    cJSON_AddStringToObject(environ, "pytorch_git_version", "none: this is Tenon");
    cJSON_AddStringToObject(environ, "tenon_version", info.version);
    cJSON_AddStringToObject(environ, "onednn_version", info.onednn_version);
    cJSON_AddStringToObject(environ, "onednn_runtime", info.onednn_runtime);
    cJSON_AddStringToObject(environ, "onednn_isa", info.onednn_isa);
    cJSON_AddStringToObject(environ, "kernel_isa", info.kernel_isa);
    cJSON_AddStringToObject(environ, "device", info.cpu);
    cJSON_AddStringToObject(environ, "system", system.sysname);
    cJSON_AddStringToObject(environ, "release", system.release);
    cJSON_AddStringToObject(environ, "machine", system.machine);
    cJSON_AddStringToObject(environ, "date", date);
    cJSON_AddStringToObject(environ, "backend", backends[options->session.backend]);
    cJSON_AddNumberToObject(environ, "cores", cores);
    cJSON_AddNumberToObject(environ, "threads", threads ? threads : cores / options->instances);
    cJSON_AddNumberToObject(environ, "instances", options->instances);
    cJSON_AddObjectToObject(environ, "peaks");
    cJSON_AddObjectToObject(run, "metrics");
    if (!cJSON_AddArrayToObject(run, "results")) {
        cJSON_Delete(run);
        bench_fail("out of memory");
        return NULL;
    }
    return run;
}

static cJSON *peaks_of(const cJSON *run) {
    const cJSON *environ = cJSON_GetObjectItemCaseSensitive(run, "environ");
    return cJSON_GetObjectItemCaseSensitive(environ, "peaks");
}

/* Adds up the rates of instances that ran at once. */
static bool add_memory(cJSON *peaks, const cJSON *results) {
    cJSON *list = cJSON_Duplicate(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(results, 0), "memory"), true);
    int count = cJSON_GetArraySize(list);
    for (int i = 0; i < count; i++) {
        const cJSON *result;
        double rate = 0;
        cJSON_ArrayForEach(result, results) {
            const cJSON *memory = cJSON_GetObjectItemCaseSensitive(result, "memory");
            rate += bench_number(cJSON_GetArrayItem(memory, i), "bytes_per_s");
        }
        set_number(cJSON_GetArrayItem(list, i), "bytes_per_s", rate);
    }
    return !list || cJSON_AddItemToObject(peaks, "memory", list);
}

bool bench_run_add_peaks(cJSON *run, tenon_precision precision, cJSON *results) {
    cJSON *peaks = peaks_of(run), *item = cJSON_CreateObject();
    set_number(item, "flops_per_s", sum_of(results, "gemm_flops_per_s"));
    set_number(item, "size", bench_number(cJSON_GetArrayItem(results, 0), "gemm_size"));
    bool fine = cJSON_AddItemToObject(peaks, bench_precision_text(precision), item) &&
                add_memory(peaks, results);
    cJSON_Delete(results);
    return fine || bench_fail("out of memory");
}

/* The rate of the smallest array that `bytes` fit in; NAN when it was not measured. */
static double memory_rate(const cJSON *peaks, double bytes) {
    const cJSON *item;
    double rate = NAN;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(peaks, "memory")) {
        rate = bench_number(item, "bytes_per_s");
        if (bytes <= bench_number(item, "bytes"))
            break;
    }
    return rate;
}

/* The roofline (Williams, Waterman and Patterson, Roofline, 2009), with a roof for each size of
 * what is moved: the least time that arithmetic and memory allow. Each instance has its share of
 * what all of them reached together. */
static void add_bounds(const cJSON *peaks, double instances, const cJSON *result, cJSON *steps) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(peaks, bench_text(result, "precision"));
    double peak = bench_number(item, "flops_per_s") / instances;
    cJSON *step;
    cJSON_ArrayForEach(step, steps) {
        double bytes = bench_number(step, "read_bytes") + bench_number(step, "written_bytes");
        double compute = bench_number(step, "flops") / peak * 1e6;
        double memory = bytes / memory_rate(peaks, bytes) * instances * 1e6;
        if (!isfinite(compute) || !isfinite(memory))
            continue;
        set_number(step, "bound_us", fmax(compute, memory));
        cJSON_AddStringToObject(step, "bound", compute >= memory ? "compute" : "memory");
    }
}

bool bench_run_add(cJSON *run, cJSON *result) {
    const cJSON *peaks = peaks_of(run);
    const cJSON *peak = cJSON_GetObjectItemCaseSensitive(peaks, bench_text(result, "precision"));
    set_number(result, "gemm_share",
               bench_number(result, "flops_per_s") / bench_number(peak, "flops_per_s"));
    const cJSON *environ = cJSON_GetObjectItemCaseSensitive(run, "environ");
    add_bounds(peaks, bench_number(environ, "instances"), result,
               cJSON_GetObjectItemCaseSensitive(result, "steps"));
    if (cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(run, "results"), result))
        return true;
    cJSON_Delete(result);
    return bench_fail("out of memory");
}

/* ---- TorchBench ---- */

/* The name that TorchBench's test_bench gives a metric. What Tenon calls bf16 is its amp_bf16. */
static void metric_name(const cJSON *result, const char *metric, char *text, size_t capacity) {
    bool half = strcmp(bench_text(result, "precision"), "bf16") == 0;
    double batch = bench_number(result, "batch");
    char size[32] = "None";
    if (batch >= 1)
        snprintf(size, sizeof size, "%.0f", batch);
    snprintf(text, capacity,
             "model=%s, test=eval, device=cpu, bs=%s, extra_args=['--precision', '%s'], metric=%s",
             bench_text(result, "model"), size, half ? "amp_bf16" : "fp32", metric);
}

bool bench_run_finish(cJSON *run) {
    static const struct {
        const char *metric, *field;
        double scale; /* to milliseconds, samples a second, GB and FLOP */
    } metrics[] = {{"latencies", "median_ms", 1},
                   {"throughputs", "throughput", 1},
                   {"cpu_peak_mem", "peak_memory_bytes", 1.0 / (1 << 30)},
                   {"ttfb", "ttfb_ms", 1},
                   {"model_flops", "model_flops", 1}};
    cJSON *to = cJSON_GetObjectItemCaseSensitive(run, "metrics"), *result;
    cJSON_ArrayForEach(result, cJSON_GetObjectItemCaseSensitive(run, "results")) {
        const char *error = bench_text(result, "error");
        for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
            char name[1024];
            double number = bench_number(result, metrics[i].field);
            metric_name(result, metrics[i].metric, name, sizeof name);
            cJSON_DeleteItemFromObjectCaseSensitive(to, name);
            cJSON *item =
                *error ? cJSON_CreateString(error) : cJSON_CreateNumber(number * metrics[i].scale);
            if (!cJSON_AddItemToObject(to, name, item)) {
                cJSON_Delete(item);
                return bench_fail("out of memory");
            }
        }
    }
    return true;
}

bool bench_run_write(const cJSON *run, const char *path) {
    char *text = cJSON_Print(run);
    if (!text)
        return bench_fail("out of memory");
    size_t length = strlen(text);
    text[length] = '\n'; /* in the place of the NUL */
    bool fine = tenon_file_write(path, text, length + 1) == TENON_OK ||
                bench_fail("%s", tenon_last_error());
    cJSON_free(text);
    return fine;
}
