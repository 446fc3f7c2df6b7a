#include "core/schema.h"
#include "core/fail.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    tn_arena *arena;
    const char *schema, *at;
} parser;

enum { MAX_PARAMS = 32, MAX_NAME = 96 };

static tenon_status bad(const parser *p, const char *rule) {
    return tn_fail(TENON_INVALID_ARGUMENT, "schema '%.200s': %s at '%.30s'", p->schema, rule,
                   p->at);
}

static void skip(parser *p) {
    while (*p->at == ' ')
        p->at++;
}

static bool accept(parser *p, const char *token) {
    skip(p);
    size_t length = strlen(token);
    if (strncmp(p->at, token, length) != 0)
        return false;
    p->at += length;
    return true;
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static tenon_status word(parser *p, char *out) {
    size_t length = 0;
    skip(p);
    for (; is_word(*p->at); p->at++) {
        if (length + 1 == MAX_NAME)
            return bad(p, "a name is too long");
        out[length++] = *p->at;
    }
    out[length] = '\0';
    return length ? TENON_OK : bad(p, "a name is missing");
}

static const struct {
    const char *text;
    tn_type type;
} types[] = {
    {"Tensor", TN_TYPE_TENSOR},     {"int", TN_TYPE_INT},          {"SymInt", TN_TYPE_INT},
    {"float", TN_TYPE_FLOAT},       {"SymFloat", TN_TYPE_FLOAT},   {"bool", TN_TYPE_BOOL},
    {"SymBool", TN_TYPE_BOOL},      {"Scalar", TN_TYPE_SCALAR},    {"str", TN_TYPE_STRING},
    {"Device", TN_TYPE_STRING},     {"ScalarType", TN_TYPE_DTYPE}, {"Layout", TN_TYPE_ENUM},
    {"MemoryFormat", TN_TYPE_ENUM},
};

static void alias_mark(parser *p, tn_param *param) {
    if (*p->at != '(')
        return;
    param->alias = true;
    for (; *p->at && *p->at != ')'; p->at++)
        if (*p->at == '!')
            param->written = true;
    if (*p->at)
        p->at++;
}

/* Tensor, Tensor(a!), Tensor?[], int[2]?, ... */
static tenon_status type(parser *p, tn_param *param) {
    char name[MAX_NAME];
    TN_TRY(word(p, name));
    int i = 0;
    while (i < TN_COUNT(types) && strcmp(types[i].text, name) != 0)
        i++;
    if (i == TN_COUNT(types))
        return bad(p, "an unknown type stands before");
    param->type = types[i].type;
    alias_mark(p, param);
    if (*p->at == '?') {
        param->optional = true;
        p->at++;
    }
    if (*p->at == '[') {
        param->list = true;
        param->item_optional = param->optional;
        param->optional = false;
        param->fixed = (int32_t)strtol(p->at + 1, (char **)&p->at, 10);
        if (!accept(p, "]"))
            return bad(p, "']' is missing");
        alias_mark(p, param);
        if (*p->at == '?') {
            param->optional = true;
            p->at++;
        }
    }
    return TENON_OK;
}

/* NOLINTNEXTLINE(misc-no-recursion): a list holds no list */
static tenon_status preset(parser *p, const tn_param *param, tenon_arg *out) {
    skip(p);
    if (accept(p, "[")) {
        tenon_arg items[8];
        int count = 0;
        while (!accept(p, "]")) {
            if (count == TN_COUNT(items))
                return bad(p, "a default list is too long");
            if (*p->at == '[')
                return bad(p, "a default list holds a list");
            TN_TRY(preset(p, param, &items[count++]));
            accept(p, ",");
        }
        tenon_arg *list = tn_arena_array(p->arena, (size_t)count, sizeof *list);
        if (!list)
            return tn_no_memory();
        memcpy(list, items, (size_t)count * sizeof *list);
        *out = tenon_arg_list(list, count);
        return TENON_OK;
    }
    if (*p->at == '\'' || *p->at == '"') {
        const char *start = ++p->at;
        while (*p->at && *p->at != start[-1])
            p->at++;
        size_t length = (size_t)(p->at - start);
        char *text = tn_arena_alloc(p->arena, length + 1);
        if (!text)
            return tn_no_memory();
        memcpy(text, start, length);
        if (*p->at)
            p->at++;
        *out = tenon_arg_string(text);
        return TENON_OK;
    }
    if (isdigit((unsigned char)*p->at) || *p->at == '-') {
        char *end;
        long long integer = strtoll(p->at, &end, 10);
        if (*end == '.' || *end == 'e' || param->type == TN_TYPE_FLOAT)
            *out = tenon_arg_float(strtod(p->at, &end));
        else
            *out = tenon_arg_int(integer);
        p->at = end;
        return TENON_OK;
    }
    char name[MAX_NAME];
    TN_TRY(word(p, name));
    if (strcmp(name, "None") == 0)
        *out = tenon_arg_none();
    else if (strcmp(name, "True") == 0 || strcmp(name, "False") == 0)
        *out = tenon_arg_bool(name[0] == 'T');
    else if (strcmp(name, "contiguous_format") == 0 || strcmp(name, "strided") == 0)
        *out = tenon_arg_int(0);
    else if (strcmp(name, "long") == 0)
        *out = tenon_arg_dtype(TENON_INT64);
    else if (strcmp(name, "Mean") == 0)
        *out = tenon_arg_int(1);
    else
        return bad(p, "an unknown default stands before");
    return TENON_OK;
}

static tenon_status keep(parser *p, const tn_param *from, int count, tn_param **out) {
    *out = tn_arena_array(p->arena, (size_t)count, sizeof **out);
    if (!*out)
        return tn_no_memory();
    memcpy(*out, from, (size_t)count * sizeof **out);
    return TENON_OK;
}

static tenon_status parse_params(parser *p, tn_op *op) {
    tn_param params[MAX_PARAMS] = {0};
    int count = 0;
    while (!accept(p, ")")) {
        if (accept(p, "*,"))
            continue;
        if (count == MAX_PARAMS)
            return bad(p, "too many parameters");
        tn_param *param = &params[count++];
        char name[MAX_NAME];
        TN_TRY(type(p, param));
        TN_TRY(word(p, name));
        param->name = tn_arena_strdup(p->arena, name);
        if (!param->name)
            return tn_no_memory();
        if (accept(p, "=")) {
            param->has_default = true;
            TN_TRY(preset(p, param, &param->preset));
        }
        if (!accept(p, ",") && *p->at != ')')
            return bad(p, "',' or ')' is missing");
    }
    op->param_count = count;
    return keep(p, params, count, &op->params);
}

static tenon_status parse_returns(parser *p, tn_op *op) {
    tn_param returns[MAX_PARAMS] = {0};
    int count = 0;
    bool many = accept(p, "(");
    while (!many || !accept(p, ")")) {
        if (count == MAX_PARAMS)
            return bad(p, "too many returns");
        skip(p);
        TN_TRY(type(p, &returns[count++]));
        char name[MAX_NAME];
        skip(p);
        if (is_word(*p->at))
            TN_TRY(word(p, name));
        if (!many)
            break;
        accept(p, ",");
    }
    op->return_count = count;
    op->list_return = count == 1 && returns[0].list;
    return keep(p, returns, count, &op->returns);
}

tenon_status tn_schema_parse(tn_arena *arena, tn_op *op) {
    parser p = {arena, op->schema, op->schema};
    const char *open = strchr(op->schema, '(');
    const char *colons = strstr(op->schema, "::");
    if (!open || !colons || colons > open)
        return bad(&p, "needs the form ns::name(...) -> ...");
    size_t ns = (size_t)(colons - op->schema), rest = (size_t)(open - colons) - 2;
    char *name = tn_arena_alloc(arena, ns + 1 + rest + 1);
    if (!name)
        return tn_no_memory();
    memcpy(name, op->schema, ns);
    name[ns] = '.';
    memcpy(name + ns + 1, colons + 2, rest);
    op->name = name;
    p.at = open + 1;
    TN_TRY(parse_params(&p, op));
    if (!accept(&p, "->"))
        return bad(&p, "'->' is missing");
    TN_TRY(parse_returns(&p, op));
    skip(&p);
    return *p.at ? bad(&p, "unexpected text") : TENON_OK;
}
