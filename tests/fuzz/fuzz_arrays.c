/* Sources of batch jobs: .npy, .npz and safetensors files. */
#include "batch/formats.h"
#include "batch/source.h"
#include "core/tensor.h"
#include "fuzz.h"
#include <stdlib.h>

enum { SAMPLES = 16, ROW = 1 << 20 };

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    fuzz_start();
    return 0;
}

/* The samples from both ends, and one that there is not. */
static void read_all(batch_source *source, const tenon_view *row) {
    char why[BATCH_TEXT];
    int64_t count = source->count, from = count > SAMPLES ? count - SAMPLES : 0;
    for (int64_t i = 0; i < count && i < SAMPLES; i++)
        source->fetch(source, i, row, why);
    for (int64_t i = from; i < count; i++) {
        source->name(source, i, why);
        source->fetch(source, i, row, why);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_write("arrays", data, size);
    batch_field field = {.name = "x"};
    batch_source *source = NULL;
    tenon_view whole = {0};
    batch_source_peek(path, "x", &whole);
    if (whole.dtype == TENON_DTYPE_NONE)
        return 0;
    for (int skip = 0; skip < 2 && skip <= whole.rank; skip++) {
        int64_t numel = tn_numel(whole.rank - skip, whole.shape + skip);
        if (numel < 0 || numel * (int64_t)tenon_dtype_size(whole.dtype) > ROW)
            continue;
        field.row = tn_view_make(NULL, whole.dtype, whole.rank - skip, whole.shape + skip);
        field.bytes = (size_t)numel * tenon_dtype_size(whole.dtype);
        if (batch_source_files(path, &field, 1, &source) != TENON_OK)
            continue;
        tenon_view row = field.row;
        row.data = malloc(field.bytes + 1);
        read_all(source, &row);
        free(row.data);
        batch_source_destroy(&source);
    }
    return 0;
}
