/* The statistics of the benchmark runner: known numbers, and how often an interval holds. */
#include "bench/stats.h"
#include "suite.h"
#include <math.h>
#include <stdint.h>

#define NEAR(a, b) ck_assert_double_eq_tol(a, b, 1e-12)

START_TEST(quantiles) {
    const double x[5] = {1, 2, 4, 8, 16}, one[1] = {7};
    NEAR(bench_quantile(x, 5, 0), 1);
    NEAR(bench_quantile(x, 5, 0.25), 2);
    NEAR(bench_quantile(x, 5, 0.5), 4);
    NEAR(bench_quantile(x, 5, 0.9), 8 + 0.6 * 8);
    NEAR(bench_quantile(x, 5, 1), 16);
    NEAR(bench_quantile(x, 4, 0.5), 3);
    NEAR(bench_quantile(one, 1, 0.99), 7);
}
END_TEST

START_TEST(description) {
    const double x[6] = {5, 1, 3, 2, 4, 100};
    double work[6];
    bench_stats s;
    bench_describe(x, 6, work, &s);
    ck_assert_int_eq(s.count, 6);
    NEAR(s.median, 3.5);
    NEAR(s.min, 1);
    NEAR(s.max, 100);
    NEAR(s.mean, 115.0 / 6);
    NEAR(s.p90, 52.5);
    NEAR(s.iqr, 4.75 - 2.25);
    NEAR(s.mad, 1.5); /* of 2.5, 1.5, 0.5, 0.5, 1.5, 96.5 */
    NEAR(s.interval.low, 1);
    NEAR(s.interval.high, 100);
    NEAR(x[0], 5);
}
END_TEST

/* Ranks from tables of the sign test: count, confidence, the rank of the lower end. */
START_TEST(intervals) {
    static const struct {
        int count;
        double confidence;
        int rank; /* 0: too few */
    } cases[] = {{1, 0.95, 0},    {5, 0.95, 0},  {6, 0.95, 1},  {8, 0.95, 1},  {9, 0.95, 2},
                 {10, 0.95, 2},   {15, 0.95, 4}, {20, 0.95, 6}, {25, 0.95, 8}, {50, 0.95, 18},
                 {100, 0.95, 40}, {6, 0.975, 0}, {7, 0.975, 1}, {10, 0.99, 1}, {20, 0.99, 4}};
    double x[100];
    for (int i = 0; i < 100; i++)
        x[i] = i + 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench_interval interval;
        int count = cases[i].count, rank = cases[i].rank;
        bool enough = bench_median_interval(x, count, cases[i].confidence, &interval);
        ck_assert_msg(enough == (rank > 0), "count %d", count);
        ck_assert_msg(interval.low == (rank ? rank : 1), "count %d: rank %g", count, interval.low);
        ck_assert_msg(interval.high == (rank ? count - rank + 1 : count), "count %d: rank %g",
                      count, interval.high);
    }
}
END_TEST

/* 20,000 values, where P(B = 0) is nothing that a double can hold. */
START_TEST(many) {
    enum { COUNT = 20000 };
    double *x = malloc(COUNT * sizeof *x);
    bench_interval interval;
    ck_assert_ptr_nonnull(x);
    for (int i = 0; i < COUNT; i++)
        x[i] = i + 1;
    ck_assert(bench_median_interval(x, COUNT, 0.95, &interval));
    /* The normal approximation: half of the count, less 1.96 times half of its root. */
    double near = COUNT / 2.0 - 1.959964 * sqrt(COUNT) / 2;
    ck_assert_double_eq_tol(interval.low, near, 2);
    ck_assert_double_eq_tol(interval.high, COUNT + 1 - interval.low, 1e-9);
    free(x);
}
END_TEST

static double draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 11) + 0.5) * 0x1p-53;
}

/* Skewed samples with two modes: the interval holds the median as often as it says, at least. */
START_TEST(coverage) {
    enum { TRIALS = 4000 };
    static const int counts[] = {6, 15, 16, 40};
    uint64_t state = 1;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int held = 0, ratios = 0;
        for (int trial = 0; trial < TRIALS; trial++) {
            double x[2][40];
            bench_interval interval;
            for (int s = 0; s < 2; s++) {
                for (int i = 0; i < counts[c]; i++) {
                    double u = draw(&state);
                    x[s][i] = u < 0.5 ? 1 + u : 1.5 - 3 * log(2 - 2 * u); /* the median is 1.5 */
                }
                bench_sort(x[s], counts[c]);
            }
            bench_median_interval(x[0], counts[c], 0.95, &interval);
            held += interval.low <= 1.5 && 1.5 <= interval.high;
            bench_ratio(x[0], counts[c], x[1], counts[c], &interval);
            ratios += interval.low <= 1 && 1 <= interval.high;
        }
        ck_assert_msg(held >= 0.945 * TRIALS, "%d values: %d of %d", counts[c], held, TRIALS);
        ck_assert_msg(ratios >= 0.945 * TRIALS, "%d values: %d of %d ratios", counts[c], ratios,
                      TRIALS);
    }
}
END_TEST

START_TEST(ratios) {
    const double ours[7] = {2, 2, 2, 3, 4, 4, 4}, theirs[7] = {1, 1, 1, 2, 2, 2, 2};
    bench_interval interval;
    NEAR(bench_ratio(ours, 7, theirs, 7, &interval), 1.5);
    NEAR(interval.low, 1);
    NEAR(interval.high, 4);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bench_stats");
    TCase *tests = tcase_create("statistics");
    tcase_add_test(tests, quantiles);
    tcase_add_test(tests, description);
    tcase_add_test(tests, intervals);
    tcase_add_test(tests, many);
    tcase_add_test(tests, coverage);
    tcase_add_test(tests, ratios);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
