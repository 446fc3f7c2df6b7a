/* What a machine has for running models: cores, their kinds, NUMA nodes, shared caches, and how
 * much of it this process may use; and where instances of a model would run. Read status.h first.
 */
#ifndef TENON_TOPOLOGY_H
#define TENON_TOPOLOGY_H

#include <stdbool.h>
#include <tenon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most PUs of a machine that is described, and the largest kind of its cores. */
#define TENON_TOPOLOGY_MOST_PUS 2048
#define TENON_TOPOLOGY_MOST_KIND 255

/* A PU is what an operating system calls a CPU: a core has one, or several with SMT. A topology
 * never changes after it was made; all functions that read one are thread-safe. */
typedef struct tenon_topology tenon_topology;

/* Looks at this machine (`synthetic` NULL), with the calling thread's affinity mask, the cgroup's
 * CPU quota and OMP_NUM_THREADS as they are now; changes no binding. Or makes one from hwloc's
 * description of a machine that need not be there, such as "node:2 l3:1 core:4 pu:2" (2 NUMA nodes,
 * each with an L3 cache, with 4 cores, of 2 PUs each), all of which may be used: for tests and for
 * planning. Behind a '/' stand the kinds of all cores, from the first one on, slowest 0:
 * "core:6 pu:1 / 2x1 4x0" has two fast cores and four slow ones. INVALID_ARGUMENT when hwloc does
 * not understand it, for more PUs than TENON_TOPOLOGY_MOST_PUS, system's numbers (indexes=) over
 * 65535, and kinds of more or fewer cores than there are. */
TENON_API TENON_MUST_CHECK tenon_status tenon_topology_create(const char *synthetic,
                                                              tenon_topology **out);
TENON_API void tenon_topology_destroy(tenon_topology **topology);

typedef struct tenon_topology_info {
    int cores, pus;               /* of the machine, as far as the system shows them */
    int usable_cores, usable_pus; /* that the affinity mask and cpuset let this thread run on */
    int nodes, l3_groups, kinds;  /* of the machine: at least 1 each */
    double quota;                 /* cores' worth of CPU time that the cgroup gives; 0: no limit */
    int omp_threads;              /* what OMP_NUM_THREADS asks for; 0: nothing */
    int threads;     /* that a session uses by default, and all instances of a pool together */
    const char *why; /* a sentence: what made it so many; lives as long as the topology */
    bool synthetic;
} tenon_topology_info;

TENON_API void tenon_topology_get_info(const tenon_topology *topology, tenon_topology_info *info);

/* One PU; those of a core stand together. Numbers count from 0. */
typedef struct tenon_pu {
    int os_index; /* the system's number, as in /proc/cpuinfo and taskset */
    int core;
    int sibling; /* 0: the core's first PU */
    int l3;      /* L3 group: PUs that share an L3 cache; without L3 caches those of a node */
    int node;    /* NUMA node, as in /sys/devices/system/node */
    int kind;    /* 0 for the slowest kind of core here (E-cores), larger is faster (P-cores) */
    bool usable;
} tenon_pu;

/* False when there is no PU `index`. */
TENON_API bool tenon_topology_pu(const tenon_topology *topology, int index, tenon_pu *out);

/* Where one instance runs. */
typedef struct tenon_place {
    int node, l3;     /* of its first PU */
    bool split_nodes; /* it spans several NUMA nodes */
    bool split_l3;    /* it spans several L3 groups */
    bool mixed;       /* it has cores of several kinds */
    bool siblings;    /* it has two PUs of one core */
    bool shared;      /* other instances have some of its PUs too: there are too few */
} tenon_place;

/* Chooses PUs for `instances` instances of `threads` threads: PUs [i * threads, (i + 1) * threads)
 * of `pus`, which has room for all, are those of instance i, in the system's numbers, and places[i]
 * tells about them. No core gives a second PU before all have given one, faster kinds of cores come
 * first, and an instance stays within an L3 group, and one kind of cores, if not within a node,
 * wherever as many PUs are left; instances are spread evenly over nodes and groups.
 * INVALID_ARGUMENT when there would be no instance, no thread, or more than 4096 threads in all. */
TENON_API TENON_MUST_CHECK tenon_status tenon_topology_place(const tenon_topology *topology,
                                                             int instances, int threads,
                                                             tenon_place *places, int *pus);

#ifdef __cplusplus
}
#endif
#endif
