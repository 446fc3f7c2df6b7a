/* Matrix products: normalises strides and dtypes, then takes dot products for few rows, or the
 * blocked product. */
#include "kernels/product.h"
#include "kernels/iterate.h"
#include <omp.h>
#include <string.h>

/* ---- Views to packed rows and back ---- */

typedef struct row_list {
    int64_t count, length;
    int rank; /* of the dimensions that count rows */
} row_list;

static row_list rows_of(const tenon_view *view) {
    row_list r = {1, 1, 0};
    if (view->rank > 0) {
        r.rank = view->rank - 1;
        r.length = view->shape[r.rank];
    }
    for (int d = 0; d < r.rank; d++)
        r.count *= view->shape[d];
    return r;
}

static int64_t row_offset(const tenon_view *view, int rank, int64_t index) {
    int64_t offset = 0;
    for (int d = rank - 1; d >= 0; d--) {
        offset += index % view->shape[d] * view->strides[d];
        index /= view->shape[d];
    }
    return offset;
}

void TN_K(load_view)(tn_class class, void *to, const tenon_view *view, int threads) {
    row_list r = rows_of(view);
    tn_load_fn load = TN_K(load)[class][view->dtype];
    int64_t size = (int64_t)tenon_dtype_size(view->dtype), unit = (int64_t)tn_class_size(class);
    int64_t stride = view->rank ? view->strides[r.rank] * size : size;
#pragma omp parallel for num_threads(threads) if (threads > 1 && r.count > 1 && \
                                                  r.count * r.length > TN_PARALLEL_WORK)
    for (int64_t i = 0; i < r.count; i++)
        load((char *)to + i * r.length * unit,
             (const char *)view->data + row_offset(view, r.rank, i) * size, stride, r.length);
}

void TN_K(store_view)(tn_class class, const tenon_view *view, const void *from, int threads) {
    row_list r = rows_of(view);
    tn_store_fn store = TN_K(store)[class][view->dtype];
    int64_t size = (int64_t)tenon_dtype_size(view->dtype), unit = (int64_t)tn_class_size(class);
    int64_t stride = view->rank ? view->strides[r.rank] * size : size;
#pragma omp parallel for num_threads(threads) if (threads > 1 && r.count > 1 && \
                                                  r.count * r.length > TN_PARALLEL_WORK)
    for (int64_t i = 0; i < r.count; i++)
        store((char *)view->data + row_offset(view, r.rank, i) * size, stride,
              (const char *)from + i * r.length * unit, r.length);
}

const void *TN_K(packed)(tn_call *call, tn_class class, const tenon_view *view) {
    int64_t count = tenon_view_numel(view);
    if (count > 0 && tn_class_is(class, view->dtype) && tenon_view_is_contiguous(view))
        return view->data;
    void *to = tn_call_scratch(call, ((size_t)count + 1) * tn_class_size(class));
    if (to)
        TN_K(load_view)(class, to, view, call->threads);
    return to;
}

/* ---- Few rows: dot products, or sums of rows of b ---- */

static inline float same_float(float x) {
    return x;
}
static inline double same_double(double x) {
    return x;
}

#define DOTS(name, type, element, convert)                                                   \
    static void name(int64_t m, int64_t n, int64_t k, const type *a, const element *b,       \
                     int64_t ldb, type *out, int64_t out_row) {                              \
        int64_t i = 0;                                                                       \
        for (; i + 4 <= n; i += 4) {                                                         \
            const element *b0 = b + i * ldb, *b1 = b0 + ldb, *b2 = b1 + ldb, *b3 = b2 + ldb; \
            for (int64_t r = 0; r < m; r++) {                                                \
                const type *x = a + r * k;                                                   \
                type s0 = 0, s1 = 0, s2 = 0, s3 = 0;                                         \
                _Pragma("omp simd reduction(+ : s0, s1, s2, s3)") for (int64_t j = 0; j < k; \
                                                                       j++) {                \
                    s0 += x[j] * convert(b0[j]);                                             \
                    s1 += x[j] * convert(b1[j]);                                             \
                    s2 += x[j] * convert(b2[j]);                                             \
                    s3 += x[j] * convert(b3[j]);                                             \
                }                                                                            \
                type *to = out + r * out_row + i;                                            \
                to[0] = s0;                                                                  \
                to[1] = s1;                                                                  \
                to[2] = s2;                                                                  \
                to[3] = s3;                                                                  \
            }                                                                                \
        }                                                                                    \
        for (; i < n; i++) {                                                                 \
            for (int64_t r = 0; r < m; r++) {                                                \
                type s = 0;                                                                  \
                _Pragma("omp simd reduction(+ : s)") for (int64_t j = 0; j < k; j++) s +=    \
                    a[r * k + j] * convert(b[i * ldb + j]);                                  \
                out[r * out_row + i] = s;                                                    \
            }                                                                                \
        }                                                                                    \
    }

DOTS(dots_f32, float, float, same_float)
DOTS(dots_bf16, float, uint16_t, tn_bf16_to_float)
DOTS(dots_f16, float, uint16_t, tn_half_float)
DOTS(dots_f64, double, double, same_double)

void TN_K(dots)(tn_class class, int64_t m, int64_t n, int64_t k, const void *a, const void *b,
                tenon_dtype dtype, int64_t ldb, void *out, int64_t out_row) {
    if (class == TN_CLASS_F64)
        dots_f64(m, n, k, a, b, ldb, out, out_row);
    else if (dtype == TENON_BFLOAT16)
        dots_bf16(m, n, k, a, b, ldb, out, out_row);
    else if (dtype == TENON_FLOAT16)
        dots_f16(m, n, k, a, b, ldb, out, out_row);
    else
        dots_f32(m, n, k, a, b, ldb, out, out_row);
}

/* out = a row of `a` times n neighbouring columns of b */
#define SUM_ROWS(name, type)                                                                     \
    static void name(int64_t n, int64_t k, const type *restrict a, const type *restrict b,       \
                     int64_t ldb, type *restrict out) {                                          \
        memset(out, 0, (size_t)n * sizeof *out);                                                 \
        int64_t j = 0;                                                                           \
        for (; j + 4 <= k; j += 4) {                                                             \
            const type *b0 = b + j * ldb, *b1 = b0 + ldb, *b2 = b1 + ldb, *b3 = b2 + ldb;        \
            type a0 = a[j], a1 = a[j + 1], a2 = a[j + 2], a3 = a[j + 3];                         \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] +=                        \
                a0 * b0[i] + a1 * b1[i] + (a2 * b2[i] + a3 * b3[i]);                             \
        }                                                                                        \
        for (; j < k; j++) {                                                                     \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] += a[j] * b[j * ldb + i]; \
        }                                                                                        \
    }

SUM_ROWS(sum_rows_f32, float)
SUM_ROWS(sum_rows_f64, double)

#define FEW_ROWS 4
#define FEW_COLUMNS 256 /* of c that one task computes */

/* One block of columns of one batch: alpha * a b, plus what c holds with `keep`. `c` is of the
 * class's type with columns as neighbours. */
static void few_rows_block(const tn_product *p, tn_class class, const char *a, char *c,
                           const tn_matrix *out, int64_t batch, int64_t first, bool keep) {
    int64_t unit = (int64_t)tn_class_size(class);
    int64_t n = p->n - first < FEW_COLUMNS ? p->n - first : FEW_COLUMNS;
    double buffer[FEW_ROWS * FEW_COLUMNS];
    char *b = (char *)p->b.data +
              (batch * p->b.batch + first * p->b.column) * (int64_t)tenon_dtype_size(p->b.dtype);
    a += batch * p->m * p->k * unit;
    c += (batch * out->batch + first) * unit;
    if (p->b.row == 1 || p->k == 1) {
        TN_K(dots)(class, p->m, n, p->k, a, b, p->b.dtype, p->b.column, buffer, n);
    } else {
        for (int64_t r = 0; r < p->m; r++) {
            if (class == TN_CLASS_F32)
                sum_rows_f32(n, p->k, (const float *)a + r * p->k, (const float *)b, p->b.row,
                             (float *)buffer + r * n);
            else
                sum_rows_f64(n, p->k, (const double *)a + r * p->k, (const double *)b, p->b.row,
                             buffer + r * n);
        }
    }
    for (int64_t r = 0; r < p->m; r++) {
        if (class == TN_CLASS_F32) {
            float *to = (float *)c + r * out->row, *from = (float *)buffer + r * n;
            for (int64_t i = 0; i < n; i++)
                to[i] = (float)p->alpha * from[i] + (keep ? to[i] : 0);
        } else {
            double *to = (double *)c + r * out->row, *from = buffer + r * n;
            for (int64_t i = 0; i < n; i++)
                to[i] = p->alpha * from[i] + (keep ? to[i] : 0);
        }
    }
}

static bool few_rows_fit(const tn_product *p, tn_class class) {
    if (class == TN_CLASS_I64 || p->m > FEW_ROWS || p->k == 0)
        return false;
    return p->b.row == 1 || p->k == 1 || (p->b.column == 1 && tn_class_is(class, p->b.dtype));
}

static tenon_status few_rows(tn_call *call, const tn_product *p, tn_class class, char *c,
                             const tn_matrix *out, bool keep) {
    tenon_view a = {.data = p->a.data, .dtype = p->a.dtype, .rank = 3};
    a.shape[0] = p->batch, a.shape[1] = p->m, a.shape[2] = p->k;
    a.strides[0] = p->a.batch, a.strides[1] = p->a.row, a.strides[2] = p->a.column;
    const char *packed = TN_K(packed)(call, class, &a);
    if (!packed)
        return tn_no_memory();
    int64_t blocks = (p->n + FEW_COLUMNS - 1) / FEW_COLUMNS;
#pragma omp parallel for num_threads(call->threads) if (p->batch * p->n * p->k > TN_PARALLEL_WORK)
    for (int64_t i = 0; i < p->batch * blocks; i++)
        few_rows_block(p, class, packed, c, out, i / blocks, i % blocks * FEW_COLUMNS, keep);
    return TENON_OK;
}

/* ---- The blocked product ---- */

static tn_gemm gemm_of(const tn_product *p, tn_class class, char *c, const tn_matrix *out,
                       bool keep) {
    tn_gemm g = {.class = class, .batch = 1, .m = p->m, .n = p->n, .k = p->k};
    g.a = TN_K(operand)(class, p->a.data, p->a.dtype, p->a.row, p->a.column, p->a.batch);
    g.b = TN_K(operand)(class, p->b.data, p->b.dtype, p->b.column, p->b.row, p->b.batch);
    g.share_a = p->m < p->n;
    g.c = c;
    g.c_batch = out->batch;
    g.c_row = out->row;
    g.alpha = p->alpha;
    g.accumulate = keep;
    return g;
}

static void advance(tn_gemm *g, int64_t batch) {
    g->a.data += batch * g->a.batch * (int64_t)tenon_dtype_size(g->a.dtype);
    g->b.data += batch * g->b.batch * (int64_t)tenon_dtype_size(g->b.dtype);
    g->c = (char *)g->c + batch * g->c_batch * (int64_t)tn_class_size(g->class);
}

/* Many products: each one on one thread. */
static tenon_status each_batch(tn_call *call, const tn_gemm *g, int64_t batch) {
    int threads = call->threads;
    tn_gemm model = *g;
    model.chunk = (size_t)1 << 20;
    size_t size = TN_K(gemm_scratch)(&model, 1);
    char *scratch = tn_call_scratch(call, size * (size_t)threads);
    if (!scratch)
        return tn_no_memory();
#pragma omp parallel for num_threads(                                                     \
    threads) if ((double)batch * (double)(g->m * g->n) * (double)g->k > TN_PARALLEL_WORK) \
    schedule(dynamic)
    for (int64_t i = 0; i < batch; i++) {
        tn_gemm one = model;
        advance(&one, i);
        TN_K(gemm)(&one, 1, scratch + size * (size_t)omp_get_thread_num());
    }
    return TENON_OK;
}

static tenon_status blocked(tn_call *call, const tn_product *p, tn_class class, char *c,
                            const tn_matrix *out, bool keep) {
    tn_gemm g = gemm_of(p, class, c, out, keep);
    bool shared = p->batch == 1 || p->a.batch == 0 || p->b.batch == 0;
    if (!shared && p->batch >= call->threads)
        return each_batch(call, &g, p->batch);
    if (shared && p->batch > 1) {
        g.share_a = p->a.batch == 0;
        g.batch = p->batch;
    }
    void *scratch = tn_call_scratch(call, TN_K(gemm_scratch)(&g, call->threads) + 64);
    if (!scratch)
        return tn_no_memory();
    for (int64_t i = 0; i < (shared ? 1 : p->batch); i++) {
        tn_gemm one = g;
        advance(&one, i);
        TN_K(gemm)(&one, call->threads, scratch);
    }
    return TENON_OK;
}

/* ---- Normalising ---- */

static void swap_matrix(tn_matrix *m) {
    int64_t t = m->row;
    m->row = m->column;
    m->column = t;
}

/* The transposed product: c' = b' a' + added'. */
static void transpose_product(tn_product *p) {
    tn_matrix t = p->a;
    p->a = p->b;
    p->b = t;
    swap_matrix(&p->a);
    swap_matrix(&p->b);
    swap_matrix(&p->c);
    swap_matrix(&p->added);
    int64_t m = p->m;
    p->m = p->n;
    p->n = m;
}

static bool rows_follow(const tn_matrix *x, int64_t m) {
    return x->batch == x->row * m;
}

static void normalise(tn_product *p) {
    if (p->beta == 0)
        p->added.data = NULL;
    if (p->batch > 1 && p->b.batch == 0 && rows_follow(&p->a, p->m) && rows_follow(&p->c, p->m) &&
        (!p->added.data || rows_follow(&p->added, p->m))) {
        p->m *= p->batch;
        p->batch = 1;
    }
    if (p->m == 1)
        p->c.row = p->n;
    if (p->n == 1)
        p->c.column = 1;
    if ((p->n == 1 && p->m > 1) || (p->c.column != 1 && p->c.row == 1))
        transpose_product(p);
    if (p->m == 1)
        p->c.row = p->n;
}

/* c = beta * added, in the class's type, `c` having columns as neighbours. */
static void start_from_added(const tn_call *call, const tn_product *p, tn_class class, char *c,
                             const tn_matrix *out) {
    int64_t unit = (int64_t)tn_class_size(class);
    int64_t size = (int64_t)tenon_dtype_size(p->added.dtype);
    tn_load_fn load = TN_K(load)[class][p->added.dtype];
    int64_t rows = p->batch * p->m;
#pragma omp parallel for num_threads(call->threads) if (rows > 1 && rows * p->n > TN_PARALLEL_WORK)
    for (int64_t i = 0; i < rows; i++) {
        int64_t batch = i / p->m, row = i % p->m;
        char *to = c + (batch * out->batch + row * out->row) * unit;
        load(to, (const char *)p->added.data + (batch * p->added.batch + row * p->added.row) * size,
             p->added.column * size, p->n);
        for (int64_t j = 0; j < p->n && p->beta != 1; j++) {
            if (class == TN_CLASS_F32)
                ((float *)to)[j] *= (float)p->beta;
            else if (class == TN_CLASS_F64)
                ((double *)to)[j] *= p->beta;
            else
                ((int64_t *)to)[j] =
                    (int64_t)((uint64_t)((int64_t *)to)[j] * (uint64_t)(int64_t)p->beta);
        }
    }
}

static void store_result(const tn_call *call, const tn_product *p, tn_class class, const char *c) {
    tenon_view out = {.data = p->c.data, .dtype = p->c.dtype, .rank = 3};
    out.shape[0] = p->batch, out.shape[1] = p->m, out.shape[2] = p->n;
    out.strides[0] = p->c.batch, out.strides[1] = p->c.row, out.strides[2] = p->c.column;
    TN_K(store_view)(class, &out, c, call->threads);
}

tenon_status TN_K(product)(tn_call *call, const tn_product *product) {
    tn_product p = *product;
    tn_class class = tn_class_of(p.c.dtype);
    if (p.batch == 0 || p.m == 0 || p.n == 0)
        return TENON_OK;
    normalise(&p);
    char *c = p.c.data;
    tn_matrix out = p.c;
    bool staged = p.c.column != 1 || !tn_class_is(class, p.c.dtype);
    if (staged) {
        c = tn_call_scratch(call, (size_t)(p.batch * p.m * p.n) * tn_class_size(class));
        if (!c)
            return tn_no_memory();
        out.batch = p.m * p.n;
        out.row = p.n;
    }
    if (p.added.data)
        start_from_added(call, &p, class, c, &out);
    if (few_rows_fit(&p, class))
        TN_TRY(few_rows(call, &p, class, c, &out, p.added.data != NULL));
    else
        TN_TRY(blocked(call, &p, class, c, &out, p.added.data != NULL));
    if (staged)
        store_result(call, &p, class, c);
    return TENON_OK;
}
