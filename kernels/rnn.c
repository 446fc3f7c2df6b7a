/* Recurrent layers: LSTM, GRU and plain ones, of several layers and one or two directions. */
#include "kernels/rnn.h"
#include "kernels/iterate.h"
#include "kernels/vmath.h"
#include <math.h>
#include <string.h>

#define T float
#define R(name) name##_f32
#define SIGMOID tn_sigmoidf
#define TANH tn_tanhf
#include "kernels/rnn_template.h"
#undef T
#undef R
#undef SIGMOID
#undef TANH

static inline double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

#define T double
#define R(name) name##_f64
#define SIGMOID sigmoid
#define TANH tanh
#include "kernels/rnn_template.h"

/* ---- Products ---- */

#define FEW_ROWS 4

static tn_gemm affine_gemm(tn_class class, int64_t m, int64_t n, int64_t k, const void *a,
                           const void *w, const void *bias, void *c) {
    tenon_dtype dtype = class == TN_CLASS_F64 ? TENON_FLOAT64 : TENON_FLOAT32;
    tn_gemm g = {.class = class, .batch = 1, .m = m, .n = n, .k = k, .alpha = 1};
    g.a = TN_K(operand)(class, a, dtype, k, 1, 0);
    g.b = TN_K(operand)(class, w, dtype, k, 1, 0);
    g.share_a = m < n;
    g.c = c;
    g.c_row = n;
    g.bias = bias;
    return g;
}

static void add_bias(tn_class class, int64_t rows, int64_t n, int64_t stride, const void *bias,
                     void *c) {
    for (int64_t i = 0; i < rows * n; i++) {
        int64_t at = i / n * stride + i % n;
        if (class == TN_CLASS_F64)
            ((double *)c)[at] += ((const double *)bias)[i % n];
        else
            ((float *)c)[at] += ((const float *)bias)[i % n];
    }
}

/* c [m, n] = a [m, k] w' + bias, where w is [n, k]; all packed. */
static void affine(tn_class class, int threads, int64_t m, int64_t n, int64_t k, const void *a,
                   const void *w, const void *bias, void *c, void *scratch) {
    if (m > FEW_ROWS || k == 0) {
        tn_gemm g = affine_gemm(class, m, n, k, a, w, bias, c);
        TN_K(gemm)(&g, threads, scratch);
        return;
    }
    tenon_dtype dtype = class == TN_CLASS_F64 ? TENON_FLOAT64 : TENON_FLOAT32;
    int64_t unit = (int64_t)tn_class_size(class);
    enum { BLOCK = 64 };
#pragma omp parallel for num_threads(threads) if (n * k > TN_PARALLEL_WORK)
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t count = n - i < BLOCK ? n - i : BLOCK;
        char *to = (char *)c + i * unit;
        TN_K(dots)(class, m, count, k, a, (const char *)w + i * k * unit, dtype, k, to, n);
        if (bias)
            add_bias(class, m, count, n, (const char *)bias + i * unit, to);
    }
}

static void run_layer(const tn_rnn_layer *l, int threads, void *scratch) {
    int64_t sums = l->gates * l->cell;
    affine(l->class, threads, l->steps * l->batch, sums, l->width, l->in, l->w_in, l->b_in,
           l->from_in, scratch);
    for (int64_t i = 0; i < l->steps; i++) {
        int64_t step = l->reverse ? l->steps - 1 - i : i;
        affine(l->class, threads, l->batch, sums, l->hidden, l->state, l->w_state, l->b_state,
               l->from_state, scratch);
        if (l->class == TN_CLASS_F32)
            step_f32(l, step);
        else
            step_f64(l, step);
        if (l->projection)
            affine(l->class, threads, l->batch, l->hidden, l->cell, l->raw, l->projection, NULL,
                   l->state, scratch);
        if (l->class == TN_CLASS_F32)
            emit_f32(l, step);
        else
            emit_f64(l, step);
    }
}

/* ---- The node ---- */

/* The whole layer stack. `states` and `memories` are [layers * directions, batch, ...]. */
typedef struct stack {
    tn_rnn_layer model; /* what all layers have in common */
    int64_t layers;
    int directions, each; /* parameters of one direction of one layer */
    bool biases, batch_first;
    const void **params;
    char *states, *memories, *outs[2]; /* the outputs of odd and even layers */
    const char *in;
    void *scratch;
} stack;

/* [batch, steps, n] as [steps, batch, n] and back. */
static tenon_view by_steps(const tenon_view *v, bool batch_first) {
    tenon_view t = *v;
    if (batch_first) {
        t.shape[0] = v->shape[1], t.shape[1] = v->shape[0];
        t.strides[0] = v->strides[1], t.strides[1] = v->strides[0];
    }
    return t;
}

static tenon_status load_params(tn_call *call, stack *s) {
    int count = call->node->args[2].count;
    s->params = tn_call_scratch(call, sizeof *s->params * (size_t)count);
    if (!s->params)
        return tn_no_memory();
    for (int i = 0; i < count; i++) {
        s->params[i] = TN_K(packed)(call, s->model.class, &call->in[call->first[2] + i]);
        if (!s->params[i])
            return tn_no_memory();
    }
    return TENON_OK;
}

static tenon_status load_state(tn_call *call, tn_class class, const tenon_view *from, char **to) {
    size_t count = (size_t)tenon_view_numel(from) + 1;
    *to = tn_call_scratch(call, count * tn_class_size(class));
    if (!*to)
        return tn_no_memory();
    TN_K(load_view)(class, *to, from, call->threads);
    return TENON_OK;
}

static size_t most(size_t a, size_t b) {
    return a > b ? a : b;
}

static tenon_status make_scratch(tn_call *call, stack *s) {
    tn_rnn_layer *l = &s->model;
    size_t unit = tn_class_size(l->class);
    int64_t sums = l->gates * l->cell, rows = l->steps * l->batch, widths[3];
    size_t products = 64;
    widths[0] = l->width;
    widths[1] = l->hidden * s->directions;
    widths[2] = l->hidden;
    for (int i = 0; i < 3; i++) {
        tn_gemm in = affine_gemm(l->class, rows, sums, widths[i], NULL, NULL, NULL, NULL);
        tn_gemm state = affine_gemm(l->class, l->batch, sums, widths[i], NULL, NULL, NULL, NULL);
        products = most(products, most(TN_K(gemm_scratch)(&in, call->threads),
                                       TN_K(gemm_scratch)(&state, call->threads)));
    }
    tn_gemm project = affine_gemm(l->class, l->batch, l->hidden, l->cell, NULL, NULL, NULL, NULL);
    products = most(products, TN_K(gemm_scratch)(&project, call->threads));
    s->scratch = tn_call_scratch(call, products);
    l->from_in = tn_call_scratch(call, (size_t)(rows * sums + 1) * unit);
    l->from_state = tn_call_scratch(call, (size_t)(l->batch * sums + 1) * unit);
    l->raw = tn_call_scratch(call, (size_t)(l->batch * l->cell + 1) * unit);
    for (int i = 0; i < 2; i++)
        s->outs[i] = tn_call_scratch(call, (size_t)(rows * l->out_row + 1) * unit);
    bool all = s->scratch && l->from_in && l->from_state && l->raw && s->outs[0] && s->outs[1];
    return all ? TENON_OK : tn_no_memory();
}

static void run_stack(const stack *s, int threads) {
    int64_t unit = (int64_t)tn_class_size(s->model.class);
    for (int64_t layer = 0; layer < s->layers; layer++) {
        for (int d = 0; d < s->directions; d++) {
            tn_rnn_layer l = s->model;
            int64_t place = layer * s->directions + d;
            const void *const *p = s->params + place * s->each;
            l.reverse = d == 1;
            l.in = layer == 0 ? s->in : s->outs[(layer + 1) % 2];
            l.width = layer == 0 ? l.width : l.hidden * s->directions;
            l.out = s->outs[layer % 2] + d * l.hidden * unit;
            l.state = s->states + place * l.batch * l.hidden * unit;
            if (s->memories)
                l.memory = s->memories + place * l.batch * l.cell * unit;
            l.w_in = p[0];
            l.w_state = p[1];
            l.b_in = s->biases ? p[2] : NULL;
            l.b_state = s->biases ? p[3] : NULL;
            l.projection = l.hidden != l.cell ? p[s->each - 1] : NULL;
            run_layer(&l, threads, s->scratch);
        }
    }
}

static tenon_status run(tn_call *call, tn_rnn_kind kind, int gates, const tenon_view *hidden,
                        const tenon_view *cell) {
    const tenon_node *node = call->node;
    stack s = {.model = {.kind = kind, .gates = gates}};
    tn_rnn_layer *l = &s.model;
    s.biases = tn_arg_bool(node, 3);
    s.layers = tn_arg_int(node, 4, 1);
    s.directions = tn_arg_bool(node, 7) ? 2 : 1;
    s.batch_first = tn_arg_bool(node, 8);
    tenon_view in = by_steps(&call->in[0], s.batch_first), out;
    l->class = tn_class_of(in.dtype);
    l->steps = in.shape[0];
    l->batch = in.shape[1];
    l->width = in.shape[2];
    l->hidden = hidden->shape[2];
    l->cell = cell ? cell->shape[2] : l->hidden;
    l->out_row = l->hidden * s.directions;
    s.each = 2 + (s.biases ? 2 : 0) + (l->hidden != l->cell ? 1 : 0);
    TN_TRY(load_params(call, &s));
    TN_TRY(load_state(call, l->class, hidden, &s.states));
    if (cell)
        TN_TRY(load_state(call, l->class, cell, &s.memories));
    s.in = TN_K(packed)(call, l->class, &in);
    if (!s.in)
        return tn_no_memory();
    TN_TRY(make_scratch(call, &s));
    run_stack(&s, call->threads);
    if (call->out[0].dtype != TENON_DTYPE_NONE) {
        out = by_steps(&call->out[0], s.batch_first);
        TN_K(store_view)(l->class, &out, s.outs[(s.layers + 1) % 2], call->threads);
    }
    if (call->out[1].dtype != TENON_DTYPE_NONE)
        TN_K(store_view)(l->class, &call->out[1], s.states, call->threads);
    if (cell && call->out[2].dtype != TENON_DTYPE_NONE)
        TN_K(store_view)(l->class, &call->out[2], s.memories, call->threads);
    return TENON_OK;
}

tenon_status TN_K(lstm)(tn_call *call) {
    const tenon_view *states = &call->in[call->first[1]];
    return run(call, TN_RNN_LSTM, 4, &states[0], &states[1]);
}

tenon_status TN_K(gru)(tn_call *call) {
    return run(call, TN_RNN_GRU, 3, tn_call_in(call, 1), NULL);
}

tenon_status TN_K(rnn_tanh)(tn_call *call) {
    return run(call, TN_RNN_TANH, 1, tn_call_in(call, 1), NULL);
}

tenon_status TN_K(rnn_relu)(tn_call *call) {
    return run(call, TN_RNN_RELU, 1, tn_call_in(call, 1), NULL);
}
