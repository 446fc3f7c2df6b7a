#include "core/fail.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_SIZE = 1024 };
static _Thread_local char message[MESSAGE_SIZE];

const char *tenon_status_text(tenon_status status) {
    switch (status) {
#define X(name, text)  \
    case TENON_##name: \
        return text;
        TENON_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

const char *tenon_last_error(void) {
    return message;
}

static void set_message(const char *format, va_list args) {
    char text[MESSAGE_SIZE]; /* the arguments may point into the old message */
    vsnprintf(text, sizeof text, format, args);
    memcpy(message, text, sizeof text);
}

tenon_status(tn_fail)(tenon_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    set_message(format, args);
    va_end(args);
    return status;
}

tenon_status tenon_fail(tenon_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    set_message(format, args);
    va_end(args);
    return status;
}

tenon_status(tn_fail_within)(tenon_status status, const char *format, ...) {
    char prefix[MESSAGE_SIZE], text[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    snprintf(text, sizeof text, "%.500s: %.*s", prefix, MESSAGE_SIZE - 520, message);
    memcpy(message, text, sizeof text);
    return status;
}

tenon_status(tn_no_memory)(void) {
    return tn_fail(TENON_OUT_OF_MEMORY, "out of memory");
}

void tn_user_enter(void) {
    message[0] = '\0';
}

tenon_status tn_user_leave(tenon_status status) {
    const char *text = tenon_status_text(status);
    if (status == TENON_OK)
        return status;
    /* NOLINTNEXTLINE(*EnumCastOutOfRange): for the text of what is no status */
    if (strcmp(text, tenon_status_text((tenon_status)-1)) == 0)
        return tn_fail(TENON_INTERNAL, "it returned %d, which is no status", (int)status);
    if (message[0] == '\0')
        return tn_fail(status, "it returned '%s' without a message", text);
    return status;
}

/* ---- Logging ---- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t log_once = PTHREAD_ONCE_INIT;
static atomic_int log_level = TENON_LOG_WARN;
static tenon_log_fn log_fn;
static void *log_user;

static void log_from_environment(void) {
    const char *text = getenv("TENON_DEBUG");
    if (!text)
        return;
    char *end;
    long level = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0')
        level = TENON_LOG_DEBUG;
    if (level < TENON_LOG_NONE)
        level = TENON_LOG_NONE;
    if (level > TENON_LOG_TRACE)
        level = TENON_LOG_TRACE;
    atomic_store(&log_level, (int)level);
}

void tenon_log_set(tenon_log_level level, tenon_log_fn fn, void *user) {
    pthread_once(&log_once, log_from_environment);
    pthread_mutex_lock(&log_lock);
    atomic_store(&log_level, (int)level);
    log_fn = fn;
    log_user = user;
    pthread_mutex_unlock(&log_lock);
}

tenon_log_level tenon_log_get_level(void) {
    pthread_once(&log_once, log_from_environment);
    return (tenon_log_level)atomic_load_explicit(&log_level, memory_order_relaxed);
}

void tn_log(tenon_log_level level, const char *format, ...) {
    if (!tn_logs(level))
        return;
    va_list args;
    char fixed[512], *text = fixed;
    va_start(args, format);
    int length = vsnprintf(fixed, sizeof fixed, format, args);
    va_end(args);
    if (length >= (int)sizeof fixed) {
        text = malloc((size_t)length + 1);
        if (text) {
            va_start(args, format);
            vsnprintf(text, (size_t)length + 1, format, args);
            va_end(args);
        } else {
            text = fixed;
        }
    }
    pthread_mutex_lock(&log_lock);
    tenon_log_fn fn = log_fn;
    void *user = log_user;
    pthread_mutex_unlock(&log_lock);
    if (fn)
        fn(level, text, user);
    else
        fprintf(stderr, "tenon: %s\n", text);
    if (text != fixed)
        free(text);
}
