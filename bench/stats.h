/* Order statistics of run times. They assume no distribution: run times are skewed, and have more
 * than one mode. Nothing here allocates, all of it is thread-safe. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include <stdbool.h>

/* An interval, both ends included. */
typedef struct bench_interval {
    double low, high;
} bench_interval;

typedef struct bench_stats {
    int count;
    double median, min, max, mean, p90, p99;
    double iqr;              /* the third quartile less the first */
    double mad;              /* the median distance from the median */
    bench_interval interval; /* of the median, at 95 % where `count` allows it (from 6 on) */
} bench_stats;

/* Sorts `values` in place, smallest first. */
void bench_sort(double *values, int count);

/* The quantile `q` (0 to 1) of sorted values, interpolated between neighbours as numpy.quantile
 * does (type 7 of Hyndman and Fan, Sample quantiles in statistical packages, 1996). `count` is at
 * least 1. */
double bench_quantile(const double *sorted, int count, double q);

/* A confidence interval for the median of what `sorted` was drawn from: two of the values, chosen
 * by their ranks alone. The number of values below the median is binomial(count, 1/2), so that the
 * k-th smallest and the k-th largest value enclose it with probability 1 - 2 P(B < k); the largest
 * k that still gives `confidence` is taken (David and Nagaraja, Order Statistics, 3rd edition,
 * 2003, section 7.1). False, and the range of all values, when even that does not reach it: fewer
 * than 6 values at 0.95. */
bool bench_median_interval(const double *sorted, int count, double confidence, bench_interval *out);

/* All of the above for values in any order, of which there is at least one; `work` has room for
 * `count` numbers. */
void bench_describe(const double *values, int count, double *work, bench_stats *out);

/* The ratio of the medians of two independent samples, both sorted, positive and not empty, and a
 * 95 % interval for it: each median's own interval at 97.5 %, since 0.975 * 0.975 > 0.95. It may be
 * wider than it need be, never narrower. */
double bench_ratio(const double *ours, int our_count, const double *theirs, int their_count,
                   bench_interval *out);

#endif
