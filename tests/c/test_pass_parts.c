/* Slices, parts that are put together again, and chains of views and casts. */
#include "pass_test.h"
#include "suite.h"

typedef struct rewrite {
    const char *before, *after; /* NULL: it stays */
} rewrite;

#define X "graph g { input %x: float32[4, 9]\n"

static const rewrite slices[] = {
    /* ends from the end, ends beyond it, and narrow say the same */
    {X "%a = aten.slice.Tensor(%x, -1, -3)\n%b = aten.slice.Tensor(%x, 1, 6, -1)\n"
       "%c = aten.slice.Tensor(%x, 1, none, -4)\n%d = aten.narrow(%x, 1, 6, 3)\n"
       "output \"a\" = %a\noutput \"b\" = %b\noutput \"c\" = %c\noutput \"d\" = %d }",
     X "%a = aten.slice.Tensor(%x, 1, 6, 9, 1)\n%b = aten.slice.Tensor(%x, 1, 6, 8, 1)\n"
       "%c = aten.slice.Tensor(%x, 1, 0, 5, 1)\n%d = aten.slice.Tensor(%x, 1, 6, 9, 1)\n"
       "output \"a\" = %a\noutput \"b\" = %b\noutput \"c\" = %c\noutput \"d\" = %d }"},
    /* steps: the end is behind the last element that is taken */
    {X "%a = aten.slice.Tensor(%x, 1, 1, -1, 3)\n%b = aten.slice.Tensor(%x, 1, 8, 99, 3)\n"
       "output \"a\" = %a\noutput \"b\" = %b }",
     X "%a = aten.slice.Tensor(%x, 1, 1, 8, 3)\n%b = aten.slice.Tensor(%x, 1, 8, 9, 1)\n"
       "output \"a\" = %a\noutput \"b\" = %b }"},
    /* the whole, and nothing */
    {X "%a = aten.slice.Tensor(%x, 1, -99, 9223372036854775807)\n%r = aten.relu(%a)\n"
       "%b = aten.slice.Tensor(%x, 0, -1, 2)\noutput \"r\" = %r\noutput \"b\" = %b }",
     X "%r = aten.relu(%x)\n%b = aten.slice.Tensor(%x, 0, 0, 0)\n"
       "output \"r\" = %r\noutput \"b\" = %b }"},
    /* parts of parts, along one dimension */
    {X "%a = aten.slice.Tensor(%x, 1, 1, 9, 2)\n%b = aten.slice.Tensor(%a, 1, -3, 99, 2)\n"
       "output \"b\" = %b }",
     X "%b = aten.slice.Tensor(%x, 1, 3, 8, 4)\noutput \"b\" = %b }"},
    {X "%a = aten.select.int(%x, -1, -2)\noutput \"a\" = %a }",
     X "%a = aten.select.int(%x, 1, 7)\noutput \"a\" = %a }"},
    {X "%a = aten.slice.Tensor(%x, 1, 1, 8, 1)\n%b = aten.slice.Tensor(%a, 0, 1, 3, 1)\n"
       "%c = aten.select.int(%b, 1, 0)\noutput \"c\" = %c }",
     NULL},
};

static const rewrite cats[] = {
    {X "%a = aten.slice.Tensor(%x, 1, 0, 2)\n%b = aten.slice.Tensor(%x, 1, 2, -3)\n"
       "%c = aten.narrow(%x, -1, 6, 3)\n%y = aten.cat([%a, %b, %c], -1)\n%r = aten.relu(%y)\n"
       "output \"r\" = %r }",
     X "%r = aten.relu(%x)\noutput \"r\" = %r }"},
    /* a run in the middle */
    {X
     "input %y: float32[4, 1]\n%a = aten.slice.Tensor(%x, 1, 1, 4)\n"
     "%b = aten.slice.Tensor(%x, 1, 4, 6)\n%z = aten.cat([%y, %a, %b, %y], 1)\noutput \"z\" = %z }",
     X "input %y: float32[4, 1]\n%a = aten.slice.Tensor(%x, 1, 1, 6)\n"
       "%z = aten.cat([%y, %a, %y], 1)\noutput \"z\" = %z }"},
    {X "%a, %b, %c, %d, %e = aten.chunk(%x, 5, 1)\n%y = aten.cat([%a, %b, %c, %d, %e], 1)\n"
       "%z = aten.cat([%d, %e, %b, %c], 1)\n%r = aten.relu(%y)\noutput \"r\" = %r\n"
       "output \"z\" = %z }",
     X "%s = aten.slice.Tensor(%x, 1, 6, 9)\n%t = aten.slice.Tensor(%x, 1, 2, 6)\n"
       "%z = aten.cat([%s, %t], 1)\n%r = aten.relu(%x)\noutput \"r\" = %r\noutput \"z\" = %z }"},
    {X "%a, %b, %c = aten.split_with_sizes(%x, [2, 3, 4], 1)\n%y = aten.cat([%b, %c], 1)\n"
       "output \"y\" = %y }",
     X "%y = aten.slice.Tensor(%x, 1, 2, 9)\noutput \"y\" = %y }"},
    {"graph g { input %x: float32[3, 9]\n%a, %b, %c = aten.unbind.int(%x, 0)\n"
     "%y = aten.stack([%a, %b, %c], 0)\n%r = aten.relu(%y)\noutput \"r\" = %r }",
     "graph g { input %x: float32[3, 9]\n%r = aten.relu(%x)\noutput \"r\" = %r }"},
    {X "%a = aten.select.int(%x, 1, -3)\n%b = aten.select.int(%x, 1, 7)\n"
       "%y = aten.stack([%a, %b], 1)\noutput \"y\" = %y }",
     X "%y = aten.slice.Tensor(%x, 1, 6, 8)\noutput \"y\" = %y }"},
    /* another order, a gap, another dimension, a step, another tensor, an element twice */
    {X "%a, %b = aten.split.Tensor(%x, 5, 1)\n%y = aten.cat([%b, %a], 1)\noutput \"y\" = %y }",
     NULL},
    {X "%a = aten.slice.Tensor(%x, 1, 0, 2)\n%b = aten.slice.Tensor(%x, 1, 3, 9)\n"
       "%y = aten.cat([%a, %b], 1)\noutput \"y\" = %y }",
     NULL},
    {X "%a = aten.slice.Tensor(%x, 1, 0, 3)\n%b = aten.slice.Tensor(%x, 1, 3, 6)\n"
       "%y = aten.cat([%a, %b], 0)\noutput \"y\" = %y }",
     NULL},
    {X "%a = aten.slice.Tensor(%x, 1, 0, 4, 2)\n%b = aten.slice.Tensor(%x, 1, 4, 9)\n"
       "%y = aten.cat([%a, %b], 1)\noutput \"y\" = %y }",
     NULL},
    {X "input %z: float32[4, 9]\n%a = aten.slice.Tensor(%x, 1, 0, 4)\n"
       "%b = aten.slice.Tensor(%z, 1, 4, 9)\n%y = aten.cat([%a, %b], 1)\noutput \"y\" = %y }",
     NULL},
    {"graph g { input %x: float32[2, 9]\n%a, %b = aten.unbind.int(%x, 0)\n"
     "%y = aten.stack([%a, %b], 1)\n%z = aten.stack([%a, %a], 0)\noutput \"y\" = %y\n"
     "output \"z\" = %z }",
     NULL},
};

#define CAST(y, x, dtype) "%" y " = aten._to_copy(%" x ", dtype=" dtype ")\n"
#define OUT(x) "output \"o\" = %" x " }"
#define HALF "graph g { input %x: float16[4, 9]\n"

static const rewrite views[] = {
    {X "%a = aten.view(%x, [9, 4])\n%b = aten.reshape(%a, [3, 12])\n%c = aten.unsqueeze(%b, 1)\n"
       "%d = aten.squeeze.dim(%c, 1)\n%e = aten.view(%d, [4, 9])\n%r = aten.relu(%e)\n" OUT("r"),
     X "%r = aten.relu(%x)\n" OUT("r")},
    {X "%a = aten.permute(%x, [1, 0])\n%b = aten.t(%a)\n%c = aten.expand(%b, [4, -1])\n"
       "%r = aten.relu(%c)\n" OUT("r"),
     X "%r = aten.relu(%x)\n" OUT("r")},
    /* what widens loses nothing: there and back is nothing, and there and on is one step */
    {HALF CAST("a", "x", "float32") CAST("b", "a", "float16") "%r = aten.relu(%b)\n" OUT("r"),
     HALF "%r = aten.relu(%x)\n" OUT("r")},
    {HALF CAST("a", "x", "float32") CAST("b", "a", "float64") OUT("b"),
     HALF CAST("b", "x", "float64") OUT("b")},
    {"graph g { input %x: int32[4]\n" CAST("a", "x", "float64")
         CAST("b", "a", "int32") "%r = aten.neg(%b)\n" OUT("r"),
     "graph g { input %x: int32[4]\n%r = aten.neg(%x)\n" OUT("r")},
    /* what narrows, and integers that a float does not hold */
    {X CAST("a", "x", "float16") CAST("b", "a", "float32") OUT("b"), NULL},
    {"graph g { input %x: int32[4]\n" CAST("a", "x", "float32") CAST("b", "a", "int32") OUT("b"),
     NULL},
    {"graph g { input %x: float16[4]\n" CAST("a", "x", "bfloat16") CAST("b", "a", "float16")
         OUT("b"),
     NULL},
    {X "%a = aten.permute(%x, [1, 0])\n%b = aten.view(%a, [4, 9])\n" OUT("b"), NULL},
};

static void check(const rewrite *r, const char *pass) {
    pass_check(r->before, pass, r->after ? r->after : r->before);
}

START_TEST(slices_get_one_form) {
    check(&slices[_i], "slices");
}
END_TEST

START_TEST(parts_are_joined) {
    check(&cats[_i], "cats dead_shapes");
}
END_TEST

START_TEST(views_and_casts_cancel) {
    check(&views[_i], "views");
}
END_TEST

START_TEST(equal_slices_merge) {
    pass_check(X "%a = aten.slice.Tensor(%x, 1, -3)\n%b = aten.narrow(%x, 1, 6, 3)\n"
                 "%y = aten.add.Tensor(%a, %b)\n" OUT("y"),
               "slices merge_shapes",
               X "%a = aten.slice.Tensor(%x, 1, 6, 9)\n%y = aten.add.Tensor(%a, %a)\n" OUT("y"));
}
END_TEST

#define C "graph g { const %x: float32[4, 9] = random(1)\n"

START_TEST(the_numbers_stay) {
    pass_same(C "%a = aten.slice.Tensor(%x, 1, 1, 9, 2)\n%b = aten.slice.Tensor(%a, 1, -3, 99, 2)\n"
                "%c = aten.select.int(%x, -1, -2)\noutput \"b\" = %b\noutput \"c\" = %c }",
              "slices", 0);
    pass_same(C "%a, %b, %c, %d, %e = aten.chunk(%x, 5, 1)\n%z = aten.cat([%d, %e, %b, %c], 1)\n"
                "%p = aten.select.int(%x, 1, -3)\n%q = aten.select.int(%x, 1, 7)\n"
                "%y = aten.stack([%p, %q], 1)\noutput \"y\" = %y\noutput \"z\" = %z }",
              "cats", 0);
    pass_same("graph g { const %x: float64[4] = {1.2, -7.9, 300.5, 65519.0}\n"
              "const %h: float16[4] = {1.2, -7.9, 300.5, 1e-6}\n" CAST("a", "h", "float32")
                  CAST("b", "a", "int32") CAST("c", "h", "float64") CAST("d", "c", "bfloat16")
                      CAST("e", "x", "float32") CAST(
                          "f", "e",
                          "float64") "output \"b\" = %b\noutput \"d\" = %d\noutput \"f\" = %f }",
              "views", 0);
}
END_TEST

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

int main(void) {
    Suite *suite = suite_create("pass_parts");
    TCase *tests = tcase_create("all");
    tcase_add_loop_test(tests, slices_get_one_form, 0, COUNT(slices));
    tcase_add_loop_test(tests, parts_are_joined, 0, COUNT(cats));
    tcase_add_loop_test(tests, views_and_casts_cancel, 0, COUNT(views));
    tcase_add_test(tests, equal_slices_merge);
    tcase_add_test(tests, the_numbers_stay);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
