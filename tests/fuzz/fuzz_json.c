/* A lowered graph as JSON, and the safetensors file beside it. */
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    fuzz_start();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_part parts[FUZZ_PARTS];
    int count = fuzz_split(data, size, parts), last = count - 1;
    fuzz_write("graph.safetensors", parts[last].data, last > 0 ? parts[last].size : 0);
    tenon_graph *graph = fuzz_load(fuzz_write("graph.json", parts[0].data, parts[0].size));
    if (graph)
        fuzz_graph(graph);
    return 0;
}
