/* How far a job is: a bar on a terminal, a line now and then elsewhere, and the summary. */
#ifndef BATCH_PROGRESS_H
#define BATCH_PROGRESS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <tenon/status.h>

typedef struct batch_progress {
    bool quiet, terminal;
    int64_t start_samples; /* that were done before */
    int64_t samples, bad;
    int64_t total;            /* -1: not known */
    double start, shown, cpu; /* seconds: of clocks at the start, and at the last line */
} batch_progress;

void batch_progress_start(batch_progress *progress, bool quiet, int64_t done, int64_t total);
/* Shows it when it is time for that. */
void batch_progress_show(batch_progress *progress);
/* Ends the bar, so that other text can follow. */
void batch_progress_end(batch_progress *progress);

double batch_clock(void); /* seconds */
double batch_progress_seconds(const batch_progress *progress);
double batch_progress_rate(const batch_progress *progress);  /* samples a second */
double batch_progress_cores(const batch_progress *progress); /* busy, on average */

#endif
