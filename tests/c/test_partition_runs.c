/* Running partitions: order, reasons, threads, memory. */
#include "partition_cases.h"
#include "partitions/order.h"
#include "partitions/pool.h"
#include "suite.h"
#include <malloc.h>
#include <omp.h>
#include <pthread.h>

/* Every node once, after all that it reads. */
static void check_order(const tn_partitions *set, const tenon_graph *graph) {
    int64_t *step_of = calloc((size_t)graph->node_count, sizeof *step_of), seen = 0;
    for (int64_t i = 0; i < set->step_count; i++) {
        const tn_partition_step *step = &set->steps[i];
        int count = step->partition ? step->partition->node_count : 1;
        for (int n = 0; n < count; n++, seen++)
            step_of[step->partition ? step->partition->nodes[n]->order : step->node->order] = i + 1;
        for (int n = 0; n < count; n++) {
            const tenon_node *node = step->partition ? step->partition->nodes[n] : step->node;
            for (int u = 0; u < node->use_count; u++) {
                const tenon_node *maker = node->uses[u].value->node;
                ck_assert(!maker || (step_of[maker->order] > 0 && step_of[maker->order] <= i + 1));
            }
        }
    }
    ck_assert_int_eq(seen, graph->node_count);
    free(step_of);
}

/* A branch leaves what would fuse, through a kernel, and comes back. */
START_TEST(stays_convex) {
    static const test_case c = {
        "convex",
        G(IN("x", "float32[8, 64]") WEIGHT("w", "64, 64") WEIGHT(
            "v",
            "64, 64") "%a = aten.linear(%x, %w)\n%s = aten.sin(%a)\n%b = aten.add.Tensor(%a, %s)\n"
                      "%t = aten.view(%b, [64, 8])\n%u = aten.view(%t, [8, 64])\n"
                      "%c = aten.linear(%b, %v)\n%d = aten.mul.Tensor(%c, %u)\n" OUT("d")),
        "MatMul | Add | MatMul+Multiply", ONEDNN};
    tenon_graph *graph = parse(c.text);
    steps *s = steps_make(graph, c.backend, 1, true);
    check_order(s->set, graph);
    steps_free(s);
    tenon_graph_destroy(&graph);
    check_case(&c, 1, true, true);
}
END_TEST

/* Two partitions that wait for each other although each is convex: the first is taken apart. */
START_TEST(dissolves_circles) {
    tenon_graph *graph =
        parse(G(IN("x", "float32[4]") "%a = aten.relu(%x)\n%b = aten.abs(%x)\n"
                                      "%c = aten.add.Tensor(%a, %b)\n%d = aten.mul.Tensor(%b, %a)\n"
                                      "%e = aten.add.Tensor(%c, %d)\n" OUT("e")));
    tn_graph_number(graph);
    tenon_node *a = graph->first, *b = a->next, *c = b->next, *d = c->next;
    tenon_node *first[] = {a, d}, *second[] = {b, c};
    tn_partition items[2] = {{.nodes = first, .node_count = 2, .ops = "ReLU+Multiply"},
                             {.nodes = second, .node_count = 2, .ops = "Abs+Add"}};
    tn_partitions set = {.items = items, .count = 2};
    ck_assert_int_eq(tn_partitions_order(&set, graph), TENON_OK);
    ck_assert_int_eq(set.count, 1);
    check_order(&set, graph);
    ck_assert_ptr_nonnull(strstr(d->reason, "would wait for a step that waits for it"));
    tn_arena_free(&set.arena);
    tenon_graph_destroy(&graph);
}
END_TEST

typedef struct reason_case {
    const char *text;
    const char *where; /* value whose node, or partition, it is */
    tenon_reason kind;
    const char *reason; /* part of it */
    tenon_backend backend;
} reason_case;

#define LINEAR(y, x) "%" y " = aten.linear(%" x ", %w)\n"
#define MATMUL(body) G(IN("x", "float32[8, 64]") WEIGHT("w", "64, 64") body)

#define X4 "%x, %x, %x, %x, "
#define X16 X4 X4 X4 X4

/* With scales of four channels that are constants, and others; and with zero points. */
#define QUANTIZE(type, call)                                                        \
    G(IN("x", type) IN("u", "float32[4]") "const %s: float32[4] = {1, 2, 3, 4}\n"   \
                                          "const %low: float32[4] = {1, 2, 0, 4}\n" \
                                          "const %z: int64[4] = zeros\n"            \
                                          "const %one: int64[4] = {0, 1, 0, 0}\n"   \
                                          "%y = quantized_decomposed." call "\n" OUT("y"))

static const reason_case reasons[] = {
    {G(IN("x", "float32[4]") "%y = aten.sin(%x)\n" OUT("y")), "y", TENON_REASON_NOT_IN_OP_SET,
     "aten.sin is not in oneDNN Graph's op set", ONEDNN},
    {G(IN("x", "float64[4]") "%y = aten.relu(%x)\n" OUT("y")), "y", TENON_REASON_DTYPE,
     "oneDNN Graph does not compute it in float64 (self float64[4]", ONEDNN},
    {G(IN("x", "int64[4]") "%y = aten.add.Tensor(%x, 1)\n" OUT("y")), "y", TENON_REASON_DTYPE,
     "oneDNN Graph does not compute it in int64", ONEDNN},
    {G(IN("x", "float32[4]") "%y = aten.relu(%x)\n" OUT("y")), "y", TENON_REASON_KERNEL_FASTER,
     "nothing fuses with this light op, and on its 4 elements", TENON_BACKEND_AUTO},
    {G(IN("x", "float32[2, 4]") WEIGHT("w", "3, 4") "%y = aten.linear(%x, %w)\n" OUT("y")), "y",
     TENON_REASON_KERNEL_FASTER, "24 multiplications, and it pays from 32768 on",
     TENON_BACKEND_AUTO},
    {G(IN("x", "float32[2, 1024]") "const %w: float32[2048, 1024] = zeros\n"
                                   "%y = aten.linear(%x, %w)\n%z = aten.relu(%y)\n" OUT("z")),
     "y", TENON_REASON_KERNEL_FASTER, "so few rows take as long as reading the weight",
     TENON_BACKEND_AUTO},
    {G(IN("x", "float32[3, 1024]") "const %w: float32[2048, 1024] = zeros\n"
                                   "%y = aten.linear(%x, %w)\n" OUT("y")),
     "y", TENON_REASON_START, "inputs and constants", TENON_BACKEND_AUTO},
    {G(IN("x", "float32[2, 4]") "%y = aten._softmax(%x, -1, false)\n" OUT("y")), "y",
     TENON_REASON_KERNEL_FASTER, "8 elements, and it pays from 8192 on", TENON_BACKEND_AUTO},
    {G(IN("x", "float32[4]") "%y = aten.gelu(%x)\n" OUT("y")), "y", TENON_REASON_KERNEL_FASTER,
     "4 elements, and a chain of them pays from 65536 on", TENON_BACKEND_AUTO},
    {G(IN("q", "float32[1, 8, 5, 4]") IN(
         "k",
         "float32[1, 8, 10, 4]") "%y = aten.scaled_dot_product_attention(%q, %k, %k)\n" OUT("y")),
     "y", TENON_REASON_KERNEL_FASTER, "it has 5 queries for 10 keys", TENON_BACKEND_AUTO},
    {G(IN("x", "float32[4]") "%y = aten.relu(%x)\n" OUT("y")), "y", TENON_REASON_BACKEND,
     "the reference backend was asked for", TENON_BACKEND_REFERENCE},
    {G(IN("x", "float32[2, 4]") "%y = aten.view(%x, [8])\n" OUT("y")), "y", TENON_REASON_VIEW,
     "it only renames memory", ONEDNN},
    {G(IN("x", "float32[2, 4]") "%y = aten.view(%x, [8])\n" OUT("y")), "y", TENON_REASON_VIEW,
     "it only renames memory", TENON_BACKEND_REFERENCE},
    {G(IN("x", "float32[0, 4]") "%y = aten.relu(%x)\n" OUT("y")), "y", TENON_REASON_OPERANDS,
     "a tensor is empty (self float32[0, 4]", ONEDNN},
    {G(IN("x", "float32[4]") "%y = aten.elu(%x, 1, 2)\n" OUT("y")), "y", TENON_REASON_ATTRIBUTE,
     "no scale and input_scale", ONEDNN},
    {G(IN("x", "float32[8, 6]") "%s = aten.slice.Tensor(%x, 1, 0, 3)\n"
                                "%y = aten._softmax(%s, -1, false)\n" OUT("y")),
     "y", TENON_REASON_LAYOUT, "self float32[8, 3] with strides [6, 1]", ONEDNN},
    {MATMUL(LINEAR("a",
                   "x") "%b = aten.relu(%a)\n%c = aten.tanh(%a)\n" OUT("b") "output \"c\" = %c\n"),
     "b", TENON_REASON_SECOND_USE, "'a' has 2 uses, one of them in 'c' (aten.tanh)", ONEDNN},
    {MATMUL(LINEAR("a", "x") "%b = aten.relu(%a)\n" OUT("b") "output \"a\" = %a\n"), "b",
     TENON_REASON_SECOND_USE, "'a' is also a result of the model", ONEDNN},
    {MATMUL(LINEAR("a", "x") LINEAR("b", "a") "%c = aten.add.Tensor(%b, %a)\n" OUT("c")), "b",
     TENON_REASON_NO_PATTERN, "joins MatMul to what is before it: 'a', from MatMul", ONEDNN},
    {MATMUL("%a = aten.sin(%x)\n%b = aten.relu(%a)\n" OUT("b")), "b", TENON_REASON_KERNEL_BEFORE,
     "'a' comes from a kernel (aten.sin): aten.sin is not in oneDNN Graph's op set", ONEDNN},
    {MATMUL(LINEAR("a", "x") "%v = aten.view(%a, [64, 8])\n%b = aten.relu(%v)\n" OUT("b")), "b",
     TENON_REASON_VIEW_BETWEEN, "'v' comes through aten.view from 'a'", ONEDNN},
    {MATMUL("%a = aten.view(%x, [-1, 64])\n" LINEAR("b", "a") OUT("b")), "b", TENON_REASON_START,
     "inputs and constants", ONEDNN},
    {G(IN("x", "float32[6, 33]")
           IN("z", "float32[6, 33]") "%a = aten.tanh(%x)\n%b = aten.mul.Tensor(%a, %z)\n" OUT("b")),
     "b", TENON_REASON_ONEDNN_SLOW, "an elementwise oneDNN kernel takes no binary op behind it",
     ONEDNN},
    {QUANTIZE("float32[3, 4]", "quantize_per_tensor(%x, 0.1, 0, -127, 127, int8)"), "y",
     TENON_REASON_ATTRIBUTE, "the whole range of int8 or uint8 only", ONEDNN},
    {QUANTIZE("float32[3, 4]", "quantize_per_tensor(%x, 0.1, 0, 0, 127, uint8)"), "y",
     TENON_REASON_ATTRIBUTE, "the whole range of int8 or uint8 only", ONEDNN},
    {QUANTIZE("float32[3, 4]", "quantize_per_tensor(%x, 0.1, 0, -32768, 32767, int16)"), "y",
     TENON_REASON_ATTRIBUTE, "the whole range of int8 or uint8 only", ONEDNN},
    {QUANTIZE("float64[3, 4]", "quantize_per_tensor(%x, 0.1, 0, -128, 127, int8)"), "y",
     TENON_REASON_DTYPE, "oneDNN quantizes float32 only", ONEDNN},
    {QUANTIZE("float32[]", "quantize_per_tensor(%x, 0.1, 0, -128, 127, int8)"), "y",
     TENON_REASON_LAYOUT, "strided, empty or a single number", ONEDNN},
    {QUANTIZE("float32[3, 4]", "quantize_per_tensor(%x, -0.1, 0, -128, 127, int8)"), "y",
     TENON_REASON_ATTRIBUTE, "its scale is not positive", ONEDNN},
    {QUANTIZE("int32[3, 4]", "dequantize_per_tensor(%x, 0.1, 0, -128, 127, int32)"), "y",
     TENON_REASON_DTYPE, "dequantizes int8 and uint8 to float32 only", ONEDNN},
    {QUANTIZE("int8[3, 4]",
              "dequantize_per_tensor(%x, 0.1, 0, -128, 127, int8, out_dtype=float64)"),
     "y", TENON_REASON_DTYPE, "dequantizes int8 and uint8 to float32 only", ONEDNN},
    {QUANTIZE("int8[]", "dequantize_per_tensor(%x, 0.1, 0, -128, 127, int8)"), "y",
     TENON_REASON_LAYOUT, "strided, empty or a single number", ONEDNN},
    {QUANTIZE("float32[3, 4]", "quantize_per_channel(%x, %u, %z, 1, -128, 127, int8)"), "y",
     TENON_REASON_OPERANDS, "its scales are no constants", ONEDNN},
    {QUANTIZE("float32[3, 4]", "quantize_per_channel(%x, %s, %one, 1, -128, 127, int8)"), "y",
     TENON_REASON_ATTRIBUTE, "oneDNN has no zero points by channel", ONEDNN},
    {QUANTIZE("float32[3, 4]", "quantize_per_channel(%x, %low, %z, 1, -128, 127, int8)"), "y",
     TENON_REASON_ATTRIBUTE, "scale number 2 is not positive", ONEDNN},
    {G(IN("x", "float32[7, 8]") WEIGHT("w", "5, 8")
           WEIGHT("long", "10") "%b = aten.slice.Tensor(%long, 0, 0, 10, 2)\n%y = aten.linear(%x, "
                                "%w, %b)\n" OUT("y")),
     "y", TENON_REASON_LAYOUT, "its bias is not one dense vector of the columns", ONEDNN},
    {G(IN("x", "float32[7, 8]") WEIGHT("w", "8, 5")
           WEIGHT("wide", "7, 10") "%b = aten.slice.Tensor(%wide, 1, 0, 10, 2)\n%y = "
                                   "aten.addmm(%b, %x, %w)\n" OUT("y")),
     "y", TENON_REASON_LAYOUT, "its addend is neither dense nor laid out as the result", ONEDNN},
    {G(IN("x", "float32[1, 3, 9, 9]")
           WEIGHT("wide", "4, 3, 3, 6") "%w = aten.slice.Tensor(%wide, 3, 0, 6, 2)\n%y = "
                                        "aten.convolution(%x, %w, none, [1, 1], "
                                        "[0, 0], [1, 1], false, [0, 0], 1)\n" OUT("y")),
     "y", TENON_REASON_LAYOUT, "its weight is strided", ONEDNN},
    {G(IN("x", "float32[2, 3, 1, 2, 1, 2]")
           WEIGHT("w", "3") "%y, %m, %v = aten._native_batch_norm_legit_no_training(%x, %w, %w, "
                            "%w, %w, 0.1, 1)\n" OUT("y")),
     "y", TENON_REASON_OPERANDS, "a batch, channels and up to three more dimensions", ONEDNN},
    {G(IN("x", "float32[3, 4]")
           IN("z", "float32[3, 4]") "%y = aten.rsub.Tensor(%x, %z, alpha=2)\n" OUT("y")),
     "y", TENON_REASON_ATTRIBUTE, "its alpha is not 1", ONEDNN},
    {G(IN("x", "float32[1, 2]") "%y = aten.cat([" X16 X16 X16 X16 "%x])\n" OUT("y")), "y",
     TENON_REASON_OPERANDS, "oneDNN joins 64 tensors at most", ONEDNN},
    {G(IN("x", "float32[1, 2]") "%y = aten.cat([" X16 X16 X16 "%x])\n" OUT("y")), "y",
     TENON_REASON_START, "inputs and constants", ONEDNN},
};

START_TEST(tells_why) {
    const reason_case *c = &reasons[_i];
    tenon_graph *graph = parse(c->text);
    steps *s = steps_make(graph, c->backend, 1, true);
    const tenon_node *node = tenon_graph_find_value(graph, c->where)->node;
    const char *reason = node->reason;
    tenon_reason kind = (tenon_reason)node->reason_kind;
    for (int i = 0; i < s->set->count; i++) {
        for (int n = 0; n < s->set->items[i].node_count; n++) {
            if (s->set->items[i].nodes[n] == node) {
                reason = s->set->items[i].reason;
                kind = s->set->items[i].reason_kind;
            }
        }
    }
    ck_assert_msg(kind == c->kind && reason && strstr(reason, c->reason),
                  "'%s' has the reason %s: '%s'", c->where, tenon_reason_text(kind), reason);
    steps_free(s);
    tenon_graph_destroy(&graph);
}
END_TEST

/* Behind a MatMul as many ops fuse as the version takes, and the reason says so. */
START_TEST(ends_chains) {
    static const char head[] =
        "graph g {\n" IN("x", "float32[8, 64]") WEIGHT("w", "64, 64") "%v0 = aten.linear(%x, %w)\n";
    static const char tail[] = OUT("v24") "}\n";
    tn_text text = {0};
    tn_text_put(&text, head, sizeof head - 1);
    for (int i = 0; i < 24; i++)
        tn_text_add(&text, "%%v%d = aten.%s(%%v%d)\n", i + 1, i % 2 ? "abs" : "tanh", i);
    tn_text_put(&text, tail, sizeof tail - 1);
    tenon_graph *graph = parse(text.data);
    steps *s = steps_make(graph, TENON_BACKEND_ONEDNN, 1, true);
    ck_assert_int_ge(s->set->count, 2);
    int chain = tn_engine_caps()->chain;
    ck_assert_int_eq(s->set->items[0].node_count, 1 + chain);
    ck_assert_ptr_nonnull(strstr(s->set->items[1].reason, "ops behind another"));
    steps_free(s);
    tenon_graph_destroy(&graph);
    check_case(&(test_case){"chain", text.data, NULL, ONEDNN}, 1, true, true);
    tn_text_free(&text);
}
END_TEST

/* ---- Threads ---- */

static const char chain_text[] = G(IN("x", "float32[16, 64]") WEIGHT("w", "96, 64") WEIGHT(
    "v", "64, 96") "%a = aten.linear(%x, %w)\n%b = aten.relu(%a)\n%c = aten.linear(%b, %v)\n%d = "
                   "aten.tanh(%c)\n" OUT("d"));

enum { RUNS = 100, THREADS = 4, ROWS = 16, WIDTH = 64, INNER = 96 };

typedef struct worker {
    pthread_t thread;
    steps *plan;
    float in[ROWS * WIDTH], inner[ROWS * INNER], out[ROWS * WIDTH], want[ROWS * WIDTH];
    int wrong;
} worker;

static void run_chain(worker *w) {
    const tn_partitions *set = w->plan->set;
    for (int i = 0; i < set->count; i++) {
        tn_partition *p = &set->items[i];
        void *in[4], *out[1] = {i ? w->out : w->inner};
        for (int k = 0; k < p->input_count; k++) {
            const tenon_value *value = p->inputs[k];
            in[k] = value->kind == TENON_VALUE_CONSTANT ? w->plan->views[value->id].data
                    : i                                 ? w->inner
                                                        : w->in;
        }
        if (tn_partition_execute(p, in, out) != TENON_OK)
            w->wrong++;
    }
}

static void *work(void *argument) {
    worker *w = argument;
    for (int i = 0; i < RUNS; i++) {
        memset(w->out, 0, sizeof w->out);
        run_chain(w);
        w->wrong += memcmp(w->out, w->want, sizeof w->out) != 0;
    }
    return NULL;
}

/* Field case 49: one compiled chain, and two, from several threads at once. */
START_TEST(runs_from_many_threads) {
    tenon_graph *graphs[2] = {parse(chain_text), parse(chain_text)};
    steps *plans[2];
    static worker workers[THREADS];
    for (int i = 0; i < 2; i++) {
        plans[i] = steps_make(graphs[i], TENON_BACKEND_ONEDNN, 1 + _i, true);
        ck_assert_int_eq(plans[i]->set->count, 2);
    }
    for (int t = 0; t < THREADS; t++) {
        worker *w = &workers[t];
        w->plan = plans[_i ? t % 2 : 0];
        for (int i = 0; i < ROWS * WIDTH; i++)
            w->in[i] = (float)((i * (t + 3)) % 17 - 8) / 8;
        run_chain(w);
        memcpy(w->want, w->out, sizeof w->want);
    }
    for (int t = 0; t < THREADS; t++)
        ck_assert_int_eq(pthread_create(&workers[t].thread, NULL, work, &workers[t]), 0);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(workers[t].thread, NULL);
        ck_assert_int_eq(workers[t].wrong, 0);
    }
    ck_assert(memcmp(workers[0].want, workers[1].want, sizeof workers[0].want) != 0);
    for (int i = 0; i < 2; i++) {
        steps_free(plans[i]);
        tenon_graph_destroy(&graphs[i]);
    }
}
END_TEST

/* The caller's OpenMP settings stay, and inside somebody's parallel region results are the same. */
START_TEST(leaves_openmp_alone) {
    tenon_graph *graph = parse(chain_text);
    omp_set_num_threads(3);
    omp_set_dynamic(1);
    steps *s = steps_make(graph, TENON_BACKEND_ONEDNN, 2, true);
    static worker workers[2];
    int wrong = 0;
    for (int t = 0; t < 2; t++) {
        workers[t].plan = s;
        for (int i = 0; i < ROWS * WIDTH; i++)
            workers[t].in[i] = (float)((i * (t + 3)) % 17 - 8) / 8;
        run_chain(&workers[t]);
        memcpy(workers[t].want, workers[t].out, sizeof workers[t].want);
        memset(workers[t].out, 0, sizeof workers[t].out);
    }
    ck_assert_int_eq(omp_get_max_threads(), 3);
    ck_assert_int_eq(omp_get_dynamic(), 1);
    omp_set_dynamic(0);
#pragma omp parallel for num_threads(2) reduction(+ : wrong)
    for (int t = 0; t < 2; t++) {
        run_chain(&workers[t]);
        wrong += workers[t].wrong;
    }
    ck_assert_int_eq(wrong, 0);
    for (int t = 0; t < 2; t++)
        ck_assert_int_eq(memcmp(workers[t].out, workers[t].want, sizeof workers[t].want), 0);
    steps_free(s);
    tenon_graph_destroy(&graph);
}
END_TEST

/* ---- Memory ---- */

static size_t in_use(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void load_once(bool pack) {
    tenon_graph *graph =
        parse(G(IN("x", "float32[16, 1024]") "const %w: float32[2048, 1024] = random(1)\n"
                                             "%y = aten.linear(%x, %w)\n" OUT("y")));
    steps *s = steps_make(graph, TENON_BACKEND_ONEDNN, 1, pack);
    steps_run(s);
    steps_run(s);
    steps_free(s);
    tenon_graph_destroy(&graph);
}

/* Packed weights of 8 MB do not pile up: not when the last set goes, and not when one stays. */
START_TEST(gives_packed_weights_back) {
    tenon_graph *graph = NULL;
    steps *kept = NULL;
    if (_i) {
        graph = parse(chain_text);
        kept = steps_make(graph, TENON_BACKEND_ONEDNN, 1, true);
        steps_run(kept);
    }
    load_once(true);
    size_t before = in_use();
    for (int i = 0; i < 8; i++)
        load_once(true);
    ck_assert_int_le(in_use(), before + ((size_t)12 << 20));
    if (kept) {
        /* What was packed for it may have gone with the rest; it packs again. */
        steps_run(kept);
        steps_free(kept);
        tenon_graph_destroy(&graph);
    }
}
END_TEST

/* Weights of 8 MB, and with every batch size as much again unless the sizes share what is packed.
 */
START_TEST(shares_packed_weights) {
    static const int sizes[] = {16, 1, 128, 17, 64};
    enum { COUNT = TN_COUNT(sizes) };
    static const char body[] = "const %w: float32[1024, 1024] = random(1)\n"
                               "const %b: float32[1024] = random(2)\n"
                               "const %u: float32[1024, 1024, 1, 1] = random(3)\n"
                               "%a = aten.linear(%x, %w, %b)\n%g = aten.gelu(%a)\n"
                               "%r = aten.add.Tensor(%g, %x)\n"
                               "%v = aten.view(%r, [-1, 1024, 1, 1])\n"
                               "%y = aten.convolution(%v, %u, none, [1, 1], [0, 0], [1, 1], "
                               "false, [0, 0], 1)\n" OUT("y") "}\n";
    tenon_tensor *weights[3] = {0};
    tenon_graph *graphs[2 * COUNT];
    steps *all[2 * COUNT];
    size_t first = 0;
    ck_assert_int_eq(tn_partition_family_create(&steps_family), TENON_OK);
    tn_partition_family *family = steps_family;
    for (int i = 0; i < 2 * COUNT; i++) {
        char text[1024];
        snprintf(text, sizeof text, "graph g {\ninput %%x: float32[%d, 1024]\n", sizes[i % COUNT]);
        strncat(text, body, sizeof text - strlen(text) - 1);
        graphs[i] = parse(text);
        /* The same memory in all, as specialized graphs have it. */
        for (int w = 0; w < 3; w++) {
            if (i == 0) {
                weights[w] = graphs[0]->constants[w]->tensor;
                continue;
            }
            tenon_tensor_destroy(&graphs[i]->constants[w]->tensor);
            ck_assert_int_eq(tenon_tensor_share(weights[w], &graphs[i]->constants[w]->tensor), 0);
        }
        steps_family = i < COUNT ? family : NULL;
        all[i] = steps_make(graphs[i], i < COUNT ? TENON_BACKEND_ONEDNN : TENON_BACKEND_REFERENCE,
                            1, true);
        ck_assert_int_eq(all[i]->set->count, i < COUNT ? 2 : 0);
        steps_input(all[i], 0, 5);
        steps_run(all[i]);
        first = i == 0 ? in_use() : first;
        /* The activations of the others are 2 MB, and what oneDNN keeps for itself. */
        if (i == COUNT - 1)
            ck_assert_int_le(in_use(), first + ((size_t)8 << 20));
    }
    for (int i = 0; i < COUNT; i++)
        compare("shared", steps_output(all[i], 0), steps_output(all[i + COUNT], 0), 1e-5);
    for (int i = 2 * COUNT - 1; i >= 0; i--) {
        steps_free(all[i]);
        tenon_graph_destroy(&graphs[i]);
    }
    tn_partition_family_destroy(&family);
}
END_TEST

START_TEST(pools_memory) {
    static const size_t sizes[] = {0, 1, 1024, 1025, 4096, 5000, 100000, 1 << 20};
    for (int i = 0; i < TN_COUNT(sizes); i++) {
        for (size_t alignment = 8; alignment <= 4096; alignment *= 2) {
            char *a = tn_pool_alloc(sizes[i], alignment), *b = tn_pool_alloc(sizes[i], alignment);
            ck_assert_ptr_nonnull(a);
            ck_assert_ptr_nonnull(b);
            ck_assert_int_eq((uintptr_t)a % alignment, 0);
            ck_assert(a + sizes[i] <= b || b + sizes[i] <= a);
            memset(a, 1, sizes[i]);
            memset(b, 2, sizes[i]);
            tn_pool_free(a);
            tn_pool_free(b);
        }
        void *first = tn_pool_alloc(sizes[i], 64);
        tn_pool_free(first);
        ck_assert_ptr_eq(tn_pool_alloc(sizes[i], 64), first);
        tn_pool_free(first);
    }
    tn_pool_trim();
    ck_assert_ptr_null(tn_pool_alloc(SIZE_MAX / 2, 64));
    tn_pool_free(NULL);
}
END_TEST

/* A chain of light ops costs oneDNN nothing, however long it is. */
START_TEST(takes_long_chains) {
    enum { LENGTH = 200000 };
    tenon_graph *graph = NULL;
    tenon_value *value = NULL;
    ck_assert_int_eq(tenon_graph_create("chain", &graph), TENON_OK);
    ck_assert_int_eq(
        tenon_graph_add_input(graph, "x", TENON_FLOAT32, 1, (const char *[]){"4"}, &value),
        TENON_OK);
    for (int i = 0; i < LENGTH; i++) {
        tenon_arg args[] = {tenon_arg_value(value), tenon_arg_value(value)};
        tenon_node *node = NULL;
        ck_assert_int_eq(tenon_graph_add_node(graph, i % 2 ? "aten.maximum" : "aten.relu", NULL,
                                              args, 1 + i % 2, &node),
                         TENON_OK);
        value = node->outputs[0];
    }
    ck_assert_int_eq(tenon_graph_add_output(graph, "out", tenon_arg_value(value)), TENON_OK);
    steps *s = steps_make(graph, TENON_BACKEND_AUTO, 1, true);
    ck_assert_int_eq(s->set->step_count, LENGTH);
    steps_free(s);
    tenon_graph_destroy(&graph);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("partition_runs");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 240);
    tcase_add_test(tcase, stays_convex);
    tcase_add_test(tcase, dissolves_circles);
    tcase_add_loop_test(tcase, tells_why, 0, TN_COUNT(reasons));
    tcase_add_test(tcase, ends_chains);
    tcase_add_loop_test(tcase, runs_from_many_threads, 0, 2);
    tcase_add_test(tcase, leaves_openmp_alone);
    tcase_add_loop_test(tcase, gives_packed_weights_back, 0, 2);
    tcase_add_test(tcase, shares_packed_weights);
    tcase_add_test(tcase, pools_memory);
    tcase_add_test(tcase, takes_long_chains);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
