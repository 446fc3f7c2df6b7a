/* The shape of aten.einsum. Labels are letters; "..." stands for broadcast dimensions; without "->"
 * the result has the ellipsis, then the labels that occur once, in alphabetical order
 * (torch.einsum's documentation). */
#include "core/einsum.h"
#include "core/infer.h"
#include <ctype.h>
#include <string.h>

static int label_of(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    return c >= 'a' && c <= 'z' ? 26 + c - 'a' : -1;
}

static const char *read_term(const char *text, tn_einsum_term *term) {
    *term = (tn_einsum_term){.ellipsis = -1};
    for (; *text && *text != ',' && *text != '-'; text++) {
        if (isspace((unsigned char)*text))
            continue;
        if (strncmp(text, "...", 3) == 0) {
            if (term->ellipsis >= 0)
                return NULL;
            term->ellipsis = term->count;
            text += 2;
            continue;
        }
        int label = label_of(*text);
        if (label < 0 || term->count == TENON_MAX_RANK)
            return NULL;
        term->labels[term->count++] = (int8_t)label;
    }
    return text;
}

bool tn_einsum_parse(const char *text, tn_einsum *sum) {
    int uses[TN_EINSUM_LABELS] = {0};
    bool ellipsis = false;
    *sum = (tn_einsum){0};
    for (;;) {
        if (sum->count == TN_EINSUM_TERMS)
            return false;
        tn_einsum_term *term = &sum->terms[sum->count++];
        text = read_term(text, term);
        if (!text)
            return false;
        for (int i = 0; i < term->count; i++)
            uses[term->labels[i]]++;
        ellipsis |= term->ellipsis >= 0;
        if (*text != ',')
            break;
        text++;
    }
    tn_einsum_term *out = &sum->out;
    if (strncmp(text, "->", 2) == 0) {
        text = read_term(text + 2, out);
        if (!text || *text)
            return false;
        for (int i = 0; i < out->count; i++) {
            if (uses[out->labels[i]] == 0)
                return false;
            for (int j = 0; j < i; j++) {
                if (out->labels[j] == out->labels[i])
                    return false;
            }
        }
        return true;
    }
    if (*text)
        return false;
    out->ellipsis = ellipsis ? 0 : -1;
    for (int label = 0; label < TN_EINSUM_LABELS; label++) {
        if (uses[label] != 1)
            continue;
        if (out->count == TENON_MAX_RANK)
            return false;
        out->labels[out->count++] = (int8_t)label;
    }
    return true;
}

static tenon_status bind_term(tn_infer *infer, const tn_einsum_term *term, const tn_meta *meta,
                              int64_t *sizes, tn_meta *ellipsis) {
    int extra = meta->rank - term->count, dim = 0;
    if (extra < 0 || (extra > 0 && term->ellipsis < 0))
        return tn_infer_fail(infer, "names %d dimensions of a tensor of rank %d", term->count,
                             meta->rank);
    for (int i = 0; i <= term->count; i++) {
        if (i == term->ellipsis) {
            tn_meta part = {.dtype = meta->dtype, .rank = extra};
            memcpy(part.shape, meta->shape + dim, sizeof(int64_t) * extra);
            TN_TRY(tn_infer_broadcast(infer, ellipsis, &part));
            dim += extra;
        }
        if (i == term->count)
            break;
        int64_t size = meta->shape[dim++], *bound = &sizes[term->labels[i]];
        if (*bound < 0 || *bound == 1)
            *bound = size;
        else if (size != *bound && size != 1)
            return tn_infer_fail(infer, "has sizes %lld and %lld for one label", (long long)*bound,
                                 (long long)size);
    }
    return TENON_OK;
}

/* Whether a label is summed over that one operand alone has: by a sum, not by a product. */
static bool sums_alone(const tn_einsum *sum) {
    int terms[TN_EINSUM_LABELS] = {0};
    for (int t = 0; t < sum->count; t++) {
        bool seen[TN_EINSUM_LABELS] = {0};
        for (int i = 0; i < sum->terms[t].count; i++) {
            int label = (uint8_t)sum->terms[t].labels[i];
            terms[label] += !seen[label];
            seen[label] = true;
        }
    }
    for (int i = 0; i < sum->out.count; i++)
        terms[sum->out.labels[i]] = 0;
    for (int label = 0; label < TN_EINSUM_LABELS; label++)
        if (terms[label] == 1)
            return true;
    return false;
}

tenon_status tn_infer_einsum(tn_infer *infer) {
    tn_einsum sum;
    int64_t sizes[TN_EINSUM_LABELS];
    tn_meta ellipsis = {0}, meta, *out = &infer->out[0];
    const char *equation = tn_arg_string(infer->node, 0);
    if (!equation || !tn_einsum_parse(equation, &sum))
        return tn_infer_fail(infer, "needs an equation that it can read, not \"%s\"",
                             equation ? equation : "");
    if (sum.count != tn_infer_length(infer, 1))
        return tn_infer_fail(infer, "needs %d tensors for its equation, not %d", sum.count,
                             tn_infer_length(infer, 1));
    for (int i = 0; i < TN_EINSUM_LABELS; i++)
        sizes[i] = -1;
    for (int t = 0; t < sum.count; t++) {
        if (!tn_infer_item(infer, 1, t, &meta))
            return tn_infer_fail(infer, "needs tensors");
        if (t > 0 && meta.dtype != out->dtype)
            return tn_infer_fail(infer, "needs tensors of one dtype");
        out->dtype = meta.dtype;
        TN_TRY(bind_term(infer, &sum.terms[t], &meta, sizes, &ellipsis));
    }
    if (!tn_dtype_is_float(out->dtype) && sums_alone(&sum))
        out->dtype = TENON_INT64;
    if (sum.out.count + (sum.out.ellipsis >= 0 ? ellipsis.rank : 0) > TENON_MAX_RANK)
        return tn_infer_fail(infer, "would have more than %d dimensions", TENON_MAX_RANK);
    out->rank = 0;
    for (int i = 0; i <= sum.out.count; i++) {
        if (i == sum.out.ellipsis) {
            for (int d = 0; d < ellipsis.rank; d++)
                out->shape[out->rank++] = ellipsis.shape[d];
        }
        if (i < sum.out.count)
            out->shape[out->rank++] = sizes[sum.out.labels[i]];
    }
    return TENON_OK;
}
