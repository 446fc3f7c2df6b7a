/* Failing with a message, and logging. */
#ifndef TN_FAIL_H
#define TN_FAIL_H

#include <stdarg.h>
#include <tenon/log.h>
#include <tenon/status.h>

/* Sets the thread's message and returns `status`. */
tenon_status tn_fail(tenon_status status, const char *format, ...) TENON_PRINTF(2, 3);

/* Puts "prefix: " before the thread's message and returns `status`; for callers that know more of
 * the place. */
tenon_status tn_fail_within(tenon_status status, const char *format, ...) TENON_PRINTF(2, 3);

tenon_status tn_no_memory(void);

/* Around a function of the user's that fails through tenon_fail: forgets the thread's message
 * before, and afterwards sees to it that a failure has one and is a status. */
void tn_user_enter(void);
tenon_status tn_user_leave(tenon_status status);

#define TN_TRY(call)                         \
    do {                                     \
        tenon_status tn_try_status = (call); \
        if (tn_try_status != TENON_OK)       \
            return tn_try_status;            \
    } while (0)

/* For functions that clean up at an `error:` label; needs a variable `status`. */
#define TN_GOTO(call)           \
    do {                        \
        status = (call);        \
        if (status != TENON_OK) \
            goto error;         \
    } while (0)

void tn_log(tenon_log_level level, const char *format, ...) TENON_PRINTF(2, 3);
static inline int tn_logs(tenon_log_level level) {
    return tenon_log_get_level() >= level;
}

#ifdef __clang_analyzer__ /* tools/analyse looks at one file, and must know what these return */
#define tn_fail(status, ...) ((void)tn_fail(status, __VA_ARGS__), (status))
#define tn_fail_within(status, ...) ((void)tn_fail_within(status, __VA_ARGS__), (status))
#define tn_no_memory() ((void)tn_no_memory(), TENON_OUT_OF_MEMORY)
#endif

#endif
