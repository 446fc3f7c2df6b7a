/* What the process holds: memory, file descriptors, threads. */
#include "soak.h"
#include <dirent.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

static int entries(const char *path) {
    int count = 0;
    DIR *folder = opendir(path);
    if (!folder)
        exit(EXIT_FAILURE);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* Parts of files in memory: the libraries', and those of models. */
static int mappings(void) {
    char line[1024];
    int count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    if (!file)
        exit(EXIT_FAILURE);
    while (fgets(line, sizeof line, file))
        count += strchr(line, '/') != NULL;
    fclose(file);
    return count;
}

usage usage_now(int threads) {
    enum { PATIENCE = 10000 }; /* OpenMP's workers end some time after the thread they served */
    usage now = {.files = entries("/proc/self/fd") - 1, .threads = entries("/proc/self/task")};
    for (int i = 0; now.threads > threads && i < PATIENCE; i++) {
        usleep(1000);
        now.threads = entries("/proc/self/task");
    }
    malloc_trim(0); /* what it keeps of freed memory is not in question */
    long pages = 0, ignored;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &ignored, &pages) != 2)
        exit(EXIT_FAILURE);
    fclose(file);
    struct mallinfo2 info = mallinfo2();
    now.mappings = mappings();
    now.resident = (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
    now.used = (double)(info.uordblks + info.hblkhd) / (1 << 20);
    return now;
}
