#include "progress.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 24 };
static const double BAR_SECONDS = 0.25, LINE_SECONDS = 10;

double batch_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double seconds_of(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

static double cpu_seconds(void) {
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

void batch_progress_start(batch_progress *progress, bool quiet, int64_t done, int64_t total) {
    double now = batch_clock();
    *progress = (batch_progress){.quiet = quiet,
                                 .terminal = isatty(STDERR_FILENO),
                                 .start_samples = done,
                                 .samples = done,
                                 .total = total,
                                 .start = now,
                                 .shown = now,
                                 .cpu = cpu_seconds()};
}

double batch_progress_seconds(const batch_progress *progress) {
    return batch_clock() - progress->start;
}

double batch_progress_rate(const batch_progress *progress) {
    double seconds = batch_progress_seconds(progress);
    return seconds > 0 ? (double)(progress->samples - progress->start_samples) / seconds : 0;
}

double batch_progress_cores(const batch_progress *progress) {
    double seconds = batch_progress_seconds(progress);
    return seconds > 0 ? (cpu_seconds() - progress->cpu) / seconds : 0;
}

static void time_text(double seconds, char *text, size_t capacity) {
    long long whole = (long long)(seconds + 0.5);
    if (whole >= 3600)
        snprintf(text, capacity, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(text, capacity, "%lld:%02lld", whole / 60, whole % 60);
}

/* "120 of 2000 samples, 45.3 a second, 0:41 left, 1.9 cores busy, 2 bad" */
static void facts_text(const batch_progress *p, char *text, size_t capacity) {
    char of[32] = "", left[48] = "", bad[40] = "", time[24];
    double rate = batch_progress_rate(p);
    if (p->total >= 0)
        snprintf(of, sizeof of, " of %" PRId64, p->total);
    if (p->total >= 0 && rate > 0) {
        time_text((double)(p->total - p->samples) / rate, time, sizeof time);
        snprintf(left, sizeof left, ", %s left", time);
    }
    if (p->bad > 0)
        snprintf(bad, sizeof bad, ", %" PRId64 " bad", p->bad);
    snprintf(text, capacity, "%" PRId64 "%s samples, %.1f a second%s, %.1f cores busy%s",
             p->samples, of, rate, left, batch_progress_cores(p), bad);
}

void batch_progress_show(batch_progress *progress) {
    char facts[256], bar[WIDTH + 1] = "";
    double now = batch_clock();
    if (progress->quiet ||
        now - progress->shown < (progress->terminal ? BAR_SECONDS : LINE_SECONDS))
        return;
    progress->shown = now;
    facts_text(progress, facts, sizeof facts);
    if (!progress->terminal) {
        fprintf(stderr, "tenon batch: %s\n", facts);
        return;
    }
    if (progress->total > 0) {
        int full = (int)(progress->samples * WIDTH / progress->total);
        memset(bar, '#', (size_t)full);
        memset(bar + full, '.', (size_t)(WIDTH - full));
        bar[WIDTH] = '\0';
    }
    fprintf(stderr, "\r\033[K%s %s", bar, facts); /* ESC [K clears the line's rest */
    fflush(stderr);
}

void batch_progress_end(batch_progress *progress) {
    if (!progress->quiet && progress->terminal)
        fprintf(stderr, "\r\033[K");
}
