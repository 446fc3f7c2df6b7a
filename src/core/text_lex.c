#include "core/text_lex.h"
#include "core/fail.h"
#include "core/text.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE = 512 };

tenon_status tn_lex_fail(const tn_lexer *lex, tenon_status status, const char *format, ...) {
    char message[MESSAGE];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return tn_fail(status, "%s:%d: %s", lex->source, lex->line, message);
}

tenon_status tn_lex_within(const tn_lexer *lex, tenon_status status) {
    return tn_fail_within(status, "%s:%d", lex->source, lex->line);
}

static void skip(tn_lexer *lex) {
    for (;; lex->at++) {
        if (*lex->at == '#')
            lex->at += strcspn(lex->at, "\n");
        if (*lex->at == '\n')
            lex->line++;
        else if (*lex->at != ' ' && *lex->at != '\t' && *lex->at != '\r')
            return;
    }
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.';
}

static size_t word_length(const char *at) {
    size_t n = 0;
    while (is_word(at[n]) || (at[n] == ':' && at[n + 1] == ':') ||
           (n > 0 && at[n] == ':' && at[n - 1] == ':'))
        n++;
    return n;
}

bool tn_lex_peek(tn_lexer *lex, const char *mark) {
    skip(lex);
    return strncmp(lex->at, mark, strlen(mark)) == 0;
}

bool tn_lex_accept(tn_lexer *lex, const char *mark) {
    if (!tn_lex_peek(lex, mark))
        return false;
    lex->at += strlen(mark);
    return true;
}

static tenon_status fail_at(const tn_lexer *lex, const char *what) {
    if (*lex->at == '\0')
        return tn_lex_fail(lex, TENON_INVALID_FILE, "%s is missing at the end of the text", what);
    size_t length = word_length(lex->at);
    if (length == 0)
        length = 1;
    return tn_lex_fail(lex, TENON_INVALID_FILE, "%s is missing at '%.*s'", what,
                       length > 60 ? 60 : (int)length, lex->at);
}

tenon_status tn_lex_expect(tn_lexer *lex, const char *mark) {
    if (tn_lex_accept(lex, mark))
        return TENON_OK;
    char what[16];
    snprintf(what, sizeof what, "'%s'", mark);
    return fail_at(lex, what);
}

bool tn_lex_accept_word(tn_lexer *lex, const char *word) {
    skip(lex);
    size_t length = strlen(word);
    if (strncmp(lex->at, word, length) != 0 || word_length(lex->at) != length)
        return false;
    lex->at += length;
    return true;
}

tenon_status tn_lex_copy(tn_lexer *lex, const char *text, size_t length, const char **out) {
    char *copy = tn_arena_alloc(&lex->scratch, length + 1);
    if (!copy)
        return tn_no_memory();
    memcpy(copy, text, length);
    *out = copy;
    return TENON_OK;
}

tenon_status tn_lex_word(tn_lexer *lex, const char *what, const char **out) {
    skip(lex);
    size_t length = word_length(lex->at);
    if (length == 0)
        return fail_at(lex, what);
    TN_TRY(tn_lex_copy(lex, lex->at, length, out));
    lex->at += length;
    return TENON_OK;
}

bool tn_lex_accept_name_before(tn_lexer *lex, char mark, const char **out) {
    skip(lex);
    size_t length = word_length(lex->at), gap = length;
    while (lex->at[gap] == ' ')
        gap++;
    if (length == 0 || lex->at[gap] != mark || tn_lex_copy(lex, lex->at, length, out) != TENON_OK)
        return false;
    lex->at += gap + 1;
    return true;
}

static int hex_digit(char c) {
    return is_digit(c)            ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Behind a backslash: sets `*c` and returns how many characters it took, or 0. */
static size_t unescape(const char *at, char *c) {
    switch (*at) {
    case 'n':
        *c = '\n';
        return 1;
    case 'r':
        *c = '\r';
        return 1;
    case 't':
        *c = '\t';
        return 1;
    case '"':
    case '\\':
        *c = *at;
        return 1;
    case 'x': {
        int high = hex_digit(at[1]), low = high < 0 ? -1 : hex_digit(at[2]);
        *c = (char)(high * 16 + low);
        return low < 0 || *c == '\0' ? 0 : 3;
    }
    default:
        return 0;
    }
}

tenon_status tn_lex_string(tn_lexer *lex, const char **out) {
    if (!tn_lex_accept(lex, "\""))
        return fail_at(lex, "a string in double quotes");
    size_t length = 0;
    for (; lex->at[length] && lex->at[length] != '"' && lex->at[length] != '\n'; length++)
        if (lex->at[length] == '\\' && lex->at[length + 1])
            length++;
    if (lex->at[length] != '"')
        return tn_lex_fail(lex, TENON_INVALID_FILE, "a string does not end on its line");
    char *copy = tn_arena_alloc(&lex->scratch, length + 1);
    if (!copy)
        return tn_no_memory();
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        char c = lex->at[i];
        if (c == '\\') {
            size_t taken = unescape(lex->at + i + 1, &c);
            if (taken == 0)
                return tn_lex_fail(lex, TENON_INVALID_FILE, "unknown escape '\\%c' in a string",
                                   lex->at[i + 1]);
            i += taken;
        }
        copy[n++] = c;
    }
    lex->at += length + 1;
    *out = copy;
    return TENON_OK;
}

tenon_status tn_lex_value_name(tn_lexer *lex, const char **out) {
    TN_TRY(tn_lex_expect(lex, "%"));
    if (*lex->at == '"')
        return tn_lex_string(lex, out);
    size_t length = 0;
    while (is_word(lex->at[length]))
        length++;
    if (length == 0)
        return fail_at(lex, "a value's name");
    TN_TRY(tn_lex_copy(lex, lex->at, length, out));
    lex->at += length;
    return TENON_OK;
}

bool tn_lex_at_number(tn_lexer *lex) {
    skip(lex);
    const char *p = lex->at + (*lex->at == '-' || *lex->at == '+');
    size_t length = word_length(p);
    if (is_digit(*p) || (*p == '.' && is_digit(p[1])))
        return true;
    if (length == 3 && (strncmp(p, "inf", 3) == 0 || strncmp(p, "nan", 3) == 0))
        return true;
    return p == lex->at && ((length == 4 && strncmp(p, "true", 4) == 0) ||
                            (length == 5 && strncmp(p, "false", 5) == 0));
}

static tenon_status read_int(tn_lexer *lex, size_t length, tn_token *out) {
    errno = 0;
    out->kind = TN_TOKEN_INT;
    out->i = strtoll(lex->at, NULL, 10);
    if (errno == ERANGE) {
        errno = 0;
        out->kind = TN_TOKEN_UINT;
        out->u = strtoull(lex->at, NULL, 10);
        if (errno == ERANGE || *lex->at == '-')
            return tn_lex_fail(lex, TENON_INVALID_FILE, "a number does not fit in 64 bits");
    }
    lex->at += length;
    return TENON_OK;
}

tenon_status tn_lex_number(tn_lexer *lex, tn_token *out) {
    *out = (tn_token){0};
    if (!tn_lex_at_number(lex))
        return fail_at(lex, "a number");
    if (*lex->at == 't' || *lex->at == 'f') {
        out->kind = TN_TOKEN_BOOL;
        out->i = *lex->at == 't';
        lex->at += word_length(lex->at);
        return TENON_OK;
    }
    size_t length = *lex->at == '-' || *lex->at == '+';
    while (is_digit(lex->at[length]))
        length++;
    char next = lex->at[length];
    const char *end = lex->at + length;
    bool integer =
        is_digit(lex->at[length ? length - 1 : 0]) && next != '.' && next != 'e' && next != 'E';
    if (integer && !is_word(next))
        return read_int(lex, length, out);
    out->kind = TN_TOKEN_FLOAT;
    if (!tn_parse_float(lex->at, &end, &out->f) || is_word(*end))
        return fail_at(lex, "a number");
    lex->at = end;
    return TENON_OK;
}

tenon_status tn_lex_literal(tn_lexer *lex, tenon_arg *out) {
    const char *word = "";
    if (tn_lex_peek(lex, "\"")) {
        TN_TRY(tn_lex_string(lex, &word));
        *out = tenon_arg_string(word);
    } else if (tn_lex_at_number(lex)) {
        tn_token token;
        TN_TRY(tn_lex_number(lex, &token));
        if (token.kind == TN_TOKEN_UINT)
            return tn_lex_fail(lex, TENON_INVALID_FILE, "a number does not fit in 64 bits");
        *out = token.kind == TN_TOKEN_INT    ? tenon_arg_int(token.i)
               : token.kind == TN_TOKEN_BOOL ? tenon_arg_bool(token.i != 0)
                                             : tenon_arg_float(token.f);
    } else {
        TN_TRY(tn_lex_word(lex, "an argument", &word));
        tenon_dtype dtype = tenon_dtype_from_text(word);
        bool none = strcmp(word, "none") == 0;
        if (!none && dtype == TENON_DTYPE_NONE)
            return tn_lex_fail(lex, TENON_INVALID_FILE, "'%s' is no argument", word);
        *out = none ? tenon_arg_none() : tenon_arg_dtype(dtype);
    }
    return TENON_OK;
}

tenon_status tn_lex_arg_place(tn_lexer *lex, const tn_op *op, int *position, bool *named,
                              int *index) {
    const char *name = "";
    *index = (*position)++;
    if (tn_lex_accept_name_before(lex, '=', &name)) {
        *named = true;
        *index = tn_op_param(op, name);
        if (*index < 0)
            return tn_lex_fail(lex, TENON_INVALID_FILE, "%s has no argument '%s'", op->name, name);
    } else if (*named) {
        return tn_lex_fail(lex, TENON_INVALID_FILE,
                           "an argument without a name follows one with a name");
    }
    if (*index >= op->param_count)
        return tn_lex_fail(lex, TENON_INVALID_FILE, "%s takes %d arguments", op->name,
                           op->param_count);
    return TENON_OK;
}

double tn_token_float(const tn_token *token) {
    return token->kind == TN_TOKEN_FLOAT  ? token->f
           : token->kind == TN_TOKEN_UINT ? (double)token->u
                                          : (double)token->i;
}

tenon_status tn_lex_expression(tn_lexer *lex, const char *stops, const char **out) {
    skip(lex);
    int depth = 0;
    size_t length = 0;
    for (;; length++) {
        char c = lex->at[length];
        if (c == '\0' || c == '\n' || c == '#')
            return fail_at(lex, "the end of an expression");
        if (depth == 0 && strchr(stops, c))
            break;
        depth += (c == '(') - (c == ')');
    }
    size_t kept = length;
    while (kept > 0 && lex->at[kept - 1] == ' ')
        kept--;
    if (kept == 0)
        return fail_at(lex, "an expression");
    TN_TRY(tn_lex_copy(lex, lex->at, kept, out));
    lex->at += length;
    return TENON_OK;
}

bool tn_lex_at_end(tn_lexer *lex) {
    skip(lex);
    return *lex->at == '\0';
}

bool tn_lex_is_int(const char *text, int64_t *out) {
    const char *p = text + (*text == '-');
    if (!is_digit(*p) || strspn(p, "0123456789") != strlen(p))
        return false;
    errno = 0;
    *out = strtoll(text, NULL, 10);
    return errno == 0;
}
