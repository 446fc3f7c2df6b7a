/* --allow: the limits of tenon_limits and tenon_load_options, by the names of their fields. */
#include "cli.h"
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { SESSION, LOAD };

static const struct {
    const char *name;
    size_t at;
    bool real; /* a double, else an int64_t */
    int of;
} limits[] = {
#define WHOLE(field) \
    { #field, offsetof(tenon_limits, field), false, SESSION }
#define REAL(field) \
    { #field, offsetof(tenon_limits, field), true, SESSION }
    WHOLE(nodes),
    WHOLE(elements),
    WHOLE(rank),
    WHOLE(folded_bytes),
    REAL(folded_flops),
    WHOLE(run_bytes),
    REAL(run_flops),
    REAL(run_work),
    WHOLE(compile_bytes),
    REAL(compile_work),
    REAL(compile_seconds),
    {"max_nodes", offsetof(tenon_load_options, max_nodes), false, LOAD},
    {"max_unpacked_bytes", offsetof(tenon_load_options, max_unpacked_bytes), false, LOAD},
};

static const int limit_count = (int)(sizeof limits / sizeof *limits);

static int unknown(const char *text) {
    cli_error(CLI_USAGE, "--allow: '%s' is not NAME=VALUE with one of these names:", text);
    for (int i = 0; i < limit_count; i++)
        fprintf(stderr, "  %s\n", limits[i].name);
    return CLI_USAGE;
}

int cli_take_limit(cli_compile *compile, const char *text) {
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : 0;
    int found = 0;
    while (found < limit_count &&
           (strlen(limits[found].name) != length || strncmp(limits[found].name, text, length) != 0))
        found++;
    if (found == limit_count)
        return unknown(text);
    char *end;
    double value = strtod(equals + 1, &end); /* so that 1e9 is one */
    bool real = limits[found].real;
    double most = real ? 1e300 : 9e18;
    if (end == equals + 1 || *end != 0 || !(value > 0 && value <= most) ||
        (!real && value != floor(value)))
        return cli_error(CLI_USAGE, "--allow: %s is '%s', not a %s above 0", limits[found].name,
                         equals + 1, real ? "number" : "whole number");
    char *field =
        limits[found].of == LOAD ? (char *)&compile->load : (char *)&compile->options.limits;
    if (real)
        memcpy(field + limits[found].at, &value, sizeof value);
    else
        memcpy(field + limits[found].at, &(int64_t){(int64_t)value}, sizeof(int64_t));
    return CLI_OK;
}

tenon_load_options cli_load_options(const cli_compile *compile) {
    tenon_load_options load = compile->load;
    load.copy_weights = compile->copy_weights;
    load.check_weights = compile->check_weights;
    return load;
}

int cli_load(const cli_compile *compile, const char *path, tenon_graph **out) {
    tenon_load_options load = cli_load_options(compile);
    return tenon_load_with(path, &load, out) == TENON_OK ? CLI_OK : cli_failed();
}
