/* Execution graphs, as PyTorch's ExecutionTraceObserver writes them (its schema 1.1.1): what runs
 * as nodes, in the order in which they begin; a node names the one it ran in, and tensors by their
 * ids. One lock: sessions that run at once write one after the other. */
#include "profiler/execution_trace.h"
#include "core/fail.h"
#include "run/session.h"
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREAD "[pytorch|profiler|execution_trace|thread]"
#define PROCESS "[pytorch|profiler|execution_trace|process]"

/* The one of the process. */
static struct {
    pthread_mutex_t lock;
    bool running;
    bool inherited; /* by fork: the parent's file */
    tn_execution_trace trace;
    void *plans, *instances, *threads; /* trees of `known`, by address, or number of the thread */
    char message[256];                 /* of the first failure */
} observer = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- Things that have an id ---- */

static int compare(const void *a, const void *b) {
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    return (x > y) - (x < y);
}

void *tn_execution_find(tn_execution_trace *trace, void **tree, const void *key, size_t size) {
    void **found = tfind(&key, tree, compare);
    if (found)
        return *found;
    tn_known *made = calloc(1, size);
    if (made)
        made->key = key;
    if (!made || !tsearch(made, tree, compare)) {
        free(made);
        if (trace->writer.status == TENON_OK)
            trace->writer.status = tn_no_memory();
        return NULL;
    }
    return made;
}

int64_t tn_execution_id(tn_execution_trace *trace, void **tree, const void *key) {
    tn_known *known = tn_execution_find(trace, tree, key, sizeof *known);
    if (known && known->id == 0)
        known->id = ++trace->last_id;
    return known ? known->id : 0;
}

static void free_tree(void **tree) {
    while (*tree) {
        void *item = **(void ***)tree;
        tdelete(item, tree, compare);
        free(item);
    }
}

static void free_instances(void) {
    while (observer.instances) {
        tn_observed *item = *(tn_observed **)observer.instances;
        tdelete(item, &observer.instances, compare);
        free(item->tensors);
        free(item->storages);
        free(item);
    }
}

/* Sessions go when the lock is free. */
static void free_plans(void *plans) {
    while (plans) {
        tn_known *item = *(tn_known **)plans;
        tn_plan *plan = (tn_plan *)(uintptr_t)item->key;
        tdelete(item, &plans, compare);
        free(item);
        tn_plan_let_go(plan);
    }
}

/* ---- What runs ---- */

static int64_t thread_id(void) {
    return (int64_t)syscall(SYS_gettid);
}

static int64_t thread_node(tn_execution_trace *trace) {
    int64_t thread = thread_id();
    const void *number = (const void *)(uintptr_t)thread;
    tn_known *known = tn_execution_find(trace, &observer.threads, number, sizeof *known);
    if (known && known->id == 0)
        known->id = tn_execution_write_mark(trace, THREAD, TN_PROCESS_NODE, thread);
    return known ? known->id : 0;
}

/* The plan stays, so that its address names it. */
static bool hold_plan(tn_execution_trace *trace, tn_plan *plan) {
    if (tfind(&(const void *){plan}, &observer.plans, compare))
        return true;
    if (!tn_execution_find(trace, &observer.plans, plan, sizeof(tn_known)))
        return false;
    tn_plan_hold(plan);
    return true;
}

static size_t storage_count(const tn_plan *plan) {
    return (size_t)plan->root_count + (size_t)plan->graph->value_count + 1;
}

/* What is known of an instance; a new one may have got the memory of one that is gone. */
static tn_observed *find_instance(tn_execution_trace *trace, const tn_instance *instance) {
    tn_observed *seen = tn_execution_find(trace, &observer.instances, instance, sizeof *seen);
    if (!seen || seen->plan == instance->plan)
        return seen;
    const tn_plan *plan = instance->plan;
    free(seen->tensors);
    free(seen->storages);
    seen->plan = NULL;
    seen->run = 0;
    seen->tensors = malloc(((size_t)plan->graph->value_count + 1) * sizeof *seen->tensors);
    seen->storages = malloc(storage_count(plan) * sizeof *seen->storages);
    if (!seen->tensors || !seen->storages) {
        trace->writer.status = tn_no_memory();
        return NULL;
    }
    if (!hold_plan(trace, instance->plan))
        return NULL;
    seen->plan = instance->plan;
    seen->instance = instance;
    return seen;
}

static void begin_run(tn_execution_trace *trace, tn_observed *seen) {
    const tn_plan *plan = seen->plan;
    memset(seen->tensors, 0, (size_t)plan->graph->value_count * sizeof *seen->tensors);
    memset(seen->storages, 0, storage_count(plan) * sizeof *seen->storages);
    seen->at = seen->step = 0;
    seen->run = tn_execution_write_run(trace, seen, thread_node(trace));
}

static void write_step(tn_execution_trace *trace, tn_observed *seen, const tn_step *step) {
    const tn_partition *partition = step->partition;
    if (!partition) {
        tn_execution_write_node(trace, seen, step->node,
                                step->copy ? TN_EXECUTION_COPY : TN_EXECUTION_KERNEL, seen->run);
        return;
    }
    int64_t parent = tn_execution_write_partition(trace, seen, partition);
    for (int32_t i = 0; i < partition->node_count; i++)
        tn_execution_write_node(trace, seen, partition->nodes[i], TN_EXECUTION_FUSED, parent);
}

/* Writes a step, and the views around it, which cost nothing and are no steps. */
static void write_steps(tn_execution_trace *trace, tn_observed *seen, int32_t index) {
    const tn_partitions *set = seen->plan->partitions;
    for (; seen->at < set->step_count; seen->at++) {
        const tn_partition_step *item = &set->steps[seen->at];
        if (!item->partition && item->node->op->kind == TN_OP_VIEW) {
            tn_execution_write_node(trace, seen, item->node, TN_EXECUTION_VIEW, seen->run);
            continue;
        }
        if (seen->step > index)
            return;
        if (seen->step++ == index)
            write_step(trace, seen, &seen->plan->steps[index]);
    }
}

/* A tn_profile_observer. */
static void observe(void *user, int32_t index) {
    tn_instance *instance = user;
    tn_execution_trace *trace = &observer.trace;
    pthread_mutex_lock(&observer.lock);
    if (observer.running && trace->writer.status == TENON_OK) {
        tn_observed *seen = find_instance(trace, instance);
        if (seen && (index == 0 || seen->run == 0))
            begin_run(trace, seen);
        if (seen && trace->writer.status == TENON_OK)
            write_steps(trace, seen, index);
        if (trace->writer.status != TENON_OK)
            snprintf(observer.message, sizeof observer.message, "%s", tenon_last_error());
    }
    pthread_mutex_unlock(&observer.lock);
}

/* ---- Starting and stopping ---- */

static void before_fork(void) {
    pthread_mutex_lock(&observer.lock);
}

static void after_fork(void) {
    pthread_mutex_unlock(&observer.lock);
}

/* The file is the parent's, which goes on writing it. */
static void after_fork_in_child(void) {
    observer.inherited = observer.inherited || observer.running;
    observer.running = false;
    pthread_mutex_unlock(&observer.lock);
}

static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

/* Lets go of everything but the plans, which it returns, and the file. */
static void *release(void) {
    void *plans = observer.plans;
    observer.plans = NULL;
    free_instances();
    free_tree(&observer.threads);
    free_tree(&observer.trace.memory);
    free_tree(&observer.trace.weights);
    return plans;
}

static int64_t milliseconds(void) {
    return tn_clock_ns() / 1000000;
}

static tenon_status start(const char *path) {
    tn_execution_trace *trace = &observer.trace;
    tn_writer *writer = &trace->writer;
    struct tm broken_down;
    char text[32];
    time_t now = time(NULL);
    *trace = (tn_execution_trace){.last_id = TN_PROCESS_NODE};
    TN_TRY(tn_writer_open(writer, path));
    if (!localtime_r(&now, &broken_down) ||
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &broken_down) == 0)
        text[0] = 0;
    tn_writer_add(writer,
                  "{\n\"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": %ld, \"time\": \"%s\", "
                  "\"start_ts\": %lld,\n\"nodes\": [",
                  (long)getpid(), text, (long long)milliseconds());
    tn_execution_write_mark(trace, PROCESS, TN_PROCESS_NODE, 0);
    if (writer->status != TENON_OK)
        return tn_writer_close(writer, TENON_OK);
    observer.running = true;
    atomic_store(&tn_profile_observe, observe);
    atomic_fetch_or(&tn_profile_flags, TN_PROFILE_GRAPH);
    return TENON_OK;
}

tenon_status tenon_execution_trace_start(const char *path) {
    void *plans = NULL;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&observer.lock);
    if (observer.inherited)
        plans = release();
    observer.inherited = false;
    tenon_status status =
        observer.running ? tn_fail(TENON_INVALID_ARGUMENT, "an execution trace is written already")
                         : start(path);
    pthread_mutex_unlock(&observer.lock);
    free_plans(plans);
    return status;
}

tenon_status tenon_execution_trace_stop(void) {
    tn_writer *writer = &observer.trace.writer;
    pthread_mutex_lock(&observer.lock);
    if (!observer.running) {
        pthread_mutex_unlock(&observer.lock);
        return tn_fail(TENON_INVALID_ARGUMENT, "no execution trace is written");
    }
    atomic_fetch_and(&tn_profile_flags, ~(unsigned)TN_PROFILE_GRAPH);
    observer.running = false;
    tenon_status failed = writer->status;
    tn_writer_add(writer, "\n],\n\"finish_ts\": %lld\n}\n", (long long)milliseconds());
    tenon_status status = tn_writer_close(writer, TENON_OK);
    if (failed != TENON_OK) /* maybe on another thread */
        tn_fail(failed, "%s", observer.message);
    void *plans = release();
    pthread_mutex_unlock(&observer.lock);
    free_plans(plans);
    return status;
}
