/* Files of text that take their place when they are whole, compressed when their name ends in
 * ".gz", and JSON in them. */
#ifndef TN_WRITER_H
#define TN_WRITER_H

#include "core/replace.h"
#include "core/util.h"
#include <cjson/cJSON.h>

/* A file that is being written. The first failure is kept; what is written after it is dropped.
 * All zero is a closed one. */
typedef struct tn_writer {
    char *path;
    tn_replace replace;
    struct gzFile_s *file;
    tenon_status status;
} tn_writer;

/* What stands at `path` stays until the file is whole. A device or pipe is written directly. IO
 * names the path. */
tenon_status tn_writer_open(tn_writer *writer, const char *path);
void tn_writer_put(tn_writer *writer, const char *text);
void tn_writer_add(tn_writer *writer, const char *format, ...) TENON_PRINTF(2, 3);
/* Writes an item on one line, and deletes it; NULL: memory is out. */
void tn_writer_json(tn_writer *writer, cJSON *item);
/* Gives the file its name, when nothing failed and `status` is TENON_OK; otherwise removes it and
 * returns the failure. */
tenon_status tn_writer_close(tn_writer *writer, tenon_status status);

/* ---- JSON items ----
 * Each adds an item to an object, or to an array when `key` is NULL, and returns it. Where memory
 * is out the writer fails and they return NULL, which they take as `to`. */

cJSON *tn_json_add(tn_writer *writer, cJSON *to, const char *key, cJSON *item);
cJSON *tn_json_add_object(tn_writer *writer, cJSON *to, const char *key);
cJSON *tn_json_add_array(tn_writer *writer, cJSON *to, const char *key);
/* Bytes that are no UTF-8 become U+FFFD. */
cJSON *tn_json_add_text(tn_writer *writer, cJSON *to, const char *key, const char *text);
cJSON *tn_json_add_int(tn_writer *writer, cJSON *to, const char *key, int64_t value);
/* null when it is not finite. */
cJSON *tn_json_add_number(tn_writer *writer, cJSON *to, const char *key, double value);
/* Nanoseconds, as microseconds with three decimals. */
cJSON *tn_json_add_us(tn_writer *writer, cJSON *to, const char *key, int64_t ns);

/* A copy in which each run of bytes that is no UTF-8 is U+FFFD; the caller frees it. NULL: memory
 * is out. */
char *tn_utf8(const char *text);

/* Whether a text is JSON (RFC 8259) in UTF-8. */
bool tn_json_valid(const char *text);

#endif
