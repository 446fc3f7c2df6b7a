#include "core/workers.h"
#include <omp.h>
#include <pthread.h>
#include <stdbool.h>

#define MAX_THREADS 16

typedef struct part {
    void (*work)(int64_t begin, int64_t end, void *user);
    void *user;
    int64_t begin, end;
    pthread_t thread;
    bool started;
} part;

static void *run(void *user) {
    part *p = user;
    p->work(p->begin, p->end, p->user);
    return NULL;
}

void tn_share_work(int64_t count, int64_t least,
                   void (*work)(int64_t begin, int64_t end, void *user), void *user) {
    part parts[MAX_THREADS];
    int64_t threads = omp_get_max_threads(), most = least > 0 ? count / least : count;
    threads = threads > MAX_THREADS ? MAX_THREADS : threads;
    threads = threads > most ? most : threads;
    threads = threads < 1 ? 1 : threads;
    for (int64_t i = threads - 1; i >= 0; i--) {
        parts[i] = (part){work, user, count * i / threads, count * (i + 1) / threads, 0, false};
        if (i > 0)
            parts[i].started = pthread_create(&parts[i].thread, NULL, run, &parts[i]) == 0;
        if (!parts[i].started)
            run(&parts[i]);
    }
    for (int64_t i = 1; i < threads; i++) {
        if (parts[i].started)
            pthread_join(parts[i].thread, NULL);
    }
}
