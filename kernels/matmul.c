/* Matrix products of nodes: mm, bmm, addmm, baddbmm, addmv, mv, dot, linear. */
#include "kernels/product.h"

/* The last two dimensions of a view as a matrix, a third one as batches. */
static tn_matrix matrix_of(const tenon_view *v) {
    tn_matrix m = {.data = v->data, .dtype = v->dtype};
    m.row = v->strides[v->rank - 2];
    m.column = v->strides[v->rank - 1];
    m.batch = v->rank > 2 ? v->strides[v->rank - 3] : 0;
    return m;
}

/* A vector as a column. */
static tn_matrix column_of(const tenon_view *v) {
    tn_matrix m = {.data = v->data, .dtype = v->dtype, .row = v->rank ? v->strides[0] : 0};
    return m;
}

/* What is added, broadcast to the result's `rank` dimensions. */
static tn_matrix added_of(const tenon_view *v, int rank) {
    int64_t strides[3] = {0};
    for (int d = 0; d < v->rank; d++)
        strides[3 - v->rank + d] = v->shape[d] == 1 ? 0 : v->strides[d];
    tn_matrix m = {.data = v->data, .dtype = v->dtype};
    m.batch = strides[0];
    m.row = rank == 1 ? strides[2] : strides[1];
    m.column = rank == 1 ? 0 : strides[2];
    return m;
}

static void sizes(tn_product *p, const tenon_view *a, const tenon_view *b) {
    p->batch = a->rank > 2 ? a->shape[0] : 1;
    p->m = a->shape[a->rank - 2];
    p->k = a->shape[a->rank - 1];
    p->n = b->rank == 1 ? 1 : b->shape[b->rank - 1];
}

/* mm and bmm */
tenon_status TN_K(mm)(tn_call *call) {
    const tenon_view *a = &call->in[0], *b = &call->in[1];
    tn_product p = {.alpha = 1};
    sizes(&p, a, b);
    p.a = matrix_of(a);
    p.b = matrix_of(b);
    p.c = matrix_of(&call->out[0]);
    return TN_K(product)(call, &p);
}

/* addmm and baddbmm */
tenon_status TN_K(addmm)(tn_call *call) {
    const tenon_view *a = &call->in[1], *b = &call->in[2];
    tn_product p = {0};
    sizes(&p, a, b);
    p.a = matrix_of(a);
    p.b = matrix_of(b);
    p.c = matrix_of(&call->out[0]);
    p.added = added_of(&call->in[0], call->out[0].rank);
    p.beta = tn_arg_float(call->node, 3, 1);
    p.alpha = tn_arg_float(call->node, 4, 1);
    return TN_K(product)(call, &p);
}

tenon_status TN_K(mv)(tn_call *call) {
    const tenon_view *a = &call->in[0], *b = &call->in[1];
    tn_product p = {.alpha = 1};
    sizes(&p, a, b);
    p.a = matrix_of(a);
    p.b = column_of(b);
    p.c = column_of(&call->out[0]);
    return TN_K(product)(call, &p);
}

tenon_status TN_K(addmv)(tn_call *call) {
    const tenon_view *a = &call->in[1], *b = &call->in[2];
    tn_product p = {0};
    sizes(&p, a, b);
    p.a = matrix_of(a);
    p.b = column_of(b);
    p.c = column_of(&call->out[0]);
    p.added = added_of(&call->in[0], 1);
    p.beta = tn_arg_float(call->node, 3, 1);
    p.alpha = tn_arg_float(call->node, 4, 1);
    return TN_K(product)(call, &p);
}

tenon_status TN_K(dot)(tn_call *call) {
    const tenon_view *a = &call->in[0], *b = &call->in[1];
    tn_product p = {.batch = 1, .m = 1, .n = 1, .k = a->shape[0], .alpha = 1};
    p.a = (tn_matrix){.data = a->data, .dtype = a->dtype, .column = a->strides[0]};
    p.b = column_of(b);
    p.c = column_of(&call->out[0]);
    return TN_K(product)(call, &p);
}

/* Merges dimensions first..last-1 of a view into one; false when strides do not allow it. */
static bool merge(const tenon_view *v, int last, int64_t *size, int64_t *stride) {
    *size = 1;
    *stride = 0;
    for (int d = last - 1; d >= 0; d--) {
        if (v->shape[d] == 1)
            continue;
        if (*size == 1)
            *stride = v->strides[d];
        else if (v->strides[d] != *stride * *size)
            return false;
        *size *= v->shape[d];
    }
    return true;
}

/* The input of linear as a matrix of rows; packed first when strides demand it. */
static tenon_status linear_rows(tn_call *call, tn_product *p) {
    tenon_view in = call->in[0];
    int lead = in.rank - 1;
    tn_class class = tn_class_of(in.dtype);
    if (!merge(&in, lead, &p->m, &p->a.row)) {
        static const tenon_dtype dtypes[] = {[TN_CLASS_F32] = TENON_FLOAT32,
                                             [TN_CLASS_F64] = TENON_FLOAT64,
                                             [TN_CLASS_I64] = TENON_INT64};
        const void *packed = TN_K(packed)(call, class, &in);
        if (!packed)
            return tn_no_memory();
        in = tn_view_make((void *)packed, dtypes[class], in.rank, in.shape);
        merge(&in, lead, &p->m, &p->a.row);
    }
    p->a.data = in.data;
    p->a.dtype = in.dtype;
    p->a.column = in.strides[lead];
    return TENON_OK;
}

/* input [..., k], weight [n, k] or [k], bias of rank 0 or 1 */
tenon_status TN_K(linear)(tn_call *call) {
    const tenon_view *in = &call->in[0], *weight = &call->in[1], *bias = tn_call_in(call, 2);
    tenon_view *out = &call->out[0], staged;
    int lead = in->rank - 1;
    bool vector = weight->rank == 1;
    tn_product p = {.batch = 1, .alpha = 1, .beta = 1, .k = in->shape[lead]};
    p.n = vector ? 1 : weight->shape[0];
    if (tenon_view_numel(out) == 0)
        return TENON_OK;
    TN_TRY(linear_rows(call, &p));
    p.b = (tn_matrix){.data = weight->data, .dtype = weight->dtype};
    p.b.row = weight->strides[weight->rank - 1];
    p.b.column = vector ? 0 : weight->strides[0];
    p.c = (tn_matrix){.data = out->data, .dtype = out->dtype};
    p.c.column = vector ? 1 : out->strides[lead];
    if (bias) {
        p.added = (tn_matrix){.data = bias->data, .dtype = bias->dtype};
        p.added.column = bias->rank && bias->shape[0] > 1 ? bias->strides[0] : 0;
    }
    int64_t rows;
    if (merge(out, lead, &rows, &p.c.row))
        return TN_K(product)(call, &p);
    p.c.data = tn_call_scratch(call, (size_t)(p.m * p.n) * tenon_dtype_size(out->dtype));
    if (!p.c.data)
        return tn_no_memory();
    p.c.row = p.n;
    p.c.column = 1;
    TN_TRY(TN_K(product)(call, &p));
    staged = tn_view_make(p.c.data, out->dtype, out->rank, out->shape);
    return tenon_view_copy(out, &staged);
}
