/* What tables are made of. */
#ifndef TN_AVERAGES_H
#define TN_AVERAGES_H

#include "core/util.h"
#include <tenon/profiler.h>

typedef struct tn_average_row {
    tenon_average sums;
    bool top_level; /* its first event ran within no other */
    int open;       /* events of it that the present one is within, while they are summed up */
} tn_average_row;

struct tenon_averages {
    tn_arena arena; /* of texts */
    tn_average_row *rows;
    int count, capacity;
    tenon_group_options groups;
    bool memory, flops; /* were recorded */
    bool perturbed;     /* plans ran in which nothing was fused */
};

/* The line of tables of such plans. */
#define TN_PERTURBED "perturbed: fusion is off, so that each op runs by itself"

/* The numbers of the rows, the largest by that key of tenon_table_options (NULL: as they are)
 * first. The caller frees them. */
tenon_status tn_averages_sort(const tenon_averages *averages, const char *key, int **out);

/* ---- Columns (columns.c) ---- */

/* Characters of UTF-8. */
int tn_text_width(const char *text, size_t length);
/* What is too long is cut with "...", but for numbers. */
typedef enum tn_cell { TN_CELL_NUMBER, TN_CELL_RIGHT, TN_CELL_LEFT, TN_CELL_PATH } tn_cell;

/* Puts the text into a column: numbers and RIGHT at its right side, a PATH without its beginning.
 * Control bytes become spaces. */
void tn_text_cell(tn_text *out, const char *text, size_t length, int width, tn_cell kind);
/* "12.345us", "1.234ms"; `unit` (may be NULL) as in tenon_table_options. */
void tn_text_time(tn_text *out, double ns, const char *unit);
/* "12.34%"; "NaN" of nothing. */
void tn_text_share(tn_text *out, double part, double whole);
/* "1.50 KB" */
void tn_text_memory(tn_text *out, int64_t bytes);
/* The power of 1000 in which the smallest number of operations is shown, and its name, "MFLOPs". */
double tn_flops_scale(double smallest, const char **unit);
/* Gives the text to the caller, who frees it with tenon_string_free. */
tenon_status tn_text_give(tn_text *text, char **out);

#endif
