/* Eight threads share pools for a long time: requests of all kinds, with and without batches.
 * Every answer is checked, and memory must not grow.
 *
 *     soak --rounds N | --minutes N
 *
 * A round makes a pool, serves it, and ends it. */
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call)                                                 \
    do {                                                            \
        if ((call) != TENON_OK) {                                   \
            fprintf(stderr, "%s: %s\n", #call, tenon_last_error()); \
            exit(EXIT_FAILURE);                                     \
        }                                                           \
    } while (0)

enum { THREADS = 8, SAMPLES = 32, IMAGE = 3 * 12 * 12, CLASSES = 10, BATCH = 4, REQUESTS = 200 };

static const char text[] = "graph net {\n"
                           "  symbol s0 in [1, 64]\n"
                           "  input %x: float32[s0, 3, 12, 12]\n"
                           "  const %w: float32[16, 3, 3, 3] = random(1)\n"
                           "  const %v: float32[32, 16, 3, 3] = random(2)\n"
                           "  const %u: float32[10, 32] = random(3)\n"
                           "  %a = aten.conv2d(%x, %w, none, [1, 1], [1, 1])\n"
                           "  %b = aten.relu(%a)\n"
                           "  %c = aten.conv2d(%b, %v, none, [2, 2], [1, 1])\n"
                           "  %d = aten.relu(%c)\n"
                           "  %e = aten.mean.dim(%d, [2, 3])\n"
                           "  %f = aten.linear(%e, %u)\n"
                           "  %y = aten.softmax.int(%f, 1)\n"
                           "  output \"y\" = %y\n"
                           "}\n";

static tenon_pool *pool;
static float images[SAMPLES][IMAGE], expected[SAMPLES][CLASSES];
static atomic_int calls, faults;
static atomic_llong done_requests, cancelled_requests;

static tenon_view view(void *data, int64_t rows, bool image) {
    tenon_view v = {.data = data, .dtype = TENON_FLOAT32, .rank = image ? 4 : 2};
    const int64_t shape[4] = {rows, image ? 3 : CLASSES, 12, 12};
    int64_t stride = 1;
    for (int i = v.rank - 1; i >= 0; i--) {
        v.shape[i] = shape[i];
        v.strides[i] = stride;
        stride *= shape[i];
    }
    return v;
}

static void fault(const char *what) {
    if (atomic_fetch_add(&faults, 1) < 10)
        fprintf(stderr, "soak: %s\n", what);
}

/* Batches of other sizes may sum in another order. */
static bool right(const float *got, int sample, int rows) {
    for (int r = 0; r < rows; r++) {
        for (int k = 0; k < CLASSES; k++) {
            if (!(fabsf(got[r * CLASSES + k] - expected[(sample + r) % SAMPLES][k]) < 1e-4f))
                return false;
        }
    }
    return true;
}

typedef struct worker {
    pthread_t thread;
    unsigned seed;
    float got[BATCH * CLASSES];
    int sample;
} worker;

static unsigned next(worker *w) { /* Marsaglia's xorshift of 32 bits */
    w->seed ^= w->seed << 13;
    w->seed ^= w->seed >> 17;
    return w->seed ^= w->seed << 5;
}

static void look(void *user, tenon_status status, const tenon_view *outputs) {
    worker *w = user;
    atomic_fetch_add(&calls, 1);
    if (status == TENON_OK && outputs[0].data != w->got &&
        !right(outputs[0].data, w->sample, (int)outputs[0].shape[0]))
        fault("a callback saw wrong numbers");
}

static void ask(worker *w) {
    unsigned kind = next(w) % 16;
    int rows = 1 + (int)(next(w) % BATCH);
    w->sample = (int)(next(w) % (SAMPLES - BATCH));
    tenon_view in = view(images[w->sample], rows, true), out = view(w->got, rows, false);
    tenon_request *request = NULL;
    bool bad = kind == 0;
    if (bad)
        in.shape[1] = 2;
    if (kind == 1)
        out = (tenon_view){0};
    memset(w->got, 0, sizeof w->got);
    if (kind == 2 && tenon_pool_try_submit(pool, &in, 1, &out, 1, look, w, &request) != TENON_OK)
        return;
    if (kind != 2)
        CHECK(tenon_pool_submit(pool, &in, 1, &out, 1, look, w, &request));
    bool cancelled = kind == 3 && tenon_request_cancel(request);
    if (kind == 4)
        tenon_pool_drain(pool);
    tenon_status status = tenon_request_wait(&request);
    atomic_fetch_add(cancelled ? &cancelled_requests : &done_requests, 1);
    if (status != (bad         ? TENON_INPUT_MISMATCH
                   : cancelled ? TENON_CANCELLED
                               : TENON_OK) &&
        !(bad && cancelled))
        fault(tenon_last_error());
    else if (status == TENON_OK && out.data && !right(w->got, w->sample, rows))
        fault("a request got wrong numbers");
}

static void *work(void *user) {
    for (int i = 0; i < REQUESTS; i++)
        ask(user);
    return NULL;
}

/* The first rounds also find out how much is in use at once. */
static void round_of(const tenon_graph *graph, int number) {
    worker workers[THREADS];
    tenon_pool_options options = {.instances = 2,
                                  .threads = 1,
                                  .queue = 6,
                                  .batch = number % 2 ? BATCH : 0,
                                  .batch_wait_us = number % 4 == 3 ? 200 : 0};
    tenon_view sample = view(images, number % 2 ? 1 : BATCH, true);
    tenon_pool_stats stats;
    int before = atomic_load(&calls);
    CHECK(tenon_pool_create(graph, NULL, &options, &sample, 1, &pool));
    for (int i = 0; i < THREADS; i++) {
        workers[i].seed = (unsigned)(number * THREADS + i + 1) * 2654435761u;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            exit(EXIT_FAILURE);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    tenon_pool_get_stats(pool, &stats);
    uint64_t finished = 0;
    for (int i = 0; i < TENON_POOL_STATUSES; i++)
        finished += stats.by_status[i];
    if (finished != stats.submitted || stats.waiting || stats.running)
        fault("requests got lost");
    if (finished != (uint64_t)(atomic_load(&calls) - before))
        fault("callbacks got lost");
    tenon_pool_destroy(&pool);
}

static void fill(const tenon_graph *graph) {
    tenon_session_options options = {.threads = 1};
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < IMAGE; k++)
            images[i][k] = (float)((i * 37 + k * 11) % 103) / 50 - 1;
    }
    tenon_view in = view(images, SAMPLES, true), out = view(expected, SAMPLES, false);
    CHECK(tenon_session_create(graph, &options, &session));
    CHECK(tenon_context_create(session, &context));
    CHECK(tenon_context_run(context, &in, 1, &out, 1));
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}

/* MiB of memory that is resident, and that the allocator has handed out. */
static void memory(double *resident, double *used) {
    long pages = 0, ignored;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &ignored, &pages) != 2)
        exit(EXIT_FAILURE);
    fclose(file);
    struct mallinfo2 info = mallinfo2();
    *resident = (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
    *used = (double)(info.uordblks + info.hblkhd) / (1 << 20);
}

int main(int argc, char **argv) {
    enum { WARM = 8 };
    tenon_graph *graph = NULL;
    double resident[2] = {0}, used[2] = {0};
    int amount = argc == 3 ? atoi(argv[2]) : 0;
    bool minutes = argc == 3 && strcmp(argv[1], "--minutes") == 0;
    if (amount < 1 || (!minutes && strcmp(argv[1], "--rounds") != 0)) {
        fprintf(stderr, "usage: soak --rounds N | --minutes N\n");
        return 2;
    }
    time_t start = time(NULL);
    CHECK(tenon_graph_parse(text, "net", &graph));
    fill(graph);
    int rounds = 0;
    for (; rounds < WARM || (minutes ? time(NULL) - start < amount * 60 : rounds < amount);
         rounds++) {
        round_of(graph, rounds);
        if (rounds == WARM - 1)
            memory(&resident[0], &used[0]);
    }
    memory(&resident[1], &used[1]);
    tenon_graph_destroy(&graph);
    printf("%d rounds, %lld requests done, %lld cancelled, %d faults\n", rounds,
           (long long)atomic_load(&done_requests), (long long)atomic_load(&cancelled_requests),
           atomic_load(&faults));
    printf("resident %.1f MiB, then %.1f MiB; handed out %.2f MiB, then %.2f MiB\n", resident[0],
           resident[1], used[0], used[1]);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    resident[1] = used[1] = 0; /* they keep freed memory for a while */
#endif
    bool grown = resident[1] > resident[0] + 16 || used[1] > used[0] + 2;
    if (grown)
        fprintf(stderr, "soak: memory grows\n");
    return grown || atomic_load(&faults) ? EXIT_FAILURE : EXIT_SUCCESS;
}
