/* Bad samples, as CSV (RFC 4180) or as JSON lines: number, name, reason. */
#include "batch.h"
#include "sink.h"
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char title[] = "sample,name,reason\n";

typedef struct sink {
    batch_sink base;
    bool json;
} sink;

static tenon_status header(const batch_sink *base, int64_t rows, char *bytes) {
    (void)rows;
    memcpy(bytes, title, base->header_size);
    return TENON_OK;
}

tenon_status batch_csv_quote(batch_bytes *out, const char *text) {
    if (!strpbrk(text, ",\"\r\n"))
        return batch_bytes_put(out, text, strlen(text));
    BATCH_TRY(batch_bytes_put(out, "\"", 1));
    for (; *text; text++)
        BATCH_TRY(batch_bytes_put(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1));
    return batch_bytes_put(out, "\"", 1);
}

static tenon_status add_csv(batch_bytes *out, int64_t number, const char *name, const char *why) {
    BATCH_TRY(batch_bytes_print(out, "%" PRId64 ",", number));
    BATCH_TRY(batch_csv_quote(out, name));
    BATCH_TRY(batch_bytes_put(out, ",", 1));
    BATCH_TRY(batch_csv_quote(out, why));
    return batch_bytes_put(out, "\n", 1);
}

static tenon_status add_json(batch_bytes *out, int64_t number, const char *name, const char *why) {
    cJSON *line = cJSON_CreateObject();
    bool ok = line && cJSON_AddNumberToObject(line, "sample", (double)number) &&
              cJSON_AddStringToObject(line, "name", name) &&
              cJSON_AddStringToObject(line, "reason", why);
    char *text = ok ? cJSON_PrintUnformatted(line) : NULL;
    tenon_status status = text ? batch_bytes_print(out, "%s\n", text) : batch_no_memory();
    cJSON_free(text);
    cJSON_Delete(line);
    return status;
}

static tenon_status encode(batch_sink *base, const batch_rows *rows, batch_bytes *out) {
    for (int64_t i = 0; i < rows->count; i++) {
        char name[BATCH_TEXT];
        const char *why = rows->why[i] ? rows->why[i] : "";
        if (!rows->bad[i])
            continue;
        rows->source->name(rows->source, rows->first + i, name);
        BATCH_TRY(((sink *)base)->json ? add_json(out, rows->first + i, name, why)
                                       : add_csv(out, rows->first + i, name, why));
    }
    return TENON_OK;
}

static void destroy(batch_sink *base) {
    free(base);
}

tenon_status batch_sink_errors(bool json, batch_sink **out) {
    sink *s = calloc(1, sizeof *s);
    if (!s)
        return batch_no_memory();
    *s = (sink){.base = {.header_size = json ? 0 : sizeof title - 1,
                         .header = header,
                         .encode = encode,
                         .destroy = destroy},
                .json = json};
    *out = &s->base;
    return TENON_OK;
}
