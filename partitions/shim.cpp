#include "partitions/shim.h"
#include "partitions/pool.h"
#include <algorithm>
#include <cxxabi.h>
#include <new>
#include <omp.h>
#include <oneapi/dnnl/dnnl_common.hpp>
#include <pthread.h>
#include <thread>

// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl*): the linker gives it that name
extern "C" void *__dso_handle;

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

/* ---- Threads that end ----
 * What a thread has run is in a cache of oneDNN's (thread_local_cache_t), which that thread empties
 * as it ends; and when a partition goes, its entries go. When both happen at once the thread erases
 * an entry that is no longer there, and the process dies. So partitions go, and are compiled (which
 * lets old ones go), while no thread ends. oneDNN's destructors run between two of ours: `outer`,
 * made before its caches are, and the one of `thread_ends`, which is put in front of them again
 * behind the first run of each kind of partition, as that may have made another cache. */

pthread_rwlock_t ending = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

void forget_ending() { /* in a child of fork, where no other thread is */
    ending = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
}

const int fork_watch = pthread_atfork(nullptr, nullptr, forget_ending);

struct thread_outer {
    enum { KINDS = 256 };
    uint64_t kinds[KINDS];
    int count = 0;
    bool locked = false;
    ~thread_outer() {
        if (locked)
            pthread_rwlock_unlock(&ending);
        locked = false;
    }
};
thread_local thread_outer outer;

void thread_ends(void *) {
    if (!outer.locked)
        pthread_rwlock_wrlock(&ending);
    outer.locked = true;
}

void thread_ran(uint64_t kind) {
    uint64_t *end = outer.kinds + outer.count;
    if (std::find(outer.kinds, end, kind) != end || outer.count == thread_outer::KINDS)
        return;
    if (abi::__cxa_thread_atexit(thread_ends, nullptr, &__dso_handle) == 0)
        outer.kinds[outer.count++] = kind;
}

struct no_thread_ends {
    const bool locks = !outer.locked; /* else it is this thread that ends */
    no_thread_ends() {
        if (locks)
            pthread_rwlock_rdlock(&ending);
    }
    ~no_thread_ends() {
        if (locks)
            pthread_rwlock_unlock(&ending);
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
        no_thread_ends no_end;
        return dnnl_graph_partition_compile(partition, compiled, in_count, in, out_count, out,
                                            engine);
    });
}

dnnl_status_t tn_shim_execute(dnnl_graph_compiled_partition_t compiled, dnnl_stream_t stream,
                              size_t in_count, const_dnnl_graph_tensor_t *in, size_t out_count,
                              const_dnnl_graph_tensor_t *out, int threads, uint64_t kind) {
    return with_threads(threads, [&] {
        struct mark {
            uint64_t kind;
            int seen = outer.count; /* makes it */
            ~mark() {
                thread_ran(kind);
            }
        } ran{kind};
        dnnl_status_t status =
            dnnl_graph_compiled_partition_execute(compiled, stream, in_count, in, out_count, out);
        return status == dnnl_success ? dnnl_stream_wait(stream) : status;
    });
}

void tn_shim_destroy(dnnl_graph_compiled_partition_t compiled) {
    no_thread_ends no_end;
    dnnl_graph_compiled_partition_destroy(compiled);
}

void tn_shim_forget_compiled(void) {
    no_thread_ends no_end;
    int capacity;
    if (tn_dnnl_graph_get_compiled_partition_cache_capacity(&capacity) == dnnl_success) {
        (void)tn_dnnl_graph_set_compiled_partition_cache_capacity(0);
        (void)tn_dnnl_graph_set_compiled_partition_cache_capacity(capacity);
    }
}
