/* Dtypes and tensor_meta objects of exported programs. */
#include "load/pt2.h"
#include <string.h>

/* PyTorch's torch/_export/serde/schema.py, ScalarType. */
static const struct {
    int number;
    tenon_dtype dtype;
    const char *refused; /* why Tenon does not take it */
} dtypes[] = {
    {1, TENON_UINT8, NULL},     {2, TENON_INT8, NULL},     {3, TENON_INT16, NULL},
    {4, TENON_INT32, NULL},     {5, TENON_INT64, NULL},    {6, TENON_FLOAT16, NULL},
    {7, TENON_FLOAT32, NULL},   {8, TENON_FLOAT64, NULL},  {12, TENON_BOOL, NULL},
    {13, TENON_BFLOAT16, NULL}, {28, TENON_UINT16, NULL},  {34, TENON_UINT32, NULL},
    {35, TENON_UINT64, NULL},   {9, 0, "complex numbers"}, {10, 0, "complex numbers"},
    {11, 0, "complex numbers"}, {29, 0, "float8"},         {30, 0, "float8"},
    {31, 0, "float8"},          {32, 0, "float8"},         {33, 0, "float8"},
};

tenon_status tn_pt2_dtype(const tn_pt2 *pt2, const cJSON *number, const char *what,
                          tenon_dtype *out) {
    int64_t value;
    if (!tn_json_int(number, &value))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "'%s' has no dtype", what);
    for (int i = 0; i < TN_COUNT(dtypes); i++) {
        if (dtypes[i].number != value)
            continue;
        if (dtypes[i].refused)
            return tn_pt2_fail(pt2, TENON_UNSUPPORTED,
                               "'%s' has dtype %lld (%s), which Tenon does not support", what,
                               (long long)value, dtypes[i].refused);
        *out = dtypes[i].dtype;
        return TENON_OK;
    }
    return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "'%s' has the unknown dtype %lld", what,
                       (long long)value);
}

tenon_status tn_pt2_check_backed(const tn_pt2 *pt2, const char *expression, const char *what) {
    /* Symbols of sizes that data decide are u0, u1, ... and of such floats zuf0, ... */
    if (strstr(expression, "Symbol('u") || strstr(expression, "Symbol('zuf"))
        return tn_pt2_fail(
            pt2, TENON_UNSUPPORTED,
            "the size or number '%s' depends on data: on the values of tensors, not only "
            "on their shapes",
            what);
    return TENON_OK;
}

/* One size, stride or offset: a number, or -1 and sympy's text. */
static tenon_status read_size(const tn_pt2 *pt2, const cJSON *item, const char *what, int64_t *out,
                              const char **text) {
    const cJSON *number = tn_json_get(item, "as_int");
    *text = NULL;
    if (number) {
        if (!tn_json_int(number, out))
            return tn_pt2_fail(pt2, TENON_INVALID_FILE, "'%s': a size is no 64-bit integer", what);
        if (*out < 0)
            return tn_pt2_fail(pt2, TENON_INVALID_FILE,
                               "'%s': %lld as a size, stride or offset is negative", what,
                               (long long)*out);
        return TENON_OK;
    }
    *text = tn_json_string(tn_json_get(tn_json_get(item, "as_expr"), "expr_str"));
    if (!*text)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "'%s': a size is neither as_int nor as_expr",
                           what);
    *out = -1;
    return tn_pt2_check_backed(pt2, *text, what);
}

static tenon_status read_sizes(const tn_pt2 *pt2, const cJSON *list, const char *what,
                               const char *key, int64_t *sizes, const char **texts,
                               int32_t *count) {
    if (!cJSON_IsArray(list))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "'%s' has no %s", what, key);
    *count = 0;
    for (const cJSON *item = list->child; item; item = item->next) {
        if (*count == TENON_MAX_RANK)
            return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "'%s' has more than %d dimensions", what,
                               TENON_MAX_RANK);
        TN_TRY(read_size(pt2, item, what, &sizes[*count], &texts[*count]));
        ++*count;
    }
    return TENON_OK;
}

tenon_status tn_pt2_read_meta(const tn_pt2 *pt2, const cJSON *item, const char *what,
                              tn_pt2_meta *out) {
    const char *texts[TENON_MAX_RANK];
    int32_t strides;
    int64_t layout = 7;
    *out = (tn_pt2_meta){0};
    if (!cJSON_IsObject(item))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "'%s' has no tensor_meta", what);
    TN_TRY(tn_pt2_dtype(pt2, tn_json_get(item, "dtype"), what, &out->dtype));
    TN_TRY(read_sizes(pt2, tn_json_get(item, "sizes"), what, "sizes", out->shape, out->dims,
                      &out->rank));
    TN_TRY(read_sizes(pt2, tn_json_get(item, "strides"), what, "strides", out->strides, texts,
                      &strides));
    if (strides != out->rank)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "'%s' has %d sizes and %d strides", what,
                           out->rank, strides);
    TN_TRY(read_size(pt2, tn_json_get(item, "storage_offset"), what, &out->offset, &texts[0]));
    if (tn_json_get(item, "layout") &&
        (!tn_json_int(tn_json_get(item, "layout"), &layout) || layout != 7))
        return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "'%s' is a sparse tensor (layout %lld)", what,
                           (long long)layout);
    return TENON_OK;
}
