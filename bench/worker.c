/* Processes that measure: forked, bound to cores of their own, and led over pipes. */
#include "bench.h"
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char message[1024];

const char *bench_error(void) {
    return message;
}

bool(bench_fail)(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return false;
}

/* ---- In the worker ---- */

/* Lines go up: "progress 0.5", "ready", "done", "result {...}"; single letters come down: 'g', go,
 * and 's', stop. The end of that pipe means: give up. */
struct bench_channel {
    int up, down;
    bool stopped;
    double reported; /* when */
};

static bool put(int file, const char *text, size_t length) {
    while (length > 0) {
        ssize_t written = write(file, text, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        text += written;
        length -= (size_t)written;
    }
    return true;
}

static bool put_line(bench_channel *channel, const char *line) {
    return put(channel->up, line, strlen(line));
}

static char take_letter(bench_channel *channel) {
    char letter = 0;
    ssize_t got;
    do
        got = read(channel->down, &letter, 1);
    while (got < 0 && errno == EINTR);
    return got == 1 ? letter : 0;
}

void bench_progress(bench_channel *channel, double part) {
    char line[64];
    double now = bench_now();
    if (now - channel->reported < 0.1)
        return;
    channel->reported = now;
    snprintf(line, sizeof line, "progress %.4f\n", part);
    put_line(channel, line);
}

bool bench_ready(bench_channel *channel) {
    return put_line(channel, "ready\n") && take_letter(channel) == 'g';
}

void bench_done(bench_channel *channel) {
    put_line(channel, "done\n");
}

bool bench_stopped(bench_channel *channel) {
    struct pollfd file = {.fd = channel->down, .events = POLLIN};
    if (!channel->stopped && poll(&file, 1, 0) > 0)
        channel->stopped = take_letter(channel) != 'g';
    return channel->stopped;
}

bool bench_give(bench_channel *channel, const cJSON *result) {
    char *text = cJSON_PrintUnformatted(result);
    bool fine =
        text && put_line(channel, "result ") && put_line(channel, text) && put_line(channel, "\n");
    if (!fine)
        fprintf(stderr, "out of memory\n");
    cJSON_free(text);
    return fine;
}

typedef struct task {
    bench_channel channel;
    bench_work work;
    void *user;
    bool fine;
} task;

static void *run_task(void *user) {
    task *t = user;
    t->fine = t->work(&t->channel, t->user);
    return NULL;
}

static void bind_to(const cpu_set_t *cores) {
    if (CPU_COUNT(cores) > 0)
        sched_setaffinity(0, sizeof *cores, cores);
}

static _Noreturn void be_worker(int up, int down, int errors, const cpu_set_t *cores,
                                bench_work work, void *user) {
    task t = {.channel = {.up = up, .down = down}, .work = work, .user = user};
    pthread_t thread;
    signal(SIGPIPE, SIG_DFL);
    dup2(errors, STDERR_FILENO);
    bind_to(cores);
    if (pthread_create(&thread, NULL, run_task, &t) != 0)
        fprintf(stderr, "no thread could be started\n");
    else
        pthread_join(thread, NULL);
    fflush(stderr);
    _exit(t.fine ? 0 : 1);
}

/* ---- Cores ---- */

/* Logical CPUs that share a core with `cpu`, from a list such as "0,64" or "0-1". */
static void siblings_of(int cpu, cpu_set_t *out) {
    char path[96], text[256];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    CPU_ZERO(out);
    CPU_SET(cpu, out);
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    char *at = fgets(text, sizeof text, file);
    while (at && isdigit((unsigned char)*at)) {
        long first = strtol(at, &at, 10), last = first;
        if (*at == '-')
            last = strtol(at + 1, &at, 10);
        for (; first <= last && first < CPU_SETSIZE; first++)
            CPU_SET((int)first, out);
        at += *at == ',';
    }
    fclose(file);
}

/* Fills `cores` with the CPUs of each core that this process may use, and returns how many there
 * are. */
static int list_cores(cpu_set_t *cores, int capacity) {
    cpu_set_t allowed, taken, siblings;
    int count = 0;
    CPU_ZERO(&taken);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && count < capacity; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || CPU_ISSET(cpu, &taken))
            continue;
        siblings_of(cpu, &siblings);
        CPU_AND(&cores[count], &siblings, &allowed);
        CPU_OR(&taken, &taken, &siblings);
        count++;
    }
    return count;
}

int bench_cores(void) {
    static cpu_set_t cores[CPU_SETSIZE];
    int bound = list_cores(cores, CPU_SETSIZE);
    tenon_build_info info;
    tenon_get_build_info(&info);
    return bound > 0 && bound < info.cores ? bound : info.cores;
}

/* The share of worker `index` of `count`. One worker alone stays where its parent is. */
static void share_of(int index, int count, cpu_set_t *out) {
    static cpu_set_t cores[CPU_SETSIZE];
    CPU_ZERO(out);
    int all = count > 1 ? list_cores(cores, CPU_SETSIZE) : 0;
    for (int i = index * all / count; i < (index + 1) * all / count; i++)
        CPU_OR(out, out, &cores[i]);
}

/* ---- In the parent ---- */

typedef struct text {
    char *data;
    size_t length, capacity;
} text;

typedef struct worker {
    pid_t pid;
    int up, down, errors; /* -1: closed */
    text lines, printed;
    bool ready, done;
    double part;
    cJSON *result;
    int status; /* of waitpid */
} worker;

static void close_file(int *file) {
    if (*file >= 0)
        close(*file);
    *file = -1;
}

static void close_files(worker *w) {
    close_file(&w->up);
    close_file(&w->down);
    close_file(&w->errors);
}

static bool append(text *t, const char *data, size_t length) {
    if (t->length + length + 1 > t->capacity) {
        size_t capacity = 2 * (t->length + length) + 256;
        char *grown = realloc(t->data, capacity);
        if (!grown)
            return bench_fail("out of memory");
        t->data = grown;
        t->capacity = capacity;
    }
    memcpy(t->data + t->length, data, length);
    t->length += length;
    t->data[t->length] = 0;
    return true;
}

/* Reads what there is; closes the file at its end. */
static bool drain(int *file, text *t) {
    char buffer[65536];
    ssize_t got = read(*file, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR)
        return true;
    if (got <= 0) {
        close_file(file);
        return true;
    }
    return append(t, buffer, (size_t)got);
}

static void take_line(worker *w, const char *line) {
    static const char result[] = "result ", progress[] = "progress ";
    if (strcmp(line, "ready") == 0)
        w->ready = true;
    else if (strcmp(line, "done") == 0)
        w->done = true;
    else if (strncmp(line, result, sizeof result - 1) == 0)
        w->result = w->result ? w->result : cJSON_Parse(line + sizeof result - 1);
    else if (strncmp(line, progress, sizeof progress - 1) == 0)
        w->part = strtod(line + sizeof progress - 1, NULL);
}

static void take_lines(worker *w) {
    char *line = w->lines.data, *end;
    while (line && (end = strchr(line, '\n')) != NULL) {
        *end = 0;
        take_line(w, line);
        line = end + 1;
    }
    if (!line)
        return;
    w->lines.length -= (size_t)(line - w->lines.data);
    memmove(w->lines.data, line, w->lines.length + 1);
}

/* Gives a letter to all workers once they have all said so. */
static void lead(worker *workers, int count, bool *went, bool *stopped) {
    bool ready = true, done = true;
    for (int i = 0; i < count; i++) {
        ready = ready && workers[i].ready;
        done = done && workers[i].done;
    }
    for (int i = 0; i < count && ready && !*went; i++)
        put(workers[i].down, "g", 1);
    for (int i = 0; i < count && done && !*stopped; i++)
        put(workers[i].down, "s", 1);
    *went = *went || ready;
    *stopped = *stopped || done;
}

static bool start(worker *workers, int index, int count, bench_work work, void *user) {
    int up[2] = {-1, -1}, down[2] = {-1, -1}, errors[2] = {-1, -1};
    worker *w = &workers[index];
    cpu_set_t cores;
    share_of(index, count, &cores);
    w->pid = -1;
    if (pipe(up) == 0 && pipe(down) == 0 && pipe(errors) == 0) {
        fflush(stdout);
        w->pid = fork();
    }
    if (w->pid == 0) {
        for (int i = 0; i < index; i++)
            close_files(&workers[i]);
        close(up[0]);
        close(down[1]);
        close(errors[0]);
        be_worker(up[1], down[0], errors[1], &cores, work, user);
    }
    int reason = errno;
    close_file(&up[1]);
    close_file(&down[0]);
    close_file(&errors[1]);
    w->up = up[0];
    w->down = down[1];
    w->errors = errors[0];
    if (w->pid > 0)
        return true;
    close_files(w);
    return bench_fail("no process could be started: %s", strerror(reason));
}

/* Waits for what the workers send until all of them have ended. */
static bool listen(worker *workers, int count, void (*progress)(void *user, double part),
                   void *user) {
    bool went = false, stopped = false, fine = true;
    struct pollfd *files = calloc((size_t)count * 2, sizeof *files);
    if (!files)
        return bench_fail("out of memory");
    for (int open = 1; open > 0 && fine;) {
        open = 0;
        double part = 0;
        for (int i = 0; i < count; i++) {
            files[2 * i] = (struct pollfd){.fd = workers[i].up, .events = POLLIN};
            files[2 * i + 1] = (struct pollfd){.fd = workers[i].errors, .events = POLLIN};
            open += (workers[i].up >= 0) + (workers[i].errors >= 0);
            part += workers[i].part / count;
        }
        if (progress)
            progress(user, part);
        if (open == 0 || (poll(files, (nfds_t)count * 2, 1000) < 0 && errno != EINTR))
            break;
        for (int i = 0; i < count; i++) {
            worker *w = &workers[i];
            if (w->up >= 0 && files[2 * i].revents)
                fine = drain(&w->up, &w->lines) && fine;
            if (w->errors >= 0 && files[2 * i + 1].revents)
                fine = drain(&w->errors, &w->printed) && fine;
            take_lines(w);
            /* One that ends early takes the others with it: they would wait for it. */
            for (int j = 0; w->up < 0 && !w->result && j < count; j++)
                close_file(&workers[j].down);
        }
        lead(workers, count, &went, &stopped);
    }
    free(files);
    return fine;
}

static bool has_failed(const worker *w) {
    return !w->result || !WIFEXITED(w->status) || WEXITSTATUS(w->status) != 0;
}

/* The one to tell of: of several that failed, one that has something to say, since the others were
 * only told to give up. */
static const worker *spokesman(const worker *workers, int count, bool *failed) {
    const worker *found = NULL;
    *failed = false;
    for (int i = 0; i < count; i++) {
        const worker *w = &workers[i];
        if (!has_failed(w))
            continue;
        if (WIFSIGNALED(w->status) || w->printed.length > 0)
            found = *failed && found && found->printed.length > 0 ? found : w;
        *failed = true;
    }
    return found ? found : &workers[0];
}

/* What it printed, and how it ended where that says more. */
static char *explain(const worker *w) {
    char end[128] = "";
    size_t length = w->printed.length;
    if (WIFSIGNALED(w->status))
        snprintf(end, sizeof end, "ended by signal %d (%s)", WTERMSIG(w->status),
                 strsignal(WTERMSIG(w->status)));
    else if (has_failed(w) && length == 0)
        snprintf(end, sizeof end, "ended without a result, exit status %d", WEXITSTATUS(w->status));
    while (length > 0 && isspace((unsigned char)w->printed.data[length - 1]))
        length--;
    char *out = malloc(length + sizeof end + 2);
    if (out)
        sprintf(out, "%.*s%s%s", (int)length, length ? w->printed.data : "",
                length && *end ? "\n" : "", end);
    return out;
}

static bool collect(worker *workers, int count, bench_outcome *out) {
    bool failed;
    out->errors = explain(spokesman(workers, count, &failed));
    out->results = failed ? NULL : cJSON_CreateArray();
    bool fine = out->errors && (failed || out->results);
    for (int i = 0; i < count && fine && !failed; i++) {
        fine = cJSON_AddItemToArray(out->results, workers[i].result);
        workers[i].result = fine ? NULL : workers[i].result;
    }
    return fine || bench_fail("out of memory");
}

bool bench_run_workers(int count, bench_work work, void *user,
                       void (*progress)(void *user, double part), void *progress_user,
                       bench_outcome *out) {
    worker *workers = calloc((size_t)count, sizeof *workers);
    void (*usual)(int) = signal(SIGPIPE, SIG_IGN);
    bool fine = workers || bench_fail("out of memory");
    int started = 0;
    *out = (bench_outcome){0};
    for (; started < count && fine; started += fine)
        fine = start(workers, started, count, work, user);
    fine = fine && listen(workers, count, progress, progress_user);
    for (int i = 0; i < started; i++)
        close_files(&workers[i]);
    for (int i = 0; i < started; i++) {
        while (waitpid(workers[i].pid, &workers[i].status, 0) < 0 && errno == EINTR)
            continue;
    }
    fine = fine && collect(workers, count, out);
    for (int i = 0; i < started; i++) {
        cJSON_Delete(workers[i].result);
        free(workers[i].lines.data);
        free(workers[i].printed.data);
    }
    free(workers);
    signal(SIGPIPE, usual);
    return fine;
}

void bench_outcome_free(bench_outcome *outcome) {
    cJSON_Delete(outcome->results);
    free(outcome->errors);
    *outcome = (bench_outcome){0};
}
