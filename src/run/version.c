#include "core/kernel.h"
#include "partitions/partitions.h"
#include "run/places.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tenon/version.h>

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

static char cpu[256] = "unknown";
static pthread_once_t cpu_once = PTHREAD_ONCE_INIT;

static void read_cpu(void) {
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[512];
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        colon += 1 + strspn(colon + 1, " \t");
        if (*colon)
            snprintf(cpu, sizeof cpu, "%.255s", colon);
        break;
    }
    if (file)
        fclose(file);
}

void tenon_get_build_info(tenon_build_info *info) {
    tn_onednn_info onednn;
    tn_onednn_get_info(&onednn);
    pthread_once(&cpu_once, read_cpu);
    *info = (tenon_build_info){.version = TEXT(TENON_VERSION_MAJOR) "." TEXT(
                                   TENON_VERSION_MINOR) "." TEXT(TENON_VERSION_PATCH),
                               .onednn_version = onednn.version,
                               .onednn_runtime = onednn.runtime,
                               .onednn_isa = onednn.isa,
                               .kernel_isa = tn_isa_text(tn_isa_detect()),
                               .cpu = cpu,
                               .cores = tn_threads_available()};
}
