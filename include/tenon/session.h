/* Sessions: a graph compiled for input shapes, run from any number of contexts. Read status.h
 * first.
 *
 *     tenon_graph *graph = NULL;  tenon_session *session = NULL;  tenon_context *context = NULL;
 *     tenon_load("model.pt2", &graph);
 *     tenon_session_create(graph, NULL, &session);
 *     tenon_context_create(session, &context);
 *     tenon_context_run(context, inputs, input_count, outputs, output_count);
 */
/* A process may fork while no thread is within a call of Tenon: the child has graphs, sessions and
 * contexts of its own, and may use and make them with any number of threads. Pools are the parent's
 * (pool.h). Forked while another thread is within a call, the child should not use Tenon: oneDNN's
 * locks may be held there for ever. */
#ifndef TENON_SESSION_H
#define TENON_SESSION_H

#include <tenon/graph.h>
#include <tenon/pass.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tenon_backend {
    TENON_BACKEND_AUTO = 0, /* oneDNN where it is supported and pays, Tenon's kernels elsewhere */
    TENON_BACKEND_ONEDNN,   /* oneDNN wherever it is supported */
    TENON_BACKEND_REFERENCE /* Tenon's kernels only */
} tenon_backend;

typedef enum tenon_precision {
    TENON_PRECISION_FP32 = 0, /* the dtypes that the model declares */
    /* Products (convolution, linear, matmul, attention) take float32 and float16 operands as
     * bfloat16, sum in float32 and give bfloat16; other ops follow the dtypes of their operands, as
     * under PyTorch's autocast on CPUs. Inputs, outputs and buffers keep their declared dtypes. */
    TENON_PRECISION_BF16
} tenon_precision;

/* What TENON_PRECISION_BF16 means where oneDNN does not compute in bfloat16. */
typedef enum tenon_bf16_fallback {
    TENON_BF16_FALLBACK_FP32 = 0, /* the session runs in float32, and a warning is logged */
    TENON_BF16_FALLBACK_EMULATE,  /* Tenon's kernels compute in bfloat16: slow, for tests */
    TENON_BF16_FALLBACK_REFUSE    /* making the session fails: UNSUPPORTED */
} tenon_bf16_fallback;

/* How exact oneDNN's products (convolution, linear, matmul) of float32 values are. */
typedef enum tenon_fpmath {
    TENON_FPMATH_STRICT = 0, /* float32 */
    /* Operands may be rounded to bfloat16 where oneDNN has kernels for that, which takes AMX; sums
     * and results stay float32, and so do all values between ops. */
    TENON_FPMATH_BF16
} tenon_fpmath;

/* What a model that nobody vouches for may cost; 0 in a field is its default. What goes further is
 * LIMIT, with a message that names the limit and what raises it, unless the field says otherwise.
 * Defaults that depend on what is "given" count the bytes of the files that the graph was loaded
 * from, or where calls built it those of its constants and 1 KiB a node; and the bytes of the
 * inputs in the shapes that are compiled for. Work is counted in about nanoseconds of one core with
 * the slowest kernels, so that a limit is an upper bound of the time: 4 flops of a product are one,
 * an element that is read or written is 20, and what takes longer counts more (docs/limits.md).
 * Compiling counts what it does for one set of input shapes. */
typedef struct tenon_limits {
    int64_t nodes;          /* of the graph, before and after passes; 4,194,304 */
    int64_t elements;       /* of any value; 2^36 */
    int64_t rank;           /* of any value; TENON_MAX_RANK, which is also the most */
    int64_t folded_bytes;   /* by which constants that passes compute may grow beyond what they are
                               made of; 32 MiB. What goes further is computed by the runs */
    double folded_flops;    /* floating-point operations of computing them, likewise; 4e9 */
    int64_t run_bytes;      /* memory of a run: activations, outputs, copies of buffers, and what
                               kernels work in; 96 MiB, and 64 times what is given */
    double run_flops;       /* floating-point operations of a run; no bound but run_work */
    double run_work;        /* work of a run; 4e9, and 1e6 for each byte that is given */
    int64_t compile_bytes;  /* memory that compiling allocates for tensors, whatever it gives back:
                               folded, packed and transformed weights, oneDNN's copies of weights,
                               and samples; 64 MiB, and 64 times what is given */
    double compile_work;    /* work of compiling: nodes that passes look at, bytes of tensors, runs
                               of `verify` (not those that `tune` measures), and what oneDNN
                               compiles; 8e9, and 1e5 for each byte that is given */
    double compile_seconds; /* time of compiling, by the clock, looked at between pieces of work;
                               no bound */
} tenon_limits;

typedef struct tenon_session_options {
    int threads; /* OpenMP threads of a run; 0: one for each core that the process may use */
    tenon_backend backend;
    tenon_precision precision;
    const char *isa; /* cap on the ISA of Tenon's kernels and oneDNN: "baseline", "avx2", "avx512",
                      * in upper or lower case, others are an INVALID_ARGUMENT; NULL: none. oneDNN's
                      * cap holds for the process and must come before its first use. */
    int max_shapes; /* compiled sets of input shapes kept, the least recently used goes first; 0: 16
                     */
    const tenon_passes *passes; /* NULL: the default pipeline; used during calls that compile, so
                                      it must live as long */
    bool keep_denormals; /* false: runs flush denormals to zero, and leave the caller's mode as
                            found */
    tenon_bf16_fallback bf16_fallback;
    bool dry_run; /* plans only: nothing is compiled or packed, for explain.h to tell; running is
                     UNSUPPORTED */
    tenon_fpmath fpmath; /* beside precision FP32; with BF16 few float32 products are left */
    bool split_ops; /* each node is a step by itself, nothing is fused: slower, to profile what each
                       costs alone */
    /* NULL: where several kernels can compute an op, rules from its sizes choose. A path: the one
     * that is the fastest here, among Tenon's and oneDNN's, is found out when shapes are compiled,
     * by running each on random data, and kept in that file for all sessions and processes; ""
     * means $XDG_CACHE_HOME/tenon/choices.json, or that in ~/.cache. Compiling takes longer by up
     * to about a second for each op that the file does not know. A file that cannot be used is left
     * alone, with a warning in the log. With dry_run the file is read, and nothing is measured.
     * docs/performance.md has more. */
    const char *tune;
    /* When shapes are compiled, each oneDNN partition, and each kernel that a pass chose in its
     * place, computes once what Tenon's plain kernels compute from the same operands. One whose
     * results differ by more than rounding explains (1e-4 of the largest magnitude, 0.005 in
     * float16, 0.03 in bfloat16, twice that for a chosen kernel; only one of two finite; integers
     * by more than 1) is logged as a warning and left out: the nodes of a partition run in kernels,
     * with the reason "verify" in explain.h; the pass that chose a kernel does not run, which
     * tenon_step_info.choice tells. Compiling takes two slow runs longer, and memory for all values
     * of both at once. With dry_run it does nothing. */
    bool verify;
    /* What it computes with: arrays for the inputs (sample_count of them), used where shapes are
     * compiled without data; they must live as long as calls that compile. NULL: floats are random
     * from -1 to 1, integers 0. */
    const tenon_view *samples;
    int sample_count;
    tenon_limits limits;
} tenon_session_options;

typedef struct tenon_session tenon_session;
typedef struct tenon_context tenon_context;

/* Makes a session from a graph, which may be destroyed afterwards (the session shares its weights).
 * Passes of the model phase run here; a graph without symbols is compiled here too. `options` may
 * be NULL. */
TENON_API TENON_MUST_CHECK tenon_status tenon_session_create(const tenon_graph *graph,
                                                             const tenon_session_options *options,
                                                             tenon_session **out);

/* Contexts of the session stay usable; it goes with the last of them. */
TENON_API void tenon_session_destroy(tenon_session **session);

/* ---- Inputs and outputs, in the model's order. Thread-safe.
 * --------------------------------------------------- */

TENON_API int tenon_session_input_count(const tenon_session *session);
TENON_API const char *tenon_session_input_name(const tenon_session *session, int index);
TENON_API tenon_dtype tenon_session_input_dtype(const tenon_session *session, int index);
TENON_API int tenon_session_input_rank(const tenon_session *session, int index);
/* As tenon_value_size_text: "224", "2*s0". */
TENON_API void tenon_session_input_size_text(const tenon_session *session, int index, int dim,
                                             char *text, size_t capacity);
/* The index of the input of that name, or -1. */
TENON_API int tenon_session_find_input(const tenon_session *session, const char *name);
TENON_API int tenon_session_output_count(const tenon_session *session);
TENON_API const char *tenon_session_output_name(const tenon_session *session, int index);
TENON_API int tenon_session_find_output(const tenon_session *session, const char *name);

/* Compiles for these input shapes ahead of a run: `inputs[i]` needs dtype and shape only (`data`
 * may be NULL), except that inputs which are plain numbers need their value. INPUT_MISMATCH names
 * the input, the size and the range. Thread-safe. */
TENON_API TENON_MUST_CHECK tenon_status tenon_session_compile(tenon_session *session,
                                                              const tenon_view *inputs,
                                                              int input_count);

/* ---- Contexts
 * ------------------------------------------------------------------------------------------------
 */

/* Makes a context: its own activations and its own copy of the model's buffers. Thread-safe. */
TENON_API TENON_MUST_CHECK tenon_status tenon_context_create(tenon_session *session,
                                                             tenon_context **out);
TENON_API void tenon_context_destroy(tenon_context **context);

/* Runs the model once. `inputs[i]` is input i; inputs that the model changes are written through
 * it. Each `outputs[i]` is either zeroed (data NULL), then it receives a view of memory that
 * belongs to the context until its next run, or the caller's memory with the output's dtype and
 * shape. Outputs that are None have dtype NONE. Shapes that were not compiled yet are compiled. On
 * failure the caller's output memory is unspecified, and state and mutated inputs are as before.
 * Different contexts of one session may run at the same time. */
TENON_API TENON_MUST_CHECK tenon_status tenon_context_run(tenon_context *context,
                                                          const tenon_view *inputs, int input_count,
                                                          tenon_view *outputs, int output_count);

/* The model's mutable buffers, by name: count, name, value (valid until the next run), new value,
 * and all back to the initial values. */
TENON_API int tenon_context_state_count(const tenon_context *context);
TENON_API const char *tenon_context_state_name(const tenon_context *context, int index);
TENON_API TENON_MUST_CHECK tenon_status tenon_context_get_state(tenon_context *context,
                                                                const char *name, tenon_view *out);
TENON_API TENON_MUST_CHECK tenon_status tenon_context_set_state(tenon_context *context,
                                                                const char *name,
                                                                const tenon_view *value);
TENON_API TENON_MUST_CHECK tenon_status tenon_context_reset_state(tenon_context *context);

#ifdef __cplusplus
}
#endif
#endif
