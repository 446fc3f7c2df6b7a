/* Weights that are made from other weights. */
#include "core/derive.h"
#include "suite.h"
#include <string.h>

#define OK(call) ck_assert_int_eq(call, TENON_OK)

static tenon_status negate(const tenon_view *from, const void *user, tenon_tensor **out) {
    int *calls = (int *)user;
    tenon_tensor *made;
    ++*calls;
    OK(tenon_tensor_create(TENON_FLOAT32, from->rank, from->shape, &made));
    for (int64_t i = 0; i < from->shape[0]; i++)
        ((float *)made->view.data)[i] = -((const float *)from->data)[i * from->strides[0]];
    *out = made;
    return TENON_OK;
}

static tenon_status refuse(const tenon_view *from, const void *user, tenon_tensor **out) {
    (void)from, (void)user, (void)out;
    return TENON_UNSUPPORTED;
}

static tenon_tensor *numbers(int count) {
    tenon_tensor *tensor;
    int64_t shape[1] = {count};
    OK(tenon_tensor_create(TENON_FLOAT32, 1, shape, &tensor));
    for (int i = 0; i < count; i++)
        ((float *)tensor->view.data)[i] = (float)(i + 1);
    return tensor;
}

START_TEST(each_is_made_once) {
    int calls = 0;
    tenon_tensor *w = numbers(4), *shared, *a = NULL, *b = NULL, *c = NULL;
    OK(tenon_tensor_share(w, &shared));
    OK(tn_tensor_derive(w, "negative", negate, &calls, &a));
    OK(tn_tensor_derive(shared, "negative", negate, &calls, &b));
    ck_assert_int_eq(calls, 1);
    ck_assert_ptr_eq(a->view.data, b->view.data);
    ck_assert(((float *)a->view.data)[3] == -4);
    OK(tn_tensor_derive(w, "another", negate, &calls, &c));
    ck_assert_int_eq(calls, 2);
    ck_assert_ptr_ne(a->view.data, c->view.data);
    ck_assert_int_eq(tn_tensor_derive(w, "failing", refuse, NULL, &c), TENON_UNSUPPORTED);
    tenon_tensor_destroy(&w);
    tenon_tensor_destroy(&shared);
    ck_assert(((float *)b->view.data)[0] == -1); /* outlives the original */
    tenon_tensor_destroy(&a);
    tenon_tensor_destroy(&b);
    tenon_tensor_destroy(&c);
}
END_TEST

START_TEST(other_views_of_the_memory_are_others) {
    int calls = 0;
    tenon_tensor *w = numbers(4), *every = NULL, *a = NULL, *b = NULL;
    tenon_view second = {w->view.data, TENON_FLOAT32, 1, {2}, {2}};
    OK(tn_tensor_over(w->storage, &second, &every));
    OK(tn_tensor_derive(w, "negative", negate, &calls, &a));
    OK(tn_tensor_derive(every, "negative", negate, &calls, &b));
    ck_assert_int_eq(calls, 2);
    ck_assert(((float *)b->view.data)[1] == -3);
    tenon_tensor_destroy(&w);
    tenon_tensor_destroy(&every);
    tenon_tensor_destroy(&a);
    tenon_tensor_destroy(&b);
}
END_TEST

START_TEST(what_nobody_holds_goes) {
    int calls = 0;
    tenon_tensor *w = numbers(4), *kept = NULL, *gone = NULL;
    OK(tn_tensor_derive(w, "kept", negate, &calls, &kept));
    OK(tn_tensor_derive(w, "gone", negate, &calls, &gone));
    ck_assert_int_eq(atomic_load(&kept->storage->shares), 2);
    tenon_tensor_destroy(&gone);
    tn_tensor_trim_derived(w);
    OK(tn_tensor_derive(w, "kept", negate, &calls, &gone));
    ck_assert_int_eq(calls, 2);
    tenon_tensor_destroy(&gone);
    OK(tn_tensor_derive(w, "gone", negate, &calls, &gone));
    ck_assert_int_eq(calls, 3);
    tenon_tensor_destroy(&w);
    ck_assert_int_eq(atomic_load(&kept->storage->shares), 1);
    tenon_tensor_destroy(&kept);
    tenon_tensor_destroy(&gone);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("derive");
    TCase *tests = tcase_create("derive");
    tcase_add_test(tests, each_is_made_once);
    tcase_add_test(tests, other_views_of_the_memory_are_others);
    tcase_add_test(tests, what_nobody_holds_goes);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
