/* Attention of one block of queries, for one type. Included by attention.c, which defines T,
 * A(name) and EXP. */

/* Adds the mask, or minus infinity where a boolean mask is false, so that NaN stays NaN. */
static void A(add_mask)(const tn_attention *a, int64_t row, int64_t first, int64_t n, void *buffer,
                        T *restrict scores) {
    const tn_attention_matrix *m = &a->mask;
    int64_t size = (int64_t)tenon_dtype_size(m->dtype);
    const char *from = m->data + (row * m->row + first * m->column) * size;
    if (m->dtype == TENON_BOOL) {
        uint8_t *keep = buffer;
        TN_K(load)[TN_CLASS_BOOL][m->dtype](keep, from, m->column * size, n);
        for (int64_t i = 0; i < n; i++)
            scores[i] += keep[i] ? 0 : -(T)INFINITY;
    } else {
        T *add = buffer;
        TN_K(load)[a->class][m->dtype](add, from, m->column * size, n);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            scores[i] += add[i];
    }
}

static T A(greatest)(const T *scores, int64_t n, T best) {
    T other = best, nan = 0;
#pragma omp simd reduction(max : other) reduction(+ : nan)
    for (int64_t i = 0; i < n; i++) {
        other = scores[i] > other ? scores[i] : other;
        nan += scores[i] != scores[i] ? 1 : 0;
    }
    return nan != 0 ? (T)NAN : other;
}

/* Scores to weights relative to the greatest score so far; what was summed before is scaled to
 * match. */
static void A(weigh)(const tn_attention *a, T *restrict scores, int64_t n, T *best, T *total,
                     T *restrict sums) {
    T now = A(greatest)(scores, n, *best);
    if (*best != *best)
        now = *best;
    if (now == -(T)INFINITY) { /* all masked so far */
        memset(scores, 0, (size_t)n * sizeof *scores);
        return;
    }
    T scale = EXP(*best - now), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        scores[i] = EXP(scores[i] - now);
        sum += scores[i];
    }
    *total = *total * scale + sum;
    *best = now;
    for (int64_t i = 0; i < a->value_width && scale != 1; i++)
        sums[i] *= scale;
}

static void A(scores)(const tn_attention *a, const tn_attention_memory *m, int64_t row,
                      int64_t rows, int64_t first, int64_t n) {
    int64_t query = (int64_t)tenon_dtype_size(a->query.dtype);
    int64_t key = (int64_t)tenon_dtype_size(a->key.dtype);
    tn_gemm g = {.class = a->class, .batch = 1, .m = rows, .n = n, .k = a->width};
    g.a = TN_K(operand)(a->class, a->query.data + row * a->query.row * query, a->query.dtype,
                        a->query.row, a->query.column, 0);
    g.b = TN_K(operand)(a->class, a->key.data + first * a->key.row * key, a->key.dtype, a->key.row,
                        a->key.column, 0);
    g.c = m->scores;
    g.c_row = TN_ATTENTION_KEYS;
    g.alpha = a->scale;
    TN_K(gemm)(&g, 1, m->products);
}

static void A(add_values)(const tn_attention *a, const tn_attention_memory *m, int64_t rows,
                          int64_t first, int64_t n) {
    int64_t size = (int64_t)tenon_dtype_size(a->value.dtype);
    tn_gemm g = {.class = a->class, .batch = 1, .m = rows, .n = a->value_width, .k = n};
    g.a = TN_K(operand)(a->class, m->scores, CLASS_DTYPE, TN_ATTENTION_KEYS, 1, 0);
    g.b = TN_K(operand)(a->class, a->value.data + first * a->value.row * size, a->value.dtype,
                        a->value.column, a->value.row, 0);
    g.c = m->sums;
    g.c_row = a->value_width;
    g.alpha = 1;
    g.accumulate = true;
    TN_K(gemm)(&g, 1, m->products);
}

static void A(store)(const tn_attention *a, const tn_attention_memory *m, int64_t row,
                     int64_t rows) {
    int64_t size = (int64_t)tenon_dtype_size(a->out.dtype);
    tn_store_fn store = TN_K(store)[a->class][a->out.dtype];
    for (int64_t r = 0; r < rows; r++) {
        T *sums = (T *)m->sums + r * a->value_width, total = ((T *)m->total)[r];
        T scale = total != 0 ? 1 / total : 0; /* a query that sees no key gives 0 */
        for (int64_t i = 0; i < a->value_width; i++)
            sums[i] = total != 0 ? sums[i] * scale : 0;
        store(a->out.data + (row + r) * a->out.row * size, a->out.column * size, sums,
              a->value_width);
    }
}

/* Queries row..row + rows - 1, which see the keys block by block (Dao et al., "FlashAttention",
 * algorithm 1). */
static void A(block)(const tn_attention *a, const tn_attention_memory *m, int64_t row,
                     int64_t rows) {
    T *best = (T *)m->best, *total = (T *)m->total, *sums = (T *)m->sums;
    int64_t keys = a->causal && row + rows < a->keys ? row + rows : a->keys;
    memset(sums, 0, (size_t)(rows * a->value_width) * sizeof *sums);
    for (int64_t r = 0; r < rows; r++) {
        best[r] = -(T)INFINITY;
        total[r] = 0;
    }
    for (int64_t first = 0; first < keys; first += TN_ATTENTION_KEYS) {
        int64_t n = keys - first < TN_ATTENTION_KEYS ? keys - first : TN_ATTENTION_KEYS;
        A(scores)(a, m, row, rows, first, n);
        for (int64_t r = 0; r < rows; r++) {
            T *scores = (T *)m->scores + r * TN_ATTENTION_KEYS;
            if (a->mask.data)
                A(add_mask)(a, row + r, first, n, m->mask, scores);
            for (int64_t i = row + r + 1 - first > 0 ? row + r + 1 - first : 0; a->causal && i < n;
                 i++)
                scores[i] = -(T)INFINITY;
            A(weigh)(a, scores, n, &best[r], &total[r], sums + r * a->value_width);
        }
        A(add_values)(a, m, rows, first, n);
    }
    A(store)(a, m, row, rows);
}
