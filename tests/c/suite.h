/* Running a suite of tests. */
#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <stdlib.h>

/* Runs it, and gives the exit status of the program. Check's own limits, 4 seconds where a suite
 * says nothing, are for tests that hang, and not for slow machines. */
static inline int run_suite(Suite *suite) {
    setenv("CK_TIMEOUT_MULTIPLIER", "10", 0);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
