/* What the core is built on: expressions, elements, tensors, names, schemas. */
#include "core/expr.h"
#include "core/pages.h"
#include "core/schema.h"
#include "core/tensor.h"
#include "suite.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int symbol(void *user, const char *name) {
    (void)user;
    return name[0] - 'a';
}

START_TEST(expressions_print_and_evaluate) {
    static const struct {
        const char *text, *printed;
        int64_t value; /* with a = 7, b = -3 */
    } cases[] = {
        {"2*a + 1", "(2*a) + 1", 15},
        {"a - b", "a + ((-1)*b)", 10},
        {"a//b", "a//b", -3},
        {"b//2", "b//2", -2},
        {"b % 5", "b % 5", 2},
        {"a % b", "a % b", -2},
        {"min(a, 2*b)", "min(a, 2*b)", -6},
        {"max(1,a)", "max(1, a)", 7},
        {"a**2 - 1", "(a**2) + ((-1)*1)", 48},
        {"-(a+b)*2", "((-1)*(a + b))*2", -8},
        {"-5", "-5", -5},
    };
    const char *names[] = {"a", "b"};
    tn_binding bindings[] = {{true, 7}, {true, -3}};
    tn_arena arena = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tn_expr *expr = NULL, *again = NULL;
        tn_text text = {0};
        int64_t value;
        ck_assert_msg(tn_expr_parse(&arena, cases[i].text, symbol, NULL, &expr) == TENON_OK, "%s",
                      tenon_last_error());
        tn_expr_print(expr, names, &text);
        ck_assert_str_eq(text.data, cases[i].printed);
        ck_assert_int_eq(tn_expr_parse(&arena, text.data, symbol, NULL, &again), TENON_OK);
        ck_assert(tn_expr_eval(expr, bindings, &value));
        ck_assert_int_eq(value, cases[i].value);
        ck_assert(tn_expr_eval(again, bindings, &value));
        ck_assert_int_eq(value, cases[i].value);
        tn_text_free(&text);
    }
    tn_arena_free(&arena);
}
END_TEST

START_TEST(expressions_refuse) {
    tn_arena arena = {0};
    const tn_expr *expr = NULL;
    static const char *const bad[] = {"",       "a +",   "(a", "a b", "99999999999999999999",
                                      "min(a)", "a $ 2", "*a"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(tn_expr_parse(&arena, bad[i], symbol, NULL, &expr) == TENON_INVALID_ARGUMENT,
                      "'%s'", bad[i]);
    char deep[4000];
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    ck_assert_int_eq(tn_expr_parse(&arena, deep, symbol, NULL, &expr), TENON_INVALID_ARGUMENT);
    memset(deep, '-', sizeof deep - 1);
    ck_assert_int_eq(tn_expr_parse(&arena, deep, symbol, NULL, &expr), TENON_INVALID_ARGUMENT);
    ck_assert_ptr_null(expr);

    tn_binding bindings[] = {{true, 0}, {true, INT64_MAX}};
    int64_t value;
    static const char *const failing[] = {"1//a", "1 % a", "b + 1", "b*2", "3**b", "c + 1"};
    tn_binding three[] = {bindings[0], bindings[1], {false, 0}};
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        ck_assert_int_eq(tn_expr_parse(&arena, failing[i], symbol, NULL, &expr), TENON_OK);
        ck_assert_msg(!tn_expr_eval(expr, three, &value), "%s", failing[i]);
    }
    tn_arena_free(&arena);
}
END_TEST

START_TEST(expressions_solve) {
    static const struct {
        const char *text;
        int64_t size, a;
        bool solved;
    } cases[] = {
        {"a", 5, 5, true},     {"2*a", 8, 4, true},      {"2*a", 7, 0, false},
        {"a + 3", 5, 2, true}, {"3 + 4*a", 11, 2, true}, {"4*(a - 1)", 8, 3, true},
        {"a*a", 9, 0, false},  {"a//2", 3, 0, false},
    };
    tn_arena arena = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tn_expr *expr = NULL;
        tn_binding a = {false, 0};
        ck_assert_int_eq(tn_expr_parse(&arena, cases[i].text, symbol, NULL, &expr), TENON_OK);
        ck_assert_msg(tn_expr_solve(expr, cases[i].size, &a) == cases[i].solved, "%s",
                      cases[i].text);
        if (cases[i].solved)
            ck_assert_int_eq(a.value, cases[i].a);
    }
    tn_arena_free(&arena);
}
END_TEST

/* Every half, and every rounding of floats around them, against the arithmetic definition. */
START_TEST(halves_convert) {
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = tn_half_to_float((uint16_t)bits);
        int exponent = (bits >> 10) & 31, fraction = bits & 1023;
        double expect =
            exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
        if (exponent == 31) {
            ck_assert(fraction ? isnan(value) : isinf(value));
        } else {
            ck_assert(fabs((double)value) == expect);
            ck_assert(!signbit(value) == !(bits >> 15));
        }
        if (!isnan(value))
            ck_assert_uint_eq(tn_float_to_half(value), bits);
        if (exponent == 31 || exponent == 30)
            continue;
        float next = tn_half_to_float((uint16_t)(bits + 1)),
              middle = (float)(((double)value + next) / 2);
        ck_assert_uint_eq(tn_float_to_half(middle), bits & 1 ? bits + 1 : bits);
        ck_assert_uint_eq(tn_float_to_half(nextafterf(middle, value)), bits);
        ck_assert_uint_eq(tn_float_to_half(nextafterf(middle, next)), bits + 1);
    }
    ck_assert_uint_eq(tn_float_to_half(65519.996f), 0x7bff);
    ck_assert_uint_eq(tn_float_to_half(65520.0f), 0x7c00);
    ck_assert_uint_eq(tn_float_to_half(1e30f), 0x7c00);
}
END_TEST

START_TEST(bfloat16_rounds) {
    ck_assert_uint_eq(tn_float_to_bf16(1.0f), 0x3f80);
    ck_assert_uint_eq(tn_float_to_bf16(1.00390625f), 0x3f80); /* a tie, to even */
    ck_assert_uint_eq(tn_float_to_bf16(1.01171875f), 0x3f82); /* a tie, to even */
    ck_assert_uint_eq(tn_float_to_bf16(1.0040f), 0x3f81);
    ck_assert_uint_eq(tn_float_to_bf16(-INFINITY), 0xff80);
    ck_assert_uint_eq(tn_float_to_bf16(3.4e38f), 0x7f80);
    ck_assert(isnan(tn_bf16_to_float(tn_float_to_bf16(NAN))));
}
END_TEST

START_TEST(elements_convert) {
    uint8_t byte = 0;
    int32_t word = 0;
    tn_store_float(&byte, TENON_BOOL, 0.1);
    ck_assert_int_eq(byte, 1);
    tn_store_float(&word, TENON_INT32, -2.9);
    ck_assert_int_eq(word, -2);
    tn_store_int(&byte, TENON_UINT8, 300);
    ck_assert_int_eq(byte, 44);
    int64_t large = INT64_MAX;
    ck_assert_int_eq(tn_load_int(&large, TENON_INT64), INT64_MAX);
    tn_store_float(&large, TENON_INT64, NAN); /* any number, but no trap */
    double wide = 1e300;
    ck_assert_int_eq(tn_load_int(&wide, TENON_FLOAT64), INT64_MAX);
}
END_TEST

/* PyTorch's promotion table: torch.promote_types over these dtypes. */
START_TEST(dtypes_promote) {
    static const tenon_dtype order[] = {TENON_BOOL,    TENON_UINT8,  TENON_INT8,    TENON_INT16,
                                        TENON_INT32,   TENON_INT64,  TENON_FLOAT16, TENON_BFLOAT16,
                                        TENON_FLOAT32, TENON_FLOAT64};
    static const char *const rows[] = {
        "b u a h i l e g f d", "u u h h i l e g f d", "a h a h i l e g f d", "h h h h i l e g f d",
        "i i i i i l e g f d", "l l l l l l e g f d", "e e e e e e e f f d", "g g g g g g f g f d",
        "f f f f f f f f f d", "d d d d d d d d d d"};
    static const char letters[] = "buahilegfd";
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 10; j++)
            ck_assert_int_eq(tn_promote(order[i], order[j]),
                             order[strchr(letters, rows[i][2 * j]) - letters]);
}
END_TEST

START_TEST(tensors_check_their_memory) {
    tenon_tensor *tensor = NULL;
    ck_assert_int_eq(tenon_tensor_create(TENON_FLOAT32, 2, (int64_t[]){2, -1}, &tensor),
                     TENON_INVALID_ARGUMENT);
    ck_assert_int_eq(tenon_tensor_create(TENON_FLOAT32, 3, (int64_t[]){INT64_MAX, 2, 2}, &tensor),
                     TENON_INVALID_ARGUMENT);
    ck_assert_int_eq(tenon_tensor_create(TENON_FLOAT32, 13, NULL, &tensor), TENON_INVALID_ARGUMENT);
    ck_assert_int_eq(tenon_tensor_create(TENON_DTYPE_NONE, 0, NULL, &tensor),
                     TENON_INVALID_ARGUMENT);
    ck_assert_ptr_null(tensor);
    ck_assert_int_eq(tenon_tensor_create(TENON_FLOAT32, 2, (int64_t[]){3, 4}, &tensor), TENON_OK);
    ck_assert_int_eq(tenon_tensor_view(tensor)->strides[0], 4);
    tenon_tensor *part = NULL;
    tenon_view view = *tenon_tensor_view(tensor);
    view.shape[0] = 4;
    ck_assert_int_eq(tn_tensor_over(tensor->storage, &view, &part), TENON_INVALID_ARGUMENT);
    view.shape[0] = 3;
    view.strides[0] = -4;
    ck_assert_int_eq(tn_tensor_over(tensor->storage, &view, &part), TENON_INVALID_ARGUMENT);
    view.data = (float *)view.data + 8;
    ck_assert_int_eq(tn_tensor_over(tensor->storage, &view, &part), TENON_OK);
    view.strides[0] = INT64_MAX / 2;
    tenon_tensor *none = NULL;
    ck_assert_int_eq(tn_tensor_over(tensor->storage, &view, &none), TENON_INVALID_ARGUMENT);
    tenon_tensor_destroy(&tensor);
    ((float *)part->view.data)[0] = 1; /* the part keeps the memory */
    tenon_tensor_destroy(&part);
}
END_TEST

/* The memory of a wrapped tensor is what its view reaches, in both directions. */
START_TEST(wrapped_tensors_know_their_memory) {
    float data[12];
    tenon_view view = {.data = data + 8, .dtype = TENON_FLOAT32, .rank = 2};
    view.shape[0] = 3, view.shape[1] = 4;
    view.strides[0] = -4, view.strides[1] = 1;
    tenon_tensor *tensor = NULL, *part = NULL, *none = NULL;
    ck_assert_int_eq(tenon_tensor_wrap(&view, NULL, NULL, &tensor), TENON_OK);
    view.data = data;
    view.strides[0] = 4;
    ck_assert_int_eq(tn_tensor_over(tensor->storage, &view, &part), TENON_OK);
    view.shape[0] = 4;
    ck_assert_int_eq(tn_tensor_over(tensor->storage, &view, &none), TENON_INVALID_ARGUMENT);
    view.strides[0] = INT64_MAX / 2;
    ck_assert_int_eq(tenon_tensor_wrap(&view, NULL, NULL, &none), TENON_INVALID_ARGUMENT);
    tenon_tensor_destroy(&part);
    tenon_tensor_destroy(&tensor);
}
END_TEST

START_TEST(views_copy) {
    float from[6] = {1, 2, 3, 4, 5, 6};
    int32_t to[6] = {0};
    tenon_view a = {from, TENON_FLOAT32, 2, {3, 2}, {1, 3}},
               b = {to, TENON_INT32, 2, {3, 2}, {2, 1}};
    ck_assert_int_eq(tenon_view_copy(&b, &a), TENON_OK);
    static const int32_t expect[] = {1, 4, 2, 5, 3, 6};
    ck_assert_mem_eq(to, expect, sizeof to);
    b.shape[0] = 2;
    ck_assert_int_eq(tenon_view_copy(&b, &a), TENON_INVALID_ARGUMENT);
}
END_TEST

START_TEST(maps_keep_names) {
    tn_map map = {0};
    static char names[1000][8];
    for (int i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        ck_assert_int_eq(tn_map_put(&map, names[i], names[i]), TENON_OK);
    }
    for (int i = 0; i < 1000; i += 3)
        tn_map_remove(&map, names[i]);
    tn_map_remove(&map, "absent");
    for (int i = 0; i < 1000; i++)
        ck_assert_ptr_eq(tn_map_get(&map, names[i]), i % 3 ? names[i] : NULL);
    ck_assert_uint_eq(map.used, 666);
    tn_map_free(&map);
}
END_TEST

START_TEST(schemas_parse) {
    tn_arena arena = {0};
    tn_op op = {.schema = "ns::f.x(Tensor(a!) self, Tensor?[] many, int[2] size=[1, -1], *, float? "
                          "p=None, str m='abc') "
                          "-> (Tensor(a!), Tensor[])"};
    ck_assert_msg(tn_schema_parse(&arena, &op) == TENON_OK, "%s", tenon_last_error());
    ck_assert_str_eq(op.name, "ns.f.x");
    ck_assert_int_eq(op.param_count, 5);
    ck_assert(op.params[0].written && op.params[0].alias && !op.params[0].list);
    ck_assert(op.params[1].list && op.params[1].item_optional && !op.params[1].optional);
    ck_assert_int_eq(op.params[2].fixed, 2);
    ck_assert_int_eq(op.params[2].preset.as.list[1].as.i, -1);
    ck_assert(op.params[3].optional && op.params[3].preset.kind == TENON_ARG_NONE);
    ck_assert_str_eq(op.params[4].preset.as.s, "abc");
    ck_assert_int_eq(op.return_count, 2);
    ck_assert(op.returns[0].written && op.returns[1].list && !op.list_return);
    static const char *const bad[] = {"f(Tensor x) -> Tensor",          "a::f(Tensor x -> Tensor",
                                      "a::f(Thing x) -> Tensor",        "a::f(Tensor x)",
                                      "a::f(Tensor x=maybe) -> Tensor", "a::f() -> Tensor x y"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tn_op broken = {.schema = bad[i]};
        ck_assert_msg(tn_schema_parse(&arena, &broken) == TENON_INVALID_ARGUMENT, "%s", bad[i]);
    }
    tn_arena_free(&arena);
}
END_TEST

/* Whether the mapping that begins at `data` has the flag that asks for large pages. */
static bool asks_for_large_pages(const void *data) {
    char line[512], begin[32];
    bool here = false, found = false;
    snprintf(begin, sizeof begin, "%lx-", (unsigned long)(uintptr_t)data);
    FILE *file = fopen("/proc/self/smaps", "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "VmFlags:", 8) != 0)
            here = here || strncmp(line, begin, strlen(begin)) == 0;
        else if (here) {
            found = strstr(line, " hg") != NULL;
            break;
        }
    }
    fclose(file);
    return found;
}

/* Only whole large pages are asked for, and what is in memory stays. */
START_TEST(large_pages_are_asked_for) {
    const size_t large = (size_t)1 << 21, size = 4 * large;
    char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(block != MAP_FAILED);
    char *whole = block + (large - (uintptr_t)block % large) % large;
    whole[0] = whole[large - 1] = whole[large] = 7;
    tn_pages_large(NULL, 0);
    tn_pages_large(whole + 1, large);
    ck_assert(!asks_for_large_pages(whole));
    tn_pages_large(whole - (whole > block), large + 1 + (whole > block));
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) == 0)
        ck_assert(asks_for_large_pages(whole));
    ck_assert(!asks_for_large_pages(whole + large));
    ck_assert(whole[0] == 7 && whole[large - 1] == 7 && whole[large] == 7);
    munmap(block, size);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("core");
    TCase *tests = tcase_create("core");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, expressions_print_and_evaluate);
    tcase_add_test(tests, expressions_refuse);
    tcase_add_test(tests, expressions_solve);
    tcase_add_test(tests, halves_convert);
    tcase_add_test(tests, bfloat16_rounds);
    tcase_add_test(tests, elements_convert);
    tcase_add_test(tests, dtypes_promote);
    tcase_add_test(tests, tensors_check_their_memory);
    tcase_add_test(tests, wrapped_tensors_know_their_memory);
    tcase_add_test(tests, views_copy);
    tcase_add_test(tests, maps_keep_names);
    tcase_add_test(tests, large_pages_are_asked_for);
    tcase_add_test(tests, schemas_parse);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
