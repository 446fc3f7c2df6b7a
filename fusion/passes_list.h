/* The inside of a list of passes. */
#ifndef TN_PASSES_LIST_H
#define TN_PASSES_LIST_H

#include "fusion/pipeline.h"

struct tenon_passes {
    tenon_pass **items; /* pinned ones first */
    int count, capacity, pinned;
};

#endif
