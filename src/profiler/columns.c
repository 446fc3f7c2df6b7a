/* Cells of tables. */
#include "core/fail.h"
#include "profiler/averages.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A character begins at every byte that does not go on with one. */
static bool begins(char c) {
    return ((unsigned char)c & 0xC0) != 0x80;
}

int tn_text_width(const char *text, size_t length) {
    int width = 0;
    for (size_t i = 0; i < length; i++)
        width += begins(text[i]);
    return width;
}

/* Bytes of the first `count` characters. */
static size_t bytes_of(const char *text, size_t length, int count) {
    size_t at = 0;
    for (; at < length; at++)
        if (begins(text[at]) && count-- == 0)
            break;
    return at;
}

static void pad(tn_text *out, int count) {
    if (count > 0)
        tn_text_add(out, "%*s", count, "");
}

static void put_plain(tn_text *out, const char *text, size_t length) {
    for (size_t i = 0; i < length;) {
        size_t run = i;
        while (run < length && (unsigned char)text[run] >= ' ' && text[run] != 0x7F)
            run++;
        tn_text_put(out, text + i, run - i);
        if (run < length)
            tn_text_put(out, " ", 1);
        i = run + 1;
    }
}

void tn_text_cell(tn_text *out, const char *text, size_t length, int width, tn_cell kind) {
    bool left = kind == TN_CELL_LEFT || kind == TN_CELL_PATH;
    int has = tn_text_width(text, length);
    bool cut = kind != TN_CELL_NUMBER && has > width;
    int room = width - (cut ? width : has);
    if (!left)
        pad(out, room);
    if (cut && kind == TN_CELL_PATH) {
        size_t skipped = bytes_of(text, length, has - (width - 3));
        tn_text_add(out, "...");
        put_plain(out, text + skipped, length - skipped);
    } else {
        put_plain(out, text, cut ? bytes_of(text, length, width - 3) : length);
        tn_text_add(out, "%s", cut ? "..." : "");
    }
    if (left)
        pad(out, room);
}

void tn_text_time(tn_text *out, double ns, const char *unit) {
    if (unit ? strcmp(unit, "s") == 0 : ns >= 1e9)
        tn_text_add(out, "%.3fs", ns * 1e-9);
    else if (unit ? strcmp(unit, "ms") == 0 : ns >= 1e6)
        tn_text_add(out, "%.3fms", ns * 1e-6);
    else
        tn_text_add(out, "%.3fus", ns * 1e-3);
}

void tn_text_share(tn_text *out, double part, double whole) {
    if (whole != 0)
        tn_text_add(out, "%.2f%%", part * 100 / whole);
    else
        tn_text_add(out, "NaN");
}

void tn_text_memory(tn_text *out, int64_t bytes) {
    static const char *const units[] = {"KB", "MB", "GB"};
    double size = (double)bytes / 1024;
    int unit = 0;
    if (fabs(size) < 1) {
        tn_text_add(out, "%lld B", (long long)bytes);
        return;
    }
    for (; fabs(size) >= 1024 && unit < 2; unit++)
        size /= 1024;
    tn_text_add(out, "%.2f %s", size, units[unit]);
}

double tn_flops_scale(double smallest, const char **unit) {
    static const char *const units[] = {"FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"};
    double scale = 1;
    int at = 0;
    for (; smallest >= 1000 && at < TN_COUNT(units) - 1; at++) {
        smallest /= 1000;
        scale /= 1000;
    }
    *unit = units[at];
    return scale;
}

tenon_status tn_text_give(tn_text *text, char **out) {
    if (!text->failed && !text->data)
        tn_text_put(text, "", 0);
    if (text->failed) {
        tn_text_free(text);
        return tn_no_memory();
    }
    *out = text->data;
    return TENON_OK;
}
