/* Partitions that several shapes of one model share. oneDNN finds packed weights by partition and
 * by the weights' addresses: compiled from one partition for several shapes, kernels use the same
 * packed weights, as long as they want them in the same layout. */
#include "partitions/order.h"
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct member {
    struct member *next;
    char *key; /* what the partition is, but for the sizes of activations */
    size_t key_size;
    dnnl_graph_partition_t partition;
    size_t first_id;
    int32_t *numbers; /* its tensors, in the order in which the key has them */
} member;

struct tn_partition_family {
    pthread_mutex_t lock;
    tn_arena arena;
    member *members;
    size_t weight_bytes;
};

tenon_status tn_partition_family_create(tn_partition_family **out) {
    tn_partition_family *family = calloc(1, sizeof *family);
    if (!family)
        return tn_no_memory();
    pthread_mutex_init(&family->lock, NULL);
    tn_engine_enter();
    *out = family;
    return TENON_OK;
}

void tn_partition_family_destroy(tn_partition_family **family) {
    if (!*family)
        return;
    for (member *m = (*family)->members; m; m = m->next)
        dnnl_graph_partition_destroy(m->partition);
    tn_engine_leave((*family)->weight_bytes);
    tn_arena_free(&(*family)->arena);
    pthread_mutex_destroy(&(*family)->lock);
    free(*family);
    *family = NULL;
}

/* ---- Keys ---- */

typedef struct keying {
    const tn_builder *b;
    tn_text key;
    int32_t *numbers; /* distinct tensors */
    int32_t count;
    size_t weight_bytes;
} keying;

static void put(keying *k, const void *bytes, size_t size) {
    if (size > 0)
        tn_text_put(&k->key, bytes, size);
}

/* A tensor: its place among those seen, and what it is when it is new. */
static void put_tensor(keying *k, int32_t number) {
    const tn_lt *t = &k->b->tensors[number];
    int32_t at = 0;
    while (at < k->count && k->numbers[at] != number)
        at++;
    put(k, &at, sizeof at);
    if (at < k->count)
        return;
    k->numbers[k->count++] = number;
    int32_t facts[] = {(int32_t)t->dtype, t->rank, t->constant, t->literal != NULL,
                       t->value != NULL};
    put(k, facts, sizeof facts);
    if (!t->constant && !t->literal)
        return;
    put(k, t->shape, (size_t)t->rank * sizeof *t->shape);
    put(k, t->strides, (size_t)t->rank * sizeof *t->strides);
    if (t->constant) {
        assert(t->value);
        void *data = k->b->views[t->value->id].data;
        put(k, &data, sizeof data);
        k->weight_bytes += (size_t)tn_numel(t->rank, t->shape) * tenon_dtype_size(t->value->dtype);
    }
}

static bool make_key(keying *k, const int32_t *members, int32_t count, tn_arena *arena) {
    size_t tensors = 0;
    for (int32_t i = 0; i < count; i++)
        tensors += (size_t)k->b->ops[members[i]].in_count + 1;
    k->numbers = tn_arena_array(arena, tensors + 1, sizeof *k->numbers);
    if (!k->numbers)
        return false;
    for (int32_t i = 0; i < count; i++) {
        const tn_lowered *op = &k->b->ops[members[i]];
        int32_t head[] = {(int32_t)op->kind, op->in_count, op->out_count,
                          (int32_t)(op->attrs_end - op->attrs)};
        put(k, head, sizeof head);
        if (op->attrs_end > op->attrs)
            put(k, k->b->attrs.data + op->attrs, op->attrs_end - op->attrs);
        for (int32_t t = 0; t < op->in_count + op->out_count; t++)
            put_tensor(k, op->in[t]);
    }
    return !k->key.failed;
}

static member *find_member(const tn_partition_family *family, const tn_text *key) {
    for (member *m = family->members; m; m = m->next) {
        if (m->key_size == key->length && memcmp(m->key, key->data, key->length) == 0)
            return m;
    }
    return NULL;
}

/* Takes `*found` over as a new member. */
static member *add_member(tn_partition_family *family, const keying *k,
                          dnnl_graph_partition_t *found) {
    member *m = tn_arena_alloc(&family->arena, sizeof *m);
    if (!m)
        return NULL;
    m->key = tn_arena_alloc(&family->arena, k->key.length);
    m->numbers = tn_arena_array(&family->arena, (size_t)k->count, sizeof *m->numbers);
    if (!m->key || !m->numbers)
        return NULL;
    memcpy(m->key, k->key.data, k->key.length);
    memcpy(m->numbers, k->numbers, (size_t)k->count * sizeof *m->numbers);
    m->key_size = k->key.length;
    m->first_id = k->b->first_id;
    m->partition = *found;
    *found = NULL;
    m->next = family->members;
    family->members = m;
    family->weight_bytes += k->weight_bytes;
    tn_engine_use(k->weight_bytes);
    return m;
}

tenon_status tn_family_find(tn_builder *b, const int32_t *members, int32_t count,
                            dnnl_graph_partition_t *found, tn_partition_source *out) {
    tn_partition_family *family = b->options->family;
    keying k = {.b = b};
    member *m = NULL;
    assert(count > 0);
    pthread_mutex_lock(&family->lock);
    if (make_key(&k, members, count, &b->arena)) {
        m = find_member(family, &k.key);
        if (!m)
            m = add_member(family, &k, found);
    }
    pthread_mutex_unlock(&family->lock);
    tn_text_free(&k.key);
    if (!m)
        return tn_no_memory();
    *out = (tn_partition_source){m->partition, m->first_id, m->numbers, k.numbers, k.count};
    return TENON_OK;
}
