/* The order of a table's rows. */
#include "core/fail.h"
#include "profiler/averages.h"
#include <stdlib.h>
#include <string.h>

/* A row's place in it. */
typedef struct place {
    double number;
    const char *text;
    int row;
} place;

static double cpu_time(const tenon_average *sums) {
    return (double)sums->cpu_ns / (double)sums->count;
}
static double cpu_time_total(const tenon_average *sums) {
    return (double)sums->cpu_ns;
}
static double self_cpu_time_total(const tenon_average *sums) {
    return (double)sums->self_cpu_ns;
}
static double cpu_memory_usage(const tenon_average *sums) {
    return (double)sums->memory;
}
static double self_cpu_memory_usage(const tenon_average *sums) {
    return (double)sums->self_memory;
}
static double count(const tenon_average *sums) {
    return (double)sums->count;
}
static double flops(const tenon_average *sums) {
    return sums->flops;
}

#define SORT_KEYS(X)         \
    X(cpu_time)              \
    X(cpu_time_total)        \
    X(self_cpu_time_total)   \
    X(cpu_memory_usage)      \
    X(self_cpu_memory_usage) \
    X(count)                 \
    X(flops)

static const struct {
    const char *name;
    double (*number)(const tenon_average *sums);
} sort_keys[] = {
#define X(key) {#key, key},
    SORT_KEYS(X)
#undef X
};

#define X(key) #key ", "
static const char key_list[] = SORT_KEYS(X) "key";
#undef X

/* Other devices, by the words that PyTorch's keys have for them. */
static const char *device_of(const char *key) {
    static const char *const devices[][2] = {{"cuda", "CUDA"},
                                             {"xpu", "XPU"},
                                             {"hpu", "HPU"},
                                             {"mtia", "MTIA"},
                                             {"mps", "MPS"},
                                             {"privateuse1", "another device"},
                                             {"device", "another device"}};
    for (int i = 0; i < TN_COUNT(devices); i++)
        if (strstr(key, devices[i][0]))
            return devices[i][1];
    return NULL;
}

static int by_place(const void *x, const void *y) {
    const place *a = x, *b = y;
    int order =
        a->text ? strcmp(b->text, a->text) : (b->number > a->number) - (b->number < a->number);
    return order ? order : a->row - b->row;
}

tenon_status tn_averages_sort(const tenon_averages *a, const char *key, int **out) {
    int at = 0;
    while (key && at < TN_COUNT(sort_keys) && strcmp(sort_keys[at].name, key) != 0)
        at++;
    bool by_name = key && strcmp(key, "key") == 0;
    if (key && at == TN_COUNT(sort_keys) && !by_name) {
        const char *device = device_of(key);
        if (device)
            return tn_fail(TENON_INVALID_ARGUMENT,
                           "sort_by: '%s' is about %s, and Tenon runs on CPUs only; there are: %s",
                           key, device, key_list);
        return tn_fail(TENON_INVALID_ARGUMENT, "sort_by: there is no key '%s'; there are: %s", key,
                       key_list);
    }
    place *places = calloc((size_t)a->count + 1, sizeof *places);
    int *order = malloc(((size_t)a->count + 1) * sizeof *order);
    if (!places || !order) {
        free(places);
        free(order);
        return tn_no_memory();
    }
    for (int i = 0; i < a->count; i++) {
        const tenon_average *sums = &a->rows[i].sums;
        places[i].row = i;
        if (by_name)
            places[i].text = sums->name;
        else if (key)
            places[i].number = sort_keys[at].number(sums);
    }
    if (key)
        qsort(places, (size_t)a->count, sizeof *places, by_place);
    for (int i = 0; i < a->count; i++)
        order[i] = places[i].row;
    free(places);
    *out = order;
    return TENON_OK;
}
