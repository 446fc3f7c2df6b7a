/* Numbers and strings as text. The host application may have set a locale whose decimal point is a
 * comma; these functions always work in the "C" locale of the calling thread. */
#include "core/tensor.h"
#include "core/text.h"
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void) {
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* Returns the thread's locale, for leave_c_locale. */
static locale_t enter_c_locale(void) {
    pthread_once(&c_locale_once, make_c_locale);
    return c_locale ? uselocale(c_locale) : (locale_t)0;
}

static void leave_c_locale(locale_t before) {
    if (before)
        uselocale(before);
}

static bool reads_back(const char *digits, double value, tenon_dtype dtype) {
    double back = strtod(digits, NULL);
    switch (dtype) {
    case TENON_FLOAT32:
        return (float)back == (float)value;
    case TENON_FLOAT16:
        return tn_float_to_half((float)back) == tn_float_to_half((float)value);
    case TENON_BFLOAT16:
        return tn_float_to_bf16((float)back) == tn_float_to_bf16((float)value);
    default:
        return back == value;
    }
}

void tn_text_float(tn_text *text, double value, tenon_dtype dtype) {
    if (isnan(value)) {
        tn_text_add(text, "nan");
        return;
    }
    if (isinf(value)) {
        tn_text_add(text, value < 0 ? "-inf" : "inf");
        return;
    }
    char digits[40];
    locale_t before = enter_c_locale();
    int low = dtype == TENON_FLOAT64 ? 15 : dtype == TENON_FLOAT32 ? 6 : 2;
    for (int precision = low; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (reads_back(digits, value, dtype))
            break;
    }
    leave_c_locale(before);
    tn_text_add(text, strpbrk(digits, ".e") ? "%s" : "%s.0", digits);
}

bool tn_parse_float(const char *text, const char **end, double *out) {
    const char *p = text;
    if (*p == '-' || *p == '+')
        p++;
    bool digit = (*p >= '0' && *p <= '9') || (*p == '.' && p[1] >= '0' && p[1] <= '9');
    bool hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X'); /* which strtod would take */
    if (hex || (!digit && strncmp(p, "inf", 3) != 0 && strncmp(p, "nan", 3) != 0))
        return false;
    if (!digit) {
        double value = *p == 'i' ? (double)INFINITY : (double)NAN;
        *out = *text == '-' ? -value : value;
        *end = p + 3;
        return true;
    }
    char *stop = NULL;
    locale_t before = enter_c_locale();
    double value = strtod(text, &stop);
    leave_c_locale(before);
    if (stop == text)
        return false;
    *out = value;
    *end = stop;
    return true;
}

void tn_text_quote(tn_text *text, const char *string) {
    tn_text_put(text, "\"", 1);
    for (const char *p = string; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            tn_text_add(text, "\\%c", c);
        else if (c == '\n')
            tn_text_put(text, "\\n", 2);
        else if (c == '\r')
            tn_text_put(text, "\\r", 2);
        else if (c == '\t')
            tn_text_put(text, "\\t", 2);
        else if (c < 0x20 || c == 0x7f)
            tn_text_add(text, "\\x%02x", c);
        else
            tn_text_put(text, p, 1);
    }
    tn_text_put(text, "\"", 1);
}

void tn_text_value_name(tn_text *text, const char *name) {
    tn_text_put(text, "%", 1);
    const char *p = name;
    while ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
           *p == '_' || *p == '.')
        p++;
    if (*p || p == name)
        tn_text_quote(text, name);
    else
        tn_text_put(text, name, (size_t)(p - name));
}

/* ---- UTF-8 ---- */

/* The bytes of the character at `text`, 0 when it is none: RFC 3629, section 4. */
static size_t utf8_length(const unsigned char *text, size_t left) {
    unsigned char low = 0x80, high = 0xbf; /* of the second byte */
    size_t length = text[0] < 0x80                       ? 1
                    : text[0] >= 0xc2 && text[0] <= 0xdf ? 2
                    : text[0] >= 0xe0 && text[0] <= 0xef ? 3
                    : text[0] >= 0xf0 && text[0] <= 0xf4 ? 4
                                                         : 0;
    low = text[0] == 0xe0 ? 0xa0 : text[0] == 0xf0 ? 0x90 : low;
    high = text[0] == 0xed ? 0x9f : text[0] == 0xf4 ? 0x8f : high;
    if (length > left)
        return 0;
    for (size_t i = 1; i < length; i++, low = 0x80, high = 0xbf)
        if (text[i] < low || text[i] > high)
            return 0;
    return length;
}

size_t tn_utf8_end(const char *text, size_t length) {
    size_t at = 0, step = 1;
    while (at < length && step > 0) {
        step = utf8_length((const unsigned char *)text + at, length - at);
        at += step;
    }
    return at;
}
