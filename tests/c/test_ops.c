/* The op table: all of Core ATen is there or refused, with PyTorch's schemas; second names;
 * reasons. */
#include "core/op.h"
#include "core/schema.h"
#include "core/util.h"
#include "suite.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum { MOST_REFUSED = 25, CORE = 193 };

static void same_params(const char *line, const tn_op *want, const tn_op *op) {
    ck_assert_msg(op->param_count == want->param_count, "%s: %d arguments, not %d", line,
                  op->param_count, want->param_count);
    ck_assert_msg(op->return_count == want->return_count, "%s: %d returns, not %d", line,
                  op->return_count, want->return_count);
    for (int i = 0; i < op->param_count; i++) {
        const tn_param *a = &op->params[i], *b = &want->params[i];
        ck_assert_msg(strcmp(a->name, b->name) == 0, "%s: '%s', not '%s'", line, a->name, b->name);
        ck_assert_msg(a->type == b->type && a->list == b->list && a->optional == b->optional &&
                          a->item_optional == b->item_optional && a->written == b->written &&
                          a->has_default == b->has_default,
                      "%s: '%s' differs", line, a->name);
    }
}

START_TEST(core_aten_is_there_or_refused) {
    FILE *file = fopen(TEST_DATA "/core-aten.txt", "r");
    char line[2048], name[128];
    int found = 0, refused = 0;
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file)) {
        tn_arena arena = {0};
        tn_op want = {.schema = line};
        tenon_op_info info;
        line[strcspn(line, "\n")] = '\0';
        ck_assert_msg(tn_schema_parse(&arena, &want) == TENON_OK, "%s", tenon_last_error());
        snprintf(name, sizeof name, "%s", want.name);
        ck_assert_msg(tenon_op_find(name, &info), "%s is neither there nor refused", name);
        if (info.refused) {
            refused++;
            ck_assert_msg(strlen(info.refused) > 20, "%s: no reason", name);
        } else {
            found++;
            same_params(line, &want, tn_op_find(name));
        }
        tn_arena_free(&arena);
    }
    fclose(file);
    ck_assert_int_eq(found + refused, CORE);
    ck_assert_int_le(refused, MOST_REFUSED);
}
END_TEST

START_TEST(all_ops_are_listed_once) {
    int count = tenon_op_count(), aliases = 0, refused = 0;
    tenon_op_info info;
    for (int i = 0; i < count; i++) {
        ck_assert(tenon_op_get(i, &info));
        ck_assert(info.name && info.schema && info.onednn);
        aliases += info.alias_of != NULL;
        refused += info.refused != NULL;
        if (info.refused) {
            ck_assert_msg(!tn_op_find(info.name), "%s is there and refused", info.name);
        } else {
            const tn_op *op = tn_op_find(info.name);
            tn_arena arena = {0};
            tn_op row = {.schema = info.schema};
            ck_assert_msg(op != NULL, "%s is not found", info.name);
            ck_assert_int_eq(tn_schema_parse(&arena, &row), TENON_OK);
            same_params(info.name, &row, op);
            tn_arena_free(&arena);
            ck_assert_str_eq(op->name, info.alias_of ? info.alias_of : info.name);
        }
    }
    ck_assert(!tenon_op_get(count, &info));
    ck_assert(!tenon_op_get(-1, &info));
    ck_assert_int_gt(aliases, 0);
    ck_assert_int_gt(refused, 0);
}
END_TEST

START_TEST(refusals_say_why) {
    static const struct {
        const char *op, *reason;
    } cases[] = {
        {"aten.convolution_backward", "computes gradients"},
        {"aten::convolution_backward.default", "computes gradients"},
        {"aten.gelu_backward", "computes gradients"},
        {"aten.rand", "random numbers"},
        {"aten.rand.generator", "random numbers"},
        {"aten.bernoulli_.float", "random numbers"},
        {"aten._fft_r2c", "complex numbers"},
        {"aten.fft_irfft2", "complex numbers"},
        {"aten._unique2", "depends on data"},
        {"aten.repeat_interleave.self_Tensor", "depends on data"},
        {"higher_order.while_loop", "depends on data"},
    };
    for (int i = 0; i < TN_COUNT(cases); i++) {
        tenon_graph *graph = NULL;
        tenon_node *node = NULL;
        char text[256];
        ck_assert_int_eq(tenon_graph_create("g", &graph), TENON_OK);
        ck_assert_int_eq(tenon_graph_add_node(graph, cases[i].op, "n", NULL, 0, &node),
                         TENON_UNSUPPORTED);
        ck_assert_msg(strstr(tenon_last_error(), cases[i].reason) != NULL, "%s: %s", cases[i].op,
                      tenon_last_error());
        ck_assert_ptr_nonnull(strstr(tenon_last_error(), "node 'n'"));
        tenon_graph_destroy(&graph);
        snprintf(text, sizeof text, "graph g { %%y = %s()\n output \"o\" = %%y }", cases[i].op);
        ck_assert_int_eq(tenon_graph_parse(text, "test", &graph), TENON_UNSUPPORTED);
        ck_assert_msg(strstr(tenon_last_error(), cases[i].reason) != NULL, "%s: %s", cases[i].op,
                      tenon_last_error());
    }
    ck_assert_ptr_null(tn_op_refused("aten.relu"));
    ck_assert_ptr_null(tn_op_refused("aten.repeat_interleave.self_int"));
    ck_assert_ptr_null(tn_op_refused("aten.fft_fftshift"));
    ck_assert_ptr_null(tn_op_refused("rand"));
    ck_assert_ptr_null(tn_op_refused("mine.rand"));
}
END_TEST

START_TEST(second_names_become_the_first) {
    tenon_graph *graph = NULL;
    char *text = NULL;
    ck_assert_int_eq(tenon_graph_parse("graph g { input %x: float32[2]\n  %y = aten.arccos(%x)\n"
                                       "  output \"o\" = %y }",
                                       "test", &graph),
                     TENON_OK);
    ck_assert_int_eq(tenon_graph_print(graph, &text), TENON_OK);
    ck_assert_ptr_nonnull(strstr(text, "aten.acos(%x)"));
    free(text);
    tenon_graph_destroy(&graph);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ops");
    TCase *tests = tcase_create("ops");
    tcase_add_test(tests, core_aten_is_there_or_refused);
    tcase_add_test(tests, all_ops_are_listed_once);
    tcase_add_test(tests, refusals_say_why);
    tcase_add_test(tests, second_names_become_the_first);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
