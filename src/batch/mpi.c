/* The module tenon_mpi.so: what the ranks of a job tell each other, through MPI. Only the thread
 * that runs the job calls it. */
#include "ranks.h"
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_REPORT = 1, TAG_LEAVE, NUMBERS = sizeof(batch_report) / sizeof(int64_t) };

static batch_ranks ranks;
static batch_report *told; /* on rank 0: the last of each rank */

/* Elsewhere: */
static batch_report sent;
static MPI_Request request = MPI_REQUEST_NULL;
static bool may_leave;

static void gather(const batch_report *mine, batch_report *all) {
    int there = 1;
    MPI_Status status;
    told[0] = *mine;
    while (MPI_Iprobe(MPI_ANY_SOURCE, TAG_REPORT, MPI_COMM_WORLD, &there, &status), there)
        MPI_Recv(&told[status.MPI_SOURCE], NUMBERS, MPI_INT64_T, status.MPI_SOURCE, TAG_REPORT,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    *all = (batch_report){.state = BATCH_RANK_FINISHED};
    for (int i = 0; i < ranks.size; i++) {
        all->samples += told[i].samples;
        all->start_samples += told[i].start_samples;
        all->bad += told[i].bad;
        all->total += told[i].total;
        if (all->state != BATCH_RANK_RUNNING && told[i].state != BATCH_RANK_FINISHED)
            all->state = told[i].state;
    }
}

/* Sends when there is news, and the last message has left. */
static void send_report(const batch_report *mine) {
    int done = 1;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (!done || memcmp(mine, &sent, sizeof sent) == 0)
        return;
    sent = *mine;
    MPI_Isend(&sent, NUMBERS, MPI_INT64_T, 0, TAG_REPORT, MPI_COMM_WORLD, &request);
}

static void tell(const batch_report *mine, batch_report *all) {
    int there = 0;
    if (ranks.rank == 0) {
        gather(mine, all);
        return;
    }
    send_report(mine);
    if (!may_leave)
        MPI_Iprobe(0, TAG_LEAVE, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    if (there) {
        MPI_Recv(NULL, 0, MPI_INT64_T, 0, TAG_LEAVE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        may_leave = true;
    }
    *all = *mine;
    if (!may_leave)
        all->state = BATCH_RANK_RUNNING;
}

static void leave(void) {
    for (int i = 1; ranks.rank == 0 && i < ranks.size; i++)
        MPI_Send(NULL, 0, MPI_INT64_T, i, TAG_LEAVE, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE); /* NOLINT(*MPI-Checker): of send_report, or null */
    MPI_Finalize();
    free(told);
    told = NULL;
}

const batch_ranks *tenon_mpi_start(void);

const batch_ranks *tenon_mpi_start(void) {
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return NULL;
    ranks = (batch_ranks){.tell = tell, .leave = leave};
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks.size);
    told = calloc((size_t)ranks.size, sizeof *told);
    return told ? &ranks : NULL;
}
