/* JSON read with cJSON, which keeps numbers as doubles: integers that a double would round are
 * turned into strings before parsing, and tn_json_int reads them back. */
#ifndef TN_LOAD_JSON_H
#define TN_LOAD_JSON_H

#include "core/util.h"
#include <cjson/cJSON.h>

/* Parses `text` (NUL-terminated, `length` bytes before the NUL). INVALID_FILE names `what` and the
 * place. The caller frees the tree with cJSON_Delete. */
tenon_status tn_json_parse(const char *what, const char *text, size_t length, cJSON **out);

/* All of these accept NULL as an item that is missing. */
const cJSON *tn_json_get(const cJSON *object, const char *key); /* linear in the object's size */
bool tn_json_int(const cJSON *item, int64_t *out);
bool tn_json_float(const cJSON *item, double *out); /* numbers, "Infinity", "-Infinity", "NaN" */
const char *tn_json_string(const cJSON *item);      /* NULL when it is none */
/* The first child of an array, an object, or NULL; siblings follow through ->next. */
const cJSON *tn_json_first(const cJSON *container);

/* Adds the string in quotes. */
void tn_json_quote(tn_text *text, const char *string);
/* Adds a number, or a string for one that is not finite; tn_json_float reads it back. */
void tn_json_float_text(tn_text *text, double value);

#endif
