/* Parses ATen schema strings. */
#ifndef TN_SCHEMA_H
#define TN_SCHEMA_H

#include "core/op.h"
#include "core/util.h"

/* Fills op->name, params and returns from op->schema: "ns::name.overload(Type name=default, ...) ->
 * Type". INVALID_ARGUMENT names the place. */
tenon_status tn_schema_parse(tn_arena *arena, tn_op *op);

#endif
