/* Ops that are registered at run time. They are never removed, so that pointers to them stay. */
#include "core/arg.h"
#include "core/infer.h"
#include "core/kernel.h"
#include "core/schema.h"
#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define MAX_USER_OPS 4096
#define MAX_NAME 120 /* what tn_op_find takes */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tn_op *user_ops[MAX_USER_OPS];
static atomic_int user_op_count;

int tn_user_op_count(void) {
    return atomic_load_explicit(&user_op_count, memory_order_acquire);
}

const tn_op *tn_user_op_get(int index) {
    return index >= 0 && index < tn_user_op_count() ? user_ops[index] : NULL;
}

const tn_op *tn_user_op_find(const char *name) {
    int count = tn_user_op_count();
    for (int i = 0; i < count; i++)
        if (strcmp(user_ops[i]->name, name) == 0)
            return user_ops[i];
    return NULL;
}

/* ---- Calling the user's functions ---- */

static tenon_status infer_user(tn_infer *infer) {
    const tn_op *op = infer->op;
    tenon_view outputs[64] = {0};
    tn_user_enter();
    tenon_status status =
        tn_user_leave(op->user_shape(infer->node, outputs, infer->out_count, op->user));
    if (status != TENON_OK)
        return tn_fail_within(status, "node '%s' (%s)", infer->node->name, op->name);
    for (int i = 0; i < infer->out_count; i++) {
        const tenon_view *view = &outputs[i];
        if (view->dtype <= TENON_DTYPE_NONE || view->dtype >= TENON_DTYPE_COUNT)
            return tn_infer_fail(infer, "its shape rule gives output %d the dtype %d", i,
                                 (int)view->dtype);
        if (view->rank < 0 || view->rank > TENON_MAX_RANK)
            return tn_infer_fail(infer, "its shape rule gives output %d the rank %d", i,
                                 (int)view->rank);
        infer->out[i] = (tn_meta){.dtype = view->dtype, .rank = view->rank};
        memcpy(infer->out[i].shape, view->shape, sizeof view->shape);
    }
    return TENON_OK;
}

tenon_status tn_user_kernel(tn_call *call) {
    const tn_op *op = call->node->op;
    tn_user_enter();
    tenon_status status = tn_user_leave(op->user_kernel(call, op->user));
    return status == TENON_OK
               ? TENON_OK
               : tn_fail_within(status, "node '%s' (%s)", call->node->name, op->name);
}

const tenon_node *tenon_op_call_node(const tenon_op_call *call) {
    return call->node;
}

tenon_view tenon_op_call_input(const tenon_op_call *call, int index) {
    if (index < 0 || index >= call->node->op->param_count ||
        call->node->op->params[index].type != TN_TYPE_TENSOR)
        return (tenon_view){0};
    return tn_call_operand(call, index);
}

tenon_view tenon_op_call_item(const tenon_op_call *call, int index, int item) {
    if (index < 0 || index >= call->node->op->param_count || call->first[index] < 0 || item < 0 ||
        call->node->args[index].kind != TENON_ARG_LIST || item >= call->node->args[index].count)
        return (tenon_view){0};
    return call->in[call->first[index] + item];
}

tenon_view tenon_op_call_output(const tenon_op_call *call, int index) {
    return index >= 0 && index < call->out_count ? call->out[index] : (tenon_view){0};
}

int tenon_op_call_threads(const tenon_op_call *call) {
    return call->threads;
}

void *tenon_op_call_scratch(tenon_op_call *call, size_t size) {
    return tn_call_scratch(call, size);
}

/* ---- Registering ---- */

static tenon_status wrong(const tn_op *op, const char *rule) {
    return tn_fail(TENON_INVALID_ARGUMENT, "op '%s': %s", op->name, rule);
}

/* "ns.name" or "ns.name.overload"; ".default" is the name without it. */
static tenon_status check_name(tn_op *op) {
    char *name = (char *)op->name;
    size_t length = strlen(name);
    if (length > 8 && strcmp(name + length - 8, ".default") == 0)
        name[length -= 8] = '\0';
    if (length >= MAX_NAME)
        return wrong(op, "the name is too long");
    int parts = 1;
    for (size_t i = 0; i < length; i++) {
        bool dot = name[i] == '.';
        if (!dot && !isalnum((unsigned char)name[i]) && name[i] != '_')
            return wrong(op, "a name has letters, digits and underscores only");
        if (dot && (i == 0 || i + 1 == length || name[i - 1] == '.'))
            return wrong(op, "a part of the name is empty");
        parts += dot;
    }
    return parts == 2 || parts == 3 ? TENON_OK
                                    : wrong(op, "needs the form ns::name or ns::name.overload");
}

static tenon_status check_param(const tn_op *op, int index) {
    const tn_param *param = &op->params[index];
    if (isdigit((unsigned char)param->name[0]))
        return tn_fail(TENON_INVALID_ARGUMENT, "op '%s': the name '%s' begins with a digit",
                       op->name, param->name);
    if (tn_op_param(op, param->name) < index)
        return tn_fail(TENON_INVALID_ARGUMENT, "op '%s': two arguments are named '%s'", op->name,
                       param->name);
    if (param->has_default && !tn_arg_fits(op, param, param->preset))
        return tn_fail(TENON_INVALID_ARGUMENT,
                       "op '%s': the default of argument '%s' is of another type", op->name,
                       param->name);
    if (param->fixed < 0)
        return tn_fail(TENON_INVALID_ARGUMENT, "op '%s': argument '%s' has a negative length",
                       op->name, param->name);
    return TENON_OK;
}

static tenon_status check_types(const tn_op *op) {
    for (int i = 0; i < op->param_count; i++) {
        TN_TRY(check_param(op, i));
        if (op->params[i].written || op->params[i].alias)
            return wrong(op, "a registered op can neither write nor alias its arguments; return a "
                             "new tensor, and let a pass put it in the place of the old one");
    }
    if (op->return_count == 0)
        return wrong(op, "it returns nothing, so that it would never run");
    for (int i = 0; i < op->return_count; i++) {
        if (op->returns[i].type != TN_TYPE_TENSOR || op->returns[i].list || op->returns[i].alias ||
            op->returns[i].optional)
            return wrong(op, "a registered op returns new tensors only");
    }
    return TENON_OK;
}

/* Adds the op, which takes over `arena` then; `kept` says so. */
static tenon_status add(const tn_op *given, tn_arena *arena, bool *kept) {
    tn_op *op = tn_arena_alloc(arena, sizeof *op);
    int count = tn_user_op_count();
    if (!op)
        return tn_no_memory();
    *op = *given;
    op->id = TN_OP_COUNT + count;
    op->schema = tn_arena_strdup(arena, given->schema);
    if (!op->schema)
        return tn_no_memory();
    TN_TRY(tn_schema_parse(arena, op));
    TN_TRY(check_name(op));
    TN_TRY(check_types(op));
    const tn_op *other = tn_op_find(op->name);
    if (other && other->user_shape == op->user_shape && other->user_kernel == op->user_kernel &&
        other->user == op->user && strcmp(other->schema, op->schema) == 0)
        return TENON_OK;
    if (other)
        return wrong(op, "there is an op of that name");
    if (count == MAX_USER_OPS)
        return tn_fail(TENON_INVALID_ARGUMENT, "op '%s': %d ops are registered, which is the most",
                       op->name, MAX_USER_OPS);
    *kept = true;
    user_ops[count] = op;
    atomic_store_explicit(&user_op_count, count + 1, memory_order_release);
    return TENON_OK;
}

tenon_status tenon_op_register(const char *schema, tenon_op_shape_fn shape,
                               tenon_op_kernel_fn kernel, void *user) {
    if (!schema || !shape || !kernel)
        return tn_fail(TENON_INVALID_ARGUMENT,
                       "op '%s': a schema, a shape rule and a kernel are needed",
                       schema ? schema : "");
    const tn_op op = {.schema = schema,
                      .kind = TN_OP_KERNEL,
                      .infer = infer_user,
                      .user_shape = shape,
                      .user_kernel = kernel,
                      .user = user};
    tn_arena arena = {0};
    bool kept = false;
    pthread_mutex_lock(&lock);
    tenon_status status = add(&op, &arena, &kept);
    pthread_mutex_unlock(&lock);
    if (!kept)
        tn_arena_free(&arena);
    return status;
}
