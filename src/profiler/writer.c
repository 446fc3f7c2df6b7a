#include "profiler/writer.h"
#include "core/fail.h"
#include "core/io_status.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* ---- Files ---- */

/* `error` is zlib's; with Z_ERRNO, errno tells more. */
static tenon_status cannot_write(const tn_writer *w, int error) {
    if (error == Z_MEM_ERROR)
        return tn_no_memory();
    return tn_fail(error == Z_ERRNO ? tn_io_status(errno) : TENON_IO, "%s: cannot be written: %s",
                   w->path, error == Z_ERRNO ? strerror(errno) : "zlib fails");
}

static bool compressed(const char *path) {
    size_t length = strlen(path);
    return length >= 3 && strcmp(path + length - 3, ".gz") == 0;
}

/* A descriptor for zlib, which closes it. */
static tenon_status open_descriptor(tn_writer *w, int *out) {
    TN_TRY(tn_replace_open(&w->replace, w->path));
    int fd = fcntl(fileno(w->replace.file), F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return cannot_write(w, Z_ERRNO);
    *out = fd;
    return TENON_OK;
}

static void clean_up(tn_writer *w) {
    if (w->file)
        gzclose(w->file);
    tn_replace_close(&w->replace);
    free(w->path);
    *w = (tn_writer){0};
}

tenon_status tn_writer_open(tn_writer *w, const char *path) {
    int fd = -1;
    *w = (tn_writer){0};
    if (!*path)
        return tn_fail(TENON_IO, "a file needs a name: the path is empty");
    w->path = strdup(path);
    tenon_status status = w->path ? open_descriptor(w, &fd) : tn_no_memory();
    if (status == TENON_OK) {
        w->file = gzdopen(fd, compressed(path) ? "wb6" : "wbT");
        if (!w->file) {
            close(fd);
            status = tn_no_memory();
        } else {
            gzbuffer(w->file, 1 << 16);
        }
    }
    if (status != TENON_OK)
        clean_up(w);
    return status;
}

static void put(tn_writer *w, const char *bytes, size_t length) {
    while (length > 0 && w->status == TENON_OK) {
        unsigned part = length < 1u << 20 ? (unsigned)length : 1u << 20;
        if (gzwrite(w->file, bytes, part) <= 0) {
            int error;
            (void)gzerror(w->file, &error);
            w->status = cannot_write(w, error);
        }
        bytes += part;
        length -= part;
    }
}

void tn_writer_put(tn_writer *w, const char *text) {
    put(w, text, strlen(text));
}

void tn_writer_add(tn_writer *w, const char *format, ...) {
    char fixed[512], *text = fixed;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(fixed, sizeof fixed, format, args);
    va_end(args);
    if (length >= (int)sizeof fixed) {
        text = malloc((size_t)length + 1);
        if (!text) {
            w->status = w->status == TENON_OK ? tn_no_memory() : w->status;
            return;
        }
        va_start(args, format);
        vsnprintf(text, (size_t)length + 1, format, args);
        va_end(args);
    }
    put(w, text, (size_t)length);
    if (text != fixed)
        free(text);
}

void tn_writer_json(tn_writer *w, cJSON *item) {
    char *text = item ? cJSON_PrintUnformatted(item) : NULL;
    if (text)
        tn_writer_put(w, text);
    else if (w->status == TENON_OK)
        w->status = tn_no_memory();
    cJSON_free(text);
    cJSON_Delete(item);
}

tenon_status tn_writer_close(tn_writer *w, tenon_status status) {
    if (!w->file)
        return status;
    if (status == TENON_OK)
        status = w->status;
    int error = gzclose(w->file);
    w->file = NULL;
    if (status == TENON_OK && error != Z_OK)
        status = cannot_write(w, error);
    if (status == TENON_OK && w->replace.file)
        status = tn_replace_commit(&w->replace);
    clean_up(w);
    return status;
}

/* ---- JSON items ---- */

cJSON *tn_json_add(tn_writer *w, cJSON *to, const char *key, cJSON *item) {
    if (key ? cJSON_AddItemToObject(to, key, item) : cJSON_AddItemToArray(to, item))
        return item;
    cJSON_Delete(item);
    if (w->status == TENON_OK)
        w->status = tn_no_memory();
    return NULL;
}

cJSON *tn_json_add_object(tn_writer *w, cJSON *to, const char *key) {
    return tn_json_add(w, to, key, cJSON_CreateObject());
}

cJSON *tn_json_add_array(tn_writer *w, cJSON *to, const char *key) {
    return tn_json_add(w, to, key, cJSON_CreateArray());
}

cJSON *tn_json_add_text(tn_writer *w, cJSON *to, const char *key, const char *text) {
    char *clean = tn_utf8(text);
    cJSON *item = clean ? cJSON_CreateString(clean) : NULL;
    free(clean);
    return tn_json_add(w, to, key, item);
}

/* As text, since cJSON's numbers are doubles. */
cJSON *tn_json_add_int(tn_writer *w, cJSON *to, const char *key, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return tn_json_add(w, to, key, cJSON_CreateRaw(text));
}

cJSON *tn_json_add_number(tn_writer *w, cJSON *to, const char *key, double value) {
    return tn_json_add(w, to, key, cJSON_CreateNumber(value));
}

cJSON *tn_json_add_us(tn_writer *w, cJSON *to, const char *key, int64_t ns) {
    char text[40];
    unsigned long long size = ns < 0 ? 0ULL - (unsigned long long)ns : (unsigned long long)ns;
    snprintf(text, sizeof text, "%s%llu.%03llu", ns < 0 ? "-" : "", size / 1000, size % 1000);
    return tn_json_add(w, to, key, cJSON_CreateRaw(text));
}

/* ---- UTF-8 ---- */

/* Bytes of the character at `s`, or minus those of the start of one that ends too early or means
 * nothing (Unicode 15, table 3-7). */
static int utf8_length(const unsigned char *s) {
    unsigned char first = s[0], low = 0x80, high = 0xbf;
    int length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (length == 0 || first > 0xf4)
        return -1;
    if (first == 0xe0)
        low = 0xa0; /* shorter ones exist */
    else if (first == 0xed)
        high = 0x9f; /* surrogates */
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f; /* past U+10FFFF */
    for (int i = 1; i < length; i++) {
        if (s[i] < low || s[i] > high)
            return -i;
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

char *tn_utf8(const char *text) {
    static const char replacement[] = "\xef\xbf\xbd";
    const unsigned char *s = (const unsigned char *)text;
    char *copy = malloc(strlen(text) * 3 + 1), *end = copy;
    if (!copy)
        return NULL;
    while (*s) {
        int length = utf8_length(s);
        const void *from = length > 0 ? (const void *)s : replacement;
        size_t size = length > 0 ? (size_t)length : 3;
        memcpy(end, from, size);
        end += size;
        s += length > 0 ? length : -length;
    }
    *end = '\0';
    return copy;
}

/* ---- Strict JSON ---- */

static const char *skip_digits(const char *at) {
    return at + strspn(at, "0123456789");
}

/* Past the number at `at`; NULL when JSON writes none so. */
static const char *skip_number(const char *at) {
    at += *at == '-';
    const char *end = *at == '0' ? at + 1 : skip_digits(at);
    if (end == at)
        return NULL;
    if (*end == '.') {
        at = end + 1;
        end = skip_digits(at);
        if (end == at)
            return NULL;
    }
    if (*end == 'e' || *end == 'E') {
        at = end + 1 + (end[1] == '+' || end[1] == '-');
        end = skip_digits(at);
        if (end == at)
            return NULL;
    }
    return (*end >= '0' && *end <= '9') ? NULL : end;
}

/* Past the string whose first quote is at `at`; NULL for raw control bytes and what is no UTF-8. */
static const char *skip_string(const char *at) {
    for (at++; *at != '"';) {
        int length = utf8_length((const unsigned char *)at);
        if ((unsigned char)*at < 0x20 || length < 0)
            return NULL;
        at += *at == '\\' ? 2 : length;
    }
    return at + 1;
}

/* cJSON sees to all but what it is lenient in. */
bool tn_json_valid(const char *text) {
    cJSON *item = cJSON_ParseWithOpts(text, NULL, 1);
    if (!item)
        return false;
    cJSON_Delete(item);
    for (const char *at = text; at && *at;) {
        unsigned char c = (unsigned char)*at;
        if (c == '"')
            at = skip_string(at);
        else if (c == '-' || (c >= '0' && c <= '9'))
            at = skip_number(at);
        else if (c >= 0x80 || (c < 0x20 && c != '\t' && c != '\n' && c != '\r'))
            at = NULL;
        else
            at++;
        if (!at)
            return false;
    }
    return true;
}
