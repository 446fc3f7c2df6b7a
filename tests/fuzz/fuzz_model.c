/* The program in a .pt2 archive (models/model.json). Its weights are zeros, whatever it says of
 * their sizes. */
#include "../c/zip_bytes.h"
#include "fuzz.h"
#include <cjson/cJSON.h>

static char zeros[1 << 14];

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    fuzz_start();
    return 0;
}

static const cJSON *get(const cJSON *object, const char *key) {
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
}

static const char *text_of(const cJSON *object, const char *key) {
    return cJSON_GetStringValue(get(object, key));
}

static void add_weight(cJSON *table, const char *name, const cJSON *meta) {
    if (!name || !meta || cJSON_HasObjectItem(table, name))
        return;
    cJSON *item = cJSON_AddObjectToObject(table, name);
    cJSON_AddStringToObject(item, "path_name", "weight_0");
    cJSON_AddBoolToObject(item, "is_param", 1);
    cJSON_AddBoolToObject(item, "use_pickle", 0);
    cJSON_AddItemToObject(item, "tensor_meta", cJSON_Duplicate(meta, 1));
}

/* The tables of weights that the program's signature asks for. */
static void add_tables(pack_bytes *zip, const cJSON *model) {
    static const char *const kinds[][2] = {{"parameter", "parameter_name"},
                                           {"buffer", "buffer_name"},
                                           {"tensor_constant", "tensor_constant_name"}};
    cJSON *root = cJSON_CreateObject(), *table = cJSON_AddObjectToObject(root, "config");
    const cJSON *module = get(model, "graph_module"), *spec;
    const cJSON *metas = get(get(module, "graph"), "tensor_values");
    cJSON_ArrayForEach(spec, get(get(module, "signature"), "input_specs")) {
        for (int i = 0; i < 3; i++) {
            const cJSON *item = get(spec, kinds[i][0]);
            const char *name = text_of(get(item, "arg"), "name");
            if (name)
                add_weight(table, text_of(item, kinds[i][1]), get(metas, name));
        }
    }
    char *text = cJSON_PrintUnformatted(root);
    pack_add(zip, "m/data/weights/model_weights_config.json", text, strlen(text));
    pack_add(zip, "m/data/constants/model_constants_config.json", text, strlen(text));
    pack_add(zip, "m/data/weights/weight_0", zeros, sizeof zeros);
    pack_add(zip, "m/data/constants/weight_0", zeros, sizeof zeros);
    cJSON_free(text);
    cJSON_Delete(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pack_bytes zip = {0};
    cJSON *model = cJSON_ParseWithLength((const char *)data, size);
    pack_add(&zip, "m/archive_format", "pt2", 3);
    pack_add(&zip, "m/archive_version", "0", 1);
    pack_add(&zip, "m/models/model.json", data, size);
    add_tables(&zip, model);
    pack_end(&zip);
    cJSON_Delete(model);
    const char *path = fuzz_write("model.pt2", zip.file, zip.size);
    pack_free(&zip);
    tenon_graph *graph = fuzz_load(path);
    if (graph)
        fuzz_graph(graph);
    return 0;
}
