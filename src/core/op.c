#include "core/op.h"
#include "core/infer.h"
#include "core/kernel.h"
#include "core/schema.h"
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tn_op ops[] = {
#define OP(id_, schema_, infer_, kernel, map) \
    {.schema = schema_, .id = TN_OP_##id_, .kind = TN_OP_KERNEL, .infer = tn_infer_##infer_},
#define VIEW(id_, schema_, infer_, view_) \
    {.schema = schema_,                   \
     .id = TN_OP_##id_,                   \
     .kind = TN_OP_VIEW,                  \
     .infer = tn_infer_##infer_,          \
     .view = tn_view_##view_},
#define INPLACE(id_, schema_) {.schema = schema_, .id = TN_OP_##id_, .kind = TN_OP_INPLACE},
#define LOWER(id_, schema_, infer_) \
    {.schema = schema_, .id = TN_OP_##id_, .kind = TN_OP_LOWER, .infer = tn_infer_##infer_},
#define SYM(id_, schema_, eval_) \
    {.schema = schema_, .id = TN_OP_##id_, .kind = TN_OP_SYM, .sym = tn_sym_##eval_},
#include "core/ops.def"
#undef OP
#undef VIEW
#undef INPLACE
#undef LOWER
#undef SYM
};

/* Second names, parsed as ops; `id` is that of the op that they stand for. */
static tn_op aliases[] = {
#define OP(id_, schema_, infer_, kernel, map)
#define VIEW(id_, schema_, infer_, view_)
#define INPLACE(id_, schema_)
#define LOWER(id_, schema_, infer_)
#define SYM(id_, schema_, eval_)
#define ALIAS(schema_, id_) {.schema = schema_, .id = TN_OP_##id_},
#include "core/ops.def"
};

static const struct {
    const char *name, *reason;
} refused[] = {
#define REFUSED(name_, reason_) {name_, reason_},
#include "core/ops.def"
#undef OP
#undef VIEW
#undef INPLACE
#undef LOWER
#undef SYM
};

static tn_op *sorted[TN_OP_COUNT + TN_COUNT(aliases)];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The table is parsed once into static memory, so that looking up an op cannot fail for want of
 * memory. */
static _Alignas(16) char pool[(size_t)1 << 20];

static int by_name(const void *a, const void *b) {
    return strcmp((*(tn_op *const *)a)->name, (*(tn_op *const *)b)->name);
}

static tn_op *find(const char *name) {
    tn_op key = {.name = name}, *pointer = &key;
    tn_op **found = bsearch(&pointer, sorted, TN_COUNT(sorted), sizeof *sorted, by_name);
    return found ? &ops[(*found)->id] : NULL;
}

/* Functional twins under other names. */
static const char *const renamed[][2] = {
    {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
    {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
    {"aten.ldexp_", "aten.ldexp.Tensor"},
    {"aten.transpose_", "aten.transpose.int"},
    {"aten.floor_divide_.Tensor", "aten.floor_divide"},
    {"aten.float_power_.Scalar", "aten.float_power.Tensor_Scalar"},
    {"aten.float_power_.Tensor", "aten.float_power.Tensor_Tensor"},
    {"aten.__ilshift__.Scalar", "aten.__lshift__.Scalar"},
    {"aten.__ilshift__.Tensor", "aten.__lshift__.Tensor"},
    {"aten.__irshift__.Scalar", "aten.__rshift__.Scalar"},
    {"aten.__irshift__.Tensor", "aten.__rshift__.Tensor"},
    {"aten.__iand__.Tensor", "aten.__and__.Tensor"},
    {"aten.__iand__.Scalar", "aten.__and__.Scalar"},
    {"aten.__ior__.Tensor", "aten.__or__.Tensor"},
    {"aten.__ior__.Scalar", "aten.__or__.Scalar"},
    {"aten.__ixor__.Tensor", "aten.__xor__.Tensor"},
    {"aten.__ixor__.Scalar", "aten.__xor__.Scalar"},
    {"aten._native_batch_norm_legit", "aten._native_batch_norm_legit_functional"},
};

/* The twin of "aten.add_.Tensor" is "aten.add.Tensor", that of "aten.atan2.out" is "aten.atan2". */
static const tn_op *twin(const tn_op *op) {
    for (int i = 0; i < TN_COUNT(renamed); i++) {
        if (strcmp(op->name, renamed[i][0]) == 0)
            return find(renamed[i][1]);
    }
    char name[128];
    const char *base = strchr(op->name, '.') + 1;
    const char *end = base + strcspn(base, ".");
    size_t length = (size_t)(end - op->name) - 1;
    if (strcmp(end, ".out") == 0) {
        snprintf(name, sizeof name, "%.*s", (int)(end - op->name), op->name);
        return find(name);
    }
    if (end[-1] != '_' || length + strlen(end) >= sizeof name)
        return NULL;
    memcpy(name, op->name, length);
    strcpy(name + length, end);
    return find(name);
}

static void parse_row(tn_arena *arena, tn_op *row) {
    if (tn_schema_parse(arena, row) != TENON_OK) {
        fprintf(stderr, "tenon: ops.def: %s\n", tenon_last_error());
        abort(); /* a fault of the table itself, which the first test meets */
    }
}

static void parse_table(void) {
    tn_arena arena = tn_arena_fixed(pool, sizeof pool);
    for (int i = 0; i < TN_COUNT(sorted); i++) {
        sorted[i] = i < TN_OP_COUNT ? &ops[i] : &aliases[i - TN_OP_COUNT];
        parse_row(&arena, sorted[i]);
    }
    qsort(sorted, TN_COUNT(sorted), sizeof *sorted, by_name);
    for (int i = 0; i < TN_OP_COUNT; i++) {
        if (ops[i].kind == TN_OP_INPLACE) {
            ops[i].functional = twin(&ops[i]);
            /* What is written keeps its dtype and shape; squeeze_, t_ and the like only look at it
             * otherwise. */
            bool gives = ops[i].returns[0].written;
            bool looks = ops[i].functional && ops[i].functional->kind == TN_OP_VIEW;
            ops[i].infer = looks || !gives ? ops[i].functional->infer : tn_infer_same;
        }
    }
}

const tn_op *tn_op_by_id(int id) {
    pthread_once(&once, parse_table);
    if (id >= TN_OP_COUNT)
        return tn_user_op_get(id - TN_OP_COUNT);
    return id >= 0 ? &ops[id] : NULL;
}

enum { MAX_NAME = 128 };

/* "aten::relu.default" as the table has it: "aten.relu". False when it is too long for any op. */
static bool canonical(const char *name, char *text) {
    size_t length = strlen(name);
    if (length >= MAX_NAME)
        return false;
    memcpy(text, name, length + 1);
    char *colons = strstr(text, "::");
    if (colons) {
        *colons = '.';
        memmove(colons + 1, colons + 2, strlen(colons + 2) + 1);
        length--;
    }
    if (length > 8 && strcmp(text + length - 8, ".default") == 0)
        text[length - 8] = '\0';
    return true;
}

const tn_op *tn_op_find(const char *name) {
    char text[MAX_NAME];
    pthread_once(&once, parse_table);
    if (!canonical(name, text))
        return NULL;
    const tn_op *op = find(text);
    return op ? op : tn_user_op_find(text);
}

const char *tn_op_refused(const char *name) {
    char text[MAX_NAME];
    if (!canonical(name, text))
        return NULL;
    char *base = strchr(text, '.');
    if (!base)
        return NULL;
    char *end = base + 1 + strcspn(base + 1, ".");
    for (int pass = 0; pass < 3; pass++) {
        if (pass == 1)
            *end = '\0'; /* all overloads */
        if (pass == 2 && end[-1] == '_')
            end[-1] = '\0'; /* the form in place */
        for (int i = 0; i < TN_COUNT(refused); i++)
            if (fnmatch(refused[i].name, text, 0) == 0)
                return refused[i].reason;
    }
    return NULL;
}

int tn_op_param(const tn_op *op, const char *name) {
    for (int i = 0; i < op->param_count; i++)
        if (strcmp(op->params[i].name, name) == 0)
            return i;
    return -1;
}

/* ---- Public ---- */

int tenon_op_count(void) {
    return TN_OP_COUNT + TN_COUNT(aliases) + TN_COUNT(refused) + tn_user_op_count();
}

static void describe(const tn_op *op, tenon_op_info *info) {
    *info = (tenon_op_info){
        .name = op->name,
        .schema = op->schema,
        .is_view = op->kind == TN_OP_VIEW,
        .is_inplace = op->kind == TN_OP_INPLACE,
        .is_lowered = op->kind == TN_OP_LOWER || op->kind == TN_OP_SYM,
        .has_kernel = op->kind == TN_OP_KERNEL,
        .is_registered = op->id >= TN_OP_COUNT,
        .onednn = tn_onednn_text(op->id),
    };
}

bool tenon_op_get(int index, tenon_op_info *info) {
    int rest = index - TN_OP_COUNT;
    if (index < 0)
        return false;
    if (rest >= 0 && rest < TN_COUNT(aliases)) {
        describe(tn_op_by_id(aliases[rest].id), info);
        info->alias_of = info->name;
        info->name = aliases[rest].name;
        info->schema = aliases[rest].schema;
        return true;
    }
    rest -= rest < 0 ? 0 : TN_COUNT(aliases);
    if (rest >= 0 && rest < TN_COUNT(refused)) {
        *info = (tenon_op_info){.name = refused[rest].name,
                                .schema = "",
                                .onednn = "",
                                .refused = refused[rest].reason};
        return true;
    }
    rest -= rest < 0 ? 0 : TN_COUNT(refused);
    const tn_op *op = tn_op_by_id(rest < 0 ? index : TN_OP_COUNT + rest);
    if (op)
        describe(op, info);
    return op != NULL;
}

bool tenon_op_find(const char *name, tenon_op_info *info) {
    const tn_op *op = tn_op_find(name);
    const char *reason = op ? NULL : tn_op_refused(name);
    if (op)
        describe(op, info);
    else if (reason)
        *info = (tenon_op_info){.name = name, .schema = "", .onednn = "", .refused = reason};
    return op || reason;
}
