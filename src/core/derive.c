/* Weights that are made from other weights. */
#include "core/derive.h"
#include "core/fail.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Hangs on the storage of the weight that it was made from. Holds no share of that. */
struct tn_derived {
    tenon_view from;
    tenon_tensor *tensor;
    tn_derived *next;
    char kind[];
};

/* Of all lists. Not held while something is made. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_same(const tn_derived *derived, const char *kind, const tenon_view *from) {
    return derived->from.data == from->data && derived->from.dtype == from->dtype &&
           tn_same_shape(&derived->from, from) &&
           memcmp(derived->from.strides, from->strides,
                  (size_t)from->rank * sizeof *from->strides) == 0 &&
           strcmp(derived->kind, kind) == 0;
}

static tenon_status find(const tenon_tensor *from, const char *kind, tenon_tensor **out) {
    for (tn_derived *d = from->storage->derived; d; d = d->next) {
        if (is_same(d, kind, &from->view))
            return tenon_tensor_share(d->tensor, out);
    }
    return TENON_OK;
}

static void drop(tn_derived **pointer) {
    tn_derived *derived = *pointer;
    *pointer = derived->next;
    tenon_tensor_destroy(&derived->tensor);
    free(derived);
}

/* What another thread has made meanwhile takes the place of `made`. */
static tenon_status keep(const tenon_tensor *from, const char *kind, tenon_tensor **made) {
    tenon_tensor *other = NULL;
    tn_derived *derived = calloc(1, sizeof *derived + strlen(kind) + 1);
    tenon_status status = derived ? TENON_OK : tn_no_memory();
    pthread_mutex_lock(&lock);
    if (status == TENON_OK)
        status = find(from, kind, &other);
    if (status == TENON_OK && !other)
        status = tenon_tensor_share(*made, &derived->tensor);
    if (status == TENON_OK && !other) {
        memcpy(derived->kind, kind, strlen(kind) + 1);
        derived->from = from->view;
        derived->next = from->storage->derived;
        from->storage->derived = derived;
        derived = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(derived);
    if (other) {
        tenon_tensor_destroy(made);
        *made = other;
    }
    return status;
}

tenon_status tn_tensor_derive(const tenon_tensor *from, const char *kind, tn_derive_fn make,
                              const void *user, tenon_tensor **out) {
    tenon_tensor *tensor = NULL;
    pthread_mutex_lock(&lock);
    tenon_status status = find(from, kind, &tensor);
    pthread_mutex_unlock(&lock);
    TN_TRY(status);
    if (!tensor) {
        TN_TRY(make(&from->view, user, &tensor));
        status = keep(from, kind, &tensor);
        if (status != TENON_OK) {
            tenon_tensor_destroy(&tensor);
            return status;
        }
        if (tenon_view_is_contiguous(&from->view)) /* runs read what was made */
            tn_storage_forget_pages(from->storage, from->view.data,
                                    (size_t)tenon_view_numel(&from->view) *
                                        tenon_dtype_size(from->view.dtype));
    }
    *out = tensor;
    return TENON_OK;
}

void tn_tensor_trim_derived(const tenon_tensor *from) {
    pthread_mutex_lock(&lock);
    for (tn_derived **at = &from->storage->derived; *at;) {
        if (atomic_load(&(*at)->tensor->storage->shares) > 1)
            at = &(*at)->next;
        else
            drop(at);
    }
    pthread_mutex_unlock(&lock);
}

void tn_derived_destroy(tn_derived **list) {
    while (*list)
        drop(list);
}
