/* The entries of a .pt2 archive, in a zip file that is put around them, so that checksums are
 * right. */
#include "../c/zip_bytes.h"
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    fuzz_start();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_part parts[FUZZ_PARTS];
    int count = fuzz_split(data, size, parts);
    pack_bytes zip = {0};
    for (int i = 1; i < count; i++)
        pack_add(&zip, parts[i].name, parts[i].data, parts[i].size);
    pack_end(&zip);
    const char *path = fuzz_write("model.pt2", zip.file, zip.size);
    pack_free(&zip);
    tenon_graph *graph = fuzz_load(path);
    if (graph)
        fuzz_graph(graph);
    return 0;
}
