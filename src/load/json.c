#include "load/json.h"
#include "core/fail.h"
#include "core/text.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Doubles hold every integer up to here. */
#define EXACT ((int64_t)1 << 53)
/* Longer integers become strings that start with this, as JSON and as read. */
#define MARK_JSON "\"\\u0001"
#define MARK '\x01'

/* The length of the number token at `text` when it is an integer of more than 15 digits, else 0. */
static size_t long_integer(const char *text, size_t *skip) {
    size_t length = *text == '-', digits = strspn(text + length, "0123456789");
    length += digits;
    size_t whole = strspn(text, "+-0123456789.eE");
    *skip = whole ? whole : 1;
    return digits > 15 && whole == length ? length : 0;
}

/* Counts the integers outside strings that a double may round; with `out`, copies the text with
 * quotes around them. */
static size_t quote_integers(const char *text, size_t length, char *out) {
    size_t count = 0;
    bool in_string = false;
    for (size_t i = 0; i < length;) {
        size_t skip = 1, quoted = 0;
        if (in_string) {
            if (text[i] == '\\' && i + 1 < length)
                skip = 2;
            else if (text[i] == '"')
                in_string = false;
        } else if (text[i] == '"') {
            in_string = true;
        } else if (text[i] == '-' || (text[i] >= '0' && text[i] <= '9')) {
            quoted = long_integer(text + i, &skip);
        }
        count += quoted > 0;
        if (out) {
            if (quoted) {
                memcpy(out, MARK_JSON, sizeof MARK_JSON - 1);
                out += sizeof MARK_JSON - 1;
            }
            memcpy(out, text + i, skip);
            out += skip;
            if (quoted)
                *out++ = '"';
        }
        i += skip;
    }
    if (out)
        *out = '\0';
    return count;
}

tenon_status tn_json_parse(const char *what, const char *text, size_t length, cJSON **out) {
    char *copy = NULL;
    if (strlen(text) != length)
        return tn_fail(TENON_INVALID_FILE, "%s: not JSON: a NUL byte at byte %zu", what,
                       strlen(text));
    if (tn_utf8_end(text, length) < length)
        return tn_fail(TENON_INVALID_FILE, "%s: not UTF-8 at byte %zu", what,
                       tn_utf8_end(text, length));
    size_t count = quote_integers(text, length, NULL);
    if (count > 0) {
        copy = malloc(length + sizeof MARK_JSON * count + 1);
        if (!copy)
            return tn_no_memory();
        quote_integers(text, length, copy);
        length += sizeof MARK_JSON * count;
    }
    const char *end = NULL;
    /* The length counts the NUL: some versions of cJSON read one byte past a text that ends early
     * otherwise. */
    errno = 0;
    cJSON *tree = cJSON_ParseWithLengthOpts(copy ? copy : text, length + 1, &end, 1);
    bool no_memory = !tree && errno == ENOMEM; /* cJSON itself says no more than that it failed */
    size_t place = end ? (size_t)(end - (copy ? copy : text)) : 0;
    free(copy);
    if (no_memory)
        return tn_no_memory();
    if (!tree)
        return tn_fail(TENON_INVALID_FILE, "%s: not valid JSON near byte %zu", what, place);
    *out = tree;
    return TENON_OK;
}

const cJSON *tn_json_get(const cJSON *object, const char *key) {
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
}

bool tn_json_int(const cJSON *item, int64_t *out) {
    if (cJSON_IsNumber(item)) {
        double value = item->valuedouble;
        if (!(value >= -(double)EXACT && value <= (double)EXACT) || value != floor(value))
            return false;
        *out = (int64_t)value;
        return true;
    }
    if (!cJSON_IsString(item) || item->valuestring[0] != MARK)
        return false;
    const char *text = item->valuestring + 1;
    size_t digits = strspn(text + (*text == '-'), "0123456789");
    if (digits == 0 || text[(*text == '-') + digits])
        return false;
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    *out = value;
    return errno == 0;
}

bool tn_json_float(const cJSON *item, double *out) {
    if (cJSON_IsNumber(item)) {
        *out = item->valuedouble;
        return true;
    }
    if (!cJSON_IsString(item))
        return false;
    const char *text = item->valuestring + (item->valuestring[0] == MARK), *end = text;
    if (strcmp(text, "Infinity") == 0)
        *out = INFINITY;
    else if (strcmp(text, "-Infinity") == 0)
        *out = -INFINITY;
    else if (strcmp(text, "NaN") == 0)
        *out = NAN;
    else
        return text > item->valuestring && tn_parse_float(text, &end, out) && *end == '\0';
    return true;
}

const char *tn_json_string(const cJSON *item) {
    return cJSON_IsString(item) && item->valuestring[0] != MARK ? item->valuestring : NULL;
}

const cJSON *tn_json_first(const cJSON *container) {
    return cJSON_IsArray(container) || cJSON_IsObject(container) ? container->child : NULL;
}

void tn_json_quote(tn_text *text, const char *string) {
    tn_text_put(text, "\"", 1);
    for (const char *p = string; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            tn_text_add(text, "\\%c", c);
        else if (c < 0x20)
            tn_text_add(text, "\\u%04x", c);
        else
            tn_text_put(text, p, 1);
    }
    tn_text_put(text, "\"", 1);
}

void tn_json_float_text(tn_text *text, double value) {
    if (isnan(value))
        tn_text_add(text, "\"NaN\"");
    else if (isinf(value))
        tn_text_add(text, value < 0 ? "\"-Infinity\"" : "\"Infinity\"");
    else
        tn_text_float(text, value, TENON_FLOAT64);
}
