/* Several processes that share one job, each with its shard: under mpirun. The module tenon_mpi.so
 * talks to MPI, so that the command needs it only there. */
#ifndef BATCH_RANKS_H
#define BATCH_RANKS_H

#include "batch.h"

typedef enum batch_rank_state {
    BATCH_RANK_RUNNING,
    BATCH_RANK_FINISHED,
    BATCH_RANK_STOPPED /* interrupted or failed */
} batch_rank_state;

/* How far a rank is, or all of them together. */
typedef struct batch_report {
    int64_t samples, start_samples, bad; /* as in batch_progress */
    int64_t total;
    int64_t state; /* batch_rank_state; of all: RUNNING while any is, then STOPPED if any is */
} batch_report;

typedef struct batch_ranks {
    int rank, size;
    /* Tells rank 0 how far this one is. Rank 0 gets what all have told last; the others get their
     * own back, RUNNING until rank 0 has called `leave`. Never waits. */
    void (*tell)(const batch_report *mine, batch_report *all);
    /* The end of the talk. Rank 0 calls it when nobody is RUNNING, and has the others go; these
     * call it when they may. */
    void (*leave)(void);
} batch_ranks;

/* The function of this name in the module begins the talk. The result lives as long as the module
 * is loaded; NULL: MPI failed. */
#define BATCH_RANKS_ENTRY "tenon_mpi_start"
typedef const batch_ranks *batch_ranks_entry(void);

/* Does a rank's shard of the job, waits for the others and, as rank 0, joins what all wrote. The
 * job has no shard. */
batch_end batch_run_ranks(const batch_job *job, const batch_ranks *ranks);

/* Loads the module if mpirun has started several processes of which this is one, and NULL
 * otherwise. NOT_FOUND when there is no module. */
tenon_status batch_ranks_start(const batch_ranks **out);

#endif
