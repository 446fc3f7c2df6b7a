/* An array as .npy: read, written, and read again. */
#include "core/tensor.h"
#include "fuzz.h"
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    fuzz_start();
    return 0;
}

static void again(const tenon_tensor *tensor) {
    const tenon_view *want = tenon_tensor_view(tensor);
    const char *path = fuzz_write("again.npy", "", 0);
    tenon_tensor *copy = NULL;
    if (tenon_npy_save(path, want) != TENON_OK || tenon_npy_load(path, &copy) != TENON_OK)
        fuzz_fail("an array that was read is not written and read: %s", tenon_last_error());
    const tenon_view *got = tenon_tensor_view(copy);
    size_t bytes = (size_t)tenon_view_numel(want) * tenon_dtype_size(want->dtype);
    if (got->dtype != want->dtype || !tn_same_shape(got, want) ||
        (bytes && memcmp(got->data, want->data, bytes) != 0))
        fuzz_fail("an array that was read is another one when it was written");
    tenon_tensor_destroy(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tenon_tensor *tensor = NULL;
    tenon_view view;
    size_t at = 0;
    bool header = tenon_npy_header("header", data, size, &view, &at) == TENON_OK;
    if (tenon_npy_load(fuzz_write("array.npy", data, size), &tensor) == TENON_OK) {
        if (!header || view.dtype != tenon_tensor_view(tensor)->dtype)
            fuzz_fail("the header of an array that is read is not read");
        again(tensor);
        tenon_tensor_destroy(&tensor);
    }
    return 0;
}
