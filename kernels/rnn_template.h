/* The cells of recurrent layers, for one type. Included by rnn.c, which defines T, R(name), SIGMOID
 * and TANH. The formulas are those of PyTorch's documentation of LSTM, GRU and RNN; `x` holds the
 * gates' sums from the input, `h` those from the state, biases included. */

static void R(lstm)(int64_t n, const T *restrict x, const T *restrict h, T *restrict memory,
                    T *restrict out) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        T in = SIGMOID(x[i] + h[i]), forget = SIGMOID(x[n + i] + h[n + i]);
        T cell = TANH(x[2 * n + i] + h[2 * n + i]), pass = SIGMOID(x[3 * n + i] + h[3 * n + i]);
        memory[i] = forget * memory[i] + in * cell;
        out[i] = pass * TANH(memory[i]);
    }
}

static void R(gru)(int64_t n, const T *restrict x, const T *restrict h, T *restrict state) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        T reset = SIGMOID(x[i] + h[i]), update = SIGMOID(x[n + i] + h[n + i]);
        T fresh = TANH(x[2 * n + i] + reset * h[2 * n + i]);
        state[i] = fresh + update * (state[i] - fresh);
    }
}

static void R(plain)(int64_t n, bool relu, const T *restrict x, const T *restrict h,
                     T *restrict state) {
    if (relu) {
        for (int64_t i = 0; i < n; i++) {
            T sum = x[i] + h[i];
            state[i] = sum < 0 ? 0 : sum; /* NaN stays */
        }
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        state[i] = TANH(x[i] + h[i]);
}

/* One step, once the sums are there: new states, and the step's output. */
static void R(step)(const tn_rnn_layer *l, int64_t step) {
    int64_t sums = l->gates * l->cell;
    for (int64_t b = 0; b < l->batch; b++) {
        const T *x = (const T *)l->from_in + (step * l->batch + b) * sums;
        const T *h = (const T *)l->from_state + b * sums;
        T *state = (T *)l->state + b * l->hidden;
        if (l->kind == TN_RNN_LSTM)
            R(lstm)
        (l->cell, x, h, (T *)l->memory + b * l->cell,
         l->projection ? (T *)l->raw + b * l->cell : state);
        else if (l->kind == TN_RNN_GRU) R(gru)(l->cell, x, h, state);
        else R(plain)(l->cell, l->kind == TN_RNN_RELU, x, h, state);
    }
}

static void R(emit)(const tn_rnn_layer *l, int64_t step) {
    for (int64_t b = 0; b < l->batch; b++)
        memcpy((T *)l->out + (step * l->batch + b) * l->out_row, (T *)l->state + b * l->hidden,
               (size_t)l->hidden * sizeof(T));
}
