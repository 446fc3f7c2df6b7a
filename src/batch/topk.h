/* The k best classes of each sample, as CSV. */
#ifndef BATCH_TOPK_H
#define BATCH_TOPK_H

#include "batch.h"
#include "sink.h"

enum { BATCH_TOPK = 5 }; /* classes, where nothing else was asked for */

/* Lines "sample,rank,index,label,score" after a first line that says so, best first; of equal
 * scores the lower index first, NaN last. Scores have nine digits, which tell all float32 apart.
 * Fields are quoted where they must be (RFC 4180), lines end with a line feed, and a sample that
 * was skipped has no lines. `row` must have one size that is not 1: the classes. `options` may be
 * NULL. */
tenon_status batch_sink_topk(const char *output, const tenon_view *row, const batch_topk *options,
                             batch_sink **out);

#endif
