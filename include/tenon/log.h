/* Log messages: where they go, and how many. Read status.h first. */
#ifndef TENON_LOG_H
#define TENON_LOG_H

#include <tenon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tenon_log_level {
    TENON_LOG_NONE = 0,  /* nothing */
    TENON_LOG_ERROR = 1, /* what a caller may miss otherwise */
    TENON_LOG_WARN = 2,  /* the default */
    TENON_LOG_INFO = 3,  /* a line a stage: load, passes, partitions, compile */
    TENON_LOG_DEBUG = 4, /* a line a pass, a partition, a step */
    TENON_LOG_TRACE = 5  /* the graph as text after each pass that changed it */
} tenon_log_level;

/* Receives one message without a line end. `user` is the pointer given to tenon_log_set. May be
 * called from several threads at once. */
typedef void (*tenon_log_fn)(tenon_log_level level, const char *message, void *user);

/* Sets the level and the receiver for the process; a NULL `fn` (may be NULL) means standard error.
 * Until it is called, the environment variable TENON_DEBUG (0 to 5; a set but empty variable means
 * 4) gives the level. Thread-safe. */
TENON_API void tenon_log_set(tenon_log_level level, tenon_log_fn fn, void *user);

/* The level in force. Thread-safe. */
TENON_API tenon_log_level tenon_log_get_level(void);

#ifdef __cplusplus
}
#endif
#endif
