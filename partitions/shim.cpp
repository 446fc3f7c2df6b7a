#include "partitions/shim.h"
#include "partitions/pool.h"
#include <new>
#include <omp.h>
#include <oneapi/dnnl/dnnl_common.hpp>
#include <thread>

namespace {

/* oneDNN's attention kernels set the calling thread's count to 1 while they compile, and restore it
 * only when they succeed. */
struct omp_settings {
    int threads = omp_get_max_threads(), dynamic = omp_get_dynamic();
    explicit omp_settings(int wanted) {
        omp_set_dynamic(0);
        omp_set_num_threads(wanted);
    }
    ~omp_settings() {
        omp_set_num_threads(threads);
        omp_set_dynamic(dynamic);
    }
};

template <typename F> dnnl_status_t guarded(F call) {
    try {
        return call();
    } catch (const dnnl::error &e) {
        return e.status == dnnl_success ? dnnl_runtime_error : e.status;
    } catch (const std::bad_alloc &) {
        return dnnl_out_of_memory;
    } catch (...) {
        return dnnl_runtime_error;
    }
}

template <auto function> struct guard;
template <typename... A, dnnl_status_t (*function)(A...)> struct guard<function> {
    static dnnl_status_t call(A... arguments) {
        return guarded([&] { return function(arguments...); });
    }
};

/* Kernels split their work for the number of threads that they were compiled for. Inside somebody's
 * parallel region OpenMP would give one thread only, so the call then moves to a thread of its own.
 */
template <typename F> dnnl_status_t with_threads(int threads, F call) {
    if (threads > 1 && omp_in_parallel()) {
        return guarded([&] {
            dnnl_status_t status = dnnl_runtime_error;
            std::thread([&] { status = with_threads(threads, call); }).join();
            return status;
        });
    }
    omp_settings settings(threads);
    return guarded(call);
}

} // namespace

#define X(name) decltype(&dnnl_##name) const tn_dnnl_##name = guard<dnnl_##name>::call;
TN_DNNL_LIST(X)
#undef X

void *tn_shim_allocate(size_t size, size_t alignment) {
    void *memory = tn_pool_alloc(size, alignment);
    if (!memory)
        throw std::bad_alloc();
    return memory;
}

dnnl_status_t tn_shim_partition(dnnl_graph_graph_t graph) {
    return guarded([&] {
        dnnl_status_t status = dnnl_graph_graph_finalize(graph);
        return status == dnnl_success
                   ? dnnl_graph_graph_filter(graph, dnnl_graph_partition_policy_fusion)
                   : status;
    });
}

dnnl_status_t tn_shim_compile(dnnl_graph_partition_t partition,
                              dnnl_graph_compiled_partition_t compiled, size_t in_count,
                              const dnnl_graph_logical_tensor_t **in, size_t out_count,
                              const dnnl_graph_logical_tensor_t **out, dnnl_engine_t engine,
                              int threads) {
    return with_threads(threads, [&] {
        return dnnl_graph_partition_compile(partition, compiled, in_count, in, out_count, out,
                                            engine);
    });
}

dnnl_status_t tn_shim_execute(dnnl_graph_compiled_partition_t compiled, dnnl_stream_t stream,
                              size_t in_count, const_dnnl_graph_tensor_t *in, size_t out_count,
                              const_dnnl_graph_tensor_t *out, int threads) {
    return with_threads(threads, [&] {
        dnnl_status_t status =
            dnnl_graph_compiled_partition_execute(compiled, stream, in_count, in, out_count, out);
        return status == dnnl_success ? dnnl_stream_wait(stream) : status;
    });
}
