#include "core/op.h"
#include "core/infer.h"
#include "core/kernel.h"
#include "core/schema.h"
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
};

static tn_op *sorted[TN_OP_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The table is parsed once into static memory, so that looking up an op cannot fail for want of
 * memory. */
static _Alignas(16) char pool[(size_t)1 << 20];

static int by_name(const void *a, const void *b) {
    return strcmp((*(tn_op *const *)a)->name, (*(tn_op *const *)b)->name);
}

static tn_op *find(const char *name) {
    tn_op key = {.name = name}, *pointer = &key;
    tn_op **found = bsearch(&pointer, sorted, TN_OP_COUNT, sizeof *sorted, by_name);
    return found ? *found : NULL;
}

/* Functional twins under other names. */
static const char *const renamed[][2] = {
    {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
    {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
    {"aten.floor_divide_.Tensor", "aten.floor_divide"},
    {"aten.__iand__.Tensor", "aten.__and__.Tensor"},
    {"aten.__iand__.Scalar", "aten.__and__.Scalar"},
    {"aten.__ior__.Tensor", "aten.__or__.Tensor"},
    {"aten.__ior__.Scalar", "aten.__or__.Scalar"},
    {"aten.__ixor__.Tensor", "aten.__xor__.Tensor"},
    {"aten.__ixor__.Scalar", "aten.__xor__.Scalar"},
};

/* The twin of "aten.add_.Tensor" is "aten.add.Tensor". */
static const tn_op *twin(const tn_op *op) {
    for (int i = 0; i < TN_COUNT(renamed); i++) {
        if (strcmp(op->name, renamed[i][0]) == 0)
            return find(renamed[i][1]);
    }
    char name[128];
    const char *base = strchr(op->name, '.') + 1;
    const char *end = base + strcspn(base, ".");
    size_t length = (size_t)(end - op->name) - 1;
    if (end[-1] != '_' || length + strlen(end) >= sizeof name)
        return NULL;
    memcpy(name, op->name, length);
    strcpy(name + length, end);
    return find(name);
}

static void parse_table(void) {
    tn_arena arena = tn_arena_fixed(pool, sizeof pool);
    for (int i = 0; i < TN_OP_COUNT; i++) {
        if (tn_schema_parse(&arena, &ops[i]) != TENON_OK) {
            fprintf(stderr, "tenon: ops.def: %s\n", tenon_last_error());
            abort(); /* a fault of the table itself, which the first test meets */
        }
        sorted[i] = &ops[i];
    }
    qsort(sorted, TN_OP_COUNT, sizeof *sorted, by_name);
    for (int i = 0; i < TN_OP_COUNT; i++) {
        if (ops[i].kind == TN_OP_INPLACE) {
            ops[i].functional = twin(&ops[i]);
            /* What is written keeps its dtype and shape; squeeze_, t_ and the like only look at it
             * otherwise. */
            bool looks = ops[i].functional && ops[i].functional->kind == TN_OP_VIEW;
            ops[i].infer = looks ? ops[i].functional->infer : tn_infer_same;
        }
    }
}

const tn_op *tn_op_by_id(int id) {
    pthread_once(&once, parse_table);
    if (id >= TN_OP_COUNT)
        return tn_user_op_get(id - TN_OP_COUNT);
    return id >= 0 ? &ops[id] : NULL;
}

const tn_op *tn_op_find(const char *name) {
    pthread_once(&once, parse_table);
    char text[128];
    size_t length = strlen(name);
    if (length >= sizeof text)
        return NULL;
    memcpy(text, name, length + 1);
    char *colons = strstr(text, "::");
    if (colons) {
        *colons = '.';
        memmove(colons + 1, colons + 2, strlen(colons + 2) + 1);
        length--;
    }
    if (length > 8 && strcmp(text + length - 8, ".default") == 0)
        text[length - 8] = '\0';
    const tn_op *op = find(text);
    return op ? op : tn_user_op_find(text);
}

int tn_op_param(const tn_op *op, const char *name) {
    for (int i = 0; i < op->param_count; i++)
        if (strcmp(op->params[i].name, name) == 0)
            return i;
    return -1;
}

/* ---- Public ---- */

int tenon_op_count(void) {
    return TN_OP_COUNT + tn_user_op_count();
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
    const tn_op *op = tn_op_by_id(index);
    if (op)
        describe(op, info);
    return op != NULL;
}

bool tenon_op_find(const char *name, tenon_op_info *info) {
    const tn_op *op = tn_op_find(name);
    if (op)
        describe(op, info);
    return op != NULL;
}
