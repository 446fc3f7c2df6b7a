/* What the driver of recurrent layers and its loops for one type share. */
#ifndef TN_RNN_H
#define TN_RNN_H

#include "kernels/product.h"

typedef enum tn_rnn_kind { TN_RNN_LSTM, TN_RNN_GRU, TN_RNN_TANH, TN_RNN_RELU } tn_rnn_kind;

/* One direction of one layer. Everything is packed and of the class's type. `gates` is 4 for LSTM
 * (in, forget, cell, out), 3 for GRU (reset, update, new), 1 otherwise; the state has `hidden`
 * numbers, the cell `cell`, which differ with a projection. */
typedef struct tn_rnn_layer {
    tn_rnn_kind kind;
    tn_class class;
    int64_t steps, batch, width, hidden, cell;
    int gates;
    bool reverse;
    const void *w_in, *w_state, *b_in, *b_state,
        *projection; /* biases and projection may be NULL */
    const void *in;  /* [steps, batch, width] */
    void *out;       /* [steps, batch, out_row], of which this direction has `hidden` numbers */
    int64_t out_row;
    void *state, *memory; /* [batch, hidden], and for LSTM [batch, cell]: first and last */
    void *from_in;        /* scratch [steps, batch, gates * cell] */
    void *from_state;     /* scratch [batch, gates * cell] */
    void *raw;            /* scratch [batch, cell], with a projection */
} tn_rnn_layer;

#endif
