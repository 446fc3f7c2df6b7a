/* Choices on disk: what was measured on some machine for some candidate. */
#ifndef TN_TUNE_FILE_H
#define TN_TUNE_FILE_H

#include "fusion/choose.h"

/* What was measured. */
typedef struct tn_tune_entry {
    const char *machine, *candidate; /* for whom */
    int way;
    double times[TN_MAX_WAYS]; /* by way, microseconds; 0: it was not measured */
} tn_tune_entry;

/* Entries as the file had them, and those that are new. All zero is a closed one. */
typedef struct tn_tune_file {
    char *path;
    struct cJSON *entries; /* of all machines */
    struct cJSON *added;
    bool usable; /* it is there and right, or not there at all: it may be replaced */
} tn_tune_file;

/* Reads the file at `path`; NULL or "": the default one, $XDG_CACHE_HOME/tenon/choices.json, or
 * that in ~/.cache. One that is no such file, or cannot be read, is left as it is, with a warning
 * in the log, and counts as empty. An empty one is taken as new. Fails only without memory. */
tenon_status tn_tune_open(tn_tune_file *file, const char *path);
/* What the file has for machine and candidate of `entry`, whose way and times are filled in; false:
 * nothing that is right for these ways. A choice that is none of them gives a warning, which names
 * `op`. */
bool tn_tune_find(const tn_tune_file *file, const char *op, const char *const *ways, int way_count,
                  tn_tune_entry *entry);
tenon_status tn_tune_add(tn_tune_file *file, const char *const *ways, int way_count,
                         const tn_tune_entry *entry);
/* Writes what is new together with what the file has by now, whole or not at all. A failure is
 * logged as a warning: it costs nothing but measuring again. */
void tn_tune_save(tn_tune_file *file);
void tn_tune_close(tn_tune_file *file);

#endif
