/* Arguments of nodes. */
#include "load/pt2.h"
#include <string.h>

tenon_status tn_pt2_bind(tn_pt2 *pt2, tn_pt2_scope *scope, const char *name, tenon_arg arg) {
    if (tn_map_get(&scope->args, name))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "two values are named '%s'", name);
    tenon_arg *copy = tn_arena_alloc(&pt2->arena, sizeof *copy);
    if (!copy)
        return tn_no_memory();
    *copy = arg;
    return tn_map_put(&scope->args, name, copy);
}

static tenon_status look_up(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *name, tenon_arg *out) {
    const char *text = tn_json_string(name);
    const tenon_arg *arg = text ? tn_map_get(&scope->args, text) : NULL;
    if (!text)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "an argument names no value");
    if (!arg)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "the value '%s' is not known here", text);
    *out = *arg;
    return TENON_OK;
}

/* ---- Single items ---- */

static tenon_status read_tensor(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item,
                                tenon_arg *out) {
    return look_up(pt2, scope, tn_json_get(item, "name"), out);
}

static tenon_status read_none(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item, tenon_arg *out) {
    (void)pt2, (void)scope, (void)item;
    *out = tenon_arg_none();
    return TENON_OK;
}

static tenon_status read_int(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item, tenon_arg *out) {
    int64_t value;
    (void)scope;
    if (!tn_json_int(item, &value))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "an argument is no 64-bit integer");
    *out = tenon_arg_int(value);
    return TENON_OK;
}

static tenon_status read_float(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item,
                               tenon_arg *out) {
    double value;
    (void)scope;
    if (!tn_json_float(item, &value))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "an argument is no float");
    *out = tenon_arg_float(value);
    return TENON_OK;
}

static tenon_status read_bool(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item, tenon_arg *out) {
    (void)scope;
    if (!cJSON_IsBool(item))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "an argument is no bool");
    *out = tenon_arg_bool(cJSON_IsTrue(item));
    return TENON_OK;
}

static tenon_status read_string(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item,
                                tenon_arg *out) {
    (void)scope;
    if (!tn_json_string(item))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "an argument is no string");
    *out = tenon_arg_string(tn_json_string(item));
    return TENON_OK;
}

/* {"as_name": ...} or a literal. */
static tenon_status read_symbolic(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item,
                                  tenon_arg *out) {
    const cJSON *literal;
    if (tn_json_get(item, "as_name"))
        return look_up(pt2, scope, tn_json_get(item, "as_name"), out);
    if ((literal = tn_json_get(item, "as_int")))
        return read_int(pt2, scope, literal, out);
    if ((literal = tn_json_get(item, "as_float")))
        return read_float(pt2, scope, literal, out);
    return read_bool(pt2, scope, tn_json_get(item, "as_bool"), out);
}

static tenon_status read_optional_tensor(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item,
                                         tenon_arg *out) {
    const cJSON *tensor = tn_json_get(item, "as_tensor");
    return tensor ? read_tensor(pt2, scope, tensor, out) : read_none(pt2, scope, item, out);
}

static tenon_status read_scalar_type(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item,
                                     tenon_arg *out) {
    tenon_dtype dtype;
    (void)scope;
    TN_TRY(tn_pt2_dtype(pt2, item, "an argument", &dtype));
    *out = tenon_arg_dtype(dtype);
    return TENON_OK;
}

/* The file numbers memory formats otherwise than PyTorch's c10: contiguous, channels last, channels
 * last 3d, preserve. */
static tenon_status read_memory_format(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item,
                                       tenon_arg *out) {
    static const int formats[] = {[1] = 0, [2] = 2, [3] = 3, [4] = 1};
    int64_t value;
    (void)scope;
    if (!tn_json_int(item, &value) || value < 1 || value >= TN_COUNT(formats))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "an argument is no memory format");
    *out = tenon_arg_int(formats[value]);
    return TENON_OK;
}

static tenon_status read_layout(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item,
                                tenon_arg *out) {
    int64_t value;
    (void)scope;
    if (!tn_json_int(item, &value) || value != 7)
        return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "a sparse layout is asked for");
    *out = tenon_arg_int(0); /* strided, as c10 numbers it */
    return TENON_OK;
}

static tenon_status read_device(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item,
                                tenon_arg *out) {
    return read_string(pt2, scope, tn_json_get(item, "type"), out);
}

/* ---- All kinds ---- */

typedef tenon_status (*read_fn)(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *item,
                                tenon_arg *out);

static const struct {
    const char *key;
    read_fn read;
    bool list;
} kinds[] = {
    {"as_tensor", read_tensor, false},
    {"as_int", read_int, false},
    {"as_ints", read_int, true},
    {"as_float", read_float, false},
    {"as_floats", read_float, true},
    {"as_bool", read_bool, false},
    {"as_bools", read_bool, true},
    {"as_none", read_none, false},
    {"as_string", read_string, false},
    {"as_strings", read_string, true},
    {"as_tensors", read_tensor, true},
    {"as_optional_tensors", read_optional_tensor, true},
    {"as_optional_tensor", read_optional_tensor, false},
    {"as_sym_int", read_symbolic, false},
    {"as_sym_ints", read_symbolic, true},
    {"as_sym_float", read_symbolic, false},
    {"as_sym_floats", read_symbolic, true},
    {"as_sym_bool", read_symbolic, false},
    {"as_sym_bools", read_symbolic, true},
    {"as_scalar_type", read_scalar_type, false},
    {"as_memory_format", read_memory_format, false},
    {"as_layout", read_layout, false},
    {"as_device", read_device, false},
};

static tenon_status read_list(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *list, read_fn read,
                              tenon_arg *out) {
    int32_t count = 0, i = 0;
    if (!cJSON_IsArray(list))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "an argument is no list");
    for (const cJSON *item = list->child; item; item = item->next)
        count++;
    tenon_arg *items = tn_arena_array(&pt2->arena, (size_t)count + 1, sizeof *items);
    if (!items)
        return tn_no_memory();
    for (const cJSON *item = list->child; item; item = item->next)
        TN_TRY(read(pt2, scope, item, &items[i++]));
    *out = tenon_arg_list(items, count);
    return TENON_OK;
}

tenon_status tn_pt2_arg(tn_pt2 *pt2, tn_pt2_scope *scope, const cJSON *arg, tenon_arg *out) {
    const cJSON *value = cJSON_IsObject(arg) ? arg->child : NULL;
    if (!value || !value->string)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "an argument is damaged");
    for (int i = 0; i < TN_COUNT(kinds); i++)
        if (strcmp(kinds[i].key, value->string) == 0)
            return kinds[i].list ? read_list(pt2, scope, value, kinds[i].read, out)
                                 : kinds[i].read(pt2, scope, value, out);
    if (strcmp(value->string, "as_complex") == 0)
        return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "an argument is a complex number");
    return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "an argument has the kind '%.40s'", value->string);
}

const char *tn_pt2_output_name(const cJSON *arg, tn_scalar *scalar) {
    static const struct {
        const char *key;
        tn_scalar scalar;
    } symbolic[] = {
        {"as_sym_int", TN_SYMINT}, {"as_sym_float", TN_SYMFLOAT}, {"as_sym_bool", TN_SYMBOOL}};
    const cJSON *tensor = tn_json_get(arg, "as_tensor");
    *scalar = TN_TENSOR;
    if (tensor)
        return tn_json_string(tn_json_get(tensor, "name"));
    for (int i = 0; i < TN_COUNT(symbolic); i++) {
        const cJSON *item = tn_json_get(arg, symbolic[i].key);
        if (item) {
            *scalar = symbolic[i].scalar;
            return tn_json_string(tn_json_get(item, "as_name"));
        }
    }
    return NULL;
}
