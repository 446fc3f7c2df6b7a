/* What the machine can do, at its best: matrix products through Tenon itself, and a triad over
 * arrays of several sizes. Both are measured in the run that they are compared with, with its
 * threads. */
#include "bench.h"
#include "stats.h"
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_RUNS = 15, CHAIN = 4 };
#define SECONDS_EACH 0.2
/* A product that would take longer is not tried. */
#define LONGEST_RUN 0.1

static bool failed(void) {
    fprintf(stderr, "%s\n", tenon_last_error());
    return false;
}

/* ---- Products of matrices ---- */

/* CHAIN square products, one after the other, so that what a run costs besides (casts of the input
 * and the output in bfloat16) weighs little. The weights keep the variance of the activations. */
static bool make_products(int n, tenon_graph **graph) {
    char text[1024];
    double range = sqrt(3.0 / n);
    int used = snprintf(text, sizeof text,
                        "graph peak {\n"
                        "  input %%x0: float32[%d, %d]\n"
                        "  const %%w: float32[%d, %d] = random(1, %.6f, %.6f)\n",
                        n, n, n, n, -range, range);
    for (int i = 0; i < CHAIN; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "  %%x%d = aten.mm(%%x%d, %%w)\n",
                         i + 1, i);
    snprintf(text + used, sizeof text - (size_t)used, "  output \"y\" = %%x%d\n}\n", CHAIN);
    return tenon_graph_parse(text, "peak", graph) == TENON_OK || failed();
}

static bool time_runs(tenon_context *context, const tenon_view *input, double *seconds) {
    double times[MOST_RUNS], start = bench_now();
    int count = 0;
    for (int i = -2; i < MOST_RUNS; i++) {
        tenon_view output = {0};
        double begin = bench_now();
        if (tenon_context_run(context, input, 1, &output, 1) != TENON_OK)
            return failed();
        if (i >= 0)
            times[count++] = bench_now() - begin;
        if (count >= 3 && bench_now() - start > SECONDS_EACH)
            break;
    }
    bench_sort(times, count);
    *seconds = times[0];
    return true;
}

/* FLOP a second of products of n by n matrices. */
static bool time_products(int n, const tenon_session_options *options, double *rate) {
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    tenon_tensor *input = NULL;
    double seconds = 0;
    bool fine = make_products(n, &graph);
    fine = fine && ((tenon_tensor_create(TENON_FLOAT32, 2, (int64_t[]){n, n}, &input) == TENON_OK &&
                     tenon_session_create(graph, options, &session) == TENON_OK &&
                     tenon_context_create(session, &context) == TENON_OK) ||
                    failed());
    if (fine) {
        float *x = tenon_tensor_view(input)->data;
        for (int i = 0; i < n * n; i++)
            x[i] = (float)(i % 61) / 30 - 1;
        fine = time_runs(context, tenon_tensor_view(input), &seconds);
    }
    *rate = fine ? 2.0 * n * n * n * CHAIN / seconds : 0;
    tenon_tensor_destroy(&input);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
    return fine;
}

static bool measure_products(bench_channel *channel, const bench_peak_job *p, cJSON *result) {
    static const int sizes[] = {512, 768, 1024, 1536, 2048, 3072, 4096};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    tenon_session_options options = p->options->session;
    double best = 0;
    int best_size = 0;
    options.precision = p->precision;
    options.bf16_fallback = TENON_BF16_FALLBACK_REFUSE;
    options.passes = NULL;
    for (int i = 0; i < COUNT; i++) {
        double rate, n = sizes[i];
        if (best > 0 && 2 * n * n * n * CHAIN / best > LONGEST_RUN)
            break;
        if (!time_products(sizes[i], &options, &rate))
            return false;
        best_size = rate > best ? sizes[i] : best_size;
        best = fmax(best, rate);
        bench_progress(channel, (i + 1.0) / COUNT / (p->memory ? 2 : 1));
    }
    cJSON_AddNumberToObject(result, "gemm_flops_per_s", best);
    cJSON_AddNumberToObject(result, "gemm_size", best_size);
    return true;
}

/* ---- Memory ---- */

/* McCalpin's STREAM triad, a = b + s * c (Memory bandwidth and machine balance, 1995), in floats;
 * like there three arrays count, though a cache may read `a` before it is written. */
#define TRIAD(name, target)                                                                      \
    target static void name(float *restrict a, const float *restrict b, const float *restrict c, \
                            float s, size_t count) {                                             \
        for (size_t i = 0; i < count; i++)                                                       \
            a[i] = b[i] + s * c[i];                                                              \
    }
typedef void (*triad_fn)(float *a, const float *b, const float *c, float s, size_t count);

TRIAD(triad_plain, )
#if defined(__x86_64__)
TRIAD(triad_avx2, __attribute__((target("avx2"))))
TRIAD(triad_avx512, __attribute__((target("avx512f"))))
#endif

static triad_fn pick_triad(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return triad_avx512;
    if (__builtin_cpu_supports("avx2"))
        return triad_avx2;
#endif
    return triad_plain;
}

/* Each thread has its part of the arrays to itself, and goes over it again and again. */
static double time_triad(float *memory, size_t count, int threads, int repeats) {
    double start = 0;
    triad_fn triad = pick_triad();
#pragma omp parallel num_threads(threads)
    {
        size_t team = (size_t)omp_get_num_threads(), me = (size_t)omp_get_thread_num();
        size_t from = count * me / team, to = count * (me + 1) / team;
        float *a = memory, *b = a + count, *c = b + count;
#pragma omp barrier
#pragma omp single
        start = bench_now();
        for (int r = 0; r < repeats; r++)
            triad(a + from, b + from, c + from, 0.5f, to - from);
    }
    return (bench_now() - start) / repeats;
}

/* Bytes a second over arrays of `bytes` together; 0 when memory is out. */
static double measure_triad(size_t bytes, int threads) {
    size_t count = bytes / 3 / sizeof(float);
    float *memory = aligned_alloc(64, (3 * count * sizeof(float) + 63) / 64 * 64);
    if (!memory)
        return 0;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < 3 * count; i++)
        memory[i] = (float)(i % 7);
    double times[7], once = time_triad(memory, count, threads, 1);
    int repeats = (int)(0.01 / fmax(once, 1e-7));
    repeats = repeats < 1 ? 1 : repeats;
    for (int i = 0; i < 7; i++)
        times[i] = time_triad(memory, count, threads, repeats);
    bench_sort(times, 7);
    free(memory);
    return 3.0 * (double)count * sizeof(float) / times[0];
}

static bool measure_memory(bench_channel *channel, const bench_options *options, int threads,
                           cJSON *result) {
    static const size_t sizes[] = {512u << 10, 2u << 20,   8u << 20,
                                   32u << 20,  128u << 20, 512u << 20};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    double most = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 8;
    cJSON *list = cJSON_AddArrayToObject(result, "memory");
    for (int i = 0; i < COUNT && (i == 0 || (double)sizes[i] * options->instances < most); i++) {
        double rate = measure_triad(sizes[i], threads);
        cJSON *item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "bytes", (double)sizes[i]);
        cJSON_AddNumberToObject(item, "bytes_per_s", rate);
        if (rate == 0 || !cJSON_AddItemToArray(list, item)) {
            cJSON_Delete(item);
            break; /* memory is short: smaller sizes will do */
        }
        bench_progress(channel, 0.5 + (i + 1.0) / COUNT / 2);
    }
    if (cJSON_GetArraySize(list) > 0)
        return true;
    fprintf(stderr, "out of memory\n");
    return false;
}

bool bench_measure_peaks(bench_channel *channel, void *user) {
    const bench_peak_job *p = user;
    tenon_build_info info;
    tenon_get_build_info(&info);
    int threads = p->options->session.threads ? p->options->session.threads : info.cores;
    cJSON *result = cJSON_CreateObject();
    bool fine = bench_ready(channel) && measure_products(channel, p, result) &&
                (!p->memory || measure_memory(channel, p->options, threads, result));
    if (fine) {
        bench_done(channel);
        while (!bench_stopped(channel))
            measure_triad(1u << 20, threads);
    }
    fine = fine && bench_give(channel, result);
    cJSON_Delete(result);
    return fine;
}
