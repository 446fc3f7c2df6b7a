/* Loads a model, runs it once on inputs filled with zeros, and prints the first numbers of each
 * output.
 *
 *     cc host_app.c $(pkg-config --cflags --libs tenon) -o host_app
 *     ./host_app model.pt2
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#define CHECK(call)                                      \
    do {                                                 \
        if ((call) != TENON_OK) {                        \
            fprintf(stderr, "%s\n", tenon_last_error()); \
            exit(EXIT_FAILURE);                          \
        }                                                \
    } while (0)

/* A tensor of zeros for an input; sizes that the model leaves open become 2. */
static tenon_tensor *zeros(const tenon_value *input) {
    int64_t shape[TENON_MAX_RANK];
    tenon_tensor *tensor = NULL;
    for (int d = 0; d < tenon_value_rank(input); d++)
        shape[d] = tenon_value_size(input, d) >= 0 ? tenon_value_size(input, d) : 2;
    CHECK(tenon_tensor_create(tenon_value_dtype(input), tenon_value_rank(input), shape, &tensor));
    return tensor;
}

int main(int argc, char **argv) {
    enum { MAX = 16 };
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    tenon_tensor *tensors[MAX] = {NULL};
    tenon_view inputs[MAX], outputs[MAX] = {0}; /* zeroed: the context brings the memory */

    CHECK(tenon_load(argc > 1 ? argv[1] : "model.pt2", &graph));
    CHECK(tenon_session_create(graph, NULL, &session));
    CHECK(tenon_context_create(session, &context));

    int input_count = tenon_graph_input_count(graph);
    int output_count = tenon_graph_output_count(graph);
    if (input_count > MAX || output_count > MAX)
        return EXIT_FAILURE;
    for (int i = 0; i < input_count; i++) {
        tensors[i] = zeros(tenon_graph_input(graph, i));
        inputs[i] = *tenon_tensor_view(tensors[i]);
    }
    CHECK(tenon_context_run(context, inputs, input_count, outputs, output_count));

    for (int i = 0; i < output_count; i++) {
        printf("%s: %s", tenon_session_output_name(session, i), tenon_dtype_text(outputs[i].dtype));
        for (int64_t j = 0; outputs[i].dtype == TENON_FLOAT32 && j < 4; j++)
            if (j < tenon_view_numel(&outputs[i]))
                printf(" %g", ((const float *)outputs[i].data)[j]);
        printf("\n");
    }
    for (int i = 0; i < input_count; i++)
        tenon_tensor_destroy(&tensors[i]);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
    return EXIT_SUCCESS;
}
