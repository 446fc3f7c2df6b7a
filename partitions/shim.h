/* The calls of oneDNN Graph that may throw, behind C: exceptions become statuses, and the calling
 * thread's OpenMP settings are as they were afterwards. */
#ifndef TN_SHIM_H
#define TN_SHIM_H

#include <oneapi/dnnl/dnnl_graph.h>

#ifdef __cplusplus
extern "C" {
#endif

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

/* Waits until the result is there. */
dnnl_status_t tn_shim_execute(dnnl_graph_compiled_partition_t compiled, dnnl_stream_t stream,
                              size_t in_count, const_dnnl_graph_tensor_t *in, size_t out_count,
                              const_dnnl_graph_tensor_t *out, int threads);

#ifdef __cplusplus
}
#endif
#endif
