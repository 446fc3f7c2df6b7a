/* What the fuzzers share. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/tenon.h>

/* Inputs that hold more than one file are texts in which a line "=== NAME ===" stands before each.
 */
typedef struct fuzz_part {
    char name[64]; /* "" for what stands before the first line */
    const uint8_t *data;
    size_t size;
} fuzz_part;

enum { FUZZ_PARTS = 24 };

/* Takes an input apart; gives the number of parts. */
int fuzz_split(const uint8_t *data, size_t size, fuzz_part parts[FUZZ_PARTS]);

/* A folder of this process, in memory where the machine has such; it goes at the end. */
const char *fuzz_folder(void);
/* Writes a file there, and gives its path, which lives until the eighth call from here. */
const char *fuzz_write(const char *name, const void *data, size_t size);

/* tenon_load, which may have no more than 256 MiB of memory at any time for a file of a few
 * kilobytes: stops the process otherwise. NULL when it is refused. */
tenon_graph *fuzz_load(const char *path);

/* What must work with every graph that loads: it is printed, parsed again, lowered, planned without
 * compiling, and destroyed. */
void fuzz_graph(tenon_graph *graph);

/* Says why, and stops the process. */
_Noreturn void fuzz_fail(const char *format, ...) TENON_PRINTF(1, 2);

/* The log is silent unless TENON_DEBUG is set. */
void fuzz_start(void);

#endif
