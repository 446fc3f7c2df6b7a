/* The run as a page: the template of page.html with the facts put in. */
#include "bench.h"
#include "bench_page.h"
#include <stdio.h>
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

bool bench_write_page(const cJSON *run, const char *path) {
    static const char mark[] = "@FACTS@";
    const char *at = strstr(bench_page, mark);
    char *text = cJSON_PrintUnformatted(run);
    char *page = NULL;
    size_t size = 0;
    FILE *file = text ? open_memstream(&page, &size) : NULL;
    bool fine = file || bench_fail("out of memory");
    if (file) {
        fwrite(bench_page, 1, (size_t)(at - bench_page), file);
        put_json(file, text);
        fputs(at + sizeof mark - 1, file);
        bool full = ferror(file) != 0;
        if (fclose(file) != 0 || full)
            fine = bench_fail("out of memory");
        else if (tenon_file_write(path, page, size) != TENON_OK)
            fine = bench_fail("%s", tenon_last_error());
        free(page);
    }
    cJSON_free(text);
    return fine;
}
