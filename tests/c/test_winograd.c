/* Winograd's convolution against plain loops in double: tiles that stick out, groups, widths that
 * are no multiple of a vector or a panel, every activation, layout, ISA level and tile. */
#include "core/activation.h"
#include "fusion/panels.h"
#include "fusion/rewrite.h"
#include "fusion/winograd.h"
#include "pass_test.h"
#include "run_node.h"
#include "suite.h"
#include <math.h>

#define OK(call) ck_assert_msg((call) == TENON_OK, "%s", tenon_last_error())

typedef struct shape {
    int64_t batch, in, out, height, width, pad_y, pad_x, groups; /* channels of all groups */
} shape;

static const shape shapes[] = {
    {1, 16, 16, 4, 4, 1, 1, 1},   {1, 16, 16, 3, 3, 0, 0, 1},   {2, 17, 19, 6, 5, 1, 1, 1},
    {1, 24, 33, 7, 9, 1, 1, 1},   {1, 32, 64, 13, 11, 1, 0, 1}, {3, 48, 31, 5, 14, 2, 1, 1},
    {1, 66, 68, 10, 10, 1, 1, 2}, {2, 48, 96, 8, 9, 0, 2, 3},   {1, 40, 100, 1, 1, 1, 1, 1},
    {1, 70, 16, 30, 31, 1, 1, 1}, {1, 16, 130, 17, 4, 1, 1, 1}, {4, 64, 64, 28, 28, 1, 1, 4},
};

typedef struct problem {
    tenon_graph *graph;
    tenon_value *x, *w, *b, *r;
    int64_t out_height, out_width;
} problem;

static tenon_value *random_value(tenon_graph *graph, const char *name, int rank,
                                 const int64_t *sizes, double scale, uint64_t *state) {
    tenon_tensor *tensor;
    tenon_value *value;
    OK(tenon_tensor_create(TENON_FLOAT32, rank, sizes, &tensor));
    float *data = tensor->view.data;
    for (int64_t i = 0; i < tenon_view_numel(&tensor->view); i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        data[i] = (float)(scale * ((double)(*state >> 33) / (double)(1u << 30) - 1));
    }
    OK(tn_graph_new_constant(graph, name, tensor, &value));
    return value;
}

static problem make(const shape *s, bool bias, bool residual) {
    uint64_t state = (uint64_t)(s->in * 31 + s->out);
    problem p = {.out_height = s->height + 2 * s->pad_y - 2,
                 .out_width = s->width + 2 * s->pad_x - 2};
    OK(tenon_graph_create("test", &p.graph));
    p.x =
        random_value(p.graph, "x", 4, (int64_t[]){s->batch, s->in, s->height, s->width}, 1, &state);
    p.w = random_value(p.graph, "w", 4, (int64_t[]){s->out, s->in / s->groups, 3, 3},
                       1 / sqrt(9. * (double)(s->in / s->groups)), &state);
    if (bias)
        p.b = random_value(p.graph, "b", 1, (int64_t[]){s->out}, 1, &state);
    if (residual)
        p.r = random_value(p.graph, "r", 4,
                           (int64_t[]){s->batch, s->out, p.out_height, p.out_width}, 1, &state);
    return p;
}

static const float *data_of(const tenon_value *value) {
    return value->tensor->view.data;
}

/* Before the activation. */
static double sum_at(const shape *s, const problem *p, int64_t n, int64_t o, int64_t y, int64_t x) {
    int64_t in = s->in / s->groups, first = o / (s->out / s->groups) * in;
    double sum = p->b ? data_of(p->b)[o] : 0;
    for (int64_t c = 0; c < in; c++)
        for (int64_t i = 0; i < 3; i++)
            for (int64_t j = 0; j < 3; j++) {
                int64_t at_y = y + i - s->pad_y, at_x = x + j - s->pad_x;
                if (at_y >= 0 && at_y < s->height && at_x >= 0 && at_x < s->width)
                    sum +=
                        (double)data_of(p->w)[((o * in + c) * 3 + i) * 3 + j] *
                        (double)data_of(
                            p->x)[((n * s->in + first + c) * s->height + at_y) * s->width + at_x];
            }
    if (p->r)
        sum += data_of(p->r)[((n * s->out + o) * p->out_height + y) * p->out_width + x];
    return sum;
}

static double activate(tn_activation_kind kind, double x) {
    switch (kind) {
    case TN_ACT_RELU:
        return x < 0 ? 0 : x;
    case TN_ACT_CLAMP:
        return fmin(fmax(x, -0.25), 0.5);
    case TN_ACT_LEAKY_RELU:
        return x < 0 ? -0.25 * x : x;
    case TN_ACT_HARDSWISH:
        return x * fmin(fmax(x + 3, 0), 6) / 6;
    case TN_ACT_HARDSIGMOID:
        return fmin(fmax(x + 3, 0), 6) / 6;
    case TN_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    case TN_ACT_SILU:
        return x / (1 + exp(-x));
    case TN_ACT_GELU:
        return 0.5 * x * (1 + erf(x * M_SQRT1_2));
    case TN_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
    case TN_ACT_TANH:
        return tanh(x);
    case TN_ACT_ELU:
        return x > 0 ? x : -0.25 * (exp(x) - 1);
    default:
        return x;
    }
}

/* `plain`: the kernel is to transform the weight. */
static tenon_node *winograd_node(const shape *s, const problem *p, int tile, bool plain,
                                 tn_activation_kind kind) {
    tenon_tensor *made;
    tenon_value *u, *y;
    const tn_weight weight = {p->w, NULL};
    int64_t pads[2] = {s->pad_y, s->pad_x};
    tenon_arg items[2];
    if (plain) {
        OK(tn_packed_weight(&weight, &u));
    } else {
        OK(tn_winograd_weight(&weight, tile, s->groups, &made));
        OK(tn_graph_new_constant(p->graph, "u", made, &u));
    }
    OK(tn_graph_emit(p->graph, NULL, TN_OP_winograd_convolution, NULL, NULL,
                     TN_ARGS(VAL(p->x), VAL(u), p->b ? VAL(p->b) : NIL, p->r ? VAL(p->r) : NIL,
                             INT(s->out), INT(tile), tn_ints(items, pads, 2), INT(s->groups),
                             tenon_arg_string(tn_activation_text(kind)), FLT(-0.25), FLT(0.5)),
                     &y));
    return y->node;
}

/* The largest error over all tiles, levels, layouts and thread counts, against the largest sum. */
static double error_of(const shape *s, bool bias, bool residual, tn_activation_kind kind) {
    problem p = make(s, bias, residual);
    int64_t count = s->batch * s->out * p.out_height * p.out_width;
    double *want = malloc((size_t)count * sizeof *want), largest = 0, error = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t x = i % p.out_width, y = i / p.out_width % p.out_height;
        int64_t o = i / p.out_width / p.out_height % s->out;
        double sum = sum_at(s, &p, i / p.out_width / p.out_height / s->out, o, y, x);
        want[i] = activate(kind, sum);
        largest = fmax(largest, fabs(sum));
    }
    for (int way = 0; way < (s->groups == 1 ? 4 : 2); way++) {
        tenon_node *node = winograd_node(s, &p, way % 2 ? 4 : 2, way > 1, kind);
        for_each_isa(isa) {
            for (int layout = 0; layout < RUN_LAYOUT_COUNT; layout++) {
                tenon_tensor *out[1];
                OK(run_node(node, isa, 1 + layout % 2, (run_layout)layout, out));
                for (int64_t i = 0; i < count; i++)
                    error = fmax(error, fabs(pass_element(&out[0]->view, i) - want[i]));
                tenon_tensor_destroy(&out[0]);
            }
        }
    }
    free(want);
    tenon_graph_destroy(&p.graph);
    return error / largest;
}

START_TEST(shapes_of_all_kinds) {
    double error = error_of(&shapes[_i], _i % 3 != 0, _i % 2 != 0, TN_ACT_RELU);
    ck_assert_msg(error < 5e-6, "shape %d: error %g", _i, error);
}
END_TEST

START_TEST(every_activation) {
    double error = error_of(&shapes[3], true, true, (tn_activation_kind)_i);
    ck_assert_msg(error < 5e-6, "%s: error %g", tn_activation_text((tn_activation_kind)_i), error);
}
END_TEST

/* The value in bfloat16; its own numbers become those of that. */
static tenon_value *narrow(problem *p, const tenon_value *value) {
    const tenon_view *view = &value->tensor->view;
    tenon_tensor *tensor;
    tenon_value *made;
    OK(tenon_tensor_create(TENON_BFLOAT16, view->rank, view->shape, &tensor));
    for (int64_t i = 0; i < tenon_view_numel(view); i++) {
        uint16_t bits = tn_float_to_bf16(((float *)view->data)[i]);
        ((uint16_t *)tensor->view.data)[i] = bits;
        ((float *)view->data)[i] = tn_bf16_to_float(bits);
    }
    OK(tn_graph_new_constant(p->graph, "narrow", tensor, &made));
    return made;
}

/* Sums in float32, rounded once: to nearest, half a unit of 8 bits, beside float32's error. */
START_TEST(bfloat16_images) {
    const shape *s = &shapes[_i];
    problem p = make(s, true, _i % 2 != 0), wide = p;
    p.x = narrow(&p, wide.x);
    p.w = narrow(&p, wide.w);
    p.b = narrow(&p, wide.b);
    p.r = wide.r ? narrow(&p, wide.r) : NULL;
    int64_t count = s->batch * s->out * p.out_height * p.out_width;
    double *want = malloc((size_t)count * sizeof *want);
    ck_assert_ptr_nonnull(want);
    for (int64_t i = 0; i < count; i++) {
        int64_t x = i % p.out_width, y = i / p.out_width % p.out_height;
        int64_t o = i / p.out_width / p.out_height % s->out;
        int64_t n = i / p.out_width / p.out_height / s->out;
        want[i] = activate(TN_ACT_SILU, sum_at(s, &wide, n, o, y, x));
    }
    for (int tile = 2; tile <= 4; tile += 2) {
        tenon_node *node = winograd_node(s, &p, tile, false, TN_ACT_SILU);
        ck_assert_int_eq(node->outputs[0]->dtype, TENON_BFLOAT16);
        for_each_isa(isa) {
            tenon_tensor *out[1];
            OK(run_node(node, isa, 2, (run_layout)(_i % RUN_LAYOUT_COUNT), out));
            for (int64_t i = 0; i < count; i++) {
                double got = pass_element(&out[0]->view, i);
                if (!(fabs(got - want[i]) <= fabs(want[i]) / 256 + 3e-5))
                    ck_abort_msg("element %d is %g, not %g", (int)i, got, want[i]);
            }
            tenon_tensor_destroy(&out[0]);
        }
    }
    free(want);
    tenon_graph_destroy(&p.graph);
}
END_TEST

/* A NaN reaches all that it should, and at most its tiles. */
START_TEST(nan_reaches_its_tiles) {
    const shape s = {1, 16, 16, 12, 12, 1, 1, 1};
    problem p = make(&s, true, false);
    ((float *)p.x->tensor->view.data)[5 * 12 + 5] = NAN; /* channel 0 */
    for (int tile = 2; tile <= 4; tile += 2) {
        tenon_node *node = winograd_node(&s, &p, tile, false, TN_ACT_RELU);
        for_each_isa(isa) {
            tenon_tensor *out[1];
            OK(run_node(node, isa, 1, RUN_CHANNELS_LAST, out));
            for (int64_t i = 0; i < 16 * 144; i++) {
                int64_t x = i % 12, y = i / 12 % 12;
                bool spoiled = isnan(pass_element(&out[0]->view, i));
                bool touched = x >= 4 && x <= 6 && y >= 4 && y <= 6;
                ck_assert(spoiled || !touched);
                ck_assert(!spoiled ||
                          (x >= 4 - tile && x < 8 + tile && y >= 4 - tile && y < 8 + tile));
            }
            tenon_tensor_destroy(&out[0]);
        }
    }
    tenon_graph_destroy(&p.graph);
}
END_TEST

/* ---- The pass ---- */

/* The side of the tiles with which the pass has a convolution computed; 0: it stays. */
static int tile_of(const char *sizes, const char *layout, const char *weight, const char *rest) {
    char text[1024];
    snprintf(text, sizeof text,
             "graph g { input %%x: float32%s\nconst %%w: float32%s = random(1)\n"
             "%%y: float32%s%s = aten.convolution(%%x, %%w, none, %s)\noutput \"o\" = %%y }",
             sizes, weight, sizes, layout, rest);
    char *after = pass_apply(text, "winograd");
    bool found = strstr(after, "tenon.winograd_convolution") != NULL;
    int tile = !found ? 0 : strstr(after, ", 4, [1, 1]") ? 4 : 2;
    tenon_string_free(after);
    return tile;
}

#define LAST " channels_last"
#define PLAIN "[1, 1], [1, 1], [1, 1], false, [0, 0], 1"

START_TEST(the_pass_chooses_tiles) {
    ck_assert_int_eq(tile_of("[1, 64, 56, 56]", LAST, "[64, 64, 3, 3]", PLAIN), 4);
    ck_assert_int_eq(tile_of("[1, 512, 7, 7]", LAST, "[512, 512, 3, 3]", PLAIN), 2);
    ck_assert_int_eq(tile_of("[8, 512, 7, 7]", LAST, "[512, 512, 3, 3]", PLAIN), 4);
    ck_assert_int_eq(tile_of("[1, 512, 2, 2]", LAST, "[512, 512, 3, 3]", PLAIN), 0);
    ck_assert_int_eq(tile_of("[1, 64, 28, 28]", LAST, "[64, 64, 3, 3]", PLAIN), 4);
    ck_assert_int_eq(tile_of("[1, 8, 56, 56]", LAST, "[8, 8, 3, 3]", PLAIN), 0);
    ck_assert_int_eq(tile_of("[1, 64, 56, 56]", "", "[64, 64, 3, 3]", PLAIN), 0);
    ck_assert_int_eq(tile_of("[1, 64, 56, 56]", LAST, "[64, 64, 3, 3]",
                             "[1, 1], [2, 2], [2, 2], false, [0, 0], 1"),
                     0);
    ck_assert_int_eq(tile_of("[1, 64, 56, 56]", LAST, "[64, 64, 5, 5]",
                             "[1, 1], [2, 2], [1, 1], false, [0, 0], 1"),
                     0);
    ck_assert_int_eq(tile_of("[1, 64, 56, 56]", LAST, "[64, 64, 3, 3]",
                             "[1, 1], [1, 1], [1, 1], true, [0, 0], 1"),
                     0);
}
END_TEST

/* With few tiles of 4x4 the kernel transforms the weight, which is packed as any convolution's. */
START_TEST(the_pass_leaves_weights_plain) {
    static const struct {
        const char *x, *weight;
    } cases[] = {{"[1, 256, 14, 14]", "float32[8, 2304, 32]"},
                 {"[8, 256, 14, 14]", "float32[1, 36, 8, 256, 32]"},
                 {"[1, 256, 7, 7]", "float32[1, 16, 8, 256, 32]"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "graph g { input %%x: float32%s\nconst %%w: float32[256, 256, 3, 3] = zeros\n"
                 "%%y: float32%s channels_last = aten.convolution(%%x, %%w, none, " PLAIN
                 ")\noutput \"o\" = %%y }",
                 cases[i].x, cases[i].x);
        char *after = pass_apply(text, "winograd");
        ck_assert_msg(strstr(after, cases[i].weight) != NULL, "%s: %s", cases[i].x, after);
        tenon_string_free(after);
    }
}
END_TEST

/* Sessions that are to run one backend alone do without it. */
START_TEST(backends_are_kept_apart) {
    static const char text[] =
        "graph g { input %x: float32[1, 64, 28, 28]\nconst %w: float32[64, 64, 3, 3] = random(1)\n"
        "%c = aten.conv2d(%x, %w, none, [1, 1], [1, 1])\n%y = aten.relu(%c)\noutput \"o\" = %y }";
    for (int backend = TENON_BACKEND_AUTO; backend <= TENON_BACKEND_REFERENCE; backend++) {
        tenon_graph *graph;
        tenon_session *session;
        tenon_plan_info plan;
        tenon_session_options options = {.backend = (tenon_backend)backend};
        char *print;
        OK(tenon_graph_parse(text, "test", &graph));
        OK(tenon_session_create(graph, &options, &session));
        OK(tenon_session_get_plan(session, &plan));
        OK(tenon_graph_print(plan.graph, &print));
        bool found = strstr(print, "tenon.winograd_convolution") != NULL;
        ck_assert(found == (backend == TENON_BACKEND_AUTO));
        tenon_string_free(print);
        tenon_session_destroy(&session);
        tenon_graph_destroy(&graph);
    }
}
END_TEST

/* ---- The shape rule ---- */

START_TEST(wrong_operands_are_refused) {
    static const char *const nodes[] = {
        "const %u: float32[1, 36, 1, 16, 32] = zeros\n"
        "%y = tenon.winograd_convolution(%x, %u, none, none, 33, 4, [1, 1])",
        "const %u: float32[1, 25, 1, 16, 32] = zeros\n"
        "%y = tenon.winograd_convolution(%x, %u, none, none, 16, 4, [1, 1])",
        "const %u: float32[1, 36, 1, 15, 32] = zeros\n"
        "%y = tenon.winograd_convolution(%x, %u, none, none, 16, 4, [1, 1])",
        "const %u: float32[1, 36, 1, 16, 32] = zeros\n"
        "%y = tenon.winograd_convolution(%x, %u, none, none, 16, 4, [1, 1], 2)",
        "const %u: float32[1, 36, 1, 16, 32] = zeros\nconst %b: float32[15] = zeros\n"
        "%y = tenon.winograd_convolution(%x, %u, %b, none, 16, 4, [1, 1])",
        "const %u: float32[1, 36, 1, 16, 32] = zeros\n"
        "%y = tenon.winograd_convolution(%x, %u, none, %x, 32, 4, [1, 1])",
        "const %u: float32[1, 36, 1, 16, 32] = zeros\n"
        "%y = tenon.winograd_convolution(%x, %u, none, none, 16, 4, [-1, 1])",
        "const %u: float32[1, 36, 1, 16, 32] = zeros\n"
        "%y = tenon.winograd_convolution(%x, %u, none, none, 16, 4, [1, 1], activation=\"cube\")",
        "const %u: float32[1, 36, 1, 16, 32] = zeros\n"
        "%y = tenon.winograd_convolution(%x, %u, none, none, 16, 2, [1, 1])",
        "const %u: float32[1, 36, 1, 16, 32] = zeros\n"
        "%y = tenon.winograd_convolution(%x, %u, none, none, 16, 3, [1, 1])",
        "const %u: float32[1, 143, 32] = zeros\n"
        "%y = tenon.winograd_convolution(%x, %u, none, none, 16, 4, [1, 1])",
        "const %u: float32[1, 72, 32] = zeros\n"
        "%y = tenon.winograd_convolution(%x, %u, none, none, 16, 4, [1, 1], 2)",
    };
    char text[512];
    tenon_graph *graph = NULL;
    snprintf(text, sizeof text,
             "graph g { input %%x: float32[1, 16, 8, 8]\n%s\noutput \"o\" = %%y }", nodes[_i]);
    ck_assert_int_ne(tenon_graph_parse(text, "test", &graph), TENON_OK);
    ck_assert_msg(strstr(tenon_last_error(), "tenon.winograd_convolution") != NULL, "%s",
                  tenon_last_error());
}
END_TEST

int main(void) {
    Suite *suite = suite_create("winograd");
    TCase *tests = tcase_create("kernel");
    tcase_add_loop_test(tests, shapes_of_all_kinds, 0, TN_COUNT(shapes));
    tcase_add_loop_test(tests, every_activation, 0, TN_ACT_COUNT);
    tcase_add_loop_test(tests, bfloat16_images, 0, TN_COUNT(shapes));
    tcase_add_test(tests, nan_reaches_its_tiles);
    tcase_add_test(tests, the_pass_chooses_tiles);
    tcase_add_test(tests, the_pass_leaves_weights_plain);
    tcase_add_test(tests, backends_are_kept_apart);
    tcase_add_loop_test(tests, wrong_operands_are_refused, 0, 12);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
