#include "profiler/share.h"

#define BYTE_WEIGHT 8.0 /* operations that take about as long as moving a byte */

static bool holds(tenon_value *const *values, int32_t count, const tenon_value *value) {
    for (int32_t i = 0; i < count; i++)
        if (values[i] == value)
            return true;
    return false;
}

double tn_node_weight(const tn_plan *plan, const tn_partition *partition, const tenon_node *node) {
    double bytes = 0;
    for (int32_t i = 0; i < node->use_count; i++) {
        const tenon_value *value = node->uses[i].value;
        if (holds(partition->inputs, partition->input_count, value))
            bytes += (double)tn_bytes_read(NULL, value, &plan->views[value->id]);
    }
    for (int32_t i = 0; i < node->output_count; i++) {
        const tenon_value *value = node->outputs[i];
        if (holds(partition->outputs, partition->output_count, value))
            bytes += (double)tn_bytes_read(NULL, value, &plan->views[value->id]);
    }
    return tn_node_flops(node) + BYTE_WEIGHT * bytes;
}

void tn_share_time(const tn_plan *plan, const tn_step *step, int64_t total, int64_t *shares) {
    const tn_partition *partition = step->partition;
    if (!partition) {
        shares[0] = total;
        return;
    }
    int32_t count = partition->node_count;
    double sum = 0, before = 0;
    for (int32_t i = 0; i < count; i++)
        sum += tn_node_weight(plan, partition, partition->nodes[i]);
    int64_t least = total >= count ? 1 : 0, rest = total - least * count, given = 0;
    for (int32_t i = 0; i < count; i++) {
        before += sum > 0 ? tn_node_weight(plan, partition, partition->nodes[i]) / sum : 0;
        int64_t until = i == count - 1 ? rest : (int64_t)((double)rest * before);
        until = until < rest ? until : rest;
        shares[i] = least + until - given;
        given = until;
    }
}
