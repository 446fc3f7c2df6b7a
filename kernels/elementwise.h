/* How elementwise kernels run: an op gives loops over packed rows of a class (convert.h); dtypes,
 * strides, broadcasting and threads are the driver's. */
#ifndef TN_ELEMENTWISE_H
#define TN_ELEMENTWISE_H

#include "kernels/convert.h"

#define TN_ELEM_INPUTS 3

/* Numbers that a loop needs beside its tensors: `f` for float and double loops, `i` for integer
 * ones. */
typedef struct tn_elem_numbers {
    double f[4];
    int64_t i[4];
    int *failed; /* set to 1 by a loop that divides an integer by zero */
} tn_elem_numbers;

/* n elements; `out` may be the same memory as an input. */
typedef void (*tn_elem_fn)(void *out, const void *const *in, int64_t n, const tn_elem_numbers *p);

typedef struct tn_elem {
    tn_elem_fn fn;
    int in_count;
    int cost; /* of one element, against an addition; 0 counts as 1 */
    tn_class out_class;
    tn_class in_class[TN_ELEM_INPUTS];
    /* Operands of other dtypes are rounded to this one before they are used, as PyTorch converts to
     * the common dtype first. NONE: not at all. */
    tenon_dtype via[TN_ELEM_INPUTS];
    tn_elem_numbers numbers;
} tn_elem;

/* Computes out = fn(in...), broadcasting the inputs. RUN_FAILED for an integer division by zero. */
tenon_status TN_K(elementwise)(tn_call *call, const tn_elem *elem, const tenon_view *out,
                               const tenon_view *in);

/* The same for one or more inputs of one class: sets classes and `via` from `dtype`, in which the
 * op computes. */
static inline void tn_elem_classes(tn_elem *elem, tenon_dtype dtype, tn_class class) {
    for (int k = 0; k < elem->in_count; k++) {
        elem->in_class[k] = class;
        elem->via[k] = dtype;
    }
}

/* Loops. `x`, `y`, `z` are the elements of the inputs; `p0` to `p3` the numbers, in the inputs'
 * type. */
#define TN_NUMBER(IN, index) (IN) _Generic((IN)0, int64_t : p->i[index], default : p->f[index])
#define TN_NUMBERS(IN)                                                            \
    const IN p0 = TN_NUMBER(IN, 0), p1 = TN_NUMBER(IN, 1), p2 = TN_NUMBER(IN, 2), \
             p3 = TN_NUMBER(IN, 3);                                               \
    (void)p0, (void)p1, (void)p2, (void)p3
#define TN_LOOP1(name, OUT, IN, expression)                                                   \
    static void name(void *out, const void *const *in, int64_t n, const tn_elem_numbers *p) { \
        OUT *o = out;                                                                         \
        const IN *a = in[0];                                                                  \
        TN_NUMBERS(IN);                                                                       \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                 \
            IN x = a[i];                                                                      \
            (void)x;                                                                          \
            o[i] = (OUT)(expression);                                                         \
        }                                                                                     \
    }
#define TN_LOOP2(name, OUT, IN, expression)                                                   \
    static void name(void *out, const void *const *in, int64_t n, const tn_elem_numbers *p) { \
        OUT *o = out;                                                                         \
        const IN *a = in[0], *b = in[1];                                                      \
        TN_NUMBERS(IN);                                                                       \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                 \
            IN x = a[i], y = b[i];                                                            \
            (void)x, (void)y;                                                                 \
            o[i] = (OUT)(expression);                                                         \
        }                                                                                     \
    }
/* The first input's type may differ: a condition. */
#define TN_LOOP3(name, OUT, FIRST, IN, expression)                                            \
    static void name(void *out, const void *const *in, int64_t n, const tn_elem_numbers *p) { \
        OUT *o = out;                                                                         \
        const FIRST *a = in[0];                                                               \
        const IN *b = in[1], *c = in[2];                                                      \
        TN_NUMBERS(IN);                                                                       \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                 \
            FIRST x = a[i];                                                                   \
            IN y = b[i], z = c[i];                                                            \
            o[i] = (OUT)(expression);                                                         \
        }                                                                                     \
    }

#endif
