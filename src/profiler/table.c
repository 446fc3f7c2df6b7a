/* The table of averages, as PyTorch prints it. */
#include "core/fail.h"
#include "profiler/averages.h"
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ROWS = 100, NUMBER_WIDTH = 12, LEAST_WIDTH = 4, MOST_COLUMNS = 16 };

typedef struct table table;
typedef void (*cell_fn)(const table *t, const tn_average_row *row, tn_text *out);

typedef struct column {
    char title[24];
    int width;
    tn_cell kind;
    cell_fn cell;
} column;

struct table {
    const tenon_averages *averages;
    tenon_table_options options;
    column columns[MOST_COLUMNS];
    int column_count;
    int *order;
    double self_total; /* nanoseconds */
    double flops_scale;
    tn_text cell, out;
};

/* ---- Cells ---- */

static void name_cell(const table *t, const tn_average_row *row, tn_text *out) {
    (void)t;
    tn_text_add(out, "%s", row->sums.name);
}

static void self_share(const table *t, const tn_average_row *row, tn_text *out) {
    tn_text_share(out, (double)row->sums.self_cpu_ns, t->self_total);
}

static void self_time(const table *t, const tn_average_row *row, tn_text *out) {
    tn_text_time(out, (double)row->sums.self_cpu_ns, t->options.time_unit);
}

static void total_share(const table *t, const tn_average_row *row, tn_text *out) {
    tn_text_share(out, (double)row->sums.cpu_ns, t->self_total);
}

static void total_time(const table *t, const tn_average_row *row, tn_text *out) {
    tn_text_time(out, (double)row->sums.cpu_ns, t->options.time_unit);
}

static void average_cell(const table *t, const tn_average_row *row, tn_text *out) {
    tn_text_time(out, (double)row->sums.cpu_ns / (double)row->sums.count, t->options.time_unit);
}

static void memory_cell(const table *t, const tn_average_row *row, tn_text *out) {
    (void)t;
    tn_text_memory(out, row->sums.memory);
}

static void self_memory_cell(const table *t, const tn_average_row *row, tn_text *out) {
    (void)t;
    tn_text_memory(out, row->sums.self_memory);
}

static void count_cell(const table *t, const tn_average_row *row, tn_text *out) {
    (void)t;
    tn_text_add(out, "%lld", (long long)row->sums.count);
}

static void module_cell(const table *t, const tn_average_row *row, tn_text *out) {
    (void)t;
    tn_text_add(out, "%s", row->sums.module);
}

static void shapes_cell(const table *t, const tn_average_row *row, tn_text *out) {
    (void)t;
    tn_text_add(out, "%s", row->sums.shapes);
}

static void flops_cell(const table *t, const tn_average_row *row, tn_text *out) {
    if (row->sums.flops > 0)
        tn_text_add(out, "%.3f", row->sums.flops * t->flops_scale);
    else
        tn_text_add(out, "--");
}

/* Its lines have rows of their own. */
static void stack_cell(const table *t, const tn_average_row *row, tn_text *out) {
    (void)t;
    tn_text_add(out, "%s", row->sums.stack);
}

/* ---- Columns ---- */

static void add_column(table *t, const char *title, int width, tn_cell kind, cell_fn cell) {
    column *c = &t->columns[t->column_count++];
    *c = (column){.width = width, .kind = kind, .cell = cell};
    memcpy(c->title, title, strlen(title) + 1);
}

/* As wide as the widest text (of a PATH: line) and 4 more, up to `most` (-1: no limit). */
static void add_text_column(table *t, const char *title, tn_cell kind, cell_fn cell, int most) {
    int width = (int)strlen(title) - 4;
    for (int i = 0; i < t->averages->count; i++) {
        t->cell.length = 0;
        cell(t, &t->averages->rows[i], &t->cell);
        const char *at = t->cell.length ? t->cell.data : "";
        for (bool more = true; more;) {
            size_t length = kind == TN_CELL_PATH ? strcspn(at, "\n") : strlen(at);
            int has = tn_text_width(at, length);
            width = has > width ? has : width;
            more = at[length] != 0;
            at += length + more;
        }
    }
    add_column(t, title, most < 0 || width + 4 < most ? width + 4 : most, kind, cell);
}

static bool any_text(const table *t, const char *(*text)(const tenon_average *sums)) {
    for (int i = 0; i < t->averages->count; i++)
        if (*text(&t->averages->rows[i].sums))
            return true;
    return false;
}

static const char *shapes_of(const tenon_average *sums) {
    return sums->shapes;
}

static const char *stack_of(const tenon_average *sums) {
    return sums->stack;
}

static const char *module_of(const tenon_average *sums) {
    return sums->module;
}

static void add_flops_column(table *t) {
    double smallest = 0;
    const char *unit;
    char title[24] = "Total ";
    for (int i = 0; i < t->averages->count; i++) {
        double flops = t->averages->rows[i].sums.flops;
        if (flops > 0 && (smallest == 0 || flops < smallest))
            smallest = flops;
    }
    if (smallest == 0)
        return;
    t->flops_scale = tn_flops_scale(smallest, &unit);
    add_column(t, strcat(title, unit), NUMBER_WIDTH, TN_CELL_NUMBER, flops_cell);
}

static void add_columns(table *t) {
    const tenon_table_options *o = &t->options;
    add_text_column(t, "Name", TN_CELL_RIGHT, name_cell, o->max_name_column_width);
    add_column(t, "Self CPU %", NUMBER_WIDTH, TN_CELL_NUMBER, self_share);
    add_column(t, "Self CPU", NUMBER_WIDTH, TN_CELL_NUMBER, self_time);
    add_column(t, "CPU total %", NUMBER_WIDTH, TN_CELL_NUMBER, total_share);
    add_column(t, "CPU total", NUMBER_WIDTH, TN_CELL_NUMBER, total_time);
    add_column(t, "CPU time avg", NUMBER_WIDTH, TN_CELL_NUMBER, average_cell);
    if (t->averages->memory) {
        add_column(t, "CPU Mem", NUMBER_WIDTH, TN_CELL_NUMBER, memory_cell);
        add_column(t, "Self CPU Mem", NUMBER_WIDTH, TN_CELL_NUMBER, self_memory_cell);
    }
    add_column(t, "# of Calls", NUMBER_WIDTH, TN_CELL_NUMBER, count_cell);
    if (any_text(t, module_of))
        add_text_column(t, "Module", TN_CELL_RIGHT, module_cell, o->max_name_column_width);
    if (any_text(t, shapes_of))
        add_text_column(t, "Input Shapes", TN_CELL_RIGHT, shapes_cell, o->max_shapes_column_width);
    if (t->averages->flops)
        add_flops_column(t);
    if (any_text(t, stack_of))
        add_text_column(t, "Source Location", TN_CELL_PATH, stack_cell, o->max_src_column_width);
}

/* ---- Printing ---- */

static void rule(table *t) {
    for (int i = 0; i < t->column_count; i++) {
        for (int k = 0; k < t->columns[i].width; k++)
            tn_text_put(&t->out, "-", 1);
        tn_text_put(&t->out, "  ", 2);
    }
    tn_text_put(&t->out, "\n", 1);
}

static void banner(table *t, const char *text) {
    int length = -2;
    for (int i = 0; i < t->column_count; i++)
        length += t->columns[i].width + 2;
    for (int i = 0; i < length; i++)
        tn_text_put(&t->out, "=", 1);
    tn_text_add(&t->out, "\n%s\n", text);
}

static void titles(table *t) {
    for (int i = 0; i < t->column_count; i++) {
        const column *c = &t->columns[i];
        tn_text_cell(&t->out, c->title, strlen(c->title), c->width, c->kind);
        tn_text_put(&t->out, "  ", 2);
    }
    tn_text_put(&t->out, "\n", 1);
}

/* The stack, which is the last column, goes on in rows of its own; an empty one ends it. */
static void stack_lines(table *t, const char *stack) {
    const column *last = &t->columns[t->column_count - 1];
    int before = 0;
    for (int i = 0; i < t->column_count - 1; i++)
        before += t->columns[i].width + 2;
    for (bool first = true, more = true; more; first = false) {
        size_t length = strcspn(stack, "\n");
        if (!first)
            tn_text_add(&t->out, "%*s", before, "");
        tn_text_cell(&t->out, stack, length, last->width, last->kind);
        tn_text_put(&t->out, "  \n", 3);
        more = stack[length] != 0;
        stack += length + more;
    }
    tn_text_add(&t->out, "%*s\n", before + last->width + 2, "");
}

static void print_row(table *t, const tn_average_row *row) {
    for (int i = 0; i < t->column_count; i++) {
        const column *c = &t->columns[i];
        if (c->kind == TN_CELL_PATH) {
            stack_lines(t, row->sums.stack);
            return;
        }
        t->cell.length = 0;
        c->cell(t, row, &t->cell);
        tn_text_cell(&t->out, t->cell.length ? t->cell.data : "", t->cell.length, c->width,
                     c->kind);
        tn_text_put(&t->out, "  ", 2);
    }
    tn_text_put(&t->out, "\n", 1);
}

static void print(table *t) {
    int left = t->options.row_limit < 0 ? t->averages->count : t->options.row_limit;
    if (t->averages->count == 0)
        return;
    for (int i = 0; i < t->averages->count; i++)
        t->self_total += (double)t->averages->rows[i].sums.self_cpu_ns;
    add_columns(t);
    if (t->options.header)
        banner(t, t->options.header);
    if (t->averages->perturbed)
        banner(t, TN_PERTURBED);
    if (t->options.top_level_events_only)
        banner(t, "top-level events only");
    rule(t);
    titles(t);
    rule(t);
    for (int i = 0; i < t->averages->count && left > 0; i++) {
        const tn_average_row *row = &t->averages->rows[t->order[i]];
        if (t->options.top_level_events_only && !row->top_level)
            continue;
        print_row(t, row);
        left--;
    }
    rule(t);
    tn_text_add(&t->out, "Self CPU time total: ");
    tn_text_time(&t->out, t->self_total, t->options.time_unit);
    tn_text_put(&t->out, "\n", 1);
}

/* ---- Options ---- */

static tenon_status take_width(const char *name, int *width, int usual) {
    if (*width == 0)
        *width = usual;
    if (*width < -1 || (*width >= 0 && *width < LEAST_WIDTH))
        return tn_fail(TENON_INVALID_ARGUMENT, "table options: %s is %d, not -1, 0 or at least %d",
                       name, *width, LEAST_WIDTH);
    return TENON_OK;
}

static tenon_status take_options(tenon_table_options *o) {
    const char *unit = o->time_unit;
    TN_TRY(take_width("max_name_column_width", &o->max_name_column_width, 55));
    TN_TRY(take_width("max_shapes_column_width", &o->max_shapes_column_width, 80));
    TN_TRY(take_width("max_src_column_width", &o->max_src_column_width, 75));
    if (o->row_limit < -1)
        return tn_fail(TENON_INVALID_ARGUMENT, "table options: row_limit is %d, less than -1",
                       o->row_limit);
    if (o->row_limit == 0)
        o->row_limit = DEFAULT_ROWS;
    if (unit && strcmp(unit, "s") != 0 && strcmp(unit, "ms") != 0 && strcmp(unit, "us") != 0)
        return tn_fail(TENON_INVALID_ARGUMENT, "table options: time_unit is '%s', not s, ms or us",
                       unit);
    return TENON_OK;
}

tenon_status tenon_averages_table(const tenon_averages *averages,
                                  const tenon_table_options *options, char **out) {
    table t = {.averages = averages};
    if (options)
        t.options = *options;
    TN_TRY(take_options(&t.options));
    TN_TRY(tn_averages_sort(averages, t.options.sort_by, &t.order));
    print(&t);
    t.out.failed |= t.cell.failed;
    tn_text_free(&t.cell);
    free(t.order);
    return tn_text_give(&t.out, out);
}
