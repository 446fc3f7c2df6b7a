/* tn_load_pt2: an archive that torch.export.save wrote, as a graph. The steps in order: the
 * archive and its versions, the inputs with their weights, the nodes, ranges of symbols, state,
 * outputs. */
#include "load/pt2.h"
#include "load/kinds.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_MAX ((int64_t)1 << 31)

static const char again[] = "export it again with torch.export.save of PyTorch 2.9 or newer";

tenon_status(tn_pt2_fail)(const tn_pt2 *pt2, tenon_status status, const char *format, ...) {
    char message[700];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (pt2->node)
        return tn_fail(status, "%s: node '%s' (%s): %s", pt2->path, pt2->node, pt2->op, message);
    return tn_fail(status, "%s: %s", pt2->path, message);
}

tenon_status(tn_pt2_within)(const tn_pt2 *pt2, tenon_status status) {
    if (status == TENON_INVALID_GRAPH || status == TENON_INVALID_ARGUMENT)
        status = TENON_INVALID_FILE;
    if (pt2->node && strncmp(tenon_last_error(), "node '", 6) != 0)
        return tn_fail_within(status, "%s: node '%s' (%s)", pt2->path, pt2->node, pt2->op);
    return tn_fail_within(status, "%s", pt2->path);
}

/* ---- The archive ---- */

/* What an archive without "archive_format" is. */
static tenon_status refuse_other(tn_pt2 *pt2) {
    bool saved = tn_pt2_zip_find(&pt2->zip, "data.pkl"); /* beside a "version" of its own */
    if (tn_pt2_zip_find(&pt2->zip, "serialized_exported_program.json") ||
        (tn_pt2_zip_find(&pt2->zip, "version") && !saved))
        return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "an exported program of PyTorch before 2.9: %s",
                           again);
    if (saved)
        return tn_pt2_fail(pt2, TENON_UNSUPPORTED,
                           "a file of torch.save or TorchScript, not an exported program: %s",
                           again);
    return tn_pt2_fail(pt2, TENON_INVALID_FILE,
                       "entry 'archive_format' is missing: not an exported program");
}

/* A short entry must hold that text, apart from space at its end. */
static tenon_status check_text(tn_pt2 *pt2, const char *name, const char *want, bool optional) {
    char *text;
    size_t length;
    if (optional && !tn_pt2_zip_find(&pt2->zip, name))
        return TENON_OK;
    TN_TRY(tn_pt2_zip_text(&pt2->zip, name, 4096, &text, &length));
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == ' '))
        text[--length] = '\0';
    tenon_status status = TENON_OK;
    if (strcmp(text, want) != 0)
        status = tn_pt2_fail(pt2, TENON_UNSUPPORTED, "%s is '%.40s', Tenon reads '%s': %s", name,
                             text, want, again);
    free(text);
    return status;
}

static tenon_status open_archive(tn_pt2 *pt2) {
    char *text;
    size_t length;
    static const char model[] = "models/model.json";
    TN_TRY(tn_pt2_zip_open(&pt2->zip, pt2->path, pt2->options));
    if (!tn_pt2_zip_find(&pt2->zip, "archive_format"))
        return refuse_other(pt2);
    TN_TRY(check_text(pt2, "archive_format", "pt2", false));
    TN_TRY(check_text(pt2, "archive_version", "0", false));
    TN_TRY(check_text(pt2, "byteorder", "little", true));
    TN_TRY(tn_pt2_zip_text(&pt2->zip, model, MODEL_MAX, &text, &length));
    tenon_status status = tn_json_parse(model, text, length, &pt2->model);
    free(text);
    return status == TENON_OK ? status : tn_pt2_within(pt2, status);
}

static tenon_status check_version(tn_pt2 *pt2) {
    int64_t major, minor = 0;
    const cJSON *version = tn_json_get(pt2->model, "schema_version");
    if (!tn_json_int(tn_json_get(version, "major"), &major))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "models/model.json has no schema_version");
    tn_json_int(tn_json_get(version, "minor"), &minor);
    if (major != 8)
        return tn_pt2_fail(pt2, TENON_UNSUPPORTED,
                           "its schema version is %lld.%lld, Tenon reads 8: %s", (long long)major,
                           (long long)minor, again);
    pt2->module = tn_json_get(pt2->model, "graph_module");
    pt2->signature = tn_json_get(pt2->module, "signature");
    if (!cJSON_IsArray(tn_json_get(pt2->signature, "input_specs")) ||
        !cJSON_IsArray(tn_json_get(pt2->signature, "output_specs")))
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "models/model.json has no graph signature");
    return TENON_OK;
}

/* ---- Inputs ---- */

static tenon_status add_tensor_input(tn_pt2 *pt2, const char *name, tenon_value **out) {
    tn_pt2_meta meta;
    const tn_expr *dims[TENON_MAX_RANK];
    TN_TRY(tn_pt2_read_meta(pt2, tn_map_get(&pt2->scope.metas, name), name, &meta));
    for (int d = 0; d < meta.rank; d++) {
        if (meta.dims[d])
            TN_TRY(tn_pt2_expr(pt2, meta.dims[d], &dims[d]));
        else if (!(dims[d] =
                       tn_expr_make(&pt2->graph->arena, TN_EXPR_INT, meta.shape[d], NULL, NULL)))
            return tn_no_memory();
    }
    TN_PT2_TRY(pt2, tn_graph_add_input(pt2->graph, name, TN_TENSOR, meta.dtype, meta.rank, NULL,
                                       dims, out));
    return TENON_OK;
}

/* An integer input may stand for a symbol, which other inputs' sizes may hold too. */
static tenon_status add_number_input(tn_pt2 *pt2, const char *name, tn_scalar scalar,
                                     tenon_value **out) {
    static const tenon_dtype dtypes[] = {
        [TN_SYMINT] = TENON_INT64, [TN_SYMFLOAT] = TENON_FLOAT64, [TN_SYMBOOL] = TENON_BOOL};
    const cJSON *known = tn_json_get(tn_json_get(pt2->scope.graph, "sym_int_values"), name);
    const char *text = tn_json_string(tn_json_get(tn_json_get(known, "as_expr"), "expr_str"));
    const tn_expr *expr = NULL;
    if (scalar == TN_SYMINT && text)
        TN_TRY(tn_pt2_expr(pt2, text, &expr));
    TN_PT2_TRY(pt2, tn_graph_add_input(pt2->graph, name, scalar, dtypes[scalar], 0, NULL,
                                       expr ? &expr : NULL, out));
    return TENON_OK;
}

static tenon_status add_user_input(tn_pt2 *pt2, const cJSON *spec) {
    tn_scalar scalar;
    tenon_value *value;
    const cJSON *arg = tn_json_get(spec, "arg");
    const char *name = tn_pt2_output_name(arg, &scalar);
    if (!name && tn_json_first(arg) && !tn_json_get(arg, "as_tensor"))
        return TENON_OK; /* a literal that the program does not take again */
    if (!name)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "an input has no name");
    TN_TRY(scalar == TN_TENSOR ? add_tensor_input(pt2, name, &value)
                               : add_number_input(pt2, name, scalar, &value));
    return tn_pt2_bind(pt2, &pt2->scope, name, tenon_arg_value(value));
}

/* A weight's value is called as the module calls it, or as the program does where an input has that
 * name. */
static tenon_status add_weight(tn_pt2 *pt2, const char *fqn, const char *name, bool is_constant) {
    tenon_tensor *tensor = NULL;
    tenon_value *value;
    if (!fqn || !name)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE, "a weight in the signature has no name");
    TN_TRY(tn_pt2_tensor(pt2, fqn, is_constant, tn_map_get(&pt2->scope.metas, name), &tensor));
    const char *called = *fqn && !tenon_graph_find_value(pt2->graph, fqn) ? fqn : name;
    tenon_status status = tenon_graph_add_constant(pt2->graph, called, tensor, &value);
    tenon_tensor_destroy(&tensor);
    if (status != TENON_OK)
        return tn_pt2_within(pt2, status);
    return tn_pt2_bind(pt2, &pt2->scope, name, tenon_arg_value(value));
}

static tenon_status read_weight_spec(tn_pt2 *pt2, const char *kind, const cJSON *spec) {
    const char *name = tn_json_string(tn_json_get(tn_json_get(spec, "arg"), "name"));
    if (strcmp(kind, "parameter") == 0)
        return add_weight(pt2, tn_json_string(tn_json_get(spec, "parameter_name")), name, false);
    if (strcmp(kind, "buffer") == 0)
        return add_weight(pt2, tn_json_string(tn_json_get(spec, "buffer_name")), name,
                          cJSON_IsFalse(tn_json_get(spec, "persistent")));
    if (strcmp(kind, "tensor_constant") == 0)
        return add_weight(pt2, tn_json_string(tn_json_get(spec, "tensor_constant_name")), name,
                          true);
    if (strcmp(kind, "user_input") == 0 || strcmp(kind, "constant_input") == 0)
        return TENON_OK; /* constants stand in the nodes as literals */
    return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "the program takes an input of kind '%.40s'", kind);
}

/* What users give first, so that it gets its own names. */
static tenon_status read_inputs(tn_pt2 *pt2) {
    const cJSON *specs = tn_json_get(pt2->signature, "input_specs");
    for (const cJSON *spec = specs->child; spec; spec = spec->next) {
        const cJSON *user = tn_json_get(spec, "user_input");
        if (user)
            TN_TRY(add_user_input(pt2, user));
    }
    for (const cJSON *spec = specs->child; spec; spec = spec->next) {
        const cJSON *kind = tn_json_first(spec);
        if (!kind || !kind->string)
            return tn_pt2_fail(pt2, TENON_INVALID_FILE, "an input in the signature is damaged");
        TN_TRY(read_weight_spec(pt2, kind->string, kind));
    }
    return TENON_OK;
}

/* ---- Outputs ---- */

static const struct {
    const char *kind, *target; /* the key that names what is written; NULL for what users get */
} output_kinds[] = {
    {"user_output", NULL},
    {"loss_output", NULL},
    {"buffer_mutation", "buffer_name"},
    {"parameter_mutation", "parameter_name"},
    {"user_input_mutation", "user_input_name"},
};

static int output_kind(const cJSON *spec) {
    const cJSON *kind = tn_json_first(spec);
    for (int i = 0; kind && kind->string && i < TN_COUNT(output_kinds); i++)
        if (strcmp(kind->string, output_kinds[i].kind) == 0)
            return i;
    return -1;
}

/* The placeholder of a parameter or buffer: specs name mutated ones by FQN. */
static const char *placeholder_of(const tn_pt2 *pt2, const char *key, const char *fqn) {
    const char *kind = strcmp(key, "buffer_name") == 0 ? "buffer" : "parameter";
    const cJSON *specs = tn_json_get(pt2->signature, "input_specs");
    for (const cJSON *spec = specs->child; spec; spec = spec->next) {
        const cJSON *item = tn_json_get(spec, kind);
        const char *name = tn_json_string(tn_json_get(item, key));
        if (name && strcmp(name, fqn) == 0)
            return tn_json_string(tn_json_get(tn_json_get(item, "arg"), "name"));
    }
    return NULL;
}

static tenon_status find_target(tn_pt2 *pt2, const cJSON *spec, const char *key,
                                tenon_value **out) {
    const char *name = tn_json_string(tn_json_get(spec, key));
    if (name && strcmp(key, "user_input_name") != 0)
        name = placeholder_of(pt2, key, name);
    const tenon_arg *arg = name ? tn_map_get(&pt2->scope.args, name) : NULL;
    if (!arg || arg->kind != TENON_ARG_VALUE || arg->as.value->kind == TENON_VALUE_NODE)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE,
                           "the signature has a mutation of something unknown");
    *out = arg->as.value;
    return TENON_OK;
}

static tenon_status read_mutation(tn_pt2 *pt2, const cJSON *spec, const char *key) {
    tenon_value *target = NULL;
    const char *name = tn_json_string(tn_json_get(tn_json_get(spec, "arg"), "name"));
    const tenon_arg *arg = name ? tn_map_get(&pt2->scope.args, name) : NULL;
    TN_TRY(find_target(pt2, spec, key, &target));
    if (!arg || arg->kind != TENON_ARG_VALUE)
        return tn_pt2_fail(pt2, TENON_INVALID_FILE,
                           "the signature has a mutation with an unknown value");
    if (target->kind == TENON_VALUE_CONSTANT)
        target->kind = TENON_VALUE_BUFFER;
    TN_PT2_TRY(pt2, tenon_graph_add_write(pt2->graph, target, arg->as.value));
    return TENON_OK;
}

/* A name that no output has yet. */
static tenon_status add_output(tn_pt2 *pt2, tn_map *used, const char *name, tenon_arg arg) {
    const char *called = name;
    for (int i = 1; tn_map_get(used, called); i++) {
        char *text = tn_arena_alloc(&pt2->arena, strlen(name) + 16);
        if (!text)
            return tn_no_memory();
        sprintf(text, "%s_%d", name, i);
        called = text;
    }
    TN_TRY(tn_map_put(used, called, used));
    TN_PT2_TRY(pt2, tenon_graph_add_output(pt2->graph, called, arg));
    return TENON_OK;
}

static tenon_status read_output(tn_pt2 *pt2, tn_map *used, const cJSON *spec, const char *name) {
    tn_scalar scalar;
    tenon_arg value;
    const cJSON *arg = tn_json_get(spec, "arg"), *loss = tn_json_get(arg, "name");
    if (loss) { /* loss_output */
        const char *text = tn_json_string(loss);
        const tenon_arg *known = text ? tn_map_get(&pt2->scope.args, text) : NULL;
        if (!known)
            return tn_pt2_fail(pt2, TENON_INVALID_FILE, "an output names an unknown value");
        value = *known;
    } else {
        TN_TRY(tn_pt2_arg(pt2, &pt2->scope, arg, &value));
    }
    if (tn_pt2_is_lost(&value))
        return tn_pt2_fail(pt2, TENON_UNSUPPORTED, "an output is a number that depends on data");
    if (!name || !*name)
        name = tn_pt2_output_name(arg, &scalar);
    return add_output(pt2, used, name && *name ? name : "output", value);
}

static tenon_status read_output_specs(tn_pt2 *pt2, tn_map *used) {
    const cJSON *specs = tn_json_get(pt2->signature, "output_specs");
    int count = 0, index = 0;
    for (const cJSON *spec = specs->child; spec; spec = spec->next) {
        int kind = output_kind(spec);
        if (kind < 0)
            return tn_pt2_fail(
                pt2, TENON_UNSUPPORTED, "the program gives an output of kind '%.40s'",
                tn_json_first(spec) && spec->child->string ? spec->child->string : "");
        count += output_kinds[kind].target == NULL;
    }
    const char **names = tn_pt2_output_names(pt2, count);
    for (const cJSON *spec = specs->child; spec; spec = spec->next) {
        int kind = output_kind(spec);
        assert(kind >= 0);
        const char *key = output_kinds[kind].target;
        if (key) {
            TN_TRY(read_mutation(pt2, spec->child, key));
        } else {
            TN_TRY(read_output(pt2, used, spec->child, names ? names[index] : NULL));
            index++;
        }
    }
    return TENON_OK;
}

static tenon_status read_outputs(tn_pt2 *pt2) {
    tn_map used = {0};
    tenon_status status = read_output_specs(pt2, &used);
    tn_map_free(&used);
    return status;
}

/* ---- All ---- */

/* The file's name without folders and extension. */
static tenon_status create_graph(tn_pt2 *pt2) {
    const char *slash = strrchr(pt2->path, '/');
    char *name = tn_arena_strdup(&pt2->arena, slash ? slash + 1 : pt2->path);
    if (!name)
        return tn_no_memory();
    char *point = strrchr(name, '.');
    if (point && point > name)
        *point = '\0';
    return tenon_graph_create(name, &pt2->graph);
}

static tenon_status load(tn_pt2 *pt2) {
    TN_TRY(open_archive(pt2));
    TN_TRY(check_version(pt2));
    TN_TRY(tn_pt2_open_weights(pt2));
    TN_TRY(create_graph(pt2));
    TN_TRY(tn_pt2_scope_open(pt2, &pt2->scope, tn_json_get(pt2->module, "graph")));
    TN_TRY(read_inputs(pt2));
    TN_TRY(tn_pt2_ranges(pt2));
    TN_TRY(tn_pt2_nodes(pt2, &pt2->scope));
    TN_TRY(read_outputs(pt2));
    TN_TRY(tn_pt2_find_state(pt2));
    TN_PT2_TRY(pt2, tenon_graph_verify(pt2->graph));
    pt2->graph->file_bytes = (int64_t)pt2->zip.file.size;
    return tn_file_check(&pt2->zip.file);
}

tenon_status tn_load_pt2(const char *path, const tenon_load_options *options, tenon_graph **out) {
    tn_pt2 pt2 = {.path = path, .options = options};
    tenon_status status = load(&pt2);
    tn_pt2_scope_close(&pt2.scope);
    tn_map_free(&pt2.weight_configs);
    tn_map_free(&pt2.constant_configs);
    cJSON_Delete(pt2.model);
    cJSON_Delete(pt2.weights);
    cJSON_Delete(pt2.constants);
    tn_pt2_zip_close(&pt2.zip);
    tn_arena_free(&pt2.arena);
    if (status != TENON_OK) {
        tenon_graph_destroy(&pt2.graph);
        return status;
    }
    tn_log(TENON_LOG_INFO, "%s: %lld nodes, %d inputs, %d constants, %d outputs", path,
           (long long)pt2.graph->node_count, pt2.graph->input_count, pt2.graph->constant_count,
           pt2.graph->output_count);
    *out = pt2.graph;
    return TENON_OK;
}
