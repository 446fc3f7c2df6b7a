/* The default pipeline as a table. */
#ifndef TN_PIPELINE_H
#define TN_PIPELINE_H

#include <tenon/pass.h>

typedef struct tn_default_pass {
    tenon_pass pass;
    bool pinned;
} tn_default_pass;

extern const tn_default_pass tn_default_passes[];
extern const int tn_default_pass_count;

#endif
