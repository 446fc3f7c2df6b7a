/* Loaders with each of their allocations failing in turn: an error status each time, and nothing
 * leaks. */
#include "files.h"
#include "suite.h"
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <tenon/tenon.h>

#define CASE(name) TEST_DATA "/pt2-cases/" name ".pt2"

/* The allocation that fails counts down to 0; below that none does. */
static long countdown = -1, held;
static bool counting;

/* Blocks that were allocated while counting: a table by address. */
enum { SLOTS = 1 << 16 };
static void *blocks[SLOTS];

static bool fails(void) {
    return countdown >= 0 && countdown-- == 0;
}

static size_t slot_of(const void *block) {
    return (size_t)(((uintptr_t)block >> 4) * 2654435761u) % SLOTS;
}

/* Only what Tenon's code allocates is held against it: libraries may leak when they fail. */
extern char __executable_start, etext;

static bool is_ours(const void *caller) {
    return (const char *)caller >= &__executable_start && (const char *)caller < &etext;
}

static void *keep(void *block, const void *caller) {
    if (counting && block && is_ours(caller)) {
        size_t i = slot_of(block);
        while (blocks[i] && blocks[i] != blocks)
            i = (i + 1) % SLOTS;
        blocks[i] = block;
        held++;
    }
    return block;
}

/* Takes a block out; its slot holds the table's own address then, so that longer chains stay whole.
 */
static void forget(const void *block) {
    for (size_t i = slot_of(block); block && held > 0 && blocks[i]; i = (i + 1) % SLOTS)
        if (blocks[i] == block) {
            blocks[i] = blocks;
            held--;
            return;
        }
}

static void start_counting(long n) {
    memset(blocks, 0, sizeof blocks);
    held = 0;
    counting = true;
    countdown = n;
}

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

void *malloc(size_t size) {
    return fails() ? NULL : keep(__libc_malloc(size), __builtin_return_address(0));
}

void *calloc(size_t count, size_t size) {
    return fails() ? NULL : keep(__libc_calloc(count, size), __builtin_return_address(0));
}

void *realloc(void *block, size_t size) {
    if (fails())
        return NULL;
    forget(block);
    return keep(__libc_realloc(block, size), __builtin_return_address(0));
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    void *block = fails() ? NULL : __libc_memalign(alignment, size);
    if (!block)
        return ENOMEM;
    *out = keep(block, __builtin_return_address(0));
    return 0;
}

void free(void *block) {
    forget(block);
    __libc_free(block);
}

/* Loads with allocation number `n` failing; true when there were so many. */
static bool load_failing(const char *path, long n) {
    tenon_graph *graph = NULL;
    start_counting(n);
    tenon_status status = tenon_load(path, &graph);
    bool reached = countdown < 0;
    countdown = -1;
    bool untouched = status == TENON_OK || graph == NULL;
    tenon_graph_destroy(&graph);
    counting = false;
    ck_assert_msg(untouched, "allocation %ld: the out-pointer was touched", n);
    ck_assert_msg(held == 0, "allocation %ld: %ld blocks leak (%s)", n, held, tenon_last_error());
    return reached;
}

static void sweep(const char *path) {
    tenon_graph *graph = NULL;
    tenon_status status = tenon_load(path, &graph); /* what is made once for the process */
    ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
    tenon_graph_destroy(&graph);
    long n = 0;
    while (load_failing(path, n))
        n += n < 400 ? 1 : 7;
    ck_assert_int_gt(n, 10);
}

START_TEST(archives) {
    sweep(CASE("dyn_derived_raw"));
    sweep(CASE("cond"));
    sweep(CASE("counter_core"));
    sweep(CASE("dtype_weights"));
}
END_TEST

START_TEST(json_and_text) {
    static const char text[] = "graph g { input %x: float32[s0, 2] const %w: float32[2] = {1, 2} "
                               "buffer %b: bool[1] = {true}\n"
                               "%y: float32[?, ?] = aten.permute(%x, [1, 0]) in \"a\" output \"o\" "
                               "= %y output \"w\" = %w }";
    tenon_graph *graph = NULL;
    test_write(test_path("g.txt"), text, sizeof text - 1);
    ck_assert_int_eq(tenon_load(test_path("g.txt"), &graph), TENON_OK);
    ck_assert_int_eq(tenon_save_json(graph, test_path("g.json")), TENON_OK);
    tenon_graph_destroy(&graph);
    sweep(test_path("g.txt"));
    sweep(test_path("g.json"));
}
END_TEST

START_TEST(writing) {
    tenon_graph *graph = NULL;
    ck_assert_int_eq(tenon_load(CASE("cond"), &graph), TENON_OK);
    for (long n = 0; countdown < 0; n++) {
        start_counting(n);
        tenon_status status = tenon_save_json(graph, test_path("w.json"));
        bool reached = countdown < 0;
        countdown = -1;
        counting = false;
        ck_assert_int_eq(held, 0);
        if (!reached) {
            ck_assert_int_eq(status, TENON_OK);
            break;
        }
    }
    tenon_graph_destroy(&graph);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("load_memory");
    TCase *tests = tcase_create("load_memory");
    tcase_set_timeout(tests, 240);
    tcase_add_test(tests, archives);
    tcase_add_test(tests, json_and_text);
    tcase_add_test(tests, writing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
