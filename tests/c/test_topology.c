/* Cores, quotas, synthetic machines, and where instances go. */
#include "files.h"
#include "run/places.h"
#include "run_graph.h"
/* Its `out` would hide parameters of the headers above. */
#include "command.h"
#include <cjson/cJSON.h>
#include <errno.h>
#include <omp.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { MAX = 64 };

static tenon_topology *machine(const char *synthetic) {
    tenon_topology *topology = NULL;
    OK(tenon_topology_create(synthetic, &topology));
    return topology;
}

/* ---- Quotas, in made-up trees of /proc and /sys ---- */

static char root[512];

static void put(const char *path, const char *text) {
    char whole[1024];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = strchr(whole + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        ck_assert(mkdir(whole, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    test_write(whole, text, strlen(text));
}

static void new_root(int number) {
    char name[16];
    snprintf(name, sizeof name, "root%d", number);
    snprintf(root, sizeof root, "%s", test_path(name));
}

static double quota(void) {
    return tn_cpu_quota(root);
}

START_TEST(quotas_of_version_2) {
    new_root(0);
    ck_assert_double_eq(quota(), 0); /* no such files */
    put("/proc/self/cgroup", "0::/outer/inner\n");
    ck_assert_double_eq(quota(), 0);
    put("/sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
    ck_assert_double_eq(quota(), 0);
    put("/sys/fs/cgroup/outer/cpu.max", "300000 100000\n");
    ck_assert_double_eq(quota(), 3); /* of the group that it is in */
    put("/sys/fs/cgroup/outer/inner/cpu.max", "150000 100000\n");
    ck_assert_double_eq(quota(), 1.5);
    put("/sys/fs/cgroup/outer/inner/cpu.max", "800000 100000\n");
    ck_assert_double_eq(quota(), 3); /* the tightest counts */
    put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    ck_assert_double_eq(quota(), 0.5);
    put("/sys/fs/cgroup/cpu.max", "rubbish");
    ck_assert_double_eq(quota(), 3);
    /* A container sees the path of its host, and its own group as the root. */
    put("/proc/self/cgroup", "0::/../../host/path\n");
    put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    ck_assert_double_eq(quota(), 2);
    put("/proc/self/cgroup", "0::/\n");
    ck_assert_double_eq(quota(), 2);
}
END_TEST

START_TEST(quotas_of_version_1) {
    new_root(1);
    put("/proc/self/cgroup", "9:cpuset:/tight\n4:cpu,cpuacct:/a/b\n1:name=systemd:/x\n0::/\n");
    put("/sys/fs/cgroup/cpu/tight/cpu.cfs_quota_us", "10000\n");
    put("/sys/fs/cgroup/cpu/tight/cpu.cfs_period_us", "100000\n");
    ck_assert_double_eq(quota(), 0); /* that is the cpuset's path, not the CPU's */
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
    ck_assert_double_eq(quota(), 0);
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "400000\n");
    ck_assert_double_eq(quota(), 0); /* without a period there is no quota */
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    ck_assert_double_eq(quota(), 4);
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "250000\n");
    ck_assert_double_eq(quota(), 2.5);
    /* Both versions at once, as systemd's hybrid has them. */
    put("/sys/fs/cgroup/unified/cpu.max", "100000 100000\n");
    ck_assert_double_eq(quota(), 1);
    new_root(2);
    put("/proc/self/cgroup", "3:cpuacct,cpu:/docker/0123\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "120000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    ck_assert_double_eq(quota(), 1.2); /* the root is the container's */
}
END_TEST

/* ---- This machine ---- */

static int one_core(cpu_set_t *mask) {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, mask))
            CPU_SET(cpu, &one);
    }
    return sched_setaffinity(0, sizeof one, &one);
}

/* What a process sees that may use one core: 0 when that is right. */
static int sees_one_thread(bool quota_only) {
    tenon_topology *topology = NULL;
    tenon_topology_info info;
    tenon_place place;
    int pu;
    if (tenon_topology_create(NULL, &topology) != TENON_OK)
        return 1;
    tenon_topology_get_info(topology, &info);
    int wrong = tn_threads_available() != 1 || info.threads != 1;
    if (!quota_only)
        wrong |= 2 * (info.usable_cores != 1 || (info.cores > 1 && !strstr(info.why, "affinity")));
    else
        wrong |= 2 * (info.usable_cores > 1 && !strstr(info.why, "quota"));
    wrong |= 4 * (tenon_topology_place(topology, 1, info.threads, &place, &pu) != TENON_OK);
    tenon_topology_destroy(&topology);
    tenon_session *session = make_session("graph g { input %x: float32[2]\n%y = aten.relu(%x)\n"
                                          "output \"y\" = %y }",
                                          TENON_BACKEND_AUTO);
    tenon_session_destroy(&session);
    return wrong;
}

START_TEST(one_core_of_the_mask_gives_one_thread) {
    cpu_set_t before, after;
    unsetenv("OMP_NUM_THREADS");
    ck_assert_int_eq(sched_getaffinity(0, sizeof before, &before), 0);
    tenon_topology *topology = machine(NULL);
    tenon_topology_info info;
    tenon_topology_get_info(topology, &info);
    ck_assert_int_ge(info.usable_cores, 1);
    ck_assert_int_le(info.usable_cores, info.cores);
    ck_assert_int_eq(info.usable_pus, CPU_COUNT(&before));
    ck_assert_int_eq(info.threads, tn_threads_available());
    ck_assert(!info.synthetic && info.nodes >= 1 && info.l3_groups >= 1 && info.kinds >= 1);
    tenon_topology_destroy(&topology);
    pid_t child = fork();
    ck_assert_int_ne(child, -1);
    if (child == 0)
        _exit(one_core(&before) != 0 ? 99 : sees_one_thread(false));
    int state;
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert_msg(WIFEXITED(state) && WEXITSTATUS(state) == 0, "the child ended with state %d",
                  state);
    ck_assert_int_eq(sched_getaffinity(0, sizeof after, &after), 0);
    ck_assert(CPU_EQUAL(&before, &after));
}
END_TEST

/* A real cgroup of one core's time, or a cpuset of one core, where this process may make one. */
static bool enter_group(bool cpuset, char *why, size_t capacity) {
    static const char *const places[2][2] = {{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"},
                                             {"/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"}};
    for (int i = 0; i < 2; i++) {
        char group[128], path[256], command[1200];
        snprintf(group, sizeof group, "%s/tenon-test-%d", places[cpuset][i], (int)getppid());
        snprintf(path, sizeof path, "%s/cgroup.procs", group);
        snprintf(
            command, sizeof command,
            cpuset ? "set -e; mkdir %s; cd %s; if test -e ../cpuset.mems; then cat ../cpuset.mems "
                     ">cpuset.mems; fi; cut -d, -f1 </sys/devices/system/cpu/online | cut -d- -f1 "
                     ">cpuset.cpus; echo %d >cgroup.procs"
                   : "set -e; mkdir %s; cd %s; if test -e cpu.cfs_quota_us; then echo 100000 "
                     ">cpu.cfs_period_us; echo 100000 >cpu.cfs_quota_us; else echo 100000 100000 "
                     ">cpu.max; fi; echo %d >cgroup.procs",
            group, group, (int)getpid());
        char quiet[1300];
        snprintf(quiet, sizeof quiet, "(%s) 2>/dev/null", command);
        if (system(quiet) == 0)
            return true;
        rmdir(group);
    }
    snprintf(why, capacity, "no cgroup could be made");
    return false;
}

static void leave_groups(void) {
    static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/cpu",
                                         "/sys/fs/cgroup/cpuset"};
    for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
        char group[128];
        snprintf(group, sizeof group, "%s/tenon-test-%d", mounts[i], (int)getpid());
        rmdir(group);
    }
}

START_TEST(cgroups_of_one_core_give_one_thread) {
    unsetenv("OMP_NUM_THREADS");
    pid_t child = fork();
    ck_assert_int_ne(child, -1);
    if (child == 0) {
        char why[128];
        if (!enter_group(_i == 1, why, sizeof why)) {
            fprintf(stderr, "SKIPPED: a %s of one core: %s\n", _i ? "cpuset" : "quota", why);
            _exit(0);
        }
        fprintf(stderr, "tested with a real %s\n", _i ? "cpuset" : "quota");
        _exit(sees_one_thread(_i == 0));
    }
    int state;
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    leave_groups();
    ck_assert_msg(WIFEXITED(state) && WEXITSTATUS(state) == 0, "the child ended with state %d",
                  state);
}
END_TEST

/* OMP_NUM_THREADS counts more than cores do; gomp reads it when a process begins. */
START_TEST(omp_num_threads_overrides) {
    setenv("OMP_NUM_THREADS", _i ? "1" : "5", 1);
    WORKS("topology --json");
    cJSON *root_item = cJSON_Parse(out);
    ck_assert_ptr_nonnull(root_item);
    ck_assert_int_eq(cJSON_GetObjectItem(root_item, "threads")->valueint, _i ? 1 : 5);
    ck_assert(strstr(cJSON_GetObjectItem(root_item, "why")->valuestring, "OMP_NUM_THREADS"));
    cJSON_Delete(root_item);
}
END_TEST

/* ---- Placement ---- */

typedef struct placed {
    tenon_place places[MAX];
    int pus[MAX];
    int threads;
} placed;

static placed place(const char *synthetic, int instances, int threads) {
    placed p = {.threads = threads};
    tenon_topology *topology = machine(synthetic);
    OK(tenon_topology_place(topology, instances, threads, p.places, p.pus));
    tenon_topology_destroy(&topology);
    return p;
}

static void check_pus(const placed *p, const int *want, int count) {
    for (int i = 0; i < count; i++)
        ck_assert_msg(p->pus[i] == want[i], "PU %d is %d, not %d", i, p->pus[i], want[i]);
}

#define PUS(...) ((const int[]){__VA_ARGS__})
#define CHECK_PUS(p, ...) \
    check_pus(&(p), PUS(__VA_ARGS__), (int)(sizeof PUS(__VA_ARGS__) / sizeof(int)))

static const char two_nodes[] = "node:2 l3:1 core:4 pu:2"; /* PUs 2c and 2c+1 are of core c */

START_TEST(synthetic_machines_are_read) {
    tenon_topology *topology = machine(two_nodes);
    tenon_topology_info info;
    tenon_pu pu;
    tenon_topology_get_info(topology, &info);
    ck_assert(info.synthetic && info.cores == 8 && info.pus == 16);
    ck_assert(info.usable_cores == 8 && info.usable_pus == 16 && info.threads == 8);
    ck_assert(info.nodes == 2 && info.l3_groups == 2 && info.kinds == 1 && info.quota == 0);
    ck_assert(tenon_topology_pu(topology, 11, &pu) && !tenon_topology_pu(topology, 16, &pu));
    ck_assert(pu.os_index == 11 && pu.core == 5 && pu.sibling == 1 && pu.l3 == 1 && pu.node == 1);
    tenon_topology_destroy(&topology);
    ck_assert_ptr_null(topology);
    FAILS(tenon_topology_create("node:two", &topology), TENON_INVALID_ARGUMENT, "'node:two'");
    FAILS(tenon_topology_create("core:2 pu:1 / 1x", &topology), TENON_INVALID_ARGUMENT, "1x");
    ck_assert_ptr_null(topology);
    static const struct {
        const char *machine, *text;
    } wrong[] = {
        {"node:99999 core:99999 pu:99999", "more than 2048 PUs"},
        {"2049", "more than 2048 PUs"},
        {"node:2 l3:2(size=1024) core:0x100 pu:4", "more than 2048 PUs"},
        {"core:18446744073709551615 pu:2", "more than 2048 PUs"},
        {"pu:2(indexes=0,4000000000)", "indexes over 65535"},
        {"core:4 pu:1 / 2x1", "the kinds '2x1' are of fewer than the 4 cores"},
        {"core:4 pu:1 /", "the kinds '' are of fewer than the 4 cores"},
        {"core:4 pu:1 / 2x1 3x0", "the kinds '2x1 3x0' are of more than the 4 cores"},
        {"core:4 pu:1 / 4294967300x0", "are of more than the 4 cores"},
        {"core:4 pu:1 / 2x0 2x4294967296", "'2x4294967296' is not cores and their kind"},
        {"core:4 pu:1 / 2x0 2x-1", "'2x-1' is not cores and their kind"},
        {"core:4 pu:1 / -2x0 6x1", "'-2x0 6x1' is not cores and their kind"},
        {"core:4 pu:1 / 4x1y", "'4x1y' is not cores and their kind"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        FAILS(tenon_topology_create(wrong[i].machine, &topology), TENON_INVALID_ARGUMENT,
              wrong[i].text);
    char longer[1024];
    snprintf(longer, sizeof longer, "core:2%600s", "");
    FAILS(tenon_topology_create(longer, &topology), TENON_INVALID_ARGUMENT, "606 characters");
    ck_assert_ptr_null(topology);
    topology = machine("node:2(memory=1073741824) core:2 pu:512(indexes=2*512:1*1024)");
    tenon_topology_get_info(topology, &info);
    ck_assert_int_eq(info.pus, 2048); /* the most; sizes in parentheses do not count */
    tenon_topology_destroy(&topology);
    topology = machine("node:2 core:2 pu:1"); /* no L3: a group for each node */
    tenon_topology_get_info(topology, &info);
    ck_assert(info.l3_groups == 2 && info.nodes == 2);
    tenon_topology_destroy(&topology);
}
END_TEST

START_TEST(instances_keep_to_nodes_and_cores) {
    placed p = place(two_nodes, 2, 4);
    CHECK_PUS(p, 0, 2, 4, 6, 8, 10, 12, 14);
    for (int i = 0; i < 2; i++) {
        ck_assert(p.places[i].node == i && p.places[i].l3 == i && !p.places[i].siblings);
        ck_assert(!p.places[i].split_l3 && !p.places[i].split_nodes && !p.places[i].shared);
    }
    p = place(two_nodes, 4, 2); /* spread over the nodes in turn */
    CHECK_PUS(p, 0, 2, 8, 10, 4, 6, 12, 14);
    p = place(two_nodes, 2, 3);
    CHECK_PUS(p, 0, 2, 4, 8, 10, 12);
    p = place(two_nodes, 1, 1);
    CHECK_PUS(p, 0);
    p = place(two_nodes, 8, 1);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(p.pus[i] % 2, 0);
    ck_assert_int_eq(p.places[1].node, 1);
}
END_TEST

/* Second PUs of cores come when all cores have given one. */
START_TEST(siblings_come_last) {
    placed p = place(two_nodes, 16, 1);
    for (int i = 0; i < 16; i++) {
        ck_assert_int_eq(p.pus[i] % 2, i >= 8);
        ck_assert(!p.places[i].shared);
    }
    p = place(two_nodes, 2, 8);
    CHECK_PUS(p, 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    ck_assert(p.places[0].siblings && !p.places[0].split_nodes);
}
END_TEST

START_TEST(what_cannot_fit_is_split_or_shared) {
    placed p = place(two_nodes, 1, 6);
    ck_assert(p.places[0].split_nodes && p.places[0].split_l3 && !p.places[0].siblings);
    CHECK_PUS(p, 0, 2, 4, 6, 8, 10);
    /* Two L3 groups on one node: groups are spanned, nodes are not. */
    p = place("node:2 l3:2 core:2 pu:1", 2, 3);
    ck_assert(p.places[0].split_l3 && !p.places[0].split_nodes);
    ck_assert(p.places[1].split_l3 && !p.places[1].split_nodes);
    CHECK_PUS(p, 0, 1, 2, 4, 5, 6);
    p = place("node:2 l3:2 core:2 pu:1", 4, 2);
    for (int i = 0; i < 4; i++)
        ck_assert(!p.places[i].split_l3);
    ck_assert(p.places[0].node != p.places[1].node);
    p = place("core:2 pu:1", 3, 1);
    ck_assert(p.places[0].shared + p.places[1].shared + p.places[2].shared == 2);
    p = place("core:2 pu:1", 1, 5);
    ck_assert(p.places[0].shared);
    CHECK_PUS(p, 0, 1, 0, 1, 0);
    p = place("core:2 pu:1", 3, 2);
    CHECK_PUS(p, 0, 1, 0, 1, 0, 1);
}
END_TEST

START_TEST(fast_cores_come_first) {
    static const char hybrid[] = "l3:1 core:8 pu:1 / 4x0 4x1"; /* the second half is faster */
    placed p = place(hybrid, 2, 2);
    CHECK_PUS(p, 4, 5, 6, 7);
    p = place(hybrid, 2, 4);
    CHECK_PUS(p, 4, 5, 6, 7, 0, 1, 2, 3);
    ck_assert(!p.places[0].mixed && !p.places[1].mixed);
    p = place(hybrid, 2, 3); /* not mixed, though a fast core is left */
    CHECK_PUS(p, 4, 5, 6, 0, 1, 2);
    p = place(hybrid, 1, 6);
    CHECK_PUS(p, 4, 5, 6, 7, 0, 1);
    ck_assert(p.places[0].mixed);
}
END_TEST

START_TEST(bad_placements_are_refused) {
    tenon_topology *topology = machine(two_nodes);
    tenon_place places[1];
    int pus[1];
    static const int bad[][2] = {{0, 1}, {1, 0}, {-1, 1}, {4096, 4096}, {1 << 30, 1 << 30}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(tenon_topology_place(topology, bad[i][0], bad[i][1], places, pus),
              TENON_INVALID_ARGUMENT, "instances");
    tenon_topology_destroy(&topology);
}
END_TEST

/* ---- The command ---- */

START_TEST(command_tells) {
    WORKS("topology --synthetic 'node:2 l3:1 core:4 pu:2' --instances 2 --threads 6");
    SAYS(out, "8 cores, 16 PUs, 2 NUMA nodes, 2 L3 groups");
    SAYS(out, "instance 1  6 threads on PU 8-12,14");
    SAYS(out, "two PUs of a core");
    WORKS("topology --synthetic 'node:2 l3:1 core:4 pu:2' --instances 4 --json");
    cJSON *json = cJSON_Parse(out);
    ck_assert_ptr_nonnull(json);
    const cJSON *instances = cJSON_GetObjectItem(json, "instances");
    ck_assert_int_eq(cJSON_GetArraySize(instances), 4);
    const cJSON *pus = cJSON_GetObjectItem(cJSON_GetArrayItem(instances, 1), "pus");
    ck_assert_int_eq(cJSON_GetArraySize(pus), 2);
    ck_assert_int_eq(cJSON_GetArrayItem(pus, 0)->valueint, 8);
    cJSON_Delete(json);
    WORKS("topology");
    SAYS(out, "instance 0");
    REFUSES("topology --synthetic x:y", 2,
            "--synthetic: topology: hwloc does not understand 'x:y'");
    REFUSES("topology --instances 100 --threads 100", 2, "instances");
    REFUSES("topology extra", 2, "'extra'");
    REFUSES("topology --instances -1", 2, "--instances");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("topology");
    TCase *tcase = tcase_create("topology");
    tcase_add_checked_fixture(tcase, make_directory, remove_directory);
    tcase_add_test(tcase, quotas_of_version_2);
    tcase_add_test(tcase, quotas_of_version_1);
    tcase_add_test(tcase, one_core_of_the_mask_gives_one_thread);
    tcase_add_loop_test(tcase, cgroups_of_one_core_give_one_thread, 0, 2);
    tcase_add_loop_test(tcase, omp_num_threads_overrides, 0, 2);
    tcase_add_test(tcase, synthetic_machines_are_read);
    tcase_add_test(tcase, instances_keep_to_nodes_and_cores);
    tcase_add_test(tcase, siblings_come_last);
    tcase_add_test(tcase, what_cannot_fit_is_split_or_shared);
    tcase_add_test(tcase, fast_cores_come_first);
    tcase_add_test(tcase, bad_placements_are_refused);
    tcase_add_test(tcase, command_tells);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
