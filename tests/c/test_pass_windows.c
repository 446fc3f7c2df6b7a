/* Padding goes into convolutions and pools, where that changes nothing. */
#include "pass_test.h"
#include "suite.h"

typedef struct rewrite {
    const char *before, *after; /* NULL: it stays */
} rewrite;

#define G(rest) "graph g { const %x: float32[1, 2, 8, 7] = random(1)\n" rest
#define CONV(rest) G("const %w: float32[4, 2, 3, 3] = random(2)\n" rest)
#define OUT "output \"o\" = %y }"
#define PAD(y, pads, value) "%" y " = aten.constant_pad_nd(%x, " pads ", " value ")\n"
#define BY(y, x, padding) \
    "%" y " = aten.convolution(%" x ", %w, none, [2, 2], " padding ", [1, 1], false, [0, 0], 1)\n"
#define MAX(args) "%y = aten.max_pool2d(" args ")\n"
#define AVG(args) "%y = aten.avg_pool2d(" args ")\n"

static const rewrite cases[] = {
    /* alike at both ends, and on top of padding that is there */
    {CONV(PAD("p", "[1, 1, 2, 2]", "0.0") BY("y", "p", "[1, 0]") OUT),
     CONV(BY("y", "x", "[3, 1]") OUT)},
    /* TensorFlow's SAME; pads of the last dimension only; two in a row */
    {CONV(PAD("p", "[0, 1, 0, 1]", "0") BY("y", "p", "[0, 0]") OUT),
     CONV("%y = tenon.padded_convolution(%x, %w, none, [2, 2], [0, 0], [1, 1], false, [0, 0], 1, "
          "[1, 1])\n" OUT)},
    {CONV(PAD("p", "[2, 0]", "0") BY("y", "p", "[1, 1]") OUT),
     CONV("%y = tenon.padded_convolution(%x, %w, none, [2, 2], [1, 3], [1, 1], false, [0, 0], 1, "
          "[1, 1])\n" OUT)},
    {CONV(PAD("p", "[0, 1, 0, 1]",
              "0") "%q = aten.constant_pad_nd(%p, [1, 0, 1, 0])\n" BY("y", "q", "[0, 0]") OUT),
     CONV(BY("y", "x", "[1, 1]") OUT)},
    {"graph g { const %x: float32[2, 4, 6] = random(1)\nconst %w: float32[4, 2, 2] = random(2)\n"
     "const %b: float32[4] = random(3)\n%p = aten.constant_pad_nd(%x, [2, 1])\n"
     "%y = aten.convolution(%p, %w, %b, [1], [0], [2], false, [0], 2)\n" OUT,
     "graph g { const %x: float32[2, 4, 6] = random(1)\nconst %w: float32[4, 2, 2] = random(2)\n"
     "const %b: float32[4] = random(3)\n"
     "%y = tenon.padded_convolution(%x, %w, %b, [1], [2], [2], false, [0], 2, [1])\n" OUT},
    /* by another number, a crop, of channels, in front of a transposed convolution */
    {CONV(PAD("p", "[1, 1, 1, 1]", "0.5") BY("y", "p", "[0, 0]") OUT), NULL},
    {CONV(PAD("p", "[1, -1, 1, 1]", "0") BY("y", "p", "[0, 0]") OUT), NULL},
    {G("const %w: float32[4, 3, 3, 3] = random(2)\n" PAD("p", "[1, 1, 1, 1, 0, 1]", "0")
           BY("y", "p", "[0, 0]") OUT),
     NULL},
    {G("const %w: float32[2, 4, 3, 3] = random(2)\n" PAD(
         "p", "[1, 1, 1, 1]",
         "0") "%y = aten.convolution(%p, %w, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 1)\n" OUT),
     NULL},

    /* a maximum ignores minus infinity; ceil_mode reads behind even sizes */
    {G(PAD("p", "[1, 1, 1, 1]", "-inf") MAX("%p, [3, 3], [2, 2]") OUT),
     G(MAX("%x, [3, 3], [2, 2], [1, 1]") OUT)},
    {"graph g { const %x: float32[1, 2, 8, 6] = random(1)\n" PAD("p", "[0, 1, 0, 1]", "-inf")
         MAX("%p, [3, 3], [2, 2]") OUT,
     "graph g { const %x: float32[1, 2, 8, 6] = random(1)\n" MAX(
         "%x, [3, 3], [2, 2], [0, 0], [1], true") OUT},
    /* 0 is not below what relu gives */
    {G("%r = aten.relu(%x)\n%p = aten.constant_pad_nd(%r, [1, 1, 1, 1])\n" MAX("%p, [3, 3], [2, 2]")
           OUT),
     G("%r = aten.relu(%x)\n" MAX("%r, [3, 3], [2, 2], [1, 1]") OUT)},
    /* it is, elsewhere; a window would lie in the padding; the modes give other numbers of windows
     */
    {G(PAD("p", "[1, 1, 1, 1]", "0") MAX("%p, [3, 3], [2, 2]") OUT), NULL},
    {G("%r = aten.relu(%x)\n%p = aten.constant_pad_nd(%r, [2, 2, 2, 2])\n" MAX("%p, [2, 2], [2, 2]")
           OUT),
     NULL},
    {G(PAD("p", "[0, 5, 0, 1]", "-inf") MAX("%p, [3, 3], [2, 2]") OUT), NULL},

    /* an average of whole windows */
    {G(PAD("p", "[1, 1, 1, 1]", "0") AVG("%p, [3, 3], [2, 2]") OUT),
     G(AVG("%x, [3, 3], [2, 2], [1, 1], false, true") OUT)},
    {G(PAD("p", "[1, 1, 1, 1]", "0") AVG("%p, [3, 3], [1, 1], [0, 0], false, false") OUT),
     G(AVG("%x, [3, 3], [1, 1], [1, 1], false, true") OUT)},
    {"graph g { const %x: float32[1, 2, 8, 6] = random(1)\n" PAD("p", "[0, 1, 0, 1]", "0")
         AVG("%p, [3, 3], [2, 2]") OUT,
     "graph g { const %x: float32[1, 2, 8, 6] = random(1)\n" AVG(
         "%x, [3, 3], [2, 2], [0, 0], true, true, 9") OUT},
    {"graph g { const %x: float32[1, 2, 8, 8] = random(1)\n" PAD("p", "[1, 0, 1, 0]", "0")
         AVG("%p, [3, 3], [2, 2], [0, 0], false, true, 3") OUT,
     "graph g { const %x: float32[1, 2, 8, 8] = random(1)\n" AVG(
         "%x, [3, 3], [2, 2], [1, 1], false, true, 3") OUT},
    /* by nothing; by nothing in sum */
    {G(PAD("p", "[0, 0, 0, 0, 0, 0]", "0") "%y = aten.relu(%p)\n" OUT),
     G("%y = aten.relu(%x)\n" OUT)},
    {G(PAD("p", "[1, -1]", "0") "%y = aten.relu(%p)\n" OUT), NULL},
    /* by another number; padding that does not count beside some that does; a window that is cut */
    {G(PAD("p", "[1, 1, 1, 1]", "1") AVG("%p, [3, 3], [2, 2]") OUT), NULL},
    {G(PAD("p", "[1, 1, 1, 1]", "0") AVG("%p, [5, 5], [2, 2], [1, 1], false, false") OUT), NULL},
    {G(PAD("p", "[1, 1, 1, 1]", "0") AVG("%p, [3, 3], [4, 4], [0, 0], true") OUT), NULL},
    {"graph g { const %x: float32[1, 2, 8] = random(1)\n%p = aten.constant_pad_nd(%x, [0, 1])\n"
     "%y = aten.avg_pool1d(%p, [3], [2])\n" OUT,
     NULL},
};

START_TEST(padding_goes_into_windows) {
    const rewrite *r = &cases[_i];
    pass_check(r->before, "pads dead_shapes", r->after ? r->after : r->before);
    pass_same(r->before, "pads", 1e-6);
}
END_TEST

/* Padding "same" of an even kernel has no convolution of its own in PyTorch; it has one here. */
START_TEST(same_padding_of_even_kernels_is_one_convolution) {
    pass_check("graph g { input %x: float32[2, 7]\nconst %w: float32[3, 2, 4] = random(1)\n"
               "%y = aten.conv1d.padding(%x, %w, none, [1], \"same\")\n" OUT,
               "lower pads dead_shapes",
               "graph g { input %x: float32[2, 7]\nconst %w: float32[3, 2, 4] = random(1)\n"
               "%u = aten.unsqueeze(%x, 0)\n%c = tenon.padded_convolution(%u, %w, none, [1], [1], "
               "[1], false, [0], 1, [2])\n%y = aten.squeeze.dim(%c, 0)\n" OUT);
}
END_TEST

START_TEST(padded_convolutions_are_checked) {
    static const struct {
        const char *args, *message;
    } wrong[] = {
        {"[1, 1], [0, 0], [1, 1], true, [0, 0], 1, [1, 1]", "has no transposed form"},
        {"[1, 1], [0, 0], [1, 1], false, [0, 0], 1, [1, -1]", "padding_end of at least 0"},
        {"[1, 1], [0, 0], [1, 1], false, [0, 0], 1, [1, 1, 1]", "2 numbers as padding_end"},
        {"[1, 1], [0, 0], [4, 4], false, [0, 0], 1, [1, 1]", "at least the kernel's size"},
    };
    for (int i = 0; i < (int)(sizeof wrong / sizeof *wrong); i++) {
        char text[512];
        tenon_graph *graph = NULL;
        snprintf(text, sizeof text,
                 "graph g { input %%x: float32[1, 2, 7, 7]\ninput %%w: float32[2, 2, 3, 3]\n"
                 "%%y = tenon.padded_convolution(%%x, %%w, none, %s)\noutput \"o\" = %%y }",
                 wrong[i].args);
        ck_assert_int_ne(tenon_graph_parse(text, "test", &graph), TENON_OK);
        ck_assert_msg(strstr(tenon_last_error(), wrong[i].message) != NULL, "%s",
                      tenon_last_error());
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pass_windows");
    TCase *tests = tcase_create("all");
    tcase_add_loop_test(tests, padding_goes_into_windows, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(tests, same_padding_of_even_kernels_is_one_convolution);
    tcase_add_test(tests, padded_convolutions_are_checked);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
