#ifndef TN_IO_STATUS_H
#define TN_IO_STATUS_H

#include <errno.h>
#include <tenon/status.h>

/* What a failed call of the system's means, by its errno: OUT_OF_MEMORY, or IO. */
static inline tenon_status tn_io_status(int error) {
    return error == ENOMEM ? TENON_OUT_OF_MEMORY : TENON_IO;
}

#endif
