/* The report as a page: the template of page.html with the facts and the drawing put in. */
#include "explain.h"
#include "page.h"
#include <errno.h>
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
    FILE *file = json ? fopen(path, "w") : NULL;
    int code = CLI_OK;
    if (!json)
        code = CLI_FAILED;
    else if (!file)
        code = cli_error(CLI_FAILED, "%s: %s", path, strerror(errno));
    if (file) {
        put_page(file, r, json, drawing);
        bool failed = ferror(file) != 0;
        if (fclose(file) != 0 || failed)
            code = cli_error(CLI_FAILED, "%s: %s", path, strerror(errno));
    }
    free(json);
    tenon_string_free(drawing);
    return code;
}
