/* The report as a page: the template of page.html with the facts and the drawing put in. */
#include "explain.h"
#include "page.h"
#include <stdlib.h>
#include <string.h>

/* JSON within a script element: nothing in it may look like an end tag. */
static void put_json(FILE *file, const char *text) {
    for (; *text; text++) {
        if (*text == '<')
            fputs("\\u003c", file);
        else
            fputc(*text, file);
    }
}

static void put_escaped(FILE *file, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        default:
            fputc(*text, file);
        }
    }
}

/* Writes the template up to a mark, and returns what follows it. */
static const char *put_until(FILE *file, const char *from, const char *mark) {
    const char *at = strstr(from, mark);
    fwrite(from, 1, (size_t)(at - from), file);
    return at + strlen(mark);
}

static void put_page(FILE *file, const report *r, const char *json, const char *drawing) {
    const char *name = strrchr(r->path, '/'), *rest = page;
    for (int i = 0; i < 2; i++) { /* of the window and of the page */
        rest = put_until(file, rest, "@TITLE@");
        put_escaped(file, name ? name + 1 : r->path);
    }
    rest = put_until(file, rest, "@DRAWING@");
    fputs(drawing ? drawing : "", file);
    rest = put_until(file, rest, "@FACTS@");
    put_json(file, json);
    fputs(rest, file);
}

int report_write_html(const report *r, const char *path) {
    char *json = report_json(r), *drawing = json ? report_draw(r) : NULL;
    char *made = NULL;
    size_t size = 0;
    FILE *file = json ? open_memstream(&made, &size) : NULL;
    int code = json ? CLI_OK : CLI_FAILED;
    if (file) {
        put_page(file, r, json, drawing);
        bool full = ferror(file) != 0;
        if (fclose(file) != 0 || full)
            code = cli_error(CLI_FAILED, "out of memory");
        else if (tenon_file_write(path, made, size) != TENON_OK)
            code = cli_failed();
        free(made);
    } else if (json) {
        code = cli_error(CLI_FAILED, "out of memory");
    }
    free(json);
    tenon_string_free(drawing);
    return code;
}
