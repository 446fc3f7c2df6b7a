/* tenon topology */
#include "cli.h"
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

static const char about[] = "Shows which cores this process may use, and why; and for instances of "
                            "a model, which cores each "
                            "would have.\n"
                            "DESC describes another machine, as hwloc does: \"node:2 l3:1 core:4 "
                            "pu:2\" has 2 NUMA nodes, each "
                            "with an L3 cache,\n"
                            "with 4 cores, of 2 PUs each. Kinds of all cores follow a "
                            "slash, slowest "
                            "0: \"core:6 pu:1 / 2x1 4x0\". It may have 2048 PUs.";

typedef struct plan {
    int instances, threads;
    tenon_place *places;
    int *pus;
} plan;

/* What a pool would take where the options say nothing. */
static int make_plan(const tenon_topology *topology, plan *p) {
    tenon_topology_info info;
    tenon_topology_get_info(topology, &info);
    if (p->instances == 0 && p->threads == 0)
        p->instances = 1;
    if (p->instances == 0)
        p->instances = info.threads > p->threads ? info.threads / p->threads : 1;
    if (p->threads == 0)
        p->threads = info.threads > p->instances ? info.threads / p->instances : 1;
    p->places = calloc((size_t)p->instances, sizeof *p->places);
    p->pus = calloc((size_t)p->instances * (size_t)p->threads, sizeof *p->pus);
    if (!p->places || !p->pus)
        return cli_error(CLI_FAILED, "out of memory");
    return tenon_topology_place(topology, p->instances, p->threads, p->places, p->pus) == TENON_OK
               ? CLI_OK
               : cli_error(CLI_USAGE, "%s", tenon_last_error());
}

static int by_number(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

/* "0-3,8"; sorts them. */
static void print_pus(int *pus, int count) {
    qsort(pus, (size_t)count, sizeof *pus, by_number);
    for (int i = 0; i < count;) {
        int last = i;
        while (last + 1 < count && pus[last + 1] == pus[last] + 1)
            last++;
        printf("%s%d", i ? "," : "", pus[i]);
        if (last > i)
            printf("-%d", pus[last]);
        i = last + 1;
    }
}

static void print_text(const tenon_topology *topology, const plan *p) {
    tenon_topology_info info;
    tenon_pu pu;
    tenon_topology_get_info(topology, &info);
    printf("machine    %d core%s, %d PU%s, %d NUMA node%s, %d L3 group%s, %d kind%s of cores%s\n",
           info.cores, info.cores == 1 ? "" : "s", info.pus, info.pus == 1 ? "" : "s", info.nodes,
           info.nodes == 1 ? "" : "s", info.l3_groups, info.l3_groups == 1 ? "" : "s", info.kinds,
           info.kinds == 1 ? "" : "s", info.synthetic ? " (synthetic)" : "");
    printf("usable     %d core%s, %d PU%s", info.usable_cores, info.usable_cores == 1 ? "" : "s",
           info.usable_pus, info.usable_pus == 1 ? "" : "s");
    if (info.quota > 0)
        printf(", quota %g cores", info.quota);
    printf("\nthreads    %d: %s\n\n", info.threads, info.why);
    printf("%5s %5s %5s %5s %5s %5s  %s\n", "PU", "core", "SMT", "L3", "node", "kind", "usable");
    for (int i = 0; tenon_topology_pu(topology, i, &pu); i++)
        printf("%5d %5d %5d %5d %5d %5d  %s\n", pu.os_index, pu.core, pu.sibling, pu.l3, pu.node,
               pu.kind, pu.usable ? "yes" : "no");
    printf("\n");
    for (int i = 0; i < p->instances; i++) {
        const tenon_place *place = &p->places[i];
        printf("instance %d  %d thread%s on PU ", i, p->threads, p->threads == 1 ? "" : "s");
        print_pus(p->pus + (size_t)i * (size_t)p->threads, p->threads);
        printf(", node %d, L3 group %d%s%s%s%s\n", place->node, place->l3,
               place->split_nodes ? "; spans nodes"
               : place->split_l3  ? "; spans L3 groups"
                                  : "",
               place->mixed ? "; has several kinds of cores" : "",
               place->siblings ? "; has two PUs of a core" : "",
               place->shared ? "; shares PUs, as there are too few" : "");
    }
}

static void add_pus(cJSON *to, const int *pus, int count) {
    cJSON *list = cJSON_AddArrayToObject(to, "pus");
    for (int i = 0; i < count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(pus[i]));
}

static int print_json(const tenon_topology *topology, const plan *p) {
    tenon_topology_info info;
    tenon_pu pu;
    tenon_topology_get_info(topology, &info);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddBoolToObject(root, "synthetic", info.synthetic);
    cJSON_AddNumberToObject(root, "cores", info.cores);
    cJSON_AddNumberToObject(root, "nodes", info.nodes);
    cJSON_AddNumberToObject(root, "l3_groups", info.l3_groups);
    cJSON_AddNumberToObject(root, "kinds", info.kinds);
    cJSON_AddNumberToObject(root, "usable_cores", info.usable_cores);
    cJSON_AddNumberToObject(root, "usable_pus", info.usable_pus);
    cJSON_AddNumberToObject(root, "quota", info.quota);
    cJSON_AddNumberToObject(root, "omp_num_threads", info.omp_threads);
    cJSON_AddNumberToObject(root, "threads", info.threads);
    cJSON_AddStringToObject(root, "why", info.why);
    cJSON *list = cJSON_AddArrayToObject(root, "pus");
    for (int i = 0; tenon_topology_pu(topology, i, &pu); i++) {
        cJSON *item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "pu", pu.os_index);
        cJSON_AddNumberToObject(item, "core", pu.core);
        cJSON_AddNumberToObject(item, "sibling", pu.sibling);
        cJSON_AddNumberToObject(item, "l3", pu.l3);
        cJSON_AddNumberToObject(item, "node", pu.node);
        cJSON_AddNumberToObject(item, "kind", pu.kind);
        cJSON_AddBoolToObject(item, "usable", pu.usable);
        cJSON_AddItemToArray(list, item);
    }
    list = cJSON_AddArrayToObject(root, "instances");
    for (int i = 0; i < p->instances; i++) {
        const tenon_place *place = &p->places[i];
        cJSON *item = cJSON_CreateObject();
        add_pus(item, p->pus + (size_t)i * (size_t)p->threads, p->threads);
        cJSON_AddNumberToObject(item, "node", place->node);
        cJSON_AddNumberToObject(item, "l3", place->l3);
        cJSON_AddBoolToObject(item, "split_nodes", place->split_nodes);
        cJSON_AddBoolToObject(item, "split_l3", place->split_l3);
        cJSON_AddBoolToObject(item, "mixed", place->mixed);
        cJSON_AddBoolToObject(item, "siblings", place->siblings);
        cJSON_AddBoolToObject(item, "shared", place->shared);
        cJSON_AddItemToArray(list, item);
    }
    char *text = cJSON_Print(root);
    if (text)
        puts(text);
    cJSON_free(text);
    cJSON_Delete(root);
    return text ? CLI_OK : cli_error(CLI_FAILED, "out of memory");
}

static int take_number(const char *option, const char *text, int *out) {
    enum { MOST = 4096 };
    long long number = 0;
    int code = text ? cli_integer(option, text, 0, MOST, &number) : CLI_OK;
    *out = (int)number;
    return code;
}

int cli_topology(int argc, const char **argv) {
    char *synthetic = NULL, *instances = NULL, *threads = NULL;
    int json = 0;
    plan p = {0};
    tenon_topology *topology = NULL;
    struct poptOption options[] = {
        {"synthetic", 0, POPT_ARG_STRING, &synthetic, 0, "another machine than this", "DESC"},
        {"instances", 0, POPT_ARG_STRING, &instances, 0, "instances to place (default 1)", "N"},
        {"threads", 0, POPT_ARG_STRING, &threads, 0,
         "threads of each (default: all threads, over the instances)", "N"},
        {"json", 0, POPT_ARG_NONE, &json, 0, "print JSON", NULL},
        {"help", 'h', POPT_ARG_NONE, NULL, CLI_OPTION_HELP, "this text", NULL},
        POPT_TABLEEND};
    poptContext popt = poptGetContext("tenon topology", argc, argv, options, 0);
    int code = cli_parse_options(popt, "[OPTION...]", about, NULL, NULL);
    if (code == CLI_OK && poptPeekArg(popt))
        code = cli_error(CLI_USAGE, "'%s' is no option", poptPeekArg(popt));
    if (code == CLI_OK)
        code = take_number("--instances", instances, &p.instances);
    if (code == CLI_OK)
        code = take_number("--threads", threads, &p.threads);
    if (code == CLI_OK) {
        tenon_status status = tenon_topology_create(synthetic, &topology);
        if (status == TENON_INVALID_ARGUMENT)
            code = cli_error(CLI_USAGE, "--synthetic: %s", tenon_last_error());
        else if (status != TENON_OK)
            code = cli_failed();
    }
    if (code == CLI_OK)
        code = make_plan(topology, &p);
    if (code == CLI_OK && json)
        code = print_json(topology, &p);
    else if (code == CLI_OK)
        print_text(topology, &p);
    tenon_topology_destroy(&topology);
    free(p.places);
    free(p.pus);
    free(synthetic);
    free(instances);
    free(threads);
    poptFreeContext(popt);
    return code < 0 ? CLI_OK : code;
}
