/* Joining the files of the shards of a job. */
#ifndef BATCH_MERGE_H
#define BATCH_MERGE_H

#include "batch.h"

/* Makes the files that the job would have made without shards: its first output path finds the
 * shards' journals, and these name the files. The shards stay. All must be done, and must have been
 * of one job. Only the outputs, `shards`, `overwrite` and `quiet` of `job` are used. */
tenon_status batch_merge(const batch_job *job);

#endif
