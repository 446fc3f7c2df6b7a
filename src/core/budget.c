#include "core/budget.h"
#include "core/fail.h"
#include "core/util.h"

/* A nanosecond a byte: what kernels and packing take to fill memory, and some to spare. */
#define BYTE_WORK 1.0

static _Thread_local tn_budget *current;

tn_budget *tn_budget_get(void) {
    return current;
}

tn_budget *tn_budget_set(tn_budget *budget) {
    tn_budget *before = current;
    current = budget;
    return before;
}

tenon_status tn_budget_bytes(double bytes) {
    if (!current)
        return TENON_OK;
    if (current->bytes + bytes > current->most_bytes)
        return tn_fail(TENON_LIMIT,
                       "compiling takes %.0f bytes for tensors so far, more than "
                       "limits.compile_bytes allows, %.0f" TN_LIMIT_HOW,
                       current->bytes + bytes, current->most_bytes, "compile_bytes",
                       "compile_bytes");
    current->bytes += bytes;
    return tn_budget_work(bytes * BYTE_WORK);
}

tenon_status tn_budget_work(double work) {
    if (!current)
        return TENON_OK;
    current->work += work;
    if (current->work > current->most_work)
        return tn_fail(TENON_LIMIT,
                       "compiling takes %.4g units of work so far, more than limits.compile_work "
                       "allows, %.4g" TN_LIMIT_HOW,
                       current->work, current->most_work, "compile_work", "compile_work");
    if (current->end_ns && tn_clock_ns() > current->end_ns)
        return tn_fail(TENON_LIMIT,
                       "compiling takes longer than limits.compile_seconds allows, %g" TN_LIMIT_HOW,
                       current->seconds, "compile_seconds", "compile_seconds");
    return TENON_OK;
}

static _Thread_local tn_room *room;

tn_room *tn_room_set(tn_room *now) {
    tn_room *before = room;
    room = now;
    return before;
}

bool tn_room_take(size_t bytes) {
    if (!room)
        return true;
    if ((double)bytes > room->left) {
        room->refused = true;
        return false;
    }
    room->left -= (double)bytes;
    return true;
}
