/* The words of the text form. Strings that come back live in the lexer's scratch arena. */
#ifndef TN_TEXT_LEX_H
#define TN_TEXT_LEX_H

#include "core/op.h"
#include "core/util.h"

typedef struct tn_lexer {
    const char *source; /* named in messages */
    const char *at, *end;
    int line;
    tn_arena scratch;
} tn_lexer;

typedef enum tn_token_kind {
    TN_TOKEN_INT,
    TN_TOKEN_UINT, /* beyond INT64_MAX */
    TN_TOKEN_FLOAT,
    TN_TOKEN_BOOL /* in i */
} tn_token_kind;

typedef struct tn_token {
    tn_token_kind kind;
    int64_t i;
    uint64_t u;
    double f;
} tn_token;

/* Fails with "SOURCE:LINE: " before the message. */
tenon_status tn_lex_fail(const tn_lexer *lex, tenon_status status, const char *format, ...)
    TENON_PRINTF(3, 4);
/* Puts "SOURCE:LINE: " before the thread's message. */
tenon_status tn_lex_within(const tn_lexer *lex, tenon_status status);

/* `mark` is punctuation, taken wherever it stands. */
bool tn_lex_peek(tn_lexer *lex, const char *mark);
bool tn_lex_accept(tn_lexer *lex, const char *mark);
tenon_status tn_lex_expect(tn_lexer *lex, const char *mark);
/* A whole word: letters, digits, '_', '.' and ':'. */
bool tn_lex_accept_word(tn_lexer *lex, const char *word);
tenon_status tn_lex_word(tn_lexer *lex, const char *what, const char **out);
/* A name directly followed by `mark`, which is taken too. */
bool tn_lex_accept_name_before(tn_lexer *lex, char mark, const char **out);
tenon_status tn_lex_string(tn_lexer *lex, const char **out);
tenon_status tn_lex_value_name(tn_lexer *lex, const char **out);
bool tn_lex_at_number(tn_lexer *lex);
/* An integer, a float, inf, nan, true or false. */
tenon_status tn_lex_number(tn_lexer *lex, tn_token *out);
/* An argument that is neither a value nor a list. */
tenon_status tn_lex_literal(tn_lexer *lex, tenon_arg *out);
/* In a list of arguments: takes "name=", if it is there, and gives the index of the argument that
 * follows. `position` and `named` begin as 0 and false. */
tenon_status tn_lex_arg_place(tn_lexer *lex, const tn_op *op, int *position, bool *named,
                              int *index);
double tn_token_float(const tn_token *token);
/* The text up to one of `stops` outside parentheses, without the space around it. */
tenon_status tn_lex_expression(tn_lexer *lex, const char *stops, const char **out);
tenon_status tn_lex_copy(tn_lexer *lex, const char *text, size_t length, const char **out);
bool tn_lex_at_end(tn_lexer *lex);
/* Bytes that are left: no list can have more items. */
static inline int64_t tn_lex_left(const tn_lexer *lex) {
    return (int64_t)(lex->end - lex->at);
}
/* Whether all of `text` is one decimal integer. */
bool tn_lex_is_int(const char *text, int64_t *out);

#endif
