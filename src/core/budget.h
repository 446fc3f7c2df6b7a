/* What compiling may still cost: limits of tenon_limits that are counted while it goes on. One
 * budget serves one compilation, and is charged by the thread that compiles. */
#ifndef TN_BUDGET_H
#define TN_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/status.h>

typedef struct tn_budget {
    int64_t folded_bytes; /* what is left: by which folded results may still grow */
    double folded_flops, folded_work;
    double bytes, work;           /* charged so far */
    double most_bytes, most_work; /* LIMIT beyond */
    int64_t end_ns;               /* of tn_clock_ns; 0: no end */
    double seconds;               /* that led to `end_ns` */
} tn_budget;

/* How a message tells what raises a limit. */
#define TN_LIMIT_HOW "; tenon_session_options.limits.%s or --allow %s=N raises it"

/* The calling thread's budget; NULL: none, and nothing is bounded. */
tn_budget *tn_budget_get(void);
/* Makes it the calling thread's, and returns the one that was. */
tn_budget *tn_budget_set(tn_budget *budget);

/* Memory that is about to be allocated for tensors, and the work of filling it. */
tenon_status tn_budget_bytes(double bytes);
/* Work, in about nanoseconds; also looks at the clock where there is a deadline. */
tenon_status tn_budget_work(double work);

/* ---- Runs: scratch memory ---- */

/* What kernels and partitions may still allocate for their work, beside the plan's memory. */
typedef struct tn_room {
    double left;
    bool refused; /* something wanted more */
} tn_room;

/* Makes it the calling thread's (NULL: no bound), and returns the one that was. */
tn_room *tn_room_set(tn_room *room);
/* False when so much is not left. */
bool tn_room_take(size_t bytes);

#endif
