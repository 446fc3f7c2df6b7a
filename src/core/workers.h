/* Work on large weights, shared among threads. */
#ifndef TN_WORKERS_H
#define TN_WORKERS_H

#include <stdint.h>

/* Calls `work` on ranges that together are [0, count), on as many threads as OpenMP would use here,
 * but fewer when each would get less than `least`; the calling thread takes one. The threads are
 * made for this call, so that it works where OpenMP's would not be there: behind a fork, and inside
 * a parallel region. */
void tn_share_work(int64_t count, int64_t least,
                   void (*work)(int64_t begin, int64_t end, void *user), void *user);

#endif
