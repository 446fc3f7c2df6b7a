#include "stats.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
}

double bench_quantile(const double *sorted, int count, double q) {
    double at = q * (count - 1);
    int below = (int)at;
    int above = below + 1 < count ? below + 1 : count - 1;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

bool bench_median_interval(const double *sorted, int count, double confidence,
                           bench_interval *out) {
    double tail = (1 - confidence) / 2, below = 0;
    /* The logarithm of P(B = 0), from which each next term follows. */
    double term = -count * log(2);
    int rank = 0; /* the largest k for which P(B < k) is at most `tail` */
    for (int k = 1; 2 * k <= count; k++) {
        below += exp(term); /* P(B < k) */
        if (below > tail)
            break;
        rank = k;
        term += log((double)(count - k + 1) / k);
    }
    out->low = sorted[rank > 0 ? rank - 1 : 0];
    out->high = sorted[rank > 0 ? count - rank : count - 1];
    return rank > 0;
}

void bench_describe(const double *values, int count, double *work, bench_stats *out) {
    bench_stats s = {.count = count};
    memcpy(work, values, (size_t)count * sizeof *work);
    bench_sort(work, count);
    s.median = bench_quantile(work, count, 0.5);
    s.min = work[0];
    s.max = work[count - 1];
    s.p90 = bench_quantile(work, count, 0.9);
    s.p99 = bench_quantile(work, count, 0.99);
    s.iqr = bench_quantile(work, count, 0.75) - bench_quantile(work, count, 0.25);
    bench_median_interval(work, count, 0.95, &s.interval);
    for (int i = 0; i < count; i++) {
        s.mean += work[i] / count;
        work[i] = fabs(work[i] - s.median);
    }
    bench_sort(work, count);
    s.mad = bench_quantile(work, count, 0.5);
    *out = s;
}

double bench_ratio(const double *ours, int our_count, const double *theirs, int their_count,
                   bench_interval *out) {
    bench_interval a, b;
    bench_median_interval(ours, our_count, 0.975, &a);
    bench_median_interval(theirs, their_count, 0.975, &b);
    out->low = a.low / b.high;
    out->high = a.high / b.low;
    return bench_quantile(ours, our_count, 0.5) / bench_quantile(theirs, their_count, 0.5);
}
