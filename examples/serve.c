/* Serves single requests with dynamic batching: clients, each a thread, ask for one image at a
 * time, and a pool gathers what waits into batches.
 *
 *     serve MODEL.pt2 IMAGES.npy [CLIENTS]
 *
 * Every answer is compared with that of the whole array, run at once; exits with 1 when one is
 * another. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define CHECK(call)                                      \
    do {                                                 \
        if ((call) != TENON_OK) {                        \
            fprintf(stderr, "%s\n", tenon_last_error()); \
            exit(EXIT_FAILURE);                          \
        }                                                \
    } while (0)

enum { BATCH = 16, MAX_CLIENTS = 64, REQUESTS = 200, MAX_CLASSES = 1024 };

static tenon_pool *pool;
static tenon_view images, expected; /* [image, ...] and [image, class] */

static tenon_view row(const tenon_view *all, int64_t index) {
    tenon_view view = *all;
    view.shape[0] = 1;
    view.data = (char *)all->data + index * all->strides[0] * (int64_t)tenon_dtype_size(all->dtype);
    return view;
}

/* One client. Returns NULL when all answers were right. */
static void *client(void *number) {
    float answer[MAX_CLASSES];
    int64_t classes = expected.shape[1], *first = number;
    for (int i = 0; i < REQUESTS; i++) {
        int64_t index = (*first + i * 7) % images.shape[0];
        tenon_view in = row(&images, index), out = row(&expected, index);
        const float *want = out.data;
        out.data = answer;
        tenon_request *request = NULL;
        CHECK(tenon_pool_submit(pool, &in, 1, &out, 1, NULL, NULL, &request));
        CHECK(tenon_request_wait(&request));
        for (int64_t k = 0; k < classes; k++)
            if (!(fabsf(answer[k] - want[k]) <= 1e-4f * (1 + fabsf(want[k]))))
                return number;
    }
    return NULL;
}

/* What the model gives for all images. */
static void run_all(const tenon_graph *graph, tenon_session **session, tenon_context **context) {
    CHECK(tenon_session_create(graph, NULL, session));
    CHECK(tenon_context_create(*session, context));
    CHECK(tenon_context_run(*context, &images, 1, &expected, 1));
    if (expected.dtype != TENON_FLOAT32 || expected.rank != 2 || expected.shape[1] > MAX_CLASSES ||
        images.shape[0] == 0) {
        fprintf(stderr, "serve: the model must give at most %d numbers for each image\n",
                MAX_CLASSES);
        exit(EXIT_FAILURE);
    }
}

int main(int argc, char **argv) {
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    tenon_tensor *array = NULL;
    pthread_t threads[MAX_CLIENTS];
    int64_t numbers[MAX_CLIENTS];
    long clients = argc > 3 ? strtol(argv[3], NULL, 10) : 16;
    int wrong = 0;
    if (argc < 3 || clients < 1 || clients > MAX_CLIENTS) {
        fprintf(stderr, "usage: serve MODEL.pt2 IMAGES.npy [CLIENTS]\n");
        return 2;
    }
    CHECK(tenon_load(argv[1], &graph));
    CHECK(tenon_npy_load(argv[2], &array));
    images = *tenon_tensor_view(array);
    run_all(graph, &session, &context);

    /* Batches run when 16 images wait, or the oldest has waited for a millisecond. */
    tenon_pool_options options = {.batch = BATCH, .batch_wait_us = 1000};
    CHECK(tenon_pool_create(graph, NULL, &options, &images, 1, &pool));
    for (int i = 0; i < clients; i++) {
        numbers[i] = i * 31;
        if (pthread_create(&threads[i], NULL, client, &numbers[i]) != 0)
            return EXIT_FAILURE;
    }
    for (int i = 0; i < clients; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += result != NULL;
    }
    tenon_pool_stats stats;
    tenon_pool_get_stats(pool, &stats);
    printf("%d instance%s of %d thread%s\n", tenon_pool_instances(pool),
           tenon_pool_instances(pool) == 1 ? "" : "s", tenon_pool_threads(pool),
           tenon_pool_threads(pool) == 1 ? "" : "s");
    printf("%llu requests in %llu batches: %.0f requests/s, %.2f ms in the queue, %.2f ms to run\n",
           (unsigned long long)stats.submitted, (unsigned long long)stats.runs, stats.throughput,
           1e3 * stats.queue_seconds / (double)stats.submitted,
           1e3 * stats.run_seconds / (double)stats.submitted);
    tenon_pool_destroy(&pool);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
    tenon_tensor_destroy(&array);
    if (wrong)
        fprintf(stderr, "serve: %d of %ld clients got a wrong answer\n", wrong, clients);
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
