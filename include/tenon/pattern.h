// clang-format off
/* Patterns: small graphs, declared as text, to be found in graphs and rewritten. Read status.h
 * first.
 *
 *     tenon_pattern_create("const %w\n"
 *                          "%c = aten.convolution(%x, %w, _, _, _, _, false, _, $groups)\n"
 *                          "%s = aten.sigmoid(%c)\n"
 *                          "%y = aten.mul.Tensor(%c, %s) commutative\n", "swish", &pattern);
 *
 * A pattern is written like the nodes of the text form (docs/text-form.md), one after the other; the
 * last one is its root. An argument is one of
 *
 *     %name     a value: what another node of the pattern makes, or any value; the same everywhere
 *     $name     anything that is no value (a number, a list, none, a string, a dtype), kept under
 *               that name; equal everywhere
 *     _         anything at all
 *     1, "a", float32, none, [...]     this very thing; 1 and 1.0 are equal
 *
 * and one that is left out must have the schema's default. Before the nodes there may be conditions:
 *
 *     const %w              %w is a constant of the graph
 *     const %w: float32     and of that dtype
 *     value %x: float32     %x, whatever makes it, is of that dtype
 *
 * and around a node:
 *
 *     shared %c = ...       its outputs may have uses outside the pattern; those of other nodes, but
 *                           the root, may not, so that the nodes can go
 *     ... commutative       the first two arguments may stand in either order
 *
 * At most 64 nodes, 8 of them commutative, 128 names, and lists of 128 items.
 */
// clang-format on
#ifndef TENON_PATTERN_H
#define TENON_PATTERN_H

#include <tenon/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_pattern tenon_pattern;

/* Reads a pattern. `source` (may be NULL) names the text
 * in messages. INVALID_FILE or UNKNOWN_OP names the line. */
TENON_API TENON_MUST_CHECK tenon_status tenon_pattern_create(const char *text, const char *source,
                                                             tenon_pattern **out);
TENON_API void tenon_pattern_destroy(tenon_pattern **pattern);

/* Whether the pattern is found with its root at `root`; then the functions below tell what stood
 * where, until the next call or until the graph is changed. */
TENON_API bool tenon_pattern_match(tenon_pattern *pattern, tenon_node *root);

/* What matched %name; NULL when the pattern has no such name, or did not match. */
TENON_API tenon_value *tenon_pattern_value(const tenon_pattern *pattern, const char *name);
/* The node that matched the one which makes %name; NULL when none does. */
TENON_API tenon_node *tenon_pattern_node(const tenon_pattern *pattern, const char *name);
/* What matched $name; kind DEFAULT when the pattern has no such name, or did not match. */
TENON_API tenon_arg tenon_pattern_arg(const tenon_pattern *pattern, const char *name);

/* Erases the nodes of the last match that nothing uses any more, the root first. */
TENON_API TENON_MUST_CHECK tenon_status tenon_pattern_erase(tenon_pattern *pattern);

/* Decides about a match, which it reads with the functions above; false leaves it as it is. */
typedef bool (*tenon_pattern_accept)(const tenon_pattern *pattern, void *user);

/* Puts other nodes in the place of each match in the graph, and counts them in `*count` (may be
 * NULL). `replacement` is written like a pattern, over the names of `pattern`; its own nodes have
 * new names, and it cannot use what the root makes. The outputs of its last node take the places of
 * the root's, one for one; those that nothing uses need none. Instead of nodes it may end with
 * "result %x", for a value of the pattern. New nodes stand before the root, carry its source
 * information, and are not looked at again. `accept` may be NULL. INVALID_FILE names the line of
 * the replacement. On failure in the middle the graph stays valid, with some matches replaced, and
 * `*count` is untouched. */
TENON_API TENON_MUST_CHECK tenon_status tenon_pattern_rewrite(tenon_pattern *pattern,
                                                              tenon_graph *graph,
                                                              const char *replacement,
                                                              tenon_pattern_accept accept,
                                                              void *user, int64_t *count);

#ifdef __cplusplus
}
#endif
#endif
