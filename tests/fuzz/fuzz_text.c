/* A graph as text. */
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    fuzz_start();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tenon_graph *graph = fuzz_load(fuzz_write("graph.txt", data, size));
    if (graph)
        fuzz_graph(graph);
    return 0;
}
