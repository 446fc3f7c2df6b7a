/* Which values share memory, while in-place ops are made functional. */
#ifndef TN_ALIAS_H
#define TN_ALIAS_H

#include "fusion/rewrite.h"

/* Where memory begins in views that are only looked at. */
#define TN_ORIGIN ((char *)((uintptr_t)1 << 40))

/* Whether the elements of a value lie row-major without gaps in the program that was exported. */
typedef enum tn_dense { TN_DENSE_UNKNOWN, TN_DENSE_YES, TN_DENSE_NO } tn_dense;

/* How the outputs of a node stand to its first argument's memory. */
typedef enum tn_sharing {
    TN_SHARE_NOT,  /* new memory */
    TN_SHARE_SURE, /* a view of it */
    TN_SHARE_MAYBE /* a view or a copy, as its strides were */
} tn_sharing;

/* `input` is what is known of the first argument. */
tn_sharing tn_sharing_of(const tenon_node *node, tn_dense input);
/* Whether its outputs may share the memory of any of its arguments, which are a list. */
bool tn_shares_list(const tenon_node *node);
/* Whether it is a view where strides allow, else a row-major copy. */
bool tn_is_reshape(const tenon_node *node);
/* What is known of the outputs; `inputs`: YES when all tensor arguments are dense. */
tn_dense tn_dense_of(const tenon_node *node, tn_dense first, tn_dense inputs);

/* Whether no two elements of a view are one. */
bool tn_apart(const tenon_view *view);

/* The inverse of output `index` of a view: gives `base` with the elements under the view replaced
 * by `part`. Refuses views in which one element stands for several. */
tenon_status tn_emit_scatter(tenon_graph *graph, tenon_node *before, const tenon_node *view,
                             int index, tenon_value *base, tenon_value *part, tenon_value **out);

#endif
