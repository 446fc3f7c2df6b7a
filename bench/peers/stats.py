"""Medians and ratios with confidence intervals."""

import math
import random
import statistics


def median_interval(values, confidence=0.95):
    """The median and a distribution-free interval for it: between order statistics whose ranks come
    from the binomial distribution (Conover, Practical Nonparametric Statistics, section 3.2). With
    too few values for the confidence it is the whole range."""
    values = sorted(values)
    n = len(values)
    tail, k = 0.0, 0  # the chance that at most k - 1 values are under the median
    while True:
        more = tail + math.comb(n, k) / 2**n
        if more > (1 - confidence) / 2:
            break
        tail, k = more, k + 1
    k = max(k, 1)
    return statistics.median(values), values[k - 1], values[n - k]


def ratio(numerator, denominator):
    """The ratio of paired times, round by round: median and interval."""
    return median_interval([a / b for a, b in zip(numerator, denominator, strict=True)])


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


def geometric_mean_interval(ratios, seed=0, samples=4000, confidence=0.95):
    """The geometric mean of the medians of several lists of ratios (a list a model), and its
    bootstrap interval (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13): models
    are drawn with replacement, and rounds within each, so that it covers both the noise and the
    choice of models."""
    medians = [statistics.median(rounds) for rounds in ratios]
    generator = random.Random(seed)
    found = []
    for _ in range(samples):
        drawn = [generator.choice(ratios) for _ in ratios]
        logs = [math.log(statistics.median(generator.choices(r, k=len(r)))) for r in drawn]
        found.append(statistics.fmean(logs))
    found.sort()
    low = found[int(samples * (1 - confidence) / 2)]
    high = found[min(samples - 1, int(samples * (1 + confidence) / 2))]
    return geometric_mean(medians), math.exp(low), math.exp(high)
