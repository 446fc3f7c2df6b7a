/* oneDNN Graph behind C: exceptions become statuses, and the calling thread's OpenMP settings are
 * as they were after calls that compile and execute. */
#ifndef TN_SHIM_H
#define TN_SHIM_H

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_graph.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* oneDNN's C functions let exceptions through, that of being out of memory first of all, and C code
 * would end with them. X(name): one row for each function that is used, but for those that only
 * destroy. */
#define TN_DNNL_LIST(X)                              \
    X(graph_op_create)                               \
    X(graph_op_set_attr_s64)                         \
    X(graph_op_set_attr_f32)                         \
    X(graph_op_set_attr_bool)                        \
    X(graph_op_set_attr_str)                         \
    X(graph_op_add_input)                            \
    X(graph_op_add_output)                           \
    X(graph_graph_create_with_fpmath_mode)           \
    X(graph_add_op)                                  \
    X(graph_graph_get_partition_num)                 \
    X(graph_graph_get_partitions)                    \
    X(graph_partition_get_op_num)                    \
    X(graph_partition_get_ops)                       \
    X(graph_partition_is_supported)                  \
    X(graph_partition_get_input_ports_num)           \
    X(graph_partition_get_output_ports_num)          \
    X(graph_partition_get_input_ports)               \
    X(graph_partition_get_output_ports)              \
    X(graph_compiled_partition_create)               \
    X(graph_compiled_partition_query_logical_tensor) \
    X(graph_compiled_partition_get_inplace_ports)    \
    X(graph_logical_tensor_init)                     \
    X(graph_logical_tensor_init_with_strides)        \
    X(graph_tensor_create)                           \
    X(graph_tensor_set_data_handle)                  \
    X(stream_create)                                 \
    X(graph_allocator_create)                        \
    X(graph_make_engine_with_allocator)              \
    X(graph_set_constant_tensor_cache_capacity)      \
    X(graph_get_compiled_partition_cache_capacity)   \
    X(graph_set_compiled_partition_cache_capacity)   \
    X(get_primitive_cache_capacity)                  \
    X(set_primitive_cache_capacity)                  \
    X(set_max_cpu_isa)
/* tn_dnnl_NAME is dnnl_NAME with a status in the place of an exception. */
#define X(name) extern __typeof__(dnnl_##name) *const tn_dnnl_##name;
TN_DNNL_LIST(X)
#undef X

/* The allocator that oneDNN is given. It does not look whether it got memory, so being out of it is
 * an exception. */
void *tn_shim_allocate(size_t size, size_t alignment);

/* Finalizes the graph and finds its partitions. */
dnnl_status_t tn_shim_partition(dnnl_graph_graph_t graph);

dnnl_status_t tn_shim_compile(dnnl_graph_partition_t partition,
                              dnnl_graph_compiled_partition_t compiled, size_t in_count,
                              const dnnl_graph_logical_tensor_t **in, size_t out_count,
                              const dnnl_graph_logical_tensor_t **out, dnnl_engine_t engine,
                              int threads);

/* Waits until the result is there. `kind` tells partitions of different ops apart. */
dnnl_status_t tn_shim_execute(dnnl_graph_compiled_partition_t compiled, dnnl_stream_t stream,
                              size_t in_count, const_dnnl_graph_tensor_t *in, size_t out_count,
                              const_dnnl_graph_tensor_t *out, int threads, uint64_t kind);

void tn_shim_destroy(dnnl_graph_compiled_partition_t compiled);

/* Empties the cache of compiled partitions, which keeps what they were made of. */
void tn_shim_forget_compiled(void);

#ifdef __cplusplus
}
#endif
#endif
