#include "feed.h"
#include <inttypes.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FREE, LOADING, RUNNING, READY };
enum { MOST_LOADERS = 64 };

struct batch_feed {
    const batch_model *model;
    tenon_pool *pool;
    batch_feed_options options;
    int output_count;
    batch_slot *slots;
    int slot_count;
    pthread_t threads[MOST_LOADERS];
    int thread_count;
    pthread_mutex_t lock;
    pthread_cond_t freed, ready;
    /* Under the lock: */
    int64_t next; /* the next batch to load */
    int64_t end;  /* batches; -1: not known */
    int64_t out;  /* the next batch to give back */
    int64_t total;
    int alive; /* loaders */
    bool stop, skipped;
};

/* ---- Rows ---- */

static tenon_view row_of(const tenon_view *view, int64_t row) {
    tenon_view one = *view;
    int64_t elements = 1;
    one.rank = view->rank - 1;
    for (int d = 0; d < one.rank; d++) {
        one.shape[d] = view->shape[d + 1];
        elements *= one.shape[d];
    }
    int64_t stride = 1;
    for (int d = one.rank - 1; d >= 0; d--) {
        one.strides[d] = stride;
        stride *= one.shape[d] > 0 ? one.shape[d] : 1;
    }
    one.data = (char *)view->data + (size_t)(row * elements) * tenon_dtype_size(view->dtype);
    return one;
}

#define SEARCH(type, not_a_number)                \
    for (int64_t i = 0; i < count; i++)           \
        found |= not_a_number(((type *)data)[i]); \
    break

static inline bool float_is_nan(float x) {
    return x != x;
}
static inline bool double_is_nan(double x) {
    return x != x;
}
static inline bool half_is_nan(uint16_t bits) {
    return (bits & 0x7fff) > 0x7c00;
}
static inline bool bfloat16_is_nan(uint16_t bits) {
    return (bits & 0x7fff) > 0x7f80;
}

bool batch_has_nan(const tenon_view *view) {
    int64_t count = tenon_view_numel(view);
    const void *data = view->data;
    bool found = false;
    switch (view->dtype) {
    case TENON_FLOAT32:
        SEARCH(const float, float_is_nan);
    case TENON_FLOAT64:
        SEARCH(const double, double_is_nan);
    case TENON_FLOAT16:
        SEARCH(const uint16_t, half_is_nan);
    case TENON_BFLOAT16:
        SEARCH(const uint16_t, bfloat16_is_nan);
    default:
        break;
    }
    return found;
}

tenon_status batch_slot_blame(batch_slot *slot, int64_t row, const char *why) {
    if (slot->bad[row])
        return TENON_OK;
    slot->why[row] = strdup(why);
    if (!slot->why[row])
        return batch_no_memory();
    slot->bad[row] = true;
    slot->bad_count++;
    return TENON_OK;
}

static void copy_row(const batch_feed *f, batch_slot *slot, int64_t to, int64_t from) {
    for (int k = 0; k < f->model->field_count; k++) {
        const tenon_view *view = &slot->inputs[f->model->field_inputs[k]];
        tenon_view a = row_of(view, to), b = row_of(view, from);
        memcpy(a.data, b.data, f->model->fields[k].bytes);
    }
}

/* Rows without a sample of their own repeat one that is good, which cannot make the run fail.
 * False: there is none. */
static bool fill_gaps(const batch_feed *f, batch_slot *slot) {
    int64_t good = 0;
    while (good < slot->count && slot->bad[good])
        good++;
    for (int64_t row = 0; good < slot->count && row < f->model->batch; row++)
        if (row >= slot->count || slot->bad[row])
            copy_row(f, slot, row, good);
    return good < slot->count;
}

/* ---- Loading ---- */

static void fail_slot(batch_slot *slot, tenon_status status, const char *message) {
    slot->status = status;
    snprintf(slot->message, sizeof slot->message, "%s", message);
}

/* Loads one sample; false when the batch ends before it. */
static bool load_row(batch_feed *f, batch_slot *slot, int64_t row) {
    const batch_model *m = f->model;
    tenon_view rows[BATCH_MOST_INPUTS];
    char why[BATCH_TEXT] = "";
    for (int k = 0; k < m->field_count; k++)
        rows[k] = row_of(&slot->inputs[m->field_inputs[k]], row);
    batch_got got = m->source->fetch(m->source, slot->first + row, rows, why);
    for (int k = 0; k < m->field_count && got == BATCH_GOT && f->options.check_nan; k++) {
        if (!batch_has_nan(&rows[k]))
            continue;
        snprintf(why, sizeof why, "input '%.200s' holds NaN", m->fields[k].name);
        got = BATCH_BAD;
    }
    if (got == BATCH_BAD && batch_slot_blame(slot, row, why) != TENON_OK) {
        snprintf(why, sizeof why, "%s", tenon_last_error());
        got = BATCH_FAILED;
    }
    if (got == BATCH_FAILED)
        fail_slot(slot, TENON_IO, why);
    if (got == BATCH_END) {
        pthread_mutex_lock(&f->lock);
        f->total = slot->first + row;
        f->end = slot->batch + (row > 0);
        pthread_mutex_unlock(&f->lock);
    }
    return got != BATCH_END && got != BATCH_FAILED;
}

static void load_slot(batch_feed *f, batch_slot *slot) {
    int64_t wanted = f->model->batch;
    slot->first = f->options.first + slot->batch * wanted;
    if (f->options.end >= 0 && f->options.end - slot->first < wanted)
        wanted = f->options.end - slot->first;
    slot->count = slot->bad_count = 0;
    slot->status = TENON_OK;
    slot->loaded = false;
    memset(slot->bad, 0, (size_t)f->model->batch * sizeof *slot->bad);
    while (slot->count < wanted && load_row(f, slot, slot->count))
        slot->count++;
    slot->digest = f->model->source->digest ? f->model->source->digest(f->model->source) : 0;
    slot->loaded = slot->status == TENON_OK;
}

/* ---- Running ---- */

static void finish_slot(batch_slot *slot) {
    batch_feed *f = slot->feed;
    pthread_mutex_lock(&f->lock);
    slot->state = READY;
    pthread_cond_broadcast(&f->ready);
    pthread_mutex_unlock(&f->lock);
}

static void done(void *user, tenon_status status, const tenon_view *outputs) {
    batch_slot *slot = user;
    (void)outputs;
    if (status != TENON_OK)
        fail_slot(slot, status, tenon_last_error());
    finish_slot(slot);
}

static void run_slot(batch_feed *f, batch_slot *slot) {
    tenon_status status = TENON_OK;
    if (slot->status != TENON_OK || !fill_gaps(f, slot)) {
        finish_slot(slot); /* nothing to run */
        return;
    }
    status = tenon_pool_submit(f->pool, slot->inputs, f->model->input_count, slot->outputs,
                               f->output_count, done, slot, NULL);
    if (status == TENON_OK)
        return;
    fail_slot(slot, status, tenon_last_error());
    finish_slot(slot);
}

/* Goes behind the samples that an interrupted run has done, where a source can only tell by reading
 * them that it is the same one. */
static bool skip_done(batch_feed *f, batch_slot *slot) {
    const batch_model *m = f->model;
    tenon_view rows[BATCH_MOST_INPUTS];
    char why[BATCH_TEXT] = "";
    if (!m->source->digest || f->options.done == 0)
        return true;
    for (int k = 0; k < m->field_count; k++)
        rows[k] = row_of(&slot->inputs[m->field_inputs[k]], 0);
    batch_got got = m->source->fetch(m->source, f->options.first + f->options.done - 1, rows, why);
    if (got == BATCH_FAILED)
        fail_slot(slot, TENON_IO, why);
    else if (got == BATCH_END || m->source->digest(m->source) != f->options.digest)
        fail_slot(slot, TENON_INPUT_MISMATCH,
                  "the input is not the one that the interrupted job has read: --resume takes the "
                  "same one, from its start");
    return slot->status == TENON_OK;
}

/* Takes the next batch; NULL: there is none. */
static batch_slot *take_slot(batch_feed *f) {
    batch_slot *slot = NULL;
    pthread_mutex_lock(&f->lock);
    for (;;) {
        slot = &f->slots[f->next % f->slot_count];
        if (f->stop || batch_stopped() || (f->end >= 0 && f->next >= f->end)) {
            slot = NULL;
            break;
        }
        if (slot->state == FREE)
            break;
        struct timespec until; /* so that a stop in a signal's handler is seen */
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&f->freed, &f->lock, &until);
    }
    if (slot) {
        slot->state = LOADING;
        slot->batch = f->next++;
    }
    pthread_mutex_unlock(&f->lock);
    return slot;
}

/* A batch that a stop, or the end of the input, left without samples: there is none. */
static void drop_slot(batch_feed *f, batch_slot *slot) {
    pthread_mutex_lock(&f->lock);
    f->next = slot->batch;
    f->stop = true;
    slot->state = FREE;
    pthread_mutex_unlock(&f->lock);
}

static void *load(void *user) {
    batch_feed *f = user;
    batch_slot *slot;
    omp_set_num_threads(1); /* converting a row is no reason to wake others */
    while ((slot = take_slot(f)) != NULL) {
        slot->status = TENON_OK;
        slot->loaded = false;
        if (!f->skipped && f->model->source->loaders == 1) {
            f->skipped = true;
            slot->count = slot->bad_count = 0;
            if (!skip_done(f, slot)) {
                finish_slot(slot);
                break;
            }
        }
        load_slot(f, slot);
        if ((slot->status == TENON_OK && slot->count == 0) ||
            (slot->status != TENON_OK && f->model->source->loaders == 1 && batch_stopped())) {
            drop_slot(f, slot);
            break;
        }
        run_slot(f, slot);
    }
    pthread_mutex_lock(&f->lock);
    f->alive--;
    pthread_cond_broadcast(&f->ready);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* ---- Giving back ---- */

bool batch_feed_next(batch_feed *feed, int milliseconds, batch_slot **out, bool *ended) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += milliseconds % 1000 * 1000000L;
    until.tv_sec += milliseconds / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&feed->lock);
    batch_slot *slot = &feed->slots[feed->out % feed->slot_count];
    bool late = false;
    for (;;) {
        bool there = slot->state != FREE && slot->batch == feed->out;
        *ended = feed->alive == 0 && !there;
        if ((there && slot->state == READY) || *ended || late)
            break;
        late = pthread_cond_timedwait(&feed->ready, &feed->lock, &until) != 0;
    }
    bool ready = slot->state == READY && slot->batch == feed->out;
    pthread_mutex_unlock(&feed->lock);
    if (ready)
        *out = slot;
    return ready;
}

void batch_feed_release(batch_feed *feed) {
    pthread_mutex_lock(&feed->lock);
    batch_slot *slot = &feed->slots[feed->out++ % feed->slot_count];
    for (int64_t row = 0; row < feed->model->batch; row++) {
        free(slot->why[row]);
        slot->why[row] = NULL;
    }
    slot->state = FREE;
    pthread_cond_broadcast(&feed->freed);
    pthread_mutex_unlock(&feed->lock);
}

int64_t batch_feed_total(batch_feed *feed) {
    pthread_mutex_lock(&feed->lock);
    int64_t total = feed->total;
    pthread_mutex_unlock(&feed->lock);
    return total;
}

static tenon_status run_now(batch_feed *f, batch_slot *slot) {
    tenon_request *request = NULL;
    BATCH_TRY(tenon_pool_submit(f->pool, slot->inputs, f->model->input_count, slot->outputs,
                                f->output_count, NULL, NULL, &request));
    return tenon_request_wait(&request);
}

/* Each sample is run alone, in its row, with copies of itself in the other rows; then all that are
 * good together, as always. */
tenon_status batch_feed_isolate(batch_feed *feed, batch_slot *slot) {
    int64_t batch = feed->model->batch;
    tenon_tensor *keep[BATCH_MOST_INPUTS] = {0};
    tenon_status status = TENON_OK;
    for (int k = 0; k < feed->model->field_count && status == TENON_OK; k++) {
        const tenon_view *view = &slot->inputs[feed->model->field_inputs[k]];
        status = tenon_tensor_create(view->dtype, view->rank, view->shape, &keep[k]);
        if (status == TENON_OK)
            memcpy(tenon_tensor_view(keep[k])->data, view->data,
                   feed->model->fields[k].bytes * (size_t)batch);
    }
    for (int64_t row = 0; row < slot->count && status == TENON_OK; row++) {
        if (slot->bad[row])
            continue;
        for (int k = 0; k < feed->model->field_count; k++) {
            const tenon_view *view = &slot->inputs[feed->model->field_inputs[k]];
            memcpy(view->data, tenon_tensor_view(keep[k])->data,
                   feed->model->fields[k].bytes * (size_t)batch);
        }
        for (int64_t other = 0; other < batch; other++)
            if (other != row)
                copy_row(feed, slot, other, row);
        status = run_now(feed, slot);
        if (status == TENON_RUN_FAILED)
            status = batch_slot_blame(slot, row, tenon_last_error());
    }
    for (int k = 0; k < feed->model->field_count && status == TENON_OK; k++)
        memcpy(slot->inputs[feed->model->field_inputs[k]].data, tenon_tensor_view(keep[k])->data,
               feed->model->fields[k].bytes * (size_t)batch);
    for (int k = 0; k < BATCH_MOST_INPUTS; k++)
        tenon_tensor_destroy(&keep[k]);
    if (status == TENON_OK && fill_gaps(feed, slot))
        status = run_now(feed, slot);
    slot->status = status;
    return status;
}

/* ---- Making ---- */

static tenon_status make_view(batch_slot *slot, int *used, tenon_view *view) {
    BATCH_TRY(tenon_tensor_create(view->dtype, view->rank, view->shape, &slot->memory[*used]));
    *view = *tenon_tensor_view(slot->memory[(*used)++]);
    return TENON_OK;
}

static tenon_status make_slot(batch_feed *f, batch_slot *slot) {
    const batch_model *m = f->model;
    int used = 0;
    slot->feed = f;
    slot->inputs = calloc((size_t)m->input_count + 1, sizeof *slot->inputs);
    slot->outputs = calloc((size_t)f->output_count + 1, sizeof *slot->outputs);
    slot->memory = calloc((size_t)(m->input_count + f->output_count) + 1, sizeof *slot->memory);
    slot->bad = calloc((size_t)m->batch, sizeof *slot->bad);
    slot->why = calloc((size_t)m->batch, sizeof *slot->why);
    if (!slot->inputs || !slot->outputs || !slot->memory || !slot->bad || !slot->why)
        return batch_no_memory();
    memcpy(slot->inputs, m->inputs, (size_t)m->input_count * sizeof *slot->inputs);
    for (int k = 0; k < m->field_count; k++)
        BATCH_TRY(make_view(slot, &used, &slot->inputs[m->field_inputs[k]]));
    for (int i = 0; i < f->output_count; i++) {
        tenon_view view;
        if (!f->options.wanted[i] || !tenon_pool_output(f->pool, i, &view))
            continue;
        BATCH_TRY(make_view(slot, &used, &view));
        slot->outputs[i] = view;
    }
    return TENON_OK;
}

static void free_slot(const batch_feed *f, batch_slot *slot) {
    for (int i = 0; slot->memory && i < f->model->input_count + f->output_count; i++)
        tenon_tensor_destroy(&slot->memory[i]);
    for (int64_t row = 0; slot->why && row < f->model->batch; row++)
        free(slot->why[row]);
    free(slot->inputs);
    free(slot->outputs);
    free(slot->memory);
    free(slot->bad);
    free(slot->why);
}

static int count_loaders(const batch_feed *f) {
    int most = f->model->source->loaders;
    int cores = tenon_pool_instances(f->pool) * tenon_pool_threads(f->pool);
    if (most > 0 && most < cores)
        cores = most;
    return cores < 1 ? 1 : cores > MOST_LOADERS ? MOST_LOADERS : cores;
}

static tenon_status start(batch_feed *f) {
    const batch_feed_options *o = &f->options;
    int64_t batch = f->model->batch;
    int loaders = count_loaders(f);
    /* While each instance runs one batch, another waits, each loader fills one, and one is written.
     */
    f->slot_count = 2 * tenon_pool_instances(f->pool) + loaders + 1;
    f->slots = calloc((size_t)f->slot_count, sizeof *f->slots);
    if (!f->slots)
        return batch_no_memory();
    for (int i = 0; i < f->slot_count; i++)
        BATCH_TRY(make_slot(f, &f->slots[i]));
    f->next = f->out = (o->done + batch - 1) / batch;
    /* A part batch is the last. */
    if (f->options.end < 0 && o->done % batch != 0)
        f->options.end = o->first + o->done;
    f->end = o->end < 0 ? -1 : (o->end - o->first + batch - 1) / batch;
    f->total = o->end;
    for (int i = 0; i < loaders; i++) {
        pthread_mutex_lock(&f->lock);
        bool ok = pthread_create(&f->threads[i], NULL, load, f) == 0;
        f->thread_count += ok;
        f->alive += ok;
        pthread_mutex_unlock(&f->lock);
        if (!ok)
            return tenon_fail(TENON_OUT_OF_MEMORY, "no thread could be started");
    }
    return TENON_OK;
}

tenon_status batch_feed_start(const batch_model *model, tenon_pool *pool,
                              const batch_feed_options *options, batch_feed **out) {
    batch_feed *f = calloc(1, sizeof *f);
    if (!f)
        return batch_no_memory();
    f->model = model;
    f->pool = pool;
    f->options = *options;
    f->output_count = tenon_graph_output_count(model->graph);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->freed, NULL);
    pthread_cond_init(&f->ready, NULL);
    tenon_status status = start(f);
    if (status != TENON_OK)
        batch_feed_stop(&f);
    else
        *out = f;
    return status;
}

void batch_feed_stop(batch_feed **feed) {
    batch_feed *f = *feed;
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_broadcast(&f->freed);
    pthread_mutex_unlock(&f->lock);
    for (int i = 0; i < f->thread_count; i++)
        pthread_join(f->threads[i], NULL);
    tenon_pool_drain(f->pool); /* after this no slot is in use */
    for (int i = 0; f->slots && i < f->slot_count; i++)
        free_slot(f, &f->slots[i]);
    free(f->slots);
    pthread_cond_destroy(&f->ready);
    pthread_cond_destroy(&f->freed);
    pthread_mutex_destroy(&f->lock);
    free(f);
    *feed = NULL;
}
