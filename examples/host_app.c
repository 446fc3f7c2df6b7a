/* Loads a model, runs it once on inputs filled with ones, and prints the first numbers of each
 * output.
 *
 *     cc host_app.c $(pkg-config --cflags --libs tenon) -o host_app
 *     ./host_app model.pt2
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#define MAX 16

/* A tensor of ones for input `index`; sizes that the model leaves open become 2. */
static tenon_status fill_input(const tenon_graph *graph, int index, tenon_tensor **out) {
    const tenon_value *input = tenon_graph_input(graph, index);
    int64_t shape[TENON_MAX_RANK];
    tenon_tensor *ones;
    int rank = tenon_value_rank(input);
    for (int d = 0; d < rank; d++)
        shape[d] = tenon_value_size(input, d) >= 0 ? tenon_value_size(input, d) : 2;
    tenon_status status = tenon_tensor_create(TENON_FLOAT32, rank, shape, &ones);
    for (int64_t i = 0; status == TENON_OK && i < tenon_view_numel(tenon_tensor_view(ones)); i++)
        ((float *)tenon_tensor_view(ones)->data)[i] = 1;
    if (status == TENON_OK)
        status = tenon_tensor_create(tenon_value_dtype(input), rank, shape, out);
    if (status == TENON_OK)
        status = tenon_view_copy(tenon_tensor_view(*out), tenon_tensor_view(ones));
    tenon_tensor_destroy(&ones);
    return status;
}

int main(int argc, char **argv) {
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    tenon_tensor *tensors[MAX] = {NULL};
    tenon_view inputs[MAX], outputs[MAX] = {{0}};
    tenon_status status = argc == 2 ? tenon_load(argv[1], &graph) : TENON_INVALID_ARGUMENT;
    int n = graph ? tenon_graph_input_count(graph) : 0,
        m = graph ? tenon_graph_output_count(graph) : 0;

    if (status == TENON_OK)
        status =
            n <= MAX && m <= MAX ? tenon_session_create(graph, NULL, &session) : TENON_UNSUPPORTED;
    if (status == TENON_OK)
        status = tenon_context_create(session, &context);
    for (int i = 0; i < n && status == TENON_OK; i++) {
        status = fill_input(graph, i, &tensors[i]);
        inputs[i] = status == TENON_OK ? *tenon_tensor_view(tensors[i]) : (tenon_view){0};
    }
    if (status == TENON_OK)
        status = tenon_context_run(context, inputs, n, outputs, m);
    for (int i = 0; i < m && status == TENON_OK; i++) {
        printf("%s: %s", tenon_session_output_name(session, i), tenon_dtype_text(outputs[i].dtype));
        for (int64_t j = 0;
             outputs[i].dtype == TENON_FLOAT32 && j < 4 && j < tenon_view_numel(&outputs[i]); j++)
            printf(" %g", ((const float *)outputs[i].data)[j]);
        printf("\n");
    }
    if (status != TENON_OK)
        fprintf(stderr, "%s: %s\n", tenon_status_text(status),
                argc == 2 ? tenon_last_error() : "give one model");

    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
    for (int i = 0; i < MAX; i++)
        tenon_tensor_destroy(&tensors[i]);
    return status == TENON_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
