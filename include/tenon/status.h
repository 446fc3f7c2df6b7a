/* Statuses, error messages, and the rules that hold for the whole API.
 *
 * Rules that hold everywhere unless a comment says otherwise:
 *  - Every function that can fail returns a tenon_status. On failure its out-pointers are untouched
 * and nothing needs cleaning up; tenon_last_error() then names the file, node, value and rule.
 *  - Pointers must not be NULL, except where the comment says "may be NULL".
 *  - tenon_X_destroy(X **) accepts a NULL handle, and sets the handle to NULL.
 *  - Strings are NUL-terminated UTF-8. Returned strings belong to the object they were asked of,
 * and live as long as it does or until it is changed.
 *  - An object may be used by one thread at a time, except where the comment says "thread-safe".
 *  - Option structs are plain; zero in every field is the documented default.
 */
#ifndef TENON_STATUS_H
#define TENON_STATUS_H

#if defined(__GNUC__)
#define TENON_API __attribute__((visibility("default")))
#define TENON_MUST_CHECK __attribute__((warn_unused_result))
#define TENON_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define TENON_API
#define TENON_MUST_CHECK
#define TENON_PRINTF(f, a)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, text): one row a status. */
#define TENON_STATUS_LIST(X)                          \
    X(OK, "ok")                                       \
    X(INVALID_ARGUMENT, "invalid argument")           \
    X(OUT_OF_MEMORY, "out of memory")                 \
    X(IO, "input or output error")                    \
    X(INVALID_FILE, "invalid file")                   \
    X(INVALID_GRAPH, "invalid graph")                 \
    X(UNKNOWN_OP, "unknown operator")                 \
    X(UNSUPPORTED, "unsupported")                     \
    X(NOT_FOUND, "not found")                         \
    X(INPUT_MISMATCH, "input does not fit the model") \
    X(RUN_FAILED, "run failed")                       \
    X(BACKEND, "oneDNN error")                        \
    X(INTERNAL, "internal error")                     \
    X(BUSY, "busy")                                   \
    X(CANCELLED, "cancelled")                         \
    X(LIMIT, "limit exceeded")

typedef enum tenon_status {
#define X(name, text) TENON_##name,
    TENON_STATUS_LIST(X)
#undef X
} tenon_status;

/* The status's short text, such as "invalid graph". Never NULL. Thread-safe. */
TENON_API const char *tenon_status_text(tenon_status status);

/* The message of the last failure on this thread, or "" if there was none. It is replaced by the
 * next failure on the same thread. Never NULL. Thread-safe. */
TENON_API const char *tenon_last_error(void);

/* Sets the thread's message and returns `status`: for passes, shape rules and kernels of your own
 * that fail. Thread-safe. */
TENON_API tenon_status tenon_fail(tenon_status status, const char *format, ...) TENON_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
#endif
