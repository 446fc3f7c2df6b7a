/* Stands in for Check where there is no suite that runs tests: what fails stops the process. */
#ifndef FUZZ_CHECK_H
#define FUZZ_CHECK_H

#define SUITE_H /* there is no suite to run */

#include <stdio.h>
#include <stdlib.h>

#define ck_assert_msg(condition, ...)     \
    do {                                  \
        if (!(condition)) {               \
            fprintf(stderr, __VA_ARGS__); \
            fprintf(stderr, "\n");        \
            abort();                      \
        }                                 \
    } while (0)
#define ck_assert(condition) ck_assert_msg(condition, "%s:%d: %s", __FILE__, __LINE__, #condition)
#define ck_assert_int_eq(a, b) ck_assert((a) == (b))
#define ck_assert_int_ge(a, b) ck_assert((a) >= (b))
#define ck_assert_int_le(a, b) ck_assert((a) <= (b))
#define ck_assert_uint_eq(a, b) ck_assert((a) == (b))
#define ck_assert_ptr_nonnull(a) ck_assert((a) != NULL)

#endif
