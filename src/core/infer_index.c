/* Shape rules of indexing by tensors. */
#include "core/infer.h"
#include "core/rules.h"
#include <string.h>

static bool is_mask(tenon_dtype dtype) {
    return dtype == TENON_BOOL || dtype == TENON_UINT8;
}

static tenon_status need_index(const tn_infer *infer, int index, tn_meta *meta) {
    TN_TRY(tn_need_tensor(infer, index, meta));
    if (meta->dtype != TENON_INT64 && meta->dtype != TENON_INT32)
        return tn_infer_fail(infer, "'%s' is %s, but needs int32 or int64",
                             infer->op->params[index].name, tenon_dtype_text(meta->dtype));
    return TENON_OK;
}

/* For gather and scatter: where nothing is indexed, PyTorch takes any dtype. */
static tenon_status need_index_if_any(const tn_infer *infer, int index, tn_meta *meta) {
    TN_TRY(tn_need_tensor(infer, index, meta));
    return tn_numel(meta->rank, meta->shape) == 0 ? TENON_OK : need_index(infer, index, meta);
}

static tenon_status unsupported_size(const tn_infer *infer) {
    return tn_fail(TENON_UNSUPPORTED,
                   "node '%s' (%s): the size of its output depends on data: on the values of "
                   "tensors, not only on their shapes",
                   infer->node->name, infer->op->name);
}

static tenon_status need_same_dtype(const tn_infer *infer, tenon_dtype a, tenon_dtype b,
                                    const char *what) {
    if (a != b)
        return tn_infer_fail(infer, "%s is %s, but self is %s", what, tenon_dtype_text(b),
                             tenon_dtype_text(a));
    return TENON_OK;
}

tenon_status tn_infer_embedding(tn_infer *infer) {
    tn_meta weight, index, out;
    TN_TRY(tn_need_tensor(infer, 0, &weight));
    TN_TRY(need_index(infer, 1, &index));
    if (weight.rank != 2 || index.rank >= TENON_MAX_RANK)
        return tn_infer_fail(infer, "needs a weight of 2 dimensions and indices of less than %d",
                             TENON_MAX_RANK);
    out = index;
    out.dtype = weight.dtype;
    out.shape[out.rank++] = weight.shape[1];
    infer->out[0] = out;
    return TENON_OK;
}

/* Sums, means or maxima of the rows of a bag; then, for each index, the bag that it is in, and for
 * each bag how many rows it has and where its maxima are. As PyTorch has it, the first of these is
 * empty where a sum needs it not, and the others are zeros of the size of the offsets. */
tenon_status tn_infer_embedding_bag(tn_infer *infer) {
    tn_meta weight, index, offsets, scale, *out = infer->out;
    TN_TRY(tn_need_tensor(infer, 0, &weight));
    TN_TRY(tn_need_float(infer, weight.dtype));
    TN_TRY(need_index(infer, 1, &index));
    TN_TRY(need_index(infer, 2, &offsets));
    int64_t mode = tn_arg_int(infer->node, 4, 0);
    bool last = tn_arg_bool(infer->node, 7), scaled = !tn_arg_is_none(infer->node, 6);
    if (weight.rank != 2 || index.rank != 1 || offsets.rank != 1)
        return tn_infer_fail(infer, "needs a weight of 2 dimensions, indices and offsets of one");
    if (mode < 0 || mode > 2)
        return tn_infer_fail(infer, "mode %lld is not 0 (sum), 1 (mean) or 2 (max)",
                             (long long)mode);
    if (last && offsets.shape[0] < 1)
        return tn_infer_fail(infer, "needs an offset at least with include_last_offset");
    if (scaled) {
        TN_TRY(tn_need_tensor(infer, 6, &scale));
        TN_TRY(need_same_dtype(infer, weight.dtype, scale.dtype, "'per_sample_weights'"));
        if (mode != 0 || scale.rank != 1 || scale.shape[0] != index.shape[0])
            return tn_infer_fail(infer, "takes weights of samples for sums only, one an index");
    }
    int64_t bags = offsets.shape[0] - last;
    tenon_dtype whole =
        index.dtype == TENON_INT32 && offsets.dtype == TENON_INT32 ? TENON_INT32 : TENON_INT64;
    int64_t padding = infer->op->param_count > 8 ? tn_arg_int(infer->node, 8, -1) : -1;
    bool plain = mode == 0 && padding < 0 && weight.dtype != TENON_FLOAT64;
    bool forward_only = infer->op->id == TN_OP__embedding_bag_forward_only;
    out[0] = (tn_meta){weight.dtype, 2, {bags, weight.shape[1]}};
    out[1] = (tn_meta){whole, 1, {plain ? 0 : index.shape[0]}};
    out[2] = (tn_meta){whole, 1, {mode == 0 && forward_only ? offsets.shape[0] : bags}};
    out[3] = out[2];
    if (mode == 2)
        out[3] = (tn_meta){whole, 2, {bags, weight.shape[1]}};
    return TENON_OK;
}

tenon_status tn_infer_index_select(tn_infer *infer) {
    tn_meta self, index;
    int dim;
    TN_TRY(tn_need_tensor(infer, 0, &self));
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), self.rank, &dim));
    TN_TRY(need_index(infer, 2, &index));
    if (index.rank > 1 || (self.rank == 0 && tn_numel(index.rank, index.shape) != 1))
        return tn_infer_fail(infer, "needs an index of one dimension");
    if (self.rank)
        self.shape[dim] = index.rank ? index.shape[0] : 1;
    infer->out[0] = self;
    return TENON_OK;
}

/* What a list of index tensors does to a shape. */
typedef struct listed {
    int dims;        /* of self that they index */
    int first, last; /* of them */
    bool neighbours;
    uint32_t used; /* bit d: dimension d is indexed */
    int rank;      /* of the index tensors, broadcast together */
    int64_t shape[TENON_MAX_RANK];
    bool unknown; /* a mask counts only when it runs */
} listed;

static tenon_status add_listed(tn_infer *infer, listed *l, int dim, int dims, int rank,
                               const int64_t *shape) {
    tn_meta to = {TENON_INT64, l->rank}, add = {TENON_INT64, rank};
    memcpy(to.shape, l->shape, sizeof to.shape);
    memcpy(add.shape, shape, (size_t)rank * sizeof *shape);
    TN_TRY(tn_infer_broadcast(infer, &to, &add));
    l->rank = to.rank;
    memcpy(l->shape, to.shape, sizeof l->shape);
    if (l->dims == 0)
        l->first = dim;
    else if (dim != l->last + 1)
        l->neighbours = false;
    l->dims += dims;
    l->last = dim + dims - 1;
    l->used |= ((1u << dims) - 1) << dim;
    return TENON_OK;
}

static tenon_status add_mask(tn_infer *infer, listed *l, const tn_meta *self, int item, int dim,
                             const tn_meta *mask) {
    const tenon_value *value = infer->node->args[1].as.list[item].as.value;
    if (mask->rank == 0)
        return tn_infer_fail(infer, "a mask of no dimensions is not supported");
    for (int d = 0; d < mask->rank; d++) {
        if (dim + d >= self->rank || mask->shape[d] != self->shape[dim + d])
            return tn_infer_fail(infer, "the mask's dimension %d of size %lld does not match self",
                                 d, (long long)mask->shape[d]);
    }
    int64_t count = tn_constant_nonzero(value);
    if (count < 0) {
        l->unknown = true;
        count = 1; /* broadcasts with anything; checked when it runs */
    }
    return add_listed(infer, l, dim, mask->rank, 1, &count);
}

static tenon_status get_listed(tn_infer *infer, const tn_meta *self, listed *l) {
    int dim = 0, count = tn_infer_length(infer, 1);
    *l = (listed){.neighbours = true};
    for (int i = 0; i < count; i++) {
        const tenon_arg *arg = &infer->node->args[1].as.list[i];
        tn_meta meta;
        if (arg->kind == TENON_ARG_NONE) {
            dim++;
            continue;
        }
        if (arg->kind != TENON_ARG_VALUE)
            return tn_infer_fail(infer, "index %d must be a tensor", i);
        tn_infer_item(infer, 1, i, &meta);
        if (is_mask(meta.dtype)) {
            TN_TRY(add_mask(infer, l, self, i, dim, &meta));
            dim += meta.rank;
            continue;
        }
        if (meta.dtype != TENON_INT64 && meta.dtype != TENON_INT32)
            return tn_infer_fail(infer, "index %d is %s, but needs int32, int64, uint8 or bool", i,
                                 tenon_dtype_text(meta.dtype));
        if (dim >= self->rank)
            return tn_infer_fail(infer, "too many indices for %d dimensions", self->rank);
        TN_TRY(add_listed(infer, l, dim++, 1, meta.rank, meta.shape));
    }
    if (dim > self->rank)
        return tn_infer_fail(infer, "too many indices for %d dimensions", self->rank);
    return TENON_OK;
}

tenon_status tn_infer_index(tn_infer *infer) {
    tn_meta self, out = {0};
    listed l;
    TN_TRY(tn_need_tensor(infer, 0, &self));
    TN_TRY(get_listed(infer, &self, &l));
    if (l.dims == 0)
        return tn_infer_fail(infer, "needs at least one index tensor");
    if (l.unknown)
        return unsupported_size(infer);
    int place = l.neighbours ? l.first : 0, rest = 0;
    if (self.rank - l.dims + l.rank > TENON_MAX_RANK)
        return tn_infer_fail(infer, "the result has more than %d dimensions", TENON_MAX_RANK);
    out.dtype = self.dtype;
    for (int d = 0; d <= self.rank; d++) {
        if (rest == place && d == (l.neighbours ? place : 0)) {
            memcpy(out.shape + out.rank, l.shape, (size_t)l.rank * sizeof *l.shape);
            out.rank += l.rank;
        }
        if (d < self.rank && !(l.used >> d & 1)) {
            out.shape[out.rank++] = self.shape[d];
            rest++;
        }
    }
    infer->out[0] = out;
    return TENON_OK;
}

tenon_status tn_infer_index_put(tn_infer *infer) {
    tn_meta self, values;
    listed l;
    TN_TRY(tn_need_tensor(infer, 0, &self));
    TN_TRY(tn_need_tensor(infer, 2, &values));
    TN_TRY(need_same_dtype(infer, self.dtype, values.dtype, "'values'"));
    TN_TRY(get_listed(infer, &self, &l));
    infer->out[0] = self;
    return TENON_OK;
}

/* index_add, index_copy, index_fill. */
tenon_status tn_infer_index_write(tn_infer *infer) {
    tn_meta self, index, source;
    int dim, id = infer->op->id;
    TN_TRY(tn_need_tensor(infer, 0, &self));
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), self.rank, &dim));
    TN_TRY(need_index(infer, 2, &index));
    int64_t count = tn_numel(index.rank, index.shape);
    if (index.rank > 1)
        return tn_infer_fail(infer, "needs an index of one dimension");
    infer->out[0] = self;
    if (id == TN_OP_index_fill_int_Scalar)
        return TENON_OK;
    if (id == TN_OP_index_fill_int_Tensor) {
        tn_infer_in(infer, 3, &source);
        return source.rank == 0 ? TENON_OK
                                : tn_infer_fail(infer, "'value' must have no dimensions");
    }
    TN_TRY(tn_need_tensor(infer, 3, &source));
    TN_TRY(need_same_dtype(infer, self.dtype, source.dtype, "'source'"));
    if (source.rank == 0)
        source.shape[0] = 1;
    if (self.rank == 0)
        self.shape[0] = 1;
    bool fits = source.rank == self.rank || (source.rank <= 1 && self.rank <= 1);
    for (int d = 0; fits && (d < self.rank || d == 0); d++)
        fits = source.shape[d] == (d == dim ? count : self.shape[d]);
    return fits ? TENON_OK : tn_infer_fail(infer, "'source' does not fit self and index");
}

/* Whether `index`, with dimension `dim` aside, is within self. */
static tenon_status need_within(const tn_infer *infer, const tn_meta *index, const tn_meta *of,
                                int dim, const char *what) {
    for (int d = 0; d < index->rank && d < of->rank; d++) {
        if (d != dim && index->shape[d] > of->shape[d])
            return tn_infer_fail(infer,
                                 "size %lld of the index in dimension %d exceeds that of %s, %lld",
                                 (long long)index->shape[d], d, what, (long long)of->shape[d]);
    }
    return TENON_OK;
}

static tenon_status need_rank(const tn_infer *infer, int rank, int like, const char *what) {
    int a = rank ? rank : 1, b = like ? like : 1;
    if (a != b)
        return tn_infer_fail(infer, "%s has %d dimensions, self has %d", what, rank, like);
    return TENON_OK;
}

tenon_status tn_infer_gather(tn_infer *infer) {
    tn_meta self, index;
    int dim;
    TN_TRY(tn_need_tensor(infer, 0, &self));
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), self.rank, &dim));
    TN_TRY(need_index_if_any(infer, 2, &index));
    infer->out[0] = index;
    infer->out[0].dtype = self.dtype;
    if (tn_numel(index.rank, index.shape) == 0)
        return TENON_OK;
    TN_TRY(need_rank(infer, index.rank, self.rank, "'index'"));
    return need_within(infer, &index, &self, dim, "self");
}

tenon_status tn_infer_scatter(tn_infer *infer) {
    tn_meta self, index, source;
    int dim, reduce = tn_op_param(infer->op, "reduce");
    static const char *const modes[] = {"add", "multiply", "sum", "prod", "mean", "amax", "amin"};
    TN_TRY(tn_need_tensor(infer, 0, &self));
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 1, 0), self.rank, &dim));
    TN_TRY(need_index_if_any(infer, 2, &index));
    infer->out[0] = self;
    if (reduce >= 0) {
        const char *text = tn_arg_string(infer->node, reduce);
        bool two = infer->op->id == TN_OP_scatter_reduce_two, known = false;
        for (int i = two ? 2 : 0; text && i < (two ? TN_COUNT(modes) : 2); i++)
            known = known || strcmp(text, modes[i]) == 0;
        if (!known)
            return tn_infer_fail(infer, "reduce \"%s\" is not known", text ? text : "");
    }
    if (tn_numel(index.rank, index.shape) == 0)
        return TENON_OK;
    TN_TRY(need_rank(infer, index.rank, self.rank, "'index'"));
    TN_TRY(need_within(infer, &index, &self, dim, "self"));
    if (infer->op->params[3].type != TN_TYPE_TENSOR)
        return TENON_OK;
    TN_TRY(tn_need_tensor(infer, 3, &source));
    TN_TRY(need_same_dtype(infer, self.dtype, source.dtype, "'src'"));
    TN_TRY(need_rank(infer, source.rank, self.rank, "'src'"));
    return need_within(infer, &index, &source, -1, "src");
}

tenon_status tn_infer_take_along_dim(tn_infer *infer) {
    tn_meta self, index;
    int dim;
    TN_TRY(tn_need_tensor(infer, 0, &self));
    TN_TRY(need_index(infer, 1, &index));
    if (tn_arg_is_none(infer->node, 2)) {
        infer->out[0] = (tn_meta){self.dtype, 1, {tn_numel(index.rank, index.shape)}};
        return TENON_OK;
    }
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 2, 0), self.rank, &dim));
    TN_TRY(need_rank(infer, index.rank, self.rank, "'indices'"));
    int64_t size = index.rank ? index.shape[dim] : 1;
    if (self.rank)
        self.shape[dim] = 1;
    if (index.rank)
        index.shape[dim] = 1;
    TN_TRY(tn_infer_broadcast(infer, &self, &index));
    if (self.rank)
        self.shape[dim] = size;
    infer->out[0] = self;
    return TENON_OK;
}

tenon_status tn_infer_one_hot(tn_infer *infer) {
    tn_meta index;
    int64_t classes = tn_arg_int(infer->node, 1, -1);
    TN_TRY(need_index(infer, 0, &index));
    if (classes < 0)
        return unsupported_size(infer);
    if (index.rank == TENON_MAX_RANK)
        return tn_infer_fail(infer, "needs less than %d dimensions", TENON_MAX_RANK);
    index.shape[index.rank++] = classes;
    index.dtype = TENON_INT64;
    infer->out[0] = index;
    return TENON_OK;
}

tenon_status tn_infer_masked_scatter(tn_infer *infer) {
    tn_meta self, mask, source;
    TN_TRY(tn_need_tensor(infer, 0, &self));
    TN_TRY(tn_need_tensor(infer, 1, &mask));
    TN_TRY(tn_need_tensor(infer, 2, &source));
    if (mask.dtype != TENON_BOOL)
        return tn_infer_fail(infer, "'mask' is %s, but needs bool", tenon_dtype_text(mask.dtype));
    TN_TRY(need_same_dtype(infer, self.dtype, source.dtype, "'source'"));
    TN_TRY(tn_infer_broadcast(infer, &self, &mask));
    infer->out[0] = self;
    return TENON_OK;
}

tenon_status tn_infer_nonzero(tn_infer *infer) {
    tn_meta in;
    TN_TRY(tn_need_tensor(infer, 0, &in));
    int64_t count = tn_constant_nonzero(infer->node->args[0].as.value);
    if (count < 0)
        return unsupported_size(infer);
    infer->out[0] = (tn_meta){TENON_INT64, 2, {count, in.rank}};
    return TENON_OK;
}

tenon_status tn_infer_masked_select(tn_infer *infer) {
    tn_meta self, mask;
    TN_TRY(tn_need_tensor(infer, 0, &self));
    TN_TRY(tn_need_tensor(infer, 1, &mask));
    if (mask.dtype != TENON_BOOL)
        return tn_infer_fail(infer, "'mask' is %s, but needs bool", tenon_dtype_text(mask.dtype));
    TN_TRY(tn_infer_broadcast(infer, &self, &mask));
    int64_t count = tn_constant_nonzero(infer->node->args[1].as.value);
    int64_t all = tn_numel(self.rank, self.shape), masked = tn_numel(mask.rank, mask.shape);
    if (count < 0)
        return unsupported_size(infer);
    if (all < 0)
        return tn_infer_fail(infer, "self and mask broadcast to too large a shape");
    infer->out[0] = (tn_meta){self.dtype, 1, {masked ? all / masked * count : 0}};
    return TENON_OK;
}

tenon_status tn_infer_search(tn_infer *infer) {
    bool bucketize = tn_op_param(infer->op, "boundaries") >= 0;
    tn_meta sorted, values, sorter;
    TN_TRY(tn_need_tensor(infer, bucketize ? 1 : 0, &sorted));
    if (!tn_infer_in(infer, bucketize ? 0 : 1, &values))
        return tn_infer_fail(infer, "needs something to look for");
    if (sorted.rank == 0 || (bucketize && sorted.rank != 1))
        return tn_infer_fail(infer, "needs sorted boundaries of %s",
                             bucketize ? "one dimension" : "dimensions");
    if (sorted.rank > 1 &&
        (sorted.rank != values.rank ||
         memcmp(sorted.shape, values.shape, (size_t)(sorted.rank - 1) * sizeof *sorted.shape) != 0))
        return tn_infer_fail(infer, "all dimensions but the last must be those of the sequence");
    if (!bucketize && !tn_arg_is_none(infer->node, 5)) {
        TN_TRY(need_index(infer, 5, &sorter));
        if (sorter.dtype != TENON_INT64 || sorter.rank != sorted.rank ||
            memcmp(sorter.shape, sorted.shape, (size_t)sorted.rank * sizeof *sorted.shape) != 0)
            return tn_infer_fail(infer, "'sorter' must be int64 and have the sequence's shape");
    }
    values.dtype = tn_arg_bool(infer->node, 2) ? TENON_INT32 : TENON_INT64;
    infer->out[0] = values;
    return TENON_OK;
}

static tenon_status need_part(tn_infer *infer, const tn_meta *part, const tn_meta *source,
                              bool broadcasts) {
    char a[256], b[256];
    bool fits = source->rank == part->rank || broadcasts;
    for (int d = 0; fits && d < source->rank; d++) {
        int to = d + part->rank - source->rank;
        fits = to >= 0 &&
               (source->shape[d] == part->shape[to] || (broadcasts && source->shape[d] == 1));
    }
    if (fits)
        return TENON_OK;
    return tn_infer_fail(infer, "'src' is %s, but the part to write is %s",
                         tn_shape_text(source->dtype, source->rank, source->shape, a, sizeof a),
                         tn_shape_text(part->dtype, part->rank, part->shape, b, sizeof b));
}

static void drop(tn_meta *meta, int dim) {
    meta->rank--;
    for (int d = dim; d < meta->rank; d++)
        meta->shape[d] = meta->shape[d + 1];
}

/* The shape of the diagonal, at the end. */
static tenon_status diagonal_part(tn_infer *infer, tn_meta *part) {
    int a, b;
    int64_t offset = tn_arg_int(infer->node, 2, 0);
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 3, 0), part->rank, &a));
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 4, 1), part->rank, &b));
    if (a == b || part->rank < 2)
        return tn_infer_fail(infer, "needs two different dimensions");
    int64_t high = part->shape[a], wide = part->shape[b], size;
    if (offset > wide || offset < -high)
        return tn_infer_fail(infer, "the diagonal lies outside");
    high = offset < 0 ? high + offset : high;
    wide = offset > 0 ? wide - offset : wide;
    size = high < wide ? high : wide;
    drop(part, a > b ? a : b);
    drop(part, a > b ? b : a);
    part->shape[part->rank++] = size;
    return TENON_OK;
}

/* select_scatter, slice_scatter, diagonal_scatter. */
tenon_status tn_infer_part_scatter(tn_infer *infer) {
    tn_meta self, source, part;
    int dim, id = infer->op->id;
    TN_TRY(tn_need_tensor(infer, 0, &self));
    TN_TRY(tn_need_tensor(infer, 1, &source));
    part = self;
    infer->out[0] = self;
    if (id == TN_OP_diagonal_scatter) {
        TN_TRY(diagonal_part(infer, &part));
        return need_part(infer, &part, &source, false);
    }
    if (self.rank == 0)
        return tn_infer_fail(infer, "needs a tensor of at least one dimension");
    TN_TRY(tn_infer_dim(infer, tn_arg_int(infer->node, 2, 0), self.rank, &dim));
    if (id == TN_OP_select_scatter) {
        int64_t index = tn_arg_int(infer->node, 3, 0), size = self.shape[dim];
        if (index < -size || index >= size)
            return tn_infer_fail(infer, "index %lld is out of range for size %lld",
                                 (long long)index, (long long)size);
        drop(&part, dim);
        return need_part(infer, &part, &source, false);
    }
    int64_t start, step;
    part.shape[dim] = tn_slice_range(infer->node, 3, self.shape[dim], &start, &step);
    if (part.shape[dim] < 0)
        return tn_infer_fail(infer, "needs a positive step");
    return need_part(infer, &part, &source, true);
}

tenon_status tn_infer_as_strided_scatter(tn_infer *infer) {
    tn_meta self, source, part = {0};
    int64_t strides[TENON_MAX_RANK], last = tn_arg_int(infer->node, 4, 0);
    TN_TRY(tn_need_tensor(infer, 0, &self));
    TN_TRY(tn_need_tensor(infer, 1, &source));
    int count = tn_arg_ints(infer->node, 2, part.shape, TENON_MAX_RANK);
    if (count < 0 || count != tn_arg_ints(infer->node, 3, strides, TENON_MAX_RANK))
        return tn_infer_fail(infer, "size and stride need the same number of at most %d numbers",
                             TENON_MAX_RANK);
    part.rank = count;
    part.dtype = self.dtype;
    infer->out[0] = self;
    TN_TRY(need_part(infer, &part, &source, false));
    if (tn_numel(part.rank, part.shape) == 0)
        return TENON_OK;
    bool inside = last >= 0;
    for (int d = 0; inside && d < count; d++) {
        int64_t reach;
        inside = strides[d] >= 0 && tn_mul(part.shape[d] - 1, strides[d], &reach) &&
                 tn_add(last, reach, &last);
    }
    if (!inside || last >= tn_numel(self.rank, self.shape))
        return tn_infer_fail(infer, "the part lies outside self");
    return TENON_OK;
}
