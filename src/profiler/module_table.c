/* The tree of modules as text. */
#include "core/fail.h"
#include "profiler/averages.h"
#include <string.h>

enum { DEFAULT_ROWS = 100, NAME_WIDTH = 48, NUMBER_WIDTH = 12 };

static const char *const titles[] = {"CPU total %", "CPU total",   "Self CPU %",
                                     "Self CPU",    "Estimated %", "# of Calls"};

typedef struct printer {
    tn_text out, cell;
    int width;
    double total, flops_scale; /* 0: no such column */
    const char *flops_unit;
} printer;

/* Indented by its depth: its last component. */
static void put_name(const tenon_module_time *time, tn_text *out) {
    const char *dot = strrchr(time->path, '.');
    const char *name = time->depth == 0 ? "(model)" : dot ? dot + 1 : time->path;
    tn_text_add(out, "%*s%s", 2 * time->depth, "", name);
}

static void end_cell(printer *p) {
    tn_text_cell(&p->out, p->cell.length ? p->cell.data : "", p->cell.length, NUMBER_WIDTH,
                 TN_CELL_NUMBER);
    tn_text_put(&p->out, "  ", 2);
    p->cell.length = 0;
}

static void print_row(printer *p, const tenon_module_time *time) {
    p->cell.length = 0;
    put_name(time, &p->cell);
    tn_text_cell(&p->out, p->cell.length ? p->cell.data : "", p->cell.length, p->width,
                 TN_CELL_LEFT);
    tn_text_put(&p->out, "  ", 2);
    p->cell.length = 0;
    tn_text_share(&p->cell, (double)time->total_ns, p->total);
    end_cell(p);
    tn_text_time(&p->cell, (double)time->total_ns, NULL);
    end_cell(p);
    tn_text_share(&p->cell, (double)time->self_ns, p->total);
    end_cell(p);
    tn_text_time(&p->cell, (double)time->self_ns, NULL);
    end_cell(p);
    if (time->estimated_ns > 0)
        tn_text_share(&p->cell, (double)time->estimated_ns, (double)time->total_ns);
    else
        tn_text_add(&p->cell, "--");
    end_cell(p);
    tn_text_add(&p->cell, "%lld", (long long)time->count);
    end_cell(p);
    if (p->flops_scale > 0) {
        tn_text_add(&p->cell, "%.3f", time->flops * p->flops_scale);
        end_cell(p);
    }
    tn_text_put(&p->out, "\n", 1);
}

static void print_rule(printer *p, int columns) {
    for (int i = 0; i < p->width; i++)
        tn_text_put(&p->out, "-", 1);
    for (int i = 0; i < columns; i++)
        tn_text_add(&p->out, "  ------------");
    tn_text_add(&p->out, "  \n");
}

static void print_titles(printer *p, int columns) {
    tn_text_cell(&p->out, "Module", 6, p->width, TN_CELL_LEFT);
    tn_text_put(&p->out, "  ", 2);
    for (int i = 0; i < columns; i++) {
        if (i < TN_COUNT(titles))
            tn_text_add(&p->cell, "%s", titles[i]);
        else
            tn_text_add(&p->cell, "Total %s", p->flops_unit);
        end_cell(p);
    }
    tn_text_put(&p->out, "\n", 1);
}

static void measure(printer *p, const tenon_module_times *times) {
    tenon_module_time time;
    double largest = 0;
    p->width = 6;
    for (int i = 0; tenon_module_times_get(times, i, &time); i++) {
        p->cell.length = 0;
        put_name(&time, &p->cell);
        int width = p->cell.length ? tn_text_width(p->cell.data, p->cell.length) : 0;
        p->width = width > p->width ? width : p->width;
        largest = time.flops > largest ? time.flops : largest;
    }
    p->cell.length = 0;
    p->width = p->width < NAME_WIDTH ? p->width : NAME_WIDTH;
    if (largest > 0) /* so that it has up to six digits before the point */
        p->flops_scale = tn_flops_scale(largest / 1000, &p->flops_unit);
}

tenon_status tenon_module_times_table(const tenon_module_times *times, int row_limit, char **out) {
    printer p = {0};
    tenon_module_time time = {0};
    if (row_limit < -1)
        return tn_fail(TENON_INVALID_ARGUMENT, "modules: row_limit is %d, less than -1", row_limit);
    int limit = row_limit == 0 ? DEFAULT_ROWS : row_limit;
    measure(&p, times);
    tenon_module_times_get(times, 0, &time);
    p.total = (double)time.total_ns;
    int64_t estimated = time.estimated_ns;
    int columns = TN_COUNT(titles) + (p.flops_scale > 0);
    if (tenon_module_times_perturbed(times))
        tn_text_add(&p.out, "%s\n", TN_PERTURBED);
    print_rule(&p, columns);
    print_titles(&p, columns);
    print_rule(&p, columns);
    for (int i = 0; i != limit && tenon_module_times_get(times, i, &time); i++)
        print_row(&p, &time);
    print_rule(&p, columns);
    tn_text_add(&p.out, "CPU time of steps total: ");
    tn_text_time(&p.out, p.total, NULL);
    tn_text_put(&p.out, "\n", 1);
    if (estimated > 0)
        tn_text_add(&p.out, "Estimated: the share of times that come from oneDNN partitions which "
                            "span modules, by arithmetic and bytes\n");
    p.out.failed |= p.cell.failed;
    tn_text_free(&p.cell);
    return tn_text_give(&p.out, out);
}
