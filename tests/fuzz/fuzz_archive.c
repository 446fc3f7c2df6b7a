/* A .pt2 archive, byte by byte. */
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    fuzz_start();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tenon_graph *graph = fuzz_load(fuzz_write("model.pt2", data, size));
    if (graph)
        fuzz_graph(graph);
    return 0;
}
