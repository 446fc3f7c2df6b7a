/* Small inputs behind faults of other engines, with what PyTorch gives, through both backends. The
 * constants of each graph are used twice: as they are, so that passes compute with them, and as
 * inputs of a run. tests/c/test_op_cases.c has the kernels one by one. */
#include "core/fail.h"
#include "core/tensor.h"
#include "core/util.h"
#include "run_graph.h"
#include <math.h>
#include <stdio.h>

enum { MOST = 4096, MODES = 4 };

/* Loops over modes: backend auto, reference, and both again with constants as inputs. */
static tenon_backend backend_of(int mode) {
    return mode & 1 ? TENON_BACKEND_REFERENCE : TENON_BACKEND_AUTO;
}

/* `text` with each $T replaced by the dtype. With `inputs`, "const %x: T = ...;" becomes "input %x:
 * T;"; else the semicolons go. */
static void write_text(const char *text, const char *dtype, bool inputs, char *out) {
    bool skips = false, constant = false;
    char *const end = out + MOST - 64;
    out += sprintf(out, "graph g {\n");
    for (const char *at = text; *at; at++) {
        ck_assert(out < end);
        if (strncmp(at, "const ", 6) == 0 && inputs) {
            constant = true;
            out += sprintf(out, "input ");
            at += 5;
        } else if (strncmp(at, "$T", 2) == 0 && !skips) {
            out += sprintf(out, "%s", dtype);
            at++;
        } else if (*at == ';') {
            constant = skips = false;
            *out++ = '\n';
        } else if (*at == '=' && constant) {
            skips = true;
        } else if (!skips) {
            *out++ = *at;
        }
    }
    sprintf(out, "\n}\n");
}

/* Outputs are the values %y, and %z when there is one. */
static tenon_status parse_case(const char *body, const char *dtype, bool inputs,
                               tenon_graph **graph) {
    char text[MOST], whole[MOST];
    bool two = strstr(body, "%z =") || strstr(body, "%z, %y");
    snprintf(whole, sizeof whole, "%s;output \"y\" = %%y%s", body, two ? ";output \"z\" = %z" : "");
    write_text(whole, dtype, inputs, text);
    return tenon_graph_parse(text, "test", graph);
}

typedef struct run {
    tenon_graph *constants; /* holds the inputs' elements */
    tenon_session *session;
    tenon_context *context;
    tenon_view outputs[2];
} run;

static tenon_status start(run *r, const char *body, const char *dtype, int mode) {
    tenon_graph *graph = NULL;
    tenon_view inputs[16];
    int count = 0;
    TN_TRY(parse_case(body, dtype, false, &r->constants));
    TN_TRY(parse_case(body, dtype, mode >= 2, &graph));
    const char *threads = getenv("TENON_TEST_THREADS");
    tenon_session_options options = {.backend = backend_of(mode),
                                     .threads = threads ? atoi(threads) : 2};
    tenon_status status = tenon_session_create(graph, &options, &r->session);
    for (; count < tenon_graph_input_count(graph); count++) {
        const char *name = tenon_value_name(tenon_graph_input(graph, count));
        inputs[count] =
            *tenon_tensor_view(tenon_value_tensor(tenon_graph_find_value(r->constants, name)));
    }
    tenon_graph_destroy(&graph);
    TN_TRY(status);
    TN_TRY(tenon_context_create(r->session, &r->context));
    return tenon_context_run(r->context, inputs, count, r->outputs,
                             tenon_session_output_count(r->session));
}

static void finish(run *r) {
    tenon_context_destroy(&r->context);
    tenon_session_destroy(&r->session);
    tenon_graph_destroy(&r->constants);
}

static void expect(const char *body, const char *dtype, int mode, double tolerance,
                   const double *want, int count) {
    run r = {0};
    tenon_status status = start(&r, body, dtype, mode);
    ck_assert_msg(status == TENON_OK, "%s (%s, mode %d): %s", body, dtype, mode,
                  tenon_last_error());
    int at = 0;
    for (int i = 0; i < tenon_session_output_count(r.session); i++) {
        const tenon_view *view = &r.outputs[i];
        int64_t numel = tenon_view_numel(view);
        size_t size = tenon_dtype_size(view->dtype);
        ck_assert(tenon_view_is_contiguous(view));
        for (int64_t k = 0; k < numel; k++, at++) {
            double got = tn_load_float((char *)view->data + (size_t)k * size, view->dtype);
            if (at >= count)
                continue;
            bool same = got == want[at] || (isnan(got) && isnan(want[at])) ||
                        fabs(got - want[at]) <= tolerance * fabs(want[at]);
            if (!same)
                ck_abort_msg("%s (%s, mode %d): element %d is %.9g, not %.9g", body, dtype, mode,
                             at, got, want[at]);
        }
    }
    ck_assert_msg(at == count, "%s (%s, mode %d): %d elements, not %d", body, dtype, mode, at,
                  count);
    finish(&r);
}
#define EXPECT(body, dtype, tolerance, ...)                           \
    expect(body, dtype, _i, tolerance, (const double[]){__VA_ARGS__}, \
           (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

/* The run fails, or what comes before it, and the message holds `text`. */
static void expect_failure(const char *body, const char *dtype, int mode, const char *text) {
    run r = {0};
    ck_assert_msg(start(&r, body, dtype, mode) != TENON_OK, "%s (%s, mode %d) runs", body, dtype,
                  mode);
    ck_assert_msg(strstr(tenon_last_error(), text) != NULL, "%s (%s, mode %d): %s", body, dtype,
                  mode, tenon_last_error());
    finish(&r);
}

static const char *const floats_of[] = {"float32", "bfloat16", "float16", "float64"};
static const char *const halves[] = {"bfloat16", "float16"};
static const char *const integers[] = {"uint8", "int8", "int16", "int32", "int64"};
#define EACH(dtype, list)                                                              \
    for (const char *const *each = list, *dtype = *each; each < list + TN_COUNT(list); \
         dtype = ++each < list + TN_COUNT(list) ? *each : NULL)

/* ---- Pooling, convolution, resizing ---- */

START_TEST(padding_of_max_pool_is_least) {
    EACH(dtype, floats_of) {
        EXPECT("const %x: $T[1, 1, 2, 2] = full(-1);"
               "%y = aten.max_pool2d(%x, [2, 2], [2, 2], [1, 1])",
               dtype, 0, -1, -1, -1, -1);
        EXPECT("const %x: $T[1, 1, 2, 2] = full(-1);"
               "%y, %z = aten.max_pool2d_with_indices(%x, [2, 2], [2, 2], [1, 1])",
               dtype, 0, -1, -1, -1, -1, 0, 1, 2, 3);
        EXPECT("const %x: $T[1, 1, 2] = full(-1);"
               "%y = aten.max_pool1d(%x, [2], [2], [1])",
               dtype, 0, -1, -1);
        EXPECT("const %x: $T[1, 1, 1, 1, 2] = full(-1);"
               "%y = aten.max_pool3d(%x, [2, 2, 2], [2, 2, 2], [1, 1, 1])",
               dtype, 0, -1, -1);
    }
    EXPECT("const %x: int64[1, 1, 2, 2] = full(-1);"
           "%y = aten.max_pool2d(%x, [2, 2], [2, 2], [1, 1])",
           "", 0, -1, -1, -1, -1);
}
END_TEST

START_TEST(last_window_of_avg_pool_is_clipped) {
    EACH(dtype, floats_of) {
        EXPECT("const %x: $T[1, 1, 4] = {1, 2, 3, 4};"
               "%y = aten.avg_pool1d(%x, [3], [2], [1], true, true);"
               "%z = aten.avg_pool1d(%x, [3], [2], [1], true, false)",
               dtype, 0, 1, 3, 2, 1.5, 3, 4);
        EXPECT("const %x: $T[1, 1, 4, 1] = {1, 2, 3, 4};"
               "%y = aten.avg_pool2d(%x, [3, 1], [2, 1], [1, 0], true, true);"
               "%z = aten.avg_pool2d(%x, [3, 1], [2, 1], [1, 0], true, false)",
               dtype, 0, 1, 3, 2, 1.5, 3, 4);
        EXPECT("const %x: $T[1, 1, 1, 1, 4] = {1, 2, 3, 4};"
               "%y = aten.avg_pool3d(%x, [1, 1, 3], [1, 1, 2], [0, 0, 1], true, true);"
               "%z = aten.avg_pool3d(%x, [1, 1, 3], [1, 1, 2], [0, 0, 1], true, false)",
               dtype, 0, 1, 3, 2, 1.5, 3, 4);
    }
}
END_TEST

/* oneDNN's pooling does not carry NaN, as docs/architecture.md says. */
START_TEST(nan_wins_in_max_pool) {
    if (backend_of(_i) != TENON_BACKEND_REFERENCE)
        return;
    EACH(dtype, floats_of) {
        EXPECT("const %x: $T[1, 1, 2, 2] = {1, nan, 5, 6};"
               "%y, %z = aten.max_pool2d_with_indices(%x, [2, 2])",
               dtype, 0, NAN, 1);
        EXPECT("const %x: $T[1, 1, 3, 3] = full(nan); %y = aten.max_pool2d(%x, [3, 3])", dtype, 0,
               NAN);
        EXPECT("const %x: $T[1, 2, 2] = {5, nan, 7, 6};"
               "%y, %z = aten.adaptive_max_pool1d(%x, [1])",
               dtype, 0, NAN, 7, 1, 0);
        EXPECT("const %x: $T[1, 1, 2] = {nan, 7}; %y = aten.max_pool1d(%x, [2])", dtype, 0, NAN);
    }
}
END_TEST

START_TEST(transposed_convolutions_with_dilation) {
    EACH(dtype, floats_of)
    EXPECT("const %x: $T[1, 1, 3, 3] = {0, 0, 0, 0, 1, 0, 0, 0, 0};"
           "const %w: $T[1, 1, 3, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9};"
           "%y = aten.convolution(%x, %w, none, [2, 2], [2, 2], [2, 2], true, [0, 0], 1)",
           dtype, 0, 1, 0, 2, 0, 3, 0, 0, 0, 0, 0, 4, 0, 5, 0, 6, 0, 0, 0, 0, 0, 7, 0, 8, 0, 9);
    tenon_graph *graph = parse_graph(
        "graph g { const %x: float32[1, 1, 50, 50] = ones\n const %w: float32[1, 3, 3, 5] = ones\n"
        "%y = aten.convolution(%x, %w, none, [2, 1], [4, 2], [3, 1], true, [0, 0], 1)\n"
        "output \"y\" = %y }");
    const int64_t sizes[4] = {1, 3, 97, 50};
    for (int d = 0; d < 4; d++)
        ck_assert_int_eq(tenon_value_size(tenon_graph_find_value(graph, "y"), d), sizes[d]);
    tenon_graph_destroy(&graph);
}
END_TEST

#define DECONV                         \
    "const %x: $T[1, 4, 1, 1] = ones;" \
    "const %w: $T[4, 2, 1, 1] = {1, 10, 2, 20, 3, 30, 4, 40};"

START_TEST(grouped_deconvolution_keeps_groups_together) {
    EACH(dtype, floats_of)
    EXPECT(DECONV "%y = aten.convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], true, [0, 0], 2)",
           dtype, 0, 3, 30, 7, 70);
}
END_TEST

START_TEST(output_padding_adds_at_the_end) {
    EACH(dtype, floats_of)
    EXPECT("const %x: $T[1, 1, 2, 2] = ones; const %w: $T[1, 1, 3, 3] = ones;"
           "%y = aten.convolution(%x, %w, none, [2, 2], [1, 1], [1, 1], true, [1, 1], 1)",
           dtype, 0, 1, 2, 1, 1, 2, 4, 2, 2, 1, 2, 1, 1, 1, 2, 1, 1);
}
END_TEST

START_TEST(dilated_depthwise_convolution) {
    const double row[3] = {1 + 4.0 / 9, 1 + 6.0 / 9, 2};
    double want[100];
    for (int i = 0; i < 100; i++) {
        int y = i / 5 % 5 == 2, x = i % 5 == 2;
        want[i] = row[x + y];
    }
    const double tolerances[] = {1e-6, 1e-2, 2e-3, 1e-12};
    for (int k = 0; k < TN_COUNT(floats_of); k++) {
        char body[512];
        snprintf(body, sizeof body,
                 "const %%x: $T[1, 4, 5, 5] = ones; const %%w: $T[4, 1, 3, 3] = full(%.17g);"
                 "const %%b: $T[4] = ones;"
                 "%%y = aten.convolution(%%x, %%w, %%b, [1, 1], [2, 2], [2, 2], false, [0, 0], 4)",
                 1.0 / 9);
        expect(body, floats_of[k], _i, tolerances[k], want, 100);
    }
}
END_TEST

START_TEST(nearest_resizing_takes_the_scale_it_is_given) {
    EACH(dtype, floats_of) {
        EXPECT("const %x: $T[1, 1, 4] = {0, 1, 2, 3};"
               "%y = aten.upsample_nearest1d.vec(%x, none, [1.6]);"
               "%z = aten.upsample_nearest1d.vec(%x, [6], none)",
               dtype, 0, 0, 0, 1, 1, 2, 3, 0, 0, 1, 2, 2, 3);
        EXPECT("const %x: $T[1, 1, 4] = {0, 1, 2, 3};"
               "%y = aten._upsample_nearest_exact1d.vec(%x, [6], none)",
               dtype, 0, 0, 1, 1, 2, 3, 3);
        EXPECT("const %x: $T[1, 1, 1, 4] = {0, 1, 2, 3};"
               "%y = aten.upsample_nearest2d.vec(%x, none, [1.0, 1.6]);"
               "%z = aten.upsample_nearest2d.vec(%x, [1, 6], none)",
               dtype, 0, 0, 0, 1, 1, 2, 3, 0, 0, 1, 2, 2, 3);
        EXPECT("const %x: $T[1, 1, 4, 1, 1] = {0, 1, 2, 3};"
               "%y = aten.upsample_nearest3d.vec(%x, none, [1.6, 1.0, 1.0]);"
               "%z = aten._upsample_nearest_exact3d.vec(%x, [6, 1, 1], none)",
               dtype, 0, 0, 0, 1, 1, 2, 3, 0, 1, 1, 2, 3, 3);
    }
}
END_TEST

#define NORM "const %s: $T[4] = {1, 2, 3, 4}; const %zero: $T[4] = zeros; const %one: $T[4] = ones;"

START_TEST(batch_norm_behind_grouped_and_scaled_products) {
    EXPECT(DECONV NORM
           "%c = aten.convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], true, [0, 0], 2);"
           "%y = aten.batch_norm(%c, %s, %zero, %zero, %one, false, 0.1, 0.0, true)",
           "float32", 1e-6, 3, 60, 21, 280);
    EXPECT("const %a: $T[1, 2] = ones; const %b: $T[2, 2] = ones; const %c: $T[2] = {1, 2};"
           "const %s: $T[2] = {2, 3}; const %one: $T[2] = ones; const %zero: $T[2] = zeros;"
           "%z = aten.addmm(%c, %a, %b, beta=0.5, alpha=2);"
           "%y = aten.batch_norm(%z, %s, %one, %zero, %one, false, 0.1, 0.0, true)",
           "float32", 1e-6, 10, 16, 4.5, 5);
}
END_TEST

/* ---- Numbers ---- */

/* In bfloat16, 256 + 1 is 256: what adds up ones must do so in float32. */
START_TEST(half_types_accumulate_in_float32) {
    static const struct {
        const char *body;
        double want;
    } cases[] = {
        {"const %x: $T[512] = ones; %y = aten.sum(%x)", 512},
        {"const %x: $T[512, 1] = ones; %y = aten.sum.dim_IntList(%x, [0])", 512},
        {"const %x: $T[4096] = ones; %y = aten.mean(%x)", 1},
        {"const %x: $T[1, 4096] = ones; %y = aten.mean.dim(%x, [1])", 1},
        {"const %x: $T[4096, 1] = ones; %y = aten.mean.dim(%x, [0])", 1},
        {"const %x: $T[1, 1, 32, 32] = ones; %y = aten.avg_pool2d(%x, [32, 32])", 1},
        {"const %x: $T[1, 1, 32, 32] = ones; %y = aten.adaptive_avg_pool2d(%x, [1, 1])", 1},
        {"const %x: $T[512] = ones; %c = aten.cumsum(%x, 0); %y = aten.select.int(%c, 0, -1)", 512},
        {"const %x: $T[512] = ones; %c = aten.cumprod(%x, 0); %y = aten.select.int(%c, 0, -1)", 1},
        {"const %x: $T[1024] = ones; %y = aten.linalg_vector_norm(%x)", 32},
        {"const %a: $T[512] = zeros; const %b: $T[512] = full(2); %x = aten.cat([%a, %b]);"
         "%y = aten.var.correction(%x, correction=0)",
         1},
        {"const %a: $T[512] = zeros; const %b: $T[512] = full(2); %x = aten.cat([%a, %b]);"
         "%y = aten.std.correction(%x, correction=0)",
         1},
        {"const %a: $T[1, 1024] = ones; const %b: $T[1024, 1] = ones; %y = aten.mm(%a, %b)", 1024},
        {"const %a: $T[1, 1, 1024] = ones; const %b: $T[1, 1024, 1] = ones;"
         "%y = aten.bmm(%a, %b)",
         1024},
        {"const %a: $T[1, 1024] = ones; const %b: $T[1024] = ones; %y = aten.mv(%a, %b)", 1024},
        {"const %a: $T[1024] = ones; const %b: $T[1024] = ones; %y = aten.dot(%a, %b)", 1024},
        {"const %a: $T[1, 1024] = ones; const %b: $T[1, 1024] = ones; %y = aten.linear(%a, %b)",
         1024},
        {"const %c: $T[1] = zeros; const %a: $T[1, 1024] = ones; const %b: $T[1024, 1] = ones;"
         "%y = aten.addmm(%c, %a, %b)",
         1024},
        {"const %a: $T[1024] = ones; const %b: $T[1024] = ones;"
         "%y = aten.einsum(\"i,i->\", [%a, %b])",
         1024},
        {"const %x: $T[1, 1024, 1, 1] = ones; const %w: $T[1, 1024, 1, 1] = ones;"
         "%y = aten.conv2d(%x, %w)",
         1024},
        {"const %x: $T[1, 1, 32, 32] = ones; const %w: $T[1, 1, 32, 32] = ones;"
         "%y = aten.conv2d(%x, %w)",
         1024},
        {"const %x: $T[1, 1024, 1, 1] = ones; const %w: $T[1024, 1, 1, 1] = ones;"
         "%y = aten.convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], true, [0, 0], 1)",
         1024},
        {"const %x: $T[1] = zeros; const %i: int64[512] = zeros; const %s: $T[512] = ones;"
         "%y = aten.scatter_add(%x, 0, %i, %s)",
         512},
        {"const %x: $T[1] = zeros; const %i: int64[512] = zeros; const %s: $T[512] = ones;"
         "%y = aten.scatter_reduce.two(%x, 0, %i, %s, \"sum\")",
         512},
        {"const %w: $T[1, 1] = ones; const %i: int64[1, 512] = zeros; const %o: int64[0] = zeros;"
         "%e = aten.embedding(%w, %i); %y = aten.mean.dim(%e, [1])",
         1},
        {"const %a: $T[512] = ones; const %b: $T[512] = full(3); %x = aten.cat([%a, %b]);"
         "%n = aten.layer_norm(%x, [1024]); %y = aten.select.int(%n, 0, 0)",
         -1},
        {"const %a: $T[1, 1, 512] = ones; const %b: $T[1, 1, 512] = full(3);"
         "%x = aten.cat([%a, %b], 2); %n = aten.group_norm(%x, 1); %f = aten.view(%n, [-1]);"
         "%y = aten.select.int(%f, 0, 0)",
         -1},
        {"const %x: $T[1024] = full(2); %n = aten.rms_norm(%x, [1024], none, 0.0);"
         "%y = aten.select.int(%n, 0, 0)",
         1},
        {"const %x: $T[512] = zeros; %s = aten.softmax.int(%x, 0); %y = aten.select.int(%s, 0, 0)",
         1.0 / 512},
        {"const %q: $T[1, 1, 1, 4] = zeros; const %k: $T[1, 1, 512, 4] = zeros;"
         "const %v: $T[1, 1, 512, 4] = ones; %a = aten.scaled_dot_product_attention(%q, %k, %v);"
         "%f = aten.view(%a, [-1]); %y = aten.select.int(%f, 0, 0)",
         1},
        {"const %q: $T[1, 1, 9, 4] = zeros; const %k: $T[1, 1, 512, 4] = zeros;"
         "const %v: $T[1, 1, 512, 4] = ones; %a = aten.scaled_dot_product_attention(%q, %k, %v);"
         "%f = aten.view(%a, [-1]); %y = aten.select.int(%f, 0, 0)",
         1},
    };
    EACH(dtype, halves) {
        for (int i = 0; i < TN_COUNT(cases); i++)
            /* The variance's epsilon moves norms by less than one place. */
            expect(cases[i].body, dtype, _i, 1e-3, &cases[i].want, 1);
    }
    EXPECT("const %x: $T[512] = zeros; %y = aten.logsumexp(%x, [0])", "bfloat16", 0, 6.25);
    EXPECT("const %x: $T[512] = zeros; %y = aten.logsumexp(%x, [0])", "float16", 0, 6.23828125);
}
END_TEST

START_TEST(both_forms_of_gelu) {
    EXPECT("const %x: $T[7] = {-3, -2, -1, 1, 2, 1e20, -1e20}; %y = aten.gelu(%x)", "float32", 2e-4,
           -.004050, -.045500, -.158655, .841345, 1.954500, (double)1e20f, 0);
    EXPECT("const %x: $T[7] = {-3, -2, -1, 1, 2, 1e20, -1e20};"
           "%y = aten.gelu(%x, approximate=\"tanh\")",
           "float32", 2e-4, -.003637, -.045402, -.158808, .841192, 1.954598, (double)1e20f, 0);
    EXPECT("const %x: $T[3] = {2, 1e20, -1e20}; %y = aten.gelu(%x)", "bfloat16", 5e-3, 1.9545, 1e20,
           0);
    EXPECT("const %x: $T[3] = {2, 60000, -60000}; %y = aten.gelu(%x, approximate=\"tanh\")",
           "float16", 1e-3, 1.9546, 60000, 0);
}
END_TEST

START_TEST(signs_of_remainders) {
    for (int i = 1; i < TN_COUNT(integers); i++)
        EXPECT("const %a: $T[4] = {-7, 7, -7, 7}; const %b: $T[4] = {3, -3, -3, 3};"
               "%y = aten.remainder.Tensor(%a, %b); %z = aten.fmod.Tensor(%a, %b)",
               integers[i], 0, 2, -2, -1, 1, -1, 1, -1, 1);
    EACH(dtype, floats_of) {
        EXPECT("const %a: $T[2] = {-7.5, 7.5}; const %b: $T[2] = {2, -2};"
               "%y = aten.remainder.Tensor(%a, %b); %z = aten.fmod.Tensor(%a, %b)",
               dtype, 0, .5, -.5, -1.5, 1.5);
        EXPECT("const %a: $T[2] = {-7.5, 7.5};"
               "%y = aten.remainder.Scalar(%a, 2); %z = aten.fmod.Scalar(%a, -2)",
               dtype, 0, .5, 1.5, -1.5, 1.5);
    }
    EXPECT("const %a: uint8[2] = {7, 250}; const %b: uint8[2] = {4, 7};"
           "%y = aten.remainder.Tensor(%a, %b); %z = aten.fmod.Tensor(%a, %b)",
           "", 0, 3, 5, 3, 5);
}
END_TEST

START_TEST(division_of_integers_by_zero) {
    static const char *const bodies[] = {
        "%y = aten.floor_divide(%a, %b)",
        "%y = aten.floor_divide(%a, 0)",
        "%y = aten.remainder.Tensor(%a, %b)",
        "%y = aten.remainder.Scalar(%a, 0)",
        "%y = aten.remainder.Scalar_Tensor(5, %b)",
        "%y = aten.fmod.Tensor(%a, %b)",
        "%y = aten.fmod.Scalar(%a, 0)",
        "%y = aten.div.Tensor_mode(%a, %b, \"trunc\")",
        "%y = aten.div.Scalar_mode(%a, 0, \"floor\")",
        "%y = aten.div.Tensor_mode(%a, %b, rounding_mode=\"floor\")",
    };
    EACH(dtype, integers) {
        for (int i = 0; i < TN_COUNT(bodies); i++) {
            char body[256];
            snprintf(body, sizeof body, "const %%a: $T[2] = {1, 2}; const %%b: $T[2] = {0, 1}; %s",
                     bodies[i]);
            expect_failure(body, dtype, _i, "division by zero");
        }
        EXPECT("const %a: $T[2] = {1, 2}; const %b: $T[2] = {0, 1};"
               "%y = aten.div.Tensor(%a, %b)",
               dtype, 0, INFINITY, 2);
    }
}
END_TEST

START_TEST(least_integer_by_minus_one) {
    static const char *const least[] = {NULL, "-128", "-32768", "-2147483648",
                                        "-9223372036854775808"};
    static const char *const bodies[] = {"%y = aten.floor_divide(%a, %b)",
                                         "%y = aten.div.Tensor_mode(%a, %b, \"trunc\")",
                                         "%y = aten.div.Tensor_mode(%a, %b, \"floor\")",
                                         "%y = aten.floor_divide(%a, -1)",
                                         "%y = aten.neg(%a)",
                                         "%y = aten.abs(%a)",
                                         "%y = aten.mul.Tensor(%a, %b)",
                                         "%y = aten.remainder.Tensor(%a, %b)",
                                         "%y = aten.fmod.Tensor(%a, %b)",
                                         "%y = aten.remainder.Scalar(%a, -1)"};
    for (int k = 1; k < TN_COUNT(integers); k++) {
        for (int i = 0; i < TN_COUNT(bodies); i++) {
            char body[256];
            double want = i < 7 ? strtod(least[k], NULL) : 0;
            snprintf(body, sizeof body, "const %%a: $T[1] = {%s}; const %%b: $T[1] = {-1}; %s",
                     least[k], bodies[i]);
            expect(body, integers[k], _i, 0, &want, 1);
        }
    }
}
END_TEST

START_TEST(shifts_beyond_the_width) {
    for (int i = 1; i < TN_COUNT(integers); i++)
        EXPECT("const %a: $T[4] = {5, -5, 5, -5}; const %b: $T[4] = {1, 2, 64, -1};"
               "%y = aten.bitwise_left_shift.Tensor(%a, %b);"
               "%z = aten.bitwise_right_shift.Tensor(%a, %b)",
               integers[i], 0, 10, -20, 0, 0, 2, -2, 0, -1);
    EXPECT("const %a: uint8[3] = {5, 200, 7}; const %b: uint8[3] = {9, 1, 8};"
           "%y = aten.bitwise_left_shift.Tensor(%a, %b);"
           "%z = aten.bitwise_right_shift.Tensor(%a, %b)",
           "", 0, 0, 144, 0, 0, 100, 0);
}
END_TEST

START_TEST(sums_of_small_integers_widen) {
    EXPECT("const %x: uint8[3] = {200, 100, 50}; %y = aten.cumsum(%x, 0); %z = aten.sum(%x)", "", 0,
           200, 300, 350, 350);
    EXPECT("const %x: bool[3] = {true, true, false}; %y = aten.cumsum(%x, 0); %z = aten.sum(%x)",
           "", 0, 1, 2, 2, 2);
    EXPECT("const %x: bool[3] = {true, true, false}; %y = aten.cumprod(%x, 0);"
           "%z = aten.prod.dim_int(%x, 0)",
           "", 0, 1, 1, 0, 0);
    EACH(dtype, integers) {
        EXPECT("const %x: $T[3] = full(100); %y = aten.sum(%x);"
               "%z = aten.sum.dim_IntList(%x, [0])",
               dtype, 0, 300, 300);
        EXPECT("const %x: $T[3] = full(100); %y = aten.prod(%x); %z = aten.prod.dim_int(%x, 0)",
               dtype, 0, 1000000, 1000000);
        EXPECT("const %x: $T[3] = full(100); %y = aten.cumsum(%x, 0); %z = aten.cumprod(%x, 0)",
               dtype, 0, 100, 200, 300, 100, 10000, 1000000);
    }
    EXPECT("const %x: int8[3] = full(100); %y = aten.sum(%x, dtype=int8);"
           "%z = aten.cumsum(%x, 0, dtype=int8)",
           "", 0, 44, 100, -56, 44);
}
END_TEST

START_TEST(upper_bound_of_clamp_wins) {
    EACH(dtype, floats_of) {
        EXPECT("const %x: $T[3] = {0, 5, 10}; %y = aten.clamp(%x, 6, 3)", dtype, 0, 3, 3, 3);
        EXPECT("const %x: $T[3] = {0, 5, 10}; const %a: $T[] = {6}; const %b: $T[] = {3};"
               "%y = aten.clamp.Tensor(%x, %a, %b)",
               dtype, 0, 3, 3, 3);
        EXPECT("const %x: $T[3] = {0, 5, 10}; %y = aten.clamp(%x, nan, 3);"
               "%z = aten.clamp(%x, 6, nan)",
               dtype, 0, NAN, NAN, NAN, NAN, NAN, NAN);
        EXPECT("const %x: $T[3] = {0, 5, 10}; %y = aten.clamp_min(%x, nan);"
               "%z = aten.clamp_max(%x, nan)",
               dtype, 0, NAN, NAN, NAN, NAN, NAN, NAN);
    }
    EACH(dtype, integers)
    EXPECT("const %x: $T[3] = {0, 5, 10}; %y = aten.clamp(%x, 6, 3);"
           "%z = aten.hardtanh(%x, 2, 7)",
           dtype, 0, 3, 3, 3, 2, 5, 7);
}
END_TEST

START_TEST(nan_is_the_greatest) {
#define ROW "const %x: $T[6] = {1, 2, -3, 4, nan, inf};"
    EACH(dtype, floats_of) {
        EXPECT(ROW "%z, %y = aten.topk(%x, 3)", dtype, 0, 4, 5, 3, NAN, INFINITY, 4);
        EXPECT("const %x: $T[5] = {1, 2, -3, 4, nan};"
               "%z, %y = aten.topk(%x, 2, largest=false)",
               dtype, 0, 2, 0, -3, 1);
        EXPECT(ROW "%z, %y = aten.sort(%x)", dtype, 0, 2, 0, 1, 3, 5, 4, -3, 1, 2, 4, INFINITY,
               NAN);
        EXPECT(ROW "%z, %y = aten.sort(%x, descending=true)", dtype, 0, 4, 5, 3, 1, 0, 2, NAN,
               INFINITY, 4, 2, 1, -3);
        EXPECT(ROW "%z, %y = aten.max.dim(%x, 0)", dtype, 0, 4, NAN);
        EXPECT(ROW "%z, %y = aten.min.dim(%x, 0)", dtype, 0, 4, NAN);
        EXPECT(ROW "%y = aten.argmax(%x); %z = aten.argmin(%x)", dtype, 0, 4, 4);
        EXPECT(ROW "%y = aten.amax(%x); %z = aten.max(%x)", dtype, 0, NAN, NAN);
    }
}
END_TEST

/* ---- Indices ---- */

#define TABLE "const %x: float32[3, 1] = {10, 20, 30}; const %s: float32[2, 1] = {1, 2};"
/* %i is a vector, %j a column, with one index that is %d. */
static void index_text(const char *op, const char *dtype, int64_t index, char *out, size_t size) {
    snprintf(out, size, "%sconst %%i: %s[2] = {0, %lld}; const %%j: %s[2, 1] = {0, %lld}; %%y = %s",
             TABLE, dtype, (long long)index, dtype, (long long)index, op);
}

static const char *const checked[] = {
    "aten.index_select(%x, 0, %i)",
    "aten.gather(%x, 0, %j)",
    "aten.embedding(%x, %i)",
    "aten.scatter.src(%x, 0, %j, %s)",
    "aten.scatter.value(%x, 0, %j, 1)",
    "aten.scatter.reduce(%x, 0, %j, %s, reduce=\"add\")",
    "aten.scatter.value_reduce(%x, 0, %j, 2, reduce=\"multiply\")",
    "aten.scatter_add(%x, 0, %j, %s)",
    "aten.scatter_reduce.two(%x, 0, %j, %s, \"amax\")",
    "aten.index_add(%x, 0, %i, %s)",
    "aten.index_copy(%x, 0, %i, %s)", /* int64 alone, as those below */
    "aten.one_hot(%i, 3)",
};
static const char *const counting_back[] = {
    "aten.index.Tensor(%x, [%i])",
    "aten.index_put(%x, [%i], %s)",
    "aten.index_put(%x, [%i], %s, true)",
    "aten._unsafe_index.Tensor(%x, [%i])",
    "aten.index_fill.int_Scalar(%x, 0, %i, 1)", /* int64 alone, as those below */
    "aten.take_along_dim(%x, %j, 0)",           /* PyTorch takes any index, as remainders */
};
static const char *const index_types[] = {"int64", "int32"};

START_TEST(indices_out_of_range_fail) {
    static const int64_t outside[] = {3, -4, 1000000000, INT32_MIN, -1};
    char body[512];
    for (int t = 0; t < 2; t++) {
        for (int k = 0; k < TN_COUNT(outside); k++) {
            for (int i = 0; i < TN_COUNT(checked) - 2 * t; i++) {
                index_text(checked[i], index_types[t], outside[k], body, sizeof body);
                expect_failure(body, "", _i, "'y'");
            }
            for (int i = 0; i < TN_COUNT(counting_back) - 1 - t && outside[k] != -1; i++) {
                index_text(counting_back[i], index_types[t], outside[k], body, sizeof body);
                expect_failure(body, "", _i, "'y'");
            }
        }
    }
    for (int i = 0; i < TN_COUNT(checked); i++) { /* beyond 32 bits */
        index_text(checked[i], "int64", (int64_t)1 << 32, body, sizeof body);
        expect_failure(body, "", _i, "'y'");
    }
}
END_TEST

START_TEST(negative_indices_count_from_the_end) {
    static const double want[][3] = {{10, 30}, {1, 20, 2}, {11, 20, 32},
                                     {10, 30}, {1, 20, 1}, {10, 30}};
    char body[512];
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < TN_COUNT(counting_back) - 2 * t; i++) {
            index_text(counting_back[i], index_types[t], -1, body, sizeof body);
            expect(body, "", _i, 0, want[i], want[i][2] == 0 ? 2 : 3);
        }
    }
    EXPECT("const %x: float32[3] = {10, 20, 30}; %y = aten.select.int(%x, 0, -1);"
           "%z = aten.slice.Tensor(%x, 0, -2, -1)",
           "", 0, 30, 20);
}
END_TEST

START_TEST(tensors_without_dimensions_are_reduced) {
    static const struct {
        const char *op;
        double want;
    } cases[] = {
        {"aten.max(%x)", 3},
        {"aten.min(%x)", 3},
        {"aten.sum(%x)", 3},
        {"aten.sum.dim_IntList(%x, [0])", 3},
        {"aten.sum.dim_IntList(%x, [-1], true)", 3},
        {"aten.mean(%x)", 3},
        {"aten.mean.dim(%x, [0])", 3},
        {"aten.prod(%x)", 3},
        {"aten.prod.dim_int(%x, 0)", 3},
        {"aten.amax(%x, [0])", 3},
        {"aten.amin(%x)", 3},
        {"aten.argmax(%x)", 0},
        {"aten.argmin(%x, 0)", 0},
        {"aten.any(%x)", 1},
        {"aten.all.dim(%x, 0)", 1},
        {"aten.count_nonzero(%x)", 1},
        {"aten.cumsum(%x, 0)", 3},
        {"aten.cumprod(%x, -1)", 3},
        {"aten.logsumexp(%x, [0])", 3},
        {"aten.linalg_vector_norm(%x, 2, [0])", 3},
        {"aten._softmax(%x, 0, false)", 1},
        {"aten.softmax.int(%x, -1)", 1},
        {"aten._log_softmax(%x, 0, false)", 0},
        {"aten.var.correction(%x, correction=0)", 0},
        {"aten.std.correction(%x, [0], correction=0)", 0},
        {"aten.std(%x)", NAN},
        {"aten.flip(%x, [0])", 3},
    };
    for (int i = 0; i < TN_COUNT(cases); i++) {
        char body[256];
        snprintf(body, sizeof body, "const %%x: $T[] = {3}; %%y = %s", cases[i].op);
        EACH(dtype, floats_of) expect(body, dtype, _i, 0, &cases[i].want, 1);
    }
    EACH(dtype, floats_of) {
        EXPECT("const %x: $T[] = {3}; %z, %y = aten.max.dim(%x, 0)", dtype, 0, 0, 3);
        EXPECT("const %x: $T[] = {3}; %z, %y = aten.min.dim(%x, -1, true)", dtype, 0, 0, 3);
        EXPECT("const %x: $T[] = {3}; %z, %y = aten.topk(%x, 1)", dtype, 0, 0, 3);
        EXPECT("const %x: $T[] = {3}; %z, %y = aten.sort(%x)", dtype, 0, 0, 3);
    }
    EACH(dtype, integers)
    EXPECT("const %x: $T[] = {3}; %y = aten.sum(%x); %z = aten.cumprod(%x, 0)", dtype, 0, 3, 3);
}
END_TEST

/* ---- Attention ---- */

/* Queries of ones, keys of ones, values that count; `rows` queries, of which the first sees one
 * key, the second none, and all others every one. */
static void attention_text(int rows, int keys, const char *mask, const char *op, char *out,
                           size_t size) {
    char elements[2048];
    size_t used = 0;
    bool truth = strcmp(mask, "bool") == 0;
    for (int i = 0; i < rows * keys; i++) {
        bool seen = i / keys > 1 || i == 0;
        used += (size_t)snprintf(elements + used, sizeof elements - used, "%s%s", i ? ", " : "",
                                 truth  ? (seen ? "true" : "false")
                                 : seen ? "0"
                                        : "-inf");
    }
    snprintf(out, size,
             "const %%q: $T[1, 1, %d, 4] = ones; const %%k: $T[1, 1, %d, 4] = ones;"
             "const %%n: $T[%d] = zeros; const %%u: $T[%d] = ones;"
             "const %%w: $T[1, 1, 1, 4] = {0, 1, 2, 3}; const %%c: $T[1, 1, %d, 1] = zeros;"
             "%%v = aten.add.Tensor(%%w, %%c); const %%m: %s[%d, %d] = {%s}; %s",
             rows, keys, rows, keys, keys, truth ? "bool" : "$T", rows, keys, elements, op);
}

/* Every value is [0, 1, 2, 3], and so is the mean of any of them. */
static void expect_rows(const char *body, const char *dtype, int mode, int rows, double masked) {
    double want[4 * 40];
    for (int i = 0; i < 4 * rows; i++)
        want[i] = i / 4 == 1 ? (masked == 0 ? 0 : masked * (i % 4)) : i % 4;
    expect(body, dtype, mode, 1e-2, want, 4 * rows);
}

#define SDPA "%y = aten.scaled_dot_product_attention(%q, %k, %v, %m)"

/* Few queries and many, as they go to different kernels. */
START_TEST(rows_that_see_nothing_are_zero) {
    static const int sizes[][2] = {{2, 3}, {3, 17}, {9, 16}, {20, 40}, {33, 3}};
    char body[4096];
    for (int k = 0; k < TN_COUNT(sizes); k++) {
        if (sizes[k][0] * sizes[k][1] > 340)
            continue;
        EACH(dtype, floats_of) {
            attention_text(sizes[k][0], sizes[k][1], "bool", SDPA, body, sizeof body);
            expect_rows(body, dtype, _i, sizes[k][0], 0);
            attention_text(sizes[k][0], sizes[k][1], "$T", SDPA, body, sizeof body);
            expect_rows(body, dtype, _i, sizes[k][0], 0);
        }
    }
    const double values[] = {0, 1, 2, 3, 0, 0, 0, 0};
    EACH(dtype, floats_of) {
        expect("const %q: $T[1, 1, 2, 4] = ones; const %k: $T[1, 1, 3, 4] = ones;"
               "const %v: $T[1, 1, 3, 4] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};"
               "const %m: bool[2, 3] = {true, false, false, false, false, false};" SDPA,
               dtype, _i, 1e-2, values, 8);
        /* The lowest finite number masks all alike: the plain mean. */
        const char *lowest = strcmp(dtype, "float16") == 0 ? "-65504" : "-3e38";
        snprintf(body, sizeof body,
                 "const %%q: $T[1, 1, 2, 4] = ones; const %%k: $T[1, 1, 3, 4] = ones;"
                 "const %%v: $T[1, 1, 3, 4] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};"
                 "const %%m: $T[2, 3] = {0, %s, %s, %s, %s, %s}; %s",
                 lowest, lowest, lowest, lowest, lowest,
                 "%y = aten.scaled_dot_product_attention(%q, %k, %v, %m)");
        EXPECT(body, dtype, 1e-2, 0, 1, 2, 3, 4, 5, 6, 7);
    }
}
END_TEST

/* Heads that share keys, and more keys than queries that a causal mask leaves. */
START_TEST(grouped_and_causal_rows) {
    EACH(dtype, floats_of) {
        EXPECT(
            "const %q: $T[1, 2, 2, 4] = ones; const %k: $T[1, 1, 3, 4] = ones;"
            "const %v: $T[1, 1, 3, 4] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};"
            "const %m: bool[2, 3] = {true, false, false, false, false, false};"
            "%y = aten.scaled_dot_product_attention(%q, %k, %v, %m, 0.0, false, enable_gqa=true)",
            dtype, 1e-2, 0, 1, 2, 3, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0);
        EXPECT("const %q: $T[1, 1, 3, 4] = ones; const %k: $T[1, 1, 2, 4] = ones;"
               "const %v: $T[1, 1, 2, 4] = {0, 1, 2, 3, 4, 5, 6, 7};"
               "%y = aten.scaled_dot_product_attention(%q, %k, %v, none, 0.0, true)",
               dtype, 1e-2, 0, 1, 2, 3, 2, 3, 4, 5, 2, 3, 4, 5);
    }
}
END_TEST

/* The same from its parts, which passes make attention of: here a row that sees nothing is NaN, and
 * passes must not change that. */
#define SCORES                                                                                 \
    "%kt = aten.transpose.int(%k, 2, 3); %s = aten.matmul(%q, %kt); %h = aten.mul.Tensor(%s, " \
    "0.5);"

START_TEST(softmax_of_nothing_stays_nan) {
    static const int sizes[][2] = {{2, 3}, {9, 16}, {12, 20}};
    char body[4096];
    EXPECT("const %x: float32[2, 2] = {-inf, -inf, -inf, 0}; %y = aten.softmax.int(%x, -1)", "", 0,
           NAN, NAN, 0, 1);
    for (int k = 0; k < TN_COUNT(sizes); k++) {
        const int rows = sizes[k][0], keys = sizes[k][1];
        double want[4 * 40];
        for (int i = 0; i < 4 * rows; i++)
            want[i] = i / 4 == 1 ? NAN : i % 4;
        EACH(dtype, floats_of) {
            attention_text(rows, keys, "$T",
                           SCORES "%a = aten.add.Tensor(%h, %m); %p = aten.softmax.int(%a, -1);"
                                  "%y = aten.matmul(%p, %v)",
                           body, sizeof body);
            expect(body, dtype, _i, 1e-2, want, 4 * rows);
            attention_text(rows, keys, "bool",
                           SCORES "%o = aten.logical_not(%m);"
                                  "%a = aten.masked_fill.Scalar(%h, %o, -inf);"
                                  "%p = aten.softmax.int(%a, -1); %y = aten.matmul(%p, %v)",
                           body, sizeof body);
            expect(body, dtype, _i, 1e-2, want, 4 * rows);
            attention_text(rows, keys, "bool",
                           SCORES "const %low: $T[] = {-inf}; %a = aten.where.self(%m, %h, %low);"
                                  "%p = aten._safe_softmax(%a, -1); %y = aten.matmul(%p, %v)",
                           body, sizeof body);
            expect_rows(body, dtype, _i, rows, 0);
        }
    }
}
END_TEST

START_TEST(nan_in_attention_is_not_lost) {
    EACH(dtype, floats_of) {
        double want[4 * 9];
        for (int i = 0; i < 36; i++)
            want[i] = NAN;
        expect("const %q: $T[1, 1, 2, 4] = full(nan); const %k: $T[1, 1, 3, 4] = ones;"
               "const %v: $T[1, 1, 3, 4] = ones;"
               "%y = aten.scaled_dot_product_attention(%q, %k, %v)",
               dtype, _i, 0, want, 8);
        expect("const %q: $T[1, 1, 9, 4] = full(nan); const %k: $T[1, 1, 16, 4] = ones;"
               "const %v: $T[1, 1, 16, 4] = ones;"
               "%y = aten.scaled_dot_product_attention(%q, %k, %v)",
               dtype, _i, 0, want, 36);
        expect("const %q: $T[1, 1, 2, 4] = ones;"
               "const %k: $T[1, 1, 2, 4] = {1, 1, 1, 1, nan, nan, nan, nan};"
               "const %v: $T[1, 1, 2, 4] = ones; const %m: $T[2, 2] = {0, -inf, 0, -inf};" SDPA,
               dtype, _i, 0, want, 8);
        expect("const %q: $T[1, 1, 2, 4] = ones;"
               "const %k: $T[1, 1, 2, 4] = {1, 1, 1, 1, nan, nan, nan, nan};"
               "const %v: $T[1, 1, 2, 4] = ones;"
               "const %m: bool[2, 2] = {true, false, true, false};" SDPA,
               dtype, _i, 0, want, 8);
    }
}
END_TEST

int main(void) {
    static const struct {
        const char *name;
        const TTest *const *test;
    } tests[] = {
#define TEST(name) {#name, &name}
        TEST(padding_of_max_pool_is_least),
        TEST(last_window_of_avg_pool_is_clipped),
        TEST(nan_wins_in_max_pool),
        TEST(transposed_convolutions_with_dilation),
        TEST(grouped_deconvolution_keeps_groups_together),
        TEST(output_padding_adds_at_the_end),
        TEST(dilated_depthwise_convolution),
        TEST(nearest_resizing_takes_the_scale_it_is_given),
        TEST(batch_norm_behind_grouped_and_scaled_products),
        TEST(half_types_accumulate_in_float32),
        TEST(both_forms_of_gelu),
        TEST(signs_of_remainders),
        TEST(division_of_integers_by_zero),
        TEST(least_integer_by_minus_one),
        TEST(shifts_beyond_the_width),
        TEST(sums_of_small_integers_widen),
        TEST(upper_bound_of_clamp_wins),
        TEST(nan_is_the_greatest),
        TEST(indices_out_of_range_fail),
        TEST(negative_indices_count_from_the_end),
        TEST(tensors_without_dimensions_are_reduced),
        TEST(rows_that_see_nothing_are_zero),
        TEST(grouped_and_causal_rows),
        TEST(softmax_of_nothing_stays_nan),
        TEST(nan_in_attention_is_not_lost),
#undef TEST
    };
    Suite *suite = suite_create("field_cases");
    for (int i = 0; i < TN_COUNT(tests); i++) {
        TCase *tcase = tcase_create(tests[i].name);
        tcase_set_timeout(tcase, 60);
        tcase_add_loop_test(tcase, *tests[i].test, 0, MODES);
        suite_add_tcase(suite, tcase);
    }
    return run_suite(suite);
}
