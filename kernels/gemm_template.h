/* The blocked product for one type. Included by gemm.c, which defines T (the type), NUMBER (to it
 * from double), G(name) (the name's suffix) and ROWS (rows of C in registers). */

typedef T G(vec) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));

enum {
    G(LANES) = VECTOR_BYTES / sizeof(T),
    G(COLUMNS) = 2 * G(LANES),
    G(LD) = TN_GEMM_LD(sizeof(T)),
};

/* Where a tile of C goes. */
typedef struct G(target) {
    T *c;
    int64_t row; /* stride */
    int rows, columns;
    T alpha;
    bool accumulate;
    const T *row_bias, *column_bias;
} G(target);

static inline T G(start)(const G(target) * t, int r, int c) {
    if (t->accumulate)
        return t->c[r * t->row + c];
    return t->row_bias ? t->row_bias[r] : t->column_bias ? t->column_bias[c] : (T)0;
}

/* Tiles at the edges go through a buffer. */
static void G(store_edge)(const G(target) * t, const T *edge) {
    for (int r = 0; r < t->rows; r++) {
        for (int c = 0; c < t->columns; c++)
            t->c[r * t->row + c] = edge[r * G(COLUMNS) + c] + G(start)(t, r, c);
    }
}

/* rows x (vectors * LANES) of C; `rows` and `vectors` are constants of each call. */
__attribute__((always_inline)) static inline void G(tile)(int64_t depth, const T *a, const T *b,
                                                          int64_t ldb, const G(target) * t,
                                                          const int rows, const int vectors) {
    G(vec) acc[ROWS][2];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            acc[r][v] = (G(vec)){0};
    }
    for (int64_t k = 0; k < depth; k++) {
        G(vec) x[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            x[v] = *(const G(vec) *)(b + v * G(LANES));
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            T y = a[r * G(LD) + k];
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                acc[r][v] += y * x[v];
        }
        b += ldb;
    }
    if (t->rows == rows && t->columns == vectors * G(LANES)) {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) {
                G(vec) *to = (G(vec) *)(t->c + r * t->row + v * G(LANES));
                G(vec) sum = acc[r][v] * t->alpha;
                if (t->accumulate)
                    sum += *to;
                else if (t->row_bias)
                    sum += t->row_bias[r];
                else if (t->column_bias)
                    sum += *(const G(vec) *)(t->column_bias + v * G(LANES));
                *to = sum;
            }
        }
        return;
    }
    T edge[ROWS * G(COLUMNS)];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            *(G(vec) *)(edge + r * G(COLUMNS) + v * G(LANES)) = acc[r][v] * t->alpha;
    }
    G(store_edge)(t, edge);
}

#define TILE(rows)                                                                              \
    static __attribute__((noinline)) void G(tile_##rows)(int64_t depth, const T *a, const T *b, \
                                                         int64_t ldb, const G(target) * t) {    \
        if (t->columns > G(LANES))                                                              \
            G(tile)(depth, a, b, ldb, t, rows, 2);                                              \
        else                                                                                    \
            G(tile)(depth, a, b, ldb, t, rows, 1);                                              \
    }
TILE(1)
TILE(2)
TILE(4)
#if ROWS >= 6
TILE(6)
#endif
#if ROWS == 12
TILE(8)
TILE(12)
#endif
#undef TILE

static void G(compute)(int64_t depth, const T *a, const T *b, int64_t ldb, const G(target) * t) {
    if (t->rows == 1)
        G(tile_1)(depth, a, b, ldb, t);
    else if (t->rows == 2)
        G(tile_2)(depth, a, b, ldb, t);
    else if (t->rows <= 4)
        G(tile_4)(depth, a, b, ldb, t);
#if ROWS >= 6
    else if (t->rows <= 6)
        G(tile_6)(depth, a, b, ldb, t);
#endif
#if ROWS == 12
    else if (t->rows <= 8)
        G(tile_8)(depth, a, b, ldb, t);
    else
        G(tile_12)(depth, a, b, ldb, t);
#endif
}

/* One product in progress. "Shared" and "local" are A and B in the order that share_a tells. */
typedef struct G(job) {
    const tn_gemm *g;
    const tn_operand *shared, *local;
    int shared_width, local_width;     /* of a panel: rows of A or columns of B */
    int64_t shared_size, local_size;   /* elements of a packed panel */
    int64_t shared_count, local_count; /* rows or columns */
    int64_t shared_panels, local_panels;
    int64_t block, blocks;         /* local panels of a block; blocks of a batch */
    int64_t chunk, splits, depths; /* shared panels packed at once; parts of them; blocks of k */
    int64_t first, panels;         /* the chunk at hand */
    T *packed, *buffers;
} G(job);

static void G(plan_blocks)(G(job) * j, int threads) {
    int64_t batch = j->g->batch, wanted = 4 * (int64_t)threads;
    size_t chunk = j->g->chunk ? j->g->chunk : (size_t)16 << 20;
    j->chunk = (int64_t)(chunk / sizeof(T)) / (j->depths * j->shared_size);
    if (j->chunk > j->shared_panels)
        j->chunk = j->shared_panels;
    if (j->chunk < 1)
        j->chunk = 1;
    j->block = 8;
    if (threads > 1 && batch * j->local_panels < wanted * j->block)
        j->block = (batch * j->local_panels + wanted - 1) / wanted;
    if (j->block > j->local_panels)
        j->block = j->local_panels;
    j->blocks = (j->local_panels + j->block - 1) / j->block;
    int64_t tasks = batch * j->blocks;
    j->splits = threads > 1 && tasks < 2 * threads ? (2 * threads + tasks - 1) / tasks : 1;
    if (j->splits > j->chunk)
        j->splits = j->chunk;
}

static G(job) G(plan)(const tn_gemm *g, int threads) {
    G(job) j = {.g = g};
    int64_t a_size = ROWS * G(LD), b_size = G(COLUMNS) * TN_GEMM_DEPTH;
    j.shared = g->share_a ? &g->a : &g->b;
    j.local = g->share_a ? &g->b : &g->a;
    j.shared_width = g->share_a ? ROWS : G(COLUMNS);
    j.local_width = g->share_a ? G(COLUMNS) : ROWS;
    j.shared_size = g->share_a ? a_size : b_size;
    j.local_size = g->share_a ? b_size : a_size;
    j.shared_count = g->share_a ? g->m : g->n;
    j.local_count = g->share_a ? g->n : g->m;
    j.depths = (g->k + TN_GEMM_DEPTH - 1) / TN_GEMM_DEPTH;
    j.local_panels = (j.local_count + j.local_width - 1) / j.local_width;
    j.shared_panels = (j.shared_count + j.shared_width - 1) / j.shared_width;
    G(plan_blocks)(&j, threads);
    return j;
}

static inline int64_t G(depth_at)(const tn_gemm *g, int64_t k) {
    return g->k - k < TN_GEMM_DEPTH ? g->k - k : TN_GEMM_DEPTH;
}

static void G(pack_shared)(const G(job) * j, int64_t index) {
    int64_t d = index / j->panels, panel = index % j->panels;
    int64_t k = d * TN_GEMM_DEPTH, first = (j->first + panel) * j->shared_width;
    int64_t count = j->shared_count - first;
    j->shared->pack(j->shared, j->packed + (d * j->chunk + panel) * j->shared_size, 0, first,
                    count < j->shared_width ? count : j->shared_width, k, G(depth_at)(j->g, k),
                    j->g->share_a ? 0 : G(COLUMNS));
}

/* The tile of C at local panel `l` and shared panel `s`. */
static inline void G(one)(const G(job) * j, int64_t batch, int64_t l, int64_t s, int64_t depth,
                          const T *shared, const T *local, bool start) {
    const tn_gemm *g = j->g;
    int64_t row = (g->share_a ? s : l) * ROWS, column = (g->share_a ? l : s) * G(COLUMNS);
    G(target)
    t = {
        .c = (T *)g->c + batch * g->c_batch + row * g->c_row + column,
        .row = g->c_row,
        .rows = (int)(g->m - row < ROWS ? g->m - row : ROWS),
        .columns = (int)(g->n - column < G(COLUMNS) ? g->n - column : G(COLUMNS)),
        .alpha = NUMBER(g->alpha),
        .accumulate = g->accumulate || !start,
    };
    if (g->bias && g->bias_rows)
        t.row_bias = (const T *)g->bias + row;
    else if (g->bias)
        t.column_bias = (const T *)g->bias + column;
    G(compute)(depth, g->share_a ? shared : local, g->share_a ? local : shared, G(COLUMNS), &t);
}

static void G(task)(const G(job) * j, int64_t index, int thread) {
    int64_t split = index % j->splits, block = index / j->splits % j->blocks;
    int64_t batch = index / j->splits / j->blocks;
    int64_t s0 = j->panels * split / j->splits, s1 = j->panels * (split + 1) / j->splits;
    int64_t l0 = block * j->block;
    int64_t l1 = l0 + j->block < j->local_panels ? l0 + j->block : j->local_panels;
    T *buffer = j->buffers + thread * j->block * j->local_size;
    for (int64_t d = 0; d < j->depths; d++) {
        int64_t k = d * TN_GEMM_DEPTH, depth = G(depth_at)(j->g, k);
        for (int64_t l = l0; l < l1; l++) {
            int64_t first = l * j->local_width, count = j->local_count - first;
            j->local->pack(j->local, buffer + (l - l0) * j->local_size, batch, first,
                           count < j->local_width ? count : j->local_width, k, depth,
                           j->g->share_a ? G(COLUMNS) : 0);
        }
        for (int64_t s = s0; s < s1; s++) {
            const T *shared = j->packed + (d * j->chunk + s) * j->shared_size;
            for (int64_t l = l0; l < l1; l++)
                G(one)
            (j, batch, l, j->first + s, depth, shared, buffer + (l - l0) * j->local_size, d == 0);
        }
    }
}

static void G(no_depth)(const tn_gemm *g) {
    const T *rows = g->bias_rows ? g->bias : NULL, *columns = g->bias_rows ? NULL : g->bias;
    for (int64_t i = 0; i < g->batch * g->m && !g->accumulate; i++) {
        T *to = (T *)g->c + i / g->m * g->c_batch + i % g->m * g->c_row;
        for (int64_t c = 0; c < g->n; c++)
            to[c] = rows ? rows[i % g->m] : columns ? columns[c] : (T)0;
    }
}

static void G(run)(const tn_gemm *g, int threads, void *scratch) {
    if (g->k == 0) {
        G(no_depth)(g);
        return;
    }
    G(job) job = G(plan)(g, threads), *j = &job;
    j->packed = scratch;
    j->buffers = j->packed + j->depths * j->chunk * j->shared_size;
    for (j->first = 0; j->first < j->shared_panels; j->first += j->chunk) {
        int64_t left = j->shared_panels - j->first;
        j->panels = left < j->chunk ? left : j->chunk;
        int64_t packs = j->depths * j->panels, tasks = g->batch * j->blocks * j->splits;
        if (threads > 1) {
#pragma omp parallel num_threads(threads)
            {
                int thread = omp_get_thread_num();
#pragma omp for schedule(dynamic, 4)
                for (int64_t i = 0; i < packs; i++)
                    G(pack_shared)(j, i);
#pragma omp for schedule(dynamic)
                for (int64_t i = 0; i < tasks; i++)
                    G(task)(j, i, thread);
            }
        } else {
            for (int64_t i = 0; i < packs; i++)
                G(pack_shared)(j, i);
            for (int64_t i = 0; i < tasks; i++)
                G(task)(j, i, 0);
        }
    }
}

static size_t G(size)(const tn_gemm *g, int threads) {
    G(job) j = G(plan)(g, threads);
    return sizeof(T) *
           (size_t)(j.depths * j.chunk * j.shared_size + threads * j.block * j.local_size);
}
