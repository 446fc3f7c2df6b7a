/* Many models, shapes, precisions and threads, sessions and pools that come and go, and errors
 * among them, for a long time. Every answer is checked, and what the process holds must not grow.
 *
 *     soak --rounds N | --minutes N  SOURCE [MODEL...]
 *
 * A round makes sessions and pools, eight threads use them, and it ends them all. SOURCE is the
 * project's folder, whose models are used; a MODEL has few inputs and outputs, none of which is a
 * number. */
#include "soak.h"
#include <dirent.h>
#include <malloc.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    WARM = 6, /* rounds before the first look at what the process holds */
    TEAM = 3, /* threads of the main thread's OpenMP team, at most */
};
/* MiB. oneDNN keeps compiled code of 1,024 primitives; and for each partition that has run its
 * thread_local_cache_t keeps an empty entry (of 56 bytes or more) by the partition's address, until
 * another one has that address. They lie in pages that are free otherwise. */
static const double resident_more = 48, used_more = 1;
static const double resident_more_of_session = 2048.0 / (1 << 20);
static const double used_more_of_session = 256.0 / (1 << 20);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool keeps_freed = true; /* sanitizers do, for a while */
#else
static const bool keeps_freed = false;
#endif

figures figure;

void fault(const char *format, ...) {
    va_list args;
    if (atomic_fetch_add(&figure.faults, 1) >= 10)
        return;
    va_start(args, format);
    fputs("soak: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* What a process does that was made while nothing ran. */
static void fork_child(unsigned seed) {
    enum { PATIENCE = 300 }; /* seconds, for a child that hangs */
    const model *m = &models[next_random(&seed) % (unsigned)model_count];
    int v = (int)(next_random(&seed) % (unsigned)variant_count), state = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        tenon_session *session = NULL;
        tenon_context *context = NULL;
        alarm(PATIENCE);
        bool ok = model_session(m->graph, v, 0, false, &session) == TENON_OK &&
                  tenon_context_create(session, &context) == TENON_OK &&
                  model_run(m, 0, v, context);
        tenon_context_destroy(&context);
        tenon_session_destroy(&session);
        _exit(ok ? 0 : 1);
    }
    atomic_fetch_add(&figure.children, 1);
    if (child < 0 || waitpid(child, &state, 0) != child || !WIFEXITED(state) ||
        WEXITSTATUS(state) != 0)
        fault("%s, %s: a child ended with state %x", m->name, variants[v].name, (unsigned)state);
}

static void remove_folder(const char *folder) {
    char path[512];
    DIR *list = opendir(folder);
    for (struct dirent *entry; list && (entry = readdir(list)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    if (list)
        closedir(list);
    rmdir(folder);
}

static void usage_print(const char *when, const usage *u) {
    printf("%-14s resident %7.1f MiB  handed out %6.2f MiB  files %2d  mappings %3d  "
           "threads %2d\n",
           when, u->resident, u->used, u->files, u->mappings, u->threads);
    fflush(stdout);
}

static void larger(usage *most, const usage *u) {
    most->resident = u->resident > most->resident ? u->resident : most->resident;
    most->used = u->used > most->used ? u->used : most->used;
    most->files = u->files > most->files ? u->files : most->files;
    most->mappings = u->mappings > most->mappings ? u->mappings : most->mappings;
    most->threads = u->threads > most->threads ? u->threads : most->threads;
}

static bool grown(const usage *first, const usage *most) {
    double sessions = (double)atomic_load(&figure.sessions);
    double resident = first->resident + resident_more + resident_more_of_session * sessions;
    double used = first->used + used_more + used_more_of_session * sessions;
    bool more =
        most->files > first->files || most->mappings > first->mappings || most->threads > TEAM;
    more = more || (!keeps_freed && (most->resident > resident || most->used > used));
    if (more)
        fprintf(stderr, "soak: what the process holds grows\n");
    return more;
}

static int run_rounds(int amount, bool minutes, const char *folder) {
    time_t start = time(NULL), told = start;
    usage first = {0}, most = {0};
    int rounds = 0;
    for (; rounds <= WARM || (minutes ? time(NULL) - start < amount * 60 : rounds < amount);
         rounds++) {
        fork_child((unsigned)(rounds + 1) * 2246822519u);
        round_run(rounds, folder);
        if (rounds < WARM - 1)
            continue;
        usage now = usage_now(TEAM);
        if (rounds == WARM - 1) {
            first = now;
            usage_print("warm", &first);
        }
        larger(&most, &now);
        if (time(NULL) - told >= 60) {
            char when[32];
            told = time(NULL);
            snprintf(when, sizeof when, "round %d", rounds + 1);
            usage_print(when, &now);
        }
    }
    usage_print("at most", &most);
    return grown(&first, &most) ? -1 : rounds;
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/tenon-soak-XXXXXX";
    int amount = argc > 3 ? atoi(argv[2]) : 0;
    bool minutes = argc > 3 && strcmp(argv[1], "--minutes") == 0;
    if (amount < 1 || (!minutes && strcmp(argv[1], "--rounds") != 0)) {
        fprintf(stderr, "usage: soak --rounds N | --minutes N SOURCE [MODEL...]\n");
        return 2;
    }
    mallopt(M_ARENA_MAX, 1); /* what a small block keeps from being given back is less then */
    tenon_log_set(TENON_LOG_ERROR, NULL, NULL);
    if (!mkdtemp(folder)) {
        perror("soak: mkdtemp");
        return EXIT_FAILURE;
    }
    models_make(argv[3], folder, argv + 4, argc - 4);
    refused_make(folder);
    int rounds = run_rounds(amount, minutes, folder);
    printf(
        "%d models, %d rounds, %lld runs, %lld requests done, %lld cancelled, %lld refused as the "
        "queue was full, %lld loads, %lld sessions, %lld recordings, %lld children, %lld errors on "
        "purpose, %lld faults\n",
        model_count, rounds, atomic_load(&figure.runs), atomic_load(&figure.requests),
        atomic_load(&figure.cancelled), atomic_load(&figure.busy), atomic_load(&figure.loads),
        atomic_load(&figure.sessions), atomic_load(&figure.recordings),
        atomic_load(&figure.children), atomic_load(&figure.refused), atomic_load(&figure.faults));
    models_free();
    remove_folder(folder);
    return rounds < 0 || atomic_load(&figure.faults) ? EXIT_FAILURE : EXIT_SUCCESS;
}
