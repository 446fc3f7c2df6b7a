/* einsum: operands are contracted from left to right, each pair by one bmm over
 *
 *     A (kept by both, only in A, summed) @ B (kept by both, summed, only in B)
 *
 * where "kept" labels are those that the result or a later operand still needs. A label that stands
 * twice in one operand takes the diagonal; an ellipsis stands for labels of its own, aligned from
 * the right (torch.einsum).
 */
#include "fusion/lower.h"
#include <ctype.h>
#include <string.h>

enum { LETTERS = 52, LABELS = LETTERS + TENON_MAX_RANK, OPERANDS = 16 };

typedef struct term {
    tenon_value *value;
    int labels[TENON_MAX_RANK]; /* of each dimension */
    int rank;
} term;

typedef struct einsum {
    tenon_node *node;
    term terms[OPERANDS], result; /* the result has no value yet */
    int count;
    int64_t sizes[LABELS];
    int wanted[LABELS]; /* in how many of the result and the operands that are still to come */
    int dots;           /* labels that "..." stands for */
} einsum;

static int letter(char c) {
    return isupper((unsigned char)c) ? c - 'A' : c - 'a' + 26;
}

static tenon_status bad(const einsum *e, const char *rule) {
    return tn_pass_refuse(e->node, "equation '%s': %s", tn_arg_string(e->node, 0), rule);
}

static bool put(term *t, int label) {
    if (t->rank == TENON_MAX_RANK)
        return false;
    t->labels[t->rank++] = label;
    return true;
}

/* Reads labels up to `end`. `dots`: how many dimensions "..." stands for here. They are the last of
 * e->dots. */
static tenon_status read_labels(const einsum *e, const char *text, const char *end, int dots,
                                term *t) {
    t->rank = 0;
    for (; text < end; text++) {
        if (*text == ' ')
            continue;
        if (end - text >= 3 && memcmp(text, "...", 3) == 0) {
            for (int i = e->dots - dots; i < e->dots; i++)
                if (!put(t, LETTERS + i))
                    return bad(e, "the rank is too high");
            text += 2;
        } else if (!isalpha((unsigned char)*text)) {
            return bad(e, "only letters, '...', ',' and '->' may stand in it");
        } else if (!put(t, letter(*text))) {
            return bad(e, "the rank is too high");
        }
    }
    return TENON_OK;
}

static const char *part_end(const char *text, const char *stop) {
    const char *comma = memchr(text, ',', (size_t)(stop - text));
    return comma ? comma : stop;
}

static int count_letters(const char *text, const char *end) {
    int letters = 0;
    for (; text < end; text++)
        letters += isalpha((unsigned char)*text) != 0;
    return letters;
}

static bool has_dots(const char *text, const char *end) {
    return memchr(text, '.', (size_t)(end - text)) != NULL;
}

/* Without "->" the result has the dimensions of "..." and then every letter that stands once,
 * sorted. */
static tenon_status implicit_result(einsum *e) {
    int seen[LABELS] = {0};
    for (int i = 0; i < e->count; i++)
        for (int k = 0; k < e->terms[i].rank; k++)
            seen[e->terms[i].labels[k]]++;
    for (int i = 0; i < e->dots; i++)
        if (!put(&e->result, LETTERS + i))
            return bad(e, "the rank is too high");
    for (int i = 0; i < LETTERS; i++)
        if (seen[i] == 1 && !put(&e->result, i))
            return bad(e, "the rank is too high");
    return TENON_OK;
}

static tenon_status parse(einsum *e) {
    const char *text = tn_arg_string(e->node, 0), *arrow = strstr(text, "->");
    const char *stop = arrow ? arrow : text + strlen(text), *at = text;
    for (int i = 0; i < e->count; i++) {
        const char *end = part_end(at, stop);
        int dots = e->terms[i].value->rank - count_letters(at, end);
        if (has_dots(at, end) && dots > e->dots)
            e->dots = dots;
        at = end < stop ? end + 1 : end;
    }
    at = text;
    for (int i = 0; i < e->count; i++) {
        term *t = &e->terms[i];
        const char *end = part_end(at, stop);
        int dots = t->value->rank - count_letters(at, end);
        if (dots < 0 || (dots > 0 && !has_dots(at, end)))
            return bad(e, "its letters do not fit the ranks");
        TN_TRY(read_labels(e, at, end, dots, t));
        if (end == stop && i < e->count - 1)
            return bad(e, "it has fewer terms than there are operands");
        at = end < stop ? end + 1 : end;
    }
    if (at != stop)
        return bad(e, "it has more terms than there are operands");
    return arrow ? read_labels(e, arrow + 2, arrow + strlen(arrow), e->dots, &e->result)
                 : implicit_result(e);
}

/* Takes the diagonal of dimensions with one label; it becomes the last dimension. */
static tenon_status take_diagonals(einsum *e, term *t) {
    for (int i = 0; i < t->rank; i++) {
        for (int k = i + 1; k < t->rank; k++) {
            if (t->labels[i] != t->labels[k])
                continue;
            int label = t->labels[i];
            TN_TRY(tn_emit(e->node, TN_OP_diagonal, &t->value,
                           TN_ARGS(VAL(t->value), INT(0), INT(i), INT(k))));
            memmove(&t->labels[k], &t->labels[k + 1], (size_t)(t->rank - k - 1) * sizeof(int));
            memmove(&t->labels[i], &t->labels[i + 1], (size_t)(t->rank - i - 2) * sizeof(int));
            t->rank--;
            t->labels[t->rank - 1] = label;
            i = -1;
            break;
        }
    }
    return TENON_OK;
}

static tenon_status note_sizes(einsum *e, const term *t) {
    for (int i = 0; i < t->rank; i++) {
        int64_t size = t->value->shape[i], *all = &e->sizes[t->labels[i]];
        if (*all > 1 && size != 1 && size != *all)
            return bad(e, "one label has different sizes");
        if (*all < 0 || *all == 1)
            *all = size;
    }
    return TENON_OK;
}

/* Sizes of 1 broadcast. */
static tenon_status widen(einsum *e, term *t) {
    int64_t shape[TENON_MAX_RANK];
    tenon_arg items[TENON_MAX_RANK];
    bool differs = false;
    for (int i = 0; i < t->rank; i++) {
        shape[i] = e->sizes[t->labels[i]];
        differs |= shape[i] != t->value->shape[i];
    }
    return differs ? tn_emit(e->node, TN_OP_expand, &t->value,
                             TN_ARGS(VAL(t->value), tn_ints(items, shape, t->rank)))
                   : TENON_OK;
}

static int find(const term *t, int label) {
    for (int i = 0; i < t->rank; i++)
        if (t->labels[i] == label)
            return i;
    return -1;
}

/* Sums over the labels that neither `other` (may be NULL) nor anything later wants; integers give
 * int64, as sums do. */
static tenon_status sum_alone(einsum *e, term *t, const term *other) {
    tenon_arg dims[TENON_MAX_RANK];
    int count = 0, kept = 0;
    for (int i = 0; i < t->rank; i++) {
        if (e->wanted[t->labels[i]] || (other && find(other, t->labels[i]) >= 0))
            t->labels[kept++] = t->labels[i];
        else
            dims[count++] = INT(i);
    }
    t->rank = kept;
    return count ? tn_emit(e->node, TN_OP_sum_dim_IntList, &t->value,
                           TN_ARGS(VAL(t->value), tenon_arg_list(dims, count)))
                 : TENON_OK;
}

/* Permutes to the labels in `order` and flattens to the three sizes. */
static tenon_status arrange(einsum *e, const term *t, const int *order, const int64_t *flat,
                            tenon_value **out) {
    int64_t dims[TENON_MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        dims[i] = find(t, order[i]);
    TN_TRY(tn_emit_permute(e->node, t->value, dims, t->rank, out));
    return tn_emit_view(e->node, *out, flat, 3, out);
}

static tenon_status contract(einsum *e, term *a, term *b) {
    int kept[TENON_MAX_RANK], summed[TENON_MAX_RANK], rows[TENON_MAX_RANK], columns[TENON_MAX_RANK];
    int nk = 0, ns = 0, nr = 0, nc = 0;
    int64_t k = 1, s = 1, r = 1, c = 1;
    TN_TRY(sum_alone(e, a, b));
    TN_TRY(sum_alone(e, b, a));
    tenon_dtype dtype = tn_promote(a->value->dtype, b->value->dtype);
    TN_TRY(tn_emit_cast(e->node, a->value, dtype, &a->value));
    TN_TRY(tn_emit_cast(e->node, b->value, dtype, &b->value));
    for (int i = 0; i < a->rank; i++) {
        int label = a->labels[i];
        int64_t size = e->sizes[label];
        if (find(b, label) < 0) {
            rows[nr++] = label;
            r *= size;
        } else if (e->wanted[label]) {
            kept[nk++] = label;
            k *= size;
        } else {
            summed[ns++] = label;
            s *= size;
        }
    }
    for (int i = 0; i < b->rank; i++) {
        if (find(a, b->labels[i]) >= 0)
            continue;
        columns[nc++] = b->labels[i];
        c *= e->sizes[b->labels[i]];
    }
    if (nk + nr + nc > TENON_MAX_RANK)
        return bad(e, "the rank is too high");
    int order_a[TENON_MAX_RANK], order_b[TENON_MAX_RANK];
    memcpy(order_a, kept, (size_t)nk * sizeof(int));
    memcpy(order_a + nk, rows, (size_t)nr * sizeof(int));
    memcpy(order_a + nk + nr, summed, (size_t)ns * sizeof(int));
    memcpy(order_b, kept, (size_t)nk * sizeof(int));
    memcpy(order_b + nk, summed, (size_t)ns * sizeof(int));
    memcpy(order_b + nk + ns, columns, (size_t)nc * sizeof(int));
    tenon_value *x, *y;
    TN_TRY(arrange(e, a, order_a, (const int64_t[]){k, r, s}, &x));
    TN_TRY(arrange(e, b, order_b, (const int64_t[]){k, s, c}, &y));
    TN_TRY(tn_emit(e->node, TN_OP_bmm, &x, TN_ARGS(VAL(x), VAL(y))));
    int64_t shape[TENON_MAX_RANK];
    memcpy(a->labels, order_a, (size_t)(nk + nr) * sizeof(int));
    memcpy(a->labels + nk + nr, columns, (size_t)nc * sizeof(int));
    a->rank = nk + nr + nc;
    for (int i = 0; i < a->rank; i++)
        shape[i] = e->sizes[a->labels[i]];
    return tn_emit_view(e->node, x, shape, a->rank, &a->value);
}

static tenon_status check_result(const einsum *e) {
    for (int i = 0; i < e->result.rank; i++) {
        bool known = e->sizes[e->result.labels[i]] >= 0;
        for (int k = 0; k < i; k++)
            known &= e->result.labels[k] != e->result.labels[i];
        if (!known)
            return bad(e, "a label of the result is in no operand, or twice in the result");
    }
    return TENON_OK;
}

tenon_status tn_lower_einsum(tenon_node *node, tenon_value **with) {
    einsum e = {.node = node, .count = node->args[1].count};
    if (e.count < 1 || e.count > OPERANDS)
        return tn_pass_refuse(node, "it takes 1 to %d operands", OPERANDS);
    for (int i = 0; i < e.count; i++) {
        e.terms[i].value = node->args[1].as.list[i].as.value;
        if (!tn_value_static(e.terms[i].value))
            return TENON_OK;
    }
    TN_TRY(parse(&e));
    for (int i = 0; i < LABELS; i++)
        e.sizes[i] = -1;
    for (int i = 0; i < e.count; i++) {
        TN_TRY(take_diagonals(&e, &e.terms[i]));
        TN_TRY(note_sizes(&e, &e.terms[i]));
        for (int k = 0; k < e.terms[i].rank; k++)
            e.wanted[e.terms[i].labels[k]]++;
    }
    TN_TRY(check_result(&e));
    for (int i = 0; i < e.result.rank; i++)
        e.wanted[e.result.labels[i]]++;
    term *all = &e.terms[0];
    for (int i = 0; i < e.count; i++) {
        TN_TRY(widen(&e, &e.terms[i]));
        for (int k = 0; k < e.terms[i].rank; k++)
            e.wanted[e.terms[i].labels[k]]--;
        if (i > 0)
            TN_TRY(contract(&e, all, &e.terms[i]));
    }
    TN_TRY(sum_alone(&e, all, NULL));
    int64_t order[TENON_MAX_RANK];
    for (int i = 0; i < e.result.rank; i++)
        order[i] = find(all, e.result.labels[i]);
    return tn_emit_permute(node, all->value, order, all->rank, with);
}
