/* Weights that are made from other weights: packed, transformed, rounded. Each is made once, and
 * then found again by the memory of the original, so that all shapes of a model, and all its
 * sessions, share it. */
#ifndef TN_DERIVE_H
#define TN_DERIVE_H

#include "core/tensor.h"

/* Makes the tensor, in memory of its own. */
typedef tenon_status (*tn_derive_fn)(const tenon_view *from, const void *user, tenon_tensor **out);

/* What `make` gives for `from`, or gave before for the same elements and the same `kind`, a text
 * that tells all that `user` does. The caller destroys it; the storage of `from`
 * holds it, too. Thread-safe. */
tenon_status tn_tensor_derive(const tenon_tensor *from, const char *kind, tn_derive_fn make,
                              const void *user, tenon_tensor **out);
/* Gives back what was made from anything in the storage of `from`, and what nobody else holds. */
void tn_tensor_trim_derived(const tenon_tensor *from);

#endif
