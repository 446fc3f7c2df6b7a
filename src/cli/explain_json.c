/* The report as JSON; docs/explain.md describes the fields. */
#include "explain.h"
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* cJSON hands NULL on, so that it is enough to know at the end whether memory ever ran out. */
static bool exhausted;

static void *allocate(size_t size) {
    void *memory = malloc(size);
    exhausted = exhausted || !memory;
    return memory;
}

static cJSON *object_in(cJSON *list) {
    cJSON *object = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, object)) {
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

/* A name, as text of its own. */
static void add_name(cJSON *list, const char *name) {
    cJSON *item = cJSON_CreateString(name);
    if (!cJSON_AddItemToArray(list, item))
        cJSON_Delete(item);
}

static void add_number(cJSON *list, int64_t number) {
    cJSON *item = cJSON_CreateNumber((double)number);
    if (!cJSON_AddItemToArray(list, item))
        cJSON_Delete(item);
}

static void add_sizes(cJSON *to, const char *name, int rank, const int64_t *sizes) {
    cJSON *list = cJSON_AddArrayToObject(to, name);
    for (int d = 0; d < rank; d++)
        add_number(list, sizes[d]);
}

static void add_reason(cJSON *to, tenon_reason kind, const char *text) {
    cJSON *reason = cJSON_AddObjectToObject(to, "reason");
    cJSON_AddStringToObject(reason, "kind", tenon_reason_text(kind));
    cJSON_AddStringToObject(reason, "text", text);
}

/* ---- Steps ---- */

static int add_operands(const report *r, int index, cJSON *to) {
    const tenon_step_info *step = &r->steps[index].info;
    cJSON *inputs = cJSON_AddArrayToObject(to, "inputs");
    cJSON *outputs = cJSON_AddArrayToObject(to, "outputs");
    for (int i = 0; i < step->input_count + step->output_count; i++) {
        tenon_operand_info info;
        if (tenon_session_get_operand(r->session, index, i, &info) != TENON_OK)
            return cli_failed();
        cJSON *operand = object_in(i < step->input_count ? inputs : outputs);
        cJSON_AddStringToObject(operand, "value", tenon_value_name(info.value));
        cJSON_AddStringToObject(operand, "dtype", tenon_dtype_text(info.view.dtype));
        add_sizes(operand, "shape", info.view.rank, info.view.shape);
        add_sizes(operand, "strides", info.view.rank, info.view.strides);
        cJSON_AddStringToObject(operand, "layout", info.layout);
        cJSON_AddNumberToObject(operand, "bytes", (double)info.bytes);
        if (i >= step->input_count)
            continue;
        cJSON_AddBoolToObject(operand, "constant", info.constant);
        cJSON_AddNumberToObject(operand, "from_step", info.from_step);
    }
    return CLI_OK;
}

static int add_boundaries(const report *r, int index, cJSON *to) {
    cJSON *list = cJSON_AddArrayToObject(to, "boundaries");
    for (int i = 0; i < r->steps[index].info.boundary_count; i++) {
        tenon_boundary_info info;
        if (tenon_session_get_boundary(r->session, index, i, &info) != TENON_OK)
            return cli_failed();
        cJSON *boundary = object_in(list);
        cJSON_AddStringToObject(boundary, "value", tenon_value_name(info.value));
        cJSON_AddNumberToObject(boundary, "from_step", info.from_step);
        add_reason(boundary, info.reason_kind, info.reason);
    }
    return CLI_OK;
}

static void add_times(const report_step *step, cJSON *to) {
    if (step->time >= 0)
        cJSON_AddNumberToObject(to, "time_us", step->time);
    if (step->onednn_time < 0)
        return;
    cJSON *faster = cJSON_AddObjectToObject(to, "against_onednn");
    cJSON_AddNumberToObject(faster, "own_us", step->own_time);
    cJSON_AddNumberToObject(faster, "onednn_us", step->onednn_time);
    cJSON_AddNumberToObject(faster, "nodes", step->onednn_nodes);
}

static int add_steps(const report *r, cJSON *to) {
    cJSON *list = cJSON_AddArrayToObject(to, "steps");
    int code = CLI_OK;
    for (int i = 0; i < r->plan.step_count && code == CLI_OK; i++) {
        const tenon_step_info *info = &r->steps[i].info;
        cJSON *step = object_in(list);
        cJSON_AddNumberToObject(step, "index", i);
        cJSON_AddStringToObject(step, "where", report_where(r, i));
        cJSON_AddStringToObject(step, "title", report_title(&r->steps[i]));
        cJSON *nodes = cJSON_AddArrayToObject(step, "nodes");
        for (int n = 0; n < info->node_count; n++)
            add_name(nodes, report_name(info->nodes[n]));
        add_reason(step, info->reason_kind, info->reason);
        if (*info->choice)
            cJSON_AddStringToObject(step, "choice", info->choice);
        cJSON_AddNumberToObject(step, "read_bytes", (double)info->read_bytes);
        cJSON_AddNumberToObject(step, "weight_bytes", (double)info->weight_bytes);
        cJSON_AddNumberToObject(step, "written_bytes", (double)info->written_bytes);
        cJSON_AddNumberToObject(step, "flops", info->flops);
        add_times(&r->steps[i], step);
        code = add_operands(r, i, step);
        if (code == CLI_OK)
            code = add_boundaries(r, i, step);
    }
    return code;
}

/* ---- Nodes ---- */

static void add_nodes(const report *r, cJSON *to) {
    cJSON *list = cJSON_AddArrayToObject(to, "nodes");
    cJSON *conversions = cJSON_AddArrayToObject(to, "conversions");
    for (int i = 0; i < r->node_count; i++) {
        const report_node *n = &r->nodes[i];
        cJSON *node = object_in(list);
        cJSON_AddStringToObject(node, "name", report_name(n->node));
        cJSON_AddStringToObject(node, "op", tenon_node_op(n->node));
        cJSON_AddStringToObject(node, "module", tenon_node_module_path(n->node));
        cJSON_AddStringToObject(node, "where", report_where(r, n->info.step));
        cJSON_AddNumberToObject(node, "step", n->info.step);
        add_reason(node, n->info.reason_kind, n->info.reason);
        cJSON_AddNumberToObject(node, "flops", n->info.flops);
        if (n->info.conversion == TENON_CONVERSION_NONE)
            continue;
        bool dtype = n->info.conversion == TENON_CONVERSION_DTYPE;
        tenon_dtype made = tenon_value_dtype(tenon_node_output(n->node, 0));
        cJSON *conversion = object_in(conversions);
        cJSON_AddStringToObject(conversion, "node", report_name(n->node));
        cJSON_AddStringToObject(conversion, "kind", dtype ? "dtype" : "layout");
        cJSON_AddStringToObject(conversion, "to", dtype ? tenon_dtype_text(made) : "row-major");
        cJSON_AddStringToObject(conversion, "for", n->info.conversion_for);
        cJSON_AddBoolToObject(conversion, "inserted", n->info.inserted);
    }
}

static void add_advice(cJSON *to) {
    cJSON *advice = cJSON_AddObjectToObject(to, "advice");
    for (int i = TENON_REASON_NONE + 1; i < TENON_REASON_COUNT; i++)
        cJSON_AddStringToObject(advice, tenon_reason_text((tenon_reason)i),
                                tenon_reason_advice((tenon_reason)i));
}

static void add_texts(cJSON *to, const char *name, const char *const *texts, int count) {
    cJSON *list = cJSON_AddArrayToObject(to, name);
    for (int i = 0; i < count; i++)
        add_name(list, texts[i]);
}

static void add_passes(const report *r, cJSON *to) {
    cJSON *list = cJSON_AddArrayToObject(to, "passes");
    tenon_pass_record record;
    for (int i = 0; tenon_graph_record(r->plan.graph, i, &record); i++) {
        cJSON *pass = object_in(list);
        cJSON_AddStringToObject(pass, "name", record.name);
        cJSON_AddStringToObject(pass, "phase",
                                record.phase == TENON_PASS_MODEL ? "model" : "shapes");
        cJSON_AddNumberToObject(pass, "nodes_before", (double)record.nodes_before);
        cJSON_AddNumberToObject(pass, "nodes_after", (double)record.nodes_after);
        cJSON_AddNumberToObject(pass, "removed_count", (double)record.removed_count);
        cJSON_AddNumberToObject(pass, "added_count", (double)record.added_count);
        add_texts(pass, "removed", record.removed, record.removed_named);
        add_texts(pass, "added", record.added, record.added_named);
    }
}

static int add_graph(const report *r, cJSON *to) {
    char *text = NULL;
    if (tenon_graph_print(r->plan.graph, &text) != TENON_OK)
        return cli_failed();
    cJSON_AddStringToObject(to, "graph", text);
    tenon_string_free(text);
    return CLI_OK;
}

/* ---- The whole ---- */

static void add_plan(const report *r, cJSON *to) {
    const tenon_plan_info *info = &r->plan;
    cJSON *plan = cJSON_AddObjectToObject(to, "plan");
    cJSON_AddNumberToObject(plan, "steps", info->step_count);
    cJSON_AddNumberToObject(plan, "partitions", info->partition_count);
    cJSON_AddNumberToObject(plan, "kernels", info->kernel_count);
    cJSON_AddNumberToObject(plan, "copies", info->copy_count);
    cJSON_AddNumberToObject(plan, "nodes", (double)info->node_count);
    cJSON_AddNumberToObject(plan, "views", (double)info->view_count);
    cJSON_AddNumberToObject(plan, "threads", info->threads);
    cJSON_AddBoolToObject(plan, "dry_run", info->dry_run);
    cJSON_AddNumberToObject(plan, "arena_bytes", (double)info->arena_bytes);
    cJSON_AddNumberToObject(plan, "weight_bytes", (double)info->weight_bytes);
    cJSON_AddNumberToObject(plan, "read_bytes", (double)info->read_bytes);
    cJSON_AddNumberToObject(plan, "written_bytes", (double)info->written_bytes);
    cJSON_AddNumberToObject(plan, "flops", info->flops);
    cJSON_AddNumberToObject(plan, "verified_partitions", info->verified_partitions);
    cJSON_AddNumberToObject(plan, "verified_kernels", info->verified_kernels);
    cJSON_AddNumberToObject(plan, "left_out", info->left_out);
    if (r->runs == 0)
        return;
    cJSON_AddNumberToObject(plan, "runs", r->runs);
    cJSON_AddNumberToObject(plan, "run_us", r->run_time);
}

static void add_versions(const report *r, cJSON *to) {
    tenon_build_info info;
    tenon_get_build_info(&info);
    cJSON_AddStringToObject(to, "model", r->path);
    cJSON_AddStringToObject(to, "tenon", info.version);
    cJSON_AddStringToObject(to, "onednn", info.onednn_version);
    cJSON_AddStringToObject(to, "isa", info.onednn_isa);
    cJSON_AddStringToObject(to, "backend", r->backend);
    cJSON_AddStringToObject(to, "precision", r->precision);
}

char *report_json(const report *r) {
    char *text = NULL;
    cJSON_InitHooks(&(cJSON_Hooks){allocate, free});
    cJSON *all = cJSON_CreateObject();
    add_versions(r, all);
    add_plan(r, all);
    int code = add_steps(r, all);
    if (code == CLI_OK) {
        add_nodes(r, all);
        add_passes(r, all);
        add_advice(all);
        code = add_graph(r, all);
    }
    if (code == CLI_OK) {
        text = cJSON_PrintUnformatted(all);
        if (exhausted) {
            free(text);
            text = NULL;
            cli_error(CLI_FAILED, "out of memory");
        }
    }
    cJSON_Delete(all);
    return text;
}

int report_write_json(const report *r, const char *path) {
    char *text = report_json(r);
    if (!text)
        return CLI_FAILED;
    size_t length = strlen(text);
    text[length] = '\n'; /* in the place of the NUL */
    tenon_status status = tenon_file_write(path, text, length + 1);
    free(text);
    return status == TENON_OK ? CLI_OK : cli_failed();
}
