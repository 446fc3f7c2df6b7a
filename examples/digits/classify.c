/* Classifies handwritten digits through Tenon's C API, and prints accuracy, confusion table and
 * speed.
 *
 *     classify digits.pt2 heldout_images.npy heldout_labels.npy [LOWEST_ACCURACY]
 *
 * Exits with 1 when something fails, or when the accuracy in percent is below LOWEST_ACCURACY. */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>
#include <time.h>

enum { CLASSES = 10, ITERATIONS = 50 };

typedef struct classifier {
    tenon_graph *graph;
    tenon_session *session;
    tenon_context *context;
    tenon_tensor *images;
    tenon_tensor *labels;
} classifier;

static int fail(const char *what) {
    fprintf(stderr, "classify: %s: %s\n", what, tenon_last_error());
    return 1;
}

static int open_all(classifier *c, char **paths) {
    if (tenon_load(paths[0], &c->graph))
        return fail(paths[0]);
    if (tenon_session_create(c->graph, NULL, &c->session))
        return fail("session");
    if (tenon_context_create(c->session, &c->context))
        return fail("context");
    if (tenon_npy_load(paths[1], &c->images))
        return fail(paths[1]);
    if (tenon_npy_load(paths[2], &c->labels))
        return fail(paths[2]);
    return 0;
}

static void close_all(classifier *c) {
    tenon_tensor_destroy(&c->labels);
    tenon_tensor_destroy(&c->images);
    tenon_context_destroy(&c->context);
    tenon_session_destroy(&c->session);
    tenon_graph_destroy(&c->graph);
}

static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare_seconds(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Counts into table[label][class]; returns how many are right, or -1 when labels and logits do not
 * fit. */
static int64_t count(const tenon_view *logits, const tenon_view *labels,
                     int64_t table[CLASSES][CLASSES]) {
    if (logits->dtype != TENON_FLOAT32 || logits->rank != 2 || logits->shape[1] != CLASSES ||
        labels->dtype != TENON_INT64 || labels->rank != 1 || labels->shape[0] != logits->shape[0])
        return -1;
    int64_t right = 0;
    for (int64_t n = 0; n < logits->shape[0]; n++) {
        const float *row = (const float *)logits->data + n * logits->strides[0];
        int64_t label = ((const int64_t *)labels->data)[n * labels->strides[0]];
        int best = 0;
        for (int k = 1; k < CLASSES; k++)
            if (row[k * logits->strides[1]] > row[best * logits->strides[1]])
                best = k;
        if (label < 0 || label >= CLASSES)
            return -1;
        table[label][best]++;
        right += label == best;
    }
    return right;
}

static void print_table(int64_t table[CLASSES][CLASSES]) {
    printf("rows: the digit; columns: what it was taken for\n    ");
    for (int k = 0; k < CLASSES; k++)
        printf("%5d", k);
    for (int label = 0; label < CLASSES; label++) {
        printf("\n%4d", label);
        for (int k = 0; k < CLASSES; k++) {
            if (table[label][k])
                printf("%5lld", (long long)table[label][k]);
            else
                printf("    .");
        }
    }
    printf("\n");
}

static int classify(classifier *c, double lowest) {
    const tenon_view *images = tenon_tensor_view(c->images);
    tenon_view logits = {0};
    if (tenon_context_run(c->context, images, 1, &logits, 1))
        return fail("run");

    int64_t table[CLASSES][CLASSES] = {{0}};
    int64_t right = count(&logits, tenon_tensor_view(c->labels), table);
    if (right < 0 || logits.shape[0] == 0) {
        fprintf(stderr, "classify: the labels do not fit the model's output\n");
        return 1;
    }

    double times[ITERATIONS];
    for (int i = 0; i < ITERATIONS; i++) {
        double start = seconds();
        tenon_view again = {0};
        if (tenon_context_run(c->context, images, 1, &again, 1))
            return fail("run");
        times[i] = seconds() - start;
    }
    qsort(times, ITERATIONS, sizeof times[0], compare_seconds);

    int64_t total = logits.shape[0];
    double accuracy = 100.0 * (double)right / (double)total;
    printf("%lld of %lld images right: accuracy %.2f%%\n", (long long)right, (long long)total,
           accuracy);
    print_table(table);
    printf("%.0f images/s (median of %d runs of all %lld)\n", (double)total / times[ITERATIONS / 2],
           ITERATIONS, (long long)total);
    if (accuracy < lowest) {
        fprintf(stderr, "classify: accuracy %.2f%% is below %.2f%%\n", accuracy, lowest);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: classify MODEL IMAGES.npy LABELS.npy [LOWEST_ACCURACY]\n");
        return 2;
    }
    classifier c = {0};
    int status = open_all(&c, argv + 1);
    if (!status)
        status = classify(&c, argc == 5 ? strtod(argv[4], NULL) : 0.0);
    close_all(&c);
    return status;
}
