/* What of a machine this process may use. */
#include "run/places.h"
#include "core/fail.h"
#include <ctype.h>
#include <errno.h>
#include <hwloc.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The cgroup's quota ---- */

/* The first numbers of a file. "max" and missing files give none. */
static int read_numbers(const char *path, long *first, long *second) {
    FILE *file = fopen(path, "r");
    char text[64] = "", *at = text, *end;
    if (!file)
        return 0;
    if (!fgets(text, sizeof text, file))
        text[0] = '\0';
    fclose(file);
    long *const numbers[] = {first, second};
    int fields = 0;
    for (; fields < 2; fields++, at = end) {
        long number = strtol(at, &end, 10);
        if (end == at)
            break;
        *numbers[fields] = number;
    }
    return fields;
}

/* "quota period" in version 2's cpu.max, or version 1's two files; in cores, 0: no limit. */
static double quota_of(const char *directory) {
    char path[1700];
    long quota = 0, period = 0, rest;
    snprintf(path, sizeof path, "%s/cpu.max", directory);
    if (read_numbers(path, &quota, &period) < 2) {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", directory);
        if (read_numbers(path, &quota, &rest) < 1)
            return 0;
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", directory);
        if (read_numbers(path, &period, &rest) < 1)
            return 0;
    }
    return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

static double tighter(double a, double b) {
    return a == 0 || (b > 0 && b < a) ? b : a;
}

/* The tightest quota from a group up to the root of its hierarchy. In a container the path may be
 * that of the host, which is not there; the root is then the container's own group. */
static double quota_upwards(const char *mount, char *group) {
    char directory[1600];
    double best = 0;
    for (;;) {
        snprintf(directory, sizeof directory, "%s%s", mount, group);
        best = tighter(best, quota_of(directory));
        char *slash = strrchr(group, '/');
        if (!slash)
            return best;
        *slash = 0;
    }
}

/* Whether "cpu" is among the comma-separated controllers. */
static bool has_cpu(const char *controllers) {
    for (const char *at = controllers; at; at = strchr(at, ',')) {
        at += *at == ',';
        size_t length = strcspn(at, ",");
        if (length == 3 && strncmp(at, "cpu", 3) == 0)
            return true;
    }
    return false;
}

double tn_cpu_quota(const char *root) {
    static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified",
                                         "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
    char path[512], line[1024], group[1024];
    double best = 0;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        /* "5:cpu,cpuacct:/path", and "0::/path" of version 2 */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *found = controllers ? strchr(++controllers, ':') : NULL;
        if (!found)
            continue;
        *found++ = 0;
        bool v2 = *controllers == 0;
        if (!v2 && !has_cpu(controllers))
            continue;
        for (int i = v2 ? 0 : 2; i < (v2 ? 2 : 4); i++) {
            snprintf(path, sizeof path, "%s%s", root, mounts[i]);
            snprintf(group, sizeof group, "%s", found);
            best = tighter(best, quota_upwards(path, group));
        }
    }
    if (file)
        fclose(file);
    return best;
}

/* ---- What hwloc sees ---- */

/* Cores only is quicker, for what every session asks. hwloc's x86 backend would visit every core by
 * changing this thread's binding, so it is told not to. */
static hwloc_topology_t load(const char *synthetic, bool cores_only) {
    hwloc_topology_t made;
    if (hwloc_topology_init(&made) != 0)
        return NULL;
    unsigned long flags =
        synthetic ? 0 : HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM | HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;
#if HWLOC_API_VERSION >= 0x00020500
    if (!synthetic)
        flags |= HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#endif
    if ((synthetic && hwloc_topology_set_synthetic(made, synthetic) != 0) ||
        hwloc_topology_set_flags(made, flags) != 0 ||
        (cores_only &&
         (hwloc_topology_set_all_types_filter(made, HWLOC_TYPE_FILTER_KEEP_NONE) != 0 ||
          hwloc_topology_set_type_filter(made, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL) != 0)) ||
        hwloc_topology_load(made) != 0) {
        hwloc_topology_destroy(made);
        return NULL;
    }
    return made;
}

/* This machine, for as long as the process: cores and NUMA nodes only. */
static hwloc_topology_t machine;
static pthread_once_t machine_once = PTHREAD_ONCE_INIT;

static void machine_load(void) {
    machine = load(NULL, true);
}

static hwloc_topology_t machine_get(void) {
    pthread_once(&machine_once, machine_load);
    return machine;
}

static hwloc_bitmap_t thread_mask(hwloc_topology_t topology) {
    hwloc_bitmap_t mask = topology ? hwloc_bitmap_alloc() : NULL;
    if (mask && hwloc_get_cpubind(topology, mask, HWLOC_CPUBIND_THREAD) == 0)
        return mask;
    hwloc_bitmap_free(mask);
    return NULL;
}

/* Cores that the calling thread's mask touches, or 0 when unknown. */
static int cores_bound(void) {
    hwloc_topology_t topology = machine_get();
    hwloc_bitmap_t mask = thread_mask(topology);
    int count = 0;
    if (!mask)
        return 0;
    int depth = hwloc_get_type_or_below_depth(topology, HWLOC_OBJ_CORE);
    int cores = hwloc_get_nbobjs_by_depth(topology, depth);
    for (int i = 0; i < cores; i++) {
        hwloc_obj_t core = hwloc_get_obj_by_depth(topology, depth, (unsigned)i);
        count += hwloc_bitmap_intersects(core->cpuset, mask);
    }
    hwloc_bitmap_free(mask);
    return count;
}

void tn_openmp_meet(void) {
    static _Thread_local bool met;
    cpu_set_t mask;
    if (met)
        return;
    bool known = sched_getaffinity(0, sizeof mask, &mask) == 0;
    (void)omp_get_max_threads();
    if (known)
        (void)sched_setaffinity(0, sizeof mask, &mask);
    met = true;
}

static int omp_asked(void) {
    return getenv("OMP_NUM_THREADS") ? omp_get_max_threads() : 0;
}

/* A quota of one core and a half keeps two threads busy for most of the time. */
static int threads_of(int cores, double quota, int asked) {
    if (asked > 0)
        return asked;
    if (quota > 0 && ceil(quota) < cores)
        cores = (int)ceil(quota);
    return cores < 1 ? 1 : cores;
}

int tn_threads_available(void) {
    tn_openmp_meet();
    int cores = cores_bound();
    return threads_of(cores > 0 ? cores : omp_get_num_procs(), tn_cpu_quota(""), omp_asked());
}

bool tn_place_bind(const int *pus, int count, int node) {
    hwloc_topology_t topology = machine_get();
    hwloc_bitmap_t set = topology ? hwloc_bitmap_alloc() : NULL;
    if (!set)
        return false;
    for (int i = 0; i < count; i++)
        hwloc_bitmap_set(set, (unsigned)pus[i]);
    tn_openmp_meet();
    bool bound = hwloc_set_cpubind(topology, set, HWLOC_CPUBIND_THREAD) == 0;
    if (bound && node >= 0) {
        hwloc_bitmap_t nodes = hwloc_bitmap_alloc();
        /* Not strictly: memory of another node is better than none. */
        if (nodes) {
            hwloc_bitmap_only(nodes, (unsigned)node);
            (void)hwloc_set_membind(topology, nodes, HWLOC_MEMBIND_BIND,
                                    HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET);
        }
        hwloc_bitmap_free(nodes);
    }
    /* LLVM's OpenMP gives workers all cores of the process, and gomp where OMP_PROC_BIND is set. */
    if (bound && count > 1) {
#pragma omp parallel num_threads(count)
        (void)hwloc_set_cpubind(topology, set, HWLOC_CPUBIND_THREAD);
    }
    hwloc_bitmap_free(set);
    return bound;
}

/* ---- Topologies ---- */

struct tenon_topology {
    tenon_pu *pus;
    int pu_count;
    tenon_topology_info info;
    char why[256];
};

/* The number of `key` among those seen, in order of appearance. */
static int number_of(const void **seen, int *count, const void *key) {
    for (int i = 0; i < *count; i++) {
        if (seen[i] == key)
            return i;
    }
    seen[*count] = key;
    return (*count)++;
}

static int kind_of(hwloc_topology_t topology, hwloc_const_bitmap_t set) {
    int efficiency = 0, kind = hwloc_cpukinds_get_by_cpuset(topology, set, 0);
    if (kind < 0 ||
        hwloc_cpukinds_get_info(topology, (unsigned)kind, NULL, &efficiency, NULL, NULL, 0) != 0)
        return 0;
    return efficiency < 0 ? 0 : efficiency; /* below 0: hwloc cannot order them */
}

static tenon_status read_pus(tenon_topology *t, hwloc_topology_t from, hwloc_const_bitmap_t mask) {
    int count = hwloc_get_nbobjs_by_type(from, HWLOC_OBJ_PU), cores = 0, groups = 0, sibling = 0;
    if (count < 1)
        return tn_fail(TENON_INTERNAL, "hwloc sees no CPU");
    const void *last = NULL, **seen = calloc((size_t)count, sizeof *seen);
    t->pus = calloc((size_t)count, sizeof *t->pus);
    if (!seen || !t->pus) {
        free(seen);
        return tn_no_memory();
    }
    for (int i = 0; i < count; i++) {
        hwloc_obj_t pu = hwloc_get_obj_by_type(from, HWLOC_OBJ_PU, (unsigned)i);
        hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(from, HWLOC_OBJ_CORE, pu);
        hwloc_obj_t l3 = hwloc_get_ancestor_obj_by_type(from, HWLOC_OBJ_L3CACHE, pu);
        int node = pu->nodeset ? hwloc_bitmap_first(pu->nodeset) : -1;
        hwloc_obj_t memory = node < 0 ? NULL : hwloc_get_numanode_obj_by_os_index(from, node);
        const void *of = core ? core : pu;
        sibling = of == last ? sibling + 1 : 0;
        cores += of != last;
        last = of;
        t->pus[i] = (tenon_pu){
            .os_index = (int)pu->os_index,
            .core = cores - 1,
            .sibling = sibling,
            .l3 = number_of(seen, &groups, l3 ? l3 : memory),
            .node = node < 0 ? 0 : node,
            .kind = kind_of(from, pu->cpuset),
            .usable = !mask || hwloc_bitmap_isset(mask, pu->os_index),
        };
    }
    free(seen);
    t->pu_count = count;
    return TENON_OK;
}

/* "2x1": so many cores of that kind. Moves behind it. */
static bool read_kind(const char **at, long *repeat, long *kind) {
    char *end;
    *repeat = strtol(*at, &end, 10);
    if (end == *at || *end != 'x' || !isdigit((unsigned char)end[1]))
        return false;
    *kind = strtol(end + 1, &end, 10);
    *at = end + strspn(end, " ");
    return *repeat >= 1 && *kind <= TENON_TOPOLOGY_MOST_KIND &&
           (*end == '\0' || isspace((unsigned char)*end));
}

/* "2x1 4x0": kinds of so many cores each, from the first core on. */
static tenon_status read_kinds(tenon_topology *t, const char *text) {
    long core = 0, cores = t->pus[t->pu_count - 1].core + 1, repeat = 0, kind = 0;
    const char *at = text + strspn(text, " ");
    while (*at && core <= cores) {
        const char *from = at;
        if (!read_kind(&at, &repeat, &kind))
            return tn_fail(TENON_INVALID_ARGUMENT,
                           "topology: '%.40s' is not cores and their kind, as 2x1 is, with 1 core "
                           "or more and a kind from 0 to %d",
                           from, TENON_TOPOLOGY_MOST_KIND);
        repeat = repeat <= cores ? repeat : cores + 1;
        for (int i = 0; i < t->pu_count; i++) {
            if (t->pus[i].core >= core && t->pus[i].core - core < repeat)
                t->pus[i].kind = (int)kind;
        }
        core += repeat;
    }
    return core == cores
               ? TENON_OK
               : tn_fail(TENON_INVALID_ARGUMENT,
                         "topology: the kinds '%.100s' are of %s than the %ld cores that there are",
                         text + strspn(text, " "), core < cores ? "fewer" : "more", cores);
}

/* How many different values there are: `which` picks one of a PU. */
static int distinct(const tenon_topology *t, size_t which) {
    int count = 0;
    for (int i = 0; i < t->pu_count; i++) {
        int value = *(const int *)((const char *)&t->pus[i] + which), seen = 0;
        for (int k = 0; k < i && !seen; k++)
            seen = *(const int *)((const char *)&t->pus[k] + which) == value;
        count += !seen;
    }
    return count;
}

static void explain(tenon_topology *t) {
    const tenon_topology_info *info = &t->info;
    if (info->omp_threads > 0)
        snprintf(t->why, sizeof t->why, "OMP_NUM_THREADS asks for %d", info->omp_threads);
    else if (info->threads < info->usable_cores)
        snprintf(t->why, sizeof t->why, "the cgroup's quota gives the CPU time of %g of %d cores",
                 info->quota, info->usable_cores);
    else if (info->usable_cores < info->cores)
        snprintf(t->why, sizeof t->why, "the affinity mask or cpuset leaves %d of %d cores",
                 info->usable_cores, info->cores);
    else
        snprintf(t->why, sizeof t->why, "one for each of %d core%s", info->cores,
                 info->cores == 1 ? "" : "s");
    t->info.why = t->why;
}

static void sum_up(tenon_topology *t, bool synthetic) {
    tenon_topology_info *info = &t->info;
    int last = -1;
    info->synthetic = synthetic;
    info->pus = t->pu_count;
    info->cores = t->pus[t->pu_count - 1].core + 1;
    for (int i = 0; i < t->pu_count; i++) {
        info->usable_pus += t->pus[i].usable;
        info->usable_cores += t->pus[i].usable && t->pus[i].core != last;
        if (t->pus[i].usable)
            last = t->pus[i].core;
    }
    info->nodes = distinct(t, offsetof(tenon_pu, node));
    info->l3_groups = distinct(t, offsetof(tenon_pu, l3));
    info->kinds = distinct(t, offsetof(tenon_pu, kind));
    info->quota = synthetic ? 0 : tn_cpu_quota("");
    info->omp_threads = synthetic ? 0 : omp_asked();
    info->threads = threads_of(info->usable_cores, info->quota, info->omp_threads);
    explain(t);
}

/* The PUs of hwloc's description: the product of the counts outside of parentheses and brackets.
 * More than any machine has where it overflows; 1 where it is no description. */
static unsigned long described_pus(const char *text) {
    unsigned long pus = 1;
    while (*text) {
        char *end = NULL;
        size_t word = strcspn(text, " \t\n([");
        const char *colon = memchr(text, ':', word);
        unsigned long count = strtoul(colon ? colon + 1 : text, &end, 0);
        if (word > 0 && end > text && count > 0) {
            pus = count > TENON_TOPOLOGY_MOST_PUS ? count : pus * count;
            if (pus > TENON_TOPOLOGY_MOST_PUS)
                return pus;
        }
        text += word;
        if (*text == '(' || *text == '[')
            text += strcspn(text, ")]");
        text += *text != '\0';
    }
    return pus;
}

/* hwloc's sets have a bit for each number up to the largest. */
static bool has_large_index(const char *text) {
    enum { MOST_INDEX = 65535 };
    for (const char *at = text; (at = strstr(at, "indexes=")) != NULL;) {
        for (at += strlen("indexes="); *at && *at != ')' && *at != ' ';) {
            char *end;
            if (!isdigit((unsigned char)*at)) {
                at++;
                continue;
            }
            if (strtoul(at, &end, 0) > MOST_INDEX)
                return true;
            at = end;
        }
    }
    return false;
}

/* Loads another machine than this; `kinds` receives what stands behind its '/', or NULL. */
static tenon_status load_synthetic(const char *synthetic, const char **kinds,
                                   hwloc_topology_t *out) {
    enum { MOST_TEXT = 511 };
    char text[MOST_TEXT + 1];
    const char *slash = strchr(synthetic, '/');
    size_t length = slash ? (size_t)(slash - synthetic) : strlen(synthetic);
    if (length > MOST_TEXT)
        return tn_fail(TENON_INVALID_ARGUMENT, "topology: '%.40s...' has %zu characters, over %d",
                       synthetic, length, MOST_TEXT);
    memcpy(text, synthetic, length);
    text[length] = '\0';
    if (described_pus(text) > TENON_TOPOLOGY_MOST_PUS)
        return tn_fail(TENON_INVALID_ARGUMENT, "topology: '%s' has more than %d PUs", synthetic,
                       TENON_TOPOLOGY_MOST_PUS);
    if (has_large_index(text))
        return tn_fail(TENON_INVALID_ARGUMENT, "topology: '%s' has indexes over 65535", synthetic);
    *out = load(text, false);
    if (!*out)
        return tn_fail(TENON_INVALID_ARGUMENT, "topology: hwloc does not understand '%s'",
                       synthetic);
    *kinds = slash ? slash + 1 : NULL;
    return TENON_OK;
}

/* With the calling thread's mask; NULL: that is not known. */
static tenon_status load_machine(hwloc_topology_t *out, hwloc_bitmap_t *mask) {
    errno = 0;
    *out = load(NULL, false);
    if (!*out && errno != ENOMEM)
        return tn_fail(TENON_INTERNAL, "hwloc does not tell what this machine is");
    errno = 0;
    *mask = *out ? thread_mask(*out) : NULL;
    return !*out || (!*mask && errno == ENOMEM) ? tn_no_memory() : TENON_OK;
}

tenon_status tenon_topology_create(const char *synthetic, tenon_topology **out) {
    tenon_status status;
    const char *kinds = NULL;
    hwloc_topology_t from = NULL;
    hwloc_bitmap_t mask = NULL;
    tenon_topology *t = calloc(1, sizeof *t);
    if (!t)
        return tn_no_memory();
    if (synthetic)
        TN_GOTO(load_synthetic(synthetic, &kinds, &from));
    else
        TN_GOTO(load_machine(&from, &mask));
    TN_GOTO(read_pus(t, from, mask));
    if (kinds)
        TN_GOTO(read_kinds(t, kinds));
    sum_up(t, synthetic != NULL);
    *out = t;
    t = NULL;
error:
    hwloc_bitmap_free(mask);
    if (from)
        hwloc_topology_destroy(from);
    tenon_topology_destroy(&t);
    return status;
}

void tenon_topology_destroy(tenon_topology **topology) {
    if (*topology)
        free((*topology)->pus);
    free(*topology);
    *topology = NULL;
}

void tenon_topology_get_info(const tenon_topology *topology, tenon_topology_info *info) {
    *info = topology->info;
}

bool tenon_topology_pu(const tenon_topology *topology, int index, tenon_pu *out) {
    if (index < 0 || index >= topology->pu_count)
        return false;
    *out = topology->pus[index];
    return true;
}
