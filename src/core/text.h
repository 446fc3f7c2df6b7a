/* What the text form, the JSON form and messages share: numbers and strings that read back as they
 * were. */
#ifndef TN_TEXT_H
#define TN_TEXT_H

#include "core/util.h"
#include <tenon/graph.h>

/* Adds the shortest decimal that reads back as the same number of that float dtype, whatever the
 * locale: "1.0", "-2.5e-07", "inf",
 * "-inf", "nan". Never looks like an integer. */
void tn_text_float(tn_text *text, double value, tenon_dtype dtype);

/* Reads a decimal number, "inf" or "nan" with an optional sign, whatever the locale; `*end` is set
 * behind it. False when there is none. */
bool tn_parse_float(const char *text, const char **end, double *out);

/* Where the first byte stands that is not UTF-8 (RFC 3629); `length` when all of it is. */
size_t tn_utf8_end(const char *text, size_t length);

/* Adds the string in double quotes, with \" \\ \n \r \t, and \xHH for other control bytes. */
void tn_text_quote(tn_text *text, const char *string);

/* Adds %name, or %"name" when it has other characters than letters, digits, '_' and '.'. */
void tn_text_value_name(tn_text *text, const char *name);

/* As tenon_graph_parse; `max_unpacked` is tenon_load_options.max_unpacked_bytes. */
tenon_status tn_graph_parse(const char *text, const char *source, int64_t max_unpacked,
                            tenon_graph **out);

/* tenon_load_options.max_unpacked_bytes for a file of that size, whose default is 0. */
int64_t tn_unpacked_room(int64_t max_unpacked, size_t file_size);
/* How a message tells what raises it. */
#define TN_UNPACKED_HOW \
    "; tenon_load_options.max_unpacked_bytes or --allow max_unpacked_bytes=N raises it"

#endif
