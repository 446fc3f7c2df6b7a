/* Random valid graphs, the same for the same seed. A graph is put together from motifs: small
 * patterns that a pass looks for, near misses of them, and single ops. Motifs take their operands
 * from a pool of values, and put their results there. */
#ifndef RANDOM_GRAPH_H
#define RANDOM_GRAPH_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <tenon/tenon.h>

enum {
    RG_BATCH = 7, /* in symbolic graphs: sizes that are multiples of it depend on the symbol */
    RG_VALUES = 2048,
    RG_POOL = 256,
    RG_INPUTS = 96
};

typedef struct rg {
    uint64_t state;
    const uint8_t *bytes; /* choices are made by these first */
    size_t byte_count;
    tenon_graph *graph;
    tenon_node *node; /* the last that was made */
    bool symbolic;    /* some sizes are RG_BATCH, which rg_symbolic replaces */
    bool empty;       /* some sizes are 0 */
    bool large;       /* sizes for which kernels have their blocked loops */
    int input_count, constant_count, pool_count, value_count;
    int refused;              /* nodes that the shape rules did not accept */
    char why[256];            /* the last reason */
    int64_t limit[RG_INPUTS]; /* by input: elements of an integer input are from 0 to below it */
    tenon_value *pool[RG_POOL];
    tenon_value *values[RG_VALUES]; /* all, with a guess how large their elements are */
    float size[RG_VALUES];
} rg;

/* Makes a graph of that seed. */
void rg_make(rg *g, uint64_t seed);
/* Makes a graph by choices that the bytes make, one or two bytes each; when they are used up,
 * chance makes them. */
void rg_make_from(rg *g, const uint8_t *bytes, size_t count);
/* The same graph with a symbolic batch size: RG_BATCH becomes "s0". NULL when a node cannot be
 * made that way. */
tenon_graph *rg_symbolic(const tenon_graph *graph);

/* ---- Chance ---- */

uint64_t rg_bits(uint64_t *state);
int rg_int(rg *g, int low, int high); /* both included */
bool rg_chance(rg *g, int percent);
double rg_real(rg *g, double low, double high);
int rg_dim(rg *g);                         /* a size */
int rg_width(rg *g);                       /* a number of channels or features */
int64_t rg_limit(rg *g, int64_t elements); /* as many elements as a value may have */

/* ---- Values ---- */

/* Makes a node "aten.NAME" and gives its first output. One letter of `format` an argument: v value
 * (NULL: the motif has failed, and the result is NULL too), o value or None, i int, d double,
 * b bool, s string, t dtype, n None, - the default, M INT64_MAX, L a list of ints (count, ints...),
 * A a list of int64 (count, array), V a list of values (count, array). */
tenon_value *rg_op(rg *g, const char *name, const char *format, ...);
tenon_value *rg_output(rg *g, int index); /* of the last node */
/* Sets how large elements are about; gives the value. */
tenon_value *rg_set(rg *g, tenon_value *value, double size);
double rg_get(rg *g, const tenon_value *value);
void rg_push(rg *g, tenon_value *value);

int rg_rank(const tenon_value *value);                /* -1 for NULL */
int64_t rg_size(const tenon_value *value, int dim);   /* from the end when negative */
int rg_sizes(const tenon_value *value, int64_t *out); /* gives the rank */
int64_t rg_numel(const tenon_value *value);

tenon_value *rg_input(rg *g, tenon_dtype dtype, int rank, const int64_t *sizes, int64_t limit);
/* Elements from -scale to scale around `middle`; an input in place of a constant when sizes are
 * symbolic. */
tenon_value *rg_constant(rg *g, int rank, const int64_t *sizes, double scale, double middle);
tenon_value *rg_vector(rg *g, int64_t size, double scale, double middle);
tenon_value *rg_number(rg *g, double number, int rank); /* one element */
tenon_value *rg_buffer(rg *g, int rank, const int64_t *sizes);
/* A weight of sums over `inner` terms. */
tenon_value *rg_weight(rg *g, int rank, const int64_t *sizes, int64_t inner);

/* A float32 value of low to high dimensions from the pool, or a new input. */
tenon_value *rg_pick(rg *g, int low, int high);
/* One of any dtype; NULL when there is none. */
tenon_value *rg_pick_dtype(rg *g, tenon_dtype dtype);
/* One with at least 1 channel and sizes of at least `least` in `space` dimensions. */
tenon_value *rg_image(rg *g, int space, int least);
tenon_value *rg_like(rg *g, const tenon_value *value);   /* one of the same sizes */
tenon_value *rg_spread(rg *g, const tenon_value *value); /* one that broadcasts to these sizes */

/* x * number, x + number, a * b and a + b in one of their forms. */
tenon_value *rg_times(rg *g, tenon_value *x, double number);
tenon_value *rg_plus(rg *g, tenon_value *x, double number);
tenon_value *rg_mul(rg *g, tenon_value *a, tenon_value *b);
tenon_value *rg_add(rg *g, tenon_value *a, tenon_value *b);
/* Now and then an inner value of a pattern gets another use. */
tenon_value *rg_leak(rg *g, tenon_value *value);
/* Now and then another number, so that a pattern is missed by a little. */
double rg_off(rg *g, double number);
/* An activation. */
tenon_value *rg_activate(rg *g, tenon_value *x);
/* x w^T + bias in one of its forms; x has at least one dimension. */
tenon_value *rg_linear(rg *g, tenon_value *x, int64_t out);
/* The same sizes seen as others. */
tenon_value *rg_view(rg *g, tenon_value *x, int rank, const int64_t *sizes);

/* ---- Motifs ---- */

typedef struct rg_motif {
    const char *name;
    void (*make)(rg *g);
    int weight;
} rg_motif;

/* Each ends with a NULL name. */
extern const rg_motif rg_pointwise[], rg_products[], rg_attention[], rg_moves[];

#endif
