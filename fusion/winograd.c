/* Convolutions of 3x3 with stride 1 that Winograd's method computes sooner than oneDNN.
 *
 *     x -- convolution(w, b) --.-- [ add(r) ] --.-- [ relu, ... ] --
 *
 *     x -- tenon.winograd_convolution(U, b, r, activation) --
 *
 *     U[p] = (G w G^T)[p]        of each pair of channels; the kernel has the rest
 *
 * (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015; G for F(4x4, 3x3)
 * with the points 0, 1, -1, 2, -2, and for F(2x2, 3x3) with 0, 1, -1.) Rounding grows: against the
 * largest output the error of one layer is below 5e-6.
 */
#include "core/winograd.h"
#include "core/derive.h"
#include "core/kernel.h"
#include "core/workers.h"
#include "fusion/choose.h"
#include "fusion/panels.h"
#include "fusion/passes.h"
#include "fusion/post_ops.h"
#include "fusion/rewrite.h"
#include "fusion/winograd.h"
#include <stdio.h>

/* ---- The weight ---- */

typedef struct transform {
    int n; /* m + 2 */
    int64_t groups;
    const float *scale; /* of each output channel; NULL: none */
} transform;

typedef struct weights {
    const transform *t;
    const tenon_view *from;
    int64_t in, channels, panels; /* channels and panels of a group */
    float *u;
} weights;

enum { PANEL = TN_WINOGRAD_PANEL };

/* The kernels of one input channel and `count` output channels from `first` on, scaled: by tap. */
static void read_kernels(const weights *w, int64_t first, int64_t count, int64_t c,
                         float (*numbers)[PANEL]) {
    tenon_dtype dtype = w->from->dtype;
    size_t size = tenon_dtype_size(dtype);
    for (int64_t k = 0; k < count; k++) {
        float scale = w->t->scale ? w->t->scale[first + k] : 1;
        const char *from =
            (const char *)w->from->data + ((first + k) * w->in + c) * 9 * (int64_t)size;
        for (size_t t = 0; t < 9; t++)
            numbers[t][k] =
                scale * (dtype == TENON_FLOAT32 ? ((const float *)from)[t]
                                                : (float)tn_load_float(from + t * size, dtype));
    }
}

/* to[i * step] = G[i] (a, b, c), where points that are each other's negatives share their terms. */
static void transform_three(int n, const float *a, const float *b, const float *c, float *to,
                            int64_t step) {
    for (int k = 0; k < PANEL; k++, to++) {
        if (n == 6) {
            float even = (a[k] + c[k]) * (-1.f / 6), odd = b[k] * (1.f / 6);
            float even2 = a[k] * (1.f / 24) + c[k] * (1.f / 6), odd2 = b[k] * (1.f / 12);
            to[0] = a[k] * .25f;
            to[step] = even - odd;
            to[2 * step] = even + odd;
            to[3 * step] = even2 + odd2;
            to[4 * step] = even2 - odd2;
            to[5 * step] = c[k];
        } else {
            float even = (a[k] + c[k]) * .5f, odd = b[k] * .5f;
            to[0] = a[k];
            to[step] = even + odd;
            to[2 * step] = even - odd;
            to[3 * step] = c[k];
        }
    }
}

/* u = G w G^T of what one input channel gives to one panel, for each of these pairs: each line of
 * memory is written in one go. */
static void transform_panels(int64_t begin, int64_t end, void *user) {
    const weights *w = user;
    int n = w->t->n;
    int64_t place = w->panels * w->in * PANEL;
    for (int64_t i = begin; i < end; i++) {
        int64_t panel = i / w->in, c = i % w->in;
        int64_t group = panel / w->panels, first = panel % w->panels * PANEL;
        int64_t count = w->channels - first < PANEL ? w->channels - first : PANEL;
        float *to = w->u + group * n * n * place + (first * w->in + c * PANEL);
        float numbers[9][PANEL] = {{0}}, rows[6][3][PANEL];
        read_kernels(w, group * w->channels + first, count, c, numbers);
        for (int x = 0; x < 3; x++)
            transform_three(n, numbers[x], numbers[3 + x], numbers[6 + x], rows[0][x], 3 * PANEL);
        for (int y = 0; y < n; y++, to += n * place)
            transform_three(n, rows[y][0], rows[y][1], rows[y][2], to, place);
    }
}

#define LEAST_PANELS 128 /* that a thread is worth */

static tenon_status transform_weight(const tenon_view *from, const void *user, tenon_tensor **out) {
    const transform *t = user;
    weights w = {.t = t, .from = from, .in = from->shape[1]};
    w.channels = from->shape[0] / t->groups;
    w.panels = (w.channels + PANEL - 1) / PANEL;
    int64_t shape[5] = {t->groups, t->n * t->n, w.panels, w.in, PANEL};
    tenon_tensor *made;
    TN_TRY(tenon_tensor_create(TENON_FLOAT32, 5, shape, &made));
    w.u = made->view.data;
    tn_share_work(t->groups * w.panels * w.in, LEAST_PANELS, transform_panels, &w);
    *out = made;
    return TENON_OK;
}

tenon_status tn_winograd_weight(const tn_weight *weight, int tile, int64_t groups,
                                tenon_tensor **out) {
    transform t = {tile + 2, groups, tn_weight_scales(weight)};
    char kind[64];
    snprintf(kind, sizeof kind, "winograd %d, groups %lld", tile, (long long)groups);
    return tn_weight_derive(weight, kind, transform_weight, &t, out);
}

/* ---- The choice ---- */

typedef struct convolution {
    tn_convolution c;
    int64_t in, out;              /* channels of a group */
    int64_t batch, height, width; /* of the output */
} convolution;

static bool read(const tenon_node *node, convolution *v) {
    const tenon_value *y = node->outputs[0];
    tn_convolution *c = &v->c;
    if ((y->dtype != TENON_FLOAT32 && y->dtype != TENON_BFLOAT16) ||
        !tn_convolution_read(node, y->dtype, c) || c->kernel[0] != 3 || c->kernel[1] != 3 ||
        c->stride[0] != 1 || c->stride[1] != 1 || c->padding[0] != c->padding[2] ||
        c->padding[1] != c->padding[3])
        return false;
    v->in = c->weight.values->shape[1];
    v->out = y->shape[1] / c->groups;
    v->batch = y->shape[0];
    v->height = y->shape[2];
    v->width = y->shape[3];
    return v->in >= TN_WINOGRAD_CHANNELS && v->out >= TN_WINOGRAD_CHANNELS;
}

static double tiles_of(const convolution *v, int tile) {
    int64_t rows = (v->height + tile - 1) / tile, columns = (v->width + tile - 1) / tile;
    return (double)v->batch * (double)rows * (double)columns;
}

/* In multiplications as a direct convolution does them. Measured against oneDNN 3.7.2 on AVX-512,
 * with one thread and with two: the products run a little below its rate, and with few rows they
 * wait for registers; a transformed weight comes from memory once for each call; the transforms
 * cost more a number the larger the tile; and threads wait for each other three times. */
static double cost_of(const convolution *v, int tile) {
    double places = (tile + 2) * (tile + 2), pairs = (double)v->in * (double)v->out;
    double tiles = tiles_of(v, tile);
    double products = places * (tiles < 8 ? 8 : tiles) * pairs;
    double transforms = places * tiles * (double)(v->in + v->out);
    return (double)v->c.groups *
               (1.1 * products + 6 * places * pairs + (tile == 4 ? 30 : 12) * transforms) +
           6e5;
}

/* The side of the tiles with which Winograd's method is soonest; 0: a direct convolution is. */
static int choose_tile(const convolution *v) {
    double direct = 9.0 * (double)v->c.groups * (double)v->batch * (double)v->height *
                    (double)v->width * (double)v->in * (double)v->out;
    /* Twice as fast in bfloat16, and 16 times with AMX; but images half as large also speed up the
     * transforms. */
    if (v->c.x->dtype == TENON_BFLOAT16)
        direct *= tn_cpu_has_amx() ? 1. / 16 : 0.58;
    double four = cost_of(v, 4), two = cost_of(v, 2);
    return (four < two ? four : two) > 0.95 * direct ? 0 : four < two ? 4 : 2;
}

/* Up to so many tiles, making a weight's transform takes little longer than reading it from memory:
 * measured, 4 to 16 % of a layer for tiles of 4x4, whose transforms are four times as large as the
 * weight. For those of 2x2 it takes 30 %, and would save less. */
#define MOST_PLAIN 24

/* Whether the kernel is to transform the weight each time. bfloat16 ones are not packed. */
static bool stays_plain(const convolution *v, int tile) {
    return tile == 4 && v->c.groups == 1 && v->c.x->dtype == TENON_FLOAT32 &&
           tiles_of(v, tile) <= MOST_PLAIN;
}

static tenon_status rewrite(tenon_graph *graph, tenon_node *node, const convolution *v, int tile) {
    tenon_tensor *tensor;
    tenon_value *weight;
    tenon_arg items[2];
    if (stays_plain(v, tile)) {
        TN_TRY(tn_packed_weight(&v->c.weight, &weight));
    } else {
        TN_TRY(tn_winograd_weight(&v->c.weight, tile, v->c.groups, &tensor));
        TN_TRY(tn_graph_new_constant(graph, v->c.weight.values->name, tensor, &weight));
    }
    tn_post_ops post = tn_post_ops_of(node);
    return tn_fuse(TN_OP_winograd_convolution, &post,
                   TN_ARGS(VAL(v->c.x), VAL(weight), node->args[2],
                           post.residual ? VAL(post.residual) : NIL, INT(v->out * v->c.groups),
                           INT(tile), tn_ints(items, v->c.padding, 2), INT(v->c.groups)));
}

static tenon_status apply(tenon_graph *graph, tenon_node *node, int way) {
    convolution v;
    return read(node, &v) ? rewrite(graph, node, &v, 2 * way) : TENON_OK;
}

static tenon_status choose(tenon_graph *graph, tenon_node *node, const convolution *v, int *tile) {
    static const char *const ways[] = {"direct", "Winograd 2x2", "Winograd 4x4"};
    int way;
    tn_post_ops post = tn_post_ops_of(node);
    TN_TRY(tn_choose(graph,
                     &(tn_choice){.nodes = post.nodes,
                                  .node_count = post.count,
                                  .ways = ways,
                                  .way_count = TN_COUNT(ways),
                                  .usual = choose_tile(v) / 2,
                                  .apply = apply},
                     &way));
    *tile = 2 * way;
    return TENON_OK;
}

tenon_status tn_pass_winograd(tenon_graph *graph, bool *changed) {
    for (tenon_node *node = graph->first; node; node = tenon_node_next(node)) {
        convolution v;
        int tile = 0;
        if (node->output_count == 1 && read(node, &v))
            TN_TRY(choose(graph, node, &v, &tile));
        if (!tile)
            continue;
        TN_TRY(rewrite(graph, node, &v, tile));
        *changed = true;
    }
    return TENON_OK;
}
