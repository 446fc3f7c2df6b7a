/* The lines in which two texts differ. */
#ifndef TN_TEXT_DIFF_H
#define TN_TEXT_DIFF_H

#include "core/util.h"

/* Adds all lines of both texts to `out`: "  " before those of both, "- " before those of `before`
 * alone, "+ " before those of `after` alone. */
void tn_text_diff(const char *before, const char *after, tn_text *out);

#endif
