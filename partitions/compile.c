/* Compiled partitions: their ports, and running them. */
#include "core/budget.h"
#include "partitions/order.h"
#include "partitions/shim.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds that oneDNN takes to compile a partition: 1 to 10 ms were measured. */
#define PARTITION_WORK 1e7

/* A tensor that oneDNN binds: its memory is a literal's, or that of value number `index` of the
 * partition's inputs or outputs. */
typedef struct port {
    dnnl_graph_tensor_t tensor;
    dnnl_graph_logical_tensor_t logical;
    void *bound;
    int32_t index;  /* -1: a literal */
    int32_t number; /* of the tensor in the builder */
} port;

typedef struct tn_compiled {
    dnnl_graph_compiled_partition_t code;
    dnnl_stream_t stream;
    port *in, *out;
    const_dnnl_graph_tensor_t *in_tensors, *out_tensors;
    int32_t in_count, out_count;
    int threads;
    uint64_t kind;    /* of what it computes */
    bool ran, spoilt; /* spoilt: its first run failed, see tn_engine_spoil */
    /* oneDNN means execution to be safe from several threads; heap corruption has been reported all
     * the same (uxlfoundation/oneDNN issue 4381), so the executions of one partition take turns. */
    pthread_mutex_t lock;
} tn_compiled;

void tn_partition_free(tn_partition *partition) {
    tn_compiled *c = partition->compiled;
    if (!c)
        return;
    for (int i = 0; i < c->in_count; i++) {
        if (c->in[i].tensor)
            dnnl_graph_tensor_destroy(c->in[i].tensor);
    }
    for (int i = 0; i < c->out_count; i++) {
        if (c->out[i].tensor)
            dnnl_graph_tensor_destroy(c->out[i].tensor);
    }
    if (c->code)
        tn_shim_destroy(c->code);
    if (c->stream)
        dnnl_stream_destroy(c->stream);
    pthread_mutex_destroy(&c->lock);
    partition->compiled = NULL;
}

/* The index of `value` in the list, to which it is added when it is new. */
static int32_t value_index(tenon_value **values, int32_t *count, tenon_value *value) {
    for (int32_t i = 0; i < *count; i++) {
        if (values[i] == value)
            return i;
    }
    values[*count] = value;
    return (*count)++;
}

/* The builder's number of the tensor with that id, or -1. */
static int32_t number_of(const tn_partition_source *source, size_t id) {
    int32_t number = (int32_t)(id - source->first_id);
    if (!source->theirs)
        return number;
    for (int32_t i = 0; i < source->count; i++) {
        if (source->theirs[i] == number)
            return source->ours[i];
    }
    return -1;
}

/* The distinct ports of a partition, in oneDNN's order, with the values behind them. */
static bool make_ports(tn_builder *b, const tn_partition_source *source, size_t count,
                       const dnnl_graph_logical_tensor_t *found, port **ports, int32_t *port_count,
                       tenon_value ***values, int32_t *value_count) {
    tn_arena *arena = &b->set->arena;
    *ports = tn_arena_array(arena, count + 1, sizeof **ports);
    *values = tn_arena_array(arena, count + 1, sizeof **values);
    if (!*ports || !*values)
        return false;
    for (size_t i = 0; i < count; i++) {
        int32_t number = number_of(source, found[i].id), known = 0;
        if (number < 0)
            return false;
        while (known < *port_count && (*ports)[known].number != number)
            known++;
        if (known < *port_count)
            continue;
        tn_lt *t = &b->tensors[number];
        port *p = &(*ports)[(*port_count)++];
        p->number = number;
        p->index = t->value ? value_index(*values, value_count, t->value) : -1;
        p->bound = t->literal;
        tn_dnnl_graph_logical_tensor_init_with_strides(
            &p->logical, found[i].id, t->dtype, t->rank, t->shape, t->strides,
            t->constant ? dnnl_graph_tensor_property_constant
                        : dnnl_graph_tensor_property_variable);
    }
    return true;
}

static tenon_status ports_of(tn_builder *b, const tn_partition_source *source, bool inputs,
                             tn_partition *out) {
    tn_compiled *c = out->compiled;
    dnnl_graph_partition_t found = source->found;
    size_t count = 0;
    dnnl_status_t status = inputs ? tn_dnnl_graph_partition_get_input_ports_num(found, &count)
                                  : tn_dnnl_graph_partition_get_output_ports_num(found, &count);
    dnnl_graph_logical_tensor_t *list = calloc(count + 1, sizeof *list);
    if (!list)
        return tn_no_memory();
    if (status == dnnl_success)
        status = inputs ? tn_dnnl_graph_partition_get_input_ports(found, count, list)
                        : tn_dnnl_graph_partition_get_output_ports(found, count, list);
    bool made = status == dnnl_success &&
                (inputs ? make_ports(b, source, count, list, &c->in, &c->in_count, &out->inputs,
                                     &out->input_count)
                        : make_ports(b, source, count, list, &c->out, &c->out_count, &out->outputs,
                                     &out->output_count));
    free(list);
    if (status != dnnl_success)
        return tn_fail(tn_dnnl_status(status), "oneDNN does not tell a partition's ports: %s",
                       tn_dnnl_text(status));
    return made ? TENON_OK : tn_no_memory();
}

static tenon_status refused(tn_builder *b, const char *what, dnnl_status_t status) {
    if (status == dnnl_out_of_memory)
        return tn_no_memory();
    tn_refuse(b, TENON_REASON_REFUSED, "oneDNN does not compile it: %s%s", what,
              tn_dnnl_text(status));
    return TENON_BACKEND;
}

static dnnl_status_t bind(const tn_builder *b, dnnl_engine_t engine, port *ports, int32_t count,
                          const_dnnl_graph_tensor_t *tensors) {
    for (int32_t i = 0; i < count; i++) {
        const tn_lt *t = &b->tensors[ports[i].number];
        if (!ports[i].bound && t->value)
            ports[i].bound = b->views[t->value->id].data;
        dnnl_status_t status = tn_dnnl_graph_tensor_create(&ports[i].tensor, &ports[i].logical,
                                                           engine, ports[i].bound);
        if (status != dnnl_success)
            return status;
        tensors[i] = ports[i].tensor;
    }
    return dnnl_success;
}

static tenon_status find_inplace(tn_builder *b, tn_partition *out) {
    tn_compiled *c = out->compiled;
    const dnnl_graph_inplace_pair_t *pairs = NULL;
    size_t count = 0;
    if (tn_dnnl_graph_compiled_partition_get_inplace_ports(c->code, &count, &pairs) != dnnl_success)
        count = 0;
    out->inplace = tn_arena_array(&b->set->arena, count + 1, sizeof *out->inplace);
    if (!out->inplace)
        return tn_no_memory();
    for (size_t i = 0; i < count; i++) {
        tn_partition_inplace pair = {-1, -1};
        for (int32_t p = 0; p < c->in_count; p++) {
            if (c->in[p].logical.id == pairs[i].input_id && !b->tensors[c->in[p].number].constant)
                pair.in = c->in[p].index;
        }
        for (int32_t p = 0; p < c->out_count; p++) {
            if (c->out[p].logical.id == pairs[i].output_id)
                pair.out = c->out[p].index;
        }
        if (pair.in >= 0 && pair.out >= 0)
            out->inplace[out->inplace_count++] = pair;
    }
    return TENON_OK;
}

/* Outputs must lie as they were asked to. */
static bool as_asked(const tn_compiled *c) {
    for (int32_t i = 0; i < c->out_count; i++) {
        const dnnl_graph_logical_tensor_t *asked = &c->out[i].logical;
        dnnl_graph_logical_tensor_t given;
        if (tn_dnnl_graph_compiled_partition_query_logical_tensor(c->code, asked->id, &given) !=
                dnnl_success ||
            given.id != asked->id || given.layout_type != dnnl_graph_layout_type_strided ||
            given.ndims != asked->ndims || given.data_type != asked->data_type)
            return false;
        for (int d = 0; d < asked->ndims; d++) {
            if (given.dims[d] != asked->dims[d] ||
                (asked->dims[d] != 1 && given.layout.strides[d] != asked->layout.strides[d]))
                return false;
        }
    }
    return true;
}

/* What oneDNN takes for a partition, most of all to generate code, and the copies that it packs of
 * weights. */
static tenon_status charge(const tn_builder *b, const tn_compiled *c) {
    double bytes = 0;
    for (int32_t i = 0; i < c->in_count; i++) {
        const tn_lt *t = &b->tensors[c->in[i].number];
        if (t->constant && t->value)
            bytes += (double)tn_value_numel(t->value) * (double)tenon_dtype_size(t->value->dtype);
    }
    TN_TRY(tn_budget_work(PARTITION_WORK));
    return tn_budget_bytes(bytes);
}

tenon_status tn_partition_compile(tn_builder *b, const tn_partition_source *source,
                                  dnnl_engine_t engine, tn_partition *out) {
    tn_arena *arena = &b->set->arena;
    const dnnl_graph_logical_tensor_t **lists = NULL;
    tn_compiled *c = tn_arena_alloc(arena, sizeof *c);
    if (!c)
        return tn_no_memory();
    pthread_mutex_init(&c->lock, NULL);
    out->compiled = c;
    c->threads = b->options->threads;
    tenon_status status = ports_of(b, source, true, out);
    if (status == TENON_OK)
        status = ports_of(b, source, false, out);
    if (status == TENON_OK)
        status = charge(b, c);
    if (status != TENON_OK)
        goto error;

    if (b->options->dry_run)
        return TENON_OK;
    size_t ports = (size_t)c->in_count + (size_t)c->out_count;
    c->in_tensors = tn_arena_array(arena, ports + 1, sizeof *c->in_tensors);
    lists = calloc(ports + 1, sizeof *lists);
    if (!c->in_tensors || !lists) {
        status = tn_no_memory();
        goto error;
    }
    c->out_tensors = c->in_tensors + c->in_count;
    for (int32_t i = 0; i < c->in_count; i++)
        lists[i] = &c->in[i].logical;
    for (int32_t i = 0; i < c->out_count; i++)
        lists[c->in_count + i] = &c->out[i].logical;

    dnnl_status_t result = tn_dnnl_graph_compiled_partition_create(&c->code, source->found);
    if (result == dnnl_success)
        result = tn_shim_compile(source->found, c->code, (size_t)c->in_count, lists,
                                 (size_t)c->out_count, lists + c->in_count, engine, c->threads);
    if (result != dnnl_success)
        tn_engine_compile_failed();
    if (result != dnnl_success) {
        status = refused(b, "", result);
    } else if (!as_asked(c)) {
        status = refused(b, "it would lay out the result differently: ", dnnl_unimplemented);
    } else {
        result = tn_dnnl_stream_create(&c->stream, engine, dnnl_stream_default_flags);
        if (result == dnnl_success)
            result = bind(b, engine, c->in, c->in_count, c->in_tensors);
        if (result == dnnl_success)
            result = bind(b, engine, c->out, c->out_count, c->out_tensors);
        status = result == dnnl_success ? find_inplace(b, out) : refused(b, "", result);
    }
error:
    free(lists);
    if (status != TENON_OK)
        tn_partition_free(out);
    return status;
}

/* Points ports at the memory of this run; those of literals, and of weights that stay in place, are
 * right already. */
static dnnl_status_t rebind(port *ports, int32_t count, void *const *memory) {
    for (int32_t i = 0; i < count; i++) {
        if (ports[i].index < 0 || ports[i].bound == memory[ports[i].index])
            continue;
        ports[i].bound = memory[ports[i].index];
        dnnl_status_t status =
            tn_dnnl_graph_tensor_set_data_handle(ports[i].tensor, ports[i].bound);
        if (status != dnnl_success)
            return status;
    }
    return dnnl_success;
}

void (*tn_partition_fault)(const tn_partition *partition, void *const *out);

tenon_status tn_partition_execute(tn_partition *partition, void *const *in, void *const *out) {
    tn_compiled *c = partition->compiled;
    pthread_mutex_lock(&c->lock);
    dnnl_status_t status = c->spoilt ? dnnl_out_of_memory : rebind(c->in, c->in_count, in);
    if (status == dnnl_success)
        status = rebind(c->out, c->out_count, out);
    if (status == dnnl_success) {
        if (!c->ran)
            c->kind = tn_hash(partition->ops, strlen(partition->ops));
        status = tn_shim_execute(c->code, c->stream, (size_t)c->in_count, c->in_tensors,
                                 (size_t)c->out_count, c->out_tensors, c->threads, c->kind);
        if (status != dnnl_success && !c->ran) {
            c->spoilt = true;
            tn_engine_spoil();
        }
        c->ran = true;
    }
    pthread_mutex_unlock(&c->lock);
    if (status == dnnl_success && tn_partition_fault)
        tn_partition_fault(partition, out);
    if (status == dnnl_success)
        return TENON_OK;
    return tn_fail(status == dnnl_out_of_memory ? TENON_OUT_OF_MEMORY : TENON_RUN_FAILED,
                   "node '%s': oneDNN partition %s: %s", partition->nodes[0]->name, partition->ops,
                   tn_dnnl_text(status));
}
