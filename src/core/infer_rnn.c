/* Shapes of recurrent layers. */
#include "core/infer.h"

typedef struct rnn_rule {
    int gates;  /* 4 for LSTM, 3 for GRU, 1 for a plain cell */
    int params; /* the argument; has_biases, num_layers, dropout, train, bidirectional, batch_first
                   follow */
    tn_meta in, hidden;
    int64_t cell; /* the size of the gates; the hidden size differs from it when there is a
                     projection */
} rnn_rule;

static tenon_status check_matrix(tn_infer *infer, int params, int item, int64_t rows, int64_t cols,
                                 tenon_dtype dtype) {
    tn_meta w;
    int rank = cols < 0 ? 1 : 2;
    if (!tn_infer_item(infer, params, item, &w) || w.dtype != dtype || w.rank != rank ||
        w.shape[0] != rows || (cols >= 0 && w.shape[1] != cols))
        return tn_infer_fail(infer, "needs parameter %d of rank %d with %lld rows and %lld columns",
                             item, rank, (long long)rows, (long long)(cols < 0 ? 1 : cols));
    return TENON_OK;
}

static tenon_status check_params(tn_infer *infer, const rnn_rule *rule, int64_t layers,
                                 int directions) {
    const tenon_node *node = infer->node;
    bool biases = tn_arg_bool(node, rule->params + 1);
    int64_t hidden = rule->hidden.shape[2], rows;
    bool projects = hidden != rule->cell;
    int each = 2 + (biases ? 2 : 0) + (projects ? 1 : 0), item = 0;
    if (layers < 1 || layers > INT32_MAX / (each * directions) ||
        tn_infer_length(infer, rule->params) != layers * directions * each)
        return tn_infer_fail(infer, "needs %d parameters for each of %lld layers and %d directions",
                             each, (long long)layers, directions);
    if (!tn_mul(rule->cell, rule->gates, &rows))
        return tn_infer_fail(infer, "has too large gates");
    for (int64_t layer = 0; layer < layers; layer++) {
        int64_t width = layer == 0 ? rule->in.shape[2] : hidden * directions;
        for (int direction = 0; direction < directions; direction++, item += each) {
            tenon_dtype dtype = rule->in.dtype;
            TN_TRY(check_matrix(infer, rule->params, item, rows, width, dtype));
            TN_TRY(check_matrix(infer, rule->params, item + 1, rows, hidden, dtype));
            if (biases) {
                TN_TRY(check_matrix(infer, rule->params, item + 2, rows, -1, dtype));
                TN_TRY(check_matrix(infer, rule->params, item + 3, rows, -1, dtype));
            }
            if (projects)
                TN_TRY(
                    check_matrix(infer, rule->params, item + each - 1, hidden, rule->cell, dtype));
        }
    }
    return TENON_OK;
}

static tenon_status rnn(tn_infer *infer, rnn_rule *rule, const tn_meta *state) {
    const tenon_node *node = infer->node;
    int64_t layers = tn_arg_int(node, rule->params + 2, 1);
    double dropout = tn_arg_float(node, rule->params + 3, 0);
    bool train = tn_arg_bool(node, rule->params + 4);
    int directions = tn_arg_bool(node, rule->params + 5) ? 2 : 1;
    bool batch_first = tn_arg_bool(node, rule->params + 6);
    if (train && dropout != 0)
        return tn_infer_fail(infer, "needs dropout 0 or train False");
    if (!tn_infer_in(infer, 0, &rule->in) || rule->in.rank != 3 ||
        !tn_dtype_is_float(rule->in.dtype))
        return tn_infer_fail(infer, "needs a floating-point input of rank 3");
    int64_t batch = rule->in.shape[batch_first ? 0 : 1];
    const tn_meta *hidden = &rule->hidden;
    if (hidden->rank != 3 || hidden->dtype != rule->in.dtype || layers < 1 || layers > INT32_MAX ||
        hidden->shape[0] != layers * directions || hidden->shape[1] != batch)
        return tn_infer_fail(infer, "needs an initial state of shape [%lld, %lld, hidden]",
                             (long long)layers * directions, (long long)batch);
    rule->cell = hidden->shape[2];
    if (state) {
        if (state->rank != 3 || state->dtype != rule->in.dtype ||
            state->shape[0] != hidden->shape[0] || state->shape[1] != batch)
            return tn_infer_fail(infer, "needs an initial cell state of shape [%lld, %lld, cell]",
                                 (long long)layers * directions, (long long)batch);
        rule->cell = state->shape[2];
        infer->out[2] = *state;
    }
    TN_TRY(check_params(infer, rule, layers, directions));
    infer->out[0] = rule->in;
    if (!tn_mul(hidden->shape[2], directions, &infer->out[0].shape[2]))
        return tn_infer_fail(infer, "has a too large state");
    infer->out[1] = *hidden;
    return TENON_OK;
}

tenon_status tn_infer_lstm(tn_infer *infer) {
    rnn_rule rule = {.gates = 4, .params = 2};
    tn_meta state;
    if (tn_infer_length(infer, 1) != 2 || !tn_infer_item(infer, 1, 0, &rule.hidden) ||
        !tn_infer_item(infer, 1, 1, &state))
        return tn_infer_fail(infer, "needs two initial states");
    return rnn(infer, &rule, &state);
}

static tenon_status one_state(tn_infer *infer, int gates) {
    rnn_rule rule = {.gates = gates, .params = 2};
    if (!tn_infer_in(infer, 1, &rule.hidden))
        return tn_infer_fail(infer, "needs an initial state");
    return rnn(infer, &rule, NULL);
}

tenon_status tn_infer_gru(tn_infer *infer) {
    return one_state(infer, 3);
}

/* rnn_tanh and rnn_relu */
tenon_status tn_infer_rnn(tn_infer *infer) {
    return one_state(infer, 1);
}
