/* Parameters, buffers and constants: tables of FQNs, and the entries that hold their bytes. */
#include "load/pt2.h"
#include "load/weights.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_MAX ((int64_t)1 << 28)

static tenon_status open_config(tn_pt2 *pt2, const char *entry, cJSON **tree, tn_map *map) {
    char *text;
    size_t length;
    if (!tn_pt2_zip_find(&pt2->zip, entry))
        return TENON_OK; /* a program without any */
    TN_TRY(tn_pt2_zip_text(&pt2->zip, entry, CONFIG_MAX, &text, &length));
    tenon_status status = tn_json_parse(entry, text, length, tree);
    free(text);
    if (status != TENON_OK)
        return tn_pt2_within(pt2, status);
    const cJSON *config = tn_json_get(*tree, "config");
    if (!cJSON_IsObject(config))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "%s: it has no 'config'", entry);
    for (const cJSON *item = config->child; item; item = item->next)
        if (item->string)
            TN_TRY(tn_map_put(map, item->string, (void *)item));
    return TENON_OK;
}

tenon_status tn_pt2_open_weights(tn_pt2 *pt2) {
    TN_TRY(open_config(pt2, "data/weights/model_weights_config.json", &pt2->weights,
                       &pt2->weight_configs));
    return open_config(pt2, "data/constants/model_constants_config.json", &pt2->constants,
                       &pt2->constant_configs);
}

/* The bytes from the first element to behind the last one, or false on overflow. */
static bool extent(const tn_pt2_meta *meta, int64_t *first, int64_t *end) {
    int64_t size = (int64_t)tenon_dtype_size(meta->dtype), last = meta->offset;
    if (tn_numel(meta->rank, meta->shape) < 0)
        return false;
    for (int d = 0; d < meta->rank; d++) {
        int64_t reach;
        if (meta->shape[d] == 0) {
            *first = *end = 0;
            return true;
        }
        if (!tn_mul(meta->shape[d] - 1, meta->strides[d], &reach) || !tn_add(last, reach, &last))
            return false;
    }
    return tn_add(last, 1, &last) && tn_mul(last, size, end) && tn_mul(meta->offset, size, first);
}

/* The size that PyTorch writes, checked against what the elements need. */
static tenon_status check_extent(const tn_pt2 *pt2, const char *fqn, const tn_pt2_meta *meta,
                                 const tn_pt2_entry *entry) {
    int64_t first, end;
    for (int d = 0; d < meta->rank; d++)
        if (meta->shape[d] < 0 || meta->strides[d] < 0)
            return tn_pt2_fail(pt2, TENON_INVALID_FILE, "weight '%s' has a symbolic size or stride",
                               fqn);
    if (meta->offset < 0)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "weight '%s' has a symbolic offset", fqn);
    if (!extent(meta, &first, &end))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE,
                           "weight '%s': its sizes, strides or offset overflow", fqn);
    if (end > entry->size)
        return tn_pt2_fail(
            pt2, TENON_INVALID_FILE,
            "weight '%s' needs %lld bytes by its sizes, strides and offset, entry '%s' has %lld",
            fqn, (long long)end, entry->name, (long long)entry->size);
    return TENON_OK;
}

/* What the program says of the placeholder must be what the table says of the weight. */
static tenon_status check_recorded(const tn_pt2 *pt2, const char *fqn, const tn_pt2_meta *meta,
                                   const cJSON *recorded) {
    tn_pt2_meta other;
    char a[256], b[256];
    if (!recorded)
        return TENON_OK;
    TN_TRY(tn_pt2_read_meta(pt2, recorded, fqn, &other));
    bool same = other.dtype == meta->dtype && other.rank == meta->rank;
    for (int d = 0; same && d < meta->rank; d++)
        same = other.shape[d] == meta->shape[d];
    if (same)
        return TENON_OK;
    return tn_pt2_fail(pt2, TENON_INVALID_FILE, "weight '%s' is %s, the program records %s", fqn,
                       tn_shape_text(meta->dtype, meta->rank, meta->shape, a, sizeof a),
                       tn_shape_text(other.dtype, other.rank, other.shape, b, sizeof b));
}

static tenon_status find_config(tn_pt2 *pt2, const char *fqn, bool is_constant,
                                const cJSON **config, char *entry, size_t capacity) {
    const tn_map *map = is_constant ? &pt2->constant_configs : &pt2->weight_configs;
    const char *folder = is_constant ? "constants" : "weights";
    *config = tn_map_get(map, fqn);
    if (!*config)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE,
                           "'%s' is missing in data/%s/model_%s_config.json", fqn, folder, folder);
    const char *path = tn_json_string(tn_json_get(*config, "path_name"));
    if (!path)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "weight '%s' has no path_name", fqn);
    if (cJSON_IsTrue(tn_json_get(*config, "use_pickle")))
        return tn_pt2_fail(
            pt2, TENON_UNSUPPORTED,
            "'%s' is stored as a Python pickle (a tensor subclass or custom object): make it "
            "a plain tensor and export again with torch.export.save",
            fqn);
    int length = snprintf(entry, capacity, "data/%s/%s", folder, path);
    if (length < 0 || (size_t)length >= capacity)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "weight '%s': its path_name is too long", fqn);
    return TENON_OK;
}

/* Bools that are not 0 or 1 are copied as true. */
static tenon_status make_tensor(tn_storage *storage, const tenon_view *view, tenon_tensor **out) {
    tenon_tensor *tensor = NULL, *copy = NULL;
    TN_TRY(tn_tensor_over(storage, view, &tensor));
    if (view->dtype == TENON_BOOL) {
        tenon_view bytes = *view;
        bytes.dtype = TENON_UINT8;
        tenon_status status = tenon_tensor_create(TENON_BOOL, view->rank, view->shape, &copy);
        if (status == TENON_OK)
            status = tenon_view_copy(&copy->view, &bytes);
        tenon_tensor_destroy(&tensor);
        if (status != TENON_OK) {
            tenon_tensor_destroy(&copy);
            return status;
        }
        tensor = copy;
    }
    *out = tensor;
    return TENON_OK;
}

tenon_status tn_pt2_tensor(tn_pt2 *pt2, const char *fqn, bool is_constant, const cJSON *recorded,
                           tenon_tensor **out) {
    const cJSON *config;
    char path[512];
    tn_pt2_meta meta;
    tn_storage *storage;
    char *data;
    TN_TRY(find_config(pt2, fqn, is_constant, &config, path, sizeof path));
    tn_pt2_entry *entry = tn_pt2_zip_find(&pt2->zip, path);
    if (!entry)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "entry '%s', which holds '%s', is missing",
                           path, fqn);
    TN_TRY(tn_pt2_read_meta(pt2, tn_json_get(config, "tensor_meta"), fqn, &meta));
    TN_TRY(check_recorded(pt2, fqn, &meta, recorded));
    TN_TRY(check_extent(pt2, fqn, &meta, entry));
    TN_TRY(tn_pt2_zip_bytes(&pt2->zip, entry, &storage, &data, meta.dtype == TENON_BOOL));
    tenon_view view = tn_view_make(data, meta.dtype, meta.rank, meta.shape);
    memcpy(view.strides, meta.strides, (size_t)meta.rank * sizeof *meta.strides);
    if (tenon_view_numel(&view) > 0)
        view.data = data + meta.offset * (int64_t)tenon_dtype_size(meta.dtype);
    TN_PT2_TRY(pt2, make_tensor(storage, &view, out));
    return TENON_OK;
}
