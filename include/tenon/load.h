/* Files to graphs, and back; arrays in .npy files. Read status.h first. */
#ifndef TENON_LOAD_H
#define TENON_LOAD_H

#include <tenon/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_load_options {
    /* Weights are copied, and the file may change, or be cut off, once it is loaded. Otherwise they
     * are mapped where the file allows it: that saves time and memory, and the file must then stay
     * as it is while the graph, or a session made from it, lives (a file that is cut off meanwhile
     * ends the process with SIGBUS). To put another model in its place, write a new file and rename
     * it. */
    bool copy_weights;
    /* LIMIT when the graph has more nodes; 0: 4,194,304. */
    int64_t max_nodes;
    /* LIMIT when a file becomes more than so many bytes beyond its own: the compressed entries of
     * an archive in all, and what "random", "zeros" and the like make in a text; 0: 32 MiB and 100
     * times the file's size. */
    int64_t max_unpacked_bytes;
    /* The checksums of weights that an archive holds as they are, which mapping does not look at,
     * are compared, too: INVALID_FILE names an entry that is damaged. All of the file is read for
     * it. What is unpacked, or copied out of the archive, is always compared; safetensors files
     * have no checksums. */
    bool check_weights;
} tenon_load_options;

/* Loads a model by what the file holds: a PyTorch torch.export archive (.pt2), Tenon's lowered
 * graph in JSON (weights in a safetensors file beside it), or the text form. `options` may be NULL.
 * A file that changes while it is loaded is an IO error. IO, INVALID_FILE, UNKNOWN_OP, UNSUPPORTED,
 * LIMIT. */
TENON_API TENON_MUST_CHECK tenon_status tenon_load_with(const char *path,
                                                        const tenon_load_options *options,
                                                        tenon_graph **out);

/* With the default options. */
TENON_API TENON_MUST_CHECK tenon_status tenon_load(const char *path, tenon_graph **out);

/* The same for one kind of file. */
TENON_API TENON_MUST_CHECK tenon_status tenon_load_pt2(const char *path, tenon_graph **out);
TENON_API TENON_MUST_CHECK tenon_status tenon_load_json(const char *path, tenon_graph **out);

/* Writes the lowered-graph form (docs/json-form.md): `path` ends in ".json"; the weights go to a
 * file beside it whose name ends in ".safetensors" instead. Both are written whole or not at all.
 */
TENON_API TENON_MUST_CHECK tenon_status tenon_save_json(const tenon_graph *graph, const char *path);

/* Reads an array from a .npy file (versions 1 to 3, C or Fortran order, little endian). */
TENON_API TENON_MUST_CHECK tenon_status tenon_npy_load(const char *path, tenon_tensor **out);

/* Reads the header of a .npy file from the file's first `size` bytes: dtype and shape, with
 * row-major strides (column-major where the file says so) and no data, and where the elements
 * start. `source` names the file in messages. INVALID_FILE, UNSUPPORTED; NOT_FOUND when the header
 * goes on behind these bytes, which `data_at` (written in this case too) then counts. Thread-safe.
 */
TENON_API TENON_MUST_CHECK tenon_status tenon_npy_header(const char *source, const void *bytes,
                                                         size_t size, tenon_view *out,
                                                         size_t *data_at);

/* Writes an array as .npy, row-major. bfloat16 is written as float32, which NumPy can read. The
 * file is written whole or not at all. */
TENON_API TENON_MUST_CHECK tenon_status tenon_npy_save(const char *path, const tenon_view *view);

/* Writes a file whole or not at all: a temporary file beside it takes its place at the end, with
 * the mode of the one that was there. A link stays, and what it leads to is replaced. What is no
 * regular file, such as a pipe, is written in place. IO. */
TENON_API TENON_MUST_CHECK tenon_status tenon_file_write(const char *path, const char *data,
                                                         size_t size);

#ifdef __cplusplus
}
#endif
#endif
